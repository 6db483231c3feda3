"""Tables of power that people have, as samples of (busy cores, clock, watts): turbostat logs and CSV, RAPL, wall plugs.

Columns are known by name, whatever the table (`columns`).  Energies become watts of their intervals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.files import packed_text
from opplab.fit.columns import KNOWN, Table, read_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BusyOf:
    """What of a machine decides how many cores are busy."""

    core_of: dict[int, int]
    """Each CPU's core."""
    cluster_of: dict[int, int]
    packages: int
    second: float
    """What a busy second thread of a core adds, in shares of the first."""

    @classmethod
    def of(cls, tree: Mapping[str, Any]) -> BusyOf:
        """Read it from a machine file."""
        clusters = {cpu: i for i, cluster in enumerate(tree["cluster"]) for cpu in cpus_in(cluster["cpus"])}
        topology = tree.get("topology", {})
        cores = {cpu: i for i, core in enumerate(topology.get("core", [])) for cpu in cpus_in(core)}
        if cores.keys() != clusters.keys():
            cores = {cpu: cpu for cpu in clusters}
        return cls(cores, clusters, len(topology.get("package", [0])), tree.get("smt_power", 0) / 1024)

    @property
    def cpus(self) -> int:
        """The number of CPUs."""
        return len(self.core_of)

    @property
    def cores(self) -> int:
        """The number of cores."""
        return len(set(self.core_of.values()))

    def busy(self, loads: Mapping[int, float]) -> dict[int, float]:
        """Give busy cores by cluster of the shares of time in which CPUs are busy."""
        idle: dict[tuple[int, int], float] = {}
        total: dict[tuple[int, int], float] = {}
        for cpu, load in loads.items():
            place = self.cluster_of[cpu], self.core_of[cpu]
            idle[place] = idle.get(place, 1.0) * (1 - min(load, 1.0))
            total[place] = total.get(place, 0.0) + min(load, 1.0)
        by_cluster = dict.fromkeys(set(self.cluster_of.values()), 0.0)
        for place, left in idle.items():
            by_cluster[place[0]] += 1 - left + self.second * (total[place] - (1 - left))
        return by_cluster

    def shared(self, busy: float) -> dict[int, float]:
        """Give each cluster the share of busy cores that it has where all CPUs are busy."""
        most = sum(self.all_busy.values())
        return {cluster: busy * cores / most for cluster, cores in self.all_busy.items()}

    @cached_property
    def all_busy(self) -> dict[int, float]:
        """Busy cores by cluster where all CPUs are busy."""
        return self.busy(dict.fromkeys(self.core_of, 1.0))


