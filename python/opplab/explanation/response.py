"""What a task's slow activations are made of: waits, leaving idle, work, and what clocks and smaller CPUs add to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opplab.errors import InputError
from opplab.explanation.findings import Finding, check_one_pid, cpu_list, length, nearest_task, seconds
from opplab.explanation.records import FAIR_SERVED, IDLE_TASK, REAL_TIME, Records
from opplab.report.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from opplab import _opplab
    from opplab.simulation.machine import Machine


PARTS = {
    "behind": "behind the activation before",
    "asleep": "asleep until something woke it",
    "waiting": "waiting for a CPU",
    "server": f"waiting, as {FAIR_SERVED}",
    "budget": "throttled until its next period (SCHED_DEADLINE)",
    "quota": "stopped by the quota of its control group",
    "throttling": "throttled until the next period of real-time tasks (sched_rt_runtime_us)",
    "idle": "while a CPU left idle",
    "held": "queued on a CPU that ran no task (interrupts, a quota or a budget)",
    "work": "work at the biggest CPU's highest clock",
    "clock": "more by clocks below the highest",
    "capacity": "more by a smaller CPU",
    "sibling": "more by a busy thread of the same core",
    "unknown": "running at a clock that is not known",
    "unseen": "of which the trace lacks the switches",
}
"""The parts of a response time, which sum up to it."""

SHOWN = 10
"""Activations that are listed, the slowest ones."""
SLOWEST = 0.01
"""The share of activations that counts as slow where none has missed its deadline."""
WAITING_OR_STOPPED = "waiting for a CPU or for the quota of its control group"
"""Of a trace whose task has a quota: no event of a kernel shows when that stops it."""
FOREVER_NS = 2**63 - 1
NAMED = 3
"""Tasks that are named of those that ran meanwhile."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """How fast a CPU is: its highest clock, its speed there as a share of the fastest CPU's, and who shares its core.

    A fixed speed is one that follows no clock; with one clock only no event shows it.
    """

    top_khz: int
    speed: float
    siblings: tuple[int, ...] = ()
    smt_yield: float = 1.0
    fixed: bool = False
    one_clock: bool = False


@dataclass(frozen=True, slots=True)
class Activation:
    """One activation, from its timer or wake-up to the end of its work, or to the end of what was recorded."""

    start_ns: int
    end_ns: int
    missed: bool | None = None
    late_ns: int | None = None
    ended: bool = True


@dataclass(slots=True)
class Response:
    """An activation, and its parts in ns."""

    of: Activation
    parts_ns: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    waited_for_ns: Counter[int] = field(default_factory=Counter)
    served_ns: Counter[int] = field(default_factory=Counter)
    """Fair tasks that their server ran meanwhile."""
    cpus: set[int] = field(default_factory=set)

    @property
    def response_ns(self) -> int:
        """From the timer to the end of the work."""
        return self.of.end_ns - self.of.start_ns


def speeds(outcome: _opplab.Outcome, facts: dict[str, Any]) -> dict[int, Cpu]:
    """Give the speeds of the CPUs of a run's machine, by what came of it and by the facts of its case."""
    cores: list[int] = facts["cores"]
    policy_of = {cpu: policy for policy in facts["policies"] for cpu in policy["cpus"]}
    # With boost, which the policy's own points may lack.
    clocks = {cpu: set(cluster["opps_khz"]) for cluster in outcome["clusters"] for cpu in cluster["cpus"]}
    top_khz = {cpu: max(khz) for cpu, khz in clocks.items()}
    at_top = {cpu: of["capacity"] * top_khz[cpu] / of["reference_khz"] for cpu, of in policy_of.items()}
    fastest = max(at_top.values())
    share, fixed = facts["smt_yield"] / 1024, facts["fixed_speed"]
    threads = {cpu: tuple(one for one in policy_of if one != cpu and cores[one] == cores[cpu]) for cpu in policy_of}
    return {
        cpu: Cpu(top_khz[cpu], at_top[cpu] / fastest, threads[cpu], share, fixed, len(clocks[cpu]) == 1)
        for cpu in policy_of
    }


