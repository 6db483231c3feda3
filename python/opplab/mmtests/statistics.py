"""mmtests' statistics, with mmtests' own definitions.

The definitions are those of mmtests' `Stat.pm` (commit 638401e), quirks included, because the tables are compared
byte for byte; a function's text names a quirk that no statistician would choose. A cold ``opplab compare`` must not
wait for anything to be loaded, so that this is Python; what is drawn at random is computed by crate `stats`.

Values arrive best first: ascending when lower is better, descending when higher is. NaN stands for "unknown".
"""

from __future__ import annotations

from math import isnan, sqrt

TYPE_CHECKING = False
if TYPE_CHECKING:
    Interval = tuple[float, float]

NAN = float("nan")

# The normal quantile at 0.975, as a double.
Z_975 = 1.959963984540054


def amean(values: list[float]) -> float:
    """Arithmetic mean, summed in the order given."""
    # Not sum(): newer Pythons compensate in it and would differ in the last digit.
    total = 0.0
    for value in values:
        total += value
    return total / len(values) if values else NAN


def hmean(values: list[float]) -> float:
    """Harmonic mean; NaN when a value is zero or negative."""
    total = 0.0
    for value in values:
        if not value > 0:
            return NAN
        total += 1 / value
    return len(values) / total if total else NAN


def gmean(values: list[float]) -> float:
    """Geometric mean as the root of the plain product, which overflows for long lists as mmtests' does."""
    product = 1.0
    for value in values:
        product *= value
    if not values or product < 0:
        return NAN
    return float(product ** (1 / len(values)))


def stddev(values: list[float], mean: float, harmonic: bool) -> float:
    """Standard deviation about `mean`; NaN for fewer than two values.

    For the arithmetic mean the divisor is n - 1. For the harmonic mean it is the delta method's
    ``sqrt(sum((1/x - 1/m)^2) * m^4 / n)``, with n.
    """
    n = len(values)
    if isnan(mean) or n <= 1:
        return NAN
    total = 0.0
    if harmonic:
        inverse = 1 / mean
        # Products, not powers: those round alike here and in crate stats.
        for value in values:
            difference = 1 / value - inverse
            total += difference * difference
        square = mean * mean
        return sqrt(total * (square * square) / n)
    for value in values:
        total += (value - mean) * (value - mean)
    return sqrt(total / (n - 1))


def coeffvar(deviation: float, mean: float) -> float:
    """Coefficient of variation in percent; 0 when either is unknown."""
    if isnan(mean) or not mean:
        return 0.0
    if isnan(deviation):
        deviation = 0.0
    return deviation * 100 / mean


def count_of(n: int, percent: float) -> int:
    """How many of `n` best-first values `percent` covers: truncated, at least one."""
    return max(1, int(n * percent / 100))


def percentile(values: list[float], percent: float) -> float:
    """The last of the best `percent`, without interpolation. For "higher is better" this counts from the top."""
    return values[count_of(len(values), percent) - 1] if values else NAN


def best(values: list[float], percent: float) -> list[float]:
    """The best `percent` of the values: what BAmean and BHmean are means of."""
    return values[: count_of(len(values), percent)]


def mean_interval(deviation: float) -> float:
    """Half the width of mmtests' "confidence interval of the mean": the normal quantile times the standard deviation.

    It is not divided by the root of n, so it is an interval for a single value rather than for the mean. mmtests has R
    print it, which leaves seven significant digits.
    """
    # Perl hands R the deviation with 15 digits; R answers with 7.
    return float(f"{Z_975 * float(f'{deviation:.15g}'):.7g}")


def pdiff(new: float, base: float) -> float:
    """Change in percent, positive when `new` is larger."""
    if new in (base, 0):
        return 0.0
    if base == 0 or isnan(base):
        return 100.0
    return new * 100 / base - 100


def pndiff(new: float, base: float) -> float:
    """Change in percent, positive when `new` is smaller."""
    if new == base:
        return 0.0
    if new == 0:
        return 100.0
    if base == 0:
        return -99.0
    return 100 - new * 100 / base


def rdiff(new: float, base: float) -> float:
    """Ratio of `new` to `base`; 0 over nothing, 1 for nothing over something."""
    if base == 0 or isnan(base):
        return 0.0
    if new == 0 or isnan(new):
        return 1.0
    return new / base


def cidiff(new: float, new_interval: Interval, base: float, base_interval: Interval) -> float:
    """Difference in units of the two half intervals that face each other; beyond ±1 they do not overlap."""
    difference = new - base
    if new < base:
        width = new_interval[1] - new + base - base_interval[0]
    else:
        width = new - new_interval[0] + base_interval[1] - base
    return difference if width == 0 else difference / width
