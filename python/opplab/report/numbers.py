"""Numbers for people: four significant digits, and a unit in which they are short."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping

_SCALES = {
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ"), (1e-9, "nJ")),
    "W": ((1e3, "kW"), (1.0, "W"), (1e-3, "mW"), (1e-6, "uW")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
    "ms": ((1e3, "s"), (1.0, "ms"), (1e-3, "us")),
}


def quantity(value: float | None, scale: float = 1.0) -> str:
    """Write a value with four significant digits, and never with an exponent.

    Examples
    --------
    >>> quantity(0.0421337, 1e-3), quantity(12345.6), quantity(0.0), quantity(None)
    ('42.13', '12346', '0', 'unknown')
    """
    if value is None or not math.isfinite(value / scale):
        return "unknown"
    number = value / scale
    if number == 0:
        return "0"
    digits = max(3 - math.floor(math.log10(abs(number))), 0)
    return f"{number:.{digits}f}"


def fitting(values: Iterable[float], unit: str) -> tuple[float, str]:
    """Give the scale and the unit in which all of these values are read best.

    Examples
    --------
    >>> fitting([0.042, 0.051], "J"), fitting([0.8, 0.042], "J/MB")
    ((0.001, 'mJ'), (1.0, 'J/MB'))
    """
    head, slash, rest = unit.partition("/")
    top = max((abs(value) for value in values), default=0.0)
    for scale, name in _SCALES.get(head, ()):
        if top >= 0.1 * scale if scale == 1.0 and slash else top >= scale:
            return scale, f"{name}{slash}{rest}"
    return 1.0, unit


def workload_of(benchmark: str, param: str | None) -> str:
    """Give the name of a workload and its parameter in lines.

    Examples
    --------
    >>> workload_of("kernbench", "jobs=2"), workload_of("sqlite", "")
    ('kernbench jobs 2', 'sqlite')
    """
    return " ".join(filter(None, (benchmark, (param or "").replace("=", " "))))


ALL_OF_IT = 0.98
"""Energy of less than this share of a benchmark's time is of a part of it."""


def of_a_part(metric: str, times_s: Mapping[str, Iterable[tuple[float, float]]]) -> str:
    """Word that a benchmark's time is of all of it, and energy and work of the seconds that were simulated.

    Parameters
    ----------
    times_s : mapping
        Of each workload the runs: what was simulated, and the benchmark's time.

    Examples
    --------
    >>> of_a_part("elapsed", {"": [(0.5071, 2.03), (0.5129, 2.05)]})
    'elapsed is of the whole benchmark, energy of the 0.5071 to 0.5129 s of it that were simulated'
    >>> of_a_part("elapsed", {"jobs 2": [(66.1, 370.3)], "jobs 128": [(16.2, 16.2)]})
    'elapsed is of the whole benchmark, energy of the 66.10 s of it that were simulated (jobs 2)'
    >>> of_a_part("elapsed", {"": [(0.1248, 0.1159)]})
    ''
    """
    found = []
    for workload, times in times_s.items():
        known = [part for part, whole in times if part < ALL_OF_IT * whole]
        if known:
            ends = " to ".join(dict.fromkeys(quantity(end) for end in (min(known), max(known))))
            found.append((ends, f" ({workload})" if len(times_s) > 1 else ""))
    if not found:
        return ""
    (ends, of), *others = found
    more = "".join(f"; {some_of((f'{ends} s{of}' for ends, of in others), 3)}" if others else "")
    return f"{metric} is of the whole benchmark, energy of the {ends} s of it that were simulated{of}{more}"


def some_of(words: Iterable[str], most: int) -> str:
    """List the first of many words, and how many more there are.

    Examples
    --------
    >>> some_of(["a", "b", "c"], 2), some_of(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    all_ = list(words)
    more = f" and {len(all_) - most} more" if len(all_) > most else ""
    return ", ".join(all_[:most]) + more


def with_counts(words: Iterable[str]) -> list[str]:
    """List each of some words once, in their order, with how often it is there.

    Examples
    --------
    >>> with_counts(["python", "sh", "python"])
    ['python x2', 'sh']
    """
    return [f"{word} x{number}" if number > 1 else word for word, number in Counter(words).items()]


def several(number: int, what: str) -> str:
    """Give a number of things.

    Examples
    --------
    >>> several(1, "group"), several(0, "group")
    ('1 group', '0 groups')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
