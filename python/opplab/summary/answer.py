"""The answer of a run: one block, the same in terminal, page, Markdown, mail and notebook.

A line a variant (and machine, and workload: nothing is pooled), with what the question is about: the benchmark's own
metric, energy, power, energy by unit of work, and where there are deadlines missed work and latencies. Changes are
against the baseline of the same machine and workload, judged by `opplab.certainty`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from opplab import metrics, stats
from opplab.certainty import ITERATIONS, Certainty, certainty, digits_of, quantile_draws, signed, unknown
from opplab.comparison.method import apart, events_in
from opplab.report.block import Block, Heat
from opplab.report.numbers import fitting, of_a_part, quantity, workload_of
from opplab.report.numbers import several as several_of
from opplab.report.start import (
    COLD_NS,
    FIRST_IDLE,
    LITTLE,
    Start,
    cold_reason,
    cold_waits,
    in_first_idle,
    in_words,
    read_changes,
)
from opplab.runs import is_rate
from opplab.simulation.power import how_to_get_power, is_unknown
from opplab.simulation.ranges import assumed_in_words, number_in
from opplab.simulation.work import APART, ENERGY_PER_WORK, POWER_AT_EQUAL_WORK, with_energy_per_work
from opplab.summary.caveats import boosted_cpus, caveats, eas_off, held_clocks, machines_of, unknown_boost
from opplab.summary.factors import grid_of
from opplab.sweep.confidence import mean_of
from opplab.uncertainty.causes import CHANCE, whose

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.cases import Case
    from opplab.sweep.experiments import Experiment
    from opplab.uncertainty.sweep import Sureness


SENTENCES = 3
"""Changes that the sentence on top names; of more it gives the number."""

GROUP_COLUMNS = {
    "group_usage": "usage",
    "group_energy": "energy",
    "group_throttled_periods": "throttled",
    "group_pressure_some": "waiting",
    "group_missed": "missed",
    "group_latency_p99": "latency p99",
    "group_response_p99": "response p99",
}
"""What the block has of a control group, and its heads."""

PAIRS = {"response": ("response_p50", "response_p99"), "latency": ("latency_p50", "latency_p99")}
"""Percentiles that share a column: of activations, from the timer to the end; of wake-ups, until the task runs."""
WAITS = tuple(pair[1] for pair in PAIRS.values())
"""Metrics that a sentence has beside performance or energy, where their change is clear and no trifle."""
MODELS_ERROR = "the benchmark models' error (opplab predict has it)"
"""What no interval of runs and draws covers."""

_DELAYED = 0.01
"""The share of a run from which delays that a workload asks for are named."""
_STARTING = 0.05
"""The same of the time that a program takes to start its threads."""

_TIMES = ("elapsed", "extrapolated")
"""Rules of benchmarks that report the time of all their work, of which a run may do a part."""
_COUNTED = {"kernbench": "compiled files", "gitsource": "processes", "hackbench": "loops of a task"}
"""What the rates of these benchmarks count."""
DRAWS_APART = 5.0
"""Points between the ends of two intervals over draws from which on the draws did unlike work."""
_LATE = {"missed_activations": "misses {} of its activations", "lost_resumes": "loses {} of its resumes"}
"""Shares of work that is late or not done, and their words in sentences."""
NEVER_COMPARED = ("power", metrics.POWER_AT_PACE, "response_p50", "latency_p50", "work_done")
"""Columns without a change of their own: what follows from another, or stands in a pair."""


@dataclass(frozen=True)
class Change:
    """A change against the baseline, in percent."""

    value: float
    certainty: Certainty
    """With the interval."""

    @property
    def words(self) -> str:
        """``-3.4 % [-6.0, -0.8]*``; the star is for a clear change."""
        if self.value == 0 and self.certainty.low is None and not self.certainty.is_open:
            return "0 %"
        reason = f" [{self.certainty.reason}]" if self.certainty.is_open else ""
        return f"{self.certainty.text(self.value)}{reason}"

    @property
    def short(self) -> str:
        """``-3.4*``, for tables of many."""
        digits = digits_of([self.value], 1) if self.certainty.is_clear else 1
        return f"{signed(self.value, digits)}{self.certainty.star}" if self.value else "0"


@dataclass(frozen=True)
class Line:
    """A variant on a machine under a workload."""

    machine: str
    workload: str
    variant: str
    base: str
    """What it is compared with; empty for a baseline."""
    n: int
    """Runs."""
    values: Mapping[str, float | None]
    """The mean of each metric; None where it is unknown. Another benchmark's own metric is not in it."""
    changes: Mapping[str, Change]
    notes: Mapping[str, str] = field(default_factory=dict)
    """Columns between the names and the values."""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of each metric, where it is not that of the column: energy by unit of work has the benchmark's own."""
    work: Change | None = None
    """Of the work done, where both did some."""
    shares: Mapping[str, Change] = field(default_factory=dict)
    """Of missed activations and lost resumes, in percentage points."""
    no_work: bool = False
    """Whether it does none of the work of which the baseline does some, so that no change is known."""


