"""The published tables of the five texts that opplab realises, in the texts' own layouts, with what does not add up.

The CSV files in ``data/published`` hold one row a printed cell. `tables` lays them out as the texts do; `check`
computes each percentage, overview ratio and sum again from the values beside it and names what disagrees by more than
printing can explain. Tables carry those findings as notes, so that a disagreement is shown with the number that it
concerns.

Seeds: ``000`` EPYC frequency invariance (2020), ``001`` HWP boost (2018), ``002`` frequency invariance on Intel (2019),
``003`` EAS on CPPC systems (2022), ``004`` schedutil's thread affinity (2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from opplab.comparison.tables import OVERVIEW_SAME, Cell, Row, Table
from opplab.errors import InputError
from opplab.files import csv_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opplab.sweep.experiments import Experiment

FOLDER = Path(__file__).parents[1] / "data" / "published"

SEEDS = {
    "000": "freq_max of AMD EPYC for schedutil (2020)",
    "001": "intel_pstate HWP I/O boost (2018)",
    "002": "frequency invariance on Intel (2019)",
    "003": "EAS on CPPC systems (2022)",
    "004": "affinity of schedutil's threads (2024)",
}

# What cannot be computed from the numbers but a reader of them must know.
_REMARKS = {
    "000": ["the power table has tbench4 and dbench4 where the other tables have tbench and dbench"],
    "001": ["the dbench4 table names no unit; milliseconds are assumed, as mmtests reports them"],
    "002": ["the overview has no column heads; their order is deduced from the detailed tables"],
    "003": [
        "the text counts 7 CPUs of the Pixel 4 and lists 4 + 3 + 1 = 8",
        "the Pixel 4's 'energy results (in uW)' are powers, and 6.21+05 stands for 6.21e5",
    ],
    "004": [],
}


_PLACE = ("seed", "table", "machine", "kernel", "benchmark", "metric", "unit", "better", "parameter", "variant")
_COLUMNS = (*_PLACE, "value", "spread", "spread_kind", "published_ratio_pct", "note")


@dataclass(frozen=True, slots=True)
class Published:
    """One printed cell."""

    seed: str
    table: str
    machine: str
    kernel: str
    benchmark: str
    metric: str
    unit: str
    better: str
    parameter: str
    variant: str
    value: float
    text: str
    spread: float | None
    spread_kind: str
    change: float | None
    change_text: str
    note: str

    @property
    def step(self) -> float:
        """The unit of the last printed digit."""
        return _step(self.text)

    @property
    def param(self) -> str:
        """The parameter's value: ``2`` of ``clients=2``."""
        return "\t".join(part.partition("=")[2] for part in self.parameter.split(";")) or ""


def _step(text: str) -> float:
    digits, _, exponent = text.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


@cache
def cells(seed: str) -> tuple[Published, ...]:
    """All printed cells of a text, in the order of the text.

    Examples
    --------
    >>> next(cell.value for cell in cells("000") if cell.variant == "perfgov")
    778.35
    """
    if seed not in SEEDS:
        from opplab.mmtests.problems import UnknownName

        raise UnknownName("published text", seed, SEEDS)
    files = sorted(FOLDER.glob(f"{seed}_*.csv"))
    return tuple(_cell(line) for file in files for _, line in csv_rows(file)[1] if line["value"])


def _part(seed: str, table: str) -> list[Published]:
    """The cells of one table of a text."""
    return [cell for cell in cells(seed) if cell.table == table]


def cells_for(experiment: Experiment) -> tuple[Published, ...]:
    """The published cells that an experiment's ``[[compare]]`` entries choose from."""
    file = experiment.published_file
    if file is None:
        return cells(experiment.published_seed)
    if not file.is_file():
        raise InputError(f"`published` of {experiment.file}: there is no file {file}")
    return cells_of_file(file)


def cells_of_file(path: Path) -> tuple[Published, ...]:
    """All cells with a value of a table of one's own; see `rows_of_file`."""
    found = tuple(row for row in rows_of_file(path, zero=False) if row.text)
    if not found:
        raise InputError(f"failed to read {path}:1:1: the table has no row with a value")
    return found


