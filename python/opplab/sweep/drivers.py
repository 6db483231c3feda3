"""Which cpufreq driver a policy runs under: drivers of two or three modes are one driver for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opplab.sweep.power_profiles import MODES

__all__ = ["MODE_OF", "driver_names", "driver_under", "drivers_of"]

MODE_OF = {
    driver: (family.replace("-", "_"), mode) for family, modes in MODES.items() for mode, driver in modes.items()
}
"""Drivers of modes -> the folder of the file `status` below /sys/devices/system/cpu, and its content."""
_OWN_GOVERNORS = ("performance", "powersave")
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
    if named := keys.get("driver"):
        return str(named)
    names = driver_names(machine)
    own = names[0] if names else ""
    folder, mode = MODE_OF.get(own, ("", ""))
    passive = next((name for name in names if MODE_OF.get(name) == (folder, "passive")), "")
    generic = keys.get("governor", "schedutil") not in _OWN_GOVERNORS
    return passive if mode == "active" and generic and passive else own


def driver_names(machine: Mapping[str, Any]) -> list[str]:
    """Give the names of a machine's cpufreq drivers; the first is that at boot."""
    return [str(driver.get("name", "")) for driver in drivers_of(machine)]


def drivers_of(machine: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Give a machine's cpufreq drivers, the first that at boot."""
    found = machine.get("driver", [])
    return [found] if isinstance(found, Mapping) else list(found)
