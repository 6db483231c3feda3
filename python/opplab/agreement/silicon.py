"""The scoreboard of hardware: what fits predict of measurements that they did not use, beside the simplest rival.

A table is known by its name, in any folder.  Each gives predictions where something was left out (a clock, two of
three operating points).  Package `lab` of the source tree adds sets of measurements that are known by their folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opplab.errors import InputError
from opplab.fit import freqbench, opp_power
from opplab.fit.curve import fit_curve
from opplab.fit.score import Prediction, line, summary
from opplab.fit.shapes import shapes_without
from opplab.report.text import render_table


@dataclass
class ScoredSet:
    """Predictions of one kind from one folder; without predictions, why."""

    folder: str
    quantity: str
    left_out: str
    rival: str
    predictions: list[Prediction] = field(default_factory=list)
    why_not: str = ""

    def row(self) -> dict[str, Any]:
        """Give it as a row of the scoreboard."""
        return {
            "set": f"{self.folder}: {self.quantity}",
            "folder": self.folder,
            "quantity": self.quantity,
            "left_out": self.left_out,
            **summary([self.predictions]),
            "rival": self.rival,
            "why_not": self.why_not,
        }


LINE = "straight line between lowest and highest"


def predictions_of(
    where: Iterable[object],
    measured: Iterable[float],
    predicted: Iterable[float],
    rival: Iterable[float],
    bounds: tuple[Iterable[float], Iterable[float]] | None = None,
) -> list[Prediction]:
    """Put columns side by side as predictions; `bounds` are the intervals of 95 %."""
    columns = [measured, predicted, rival, *(bounds or ())]
    rows = zip(where, zip(*columns, strict=True), strict=True)
    return [Prediction(str(name), *(float(value) for value in values)) for name, values in rows]


def opp_power_tables(path: Path) -> list[ScoredSet]:
    """Tables of power by operating point: leave one out; from three points; speed; idle."""
    folder = path.parent.name
    curves = freqbench.choose(freqbench.read_points(path), None, None, path)
    every = [p for fit in opp_power.leave_one_out(curves) for p in fit.predictions]
    three = [p for fit in opp_power.check(curves, "low,mid,high", None) for p in fit.predictions]
    idle: list[Prediction] = []
    speed: list[Prediction] = []
    for curve in curves:
        speed += _speed_of_points(curve)
        # Rails only: what a phone draws with one more CPU online and idle is lost in a battery gauge's noise.
        points = [p for p in curve.points if p.idle_mw]
        if len(points) < 4 or any(p.idle_mw is None or p.idle_mw > 0.8 * p.busy_mw for p in curve.points):
            continue
        clocks, power = curve.clock_mhz(points), np.array([p.idle_mw for p in points], dtype=float)
        some = [0, len(points) // 2, len(points) - 1]
        fit = fit_curve(clocks[some], power[some], shapes_without(curve.soc))
        rest = [index for index in range(len(points)) if index not in some]
        low, high = fit.interval(clocks[rest])
        rival = line(list(clocks[some]), list(power[some]), list(clocks[rest]))
        names = [points[index].khz for index in rest]
        idle += predictions_of(names, power[rest], fit.power(clocks[rest]), rival, (low, high))
    return [
        ScoredSet(folder, "busy power by clock", "each operating point in turn", LINE, every),
        ScoredSet(folder, "busy power from three points", "all but lowest, middle, highest", LINE, three),
        ScoredSet(folder, "idle power of a rail from three points", "all but lowest, middle, highest", LINE, idle),
        ScoredSet(folder, "CoreMark by clock", "all but lowest and highest", LINE, speed),
    ]


def _speed_of_points(curve: freqbench.Curve) -> list[Prediction]:
    """Predict speed as the clock less what housekeeping takes each second; points of another clock are left out.

    The tick and what else the kernel does a second takes cycles, none of which are negative: ``k (f - lost)`` through
    the lowest and the highest point; where that would be below 0, ``k f``.
    """
    points = [p for p in curve.points if p.speed and not curve.clocks_off([p])]
    if len(points) < 3:
        return []
    khz = np.array([p.khz for p in points], dtype=float)
    speed = np.array([p.speed for p in points], dtype=float)
    slope = (speed[-1] - speed[0]) / (khz[-1] - khz[0])
    lost = khz[0] - speed[0] / slope
    if lost < 0:
        slope, lost = float(np.mean(speed[[0, -1]] / khz[[0, -1]])), 0.0
    rest = slice(1, -1)
    rival = line(list(khz[[0, -1]]), list(speed[[0, -1]]), list(khz[rest]))
    return predictions_of(khz[rest].astype(int), speed[rest], slope * (khz[rest] - lost), rival)


SETS: dict[str, Callable[[Path], list[ScoredSet]]] = {"opp_power.csv": opp_power_tables}
"""Table, by its name or its folder and name -> what it can check."""


def score_folder(folder: Path, known: Mapping[str, Callable[[Path], list[ScoredSet]]] = SETS) -> list[ScoredSet]:
    """Score every table below a folder that is known, in the order of `known`.

    Raises
    ------
    InputError
        None is known.
    """
    sets: list[ScoredSet] = []
    for table, make in known.items():
        for path in sorted(folder.resolve().rglob(Path(table).name)):
            if path.match(table):
                sets += make(path)
    if not sets:
        raise InputError(f"no measurements below {folder} (known tables: {', '.join(known)})")
    return sets


_BESIDE = ("freqbench/clusters.csv", "freqbench/runs.csv")
"""Tables that are read beside those of `SETS`."""


def unknown_tables(folder: Path) -> list[str]:
    """Name the tables below a folder that no set reads, so that a table of another name is no silence."""
    home = folder.resolve()
    tables = sorted([*home.rglob("*.csv"), *home.rglob("*.csv.gz")])
    return [str(path.relative_to(home)) for path in tables if not any(map(path.match, (*SETS, *_BESIDE)))]


def score(sets: list[ScoredSet]) -> dict[str, Any]:
    """Give the scoreboard: ``overall``, in which each set weighs the same, and ``sets``."""
    return {
        "overall": {**summary([s.predictions for s in sets]), "unit": "relative error, 0.05 is 5 %"},
        "sets": [s.row() for s in sets],
    }


def percent(value: float | None) -> str:
    """Give a share in percent; what is unknown is empty."""
    return "" if value is None else f"{100 * value:.1f}"


def _line(name: str, row: dict[str, Any]) -> dict[str, str]:
    return {
        "set": name,
        "left out": row.get("left_out", ""),
        "n": str(row["predictions"]),
        "median %": percent(row["median_abs_error"]),
        "p90 %": percent(row["p90_abs_error"]),
        "rival %": percent(row["rival_median_abs_error"]),
        "skill": "" if row["skill"] is None else f"{row['skill']:.2f}",
        "in 95 %": "" if row["in_interval"] is None else f"{100 * row['in_interval']:.0f}",
        "rival": row.get("rival", ""),
    }


def table_rows(report: dict[str, Any]) -> list[dict[str, str]]:
    """Give the scoreboard as a table; `totals` of the report are lines by their names."""
    rows = [_line(row["set"], row) for row in report["sets"] if row["predictions"]]
    rows += [_line(name, total) for name, total in report.get("totals", {}).items() if total["predictions"]]
    return [*rows, _line("all, each set weighing the same", report["overall"])]


def text(report: dict[str, Any]) -> str:
    """Give the scoreboard as text."""
    rows = [{key: cell for key, cell in row.items() if key != "rival"} for row in table_rows(report)]
    unscored = [f"not scored: {row['set']}: {row['why_not']}\n" for row in report["sets"] if row["why_not"]]
    return render_table(rows, "text") + "".join(unscored)