class Timeline:
    """Who ran where, and at which clock: events of a run or of a trace, in order of time.

    Parameters
    ----------
    switches : sequence of tuple
        ``(time_ns, cpu, prev, prev is still runnable, next)``.
    wakes : sequence of tuple
        ``(time_ns, task, waking cpu)``: wake-ups and births.
    moves : sequence of tuple
        ``(time_ns, task, cpu)``: where tasks are queued, if that is not where they ran last.
    clocks : sequence of tuple
        ``(time_ns, cpu, khz)``.
    idle : int
        The idle tasks' number.
    exits : dict
        ``{cpu: [(from, to)]}``: when CPUs left idle states.
    stays : dict, optional
        The same of whole stays in idle states, where no event shows when an exit begins. A task that waits for a CPU
        waits for the exit.
    stops : dict, optional
        ``{cpu: [(from, to)]}``: when the task's queue is stopped there. It waits for no other task then.
    stopped_by : str, optional
        The part that this is.
    throttled : list, optional
        ``[(from, to)]``: when a deadline task waits for its next period, on any CPU.
    served : dict, optional
        ``{cpu: [(from, to)]}``: when the server of fair tasks ran them in place of this real-time task.
    """

    def __init__(
        self,
        switches: Sequence[tuple[int, int, int, bool, int]],
        wakes: Sequence[tuple[int, int, int]],
        moves: Sequence[tuple[int, int, int]],
        clocks: Sequence[tuple[int, int, int]],
        cpus: dict[int, Cpu],
        idle: int,
        exits: dict[int, list[tuple[int, int]]],
        stays: dict[int, list[tuple[int, int]]] | None = None,
        stops: dict[int, list[tuple[int, int]]] | None = None,
        stopped_by: str = "quota",
        throttled: list[tuple[int, int]] | None = None,
        served: dict[int, list[tuple[int, int]]] | None = None,
    ) -> None:
        self.cpus, self.idle, self._exits = cpus, idle, exits
        self._stays = exits if stays is None else stays
        self._stops, self._stopped_by, self._throttled = stops or {}, stopped_by, throttled or []
        self._served = served or {}
        self._switches, self._wakes, self._moves = switches, wakes, moves
        self._ran: dict[int, tuple[list[int], list[int]]] = {}
        for time_ns, cpu, prev, _, following in switches:
            times, tasks = self._ran.setdefault(cpu, ([0], [prev]))
            times.append(time_ns)
            tasks.append(following)
        self._clocks: dict[int, tuple[list[int], list[int]]] = {}
        for time_ns, cpu, khz in clocks:
            times, values = self._clocks.setdefault(cpu, ([0], [0]))
            times.append(time_ns)
            values.append(khz)

    def _pieces(
        self, changes: tuple[list[int], list[int]] | None, start_ns: int, end_ns: int
    ) -> Iterator[tuple[int, int, int]]:
        """Give the pieces of a time in which something stays the same; 0 of what is not known."""
        times, values = changes or ([0], [0])
        place = bisect_right(times, start_ns) - 1
        while start_ns < end_ns:
            until_ns = min(times[place + 1], end_ns) if place + 1 < len(times) else end_ns
            if until_ns > start_ns:
                yield start_ns, until_ns, values[place]
            start_ns, place = until_ns, place + 1

    def responses(self, task: int, activations: Sequence[Activation]) -> list[Response]:
        """Give the parts of activations of one task."""
        states = self._states(task)
        ends = [end_ns for _, end_ns, _, _ in states]
        found, before_ns = [], 0
        for one in activations:
            response = Response(one)
            at_ns = min(max(one.start_ns, before_ns), one.end_ns)
            response.parts_ns["behind"] += at_ns - one.start_ns
            for start_ns, end_ns, state, cpu in states[bisect_right(ends, at_ns) :]:
                if start_ns >= one.end_ns:
                    break
                self._count(response, state, cpu, max(start_ns, at_ns), min(end_ns, one.end_ns))
            # What no event shows of it is no wait and no work.
            response.parts_ns["asleep"] += one.end_ns - one.start_ns - sum(response.parts_ns.values())
            before_ns = one.end_ns
            found.append(response)
        return found

    def awake(self, task: int) -> list[Activation]:
        """Give the times from a wake-up of the task to its next sleep."""
        found: list[Activation] = []
        for start_ns, end_ns, state, _ in self._states(task):
            if state == "asleep":
                continue
            on = bool(found) and found[-1].end_ns == start_ns
            found.append(Activation(found.pop().start_ns if on else start_ns, end_ns))
        # What ran at the end has not ended.
        return [one for one in found if one.end_ns < FOREVER_NS]

    def awake_since(self, task: int) -> int | None:
        """Give when the task last woke, if it does not sleep at the end."""
        found = None
        for start_ns, _, state, _ in self._states(task):
            found = None if state == "asleep" else start_ns if found is None else found
        return found

    def slept_ns(self, task: int) -> list[int]:
        """Give when the task went to sleep."""
        return [time_ns for time_ns, _, prev, runnable, _ in self._switches if prev == task and not runnable]

    def _states(self, task: int) -> list[tuple[int, int, str, int]]:
        """Give when a task ran, waited and slept: (from, to, state, CPU).

        Where switches are missing, so that another task leaves the CPU to which it came, or it leaves one to which it
        did not come, its state is ``unseen`` up to its next event.
        """
        wakes = sorted((time_ns, waker) for time_ns, woken, waker in self._wakes if woken == task)
        moves = [(time_ns, cpu) for time_ns, moved, cpu in self._moves if moved == task]
        moved_ns = [time_ns for time_ns, _ in moves]
        states: list[tuple[int, int, str, int]] = []
        # `left`: how it left its CPU; whoever is in the first switch of a CPU has run there from the start.
        left_ns, left, last, since_ns, runs, ended = 0, "asleep", -1, 0, False, 0
        began: set[int] = set()

        def gap(start_ns: int, end_ns: int, cpu: int) -> None:
            """Add the time before a task runs on `cpu`."""
            nonlocal ended
            at_ns = start_ns
            if left != "runnable":
                # A wake-up ends one sleep: that of a run without length is at the time of the next sleep, too.
                place = bisect_left(wakes, (start_ns, -1), ended)
                ended = place + 1
                at_ns, waker = wakes[place] if place < len(wakes) else (end_ns, -1)
                at_ns = min(at_ns, end_ns)
                states.append((start_ns, at_ns, left, waker))
            queued = last if last >= 0 else cpu
            for time_ns, dest in moves[bisect_left(moved_ns, start_ns) : bisect_right(moved_ns, end_ns)]:
                states.append((at_ns, max(at_ns, time_ns), "waiting", queued))
                at_ns, queued = max(at_ns, time_ns), dest
            states.append((at_ns, end_ns, "waiting", queued))

        for time_ns, cpu, prev, still, following in self._switches:
            if runs and cpu == last and prev != task:
                # By then it had left.
                states.append((since_ns, time_ns, "running", cpu))
                left_ns, left, runs = time_ns, "unseen", False
            if prev == task:
                seen = runs and cpu == last
                if seen or (last < 0 and cpu not in began):
                    states.append((since_ns, time_ns, "running", cpu))
                else:
                    states.append((since_ns if runs else left_ns, time_ns, "unseen", cpu))
                left_ns, left, last, runs = time_ns, "runnable" if still else "asleep", cpu, False
            if following == task:
                if runs:
                    states.append((since_ns, time_ns, "unseen", cpu))
                else:
                    gap(left_ns, time_ns, cpu)
                since_ns, last, runs = time_ns, cpu, True
            began.add(cpu)
        if runs:
            states.append((since_ns, FOREVER_NS, "running", last))
        else:
            # In this state it is at the end.
            gap(left_ns, FOREVER_NS, last)
        return [one for one in states if one[1] > one[0]]

    def _count(self, response: Response, state: str, cpu: int, start_ns: int, end_ns: int) -> None:
        """Add a time in one state to the parts of a response."""
        parts = response.parts_ns
        if state == "asleep":
            # A timer's interrupt waits for its CPU to leave idle.
            left_ns = _within_ns(self._exits.get(cpu, []), start_ns, end_ns)
            parts["idle"] += left_ns
            parts["asleep"] += end_ns - start_ns - left_ns
        elif state == "unseen":
            parts["unseen"] += end_ns - start_ns
        elif state == "waiting":
            for since_ns, until_ns, runs in self._waits(cpu, start_ns, end_ns, parts):
                if runs != self.idle:
                    served_ns = _within_ns(self._served.get(cpu, []), since_ns, until_ns)
                    for part, ran, ns in (
                        ("server", response.served_ns, served_ns),
                        ("waiting", response.waited_for_ns, until_ns - since_ns - served_ns),
                    ):
                        if ns:
                            parts[part] += ns
                            ran[runs] += ns
                    continue
                left_ns = _within_ns(self._stays.get(cpu, []), since_ns, until_ns)
                parts["idle"] += left_ns
                parts["held"] += until_ns - since_ns - left_ns
        else:
            response.cpus.add(cpu)
            of_cpu = self.cpus[cpu]
            for since_ns, until_ns, seen_khz in self._pieces(self._clocks.get(cpu), start_ns, end_ns):
                khz = seen_khz or (of_cpu.top_khz if of_cpu.one_clock else 0)
                if of_cpu.fixed:
                    parts["work"] += until_ns - since_ns
                elif not khz:
                    parts["unknown"] += until_ns - since_ns
                else:
                    self._run(parts, of_cpu, since_ns, until_ns, min(khz / of_cpu.top_khz, 1.0))

    def _waits(self, cpu: int, start_ns: int, end_ns: int, parts: dict[str, float]) -> Iterator[tuple[int, int, int]]:
        """Give the pieces of a wait in which a CPU runs one task; what stops the task is counted and left out."""
        rest = [(start_ns, end_ns)]
        for part, spans in (("budget", self._throttled), (self._stopped_by, self._stops.get(cpu, []))):
            changes = ([0, *(at for span in spans for at in span)], [0, *(on for _ in spans for on in (1, 0))])
            pieces = [piece for span in rest for piece in self._pieces(changes, *span)]
            parts[part] += sum(until_ns - since_ns for since_ns, until_ns, stopped in pieces if stopped)
            rest = [(since_ns, until_ns) for since_ns, until_ns, stopped in pieces if not stopped]
        for span in rest:
            yield from self._pieces(self._ran.get(cpu), *span)

    def _run(self, parts: dict[str, float], cpu: Cpu, start_ns: int, end_ns: int, clock: float) -> None:
        """Add a time of work at one clock, a share of the CPU's highest."""
        both_ns = self._busy_ns(cpu.siblings, start_ns, end_ns)
        run_ns = end_ns - start_ns
        parts["clock"] += run_ns * (1 - clock)
        parts["capacity"] += run_ns * clock * (1 - cpu.speed)
        lost_ns = both_ns * clock * cpu.speed * (1 - cpu.smt_yield)
        parts["sibling"] += lost_ns
        parts["work"] += run_ns * clock * cpu.speed - lost_ns

    def _busy_ns(self, cpus: tuple[int, ...], start_ns: int, end_ns: int) -> int:
        """Give the time in which at least one of some CPUs runs a task."""
        edges = Counter[int]()
        for cpu in cpus:
            for since_ns, until_ns, runs in self._pieces(self._ran.get(cpu), start_ns, end_ns):
                if cpu in self._ran and runs != self.idle:
                    edges[since_ns] += 1
                    edges[until_ns] -= 1
        busy_ns, count, last_ns = 0, 0, start_ns
        for time_ns in sorted(edges):
            busy_ns += time_ns - last_ns if count else 0
            count, last_ns = count + edges[time_ns], time_ns
        return busy_ns


