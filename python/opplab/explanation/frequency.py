"""Why a CPU had its frequency: the request, how it reached the hardware, what was granted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab import _opplab
from opplab.explanation.findings import Finding, length, seconds
from opplab.explanation.records import Records

if TYPE_CHECKING:
    import numpy.typing as npt


REQUESTED = "requested"
RATE_LIMITED = "rate-limited"
SAMPLERS = ("dbs_decision", "custom_decision", "hwp_decision")
CLOCK_KEYS = {
    *("governor", "tunables", "epp", "no_turbo"),
    *("scaling_min_freq", "scaling_max_freq", "min_perf_pct", "max_perf_pct"),
}
"""Keys of a policy that decide on clocks and may change in a run."""
STARTS = {"governor", "offline_cpus", "nosmt"}
"""Keys whose change makes a policy's governor start anew; CPUs that go or come do so in their own policy."""
LIMITS = ("scaling_min_freq", "scaling_max_freq")
"""Keys that may have a value for each cluster."""


def point_name(records: Records, cpu: int, khz: int) -> str:
    """Name a frequency's place in the table: its P-state or its operating point."""
    return _opplab.point_name(records.facts["driver"], records.policy_of[cpu]["opps_khz"], khz)


def _held(records: Records, rows: npt.NDArray[np.intp], place: int) -> list[dict[str, Any]]:
    """Give the reports before the request of row number `place` that the rate limit held, the latest first."""
    held = []
    for index in reversed(rows[:place]):
        row = records.row("sugov_decision", int(index))
        if row["outcome"] != RATE_LIMITED or row["wanted_khz"] == row["next_khz"]:
            break
        held.append(row)
    return held


def _held_text(request: dict[str, Any], held: list[dict[str, Any]], last_ns: int | None) -> str:
    """Give words for how long the rate limit held a request, and how long no report came then; both go into it.

    The limit begins at the request before, at `last_ns`.
    """
    since = held[-1]["time_ns"]
    free_ns = held[0]["time_ns"] + max(held[0]["wait_ns"], 0)
    due = min(request["time_ns"], free_ns)
    request |= {"held_ns": due - since, "no_report_ns": request["time_ns"] - due}
    what = "It" if all(row["wanted_khz"] == request["wanted_khz"] for row in held) else "Another clock"
    limit = "" if last_ns is None else f" of {length(round(free_ns - last_ns, -3))}"
    text = f" {what} was wanted since {seconds(since)}; the rate limit{limit} held it for {length(due - since)}"
    if free_ns > request["time_ns"]:
        up, was_up = (one["wanted_khz"] > request["prev_khz"] for one in (request, held[0]))
        turned = f"a {'higher' if up else 'lower'} one was wanted, which has a limit of its own"
        text += f", until {turned if up != was_up else 'deadline bandwidth or a limit changed, which ends it'}"
    if request["no_report_ns"]:
        text += f", and no report came for {length(request['no_report_ns'])} after that"
    return text + "."


def _request(records: Records, rows: npt.NDArray[np.intp], place: int) -> Finding:
    """Explain the request of row number `place`."""
    row = records.row("sugov_decision", int(rows[place]))
    words = records.words("sugov_decision", row, row["policy_cpu"])
    text = f"{seconds(row['time_ns'])}: {words['text']}"
    held = _held(records, rows, place)
    if held:
        before = (records.row("sugov_decision", int(index)) for index in reversed(rows[: place - len(held)]))
        asked_ns = (one["time_ns"] for one in before if one["outcome"] == REQUESTED)
        text += _held_text(row, held, next(asked_ns, None))
    text += f" {words['outcome']}"
    return Finding(row["time_ns"], "frequency", text, row)


def _after(ns: int) -> str:
    return f"{length(ns)} after the request" if ns else "at once"


def _kthread(records: Records, policy: int, asked_ns: int, until_ns: int) -> tuple[str, dict[str, int]]:
    """Explain when the kthread took a request to the hardware; nothing for a driver that needs none."""
    kthread = f"sugov:{policy}"
    if records.facts["fast_switch"] or kthread not in records.names:
        return "", {}
    task = records.names.index(kthread)
    runs, ends = records.where("sched_switch", next=task), records.where("sched_switch", prev=task)
    begun = records.until("sched_switch", runs, asked_ns - 1)
    ended = records.until("sched_switch", ends, asked_ns)
    if begun > ended:
        run = records.row("sched_switch", int(runs[begun - 1]))
        text = f"{seconds(asked_ns)}: {kthread} was running on CPU {run['cpu']} and took it along"
        return text, {"kthread_cpu": run["cpu"], "kthread_ns": 0}
    if begun == len(runs):
        return "", {}
    run = records.row("sched_switch", int(runs[begun]))
    if run["time_ns"] > until_ns:
        return "", {}
    data = {"kthread_cpu": run["cpu"], "kthread_ns": run["time_ns"] - asked_ns}
    where = f"on CPU {run['cpu']} in place of {records.task(run['prev'])}"
    return f"{seconds(run['time_ns'])}: {kthread} ran {where}, {_after(data['kthread_ns'])}", data


