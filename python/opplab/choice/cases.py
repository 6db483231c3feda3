"""The cases of a choice: every setting on the same machine and program, with the same seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import CaseError, FormatError, InputError
from opplab.simulation.cases import Case, measured_time
from opplab.simulation.machine import Machine
from opplab.simulation.workload import Benchmark, Workload, length_of, load_of
from opplab.simulation.workload import Benchmark as Model
from opplab.simulation.workload import Workload as Load

if TYPE_CHECKING:
    from opplab.choice.settings import Setting
    from opplab.sweep.constants import Constants


NOT_NEAR = "The replay under the recorded policy is not near the recording: do not rely on the ranking."


@dataclass
class Program:
    """What runs where: the base case of each seed, as JSON, whose policy is then replaced."""

    bases: list[dict[str, Any]]
    """A case for each seed."""
    about: list[tuple[str, str]]
    """Facts for a report."""
    model: Benchmark | None = None
    """The benchmark model that it is of."""
    based: Callable[[Mapping[str, int]], list[dict[str, Any]]] | None = None
    """What makes such bases of the model with other constants."""
    check: Sequence[str] = ()
    """How near the replay of a recording is to it, in sentences; empty without a recording."""
    recorded: Mapping[str, bool] = field(default_factory=dict)
    """Of a recording: ``fixed_speed``, whether its CPUs ran as fast at every clock, so that clocks cannot be ranked by
    it; ``assumed_power``, whether the watts are assumed, in no draw."""
    sources: str = ""
    """The command that has the sources of the machine's numbers, or that names a machine which has them."""
    notes: Sequence[str] = ()
    """What rt-app would silently read over in the workload's file, each with its place."""
    fit: tuple[str | None, Mapping[str, int | str]] = (None, {})
    """The calibration of the benchmark model on the machine, and its constants."""
    energy_error: float = 0.0
    """How far the replay's energy is off the recording's, in percent; 0 where that is not known."""

    @property
    def _given(self) -> dict[str, int | str]:
        """The parameters of its benchmark model that a fit or the caller gives."""
        return {**self.fit[1], **(self.model.params if self.model else {})}

    @property
    def _params(self) -> list[dict[str, Any]]:
        """The parameters of its benchmark model."""
        name = self.model.name if self.model else ""
        return next((one["params"] for one in _opplab.benchmarks() if one["name"] == name), [])

    def _has(self, name: str) -> bool:
        """Whether its benchmark model has a parameter."""
        return any(param["name"] == name for param in self._params)

    @property
    def is_disk_unknown(self) -> bool:
        """Whether the result hangs on a disk that neither the machine, nor a fit, nor the caller describes."""
        default = self._given.get("disk", "machine") == "machine" and self._given.get("disk_flush_us", 0) == 0
        return self._has("disk_flush_us") and default and not self.machine.get("disk")

    @property
    def disk_notes(self) -> list[str]:
        """What the result hangs on that is described nowhere, in words."""
        from opplab.sweep.constants import disk_notes

        if self.model is None:
            return []
        assumed = self._has("device_us") and "device_us" not in self._given
        reads = [(self.model.name, self.bases[0]["workload"]["devices"][0][0] // 1000)] if assumed else []
        return disk_notes({self.model.name: ()} if self.is_disk_unknown else {}, reads)

    def constants(self, cases_of: Callable[[Program], Iterable[Case]]) -> Constants | None:
        """Give the free constants of its benchmark model; `cases_of` makes the cases of a program like it."""
        from opplab.sweep.constants import Constants

        model, based = self.model, self.based
        if model is None or based is None:
            return None

        def rebuilt(values: Mapping[tuple[str, str], int]) -> Iterable[Case]:
            return cases_of(Program(based({name: value for (_, name), value in values.items()}), self.about))

        name, fitted = self.fit
        found = [
            (model.name, model.name, param["name"], int(fitted.get(param["name"], param["default"])), name)
            for param in self._params
            if param["calibrated"] and param["name"] not in model.params
        ]
        unknown = [model.name] if self.is_disk_unknown else []
        return Constants.of(found, rebuilt, unknown_disks=unknown)

    @property
    def machine(self) -> dict[str, Any]:
        """The machine."""
        found: dict[str, Any] = self.bases[0]["machine"]
        return found

    @property
    def metric(self) -> str:
        """What its benchmark reports; empty for none."""
        name: str = (self.bases[0]["workload"].get("metric") or [""])[0]
        return name

    def idle(self) -> Program:
        """Give the same machine and time with nothing to do: one run, whatever the seeds."""
        case = _opplab.Case.from_json(json.dumps(self.bases[0]))
        return Program([json.loads(case.without_work().to_json())], self.about)

    def cases(self, settings: Sequence[Setting], labels: Sequence[str], variation: str) -> list[Case]:
        """Give the cases of these settings.

        Raises
        ------
        InputError
            If a setting does not fit; names it.
        """
        out = []
        for setting, label in zip(settings, labels, strict=True):
            for iteration, base in enumerate(self.bases):
                policy = setting.applied({**base["policy"], "variation": variation}, label)
                whole = {**base, "policy": policy, "iteration": iteration}
                try:
                    out.append(Case.of(_opplab.Case.from_json(json.dumps(whole))))
                except (FormatError, CaseError) as error:
                    raise InputError(f"setting `{label}`: {str(error).split(': ', 1)[-1]}") from None
        return out


def load_or_trace(workload: Workload | Benchmark | str | Path) -> Workload | Benchmark | str | Path:
    """Read the workload that a file or a benchmark model's name stands for; a trace stays what it is."""
    return workload if isinstance(workload, str | Path) and _is_trace(workload) else load_of(workload)


def program_of(
    machine: Machine | str | Path | None,
    workload: Workload | Benchmark | str | Path,
    *,
    seconds: float | None,
    seeds: Iterable[int],
    keys: dict[str, Any],
    recorded_governor: str | None = None,
    pelt_half_life_ms: int | None = None,
) -> Program:
    """Build the base cases of a workload, a benchmark model or a recorded trace.

    Parameters
    ----------
    machine : Machine, str, Path or None
        None: taken from the snapshot beside a trace.
    workload : Workload, Benchmark, str or Path
        An rt-app file (``.json``), a benchmark model's name, or a trace.
    seconds : float, optional
        Simulated time; the workload's, or 10.
    seeds : iterable of int
    keys : dict
        Keys of the policy that all settings share.
    recorded_governor, pelt_half_life_ms : str, int, optional
        Of a trace that lacks them.
    """
    from opplab.simulation.fitted import constants_on
    from opplab.simulation.policy import Policy
    from opplab.simulation.simulate import _benchmark_case, build_case
    from opplab.summary.answer import ends

    load = load_or_trace(workload)
    if isinstance(load, str | Path):
        return _of_trace(machine, Path(load), seconds, seeds, keys, recorded_governor, pelt_half_life_ms)
    if recorded_governor is not None or pelt_half_life_ms is not None:
        raise InputError(f"{workload} is no recorded trace, and has no recorded governor or half-life")
    if machine is None:
        raise InputError("no machine is given: name one (`opplab list machines`) or give a .toml file")
    on = Machine.of(machine)
    length = length_of(load, seconds)
    policy = Policy(**keys)
    own_seeds = list(seeds)

    fit = constants_on(load.name, on.name, load.params) if isinstance(load, Model) else (None, {})

    def based(constants: Mapping[str, int]) -> list[dict[str, Any]]:
        if isinstance(load, Model):
            made = [_benchmark_case(on, load, policy, length, seed, constants) for seed in own_seeds]
        else:
            made = [build_case(on, load, policy, seconds=length, seed=seed) for seed in own_seeds]
        return [json.loads(inner.to_json()) for inner in made]

    bases = based({})
    about = [("machine", on.name), ("workload", load.label if isinstance(load, Model) else load.name)]
    about.append(("simulated time", ("at most " if ends(bases[0]["workload"]) else "") + _time(bases)))
    about.append(("kernel profile", bases[0]["policy"]["kernel"]))
    model = load if isinstance(load, Model) else None
    notes = load.notes if isinstance(load, Load) else ()
    return Program(bases, about, model, based, sources=_sources(machine, on.name), notes=notes, fit=fit)


def _time(bases: Sequence[Mapping[str, Any]]) -> str:
    """Give the time of the runs in words, and what of it is left out as the warm-up."""
    return measured_time([(base["duration_ns"], base["workload"].get("warmup_ns", 0)) for base in bases], " a run")


def _sources(machine: Machine | str | Path | None, name: str) -> str:
    """Give the command that shows where a machine's numbers are from, by what the user called it."""
    told = machine if isinstance(machine, str | Path) else name
    return f"opplab machine show {told} has their sources"


def _is_trace(what: str | Path) -> bool:
    path = Path(what)
    return path.exists() and path.suffix not in (".json", ".toml")


def _of_trace(
    machine: Machine | str | Path | None,
    path: Path,
    seconds: float | None,
    seeds: Iterable[int],
    keys: dict[str, Any],
    governor: str | None,
    half_life_ms: int | None,
) -> Program:
    """Give the work that a trace shows, run again in the closed loop that its self-check is of."""
    from opplab.trace.replayed import assumed, energy_error, self_check, streams_text, whole_text

    on = None if machine is None else Machine.of(machine)
    own_seeds = list(seeds)
    inner, _, _, check, _ = _opplab.replayed_cases(
        str(path), None if on is None else on._inner, len(own_seeds), governor, half_life_ms
    )
    replayed = [json.loads(one.to_json()) for one in inner]
    base = replayed[0]
    own = json.loads(check)
    label = base["benchmark"] or path.name
    length_ns = base["duration_ns"] if seconds is None else min(round(seconds * 1e9), base["duration_ns"])
    # Of a shorter time all counts.
    if length_ns < 2 * base["workload"].get("warmup_ns", 0):
        for one in replayed:
            one["workload"].pop("warmup_ns")
    bases = []
    for seed, one in zip(own_seeds, replayed, strict=True):
        policy = {**one["policy"], **keys}
        bases.append({**one, "policy": policy, "seed": seed, "duration_ns": length_ns, "benchmark": label})
    found = own["self_check"]
    return Program(
        bases,
        [
            ("machine", base["machine"]["name"]),
            ("workload", f"recovered from {path.name}, {own['tasks']} tasks"),
            ("simulated time", _time(bases)),
            ("kernel profile", base["policy"]["kernel"]),
            ("as it was recorded", f"{base['policy']['governor']}; {self_check(found)}"),
            *([("damaged", f"{len(own['damage'])} places: {own['damage'][0]}")] if own["damage"] else []),
        ],
        check=[
            self_check(found),
            *([NOT_NEAR] if found["checked"] and not found["near"] else []),
            *([whole_text(found)] if found["whole"] and not found["whole_near"] else []),
            *streams_text(found),
            *assumed(own),
        ],
        energy_error=energy_error(found),
        recorded=own,
        sources=f"opplab choose {path} -m MACHINE takes a machine with known numbers"
        if machine is None
        else _sources(machine, base["machine"]["name"]),
    )
