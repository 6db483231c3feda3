"""Learn a benchmark model from a recording: who wakes whom, how long each runs, what it waits for.

A recording of the scheduler's events (``sched_switch`` and ``sched_waking`` or ``sched_wakeup``) of a real program
gives, for each group of threads of one name, the distributions of

- the time on a CPU from a wake-up to the sleep after it, as a deck of 16 equally likely lengths with the mean that was
  recorded, and the share of it that comes after the last wake-up of a partner,
- the time asleep,
- who ended the sleeps: threads of another group, or none of the program's (timers, devices, other programs).

`learn` gives these, `to_toml` and `read` keep them in a file, `to_rtapp` makes an rt-app workload of them: threads that
another group wakes wait for a semaphore of its posts, all others sleep for a time of their deck. What runs may be
preempted, migrated and clocked otherwise than in the recording; work is taken as done at the full clock of the machine
that was recorded.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import InputError
from opplab.files import read_text, toml_of
from opplab.report.numbers import some_of
from opplab.trace.export import PIECE
from opplab.trace.frames import check_fields, frame_of

if TYPE_CHECKING:
    import polars as pl

    from opplab.trace.recording import Trace


DECK = 16
"""Lengths of a deck, as the benchmark models of crate ``model`` have them."""

PARTNER = 0.5
"""Share of its sleeps that threads of one group must end for a group to wait for that group."""

FEW = 10
"""A thread that slept less often than this part of the most active one of its name is not learnt."""

LEAST = 32
"""Sleeps that a group must have shown to be learnt."""

ALIKE = 2
"""Threads of a group are alike whose mean times on a CPU, or asleep, differ by no more than this factor."""


@dataclass
class Group:
    """Threads of one name."""

    name: str
    """Their name without the digits at its end."""
    threads: int = 0
    """Threads that were active at least a tenth as often as the most active one; the rest is of these alone."""
    activations: int = 0
    """Runs from a wake-up to a sleep."""
    cpu_ms: float = 0.0
    """Time on CPUs."""
    rest_ms: float = field(default=0.0, compare=False)
    """Time on CPUs of the other threads of this name. The file does not keep it."""
    run_us: list[float] = field(default_factory=list)
    wait_us: list[float] = field(default_factory=list)
    """`run_us` and `wait_us`: decks of the time on a CPU of an activation, and of the time asleep before it."""
    run_quantiles_us: list[float] = field(default_factory=list)
    """10th, 50th and 90th percentile of the time on a CPU."""
    woken_by: dict[str, float] = field(default_factory=dict)
    """Share of the sleeps that each group ended; ``other`` for interrupts and what is not of the program."""
    after: float = 0.0
    """Share of an activation that comes after its last wake-up of another thread."""
    iowait: float = 0.0
    """Share of the sleeps that were not to be interrupted (state D)."""
    cpu: int | None = None
    """The one CPU that the kernel's threads of a CPU may use."""
    unlike: str = field(default="", compare=False)
    """How its threads differ, where the means of two do by more than a factor of `ALIKE`. The file does not keep it."""

    @property
    def partner(self) -> str | None:
        """The other group that ends most of its sleeps, if one does."""
        name, share = max(self.woken_by.items(), key=lambda one: one[1], default=("other", 0.0))
        return name if name not in ("other", self.name) and share >= PARTNER else None


@dataclass
class Model:
    """What was learnt of a recording."""

    recording: str
    """Name of its file."""
    seconds: float
    """Its length."""
    cpus: int
    """CPUs that ran something."""
    groups: list[Group]
    """By time on CPUs, most first."""
    clock_khz: int = 0
    """Clock of the CPUs at which the times on them were recorded; 0 if it is not known."""
    without_ms: dict[str, float] = field(default_factory=dict, compare=False)
    """Time on CPUs of threads that slept too seldom to be learnt, most first. The file does not keep it."""


def group_name(comm: str) -> str:
    """Give the name that threads of one kind share.

    Examples
    --------
    >>> group_name("tbench_srv12"), group_name("kworker/u8:3-events"), group_name("cc1")
    ('tbench_srv', 'kworker', 'cc1')
    """
    if comm.startswith("kworker"):
        return "kworker"
    if comm in ("cc1", "cc1plus"):
        return comm
    return re.sub(r"[-_:/.]*\d+$", "", comm) or comm


