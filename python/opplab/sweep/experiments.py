"""Experiments: load a file, expand it to cases, run them, keep the results."""

from __future__ import annotations

import os
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import nullcontext, suppress
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from opplab import _opplab, catalog
from opplab.errors import FormatError, InputError, OpplabError
from opplab.files import digest_of, read_text, toml_of
from opplab.simulation import fitted
from opplab.simulation.cases import Case, measured_time, names_of
from opplab.simulation.power import is_of_power, why_unknown
from opplab.simulation.workload import rtapp_text
from opplab.sweep.drivers import driver_under
from opplab.sweep.missing import assumed_preferences, unknown_idle
from opplab.sweep.runner import Tally, Until, run_cases
from opplab.sweep.store import Store
from opplab.sweep.tables import Tables

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.machine import Machine
    from opplab.sweep.constants import Constants


OF_OPTIONS = "experiment.toml"
"""The file in a results folder that a command line's options become."""

ITERATIONS_MAX = 1_000_000
"""Of an experiment's file (crate `model`, `experiment.rs`), and so of what replaces them."""


def seconds_of(manifest: Mapping[str, Any]) -> float | None:
    """Give the length that a sweep was run with instead of its file's, in s; nothing if each workload had its own.

    Older manifests have the length of the first case alone, which was that of all.
    """
    if "seconds" in manifest:
        return cast("float | None", manifest["seconds"])
    length_ns = manifest.get("duration_ns")
    return None if length_ns is None else length_ns / 1_000_000_000


