"""The answer to a choice: a ranking, a recommendation, what it hangs on."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.certainty import ITERATIONS, change_text, quantile_draws
from opplab.choice.criteria import MISSED_SLACK
from opplab.choice.page import page, pareto_picture
from opplab.files import write_text
from opplab.report.numbers import quantity, several
from opplab.report.start import COLD_NS, LITTLE, Start, in_words
from opplab.simulation.work import APART, ENERGY_PER_WORK, POWER_AT_EQUAL_WORK
from opplab.summary.answer import PAIRS, Answer, Change, Line, is_compared, same_runs, title_of
from opplab.uncertainty.causes import Causes, standing_out
from opplab.uncertainty.parts import LEVEL, Parts

if TYPE_CHECKING:
    from opplab.choice.settings import Setting


COLUMNS = (
    *("energy", "power", "energy_per_work", "missed_activations"),
    *("response_p50", "response_p99", "latency_p50", "latency_p99"),
)
"""The columns of every answer, in their order; others stand before them."""

ENERGIES = ("energy", "energy_per_work", "power", "power_at_equal_work")
"""What the error of a replay's energy is of."""

LATER = "missed_later"
"""Activations that were missed after the start of the runs, in percent of all: these count as work that is not done."""
LATER_ONLY = f"misses of the first {COLD_NS / 1e9:g} s not counted"
"""What the share leaves out."""

LEFT_OUT = 3
"""Settings that are named for doing less work."""

_MOST, _LEAST = 0.995, 0.005
"""Probabilities that round to all and none, where single runs or draws do not agree."""

SURE = 0.9
"""From this probability on a recommendation is called sure."""

# Measurements that replace an assumed number, by the end of its key.
_MEASURES = (
    (
        "idle.uw",
        "power in idle states: leave the device idle at a fixed clock and read its meter (`opplab machine import`)",
    ),
    ("uw", "power by clock: a fixed clock, one busy core, then all (`opplab fit power`)"),
    ("driver.switch_ns", "how late the clock follows: cpufreq events beside a cycle counter"),
    (
        "transition_latency_ns",
        "the time of a frequency switch: cpuinfo_transition_latency is a driver constant, not a measurement",
    ),
    ("wake_ns", "wake-up latency of each idle state (wult, or `opplab host record` under timers)"),
    ("exit_latency_ns", "wake-up latency of each idle state (wult, or `opplab host record` under timers)"),
    ("entry_latency_ns", "entry latency of each idle state (wult)"),
    ("target_residency_ns", "break-even time of each idle state, from its power and latencies"),
    ("costs", "costs of switches, wake-ups and ticks (perf bench sched, ftrace)"),
    ("capacity", "capacity of each kind of CPU: one benchmark on each, at its highest clock"),
    ("_cycles", "what the benchmark does on this machine (`opplab calibrate`)"),
    ("_us", "how long the benchmark's device takes (fio on it)"),
    ("smt_power", "power of a core with one and with two busy threads"),
    ("smt_yield", "throughput of a core with one and with two busy threads"),
)


@dataclass(frozen=True)
class Option:
    """A setting and what is known of it."""

    setting: Setting
    label: str
    parts: Mapping[str, Parts]
    """Each metric that counts, with its interval."""
    best: float
    """Probability that it is the best, to the printed digits, among those that keep the constraints. Settings that are
    equal share it, so that all together have 100 %."""
    meets: float
    """Probability that it keeps all constraints."""
    commands: Sequence[str]
    """What sets it on a device."""
    breaks: Sequence[str] = ()
    """Constraints that it does not keep in most draws."""
    kept_by_means: Sequence[str] = field(default=(), kw_only=True)
    """Those of them that its mean and the baseline's keep."""
    broken_by_means: Sequence[str] = field(default=(), kw_only=True)
    """Constraints that it keeps in most draws, although its mean does not."""
    changes: Mapping[str, Parts] = field(default_factory=dict)
    """Change of each metric against the baseline: of shares in points, of others in percent, and none from zero."""
    saved: Parts | None = field(default=None, kw_only=True)
    """Power at equal work that it saves against the baseline, in W; None where that is not known."""
    twins: Sequence[str] = ()
    """Settings whose runs are this one's: they are one candidate, which has the name of the first."""
    equals: Sequence[str] = ()
    """Settings of other runs that are as good in the deciding metric, to the printed digits, in every draw."""
    ties: float = 0.0
    """Probability that no other is better, which equal settings do not share: the order is by this."""
    single: tuple[int, int, int] | None = None
    """Runs or, with draws, draws in which it alone is the best, in which none is better, and in which it keeps all
    constraints; None where they are not known."""


