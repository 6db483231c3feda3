"""What a recorded trace cost and who caused it, as polars tables.

The sums are crate `replay`'s (module `energy`), whole femtojoules that add up to the total; here are names and tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.files import write_bytes

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.machine import Machine
    from opplab.trace.recording import Trace


@dataclass(frozen=True)
class TraceEnergy:
    """Energy of a trace in J."""

    cpus: pl.DataFrame
    """``low_j`` and ``high_j``, here and in the other tables: `energy_j` with all powers at the lower, or at the upper
    end of the ranges that the machine file states; `energy_j` itself where it states none. By CPU: ``energy_j`` of
    running and idling; before its first ``cpu_frequency`` ``unknown_ns`` of running and ``idle_unknown_ns`` in idle
    states whose power hangs on the clock are not in it, but would add between ``unknown_low_j`` and ``unknown_high_j``
    (at the clocks that cost least and most, boosted ones included). What was not seen to do anything of known power has
    no energy (null)."""
    clusters: pl.DataFrame
    """By cluster: of its CPUs, and of what they share. ``unknown_ns`` is that of the latter, ``unknown_low_j`` and
    ``unknown_high_j`` are of both."""
    tasks: pl.DataFrame
    """By task, a row a thread, also where a later one had its pid: ``cpu_j`` while it ran, and ``shared_j``, its part
    of what its cluster's CPUs share. ``unknown_ns`` of running at an unknown clock is in neither; what ran at no known
    clock has no energy (null)."""
    processes: pl.DataFrame
    groups: pl.DataFrame
    """`processes` and `groups`: sums of tasks by process (null where the trace lacks it), and by kind of name
    (``kworker``, ``irq``, ...)."""
    apps: pl.DataFrame
    """Sums of processes by program: of Android's processes the package (``com.app:service`` is ``com.app``)."""
    cgroups: pl.DataFrame
    """Sums of tasks by control group: the last one that the trace moves the task, or its process, to
    (``cgroup_attach_task``), or that of the run which wrote the trace; null where there is neither."""
    rails: pl.DataFrame
    """Meters in the trace, beside the same time of the clusters that their names stand for: ``modelled_j``, to which
    unknown clocks in that time would add between ``unknown_low_j`` and ``unknown_high_j``. ``error`` is relative; null
    where such a clock leaves it unknown."""
    steps: pl.DataFrame
    """Power of each cluster over time in uW: ``time_ns`` and a column a cluster."""
    total_j: float
    """Everything at known clocks (`left_out`)."""
    low_j: float
    high_j: float
    """`low_j` and `high_j`: everything, with all powers at the lower, or upper ends of the machine's ranges, and what
    hangs on an unknown clock at its least, or at its most. Where clocks are not known `total_j` may lie below
    both."""
    idle_j: float
    floor_j: float
    """`idle_j` and `floor_j`: of the total: nobody's (idle CPUs and clusters), and the rest of the machine."""
    window_ns: int
    unseen_ns: int
    """Of all CPUs: time of which no event shows what they did: before their first switch or idle event, after their
    task was seen elsewhere, offline. It is in no sum, and in neither `low_j` nor `high_j`."""
    exact: bool
    """Tasks, idle and floor add up to the clusters and the floor, femtojoule for femtojoule."""

    def tables(self) -> dict[str, pl.DataFrame]:
        """Give all tables by name."""
        names = ("cpus", "clusters", "tasks", "processes", "groups", "apps", "cgroups", "rails", "steps")
        return {name: getattr(self, name) for name in names}

    @property
    def has_unknown_clocks(self) -> bool:
        """Whether something ran, or was shared, at a clock that is not known."""
        running, idle = self.cpus["unknown_ns"].sum(), self.cpus["idle_unknown_ns"].sum()
        return bool(running or idle or self.clusters["unknown_ns"].sum())

    @property
    def left_out(self) -> list[str]:
        """What is not in `total_j`, in words; `low_j` and `high_j` have all of it but `unseen_ns`."""
        running_ns, idle_ns = (int(self.cpus[name].sum()) for name in ("unknown_ns", "idle_unknown_ns"))
        shared_ns = max(self.clusters["unknown_ns"].to_list(), default=0)
        return left_out(running_ns, idle_ns, shared_ns, self.unseen_ns)

    def write(self, folder: Path) -> list[Path]:
        """Write each table as a Parquet file into a folder; gives the files."""
        from opplab import results

        return results.write_tables(self.tables(), folder, "energy_")


