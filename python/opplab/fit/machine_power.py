"""Power into machine files: from measurements of such a machine, or a labelled generic curve.

Works on the file as a tree, and gives a file that the reader of machines has checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from opplab import _opplab
from opplab.cpulist import cpus_in, nr_cpus
from opplab.errors import InputError
from opplab.files import toml_of
from opplab.fit import freqbench
from opplab.fit.curve import CHIP, KIND, METER, Parameter
from opplab.fit.energy_model import registers_artificial
from opplab.fit.linear import Parts, fit_parts
from opplab.fit.machine_class import CLASSES, class_of
from opplab.fit.opp_machine import clocks_ghz, clusters_of, khz_of_opp, place_of, read_chip
from opplab.fit.opp_power import CANNOT_TELL, Fitted, fit_points
from opplab.fit.shapes import SERVER_CUBIC, core_shape, server_cubic_range
from opplab.fit.sources import BusyOf, Samples, join_samples, log_of, read_samples
from opplab.report.numbers import several
from opplab.simulation.machine import Machine
from opplab.simulation.power import known_power

Tree = dict[str, Any]
Floats = NDArray[np.float64]

GENERIC_CORE_W = (0.12, 0.5)
"""W a GHz of a core of capacity 0 and of 1024, at 2.5 GHz."""
GENERIC_PERCENT = (29, 330)
"""Spread between measured chips, in percent of the generic curve: 57 clusters of freqbench's SoCs at their highest
clocks 29 to 272 (half of them 50 to 84), cores of an EPYC 7502, a Milan, a Xeon 6130 and a 8175M 108 to 320."""


def to_machine_text(tree: Tree) -> str:
    """Write a machine file in the form that its reader gives it."""
    return Machine.from_tree(tree).to_toml()


def _tree_of(text: str) -> Tree:
    """Read a machine file; units are the smallest, whichever it has."""
    return toml_of(Machine.parse(text).to_toml(), "the machine file")


def _cores(tree: Tree) -> int:
    """Give the number of cores of the machine."""
    return len(tree.get("topology", {}).get("core", [])) or nr_cpus(tree)


def _mark(tree: Tree, marks: dict[str, str], ranges: dict[str, Any]) -> None:
    tree["source"] = {**tree.get("source", {}), **marks}
    tree["range"] = {**tree.get("range", {}), **ranges}


def _put_curve(
    tree: Tree,
    busy_w: Callable[[float, int], float] | None,
    awake_w: Callable[[float], float] | None,
) -> None:
    """Put powers at each operating point; `awake_w` is that of all clusters together. None stays as it is.

    Both are given the clock in GHz, `busy_w` the cluster's capacity, too.
    """
    clusters = tree["cluster"]
    for cluster in clusters:
        for opp in cluster["opp"] + cluster.get("boost_opp", []):
            khz = khz_of_opp(opp)
            if busy_w is not None:
                opp["busy_uw"] = max(round(1e6 * busy_w(khz / 1e6, cluster["capacity"])), 1)
            if awake_w is not None:
                opp["cluster_uw"] = round(1e6 * awake_w(khz / 1e6) / len(clusters))


_IDLE = "cluster_idle_uw"
_RESTS = 0.02
"""The share of idle time of a cluster from which on its fitted power holds that, too."""


def _put_idle(tree: Tree, asleep_w: float | None, samples: Samples, ends: Any) -> None:
    """Put what idle clusters draw, all together, in place of an earlier file's numbers, with its range.

    Where it was not fitted (None) and the source has idle time, an idle cluster draws what an awake one does, which
    holds that time; and so it does where the earlier file's would be more.
    """
    clusters, machine = tree["cluster"], BusyOf.of(tree)
    shares = [samples.at_rest(cpus_in(cluster["cpus"]), machine)[0] for cluster in clusters]
    replaced = asleep_w is not None or any(float(np.max(share)) > _RESTS for share in shares)
    for cluster in clusters:
        for opp in (*cluster["opp"], *cluster.get("boost_opp", ())):
            idle_uw = opp.get(_IDLE) or cluster.get(_IDLE, 0)
            replaced = replaced or idle_uw > opp.get("cluster_uw", 0)
    if not replaced:
        return
    for group in (tree.get("source", {}), tree.get("range", {})):
        for key in [key for key in group if key.startswith("cluster.") and key.endswith((_IDLE, "cluster_idle.uw"))]:
            del group[key]
    for cluster in clusters:
        awake_uw = min(opp.get("cluster_uw", 0) for opp in cluster["opp"])
        idle_uw = awake_uw if asleep_w is None else round(1e6 * asleep_w / len(clusters))
        for table in (cluster, *cluster["opp"], *cluster.get("boost_opp", ())):
            table.pop(_IDLE, None)
        for left, state in enumerate(reversed(cluster.get("cluster_idle", ()))):
            state["uw"] = max(state["uw"], idle_uw) if left else idle_uw
        has_states = bool(cluster.get("cluster_idle"))
        if asleep_w is not None and not has_states:
            cluster[_IDLE] = idle_uw
        if asleep_w is not None or has_states:
            how = "while the package sleeps" if asleep_w is not None else "as awake, which the source does not part"
            key = "cluster.cluster_idle.uw" if has_states else "cluster.cluster_idle_uw"
            mark = f"[F] {samples.name}, {samples.scope}: opplab fit power, {how}"
            _mark(tree, {key: mark}, {key: ends} if idle_uw > 0 else {})


def halting(cluster: Tree) -> list[Tree]:
    """Give a cluster's idle states without the one that polls: a CPU that does is busy, as turbostat counts."""
    return [state for state in cluster.get("idle", ()) if state["name"] != "POLL"]


