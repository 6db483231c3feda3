"""Answers to the kernel robot's comparisons, in their layout: sign and size of each change with a probability.

A text has what ran, with which governor, and what the base reached. It lacks what the patch changes: that is a
variant of the policy (``--vs``), one for each commit after the base. Columns that are governors are the variants.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab, catalog
from opplab.comparison.tables import Cell, Row, Table
from opplab.errors import InputError
from opplab.files import relative, write_text
from opplab.metrics import powers
from opplab.report.numbers import several, some_of
from opplab.simulation.machine import Machine
from opplab.simulation.workload import ending
from opplab.sweep.progress import Shown, counted

if TYPE_CHECKING:
    import polars as pl

    from opplab.agreement.forecast import Facts
    from opplab.formats.kernel_robot import Report
    from opplab.sweep.variants import Variant


TASKS_A_GROUP = 40
"""Tasks of a hackbench group: 20 senders and 20 receivers."""

LOOP, PAIRS = "compute-loop", "pairs"
"""Names of the workloads that stand for programs which only compute, and for pairs that wake each other."""

HOP_US = 1
"""Work of a task between two wake-ups of a pair, us at the largest capacity: an empty message through a pipe."""


@dataclass(frozen=True, slots=True)
class _Model:
    """How a test of lkp-tests is simulated: benchmark, parameters, and the metrics that follow from it."""

    benchmark: str
    params: Mapping[str, Any]
    # Pattern of the test's metrics, what it is of the simulation's.
    metrics: Sequence[tuple[str, str]]
    about: str = ""


POWER = r"(?:turbostat\.PkgWatt|power\.Package|pmeter\.Average_Active_Power)"


def _count(axes: Mapping[str, str], cpus: int, *names: str) -> int:
    """Give the number of tasks: a number, or per cent of the CPUs."""
    for name in names:
        if name in axes:
            found = re.fullmatch(r"(\d+)(%?)", axes[name])
            if found is None or not int(found[1]):
                raise InputError(f"`{name}` of the text is '{axes[name]}', neither a number nor per cent of the CPUs")
            return max(1, int(found[1]) * cpus // 100) if found[2] else int(found[1])
    raise InputError(f"the text has no parameter {' or '.join(f'`{name}`' for name in names)}")


_THROUGHPUT = r"(?:throughput|Throughput)"
_TIME = r"(?:time\.)?elapsed_time(?:\.max)?|buildtime_per_iteration|real_time_per_iteration"


def _hackbench(axes: Mapping[str, str], cpus: int) -> _Model:
    # lkp-tests gives nr_threads as hackbench's number of groups (programs/hackbench/run), and loops by it.
    threads = _count(axes, cpus, "nr_threads", "nr_task")
    for name, only in (("fds", TASKS_A_GROUP // 2), ("datasize", 100)):
        if axes.get(name, str(only)) != str(only):
            raise InputError(f"`{name}` of the text is {axes[name]}: hackbench is modelled with {only}")
    params = {"groups": threads, "loops_total": min(1_000_000, max(1, 30_000 * cpus // threads))}
    # 0 is the model's first word: processes, pipes.
    words: dict[str, Any] = {**params, "kind": _word(axes, "mode", {"process": "process", "threads": "thread"})}
    words["through"] = _word(axes, "ipc", {"pipe": "pipe", "socket": "socket"})
    metrics = [(r"hackbench\.throughput(?:_avg|_best|_worst)?", "1/elapsed"), (rf"hackbench\.(?:{_TIME})", "elapsed")]
    return _of_groups(words, metrics)


def _word(axes: Mapping[str, str], name: str, words: Mapping[str, str]) -> str:
    text = axes.get(name, next(iter(words)))
    if text not in words:
        raise InputError(f"`{name}` of the text is '{text}'{catalog.nearest(text, list(words))}")
    return words[text]


def _clients(name: str, metrics: Sequence[tuple[str, str]]) -> Callable[[Mapping[str, str], int], _Model]:
    def made(axes: Mapping[str, str], cpus: int) -> _Model:
        return _Model(name, {"clients": _count(axes, cpus, "nr_threads", "nr_task")}, metrics)

    return made


def _kbuild(axes: Mapping[str, str], cpus: int) -> _Model:
    return _Model("kernbench", {"jobs": _count(axes, cpus, "nr_task")}, [(rf"kbuild\.(?:{_TIME})", "elapsed")])


def _netperf(axes: Mapping[str, str], cpus: int) -> _Model:
    test = _word(axes, "test", {"UDP_STREAM": "netperf-udp", "TCP_STREAM": "netperf-tcp"})
    streams = _count(axes, cpus, "nr_threads")
    return _Model(test, {"streams": streams}, [(rf"netperf\.{_THROUGHPUT}\w*", "throughput")])


def _messaging(axes: Mapping[str, str], cpus: int) -> _Model:
    words: dict[str, Any] = {"groups": _count(axes, cpus, "groups"), "loops_total": _count(axes, cpus, "loops")}
    words["kind"] = _word(axes, "mode", {"process": "process", "thread": "thread"})
    words["through"] = _word(axes, "ipc", {"socket": "socket", "pipe": "pipe"})
    metrics = [(rf"perf-bench-sched-messaging\.(?:total_time_sec|{_TIME})", "elapsed")]
    return _of_groups(words, metrics)


def _of_groups(params: Mapping[str, Any], metrics: Sequence[tuple[str, str]]) -> _Model:
    return _Model("hackbench", params, metrics, f"{several(params['groups'], 'group')} of {TASKS_A_GROUP} tasks")


def _computing(metric: str) -> Callable[[Mapping[str, str], int], _Model]:
    def made(axes: Mapping[str, str], cpus: int) -> _Model:
        tasks = _count(axes, cpus, "nr_task", "nr_threads")
        return _stand_in(LOOP, {"tasks": tasks}, metric, f"{several(tasks, 'task')} of computing only")

    return made


def _pairs(metric: str, pairs: int | None = None) -> Callable[[Mapping[str, str], int], _Model]:
    def made(axes: Mapping[str, str], cpus: int) -> _Model:
        number = pairs or _count(axes, cpus, "nr_task")
        words = f"{several(number, 'pair')} of tasks that wake each other after {HOP_US} us"
        return _stand_in(PAIRS, {"pairs": number}, metric, words)

    return made


def _stand_in(workload: str, params: Mapping[str, int], metric: str, words: str) -> _Model:
    return _Model(workload, params, [(metric, "work_done")], f"what stands for it: {words}")


def _unixbench(axes: Mapping[str, str], cpus: int) -> _Model:
    made = _pairs if axes.get("test") == "context1" else _computing
    return made(r"unixbench\.(?:score|throughput|workload)")(axes, cpus)


_TESTS: dict[str, Callable[[Mapping[str, str], int], _Model]] = {
    "hackbench": _hackbench,
    "tbench": _clients("tbench", [(rf"tbench\.{_THROUGHPUT}.*", "throughput")]),
    "dbench": _clients("dbench", [(rf"dbench\.{_THROUGHPUT}.*", "1/latency"), (r"dbench\.\w*latency\w*", "latency")]),
    "kbuild": _kbuild,
    "netperf": _netperf,
    "will-it-scale": _computing(r"will-it-scale\.(?:\d+\.(?:processes|threads)|per_\w+_ops|workload)"),
    "unixbench": _unixbench,
    "stress-ng": _computing(r"stress-ng\.[\w-]+\.ops(?:_per_sec)?"),
    "sysbench-cpu": _computing(r"sysbench-cpu\.(?:throughput_events/s|workload)"),
    "pigz": _computing(r"pigz\.throughput"),
    "pbzip2": _computing(r"pbzip2\.throughput"),
    "perf-bench-sched-pipe": _pairs(r"perf-bench-sched-pipe\.ops_per_sec", 1),
    "perf-bench-sched-messaging": _messaging,
}
"""Tests of lkp-tests and their models."""

# Parts of tests that have a model: tasks that compute, or call what is their own, so that the clock decides; pairs.
_ONLY = {
    "unixbench": "arithoh context1 dhry2reg double float hanoi int long pipe short syscall whetstone-double",
    "stress-ng": "bitops branch cpu crypt expmath factor fma fp funccall funcret goto hash intmath logmath longjmp "
    "matrix monte-carlo nop powmath prime regs rotate trig vecfp vecmath vecshuf vecwide",
    "will-it-scale": "eventfd1 getppid1 pipe1 poll1 poll2",
}


_RUNNING = {"groups": TASKS_A_GROUP, "clients": 2, "streams": 2, "jobs": 2, "tasks": 1, "pairs": 2}
"""Tasks that can run at once for each of a parameter: a client and its server, a compiler and its assembler."""


def _model_of(report: Report, cpus: int) -> _Model:
    name = report.testcase
    if name not in _TESTS:
        raise InputError(f"there is no model of the test `{name}`{catalog.nearest(name, list(_TESTS))}")
    part = report.axes.get("test", "")
    if name in _ONLY and part not in _ONLY[name].split():
        raise InputError(f"there is no model of {name}'s test `{part}` (those with one: {_ONLY[name]})")
    made = _TESTS[name](report.axes, cpus)
    told = re.match(r"(\d+) threads\b", report.machine)
    load = _TESTS[name](report.axes, int(told[1])).params if told else made.params
    there = sum(load[name] * tasks for name, tasks in _RUNNING.items() if name in load)
    for row in report.rows:
        first = row.entries[0]
        # 5 %: what the test's own programs run beside the tasks.
        if first and row.metric.endswith("percent_of_cpu_this_job_got") and first.value > 105 * there:
            need = math.ceil(first.value / 100)
            raise InputError(
                f"line {row.line}: {row.metric} {first.text} needs {need} running tasks at least, the model's load has "
                f"{there}: the text's load is another one"
            )
    return made


@dataclass(frozen=True, slots=True)
class Answer:
    """A report answered: the table in the robot's layout, and each prediction by metric and commit."""

    table: Table
    predictions: list[dict[str, Any]]


