"""What is measured: each metric's name, unit, better side and meaning.

A simulated run gives the metrics of `METRICS`, which crate `results` declares with how each is computed, and the metric
of its benchmark, which the benchmark's model declares.
The better side and the unit also decide how values are averaged (`opplab.runs.is_rate`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from functools import cache

from opplab import _opplab


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric, or a family of metrics whose name has a part in capitals."""

    name: str
    """A word in capitals stands for the name of a cluster, a consumer, a frequency in kHz, an idle state, a cpufreq
    policy, a control group or a percentile (`PERCENTILES`)."""
    unit: str
    better: str
    """``higher``, ``lower``, or empty where neither is meant."""
    kind: str
    """``whole``: something to be better at; ``part``: a share of the metric before the colon, which holds it already;
    ``detail``: how a run came to its numbers."""
    about: str


METRICS: tuple[Metric, ...] = tuple(Metric(*declared) for declared in _opplab.metrics_of_runs())

POWER_AT_PACE = "power_at_pace"
"""The power of a benchmark's steady part, where what was simulated is mostly the start of its tasks."""

PERCENTILES = ("p50", "p90", "p95", "p99", "max")
"""What stands for the percentile in a name."""

ALIASES = {
    "latency": "latency_p99",
    "response": "response_p99",
    "missed": "missed_activations",
    "throughput": "rate",
}
"""Common names, and the metric that each means where nothing measures one of that name."""

_EVENTS = {
    **dict.fromkeys(("missed_activations", "missed_at_start", "unfinished_activations"), "activations"),
    "lost_resumes": "resumes",
    "group_missed:": "group_activations:",
    "group_throttled_periods:": "group_periods:",
}
"""Of each share of counted events, the metric that counts them; a family is what its names begin with."""

FRAMES = "frames:"
"""What the names of a GPU's frames begin with."""

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
    return tuple(
        Metric(
            model["metric"],
            model["unit"],
            "higher" if model["higher_is_better"] else "lower",
            "whole",
            f"what {model['name']} reports",
        )
        for model in _opplab.benchmarks()
        if model["metric"]
    )


def events_of(name: str) -> str:
    """Give the metric that counts the events of which a metric is a share; empty for any other metric.

    Examples
    --------
    >>> events_of("lost_resumes"), events_of("group_missed:web"), events_of("overutilized")
    ('resumes', 'group_activations:web', '')
    """
    kind, colon, whose = name.partition(":")
    found = _EVENTS.get(kind + colon, "")
    return found + whose if found else ""


def is_answer(name: str) -> bool:
    """Whether a metric is something to be better at, and neither a part of another nor a detail.

    Examples
    --------
    >>> is_answer("energy"), is_answer("energy:big"), is_answer("switches"), is_answer("PkgWatt")
    (True, False, False, True)
    """
    found = find(name)
    return found is None or found.kind == "whole"


def powers(runs: Iterable[Container[str]]) -> tuple[str, ...]:
    """Give the metrics that are the power of runs which measured these: at pace where that is known.

    Examples
    --------
    >>> powers([{"power", "power_at_pace"}]), powers([{"power", "power_at_pace"}, {"power"}])
    (('power_at_pace',), ('power', 'power_at_pace'))
    """
    known = list(runs)
    at_pace = [POWER_AT_PACE in names for names in known]
    return (*(("power",) if not all(at_pace) else ()), *((POWER_AT_PACE,) if any(at_pace) else ()))


def answers(names: Iterable[str]) -> list[str]:
    """Give those of `names` that a benchmark itself measures, and frames of a GPU, in order and each once.

    Examples
    --------
    >>> answers(["energy", "throughput", "frames:gpu", "throughput"])
    ['throughput', 'frames:gpu']
    """
    own = {one.name for one in of_models()}
    return list(dict.fromkeys(name for name in names if name in own or _family(name) == FRAMES))
