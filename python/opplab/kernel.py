"""Linux's frequency, utilisation and energy decisions, bit for bit, from Python.

Functions and stepping classes with the kernel's names.  Everything is computed in integers by the crate ``kernel``,
which equals vectors of the real kernel's code (``opplab verify vectors``); the file and version that a name comes from
is under "Source".  Units are in the names: ``_ns``, ``_us``, ``_khz``, ``_uw``; utilisation, performance and capacity
count 0 to 1024, the biggest CPU at its highest frequency.

A class steps a state; ``repr`` prints it.  What does not exist or does not fit is an `opplab.errors.InputError`; a
number that is negative or too large for the kernel's type is an `OverflowError`.

Examples
--------
A task that runs 8 of every 16 ms, on a CPU at full and at half speed, just before it wakes:

>>> import numpy as np
>>> from opplab import kernel
>>> times_ns = np.arange(1, 401) * 1_000_000
>>> running = np.arange(400) % 16 < 8
>>> int(kernel.pelt(times_ns, running).util_avg[-1])
469
>>> int(kernel.pelt(times_ns, running, freq_scale=512).util_avg[-1])
225
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from opplab import _opplab
from opplab.errors import InputError

if TYPE_CHECKING:
    import numpy.typing as npt

    from opplab import _opplab_kernel as _kernel
else:
    _kernel = _opplab.kernel

__all__ = [
    "ON_RQ",
    "RUNNING",
    "ArtificialEm",
    "ClockPelt",
    "CppcPerfCaps",
    "EasCandidate",
    "EasEnergy",
    "EffectiveUtil",
    "EmPerfState",
    "EnergyModel",
    "FreqMaxRatio",
    "FreqTable",
    "Gate",
    "HwpBoost",
    "IdleGovernor",
    "IowaitBoost",
    "KernelProfile",
    "Menu",
    "PeltBatch",
    "PeltSignals",
    "Placement",
    "SchedAvg",
    "Schedutil",
    "SugovDecision",
    "Teo",
    "UtilEst",
    "amd_max_freq_ratio",
    "artificial_em",
    "cppc_scale_freq",
    "decay_load",
    "effective_cpu_util",
    "find_energy_efficient_cpu",
    "freq_max_ratio",
    "hwp_register",
    "intel_max_freq_ratio",
    "kernel_gates",
    "kernel_profiles",
    "map_util_freq",
    "map_util_perf",
    "pelt",
    "ramp_up_periods",
    "scale_freq_tick",
    "schedutil_cpu_util",
    "squeeze_efficiency_classes",
]

NICE_0_WEIGHT = 1024 << 10
ON_RQ = 1
"""Activity of a task: it is queued or runs."""
RUNNING = 2
"""Activity of a task, together with `ON_RQ`: it runs."""


# ------------------------------------------------------------------------------------------------------------- PELT


class PeltSignals(NamedTuple):
    """The averages of a task after each of its updates."""

    util_avg: npt.NDArray[np.uint16]
    """Utilisation, 0..1024."""
    runnable_avg: npt.NDArray[np.uint32]
    """The same while it was queued, too; with scaled contributions ``runnable_load_avg``."""
    load_avg: npt.NDArray[np.uint32]
    """Load, in units of load weight (1024 for nice 0)."""


def _times(times_ns: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    array = np.asarray(times_ns)
    if array.ndim != 1:
        raise InputError(f"times_ns has {array.ndim} dimensions, not 1")
    if array.dtype.kind not in "ui" and array.size:
        raise InputError(f"times_ns holds {array.dtype}, not integers")
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        raise InputError("times_ns holds negative times")
    return np.ascontiguousarray(array, dtype=np.uint64)


def _activity(running: npt.ArrayLike, runnable: npt.ArrayLike | None) -> npt.NDArray[np.uint8]:
    runs = np.asarray(running)
    if runs.dtype != np.bool_:
        runs = runs != 0
    if runnable is None:
        # 0 or 3: queued and running.
        return np.multiply(runs.view(np.uint8), ON_RQ | RUNNING, dtype=np.uint8)
    queued = np.asarray(runnable).astype(bool) | runs
    return np.ascontiguousarray(queued.astype(np.uint8) | (runs.astype(np.uint8) << 1))


def pelt(
    times_ns: npt.ArrayLike,
    running: npt.ArrayLike,
    *,
    runnable: npt.ArrayLike | None = None,
    freq_scale: npt.ArrayLike | None = None,
    capacity: int = 1024,
    invariance: str = "time-dilated",
    weight: int = NICE_0_WEIGHT,
    half_life: int = 32,
    start_ns: int | None = None,
) -> PeltSignals:
    """Track the load of one task that is alone on its CPU, over arrays.

    Parameters
    ----------
    times_ns : array of int
        When the task is updated, ascending, in ns (``rq_clock_task()``).
    running : array of bool
        Whether it ran from the update before to this one.
    runnable : array of bool, optional
        Whether it was queued or ran; `running` if not given.  While it is not, the CPU idles.
    freq_scale : array of int or int, optional
        The CPU's speed during each row, 0..1024 of its highest (``arch_scale_freq_capacity()``).
    capacity : int
        The CPU's capacity, 1..1024.
    invariance : {"time-dilated", "scaled-contribution", "none"}
        How the signal follows the speed: since v5.1, to v5.0, or not at all.  Without `freq_scale` and with full
        capacity there is nothing to follow.
    weight : int
        ``se->load.weight``; 1048576 for nice 0, below 2^41.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.
    start_ns : int, optional
        When the task appeared, without history; ``times_ns[0]`` if not given, so that the first row sets the clock.

    Returns
    -------
    PeltSignals
        One row an update.

    Raises
    ------
    InputError
        Arrays that differ in length, an unknown invariance or half-life.

    Notes
    -----
    Source: kernel/sched/pelt.c:__update_load_avg_se(), update_rq_clock_pelt(); v6.12, and v4.19 for scaled
    contributions.

    Examples
    --------
    A task that never sleeps reaches half of 1024 after one half-life and 97 % after five:

    >>> signals = pelt(np.arange(200) << 20, np.ones(200, bool))
    >>> [int(signals.util_avg[32 * n]) for n in (1, 2, 5)]
    [512, 768, 992]
    """
    times = _times(times_ns)
    activity = _activity(running, runnable)
    if half_life not in (8, 16, 32):
        raise InputError(f"no half-life of {half_life} periods (there are 8, 16, 32)")
    if freq_scale is None and capacity == 1024 and invariance == "time-dilated":
        invariance = "none"
    if invariance == "none":
        scale = np.empty(0, dtype=np.uint16)
    else:
        scales = np.asarray(1024 if freq_scale is None else freq_scale)
        if scales.size and (int(scales.min()) < 0 or int(scales.max()) > 1024):
            raise InputError("freq_scale is not within 0..1024")
        scale = np.ascontiguousarray(
            np.broadcast_to(scales, times.shape) if scales.ndim == 0 else scales, dtype=np.uint16
        )
    if start_ns is None:
        start_ns = int(times[0]) if times.size else 0
    return PeltSignals(*_kernel.pelt(times, activity, scale, start_ns, weight, half_life, invariance, capacity))


class PeltBatch(_kernel.PeltBatch):
    """The load tracking of many tasks that are updated together.

    Parameters
    ----------
    n : int
        How many tasks.
    now_ns : int
        When they appear, without history.
    weight : int
        Their ``se->load.weight``.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.

    Attributes
    ----------
    util_avg, runnable_avg, load_avg : array of uint64
        A copy of every task's average.

    Notes
    -----
    ``update_load_avg_se(now_ns, activity)`` updates all tasks; `activity` is an array of uint8, 0 for a task that
    slept, `ON_RQ` for one that waited, ``ON_RQ | RUNNING`` for one that ran.  It returns how many averages were
    recomputed.
    Source: kernel/sched/pelt.c:__update_load_avg_se(), v6.12.

    Examples
    --------
    >>> batch = PeltBatch(3)
    >>> batch.update_load_avg_se(32 << 20, np.array([0, ON_RQ, ON_RQ | RUNNING], dtype=np.uint8))
    3
    >>> batch.util_avg, batch.runnable_avg
    (array([  0,   0, 512], dtype=uint64), array([  0, 512, 512], dtype=uint64))
    """

    __slots__ = ()


class SchedAvg(_kernel.SchedAvg):
    """The load tracking state of a task or a run queue.

    Parameters
    ----------
    now_ns : int
        ``last_update_time``.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.

    Attributes
    ----------
    util_avg, runnable_avg, load_avg : int
        The averages, of 1024; of the load weight.
    util_sum, runnable_sum, load_sum : int
        The decayed sums, in units of 1024 ns (times 1024 for the first two).
    last_update_time : int
        In ns.
    period_contrib : int
        Units of the open period that are accounted already.

    Notes
    -----
    ``update_load_avg_se(now_ns, on_rq=, running=, weight=)``, ``update_load_avg_blocked_se(now_ns, weight=)`` and
    ``update_load_avg_cfs_rq(now_ns, load_weight=, nr_runnable=, has_curr=)`` account the time up to ``now_ns`` on
    PELT's clock, and say whether the averages were recomputed.
    Source: include/linux/sched.h: struct sched_avg, kernel/sched/pelt.c; v6.12.

    Examples
    --------
    >>> sa = SchedAvg()
    >>> sa.update_load_avg_se(10_000_000, on_rq=True, running=True)
    True
    >>> sa  # doctest: +NORMALIZE_WHITESPACE
    SchedAvg(last_update_time=9999360, load_sum=8824, runnable_sum=9035776, util_sum=9035776, period_contrib=549,
             load_avg=191, runnable_avg=191, util_avg=191, util_est=0)
    """

    __slots__ = ()


def decay_load(val: int, n: int, *, half_life: int = 32) -> int:
    """Let a sum fade over `n` periods of 1.048576 ms.

    Notes
    -----
    Source: kernel/sched/pelt.c:decay_load(), v6.12.

    Examples
    --------
    >>> decay_load(47742, 32), decay_load(47742, 64)
    (23870, 11934)
    """
    return _kernel.decay_load(val, n, half_life)


def ramp_up_periods(util: int, *, half_life: int = 32) -> int | None:
    """Give the periods of 1.048576 ms that a task which runs without pause needs until it has a ``util_avg`` of `util`.

    Returns
    -------
    int or None
        None if it never gets there.

    Notes
    -----
    Source: from kernel/sched/pelt.c, v6.12.

    Examples
    --------
    >>> [ramp_up_periods(819, half_life=periods) for periods in (32, 16, 8)]
    [75, 38, 19]
    """
    return _kernel.ramp_up_periods(util, half_life)


class ClockPelt(_kernel.ClockPelt):
    """The clocks of a run queue, of which PELT's is dilated by the CPU's speed and catches up when the CPU idles.

    Parameters
    ----------
    now_ns : int
        All clocks' start.
    capacity : int
        ``arch_scale_cpu_capacity()``, 1..1024.
    irq_time_ns : int
        Where the cumulative interrupt time starts.

    Attributes
    ----------
    now_ns : int
        ``rq_clock_pelt()``: what PELT takes for the time.
    clock, clock_task, clock_pelt, lost_idle_time : int
        The fields of ``struct rq``, in ns.

    Notes
    -----
    ``update_rq_clock(now_ns, idle=, freq_scale=, irq_time_ns=)`` brings the clocks up to now; `freq_scale` is what the
    time since the last call ran at.  ``update_idle_rq_clock_pelt(util_sum)`` is called when the run queue is about to
    idle, with the sum of its classes' ``util_sum``.  Both return ``now_ns``.
    Source: kernel/sched/pelt.h, v6.12 (time dilation since v5.1).

    Examples
    --------
    >>> clock = ClockPelt(capacity=512)
    >>> clock.update_rq_clock(4_000_000, idle=False)
    2000000
    >>> clock.update_idle_rq_clock_pelt()
    4000000
    """

    __slots__ = ()


class UtilEst(_kernel.UtilEst):
    """A task's estimated utilisation over its activations.

    Parameters
    ----------
    kernel : str
        A kernel profile; before v6.8 the estimate is a pair of values.

    Attributes
    ----------
    util_est : int
        The estimate, 0..1024.

    Notes
    -----
    ``util_est_update(util_avg, runnable_avg=, capacity=, task_sleep=)`` ends an activation and returns the estimate; a
    second one without ``util_change()`` (the averages moved) between them changes nothing.  ``task_util_est(util_avg)``
    is the larger one of the two.
    Source: kernel/sched/fair.c:util_est_update(), v6.12, and v4.17 to v6.7.

    Examples
    --------
    >>> estimate = UtilEst()
    >>> for util_avg in (400, 100, 100):
    ...     estimate.util_change()
    ...     print(estimate.util_est_update(util_avg))
    400
    325
    268
    """

    __slots__ = ()


# ---------------------------------------------------------------------------------------------------------- cpufreq


class FreqTable(_kernel.FreqTable):
    """A driver's table of frequencies.

    Parameters
    ----------
    freqs_khz : sequence of int
        The frequencies in the driver's order.
    inefficient_khz : sequence of int
        Those that the energy model marks inefficient.

    Raises
    ------
    InputError
        The table is empty or holds a frequency twice in a row.

    Notes
    -----
    ``resolve(target_khz, relation, min_khz=, max_khz=, efficient=)`` gives the table's frequency for a target:
    `relation` "L" takes the lowest at or above, "H" the highest at or below, "C" the closest.
    Source: drivers/cpufreq/freq_table.c, drivers/cpufreq/cpufreq.c:__resolve_freq(); v6.12.

    Examples
    --------
    >>> table = FreqTable([450_000, 800_000, 950_000])
    >>> table.resolve(600_000), table.resolve(600_000, "H"), table.resolve(600_000, "C")
    (800000, 450000, 450000)
    >>> table
    FreqTable([450000, 800000, 950000], order=ascending)
    """

    __slots__ = ()


def map_util_freq(util: int, freq_khz: int, capacity: int = 1024) -> int:
    """Give ``freq * util / capacity`` in kHz, truncated.

    Notes
    -----
    Source: include/linux/sched/cpufreq.h:map_util_freq(), v6.12.

    Examples
    --------
    >>> map_util_freq(map_util_perf(512), 2_000_000)
    1250000
    """
    return _kernel.map_util_freq(util, freq_khz, capacity)


def map_util_perf(util: int) -> int:
    """Give a utilisation with schedutil's headroom of a quarter.

    Notes
    -----
    Source: include/linux/sched/cpufreq.h:map_util_perf(), v6.12.

    Examples
    --------
    >>> map_util_perf(819)
    1023
    """
    return _kernel.map_util_perf(util)


_RQ: dict[str, int | bool] = {
    "capacity": 1024,
    "util_rt": 0,
    "util_dl": 0,
    "util_irq": 0,
    "dl_running_bw": 0,
    "uclamp_min": 0,
    "uclamp_max": 1024,
    "uclamp_used": False,
    "rt_runnable": False,
}


def _rq(facts: Mapping[str, int | bool]) -> dict[str, int | bool]:
    unknown = sorted(set(facts) - set(_RQ))
    if unknown:
        raise InputError(f"unknown fact `{unknown[0]}` of a run queue (there are {', '.join(_RQ)})")
    used = {"uclamp_used": True} if {"uclamp_min", "uclamp_max"} & set(facts) else {}
    return {**_RQ, **used, **facts}


class EffectiveUtil(NamedTuple):
    """A CPU's utilisation and its bounds, of its capacity."""

    util: int
    """The utilisation of all classes and of interrupts."""
    min: int
    """What is needed at least."""
    max: int
    """What is enough."""


