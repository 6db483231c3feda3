"""Run a workload on a machine under a policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.errors import FormatError, InputError
from opplab.simulation.cases import Case
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.run import Run, duration_ns
from opplab.simulation.workload import Workload

if TYPE_CHECKING:
    from opplab.policies import Governor, Placement

__all__ = ["build_case", "simulate"]


def simulate(
    machine: Machine,
    workload: Workload,
    policy: Policy,
    *,
    seconds: float = 10.0,
    seed: int = 1,
    check: bool = False,
    governor: Governor | None = None,
    placement: Placement | None = None,
) -> Run:
    """Run a workload on a machine under a policy.

    Parameters
    ----------
    machine : Machine
    workload : Workload
    policy : Policy
    seconds : float
        Simulated time.
    seed : int
        Seed of all random draws.
    check : bool
        Run the invariant checks, too.
    governor : Governor, optional
        A cpufreq governor written in Python, in place of the policy's.
    placement : Placement, optional
        A placement policy written in Python, in place of the kernel's.

    Returns
    -------
    Run

    Raises
    ------
    CaseError
        If policy or workload do not fit the machine, or a policy in Python failed.
    CheckError
        If an invariant does not hold.

    Examples
    --------
    >>> import opplab
    >>> run = opplab.simulate(
    ...     opplab.Machine.load("juno-r2"),
    ...     opplab.Workload.periodic(2, run_us=800, period_us=16000),
    ...     opplab.Policy(kernel="5.18"),
    ...     seconds=0.5,
    ... )
    >>> run.metrics.filter(metric="missed_activations")["value"].to_list()
    [0.0]
    >>> run.events("cpu_frequency").columns
    ['time_ns', 'cpu', 'khz']
    """
    inner = build_case(machine, workload, policy, seconds=seconds, seed=seed)
    if governor is not None or placement is not None:
        inner = inner.with_policies(governor, placement)
    return Run(Case.of(inner), inner, inner.run(check), machine)


def build_case(
    machine: Machine, workload: Workload, policy: Policy, *, seconds: float = 10.0, seed: int = 1
) -> _opplab.Case:
    """Put a case together; wrong names in the policy are refused with the nearest valid one."""
    try:
        return _opplab.Case.build(machine._inner, workload._inner, policy._toml(), seed, duration_ns(seconds))
    except FormatError as error:
        if error.file != "policy":
            raise
        # The policy was not read from a file: a place in it would mislead.
        raise InputError(str(error).split(": ", 1)[1]) from None
