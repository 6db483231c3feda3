"""The engine's own limits of power and temperature against logs of machines at theirs.

The machine of the catalogue gets its power from one log, runs the load of the other under its limits, and its clock and
watts stand beside the other log's.  The rival is the same run without the limit.
"""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.silicon.common import Row, column, groups, read, running_mean
from opplab import catalog
from opplab.agreement.silicon import ScoredSet, predictions_of
from opplab.fit.machine_power import to_machine_text, with_power
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


PERIOD_US = 10_000
GOLDEN = 0.6180339887  # Starts of the CPUs' periods are spread by it.
INTERVAL_S = 5.0
LEAD = 8
"""Intervals before the first one at the limit, so that the average has its history."""
AT_LIMIT = 0.975
STEADY_S = 20.0


def _load(shares: list[float], cpus: int, seconds: float) -> Workload:
    """Give every CPU a thread that is busy for the same share of its time, one share an interval."""
    tasks = {}
    for cpu in range(cpus):
        phases: dict[str, Any] = {}
        for number, share in enumerate(shares):
            busy_us = min(max(round(PERIOD_US * share), 100), PERIOD_US)
            phase: dict[str, Any] = {"loop": round(seconds * 1e6 / PERIOD_US), "runtime": busy_us}
            if busy_us < PERIOD_US - 50:
                phase["timer"] = {"ref": f"t{cpu}", "period": PERIOD_US}
            phases[f"p{number}"] = phase
        tasks[f"load{cpu}"] = {"cpus": [cpu], "delay": int(cpu * GOLDEN % 1 * PERIOD_US), "loop": 1, "phases": phases}
    return Workload.parse(json.dumps({"tasks": tasks}), name="load", file="<load>")


def _run(tree: dict[str, Any], load: Workload, kernel: str, seconds: float, every_s: float) -> list[dict[str, str]]:
    """Give turbostat's rows of a run under the driver's performance governor: all wish for the highest clock."""
    machine = Machine.parse(to_machine_text(tree), file=str(tree["name"]))
    policy = Policy(kernel=kernel, driver="intel_pstate", governor="performance", variation="none")
    text = simulate(machine, load, policy, seconds=seconds).turbostat(every_s)
    rows, head = [], list[str]()
    for line in text.splitlines():
        words = line.split()
        if "Bzy_MHz" in words:
            head = words
        elif head and len(words) > head.index("Bzy_MHz"):
            rows.append(dict(zip(head, words, strict=False)))  # Rows of single CPUs may be shorter.
    return rows


def _powered(name: str, log: Path) -> dict[str, Any]:
    text, *_ = with_power(catalog.find("machine", name).read_text(encoding="utf-8"), log)
    return tomllib.loads(text)


def _without(tree: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in tree.items() if name != key}


def _average_before(watts: Floats, window_s: float) -> Floats:
    """Give the running average that the limit sees as each interval begins."""
    return running_mean(np.append(watts[:1], watts[:-1]), window_s, INTERVAL_S)


def power_limit(path: Path) -> list[ScoredSet]:
    """Clock and watts of the intervals of a turbostat log that began at PL1, by a run of the engine under PL1."""
    name, folder = "jasper-lake-4c", path.parent
    runs = {run: rows for (run,), rows in groups(read(path), "run").items()}
    logs = {run: folder / f"6.1-{run}-turbostat.txt.gz" for run in runs}
    if len(runs) != 2 or not all(log.exists() for log in logs.values()):
        return []
    clock, power = [], []
    for run, rows in runs.items():
        (other,) = set(runs) - {run}
        tree = _powered(name, logs[other])
        limit_w, window_s = (tree["package_power"][key] / 1e6 for key in ("pl1_uw", "pl1_window_us"))
        watts, mhz, busy = (column(rows, key) for key in ("pkg_w", "bzy_mhz", "busy_pct"))
        limited = np.flatnonzero(_average_before(watts, window_s) >= AT_LIMIT * limit_w)
        # What draws much less has no load that would be limited.
        limited = limited[watts[limited] > 0.8 * limit_w]
        first, last = max(int(limited.min()) - LEAD, 0), int(limited.max())
        load = _load([float(share) / 100 for share in busy[first : last + 1]], 4, INTERVAL_S)
        seconds = INTERVAL_S * (last + 1 - first)
        told = []
        for machine in (tree, _without(tree, "package_power")):
            rows_of = [row for row in _run(machine, load, "6.1", seconds, INTERVAL_S) if row.get("CPU") == "-"]
            told.append([(float(rows_of[i]["Bzy_MHz"]), float(rows_of[i]["PkgWatt"])) for i in limited - first])
        names = [f"{run}, {5 * int(i)} s" for i in limited]
        engine, free = np.array(told[0]), np.array(told[1])
        clock += predictions_of(names, mhz[limited], engine[:, 0], free[:, 0])
        power += predictions_of(names, watts[limited], engine[:, 1], free[:, 1])
    rival, left = "the engine without PL1", "the other kernel's run"
    return [
        ScoredSet(folder.name, "the engine's clock at PL1, by interval", left, rival, clock),
        ScoredSet(folder.name, "the engine's watts at PL1, by interval", left, rival, power),
    ]


