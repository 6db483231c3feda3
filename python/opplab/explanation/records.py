"""The events and decision records of a run, made again with records on."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from opplab import _opplab
from opplab.errors import InputError
from opplab.explanation.findings import nearest_task
from opplab.report.numbers import some_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt


IDLE_TASK = 2**32 - 1
RT_THROTTLED = "the runtime of real-time tasks in this period is used up (sched_rt_runtime_us)"
FAIR_SERVED = "the server of fair tasks (deadline) had its turn"
NAMED = 4
"""Instances of a name that a message lists."""
NONE = 255
TABLES = (
    "sched_switch",
    "sched_waking",
    "sched_wakeup_new",
    "sched_migrate_task",
    "activation",
    "cpu_frequency",
    "freq_request",
    "cpu_idle",
    "idle_exit",
    "placement",
    "sugov_decision",
    "dbs_decision",
    "custom_decision",
    "hwp_decision",
    "idle_decision",
    "freq_grant",
    "placement_decision",
    "eas_candidate",
    "eas_energy",
    "balance_pass",
    "throttle_decision",
    "dl_throttle",
    "rt_throttle",
)
REAL_TIME = ("fifo", "rr")
"""Policies of the real-time class."""


class Records:
    """The events and decision records of a run, and what their numbers mean."""

    def __init__(self, case: _opplab.Case) -> None:
        outcome = case.run(False)
        self.outcome = outcome
        self.names = told_apart(outcome["task_names"])
        self.fingerprint = f"{outcome['fingerprint']:016x}"
        self.end_ns: int = outcome["end_ns"]
        self.facts = case.facts()
        file = json.loads(case.to_json())
        self.machine = file["machine"]
        self._tasks = _in_file(outcome["task_names"], file["workload"]["tasks"])
        self.policy = file["policy"] | {"governor": self.facts["governor"]}
        self.changes = [(one.pop("at_ms") * 1_000_000, one) for one in self.policy.get("changes", [])]
        self.warmup_ns = self.end_ns - outcome["wall_ns"]
        self.tables = case.events(list(TABLES))
        self.throttles = throttles(self.tables["dl_throttle"], 0, self.end_ns)
        self.rt_stops = rt_stops(self.tables["rt_throttle"], 0, self.end_ns)
        self.group_stops = group_stops(self.tables["throttle_decision"], self.end_ns)
        self.codes = dict(_opplab.decision_codes())
        self.phrases = {(column, word): phrase for column, word, phrase in _opplab.decision_phrases()}
        self.idle_states = {cpu: cluster["idle_states"] for cluster in outcome["clusters"] for cpu in cluster["cpus"]}
        self.policy_of = {cpu: policy for policy in self.facts["policies"] for cpu in policy["cpus"]}

    def setting(self, key: str, at_ns: int) -> Any:
        """Give the value of a policy's key at a point in time; None if the policy leaves it as it is."""
        changes = [keys for time_ns, keys in self.changes if time_ns <= at_ns and key in keys]
        return changes[-1][key] if changes else self.policy.get(key)

    def why_offline(self, cpu: int, at_ns: int) -> str | None:
        """Give the policy's key that has a CPU offline at a point in time; None if it is online."""
        if cpu in (self.setting("offline_cpus", at_ns) or []):
            return "offline_cpus"
        cores = self.facts["cores"]
        is_second = cores.index(cores[cpu]) != cpu
        return "nosmt" if self.setting("nosmt", at_ns) and is_second else None

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

    def words(self, table: str, row: dict[str, Any], cpu: int, *lines: tuple[str, dict[str, Any]]) -> dict[str, str]:
        """Give the content of a record about a CPU; `lines` are the other records of the decision."""
        policy = self.policy_of[cpu]
        governor = self.setting("governor", row.get("time_ns", 0))
        names = (governor, self.facts["driver"], policy["opps_khz"], policy["cpus"], True)
        return _opplab.decision_words(table, row, names, self.task, list(lines))

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

    def is_of(self, task: int, *policies: str) -> bool:
        """Report whether a task begins with one of some scheduling policies; threads of the kernel have none here."""
        in_file = self._tasks[task]
        return in_file is not None and in_file["policy"][0] in policies

    def timer(self, task: int, phase: int) -> tuple[int, bool]:
        """Give the period in ns of the timer that ends a phase's activations, and whether it is absolute."""
        in_file = self._tasks[task]
        ops = in_file["ops"] if in_file else []
        end = next((place for place, op in enumerate(ops) if op[:2] == ["activation", phase]), 0)
        return next(((op[2], op[3]) for op in reversed(ops[:end]) if op[0] == "timer"), (0, False))

    def before_real_time(self, task: int, run: dict[str, Any]) -> str:
        """Give why a fair task ran in place of a real-time task that could go on; empty if it did not."""
        tasks = task, run["prev"]
        if IDLE_TASK in tasks or run["prev_state"]:
            return ""
        if not self.is_of(task, "other", "batch", "idle") or not self.is_of(run["prev"], *REAL_TIME):
            return ""
        stops = self.rt_stops.get(run["cpu"], [])
        return RT_THROTTLED if any(from_ns <= run["time_ns"] < to_ns for from_ns, to_ns in stops) else FAIR_SERVED

    def served(self) -> dict[int, list[tuple[int, int]]]:
        """Give when the server of fair tasks ran them in place of real-time tasks, by CPU, in order of time."""
        table = self.tables["sched_switch"]
        rows = zip(*(table[name].tolist() for name in ("time_ns", "cpu", "prev", "prev_state", "next")), strict=True)
        found: dict[int, list[tuple[int, int]]] = {}
        begun: dict[int, int] = {}
        for time_ns, cpu, prev, prev_state, task in rows:
            run = {"time_ns": time_ns, "cpu": cpu, "prev": prev, "prev_state": prev_state}
            if self.before_real_time(task, run) == FAIR_SERVED:
                begun[cpu] = time_ns
            elif cpu in begun and (task == IDLE_TASK or not self.is_of(task, "other", "batch", "idle")):
                found.setdefault(cpu, []).append((begun.pop(cpu), time_ns))
        for cpu, since_ns in begun.items():
            found.setdefault(cpu, []).append((since_ns, self.end_ns))
        return found

    def stops(self, task: int) -> dict[int, list[tuple[int, int, str]]]:
        """Give when a task's queues are stopped, and why, by CPU: by its groups' quotas, or throttling of its class."""
        if self.is_of(task, *REAL_TIME):
            return {cpu: [(*span, RT_THROTTLED) for span in spans] for cpu, spans in self.rt_stops.items()}
        if self.is_of(task, "deadline"):
            return {}
        path, names = f"{self.outcome['task_groups'][task] or ''}/", self.outcome["groups"]
        found: dict[int, list[tuple[int, int, str]]] = {}
        for (cpu, group), spans in self.group_stops.items():
            if path.startswith(f"{names[group]}/"):
                found.setdefault(cpu, []).extend((*span, f"the quota of `{names[group]}` ran out") for span in spans)
        return found

    def about(self) -> dict[str, Any]:
        """Report which run it is."""
        about = {**about_case(self.facts), "fingerprint": self.fingerprint}
        return {**about, "warmup_ns": self.warmup_ns} if self.warmup_ns else about


