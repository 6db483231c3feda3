"""Power as a sum of non-negative parts: an awake package, its busy cores, second threads, idle states.

Parts are columns of features (how many cores, how busy, at which clock); their powers are what is fitted, none below 0
(`scipy.optimize.nnls`), by relative error, so that light loads count as much as heavy ones.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from opplab.fit.curve import Parameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


_RESAMPLES = 200
_NOISE = 0.02


class Parts:
    """Fitted powers of parts; made by `fit_parts`."""

    def __init__(self, names: list[str], powers: Floats, features: Floats, measured: Floats, known: Floats) -> None:
        self.names = names
        self.powers = powers
        self._features = features
        self._measured = measured
        self._known = known

    def power(self, features: Floats) -> Floats:
        """Give the power of rows of features."""
        return np.asarray(features @ self.powers)

    @property
    def residuals(self) -> Floats:
        """Measured over fitted less 1, a row."""
        return np.asarray(self._measured / np.maximum(self.power(self._features) + self._known, 1e-12) - 1)

    def interval(self, features: Floats) -> tuple[Floats, Floats]:
        """Give the interval that holds 95 of 100 measured rows, by the spread of the rows that were fitted."""
        free = max(len(self._measured) - int(np.sum(self.powers > 0)), 1)
        spread = max(_NOISE, float(np.sqrt(np.sum(self.residuals**2) / free)))
        power = self.power(features)
        return power * (1 - 1.96 * spread), power * (1 + 1.96 * spread)

    @cached_property
    def _drawn(self) -> Floats:
        """Powers fitted to rows that were drawn again, the same draws each time."""
        draw = np.random.default_rng(1)
        rows = len(self._measured)
        chosen = (draw.integers(0, rows, rows) for _ in range(_RESAMPLES))
        rows_of = (self._features, self._measured, self._known)
        return np.array([_nonnegative(*(of[these] for of in rows_of)) for these in chosen])

    def bounds(self, features: Floats) -> tuple[float, float]:
        """Give the interval of 95 % of the power of one row of features by resampling.

        Parts that the rows cannot separate may be known well together.
        """
        low, high = np.quantile(self._drawn @ features, [0.025, 0.975])
        return float(low), float(high)

    def parameters(self) -> list[Parameter]:
        """Give the powers of the parts in W, with intervals of 95 % by resampling the rows."""
        low, high = np.quantile(self._drawn, [0.025, 0.975], axis=0)
        return [
            Parameter(name, float(power), float(min(lowest, power)), float(max(highest, power)), "W")
            for name, power, lowest, highest in zip(self.names, self.powers, low, high, strict=True)
        ]


def _nonnegative(features: Floats, measured: Floats, known: Floats) -> Floats:
    from scipy.optimize import lsq_linear, nnls

    relative, wanted = features / measured[:, None], 1 - known / measured
    try:
        return np.asarray(nnls(relative, wanted)[0])
    except RuntimeError:
        # Where the rows do not separate the parts, rounding can make nnls go round in circles.
        return np.asarray(lsq_linear(relative, wanted, bounds=(0, np.inf), method="bvls").x)


def fit_parts(names: list[str], features: Floats, measured: Floats, known: Floats | float = 0.0) -> Parts:
    """Fit powers of parts to measured power, of which some is `known` not to be theirs.

    Examples
    --------
    >>> cores = np.array([1.0, 2, 4, 8])
    >>> parts = fit_parts(["awake", "core"], np.column_stack([np.ones(4), cores]), 30 + 2 * cores)
    >>> [round(float(power), 3) for power in parts.powers]
    [30.0, 2.0]
    """
    measured = np.asarray(measured, dtype=float)
    if len(measured) == 0 or np.any(measured <= 0):
        raise ValueError("measured power must be above 0, and there must be a row")
    known = np.broadcast_to(known, measured.shape)
    return Parts(names, _nonnegative(features, measured, known), features, measured, known)