def _within_ns(spans: list[tuple[int, int]], start_ns: int, end_ns: int) -> int:
    """Give how much of a time is in spans, which are in order and apart."""
    near = spans[max(bisect_left(spans, (start_ns, -1)) - 1, 0) : bisect_left(spans, (end_ns, -1))]
    return sum(max(min(to_ns, end_ns) - max(from_ns, start_ns), 0) for from_ns, to_ns in near)


def _stops(records: Records, task: int) -> dict[int, list[tuple[int, int]]]:
    """Give when a task's queues are stopped, by CPU, in order and apart, whoever stops them."""
    found: dict[int, list[tuple[int, int]]] = {}
    for cpu, stops in records.stops(task).items():
        spans = found.setdefault(cpu, [])
        for since_ns, until_ns, _ in sorted(stops):
            if spans and since_ns <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(spans[-1][1], until_ns)
            else:
                spans.append((since_ns, until_ns))
    return found


def _events(
    rows: Callable[..., list[Any]], task: str, prev: str, following: str, waking: Sequence[str]
) -> tuple[list[Any], list[Any], list[Any]]:
    """Give switches, wake-ups and moves of a `Timeline` from rows with these columns; a new task is woken and moved."""
    switches = [
        # Traces that are text have letters.
        (at, cpu, before, state.startswith("R") if isinstance(state, str) else state & 0xFF == 0, to)
        for at, cpu, before, state, to in rows("sched_switch", "cpu", prev, "prev_state", following)
    ]
    births = rows("sched_wakeup_new", task, "target_cpu")
    wakes = [row for event in waking for row in rows(event, task, "cpu")]
    return switches, [*wakes, *births], sorted([*rows("sched_migrate_task", task, "dest_cpu"), *births])


