"""How sure a sweep's changes are: each compared change with its interval in two parts, and what it hangs on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from opplab import stats
from opplab.certainty import change_text, quantile_draws
from opplab.comparison.method import apart, events_in
from opplab.metrics import events_of
from opplab.report.numbers import several
from opplab.runs import SHARES, is_rate
from opplab.simulation.work import with_energy_per_work
from opplab.sweep.confidence import estimate
from opplab.sweep.progress import Shown, counted
from opplab.uncertainty.causes import Causes, Influence, causes, standing_out
from opplab.uncertainty.draws import Draws, Point, Values, collected, run_draws
from opplab.uncertainty.ends import Hanging, moving
from opplab.uncertainty.parts import LEVEL, Parts, parts_of, why_open

if TYPE_CHECKING:
    from concurrent.futures import Executor

    import polars as pl

    from opplab.sweep.experiments import Experiment
    from opplab.sweep.store import Store


MOST_INFLUENCES = 5


@dataclass(frozen=True)
class SureLine:
    """A change of a policy against its baseline at a point, and how sure it is."""

    point: Point
    """Machine, benchmark, parameters."""
    metric: str
    unit: str
    better: str
    base: str
    variant: str
    change: Parts
    """In percent, of a share in points; of a policy that is compared with nothing (no base) its value."""
    causes: Causes = field(default_factory=Causes)
    """What it hangs on."""

    @property
    def name(self) -> str:
        """What is reported: a change, or a policy's own value."""
        return f"{self.variant} against {self.base}" if self.base else self.variant

    @property
    def axis(self) -> str:
        """What its numbers are, with their unit."""
        return f"change, {self.change.unit}" if self.base else f"{self.metric}, {self.unit}"

    def number(self, value: float) -> str:
        """Write a value of it."""
        return change_text(value, unit=self.change.unit, digits=2) if self.base else f"{value:.4g} {self.unit}"

    @property
    def regime(self) -> str:
        """The draws that are in another regime, as a sentence; empty if none are."""
        found = self.causes.regime
        return "" if found is None else found.words(self.number)

    @property
    def words(self) -> str:
        """Why its sign is open; empty if it is clear."""
        return "" if not self.base else why_open(self.change, self.causes.influences)


