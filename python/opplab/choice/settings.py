"""Settings to choose between: their grid, their names, and the commands that set them on a device."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from opplab import _opplab
from opplab.catalog import nearest
from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.files import plain
from opplab.sweep.drivers import (
    MODE_OF,
    driver_names,
    driver_under,
    drivers_of,
    has_dynamic_boost,
    has_epp,
    numbered_epp,
    refused_epp,
)
from opplab.sweep.variants import Variant, labels_apart

CPU = "/sys/devices/system/cpu"
CPUFREQ = f"{CPU}/cpufreq"

# Keys of a policy that a choice may be about, beside the governor's tunables, in the order of names.
KEYS = ("governor", "idle_governor", "energy_model", "eas", "freq_max", "epp", "no_turbo", "kernel", "driver")

_TABLES = ("gates", "scaling_max_freq", "scaling_min_freq")
"""Keys of a policy that are or may be tables, of which a setting has the items."""


@dataclass(frozen=True)
class Setting:
    """One setting: keys of a policy, and tunables of its governor."""

    keys: tuple[tuple[str, Any], ...]
    tunables: tuple[tuple[str, str], ...] = ()
    name: str = ""
    """What it is called; by default the keys in which settings differ."""
    origin: str = ""
    """The file of power profiles that it is of."""

    @classmethod
    def of(cls, variant: Variant) -> Setting:
        """Give the setting of a variant."""
        keys = {
            key: tuple(value.items()) if isinstance(value, Mapping) and key in _TABLES else value
            for key, value in variant.keys.items()
        }
        tunables = tuple((name, str(value)) for name, value in dict(keys.pop("tunables", {})).items())
        return cls(tuple(keys.items()), tunables, variant.label, variant.origin)

    def label(self, varied: Iterable[str]) -> str:
        """Name it by the keys in which settings differ, and its tunables."""
        if self.name:
            return self.name
        given = dict(self.keys)
        named = ("governor", "idle_governor", "kernel", "driver")
        words = [
            str(given[key])
            if key in named or (isinstance(given[key], str) and key in KEYS and key != "epp")
            # Keys that choices are seldom about are named.
            else f"{key}={str(given[key]).lower()}"
            for key in (*KEYS, *(key for key in given if key not in KEYS))
            if key in given and key in varied
        ]
        words += [f"{name}={value}" for name, value in self.tunables]
        return " ".join(words) or str(given.get("governor", "as it is"))

    def is_in(self, settings: Iterable[Setting]) -> bool:
        """Whether one of some settings sets the same, whatever it is called."""
        return any(dict(self.keys) == dict(one.keys) and self.tunables == one.tunables for one in settings)

    def applied(self, policy: Mapping[str, Any], label: str) -> dict[str, Any]:
        """Give a case's policy with this setting."""
        keys = {key: dict(value) if key in _TABLES and isinstance(value, tuple) else value for key, value in self.keys}
        if "gates" in keys:
            keys["gates"] = {**policy.get("gates", {}), **keys["gates"]}
        own = {} if "governor" in keys and keys["governor"] != policy.get("governor") else policy.get("tunables", {})
        return {**policy, **keys, "tunables": {**own, **dict(self.tunables)}, "label": label}


def labels_of(settings: Sequence[Setting]) -> list[str]:
    """Name settings by what they differ in, each with a name of its own.

    Raises
    ------
    InputError
        If two settings are the same.

    Examples
    --------
    >>> labels_of(grid(["schedutil", "performance"], hz=[250, 1000]))
    ['schedutil hz=250', 'schedutil hz=1000', 'performance hz=250', 'performance hz=1000']
    """
    given = [dict(one.keys) for one in settings]
    keys = dict.fromkeys(key for one in given for key in one)
    varied = {key for key in keys if any(one.get(key, ...) != given[0].get(key, ...) for one in given)}
    labels = labels_apart([one.label(varied or {"governor"}) for one in settings], [one.origin for one in settings])
    for number, label in enumerate(labels):
        if label in labels[:number]:
            if settings[number] == settings[labels.index(label)]:
                raise InputError(f"the setting `{label}` is given twice")
            # One sets a key that another leaves to the policy.
            labels[number] = f"{label} ({number + 1})"
    return labels


