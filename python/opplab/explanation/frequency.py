"""Why a CPU had its frequency: the request, how it reached the hardware, what was granted."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab import _opplab
from opplab.explanation.findings import Finding, length, seconds
from opplab.explanation.records import Records
from opplab.sweep.drivers import ACTIVE, has_epp

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
MHZ = 1000
"""In kHz: levels of hybrids are no whole kHz."""
NO_LIMIT = ("none", "opp-table", "firmware")
"""Limits of a grant whose end has another reason: a request, or the firmware's decision."""
ANSWER = ("requested_khz", "granted_khz", "limit", "by_cpu")
"""What is the same in an answer of the hardware that repeats the one before."""
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
    if due <= since and not request["no_report_ns"]:
        return ""
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


def _answer(records: Records, cpu: int, request: dict[str, Any]) -> dict[str, Any] | None:
    """Give the hardware's answer to a request of the policy of a CPU, if that changed what it grants.

    A request of levels is answered at once; later changes are the firmware's own.
    """
    answers = records.where("freq_grant", policy_cpu=records.policy_of[cpu]["cpus"][0])
    columns, asked_ns = records.tables["freq_grant"], request["time_ns"]
    times_ns, delay_ns = columns["time_ns"][answers].astype(np.int64), columns["delay_ns"][answers]
    found = answers[(delay_ns >= 0) & (times_ns - delay_ns == asked_ns)]
    if not len(found) and not request["next_khz"]:
        found = answers[times_ns == asked_ns]
    return records.row("freq_grant", int(found[-1])) if len(found) else None


def _became(records: Records, cpu: int, at_ns: int) -> int | None:
    """Give the clock that a CPU changed to at a point in time; of several changes the last one stands."""
    clocks = records.where("cpu_frequency", cpu=cpu, time_ns=at_ns)
    return int(records.tables["cpu_frequency"]["khz"][clocks[-1]]) if len(clocks) else None


def _grants(records: Records, cpu: int, at_ns: int) -> list[dict[str, Any]]:
    """Give the hardware's last two answers to the policy of a CPU until a point in time, the last one first.

    Of several of an instant the last one stands; one that repeats the one before is none.
    """
    rows = records.where("freq_grant", policy_cpu=records.policy_of[cpu]["cpus"][0])
    found: list[dict[str, Any]] = []
    while count := records.until("freq_grant", rows, at_ns):
        row = records.row("freq_grant", int(rows[count - 1]))
        at_ns = row["time_ns"] - 1
        if found and found[-1]["delay_ns"] < 0 and all(row[name] == found[-1][name] for name in ANSWER):
            found[-1] = row
        elif len(found) == 2:
            break
        else:
            found.append(row)
    return found


def _granted(records: Records, cpu: int, at_ns: int) -> dict[str, Any] | None:
    """Give the hardware's last answer to the policy of a CPU until a point in time."""
    return next(iter(_grants(records, cpu, at_ns)), None)


def _has_firmware(records: Records, cpu: int) -> bool:
    """Report whether the firmware chooses the clock of a CPU: requests are what it may choose from."""
    return len(records.where("hwp_decision", policy_cpu=records.policy_of[cpu]["cpus"][0])) > 0


def _asked(records: Records, cpu: int, request: dict[str, Any]) -> set[int]:
    """Give what the hardware may call a request: what the governor or its driver asks for, and points that reach it."""
    cpus, opps_khz = (records.policy_of[cpu][name] for name in ("cpus", "opps_khz"))
    points = _points(records, cpu)
    events = records.tables["freq_request"]
    of_driver = (events["time_ns"] == request["time_ns"]) & np.isin(events["cpu"], cpus)
    found = set[int]()
    for khz in (request["next_khz"], *events["khz"][of_driver].tolist()):
        found |= {khz, _reached(opps_khz, khz), _reached(points, khz)}
        # The last point of the table stands for all that there is.
        found |= {points[-1]} if khz >= opps_khz[-1] else set()
    return found


def _is_due(records: Records, cpu: int, request: dict[str, Any], at_ns: int) -> bool:
    """Report whether the hardware has been asked for another point than a request's, and chooses none itself."""
    grant = _granted(records, cpu, at_ns)
    if grant is None or not request["next_khz"] or _has_firmware(records, cpu):
        return False
    return grant["requested_khz"] not in _asked(records, cpu, request)


