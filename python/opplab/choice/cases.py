"""The cases of a choice: every setting on the same machine and program, with the same seeds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import CaseError, FormatError, InputError
from opplab.simulation.cases import Case

if TYPE_CHECKING:
    from opplab.choice.settings import Setting
    from opplab.simulation.machine import Machine
    from opplab.simulation.workload import Benchmark, Workload

__all__ = ["Program", "program_of"]

DEFAULT_S = 10.0


class Program:
    """What runs where: the base case of each seed, as JSON, whose policy is then replaced.

    Attributes
    ----------
    bases : list of dict
        A case for each seed.
    about : list of (str, str)
        Facts for a report.
    """

    def __init__(self, bases: list[dict[str, Any]], about: list[tuple[str, str]]) -> None:
        self.bases = bases
        self.about = about

    @property
    def machine(self) -> dict[str, Any]:
        """The machine."""
        found: dict[str, Any] = self.bases[0]["machine"]
        return found

    def cases(self, settings: Sequence[Setting], labels: Sequence[str], variation: str) -> list[Case]:
        """Give the cases of these settings.

        Raises
        ------
        InputError
            If a setting does not fit; says which.
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


def program_of(
    machine: Machine | str | Path | None,
    workload: Workload | Benchmark | str | Path,
    *,
    seconds: float | None,
    seeds: Iterable[int],
    keys: dict[str, Any],
) -> Program:
    """Build the base cases of a workload, a benchmark model or a recorded trace.

    Parameters
    ----------
    machine : Machine, str, Path or None
        None: the snapshot beside a trace tells.
    workload : Workload, Benchmark, str or Path
        An rt-app file (``.json``), a benchmark model's name, or a trace.
    seconds : float, optional
        Simulated time; what the workload says, or 10.
    seeds : iterable of int
    keys : dict
        Keys of the policy that all settings share.
    """
    from opplab.simulation.machine import Machine as Described
    from opplab.simulation.policy import Policy
    from opplab.simulation.simulate import _benchmark_case, build_case
    from opplab.simulation.workload import Benchmark as Model
    from opplab.simulation.workload import Workload as Load

    if isinstance(workload, str | Path) and _is_trace(workload):
        return _of_trace(machine, Path(workload), seconds, seeds, keys)
    if machine is None:
        raise InputError("say what it runs on: a machine's name (`opplab list machines`) or a .toml file")
    on = machine if isinstance(machine, Described) else Described.load(machine)
    load = workload
    if isinstance(load, str | Path):
        is_file = isinstance(load, Path) or "." in load or "/" in load
        load = Load.load(load) if is_file else Load.benchmark(str(load))
    own = getattr(load, "duration_s", None)
    length = seconds if seconds is not None else float(own or DEFAULT_S)
    policy = Policy(**keys)
    bases = []
    for seed in seeds:
        inner = (
            _benchmark_case(on, load, policy, length, seed)
            if isinstance(load, Model)
            else build_case(on, load, policy, seconds=length, seed=seed)
        )
        bases.append(json.loads(inner.to_json()))
    about = [("machine", on.name), ("workload", load.name), ("simulated time", f"{length:g} s a run")]
    return Program(bases, [*about, ("kernel profile", bases[0]["policy"]["kernel"])])


def _is_trace(what: str | Path) -> bool:
    path = Path(what)
    return path.exists() and path.suffix != ".json"


def _of_trace(
    machine: Machine | str | Path | None,
    path: Path,
    seconds: float | None,
    seeds: Iterable[int],
    keys: dict[str, Any],
) -> Program:
    """Give the work that a trace shows, run again in a closed loop."""
    from opplab.simulation.machine import Machine as Described

    on = machine if machine is None or isinstance(machine, Described) else Described.load(machine)
    inner, _, _, check = _opplab.replayed_case(str(path), None if on is None else on._inner)
    base = json.loads(inner.to_json())
    own = json.loads(check)
    label = base["benchmark"] or path.name
    length_ns = base["duration_ns"] if seconds is None else min(round(seconds * 1e9), base["duration_ns"])
    bases = []
    for seed in seeds:
        policy = {**base["policy"], **keys}
        bases.append({**base, "policy": policy, "seed": seed, "duration_ns": length_ns, "benchmark": label})
    found = own["self_check"]
    near = "near" if found["near"] else "NOT near"
    residency = ", ".join(f"{one / 1000:.1f}" for one in found["freq_distance"]) or "unknown"
    return Program(
        bases,
        [
            ("machine", base["machine"]["name"]),
            ("workload", f"recovered from {path.name}, {own['tasks']} tasks"),
            ("simulated time", f"{length_ns / 1e9:g} s a run"),
            ("kernel profile", base["policy"]["kernel"]),
            ("as it was recorded", f"{base['policy']['governor']}; replayed within {residency} points: {near}"),
        ],
    )
