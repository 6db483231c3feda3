"""What settings ask of a machine: its cpufreq drivers, of which each mode is one, HWP, idle states, processor."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opplab.simulation.ranges import idle_latencies

ACTIVE = ("intel_pstate", "amd-pstate-epp")
"""Drivers with governors of their own, which are called performance and powersave."""
MODES = {
    "intel_pstate": {"active": "intel_pstate", "passive": "intel_cpufreq"},
    "amd_pstate": {"active": "amd-pstate-epp", "passive": "amd-pstate", "guided": "amd-pstate-guided"},
}
"""The driver of each mode, by its parameter (intel_pstate.c:store_status(), amd-pstate.c:status_store(), v6.12)."""
MODE_OF = {driver: (family, mode) for family, modes in MODES.items() for mode, driver in modes.items()}
"""Drivers of modes -> the folder of the file `status` below /sys/devices/system/cpu, and its content."""
OWN_GOVERNORS = ("performance", "powersave")
"""The governors of an active mode, which are the driver's own."""
_NUMBERS_SINCE = {"intel_pstate": (5, 9), "amd_pstate": (7, 1)}
"""From when on `energy_performance_preference` takes numbers, not names alone, by family: intel_pstate with commit
f473bf398bf1, amd-pstate not yet in v6.12 (amd-pstate.c:store_energy_performance_preference())."""
_CAME_WITH = {"amd-pstate": (5, 17), "amd-pstate-epp": (6, 3), "amd-pstate-guided": (6, 4)}
"""The first release with a driver, where that is younger than the oldest kernel profile (commit ec437d71db77 of the
passive mode; those of the others are of its series for v6.3 and v6.4)."""
_X86 = ("AuthenticAMD", "GenuineIntel", "HygonGenuine")


@dataclass(frozen=True)
class MachineFacts:
    r"""What power profiles ask of a machine; empty: not known.

    Examples
    --------
    >>> facts = MachineFacts.of({"processor": {"vendor": "GenuineIntel", "family": 6, "model": 85, "stepping": 7}})
    >>> facts.cpuinfo.splitlines(), facts.arch
    (['vendor_id\t: GenuineIntel', 'cpu family\t: 6', 'model\t\t: 85', 'stepping\t: 7'], 'x86_64')
    >>> MachineFacts.of({"invariance": "freq-change"}).arch
    'aarch64'
    """

    drivers: Sequence[str] = ()
    """cpufreq drivers, the first at boot: they decide which governors and files there are."""
    has_hwp: bool = False
    """Whether the machine has Intel's hardware P-states, which a profile may switch off."""
    idle: Sequence[tuple[str, int]] = ()
    """Names of the first cluster's idle states and their exit latencies in us, the shallowest first."""
    cpuinfo: str = ""
    arch: str = ""
    """`cpuinfo` and `arch`: /proc/cpuinfo as far as it is known, and the architecture as `uname -m` names it: they
    decide which sections of tuned hold."""

    @classmethod
    def of(cls, machine: Mapping[str, Any]) -> MachineFacts:
        """Read them from the tables of a machine's file."""
        first = next(iter(machine.get("cluster", [])), None) or {}
        return cls(driver_names(machine), has_hwp(machine), idle_latencies(first.get("idle", ())), *_identity(machine))


NOTHING_KNOWN = MachineFacts()


def _identity(machine: Mapping[str, Any]) -> tuple[str, str]:
    processor = machine.get("processor") or {}
    if processor.get("vendor") not in _X86:
        return "", "aarch64" if processor or machine.get("invariance") == "freq-change" else ""
    # In the order and form of arch/x86/kernel/cpu/proc.c:show_cpuinfo(), v6.12.
    lines = {
        "vendor_id\t": processor["vendor"],
        "cpu family\t": processor.get("family"),
        "model\t\t": processor.get("model"),
        "model name\t": processor.get("model_name") or None,
        "stepping\t": processor.get("stepping"),
    }
    return "".join(f"{name}: {value}\n" for name, value in lines.items() if value is not None), "x86_64"


def driver_under(machine: Mapping[str, Any], keys: Mapping[str, Any]) -> str:
    """Give the cpufreq driver under which a policy runs, as the engine takes it.

    Without a name it is the machine's first; of a driver in active mode the passive mode where the governor is generic.

    Parameters
    ----------
    machine : mapping
        As a case's JSON has it.
    keys : mapping
        Of the policy.
    """
    return driver_among(driver_names(machine), keys)


def driver_among(names: Sequence[str], keys: Mapping[str, Any]) -> str:
    """Give the same for the names of a machine's drivers, the first that at boot."""
    if named := keys.get("driver"):
        return str(named)
    own = names[0] if names else ""
    folder, mode = MODE_OF.get(own, ("", ""))
    passive = next((name for name in names if MODE_OF.get(name) == (folder, "passive")), "")
    generic = keys.get("governor", "schedutil") not in OWN_GOVERNORS
    return passive if mode == "active" and generic and passive else own