@dataclass(frozen=True)
class Samples:
    """Intervals of one source."""

    name: str
    watts: Floats
    ghz: Floats
    load: Floats
    """Busy cores, or, if `load_is_share`, their share of all CPUs."""
    load_is_share: bool
    asleep: Floats
    """Share of time in which the package slept; not a number where the source has none."""
    cores_watts: Floats | None
    """Those of the cores alone, if the source has them apart."""
    scope: str
    """The column that the watts are from."""
    by_package: list[list[float]] = field(default_factory=list)
    """Loads of the single packages, where the source has them apart."""
    left_out: str = ""
    """How many rows lack something, in words; empty where none does."""
    mixed: str = ""
    """Which columns name rows of several kinds at one clock and load, in words; empty where none does."""

    by_cpu: list[dict[int, float]] = field(default_factory=list)
    """Loads of the single CPUs, where the source has them apart."""
    ghz_by_cpu: list[dict[int, float]] = field(default_factory=list)
    """Their clocks."""
    states: list[dict[int | None, dict[str, float]]] = field(default_factory=list)
    """Shares of time in idle states, by their names in lower case, of the CPUs with rows and of the whole (None)."""

    @property
    def untold(self) -> list[str]:
        """What of the rows is left out or mixed, in words."""
        return [words for words in (self.left_out, self.mixed) if words]

    def ghz_of(self, cluster: int, machine: BusyOf) -> Floats:
        """Give the mean clock of a cluster's busy CPUs; where their rows are missing, that of the whole."""
        ghz = self.ghz.copy()
        for index, clocks in enumerate(self.ghz_by_cpu):
            if not self._tells_cpus(index, machine):
                continue
            own = {cpu: load for cpu, load in self.by_cpu[index].items() if machine.cluster_of[cpu] == cluster}
            busy = sum(own.values())
            if busy > 0 and own.keys() <= clocks.keys():
                ghz[index] = sum(load * clocks[cpu] for cpu, load in own.items()) / busy
        return ghz

    def shared_ghz(self, cluster: int, tree: Mapping[str, Any], machine: BusyOf) -> Floats:
        """Give the clock of what a cluster shares: its own, or the whole's where the machine's clusters follow that."""
        return self.ghz if tree.get("shared_follows_machine") else self.ghz_of(cluster, machine)

    @property
    def has_sleep(self) -> bool:
        """Whether each interval has the package's time asleep."""
        return bool(np.all(np.isfinite(self.asleep)))

    def at_rest(self, cpus: Sequence[int], machine: BusyOf) -> tuple[Floats, Floats, Floats]:
        """Give the share of time in which all of some CPUs idle, and the least and the most that it may be.

        It is the package's time asleep where the source has it.  Otherwise CPUs are taken as independent where there
        are rows of them, and as awake without; at the ends they are busy in turn, or all together.
        """
        shares = np.stack([self.asleep] * 3)
        for index in map(int, np.flatnonzero(np.isnan(self.asleep))):
            if self._tells_cpus(index, machine):
                loads = np.array([min(self.by_cpu[index].get(cpu, 0.0), 1.0) for cpu in cpus])
                shares[:, index] = np.prod(1 - loads), max(1 - loads.sum(), 0), 1 - loads.max()
            else:
                whole = float(self.load[index]) / (1 if self.load_is_share else machine.cpus)
                shares[:, index] = 0, 0, 1 - min(whole, 1.0)
        return shares[0], shares[1], shares[2]

    def busy_cores(self, machine: BusyOf) -> Floats:
        """Give busy cores of the machine."""
        return np.array([sum(by_cluster.values()) for by_cluster in self.busy_by_cluster(machine)])

    def busy_by_cluster(self, machine: BusyOf) -> list[dict[int, float]]:
        """Give busy cores by cluster; a core with both threads busy counts 1 and what the second one adds.

        Rows of the single CPUs show which cores are busy: threads of a core are taken as independent.  Without them a
        share of all CPUs is taken for that share of the cores with all their threads; counted threads fill the cores
        (of each package, where they are separate) before they share them.
        """
        return [
            machine.busy(self.by_cpu[index]) if self._tells_cpus(index, machine) else machine.shared(float(whole))
            for index, whole in enumerate(self._without_cpus(machine))
        ]

    def idle_cpus(self, cpus: Sequence[int], machine: BusyOf) -> Floats:
        """Give how many of some CPUs idle; where rows of the CPUs are missing, all CPUs idle alike."""
        whole = self.load * (machine.cpus if self.load_is_share else 1)
        idle = np.maximum(machine.cpus - whole, 0) * len(cpus) / machine.cpus
        for index, loads in enumerate(self.by_cpu):
            if self._tells_cpus(index, machine):
                idle[index] = sum(1 - min(loads[cpu], 1.0) for cpu in cpus if cpu in loads)
        return np.asarray(idle)

    def in_states(self, names: Sequence[str], cpus: Sequence[int]) -> list[list[float]]:
        """Give each interval's shares of some CPUs' idle time in states; empty where the source has none of it.

        turbostat writes their names without ``_`` and what follows ``-``.
        """
        keys = [(name.lower(), name.lower().replace("_", "").partition("-")[0]) for name in names]
        found = []
        for rows in self.states:
            own = [rows[cpu] for cpu in cpus if cpu in rows] or [rows[None]]
            of = [sum(next((row[key] for key in pair if key in row), 0.0) for row in own) for pair in keys]
            found.append([share / sum(of) for share in of] if sum(of) > 0 else [])
        return found

    def spread_out(self, machine: BusyOf) -> Floats:
        """Give busy cores where each had one busy thread before any had two: shares of CPUs leave that open."""
        taken = self.busy_cores(machine)
        if not self.load_is_share:
            return taken
        threads = self.load * machine.cpus
        spread = np.minimum(threads, machine.cores)
        spread = spread + machine.second * np.maximum(threads - machine.cores, 0)
        told = [self._tells_cpus(index, machine) for index in range(len(taken))]
        return np.asarray(np.where(told, taken, spread))

    def spread(self, machine: BusyOf) -> float:
        """Give how many times more cores may have been busy: shares of CPUs do not part threads from cores."""
        taken = float(np.sum(self.busy_cores(machine)))
        return max(float(np.sum(self.spread_out(machine))) / max(taken, 1e-9), 1.0)

    def spread_of_clusters(self, machine: BusyOf, capacities: Sequence[float]) -> tuple[float, float]:
        """Give how many times less and more a core may draw, if loads without CPUs leave open which clusters were busy.

        Taken are CPUs that are all equally busy; at the ends the biggest are busy first, or the smallest.
        """
        taken = first_big = first_small = 0.0
        ascending = sorted(range(len(capacities)), key=lambda index: capacities[index])
        for index, by_cluster in enumerate(self.busy_by_cluster(machine)):
            here = sum(capacities[cluster] * busy for cluster, busy in by_cluster.items())
            small = big = here
            if not self._tells_cpus(index, machine):
                small, big = (
                    _filled(by_cluster, machine.all_busy, capacities, order) for order in (ascending, ascending[::-1])
                )
            taken, first_small, first_big = taken + here, first_small + small, first_big + big
        if min(taken, first_small, first_big) <= 0:
            return 1.0, 1.0
        return min(taken / first_big, 1.0), max(taken / first_small, 1.0)

    def _tells_cpus(self, index: int, machine: BusyOf) -> bool:
        """Whether the interval has the CPUs that its load is the mean of."""
        loads = self.by_cpu[index] if index < len(self.by_cpu) else {}
        if not self.load_is_share or not loads or not set(loads) <= set(machine.core_of):
            return False
        return abs(sum(loads.values()) / len(loads) - float(self.load[index])) < 0.02

    def _without_cpus(self, machine: BusyOf) -> Floats:
        cores, second_thread = machine.cores, machine.second * (machine.cpus / machine.cores - 1)
        if self.load_is_share:
            return self.load * cores * (1 + second_thread)

        def filled(load: Floats | float, room: float) -> Floats:
            return np.minimum(load, room) + second_thread * np.clip(np.asarray(load) - room, 0, room)

        if len(self.by_package) == len(self.load) and all(self.by_package):
            room = cores / machine.packages
            return np.array([sum(float(filled(load, room)) for load in loads) for loads in self.by_package])
        return filled(self.load, cores)