class Experiment:
    """A matrix of machines, workloads, policies and seeds.

    Examples
    --------
    >>> import opplab
    >>> juno = opplab.Experiment.load("juno-eas")
    >>> juno.policies
    ['no-EAS', 'EAS', 'CPPC-no-EAS', 'CPPC-EAS']
    >>> len(juno.cases)
    720
    """

    def __init__(self, inner: _opplab.Experiment, cases: list[_opplab.Case], file: str, text: str) -> None:
        self._inner = inner
        self.file = file
        self.text = text
        """What the file held when it was read; a pipe holds it once."""
        self.cases = [Case.of(case) for case in cases]
        self.adjusted: dict[str, int | float] = {}
        """What was asked for instead of the file's value, by the command line's option."""
        self._files: tuple[dict[str, tuple[str, str]], dict[str, tuple[str, str]]] = ({}, {})
        self.fits: dict[str, str] = {}
        """The text of each calibration that its workloads name."""
        self.until: Until | None = None
        if inner.until is not None:
            ci_ppm, metric, least = inner.until
            self.until = Until(ci_ppm / 10_000, self.pairs, metric, least)

    @classmethod
    def load(
        cls,
        name: str | Path,
        *,
        iterations: int | None = None,
        seed: int | None = None,
        seconds: float | None = None,
        until_ci: float | None = None,
        params: Mapping[tuple[str, str], int] | None = None,
        refit: bool = False,
    ) -> Experiment:
        """Load an experiment and everything that it names.

        Parameters
        ----------
        name : str or Path
            A built-in name (``opplab list experiments``), or the path of a ``.toml``.
        iterations, seed, seconds : optional
            Replace the file's value.
        until_ci : float, optional
            Stop the iterations of a point when the intervals of its changes reach at most so many percent to either
            side, instead of the file's ``until``.
        params : mapping, optional
            Whole numbers of benchmarks, ``{(workload, parameter): value}``, instead of what the file and its
            calibrations have.
        refit : bool, optional
            Take calibrations of models that have changed since, as the start of a new fit, instead of refusing them.
        """
        path = catalog.find("experiment", name)
        whole = read_text(path, "an experiment file")
        inner = _opplab.Experiment.parse(str(path), whole)
        # Answers read it by this reader, too: what it refuses is refused before the first run.
        toml_of(whole, path)
        _check_published(inner.published, path)
        from opplab.simulation.run import check_whole, duration_ns

        for key, value, least in (("iterations", iterations, 1), ("seed", seed, 0)):
            if value is not None:
                check_whole(key, value, least)
        if (iterations or 0) > ITERATIONS_MAX:
            raise InputError(f"`iterations` must be at most {ITERATIONS_MAX}, not {iterations}")
        inner.adjust(iterations, seed, None if seconds is None else duration_ns(seconds))
        if inner.background:
            from opplab.trace.learn import background

            inner.set_background(*background(_beside("background", inner.background, path)))
        found = {one: _beside("calibration", one, path) for one in inner.calibrations()}
        fits = {one: (str(file), read_text(file, "a calibration")) for one, file in found.items()}
        if refit:
            fits = {one: (file, fitted.as_start(text, Path(file))) for one, (file, text) in fits.items()}
        inner.calibrate(fits)
        for fit, text in fits.values() if not refit else ():
            fitted.check(text, Path(fit))
        if params is not None and not isinstance(params, Mapping):
            raise InputError(f"`params` is a mapping of (workload, parameter) to whole numbers, not {params!r}")
        for (workload, param), value in (params or {}).items():
            inner.set_param(workload, param, value)
        machines: dict[str, tuple[str, str]] = {}
        for machine in inner.machines():
            file = _beside("machine", machine, path)
            text = read_text(file, "a machine file")
            machines[machine] = (str(file), _with_generic_power(text, file) if inner.generic_power else text)
        _check_names(machines)
        rtapp: dict[str, tuple[str, str]] = {}
        for workload in inner.rtapp_files():
            file = path.parent / workload
            if file.is_file():
                rtapp[workload] = (str(file), rtapp_text(file))
        made = cls(inner, inner.expand(machines, rtapp), str(path), whole)
        _check_once(inner.machines(), made.cases, path)
        made._files = (machines, rtapp)
        made.fits = {name: text for name, (_, text) in fits.items()}
        asked = {"iterations": iterations, "seed": seed, "seconds": seconds, "until-ci": until_ci}
        made.adjusted = {option: value for option, value in asked.items() if value is not None}
        if until_ci is not None:
            if not isinstance(until_ci, Real):
                raise InputError(f"`until_ci`: give a number of percent, not {until_ci!r}")
            if not 0 < until_ci <= 100:
                raise InputError(f"an interval of {until_ci:g} % is not possible: give more than 0 and at most 100")
            made.until = Until(until_ci, made.pairs, **({} if made.until is None else made.until.rest()))
        return made

    @classmethod
    def of_results(cls, folder: str | Path, *, anew: bool = False, **replaced: Any) -> Experiment:
        """Load the experiment that filled a results folder, as it was run: its iterations, seed, length and ``until``.

        Parameters
        ----------
        folder : str or Path
            The folder; the experiment is built in, or its file is there, in the current folder, or beside the folder.
        anew : bool
            Take of these what the command gave, and the others as the file has them now.
        **replaced
            As for `load`, instead of what it was run with.
        """
        about = Store(folder).manifest()
        options: dict[str, Any] = {
            "iterations": about.get("iterations"),
            "seed": about.get("seed"),
            "seconds": seconds_of(about),
            "until_ci": (about.get("until") or {}).get("ci_percent"),
        }
        if anew:
            # Older manifests do not have what the command gave.
            given = [name.replace("-", "_") for name in about.get("adjusted", (*options,))]
            options = {name: value for name, value in options.items() if name in given}
        options |= {name: value for name, value in replaced.items() if value is not None}
        held = {case["hash"] for case in about["cases"]}
        found: list[tuple[int, Experiment]] = []
        first, *others = files_of_results(Path(folder))
        for file in (first, *others):
            # A file of the same name may be of anything.
            with suppress(InputError, OSError) if others else nullcontext():
                one = cls.load(file, **options)
                found.append((len(held & {case.hash for case in one.cases}), one))
        shared, made = max(found, key=lambda one: one[0], default=(0, None))
        if made is None or not shared:
            files = " or ".join((first, *others))
            raise InputError(f"{folder} holds no case of {files}: the file, a machine or this version has changed")
        return made

    def constants(self) -> Constants:
        """Give the free constants of its benchmark models that have a range, with what makes cases of others."""
        from opplab.sweep.constants import Constants, built_in_fits

        fits = built_in_fits() | {name: tomllib.loads(text) for name, text in self.fits.items()}
        return Constants.of(self._inner.constants(), self._with_constants, fits, self.unknown_disks)

    @property
    def unknown_disks(self) -> dict[str, list[str]]:
        """The workloads whose result hangs on a disk that is not described, each with the machines that lack it."""
        lacking = [tomllib.loads(text) for _, text in self._files[0].values()]
        names = [str(machine["name"]) for machine in lacking if "disk" not in machine]
        return dict.fromkeys(self._inner.on_own_disk(), names) if names else {}

    @property
    def disk_notes(self) -> list[str]:
        """What results hang on that neither a machine, nor a fit, nor the experiment describes, in words."""
        from opplab.sweep.constants import disk_notes

        constants = self._inner.constants()
        reads = ((label, value) for label, _, name, value, fit in constants if name == "device_us" and fit is None)
        return disk_notes(self.unknown_disks, reads)

    def _with_constants(self, values: Mapping[tuple[str, str], int]) -> list[Case]:
        own = {(label, name): value for label, _, name, value, _ in self._inner.constants()}
        try:
            for (label, name), value in values.items():
                self._inner.set_param(label, name, value)
            return [Case.of(case) for case in self._inner.expand(*self._files)]
        finally:
            for label, name in values:
                self._inner.set_param(label, name, own[label, name])

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def is_of_options(self) -> bool:
        """Whether a command line's options made its file, and may make another one."""
        return Path(self.file).name == OF_OPTIONS

    @property
    def about(self) -> str:
        """What it shows, in a sentence."""
        return self._inner.about

    @property
    def notes(self) -> list[str]:
        """What its answer names beside the numbers: settings of a power profile that no simulation has."""
        return self._inner.notes

    @property
    def background(self) -> str:
        """Name or file of the system's tasks that run beside every workload; empty: none."""
        return self._inner.background

    @property
    def policies(self) -> list[str]:
        """Labels of the policies, in order."""
        return self._inner.labels

    @property
    def workloads(self) -> dict[str, dict[str, Any]]:
        """The tables of its workloads, by label: without one the benchmark's name, or the rt-app file's."""
        tables = toml_of(self.text, self.file)["workload"]
        names = (one.get("benchmark") or one["rtapp"].rpartition("/")[2].removesuffix(".json") for one in tables)
        return {one.get("label") or name: one for name, one in zip(names, tables, strict=True)}

    @property
    def published(self) -> pl.DataFrame | None:
        """The published values that belong to it, as results."""
        from opplab import results

        if self.published_file:
            path: Path | None = self.published_file
        else:
            path = catalog.published(self._inner.published) if self._inner.published else None
        return None if path is None else results.from_published(path)

    @property
    def kernels(self) -> list[str]:
        """The kernel profiles of its cases."""
        return sorted({case.kernel for case in self.cases})

    @property
    def iterations(self) -> int:
        """How many runs each case's point has, each with a seed of its own; with `until` the most."""
        return self._inner.iterations

    @property
    def baseline(self) -> str:
        """Label of the policy to which the others are compared; empty if there is none."""
        return self._inner.baseline

    @property
    def workload_notes(self) -> list[str]:
        """What rt-app would silently read over in the workload files, each with its place."""
        from opplab.simulation.workload import Workload

        files = ((os.path.normpath(file), text) for file, text in self._files[1].values())
        return [note for file, text in files for note in Workload.parse(text, file=file).notes]

    @property
    def published_file(self) -> Path | None:
        """The table of one's own whose values belong to it: a ``.csv`` beside the experiment; None of a text."""
        name = self._inner.published
        return Path(self.file).parent / name if name.endswith(".csv") else None

    @property
    def published_seed(self) -> str:
        """The text whose values belong to it (``003``), or the name of the table of one's own; empty without either."""
        return self.published_file.stem if self.published_file else self._inner.published.partition("_")[0]

    @property
    def compare(self) -> list[dict[str, Any]]:
        """Which rows of the published tables are compared with which workload."""
        return self._inner.compare()

    @property
    def latencies(self) -> bool:
        """Whether runs measure how long tasks wait, too: all but those of published texts, whose results stay small."""
        return not self.compare

    @property
    def finding(self) -> str:
        """What of the published text the simulation explains, and what not."""
        return self._inner.finding

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """What is compared with what: (baseline, variant).

        All policies are compared with the experiment's baseline. Where it has energy-aware scheduling off, or none is
        named, and there are several cpufreq drivers, policies that have it on are compared with the one of their own
        driver that has it off.
        """
        cases = {case.policy: case for case in self.cases}
        by_label = {label: case.inner for label, case in cases.items()}
        drivers = {label: driver_under(case.file["machine"], case.file["policy"]) for label, case in cases.items()}
        named = self._inner.baseline
        base_of = dict.fromkeys(by_label, named)
        # Of each other driver the first that has it off.
        off: dict[str, str] = {}
        if not named or not by_label[named].eas:
            off = {drivers[label]: label for label, case in reversed(by_label.items()) if not case.eas}
        if named:
            off.pop(drivers[named], None)
        for label, case in by_label.items():
            if case.eas and (own := off.get(drivers[label])):
                base_of[label], base_of[own] = own, ""
        return [(base, label) for label, base in base_of.items() if base and base != label]

    @cached_property
    def unknown_idle(self) -> list[tuple[str, str, str]]:
        """Machine, baseline and policy of each comparison whose energy leaves out what idle states draw."""
        each = {(case.machine, case.policy): case for case in self.cases}
        return unknown_idle({place: case.file for place, case in each.items()}, self.pairs)

    @cached_property
    def assumed_preferences(self) -> dict[tuple[str, str], str]:
        """By machine and policy what `opplab.sweep.missing.assumed_preferences` gives, where it is something."""
        each = {(case.machine, case.policy): case for case in self.cases}
        return {place: found for place, case in each.items() if (found := assumed_preferences(case))}

    def why_unknown(self, machine: str, base: str, variant: str, metric: str) -> str:
        """Give what `opplab.simulation.power.why_unknown` has of a change of a variant."""
        ours, theirs = (self.assumed_preferences.get((machine, one)) for one in (variant, base))
        return why_unknown(ours != theirs, is_of_power(metric) and (machine, base, variant) in self.unknown_idle)

    def measured_time(self, of: str = "") -> str:
        """Give the time of its runs in words, and what of it is left out as the warm-up."""
        each = {case.point: case for case in self.cases}
        return measured_time(
            ((case.duration_ns, case.file["workload"].get("warmup_ns", 0)) for case in each.values()), of
        )

    def manifest(self) -> dict[str, Any]:
        """Give the description of the sweep in a results folder."""
        first, names = self.cases[0], names_of(self.cases)
        return {
            "experiment": self.name,
            "about": self.about,
            "machines": sorted({case.machine for case in self.cases}),
            "kernels": self.kernels,
            "policies": self.policies,
            "baseline": self.baseline,
            "pairs": self.pairs,
            "published": self._inner.published,
            "seed": self._inner.seed,
            "iterations": self.iterations,
            "until": None if self.until is None else {"ci_percent": self.until.ci, **self.until.rest()},
            "duration_ns": first.duration_ns,
            "seconds": self.adjusted.get("seconds"),
            "adjusted": list(self.adjusted),
            "questions": self._questions(),
            "unknown_idle": self.unknown_idle,
            "assumed_preferences": [[*place, found] for place, found in self.assumed_preferences.items()],
            "cases": [{"hash": case.hash, "label": names[case.hash]} for case in self.cases],
        }

    def _questions(self) -> dict[str, tuple[str, int, int]]:
        """Give a digest of what runs on each machine, whatever policies and seeds are; its length and warm-up in ns."""
        found: dict[str, tuple[str, int, int]] = {}
        for case in self.cases:
            place = " ".join(filter(None, case.point))
            if place not in found:
                work = case.file["workload"]
                # Groups and their CPUs are settings, and the seed draws when tasks start.
                work = {key: value for key, value in work.items() if key not in ("groups", "cpu_sets")}
                own = ("delay_ns", "group", "cpus")
                work["tasks"] = [{key: task[key] for key in task if key not in own} for task in work["tasks"]]
                found[place] = (digest_of(work)[:16], case.duration_ns, work.get("warmup_ns", 0))
        return found

    def machine_of(self, name: str) -> Machine:
        """Give one of its machines."""
        from opplab.simulation.machine import Machine

        own = next((file for stem, (file, _) in self._files[0].items() if Machine.load(file).name == name), None)
        return Machine.load(name if own is None else own)

    def find(self, hash_: str) -> _opplab.Case:
        """Give the case of that hash."""
        return next(case.inner for case in self.cases if case.hash == hash_)

    def run(
        self,
        folder: str | Path | None = None,
        *,
        executor: Executor | None = None,
        jobs: int | None = None,
        check: bool = False,
        retry_failed: bool = False,
        replace: bool = False,
        progress: Callable[[Tally], None] | None = None,
    ) -> pl.DataFrame:
        """Run all cases.

        Parameters
        ----------
        folder : str or Path, optional
            A results folder: what it holds already is not run again.
        executor : concurrent.futures.Executor, optional
            Who works, e.g. a process pool, or Dask's ``Client.get_executor()``; by default threads of this process.
        jobs : int, optional
            Number of workers; by default the number of CPUs.
        check : bool
            Run the invariant checks, too.
        retry_failed : bool
            Run the cases again that failed before.
        replace : bool
            Remove what the folder holds of another experiment, which is refused otherwise.
        progress : callable, optional
            Called with the tally after every case.

        Returns
        -------
        polars.DataFrame
            Results table, in the order of the experiment; the same whatever the executor.

        Examples
        --------
        >>> import opplab
        >>> short = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.1)
        >>> short.run(jobs=1)["policy"].n_unique()
        4
        """
        from opplab.simulation.run import workers

        jobs = workers(jobs)
        tables = Tables()
        with nullcontext() if folder is None else Store(folder) as store:
            if store is not None:
                store.create(self.manifest(), replace=replace)
            tally = run_cases(
                self.cases,
                store,
                executor=executor,
                jobs=jobs,
                check=check,
                retry_failed=retry_failed,
                until=self.until,
                latencies=self.latencies,
                progress=progress,
                keep=None if store else lambda case, measured: tables.add(case.hash, measured),
            )
            for note in store.notes if store else ():
                warnings.warn(note, stacklevel=2)
            if tally.problems:
                raise OpplabError(f"{tally.failed} of {tally.total} cases failed: {tally.problems[0]}")
            return store.merge(tally.wanted) if store else tables.frame(tally.wanted)

    def _repr_html_(self) -> str:
        from opplab.report.notebook import card

        facts = {
            "machines": ", ".join(dict.fromkeys(case.machine for case in self.cases)),
            "workloads": ", ".join(dict.fromkeys(case.benchmark for case in self.cases)),
            "policies": ", ".join(self.policies),
            "compared": ", ".join(f"{variant} with {base}" for base, variant in self.pairs),
            "cases": len(self.cases),
        }
        return card(f"{self.name}: {self.about}", facts)

    def __repr__(self) -> str:
        return f"Experiment({self.name!r}, cases={len(self.cases)})"


