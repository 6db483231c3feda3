"""The kernel robot's comparisons (`opplab.formats.kernel_robot`) as tables, in the robot's own layout."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from opplab.comparison.method import change_of
from opplab.comparison.tables import Cell, Row, Table
from opplab.errors import InputError
from opplab.formats import kernel_robot
from opplab.formats.kernel_robot import Entry, Failure, Report
from opplab.mmtests.problems import UnknownName

METHOD = (
    "means, deviations and changes as the robot printed them; it prints neither intervals nor every run; "
    "CSV, JSON and rules count improvements as positive"
)

# lkp-tests' names by what they measure, in order: of the test's own metrics, and of what it watches beside the test.
_OWN = (
    # What GNU time has of the test's processes: most of it has no better side.
    (r"time\.elapsed_time(?:\.max)?", "lower"),
    (r"time\.", ""),
    # A share of requests, of time, ...
    (r".*%", ""),
    # `faults_per_sec_per_cpu` is a rate.
    (r".*(?:time|latency|(?<!per_)secs?|(?<!per_)seconds|_us|_ns|_ms|cycles)_per_", "lower"),
    (
        r".*(?:ops|throughput|score|per_sec|per-min|_per_|bandwidth|qps|requests|workload|operations|transactions)",
        "higher",
    ),
    (r".*(?:/s(?:ec)?$|[kmg]i?b_s(?:ec)?(?:_|$)|(?:[kmg]?b|[afrt])ps(?:[._]|$)|_bw$|speed$)", "higher"),
    # will-it-scale's sums over its processes or threads, vm-scalability's throughput of the median process.
    (r"(?:\d+\.(?:processes|threads)|scalability|median)$", "higher"),
    (r".*(?:time|latency|seconds|duration|overhead|jitter|rtt$|[._](?:ms|us|ns)(?:[._]|$))", "lower"),
)
_WATCHED = (
    (r"(?:turbostat|pmeter|power)\..*(?:watt|_power|package|energy)", "lower"),
    (r"perf-sched\.(?:total_)?sch_delay\..*\.ms(?:\.|$)", "lower"),
)


def is_own(metric: str, testcase: str) -> bool:
    """Whether a metric is the test's, and none of a monitor beside it.

    Examples
    --------
    >>> is_own("fio.read_iops", "fio-basic"), is_own("turbostat.PkgWatt", "fio-basic")
    (True, False)
    """
    prefix, dot, _ = metric.partition(".")
    return bool(dot) and (testcase == prefix or testcase.startswith(f"{prefix}-"))


def better_of(metric: str, testcase: str) -> str:
    """Give the better side of a metric by lkp-tests' names; empty where the name has none.

    Examples
    --------
    >>> better_of("kbuild.real_time_per_iteration", "kbuild"), better_of("cpuidle..time", "kbuild")
    ('lower', '')
    """
    own = is_own(metric, testcase)
    name = (metric.partition(".")[2] if own else metric).lower()
    return next((side for pattern, side in (_OWN if own else _WATCHED) if re.match(pattern, name)), "")


def _is_beside(metric: str, testcase: str) -> bool:
    """Whether a metric is no performance of the test: a monitor's, a share, or a number of GNU time without a side."""
    name = metric.partition(".")[2]
    is_detail = not better_of(metric, testcase) and (name.startswith("time.") or name.endswith("%"))
    return is_detail or not is_own(metric, testcase)


