"""Tables of power by operating point, in the columns of freqbench's digest (`opp_power.csv`).

A curve is the rows of one ``soc``, ``run`` and ``cpu``.  Needed are ``khz`` and ``busy_mean_mw``; with
``coremark_iter_per_s`` a clock that was not the one of cpufreq shows (speed a MHz off the median of the curve by more
than 3 %), and the clock that the work saw is taken instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from opplab.catalog import nearest
from opplab.errors import FormatError, InputError
from opplab.files import check_size, csv_rows, decoded, packed_text, preamble, read_bytes, unpacked
from opplab.fit import rails
from opplab.fit.columns import Column, known_column, plain

_CLOCK_OFF = 0.03  # Speed a MHz may differ by so much before the clock counts as another.


@dataclass(frozen=True)
class Point:
    """One measured operating point."""

    soc: str
    run: str
    cpu: int
    khz: int
    busy_mw: float
    """Not a number where it was not measured (`read_points` without `measured`)."""
    speed: float | None = None
    """Work a second, if it was measured."""
    idle_mw: float | None = None
    flags: str = ""
    mv: float | None = None
    rail: str = ""
    """The rail or cluster that was measured, if the source names it; `cpu` is its number then."""


@dataclass
class Curve:
    """The measured points of one CPU in one run, ascending by clock."""

    soc: str
    run: str
    cpu: int
    points: list[Point] = field(default_factory=list)

    @property
    def title(self) -> str:
        """Name what was measured: a rail or CPU, and its chip where the table has it."""
        what = self.points[0].rail if self.points else ""
        return (what or f"CPU {self.cpu}") + (f" of {self.soc}" if self.soc else "")

    def clock_mhz(self, points: Iterable[Point]) -> np.ndarray:
        """Give the clocks of points: what the work saw where cpufreq differs."""
        speeds = [1000 * point.speed / point.khz for point in self.points if point.speed]
        per_mhz = float(np.median(speeds)) if speeds else None
        clocks = []
        for point in points:
            mhz = point.khz / 1000
            if per_mhz and point.speed and abs(point.speed / mhz / per_mhz - 1) > _CLOCK_OFF:
                mhz = point.speed / per_mhz
            clocks.append(mhz)
        return np.array(clocks)

    def clocks_off(self, points: Iterable[Point]) -> int:
        """Count the points whose clock was not that of cpufreq."""
        points = list(points)
        told = np.array([point.khz / 1000 for point in points])
        return int(np.sum(self.clock_mhz(points) != told))


_ALIASES: dict[str, dict[str, float]] = {
    "soc": dict.fromkeys(("soc", "chip", "device"), 1),
    "run": {"run": 1},
    "cpu": dict.fromkeys(("cpu", "cpus", "cpu_num", "cpu_number", "policy"), 1),
    "rail": dict.fromkeys(("cluster", "cluster_name", "core", "core_type", "domain", "rail"), 1),
    "khz": {"khz": 1, "freq_khz": 1, "frequency_khz": 1, "frequency": 1, "mhz": 1000, "freq_mhz": 1000,
            "frequency_mhz": 1000, "ghz": 1e6, "freq_ghz": 1e6, "frequency_ghz": 1e6, "hz": 1e-3, "freq_hz": 1e-3,
            "frequency_hz": 1e-3},
    "busy_mean_mw": {"busy_mean_mw": 1, "busy_mean_w": 1000, "busy_mean_uw": 1e-3, "busy_mw": 1, "busy_w": 1000,
                     "busy_uw": 1e-3, "mw": 1, "power_mean_mw": 1, "power_mw": 1, "power_w": 1000, "power_uw": 1e-3,
                     "active": 1},
    "static_mw": {"static": 1},
    "online_idle_mean_mw": {"online_idle_mean_mw": 1, "online_idle_mean_w": 1000, "online_idle_mean_uw": 1e-3,
                            "idle_mw": 1, "idle_w": 1000},
    "coremark_iter_per_s": dict.fromkeys(
        ("coremark_iter_per_s", "coremarks_iter_s", "coremark_score", "coremark", "coremark_it_s", "coremark_iter_s",
         "coremark_iterations_s", "coremark_per_s"), 1),
    "flags": {"flags": 1},
    "mv": {"mv": 1, "millivolt": 1, "microvolt": 1e-3, "uv": 1e-3, "volt": 1000},
}  # fmt: skip
"""A quantity's names, also in other units, and the factor to ours; freqbench's own ``results.csv`` is among them."""

_FIRST_CPU = re.compile(r"(?:cpu|policy)?_?(\d{1,6})(?:-\d+)?", re.IGNORECASE)
"""A CPU, a policy, or the first CPU of a range."""

_KHZ = (20_000, 20_000_000)
_LEAST_KHZ = 1000
_LEAST_MW = 1.0
_MOST_MW = 1e7
_SPEED = (1e-3, 1e9)
HINT = "a log or table of a whole machine is fitted with that machine before it: opplab fit power MACHINE FILE"


def _number(row: dict[str, str], key: str, file: Path, line: int, decimal: str = ".") -> float | None:
    text = (row.get(key) or "").strip()
    if text.lower() in ("", "-", "na", "n/a", "none", "null"):
        return None
    try:
        value = float(text.replace(decimal, "."))
    except ValueError:
        raise FormatError.at(file, line, f"`{key}` is `{text}`, not a number") from None
    if not np.isfinite(value):
        raise FormatError.at(file, line, f"`{key}` is not finite")
    if value < 0:
        raise FormatError.at(file, line, f"`{key}` is {value:g}, less than nothing")
    return value


def is_points(path: Path) -> bool:
    """Report whether a source is a table of operating points: clocks with power or speed, and no load beside them."""
    if path.is_dir():
        return (path / "cpu_1d.csv").is_file()
    if path.suffix == ".json":
        return True
    with check_size(path, "measurements").open("rb") as file:
        start = file.read(4096)
    if start.startswith(b"\x1f\x8b"):
        start = unpacked(read_bytes(path, "measurements"), path, "measurements")[:4096]
    names = re.split(r"[,;\t]", _head(start.decode("utf-8", "replace")))
    plain_names = {plain(name) for name in names}
    if rails.of(names):
        return True
    has = {quantity for quantity, known in _ALIASES.items() if plain_names & known.keys()}
    # Busy CPUs of a named CPU or cluster are no load of the whole machine.
    loads = [column for _, column in _loads(names) if not (column.is_count and has & {"cpu", "rail"})]
    return "khz" in has and bool(has & {"busy_mean_mw", "coremark_iter_per_s"}) and not loads


def _loads(names: Iterable[str]) -> list[tuple[str, Column]]:
    """Give the columns of a load, in shares or in busy CPUs."""
    known = [(name, known_column(name)) for name in names]
    return [(name, column) for name, column in known if column is not None and column.quantity == "load"]


def read_points(file: Path, measured: bool = True) -> list[Point]:
    """Read a table, freqbench's own ``results.csv`` and ``results.json``, Wattson's ``cpu_1d.csv``, or a log of rails.

    Rows without power are left out, with power of 0 or below, too (the meter saw nothing).

    Parameters
    ----------
    measured : bool
        Whether rows without power are left out; otherwise their power is not a number.

    Raises
    ------
    FormatError
        With file and line.
    """
    every = _read_json(file) if file.suffix == ".json" else _read_csv(file / "cpu_1d.csv" if file.is_dir() else file)
    if any(point.speed for point in every) and not measured:
        points = [point for point in every if point.busy_mw > 0]
    else:
        points, _ = powered(every, file)
    every = points if measured else every
    top_khz, top_mw = max(point.khz for point in every), max([point.busy_mw for point in points], default=_LEAST_MW)
    if not _KHZ[0] <= top_khz <= _KHZ[1]:
        raise InputError(f"{file}: the highest clock would be {top_khz / 1000:g} MHz; name the column by its unit")
    if top_mw < _LEAST_MW:
        raise InputError(f"{file}: the highest power would be {top_mw:g} mW; name the column by its unit (busy_mean_w)")
    if (low_khz := min(point.khz for point in every)) < _LEAST_KHZ:
        raise InputError(f"{file}: the lowest clock would be {low_khz} kHz; name the column by its unit")
    if top_mw > _MOST_MW:
        raise InputError(f"{file}: the highest power would be {top_mw / 1e6:g} kW; name the column by its unit")
    wrong = [point.speed for point in every if point.speed and not _SPEED[0] <= point.speed <= _SPEED[1]]
    if wrong:
        raise InputError(f"{file}: a core would make {wrong[0]:g} iterations a second (`coremark_iter_per_s`)")
    return every


def idle_left_out(files: Iterable[Path]) -> list[str]:
    """Give the reason why no machine takes the idle power of tables, naming their columns; nothing without any."""
    columns: dict[str, None] = {}
    for file in files:
        if file.suffix == ".json":
            names = ["idle"] if any(point.idle_mw is not None for point in _read_json(file)) else []
        else:
            table = file / "cpu_1d.csv" if file.is_dir() else file
            names, _ = csv_rows(table, delimiter=_separator(table))
        columns |= dict.fromkeys(name.strip() for name in names if "idle" in plain(name))
    if not columns:
        return []
    named = ", ".join(f"`{name}`" for name in columns)
    return [f"{named} left out: the table does not name the idle states that it is of, with their shares"]


def loads_left_out(files: Iterable[Path]) -> list[str]:
    """Name rails without a column of their load, in words; nothing where all have one."""
    words = []
    for file in (file for file in files if file.suffix != ".json" and not file.is_dir()):
        found = rails.of(csv_rows(file, delimiter=_separator(file))[0])
        without = rails.without_load(found)
        columns = ", ".join(f"`{rail}_load`" for rail in without)
        if without and len(without) < len(found):
            words.append(f"what a busy CPU of {', '.join(without)} draws: {file.name} has no column {columns}")
        elif without:
            words.append(
                f"whether CPUs of {', '.join(without)} were busy: {file.name} has no column {columns}, and every "
                "sample counts as that of one busy CPU"
            )
    return words


def powered(points: Sequence[Point], files: Path | str) -> tuple[list[Point], list[str]]:
    """Give the points with power, and how many have none, in words.

    Raises
    ------
    InputError
        None has power.
    """
    found = [point for point in points if point.busy_mw > 0]
    if not found:
        raise InputError(f"{files}: no row has power (`busy_mean_mw`)")
    without = len(points) - len(found)
    words = f"{without} of {len(points)} rows are left out: no power above 0"
    return found, [words] if without else []


def _read_csv(file: Path) -> list[Point]:
    points: list[Point] = []
    mark = _separator(file)
    columns, rows = csv_rows(file, delimiter=mark)
    if found := rails.of(columns):
        return [
            Point("", "", cpu, khz, mw, mv=mv, rail=rail) for rail, cpu, khz, mw, mv in rails.points(file, found, rows)
        ]
    decimal = "," if mark == ";" else "."
    units = {
        name: next(((c, known[plain(c)]) for c in columns if plain(c) in known), None)
        for name, known in _ALIASES.items()
    }
    for column in ("khz", "busy_mean_mw"):
        if units[column] is None and not (column == "busy_mean_mw" and units["coremark_iter_per_s"]):
            raise FormatError.at(file, 1, f"no column `{column}`{nearest(column, list(columns))}; {HINT}")

    loads = _loads(columns)
    for name, load in loads:
        if not load.is_count:
            raise FormatError.at(file, 1, f"`{name}` is a load, and points are of one busy CPU; {HINT}")

    def told(name: str, row: dict[str, str], line: int) -> float | None:
        column, factor = units[name] or (name, 1)
        value = _number(row, column, file, line, decimal)
        return None if value is None else value * factor

    def column_of(name: str) -> str:
        return (units[name] or ("", 1))[0]

    def words(name: str, row: dict[str, str]) -> str:
        return row[column].strip() if (column := column_of(name)) else ""

    clusters: dict[str, int] = {}
    for line, row in rows:
        for name, _ in loads:
            if (count := _number(row, name, file, line, decimal)) is not None and count != 1:
                what = "leave out such rows" if units["cpu"] or units["rail"] else HINT
                raise FormatError.at(file, line, f"`{name}` is {count:g}, and points are of one busy CPU: {what}")
        of = "cpu" if units["cpu"] else "rail"
        cpu, rail = _part(column_of(of), words(of, row), clusters)
        if cpu is None and not rail:
            cpu = told("cpu", row, line) if units["cpu"] else 0
        khz = told("khz", row, line)
        if cpu is None or khz is None or khz <= 0:
            raise FormatError.at(file, line, "`cpu` and `khz` are needed in each row")
        busy = told("busy_mean_mw", row, line) if units["busy_mean_mw"] else None
        if busy is not None and units["static_mw"]:
            busy += told("static_mw", row, line) or 0.0  # Wattson: one busy CPU, and what its policy draws beside.
        if busy is None or busy <= 0:
            busy = float("nan")
        speed, idle = told("coremark_iter_per_s", row, line), told("online_idle_mean_mw", row, line)
        run, flags = words("run", row), words("flags", row)
        mv = told("mv", row, line)
        points.append(Point(words("soc", row), run, int(cpu), round(khz), busy, speed, idle, flags, mv, rail))
    return points


def _part(column: str, text: str, clusters: dict[str, int]) -> tuple[float | None, str]:
    """Give the CPU of a cell, and the cluster if that is what it names; `clusters` has the numbers of those so far."""
    if plain(column) not in ("cluster", "domain", "rail") and (first := _FIRST_CPU.fullmatch(text)):
        return int(first[1]), ""
    if plain(column) not in _ALIASES["rail"] or not text:
        return None, ""
    name = f"cluster{text}" if text.isdigit() else text.lower().removeprefix("cortex-")
    return clusters.setdefault(name, len(clusters)), name


def _head(text: str) -> str:
    """Give a table's line of column names."""
    text = text.lstrip("\ufeff")
    return text[preamble(text) :].split("\n", 1)[0]