def system_name(comm: str) -> str:
    """Give the name that threads of a system share: the kernel's threads of a CPU have its number.

    Examples
    --------
    >>> [system_name(comm) for comm in ("kworker/3:1H-kblockd", "kworker/u16:2", "ksoftirqd/0", "sshd")]
    ['kworker/3', 'kworker/u', 'ksoftirqd/0', 'sshd']
    """
    if comm.startswith("kworker/u"):
        return "kworker/u"
    own = re.match(r"(?!irq/)[a-z_]+/\d+", comm)
    return own[0] if own else group_name(comm)


def deck(values: Sequence[float], size: int = DECK) -> list[float]:
    """Give `size` equally likely lengths with the distribution and the mean of `values`.

    Examples
    --------
    >>> deck([1.0, 2.0, 3.0, 6.0], 4)
    [1.0, 2.0, 3.0, 6.0]
    """
    ordered = sorted(values)
    n = len(ordered)
    edges = [round(part * n / size) for part in range(size + 1)]
    means = []
    for low, high in pairwise(edges):
        part = ordered[low:high] or [ordered[min(low, n - 1)]]
        means.append(math.fsum(part) / len(part))
    total, wanted = math.fsum(means) / size, math.fsum(ordered) / n
    return [round(mean * wanted / total, 3) if total else 0.0 for mean in means]


@dataclass
class _Thread:
    """What is known of a thread while the events go by; times in ns, None where the recording has not shown it yet."""

    name: str
    comm: str
    on_since: int | None = None
    asleep_since: int | None = None
    uninterruptible: bool = False
    waker: str | None = None
    woken_at: int | None = None
    run: int | None = None
    after_from: int | None = None


@dataclass
class _Sums:
    """What is gathered of a thread under one name."""

    cpu_ns: int = 0
    comm: str = ""
    runs: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    wakers: Counter[str] = field(default_factory=Counter)
    after: list[float] = field(default_factory=list)
    deep: int = 0


class _Reader:
    """Follows the events of a recording."""

    def __init__(self, wanted: Sequence[str], named: Callable[[str], str]) -> None:
        self.named = named
        self.wanted = set(wanted)
        self.threads: dict[int, _Thread] = {}
        self.sums: defaultdict[str, defaultdict[int, _Sums]] = defaultdict(lambda: defaultdict(_Sums))

    def _thread(self, pid: int, comm: str) -> _Thread:
        thread = self.threads.get(pid)
        if thread is None:
            thread = self.threads[pid] = _Thread(self.named(comm), comm)
        elif comm and thread.name != self.named(comm):
            # It has loaded another program.
            self.threads[pid] = thread = _Thread(self.named(comm), comm, on_since=thread.on_since)
        return thread

    def _own(self, name: str) -> bool:
        return not self.wanted or name in self.wanted

    def wake(self, now: int, waker_pid: int, pid: int, comm: str) -> None:
        """`waker_pid` ends a sleep of `pid`."""
        thread = self._thread(pid, comm)
        # What wakes itself, or from an idle CPU, is an interrupt.
        waker = self.threads.get(waker_pid) if waker_pid not in (0, pid) else None
        if thread.asleep_since is not None and thread.woken_at is None:
            thread.woken_at = now
            thread.waker = waker.name if waker is not None and waker.on_since is not None else "other"
        if waker is not None and waker.on_since is not None and waker.run is not None:
            waker.after_from = waker.run + now - waker.on_since

    def switch(self, now: int, prev: tuple[int, str, str], nxt: tuple[int, str]) -> None:
        """A CPU goes from `prev` (pid, name, state) on to `nxt`."""
        pid, comm, state = prev
        if pid:
            thread = self._thread(pid, comm)
            if thread.on_since is not None:
                ran = now - thread.on_since
                self.sums[thread.name][pid].cpu_ns += ran
                if thread.run is not None:
                    thread.run += ran
            thread.on_since = None
            if not state.startswith("R"):
                self._sleeps(pid, thread, now, state)
        pid, comm = nxt
        if pid:
            thread = self._thread(pid, comm)
            thread.on_since = now
            if thread.asleep_since is not None:
                self._wakes(pid, thread, now)

    def end(self, now: int) -> None:
        """The recording ends: who is on a CPU ran until then."""
        for pid, thread in self.threads.items():
            if thread.on_since is not None:
                self.sums[thread.name][pid].cpu_ns += max(0, now - thread.on_since)

    def _sleeps(self, pid: int, thread: _Thread, now: int, state: str) -> None:
        sums = self.sums[thread.name][pid]
        if thread.run is not None and self._own(thread.name):
            sums.comm = thread.comm
            sums.runs.append(thread.run / 1000)
            if thread.after_from is not None and thread.run:
                sums.after.append(1 - min(thread.after_from, thread.run) / thread.run)
        thread.run = thread.after_from = thread.woken_at = thread.waker = None
        thread.asleep_since = None if state.startswith(("X", "Z")) else now
        thread.uninterruptible = state.startswith("D")

    def _wakes(self, pid: int, thread: _Thread, now: int) -> None:
        sums = self.sums[thread.name][pid]
        if self._own(thread.name):
            sums.waits.append(((thread.woken_at or now) - (thread.asleep_since or now)) / 1000)
            sums.wakers[thread.waker or "other"] += 1
            sums.deep += thread.uninterruptible
        thread.asleep_since, thread.run = None, 0


