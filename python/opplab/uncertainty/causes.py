"""What makes an interval over draws wide: the assumptions that explain most of it, and draws in another regime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

CHANCE = 0.05
"""A share that chance gives one of all assumptions more often than this is not reported."""

_SHUFFLES = 9999
"""Orders of the draws, for what chance gives; fewer would not do for a hundred changes at once."""

_APART = 0.85
"""Two groups of draws are two regimes where this share of all variance is between them; one slope has 0.75."""

_FEWEST = 3
"""Draws of a regime."""


@dataclass(frozen=True, slots=True)
class Influence:
    """How a value hangs on an assumption."""

    key: str
    rank_correlation: float
    """Spearman's, of the number and the value over the draws: whether the value grows with the number."""
    share: float = 0.0
    """The part of the value's variance over the draws that a parabola of this number alone explains, less what it
    explains by chance (adjusted R^2)."""
    p: float = 1.0
    """Probability that chance gives one of all assumptions such a share (permutations of the draws)."""


@dataclass(frozen=True, slots=True)
class Regime:
    """Draws whose values lie apart from those around the file's own numbers."""

    draws: int
    of: int
    """`draws`, `of`: how many they are, of how many with that of the file's own numbers."""
    ends: tuple[float, float]
    others: tuple[float, float]
    """`ends`, `others`: between what values they are, and between what values all others are."""
    deciding: Sequence[Influence] = ()
    """What decides to which a draw belongs, the strongest first."""

    def through(self, value_of: Callable[[float], float]) -> Regime:
        """Give it with other values at its ends."""
        low, high = map(value_of, self.ends)
        start, end = map(value_of, self.others)
        return replace(self, ends=(low, high), others=(start, end))

    def words(self, text: Callable[[float], str]) -> str:
        """Report it in a sentence, with its ends as `text` writes them."""
        keys = " and ".join(one.key for one in standing_out(self.deciding)[:2])
        low, high, start, end = map(text, (*self.ends, *self.others))
        return (
            f"{self.draws} of {self.of} draws are in another regime ({low} to {high}, the others {start} to {end}), "
            + (f"which depends on {keys}." if keys else "which no assumed value alone decides.")
        )


@dataclass(frozen=True, slots=True)
class Causes:
    """What a value hangs on."""

    influences: Sequence[Influence] = ()
    """The strongest first."""
    regime: Regime | None = None


def causes(shares: Sequence[Sequence[float]], keys: Sequence[str], shifts: Sequence[float]) -> Causes:
    """Report what a value hangs on.

    Parameters
    ----------
    shares : sequence of sequence of float
        The draws: a row a draw, a column an assumption.
    keys : sequence of str
        The assumptions.
    shifts : sequence of float
        How far the value at each draw is from that at the file's own numbers.
    """
    return Causes(influences(shares, keys, shifts), _regime(shares, keys, shifts))


def influences(shares: Sequence[Sequence[float]], keys: Sequence[str], values: Sequence[float]) -> list[Influence]:
    """Report how a value hangs on each assumption, the strongest first.

    What counts is the variance, not the order: a few draws that are far away make an interval wide.
    """
    import numpy as np
    from scipy import stats

    table, found = np.asarray(shares, dtype=float), np.asarray(values, dtype=float)
    if len(found) < 4 or not len(keys) or np.ptp(found) <= 1e-12 * max(abs(float(found.max())), 1e-300):
        return []
    found = (found - found.mean()) / np.linalg.norm(found - found.mean())
    # A line and a parabola of each number, at right angles: the squares of their parts add to the share explained.
    shapes = []
    for column in table.T:
        middle = column - column.mean()
        shapes.append(np.linalg.qr(np.column_stack([middle, middle**2 - (middle**2).mean()]))[0])
    parts = np.concatenate([found[None], found[_orders(len(found))]]) @ np.concatenate(shapes, axis=1)
    explained = (parts**2).reshape(len(parts), len(keys), 2).sum(axis=2)
    own, most = explained[0], explained[1:].max(axis=1)
    return sorted(
        (
            Influence(
                key,
                float(stats.spearmanr(column, found).statistic),
                max(float(1 - (1 - share) * (len(found) - 1) / (len(found) - 3)), 0.0),
                float((1 + (most >= share - 1e-12).sum()) / (1 + len(most))),
            )
            for key, column, share in zip(keys, table.T, own, strict=True)
        ),
        key=lambda one: -one.share,
    )


@lru_cache(maxsize=4)
def _orders(number: int) -> Any:
    """Give orders of so many draws, always the same."""
    import numpy as np

    return np.random.default_rng(1).permuted(np.tile(np.arange(number), (_SHUFFLES, 1)), axis=1)


def standing_out(found: Sequence[Influence]) -> list[Influence]:
    """Give the assumptions that a value hangs on beyond chance, in their order."""
    return [one for one in found if one.p < CHANCE]


def _regime(shares: Sequence[Sequence[float]], keys: Sequence[str], shifts: Sequence[float]) -> Regime | None:
    """Give the draws that are apart from the file's own numbers, whose shift is 0; None where there is one group."""
    import numpy as np

    values = np.sort([*shifts, 0.0])
    number, whole = len(values), float(np.var(values))
    best = (0.0, 0)
    for place in range(_FEWEST, number - _FEWEST + 1):
        within = (place * np.var(values[:place]) + (number - place) * np.var(values[place:])) / number
        best = max(best, (1 - float(within) / whole if whole > 0 else 0.0, place))
    explained, place = best
    if explained < _APART:
        return None
    low, high = values[:place], values[place:]
    if high[0] - low[-1] < max(np.std(low), np.std(high)):
        return None
    border = (low[-1] + high[0]) / 2
    own, other = (high, low) if border < 0 else (low, high)
    belongs = [float((shift < border) == (other is low)) for shift in shifts]
    ends, others = ((float(group[0]), float(group[-1])) for group in (other, own))
    return Regime(len(other), number, ends, others, influences(shares, keys, belongs))


def whose(row: Mapping[str, Any]) -> str:
    """Name workload and machine of a row of `Sureness.deciding`, where it has them."""
    words = (("benchmark", "of"), ("machine", "on"))
    return " ".join(f"{word} {row[name]}" for name, word in words if name in row)