def driver_of(setting: Setting, machine: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """Give the cpufreq driver under which a setting runs, as the engine takes it."""
    return driver_under(machine, {**policy, **dict(setting.keys)})


def with_drivers(settings: Sequence[Setting], machine: Mapping[str, Any], policy: Mapping[str, Any]) -> list[Setting]:
    """Give settings that name their drivers where these differ: of two modes each has governors of its own."""
    drivers = [driver_of(setting, machine, policy) for setting in settings]
    if len(set(drivers)) < 2:
        return list(settings)
    out = []
    for setting, driver in zip(settings, drivers, strict=True):
        keys = {**dict(setting.keys), "driver": driver}
        name = f"{setting.name} ({driver})" if setting.name and driver not in setting.name else setting.name
        out.append(replace(setting, keys=tuple(keys.items()), name=name))
    return out


def listed(name: str, values: Any) -> Sequence[Any]:
    """Give the values of an option that takes several: a text or a number is one.

    Examples
    --------
    >>> listed("hz", [250, 1000]), listed("hz", 250), listed("kernel", "6.6")
    ((250, 1000), (250,), ('6.6',))
    """
    values = plain(values)
    if isinstance(values, str | int | float):
        return (values,)
    if not isinstance(values, Iterable) or isinstance(values, Mapping):
        raise InputError(f"`{name}` takes a list of values, not {values!r}")
    return tuple(map(plain, values))


def texts(name: str, values: Any) -> Sequence[str]:
    """Give the texts of an option that takes several; one is one."""
    found = listed(name, values)
    for one in found:
        if not isinstance(one, str):
            raise InputError(f"`{name}` takes texts, not {one!r}")
    return found


def has_tunable(governor: str, tunable: str) -> bool:
    """Report whether a governor has a tunable."""
    return any(row["governor"] == governor and row["name"] == tunable for row in _opplab.governor_tunables())


def grid(
    governors: Sequence[str],
    tunables: Mapping[str, Sequence[str | int]] | None = None,
    **keys: Sequence[Any],
) -> list[Setting]:
    """Give all combinations; a tunable counts for the governors that have it.

    Parameters
    ----------
    governors : sequence of str
    tunables : mapping of str to sequence, optional
        Values of each tunable.
    **keys : sequence
        Values of other keys of a policy (``idle_governor``, ``epp``, ...).

    Raises
    ------
    InputError
        If none of the governors has a tunable.

    Examples
    --------
    >>> both = grid(["schedutil", "performance"], {"rate_limit_us": [500, 2000]})
    >>> [one.label({"governor"}) for one in both]
    ['schedutil rate_limit_us=500', 'schedutil rate_limit_us=2000', 'performance']
    """
    tunables = tunables or {}
    for name in tunables:
        if not any(has_tunable(governor, name) for governor in governors):
            known = [row["name"] for row in _opplab.governor_tunables() if row["governor"] in governors]
            raise InputError(f"none of {', '.join(governors)} has a tunable `{name}`{nearest(name, known)}")
    axes = {"governor": list(governors), **{name: list(values) for name, values in keys.items() if values}}
    found: dict[Setting, None] = {}
    for values in itertools.product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        own = {name: values for name, values in tunables.items() if has_tunable(chosen["governor"], name)}
        for point in itertools.product(*own.values()):
            pairs = tuple((name, str(value)) for name, value in zip(own, point, strict=True))
            found.setdefault(Setting(tuple(chosen.items()), pairs))
    return list(found)


@dataclass(frozen=True)
class Write:
    """A setting of a running kernel: a value, and the files that take it."""

    key: str
    """Of the policy."""
    value: str
    files: tuple[str, ...]
    """Patterns of paths; more than one where kernels or drivers have it at different places."""

    @property
    def command(self) -> str:
        """The shell command."""
        folders = tuple(file.rpartition("/")[0] for file in self.files)
        name = self.files[0].rpartition("/")[2]
        if len(folders) > 1:
            return f"for d in {' '.join(folders)}; do [ ! -e $d/{name} ] || echo {self.value} > $d/{name}; done"
        if "*" in folders[0]:
            return f"for p in {folders[0]}; do echo {self.value} > $p/{name}; done"
        return f"echo {self.value} > {self.files[0]}"


@dataclass(frozen=True)
class Unset:
    """A key of a policy that no file of a running kernel sets, in words."""

    key: str
    words: str


def commands_of(setting: Setting, machine: Mapping[str, Any], policy: Mapping[str, Any] | None = None) -> list[str]:
    """Give the shell commands that set it on a device; what no file of a running kernel sets is a comment.

    Parameters
    ----------
    setting : Setting
    machine : mapping
        As a case's JSON has it.
    policy : mapping, optional
        Keys that all settings share.
    """
    written = writes_of(setting, machine, policy)
    return [one.command if isinstance(one, Write) else f"# {one.words}" for one in written]


def writes_of(
    setting: Setting, machine: Mapping[str, Any], policy: Mapping[str, Any] | None = None
) -> list[Write | Unset]:
    """Give what sets it on a device, in order; see `commands_of`."""
    keys = dict(setting.keys)
    whole = {**(policy or {}), **keys}
    every = f"{CPUFREQ}/policy*"
    out: list[Write | Unset] = []

    def write(key: str, value: object, *files: str) -> None:
        out.append(Write(key, str(value), files))

    driver = driver_of(setting, machine, policy or {})
    folder, mode = MODE_OF.get(driver, ("", ""))
    names = driver_names(machine)
    if folder and names and MODE_OF.get(names[0], ("", ""))[0] != folder:
        # Beside another driver it does not register (amd-pstate.c:amd_pstate_init(), v6.12).
        out.append(Unset("driver", f"on the kernel's command line: {folder}={mode}"))
    elif folder:
        # A change of the mode registers all policies anew, so that everything else is set after it.
        write("driver", mode, f"{CPU}/{folder}/status")
    if governor := keys.get("governor"):
        write("governor", governor, f"{every}/scaling_governor")
        for name, value in setting.tunables:
            write(name, value, f"{CPUFREQ}/{governor}/{name}", f"{every}/{governor}/{name}")
    if idle := keys.get("idle_governor"):
        write("idle_governor", idle, f"{CPU}/cpuidle/current_governor")
    states = keys.get("idle_disable", ())
    for name in states.split(",") if isinstance(states, str) else states:
        words = f"for each CPU: echo 1 > {CPU}/cpu*/cpuidle/stateN/disable, of the state whose file `name` has {name}"
        out.append(Unset("idle_disable", words))
    if "cpu_dma_latency_us" in keys:
        words = f"while a program has /dev/cpu_dma_latency open with {keys['cpu_dma_latency_us']} us in it"
        out.append(Unset("cpu_dma_latency_us", words))
    if (epp := keys.get("epp")) not in (None, ""):
        if not has_epp(driver, machine, keys):
            out.append(Unset("epp", f"{driver} has no preference on this machine: epp={epp} changes nothing"))
        elif refused := refused_epp(driver, whole) or numbered_epp(driver, whole):
            out.append(Unset("epp", refused))
        else:
            write("epp", epp, f"{every}/energy_performance_preference")
    if "eas" in keys:
        write("eas", int(bool(keys["eas"])), "/proc/sys/kernel/sched_energy_aware")
    if "no_turbo" in keys:
        intel = any(str(driver.get("name", "")).startswith("intel") for driver in drivers_of(machine))
        off = int(bool(keys["no_turbo"]))
        if intel:
            write("no_turbo", off, f"{CPU}/intel_pstate/no_turbo")
        else:
            write("no_turbo", 1 - off, f"{CPUFREQ}/boost")
    for name in ("scaling_max_freq", "scaling_min_freq"):
        out += _limit(name, keys.get(name), machine)
    for name in ("max_perf_pct", "min_perf_pct"):
        if name in keys:
            write(name, keys[name], f"{CPU}/intel_pstate/{name}")
    if (boost := keys.get("hwp_dynamic_boost", "auto")) != "auto":
        if has_dynamic_boost(driver, machine, keys):
            write("hwp_dynamic_boost", int(boost == "on"), f"{CPU}/intel_pstate/hwp_dynamic_boost")
        else:
            words = f"{driver} has no hwp_dynamic_boost on this machine: {boost} changes nothing"
            out.append(Unset("hwp_dynamic_boost", words))
    if "watchdog_thresh_s" in keys:
        write("watchdog_thresh_s", keys["watchdog_thresh_s"], "/proc/sys/kernel/watchdog_thresh")
    if "nosmt" in keys:
        write("nosmt", "off" if keys["nosmt"] else "on", f"{CPU}/smt/control")
    for cpu in cpus_in(keys.get("offline_cpus", ())):
        write("offline_cpus", 0, f"{CPU}/cpu{cpu}/online")
    # The lower limit first: it may not be above the upper one.
    for name in ("sched_util_clamp_min", "sched_util_clamp_max", "sched_util_clamp_min_rt_default"):
        if name in keys:
            write(name, keys[name], f"/proc/sys/kernel/{name}")
    for name in keys.get("sched_features", ()):
        write("sched_features", name, "/sys/kernel/debug/sched/features")
    for change in keys.get("changes", ()):
        later = Setting.of(Variant("", {key: value for key, value in change.items() if key != "at_ms"}))
        for one in writes_of(later, machine, whole):
            # The driver stays what it was.
            if one.key != "driver":
                words = one.command if isinstance(one, Write) else one.words
                out.append(Unset("changes", f"{change['at_ms']} ms into the run: {words}"))
    for name in ("isolcpus", "nohz_full"):
        if cpus := keys.get(name):
            out.append(Unset(name, f"on the kernel's command line: {name}={','.join(map(str, cpus_in(cpus)))}"))
    notes = {
        "energy_model": "firmware and cpufreq driver determine the energy model: {}",
        "freq_max": "f_max of frequency invariance is chosen by the kernel's code: {}",
        "kernel": "needs a kernel as {}",
        "hz": "needs a kernel that is built with CONFIG_HZ={}",
        "driver": "the cpufreq driver is chosen at boot: {}",
    }
    if folder:
        del notes["driver"]
    out += [Unset(key, words.format(keys[key])) for key, words in notes.items() if keys.get(key)]
    for proposal in keys.get("proposals", ()):
        name = proposal.partition(":")[0]
        out.append(Unset("proposals", f"needs a kernel with the patch {proposal} (opplab list proposals {name})"))
    said = {*SETTABLE, *notes, *(one.key for one in out), "driver", "label", "name", "proposals"}
    return out + [
        Unset(key, f"no file of a running kernel sets {key}={_in_words(value)}")
        for key, value in keys.items()
        if key not in said and value not in ((), {}, None)
    ]


def _in_words(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(str(one[1]) if isinstance(one, tuple) and len(one) == 2 else str(one) for one in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


SETTABLE = (
    "governor",
    "tunables",
    "idle_governor",
    "epp",
    "eas",
    "no_turbo",
    "scaling_max_freq",
    "scaling_min_freq",
    "max_perf_pct",
    "min_perf_pct",
    "hwp_dynamic_boost",
    "watchdog_thresh_s",
    "nosmt",
    "offline_cpus",
    "sched_util_clamp_min",
    "sched_util_clamp_max",
    "sched_util_clamp_min_rt_default",
    "sched_features",
    "driver",
)
"""Keys of a policy that `writes_of` has a file for."""


def _limit(name: str, value: Any, machine: Mapping[str, Any]) -> list[Write | Unset]:
    """Give what sets a limit: in all policies, or in those of a cluster."""
    if not value:
        return []
    if isinstance(value, int):
        return [Write(name, str(value), (f"{CPUFREQ}/policy*/{name}",))]
    limits = dict(value)
    found: list[Write | Unset] = []
    for cluster in machine.get("cluster", []):
        khz = limits.get(cluster["name"], limits.get("all"))
        if khz:
            words = f"in the policies of CPUs {cluster['cpus']}: echo {khz} > {CPUFREQ}/policyN/{name}"
            found.append(Unset(name, words))
    return found