@dataclass
class Answer(Block):
    """The block of runs: a line a variant, machine and workload."""

    lines: list[Line]
    units: dict[str, tuple[str, str]]
    """Unit and better side of each column."""
    assumed: str = ""
    """What was assumed, and the next step."""
    missing: str = ""
    """Why a column that everybody expects is not there."""
    groups: Mapping[tuple[str, str, str], Mapping[str, Mapping[str, float | None]]] = field(default_factory=dict)
    """By (machine, workload, variant): of each control group its metrics, means over the runs."""
    same: Sequence[Line] = ()
    """Variants whose runs are the baseline's, event for event."""
    factors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each variant its value of each key, where they are every combination (`opplab.summary.factors`)."""
    drawn: bool = False
    """Whether intervals are over draws of what is assumed."""
    asked: Sequence[str] = ()
    """Metrics that somebody asks for, whose changes are shown beside those that every answer has."""

    def _groups(self, lines: Sequence[Line]) -> list[dict[str, str]]:
        """Give a row a line and control group: the values of `cpu.stat`, energy, waits and missed work."""
        of = {(one.machine, one.workload, one.variant): one for one in lines}
        all_ = [
            (of[key], group, values)
            for key, groups in self.groups.items()
            if key in of
            for group, values in groups.items()
        ]
        shown = [metric for metric in GROUP_COLUMNS if any(values.get(metric) is not None for *_, values in all_)]
        scales = {
            metric: fitting([value for *_, values in all_ if (value := values.get(metric)) is not None], found.unit)
            for metric in shown
            if (found := metrics.find(f"{metric}:")) is not None
        }
        rows = []
        for one, group, values in all_:
            row = {**{name: self._place(one, name) for name in self._places()}, "group": group}
            for metric, (scale, unit) in scales.items():
                value = values.get(metric)
                row[f"{GROUP_COLUMNS[metric]}, {unit}"] = "" if value is None else quantity(value, scale)
            rows.append(row)
        return rows

    def _places(self) -> list[str]:
        """The columns that name a line: those in which lines differ, and the variant."""
        out = [name for name in ("machine", "workload") if len({getattr(one, name) for one in self.lines}) > 1]
        return [*out, "variant"]

    def _place(self, one: Line, name: str) -> str:
        """What names a line in a column: of workloads of one benchmark its parameters."""
        text = str(getattr(one, name))
        heads = {line.workload.partition(" ")[0] for line in self.lines}
        return text.partition(" ")[2] or text if name == "workload" and len(heads) == 1 else text

    def _unit(self, one: Line, metric: str) -> str:
        return one.units.get(metric, self.units[metric][0])

    def _told(self) -> list[str]:
        """The changes that the tables show: energy by unit of work only where it differs from energy."""
        own = metrics.answers(self.units)
        both = [
            (one.changes[ENERGY_PER_WORK], one.changes["energy"])
            for one in self.lines
            if {ENERGY_PER_WORK, "energy"} <= set(one.changes)
        ]
        apart = any(abs(by_work.value - change.value) >= APART for by_work, change in both)
        apart |= self.drawn and any(_ends_apart(by_work.certainty, change.certainty) for by_work, change in both)
        # Where nothing is done there is no energy by work.
        whole = not own or any("energy" in one.changes and ENERGY_PER_WORK not in one.changes for one in self.lines)
        energy = [*(["energy"] if whole else []), *([ENERGY_PER_WORK] if own or apart else [])]
        frames = [metric for metric in own if metric.startswith(metrics.FRAMES)]
        first = [*(metric for metric in own if metric not in frames), "rate", *frames]
        asked = [metric for metric in self.asked if metric not in (*first, "energy", ENERGY_PER_WORK, *WAITS)]
        return [*first, *asked, *energy, *WAITS]

    def compared(self, own: Sequence[str] = ()) -> tuple[list[str], list[str]]:
        """Give the metrics that have changes: those that sentences are about (`own`, if there are any), and others."""
        found = dict.fromkeys(metric for one in self.lines for metric in one.changes)
        waits = {name for pair in PAIRS.values() for name in pair}
        about = [name for name in self._told() if name in found and name not in waits]
        about = list(own) or about or list(found)[:1] or ["energy"]
        return about, [metric for metric in found if metric not in about]

    def tables(self, most: int | None = None) -> list[list[dict[str, str]]]:
        """Give the table of values, and that of changes if something is compared."""
        lines = self.lines[:most]
        told = self._told()
        # What shares a column shares a unit.
        scales = {
            (metric, unit): fitting(
                [
                    value
                    for one in self.lines
                    for name in shares
                    if (value := one.values.get(name)) is not None and self._unit(one, name) == unit
                ],
                unit,
            )
            for metric in self.units
            for unit in dict.fromkeys(self._unit(one, metric) for one in self.lines if metric in one.values)
            for shares in [next((pair for pair in PAIRS.values() if metric in pair), (metric,))]
        }
        first, second = [], []
        for one in lines:
            place = {name: self._place(one, name) for name in self._places()}
            row = {**place, **one.notes}
            for (metric, own), (scale, unit) in scales.items():
                value = one.values.get(metric)
                there = metric in one.values and self._unit(one, metric) == own
                row[_head(metric, unit, self.units[metric][1])] = quantity(value, scale) if there else ""
            for title, pair in PAIRS.items():
                if set(pair) <= set(self.units):
                    unit = scales[pair[0], self.units[pair[0]][0]][1]
                    p50, p99 = (row.pop(_head(name, unit, "")) for name in pair)
                    row[f"{title} p50/p99, {unit}"] = f"{p50}/{p99}" if p50 or p99 else ""
            first.append(row)
            if changes := {title_of(metric): change.words for metric, change in one.changes.items() if metric in told}:
                second.append({**place, "against": one.base, **changes})
        named = dict.fromkeys(key for row in second for key in row)
        second = [{key: row.get(key, "") for key in named} for row in second]
        if second and len({row["against"] for row in second}) == 1:
            base = second[0]["against"]
            second = [
                {f"change against {base}" if key == "variant" else key: row[key] for key in row if key != "against"}
                for row in second
            ]
        return [rows for rows in (first, second, self._groups(lines)) if rows]

    def beyond(self, most: int) -> str:
        """Count the clear changes that are left out."""
        told = self._told()
        shown = [change for one in self.lines[most:] for name, change in one.changes.items() if name in told]
        clear = sum(change.certainty.is_clear for change in shown)
        return f" with {several_of(clear, 'clear change')}" if clear else ""

    def heats(self) -> list[Heat]:
        """Give of each metric that has changes a table over two factors or more.

        Where the variants are every combination of some keys (`factors`), the columns are the values of the last one,
        and the rows those of the others at each point. Otherwise a row is a point and a column a variant.
        """
        compared = [one for one in self.lines if one.changes]
        bases = list(dict.fromkeys(one.base for one in compared))
        grid = self.factors if len(bases) == 1 else {}
        shown = [one for one in self.lines if one.changes or one.variant in grid]
        names = self._places()[:-1]

        def row_of(one: Line) -> tuple[str, ...]:
            return (*(self._place(one, name) for name in names), *grid.get(one.variant, ())[:-1])

        def column_of(one: Line) -> str:
            if grid:
                return grid[one.variant][-1]
            return one.variant if len(bases) == 1 else f"{one.variant} / {one.base}"

        at = {(row_of(one), column_of(one)): one for one in shown}
        rows, columns = list(dict.fromkeys(row for row, _ in at)), list(dict.fromkeys(column for _, column in at))
        if len(rows) < 2 or len(columns) < 2:
            return []
        heads = [*names, *(" " * number for number in range(1, len(rows[0]) - len(names) + 1))]
        out = []
        told = dict.fromkeys(name for one in compared for name in one.changes if name in self._told())
        # What the first sentence is about stands first: of several benchmarks the metric of each.
        first = [name for name in told if name in {self._first(one) for one in compared}]
        for shown_metrics in filter(None, (first, *([name] for name in told if name not in first))):
            heat = Heat([], [])
            several = len(shown_metrics) > 1
            title = "change, %" if several else f"{title_of(shown_metrics[0])}, %"
            for row, metric in ((row, metric) for row in rows for metric in shown_metrics):
                lines = [at.get((row, column)) for column in columns]
                found = [None if one is None else one.changes.get(metric) for one in lines]
                if several and not any(found):
                    continue
                named = dict(zip([title, *heads[1:]], row, strict=True))
                named |= {"of": title_of(metric)} if several else {}
                cells = [
                    one.short if one else "baseline" if line and line.variant in bases else ""
                    for line, one in zip(lines, found, strict=True)
                ]
                heat.rows.append({**named, **dict(zip(columns, cells, strict=True))})
                sign = 1 if self.units[metric][1] == "higher" else -1
                heat.gains.append([None if one is None else sign * one.value for one in found])
            out.append(heat)
        return out

    def _first(self, one: Line) -> str:
        """The metric of the first sentence: work that is not done is not energy that is saved."""
        told = self._told()
        metric = next((name for name in one.changes if name in told), next(iter(one.changes)))
        by_work = metric == "energy" and ENERGY_PER_WORK in told and ENERGY_PER_WORK in one.changes
        return ENERGY_PER_WORK if by_work else metric

    def changes_of(self, metric: str) -> list[tuple[Line, Change]]:
        """Give the changes of a metric that the tables show, of all machines and workloads."""
        return [(one, one.changes[metric]) for one in self.lines if metric in one.changes]

    def size(self) -> int:
        """Give the number of lines."""
        return len(self.lines)

    def names(self) -> int:
        """Give how many columns name a line."""
        return len(self._places())

    def below(self) -> list[str]:
        """Give what is missing, and what was assumed."""
        return [self.missing, self.assumed]

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a line and metric, in the units of the results, for programs."""
        out = []
        for one in self.lines:
            for metric, (_, better) in self.units.items():
                if metric not in one.values:
                    continue
                unit, change = self._unit(one, metric), one.changes.get(metric)
                out.append(_row(one, metric, unit, better, one.values[metric], change))
            for group, values in self.groups.get((one.machine, one.workload, one.variant), {}).items():
                for metric, value in values.items():
                    found = metrics.find(name := f"{metric}:{group}")
                    # It is compared with nothing.
                    out.append(_row(one, name, found.unit if found else "", found.better if found else "", value))
        return out

    def facts(self) -> Mapping[str, Any]:
        """Give what JSON has beside the rows."""
        return {**super().facts(), "assumed": self.assumed, "missing": self.missing}


