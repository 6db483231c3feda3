"""A machine file from tables of operating points: clusters, clocks and voltages, capacity by CoreMark.

Power is put in by `machine_power.with_power`, from the same tables.  What they lack (idle states, driver, costs)
is that of phones, marked as assumed, with ranges.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.fit import freqbench
from opplab.fit.freqbench import Point, choose, read_points

if TYPE_CHECKING:
    from numpy.typing import NDArray


SLEEP = {"little": (355, 909, 3934), "big": (241, 1461, 4488)}
"""Entry, exit latency and target residency of power collapse in us: mainline sm8150.dtsi, little and big."""
WAKE_SHARE = 0.3
"""How much of the exit latency that firmware names a wake-up takes: that is the worst case."""
PHONE_CPUS = 8
CAPACITY_MARK = (
    "[D] CoreMark/MHz (median over operating points) at the highest clock, 1024 is the biggest; CoreMark lives in the "
    "first cache and flatters small cores (SPEC on an SM8150: 0.8 of it)"
)
ASSUMED_MARKS = {
    "cluster.idle": "[A] default.idle: mainline sm8150.dtsi, power collapse of its little and big cores; WFI 1 us; "
    "wake_us is 0.3 of the exit latency, which is the worst case",
    "driver": "[A] as the mainline kernel drives chips of such a name; 100 or 500 us until the clock follows",
    "costs": "[A] as juno-r2",
    "topology": "[A] one last-level cache for all, as DynamIQ has it",
    "floor_uw": "[A] none: what the device draws beside its CPUs was not measured",
    "smt_yield": "[A] cores of one thread",
    "numa_distance": "[A] one node",
}
ASSUMED_RANGES: dict[str, Any] = {
    "driver.switch_ns": [20000, 2000000],
    "costs.context_switch_ns": [1000, 4000],
    "costs.wakeup_ns": [500, 2000],
    "costs.ipi_ns": [500, 2000],
    "costs.tick_ns": [1000, 4000],
    "costs.sugov_work_ns": [10000, 60000],
    "cluster.idle.entry_latency_ns": {"percent": [20, 100]},
    "cluster.idle.exit_latency_ns": {"percent": [20, 100]},
    "cluster.idle.wake_ns": {"percent": [30, 330]},
    "cluster.idle.target_residency_ns": {"percent": [30, 200]},
    "cluster.opp.idle_uw": [0, 20000],
}
_PART = re.compile(r"\s*(?P<name>[A-Za-z][\w .+-]*?)\s*[x*](?P<count>\d{1,3})\s*")

Layout = list[tuple[str, int]]
"""Clusters in the order of their CPUs: (name, number of CPUs)."""


def driver_of(soc: str) -> str:
    """Give the cpufreq driver of a phone SoC's mainline kernel."""
    if soc.startswith(("gs", "zuma", "exynos")):
        return "exynos-acme"
    if soc.startswith(("sm", "sdm845", "sdm670", "sdm71")):
        return "qcom-cpufreq-hw"
    return "cpufreq-dt"


def layout(words: str) -> Layout:
    """Read clusters as ``A55x4,A76x2,X1x2``.

    Raises
    ------
    InputError
        It is not that.

    Examples
    --------
    >>> layout("A55x4, A76x1,A76 primex1")
    [('A55', 4), ('A76', 1), ('A76 prime', 1)]
    """
    found: Layout = []
    for part in words.split(","):
        match = _PART.fullmatch(part)
        if match is None or int(match["count"]) == 0:
            raise InputError(f"--clusters: `{part.strip()}` is not a name and a number of CPUs, as in A55x4,A76x2,X1x2")
        name = match["name"]
        while name in [other for other, _ in found]:
            name += " prime"
        found.append((name, int(match["count"])))
    return found


def clusters_of(tree: dict[str, Any]) -> list[tuple[str, Sequence[int]]]:
    """Give name and CPUs of a machine's clusters."""
    return [(cluster["name"], cpus_in(cluster["cpus"])) for cluster in tree["cluster"]]


def khz_of_opp(opp: dict[str, Any]) -> int:
    """Give an operating point's clock."""
    return int(opp.get("khz") or round(1000 * opp["mhz"]))


def clocks_ghz(cluster: dict[str, Any], *, turbo: bool = True) -> NDArray[np.float64]:
    """Give the clocks of a cluster's operating points in GHz, and of its turbo bins, ascending."""
    points = [point for key in ("opp", "boost_opp", *["turbo"] * turbo) for point in cluster.get(key, ())]
    return np.array(sorted({khz_of_opp(point) / 1e6 for point in points}))