def of_run(records: Records, task: int) -> tuple[Timeline, list[Activation]]:
    """Give the events of a run and the activations of a task after the warm-up: those of its timers, if it has any."""

    def rows(table: str, *columns: str) -> list[Any]:
        return list(zip(*(records.tables[table][name].tolist() for name in ("time_ns", *columns)), strict=True))

    # Each exit ends with the CPU's next event of cpuidle.
    exits: dict[int, list[tuple[int, int]]] = {}
    begun = dict[int, int]()
    ends = [(at, 1, cpu) for at, cpu, state in rows("cpu_idle", "cpu", "state") if state < 0]
    for at, is_end, cpu in sorted([*((at, 0, cpu) for at, cpu in rows("idle_exit", "cpu")), *ends]):
        if not is_end:
            begun[cpu] = at
        elif cpu in begun:
            exits.setdefault(cpu, []).append((begun.pop(cpu), at))
    cpus = speeds(records.outcome, records.facts)
    events = _events(rows, "task", "prev", "next", ("sched_waking",))
    clocks = rows("cpu_frequency", "cpu", "khz")
    throttled = [(since_ns, until_ns) for since_ns, until_ns, _ in records.throttles.get(task, [])]
    real_time = records.is_of(task, *REAL_TIME)
    timeline = Timeline(
        *(*events, clocks, cpus, IDLE_TASK, exits),
        stops=_stops(records, task),
        stopped_by="throttling" if real_time else "quota",
        throttled=throttled,
        served=records.served() if real_time else None,
    )
    slept_ns = timeline.slept_ns(task)
    activations = []
    for index in records.where("activation", task=task, timed=1):
        row = records.row("activation", int(index))
        # The end of the work: a task that is not late sleeps then, and the next timer ends the loop.
        place = bisect_right(slept_ns, row["time_ns"]) if row["to_timer_ns"] > 0 else 0
        end_ns = slept_ns[place - 1] if place else row["time_ns"]
        if end_ns > records.warmup_ns and row["response_ns"]:
            late_ns = max(-row["slack_ns"], 0)
            activations.append(Activation(max(end_ns - row["response_ns"], 0), end_ns, row["slack_ns"] < 0, late_ns))
    since_ns = timeline.awake_since(task)
    if activations and since_ns is not None:
        # Of what is under way at the end, the timer is that of the wake-up, or the one that the last loop was late for.
        # A relative one begins anew; an absolute one stays where it was, and its later points may have passed, too.
        period_ns, absolute = records.timer(task, row["phase"])
        since_ns = max(since_ns, row["time_ns"] + (min(row["slack_ns"], 0) if absolute else 0))
        due_ns = row["response_ns"] + max(row["to_timer_ns"], row["slack_ns"])
        while (late_ns := records.end_ns - since_ns - due_ns) > 0:
            activations.append(Activation(since_ns, records.end_ns, True, late_ns, ended=False))
            if not (absolute and period_ns):
                break
            since_ns += period_ns
    return timeline, activations or [one for one in timeline.awake(task) if one.start_ns >= records.warmup_ns]


