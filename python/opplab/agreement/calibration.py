"""Fit the free constants of a benchmark model to a baseline, and only to a baseline.

A benchmark model marks the constants that no source has. `fit` runs the baseline policy of an experiment at the
points of a published column and moves these constants, one at a time, until the values come closest; no other policy is
run or read. The result is a file in ``data/calibration``, which an experiment's workload names
(``calibration = "tbench@epyc-7742-2s"``): values, what they were fitted to, and what is left.

The distance is the root of the mean squared logarithm of simulated / published, so that points count by ratio.
"""

from __future__ import annotations

import json
import math
import re
import statistics
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opplab import _opplab, catalog
from opplab.agreement.forecast import axes_of, belongs, machines_of
from opplab.comparison import published
from opplab.errors import InputError
from opplab.files import csv_rows, read_text, toml_of
from opplab.simulation.cases import Case, Measured
from opplab.simulation.fitted import fingerprint, is_of_today
from opplab.sweep.confidence import estimate
from opplab.sweep.experiments import Experiment
from opplab.sweep.runner import run_cases

HIGHEST = 10**15
"""Above any constant; each is kept within its own range."""


@dataclass(frozen=True)
class Target:
    """What is fitted to: published values of the baseline, by parameter."""

    source: str
    values: dict[str, float]


@dataclass
class Fit:
    """What came of a fit."""

    benchmark: str
    machine: str
    experiment: str
    policy: str
    target: str
    values: dict[str, int | str]
    """The fitted constants, and what they were fitted with (``disk``)."""
    points: list[tuple[str, float, float]] = field(default_factory=list)
    """Parameter, published value, mean of the simulated values."""
    intervals: dict[str, float] = field(default_factory=dict)
    """Of each parameter half the width of the 95 % interval of that mean, in percent of it; without where there is one
    seed only."""
    runs: int = 0
    """Simulations that it took."""
    left_out: list[str] = field(default_factory=list)
    """Parameters of the baseline that the experiment has no case of."""

    @property
    def residual(self) -> float:
        """Root of the mean squared relative distance that is left, in percent."""
        return 100 * math.expm1(_distance([(old, new) for _, old, new in self.points]))


def _distance(pairs: Sequence[tuple[float, float]]) -> float:
    return math.sqrt(math.fsum(math.log(new / old) ** 2 for old, new in pairs) / len(pairs)) if pairs else math.inf


def minimise(
    function: Callable[[int], float], start: int, low: int, high: int, factor: float = 2.0, steps: int = 8
) -> int:
    """Give the whole number in [low, high] near `start` at which a function of one dip is least.

    Golden-section search over the logarithm, in a bracket that widens by `factor` until the least value is inside.

    Examples
    --------
    >>> minimise(lambda x: abs(math.log(x / 700)), 100, 1, 10_000, steps=14)
    700
    """
    known: dict[int, float] = {}

    def at(x: float) -> float:
        whole = min(max(round(math.exp(x)), low), high)
        if whole not in known:
            known[whole] = function(whole)
        return known[whole]

    middle, width = math.log(max(start, 1)), math.log(factor)
    bottom, top = math.log(max(low, 1)), math.log(high)
    a, b, c = max(middle - width, bottom), middle, min(middle + width, top)
    while at(a) < at(b) and a > bottom:
        a, b, c = max(a - width, bottom), a, b
    while at(c) < at(b) and c < top:
        a, b, c = b, c, min(c + width, top)
    golden = (math.sqrt(5) - 1) / 2
    for _ in range(steps):
        left, right = c - golden * (c - a), a + golden * (c - a)
        if at(left) <= at(right):
            c = right
        else:
            a = left
    return min(known, key=lambda whole: (known[whole], whole))


def read_baseline(
    path: Path, table: str = "", variant: str = "", metric: str = "", machine: str = "", benchmark: str = ""
) -> Target:
    """Read the baseline's column of a table.

    Parameters
    ----------
    path : Path
        CSV with the columns ``parameter`` and ``value``; of a file with the columns of ``data/published``, the rows of
        `table`, `variant` and `metric` are taken, where given. Of several machines or benchmarks it is the rows of
        `machine` and `benchmark`.
    """
    names, rows = csv_rows(path)
    for column in ("parameter", "value"):
        if column not in names:
            raise InputError(f"failed to read {path}:1:1: the table has no column '{column}'")
    wanted = {"table": table, "variant": variant, "metric": metric}
    several = {"machine": machine, "benchmark": benchmark}
    wanted |= {key: own for key, own in several.items() if key in names and len({line[key] for _, line in rows}) > 1}
    values: dict[str, float] = {}
    for number, line in rows:
        if any(name in names and word and line[name] != word for name, word in wanted.items()):
            continue
        try:
            value = float(line["value"])
        except ValueError:
            raise InputError(f"failed to read {path}:{number}:1: '{line['value']}' is no number") from None
        if not 0 < value < math.inf:
            raise InputError(f"failed to read {path}:{number}:1: a value of {value:g}; a fit needs values above 0")
        if line["parameter"] in values:
            raise InputError(
                f"failed to read {path}:{number}:1: a second value of the baseline at {line['parameter'] or 'all'}"
            )
        values[line["parameter"]] = value
    if not values:
        raise InputError(f"{path} has no row of the baseline ({', '.join(filter(None, wanted.values()))})")
    return Target(path.name, values)