def _filled(
    by_cluster: Mapping[int, float], rooms: Mapping[int, float], capacities: Sequence[float], order: Sequence[int]
) -> float:
    """Give busy cores times capacity, if those of all clusters fill them in this order."""
    left, total = sum(by_cluster.values()), 0.0
    for cluster in order:
        here = min(left, rooms[cluster])
        left, total = left - here, total + capacities[cluster] * here
    return total


def join_samples(parts: list[Samples]) -> Samples:
    """Put the intervals of several logs of one machine together, as those of one.

    Raises
    ------
    InputError
        They are not of one kind: watts of other columns, or loads in shares and in cores.
    """
    first = parts[0]
    if len(parts) == 1:
        return first
    for part in parts[1:]:
        if (part.scope, part.load_is_share) != (first.scope, first.load_is_share):
            words = f"{part.name} has {part.scope}, {first.name} {first.scope}"
            raise InputError(f"logs of other kinds do not go together: {words}; name one of them")
    of_cores = [part.cores_watts for part in parts if part.cores_watts is not None]

    def joined(name: str) -> Floats:
        return np.concatenate([getattr(part, name) for part in parts])

    def said(name: str) -> str:
        return "; ".join(f"{part.name}: {words}" for part in parts if (words := getattr(part, name)))

    return Samples(
        f"{first.name} and {len(parts) - 1} more",
        joined("watts"),
        joined("ghz"),
        joined("load"),
        first.load_is_share,
        joined("asleep"),
        np.concatenate(of_cores) if len(of_cores) == len(parts) else None,
        first.scope,
        [loads for part in parts for loads in part.by_package],
        said("left_out"),
        said("mixed"),
        by_cpu=[loads for part in parts for loads in part.by_cpu or [{}] * len(part.load)],
        ghz_by_cpu=[clocks for part in parts for clocks in part.ghz_by_cpu or [{}] * len(part.load)],
        states=[shares for part in parts for shares in part.states],
    )


