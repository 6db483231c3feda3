"""Phones and boards: rails, programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.silicon.common import column, groups, read
from opplab.agreement.silicon import LINE, ScoredSet, predictions_of
from opplab.fit.linear import fit_parts
from opplab.fit.score import Prediction, line


def _counters(path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Give instructions a cycle, and cycles as a share of the clock, of each program at each clock."""
    sums: dict[tuple[str, str], list[float]] = {}
    for row in read(path):
        if row["a15_instructions"] and row["a15_cycles"]:
            total = sums.setdefault((row["benchmark"], row["big_khz_set"]), [0.0, 0.0, 0.0])
            total[0] += float(row["a15_instructions"])
            total[1] += float(row["a15_cycles"])
            total[2] += 0.5 * 1000 * float(row["big_khz_set"])
    return {key: (work / cycles, min(cycles / all_cycles, 1)) for key, (work, cycles, all_cycles) in sums.items()}


def rails(path: Path) -> list[ScoredSet]:
    """Rail power of programs at three clocks with voltages: without a program's middle clock, without a program."""
    rows = read(path)
    volts, ghz, watts = column(rows, "a15_v_mean"), column(rows, "a15_mhz_mean") / 1000, column(rows, "a15_w_mean")
    programs = sorted({row["benchmark"] for row in rows})
    whose = np.array([programs.index(row["benchmark"]) for row in rows])
    switching = ghz * volts**2
    own = np.where(whose[:, None] == np.arange(len(programs)), switching[:, None], 0)
    features = np.column_stack([volts**2, own])
    clock: list[Prediction] = []
    middle = np.array([row["big_khz_set"] == "1500000" for row in rows])
    for index, name in enumerate(programs):
        out = middle & (whose == index)
        parts = fit_parts(["leakage", *programs], features[~out], watts[~out])
        ends = (whose == index) & ~middle
        rival = line(list(ghz[ends]), list(watts[ends]), list(ghz[out]))
        clock += predictions_of([name], watts[out], parts.power(features[out]), rival, parts.interval(features[out]))
    folder = path.parent.name
    by_clock = "rail power by clock, with voltages"
    sets = [ScoredSet(folder, by_clock, "each program's middle clock", LINE, clock)]
    samples = path.with_name("cbench_samples.csv.gz")
    if samples.exists():
        counted = _counters(samples)
        told = np.array([counted[row["benchmark"], row["big_khz_set"]] for row in rows])
        work, awake = told[:, 0], told[:, 1]
        parts_of = [volts**3, switching, switching * awake, switching * awake * work, column(rows, "ram_w_mean")]
        found = _programs(programs, whose, np.column_stack(parts_of), watts, ghz)
        quantity = "rail power of a program by its counters"
        sets.append(ScoredSet(folder, quantity, "the program", "mean of the others at the clock", found))
    return sets


def _programs(
    programs: list[str], whose: np.ndarray, features: np.ndarray, watts: np.ndarray, ghz: np.ndarray
) -> list[Prediction]:
    """Predict each program by leakage, clocks, instructions and memory of the others."""
    found: list[Prediction] = []
    names = ["leakage", "clock", "unhalted clock", "instructions", "memory"]
    for index, name in enumerate(programs):
        out = whose == index
        fit = fit_parts(names, features[~out], watts[~out])
        clocks = np.round(ghz, 1)
        rival = [np.mean(watts[~out & (clocks == clock)]) for clock in clocks[out]]
        here = features[out]
        found += predictions_of([name] * int(np.sum(out)), watts[out], fit.power(here), rival, fit.interval(here))
    return found


def time_by_frequency(path: Path) -> list[ScoredSet]:
    """Time of programs: a part that scales with the clock and one that does not, from two clocks."""
    predictions: list[Prediction] = []
    for (_, program, _), group in groups(read(path), "device", "program", "cpu").items():
        # A program that waits (its cycles fall well short of the clock) is not work.
        rows = [r for r in group if r["cycles_per_s_mhz"] and float(r["cycles_per_s_mhz"]) > 0.9 * int(r["khz"]) / 1000]
        if len(rows) != 3:
            continue
        rows.sort(key=lambda row: int(row["khz"]))
        ghz, seconds = column(rows, "khz") / 1e6, column(rows, "median_s")
        parts = fit_parts(["cycles", "fixed"], np.column_stack([1 / ghz, np.ones(3)])[[0, 2]], seconds[[0, 2]])
        predicted = parts.power(np.array([[1 / ghz[1], 1]]))
        predictions += predictions_of([program], seconds[1:2], predicted, [seconds[2] * ghz[2] / ghz[1]])
    rival = "work in proportion to the clock"
    return [ScoredSet(path.parent.name, "time of programs by clock", "the middle clock", rival, predictions)]