def _row(
    one: Line, metric: str, unit: str, better: str, mean: float | None, change: Change | None = None
) -> dict[str, Any]:
    """Give the row of a value for programs. The change of a share is in percentage points."""
    share = one.shares.get(metric)
    judged = share or change
    out = {
        **{"machine": one.machine, "workload": one.workload, "variant": one.variant, "baseline": one.base},
        **{"metric": metric, "unit": unit, "better": better, "mean": mean, "n": one.n},
    }
    for of, named in ((None if share else change, "percent"), (share, "points")):
        ends = (None, None, None) if of is None else (of.value, of.certainty.low, of.certainty.high)
        out.update(zip((f"change_{named}", f"low_{named}", f"high_{named}"), ends, strict=True))
    return {**out, "certainty": "" if judged is None else judged.certainty.words}


def title_of(metric: str) -> str:
    """Give a metric's name in heads and sentences."""
    return {
        ENERGY_PER_WORK: "energy/work",
        POWER_AT_EQUAL_WORK: "power at equal work",
        metrics.POWER_AT_PACE: "power at pace",
        "missed_activations": "missed",
        "lost_resumes": "lost resumes",
        "work_done": "work done",
        **{name: name.replace("_", " ") for pair in PAIRS.values() for name in pair},
    }.get(metric, metric)


def _head(metric: str, unit: str, better: str) -> str:
    own = metric in metrics.answers([metric])
    return f"{title_of(metric)}, {unit}" + (f" ({better} is better)" if own and better else "")


def answer_of(experiment: Experiment, results: pl.DataFrame, sure: Sureness | None = None) -> Answer:
    """Make the answer of finished runs.

    Parameters
    ----------
    results : polars.DataFrame
        What came of it.
    sure : Sureness, optional
        Its intervals stand in place of those of the runs alone.
    """
    cases, units, own_units = _cases(results)
    columns = _columns(units, cases)
    about = {case.benchmark: _metric_of(case) for case in {case.benchmark: case for case in experiment.cases}.values()}
    bases = {variant: base for base, variant in reversed(experiment.pairs)}
    lines, same = [], []
    groups = {}
    prints = _fingerprints(results)
    for (point, variant), runs in cases.items():
        base = bases.get(variant, "")
        theirs = cases.get((point, base), {}) if base else {}
        values: dict[str, float | None] = {}
        changes: dict[str, Change] = {}
        for metric in columns:
            if metric in about.values() and metric != about.get(point[1]):
                continue
            if metric in _OF_PLAIN and about.get(point[1]):
                continue
            known = {seed: run[metric] for seed, run in runs.items() if run.get(metric) is not None}
            if (metric in ("rate", metrics.POWER_AT_PACE) or metric.startswith(metrics.FRAMES)) and not known:
                # Of what counts no work, has no pace, or runs on a machine without a GPU.
                continue
            unit, better = units[metric]
            values[metric] = mean_of([float(one) for one in known.values()], better, unit) if known else None  # type: ignore[arg-type]
            if theirs and is_compared(metric, unit, better):
                change = paired_change(better, known, {seed: run.get(metric) for seed, run in theirs.items()}, unit)
                drawn = _drawn(sure, point, metric, base, variant)
                if change is not None:
                    changes[metric] = change if drawn is None else Change(change.value, drawn)
                    if why := experiment.why_unknown(point[0], base, variant, metric):
                        changes[metric] = Change(change.value, unknown(why))
        machine, benchmark, param = point
        workload = workload_of(benchmark, param)
        if own := _of_groups(runs):
            groups[machine, workload, variant] = own
        done = _by_seed(runs, "work_done"), _by_seed(theirs, "work_done")
        shares = {}
        for metric in _LATE:
            events = [_by_seed(of, metrics.events_of(metric)) for of in (runs, theirs)]
            if (each := points(_by_seed(runs, metric), _by_seed(theirs, metric), events)) is not None:
                why = experiment.why_unknown(point[0], base, variant, metric) if theirs else ""
                shares[metric] = Change(each.value, unknown(why)) if why else each
        line = Line(machine, workload, variant, base if theirs else "", len(runs), values, changes)
        line = replace(line, units={name: own_units[point, name] for name in values if (point, name) in own_units})
        # A benchmark's work is what it counts.
        counted = about.get(benchmark, "") if units.get(about.get(benchmark, ""), ("", ""))[1] == "higher" else ""
        ours, base_does = (any(run.get(counted or "work_done") for run in of.values()) for of in (runs, theirs))
        line = replace(line, work=paired_change("higher", done[0], done[1], "s"), no_work=base_does and not ours)
        lines.append(replace(line, shares=shares))
        if theirs and prints[point, variant] == prints[point, base]:
            same.append(lines[-1])
    order = list(dict.fromkeys(one.machine for one in lines))
    lines.sort(key=lambda one: order.index(one.machine))
    answer = Answer(_question(experiment, lines), "", lines, {name: units[name] for name in columns}, groups=groups)
    answer.same = same
    by_label = {case.policy: case for case in experiment.cases}
    policies = {label: case.file["policy"] for label, case in by_label.items()}
    compared = {label: keys for label, keys in policies.items() if label in bases}
    answer.factors = grid_of(policies) or grid_of(compared)
    answer.drawn = sure is not None
    answer.finding = _finding(answer, sure)
    metered = any(one.get("group_energy") is not None for own in groups.values() for one in own.values())
    shared = "a group's energy has equal parts of what awake clusters share" if metered else ""
    beside = [
        _cold_misses(experiment, cases, drawn=answer.drawn),
        *_cold_waits(experiment, lines, policies),
        _unfinished(cases),
    ]
    beside += [_first_idle(policies, cases), shared, *_unknown_boosts(experiment, cases)]
    answer.assumed = _assumed(experiment, lines, cases, sure, beside)
    answer.missing = _cut(experiment, results)
    if is_unknown(results):
        how = how_to_get_power(machines_of(experiment).values())
        answer.missing = " ".join(filter(None, (answer.missing, f"{how}.")))
    notes = caveats(experiment, [(one.machine, one.values.get("power")) for one in lines])
    off = {place: [run.get("overutilized") for run in runs.values()] for place, runs in cases.items()}
    answer.missing = " ".join(
        filter(None, (answer.missing, notes, eas_off(off, policies), held_clocks(experiment.cases, cases)))
    )
    return answer


