"""mmtests' summaries: which statistics a benchmark's table shows, and their values for one run.

A statistic is written as mmtests writes it: ``min``, ``_mean``, ``_mean-95`` (mean of the best 95 %),
``percentile-95``, ``stddev``, ``coeffvar``, ``max``, ``_value`` (the best value). `_mean` is the harmonic mean where
higher is better and the arithmetic mean where lower is.
"""

from __future__ import annotations

from math import isnan

from opplab.mmtests.statistics import (
    NAN,
    amean,
    best,
    coeffvar,
    hmean,
    mean_interval,
    percentile,
    stddev,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from opplab.mmtests.statistics import Interval
    from opplab.runs import Series

SUMMARIES: dict[str, tuple[str, ...]] = {
    "multiops": ("min", "_mean", "stddev", "coeffvar", "max", "_mean-95"),
    "normalisedops": ("min", "_mean", "_mean-95", "percentile-95", "stddev", "coeffvar", "max"),
    "normalised-left-skew-ops": (
        "min",
        "_mean",
        "_mean-50",
        "percentile-50",
        "_mean-75",
        "percentile-75",
        "_mean-90",
        "percentile-90",
        "_mean-99",
        "percentile-99",
        "stddev",
        "coeffvar",
        "max",
    ),
    "subselection": ("min", "_mean", "_mean-95", "stddev", "coeffvar", "max", "submean", "submeanci"),
    "singleops": ("_value",),
    "monitor": ("_mean", "max"),
}

# The statistic that the overview ratio and the significance are about, and whether it has an interval.
_MAIN = {"subselection": ("submean", True), "singleops": ("_value", False)}

_NAMES = {"min": "Min", "max": "Max"}
_ALWAYS_LOWER = frozenset(("stddev", "coeffvar", "submeanci"))


def main_statistic(summary: str) -> tuple[str, bool]:
    """``(statistic, has an interval)`` of a summary."""
    return _MAIN.get(summary, ("_mean", True))


def stat_name(stat: str, higher: bool, operation_name: str = "Ops") -> str:
    """The name that a table's row begins with."""
    kind, _, percent = stat.partition("-")
    mean = "Hmean" if higher else "Amean"
    if kind == "_mean":
        return f"B{mean}.{percent}" if percent else mean
    if kind == "percentile":
        return f"Pctile.{percent}"
    if kind == "stddev":
        return "HStddev" if higher else "Stddev"
    if kind == "coeffvar":
        return "HCoeffVar" if higher else "CoeffVar"
    if kind == "submean":
        return "Sub" + mean
    if kind == "submeanci":
        return f"Sub{mean}CI"
    if kind == "_value":
        return operation_name
    return _NAMES[kind]


def prefers_higher(stat: str, higher: bool) -> bool:
    """Whether a larger value of the statistic is an improvement: spreads are always better small."""
    return higher and stat.partition("-")[0] not in _ALWAYS_LOWER


def summarise(series: Series, summary: str, higher: bool, seed: int = 0) -> tuple[list[float], Interval | None]:
    """Statistics of one series.

    Parameters
    ----------
    summary : str
        A key of `SUMMARIES`.
    higher : bool
        Whether higher is better.
    seed : int
        For the bootstrap of ``subselection``; mmtests does not seed its own.

    Returns
    -------
    tuple
        The values in the order of the summary, NaN where there is none; and the interval of the main statistic as
        ``(low, high)``, or None when it has none.
    """
    values = sorted(series.values(), reverse=higher)
    mean_of = hmean if higher else amean
    mean = mean_of(values)
    deviation: float | None = None
    interval: Interval | None = None
    half = (NAN, NAN)
    found: list[float] = []
    for stat in SUMMARIES[summary]:
        kind, _, percent = stat.partition("-")
        if not values:
            found.append(NAN)
        elif kind == "min":
            found.append(values[-1] if higher else values[0])
        elif kind == "max":
            found.append(values[0] if higher else values[-1])
        elif kind == "_mean":
            found.append(mean_of(best(values, float(percent))) if percent else mean)
        elif kind == "percentile":
            found.append(percentile(values, float(percent)))
        elif kind == "_value":
            found.append(values[0])
        elif kind == "submean":
            from opplab.stats import submean

            half = submean(series.iterations, harmonic=higher, seed=seed)
            found.append(half[0])
            interval = (half[0] - half[1], half[0] + half[1])
        elif kind == "submeanci":
            found.append(half[1])
        else:
            if deviation is None:
                deviation = stddev(values, mean, higher)
            found.append(deviation if kind == "stddev" else coeffvar(deviation, mean))
    if interval is None and main_statistic(summary) == ("_mean", True):
        if deviation is None:
            deviation = stddev(values, mean, higher)
        if not isnan(deviation):
            width = mean_interval(deviation)
            interval = (mean - width, mean + width)
    return found, interval
