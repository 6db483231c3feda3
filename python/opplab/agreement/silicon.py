"""The scoreboard of hardware: what fits predict of measurements that they did not use, beside the simplest rival.

A set is a folder of measurements that is known by its table.  Each gives predictions where something was left out (a
clock, a number of cores, a program, a run), or says why it cannot check a fit.  `docs/silicon.md` is made of it by
`opplab verify silicon --docs docs`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from opplab.errors import InputError
from opplab.files import csv_rows
from opplab.fit import freqbench, opp_power
from opplab.fit.curve import fit_curve
from opplab.fit.linear import fit_parts
from opplab.fit.score import Prediction, line, summary
from opplab.fit.shapes import shapes_without

__all__ = ["ScoredSet", "score", "score_folder"]

Row = dict[str, str]


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


def _read(path: Path) -> list[Row]:
    return [row for _, row in csv_rows(path)[1]]


def _groups(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row[key] for key in keys)].append(row)
    return dict(groups)


def _column(rows: list[Row], key: str) -> np.ndarray:
    return np.array([float(row[key]) if row[key] else np.nan for row in rows])


def _each_left_out(names: list[str], features: np.ndarray, measured: np.ndarray, along: np.ndarray) -> list[Prediction]:
    """Predict each row by parts fitted to the others; the rival is the line along `along` through the outermost."""
    predictions = []
    for index in range(len(measured)):
        others = np.arange(len(measured)) != index
        parts = fit_parts(names, features[others], measured[others])
        here = features[index : index + 1]
        low, high = parts.interval(here)
        order = np.argsort(along[others], kind="stable")
        rival = line(list(along[others][order]), list(measured[others][order]), [along[index]])
        values = (float(measured[index]), float(parts.power(here)[0]), float(rival[0]), float(low[0]), float(high[0]))
        predictions.append(Prediction(f"{along[index]:g}", *values))
    return predictions


_LINE = "straight line between lowest and highest"


def _opp_power(path: Path) -> list[ScoredSet]:
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
        told = zip(rest, fit.power(clocks[rest]), rival, low, high, strict=True)
        idle += [
            Prediction(str(points[i].khz), float(power[i]), float(p), float(r), float(a), float(b))
            for i, p, r, a, b in told
        ]
    return [
        ScoredSet(folder, "busy power by clock", "each operating point in turn", _LINE, every),
        ScoredSet(folder, "busy power from three points", "all but lowest, middle, highest", _LINE, three),
        ScoredSet(folder, "idle power of a rail from three points", "all but lowest, middle, highest", _LINE, idle),
        ScoredSet(folder, "CoreMark by clock", "all but the highest point", _LINE, speed),
    ]


def _speed_of_points(curve: freqbench.Curve) -> list[Prediction]:
    """Predict speed in proportion to the clock; points whose clock was another are left out."""
    points = [p for p in curve.points if p.speed and not curve.clocks_off([p])]
    if len(points) < 3:
        return []
    low, top = points[0], points[-1]
    rest = points[1:-1]
    rival = line([low.khz, top.khz], [low.speed or 0, top.speed or 0], [p.khz for p in rest])
    return [
        Prediction(str(p.khz), p.speed or 0, (top.speed or 0) * p.khz / top.khz, float(other))
        for p, other in zip(rest, rival, strict=True)
    ]


def _power_by_kernel(path: Path) -> list[ScoredSet]:
    """Power of a server by busy threads: a core count left out, and a program left out."""
    folder = path.parent.name
    rows = [row for row in _read(path) if row["placement"] == "cores_first"]
    sets = []
    for column, scope in (("ac_w_mean", "AC power"), ("rapl_pkg_w_mean", "RAPL package power")):
        predictions = []
        for group in _groups(rows, "kernel", "khz", "deepest_cstate").values():
            threads = _column(group, "threads")
            cores = float(np.max(threads)) / 2
            features = np.column_stack([np.ones_like(threads), *_saturating(threads, cores)])
            names = ["awake", "core, first eighth", "core, first quarter", "core, first half", "core", "second thread"]
            predictions += _each_left_out(names, features, _column(group, column), threads)
        sets.append(ScoredSet(folder, f"{scope} by threads", "each number of threads in turn", _LINE, predictions))
    sets.append(ScoredSet(folder, "RAPL power of a program", "the program", "mean of the others", _programs(rows)))
    return sets


def _saturating(threads: np.ndarray, cores: float) -> list[np.ndarray]:
    """Give features of which a non-negative sum rises and flattens: shared resources saturate, then siblings follow."""
    return [np.minimum(threads, share * cores) for share in (0.125, 0.25, 0.5, 1)] + [threads]


def _programs(rows: list[Row]) -> list[Prediction]:
    """Predict a program by its class (memory or not): the median of the class's other programs at the same load."""
    predictions = []
    for group in _groups(rows, "threads", "khz", "deepest_cstate").values():
        watts = {row["kernel"]: float(row["rapl_pkg_w_mean"]) for row in group}
        for kernel, measured in watts.items():
            others = {name: value for name, value in watts.items() if name != kernel}
            same = [v for name, v in others.items() if name.startswith("memory") == kernel.startswith("memory")]
            if same:
                rival = float(np.mean(list(others.values())))
                predictions.append(Prediction(kernel, measured, float(np.median(same)), rival))
    return predictions