def idle_watts(tree: Tree, samples: Samples) -> tuple[Floats, Floats, Floats]:
    """Give W of idle CPUs themselves, by interval: the likely, the least and the most.

    They idle in the states that the source has, else likely in their deepest one.
    """
    machine = BusyOf.of(tree)
    sums = np.zeros((3, len(samples.watts)))
    for index, cluster in enumerate(tree["cluster"]):
        if not (states := halting(cluster)):
            continue
        uw = np.array([np.full(len(samples.watts), state.get("uw", 0.0)) for state in states])
        points = [opp for opp in (*cluster["opp"], *cluster.get("boost_opp", ())) if "idle_uw" in opp]
        if points and states[0] is cluster["idle"][0]:
            ghz = [khz_of_opp(opp) / 1e6 for opp in points]
            uw[0] = np.interp(samples.ghz_of(index, machine), ghz, [opp["idle_uw"] for opp in points])
        ends = np.array([uw[-1], uw.min(axis=0), uw.max(axis=0)])
        cpus = cpus_in(cluster["cpus"])
        for interval, shares in enumerate(samples.in_states([state["name"] for state in states], cpus)):
            if shares:
                ends[:, interval] = shares @ uw[:, interval]
        sums += ends * samples.idle_cpus(cpus, machine) / 1e6
    return sums[0], sums[1], sums[2]


def _known_idle(tree: Tree, samples: Samples) -> tuple[Floats, list[str]]:
    """Give what the file's idle CPUs draw; a file whose would draw more than was measured loses that power."""
    known = idle_watts(tree, samples)[0]
    most = samples.watts if samples.cores_watts is None else samples.cores_watts
    if not np.any(known > most):
        return known, []
    for cluster in tree["cluster"]:
        for state in cluster["idle"]:
            state["uw"] = 0
        for opp in (*cluster["opp"], *cluster.get("boost_opp", ())):
            opp.pop("idle_uw", None)
    for group in (tree.get("source", {}), tree.get("range", {})):
        for key in [key for key in group if key.startswith("cluster.") and key.endswith((".idle.uw", ".opp.idle_uw"))]:
            del group[key]
    _mark(tree, {"cluster.idle.uw": f"[F] {samples.name}: 0, what idle CPUs draw is in cluster_uw"}, {})
    at = int(np.argmax(known - most))
    words = f"idle CPUs apart: the file's would draw {known[at]:.3g} W of {most[at]:.3g} W measured, and count as 0"
    return np.zeros_like(known), [words]


