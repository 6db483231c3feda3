"""Where results come from: one way in, whatever the source.

==================================  =================================================================
source                              runs
==================================  =================================================================
a folder of mmtests results         its runs, e.g. ``5.9.0-ondemand``; of several folders see `by_machine`
a results folder, ``.parquet``,     the policies in it, of each machine by itself (`by_machine`); with kernel,
``.csv`` with our columns           experiment, source and folder where runs differ in these
``published:SEED``                  drawn by `opplab.comparison.published` instead
any other file or folder            one run a file, read by the first of `opplab.formats` that knows it; a folder
                                    of such files is one run, each file an iteration
==================================  =================================================================
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from math import isfinite, isnan, nan
from os import PathLike
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from opplab.errors import InputError
from opplab.files import check_size
from opplab.metrics import answers, events_of, is_answer, of_models
from opplab.mmtests import benchmarks_of, find, is_run, read_monitor, read_run, runs_of
from opplab.mmtests.problems import UnknownName
from opplab.mmtests.statistics import amean
from opplab.report.start import FIRST_IDLE, cold_waits, in_first_idle
from opplab.runs import IN_JOULES, IN_SECONDS, IN_WATTS, Problem, Run, Series, Watts
from opplab.simulation.power import is_of_power
from opplab.simulation.work import APART, ENERGY_PER_WORK, with_energy_per_work
from opplab.sweep.store import Store

_RUNS = "runs.jsonl"
"""The file of runs in a folder of `opplab host compare`."""


class Source:
    """Results of one or more runs."""

    # What could not be read.
    problems: list[Problem]
    # The run that the others are compared with unless the user names another; the first by default.
    baseline: str | None = None
    # What is taken for granted of its runs, for the reader.
    assumed: Sequence[str] = ()

    def runs(self) -> list[str]:
        """Names of the runs."""
        raise NotImplementedError

    def benchmarks(self, run: str) -> list[str]:
        """Names of the benchmarks of a run."""
        raise NotImplementedError

    def load(self, run: str, benchmark: str, metric: str = "", report: str = "") -> Run:
        """One run of one benchmark; a metric keeps the operations whose names begin with it."""
        raise NotImplementedError

    def default_metric(self, benchmark: str, report: str = "") -> str:
        """What to show of a benchmark in an overview, '' for everything."""
        return ""

    def declared(self, benchmark: str) -> list[str]:
        """Metrics that a benchmark is about, the main one first; empty for all that there are."""
        return []

    def compared(self, benchmark: str, runs: Sequence[str]) -> list[str]:
        """Those metrics, of equal work."""
        return self.declared(benchmark)

    def unlike_work(self, benchmark: str, runs: Sequence[str]) -> str:
        """Report that the energy of runs is of unlike work, the baseline first; empty if it is not, or not known."""
        return ""

    def watts(self, run: str, benchmark: str) -> Watts | None:
        """Average power; None when it was not recorded."""
        return None

    def cold(self, benchmark: str, metrics: Sequence[str]) -> list[str]:
        """Which of some metrics the start of a benchmark's runs may decide, in sentences."""
        return []

    def notes(self, benchmark: str) -> list[str]:
        """What a reader of a benchmark's values must know."""
        return []

    def per_watt(self, run: Run) -> Run:
        """Each rate of a run by the power of its case or iteration, each time multiplied by it.

        Operations whose power is known by run only are left out: such quotients have no spread.
        """
        return Run(run.name, run.benchmark)

    def monitor(self, run: str, monitor: str, benchmark: str, heading: str = "") -> Run:
        """What a monitor recorded."""
        raise InputError(f"this source has no monitors (asked for {monitor} of {benchmark})")


