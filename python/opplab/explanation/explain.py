"""Why a CPU had its frequency, why a task ran where it ran, why CPUs were slow: decisions in words and numbers.

A run keeps no records; it is deterministic, so that it is made again with decision records on, which leaves its events
as they were.  Each finding has a sentence and the numbers that it was made of.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab import _opplab
from opplab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from opplab.simulation.api import Machine, Run

__all__ = ["Explanation", "Finding", "explain"]

IDLE_TASK = 2**32 - 1
NONE = 255
# So much of a case's hash names it.
HASH_CHARS_MIN = 6
# What explanations of traces are from.
RECORDS = "the kernel's own records"
EVENTS = "its events: schedutil on the averages that follow from them (the open loop of `opplab replay`)"
REQUESTED = "requested"
RATE_LIMITED = "rate-limited"
# Drivers whose frequencies are called P-states, P0 being the highest.
P_STATE_DRIVERS = ("acpi-cpufreq", "intel_pstate", "intel_cpufreq", "amd-pstate", "amd_pstate", "pcc-cpufreq")

TABLES = (
    "sched_switch",
    "sched_waking",
    "sched_migrate_task",
    "cpu_frequency",
    "cpu_idle",
    "placement",
    "sugov_decision",
    "dbs_decision",
    "freq_grant",
    "placement_decision",
    "eas_candidate",
    "eas_energy",
    "balance_pass",
)

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
SLOW = {
    "turbo-bin": "the turbo bin for so many active cores",
    "power-budget": "the package's power budget",
    "thermal": "temperature",
    "epp": "the firmware's own choice (energy-performance preference)",
    "opp-table": "the table of operating points ends there",
    "transition": "asked for; the kthread or the hardware was on its way",
    "rate-limit": "the rate limit held a higher request",
    "uclamp": "an upper clamp of utilisation",
    "fixed-governor": "the governor never changes the frequency",
    "sampling": "the governor's sample had not seen the load",
    "iowait-boost-decayed": "a boost for I/O had decayed",
    "new-task": "a new task's utilisation had yet to grow",
    "migration": "the task came from another CPU; utilisation lagged",
    "long-sleep": "the task's utilisation had decayed in a long sleep",
    "ramp": "work grew faster than load tracking follows",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found.

    Attributes
    ----------
    time_ns : int
        When it happened.
    kind : str
        ``running``, ``clock``, ``frequency``, ``placement``, ``balance``, ``slow``, ...
    text : str
        The sentence.
    data : dict
        The numbers, by the names of the decision records' columns.
    """

    time_ns: int
    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


class Explanation:
    """Findings in the order in which they are to be read; ``str()`` gives the text."""

    def __init__(self, about: dict[str, Any], findings: list[Finding]) -> None:
        self.about = about
        self.findings = findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(finding.text for finding in self.findings)

    def __repr__(self) -> str:
        return f"Explanation({len(self.findings)} findings)"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        findings = [
            {"time_ns": one.time_ns, "kind": one.kind, "text": one.text, "data": one.data} for one in self.findings
        ]
        return {**self.about, "findings": findings}

    def to_json(self) -> str:
        """Give all of it as JSON."""
        return json.dumps(self.to_dict(), indent=2)


def seconds(time_ns: int) -> str:
    """Give a point in time in seconds with all its digits to the us.

    Examples
    --------
    >>> seconds(1_234_567_890)
    '1.234568 s'
    """
    return f"{time_ns / 1e9:.6f} s"


