"""Why a task ran on a CPU: its wake-up, the candidates, who moved it, and who let it wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.explanation.findings import Finding, by_cpu, length, on_cpus, seconds
from opplab.explanation.frequency import frequency_findings, point_name
from opplab.explanation.records import IDLE_TASK, REAL_TIME, RT_THROTTLED, Records
from opplab.explanation.slow import budgets_that_acted, quotas_that_acted, throttling_that_acted
from opplab.report.numbers import several

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt


CLASSES = ("deadline", "real-time")
"""Rules of classes that also push and pull tasks, by their names."""


def _energies(records: Records, row: dict[str, Any]) -> tuple[list[Finding], list[tuple[str, dict[str, Any]]]]:
    """Explain the candidates of an energy-aware placement, whose records are given too."""
    lines = [
        (table, records.row(table, int(index)))
        for table in ("eas_candidate", "eas_energy")
        for index in records.where(table, decision=row["decision"])
    ]

    def say(one: dict[str, Any]) -> str:
        return records.words("eas_candidate", one, one["cpu"], *lines, ("placement_decision", row))["text"]

    return candidate_findings(row, lines, say), lines


def candidate_findings(
    row: dict[str, Any], lines: list[tuple[str, dict[str, Any]]], say: Callable[[dict[str, Any]], str]
) -> list[Finding]:
    """Give a finding a candidate, with the energies of its domain as far as they are known."""
    energies = {(one["dst_cpu"], one["domain"]): one for table, one in lines if table == "eas_energy"}
    findings = []
    for table, one in lines:
        if table != "eas_candidate":
            continue
        data = {name: value for name, value in one.items() if (name not in ("util", "capacity") or one["capacity"])}
        with_task = energies.get((one["cpu"], one["domain"]))
        without = energies.get((-1, one["domain"]))
        if with_task is not None and without is not None:
            data |= {"energy": with_task["energy"], "energy_without": without["energy"]}
            data |= {"max_util": with_task["max_util"]}
        findings.append(Finding(row["time_ns"], "candidate", f"  {say(one)}", data))
    return findings


def energy_choice(
    row: dict[str, Any], words: dict[str, str], candidates: list[Finding], more: str = ""
) -> list[Finding]:
    """Explain a placement by energy, whose candidates are explained."""
    first = Finding(row["time_ns"], "placement", f"{seconds(row['time_ns'])}: {words['text']}", row)
    data = {"cpu": row["cpu"], "rule": row["eas_rule"]}
    return [first, *candidates, Finding(row["time_ns"], "choice", f"  {words['outcome']}{more}", data)]


def _placement(records: Records, index: int) -> list[Finding]:
    """Explain a placement at a wake-up or birth."""
    row = records.row("placement_decision", index)
    candidates, lines = _energies(records, row) if row["rule"] == "eas" else ([], [])
    words = records.words("placement_decision", row, row["cpu"], *lines)
    if row["rule"] == "eas" and not row["fork"]:
        return energy_choice(row, words, candidates)
    return [Finding(row["time_ns"], "placement", f"{seconds(row['time_ns'])}: {words['text']}", row)]


def _left_idle(records: Records, cpu: int, idles: npt.NDArray[np.intp]) -> tuple[int, int] | None:
    """Give the idle state that a CPU left last, and how long the exit took in ns; None if that is not recorded."""
    if len(idles) < 2:
        return None
    left_ns = records.row("cpu_idle", int(idles[-1]))["time_ns"]
    before = records.row("cpu_idle", int(idles[-2]))
    exits = records.where("idle_exit", cpu=cpu)
    begun = records.until("idle_exit", exits, left_ns)
    if before["state"] < 0 or not begun:
        return None
    begun_ns = records.row("idle_exit", int(exits[begun - 1]))["time_ns"]
    return (before["state"], left_ns - begun_ns) if begun_ns >= before["time_ns"] else None


def _started(records: Records, task: int, cpu: int, woken_ns: int, at_ns: int) -> Finding | None:
    """Explain how long a task that woke on a CPU took to run, there or elsewhere, and why."""
    runs = records.where("sched_switch", next=task)
    place = int(np.searchsorted(records.tables["sched_switch"]["time_ns"][runs], woken_ns))
    if place == len(runs):
        return None
    run = records.row("sched_switch", int(runs[place]))
    if run["time_ns"] > max(at_ns, woken_ns):
        return None
    name, latency_ns = records.task(task), run["time_ns"] - woken_ns
    data = {"cpu": run["cpu"], "start_ns": run["time_ns"], "latency_ns": latency_ns}
    after = f"{length(latency_ns)} after the wake-up" if latency_ns else "at once"
    if run["cpu"] != cpu:
        text = f"{name} ran from {seconds(run['time_ns'])} on CPU {run['cpu']}, {after}."
        return Finding(run["time_ns"], "start", text, data)
    before = records.where("sched_switch", cpu=cpu)
    count = int(np.searchsorted(records.tables["sched_switch"]["time_ns"][before], woken_ns))
    running = records.row("sched_switch", int(before[count - 1]))["next"] if count else IDLE_TASK
    idles = records.where("cpu_idle", cpu=cpu)
    entered = int(np.searchsorted(records.tables["cpu_idle"]["time_ns"][idles], woken_ns, side="right"))
    if entered and not latency_ns:
        # A state entered at this instant comes after the run, which the CPU had woken up for.
        last = records.row("cpu_idle", int(idles[entered - 1]))
        entered -= last["time_ns"] == woken_ns and last["state"] >= 0
    state = records.row("cpu_idle", int(idles[entered - 1]))["state"] if entered else -1
    names = records.idle_states[cpu]
    if running == IDLE_TASK and state >= 0:
        data["idle_state"] = names[state] if state < len(names) else str(state)
        text = f"CPU {cpu} was in idle state {data['idle_state']}; {name} ran from {seconds(run['time_ns'])}, {after}."
    elif running == IDLE_TASK and (left := _left_idle(records, cpu, idles[:entered])) is not None:
        state, data["exit_ns"] = left
        data["idle_state"] = names[state] if state < len(names) else str(state)
        text = (
            f"CPU {cpu} had left idle state {data['idle_state']} for it, which took {length(data['exit_ns'])}; "
            f"{name} ran from {seconds(run['time_ns'])}, {after}."
        )
    elif running == IDLE_TASK:
        text = f"CPU {cpu} was awake without a task; {name} ran from {seconds(run['time_ns'])}, {after}."
    else:
        data["running"] = records.task(running)
        how = "preempted it" if run["prev_state"] == 0 and latency_ns == 0 else "had its turn"
        text = f"CPU {cpu} ran {records.task(running)}; {name} {how} at {seconds(run['time_ns'])}, {after}"
        why = records.before_real_time(task, run)
        text += f": {why}." if why else "."
    return Finding(run["time_ns"], "start", text, data)


def _delayed(records: Records, task: int, placed_ns: int, at_ns: int) -> Finding | None:
    """Explain a wake-up that found the task still queued."""
    wakings = records.where("sched_waking", task=task)
    count = records.until("sched_waking", wakings, at_ns)
    if not count:
        return None
    row = records.row("sched_waking", int(wakings[count - 1]))
    if row["time_ns"] <= placed_ns:
        return None
    text = (
        f"{seconds(row['time_ns'])}: {records.task(task)} was woken from CPU {row['cpu']} while it was still queued on "
        f"CPU {row['target_cpu']}: its dequeue had been delayed (it slept with negative lag), so that it stays there."
    )
    return Finding(row["time_ns"], "placement", text, {**row, "cpu": row["target_cpu"], "waker_cpu": row["cpu"]})


def _moved(records: Records, index: int) -> Finding:
    """Explain a move by the balancer, or by a task's own class."""
    row = records.row("placement", index)
    task = records.task(row["task"])
    if row["rule"] in CLASSES:
        how = f"the {row['rule']} class moved {task} from CPU {row['prev_cpu']} to CPU {row['cpu']} (a push or a pull)"
        return Finding(row["time_ns"], "balance", f"{seconds(row['time_ns'])}: {how}.", row)
    text = f"{seconds(row['time_ns'])}: the balancer moved {task} from CPU {row['prev_cpu']} to CPU {row['cpu']}"
    passes = [
        records.row("balance_pass", int(one))
        for one in records.where("balance_pass", dst_cpu=row["cpu"], src_cpu=row["prev_cpu"])
        if records.tables["balance_pass"]["time_ns"][one] == row["time_ns"]
    ]
    if passes:
        one = passes[0]
        row["pass"] = one
        text += f": {records.words('balance_pass', one, row['cpu'])['how']}"
    if row["rule"] == "active-balance":
        text += "; it was running and was pushed by the stopper"
    return Finding(row["time_ns"], "balance", text + ".", row)