def _fit_samples(tree: Tree, samples: Samples) -> tuple[list[Parameter], list[str]]:
    """Fit package, cores and sleep to intervals; where the source has the cores' watts apart, each to its own."""
    if len(samples.watts) < 2:
        raise InputError(
            f"{samples.name}: one interval cannot separate the package from its cores; two or more are needed"
        )
    cores = _cores(tree)
    machine = BusyOf.of(tree)
    known, refused = _known_idle(tree, samples)
    busy = samples.busy_cores(machine)
    core_0, core_1, core_3 = (_at_clocks(tree, samples, machine, power) for power in (0, 1, 3))
    spread_of_threads = samples.spread(machine)
    less, more = samples.spread_of_clusters(machine, [cluster["capacity"] / 1024 for cluster in tree["cluster"]])
    one, sleeps = np.ones_like(busy), _sleep_varies(samples)
    awake = 1 - samples.asleep
    one_clock = _is_one_clock(samples)
    core_columns, core_names = [core_0, core_1, core_3], ["core", "core f", "core f^3"]
    if one_clock:
        # One clock does not show how power follows it: as the cores of measured servers.
        core_columns, core_names = [core_1 + SERVER_CUBIC * core_3], ["core f"]
    elif _few_clocks(core_columns):
        # Two clocks part two numbers: those by which the engine goes beyond the file's points.
        core_columns, core_names = core_columns[1:], core_names[1:]
    shared_columns, shared_names = ([one, awake], ["package", "package awake"]) if sleeps else ([one], ["package"])
    # What a package shares does not follow turbo, nor the clock of CPUs that hardly run.
    points_of = [clocks_ghz(cluster, turbo=False) for cluster in tree["cluster"]]
    clocks_of = [np.interp(samples.shared_ghz(i, tree, machine), ghz, ghz) for i, ghz in enumerate(points_of)]
    by_clock = (awake if sleeps else one) * np.mean(clocks_of, axis=0)
    middle = float(np.median(samples.ghz[samples.ghz > 0])) if np.any(samples.ghz > 0) else 1.0
    every_ghz = [clocks_ghz(cluster) for cluster in tree["cluster"]]
    lowest, highest = min(float(ghz[0]) for ghz in every_ghz), max(float(ghz[-1]) for ghz in every_ghz)
    seen = samples.ghz[(samples.load > 0) & (samples.ghz > 0)]
    # Where a fit goes beyond its clocks, its powers there are known less well.
    beyond = [] if one_clock else [ghz for ghz in (lowest, highest) if _is_beyond(ghz, seen)]
    powers = {"core": 0, "core f": 1, "core f^3": 3}
    of_cores = [
        [ghz + SERVER_CUBIC * ghz**3] if one_clock else [ghz ** powers[name] for name in core_names]
        for ghz in (middle, *beyond)
    ]
    one_load = bool(np.ptp(busy) < 0.1 * max(float(busy.max()), 1e-9))
    if samples.cores_watts is not None:
        # The cores' own static power counts as shared: it is there whatever is busy.  One load does not show it.
        idle = [] if one_load else [one]
        features = np.column_stack([*core_columns, *idle])
        core_part = fit_parts([*core_names, *(["cores idle"] if idle else [])], features, samples.cores_watts, known)
        static = float(core_part.powers[-1]) if idle else 0.0
        rest = np.maximum(samples.watts - samples.cores_watts + static, 1e-6)
        shared_part, shared_names, few = _shared(shared_names, shared_columns, by_clock, [], [], rest, 0.0)
        told = core_part.parameters()[: len(core_names)] + shared_part.parameters()
        core_bounds = _shares_of_bounds(core_part, [[*row, *(0.0 for _ in idle)] for row in of_cores])
        shared_bounds = shared_part.bounds(np.array([middle if "f" in name else 1.0 for name in shared_names]))
        asleep_bounds = shared_part.bounds(np.array([float(name == "package") for name in shared_names]))
        fitted = core_part.power(features) + known - static + rest / (1 + shared_part.residuals)
    else:
        whole, shared_names, few = _shared(
            shared_names, shared_columns, by_clock, core_names, core_columns, samples.watts, known
        )
        told = whole.parameters()
        of_shared = [middle if "f" in name else 1.0 for name in shared_names]
        core_bounds = _shares_of_bounds(whole, [[*row, *(0.0 for _ in of_shared)] for row in of_cores])
        shared_bounds = whole.bounds(np.array([*(0.0 for _ in core_names), *of_shared]))
        asleep_bounds = whole.bounds(np.array([float(name == "package") for name in [*core_names, *shared_names]]))
        if spread_of_threads > _SPREAD:
            # Cores that are busy sooner leave the package less.
            more_cores = samples.spread_out(machine) / np.maximum(busy, 1e-9)
            rows = [*(more_cores * column for column in core_columns), *shared_columns, by_clock]
            other = fit_parts(whole.names, np.column_stack(rows[: len(whole.names)]), samples.watts, known)
            low, high = other.bounds(np.array([*(0.0 for _ in core_names), *of_shared]))
            shared_bounds = (min(shared_bounds[0], low), max(shared_bounds[1], high))
        fitted = samples.watts / (1 + whole.residuals)
    value = {"core": 0.0} | {p.name: p.value for p in told}
    columns = dict(zip(core_names, core_columns, strict=True))
    explained = sum(value[name] * column for name, column in columns.items()) / samples.watts
    if float(busy.max()) < _HARDLY * cores and float(np.max(explained)) < _MOST:
        told, cannot = _fit_idle(tree, samples, shared_names, shared_columns, known)
        return told, [*refused, *cannot]
    if one_clock:
        value |= {"core f^3": SERVER_CUBIC * value["core f"]}
    following = value.get("package f", 0.0)
    at_rest = sum(value[name] for name in shared_names if name != "package f")
    shared = at_rest + following * middle
    _put_curve(
        tree,
        lambda ghz, capacity: (value["core"] + value["core f"] * ghz + value["core f^3"] * ghz**3) * capacity / 1024,
        lambda ghz: at_rest + following * ghz,
    )
    off = samples.watts / fitted - 1
    nr_fitted = sum(one.value > 0 for one in told)
    free = len(off) * (1 if samples.cores_watts is None else 2) - nr_fitted
    spread = float(stdtrit(max(free, 1), 0.975) * np.sqrt(np.sum(off**2) / max(free, 1)))
    misses = np.abs(fitted / samples.watts - 1)
    residual = _residual_words(misses, "intervals")
    clocks = f"{samples.ghz.min():.2f} to {samples.ghz.max():.2f} GHz, {busy.min():.1f} to {busy.max():.1f} busy cores"
    marks = {
        "cluster.opp.busy_uw": f"[F] {samples.name}, {samples.scope}, {clocks}: opplab fit power; {residual}",
        "cluster.opp.cluster_uw": "[F] the same: what does not depend on busy cores, shared evenly by the clusters",
    }
    if following:
        marks["cluster.opp.cluster_uw"] += ", which follows their clock"
    if one_clock:
        # At another clock the curve of another program or chip: as far as that would be at the lowest.
        ends = [core_shape(lowest, cubic) / core_shape(middle, cubic) for cubic in server_cubic_range()]
        here = core_shape(lowest) / core_shape(middle)
        low, high = min(ends) / here, max(ends) / here
        core_bounds = (core_bounds[0] * min(low, 1), core_bounds[1] * max(high, 1))
    core_bounds = (less * core_bounds[0] / spread_of_threads, more * core_bounds[1])
    ranges: dict[str, Any] = {
        "cluster.opp.busy_uw": _around(1.0, core_bounds, spread),
        "cluster.opp.cluster_uw": _around(shared, shared_bounds, spread),
    }
    if free < 1 or float(busy.max()) < _HARDLY * cores:
        # No residual, or watts of busy cores that hang on a sliver of the time: no better known than chips differ.
        low, high = ranges["cluster.opp.busy_uw"]["percent"]
        ranges["cluster.opp.busy_uw"] = {"percent": [min(low, GENERIC_PERCENT[0]), max(high, GENERIC_PERCENT[1])]}
    if free < 1 or shared <= 0:
        # No share of 0 is more than 0.
        most = shared_bounds[1] if free >= 1 else max(shared, float(samples.watts.min()))
        ranges["cluster.opp.cluster_uw"] = [0, round(1e6 * most / len(tree["cluster"]))]
    asleep = value["package"] if sleeps else None
    of_asleep = ranges["cluster.opp.cluster_uw"] if asleep is None else _around(asleep, asleep_bounds, spread)
    _put_idle(tree, asleep, samples, of_asleep)
    _mark(tree, marks, ranges)
    cannot = [*few, *_not_told(tree, samples, sleeps)]
    if free < 1:
        cannot.append(
            f"how sure its powers are: {several(len(off), 'interval')} for {several(nr_fitted, 'number')} leave no "
            "residual; ranges are as wide as chips differ, the package's from 0"
        )
    if not one_clock:
        share = (min(seen.max(), highest) - max(seen.min(), lowest)) / max(highest - lowest, 1e-9)
        if share < _REACH:
            cannot.append(f"power at clocks that the source lacks: it has {100 * max(share, 0):.0f} % of their range")
    if spread_of_threads > _SPREAD:
        cannot.append(
            "which threads were busy: shares of all CPUs are taken for cores with all their threads busy; with one "
            f"thread a core, a core draws {100 / spread_of_threads:.0f} % of what was fitted, and the range has it "
            "(log the single CPUs: turbostat without --Summary)"
        )
    if more / less > _SPREAD:
        cannot.append(
            "which clusters were busy: all CPUs are taken as equally busy; with the biggest or the smallest first, a "
            f"core draws {100 * less:.0f} to {100 * more:.0f} % of what was fitted, and the range has it (log the "
            "single CPUs)"
        )
    return told, [*refused, *cannot, residual]


