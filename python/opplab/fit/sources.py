"""Tables of power that people have, as samples of (busy cores, clock, watts): turbostat logs and CSV, RAPL, wall plugs.

Columns are known by name, whatever the table: see `WATTS`, `CLOCK`, `LOAD`.  Energies (``energy_uj``, ``energy_j``)
with a time column become watts of the interval.
"""

from __future__ import annotations

import csv
import re
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

__all__ = ["Samples", "join_samples", "read_samples"]

# Column -> factor to W, GHz, or share of all CPUs (None: a number of cores).
WATTS = {"pkgwatt": 1, "package_w": 1, "pkg_w": 1, "rapl_pkg_w_mean": 1, "power_w": 1, "watts": 1, "w": 1,
         "ac_w_mean": 1, "ac_w": 1, "wall_w": 1, "p": 1,
         "power": 1, "power_mw": 1e-3, "mw": 1e-3, "power_uw": 1e-6}  # fmt: skip
CORES_WATTS = {"corwatt": 1, "cores_w": 1, "rapl_cores_w_mean": 1}
CLOCK = {"bzy_mhz": 1e-3, "mean_cycles_mhz_per_busy_core": 1e-3, "mhz": 1e-3, "freq_mhz": 1e-3, "khz": 1e-6,
         "freq_khz": 1e-6, "frequency_khz": 1e-6, "freq_hz": 1e-9, "ghz": 1, "freq_ghz": 1}  # fmt: skip