def effective_cpu_util(util_cfs: int, **facts: int | bool) -> EffectiveUtil:
    """Sum up what a CPU's classes and interrupts use.

    Parameters
    ----------
    util_cfs : int
        The fair class's utilisation.
    **facts
        Of the run queue: ``capacity`` (1024), ``util_rt``, ``util_dl``, ``util_irq``, ``dl_running_bw`` (20 fractional
        bits), ``uclamp_min``, ``uclamp_max``, ``uclamp_used`` (true if one of the two is given), ``rt_runnable``.

    Raises
    ------
    InputError
        An unknown fact.

    Notes
    -----
    Source: kernel/sched/syscalls.c:effective_cpu_util(), v6.12.

    Examples
    --------
    >>> effective_cpu_util(300, util_irq=100, uclamp_max=512)
    EffectiveUtil(util=370, min=100, max=512)
    """
    return EffectiveUtil(*_kernel.effective_cpu_util(util_cfs, _rq(facts)))


def schedutil_cpu_util(util_cfs: int, *, kind: str = "frequency", **facts: int | bool) -> int:
    """Sum up a CPU's utilisation as v4.20 to v6.7 do.

    Parameters
    ----------
    util_cfs : int
        The fair class's utilisation.
    kind : {"frequency", "energy"}
        For choosing a frequency, or for estimating energy.
    **facts
        As for `effective_cpu_util`.

    Notes
    -----
    Source: kernel/sched/cpufreq_schedutil.c:schedutil_cpu_util(), v5.10.

    Examples
    --------
    >>> schedutil_cpu_util(300, rt_runnable=True), schedutil_cpu_util(300, kind="energy", rt_runnable=True)
    (1024, 300)
    """
    if kind not in ("frequency", "energy"):
        raise InputError(f"unknown kind `{kind}` (there are frequency, energy)")
    return _kernel.schedutil_cpu_util(util_cfs, _rq(facts), kind == "frequency")


