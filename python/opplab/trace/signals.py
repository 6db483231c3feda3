"""The kernel's signals from a recorded trace, as polars tables.

What is computed is computed by crate `trace`; here are tables, names of tasks, and sums of tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from opplab.report.numbers import some_of, with_counts
from opplab.trace.energy import by_number, left_out, pid_of

if TYPE_CHECKING:
    from collections.abc import Sequence

TABLES = ("tasks", "rqs", "freq_residency", "idle_residency", "running", "waits", "activations", "task_util",
          "cpu_energy", "cluster_energy", "task_energy")  # fmt: skip
"""The tables of `Signals`, in the order in which they are written."""
THREAD = ("pid", "comm")
"""What a row about a task is of: threads of one pid, one after the other, have names of their own."""


@dataclass(frozen=True, kw_only=True)
class _Sums:
    """What is a sum already."""

    freq_residency: pl.DataFrame
    idle_residency: pl.DataFrame
    """`freq_residency` and `idle_residency`: time by CPU and frequency (``khz``) or idle state, with its share; what
    came before the first event of the kind is in neither."""
    running: pl.DataFrame
    """Running time by task, CPU and frequency (0 while it is not known)."""
    cpu_energy: pl.DataFrame | None
    cluster_energy: pl.DataFrame | None
    task_energy: pl.DataFrame | None
    """`cpu_energy`, `cluster_energy` and `task_energy`: energy by the machine's power, as `Trace.energy` adds it up
    (None without a machine): ``cpu_j`` of each CPU alone, running and idle; of clusters with what their CPUs share; of
    tasks with their part of that. What is not known is null or has no row."""
    unknown_ns: int
    """Running time that is not in the energy, because its frequency is not known."""
    left_out: list[str]
    """All that is not in the energy, in words, as `TraceEnergy.left_out`."""

    def cpu_summary(self) -> pl.DataFrame:
        """Give one row a CPU: time of tasks, mean frequency while it is known, time in idle states, energy."""
        cpus = pl.concat([one.select("cpu") for one in (self.running, self.idle_residency, self.freq_residency)])
        running = self.running.group_by("cpu").agg(pl.col("time_ns").sum().alias("running_ns"))
        mean = (pl.col("khz").cast(pl.Float64) * pl.col("time_ns")).sum() / pl.col("time_ns").sum()
        # Of no time there is no mean.
        mean = pl.when(pl.col("time_ns").sum() > 0).then(mean.round(0))
        freq = self.freq_residency.group_by("cpu").agg(mean.cast(pl.Int64).alias("khz_mean"))
        idle = self.idle_residency.group_by("cpu").agg(pl.col("time_ns").sum().alias("idle_ns"))
        table = cpus.unique()
        for other in (running, idle, freq, self.cpu_energy):
            table = table if other is None else table.join(other, on="cpu", how="left")
        return table.sort("cpu")


@dataclass(frozen=True, kw_only=True)
class Signals(_Sums):
    """Signals of a trace."""

    tasks: pl.DataFrame
    """Load tracking of tasks after each event about them: ``time_ns``, ``pid``, ``comm``, ``cpu``, ``util_avg``,
    ``util_est``, ``runnable_avg``, ``load_avg``, and ``error_bound``: by how much ``util_avg`` may be wrong for what
    the events lack (the history before the trace at first), 4 units for roundings included."""
    rqs: pl.DataFrame
    """The same of the CPUs' root run queues."""
    waits: pl.DataFrame
    """Waits for a CPU: when they ended, how long they were, and whether a wake-up began them (else a preemption). A
    wake-up's wait is counted from its first event, ``sched_waking`` where the trace has it."""
    activations: pl.DataFrame
    """From wake-up to sleep: ``latency_ns`` until it ran, ``running_ns``, ``response_ns``, ``preemptions``,
    ``period_ns`` to the task's next wake-up, ``deadline_ns`` and ``missed`` (null where no deadline is known: the task
    is not periodic, or sleeps for a set time after its work). One that is past its deadline when the trace ends is
    there, too: missed, without a ``response_ns``, and before it ran without ``latency_ns`` and ``cpu``."""
    task_util: pl.DataFrame
    """Of each task ``util_avg_mean`` over the time from its first to its last event, or to the end if it runs there,
    and ``util_avg_max``."""

    def tables(self) -> dict[str, pl.DataFrame]:
        """Give all tables by name."""
        return {name: table for name in TABLES if (table := getattr(self, name)) is not None}

    def write(self, folder: Path) -> list[Path]:
        """Write each table as a Parquet file into a folder; gives the files."""
        from opplab import results

        return results.write_tables(self.tables(), folder)

    def task_summary(self) -> pl.DataFrame:
        """Give one row a task: running time, utilisation, waits, energy, activations missed; the busiest first."""
        wait_ns = pl.col("wait_ns")
        # The nearest rank, as the engine's summary has it.
        waits = (
            self.waits.filter(pl.col("woken"))
            .group_by(THREAD)
            .agg(
                pl.len().alias("wakeups"),
                wait_ns.quantile(0.5, "equiprobable").cast(pl.Int64).alias("latency_ns_p50"),
                wait_ns.quantile(0.99, "equiprobable").cast(pl.Int64).alias("latency_ns_p99"),
                wait_ns.max().alias("latency_ns_max"),
            )
        )
        # Without a deadline nothing is known to be late.
        late = pl.when(pl.col("missed").count() > 0).then(pl.col("missed").sum()).alias("missed")
        missed = self.activations.group_by(THREAD).agg(pl.len().alias("activations"), late)
        energy = [] if self.task_energy is None else [self.task_energy.group_by(THREAD).agg(pl.col("energy_j").sum())]
        return _summary(self.running, THREAD, self.task_util, waits, missed, *energy)


