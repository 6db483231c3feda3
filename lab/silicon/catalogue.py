"""The catalogue's phones beside what was measured of them: busy power at every operating point, capacity by CoreMark.

No prediction: the files hold the measurements.  What differs has its reason in the file's ``[source]``.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from opplab import catalog
from opplab.files import csv_rows
from opplab.fit.freqbench import Curve, choose, read_points

SOC_OF = {"pixel4": "sm8150", "pixel6": "gs101"}
"""Phones of the catalogue whose file is not named as their SoC."""
WITHIN = 0.1
COREMARK = "coremark"
"""The class of programs with CoreMark's measurement, where `capacity` is the phone kernel's own value."""


def phones(folder: Path) -> list[dict[str, Any]]:
    """Compare each phone of the catalogue with freqbench's tables in a folder, a row a cluster."""
    table = folder / "opp_power.csv"
    by_cpu: dict[tuple[str, int], list[Curve]] = defaultdict(list)
    for curve in choose(read_points(table), None, None, table):
        by_cpu[curve.soc, curve.cpu].append(curve)
    speeds = _coremark(table)
    rows = []
    for name in catalog.names("machine"):
        soc = SOC_OF.get(name, name)
        cpus = sorted(cpu for of, cpu in speeds if of == soc)
        if not cpus:
            continue
        tree = tomllib.loads(catalog.find("machine", name).read_text(encoding="utf-8"))
        fastest = max(speeds[soc, cpu] for cpu in cpus)
        for place, (cpu, cluster) in enumerate(zip(cpus, tree["cluster"], strict=True)):
            coremark = 1024 * speeds[soc, cpu] / fastest
            said = _capacity(tree, place)
            rows.append(
                {
                    "machine": name,
                    "cluster": cluster["name"],
                    **_power(tree, cluster, by_cpu.get((soc, cpu), [])),
                    "capacity": cluster["capacity"],
                    "coremark": round(coremark),
                    "by_coremark": said,
                    "capacity_off": said / coremark - 1,
                }
            )
    return rows


def _coremark(table: Path) -> dict[tuple[str, int], float]:
    """Give CoreMark iterations a second at the highest clock, by SoC and CPU: the median a MHz over points and runs."""
    rows = [row for _, row in csv_rows(table)[1] if row["coremark_per_mhz"]]
    per_mhz: dict[tuple[str, int], list[float]] = defaultdict(list)
    top: dict[tuple[str, int], int] = defaultdict(int)
    for row in rows:
        key = (row["soc"], int(row["cpu"]))
        per_mhz[key].append(float(row["coremark_per_mhz"]))
        top[key] = max(top[key], int(row["khz"]))
    return {key: float(np.median(values)) * top[key] / 1000 for key, values in per_mhz.items()}


def _capacity(tree: dict[str, Any], place: int) -> int:
    """Give what a cluster does in CoreMark: its class's capacity, or its own."""
    cluster = tree["cluster"][place]
    for one in tree.get("program_class", []):
        if one["name"] == COREMARK:
            return int(next(part["capacity"] for part in one["cluster"] if part["name"] == cluster["name"]))
    return int(cluster["capacity"])


def _power(tree: dict[str, Any], cluster: dict[str, Any], curves: list[Curve]) -> dict[str, Any]:
    """Compare busy power with the median of the runs; doubtful are points whose clock or order was wrong in all."""
    sound: dict[int, list[float]] = defaultdict(list)
    doubtful: set[int] = set()
    for curve in curves:
        for point in curve.points:
            if curve.clocks_off([point]) or "power_falls" in point.flags:
                doubtful.add(point.khz)
            else:
                sound[point.khz].append(point.busy_mw)
    off = {}
    for opp in cluster["opp"]:
        if opp["khz"] in sound:
            drawn_mw = ((opp.get("busy_uw") or opp["uw"]) + opp.get("cluster_uw", 0)) / 1000
            off[opp["khz"]] = drawn_mw / float(np.median(sound[opp["khz"]])) - 1
    beyond = [khz for khz, by in off.items() if abs(by) > WITHIN]
    sizes = np.abs(list(off.values()))
    return {
        "points": len(off),
        "doubtful": len(doubtful - set(sound)),
        "median_off": float(np.median(sizes)) if off else None,
        "largest_off": float(np.max(sizes)) if off else None,
        "beyond_khz": beyond,
        "why": _why(tree, all(khz in doubtful for khz in beyond)) if beyond else "",
    }


def _why(tree: dict[str, Any], doubtful: bool) -> str:
    """Quote the file on points that are not what was measured."""
    source = tree["source"]
    if doubtful:
        return str(source.get("cluster.opp.busy_uw", source.get("cluster.opp.uw", "")))
    return str(source.get("cluster.opp.cluster_uw", ""))
