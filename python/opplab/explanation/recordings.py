"""The same questions asked of recordings: from the kernel's own records, from events, or by running the work again."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import InputError
from opplab.explanation.findings import (
    Explanation,
    Finding,
    by_cpu,
    check_one_pid,
    cpu_list,
    length,
    mhz,
    nearest_task,
    on_cpus,
    seconds,
)
from opplab.explanation.placement import candidate_findings, energy_choice, task_findings
from opplab.explanation.records import Records, task_index, told_apart
from opplab.explanation.response import of_trace, response_findings, speeds
from opplab.explanation.slow import slow_cpus, timed_tasks
from opplab.report.numbers import several
from opplab.trace.replayed import FIXED_SPEED, assumed, missed_in_runs

if TYPE_CHECKING:
    from decimal import Decimal

    from opplab.simulation.machine import Machine


# What explanations of traces are from.
RECORDS = "the kernel's own records"
EVENTS = "its events"
OPEN_LOOP = f"{EVENTS}: schedutil on the averages that follow from them (the open loop of `opplab replay`)"


def _is_recording(path: Path) -> bool:
    if path.is_file() and path.suffix != ".json":
        try:
            return bool(_opplab.find_recordings(path))
        except InputError:
            return False
    return (path / "trace.dat").is_file()


def is_trace(path: Path) -> bool:
    """Distinguish a trace, or a recording's folder or archive, from cases, experiments and results."""
    return path.suffix not in (".json", ".toml") if path.is_file() else (path / "trace.dat").is_file()


def explain_trace(
    path: Path,
    machine: Machine | None,
    cpu: int | None,
    task: str | int | None,
    at: float | Decimal | None,
    governor: str | None = None,
    half_life_ms: int | None = None,
    *,
    why_slow: bool = False,
) -> Explanation:
    """Explain a trace: a CPU's clock, a task's CPU, or, if both are None, why CPUs were slow (under its `governor`).

    With `why_slow` of a task what its slow activations are made of, by the events.
    """
    inner = machine._inner if machine else None
    (misfit,) = _opplab.trace_misfits(str(path), [inner]) if inner else (None,)
    if misfit is not None:
        raise InputError(f"{path}: {misfit}")
    at_ns, zero = (None, {}) if at is None else _time_of(path, at)
    if cpu is not None:
        found = _recorded(path, machine, cpu, at_ns, governor, half_life_ms)
        return Explanation({**found.about, **zero}, found.findings)
    if task is not None and machine is None and not why_slow and _is_recording(path):
        placements = _opplab.recorded_placements(path)
        if placements:
            _refuse(path, governor)
            named = str(task)
            if "#" in named and all(row["task"] != named for row in placements):
                (replayed,), *_, pids = _opplab.replayed_cases(str(path), None, 1, check=False)
                named = _pid_named(_names(json.loads(replayed.to_json()), pids), named)
            found = _recorded_task(path, placements, named, at_ns)
            return Explanation({**found.about, **zero}, found.findings)
    slow_task = task is not None and why_slow
    (replayed,), first_ns, later_ns, check, pids = _opplab.replayed_cases(
        str(path), inner, 1, governor, half_life_ms, not slow_task
    )
    # All of the recording is explained, also what a comparison does not count.
    whole = json.loads(replayed.to_json())
    whole["workload"].pop("warmup_ns", None)
    case = _opplab.Case.from_json(json.dumps(whole))
    known_as = _names(whole, pids)
    if slow_task:
        facts = case.facts()
        _check_one_task(known_as, str(task))
        named = _pid_named(known_as, str(task))
        outcome = case.run(False)
        timeline, pid, activations, names = of_trace(path, speeds(outcome, facts), named, machine)
        note = FIXED_SPEED if facts["fixed_speed"] else json.loads(check).get("speed")
        speed = [f"speed: {note}"] if note else []
        shown = str(task) if named == str(task) else f"{task} (pid {named})"
        quotas = _quotas(case, outcome, dict(known_as).get(pid))
        findings = response_findings(shown, timeline, pid, activations, names, traced=True, quota=bool(quotas))
        return Explanation({"recording": str(path), "from": EVENTS, "assumed": speed}, [*findings, *quotas])
    checked = json.loads(check)
    known: bool = checked["governor_known"]
    about = {
        "trace": str(path),
        "self_check": checked["self_check"],
        "later_ns": later_ns,
        "governor_known": known,
        "assumed": assumed(checked),
    }
    if task is None:
        # Who has recovered timers is in the counts of a run, whatever the trace shows.
        timed = {name for name, is_timed in timed_tasks(case) if is_timed}
        checked["unjudged"] = [name for name in checked["unjudged"] if name not in timed]
        found = slow_cpus(case, governor_known=known, replayed=missed_in_runs(checked))
        return Explanation({**found.about, **about}, found.findings)
    _check_one_task(known_as, task)
    records = Records(case)
    index = task_index(records, _task_of(path, records.names, known_as, task))
    if at_ns is not None:
        at_ns = min(max(later_ns + at_ns - first_ns, 0), records.end_ns)
    findings = task_findings(records, index, at_ns)
    own = next((one for one, name in known_as if name == records.task(index)), None)
    findings[1:1] = _ran_elsewhere(path, own, findings[0])
    return Explanation({**records.about(), **about, **zero}, findings)