def _one_each(experiment: Experiment) -> list[Case]:
    """Give a case of each workload and its parameter."""
    return list({(case.benchmark, case.param): case for case in experiment.cases}.values())


def _metric_of(case: Case) -> str:
    """Give the metric that a case's benchmark reports; empty for none."""
    name: str = (case.file["workload"].get("metric") or [""])[0]
    return name


def _ends(case: Case) -> bool:
    """Whether a run is over when its work is done."""
    return ends(case.file["workload"])


def ends(workload: Mapping[str, Any]) -> bool:
    """Whether a run of a case's workload is over when its work is done."""
    rule: str = (workload.get("metric") or [""] * 4)[3]
    return rule in _TIMES


def cut_of(metric: str, ended: int, runs: int, duration_ns: int) -> str:
    """Report that runs of a benchmark did not end, so that they lack the time that it reports; empty if all did."""
    if ended >= runs:
        return ""
    return (
        f"{metric} is missing in {runs - ended} of {runs} runs, which did not end within "
        f"{duration_ns / 1e9:g} s (a longer --seconds lets them end)"
    )


def _cut(experiment: Experiment, results: pl.DataFrame) -> str:
    """Report which benchmarks did not end, so that runs lack the time that they report."""
    words = []
    for case in _one_each(experiment):
        name = _metric_of(case)
        if not _ends(case):
            continue
        own = results.filter((results["benchmark"] == case.benchmark) & (results["param"] == case.param))
        runs = own.select("machine", "policy", "iteration").n_unique()
        ended = own.filter((own["metric"] == name) & own["value"].is_not_null()).height
        if cut := cut_of(name, ended, runs, case.duration_ns):
            place = workload_of(case.benchmark, case.param)
            counted = _COUNTED.get(case.benchmark, "whole pieces of work")
            words.append(f"{place}: {cut}; rate is of the part that ran and counts {counted}.")
    return " ".join(words)


def whole_of(
    runs: Mapping[str, Iterable[Mapping[str, float | None]]], workloads: Mapping[str, Mapping[str, Any]]
) -> str:
    """Report that a benchmark's time is of all of it where energy and work are of the part that ran, by workload."""
    times: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for place, work in workloads.items():
        name, _, _, rule = (work.get("metric") or [""] * 4)[:4]
        if rule in _TIMES:
            times.setdefault(name, {})[place] = [
                (energy / power, whole)
                for one in runs.get(place, ())
                if (energy := one.get("energy")) and (power := one.get("power")) and (whole := one.get(name))
            ]
    return next(filter(None, (of_a_part(name, of) for name, of in times.items())), "")


def _fingerprints(results: pl.DataFrame) -> dict[tuple[Point, str], set[tuple[int, str]]]:
    """Give the events' fingerprints by point and variant, with their seeds."""
    keys = ["machine", "benchmark", "param", "policy", "seed", "fingerprint"]
    found: dict[tuple[Point, str], set[tuple[int, str]]] = {}
    for machine, benchmark, param, policy, seed, fingerprint in results.select(keys).unique().iter_rows():
        found.setdefault(((machine, benchmark, param), policy), set()).add((seed, fingerprint))
    return found


def _of_groups(runs: Values) -> dict[str, dict[str, float | None]]:
    """Give the mean of each metric of each control group."""
    out: dict[str, dict[str, float | None]] = {}
    for name in dict.fromkeys(metric for run in runs.values() for metric in run if metric.startswith("group_")):
        metric, _, group = name.partition(":")
        known = [value for run in runs.values() if (value := run.get(name)) is not None]
        out.setdefault(group, {})[metric] = mean_of(known, "lower") if known else None
    return out


Point = tuple[str, str, str]
Values = dict[int, dict[str, float | None]]


def _cases(
    results: pl.DataFrame,
) -> tuple[dict[tuple[Point, str], Values], dict[str, tuple[str, str]], dict[tuple[Point, str], str]]:
    """Sort result rows into values by point and variant, seed and metric; with units of metrics, and where others."""
    cases: dict[tuple[Point, str], Values] = {}
    units: dict[str, tuple[str, str]] = {}
    own_units: dict[tuple[Point, str], str] = {}
    keys = ["machine", "benchmark", "param", "policy", "iteration"]
    parts = results.partition_by(keys, maintain_order=True)
    for part in parts:
        for row in with_energy_per_work(part.iter_rows(named=True)):
            point = row["machine"], row["benchmark"], row["param"]
            run = cases.setdefault((point, row["policy"]), {}).setdefault(row["seed"], {})
            run[row["metric"]] = row["value"]
            unit = row["unit"] or ""
            if units.setdefault(row["metric"], (unit, row["better"] or ""))[0] != unit:
                own_units[point, row["metric"]] = unit
    return cases, units, own_units


def _columns(units: Mapping[str, tuple[str, str]], cases: Mapping[tuple[Point, str], Values]) -> list[str]:
    """Choose the metrics that the question is about."""
    every_run = [run for runs in cases.values() for run in runs.values()]
    known = {metric for run in every_run for metric, value in run.items() if value is not None}
    own = metrics.answers(units)
    # Frames of a GPU stand beside what the CPUs' tasks do, not in its place.
    benchmark = [metric for metric in own if not metric.startswith(metrics.FRAMES)]
    # Of runs that were cut the rate is known.
    cut = any(run.get(metric, "") is None for metric in benchmark for run in every_run)
    # Programs without a metric of their own, which may stand beside benchmarks.
    plain = [run for run in every_run if not any(metric in run for metric in benchmark)]
    rate = ["rate"] if cut or any(run.get("rate") for run in plain) else []
    # Power of the start of tasks and of their loops is no answer where there is that of the loops.
    wanted = [*own, *rate, "energy", *metrics.powers(every_run), ENERGY_PER_WORK]
    if any(run.get("activations") for run in plain):
        # The time from a timer to the end of the work holds the wake-up, and is what the deadline is about.
        lost = any(run.get("lost_resumes") for run in plain)
        wanted += ["missed_activations", *(["lost_resumes"] if lost else []), *PAIRS["response"]]
    elif plain:
        waits = any(run.get(PAIRS["latency"][1]) for run in plain)
        wanted += ["work_done", *(PAIRS["latency"] if waits else ())]
    return [metric for metric in wanted if metric in known]