class Tree(Source):
    """An mmtests results folder, or several with runs of one machine."""

    def __init__(self, *directories: str) -> None:
        self.problems = []
        self.directories = directories
        found = [run for place in directories for run in _runs_in(place)]
        unique = len({run for _, run in found}) == len(found)
        folders = _named(directories)
        if len(directories) > 1:
            self.assumed = [f"runs of {', '.join(directories)}, one in each: taken for one machine's"]
        # Folder and name of each run.
        self._places = {run if unique else f"{folders[place]} {run}": (place, run) for place, run in found}

    def _at(self, run: str) -> tuple[str, str]:
        return self._places.get(run, (self.directories[0], run))

    def runs(self) -> list[str]:
        """Names of the runs."""
        return list(self._places)

    def benchmarks(self, run: str) -> list[str]:
        """Names of the benchmarks of a run that can be read."""
        found = []
        for name in benchmarks_of(*self._at(run)):
            try:
                find(name)
            except UnknownName:
                continue
            found.append(name)
        return found

    def load(self, run: str, benchmark: str, metric: str = "", report: str = "") -> Run:
        """One run of one benchmark."""
        found = read_run(*self._at(run), benchmark, metric, report)
        found.name = run
        return found

    def default_metric(self, benchmark: str, report: str = "") -> str:
        """Mmtests' own choice."""
        return find(benchmark, report).default_metric

    def watts(self, run: str, benchmark: str) -> Watts | None:
        """Mean of turbostat's PkgWatt, over all parameters that the benchmark ran with."""
        if run not in self._places:
            return None
        found = _package_watts(self.monitor(run, "turbostat", benchmark, "PkgWatt"))
        if found is not None:
            main = self.load(run, benchmark, self.default_metric(benchmark))
            logged = [*(main.series or self.load(run, benchmark).series).values()]
            # Other metrics, such as losses, may be there for some of the parameters only.
            params = (one.param for one in logged if one.param and one.metric == logged[0].metric)
            found.params = tuple(dict.fromkeys(params))
        return found

    def per_watt(self, run: Run) -> Run:
        """Mean of each of several iterations, by the mean of its PkgWatt."""
        from opplab.comparison.method import mean_of

        found = Run(run.name, run.benchmark)
        found.together = True
        if run.name not in self._places:
            return found
        power = self.monitor(run.name, "turbostat", run.benchmark, "PkgWatt").series.get("PkgWatt")
        by_place = dict(_by_iteration(power)) if power is not None else {}
        for label, one in run.series.items():
            values = {
                at: mean_of(own, one.is_rate) / watts if one.higher else mean_of(own, is_rate=False) * watts
                for at, own in zip(one.places, one.iterations, strict=True)
                if (watts := by_place.get(at))
            }
            if values:
                quotients = Series(label, one.metric, one.param, "", one.higher, flat=list(values.values()))
                quotients.places = list(values)
                found.series[label] = quotients
        return found

    def monitor(self, run: str, monitor: str, benchmark: str, heading: str = "") -> Run:
        """What a monitor recorded."""
        found = read_monitor(*self._at(run), monitor, benchmark, heading)
        found.name = run
        return found


