"""What was simulated for the rows of a published table: the forecasts that the scoreboard and predictions score.

An experiment's ``[[compare]]`` entries name the rows of a table that belong to each workload.
"""

from __future__ import annotations

import math
import statistics
import tomllib
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opplab.catalog import nearest
from opplab.errors import InputError
from opplab.runs import is_rate

if TYPE_CHECKING:
    import polars as pl

    from opplab.comparison import published
    from opplab.sweep.experiments import Experiment


class NotKnown(InputError):
    """A value that the model has and these runs do not: a power that the machine's file lacks, work without an end."""


Point = tuple[str, str]
"""The label of a workload, and the parameters of one of its points."""


class Facts:
    """Means over the iterations of everything that was measured on a machine, by workload, parameters and policy.

    They are those of tables: `opplab.sweep.confidence.mean_of`, harmonic for rates. A metric that is unknown in one
    iteration has no mean: the other iterations are those whose work ended.
    """

    def __init__(self, results: pl.DataFrame) -> None:
        import polars as pl

        keys = ["benchmark", "param", "policy", "metric"]
        value = pl.col("value")
        of_rates = [unit for unit in results["unit"].unique() if is_rate(True, unit)]
        rate = (pl.col("better").first() == "higher") & pl.col("unit").first().is_in(of_rates)
        known = pl.when(value.null_count() == 0)
        mean = known.then(pl.when(rate & (value.min() > 0)).then(1 / (1 / value).mean()).otherwise(value.mean()))
        means = results.group_by(keys, maintain_order=True).agg(mean.alias("value"))
        self._values: dict[tuple[str, str, str], dict[str, float]] = {}
        for benchmark, param, policy, metric, value in means.iter_rows():
            self._values.setdefault((benchmark, param, policy), {})[metric] = value
        senses = results.group_by("metric").agg(pl.col("better").first())
        self._better: dict[str, str] = dict(senses.iter_rows())

    @classmethod
    def by_machine(cls, results: pl.DataFrame) -> dict[str, Facts]:
        """Give those of each machine of some results."""
        parts = results.partition_by("machine", maintain_order=True)
        return {part["machine"][0]: cls(part) for part in parts}

    def beside(self, others: Facts) -> Facts:
        """Give these, with the points of `others` that they lack."""
        found = copy(self)
        found._values = others._values | self._values
        return found

    def better(self, metric: str) -> str:
        """Which side of a metric, or of a quotient as `value` takes it, is better; empty if that is not known."""
        first, *divisors = metric.split("/")
        turned = {"higher": "lower", "lower": "higher"}
        senses = {turned.get(self._better.get(name) or "", "") for name in divisors}
        senses |= set() if first == "1" else {self._better.get(first) or ""}
        return senses.pop() if len(senses) == 1 else ""

    def points(self, workloads: Sequence[str]) -> list[Point]:
        """Give the points of workloads, in order."""
        return list(dict.fromkeys((name, param) for name, param, _ in self._values if name in workloads))

    def time(self, point: Point, policy: str) -> float:
        """Give the weight of a point in means over time: what it took, or 1 where its time is given."""
        return self._values.get((*point, policy), {}).get("elapsed", 1.0)

    def value(self, point: Point, policy: str, metrics: Sequence[str]) -> float | None:
        """Give the sum of `metrics` at a point; None if the point was not simulated.

        A metric may be a quotient, as ``throughput/power`` or ``1/elapsed/power``, the work for each joule.
        ``busy_clock:CLUSTER`` is the mean frequency of a cluster's busy time in GHz, ``busy:CLUSTER`` its busy share.
        """
        values = self._values.get((*point, policy))
        if values is None:
            return None
        found = values | _busy(values)

        def one(name: str) -> float:
            if name not in found:
                plain = [other for other in found if ":" not in other]
                raise InputError(f"`simulated` names the metric '{name}'{nearest(name, plain)}")
            if (value := found[name]) is None:
                why = "a power is missing" if name.partition(":")[0] in ("energy", "power") else "the work did not end"
                raise NotKnown(f"{name} of {policy} {' '.join(filter(None, point))} is not known: {why}")
            return value

        def quotient(metric: str) -> float:
            first, *divisors = metric.split("/")
            top = 1.0 if first == "1" else one(first)
            for name in divisors:
                if one(name) == 0:
                    raise InputError(f'`simulated = "{metric}"` divides by {name}, which is 0 for {policy} {point[0]}')
            return top / math.prod(one(name) for name in divisors)

        return math.fsum(quotient(metric) for metric in metrics)

    def explain(self, points: Sequence[Point], baseline: str, variant: str) -> str:
        """Describe what the simulator did differently: clocks, busy time, power, switches, migrations."""
        base, new = (self._pooled(points, policy) for policy in (baseline, variant))
        parts = []
        for name, unit in (("clock while busy", "GHz"), ("busy", "%"), ("power", "W")):
            before, after = base.get(name), new.get(name)
            if before is not None and after is not None:
                parts.append(f"{name} {before:.3g} -> {after:.3g} {unit}")
        for name in ("switches", "migrations", "frequency changes"):
            before, after = base.get(name), new.get(name)
            if before and after and not 0.8 < after / before < 1.25:
                parts.append(f"{name} {before:.3g} -> {after:.3g}")
        return "; ".join(parts)

    def _pooled(self, points: Sequence[Point], policy: str) -> dict[str, float]:
        """Give the few numbers of `explain`, means over the points."""
        sums: dict[str, list[float]] = {}
        for point in points:
            facts = self._values.get((*point, policy))
            if facts is None:
                continue
            busy = {metric: value for metric, value in facts.items() if metric.startswith("busy:")}
            clocks = sum(value * int(metric.rpartition("@")[2]) / 1e6 for metric, value in busy.items())
            total = math.fsum(busy.values())
            clusters = len({metric.partition("@")[0] for metric in busy}) or 1
            found = {"busy": total / clusters}
            if total:
                found["clock while busy"] = clocks / total
            changes = [value for metric, value in facts.items() if metric.startswith("freq_changes:")]
            found["frequency changes"] = math.fsum(changes)
            found |= {name: facts[name] for name in ("switches", "migrations", "power") if facts.get(name) is not None}
            for name, value in found.items():
                sums.setdefault(name, []).append(value)
        return {name: math.fsum(values) / len(values) for name, values in sums.items()}


