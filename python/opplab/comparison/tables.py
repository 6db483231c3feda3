"""Tables of results, and the layouts that this field is used to.

A `Table` is rows of cells with everything that is known of each (value, interval, change, test). What it looks like
is one function a layout and one a format:

==============  =====================================================================================================
layout          as in
==============  =====================================================================================================
``blocks``      mails of kernel patches: ``Hmean 1 427.19 +- 0.16% ( ) 778.35 +- 0.10% ( 82.20%)``, three runs a block
``overview``    the same mails' overview: a line a benchmark, a ratio a run, ``~`` for "same as baseline"
``power``       their power table
``ratios``      ours: a ratio with its interval a run
``significance``  ours: corrected p-value and effect size a run
``grid``        conference slides: a line a benchmark, a ratio for each machine and run
``slides``      the slides' details: ``199.1 ±0.4% 205.0 ±0.6% ( 2.9%)``
``boxes``       patch sets of the EAS people: mean and ``ci(+/-)`` in boxes of dashes
``listing``     a parameter, a value, then a power and its parts
``mmtests-old`` mmtests' tables of 2018
``robot``       the kernel test robot: base, ``%change``, mean, ``± N%``, the metric at the end
==============  =====================================================================================================

**The tilde.** ``~`` stands for "same as baseline". A cell is the same when the confidence interval of its ratio
contains 1, or without an interval when its ratio rounds to 1.00. With the overview rule it is the same when the ratio
is within 2.5 % of 1, which is what the published EPYC overview hides. A table that uses ``~`` names the rule that it
follows.

What the module does not do: compute (see `opplab.comparison.compare`), or know where values come from.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opplab.certainty import DECIMALS, Certainty, decimals, digits_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import polars as pl

    from opplab.comparison.method import Sample

FORMATS = ("text", "markdown", "html", "csv", "json", "latex")

# How far a ratio may be from 1 and still be printed as ~ under the overview rule.
OVERVIEW_SAME = 0.025


@dataclass(slots=True)
class Cell:
    """One number of a table and what is known of it; what is not known is None."""

    value: float | None = None
    # As it was printed or is to be printed, when the value alone does not show it (a published "1", a count).
    text: str | None = None
    # Half width behind "+-", in the units of the row.
    spread: float | None = None
    # Decimal places of the value; None: the table's.
    digits: int | None = None
    low: float | None = None
    high: float | None = None
    # Change against the baseline in percent, positive being better when the row has a better side.
    change: float | None = None
    # Whether the change is one of a share from 0, in percentage points, and its interval then.
    in_points: bool = False
    points_low: float | None = None
    points_high: float | None = None
    change_text: str | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    hedges_g: float | None = None
    n: int | None = None
    # The interval of the mean has no upper end (few rates that differ much), so that none is given.
    is_open: bool = False
    # Whether the change is clear, and the words of `opplab.certainty` for it.
    significant: bool | None = None
    certain: str = ""
    same: bool = False
    # Which values are lost or missing, so that the change is of the others.
    cannot: str = ""
    # Why the values are no measurement.
    impossible: str = ""
    # What was compared, for who must judge the change again.
    sample: Sample | None = None

    @property
    def half(self) -> float | None:
        """Half the width of the mean's interval; None where it has none, or an open one."""
        if self.low is None or self.high is None or not math.isfinite(self.high - self.low):
            return None
        return (self.high - self.low) / 2


@dataclass(slots=True)
class Row:
    """A line: how it is called, and a cell for each run."""

    stat: str
    operation: str
    cells: list[Cell | None]
    unit: str = ""
    better: str = ""
    # "percent", "absolute" or "" (no spread).
    spread_kind: str = ""
    # Lines of one benchmark, machine or block belong together.
    group: str = ""
    metric: str = ""
    # Measured beside the benchmark, and no performance of it: a rule of the benchmark's name leaves it out.
    is_beside: bool = False


@dataclass(slots=True)
class Table:
    """A comparison; the first run is the baseline."""

    layout: str
    runs: list[str]
    rows: list[Row]
    title: str = ""
    benchmark: str = ""
    parameter: str = ""
    unit: str = ""
    better: str = ""
    digits: int = 2
    # How the numbers were made: printed under every table.
    method: str = ""
    # What a reader must know: disagreements, skipped files.
    notes: list[str] = field(default_factory=list)
    # Layouts with more heads than runs keep them here.
    heads: list[str] = field(default_factory=list)
    machine: str = ""

    def __str__(self) -> str:
        return render(self, "text")

    def to_frame(self) -> pl.DataFrame:
        """The cells as a polars DataFrame, one row a cell."""
        import polars as pl

        return pl.DataFrame(list(tidy(self)), schema=_TIDY)

    def _repr_html_(self) -> str:
        return render(self, "html")


