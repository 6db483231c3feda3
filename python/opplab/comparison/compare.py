"""Comparisons of runs: from a source and a few names to a table.

`compare` is the way in. `mmtests_table` is the quick way: mmtests' result trees, mmtests' statistics, mmtests' layout.
The default method (`compare_runs`, `overview`) loads what it needs when it is called. What the module does not do: read
files (see `opplab.comparison.sources`) or decide how a table looks (see `opplab.comparison.tables`).
"""

from __future__ import annotations

from math import isfinite, isnan

from opplab.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    import polars as pl

    from opplab.comparison.sources import Source
    from opplab.comparison.tables import Cell, Row, Table
    from opplab.runs import Problem, Run, Series

TABLES = ("detail", "ratio", "significance", "nocompare", "overview", "ppw", "power")


def order_runs(runs: Sequence[str], baseline: str | None) -> list[str]:
    """The runs with the baseline first."""
    from opplab.mmtests.problems import UnknownName

    names = list(runs)
    if baseline is None:
        return names
    if baseline not in names:
        raise UnknownName("run", baseline, names)
    names.remove(baseline)
    return [baseline, *names]


def mmtests_table(
    directory: str,
    names: Sequence[str],
    benchmark: str,
    *,
    metric: str = "",
    report: str = "",
    table: str = "detail",
    form: str = "text",
    seed: int = 0,
    summary: str = "",
) -> tuple[str, list[Problem]]:
    """Compare runs of an mmtests result tree as mmtests itself would.

    Parameters
    ----------
    directory : str
        The folder that holds the runs.
    names : sequence of str
        The runs; the first is the baseline.
    benchmark, metric, report : str
        See `opplab.mmtests.read_run`.
    table : str
        ``detail``, ``ratio``, ``significance``, ``nocompare`` or ``monitor:NAME``.
    form : str
        ``text`` or ``html``.
    seed : int
        Of the bootstrap that mmtests leaves unseeded (SubAmean, SubHmean).
    summary : str
        Another of mmtests' summaries than the benchmark's own, e.g. ``subselection``.

    Returns
    -------
    tuple
        The table, and the files that were skipped.
    """
    from opplab.mmtests import find, find_monitor, layout, read_monitor, read_run

    with_change = table != "nocompare"
    runs: list[Run]
    if table.startswith("monitor:"):
        monitor = table[8:]
        bench = find_monitor(monitor)
        runs = [read_monitor(directory, name, monitor, benchmark, metric) for name in names]
        with_change = False
    else:
        bench = find(benchmark, report)
        runs = [read_run(directory, name, benchmark, metric, report, literal=True) for name in names]
    problems = [problem for run in runs for problem in run.problems]
    if not runs[0].series:
        raise InputError(_nothing(directory, names[0], benchmark, metric, problems))
    comparison = layout.Comparison(runs, bench, metric, seed, summary)
    if table == "ratio":
        rows, width = layout.ratio(comparison)
    else:
        rows, width = layout.detail(comparison, with_change, table == "significance")
    printed = layout.html if form == "html" else layout.text
    return printed(rows, width, runs, with_change), problems


def _nothing(directory: str, run: str, benchmark: str, metric: str, problems: list[Problem]) -> str:
    """Say why a run has nothing to compare, naming the nearest thing that exists."""
    from opplab.mmtests import benchmarks_of, read_run
    from opplab.mmtests.problems import UnknownName

    there = benchmarks_of(directory, run)
    if benchmark not in there:
        return str(UnknownName("benchmark", benchmark, there)) + f" in run '{run}'"
    if metric:
        metrics = dict.fromkeys(series.metric for series in read_run(directory, run, benchmark).series.values())
        if metrics:
            return str(UnknownName("metric", metric, metrics)) + f" in benchmark '{benchmark}'"
    why = f" ({problems[0]})" if problems else ""
    return f"run '{run}' has no values of {benchmark}{why}"


# --- the default method -----------------------------------------------------------------------------------------------

# At most so many draws a table; then fewer resamples, then the delta method.
_DRAWS = 200_000_000
_RESAMPLES = 9999
_FEWEST = 999

_INTERVALS = "Student's t on the logarithm"

# From so many iterations on, iterations are the observations instead of the samples inside them.
_ITERATIONS = 3