def _busy(values: Mapping[str, float]) -> dict[str, float]:
    """Give the busy share in percent and the mean frequency of the busy time in GHz of each cluster."""
    found: dict[str, float] = {}
    cycles: dict[str, float] = {}
    for metric, value in values.items():
        if metric.startswith("busy:"):
            cluster, _, khz = metric.partition("@")
            found[cluster] = found.get(cluster, 0.0) + value
            cycles[cluster] = cycles.get(cluster, 0.0) + value * int(khz) / 1e6
    clocks = {f"busy_clock:{one.removeprefix('busy:')}": cycles[one] / busy for one, busy in found.items() if busy}
    return found | clocks


def axes_of(text: str) -> dict[str, str]:
    """Split parameters, as results (``a=1 b=2``) and published rows (``a=1;b=2``) write them."""
    parts = (part.partition("=") for part in text.replace(";", " ").split())
    return {name: value for name, equals, value in parts if equals}


def belongs(row: Mapping[str, str], point: Mapping[str, str]) -> bool:
    """Whether a row is of a point: the parameters that both name are equal."""
    return all(row.get(name, value) == value for name, value in point.items())


RowName = tuple[int, str, str, str, str]
"""A row of a published table: number of the `compare` entry, metric, benchmark, parameter, machine."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What was simulated for a row of a table."""

    baseline: str
    """The baseline as the table names it."""
    simulated: float
    simulated_baseline: float
    """`simulated` and `simulated_baseline`: means over the row's points."""
    points: int
    explanation: str
    """What the simulator did differently from the baseline."""
    row: RowName
    """Where the row stands."""

    @property
    def ratio(self) -> float:
        """Simulated value over the baseline's."""
        return self.simulated / self.simulated_baseline


