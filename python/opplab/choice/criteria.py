"""What counts in a choice: goals, and constraints: ``latency_p99 <= 5ms``, ``throughput >= 99% of baseline``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opplab.catalog import nearest
from opplab.errors import InputError
from opplab.metrics import ALIASES, METRICS, PERCENTILES, find, of_models
from opplab.runs import IN_JOULES, IN_SECONDS, IN_WATTS
from opplab.simulation.work import ENERGY_PER_WORK, POWER_AT_EQUAL_WORK

ANY_WORK = "none"
"""Instead of a constraint: settings may do less work than the baseline."""

MISSED_SLACK = 0.1
"""Percentage points of missed activations that count as no more than the baseline's: one of a thousand."""

THROUGHPUT_SLACK = 1.0
"""Percent of work that a setting may do less than the baseline."""

_FORM = re.compile(
    r"\s*([A-Za-z_][\w:@./\-]*)\s*(<=|>=|<|>)\s*(?:([0-9.eE+\-]+)\s*([A-Za-z%/]*?)(\s+of\s+baseline)?|baseline)\s*"
)


@dataclass(frozen=True)
class Constraint:
    """What a metric must not exceed, or must reach."""

    metric: str
    at_most: bool
    bound: float
    """Of a relative constraint the percentage of the baseline's value."""
    unit: str
    """As it was written; empty for the metric's own."""
    text: str
    relative: bool = False
    """Whether the bound is a share of the baseline's value."""

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read ``METRIC <= NUMBER[UNIT]``, ``METRIC <= baseline`` or ``METRIC >= NUMBER% of baseline``, or with ``>=``.

        Examples
        --------
        >>> Constraint.parse("latency_p99 <= 5ms").bound_in("ms"), Constraint.parse("energy <= 2Wh").bound_in("J")
        (5.0, 7200.0)
        >>> Constraint.parse("throughput >= 99% of baseline").bound_in("MB/s", 200.0)
        198.0
        """
        match = _FORM.fullmatch(text)
        try:
            bound = float(match[3] or 100) if match else None
        except ValueError:
            bound = None
        if match is None or bound is None or (match[5] and match[4] != "%"):
            forms = "`latency_p99 <= 5ms`, `missed <= baseline` or `throughput >= 99% of baseline`"
            raise InputError(f"`{text}` is not a constraint: write it like {forms}")
        relative = match[3] is None or match[5] is not None
        unit = "" if relative else match[4]
        return cls(match[1], match[2].startswith("<"), bound, unit, text.strip(), relative)

    def bound_in(self, unit: str, base: Any = None) -> Any:
        """Give the bound in a unit; of a relative constraint for a baseline's value, or an array of them."""
        if self.relative:
            # Few activations of many may be late in one draw and not in another.
            slack = (MISSED_SLACK if self.at_most else -MISSED_SLACK) if unit == "%" else 0.0
            return base * (self.bound / 100) + slack
        scales = _scales_of(unit)
        if self.unit not in scales:
            known = ", ".join(name for name in scales if name) or "no unit"
            raise InputError(f"`{self.text}`: {self.metric} is in {unit or 'numbers'}, not in {self.unit} ({known})")
        return self.bound * scales[self.unit]


def _scales_of(unit: str) -> dict[str, float]:
    """Give what one of each unit that a bound may have is in a metric's own; a bare number is in that."""
    kind = next((units for units in (IN_SECONDS, IN_JOULES, IN_WATTS) if unit in units), {unit: 1.0})
    return {"": 1.0, **{name: one / kind[unit] for name, one in kind.items()}}


@dataclass(frozen=True)
class Asked:
    """What a choice asks for, by the metrics that its runs have."""

    goals: list[str]
    """The first decides."""
    limits: Sequence[Constraint]
    work: list[Constraint]
    """`limits`, `work`: what was asked for; what holds by itself, so that every setting does the baseline's work."""
    bounds: list[tuple[str, Constraint]]
    """The metric of each constraint."""
    own: list[str]
    """Benchmarks' own metrics."""

    @classmethod
    def of(
        cls, goals: Sequence[str], limits: Sequence[Constraint], units: Mapping[str, tuple[str, str]], *, whole: bool
    ) -> Asked:
        """Name them; with `whole` every setting does the baseline's work."""
        own = own_metrics(units)
        metrics = goals_named(goals, units, own)
        work = of_the_work(units, own, metrics, limits) if whole else []
        bounds = [(metric_named(one.metric, list(units), own), one) for one in (*limits, *work)]
        return cls(metrics, limits, work, bounds, own)

    @property
    def counted(self) -> list[str]:
        """The metrics that were asked about."""
        return list(dict.fromkeys([*self.goals, *(metric for metric, one in self.bounds if one not in self.work)]))


def of_the_work(
    units: Mapping[str, tuple[str, str]], own: Sequence[str], goals: Sequence[str], given: Sequence[Constraint]
) -> list[Constraint]:
    """Give the constraints that hold by themselves: what the workload asks for is done, by every setting.

    No activations are missed beyond the baseline's, and the benchmark's own metric (or else the work that is done) is
    within a percent of it. A metric that decides, or has a constraint, has none of these; a later goal keeps its own.

    Parameters
    ----------
    units : mapping of str to (unit, better)
        Of each metric that was measured.
    own : sequence of str
        Benchmarks' own metrics among them.
    goals : sequence of str
    given : sequence of Constraint
    """
    done = own[0] if own else "work_done"
    texts = {"missed_activations": "missed_activations <= baseline"}
    if own and units[done][1] == "lower":
        texts[done] = f"{done} <= {100 + THROUGHPUT_SLACK:g}% of baseline"
    else:
        texts[done] = f"{done} >= {100 - THROUGHPUT_SLACK:g}% of baseline"
    taken = {*goals[:1], *(metric_named(one.metric, list(units), own) for one in given)}
    return [Constraint.parse(text) for metric, text in texts.items() if metric in units and metric not in taken]