class Frame(Source):
    """A results table (`opplab.results.SCHEMA`)."""

    def __init__(
        self,
        table: pl.DataFrame,
        baseline: str = "",
        lengths_ns: Mapping[str, tuple[int, int]] | None = None,
        unmetered: Collection[tuple[str, str]] = (),
        preferences: Mapping[tuple[str, str], str] | None = None,
    ) -> None:
        """Take a table.

        Parameters
        ----------
        baseline : str
            The policy with which the others are compared.
        lengths_ns : mapping, optional
            Length of a run and its warm-up by machine, benchmark and parameter, where they are known.
        unmetered : collection of (str, str)
            Machines and policies whose energy leaves out what they change in idle states.
        preferences : mapping, optional
            By machine and policy the energy preferences that nobody measured.
        """
        self.lengths_ns = lengths_ns or {}
        self.unmetered = unmetered
        self.preferences = preferences or {}

        self.problems = []
        self.table = table if "run" in table.columns else table.with_columns(_run_names(table).alias("run"))
        own = self.table.filter(pl.col("policy") == baseline)["run"]
        self.baseline = own[0] if baseline and len(own) else None
        self._groups: dict[tuple[str, str], list[Any]] | None = None
        self._parts: dict[str, dict[str, str]] = {}
        self._share_dates = _share_dates(self.table)

    def _grouped(self) -> dict[tuple[str, str], list[Any]]:
        """For each run and benchmark its operations: metric, parameter, unit, sense, and lists.

        These are iterations, seeds, dates, values.
        """
        if self._groups is None:
            keys = ["run", "benchmark", "metric", "param", "unit", "better"]
            table = _without_parts(with_energy_of_cases(self.table.filter(pl.col("benchmark").is_not_null())))
            table = table.with_columns(pl.col("param").fill_null(""))
            groups = table.group_by(keys, maintain_order=True)
            # Lists of iterations, seeds and dates are only made when somebody will look at them.
            grouped = groups.agg((pl.col("iteration").n_unique() < pl.len()).alias("grouped"))["grouped"].any()
            known = {
                name: name in self.table.columns and self.table[name].null_count() < self.table.height
                for name in ("seed", "date")
            }
            wanted = [
                pl.col(name) if use else pl.lit(None).alias(name)
                for name, use in (("iteration", grouped), *known.items())
            ]
            found: dict[tuple[str, str], list[Any]] = {}
            for run, benchmark, *rest in groups.agg(*wanted, "value").iter_rows():
                found.setdefault((run, benchmark), []).append(rest)
            self._groups = found
        return self._groups

    def runs(self) -> list[str]:
        """Names of the runs, in order of appearance."""
        return list(dict.fromkeys(run for run, _ in self._grouped()))

    def benchmarks(self, run: str) -> list[str]:
        """Names of the benchmarks of a run."""
        return [benchmark for name, benchmark in self._grouped() if name == run]

    def load(self, run: str, benchmark: str, metric: str = "", report: str = "") -> Run:
        """One run of one benchmark."""
        groups = self._grouped()
        if (run, benchmark) not in groups:
            if run not in self.runs():
                raise UnknownName("run", run, self.runs())
            return _nothing_of(run, benchmark)
        found = Run(run, benchmark)
        left_out, preferences = self._left_out_of_energy(run), self._preferences_of(run)
        of_metric = {tuple(row[:2]): row for row in groups[run, benchmark]}
        for row in groups[run, benchmark]:
            name, param, unit, better, iterations, seeds, dates, values = row
            if metric and name != metric:
                continue
            label = f"{name}-{param}" if param else str(name)
            if (other := found.series.get(label)) is not None:
                mixed = f"units: {other.unit}, {unit or 'none'}" if other.unit != (unit or "") else "words of `better`"
                raise InputError(f"{label} of {benchmark} in run '{run}' has several {mixed}")
            # A value that is not known is no number; what is computed with it is none either.
            values = [nan if value is None else value for value in values]
            dated = _complete(dates)
            by_date = dated and (self._share_dates or not _complete(seeds))
            keys, keyed_by = (dates, "dates") if by_date else (seeds if _complete(seeds) else None, "seeds")
            # Runs of other seeds with one number, as `simulate` makes them, are iterations of their own.
            each = iterations is not None and (set(iterations) == {None} or _of_iterations(iterations, keys) is None)
            if iterations is not None and keys is not None and (by_date or each):
                iterations = keys  # each seed, each date is an iteration
            elif iterations is not None and dated:
                # Numbers of iterations begin anew on each date.
                iterations = list(zip(dates, iterations, strict=True))
            by_iteration: dict[Any, list[float]] = {}
            if iterations is not None and len(set(iterations)) < len(values):
                for iteration, value in zip(iterations, values, strict=True):
                    by_iteration.setdefault(iteration, []).append(value)
                keys = _of_iterations(iterations, keys)
            found.series[label] = Series(
                label,
                name or "",
                param or "",
                unit or "",
                better == "higher",
                list(by_iteration.values()),
                keys,
                None if by_iteration else values,
                keyed_by,
                directed=better in ("higher", "lower"),
            )
            counted = of_metric.get((events_of(name or ""), param))
            if counted is not None and not by_iteration and counted[4:7] == row[4:7]:
                found.series[label].events = [*counted[7]]
            if left_out and is_of_power(name or ""):
                found.series[label].unmetered = left_out
            found.series[label].preferences = preferences
        return found

    def _places(self, run: str) -> list[tuple[str, str]]:
        """The machines and policies of a run."""
        own = self.table.filter(pl.col("run") == run).select("machine", "policy").unique(maintain_order=True)
        return [(machine, policy) for machine, policy in own.iter_rows()]

    def _preferences_of(self, run: str) -> str:
        """The energy preferences of a run that nobody measured; empty for none."""
        if not self.preferences:
            return ""
        return next(filter(None, map(self.preferences.get, self._places(run))), "")

    def _left_out_of_energy(self, run: str) -> str:
        """The policy of a run whose energy leaves out what it changes in idle states; empty for any other run."""
        if not self.unmetered:
            return ""
        return next((place[1] for place in self._places(run) if place in self.unmetered), "")

    def declared(self, benchmark: str) -> list[str]:
        """A simulated benchmark's own metric, or energy and the work that is late or not done; energy beside it."""
        own = [row for (_, name), rows in self._grouped().items() if name == benchmark for row in rows]
        there = [metric for metric, *_ in own if metric]
        found = answers(there)
        if "energy" not in there:
            return found
        if found:
            return [*found, "energy"]
        # Without an activation nothing can be missed.
        due = "activations" not in there or any(any(row[-1]) for row in own if row[0] == "activations")
        lost = any(any(row[-1]) for row in own if row[0] == "lost_resumes")
        return ["energy", *(["missed_activations"] if due else []), *(["lost_resumes"] if lost else [])]

    def compared(self, benchmark: str, runs: Sequence[str]) -> list[str]:
        """Those metrics; where runs did unlike work, energy by unit of work, of a benchmark in energy's place."""
        found = self.declared(benchmark)
        if "energy" not in found or not self.unlike_work(benchmark, runs):
            return found
        both = ["energy", ENERGY_PER_WORK] if found[0] == "energy" else [ENERGY_PER_WORK]
        return [name for metric in found for name in (both if metric == "energy" else [metric])]

    def unlike_work(self, benchmark: str, runs: Sequence[str]) -> str:
        """Report by how much the work of runs differs from the first one's, of each the parameter with the most."""
        work: dict[str, dict[str, float]] = {}
        for run in runs:
            rows = self._grouped().get((run, benchmark), [])
            known = {(row[0], row[1]): row[-1] for row in rows}
            for (metric, param), energies in known.items():
                per_work = known.get((ENERGY_PER_WORK, param), [])
                # Each run's own work, as the answer of the runs has it, where no run lacks it: both are in one order.
                alike = len(energies) == len(per_work)
                pairs = zip(energies, per_work, strict=True) if alike else [(_mean(energies), _mean(per_work))]
                done = [energy / one for energy, one in pairs if energy is not None and one and isfinite(energy / one)]
                if metric == "energy" and done:
                    work.setdefault(param, {})[run] = fmean(done)
        words = []
        for run in runs[1:]:
            of_run = [100 * (own[run] / own[runs[0]] - 1) for own in work.values() if run in own and own.get(runs[0])]
            most = max(of_run, key=abs, default=0.0)
            words += [f"{run} {most:+.3g} %"] if abs(most) >= APART else []
        return f"energy is of unlike work ({', '.join(words)}): {ENERGY_PER_WORK} is of equal work" if words else ""

    def default_metric(self, benchmark: str, report: str = "") -> str:
        """The main one of those."""
        return next(iter(self.declared(benchmark)), "")

    def watts(self, run: str, benchmark: str) -> Watts | None:
        """Mean of the metric ``power``, of turbostat's PkgWatt, of the one metric in W, or energy over duration."""
        own = _in_base_units(self.table.filter((pl.col("run") == run) & (pl.col("benchmark") == benchmark)))

        def means(name: str) -> dict[str, float]:
            known = own.filter(pl.col("metric") == name, pl.col("value").is_finite())
            # Each parameter counts once, however many iterations it has.
            found = known.group_by("param", maintain_order=True).agg(pl.col("value").mean())
            return {param or "": value for param, value in found.iter_rows()}

        if total := _power_of(own):
            watts = means(total)
            cases = self.load(run, benchmark, total).series if watts else {}
            return Watts(fmean(watts.values()), total, filter(None, watts), cases) if watts else None
        energy, seconds = means("energy"), means(_seconds_of(own))
        both = [param for param in energy if param in seconds]
        took = sum(seconds[param] for param in both)
        if not took:
            return None
        used = sum(energy[param] for param in both)
        cases = self.load(run, benchmark, "energy").series
        return Watts(used / took, "energy over the time that it took", filter(None, both), cases)

    def notes(self, benchmark: str) -> list[str]:
        """Which runs did not end or are of the start, and of which part of a benchmark's time its energy is."""
        own = self.table.filter(pl.col("benchmark") == benchmark, pl.col("source") == "sim")
        found = []
        whole = own.filter(pl.col("metric").is_in(_times()))
        if cut := whole["value"].null_count():
            found.append(f"{cut} of {whole.height} runs did not end: their time is unknown, their energy is left out")
        cut_short = self._of_a_part(benchmark)
        found += [f"{words}; performance per watt is of {ENERGY_PER_WORK}" for words in cut_short.values()]
        idle = (
            own.filter(pl.col("metric") == FIRST_IDLE).group_by("run", "machine", "param").agg(pl.col("value").mean())
        )
        of_run = dict(idle.group_by("run").agg(pl.col("value").max()).iter_rows())
        shares = {name: of_run.get(name) or 0.0 for name in self.runs()}
        found += [words] if (words := in_first_idle(shares)) else []
        return found

    def _of_a_part(self, benchmark: str) -> dict[str, str]:
        """The times that are of a whole benchmark where its energy is of a part of it, and that in words."""
        from opplab.report.numbers import of_a_part, workload_of

        if benchmark in self._parts:
            return self._parts[benchmark]
        own = self.table.filter(pl.col("benchmark") == benchmark, pl.col("source") == "sim")
        keys = ["run", "machine", "param", "iteration", "seed"]
        wanted = own.filter(pl.col("metric").is_in(_METERED)).group_by(keys)
        cases = wanted.agg(pl.col("value").filter(pl.col("metric") == name).mean().alias(name) for name in _METERED)
        parts = cases.with_columns(part=pl.col("energy") / pl.col("power"))
        found = {}
        for metric in _times():
            times = own.filter(pl.col("metric") == metric).join(parts, on=keys, nulls_equal=True, maintain_order="left")
            by_param: dict[str, list[tuple[float, float]]] = {}
            for param, part, value in times.select("param", "part", "value").drop_nulls(["part", "value"]).iter_rows():
                by_param.setdefault(workload_of(benchmark, param), []).append((part, value))
            found[metric] = of_a_part(metric, by_param)
        self._parts[benchmark] = {metric: words for metric, words in found.items() if words}
        return self._parts[benchmark]

    def cold(self, benchmark: str, metrics: Sequence[str]) -> list[str]:
        """Which of some metrics the start of a benchmark's runs may decide, in sentences."""
        places = self.table.select("machine", "benchmark", "param").unique(maintain_order=True).iter_rows()
        own = (" ".join(filter(None, place)) for place in places if place[1] == benchmark)
        known = (self.lengths_ns[place] for place in own if place in self.lengths_ns)
        words = (cold_waits(metrics, {"warmup_ns": warmup_ns}, length_ns) for length_ns, warmup_ns in known)
        return list(dict.fromkeys(filter(None, words)))

    def per_watt(self, run: Run) -> Run:
        """Values of each case by its power; the energy by work of one whose power is of a part of its time."""
        found = Run(run.name, run.benchmark)
        own = self.table.filter((pl.col("run") == run.name) & (pl.col("benchmark") == run.benchmark))
        metered = _in_base_units(own)
        keys = [name for name in ("machine", "param", "iteration", "seed", "date", "file") if name in own.columns]
        marks = [pl.col(name).is_not_null() for name in keys if name in ("iteration", "seed", "date")]

        def by_case(name: str, metric: str, of: pl.DataFrame = metered) -> pl.DataFrame:
            rows = of.filter(pl.col("metric") == metric, pl.col("value").is_not_nan())
            means = rows.group_by(keys).agg(pl.col("value").mean().alias(name), pl.len())
            # Values that nothing separates are of several cases.
            return means.filter((pl.col("len") == 1) | pl.any_horizontal(marks)).drop("len")

        if total := _power_of(metered):
            watts = by_case("watts", total)
        else:
            watts = by_case("joules", "energy").join(
                by_case("seconds", _seconds_of(metered)), on=keys, nulls_equal=True
            )
            watts = watts.select(*keys, watts=pl.col("joules") / pl.col("seconds"))
        metrics = list(dict.fromkeys(one.metric for one in run.series.values()))
        rows = own.filter(pl.col("metric").is_in(metrics)).join(watts, on=keys, how="left", nulls_equal=True)
        power = pl.when(pl.col("watts") > 0).then("watts")
        value = pl.when(pl.col("better") == "higher").then(pl.col("value") / power).otherwise(pl.col("value") * power)
        if cut_short := self._of_a_part(run.benchmark).keys() & set(metrics):
            each = by_case("each", ENERGY_PER_WORK, of=with_energy_of_cases(own))
            rows = rows.join(each, on=keys, how="left", nulls_equal=True)
            # The part holds the start, which the time does not: their product is no energy.
            of_part = pl.col("metric").is_in(cut_short) & pl.col("value").is_not_null()
            value = pl.when(of_part).then("each").otherwise(value)
        place = Frame(rows.with_columns(value=value).select(own.columns))
        for metric in metrics if rows["watts"].count() else ():
            of_metric = place.load(run.name, run.benchmark, metric)
            found.series |= {label: one for label, one in of_metric.series.items() if not all(map(isnan, one.values()))}
        for one in found.series.values():
            one.unmetered, one.preferences = self._left_out_of_energy(run.name), self._preferences_of(run.name)
        return found