def left_out(running_ns: int, idle_ns: int, shared_ns: int, unseen_ns: int) -> list[str]:
    """Name what no energy of a trace has: what hangs on unknown clocks, and CPUs not seen yet."""
    because = "whose clock is not known (no cpu_frequency event before)"
    parts = (
        (running_ns, "without {:.3f} ms of running, " + because),
        (idle_ns, "without {:.3f} ms of idle CPUs in states whose power hangs on a clock that is not known"),
        (
            shared_ns,
            "without what clusters share, for up to {:.3f} ms in which their clock, or whether a CPU kept them awake, "
            "is not known",
        ),
        (unseen_ns, "without {:.3f} ms of CPUs of which no event shows what they did, in no interval"),
    )
    return [words.format(time_ns / 1e6) for time_ns, words in parts if time_ns]


def group_of(comm: str) -> str:
    """Give the kind of a task by its name: without what numbers it.

    Examples
    --------
    >>> group_of("kworker/3:1H-kblockd"), group_of("irq/12-mmc0"), group_of("Binder:598_2"), group_of("sh")
    ('kworker', 'irq', 'Binder', 'sh')
    """
    return re.split(r"[/:#]|[-_ ]?\d", comm, maxsplit=1)[0] or comm


def app_of(process: str) -> str:
    """Give the program of a process by its name: an Android package without its service, a path's last part.

    A kernel thread is none; its kind stands for it.

    Examples
    --------
    >>> app_of("com.example.app:remote"), app_of("/usr/bin/worker"), app_of("surfaceflinger"), app_of("./a:1/b")
    ('com.example.app', 'worker', 'surfaceflinger', 'b')
    >>> app_of("kworker/u24:1-events"), app_of("ksoftirqd/2"), app_of("irq/45-mmc0"), app_of("sugov:4")
    ('kworker', 'ksoftirqd', 'irq', 'sugov')
    """
    if re.match(r"[\w-]+/u?\d", process):
        return group_of(process)
    return process.rsplit("/", 1)[-1].split(":", 1)[0] or process


PID_MAX_LIMIT = 1 << 22
"""The kernel has no larger pid (include/linux/threads.h)."""


def by_number(of_pid: dict[int, str], threads: list[tuple[int, int, str | None, bool]]) -> dict[int, str]:
    """Give what is known of pids by the numbers of threads; of a pid that several had it is the last one's.

    Threads that have a name of their own keep that.

    Examples
    --------
    >>> by_number({7: "cat", 8: "sh"}, [(7, 7, "ls", False), (7 + PID_MAX_LIMIT, 7, None, True)])
    {8: 'sh', 7: 'ls', 4194311: 'cat'}
    """
    reused = {pid for _, pid, _, _ in threads}
    found = {pid: value for pid, value in of_pid.items() if pid not in reused}
    for number, pid, name, is_last in threads:
        value = of_pid.get(pid) if name is None and is_last else name
        found |= {} if value is None else {number: value}
    return found


def pid_of(number: pl.Expr) -> pl.Expr:
    """Give the pid of a thread's number."""
    return number % PID_MAX_LIMIT


SCHEMAS: dict[str, dict[str, str]] = {
    "tasks": {
        "pid": "Int64",
        "process": "Int64",
        "energy_j": "Float64",
        "cpu_j": "Float64",
        "shared_j": "Float64",
        "running_ns": "Int64",
        "unknown_ns": "Int64",
        "is_known": "Boolean",
    },
    "rails": {
        "rail": "String",
        "from_ns": "Int64",
        "to_ns": "Int64",
        "measured_j": "Float64",
        "clusters": "String",
        "modelled_j": "Float64",
    },
}