def length(ns: float) -> str:
    """Give a length of time in a unit that reads well.

    Examples
    --------
    >>> length(7_200_000), length(900), length(31_000)
    ('7.2 ms', '900 ns', '31 us')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.0f} ns"


def mhz(khz: int) -> str:
    """Give a frequency in MHz.

    Examples
    --------
    >>> mhz(1_500_000), mhz(429_112)
    ('1500 MHz', '429.112 MHz')
    """
    return f"{khz / 1000:.7g} MHz"


def cpu_list(cpus: list[int]) -> str:
    """Give CPUs as the kernel lists them.

    Examples
    --------
    >>> cpu_list([0, 3, 4, 5])
    'CPUs 0,3-5'
    >>> cpu_list([2])
    'CPU 2'
    """
    parts: list[str] = []
    start = last = cpus[0]
    for cpu in [*cpus[1:], None]:
        if cpu is not None and cpu == last + 1:
            last = cpu
            continue
        parts.append(str(start) if start == last else f"{start}-{last}")
        if cpu is not None:
            start = last = cpu
    return f"CPU{'s' if len(cpus) > 1 else ''} {','.join(parts)}"


class Records:
    """The events and decision records of a run, and what their numbers mean."""

    def __init__(self, case: _opplab.Case) -> None:
        outcome = case.run(False)
        self.names: list[str] = outcome["task_names"]
        self.fingerprint = f"{outcome['fingerprint']:016x}"
        self.end_ns: int = outcome["wall_ns"]
        self.facts = case.facts()
        self.tables = case.events(list(TABLES))
        self.codes = dict(_opplab.decision_codes())
        self.idle_states = {cpu: cluster["idle_states"] for cluster in outcome["clusters"] for cpu in cluster["cpus"]}
        self.policy_of = {cpu: policy for policy in self.facts["policies"] for cpu in policy["cpus"]}

    def row(self, table: str, index: int) -> dict[str, Any]:
        """Give a row with words for codes and truth for flags."""
        found: dict[str, Any] = {}
        for name, values in self.tables[table].items():
            value = int(values[index])
            if name in self.codes:
                found[name] = None if value == NONE else self.codes[name][value]
            elif values.dtype == np.uint8:
                found[name] = bool(value)
            else:
                found[name] = value
        return found

    def where(self, table: str, **wanted: int) -> npt.NDArray[np.intp]:
        """Give the rows whose columns have these values, in order of time."""
        columns = self.tables[table]
        mask = np.ones(len(columns["time_ns"]), dtype=bool)
        for name, value in wanted.items():
            mask &= columns[name] == value
        return np.flatnonzero(mask)

    def until(self, table: str, rows: npt.NDArray[np.intp], time_ns: int) -> int:
        """Give how many of the rows are at or before a point in time."""
        return int(np.searchsorted(self.tables[table]["time_ns"][rows], time_ns, side="right"))

    def task(self, index: int) -> str:
        """Give a task's name."""
        return "the idle task" if index == IDLE_TASK else self.names[index]

    def about(self) -> dict[str, Any]:
        """Say which run it is."""
        named = ("machine", "workload", "kernel", "governor", "driver", "rate_limit_us")
        return {**{name: self.facts[name] for name in named}, "fingerprint": self.fingerprint}


# ---- frequency ----


def _point(records: Records, cpu: int, khz: int) -> str:
    """Name a frequency's place in the table."""
    return _point_of(records.policy_of[cpu]["opps_khz"], records.facts["driver"], khz)


def _point_of(table: list[int], driver: str, khz: int) -> str:
    if khz not in table:
        return f"{mhz(khz)} (boost)" if table and khz > table[-1] else mhz(khz)
    place = table.index(khz)
    if driver in P_STATE_DRIVERS:
        return f"{mhz(khz)} (P{len(table) - 1 - place})"
    return f"{mhz(khz)} (OPP {place + 1} of {len(table)})"


def _utilisation(row: dict[str, Any]) -> str:
    """Give the parts of a utilisation, and what became of their sum."""
    cfs = "util_avg (runnable)" if row["runnable_boost"] else "util"
    parts = [f"{cfs} {row['util_cfs']}"]
    parts += [f"rt {row['util_rt']}"] if row["util_rt"] else []
    parts.append(f"dl {row['util_dl']}")
    parts += [f"irq {row['util_irq']}"] if row["util_irq"] else []
    text = " + ".join(parts)
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
    share = "" if row["max_cap"] == 1024 else f" of capacity {row['max_cap']}"
    if not row["wanted_khz"]:
        # cpufreq_driver_adjust_perf(): levels, not frequencies.
        return f"{_utilisation(row)}: performance {row['util']} of {row['max_cap']} asked of the driver (adjust_perf)"
    raw = f"{row['raw_khz'] / 1000:.0f}"
    return (
        f"{_utilisation(row)}{share}; f_ref {mhz(row['ref_khz'])} -> {raw} "
        f"-> resolved {_point(records, row['policy_cpu'], row['wanted_khz'])}"
    )


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
        text = f"{head} clock became {_point(records, cpu, changed['khz'])}, {_after(data['delay_ns'])}"
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