def laid_out(table: Table, layout: str) -> Table:
    """A detailed table in another of the detailed layouts: ``blocks``, ``slides`` or ``boxes``."""
    table.layout = layout
    if layout == "slides":
        table.digits = 1
        table.title = table.title or table.benchmark
        for row in table.rows:
            digits = decimals((cell.value for cell in row.cells if cell and cell.value), 1)
            for cell in row.cells:
                if cell is not None and cell.digits is None:
                    cell.digits = digits
    if layout == "boxes":
        table.heads = ["Operation"]
        for row in table.rows:
            row.spread_kind = "absolute"
            for cell in row.cells:
                if cell is not None and cell.low is not None and cell.high is not None:
                    cell.spread = cell.half
    return table


# Layouts whose cells are means, in the units of their rows.
_MEANS = ("blocks", "slides", "boxes")

# So many metrics of several units are named above a table; of more each line has its own.
_METRICS_NAMED = 6


def _units(table: Table) -> str:
    """The unit of a table, or those of its metrics where they are few; empty where each line has its own."""
    units = {row.metric: row.unit for row in table.rows}
    if table.unit or table.layout not in _MEANS or not units:
        return table.unit
    if len(set(units.values())) == 1:
        return next(iter(units.values()))
    if len(units) > _METRICS_NAMED or not all(units) or any(row.unit != units[row.metric] for row in table.rows):
        return ""
    # Boxes have no line for it.
    by_unit: dict[str, list[str]] = {}
    for metric, unit in () if table.layout == "boxes" else units.items():
        by_unit.setdefault(unit or "no unit", []).append(metric)
    return "; ".join(f"{unit} of {', '.join(metrics)}" for unit, metrics in by_unit.items())


def _label(table: Table, row: Row) -> str:
    """An operation, with its unit where nothing above the table names it."""
    return (
        row.operation
        if table.layout not in _MEANS or not row.unit or _units(table)
        else f"{row.operation} ({row.unit})"
    )


def render(table: Table, form: str = "text", width: int | None = None) -> str:
    """The table in one of `FORMATS`.

    Parameters
    ----------
    width : int, optional
        Of text: the runs stand in blocks below each other where lines would be longer, and notes are wrapped.  Layouts
        of published texts and of several machines (``grid``, ``mmtests-old``, ``listing``) stay as they are.
    """
    return _text(table, width) if form == "text" else _FORMATTERS[form](table)


def render_all(tables: Sequence[Table], form: str = "text", width: int | None = None) -> str:
    """Several tables in one of `FORMATS`: one CSV, one JSON value, the words of equal methods once."""
    if form == "csv":
        return _csv(*tables)
    if form == "json" and len(tables) > 1:
        import json

        return json.dumps([_whole(table) for table in tables], indent=1, ensure_ascii=False) + "\n"
    if form in ("text", "markdown"):
        following = [*(table.method for table in tables[1:]), ""]
        tables = [
            replace(table, method="") if table.method == after else table
            for table, after in zip(tables, following, strict=True)
        ]
    between = "\n" if form in ("text", "markdown") else ""
    return between.join(render(table, form, width) for table in tables)


# --- text -------------------------------------------------------------------------------------------------------------


def _text(table: Table, width: int | None = None) -> str:
    from opplab.report.text import flow

    lines = [line.rstrip() for line in _folded(table, width)]
    between = [""] if table.method else []
    return "\n".join([*lines, *between, *(flow(line, width) for line in _foot(table, "method", "note"))]) + "\n"


# Layouts in which runs may stand in blocks below each other.
_FOLDS = ("overview", "power", "ratios", "significance", "slides", "boxes")