class SugovDecision(NamedTuple):
    """What schedutil decided and why."""

    time_ns: int
    """When, in ns."""
    cpu: int
    """The policy's CPU that reported."""
    deciding_cpu: int
    """The policy's CPU whose utilisation decided."""
    util: int
    """That utilisation, with headroom since v6.8."""
    iowait: int
    """The utilisation that waiting for I/O asked for."""
    max_cap: int
    """The capacity that stands for the reference frequency."""
    ref_khz: int
    """The reference frequency."""
    raw_khz: int
    """The frequency before it was resolved to the table and the limits."""
    next_khz: int
    """The frequency that the policy wants from here on."""
    outcome: str
    """``requested``, ``unchanged``, ``held``, ``rate-limited`` or ``cannot-update``."""
    request: tuple[str, int, int] | None
    """``("fast-switch", khz, 0)``, ``("queue-work", 0, 0)``, ``("adjust-perf", target, min)``, or None."""


class Schedutil(_kernel.Schedutil):
    """The governor schedutil for one policy.

    Parameters
    ----------
    freqs_khz : sequence of int
        The driver's table.
    n_cpus : int
        CPUs of the policy; more than one makes it a shared one.
    kernel : str
        A kernel profile, see `kernel_profiles`.
    gates : mapping or sequence of pairs, optional
        Single gates to override, see `kernel_gates`.
    rate_limit_us : int, optional
        The tunable; by default that of the profile for a driver without a latency.
    freq_invariant : bool
        ``arch_scale_freq_invariant()``: whether utilisation is relative to the highest frequency, or to the current
        one.
    freq_ref_khz : int
        ``arch_scale_freq_ref()``, 0 where the architecture has none.
    fast_switch : bool
        Whether the driver switches at once; else each request is ``queue-work``, and `work` gives the frequency.
    adjust_perf : bool
        Whether the driver takes performance levels instead of frequencies.
    tick_ns : int
        The length of a tick.
    cur_khz : int, optional
        The current frequency; the highest if not given.

    Attributes
    ----------
    cur_khz : int
        The current frequency; a fast switch moves it.
    next_freq_khz : int
        The frequency that was last decided.
    rate_limit_us : int
        The tunable.
    path : str
        ``single-freq``, ``single-perf`` or ``shared``.

    Raises
    ------
    InputError
        A table that cannot be, an unknown profile, gate or CPU.

    Notes
    -----
    Source: kernel/sched/cpufreq_schedutil.c, v6.12, and v4.17 to v6.7 by profile.

    Examples
    --------
    Half used, at the highest frequency; once relative to that, once to the current frequency (with headroom twice):

    >>> for invariant in (True, False):
    ...     governor = Schedutil(range(500_000, 2_000_001, 100_000), cur_khz=1_000_000, freq_invariant=invariant)
    ...     decision = governor.update(10_000_000, 512)
    ...     print(decision.ref_khz, decision.util, decision.raw_khz, decision.next_khz)
    2000000 640 1250000 1300000
    1250000 640 781250 800000
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls,
        freqs_khz: Sequence[int],
        *,
        n_cpus: int = 1,
        kernel: str = "6.12",
        gates: Mapping[str, str] | Sequence[tuple[str, str]] = (),
        rate_limit_us: int | None = None,
        freq_invariant: bool = True,
        freq_ref_khz: int = 0,
        fast_switch: bool = True,
        adjust_perf: bool = False,
        tick_ns: int = 4_000_000,
        cur_khz: int | None = None,
    ) -> Self:
        pairs = list(gates.items()) if isinstance(gates, Mapping) else list(gates)
        return super().__new__(
            cls,
            list(freqs_khz),
            n_cpus=n_cpus,
            kernel=kernel,
            gates=pairs,
            rate_limit_us=rate_limit_us,
            freq_invariant=freq_invariant,
            freq_ref_khz=freq_ref_khz,
            fast_switch=fast_switch,
            adjust_perf=adjust_perf,
            tick_ns=tick_ns,
            cur_khz=cur_khz,
        )

    def update(
        self,
        time_ns: int,
        util: int,
        *,
        cpu: int = 0,
        runnable: int = 0,
        iowait: bool = False,
        idled: bool = True,
        **facts: int | bool,
    ) -> SugovDecision:
        """Take the scheduler's report on one CPU.

        Parameters
        ----------
        time_ns : int
            When.
        util : int
            ``cpu_util_cfs()`` of the CPU, 0..1024.  In a shared policy the other CPUs keep what they last reported.
        cpu : int
            Which of the policy's CPUs.
        runnable : int
            The fair class's ``runnable_avg``; counts from v6.5 on where it is larger.
        iowait : bool
            Whether a task that waited for I/O woke (``SCHED_CPUFREQ_IOWAIT``).
        idled : bool
            Whether the CPU idled since its last report; one that did not is not slowed down.
        **facts
            The other classes, as for `effective_cpu_util`.

        Returns
        -------
        SugovDecision

        Examples
        --------
        >>> governor = Schedutil([400_000, 800_000, 1_600_000], rate_limit_us=1_000)
        >>> governor.update(5_000_000, 300).request
        ('fast-switch', 800000, 0)
        >>> governor.update(5_500_000, 900).outcome
        'rate-limited'
        """
        decision: dict[str, Any] = self.step(time_ns, cpu, util, runnable, _rq(facts), iowait, idled)
        return SugovDecision(**decision)


class IowaitBoost(_kernel.IowaitBoost):
    """schedutil's boost for tasks that wait for I/O, alone.

    Parameters
    ----------
    tick_ns : int
        The length of a tick; a CPU that idled longer starts anew.

    Notes
    -----
    ``update(time_ns, iowait=, capacity=)`` notes a report, applies the boost and returns it as a utilisation: from 128
    on it doubles with each request up to 1024, and halves with each report without.
    Source: kernel/sched/cpufreq_schedutil.c:sugov_iowait_boost(), sugov_iowait_apply(); v6.12.

    Examples
    --------
    >>> boost = IowaitBoost()
    >>> [boost.update(ms * 1_000_000, iowait=ms < 5) for ms in range(1, 9)]
    [128, 256, 512, 1024, 512, 256, 128, 0]
    """

    __slots__ = ()


def hwp_register(minimum: int, maximum: int, desired: int = 0, epp: int = 0) -> int:
    """Give the value of ``MSR_HWP_REQUEST``; the four fields have 8 bits each.

    Of ``MSR_HWP_CAPABILITIES`` the fields in this order are highest, guaranteed, most efficient, lowest performance.

    Examples
    --------
    >>> hex(hwp_register(8, 42, epp=128))
    '0x80002a08'
    """
    fields = (minimum, maximum, desired, epp)
    if any(not 0 <= value <= 255 for value in fields):
        raise InputError("the fields of an HWP register are 0..255")
    return sum(value << shift for value, shift in zip(fields, (0, 8, 16, 24), strict=True))


class HwpBoost(_kernel.HwpBoost):
    """intel_pstate's dynamic HWP boost of one CPU: the lower limit rises after I/O.

    Parameters
    ----------
    tick_ns : int
        The length of a tick; two reports with I/O within two ticks boost.
    idle_placement : bool
        SUSE's boost of tasks that are placed on an idle CPU (text 001).

    Attributes
    ----------
    hwp_boost_min : int
        The raised lower limit; 0 while not boosted.

    Notes
    -----
    ``update_util(time_ns, request=, capabilities=, iowait=, idle_placement=, local=)`` returns the value to write to
    ``MSR_HWP_REQUEST``, or None.
    Source: drivers/cpufreq/intel_pstate.c:intel_pstate_update_util_hwp(), v6.12 (since v4.18).

    Examples
    --------
    Half-way to the guaranteed performance, then to that, then to the highest:

    >>> registers = {"request": hwp_register(8, 42), "capabilities": hwp_register(42, 24, 12, 8)}
    >>> boost = HwpBoost()
    >>> for ms in (1, 2, 3, 4):
    ...     written = boost.update_util(ms * 1_000_000, iowait=True, **registers)
    >>> boost.hwp_boost_min
    42
    """

    __slots__ = ()


# ----------------------------------------------------------------------------------------------------- f_max, CPPC


class FreqMaxRatio(NamedTuple):
    """An f_max: as a frequency, and relative to the base frequency."""

    freq_khz: int
    """In kHz."""
    ratio: int | None
    """f_max / f_base in 1/1024; None if the base frequency is 0."""


def freq_max_ratio(
    variant: str, *, base_khz: int, turbo: Sequence[tuple[int, int]] = (), n_cores: int = 1
) -> FreqMaxRatio:
    """Give the f_max that utilisation is measured against.

    Parameters
    ----------
    variant : str
        ``max_P``, ``mid``, ``max_boost``, ``turbo-1-core``, ``turbo-4-cores``, ``turbo-all-cores``, ``rapl`` or
        ``recent``; for the last two it is where the estimate starts.
    base_khz : int
        The highest frequency without turbo, at which MPERF counts.
    turbo : sequence of (int, int)
        (active cores, kHz): the frequency with at most so many cores active, by rising number.
    n_cores : int
        Cores of the package.

    Raises
    ------
    InputError
        An unknown variant.

    Notes
    -----
    Source: texts 000 and 002; arch/x86/kernel/cpu/aperfmperf.c and arch/x86/kernel/acpi/cppc.c, v6.12.

    Examples
    --------
    The EPYC 7742 of text 000:

    >>> freq_max_ratio("mid", base_khz=2_250_000, turbo=[(64, 3_400_000)], n_cores=64)
    FreqMaxRatio(freq_khz=2825000, ratio=1285)
    """
    return FreqMaxRatio(*_kernel.freq_max_ratio(variant, base_khz, list(turbo), n_cores))


def intel_max_freq_ratio(model: str = "other", **msrs: int | None) -> int | None:
    """Give the max frequency ratio that the kernel takes from an Intel CPU's registers, in 1/1024.

    Parameters
    ----------
    model : {"other", "knl", "skx", "glm"}
        How the CPU tells its turbo levels.
    **msrs
        ``platform_info``, ``turbo_ratio_limit``, ``turbo_ratio_limit1``, ``misc_enable``, ``atom_core_ratios``,
        ``atom_core_turbo_ratios``; a register that is not given faults when it is read.

    Returns
    -------
    int or None
        None: the machine stays without frequency invariance.

    Notes
    -----
    Source: arch/x86/kernel/cpu/aperfmperf.c:intel_set_max_freq_ratio(), v6.12.

    Examples
    --------
    Base 2.2 GHz, turbo 2.8 GHz with four cores:

    >>> intel_max_freq_ratio(platform_info=22 << 8, turbo_ratio_limit=28 << 24 | 36)
    1303
    """
    return _kernel.intel_max_freq_ratio(model, **msrs)


def amd_max_freq_ratio(
    nominal_perf: int, highest_perfs: Sequence[int], *, zen4: bool = False, model: int = 0
) -> int | None:
    """Give the midpoint of max_boost and max_P that the kernel takes on AMD, in 1/1024.

    Parameters
    ----------
    nominal_perf : int
        CPPC's nominal performance.
    highest_perfs : sequence of int
        CPPC's highest performance of each CPU; if they differ the cores are ranked and a constant is taken instead.
    zen4, model
        Which CPU, for that constant.

    Returns
    -------
    int or None
        None if the nominal performance is 0.

    Notes
    -----
    Source: arch/x86/kernel/acpi/cppc.c:amd_set_max_freq_ratio(), v6.12 (since v5.11).

    Examples
    --------
    >>> amd_max_freq_ratio(155, [235] * 128)
    1288
    """
    return _kernel.amd_max_freq_ratio(nominal_perf, list(highest_perfs), zen4=zen4, model=model)


def scale_freq_tick(acnt: int, mcnt: int, max_freq_ratio: int) -> int | None:
    """Give a CPU's speed over a tick, 1..1024, from how far APERF and MPERF moved.

    Returns
    -------
    int or None
        None: the counters are unusable, and the kernel switches frequency invariance off for good.

    Notes
    -----
    Source: arch/x86/kernel/cpu/aperfmperf.c:scale_freq_tick(), v6.12.

    Examples
    --------
    >>> scale_freq_tick(acnt=2_000_000, mcnt=2_200_000, max_freq_ratio=1303)
    731
    """
    return _kernel.scale_freq_tick(acnt, mcnt, max_freq_ratio)


class CppcPerfCaps(_kernel.CppcPerfCaps):
    """What CPPC says of a CPU, on its abstract scale.

    Parameters
    ----------
    lowest_perf, nominal_perf, highest_perf : int
        Performance levels.
    lowest_freq_mhz, nominal_freq_mhz : int
        The frequencies of two of them, 0 if unknown.
    dmi_max_khz : int
        The highest frequency of the DMI table, for CPUs where those are unknown.

    Notes
    -----
    ``cppc_perf_to_khz(perf)`` and ``cppc_khz_to_perf(freq_khz)`` convert.
    Source: drivers/acpi/cppc_acpi.c, v6.12.

    Examples
    --------
    >>> caps = CppcPerfCaps(100, 200, 300, lowest_freq_mhz=500, nominal_freq_mhz=1000)
    >>> caps.cppc_perf_to_khz(300), caps.cppc_khz_to_perf(1_250_000)
    (1500000, 250)
    """

    __slots__ = ()


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


class ArtificialEm(NamedTuple):
    """An artificial energy model and how the kernel gets there."""

    states: list[EmPerfState]
    """The states."""
    loop_calls: int
    """How often the kernel calls ``cppc_khz_to_perf()``."""
    spun: bool
    """Whether a search of the kernel ends only after the frequency wrapped, after up to millions of steps."""


def artificial_em(caps: CppcPerfCaps, *, capacity: int, efficiency_class: int) -> ArtificialEm:
    """Build the artificial energy model that cppc_cpufreq registers for a CPU.

    Parameters
    ----------
    caps : CppcPerfCaps
        The CPU's performance levels.
    capacity : int
        Its capacity, 1..1024.
    efficiency_class : int
        Its class, squeezed (`squeeze_efficiency_classes`).

    Raises
    ------
    InputError
        The framework refuses the table, or the kernel would hang or divide by zero.

    Notes
    -----
    Source: drivers/cpufreq/cppc_cpufreq.c:cppc_get_cpu_power(), cppc_get_cpu_cost(); v6.12.

    Examples
    --------
    >>> caps = CppcPerfCaps(100, 1024, 1024, lowest_freq_mhz=200, nominal_freq_mhz=2048)
    >>> em = artificial_em(caps, capacity=1024, efficiency_class=1)
    >>> len(em.states), em.states[-1].power_uw - em.states[0].power_uw, em.spun
    (47, 46, False)
    """
    states, loop_calls, spun = _kernel.artificial_em(caps, capacity, efficiency_class)
    return ArtificialEm([EmPerfState(*state) for state in states], loop_calls, spun)


def squeeze_efficiency_classes(raw: Sequence[int]) -> list[int] | None:
    """Map the firmware's efficiency classes of the CPUs to 0, 1, 2, ...

    Returns
    -------
    list of int or None
        None if all are of one class: there is no artificial energy model then.

    Notes
    -----
    Source: drivers/cpufreq/cppc_cpufreq.c:populate_efficiency_class(), v6.12.

    Examples
    --------
    >>> squeeze_efficiency_classes([7, 3, 255, 3])
    [1, 0, 2, 0]
    """
    return _kernel.squeeze_efficiency_classes(bytes(raw))


def cppc_scale_freq(
    reference_perf: int, highest_perf: int, before: tuple[int, int], after: tuple[int, int]
) -> int | None:
    """Give a CPU's speed, 0..1024, between two readings (reference, delivered) of its feedback counters.

    Returns
    -------
    int or None
        None: a counter stood still, and the old speed stays.

    Notes
    -----
    Source: drivers/cpufreq/cppc_cpufreq.c:cppc_scale_freq_workfn(), v6.12.

    Examples
    --------
    >>> cppc_scale_freq(100, 300, (0, 0), (1_000, 1_500))
    512
    """
    return _kernel.cppc_scale_freq(reference_perf, highest_perf, before, after)


# ---------------------------------------------------------------------------------------------- energy model, EAS


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
        A kernel profile: how costs are formed.
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
    """``less-energy``, ``stay``, ``better-fit``, ``prev-does-not-fit``, ``overutilized``, ..."""
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
    uclamp_min: int = 0,
    uclamp_max: int = 1024,
    overutilized: bool = False,
    kernel: str = "6.12",
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
    if allowed is None:
        mask = [True] * n_cpus
    else:
        outside = [cpu for cpu in allowed if not 0 <= cpu < n_cpus]
        if outside:
            raise InputError(f"there is no CPU {outside[0]}; the utilisation of {n_cpus} was given")
        mask = [cpu in set(allowed) for cpu in range(n_cpus)]
    cpu, rule, candidates, energies = _kernel.find_energy_efficient_cpu(
        list(domains),
        list(util_avg),
        list(util_avg if runnable_avg is None else runnable_avg),
        [0] * n_cpus if util_est is None else list(util_est),
        mask,
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


# ---------------------------------------------------------------------------------------------------------- cpuidle


class IdleGovernor(_kernel.IdleGovernor):
    """A cpuidle governor for one CPU.

    Parameters
    ----------
    name : {"menu", "teo", "ladder", "haltpoll"}
        Which.
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.
    kernel : str
        The kernel profile whose menu it is; the others are those of v6.12.

    Raises
    ------
    InputError
        An unknown governor or kernel, or an empty table.

    Notes
    -----
    ``select(now_ns, sleep_length_ns=, delta_tick_ns=, latency_req_ns=, disabled=, tick_stopped=,
    nr_iowaiters=)`` chooses: the index of a state, and whether to stop the tick.  ``reflect(now_ns, index=,
    residency_ns=, got_tick=, poll_time_limit=)`` records how it ended.
    Source: drivers/cpuidle/governors/, v6.12.

    Examples
    --------
    >>> governor = IdleGovernor("ladder", [(0, 0, True), (2_000, 20_000, False)])
    >>> governor.select(0, sleep_length_ns=5_000_000)
    (1, True)
    """

    __slots__ = ()


class Menu(IdleGovernor):
    """The idle governor menu for one CPU; see `IdleGovernor`.

    Parameters
    ----------
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.
    kernel : str
        The kernel profile whose menu it is.

    Notes
    -----
    Source: drivers/cpuidle/governors/menu.c, v6.12.

    Examples
    --------
    Timers are 5 ms away, but the CPU wakes after 30 us eight times; then it expects that again:

    >>> menu = Menu([(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)])
    >>> for at_us in range(0, 800_000, 100_000):
    ...     index, _ = menu.select(at_us * 1_000, sleep_length_ns=5_000_000)
    ...     menu.reflect(at_us * 1_000 + 30_000, index=index, residency_ns=30_000)
    >>> menu.select(800_000_000, sleep_length_ns=5_000_000)
    (1, False)
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls, states: Sequence[tuple[int, int, bool]], *, tick_ns: int = 4_000_000, kernel: str = "6.12"
    ) -> Self:
        return super().__new__(cls, "menu", states, tick_ns=tick_ns, kernel=kernel)