def throttles(table: dict[str, npt.NDArray[Any]], from_ns: int, end_ns: int) -> dict[int, list[tuple[int, int, str]]]:
    """Give when deadline tasks waited for their next period, and why they had to, by task: (from, to, words)."""
    found: dict[int, list[tuple[int, int, str]]] = {}
    begun: dict[int, tuple[int, str]] = {}

    def ends(task: int, at_ns: int) -> None:
        since_ns, why = begun.pop(task)
        if at_ns > from_ns:
            found.setdefault(task, []).append((max(since_ns, from_ns), at_ns, why))

    for values in zip(*(column.tolist() for column in table.values()), strict=True):
        row = dict(zip(table, values, strict=True))
        if row["throttled"]:
            words = _opplab.decision_words("dl_throttle", row, ("", "", [], [], False), str, [])
            begun.setdefault(row["task"], (row["time_ns"], words["how"]))
        elif row["task"] in begun:
            ends(row["task"], row["time_ns"])
    for task in list(begun):
        ends(task, end_ns)
    return found


def _in_file(names: list[str], tasks: list[dict[str, Any]]) -> list[dict[str, Any] | None]:
    """Give the workload's tasks; None for the kernel's threads, which no workload has."""
    of: dict[str, list[dict[str, Any]]] = {}
    for task in tasks:
        of.setdefault(task["name"], []).append(task)
    return [of[name].pop(0) if of.get(name) else None for name in names]


