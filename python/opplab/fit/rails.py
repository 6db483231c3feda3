"""Logs of power rails: a column of watts and one of the clock for each rail, a row a sample.

::

    time_s, a7_mhz, a7_w, a15_mhz, a15_w, a15_load     the rails a7 and a15
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from opplab.errors import FormatError, InputError

_PARTS = {
    "khz": {"khz": 1.0, "mhz": 1e3, "ghz": 1e6, "hz": 1e-3},
    "mw": {"w": 1e3, "mw": 1.0, "uw": 1e-3},
    "mv": {"v": 1e3, "mv": 1.0, "uv": 1e-3},
    "load": {"load": 1.0, "util": 1.0, "busy": 1.0, "pct": 0.01},
}
_BUSY = 0.9
"""Load from which on a sample counts as that of a busy rail."""
_MOST = 1.1
"""Load above which a column has percent, or counts CPUs."""
_APART = 2.0
"""Factor between neighbouring samples of one clock from which on they are of two loads, if both are common."""
_COMMON = 0.05
"""Share of the samples that is common."""


def of(names: Sequence[str]) -> dict[str, dict[str, tuple[str, float]]]:
    """Give the rails of a table's columns: quantity (`khz`, `mw`, `mv`, `load`) to (column, factor).

    Examples
    --------
    >>> of(["time", "a15_mhz", "a15_w", "ram_w"])
    {'a15': {'khz': ('a15_mhz', 1000.0), 'mw': ('a15_w', 1000.0)}}
    """
    found: dict[str, dict[str, tuple[str, float]]] = defaultdict(dict)
    for name in names:
        rail, _, unit = name.strip().strip("\ufeff").lower().rpartition("_")
        for quantity, units in _PARTS.items():
            if rail and unit in units:
                found[rail].setdefault(quantity, (name, units[unit]))
    known = {"busy", "freq", "frequency", "power", "pkg", "package", "cpu", "core", "cores", "idle", "bzy"}
    return {rail: parts for rail, parts in found.items() if {"khz", "mw"} <= parts.keys() and rail not in known}


def without_load(rails: dict[str, dict[str, tuple[str, float]]]) -> list[str]:
    """Give the rails that have no column of the load."""
    return [rail for rail, parts in rails.items() if "load" not in parts]


def points(
    file: Path, rails: dict[str, dict[str, tuple[str, float]]], rows: Sequence[tuple[int, dict[str, str]]]
) -> Iterator[tuple[str, int, int, float, float | None]]:
    """Give (rail, its number, kHz, mW, mV) of each rail's operating points: medians of its busy samples.

    Without a column of the load every sample counts as busy; where other rails have one, what it draws busy is no
    number.  The rails' numbers count from 0 in the order of columns.

    Raises
    ------
    FormatError
        A cell is no number, with file and line.
    InputError
        No sample is busy, or samples without a load are of two.
    """
    for number, (rail, parts) in enumerate(rails.items()):
        samples: dict[int, list[tuple[float, float]]] = defaultdict(list)
        for line, row in rows:
            values = {quantity: _number(file, line, row, *column) for quantity, column in parts.items()}
            if not {"khz", "mw"} <= {quantity for quantity, value in values.items() if value == value}:  # noqa: PLR0124
                continue
            if values.get("load", 1.0) > _MOST:
                column = parts["load"][0]
                message = f"`{column}` is {row[column].strip()}, more than the share 1 of one busy CPU"
                raise FormatError.at(file, line, f"{message}; percent are `{rail}_pct`")
            if values.get("load", 1.0) >= _BUSY and values["khz"] > 0:
                samples[round(values["khz"])].append((values["mw"], values.get("mv", float("nan"))))
        if not samples:
            raise InputError(
                f"{file}: no sample of the rail `{rail}` is busy (`{parts['load'][0]}` of {_BUSY} and more)"
            )
        for khz, drawn in sorted(samples.items()):
            if "load" not in parts:
                _check_one_load(file, rail, khz, sorted(mw for mw, _ in drawn))
            mw, mv = np.median(np.array(drawn), axis=0)
            if rail in (unloaded := without_load(rails)) and len(unloaded) < len(rails):
                mw = float("nan")
            yield rail, number, khz, float(mw), float(mv) if np.isfinite(mv) else None


def _check_one_load(file: Path, rail: str, khz: int, mw: list[float]) -> None:
    """Refuse samples of one clock that fall apart: the rail was busy in some, and idle in others."""
    few = max(_COMMON * len(mw), 1.0)
    gaps = [
        (high - low, nth, low, high)
        for nth, (low, high) in enumerate(pairwise(mw), start=1)
        if high > _APART * low and high > 0 and min(nth, len(mw) - nth) > few
    ]
    if gaps:
        _, nth, low, high = max(gaps)
        raise InputError(
            f"{file}: {nth} samples of the rail `{rail}` at {khz / 1000:g} MHz are of at most {low:.3g} mW, and "
            f"{len(mw) - nth} of {high:.3g} mW and more: not all are of one busy CPU. A column `{rail}_load` has 1 "
            "where it was busy and 0 where not; or leave the others out"
        )


def _number(file: Path, line: int, row: dict[str, str], column: str, factor: float) -> float:
    text = re.sub(r"\s", "", row.get(column) or "")
    try:
        return float(text) * factor if text else float("nan")
    except ValueError:
        raise FormatError.at(file, line, f"`{column}` is `{text}`, not a number") from None
