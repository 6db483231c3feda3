"""Columns of logs and tables of power, known by their names, whoever wrote them: turbostat, pepc, RAPL, rails, people.

A name has its quantity and its unit: exact ones first, then by their words (``Package Power (W)``,
``mean_bzy_mhz_of_these``).  Tables may have any separator, a preamble, repeated heads, more columns than are known,
rows a CPU beside those of the whole, and cells that are no numbers where nothing was measured.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from opplab.errors import FormatError
from opplab.runs import IN_WATTS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


KNOWN = {
    "watts": ["pkgwatt", "pkg_w", "package_w", "power_w", "rapl_pkg_w_mean", "watts", "w", "power", "pkg_mw",
              "power_mw", "mw", "power_uw", "ac_w_mean", "ac_w", "wall_w", "p"],
    "cores' watts": ["corwatt", "cores_w", "rapl_cores_w_mean", "cor_w"],
    "clock": ["bzy_mhz", "mean_cycles_mhz_per_busy_core", "mhz", "ghz", "freq_mhz", "freq_khz", "khz",
              "frequency_khz", "freq_hz", "freq_ghz"],
    "load": ["busy_cores", "active_cores", "busy%", "%c0", "%busy", "busy_pct", "util_pct", "load_pct", "cores",
             "threads", "util", "load"],
    "joules": ["pkg_j", "package_j"],
    "cores' joules": ["cor_j", "cores_j"],
    "GPU's watts": ["gfxwatt"],
    "GPU's joules": ["gfx_j"],
    "time": ["t", "time_s", "seconds", "time_of_day_seconds", "time_ms", "time_us", "time_ns", "time"],
    "energy": ["energy_j", "energy_uj", "energy_mj"],
}  # fmt: skip
"""Exact names of columns by quantity, the more telling first; other names are known by their words."""

_ASLEEP = re.compile(r"(?:pk|pkg)_?%?_?pc(?:2|3|6|7|8|9|10)(?:_pct|_%)?|%?pc(?:2|3|6|7|8|9|10)")
_WATTS = {unit.lower(): watts for unit, watts in IN_WATTS.items()}
_WATTS |= {"watt": 1.0, "watts": 1.0, "milliwatt": 1e-3, "milliwatts": 1e-3, "kilowatt": 1e3, "kilowatts": 1e3}
_HZ = {"ghz": 1.0, "mhz": 1e-3, "khz": 1e-6, "hz": 1e-9}
_PERCENT = {"%", "pct", "percent"}
_SECONDS = {"s": 1.0, "sec": 1.0, "seconds": 1.0, "ms": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9}
_JOULES = {"j": 1.0, "joules": 1.0, "mj": 1e-3, "uj": 1e-6}
_OTHERS = {"ram", "dram", "gfx", "gpu", "uncore", "limit", "tdp", "pl1", "pl2", "idle", "sd", "std", "min", "max",
           "tsc", "ref", "base", "nominal", "target", "requested", "request", "imc", "mem", "memory", "rest", "err",
           "error", "sys", "avg_mhz", "p10", "p90", "median"}  # fmt: skip
"""Words of columns that are about something else."""
_PACKAGE = {"pkg", "package", "cpu", "soc", "socket", "total", "psys"}
_CORES = {"cor", "core", "cores", "pp0"}
_COUNTED = {"cores", "threads", "cpus"}
_BUSY = {"busy", "active", "running", "spinning", "loaded", "used"}
_LOADS = {"busy", "util", "utilization", "utilisation", "usage", "load", "c0"}
_IDS = {"cpu", "core", "cor", "package", "pkg", "pk", "socket", "node", "die", "scope", "apic", "x2apic"}
_PLACES = {"cpu", "cluster", "cluster_name", "core_type", "domain", "policy", "rail"}
"""Columns that name a part of the machine, of whose rows none stands for the whole."""
_WHOLE = {"", "-", "all", "system", "total", "sum", "whole", "summary"}
_NOTHING = {"", "-", "--", "nan", "na", "n/a", "none", "null", "."}
_LINE_OF_SECONDS = re.compile(r"^\s*(?:Measurement interval: )?(\d+(?:\.\d+)?) sec(?:onds)?\s*$")


@dataclass(frozen=True)
class Column:
    """What a column holds: quantity (`KNOWN`, or ``asleep``), factor to W, GHz, s, J or a share, and how sure."""

    quantity: str
    factor: float
    rank: int
    is_count: bool = False
    """A load in cores, not a share of them."""
    has_unit: bool = True


def _words(name: str) -> list[str]:
    name = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", name.strip().strip("\ufeff\"'"))
    return [word for word in re.split(r"[^a-z0-9%]+", name.lower().replace("%", "_%_")) if word]


def plain(name: str) -> str:
    """Give a column's name as `KNOWN` has it."""
    name = name.strip().strip("\ufeff\"'").lower()
    return re.sub(r"[\s()\[\]/.-]+", "_", name).strip("_")


