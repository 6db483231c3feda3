"""How far predictions are from measurements, and how far the simplest rival is.

Errors are relative: 0.05 is 5 % of the measured value.  The rival of a power curve is the straight line between the
lowest and the highest point that the fit was given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Prediction:
    """One measured value that the fit did not use, as it was predicted.

    ``where`` names it (a clock, a number of cores, a program); the values share one unit.
    """

    where: str
    measured: float
    predicted: float
    rival: float
    low: float | None = None
    high: float | None = None

    @property
    def error(self) -> float:
        """Relative error, with its sign."""
        return self.predicted / self.measured - 1

    @property
    def rival_error(self) -> float:
        """Relative error of the rival, with its sign."""
        return self.rival / self.measured - 1


def line(x: Sequence[float], y: Sequence[float], at: Sequence[float]) -> np.ndarray:
    """Give the straight line through the first and the last point of ascending `x`; one point gives a constant.

    Examples
    --------
    >>> [float(value) for value in line([1, 2, 3], [10, 11, 30], [2])]
    [20.0]
    """
    rise = (y[-1] - y[0]) / (x[-1] - x[0]) if x[-1] > x[0] else 0.0
    return np.asarray(y[0] + rise * (np.asarray(at, dtype=float) - x[0]))


def weighted_quantile(values: ArrayLike, weights: ArrayLike, share: float) -> float:
    """Give a weighted quantile, which for equal weights is numpy's."""
    order = np.argsort(values)
    values, weights = np.asarray(values)[order], np.asarray(weights)[order]
    places = np.cumsum(weights) - weights
    total = float(np.sum(weights) - weights[-1])
    return float(np.interp(share, places / total if total > 0 else places, values))


def summary(sets: Sequence[Sequence[Prediction]]) -> dict[str, Any]:
    """Give the figures of merit over sets of predictions, each set weighing the same.

    Keys: ``median_abs_error``, ``p90_abs_error``, ``rival_median_abs_error``, ``rival_p90_abs_error``, ``skill`` (1
    less the ratio of the medians), ``in_interval`` (share of measured values in their interval of 95 %) and
    ``predictions`` (how many).
    """
    sets = [predictions for predictions in sets if predictions]
    if not sets:
        keys = ("median_abs_error", "p90_abs_error", "rival_median_abs_error", "rival_p90_abs_error", "skill")
        return {**dict.fromkeys(keys), "in_interval": None, "predictions": 0}
    rows = [prediction for predictions in sets for prediction in predictions]
    weights = np.concatenate([np.full(len(predictions), 1.0 / len(predictions)) for predictions in sets])
    error = np.abs([row.error for row in rows])
    rival = np.abs([row.rival_error for row in rows])
    median, rival_median = weighted_quantile(error, weights, 0.5), weighted_quantile(rival, weights, 0.5)
    told = [row.low <= row.measured <= row.high for row in rows if row.low is not None and row.high is not None]
    return {
        "median_abs_error": median,
        "p90_abs_error": weighted_quantile(error, weights, 0.9),
        "rival_median_abs_error": rival_median,
        "rival_p90_abs_error": weighted_quantile(rival, weights, 0.9),
        "skill": 1 - median / rival_median if rival_median > 0 else None,
        "in_interval": float(np.mean(told)) if told else None,
        "predictions": len(rows),
    }
