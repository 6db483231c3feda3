"""An interval in two parts: what the runs leave open, and what the assumed numbers leave open.

The first is Student's t over the iterations at the machine file's own numbers, or what the runs within the draws differ
by, if that is more (`runs_within`). The second comes from draws of these numbers: how far a value at a draw is from the
value at the file's numbers with the same seed, so that what the seeds vary is in both and falls out of the difference;
what the draws' few runs vary by is taken out, as far as it can be separated (`without_runs`). Both are taken as
independent, and together they are never narrower than the first alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from opplab.certainty import CONFIDENCE, EQUAL, Certainty, certainty, quantile_draws, unknown
from opplab.sweep.confidence import estimate
from opplab.uncertainty.causes import Influence, standing_out

LEVEL = CONFIDENCE
"""Coverage of intervals."""

SEPARATED = 0.95
"""One-sided confidence of the most that the assumptions' variance may be, where runs within draws vary, too."""


@dataclass(frozen=True, slots=True)
class Parts:
    """A value with its interval in two parts."""

    value: float
    """Mean over the iterations at the file's own numbers."""
    runs: float | None
    """Half-width of the runs' part, at least that of the runs within draws; None with one iteration, or where
    iterations do not differ."""
    assumed: tuple[float, float] | None
    """How far the assumptions move the value, at the ends of the interval; None where nothing was drawn, or fewer draws
    than an interval takes."""
    low: float | None
    high: float | None
    """`low`, `high`: both parts together, which hold the value and the runs' part around it; None where one of them is
    not known."""
    turns: float = 0.0
    """Share of the draws whose numbers, not whose seeds, give it the other sign than `value`; 0 has none."""
    varies: bool = True
    """Whether iterations differ."""
    draws: int = 0
    """Draws that `assumed` and `turns` are of, beside the file's own numbers."""
    level: float = LEVEL
    """Coverage of the interval."""
    span: tuple[float, float] | None = None
    """Ends of the runs' part, which need not be equally far from the value."""
    iterations: int = 2
    """At the file's own numbers."""
    unknown: str = ""
    """Why no interval holds the value, whatever the runs and the draws leave open; empty where they do."""
    unit: str = "%"
    """Of a change: ``%``, or ``points`` of a share's."""

    @property
    def certainty(self) -> Certainty:
        """What is known of it as a change, by the rule of all tables (`opplab.certainty`)."""
        if self.unknown:
            return unknown(self.unknown)
        if self.varies and self.runs is None:
            return certainty(None, None, n=1)
        if self.span is not None and self.iterations > 1:
            by_runs = certainty(*self.span, n=self.iterations, unit=self.unit)
            if by_runs.is_open:
                return by_runs
        if self.draws:
            # What is drawn gives an interval, also where the runs do not vary.
            enough = quantile_draws(self.level)
            varies = self.low is None or self.high is None or max(abs(self.low), abs(self.high)) > EQUAL
            return certainty(self.low, self.high, n=self.draws + 1, needed=enough, of="draws", varies=varies)
        return certainty(self.low, self.high, n=2, varies=self.varies, unit=self.unit, value=self.value)

    @property
    def is_clear(self) -> bool:
        """Whether the interval is on one side of 0; a value without an interval is not."""
        return self.certainty.is_clear