def known_column(name: str) -> Column | None:
    """Describe what a column holds by its name; None if nothing in it is known.

    Examples
    --------
    >>> known_column("Bzy_MHz").quantity, known_column("Package Power (mW)").factor, known_column("PDU (kW)").factor
    ('clock', 0.001, 1000.0)
    >>> known_column("TSC_MHz") is None
    True
    """
    exact, words = plain(name), _words(name)
    if exact in ("avg_mhz", "totl%c0", "any%c0", "gfx%c0", "cpugfx%", "pkg_%", "ram_%"):
        return None
    if _ASLEEP.fullmatch(exact):
        return Column("asleep", 0.01, 0)
    unit = _unit(words)
    for quantity, names in KNOWN.items():
        if exact in names:
            rank = names.index(exact)
            if quantity == "load":
                counted = exact.endswith(("cores", "threads"))
                share = 1.0 if counted or unit is None else 0.01
                return Column(quantity, share, rank, counted, unit is not None)
            return Column(quantity, _factor(exact, words, quantity), rank)
    return _by_words(words)


def _unit(words: list[str]) -> str | None:
    known = {*_WATTS, *_HZ, *_PERCENT, *_JOULES}
    return next((word for word in reversed(words) if word in known), None)


def _factor(exact: str, words: list[str], quantity: str) -> float:
    units = {"clock": _HZ, "time": _SECONDS, "energy": _JOULES}.get(quantity, _WATTS)
    return next((units[word] for word in reversed(words) if word in units), 1.0)


def _by_words(words: list[str]) -> Column | None:
    """Describe what a column holds by the words of its name, behind all exact names."""
    said = set(words)
    if said & _OTHERS:
        return None
    unit = _unit(words)
    if unit in _WATTS:
        if said & _CORES and not said & {"busy", "one"}:
            return Column("cores' watts", _WATTS[unit], 100)
        return Column("watts", _WATTS[unit], 100 if said & _PACKAGE else 120)
    if unit in _HZ and "per" not in said - {"busy"}:
        return Column("clock", _HZ[unit], 100 if said & {"bzy", "busy"} else 120)
    if said & _COUNTED and said & _BUSY:
        return Column("load", 1.0, 100 if "cores" in said else 105 if "busy" in said else 110, True)
    if said & _LOADS and not said & _COUNTED and unit not in _JOULES:
        if unit in _PERCENT:
            return Column("load", 0.01, 110)
        return (
            Column("load", 1.0, 130, has_unit=False) if said & {"util", "utilization", "utilisation", "usage"} else None
        )
    return None


@dataclass
class Table:
    """The rows of the whole machine, by quantity."""

    values: dict[str, Floats]
    names: dict[str, str]
    """The column that each quantity is from, as `KNOWN` writes names."""
    columns: dict[str, Column]
    seconds: Floats
    """Each row's length by the log (turbostat's line ``10.0 sec``, or its measurement interval); else not a number."""
    by_package: list[list[float]] = field(default_factory=list)
    """Loads of the single packages in each row, where the table has rows of them."""
    by_cpu: list[dict[int, float]] = field(default_factory=list)
    """Loads of the single CPUs in each row, where the table has rows of them."""
    ghz_by_cpu: list[dict[int, float]] = field(default_factory=list)
    """Their clocks, in the same rows."""
    states: list[dict[int | None, dict[str, float]]] = field(default_factory=list)
    """Of the CPUs with rows and of the whole (None): shares of time by the names of columns that end in ``%``, without
    that and in lower case; those are idle states, and others."""
    kinds: dict[str, list[str]] = field(default_factory=dict)
    """Columns of words, and of idle states, that are none of the quantities: they name of what kind a row is."""


def _split(line: str, mark: str | None) -> list[str]:
    if mark in (",", ";"):
        return [cell.strip() for cell in next(csv.reader([line], delimiter=mark, skipinitialspace=True))]
    cells = line.split(mark)
    if mark == "\t" and len(cells) == 1:
        cells = line.split()
    return [cell.strip().strip('"') for cell in cells]


