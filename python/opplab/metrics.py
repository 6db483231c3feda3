"""What is measured: the one declaration of each metric's name, unit, better side and meaning.

A simulated run gives the metrics of `METRICS` and the metric of its benchmark, which the benchmark's model declares.
The better side also decides how values are averaged: harmonically where more is better (rates), else arithmetically.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

__all__ = ["METRICS", "Metric", "answers", "find", "is_answer", "of_models"]

WHOLE = "whole"
PART = "part"
DETAIL = "detail"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, or a family of metrics whose name has a part in capitals.

    Attributes
    ----------
    name : str
        A word in capitals stands for the name of a cluster, a consumer, a frequency in kHz, an idle state, a cpufreq
        policy, a control group or a percentile (p50, p90, p95, p99, max).
    unit : str
    better : str
        ``higher``, ``lower``, or empty where neither is meant.
    about : str
    kind : str
        ``whole``: something to be better at; ``part``: a share of the metric before the colon, which holds it already;
        ``detail``: how a run came to its numbers.
    """

    name: str
    unit: str
    better: str
    about: str
    kind: str = WHOLE


METRICS: tuple[Metric, ...] = (
    Metric("energy", "J", "lower", "energy of all clusters after the warm-up"),
    Metric("energy_low", "J", "", "energy at the low ends of the ranges of the machine's powers", DETAIL),
    Metric("energy_high", "J", "", "energy at the high ends of the ranges of the machine's powers", DETAIL),
    Metric("energy:CLUSTER", "J", "lower", "energy of a cluster", PART),
    Metric("energy:rest", "J", "lower", "energy of the rest of the machine", PART),
    Metric("energy:CONSUMER", "J", "lower", "energy of a consumer that is no CPU, such as a GPU", PART),
    Metric("frames:CONSUMER", "1/s", "higher", "frames of a GPU a second"),
    Metric("power", "W", "lower", "mean power of all clusters"),
    Metric("power:CLUSTER", "W", "lower", "mean power of a cluster", PART),
    Metric("power:rest", "W", "lower", "mean power of the rest of the machine", PART),
    Metric("activations", "1", "", "activations of periodic tasks that were finished", DETAIL),
    Metric("missed_activations", "%", "lower", "share of activations that were not finished in their period"),
    Metric("rate", "1/s", "higher", "what the workload counts, a second"),
    Metric("freq_residency:CLUSTER@KHZ", "%", "", "share of a cluster's CPU time at a frequency", DETAIL),
    Metric("busy:CLUSTER@KHZ", "%", "", "share of a cluster's CPU time that it was busy at a frequency", DETAIL),
    Metric(
        "idle_residency:CLUSTER@STATE", "%", "", "share of a cluster's CPU time in an idle state; none: awake", DETAIL
    ),
    Metric("task_time:CLUSTER", "s", "", "time that tasks ran on a cluster", DETAIL),
    Metric("freq_changes:POLICY", "1", "", "changes of a cpufreq policy's frequency", DETAIL),
    Metric("overutilized", "%", "lower", "share of the time in which energy-aware placement was off for overload"),
    Metric("overutilized_changes", "1", "", "how often energy-aware placement went off or on again", DETAIL),
    Metric("migrations", "1", "", "moves of tasks to another CPU"),
    Metric("switches", "1", "", "context switches", DETAIL),
    Metric("work_done", "s", "", "work that was done, in seconds of the biggest CPU at its highest frequency", DETAIL),
    Metric(
        "latency_PERCENTILE",
        "ms",
        "lower",
        "from a task's wake-up to its running; where somebody asks for it (choose)",
    ),
    Metric(
        "response_PERCENTILE",
        "ms",
        "lower",
        "from an activation's timer to its end; where somebody asks for it (choose)",
    ),
    Metric("group_energy:GROUP", "J", "lower", "energy of the tasks of a control group and of the groups in it", PART),
    Metric("group_usage:GROUP", "s", "", "CPU time of a control group (cpu.stat: usage_usec)", DETAIL),
    Metric("group_periods:GROUP", "1", "", "periods of a control group's quota (cpu.stat: nr_periods)", DETAIL),
    Metric("group_throttled_periods:GROUP", "%", "lower", "share of these in which it was throttled (nr_throttled)"),
    Metric(
        "group_throttled:GROUP", "s", "lower", "time that its queues were throttled, over all CPUs (throttled_usec)"
    ),
    Metric("group_bursts:GROUP", "1", "", "periods that used saved runtime (cpu.stat: nr_bursts)", DETAIL),
    Metric("group_burst:GROUP", "s", "", "runtime beyond the quota that was used (cpu.stat: burst_usec)", DETAIL),
    Metric("group_missed:GROUP", "%", "lower", "share of a control group's activations that were not finished in time"),
    Metric("group_latency_p50:GROUP", "ms", "lower", "from a wake-up of its tasks to running, median"),
    Metric("group_latency_p99:GROUP", "ms", "lower", "the same, 99th percentile"),
    Metric("group_response_p99:GROUP", "ms", "lower", "from timers of its tasks to the end of activations"),
    Metric("engine_events", "1", "", "events that the simulator handled", DETAIL),
)

_BY_NAME = {one.name: one for one in METRICS}


def _family(name: str) -> str:
    """Give what a name and its family begin with: ``power:`` of ``power:pkg0``, ``latency_`` of ``latency_p99``."""
    kind, colon, _ = name.partition(":")
    return kind + colon if colon else f"{name.rpartition('_')[0]}_"


_BY_FAMILY = {_family(one.name): one for one in reversed(METRICS) if any(map(str.isupper, one.name))}


@cache
def find(name: str) -> Metric | None:
    """Give the declaration of a metric that any run has; None for what a benchmark or somebody else declares.

    Examples
    --------
    >>> find("power:pkg0").kind, find("latency_p99").unit, find("PkgWatt")
    ('part', 'ms', None)
    """
    return _BY_NAME.get(name) or _BY_FAMILY.get(_family(name))


@cache
def of_models() -> tuple[Metric, ...]:
    """Give what the benchmark models declare; one name may be that of several models."""
    from opplab import _opplab

    return tuple(
        Metric(
            model["metric"],
            model["unit"],
            "higher" if model["higher_is_better"] else "lower",
            f"what {model['name']} reports",
        )
        for model in _opplab.benchmarks()
        if model["metric"]
    )


def is_answer(name: str) -> bool:
    """Whether a metric is something to be better at, and neither a part of another nor a detail.

    Examples
    --------
    >>> is_answer("energy"), is_answer("energy:big"), is_answer("switches"), is_answer("PkgWatt")
    (True, False, False, True)
    """
    found = find(name)
    return found is None or found.kind == WHOLE


def answers(names: Iterable[str]) -> list[str]:
    """Give those of `names` that a benchmark itself measures, and frames of a GPU, in order and each once.

    Examples
    --------
    >>> answers(["energy", "throughput", "frames:gpu", "throughput"])
    ['throughput', 'frames:gpu']
    """
    own = {one.name for one in of_models()}
    return list(dict.fromkeys(name for name in names if name in own or _family(name) == "frames:"))