def _rows(trace: Trace) -> list[tuple[Any, ...]]:
    """Give switches and wake-ups of a recording in order of time; refuses one that lacks them."""
    known = trace.info["events"]
    wake = next((name for name in ("sched_waking", "sched_wakeup") if name in known), None)
    if "sched_switch" not in known or wake is None:
        raise InputError(
            f"{trace.path} has no sched_switch with sched_waking or sched_wakeup: record with "
            "`trace-cmd record -e sched_switch -e sched_waking`"
        )
    switches = _whole(trace, "sched_switch", ["prev_pid", "prev_comm", "prev_state", "next_pid", "next_comm"])
    rows: list[tuple[Any, ...]] = [(row[0], 1, *row[1:]) for row in switches]
    nobodys = _in_interrupts(trace, wake)
    for time_ns, cpu, waker, pid, comm in _whole(trace, wake, ["cpu", "common_pid", "pid", "comm"]):
        # An interrupt is nobody's work: who runs there does not wake.
        rows.append((time_ns, 0, 0 if (time_ns, cpu) in nobodys else waker, pid, comm))
    # Where a thread is woken and leaves its CPU at one time, the wake-up came first.
    rows.sort(key=lambda row: row[:2])
    return rows


HARDIRQ, SOFTIRQ = 0x08, 0x10
"""Of an event's context: in an interrupt, in a softirq (include/linux/trace_events.h, v6.12)."""


def _contexts(trace: Trace, event: str) -> pl.DataFrame:
    """Give time, CPU and context (`common_flags`, null where the trace lacks it) of the events of a name."""
    import polars as pl

    wanted = pl.Schema({"time_ns": pl.Int64(), "cpu": pl.UInt32(), "common_flags": pl.UInt8()})
    found = [pl.DataFrame(schema=wanted)]

    def keep(piece: _opplab.Trace, total: int) -> None:
        for name, _, _ in piece.tables():
            table = frame_of(piece.columns(name))
            flags = "common_flags" if "common_flags" in table.columns else pl.lit(None).alias("common_flags")
            found.append(table.select("time_ns", "cpu", flags).cast(wanted))

    trace.pieces(keep, [event], events_max=PIECE, contexts=True)
    return pl.concat(found)


def _in_interrupts(trace: Trace, wake: str) -> set[tuple[int, int]]:
    """Give time and CPU of wake-ups that are no work of who runs there: by their contexts, else by timers.

    A softirq may be the running thread's own, as one that sends over loopback, or that of an interrupt before it: the
    timers show it, as they do where the trace has no contexts. They do without a switch between.
    """
    import polars as pl

    found = _contexts(trace, wake).sort("time_ns")
    flags = pl.col("common_flags")
    interrupts = flags.is_not_null() & (flags & HARDIRQ != 0)
    if "hrtimer_expire_entry" in trace.info["events"]:
        timers = trace.events("hrtimer_expire_entry")
        # A tick itself wakes nobody, but the softirq after it does.
        softirqs = flags.is_not_null() & (flags & SOFTIRQ != 0)
        for name, table in (("timer", timers.filter(~_ticks(timers))), ("any_timer", timers)):
            last = table.select("time_ns", "cpu", pl.col("time_ns").alias(name)).sort("time_ns")
            found = found.join_asof(last, on="time_ns", by="cpu", tolerance=_opplab.IN_TIMER_NS, check_sortedness=False)
        switches = trace.events("sched_switch").select("time_ns", "cpu", pl.col("time_ns").alias("switch"))
        found = found.join_asof(switches.sort("time_ns"), on="time_ns", by="cpu", check_sortedness=False)
        switched = pl.col("switch").fill_null(-1)
        interrupts |= flags.is_null() & (switched <= pl.col("timer")).fill_null(False)
        interrupts |= softirqs & (switched <= pl.col("any_timer")).fill_null(False)
    return set(found.filter(interrupts).select("time_ns", "cpu").iter_rows())


