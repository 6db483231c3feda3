"""Cases and what is measured in them.

A `Case` is one cell of an experiment's matrix: machine, workload, policy, seed and length as one string of JSON, with
the labels that its results carry.  `rows_of` turns what the engine counted (integers) into result rows (SI units).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opplab import _opplab
from opplab.simulation.power import energy_factors, known_power

__all__ = ["METRICS", "Case", "rows_of"]


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be made.

    Attributes
    ----------
    hash : str
        Hash of `json`; the name of the case's file in a results folder.
    experiment, machine, kernel, policy, benchmark, param : str
        Labels of its results.
    iteration : int
        From 0.
    seed : int
        Seed of all its random draws.
    duration_ns : int
        Simulated time.
    json : str
        Everything that the run depends on.
    """

    hash: str
    experiment: str
    machine: str
    kernel: str
    policy: str
    benchmark: str
    param: str
    iteration: int
    seed: int
    duration_ns: int
    json: str

    @classmethod
    def of(cls, inner: _opplab.Case) -> Case:
        """Give the plain form of an extension's case, which can be sent to another process."""
        return cls(
            hash=inner.hash(),
            experiment=inner.experiment,
            machine=inner.machine,
            kernel=inner.kernel,
            policy=inner.policy,
            benchmark=inner.benchmark,
            param=inner.param,
            iteration=inner.iteration,
            seed=inner.seed,
            duration_ns=inner.duration_ns,
            json=inner.to_json(),
        )

    @property
    def size(self) -> int:
        """How much work it is, for the order of cases: CPUs and tasks, of which its text is made, for that long."""
        return self.duration_ns * len(self.json)

    @property
    def label(self) -> str:
        """Words for messages: policy, benchmark, parameters, iteration."""
        return " ".join(filter(None, (self.policy, self.benchmark, self.param, f"#{self.iteration}")))


# What every run gives, beside the metric of its benchmark: name, unit, which way is better, what it is. A word in
# capitals stands for the name of a cluster, a consumer, a frequency in kHz, an idle state, a cpufreq policy or a
# percentile (p50, p90, p95, p99, max).
METRICS: tuple[tuple[str, str, str, str], ...] = (
    ("energy", "J", "lower", "energy of all clusters after the warm-up"),
    ("energy_low", "J", "", "energy at the low ends of the ranges of the machine's powers"),
    ("energy_high", "J", "", "energy at the high ends of the ranges of the machine's powers"),
    ("energy:CLUSTER", "J", "lower", "energy of a cluster"),
    ("energy:rest", "J", "lower", "energy of the rest of the machine"),
    ("energy:CONSUMER", "J", "lower", "energy of a consumer that is no CPU, such as a GPU"),
    ("frames:CONSUMER", "1/s", "higher", "frames of a GPU a second"),
    ("power", "W", "lower", "mean power of all clusters"),
    ("power:CLUSTER", "W", "lower", "mean power of a cluster"),
    ("power:rest", "W", "lower", "mean power of the rest of the machine"),
    ("activations", "1", "", "activations of periodic tasks that were finished"),
    ("missed_activations", "%", "lower", "share of activations that were not finished in their period"),
    ("rate", "1/s", "higher", "what the workload counts, a second"),
    ("freq_residency:CLUSTER@KHZ", "%", "", "share of a cluster's CPU time at a frequency"),
    ("busy:CLUSTER@KHZ", "%", "", "share of a cluster's CPU time that it was busy at a frequency"),
    ("idle_residency:CLUSTER@STATE", "%", "", "share of a cluster's CPU time in an idle state; none: awake"),
    ("task_time:CLUSTER", "s", "", "time that tasks ran on a cluster"),
    ("freq_changes:POLICY", "1", "", "changes of a cpufreq policy's frequency"),
    ("overutilized", "%", "lower", "share of the time in which energy-aware placement was off for overload"),
    ("migrations", "1", "", "moves of tasks to another CPU"),
    ("switches", "1", "", "context switches"),
    ("work_done", "s", "", "work that was done, in seconds of the biggest CPU at its highest frequency"),
    ("latency_PERCENTILE", "ms", "lower", "from a task's wake-up to its running; where somebody asks for it (choose)"),
    (
        "response_PERCENTILE",
        "ms",
        "lower",
        "from an activation's timer to its end; where somebody asks for it (choose)",
    ),
    ("engine_events", "1", "", "events that the simulator handled"),
)


def _machine_text(case_json: str) -> str:
    """Give the machine's part of a case's canonical JSON: its keys have one order, quotes within words are escaped."""
    start = case_json.index(',"machine":') + len(',"machine":')
    return case_json[start : case_json.index(',"policy":{', start)]


@lru_cache(maxsize=64)
def _powers(machine_text: str) -> tuple[list[bool], list[tuple[float, float]] | None]:
    """Give what is known of a machine's powers, read once for all cases of it."""
    machine = json.loads(machine_text)
    return known_power(machine), energy_factors(machine)


