"""Power profiles that distributions ship, as variants of a policy: tuned, power-profiles-daemon, TLP, auto-cpufreq.

A profile sets what it names and nothing else. What a simulation has no key for (disks, radios, graphics) is named in a
note. Settings that exclude each other, or that the driver refuses, are named. Sources: the manual pages of `tuned.conf`
and `tlp.conf`, the README files of power-profiles-daemon and auto-cpufreq.
"""

from __future__ import annotations

import configparser
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from opplab import _opplab
from opplab.catalog import nearest
from opplab.errors import InputError
from opplab.files import read_text
from opplab.simulation.policy import Policy
from opplab.sweep.drivers import (
    ACTIVE,
    MODE_OF,
    MODES,
    NOTHING_KNOWN,
    OWN_GOVERNORS,
    MachineFacts,
    driver_among,
    numbered_epp,
    refused_epp,
    release,
)

DAEMON = "power-profiles-daemon"
"""The word for the three profiles of the daemon, which has them in its program."""

_DAEMON = {
    "power-saver": {"governor": "powersave", "epp": "power"},
    "balanced": {"governor": "powersave", "epp": "balance_performance"},
    "performance": {"governor": "performance", "epp": "performance"},
}
"""On mains; on battery the preference of balanced is balance_power."""
_AMD_BOOST_SINCE = (6, 11)
"""From when on amd-pstate has the file `boost` of each policy (amd-pstate.c:amd_pstate_set_boost(), v6.12): the daemon
writes 0 as power-saver and otherwise 1 (0.22, ppd-driver-amd-pstate.c:profile_to_cpb_pref())."""
_SUFFIXES = (".conf", ".ini")
HINTED = (*ACTIVE, "intel_cpufreq")
"""Drivers that have an energy performance preference, where the processor has one."""
_AT_BOOT = {
    "intel_pstate": ("disable", "force", "hwp_only", "no_cas", "no_hwp", "per_cpu_perf_limits", "support_acpi_ppc"),
    "amd_pstate": ("disable",),
}
"""What the parameters take beside modes (Documentation/admin-guide/kernel-parameters.txt, v6.12)."""
_PASSIVE_SINCE = (5, 8)
"""Without HWP intel_pstate starts in its passive mode (intel_pstate.c:intel_pstate_init())."""


@dataclass
class PowerProfile:
    """One profile."""

    name: str
    keys: dict[str, Any] = field(default_factory=dict)
    """Of a policy."""
    notes: list[str] = field(default_factory=list)
    """What was left out or contradicts itself, with its place."""


@dataclass(frozen=True)
class _Where:
    """Where profiles are set: on which machine, and the policy's keys before."""

    on: MachineFacts
    base: Mapping[str, Any]


def is_power_profile(text: str) -> bool:
    """Whether the text of a variant names a file of profiles, and not keys."""
    return text == DAEMON or ("=" not in text and Path(text).suffix in _SUFFIXES)


def power_profiles(
    text: str,
    on: MachineFacts = NOTHING_KNOWN,
    *,
    base: Mapping[str, Any] | None = None,
) -> list[PowerProfile]:
    """Read the profiles of a file, or those of power-profiles-daemon.

    Parameters
    ----------
    text : str
        ``tuned.conf``, tuned's ``ppd.conf``, ``tlp.conf``, ``auto-cpufreq.conf``, the daemon's ``state.ini``; or
        ``power-profiles-daemon``.
    on : MachineFacts
        What profiles ask of the machine.
    base : mapping, optional
        Keys of the policy that the profiles change; its `driver` holds where a profile names none.

    Raises
    ------
    InputError
        The file has no setting of a CPU, or a value that nothing takes; with file and line.

    Examples
    --------
    >>> intel = MachineFacts(["intel_pstate"])
    >>> [(one.name, one.keys["epp"]) for one in power_profiles("power-profiles-daemon", intel)]
    [('power-saver', 'power'), ('balanced', 'balance_performance'), ('performance', 'performance')]
    """
    where = _Where(on, base or {})
    if text == DAEMON:
        return [_of_daemon(name, where) for name in _DAEMON]
    path = Path(text)
    lines = read_text(path, "a power profile").splitlines()
    # Keys that are commented out have TLP's defaults.
    is_tlp = any(re.match(r"\s*#?\s*(TLP_[A-Z_]+|[A-Z_]+_ON_(AC|BAT|SAV))\s*\+?=", line) for line in lines)
    found = _tlp(path, lines, where) if is_tlp else _ini(path, lines, where)
    kept = [one for one in found if one.keys]
    if not kept and is_tlp:
        found[0].notes.append(
            f"{path}: TLP sets nothing that is simulated here: the kernel's defaults stay, as the baseline has them"
        )
        return found
    if not kept:
        why = "".join(f"; {note}" for one in found for note in one.notes)
        raise InputError(f"{path}: no setting of CPU frequency, limits or the scheduler that this machine has{why}")
    for one in found:
        if not one.keys:
            kept[0].notes += [*one.notes, f"{one.name}: no setting that this machine has: left out"]
    return kept


