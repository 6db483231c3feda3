"""Laptops and desktops at their limits: package power by interval, clock under HWP, the thermal limit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lab.silicon.common import Row, column, groups, read, running_mean
from opplab.agreement.silicon import LINE, ScoredSet, predictions_of
from opplab.fit.linear import fit_parts
from opplab.fit.score import Prediction, line

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


PL1_W, PL1_WINDOW_S, INTERVAL_S = 6.0, 28.0, 5.0  # Of the log's header; turbostat's default interval.
PARTS = ["awake", "busy", "busy f", "busy f^3", "light idle", "package not asleep"]
_KERNELS = "the other kernel's run"


def _features(rows: list[Row], ghz: Floats) -> Floats:
    busy = column(rows, "busy_pct") / 100
    light = (column(rows, "c1_pct") + column(rows, "poll_pct")) / 100
    awake = 1 - (column(rows, "pkg_pc2_pct") + column(rows, "pkg_pc8_pct")) / 100
    return np.column_stack([np.ones_like(busy), busy, busy * ghz, busy * ghz**3, light, awake])


def _squares(of: Floats) -> Floats:
    return np.column_stack([np.ones_like(of), of, of**2])


def _awake_share(rows: list[Row]) -> Floats:
    """Give the share of the time in which cores have their clock and state (not C6, C7) that they are busy."""
    busy = column(rows, "busy_pct")
    return np.asarray(busy / (busy + column(rows, "hw_c1_pct")))


def _clock_by(of: Floats, mhz: Floats, at: Floats) -> Floats:
    parameters = np.linalg.lstsq(_squares(of), mhz, rcond=None)[0]
    return np.asarray(_squares(at) @ parameters)


def turbostat_runs(path: Path) -> list[ScoredSet]:
    """Package power and clock from busy time and idle states: one run fitted, the other predicted; its limit."""
    runs = {run: rows for (run,), rows in groups(read(path), "run").items()}
    power: list[Prediction] = []
    clock: list[Prediction] = []
    means: list[Prediction] = []
    limit: list[Prediction] = []
    for run, rows in runs.items():
        watts, mhz, busy = column(rows, "pkg_w"), column(rows, "bzy_mhz"), column(rows, "busy_pct")
        features = _features(rows, mhz / 1000)
        for other, seen in runs.items():
            if other == run:
                continue
            seen_mhz, seen_busy, seen_w = column(seen, "bzy_mhz"), column(seen, "busy_pct"), column(seen, "pkg_w")
            fit = fit_parts(PARTS, _features(seen, seen_mhz / 1000), seen_w)
            load = seen_busy * seen_mhz
            order = np.argsort(load)
            rival = line(list(load[order]), list(seen_w[order]), list(busy * mhz))
            power += predictions_of([run] * len(rows), watts, fit.power(features), rival, fit.interval(features))
            told_mhz = _clock_by(_awake_share(seen), seen_mhz, _awake_share(rows))
            by_busy_mhz = _clock_by(seen_busy, seen_mhz, busy)
            clock += predictions_of([run] * len(rows), mhz, told_mhz, by_busy_mhz)
            told_w, by_busy_w = (fit.power(_features(rows, told / 1000)) for told in (told_mhz, by_busy_mhz))
            means += predictions_of(
                [f"{run}, MHz", f"{run}, W"],
                [mhz.mean(), watts.mean()],
                [told_mhz.mean(), told_w.mean()],
                [by_busy_mhz.mean(), by_busy_w.mean()],
            )
        average = running_mean(watts, PL1_WINDOW_S, INTERVAL_S)
        limit += predictions_of([run], [average.max()], [PL1_W], [watts.max()])
    folder, by_busy = path.parent.name, "the same form by busy time alone"
    return [
        ScoredSet(folder, "package power by interval", _KERNELS, LINE, power),
        ScoredSet(folder, "clock by interval", _KERNELS, by_busy, clock),
        ScoredSet(folder, "mean clock and watts of a run", _KERNELS, by_busy, means),
        ScoredSet(folder, "highest average of 28 s, by PL1", "the run", "the highest interval", limit),
    ]


def _steady(rows: list[Row]) -> dict[str, float]:
    """Give the steady state of a log: watts, degrees, clock of P- and E-cores, instructions a cycle and GHz."""
    whole = [row for row in rows if not row["cpu"]]
    kinds = {
        kind: [row for row in rows if row["cpu"] and (int(row["cpu"]) < P_CPUS) == (kind == "p")] for kind in ("p", "e")
    }
    return {
        "watts": float(np.mean(column(whole, "package_w"))),
        "celsius": float(np.mean(column(whole, "core_celsius"))),
        "work": float(np.mean(column(whole, "ipc"))),
        **{kind: float(np.mean(column(of, "bzy_mhz"))) for kind, of in kinds.items()},
    }


P_CPUS, P_TOP_MHZ, E_TOP_MHZ, TDP_W, AMBIENT_CELSIUS = 16, 5300, 4200, 125, 25


def thermal_limit(path: Path) -> list[ScoredSet]:
    """Watts and clocks at the thermal limit: by the resistance to the air that another log shows, and one ceiling."""
    logs = {log: _steady(rows) for (log,), rows in groups(read(path), "log").items()}
    watts: list[Prediction] = []
    clock: list[Prediction] = []
    share: list[Prediction] = []
    for log, seen in logs.items():
        # One ceiling holds all cores down, each by the same share of its own highest clock.
        share += predictions_of([f"{log}, E-cores"], [seen["e"]], [E_TOP_MHZ * seen["p"] / P_TOP_MHZ], [E_TOP_MHZ])
        for other, known in logs.items():
            if other == log:
                continue
            resistance = (known["celsius"] - AMBIENT_CELSIUS) / known["watts"]
            told_w = (seen["celsius"] - AMBIENT_CELSIUS) / resistance
            watts += predictions_of([log], [seen["watts"]], [told_w], [TDP_W])
            names = [f"{log}, {kind}-cores" for kind in ("P", "E")]
            # The same watts at the same temperature: the clocks of the other log.
            clock += predictions_of(names, [seen["p"], seen["e"]], [known["p"], known["e"]], [P_TOP_MHZ, E_TOP_MHZ])
    folder = path.parent.name
    return [
        ScoredSet(folder, "package power at the thermal limit", "the other log", "the rated power", watts),
        ScoredSet(folder, "clocks at the thermal limit", "the other log", "the turbo bins", clock),
        ScoredSet(folder, "clock of the E-cores by that of the P-cores", "the E-cores", "the turbo bin", share),
    ]


def highest_clocks(path: Path) -> list[ScoredSet]:
    """Highest clock by CPPC's guaranteed level, beside what the kernel claims; measured is what a scan reached."""
    scan = path.with_name("frequency_scan.csv")
    if not scan.exists():
        return []
    found: list[Prediction] = []
    tables = groups(read(path), "model")
    for row in read(scan):
        cpus = [
            one
            for one in tables.get((row["model"],), [])
            if row["turbo"] == "on" and (int(one["cpu"]) < ARROW_LAKE_P_CPUS) == (row["core_type"] == "P")
        ]
        told = [float(c["nominal_mhz"]) * int(c["highest_perf"]) / int(c["guaranteed_perf"]) for c in cpus]
        if told:
            reached, claimed = (
                float(row[key]) / 1000 for key in ("max_scaling_cur_freq_seen_khz", "cpuinfo_max_freq_claimed_khz")
            )
            found += predictions_of([f"{row['model']}, {row['core_type']}"], [reached], [max(told)], [claimed])
    quantity = "highest clock by guaranteed_perf"
    return [ScoredSet(path.parent.name, quantity, "the scan under load", "cpuinfo_max_freq", found)]


ARROW_LAKE_P_CPUS = 8
