"""Make the catalogue's phone SoCs from freqbench's tables: `python/opplab/data/machines/SOC.toml`, one a SoC.

Usage: python tools/phone_machines.py FREQBENCH_FOLDER

What is taken: clusters and operating points, capacity by CoreMark, power of one busy core by operating point (median of
the runs), voltages where they are.  What is not in the tables is a named default with a range.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression

from opplab import _opplab
from opplab.fit.freqbench import Curve, choose, read_points
from opplab.fit.opp_machine import SLEEP, WAKE_SHARE, driver_of
from opplab.fit.opp_power import fit_points

MACHINES = Path(__file__).parent.parent / "python" / "opplab" / "data" / "machines"
SOURCE = "freqbench (github kdrag0n/freqbench, results/, commit 9eb16adc, MIT, Copyright (c) 2020 Danny Lin)"
KEPT_BY_HAND = {"gs101": "pixel6"}
"""SoCs that the catalogue has as a phone, with more than these tables hold."""


def read(path: Path) -> list[dict[str, str]]:
    """Read a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def median_power(curves: list[Curve]) -> tuple[dict[int, float], float, tuple[float, float]]:
    """Give power by kHz, its part that does not depend on the clock (both mW), and the runs' range in percent.

    Power is the median over the runs; where a point's clock was not cpufreq's, or power falls, the fitted curve's.
    """
    fits = [fit_points(curve, curve.points) for curve in curves]
    by_khz: dict[int, list[float]] = defaultdict(list)
    for curve, fitted in zip(curves, fits, strict=True):
        told = fitted.fit.power(np.array([point.khz / 1000 for point in curve.points]))
        for point, model in zip(curve.points, told, strict=True):
            doubtful = bool(curve.clocks_off([point])) or "power_falls" in point.flags
            by_khz[point.khz].append(float(model) if doubtful else point.busy_mw)
    power = {khz: float(np.median(values)) for khz, values in sorted(by_khz.items())}
    static = float(np.median([next(p.value for p in f.fit.parameters() if p.name == "static") for f in fits]))
    static = min(static, 0.8 * min(power.values()))
    spread = [value / power[khz] for khz, values in by_khz.items() for value in values]
    return power, static, (min(*spread, 0.9), max(*spread, 1.1))


def idle_of_rail(curves: list[Curve]) -> dict[int, float] | None:
    """Give what a rail draws with its CPU online and idle, by kHz; None where a battery gauge was the meter.

    It does not fall with the clock: points where it was measured to have their mean (least squares).
    """
    points = curves[0].points
    if len(curves) > 1 or any(p.idle_mw is None or p.idle_mw > 0.8 * p.busy_mw for p in points):
        return None
    rising = isotonic_regression([point.idle_mw or 0.0 for point in points]).x
    return {point.khz: float(mw) for point, mw in zip(points, rising, strict=True)}


def idle_of_gauge(curves: list[Curve], runs: list[dict[str, str]], static: float) -> float:
    """Give what one more CPU draws online and idle by the battery gauge, in mW: median, between 0 and `static`."""
    base = {row["run"]: float(row["base_median_mw"]) for row in runs if row["base_median_mw"]}
    more = [p.idle_mw - base[p.run] for curve in curves for p in curve.points if p.idle_mw and p.run in base]
    return min(max(float(np.median(more)), 0.0), static) if more else 0.0


def cluster_text(
    name: str, cpus: str, rank: int, capacity: int, opps: list[str], kind: str, idle_mw: float | None
) -> str:
    """Write one `[[cluster]]`."""
    entry, leave, residency = SLEEP[kind]
    lines = ["[[cluster]]", f'name = "{name}"', f'cpus = "{cpus}"', f"capacity = {capacity}", 'policy = "shared"']
    if rank:
        lines.append(f"efficiency_class = {rank}")
    lines += ["opp = [", *(f"  {opp}," for opp in opps), "]"]
    if idle_mw is not None:
        lines.append(f"cluster_idle_uw = {1000 * idle_mw:.0f}")
    lines.append("idle = [")
    lines.append('  { name = "WFI", entry_latency_ns = 0, exit_latency_us = 1, target_residency_us = 1, uw = 0 },')
    lines.append(
        f'  {{ name = "power-collapse", entry_latency_us = {entry}, exit_latency_us = {leave}, '
        f"wake_us = {round(WAKE_SHARE * leave)}, target_residency_us = {residency}, uw = 0 }},"
    )
    return "\n".join([*lines, "]", ""])


