"""Comparisons of runs: from a source and a few names to a table.

`compare` is the way in. `mmtests_table` is the quick way: mmtests' result trees, mmtests' statistics, mmtests' layout.
The default method (`opplab.comparison.method` and `overview`) is loaded when it is called. What the module does not do:
read files (see `opplab.comparison.sources`) or decide how a table looks (see `opplab.comparison.tables`).
"""

from __future__ import annotations

from math import isfinite

from opplab.errors import InputError
from opplab.mmtests import benchmarks_of, find, find_monitor, read_monitor, read_run
from opplab.mmtests.problems import UnknownName
from opplab.runs import Problem, Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from os import PathLike

    import polars as pl

    from opplab.comparison.sources import Source
    from opplab.comparison.tables import Cell, Table
    from opplab.runs import Series

TABLES = ("detail", "ratio", "significance", "nocompare", "overview", "ppw", "power")

OF_BENCHMARKS = ("overview", "ppw", "power")
"""Tables with a row a benchmark and metric."""


class NothingThere(InputError):
    """A machine has none of what was asked for; another one may have some."""


def names_in(text: str) -> list[str]:
    """Give the names of a list of runs; one with a comma stands in double quotes, as in a CSV.

    Examples
    --------
    >>> names_in('a,b'), names_in('"epp=balance,hz=1000",b')
    (['a', 'b'], ['epp=balance,hz=1000', 'b'])
    """
    names = text.split(",")
    if '"' in text:
        import csv

        names = next(csv.reader([text]), [])
    return [name for name in names if name]


def in_list(names: Iterable[str]) -> str:
    """List names so that `names_in` gives them back: one with a comma in double quotes.

    Examples
    --------
    >>> in_list(["a", "epp=balance,hz=1000"])
    'a, "epp=balance,hz=1000"'
    """
    return ", ".join('"{}"'.format(name.replace('"', '""')) if "," in name else name for name in names)


def order_runs(runs: Sequence[str], baseline: str | None) -> list[str]:
    """The runs with the baseline first."""
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
    from opplab.mmtests import layout

    with_change = table != "nocompare"
    runs: list[Run]
    if table.startswith("monitor:"):
        monitor = table[8:]
        bench = find_monitor(monitor)
        runs = [read_monitor(directory, name, monitor, benchmark, metric, literal=True) for name in names]
        with_change = False
    else:
        bench = find(benchmark, report)
        runs = [read_run(directory, name, benchmark, metric, report, literal=True) for name in names]
    problems = [problem for run in runs for problem in run.problems]
    if not runs[0].series:
        if table.startswith("monitor:") and metric:
            _check_heading(read_monitor(directory, names[0], monitor, benchmark), monitor, metric)
        raise InputError(_nothing(directory, names[0], benchmark, metric, problems))
    comparison = layout.Comparison(runs, bench, metric, seed, summary)
    if table == "ratio":
        rows, width = layout.ratio(comparison)
    else:
        rows, width = layout.detail(comparison, with_change, table == "significance")
    printed = layout.html if form == "html" else layout.text
    return printed(rows, width, runs, with_change), problems