_PREFERENCES = "assumed_preferences"

_CASE = ("machine", "benchmark", "param", "iteration", "seed", "date", "file")
"""Columns that separate the cases of a run."""

_METERED = ("energy", "power")
_SECONDS = ("duration", "elapsed", "wall")
"""Metrics of how long a case took, the nearest to what its energy is of first (`wall`: of `opplab host compare`)."""


_BASE_UNITS = {
    unit: (base, scale)
    for base, scales in (("W", IN_WATTS), ("J", IN_JOULES), ("s", IN_SECONDS))
    for unit, scale in scales.items()
}


def _in_base_units(own: pl.DataFrame) -> pl.DataFrame:
    """Give powers in W, energies in J and times in s; the unit of anything else is null."""
    unit = pl.col("unit").replace_strict({one: base for one, (base, _) in _BASE_UNITS.items()}, default=None)
    scale = pl.col("unit").replace_strict({one: by for one, (_, by) in _BASE_UNITS.items()}, default=None)
    return own.with_columns(unit=unit.cast(pl.String), value=pl.col("value") * scale.cast(pl.Float64))


def _seconds_of(own: pl.DataFrame) -> str:
    """The metric that is how long cases took; one that is not there where none is."""
    there = set(own.filter(pl.col("unit") == "s")["metric"])
    return next((name for name in _SECONDS if name in there), _SECONDS[0])