def log_of(folder: Path) -> Path:
    """Give the file of a folder of stats-collect that has the watts; a file is itself."""
    if not folder.is_dir():
        return folder
    for name in ("turbostat.raw.txt", "turbostat.txt"):
        found = sorted(folder.rglob(name), key=lambda path: (len(path.parts), str(path)))
        if found:
            return found[0]
    raise InputError(f"{folder}: no stats/turbostat.raw.txt of stats-collect in it")


def _read_text(path: Path) -> str:
    return packed_text(path, "measurements").removeprefix("\ufeff")


def _joules_to_watts(table: Table, path: Path) -> None:
    """Give watts of joules (`turbostat -J`), by the seconds that the log has for each interval."""
    values = table.values
    if "joules" not in values or "watts" in values:
        return
    rows, told = len(values["joules"]), table.seconds
    if np.all(np.isfinite(told)):
        seconds = told
    elif "time" in values and rows > 1:
        gaps = np.diff(values["time"])
        seconds = np.concatenate([[np.median(gaps)], gaps])
    else:
        joules = table.names["joules"]
        raise InputError(f"{path}: energies (`{joules}`), but not of how many seconds (a line `10.0 sec`, or a time)")
    seconds = np.where(seconds > 0, seconds, np.nan)
    values["watts"], table.names["watts"] = values["joules"] / seconds, "pkgwatt"
    for of in ("cores'", "GPU's"):
        if f"{of} joules" in values:
            values[f"{of} watts"] = values[f"{of} joules"] / seconds


def _counter_to_watts(table: Table) -> None:
    """Give watts of an energy that is counted up, by its times."""
    values = table.values
    if "watts" in values or not {"energy", "time"} <= set(values) or len(values["time"]) < 2:
        return
    seconds, joules = np.diff(values["time"]), np.diff(values["energy"])
    watts = joules / np.where(seconds > 0, seconds, np.nan)
    # A counter that ran over is unknown for its interval.
    watts[watts < 0] = np.nan
    for name in values:
        values[name] = values[name][1:]
    # Rows of the single CPUs belong to the intervals, too.
    for rows in (table.by_package, table.by_cpu, table.ghz_by_cpu, table.states):
        del rows[:1]
    values["watts"], table.names["watts"] = watts, "watts"


def _with_meter(table: Table, folder: Path) -> None:
    """Give turbostat's intervals the watts of the wall meter beside it, where it has none of its own."""
    meter = folder / "acpower.raw.txt"
    if {"watts", "joules"} & set(table.values) or "time" not in table.values or not meter.exists():
        return
    read = read_table(_read_text(meter), meter)
    if read is None or not {"time", "watts"} <= set(read.values):
        return
    times, watts = read.values["time"], read.values["watts"]
    table.values["watts"] = np.interp(table.values["time"], times, watts, left=np.nan, right=np.nan)
    table.names["watts"] = "wall_w"


_GHZ = (0.01, 12.0)
"""Clocks of processors; beyond it a column is in another unit than that of its name."""