def _separator(file: Path) -> str:
    head = _head(packed_text(file, "a table"))
    return next((mark for mark in (",", ";", "\t") if mark in head), ",")


def _read_json(file: Path) -> list[Point]:
    """Read freqbench's ``results.json``: power of each CPU at each clock, busy and idle."""
    try:
        tree = json.loads(decoded(read_bytes(file, "a table"), file, "a table"))
        points = [
            Point(
                "",
                "",
                int(cpu),
                int(khz),
                float(at["active"]["power_mean"]),
                float(at["active"]["coremark_score"]),
                float(at["idle"]["power_mean"]) if "idle" in at else None,
            )
            for cpu, one in tree["cpus"].items()
            for khz, at in one["freqs"].items()
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = f"it has no key {error}" if isinstance(error, KeyError) else str(error)
        message = f"{file}: not freqbench's results.json: {reason}"
        raise FormatError(message, file=str(file)) from None
    return [point if np.isfinite(point.busy_mw) else replace(point, busy_mw=float("nan")) for point in points]


def choose(points: list[Point], soc: str | None, cpu: int | None, file: Path | str) -> list[Curve]:
    """Give the curves of a chip and CPU, or of all.

    Raises
    ------
    InputError
        With the nearest chip or the CPUs that there are.
    """
    if soc is not None and all(not point.soc for point in points):
        points = [replace(point, soc=soc) for point in points]  # The table has one chip, and no name for it.
    if soc is not None:
        names = sorted({point.soc for point in points})
        if soc not in names:
            raise InputError(f"{file}: no power of `{soc}`{nearest(soc, names)}")
        points = [point for point in points if point.soc == soc]
    if cpu is not None:
        cpus = sorted({point.cpu for point in points})
        if cpu not in cpus:
            raise InputError(f"{file}: no power of CPU {cpu} (measured: {', '.join(map(str, cpus))})")
        points = [point for point in points if point.cpu == cpu]
    curves: dict[tuple[str, str, int], Curve] = {}
    for point in points:
        key = (point.soc, point.run, point.cpu)
        curves.setdefault(key, Curve(*key)).points.append(point)
    for curve in curves.values():
        curve.points.sort(key=lambda point: point.khz)
    return list(curves.values())


def pooled(curves: list[Curve]) -> list[Curve]:
    """Put the runs of one CPU together, ascending by clock."""
    by_cpu: dict[tuple[str, int], Curve] = {}
    for curve in curves:
        key = (curve.soc, curve.cpu)
        if key in by_cpu:
            other = by_cpu[key]
            points = sorted([*other.points, *curve.points], key=lambda point: point.khz)
            by_cpu[key] = Curve(curve.soc, "all runs", curve.cpu, points)
        else:
            by_cpu[key] = curve
    return list(by_cpu.values())


def pick_points(points: list[Point], words: str) -> list[Point]:
    """Give the points that ``low,mid,high`` (or kHz) names; ``all`` gives all.

    Examples
    --------
    >>> rows = [Point("a", "", 1, khz, 1.0) for khz in (300, 600, 900, 1200)]
    >>> [point.khz for point in pick_points(rows, "low,mid,high")]
    [300, 900, 1200]
    """
    if words == "all":
        return points
    clocks = sorted({point.khz for point in points})
    named = {"low": clocks[0], "mid": clocks[len(clocks) // 2], "high": clocks[-1]}
    wanted: set[int] = set()
    for word in (word.strip() for word in words.split(",")):
        if word in named:
            wanted.add(named[word])
        elif word.isdigit():
            if int(word) not in clocks:
                raise InputError(f"--points: no operating point of {word} kHz{nearest(word, [str(c) for c in clocks])}")
            wanted.add(int(word))
        else:
            raise InputError(f"--points: `{word}` is none of low, mid, high, all, nor kHz")
    return [point for point in points if point.khz in wanted]