def forecasts(
    experiment: Experiment,
    table: Sequence[published.Published],
    facts: Mapping[str, Facts],
    only: Container[RowName] | None = None,
    left_out: Callable[[published.Published, str], None] | None = None,
    not_known: Callable[[published.Published, str], None] | None = None,
) -> Iterator[tuple[published.Published, published.Published | None, Mapping[str, Any], Forecast]]:
    """Give the simulated rows of a table: the row, its baseline's where there is one, the entry, the forecast.

    Rows of the baseline itself, and rows of other tables, machines or benchmarks than the entries name, are left out.
    `left_out` takes rows of other machines, benchmarks and senses, with the reason; `not_known`, or else `left_out`,
    those whose values are not known: without both the first of them is an error. `facts` are by machine.
    """
    not_known = not_known or left_out
    base_of = {variant: base for base, variant in experiment.pairs}
    governors = governors_of(experiment)
    for number, entry in enumerate(experiment.compare):
        simulated_on = machines_of(experiment, table, entry, left_out)
        rows = [row for row, _ in simulated_on]
        names = {label: entry["variants"].get(label, label) for label in experiment.policies}
        labels = {name: label for label, name in names.items()}
        by_place = {(row.machine, row.metric, row.benchmark, row.parameter, row.variant): row for row in rows}
        for row, machine in simulated_on:
            place = (number, row.metric, row.benchmark, row.parameter, row.machine)
            if only is not None and place not in only:
                continue
            axes = axes_of(row.parameter)
            if axes.get("governor", "") not in ("", *governors):
                continue
            label = labels.get(row.variant)
            base = base_of.get(label) if label is not None else None
            if label is None or base is None:
                continue
            simulated = [metric.format_map(axes) for metric in entry["simulated"]]
            own = facts.get(machine)
            if own is None:
                continue
            if (sense := own.better(simulated[0])) and row.better and row.better != sense:
                why = f"{row.metric} is better {row.better}, and the simulated {simulated[0]} {sense}"
                if left_out is None:
                    raise InputError(f"`compare`: {why}: another entry of the table's rows takes `metric`")
                left_out(row, why)
                continue
            anchor = by_place.get((row.machine, row.metric, row.benchmark, row.parameter, names[base]))
            if anchor is None:
                # A table whose variants are its parameters has one baseline for all rows.
                beside = (other for other in rows if (other.machine, other.metric) == (row.machine, row.metric))
                anchor = next((other for other in beside if other.variant == names[base]), None)
            used: list[Point] = []
            values: dict[str, list[float]] = {label: [], base: []}
            for point in own.points(entry["workloads"]):
                if not belongs(axes, axes_of(point[1])):
                    continue
                try:
                    new, old = (own.value(point, policy, simulated) for policy in (label, base))
                except NotKnown as error:
                    if not_known is None:
                        raise
                    not_known(row, str(error))
                    used.clear()
                    break
                if new and old:
                    used.append(point)
                    values[label].append(new)
                    values[base].append(old)
            if not used:
                continue
            if entry["over_time"]:
                means = {name: over_time(of, [own.time(point, name) for point in used]) for name, of in values.items()}
            else:
                means = {name: statistics.geometric_mean(of) for name, of in values.items()}
            explanation = own.explain(used, base, label)
            yield row, anchor, entry, Forecast(names[base], means[label], means[base], len(used), explanation, place)


def deviations_of(
    experiment: Experiment,
    table: Sequence[published.Published],
    results: pl.DataFrame,
    only: Container[RowName] | None = None,
    left_out: Callable[[published.Published, str], None] | None = None,
    not_known: Callable[[published.Published, str], None] | None = None,
) -> dict[tuple[RowName, str], float]:
    """Give the deviation of each predicted ratio's logarithm from run to run, by row and variant (`deviation_of`).

    Where a row's points have unlike numbers of iterations, those without an iteration stand there with their mean.
    """
    ratios: dict[tuple[RowName, str], list[float]] = {}
    means = Facts.by_machine(results)
    for part in results.partition_by("iteration"):
        own = Facts.by_machine(part)
        of_own = forecasts(experiment, table, own, only, left_out, not_known)
        here = {(forecast.row, row.variant) for row, _, _, forecast in of_own}
        whole = {machine: facts.beside(means[machine]) for machine, facts in own.items()}
        for row, _, _, forecast in forecasts(experiment, table, whole, only, left_out, not_known):
            if (key := (forecast.row, row.variant)) in here:
                ratios.setdefault(key, []).append(math.log(forecast.ratio))
    return {key: deviation_of(of) for key, of in ratios.items()}