def of_trace(
    path: Path, cpus: dict[int, Cpu], task: str, machine: Machine | None
) -> tuple[Timeline, int, list[Activation], dict[int, str]]:
    """Give the events of a trace, a task's pid, its activations, and the names of all tasks."""
    from opplab.trace.recording import Trace

    trace = Trace(path)
    names, signals = trace.task_names(), trace.signals(machine)
    # A pid may have been several tasks', one after the other.
    known = {*names.items(), *signals.running.select("pid", "comm").rows()}
    # A trace's own list of names also has tasks that were before it.
    seen = {*signals.running["pid"].to_list(), *signals.activations["pid"].to_list()}
    known = {(pid, name) for pid, name in known if pid in seen}
    own = {(pid, name) for pid, name in known if pid and task in (name, str(pid))}
    if not own:
        woke = Counter(signals.activations["pid"].to_list())
        most = dict.fromkeys(name for pid, name in sorted(known, key=lambda one: (-woke[one[0]], one[1])) if pid)
        raise InputError(f"{path} has no task `{task}`{nearest_task(task, list(most))}")
    pids = sorted({pid for pid, _ in own})
    check_one_pid(pids, task)

    def rows(event: str, *columns: str) -> list[Any]:
        if event not in trace.info["events"]:
            return []
        found: list[Any] = trace.events(event).select("time_ns", *columns).rows()
        return found

    stays: dict[int, list[tuple[int, int]]] = {}
    entered = dict[int, int]()
    for at, cpu, state in rows("cpu_idle", "cpu_id", "state"):
        if state not in (-1, 2**32 - 1):
            entered.setdefault(cpu, at)
        elif cpu in entered:
            stays.setdefault(cpu, []).append((entered.pop(cpu), at))
    switches, wakes, moves = _events(rows, "pid", "prev_pid", "next_pid", ("sched_waking", "sched_wakeup"))
    aliases: dict[tuple[int, str], int] = {}

    def who(pid: int, name: str) -> int:
        """Give a number to what ran under a pid by another name than its last one: it may have been another task."""
        if pid in (0, pids[0]) or names.get(pid, name) == name:
            return pid
        return aliases.setdefault((pid, name), -1 - len(aliases))

    called = [(before, after) for _, before, after in rows("sched_switch", "prev_comm", "next_comm")]
    switches = [
        (at, cpu, who(prev, before), still, who(following, after))
        for (at, cpu, prev, still, following), (before, after) in zip(switches, called, strict=True)
    ]
    names |= {number: name for (_, name), number in aliases.items()}
    timeline = Timeline(switches, wakes, moves, rows("cpu_frequency", "cpu_id", "state"), cpus, 0, {}, stays)
    rows_of = signals.activations.select("pid", "comm", "time_ns", "response_ns", "missed").rows()
    # Of loops that run back to back, without a sleep, no event shows how many and how late they were.
    # What is past its deadline at the end of the trace has no response time.
    end_ns = trace.info["start_ns"] + trace.info["duration_ns"]
    activations = [
        Activation(at, end_ns if took_ns is None else at + took_ns, missed, ended=took_ns is not None)
        for *of, at, took_ns, missed in rows_of
        if tuple(of) in own
    ]
    return timeline, pids[0], activations, names