def _asked_for_more(answer: dict[str, Any], data: dict[str, Any]) -> str:
    """Name the CPU of the same clock that the hardware answered, and note it; empty if it is the policy's own."""
    if answer["by_cpu"] == answer["policy_cpu"]:
        return ""
    data["by_cpu"] = answer["by_cpu"]
    return f": CPU {answer['by_cpu']}, which has the same clock, asked for more"


def _stays(records: Records, cpu: int, request: dict[str, Any], at_ns: int) -> Finding | None:
    """Give the clock that a request leaves as it is: the hardware has one point for it and the one before."""
    grant = _granted(records, cpu, at_ns)
    if grant is None or not request["next_khz"] or _has_firmware(records, cpu):
        return None
    khz = grant["granted_khz"]
    data = {"granted_khz": khz, "delay_ns": at_ns - request["time_ns"]}
    why = _asked_for_more(grant, data) or ", which the hardware has for that, too"
    text = f"the clock stays at {point_name(records, cpu, khz)}{why}"
    return Finding(at_ns, "delivery", f"{seconds(at_ns)}: {text}.", data)


def _is_own(records: Records, row: dict[str, Any], before: dict[str, Any]) -> bool:
    """Report whether an answer of the hardware after the one `before` follows from what its own policy asks for."""
    decided = records.where("hwp_decision", policy_cpu=row["policy_cpu"], time_ns=row["time_ns"])
    return row["delay_ns"] >= 0 or row["requested_khz"] != before["requested_khz"] or len(decided) > 0


def _delivery(records: Records, cpu: int, request: dict[str, Any], until_ns: int) -> Finding | None:
    """Explain how a request reached the hardware."""
    asked_ns = request["time_ns"]
    text, data = _kthread(records, records.policy_of[cpu]["cpus"][0], asked_ns, until_ns)
    answer = _answer(records, cpu, request)
    if answer is not None and answer["time_ns"] <= until_ns:
        khz = _became(records, cpu, answer["time_ns"])
        what = "stays at" if khz is None else "became"
        data |= {"granted_khz": khz or answer["granted_khz"], "delay_ns": answer["time_ns"] - asked_ns}
        head = f"{text}; the" if text else f"{seconds(answer['time_ns'])}: the"
        text = f"{head} clock {what} {point_name(records, cpu, data['granted_khz'])}, {_after(data['delay_ns'])}"
        text += _asked_for_more(answer, data)
    elif answer is not None or _is_due(records, cpu, request, until_ns):
        # The clock is still that of a request before.
        data["pending"] = True
        text = f"{text or seconds(until_ns)}{';' if text else ':'} the hardware has not answered yet"
    elif not text and records.facts["fast_switch"]:
        return _stays(records, cpu, request, asked_ns)
    return Finding(asked_ns + data.get("delay_ns", 0), "delivery", text + ".", data) if text else None


def _grant(records: Records, cpu: int, at_ns: int) -> Finding | None:
    """Explain what the hardware held back, or holds back no longer."""
    row, before = (*_grants(records, cpu, at_ns), None, None)[:2]
    if row is None:
        return None
    if row["limit"] != "none":
        text = records.words("freq_grant", row, cpu)["text"]
    elif before is None or before["limit"] in NO_LIMIT or before["by_cpu"] != row["by_cpu"]:
        return None
    else:
        if _is_own(records, row, before):
            return None
        limit = records.phrases["limit", before["limit"]]
        text = f"the clock became {point_name(records, cpu, row['granted_khz'])}: no longer held by {limit}."
    return Finding(row["time_ns"], "grant", f"{seconds(row['time_ns'])}: {text}", row)