LOAD = {
    "busy_cores": None,
    "active_cores": None,
    "cores": None,
    "threads": None,
    "busy%": 0.01,
    "busy_pct": 0.01,
    "util_pct": 0.01,
    "load_pct": 0.01,
    "util": 1.0,
    "load": 1.0,
}
JOULES = {"pkg_j": 1, "package_j": 1}
CORES_JOULES = {"cor_j": 1, "cores_j": 1}
TIME = {"t": 1, "time_s": 1, "seconds": 1, "time_of_day_seconds": 1, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
ENERGY = {"energy_j": 1, "energy_uj": 1e-6}
_SECONDS = re.compile(r"^\s*(\d+(?:\.\d+)?) sec\s*$", re.MULTILINE)
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


def join_samples(parts: list[Samples]) -> Samples:
    """Put the intervals of several logs of one machine together, as those of one.

    Raises
    ------
    InputError
        They are not of one kind: watts of other columns, or loads in shares and in cores.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        if (part.scope, part.load_is_share) != (first.scope, first.load_is_share):
            words = f"{part.name} has {part.scope}, {first.name} {first.scope}"
            raise InputError(f"logs of other kinds do not go together: {words}; name one of them")
    of_cores = [part.cores_watts for part in parts if part.cores_watts is not None]

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(part, name) for part in parts])

    return Samples(
        f"{first.name} and {len(parts) - 1} more",
        joined("watts"),
        joined("ghz"),
        joined("load"),
        first.load_is_share,
        joined("asleep"),
        np.concatenate(of_cores) if len(of_cores) == len(parts) else None,
        first.scope,
    )


def _find(columns: dict[str, Floats], known: Mapping[str, float | None]) -> str | None:
    return next((name for name in known if name in columns), None)


def _turbostat(text: str, path: Path) -> dict[str, Floats]:
    from opplab.formats import turbostat

    runs = turbostat.read(text, path.name, lambda *_: None)
    if not runs:
        return {}
    series = {name.lower(): np.array(one.iterations[0], dtype=np.float64) for name, one in runs[0].series.items()}
    series |= {name: values for name, values in _times(text).items() if len(values)}
    rows = min(len(values) for values in series.values())
    return {name: values[:rows] for name, values in series.items()}


def _times(text: str) -> dict[str, Floats]:
    """Give turbostat's columns of time, which are no measurements: of its summary lines."""
    found: dict[str, list[float]] = {"time_of_day_seconds": [], "usec": []}
    head: list[str] = []
    for line in text.splitlines():
        words = line.split()
        if "Avg_MHz" in words:
            head = [word.lower() for word in words]
        elif len(words) == len(head) and "cpu" in head and words[head.index("cpu")] == "-":
            for name, values in found.items():
                if name in head:
                    values.append(float(words[head.index(name)]))
    return {name: np.array(values) for name, values in found.items()}


def _from_joules(columns: dict[str, Floats], text: str, path: Path) -> dict[str, Floats]:
    """Give watts of joules (`turbostat -J`), by the seconds that the log says for each interval."""
    joules = _find(columns, JOULES)
    if joules is None or _find(columns, WATTS) is not None:
        return columns
    rows = len(columns[joules])
    told = [float(found) for found in _SECONDS.findall(text)]
    time = _find(columns, TIME)
    if len(told) == 1:
        seconds = np.full(rows, told[0])
    elif len(told) == rows:
        seconds = np.array(told)
    elif "usec" in columns:
        seconds = columns["usec"] / 1e6
    elif time is not None and rows > 1:
        gaps = np.diff(columns[time]) * TIME[time]
        seconds = np.concatenate([[np.median(gaps)], gaps])
    else:
        raise InputError(f"{path}: energies (`{joules}`), but not of how many seconds (a line `10.0 sec`, or a time)")
    seconds = np.where(seconds > 0, seconds, np.nan)
    columns = columns | {"pkgwatt": columns[joules] * JOULES[joules] / seconds}
    of_cores = _find(columns, CORES_JOULES)
    if of_cores is not None:
        columns["corwatt"] = columns[of_cores] / seconds
    return columns


def _separator(head: str) -> str:
    """Give what separates the columns of a table: a comma, a semicolon, a tab, or blanks."""
    return next((mark for mark in (",", ";", "\t") if mark in head), " ")


def _table(text: str, path: Path) -> dict[str, Floats]:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    mark = _separator(lines[0] if lines else "")
    reader = csv.reader(lines, delimiter=mark, skipinitialspace=True)
    head = [name.strip().strip("\ufeff").lower() for name in next(reader, [])]
    every = {*WATTS, *CORES_WATTS, *CLOCK, *LOAD, *TIME, *ENERGY, *JOULES, *CORES_JOULES, *_ASLEEP}
    wanted = every & set(head)
    if len(wanted) != sum(name in wanted for name in head):
        twice = next(name for name in head if name in wanted and head.count(name) > 1)
        raise FormatError(f"{path}:1: two columns `{twice}`", file=str(path), line=1)
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


def _of_folder(folder: Path) -> Path:
    """Give the file of a folder of stats-collect that has the watts."""
    for name in ("turbostat.raw.txt", "turbostat.txt"):
        found = sorted(folder.rglob(name), key=lambda path: (len(path.parts), str(path)))
        if found:
            return found[0]
    raise InputError(f"{folder}: no stats/turbostat.raw.txt of stats-collect in it")


def _read_text(path: Path) -> str:
    what = "measurements"
    return decoded(unpacked(read_bytes(path, what), path, what), path, what).removeprefix("\ufeff")


def _with_meter(columns: dict[str, Floats], folder: Path) -> dict[str, Floats]:
    """Give turbostat's intervals the watts of the wall meter beside it, where it has none of its own."""
    meter = folder / "acpower.raw.txt"
    time = _find(columns, TIME)
    if _find(columns, WATTS) is not None or _find(columns, JOULES) is not None or time is None or not meter.exists():
        return columns
    read = _table(_read_text(meter), meter)
    if "t" not in read or "p" not in read:
        return columns
    watts = np.interp(columns[time] * TIME[time], read["t"], read["p"], left=np.nan, right=np.nan)
    return columns | {"wall_w": watts}


def read_samples(path: Path) -> Samples:
    """Read a source of power: a log, a table, or a folder of stats-collect.

    Raises
    ------
    InputError
        It has no watts, no clock or no load, with the columns that would be known.
    """
    from opplab.formats import turbostat

    if path.is_dir():
        path = _of_folder(path)
    text = _read_text(path)
    first = text.split("\n", 1)[0]
    columns = {} if "," in first else _turbostat(text, path) if turbostat.sniff(text, path.name) else {}
    columns = columns or _table(text, path)
    columns = _from_joules(_with_meter(columns, path.parent), text, path)
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