def tables(
    paths: Sequence[str | Path],
    benchmarks: Sequence[str] = (),
    metric: str = "",
    *,
    runs: Sequence[str] = (),
    baseline: str | None = None,
) -> list[Table]:
    """Give the comparisons of files as tables.

    Parameters
    ----------
    benchmarks : sequence of str, optional
        Only these tests; all by default.
    metric : str, optional
        Only metrics with this in their names.
    runs : sequence of str, optional
        Only these commits, in this order, the base first; all by default.
    baseline : str, optional
        The base of the comparisons that are wanted: the robot has changes against no other commit.

    Raises
    ------
    InputError
        If a commit is in no comparison, or another one than the base comes first.
    """
    reports = [report for path in paths for report in kernel_robot.read_file(path)]
    known = list(dict.fromkeys(name for report in reports for name in report.commits))
    for name in (*runs, *([baseline] if baseline else [])):
        if name not in known:
            raise UnknownName("run", name, known)
    first = baseline or next(iter(runs), "")
    bases = list(dict.fromkeys(report.commits[0] for report in reports))
    if first and (first not in bases or (runs and runs[0] != first)):
        raise InputError(f"the robot's changes are against {' or '.join(bases)}, which must be the first run")
    found = []
    for report in reports:
        if (benchmarks and report.testcase not in benchmarks) or first not in ("", report.commits[0]):
            continue
        table = _of_runs(_table(report), runs)
        table.rows = [row for row in table.rows if metric in row.metric]
        if table.rows:
            found.append(table)
    return found


def _of_runs(table: Table, runs: Sequence[str]) -> Table:
    """Give a table with these runs only, where any are asked for."""
    places = [table.runs.index(name) for name in runs if name in table.runs] or range(len(table.runs))
    rows = [replace(row, cells=[row.cells[at] for at in places]) for row in table.rows]
    names, heads = ([some[at] for at in places] for some in (table.runs, table.heads))
    return replace(table, runs=names, heads=heads, rows=rows)


def _table(report: Report) -> Table:
    rows = []
    wrong = kernel_robot.disagreements(report)
    for row in report.rows:
        better = better_of(row.metric, report.testcase)
        base = row.entries[0]
        cells = [None if entry is None else _cell(entry, base, better) for entry in row.entries]
        _note(cells, row.line, wrong)
        beside = _is_beside(row.metric, report.testcase)
        rows.append(
            Row("", row.metric, cells, better=better, spread_kind="percent", metric=row.metric, is_beside=beside)
        )
    for failure in report.failures:
        shares = _shares(failure)
        _note(shares, failure.line, wrong)
        rows.append(Row("", failure.name, shares, "%", "lower", metric=failure.name))
    notes = [*report.notes, *wrong.values()]
    if report.runs is not None:
        notes.append(f"runs of the base: {report.runs}")
    if report.failures:
        notes.append("rows with a colon: runs that failed, of so many runs")
    commits = [
        name + (f' ("{subject}")' if subject else "")
        for name, subject in zip(report.commits, report.subjects, strict=True)
    ]
    return Table(
        "robot",
        report.commits,
        rows,
        title=f"{'/'.join(report.axes)}:\n  {report.path}" if report.axes else report.path,
        benchmark=report.testcase,
        method=METHOD,
        notes=notes,
        heads=commits,
        machine=report.axes.get("tbox_group", ""),
    )


def _note(cells: Sequence[Cell | None], line: int, wrong: Mapping[tuple[int, int], str]) -> None:
    """Mark the cells whose printed change does not follow from their means."""
    for at, cell in enumerate(cells):
        if cell is not None:
            cell.cannot = wrong.get((line, at), "")


def _shares(failure: Failure) -> list[Cell | None]:
    """Runs that failed in percent, printed as the robot prints them."""
    base, *_ = shares = [100 * fails / runs if runs else None for fails, runs in failure.runs]
    cells: list[Cell | None] = []
    for at, (share, (fails, runs), change) in enumerate(zip(shares, failure.runs, failure.changes, strict=True)):
        if share is None:
            cells.append(None)
            continue
        cell = Cell(share, text=f"{fails or ''}:{runs}", change_text=change or None)
        if at and base is not None:
            cell.change, cell.in_points = change_of(base, share, higher=False, unit="%")
        cells.append(cell)
    return cells


def _cell(entry: Entry, base: Entry | None, better: str) -> Cell:
    change = None if entry.change is None else (-1.0 if better == "lower" else 1.0) * entry.change + 0.0
    has_ratio = base is not None and base.value > 0 and entry is not base and not entry.is_points
    return Cell(
        value=None if math.isnan(entry.value) else entry.value,
        text=entry.text,
        spread=entry.spread,
        change=change,
        in_points=entry.is_points,
        change_text=entry.change_text or None,
        ratio=entry.value / base.value if base is not None and has_ratio else None,
    )