def _frequency(records: Records, cpu: int, at_ns: int) -> list[Finding]:
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
            f"{mhz(row['prev_khz'])} -> {_point(records, cpu, row['next_khz'])}"
            if row["next_khz"] != row["prev_khz"]
            else f"it stays at {_point(records, cpu, row['next_khz'])}"
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


# ---- placement ----


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
        findings.append(_candidate(row, one))
    return findings


def _candidate(row: dict[str, Any], one: dict[str, Any]) -> Finding:
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


def _weighed(row: dict[str, Any], head: str, candidates: list[Finding], more: str = "") -> list[Finding]:
    """Explain a placement by energy, whose candidates are explained."""
    many = "1 CPU" if len(candidates) == 1 else f"{len(candidates)} CPUs"
    weighed = f" Energy-aware placement weighed {many}:" if candidates else ""
    cpu, rule = row["cpu"], row["eas_rule"]
    why = f"{EAS[rule]} ({rule})" if rule else "chosen"
    first = Finding(row["time_ns"], "placement", f"{head}{weighed}", row)
    end = Finding(row["time_ns"], "choice", f"  CPU {cpu}: {why}.{more}", {"cpu": cpu, "rule": rule})
    return [first, *candidates, end]


def _search(row: dict[str, Any], found: int) -> str:
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
        return _interrupt(row["waker_cpu"], None if row["waker"] == IDLE_TASK else records.task(row["waker"]))
    return f"{records.task(row['waker'])} on CPU {row['waker_cpu']}"


def _interrupt(cpu: int, task: str | None) -> str:
    return f"an interrupt on CPU {cpu} ({'idle' if task is None else f'in {task}'})"


def _utils(row: dict[str, Any]) -> str:
    return f"util_avg {row['util_avg']}, util_est {row['util_est']}"


def _woke(row: dict[str, Any], waker: str, task: str) -> str:
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
    head = _woke(row, waker, task)
    simple = {
        "pinned": f"It may run on CPU {row['cpu']} only.",
        "custom": f"A placement policy from outside chose CPU {row['cpu']}.",
        "deadline": f"Deadline: CPU {row['cpu']}, the previous one unless a task runs there that goes first.",
        "real-time": f"Real-time: CPU {row['cpu']}, the previous one unless a task of its priority runs there.",
    }
    if row["rule"] in simple:
        return [Finding(row["time_ns"], "placement", f"{head} {simple[row['rule']]}", row)]
    if row["rule"] == "eas":
        return _weighed(row, head, _energies(records, row))
    return [Finding(row["time_ns"], "placement", head + _search(row, row["cpu"]), row)]


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


# ---- questions ----


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
        f"at {_point(records, cpu, clock['khz'])}, its clock since {seconds(clock['time_ns'])}."
    )
    data = {"cpu": cpu, "task": None if task == IDLE_TASK else records.task(task), "khz": clock["khz"]}
    data |= {"since_ns": since_ns, "until_ns": until_ns, "clock_since_ns": clock["time_ns"]}
    return task, Finding(at_ns, "running", text, data)


def _of_cpu(records: Records, cpu: int, at_ns: int) -> list[Finding]:
    task, running = _running(records, cpu, at_ns)
    findings = [running, *_frequency(records, cpu, at_ns)]
    if task != IDLE_TASK:
        findings += _arrival(records, task, at_ns)
    return findings


def _of_task(records: Records, task: int, at_ns: int | None) -> list[Finding]:
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
        findings += _frequency(records, cpu, at_ns)
    return findings