class _Reader:
    """Collects keys of one profile; `place` is where the setting that is read stands."""

    def __init__(self, name: str, where: _Where) -> None:
        self.profile = PowerProfile(name)
        self.where = where
        self.others: list[str] = []
        self._places: dict[str, str] = {}
        self._per_cpu_limits = False

    @property
    def driver(self) -> str:
        """The driver under which the profile runs."""
        return driver_among(self.where.on.drivers, {**self.where.base, **self.profile.keys})

    @property
    def _driver_at_first(self) -> str:
        """The driver before a governor is chosen."""
        named = self.profile.keys.get("driver") or self.where.base.get("driver")
        return str(named or next(iter(self.where.on.drivers), ""))

    def note(self, words: str) -> None:
        self.profile.notes.append(words)

    def put(self, key: str, value: Any, place: str) -> None:
        old = self.profile.keys.get(key)
        # A file that includes another one is there to replace its settings.
        if old is not None and old != value and _file_of(place) == _file_of(self._places[key]):
            self.note(f"{place}: {key} is {_word(value)} here and {_word(old)} before; the later holds")
        self.profile.keys[key], self._places[key] = value, place

    def mode(self, value: str, place: str, family: str = "") -> None:
        """Take a mode while the kernel runs, which the driver in use has; `family`: the folder of the file."""
        value = value.strip()
        every = [*dict.fromkeys(mode for modes in MODES.values() for mode in modes), "off"]
        if value not in every:
            raise InputError(f"{place}: no driver has a mode `{value}`{nearest(value, every)}")
        driver = self._driver_at_first
        own = _family_of(driver)
        if not own or family not in ("", own):
            self.note(f"{place}: {driver or 'the driver'} has no {family + ' ' if family else ''}modes: ignored")
        elif value == "off":
            self.note(f"{place}: a machine without a cpufreq driver is not simulated: ignored")
        else:
            self._mode_of(own, value, place)

    def boot(self, value: str, place: str, *, family: str) -> None:
        """Take `intel_pstate=` or `amd_pstate=` of the kernel's command line."""
        every = [*MODES[family], *_AT_BOOT[family]]
        if value not in every:
            raise InputError(f"{place}: `{value}` is no value of {family}={nearest(value, every)}")
        drivers = self.where.on.drivers
        if family not in map(_family_of, drivers):
            self.note(f"{place}: {family} does not drive this machine: {family}={value} changes nothing here")
        elif value in MODES[family]:
            self._mode_of(family, value, place)
        elif value == "disable" or (value == "hwp_only" and not self.where.on.has_hwp):
            other = next((name for name in drivers if _family_of(name) != family), "")
            if other:
                self.put("driver", other, place)
            else:
                self.note(f"{place}: the machine's file has no driver but {family}: {family}={value} is ignored")
        elif value == "no_hwp":
            self._without_hwp(place)
        elif value == "per_cpu_perf_limits":
            self._per_cpu_limits = True
        elif value in ("force", "hwp_only"):
            self.note(f"{place}: {family} drives this machine: {family}={value} changes nothing here")
        else:
            self.others.append(f"{family}={value}")

    def _mode_of(self, family: str, value: str, place: str) -> None:
        driver = MODES[family].get(value)
        if driver is None:
            self.note(f"{place}: {family} has no mode {value}: ignored")
        elif driver in self.where.on.drivers:
            self.put("driver", driver, place)
        else:
            self.note(f"{place}: the machine has no {driver}: ignored")

    def _without_hwp(self, place: str) -> None:
        if not self.where.on.has_hwp:
            self.note(f"{place}: the machine has no HWP: intel_pstate=no_hwp changes nothing here")
            return
        self.put("no_hwp", True, place)
        kernel = release(self.where.base.get("kernel", ""))
        early = kernel is not None and kernel < _PASSIVE_SINCE
        passive = MODES["intel_pstate"]["passive"]
        named = "driver" in {**self.where.base, **self.profile.keys}
        if passive in self.where.on.drivers and not early and not named:
            self.put("driver", passive, place)
            self.note(f"{place}: without HWP intel_pstate starts in its passive mode, {passive}")

    def governor(self, value: str, place: str) -> None:
        """Take the first governor of a list that the driver has, as tuned does.

        Where the driver at boot has none of them, those count of the one under which the policy runs.
        """
        every = [name for name, _ in _opplab.names("governors")]
        names = [name.strip() for name in value.split("|")]
        for name in names:
            if name not in every:
                raise InputError(f"{place}: no governor `{name}`{nearest(name, every)}")
        for driver in (self._driver_at_first, self.driver):
            has = OWN_GOVERNORS if driver in ACTIVE else every
            for name in names:
                if name in has:
                    self.put("governor", name, place)
                    return
        self.note(f"{place}: {self.driver} has no governor {' or '.join(names)}: ignored")

    def epp(self, value: str, place: str) -> None:
        first = value.partition("|")[0].strip()
        if self.driver and self.driver not in HINTED:
            self.note(f"{place}: {self.driver} has no energy performance preference: ignored")
        elif first not in ("", "default"):
            self.put("epp", _number(first, place) if first.isdecimal() else first, place)

    def auto_turbo(self, value: str, place: str) -> None:
        """Take auto-cpufreq's words."""
        if value not in ("always", "auto", "never"):
            raise InputError(f"{place}: `{value}` is no turbo{nearest(value, ['always', 'auto', 'never'])}")
        if value == "auto":
            self.note(f"{place}: turbo by load and temperature is not modelled: on")
        self.put("no_turbo", value == "never", place)

    def turbo(self, on: str, place: str) -> None:
        """Take a word for turbo, which is written to the file that the driver has."""
        self.put("no_turbo", not _flag(on, place), place)

    def boost(self, value: str, place: str) -> None:
        """Take the file of cpufreq, which intel_pstate does not have in any mode."""
        if self.driver.startswith("intel"):
            self.note(f"{place}: {self.driver} has no boost, but no_turbo: ignored")
        else:
            self.turbo(value, place)

    def no_turbo(self, value: str, place: str) -> None:
        """Take the file of intel_pstate."""
        if not self._is_not_intel("no_turbo", place):
            self.put("no_turbo", _flag(value, place), place)

    def latency(self, value: str, place: str) -> None:
        """Take the first of tuned's alternatives, us or an idle state, that there is (_parse_latency())."""
        for one in map(str.strip, value.split("|")):
            if one.lower() == "none":
                return
            state = re.fullmatch(r"cstate\.(id|name)(_no_zero)?:(.+)", one)
            if state is None:
                self.put("cpu_dma_latency_us", _number(one, place), place)
                return
            if not self.where.on.idle:
                self.note(f"{place}: force_latency {value} is of idle states, which are not known: ignored")
                return
            us = {str(at) if state[1] == "id" else name: us for at, (name, us) in enumerate(self.where.on.idle)}.get(
                state[3]
            )
            if us is not None and not (state[2] and us == 0):
                self.put("cpu_dma_latency_us", us, place)
                return
        self.note(f"{place}: the machine has no idle state of force_latency {value}: ignored")

    def max_cstate(self, value: str, place: str) -> None:
        """Leave so many states beside POLL (intel_idle.c:intel_idle_max_cstate_reached(), v6.12); 0: another driver."""
        most = int(value) if value.isdecimal() and self.driver.startswith("intel") else 0
        deeper = tuple(name for name, _ in self.where.on.idle[most + 1 :])
        if most and deeper:
            self.put("idle_disable", deeper, place)
        elif not most or not self.where.on.idle:
            self.others.append(f"intel_idle.max_cstate={value}")

    def cpus(self, value: str, place: str, *, key: str) -> None:
        """Take a list of CPUs of the command line; isolcpus has flags before it, of which `domain` is the default."""
        flags = [part for part in value.split(",") if not part[:1].isdigit()]
        if flags and "domain" not in flags:
            self.others.append(f"{key}={value}")
        else:
            self.put(key, ",".join(part for part in value.split(",") if part not in flags), place)

    def smt(self, value: str, place: str) -> None:
        if value.strip() in ("on", "off", "forceoff"):
            self.put("nosmt", value.strip() != "on", place)
        else:
            self.others.append(f"smt/control={value}")

    def flag(self, value: str, place: str, *, key: str) -> None:
        self.put(key, _flag(value, place), place)

    def count(self, value: str, place: str, *, key: str) -> None:
        self.put(key, _number(value, place), place)

    def plain(self, value: str, place: str, *, key: str) -> None:
        number = _number(value, place)
        if key.endswith("_pct") and self._is_not_intel(key, place):
            return
        if key.endswith("_pct") and self._per_cpu_limits:
            self.note(f"{place}: with intel_pstate=per_cpu_perf_limits there is no {key}: ignored")
            return
        # TLP and auto-cpufreq write 0 for the hardware's own limit.
        if number:
            self.put(key, number, place)

    def dynamic_boost(self, value: str, place: str) -> None:
        if not self._is_not_intel("hwp_dynamic_boost", place):
            self.put("hwp_dynamic_boost", "on" if _flag(value, place) else "off", place)

    def _is_not_intel(self, key: str, place: str) -> bool:
        """Whether the machine's driver lacks a file of intel_pstate, with a note."""
        if not self.driver or self.driver.startswith("intel"):
            return False
        self.note(f"{place}: {self.driver} has no {key}: ignored")
        return True

    def path(self, path: str, value: str, place: str) -> None:
        """Take a file of /sys or /proc/sys."""
        parts = path.rstrip("/").split("/")
        last = "/".join(parts[-2:])
        name = last if last in _FILES else parts[-1]
        self.take(_FILES.get(name), name, value, place)

    def take(self, known: _Setting | None, name: str, value: str, place: str) -> None:
        """Read a setting, or name what has no key in simulations."""
        if known is None:
            self.others.append(name)
        else:
            known.read(self, value, place)

    def done(self) -> PowerProfile:
        """Name what excludes itself, and give the profile."""
        keys = self.profile.keys
        name = self.profile.name
        on = {**self.where.base, **keys}
        if refused := refused_epp(self.driver, keys) or ("epp" in keys and numbered_epp(self.driver, on)):
            del keys["epp"]
            self.note(f"{name}: {refused}")
        for least, most in (("scaling_min_freq", "scaling_max_freq"), ("min_perf_pct", "max_perf_pct")):
            low, high = keys.get(least), keys.get(most)
            if low and high and low > high:
                raise InputError(f"{name}: {least} {low} is above {most} {high}")
        if keys.get("no_turbo") and keys.get("governor") == "performance":
            limits = [key for key in ("scaling_max_freq", "max_perf_pct") if {**self.where.base, **keys}.get(key)]
            lower = f", or at {' or '.join(limits)} where that is lower" if limits else ""
            self.note(f"{name}: turbo is off under the governor performance: the clock ends at the base clock{lower}")
        if self.others:
            names = ", ".join(dict.fromkeys(self.others))
            self.note(f"{name}: without a key in simulations: {names}")
        return self.profile