def _in_doubt(trace: Trace) -> bool:
    """Whether contexts leave open who wakes: they are not in the trace, or are softirqs."""
    known = trace.info["events"]
    flags = _contexts(trace, "sched_waking" if "sched_waking" in known else "sched_wakeup")["common_flags"]
    return flags.null_count() > 0 or bool((flags & SOFTIRQ != 0).any())


def _ticks(timers: pl.DataFrame) -> pl.Expr:
    """Distinguish ticks among the events of timers: by their function's name, or in a run's own trace by its address.

    A trace of a kernel that has the function as a number does not show it.
    """
    import polars as pl

    if not {"function", "hrtimer"} <= set(timers.columns):
        return pl.lit(False)
    if timers["function"].dtype == pl.String:
        return pl.col("function").fill_null("").str.starts_with("tick_")
    address = pl.col("hrtimer").cast(pl.UInt64, strict=False).fill_null(0)
    return (pl.col("function").fill_null(0) == 0) & (address >= _opplab.TICK_TIMER)


def _whole(trace: Trace, event: str, fields: list[str]) -> Iterator[tuple[Any, ...]]:
    """Give time and fields of the events of a name; what is damaged in one costs that one."""
    import polars as pl

    table = trace.events(event)
    check_fields(trace.path, event, table, fields)
    numbers = [pl.col(name).cast(pl.Int64, strict=False) for name in fields if name.endswith("pid")]
    rows: Iterator[tuple[Any, ...]] = table.with_columns(numbers).select(["time_ns", *fields]).drop_nulls().iter_rows()
    return rows


STATES = {0: "R", 1: "S", 2: "D", 4: "T", 8: "T", 16: "X", 32: "Z"}


def _state(value: Any) -> str:
    """Give the letter of a task's state, which recordings have as letters or as bits."""
    if isinstance(value, str):
        return value or "R"
    bits = int(value)
    return "R" if bits & 0xFF == 0 else next((letter for bit, letter in STATES.items() if bit and bits & bit), "S")


def learn(trace: Trace, tasks: Sequence[str] = (), *, named: Callable[[str], str] = group_name) -> Model:
    """Learn a model from a recording.

    Parameters
    ----------
    tasks : sequence of str
        Groups to learn; by default all that slept often enough.
    named : callable
        From the name of a thread to that of its group.

    Raises
    ------
    InputError
        If the recording lacks scheduler events, or has no such group.
    """
    rows = _rows(trace)
    reader = _Reader(tasks, named)
    for row in rows:
        if row[1]:
            now, _, pid, comm, state, next_pid, next_comm = row
            reader.switch(now, (int(pid), comm, _state(state)), (int(next_pid), next_comm))
        else:
            now, _, waker_pid, pid, comm = row
            reader.wake(now, int(waker_pid), int(pid), comm)
    reader.end(trace.info["start_ns"] + trace.info["duration_ns"])
    groups = [_group(name, by_thread) for name, by_thread in reader.sums.items()]
    if tasks:
        from opplab.catalog import nearest

        known = [group.name for group in groups]
        for name in tasks:
            if name not in known:
                if (pooled := named(name)) in known:
                    hint = f"; it is one of the threads that are learnt together as `{pooled}`: --task {pooled}"
                else:
                    hint = nearest(name, known)
                raise InputError(f"{trace.path} has no group of threads called `{name}`{hint}")
    kept = [one for one in groups if one.activations >= LEAST and (not tasks or one.name in tasks)]
    if not kept:
        raise InputError(f"{trace.path}: no group of threads slept {LEAST} times, so that there is nothing to learn")
    kept.sort(key=_load)
    names = {one.name for one in kept}
    for one in kept:
        one.woken_by = _merged(one.woken_by, names)
    seconds = (rows[-1][0] - rows[0][0]) / 1e9 if rows else 0.0
    model = Model(trace.path.name, round(seconds, 3), int(trace.info["cpus"]), kept)
    lacks = {one.name: one.rest_ms + (0.0 if one in kept else one.cpu_ms) for one in groups}
    if not tasks:
        seldom = [item for item in lacks.items() if item[1] > 0]
        model.without_ms = dict(sorted(seldom, key=lambda item: (-item[1], item[0])))
    return model


