"""The free constants of benchmark models as assumptions: how far each may be off, and the cases with others.

A constant that was fitted on the machine that runs is as unsure as its fit is off (`residual_percent`). One that was
not is as unsure as the fits on other machines differ: the ratio of the largest to the smallest of them and of the
model's own value, half of it (on a logarithmic scale) to either side. A constant that nobody fitted anywhere has no
range, because no source has one, and what an experiment's file sets itself is known. A disk
that a machine does not describe may be of any class.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from opplab import _opplab, catalog
from opplab.report.start import in_words
from opplab.simulation.ranges import Assumption

if TYPE_CHECKING:
    from opplab.simulation.cases import Case


@cache
def built_in_fits() -> dict[str, dict[str, Any]]:
    """The built-in calibrations by name."""
    return {name: catalog.table("calibration", name) for name in catalog.names("calibration")}


def range_of(
    benchmark: str, name: str, value: int, calibration: str | None, fits: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[float, float] | None:
    """Give the range of a constant as factors of its value; None if no source has one.

    Parameters
    ----------
    value : int
        The model's own, or that of the calibration.
    calibration : str or None
        What the workload names.
    fits : mapping, optional
        Calibrations by name; the built-in ones.
    """
    fits = built_in_fits() if fits is None else fits
    own = fits.get(calibration or "", {})
    # 0 is that of the disk, not of the fit.
    if value > 0 and name in own.get("values", {}):
        off = 1 + float(own["fit"]["residual_percent"]) / 100
        return (1 / off, off) if off > 1 else None
    others = [one["values"][name] for one in fits.values() if one["benchmark"] == benchmark and name in one["values"]]
    known = [number for number in (value, *others) if number > 0]
    if not others or len(known) < 2 or value <= 0 or max(known) == min(known):
        return None
    off = math.sqrt(max(known) / min(known))
    return 1 / off, off


def flush_of_any_disk() -> tuple[int, tuple[float, float]]:
    """Give the flush in us that stands in where a disk is unknown, and the range of all classes as factors of it."""
    classes = _opplab.disk_classes()
    middle = next(one["flush_us"] for one in classes if one["stands_in"])
    bounds = [bound for one in classes for bound in one["flush_range_us"]]
    return middle, (min(bounds) / middle, max(bounds) / middle)


def _depend(names: Sequence[str]) -> str:
    return f"{in_words(names)} {'depends' if len(names) == 1 else 'depend'}"


def disk_notes(unknown_disks: Mapping[str, Sequence[str]], reads: Iterable[tuple[str, int]]) -> list[str]:
    """Name what results hang on that is described nowhere, in words.

    Parameters
    ----------
    unknown_disks : mapping
        Workloads that write to a disk which their machines do not describe, each with these; none: the only machine.
    reads : iterable of (str, int)
        Workloads whose reads take so many us, which neither a fit nor a machine file has.

    Examples
    --------
    >>> for disks in ({"sqlite": []}, {"sqlite": ["a", "b"], "dbench": ["a"]}):
    ...     print(disk_notes(disks, [])[0].partition(":")[0])
    sqlite depends on the disk, which the machine does not describe
    sqlite and dbench depend on the disk, which a and b do not describe
    """
    notes = []
    if unknown_disks:
        flush_us, (low, high) = flush_of_any_disk()
        machines = dict.fromkeys(name for names in unknown_disks.values() for name in names)
        notes.append(
            f"{_depend(list(unknown_disks))} on the disk, which {in_words([*machines] or ['the machine'])} "
            f"{'do' if len(machines) > 1 else 'does'} not describe: flushes of {flush_us} us stand in for "
            f"{flush_us * low:.0f} to {flush_us * high:.0f}; "
            "--uncertainty varies them, `[[disk]]` of the machine or `disk` of the workload sets them (opplab list "
            "disks)"
        )
    by_length: dict[int, list[str]] = {}
    for label, read_us in reads:
        by_length.setdefault(read_us, []).append(label)
    return notes + [
        f"{_depend(labels)} on the device, of which machine files have no reads: {read_us} us a read "
        "stand in; `device_us` of the workload sets them"
        for read_us, labels in by_length.items()
    ]


@dataclass(frozen=True)
class Constants:
    """The free constants of some cases."""

    values: dict[tuple[str, str], int]
    """By workload and parameter: those that have a range."""
    assumptions: list[Assumption]
    """One a value, in that order, as factors."""
    rebuilt: Callable[[Mapping[tuple[str, str], int]], Iterable[Case]]
    """Gives the cases with other values, in any order."""

    @classmethod
    def of(
        cls,
        found: Iterable[tuple[str, str, str, int, str | None]],
        rebuilt: Callable[[Mapping[tuple[str, str], int]], Iterable[Case]],
        fits: Mapping[str, Mapping[str, Any]] | None = None,
        unknown_disks: Collection[str] = (),
    ) -> Constants:
        """Keep those of ``(workload, benchmark, parameter, value, calibration)`` that have a range.

        `unknown_disks` are the workloads that write to a disk which their machine does not describe.
        """
        values: dict[tuple[str, str], int] = {}
        assumptions = []
        for label, benchmark, name, own, calibration in found:
            value, factors = own, range_of(benchmark, name, own, calibration, fits)
            if name == "disk_flush_us" and label in unknown_disks:
                value, factors = flush_of_any_disk()
            if factors is not None and (label, name) not in values:
                values[label, name] = value
                assumptions.append(Assumption(f"{label}.{name}", *factors, True, "the model's"))
        return cls(values, assumptions, rebuilt)

    def at(self, shares: Iterable[float]) -> dict[tuple[str, str], int]:
        """Give the values at these shares of their ranges."""
        pairs = zip(self.values.items(), self.assumptions, shares, strict=True)
        return {key: _value_at(value, assumption, share) for (key, value), assumption, share in pairs}

    def with_one(self, assumption: Assumption, share: float) -> dict[tuple[str, str], int]:
        """Give the values with that of one assumption at a share of its range."""
        of = dict(zip((one.key for one in self.assumptions), self.values, strict=True))[assumption.key]
        return {**self.values, of: _value_at(self.values[of], assumption, share)}


def _value_at(value: int, assumption: Assumption, share: float) -> int:
    return max(round(value * assumption.at(float(share))), 1)