def _fit_idle(
    tree: Tree, samples: Samples, names: list[str], columns: list[Floats], known: Floats
) -> tuple[list[Parameter], list[str]]:
    """Put the power of an idle machine in, from a log whose CPUs hardly run: it leaves unknown what they draw busy.

    Wake-ups and shallow idle states come and go with the little busy time, and would count as its watts.
    """
    names = [name for name in names if name != "package f"]
    part = fit_parts(names, np.column_stack(columns), samples.watts, known)
    told = part.parameters()
    value = {p.name: p.value for p in told}
    spread = 1.96 * float(np.sqrt(np.mean(part.residuals**2)))
    mark = f"[F] {samples.name}, {samples.scope}: opplab fit power; watts of an idle machine"
    marks, ranges = {}, {}
    awake, asleep = sum(value.values()), value["package"]
    sleeps = len(names) > 1
    asleep_bounds = part.bounds(np.array([float(name == "package") for name in names]))
    of_asleep = _around(asleep, asleep_bounds, spread)
    if sleeps or not float(np.mean(samples.asleep)) >= _MOST:
        of_awake = _around(awake, part.bounds(np.ones(len(names))), spread)
        marks["cluster.opp.cluster_uw"] = f"{mark}, shared evenly by the clusters"
        ranges["cluster.opp.cluster_uw"] = of_awake
        _put_curve(tree, None, lambda _: awake)
        _put_idle(tree, asleep if sleeps else None, samples, of_asleep if sleeps else of_awake)
    else:
        _put_idle(tree, asleep, samples, of_asleep)
    _mark(tree, marks, ranges)
    share = _busiest(tree, samples)
    cannot = samples.untold
    cannot.append(
        f"busy cores: at most {100 * share:.1f} % of them are busy, and explain less than half of the watts: taken is "
        "idle power alone. Most helpful is a log with none, one, half and all cores busy at several clocks; "
        "`--power generic` of `run` is a rough curve"
    )
    if not sleeps:
        cannot.append(_no_sleep(samples))
    return told, [*cannot, _residual_words(np.abs(1 / (1 + part.residuals) - 1), "intervals")]


def _busiest(tree: Tree, samples: Samples) -> float:
    """Give the greatest share of busy cores."""
    most = float(np.max(samples.load))
    return most if samples.load_is_share else most / _cores(tree)


_RESIDUAL = "median residual"


def _residual_words(misses: Floats, of: str) -> str:
    """Give how far a fit is from what it was fitted to."""
    middle, most = 100 * float(np.median(misses)), 100 * float(np.max(misses))
    return f"{_RESIDUAL} {middle:.1f} %, at most {most:.1f} % of {len(misses)} {of}"