def _power_of(own: pl.DataFrame) -> str:
    """The metric that is the power of the whole machine; empty where there is none."""
    in_watts = own.filter(pl.col("unit") == "W")["metric"].unique(maintain_order=True).to_list()
    whole = [name for name in in_watts if name and is_answer(name)]
    return next((name for name in ("power", "PkgWatt") if name in whole), whole[0] if len(whole) == 1 else "")


def _run_names(table: pl.DataFrame) -> pl.Expr:
    """Name runs by their policies, and by whatever else separates what must not be averaged together."""
    point = ["machine", "policy", "benchmark", "param", "metric"]
    own = [name for name in ("iteration", "seed", "date") if name in table.columns]
    candidates = [name for name in ("kernel", "experiment", "source", "file") if name in table.columns]
    names = [
        name
        for name in candidates
        if table.group_by([*point, *(own if name == "file" else ())])
        .agg(pl.col(name).n_unique())
        .select((pl.col(name) > 1).any())
        .item()
    ]
    if "file" in names and "experiment" in names:
        names.remove("experiment")
    parts = [pl.col(name).fill_null("") for name in (*names, "policy")]
    return pl.concat_str(parts, separator=" ").str.strip_chars()


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None and isfinite(one)]
    return fmean(known) if known else None


def with_energy_of_cases(table: pl.DataFrame) -> pl.DataFrame:
    """Add the energy by unit of work of each case whose energy and work are known."""
    if ENERGY_PER_WORK in table["metric"]:
        return table
    used = {"energy", "power", "work_done", *(one.name for one in of_models())}
    whole = table.filter(pl.col("metric").is_in(used), pl.col("value").is_not_nan())
    keys = ["run", *(name for name in _CASE if name in table.columns)]
    added = []
    for part in whole.partition_by(keys, maintain_order=True) if "energy" in whole["metric"] else ():
        # Rows of several iterations that nothing separates are no case.
        if part["metric"].is_unique().all():
            added += list(with_energy_per_work(part.iter_rows(named=True)))[part.height :]
    return pl.concat([table, pl.DataFrame(added, schema=table.schema)]) if added else table