def _since(
    records: Records, rows: npt.NDArray[np.intp], start: int, end: int, at_ns: int, level: int | None = None
) -> Finding | None:
    """Explain the reports from number `start` to `end`, which changed nothing; `level` was asked for last, if any."""
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
    wants = last["wanted_khz"] != last["next_khz"] or level not in (None, last["target_perf"])
    if last["outcome"] == RATE_LIMITED and wants:
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
    grant, before = (*_grants(records, cpu, at_ns), None, None)[:2]
    if grant is None or grant["by_cpu"] == policy:
        findings = _of_policy(records, cpu, at_ns)
        if grant is None or before is None or before["by_cpu"] == policy or _is_own(records, grant, before):
            return findings
        # What the policy had asked for itself holds from here on; what it asked for later changed nothing.
        since_ns = grant["time_ns"]
        khz = point_name(records, cpu, grant["granted_khz"])
        text = f"{seconds(since_ns)}: the clock became {khz}: no CPU that has it asked for more any longer."
        made = _of_policy(records, cpu, since_ns)
        later = [replace(one, kind="later") for one in findings if one.time_ns > since_ns and one not in made]
        return [*made, Finding(since_ns, "shared", text, grant), *later]
    by_cpu, since_ns = grant["by_cpu"], grant["time_ns"]
    text = (
        f"{seconds(since_ns)}: CPU {by_cpu}, which has the same clock as CPU {cpu}, asked for the most of those "
        f"that share it; its decision:"
    )
    wish = _granted(records, by_cpu, since_ns)
    firmware = records.where("hwp_decision", policy_cpu=records.policy_of[by_cpu]["cpus"][0], desired=0)
    # Without a desired level the hardware's request is the most that the firmware may choose.
    wish_khz = None if wish is None or len(firmware) else wish["requested_khz"]
    return [Finding(since_ns, "shared", text, grant), *_of_policy(records, by_cpu, since_ns, wish_khz)]


def _points(records: Records, cpu: int) -> list[int]:
    """Give the clocks that a CPU may have, with those that no table lists, ascending."""
    found: list[int] = next(one["opps_khz"] for one in records.outcome["clusters"] if cpu in one["cpus"])
    return found


def _reached(points: list[int], khz: int) -> int:
    """Give the lowest of ascending clocks that reaches one, else the highest."""
    return points[min(bisect_left(points, khz), len(points) - 1)]


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
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _by_limit(records: Records, cpu: int, clock_ns: int) -> bool:
    """Report whether a clock that a slow driver set answers no decision of the governor: a limit itself set it."""
    if records.facts["fast_switch"] or _has_firmware(records, cpu):
        return False
    # Answers to other governors have no time of their decision.
    if records.setting("governor", clock_ns) != "schedutil":
        return False
    grant = _granted(records, cpu, clock_ns)
    return grant is not None and grant["time_ns"] == clock_ns and grant["delay_ns"] < 0


def _is_apart(records: Records, cpu: int, clock_ns: int, changed_ns: int) -> bool:
    """Report whether a clock is no doing of a change of the run before it.

    It answers what was on its way then, or the request is the one before, of which the hardware allows more or less.
    """
    if clock_ns == changed_ns:
        return False
    row, before = (*_grants(records, cpu, clock_ns), None, None)[:2]
    if row is not None and before is not None and row["time_ns"] == clock_ns and not _is_own(records, row, before):
        return True
    asks = records.tables["freq_request"]
    cpus = records.policy_of[cpu]["cpus"]
    of_policy = np.flatnonzero(np.isin(asks["cpu"], cpus) & (asks["time_ns"] < changed_ns))
    if not len(of_policy):
        return False
    ask = {"time_ns": int(asks["time_ns"][of_policy[-1]]), "next_khz": int(asks["khz"][of_policy[-1]])}
    table = "hwp_decision" if _has_firmware(records, cpu) else "freq_grant"
    if table == "freq_grant" and not _is_due(records, cpu, ask, ask["time_ns"] - 1):
        return False
    answers = records.where(table, policy_cpu=cpus[0])
    return records.until(table, answers, clock_ns - 1) == records.until(table, answers, ask["time_ns"] - 1)


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
        after = times_ns[times_ns >= changed_ns].tolist()
        due_ns = next((ns for ns in after if not _is_apart(records, cpu, ns, changed_ns)), None)
        if due_ns is not None:
            policy, khz = records.policy_of[cpu]["cpus"][0], _became(records, cpu, due_ns)
            if khz and (_by_limit(records, cpu, due_ns) or not _decided(records, policy, changed_ns, due_ns)):
                data |= {"granted_khz": khz, "delay_ns": due_ns - changed_ns}
                delay = f"{length(data['delay_ns'])} after that" if data["delay_ns"] else "at once"
                text += f"; the clock became {point_name(records, cpu, khz)}, {delay}"
        elif not after:
            text += "; the clock is still the one before"
        findings.append(Finding(changed_ns, "change", text + ".", data))
    return since_ns, findings