def _ran_elsewhere(path: Path, pid: int | None, placed: Finding) -> list[Finding]:
    """Report on which CPUs a task ran in the trace, if the run of its work has it on others in more than a tenth."""
    from opplab.trace.recording import Trace

    run = {int(cpu): count for cpu, count in placed.data.get("cpus", {}).items()}
    switches = Trace(path).events("sched_switch", missing_ok=True)
    if pid is None or not run or not len(switches):
        return []
    trace = Counter(switches.filter(next_pid=pid)["cpu"].to_list())
    shares = (abs(trace[cpu] / trace.total() - run.get(cpu, 0) / sum(run.values())) for cpu in {*trace, *run})
    if not trace or sum(shares) / 2 <= 0.1:
        return []
    text = f"In the trace itself it began to run {several(trace.total(), 'time')}: {on_cpus(trace)}."
    return [Finding(0, "trace", f"{text} What follows is of the run of its work.", {"cpus": by_cpu(trace)})]


def _quotas(case: _opplab.Case, outcome: _opplab.Outcome, task: str | None) -> list[Finding]:
    """Give the quotas of the groups that a recovered task is in, with what they did in the run of its work."""
    path = dict(zip(told_apart(outcome["task_names"]), outcome["task_groups"], strict=True)).get(task or "") or ""
    findings = []
    throttled = {name: (times, of) for name, of, times, _ in outcome["quotas"]}
    for group in json.loads(case.to_json())["workload"].get("groups", []):
        name, quota = group["name"], group.get("quota_ns")
        if quota and f"{path}/".startswith(f"{name}/"):
            times, of = throttled.get(name, (0, 0))
            text = (
                f"quota: `{name}`, its control group, may run for {length(quota[0])} of each {length(quota[1])}. In a "
                f"run of this work that stopped it in {times} of {of} periods. The trace has no event of it."
            )
            data = {"group": name, "quota_ns": quota[0], "period_ns": quota[1], "nr_throttled": times, "nr_periods": of}
            findings.append(Finding(0, "quota", text, data))
    return findings


def _check_one_task(replayed: list[tuple[int, str]], task: str | int) -> None:
    """Refuse a pid that several tasks had, one after the other."""
    own = [name for pid, name in replayed if str(pid) == str(task)]
    if len(own) > 1:
        raise InputError(f"pid {task} was {len(own)} tasks: name one of {', '.join(own)}")