def rows_of_file(path: Path, *, zero: bool = True) -> tuple[Published, ...]:
    """All rows of a table of one's own: a CSV with the columns of ``data/published``, or the part of them that it has.

    The value of a row that has none is NaN, its text is empty. Without `zero` a value of 0 is refused.

    Parameters
    ----------
    path : Path
        Needed are ``variant`` and ``value``; ``parameter`` (``clients=4``) where the table has one. What is left out is
        empty; the text, and the table where no column has it, are called by the file's name.

    Raises
    ------
    InputError
        If a column is missing, or a value or a spread is no positive number, with its line.
    """
    found = []
    names, rows = csv_rows(path)
    for column in ("variant", "value"):
        if column not in names:
            raise InputError(f"failed to read {path}:1:1: the table has no column '{column}'")
    for place, line in rows:
        full = {name: line.get(name, "").strip() for name in _COLUMNS} | {"seed": path.stem}
        full["table"] = full["table"] or path.stem
        full["unit"] = full["unit"] or ("ratio" if full["metric"].startswith("ratio") else "")
        for column in ("value", "spread", "published_ratio_pct"):
            text = full[column]
            try:
                number = float(text) if text else 1.0
            except ValueError:
                number = math.nan
            if not math.isfinite(number) or (column == "value" and number <= 0 and (number or not zero)):
                message = f"failed to read {path}:{place}:1: `{column}` is '{text}', no positive number"
                raise InputError(message)
        found.append(_cell(full))
    return tuple(found)


def _cell(line: dict[str, str]) -> Published:
    note = line["note"]
    text = line["value"]
    # The text's own spelling decides how many digits were printed.
    if note.startswith("published as ") and "+0" in note:
        text = note.split()[2].rstrip(";").replace("+", "e")
    return Published(
        **{name: line[name] for name in _PLACE},
        value=float(line["value"] or math.nan),
        text=text,
        spread=float(line["spread"]) if line["spread"] else None,
        spread_kind=line["spread_kind"],
        change=float(line["published_ratio_pct"]) if line["published_ratio_pct"] else None,
        change_text=line["published_ratio_pct"],
        note=note,
    )


# --- what does not add up ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Finding:
    """A printed number that the numbers beside it do not give."""

    seed: str
    table: str
    where: str
    printed: float
    computed: float
    what: str

    def __str__(self) -> str:
        return f"{self.where}: printed {self.printed:g}, {self.what} {self.computed:.4g}"


def check(seed: str) -> list[Finding]:
    """Everything in a text that disagrees with itself by more than its printed digits allow.

    Examples
    --------
    >>> [str(finding) for finding in check("003")]
    ['pcmark-work-v3 with-patch (artificial EM): printed -2, recomputed -2.037 against 8003 and against 8026 -2.317']
    """
    own: dict[str, tuple[Callable[[], list[Finding]], ...]] = {
        "000": (partial(_check_overview, "000", "1-overview-perf_ratio"), _check_efficiency_000),
        "002": (partial(_check_overview, "002", "non-neutral-slide1"),),
        "004": (_check_sums_004,),
    }
    return [*_check_percentages(seed), *(one for check in own.get(seed, ()) for one in check())]


def _baselines(seed: str) -> dict[tuple[str, str, str], Published]:
    """The first cell of each table, metric and parameter is the baseline of the others."""
    base: dict[tuple[str, str, str], Published] = {}
    for cell in cells(seed):
        base.setdefault((cell.table, cell.metric, cell.parameter), cell)
    return base


def _check_percentages(seed: str) -> list[Finding]:
    # What may be a baseline: the cells without a percentage. A table of two pairs has two, and the printed percentage
    # shows which one was meant.
    bases: dict[tuple[str, str, str], list[Published]] = {}
    for cell in cells(seed):
        if cell.change is None or cell.note == "baseline":
            bases.setdefault((cell.table, cell.metric, cell.parameter), []).append(cell)
    found = []
    for cell in cells(seed):
        if cell.change is None or cell.note == "baseline":
            continue
        candidates = bases[cell.table, cell.metric, cell.parameter]
        if not any(_explains(cell, base) for base in candidates):
            name = " ".join(part for part in (cell.benchmark, cell.param, cell.variant) if part).replace("\t", "/")
            computed = [_change_of(cell, cell.value, base.value) for base in candidates]
            more = "".join(
                f" {value:.4g} against {base.value:g} and"
                for value, base in zip(computed[1:], candidates[1:], strict=True)
            )
            what = f"recomputed{more} against {candidates[0].value:g}"
            found.append(Finding(seed, cell.table, name, cell.change, computed[0], what))
    return found


def _change_of(cell: Published, value: float, base: float) -> float:
    # Texts 000 to 002 print an improvement as positive; 003 prints the plain change.
    sign = -1.0 if cell.better == "lower" and cell.seed != "003" else 1.0
    return sign * 100 * (value / base - 1)