def about_power(cannot: Sequence[str]) -> list[str]:
    """Give the lines about what `with_power` left unknown, and how far its fit is off."""
    return [f"power, {'fit' if what.startswith(_RESIDUAL) else 'unknown'}: {what}" for what in cannot]


def _at_clocks(tree: Tree, samples: Samples, machine: BusyOf, power: int) -> Floats:
    """Give the sum over busy cores of their capacity (1 is 1024) times a power of their clock in GHz, by interval.

    A cluster has a clock of its operating points only, and between two of them watts of both, as its file has.
    """
    sums = np.zeros_like(samples.watts)
    by_cluster = samples.busy_by_cluster(machine)
    for index, cluster in enumerate(tree["cluster"]):
        ghz = clocks_ghz(cluster)
        busy = np.array([of[index] for of in by_cluster])
        sums += cluster["capacity"] / 1024 * busy * np.interp(samples.ghz_of(index, machine), ghz, ghz**power)
    return sums


_SPREAD = 1.02
"""So many times more busy cores may be meant: what the source leaves open of threads and clusters."""
_HARDLY = 0.05
"""Busy cores, in shares of all, below which a source is that of an idle machine."""
_APART = 3e-3
"""The least singular value of clocks' powers (0, 1, 3) from which on three numbers are parted."""
_REACH = 0.5
"""The share of the file's range of clocks below which a source leaves powers open."""
_MOST = 0.5
"""The share of watts that busy time explains, or of time asleep, from which on most is of it."""
_BETTER = 4.0
"""So many times less squared error is worth a parameter for a package that follows the clock."""


def _shared(
    names: list[str],
    columns: list[Floats],
    by_clock: Floats,
    core_names: list[str],
    core_columns: list[Floats],
    watts: Floats,
    known: Floats | float,
) -> tuple[Parts, list[str], list[str]]:
    """Fit parts with what a package shares, which follows the clock where that explains the source far better.

    The uncore of a Xeon 6130 does: 20 W more a socket at the base clock. Fewer intervals than it takes are named last.
    """
    plain = fit_parts([*core_names, *names], np.column_stack([*core_columns, *columns]), watts, known)
    least = len(core_names) + len(names) + 2
    if np.ptp(by_clock) < 0.1 * float(np.max(by_clock)):
        return plain, names, []
    if len(watts) < least:
        few = f"{several(len(watts), 'interval')} of other clocks do not show it, {least} or more may"
        return plain, names, [f"whether what the package shares follows the clock: {few}; it counts as the same at all"]
    more = [*names, "package f"]
    followed = fit_parts([*core_names, *more], np.column_stack([*core_columns, *columns, by_clock]), watts, known)
    if _BETTER * float(np.sum(followed.residuals**2)) < float(np.sum(plain.residuals**2)):
        return followed, more, []
    return plain, names, []


def _few_clocks(columns: list[Floats]) -> bool:
    """Report whether the powers of clocks are two numbers apart at most: of two clocks, or between two points."""
    features = np.column_stack(columns)
    features = features[np.all(features > 0, axis=1)]
    if len(features) == 0:
        return False
    # At one load each, so that only the clocks differ.
    by_load = features / features[:, :1]
    by_load = by_load / np.linalg.norm(by_load, axis=0)
    least: float = np.linalg.svd(by_load, compute_uv=False)[-1]
    return least < _APART


def _is_one_clock(samples: Samples) -> bool:
    busy = samples.ghz[(samples.load > 0) & (samples.ghz > 0)]
    return len(busy) == 0 or float(np.ptp(busy)) < 0.1 * float(busy.max())


def _is_beyond(ghz: float, seen: Floats) -> bool:
    """Report whether a clock is more than a tenth below or above those of a source."""
    return len(seen) > 0 and not 0.9 * float(seen.min()) <= ghz <= 1.1 * float(seen.max())


def _shares_of_bounds(part: Parts, rows: Sequence[Sequence[float]]) -> tuple[float, float]:
    """Give the widest bounds of rows of features in shares of their power; all is open where that is 0."""
    shares = []
    for row in map(np.array, rows):
        power = float(part.power(row))
        shares += [end / power for end in part.bounds(row)] if power > 0 else [0.0, np.inf]
    return min(shares), max(shares)


def _around(value: float, bounds: tuple[float, float], spread: float) -> dict[str, list[int]]:
    """Give a range that holds the fit's interval and the spread of single intervals."""
    low, high = (bounds[0] / value, bounds[1] / value) if value > 0 else (1.0, 1.0)
    return _percent(min(low, 1 - spread), max(high, 1 + spread))


def _not_told(tree: Tree, samples: Samples, sleeps: bool) -> list[str]:
    cannot = samples.untold
    if _cores(tree) < nr_cpus(tree):
        cannot.append("a second thread apart from a core: its share is the machine file's smt_power")
    if (most := _busiest(tree, samples)) < _HARDLY:
        cannot.append(
            f"busy cores: at most {100 * most:.1f} % of them are busy; their range is as wide as chips differ"
        )
    if len(tree["cluster"]) > 1:
        cannot.append("clusters apart: cores draw in proportion to their capacity, the rest is shared evenly")
    if _is_one_clock(samples):
        cannot.append(f"power against the clock: one clock; taken is f + {SERVER_CUBIC} f^3 (EPYC 7502's cores)")
    if np.ptp(samples.load) < 0.1 * max(float(samples.load.max()), 1e-9) and samples.cores_watts is None:
        cannot.append("the package apart from its cores: the source has one load")
    if not sleeps:
        cannot.append(_no_sleep(samples))
    return cannot


