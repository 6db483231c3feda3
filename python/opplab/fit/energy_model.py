"""What kernels make of the energy model of a machine file: what they refuse, and which points they pass over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opplab.errors import InputError
from opplab.kernel.native import native as _kernel

Tree = Mapping[str, Any]


def inefficient_points(points: Sequence[tuple[int, int]], capacity: int) -> list[str]:
    """Describe which points (kHz, uW) kernels mark as inefficient and pass over, which kernels, and why.

    Raises
    ------
    InputError
        The kernel refuses the table.

    Notes
    -----
    Source: kernel/power/energy_model.c:em_compute_costs(), v6.12; em_create_perf_table(), v5.16 and v6.1.

    Examples
    --------
    A faster point costs no more; 100 MHz costs less than 150 MHz, but performs 10.7, and the kernel takes 10:

    >>> inefficient_points([(300_000, 9_000), (600_000, 10_000)], 1024)
    ['the kernel passes over 300 MHz from v5.16 on: a faster point costs no more per work']
    >>> (words,) = inefficient_points([(100_000, 30_000), (150_000, 46_000), (1_000_000, 600_000)], 107)
    >>> words.partition(": ")[0]
    'the kernel passes over 100 MHz from v6.9 on, by rounding alone'
    """
    return _kernel.inefficient_points(list(points), capacity)


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

    Examples
    --------
    >>> little = {"name": "A55", "capacity": 300, "opp": [{"khz": 300000, "uw": 0}]}
    >>> big = {"name": "A78", "capacity": 1024, "opp": [{"khz": 300000, "uw": 9}, {"khz": 600000, "uw": 10}]}
    >>> for line in energy_model_notes({"cluster": [little, big]}):
    ...     print(line)
    no energy-aware scheduling: cluster A55: state 0: the power is not within 1..64000000 uW
    cluster A78: the kernel passes over 300 MHz from v6.0 on: a faster point costs no more per work
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
        # As its device tree would have them.
        points = [(opp.get("khz") or round(1000 * opp["mhz"]), opp.get("uw", 0)) for opp in cluster["opp"]]
        try:
            found = inefficient_points(points, cluster["capacity"])
        except InputError as error:
            found = []
            notes.append(f"no energy-aware scheduling: cluster {cluster['name']}: {error}")
        notes += [f"cluster {cluster['name']}: {words}" for words in found]
    return notes