# Fewest pairs whose ratios have a spread.
_PAIRS = 2


def compare_runs(
    runs: Sequence[Run],
    *,
    kind: str = "detail",
    confidence: float = 0.95,
    seed: int = 1,
    overview_rule: bool = False,
) -> Table:
    """Compare runs of one benchmark by the default method.

    Means are harmonic for rates. The interval of a mean is Student's t; that of a ratio is the BCa bootstrap (the delta
    method when the table is too large to resample, or has two or three values a side); whether a change is
    significant is Welch's t-test. Where two runs share seeds or dates, both are Student's t on the pairs. Tests are
    corrected over the table (Holm). When every run of an operation has three iterations or more, the iterations are
    the observations, because samples inside an iteration are not independent of each other.

    Parameters
    ----------
    runs : sequence of Run
        The first is the baseline; its operations make the rows.
    kind : str
        ``detail``, ``ratio``, ``significance`` or ``nocompare``.
    confidence : float
    seed : int
        Of the bootstrap.
    overview_rule : bool
        ``~`` for ratios within 2.5 % of 1 instead of the rule of `opplab.comparison.tables`.

    Returns
    -------
    Table
    """
    from opplab import stats
    from opplab.comparison.tables import Row, Table

    base = runs[0]
    total = sum(series.count() for run in runs for series in run.series.values())
    resamples = min(_RESAMPLES, _DRAWS // max(1, total))
    if resamples < _FEWEST:
        resamples = 0
    rows: list[Row] = []
    compared: list[Cell] = []
    pairing: dict[str, None] = {}
    unpaired = iterations = unvaried = False
    for label, series in base.series.items():
        others = [run.series.get(label) for run in runs]
        by_iteration = all(_independent(one) for one in others if one is not None)
        iterations = iterations or by_iteration
        reference = _observations(series, by_iteration)
        cells: list[Cell | None] = []
        for run, one in zip(runs, others, strict=True):
            values = [] if one is None else _observations(one, by_iteration)
            if not values:
                cells.append(None)
                continue
            cell = _summarise(values, series.higher, confidence)
            if run is base:
                cell.ratio = 1.0
            elif kind != "nocompare" and reference and one is not None and not (_varies(reference) or _varies(values)):
                unvaried = True
                _unvaried(cell, reference[0], values[0], series.higher)
            elif kind != "nocompare" and reference and one is not None:
                pairs = _pairs(series, one)
                found = stats.compare(
                    pairs[0] if pairs else reference,
                    pairs[1] if pairs else values,
                    harmonic=series.higher,
                    paired=pairs is not None,
                    confidence=confidence,
                    resamples=resamples,
                    seed=seed,
                    stream=stats.stream_of(base.benchmark, label, run.name) if resamples else 0,
                )
                if pairs is None:
                    unpaired = True
                else:
                    pairing[series.keyed_by] = None
                _compared(cell, found, series.higher)
                compared.append(cell)
            cells.append(cell)
        stat = "Hmean" if series.higher else "Amean"
        better = "higher" if series.higher else "lower"
        rows.append(Row(stat, label, cells, series.unit, better, "percent"))
    _decide(compared, 1 - confidence, overview_rule)
    layout = {"ratio": "ratios", "significance": "significance"}.get(kind, "blocks")
    units = list(dict.fromkeys(row.unit for row in rows))
    senses = list(dict.fromkeys(row.better for row in rows))
    table = Table(layout, [run.name for run in runs], rows, base.benchmark, base.benchmark)
    table.unit = units[0] if len(units) == 1 else ""
    table.better = senses[0] if len(senses) == 1 else ""
    table.digits = _digits(rows)
    percent = f"{100 * confidence:g} %"
    how = [f"default; means (harmonic for rates) with {percent} Student-t interval"]
    if kind != "nocompare":
        ways = [f"{_INTERVALS}, paired by shared {keys}" for keys in pairing]
        if unpaired or not pairing:
            ways.append(f"BCa bootstrap, {resamples} resamples, seed {seed}" if resamples else "delta method")
        how.append(f"ratio of means with {percent} interval ({'; '.join(ways)})")
        tests = [f"the paired t-test on shared {keys}" for keys in pairing]
        if unpaired or not pairing:
            tests.append("Welch's t-test")
        by = " or ".join(tests)
        how.append(f"* significant at {100 * (1 - confidence):.2g} % by {by}, Holm's correction over {len(compared)}")
        how.append("observations are iterations" if iterations else "observations are samples")
    if unvaried:
        how.append("no variation modelled where there is no interval: values of all iterations are equal")
    if kind == "ratio":
        how.append(_same_rule(overview_rule))
    table.method = "; ".join(how)
    return table


def _same_rule(overview_rule: bool) -> str:
    if overview_rule:
        return "~ ratio within 2.5 % of 1"
    return "~ the ratio's interval contains 1, or the ratio rounds to 1.00"


def _independent(series: Series) -> bool:
    return series.is_grouped() and len(series.iterations) >= _ITERATIONS


def _observations(series: Series, by_iteration: bool) -> list[float]:
    if not by_iteration:
        return [value for value in series.values() if not isnan(value)]
    from opplab.mmtests.statistics import amean, hmean

    mean = hmean if series.higher else amean
    return [mean(iteration) for iteration in series.iterations if iteration]


def _pairs(base: Series, new: Series) -> tuple[list[float], list[float]] | None:
    """Values of equal seed or date, in the order of the baseline; None where fewer than two are shared."""
    if base.keys is None or new.keys is None or base.keyed_by != new.keyed_by:
        return None
    ours, theirs = _by_key(base), _by_key(new)
    shared = [key for key in ours if key in theirs and not isnan(ours[key]) and not isnan(theirs[key])]
    if len(shared) < _PAIRS:
        return None
    return [ours[key] for key in shared], [theirs[key] for key in shared]


def _by_key(series: Series) -> dict[int | str, float]:
    """The mean of the values of each seed or date."""
    from opplab.mmtests.statistics import amean, hmean

    values: dict[int | str, list[float]] = {}
    for key, iteration in zip(series.keys or (), series.iterations, strict=True):
        values.setdefault(key, []).extend(iteration)  # type: ignore[arg-type]
    mean = hmean if series.higher else amean
    return {key: own[0] if len(own) == 1 else mean(own) for key, own in values.items()}


def _summarise(values: list[float], higher: bool, confidence: float) -> Cell:
    from opplab import stats
    from opplab.comparison.tables import Cell

    if not _varies(values):
        # Values that are all the same have no interval, least of all one of 0: nothing varied.
        return Cell(values[0], n=len(values))
    mean, (low, high), _ = stats.mean(values, harmonic=higher and min(values) > 0, confidence=confidence)
    if high == float("inf"):
        # Few rates that differ much: the mean may be anything above the lower end.
        return Cell(mean, n=len(values), is_open=True)
    spread = 100 * (high - low) / 2 / abs(mean) if mean and not isnan(low) else None
    return Cell(mean, spread=spread, low=low, high=high, n=len(values))


def _varies(values: Sequence[float]) -> bool:
    return len(values) < 2 or max(values) - min(values) > 1e-12 * max(abs(value) for value in values)


def _unvaried(cell: Cell, base: float, new: float, higher: bool) -> None:
    """Compare two values that do not vary: a ratio without interval and test."""
    if base and new:
        cell.ratio = new / base
        cell.change = 100 * (cell.ratio - 1 if higher else 1 - cell.ratio)


def _compared(cell: Cell, found: dict[str, float], higher: bool) -> None:
    ratio = found["ratio"]
    if not isfinite(ratio) or not ratio:
        # Against a baseline of 0, or to 0, there is no change in percent.
        return
    cell.ratio, cell.ratio_low, cell.ratio_high = ratio, found["low"], found["high"]
    cell.change = 100 * (ratio - 1 if higher else 1 - ratio)
    cell.p = found["p"]
    cell.hedges_g = found["hedges_g"]


def _decide(cells: list[Cell], alpha: float, overview_rule: bool) -> None:
    """Holm's correction over all cells, then which are significant and which are the same as the baseline."""
    from opplab import stats
    from opplab.comparison.tables import OVERVIEW_SAME

    nan = float("nan")
    for cell, p in zip(cells, stats.holm([nan if cell.p is None else cell.p for cell in cells]), strict=True):
        cell.p_holm = p
        cell.significant = p < alpha
        ratio = cell.ratio
        if ratio is None or isnan(ratio):
            continue
        if overview_rule:
            cell.same = abs(ratio - 1) <= OVERVIEW_SAME
        else:
            inside = (
                cell.ratio_low is not None and cell.ratio_high is not None and cell.ratio_low <= 1 <= cell.ratio_high
            )
            cell.same = inside or f"{ratio:.2f}" == "1.00"


def _digits(rows: list[Row]) -> int:
    """Decimal places that show the smallest mean with four digits, between 2 and 6."""
    smallest = min((abs(cell.value) for row in rows for cell in row.cells if cell and cell.value), default=1.0)
    digits = 2
    while smallest < 1 and digits < 6:
        smallest *= 10
        digits += 1
    return digits


# --- several benchmarks: overview, performance per watt, power --------------------------------------------------------


def overall(runs: Sequence[Run], confidence: float = 0.95) -> list[tuple[float, float, float]]:
    """Each run's geometric mean over the operations of its means' ratios to the baseline, with an interval.

    The interval is put together from those of the operations on the logarithm (method of variance estimates recovery,
    G. Zou and A. Donner, Statistics in Medicine 27 (2008)): of one operation it is that operation's. They are Student's
    t of the pairs where seeds or dates are shared, else the delta method's.

    Returns
    -------
    list of (ratio, low, high)
        NaN where an operation is missing everywhere or an interval cannot be said.
    """
    from math import exp, log, sqrt

    from opplab import stats

    found = []
    base = runs[0]
    for run in runs:
        logs, below, above = [], [], []
        for label, series in base.series.items():
            other = run.series.get(label)
            if other is None or not series.count() or not other.count():
                continue
            if run is base:
                logs.append(0.0)
                continue
            pairs = _pairs(series, other)
            by_iteration = _independent(series) and _independent(other)
            one = stats.compare(
                pairs[0] if pairs else _observations(series, by_iteration),
                pairs[1] if pairs else _observations(other, by_iteration),
                harmonic=series.higher,
                paired=pairs is not None,
                confidence=confidence,
                resamples=0,
            )
            if isfinite(one["ratio"]) and one["ratio"] > 0:
                logs.append(log(one["ratio"]))
                below.append(log(one["ratio"] / one["low"]))
                above.append(log(one["high"] / one["ratio"]))
        if not logs:
            found.append((float("nan"),) * 3)
            continue
        center = sum(logs) / len(logs)
        low, high = (sqrt(sum(end * end for end in ends)) / len(logs) for ends in (below, above))
        found.append((exp(center), exp(center - low), exp(center + high)))
    return found


def performance_per_watt(ratio: float, higher: bool, base_w: float | None, own_w: float | None) -> float | None:
    """Give performance per watt relative to the baseline; None where a power is not known.

    Parameters
    ----------
    ratio : float
        Of the benchmark's main metric to the baseline.
    higher : bool
        Whether more of it is better.
    base_w, own_w : float or None

    Examples
    --------
    >>> performance_per_watt(0.5, higher=False, base_w=10, own_w=20)
    1.0
    """
    if not base_w or not own_w or not ratio or not isfinite(ratio):
        return None
    return (ratio if higher else 1 / ratio) * base_w / own_w


def overview(
    benchmarks: Sequence[tuple[str, Sequence[Run], Sequence[float | None]]],
    *,
    kind: str = "overview",
    confidence: float = 0.95,
    overview_rule: bool = False,
) -> Table:
    """One line a benchmark: ratios to the baseline, performance per watt, or watts.

    Parameters
    ----------
    benchmarks : sequence of (name, runs, watts)
        The runs of a benchmark, the baseline first, and the average power of each, None where it is not known.
    kind : str
        ``overview`` (both kinds of ratios where power is known), ``ppw`` or ``power``.
    """
    from opplab.comparison.tables import OVERVIEW_SAME, Cell, Row, Table

    names = [run.name for run in benchmarks[0][1]] if benchmarks else []
    performance: list[Row] = []
    efficiency: list[Row] = []
    power: list[Row] = []
    for name, runs, watts in benchmarks:
        higher = next((series.higher for series in runs[0].series.values()), False)
        cells: list[Cell | None] = []
        per_watt: list[Cell | None] = []
        for column, (ratio, low, high) in enumerate(overall(runs, confidence)):
            inside = low <= 1 <= high or f"{ratio:.2f}" == "1.00"
            same = column > 0 and (abs(ratio - 1) <= OVERVIEW_SAME if overview_rule else inside)
            change = 100 * (ratio - 1 if higher else 1 - ratio)
            cell = Cell(ratio, ratio=ratio, change=change if column else None, same=same)
            if low < high:
                cell.ratio_low, cell.ratio_high = low, high
            cells.append(cell)
            value = performance_per_watt(ratio, higher, watts[0], watts[column])
            if value is None:
                per_watt.append(None)
                continue
            gain = 100 * (value - 1) if column else None
            near = abs(value - 1) <= (OVERVIEW_SAME if overview_rule else 0.005)
            per_watt.append(Cell(value, ratio=value, change=gain, same=column > 0 and near))
        better = "higher" if higher else "lower"
        units = dict.fromkeys(series.unit for series in runs[0].series.values())
        unit = next(iter(units)) if len(units) == 1 else ""
        performance.append(Row("", name, cells, unit, better, group="PERFORMANCE RATIOS"))
        if any(cell is not None for cell in per_watt):
            efficiency.append(Row("", name, per_watt, "", "higher", group="PERFORMANCE-PER-WATT RATIOS"))
        if any(value is not None for value in watts):
            power.append(Row("", name, [None if value is None else Cell(value) for value in watts], "W"))
    if kind in ("power", "ppw") and not power:
        raise InputError("no power was recorded: no turbostat monitor with PkgWatt, and no metric in W")
    rule = _same_rule(overview_rule)
    if kind == "power":
        table = Table("power", names, power, "Average power consumption (watts)", "power", unit="W")
        table.method = "default; mean of PkgWatt over all samples"
        return table
    rows = efficiency if kind == "ppw" else performance + efficiency
    table = Table("overview", names, rows, "", "overview")
    table.method = f"default; geometric means over the parameter of ratios to {names[0] if names else '?'}; {rule}"
    return table


def mmtests_comparison(runs: Sequence[Run], metric: str, report: str, kind: str, seed: int, summary: str = "") -> Table:
    """Give mmtests' statistics and significance as a `Table`: for formats that mmtests lacks and for the gate.

    Parameters
    ----------
    runs : sequence of Run
        The first is the baseline.
    metric, report : str
        As for `mmtests_table`.
    kind : str
        ``detail`` and ``significance`` have changes, ``nocompare`` has none.
    seed : int
    summary : str
        See `mmtests_table`.
    """
    from opplab.comparison.tables import Cell, Row, Table
    from opplab.mmtests import find, layout
    from opplab.mmtests.problems import UnknownName
    from opplab.mmtests.registry import Benchmark
    from opplab.mmtests.summary import stat_name

    name = runs[0].benchmark
    try:
        bench = find(name, report)
    except UnknownName:
        # Results that are not mmtests' own: its summary for repeated measurements.
        higher = next(iter(runs[0].series.values())).higher
        bench = Benchmark(name, lambda: (), higher=higher)
    comparison = layout.Comparison(list(runs), bench, metric, seed, summary)
    main = comparison.main_index()
    rows = []
    for index, stat in enumerate(comparison.stats):
        for operation in comparison.operations:
            marks = comparison.significance(operation) if index == main else None
            cells: list[Cell | None] = []
            for column in range(len(runs)):
                value, change = comparison.change(column, operation, index)
                cell = Cell(value, change=None if kind == "nocompare" or not column else change)
                if marks and column:
                    cell.significant = marks[column][0]
                cells.append(cell)
            unit = runs[0].series[operation].unit
            better = "higher" if comparison.higher else "lower"
            rows.append(Row(stat_name(stat, comparison.higher, bench.operation_name), operation, cells, unit, better))
    table = Table("blocks", [run.name for run in runs], rows, name, name, digits=comparison.precision)
    table.method = "mmtests (commit 638401e): * where the intervals of two standard deviations do not overlap"
    return table


# --- the way in -------------------------------------------------------------------------------------------------------


class Tables(list["Table"]):
    """Tables of one call, and what was skipped while reading; prints as text, shows as HTML in a notebook."""

    def __init__(self, tables: Iterable[Table] = (), problems: Iterable[Problem] = ()) -> None:
        super().__init__(tables)
        self.problems = list(problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self)

    def to_frame(self) -> pl.DataFrame:
        """All cells as one polars DataFrame."""
        import polars as pl

        return pl.concat([table.to_frame() for table in self])


def compare(
    source: str | PathLike[str] | Sequence[str | PathLike[str]] | pl.DataFrame | Source,
    *,
    runs: Sequence[str] = (),
    baseline: str | None = None,
    benchmarks: Sequence[str] = (),
    metric: str = "",
    report: str = "",
    table: str = "detail",
    method: str = "default",
    summary: str = "",
    confidence: float = 0.95,
    overview_rule: bool = False,
    seed: int = 1,
    layout: str = "",
    everything: bool = False,
) -> Tables:
    """Compare runs.

    Parameters
    ----------
    source : path, sequence of paths, DataFrame or Source
        An mmtests results folder, result tables, raw outputs (see `opplab.comparison.sources`), or results in memory.
    runs : sequence of str
        Which runs, in order; all when empty.
    baseline : str, optional
        The run that the others are compared with; the first when None.
    benchmarks : sequence of str
        ``NAME`` or ``NAME:METRIC``; all that the baseline has when empty.
    metric, report : str
        For the benchmarks that name none.
    table : str
        One of `TABLES` or ``monitor:NAME``.
    method : str
        ``default`` or ``mmtests``.
    summary : str
        Another of mmtests' summaries than the benchmark's own.
    confidence, overview_rule, seed
        See `compare_runs`.
    layout : str
        Of the default method's ``detail`` and ``nocompare``: ``blocks``, ``slides`` or ``boxes``. Of ``overview``:
        ``overview``, or ``grid``, which sets machines side by side: several mmtests folders, or the machines of a
        results table.
    everything : bool
        All metrics of simulated benchmarks; otherwise, where none is named, those that they are about.

    Returns
    -------
    Tables
        One table a benchmark; one in all for ``overview``, ``ppw`` and ``power``.

    Examples
    --------
    >>> from opplab import results
    >>> rows = [
    ...     {"policy": policy, "benchmark": "b", "metric": "time", "unit": "s", "better": "lower", "value": value}
    ...     for policy, values in (("old", (10.0, 10.2, 9.9)), ("new", (8.0, 8.1, 7.9)))
    ...     for value in values
    ... ]
    >>> (table,) = compare(results.frame(rows), baseline="old")
    >>> f"{table.rows[0].cells[1].change:.1f}% {table.rows[0].cells[1].significant}"
    '20.3% True'
    """
    from opplab.comparison.sources import Source, by_machine, open_source
    from opplab.comparison.tables import laid_out

    check_layout(layout, table, method)
    if layout == "grid":
        parts = []
        for machine, part in by_machine(source):
            one = compare(
                part,
                runs=runs,
                baseline=baseline,
                benchmarks=benchmarks,
                metric=metric,
                report=report,
                table=table,
                confidence=confidence,
                overview_rule=overview_rule,
                everything=everything,
            )
            parts.append((machine, one))
        return Tables(
            [_grid([(machine, one[0]) for machine, one in parts])], [p for _, one in parts for p in one.problems]
        )
    place = source if isinstance(source, Source) else open_source(source)
    several = table in ("overview", "ppw", "power")
    monitor = table[8:] if table.startswith("monitor:") else ""
    names, loaded, problems = load_runs(place, runs, baseline, benchmarks, metric, report, monitor, several, everything)
    if several:
        rows = [(name, found, [place.watts(run, name) for run in names]) for name, found, _ in loaded]
        return Tables([overview(rows, kind=table, confidence=confidence, overview_rule=overview_rule)], problems)
    tables = []
    for _, found, wanted in loaded:
        if method == "mmtests" and not monitor:
            tables.append(mmtests_comparison(found, wanted, report, table, seed, summary))
        else:
            kind = "nocompare" if monitor else table
            done = compare_runs(found, kind=kind, confidence=confidence, seed=seed, overview_rule=overview_rule)
            tables.append(laid_out(done, layout) if layout else done)
    return Tables(tables, problems)


def load_runs(
    place: Source,
    runs: Sequence[str] = (),
    baseline: str | None = None,
    benchmarks: Sequence[str] = (),
    metric: str = "",
    report: str = "",
    monitor: str = "",
    several: bool = False,
    everything: bool = False,
) -> tuple[list[str], list[tuple[str, list[Run], str]], list[Problem]]:
    """Read what `compare` is asked for.

    Where no metric is named, `several` picks each benchmark's main one, and else all that the benchmark is about;
    `everything` takes all that there is.

    Returns
    -------
    tuple
        Names of the runs, the baseline first; for each benchmark its name, runs and metric; what was skipped.
    """
    names = order_runs(list(runs) or place.runs(), baseline)
    if not names:
        raise InputError("the source has no runs")
    asked = [one.partition(":")[::2] for one in benchmarks] or [(name, "") for name in place.benchmarks(names[0])]
    if not asked:
        raise InputError(f"run '{names[0]}' has no benchmark that can be read")
    problems = list(place.problems)
    loaded: list[tuple[str, list[Run], str]] = []
    for name, own_metric in asked:
        wanted = own_metric or metric or (place.default_metric(name, report) if several else "")
        found = [
            place.monitor(run, monitor, name, wanted) if monitor else place.load(run, name, wanted, report)
            for run in names
        ]
        if not found[0].series:
            raise InputError(_missing(place, found[0], wanted, report, monitor))
        problems += [problem for run in found for problem in run.problems]
        if not wanted and not monitor and not everything:
            found = [_about(run, place.declared(name)) for run in found]
        loaded.append((name, found, wanted))
    return names, loaded, problems


def _about(run: Run, metrics: Sequence[str]) -> Run:
    """Keep what a benchmark is about, in that order; everything where nothing is said."""
    from opplab.runs import Run as Column

    kept = Column(run.name, run.benchmark)
    for metric in metrics:
        kept.series |= {label: series for label, series in run.series.items() if series.metric == metric}
    return kept if kept.series else run


LAYOUTS = {
    "detail": ("blocks", "slides", "boxes"),
    "nocompare": ("blocks", "boxes"),
    "overview": ("overview", "grid"),
}


def check_layout(layout: str, table: str, method: str) -> None:
    """Refuse a layout that the table does not have."""
    if not layout:
        return
    known = LAYOUTS.get(table, ()) if method == "default" else ()
    if layout not in known:
        there = f"it has {', '.join(known)}" if known else "it has only one"
        raise InputError(f"table '{table}' of method {method} has no layout '{layout}'; {there}")


def _grid(parts: Sequence[tuple[str, Table]]) -> Table:
    """Overviews of several machines side by side, without their baselines."""
    from opplab.comparison.tables import Row, Table

    rows: dict[tuple[str, str], Row] = {}
    heads: list[str] = []
    for machine, table in parts:
        own = [f"{machine}\t{run}" for run in table.runs[1:]]
        for row in table.rows:
            known = rows.setdefault(
                (row.group, row.operation), Row("", row.operation, [], row.unit, row.better, "", row.group)
            )
            known.cells += [None] * (len(heads) - len(known.cells)) + row.cells[1:]
        heads += own
    for row in rows.values():
        row.cells += [None] * (len(heads) - len(row.cells))
    runs = list(dict.fromkeys(head.partition("\t")[2] for head in heads))
    table = Table("grid", runs, list(rows.values()), "Overview", "overview", heads=heads)
    table.method = f"{parts[0][1].method}; columns of a machine: {', '.join(runs)}"
    return table


def _missing(place: Source, baseline: Run, metric: str, report: str, monitor: str) -> str:
    """Say why the baseline has nothing to compare, naming the nearest thing that exists."""
    from opplab.mmtests.problems import UnknownName

    if not monitor:
        there = place.benchmarks(baseline.name)
        if baseline.benchmark not in there:
            return f"{UnknownName('benchmark', baseline.benchmark, there)} in run '{baseline.name}'"
        if metric:
            everything = place.load(baseline.name, baseline.benchmark, "", report).series.values()
            unknown = UnknownName("metric", metric, sorted({one.metric for one in everything}))
            return f"{unknown} in benchmark '{baseline.benchmark}'"
    why = "".join(f" ({problem})" for problem in baseline.problems[:1])
    return f"run '{baseline.name}' has no {monitor or 'values'} of {baseline.benchmark}{why}"