@dataclass
class Sureness:
    """All changes of a sweep with their intervals in two parts."""

    lines: list[SureLine]
    draws: Draws | None
    """What was drawn; None without ranges."""
    number: int
    """Draws that were asked for."""
    beside: list[SureLine] = field(default_factory=list)
    """Changes of other metrics, for tables that show them; no sentence is about these."""
    own: list[SureLine] = field(default_factory=list)
    """Energy and power of each variant alone, where `lines` has no line of them."""

    @property
    def assumptions(self) -> list[dict[str, str]]:
        """The assumptions that were drawn: machine, key, range."""
        by_machine = self.draws.assumptions.items() if self.draws else ()
        return [
            {"machine": machine, "assumption": one.key, "range": one.words}
            for machine, assumptions in by_machine
            for one in assumptions
        ]

    def deciding(self) -> list[dict[str, Any]]:
        """Give, for each machine, workload, metric and pair, what changes hang on most, the strongest first.

        Of a benchmark with several parameters the shares are means over these.
        """
        rows = []
        for key in dict.fromkeys((line.metric, line.name, line.point[:2]) for line in self.lines):
            own = [line for line in self.lines if (line.metric, line.name, line.point[:2]) == key]
            found: dict[str, list[Influence]] = {}
            for line in own:
                for one in line.causes.influences:
                    found.setdefault(one.key, []).append(one)
            means = {name: sum(one.share for one in ones) / len(own) for name, ones in found.items()}
            for name in sorted(means, key=lambda one: -means[one])[:MOST_INFLUENCES]:
                strongest = max(found[name], key=lambda one: one.share)
                rows.append(
                    {
                        **self._place(own[0].point, own[0].point[2] if len(own) == 1 else f"mean of {len(own)}"),
                        "metric": key[0],
                        "change": key[1],
                        "assumption": name,
                        "share": means[name],
                        "rank_correlation": strongest.rank_correlation,
                        "p": min(len(own) * min(one.p for one in found[name]), 1.0),
                    }
                )
        return rows

    def _place(self, point: Point, param: str) -> dict[str, str]:
        """Name machine, workload and parameters where there are several, or some: the same columns in all rows."""
        lines = (*self.lines, *self.beside)
        workloads = len({line.point[1] for line in lines}) > 1
        return {
            **({"machine": point[0]} if self._several else {}),
            **({"benchmark": point[1]} if workloads else {}),
            **({"param": param} if any(line.point[2] for line in lines) else {}),
        }

    @property
    def _several(self) -> bool:
        """Whether rows must name their machines."""
        return len({line.point[0] for line in (*self.lines, *self.beside)}) > 1

    def _head(self, line: SureLine) -> dict[str, str]:
        """Give what names a row of a change."""
        place = zip(("machine", "benchmark", "param"), line.point, strict=True)
        named = {name: word for name, word in place if name != "machine" or self._several}
        return {**named, "metric": line.metric, "change": line.name}

    def _where(self, line: SureLine) -> str:
        """Name the point of a line, with its machine where there are several."""
        return " ".join(filter(None, (line.point[0] if self._several else "", *line.point[1:])))

    def findings(self) -> list[str]:
        """Describe in sentences which changes are clear, and what leaves the others open."""
        if self.draws is None:
            return ["The machine files state no ranges, so nothing is known of what their assumed numbers leave open."]
        changes = [line for line in self.lines if line.base]
        if not changes:
            return []
        needed = quantile_draws(LEVEL)
        if self.number < needed:
            # The changes of a machine without ranges have their runs alone.
            waiting = [line for line in changes if self._is_drawn(line)]
            of = dict.fromkeys(line.point[0] for line in waiting)
            what = "no change" if len(waiting) == len(changes) else f"no change of {', '.join(of)}"
            words = f"An interval of {100 * LEVEL:g} % needs {needed} draws, these are {self.number}: {what} is judged."
            changes = [line for line in changes if line not in waiting]
            if not changes:
                return [words]
            return [words, *self._of(changes)]
        return self._of(changes)

    def _is_drawn(self, line: SureLine) -> bool:
        """Whether the line's machine has assumed numbers that draws vary."""
        return self.draws is not None and bool(self.draws.assumptions.get(line.point[0]))

    def _of(self, changes: Sequence[SureLine]) -> list[str]:
        """Describe which of some changes are clear, and what leaves the others open."""
        opened = [line for line in changes if line.words]
        of = ", ".join(dict.fromkeys(line.metric for line in changes))
        drawn = any(self._is_drawn(line) for line in changes)
        over = f"the runs and {self.number} draws of what is assumed" if drawn else "the runs"
        out = [
            f"{len(changes) - len(opened)} of {len(changes)} changes of {of} are clear: their intervals, over {over}, "
            "exclude zero."
        ]
        out += [
            f"Not clear: {self._where(line)}: {line.name}, {line.metric} {line.number(line.change.value)}: "
            f"{line.words}."
            for line in opened[:MOST_INFLUENCES]
        ]
        if len(opened) > MOST_INFLUENCES:
            out.append(f"And {len(opened) - MOST_INFLUENCES} more.")
        apart = [line for line in changes if line.regime]
        out += [f"{self._where(line)}: {line.name}, {line.metric}: {line.regime}" for line in apart[:MOST_INFLUENCES]]
        if len(apart) > MOST_INFLUENCES:
            out.append(f"So it is with {several(len(apart) - MOST_INFLUENCES, 'more change')}.")
        return out

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a change, for programs: those beside the others, too."""
        return [{**self._head(line), **_numbers(line)} for line in (*self.lines, *self.beside)]

    def own_values(self) -> list[dict[str, Any]]:
        """Give the energy and power of each variant with its interval, for programs."""
        return [{**self._head(line), **_numbers(line)} for line in self.own]

    def own_rows(self) -> list[dict[str, str]]:
        """Give the energy and power of each variant with its interval, as text for people."""
        return [
            {
                "at": self._where(line),
                "metric": line.metric,
                "variant": line.variant,
                "value": line.number(line.change.value),
                "interval": f"{line.number(line.change.low)} to {line.number(line.change.high)}",
            }
            for line in self.own
            if line.change.low is not None and line.change.high is not None
        ]

    def regimes(self) -> list[dict[str, Any]]:
        """Give the draws that are in another regime, a row a change that has some."""
        return [
            {
                **self._head(line),
                "draws": found.draws,
                "of": found.of,
                "ends": found.ends,
                "others": found.others,
                "assumptions": [one.key for one in standing_out(found.deciding)],
            }
            for line in self.lines
            if (found := line.causes.regime) is not None
        ]

    def text_rows(self) -> list[dict[str, str]]:
        """Give the same as text for people."""
        rows = []
        for line in self.lines:
            parts = line.change
            rows.append(
                {
                    "at": self._where(line),
                    "metric": line.metric,
                    "change": line.name,
                    "value": line.number(parts.value),
                    "off by runs": runs_words(parts),
                    "off by assumptions": self._assumed_words(line),
                    "interval": ""
                    if parts.low is None or parts.high is None
                    else f"{line.number(parts.low)} to {line.number(parts.high)}",
                    "sign": parts.certainty.words if line.base else "",
                }
            )
        return rows

    def _assumed_words(self, line: SureLine) -> str:
        """Give the assumptions' part; a machine has its ranges whether or not a metric is measured at draws."""
        if self.draws is not None and self.draws.assumptions.get(line.point[0]) and not line.change.draws:
            return "not measured at draws"
        return assumed_words(line.change)

    def _repr_html_(self) -> str:
        from opplab.report.notebook import card

        facts = {"draws": str(self.number), "at a glance": " ".join(self.findings())}
        return card("how sure", facts, self.text_rows()[:20], more=max(len(self.lines) - 20, 0))