def _nothing(directory: str, run: str, benchmark: str, metric: str, problems: list[Problem]) -> str:
    """Explain why a run has nothing to compare, naming the nearest thing that exists."""
    there = benchmarks_of(directory, run)
    if benchmark not in there:
        return str(UnknownName("benchmark", benchmark, there)) + f" in run '{run}'"
    if metric:
        metrics = dict.fromkeys(series.metric for series in read_run(directory, run, benchmark).series.values())
        if metrics:
            return str(UnknownName("metric", metric, metrics)) + f" in benchmark '{benchmark}'"
    why = f" ({problems[0]})" if problems else ""
    return f"run '{run}' has no values of {benchmark}{why}"


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
    summary : str
        See `mmtests_table`.
    """
    from opplab.comparison.method import missing
    from opplab.comparison.tables import Cell, Row, Table
    from opplab.mmtests import layout
    from opplab.mmtests.registry import Benchmark
    from opplab.mmtests.summary import stat_name

    name = runs[0].benchmark
    try:
        bench = find(name, report)
    except UnknownName:
        # Results that are not mmtests' own: its summary for repeated measurements.
        higher = next(one.higher for run in runs for one in run.series.values())
        bench = Benchmark(name, lambda: (), higher=higher)
    comparison = layout.Comparison(list(runs), bench, metric, seed, summary)
    main = comparison.main_index()
    rows, notes = [], []
    for index, stat in enumerate(comparison.stats):
        for operation in comparison.operations:
            marks = comparison.significance(operation) if index == main else None
            cells: list[Cell | None] = []
            for column in range(len(runs)):
                value, change = comparison.change(column, operation, index)
                cell = Cell(value, change=None if kind == "nocompare" or not column else change)
                if marks and column:
                    cell.significant = marks[column][0]
                series = runs[column].series.get(operation)
                if series is None or not all(map(isfinite, (cell.value or 0.0, *series.values()))):
                    # mmtests prints 0 for what it cannot compute.
                    cell.cannot, cell.n = "no values" if series is None else "some values are no numbers", 0
                elif column and (base := runs[0].series.get(operation)) is not None:
                    cell.cannot = missing(base, series)
                cells.append(cell)
            unit = runs[0].series[operation].unit
            better = "higher" if comparison.higher else "lower"
            if index == main:
                notes += [f"{operation} of {run.name}: {one.cannot}" for run, one in zip(runs, cells, strict=True)
                          if one and one.cannot]  # fmt: skip
            rows.append(Row(stat_name(stat, comparison.higher, bench.operation_name), operation, cells, unit, better))
    more = {label: one for run in runs[1:] for label, one in run.series.items() if label not in runs[0].series}
    for operation, series in more.items():
        # mmtests leaves out what its baseline lacks.
        why = "the baseline has no values"
        cells = [Cell(text="?", n=0, cannot=why) if operation in run.series else None for run in runs]
        notes += [f"{operation} of {run.name}: {why}" for run in runs if operation in run.series]
        stat = stat_name(comparison.stats[main or 0], comparison.higher, bench.operation_name)
        rows.append(Row(stat, operation, cells, series.unit, "higher" if comparison.higher else "lower"))
    table = Table("blocks", [run.name for run in runs], rows, name, name, digits=comparison.precision, notes=notes)
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
    also: Sequence[str] = (),
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
        mmtests summary, by default the benchmark's own.
    confidence, overview_rule
        See `opplab.comparison.method.compare_runs`.
    seed : int
        Of mmtests' bootstrap.
    layout : str
        Of the default method's ``detail`` and ``nocompare``: ``blocks``, ``slides`` or ``boxes``. Of ``overview``:
        ``overview``, or ``grid``, which sets machines side by side: several mmtests folders, or the machines of a
        results table.
    everything : bool
        All metrics of simulated benchmarks; otherwise, where none is named, those that they are about.
    also : sequence of str
        Metrics beside those, where they are known.

    Returns
    -------
    Tables
        One table a machine and benchmark; one a machine for ``overview``, ``ppw`` and ``power``.

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
    from opplab.comparison.method import compare_runs
    from opplab.comparison.overview import overview
    from opplab.comparison.sources import by_machine
    from opplab.comparison.tables import laid_out

    check_layout(layout, table, method)
    several = table in OF_BENCHMARKS
    monitor = table[8:] if table.startswith("monitor:") else ""
    places = by_machine(source)
    known = dict.fromkeys(name for _, place in places for name in place.runs())
    if not known:
        raise InputError("nothing to compare: the source has no results")
    for name in (*runs, *([] if baseline is None else [baseline])):
        order_runs(list(known), name)
    tables: list[Table] = []
    problems: list[Problem] = []
    refused: list[InputError] = []
    lacking = _lacking(places, benchmarks)
    for machine, place in places:
        if runs and not set(runs) & set(place.runs()):
            continue
        lacks = lacking.get(machine, ())
        problems += [Problem(machine, f"there are no results of {name}") for name in lacks]
        own_benchmarks = [name for name in dict.fromkeys(benchmarks) if name.partition(":")[0] not in lacks]
        if benchmarks and not own_benchmarks:
            continue
        chosen = list(runs) or order_runs(list(known), place.baseline)
        try:
            names, loaded, own = load_runs(
                place, chosen, baseline, own_benchmarks, metric, report, monitor, several, everything, also
            )
        except NothingThere as error:
            refused.append(error)
            problems.append(Problem(machine, str(error)))
            continue
        problems += own
        made: list[Table] = []
        if several:
            rows = [
                (name, found, [place.watts(run, name) for run in names], [place.per_watt(run) for run in found])
                for name, found, _ in loaded
            ]
            try:
                made = [overview(rows, kind=table, confidence=confidence, overview_rule=overview_rule)]
            except InputError as error:
                refused.append(error)
                problems.append(Problem(machine, str(error)))
        for _, found, wanted in () if several else loaded:
            if method == "mmtests" and not monitor:
                made.append(mmtests_comparison(found, wanted, report, table, seed, summary))
            else:
                kind = "nocompare" if monitor else table
                made.append(compare_runs(found, kind=kind, confidence=confidence, overview_rule=overview_rule))
        for one in made:
            one.machine = machine
            one.notes += place.assumed
            if len(places) > 1 and names[0] not in place.runs():
                one.notes.append(f"the baseline {names[0]} has no results on {machine}: --baseline names another")
            if not monitor:
                one.notes += _other_metrics(place, loaded, benchmarks, report) if several and not metric else []
                one.notes += of_values(one, place, names, [name for name, _, _ in loaded] if several else [])
            if len(places) > 1 and layout != "grid":
                one.title = " on ".join(filter(None, (one.title, machine)))
        tables += made
    if refused and not tables:
        raise refused[0]
    if layout == "grid":
        tables = [_grid([(one.machine, one) for one in tables])]
    elif layout:
        tables = [laid_out(one, layout) for one in tables]
    return Tables(tables, problems)


def _lacking(places: Sequence[tuple[str, Source]], benchmarks: Sequence[str]) -> dict[str, list[str]]:
    """Give the benchmarks that each machine lacks and another one has, which is no reason to compare none."""
    if not benchmarks or len(places) < 2:
        return {}
    there = {machine: {name for run in place.runs() for name in place.benchmarks(run)} for machine, place in places}
    asked = {name.partition(":")[0] for name in benchmarks}
    known = {name for own in there.values() for name in own}
    return {machine: sorted((asked & known) - own) for machine, own in there.items()}


def of_values(table: Table, place: Source, names: Sequence[str], several: Sequence[str]) -> list[str]:
    """Give what a reader of a table's values must know, with the benchmark where a table has `several`."""
    from opplab.report.start import read_changes

    about = several or [table.benchmark]
    read = read_changes(
        (row.metric, cell.change, cell.certain)
        for row in table.rows
        for cell in row.cells[1:]
        if cell is not None and cell.change is not None and not cell.in_points
    )
    by_energy = {row.operation if several else table.benchmark for row in table.rows if row.metric == "energy"}
    unlike = [(name, place.unlike_work(name, names)) for name in about if name in by_energy]

    def of(name: str, words: str) -> str:
        return f"{name}: {words}" if several else words

    return [
        *(of(name, note) for name in about for note in place.notes(name)),
        *dict.fromkeys(words for name in about for words in place.cold(name, read)),
        *(of(name, words) for name, words in unlike if words),
    ]


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
    also: Sequence[str] = (),
) -> tuple[list[str], list[tuple[str, list[Run], str]], list[Problem]]:
    """Read what `compare` is asked for.

    A run that the place lacks is empty.  Where no metric is named, `several` picks each benchmark's main one, and else
    all that the benchmark is about, and the metrics of `also`; `everything` takes all that there is.

    Returns
    -------
    tuple
        Names of the runs, the baseline first; for each benchmark its name, runs and metric; what was skipped.
    """
    there = place.runs()
    names = list(runs) or there
    if not names:
        raise InputError("nothing to compare: the source has no results")
    names = order_runs(names, place.baseline if baseline is None and not runs else baseline)
    if not set(names) & set(there):
        raise UnknownName("run", names[0], there)
    own = dict.fromkeys(name for run in names if run in there for name in place.benchmarks(run))
    asked = [one.partition(":")[::2] for one in benchmarks] or [(name, "") for name in own]
    if not asked:
        raise InputError(f"run '{names[0]}' has no benchmark that can be read")
    problems = list(place.problems)
    loaded: list[tuple[str, list[Run], str]] = []
    lost: list[Problem] = []
    for name, own_metric in asked:
        wanted = own_metric or metric or (_main_of(place, names, name, report) if several else "")
        found = []
        for run in names:
            if run not in there:
                found.append(Run(run, name))
            else:
                load = place.monitor(run, monitor, name, wanted) if monitor else place.load(run, name, wanted, report)
                found.append(load)
        if not any(one.series for one in found):
            why = _missing(place, next(one for one in found if one.name in there), wanted, report, monitor)
            if benchmarks:
                raise NothingThere(why)
            # One that cannot be read is no reason against the others.
            lost.append(Problem(name, why))
            continue
        _check_agreement(found)
        problems += [problem for run in found for problem in run.problems]
        if not wanted and not monitor and not everything:
            found = [_about(run, place.compared(name, names), also) for run in found]
        loaded.append((name, found, wanted))
    if not loaded:
        raise NothingThere(lost[0].what)
    return names, loaded, problems + lost


