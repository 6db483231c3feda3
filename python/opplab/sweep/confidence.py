"""Means with confidence intervals: Student's t at 95 %, harmonic for rates, over the pairs that share a seed.

They cover what the seeds vary (phases of the tasks, random draws), not the error of the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from opplab import stats
from opplab.runs import is_rate


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and the half-width of its interval."""

    mean: float
    half: float | None
    """Half-width of the 95 % interval; None if it is not known."""
    n: int = 0
    """Number of values; 0 for a published mean."""
    ratio: float | None = None
    """Change against the baseline in percent as it was published, if it was."""

    @property
    def varies(self) -> bool:
        """Whether the values differ at all; where they do not, the runs have no variation, and there is no interval."""
        return self.half is None or self.half > 1e-12 * abs(self.mean)


def mean_of(values: Sequence[float], better: str, unit: str = "") -> float:
    """Give the mean that all tables and reports have: harmonic for rates, else arithmetic.

    Examples
    --------
    >>> mean_of([1.0, 3.0], "lower"), mean_of([1.0, 3.0], "higher"), mean_of([1.0, 3.0], "higher", "s")
    (2.0, 1.5, 2.0)
    """
    return stats.mean(values, harmonic=is_rate(better == "higher", unit) and min(values) > 0)[0]


def estimate(values: Sequence[float], level: float = 0.95, better: str = "lower", unit: str = "") -> Estimate:
    """Give the mean of `values` (see `mean_of`) and half the width of its Student-t interval.

    Examples
    --------
    >>> e = estimate([1.0, 2.0, 3.0])
    >>> f"{e.mean:.2f} +- {e.half:.3f}"
    '2.00 +- 2.484'
    """
    n = len(values)
    harmonic = is_rate(better == "higher", unit) and min(values) > 0
    mean, (low, high) = stats.mean(values, harmonic=harmonic, confidence=level)
    half = (high - low) / 2
    # Few rates that differ much have no upper end: no width describes their interval.
    return Estimate(mean, half if math.isfinite(half) else None, n)


def paired_half(base: Sequence[float], variant: Sequence[float]) -> float | None:
    """Half the width of the interval of the change in percent; values of equal index share a seed."""
    if len(base) != len(variant) or len(base) < 2:
        return None
    found = stats.compare(base, variant, paired=True, resamples=0)
    return None if math.isnan(found["low"]) else 50 * (found["high"] - found["low"])