def machine_text(folder: Path, soc: str) -> str:
    """Write the machine of a SoC."""
    clusters = [row for row in read(folder / "clusters.csv") if row["soc"] == soc]
    runs = [row for row in read(folder / "runs.csv") if row["soc"] == soc]
    every = [row for row in read(folder / "opp_power.csv") if row["soc"] == soc]
    volts: dict[tuple[int, int], list[int]] = defaultdict(list)
    for row in read(folder / "voltages.csv"):
        if row["soc"] == soc:
            volts[int(row["cpu"]), int(row["khz"])].append(int(row["microvolt"]))
    measured = any(row["busy_mean_mw"] for row in every)
    points = [p for p in read_points(folder / "opp_power.csv") if p.soc == soc] if measured else []
    rail = "rail" in runs[0]["meter"]
    speed = {}
    for row in clusters:
        per_mhz = [float(r["coremark_per_mhz"]) for r in every if r["cpu"] == row["cpu"] and r["coremark_per_mhz"]]
        speed[row["cpu"]] = float(np.median(per_mhz)) * int(row["max_khz"]) / 1000
    biggest = max(speed.values())
    first = 0
    texts: list[str] = []
    ranges: list[str] = []
    names: list[str] = []
    for rank, row in enumerate(clusters):
        core, count = row["cores"].split("x")[0].strip(), int(row["cores"].split("x")[1].split()[0])
        name = core if core not in names else f"{core} prime"
        names.append(name)
        cpus = f"{first}-{first + count - 1}" if count > 1 else f"{first}"
        first += count
        khz_told = sorted({int(r["khz"]) for r in every if r["cpu"] == row["cpu"]})
        opps, idle_mw = [], None
        curves = choose(points, soc, int(row["cpu"]), folder) if measured else []
        if curves:
            power, static, (low, high) = median_power(curves)
            idle = idle_of_rail(curves) if rail else None
            idle_mw = None if idle else idle_of_gauge(curves, runs, static)
            shared = {khz: min(idle[khz] if idle else static, 0.8 * power[khz]) for khz in power}
            ranges.append(f'"cluster.{name}.opp.uw" = {{ percent = [{100 * low:.0f}, {100 * high:.0f}] }}')
            ranges.append(f'"cluster.{name}.opp.cluster_uw" = {{ percent = [0, {100 * high:.0f}] }}')
            if idle_mw is not None:
                ranges.append(f'"cluster.{name}.cluster_idle_uw" = [0, {1000 * max(static, idle_mw):.0f}]')
        for khz in khz_told:
            cell = [f"khz = {khz}"]
            if (int(row["cpu"]), khz) in volts:
                cell.append(f"mv = {round(np.mean(volts[int(row['cpu']), khz]) / 1000)}")
            if curves:
                cell.append(f"uw = {1000 * (power[khz] - shared[khz]):.0f}")
                cell.append(f"cluster_uw = {1000 * shared[khz]:.0f}")
            else:
                cell.append("uw = 0")
            opps.append("{ " + ", ".join(cell) + " }")
        capacity = round(1024 * speed[row["cpu"]] / biggest)
        kind = "little" if rank == 0 and len(clusters) > 1 else "big"
        texts.append(cluster_text(name, cpus, rank, capacity, opps, kind, idle_mw))
    title = next((r["soc_name"] for r in runs if r["soc_name"]), soc)
    grades = sorted({r["accuracy_by_author"] for r in runs if r["accuracy_by_author"]})
    head = [
        f"# {title} ({soc}). Made by tools/phone_machines.py from freqbench's tables; what it draws beside the CPUs is unknown.",
        "# Marks in [source]: [S] a source is named, [D] derived (the derivation is beside it), [A] assumed.",
        "format = 1",
        f'name = "{soc}"',
        f'provenance = "{title}; [S] {SOURCE}"',
        'invariance = "freq-change"',
        "floor_uw = 0",
        "smt_yield = 1024",
        "shared_stream = false",
        "numa_distance = [[10]]",
        "",
        "[topology]",
        "core = [" + ", ".join(f'"{cpu}"' for cpu in range(first)) + "]",
        f'llc = ["0-{first - 1}"]',
        f'node = ["0-{first - 1}"]',
        f'package = ["0-{first - 1}"]',
        "",
        "[[driver]]",
        f'name = "{driver_of(soc)}"',
        f"transition_latency_us = {5000 if driver_of(soc) == 'exynos-acme' else 0}".replace("_us = 0", "_ns = 0"),
        f"fast_switch = {'true' if driver_of(soc) == 'qcom-cpufreq-hw' else 'false'}",
        f"switch_us = {100 if driver_of(soc) == 'qcom-cpufreq-hw' else 500}",
        "dvfs_possible_from_any_cpu = true",
        "freq_table = true",
        "",
        "[costs]",
        "context_switch_us = 2",
        "wakeup_us = 1",
        "ipi_us = 1",
        "tick_us = 2",
        "sugov_work_us = 20",
        "",
    ]
    return (
        "\n".join([*head, *texts, *marks(runs, measured, rail, bool(volts), grades), "", *range_lines(ranges)]) + "\n"
    )


