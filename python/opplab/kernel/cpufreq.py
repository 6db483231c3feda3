"""From utilisation to a frequency: tables, schedutil, boosts, HWP's requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from opplab.errors import InputError
from opplab.kernel.native import native as _kernel


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
    if capacity < 1:
        raise InputError(f"a capacity of {capacity} is less than 1")
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
        kernel: str = "6.12.117",
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
            Whether the tick stopped in idle since its last report; a CPU of which it did not is not slowed down.
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

    def set_limits(self, min_khz: int, max_khz: int) -> int | None:
        """Take new limits of the policy (``scaling_min_freq``, ``scaling_max_freq``).

        Returns
        -------
        int or None
            The frequency that is set at once; None where it stays, or where the next report brings it (fast switch).

        Raises
        ------
        InputError
            If the lower limit is above the upper one.

        Notes
        -----
        Source: kernel/sched/cpufreq_schedutil.c:sugov_limits(), v6.12.

        Examples
        --------
        >>> governor = Schedutil([400_000, 800_000, 1_600_000], rate_limit_us=1_000)
        >>> governor.update(5_000_000, 900).next_khz, governor.set_limits(400_000, 800_000)
        (1600000, None)
        >>> governor.update(5_100_000, 900).request
        ('fast-switch', 800000, 0)
        """
        if min_khz > max_khz:
            raise InputError(f"a lower limit of {min_khz} kHz is above the upper one, {max_khz} kHz")
        return super().set_limits(min_khz, max_khz)


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
