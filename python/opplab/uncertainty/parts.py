"""An interval in two parts: what the runs leave open, and what the assumed numbers leave open.

The first is Student's t over the iterations at the machine file's own numbers. The second comes from draws of these
numbers: how far a value at a draw is from the value at the file's numbers with the same seed, so that what the seeds
vary is in both and falls out of the difference. Both are taken as independent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from opplab.sweep.confidence import Estimate, estimate

__all__ = ["FEW", "LEVEL", "Influence", "Parts", "influences", "parts_of", "sign_words"]

LEVEL = 0.95
"""Coverage of intervals."""

FEW = 8
"""Fewer draws have no quantiles: their interval is Student's t for one more draw, and tables say how many they are."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A value with its interval in two parts.

    Attributes
    ----------
    value : float
        Mean over the iterations at the file's own numbers.
    runs : float or None
        Half-width of the runs' part; None with one iteration, or where iterations do not differ.
    assumed : tuple of (float, float) or None
        How far the assumptions move the value, at the ends of the interval; None where nothing was drawn.
    low, high : float or None
        Both parts together.
    turns : float
        Share of the draws in which the value has the other sign than most have.
    varies : bool
        Whether iterations differ.
    draws : int
        Draws that `assumed` and `turns` are of, beside the file's own numbers.
    """

    value: float
    runs: float | None
    assumed: tuple[float, float] | None
    low: float | None
    high: float | None
    turns: float = 0.0
    varies: bool = True
    draws: int = 0

    @property
    def is_clear(self) -> bool:
        """Whether the interval is on one side of 0; a value without an interval is not."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


@dataclass(frozen=True, slots=True)
class Influence:
    """How a value hangs on an assumption.

    Attributes
    ----------
    key : str
    rank_correlation : float
        Spearman's, of the number and the value over the draws.
    share : float
        Its square: the part of the value's order that this number alone explains.
    p : float
        Probability of a correlation as strong by chance.
    """

    key: str
    rank_correlation: float
    share: float = field(default=0.0)
    p: float = 1.0


def parts_of(
    own: Sequence[float],
    shifts: Sequence[Sequence[float]],
    level: float = LEVEL,
    around: Estimate | None = None,
    least: float = -math.inf,
) -> Parts:
    """Put the parts together.

    Parameters
    ----------
    own : sequence of float
        The value of each iteration at the file's own numbers.
    shifts : sequence of sequence of float
        Of each draw, the values of some iterations less those of the same iterations at the file's own numbers.
    level : float
        Coverage.
    around : Estimate, optional
        The value and the runs' part where they are not the mean of `own` and its interval (a change of means).
    least : float
        What the value cannot be below: 0 for what is counted or measured, -100 for a change of that in percent.

    Examples
    --------
    >>> parts = parts_of([10.0, 10.0], [[-1.0], [0.0], [1.0], [2.0], [3.0]], level=0.5)
    >>> parts.runs, round(parts.low, 2), round(parts.high, 2), parts.draws
    (None, 9.72, 12.28, 5)
    """
    import numpy as np

    mean = estimate(own, level)
    value, half = (mean.mean, mean.half) if around is None else (around.mean, around.half)
    # Two iterations may leave the interval of a change of means open: then nothing is known of the runs' part.
    runs = half if mean.varies and half is not None and math.isfinite(half) else None
    if not len(shifts):
        low_end, high_end = (None, None) if runs is None else (max(value - runs, least), value + runs)
        return Parts(value, runs, None, low_end, high_end, varies=mean.half is None or mean.varies)
    if len(shifts) == 1:
        return Parts(value, runs, None, None, None, 0.0, mean.half is None or mean.varies, 1)
    # Where the range lies on one side of the file's number, so does the interval: its middle is that of the draws.
    if len(shifts) < FEW:
        # Too few to tell what of their spread is the runs': it counts twice, here and in the runs' part.
        moved = [math.fsum(one) / len(one) for one in shifts]
        low, middle, high = _of_one_more(moved, level)
    else:
        moved = without_runs(shifts)
        # By Weibull's positions, so that few draws do not make the interval narrow.
        shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
        low, middle, high = (float(one) for one in np.quantile(moved, shares, method="weibull"))
    center = value + middle
    positive = float(np.mean([value + shift > 0 for shift in moved]))
    return Parts(
        value,
        runs,
        (low, high),
        max(min(value, center - math.hypot(runs or 0.0, middle - low)), least),
        max(value, center + math.hypot(runs or 0.0, high - middle)),
        min(positive, 1 - positive),
        mean.half is None or mean.varies,
        len(moved),
    )


def _of_one_more(values: Sequence[float], level: float) -> tuple[float, float, float]:
    """Give where one more value of the same kind lies, by Student's t: low end, middle, high end."""
    mean = estimate(values, level)
    assert mean.half is not None
    # The interval of the mean is t s / sqrt(n); that of one more value t s sqrt(1 + 1 / n).
    half = mean.half * math.sqrt(len(values) + 1)
    return mean.mean - half, mean.mean, mean.mean + half


def without_runs(shifts: Sequence[Sequence[float]]) -> list[float]:
    """Give what each draw shifts, without what its runs vary by.

    The variance of the draws' means is that of the assumptions and a part of that within draws (one-way analysis of
    variance); the means are drawn together so far that the first is left. With one run a draw they stay as they are.

    Examples
    --------
    >>> without_runs([[1.0, 1.0], [3.0, 3.0]])
    [1.0, 3.0]
    """
    import numpy as np

    means = np.array([float(np.mean(one)) for one in shifts])
    several = [one for one in shifts if len(one) > 1]
    spread = float(np.var(means, ddof=1)) if len(means) > 1 else 0.0
    if not several or spread <= 0:
        return [float(one) for one in means]
    within = float(np.mean([np.var(one, ddof=1) / len(one) for one in several]))
    factor = math.sqrt(max(1 - within / spread, 0.0))
    middle = float(means.mean())
    return [float(middle + (one - middle) * factor) for one in means]


def influences(shares: Sequence[Sequence[float]], keys: Sequence[str], values: Sequence[float]) -> list[Influence]:
    """Say how a value hangs on each assumption, the strongest first.

    Parameters
    ----------
    shares : sequence of sequence of float
        The draws: a row a draw, a column an assumption.
    keys : sequence of str
        The assumptions.
    values : sequence of float
        The value at each draw.
    """
    import numpy as np
    from scipy import stats

    table = np.asarray(shares, dtype=float)
    found = []
    if len(values) > 2 and np.ptp(values) > 1e-12 * max(abs(float(np.max(values))), 1e-300):
        for column, key in enumerate(keys):
            rho, p = stats.spearmanr(table[:, column], values)
            found.append(Influence(key, float(rho), float(rho) ** 2, float(p)))
    return sorted(found, key=lambda one: -one.share)


def sign_words(parts: Parts, deciding: Sequence[Influence]) -> str:
    """Say that the sign of a change turns within the ranges, and what it hangs on; empty if it does not."""
    if parts.turns < 0.025:
        return ""
    keys = [one.key for one in deciding[:2] if one.p < 0.05]
    hangs = f"; it hangs on {' and '.join(keys)}" if keys else ""
    few = parts.draws < FEW
    where = f"{round(parts.turns * parts.draws)} of {parts.draws}" if few else f"{100 * parts.turns:.0f} % of the"
    return f"the sign turns within the ranges (in {where} draws){hangs}"