def experiment_of(benchmark: str, machine: str) -> tuple[str, str]:
    """Give the built-in experiment, and its workload, that uses the calibration of a benchmark on a machine."""
    known = []
    for name in catalog.names("experiment"):
        data = catalog.table("experiment", name)
        for workload in data["workload"]:
            if "calibration" in workload:
                known.append(workload["calibration"])
            machines = data["machine"] if isinstance(data["machine"], list) else [data["machine"]]
            if workload.get("calibration") == f"{benchmark}@{machine}" and machine in machines:
                return name, workload.get("label", benchmark)
    wanted = f"{benchmark}@{machine}"
    hint = catalog.nearest(wanted, list(dict.fromkeys(known)))
    raise InputError(f'no experiment has `calibration = "{wanted}"`{hint}')


def constants(benchmark: str) -> list[dict[str, Any]]:
    """Give the parameters of a benchmark model that may be fitted."""
    return [param for param in _params(benchmark) if param["calibrated"]]


def _params(benchmark: str) -> list[dict[str, Any]]:
    models = {model["name"]: model for model in _opplab.benchmarks()}
    if benchmark not in models:
        raise InputError(f"unknown benchmark `{benchmark}`{catalog.nearest(benchmark, list(models))}")
    return list(models[benchmark]["params"])


def fit(
    benchmark: str,
    machine: str,
    *,
    baseline: Path | None = None,
    only: Sequence[str] = (),
    points: Sequence[str] = (),
    rounds: int = 2,
    steps: int = 6,
    jobs: int = 1,
    seeds: int = 3,
    experiment: Path | None = None,
    progress: Callable[[Mapping[str, int], float], None] | None = None,
) -> Fit:
    """Fit the constants of a benchmark model on a machine to the baseline's published values.

    Parameters
    ----------
    baseline : Path, optional
        The table; by default the published one that the experiment compares with.
    only : sequence of str
        Constants to fit; by default all that the model marks and the experiment leaves open.
    points : sequence of str
        Parameters (``clients=1``) to fit at; by default all that are published.
    rounds, steps : int
        How often each constant is moved, and evaluations a move.
    jobs : int
        Number of threads.
    seeds : int
        Seeds whose mean is fitted: where a run goes one of two ways, one seed would be fitted to a chance.
    experiment : Path, optional
        The experiment whose baseline is fitted; by default the built-in one that names the calibration.
    progress : callable, optional
        Called with the constants and their distance.
    """
    name, label = experiment_of(benchmark, machine) if experiment is None else _in_file(experiment, benchmark)
    first = Experiment.load(name, iterations=1, refit=True)
    entry = next(
        (one for one in first.compare if label in one["workloads"] and one["calibration"]),
        next((one for one in first.compare if label in one["workloads"]), None),
    )
    if entry is None:
        raise InputError(f"experiment {name} compares nothing with its workload {label}")
    machines = list(dict.fromkeys(case.machine for case in first.cases))
    on = machine if len(machines) > 1 else machines[0]
    if on not in machines:
        raise InputError(f"experiment {name} has no machine {machine}{catalog.nearest(machine, machines)}")
    policy = first.baseline
    called = entry["variants"].get(policy, policy)
    if baseline is None:
        on_machines = machines_of(first, published.cells_for(first), entry)
        rows = [row for row, place in on_machines if row.variant == called and place == on]
        target = Target(f"text {first.published_seed}, {entry['table']}", {row.parameter: row.value for row in rows})
    else:
        target = read_baseline(baseline, entry["table"], called, entry["metric"], on, benchmark)
    if unknown := [place for place in points if place not in target.values]:
        raise InputError(f"the baseline has no value at {', '.join(unknown)} (it has {', '.join(target.values)})")
    wanted = {place: value for place, value in target.values.items() if not points or place in points}
    params = {case.param for case in first.cases if (case.machine, case.policy, case.benchmark) == (on, policy, label)}
    left_out = [place for place in wanted if not any(belongs(axes_of(place), axes_of(param)) for param in params)]
    for place in left_out:
        del wanted[place]
    if not wanted:
        there = (
            f"it has {', '.join(sorted(params))}" if any(params) else f"it has none of {label} under {policy} on {on}"
        )
        raise InputError(f"experiment {name} has no case of {', '.join(left_out) or 'the baseline'}: {there}")
    free = [param for param in constants(benchmark) if not only or param["name"] in only]
    if not free:
        known = ", ".join(param["name"] for param in constants(benchmark)) or "none"
        raise InputError(f"there is nothing to fit: the constants of {benchmark} are {known}")
    last = first.fits.get(first.workloads[label].get("calibration", ""))
    if only and last and not is_of_today(toml_of(last, name)):
        raise InputError(
            f"the model of {benchmark} has changed since its last fit, so that all its constants are fitted"
        )
    made = Fit(benchmark, machine, name, policy, f"{target.source}, {called}", {}, left_out=left_out)
    found: dict[tuple[int, ...], dict[str, list[float]]] = {}

    def simulated(constants: Mapping[str, int]) -> dict[str, list[float]]:
        key = tuple(constants.values())
        if key not in found:
            params = {(label, one): value for one, value in constants.items()}
            tried = Experiment.load(name, iterations=seeds, params=params, refit=True)
            own = (on, policy, label)
            cases = [case for case in tried.cases if (case.machine, case.policy, case.benchmark) == own]
            found[key] = _simulate(cases, wanted, entry["simulated"], jobs)
            made.runs += sum(map(len, found[key].values()))
        return found[key]

    def values_at(constants: Mapping[str, int]) -> list[tuple[str, float, float]]:
        values = simulated(constants)
        return [(place, wanted[place], math.fsum(own) / len(own)) for place, own in values.items()]

    at = {param["name"]: _start(first, label, param) for param in free}
    for turn in range(rounds):
        for param in free:
            one = str(param["name"])

            def distance(value: int, one: str = one) -> float:
                here = {**at, one: value}
                there = _distance([(old, new) for _, old, new in values_at(here)])
                if progress:
                    progress(here, there)
                return there

            spread = 2.0 if turn == 0 else 1.3
            at[one] = minimise(distance, at[one], 1, HIGHEST, spread, steps)
    # What is not fitted this time stays as it was.
    made.values = {**_last(first, label), **at}
    made.points = values_at(at)
    means = {place: estimate(own) for place, own in simulated(at).items()}
    made.intervals = {place: 100 * one.half / one.mean for place, one in means.items() if one.half is not None}
    return made