def marks(runs: list[dict[str, str]], measured: bool, rail: bool, volts: bool, grades: list[str]) -> list[str]:
    """Write the `[source]` table."""
    devices = ", ".join(sorted({r["device"] for r in runs}))
    grade = f"; the author's grade: {', '.join(grades)}" if grades else ""
    lines = [
        "[source]",
        'floor_uw = "[A] none: what else the phone draws (screen, memory, modem) was not measured apart"',
        'smt_yield = "[S] the cores have one thread"',
        'numa_distance = "[S] one node"',
        '"cluster.cpus" = "[S] number of cores: public product data; [D] numbered from the smallest cluster on"',
        '"cluster.capacity" = "[D] CoreMark/MHz (median over operating points and runs) at the highest clock, 1024 is the biggest; '
        'CoreMark lives in the first cache and flatters small cores (SPEC on an SM8150: 0.8 of it)"',
        f'"cluster.opp.khz" = "[S] freqbench, {devices}"',
    ]
    if volts:
        lines.append('"cluster.opp.mv" = "[S] freqbench (voltages.csv), mean of the devices"')
    if not measured:
        lines.append('"cluster.opp.uw" = "unknown: the phone had no meter; energy is unknown"')
    elif rail:
        lines += [
            f'"cluster.opp.uw" = "[D] rail of the cluster (PMIC energy counter) in CoreMark on one core, less the same idle{grade}"',
            '"cluster.opp.cluster_uw" = "[S] the rail with its CPU online and idle"',
        ]
    else:
        lines += [
            f'"cluster.opp.uw" = "[D] battery gauge in CoreMark on one core less the base (median of {len(runs)} runs), less '
            f"cluster_uw; with losses of the regulators and what wakes up with a core. Where the clock was not cpufreq's or power "
            f'falls with the clock: the fitted curve (opplab fit power){grade}"',
            '"cluster.opp.cluster_uw" = "[D] the part that does not depend on the clock, by the fitted curve; that all of it is shared: '
            '[A], one core at a time was measured"',
            '"cluster.cluster_idle_uw" = "[D] online and idle less the base (median), at most cluster_uw"',
        ]
    return [
        *lines,
        '"cluster.idle" = "[A] default.idle: mainline sm8150.dtsi, power collapse of its little and big cores; WFI 1 us; '
        'wake_us is 0.3 of the told exit latency, which is the worst case; power of WFI is in cluster_uw"',
        '"cluster.efficiency_class" = "[A] by size"',
        'driver = "[A] as the mainline kernel drives its family; 100 us (fast switch) or 500 us until the clock follows"',
        'costs = "[A] as juno-r2"',
        '"topology" = "[A] one last-level cache for all, as DynamIQ has it"',
    ]


def range_lines(own: list[str]) -> list[str]:
    """Write the `[range]` table."""
    return [
        "[range]",
        '"driver.switch_ns" = [20000, 2000000]',
        '"costs.context_switch_ns" = [1000, 4000]',
        '"costs.wakeup_ns" = [500, 2000]',
        '"costs.ipi_ns" = [500, 2000]',
        '"costs.tick_ns" = [1000, 4000]',
        '"costs.sugov_work_ns" = [10000, 60000]',
        '"cluster.idle.entry_latency_ns" = { percent = [20, 100] }',
        '"cluster.idle.exit_latency_ns" = { percent = [20, 100] }',
        '"cluster.idle.wake_ns" = { percent = [30, 330] }',
        '"cluster.idle.target_residency_ns" = { percent = [30, 200] }',
        '"cluster.idle.uw" = [0, 20000]',
        *own,
    ]


def main(folder: Path) -> None:
    """Write the files and read them back."""
    for soc in sorted({row["soc"] for row in read(folder / "clusters.csv")} - set(KEPT_BY_HAND)):
        path = MACHINES / f"{soc}.toml"
        text = machine_text(folder, soc)
        _opplab.Machine.parse(str(path), text)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
