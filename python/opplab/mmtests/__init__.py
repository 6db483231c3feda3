"""Reading mmtests result trees.

One small module for each benchmark log format; a module registers its parser with `@benchmark` (or `@monitor`) and is
found by its name, so adding a format means adding one file. Nothing here imports more than it needs: the way from a
cold command line to a printed table goes through this package.

What it does not do: run benchmarks, or change a result tree.

Public: `read_run`, `read_monitor`, `runs_of`, `is_run`, `benchmarks_of`, `find`, `benchmark`, `monitor`.
"""

from __future__ import annotations

from opplab.mmtests.registry import Benchmark, benchmark, find, find_monitor, monitor
from opplab.mmtests.tree import Logs, benchmarks_of, is_run, iteration_dirs, runs_of
from opplab.runs import IN_SECONDS, IN_WATTS, Run, Series

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from opplab.mmtests.registry import Row

__all__ = [
    "Benchmark",
    "Logs",
    "benchmark",
    "benchmarks_of",
    "find",
    "find_monitor",
    "is_run",
    "monitor",
    "read_monitor",
    "read_run",
    "runs_of",
]


def read_run(
    directory: str, name: str, benchmark_name: str, metric: str = "", report: str = "", literal: bool = False
) -> Run:
    """Read all iterations of one benchmark of one run.

    Parameters
    ----------
    directory : str
        The folder that holds the runs (mmtests' ``work/log``).
    name : str
        The run.
    benchmark_name : str
        As mmtests calls it, e.g. ``kernbench`` or ``hackbench-process-pipes``.
    metric : str
        Keep only operations whose name begins with it (mmtests' sub-heading).
    report : str
        A second view of the same logs that some benchmarks have, e.g. ``latency`` for fio.
    literal : bool
        Follow mmtests even where it misreads its own logs.

    Returns
    -------
    Run
        Skipped files are in its ``problems``.
    """
    bench = find(benchmark_name, report)
    run = Run(name, benchmark_name)
    ratio_labels: dict[str, None] = {}
    for place in iteration_dirs(directory, name):
        logs = Logs(place.logs(benchmark_name), run.problems, literal)
        if not literal and place.failed(benchmark_name, run.problems):
            continue
        _collect(run, bench, bench.parse(logs), metric, ratio_labels, place.index)
    if ratio_labels:
        run.ratio_labels = [label for label in ratio_labels if label.startswith(metric)]
    return run


def read_monitor(
    directory: str, name: str, monitor_name: str, benchmark_name: str, heading: str = "", literal: bool = False
) -> Run:
    """Read what a monitor recorded while a benchmark ran; see `read_run`."""
    mon = find_monitor(monitor_name)
    run = Run(name, benchmark_name)
    for place in iteration_dirs(directory, name):
        logs = Logs(place.monitors, run.problems)
        if not literal and place.failed(benchmark_name, run.problems):
            continue
        rows = mon.parse(logs, place.monitor_name(monitor_name, benchmark_name), benchmark_name)
        _collect(run, mon, rows, heading, {}, place.index, exact=True)
    return run


_NEW: list[float] = []


def _collect(
    run: Run,
    bench: Benchmark,
    rows: Iterable[Row],
    metric: str,
    ratio_labels: dict[str, None],
    place: int,
    exact: bool = False,
) -> None:
    """Append one iteration's rows to the series of `run`."""
    # Values of this iteration by row key; None marks an operation that was not asked for.
    seen: dict[tuple[str, str, str], list[float] | None] = {}
    series = run.series
    for row_metric, factor_a, factor_b, value, counts in rows:
        key = (row_metric, factor_a, factor_b)
        values = seen.get(key, _NEW)
        if values is _NEW:
            label = row_metric
            param = ""
            if factor_a and factor_a != "_":
                label += "-" + factor_a
                param = factor_a
            if factor_b and factor_b != "_":
                label += "-" + factor_b
                param = f"{param}-{factor_b}" if param else factor_b
            if metric and (label != metric if exact else not label.startswith(metric)):
                seen[key] = None
                continue
            values = seen[key] = []
            if counts:
                ratio_labels[label] = None
            one = series.get(label)
            if one is None:
                unit = bench.unit_of(row_metric)
                one = series[label] = Series(label, row_metric, param, unit, bench.is_higher(row_metric))
                # Of what a monitor sees, watts and times have a better side; clocks and shares of time have none.
                one.directed = not exact or unit in IN_WATTS or unit in IN_SECONDS
            one.iterations.append(values)
            one.places.append(place)
        if values is not None and value is not None:
            values.append(value)
