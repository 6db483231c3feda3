"""What a kernel is given of a machine's capacities and powers: a device tree, debugfs's energy model, power curves.

The kernel's own energy model checks the table (v6.12); `topology_normalize_cpu_scale()`
(drivers/base/arch_topology.c) makes capacities of capacity-dmips-mhz x f_max.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.fit.energy_model import inefficient_points
from opplab.fit.machine_power import INTERVAL_MARK, NEXT_MARK
from opplab.kernel import EnergyModel, find_energy_efficient_cpu
from opplab.kernel.energy import EmPerfState
from opplab.simulation.ranges import ends_in_words, pairs_of

SCALE = 1024


def _power_uw(opp: Mapping[str, Any]) -> int | None:
    """What the model has, or else what a busy CPU draws; None if neither is known."""
    return opp["power_uw"] or opp["busy_uw"] or None


def dmips_mhz(clusters: Sequence[Mapping[str, Any]]) -> list[int]:
    """Give each cluster's capacity-dmips-mhz, of which the kernel makes its capacity; the largest is about 1024.

    The kernel cuts its quotients, so that each is the least number that gives the capacity.  The numbers are larger
    where a step of one is more than a step of the capacity.
    """
    top_khz = [max(opp["khz"] for opp in cluster["opps"]) for cluster in clusters]
    capacities = [SCALE * cluster["capacity"] // max(one["capacity"] for one in clusters) for cluster in clusters]
    densest = max(capacity / khz for capacity, khz in zip(capacities, top_khz, strict=True))
    big_khz = next(khz for capacity, khz in zip(capacities, top_khz, strict=True) if capacity == SCALE)
    for bits in range(10, 21):
        most = round(2**bits * SCALE / big_khz / densest) * big_khz
        found = [-(-capacity * most // (SCALE * khz)) for capacity, khz in zip(capacities, top_khz, strict=True)]
        raw = [one * khz for one, khz in zip(found, top_khz, strict=True)]
        if [SCALE * one // max(raw) for one in raw] == capacities:
            break
    return found


def coefficient(opps: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Fit dynamic-power-coefficient, in uW/MHz/V^2, to powers and voltages.

    Returns
    -------
    (float, float) or None
        The coefficient by least squares, and the largest error of a point as a share; None where a voltage or a power
        is not known.
    """
    points = [
        (opp["khz"] / 1e3 * (opp["mv"] / 1e3) ** 2, power) for opp in opps if opp["mv"] and (power := _power_uw(opp))
    ]
    if len(points) != len(opps) or not points:
        return None
    found = sum(x * power for x, power in points) / sum(x * x for x, _ in points)
    return found, max(abs(found * x / power - 1) for x, power in points)


