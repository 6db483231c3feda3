"""Comparisons of runs: from a source and a few names to a table.

`mmtests_tables` is the quick way: mmtests' result trees, mmtests' statistics, mmtests' layout. Everything else (`compare`)
loads what it needs when it is called. What the module does not do: read files (see `opplab.mmtests`, `opplab.results`) or
decide how a table looks (see `opplab.tables`).
"""

from __future__ import annotations

from opplab.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from opplab.runs import Problem, Run

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
    comparison = layout.Comparison(runs, bench, metric, seed)
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