def parts_of(
    own: Sequence[float],
    shifts: Sequence[Sequence[float]],
    level: float = LEVEL,
    around: tuple[float, float, float] | None = None,
    least: float = -math.inf,
    drawn: Sequence[float] = (),
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
    around : tuple of float, optional
        The value and the ends of its interval by the runs alone, NaN where there is none, where they are not the mean
        of `own` and its interval (a change of means).
    least : float
        What the value cannot be below: 0 for what is counted or measured, -100 for a change of that in percent.
    drawn : sequence of float, optional
        The value of each draw by its own runs, where `own` and `shifts` are not of all iterations.

    Examples
    --------
    >>> parts = parts_of([10.0, 10.0], [[-1.0], [0.0], [1.0], [2.0], [3.0]], level=0.5)
    >>> parts.runs, round(parts.low, 2), round(parts.high, 2), parts.draws
    (None, 9.5, 12.5, 5)
    """
    import numpy as np

    mean = estimate(own, level)
    value, start, end = around or (mean.mean, mean.mean - (mean.half or 0.0), mean.mean + (mean.half or 0.0))
    # Two iterations may leave the interval of a change of means open: then nothing is known of the runs' part.
    known = mean.varies and mean.half is not None and math.isfinite(end - start)
    runs = (end - start) / 2 if known else None
    varies = mean.half is None or mean.varies
    least_runs = runs_within(shifts, len(own), level)
    # Without variation what is left within draws is rounding.
    if len(own) > 1 and (known or not varies) and least_runs > 1e-9 * max(abs(value), 1e-300):
        runs, varies = max(runs or 0.0, least_runs), True
    # What the runs within draws leave open is open to both sides.
    down, up = (0.0, 0.0) if runs is None else (max(value - start, least_runs), max(end - value, least_runs))
    span = None if runs is None else (max(value - down, least), value + up)
    about: dict[str, Any] = {"varies": varies, "level": level, "span": span, "iterations": len(own)}
    if not len(shifts):
        return Parts(value, runs, None, *(span or (None, None)), **about)
    moved = without_runs(shifts)
    # Runs of a draw may have the other sign by their seeds, and the draw's shift by those of the file's own numbers.
    values = [value + shift for shift in moved]
    turned = [one * value < 0 and other * value < 0 for one, other in zip(values, drawn or values, strict=True)]
    turns = sum(turned) / len(turned)
    if len(shifts) + 1 < quantile_draws(level) or (varies and runs is None):
        return Parts(value, runs, None, None, None, turns, draws=len(shifts), **about)
    # By Weibull's positions, so that few draws do not make the interval narrow. Where the range lies on one side of the
    # file's number, so does the interval: its middle is that of the draws.
    shares = [(1 - level) / 2, 0.5, (1 + level) / 2]
    low, middle, high = (float(one) for one in np.quantile(moved, shares, method="weibull"))
    center = value + middle
    # Neither part can make the other smaller: the middle of the draws may be away from the file's number, but what the
    # runs leave open around that number stays open.
    return Parts(
        value,
        runs,
        (low, high),
        max(min(value - down, center - math.hypot(down, middle - low)), least),
        max(value + up, center + math.hypot(up, high - middle)),
        turns,
        draws=len(moved),
        **about,
    )


def without_runs(shifts: Sequence[Sequence[float]]) -> list[float]:
    """Give what each draw shifts, without what its runs vary by.

    The variance of the draws' means is that of the assumptions and a part of that within draws (one-way analysis of
    variance). The means are drawn together until they vary by the most that the assumptions may: the upper limit
    (`SEPARATED`, by the quantile of F) of their variance, not its estimate, which is 0 or less as often as not where
    they move little, and then would take what is not known for none. An estimate below 0 counts as 0, so that the
    limit is above it, and never leaves one point. With fewer runs in the draws the limit is higher, and with one run
    a draw the means stay as they are.

    Examples
    --------
    >>> without_runs([[1.0, 1.0], [3.0, 3.0]])
    [1.0, 3.0]
    """
    import numpy as np
    from scipy import stats

    means = np.array([sum(one) / len(one) for one in shifts])
    several = [one for one in shifts if len(one) > 1]
    spread = float(np.var(means, ddof=1)) if len(means) > 1 else 0.0
    if not several or spread <= 0:
        return [float(one) for one in means]
    variance, freedom = _pooled(several)
    within = variance * sum(1 / len(one) for one in several) / len(several)
    lowest = float(stats.f.ppf(1 - SEPARATED, len(means) - 1, freedom))
    factor = math.sqrt(max(1 - lowest * min(within / spread, 1.0), 0.0))
    middle = float(means.mean())
    return [float(middle + (one - middle) * factor) for one in means]


def runs_within(shifts: Sequence[Sequence[float]], iterations: int, level: float = LEVEL) -> float:
    """Give the half-width that a mean of so many iterations has by what the runs within draws differ by; 0 if unknown.

    The variances within draws are pooled. These are many more runs than those at the file's own numbers, which may
    miss what is rare; each is a difference of two, so that this errs to the wide side where seeds have nothing in
    common, and is small where they have all.

    Examples
    --------
    >>> round(runs_within([[-1.0, 1.0]] * 40, 4), 2)
    1.43
    """
    from scipy import stats

    variance, freedom = _pooled(shifts)
    if not freedom or iterations < 1:
        return 0.0
    return float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(variance / iterations)


def _pooled(shifts: Sequence[Sequence[float]]) -> tuple[float, int]:
    """Give the variance within draws, and its degrees of freedom."""
    squares, freedom = 0.0, 0
    for one in shifts:
        mean = sum(one) / len(one)
        squares += sum((value - mean) ** 2 for value in one)
        freedom += len(one) - 1
    return (squares / freedom if freedom else 0.0), freedom


def why_open(parts: Parts, deciding: Sequence[Influence]) -> str:
    """Explain why a change is not clear: too few values, the runs, or the assumptions; empty if it is clear."""
    judged = parts.certainty
    if judged.is_clear:
        return ""
    if judged.reason:
        return judged.reason
    keys = [one.key for one in standing_out(deciding)[:2]]
    hangs = f"; it depends on {' and '.join(keys)}" if keys else ""
    if parts.turns >= (1 - parts.level) / 2:
        # Intervals count the file's own numbers as a draw, in which no sign turns.
        number = parts.draws + 1
        return f"its sign turns in {100 * parts.turns * parts.draws / number:.2g} % of {number} draws{hangs}"
    if parts.runs is not None and abs(parts.value) <= parts.runs:
        return "the runs alone leave its sign open: more iterations or longer runs would narrow it"
    return f"runs and assumptions together leave its sign open{hangs}"