def _explains(cell: Published, base: Published) -> bool:
    """Whether the printed percentage can come from the two printed values, given their digits."""
    ends = [
        _change_of(cell, cell.value + a * cell.step / 2, base.value + b * base.step / 2)
        for a in (-1, 1)
        for b in (-1, 1)
    ]
    step = _step(cell.change_text)
    # Rounded to the printed digits, or cut there (text 002 cuts).
    slack = step if cell.seed == "002" else step / 2
    return cell.change is not None and min(ends) - slack <= cell.change <= max(ends) + slack


def overall_ratio(seed: str, table: str, variant: str) -> float:
    """Geometric mean over the parameter of value / baseline in a detailed table; NaN when it has none.

    Examples
    --------
    >>> round(overall_ratio("000", "2-detail-tbench4", "perfgov"), 2)
    1.44
    """
    base = _baselines(seed)
    logs = [
        math.log(cell.value / base[cell.table, cell.metric, cell.parameter].value)
        for cell in _part(seed, table)
        if cell.variant == variant
    ]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


_DETAILS = {
    ("tbench", "amd-epyc-7742-2s"): "2-detail-tbench4",
    ("dbench", "amd-epyc-7742-2s"): "2-detail-dbench",
    ("kernbench", "amd-epyc-7742-2s"): "2-detail-kernbench",
    ("gitsource", "amd-epyc-7742-2s"): "2-detail-gitsource",
    ("tbench", "haswell-48x-numa"): "detail-tbench",
    ("dbench", "broadwell-80x-numa"): "detail-dbench",
    ("kernbench", "haswell-48x-numa"): "detail-kernbench",
    ("gitsource", "skylake-8x-uma"): "detail-gitsource",
}
"""The table of details of an overview's benchmark and machine."""


def _is_tilde(cell: Published) -> bool:
    return "~" in cell.note


def _check_overview(seed: str, table: str) -> list[Finding]:
    found = []
    for cell in _part(seed, table):
        details = _DETAILS.get((cell.benchmark, cell.machine))
        if cell.variant == "ondemand" or details is None:
            continue
        ratio = overall_ratio(seed, details, cell.variant)
        words = ("overview", cell.benchmark, cell.machine if seed == "002" else "", cell.variant)
        where = " ".join(word for word in words if word)
        if _is_tilde(cell):
            if abs(ratio - 1) > 0.005:
                found.append(Finding(seed, table, f"{where} (~)", 1.0, ratio, "the details give"))
        elif abs(ratio - cell.value) > 0.006:
            found.append(Finding(seed, table, where, cell.value, ratio, "the details give"))
    return found


def _check_efficiency_000() -> list[Finding]:
    watts = {(cell.benchmark, cell.variant): cell.value for cell in _part("000", "3-power")}
    found = []
    for cell in _part("000", "1-overview-ppw_ratio"):
        if cell.variant == "ondemand":
            continue
        name = cell.benchmark if (cell.benchmark, cell.variant) in watts else f"{cell.benchmark}4"
        power = watts[name, cell.variant] / watts[name, "ondemand"]
        ratio = overall_ratio("000", _DETAILS[cell.benchmark, cell.machine], cell.variant)
        performance = ratio if cell.benchmark == "tbench" else 1 / ratio
        efficiency = performance / power
        if abs(efficiency - cell.value) > (0.005 if not _is_tilde(cell) else OVERVIEW_SAME):
            where = f"performance per watt {cell.benchmark} {cell.variant}"
            what = "from the details (the text divides ratios that it had rounded)"
            found.append(Finding("000", cell.table, where, cell.value, efficiency, what))
    return found


def _check_sums_004() -> list[Finding]:
    found = []
    power = [cell for cell in cells("004") if cell.metric.startswith("average power ")]
    for total in power:
        if not total.metric.endswith("total"):
            continue
        parts = [cell.value for cell in power if cell.parameter == total.parameter and cell is not total]
        if abs(math.fsum(parts) - total.value) > 0.051:
            where = f"power at cpumask {total.param}"
            found.append(Finding("004", total.table, where, total.value, math.fsum(parts), "its parts sum to"))
    return found


# --- the texts' layouts -----------------------------------------------------------------------------------------------


def tables(seed: str) -> list[Table]:
    """All tables of a text in its own layout, in its own order; findings and remarks are notes under the tables.

    Examples
    --------
    >>> [table.benchmark for table in tables("004")]
    ['fio on CPU7, 30 s']
    """
    cells(seed)
    found: list[Table] = {"000": _of_000, "001": _of_001, "002": _of_002, "003": _of_003, "004": _of_004}[seed]()
    findings = check(seed)
    for table in found:
        # A layout function leaves the names of the tables that it drew.
        names = set(table.notes)
        table.notes = [str(finding) for finding in findings if finding.table in names]
    if found:
        found[-1].notes += _REMARKS[seed]
    return found


