"""`opplab.choose`: which setting of a machine is best for what counts, and how sure that is.

All settings run the same programs with the same seeds, and at the same draws of what the machine file assumes. How
probable it is that a setting is the best comes from drawing both again and again: the runs by bootstrap over the seeds,
the assumptions from their draws.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from opplab.choice import DRAWS, GOALS, GOVERNORS, ITERATIONS, SEARCH_SETTINGS, SEED
from opplab.choice.answer import LATER, Choice, Option
from opplab.choice.cases import Program, program_of
from opplab.choice.criteria import (
    ANY_WORK,
    Constraint,
    check,
    check_units,
    goals_named,
    metric_named,
    needs_latencies,
    of_the_work,
    own_metrics,
)
from opplab.choice.settings import Setting, commands_of, grid, labels_of, with_drivers
from opplab.errors import CaseError, InputError, OpplabError
from opplab.report.start import COLD_NS, FIRST_IDLE, cold_reason, cold_waits, in_first_idle, read_changes
from opplab.simulation.policy import Policy
from opplab.simulation.power import how_to_get_power, known_power
from opplab.simulation.work import with_energy_per_work
from opplab.summary.caveats import boosted_cpus, eas_off, lone_boost, of_power, of_settings
from opplab.sweep.drivers import MachineFacts
from opplab.sweep.missing import missing
from opplab.sweep.progress import Shown, counted
from opplab.sweep.taken import RATE, kept_rate, refusal, with_kept
from opplab.sweep.variants import told_apart, with_variants
from opplab.uncertainty.draws import Draws, Point, Values, collected, run_draws
from opplab.uncertainty.ends import Hanging, moving
from opplab.uncertainty.parts import Parts, without_runs
from opplab.uncertainty.sweep import change_of, deciding_of

if TYPE_CHECKING:
    from opplab.simulation.cases import Measured
    from opplab.simulation.machine import Machine
    from opplab.simulation.workload import Benchmark, Workload

__all__ = ["choose", "unfit"]

RESAMPLES = 2000
MISSED = "missed_activations"
_DETAILS = ("freq_residency:", "busy:", "idle_residency:")


def choose(
    machine: Machine | str | Path | None,
    workload: Workload | Benchmark | str | Path,
    settings: Sequence[Setting] | None = None,
    *,
    governors: Sequence[str] = GOVERNORS,
    tunables: Mapping[str, Sequence[str | int]] | None = None,
    variants: Sequence[str] = (),
    goals: Sequence[str] = GOALS,
    constraints: Sequence[str] = (),
    seconds: float | None = None,
    iterations: int = ITERATIONS,
    seed: int = SEED,
    uncertainty: int = DRAWS,
    variation: str = Policy.variation,
    policy: Mapping[str, Any] | None = None,
    search: Mapping[str, tuple[int, int]] | None = None,
    search_settings: int = SEARCH_SETTINGS,
    jobs: int | None = None,
    executor: Executor | None = None,
    progress: Shown | None = None,
    said: Callable[[str], None] = lambda _: None,
    **keys: Sequence[Any],
) -> Choice:
    """Choose between settings.

    Parameters
    ----------
    machine : Machine, str, Path or None
        Or its name, or the path of a ``.toml``; None for a trace with a snapshot beside it.
    workload : Workload, Benchmark, str or Path
        Or the path of an rt-app file (``.json``), the name of a benchmark model, or a recorded trace.
    settings : sequence of Setting, optional
        To choose from; by default all combinations of `governors`, `tunables` and `keys`. The first is the baseline.
    governors : sequence of str
    tunables : mapping of str to sequence, optional
        Values of each tunable, for the governors that have it.
    variants : sequence of str
        Settings beside these, each what differs from the first: ``"kernel=6.12"``, ``"proposal=headroom:percent=110"``;
        or files of power profiles.
    goals : sequence of str
        Metrics that count: the first decides, the second is the other side of the Pareto picture. Energy counts by
        unit of work.
    constraints : sequence of str
        Such as ``"latency_p99 <= 5ms"`` or ``"missed <= 2%"``. By default every setting does the baseline's work: no
        activations missed beyond its own, throughput within 1 %. ``"none"`` takes these constraints away.
    seconds : float, optional
        Simulated time of a run.
    iterations : int
        Runs of each setting, each with a seed of its own.
    seed : int
        Of the first.
    uncertainty : int
        Draws of what the machine file assumes; 0 for none.
    variation : str
        Variation of programs between runs.
    policy : mapping, optional
        Keys of the policy that all settings share (``kernel``, ``driver``, ``hz``, ...).
    search : mapping of str to (int, int), optional
        Tunables that are searched for between two whole numbers, on a logarithmic scale, by differential evolution
        (scipy); the best settings found are compared with the others.
    search_settings : int
        How many settings the search may try, for each governor.
    jobs : int, optional
        Threads; one a CPU.
    executor : concurrent.futures.Executor, optional
        Who works instead, e.g. Dask's.
    progress : callable, optional
        Gives a context for so many cases.
    said : callable
        Takes what of a file of power profiles was left out, what a workload file or settings ask for in vain.
    **keys : sequence
        Values of other keys of a policy to choose from: ``idle_governor``, ``epp``, ``energy_model``, ``freq_max``, ...

    Returns
    -------
    Choice

    Examples
    --------
    >>> import opplab
    >>> load = opplab.Workload.periodic(2, run_us=1500, period_us=16000)
    >>> found = opplab.choose("juno-r2", load, seconds=0.2, iterations=2, uncertainty=4, jobs=1)
    >>> [option.label for option in found.options][0]
    'powersave'
    """
    import os

    jobs = jobs or os.cpu_count() or 1
    if iterations < 1 or not goals:
        raise InputError("a choice needs at least one iteration and one goal")
    shared = dict(policy or {})
    limits = [Constraint.parse(text) for text in constraints if text.strip() != ANY_WORK]
    whole = all(text.strip() != ANY_WORK for text in constraints)
    program = program_of(machine, workload, seconds=seconds, seeds=range(seed, seed + iterations), keys=shared)
    check(goals, limits, program.metric)
    # A benchmark's own metric has the waits in it; of other programs they are shown, whatever the goals are.
    latencies = program.model is None or needs_latencies([*goals, *(limit.metric for limit in limits)])
    if "energy" in goals and not all(known_power(program.machine)):
        raise InputError(how_to_get_power([program.machine]))
    chosen = list(settings) if settings is not None else grid(governors, tunables, **keys)
    left_out: list[str] = []
    chosen += _variants_of(chosen[0], variants, program.machine, left_out.append)
    run = _Runner(program, variation, latencies, jobs, executor, progress)
    if search:
        from opplab.choice.search import searched

        chosen += [
            one
            for one in searched(run, chosen, search, goals, limits, search_settings, seed, whole=whole)
            if one not in chosen
        ]
    chosen = _as_taken(program, chosen, left_out.append)
    if len(chosen) < 2:
        only = "; ".join(["there is only one setting", *left_out])
        raise InputError(f"{only}: give at least two, such as two governors")
    chosen = with_drivers(chosen, program.machine, shared)
    words = told_apart(shared, [dict(one.keys) for one in chosen])
    named = zip(labels_of(chosen), chosen, strict=True)
    labels = [label if one.name else f"{label} {words}".strip() for label, one in named]
    cases = program.cases(chosen, labels, variation)
    for line in (*left_out, *program.notes, *missing(cases)):
        said(line)
    values, units = run.own(cases)
    point: Point = (cases[0].machine, cases[0].benchmark, cases[0].param)
    cut = _cut(program, values, point, labels, len(cases))
    _check_measured(values, units, point, labels, goals, limits, program.metric, cut)
    if cut:
        units.pop(program.metric, None)
    draws = None
    if uncertainty > 1:
        constants = program.constants(lambda other: other.cases(chosen, labels, variation))
        draws = Draws.of(cases, uncertainty, seed, constants)
        run.drawn(draws, values)
    choice = _answer(program, chosen, labels, goals, limits, values, units, draws, point, iterations, whole, run.drawn)
    powers_w = [(point[0], option.parts["power"].value) for option in choice.options if "power" in option.parts]
    notes = [*(f"{words}." for words in left_out), *of_settings(cases)]
    notes += [f"{cut}; energy and work are of the part that ran."] if cut else []
    policies = {case.policy: json.loads(case.json)["policy"] for case in cases}
    shares = {(point, name): list(values.get((point, name, "overutilized"), Values()).own.values()) for name in labels}
    notes += filter(None, [eas_off(shares, policies)])
    boost = lone_boost(point[0], program.machine, run.boosted_cpus)
    return replace(choice, missing=notes, boost=boost, of_power=of_power({point[0]: program.machine}, powers_w))


def _cut(
    program: Program, values: Mapping[tuple[Point, str, str], Values], point: Point, labels: Sequence[str], runs: int
) -> str:
    """Report that the benchmark did not end in some runs, so that settings have no time to compare."""
    from opplab.summary.answer import cut_of, ends

    base = program.bases[0]
    if not ends(base["workload"]):
        return ""
    found = (values.get((point, label, program.metric)) for label in labels)
    return cut_of(program.metric, sum(len(one.own) for one in found if one), runs, base["duration_ns"])


def _check_measured(
    values: Mapping[tuple[Point, str, str], Values],
    units: Mapping[str, tuple[str, str]],
    point: Point,
    labels: Sequence[str],
    goals: Sequence[str],
    limits: Sequence[Constraint],
    own: str,
    cut: str,
) -> None:
    """Refuse goals and constraints of what the runs lack, before the draws: it may depend on what they did.

    Parameters
    ----------
    own : str
        The benchmark's metric.
    cut : str
        Why runs lack it; empty if they do not.
    """
    named = [own] if own else []
    asked = [metric_named(name, [*units, *named], named) for name in (*goals, *(limit.metric for limit in limits))]
    if cut and own in asked:
        raise InputError(cut)
    for metric in asked:
        if lacking := [label for label in labels if (point, label, metric) not in values]:
            raise InputError(f"no run of {', '.join(lacking)} has the metric {metric}, which is asked for")
    check_units(goals, limits, units, named)


def _as_taken(program: Program, settings: Sequence[Setting], said: Callable[[str], None]) -> list[Setting]:
    """Give settings with the values that stay where the kernel refuses theirs; equal ones are there once then."""
    out: list[Setting] = []
    replaced = set()
    for setting in settings:
        asked, kept, one = dict(setting.tunables).get(RATE, ""), "", setting
        if asked:
            kept = kept_rate(program.machine, setting.applied(program.bases[0]["policy"], setting.name))
        if kept:
            tunables = tuple((name, kept if name == RATE else value) for name, value in setting.tunables)
            one = replace(setting, tunables=tunables, name=with_kept(setting.name, asked, kept))
            replaced.add((one.keys, one.tunables))
            said(f"{dict(setting.keys).get('governor', setting.name)}: {refusal(asked, kept)}")
        there = any((one.keys, one.tunables) == (other.keys, other.tunables) for other in out)
        if not there or (one.keys, one.tunables) not in replaced:
            out.append(one)
    return out


def _variants_of(
    first: Setting, variants: Sequence[str], machine: Mapping[str, Any], said: Callable[[str], None] = lambda _: None
) -> list[Setting]:
    """Give the settings of what differs from the first."""
    if not variants:
        return []
    base = {**dict(first.keys), **({"tunables": dict(first.tunables)} if first.tunables else {})}
    return [Setting.of(one) for one in with_variants(base, variants, MachineFacts.of(machine), said)[1:]]


def unfit(
    machine: Machine,
    workload: Workload | Benchmark | str | Path,
    *,
    governors: Sequence[str] = GOVERNORS,
    variants: Sequence[str] = (),
    seconds: float | None = None,
    policy: Mapping[str, Any] | None = None,
    **_: Any,
) -> dict[str, str]:
    """Give those of a choice's variants that a machine cannot have, and why."""
    if not variants:
        return {}
    shared = dict(policy or {})
    try:
        program = program_of(machine, workload, seconds=seconds, seeds=[SEED], keys=shared)
    except OpplabError:
        # The work does not run on it: that is the error where it is to run.
        return {}
    first = grid(governors)[0]

    def why_not(setting: Setting) -> str:
        try:
            (case,) = program.cases([setting], [setting.name], Policy.variation)
            # Asks the driver, which refuses the settings that it cannot have.
            case.inner.assumed_preferences()
        except (CaseError, InputError) as error:
            return str(error).removeprefix(f"setting `{setting.name}`: ").removeprefix("failed to use the policy: ")
        return ""

    found: dict[str, str] = {}
    # What the first setting has, too, is no matter of the variants.
    for text in variants if not why_not(first) else ():
        for setting in _variants_of(first, [text], program.machine):
            if why := why_not(setting):
                found[text] = why
    return found


