"""A trace as one HTML page: what each CPU ran, its frequency, utilisation and power, zoomable to microseconds.

The page is ``templates/trace_view.html``; here its data are gathered and packed.  Every series is a list of steps: a
time and the value that holds from then on.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from opplab import _opplab
from opplab.errors import InputError
from opplab.report.html import render
from opplab.report.numbers import quantity
from opplab.trace.frames import CPUS_MAX, check_fields, frame_of

if TYPE_CHECKING:
    import numpy.typing as npt
    import polars as pl

    from opplab.simulation.machine import Machine
    from opplab.trace.energy import TraceEnergy
    from opplab.trace.signals import Signals


# What the page's decoder takes as "and the next one on top".
MORE = 0xFFFF_FFFF

DAY_NS = 86_400_000_000_000

DAYS_MAX = 30
"""The longest span of a page: damaged times are centuries apart."""
IDLE_EXIT = 0xFFFF_FFFF
BUCKETS = 600
# Rows of their own in the table of energy.
TASKS = 10
# Utilisation of root run queues as a trace may hold it: name, column of the CPU, column of the value.
UTIL_EVENTS = {"pelt_cfs_tp": "util", "lisa__sched_pelt_cfs": "util", "sched_pelt_cfs": "util"}
# What a page shows of events; damaged formats may lack it.
FIELDS = {
    "sched_switch": ["next_pid"],
    "cpu_frequency": ["cpu_id", "state"],
    "cpu_idle": ["cpu_id", "state"],
    "freq_request": ["cpu_id", "state"],
    **{event: [field] for event, field in UTIL_EVENTS.items()},
}


class Recording(Protocol):
    """What the page asks of a trace."""

    path: Path
    problems: list[str]
    notes: list[str]

    @property
    def info(self) -> dict[str, Any]:
        """Facts of the trace: format, CPUs, duration, clock, events."""

    def read(self, names: list[str]) -> _opplab.Trace:
        """Decode the events of these names."""

    def energy(self, machine: Machine, *, from_ns: int | None = None, to_ns: int | None = None) -> TraceEnergy:
        """Report what the trace cost."""

    def signals(self, machine: Machine | None, *, every_us: int) -> Signals:
        """Rebuild the kernel's signals."""

    def task_names(self) -> dict[int, str]:
        """Names of tasks by pid."""


