"""mmtests' comparison tables, byte for byte: detail, no-compare, significance and ratio, as text and as HTML.

The layout is that of mmtests' `Compare.pm`, `PrintGeneric.pm` and `PrintHtml.pm` (commit 638401e). A table is first
laid out as rows of cells and formats, then printed, because the HTML form prints the same formats.
"""

from __future__ import annotations

from math import isinf, isnan

from opplab.mmtests.statistics import NAN, amean, cidiff, gmean, pdiff, pndiff, rdiff
from opplab.mmtests.summary import (
    SUMMARIES,
    main_statistic,
    prefers_higher,
    stat_name,
    summarise,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from opplab.mmtests.registry import Benchmark
    from opplab.mmtests.statistics import Interval
    from opplab.runs import Run

# Width of a value, and of a change in percent.
FIELD_LENGTH = 18
COMPARE_LENGTH = 7

Row = list["str | Cell | None"]

_BETTER = "#A0FFA0"
_WORSE = "#FFA0A0"


class Cell:
    """A printed number: its format, and whether it marks a significant change (None: its row has no marks)."""

    __slots__ = ("format", "significant", "value")

    def __init__(self, value: float | None, format_: Format, significant: bool | None = None) -> None:
        self.value = value
        self.format = format_
        self.significant = significant


class Format:
    """``before`` + number with `width`, `precision` and `sign` + ``after``; an empty one prints nothing."""

    __slots__ = ("after", "before", "spec")

    def __init__(self, width: int, precision: int, before: str = "", after: str = "", sign: str = "") -> None:
        self.spec = f"%{sign}{width or ''}.{precision}f"
        self.before = before
        self.after = after

    def number(self, value: float) -> str:
        """The number as C prints it, NaN and infinity as Perl does."""
        text = self.spec % value
        if isnan(value) or isinf(value):
            text = text.replace("+nan", "NaN").replace("nan", "NaN").replace("inf", "Inf")
        return text

    def __call__(self, value: float) -> str:
        """The number with what is around it."""
        return f"{self.before}{self.number(value)}{self.after}"


# What mmtests prints a cell with when it has no format for it.
_PLAIN = Format(FIELD_LENGTH, 2)


class Comparison:
    """Runs of one benchmark side by side, the first being the baseline.

    Parameters
    ----------
    runs : list of Run
    bench : Benchmark
        How they are summarised.
    metric : str
        The metric that the runs were restricted to, '' for none.
    seed : int
        See `summarise`.
    summary : str
        Another summary than the benchmark's own, '' for that.
    """

    def __init__(self, runs: list[Run], bench: Benchmark, metric: str = "", seed: int = 0, summary: str = "") -> None:
        self.runs = runs
        self.bench = bench
        self.summary = summary or bench.summary_of(metric)
        self.higher = bench.is_higher(metric)
        self.stats = SUMMARIES[self.summary]
        self.precision = bench.decimal_places or 2
        self.operations = list(runs[0].series)
        self.summaries = [
            {label: summarise(series, self.summary, self.higher, seed) for label, series in run.series.items()}
            for run in runs
        ]

    def value(self, column: int, operation: str, index: int) -> float:
        """A statistic of a run, NaN when the run lacks the operation."""
        found = self.summaries[column].get(operation)
        return NAN if found is None else found[0][index]

    def interval(self, column: int, operation: str) -> Interval | None:
        """The interval of the main statistic, None when there is none."""
        found = self.summaries[column].get(operation)
        return None if found is None else found[1]

    def has_intervals(self) -> bool:
        """Whether any operation of the baseline has an interval."""
        return any(interval is not None for _, interval in self.summaries[0].values())

    def main_index(self) -> int | None:
        """Where the main statistic is in `stats`, None when it has no interval or is not shown."""
        stat, has_interval = main_statistic(self.summary)
        if not has_interval or stat not in self.stats:
            return None
        return self.stats.index(stat)

    def change(self, column: int, operation: str, index: int) -> tuple[float, float]:
        """``(value, change in percent)`` as mmtests prints them: both 0 when either is unknown."""
        value = self.value(column, operation, index)
        base = self.value(0, operation, index)
        # -1 is mmtests' old mark for "missing" and is still treated so.
        if isnan(value) or value == -1 or base == -1:
            return 0.0, 0.0
        difference = pdiff if prefers_higher(self.stats[index], self.higher) else pndiff
        return value, difference(value, base)

    def significance(self, operation: str) -> list[tuple[bool, float]]:
        """``(significant, distance)`` for each run; the distance is `cidiff`."""
        main = self.main_index()
        found = [(False, 0.0)]
        if main is None:
            return [(False, 0.0)] * len(self.runs)
        base = 0.0
        base_interval = (0.0, 0.0)
        if self.has_intervals():
            base = self.value(0, operation, main)
            base_interval = self.interval(0, operation) or base_interval
        for column in range(1, len(self.runs)):
            distance = 0.0
            interval = self.interval(column, operation)
            if interval is not None:
                distance = cidiff(base, base_interval, self.value(column, operation, main), interval)
            found.append((abs(distance) > 1, distance))
        return found


def detail(comparison: Comparison, compare: bool = True, significance: bool = False) -> tuple[list[Row], int]:
    """Rows of the detailed table: for each statistic, all operations.

    Returns
    -------
    tuple
        Rows of cells and strings, and the width of the columns that name the row.
    """
    bench = comparison.bench
    operations = comparison.operations
    columns = range(len(comparison.runs))
    names = [stat_name(stat, comparison.higher, bench.operation_name) for stat in comparison.stats]
    name_width = max(map(len, names)) if operations else 0
    operation_width = max(map(len, operations), default=0)
    value_format = Format(FIELD_LENGTH, comparison.precision)
    change_format = Format(COMPARE_LENGTH, 2, " (", "%)")
    main = comparison.main_index() if compare else None
    marks: dict[str, list[tuple[bool, float]]] = {}
    if compare and (significance or main is not None):
        marks = {operation: comparison.significance(operation) for operation in operations}
    rows: list[Row] = []
    for index, name in enumerate(names):
        for operation in operations:
            row: Row = [f"{name:<{name_width}}", f" {operation:<{operation_width}}"]
            for column in columns:
                value, change = comparison.change(column, operation, index)
                row.append(Cell(value, value_format))
                if not compare:
                    row.append(None)
                    continue
                marked = marks[operation][column][0] if index == main else None
                row.append(Cell(_through_string(change), change_format, marked))
            rows.append(row)
    if significance and compare:
        for operation in operations:
            row = [f"{'Significant':<{name_width}}", f" {operation:<{operation_width}}"]
            for significant, distance in marks[operation]:
                row.append(Cell(float(significant), value_format))
                row.append(Cell(distance, change_format))
            row.append(Cell(None, value_format))
            rows.append(row)
    return rows, name_width + operation_width + 1


def _through_string(value: float) -> float:
    """The number as it is after mmtests made it a string and back: 15 digits, unless it is a 64-bit integer."""
    if abs(value) < 2.0**63 and value == int(value):
        return value
    return float(f"{value:.15g}")


def ratio(comparison: Comparison) -> tuple[list[Row], int]:
    """Rows of the ratio table: each operation's main statistic over the baseline's, then their means.

    Returns
    -------
    tuple
        As `detail`.
    """
    stat, has_interval = main_statistic(comparison.summary)
    higher = comparison.higher
    runs = comparison.runs
    labels = runs[0].ratio_labels
    operations = comparison.operations if labels is None else labels
    values = [_main_values(comparison, column, stat) for column in range(len(runs))]
    with_intervals = has_interval and comparison.has_intervals()
    difference = pdiff if higher else pndiff
    ratios: list[list[float]] = []
    changes: list[list[float]] = []
    distances: list[list[float]] = []
    for column in range(len(runs)):
        one_ratios, one_changes, one_distances = [], [], []
        for operation in operations:
            value, interval = values[column].get(operation, (NAN, None))
            base, base_interval = values[0].get(operation, (NAN, None))
            quotient, change, distance = 1.0, 0.0, 0.0
            if not isnan(value) and not isnan(base) and -1 not in (value, base):
                quotient = rdiff(value, base)
                change = difference(quotient, 1)
                if with_intervals:
                    distance = cidiff(value, interval or (0.0, 0.0), base, base_interval or (0.0, 0.0))
                    if isnan(distance):
                        distance = 0.0
            one_ratios.append(quotient)
            one_changes.append(change)
            one_distances.append(distance)
        ratios.append(one_ratios)
        changes.append(one_changes)
        distances.append(one_distances)

    width = max(map(len, operations), default=0) + 6
    value_format = Format(FIELD_LENGTH, comparison.precision)
    # No width here: mmtests has not set it yet when it builds these two.
    change_format = Format(0, 2, " (", "%)")
    distance_format = Format(0, 2, " (", "s)", sign="+")
    # mmtests makes as many formats as there are operations, not runs; what is beyond falls back to a plain number.
    formats = [
        (value_format, change_format, distance_format) if column <= len(operations) else (_PLAIN,) * 3
        for column in range(len(runs))
    ]
    rows: list[Row] = []
    for index, operation in enumerate(operations):
        row: Row = [f"{'Ratio ' + operation:<{width}}"]
        for column in range(len(runs)):
            row.append(Cell(ratios[column][index], formats[column][0]))
            row.append(Cell(changes[column][index], formats[column][1]))
            row.append(Cell(distances[column][index] if with_intervals else NAN, formats[column][2]))
        rows.append(row)
    preferred = "Higher" if higher else "Lower"
    footers: list[tuple[str, Callable[[int], float]]] = [
        ("Gmean", lambda column: gmean([one or 0.00001 for one in ratios[column]]))
    ]
    if with_intervals:
        footers[:0] = [
            ("Dmean", lambda column: amean(distances[column])),
            ("Dmin ", lambda column: min(distances[column], default=NAN)),
            ("Dmax ", lambda column: max(distances[column], default=NAN)),
        ]
    for name, function in footers:
        row = [f"{name + ' ' + preferred:<{width}}"]
        for column in range(len(runs)):
            row.append(Cell(function(column), formats[column][0]))
            row += [Cell(None, one) for one in formats[column][1:]]
        rows.append(row)
    return rows, width


def _main_values(comparison: Comparison, column: int, stat: str) -> dict[str, tuple[float, Interval | None]]:
    """``{operation: (value, interval)}`` of the main statistic, which need not be one that the detail table shows."""
    index = comparison.stats.index(stat)
    return {label: (found[index], interval) for label, (found, interval) in comparison.summaries[column].items()}


def header(runs: list[Run], compare: bool = True) -> tuple[tuple[list[str], list[str]], int]:
    """The two header lines' names: a run's name is split at its first '-', or after '-rcN'."""
    width = FIELD_LENGTH + (COMPARE_LENGTH + 4 if compare else 0)
    first: list[str] = []
    second: list[str] = []
    for run in runs:
        split = run.name.find("-")
        if split < 0:
            # Perl's substr(name, 0, -1): all but the last letter above, the whole name below.
            first.append(run.name[:-1])
            second.append(run.name)
            continue
        # mmtests looks for it in as many letters as the part before has, and three.
        behind = run.name[split : 2 * split + 3].partition("-rc")[2]
        if behind and behind[0] in "0123456789":
            split += 4
        first.append(run.name[:split])
        second.append(run.name[split + 1 :])
    return (first, second), width


def text(rows: list[Row], name_width: int, runs: list[Run], compare: bool = True) -> str:
    """The table as mmtests prints it on a terminal."""
    names, width = header(runs, compare)
    lines = [" " * name_width + "".join(f"{name:>{width}}" for name in line) for line in names]
    for row in rows:
        parts = []
        for cell in row:
            if isinstance(cell, str):
                parts.append(cell)
            elif cell is None:
                continue
            elif cell.value is None:
                parts.append(" " * len(cell.format(0.0)))
            else:
                part = cell.format(cell.value)
                if cell.significant:
                    part = part.replace("(", "*").replace(")", "*")
                parts.append(part)
        lines.append("".join(parts))
    return "\n".join(lines) + "\n"


def html(rows: list[Row], name_width: int, runs: list[Run], compare: bool = True) -> str:
    """The table as mmtests prints it with ``--format html``."""
    names, width = header(runs, compare)
    out = ['<table class="resultsTable">\n']
    head = '<th colspan="2" >'
    for line in names:
        cells = "".join(f"{head}{name:>{width}}</th>" for name in line)
        out.append(f"<tr>{head}{'':>{name_width}}</th>{cells}</tr>\n")
    for row in rows:
        out.append("<tr>")
        for cell in row:
            if isinstance(cell, str):
                out.append(f"<td >{cell}</td>")
            elif cell is None:
                out.append("<td ></td>")
            else:
                colour = ""
                if cell.significant:
                    colour = f'bgcolor="{_BETTER if (cell.value or 0) > 0 else _WORSE}"'
                space = "" if cell.format is _PLAIN else " "
                out.append(f"<td{space}{colour}>{cell.format(cell.value or 0.0)}</td>")
        out.append("</tr>\n")
    out.append("</table>\n")
    return "".join(out)