def _lines(part: Iterable[Published], *names: str) -> list[list[Published]]:
    """The cells that stand in a line: those for which these attributes are equal."""
    lines: dict[tuple[str, ...], list[Published]] = {}
    for cell in part:
        lines.setdefault(tuple(getattr(cell, name) for name in names), []).append(cell)
    return list(lines.values())


def _printed(line: Iterable[Published]) -> list[Cell | None]:
    return [Cell(cell.value, text=cell.text, spread=cell.spread, change=cell.change) for cell in line]


def _unique(part: Iterable[Published], name: str) -> list[str]:
    return list(dict.fromkeys(getattr(cell, name) for cell in part))


def _ordered(line: Sequence[Published], variants: Sequence[str]) -> list[Published]:
    return sorted(line, key=lambda cell: variants.index(cell.variant))


def _of_000() -> list[Table]:
    power = _part("000", "3-power")
    variants = _unique(power, "variant")
    rows = []
    for kind, group in (("perf", "PERFORMANCE RATIOS"), ("ppw", "PERFORMANCE-PER-WATT RATIOS")):
        for line in _lines(_part("000", f"1-overview-{kind}_ratio"), "benchmark"):
            own: list[Cell | None] = [Cell(cell.value, text=cell.text, same=_is_tilde(cell)) for cell in line]
            rows.append(Row("", line[0].benchmark, own, better=line[0].better, group=group))
    overview = Table("overview", variants, rows, "1. DATA OVERVIEW", "overview")
    overview.method = f"published; ~ hides ratios within {100 * OVERVIEW_SAME:g} % of 1"
    overview.notes = ["1-overview-perf_ratio", "1-overview-ppw_ratio"]
    found = [overview]
    titles = {
        "2-detail-tbench4": ("tbench4 (i.e. dbench4 over the network, actually loopback)", "number of clients"),
        "2-detail-dbench": ("dbench (filesystem stressor)", "number of clients"),
        "2-detail-kernbench": ("kernbench (kernel compilation)", "number of jobs"),
        "2-detail-gitsource": ("gitsource (time to run the git unit test suite)", "none"),
    }
    for name, (title, parameter) in titles.items():
        part = _part("000", name)
        rows = [
            Row(
                line[0].metric,
                line[0].param,
                _printed(_ordered(line, variants)),
                spread_kind="percent" if line[0].spread_kind == "percent" else "absolute",
            )
            for line in _lines(part, "metric", "parameter")
        ]
        runs = [f"{part[0].kernel}-{variant}" for variant in variants]
        table = Table("blocks", runs, rows, title, part[0].benchmark, parameter, part[0].unit, part[0].better)
        table.method, table.notes = "published; +- as printed", [name]
        found.append(table)
    rows = [Row("", line[0].benchmark, _printed(line)) for line in _lines(power, "benchmark")]
    watts = Table("power", variants, rows, "3. POWER CONSUMPTION TABLE", "power", unit="W")
    watts.method, watts.notes = "published; average power consumption (watts)", ["3-power"]
    return [*found, watts]


def _of_001() -> list[Table]:
    found = []
    for name, operation, where in (
        ("sqlite", "Trans", "Single socket skylake running sqlite"),
        ("dbench4", "", "Two-socket skylake running dbench4"),
    ):
        part = _part("001", name)
        lines = _lines(part, "metric", "parameter")
        rows = [Row(line[0].metric, operation or line[0].param, _printed(line)) for line in lines]
        runs = _unique(part, "kernel")
        table = Table("mmtests-old", runs, rows, where, name, unit=part[0].unit, better=part[0].better)
        table.method, table.notes = "published (mmtests of 2018)", [name]
        found.append(table)
    return found


_MACHINES_002 = {
    "skylake-8x-uma": ("1 x SKYLAKE 8 CORES", "8x-SKYLAKE-UMA"),
    "broadwell-80x-numa": ("2 x BROADWELL 80 CORES", "80x-BROADWELL-NUMA"),
    "haswell-48x-numa": ("2 x HASWELL 48 CORES", "48x-HASWELL-NUMA"),
}
_UNITS_002 = {
    "ratio of trans/s": "TRANS_PER_SECOND",
    "ratio of ms": "TIME_MSECONDS",
    "ratio of s": "TIME_SECONDS",
    "ratio of Mbit/s": "MBITS_PER_SECOND",
    "ratio of MB/s": "MBYTES_PER_SECOND",
    "MB/s": "MBYTES_PER_SECOND",
    "ms": "TIME_MSECONDS",
    "s": "TIME_SECONDS",
}


