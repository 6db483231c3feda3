"""A machine's watts beside measured ones: of single busy CPUs by operating point, or of whole intervals of a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opplab import _opplab
from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.files import toml_of
from opplab.fit import freqbench
from opplab.fit.machine_power import INTERVAL_MARK, INTERVALS, halting, idle_watts
from opplab.fit.opp_machine import clocks_ghz, clusters_of, khz_of_opp, place_of, read_chip
from opplab.fit.opp_power import Fitted
from opplab.fit.sources import BusyOf, Samples, read_samples
from opplab.simulation.machine import Machine
from opplab.simulation.ranges import shares_of

Tree = dict[str, Any]
Floats = NDArray[np.float64]


def check(text: str, table: Path, fits: Sequence[Fitted] = (), soc: str | None = None) -> dict[str, Any]:
    """Predict what a table or log measured.

    Parameters
    ----------
    text : str
        The machine file.
    table : Path
        Power by operating point, or a log with watts, clock and load.
    fits : sequence of Fitted
        Curves that the machine's power is from: points that they used are left out, and each point has an interval of
        its own.  Without them the intervals are the machine's ``[range]``.
    soc : str, optional
        Which chip of the table.

    Returns
    -------
    dict
        ``rows`` (cluster, khz, measured, predicted, low and high in mW, error, inside) and what they come to;
        ``fitted``: whether the machine's power is from points of this table.

    Raises
    ------
    InputError
        Nothing of the table can be compared.
    """
    # Units are the smallest, and defaults are filled in.
    machine = Machine.parse(text)
    tree = toml_of(machine.to_toml(), "the machine file")
    left_out: list[str] = []
    rows = (
        _of_points(tree, table, fits, soc, left_out)
        if freqbench.is_points(table)
        else _of_log(machine, tree, table, left_out)
    )
    if not rows:
        raise InputError("; ".join([f"{table}: no point to compare with the machine `{tree['name']}`", *left_out]))
    error = np.abs([row["error"] for row in rows])
    of = fits[0].of if fits else None
    words = INTERVALS[of] if of else tree.get("source", {}).get(INTERVAL_MARK, "the machine file's [range]")
    return {
        "machine": tree["name"],
        "table": str(table),
        "interval_of": words,
        "fitted": not fits and table.name in _fitted_to(tree),
        "points": len(rows),
        "inside": sum(row["inside"] for row in rows),
        "median_abs_error": float(np.median(error)),
        "p90_abs_error": float(np.quantile(error, 0.9)),
        "left_out": left_out,
        "rows": rows,
    }


def _fitted_to(tree: Tree) -> list[str]:
    """Give the names of the tables that the machine's power is fitted to, as `machine_power` marks them."""
    mark: str = tree.get("source", {}).get("cluster.opp.busy_uw", "")
    return mark.removeprefix("[F] ").partition(":")[0].split(", ") if mark.startswith("[F] ") else []


def _row(cluster: str, khz: int, measured: float, predicted: float, low: float, high: float) -> dict[str, Any]:
    return {
        "cluster": cluster,
        "khz": khz,
        "measured_mw": measured,
        "predicted_mw": predicted,
        "low_mw": low,
        "high_mw": high,
        "error": predicted / measured - 1,
        "inside": bool(low <= measured <= high),
    }


def _shares(tree: Tree, cluster: Mapping[str, Any], keys: Sequence[str]) -> list[tuple[float, float]]:
    """Give the ranges of a cluster's power as shares of the file's numbers, by operating point; 1 where it has none."""
    ranges = tree.get("range", {})
    for key in keys:
        for name in (f"cluster.{cluster['name']}.{key}", f"cluster.{key}"):
            if isinstance(found := ranges.get(name), Mapping):
                shares = shares_of(found["percent"])
                return shares if len(shares) > 1 else shares * len(cluster["opp"])
    return [(1.0, 1.0)] * len(cluster["opp"])


def _busy_uw(opp: Mapping[str, Any]) -> int:
    return int(opp.get("busy_uw") or opp.get("uw") or 0)