def _folded(table: Table, width: int | None) -> list[str]:
    """Lay a table out; as many runs beside each other as fit."""
    layout = _LAYOUTS[table.layout]
    lines = layout(table)
    if width is None or table.layout not in ("blocks", *_FOLDS):
        return lines
    most = len(table.runs) if table.layout in _FOLDS else _runs_a_block(table)
    while most > 1 and _longest(lines) > width:
        most -= 1
        lines = _in_parts(table, most)
    whole, room = lines, max(map(len, table.runs), default=0)
    while (excess := _longest(lines) - width) > 0 and room > _NAME_MIN:
        from opplab.report.text import wrapped_name

        room = max(room - excess, _NAME_MIN)
        lines = _in_parts(replace(table, runs=["\n".join(wrapped_name(name, room)) for name in table.runs]), most)
    return lines if _longest(lines) < _longest(whole) else whole


_NAME_MIN = 16
"""No name of a run is wrapped into shorter lines."""


def _longest(lines: Sequence[str]) -> int:
    return max(map(len, lines), default=0)


def _in_parts(table: Table, most: int) -> list[str]:
    """Lay a table out with so many runs beside each other."""
    if table.layout == "blocks":
        return _blocks(table, most)
    lines = []
    for start in range(0, len(table.runs), most):
        rows = [replace(row, cells=row.cells[start : start + most]) for row in table.rows]
        part = replace(table, runs=table.runs[start : start + most], rows=rows)
        lines += [*([""] if start else []), *_LAYOUTS[table.layout](part)]
    return lines


def _stacked(heads: Sequence[str]) -> list[list[str]]:
    r"""Give the lines of headings, whose last ones stand beside each other.

    Examples
    --------
    >>> _stacked(["a", "b=1,\nc=2"])
    [['', 'b=1,'], ['a', 'c=2']]
    """
    parts = [head.split("\n") for head in heads]
    most = max(map(len, parts), default=0)
    return [list(line) for line in zip(*([""] * (most - len(part)) + part for part in parts), strict=True)]


def _head_width(head: str) -> int:
    return max(map(len, head.split("\n")))


def _number(cell: Cell, digits: int) -> str:
    if cell.text is not None:
        return cell.text
    if cell.value is None:
        return ""
    digits = digits if cell.digits is None else cell.digits
    text = f"{cell.value:.{digits}f}"
    # What is not nothing is not printed as nothing, nor with the one or two digits that the most decimals leave.
    is_short = not float(text) or (digits >= DECIMALS and abs(cell.value) < 10.0 ** (2 - digits))
    return f"{cell.value:.3g}" if cell.value and is_short else text


def change_ends(cell: Cell) -> tuple[float, float] | None:
    """Give the interval of a change, in its own unit; None where it has none."""
    if cell.points_low is not None and cell.points_high is not None:
        return cell.points_low, cell.points_high
    if cell.ratio_low is None or cell.ratio_high is None:
        return None
    low, high = 100 * (cell.ratio_low - 1), 100 * (cell.ratio_high - 1)
    return (low, high) if cell.sample is None or cell.sample.rises else (-high, -low)


def _judged(cell: Cell) -> str:
    """Give a change with its interval, as answers have it but for the star; that of another method as `_change`."""
    if not cell.certain or cell.change is None or not math.isfinite(cell.change):
        return _change(cell)
    ends = change_ends(cell)
    if not cell.change and ends is None:
        return "" if cell.in_points else "0 %"
    low, high = ends or (None, None)
    judged = Certainty(low, high, cell.certain, is_clear=bool(cell.significant))
    return judged.text(cell.change, "pp" if cell.in_points else "%", 2).removesuffix("*")


def _change(cell: Cell, digits: int = 2) -> str:
    if cell.change_text is not None:
        return cell.change_text
    if cell.change is None or not math.isfinite(cell.change):
        return ""
    return f"{cell.change:.{digits_of([cell.change], digits) if cell.significant else digits}f}%"