def _on_its_way(records: Records, cpu: int, table: str, rows: npt.NDArray[np.intp], asked_ns: int) -> int | None:
    """Give the number of the request that the hardware still had to answer at the time of a later one, if any.

    `rows` are the requests before that time. The kthread takes the last of them along and sleeps until the answer; what
    is asked meanwhile waits for it. A driver that is called where the governor decides replaces what is on its way.
    """
    kthread = f"sugov:{records.policy_of[cpu]['cpus'][0]}"
    if records.facts["fast_switch"] or kthread not in records.names:
        return None
    task = records.names.index(kthread)
    slept = records.where("sched_switch", prev=task, prev_state=1)
    # A run that begins with the request may have taken that one.
    begins = len(records.where("sched_switch", next=task, time_ns=asked_ns)) > 0
    count = records.until("sched_switch", slept, asked_ns - begins)
    slept_ns = records.row("sched_switch", int(slept[count - 1]))["time_ns"] if count else 0
    taken = records.until(table, rows, slept_ns - 1)
    before = _granted(records, cpu, asked_ns - 1)
    had_khz = _became(records, cpu, 0) if before is None else before["requested_khz"]
    if not taken or had_khz is None:
        return None
    way = records.row(table, int(rows[taken - 1]))
    return None if had_khz in _asked(records, cpu, way) else taken - 1


def _made(
    records: Records, cpu: int, table: str, rows: npt.NDArray[np.intp], place: int, at_ns: int
) -> tuple[list[Finding], int | None]:
    """Explain the request of row number `place` of a governor that takes samples or is in Python, and its delivery.

    Given is also the number of the request that was on its way to the hardware at that time, if any.
    """
    row = records.row(table, int(rows[place]))
    text = f"{seconds(row['time_ns'])}: {records.words(table, row, cpu)['text']}"
    findings = [Finding(row["time_ns"], "frequency", text, row)]
    asked_ns = row["time_ns"]
    if row["next_khz"] == row["prev_khz"] or _has_firmware(records, cpu):
        return findings, None
    before, asked = _granted(records, cpu, asked_ns - 1), _asked(records, cpu, row)
    way = _on_its_way(records, cpu, table, rows[:place], asked_ns)
    if way is None and before is not None and before["requested_khz"] in asked:
        stays = _stays(records, cpu, row, asked_ns)
        return findings if stays is None else [*findings, stays], None
    answers = records.where("freq_grant", policy_cpu=row["policy_cpu"])
    answers = answers[records.until("freq_grant", answers, asked_ns - 1) :]

    def first(asked: set[int]) -> dict[str, Any] | None:
        rows = (records.row("freq_grant", int(index)) for index in answers)
        return next((row for row in rows if row["requested_khz"] in asked), None)

    answer = first(asked)
    if answer is None and before is None:
        return findings, None
    if answer is None or answer["time_ns"] > at_ns:
        text = f"{seconds(at_ns)}: the hardware has not answered yet."
        return [*findings, Finding(row["time_ns"], "delivery", text, {"pending": True})], way
    became, delay_ns = _became(records, cpu, answer["time_ns"]), answer["time_ns"] - row["time_ns"]
    what, khz = ("stays at", answer["granted_khz"]) if became is None else ("became", became)
    text = f"{seconds(answer['time_ns'])}: the clock {what} {point_name(records, cpu, khz)}, {_after(delay_ns)}"
    data = {"granted_khz": khz, "delay_ns": delay_ns}
    text += f"{_asked_for_more(answer, data)}."
    if way is not None:
        earlier = records.row(table, int(rows[way]))
        data["on_its_way_ns"] = earlier["time_ns"]
        since, came = f"on its way since {seconds(earlier['time_ns'])}", first(_asked(records, cpu, earlier))
        if came == answer:
            text += f" This change was {since}."
        elif came is not None and came["time_ns"] < answer["time_ns"]:
            point = point_name(records, cpu, came["granted_khz"])
            text += f" The change to {point}, {since}, came first, at {seconds(came['time_ns'])}."
    return [*findings, Finding(answer["time_ns"], "delivery", text, data)], way