def _why_slow(case: _opplab.Case) -> Explanation:
    outcome, rows = case.why_slow()
    names: list[str] = outcome["task_names"]
    busy_ns = sum(sum(times) for times in outcome["busy_ns_by_opp"])
    energy_fj = sum(outcome["cluster_energy_fj"])
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
    missed = f"{outcome['missed_activations']} of {outcome['activations']} activations were missed"
    text = (
        f"In {seconds(outcome['wall_ns'])} the CPUs were busy for {length(busy_ns)}, "
        f"{share:.1f} % of it at a lower clock than their tasks needed; that took {length(lost_ns)} longer. {missed}."
    )
    totals = {"busy_ns": busy_ns, "slow_ns": slow_ns, "lost_ns": lost_ns, "missed": outcome["missed_activations"]}
    findings = [Finding(0, "summary", text, totals)]
    for reason, entry in sorted(sums.items(), key=lambda item: -item[1]["lost_ns"]):
        of_busy = 100 * entry["slow_ns"] / busy_ns
        of_energy = 100 * entry["energy_fj"] / energy_fj if energy_fj else 0.0
        tasks = ", ".join(name for name, _ in entry["tasks"].most_common(3))
        more = f" and {len(entry['tasks']) - 3} more" if len(entry["tasks"]) > 3 else ""
        line = (
            f"{reason}: {SLOW[reason]}: {length(entry['slow_ns'])} ({of_busy:.1f} % of the busy time), "
            f"{length(entry['lost_ns'])} lost, {of_energy:.1f} % of the CPUs' energy; {tasks}{more} "
            f"on {cpu_list(sorted(entry['cpus']))}, mostly at {mhz(entry['khz'].most_common(1)[0][0])}."
        )
        data = {
            "reason": reason,
            "slow_ns": entry["slow_ns"],
            "lost_ns": entry["lost_ns"],
            "energy_j": entry["energy_fj"] / 1e15,
            "busy_share_pct": of_busy,
            "energy_share_pct": of_energy,
            "tasks_ns": dict(entry["tasks"].most_common()),
            "cpus_ns": {str(cpu): ns for cpu, ns in sorted(entry["cpus"].items())},
            "khz_ns": {str(khz): ns for khz, ns in sorted(entry["khz"].items())},
        }
        findings.append(Finding(0, "slow", line, data))
    about = {name: facts[name] for name in ("machine", "workload", "kernel", "governor", "driver", "rate_limit_us")}
    return Explanation({**about, "fingerprint": f"{outcome['fingerprint']:016x}"}, findings)