_SLEEP_VARIES = 0.2
"""So far apart are shares of time asleep of which the fit parts what a package draws asleep from what awake."""


def _sleep_varies(samples: Samples) -> bool:
    return samples.has_sleep and bool(np.ptp(samples.asleep) > _SLEEP_VARIES)


def _no_sleep(samples: Samples) -> str:
    """Give why a source does not show what a package draws asleep."""
    if not samples.has_sleep:
        return "idle states: the source lacks the sleep time of the package"
    least, most = 100 * float(samples.asleep.min()), 100 * float(samples.asleep.max())
    return (
        f"idle states: the package sleeps {least:.0f} to {most:.0f} % of each interval: its watts asleep need shares "
        f"that differ by more than {100 * _SLEEP_VARIES:.0f} points"
    )


def _percent(low: float, high: float) -> dict[str, list[int]]:
    # What is not known at all is as wide as a range can be.
    widest = 10**5
    low, high = (100 * low if low == low else 0, 100 * high if high == high else widest)  # noqa: PLR0124 - NaN
    return {"percent": [int(min(max(low, 0), 100)), round(min(max(high, 100), widest))]}


def _percent_by_opp(ends: Sequence[tuple[float, float]]) -> dict[str, list[list[int]]]:
    return {"percent": [_percent(low, high)["percent"] for low, high in ends]}


INTERVALS = {
    METER: "one meter and one chip: 95 of 100 further points of the same table",
    CHIP: "another device with this chip, by a meter of the same kind: 90 of 100 points of other runs of 13 SoCs",
    KIND: "this kind of chip, by another device, meter and load: how often it holds is not known",
}
"""What an interval is of, in words."""


def _fit_points(
    tree: Tree, paths: Sequence[Path], soc: str | None, words: str, of: str
) -> tuple[list[Fitted], list[str]]:
    """Put tables of power by operating point into the clusters whose CPUs they measured; runs are fitted together."""
    files = ", ".join(path.name for path in paths)
    points, left_out = freqbench.powered(read_chip(paths, soc), files)
    clusters = clusters_of(tree)
    marks: dict[str, str] = {}
    ranges: dict[str, Any] = {}
    fits: list[Fitted] = []
    residuals: list[str] = []
    cannot = [*CANNOT_TELL, *left_out, *freqbench.idle_left_out(paths), *freqbench.loads_left_out(paths)]
    curves = freqbench.pooled(freqbench.choose(points, None, None, paths[0]))
    source = ", ".join(name for name in (files, curves[0].soc) if name)
    for curve in curves:
        index = place_of(curve.points[0], clusters)
        if index is None and curve.points[0].rail:
            cannot.append(f"what the rail {curve.points[0].rail} feeds: no cluster has its name")
            continue
        if index is None:
            raise InputError(f"{files}: {curve.title} is no CPU of the machine `{tree['name']}`")
        cluster = tree["cluster"][index]
        used = freqbench.pick_points(curve.points, words)
        fitted = fit_points(curve, used, others=[khz_of_opp(opp) for opp in cluster["opp"]])
        fitted.of = of
        fits.append(fitted)
        mhz = np.array([khz_of_opp(opp) / 1000 for opp in cluster["opp"]])
        power, (low, high) = fitted.fit.power(mhz), fitted.fit.interval(mhz, of)
        static = min(_value(fitted, "static"), 0.8 * float(power.min()))
        for opp, mw in zip(cluster["opp"], power, strict=True):
            opp["busy_uw"], opp["cluster_uw"] = round(1000 * (float(mw) - static)), round(1000 * static)
        if not cluster.get("cluster_idle") and not any("cluster_idle_uw" in one for one in (cluster, *cluster["opp"])):
            cluster["cluster_idle"] = [dict(_ASLEEP)]
            is_rail = bool(curve.points[0].rail)
            marks["cluster.cluster_idle"] = _RAIL_ASLEEP if is_rail else _BASE_ASLEEP
        ends = [(float(one), float(other)) for one, other in zip(low / power, high / power, strict=True)]
        ranges[f"cluster.{cluster['name']}.opp.busy_uw"] = _percent_by_opp(ends)
        ranges[f"cluster.{cluster['name']}.opp.cluster_uw"] = _percent_by_opp([(0, most) for _, most in ends])
        misses = np.abs(1 / (1 + fitted.fit.residuals) - 1)
        residuals.append(_residual_words(misses, f"points of {cluster['name']}"))
    if not fits:
        raise InputError(f"{files}: nothing of the machine `{tree['name']}` was measured")
    curve_mark = f"[F] {source}: fitted curve (opplab fit power) less what is shared"
    marks["cluster.opp.busy_uw"] = "; ".join((curve_mark, *residuals))
    marks["cluster.opp.cluster_uw"] = "[F] the same: what does not depend on the clock; that it is shared: [A]"
    marks[INTERVAL_MARK] = INTERVALS[of]
    if (best := _next_measurement(tree, fits)) is not None:
        marks[NEXT_MARK] = best
    _mark(tree, marks, ranges)
    return fits, [*cannot, *residuals]