def runs_words(parts: Parts) -> str:
    """Give the runs' part in words: how far its ends are from the value, or why there is none."""
    if parts.runs is not None:
        if parts.span is not None:
            down, up = (end - parts.value for end in parts.span)
            if f"{-down:.3g}" != f"{up:.3g}":
                return f"{down:+.3g} to {up:+.3g}"
        return f"\u00b1 {parts.runs:.3g}"
    return "one iteration" if parts.varies else "equal in all runs"


def assumed_words(parts: Parts) -> str:
    """Give the assumptions' part in words, or why there is none."""
    if parts.assumed is None:
        return parts.certainty.reason if parts.draws else "no ranges"
    return f"{parts.assumed[0]:+.3g} to {parts.assumed[1]:+.3g}"


def change_of(
    ours: Values,
    theirs: Values | None,
    better: str,
    level: float = LEVEL,
    unit: str = "",
    events: float = math.inf,
) -> tuple[Parts, dict[int, list[float]]] | None:
    """Give the change in percent against a baseline (without one: the value), and what each draw shifts it by.

    None where the baseline is zero. With the unit of a share the change is in points; `events` is how many it counts
    (`opplab.comparison.method.events_in`).
    """
    ours = ours.in_order()
    in_points = theirs is not None and unit in SHARES
    change = ours if theirs is None else ours.change_from(theirs, in_points=in_points)
    if not change.own:
        return None
    if in_points and theirs is not None:
        own, shifts = list(change.own.values()), change.shifts()
        base, new = ([of.own[at] for at in change.own] for of in (theirs, ours))
        low, high, _ = apart(base, new, True, level, events)
        parts = parts_of(own, list(shifts.values()), level, (fmean(own), low, high), -100.0)
        return replace(parts, unit="points"), shifts
    around = _of_runs(ours, theirs, better, level, unit)
    if theirs is None:
        shifts = change.shifts()
        return parts_of(list(change.own.values()), list(shifts.values()), level, around, 0.0), shifts
    # Parts of a ratio add on the logarithm, as its interval by the runs is made: the inverse question has the inverse
    # interval. To nothing there is no ratio.
    of_logs = Values(_logs(change.own), {draw: _logs(values) for draw, values in change.drawn.items()})
    shifts = of_logs.shifts()
    value, low, high = around
    if not of_logs.own or value <= -100:
        return Parts(value, None, None, None, None, varies=len(set(change.own.values())) > 1), {}
    about = (_log(value), -math.inf if low <= -100 else _log(low), _log(high))
    drawn = [fmean(of_logs.drawn[draw].values()) for draw in shifts]
    parts = parts_of(list(of_logs.own.values()), list(shifts.values()), level, about, drawn=drawn)
    return _in_percent(parts), shifts