@dataclass
class Steps:
    """Times in ns of the trace clock, and the values from then on."""

    t: npt.NDArray[np.int64]
    v: npt.NDArray[np.int64]

    def clip(self, start_ns: int, end_ns: int) -> Steps:
        """Give what holds from `start_ns` on, with times from there."""
        first = max(int(np.searchsorted(self.t, start_ns, side="right")) - 1, 0)
        last = int(np.searchsorted(self.t, end_ns, side="left"))
        return Steps(np.maximum(self.t[first:last], start_ns) - start_ns, self.v[first:last])

    def at(self, times: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Give the values at some times; -1 before the first."""
        if not len(self.t):
            return np.full(len(times), -1, np.int64)
        places = np.searchsorted(self.t, times, side="right") - 1
        return np.where(places < 0, -1, self.v[np.maximum(places, 0)])


@dataclass
class Cpu:
    """What the page shows of a CPU."""

    name: str
    run: Steps
    wait: npt.NDArray[np.int64]
    max_khz: int = 0
    series: dict[str, Steps] = field(default_factory=dict)


def _steps(table: pl.DataFrame | None, cpu_column: str, value: str, *cpus: int) -> Steps:
    """Give what the events of some CPUs have, of a policy's CPUs what any of them asked for."""
    if table is None:
        return Steps(np.empty(0, np.int64), np.empty(0, np.int64))
    here = table.filter(table[cpu_column].is_in(cpus))
    return Steps(here["time_ns"].to_numpy().astype(np.int64), here[value].to_numpy().astype(np.int64))


def _power(cpu: Cpu, cluster: dict[str, Any]) -> Steps:
    """Power of a CPU in uW: of its OPP while a task runs, of its idle state else."""
    freq, idle = (cpu.series.get(name) or _steps(None, "", "") for name in ("freq", "idle"))
    times = np.unique(np.concatenate([cpu.run.t, freq.t, idle.t]))
    opps = np.array([opp["khz"] for opp in cluster["opps"]], np.int64)
    busy = np.array([opp["busy_uw"] or 0 for opp in cluster["opps"]], np.int64)
    states = np.array([state["power_uw"] or 0 for state in cluster["idle"]] or [0], np.int64)
    khz = freq.at(times)
    # An unknown frequency counts as the highest.
    place = np.where(khz < 0, len(opps) - 1, np.minimum(np.searchsorted(opps, khz), len(opps) - 1))
    state = np.clip(idle.at(times) - 1, 0, len(states) - 1)
    values = np.where(cpu.run.at(times) > 0, busy[place], states[state])
    changed = np.concatenate([[True], values[1:] != values[:-1]]) if len(values) else np.empty(0, bool)
    return Steps(times[changed], values[changed])


def _clusters(machine: Machine | None) -> dict[int, dict[str, Any]]:
    if machine is None:
        return {}
    about = machine.describe()
    return {entry["cpu"]: about["clusters"][entry["cluster"]] for entry in about["cpus"]}


def _pack_times(times: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    steps = np.diff(times, prepend=0)
    if not len(steps) or int(steps.max()) < MORE:
        return steps.astype(np.uint32)
    packed: list[int] = []
    for step in steps.tolist():
        more, rest = divmod(step, MORE)
        packed += [MORE] * more + [rest]
    return np.array(packed, np.uint32)


def pack(about: dict[str, Any], cpus: list[Cpu]) -> str:
    """Give the page's data: a head in JSON and arrays of 32 bits behind it, deflated, in base64."""
    arrays: list[npt.NDArray[np.uint32]] = []
    about["cpus"] = []
    for cpu in cpus:
        entry: dict[str, Any] = {
            "name": cpu.name,
            "max_khz": cpu.max_khz,
            "max_power": about["max_power"],
            "series": {},
        }
        for name, steps in {"run": cpu.run, **cpu.series}.items():
            times = _pack_times(steps.t)
            entry["series"][name] = {"steps": len(times), "values": len(steps.v)}
            arrays += [times, np.clip(steps.v, 0, MORE).astype(np.uint32)]
        arrays.append(np.clip(cpu.wait, 0, MORE).astype(np.uint32))
        about["cpus"].append(entry)
    head = json.dumps(about, separators=(",", ":")).encode()
    raw = len(head).to_bytes(4, "little") + head + b"".join(array.astype("<u4").tobytes() for array in arrays)
    return base64.b64encode(zlib.compress(raw, 6)).decode()


def _overview(cpus: list[Cpu], duration_ns: int) -> list[float]:
    """Give the mean share of busy CPUs in equal parts of the time."""
    edges = np.linspace(0, duration_ns, BUCKETS + 1)
    busy = np.zeros(BUCKETS)
    for cpu in cpus:
        times = np.append(cpu.run.t, duration_ns)
        total = np.concatenate([[0], np.cumsum(np.diff(times) * (cpu.run.v > 0))])
        if len(cpu.run.t):
            busy += np.diff(np.interp(edges, times, total))
    share = busy / (max(len(cpus), 1) * duration_ns / BUCKETS)
    return [round(float(value), 3) for value in share]


def page(
    trace: Recording,
    machine: Machine | None = None,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    title: str = "",
) -> str:
    """Give a trace as an HTML page.

    Parameters
    ----------
    machine : Machine, optional
        For power, and capacities in load tracking.
    from_ns, to_ns : int, optional
        Show only this time of the trace clock.
    title : str
        The file's name if it is empty.
    """
    info = trace.info
    start_ns = info["start_ns"] if from_ns is None else from_ns
    end_ns = info["start_ns"] + info["duration_ns"] if to_ns is None else to_ns
    end_ns = max(end_ns, start_ns + 1)
    days = (end_ns - start_ns) / DAY_NS
    if days > DAYS_MAX:
        raise InputError(f"a page of {days:.0f} days: give --from and --to that are at most {DAYS_MAX} days apart")
    if info["cpus"] > CPUS_MAX:
        raise InputError(f"a page of {info['cpus']} CPUs: at most {CPUS_MAX} can be shown")
    # Utilisation falls between events, too: at each tick, or as often as a wide screen can show. It is computed for the
    # whole trace, whatever part is shown, and a damaged time may be far away.
    every_us = max(4000, max(end_ns - start_ns, info["duration_ns"]) // 1_000_000_000)
    signals = trace.signals(machine, every_us=every_us)
    wanted = ["sched_switch", "cpu_frequency", "cpu_idle", "freq_request", *UTIL_EVENTS]
    inner = trace.read([name for name in wanted if name in info["events"]])
    tables = {name: frame_of(inner.columns(name)) for name, _, _ in inner.tables()}
    for name, fields in FIELDS.items():
        if name in tables:
            check_fields(trace.path, name, tables[name], fields)
    names = trace.task_names()
    if "sched_switch" in tables:
        # A damaged event may lack who came.
        tables["sched_switch"] = tables["sched_switch"].drop_nulls("next_pid")
    pids = sorted({0, *(tables["sched_switch"]["next_pid"].to_list() if "sched_switch" in tables else [])})
    numbers = {pid: number for number, pid in enumerate(pids)}
    own = next((name for name in UTIL_EVENTS if name in tables), None)
    clusters = _clusters(machine)
    cpus = []
    util = signals.rqs if own is None else tables[own]
    for number in range(info["cpus"]):
        cluster = clusters.get(number)
        shared = cluster is not None and cluster["policy"] == "shared"
        policy = [other for other in clusters if clusters[other] is cluster] if shared else [number]
        cpus.append(_cpu(number, tables, util, own, signals.waits, numbers, cluster, policy))
    for cpu in cpus:
        first = max(int(np.searchsorted(cpu.run.t, start_ns, side="right")) - 1, 0)
        clipped = cpu.run.clip(start_ns, end_ns)
        cpu.wait = cpu.wait[first : first + len(clipped.t)]
        cpu.run = clipped
        cpu.series = {name: steps.clip(start_ns, end_ns) for name, steps in cpu.series.items() if len(steps.t)}
    powers = [opp["busy_uw"] or 0 for cluster in clusters.values() for opp in cluster["opps"]]
    duration_ns = end_ns - start_ns
    about = {
        "start_s": start_ns // 1_000_000_000,
        "start_rest_ns": start_ns % 1_000_000_000,
        "duration_ns": duration_ns,
        "tasks": [[pid, names.get(pid, "<...>")] for pid in pids],
        "overview": _overview(cpus, duration_ns),
        "max_power": max(powers, default=0),
    }
    subtitle = f"{info['format']}, {info['cpus']} CPUs, {duration_ns / 1e9:.6f} s"
    if machine:
        subtitle += f", machine {machine.name}"
    lost = sum(count or 0 for _, _, count in info["missed"])
    notes = [f"The kernel lost {lost} events in {len(info['missed'])} gaps."] if info["missed"] else []
    if trace.problems:
        notes.append(f"The trace is damaged; this is what could be read ({trace.problems[0]}).")
    notes += trace.notes
    return render(
        "trace_view.html",
        title=title or trace.path.name,
        subtitle=subtitle,
        notes=[f"{words[:1].upper()}{words[1:].removesuffix('.')}." for words in notes],
        data=pack(about, cpus),
        energy=_energy(trace, machine, from_ns, to_ns),
        version=_opplab.__version__,
    )


def _energy(trace: Recording, machine: Machine | None, from_ns: int | None, to_ns: int | None) -> dict[str, Any] | None:
    """Give the section about energy: its parts by cluster and by task, each of which add up to the sum."""
    if machine is None or machine._inner.unknown_power:
        return None
    found = trace.energy(machine, from_ns=from_ns, to_ns=to_ns)

    def row(who: str, joules: float | None, shared_j: float | None) -> dict[str, str]:
        percent = f"{100 * joules / found.total_j:.1f}" if found.total_j and joules is not None else ""
        return {
            "who": who,
            "mj": "" if joules is None else quantity(joules, 1e-3),
            "percent": percent,
            "shared": "" if shared_j is None else quantity(shared_j, 1e-3),
        }

    rest = row("rest of the machine", found.floor_j, None)
    clusters = [row(f"cluster {one['cluster']}", one["energy_j"], one["shared_j"]) for one in found.clusters.to_dicts()]
    tasks, others = found.tasks.head(TASKS), found.tasks.tail(-TASKS)
    named = [row(f"{one['comm']} ({one['pid']})", one["energy_j"], one["shared_j"]) for one in tasks.to_dicts()]
    if len(others):
        # Sums of what is known; of nothing there is none.
        energy_j, shared_j = (float(of.sum()) if of.count() else None for of in others["energy_j", "shared_j"])
        named.append(row(f"{len(others)} other task{'s' * (len(others) > 1)}", energy_j, shared_j))
    low, high = quantity(found.low_j, 1e-3), quantity(found.high_j, 1e-3)
    between = f"Between {low} and {high} mJ by the machine's ranges and unknown clocks."
    partly = found.has_unknown_clocks
    return {
        "total": f"{quantity(found.total_j, 1e-3)} mJ{' at known clocks' if partly else ''}",
        "note": between if partly or found.high_j > found.low_j else "",
        "parts": {"by cluster": [*clusters, rest], "by task": [*named, row("nobody (idle)", found.idle_j, None), rest]},
    }


def _cpu(
    cpu: int,
    tables: dict[str, pl.DataFrame],
    util: pl.DataFrame,
    own: str | None,
    waits: pl.DataFrame,
    numbers: dict[int, int],
    cluster: dict[str, Any] | None,
    policy: list[int],
) -> Cpu:
    switches = tables.get("sched_switch")
    run = _steps(switches, "cpu", "next_pid", cpu)
    run.v = np.array([numbers.get(pid, 0) for pid in run.v.tolist()], np.int64)
    waited = waits.filter((waits["cpu"] == cpu) & waits["woken"])
    wait = Steps(waited["time_ns"].to_numpy(), waited["wait_ns"].to_numpy())
    places = np.searchsorted(wait.t, run.t)
    found = (places < len(wait.t)) & (np.append(wait.t, -1)[np.minimum(places, len(wait.t))] == run.t)
    made = Cpu(f"cpu{cpu}", run, np.where(found, np.append(wait.v, 0)[np.minimum(places, len(wait.v))], 0))
    made.series["freq"] = _steps(tables.get("cpu_frequency"), "cpu_id", "state", cpu)
    made.series["req"] = _steps(tables.get("freq_request"), "cpu_id", "state", *policy)
    idle = _steps(tables.get("cpu_idle"), "cpu_id", "state", cpu)
    made.series["idle"] = Steps(idle.t, np.where((idle.v < 0) | (idle.v >= IDLE_EXIT), 0, idle.v + 1))
    cpu_column = "field_cpu" if own and "field_cpu" in util.columns else "cpu"
    made.series["util"] = _steps(util, cpu_column, UTIL_EVENTS[own] if own else "util_avg", cpu)
    khz = made.series["freq"].v
    made.max_khz = int(khz.max()) if len(khz) else 0
    if cluster is not None:
        made.name += f" {cluster['name']}"
        made.max_khz = max(made.max_khz, cluster["opps"][-1]["khz"])
        if any(opp["busy_uw"] for opp in cluster["opps"]):
            made.series["power"] = _power(made, cluster)
    return made
