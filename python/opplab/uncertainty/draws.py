"""Draws of a sweep's assumptions: cases with other numbers from the machines' ranges, and what came of them.

Draws are a Latin hypercube (scipy), the same for all policies, loads and workloads of a machine. The file's own numbers
are the first; each other draw runs two iterations of each point, by turns: two, so that what the runs vary by can be
separated from what the draw does. N draws cost at most as much as N sweeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import InputError, OpplabError
from opplab.simulation.cases import Case
from opplab.simulation.ranges import Assumption, assumptions_of, with_draw
from opplab.simulation.work import with_energy_per_work
from opplab.uncertainty import DRAWS_MAX

if TYPE_CHECKING:
    from opplab.sweep.constants import Constants
    from opplab.sweep.runner import Tally
    from opplab.sweep.store import Store


Point = tuple[str, str, str]
"""Machine, benchmark, parameters."""


def latin_hypercube(draws: int, dimensions: int, seed: int) -> Any:
    """Give shares of probability: a row a draw, a column an assumption; every column covers its range evenly."""
    import numpy as np
    from scipy.stats import qmc

    if not dimensions:
        return np.zeros((draws, 0))
    return qmc.LatinHypercube(d=dimensions, seed=np.random.default_rng(seed)).random(draws)


@dataclass
class Values:
    """What was measured at a point under a policy: by iteration at the file's own numbers, and by draw."""

    own: dict[int, float] = field(default_factory=dict)
    drawn: dict[int, dict[int, float]] = field(default_factory=dict)
    """Draw -> iteration -> value."""

    def in_order(self) -> Values:
        """Give the same in order: runs end in any, on which the last digits of their sums would depend."""
        drawn = {draw: dict(sorted(values.items())) for draw, values in sorted(self.drawn.items())}
        return Values(dict(sorted(self.own.items())), drawn)

    def shifts(self) -> dict[int, list[float]]:
        """By draw: the values less those of the same iterations at the file's own numbers."""
        found = {
            draw: [value - self.own[at] for at, value in values.items() if at in self.own]
            for draw, values in self.drawn.items()
        }
        return {draw: shifts for draw, shifts in found.items() if shifts}

    def change_from(self, base: Values, *, in_points: bool = False) -> Values:
        """Give the change against a baseline by iteration and by draw, each with its own partner.

        It is in percent, or `in_points`, which shares have: near 0 their ratios are anything.
        """
        if in_points:
            return base.less_than(self)
        return self._with(base, lambda value, theirs: 100 * (value / theirs - 1) if theirs else None)

    def less_than(self, base: Values) -> Values:
        """Give how much less than a baseline it is, by iteration and by draw, each with its own partner."""
        return self._with(base, lambda value, theirs: theirs - value)

    def _with(self, base: Values, of: Callable[[float, float], float | None]) -> Values:
        """Give what comes of each value and its partner, where that is something."""

        def each(ours: Mapping[int, float], theirs: Mapping[int, float]) -> dict[int, float]:
            pairs = ((at, of(value, theirs[at])) for at, value in ours.items() if at in theirs)
            return {at: found for at, found in pairs if found is not None}

        shared = [draw for draw in self.drawn if base.drawn.get(draw)]
        return Values(each(self.own, base.own), {draw: each(self.drawn[draw], base.drawn[draw]) for draw in shared})


RUNS_OF_DRAW = 2
"""Iterations of each point that run at every draw but the file's own numbers, if there are so many."""


