"""What idle governors decide on the sleeps of a recorded trace.

Decisions are crate `replay`'s (module `idle`), by the kernel's governors; here are the idle states' sources and tables.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from opplab import _opplab
from opplab.cpulist import cpus_in
from opplab.errors import FormatError, InputError
from opplab.files import read_bytes, unpacked
from opplab.trace.frames import CPUS_MAX

if TYPE_CHECKING:
    from opplab.simulation.machine import Machine
    from opplab.trace.recording import Trace


GOVERNORS = ("recorded", "menu", "teo", "constant", "oracle")
"""Who decides: the trace, two governors, and the rivals that need no history."""

NO_TIMERS = (
    "the trace has no timer and no interrupt: menu and teo choose by the time to the next timer, unknown here, "
    "so that their rows judge nothing"
)
"""The note on a trace for which `shows_timers` is false."""

TOLD = ("told_above", "told_below")
"""The columns of `decisions` that the kernel's own ``cpu_idle_miss`` counts."""

KERNEL, TICK_US = "6.12.117", 4000
"""What is assumed of a recording that does not show it."""

States = list[list[tuple[int, int, bool]]]

LINE = re.compile(r"cpu/cpu(\d+)/cpuidle/state(\d+)/(name|latency|residency):(.*)")


def states_of_sysfs(path: Path) -> States:
    """Read idle states from a copy of sysfs: lines ``.../cpuN/cpuidle/stateM/FILE:VALUE`` (``grep . -r``), also gzip.

    Snapshots of recordings end each line of a file with a bar.

    Raises
    ------
    FormatError
        If there is no such line, or a value is no number.
    """
    data = read_bytes(path, "a copy of cpuidle's sysfs")
    data = unpacked(data, path, "a copy of cpuidle's sysfs")
    found: dict[tuple[int, int], dict[str, str]] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        match = LINE.search(line)
        if match:
            found.setdefault((int(match[1]), int(match[2])), {})[match[3]] = match[4].strip().removesuffix("|")
    if not found:
        raise FormatError(f"failed to read {path}: no line is .../cpuN/cpuidle/stateM/residency:VALUE", file=str(path))
    nr_cpus = 1 + max(cpu for cpu, _ in found)
    if nr_cpus > CPUS_MAX:
        raise FormatError(f"failed to read {path}: CPU {nr_cpus - 1} is beyond {CPUS_MAX - 1}", file=str(path))
    states: States = [[] for _ in range(nr_cpus)]
    for (cpu, number), about in sorted(found.items()):
        try:
            exit_ns, target_ns = (int(about[name]) * 1000 for name in ("latency", "residency"))
        except (KeyError, ValueError):
            message = f"failed to read {path}: state {number} of CPU {cpu} lacks its latency or residency"
            raise FormatError(message, file=str(path)) from None
        if len(states[cpu]) != number:
            raise FormatError(f"failed to read {path}: CPU {cpu} has no state {len(states[cpu])}", file=str(path))
        if not 0 <= exit_ns < 1 << 63 or target_ns < 0:
            message = f"failed to read {path}: state {number} of CPU {cpu} has a latency or residency that is no time"
            raise FormatError(message, file=str(path))
        # s2idle's are not the governor's to choose: their residency is the largest number.
        if target_ns < (1 << 32) * 1000 - 1000:
            states[cpu].append((exit_ns, target_ns, about.get("name") == "POLL"))
    return states


def states_of_machine(machine: Machine) -> States:
    """Give the idle states of a machine's CPUs."""
    facts = machine._inner.describe()
    states: States = [[] for _ in range(facts["nr_cpus"])]
    for cluster in facts["clusters"]:
        for cpu in cpus_in(cluster["cpus"]):
            states[cpu] = [
                # The kernel's exit latency holds the entry.
                (
                    state["entry_latency_ns"] + state["exit_latency_ns"],
                    state["target_residency_ns"],
                    state["name"] == "POLL",
                )
                for state in cluster["idle"]
            ]
    return states


def shows_timers(trace: Trace) -> bool:
    """Whether a trace has events that show when timers were due."""
    events = {event for event, number in trace.info["events"].items() if number}
    return not events.isdisjoint(("irq_handler_entry", "local_timer_entry", "hrtimer_expire_entry"))


def _told(trace: Trace, header_only: bool) -> tuple[str | None, int | None]:
    """Give the kernel and CONFIG_HZ of a recording, where it shows them; a pipe is read once only."""
    from opplab.trace.recording import EVENT_BYTES

    if trace.path.is_fifo():
        return None, None
    try:
        trace.check_memory(EVENT_BYTES)
    except InputError:
        header_only = True
    return _opplab.traced_kernel(str(trace.path), header_only)