def saving_of(ours: Values, theirs: Values) -> Parts | None:
    """Give how much less than a baseline's the values are, in their unit; None where nothing is shared.

    A baseline that differs from draw to draw is in its interval, which one of a change in percent leaves out.
    """
    saved = ours.less_than(theirs).in_order()
    return parts_of(list(saved.own.values()), list(saved.shifts().values())) if saved.own else None


def _log(percent: float) -> float:
    return math.log1p(percent / 100)


def _logs(changes: Mapping[int, float]) -> dict[int, float]:
    return {at: _log(change) for at, change in changes.items() if change > -100}


def _percent(log: float) -> float:
    return 100 * math.expm1(log)


def _in_percent(parts: Parts) -> Parts:
    """Give parts of a ratio's logarithm as those of a change in percent."""
    value = _percent(parts.value)
    span = parts.span and (_percent(parts.span[0]), _percent(parts.span[1]))
    low, high = (None if end is None else _percent(end) for end in (parts.low, parts.high))
    shifted = parts.assumed and [_percent(parts.value + shift) - value for shift in parts.assumed]
    runs = None if parts.runs is None or span is None else (span[1] - span[0]) / 2
    assumed = (shifted[0], shifted[1]) if shifted else None
    return replace(parts, value=value, runs=runs, assumed=assumed, low=low, high=high, span=span)


def _of_runs(ours: Values, theirs: Values | None, better: str, level: float, unit: str) -> tuple[float, float, float]:
    """Give the change of the means in percent (of nothing to compare with: the mean) and its ends as all tables do."""
    if theirs is None:
        mean = estimate(list(ours.own.values()), level, better, unit)
        half = math.nan if mean.half is None else mean.half
        return mean.mean, mean.mean - half, mean.mean + half
    shared = [at for at in ours.own if at in theirs.own]
    found = stats.compare(
        [theirs.own[at] for at in shared],
        [ours.own[at] for at in shared],
        harmonic=is_rate(better == "higher", unit),
        paired=True,
        confidence=level,
        resamples=0,
    )
    value, low, high = (100 * (found[key] - 1) for key in ("ratio", "low", "high"))
    return value, low, high


def causes_of(
    draws: Draws, machine: str, parts: Parts, shifts: Mapping[int, Sequence[float]], is_change: bool
) -> Causes:
    """Describe what a value, or a change, hangs on, from what the draws of a machine shift it by."""
    # Where the runs explain all that the draws differ by, no assumption decides.
    if parts.assumed is None or parts.assumed[0] >= parts.assumed[1]:
        return Causes()
    keys = [one.key for one in draws.assumptions[machine]]
    shares = [draws.shares[machine][draw - 1] for draw in shifts]
    found = causes(shares, keys, [fmean(values) for values in shifts.values()])

    def value_of(shift: float) -> float:
        return _percent(_log(parts.value) + shift) if is_change and parts.unit == "%" else parts.value + shift

    return replace(found, regime=found.regime and found.regime.through(value_of))


def _numbers(line: SureLine) -> dict[str, Any]:
    """Give the numbers of a line for programs, a change or a value in its unit."""
    parts = line.change
    low, high = parts.assumed or (None, None)
    return {
        "unit": parts.unit if line.base else line.unit,
        "value": _rounded(parts.value),
        "runs": _rounded(parts.runs),
        "assumed_low": _rounded(low),
        "assumed_high": _rounded(high),
        "low": _rounded(parts.low),
        "high": _rounded(parts.high),
        "turns": round(parts.turns, 3),
        "draws": parts.draws,
    }


def _rounded(value: float | None) -> float | None:
    """Give a number to eight digits, whatever its unit makes of its size."""
    return None if value is None else float(f"{value:.8g}")


_OWN = ("energy", "power")
"""Metrics whose own values have intervals beside those of the changes."""