def make(
    raw: list[dict[str, Any]],
    names: dict[int, str],
    cgroups: dict[int, str],
    unknown: Callable[[int, int, str], tuple[float, float]] = lambda *_: (0.0, 0.0),
) -> TraceEnergy:
    """Make tables of what `_opplab.trace_energy` gave of the machine and, if it has ranges, of their ends.

    Behind the machine itself stand as many at the lower ends as at the upper ones (``power_ends``). `names` are those
    of tasks by pid, `cgroups` the paths of those that the trace has. `unknown` gives what unknown clocks of
    clusters add between two times, at least and at most, J.
    """
    import polars as pl

    own, *others = raw
    lows, highs = others[: len(others) // 2] or raw, others[len(others) // 2 :] or raw

    def at_end(end: Callable[[Iterable[float]], float], machines: list[dict[str, Any]], name: str) -> list[float]:
        # The same rows in the same order, because they are of the same events.
        columns = [[row["energy_j"] for row in machine[name]] for machine in machines]
        return [end(row) for row in zip(*columns, strict=True)]

    def all_at_end(end: Callable[[Iterable[float]], float], machines: list[dict[str, Any]], key: str) -> float:
        # Clusters are at their own ends.
        first = machines[0]
        clusters = sum(at_end(end, machines, "clusters")) - sum(at_end(end, [first], "clusters"))
        return float(first[key] + clusters)

    def table(name: str) -> pl.DataFrame:
        schema = {column: getattr(pl, kind) for column, kind in SCHEMAS.get(name, {}).items()}
        made = pl.DataFrame(own[name], schema=schema or None)
        if "energy_j" not in made.columns:
            return made
        ends = [
            pl.Series("low_j", at_end(min, lows, name), dtype=pl.Float64),
            pl.Series("high_j", at_end(max, highs, name), dtype=pl.Float64),
        ]
        place = made.columns.index("energy_j") + 1
        return made.insert_column(place, ends[0]).insert_column(place + 1, ends[1])

    threads = own["threads"]
    energies = ("energy_j", "low_j", "high_j")

    def known(name: str, *parts: str) -> pl.DataFrame:
        return table(name).with_columns(pl.when("is_known").then(pl.col(*energies, *parts))).drop("is_known")

    def named(column: str, of: dict[int, str]) -> pl.Expr:
        return pl.col(column).replace_strict(of, default="<...>", return_dtype=pl.String)

    def told(column: str, of: dict[int, str]) -> pl.Expr:
        return pl.col(column).replace_strict(of, default=None, return_dtype=pl.String)

    # Of groups the trace shows which one is a pid's last thread's.
    groups = by_number(cgroups, [(number, pid, None, is_last) for number, pid, _, is_last in threads])
    tasks = table("tasks").with_columns(named("pid", by_number(names, threads)).alias("comm"))
    # In traces of runs the processes beyond the kernel's are control groups.
    is_group = pl.col("process") >= PID_MAX_LIMIT
    tasks = tasks.with_columns(
        pl.when(is_group).then("pid").otherwise("process").alias("process"),
        pl.when(is_group).then(named("process", names)).alias("group_of_run"),
    )
    tasks = tasks.with_columns(
        pl.when(pl.col("process").is_not_null()).then(named("process", names)).alias("process_name"),
        pl.col("comm").map_elements(group_of, return_dtype=pl.String).alias("group"),
        pl.coalesce("group_of_run", told("pid", groups), told("process", cgroups)).alias("cgroup"),
        pid_of(pl.col("pid")),
    )
    tasks = tasks.with_columns(pl.col("process_name").map_elements(app_of, return_dtype=pl.String).alias("app"))
    # What ran at no known clock has no energy that is known.
    tasks = tasks.with_columns(pl.when("is_known").then(pl.col(*energies, "cpu_j", "shared_j")))
    total = own["total_j"]
    order = ["pid", "comm", "process", "process_name", "group", "app", "cgroup", *energies]
    order += ["cpu_j", "shared_j", "running_ns", "unknown_ns"]
    share = (pl.col("energy_j") / total).fill_nan(None).alias("share")
    tasks = tasks.select(order).with_columns(share)
    tasks = tasks.sort("energy_j", "pid", descending=[True, False], nulls_last=[True, False])

    def sums(*keys: str) -> pl.DataFrame:
        columns = pl.col(*energies, "running_ns", "unknown_ns", "share").sum()
        is_known = pl.col("energy_j").is_not_null().any().alias("is_known")
        found = tasks.group_by(*keys).agg(pl.len().alias("tasks"), columns, is_known)
        found = found.with_columns(pl.when("is_known").then(pl.col(*energies, "share"))).drop("is_known")
        return found.sort("energy_j", keys[0], descending=[True, False], nulls_last=[True, False])

    rails = table("rails")
    ends = [unknown(row["from_ns"], row["to_ns"], row["clusters"]) for row in rails.to_dicts()]
    is_of_clusters = pl.col("modelled_j").is_not_null()
    rails = rails.with_columns(
        pl.when(is_of_clusters).then(pl.Series(name, [end[at] for end in ends], dtype=pl.Float64)).alias(name)
        for at, name in enumerate(("unknown_low_j", "unknown_high_j"))
    )
    error = (pl.col("modelled_j") / pl.col("measured_j") - 1).fill_nan(None)
    rails = rails.with_columns(pl.when(pl.col("unknown_high_j") == 0).then(error).alias("error"))
    steps = dict(own["steps"])
    start_ns, step_ns = steps.pop("start_ns"), steps.pop("step_ns")
    length = max(map(len, steps.values()), default=0)
    power = {name: [*values, *[0.0] * (length - len(values))] for name, values in steps.items()}
    return TraceEnergy(
        cpus=known("cpus", "running_j", "idle_j"),
        clusters=known("clusters", "cpus_j", "shared_j"),
        tasks=tasks,
        processes=sums("process", "process_name"),
        groups=sums("group"),
        apps=sums("app"),
        cgroups=sums("cgroup"),
        rails=rails,
        steps=pl.DataFrame({"time_ns": [start_ns + nth * step_ns for nth in range(length)], **power}),
        total_j=total,
        low_j=all_at_end(min, lows, "low_j"),
        high_j=all_at_end(max, highs, "high_j"),
        idle_j=own["idle_j"],
        floor_j=own["floor_j"],
        window_ns=own["window_ns"],
        unseen_ns=own["unseen_ns"],
        exact=own["total_fj"] == own["parts_fj"],
    )


def of(trace: Trace, machine: Machine, from_ns: int | None, to_ns: int | None) -> tuple[TraceEnergy, dict[str, Any]]:
    """Give the energy of a trace on a machine, with what of the trace was damaged and what does not fit."""
    lows, highs = machine._inner.power_ends()
    raw = _opplab.trace_energy(trace.path, [machine._inner, *lows, *highs], from_ns, to_ns)
    read: dict[tuple[int, int], dict[str, tuple[float, float]]] = {}

    def unknown(begin_ns: int, end_ns: int, clusters: str) -> tuple[float, float]:
        if not clusters or not any(one["unknown_high_j"] for one in raw[0]["clusters"]):
            return 0.0, 0.0
        if (begin_ns, end_ns) not in read:
            (part,) = _opplab.trace_energy(trace.path, [machine._inner], begin_ns, end_ns)
            read[begin_ns, end_ns] = {
                one["cluster"]: (one["unknown_low_j"], one["unknown_high_j"]) for one in part["clusters"]
            }
        # Names are put together with spaces.
        own = [ends for name, ends in read[begin_ns, end_ns].items() if f" {name} " in f" {clusters} "]
        return sum(low for low, _ in own), sum(high for _, high in own)

    return make(raw, trace.task_names(), cgroups_of(trace), unknown), raw[0]


def cgroups_of(trace: Trace) -> dict[int, str]:
    """Give the control group that each task was moved to last, of those that the trace moves."""
    moves = trace.events("cgroup_attach_task", missing_ok=True)
    if not {"pid", "dst_path"} <= set(moves.columns):
        return {}
    return dict(moves.select("pid", "dst_path").iter_rows())


def perfetto(trace: Trace, energy: TraceEnergy, path: str | Path) -> Path:
    """Write the trace for Perfetto with a counter track of each cluster's power in mW."""
    times = energy.steps["time_ns"]
    step_ns = int(times[1] - times[0]) if len(times) > 1 else 1
    start_ns = int(times[0]) if len(times) else 0
    counters = [
        (f"power {name}", "mW", start_ns, step_ns, [*(energy.steps[name] / 1000).to_list(), 0.0])
        for name in energy.steps.columns[1:]
    ]
    write_bytes(path, _opplab.perfetto_counters(trace.read(), counters))
    return Path(path)