def rows_of(case: Case, outcome: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the result rows of a finished case.

    Parameters
    ----------
    case : Case
    outcome : mapping
        What ``_opplab.Case.run`` gave: counters, energies in fJ, times in ns.

    Returns
    -------
    list of dict
        Rows of `opplab.results.SCHEMA`.

    Notes
    -----
    All figures are of the time after the warm-up.  A benchmark's own metric comes first, under its own name; it is
    absent if the run was too short for it.  ``energy`` is the sum of the clusters, as the Juno's meters are summed in
    the tables; the rest of the machine is ``energy:rest``; ``power`` is the mean of the same.  Where a cluster's power
    is not known, these are null; where the machine file has ranges of its powers, ``energy_low`` and ``energy_high``
    are the energy at their ends.  Residencies are shares of the cluster's CPU time in percent.
    """
    common = {
        "experiment": case.experiment,
        "source": "sim",
        "machine": case.machine,
        "kernel": case.kernel,
        "policy": case.policy,
        "benchmark": case.benchmark,
        "param": case.param,
        "iteration": case.iteration,
        "seed": case.seed,
        "fingerprint": f"{outcome['fingerprint']:016x}",
    }
    rows: list[dict[str, Any]] = []

    def put(metric: str, unit: str, value: float | None, better: str = "") -> None:
        number = None if value is None else float(value)
        rows.append({**common, "metric": metric, "unit": unit, "better": better, "value": number})

    wall_ns = outcome["wall_ns"]
    known, factors = _powers(_machine_text(case.json))
    energies = outcome["cluster_energy_fj"]
    energy_fj = sum(energies) if all(known) else None
    if outcome["metric"] is not None:
        name, unit, better, value = outcome["metric"]
        if value is not None:
            put(name, unit, value, better)
    put("energy", "J", None if energy_fj is None else energy_fj / 1e15, "lower")
    for number, name in enumerate(("energy_low", "energy_high")):
        if factors is not None and energy_fj is not None:
            put(name, "J", sum(fj * factor[number] for fj, factor in zip(energies, factors, strict=True)) / 1e15)
    for cluster, energy, told in zip(outcome["clusters"], energies, known, strict=True):
        put(f"energy:{cluster['name']}", "J", energy / 1e15 if told else None, "lower")
    put("energy:rest", "J", outcome["floor_energy_fj"] / 1e15, "lower")
    for consumer in outcome["consumers"]:
        put(f"energy:{consumer['name']}", "J", consumer["energy_fj"] / 1e15, "lower")
        put(f"frames:{consumer['name']}", "1/s", consumer["frames"] * 1e9 / wall_ns, "higher")
    put("power", "W", None if energy_fj is None else energy_fj / 1e6 / wall_ns, "lower")
    for cluster, energy, told in zip(outcome["clusters"], energies, known, strict=True):
        put(f"power:{cluster['name']}", "W", energy / 1e6 / wall_ns if told else None, "lower")
    put("power:rest", "W", outcome["floor_energy_fj"] / 1e6 / wall_ns, "lower")
    put("activations", "1", outcome["activations"])
    missed = 100 * outcome["missed_activations"] / outcome["activations"] if outcome["activations"] else 0.0
    put("missed_activations", "%", missed, "lower")
    if outcome["counts"]:
        put("rate", "1/s", outcome["counts"] * 1e9 / wall_ns, "higher")
    for number, cluster in enumerate(outcome["clusters"]):
        name, cpus = cluster["name"], cluster["cpus"]
        cpu_ns = wall_ns * len(cpus)
        for column, khz in enumerate(cluster["opps_khz"]):
            total = sum(outcome["time_ns_by_opp"][cpu][column] for cpu in cpus)
            busy = sum(outcome["busy_ns_by_opp"][cpu][column] for cpu in cpus)
            put(f"freq_residency:{name}@{khz}", "%", 100 * total / cpu_ns)
            put(f"busy:{name}@{khz}", "%", 100 * busy / cpu_ns)
        for column, state in enumerate([*cluster["idle_states"], "none"]):
            idle = sum(outcome["idle_ns_by_state"][cpu][column] for cpu in cpus)
            put(f"idle_residency:{name}@{state}", "%", 100 * idle / cpu_ns)
        put(f"task_time:{name}", "s", sum(times[number] for times in outcome["task_ns_by_cluster"]) / 1e9)
    for policy, changes in enumerate(outcome["freq_changes"]):
        put(f"freq_changes:policy{policy}", "1", changes)
    put("overutilized", "%", 100 * outcome["overutilized_ns"] / wall_ns, "lower")
    put("migrations", "1", outcome["migrations"])
    put("switches", "1", outcome["switches"])
    put("work_done", "s", outcome["work_done"] / (1 << 20) / 1e9)
    put("engine_events", "1", outcome["engine_events"])
    for name in ("latency", "response"):
        for percent, wait_ns in outcome.get(f"{name}_ns") or ():
            put(f"{name}_{'max' if percent == 100 else f'p{percent}'}", "ms", wait_ns / 1e6, "lower")
    return rows
