"""Statistics of results: means with intervals, comparisons of two samples, and mmtests' bootstrap.

Computed by the crate `opplab-stats`; see its documentation for definitions and sources. Rates (`harmonic=True`) are
averaged harmonically, and their intervals and tests are those of the reciprocals, which are times.
"""

from __future__ import annotations

from opplab._opplab import stats_holm, stats_mean, stats_ratio, stats_submean

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def mean(
    values: Sequence[float], *, harmonic: bool = False, confidence: float = 0.95
) -> tuple[float, tuple[float, float]]:
    """Mean and Student-t interval.

    Examples
    --------
    >>> center, (low, high) = mean([10.2, 11.1, 9.8, 10.9])
    >>> f"{center:.2f} {low:.2f} {high:.2f}"
    '10.50 9.54 11.46'
    """
    center, ends, _ = stats_mean(list(values), harmonic=harmonic, confidence=confidence)
    return center, ends


def compare(
    base: Sequence[float],
    new: Sequence[float],
    *,
    harmonic: bool = False,
    paired: bool = False,
    confidence: float = 0.95,
    resamples: int = 9999,
    seed: int = 1,
    stream: int = 0,
) -> dict[str, float]:
    """Compare two samples.

    Parameters
    ----------
    base, new : sequence of float
    harmonic : bool
        The values are rates.
    paired : bool
        Values of equal index belong together (the same seed or date in both runs): test and interval are Student's t
        on the logarithm of the ratio, with the spread of what each pair adds to it.
    confidence : float
    resamples : int
        Of the BCa bootstrap of independent samples; 0 asks for the delta method, which is as good for hundreds of
        values and much quicker. Two or three values a side are not resampled.
    seed, stream : int
        Of the bootstrap; each cell of a table has a stream of its own.

    Returns
    -------
    dict
        ``ratio`` of the means with its interval ``low`` to ``high``; ``t``, ``df`` and two-sided ``p`` of Welch's (or
        the paired) t-test; ``hedges_g``, the difference in standard deviations.

    Examples
    --------
    >>> found = compare([10.2, 11.1, 9.8, 10.9], [12.1, 13.3, 11.9, 12.8])
    >>> f"{found['ratio']:.3f} {found['p']:.4f} {found['hedges_g']:.1f}"
    '1.193 0.0038 2.8'
    """
    return stats_ratio(
        list(base),
        list(new),
        harmonic=harmonic,
        paired=paired,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        stream=stream,
    )


def t_half(n: int, confidence: float = 0.95) -> float:
    """Give half the width of the Student-t interval of a mean of so many values, in their standard deviations.

    Examples
    --------
    >>> f"{t_half(2):.2f} {t_half(10):.3f}"
    '8.98 0.715'
    """
    low, high = mean([0.0] * (n - 1) + [1.0], confidence=confidence)[1]
    # The standard deviation of these values is the root of 1 / n.
    return float((high - low) / 2 * n**0.5)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's correction; NaN stays NaN and does not count.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    return stats_holm(list(p_values))


def submean(iterations: Sequence[Sequence[float]], *, harmonic: bool = False, seed: int = 1) -> tuple[float, float]:
    """Give mmtests' SubAmean (SubHmean) and half the width of its interval, with a seed that mmtests lacks."""
    return stats_submean([list(iteration) for iteration in iterations], harmonic=harmonic, seed=seed)
