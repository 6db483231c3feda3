"""Servers: power by threads, cores, clocks, caps and programs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.silicon.common import Row, column, each_left_out, groups, read
from opplab.agreement.silicon import LINE, ScoredSet, predictions_of
from opplab.fit.score import Prediction
from opplab.fit.shapes import SERVER_CUBIC, core_shape, server_cubic_range


def power_by_kernel(path: Path) -> list[ScoredSet]:
    """Power of a server by busy threads: a core count left out, and a program left out."""
    folder = path.parent.name
    rows = [row for row in read(path) if row["placement"] == "cores_first"]
    sets = []
    for watts, scope in (("ac_w_mean", "AC power"), ("rapl_pkg_w_mean", "RAPL package power")):
        predictions: list[Prediction] = []
        for group in groups(rows, "kernel", "khz", "deepest_cstate").values():
            threads = column(group, "threads")
            cores = float(np.max(threads)) / 2
            features = np.column_stack([np.ones_like(threads), *_saturating(threads, cores)])
            names = ["awake", "core, first eighth", "core, first quarter", "core, first half", "core", "second thread"]
            predictions += each_left_out(names, features, column(group, watts), threads)
        sets.append(ScoredSet(folder, f"{scope} by threads", "each number of threads in turn", LINE, predictions))
    sets.append(ScoredSet(folder, "RAPL power of a program", "the program", "mean of the others", _programs(rows)))
    return sets


def _saturating(threads: np.ndarray, cores: float) -> list[np.ndarray]:
    """Give features of which a non-negative sum rises and flattens: shared resources saturate, then siblings follow."""
    return [np.minimum(threads, share * cores) for share in (0.125, 0.25, 0.5, 1)] + [threads]


def _programs(rows: list[Row]) -> list[Prediction]:
    """Predict a program by its class (memory or not): the median of the class's other programs at the same load."""
    predictions: list[Prediction] = []
    for group in groups(rows, "threads", "khz", "deepest_cstate").values():
        watts = {row["kernel"]: float(row["rapl_pkg_w_mean"]) for row in group}
        for kernel, measured in watts.items():
            others = {name: value for name, value in watts.items() if name != kernel}
            same = [v for name, v in others.items() if name.startswith("memory") == kernel.startswith("memory")]
            if same:
                rival = float(np.mean(list(others.values())))
                predictions.append(Prediction(kernel, measured, float(np.median(same)), rival))
    return predictions


def power_by_cores(path: Path) -> list[ScoredSet]:
    """Power of a server by busy cores at the clock that boost gave: a core count left out."""
    predictions: list[Prediction] = []
    for (series,), group in groups(read(path), "series").items():
        cores, watts = column(group, "busy_cores"), column(group, "ac_w_mean")
        ghz = column(group, "mean_cycles_mhz_per_busy_core") / 1000
        if series == "second":
            told = column(group, "aperf_per_mperf")
            ghz = np.where(np.isnan(told), ghz, told * 2.0)
        features = np.column_stack([np.ones_like(cores), cores, cores * ghz, cores * ghz**3])
        predictions += each_left_out(["awake", "core", "core f", "core f^3"], features, watts, cores)
    return [ScoredSet(path.parent.name, "AC power by cores", "each number of cores in turn", LINE, predictions)]


def capped_package(path: Path) -> list[ScoredSet]:
    """Package power at another clock from one clock alone: cores scale as another server's, the rest stays."""
    rows = read(path)
    by_condition = groups([row for row in rows if int(row["interval"]) >= 2], "condition").values()
    columns = ("bzy_mhz", "package_w", "cores_w")
    means = sorted(tuple(float(np.mean(column(group, name))) for name in columns) for group in by_condition)
    (low_mhz, low_w, _), (top_mhz, top_w, top_cores_w) = means[0], means[-1]

    def capped_w(cubic: float) -> float:
        return top_w - top_cores_w * (1 - core_shape(low_mhz / 1000, cubic) / core_shape(top_mhz / 1000, cubic))

    rival = top_w * low_mhz / top_mhz
    ends = sorted(capped_w(cubic) for cubic in server_cubic_range(without=path.parent.name))
    told = predictions_of([f"{low_mhz:.0f}"], [low_w], [capped_w(SERVER_CUBIC)], [rival], ([ends[0]], [ends[1]]))
    return [ScoredSet(path.parent.name, "package power under a cap", "the capped clock", "in proportion", told)]


def package_by_pstate(path: Path) -> list[ScoredSet]:
    """Package power by P-state and spinning threads, one row left out; sockets side by side."""
    rows = [row for row in read(path) if row["scope"] != "system"]
    uncore = np.array([float(row["pstate_100mhz"]) > 20 for row in rows], dtype=float)
    cores = np.minimum(column(rows, "logical_cpus_over_50pct_busy"), 16)
    ghz = column(rows, "pstate_100mhz") / 10
    features = np.column_stack([np.ones_like(cores), uncore, cores * ghz, cores * ghz**3])
    load = cores * ghz
    names = ["awake socket", "awake socket at the base clock", "core f", "core f^3"]
    found = each_left_out(names, features, column(rows, "pkg_w"), load)
    return [ScoredSet(path.parent.name, "package power by P-state and threads", "each row in turn", LINE, found)]