def _without_parts(table: pl.DataFrame) -> pl.DataFrame:
    """Take the energy of simulated cases that did not end: it is of less work than that of the others."""
    keys = [name for name in ("run", *_CASE) if name in table.columns]
    cut = table.filter(pl.col("source") == "sim", pl.col("metric").is_in(_times()), pl.col("value").is_null())
    marks = cut.select(*keys, pl.lit("energy").alias("metric"), pl.lit(True).alias("cut")).unique()
    found = table.join(marks, on=[*keys, "metric"], how="left", nulls_equal=True, maintain_order="left")
    return found.with_columns(value=pl.when(pl.col("cut").is_null()).then("value")).drop("cut")


def _times() -> list[str]:
    """The metrics that are the time of a whole benchmark."""
    return list(dict.fromkeys(one.name for one in of_models() if (one.unit, one.better) == ("s", "lower")))


def _share_dates(table: pl.DataFrame) -> bool:
    """Whether runs have dates in common from which pairs can be made, which seeds that begin anew on each are not."""
    if "date" not in table.columns:
        return False
    runs = table.filter(pl.col("date").is_not_null()).group_by("date").agg(pl.col("run").n_unique())["run"]
    return (runs > 1).sum() > 1


def _complete(keys: list[Any] | None) -> bool:
    return keys is not None and None not in keys


def _of_iterations(iterations: list[Any], keys: list[Any] | None) -> list[Any] | None:
    """The key of each iteration, in order of appearance; None if the values of one have several."""
    if keys is None:
        return None
    found: dict[Any, set[Any]] = {}
    for iteration, key in zip(iterations, keys, strict=True):
        found.setdefault(iteration, set()).add(key)
    return [own.pop() for own in found.values()] if all(len(own) == 1 for own in found.values()) else None


class Files(Source):
    """Raw outputs of single programs: one run a file, or a folder of files."""

    def __init__(self, paths: Sequence[str]) -> None:
        from opplab.formats import read

        self._runs: dict[str, list[Run]] = {}
        self.problems = []
        for path in paths:
            place = Path(path)
            name = place.resolve().name if place.is_dir() else run_name(place)
            while name in self._runs:
                name += "+"
            files = sorted(file for file in place.iterdir() if file.is_file()) if place.is_dir() else [place]
            found: dict[str, Run] = {}
            for file in files:
                for run in read(str(file), name, self.problems):
                    _merge(found.setdefault(run.benchmark, Run(name, run.benchmark)), run)
            if found:
                self._runs[name] = list(found.values())
        if not self._runs:
            why = "; ".join(map(str, self.problems)) or f"{' '.join(map(str, paths))}: no file with results is there"
            raise InputError(why)

    def runs(self) -> list[str]:
        """The files' names without ending."""
        return list(self._runs)

    def benchmarks(self, run: str) -> list[str]:
        """What the file holds."""
        if run not in self._runs:
            raise UnknownName("run", run, self._runs)
        return [one.benchmark for one in self._runs[run]]

    def load(self, run: str, benchmark: str, metric: str = "", report: str = "") -> Run:
        """One file."""
        for one in self._runs.get(run, []):
            if one.benchmark == benchmark:
                if metric:
                    kept = Run(run, benchmark)
                    kept.series = {label: series for label, series in one.series.items() if label.startswith(metric)}
                    return kept
                return one
        if run not in self._runs:
            raise UnknownName("run", run, self._runs)
        return _nothing_of(run, benchmark)

    def watts(self, run: str, benchmark: str) -> Watts | None:
        """Mean package power of a turbostat log."""
        found = (_package_watts(one) for one in self._runs.get(run, []))
        return next((one for one in found if one is not None), None)


_ENDINGS = re.compile(r"(\.[a-zA-Z][a-zA-Z0-9_]*)+$")


def run_name(path: Path) -> str:
    """The name of the run that a file holds: what stands before its endings.

    Examples
    --------
    >>> run_name(Path("6.1-base.txt")), run_name(Path("new.json.gz")), run_name(Path(".log"))
    ('6.1-base', 'new', '.log')
    """
    return _ENDINGS.sub("", path.name) or path.name


