"""What an answer does not hold: refused settings, power that is not the CPUs', models that were not measured."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from opplab.sweep.experiments import Experiment
from opplab.sweep.power_profiles import ACTIVE, HINTED

__all__ = ["caveats", "counts_idle_as_nothing", "ignored"]

_MEASURED_EPP = ("", "balance_performance", 128)
_PERFORMANCE_EPP = ("", "performance", 0)
_MOSTLY = 0.5
"""The share of a run's power from which what packages draw at any load is named."""


def ignored(policy: Mapping[str, Any], driver: str) -> list[str]:
    """Name settings of a policy that the driver refuses, or has no file for.

    Examples
    --------
    >>> ignored({"governor": "performance", "epp": "power"}, "intel_pstate")
    ['intel_pstate refuses the preference power under its governor performance']
    >>> ignored({"governor": "powersave", "epp": "power", "no_hwp": True}, "intel_pstate")
    ['without HWP there is no energy performance preference: epp power does nothing']
    """
    epp, dynamic = policy.get("epp", ""), policy.get("hwp_dynamic_boost", "auto")
    if policy.get("no_hwp") and driver.startswith("intel"):
        words = []
        if epp != "":
            words.append(f"without HWP there is no energy performance preference: epp {epp} does nothing")
        if dynamic != "auto":
            words.append(f"without HWP there is no hwp_dynamic_boost: {dynamic} does nothing")
        return words
    if driver in ACTIVE and policy.get("governor") == "performance" and epp not in _PERFORMANCE_EPP:
        return [f"{driver} refuses the preference {epp} under its governor performance"]
    return []


def caveats(experiment: Experiment, powers_w: Iterable[tuple[str, float | None]]) -> str:
    """Give the sentences; `powers_w`: machine and power of each line."""
    each = {(case.machine, case.policy): case for case in experiment.cases}
    files = {place: json.loads(case.json) for place, case in each.items()}
    machines = {machine: file["machine"] for (machine, _), file in files.items()}
    settings: dict[str, list[str]] = {}
    preferences: dict[Any, None] = {}
    for (name, label), file in files.items():
        policy, driver = file["policy"], each[name, label].inner.driver
        for words in ignored(policy, driver):
            settings.setdefault(words, [])
            settings[words] += [label] if label not in settings[words] else []
        hinted = driver in HINTED and not policy.get("no_hwp") and policy.get("governor") != "performance"
        has_hwp = any("hwp" in cluster for cluster in file["machine"]["cluster"])
        if hinted and has_hwp and policy.get("epp", "") not in _MEASURED_EPP:
            preferences[policy["epp"]] = None
    notes = [f"{', '.join(labels)}: {words}." for words, labels in settings.items()]
    if preferences:
        names = ", ".join(map(str, preferences))
        notes.append(f"What the firmware makes of the energy preference {names} is assumed: only 128 was measured.")
    for name, machine in machines.items():
        who = ", ".join(str(consumer["name"]) for consumer in machine.get("consumer", []))
        if who:
            notes.append(f"Energy and power of {name} are its CPUs': {who} draws beside them (energy:{who}).")
        if counts_idle_as_nothing(machine):
            notes.append(
                f"{name} has no power of idle states and clusters: they count as 0, so that joules are too few."
            )
        notes += _awake(name, machine, [power for of, power in powers_w if of == name and power])
    return " ".join(notes)


def counts_idle_as_nothing(machine: Mapping[str, Any]) -> bool:
    """Whether a machine has power of busy CPUs, and none of anything else."""
    clusters = machine["cluster"]
    busy = any(opp.get("uw") or opp.get("busy_uw") for cluster in clusters for opp in cluster["opp"])
    rest = any(
        any(state.get("uw") for state in cluster.get("idle", ()))
        or any(opp.get("cluster_uw") for opp in cluster["opp"])
        or any(state.get("uw") for state in cluster.get("cluster_idle", ()))
        or any("cluster_idle_" in key for key in cluster)
        for cluster in clusters
    )
    return busy and not rest and not machine.get("floor_uw")


def _awake(name: str, machine: Mapping[str, Any], powers_w: Sequence[float]) -> list[str]:
    """Report that packages without a sleep state draw most of a run's power whatever it does."""
    clusters = machine["cluster"]
    if not powers_w or any(one.get("cluster_idle") or any("cluster_idle_" in key for key in one) for one in clusters):
        return []
    awake_w = sum(min(opp.get("cluster_uw", 0) for opp in one["opp"]) for one in clusters) / 1e6
    share = awake_w / min(powers_w)
    if share < _MOSTLY:
        return []
    return [
        f"{awake_w:.3g} W of the power of {name} ({100 * min(share, 1):.0f} %) is its packages awake, at any load: "
        "they have no sleep state in the file, so that changes in percent are smaller than those of the CPUs."
    ]