_ASLEEP = {"name": "asleep", "entry_latency_ns": 0, "exit_latency_ns": 0, "target_residency_ns": 0, "uw": 0}
"""A cluster whose CPUs are all in their deepest state: the latencies are those of the CPUs' state."""
_BASE_ASLEEP = (
    "[D] 0: the table's power is above that of the idle device, whose clusters sleep; latencies: the CPUs' states"
)
_RAIL_ASLEEP = "[A] 0: what a rail feeds while its cluster sleeps was not measured; latencies: the CPUs' states"

INTERVAL_MARK = "range of cluster.opp"
NEXT_MARK = "next measurement"
"""What the ranges of powers are of, and what to measure next: kept beside the sources of the numbers."""


def _value(fitted: Fitted, name: str) -> float:
    return next(parameter.value for parameter in fitted.fit.parameters() if parameter.name == name)


def _next_measurement(tree: Tree, fits: Sequence[Fitted]) -> str | None:
    """Give the measurement that would narrow watts most, over all clocks, with one and with all CPUs busy.

    Candidates: one busy CPU at each operating point, and all CPUs of a cluster, which shows what they share.
    """
    clusters = clusters_of(tree)
    for cluster in tree["cluster"]:
        if not any(opp.get("busy_uw") or opp.get("uw") for opp in cluster["opp"]):
            return f"{cluster['name']}: power of one busy CPU at its highest clock: nothing of it is known"
    best: tuple[float, str] | None = None
    for fitted in fits:
        index = place_of(fitted.curve.points[0], clusters)
        assert index is not None
        name, cpus = clusters[index]
        khz = np.array([khz_of_opp(opp) for opp in tree["cluster"][index]["opp"]])
        gains = fitted.fit.narrowed(khz / 1000)
        # A point that is known already is no better known by another reading of the same meter.
        gains[np.isin(khz, [point.khz for point in fitted.used])] = 0
        place = int(np.argmax(gains))
        found = [(float(gains[place]), f"{name}: power of one busy CPU at {khz[place] / 1000:g} MHz")]
        if len(cpus) > 1:
            power, static = fitted.fit.power(khz / 1000), _value(fitted, "static")
            static = min(static, 0.8 * float(power.min()))
            unknown = (len(cpus) - 1) * static
            # All busy: between `static` shared and none of it shared; half of what is weighed is one busy CPU.
            half = float(np.mean(0.5 * 0.5 * unknown / (len(cpus) * power - 0.5 * unknown)))
            words = f"{name}: power of all {len(cpus)} CPUs busy at {khz[0] / 1000:g} MHz (what they share)"
            found.append((half, words))
        best = max([*found, *([best] if best else [])])
    if best is None or best[0] <= 0:
        return None
    return f"{best[1]}: narrows the mean interval of watts by +-{100 * best[0]:.1f} % of them"


def with_power(
    text: str, *paths: Path, soc: str | None = None, points: str = "all", of: str = METER
) -> tuple[str, list[Parameter], list[str], list[Fitted]]:
    """Put measured power into a machine file; logs of intervals are fitted together, and so are tables.

    Parameters
    ----------
    text : str
        The machine file.
    *paths : Path
        Logs and tables.
    soc : str, optional
        Which chip of the tables.
    points : str
        Which operating points of the tables: ``low,mid,high``, kHz, or ``all``.
    of : {"meter", "chip", "kind"}
        What the ranges are of (`INTERVALS`).

    Returns
    -------
    (str, list of Parameter, list of str, list of Fitted)
        The file, what was fitted, what the source leaves unknown with the fit's residuals (`about_power`), and the
        curves by which points that were not used can be predicted.
    """
    tree = _tree_of(text)
    parameters: list[Parameter] = []
    cannot: list[str] = []
    fits: list[Fitted] = []
    tables = [path for path in paths if freqbench.is_points(path)]
    logs = [path for path in paths if path not in tables]
    for mark in (INTERVAL_MARK, NEXT_MARK):
        tree.get("source", {}).pop(mark, None)  # Of an earlier fit.
    if logs:
        read = [read_samples(path) for path in logs]
        parameters, cannot = _fit_samples(tree, join_samples(read))
        cannot = [*_of_other_cpus(tree, read), *cannot]
        _put_limits(tree, logs)
    if tables:
        fits, not_told = _fit_points(tree, tables, soc, points, of)
        for fitted in fits:
            place = place_of(fitted.curve.points[0], clusters_of(tree))
            assert place is not None
            name = tree["cluster"][place]["name"]
            parameters += [replace(one, name=f"{name} {one.name}") for one in fitted.fit.parameters()]
        cannot += not_told
    _tell_kernel(tree)
    return to_machine_text(tree), parameters, cannot, fits


def _of_other_cpus(tree: Tree, logs: Sequence[Samples]) -> list[str]:
    """Name logs with rows of more or fewer CPUs than the machine has."""
    cpus = BusyOf.of(tree).cpus
    rows = [(log.name, len(set().union(*log.by_cpu))) for log in logs]
    return [
        f"whether {name} is of this machine: it has rows of {several(number, 'CPU')}, and {tree['name']} has {cpus}"
        for name, number in rows
        if number and number != cpus
    ]