def _package_watts(run: Run) -> Watts | None:
    """Mean package power of what turbostat recorded."""
    series = run.series.get("PkgWatt")
    values = series.values() if series is not None else []
    if series is None or not values:
        return None
    # How often the monitor sampled is nothing that a run lacks.
    means = [mean for _, mean in _by_iteration(series)]
    found = Watts(amean(values), "PkgWatt", cases={"PkgWatt": Series("PkgWatt", flat=means)})
    found.is_sampled = True
    return found


def _by_iteration(series: Series) -> list[tuple[int, float]]:
    """Give the mean of each iteration that has values, by its place."""
    return [(at, amean(own)) for at, own in zip(series.places, series.iterations, strict=False) if own]


def _is_folder(path: object) -> bool:
    return isinstance(path, str | PathLike) and Path(path).is_dir()


def by_machine(source: object) -> list[tuple[str, Source]]:
    """Give a source for each machine: several mmtests folders, or the machines of a results table.

    Values of two machines never meet: what compares goes through this. Folders with one run each are of one machine,
    as there is nothing else to compare.
    """
    if isinstance(source, list | tuple) and len(source) > 1 and all(map(_is_folder, source)):
        trees = {name: open_source(path) for path, name in _named(source).items()}
        if all(isinstance(one, Tree) for one in trees.values()):
            if all(len(one.runs()) == 1 for one in trees.values()):
                return [("", Tree(*map(str, dict.fromkeys(source))))]
            return list(trees.items())
    place = source if isinstance(source, Source) else open_source(source)  # type: ignore[arg-type]
    if not isinstance(place, Frame):
        return [("", place)]
    parts: list[tuple[str, Source]] = []
    for name in place.table["machine"].unique(maintain_order=True):
        own = place.table.filter(pl.col("machine").eq_missing(name))
        part = Frame(own, lengths_ns=place.lengths_ns, unmetered=place.unmetered, preferences=place.preferences)
        part.baseline = place.baseline
        parts.append((name or "", part))
    return parts


def _runs_in(folder: str) -> list[tuple[str, str]]:
    """Give folder and name of each run of a results folder; a folder of iterations is itself a run."""
    if is_run(folder):
        place = Path(folder).absolute()
        return [(str(place.parent), place.name)]
    return [(folder, name) for name in runs_of(folder)]


def _named(folders: Sequence[str]) -> dict[str, str]:
    """Give each results folder the name that identifies it: mmtests calls them all ``work/log``."""
    names: dict[str, str] = {}
    for folder in folders:
        path = Path(folder).absolute()
        while path.name in ("log", "work", "results") and path.parent != path:
            path = path.parent
        name = path.name
        while name in names.values():
            name += "+"
        names[folder] = name
    return names


def _file_name(path: Path) -> str:
    """The name of a table's file, or of its folder where results folders all call it the same."""
    return path.parent.absolute().name if path.name == "results.parquet" else path.absolute().name


def _manifest_of(path: Path) -> dict[str, Any]:
    """What a results folder, or that of a table, has of its experiment; nothing where none is known."""
    folder = path if path.is_dir() else path.parent
    return Store(folder).manifest() if (folder / "manifest.json").is_file() else {}


def _lengths_of(path: Path) -> dict[str, tuple[int, int]]:
    """Length of a run and its warm-up, ns, by machine, benchmark and parameter; older manifests have no warm-up."""
    asked = _manifest_of(path).get("questions", {})
    return {place: (one[1], one[2]) for place, one in asked.items() if len(one) > 2}


def _merge(into: Run, run: Run) -> None:
    """Add the values of another file as further iterations."""
    for label, series in run.series.items():
        known = into.series.setdefault(label, series)
        if known is not series:
            known.events.extend(series.events)
            known.iterations.extend(series.iterations)
            known.add_work(series.work)


def _nothing_of(run: str, benchmark: str) -> Run:
    """A run without a benchmark that others have."""
    found = Run(run, benchmark)
    found.problems.append(Problem(run, f"no values of {benchmark}"))
    return found


