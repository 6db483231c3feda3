"""Tunables that are searched for: differential evolution (scipy) over whole numbers on a logarithmic scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import differential_evolution

from opplab.choice.criteria import Asked, Constraint
from opplab.choice.settings import Setting, has_tunable
from opplab.errors import InputError

if TYPE_CHECKING:
    from opplab.choice.choose import _Runner


KEPT = 2
"""Settings of each governor that a search gives back."""

POPULATION = 8
BROKEN = 10.0
"""How much worse a setting counts that breaks a constraint by its whole bound."""


def searched(
    run: _Runner,
    settings: Sequence[Setting],
    ranges: Mapping[str, tuple[int, int]],
    goals: Sequence[str],
    limits: Sequence[Constraint],
    budget: int,
    seed: int,
    *,
    whole: bool,
) -> list[Setting]:
    """Give the best settings that were found, for each governor that has one of the tunables.

    A setting is tried with all seeds at the machine file's own numbers; what breaks a constraint counts as worse by how
    far it does.
    """
    for name, (low, high) in ranges.items():
        if not 0 < low < high:
            raise InputError(f"a search needs a range above 0, lowest first: {name}={low}..{high}")
    means, units = _means(run, settings[:1])
    asked = Asked.of(goals, limits, units, whole=whole)
    bounds = [
        (metric, limit.at_most, limit.bound_in(units[metric][0], means["0", metric])) for metric, limit in asked.bounds
    ]
    aim = asked.goals[0], 1.0 if units[asked.goals[0]][1] == "lower" else -1.0

    def costs(tried: Sequence[Setting]) -> list[float]:
        return _costs(_means(run, tried)[0], len(tried), aim, bounds)

    found: list[Setting] = []
    anchors = {setting.keys: setting for setting in settings}
    for keys, anchor in anchors.items():
        governor = str(dict(keys).get("governor", ""))
        tunables = {name: ends for name, ends in ranges.items() if has_tunable(governor, name)}
        if tunables:
            fixed = tuple(pair for pair in anchor.tunables if pair[0] not in tunables)
            found += _search_one(costs, Setting(keys, fixed), tunables, budget, seed)
    if not found:
        raise InputError(f"none of the compared governors has a tunable {' or '.join(ranges)}")
    return found


def _search_one(
    costs_of: Callable[[Sequence[Setting]], list[float]],
    base: Setting,
    ranges: Mapping[str, tuple[int, int]],
    budget: int,
    seed: int,
) -> list[Setting]:
    names = list(ranges)
    costs: dict[Setting, float] = {}

    def setting_of(point: Any) -> Setting:
        numbers = [
            min(max(round(math.exp(x)), ranges[name][0]), ranges[name][1]) for name, x in zip(names, point, strict=True)
        ]
        pairs = tuple((name, str(_round_to_three(number))) for name, number in zip(names, numbers, strict=True))
        return Setting(base.keys, base.tunables + pairs)

    def cost_of(points: Any) -> Any:
        # scipy gives all points of a generation as columns.
        wanted = [setting_of(point) for point in np.atleast_2d(np.asarray(points).T)]
        new = [one for one in dict.fromkeys(wanted) if one not in costs]
        if new:
            costs.update(zip(new, costs_of(new), strict=True))
        return np.array([costs[one] for one in wanted])

    bounds = [(math.log(low), math.log(high)) for low, high in ranges.values()]
    population = max(min(POPULATION, budget), 4)
    differential_evolution(
        cost_of,
        bounds,
        maxiter=max(budget // population - 1, 0),
        init=_start(population, bounds, seed),
        vectorized=True,
        updating="deferred",
        polish=False,
        seed=np.random.default_rng(seed),
    )
    return sorted(costs, key=costs.__getitem__)[:KEPT]


def _start(population: int, bounds: Sequence[tuple[float, float]], seed: int) -> Any:

    from opplab.uncertainty.draws import latin_hypercube

    # scipy wants at least five.
    shares = latin_hypercube(max(population, 5), len(bounds), seed)
    low, high = np.array(bounds).T
    return low + shares * (high - low)


def _round_to_three(number: int) -> int:
    """Give a number with three digits: more mean nothing, and equal settings run once."""
    unit = int(10 ** max(len(str(number)) - 3, 0))
    return round(number / unit) * unit


def _means(run: _Runner, settings: Sequence[Setting]) -> tuple[dict[tuple[str, str], float], dict[str, Any]]:
    """Run settings, and give the means of each by its number and metric, and the metrics' units."""
    labels = [f"{number}" for number in range(len(settings))]
    values, units = run.own(run.program.cases(settings, labels, run.variation))
    return {
        (label, name): sum(found.own.values()) / len(found.own) for (_, label, name), found in values.items()
    }, units


def _costs(
    means: Mapping[tuple[str, str], float],
    number: int,
    aim: tuple[str, float],
    bounds: Sequence[tuple[str, bool, float]],
) -> list[float]:
    out = []
    for label in map(str, range(number)):
        metric, sign = aim
        cost = sign * means[label, metric]
        for name, at_most, bound in bounds:
            excess = (means[label, name] - bound) * (1.0 if at_most else -1.0) / max(abs(bound), 1e-12)
            cost += max(excess, 0.0) * BROKEN * abs(means[label, metric])
        out.append(cost)
    return out
