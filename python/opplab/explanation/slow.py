"""What held CPUs below the speed that their tasks needed, over a whole run."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from opplab import _opplab
from opplab.explanation.findings import Explanation, Finding, cpu_list, length, mhz, seconds
from opplab.explanation.records import REAL_TIME, about_case, rt_stops, throttles
from opplab.report.numbers import several, some_of

SLOW = {
    "turbo-bin": "the turbo bin for so many active cores",
    "power-budget": "the package's power budget",
    "thermal": "temperature",
    "epp": "the firmware's own choice (energy-performance preference)",
    "opp-table": "the table of operating points ends there",
    "policy-limit": "scaling_max_freq, max_perf_pct or no_turbo",
    "transition": "asked for; the kthread or the hardware was on its way",
    "rate-limit": "the rate limit held a higher request",
    "uclamp": "an upper clamp of utilisation",
    "fixed-governor": "the governor never changes the frequency",
    "sampling": "the governor's sample had not seen the load",
    "iowait-boost-decayed": "a boost for I/O had decayed",
    "new-task": "a new task's utilisation had yet to grow",
    "migration": "the task came from a CPU with more utilisation",
    "long-sleep": "the task's utilisation had decayed in a long sleep",
    "ramp": "work grew faster than load tracking follows",
    "custom-governor": "the governor in Python asked for no more",
}


HELD_BY = ("power-budget", "thermal", "turbo-bin", "policy-limit")
"""The limits of a package, and those that are set."""
LATE = 3
"""How many tasks are named that ended late."""
NEAR_TOP_PCT = 95
"""Where the highest clocks save less than the rest of the time, a quota limits at any clock."""


def unknown_governor(assumed: str) -> Finding:
    """Give the finding that the recording lacks its governor, under which the run was made all the same."""
    text = (
        f"The governor of the recording is not known: the run assumes {assumed}. "
        "Reasons that hang on the governor are left out; --recorded-governor names it."
    )
    return Finding(0, "governor", text, {"assumed": assumed})


def busy_at_top_ns(outcome: _opplab.Outcome) -> int:
    """Give the time in ns that what ran takes at the highest OPP of its cluster."""
    busy = outcome["busy_ns_by_opp"]
    return sum(
        ns * khz // max(cluster["opps_khz"])
        for cluster in outcome["clusters"]
        for cpu in cluster["cpus"]
        for khz, ns in zip(cluster["opps_khz"], busy[cpu], strict=True)
    )


OF_CLOCKS = ("clock", "full", "timer", "top")
"""The limits of which nothing is known where the governor is only assumed."""

FULL_PCT = 95
"""A CPU that is busy for so much of the time is full."""


def at_clocks(busy_ns: int, top_ns: int) -> str:
    """Give in words what the clocks mean for a quota, which limits time and not cycles."""
    percent = 100 * top_ns / busy_ns if busy_ns else 100.0
    if percent >= NEAR_TOP_PCT:
        return "and the clocks were near their highest"
    return f"at these clocks: at the highest ones the same cycles take {percent:.0f} % of the time that quotas limit"


def acting_limit(
    outcome: _opplab.Outcome,
    busy_ns: int,
    held_ns: dict[str, int],
    beside_ns: tuple[int, int] = (0, 0),
    *,
    fixed_speed: bool = False,
    timed: bool = False,
    late: bool = False,
    budgets: bool = False,
) -> tuple[str, str]:
    """Give the limit that acts on the rate of a run, and what shows it.

    Parameters
    ----------
    outcome : dict
        Of the run.
    busy_ns : int
        Time that CPUs were busy.
    held_ns : dict
        Time that they were slow, by the limit that held them, of `HELD_BY`.
    beside_ns : tuple
        Time that they were busy beside a busy thread of their core, and how much of it was lost by that.
    fixed_speed : bool
        They execute as fast at every clock, so that no clock acts.
    timed : bool
        Each task waits for a timer, and no work is lost: more speed ends it sooner, and makes no more of it.
    late : bool
        Some came too late to it.
    budgets : bool
        The runtime of deadline tasks was used up, which is work and not time: clocks do not decide how much they do.

    Notes
    -----
    The disk acts where tasks wait longer for devices than CPUs are busy. Quotas act where queues are throttled for half
    of the time that CPUs are busy; where others have the CPUs meanwhile, that is no loss. A cache line acts where CPUs
    spend half of their busy time at it, a limit of the package where it holds CPUs for half of that time. Threads that
    share cores act where they do so for half of that time, and lose more by it than the highest clocks would save.
    Timers act where tasks are in time and no CPU is full. Idle states act where CPUs are awake without a task, mostly
    to leave such states, for longer than they are busy or a device is at work, and none is full. Where the highest
    clocks would save less than 1 %, no clock acts. Else the clock acts.
    Work that does not follow the clock (memory) counts as busy time.
    """
    line_ns, io_ns = outcome["line_ns"], outcome["io_ns"]
    throttled_ns = sum(ns for *_, ns in outcome["quotas"])
    leaving_ns = sum(times[-1] for times in outcome["idle_ns_by_state"])
    parts = [f"requests to disks and other devices took {length(io_ns)}"] if io_ns else []
    parts += [f"CPUs were at contended cache lines for {length(line_ns)}"] if line_ns else []
    parts += [f"quotas throttled queues for {length(throttled_ns)}"] if throttled_ns else []
    parts += [f"CPUs took {length(leaving_ns)} to leave idle states"] if leaving_ns > busy_ns else []
    told = f" ({'; '.join(parts)})" if parts else ""
    if io_ns > max(busy_ns, leaving_ns):
        return "disk", f"The disk decides the rate{told}."
    idle_ns = outcome["wall_ns"] * sum(len(cluster["cpus"]) for cluster in outcome["clusters"]) - busy_ns
    if 2 * min(throttled_ns, idle_ns) > busy_ns:
        clocks = "whatever the clock" if fixed_speed else at_clocks(busy_ns, busy_at_top_ns(outcome))
        return "quota", f"Quotas of control groups decide the rate, {clocks}{told}."
    if 2 * line_ns > busy_ns:
        return "line", f"A cache line that all CPUs write decides the rate, whatever the clock{told}."
    saved_ns = 0 if fixed_speed else busy_ns - busy_at_top_ns(outcome)
    both_ns, lost_ns = beside_ns
    if 2 * both_ns > busy_ns and lost_ns > saved_ns:
        return "smt", f"Threads that share cores decide the rate, more than the clock{told}."
    busy = [100 * sum(times) for times in outcome["busy_ns_by_opp"]]
    full = [cpu for cpu, times in enumerate(busy) if times >= FULL_PCT * outcome["wall_ns"]]
    by_timers = timed and not full
    if by_timers and not late:
        return "timer", f"Timers decide the rate: no activation was missed, and no CPU was full{told}."
    if leaving_ns > max(busy_ns, io_ns) and not full:
        return "idle", f"Exits from idle states hold the rate back more than the clocks do{told}."
    clocks = "Timers decide the rate, and the clocks how much is late" if by_timers else "The clocks decide the rate"
    elsewhere = " where no budget does" if budgets else ""
    most = max(held_ns, key=lambda name: held_ns[name], default="")
    if most and 2 * held_ns[most] > busy_ns and not fixed_speed:
        return most, f"{clocks}{elsewhere}, held by {SLOW[most]}{told}."
    if 100 * saved_ns < busy_ns:
        if full:
            return "full", f"No clock helps: {cpu_list(full)} {'is' if len(full) == 1 else 'are'} full{told}."
        why = "the speed does not follow it" if fixed_speed else "the CPUs are at their highest ones"
        return "top", f"No clock helps: {why}, and none is full{told}."
    return "clock", f"{clocks}{elsewhere}{told}."


def quotas_that_acted(outcome: _opplab.Outcome, task: int | None = None) -> list[Finding]:
    """Give the quotas that throttled in a run, of all groups or of those that a task is in."""
    path = "" if task is None else outcome["task_groups"][task] or ""
    findings = []
    for name, periods, throttled, ns in outcome["quotas"]:
        if throttled and (task is None or f"{path}/".startswith(f"{name}/")):
            told = f"quota: `{name}` was throttled in {throttled} of {periods} periods, for {length(ns)} over all CPUs"
            data = {"group": name, "nr_periods": periods, "nr_throttled": throttled, "throttled_ns": ns}
            findings.append(Finding(0, "quota", f"{told}; meanwhile its tasks waited at any clock.", data))
    return findings


def budgets_that_acted(
    names: list[str], waits: dict[int, list[tuple[int, int, str]]], task: int | None = None
) -> list[Finding]:
    """Give how often deadline tasks, or one of them, were throttled until their next period, for how long, and why."""
    findings = []
    for index, spans in waits.items() if task is None else [(task, waits[task])] if task in waits else []:
        whole_ns = sum(until_ns - since_ns for since_ns, until_ns, _ in spans)
        whys = Counter(why for *_, why in spans)
        listed = "; ".join(f"{several(count, 'time')}, {why}" for why, count in whys.most_common())
        # A task may run out as it goes to sleep: not all of it is a wait.
        text = (
            f"budget: {names[index]} was throttled until its next period (SCHED_DEADLINE): {listed}; "
            f"{length(whole_ns)} in all, in which it runs at no clock, whether it has work or not."
        )
        data = {"task": names[index], "nr_throttled": len(spans), "throttled_ns": whole_ns, "reasons": dict(whys)}
        findings.append(Finding(0, "budget", text, data))
    return findings


def throttling_that_acted(stops: dict[int, list[tuple[int, int]]]) -> list[Finding]:
    """Give how often real-time tasks of a CPU waited for their next period, and for how long."""
    findings = []
    for cpu, spans in sorted(stops.items()):
        whole_ns = sum(until_ns - since_ns for since_ns, until_ns in spans)
        text = (
            f"rt-throttling: real-time tasks on CPU {cpu} waited for the next period {several(len(spans), 'time')}, "
            "as their runtime was used up (sched_rt_runtime_us); "
            f"{length(whole_ns)} in all, in which they ran at no clock."
        )
        data = {"cpu": cpu, "nr_throttled": len(spans), "throttled_ns": whole_ns}
        findings.append(Finding(0, "rt-throttling", text, data))
    return findings


def beside_siblings(busy_ns: int, beside_ns: int, lost_ns: int) -> Finding:
    """Give the time that CPUs were busy beside a busy thread of their core, and what it cost."""
    share, speed = 100 * beside_ns / busy_ns, 100 * (1 - lost_ns / beside_ns)
    text = (
        f"smt: another thread of the core was busy for {length(beside_ns)} ({share:.1f} % of the busy time), "
        f"which leaves {speed:.1f} % of the speed: up to {length(lost_ns)} lost."
    )
    return Finding(0, "smt", text, {"beside_ns": beside_ns, "lost_ns": lost_ns, "busy_share_pct": share})


def timed_tasks(case: _opplab.Case) -> list[tuple[str, bool]]:
    """Give the name of each task of a case, and whether it waits for a timer, so that it can be late."""
    tasks = json.loads(case.to_json())["workload"]["tasks"]
    return [(task["name"], any(op[0] == "timer" for op in task["ops"])) for task in tasks]


def _is_timed(case: _opplab.Case) -> bool:
    """Report whether each task of a case waits for a timer."""
    tasks = timed_tasks(case)
    return bool(tasks) and all(is_timed for _, is_timed in tasks)


def late_tasks(case: _opplab.Case, outcome: _opplab.Outcome, *, adds_up: bool = False) -> str:
    """Name the tasks that ended late in this run, the most often late first; empty without any.

    With `adds_up` it has what was due at the end of the run and counts as well.
    """
    if not outcome["missed_activations"]:
        return ""
    ended = case.events(["activation"])["activation"]
    counted = (ended["timed"] == 1) & (ended["time_ns"] >= outcome["end_ns"] - outcome["wall_ns"])
    all_ = Counter(ended["task"][counted].tolist())
    late = Counter(ended["task"][counted & (ended["slack_ns"] < 0)].tolist())
    names = outcome["task_names"]
    words = some_of((f"{names[task]} {number} of {all_[task]}" for task, number in late.most_common()), LATE)
    left, late_left = outcome["activations"] - all_.total(), outcome["missed_activations"] - late.total()
    # What a run's end cuts off has no event.
    due = f"{left} more count{'s' * (left == 1)} at its end, {late_left or 'none'} late"
    rest = f"; {due}" if adds_up and left > 0 else ""
    return f"{words or 'none that ended'}{rest}" if words or rest else ""


def _lost(outcome: _opplab.Outcome) -> str:
    """Name the work that no activation counts: that of tasks which had not suspended when they were resumed."""
    if not outcome["lost_resumes"]:
        return ""
    lost = f"{outcome['lost_resumes']} of {outcome['resumes']} resumes found no task suspended"
    return f" {lost}: that work is not done, and no activation counts it."


def slow_cpus(
    case: _opplab.Case, *, governor_known: bool = True, replayed: tuple[float, str] | None = None
) -> Explanation:
    """Describe what held CPUs below the speed that their tasks needed, worst first.

    Where the governor is only assumed, the reasons that hang on it are left out, unless each CPU has one clock only.
    `replayed` is what `opplab replay` has of missed activations, with the words for it, where the run is one of a
    trace's work.
    """
    from opplab.simulation.machine import Machine

    outcome, rows, beside_ns = case.why_slow()
    governor_known |= all(len(set(cluster["opps_khz"])) == 1 for cluster in outcome["clusters"])
    names: list[str] = outcome["task_names"]
    busy_ns = sum(sum(times) for times in outcome["busy_ns_by_opp"])
    file = json.loads(case.to_json())
    power_known = not Machine.from_tree(file["machine"])._inner.unknown_power
    energy_fj = sum(outcome["cluster_energy_fj"]) if power_known else 0
    sums: dict[str, dict[str, Any]] = {}
    for cpu, task, reason, khz, slow_ns, lost_ns, fj in rows:
        entry = sums.setdefault(
            reason,
            {"slow_ns": 0, "lost_ns": 0, "energy_fj": 0, "tasks": Counter(), "cpus": Counter(), "khz": Counter()},
        )
        entry["slow_ns"] += slow_ns
        entry["lost_ns"] += lost_ns
        entry["energy_fj"] += fj
        entry["tasks"][names[task]] += slow_ns
        entry["cpus"][cpu] += slow_ns
        entry["khz"][khz] += slow_ns
    slow_ns = sum(entry["slow_ns"] for entry in sums.values())
    lost_ns = sum(entry["lost_ns"] for entry in sums.values())
    facts = case.facts()
    share = 100 * slow_ns / busy_ns if busy_ns else 0.0
    fixed_speed = facts["fixed_speed"]
    top_ns = busy_ns if fixed_speed else busy_at_top_ns(outcome)
    of_busy = f" ({100 * top_ns / busy_ns:.0f} %)" if busy_ns else ""
    at_top = f"At the highest clocks the same cycles take {length(top_ns)}{of_busy}."
    nr_missed, of_runs = (outcome["missed_activations"], "") if replayed is None else replayed
    missed = f"{outcome['missed_activations']} of {outcome['activations']} activations were missed"
    took, lost = ("hardware would take", "lost on hardware") if fixed_speed else ("that took", "lost")
    late = f" Late in this run: {words}." if (words := late_tasks(case, outcome, adds_up=replayed is None)) else ""
    text = (
        f"In {seconds(outcome['wall_ns'])} the CPUs were busy for {length(busy_ns)}, "
        f"{share:.1f} % of it at a lower clock than their utilisation asks for; {took} {length(lost_ns)} longer. "
        f"{'Higher clocks save no time here.' if fixed_speed else at_top} {missed}.{late}{_lost(outcome)}{of_runs}"
    )
    totals = {
        "busy_ns": busy_ns,
        "slow_ns": slow_ns,
        "lost_ns": lost_ns,
        "busy_at_top_ns": top_ns,
        "missed": nr_missed,
        "lost_resumes": outcome["lost_resumes"],
    }
    findings = [Finding(0, "summary", text, totals)]
    if not governor_known:
        findings.append(unknown_governor(facts["governor"]))
    held_ns: dict[str, int] = {name: sums[name]["slow_ns"] for name in HELD_BY if name in sums}
    timed = not outcome["lost_resumes"] and _is_timed(case)
    acted: list[Finding] = []
    # Events take another run, in which only deadline and real-time tasks are throttled.
    if {"deadline", *REAL_TIME} & {task["policy"][0] for task in file["workload"]["tasks"]}:
        tables, end_ns = case.events(["dl_throttle", "rt_throttle"]), outcome["end_ns"]
        start_ns = end_ns - outcome["wall_ns"]
        acted += budgets_that_acted(names, throttles(tables["dl_throttle"], start_ns, end_ns))
        acted += throttling_that_acted(rt_stops(tables["rt_throttle"], start_ns, end_ns))
    budgets = any(one.kind == "budget" for one in acted)
    limit, words = acting_limit(
        *(outcome, busy_ns, held_ns, beside_ns),
        fixed_speed=fixed_speed,
        timed=timed,
        late=bool(nr_missed),
        budgets=budgets,
    )
    if governor_known or limit not in OF_CLOCKS:
        data = {"limit": limit, "line_ns": outcome["line_ns"], "io_ns": outcome["io_ns"]}
        findings.append(Finding(0, "limit", words, data))
    findings += acted
    findings += quotas_that_acted(outcome)
    if beside_ns[0]:
        findings.append(beside_siblings(busy_ns, *beside_ns))
    shown = {reason: entry for reason, entry in sums.items() if governor_known or reason in _opplab.SLOW_LIMITS}
    for reason, entry in sorted(shown.items(), key=lambda item: -item[1]["lost_ns"]):
        of_busy = 100 * entry["slow_ns"] / busy_ns
        of_energy = 100 * entry["energy_fj"] / energy_fj if energy_fj else None
        energy = "" if of_energy is None else f", {of_energy:.1f} % of the CPUs' energy"
        tasks = ", ".join(name for name, _ in entry["tasks"].most_common(3))
        more = f" and {len(entry['tasks']) - 3} more" if len(entry["tasks"]) > 3 else ""
        line = (
            f"{reason}: {SLOW[reason]}: {length(entry['slow_ns'])} ({of_busy:.1f} % of the busy time), "
            f"{length(entry['lost_ns'])} {lost}{energy}; {tasks}{more} "
            f"on {cpu_list(sorted(entry['cpus']))}, mostly at {mhz(entry['khz'].most_common(1)[0][0])}."
        )
        data = {
            "reason": reason,
            "slow_ns": entry["slow_ns"],
            "lost_ns": entry["lost_ns"],
            "energy_j": entry["energy_fj"] / 1e15 if energy_fj else None,
            "busy_share_pct": of_busy,
            "energy_share_pct": of_energy,
            "tasks_ns": dict(entry["tasks"].most_common()),
            "cpus_ns": {str(cpu): ns for cpu, ns in sorted(entry["cpus"].items())},
            "khz_ns": {str(khz): ns for khz, ns in sorted(entry["khz"].items())},
        }
        findings.append(Finding(0, "slow", line, data))
    return Explanation({**about_case(facts), "fingerprint": f"{outcome['fingerprint']:016x}"}, findings)