def _family_of(driver: str) -> str:
    return MODE_OF.get(driver, ("", ""))[0]


def _file_of(place: str) -> str:
    return place.rpartition(":")[0]


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_DIGITS_MAX = 20
"""Of whole numbers: as many as 64 bits have."""


def _number(value: str, place: str) -> int:
    if not value.strip().isdecimal() or len(value.strip()) > _DIGITS_MAX:
        raise InputError(f"{place}: `{value[:40]}` is no whole number of at most {_DIGITS_MAX} digits")
    return int(value)


def _flag(value: str, place: str) -> bool:
    if value.strip().lower() not in ("0", "1", "y", "n", "yes", "no", "true", "false"):
        raise InputError(f"{place}: `{value}` is neither 0 nor 1")
    return value.strip().lower() in ("1", "y", "yes", "true")


class _Setting(NamedTuple):
    """How a setting is read, the key of a policy that it becomes, and where it changes nothing."""

    read: Callable[[_Reader, str, str], None]
    key: str
    ignored: str = ""


_NOT_INTEL = "the driver is not Intel's"
_LIMITS = {
    **dict.fromkeys(("scaling_min_freq", "scaling_max_freq"), "the value is 0"),
    **dict.fromkeys(
        ("min_perf_pct", "max_perf_pct"), f"the value is 0; {_NOT_INTEL}; under intel_pstate=per_cpu_perf_limits"
    ),
}
"""Limits of the clock, and where they are ignored."""
_FILES: Mapping[str, _Setting] = {
    "scaling_governor": _Setting(_Reader.governor, "governor", "the driver has no such governor"),
    "energy_performance_preference": _Setting(
        _Reader.epp, "epp", "the driver has no preference, or refuses it under its own governor performance"
    ),
    "no_turbo": _Setting(_Reader.no_turbo, "no_turbo", _NOT_INTEL),
    "boost": _Setting(_Reader.boost, "no_turbo", "the driver is Intel's, whose file is no_turbo"),
    "hwp_dynamic_boost": _Setting(_Reader.dynamic_boost, "hwp_dynamic_boost", _NOT_INTEL),
    **{name: _Setting(partial(_Reader.plain, key=name), name, ignored) for name, ignored in _LIMITS.items()},
    **{
        f"{name}/status": _Setting(partial(_Reader.mode, family=name), "driver", "the machine has no such driver")
        for name in MODES
    },
    "smt/control": _Setting(_Reader.smt, "nosmt", "the value is neither on, off nor forceoff"),
    "sched_energy_aware": _Setting(partial(_Reader.flag, key="eas"), "eas"),
    **{
        name: _Setting(partial(_Reader.count, key=name), name)
        for name in ("sched_util_clamp_min", "sched_util_clamp_max", "sched_util_clamp_min_rt_default")
    },
    "watchdog_thresh": _Setting(partial(_Reader.count, key="watchdog_thresh_s"), "watchdog_thresh_s"),
}
"""Files of /sys and /proc/sys by their last part, or last two."""