@dataclass
class _Runner:
    """Runs cases of one choice."""

    program: Program
    variation: str
    latencies: bool
    jobs: int
    executor: Executor | None
    progress: Shown | None
    boosted_cpus: float = 0.0
    """CPUs of a cluster above the clock without boost, of the run that has most."""

    def own(self, cases: Sequence[Any]) -> tuple[dict[tuple[Point, str, str], Values], dict[str, tuple[str, str]]]:
        """Run cases at the machine file's own numbers: values, and unit and sense of each metric."""
        from opplab.sweep.runner import run_cases

        values: dict[tuple[Point, str, str], Values] = {}
        units: dict[str, tuple[str, str]] = {}

        def keep(_case: Any, measured: Measured) -> None:
            rows = list(with_energy_per_work(measured.dicts()))
            found = {row["metric"]: row["value"] for row in rows}
            self.boosted_cpus = max(self.boosted_cpus, boosted_cpus(found, self.program.machine["cluster"]))
            collected(rows, values, _wanted)
            units.update((row["metric"], (row["unit"], row["better"])) for row in rows if row["value"] is not None)

        with counted(self.progress, len(cases)) as shown:
            tally = run_cases(
                cases, executor=self.executor, jobs=self.jobs, latencies=self.latencies, progress=shown, keep=keep
            )
        if tally.problems:
            raise OpplabError(f"{tally.failed} of {tally.total} runs failed: {tally.problems[0]}")
        return values, units

    def drawn(self, draws: Draws, into: dict[tuple[Point, str, str], Values]) -> None:
        """Run the draws."""
        with counted(self.progress, len(draws.cases)) as shown:
            run_draws(
                draws,
                into,
                _wanted,
                executor=self.executor,
                jobs=self.jobs,
                latencies=self.latencies,
                progress=shown,
            )


