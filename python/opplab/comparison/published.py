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
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from opplab.comparison.tables import OVERVIEW_SAME, Cell, Row, Table
from opplab.errors import InputError
from opplab.files import csv_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

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


def frame(seed: str | None = None) -> pl.DataFrame:
    """The printed values as a results table (`opplab.results.SCHEMA`), of one text or of all."""
    import polars as pl

    from opplab import results

    files = [file for one in ([seed] if seed else SEEDS) for file in sorted(FOLDER.glob(f"{one}_*.csv"))]
    if not files:
        raise InputError(f"no published text named '{seed}'; there is: {', '.join(SEEDS)}")
    return pl.concat([results.from_published(file) for file in files])


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
    own = {
        "000": (_check_overview_000, _check_efficiency_000),
        "002": (_check_overview_002,),
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
        for cell in cells(seed)
        if cell.table == table and cell.variant == variant
    ]
    return math.exp(math.fsum(logs) / len(logs)) if logs else math.nan


_DETAIL_000 = {
    "tbench": "2-detail-tbench4",
    "dbench": "2-detail-dbench",
    "kernbench": "2-detail-kernbench",
    "gitsource": "2-detail-gitsource",
}


def _is_tilde(cell: Published) -> bool:
    return "~" in cell.note


def _check_overview_000() -> list[Finding]:
    found = []
    for cell in cells("000"):
        if cell.table != "1-overview-perf_ratio" or cell.variant == "ondemand":
            continue
        ratio = overall_ratio("000", _DETAIL_000[cell.benchmark], cell.variant)
        where = f"overview {cell.benchmark} {cell.variant}"
        if _is_tilde(cell):
            if abs(ratio - 1) > 0.005:
                found.append(Finding("000", cell.table, f"{where} (~)", 1.0, ratio, "the details give"))
        elif abs(ratio - cell.value) > 0.006:
            found.append(Finding("000", cell.table, where, cell.value, ratio, "the details give"))
    return found


def _check_efficiency_000() -> list[Finding]:
    watts = {(cell.benchmark, cell.variant): cell.value for cell in cells("000") if cell.table == "3-power"}
    found = []
    for cell in cells("000"):
        if cell.table != "1-overview-ppw_ratio" or cell.variant == "ondemand":
            continue
        name = cell.benchmark if (cell.benchmark, cell.variant) in watts else f"{cell.benchmark}4"
        power = watts[name, cell.variant] / watts[name, "ondemand"]
        ratio = overall_ratio("000", _DETAIL_000[cell.benchmark], cell.variant)
        performance = ratio if cell.benchmark == "tbench" else 1 / ratio
        efficiency = performance / power
        if abs(efficiency - cell.value) > (0.005 if not _is_tilde(cell) else OVERVIEW_SAME):
            where = f"performance per watt {cell.benchmark} {cell.variant}"
            what = "from the details (the text divides ratios that it had rounded)"
            found.append(Finding("000", cell.table, where, cell.value, efficiency, what))
    return found


_DETAIL_002 = {
    ("tbench", "haswell-48x-numa"): "detail-tbench",
    ("dbench", "broadwell-80x-numa"): "detail-dbench",
    ("kernbench", "haswell-48x-numa"): "detail-kernbench",
    ("gitsource", "skylake-8x-uma"): "detail-gitsource",
}


def _check_overview_002() -> list[Finding]:
    found = []
    for cell in cells("002"):
        table = _DETAIL_002.get((cell.benchmark, cell.machine))
        if cell.table != "non-neutral-slide1" or table is None:
            continue
        ratio = overall_ratio("002", table, cell.variant)
        if abs(ratio - cell.value) > 0.006:
            where = f"overview {cell.benchmark} {cell.machine} {cell.variant}"
            found.append(Finding("002", cell.table, where, cell.value, ratio, "the details give"))
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


def _by_operation(found: Iterable[Published]) -> dict[tuple[str, str], list[Published]]:
    rows: dict[tuple[str, str], list[Published]] = {}
    for cell in found:
        rows.setdefault((cell.metric, cell.parameter), []).append(cell)
    return rows