def _pid_named(replayed: list[tuple[int, str]], task: str) -> str:
    """Give the pid of NAME#2, NAME#3, ...: a replay numbers further tasks of one name. Other names stay."""
    own = (str(pid) for pid, name in replayed if name == task)
    return next(own, task) if "#" in task else task


def _task_of(path: Path, known: list[str], replayed: list[tuple[int, str]], task: str | int) -> str | int:
    """Give the name in a replay of a traced pid, also of a governor's thread, which no replay recovers. Names stay."""
    from opplab.trace.recording import Trace

    own = next((name for pid, name in replayed if str(pid) == str(task)), None)
    if own is not None or not str(task).isdecimal() or task in known:
        return task if own is None else own
    name = Trace(path).task_names().get(int(task))
    return name if name in known else task


def _names(replayed: dict[str, Any], pids: list[int]) -> list[tuple[int, str]]:
    """Give each recovered task's pid and its name in the replay, whose case this is."""
    names = [one["name"] for one in replayed["workload"]["tasks"]]
    return list(zip(pids, names, strict=False))


def _time_of(path: Path, at: float | Decimal) -> tuple[int, dict[str, Any]]:
    """Give a point in time of a trace's clock, and what it counts from: `at` is one, or follows the first event.

    Raises
    ------
    InputError
        `at` is not within the trace.
    """
    from opplab.trace.recording import Trace

    info = Trace(path).info
    start_ns, end_ns = info["start_ns"], info["start_ns"] + info["duration_ns"]
    after = at * 10**9 < start_ns
    if not 0 <= at * 10**9 <= (end_ns - start_ns if after else end_ns):
        spans = f"{seconds(start_ns)} to {seconds(end_ns)}, {length(end_ns - start_ns)} long"
        raise InputError(f"{at:g} s is not within the trace: {spans}")
    at_ns = round(at * 10**9) + (start_ns if after else 0)
    return at_ns, {"start_ns": start_ns, "at_ns": at_ns}


def _check_decided(at_ns: int, first_ns: int) -> None:
    """Refuse a point in time before the first decision."""
    if at_ns < first_ns:
        first = f"the first decision is at {seconds(first_ns)}, {length(first_ns - at_ns)} later"
        raise InputError(f"nothing is decided until {seconds(at_ns)}: {first}")


def _recorded_task(path: Path, placements: list[dict[str, Any]], task: str, at_ns: int | None) -> Explanation:
    """Explain where a recorded kernel placed a task, from the kernel's own records."""
    rows = [row for row in placements if task in (row["task"], str(row["pid"]))]
    if not rows:
        names = [name for name, _ in Counter(row["task"] for row in placements).most_common()]
        raise InputError(f"{path} has no records of a placement of `{task}`{nearest_task(task, names)}")
    check_one_pid({row["pid"] for row in rows}, task)
    rules = Counter("energy" if row["how"] == "energy" else row["sibling_rule"] for row in rows)
    cpus = Counter(row["cpu"] for row in rows)
    equal = sum(row["computed"] == row["cpu"] for row in rows)
    by_rule = ", ".join(f"{count} by {rule}" for rule, count in rules.most_common())
    text = (
        f"{task} was placed {several(len(rows), 'time')} with known inputs: {by_rule}; {on_cpus(cpus)}. "
        f"The recorded inputs give the kernel's CPU {several(equal, 'time')}."
    )
    data = {"rules": dict(rules), "cpus": by_cpu(cpus), "equal": equal}
    findings = [Finding(rows[0]["time_ns"], "summary", text, data)]
    at_ns = rows[-1]["time_ns"] if at_ns is None else at_ns
    _check_decided(at_ns, rows[0]["time_ns"])
    row = [row for row in rows if row["time_ns"] <= at_ns][-1]
    return Explanation({"recording": str(path), "from": RECORDS}, [*findings, *_recorded_placement(row)])