def _load(group: Group) -> tuple[float, str]:
    return -group.cpu_ms, group.name


WITHOUT = 0.01
"""Share of the CPU time from which on it is named what a model lacks."""
NAMED = 3
"""Groups that are named there."""
UNLIKE = 0.25
"""Part of the wake-ups of an activation by which those of the model may be off without a word."""
MIXED = 0.1
"""Least share of wake-ups from idle CPUs, and from busy ones, from which on they may have one cause."""
FAIR_PRIO = 100
"""Least priority of fair threads in the kernel's events (include/linux/sched/prio.h: MAX_RT_PRIO, v6.12)."""


def left_out(trace: Trace, model: Model, *, named: Callable[[str], str] = group_name) -> list[str]:
    """Name what a recording shows and its model does not have: clocks below the highest, classes of threads, timers."""
    notes = []
    learnt_ms, without_ms = math.fsum(one.cpu_ms for one in model.groups), math.fsum(model.without_ms.values())
    if without_ms > WITHOUT * (learnt_ms + without_ms):
        seldom = some_of((f"{name} {cpu_ms:g} ms" for name, cpu_ms in model.without_ms.items()), NAMED)
        notes.append(
            f"the model lacks {100 * without_ms / (learnt_ms + without_ms):.0f} % of the CPU time: threads that slept "
            f"less than {LEAST} times, or less than 1/{FEW} as often as others of their name ({seldom}). Runs of it "
            "are of the other threads alone"
        )
    notes += [
        f"{one.threads} threads are learnt together as `{one.name}` and are unlike: {one.unlike}. Each of the model "
        "does what all do together"
        for one in model.groups
        if one.unlike
    ]
    mixed = [one.name for one in model.groups if MIXED <= one.woken_by.get("other", 0.0) <= 1 - MIXED]
    if mixed and "hrtimer_expire_entry" not in trace.info["events"] and _in_doubt(trace):
        notes.append(
            f"wake-ups of {', '.join(mixed)} count as those of who ran on the CPU, where it was not idle: some may be "
            "a timer's, which does not show without `-e hrtimer_expire_entry`"
        )
    if own := [one.name for one in model.groups if one.woken_by.get(one.name, 0.0) >= PARTNER]:
        notes.append(
            f"threads of one name wake each other: {', '.join(own)}. The model's sleep as long as in the recording "
            "instead, whatever the clock"
        )
    if unlike := _wakes_unlike(model):
        notes.append(
            f"the model wakes other numbers of threads than were recorded: {', '.join(unlike)}. Runs of it do other "
            "amounts of work"
        )
    if "cpu_frequency" in trace.info["events"]:
        clocks = sorted({state for _, state in _whole(trace, "cpu_frequency", ["state"])})
        if len(clocks) > 1:
            notes.append(
                f"the CPUs' clocks were {clocks[0] / 1000:g} to {clocks[-1] / 1000:g} MHz in the recording. The "
                "model takes times on a CPU as work at the full clock of CPU 0: it does other work than "
                "the program did. `opplab replay` follows the clocks of a recording"
            )
    switches = trace.events("sched_switch")
    if {"next_comm", "next_prio"} <= set(switches.columns):
        import polars as pl

        urgent = switches.filter(pl.col("next_prio") < FAIR_PRIO)["next_comm"].drop_nulls().unique()
        ran = {named(comm) for comm in urgent}
        if names := [one.name for one in model.groups if one.name in ran]:
            notes.append(
                f"real-time or deadline threads in the recording: {', '.join(names)}. The model runs them as fair ones"
            )
    return notes


