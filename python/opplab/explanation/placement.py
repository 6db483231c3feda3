"""Why a task ran on a CPU: its wake-up, the candidates, who moved it, and who let it wait."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from opplab.explanation.findings import Finding, length, seconds
from opplab.explanation.frequency import frequency_findings, point_name
from opplab.explanation.records import IDLE_TASK, Records

AFFINE = {
    "this-idle": "the waking CPU is idle and shares the cache",
    "sync-alone": "the waker is alone on its CPU and about to sleep",
    "prev-idle": "the previous CPU is idle",
    "sync-load": "the waker's load is all there is on its CPU and leaves with it",
    "weight": "the loads were compared",
}
SIBLING = {
    "target-idle": "the target is idle",
    "prev-idle": "the previous CPU is idle and shares the target's cache",
    "per-cpu-kthread": "a kernel thread bound to this CPU wakes the task that waited for it",
    "recent-idle": "the CPU that it used before the previous one is idle",
    "capacity": "it is the CPU that fits best among those of different capacity",
    "idle-smt": "a sibling thread of the previous CPU's core is idle",
    "idle-core": "its whole core is idle",
    "idle-cpu": "it is the first idle CPU that the scan of the cache met",
    "target": "nothing idle was found, so the task queues at the target",
}
EAS = {
    "no-domain": "there is no performance domain",
    "overutilized": "some CPU is overutilised",
    "no-utilisation": "the task uses nothing, so it stays where it was",
    "changed": "the utilisation moved meanwhile, so it stays where it was",
    "better-fit": "it fits there and did not where it was",
    "less-energy": "that costs the least energy",
    "more-capacity": "no CPU can grant its lower clamp; this one has the most capacity",
    "prev-does-not-fit": "it does not fit where it was, and this costs the least energy of the others",
    "stay": "no other CPU would save enough, so it stays",
}


def _energies(records: Records, row: dict[str, Any]) -> list[Finding]:
    """Explain the candidates of an energy-aware placement."""
    energies = [records.row("eas_energy", int(i)) for i in records.where("eas_energy", decision=row["decision"])]
    without = {one["domain"]: one["energy"] for one in energies if one["dst_cpu"] < 0}
    findings = []
    for index in records.where("eas_candidate", decision=row["decision"]):
        one = records.row("eas_candidate", int(index))
        with_task = next((energy for energy in energies if energy["dst_cpu"] == one["cpu"]), None)
        base = without.get(one["domain"])
        if with_task is not None and base is not None:
            one |= {"energy": with_task["energy"], "energy_without": base, "max_util": with_task["max_util"]}
        findings.append(candidate_finding(row, one))
    return findings


def candidate_finding(row: dict[str, Any], one: dict[str, Any]) -> Finding:
    """Say what speaks for a candidate, with its utilisation and energies as far as they are known."""
    used = f"its utilisation is {one['util']} of {one['capacity']}, " if "util" in one else ""
    text = f"  CPU {one['cpu']}: with the task {used}{one['spare_cap']} to spare"
    if one["fits"] < 0:
        text += ", but its lower clamp can not be granted"
    if "energy" in one:
        delta = one["energy"] - one["energy_without"]
        text += f"; energy of its domain {one['energy_without']} -> {one['energy']} ({delta:+d})"
    chosen = " <- chosen" if one["cpu"] == row["cpu"] else ""
    return Finding(row["time_ns"], "candidate", f"{text}.{chosen}", one)


def energy_choice(row: dict[str, Any], head: str, candidates: list[Finding], more: str = "") -> list[Finding]:
    """Explain a placement by energy, whose candidates are explained."""
    many = "1 CPU" if len(candidates) == 1 else f"{len(candidates)} CPUs"
    weighed = f" Energy-aware placement weighed {many}:" if candidates else ""
    cpu, rule = row["cpu"], row["eas_rule"]
    why = f"{EAS[rule]} ({rule})" if rule else "chosen"
    first = Finding(row["time_ns"], "placement", f"{head}{weighed}", row)
    end = Finding(row["time_ns"], "choice", f"  CPU {cpu}: {why}.{more}", {"cpu": cpu, "rule": rule})
    return [first, *candidates, end]


def search_text(row: dict[str, Any], found: int) -> str:
    """Explain a placement without energy, which found a CPU."""
    text = ""
    if row["overutilized"]:
        text += " A CPU is overutilised, so that energy does not count."
    if row["wake_wide"]:
        text += " Waker and wakee wake many others (wake_wide), so that they are kept apart: the search starts"
        text += f" at CPU {row['target']}."
    elif row["affine_rule"] is not None:
        text += f" wake_affine: {AFFINE[row['affine_rule']]}"
        if row["affine_rule"] == "weight" and "this_load" in row:
            text += (
                f" (load {row['this_load']} here, {row['prev_load']} there, the task's {row['task_load']}; "
                f"imbalance_pct {row['imbalance_pct']})"
            )
        where = "pulled to the waking CPU" if row["target"] != row["prev_cpu"] else "it stays with its previous CPU"
        text += f": {where}, so that the search starts at CPU {row['target']}."
    else:
        text += f" The search starts at CPU {row['target']}, where it ran last."
    if row["sibling_rule"] is not None:
        idle = f"{row['nr_idle']} idle CPUs in its cache" if row["nr_idle"] != 1 else "1 idle CPU in its cache"
        text += f" select_idle_sibling ({idle}): {SIBLING[row['sibling_rule']]}: CPU {found}."
    return text


def _waker(records: Records, row: dict[str, Any]) -> str:
    if row["in_interrupt"]:
        return interrupt_text(row["waker_cpu"], None if row["waker"] == IDLE_TASK else records.task(row["waker"]))
    return f"{records.task(row['waker'])} on CPU {row['waker_cpu']}"


def interrupt_text(cpu: int, task: str | None) -> str:
    """Say which interrupt woke a task."""
    return f"an interrupt on CPU {cpu} ({'idle' if task is None else f'in {task}'})"


def _utils(row: dict[str, Any]) -> str:
    return f"util_avg {row['util_avg']}, util_est {row['util_est']}"


def wake_up_text(row: dict[str, Any], waker: str, task: str) -> str:
    """Say who woke whom."""
    sync = " (sync)" if row["sync"] else ""
    utils = "" if row["util_avg"] is None else f" ({_utils(row)})"
    return f"{seconds(row['time_ns'])}: {waker} woke {task}{sync}{utils}, last on CPU {row['prev_cpu']}."


def _placement(records: Records, index: int) -> list[Finding]:
    """Explain a placement at a wake-up or birth."""
    row = records.row("placement_decision", index)
    task = records.task(row["task"])
    waker = _waker(records, row)
    if row["fork"]:
        how = {
            "pinned": "it may run there only, or was told to start there",
            "idlest": "the idlest CPU of the idlest group (sched_balance_find_dst_cpu)",
        }.get(row["rule"], row["rule"])
        text = (
            f"{seconds(row['time_ns'])}: {waker} started {task} ({_utils(row)}, its parent on CPU {row['prev_cpu']}) "
            f"on CPU {row['cpu']}: {how}."
        )
        return [Finding(row["time_ns"], "placement", text, row)]
    head = wake_up_text(row, waker, task)
    simple = {
        "pinned": f"It may run on CPU {row['cpu']} only.",
        "custom": f"A placement policy from outside chose CPU {row['cpu']}.",
        "deadline": f"Deadline: CPU {row['cpu']}, the previous one unless a task runs there that goes first.",
        "real-time": f"Real-time: CPU {row['cpu']}, the previous one unless a task of its priority runs there.",
    }
    if row["rule"] in simple:
        return [Finding(row["time_ns"], "placement", f"{head} {simple[row['rule']]}", row)]
    if row["rule"] == "eas":
        return energy_choice(row, head, _energies(records, row))
    return [Finding(row["time_ns"], "placement", head + search_text(row, row["cpu"]), row)]


def _started(records: Records, task: int, cpu: int, woken_ns: int, at_ns: int) -> Finding | None:
    """Explain how long a woken task took to run, and why."""
    runs = records.where("sched_switch", cpu=cpu, next=task)
    place = int(np.searchsorted(records.tables["sched_switch"]["time_ns"][runs], woken_ns))
    if place == len(runs):
        return None
    run = records.row("sched_switch", int(runs[place]))
    if run["time_ns"] > max(at_ns, woken_ns):
        return None
    name, latency_ns = records.task(task), run["time_ns"] - woken_ns
    data = {"cpu": cpu, "start_ns": run["time_ns"], "latency_ns": latency_ns}
    before = records.where("sched_switch", cpu=cpu)
    count = int(np.searchsorted(records.tables["sched_switch"]["time_ns"][before], woken_ns))
    running = records.row("sched_switch", int(before[count - 1]))["next"] if count else IDLE_TASK
    idles = records.where("cpu_idle", cpu=cpu)
    entered = int(np.searchsorted(records.tables["cpu_idle"]["time_ns"][idles], woken_ns, side="right"))
    state = records.row("cpu_idle", int(idles[entered - 1]))["state"] if entered else -1
    after = f"{length(latency_ns)} after the wake-up" if latency_ns else "at once"
    if running == IDLE_TASK and state >= 0:
        names = records.idle_states[cpu]
        data["idle_state"] = names[state] if state < len(names) else str(state)
        text = f"CPU {cpu} was in idle state {data['idle_state']}; {name} ran from {seconds(run['time_ns'])}, {after}."
    elif running == IDLE_TASK:
        text = f"CPU {cpu} was awake without a task; {name} ran from {seconds(run['time_ns'])}, {after}."
    else:
        data["running"] = records.task(running)
        how = "preempted it" if run["prev_state"] == 0 and latency_ns == 0 else "had its turn"
        text = f"CPU {cpu} ran {records.task(running)}; {name} {how} at {seconds(run['time_ns'])}, {after}."
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
    """Explain a move by the balancer."""
    row = records.row("placement", index)
    task = records.task(row["task"])
    text = f"{seconds(row['time_ns'])}: the balancer moved {task} from CPU {row['prev_cpu']} to CPU {row['cpu']}"
    passes = [
        records.row("balance_pass", int(one))
        for one in records.where("balance_pass", dst_cpu=row["cpu"], src_cpu=row["prev_cpu"])
        if records.tables["balance_pass"]["time_ns"][one] == row["time_ns"]
    ]
    if passes:
        one = passes[0]
        row["pass"] = one
        idle = {"not-idle": "busy", "idle": "idle", "newly-idle": "about to go idle"}[one["idle"]]
        what = {
            "load": "of load",
            "util": "of utilisation",
            "task": "of tasks",
            "misfit": "of a task that does not fit",
        }
        text += (
            f": that CPU was {idle} and looked over {one['span_weight']} CPUs (level {one['level']}); "
            f"an imbalance {what[one['migration']]} of {one['imbalance']}"
        )
    if row["rule"] == "misfit":
        text += "; it was running and was pushed by the stopper"
    return Finding(row["time_ns"], "balance", text + ".", row)


def _arrival(records: Records, task: int, at_ns: int) -> list[Finding]:
    """Explain the last placement of a task at or before a point in time, and moves since."""
    placed = records.where("placement_decision", task=task)
    count = records.until("placement_decision", placed, at_ns)
    findings: list[Finding] = []
    start_ns = 0
    if count:
        start_ns = int(records.tables["placement_decision"]["time_ns"][placed[count - 1]])
        findings += _placement(records, int(placed[count - 1]))
        cpu = int(records.tables["placement_decision"]["cpu"][placed[count - 1]])
        findings += [one for one in [_started(records, task, cpu, start_ns, at_ns)] if one is not None]
        findings += [one for one in [_delayed(records, task, start_ns, at_ns)] if one is not None]
    moves = records.where("placement", task=task)
    rules = records.codes["rule"]
    columns = records.tables["placement"]
    for index in moves[: records.until("placement", moves, at_ns)]:
        if columns["time_ns"][index] >= start_ns and rules[columns["rule"][index]] in ("balance", "misfit"):
            findings.append(_moved(records, int(index)))
    return findings


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
    clock = records.row("cpu_frequency", int(clocks[number - 1]))
    text = (
        f"At {seconds(at_ns)} CPU {cpu} ran {records.task(task)} (from {seconds(since_ns)} to {seconds(until_ns)}) "
        f"at {point_name(records, cpu, clock['khz'])}, its clock since {seconds(clock['time_ns'])}."
    )
    data = {"cpu": cpu, "task": None if task == IDLE_TASK else records.task(task), "khz": clock["khz"]}
    data |= {"since_ns": since_ns, "until_ns": until_ns, "clock_since_ns": clock["time_ns"]}
    return task, Finding(at_ns, "running", text, data)


def cpu_findings(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    """Say what a CPU ran at a point in time, at which clock, and why."""
    task, running = _running(records, cpu, at_ns)
    findings = [running, *frequency_findings(records, cpu, at_ns)]
    if task != IDLE_TASK:
        findings += _arrival(records, task, at_ns)
    return findings


def task_findings(records: Records, task: int, at_ns: int | None) -> list[Finding]:
    """Say where a task ran, and why it was where it was at a point in time, or at its end."""
    name = records.task(task)
    placed = records.where("placement", task=task)
    columns = records.tables["placement"]
    rules = Counter(records.codes["rule"][code] for code in columns["rule"][placed])
    cpus = Counter(columns["cpu"][placed].tolist())
    findings = []
    if len(placed):
        by_rule = ", ".join(f"{count} by {rule}" for rule, count in rules.most_common())
        by_cpu = ", ".join(f"{count} on CPU {cpu}" for cpu, count in sorted(cpus.items()))
        text = f"{name} was placed {len(placed)} times: {by_rule}; {by_cpu}."
        data = {"rules": dict(rules), "cpus": {str(cpu): count for cpu, count in sorted(cpus.items())}}
        findings.append(Finding(0, "summary", text, data))
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