@dataclass
class Draws:
    """The draws of a sweep."""

    assumptions: dict[str, list[Assumption]]
    """By machine."""
    shares: dict[str, Any]
    """By machine, a row a draw."""
    cases: list[tuple[int, Case]]
    """Draw (from 1) and case."""
    seed: int
    own: Sequence[Case] = ()
    """Those at the file's own numbers."""
    constants: Constants | None = None
    """Those of benchmark models."""

    @classmethod
    def of(cls, cases: Sequence[Case], number: int, seed: int, constants: Constants | None = None) -> Draws:
        """Draw for the cases of a sweep.

        Parameters
        ----------
        cases : sequence of Case
            At the file's own numbers.
        number : int
            Draws, with that of the file's own numbers.
        seed : int
            Of the hypercube.
        constants : Constants, optional
            Those of benchmark models.
        """
        if not 2 <= number <= DRAWS_MAX:
            raise InputError(f"{number} draws are not possible: give 2 to {DRAWS_MAX}")
        machines: dict[str, dict[str, Any]] = {}
        for case in cases:
            if case.machine not in machines:
                machines[case.machine] = case.file["machine"]
        free = [] if constants is None else constants.assumptions
        ranged = {name: [*assumptions_of(machine), *free] for name, machine in machines.items()}
        made = cls(ranged, {}, [], seed, own=cases, constants=constants)
        for name, assumptions in made.assumptions.items():
            made.shares[name] = latin_hypercube(number - 1, len(assumptions), seed)
        drawn = {name: made._machines(name, machine, len(free)) for name, machine in machines.items()}
        iterations: dict[tuple[Point, str], list[Case]] = {}
        for case in cases:
            iterations.setdefault((case.point, case.policy), []).append(case)
        for draw in range(1, number):
            others: dict[str, dict[tuple[str, ...], Case]] = {}
            if constants is not None and free:
                for name, shares in made.shares.items():
                    rebuilt = constants.rebuilt(constants.at(shares[draw - 1][-len(free) :]))
                    others[name] = {_place(case): case for case in rebuilt if case.machine == name}
            for ((machine, _, _), _), group in iterations.items():
                text = drawn[machine].get(draw)
                if text is not None:
                    first = RUNS_OF_DRAW * (draw - 1)
                    places = dict.fromkeys(at % len(group) for at in range(first, first + RUNS_OF_DRAW))
                    own = others.get(machine, {})
                    made.cases += [
                        (draw, _on_machine(own.get(_place(group[at]), group[at]), text, group[at])) for at in places
                    ]
        return made

    def at_ends(self, asked: Mapping[tuple[str, str], Collection[tuple[Point, str]]]) -> Draws:
        """Give draws of one number each, all else as the files have it: first its lower end, then its upper.

        Parameters
        ----------
        asked : mapping
            (Machine, key of an assumption) -> points and policies whose first two iterations run there.
        """
        made: list[tuple[int, Case]] = []
        draw = 0
        for (name, key), wanted in asked.items():
            of: dict[tuple[str, ...], list[Case]] = {}
            for case in self.own:
                if (case.point, case.policy) in wanted:
                    of.setdefault(_place(case)[:3], []).append(case)
            chosen = [case for cases in of.values() for case in cases[:2]]
            one = next(one for one in self.assumptions[name] if one.key == key)
            for share in (0.0, 1.0):
                draw += 1
                made += [(draw, case) for case in self._at(one, share, chosen)]
        return Draws(self.assumptions, {}, made, self.seed)

    def _at(self, one: Assumption, share: float, cases: Sequence[Case]) -> list[Case]:
        """Give cases with one number at a share of its range."""
        free = [] if self.constants is None else self.constants.assumptions
        if self.constants is not None and one in free:
            others = self.constants.rebuilt(self.constants.with_one(one, share))
            rebuilt = {(case.machine, *_place(case)): case for case in others}
            pairs = [(rebuilt[case.machine, *_place(case)], case.file["machine"], case) for case in cases]
        else:
            pairs = [(case, with_draw(case.file["machine"], [one], [share]), case) for case in cases]
        return [_on_machine(*pair) for pair in pairs]

    def _machines(self, name: str, machine: Mapping[str, Any], free: int) -> dict[int, Any]:
        """Give the machine at each draw, whose last `free` numbers are not its; one that is no machine is left out."""
        assumptions = self.assumptions[name]
        if not assumptions:
            return {}
        own = assumptions[: len(assumptions) - free]
        rows = enumerate(self.shares[name], start=1)
        return {draw: with_draw(machine, own, shares[: len(own)]) for draw, shares in rows}


def _place(case: Case) -> tuple[str, ...]:
    return case.policy, case.benchmark, case.param, str(case.iteration)


def _on_machine(case: Case, machine: Mapping[str, Any], like: Case) -> Case:
    """Give the program of a case on another machine; all else is that of the case that it is like."""
    whole = {**like.file, "workload": case.file["workload"], "machine": machine}
    return Case.of(_opplab.Case.from_json(json.dumps(whole)))


def collected(
    rows: Iterable[Mapping[str, Any]],
    into: dict[tuple[Point, str, str], Values],
    metrics: Callable[[str], bool],
    draw: int = 0,
) -> None:
    """Sort rows into values by (point, policy, metric)."""
    for row in rows:
        if row["value"] is None or not metrics(row["metric"]):
            continue
        key = ((row["machine"], row["benchmark"], row["param"]), row["policy"], row["metric"])
        values = into.setdefault(key, Values())
        if draw:
            values.drawn.setdefault(draw, {})[row["iteration"]] = row["value"]
        else:
            values.own[row["iteration"]] = row["value"]


def run_draws(
    draws: Draws,
    into: dict[tuple[Point, str, str], Values],
    metrics: Callable[[str], bool],
    *,
    store: Store | None = None,
    executor: Executor | None = None,
    jobs: int = 1,
    latencies: bool = False,
    progress: Callable[[Tally], None] | None = None,
) -> Tally:
    """Run the cases of all draws, and sort their rows into `into`.

    With `latencies` runs measure how long tasks wait; what is in the store without that runs again.
    """
    from opplab.sweep.runner import run_cases

    at = {case.hash: draw for draw, case in draws.cases}
    there = store.whole(at) if store else set()
    if store and latencies:
        without = {one for one in there if not any(row[0].startswith("latency_") for row in store.measured(one).rows)}
        store.drop(without)
        there -= without
    tally = run_cases(
        [case for _, case in draws.cases],
        store,
        executor=executor,
        jobs=jobs,
        latencies=latencies,
        progress=progress,
        keep=lambda case, found: collected(with_energy_per_work(found.dicts()), into, metrics, at[case.hash]),
    )
    if tally.problems:
        raise OpplabError(f"{tally.failed} of {tally.total} cases failed: {tally.problems[0]}")
    if store:
        for _, case in draws.cases:
            if case.hash in there:
                rows = store.measured(case.hash).dicts()
                collected(with_energy_per_work(rows), into, metrics, at[case.hash])
    return tally
