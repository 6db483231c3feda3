"""When a change is certain: the one rule of tables, pages, gates, choices and draws.

A change is *clear* when its confidence interval excludes zero, and only clear changes have a star.  An interval needs a
number of values: two iterations for Student's t, `quantile_draws` draws for quantiles of draws.  With fewer there is no
interval, and the words name how many are needed.
"""

from __future__ import annotations

from math import ceil, isfinite

__all__ = ["CONFIDENCE", "ITERATIONS", "Certainty", "certainty", "quantile_draws"]

CONFIDENCE = 0.95
"""Coverage of intervals unless somebody asks for another."""

ITERATIONS = 2
"""Fewest iterations that have an interval (Student's t)."""


class Certainty:
    """What is known of a change.

    Attributes
    ----------
    low, high : float or None
        Ends of the interval; None where there is none.
    reason : str
        Why there is no interval; empty if there is one.
    is_clear : bool
        Whether the interval excludes zero.
    """

    __slots__ = ("high", "is_clear", "low", "reason")

    def __init__(self, low: float | None, high: float | None, reason: str, is_clear: bool) -> None:
        self.low = low
        self.high = high
        self.reason = reason
        self.is_clear = is_clear

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
        """
        shown = f"{value:+.{digits}f} {unit}".rstrip()
        if self.low is None or self.high is None:
            return shown
        return f"{shown} [{self.low:+.{digits}f}, {self.high:+.{digits}f}]{self.star}"

    def __repr__(self) -> str:
        return f"Certainty({self.words!r}, low={self.low!r}, high={self.high!r})"


def certainty(
    low: float | None,
    high: float | None,
    *,
    n: int,
    needed: int = ITERATIONS,
    of: str = "iterations",
    varies: bool = True,
    null: float = 0.0,
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

    Examples
    --------
    >>> certainty(-6.0, -0.8, n=5).words, certainty(-6.0, 0.8, n=5).words
    ('clear', 'not clear')
    >>> certainty(-6.0, -0.8, n=8, needed=quantile_draws(), of="draws").words
    'needs 40 draws, has 8'
    """
    if n < needed:
        return Certainty(None, None, f"needs {needed} {of}, has {n}", is_clear=False)
    if not varies:
        return Certainty(None, None, "no variation", is_clear=False)
    if low is None or high is None or not (isfinite(low) and isfinite(high)):
        return Certainty(None, None, "no interval", is_clear=False)
    return Certainty(low, high, "", is_clear=low > null or high < null)


def quantile_draws(confidence: float = CONFIDENCE) -> int:
    """Give the fewest draws, the first at the file's own numbers, that have an interval of that coverage.

    Of n others the lowest is the quantile 1 / (n + 1) (Weibull's position).

    Examples
    --------
    >>> quantile_draws(), quantile_draws(0.5)
    (40, 4)
    """
    return ceil(round(2 / (1 - confidence), 9))