class Teo(IdleGovernor):
    """The idle governor teo for one CPU; see `IdleGovernor`.

    Parameters
    ----------
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.

    Notes
    -----
    Source: drivers/cpuidle/governors/teo.c, v6.12.

    Examples
    --------
    >>> teo = Teo([(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)])
    >>> teo.select(0, sleep_length_ns=5_000_000)
    (2, True)
    """

    __slots__ = ()

    def __new__(cls, states: Sequence[tuple[int, int, bool]], *, tick_ns: int = 4_000_000) -> Self:  # noqa: D102
        return super().__new__(cls, "teo", states, tick_ns=tick_ns)


# --------------------------------------------------------------------------------------------------------- profiles


class Gate(NamedTuple):
    """One value of one thing that kernels do differently."""

    gate: str
    """The gate's name in policy files."""
    differs: str
    """What differs."""
    value: str
    """The value's name."""
    since: str | None
    """The first version with it; None: in no profile, for overriding only."""
    meaning: str
    """What the value means."""
    source: str
    """Where that is known from."""


def kernel_profiles() -> list[str]:
    """List the kernel profiles that a policy may name, oldest first.

    Examples
    --------
    >>> kernel_profiles()
    ['4.14-android', '4.17', '5.0', '5.9', '5.18', '6.1', '6.6', '6.12', '6.13', '6.14']
    """
    return _kernel.profiles()


