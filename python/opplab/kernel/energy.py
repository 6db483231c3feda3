"""The energy model and energy-aware placement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

from opplab.errors import InputError
from opplab.kernel.native import native as _kernel


class EmPerfState(NamedTuple):
    """A state of an energy model."""

    performance: int
    """The capacity at this frequency, 0..1024."""
    freq_khz: int
    """The frequency."""
    power_uw: int
    """The power of one busy CPU in uW; of an artificial model a number without a unit."""
    cost: int
    """The energy of a unit of work, in a unit that only compares."""
    inefficient: bool
    """Whether a higher state costs no more."""


class EnergyModel(_kernel.EnergyModel):
    """The energy model of a performance domain.

    Parameters
    ----------
    points : sequence of (int, int)
        (kHz, uW) of one busy CPU by rising frequency.
    cpus : sequence of int
        The domain's CPUs.
    capacity : int
        Their capacity, 1..1024.
    kernel : str
        A kernel profile: how costs are formed, and whether ``em_cpu_energy()`` adds the clock's headroom (until v6.7).
    skip_inefficient : bool
        Whether states that cost more than a higher one are passed over.

    Raises
    ------
    InputError
        The framework refuses the table.

    Notes
    -----
    ``states`` are tuples as of `EmPerfState`.  ``em_cpu_energy(max_util, sum_util, allowed_cpu_cap=)`` estimates the
    domain's energy, in a unit that only compares.  ``EnergyModel.artificial(caps, cpus=, capacity=,
    efficiency_class=)`` is that of a CPPC platform.
    Source: kernel/power/energy_model.c, include/linux/energy_model.h; v6.12, and v5.10 to v6.8 by profile.

    Examples
    --------
    >>> model = EnergyModel([(500_000, 50_000), (1_000_000, 200_000)], cpus=[0, 1], capacity=400)
    >>> [EmPerfState(*state).cost for state in model.states]
    [2500, 5000]
    >>> model.em_cpu_energy(max_util=150, sum_util=200), model.em_cpu_energy(max_util=250, sum_util=300)
    (500000, 1500000)
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls,
        points: Sequence[tuple[int, int]],
        *,
        cpus: Sequence[int],
        capacity: int = 1024,
        kernel: str = "6.12.117",
        skip_inefficient: bool = True,
    ) -> Self:
        # Rows of an array are points, too.
        pairs = [(khz, uw) for khz, uw in points]
        return super().__new__(
            cls, pairs, cpus=list(cpus), capacity=capacity, kernel=kernel, skip_inefficient=skip_inefficient
        )


class EasCandidate(NamedTuple):
    """A CPU that was weighed."""

    cpu: int
    """Which."""
    domain: int
    """Index of its performance domain."""
    spare_cap: int
    """What it would have left with the task."""
    fits: int
    """1 if the task fits, -1 if only the lowest performance asked for cannot be granted."""


class EasEnergy(NamedTuple):
    """An energy that was computed."""

    dst_cpu: int | None
    """With the task on this CPU; None without it."""
    domain: int
    """Index of the performance domain."""
    energy: int
    """In the model's unit."""
    max_util: int
    """What decided the domain's frequency."""
    busy_time: int
    """The sum of the CPUs' busy time."""


class Placement(NamedTuple):
    """Where a waking task goes and why."""

    cpu: int | None
    """The CPU; None: the task is placed as without energy."""
    rule: str
    """``less-energy``, ``stay``, ``better-fit``, ``prev-does-not-fit``, ``none-fits``, ``overutilized``, ..."""
    candidates: list[EasCandidate]
    """The CPUs that were weighed."""
    energies: list[EasEnergy]
    """The energies that were computed."""


def find_energy_efficient_cpu(
    domains: Sequence[EnergyModel],
    util_avg: Sequence[int],
    *,
    task_util: int,
    prev_cpu: int,
    task_util_est: int | None = None,
    task_runnable: int | None = None,
    runnable_avg: Sequence[int] | None = None,
    util_est: Sequence[int] | None = None,
    allowed: Sequence[int] | None = None,
    busy: Sequence[int] = (),
    uclamp_min: int = 0,
    uclamp_max: int = 1024,
    overutilized: bool = False,
    kernel: str = "6.12.117",
) -> Placement:
    """Choose the CPU on which a waking task costs the least energy.

    Parameters
    ----------
    domains : sequence of EnergyModel
        The performance domains in the kernel's order; each CPU is in one.
    util_avg : sequence of int
        The fair utilisation of each CPU; on `prev_cpu` it still holds the task's.
    task_util : int
        The task's ``util_avg``.
    prev_cpu : int
        Where the task ran.
    task_util_est, task_runnable : int, optional
        The task's estimate and ``runnable_avg``; `task_util` if not given.
    runnable_avg, util_est : sequence of int, optional
        The CPUs' other signals; by default as `util_avg`, and 0.
    allowed : sequence of int, optional
        The CPUs that the task may run on; all if not given.
    busy : sequence of int
        The CPUs that run tasks now, without clamps of their own: these lift an upper clamp.  Idle CPUs have
        none, so that the task's counts there.
    uclamp_min, uclamp_max : int
        The task's clamps.
    overutilized : bool
        The root domain's flag: then there is no placement by energy.
    kernel : str
        A kernel profile from 5.0 on; before 6.0 the task moves only for a saving of 6 %.

    Raises
    ------
    InputError
        A CPU without a domain or a utilisation, an unknown profile.

    Notes
    -----
    Source: kernel/sched/fair.c:find_energy_efficient_cpu(), v6.12; v5.10 to v6.7 by profile.  The full capacity of each
    CPU is taken to be left for fair tasks.

    Examples
    --------
    A little and a big CPU; the task comes from the big one and is cheaper on the little one:

    >>> little = EnergyModel([(500_000, 30_000), (1_000_000, 150_000)], cpus=[0], capacity=400)
    >>> big = EnergyModel([(1_000_000, 300_000), (2_000_000, 1_200_000)], cpus=[1])
    >>> placement = find_energy_efficient_cpu([big, little], [20, 150], task_util=100, prev_cpu=1)
    >>> placement.cpu, placement.rule
    (0, 'less-energy')
    """
    n_cpus = len(util_avg)
    cpus = range(n_cpus)
    may_run, runs = set(cpus if allowed is None else allowed), set(busy)
    if outside := [cpu for cpu in (*(allowed or ()), *busy) if cpu not in cpus]:
        raise InputError(f"there is no CPU {outside[0]}; the utilisation of {n_cpus} was given")
    cpu, rule, candidates, energies = _kernel.find_energy_efficient_cpu(
        list(domains),
        list(util_avg),
        list(util_avg if runnable_avg is None else runnable_avg),
        [0] * n_cpus if util_est is None else list(util_est),
        [cpu in may_run for cpu in cpus],
        [cpu not in runs for cpu in cpus],
        prev_cpu,
        (
            task_util,
            task_util if task_runnable is None else task_runnable,
            task_util if task_util_est is None else task_util_est,
            uclamp_min,
            uclamp_max,
        ),
        overutilized,
        kernel,
    )
    return Placement(cpu, rule, [EasCandidate(*one) for one in candidates], [EasEnergy(*one) for one in energies])