def _of_000() -> list[Table]:
    everything = cells("000")
    variants = list(dict.fromkeys(cell.variant for cell in everything if cell.table == "3-power"))
    found = []
    rows = []
    for kind, group in (("perf", "PERFORMANCE RATIOS"), ("ppw", "PERFORMANCE-PER-WATT RATIOS")):
        part = [cell for cell in everything if cell.table == f"1-overview-{kind}_ratio"]
        for name in dict.fromkeys(cell.benchmark for cell in part):
            line = [cell for cell in part if cell.benchmark == name]
            own = [Cell(cell.value, text=cell.text, same=_is_tilde(cell)) for cell in line]
            rows.append(Row("", name, list(own), better=line[0].better, group=group))
    method = f"published; ~ hides ratios within {100 * OVERVIEW_SAME:g} % of 1"
    overview = Table("overview", variants, rows, title="1. DATA OVERVIEW", benchmark="overview", method=method)
    overview.notes = ["1-overview-perf_ratio", "1-overview-ppw_ratio"]
    found.append(overview)
    titles = {
        "2-detail-tbench4": ("tbench4 (i.e. dbench4 over the network, actually loopback)", "number of clients"),
        "2-detail-dbench": ("dbench (filesystem stressor)", "number of clients"),
        "2-detail-kernbench": ("kernbench (kernel compilation)", "number of jobs"),
        "2-detail-gitsource": ("gitsource (time to run the git unit test suite)", "none"),
    }
    for name, (title, parameter) in titles.items():
        part = [cell for cell in everything if cell.table == name]
        rows = []
        for (metric, _), line in _by_operation(part).items():
            own = [
                Cell(cell.value, text=cell.text, spread=cell.spread, change=cell.change)
                for cell in _ordered(line, variants)
            ]
            kind = "percent" if line[0].spread_kind == "percent" else "absolute"
            rows.append(Row(metric, line[0].param, list(own), spread_kind=kind))
        runs = [f"{part[0].kernel}-{variant}" for variant in variants]
        table = Table("blocks", runs, rows, title, part[0].benchmark, parameter, part[0].unit, part[0].better)
        table.method = "published; +- as printed"
        table.notes = [name]
        found.append(table)
    overview_notes = Table("power", variants, [], title="3. POWER CONSUMPTION TABLE", benchmark="power", unit="W")
    part = [cell for cell in everything if cell.table == "3-power"]
    for name in dict.fromkeys(cell.benchmark for cell in part):
        line = [cell for cell in part if cell.benchmark == name]
        overview_notes.rows.append(Row("", name, [Cell(cell.value, text=cell.text) for cell in line]))
    overview_notes.method = "published; average power consumption (watts)"
    overview_notes.notes = ["3-power"]
    found.append(overview_notes)
    return found


def _ordered(line: Sequence[Published], variants: Sequence[str]) -> list[Published]:
    return sorted(line, key=lambda cell: variants.index(cell.variant))