def place_of(point: Point, clusters: Sequence[tuple[str, Sequence[int]]]) -> int | None:
    """Give the index of the cluster that a point is of: by its rail's name, or by its CPU; None if there is none."""
    for index, (name, cpus) in enumerate(clusters):
        if name.lower() == point.rail if point.rail else point.cpu in cpus:
            return index
    return None


def _numbered(clusters: Layout) -> list[tuple[str, Sequence[int]]]:
    firsts = [sum(count for _, count in clusters[:index]) for index in range(len(clusters))]
    return [(name, range(first, first + count)) for first, (name, count) in zip(firsts, clusters, strict=True)]


def _guessed(points: Sequence[Point]) -> Layout:
    """Take a measured CPU for the first of its cluster (CPU 1 for that of CPU 0); the last ends with the eighth CPU."""
    cpus = sorted({point.cpu for point in points})
    if rails := sorted({point.rail for point in points if point.rail}):
        words = ",".join(f"{rail}x4" for rail in rails)
        raise InputError(f"the number of CPUs of each cluster is not in the table: --clusters, as in {words}")
    firsts = [0 if cpu == 1 else cpu for cpu in cpus]
    if firsts[0] != 0 or len(set(firsts)) != len(firsts):
        raise InputError(f"which CPUs are a cluster? CPUs {', '.join(map(str, cpus))} were measured: --clusters")
    ends = [*firsts[1:], max(PHONE_CPUS, firsts[-1] + 1)]
    return [(f"cluster{index}", end - first) for index, (first, end) in enumerate(zip(firsts, ends, strict=True))]


def _capacities(points: Sequence[tuple[int | None, Point]], tops: Sequence[int]) -> list[int] | None:
    """Give capacities by CoreMark of clusters with these highest kHz; None where one has no CoreMark."""
    speed = []
    for index, top_khz in enumerate(tops):
        per_khz = [point.speed / point.khz for of, point in points if of == index and point.speed]
        if not per_khz:
            return None
        speed.append(median(per_khz) * top_khz)
    return [max(round(1024 * one / max(speed)), 1) for one in speed]


def read_chip(paths: Sequence[Path], soc: str | None) -> list[Point]:
    """Read the operating points of one chip from tables, also those without power.

    Raises
    ------
    InputError
        The tables have several chips, and none is named.
    """
    points = [point for path in paths for point in read_points(path, measured=False)]
    names = sorted({point.soc for point in points if point.soc})
    if soc is None and len(names) > 1:
        raise InputError(f"{paths[0]}: {len(names)} chips ({', '.join(names[:4])}, ...): name one with --soc")
    return [point for curve in choose(points, soc, None, paths[0]) for point in curve.points]