def deviation_of(values: Sequence[float]) -> float:
    """Give the standard deviation of the difference of two means over so many runs; 0 of a single one.

    Measured runs have other seeds and phases than simulated ones, and about as many of them.
    """
    return statistics.stdev(values) * math.sqrt(2 / len(values)) if len(values) > 1 else 0.0


def over_time(values: Sequence[float], times: Sequence[float]) -> float:
    """Give the mean of values that hold for these times."""
    return math.fsum(value * time for value, time in zip(values, times, strict=True)) / math.fsum(times)


def governors_of(experiment: Experiment) -> set[str]:
    """Give the governors of an experiment's policies, as its file names them."""
    file = tomllib.loads(experiment.text)
    default = file.get("defaults", {}).get("governor", "")
    return {policy.get("governor", default) for policy in file["policy"]}


def benchmark_models(experiment: Experiment) -> dict[str, str]:
    """Give the benchmark model of each workload of an experiment's file, by label; an rt-app file is ``rt-app``."""
    return {label: one.get("benchmark", "rt-app") for label, one in experiment.workloads.items()}


def machines_of(
    experiment: Experiment,
    table: Sequence[published.Published],
    entry: Mapping[str, Any],
    left_out: Callable[[published.Published, str], None] | None = None,
) -> list[tuple[published.Published, str]]:
    """Give the rows that an entry names, each with the simulated machine that it is of.

    That is the one of the row's name. Where no simulated machine has a name of the table, the only one stands for the
    table's only one. `left_out` takes rows of other machines and benchmarks, with the reason.

    Raises
    ------
    InputError
        It is not known which machine stands for which, or which of several benchmarks is simulated.
    """
    rows = rows_of(experiment.published_seed, table, entry)
    simulated = list(dict.fromkeys(case.machine for case in experiment.cases))
    named = list(dict.fromkeys(row.machine for row in rows))
    alike = set(named) & set(simulated)
    if not alike and max(len(named), len(simulated)) > 1:
        theirs, ours = ", ".join(named) or "not named", ", ".join(simulated)
        raise InputError(
            f"`compare`: the table's machines are {theirs}, the simulated ones {ours}: where there are several, the "
            "names are the same, or `machine` of the entry has the one that is simulated"
        )
    benchmarks = list(dict.fromkeys(row.benchmark for row in rows))
    models = benchmark_models(experiment)
    fitting = {*entry["workloads"], *(models.get(label, "") for label in entry["workloads"])}
    if len(benchmarks) > 1 and not fitting.intersection(benchmarks):
        raise InputError(
            f"`compare`: the table's benchmarks are {', '.join(benchmarks)}: `benchmark` of the entry has the one that "
            f"{', '.join(entry['workloads'])} simulates"
        )
    found = []
    for row in rows:
        why = f"no machine of the name {row.machine} is simulated" if alike and row.machine not in alike else ""
        if len(benchmarks) > 1 and row.benchmark not in fitting:
            why = f"no entry of `compare` has the benchmark {row.benchmark}"
        if not why:
            found.append((row, row.machine if alike else simulated[0]))
        elif left_out is not None:
            left_out(row, why)
    return found


def rows_of(seed: str, table: Sequence[published.Published], entry: Mapping[str, Any]) -> list[published.Published]:
    """Give the published rows that an entry names; a name that no row has is refused."""
    rows = list(table)
    for key in ("table", "machine", "benchmark", "metric"):
        name = entry[key]
        if not name:
            continue
        known = list(dict.fromkeys(str(getattr(row, key)) for row in rows))
        rows = [row for row in rows if getattr(row, key) == name]
        if not rows:
            raise InputError(f"`compare`: text {seed} has no {key} '{name}'{nearest(name, known)}")
    return rows