def explain(
    run: Run | _opplab.Case | str | Path,
    *,
    cpu: int | None = None,
    task: str | int | None = None,
    at: float | None = None,
    why_slow: bool = False,
    machine: Machine | None = None,
) -> Explanation:
    """Explain the decisions of a run, or of a traced kernel.

    Parameters
    ----------
    run : Run, str or Path
        A run, or what `opplab explain` takes: a case's JSON file, a results folder, ``EXPERIMENT:CASE``; or a trace,
        or the folder or archive of a recording.  Of a trace the kernel's own records are explained where it has them.
        Else a CPU's clock is explained by what schedutil decides on the averages that are rebuilt from the events, a
        task's CPU and slow CPUs by a run of the recovered workload (the closed loop of `opplab replay`).
    cpu : int, optional
        Why this CPU ran what it ran at that clock.
    task : str or int, optional
        Why this task ran where it ran; its name or its index.
    at : float, optional
        The point in time, in seconds; for a CPU the middle of the run, for a task its end, if it is not given. Of a
        trace it is a time of its clock, or, if that is before its first decision, so long after that.
    why_slow : bool
        Why CPUs ran below what their tasks needed, over the whole run.
    machine : Machine, optional
        What a trace ran on; else the snapshot beside or with it tells.

    Returns
    -------
    Explanation
        ``str()`` of it is the text; it iterates over `Finding`.

    Examples
    --------
    >>> import opplab
    >>> run = opplab.simulate(
    ...     opplab.Machine.load("juno-r2"),
    ...     opplab.Workload.periodic(3, run_us=1600, period_us=16000),
    ...     opplab.Policy(),
    ...     seconds=0.2,
    ... )
    >>> why = opplab.explain(run, task="periodic1", at=0.1)
    >>> sorted({finding.kind for finding in why} & {"summary", "placement", "candidate", "choice"})
    ['candidate', 'choice', 'placement', 'summary']
    """
    if sum((cpu is not None, task is not None, why_slow)) != 1:
        raise InputError("ask about one thing: a CPU, a task, or why CPUs were slow")
    if isinstance(run, str | Path) and _is_trace(Path(run)):
        return _of_trace(Path(run), machine, cpu, task, at)
    if machine is not None:
        raise InputError("a machine is what a trace ran on; a run has its own")
    case = _case_of(run)
    if why_slow:
        return _why_slow(case)
    records = Records(case)
    at_ns = None if at is None else round(at * 1e9)
    if at_ns is not None and not 0 <= at_ns <= records.end_ns:
        raise InputError(f"{at:g} s is not within the run, which ends at {seconds(records.end_ns)}")
    if cpu is not None:
        if cpu not in records.policy_of:
            raise InputError(f"there is no CPU {cpu}; the machine has CPUs 0 to {len(records.policy_of) - 1}")
        return Explanation(records.about(), _of_cpu(records, cpu, records.end_ns // 2 if at_ns is None else at_ns))
    return Explanation(records.about(), _of_task(records, _task_of(records, task), at_ns))


def _task_of(records: Records, task: str | int | None) -> int:
    from opplab.catalog import nearest

    if isinstance(task, int):
        if not 0 <= task < len(records.names):
            raise InputError(f"there is no task {task}; the run has tasks 0 to {len(records.names) - 1}")
        return task
    if task in records.names:
        return records.names.index(str(task))
    # rt-app appends a number to a task's name.
    instances = [index for index, name in enumerate(records.names) if name.rpartition("-")[0] == task]
    if len(instances) == 1:
        return instances[0]
    raise InputError(f"unknown task `{task}`{nearest(str(task), sorted(set(records.names)))}")


# ---- traces ----


def _is_recording(path: Path) -> bool:
    if path.is_file() and path.suffix != ".json":
        try:
            return bool(_opplab.find_recordings(path))
        except InputError:
            return False
    return (path / "trace.dat").is_file()


def _is_trace(path: Path) -> bool:
    """Tell a trace, or a recording's folder or archive, from cases, experiments and results."""
    return path.suffix not in (".json", ".toml") if path.is_file() else (path / "trace.dat").is_file()


def _of_trace(
    path: Path, machine: Machine | None, cpu: int | None, task: str | int | None, at: float | None
) -> Explanation:
    """Explain a trace: a CPU's clock, a task's CPU, or, if both are None, why CPUs were slow."""
    if cpu is not None:
        return _recorded(path, machine, cpu, at)
    if task is not None and machine is None and _is_recording(path):
        placements = _opplab.recorded_placements(path)
        if placements:
            return _recorded_task(path, placements, str(task), at)
    inner = machine._inner if machine else None
    case, first_ns, later_ns, check = _opplab.replayed_case(str(path), inner)
    about = {"trace": str(path), "self_check": json.loads(check)["self_check"], "later_ns": later_ns}
    if task is None:
        found = _why_slow(case)
        return Explanation({**found.about, **about}, found.findings)
    records = Records(case)
    at_ns = None
    if at is not None:
        at_ns = round(at * 1e9)
        at_ns = later_ns + (at_ns - first_ns if at_ns >= first_ns else at_ns)
        if not 0 <= at_ns <= records.end_ns:
            raise InputError(f"{at:g} s is not within the trace, which ends after {seconds(records.end_ns - later_ns)}")
    return Explanation({**records.about(), **about}, _of_task(records, _task_of(records, task), at_ns))


def _recorded_ns(at: float | None, first_ns: int, otherwise_ns: int) -> int:
    """Give a point in time of a recording's clock."""
    if at is None:
        return otherwise_ns
    at_ns = round(at * 1e9)
    return at_ns if at_ns >= first_ns else first_ns + at_ns


def _recorded_task(path: Path, placements: list[dict[str, Any]], task: str, at: float | None) -> Explanation:
    """Explain where a recorded kernel placed a task, from the kernel's own records."""
    from opplab.catalog import nearest

    rows = [row for row in placements if task in (row["task"], str(row["pid"]))]
    if not rows:
        names = sorted({row["task"] for row in placements})
        raise InputError(f"{path} has no records of a placement of `{task}`{nearest(task, names)}")
    pids = {row["pid"] for row in rows}
    if len(pids) > 1:
        which = ", ".join(map(str, sorted(pids)))
        raise InputError(f"{len(pids)} tasks are called `{task}`: say which by its pid: {which}")
    rules = Counter("energy" if row["how"] == "energy" else row["sibling_rule"] for row in rows)
    cpus = Counter(row["cpu"] for row in rows)
    equal = sum(row["computed"] == row["cpu"] for row in rows)
    by_rule = ", ".join(f"{count} by {rule}" for rule, count in rules.most_common())
    by_cpu = ", ".join(f"{count} on CPU {cpu}" for cpu, count in sorted(cpus.items()))
    text = (
        f"{task} was placed {len(rows)} times with known inputs: {by_rule}; {by_cpu}. "
        f"The recorded inputs give the kernel's CPU {equal} times."
    )
    data = {"rules": dict(rules), "cpus": {str(cpu): count for cpu, count in sorted(cpus.items())}, "equal": equal}
    findings = [Finding(rows[0]["time_ns"], "summary", text, data)]
    at_ns = _recorded_ns(at, rows[0]["time_ns"], rows[-1]["time_ns"])
    row = [row for row in rows if row["time_ns"] <= at_ns][-1]
    return Explanation({"recording": str(path), "from": RECORDS}, [*findings, *_recorded_placement(row)])


def _recorded_placement(row: dict[str, Any]) -> list[Finding]:
    """Explain a placement from the kernel's own records: the waking CPU's task may have been interrupted."""
    cpu, waker = row["waker_cpu"], row["waker"]
    head = _woke(row, _interrupt(cpu, None) if waker is None else f"CPU {cpu}, which ran {waker},", row["task"])
    differs = row["computed"] not in (None, row["cpu"])
    if row["how"] == "energy":
        energies = {(dst, domain): energy for dst, domain, energy, _, _ in row["energies"]}
        candidates = []
        for candidate, domain, spare_cap, fits in row["candidates"]:
            one = {"cpu": candidate, "domain": domain, "spare_cap": spare_cap, "fits": fits}
            with_task, without = energies.get((candidate, domain)), energies.get((-1, domain))
            if with_task is not None and without is not None:
                one |= {"energy": with_task, "energy_without": without}
            candidates.append(_candidate(row, one))
        return _weighed(row, head, candidates, f" The recorded inputs give CPU {row['computed']}." if differs else "")
    kernel = f" The kernel chose CPU {row['cpu']}." if differs else ""
    return [Finding(row["time_ns"], "placement", head + _search(row, row["computed"]) + kernel, row)]


def _frequencies(path: Path, machine: Machine | None) -> tuple[dict[str, list[Any]], list[dict[str, Any]], str]:
    """Give schedutil's decisions in a trace, the cpufreq policies, and what the decisions are from."""
    if machine is None and _is_recording(path):
        columns, policies = _opplab.recorded_frequencies(path)
        if columns["time_ns"]:
            return columns, policies, RECORDS
    return *_opplab.replayed_frequencies(str(path), machine._inner if machine else None), EVENTS


def _recorded(folder: Path, machine: Machine | None, cpu: int, at: float | None) -> Explanation:
    """Explain the clock of a CPU of a real kernel, from its own records or from what the events tell."""
    columns, policies, origin = _frequencies(folder, machine)
    policy = next((policy for policy in policies if cpu in policy["cpus"]), None)
    if policy is None:
        raise InputError(f"there is no CPU {cpu} in {folder}'s cpufreq policies")
    rows = [
        dict(zip(columns, values, strict=True))
        for values in zip(*columns.values(), strict=True)
        if values[1] == policy["cpus"][0]
    ]
    if not rows:
        raise InputError(f"{folder} has no records of schedutil's decisions for CPU {cpu}")
    first_ns, last_ns = rows[0]["time_ns"], rows[-1]["time_ns"]
    at_ns = _recorded_ns(at, first_ns, (first_ns + last_ns) // 2)
    before = [row for row in rows if row["time_ns"] <= at_ns]
    place = next((i for i in reversed(range(len(before))) if before[i]["ret_khz"] != before[i]["prev_khz"]), None)
    findings = []
    if place is not None:
        row = before[place]
        held = " It did not fall, because the CPU had not idled." if row["held"] else ""
        text = f"{_recorded_formula(policy, row)}{held} The policy had asked for {mhz(row['prev_khz'])}."
        findings.append(Finding(row["time_ns"], "frequency", text, row))
    rest = before if place is None else before[place + 1 :]
    if rest:
        text = f"Until {seconds(at_ns)} {len(rest)} more decisions gave the same. The last one: "
        findings.append(Finding(rest[-1]["time_ns"], "reports", text + _recorded_formula(policy, rest[-1]), rest[-1]))
    about = {"recording": str(folder), "from": origin, "governor": policy["governor"], "driver": policy["driver"]}
    return Explanation(about, findings)


def _recorded_formula(policy: dict[str, Any], row: dict[str, Any]) -> str:
    """Say what the recorded kernel computed, and whether the recorded inputs give the same."""
    parts = ""
    if row["deciding_cpu"] >= 0:
        parts = f"util {row['util_cfs']}"
        parts += f" + rt {row['util_rt']}" if row["util_rt"] > 0 else ""
        parts = f"CPU {row['deciding_cpu']} had {parts} + dl {row['util_dl']}; with headroom and bounds "
    point = _point_of(policy["opps_khz"], policy["driver"], row["ret_khz"])
    share = "" if row["max_cap"] == 1024 else f" of capacity {row['max_cap']}"
    equal = "" if row["wanted_khz"] == row["ret_khz"] else f" (computed: {mhz(row['wanted_khz'])})"
    return (
        f"{seconds(row['time_ns'])}: CPU {row['cpu']} reported to schedutil: {parts}{row['util']}{share}; "
        f"f_ref {mhz(row['ref_khz'])} -> {row['raw_khz'] / 1000:.0f} -> resolved {point}{equal}."
    )


# ---- what is explained ----


def _case_of(run: Run | _opplab.Case | str | Path) -> _opplab.Case:
    if isinstance(run, _opplab.Case):
        return run
    if isinstance(run, str | Path):
        return find_case(str(run))
    return run._inner


def find_case(target: str) -> _opplab.Case:
    """Find the case that words name.

    Parameters
    ----------
    target : str
        A case's JSON file; the results folder of a single case; ``EXPERIMENT:CASE`` or ``FOLDER:CASE``, where CASE is
        a part of the case's label (words in any order, the machine's name among them), its hash or the beginning of
        it, or its number from 0.
    """
    path = Path(target)
    if path.is_file() and path.suffix == ".json":
        from opplab.catalog import read_text

        return _opplab.Case.from_json(read_text(path, "a case"))
    if (path / "case.json").is_file():
        return find_case(str(path / "case.json"))
    where, colon, which = target.rpartition(":")
    if not colon:
        where, which = target, ""
    name = where
    if Path(where).is_dir():
        from opplab.sweep.store import Store

        name = Store(where).manifest()["experiment"]
        if not name:
            raise InputError(f"failed to explain {where}: the folder has no case.json (it was made by another version)")
    from opplab.sweep.experiments import Experiment

    experiment = Experiment.load(name)
    labels = [case.label for case in experiment.cases]
    found = [case for case in experiment.cases if which == case.label]
    if not found and which.isdecimal() and int(which) < len(experiment.cases):
        found = [experiment.cases[int(which)]]
    if not found and len(which) >= HASH_CHARS_MIN:
        found = [case for case in experiment.cases if case.hash.startswith(which)]
    if not found and which:
        words = which.split()
        found = [
            case for case in experiment.cases if all(word in [case.machine, *case.label.split()] for word in words)
        ]
    if len(found) != 1:
        some = "; ".join(f"`{label}`" for label in ([case.label for case in found] or labels)[:4])
        what = f"{len(found)} cases are" if found else "no case is"
        told = f"{what} called `{which}`" if which else "say which case"
        raise InputError(f"{told}: write {where}:CASE with one of {len(found) or len(labels)} labels, such as {some}")
    return _opplab.Case.from_json(found[0].json)