def read_samples(path: Path) -> Samples:
    """Read a source of power: a log, a table, or a folder of stats-collect.

    Raises
    ------
    InputError
        It has no watts, no clock or no load, with the columns that would be known.
    """
    path = log_of(path)
    table = read_table(_read_text(path), path) or Table({}, {}, {}, np.array([]))
    _with_meter(table, path.parent)
    _joules_to_watts(table, path)
    _counter_to_watts(table)
    values = table.values
    scope = table.names.get("watts", "")
    of_gpu = values.get("GPU's watts")
    if of_gpu is not None and "watts" in values and np.any(np.isfinite(of_gpu)):
        # The package's watts have the GPU's, which no load of CPUs explains.
        values["watts"] = values["watts"] - of_gpu
        scope += " less gfxwatt"
    for quantity in ("watts", "clock", "load"):
        if quantity not in values:
            raise InputError(f"{path}: no column of the {quantity} (known: {', '.join(KNOWN[quantity])})")
    watts, ghz, load = (values[quantity] for quantity in ("watts", "clock", "load"))
    column = table.columns["load"]
    if not column.is_count and not column.has_unit and np.nanmax(load, initial=0) > 1.5:
        load = load / 100  # `load` or `util` without a unit, in percent.
    # Idle intervals may have no clock of busy cores.
    ghz = np.where(np.isnan(ghz) & (load == 0), 0.0, ghz)
    good = np.isfinite(watts) & np.isfinite(ghz) & np.isfinite(load) & (watts > 0)
    if not np.any(good):
        raise InputError(f"{path}: no row has watts, clock and load")
    low, high = _GHZ
    run = ghz[good & (ghz > 0)]
    if len(run) and not (low <= float(np.median(run)) <= high):
        name = table.names["clock"]
        raise InputError(f"{path}: `{name}` would be a clock of {np.median(run):g} GHz; name the column by its unit")
    if not column.is_count and float(np.max(load[good])) > 1.1:
        name = table.names["load"]
        raise InputError(f"{path}: `{name}` would be {100 * float(np.max(load[good])):.0f} % of all CPUs")
    cores = values["cores' watts"][good] if "cores' watts" in values else None
    if cores is not None and not np.all((cores > 0) & (cores <= watts[good])):
        cores = None
    packages = [table.by_package[i] for i in np.flatnonzero(good)] if table.by_package else []
    by_cpu = [table.by_cpu[i] for i in np.flatnonzero(good)] if table.by_cpu else []
    ghz_by_cpu = [table.ghz_by_cpu[i] for i in np.flatnonzero(good)] if table.ghz_by_cpu else []
    lacking = len(good) - int(np.count_nonzero(good))
    left_out = f"{lacking} of {len(good)} rows are left out: no watts above 0, no clock or no load" if lacking else ""
    kinds = {name: [cells[i] for i in np.flatnonzero(good)] for name, cells in table.kinds.items()}
    return Samples(
        path.name,
        watts[good],
        ghz[good],
        load[good],
        not column.is_count,
        values["asleep"][good],
        cores,
        scope,
        packages,
        left_out,
        _mixed(watts[good], ghz[good], load[good], kinds),
        by_cpu,
        ghz_by_cpu,
        [table.states[i] for i in np.flatnonzero(good)],
    )


_ALIKE = 1.1
"""Rows of one clock and load whose watts are farther apart than this are of several kinds."""


def _mixed(watts: Floats, ghz: Floats, load: Floats, kinds: Mapping[str, Sequence[str]]) -> str:
    """Describe rows of one clock and load that are of several kinds; empty where none are, or draw alike."""
    groups: dict[tuple[float, float], list[int]] = {}
    for at, place in enumerate(zip(ghz.tolist(), load.tolist(), strict=True)):
        groups.setdefault(place, []).append(at)
    apart = {place: float(np.max(watts[rows]) / np.min(watts[rows])) for place, rows in groups.items()}
    differ = [name for name, cells in kinds.items() if any(len({cells[at] for at in of}) > 1 for of in groups.values())]
    most = max(apart.values(), default=1.0)
    if most < _ALIKE or not differ:
        return ""
    columns = ", ".join(f"`{name}`" for name in differ)
    return (
        f"which rows are alike: at one clock and load they are up to {100 * (most - 1):.0f} % apart, by {columns}, "
        "which the fit takes together (give it rows of one kind)"
    )