def _of_daemon(name: str, where: _Where) -> PowerProfile:
    reader = _Reader(name, where)
    keys = _DAEMON[name]
    reader.put("governor", keys["governor"], DAEMON)
    if reader.driver and reader.driver not in ACTIVE:
        raise InputError(f"{DAEMON}: {reader.driver} has no energy performance preference, which its profiles set")
    reader.put("epp", keys["epp"], DAEMON)
    kernel = release(where.base.get("kernel", ""))
    if reader.driver == "amd-pstate-epp" and (kernel is None or kernel >= _AMD_BOOST_SINCE):
        reader.put("no_turbo", name == "power-saver", DAEMON)
    return reader.done()


def _tlp(path: Path, lines: Sequence[str], where: _Where) -> list[PowerProfile]:
    """Read TLP's profiles: on AC, on battery, and power-saver where the file names it, if in a comment."""
    values: dict[str, tuple[str, str]] = {}
    twice: list[str] = []
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)(\+?)=(.*)", text)
        if match is None:
            raise InputError(f"{path}:{number}: no NAME=VALUE: {text}")
        try:
            words = shlex.split(match[3], comments=True)
        except ValueError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        place = f"{path}:{number}"
        if match[2] and match[1] in values:
            words.insert(0, values[match[1]][0])
        elif match[1] in values:
            twice.append(
                f"{place}: {match[1]} is in line {values[match[1]][1].rpartition(':')[2]}, too; the later holds"
            )
        values[match[1]] = (" ".join(words), place)
    enabled, place = values.get("TLP_ENABLE", ("1", ""))
    if not _flag(enabled, place):
        return [PowerProfile("tlp", notes=[f"{place}: TLP_ENABLE={enabled}: TLP is off"])]
    defaults = {} if _flag(*values.get("TLP_DISABLE_DEFAULTS", ("0", ""))) else _TLP_EPP
    given = {
        suffix: {key.removesuffix(f"_ON_{suffix}"): one for key, one in values.items() if key.endswith(f"_ON_{suffix}")}
        for suffix in _TLP_EPP
    }
    # Where power-saver has no value, that on battery holds.
    given["SAV"] = {key: given["BAT"][key] for key in given["BAT"] if key != _EPP_OF_TLP or not defaults} | given["SAV"]
    has_saver = any(re.match(r"\s*#?\s*[A-Z_]+_ON_SAV\s*=", line) for line in lines)
    out = []
    for suffix, own in given.items():
        if suffix == "SAV" and not has_saver:
            continue
        reader = _Reader(f"tlp {suffix}", where)
        # The mode first: it decides which governors there are.
        for key in dict.fromkeys((*_TLP, *own)):
            text, place = own.get(key, ("", ""))
            if text or key not in _TLP:
                reader.take(_TLP.get(key), key, text, place)
        driver, keys = reader.driver, {**where.base, **reader.profile.keys, "epp": defaults.get(suffix, "")}
        has_epp = driver in HINTED and (where.on.has_hwp or not driver.startswith("intel"))
        if defaults and has_epp and _EPP_OF_TLP not in own and not refused_epp(driver, keys):
            reader.put("epp", keys["epp"], "")
            reader.note(f"{reader.profile.name}: {_EPP_OF_TLP} is not set: TLP's default, {keys['epp']}")
        # The hard lockup detector has no timer that a simulation has; the soft one keeps its own.
        if "NMI_WATCHDOG" in values:
            reader.others.append("NMI_WATCHDOG")
        out.append(reader.done())
    out[0].notes += twice
    return out