def _slow(activations: list[Activation], traced: bool) -> tuple[list[int], str]:
    """Give which activations are slow, and why they count as that."""
    missed = [place for place, one in enumerate(activations) if one.missed]
    if missed and traced:
        awake = (
            f"{len(missed)} of {len(activations)} times from a wake-up to the next sleep were longer than a deadline"
        )
        return missed, f"{awake}; activations that ran back to back are in one of them"
    if missed:
        return missed, f"{len(missed)} of {len(activations)} activations were missed"
    by_length = sorted(
        range(len(activations)), key=lambda place: activations[place].start_ns - activations[place].end_ns
    )
    slowest = sorted(by_length[: max(1, round(SLOWEST * len(activations)))])
    known = any(one.missed is not None for one in activations)
    why = "none was missed" if known else "no deadline is known"
    return slowest, f"{len(activations)} activations, {why}; the slowest {len(slowest)}"


def _words(response: Response, name_of: dict[int, str], whole_ns: float, quota: bool) -> tuple[str, dict[str, Any]]:
    """Give the parts of a response in words, the largest first, and as numbers."""
    waited, served = _by_name(response.waited_for_ns, name_of), _by_name(response.served_ns, name_of)
    parts = []
    for part, ns in sorted(response.parts_ns.items(), key=lambda item: -item[1]):
        if round(ns):
            stopped = quota and part == "waiting"
            text = f"{length(ns)} {WAITING_OR_STOPPED if stopped else PARTS[part]} ({100 * ns / whole_ns:.1f} %)"
            if part == "waiting":
                ran = some_of((f"{name} {length(ns)}" for name, ns in waited.items()), NAMED)
                text += f"{', while CPUs' if stopped else ' that'} ran {ran}"
            elif part == "server":
                text += f", which ran {some_of((f'{name} {length(ns)}' for name, ns in served.items()), NAMED)}"
            parts.append(text)
    data = {"response_ns": round(whole_ns), "parts_ns": dict(response.parts_ns), "waited_for_ns": waited}
    return "; ".join(parts), {**data, "served_ns": served, "cpus": sorted(response.cpus)}


