"""What counts in a choice: goals, and constraints such as ``latency_p99 <= 5ms``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from opplab.catalog import nearest
from opplab.errors import InputError

__all__ = ["Constraint", "metric_named", "needs_latencies"]

# What people say -> the metric.
_ALIASES = {
    "latency": "latency_p99",
    "response": "response_p99",
    "missed": "missed_activations",
    "throughput": "rate",
}
_SCALES = {
    "": {"": 1.0},
    "ms": {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "": 1.0},
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "": 1.0},
    "J": {"J": 1.0, "mJ": 1e-3, "kJ": 1e3, "": 1.0},
    "W": {"W": 1.0, "mW": 1e-3, "kW": 1e3, "": 1.0},
    "%": {"%": 1.0, "": 1.0},
}


@dataclass(frozen=True)
class Constraint:
    """What a metric must not exceed, or must reach.

    Attributes
    ----------
    metric : str
    at_most : bool
    bound : float
    unit : str
        As it was written; empty for the metric's own.
    text : str
    """

    metric: str
    at_most: bool
    bound: float
    unit: str
    text: str

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``METRIC <= NUMBER[UNIT]`` or ``METRIC >= NUMBER[UNIT]``.

        Examples
        --------
        >>> Constraint.parse("latency_p99 <= 5ms").bound_in("ms")
        5.0
        """
        match = re.fullmatch(r"\s*([A-Za-z_][\w:@.\-]*)\s*(<=|>=|<|>)\s*([0-9.eE+\-]+)\s*([A-Za-z%/]*)\s*", text)
        try:
            bound = float(match[3]) if match else None
        except ValueError:
            bound = None
        if match is None or bound is None:
            raise InputError(f"`{text}` is no constraint: write it like `latency_p99 <= 5ms`")
        return cls(_ALIASES.get(match[1], match[1]), match[2].startswith("<"), bound, match[4], text.strip())

    def bound_in(self, unit: str) -> float:
        """Give the bound in a unit."""
        scales = _SCALES.get(unit, {unit: 1.0, "": 1.0})
        if self.unit not in scales:
            known = ", ".join(name for name in scales if name) or "no unit"
            raise InputError(f"`{self.text}`: {self.metric} is in {unit or 'numbers'}, not in {self.unit} ({known})")
        return self.bound * scales[self.unit]


def metric_named(name: str, known: Sequence[str], own: Sequence[str]) -> str:
    """Give the metric that somebody means; ``throughput`` is the benchmark's own where it has one.

    Raises
    ------
    InputError
        With the nearest metric.
    """
    if name == "throughput" and own:
        return own[0]
    metric = _ALIASES.get(name, name)
    if metric not in known:
        short = [one for one in known if "@" not in one]
        raise InputError(f"there is no metric `{name}` in these runs{nearest(name, short) or ': ' + ', '.join(short)}")
    return metric


def needs_latencies(names: Sequence[str]) -> bool:
    """Say whether one of the metrics is how long tasks wait."""
    return any(_ALIASES.get(name, name).startswith(("latency", "response")) for name in names)
