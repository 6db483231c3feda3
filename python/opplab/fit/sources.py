"""Tables of power that people have, as samples of (busy cores, clock, watts): turbostat logs and CSV, RAPL, wall plugs.

Columns are known by name, whatever the table: see `WATTS`, `CLOCK`, `LOAD`.  Energies (``energy_uj``, ``energy_j``)
with a time column become watts of the interval.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opplab.errors import FormatError, InputError
from opplab.files import decoded, read_bytes, unpacked

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["Samples", "read_samples"]

# Column -> factor to W, GHz, or share of all CPUs (None: a number of cores).
WATTS = {"pkgwatt": 1, "package_w": 1, "pkg_w": 1, "rapl_pkg_w_mean": 1, "power_w": 1, "watts": 1, "w": 1,
         "ac_w_mean": 1, "ac_w": 1, "power_mw": 1e-3, "mw": 1e-3, "power_uw": 1e-6}  # fmt: skip
CORES_WATTS = {"corwatt": 1, "cores_w": 1, "rapl_cores_w_mean": 1}
CLOCK = {"bzy_mhz": 1e-3, "mean_cycles_mhz_per_busy_core": 1e-3, "mhz": 1e-3, "freq_mhz": 1e-3, "khz": 1e-6,
         "freq_khz": 1e-6, "ghz": 1}  # fmt: skip
LOAD = {"busy_cores": None, "threads": None, "busy%": 0.01, "busy_pct": 0.01, "util_pct": 0.01, "util": 1.0}
TIME = {"time_s": 1, "seconds": 1, "time_of_day_seconds": 1, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
ENERGY = {"energy_j": 1, "energy_uj": 1e-6}
_ASLEEP = ("pc2", "pc3", "pc6", "pc7", "pc8", "pc9", "pc10", "pkg%pc2", "pkg%pc3", "pkg%pc6", "pkg%pc7", "pkg%pc8",
           "pkg%pc9", "pk%pc10", "pkg_pc2_pct", "pkg_pc6_pct", "pkg_pc8_pct")  # fmt: skip


@dataclass(frozen=True)
class Samples:
    """Intervals of one source."""

    name: str
    watts: Floats
    ghz: Floats
    load: Floats
    """Busy cores, or, if `load_is_share`, their share of all CPUs."""
    load_is_share: bool
    asleep: Floats
    """Share of time in which the package slept; 0 where the source does not say."""
    cores_watts: Floats | None
    """Those of the cores alone, if the source has them apart."""
    scope: str
    """The column that the watts are from."""


def _find(columns: dict[str, Floats], known: Mapping[str, float | None]) -> str | None:
    return next((name for name in known if name in columns), None)


def _turbostat(text: str, path: Path) -> dict[str, Floats]:
    from opplab.formats import turbostat

    runs = turbostat.read(text, path.name, lambda *_: None)
    if not runs:
        return {}
    series = {name.lower(): np.array(one.iterations[0], dtype=np.float64) for name, one in runs[0].series.items()}
    rows = min(len(values) for values in series.values())
    return {name: values[:rows] for name, values in series.items()}


def _table(text: str, path: Path) -> dict[str, Floats]:
    reader = csv.reader(text.splitlines())
    head = [name.strip().lower() for name in next(reader, [])]
    wanted = {*WATTS, *CORES_WATTS, *CLOCK, *LOAD, *TIME, *ENERGY, *_ASLEEP} & set(head)
    columns: dict[str, list[float]] = {name: [] for name in wanted}
    try:
        for row in reader:
            for name in wanted:
                cell = row[head.index(name)].strip() if head.index(name) < len(row) else ""
                try:
                    columns[name].append(float(cell) if cell else np.nan)
                except ValueError:
                    raise csv.Error(f"`{name}` is `{cell}`, not a number") from None
    except csv.Error as error:
        line = reader.line_num
        raise FormatError(f"{path}:{line}: {error}", file=str(path), line=line) from None
    return {name: np.array(values) for name, values in columns.items()}


def read_samples(path: Path) -> Samples:
    """Read a source of power.

    Raises
    ------
    InputError
        It has no watts, no clock or no load, with the columns that would be known.
    """
    from opplab.formats import turbostat

    what = "measurements"
    text = decoded(unpacked(read_bytes(path, what), path, what), path, what)
    first = text.split("\n", 1)[0]
    columns = {} if "," in first else _turbostat(text, path) if turbostat.sniff(text, path.name) else {}
    columns = columns or _table(text, path)
    watts, clock, load = _find(columns, WATTS), _find(columns, CLOCK), _find(columns, LOAD)
    time, energy = _find(columns, TIME), _find(columns, ENERGY)
    if watts is None and time is not None and energy is not None and len(columns[time]) > 1:
        seconds = np.diff(columns[time]) * TIME[time]
        power = np.diff(columns[energy]) * ENERGY[energy] / np.where(seconds > 0, seconds, np.nan)
        columns = {name: values[1:] for name, values in columns.items()} | {"watts": power}
        watts = "watts"
    for what, found, known in (("watts", watts, WATTS), ("clock", clock, CLOCK), ("load", load, LOAD)):
        if found is None:
            raise InputError(f"{path}: no column of the {what} (known: {', '.join(known)})")
    assert watts is not None and clock is not None and load is not None
    w, ghz = columns[watts] * WATTS[watts], columns[clock] * CLOCK[clock]
    share = LOAD[load]
    busy = columns[load] * (share or 1.0)
    asleep = sum((np.nan_to_num(columns[name]) / 100 for name in _ASLEEP if name in columns), np.zeros_like(w))
    # Idle intervals may have no clock of busy cores.
    ghz = np.where(np.isnan(ghz) & (busy == 0), 0.0, ghz)
    good = np.isfinite(w) & np.isfinite(ghz) & np.isfinite(busy) & (w > 0)
    if not np.any(good):
        raise InputError(f"{path}: no row has watts, clock and load")
    asleep = np.clip(asleep, 0, 1)[good]
    of_cores = _find(columns, CORES_WATTS)
    cores = columns[of_cores][good] if of_cores is not None else None
    if cores is not None and not np.all((cores > 0) & (cores <= w[good])):
        cores = None
    return Samples(path.name, w[good], ghz[good], busy[good], share is not None, asleep, cores, watts)