def policy_of(report: Report, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Give the base's policy as the text has it, and notes of what it leaves open."""
    keys = dict(given)
    notes = []
    governor = report.axes.get("cpufreq_governor") or (report.commits[0] if _by_governor(report) else "")
    release = re.fullmatch(r"v(\d+\.\d+(?:\.\d+)?)(?:-rc\d+)?(?:-.*)?", report.commits[0])
    theirs = {"governor": governor, "kernel": release[1] if release else ""}
    for name, value in theirs.items():
        if value and keys.setdefault(name, value) != value:
            notes.append(f"{name} {keys[name]} is used, as it was given: the text has {value}")
    if "governor" not in keys:
        raise InputError("the text names no cpufreq_governor: give --governor")
    if "kernel" not in keys:
        notes.append(f"the base {report.commits[0]} names no release: the default kernel is used (or --kernel)")
    return keys, notes


def _by_governor(report: Report) -> bool:
    return set(report.commits) <= {name for name, _ in _opplab.names("governors")}


def variants_of(
    report: Report, keys: Mapping[str, Any], vs: Sequence[str], on: Machine, said: Callable[[str], None]
) -> list[Variant]:
    """Give the base's policy and one for each commit after it; the rest is as for `with_variants`.

    Raises
    ------
    InputError
        If there are not as many changes as commits.
    """
    from opplab.sweep.drivers import MachineFacts
    from opplab.sweep.power_profiles import is_power_profile, power_profiles
    from opplab.sweep.variants import with_variants

    patches = report.commits[1:]
    if not vs and _by_governor(report):
        vs = [f"governor={name}" for name in patches]
    # A file of profiles is several, also where one of them sets what the baseline has.
    facts = MachineFacts.of(on.tree)
    given = sum(len(power_profiles(text, facts, base=keys)) if is_power_profile(text) else 1 for text in vs)
    if given != len(patches):
        what = f"{several(len(patches), 'commit')} after the base ({', '.join(patches)}) and --vs gives {given}"
        raise InputError(f"line {report.line}: each commit takes one --vs KEY=VALUE: the text has {what}")
    return with_variants(keys, vs, facts, said)


def answer(
    report: Report,
    machine: str,
    *,
    policy: Mapping[str, Any],
    vs: Sequence[str],
    folder: Path,
    iterations: int = 3,
    seconds: float | None = None,
    jobs: int | None = None,
    progress: Shown | None = None,
) -> Answer:
    """Predict the changes of a report from its base, and from what its patches change.

    Parameters
    ----------
    report : Report
        Only its parameters and the base's means count.
    machine : str
        What stands for the text's machine.
    policy : mapping
        Keys of the base's policy beside those of the text.
    vs : sequence of str
        What each commit after the base changes.
    folder : Path
        Of results.
    seconds : float, optional
        Simulated time of a run; the benchmark model's own without it, as the errors were learnt with.
    progress : callable, optional
        Gives a context for so many cases.
    """
    on = Machine.load(machine)
    model = _model_of(report, on.nr_cpus)
    keys, notes = policy_of(report, policy)
    variants = variants_of(report, keys, vs, on, notes.append)
    if seconds is not None and model.benchmark in ending():
        notes.append(
            f"--seconds {seconds:g} is the most that a run takes: {model.benchmark} ends when its work is done"
        )
    results = _simulated(model, machine, variants, folder, iterations, seconds, jobs, progress)
    changes = _Changes(model, variants, results)
    # Of a run that is mostly the start of its tasks, the text has the watts of the rest.
    metrics = (*model.metrics, *((POWER, name) for name in powers([results["metric"].to_list()])))
    rows: list[Row] = []
    predictions: list[dict[str, Any]] = []
    without: dict[str, str] = {}
    for row in report.rows:
        simulated = next((own for pattern, own in metrics if re.fullmatch(pattern, row.metric)), None)
        first = row.entries[0]
        if simulated is None or first is None:
            without[row.metric] = ""
            continue
        found, why = changes.of(simulated)
        if why or not any(found):
            without[row.metric] = why
        if not any(found):
            continue
        cells: list[Cell | None] = [Cell(value=first.value, text=first.text, spread=first.spread)]
        cells += [None if one is None else one.cell(first.value) for one in found]
        chances = "; ".join(one.words for one in found if one is not None)
        rows.append(Row("", f"{row.metric}  ({chances})", cells, spread_kind="percent", metric=row.metric))
        for commit, variant, one in zip(report.commits[1:], variants[1:], found, strict=True):
            if one is not None:
                place = {"parameters": report.path, "metric": row.metric, "commit": commit, "variant": variant.label}
                predictions.append({**place, **one.numbers(first.value)})
    if not rows:
        why = ": ".join(["", *dict.fromkeys(filter(None, without.values()))][:2])
        raise InputError(f"none of the text's {several(len(report.rows), 'metric')} can be predicted{why}")
    notes += [f"the text's machine: {report.machine}"] if report.machine else []
    notes += [model.about] if model.about else []
    if without:
        known = sorted(without.items(), key=lambda one: not one[1])
        some = some_of((f"{name}{why and f': {why}'}" for name, why in known), 3)
        notes.append(f"not predicted: {len(without)} of {several(len(report.rows), 'metric')} ({some})")
    heads = [
        _head(commit, subject, variant.label if at else "")
        for at, (commit, subject, variant) in enumerate(zip(report.commits, report.subjects, variants, strict=True))
    ]
    table = Table(
        "robot",
        report.commits,
        rows,
        title=f"{'/'.join(report.axes)}:\n  {report.path}",
        benchmark=report.testcase,
        method=f"predicted on {machine} from the base's means; in parentheses the probability of the sign, and the "
        "90 % interval of the change from the runs and the model's errors on the development set",
        notes=notes,
        heads=heads,
        machine=machine,
    )
    return Answer(table, predictions)


@dataclass(frozen=True, slots=True)
class _Change:
    """A predicted change: its logarithm, half of its interval on that, and the probability of its sign."""

    log: float
    half: float
    chance: float

    @property
    def percent(self) -> tuple[float, float, float]:
        """The change and the ends of its interval, in percent."""
        low, high = (100 * math.expm1(self.log + side * self.half) for side in (-1, 1))
        return 100 * math.expm1(self.log), low, high

    @property
    def words(self) -> str:
        """The probability of the sign, and the interval."""
        change, low, high = self.percent
        return f"{'more' if change >= 0 else 'less'} {100 * self.chance:.0f} % [{low:+.1f}%, {high:+.1f}%]"

    def cell(self, base: float) -> Cell:
        """Give the value that follows from a base's."""
        value, change = base * math.exp(self.log), self.percent[0]
        text = f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
        return Cell(value=value, text=text, change_text=f"{change:+.1f}%", change=change)

    def numbers(self, base: float) -> dict[str, float]:
        """Give the same for programs."""
        change, low, high = self.percent
        numbers = {"base": base, "predicted": base * math.exp(self.log), "change_pct": change}
        return {**numbers, "low_pct": low, "high_pct": high, "sign_probability": self.chance}


class _Changes:
    """Changes of the simulated metrics, the base first, with the errors that the model has shown."""

    def __init__(self, model: _Model, variants: Sequence[Variant], results: pl.DataFrame) -> None:
        from opplab.agreement.forecast import Facts

        self.benchmark = model.benchmark
        self.base, *self.others = (one.label for one in variants)
        self.parts = [Facts(part) for part in results.partition_by("iteration")]
        self.names = list(dict.fromkeys(results["benchmark"]))

    def of(self, metric: str) -> tuple[list[_Change | None], str]:
        """Give the change of a metric by each variant, None where it is not known, and why that is so."""
        from opplab.agreement.forecast import NotKnown, deviation_of
        from opplab.agreement.predict import half_width, known_errors, sign_probability

        found: list[_Change | None] = []
        why = ""
        for variant in self.others:
            try:
                logs = [math.log(one) for part in self.parts if (one := self._ratio(part, variant, metric))]
            except NotKnown as error:
                logs, why = [], str(error)
            if not logs:
                found.append(None)
                continue
            middle, runs = math.fsum(logs) / len(logs), deviation_of(logs)
            half = half_width(self.benchmark, middle, known_errors(), runs)
            found.append(_Change(middle, half, sign_probability(self.benchmark, middle, runs, known_errors())))
        return found, why

    def _ratio(self, facts: Facts, variant: str, metric: str) -> float | None:
        (point,) = facts.points(self.names)
        ours, theirs = (facts.value(point, one, [metric]) for one in (variant, self.base))
        return ours / theirs if ours and theirs else None


def _head(commit: str, subject: str, variant: str) -> str:
    """Give a commit with its subject, and what stands for it."""
    words = f' ("{subject}")' if subject else ""
    return f"{commit}{words}" + (f" as {variant}" if variant else "")


def _tasks_of(model: _Model) -> dict[str, Any]:
    """Give the tasks of what stands for a test, as of an rt-app file."""
    if model.benchmark == LOOP:
        return {"loop": {"instance": model.params["tasks"], "loop": -1, "run": 1000}}
    tasks: dict[str, Any] = {}
    for at in range(model.params["pairs"]):
        there, back = f"there{at}", f"back{at}"
        tasks[f"ping{at}"] = {"loop": -1, "run": HOP_US, "sem_post": there, "sem_wait": back}
        tasks[f"pong{at}"] = {"loop": -1, "sem_wait": there, "run": HOP_US, "sem_post": back}
    return tasks


def _simulated(
    model: _Model,
    machine: str,
    variants: Sequence[Variant],
    folder: Path,
    iterations: int,
    seconds: float | None,
    jobs: int | None,
    progress: Shown | None,
) -> pl.DataFrame:
    """Run base and variants."""
    from opplab.simulation.fitted import with_calibration
    from opplab.sweep.experiments import Experiment
    from opplab.sweep.template import experiment_text

    folder.mkdir(parents=True, exist_ok=True)
    file = Path(machine)
    on = relative(file, folder) if file.suffix == ".toml" else machine
    if model.benchmark in (LOOP, PAIRS):
        whole = {"global": {"duration": 2, "calibration": "CPU0"}, "tasks": _tasks_of(model)}
        path = folder.parent / f"{folder.name}-{model.benchmark}.json"
        write_text(path, json.dumps(whole, indent=1) + "\n")
        text = experiment_text(folder.name, on, relative(path, folder), variants, seconds, iterations=iterations)
    else:
        params = with_calibration(dict(model.params), model.benchmark, [Machine.load(machine).name])
        text = experiment_text(
            folder.name, on, model.benchmark, variants, seconds, iterations=iterations, benchmark=params
        )
    write_text(folder / "experiment.toml", text)
    experiment = Experiment.load(folder / "experiment.toml")
    with counted(progress, len(experiment.cases)) as shown:
        return experiment.run(folder, jobs=jobs, replace=True, progress=shown)
