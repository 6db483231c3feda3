"""Governors and placement policies written in Python, run by the simulator in place of the kernel's.

Subclass `Governor` or `Placement`, and give an instance to `opplab.simulate`.  A run works on deep copies: one of the
governor for each cpufreq policy, one of the placement, so that the same run can be made again.  They see plain facts,
keep what state they like, and give a request.  Utilisations and capacities are the kernel's, on its scale of 1024.
"""

from __future__ import annotations

from typing import NamedTuple


def _no_fact(self: tuple[object, ...], name: str) -> object:
    """Name the facts that there are, where a policy asks for another."""
    known = ", ".join(getattr(type(self), "_fields", ()))
    raise AttributeError(f"{type(self).__name__} has no `{name}`; it has {known}")


class GovernorCpu(NamedTuple):
    """One CPU of a cpufreq policy."""

    cpu: int
    #: Capacity at the highest frequency, 1024 for the biggest CPU.
    capacity: int
    #: Utilisation of the fair class or its estimate, whichever is larger.
    util_cfs: int
    #: The same, or the runnable signal if that is larger (what schedutil takes since v6.5).
    util_cfs_boost: int
    util_rt: int
    util_dl: int
    util_irq: int
    #: Clamps that hold for the run queue; 0 and 1024 without any.
    uclamp_min: int
    uclamp_max: int
    uclamp_used: bool
    #: A real-time task is runnable.
    rt_runnable: bool
    nr_running: int
    #: Grows each time the CPU goes idle and stops its tick.
    idle_calls: int
    #: Capacity for the bandwidth of deadline tasks, and for that of fair tasks' server (from 6.12 on).
    bw_dl: int
    #: Time that passed and time that the CPU idled, both since some beginning: what sampling governors go by.
    wall_us: int = 0
    idle_us: int = 0


class GovernorFacts(NamedTuple):
    """Inputs of a governor at each report of the scheduler."""

    time_ns: int
    #: The CPU that reports.
    cpu: int
    #: A task that waited for I/O wakes.
    iowait: bool
    #: All CPUs of the cpufreq policy.
    cpus: tuple[GovernorCpu, ...]
    #: What was last requested of the driver, as it rounds it (``policy->cur``); the firmware may run at another clock.
    cur_khz: int
    #: What the governor last asked for, as the frequency table resolves it; 0 if nothing.
    requested_khz: int
    min_khz: int
    max_khz: int
    #: The frequency of which schedutil takes a share (``get_capacity_ref_freq()``).
    freq_ref_khz: int
    #: The driver's frequency table, ascending, with entries that are passed over as inefficient; empty without one.
    table_khz: tuple[int, ...]
    #: Utilisation is frequency-invariant.
    freq_invariant: bool
    #: The rate limit that schedutil would have on this machine.
    rate_limit_us: int


class PlacementCpu(NamedTuple):
    """One CPU, as a placement policy sees it."""

    cpu: int
    capacity: int
    #: What real-time, deadline tasks and interrupts leave of the capacity.
    capacity_of: int
    #: Utilisation of the fair run queue, and the sum of its tasks' estimates.
    util_avg: int
    util_est: int
    nr_running: int
    idle: bool
    khz: int
    #: The task may run there.
    allowed: bool
    #: CPUs with equal numbers share a last-level cache.
    llc: int


class PlacementFacts(NamedTuple):
    """Inputs of a placement policy when a fair task wakes or is created."""

    time_ns: int
    task: int
    name: str
    #: The task is born, rather than woken.
    fork: bool
    #: Where it ran last, or where its parent runs.
    prev_cpu: int
    #: The CPU that runs the wake-up, and the task there; None if it is an interrupt on an idle CPU.
    waker_cpu: int
    waker: int | None
    #: The waker is about to sleep.
    sync: bool
    #: The task's utilisation; with its estimate, if that is larger.
    util_avg: int
    util_est: int
    cpus: tuple[PlacementCpu, ...]


for _facts in (GovernorCpu, GovernorFacts, PlacementCpu, PlacementFacts):
    setattr(_facts, "__getattr__", _no_fact)  # noqa: B010


class Governor:
    """A cpufreq governor; each cpufreq policy has its own copy.

    It stands in for the governor of the run's `Policy`; where that is schedutil, energy-aware scheduling may run.

    Examples
    --------
    >>> class Racing(Governor):
    ...     "Run at full speed while anything runs."
    ...
    ...     def update(self, facts):
    ...         busy = any(cpu.nr_running for cpu in facts.cpus)
    ...         return facts.max_khz if busy else facts.min_khz
    """

    #: A utilisation and the capacity that it is a part of: what this answer was made of, for `explain`.  It is unset
    #: before each call of `update`.
    decided_by: tuple[int, int] | None = None

    def update(self, facts: GovernorFacts) -> int | None:
        """Answer a report of the scheduler.

        Parameters
        ----------
        facts : GovernorFacts

        Returns
        -------
        int or None
            The frequency to ask for in kHz; the driver takes the lowest entry of its table that reaches it, within
            the limits, and passes over inefficient ones as the kernel does.  None asks for nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `update`")


class Placement:
    """Where tasks go when they wake or are born.

    Examples
    --------
    >>> class StayPut(Placement):
    ...     "Tasks stay where they are; the load balancer alone moves them."
    ...
    ...     def select(self, facts):
    ...         return facts.prev_cpu if facts.cpus[facts.prev_cpu].allowed else None
    """

    def select(self, facts: PlacementFacts) -> int | None:
        """Choose a CPU for a fair task that may use several.

        Parameters
        ----------
        facts : PlacementFacts

        Returns
        -------
        int or None
            The CPU, which must be allowed; None leaves the choice to the kernel.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method `select`")