_EPP_OF_TLP = "CPU_ENERGY_PERF_POLICY"
_TLP_EPP = {"AC": "balance_performance", "BAT": "balance_power", "SAV": "power"}
"""TLP's profiles, and the one CPU setting for which it has defaults of its own (TLP 1.9, defaults.conf)."""

_TLP: Mapping[str, _Setting] = {
    "CPU_DRIVER_OPMODE": _Setting(_Reader.mode, "driver", "the machine has no such driver"),
    "CPU_SCALING_GOVERNOR": _FILES["scaling_governor"],
    _EPP_OF_TLP: _FILES["energy_performance_preference"],
    "CPU_SCALING_MIN_FREQ": _FILES["scaling_min_freq"],
    "CPU_SCALING_MAX_FREQ": _FILES["scaling_max_freq"],
    "CPU_MIN_PERF": _FILES["min_perf_pct"],
    "CPU_MAX_PERF": _FILES["max_perf_pct"],
    "CPU_BOOST": _Setting(_Reader.turbo, "no_turbo"),
    "CPU_HWP_DYN_BOOST": _FILES["hwp_dynamic_boost"],
}


def _ini(path: Path, lines: Sequence[str], where: _Where) -> list[PowerProfile]:
    twice: list[str] = []
    sections = _sections(path, lines, twice.append)
    if "State" in sections:
        name = sections["State"].get("Profile", ("", ""))[0]
        if name not in _DAEMON:
            raise InputError(f"{path}: no profile `{name}`{nearest(name, list(_DAEMON))}")
        return [_of_daemon(name, where)]
    if {"charger", "battery"} & set(sections) and "profiles" not in sections:
        named = [name for name in ("charger", "battery") if name in sections]
        found = [_auto_cpufreq(f"auto-cpufreq {name}", sections[name], where) for name in named]
    elif "profiles" in sections:
        files = sections["profiles"].items()
        found = [_tuned(name, _profile_file(path, value, place), where) for name, (value, place) in files]
    elif path.name == "tuned.conf" or {"main", "cpu", "sysctl", "sysfs"} & set(sections):
        return [_tuned(path.absolute().parent.name if path.name == "tuned.conf" else path.stem, path, where)]
    else:
        known = "tuned, TLP, auto-cpufreq or power-profiles-daemon"
        raise InputError(f"{path}: no power profile of {known}: its sections are {', '.join(sections) or 'none'}")
    if found:
        found[0].notes += twice
    return found