def _in_file(path: Path, benchmark: str) -> tuple[str, str]:
    """Give an experiment's file and the label of the workload that runs a benchmark."""
    text = read_text(path, "an experiment file")
    # Refused with its line, before parts of it are taken.
    _opplab.Experiment.parse(str(path), text)
    data = toml_of(text, path)
    known = {one.get("benchmark", ""): one.get("label", one.get("benchmark", "")) for one in data.get("workload", [])}
    if benchmark not in known:
        raise InputError(f"{path} has no workload of `{benchmark}`{catalog.nearest(benchmark, list(known))}")
    return str(path), str(known[benchmark])


def _start(experiment: Experiment, label: str, param: Mapping[str, Any]) -> int:
    """Give the value from which a constant is moved: that of the last calibration, or the model's own."""
    return max(int(_last(experiment, label).get(param["name"], param["default"])), 1)


def _last(experiment: Experiment, label: str) -> dict[str, int | str]:
    """Give the values of the calibration as it is."""
    workload = experiment.workloads[label]
    if "calibration" not in workload:
        return {}
    values: dict[str, int | str] = toml_of(experiment.fits[workload["calibration"]], workload["calibration"])["values"]
    return values


def _simulate(
    cases: Sequence[Case], wanted: Mapping[str, float], metrics: Sequence[str], jobs: int
) -> dict[str, list[float]]:
    """Run the baseline's cases of the wanted points; gives the simulated values of each, one an iteration.

    Of a point that stands for several cases it is their geometric mean.
    """
    places = {case.hash: [place for place in wanted if belongs(axes_of(place), axes_of(case.param))] for case in cases}
    values: dict[str, dict[int, list[float]]] = {}

    def keep(case: Case, measured: Measured) -> None:
        by_name = {metric: value for metric, _, _, value in measured.rows if value is not None}
        if all(metric in by_name for metric in metrics):
            for place in places[case.hash]:
                own = values.setdefault(place, {}).setdefault(case.iteration, [])
                own.append(math.fsum(by_name[metric] for metric in metrics))

    tally = run_cases([case for case in cases if places[case.hash]], jobs=jobs, keep=keep)
    if tally.problems:
        raise InputError(f"the baseline cannot be simulated: {tally.problems[0]}")
    found = {
        place: [statistics.geometric_mean(own) for _, own in sorted(values.get(place, {}).items()) if min(own) > 0]
        for place in wanted
    }
    return {place: own for place, own in found.items() if own}


