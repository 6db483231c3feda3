"""What the kernel makes of the energy model of a machine file: what it refuses, and which points it never uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opplab.errors import InputError
from opplab.kernel.energy import EmPerfState, EnergyModel

Tree = Mapping[str, Any]


def inefficient_khz(cluster: Tree) -> list[int]:
    """Give the clocks that the kernel passes over: a higher one costs no more for the same work.

    Raises
    ------
    InputError
        The kernel refuses the table.
    """
    # As its device tree would have them.
    points = [(opp.get("khz") or round(1000 * opp["mhz"]), opp.get("uw", 0)) for opp in cluster["opp"]]
    model = EnergyModel(points, cpus=[0], capacity=cluster["capacity"])
    return [state.freq_khz for state in map(EmPerfState._make, model.states) if state.inefficient]


def registers_artificial(tree: Tree) -> bool:
    """Report whether the machine's own driver is cppc_cpufreq and the file has no powers for the energy model.

    Where efficiency classes differ that driver registers the artificial model.

    Examples
    --------
    >>> registers_artificial({"driver": [{"name": "cppc_cpufreq"}], "cluster": [{"opp": [{"khz": 300000, "uw": 0}]}]})
    True
    """
    drivers = [driver["name"] for driver in tree.get("driver", [])]
    powers = any(opp.get("uw") for cluster in tree["cluster"] for opp in cluster["opp"])
    return drivers[:1] == ["cppc_cpufreq"] and not powers


def energy_model_notes(tree: Tree) -> list[str]:
    """Describe what keeps a machine from energy-aware scheduling, and which points are inefficient.

    Notes
    -----
    Source: kernel/power/energy_model.c:em_create_perf_table(), em_compute_costs(), v6.12.

    Examples
    --------
    >>> little = {"name": "A55", "capacity": 300, "opp": [{"khz": 300000, "uw": 0}]}
    >>> big = {"name": "A78", "capacity": 1024, "opp": [{"khz": 300000, "uw": 9}, {"khz": 600000, "uw": 10}]}
    >>> for line in energy_model_notes({"cluster": [little, big]}):
    ...     print(line)
    no energy-aware scheduling: cluster A55: state 0: the power is not within 1..64000000 uW
    cluster A78: the kernel passes over 300 MHz: a higher clock costs no more for the same work
    """
    clusters = tree["cluster"]
    if tree.get("processor") is not None or len({cluster["capacity"] for cluster in clusters}) < 2:
        return []
    if registers_artificial(tree):
        if len({cluster.get("efficiency_class", 0) for cluster in clusters}) < 2:
            return ["no energy-aware scheduling: all clusters have one efficiency class, or none is known"]
        return ["the energy model is the artificial one that cppc_cpufreq registers since v5.19"]
    notes = []
    for cluster in clusters:
        try:
            khz = inefficient_khz(cluster)
        except InputError as error:
            notes.append(f"no energy-aware scheduling: cluster {cluster['name']}: {error}")
            continue
        if khz:
            mhz = ", ".join(f"{value / 1000:g}" for value in khz)
            notes.append(
                f"cluster {cluster['name']}: the kernel passes over {mhz} MHz: "
                "a higher clock costs no more for the same work"
            )
    return notes