def _group(name: str, by_thread: Mapping[int, _Sums]) -> Group:
    """Give what the threads of a name did; those that hardly slept beside others are no part of it."""
    most = max(len(one.runs) for one in by_thread.values())
    own = [one for one in by_thread.values() if FEW * len(one.runs) >= most]
    runs = [run for one in own for run in one.runs]
    waits = [wait for one in own for wait in one.waits]
    after = [share for one in own for share in one.after]
    wakers: Counter[str] = Counter()
    for one in own:
        wakers.update(one.wakers)
    sleeps = wakers.total()
    made = Group(name, threads=len(own), activations=len(runs))
    made.cpu_ms = round(math.fsum(one.cpu_ns for one in own) / 1e6, 3)
    made.rest_ms = round(math.fsum(one.cpu_ns for one in by_thread.values()) / 1e6 - made.cpu_ms, 3)
    if runs and waits:
        ordered = sorted(runs)
        made.run_us, made.wait_us = deck(runs), deck(waits)
        made.run_quantiles_us = [round(ordered[int(share * (len(ordered) - 1))], 3) for share in (0.1, 0.5, 0.9)]
    made.unlike = _unlike(own)
    made.woken_by = {waker: count / sleeps for waker, count in wakers.most_common()} if sleeps else {}
    made.after = round(math.fsum(after) / len(after), 4) if after else 0.0
    made.iowait = round(sum(one.deep for one in own) / sleeps, 4) if sleeps else 0.0
    return made


def _unlike(threads: Sequence[_Sums]) -> str:
    """Give how threads of a group differ, or nothing where they are alike; few activations show nothing."""
    shown = [one for one in threads if min(len(one.runs), len(one.waits)) >= LEAST]
    words = []
    for what, name in (("runs", "runs"), ("waits", "sleeps")):
        means = sorted((fmean(getattr(one, what)), one.comm) for one in shown)
        if means and means[-1][0] > ALIKE * means[0][0]:
            (least, first), (most, last) = means[0], means[-1]
            words.append(f"{name} of {first} take {least / 1000:.3g} ms in the mean, of {last} {most / 1000:.3g} ms")
    return ", ".join(words)


def _merged(shares: dict[str, float], names: set[str]) -> dict[str, float]:
    """Give the shares with all wakers that were not learnt as ``other``; what is below 1 % is left out."""
    merged: Counter[str] = Counter()
    for waker, share in shares.items():
        merged[waker if waker in names else "other"] += share  # type: ignore[assignment]
    return {waker: round(share, 4) for waker, share in merged.most_common() if share >= 0.01}


# --- the file ---------------------------------------------------------------------------------------------------------

KEYS = ("threads", "activations", "cpu_ms", "run_us", "wait_us", "run_quantiles_us", "after", "iowait")


def to_toml(model: Model) -> str:
    """Give the file of a model."""
    lines = [
        "# Made by `opplab learn`: distributions of a recording, none of them fitted.",
        "format = 1",
        "",
        "[learnt]",
        f"recording = {json.dumps(model.recording)}",
        f"seconds = {model.seconds}",
        f"cpus = {model.cpus}",
    ]
    if model.clock_khz:
        lines.append(f"clock_khz = {model.clock_khz}")
    for one in model.groups:
        lines += ["", "[[group]]", f"name = {json.dumps(one.name)}"]
        lines += [f"{key} = {getattr(one, key)}" for key in KEYS]
        if one.cpu is not None:
            lines.append(f"cpu = {one.cpu}")
        shares = ", ".join(f"{json.dumps(waker)} = {share}" for waker, share in one.woken_by.items())
        lines.append(f"woken_by = {{ {shares} }}")
    return "\n".join(lines) + "\n"