def _wanted(metric: str) -> bool:
    return not metric.startswith(_DETAILS)


def _answer(
    program: Program,
    settings: Sequence[Setting],
    labels: Sequence[str],
    goals: Sequence[str],
    limits: Sequence[Constraint],
    values: Mapping[tuple[Point, str, str], Values],
    units: Mapping[str, tuple[str, str]],
    draws: Draws | None,
    point: Point,
    iterations: int,
    whole: bool,
    drawn: Callable[[Draws, dict[tuple[Point, str, str], Values]], None],
) -> Choice:
    import numpy as np

    from opplab.summary.answer import (
        PAIRS,
        ends,
        never_finished,
        periods_together,
        start_up,
        whole_of,
    )

    twins = _twins(values, point, labels)
    settings = [setting for setting, label in zip(settings, labels, strict=True) if label in twins]
    labels = list(twins)
    own = own_metrics(units)
    metrics = goals_named(goals, units, own)
    work = of_the_work(units, own, metrics, limits) if whole else []
    bounds = [(metric_named(one.metric, list(units), own), one) for one in (*limits, *work)]
    # What load tracking misses while it starts from 0 is no setting's work.
    values, units = {**values, **_later_misses(values, point, labels)}, {**units, LATER: ("%", "lower")}
    settled = program.bases[0]["duration_ns"] >= 2 * COLD_NS
    bounds = [(LATER if settled and name == MISSED else name, one) for name, one in bounds]
    counted = list(dict.fromkeys([*metrics, *(metric_named(one.metric, list(units), own) for one in limits)]))
    done = own[0] if own else "work_done"
    # With deadlines the time from the timer to the end of the work counts, as in the answer of a run.
    timed = [pair for pair in PAIRS.values() if all((point, one, name) in values for one in labels for name in pair)]
    latencies = timed[0] if timed and not own else ()
    beside = [name for name in (done, "energy", "power", "missed_activations", *latencies) if name in units]
    shown = list(dict.fromkeys([*counted, *beside]))
    used = list(dict.fromkeys([*shown, *(metric for metric, _ in bounds)]))
    assumed = draws if draws is not None and any(draws.assumptions.values()) else None
    samples = {
        metric: _samples([values[point, label, metric] for label in labels], assumed, units[metric][0] == "%")
        for metric in used
    }
    sign = 1.0 if units[metrics[0]][1] == "lower" else -1.0
    feasible, kept, winners = _judged(samples, bounds, units, metrics[0])
    # Settings that are equal to the printed digits share a sample. They are ranked by how often none is better: by
    # their shares a worse one could win.
    shares = winners / np.maximum(winners.sum(axis=1, keepdims=True), 1)
    deciding = dict.fromkeys([metrics[0], *(metric for metric, _ in bounds)])
    singles = _singles({metric: [values[point, label, metric] for label in labels] for metric in deciding}, assumed)
    keeps, _, wins_of = _judged(singles, bounds, units, metrics[0])
    alone = wins_of & (wins_of.sum(axis=1, keepdims=True) == 1)
    options: list[Option] = []
    for at, (setting, label) in enumerate(zip(settings, labels, strict=True)):
        parts = {}
        changes = {}
        for metric in used:
            ours, theirs = values[point, label, metric], values[point, labels[0], metric]
            unit, better = units[metric]
            if (own_parts := change_of(ours, None, better, unit=unit)) is not None:
                parts[metric] = own_parts[0]
            positive = min([*ours.own.values(), *theirs.own.values()], default=0.0) > 0
            if label != labels[0] and positive and (change := change_of(ours, theirs, better, unit=unit)) is not None:
                changes[metric] = change[0]
        options.append(
            Option(
                setting,
                label,
                parts,
                float(shares[:, at].mean()),
                float(feasible[:, at].mean()),
                commands_of(setting, program.machine, program.bases[0]["policy"]),
                [limit.text for limit in kept if kept[limit][at] < 0.5],
                changes,
                twins[label],
                kept_by_means=[
                    limit.text
                    for metric, limit in bounds
                    if kept[limit][at] < 0.5
                    and _excess_of(parts, (options[0].parts if options else parts), metric, limit, units) <= 0
                ],
                ties=float(winners[:, at].mean()),
                single=(int(alone[:, at].sum()), int(wins_of[:, at].sum()), int(keeps[:, at].sum())),
            )
        )
    printed = [f"{option.parts[metrics[0]].value:.4g}" for option in options]
    # As good is what is printed the same, keeps the constraints, and is the best in the same draws.
    wins = [
        (printed[at], option.meets >= 0.5, winners[:, at].tobytes() if winners[:, at].any() else at)
        for at, option in enumerate(options)
    ]
    options = [
        replace(option, equals=[label for at, label in enumerate(labels) if at != own and wins[at] == wins[own]])
        for own, option in enumerate(options)
    ]
    order = sorted(
        range(len(options)),
        key=lambda at: (
            options[at].meets < 0.5,
            _excess(options[at], options[0], bounds, units) if options[at].meets < 0.5 else 0.0,
            -round(options[at].ties, 3),
            # Of equal ones the first that was named, which is the baseline if it is one of them.
            sign * float(printed[at]),
        ),
    )
    unranked = bool(program.recorded.get("fixed_speed")) and _clocks_differ(settings)
    ranked = options if unranked else [options[at] for at in order]
    hangs = []
    gap = None
    rest = [option for option in ranked[1:] if option.meets >= 0.5 and option.label not in ranked[0].equals]
    if rest and not unranked:
        first, second = (values[point, option.label, metrics[0]] for option in (ranked[0], rest[0]))
        found = change_of(second, first, units[metrics[0]][1], unit=units[metrics[0]][0])
        gap, shifts = found or (None, {})
        if assumed is not None and gap is not None:
            # Where the runs explain all that the draws differ by, no assumption decides.
            moved = gap.assumed is not None and gap.assumed[0] < gap.assumed[1]
            hangs = deciding_of(assumed, point[0], shifts) if moved else []
            asked = Hanging(point, metrics[0], ranked[0].label, rest[0].label, hangs)
            (hangs,) = moving(assumed, [asked], values, drawn)
    base = program.bases[0]
    policies = {option.label: option.setting.applied(base["policy"], option.label) for option in ranked}
    governors = [policy["governor"] for policy in policies.values()]
    cold = [
        policies[option.label]["governor"]
        for metric, _ in bounds
        for option in ranked
        if metric == LATER and option.parts[LATER].value < option.parts[MISSED].value
    ]
    why = cold_reason(cold)
    unfinished = [label for label in labels if values.get((point, label, "unfinished_activations"), Values()).own]
    runs: dict[tuple[str, int], dict[str, float | None]] = {}
    for (place, label, metric), found_of in values.items():
        for iteration, value in found_of.own.items() if place == point and label in labels else ():
            runs.setdefault((label, iteration), {})[metric] = value
    metered = "watts are the sum of the clusters' meters, without the rest of the machine"
    notes = [
        metered if "power" in shown or "energy" in shown else "",
        start_up([(base["workload"], base["duration_ns"])]),
        whole_of(runs.values(), [base["workload"]]),
        periods_together(base["workload"]) if latencies else "",
        f"misses of the first {COLD_NS / 1e9:g} s{why and f'{why},'} leave no setting out" if cold else "",
        never_finished(unfinished) if any(metric.startswith("response_") for metric in shown) else "",
        in_first_idle(
            {
                label: fmean(share.own.values())
                for label in policies
                if (share := values.get((point, label, FIRST_IDLE))) and share.own
            },
            {label: policy["idle_governor"] for label, policy in policies.items()},
        ),
    ]
    choice = Choice(
        options=ranked,
        metrics=counted,
        beside=[metric for metric in shown if metric not in counted],
        baseline=labels[0],
        goals=metrics,
        units={metric: units[metric] for metric in shown},
        constraints=[limit.text for limit in limits],
        work=[limit.text for limit in work],
        idle=[
            (limit.text, metric)
            for metric, limit in bounds
            if len({option.parts[metric].value for option in options}) == 1
        ],
        gap=gap,
        check=program.check,
        energy_error=program.energy_error,
        unranked=unranked,
        assumed_power=bool(program.recorded.get("assumed_power")),
        next_step=program.sources,
        hangs=hangs,
        assumptions={one.key: one.words for one in (assumed.assumptions[point[0]] if assumed else ())},
        facts=[
            *program.about,
            ("runs of each setting", _runs_words(iterations, None if draws is None else len(draws.shares[point[0]]))),
        ],
        sources=dict(program.machine.get("source", {})),
        undrawn=draws is None,
        samples=(len(keeps), "runs" if assumed is None else "draws"),
    )
    # The metrics that decide, and those whose changes are read.
    columns = choice.compared(shown)
    changed = [(name, one.changes[name]) for one in ranked for name in columns if name in one.changes]
    read = read_changes((name, each.value, each.certainty.words) for name, each in changed)
    judged = dict.fromkeys([*metrics, *(metric for metric, one in bounds if one in limits), *read, *choice.priced()])
    longer = not program.check and not ends(base["workload"])
    waits = cold_waits(judged, base["workload"], base["duration_ns"], governors, longer=longer)
    return replace(choice, notes=list(filter(None, notes)), cold=waits)