@dataclass(frozen=True, kw_only=True)
class SignalSums(_Sums):
    """What the signals of a trace come down to: tables of `Signals` that are sums, and a row a task."""

    summary: pl.DataFrame

    def task_summary(self) -> pl.DataFrame:
        """Give one row a task, as `Signals.task_summary`."""
        return self.summary


def _summary(running: pl.DataFrame, keys: Sequence[str], *others: pl.DataFrame) -> pl.DataFrame:
    """Give one row a task, the busiest first."""
    table = running.group_by(keys).agg(pl.col("time_ns").sum().alias("running_ns"))
    for other in others:
        table = table.join(other, on=keys, how="left")
    return table.with_columns(pl.col("util_avg_mean").round(1)).sort("running_ns", "pid", descending=[True, False])


def _with_share(table: pl.DataFrame) -> pl.DataFrame:
    share = pl.col("time_ns") / pl.col("time_ns").sum().over("cpu")
    return table.with_columns(share.fill_nan(None).alias("share"))


def _with_deadlines(table: pl.DataFrame, deadlines: pl.DataFrame) -> pl.DataFrame:
    """Add the time to the task's next wake-up, the deadline, and whether it was missed."""
    to_next = (pl.col("time_ns").shift(-1) - pl.col("time_ns")).over("pid").alias("period_ns")
    table = table.sort("pid", "time_ns").with_columns(to_next).join(deadlines, on="pid", how="left")
    # A run's own trace marks those that are late.
    missed = (pl.col("late") | (pl.col("response_ns") > pl.col("deadline_ns"))).alias("missed")
    table = table.with_columns(missed).drop("late")
    # Of what is under way at the end only the start is known.
    ran = pl.col("ended") | (pl.col("running_ns") > 0)
    known = [pl.when(ran).then(pl.col("latency_ns", "cpu")), pl.when("ended").then("response_ns")]
    return table.with_columns(known).drop("ended").sort("time_ns", "pid")


def _named(columns: dict[str, Any] | pl.DataFrame, names: dict[int, str]) -> pl.DataFrame:
    """Make a table; where it has numbers of threads, these become their pids, and the names are behind them."""
    made = pl.DataFrame(columns)
    if "pid" not in made.columns:
        return made
    comm = pl.col("pid").replace_strict(names, default="<...>", return_dtype=pl.String).alias("comm")
    made = made.insert_column(made.columns.index("pid") + 1, made.select(comm)["comm"])
    return made.with_columns(pid_of(pl.col("pid")))


NAMED = 8
"""So many tasks are named in a note."""


def unjudged(raw: dict[str, Any], names: dict[int, str]) -> list[str]:
    """Give notes about tasks whose misses are not counted, or by another deadline than the kernel's."""
    if not len(raw["deadlines"]["pid"]):
        return []

    def listed(pids: list[int]) -> str:
        return some_of(with_counts(names.get(pid, str(pid)) for pid in pids), NAMED)

    names = by_number(names, raw["threads"])
    notes = []
    if raw["unjudged"]:
        why = "awake for more than half of the trace, so that their deadlines are unknown"
        notes.append(f"misses leave out {listed(raw['unjudged'])}: {why}")
    if raw["by_period"]:
        why = "a trace has no deadlines of SCHED_DEADLINE; --deadline names one"
        notes.append(f"misses of {listed(raw['by_period'])} are by their periods: {why}")
    return notes


def sums(raw: dict[str, Any], names: dict[int, str]) -> SignalSums:
    """Make tables of what `_opplab.trace_signals` gave as sums."""
    missed = pl.when(pl.col("missed") >= 0).then("missed")
    latencies = pl.DataFrame(raw["task_latency"]).with_columns(missed.alias("missed"))
    # Tasks without a wake-up or activation have no number of the kind.
    waits = ["wakeups", "latency_ns_p50", "latency_ns_p99", "latency_ns_max"]
    for first, columns in (("wakeups", waits), ("activations", ["activations", "missed"])):
        latencies = latencies.with_columns(pl.when(pl.col(first) > 0).then(pl.col(*columns)))
    energy = [pl.DataFrame(raw["task_energy"])] if "task_energy" in raw else []
    summary = _summary(pl.DataFrame(raw["running"]), ["pid"], pl.DataFrame(raw["task_util"]), latencies, *energy)
    return SignalSums(**_sums(raw, names), summary=_named(summary, by_number(names, raw["threads"])))


def _sums(raw: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    names = by_number(names, raw["threads"])
    energy = ("cpu_energy", "cluster_energy", "task_energy")
    left_ns = [raw.get(name, 0) for name in ("unknown_ns", "idle_unknown_ns", "shared_unknown_ns", "unseen_ns")]
    return {
        **{name: _with_share(_named(raw[name], names)) for name in ("freq_residency", "idle_residency")},
        "running": _named(raw["running"], names),
        **{name: _named(raw[name], names).fill_nan(None) if name in raw else None for name in energy},
        "unknown_ns": left_ns[0],
        "left_out": left_out(*left_ns),
    }


def make(raw: dict[str, Any], names: dict[int, str]) -> Signals:
    """Make tables of what `_opplab.trace_signals` gave; `names` are those of tasks by pid."""
    sums, names = _sums(raw, names), by_number(names, raw["threads"])
    rqs = pl.concat([_named(raw["rqs"], names), _named(raw["rqs_between"], names)])
    return Signals(
        **sums,
        tasks=_named(raw["tasks"], names),
        rqs=rqs.sort("time_ns", maintain_order=True),
        waits=_named(raw["waits"], names),
        task_util=_named(raw["task_util"], names),
        activations=_named(_with_deadlines(pl.DataFrame(raw["activations"]), pl.DataFrame(raw["deadlines"])), names),
    )