def _head(line: str) -> tuple[str | None, list[str]] | None:
    """Give separator and names of a line that is a head: two of its words are known quantities, none a number."""
    if " --" in line:
        return None  # The command that wrote the log.
    for mark in (";", ",", "\t", None):
        if mark is not None and mark not in line:
            continue
        names = _split(line.lstrip("#") if mark else line, mark)
        quantities = {column.quantity for column in map(known_column, names) if column is not None}
        if len(quantities - {"asleep"}) >= 2 and not any(_is_number(name) for name in names):
            return mark, names
    return None


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


@dataclass
class _Head:
    mark: str | None
    names: list[str]
    chosen: dict[str, int]
    asleep: list[int]
    ids: list[int]
    states: list[int]


def _choose(names: list[str], mark: str | None, path: Path, line: int) -> _Head:
    best: dict[str, tuple[int, int]] = {}
    asleep = []
    for index, name in enumerate(names):
        column = known_column(name)
        if column is None:
            continue
        if column.quantity == "asleep":
            asleep.append(index)
            continue
        if (
            column.quantity in best
            and best[column.quantity][0] == column.rank
            and plain(name) == plain(names[best[column.quantity][1]])
        ):
            raise FormatError.at(path, line, f"two columns `{plain(name)}`")
        if column.quantity not in best or column.rank < best[column.quantity][0]:
            best[column.quantity] = (column.rank, index)
    ids = [index for index, name in enumerate(names) if plain(name) in _IDS]
    states = [index for index, name in enumerate(names) if name.endswith("%")]
    return _Head(mark, names, {quantity: index for quantity, (_, index) in best.items()}, asleep, ids, states)


@dataclass
class _Row:
    line: int
    cells: list[str]
    head: _Head
    seconds: float


def _rows(text: str, path: Path) -> Iterator[_Row]:
    head: _Head | None = None
    first: list[str] = []
    seconds = float("nan")
    only_short = True  # Since the head: rows of CPUs may lack as many cells as a head has ids.
    for number, line in enumerate(text.splitlines(), 1):
        told = _LINE_OF_SECONDS.match(line)
        if told:
            seconds = float(told[1])
            continue
        if not line.strip() or (line.startswith("#") and _head(line) is None):
            continue
        found = _head(line)
        if found is not None:
            mark, names = found
            if head is None or names != head.names:
                head = _choose(names, mark, path, number)
                first = first or names
            only_short = True
            continue
        if head is None:
            continue
        cells = _split(line, head.mark)
        if head.mark in (",", ";") and len(cells) > len(head.names):
            raise FormatError.at(path, number, f"{len(cells)} cells under {len(head.names)} columns")
        only_short = only_short and len(cells) == len(head.names) - len(head.ids)
        if head.mark not in (",", ";") and head.ids and only_short:
            # Old turbostats leave the names of the summary's row blank.
            for index in head.ids:
                cells.insert(index, "-")
        yield _Row(number, cells, head, seconds)


def _cell(row: _Row, index: int | None, path: Path) -> float:
    """Give a number; nothing where the row has none there."""
    cell = row.cells[index] if index is not None and index < len(row.cells) else ""
    if cell.lower() in _NOTHING or set(cell) <= {"*", "."}:
        return float("nan")
    if row.head.mark == ";":
        cell = cell.replace(",", ".")
    try:
        return float(cell)
    except ValueError:
        if row.head.mark is None and len(row.cells) != len(row.head.names):
            return float("nan")  # A line of words between the rows.
        name = plain(row.head.names[index or 0])
        raise FormatError.at(path, row.line, f"`{name}` is `{cell}`, not a number") from None


def _of(row: _Row) -> str:
    """Describe what a row is of: the whole, a package, or something smaller."""
    ids = {plain(row.head.names[i]): row.cells[i].lower() if i < len(row.cells) else "" for i in row.head.ids}
    if all(value in _WHOLE for value in ids.values()):
        return "whole"
    small = {
        name: value for name, value in ids.items() if name in ("cpu", "core", "cor", "apic", "x2apic", "die", "node")
    }
    if all(value in _WHOLE for value in small.values()):
        return "package"
    return "part"