def _dashes(width: int) -> str:
    return ("- " * ((width + 1) // 2)).rstrip()


# As in mails of kernel patches; with intervals of the changes two are as wide.
RUNS_A_BLOCK = 3
RUNS_WITH_INTERVALS = 2
WIDTH = 80


def _runs_a_block(table: Table) -> int:
    """As many as mails of kernel patches have; where changes have intervals, as many as 80 columns hold."""
    if not any(cell is not None and change_ends(cell) for row in table.rows for cell in row.cells):
        return RUNS_A_BLOCK
    label = max(len(row.stat) + 1 + len(_label(table, row)) for row in table.rows)
    cells = 2 + max(len(_spread_cell(table, row, at)) for row in table.rows for at in range(len(row.cells)))
    cells = max(cells, *(2 + len(name) for name in table.runs))
    return RUNS_WITH_INTERVALS if label + RUNS_WITH_INTERVALS * cells <= WIDTH else 1


def _blocks(table: Table, beside: int = 0) -> list[str]:
    """So many runs a block, the baseline in the first block only."""
    lines = [f"Benchmark : {table.title or table.benchmark}"]
    if table.parameter:
        lines.append(f"Varying parameter : {table.parameter}")
    if units := _units(table):
        unit = f"Unit : {units}" + (f" ({table.better} is better)" if table.better else "")
        lines += textwrap.wrap(unit, WIDTH, subsequent_indent="  ")
    stat_width = max((len(row.stat) for row in table.rows), default=0)
    operation_width = max((len(_label(table, row)) for row in table.rows), default=0)
    beside = beside or _runs_a_block(table)
    for start in range(0, len(table.runs), beside):
        names = [
            name + (" (BASELINE)" if start + at == 0 else "")
            for at, name in enumerate(table.runs[start : start + beside])
        ]
        parts = [[_spread_cell(table, row, start + at) for at in range(len(names))] for row in table.rows]
        if beside == 1:
            indent = min((len(line[0]) - len(line[0].lstrip()) for line in parts if line[0]), default=0)
            parts = [[line[0][indent:]] for line in parts]
        widths = [max(_head_width(names[at]), *(len(line[at]) for line in parts)) for at in range(len(names))]
        label = " " * (stat_width + 1 + operation_width)
        heads = [_beside(label, line, widths) for line in _stacked(names)]
        lines += ["", *heads, _dashes(len(heads[-1]))]
        for row, line in zip(table.rows, parts, strict=True):
            name = f"{row.stat:<{stat_width}} {_label(table, row):>{operation_width}}"
            lines.append(_beside(name, line, widths))
    return lines


def _beside(label: str, parts: Iterable[str], widths: Sequence[int]) -> str:
    return label + "".join(f"  {part:>{width}}" for part, width in zip(parts, widths, strict=True))


def _spread_cell(table: Table, row: Row, column: int) -> str:
    """``427.19 +- 0.16% (+82.20 % [+79.10, +85.30])``; clear changes have stars for parentheses, as in mmtests."""
    cell = row.cells[column] if column < len(row.cells) else None
    if cell is None:
        return ""
    parts = [f"{_number(cell, table.digits):>9}"]
    if cell.spread is not None:
        percent = "%" if row.spread_kind == "percent" else ""
        parts.append(f"+-{cell.spread:6.2f}{percent}" if math.isfinite(cell.spread) else f"+-{'?':>6}{percent}")
    elif any(one is not None and one.spread is not None for one in row.cells):
        parts.append(" " * (9 if row.spread_kind == "percent" else 8))
    others = any(one is not None and one.change is not None for one in row.cells[1:])
    if (column == 0 and others) or cell.change is not None or cell.change_text is not None:
        left, right = "**" if cell.significant else "()"
        parts.append(f"{left}{_judged(cell):>9}{right}")
    return " ".join(parts)


def _overview(table: Table) -> list[str]:
    """Ratios, one group a section, with what they are ratios of."""
    # Published tables name neither metric nor unit.
    named = any(row.metric for row in table.rows)
    heads = [*table.runs, *(("metric", "unit") if named else ()), "better if"]
    tails = [[*((row.metric, row.unit) if named else ()), row.better] for row in table.rows]
    cells = [[_ratio(cell) for cell in row.cells] + tail for row, tail in zip(table.rows, tails, strict=True)]
    return _sections(table, heads, cells)


def _operations(table: Table) -> list[str]:
    """A line an operation, a short text a run: a ratio with its interval, a test, or a number."""
    return _sections(table, table.runs, [[_cell_text(table, cell) for cell in row.cells] for row in table.rows])


def _cell_text(table: Table, cell: Cell | None) -> str:
    if cell is None:
        return ""
    if table.layout == "ratios":
        return _ratio_interval(cell)
    return _test_of(cell) if table.layout == "significance" else _number(cell, table.digits)


def has_no_ratio(cell: Cell) -> bool:
    """Whether a table of ratios has neither a ratio of a cell nor the words of its change."""
    return cell.ratio is None and not cell.same and cell.change_text is None


def _ratio_interval(cell: Cell) -> str:
    if has_no_ratio(cell):
        return "?"
    if cell.same:
        return "~"
    mark = "*" if cell.significant else " "
    if cell.ratio is None:
        return f"{cell.change_text}{mark}"
    if cell.ratio_low is None or cell.ratio_high is None or not math.isfinite(cell.ratio_high - cell.ratio_low):
        return f"{cell.ratio:.3f}{mark}"
    ends = cell.ratio_low, cell.ratio_high
    digits = digits_of([one - 1 for one in (cell.ratio, *ends)], 3) if cell.significant else 3
    low, high = (f"{end:.{digits}f}" for end in ends)
    return f"{cell.ratio:.{digits}f} [{low}, {high}]{mark}"


def _test_of(cell: Cell) -> str:
    """P-value with its star, corrected p-value and effect size."""
    if cell.p_holm is None or math.isnan(cell.p_holm):
        return "-"
    effect = "" if cell.hedges_g is None or not math.isfinite(cell.hedges_g) else f" g={cell.hedges_g:+.2f}"
    alone = "" if cell.p is None else f"p={cell.p:.2g}{'*' if cell.significant else ' '}"
    return f"{alone} Holm {cell.p_holm:.2g}{effect}"


def _ratio(cell: Cell | None) -> str:
    if cell is None:
        return ""
    if cell.same:
        return "~"
    return _number(cell, digits_of([cell.ratio - 1], 2) if cell.significant and cell.ratio is not None else 2)


def _sections(table: Table, heads: Sequence[str], cells: list[list[str]]) -> list[str]:
    label = max((len(row.operation) for row in table.rows), default=0)
    widths = [max([_head_width(head), *(len(line[at]) for line in cells)]) for at, head in enumerate(heads)]
    above = [_beside(" " * label, line, widths) for line in _stacked(heads)]
    rule = _dashes(len(above[-1]))
    lines = [table.title, ""] if table.title else []
    lines += [rule, *above, rule]
    group = ""
    for row, parts in zip(table.rows, cells, strict=True):
        if row.group != group:
            if group:
                lines.append(rule)
            lines.append(row.group)
            group = row.group
        lines.append(_beside(f"{row.operation:<{label}}", parts, widths))
    return lines


def _grid(table: Table) -> list[str]:
    """Tab-aligned: benchmark, ratios by machine, metric, unit, better."""
    machines = list(dict.fromkeys(head.partition("\t")[0] for head in table.heads)) or [""]
    cells = [[_ratio(cell) for cell in row.cells] for row in table.rows]
    label = max([len("BENCHMARK"), *(len(row.operation) for row in table.rows)])
    width = max([4, *(len(text) for line in cells for text in line)])
    unit = max([4, *(len(row.unit) for row in table.rows)])
    metric = max([6, *(len(row.metric) for row in table.rows)])
    named = any(row.metric for row in table.rows)
    what = f"  {'METRIC':<{metric}}" if named else " "
    counts = [sum(head.partition("\t")[0] == machine for head in table.heads) for machine in machines]
    sizes = [max(len(machine), count * (width + 1) - 1) for machine, count in zip(machines, counts, strict=True)]
    head = f"{'BENCHMARK':<{label}}" + "".join(f"  {one:<{size}}" for one, size in zip(machines, sizes, strict=True))
    lines = [f"{head}{what} {'UNIT':<{unit}}  BETTER IF"]
    groups = {row.group for row in table.rows}
    group = ""
    for row, line in zip(table.rows, cells, strict=True):
        if len(groups) > 1 and row.group != group:
            lines.append(row.group)
            group = row.group
        text = f"{row.operation:<{label}}"
        start = 0
        for count, size in zip(counts, sizes, strict=True):
            part = " ".join(f"{one:>{width}}" for one in line[start : start + count])
            text += f"  {part:<{size}}"
            start += count
        what = f"  {row.metric:<{metric}}" if named else " "
        lines.append(f"{text}{what} {row.unit:<{unit}}  {row.better}")
    return lines


def _slides(table: Table) -> list[str]:
    unit = _units(table) or "that of each line"
    better = f"{table.better.upper()} is better" if table.better else "changes above 0 are better"
    lines = [table.title, "", f"UNIT: {unit}", better, ""]
    starred = any(cell is not None and cell.significant for row in table.rows for cell in row.cells)
    parts = [["" if cell is None else _slide_cell(table, cell, starred) for cell in row.cells] for row in table.rows]
    labels = [_label(table, row) for row in table.rows]
    label = max(map(len, labels), default=0)
    widths = [max([_head_width(name), *(len(line[at]) for line in parts)]) for at, name in enumerate(table.runs)]
    lines += [_beside(" " * label, line, widths) for line in _stacked(table.runs)]
    lines += [_beside(f"{name:<{label}}", line, widths) for name, line in zip(labels, parts, strict=True)]
    return lines


def _slide_cell(table: Table, cell: Cell, starred: bool) -> str:
    text = _number(cell, table.digits)
    if cell.spread is not None:
        text += f" ±{cell.spread:.1f}%"
    change = _change(cell, 1)
    star = ("*" if cell.significant else " ") if starred else ""
    return f"{text} ({change:>7}){star}" if change else text


def _boxes(table: Table) -> list[str]:
    """Mean and interval of each run in a box of dashes."""
    body: list[list[str]] = []
    for row in table.rows:
        line = [f"{name:^4}" for name in _label(table, row).split("\t") if row.operation]
        for cell in row.cells:
            known = cell or Cell()
            value = _number(known, table.digits)
            if change := _change(known):
                left, right = "**" if known.significant else "()"
                value += f" {left}{change:>7}{right}"
            line += [value, "" if known.spread is None else _like(known.spread, value, table.digits)]
        body.append(line)
    labelled = bool(body and len(body[0]) > 2 * len(table.runs))
    labels = (table.heads or [f"#{table.parameter.capitalize()}"]) if labelled else []
    heads = [*labels, *(["Mean", "ci(+/-)"] * len(table.runs))]
    widths = [max([len(head), *(len(line[at]) for line in body)]) for at, head in enumerate(heads)]
    first = len(labels)
    for at, run in enumerate(table.runs):
        column = first + 2 * at
        widths[column] = max(widths[column], _head_width(run) - widths[column + 1] - 3)
    joined = [sum(widths[:first]) + 3 * (first - 1)] if first else []
    joined += [widths[first + 2 * at] + widths[first + 2 * at + 1] + 3 for at in range(len(table.runs))]
    lines = [_rule(joined), *(_boxed([*([""] if first else []), *line], joined) for line in _stacked(table.runs))]
    lines += [_rule(widths), _boxed(heads, widths), _rule(widths)]
    lines += [_boxed(line, widths) for line in body]
    lines.append(_rule(widths))
    return lines


def _rule(widths: Sequence[int]) -> str:
    return "+" + "".join("-" * (width + 2) + "+" for width in widths)


def _boxed(parts: Sequence[str], widths: Sequence[int]) -> str:
    return "|" + "".join(f" {part:>{width}} |" for part, width in zip(parts, widths, strict=True))


def _like(spread: float, value: str, digits: int) -> str:
    """An interval written as the value beside it: ``3.12+02`` beside ``6.21+05``."""
    if "+" in value.split(maxsplit=1)[0]:
        exponent = math.floor(math.log10(spread))
        return f"{spread / 10**exponent:.2f}+{exponent:02d}"
    return f"{spread:.{digits}f}"


def _listing(table: Table) -> list[str]:
    """A parameter with its value, then a total with its parts."""
    lines = [" ".join(table.heads[:2])]
    for row in table.rows:
        texts = ["" if cell is None else _number(cell, table.digits) for cell in row.cells]
        parts = ", ".join(f"'{head}': {text}" for head, text in zip(table.heads[3:], texts[2:], strict=True))
        lines += [f"{row.operation} {texts[0]}", f"{texts[1]} mW {{{parts}}}"]
    return lines


def _mmtests_old(table: Table) -> list[str]:
    """Mmtests before 2020: values 12 wide, ``BHmean-50``."""
    stat = max((len(row.stat) for row in table.rows), default=0)
    operation = max((len(row.operation) for row in table.rows), default=0)
    lines = [table.title] if table.title else []
    lines.append(" " * (stat + 1 + operation) + "".join(f"{run:>23}" for run in table.runs))
    for row in table.rows:
        text = "".join(
            f"{_number(cell, table.digits):>12} ({cell.change or 0:7.2f}%)" for cell in row.cells if cell is not None
        )
        lines.append(f"{row.stat:<{stat}} {row.operation:<{operation}}{text}")
    return lines


def _robot(table: Table) -> list[str]:
    """The kernel test robot's: a base column, then change and mean of each other commit, then the metric."""
    lines = ["=" * 80, *table.title.split("\n"), "", "commit:", *(f"  {head}" for head in table.heads), ""]
    names = [run[:27] for run in table.runs]
    lines.append(f"{names[0][:16]:>16}" + "".join(f" {name:>27}" for name in names[1:]))
    lines.append("-" * 16 + (" " + "-" * 27) * (len(names) - 1))
    lines.append("         %stddev" + "     %change         %stddev" * (len(names) - 1))
    lines.append("             \\  " + "        |                \\  " * (len(names) - 1))
    for row in table.rows:
        text = ""
        for at, cell in enumerate(row.cells):
            known = cell or Cell(text="")
            spread = "" if known.spread is None else f" ±{known.spread:3.0f}%"
            if at:
                text += f" {known.change_text or '':>11}"
            text += f"{_number(known, table.digits):>10}{spread:>6}"
        lines.append(f"{text}  {row.operation}")
    return [*lines, *([""] if table.notes and not table.method else [])]


_LAYOUTS: dict[str, Callable[[Table], list[str]]] = {
    "blocks": _blocks,
    "overview": _overview,
    "ratios": _operations,
    "significance": _operations,
    "power": _operations,
    "grid": _grid,
    "slides": _slides,
    "boxes": _boxes,
    "listing": _listing,
    "mmtests-old": _mmtests_old,
    "robot": _robot,
}


# --- other formats ----------------------------------------------------------------------------------------------------

_MEAN = ("value", "spread", "low", "high")
_COMPARED = ("ratio", "ratio_low", "ratio_high", "p", "p_holm", "hedges_g")
_JUDGED: dict[str, type] = {"n": int, "significant": bool, "certain": str, "same": bool}
"""Columns that cells have by these names."""

_TIDY: dict[str, type] = {
    **dict.fromkeys(("machine", "benchmark", "group", "statistic", "operation", "metric", "run"), str),
    **dict.fromkeys(("unit", "better"), str),
    **dict.fromkeys((*_MEAN, "change_pct", "change_points", "points_low", "points_high", *_COMPARED), float),
    **_JUDGED,
}


def tidy(table: Table) -> Iterable[dict[str, Any]]:
    """One mapping a cell."""
    heads = table.heads if table.layout == "grid" else table.runs
    for row in table.rows:
        for head, cell in zip(heads, row.cells, strict=False):
            if cell is None:
                continue
            machine, tab, own = head.rpartition("\t")
            yield {
                "machine": machine if tab else table.machine,
                "benchmark": table.benchmark,
                "group": row.group,
                "statistic": row.stat,
                "operation": row.operation,
                "metric": row.metric,
                "run": own,
                "unit": row.unit or table.unit,
                "better": row.better or table.better,
                **{name: _finite(getattr(cell, name)) for name in _MEAN},
                "change_pct": None if cell.in_points else _finite(cell.change),
                "change_points": _finite(cell.change) if cell.in_points else None,
                "points_low": cell.points_low,
                "points_high": cell.points_high,
                **{name: _finite(getattr(cell, name)) for name in _COMPARED},
                **{name: getattr(cell, name) for name in _JUDGED},
            }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _csv(*tables: Table) -> str:
    from opplab.report.text import render_table

    rows = [row for table in tables for row in tidy(table)]
    return render_table(rows, "csv") or ",".join(_TIDY) + "\n"


def _json(table: Table) -> str:
    import json

    return json.dumps(_whole(table), indent=1, ensure_ascii=False) + "\n"


def _whole(table: Table) -> dict[str, Any]:
    about = ("layout", "title", "machine", "benchmark", "parameter", "unit", "better")
    return {
        **{name: getattr(table, name) for name in about},
        "baseline": table.runs[0] if table.runs else None,
        **{name: getattr(table, name) for name in ("runs", "method", "notes")},
        "cells": list(tidy(table)),
    }


def _foot(table: Table, method: str = "Method", note: str = "Note") -> list[str]:
    """Give the lines below a table: how its numbers were made, and what a reader must know."""
    return [*([f"{method}: {table.method}"] if table.method else []), *(f"{note}: {words}" for words in table.notes)]


def _plain(table: Table) -> tuple[list[str], list[list[str]], list[list[Cell | None]]]:
    """Heads and cells as short texts, for formats whose reader lays them out."""
    heads = [head.replace("\t", " ") for head in table.heads] if table.layout == "grid" else list(table.runs)
    with_stat = any(row.stat for row in table.rows)
    with_group = len({row.group for row in table.rows}) > 1
    labels = [*(["Group"] if with_group else []), *(["Statistic"] if with_stat else []), "Operation"]
    tail = any(row.better for row in table.rows)
    named = table.layout in ("overview", "grid") and any(row.metric for row in table.rows)
    lines = []
    cells: list[list[Cell | None]] = []
    for row in table.rows:
        names = [*([row.group] if with_group else []), *([row.stat] if with_stat else []), _label(table, row)]
        ends = [*((row.metric, row.unit) if named else ()), *([row.better] if tail else [])]
        lines.append([*names, *(_short(table, row, cell) for cell in row.cells), *ends])
        cells.append([*(None for _ in names), *row.cells, *(None for _ in ends)])
    ends = [*(("Metric", "Unit") if named else ()), *(["Better if"] if tail else [])]
    return [*labels, *heads, *ends], lines, cells


def _short(table: Table, row: Row, cell: Cell | None) -> str:
    if cell is None:
        return ""
    if table.layout in ("overview", "grid"):
        return _ratio(cell)
    text = _cell_text(table, cell)
    if table.layout in ("ratios", "significance"):
        return text.strip()
    if cell.spread is not None and math.isfinite(cell.spread):
        text += f" ± {cell.spread:.2f}" + ("%" if row.spread_kind == "percent" else "")
    change = _judged(cell)
    if change:
        text += f" ({change.strip()})" + ("*" if cell.significant else "")
    return text


def _markdown(table: Table) -> str:
    heads, lines, _ = _plain(table)
    from opplab.report.text import markdown

    units = _units(table)
    out = [f"**{markdown(table.title or table.benchmark)}**" + (f", {markdown(units)}" if units else ""), ""]
    out.append("| " + " | ".join(map(markdown, heads)) + " |")
    out.append("|" + "".join(" --- |" if not at else " ---: |" for at in range(len(heads))))
    out += ["| " + " | ".join(map(markdown, line)) + " |" for line in lines]
    for text in _foot(table):
        out += ["", markdown(text)]
    return "\n".join(out) + "\n"


_LATEX = {char: f"\\{char}" for char in "&%_#${}"} | {
    "~": r"$\sim$",
    "±": r"$\pm$",
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "<": r"$<$",
    ">": r"$>$",
    "\n": " ",
}


def _tex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in text)


def _caption(table: Table) -> str:
    return ", ".join(filter(None, (table.title or table.benchmark, _units(table))))


def _latex(table: Table) -> str:
    heads, lines, cells = _plain(table)
    out = [r"\begin{table}", f"\\caption{{{_tex(_caption(table))}}}"]
    out += [f"\\begin{{tabular}}{{l{'r' * (len(heads) - 1)}}}", r"\toprule"]
    out += [" & ".join(map(_tex, heads)) + r" \\", r"\midrule"]
    for line, known in zip(lines, cells, strict=True):
        marked = [
            f"\\textbf{{{_tex(text)}}}" if cell is not None and cell.significant else _tex(text)
            for text, cell in zip(line, known, strict=True)
        ]
        out.append(" & ".join(marked) + r" \\")
    out += [r"\bottomrule", r"\end{tabular}"]
    out += [f"% {' '.join(text.splitlines())}" for text in _foot(table, "method", "note")]
    out.append(r"\end{table}")
    return "\n".join(out) + "\n"


def _html(table: Table) -> str:
    from html import escape

    heads, lines, cells = _plain(table)
    out = ['<table class="opplab">', f"<caption>{escape(_caption(table))}</caption>", "<thead><tr>"]
    out += [f'<th scope="col">{escape(head)}</th>' for head in heads]
    out.append("</tr></thead><tbody>")
    for row, line, known in zip(table.rows, lines, cells, strict=True):
        out.append("<tr>")
        for text, cell in zip(line, known, strict=True):
            kind = ""
            if cell is not None and cell.significant and row.better:
                kind = ' class="better"' if (cell.change or 0) > 0 else ' class="worse"'
            out.append(f"<td{kind}>{escape(text)}</td>")
        out.append("</tr>")
    out.append("</tbody></table>")
    out += [f'<p class="opplab-note">{escape(text)}</p>' for text in _foot(table)]
    return "\n".join(out) + "\n"


_FORMATTERS: dict[str, Callable[[Table], str]] = {
    "text": _text,
    "markdown": _markdown,
    "html": _html,
    "csv": _csv,
    "json": _json,
    "latex": _latex,
}
