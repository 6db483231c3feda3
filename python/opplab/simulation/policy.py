"""Policies: everything that can be chosen on a given machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import wraps
from typing import Any

from opplab.catalog import nearest
from opplab.errors import InputError

__all__ = ["Policy", "toml_value"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything that can be chosen on a given machine.

    The keys are those of an experiment's ``[[policy]]``; ``opplab list policy-keys`` has them with their values.

    Attributes
    ----------
    governor : str
        cpufreq governor.
    label : str
        Name in tables; the governor if it is empty.
    kernel : str
        Kernel profile, e.g. ``"5.18"`` (``opplab list kernels``).
    driver : str
        cpufreq driver; the machine's own if it is empty.
    tunables : dict of str to str or int
        Governor tunables by sysfs name (``opplab list tunables``).
    idle_governor : str
    eas : bool
        Whether energy-aware scheduling is switched on.
    energy_model : {"registered", "artificial", "none"}
    freq_max, invariance : str
        Frequency invariance on x86; the profile's choice if they are empty.
    gates : dict of str to str
        Gates of the kernel profile that are overridden (``opplab list gates``).
    proposals : tuple of str
        What was posted for the kernel and not merged, each ``"NAME"`` or ``"NAME:key=value,..."``
        (``opplab list proposals``).
    hz : {100, 250, 300, 1000}
        Timer frequency.
    pelt_half_life_ms : {8, 16, 32}
    watchdog_thresh_s : int
        ``kernel.watchdog_thresh``; 0 for no timers of the soft lockup detector.
    irq_time_accounting : bool
        CONFIG_IRQ_TIME_ACCOUNTING.
    sugov_cpus : tuple of int
        Where schedutil's kthreads may run; where the kernel puts them if it is empty.
    epp : str or int
        ``energy_performance_preference`` under HWP; the firmware's if it is empty.
    hwp_dynamic_boost : {"auto", "on", "off"}
        Whether intel_pstate raises HWP's lower limit after I/O.
    idle_boost : bool
        SLE 15's boost of tasks placed on an idle CPU.
    no_hwp, no_turbo : bool
        ``intel_pstate=no_hwp``; turbo and boost are not used.
    scaling_min_freq, scaling_max_freq : int or dict of str to int
        Limits of every cpufreq policy in kHz, or by cluster; the hardware's if they are 0.
    min_perf_pct, max_perf_pct : int
        intel_pstate's limits in percent of the highest P-state.
    nosmt : bool
        Of each core only the first thread is online.
    offline_cpus, isolcpus : tuple of int
        CPUs that are offline, and CPUs without scheduling domains, for tasks only whose affinity names them.
    nohz_full : tuple of int
        CPUs whose tick stops while one task runs.
    sched_util_clamp_min, sched_util_clamp_max, sched_util_clamp_min_rt_default : int
        The sysctls of these names, 0 to 1024.
    sched_features : tuple of str
        The scheduler's features in debugfs that are not as the kernel has them, such as ``NO_UTIL_EST``.
    changes : tuple of dict
        What is changed while the run goes on: ``at_ms`` from its start, and the keys that change then, such as
        ``scaling_max_freq`` or ``governor``.
    variation : {"none", "rt-app", "noisy-host"}
        How programs vary from run to run, drawn from the seed: their activations' lengths, when tasks start, how late
        timers may be. Benchmark models vary by themselves.
    no_overutilized, reversed_energy_model : bool
        Test switches: the overutilised state is never set; costs of the energy model are reversed.
    placement : {"kernel", "random"}
        Test switch: how tasks are placed on wake-up.

    Raises
    ------
    InputError
        If there is no such key, governor, tunable or other name; says the nearest one.

    Examples
    --------
    >>> import opplab
    >>> opplab.Policy(kernel="5.18", eas=False).governor
    'schedutil'
    """

    label: str = ""
    kernel: str = "6.12.117"
    driver: str = ""
    governor: str = "schedutil"
    tunables: Mapping[str, str | int] = field(default_factory=dict)
    idle_governor: str = "menu"
    eas: bool = True
    energy_model: str = "registered"
    freq_max: str = ""
    invariance: str = ""
    gates: Mapping[str, str] = field(default_factory=dict)
    proposals: tuple[str, ...] = ()
    hz: int = 250
    pelt_half_life_ms: int = 32
    watchdog_thresh_s: int = 10
    irq_time_accounting: bool = False
    sugov_cpus: tuple[int, ...] = ()
    epp: str | int = ""
    hwp_dynamic_boost: str = "auto"
    idle_boost: bool = False
    no_hwp: bool = False
    no_turbo: bool = False
    scaling_min_freq: int | Mapping[str, int] = 0
    scaling_max_freq: int | Mapping[str, int] = 0
    min_perf_pct: int = 0
    max_perf_pct: int = 100
    nosmt: bool = False
    offline_cpus: tuple[int, ...] = ()
    isolcpus: tuple[int, ...] = ()
    nohz_full: tuple[int, ...] = ()
    sched_util_clamp_min: int = 1024
    sched_util_clamp_max: int = 1024
    sched_util_clamp_min_rt_default: int = 1024
    sched_features: tuple[str, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = ()
    variation: str = "rt-app"
    no_overutilized: bool = False
    reversed_energy_model: bool = False
    placement: str = "kernel"

    def _toml(self) -> str:
        """Give it as TOML with the keys of an experiment's ``[[policy]]``."""
        keys = asdict(self) | {"label": self.label or self.governor}
        return "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items() if value not in ("", (), {}))


def toml_value(value: Any) -> str:
    """Give a value as TOML writes it."""
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(str(key))} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def _refuse_unknown_keys(init: Callable[..., None]) -> Callable[..., None]:
    """Make a dataclass's constructor refuse keys that it does not have, and values that no file could have."""

    @wraps(init)
    def checked(self: Policy, **keys: Any) -> None:
        known = [one.name for one in fields(Policy)]
        for key in keys:
            if key not in known:
                raise InputError(f"a policy has no key `{key}`{nearest(key, known)}; the keys: {', '.join(known)}")
        init(self, **keys)
        _refuse_unknown_values(self)

    return checked


def _refuse_unknown_values(policy: Policy) -> None:
    """Refuse values that no file could have, with the nearest: what does not fit a machine shows when it runs."""
    from opplab import _opplab
    from opplab.errors import FormatError

    try:
        _opplab.check_policy(policy._toml())
    except FormatError as error:
        # The policy was not read from a file: a place in it would mislead.
        raise InputError(str(error).split(": ", 1)[1]) from None


setattr(Policy, "__init__", _refuse_unknown_keys(Policy.__init__))  # noqa: B010 - a type checker sees the dataclass's