def _recorded_placement(row: dict[str, Any]) -> list[Finding]:
    """Explain a placement from the kernel's own records: the waking CPU's task may have been interrupted."""
    record, lines = row.pop("record"), row.pop("lines")
    tasks = {record["task"]: row["task"], record["waker"]: row["waker"]}

    def words(table: str, one: dict[str, Any]) -> dict[str, str]:
        others = [*lines, ("placement_decision", record)]
        return _opplab.decision_words(table, one, ("", "", [], [], False), tasks.__getitem__, others)

    differs = row["computed"] not in (None, row["cpu"])
    told = words("placement_decision", record)
    if row["how"] == "energy":
        more = f" The recorded inputs give CPU {row['computed']}." if differs else ""
        candidates = candidate_findings(row, lines, lambda one: words("eas_candidate", one)["text"])
        return energy_choice(row, told, candidates, more)
    kernel = f" The kernel chose CPU {row['cpu']}." if differs else ""
    return [Finding(row["time_ns"], "placement", f"{seconds(row['time_ns'])}: {told['text']}{kernel}", row)]


def _refuse(path: Path, governor: str | None) -> None:
    """Refuse a governor for a recording that is explained without one."""
    if governor is not None:
        raise InputError(f"{path} has {RECORDS} of its decisions: leave out --recorded-governor")


def _frequencies(
    path: Path, machine: Machine | None, governor: str | None, half_life_ms: int | None
) -> tuple[dict[str, list[Any]], list[dict[str, Any]], str]:
    """Give schedutil's decisions in a trace, the cpufreq policies, and what the decisions are from."""
    if machine is None and _is_recording(path):
        columns, policies = _opplab.recorded_frequencies(path)
        if columns["time_ns"]:
            _refuse(path, governor)
            return columns, policies, RECORDS
    inner = machine._inner if machine else None
    columns, policies = _opplab.replayed_frequencies(str(path), inner, governor, half_life_ms)
    return columns, policies, OPEN_LOOP if columns["time_ns"] else EVENTS


def _recorded_clock(
    policy: dict[str, Any], cpu: int, at_ns: int, asked_khz: int | None, asked_ns: int | None
) -> list[Finding]:
    """Report the clock that a trace has, and whether a governor that asks for `asked_khz` since then explains it."""
    clocks = policy["clocks"]
    place = bisect_right(clocks, at_ns, key=lambda clock: clock[0])
    if not place:
        return [Finding(at_ns, "clock", f"The trace does not show the clock of CPU {cpu} at {seconds(at_ns)}.")]
    since_ns, khz = clocks[place - 1]
    name = _opplab.point_name(policy["driver"], policy["opps_khz"], khz)
    data = {"khz": khz, "clock_since_ns": since_ns}
    text = f"At {seconds(at_ns)} CPU {cpu} ran at {name}, its clock in the trace since {seconds(since_ns)}."
    findings = [Finding(at_ns, "clock", text, data)]
    if asked_khz in (None, khz):
        return findings
    if asked_ns is not None and asked_ns > since_ns and place < len(clocks) and clocks[place][1] == asked_khz:
        delay_ns = clocks[place][0] - asked_ns
        text = f"It became {mhz(asked_khz)} at {seconds(clocks[place][0])}, {length(delay_ns)} after the decision."
        return [
            *findings,
            Finding(clocks[place][0], "delivery", text, {"granted_khz": asked_khz, "delay_ns": delay_ns}),
        ]
    if policy.get("granted"):
        text = (
            f"{policy['governor']} would ask for {mhz(asked_khz)}; a run's trace has the clock that the hardware "
            "granted, by its turbo bins and power limits."
        )
        return [*findings, Finding(at_ns, "granted", text, {"asked_khz": asked_khz})]
    hint = (
        "the recorded kernel decided otherwise" if policy["governor_known"] else "it is assumed (--recorded-governor)"
    )
    text = f"{policy['governor']} would ask for {mhz(asked_khz)}, which does not explain this clock: {hint}."
    return [*findings, Finding(at_ns, "mismatch", text, {"asked_khz": asked_khz})]