P_CPUS, AMBIENT_CELSIUS, KELVIN_S = 16, 25, 4.0


def thermal_limit_run(path: Path) -> list[ScoredSet]:
    """Clocks and watts at the thermal limit, by a run of the engine whose resistance to the air another log shows."""
    logs = {log: rows for (log,), rows in groups(read(path), "log").items()}
    files = {log: _file(path.parent, log) for log in logs}
    if len(logs) != 2 or None in files.values():
        return []
    clock, power = [], []
    for log, rows in logs.items():
        (other,) = set(logs) - {log}
        source = files[other]
        assert source is not None
        tree = _powered("raptor-lake-i7-13700k", source)
        known, seen = _whole(logs[other]), _whole(rows)
        resistance = (known["celsius"] - AMBIENT_CELSIUS) / known["watts"]
        limit_mc = round(1000 * seen["celsius"])
        thermal = {
            "resistance_mk_per_w": round(1000 * resistance),
            "capacitance_mj_per_k": round(1000 * KELVIN_S / resistance),
            "ambient_mc": 1000 * AMBIENT_CELSIUS,
            "limit_mc": limit_mc,
            "start_mc": limit_mc,
        }
        load = _load([1.0], 24, STEADY_S)
        told = [
            _clocks(_run(machine, load, "6.6", STEADY_S, STEADY_S / 4))
            for machine in ({**tree, "thermal": thermal}, tree)
        ]
        names = [f"{log}, {kind}-cores" for kind in ("P", "E")]
        measured = [_mean_mhz(rows, kind) for kind in ("p", "e")]
        clock += predictions_of(names, measured, told[0][:2], told[1][:2])
        power += predictions_of([log], [seen["watts"]], told[0][2:], told[1][2:])
    folder, rival = path.parent.name, "the engine without the limit"
    return [
        ScoredSet(folder, "the engine's clocks at the thermal limit", "the other log", rival, clock),
        ScoredSet(folder, "the engine's watts at the thermal limit", "the other log", rival, power),
    ]


def _file(folder: Path, log: str) -> Path | None:
    return next((path for path in (folder / log, folder / f"{log}.txt") if path.exists()), None)


def _whole(rows: list[Row]) -> dict[str, float]:
    whole = [row for row in rows if not row["cpu"]]
    return {
        "watts": float(np.mean(column(whole, "package_w"))),
        "celsius": float(np.mean(column(whole, "core_celsius"))),
    }


def _mean_mhz(rows: list[Row], kind: str) -> float:
    return float(
        np.mean(column([row for row in rows if row["cpu"] and (int(row["cpu"]) < P_CPUS) == (kind == "p")], "bzy_mhz"))
    )


def _clocks(rows: list[dict[str, str]]) -> tuple[float, float, float]:
    """Give the mean clock of P- and of E-cores, and the watts, of turbostat's last interval."""
    start = max(index for index, row in enumerate(rows) if row["CPU"] == "-")
    whole, rows = rows[start], rows[start:]
    of = {int(row["CPU"]): float(row["Bzy_MHz"]) for row in rows if row["CPU"] != "-"}
    big = [mhz for cpu, mhz in of.items() if cpu < P_CPUS]
    small = [mhz for cpu, mhz in of.items() if cpu >= P_CPUS]
    return float(np.mean(big)), float(np.mean(small)), float(whole["PkgWatt"])