def _rows(
    trace: Trace,
    states: States | Machine,
    governors: tuple[str, ...],
    tick_us: int | None,
    kernel: str | None,
) -> list[dict[str, Any]]:
    """Give a row a CPU and governor as the extension makes them; what was damaged and assumed goes to the trace."""
    words = []
    if kernel is None or tick_us is None:
        told_kernel, hz = _told(trace, tick_us is not None)
        if kernel is None and told_kernel is None:
            words.append(f"the trace does not name its kernel: {KERNEL} is assumed (--kernel)")
        if tick_us is None and not hz:
            words.append(f"the trace does not show its tick: {TICK_US} us are assumed (--tick)")
        kernel = kernel or told_kernel or KERNEL
        tick_us = tick_us or (1_000_000 // hz if hz else TICK_US)
    own, machine = (states, None) if isinstance(states, list) else (states_of_machine(states), states._inner)
    rows, problems, note = _opplab.trace_idle(trace.path, own, list(governors), tick_us * 1000, kernel, machine)
    trace._note(problems)
    words += [note] if note else []
    trace.notes += [word for word in words if word not in trace.notes]
    if not rows:
        raise InputError(f"{trace.path}: no CPU goes idle (no `cpu_idle` event enters a state)")
    return rows


def decisions(
    trace: Trace,
    states: States | Machine,
    governors: tuple[str, ...] = GOVERNORS,
    tick_us: int | None = None,
    kernel: str | None = None,
) -> pl.DataFrame:
    """Report what governors decide on the recorded sleeps.

    Parameters
    ----------
    trace : Trace
        With ``cpu_idle``; interrupts show when timers were due, ``cpu_idle_miss`` what the kernel itself counted.
    states : list or Machine
        By CPU: exit latency and target residency in ns of each state, and whether it polls. Or the machine that has
        them: its states are those of their names in the snapshot beside the trace.
    governors : tuple of str
        Names of idle governors, and ``recorded``, ``constant`` (always the most frequent state), ``oracle`` (the
        deepest state that the stay was long enough for).
    tick_us : int, optional
        Length of a tick; by default the recording's.
    kernel : str, optional
        Kernel profile, whose governors decide; by default the recording's.

    Returns
    -------
    polars.DataFrame
        One row a CPU and governor, and ``cpu`` null for all: decisions, how many are ``equal`` to the recorded ones,
        ``deeper``, ``shallower``, too deep (``above``) and too shallow (``below``) as the kernel counts, its own counts
        (``told_above``, ``told_below``; null where the trace has no such event), time in each state; of those that
        differ, how many stays ended by no timer (``intercepted``) and how many had no known next timer (``no_timer``).
    """
    table = table_of(_rows(trace, states, governors, tick_us, kernel))
    # Without the event nobody counted.
    counted = bool(trace.path.is_fifo() or trace.info["events"].get("cpu_idle_miss"))
    return table if counted else table.with_columns(pl.lit(None, pl.Int64).alias(name) for name in TOLD)


def table_of(rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Make the table of `decisions` of the extension's rows."""
    depth = max(len(row["time_ns"]) for row in rows)
    flat: list[dict[str, Any]] = []
    for row in rows:
        times = row.pop("time_ns")
        del row["pairs"]
        times += [0] * (depth - len(times))
        flat.append({**row, **{f"state{number}_ns": ns for number, ns in enumerate(times)}})
    table = pl.DataFrame(flat)
    counts = [name for name in table.columns if name not in ("cpu", "governor")]
    total = table.group_by("governor", maintain_order=True).agg(pl.col(counts).sum())
    total = total.with_columns(pl.lit(None, dtype=pl.Int64).alias("cpu")).select(table.columns)
    share = (pl.col("equal") / pl.col("decisions")).alias("equal_share")
    return pl.concat([table, total]).with_columns(share)


def differences(
    trace: Trace,
    states: States | Machine,
    governors: tuple[str, ...] = GOVERNORS,
    tick_us: int | None = None,
    kernel: str | None = None,
) -> pl.DataFrame:
    """Report the decisions that differ from the recorded ones which state was recorded, which chosen, and what came.

    Parameters are those of `decisions`.

    Returns
    -------
    polars.DataFrame
        One row a governor, ``recorded`` and ``chosen`` state, and what ended the stay (``timer`` or ``other``);
        ``cpus`` are the CPUs that have such, ``share`` is that of all decisions.
    """
    rows = _rows(trace, states, governors, tick_us, kernel)
    schema = {"governor": pl.String, "recorded": pl.Int64, "chosen": pl.Int64, "ended_by": pl.String, "cpu": pl.Int64}
    flat = [
        (row["governor"], recorded, chosen, "timer" if by_timer else "other", row["cpu"], number)
        for row in rows
        for recorded, chosen, by_timer, number in row["pairs"]
    ]
    table = pl.DataFrame(flat, schema={**schema, "decisions": pl.Int64}, orient="row")
    total = table.group_by("governor").agg(pl.col("decisions").sum().alias("all"))
    keys = ["governor", "recorded", "chosen", "ended_by"]
    found = (
        table.filter(pl.col("recorded") != pl.col("chosen"))
        .group_by(keys)
        .agg(pl.col("cpu").sort().cast(pl.String).str.join(" ").alias("cpus"), pl.col("decisions").sum())
    )
    found = found.join(total, on="governor").with_columns((pl.col("decisions") / pl.col("all")).alias("share"))
    return found.drop("all").sort("governor", "decisions", *keys[1:], descending=[False, True, False, False, False])