def _check_published(name: str, experiment: Path) -> None:
    """Refuse a table of published values that is neither built in nor beside the experiment."""
    if not name:
        return
    if name.endswith(".csv"):
        if not (experiment.parent / name).is_file():
            raise InputError(f"`published` of {experiment}: there is no file {experiment.parent / name}")
        return
    known = [path.stem for path in sorted((catalog.DATA / "published").glob("*.csv"))]
    if not any(f"{stem}_".startswith(f"{name}_") for stem in known):
        hint = catalog.nearest(name, known) or f" (known: {', '.join(known)})"
        raise InputError(f"`published` of {experiment}: there is no table `{name}`{hint}; or name a .csv beside it")


def _check_names(machines: Mapping[str, tuple[str, str]]) -> None:
    """Refuse two machine files of one name: their results would be mixed."""
    known: dict[str, str] = {}
    for file, text in machines.values():
        name = str(toml_of(text, file).get("name", ""))
        if name and (other := known.setdefault(name, file)) != file:
            raise InputError(f"{other} and {file} are both called `{name}`: give one of them another `name`")


def _check_once(machines: Sequence[str], cases: Sequence[Case], path: Path) -> None:
    """Refuse what is there twice: its results would be mixed under one name."""
    if twice := next((name for name in machines if machines.count(name) > 1), None):
        raise FormatError(f"{path}: machine `{twice}` is there twice", file=str(path))
    known = set()
    for case in cases:
        place = case.machine, case.benchmark, case.param, case.policy, case.iteration
        if place in known:
            what = f"{case.benchmark} {case.param}".strip()
            why = f"workload `{what}` is there twice: give one of them another `label`, or remove it"
            raise FormatError(f"{path}: {why}", file=str(path))
        known.add(place)


