"""`opplab.choose`: which setting of a machine is best for what counts, and how sure that is.

All settings run the same programs with the same seeds, and at the same draws of what the machine file assumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from opplab import _opplab
from opplab.choice import DRAWS, GOALS, GOVERNORS, ITERATIONS, SEARCH_SETTINGS, SEED
from opplab.choice.answer import Choice
from opplab.choice.cases import Program, program_of
from opplab.choice.criteria import (
    ANY_WORK,
    Asked,
    Constraint,
    check,
    check_timed,
    check_units,
    metric_named,
    needs_latencies,
)
from opplab.choice.ranking import Ranking
from opplab.choice.settings import Setting, driver_of, grid, labels_of, listed, texts, with_drivers
from opplab.errors import InputError, OpplabError
from opplab.files import plain
from opplab.report.start import in_words
from opplab.simulation.cases import Case, Measured
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy, check_keys
from opplab.simulation.power import how_to_get_power, is_of_power, needs_power
from opplab.simulation.run import check_whole, workers
from opplab.simulation.work import ENERGY_PER_WORK, POWER_AT_EQUAL_WORK, with_energy_per_work
from opplab.simulation.workload import Benchmark, Workload
from opplab.summary.answer import cut_of, ends, latest_begun_ns, shared_timers
from opplab.summary.caveats import boosted_cpus, eas_off, of_power, of_settings, own_modes, unknown_boost
from opplab.sweep.drivers import MachineFacts, no_epp, refused_epp
from opplab.sweep.missing import changes_unknown_idle, missing, why_unable
from opplab.sweep.progress import Shown, counted
from opplab.sweep.runner import run_cases
from opplab.sweep.taken import RATE, kept_rate, refusal, with_kept
from opplab.sweep.variants import told_apart, with_variants
from opplab.uncertainty.draws import Draws, Point, Values, collected, run_draws

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
    recorded_governor: str | None = None,
    pelt_half_life_ms: int | None = None,
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
        Here as elsewhere one value may stand for a sequence of one.
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
    recorded_governor, pelt_half_life_ms : str, int, optional
        Governor of a recorded trace, and half-life of its load tracking in ms, where the trace lacks them.
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
    jobs = workers(jobs)
    for name, value, least in (("iterations", iterations, 1), ("uncertainty", uncertainty, 0), ("seed", seed, 0)):
        check_whole(name, value, least)
    for name, given in (("tunables", tunables), ("policy", policy), ("search", search)):
        if given is not None and not isinstance(given, Mapping):
            raise InputError(f"`{name}` is a mapping of names to values, not {given!r}")
    if not goals:
        raise InputError("a choice needs at least one goal")
    check_keys(keys)
    governors, variants = texts("governors", governors), texts("variants", variants)
    goals, constraints = texts("goals", goals), texts("constraints", constraints)
    tunables, keys = ({name: listed(name, of) for name, of in given.items()} for given in (tunables or {}, keys))
    shared = {key: plain(value) for key, value in (policy or {}).items()}
    limits = [Constraint.parse(text) for text in constraints if text.strip() != ANY_WORK]
    whole = all(text.strip() != ANY_WORK for text in constraints)
    # As in a sweep, the seed after the largest is 0.
    seeds = [(seed + iteration) % 2**64 for iteration in range(iterations)]
    program = program_of(
        machine,
        workload,
        seconds=seconds,
        seeds=seeds,
        keys=shared,
        recorded_governor=recorded_governor,
        pelt_half_life_ms=pelt_half_life_ms,
    )
    check(goals, limits, program.metric)
    check_timed(goals, limits, program.bases[0]["workload"])
    metrics = [*goals, *(limit.metric for limit in limits)]
    # A benchmark's own metric has the waits in it; of other programs they are shown, whatever the goals are.
    latencies = program.model is None or needs_latencies(metrics)
    if any(needs_power(name, program.machine) for name in metrics):
        raise InputError(how_to_get_power([program.machine]))
    chosen = list(settings) if settings is not None else grid(governors, tunables, **keys)
    left_out: list[str] = []
    chosen += _variants_of(chosen[0], variants, program.machine, left_out.append)
    run = _Runner(program, variation, latencies, jobs, executor, progress)
    is_asked = POWER_AT_EQUAL_WORK in metrics
    if search and is_asked:
        raise InputError(f"a search has no {POWER_AT_EQUAL_WORK}: its goals are of single runs, such as energy")
    if search:
        from opplab.choice.search import searched

        found = searched(run, chosen, search, goals, limits, search_settings, seed, whole=whole)
        chosen += [one for one in found if one not in chosen]
    by_power = any(map(is_of_power, (goals[0], *(limit.metric for limit in limits))))
    by_label = _comparable(program, chosen, shared, left_out, by_power=by_power)
    labels = list(by_label)
    run.idle = labels if is_asked or not needs_power("power", program.machine) else ()

    def cases_of(other: Program) -> list[Case]:
        return other.cases(list(by_label.values()), labels, variation)

    cases = cases_of(program)
    ran = [*cases, *(cases_of(program.idle()) if run.idle else ())]
    for line in (*left_out, *program.notes, *missing(cases)):
        said(line)
    values, units = run.own(ran)
    point = cases[0].point
    cut = _cut(program, values, point, labels, len(cases))
    _check_measured(values, units, point, labels, goals, limits, program.metric, cut)
    if cut:
        units.pop(program.metric, None)
    draws = None
    if uncertainty > 1:
        draws = Draws.of(ran, uncertainty, seed, program.constants(cases_of))
        run.drawn(draws, values)
    asked = Asked.of(goals, limits, units, whole=whole)
    begun_ns = latest_begun_ns(cases[0], cases)
    ranking = Ranking(program, by_label, asked, values, units, draws, point, begun_ns)
    over = {(point, name): list(values.get((point, name, "overutilized"), Values()).own.values()) for name in labels}
    return _noted(ranking.choice(iterations, run.drawn), run, cases, over, left_out, cut)


def _comparable(
    program: Program, settings: Sequence[Setting], shared: Mapping[str, Any], left_out: list[str], *, by_power: bool
) -> dict[str, Setting]:
    """Give the settings that can be compared by their labels, the baseline first.

    Parameters
    ----------
    shared : mapping
        Keys of the policy that all settings share.
    left_out : list of str
        Takes why others are not compared.
    by_power : bool
        Whether power decides, so that what it costs must be known.
    """
    chosen = _able(program, _as_taken(program, settings, left_out.append), left_out.append)
    if by_power:
        chosen = _of_known_power(program, chosen, left_out.append)
    if len(chosen) < 2:
        only = "; ".join(["there is only one setting", *left_out])
        raise InputError(f"{only}: give at least two, such as two governors")
    chosen = with_drivers(chosen, program.machine, shared)
    # A key that each setting has is in its label.
    own = [dict(one.keys) for one in chosen]
    words = told_apart({key: value for key, value in shared.items() if any(key not in keys for keys in own)}, own)
    named = zip(labels_of(chosen), chosen, strict=True)
    return {label if one.name else f"{label} {words}".strip(): one for label, one in named}


def _noted(
    choice: Choice,
    run: _Runner,
    cases: Sequence[Case],
    over: Mapping[tuple[Point, str], Sequence[float]],
    left_out: Sequence[str],
    cut: str,
) -> Choice:
    """Add to a choice what its numbers do not hold, and what was left out.

    Parameters
    ----------
    over : mapping
        See `opplab.summary.caveats.eas_off`.
    left_out : sequence of str
        Settings that are not compared, and why.
    cut : str
        See `_check_measured`.
    """
    program, on = run.program, cases[0].machine
    policies = {case.policy: case.file["policy"] for case in cases}
    base, *others = policies
    in_turn = shared_timers(cases[0].file["workload"])
    notes = [f"{words}." for words in (*left_out, *in_turn, *program.disk_notes)]
    notes += own_modes(program.machine, policies, [base])
    notes += of_settings(cases, [(base, label) for label in others])
    notes += [f"{cut}; energy and work are of the part that ran."] if cut else []
    notes += filter(None, [eas_off(over, policies)])
    powers_w = [(on, option.parts["power"].value) for option in choice.options if "power" in option.parts]
    kernels = ("kernel profile", ", ".join(dict.fromkeys(case.kernel for case in cases)))
    return replace(
        choice,
        missing=notes,
        boost=unknown_boost(on, program.machine, policies.values(), run.boosted_cpus),
        of_power=of_power({on: program.machine}, powers_w),
        facts=[kernels if name == kernels[0] else (name, value) for name, value in choice.facts],
    )


def _cut(
    program: Program, values: Mapping[tuple[Point, str, str], Values], point: Point, labels: Sequence[str], runs: int
) -> str:
    """Report that the benchmark did not end in some runs, so that settings have no time to compare."""
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
    """Give settings with the values that stay where theirs are refused; equal ones are there once then."""
    out: list[Setting] = []
    replaced: list[Setting] = []
    told: list[str] = []
    for setting in settings:
        one, words = _with_taken_epp(program, *_with_kept_rate(program, setting))
        told += words
        replaced += [one] if words else []
        if not (one.is_in(out) and one.is_in(replaced)):
            out.append(one)
    for text in dict.fromkeys(told):
        said(text)
    return out


def _with_kept_rate(program: Program, setting: Setting) -> tuple[Setting, list[str]]:
    """Give a setting with the time between samples that stays, and what the kernel refuses."""
    asked = dict(setting.tunables).get(RATE, "")
    policy = setting.applied(program.bases[0]["policy"], setting.name)
    kept = kept_rate(program.machine, policy) if asked else ""
    if not kept:
        return setting, []
    tunables = tuple((name, kept if name == RATE else value) for name, value in setting.tunables)
    one = replace(setting, tunables=tunables, name=with_kept(setting.name, asked, kept))
    return one, [f"{policy['governor']}: {refusal(asked, kept)}"]


def _with_taken_epp(program: Program, setting: Setting, told: list[str]) -> tuple[Setting, list[str]]:
    """Give a setting without a preference that its driver does not have or refuses.

    What a variant alone is about stays: its runs are those of another setting, which has a sentence.
    """
    policy = setting.applied(program.bases[0]["policy"], setting.name)
    driver = driver_of(setting, program.machine, policy)
    words = no_epp(driver, program.machine, policy) or refused_epp(driver, policy)
    name = " ".join(one for one in setting.name.split(" ") if one != f"epp={policy.get('epp')}")
    if not words or (setting.name and name in ("", setting.name)):
        return setting, told
    keys = tuple((key, value) for key, value in setting.keys if key != "epp")
    return replace(setting, keys=keys, name=name), [*told, words]


def _able(program: Program, settings: Sequence[Setting], said: Callable[[str], None]) -> list[Setting]:
    """Give the settings that can run on the machine; where the first cannot, the next one is the baseline.

    Raises
    ------
    InputError
        None can.
    """
    one = replace(program, bases=program.bases[:1])
    cases = one.cases(settings, labels_of(settings), Policy.variation)
    whys = {case.policy: why for case in cases if (why := why_unable(case))}
    out = [setting for setting, case in zip(settings, cases, strict=True) if case.policy not in whys]
    words = []
    for why in dict.fromkeys(whys.values()):
        labels = [label for label, own in whys.items() if own == why]
        base = f", so that {labels_of(out)[0]} is the baseline" if out and cases[0].policy in labels else ""
        words.append(f"{in_words(labels)} cannot run on {cases[0].machine}{base}: {why}")
    if not out:
        raise InputError("; ".join(words))
    for text in words:
        said(text)
    return out


def _of_known_power(program: Program, settings: Sequence[Setting], said: Callable[[str], None]) -> list[Setting]:
    """Give the settings whose power beside the first's is known: not those that change idle states of unknown power."""
    base = program.bases[0]["policy"]
    applied = [one.applied(base, one.name) for one in settings]
    out = []
    for label, setting, policy in zip(labels_of(settings), settings, applied, strict=True):
        if changes_unknown_idle(program.machine, applied[0], policy):
            said(
                f"{label} is left out: what it changes in idle states costs an unknown power, as the machine file has "
                "none of them (`opplab fit power`)"
            )
        else:
            out.append(setting)
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
    shared = {key: plain(value) for key, value in (policy or {}).items()}
    try:
        program = program_of(machine, workload, seconds=seconds, seeds=[SEED], keys=shared)
    except OpplabError:
        # The work does not run on it: that is the error where it is to run.
        return {}
    first = grid(governors)[0]

    def why_not(setting: Setting) -> str:
        try:
            (case,) = program.cases([setting], [setting.name], Policy.variation)
        except InputError as error:
            return str(error).removeprefix(f"setting `{setting.name}`: ")
        return why_unable(case)

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
    idle: Sequence[str] = ()
    """Settings that run with nothing to do, too, the baseline first."""
    boosted_cpus: float = 0.0
    """CPUs of a cluster above the clock without boost, of the run that has most."""

    def own(self, cases: Sequence[Any]) -> tuple[dict[tuple[Point, str, str], Values], dict[str, tuple[str, str]]]:
        """Run cases at the machine file's own numbers: values, and unit and sense of each metric."""
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
        if self.idle:
            add_power_at_equal_work(values, self.idle)
            units[POWER_AT_EQUAL_WORK] = ("W", "lower")
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
        if self.idle:
            add_power_at_equal_work(into, self.idle)