def _recorded(
    folder: Path,
    machine: Machine | None,
    cpu: int,
    at_ns: int | None,
    governor: str | None,
    half_life_ms: int | None,
) -> Explanation:
    """Explain the clock of a CPU of a real kernel, from its own records or from the events."""
    columns, policies, origin = _frequencies(folder, machine, governor, half_life_ms)
    policy = next((policy for policy in policies if cpu in policy["cpus"]), None)
    if policy is None:
        ran_on = f" of machine {machine.name}" if machine else ""
        cpus = cpu_list(sorted(one for policy in policies for one in policy["cpus"]))
        raise InputError(f"there is no CPU {cpu}; the cpufreq policies{ran_on} for {folder} have {cpus}")
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
        if values[1] == policy["cpus"][0]
    ]
    clocks = policy.get("clocks", [])
    times_ns = [row["time_ns"] for row in rows] or [time_ns for time_ns, _ in clocks]
    if not times_ns:
        if len(policy["opps_khz"]) == 1:
            text = f"CPU {cpu} has no other clock than {mhz(policy['opps_khz'][0])}."
            findings = [Finding(0, "clock", text, {"khz": policy["opps_khz"][0]})]
            return Explanation({"recording": str(folder), "from": "its machine"}, findings)
        name, known = policy["governor"], policy.get("governor_known", True)
        of = f"the governor is {name}" if known else f"{name} is assumed"
        raise InputError(
            f"{folder} has no clock of CPU {cpu} (no cpu_frequency event), and no decision: only schedutil's follow "
            f"from events, and {of}, which --recorded-governor changes"
        )
    first_ns, last_ns = times_ns[0], times_ns[-1]
    at_ns = (first_ns + last_ns) // 2 if at_ns is None else at_ns
    _check_decided(at_ns, first_ns)
    before = [row for row in rows if row["time_ns"] <= at_ns]
    place = next((i for i in reversed(range(len(before))) if before[i]["ret_khz"] != before[i]["prev_khz"]), None)
    findings = []
    if origin != RECORDS:
        asked_khz = before[-1]["next_khz"] if before else None
        findings = _recorded_clock(policy, cpu, at_ns, asked_khz, None if place is None else before[place]["time_ns"])
    if not rows:
        why = (
            "none came since the open loop decides, from 0.2 s or a fifth of the trace on"
            if policy["governor"] == "schedutil"
            else "events show schedutil's only"
        )
        text = f"No decision of {policy['governor']} is known for this clock; {why}."
        findings.append(Finding(at_ns, "frequency", text))
    if place is not None:
        row = before[place]
        findings.append(Finding(row["time_ns"], "frequency", _recorded_formula(policy, row), row))
    rest = before if place is None else before[place + 1 :]
    if rest:
        more, plural = " more" if place is not None else "", "s" * (len(rest) != 1)
        text = f"Until {seconds(at_ns)} {len(rest)}{more} decision{plural} gave the same. The last one: "
        findings.append(Finding(rest[-1]["time_ns"], "reports", text + _recorded_formula(policy, rest[-1]), rest[-1]))
    about = {"recording": str(folder), "from": origin, "governor": policy["governor"], "driver": policy["driver"]}
    about["governor_known"] = policy.get("governor_known", True)
    about["assumed"] = [f"note: {note}" for note in policy.get("notes", [])]
    return Explanation(about, findings)


def _recorded_formula(policy: dict[str, Any], row: dict[str, Any]) -> str:
    """Describe what the recorded kernel computed, and whether the recorded inputs give the same."""
    names = (policy["governor"], policy["driver"], policy["opps_khz"], policy["cpus"], False)
    words = _opplab.decision_words("sugov_decision", row, names, str, [])
    differs = row["wanted_khz"] != row["ret_khz"]
    equal = f" The kernel answered {mhz(row['ret_khz'])}." if differs else ""
    return f"{seconds(row['time_ns'])}: {words['text']}{equal} {words['outcome']}"