def read(path: Path) -> Model:
    """Read the file of a model.

    Raises
    ------
    InputError
        If it is none, with what is missing.
    """
    text = read_text(path, "a model file")
    data = toml_of(text, path)
    if not is_model(data):
        raise InputError(f"{path} is no model of `opplab learn`: it has no [learnt] and [[group]]")
    groups = []
    for number, entry in enumerate(data["group"], 1):
        missing = [key for key in ("name", "woken_by", *KEYS) if key not in entry]
        if missing:
            raise InputError(f"{path}: group {number} has no {', '.join(missing)}")
        unknown = [key for key in entry if key not in ("name", "woken_by", "cpu", *KEYS)]
        if unknown:
            raise InputError(f"{path}: group {number} has an unknown key `{unknown[0]}`")
        if wrong := _wrong(entry):
            raise InputError(f"{path}: group {number} {wrong}")
        groups.append(Group(**entry))
    learnt = data["learnt"]
    for key in ("seconds", "cpus", "clock_khz"):
        if key in learnt and not _is_number(learnt[key]):
            raise InputError(f"{path}: {key} of [learnt] is {learnt[key]}: a number from 0 on is needed")
    known = {key: learnt[key] for key in ("seconds", "cpus", "clock_khz") if key in learnt}
    return Model(
        **{"recording": str(learnt.get("recording", "")), "seconds": 0.0, "cpus": 0, "groups": groups, **known}
    )


NUMBER_MAX = 1e12
"""Above all times in us, and below what integers of the engine hold in ns."""


def _is_number(value: object) -> bool:
    # A NaN is in no range.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= NUMBER_MAX


def _wrong(entry: Mapping[str, Any]) -> str:
    """Give what is wrong with the values of a group, or nothing."""
    if not isinstance(entry["name"], str) or not isinstance(entry["woken_by"], dict):
        return "needs a name, and a table woken_by"
    if not all(isinstance(entry.get(key, 0), int) for key in ("threads", "activations", "cpu")) or entry["threads"] < 1:
        return "needs a thread; threads, activations and cpu are integers"
    lists = {key: entry[key] for key in ("run_us", "wait_us", "run_quantiles_us")}
    if not all(isinstance(values, list) for values in lists.values()) or not (lists["run_us"] and lists["wait_us"]):
        return "needs lists of lengths in run_us and wait_us"
    single = {
        key: [entry[key]] for key in ("threads", "activations", "cpu", "cpu_ms", "after", "iowait") if key in entry
    }
    for key, values in {**lists, **single, "woken_by": list(entry["woken_by"].values())}.items():
        for value in values:
            if not _is_number(value):
                return f"has {value!r} in {key}: numbers from 0 on are needed"
    if max(entry["after"], entry["iowait"]) > 1:
        return "has a share above 1 in after or iowait"
    return ""


def is_model(data: dict[str, Any]) -> bool:
    """Whether a parsed file is a model of `opplab learn`."""
    return isinstance(data.get("learnt"), dict) and bool(data.get("group"))


# --- what runs beside a workload --------------------------------------------------------------------------------------


def background(path: Path) -> tuple[int, list[tuple[str, int | None, list[int], list[int]]]]:
    """Give the background of a model file: CPUs of its machine, then name, one CPU or none, sleeps in ns and cycles.

    Threads sleep and run by turns, as often as those of the recording did; who woke them is left aside.

    Raises
    ------
    InputError
        If the file does not have the length, the CPUs or the clock of its recording.
    """
    model = read(path)
    for key, value in (("seconds", model.seconds), ("cpus", model.cpus), ("clock_khz", model.clock_khz)):
        if not isinstance(value, (int, float)) or value <= 0:
            raise InputError(f"{path}: a background needs `{key}` in [learnt], above 0")
    tasks = []
    for group in model.groups:
        run_us, wait_us = math.fsum(group.run_us) / len(group.run_us), math.fsum(group.wait_us) / len(group.wait_us)
        apart_us = 1e6 * model.seconds * group.threads / max(1, group.activations)
        longer = max(0.0, apart_us - run_us) / wait_us if wait_us else 1.0
        waits = [max(1, round(1000 * longer * wait)) for wait in group.wait_us]
        cycles = [max(1, round(run * model.clock_khz / 1000)) for run in group.run_us]
        turns = [waits[turn * STRIDE % len(waits)] for turn in range(len(waits))]
        if group.cpu is not None and group.cpu not in range(model.cpus):
            raise InputError(
                f"{path}: `cpu` of group `{group.name}` is none of the {model.cpus} CPUs that were recorded"
            )
        tasks += [(group.name, group.cpu, turns, cycles) for _ in range(group.threads)]
    return model.cpus, tasks


# --- what can be run --------------------------------------------------------------------------------------------------