def to_toml(made: Fit) -> str:
    """Give the calibration file of a fit, with what each constant is."""
    about = {param["name"]: param["about"] for param in _params(made.benchmark)}
    lines = [
        f"# Made by `opplab calibrate {made.benchmark} {made.machine}` with opplab {_opplab.__version__}:",
        "# fitted to the baseline's column and to nothing else.",
        "format = 1",
        f'benchmark = "{made.benchmark}"',
        f'machine = "{made.machine}"',
        "",
        "[values]",
    ]
    for name, value in made.values.items():
        lines += [f"# {' '.join(about[name].split())}", f"{name} = {json.dumps(value)}"]

    def point(place: str, old: float, new: float) -> str:
        half = f" +- {made.intervals[place]:.1f} %" if place in made.intervals else ""
        return f'"{place or "all"}: {old:g} published, {new:.4g}{half} simulated"'

    points = ", ".join(point(*one) for one in made.points)
    lines += [
        "",
        "[fit]",
        f'experiment = "{made.experiment}"',
        f'to = "{made.target}"',
        f"residual_percent = {made.residual:.1f}",
        f"points = [{points}]",
        f'opplab = "{_opplab.__version__}"',
        f'model = "{fingerprint(made.benchmark)}"',
    ]
    return "\n".join(lines) + "\n"


def listing() -> list[dict[str, Any]]:
    """Give the built-in calibrations: machine, baseline, residual, version, and whether the model is the same."""
    rows = []
    for stem in catalog.names("calibration"):
        data = catalog.table("calibration", stem)
        fitted = data["fit"]
        known = fitted.get("model")
        state = "unknown" if known is None else "as fitted" if known == fingerprint(data["benchmark"]) else "changed"
        rows.append(
            {
                "name": stem,
                "machine": data["machine"],
                "fitted to": fitted["to"],
                "residual %": fitted["residual_percent"],
                "opplab": fitted.get("opplab", "unknown"),
                "model": state,
            }
        )
    return rows


def show(where: str = "") -> list[dict[str, Any]]:
    """Give every constant that was fitted, learnt, published or assumed: one row a benchmark's, fit's and machine's.

    `where` keeps those of one benchmark or machine with its fits, or of one fit. ``how`` names which of these;
    ``learnt`` and ``range`` what a recording gave beside it, and how far it may be off.
    A machine's constants are those whose note in ``[source]`` begins with ``[F]``, fitted.
    """
    rows: list[dict[str, Any]] = []

    def put(where: str, constant: str, value: object, how: str, source: str, residual: object, what: str) -> None:
        entry = known.get((where, constant), {})
        low_high = " to ".join(f"{bound:g}" for bound in entry.get("range", []))
        rows.append(
            {
                "where": where,
                "constant": constant,
                "value": value,
                "how": entry.get("how", how),
                "fitted to": source or entry.get("source", ""),
                "residual %": residual,
                "learnt": entry.get("learnt", ""),
                "range": low_high,
                "what it is": what,
            }
        )

    text = (Path(__file__).parents[1] / "data" / "constants.toml").read_text(encoding="utf-8")
    known = {(entry["benchmark"], entry["name"]): entry for entry in tomllib.loads(text)["constant"]}

    params = {(model["name"], str(one["name"])): one for model in _opplab.benchmarks() for one in model["params"]}
    about = {place: " ".join(str(param["about"]).split()) for place, param in params.items()}
    for place, param in params.items():
        if param["calibrated"] or place in known:
            source = "" if place in known else "the model's default"
            put(*place, param["default"], "assumed", source, None, about[place])
    for stem in catalog.names("calibration"):
        data = catalog.table("calibration", stem)
        fitted = data.get("fit", {})
        for constant, value in data["values"].items():
            what = about.get((data["benchmark"], constant), "")
            put(stem, constant, value, "calibrated", fitted.get("to", ""), fitted.get("residual_percent"), what)
    for stem in catalog.names("machine"):
        data = catalog.table("machine", stem)
        for key, note in data.get("source", {}).items():
            if re.match(r"\[F\]", str(note)):
                put(stem, key, data.get(key, ""), "calibrated", str(note)[3:].strip(), None, "of the machine")
    kept = [row for row in rows if where in ("", row["where"], *row["where"].split("@"))]
    if not kept:
        raise InputError(
            f"`{where}` has no constants{catalog.nearest(where, list({row['where']: None for row in rows}))}"
        )
    return kept
