"""f_max and CPPC: the reference of frequency invariance, and the artificial energy model."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

from opplab.errors import InputError
from opplab.kernel.energy import EmPerfState
from opplab.kernel.native import native as _kernel


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
        ``max_P``, ``mid``, ``max_boost``, ``turbo-N-cores``, ``turbo-all-cores``, ``rapl``, ``recent`` or ``search``;
        for the last three it is where the estimate starts.
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


def freq_max_of(kernel: str, vendor: str, *, hybrid: bool = False, smt: bool = False) -> str:
    """Give whose f_max a CPU's utilisation is measured against.

    Parameters
    ----------
    kernel : str
        A kernel profile.
    vendor : str
        The processor's maker as /proc/cpuinfo spells it; any other word is arm64.
    hybrid, smt : bool
        Whether cores differ, and whether cores have threads.

    Returns
    -------
    {"boot-cpu", "each-cpu"}

    Notes
    -----
    Source: arch/x86/kernel/cpu/aperfmperf.c:arch_set_cpu_capacity(), arch/arm64/kernel/topology.c, v6.12.

    Examples
    --------
    >>> [freq_max_of(kernel, "GenuineIntel", hybrid=True) for kernel in ("6.6", "6.12")]
    ['boot-cpu', 'each-cpu']
    """
    return _kernel.freq_max_of(kernel, vendor, hybrid, smt)


def intel_max_freq_ratio(model: str = "other", **msrs: int | None) -> int | None:
    """Give the max frequency ratio that the kernel takes from an Intel CPU's registers, in 1/1024.

    Parameters
    ----------
    model : {"other", "knl", "skx", "glm"}
        Form of the CPU's turbo levels.
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
    """CPPC capabilities of a CPU, on its abstract scale.

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
    >>> squeeze_efficiency_classes([7, 256])
    Traceback (most recent call last):
    ...
    opplab.errors.InputError: an efficiency class is a whole number from 0 to 255, not 256
    """
    for one in raw:
        if isinstance(one, bool) or not isinstance(one, Integral) or not 0 <= one <= 255:
            raise InputError(f"an efficiency class is a whole number from 0 to 255, not {one!r}")
    return _kernel.squeeze_efficiency_classes(bytes(list(raw)))


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