def _main_of(place: Source, names: Sequence[str], benchmark: str, report: str) -> str:
    """Give a benchmark's main metric; the first that it has where no run has that one."""
    main = place.default_metric(benchmark, report)
    there = [run for run in names if run in place.runs()]
    if not main or any(place.load(run, benchmark, main, report).series for run in there):
        return main
    known = (one.metric for run in there for one in place.load(run, benchmark, "", report).series.values())
    return next(known, main)


def _other_metrics(
    place: Source, loaded: Sequence[tuple[str, list[Run], str]], benchmarks: Sequence[str], report: str
) -> list[str]:
    """Name the benchmarks that are compared by another than their main metric, which nobody asked for."""
    named = {name for name, colon, _ in (one.partition(":") for one in benchmarks) if colon}
    mains = [(name, place.default_metric(name, report), metric) for name, _, metric in loaded if name not in named]
    return [f"{name}: no run has {main}, compared is {metric}" for name, main, metric in mains if metric != main]


def _check_agreement(runs: Sequence[Run]) -> None:
    """Refuse runs that measure the same in other units, or to which the other direction is better."""
    first: dict[str, tuple[str, Series]] = {}
    for run in runs:
        for label, series in run.series.items():
            name, other = first.setdefault(label, (run.name, series))
            where = f"{label} of {run.benchmark}"
            if series.unit != other.unit and series.unit and other.unit:
                raise InputError(f"{where} is in {other.unit} in run '{name}' and in {series.unit} in run '{run.name}'")
            if series.higher != other.higher:
                more, less = (name, run.name) if other.higher else (run.name, name)
                raise InputError(f"{where}: more is better in run '{more}', and not in run '{less}'")


