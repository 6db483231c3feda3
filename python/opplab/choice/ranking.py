"""The settings of a choice ranked by what their runs gave, with what the ranking hangs on.

How probable it is that a setting is the best comes from drawing again and again: the runs by bootstrap over the seeds,
the assumptions from their draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.choice.answer import LATER, Choice, Option, as_printed, runners_up
from opplab.choice.settings import Setting, commands_of
from opplab.comparison.method import events_in
from opplab.metrics import events_of
from opplab.report.numbers import quantity, several
from opplab.report.start import COLD_NS, FIRST_IDLE, cold_reason, cold_waits, in_first_idle, read_changes
from opplab.runs import SHARES
from opplab.simulation.policy import Policy
from opplab.simulation.power import is_of_power, why_unknown
from opplab.simulation.work import POWER_AT_EQUAL_WORK
from opplab.summary.answer import PAIRS, ends, never_finished, periods_together, start_of, start_up, whole_of
from opplab.sweep.missing import assumed_preferences, changes_unknown_idle
from opplab.uncertainty.causes import Causes
from opplab.uncertainty.draws import RUNS_OF_DRAW, Draws, Point, Values
from opplab.uncertainty.ends import Hanging, moving
from opplab.uncertainty.parts import Parts, without_runs
from opplab.uncertainty.sweep import causes_of, change_of, saving_of

if TYPE_CHECKING:
    from opplab.choice.cases import Program
    from opplab.choice.criteria import Asked, Constraint


RESAMPLES = 2000
MISSED = "missed_activations"


class Ranking:
    """Settings of one choice and their runs.

    Parameters
    ----------
    settings : mapping of str to Setting
        By label; the first is the baseline. Those whose runs are another's are left to that one.
    asked : Asked
    values : mapping
        Of each setting and metric, at the machine file's numbers and, with `draws`, at each draw.
    units : mapping of str to (unit, better)
    draws : Draws or None
    point : (str, str, str)
        Machine, benchmark and parameters.
    begun_ns : int
        When the last task begins.
    """

    def __init__(
        self,
        program: Program,
        settings: Mapping[str, Setting],
        asked: Asked,
        values: Mapping[tuple[Point, str, str], Values],
        units: Mapping[str, tuple[str, str]],
        draws: Draws | None,
        point: Point,
        begun_ns: int,
    ) -> None:
        self.begun_ns = begun_ns
        self.program, self.base, self.asked, self.point = program, program.bases[0], asked, point
        self.twins = _twins(values, point, list(settings))
        self.labels = list(self.twins)
        self.settings = {label: settings[label] for label in self.labels}
        # What load tracking misses while it starts from 0 is no setting's work.
        self.values = {**values, **_later_misses(values, point, self.labels)}
        self.units = {**units, LATER: ("%", "lower")}
        settled = self.base["duration_ns"] >= 2 * COLD_NS
        self.bounds = [(LATER if settled and name == MISSED else name, one) for name, one in asked.bounds]
        self.draws = draws
        self.assumed = draws if draws is not None and any(draws.assumptions.values()) else None
        self.goal = asked.goals[0]
        applied = {label: one.applied(self.base["policy"], label) for label, one in self.settings.items()}
        first = applied[self.labels[0]]
        self.no_idle = {label for label, one in applied.items() if changes_unknown_idle(program.machine, first, one)}
        one = replace(program, bases=program.bases[:1])
        cases = one.cases(list(self.settings.values()), self.labels, Policy.variation)
        self.preferences = {case.policy: assumed_preferences(case) for case in cases}
        self.unranked = bool(program.recorded.get("fixed_speed")) and _clocks_differ(list(self.settings.values()))

    def _of(self, label: str, metric: str) -> Values:
        return self.values[self.point, label, metric]

    @cached_property
    def latencies(self) -> Sequence[str]:
        """The waits that are shown beside what was asked for."""
        # With deadlines the time from the timer to the end of the work counts, as in the answer of a run.
        whole = [
            pair
            for pair in PAIRS.values()
            if all((self.point, one, name) in self.values for one in self.labels for name in pair)
        ]
        return whole[0] if whole and not self.asked.own else ()

    @cached_property
    def shown(self) -> list[str]:
        """The metrics that the answer shows, those that were asked for first."""
        done = self.asked.own[0] if self.asked.own else "work_done"
        # Without an activation nothing can be missed, and a share of 0 would be read as work done in time.
        due = any(any(self._of(label, "activations").own.values()) for label in self.labels)
        missed = [MISSED] if due else []
        beside = [name for name in (done, "energy", "power", *missed, *self.latencies) if name in self.units]
        return list(dict.fromkeys([*self.asked.counted, *beside]))

    def choice(self, iterations: int, drawn: Callable[[Draws, dict[tuple[Point, str, str], Values]], None]) -> Choice:
        """Give the answer; `drawn` runs the draws that it still takes to see what the first place hangs on."""
        program, asked = self.program, self.asked
        ranked, number = self._options()
        gap, hangs = self._gap(ranked, drawn)
        policies = {one.label: one.setting.applied(self.base["policy"], one.label) for one in ranked}
        others = ""
        if self.draws is not None:
            each = min(iterations, RUNS_OF_DRAW)
            others = f", and {each} at each of {several(len(self.draws.shares[self.point[0]]), 'other draw')}"
        choice = Choice(
            options=ranked,
            metrics=asked.counted,
            beside=[metric for metric in self.shown if metric not in asked.counted],
            baseline=self.labels[0],
            goals=asked.goals,
            units={metric: self.units[metric] for metric in self.shown},
            constraints=[limit.text for limit in asked.limits],
            work=[limit.text for limit in asked.work],
            idle=[
                (limit.text, metric)
                for metric, limit in self.bounds
                if len({option.parts[metric].value for option in ranked}) == 1
            ],
            gap=gap,
            check=program.check,
            energy_error=program.energy_error,
            unranked=self.unranked,
            assumed_power=bool(program.recorded.get("assumed_power")),
            next_step=program.sources,
            hangs=hangs,
            against_next=self._against_next(ranked),
            assumptions={
                one.key: one.words for one in (self.assumed.assumptions[self.point[0]] if self.assumed else ())
            },
            facts=[*program.about, ("runs of each setting", f"{iterations}{others}")],
            iterations=iterations,
            undrawn=self.draws is None,
            samples=(number, "draws" if self.assumed else "runs"),
            notes=self._notes(ranked, policies),
        )
        # The metrics that decide, and those whose changes are read.
        columns = choice.compared(self.shown)
        changed = [(name, one.changes[name]) for one in ranked for name in columns if name in one.changes]
        read = read_changes((name, each.value, each.certainty.words) for name, each in changed)
        limited = (metric for metric, one in self.bounds if one in asked.limits)
        judged = dict.fromkeys([*asked.goals, *limited, *read, *choice.priced(), *choice.priced_against_next()])
        workload = self.base["workload"]
        longer = not program.check and not ends(workload)
        governors = [policy["governor"] for policy in policies.values()]
        waits = cold_waits(judged, workload, self.base["duration_ns"], governors, longer=longer)
        start = start_of(workload, self.base["duration_ns"], self.begun_ns, longer=longer)
        return replace(choice, cold=waits, start=start)

    def _options(self) -> tuple[list[Option], int]:
        """Give the settings, the best first, and how many draws or runs their probabilities are of."""
        equal = [POWER_AT_EQUAL_WORK] if (self.point, self.labels[0], POWER_AT_EQUAL_WORK) in self.values else []
        bound = [MISSED, *(metric for metric, _ in self.bounds)]
        used = dict.fromkeys([*self.shown, *equal, *(metric for metric in bound if metric in self.units)])
        found = {metric: [self._of(label, metric) for label in self.labels] for metric in used}
        samples = {name: _samples(one, self.assumed, self.units[name][0] == "%") for name, one in found.items()}
        feasible, kept, winners = _judged(samples, self.bounds, self.units, self.goal)
        # Settings that are equal to the printed digits share a sample. They are ranked by how often none is better: by
        # their shares a worse one could win.
        shares = winners / np.maximum(winners.sum(axis=1, keepdims=True), 1)
        deciding = {self.goal, *(metric for metric, _ in self.bounds)}
        singles = _singles({metric: found[metric] for metric in deciding}, self.assumed)
        keeps, _, wins_of = _judged(singles, self.bounds, self.units, self.goal)
        alone = wins_of & (wins_of.sum(axis=1, keepdims=True) == 1)
        parts = [self._parts(label, used) for label in self.labels]
        meets = [float(one) for one in feasible.mean(axis=0)]
        # As good is what is printed the same, keeps the constraints, and is the best in the same draws.
        wins = [
            (_printed(parts[at][self.goal]), meets[at] >= 0.5, winners[:, at].tobytes() if winners[:, at].any() else at)
            for at in range(len(parts))
        ]
        excess = [{limit: self._excess(one, parts[0], metric, limit) for metric, limit in self.bounds} for one in parts]
        broken = [[limit for limit in kept if kept[limit][at] < 0.5] for at in range(len(parts))]
        options = [
            Option(
                setting,
                label,
                parts[at],
                float(shares[:, at].mean()),
                meets[at],
                commands_of(setting, self.program.machine, self.base["policy"]),
                [limit.text for limit in broken[at]],
                self._parts(label, used, self.labels[0]) if at else {},
                self.twins[label],
                [other for one, other in enumerate(self.labels) if one != at and wins[one] == wins[at]],
                saved=self._saved(label) if at and equal else None,
                kept_by_means=[limit.text for limit in broken[at] if excess[at][limit] <= 0],
                broken_by_means=[limit.text for limit in kept if limit not in broken[at] and excess[at][limit] > 0],
                ties=float(winners[:, at].mean()),
                single=(int(alone[:, at].sum()), int(wins_of[:, at].sum()), int(keeps[:, at].sum())),
            )
            for at, (label, setting) in enumerate(self.settings.items())
        ]
        return self._in_order(options, [max([0.0, *one.values()]) for one in excess], len(keeps)), len(keeps)

    def _in_order(self, options: list[Option], excess: Sequence[float], number: int) -> list[Option]:
        """Give them the best first, by what is printed of `number` runs or draws.

        `excess` is the share of its bound by which each breaks what it breaks most.
        """
        if self.unranked:
            return options
        sign = 1.0 if self.units[self.goal][1] == "lower" else -1.0

        def rank(at: int) -> tuple[bool, float, float, float]:
            one = options[at]
            breaks = one.meets < 0.5
            # Of equal ones the first that was named, which is the baseline if it is one of them.
            last = sign * float(_printed(one.parts[self.goal]))
            tied = one.single[1] if one.single else 0
            return breaks, excess[at] if breaks else 0.0, -as_printed(one.ties, number, tied, tied), last

        return [options[at] for at in sorted(range(len(options)), key=rank)]

    def _parts(self, label: str, metrics: Iterable[str], base: str = "") -> dict[str, Parts]:
        """Give each metric of a setting, with its interval; or its change against a base, of shares in points."""
        out = {}
        for metric in metrics:
            ours, theirs = self._of(label, metric), self._of(base, metric) if base else None
            unit, better = self.units[metric]
            if (
                theirs is not None
                and unit not in SHARES
                and min([*ours.own.values(), *theirs.own.values()], default=0.0) <= 0
            ):
                # A change from 0, or to it, has no percentage.
                continue
            events = self._events(metric, label, base) if base else math.inf
            if (found := change_of(ours, theirs, better, unit=unit, events=events)) is not None:
                out[metric] = found[0]
                if base and (why := self._why_unknown(metric, base, label)):
                    out[metric] = replace(found[0], low=None, high=None, unknown=why)
        for p50, p99 in (pair for pair in PAIRS.values() if not base and out.keys() >= {*pair}):
            out[p50] = _at_most(out[p50], out[p99])
        return out

    def _why_unknown(self, metric: str, *labels: str) -> str:
        """Give why no interval holds how far two settings are apart; empty where one does."""
        preferences = {self.preferences[label] for label in labels}
        return why_unknown(len(preferences) > 1, is_of_power(metric) and not self.no_idle.isdisjoint(labels))

    def _events(self, metric: str, *labels: str) -> float:
        """Give how many events a metric of some settings is a share of, of the one with fewest."""
        counts = (self.values.get((self.point, label, events_of(metric)), Values()) for label in labels)
        return events_in(*(one.own.values() for one in counts))

    def _saved(self, label: str) -> Parts | None:
        """Give the power at equal work that a setting saves, in W."""
        base, ours = (self._of(one, POWER_AT_EQUAL_WORK) for one in (self.labels[0], label))
        found = saving_of(ours, base)
        if found is not None and (why := self._why_unknown(POWER_AT_EQUAL_WORK, self.labels[0], label)):
            return replace(found, low=None, high=None, unknown=why)
        return found

    def _excess(
        self, parts: Mapping[str, Parts], baseline: Mapping[str, Parts], metric: str, limit: Constraint
    ) -> float:
        """Give the share of its bound by which means break a constraint; 0 or less where they keep it."""
        bound = limit.bound_in(self.units[metric][0], baseline[metric].value)
        away = parts[metric].value - bound
        found: float = round((away if limit.at_most else -away) / max(abs(bound), 1e-12), 6)
        return found

    def _against_next(self, ranked: Sequence[Option]) -> dict[str, Parts]:
        """Give how far response times of the first setting are off those of the next one."""
        rest = runners_up(ranked)
        if not rest or self.unranked:
            return {}
        shown = [metric for metric in PAIRS["response"] if metric in self.shown]
        return self._parts(ranked[0].label, shown, rest[0].label)

    def _gap(
        self, ranked: Sequence[Option], drawn: Callable[[Draws, dict[tuple[Point, str, str], Values]], None]
    ) -> tuple[Parts | None, Causes]:
        """Give by how much the next setting is off from the first (a share in points), and what this hangs on."""
        rest = runners_up(ranked)
        if not rest or self.unranked:
            return None, Causes()
        unit, better = self.units[self.goal]
        labels = rest[0].label, ranked[0].label
        ours, theirs = (self._of(label, self.goal) for label in labels)
        found = change_of(ours, theirs, better, unit=unit, events=self._events(self.goal, *labels))
        if found is None:
            return None, Causes()
        gap, shifts = found
        if why := self._why_unknown(self.goal, *labels):
            gap = replace(gap, low=None, high=None, unknown=why)
        if self.assumed is None or why:
            return gap, Causes()
        hangs = causes_of(self.assumed, self.point[0], gap, shifts, True)
        asked = Hanging(self.point, self.goal, ranked[0].label, rest[0].label, hangs, gap.unit == "points")
        idle = {(at, label) for at, label, _ in self.values if at != self.point}
        beside = {(self.point, self.labels[0]), *idle} if self.goal == POWER_AT_EQUAL_WORK else ()
        return gap, moving(self.assumed, [asked], self.values, drawn, beside)[0]

    def _notes(self, ranked: Sequence[Option], policies: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Give what the numbers are of, for the last line."""
        cold = [
            policies[option.label]["governor"]
            for metric, _ in self.bounds
            for option in ranked
            if metric == LATER and option.parts[LATER].value < option.parts[MISSED].value
        ]
        why = cold_reason(cold)
        mine = {key[1:]: found for key, found in self.values.items() if key[0] == self.point and key[1] in self.labels}
        runs: dict[tuple[str, int], dict[str, float | None]] = {}
        for (label, metric), found in mine.items():
            for iteration, value in found.own.items():
                runs.setdefault((label, iteration), {})[metric] = value

        def own(metric: str) -> dict[str, list[float]]:
            lists = {label: list(mine.get((label, metric), Values()).own.values()) for label in policies}
            return {label: one for label, one in lists.items() if one}

        workload = self.base["workload"]
        metered = "watts are the sum of the clusters' meters, without the rest of the machine"
        unfinished = own("unfinished_activations") if any(name.startswith("response_") for name in self.shown) else {}
        late = [label for label in self.labels if any(unfinished.get(label, ()))]
        notes = [
            metered if "power" in self.shown or "energy" in self.shown else "",
            start_up([(workload, self.base["duration_ns"], self.begun_ns)]),
            whole_of({"": runs.values()}, {"": workload}),
            periods_together(workload) if self.latencies else "",
            f"missed counts the first {COLD_NS / 1e9:g} s, too{why}; these leave no setting out" if cold else "",
            never_finished(late) if late else "",
            in_first_idle(
                {label: fmean(shares) for label, shares in own(FIRST_IDLE).items()},
                {label: policy["idle_governor"] for label, policy in policies.items()},
            ),
        ]
        return list(filter(None, notes))