def _of_002() -> list[Table]:
    found = []
    for name in ("non-neutral-slide1", "non-neutral-slide2"):
        part = _part("002", name)
        heads = list(dict.fromkeys(f"{_MACHINES_002[cell.machine][0]}\t{cell.variant}" for cell in part))
        rows = [
            Row("", line[0].benchmark, _printed(line), unit=_UNITS_002[line[0].unit], better=line[0].better)
            for line in _lines(part, "benchmark")
        ]
        runs = _unique(part, "variant")
        table = Table("grid", runs, rows, "non-neutral benchmarks", "overview", heads=heads)
        table.method = f"published; geometric means of ratios over vanilla; columns of a machine: {', '.join(runs)}"
        table.notes = [name]
        found.append(table)
    for name in ("detail-tbench", "detail-dbench", "detail-kernbench", "detail-gitsource"):
        part = _part("002", name)
        rows = []
        for line in _lines(part, "metric", "parameter"):
            label = {"kernbench": f"elps-{line[0].param}", "gitsource": "Elapsed"}.get(line[0].benchmark, line[0].param)
            rows.append(Row("", label, _with_text(line, "%"), spread_kind="percent"))
        first = part[0]
        runs = list(dict.fromkeys(f"{cell.kernel} {cell.variant}" for cell in part))
        title = f"{first.benchmark} on {_MACHINES_002[first.machine][1]}"
        table = Table("slides", runs, rows, title, first.benchmark, unit=_UNITS_002[first.unit], better=first.better)
        table.method, table.notes = "published; percentages cut, not rounded, at one decimal", [name]
        found.append(table)
    return found


def _with_text(line: Sequence[Published], percent: str) -> list[Cell | None]:
    """Cells whose changes stand as they were printed."""
    cells_ = _printed(line)
    for cell, own in zip(line, cells_, strict=True):
        if own is not None and cell.change_text:
            own.change_text = cell.change_text + percent
    return cells_


_NAMES_003 = {
    "without-EAS": "Without EAS",
    "with-EAS": "With EAS",
    "with-patch (artificial EM)": "With patch",
    "with-patch": "With patch",
}


def _of_003() -> list[Table]:
    found = []
    for name in _unique((cell for cell in cells("003") if not cell.table.startswith("prose")), "table"):
        part = _part("003", name)
        variants = _unique(part, "variant")
        # The Juno tables come in pairs: a device tree system, then an ACPI one; each has a baseline of its own.
        pairs = [variants[:2], variants[2:]] if name.startswith("juno-energy") else [variants]
        found += [_box_003(name, pair, [cell for cell in part if cell.variant in pair]) for pair in pairs]
    return found


def _box_003(name: str, pair: Sequence[str], part: Sequence[Published]) -> Table:
    percent = "" if name == "juno-energy-homogeneous" else "%"
    rows = []
    for line in _lines(part, "metric", "parameter"):
        own = _with_text(_ordered(line, pair), percent)
        for cell in own:
            if cell is not None and cell.text is not None:
                cell.text = cell.text.replace("e", "+")
        rows.append(Row("", line[0].param, own, spread_kind="absolute"))
    heads = ["Groups", "Tasks"] if "hackbench" in name else ["#Tasks"]
    runs = [_NAMES_003.get(variant, variant) for variant in pair]
    first = part[0]
    digits = 0 if first.unit == "score" else 2
    table = Table("boxes", runs, rows, name, first.benchmark, "tasks", first.unit, first.better, digits, heads=heads)
    table.method = f"published; {first.metric} ({first.unit}), ci(+/-) as printed"
    table.notes = [name]
    return table


def _of_004() -> list[Table]:
    part = _part("004", "pixel6-sugov-affinity")
    lines = _lines(part, "parameter")
    rows = [Row("", line[0].param, _printed(line), unit="IOPS, mW") for line in lines]
    heads = ["cpumask", *(cell.metric.removeprefix("average power ") for cell in lines[0])]
    table = Table("listing", heads[1:], rows, benchmark=part[0].benchmark, heads=heads)
    table.method = "published; throughput and average power by affinity of the sugov:6 thread"
    table.notes = ["pixel6-sugov-affinity"]
    return [table]