def _sampled(
    records: Records, cpu: int, table: str, rows: npt.NDArray[np.intp], at_ns: int, wish_khz: int | None
) -> list[Finding]:
    """Explain the clock by a governor that takes samples, or one in Python: what it asked for last, and since then."""
    columns = records.tables[table]
    changed = np.flatnonzero(columns["next_khz"][rows] != columns["prev_khz"][rows])
    asked = changed if len(changed) else np.arange(len(rows))
    number = _last(records, cpu, columns["next_khz"][rows[asked]], wish_khz)
    findings, way = _made(records, cpu, table, rows[asked], number, at_ns)
    if number and "pending" in findings[-1].data:
        earlier, _ = _made(records, cpu, table, rows[asked], number - 1 if way is None else way, at_ns)
        findings = [*(replace(one, kind="earlier") for one in earlier), *findings]
    count = len(rows) - 1 - int(asked[number])
    if count:
        last = records.row(table, int(rows[-1]))
        what = "sample" if table == "dbs_decision" else "answer"
        were = f"was 1 more {what}" if count == 1 else f"were {count} more {what}s"
        words = records.words(table, last, cpu)
        text = f"Until {seconds(at_ns)} there {were}. The last one, at {seconds(last['time_ns'])}: {words['text']}"
        findings.append(Finding(last["time_ns"], "reports", text, {"count": count, "last": last}))
    return findings


def _undecided(records: Records) -> str:
    """Give the words about a clock that nobody changed since the start."""
    governor, driver = records.facts["governor"], records.facts["driver"]
    if driver not in ACTIVE or not has_epp(driver, records.machine, records.policy):
        return f"The governor {governor} decided nothing until then: it asks for what it started with."
    does = "It follows the load, and saw none until then that asks for more than the lowest level."
    if own := records.facts.get("epp"):
        value, whose = own
        preference = f"{value}: {whose}"
        if value == 0:
            does = "It takes the highest level that it may, at any load."
    elif governor == "performance":
        return f"The governor {governor} has asked for no other level than the highest since the start."
    else:
        preference = records.policy.get("epp") or "the default"
    whose_is = f"whose energy-performance preference is {preference}"
    return f"The governor {governor} leaves the clock to the firmware, {whose_is}. {does}"


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
        number = _last(records, cpu, asked_khz, wish_khz)
        place = int(asked[number])
        request = _request(records, rows, place)
        delivery = _delivery(records, cpu, request.data, at_ns)
        answer = _granted(records, cpu, at_ns)
        times_ns = records.tables["sugov_decision"]["time_ns"][rows[asked]]
        made_ns = -1 if answer is None or answer["delay_ns"] < 0 else answer["time_ns"] - answer["delay_ns"]
        before = np.flatnonzero(times_ns == made_ns)
        if len(before) and delivery is not None and "pending" in delivery.data:
            # The clock is that of a request before.
            earlier = _request(records, rows, int(asked[before[-1]]))
            both = [earlier, _delivery(records, cpu, earlier.data, at_ns)]
            findings += [replace(one, kind="earlier") for one in both if one is not None]
        findings += [request, delivery]
        level = None if request.data["next_khz"] else request.data["target_perf"]
        findings.append(_since(records, rows, place + 1, end, at_ns, level))
    elif changes or end:
        findings.append(_since(records, rows, 0, end, at_ns))
    seen = end
    for table in SAMPLERS:
        samples = records.where(table, policy_cpu=policy)
        samples = samples[records.until(table, samples, since_ns - 1) :]
        count = records.until(table, samples, at_ns)
        seen += count
        if count and table != "hwp_decision":
            findings += _sampled(records, cpu, table, samples[:count], at_ns, wish_khz)
        elif count:
            row = records.row(table, int(samples[count - 1]))
            made = _that_made(records, table, samples[:count], _granted(records, cpu, at_ns))
            row = made if made is not None and made["level"] == row["level"] else row
            text = f"{seconds(row['time_ns'])}: {records.words(table, row, cpu)['text']}"
            level_khz, points = row["level"] * row["level_khz"], _points(records, cpu)
            reached_khz = _reached(points, level_khz)
            if abs(reached_khz - level_khz) >= MHZ:
                which = (
                    "lowest clock that reaches it" if reached_khz > level_khz else "highest clock of the machine's file"
                )
                text += f" The {which} is {point_name(records, cpu, reached_khz)}."
            # What the firmware makes of it, where a governor asks.
            findings.append(Finding(row["time_ns"], "firmware" if findings else "frequency", text, row))
    grant = _grant(records, cpu, at_ns)
    if not seen and grant is None and not changes:
        findings.append(Finding(0, "frequency", _undecided(records)))
    told = [finding for finding in [*findings, grant] if finding is not None]
    # What was decided before a change, or granted before a request, comes before it.
    in_order = bool(changes) or _has_firmware(records, cpu)
    return sorted([*changes, *told], key=lambda one: one.time_ns) if in_order else told