def _beside(kind: str, name: str, experiment: Path) -> Path:
    """Find a file that an experiment names: beside the experiment, or built in."""
    beside = experiment.parent / name
    return beside if name.endswith(".toml") and beside.is_file() else catalog.find(kind, name)


def summaries() -> list[dict[str, Any]]:
    """Give one row a built-in experiment."""
    rows = []
    for name in catalog.names("experiment"):
        path = catalog.find("experiment", name)
        inner = _opplab.Experiment.parse(str(path), read_text(path, "an experiment file"))
        rows.append({"experiment": name, "machines": " ".join(inner.machines()), "about": inner.about})
    return rows


def files_of_results(folder: Path) -> list[str]:
    """Give the built-in name and the files of the name of the experiment that filled a results folder, at least one.

    A copy of a built-in experiment that a user has changed often keeps the name.
    """
    if (folder / OF_OPTIONS).is_file():
        return [str(folder / OF_OPTIONS)]
    name = str(Store(folder).manifest()["experiment"])
    if not name:
        raise InputError(f"{folder} holds a single case, not an experiment's")
    places = [Path(f"{name}.toml"), folder / f"{name}.toml", folder.parent / f"{name}.toml"]
    files = [f"./{file}" if file.parent == Path() else str(file) for file in places if file.is_file()]
    found = [name] * (name in catalog.names("experiment")) + files
    if not found:
        raise InputError(f"{folder} was filled by the experiment `{name}`, and there is no {name}.toml: name its file")
    return found


def _with_generic_power(text: str, file: Path) -> str:
    """Give a machine file without power the generic curve; one with power stays as it is."""
    from opplab.fit.machine_power import generic_power
    from opplab.simulation.power import known_power

    return text if any(known_power(toml_of(text, str(file)))) else generic_power(text)[0]