def _points(cluster: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Give the points (kHz, uW) of a cluster's energy model.

    Raises
    ------
    InputError
        A power is not known.
    """
    points = [(opp["khz"], _power_uw(opp)) for opp in cluster["opps"]]
    known = [(khz, power) for khz, power in points if power is not None]
    if len(known) < len(points):
        raise InputError(f"cluster {cluster['name']}: the power of a point is not known, so there is no energy model")
    return known


def _energy_model(cluster: Mapping[str, Any]) -> EnergyModel:
    """Give the kernel's energy model of a cluster.

    Raises
    ------
    InputError
        A power is not known, or the kernel refuses the table.
    """
    return EnergyModel(_points(cluster), cpus=cpus_in(cluster["cpus"]), capacity=cluster["capacity"])


def _warnings(cluster: Mapping[str, Any]) -> list[str]:
    """Findings about a cluster, the kernel's and those of a reader of its table."""
    opps = cluster["opps"]
    words = []
    # What the kernel refuses has no states; the findings below and EAS's line give the reason.
    with contextlib.suppress(InputError):
        words = inefficient_points(_points(cluster), cluster["capacity"])
    powers = [(opp["khz"], _power_uw(opp)) for opp in opps]
    words += [
        f"power falls from {low / 1000:g} to {high / 1000:g} MHz"
        for (low, before), (high, after) in pairwise(powers)
        if before is not None and after is not None and after < before
    ]
    unknown = [f"{khz / 1000:g}" for khz, power in powers if power is None]
    if unknown:
        words.append(f"power at {', '.join(unknown)} MHz is not known: EAS needs it (measure one busy CPU there)")
    if not any(opp["power_uw"] for opp in opps) and not unknown:
        words.append("powers are those of a busy CPU; the vendor's model is not known")
    shares = [opp["busy_uw"] / opp["power_uw"] for opp in opps if opp["busy_uw"] and opp["power_uw"]]
    if any(share != 1 for share in shares):
        words.append(
            f"powers are those of the energy model that the machine has; a busy CPU draws {100 * min(shares):.0f} % to "
            f"{100 * max(shares):.0f} % of them (--measured writes these)"
        )
    return words


def measured(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Give a machine with what a busy CPU draws as its energy model."""
    of = [
        {**one, "opps": [{**opp, "power_uw": opp["busy_uw"] or opp["power_uw"]} for opp in one["opps"]]}
        for one in facts["clusters"]
    ]
    return {**facts, "clusters": of}


def placements(facts: Mapping[str, Any]) -> list[tuple[int, int, str]]:
    """Give where EAS places a lone task that wakes on an idle machine: (least util, most util, cluster).

    The task ran on the machine's last biggest CPU; above the utilisation that fits anywhere there is no row.

    Raises
    ------
    InputError
        A power is not known, or the kernel refuses the table.

    Notes
    -----
    Source: kernel/sched/fair.c:find_energy_efficient_cpu(), v6.12.
    """
    clusters = facts["clusters"]
    domains = [_energy_model(cluster) for cluster in clusters]
    whose = {cpu: cluster["name"] for cluster in clusters for cpu in cpus_in(cluster["cpus"])}
    biggest = max(clusters, key=lambda cluster: cluster["capacity"])
    last = max(cpus_in(biggest["cpus"]))
    found: list[tuple[int, int, str]] = []
    for util in range(1, SCALE + 1):
        loads = [0] * len(whose)
        loads[last] = util
        cpu = find_energy_efficient_cpu(domains, loads, task_util=util, prev_cpu=last).cpu
        if cpu is None:
            continue
        if found and found[-1][2] == whose[cpu] and found[-1][1] == util - 1:
            found[-1] = (found[-1][0], util, whose[cpu])
        else:
            found.append((util, util, whose[cpu]))
    return found


_NO_MODEL = "EAS is off: a task that wakes goes to an idle CPU that it fits on, its last one first"


def _eas(facts: Mapping[str, Any]) -> str:
    """Describe where EAS places a lone task."""
    if len({cluster["capacity"] for cluster in facts["clusters"]}) < 2:
        return "EAS is off: all CPUs have one capacity"
    # kernel/sched/topology.c:sched_is_eas_possible(), v6.12.
    if len({cpu["core"] for cpu in facts["cpus"]}) < len(facts["cpus"]):
        return "EAS is off: CPUs are threads of cores (SMT)"
    if facts["invariance"] == "none":
        return "EAS is off: no frequency invariance"
    try:
        found = placements(facts)
    except InputError as error:
        return f"EAS is off: {error}"
    return ", ".join(f"util {low} to {high} {name}" for low, high, name in found)


def _first_number(end: object) -> float:
    """Give the number of an end of a range, which may be in percent."""
    return float(str(end).split()[0])


def _next(facts: Mapping[str, Any]) -> str:
    """Give the measurement that would help most: the fit's own, or that of the widest range of a power."""
    sources = facts.get("sources", {})
    if words := sources.get(NEXT_MARK):
        return str(words)
    for cluster in facts["clusters"]:
        if any(_power_uw(opp) is None for opp in cluster["opps"]):
            return f"{cluster['name']}: power of one busy CPU at each clock where it is not known"
    widths = {
        what: max(_first_number(high) / max(_first_number(low), 1) for low, high in pairs_of(ends))
        for what, ends in facts.get("ranges", {}).items()
        if ".opp." in what and what.endswith("uw")
    }
    if not widths:
        return "one busy CPU at the lowest, a middle and the highest clock of each cluster: no power has a range"
    widest = max(widths, key=lambda what: widths[what])
    return f"what {widest} is: its range is the widest"


def _clean(text: str) -> str:
    """A text inside of a comment."""
    return " ".join(text.replace("*/", "* /").split())


def _dts(facts: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    clusters = facts["clusters"]
    sources = facts.get("sources", {})
    lines = [
        "/dts-v1/;",
        f"/* {_clean(facts['name'])}: {_clean(facts['provenance'])} */",
        "/* where EAS places a lone task of an idle machine, which ran on the biggest CPU (kernel 6.12.117): */",
        # Which model a device has, its machine file need not know.
        f"/* without an energy model: {_NO_MODEL} */" if before is None else f"/* before: {_clean(_eas(before))} */",
        f"/* {'with this one' if before is None else 'after'}: {_clean(_eas(facts))} */",
        f"/* most helpful measurement: {_clean(_next(facts))} */",
        *(f"/* ranges are of {_clean(sources[mark])} */" for mark in [INTERVAL_MARK] if mark in sources),
        *(
            f"/* range of {_clean(what)}: {ends_in_words(ends)} */"
            for what, ends in facts.get("ranges", {}).items()
            if ".opp." in what
        ),
        "/ {",
        "\tcpus {",
        "\t\t#address-cells = <1>;",
        "\t\t#size-cells = <0>;",
    ]
    nodes: dict[int, list[str]] = {}
    for number, (cluster, dmips) in enumerate(zip(clusters, dmips_mhz(clusters), strict=True)):
        fit = coefficient(cluster["opps"])
        words = "" if fit is None else f"powers within {100 * fit[1]:.1f} %"
        for cpu in cpus_in(cluster["cpus"]):
            nodes[cpu] = [
                f"\t\tcpu@{cpu:x} {{",
                '\t\t\tdevice_type = "cpu";',
                f"\t\t\treg = <0x{cpu:x}>;",
                f"\t\t\tcapacity-dmips-mhz = <{dmips}>;",
                *([f"\t\t\tdynamic-power-coefficient = <{round(fit[0])}>; /* {words} */"] if fit is not None else []),
                f"\t\t\toperating-points-v2 = <&cluster{number}_opp>;",
                "\t\t};",
            ]
    # The kernel numbers CPUs in the order of their nodes.
    lines += [line for cpu in sorted(nodes) for line in nodes[cpu]]
    lines.append("\t};")
    for number, cluster in enumerate(clusters):
        lines += [f"\t/* {_clean(cluster['name'])}: {words} */" for words in _warnings(cluster)]
        shared = cluster["policy"] == "shared"
        lines += [f"\tcluster{number}_opp: opp-table-{number} {{", '\t\tcompatible = "operating-points-v2";']
        lines += ["\t\topp-shared;"] if shared else []
        for opp in cluster["opps"]:
            lines += [f"\t\topp-{opp['khz'] * 1000} {{", f"\t\t\topp-hz = /bits/ 64 <{opp['khz'] * 1000}>;"]
            if opp["mv"]:
                lines.append(f"\t\t\topp-microvolt = <{opp['mv'] * 1000}>;")
            power = _power_uw(opp)
            lines.append(
                "\t\t\t/* opp-microwatt: not known */" if power is None else f"\t\t\topp-microwatt = <{power}>;"
            )
            lines.append("\t\t};")
        lines.append("\t};")
    return "\n".join([*lines, "};"]) + "\n"


def _debugfs(facts: Mapping[str, Any]) -> str:
    """Paths and contents below /sys/kernel/debug, as `grep -r . energy_model` prints them."""
    lines = []
    for cluster in facts["clusters"]:
        cpus = cluster["cpus"]
        domain = f"energy_model/cpu{cpus_in(cpus)[0]}"
        states = map(EmPerfState._make, _energy_model(cluster).states)
        lines += [f"{domain}/cpus:{cpus}", f"{domain}/flags:0x1"]
        for one in states:
            state = f"{domain}/ps:{one.freq_khz}"
            values = {
                "frequency": one.freq_khz,
                "power": one.power_uw,
                "cost": one.cost,
                "performance": one.performance,
                "inefficient": int(one.inefficient),
            }
            lines += [f"{state}/{name}:{value}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def _wattson(facts: Mapping[str, Any]) -> str:
    """Perfetto Wattson's `cpu_1d.csv`: one busy CPU, in mW. What its cluster shares is not in it: `static` is 0."""
    lines = ["device,policy,freq_khz,static,active,idle0,idle1"]
    for cluster in facts["clusters"]:
        states = [state["power_uw"] for state in cluster["idle"]]
        idle = [*states, *[None] * 2][:2]
        for opp in cluster["opps"]:
            busy = opp["busy_uw"] or opp["power_uw"]
            if not busy:
                raise InputError(f"cluster {cluster['name']}: the power at {opp['khz']} kHz is not known")
            row = [facts["name"], str(cpus_in(cluster["cpus"])[0]), str(opp["khz"]), "0", str(busy / 1000)]
            lines.append(",".join([*row, *("" if one is None else str(one / 1000) for one in idle)]))
    return "\n".join(lines) + "\n"


FORMATS = {"debugfs": _debugfs, "wattson": _wattson}


def export(facts: Mapping[str, Any], form: str, before: Mapping[str, Any] | None = None) -> str:
    """Give a machine in a form that others read.

    Parameters
    ----------
    facts : mapping
        What ``opplab machine show --format json`` has.
    before : mapping, optional
        A machine whose energy model the device tree's comments compare with; by default there is none.

    Raises
    ------
    InputError
        If a power that the form cannot do without is not known.
    """
    return _dts(facts, before) if form == "dts" else FORMATS[form](facts)