def add_power_at_equal_work(values: dict[tuple[Point, str, str], Values], labels: Sequence[str]) -> None:
    """Add what each setting draws on average at the first one's pace of work, idle once it is done.

    Work by the second is power by energy per work; each run and draw has its own partner.
    """
    (point,) = {point for point, _, _ in values if point[1] != _opplab.IDLE}
    idle = (point[0], _opplab.IDLE, "")

    def at(label: str, metric: str, draw: int, of: Point = point) -> Mapping[int, float]:
        found = values.get((of, label, metric), Values())
        return found.drawn.get(draw, {}) if draw else found.own

    def of_label(label: str, draw: int) -> dict[int, float]:
        (rest,) = at(label, "power", draw, idle).values() or (0.0,)
        power, per_work = at(label, "power", draw), at(label, ENERGY_PER_WORK, draw)
        base_power, base_per_work = at(labels[0], "power", draw), at(labels[0], ENERGY_PER_WORK, draw)
        out = {}
        for one in set(power) & set(per_work) & set(base_power) & set(base_per_work):
            if base_per_work[one] and power[one]:
                busy_share = base_power[one] / base_per_work[one] * per_work[one] / power[one]
                out[one] = power[one] * busy_share + rest * (1 - busy_share)
        return out

    for label in labels:
        draws = sorted(values.get((point, label, "power"), Values()).drawn)
        drawn = {draw: found for draw in draws if (found := of_label(label, draw))}
        values[point, label, POWER_AT_EQUAL_WORK] = Values(of_label(label, 0), drawn).in_order()


def _wanted(metric: str) -> bool:
    return not metric.startswith(_DETAILS)
