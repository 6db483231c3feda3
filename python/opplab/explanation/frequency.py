"""Why a CPU had its frequency: the request, how it reached the hardware, what was granted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.explanation.findings import Finding, cpu_list, length, mhz, seconds
from opplab.explanation.records import Records
from opplab.explanation.slow import SLOW

if TYPE_CHECKING:
    import numpy.typing as npt


REQUESTED = "requested"
RATE_LIMITED = "rate-limited"
# Drivers whose frequencies are called P-states, P0 being the highest.
P_STATE_DRIVERS = ("acpi-cpufreq", "intel_pstate", "intel_cpufreq", "amd-pstate", "amd_pstate", "pcc-cpufreq")


def point_name(records: Records, cpu: int, khz: int) -> str:
    """Name a frequency's place in the table."""
    return point_name_in(records.policy_of[cpu]["opps_khz"], records.facts["driver"], khz)


def point_name_in(table: list[int], driver: str, khz: int) -> str:
    """Name a frequency's place in a table: its P-state or its operating point."""
    if khz not in table:
        return f"{mhz(khz)} (boost)" if table and khz > table[-1] else mhz(khz)
    place = table.index(khz)
    if driver in P_STATE_DRIVERS:
        return f"{mhz(khz)} (P{len(table) - 1 - place})"
    return f"{mhz(khz)} (OPP {place + 1} of {len(table)})"


def utilisation_parts(row: dict[str, Any]) -> str:
    """Give the parts of a utilisation; a recording knows fewer of them than a simulated run."""
    cfs = "util_avg (runnable)" if row.get("runnable_boost") else "util"
    parts = [f"{cfs} {row['util_cfs']}"]
    parts += [f"rt {row['util_rt']}"] if row["util_rt"] > 0 else []
    parts.append(f"dl {row['util_dl']}")
    parts += [f"irq {row['util_irq']}"] if row.get("util_irq") else []
    return " + ".join(parts)


def resolution_text(row: dict[str, Any], point: str) -> str:
    """Give the way from a utilisation to the frequency that is called `point`."""
    share = "" if row["max_cap"] == 1024 else f" of capacity {row['max_cap']}"
    return f"{share}; f_ref {mhz(row['ref_khz'])} -> {row['raw_khz'] / 1000:.0f} -> resolved {point}"


def _utilisation(row: dict[str, Any]) -> str:
    """Give the parts of a utilisation, and what became of their sum."""
    text = utilisation_parts(row)
    if row["iowait_boost"]:
        text += f", iowait boost {row['iowait_boost']}"
    if row["util_sum"] != row["util_cfs"] + row["util_rt"] + row["util_dl"]:
        text += f" = {row['util_sum']}"
    headroom = row["util_sum"] + row["util_sum"] // 4
    if row["util"] == headroom:
        return f"{text}, headroom 1.25 -> {row['util']}"
    if row["rt_runnable"] and row["util"] >= row["max_cap"]:
        return f"{text}, but a real-time task is runnable -> {row['util']}"
    if row["util"] < headroom:
        bound = f"uclamp.max {row['uclamp_max']}" if row["uclamp_max"] < row["max_cap"] else "the capacity"
        return f"{text}, headroom 1.25 -> {headroom}, bounded by {bound} -> {row['util']}"
    if row["util"] == row["uclamp_min"]:
        bound = f"uclamp.min {row['uclamp_min']}"
    elif row["util"] == row["util_irq"] + row["bw_dl"]:
        bound = f"dl bandwidth {row['bw_dl']}" + (f" and irq {row['util_irq']}" if row["util_irq"] else "")
    else:
        bound = "the least that is granted"
    return f"{text}, headroom 1.25 -> {headroom}, raised by {bound} -> {row['util']}"