def _sections(
    path: Path, lines: Sequence[str], said: Callable[[str], None] = lambda _: None
) -> dict[str, dict[str, tuple[str, str]]]:
    """Read sections of NAME = VALUE, each value with its place; what stands twice in a section is reported."""
    parser = configparser.ConfigParser(
        interpolation=None, strict=False, inline_comment_prefixes=("#",), delimiters=("=",), allow_no_value=True
    )
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string("\n".join(lines))
    except configparser.Error as error:
        line = getattr(error, "lineno", None) or next(iter(getattr(error, "errors", ())), (1,))[0]
        raise InputError(f"{path}:{line}: {str(error).splitlines()[0]}") from None
    except AttributeError:
        # Before Python 3.13 that is what comes of a line that goes on a name without a value.
        pairs = enumerate(pairwise(lines), start=2)
        line = next((number for number, (above, one) in pairs if one[:1].isspace() and "=" not in above), 1)
        raise InputError(f"{path}:{line}: an indented line goes on a value, and above it is none") from None
    places: dict[tuple[str, str], int] = {}
    section = ""
    for number, line in enumerate(lines, start=1):
        if match := re.match(r"\s*\[([^\]]+)\]", line):
            section = match[1]
        elif match := re.match(r"\s*([^#;=\s][^=]*?)\s*=", line):
            if before := places.get((section, match[1])):
                said(f"{path}:{number}: {match[1]} is in line {before}, too; the later holds")
            places[section, match[1]] = number
    return {
        name: {key: (value or "", f"{path}:{places.get((name, key), 1)}") for key, value in parser[name].items()}
        for name in parser.sections()
    }


