"""What a package draws beside its cores, by class of machine: measured ranges for machines that nobody measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from opplab.errors import InputError

Tree = Mapping[str, Any]


class MachineClass(NamedTuple):
    """What is drawn while any CPU is awake and beside its cores, in W."""

    name: str
    awake_w: float
    low_w: float
    high_w: float
    source: str
    each: str = "package"
    """What draws it: each ``package`` or each ``cluster``."""


CLASSES = {
    "amd-server": MachineClass(
        "AMD server",
        80,
        55,
        111,
        "EPYC 7502 55.6 W, 7742 65 W, Milan 71 to 111 W a socket; two Genoa draw 98 W and two Milan 57 W a socket "
        "over two idle minutes of sleep and waking (turbostat, AnandTech, 2021-rome-ee)",
    ),
    "intel-server": MachineClass(
        "Intel server",
        40,
        24,
        104,
        "Xeon E5-2686 v4 32 W, Gold 6130 30 to 53 W, Platinum 8175M 34 to 42 W, 8275CL 29 to 57 W a socket; "
        "Xeon Phi 7250 96 to 104 W (turbostat, turbostress)",
    ),
    "atom-server": MachineClass(
        "Intel Atom server", 16, 4, 30, "Atom P5362 28 W (turbostat); smaller ones are assumed"
    ),
    "arm-server": MachineClass(
        "Arm server", 40, 24, 100, "monolithic server CPUs of 2021 30 to 50 W a socket (AnandTech); chiplets as EPYC"
    ),
    "desktop": MachineClass(
        "desktop",
        16,
        1.1,
        52,
        "Core i7-5960X 18 W, Ryzen 3700X 16 W, Ryzen 7950X 52 W under load (reviews); Xeon E3-1285L v4 1.1 to 6 W",
    ),
    "laptop": MachineClass(
        "laptop",
        2.5,
        0.6,
        7,
        "Core i7-1260P 1.3 to 1.9 W, a Raptor Lake 0.6 to 4 W, Jasper Lake 1.3 W, Core Ultra 135H 7 W (turbostat)",
    ),
    "client": MachineClass(
        "laptop or desktop", 6, 0.6, 52, "between the classes laptop and desktop: the file names neither"
    ),
    "phone": MachineClass(
        "phone or board",
        0.039,
        0.0,
        0.23,
        "clusters of 27 phone SoCs (freqbench): half of their points 22 to 81 mW, all 0 to 223 mW",
        each="cluster",
    ),
}
"""Classes by name.  What clusters share belongs to the CPUs' meter; memory, disks and supplies do not."""

_AMD = ("AuthenticAMD", "HygonGenuine")
_SMALL_XEON = re.compile(r"xeon(\(r\))? (cpu )?(e3?-|w-1)", re.IGNORECASE)
"""Client dies that are sold as Xeon."""
_SERVER_ATOM = re.compile(r"atom(\(tm\)|\(r\))? (cpu )?[cp]\d", re.IGNORECASE)
_LAPTOP = re.compile(r"[0-9](U|Y|P|V|M|MQ|H|HQ|HK|HX|HS|G[1-7])( |$)")
_DESKTOP = re.compile(r"[0-9](K|KF|KS|F|S|T|X|XT|X3D)?( |$)|xeon", re.IGNORECASE)
"""What names of client processors end in, before their clock."""
_ARM_SERVER_CPUS = 17
SERVER_PROFILES = ("enterprise-server", "performance-server")
"""What firmware of servers has as its preferred power-management profile (`pm_profile`)."""


def class_of(tree: Tree) -> MachineClass:
    """Give the class of a machine file's tree, by its processor, its packages and its number of CPUs.

    Raises
    ------
    InputError
        Of the processor's maker nothing was measured.

    Examples
    --------
    >>> class_of({"processor": {"vendor": "AuthenticAMD", "model_name": "AMD EPYC 7763"}}).name
    'AMD server'
    """
    topology = tree.get("topology", {})
    packages = len(topology.get("package", [0]))
    cpus = len(topology.get("core", []))
    processor = tree.get("processor")
    if processor is None:
        return CLASSES["arm-server" if packages > 1 or cpus >= _ARM_SERVER_CPUS else "phone"]
    vendor, name = processor.get("vendor", ""), processor.get("model_name", "")
    server = packages > 1 or tree.get("pm_profile") in SERVER_PROFILES
    if vendor in _AMD:
        if server or vendor == "HygonGenuine" or "EPYC" in name:
            return CLASSES["amd-server"]
    elif vendor == "GenuineIntel":
        xeon = "xeon" in name.lower() and not _SMALL_XEON.search(name)
        if _SERVER_ATOM.search(name):
            return CLASSES["atom-server"]
        if server or xeon:
            return CLASSES["intel-server"]
    else:
        raise InputError(
            f"no processor by {vendor or 'an unknown maker'} was measured: there is no generic power for it"
        )
    if tree.get("pm_profile") == "mobile":
        return CLASSES["laptop"]
    brand = name.partition(" CPU")[0].partition(" @")[0].partition(" w/")[0]
    sold = "genuine" not in name.lower() and brand
    if sold and _LAPTOP.search(brand):
        return CLASSES["laptop"]
    return CLASSES["desktop" if tree.get("pm_profile") == "desktop" or (sold and _DESKTOP.search(brand)) else "client"]