def _at_most(p50: Parts, p99: Parts) -> Parts:
    """Give a median whose interval ends where that of the p99 does at the latest: no run has it above its own p99."""
    most = p99.value if p99.high is None and not p99.varies else p99.high
    return p50 if p50.high is None or most is None else replace(p50, high=min(p50.high, most))


def _printed(parts: Parts) -> str:
    return quantity(parts.value)


def _later_misses(
    values: Mapping[tuple[Point, str, str], Values], point: Point, labels: Sequence[str]
) -> dict[tuple[Point, str, str], Values]:
    """Give the activations that were missed after the start of the runs, in percent."""
    out = {}
    for label in labels:
        every = values.get((point, label, MISSED))
        if every is None:
            continue
        # Runs of older versions have no row of it where there is no such miss.
        cold = values.get((point, label, "missed_at_start"), Values())
        own = {at: value - cold.own.get(at, 0.0) for at, value in every.own.items()}
        drawn = {
            draw: {at: value - cold.drawn.get(draw, {}).get(at, 0.0) for at, value in found.items()}
            for draw, found in every.drawn.items()
        }
        out[point, label, LATER] = Values(own, drawn)
    return out


def _clocks_differ(settings: Sequence[Setting]) -> bool:
    """Report whether settings differ in more than the idle governor, so that their clocks may."""
    keys = [{**dict(one.keys), "tunables": one.tunables} for one in settings]
    names = {name for one in keys for name in one} - {"idle_governor"}
    return any(one.get(name) != keys[0].get(name) for one in keys for name in names)