STRIDE = 7
"""Order in which a deck is dealt, coprime to its size, so that short and long ones alternate."""


def to_rtapp(model: Model, seconds: float = 10.0) -> str:
    """Give an rt-app file whose threads behave as the model's.

    A group that another one wakes waits for a semaphore; of groups that wake each other in a circle the one of most
    threads starts, or the first in the file. Threads of a pair of groups are partners in the order of their numbers;
    one that has several wakes as many of them at once as in the recording, by turns.
    """
    by_name = {group.name: group for group in model.groups}
    tasks: dict[str, Any] = {}
    for group in model.groups:
        partner = by_name.get(group.partner or "")
        leads = group is _first_of(_circle(group, by_name), model.groups)
        posts = [one for one in model.groups if one.partner == group.name]
        for thread in range(group.threads):
            tasks[f"{group.name}-{thread}"] = {"loop": -1, "phases": _phases(group, thread, partner, posts, leads)}
    return json.dumps({"tasks": tasks, "global": {"duration": max(1, round(seconds))}}, indent=1)


def _circle(group: Group, by_name: Mapping[str, Group]) -> list[Group]:
    """Give the groups of the circle of partners that a group is in; none if it is in none."""
    found: list[Group] = []
    one: Group | None = group
    while one is not None and one not in found:
        found.append(one)
        one = by_name.get(one.partner or "")
    return found if one is group else []


def _first_of(circle: Sequence[Group], groups: Sequence[Group]) -> Group | None:
    """Give the group of a circle that starts it."""
    return min(circle, key=lambda one: (-one.threads, groups.index(one)), default=None)


def _wakes_each(group: Group, other: Group) -> float:
    """Give how many threads of the group `other` an activation of `group` woke in the recording."""
    return other.activations * other.woken_by[group.name] / max(1, group.activations)


def _wakes_unlike(model: Model) -> list[str]:
    """Name the wake-ups that the model's activations have in other numbers than the recording's."""
    unlike = []
    for other in model.groups:
        group = next((one for one in model.groups if one.name == other.partner), None)
        if group is None:
            continue
        turns = [(thread, turn) for thread in range(group.threads) for turn in range(len(group.run_us))]
        made = sum(len(_targets(group, thread, turn, other)) for thread, turn in turns) / len(turns)
        recorded = _wakes_each(group, other)
        if abs(made - recorded) > UNLIKE * recorded:
            unlike.append(f"{recorded:.2g} of {other.name} in an activation of {group.name} ({made:.2g} in the model)")
    return unlike


def _targets(group: Group, thread: int, turn: int, other: Group) -> Sequence[int]:
    """Give the threads of the group `other` that a thread of `group` wakes in an activation."""
    each = _wakes_each(group, other)
    if thread >= other.threads:
        # As many threads wake one of the others as it has wake-ups in one of their activations.
        wakers = max(1, round(each * group.threads / other.threads))
        return [thread % other.threads] if thread // other.threads < wakers else []
    partners = range(thread, other.threads, group.threads)
    at_once = min(max(1, round(each)), len(partners))
    return [partners[(turn * at_once + number) % len(partners)] for number in range(at_once)]


def _phases(
    group: Group, thread: int, partner: Group | None, posts: Sequence[Group], leads: bool
) -> dict[str, dict[str, Any]]:
    """Give the activations of a thread, one of each length of its deck."""
    phases: dict[str, dict[str, Any]] = {}
    size = len(group.run_us)
    for turn in range(size):
        index = (turn + thread) * STRIDE % size
        work = group.run_us[index]
        after = work * group.after if posts else 0.0
        phase: dict[str, Any] = {}

        def wait(phase: dict[str, Any] = phase, index: int = index) -> None:
            if partner is None:
                phase["sleep"] = max(1, round(group.wait_us[index % len(group.wait_us)]))
            else:
                phase["sem_wait0"] = f"{group.name}-{thread}"

        if not leads:
            wait()
        phase["run0"] = max(1, round(work - after))
        for number, other in enumerate(posts):
            for target in _targets(group, thread, turn, other):
                phase[f"sem_post{number}_{target}"] = f"{other.name}-{target}"
        if after >= 1:
            phase["run1"] = round(after)
        if leads:
            wait()
        phases[f"p{turn}"] = phase
    return phases