def _formula(records: Records, row: dict[str, Any]) -> str:
    """Give the way from utilisation to frequency."""
    if not row["wanted_khz"]:
        # cpufreq_driver_adjust_perf(): levels, not frequencies.
        return f"{_utilisation(row)}: performance {row['util']} of {row['max_cap']} asked of the driver (adjust_perf)"
    return _utilisation(row) + resolution_text(row, point_name(records, row["policy_cpu"], row["wanted_khz"]))


def _held_since(records: Records, rows: npt.NDArray[np.intp], place: int) -> int | None:
    """Give when the request of row number `place` was first wanted, if the rate limit held it."""
    first = None
    for index in reversed(rows[:place]):
        row = records.row("sugov_decision", int(index))
        if row["outcome"] != RATE_LIMITED or row["wanted_khz"] == row["next_khz"]:
            break
        first = row["time_ns"]
    return first


def _request(records: Records, rows: npt.NDArray[np.intp], place: int) -> Finding:
    """Explain the request of row number `place`."""
    row = records.row("sugov_decision", int(rows[place]))
    policy = records.policy_of[row["policy_cpu"]]["cpus"]
    text = f"{seconds(row['time_ns'])}: CPU {row['cpu']} reported to schedutil"
    if row["iowait"]:
        text += " (a task that waited for I/O woke)"
    if len(policy) > 1:
        text += f", which serves {cpu_list(policy)}; CPU {row['deciding_cpu']} needs most"
    text += f": {_formula(records, row)}."
    since = _held_since(records, rows, place)
    if since is not None:
        row["held_ns"] = row["time_ns"] - since
        limit = length(records.facts["rate_limit_us"] * 1000)
        text += (
            f" It was wanted since {seconds(since)}; the rate limit of {limit} held it for {length(row['held_ns'])}."
        )
    if row["next_khz"]:
        before = f"instead of {mhz(row['prev_khz'])}" if row["prev_khz"] else "for the first time"
        text += f" Requested {before}."
    return Finding(row["time_ns"], "frequency", text, row)


def _after(ns: int) -> str:
    return f"{length(ns)} after the request" if ns else "at once"


def _delivery(records: Records, cpu: int, asked_ns: int, until_ns: int) -> Finding | None:
    """Explain how a request reached the hardware."""
    policy = records.policy_of[cpu]["cpus"][0]
    clocks = records.where("cpu_frequency", cpu=cpu)
    place = int(np.searchsorted(records.tables["cpu_frequency"]["time_ns"][clocks], asked_ns))
    changed = None
    if place < len(clocks):
        change = records.row("cpu_frequency", int(clocks[place]))
        changed = change if change["time_ns"] <= until_ns else None
    text, data = "", {}
    kthread = f"sugov:{policy}"
    if not records.facts["fast_switch"] and kthread in records.names:
        task = records.names.index(kthread)
        runs = records.where("sched_switch", next=task)
        times = records.tables["sched_switch"]["time_ns"][runs]
        first = int(np.searchsorted(times, asked_ns))
        if first < len(runs):
            run = records.row("sched_switch", int(runs[first]))
            if run["time_ns"] <= until_ns:
                data = {"kthread_cpu": run["cpu"], "kthread_ns": run["time_ns"] - asked_ns}
                text = (
                    f"{seconds(run['time_ns'])}: {kthread} ran on CPU {run['cpu']} in place of "
                    f"{records.task(run['prev'])}, {_after(data['kthread_ns'])}"
                )
    if changed is not None:
        data |= {"granted_khz": changed["khz"], "delay_ns": changed["time_ns"] - asked_ns}
        head = f"{text}; the" if text else f"{seconds(changed['time_ns'])}: the"
        text = f"{head} clock became {point_name(records, cpu, changed['khz'])}, {_after(data['delay_ns'])}"
    return Finding(asked_ns + data.get("delay_ns", 0), "delivery", text + ".", data) if text else None