def check(goals: Sequence[str], limits: Sequence[Constraint], own: str) -> None:
    """Refuse goals and constraints that no run of a workload can answer, before one runs.

    Parameters
    ----------
    goals : sequence of str
    limits : sequence of Constraint
    own : str
        The metric of the workload's benchmark; empty for none.

    Raises
    ------
    InputError
        An unknown metric, with the nearest; a goal of which neither more nor less is better; another unit.
    """
    asked = [*goals, *(limit.metric for limit in limits)]
    units: dict[str, tuple[str | None, str]] = {
        one.name: (one.unit, one.better) for one in METRICS if not any(map(str.isupper, one.name))
    }
    units |= {
        one.name.replace("PERCENTILE", name): (one.unit, one.better)
        for one in METRICS
        for name in PERCENTILES
        if "PERCENTILE" in one.name
    }
    # What has the name of a cluster or a group is known to its runs.
    units |= {name: (one.unit, one.better) for name in asked if ":" in name and (one := find(name)) is not None}
    # Its unit is known when work is.
    units |= {ENERGY_PER_WORK: (None, "lower"), POWER_AT_EQUAL_WORK: ("W", "lower")}
    units |= {one.name: (one.unit, one.better) for one in of_models() if one.name == own}
    named = [own] if own else []
    check_units(goals, limits, units, named)


def check_timed(goals: Sequence[str], limits: Sequence[Constraint], workload: Mapping[str, Any]) -> None:
    """Refuse what only activations have, where no timer begins one: responses, and missed work as a goal.

    That none is missed holds of a workload without activations, too.

    Parameters
    ----------
    workload : mapping
        As a case's JSON has it.

    Examples
    --------
    >>> check_timed(["missed"], [], {"tasks": [{"ops": [["run", 5, 0], ["activation", 0, True]]}]})
    >>> check_timed(["missed"], [], {"tasks": [{"ops": [["run", 5, 0], ["activation", 0, False]]}]})
    Traceback (most recent call last):
    ...
    opplab.errors.InputError: no task waits for a timer, so that nothing is due: no run has missed
    """
    if any(op[0] == "activation" and op[2] for task in workload["tasks"] for op in task["ops"]):
        return
    of_goals = [name for name in goals if ALIASES.get(name, name).startswith(("missed", "response"))]
    of_limits = [one.metric for one in limits if ALIASES.get(one.metric, one.metric).startswith("response")]
    if asked := list(dict.fromkeys([*of_goals, *of_limits])):
        waits = "; latency_p99 is from a wake-up until the task runs" if "response" in " ".join(asked) else ""
        raise InputError(f"no task waits for a timer, so that nothing is due: no run has {', '.join(asked)}{waits}")


def check_units(
    goals: Sequence[str], limits: Sequence[Constraint], units: Mapping[str, tuple[str | None, str]], own: Sequence[str]
) -> None:
    """Refuse goals that have no better side, and constraints in another unit than the metric's."""
    goals_named(goals, units, own)
    for limit in limits:
        unit = units[metric_named(limit.metric, list(units), own)][0]
        if unit is not None:
            limit.bound_in(unit, 1.0)


def goals_named(names: Sequence[str], units: Mapping[str, tuple[str | None, str]], own: Sequence[str]) -> list[str]:
    """Give the metrics of goals, each once, of which more or less is better.

    Energy counts by unit of work, so that work that is not done is not saved energy.
    """
    found = [metric_named(name, list(units), own) for name in names]
    metrics = dict.fromkeys(ENERGY_PER_WORK if one == "energy" and ENERGY_PER_WORK in units else one for one in found)
    for metric in metrics:
        if not units[metric][1]:
            raise InputError(f"neither more nor less of `{metric}` is better, so it is no goal")
    return list(metrics)


def metric_named(name: str, known: Sequence[str], own: Sequence[str]) -> str:
    """Give the metric that somebody means; ``throughput`` is the benchmark's own where it has one.

    Raises
    ------
    InputError
        With the nearest metric.
    """
    if name == "throughput" and own:
        return own[0]
    metric = name if name in own else ALIASES.get(name, name)
    if metric not in known:
        every = [*known, *(alias for alias, meant in ALIASES.items() if meant in known)]
        hint = nearest(name, every) or "; `opplab list metrics` has all"
        raise InputError(f"there is no metric `{name}` in these runs{hint}")
    return metric


def needs_latencies(names: Sequence[str]) -> bool:
    """Report whether one of the metrics is how long tasks wait."""
    return any(ALIASES.get(name, name).startswith(("latency", "response")) for name in names)


def own_metrics(units: Iterable[str]) -> list[str]:
    """Give those of some metrics that are a benchmark's own."""
    known = {one.name for one in of_models()}
    return [name for name in units if name in known]