_OF_PLAIN = ("missed_activations", "lost_resumes", "work_done", *(name for pair in PAIRS.values() for name in pair))
"""Columns of programs without a metric of their own."""


def is_compared(metric: str, unit: str, better: str) -> bool:
    """Whether a column has a change: not what follows from another, nor shares in percent."""
    return bool(better) and unit != "%" and metric not in NEVER_COMPARED


def _by_seed(runs: Values, metric: str) -> dict[int, float | None]:
    return {seed: run.get(metric) for seed, run in runs.items()}


def points(
    ours: Mapping[int, float | None],
    theirs: Mapping[int, float | None],
    events: Sequence[Mapping[int, float | None]] = ({}, {}),
) -> Change | None:
    """Give the change of the means of shares, in percentage points, over the seeds that both have.

    `events` has how many events each is a share of, where they are shares of counted ones: ours, theirs.
    """
    pairs = [
        (seed, theirs_of, ours_of)
        for seed in ours
        if (ours_of := ours[seed]) is not None and (theirs_of := theirs.get(seed)) is not None
    ]
    if not pairs:
        return None
    seeds, old, new = map(list, zip(*pairs, strict=True))
    counted = events_in(*([of.get(seed) for seed in seeds] for of in events))
    low, high, varies = apart(old, new, paired=True, events=counted)
    value = stats.mean(new)[0] - stats.mean(old)[0]
    return Change(value, certainty(low, high, n=len(pairs), varies=varies, unit="points", value=value))


def paired_change(
    better: str, ours: Mapping[int, float | None], theirs: Mapping[int, float | None], unit: str = ""
) -> Change | None:
    """Give the change of the means in percent over the seeds that both have, by the method of all tables."""
    shared = [seed for seed in ours if theirs.get(seed) is not None]
    old, new = [float(theirs[seed] or 0.0) for seed in shared], [float(ours[seed] or 0.0) for seed in shared]
    if not shared or min(old) <= 0 or min(new) <= 0:
        return None
    found = stats.compare(old, new, harmonic=is_rate(better == "higher", unit), paired=True, resamples=0)
    # Pairs that are all equal are no change, however much the seeds differ.
    varies = old != new and (len(set(old)) > 1 or len(set(new)) > 1)
    low, high = (100 * (found[end] - 1) for end in ("low", "high"))
    value = 100 * (found["ratio"] - 1)
    judged = certainty(low, high, n=len(shared), varies=varies or len(shared) < 2, unit="%", value=value)
    return Change(value, judged)


def _ends_apart(one: Certainty, other: Certainty) -> bool:
    """Whether draws did unlike work: intervals of energy, and of energy by unit of work, end at different changes."""
    pairs = ((one.low, other.low), (one.high, other.high))
    return any(a is not None and b is not None and abs(a - b) >= DRAWS_APART for a, b in pairs)


def _drawn(sure: Sureness | None, point: Point, metric: str, base: str, variant: str) -> Certainty | None:
    for line in (*sure.lines, *sure.beside) if sure is not None else ():
        if (line.point, line.metric, line.base, line.variant) == (point, metric, base, variant):
            return line.change.certainty
    return None


def _question(experiment: Experiment, lines: Sequence[Line]) -> str:
    machines, workloads, variants = (
        list(dict.fromkeys(getattr(one, name) for one in lines)) for name in ("machine", "workload", "variant")
    )
    at_most = "at most " if all(map(_ends, _one_each(experiment))) else ""
    kernels = ", ".join(experiment.kernels)
    runs = sorted({one.n for one in lines})
    each = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    what = workloads[0] if len(workloads) == 1 else f"{len(workloads)} workloads"
    where = machines[0] if len(machines) == 1 else f"{len(machines)} machines"
    base = next((one.base for one in lines if one.base), variants[0])
    others = [name for name in variants if name != base]
    who = base if not others else " or ".join([base, *others]) if len(others) < 3 else f"{base} or {len(others)} others"
    background = f", background {experiment.background}" if experiment.background else ""
    plural = "run" if runs == [1] else "runs"
    facts = f"Linux {kernels}, {at_most}{experiment.measured_time()}, {each} {plural} each{background}"
    return f"{what} on {where}: {who}{'?' if others else ''} ({facts})"


def _finding(answer: Answer, sure: Sureness | None) -> str:
    """Describe in a sentence or two what is sure, what is not, and on what it depends."""
    compared = [one for one in answer.lines if one.changes]
    if not compared:
        return _alone(answer)
    # Each benchmark has its own metric.
    found_of = {metric: answer.changes_of(metric) for metric in dict.fromkeys(map(answer._first, compared))}
    waits = [metric for metric in WAITS if any(_is_worth_a_word(change) for _, change in answer.changes_of(metric))]
    if len(compared) > SENTENCES:
        by_machine = len({one.machine for one in compared}) > 1
        counted = {**found_of, **{metric: answer.changes_of(metric) for metric in waits}}
        words = [f"{title_of(metric)}: {_clear_of(of, by_machine)}" for metric, of in counted.items()]
    else:
        words = [
            f"{_place(answer, one)}: {', and '.join(_changed(one, metric, waits))}"
            for metric, of in found_of.items()
            for one, _ in of
            if answer._first(one) == metric
        ]
    head = "; ".join(words) + "."
    same = [f"{same_runs([_place(answer, one)], one.base)[:-1]}, event for event." for one in answer.same]
    depends = [] if sure is None else _depends(sure, found_of, len(compared))
    # What a variant misses weighs more than how much work it does, and either more than that it changes nothing.
    less = [_worst_first(answer, found) for found in _lost(answer, compared, sure) if found]
    shown = max(SENTENCES - len(depends) - len(less), 0)
    left = len(same) - shown
    do = "does" if left == 1 else "do"
    others = [f"Nor {do} {several_of(left, 'more setting')} change anything."] if shown and left > 0 else []
    return " ".join([head, *same[:shown], *others, *less, *depends])