def _twins(
    values: Mapping[tuple[Point, str, str], Values], point: Point, labels: Sequence[str]
) -> dict[str, list[str]]:
    """Give the first setting of each group whose runs are the same, in all iterations and draws, and the others."""
    metrics = {metric for at, _, metric in values if at == point}
    twins: dict[str, list[str]] = {}
    for label in labels:
        for first, others in twins.items():
            if all(values.get((point, label, metric)) == values.get((point, first, metric)) for metric in metrics):
                others.append(label)
                break
        else:
            twins[label] = []
    return twins


def _half_a_digit(values: Any) -> Any:
    """Give half of the last of the four digits that are printed of a value."""
    size = np.abs(values)
    return 0.5 * 10.0 ** (np.floor(np.log10(np.where(size > 0, size, 1.0))) - 3) * (size > 0)


def _judged(
    samples: Mapping[str, Any],
    bounds: Sequence[tuple[str, Constraint]],
    units: Mapping[str, tuple[str, str]],
    goal: str,
) -> tuple[Any, dict[Constraint, Any], Any]:
    """Give which settings keep all constraints, the share of samples with each, and which settings none is better than.

    A row a sample, a column a setting.
    """
    feasible = np.ones_like(samples[goal], dtype=bool)
    kept = {}
    for metric, limit in bounds:
        # The first setting is the baseline, in every sample its own.
        bound = limit.bound_in(units[metric][0], samples[metric][:, :1])
        holds = samples[metric] <= bound if limit.at_most else samples[metric] >= bound
        kept[limit] = holds.mean(axis=0)
        feasible &= holds
    sign = 1.0 if units[goal][1] == "lower" else -1.0
    cost = np.where(feasible, sign * samples[goal], math.inf)
    best = cost.min(axis=1, keepdims=True)
    winners = feasible & (cost <= best + _half_a_digit(np.where(np.isfinite(best), best, 0.0)))
    return feasible, kept, winners


