"""Linux's frequency, utilisation and energy decisions from Python: the functions of crate `kernel`.

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

from opplab.kernel.cpufreq import (
    EffectiveUtil,
    FreqTable,
    HwpBoost,
    IowaitBoost,
    Schedutil,
    SugovDecision,
    effective_cpu_util,
    hwp_register,
    map_util_freq,
    map_util_perf,
    schedutil_cpu_util,
)
from opplab.kernel.cpuidle import IdleGovernor, Menu, Teo
from opplab.kernel.energy import EasCandidate, EasEnergy, EmPerfState, EnergyModel, Placement, find_energy_efficient_cpu
from opplab.kernel.fmax import (
    ArtificialEm,
    CppcPerfCaps,
    FreqMaxRatio,
    amd_max_freq_ratio,
    artificial_em,
    cppc_scale_freq,
    freq_max_of,
    freq_max_ratio,
    intel_max_freq_ratio,
    scale_freq_tick,
    squeeze_efficiency_classes,
)
from opplab.kernel.pelt import (
    ON_RQ,
    RUNNING,
    ClockPelt,
    PeltBatch,
    PeltSignals,
    SchedAvg,
    UtilEst,
    decay_load,
    pelt,
    plot_signals,
    ramp_up_periods,
)
from opplab.kernel.profiles import (
    Gate,
    GateChange,
    KernelProfile,
    kernel_diff,
    kernel_gates,
    kernel_note,
    kernel_profiles,
)

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
    "GateChange",
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
    "freq_max_of",
    "freq_max_ratio",
    "hwp_register",
    "intel_max_freq_ratio",
    "kernel_diff",
    "kernel_gates",
    "kernel_note",
    "kernel_profiles",
    "map_util_freq",
    "map_util_perf",
    "pelt",
    "plot_signals",
    "ramp_up_periods",
    "scale_freq_tick",
    "schedutil_cpu_util",
    "squeeze_efficiency_classes",
]