def _lost(answer: Answer, compared: Sequence[Line], sure: Sureness | None) -> list[list[tuple[float, Line, str]]]:
    """Give what lines miss of each kind, and how much work they do: how much less than their baseline, and words."""
    late: dict[str, list[tuple[float, Line, str]]] = {metric: [] for metric in _LATE}
    work_done: list[tuple[float, Line, str]] = []
    for one in compared:
        if one.no_work:
            work_done.append((-math.inf, one, f"does none of the work that {one.base} does"))
        elif (
            answer._first(one) in (ENERGY_PER_WORK, *WAITS)
            and one.work is not None
            and abs(work := one.work.value) >= APART
        ):
            unsure = "" if one.work.certainty.is_clear else f", {one.work.certainty.words}"
            does = f"does {abs(work):.3g} % {'more' if work > 0 else 'less'} work than {one.base}{unsure}"
            work_done.append((work, one, does))
        at = (one.machine, one.workload, one.base)
        base = next((other for other in answer.lines if (other.machine, other.workload, other.variant) == at), None)
        for metric, words_of in _LATE.items():
            ours, theirs = (None if of is None else of.values.get(metric) for of in (one, base))
            change = one.shares.get(metric)
            clear = change is not None and change.certainty.is_clear
            # Fewer are named where that is clear, more in any case.
            if ours is not None and theirs is not None and (ours > theirs + 0.1 or (clear and ours < theirs - 0.1)):
                found = change if change and (change.certainty.low is not None or change.certainty.is_open) else None
                # Draws are of the metrics that answers compare, and shares are none of them.
                of = ", of the runs alone" if sure is not None else ""
                points = "" if found is None else f": {found.certainty.text(found.value, 'points')}{of}"
                unsure = "" if found is None or found.certainty.is_clear else f", {found.certainty.words}"
                told = f"{words_of.format(f'{ours:.3g} %')} ({one.base} {theirs:.3g} %{points}){unsure}"
                late[metric].append((theirs - ours, one, told))
    return [*late.values(), work_done]


def _depends(sure: Sureness, metrics: Container[str], compared: int) -> list[str]:
    """Name the assumptions that changes of some metrics depend on most, and draws that are in another regime."""
    own_rows = [row for row in sure.deciding() if row["metric"] in metrics]
    strong = [row for row in own_rows if row["p"] < CHANCE]
    places = [whose(row) for row in strong]
    if any(places):
        first = [places.index(place) for place in dict.fromkeys(places)]
        keys = [f"{strong[at]['assumption']} {places[at]}" for at in first[:2]]
    else:
        keys = [row["assumption"] for row in strong[:2]]
    depends = [f"Of the assumed values it depends most on {', '.join(dict.fromkeys(keys))}."] if keys else []
    if own_rows and not keys:
        depends = [f"No assumed value stands out in {sure.number} draws."]
    apart = [line for line in sure.lines if line.base and line.regime and line.metric in metrics]
    if apart:
        more = f" So it is with {several_of(len(apart) - 1, 'more change')}." if len(apart) > 1 else ""
        variant = f"{apart[0].variant}: " if compared > 1 else ""
        depends.append(f"{variant}{apart[0].regime}{more}")
    return depends


def _changed(one: Line, first: str, if_clear: Sequence[str]) -> list[str]:
    """Give the changes of a line in words: of a metric, and of others where they are clear and no trifle."""
    return [
        f"{title_of(metric)} {change.certainty.text(change.value)}, {change.certainty.words}"
        for metric in dict.fromkeys([first, *if_clear])
        if (change := one.changes.get(metric)) is not None and (metric == first or _is_worth_a_word(change))
    ]


def _is_worth_a_word(change: Change) -> bool:
    return change.certainty.is_clear and abs(change.value) >= APART


def _clear_of(found: Sequence[tuple[Line, Change]], by_machine: bool) -> str:
    """Count the clear changes of a metric; of several machines, each one's, too."""
    clear = sum(change.certainty.is_clear for _, change in found)
    reasons = Counter(change.certainty.reason for _, change in found if not change.certainty.is_clear)
    reasons.pop("", None)
    why = [reason if of == len(found) else f"{reason}: {of} of {len(found)}" for reason, of in reasons.items()]
    machines = list(dict.fromkeys(one.machine for one, _ in found)) if by_machine else []
    for name in machines[:SENTENCES]:
        own = [change.certainty.is_clear for one, change in found if one.machine == name]
        why.append(f"{name} {sum(own)} of {len(own)}")
    if more := len(machines) - min(len(machines), SENTENCES):
        why.append(f"and {several_of(more, 'more machine')}")
    return f"{clear} of {len(found)} changes are clear" + (f" ({', '.join(why)})" if why else "")


def _worst_first(answer: Answer, found: Sequence[tuple[float, Line, str]]) -> str:
    """Give a sentence of what variants do, the worst first: of each machine some, so that none is missing.

    The lower the number, the worse.
    """
    shown: dict[str, int] = {}
    words = []
    for _, one, does in sorted(found, key=lambda each: each[0]):
        shown[one.machine] = shown.get(one.machine, 0) + 1
        if shown[one.machine] <= SENTENCES:
            words.append(f"{_place(answer, one)} {does}")
    more = len(found) - len(words)
    return "; ".join([*words, *([f"and {more} more"] if more else [])]) + "."


def same_runs(names: Sequence[str], base: str) -> str:
    """Name those that change nothing, as their runs are those of another.

    Examples
    --------
    >>> same_runs(["epp=power"], "powersave")
    'epp=power changes nothing here: its runs are those of powersave.'
    >>> same_runs(["hz=250", "hz=1000"], "performance")
    'hz=250 and hz=1000 change nothing here: their runs are those of performance.'
    """
    change, whose = ("changes", "its") if len(names) == 1 else ("change", "their")
    return f"{in_words(names)} {change} nothing here: {whose} runs are those of {base}."


def _alone(answer: Answer) -> str:
    if bases := list(dict.fromkeys(one.base for one in answer.lines if one.base)):
        own = metrics.answers(answer.units) or ["work_done"]
        nothing = [_place(answer, one) for one in answer.lines if any(one.values.get(name) == 0 for name in own)]
        why = f": {in_words(nothing)} {'does' if len(nothing) == 1 else 'do'} no work" if nothing else ""
        return f"Nothing has a change in percent against {in_words(bases)}{why}."
    if len(answer.lines) != 1:
        alone = len({(one.machine, one.variant) for one in answer.lines}) == 1
        why = f"of {answer.lines[0].variant} alone" if alone else "no baseline is named"
        return f"{len(answer.lines)} lines, compared with nothing: {why}."
    one = answer.lines[0]
    words = [
        f"{title_of(metric)} {quantity(value, scale)} {unit}"
        for metric in answer.units
        if (value := one.values.get(metric)) is not None
        and not any(metric in pair for pair in PAIRS.values())
        and (fit := fitting([value], answer.units[metric][0]))
        for scale, unit in [fit]
    ]
    runs = "one run, so no interval" if one.n == 1 else f"mean of {one.n} runs"
    return f"{', '.join(words)}; {runs}."


def _place(answer: Answer, one: Line) -> str:
    return " ".join(answer._place(one, name) for name in answer._places())


def _wake_up(experiment: Experiment, lines: Sequence[Line]) -> str:
    """Report that latencies of several variants are the exit from an idle state, which no governor changes."""
    found_ms = {line.values.get("latency_p99") for line in lines}
    machine = experiment.cases[0].file["machine"]
    exits_ms = {
        number_in(state, key) / 1e6: state["name"]
        for cluster in machine["cluster"]
        for state in cluster.get("idle", [])
        for key in ("exit_latency_ns", "wake_ns")
    }
    for exit_ms, name in exits_ms.items():
        if exit_ms and all(ms and math.isclose(ms, exit_ms, rel_tol=0.01) for ms in found_ms):
            return f"latency p99 is the exit from {name} ({quantity(1000 * exit_ms)} us) under every variant"
    return ""


