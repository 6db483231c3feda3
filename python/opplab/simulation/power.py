"""Which powers of a machine are known, and how far its energies may be off by the ranges of its file.

A machine that was imported from a dump has no power at all; its energy is unknown, which is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

__all__ = ["HOW_TO_GET_POWER", "energy_factors", "is_unknown", "known_power"]

HOW_TO_GET_POWER = (
    "energy is unknown: the machine has no power. Give it some with `opplab machine import SOURCE --power LOG` "
    "(turbostat, freqbench, watts by active cores), or a rough curve with `--power generic` of `run` and `choose`"
)
"""The line that stands wherever an energy would."""


def known_power(machine: Mapping[str, Any]) -> list[bool]:
    """Say for each cluster whether what its busy CPUs draw is known: some operating point has a power.

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


def is_unknown(results: pl.DataFrame) -> bool:
    """Report whether some energy of a results table is unknown."""
    energies = results.filter(results["metric"] == "energy")
    return bool(energies["value"].null_count())


def _bounds(
    machine: Mapping[str, Any], cluster: Mapping[str, Any], keys: tuple[str, ...]
) -> tuple[float, float] | None:
    """Give the factors within which the cluster's powers named `keys` may lie; None without a range."""
    ranges = machine.get("range", {})
    for key in keys:
        found = ranges.get(f"cluster.{cluster['name']}.opp.{key}", ranges.get(f"cluster.opp.{key}"))
        if found is None:
            continue
        if isinstance(found, Mapping):
            low, high = found["percent"]
            return low / 100, high / 100
        values = [opp.get(key, 0) for opp in cluster["opp"]]
        middle = sorted(values)[len(values) // 2]
        if middle:
            return found[0] / middle, found[1] / middle
    return None


def energy_factors(machine: Mapping[str, Any]) -> list[tuple[float, float]] | None:
    """Give for each cluster the factors within which its energy may lie; None if the file has no range of a power.

    The core's and the shared part count by their shares of the power at the middle operating point, and each is off as
    a whole: all points of a cluster are too high or too low together.
    """
    factors: list[tuple[float, float]] = []
    ranged = False
    for cluster in machine["cluster"]:
        opp = cluster["opp"][len(cluster["opp"]) // 2]
        core, shared = opp.get("busy_uw", opp.get("uw", 0)), opp.get("cluster_uw", 0)
        of_core, of_shared = _bounds(machine, cluster, ("busy_uw", "uw")), _bounds(machine, cluster, ("cluster_uw",))
        ranged = ranged or of_core is not None or of_shared is not None
        weight = shared / (core + shared) if core + shared else 0.0
        (low, high), (shared_low, shared_high) = of_core or (1.0, 1.0), of_shared or (1.0, 1.0)
        factors.append(((1 - weight) * low + weight * shared_low, (1 - weight) * high + weight * shared_high))
    return factors if ranged else None