def _grant(records: Records, cpu: int, at_ns: int) -> Finding | None:
    """Explain what the hardware held back."""
    rows = records.where("freq_grant", policy_cpu=records.policy_of[cpu]["cpus"][0])
    count = records.until("freq_grant", rows, at_ns)
    if not count:
        return None
    row = records.row("freq_grant", int(rows[count - 1]))
    if row["limit"] == "none":
        return None
    what = SLOW.get("epp" if row["limit"] == "firmware" else row["limit"], row["limit"])
    text = (
        f"{seconds(row['time_ns'])}: the hardware was asked for {mhz(row['requested_khz'])} "
        f"and granted {mhz(row['granted_khz'])}: {what}."
    )
    return Finding(row["time_ns"], "grant", text, row)


def _since(records: Records, rows: npt.NDArray[np.intp], start: int, end: int, at_ns: int) -> Finding | None:
    """Explain the reports from number `start` to `end`, which changed nothing."""
    seen = [records.row("sugov_decision", int(index)) for index in rows[start:end]]
    if not seen:
        return None
    counts = Counter(row["outcome"] for row in seen)
    words = {
        "unchanged": "wanted the same frequency",
        RATE_LIMITED: "came within the rate limit",
        "held": "kept it because the CPU had not idled",
        "cannot-update": "came from a CPU that may not change it",
        REQUESTED: "were taken along by the kthread",
    }
    parts = [f"{count} {words[outcome]}" for outcome, count in counts.items()]
    reports = "was 1 more report" if len(seen) == 1 else f"were {len(seen)} more reports"
    text = f"Until {seconds(at_ns)} there {reports}: {', '.join(parts)}."
    last = seen[-1]
    if last["outcome"] == RATE_LIMITED and last["wanted_khz"] != last["next_khz"]:
        text += (
            f" The last one, at {seconds(last['time_ns'])}, wanted another: {_formula(records, last)}; "
            f"the rate limit holds it for {length(last['wait_ns'])} more."
        )
    else:
        text += f" The last one, at {seconds(last['time_ns'])}: {_formula(records, last)}."
    return Finding(last["time_ns"], "reports", text, {"counts": dict(counts), "last": last})


def frequency_findings(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    """Explain the clock of a CPU at a point in time."""
    policy = records.policy_of[cpu]["cpus"][0]
    rows = records.where("sugov_decision", policy_cpu=policy)
    end = records.until("sugov_decision", rows, at_ns)
    outcomes = records.tables["sugov_decision"]["outcome"][rows[:end]]
    asked = np.flatnonzero(outcomes == records.codes["outcome"].index(REQUESTED))
    findings: list[Finding | None] = []
    if len(asked):
        # A request that the kthread has not delivered yet: the one before made the clock.
        place = int(asked[-1])
        request = _request(records, rows, place)
        findings += [request, _delivery(records, cpu, request.time_ns, at_ns)]
        findings.append(_since(records, rows, place + 1, end, at_ns))
    samples = records.where("dbs_decision", policy_cpu=policy)
    count = records.until("dbs_decision", samples, at_ns)
    if count:
        row = records.row("dbs_decision", int(samples[count - 1]))
        change = (
            f"{mhz(row['prev_khz'])} -> {point_name(records, cpu, row['next_khz'])}"
            if row["next_khz"] != row["prev_khz"]
            else f"it stays at {point_name(records, cpu, row['next_khz'])}"
        )
        text = (
            f"{seconds(row['time_ns'])}: {records.facts['governor']} took a sample: "
            f"the busiest CPU was busy for {row['load']} % of it: {change}."
        )
        findings.append(Finding(row["time_ns"], "frequency", text, row))
    grant = _grant(records, cpu, at_ns)
    if not end and not count and grant is None:
        text = (
            f"The governor {records.facts['governor']} decided nothing until then; the clock is what it started with."
        )
        findings.append(Finding(0, "frequency", text))
    findings.append(grant)
    return [finding for finding in findings if finding is not None]