def periods_together(workload: Mapping[str, Any]) -> str:
    """Report that the response times of a case's workload are of tasks of several periods: percentiles pool them.

    Examples
    --------
    >>> tasks = [{"phases": [["", 6000000, period_ns]]} for period_ns in (200000000, 20000000)]
    >>> periods_together({"tasks": tasks})
    'response times are of tasks of periods from 20 to 200 ms together (control groups keep them apart)'
    """
    periods_ns = sorted({period_ns for task in _own_tasks(workload) for _, _, period_ns in task["phases"] if period_ns})
    if len(periods_ns) < 2:
        return ""
    ends = " to ".join(f"{period_ns / 1e6:g}" for period_ns in (periods_ns[0], periods_ns[-1]))
    return f"response times are of tasks of periods from {ends} ms together (control groups keep them apart)"


def shared_timers(workload: Mapping[str, Any]) -> list[str]:
    """Report the timers for which several tasks of a case's workload wait in turn, and what load that is.

    Examples
    --------
    >>> one = {"phases": [["", 2500000, 10000000]], "ops": [["timer", 0, 10000000, False, False]]}
    >>> shared_timers({"tasks": [one] * 12})[0].partition(" (in")[0]
    '12 tasks share a timer of 10 ms: one of them is due each time, so that their load is 25 % of a CPU, not 300 %'
    >>> slow = {"phases": [["", 5000000, 40000000]], "ops": [["timer", 0, 40000000, False, False]]}
    >>> shared_timers({"tasks": [one, slow]})[0].partition("share ")[2].partition(" (in")[0]
    'a timer of 10 to 40 ms: each is due once in the sum of their periods, 50 ms, so that their load is 15 % of a CPU, \
not 37.5 %'
    """
    every = _own_tasks(workload)
    waiting: dict[int, list[tuple[int, int]]] = {}
    for at, task in enumerate(every):
        timers = {(op[1], op[2]) for op in task["ops"] if op[0] == "timer" and not op[4]}
        for timer, period_ns in sorted(timers):
            waiting.setdefault(timer, []).append((at, period_ns))
    notes = []
    for of in waiting.values():
        # A task in several turns stands in each.
        tasks, periods_ns = [every[at] for at in dict(of)], sorted(period_ns for _, period_ns in of)
        if len(tasks) < 2:
            continue
        runs = [(run_ns, own_ns) for task in tasks for _, run_ns, own_ns in task["phases"] if own_ns]
        load = ""
        # Other phases of a task's cycle may run or sleep for any time.
        if len(runs) == len(of) and all(len(task["phases"]) == 1 for task in tasks):
            # Each that comes to the timer moves it by its own period: all have had their turn after the sum.
            shares = sum(run for run, _ in runs) / sum(periods_ns), sum(run / own for run, own in runs)
            in_turn, alone = (f"{100 * share:.3g} %" if share < 10 else f"{100 * share:.0f} %" for share in shares)
            load = f", so that their load is {in_turn} of a CPU, not {alone}"
        low, high = (f"{end / 1e6:g}" for end in (periods_ns[0], periods_ns[-1]))
        due = "one of them is due each time"
        if low != high:
            due = f"each is due once in the sum of their periods, {sum(periods_ns) / 1e6:g} ms"
        notes.append(
            f"{len(tasks)} tasks share a timer of {low if low == high else f'{low} to {high}'} ms: {due}{load} "
            '(in rt-app `"ref": "unique"` gives each its own)'
        )
    return notes


