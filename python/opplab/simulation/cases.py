"""Cases and what is measured in them.

A `Case` is one cell of an experiment's matrix: machine, workload, policy, seed and length as one string of JSON, with
the labels that its results carry.  `rows_of` turns what the engine counted (integers) into result rows (SI units).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from opplab import _opplab
from opplab.metrics import find
from opplab.simulation.power import energy_factors, known_power

__all__ = ["Case", "rows_of"]


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

    def put(metric: str, value: float | None) -> None:
        declared = find(metric)
        assert declared is not None, metric
        number = None if value is None else float(value)
        labels = {"metric": metric, "unit": declared.unit, "better": declared.better}
        rows.append({**common, **labels, "value": number})

    wall_ns = outcome["wall_ns"]
    known, factors = _powers(_machine_text(case.json))
    energies = outcome["cluster_energy_fj"]
    energy_fj = sum(energies) if all(known) else None
    if outcome["metric"] is not None:
        name, unit, better, value = outcome["metric"]
        if value is not None:
            # Of its own model, which alone knows its unit.
            rows.append({**common, "metric": name, "unit": unit, "better": better, "value": float(value)})
    put("energy", None if energy_fj is None else energy_fj / 1e15)
    for number, name in enumerate(("energy_low", "energy_high")):
        if factors is not None and energy_fj is not None:
            put(name, sum(fj * factor[number] for fj, factor in zip(energies, factors, strict=True)) / 1e15)
    for cluster, energy, told in zip(outcome["clusters"], energies, known, strict=True):
        put(f"energy:{cluster['name']}", energy / 1e15 if told else None)
    put("energy:rest", outcome["floor_energy_fj"] / 1e15)
    for consumer in outcome["consumers"]:
        put(f"energy:{consumer['name']}", consumer["energy_fj"] / 1e15)
        put(f"frames:{consumer['name']}", consumer["frames"] * 1e9 / wall_ns)
    put("power", None if energy_fj is None else energy_fj / 1e6 / wall_ns)
    for cluster, energy, told in zip(outcome["clusters"], energies, known, strict=True):
        put(f"power:{cluster['name']}", energy / 1e6 / wall_ns if told else None)
    put("power:rest", outcome["floor_energy_fj"] / 1e6 / wall_ns)
    put("activations", outcome["activations"])
    missed = 100 * outcome["missed_activations"] / outcome["activations"] if outcome["activations"] else 0.0
    put("missed_activations", missed)
    if outcome["counts"]:
        put("rate", outcome["counts"] * 1e9 / wall_ns)
    for number, cluster in enumerate(outcome["clusters"]):
        name, cpus = cluster["name"], cluster["cpus"]
        cpu_ns = wall_ns * len(cpus)
        for column, khz in enumerate(cluster["opps_khz"]):
            total = sum(outcome["time_ns_by_opp"][cpu][column] for cpu in cpus)
            busy = sum(outcome["busy_ns_by_opp"][cpu][column] for cpu in cpus)
            put(f"freq_residency:{name}@{khz}", 100 * total / cpu_ns)
            put(f"busy:{name}@{khz}", 100 * busy / cpu_ns)
        for column, state in enumerate([*cluster["idle_states"], "none"]):
            idle = sum(outcome["idle_ns_by_state"][cpu][column] for cpu in cpus)
            put(f"idle_residency:{name}@{state}", 100 * idle / cpu_ns)
        put(f"task_time:{name}", sum(times[number] for times in outcome["task_ns_by_cluster"]) / 1e9)
    for policy, changes in enumerate(outcome["freq_changes"]):
        put(f"freq_changes:policy{policy}", changes)
    put("overutilized", 100 * outcome["overutilized_ns"] / wall_ns)
    put("overutilized_changes", outcome["overutilized_changes"])
    put("migrations", outcome["migrations"])
    put("switches", outcome["switches"])
    put("work_done", outcome["work_done"] / (1 << 20) / 1e9)
    put("engine_events", outcome["engine_events"])
    for name in ("latency", "response"):
        for percent, wait_ns in outcome.get(f"{name}_ns") or ():
            put(f"{name}_{'max' if percent == 100 else f'p{percent}'}", wait_ns / 1e6)
    for group in outcome.get("groups", ()):
        for metric, value in _of_group(group, energy_known=energy_fj is not None):
            put(f"{metric}:{group['name']}", value)
    return rows


def _of_group(group: Mapping[str, Any], *, energy_known: bool) -> Iterator[tuple[str, float | None]]:
    """Give a control group's metrics; those of a quota only if it has one."""
    yield "group_energy", group["energy_fj"] / 1e15 if energy_known else None
    yield "group_usage", group["usage_ns"] / 1e9
    if group["quota"]:
        periods = group["nr_periods"]
        yield "group_periods", periods
        yield "group_throttled_periods", 100 * group["nr_throttled"] / periods if periods else 0.0
        yield "group_throttled", group["throttled_ns"] / 1e9
        yield "group_bursts", group["nr_bursts"]
        yield "group_burst", group["burst_ns"] / 1e9
    if group["activations"]:
        yield "group_missed", 100 * group["missed_activations"] / group["activations"]
    for name, percents in (("latency", (50, 99)), ("response", (99,))):
        for percent, wait_ns in group[f"{name}_ns"] or ():
            if percent in percents:
                yield f"group_{name}_p{percent}", wait_ns / 1e6