def _singles(metrics: Mapping[str, Sequence[Values]], draws: Draws | None) -> dict[str, Any]:
    """Give metrics of settings by what agrees or not: a row a run or, with draws, a draw, the file's own the first."""
    every = [one for settings in metrics.values() for one in settings]
    iterations = sorted(set.intersection(*(set(one.own) for one in every)))
    drawn = sorted(set.intersection(*(set(one.drawn) for one in every))) if draws is not None else []

    def rows(one: Values) -> list[float]:
        if draws is None:
            return [one.own[at] for at in iterations]
        return [float(np.mean(list(runs.values()))) for runs in (one.own, *(one.drawn[draw] for draw in drawn))]

    return {metric: np.array([rows(one) for one in settings]).T for metric, settings in metrics.items()}


def _samples(settings: Sequence[Values], draws: Draws | None, share: bool) -> Any:
    """Give what the means of a metric may be: a row a sample, a column a setting.

    A sample has one draw of the iterations (with repetition) and one of the assumptions, the same for all settings. A
    share of missed work is 0 in most draws and more in a few: drawn together, as other metrics are, it would be above
    0 in all.
    """
    rng = np.random.default_rng(1)
    iterations = sorted(set.intersection(*(set(one.own) for one in settings)))
    own = np.array([[one.own[at] for at in iterations] for one in settings])
    picks = rng.integers(0, len(iterations), size=(RESAMPLES, len(iterations)))
    means = own[:, picks].mean(axis=2).T
    shifts = [one.shifts() for one in settings]
    shared = sorted(set.intersection(*(set(one) for one in shifts))) if draws is not None else []
    if not shared:
        return means
    drawn = [[one[draw] for draw in shared] for one in shifts]
    moved = np.array([[np.mean(runs) for runs in one] if share else without_runs(one) for one in drawn])
    # The machine's own numbers are a draw, too, which shifts nothing: words and tables count it.
    moved = np.hstack([np.zeros((len(settings), 1)), moved])
    return means + moved[:, rng.integers(0, len(shared) + 1, size=RESAMPLES)].T