def _own_tasks(workload: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the tasks of a case's workload without those of the background, which are the last ones."""
    tasks: list[dict[str, Any]] = workload["tasks"]
    return tasks[: len(tasks) - workload.get("nr_background", 0)]


def start_of(work: Mapping[str, Any], duration_ns: int, begun_ns: int, *, longer: bool = True) -> Start:
    """Give the start of a case's run: until its last task begins, but for forked ones.

    Parameters
    ----------
    work : mapping
        The case's workload.
    duration_ns, begun_ns : int
        Length of the run, and when the last task begins.
    longer : bool
        Whether the workload has more to run than this.

    Examples
    --------
    >>> start_of({"tasks": []}, 10**9, 144 * 10**6)
    Start(seconds=0.144, share=0.144, tasks='all tasks', free_s=20)
    """
    warmup_ns = work.get("warmup_ns", 0)
    own_ns = max(begun_ns - warmup_ns, 0)
    least_s = (warmup_ns + own_ns / (LITTLE / 100)) / 1e9
    free_s = 0.0
    if longer and own_ns:
        ten = 10 ** math.floor(math.log10(least_s))
        free_s = next(step * ten for step in (1, 2, 5, 10) if step * ten >= least_s)
    forked = any(not task["initial"] for task in _own_tasks(work))
    tasks = "all tasks but forked ones" if forked else "all tasks"
    return Start(own_ns / 1e9, own_ns / (duration_ns - warmup_ns), tasks, free_s)


def latest_begun_ns(like: Case, cases: Iterable[Case]) -> int:
    """Give when the last task begins, in the iteration of its machine, workload and variant where that is latest."""
    return max(case.inner.begun_ns() for case in cases if (case.point, case.policy) == (like.point, like.policy))


def start_up(workloads: Sequence[tuple[Mapping[str, Any], int, int]]) -> str:
    """Report the longest start-up that counts in its run: energy and misses are of all of it.

    When a task is forked depends on the run, so that these are left aside.

    Parameters
    ----------
    workloads : iterable of (mapping, int, int)
        Workload, length of the run and when the last task begins, in ns. That is after all `delay_ns`, as a program
        starts its threads one after the other.

    Examples
    --------
    >>> tasks = [{"initial": True, "delay_ns": 10**9}, {"initial": False, "delay_ns": 0}]
    >>> start_up([({"tasks": tasks}, 4 * 10**9, 10**9)])
    'energy and misses include the first 1 s (25 %), until all tasks but forked ones have begun'
    >>> start_up([({"tasks": tasks}, 10**9 // 2, 10**9)])
    'some tasks never begin: the last would after 1 s'
    """
    found = (0.0, 0.0, "")
    for work, duration_ns, begun_ns in workloads:
        delays_ns = (task["delay_ns"] for task in _own_tasks(work) if task["initial"])
        warmup_ns = work.get("warmup_ns", 0)
        late = (max(delays_ns, default=0) - warmup_ns) / (duration_ns - warmup_ns)
        start = start_of(work, duration_ns, begun_ns)
        if start.share > _STARTING or late > _DELAYED:
            found = max(found, (start.share, start.seconds, start.tasks))
    share, begun_s, tasks = found
    if not share:
        return ""
    if share >= 1:
        return f"some tasks never begin: the last would after {begun_s:.3g} s"
    return f"energy and misses include the first {begun_s:.3g} s ({100 * share:.0f} %), until {tasks} have begun"


def _cold_misses(experiment: Experiment, cases: Mapping[tuple[Point, str], Values], *, drawn: bool) -> str:
    """Report the variants whose misses are mostly of the start, so that their share is of the length of the run.

    Of draws only the changes are known here.
    """
    if any(case.duration_ns < 2 * COLD_NS for case in experiment.cases):
        return ""
    shares: dict[str, float] = {}
    for (_, variant), runs in cases.items():
        missed, cold = (
            sum(run.get(name) or 0.0 for run in runs.values()) for name in ("missed_activations", "missed_at_start")
        )
        if missed:
            shares[variant] = min(shares.get(variant, 1.0), cold / missed)
    found = {variant: share for variant, share in shares.items() if share >= 0.5}
    if not found:
        return ""
    least = min(found.values())
    part, left = ("all", "none") if least == 1 else (f"at least {math.floor(100 * least)} % of the", "fewer")
    governors = [case.file["policy"]["governor"] for case in experiment.cases if case.policy in found]
    own = " with the machine's own numbers" if drawn else ""
    return (
        f"{part} misses of {in_words(list(found))}{own} are in the first {COLD_NS / 1e9:g} s{cold_reason(governors)}: "
        f"longer runs have a smaller share, those with a `warmup` {left}"
    )


def _cold_waits(experiment: Experiment, lines: Sequence[Line], policies: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Report the changes of waits that the start of a run may decide."""
    found = []
    for case in _one_each(experiment):
        work = case.file["workload"]
        own = [one for one in lines if one.workload == workload_of(case.benchmark, case.param)]
        changes = [(name, each.value, each.certainty.words) for one in own for name, each in one.changes.items()]
        governors = [policies[name]["governor"] for one in own if one.base for name in (one.base, one.variant)]
        found.append(cold_waits(read_changes(changes), work, case.duration_ns, governors, longer=not ends(work)))
    return list(dict.fromkeys(found))


def _unknown_boosts(experiment: Experiment, cases: Mapping[tuple[Point, str], Values]) -> list[str]:
    """Report the machines whose boost is unknown, or of which several cores ran at the boost of one."""
    found = []
    for name, machine in machines_of(experiment).items():
        own = [run for ((on, *_), _), runs in cases.items() if on == name for run in runs.values()]
        cpus = max((boosted_cpus(run, machine["cluster"]) for run in own), default=0.0)
        policies = [case.file["policy"] for case in experiment.cases if case.machine == name]
        found.append(unknown_boost(name, machine, policies, cpus))
    return found


def _unfinished(cases: Mapping[tuple[Point, str], Values]) -> str:
    """Report the variants with work that was due and never finished, of which no response is known."""
    found = [
        variant
        for (_, variant), runs in cases.items()
        if any(run.get("unfinished_activations") and run.get(PAIRS["response"][1]) for run in runs.values())
    ]
    return never_finished(list(dict.fromkeys(found)))


def never_finished(names: Sequence[str]) -> str:
    """Name the runs of whose responses only the least is known."""
    if not names:
        return ""
    return f"some work under {in_words(names)} was due and never finished: its responses count up to the end of the run"


def _first_idle(policies: Mapping[str, Mapping[str, Any]], cases: Mapping[tuple[Point, str], Values]) -> str:
    """Report the variants whose CPUs stay in shallow idle states that their governor took at the start."""
    shares: dict[str, float] = {}
    for (_, variant), runs in cases.items():
        share = sum(run.get(FIRST_IDLE) or 0.0 for run in runs.values()) / len(runs)
        shares[variant] = max(shares.get(variant, 0.0), share)
    return in_first_idle(shares, {label: policy["idle_governor"] for label, policy in policies.items()})


def _what_compares(experiment: Experiment) -> str:
    """Give the step that makes an experiment compare something, where it compares nothing yet."""
    if not experiment.is_of_options:
        more = "" if len(experiment.policies) > 1 else "another [[policy]] and "
        return f"{more}`baseline` in the experiment's file compare{'' if more else 's'}"
    own = {case.file["policy"]["governor"] for case in _one_each(experiment)}
    other = next((name for name in ("performance", "schedutil", "powersave") if name not in own), "userspace")
    return f"--vs governor={other} compares"


def _assumed(
    experiment: Experiment,
    lines: Sequence[Line],
    cases: Mapping[tuple[Point, str], Values],
    sure: Sureness | None,
    beside: Sequence[str],
) -> str:
    """Describe what was assumed, and the next step; `beside`: notes that come of the runs."""
    each = _one_each(experiment)
    workloads = [(case.file["workload"], case.duration_ns, latest_begun_ns(case, experiment.cases)) for case in each]
    timed = any(line.values.get(PAIRS["response"][1]) is not None for line in lines)
    together = dict.fromkeys(periods_together(work) for work, *_ in workloads if timed)
    runs: dict[str, list[Mapping[str, float | None]]] = {}
    for ((_, benchmark, param), _), by_seed in cases.items():
        runs.setdefault(workload_of(benchmark, param), []).extend(by_seed.values())
    whole = whole_of(runs, {workload_of(case.benchmark, case.param): case.file["workload"] for case in each})
    in_turn = dict.fromkeys(note for work, *_ in workloads for note in shared_timers(work))
    notes = (*in_turn, start_up(workloads), *beside, _wake_up(experiment, lines), whole, *together)
    machines = {case.machine: case for case in experiment.cases}
    numbers = [assumed_in_words(case.file["machine"], name) for name, case in machines.items()]
    constants = len(experiment.constants().assumptions)
    numbers.append(f"{constants} constant{'s' * (constants != 1)} of its benchmark models" if constants else "")
    number = ", ".join(filter(None, numbers))
    but = f", not {MODELS_ERROR}" if any(work.get("metric") for work, *_ in workloads) else ""
    if sure is None:
        intervals = f"intervals cover the runs{but}" if experiment.pairs and experiment.iterations > 1 else ""
        step = "--uncertainty 40 draws what is assumed" if experiment.pairs else _what_compares(experiment)
        if experiment.pairs and experiment.iterations < ITERATIONS:
            step = f"--iterations {ITERATIONS} or more gives intervals"
    else:
        covered = {line.metric for line in (*sure.lines, *sure.beside)}
        every = {metric for one in lines for metric in one.changes} <= covered
        of = "" if every else f" of {', '.join(dict.fromkeys(line.metric for line in sure.lines))}"
        needed = quantile_draws(0.95)
        intervals = f"intervals{of} cover runs and assumptions{but}"
        step = "opplab machine show has the sources"
        if sure.number < needed:
            intervals, step = f"no intervals: these need {needed} draws", f"--uncertainty {needed} gives intervals"
        elif experiment.iterations < ITERATIONS:
            intervals, step = f"no intervals: these need {ITERATIONS} iterations", f"--iterations {ITERATIONS} or more"
    return f"Assumed: {'; '.join(filter(None, (number, intervals, *notes))) or 'nothing is marked'}. Next: {step}."