def _change(records: Records, cpu: int, asked_ns: int) -> dict[str, Any] | None:
    """Give the change of the clock that answers a request; of firmware, which chooses by itself, the next one."""
    policy = records.policy_of[cpu]["cpus"][0]
    clocks = records.where("cpu_frequency", cpu=cpu)
    times_ns = records.tables["cpu_frequency"]["time_ns"][clocks]
    found = times_ns >= asked_ns
    if not len(records.where("hwp_decision", policy_cpu=policy)):
        answers = records.where("freq_grant", policy_cpu=policy)
        answered_ns = records.tables["freq_grant"]["time_ns"][answers]
        delay_ns = records.tables["freq_grant"]["delay_ns"][answers]
        found = np.isin(times_ns, answered_ns[(delay_ns >= 0) & (answered_ns.astype(np.int64) - delay_ns == asked_ns)])
    if not found.any():
        return None
    # Of several changes at one time the last one stands.
    stood = clocks[times_ns == times_ns[found][0]][-1]
    return records.row("cpu_frequency", int(stood))


def _granted(records: Records, cpu: int, at_ns: int) -> dict[str, Any] | None:
    """Give the hardware's last answer to the policy of a CPU until a point in time."""
    rows = records.where("freq_grant", policy_cpu=records.policy_of[cpu]["cpus"][0])
    count = records.until("freq_grant", rows, at_ns)
    return records.row("freq_grant", int(rows[count - 1])) if count else None


def _delivery(records: Records, cpu: int, asked_ns: int, until_ns: int) -> Finding | None:
    """Explain how a request reached the hardware."""
    text, data = _kthread(records, records.policy_of[cpu]["cpus"][0], asked_ns, until_ns)
    changed = _change(records, cpu, asked_ns)
    if changed is not None and changed["time_ns"] <= until_ns:
        data |= {"granted_khz": changed["khz"], "delay_ns": changed["time_ns"] - asked_ns}
        head = f"{text}; the" if text else f"{seconds(changed['time_ns'])}: the"
        text = f"{head} clock became {point_name(records, cpu, changed['khz'])}, {_after(data['delay_ns'])}"
        grant = _granted(records, cpu, changed["time_ns"])
        if grant is not None and grant["by_cpu"] != grant["policy_cpu"]:
            data["by_cpu"] = grant["by_cpu"]
            text += f": CPU {grant['by_cpu']}, which has the same clock, asked for more"
    return Finding(asked_ns + data.get("delay_ns", 0), "delivery", text + ".", data) if text else None


def _grant(records: Records, cpu: int, at_ns: int) -> Finding | None:
    """Explain what the hardware held back."""
    row = _granted(records, cpu, at_ns)
    if row is None or row["limit"] == "none":
        return None
    text = f"{seconds(row['time_ns'])}: {records.words('freq_grant', row, cpu)['text']}"
    return Finding(row["time_ns"], "grant", text, row)


def _since(records: Records, rows: npt.NDArray[np.intp], start: int, end: int, at_ns: int) -> Finding | None:
    """Explain the reports from number `start` to `end`, which changed nothing."""
    seen = [records.row("sugov_decision", int(index)) for index in rows[start:end]]
    if not seen:
        return None
    counts = Counter(row["outcome"] for row in seen)
    words = {word: records.phrases["outcome", word] for word in counts} | {REQUESTED: "were taken along by the kthread"}
    parts = [f"{count} {words[outcome]}" for outcome, count in counts.items()]
    reports = "was 1 more report" if len(seen) == 1 else f"were {len(seen)} more reports"
    text = f"Until {seconds(at_ns)} there {reports}: {', '.join(parts)}."
    last = seen[-1]
    formula = records.words("sugov_decision", last, last["policy_cpu"])["how"]
    if last["outcome"] == RATE_LIMITED and last["wanted_khz"] != last["next_khz"]:
        text += (
            f" The last one, at {seconds(last['time_ns'])}, wanted another: {formula}; "
            f"the rate limit holds it for {length(last['wait_ns'])} more."
        )
    else:
        text += f" The last one, at {seconds(last['time_ns'])}: {formula}."
    return Finding(last["time_ns"], "reports", text, {"counts": dict(counts), "last": last})