def _put_limits(tree: Tree, logs: Sequence[Path]) -> None:
    """Put the package's power limits of turbostat's header into a file that has none, if it is the same processor."""
    for path in logs:
        log = log_of(path)
        try:
            header = toml_of(_opplab.import_machine(str(log))[0].to_toml(), "the log's machine")
        except InputError:
            continue  # A table, or a log without a header.
        alike = all(
            tree.get("processor", {}).get(key) == header.get("processor", {}).get(key)
            for key in ("vendor", "family", "model")
        )
        if alike and "package_power" in header and "package_power" not in tree:
            tree["package_power"] = header["package_power"]
            _mark(tree, {"package_power": f"[S] {header['source']['package_power']}"}, {})


_AS_MEASURED = "[F] as cluster.opp.busy_uw"


def _tell_kernel(tree: Tree) -> None:
    """Give the kernel's energy model the same fitted power, in the clusters where the file has none.

    The model's power is that of one busy CPU, without what its cluster shares.  A machine with a processor of x86 has
    no such table, nor one with cppc_cpufreq: their drivers register a model of their own, or none.
    """
    if tree.get("processor") is not None or registers_artificial(tree):
        return
    ours = tree.get("source", {}).get("cluster.opp.uw", "").startswith(_AS_MEASURED)
    empty = [cluster for cluster in tree["cluster"] if ours or not any(opp.get("uw") for opp in cluster["opp"])]
    filled = [cluster for cluster in empty if any(opp.get("busy_uw") for opp in cluster["opp"])]
    for cluster in filled:
        for opp in cluster["opp"]:
            opp["uw"] = opp.get("busy_uw", 0)
    if filled:
        names = ", ".join(cluster["name"] for cluster in filled)
        _mark(
            tree,
            {"cluster.opp.uw": f"{_AS_MEASURED} ({names}): the kernel's own model is taken to be the fitted power"},
            {},
        )


GENERIC_MARK = "[A] generic curve (--power generic), not this machine's"
"""The source of power that no log or table gives."""


def generic_power(text: str) -> tuple[str, str]:
    """Put a labelled generic curve into a machine file without power, with ranges as wide as chips differ.

    A core of capacity C at f GHz draws ``(0.12 + 0.38 C/1024) f (0.5 + 0.5 (f/2.5)^2)`` W; what packages draw beside
    their cores while a CPU is awake is that of measured machines of the same class (`opplab.fit.machine_class`).

    Returns
    -------
    (str, str)
        The file, and what the curve is, in words.

    Raises
    ------
    InputError
        The machine has power, or nothing of its class was measured.
    """
    tree = _tree_of(text)
    if any(known_power(tree)):
        raise InputError(f"machine `{tree['name']}` has power: a generic curve would be worse")
    little, big = GENERIC_CORE_W

    def busy(ghz: float, capacity: int) -> float:
        return (little + (big - little) * capacity / 1024) * ghz * (0.5 + 0.5 * (ghz / 2.5) ** 2)

    kind = class_of(tree)
    low, high = GENERIC_PERCENT
    marks, ranges = {"cluster.opp.busy_uw": GENERIC_MARK}, {"cluster.opp.busy_uw": {"percent": list(GENERIC_PERCENT)}}
    if floor_uw := tree.get("floor_uw", 0):
        # What was measured of the idle package is what its clusters draw: a class's number would count it twice.
        awake_w = floor_uw / 1e6
        own = tree.get("source", {}).get("floor_uw", "[A] floor_uw of the machine file")
        marks |= {"cluster.opp.cluster_uw": f"{own}; shared evenly by the clusters", "floor_uw": "[D] 0: in cluster_uw"}
        if (found := tree.get("range", {}).pop("floor_uw", None)) is not None:
            ends = found["percent"] if isinstance(found, Mapping) else [100 * end / floor_uw for end in found]
            ranges["cluster.opp.cluster_uw"] = _percent(ends[0] / 100, ends[1] / 100)
        tree["floor_uw"] = 0
        package = f"packages draw the {awake_w:g} W that were measured (floor_uw)"
    elif any("cluster_uw" in opp for cluster in tree["cluster"] for opp in cluster["opp"]):
        awake_w, package = None, "packages draw what was measured (cluster_uw)"
    else:
        count = len(tree["cluster"] if kind.each == "cluster" else tree.get("topology", {}).get("package", [0]))
        awake_w = kind.awake_w * count
        package = f"{kind.awake_w:g} W a {kind.each} awake, class {kind.name} [{kind.low_w:g} .. {kind.high_w:g}]"
        if kind is CLASSES["client"]:
            package += ", a guess between the two: neither `processor.model_name` nor `pm_profile` names one"
        marks["cluster.opp.cluster_uw"] = f"{GENERIC_MARK}: {package}: {kind.source}"
        ranges["cluster.opp.cluster_uw"] = _percent(kind.low_w / kind.awake_w, kind.high_w / kind.awake_w)
    _put_curve(tree, busy, None if awake_w is None else lambda _: awake_w)
    _mark(tree, marks, ranges)
    return to_machine_text(tree), f"power is a generic curve: cores are within {low} to {high} % of it; {package}"