def _by_name(ran_ns: Counter[int], name_of: dict[int, str]) -> dict[str, int]:
    """Give for how long tasks ran by their names, the longest first."""
    by_name = Counter[str]()
    for task, ns in ran_ns.items():
        by_name[name_of.get(task, str(task))] += ns
    return dict(by_name.most_common())


def response_findings(
    name: str,
    timeline: Timeline,
    task: int,
    activations: list[Activation],
    name_of: dict[int, str],
    *,
    traced: bool = False,
    quota: bool = False,
) -> list[Finding]:
    """Divide the slow activations of a task into their parts: their sum first, then the slowest ones.

    With `quota` of a trace waits may be those for a quota.
    """
    if not activations:
        return [Finding(0, "response", f"{name} has no activation: no wake-up of it is followed by a sleep.")]
    responses = timeline.responses(task, activations)
    places, why = _slow(activations, traced)
    slow = [responses[place] for place in places]
    total = Response(Activation(0, sum(one.response_ns for one in slow)))
    for one in slow:
        total.waited_for_ns.update(one.waited_for_ns)
        total.served_ns.update(one.served_ns)
        total.cpus |= one.cpus
        for part, ns in one.parts_ns.items():
            total.parts_ns[part] += ns
    words, data = _words(total, name_of, total.response_ns, quota)
    data |= {"slow": len(slow), "activations": len(activations)}
    sums = f" Together they took {length(total.response_ns)}: {words}." if len(slow) > 1 else ""
    text = f"{name}: {why}.{sums}"
    findings = [Finding(0, "response", text, data)]
    for one in sorted(slow, key=lambda one: -one.response_ns)[:SHOWN]:
        words, data = _words(one, name_of, one.response_ns, quota)
        late = f", {length(one.of.late_ns)} late" if one.of.late_ns else ""
        ran = f" on {cpu_list(sorted(one.cpus))}" if one.cpus else ""
        unended = "" if one.of.ended else ", up to the end, when its work was not done"
        text = f"{seconds(one.of.start_ns)}: {length(one.response_ns)}{late}{ran}{unended}: {words}."
        findings.append(Finding(one.of.start_ns, "activation", text, data))
    if len(slow) > SHOWN:
        findings.append(Finding(0, "more", f"{len(slow) - SHOWN} more are in the sum.", {"more": len(slow) - SHOWN}))
    return findings