def _of_points(
    tree: Tree, table: Path, fits: Sequence[Fitted], soc: str | None, left_out: list[str]
) -> list[dict[str, Any]]:
    """Compare single busy CPUs: what one draws and what its cluster draws beside it, whose sum the source knows."""
    clusters = clusters_of(tree)
    by_place = {place_of(fitted.curve.points[0], clusters): fitted for fitted in fits}
    points = [point for point in read_chip([table], soc) if point.busy_mw > 0]
    rows = []
    nr_used = 0
    unknown: dict[str, int] = {}
    for curve in freqbench.choose(points, None, None, table):
        place = place_of(curve.points[0], clusters)
        if place is None:
            unknown[f"no cluster of the machine has {curve.points[0].rail or f'CPU {curve.cpu}'}"] = len(curve.points)
            continue
        cluster, fitted = tree["cluster"][place], by_place.get(place)
        opps = {khz_of_opp(opp): opp for opp in cluster["opp"]}
        used = {(point.run, point.khz) for point in fitted.used} if fitted else set()
        for point in curve.points:
            if (point.run, point.khz) in used:
                nr_used += 1
                continue
            if fitted is not None:
                mhz = curve.clock_mhz([point])
                low, high = (float(end[0]) for end in fitted.fit.interval(mhz, fitted.of))
                predicted = float(fitted.fit.power(mhz)[0])
            elif (opp := opps.get(point.khz)) is not None and _busy_uw(opp):
                predicted = (_busy_uw(opp) + opp.get("cluster_uw", 0)) / 1000
                ends = _shares(tree, cluster, ("opp.busy_uw", "opp.uw"))[cluster["opp"].index(opp)]
                low, high = predicted * ends[0], predicted * ends[1]
            else:
                what = f"{cluster['name']}: no operating point of this clock, or no power at it"
                unknown[what] = unknown.get(what, 0) + 1
                continue
            rows.append(_row(cluster["name"], point.khz, point.busy_mw, predicted, low, high))
    left_out += [f"{what} ({count} points)" for what, count in unknown.items()]
    if nr_used and not rows:
        left_out.append(f"the fit used its {nr_used} points: another table, or fewer --points, leaves some to predict")
    return rows


def _of_log(described: Machine, tree: Tree, log: Path, left_out: list[str]) -> list[dict[str, Any]]:
    """Compare intervals of a whole machine with what the engine draws for their load."""
    samples = read_samples(log)
    left_out += [samples.left_out] if samples.left_out else []
    machine = BusyOf.of(tree)
    cores, beside, least, most = _drawn(described._inner, samples)
    total = cores + beside
    if not np.any(total > 0):
        raise InputError(f"machine `{tree['name']}` has no power")
    low, high = cores + least, cores * samples.spread(machine) + most
    lows, highs = described._inner.power_ends()
    for one in lows:
        cores, _, least, _ = _drawn(one, samples)
        low = np.minimum(low, cores + least)
    for one in highs:
        cores, _, _, most = _drawn(one, samples)
        high = np.maximum(high, cores * samples.spread(_busy_of(one)) + most)
    return [
        _row(f"{cores:.1f} busy", round(1e6 * float(ghz)), *(1000 * float(watts) for watts in four))
        for cores, ghz, *four in zip(
            samples.busy_cores(machine), samples.ghz, samples.watts, total, low, high, strict=True
        )
    ]


def _busy_of(inner: _opplab.Machine) -> BusyOf:
    return BusyOf.of(toml_of(inner.to_toml(), "the machine file"))


def _drawn(inner: _opplab.Machine, samples: Samples) -> tuple[Floats, Floats, Floats, Floats]:
    """Give W of the busy cores, and of idle CPUs and clusters beside them: the likely, the least and the most.

    As the engine has it (crates/model/src/power.rs).
    """
    tree = toml_of(inner.to_toml(), "the machine file")
    machine = BusyOf.of(tree)
    by_cluster = samples.busy_by_cluster(machine)
    cores = np.zeros(len(samples.watts))
    likely, least, most = idle_watts(tree, samples)
    for index, cluster in enumerate(tree["cluster"]):
        ghz, clocks = clocks_ghz(cluster), samples.ghz_of(index, machine)
        powers = np.array([inner.point_power(index, round(1e6 * one)) for one in ghz]) / 1e6
        cores += np.array([of[index] for of in by_cluster]) * np.interp(clocks, ghz, powers[:, 0])
        clocks = samples.shared_ghz(index, tree, machine)
        together = bool(cluster.get("cluster_idle")) and tree.get("cluster_idle_together")
        cpus = sorted(machine.cluster_of) if together else cpus_in(cluster["cpus"])
        awake = np.interp(clocks, ghz, powers[:, 1])
        saved = awake - _idle_w(cluster, clocks)
        shares = np.array(samples.at_rest(cpus, machine))
        if cluster.get("cluster_idle"):
            # It sleeps only while all CPUs are in their deepest state, and not in each short idle time.
            names = [state["name"] for state in halting(cluster)]
            deepest = [of[-1] if of else 1.0 for of in samples.in_states(names, cpus)]
            shares = np.where(np.isnan(samples.asleep), shares * [deepest, np.zeros_like(deepest), deepest], shares)
        beside = [awake - share * saved for share in shares]
        likely += beside[0]
        least += np.minimum(beside[1], beside[2])
        most += np.maximum(beside[1], beside[2])
    return cores, likely, least, most


def _idle_w(cluster: Mapping[str, Any], ghz: Floats) -> Floats:
    """Give what a cluster draws at clocks while all its CPUs idle: in its deepest state, or in none if it has none."""
    if states := cluster.get("cluster_idle"):
        return np.full_like(ghz, states[-1].get("uw", 0) / 1e6)
    points = sorted([*cluster["opp"], *cluster.get("boost_opp", ())], key=khz_of_opp)
    own = cluster.get("cluster_idle_uw")
    uw = [one.get("cluster_idle_uw", one.get("cluster_uw", 0) if own is None else own) for one in points]
    watts: Floats = np.interp(ghz, [khz_of_opp(one) / 1e6 for one in points], uw) / 1e6
    return watts
