"""Run a workload on a machine under a policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.errors import FormatError, InputError
from opplab.simulation.fitted import fit_of
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.run import Run, check_whole, duration_ns
from opplab.simulation.workload import Benchmark, Workload, length_of, load_of

if TYPE_CHECKING:
    from opplab.policies import Governor, Placement


def simulate(
    machine: Machine | str | Path,
    workload: Workload | Benchmark | str | Path,
    policy: Policy | str = "schedutil",
    *,
    seconds: float | None = None,
    seed: int = 1,
    check: bool = False,
    governor: Governor | None = None,
    placement: Placement | None = None,
) -> Run:
    """Run a workload on a machine under a policy.

    Parameters
    ----------
    machine : Machine, str or Path
        Or its name, or the path of a ``.toml``.
    workload : Workload, Benchmark, str or Path
        Or the path of an rt-app file, or the name of a benchmark model. Constants of a model that are not given are
        those of its fit on this machine (``opplab list calibrations``); without a fit they are the model's own.
    policy : Policy or str
        Or the name of a governor.
    seconds : float, optional
        Simulated time; by default the workload's own duration, else until a benchmark's work is done, else 10.
    seed : int
        Seed of all random draws.
    check : bool
        Run the invariant checks, too.
    governor : Governor, optional
        A cpufreq governor written in Python, in place of schedutil, so that energy-aware scheduling goes on under it.
        Results have the name of its class as the policy, unless `policy` has a label.
    placement : Placement, optional
        A placement policy written in Python, in place of the kernel's.

    Returns
    -------
    Run

    Raises
    ------
    CaseError
        If policy or workload do not fit the machine, or a policy in Python failed.
    InputError
        If there is a `governor`, and `policy` names another than schedutil.
    CheckError
        If an invariant does not hold.

    Examples
    --------
    >>> import opplab
    >>> work = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    >>> run = opplab.simulate("juno-r2", work, opplab.Policy(kernel="5.18"), seconds=0.5)
    >>> run.metrics.filter(metric="missed_activations")["value"].to_list()
    [0.0]
    >>> run.events("cpu_frequency").columns
    ['time_ns', 'cpu', 'khz']
    """
    for name, written, method in (("governor", governor, "update"), ("placement", placement, "select")):
        _check_policy_class(name, written, method)
    check_whole("seed", seed)
    machine = Machine.of(machine)
    policy = policy if isinstance(policy, Policy) else Policy(governor=policy)
    if governor is not None:
        policy = _in_place_of_schedutil(policy, governor)
    workload = load_of(workload)
    seconds = length_of(workload, seconds)
    if isinstance(workload, Benchmark):
        inner = _benchmark_case(machine, workload, policy, seconds, seed)
    else:
        inner = build_case(machine, workload, policy, seconds=seconds, seed=seed)
    if governor is not None or placement is not None:
        inner = inner.with_policies(governor, placement)
    return Run(inner, inner.run(check, latencies=True), machine, governor, placement)


def _check_policy_class(name: str, written: object, method: str) -> None:
    """Refuse what has no method to call, and a class in place of an object of it, before anything runs."""
    if isinstance(written, type):
        raise InputError(f"`{name}` is the class {written.__name__}: give an object of it, {written.__name__}()")
    if written is not None and not callable(getattr(written, method, None)):
        raise InputError(f"`{name}` is {written!r}, which has no method `{method}`: see opplab.{name.capitalize()}")


def _in_place_of_schedutil(policy: Policy, governor: Governor) -> Policy:
    """Name a policy after the governor in Python that takes schedutil's place."""
    if policy.governor != "schedutil":
        raise InputError(
            f"a governor in Python takes schedutil's place, not that of {policy.governor}: leave out the policy's "
            "governor, and switch energy-aware scheduling off with eas=False if it shall be off"
        )
    if any("governor" in change for change in policy.changes or ()):
        raise InputError("a governor in Python is that of the whole run: leave `governor` out of the policy's changes")
    return replace(policy, label=policy.label or f"{type(governor).__name__} (Python)")


def build_case(
    machine: Machine, workload: Workload, policy: Policy, *, seconds: float | None = None, seed: int = 1
) -> _opplab.Case:
    """Put a case together; wrong names in the policy are refused with the nearest valid one."""
    with _policy_without_file():
        return _opplab.Case.build(
            machine._inner, workload._inner, policy._toml(), seed, duration_ns(length_of(workload, seconds))
        )


@contextmanager
def _policy_without_file() -> Iterator[None]:
    """Leave the place out of an error in the policy: it was not read from a file, and a place in it would mislead."""
    try:
        yield
    except FormatError as error:
        if error.file != "policy":
            raise
        raise InputError(str(error).split(": ", 1)[1]) from None


def _benchmark_case(
    machine: Machine,
    workload: Benchmark,
    policy: Policy,
    seconds: float,
    seed: int,
    constants: Mapping[str, int | str] = MappingProxyType({}),
) -> _opplab.Case:
    """Give the case of a benchmark model: the only one of an experiment with nothing else in it.

    A constant that is neither a parameter nor in `constants` is that of the model's fit on this machine, if there is
    one. The parameters alone name the case in `param`, whatever the constants are.
    """
    fit = fit_of(workload.name, machine.name)
    # JSON's numbers, strings and lists are TOML's; a list of one has its name and value in `param`, as of a sweep.
    params = "".join(f"{name} = {json.dumps([value])}\n" for name, value in workload.params.items())
    params += "".join(f"{name} = {json.dumps(value)}\n" for name, value in constants.items())
    if fit is not None:
        params += f'calibration = "{fit[0]}"\n'
    text = (
        f'format = 1\nname = "{workload.name}"\nabout = "one run"\nmachine = "this"\niterations = 1\n'
        f'duration = "{duration_ns(seconds)}ns"\n[[policy]]\n{policy._toml()}'
        f'[[workload]]\nlabel = "{workload.name}"\nbenchmark = "{workload.name}"\n{params}'
    )
    with _policy_without_file():
        experiment = _opplab.Experiment.parse("policy", text)
        # Seeds may be larger than TOML's numbers.
        experiment.adjust(seed=seed)
        if fit is not None:
            experiment.calibrate({fit[0]: (str(fit[1]), fit[2])})
        return experiment.expand({"this": (f"{machine.name}.toml", machine.to_toml())}, {})[0]
