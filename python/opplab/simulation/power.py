"""Which powers of a machine are known.

A machine that was imported from a dump has no power at all; its energy is unknown, which is not 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from opplab.certainty import NO_PREFERENCE
from opplab.metrics import find
from opplab.simulation.work import ENERGY_PER_WORK, POWER_AT_EQUAL_WORK

if TYPE_CHECKING:
    import polars as pl


def how_to_get_power(machines: Iterable[Mapping[str, Any]]) -> str:
    """Give the line that stands wherever an energy would: which machines or clusters have no power, and what helps.

    Examples
    --------
    >>> half = {"name": "m", "cluster": [{"name": "a", "opp": [{"uw": 5}]}, {"name": "b", "opp": [{"uw": 0}]}]}
    >>> how_to_get_power([half])
    'energy is unknown: cluster b of m has no power. Measurements supply it: `opplab fit power MACHINE TABLE`'
    >>> none = [{"name": name, "cluster": [{"name": "a", "opp": [{"uw": 0}]}]} for name in ("m", "n")]
    >>> [how_to_get_power(some).partition(". ")[0] for some in (none[:1], none)]
    ['energy is unknown: the machine has no power', 'energy is unknown: m has no power; n has no power']
    """
    machines = list(machines)
    found, without = [], []
    for machine in machines:
        known = known_power(machine)
        names = [cluster["name"] for cluster, is_known in zip(machine["cluster"], known, strict=True) if not is_known]
        if names and any(known):
            whose = f"{'clusters' if len(names) > 1 else 'cluster'} {', '.join(names)} of {machine['name']}"
            found.append(f"{whose} {'have' if len(names) > 1 else 'has'} no power")
        elif names:
            idle = any("cluster_uw" in opp for cluster in machine["cluster"] for opp in cluster["opp"])
            whose = "the machine" if len(machines) == 1 else str(machine["name"])
            without.append(f"{whose} has {'idle power alone' if idle else 'no power'}")
    what = f"energy is unknown: {'; '.join([*without, *found])}."
    if without:
        return (
            f"{what} Give it some with `opplab machine import SOURCE --power LOG` (turbostat, freqbench, watts by "
            "active cores), or a rough curve with `--power generic` of `run` and `choose`"
        )
    return f"{what} Measurements supply it: `opplab fit power MACHINE TABLE`"


def known_power(machine: Mapping[str, Any]) -> list[bool]:
    """Report for each cluster whether what its busy CPUs draw is known: some operating point has a power.

    Parameters
    ----------
    machine : mapping
        A machine as a case's JSON has it.

    Examples
    --------
    >>> known_power({"cluster": [{"opp": [{"khz": 1000, "uw": 0}]}, {"opp": [{"khz": 1000, "uw": 0, "busy_uw": 5}]}]})
    [False, True]
    """
    return [any(opp.get("busy_uw", opp.get("uw", 0)) for opp in cluster["opp"]) for cluster in machine["cluster"]]


def has_idle_power(machine: Mapping[str, Any]) -> bool:
    """Report whether it is known what idle states save: some differ in power, or clusters have states of their own.

    What a cluster draws while all its CPUs idle (``cluster_idle_uw``) is the same in all states, and does not count.

    Examples
    --------
    >>> states = [{"name": "C1", "uw": 0}, {"name": "C6", "uw": 0}]
    >>> some = {"cluster_idle_uw": 9}, {"opp": [{"cluster_idle_uw": 9}]}, {"opp": [{"idle_uw": 9}]}
    >>> [has_idle_power({"cluster": [{"idle": states, **more}]}) for more in ({}, *some, {"cluster_idle": [{"uw": 9}]})]
    [False, False, False, True, True]
    """
    return any(
        len({state.get("uw", 0) for state in cluster.get("idle", ())}) > 1
        or cluster.get("cluster_idle")
        or any("idle_uw" in opp for opp in cluster.get("opp", ()))
        for cluster in machine["cluster"]
    )


NO_IDLE_POWER = "idle power unknown"
"""Why a change of energy is not known where a policy changes idle states whose power is not known."""


def why_unknown(preferences_differ: bool, leaves_out_idle: bool) -> str:
    """Give why no interval holds a change, whatever runs and draws leave open; empty where one does."""
    return NO_PREFERENCE if preferences_differ else NO_IDLE_POWER if leaves_out_idle else ""


def needs_power(metric: str, machine: Mapping[str, Any]) -> bool:
    """Report whether a metric is unknown as a machine lacks power: an energy or a power, of it or of such a cluster.

    Examples
    --------
    >>> half = {"cluster": [{"name": "a", "opp": [{"uw": 5}]}, {"name": "b", "opp": [{"uw": 0}]}]}
    >>> [needs_power(metric, half) for metric in ("power", "energy_per_work", "energy:a", "energy:b", "work_done")]
    [True, True, False, True, False]
    """
    unknown = {
        cluster["name"]
        for cluster, is_known in zip(machine["cluster"], known_power(machine), strict=True)
        if not is_known
    }
    part = metric.partition(":")[2]
    return is_of_power(metric) and bool(part in unknown if part else unknown)


def is_of_power(metric: str) -> bool:
    """Report whether a metric is an energy or a power.

    Examples
    --------
    >>> [is_of_power(metric) for metric in ("energy:pkg0", "power", "energy_per_work", "response_p99")]
    [True, True, True, False]
    """
    declared = find(metric.partition(":")[0])
    return metric in (ENERGY_PER_WORK, POWER_AT_EQUAL_WORK) or (
        declared is not None and declared.unit.startswith(("J", "W"))
    )


def is_unknown(results: pl.DataFrame) -> bool:
    """Report whether some energy of a results table is unknown."""
    energies = results.filter(results["metric"] == "energy")
    return bool(energies["value"].null_count())