def machine_of_points(
    paths: Sequence[Path], soc: str | None, clusters: Layout | None, name: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Make a machine's tree, without power, from tables of operating points.

    Returns
    -------
    (dict, list of str)
        The tree, and what is missing, in words.

    Raises
    ------
    InputError
        A table is none, or the clusters do not fit it.
    """
    points = read_chip(paths, soc)
    guessed = clusters is None
    clusters = _guessed(points) if clusters is None else clusters
    numbered = _numbered(clusters)
    number = {point.cpu: place_of(point, numbered) for point in points}
    for index, (title, cpus) in enumerate(numbered):
        if index not in number.values():
            measured = ", ".join(sorted({point.rail or str(point.cpu) for point in points}))
            raise InputError(
                f"--clusters: nothing of {title} (CPUs {cpus[0]}-{cpus[-1]}) was measured, only {measured}"
            )
    khz_of: list[dict[int, float | None]] = [{} for _ in clusters]
    for point in points:
        place = number[point.cpu]
        if place is not None:
            khz_of[place][point.khz] = point.mv or khz_of[place].get(point.khz)
    capacities = _capacities([(number[point.cpu], point) for point in points], [max(khz) for khz in khz_of])
    capacity = capacities or [1024] * len(clusters)
    total = sum(count for _, count in clusters)
    whole = f"0-{total - 1}" if total > 1 else "0"
    chip = next((point.soc for point in points if point.soc), name or paths[0].stem)
    files = ", ".join(path.name for path in paths)
    driver = driver_of(chip.lower())
    is_fast = driver == "qcom-cpufreq-hw"
    idle = freqbench.idle_left_out(paths)
    tree: dict[str, Any] = {
        "format": 1,
        "name": name or chip,
        "provenance": f"{chip}; [S] operating points of {files} (opplab machine import)",
        "invariance": "freq-change",
        "floor_uw": 0,
        "smt_yield": 1024,
        "shared_stream": False,
        "numa_distance": [[10]],
        "topology": {
            "core": [str(cpu) for cpu in range(total)],
            **{part: [whole] for part in ("llc", "node", "package")},
        },
        "driver": [
            {
                "name": driver,
                "transition_latency_us": 5000 if driver == "exynos-acme" else 0,
                "fast_switch": is_fast,
                "switch_us": 100 if is_fast else 500,
                "dvfs_possible_from_any_cpu": True,
                "freq_table": True,
            }
        ],
        "costs": {"context_switch_us": 2, "wakeup_us": 1, "ipi_us": 1, "tick_us": 2, "sugov_work_us": 20},
        "cluster": [],
        "source": {
            **ASSUMED_MARKS,
            "cluster.cpus": "[A] each measured CPU is the first of its cluster, phones have 8 CPUs: --clusters is exact"
            if guessed
            else "[S] as the importer was given it (--clusters)",
            "cluster.opp.khz": f"[S] {files}",
            "cluster.opp.mv": f"[S] {files}"
            if any(mv for khz in khz_of for mv in khz.values())
            else "unknown: not measured",
            "cluster.opp.uw": "unknown: not measured",
            "cluster.opp.idle_uw": f"[A] none: {idle[0] if idle else 'what a CPU draws in WFI was not measured'}",
            "cluster.capacity": CAPACITY_MARK if capacities else "[A] unknown: 1024 for all",
            "cluster.efficiency_class": "[A] by capacity",
        },
        "range": dict(ASSUMED_RANGES),
    }
    order = sorted(set(capacity))
    first = 0
    for index, (title, count) in enumerate(clusters):
        entry, leave, residency = SLEEP["little" if order[0] == capacity[index] < order[-1] else "big"]
        tree["cluster"].append(
            {
                "name": title,
                "cpus": f"{first}-{first + count - 1}" if count > 1 else str(first),
                "capacity": capacity[index],
                "policy": "shared",
                "efficiency_class": order.index(capacity[index]),
                "opp": [
                    {"khz": khz, "uw": 0, "idle_uw": 0} | ({"mv": round(mv)} if mv else {})
                    for khz, mv in sorted(khz_of[index].items())
                ],
                "idle": [
                    {"name": "WFI", "entry_latency_ns": 0, "exit_latency_us": 1, "target_residency_us": 1, "uw": 0},
                    {
                        "name": "power-collapse",
                        "entry_latency_us": entry,
                        "exit_latency_us": leave,
                        "wake_us": round(WAKE_SHARE * leave),
                        "target_residency_us": residency,
                        "uw": 0,
                    },
                ],
            }
        )
        first += count
    missing = ["power of the idle states; what the device draws beside its CPUs"]
    if not capacities:
        missing.append("capacities (`coremark_iter_per_s` of each cluster): all have 1024, and EAS does not run")
    return tree, missing


def with_capacity(tree: dict[str, Any], paths: Sequence[Path], soc: str | None) -> str | None:
    """Put capacities by CoreMark into a machine whose clusters tables measured.

    Returns
    -------
    str or None
        How they differ from those of the machine's source, empty if they do not or it has none; None without CoreMark
        of all clusters: nothing is put in.
    """
    clusters = clusters_of(tree)
    points = [(place_of(point, clusters), point) for point in read_chip(paths, soc)]
    tops = [max(khz_of_opp(opp) for opp in cluster["opp"]) for cluster in tree["cluster"]]
    capacities = _capacities(points, tops)
    if capacities is None:
        return None
    source = tree.setdefault("source", {})
    is_told = source.pop("capacity", None) is not None
    source.pop("default.cluster.capacity", None)
    source["cluster.capacity"] = CAPACITY_MARK
    others, off = [], 0.0
    for cluster, capacity in zip(tree["cluster"], capacities, strict=True):
        if is_told and cluster["capacity"] != capacity:
            others.append(f"{cluster['name']} {capacity}, not {cluster['capacity']}")
            off = max(off, abs(capacity / cluster["capacity"] - 1))
        cluster["capacity"] = capacity
    if not others:
        return ""
    return (
        f"capacities are those of CoreMark ({'; '.join(others)}): up to {100 * off:.0f} % from the source's, which its "
        "kernel uses"
    )