def _auto_cpufreq(name: str, given: Mapping[str, tuple[str, str]], where: _Where) -> PowerProfile:
    reader = _Reader(name, where)
    # The governor first: it decides the mode of a driver.
    for key, one in sorted(given.items(), key=lambda one: one[0] != "governor"):
        reader.take(_AUTO_CPUFREQ.get(key), key, *one)
    return reader.done()


_AUTO_CPUFREQ = {
    "governor": _FILES["scaling_governor"],
    "turbo": _Setting(_Reader.auto_turbo, "no_turbo"),
    **{name: _FILES[name] for name in ("energy_performance_preference", "scaling_min_freq", "scaling_max_freq")},
}
_TUNED = {
    "governor": _FILES["scaling_governor"],
    **{
        name: _FILES[name]
        for name in ("energy_performance_preference", "boost", "no_turbo", "min_perf_pct", "max_perf_pct")
    },
    "force_latency": _Setting(_Reader.latency, "cpu_dma_latency_us", "the machine has no such idle state"),
}
"""Of tuned's section [cpu]."""
_COMMAND_LINE = {
    **{
        name: _Setting(partial(_Reader.boot, family=name), "driver", "the machine has no such driver") for name in MODES
    },
    "nosmt": _Setting(lambda reader, _, place: reader.put("nosmt", True, place), "nosmt"),
    "isolcpus": _Setting(partial(_Reader.cpus, key="isolcpus"), "isolcpus", "it has flags, of which none is domain"),
    "nohz_full": _Setting(partial(_Reader.cpus, key="nohz_full"), "nohz_full"),
    "intel_idle.max_cstate": _Setting(_Reader.max_cstate, "idle_disable", f"the value is 0; {_NOT_INTEL}"),
}
"""Parameters of the kernel in tuned's section [bootloader]."""


def profile_keys() -> list[dict[str, str]]:
    """Give a row for each setting that changes a run: whose, how it is written, the policy's key, where it is ignored.

    All others are named in a note and change nothing.
    """
    parts = (
        ("TLP", "{}_ON_AC, _BAT, _SAV", _TLP),
        ("auto-cpufreq", "{}", _AUTO_CPUFREQ),
        ("tuned", "[cpu] {}", _TUNED),
        ("tuned", "[sysfs], [sysctl] .../{}", _FILES),
        ("tuned", "[bootloader] cmdline {}", _COMMAND_LINE),
    )
    return [
        {"of": whose, "setting": form.format(name), "policy key": one.key, "ignored where": one.ignored}
        for whose, form, table in parts
        for name, one in table.items()
    ] + [
        {
            "of": DAEMON,
            "setting": "[State] Profile",
            "policy key": "governor, epp, no_turbo",
            "ignored where": "no_turbo: the driver is not amd-pstate-epp of 6.11 or later",
        }
    ]


def _tuned(name: str, path: Path, where: _Where) -> PowerProfile:
    """Read a profile of tuned with what it includes, without the sections that tuned leaves out on this machine."""
    reader = _Reader(name, where)
    units: dict[str, dict[str, tuple[str, str]]] = {}
    _tuned_units(path, (), [], units, reader.note)
    variables: dict[str, str] = {}
    for key, (value, _) in units.get("variables", {}).items():
        variables[key] = _expanded(value, variables)
    settings = []
    for unit, written in units.items():
        given = {key: (_expanded(value, variables), place) for key, (value, place) in written.items()}
        kind = given.get("type", (unit, ""))[0]
        if why := _why_left_out(kind, given, where):
            if kind in ("cpu", "sysfs", "sysctl", "bootloader"):
                reader.note(f"{why[1]}: [{unit}] is left out: {why[0]}")
        else:
            settings += [(kind, key, *one) for key, one in given.items() if key not in _OF_UNITS]
    for section, key, value, place in sorted(settings, key=_rank):
        if "${" in value and section not in ("main", "variables"):
            reader.note(f"{place}: {key} has a variable, {value}: ignored")
        elif section == "cpu":
            reader.take(_TUNED.get(key), f"[cpu] {key}", value, place)
        elif section in ("sysfs", "sysctl"):
            reader.path(key.replace(".", "/") if section == "sysctl" else key, value, place)
        elif section == "bootloader" and key.startswith("cmdline"):
            # After the modes, of which one holds without HWP, too.
            for word in sorted(value.split(), key=lambda word: word.endswith("=no_hwp")):
                option, _, setting = word.lstrip("+").partition("=")
                reader.take(_COMMAND_LINE.get(option), option, setting, place)
        elif section not in ("main", "variables"):
            reader.others.append(f"[{section}] {key}")
    return reader.done()


