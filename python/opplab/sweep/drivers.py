"""Which cpufreq driver a policy runs under: drivers of two or three modes are one driver for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = [
    "ACTIVE",
    "MODES",
    "MODE_OF",
    "OWN_GOVERNORS",
    "driver_among",
    "driver_names",
    "driver_under",
    "drivers_of",
    "refused_epp",
]

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


def refused_epp(driver: str, keys: Mapping[str, Any]) -> str:
    """Give the words about a preference that the driver refuses (EBUSY); empty where it takes it, or none is asked.

    Under its own governor performance it takes 0 alone (v6.12, intel_pstate.c:intel_pstate_set_energy_pref_index(),
    amd-pstate.c:amd_pstate_set_energy_pref_index()).
    """
    epp = keys.get("epp", "")
    if driver in ACTIVE and keys.get("governor") == "performance" and str(epp) not in ("", "performance", "0"):
        return f"{driver} refuses the preference {epp} under its governor performance"
    return ""


def driver_names(machine: Mapping[str, Any]) -> list[str]:
    """Give the names of a machine's cpufreq drivers; the first is that at boot."""
    return [str(driver.get("name", "")) for driver in drivers_of(machine)]


def drivers_of(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give a machine's cpufreq drivers, the first that at boot."""
    found = machine.get("driver", [])
    return [found] if isinstance(found, Mapping) else list(found)