def how_sure(
    experiment: Experiment,
    results: pl.DataFrame,
    metrics: Sequence[str],
    number: int,
    *,
    store: Store | None = None,
    executor: Executor | None = None,
    jobs: int = 1,
    progress: Shown | None = None,
    level: float = LEVEL,
    beside: Sequence[str] = (),
    ratios: bool = False,
) -> Sureness:
    """Draw the assumptions of a finished sweep and put the intervals together.

    Parameters
    ----------
    experiment : Experiment
    results : polars.DataFrame
        What came of it at the files' own numbers.
    metrics : sequence of str
        Whose changes.
    number : int
        Draws, with that of the files' own numbers.
    store : Store, optional
        Where the results of the draws go; what is there is not run again.
    executor, jobs
        As for `opplab.sweep.runner.run_cases`.
    progress : callable, optional
        Gives a context for so many cases, whose value is called with the tally after every case.
    level : float
        Coverage of the intervals.
    beside : sequence of str
        Metrics whose changes are in `Sureness.beside`.
    ratios : bool
        Whether shares change in percent, too: by their ratios.

    Returns
    -------
    Sureness
    """
    wanted = frozenset([*metrics, *beside, *_OWN, *map(events_of, metrics)])
    values: dict[tuple[Point, str, str], Values] = {}
    labels: dict[str, tuple[str, str]] = {}
    for part in results.partition_by("machine", "benchmark", "param", "policy", "iteration", maintain_order=True):
        rows = list(with_energy_per_work(part.iter_rows(named=True)))
        collected(rows, values, wanted.__contains__)
        labels.update({row["metric"]: (row["unit"] or "", row["better"] or "") for row in rows})
    done = set(zip(results["policy"], results["benchmark"], results["param"], results["iteration"], strict=True))
    cases = [case for case in experiment.cases if (case.policy, case.benchmark, case.param, case.iteration) in done]
    draws = Draws.of(cases, number, cases[0].seed, experiment.constants())
    if store is not None and draws.cases:
        listed = [{"hash": case.hash, "label": f"{case.label} draw {draw}"} for draw, case in draws.cases]
        store.create({**experiment.manifest(), "draws": number, "cases": listed})

    def run(drawn: Draws, into: dict[tuple[Point, str, str], Values]) -> None:
        with counted(progress, len(drawn.cases)) as shown:
            run_draws(
                drawn,
                into,
                wanted.__contains__,
                store=store,
                executor=executor,
                jobs=jobs,
                latencies=experiment.latencies,
                progress=shown,
            )

    run(draws, values)
    alone = [("", label) for label in experiment.policies]

    def lines_of(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> list[SureLine]:
        lines = []
        for metric in names:
            points = dict.fromkeys(point for point, _, name in values if name == metric)
            for point in points:
                for base, variant in pairs:
                    ours, theirs = values.get((point, variant, metric)), values.get((point, base, metric))
                    if ours is None or (base and theirs is None):
                        continue
                    unit, better = labels[metric]
                    of = (values.get((point, each, events_of(metric)), Values()).own for each in (variant, base))
                    events = events_in(*(counts.values() for counts in of))
                    found = change_of(ours, theirs, better, level, "" if ratios else unit, events)
                    if found is None:
                        continue
                    parts, shifts = found
                    if base and (why := experiment.why_unknown(point[0], base, variant, metric)):
                        parts = replace(parts, low=None, high=None, unknown=why)
                    hang_on = causes_of(draws, point[0], parts, shifts, bool(base))
                    lines.append(SureLine(point, metric, unit, better, base, variant, parts, hang_on))
        return lines

    ranged = draws if any(draws.assumptions.values()) else None
    pairs = experiment.pairs or alone
    lines = lines_of(metrics, pairs)
    hanging = [
        Hanging(one.point, one.metric, one.base, one.variant, one.causes, one.change.unit == "points") for one in lines
    ]
    named = moving(draws, hanging, values, run)
    lines = [replace(one, causes=of) for one, of in zip(lines, named, strict=True)]
    told = {(one.metric, one.base) for one in lines}
    own = lines_of([name for name in _OWN if (name, "") not in told], alone)
    return Sureness(lines, ranged, number, lines_of(beside, pairs), own)