@dataclass(kw_only=True)
class Choice:
    """The answer to a choice."""

    options: list[Option]
    """The best first; where they are unranked, as they were given."""
    metrics: list[str]
    """What was asked about."""
    beside: list[str] = field(default_factory=list)
    """Metrics that are shown with them: energy, and the work that is done."""
    goals: list[str]
    """What counts; the first decides."""
    baseline: str = ""
    """The setting whose work every other has to do."""
    units: dict[str, tuple[str, str]]
    """Of each metric its unit, and which side is better."""
    constraints: list[str]
    """What was asked for."""
    work: list[str] = field(default_factory=list)
    """What holds by itself, so that every setting does the baseline's work."""
    idle: list[tuple[str, str]] = field(default_factory=list)
    """Constraints on which all settings are equal, and their metric."""
    check: Sequence[str] = ()
    """How near the replay of a recording is to it, in sentences; empty without a recording."""
    energy_error: float = 0.0
    """How far the replay's energy is off the recording's, in percent: no change within it is significant. 0 where it is
    not known."""
    gap: Parts | None
    """By how much the next setting that keeps the constraints, and is not as good, is off from the first in the
    deciding metric, in percent, of a share in points; None if there is none."""
    hangs: Causes
    """What this gap hangs on."""
    against_next: Mapping[str, Parts] = field(default_factory=dict)
    """How far response times of the first setting are off those of the next one, in percent."""
    assumptions: dict[str, str]
    """Everything that was drawn, with its range."""
    facts: list[tuple[str, str]] = field(default_factory=list)
    iterations: int = ITERATIONS
    """Runs of each setting at the file's own numbers."""
    notes: Sequence[str] = ()
    """What the numbers are of, for the last line."""
    start: Start = field(default_factory=Start)
    """What the runs have of their start, which counts in all numbers."""
    cold: str = ""
    """Which of them the start of the runs may decide; empty if none."""
    boost: str = ""
    """That boost is unknown, or how many cores ran at the boost that is known of one alone; empty if neither."""
    missing: Sequence[str] = ()
    """What the numbers do not hold, in sentences."""
    of_power: Sequence[str] = ()
    """What energy and power hold beside the CPUs' work, and what they lack, in sentences."""
    unranked: bool = False
    """Whether lower clocks cost no time in the recording, so that no setting of clocks is recommended."""
    assumed_power: bool = False
    """Whether the watts are assumed, and in no draw."""
    next_step: str = ""
    """The command that has the sources of the numbers."""
    undrawn: bool = False
    """Whether no draws were asked for."""
    samples: tuple[int, str] = (1, "runs")
    """How many draws (that of the file's own numbers too) or, without draws, runs the probabilities are of."""

    def best_in(self, option: Option) -> str:
        """Give how probable it is that a setting is the best, and with ties where it has some.

        "All" and "none" are of runs or draws that agree.
        """
        alone, tied, _ = option.single or (self.samples[0], 0, 0)
        words = self.chance(option.best, alone, tied)
        with_ties = self.chance(option.ties, tied if option.single else alone, tied)
        return words if words == with_ties or option.ties <= option.best else f"{words} ({with_ties} with ties)"

    def keeps_in(self, option: Option) -> str:
        """Give how probable it is that a setting keeps all constraints."""
        keeps = option.single[2] if option.single else None
        return self.chance(option.meets, keeps, keeps or 0)

    def chance(self, probability: float, agree: int | None = None, tied: int = 0) -> str:
        """Give a probability as far as the draws (without draws: the iterations) resolve it from none and all.

        Of 16 draws that all agree nobody knows 100 %, but "all 16 draws"; see `as_printed`.
        """
        number, what = self.samples
        printed = as_printed(probability, number, agree, tied)
        if printed == 1:
            return f"all {number} {what}" if number > 1 else "the only run"
        if printed == 0:
            return f"none of {number} {what}" if number > 1 else "no run"
        return {_MOST: "over 99 %", _LEAST: "under 1 %"}.get(printed, f"{100 * printed:.0f} %")

    def _in(self, words: str) -> str:
        return f"with a probability of {words}" if "%" in words.partition(" (")[0] else f"in {words}"

    @property
    def recommended(self) -> Option | None:
        """The setting to take; None if none keeps the constraints, or if the recording cannot rank them."""
        first = self.options[0]
        return first if first.meets >= 0.5 and not self.unranked else None

    @property
    def pareto(self) -> list[Option]:
        """The settings that no other beats in all goals, by their means, among those that keep the constraints."""
        signs = [1.0 if self.units[goal][1] == "lower" else -1.0 for goal in self.goals]

        def cost(option: Option) -> list[float]:
            return [sign * option.parts[goal].value for sign, goal in zip(signs, self.goals, strict=True)]

        kept = [option for option in self.options if option.meets >= 0.5] or self.options
        costs = [cost(option) for option in kept]
        return [
            option
            for option, own in zip(kept, costs, strict=True)
            if not any(
                all(a <= b for a, b in zip(other, own, strict=True))
                and any(a < b for a, b in zip(other, own, strict=True))
                for other in costs
            )
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a setting, the best first."""
        rows = []
        for place, option in enumerate(self.options, start=1):
            known = not self.unranked
            row: dict[str, Any] = {"rank": place if known else None, "setting": option.label}
            row |= {"best": round(option.best, 4) if known else None, "ties": round(option.ties, 4) if known else None}
            if self.constraints or self.work:
                row["meets"] = round(option.meets, 4)
            for metric in (*self.metrics, *self.beside):
                parts = option.parts[metric]
                row |= {metric: parts.value, f"{metric}_low": parts.low, f"{metric}_high": parts.high}
                row |= {f"{metric}_runs": parts.runs, f"{metric}_unit": self.units[metric][0]}
            rows.append(row)
        return rows

    def text_rows(self) -> list[dict[str, str]]:
        """Give the same as text, every value with its interval."""
        rows = []
        for place, option in enumerate(self.options, start=1):
            best = "not ranked" if self.unranked else self.best_in(option)
            row = {"": str(place), "setting": option.label, "best in": best}
            if self.constraints or self.work:
                row["keeps limits in"] = self.keeps_in(option)
            for metric in (*self.metrics, *self.beside):
                row[f"{metric}, {self.units[metric][0]}"] = value_words(option.parts[metric])
            rows.append(row)
        return rows

    def values_text(self, width: int | None = None) -> str:
        """Give every value with its interval as lines for a terminal: a table a metric."""
        from opplab.report.text import render_table

        return "".join(
            f"\n{metric}, {self.units[metric][0]}\n"
            + render_table(
                [
                    {
                        "setting": option.label,
                        "value": quantity(option.parts[metric].value),
                        "interval": value_words(option.parts[metric]).partition(" ")[2],
                    }
                    for option in self.options
                ],
                "text",
                width,
            )
            for metric in (*self.metrics, *self.beside)
        )

    def block(self) -> Answer:
        """Give the block that all answers have: a line a setting, the best first, with changes against the baseline."""
        facts = dict(self.facts)
        limited = self.constraints or any(option.meets < 1 for option in self.options)
        shown = [*self.beside, *self.metrics] if self.beside else self.metrics
        order = [name for name in COLUMNS if name in shown]
        columns = [*(name for name in dict.fromkeys(shown) if name not in order), *order]
        lines = []
        for option in self.options:
            notes = {} if self.unranked else {"best in": self.best_in(option)}
            if limited:
                notes["keeps limits in"] = self.keeps_in(option)
            base = "" if self.unranked or option.label == self.baseline else self.baseline
            changes = {
                metric: Change(option.changes[metric].value, option.changes[metric].certainty)
                for metric in columns
                if base and metric in option.changes and metric in self.compared(columns)
            }
            values = {metric: option.parts[metric].value for metric in columns}
            lines.append(
                Line(facts["machine"], facts["workload"], option.label, base, self.samples[0], values, changes, notes)
            )
        limits = f", {' and '.join(self.constraints)}" if self.constraints else ""
        runs = facts.get("runs of each setting", "")
        question = (
            f"Which setting for {facts['workload']} on {facts['machine']}? Best in {title_of(self.goals[0])}{limits} "
            f"(Linux {facts['kernel profile']}, {facts['simulated time']}, runs of each: {runs})"
        )
        units = {metric: self.units[metric] for metric in columns}
        return Answer(
            question,
            "\n".join(self.findings()),
            lines,
            units,
            self._assumed(),
            " ".join([*self.missing, *self.of_power]),
            asked=self.metrics,
        )

    def compared(self, columns: Sequence[str]) -> set[str]:
        """Which columns have a change: not what follows from another and nobody asks for, nor shares in percent."""
        asked = {metric for metric in self.metrics if metric in columns and self.units[metric][0] != "%"}
        return asked | {metric for metric in columns if is_compared(metric, *self.units[metric])}

    @property
    def needs(self) -> str:
        """What intervals need that the runs do not have; empty where there are intervals."""
        if self.iterations < ITERATIONS:
            return f"{ITERATIONS} iterations"
        needed = quantile_draws(LEVEL)
        return f"{needed} draws" if self.assumptions and self.samples[0] < needed else ""

    def _assumed(self) -> str:
        told = list(filter(None, [*self.notes, self.cold]))
        drawn, covered = "no numbers were drawn", "intervals cover the runs"
        if self.assumptions:
            one = len(self.assumptions) == 1
            drawn = f"{several(len(self.assumptions), 'number')}, drawn {several(self.samples[0], 'time')}"
            covered = f"intervals cover runs and {'this' if one else 'these'}"
        covered = f"no intervals: these need {self.needs}" if self.needs else covered
        power = "the assumed power is in no draw" if self.assumed_power and self.assumptions else ""
        notes = "; ".join(filter(None, [drawn, covered, power, *told]))
        if self.iterations < ITERATIONS:
            return f"Assumed: {notes}. Next: --iterations {ITERATIONS} or more."
        step = self.next_step if self.assumptions and (power or not self.needs) else f"--uncertainty {quantile_draws()}"
        return f"Assumed: {notes}. Next: {step}."

    def findings(self) -> list[str]:
        """Describe in sentences what to do, how sure that is, and what would make it surer."""
        chosen = self.recommended
        if self.unranked:
            from opplab.trace.replayed import FIXED_SPEED

            why = f"No setting is recommended: {FIXED_SPEED}."
            how = "Rows stand as they were given. With -m MACHINE the same work runs at speeds that follow the clock."
            return [why, how, *self.boost_words(), *self.same(), *self.check]
        if chosen is None:
            every, first = " and ".join(self.kept_by_none()), self.options[0]
            nearest = f"No setting keeps {every}; the nearest is {first.label}, which does "
            nearest += f"{self._in(self.keeps_in(first))}."
            nearest += " The others follow by how far their means are beyond it." if len(self.options) > 1 else ""
            return [nearest, *self.boost_words(), *self.same(), *self._tests_nothing(), *self.check]
        others = self._other_goals(chosen)
        return [
            self._recommendation(chosen),
            *self.boost_words(),
            *self._price(),
            *self._at_equal_work(chosen),
            *others.values(),
            *self._less_by_mean(chosen),
            *self._late(chosen, others),
            *self.left_out(),
            *self.same(),
            *self._tests_nothing(),
            *self._next(),
            *self._open(chosen),
            *self.check,
        ]

    def _recommendation(self, chosen: Option) -> str:
        """Name the setting to take, with its value, how probably it is the best, and what it keeps how probably."""
        # What a setting keeps is all of them together, also those that nobody asked for.
        limits = " and ".join([*self.constraints, *(self.work if chosen.meets < 1 else [])])
        goal, alone = self.goals[0], len(self.options) == 1
        return (
            f"Recommended{self._doubt()}: {chosen.label}: "
            f"{title_of(goal)} {value_words(chosen.parts[goal])} {self.units[goal][0]}, "
            + ("as with every other setting" if alone else f"the best {self._in(self.best_in(chosen))}")
            + (", by assumed power" if self.assumed_power and not alone else "")
            + (f", keeps {limits} {self._in(self.keeps_in(chosen))}." if limits else ".")
        )

    def boost_words(self) -> list[str]:
        """Give the sentence on boost, which stands directly behind what is recommended."""
        return [f"{self.boost[0].upper()}{self.boost[1:]}."] if self.boost else []

    def _doubt(self) -> str:
        """Give the words of a recommendation whose goal is not clearly better than that of the next setting."""
        if self.gap is None or self._is_next_as_good:
            return ""
        return ", not clear" if not self.gap.is_clear or self._in_error(self.goals[0], self.gap) else ""

    def _price(self) -> list[str]:
        """Give what the setting costs against the baseline, or where it is that, against the next one."""
        if price := self.price():
            return [f"Its price: {price} against {self.baseline}."]
        kept = runners_up(self.options)
        price = " and ".join(self.priced_against_next().values()) if kept else ""
        return [f"Its price: {price} against {kept[0].label}."] if price else []

    def _less_by_mean(self, chosen: Option) -> list[str]:
        """Report that the mean does less than the baseline where most runs or draws do not."""
        less = self._less(chosen, [text for text in chosen.broken_by_means if text in self.work])
        most = f"although in most {self.samples[1]} within the limit"
        return [f"On the mean it does less than {self.baseline}: {', '.join(less)}, {most}."] if less else []

    @property
    def _is_next_as_good(self) -> bool:
        """Whether the next setting differs by so little that the goal leaves open which to take."""
        ends = (None,) if self.gap is None else (self.gap.low, self.gap.high)
        return all(end is not None and abs(end) <= self._little for end in ends)

    @property
    def _little(self) -> float:
        """What two settings differ by that are as good, in the unit of the gap."""
        return LITTLE if self.gap is None or self.gap.unit == "%" else MISSED_SLACK

    def _next(self) -> list[str]:
        """Name the next setting, and how sure it is that it is worse."""
        kept = runners_up(self.options)
        if self.gap is None or not kept:
            return []
        unit, digits = self.gap.unit, 1 if self.gap.unit == "%" else 2
        change, doubt = self.gap.certainty.text(self.gap.value, unit, digits), self.gap.certainty.words
        if self._is_next_as_good:
            apart = ", ".join(self._apart(kept[0]))
            what = f", but {self.options[0].label} has {apart}" if apart else ", either will do"
            doubt = f"they differ by less than {self._little:g} {unit}{what}"
        elif self._in_error(self.goals[0], self.gap):
            change = change.removesuffix("*")
            doubt = f"within the replay's error of {self.energy_error:.1f} %, not significant"
        return [f"Next is {kept[0].label}, {title_of(self.goals[0])} {change}: {doubt}."]

    def _apart(self, following: Option) -> list[str]:
        """Give in what the first setting differs from the next one where the goal does not separate them."""
        words = [*_moved(self.against_next, both=True).values()]
        metric = next((name for name in (LATER, "missed_activations") if name in following.parts), None)
        if metric is not None:
            ours, theirs = self.options[0].parts[metric].value, following.parts[metric].value
            if abs(ours - theirs) > MISSED_SLACK:
                start = f" ({LATER_ONLY})" if metric == LATER else ""
                words.append(f"{ours:.3g} % of its activations missed against {theirs:.3g} %{start}")
        return words

    def _open(self, chosen: Option) -> list[str]:
        """Describe what the recommendation depends on, what it leaves open, and what would narrow that."""
        out = []
        if not self.assumptions:
            none = "Nothing was drawn" if self.undrawn else "The machine file states no ranges"
            out.append(f"{none}: what its numbers leave open is not in this.")
        keys = [one.key for one in standing_out(self.hangs.influences)][:3]
        if keys:
            out.append(f"Between these two it depends on {', '.join(keys)}.")
        elif self.hangs.influences:
            out.append(f"Between these two no assumed value stands out in {self.samples[0]} draws.")
        if self.hangs.regime is not None:
            unit = "%" if self.gap is None else self.gap.unit
            out.append(self.hangs.regime.words(lambda value: change_text(value, unit=unit)))
        as_good = chosen.equals or (self._is_next_as_good and runners_up(self.options))
        if max(chosen.best, chosen.ties) < SURE and not as_good:
            out += [f"To be surer: {words}." for words in self.measures()]
        if self.iterations >= ITERATIONS and not any(
            parts.varies for option in self.options for parts in option.parts.values()
        ):
            out.append("All runs of a setting are equal: nothing varies between seeds.")
        changes = [each for option in self.options for each in option.changes.items()]
        if any(change.is_clear and self._in_error(metric, change) for metric, change in changes):
            error = f"the replay's own error of {self.energy_error:.1f} %"
            out.append(f"Stars are of the runs alone: a change of energy within {error} is not significant.")
        return out

    def _at_equal_work(self, chosen: Option) -> list[str]:
        """Give what the recommended setting saves where nobody asks for the additional work that it does."""
        by_work, power = (chosen.changes.get(name) for name in (ENERGY_PER_WORK, POWER_AT_EQUAL_WORK))
        if self.goals[0] != ENERGY_PER_WORK or by_work is None or power is None:
            return []
        if abs(by_work.value - power.value) < APART:
            return []
        change = f"{power.certainty.text(power.value)}, {power.certainty.words}"
        return [f"At the pace of {self.baseline}, idle once that work is done, its power is {change}."]

    def _in_error(self, metric: str, change: Parts) -> bool:
        """Whether a change of energy is no larger than the error of the replay that it is from."""
        return metric in ENERGIES and abs(change.value) <= self.energy_error

    def kept_by_none(self) -> list[str]:
        """Give the constraints that every setting breaks; all, if it is only together that none keeps them."""
        every = [*self.constraints, *self.work]
        return [text for text in every if all(text in option.breaks for option in self.options)] or every

    def same(self) -> list[str]:
        """Name the settings that are as good as the recommended one, and those whose runs are another's."""
        chosen = self.recommended
        having = [option for option in self.options if option.twins]
        out = [same_runs(option.twins, option.label) for option in having[:LEFT_OUT]]
        if more := sum(len(option.twins) for option in having[LEFT_OUT:]):
            out.append(f"The runs of {several(more, 'more setting')} are those of another, too.")
        if chosen is not None and chosen.equals:
            names = in_words([chosen.label, *chosen.equals])
            out.append(f"{names} are equally good: {title_of(self.goals[0])} is the same in all printed digits.")
        return out

    def price(self) -> str:
        """Give what the recommended setting costs in response time against the baseline; empty if nothing."""
        return " and ".join(self.priced().values())

    def priced(self) -> dict[str, str]:
        """Give the metrics of the price and each in words; empty if there is none."""
        return _moved({} if self.recommended is None else self.recommended.changes)

    def priced_against_next(self) -> dict[str, str]:
        """Give the same where the baseline is recommended, against the next setting."""
        is_baseline = self.recommended is not None and self.recommended.label == self.baseline
        return _moved(self.against_next) if is_baseline else {}

    def left_out(self) -> list[str]:
        """Report which settings do less work than the baseline, and by how much."""
        less = {one.label: self._less(one, [text for text in one.breaks if text in self.work]) for one in self.options}
        out = [
            f"Left out: {label} does less than {self.baseline}: {', '.join(words)}."
            for label, words in less.items()
            if words
        ]
        if len(out) > LEFT_OUT:
            out = [*out[:LEFT_OUT], f"Left out for less work, too: {several(len(out) - LEFT_OUT, 'more setting')}."]
        return out

    def _less(self, option: Option, limits: Sequence[str]) -> list[str]:
        """Give by how much a setting is beyond limits of the baseline's work."""
        base = next((option for option in self.options if option.label == self.baseline), self.options[0])
        words = []
        for text in limits:
            metric = text.partition(" ")[0]
            counted = LATER if metric == "missed_activations" and LATER in option.parts else metric
            ours, theirs = option.parts[counted].value, base.parts[counted].value
            if self.units[metric][0] == "%":
                start = "" if ours == option.parts[metric].value else f"; {LATER_ONLY}"
                words.append(f"{metric} {ours:.4g} % (baseline {theirs:.4g} %{start})")
            else:
                words.append(
                    f"{metric} {change_text(100 * (ours / theirs - 1))}" if theirs else f"{metric} {quantity(ours)}"
                )
            if text in option.kept_by_means:
                words[-1] += f", in most {self.samples[1]} more than the limit, although not on the mean"
        return words

    def _other_goals(self, chosen: Option) -> dict[str, str]:
        """Report which setting that keeps the constraints is the best in goals that did not decide, by goal."""
        found = {}
        for goal in self.goals[1:]:
            unit, better = self.units[goal]
            best = (max if better == "higher" else min)(
                (option for option in self.options if option.meets >= 0.5), key=lambda option: option.parts[goal].value
            )
            ours, theirs = (quantity(option.parts[goal].value) for option in (chosen, best))
            if ours != theirs:
                words = f"Its {title_of(goal)} is {ours} {unit}; by the means {best.label} has the best, {theirs}."
                found[goal] = words
        return found

    def _late(self, chosen: Option, others: Collection[str]) -> list[str]:
        """Report that a setting misses more activations than another one, as the baseline may.

        `others` are the goals that have a sentence: one of the same misses is enough.
        """
        metric = LATER if LATER in chosen.parts else "missed_activations"
        if metric not in chosen.parts:
            return []
        fewest = min(self.options, key=lambda option: option.parts[metric].value)
        ours, theirs = chosen.parts[metric].value, fewest.parts[metric].value
        if ours - theirs <= MISSED_SLACK:
            return []
        start = "" if ours == chosen.parts["missed_activations"].value else f" ({LATER_ONLY})"
        if not start and "missed_activations" in others:
            return []
        return [f"It misses {ours:.3g} % of its activations, {fewest.label} {theirs:.3g} %{start}."]

    def _tests_nothing(self) -> list[str]:
        """Report which constraints separate no settings, because all have one value."""
        out = []
        for text, metric in self.idle:
            if text in self.constraints:
                name, start = ("missed_activations", f" ({LATER_ONLY})") if metric == LATER else (metric, "")
                value = f"{quantity(self.options[0].parts[metric].value)} {self.units[name][0]}{start}"
                out.append(f"The constraint {text} tests nothing here: {name} is {value} under every setting.")
        return out

    def measures(self) -> list[str]:
        """Describe what to measure, or to run, to be surer."""
        out = []
        for one in standing_out(self.hangs.influences)[:3]:
            words = next((words for end, words in _MEASURES if one.key.endswith(end) or one.key.startswith(end)), "")
            out.append(f"measure {one.key} (assumed {self.assumptions[one.key]}){': ' + words if words else ''}")
        gap = self.gap
        if gap is not None and gap.runs is not None:
            runs = f"\u00b1 {gap.runs:{'.1f' if gap.unit == '%' else '.2g'}} {gap.unit}"
            if gap.assumed is not None:
                assumed = (gap.assumed[1] - gap.assumed[0]) / 2
                if gap.runs > assumed:
                    out.append(f"more or longer runs: they leave {runs} open, the assumptions {assumed:.1f} {gap.unit}")
            elif gap.draws:
                out.append(f"more draws: the runs leave {runs} open, and what the assumptions do takes more to know")
            else:
                out.append(f"more or longer runs: they leave {runs} open")
        return out

    def to_json(self) -> str:
        """Give everything as JSON."""
        whole = {
            "question": self.block().question,
            "facts": dict(self.facts),
            "goals": self.goals,
            "constraints": self.constraints,
            "work": self.work,
            "tests_nothing": [text for text, _ in self.idle],
            "baseline": self.baseline,
            "settings": [
                {
                    **row,
                    "keys": dict(option.setting.keys),
                    "tunables": dict(option.setting.tunables),
                    "pareto": option in self.pareto,
                    "breaks": list(option.breaks),
                    "twins": list(option.twins),
                    "equals": list(option.equals),
                    "commands": list(option.commands),
                }
                for row, option in zip(self.rows(), self.options, strict=True)
            ],
            "recommended": None if self.recommended is None else self.recommended.label,
            "findings": self.findings(),
            "missing": [*self.boost_words(), *self.missing, *self.of_power],
            "assumed": self._assumed(),
            "hangs_on": [
                {"assumption": one.key, "rank_correlation": one.rank_correlation, "share": one.share, "p": one.p}
                for one in self.hangs.influences
            ],
            "assumptions": self.assumptions,
            "level": LEVEL,
        }
        return json.dumps(whole, indent=1) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the report, one self-contained HTML page."""
        write_text(Path(path), page(self))
        return Path(path)

    def __str__(self) -> str:
        return self.block().text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from opplab.report.notebook import card

        return card(
            "choice",
            {},
            self.text_rows()[:20],
            picture=self.block().html() + pareto_picture(self),
            more=max(len(self.options) - 20, 0),
        )


def as_printed(probability: float, number: int, agree: int | None = None, tied: int = 0) -> float:
    """Give a probability as far as so many runs or draws resolve it from none (0) and all (1): what is printed of it.

    `agree` is how many of them do, where single ones are known, and `tied` in how many none is better.

    Examples
    --------
    >>> as_printed(0.96, 3, 3, 3), as_printed(0.96, 3, 2, 2), as_printed(0.04, 3, 0), as_printed(0.002, 40, 0, 1)
    (1.0, 0.96, 0.0, 0.005)
    """
    if probability > 1 - 1 / (number + 1) and agree in (None, number):
        return 1.0
    if probability < 1 / (number + 1) and not tied:
        return 0.0
    return _MOST if probability >= _MOST else _LEAST if probability <= _LEAST else round(probability, 2)


def runners_up(ranked: Sequence[Option]) -> list[Option]:
    """Give the settings after the first that keep the constraints, and are not as good."""
    return [one for one in ranked[1:] if one.meets >= 0.5 and one.label not in ranked[0].equals]


def _moved(changes: Mapping[str, Parts], *, both: bool = False) -> dict[str, str]:
    """Give the response times that rise and each in words, p99 before p50: all clear ones, or one that is not.

    With `both`, those that fall count as well.

    One that is not clear has these words, or how many values are needed to judge it.
    """
    found = [
        (metric, change.value, change.certainty)
        for metric in reversed(PAIRS["response"])
        if (change := changes.get(metric)) is not None and (abs(change.value) if both else change.value) > LITTLE
    ]
    clear = [one for one in found if one[2].is_clear]
    return {
        metric: f"{title_of(metric)} {judged.text(value)}" + ("" if clear else f" ({judged.words})")
        for metric, value, judged in clear or found[:1]
    }


def value_words(parts: Parts) -> str:
    """Give a value with its interval."""
    if parts.low is None or parts.high is None or parts.low == parts.high:
        return quantity(parts.value)
    return f"{quantity(parts.value)} [{quantity(parts.low)}, {quantity(parts.high)}]"
