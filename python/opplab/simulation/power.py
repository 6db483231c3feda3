"""Which powers of a machine are known.

A machine that was imported from a dump has no power at all; its energy is unknown, which is not 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

__all__ = ["HOW_TO_GET_POWER", "is_unknown", "known_power"]

HOW_TO_GET_POWER = (
    "energy is unknown: the machine has no power. Give it some with `opplab machine import SOURCE --power LOG` "
    "(turbostat, freqbench, watts by active cores), or a rough curve with `--power generic` of `run` and `choose`"
)
"""The line that stands wherever an energy would."""


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


def is_unknown(results: pl.DataFrame) -> bool:
    """Report whether some energy of a results table is unknown."""
    energies = results.filter(results["metric"] == "energy")
    return bool(energies["value"].null_count())
