"""The kernel robot's comparisons (`opplab.formats.kernel_robot`) as tables, in the robot's own layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from opplab.comparison.tables import Cell, Row, Table
from opplab.formats import kernel_robot
from opplab.formats.kernel_robot import Entry, Failure, Report

METHOD = (
    "means, deviations and changes as the robot printed them; it prints neither intervals nor every run; "
    "CSV, JSON and rules count improvements as positive"
)

# What lkp-tests' metrics are called by whose smaller values are better.
_LOWER = ("time", "latency", "Watt", "_Power", "power_", "energy", "seconds", "buildtime", ".ms", "_us", "_ns")
_HIGHER = (
    *("ops", "throughput", "Throughput", "score", "per_sec", "per-min", "_per_", "MB/sec", "bandwidth", "tps", "qps"),
    *("requests", "workload", "iops", "IOPS"),
)


def better_of(metric: str) -> str:
    """Give the better side of a metric by lkp-tests' names; empty where the name has none."""
    name = metric.partition(".")[2] or metric
    if any(word in name for word in _HIGHER) and "buildtime" not in name:
        return "higher"
    return "lower" if any(word in name for word in _LOWER) else ""


def tables(paths: Sequence[str | Path], benchmarks: Sequence[str] = (), metric: str = "") -> list[Table]:
    """Give the comparisons of files as tables.

    Parameters
    ----------
    benchmarks : sequence of str, optional
        Only these tests; all by default.
    metric : str, optional
        Only metrics with this in their names.
    """
    found = []
    for path in paths:
        for report in kernel_robot.read_file(path):
            if benchmarks and report.testcase not in benchmarks:
                continue
            table = _table(report)
            table.rows = [row for row in table.rows if metric in row.metric]
            if table.rows:
                found.append(table)
    return found


def _table(report: Report) -> Table:
    rows = []
    for row in report.rows:
        better = better_of(row.metric)
        base = row.entries[0]
        cells = [None if entry is None else _cell(entry, base, better) for entry in row.entries]
        rows.append(Row("", row.metric, cells, better=better, spread_kind="percent", metric=row.metric))
    rows += [Row("", one.name, _shares(one), "%", "lower", metric=one.name) for one in report.failures]
    notes = [*report.notes, *kernel_robot.disagreements(report)]
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


def _shares(failure: Failure) -> list[Cell | None]:
    """Runs that failed in percent, printed as the robot prints them."""
    return [
        Cell(100 * fails / runs, text=f"{fails or ''}:{runs}", change_text=change or None) if runs else None
        for (fails, runs), change in zip(failure.runs, failure.changes, strict=True)
    ]


def _cell(entry: Entry, base: Entry | None, better: str) -> Cell:
    worse_if_more = -1.0 if better == "lower" else 1.0
    change = None if entry.change is None or entry.is_points else worse_if_more * entry.change
    ratio = entry.value / base.value if base is not None and base.value > 0 and entry is not base else None
    return Cell(
        value=None if math.isnan(entry.value) else entry.value,
        text=entry.text,
        spread=entry.spread,
        change=change,
        change_text=entry.change_text or None,
        ratio=ratio,
    )