def frequency_findings(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    """Explain the clock of a CPU at a point in time: by the request that made it, its own or that of another."""
    policy = records.policy_of[cpu]["cpus"][0]
    grant = _granted(records, cpu, at_ns)
    if grant is None or grant["by_cpu"] == policy:
        findings = _of_policy(records, cpu, at_ns)
        place = next(
            (place for place, one in enumerate(findings) if "by_cpu" in one.data and one.kind == "delivery"), None
        )
        if grant is not None and place is not None and grant["time_ns"] > findings[place].time_ns:
            khz = point_name(records, cpu, grant["granted_khz"])
            text = f"{seconds(grant['time_ns'])}: the clock became {khz}: no CPU that has it asked for more any longer."
            findings.insert(place + 1, Finding(grant["time_ns"], "shared", text, grant))
        return findings
    by_cpu, since_ns = grant["by_cpu"], grant["time_ns"]
    text = (
        f"{seconds(since_ns)}: CPU {by_cpu}, which has the same clock as CPU {cpu}, asked for the most of those "
        f"that share it; its decision:"
    )
    wish = _granted(records, by_cpu, since_ns)
    wish_khz = None if wish is None else wish["requested_khz"]
    return [Finding(since_ns, "shared", text, grant), *_of_policy(records, by_cpu, since_ns, wish_khz)]


def _last(records: Records, cpu: int, next_khz: npt.NDArray[np.uint32], wish_khz: int | None) -> int:
    """Give the number of the last decision that asks for the point `wish_khz`: a later one is still on its way.

    It is the last of all if none does so, or no point is named.
    """
    points = np.array(records.policy_of[cpu]["opps_khz"])
    reached = np.searchsorted(points, next_khz).clip(max=len(points) - 1)
    found = np.flatnonzero(points[reached] == wish_khz)
    return int(found[-1]) if len(found) else len(next_khz) - 1


def _that_made(
    records: Records, table: str, rows: npt.NDArray[np.intp], grant: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Give the firmware's request that the hardware answered: the later ones that ask the same changed no clock."""
    count = 0 if grant is None else records.until(table, rows, grant["time_ns"])
    return records.row(table, int(rows[count - 1])) if count else None


def _decided(records: Records, policy: int, start_ns: int, end_ns: int) -> bool:
    """Report whether a policy's governor asked for a clock or took a sample in a time."""
    asks = records.where("sugov_decision", policy_cpu=policy, outcome=records.codes["outcome"].index(REQUESTED))
    tables = [("sugov_decision", asks), *((table, records.where(table, policy_cpu=policy)) for table in SAMPLERS)]
    return any(records.until(table, rows, end_ns) > records.until(table, rows, start_ns - 1) for table, rows in tables)


def _of_cpu(records: Records, cpu: int, changed_ns: int, keys: dict[str, Any]) -> dict[str, Any]:
    """Give what a change of the run sets for the clock of a CPU: of limits by cluster its own; CPUs of its policy."""
    cluster = next(one["name"] for one in records.outcome["clusters"] if cpu in one["cpus"])
    own = {key: value for key, value in keys.items() if key in CLOCK_KEYS}
    for key in LIMITS:
        if isinstance(own.get(key), dict):
            value, before = (
                (one.get(cluster) if isinstance(one, dict) else one) or 0
                for one in (own.pop(key), records.setting(key, changed_ns - 1))
            )
            if value != before:
                own[key] = value
    before, after = (
        [records.why_offline(one, at_ns) is None for one in records.policy_of[cpu]["cpus"]]
        for at_ns in (changed_ns - 1, changed_ns)
    )
    if before != after:
        own |= {key: keys[key] for key in ("offline_cpus", "nosmt") if key in keys}
    return own


def _shown(value: Any) -> str:
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _by_limit(records: Records, cpu: int, clock_ns: int) -> bool:
    """Report whether a clock that a slow driver set answers no decision of the governor: a limit itself set it."""
    if records.facts["fast_switch"] or len(records.where("hwp_decision", policy_cpu=records.policy_of[cpu]["cpus"][0])):
        return False
    grant = _granted(records, cpu, clock_ns)
    return grant is not None and grant["time_ns"] == clock_ns and grant["delay_ns"] < 0


def _changes(records: Records, cpu: int, at_ns: int) -> tuple[int, list[Finding]]:
    """Name the changes of governor and limits that count for the clock at a point in time.

    Given is also since when decisions count: a new governor knows none of those before it, and a clock that changed
    after a change is not theirs.
    """
    clocks = records.where("cpu_frequency", cpu=cpu)
    clocks = clocks[: records.until("cpu_frequency", clocks, at_ns)]
    times_ns = records.tables["cpu_frequency"]["time_ns"][clocks]
    own = ((ns, _of_cpu(records, cpu, ns, keys)) for ns, keys in records.changes if ns <= at_ns)
    changes = [(ns, keys) for ns, keys in own if keys]
    since_ns = max((ns for ns, keys in changes if STARTS & keys.keys() or (times_ns >= ns).any()), default=0)
    findings = []
    for changed_ns, keys in changes:
        if changed_ns < since_ns:
            continue
        values = {key: value for key, value in keys.items() if key != "tunables"} | keys.get("tunables", {})
        words = ", ".join(f"{name}={_shown(value)}" for name, value in values.items())
        text = f"{seconds(changed_ns)}: the run set {words}"
        data: dict[str, Any] = {"set": values}
        after = clocks[times_ns >= changed_ns]
        if len(after):
            clock = records.row("cpu_frequency", int(after[0]))
            policy, clock_ns = records.policy_of[cpu]["cpus"][0], clock["time_ns"]
            if _by_limit(records, cpu, clock_ns) or not _decided(records, policy, changed_ns, clock_ns):
                data |= {"granted_khz": clock["khz"], "delay_ns": clock["time_ns"] - changed_ns}
                delay = f"{length(data['delay_ns'])} after that" if data["delay_ns"] else "at once"
                text += f"; the clock became {point_name(records, cpu, clock['khz'])}, {delay}"
        else:
            text += "; the clock is still the one before"
        findings.append(Finding(changed_ns, "change", text + ".", data))
    return since_ns, findings


def _of_policy(records: Records, cpu: int, at_ns: int, wish_khz: int | None = None) -> list[Finding]:
    """Explain what the policy of a CPU asked for at a point in time, and what it got; `wish_khz` if that is known."""
    policy = records.policy_of[cpu]["cpus"][0]
    since_ns, changes = _changes(records, cpu, at_ns)
    rows = records.where("sugov_decision", policy_cpu=policy)
    rows = rows[records.until("sugov_decision", rows, since_ns - 1) :]
    end = records.until("sugov_decision", rows, at_ns)
    outcomes = records.tables["sugov_decision"]["outcome"][rows[:end]]
    asked = np.flatnonzero(outcomes == records.codes["outcome"].index(REQUESTED))
    findings: list[Finding | None] = []
    if len(asked):
        asked_khz = records.tables["sugov_decision"]["next_khz"][rows[asked]]
        place = int(asked[_last(records, cpu, asked_khz, wish_khz)])
        request = _request(records, rows, place)
        findings += [request, _delivery(records, cpu, request.time_ns, at_ns)]
        findings.append(_since(records, rows, place + 1, end, at_ns))
    elif changes or end:
        findings.append(_since(records, rows, 0, end, at_ns))
    count = 0
    for table in SAMPLERS:
        samples = records.where(table, policy_cpu=policy)
        samples = samples[records.until(table, samples, since_ns - 1) :]
        count = records.until(table, samples, at_ns)
        if count:
            next_khz = records.tables[table].get("next_khz")
            last = count - 1 if next_khz is None else _last(records, cpu, next_khz[samples[:count]], wish_khz)
            row = records.row(table, int(samples[last]))
            if next_khz is None and (
                made := _that_made(records, table, samples[:count], _granted(records, cpu, at_ns))
            ):
                row = made if made["level"] == row["level"] else row
            text = f"{seconds(row['time_ns'])}: {records.words(table, row, cpu)['text']}"
            findings.append(Finding(row["time_ns"], "frequency", text, row))
            break
    grant = _grant(records, cpu, at_ns)
    if not end and not count and grant is None and not changes:
        governor, epp = records.facts["governor"], records.facts.get("epp")
        text = f"The governor {governor} decided nothing until then; the clock is what it started with."
        if epp is not None:
            value, whose = epp
            text = (
                f"The governor {governor} leaves the clock to the firmware, whose energy-performance preference is "
                f"{value}: {whose}. It takes the highest level that it may, at any load."
            )
        findings.append(Finding(0, "frequency", text))
    told = [finding for finding in [*findings, grant] if finding is not None]
    # What was decided before a change, or granted before a request, comes before it.
    in_order = bool(changes) or len(records.where("hwp_decision", policy_cpu=policy)) > 0
    return sorted([*changes, *told], key=lambda one: one.time_ns) if in_order else told