def _spans(rows: Iterable[tuple[int, bool]], from_ns: int, end_ns: int) -> list[tuple[int, int]]:
    """Give the spans in which something is stopped, from when it changes and to what."""
    found: list[tuple[int, int]] = []
    since_ns: int | None = None
    for at_ns, stopped in [*rows, (end_ns, False)]:
        if stopped and since_ns is None:
            since_ns = at_ns
        elif not stopped and since_ns is not None:
            if at_ns > from_ns:
                found.append((max(since_ns, from_ns), at_ns))
            since_ns = None
    return found


def rt_stops(table: dict[str, npt.NDArray[Any]], from_ns: int, end_ns: int) -> dict[int, list[tuple[int, int]]]:
    """Give when real-time tasks of a CPU may not run: they have used up their time of the period."""
    rows: dict[int, list[tuple[int, bool]]] = {}
    for at_ns, cpu, throttled in zip(*(table[name].tolist() for name in ("time_ns", "cpu", "throttled")), strict=True):
        rows.setdefault(cpu, []).append((at_ns, bool(throttled)))
    return {cpu: spans for cpu, of in rows.items() if (spans := _spans(of, from_ns, end_ns))}


def group_stops(table: dict[str, npt.NDArray[Any]], end_ns: int) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """Give when the quotas of control groups stop their queues, by CPU and group."""
    rows: dict[tuple[int, int], list[tuple[int, bool]]] = {}
    names = ("time_ns", "cpu", "group", "throttled")
    for at_ns, cpu, group, throttled in zip(*(table[name].tolist() for name in names), strict=True):
        rows.setdefault((cpu, group), []).append((at_ns, bool(throttled)))
    return {place: _spans(of, 0, end_ns) for place, of in rows.items()}


def about_case(facts: dict[str, Any]) -> dict[str, Any]:
    """Report which case facts are of."""
    names = ("machine", "workload", "kernel", "proposals", "governor", "driver", "rate_limit_us")
    return {name: facts[name] for name in names if name != "proposals" or facts[name]}


def task_index(records: Records, task: str | int | None) -> int:
    """Give the index of the task that somebody means, by name or index."""
    if isinstance(task, int):
        if not 0 <= task < len(records.names):
            raise InputError(f"there is no task {task}; the run has tasks 0 to {len(records.names) - 1}")
        return task
    if task in records.names:
        return records.names.index(str(task))
    alike = [index for index, name in enumerate(records.names) if name.rpartition("#")[0] == task]
    if alike:
        placed = {index: len(records.where("placement", task=index)) for index in alike}
        most = sorted(alike, key=lambda index: -placed[index])
        which = some_of((f"{records.names[index]} ({placed[index]} placements)" for index in most), NAMED)
        raise InputError(f"{len(alike)} tasks are called `{task}`: name one of {which}")
    # rt-app appends a number to a task's name.
    called, _, number = str(task).rpartition("#") if "#" in str(task) else (task, "", "")
    instances = [index for index, name in enumerate(records.names) if name.rpartition("-")[0] == called]
    if number.isdecimal():
        instances = instances[int(number) :][:1]
    if len(instances) == 1:
        return instances[0]
    if instances:
        names = some_of((records.names[index] for index in instances), NAMED)
        raise InputError(f"`{task}` has {len(instances)} instances: name one of {names}")
    tasks = sorted(range(len(records.names)), key=lambda index: -len(records.where("placement", task=index)))
    raise InputError(f"unknown task `{task}`{nearest_task(str(task), [records.names[index] for index in tasks])}")


def told_apart(names: list[str]) -> list[str]:
    """Give tasks of one name a number each, in the order of the run's tasks.

    Examples
    --------
    >>> told_apart(["a", "b", "a"])
    ['a#0', 'b', 'a#1']
    """
    counts, seen = Counter(names), Counter[str]()
    found = []
    for name in names:
        found.append(f"{name}#{seen[name]}" if counts[name] > 1 else name)
        seen[name] += 1
    return found