def _about(run: Run, metrics: Sequence[str], also: Sequence[str]) -> Run:
    """Keep what a benchmark is about, in that order, and what is named beside it; else everything."""
    kept = Run(run.name, run.benchmark)
    wanted = [*metrics, *also] if metrics else []
    there = {series.metric for series in run.series.values()}
    if also and not there.issuperset(wanted):
        # Not without need: it takes longer to import than a table to print.
        from opplab.metrics import ALIASES

        wanted = [metric if metric in there else ALIASES.get(metric, metric) for metric in wanted]
    for metric in wanted:
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

    rows: dict[tuple[str, str, str], Row] = {}
    heads: list[str] = []
    for machine, table in parts:
        own = [f"{machine}\t{run}" for run in table.runs[1:]]
        for row in table.rows:
            known = rows.setdefault(
                (row.group, row.operation, row.metric),
                Row("", row.operation, [], row.unit, row.better, "", row.group, row.metric),
            )
            known.cells += [None] * (len(heads) - len(known.cells)) + row.cells[1:]
        heads += own
    for row in rows.values():
        row.cells += [None] * (len(heads) - len(row.cells))
    runs = list(dict.fromkeys(head.partition("\t")[2] for head in heads))
    table = Table("grid", runs, list(rows.values()), "Overview", "overview", heads=heads)
    table.method = f"{parts[0][1].method}; columns of a machine: {in_list(runs)}"
    return table


def _check_heading(whole: Run, monitor: str, heading: str) -> None:
    """Refuse a metric that is none of a monitor's headings, where it recorded any."""
    if whole.series:
        unknown = UnknownName("heading", heading, whole.series)
        raise InputError(f"{monitor} of run '{whole.name}', of which a metric picks one heading: {unknown}")


def _missing(place: Source, baseline: Run, metric: str, report: str, monitor: str) -> str:
    """Explain why the baseline has nothing to compare, naming the nearest thing that exists."""
    if not monitor:
        there = place.benchmarks(baseline.name)
        if baseline.benchmark not in there:
            return f"{UnknownName('benchmark', baseline.benchmark, there)} in run '{baseline.name}'"
        if metric:
            everything = place.load(baseline.name, baseline.benchmark, "", report).series.values()
            if everything:
                unknown = UnknownName("metric", metric, sorted({one.metric for one in everything}))
                return f"{unknown} in benchmark '{baseline.benchmark}'"
    elif metric:
        _check_heading(place.monitor(baseline.name, monitor, baseline.benchmark), monitor, metric)
    why = "".join(f" ({problem})" for problem in baseline.problems[:1])
    return f"run '{baseline.name}' has no {monitor or 'values'} of {baseline.benchmark}{why}"