_OF_UNITS = ("type", "enabled", "replace", "devices", "cpuinfo_regex", "uname_regex")
"""Options of a section that are no settings (tuned/profiles/unit.py)."""


def _expanded(value: str, variables: Mapping[str, str]) -> str:
    """Put variables in; those that the profile does not set stay (tuned/profiles/variables.py:expand_static())."""
    return re.sub(r"(?<!\\)\$\{(\w+)\}", lambda found: variables.get(found[1], found[0]), value)


def _why_left_out(kind: str, given: Mapping[str, tuple[str, str]], where: _Where) -> tuple[str, str] | None:
    """Give why a section does not hold on the machine, and the place of that, as tuned/units/manager.py:create() asks.

    What cannot be decided does not hold, either.
    """
    enabled, place = given.get("enabled", ("1", ""))
    if enabled.strip().lower() not in ("1", "true"):
        return f"enabled is {enabled}", place
    uname = (
        f"Linux localhost {where.base.get('kernel') or Policy().kernel} #1 SMP {where.on.arch}" if where.on.arch else ""
    )
    told_of = dict(line.split("\t: ", 1) for line in where.on.cpuinfo.replace("\t\t", "\t").splitlines())
    processor = told_of.get("model name") or ", ".join(f"{name} {value}" for name, value in told_of.items())
    for key, text, told in (
        ("uname_regex", uname, uname),
        ("cpuinfo_regex", where.on.cpuinfo, f"what is known of {processor}"),
    ):
        regex, place = given.get(key, ("", ""))
        if not regex:
            continue
        if "${" in regex:
            return f"its {key} has a variable that the profile does not set, {regex}", place
        if not text:
            return f"its {key} needs what the machine's file does not have", place
        try:
            matches = re.search(regex, text, re.MULTILINE)
        except re.error as error:
            raise InputError(f"{place}: {key} is no regular expression: {error}") from None
        if matches is None:
            return f"its {key} {regex} does not match {told}", place
    devices, place = given.get("devices", ("*", ""))
    if kind == "cpu" and devices.strip() not in ("*", "cpu*"):
        return f"settings of some CPUs, devices={devices}, are not simulated", place
    return None


def _rank(setting: tuple[str, str, str, str]) -> int:
    """Give the order in which settings are read: what decides which governors there are, and what files, is first."""
    section, key, _, _ = setting
    if section == "bootloader":
        # It holds from boot on, wherever it stands.
        return 0
    last = key.rpartition("/")[2]
    return 1 if last == "status" else 2 if last in ("governor", "scaling_governor") else 3


_FILES_MAX = 100
"""Files that a profile includes; tuned's own have three."""


def _tuned_units(
    path: Path,
    seen: tuple[Path, ...],
    files: list[Path],
    units: dict[str, dict[str, tuple[str, str]]],
    said: Callable[[str], None],
) -> None:
    """Read a profile's sections over those of the profiles that it includes; `files` are those read so far."""
    if path in seen:
        raise InputError(f"{path}: the profile includes itself")
    files.append(path)
    if len(files) > _FILES_MAX:
        raise InputError(f"{files[0]}: the profile includes more than {_FILES_MAX} files")
    sections = _sections(path, read_text(path, "a profile of tuned").splitlines(), said)
    if (included := sections.get("main", {}).get("include")) is not None:
        for one in re.split(r"[,;\s]+", included[0].strip()):
            _tuned_units(_profile_file(path, one, included[1]), (*seen, path), files, units, said)
    for section, given in sections.items():
        if given.get("replace", ("", ""))[0].strip().lower() in ("1", "true"):
            units.pop(section, None)
        units.setdefault(section, {}).update(given)


def _profile_file(beside: Path, name: str, place: str = "") -> Path:
    """Give the file of a profile that another one names: beside it, or where tuned installs its own."""
    root = beside.parent
    folders = [root.parent, root, root / "profiles", root.parent / "profiles", root.parent.parent]
    folders += map(Path, ("/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"))
    if found := next((file for folder in folders if (file := folder / name / "tuned.conf").is_file()), None):
        return found
    raise InputError(f"{place or beside}: no profile `{name}` beside it or below /usr/lib/tuned; copy its folder there")