def kernel_gates() -> list[Gate]:
    """List what differs between kernels: every value of every gate with its version and source.

    Examples
    --------
    >>> [(row.value, row.since) for row in kernel_gates() if row.gate == "feec_margin"]
    [('6-percent-of-prev', '4.17'), ('6-percent-of-total', '5.4'), ('none', '6.0')]
    """
    return [Gate(*row) for row in _kernel.gates()]


class KernelProfile(_kernel.KernelProfile):
    """How a kernel of some version behaves.

    Parameters
    ----------
    name : str
        One of `kernel_profiles`; a leading ``v`` is allowed.

    Raises
    ------
    InputError
        An unknown profile, gate or value.

    Notes
    -----
    ``show(gate)`` and ``set(gate, value)`` read and override one gate, ``gates()`` lists them all.
    ``rate_limit_us(transition_delay_us=, transition_latency_ns=)`` is schedutil's default.
    Source: the rows of `kernel_gates`.

    Examples
    --------
    >>> profile = KernelProfile("5.18")
    >>> profile.show("fair_class"), profile.show("noninvariant_headroom")
    ('cfs', 'once')
    >>> [KernelProfile(name).rate_limit_us(transition_latency_ns=10_000) for name in ("5.18", "6.12")]
    [10000, 15]
    """

    __slots__ = ()