def _later_misses(
    values: Mapping[tuple[Point, str, str], Values], point: Point, labels: Sequence[str]
) -> dict[tuple[Point, str, str], Values]:
    """Give the activations that were missed after the start of the runs, in percent."""
    out = {}
    for label in labels:
        every = values.get((point, label, MISSED))
        if every is None:
            continue
        # Runs without such a miss have no row of it.
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


def _runs_words(iterations: int, drawn: int | None) -> str:
    return f"{iterations}" if drawn is None else f"{iterations}, and 2 at each of {drawn} other draws"


def _excess(
    option: Option,
    baseline: Option,
    bounds: Sequence[tuple[str, Constraint]],
    units: Mapping[str, tuple[str, str]],
) -> float:
    """Give the share of its bound by which a setting breaks the constraint that it breaks most."""
    own, base = option.parts, baseline.parts
    return max([0.0, *(_excess_of(own, base, metric, limit, units) for metric, limit in bounds)])


def _excess_of(
    parts: Mapping[str, Parts],
    baseline: Mapping[str, Parts],
    metric: str,
    limit: Constraint,
    units: Mapping[str, tuple[str, str]],
) -> float:
    """Give the share of its bound by which means break a constraint; 0 or less where they keep it."""
    bound = limit.bound_in(units[metric][0], baseline[metric].value)
    away = parts[metric].value - bound
    found: float = round((away if limit.at_most else -away) / max(abs(bound), 1e-12), 6)
    return found


def _half_a_digit(values: Any) -> Any:
    """Give half of the last of the four digits that are printed of a value."""
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
    import numpy as np

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
    return means + moved[:, rng.integers(0, len(shared), size=RESAMPLES)].T
