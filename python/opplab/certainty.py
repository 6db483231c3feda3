"""When a change is certain: the one rule of tables, pages, gates, choices and draws.

A change is *clear* when its confidence interval excludes zero, and only clear changes have a star.  So is a change that
is the same in all runs, which has no interval.  An interval needs a number of values: two iterations for Student's t,
`quantile_draws` draws for quantiles of draws.  With fewer there is no interval, and the words name how many are needed.
So they do where the interval of few runs leaves everything open (`FACTOR`, `POINTS`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil, floor, inf, isfinite, log, log10

from opplab import stats

CONFIDENCE = 0.95
"""Coverage of intervals unless somebody asks for another."""

ITERATIONS = 2
"""Fewest iterations that have an interval (Student's t)."""


FACTOR = 2.0
"""A change that may be a division and a multiplication by this is not known at all."""

POINTS = 50.0
"""So is a change of a share whose interval is so many percentage points to either side; at most 100 are possible."""

TIMES = 1000.0
"""Percent; a change from this on is written as how many times it is."""

_TIMES_MOST = 1e6

UNVARIED = "equal in all runs"
"""Why values that do not vary, and are the same on both sides, have no interval of their change."""

SAME_CHANGE = "same change in all runs"
"""Why a change that does not vary has no interval; it is clear."""

NO_PREFERENCE = "energy preference not measured"
"""Why the size of a change is not known where the firmware has another preference, and nobody measured what it does."""

EQUAL = 1e-9
"""What is nearer to no change than this is none but for the last digits of doubles."""

_DIGITS = 9
"""Decimal places of a clear change, at most."""

DECIMALS = 6
"""Decimal places of a value, at most."""

_MOST = 1000
"""Iterations beyond which a number of them is no advice."""


class Certainty:
    """What is known of a change.

    Attributes
    ----------
    low, high : float or None
        Ends of the interval; None where there is none.
    reason : str
        Why there is no interval; empty if there is one.
    is_clear : bool
        Whether the interval excludes zero, or the change is the same in all runs.
    is_open : bool
        Whether there are enough values for an interval, and it would leave everything open.
    """

    __slots__ = ("high", "is_clear", "is_open", "low", "reason")

    def __init__(
        self, low: float | None, high: float | None, reason: str, is_clear: bool, is_open: bool = False
    ) -> None:
        self.low = low
        self.high = high
        self.reason = reason
        self.is_clear = is_clear
        self.is_open = is_open

    @property
    def words(self) -> str:
        """``clear``, ``not clear``, or why it is unknown."""
        return self.reason or ("clear" if self.is_clear else "not clear")

    @property
    def star(self) -> str:
        """``*`` for a clear change, else nothing."""
        return "*" if self.is_clear else ""

    def text(self, value: float, unit: str = "%", digits: int = 1) -> str:
        """Write a change with its interval and its star.

        Examples
        --------
        >>> certainty(-6.0, -0.8, n=5).text(-3.4)
        '-3.4 % [-6.0, -0.8]*'
        >>> certainty(None, None, n=1).text(-3.4)
        '-3.4 %'
        >>> certainty(0.002, 0.03, n=5).text(0.016), certainty(-7.2, -0.04, n=2).text(-3.7)
        ('+0.016 % [+0.002, +0.030]*', '-3.70 % [-7.20, -0.04]*')
        >>> certainty(9000.0, 17000.0, n=5).text(12340.1)
        '124.4 times [91.00, 171.0]*'
        """
        if self.is_clear:
            digits = digits_of([value, self.low, self.high], digits)
        return change_text(value, self.low, self.high, unit, digits) + self.star

    def __repr__(self) -> str:
        return f"Certainty({self.words!r}, low={self.low!r}, high={self.high!r})"


def signed(value: float, digits: int) -> str:
    """Write a number with its sign, without decimals from 1000 on.

    Examples
    --------
    >>> signed(-3.4, 1), signed(12340.1, 1)
    ('-3.4', '+12340')
    """
    return f"{value:+.{digits if abs(value) < TIMES else 0}f}"


def _times(percent: float) -> str:
    """Give a change in percent as a factor with four significant digits."""
    factor = 1 + percent / 100
    if factor >= _TIMES_MOST:
        return f"over {_TIMES_MOST:.0f}"
    return f"{factor:.{max(3 - floor(log10(factor)), 0)}f}" if factor > 0 else "0"


def change_text(
    value: float, low: float | None = None, high: float | None = None, unit: str = "%", digits: int = 1
) -> str:
    """Write a change with its interval; from 1000 % on as how many times it is.

    Only where + is better may a change be below -1000 %: the other side is so many times this one.

    Examples
    --------
    >>> change_text(-3.4, -6.0, -0.8), change_text(12340.1), change_text(-12340.1)
    ('-3.4 % [-6.0, -0.8]', '124.4 times', '124.4 times, worse')
    """
    ends = [] if low is None or high is None else [low, high]
    if unit == "%" and abs(value) >= TIMES and isfinite(value):
        worse = value < 0
        shown = f"{_times(abs(value))} times"
        texts = [_times(-end) for end in reversed(ends)] if worse else [_times(end) for end in ends]
    else:
        worse = False
        shown = f"{signed(value, digits)} {unit}".rstrip()
        texts = [signed(end, digits) for end in ends]
    return shown + (f" [{', '.join(texts)}]" if texts else "") + (", worse" if worse else "")


def certainty(
    low: float | None,
    high: float | None,
    *,
    n: int,
    needed: int = ITERATIONS,
    of: str = "iterations",
    varies: bool = True,
    null: float = 0.0,
    unit: str = "",
    value: float | None = None,
) -> Certainty:
    """Judge a change by its interval.

    Parameters
    ----------
    low, high : float or None
        Ends of the interval; None, NaN or infinite where it has none.
    n : int
        Values that it was computed from.
    needed : int
        Fewest values that have an interval.
    of : str
        What these values are, in the plural.
    varies : bool
        Whether the values differ at all: a run without modelled variation gives equal values.
    null : float
        No change: 0 for differences and percent, 1 for ratios.
    unit : str
        ``%`` of a change in percent, ``points`` of one of a share in percentage points: an interval that leaves
        everything open is not given then, but how many values would narrow it.
    value : float or None
        The change, which is clear where it is the same in all runs and is one.

    Examples
    --------
    >>> certainty(-6.0, -0.8, n=5).words, certainty(-6.0, 0.8, n=5).words
    ('clear', 'not clear')
    >>> certainty(-6.0, -0.8, n=8, needed=quantile_draws(), of="draws").words
    'needs 40 draws, has 8'
    >>> certainty(-98.6, 16997.6, n=2, unit="%").words, certainty(-585.3, 685.3, n=2, unit="points").words
    ('needs about 5 iterations, has 2', 'needs about 11 iterations, has 2')
    >>> certainty(None, None, n=2, varies=False, value=14.5).text(14.5)
    '+14.5 %*'
    """
    if n < needed:
        return Certainty(None, None, f"needs {needed} {of}, has {n}", is_clear=False)
    if not varies:
        is_clear = value is not None and abs(value - null) > EQUAL
        return Certainty(None, None, SAME_CHANGE if is_clear else UNVARIED, is_clear=is_clear)
    if low is None or high is None or not (isfinite(low) and isfinite(high)):
        return Certainty(None, None, "no interval", is_clear=False)
    if unit and (more := _more(low, high, n, unit)):
        return Certainty(None, None, f"needs {more} {of}, has {n}", is_clear=False, is_open=True)
    if unit == "points":
        low, high = max(low, -100.0), min(high, 100.0)
    return Certainty(low, high, "", is_clear=low > null or high < null)


def unknown(reason: str) -> Certainty:
    """Judge a change of which something is left out, so that no interval holds it.

    Examples
    --------
    >>> unknown("idle power unknown").words
    'idle power unknown'
    """
    return Certainty(None, None, reason, is_clear=False, is_open=True)


def digits_of(values: Sequence[float | None], least: int) -> int:
    """Give the decimal places that show each of `values` as other than 0: what has a star is not printed as nothing."""
    known = [value for value in values if value]
    return next((digits for digits in range(least, _DIGITS) if all(round(value, digits) for value in known)), _DIGITS)


def decimals(values: Iterable[float], least: int) -> int:
    """Give the decimal places that show the smallest of some values with three digits: at least so many, at most 6.

    Examples
    --------
    >>> decimals([250.0, 0.0412], 2), decimals([], 1)
    (4, 1)
    """
    smallest = min((abs(value) for value in values if value), default=inf)
    return min(max(least, 2 - floor(log10(smallest))), DECIMALS) if isfinite(smallest) else least


def _more(low: float, high: float, n: int, unit: str) -> str:
    """Give how many values an interval needs that leaves everything open; empty for one that does not."""
    if unit == "points":
        half, enough = (high - low) / 2, POINTS
        if half <= enough:
            return ""
    else:
        lowest, highest = 1 + low / 100, 1 + high / 100
        if lowest > 1 / FACTOR or highest < FACTOR:
            return ""
        half, enough = log(highest / lowest) / 2 if lowest > 0 else log(highest), log(FACTOR)
    spread = half / stats.t_half(n)
    found = next((more for more in range(n + 1, _MOST + 1) if spread * stats.t_half(more) <= enough), None)
    return f"more than {_MOST}" if found is None else f"about {found}"


def quantile_draws(confidence: float = CONFIDENCE) -> int:
    """Give the fewest draws, the first at the file's own numbers, that have an interval of that coverage.

    Of n others the lowest is the quantile 1 / (n + 1) (Weibull's position).

    Examples
    --------
    >>> quantile_draws(), quantile_draws(0.5)
    (40, 4)
    """
    return ceil(round(2 / (1 - confidence), 9))