def _power_by_cores(path: Path) -> list[ScoredSet]:
    """Power of a server by busy cores at the clock that boost gave: a core count left out."""
    predictions = []
    for (series,), group in _groups(_read(path), "series").items():
        cores, watts = _column(group, "busy_cores"), _column(group, "ac_w_mean")
        ghz = _column(group, "mean_cycles_mhz_per_busy_core") / 1000
        if series == "second":
            told = _column(group, "aperf_per_mperf")
            ghz = np.where(np.isnan(told), ghz, told * 2.0)
        features = np.column_stack([np.ones_like(cores), cores, cores * ghz, cores * ghz**3])
        predictions += _each_left_out(["awake", "core", "core f", "core f^3"], features, watts, cores)
    return [ScoredSet(path.parent.name, "AC power by cores", "each number of cores in turn", _LINE, predictions)]


def _capped_package(path: Path) -> list[ScoredSet]:
    """Package power at another clock from one clock alone, by what power curves look like."""
    rows = _read(path)
    groups = _groups([row for row in rows if int(row["interval"]) >= 2], "condition")
    means = sorted((float(np.mean(_column(g, "bzy_mhz"))), float(np.mean(_column(g, "package_w"))))
                   for g in groups.values())  # fmt: skip
    (low_mhz, low_w), (top_mhz, top_w) = means[0], means[-1]
    fit = fit_curve(np.array([top_mhz]), np.array([top_w]), shapes_without(None))
    at = np.array([low_mhz])
    low, high = fit.interval(at)
    rival = top_w * low_mhz / top_mhz
    told = Prediction(f"{low_mhz:.0f}", low_w, float(fit.power(at)[0]), rival, float(low[0]), float(high[0]))
    return [ScoredSet(path.parent.name, "package power under a cap", "the capped clock", "in proportion", [told])]


def _package_by_pstate(path: Path) -> list[ScoredSet]:
    """Package power by P-state and spinning threads, one row left out; sockets side by side."""
    rows = [row for row in _read(path) if row["scope"] != "system"]
    uncore = np.array([float(row["pstate_100mhz"]) > 20 for row in rows], dtype=float)
    cores = np.minimum(_column(rows, "logical_cpus_over_50pct_busy"), 16)
    ghz = _column(rows, "pstate_100mhz") / 10
    features = np.column_stack([np.ones_like(cores), uncore, cores * ghz, cores * ghz**3])
    load = cores * ghz
    names = ["awake socket", "awake socket at the base clock", "core f", "core f^3"]
    found = _each_left_out(names, features, _column(rows, "pkg_w"), load)
    return [ScoredSet(path.parent.name, "package power by P-state and threads", "each row in turn", _LINE, found)]


def _rails(path: Path) -> list[ScoredSet]:
    """Rail power of programs at three clocks with voltages: without a program's middle clock, without a program."""
    rows = _read(path)
    volts, ghz, watts = _column(rows, "a15_v_mean"), _column(rows, "a15_mhz_mean") / 1000, _column(rows, "a15_w_mean")
    programs = sorted({row["benchmark"] for row in rows})
    whose = np.array([programs.index(row["benchmark"]) for row in rows])
    switching = ghz * volts**2
    own = np.where(whose[:, None] == np.arange(len(programs)), switching[:, None], 0)
    features = np.column_stack([volts**2, own])
    clock: list[Prediction] = []
    other: list[Prediction] = []
    middle = np.array([row["big_khz_set"] == "1500000" for row in rows])
    for index, name in enumerate(programs):
        out = middle & (whose == index)
        parts = fit_parts(["leakage", *programs], features[~out], watts[~out])
        low, high = parts.interval(features[out])
        ends = (whose == index) & ~middle
        rival = line(list(ghz[ends]), list(watts[ends]), list(ghz[out]))
        told = zip(watts[out], parts.power(features[out]), rival, low, high, strict=True)
        clock += [Prediction(name, *map(float, values)) for values in told]
        rest = whose != index
        mean = fit_parts(["leakage", "program"], np.column_stack([volts**2, switching])[rest], watts[rest])
        here = np.column_stack([volts**2, switching])[~rest]
        low, high = mean.interval(here)
        rival = np.array([np.mean(watts[rest & (ghz == g)]) for g in ghz[~rest]])
        told = zip(watts[~rest], mean.power(here), rival, low, high, strict=True)
        other += [Prediction(name, *map(float, values)) for values in told]
    return [
        ScoredSet(path.parent.name, "rail power by clock, with voltages", "each program's middle clock", _LINE, clock),
        ScoredSet(path.parent.name, "rail power of a program", "the program", "mean of the others", other),
    ]