def _waits_since(records: Records, task: int, at_ns: int) -> int | None:
    """Give since when a task waits for a CPU at a point in time; None if it runs or sleeps then."""

    def last(table: str, **of: int) -> dict[str, Any] | None:
        rows = records.where(table, **of)
        count = records.until(table, rows, at_ns)
        return records.row(table, int(rows[count - 1])) if count else None

    ran, left = last("sched_switch", next=task), last("sched_switch", prev=task)
    wakes = [one["time_ns"] for one in (last("sched_waking", task=task), last("sched_wakeup_new", task=task)) if one]
    left_ns = -1 if left is None else left["time_ns"]
    if ran is not None and ran["time_ns"] >= left_ns:
        return None
    if left is not None and not left["prev_state"]:
        return left_ns
    return max((at for at in wakes if at >= left_ns), default=None)


def _stopped(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    """Give what may not run on a CPU at a point in time, though it may be queued there."""
    spans = [(span, "real-time tasks", RT_THROTTLED) for span in records.rt_stops.get(cpu, [])]
    for (of_cpu, group), of in records.group_stops.items():
        name = f"tasks of `{records.outcome['groups'][group]}`"
        spans += [(span, name, "its quota ran out") for span in of if of_cpu == cpu]
    findings = []
    for (since_ns, until_ns), who, why in spans:
        if since_ns <= at_ns < until_ns:
            text = f"{seconds(since_ns)}: {why}: {who} may not run on CPU {cpu} until {seconds(until_ns)}."
            data = {"cpu": cpu, "until_ns": until_ns, "reason": why}
            findings.append(Finding(since_ns, "stopped", text, data))
    return findings


def _arrival(records: Records, task: int, at_ns: int) -> list[Finding]:
    """Explain the last placement of a task at or before a point in time, and moves since."""
    placed = records.where("placement_decision", task=task)
    count = records.until("placement_decision", placed, at_ns)
    findings: list[Finding] = []
    start_ns, own = 0, (-1, -1, -1)
    if count:
        row = records.row("placement_decision", int(placed[count - 1]))
        start_ns, cpu = row["time_ns"], row["cpu"]
        own = (start_ns, row["prev_cpu"], cpu)
        findings += _placement(records, int(placed[count - 1]))
        findings += [one for one in [_started(records, task, cpu, start_ns, at_ns)] if one is not None]
        findings += [one for one in [_delayed(records, task, start_ns, at_ns)] if one is not None]
    moves = records.where("placement", task=task)
    rules = records.codes["rule"]
    columns = records.tables["placement"]
    for index in moves[: records.until("placement", moves, at_ns)]:
        moved_ns, rule = int(columns["time_ns"][index]), rules[columns["rule"][index]]
        # A wake-up's own placement is among them.
        route = tuple(int(columns[name][index]) for name in ("time_ns", "prev_cpu", "cpu"))
        if moved_ns >= start_ns and rule in ("balance", "active-balance", *CLASSES) and route != own:
            findings.append(_moved(records, int(index)))
    for since_ns, until_ns, why in records.throttles.get(task, []):
        if since_ns <= at_ns and until_ns > start_ns:
            text = (
                f"{seconds(since_ns)}: {why}: {records.task(task)} waits for its next period until {seconds(until_ns)}."
            )
            findings.append(Finding(since_ns, "budget", text, {"until_ns": until_ns, "reason": why}))
    queued = next((one.data["cpu"] for one in reversed(findings) if one.kind in ("placement", "balance")), None)
    waits_ns = _waits_since(records, task, at_ns)
    for begun_ns, until_ns, why in [] if queued is None or waits_ns is None else records.stops(task).get(queued, []):
        if begun_ns <= at_ns < until_ns:
            text = f"{seconds(begun_ns)}: {why}: {records.task(task)} waits on CPU {queued} until {seconds(until_ns)}."
            data = {"cpu": queued, "until_ns": until_ns, "reason": why}
            findings.append(Finding(begun_ns, "stopped", text, data))
    # A run on another CPU is after the moves that led there.
    return sorted(findings, key=lambda one: (one.time_ns, one.kind == "start"))


def _running(records: Records, cpu: int, at_ns: int) -> tuple[int, Finding]:
    switches = records.where("sched_switch", cpu=cpu)
    count = records.until("sched_switch", switches, at_ns)
    task, since_ns = IDLE_TASK, 0
    if count:
        row = records.row("sched_switch", int(switches[count - 1]))
        task, since_ns = row["next"], row["time_ns"]
    until_ns = records.end_ns
    if count < len(switches):
        until_ns = int(records.tables["sched_switch"]["time_ns"][switches[count]])
    clocks = records.where("cpu_frequency", cpu=cpu)
    number = records.until("cpu_frequency", clocks, at_ns)
    at = "at a clock that no event has named yet"
    data = {"cpu": cpu, "task": None if task == IDLE_TASK else records.task(task), "khz": None}
    data |= {"since_ns": since_ns, "until_ns": until_ns, "clock_since_ns": None}
    # A CPU that comes online has the clock that its policy started with, without an event.
    if number:
        clock = records.row("cpu_frequency", int(clocks[number - 1]))
        data |= {"khz": clock["khz"], "clock_since_ns": clock["time_ns"]}
        at = f"at {point_name(records, cpu, clock['khz'])}, its clock since {seconds(clock['time_ns'])}"
    span = f"from {seconds(since_ns)} to {seconds(until_ns)}"
    text = f"At {seconds(at_ns)} CPU {cpu} ran {records.task(task)} ({span}) {at}."
    return task, Finding(at_ns, "running", text, data)


def cpu_findings(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    """Describe what a CPU ran at a point in time, at which clock, and why."""
    why = records.why_offline(cpu, at_ns)
    if why is not None:
        text = f"At {seconds(at_ns)} CPU {cpu} is offline ({why}): it runs no task, and no governor asks for its clock."
        return [Finding(at_ns, "offline", text, {"cpu": cpu, "setting": why})]
    task, running = _running(records, cpu, at_ns)
    findings = [running, *_stopped(records, cpu, at_ns), *frequency_findings(records, cpu, at_ns)]
    if task != IDLE_TASK:
        findings += _arrival(records, task, at_ns)
    return findings


def task_findings(records: Records, task: int, at_ns: int | None) -> list[Finding]:
    """Report where a task ran, and why it was where it was at a point in time, or at its end."""
    name = records.task(task)
    placed = records.where("placement", task=task)
    columns = records.tables["placement"]
    rules = Counter(records.codes["rule"][code] for code in columns["rule"][placed])
    cpus = Counter(columns["cpu"][placed].tolist())
    findings = []
    if len(placed):
        by_rule = ", ".join(f"{count} by {rule}" for rule, count in rules.most_common())
        text = f"{name} was placed {several(len(placed), 'time')}: {by_rule}; {on_cpus(cpus)}."
        data = {"rules": dict(rules), "cpus": by_cpu(cpus)}
        findings.append(Finding(0, "summary", text, data))
    findings += budgets_that_acted(records.names, records.throttles, task)
    findings += quotas_that_acted(records.outcome, task)
    if records.is_of(task, *REAL_TIME):
        findings += throttling_that_acted({cpu: of for cpu, of in records.rt_stops.items() if cpu in cpus})
    at_ns = records.end_ns if at_ns is None else at_ns
    arrival = _arrival(records, task, at_ns)
    findings += arrival
    if not arrival:
        findings.append(Finding(at_ns, "placement", f"{name} was not placed until {seconds(at_ns)}."))
    cpu = next((one.data["cpu"] for one in reversed(arrival) if one.kind in ("placement", "balance")), None)
    if cpu is not None:
        findings.append(_running(records, cpu, at_ns)[1])
        findings += frequency_findings(records, cpu, at_ns)
    return findings