def open_source(source: str | PathLike[str] | Sequence[str | PathLike[str]] | pl.DataFrame) -> Source:
    """Find out what kind of source a path, several paths or a results table are.

    Raises
    ------
    InputError
        When nothing readable is there.
    """
    if isinstance(source, str | PathLike):
        source = [source]
    elif isinstance(source, pl.DataFrame):
        return Frame(source)
    if not isinstance(source, Sequence) or not all(isinstance(path, str | PathLike) for path in source):
        raise InputError(f"results are a path, several paths or a polars table, not {type(source).__name__}")
    if not source:
        raise InputError("nothing to compare: there is no source")
    paths = [str(path) for path in source]
    first = Path(paths[0])
    if not first.exists():
        raise FileNotFoundError(2, "No such file or directory", str(first))
    tables = [path for path in paths if Path(path).suffix == ".parquet" or (Path(path) / "cases").is_dir()]
    written = [path for path in paths if any((Path(path) / name).is_file() for name in (_RUNS, "results.parquet"))]
    tables += [path for path in written if path not in tables]
    csv = [path for path in paths if Path(path).suffix == ".csv"]
    if tables or csv:
        if gone := next((path for path in paths if not Path(path).exists()), None):
            raise FileNotFoundError(2, "No such file or directory", gone)
        if len(tables) + len(csv) != len(paths):
            raise InputError("result tables cannot be mixed with other sources in one comparison")
        read = {path: _read_table(path) for path in tables} | {path: _read_csv(path) for path in csv}
        named = [read[path].with_columns(pl.lit(_file_name(Path(path))).alias("file")) for path in dict.fromkeys(paths)]
        lengths_ns = {name: length for path in paths for name, length in _lengths_of(Path(path)).items()}
        baseline = str(_manifest_of(Path(paths[0])).get("baseline") or "")
        manifests = [_manifest_of(Path(path)) for path in paths]
        unmetered = {(name, policy) for one in manifests for name, _, policy in one.get("unknown_idle", ())}
        preferences = {(on, policy): found for one in manifests for on, policy, found in one.get(_PREFERENCES, ())}
        return Frame(pl.concat(named, how="diagonal"), baseline, lengths_ns, unmetered, preferences)
    if first.is_dir() and runs_of(str(first)):
        if len(paths) > 1:
            raise InputError("one mmtests results folder at a time")
        return Tree(str(first))
    return Files(paths)


def _read_table(path: str) -> pl.DataFrame:
    from opplab import results
    from opplab.comparison.measured import results_of

    place = Path(path)
    if (place / _RUNS).is_file():
        # The agent alone writes no table, and runs may have come since one was written.
        return results_of(place / _RUNS)
    file = place / "results.parquet" if place.is_dir() else place
    if place.is_dir() and not file.is_file():
        store = Store(place)
        return store.table(store.listed())
    try:
        return _in_columns(results.read_parquet(file), str(file))
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{file}: {(str(error).splitlines() or ['no table of results'])[0]}") from None


def _in_columns(table: pl.DataFrame, path: str) -> pl.DataFrame:
    """Give a table with our columns in their order; those that it lacks are null."""
    from opplab import results

    if "value" not in table.columns:
        raise InputError(f"{path}: no column 'value'")
    schema = results.SCHEMA | {name: kind for name, kind in results.OPTIONAL.items() if name in table.columns}
    return table.select(
        (pl.col(name) if name in table.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in schema.items()
    )


def _read_csv(path: str) -> pl.DataFrame:
    """A CSV with our columns; those that it lacks are null, others are refused."""
    from opplab import results

    try:
        table = pl.read_csv(check_size(Path(path), "a table"), infer_schema=False)
    except (pl.exceptions.PolarsError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: {(str(error).splitlines() or ['not a CSV'])[0]}") from None
    known = [*results.SCHEMA, *results.OPTIONAL]
    for column in table.columns:
        if column not in known:
            raise InputError(f"{path}:1: {UnknownName('column', column, known)}")
    if "better" in table.columns:
        for word in table["better"].drop_nulls().unique(maintain_order=True):
            if word not in results.BETTER:
                raise InputError(f"{path}: `better` is '{word}'; it is 'higher', 'lower' or empty")
    try:
        return _in_columns(table, f"{path}:1")
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path}: {str(error).splitlines()[0]}") from None


def to_frame(runs: Sequence[Run], *, experiment: str = "", machine: str = "") -> pl.DataFrame:
    """Runs of mmtests as a results table, one row a value.

    Examples
    --------
    >>> run = Run("5.9.0", "kernbench")
    >>> run.series["Elapsed-2"] = Series("Elapsed-2", "Elapsed", "2", "seconds", False, [[1.5, 2.5]])
    >>> to_frame([run]).select("policy", "param", "iteration", "value").rows()
    [('5.9.0', '2', 0, 1.5), ('5.9.0', '2', 0, 2.5)]
    """
    from opplab import results

    rows = []
    for run in runs:
        for series in run.series.values():
            for iteration, values in enumerate(series.iterations):
                common = {
                    "experiment": experiment,
                    "source": "mmtests",
                    "machine": machine,
                    "policy": run.name,
                    "benchmark": run.benchmark,
                    "param": series.param,
                    "metric": series.metric,
                    "unit": series.unit,
                    "better": "higher" if series.higher else "lower",
                    "iteration": iteration,
                }
                rows += [{**common, "value": value} for value in values]
    return results.frame(rows)


def read_mmtests(directory: str | PathLike[str], *, runs: Sequence[str] = ()) -> pl.DataFrame:
    """Read an mmtests results folder: every benchmark that is known, one row a value.

    Parameters
    ----------
    directory : path
        The folder that holds the runs (mmtests' ``work/log``).
    runs : sequence of str
        Which runs; all when empty.

    Returns
    -------
    polars.DataFrame
        Columns as in `opplab.results.SCHEMA`; a run's name is its ``policy``. Damaged files are left out.
    """
    tree = Tree(str(directory))
    found = [tree.load(run, benchmark) for run in runs or tree.runs() for benchmark in tree.benchmarks(run)]
    return to_frame(found, experiment=Path(directory).name)