def read_table(text: str, path: Path) -> Table | None:
    """Read the rows of the whole; None if no line is a head.

    Raises
    ------
    FormatError
        A cell of a column that is needed is no number; two columns have one name; rows are of several parts of the
        machine, and none is of the whole.
    """
    rows = list(_rows(text, path))
    if not rows:
        return None
    kinds = [_of(row) for row in rows]
    if "whole" in kinds:
        kept = [index for index, kind in enumerate(kinds) if kind == "whole"]
    else:
        # Packages or one CPU alone: each row stands for itself.
        kept = list(range(len(rows)))
    _check_whole([rows[index] for index in kept], path)
    heads = {id(row.head): row.head for row in rows}.values()
    quantities = list(dict.fromkeys(quantity for head in heads for quantity in head.chosen))
    written = {q: next(h.names[h.chosen[q]] for h in heads if q in h.chosen) for q in quantities}
    names = {q: plain(name) for q, name in written.items()}
    columns: dict[str, Column] = {}
    for quantity in quantities:
        column = known_column(written[quantity])
        assert column is not None
        columns[quantity] = column
    values = {
        quantity: np.array([_cell(rows[i], rows[i].head.chosen.get(quantity), path) for i in kept], dtype=float)
        * columns[quantity].factor
        for quantity in quantities
    }
    values["asleep"] = np.array([_asleep(rows[i], path) for i in kept])
    labels = _kinds([rows[i] for i in kept])
    if "load" in columns and columns["load"].is_count:
        # Its threads are those that sleep.
        idles = [any(cells[at].lower() == "idle" for cells in labels.values()) for at in range(len(kept))]
        values["load"] = np.where(idles, 0.0, values["load"])
    by_package, by_cpu, ghz_by_cpu = [], [], []
    states: list[dict[int | None, dict[str, float]]] = [{None: _states(rows[i])} for i in kept]

    def cells(quantity: str, within: range) -> dict[int, float]:
        if quantity not in columns:
            return {}
        found = {i: _cell(rows[i], rows[i].head.chosen.get(quantity), path) for i in within}
        return {i: value * columns[quantity].factor for i, value in found.items() if np.isfinite(value)}

    if "whole" in kinds and len(kept) < len(rows) and "load" in columns:
        ends = [*kept[1:], len(rows)]
        for start, end, own in zip(kept, ends, states, strict=True):
            loads, clocks = cells("load", range(start, end)), cells("clock", range(start, end))
            by_package.append([load for i, load in loads.items() if kinds[i] == "package"])
            cpus = {i: cpu for i in loads if (cpu := _cpu_of(rows[i])) is not None}
            by_cpu.append({cpu: loads[i] for i, cpu in cpus.items()})
            ghz_by_cpu.append({cpu: clocks[i] for i, cpu in cpus.items() if i in clocks})
            own.update({cpu: _states(rows[i]) for i, cpu in cpus.items()})
    seconds = np.array([rows[i].seconds for i in kept])
    return Table(values, names, columns, seconds, by_package, by_cpu, ghz_by_cpu, states, labels)


def _kinds(rows: list[_Row]) -> dict[str, list[str]]:
    """Give the columns that name of what kind a row is; none where the rows have several heads."""
    head = rows[0].head
    if any(row.head is not head for row in rows):
        return {}
    read = {*head.chosen.values(), *head.asleep, *head.ids, *head.states}
    of: dict[str, list[str]] = {}
    for index, name in enumerate(head.names):
        cells = [row.cells[index] if index < len(row.cells) else "" for row in rows]
        words = any(cell.lower() not in _NOTHING and not _is_number(cell) for cell in cells)
        if index not in read and (words or "state" in plain(name)):
            of[plain(name)] = cells
    return of


def _check_whole(rows: list[_Row], path: Path) -> None:
    """Refuse rows of several parts of a machine."""
    parts: dict[str, set[str]] = {}
    for row in rows:
        for index, name in enumerate(row.head.names):
            cell = row.cells[index] if index < len(row.cells) else ""
            if plain(name) in _PLACES and cell.lower() not in _WHOLE:
                parts.setdefault(plain(name), set()).add(cell)
                if len(parts[plain(name)]) > 1:
                    told = ", ".join(sorted(parts[plain(name)]))
                    message = f"rows of several parts (`{plain(name)}`: {told}), and watts and load are of the whole"
                    raise FormatError.at(path, row.line, message)


def _cpu_of(row: _Row) -> int | None:
    """Give the CPU that a row is of."""
    index = next((i for i in row.head.ids if plain(row.head.names[i]) == "cpu"), None)
    cell = row.cells[index] if index is not None and index < len(row.cells) else ""
    return int(cell) if cell.isdecimal() else None


def _states(row: _Row) -> dict[str, float]:
    """Give the row's shares of time by idle state."""
    cells = {row.head.names[i][:-1].lower(): row.cells[i] for i in row.head.states if i < len(row.cells)}
    return {name: float(cell) / 100 for name, cell in cells.items() if _is_number(cell)}


def _asleep(row: _Row, path: Path) -> float:
    shares = [_cell(row, index, path) for index in row.head.asleep]
    told = [share / 100 for share in shares if np.isfinite(share)]
    return float(np.clip(np.sum(told), 0, 1)) if told else float("nan")