def _time_by_frequency(path: Path) -> list[ScoredSet]:
    """Time of programs: a part that scales with the clock and one that does not, from two clocks; the middle told."""
    predictions = []
    for (_, program, _), group in _groups(_read(path), "device", "program", "cpu").items():
        # A program that waits (its cycles fall well short of the clock) is not work.
        rows = [r for r in group if r["cycles_per_s_mhz"] and float(r["cycles_per_s_mhz"]) > 0.9 * int(r["khz"]) / 1000]
        if len(rows) != 3:
            continue
        rows.sort(key=lambda row: int(row["khz"]))
        ghz, seconds = _column(rows, "khz") / 1e6, _column(rows, "median_s")
        parts = fit_parts(["cycles", "fixed"], np.column_stack([1 / ghz, np.ones(3)])[[0, 2]], seconds[[0, 2]])
        predicted = float(parts.power(np.array([[1 / ghz[1], 1]]))[0])
        predictions.append(Prediction(program, float(seconds[1]), predicted, float(seconds[2] * ghz[2] / ghz[1])))
    rival = "work in proportion to the clock"
    return [ScoredSet(path.parent.name, "time of programs by clock", "the middle clock", rival, predictions)]


def _turbostat_runs(path: Path) -> list[ScoredSet]:
    """Package power by interval from busy time, clock and idle states: one run fitted, the other told."""
    runs = _groups(_read(path), "run")
    names = ["awake", "busy", "busy f", "busy f^3", "light idle", "package not asleep"]
    parts = {}
    for (run,), rows in runs.items():
        busy, ghz = _column(rows, "busy_pct") / 100, _column(rows, "bzy_mhz") / 1000
        light = (_column(rows, "c1_pct") + _column(rows, "poll_pct")) / 100
        awake = 1 - (_column(rows, "pkg_pc2_pct") + _column(rows, "pkg_pc8_pct")) / 100
        features = np.column_stack([np.ones_like(busy), busy, busy * ghz, busy * ghz**3, light, awake])
        parts[run] = (features, _column(rows, "pkg_w"), busy * ghz)
    predictions: list[Prediction] = []
    for run, (features, watts, load) in parts.items():
        for other, (seen, seen_watts, seen_load) in parts.items():
            if other == run:
                continue
            fit = fit_parts(names, seen, seen_watts)
            order = np.argsort(seen_load)
            rival = line(list(seen_load[order]), list(seen_watts[order]), list(load))
            low, high = fit.interval(features)
            told = zip(watts, fit.power(features), rival, low, high, strict=True)
            predictions += [Prediction(run, *map(float, values)) for values in told]
    return [ScoredSet(path.parent.name, "package power by interval", "the other kernel's run", _LINE, predictions)]


def _cannot(quantity: str, why: str) -> Callable[[Path], list[ScoredSet]]:
    return lambda path: [ScoredSet(path.parent.name, quantity, "", "", [], why)]


SETS: dict[str, Callable[[Path], list[ScoredSet]]] = {
    "freqbench/opp_power.csv": _opp_power,
    "odroid-xu3-rails/cbench_mean.csv": _rails,
    "epyc-7502-2s/power_by_kernel.csv": _power_by_kernel,
    "epyc-zen1-anomaly/power_by_cores.csv": _power_by_cores,
    "epyc-milan-cap/turbostat.csv": _capped_package,
    "xeon-6130-spin/spin.csv": _package_by_pstate,
    "jasper-lake-menu/summary.csv": _turbostat_runs,
    "pixel4-pmu/time_by_frequency.csv": _time_by_frequency,
    "raptor-lake-throttle/per_cpu.csv": _cannot(
        "clock at the thermal limit", "one steady state: it can fit a resistance to the air, not check one"
    ),
    "mt8196-idle/residency.csv": _cannot(
        "idle states that teo chose", "counters without the timers and wake-ups that the governor saw"
    ),
    "menu-5.15-cpuidle/idle_states.csv": _cannot(
        "idle states that menu chose", "counters without the timers and wake-ups that the governor saw"
    ),
    "arrow-lake-cppc/cppc.csv": _cannot("f_max", "claims of firmware: `opplab machine check` names what is wrong"),
    "core-ultra-135h/powersave.csv": _cannot("energy of a half load", "one clock, one load: nothing to leave out"),
}
"""Folder and table -> what it can check; tables of power by operating point may be in any folder."""


def score_folder(folder: Path) -> list[ScoredSet]:
    """Score every table below a folder that is known, in the order of `SETS`.

    Raises
    ------
    InputError
        None is known.
    """
    sets: list[ScoredSet] = []
    for known, make in SETS.items():
        home, name = known.split("/")
        for path in sorted(folder.resolve().rglob(name)):
            if path.parent.name == home or make is _opp_power:
                sets += make(path)
    if not sets:
        raise InputError(f"no measurements below {folder} (known tables: {', '.join(SETS)})")
    return sets


def score(sets: list[ScoredSet]) -> dict[str, Any]:
    """Give the scoreboard: ``overall``, in which each set weighs the same, and ``sets``."""
    return {
        "overall": {**summary([s.predictions for s in sets]), "unit": "relative error, 0.05 is 5 %"},
        "sets": [s.row() for s in sets],
    }