def no_epp(driver: str, machine: Mapping[str, Any], keys: Mapping[str, Any]) -> str:
    """Give the words about a preference that nothing takes; empty where something does, or none is asked.

    Examples
    --------
    >>> no_epp("acpi-cpufreq", {}, {"epp": "power"}), no_epp("acpi-cpufreq", {}, {"epp": ""})
    ('acpi-cpufreq has no energy performance preference: epp does nothing', '')
    """
    if str(keys.get("epp", "")) == "" or has_epp(driver, machine, keys):
        return ""
    without = " without HWP" if driver.startswith("intel") else ""
    return f"{driver} has no energy performance preference{without}: epp does nothing"


def refused_epp(driver: str, keys: Mapping[str, Any]) -> str:
    """Give the words about a preference that the driver refuses (EBUSY); empty where it takes it, or none is asked.

    Under its own governor performance it takes 0 alone (v6.12, intel_pstate.c:intel_pstate_set_energy_pref_index(),
    amd-pstate.c:amd_pstate_set_energy_pref_index()).
    """
    epp = keys.get("epp", "")
    if driver in ACTIVE and keys.get("governor") == "performance" and str(epp) not in ("", "performance", "0"):
        return f"{driver} refuses the preference {epp} under its governor performance"
    return ""


def release(kernel: object) -> tuple[int, int] | None:
    """Give the mainline release of a kernel's name; None where it names none.

    Examples
    --------
    >>> release("6.12.117"), release("4.14-android"), release("")
    ((6, 12), (4, 14), None)
    """
    numbers = re.match(r"(\d+)\.(\d+)", str(kernel))
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def came_later(kernel: object, since: tuple[int, int] | None) -> str:
    """Give the release that brought something, where a kernel is older; empty where it is not, or one is not known.

    Examples
    --------
    >>> came_later("5.10.262", (5, 17)), came_later("5.17", (5, 17)), came_later("5.10", None)
    ('5.17', '', '')
    """
    own = release(kernel)
    return "" if own is None or since is None or own >= since else f"{since[0]}.{since[1]}"


def numbered_epp(driver: str, keys: Mapping[str, Any]) -> str:
    """Give the words about a preference that is a number, where the file of the policy's kernel takes names alone.

    Examples
    --------
    >>> numbered_epp("amd-pstate-epp", {"epp": 100, "kernel": "6.12"})
    'amd-pstate-epp takes preferences by name alone before kernel 7.1: its file refuses 100'
    >>> numbered_epp("intel_pstate", {"epp": "100", "kernel": "6.12"})
    ''
    """
    epp = str(keys.get("epp", ""))
    since = came_later(keys.get("kernel", ""), _NUMBERS_SINCE.get(MODE_OF.get(driver, ("", ""))[0]))
    if not epp.isdigit() or not since:
        return ""
    return f"{driver} takes preferences by name alone before kernel {since}: its file refuses {epp}"


def younger_driver(driver: str, keys: Mapping[str, Any]) -> str:
    """Report that a policy's kernel is older than the driver that it runs under; empty if it is not.

    Examples
    --------
    >>> younger_driver("amd-pstate", {"kernel": "5.10.262"})
    'kernel 5.10.262 does not have amd-pstate, which came with 5.17: it runs here as if it were backported'
    >>> younger_driver("amd-pstate", {"kernel": "5.17"}), younger_driver("acpi-cpufreq", {"kernel": "4.14"})
    ('', '')
    """
    since = came_later(keys.get("kernel", ""), _CAME_WITH.get(driver))
    if not since:
        return ""
    came = f"which came with {since}"
    return f"kernel {keys['kernel']} does not have {driver}, {came}: it runs here as if it were backported"


def has_hwp(machine: Mapping[str, Any]) -> bool:
    """Report whether intel_pstate finds hardware P-states: all clusters have them."""
    return all("hwp" in cluster for cluster in machine.get("cluster", []))


def has_epp(driver: str, machine: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Report whether `energy_performance_preference` exists: in active amd-pstate, and in intel_pstate with HWP."""
    if driver.startswith("intel"):
        return not keys.get("no_hwp") and has_hwp(machine)
    return driver in ("", "amd-pstate-epp")


def has_dynamic_boost(driver: str, machine: Mapping[str, Any], keys: Mapping[str, Any]) -> bool:
    """Report whether `hwp_dynamic_boost` exists: in active mode with HWP; so may it under a driver that is not known.

    Passive mode takes the file away (v6.12, intel_pstate.c:intel_pstate_register_driver(),
    intel_pstate_driver_cleanup()).
    """
    return driver in ("", "intel_pstate") and has_epp(driver, machine, keys)


def driver_names(machine: Mapping[str, Any]) -> list[str]:
    """Give the names of a machine's cpufreq drivers; the first is that at boot."""
    return [str(driver.get("name", "")) for driver in drivers_of(machine)]


def drivers_of(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give a machine's cpufreq drivers, the first that at boot."""
    found = machine.get("driver", [])
    return [found] if isinstance(found, Mapping) else list(found)