def _of_001() -> list[Table]:
    found = []
    for name, operation, where in (
        ("sqlite", "Trans", "Single socket skylake running sqlite"),
        ("dbench4", "", "Two-socket skylake running dbench4"),
    ):
        part = [cell for cell in cells("001") if cell.table == name]
        rows = []
        for (metric, _), line in _by_operation(part).items():
            own = [Cell(cell.value, text=cell.text, change=cell.change) for cell in line]
            rows.append(Row(metric, operation or line[0].param, list(own)))
        runs = list(dict.fromkeys(cell.kernel for cell in part))
        table = Table("mmtests-old", runs, rows, where, name, unit=part[0].unit, better=part[0].better)
        table.method = "published (mmtests of 2018)"
        table.notes = [name]
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
        part = [cell for cell in cells("002") if cell.table == name]
        heads = list(dict.fromkeys(f"{_MACHINES_002[cell.machine][0]}\t{cell.variant}" for cell in part))
        rows = []
        for benchmark in dict.fromkeys(cell.benchmark for cell in part):
            line = [cell for cell in part if cell.benchmark == benchmark]
            own = [Cell(cell.value, text=cell.text) for cell in line]
            rows.append(Row("", benchmark, list(own), unit=_UNITS_002[line[0].unit], better=line[0].better))
        runs = list(dict.fromkeys(cell.variant for cell in part))
        table = Table("grid", runs, rows, "non-neutral benchmarks", "overview", heads=heads)
        table.method = f"published; geometric means of ratios over vanilla; columns of a machine: {', '.join(runs)}"
        table.notes = [name]
        found.append(table)
    for name in ("detail-tbench", "detail-dbench", "detail-kernbench", "detail-gitsource"):
        part = [cell for cell in cells("002") if cell.table == name]
        rows = []
        for line in _by_operation(part).values():
            label = {"kernbench": f"elps-{line[0].param}", "gitsource": "Elapsed"}.get(line[0].benchmark, line[0].param)
            own = [
                Cell(cell.value, text=cell.text, spread=cell.spread, change=cell.change, change_text=_percent(cell))
                for cell in line
            ]
            rows.append(Row("", label, list(own), spread_kind="percent"))
        first = part[0]
        runs = list(dict.fromkeys(f"{cell.kernel} {cell.variant}" for cell in part))
        title = f"{first.benchmark} on {_MACHINES_002[first.machine][1]}"
        table = Table("slides", runs, rows, title, first.benchmark, unit=_UNITS_002[first.unit], better=first.better)
        table.method = "published; percentages cut, not rounded, at one decimal"
        table.notes = [name]
        found.append(table)
    return found


def _percent(cell: Published) -> str | None:
    return f"{cell.change_text}%" if cell.change_text else None


_NAMES_003 = {
    "without-EAS": "Without EAS",
    "with-EAS": "With EAS",
    "with-patch (artificial EM)": "With patch",
    "with-patch": "With patch",
}


def _of_003() -> list[Table]:
    found = []
    for name in dict.fromkeys(cell.table for cell in cells("003") if not cell.table.startswith("prose")):
        part = [cell for cell in cells("003") if cell.table == name]
        variants = list(dict.fromkeys(cell.variant for cell in part))
        # The Juno tables come in pairs: a device tree system, then an ACPI one; each has a baseline of its own.
        pairs = [variants]
        if name.startswith("juno-energy"):
            pairs = [variants[:2], variants[2:]]
        for pair in pairs:
            own = [cell for cell in part if cell.variant in pair]
            found.append(_box_003(name, pair, own))
    return found


def _box_003(name: str, pair: Sequence[str], part: Sequence[Published]) -> Table:
    plain = name == "juno-energy-homogeneous"
    rows = []
    for line in _by_operation(part).values():
        own: list[Cell | None] = []
        for cell in _ordered(line, pair):
            value, spread = cell.text.replace("e", "+"), cell.spread
            change = None
            if cell.change_text:
                change = cell.change_text if plain else f"{cell.change_text}%"
            one = Cell(cell.value, text=value, spread=spread, change=cell.change, change_text=change)
            own.append(one)
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
    part = [cell for cell in cells("004") if cell.table == "pixel6-sugov-affinity"]
    rows = []
    for mask in dict.fromkeys(cell.parameter for cell in part):
        line = [cell for cell in part if cell.parameter == mask]
        own = [Cell(cell.value, text=cell.text) for cell in line]
        rows.append(Row("", line[0].param, list(own), unit="IOPS, mW", better=""))
    heads = [
        "cpumask",
        *(cell.metric.removeprefix("average power ") for cell in part if cell.parameter == part[0].parameter),
    ]
    table = Table("listing", heads[1:], rows, benchmark=part[0].benchmark, heads=heads)
    table.method = "published; throughput and average power by affinity of the sugov:6 thread"
    table.notes = ["pixel6-sugov-affinity"]
    return [table]
