"""Control groups with their settings, and the files that are written of them."""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opplab.errors import InputError
from opplab.simulation.workload import DEFAULT_S


@dataclass
class Group:
    """A group, its settings as `[[group]]` has them, how they were computed, and its threads by name."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    why: list[str] = field(default_factory=list)
    threads: Counter[str] = field(default_factory=Counter)


@dataclass
class Found:
    """What was read: groups, a parent before its children, and what the reader must know of it."""

    groups: list[Group] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """What a stand-in thread does: `run_us` of every `period_us`; 0: it always runs."""

    run_us: int
    period_us: int
    most: int
    """Threads of a group at most."""
    seconds: int | None = None
    """The duration, where one is asked for."""


def safe_part(name: str) -> str:
    """Give a part of a group's path without characters that a terminal, a comment or a file would act on."""
    shown = "".join(one if one.isprintable() and one != "/" else "?" for one in name)[:255]
    return shown if shown not in ("", ".", "..") else "?"


def unique(name: str, taken: set[str]) -> str:
    """Give a name that is not taken yet, and take it."""
    shown, again = name, 2
    while shown in taken:
        shown, again = f"{name}~{again}", again + 1
    taken.add(shown)
    return shown


def stand_ins(group: Group, most: int) -> Counter[str]:
    """Give the threads of a group that are written: those of the most frequent names first."""
    written: Counter[str] = Counter()
    for name, count in sorted(group.threads.items(), key=lambda item: (-item[1], item[0])):
        if number := min(count, most - written.total()):
            written[name] = number
    return written


def notes_of_threads(groups: Sequence[Group], work: Work) -> list[str]:
    """Report the groups of which fewer threads are written than they have, or than reach their limit.

    Of groups in each other, the innermost is named.
    """
    have, written = Counter[str](), Counter[str]()
    for one in groups:
        for name in _path(one.name):
            have[name] += one.threads.total()
            written[name] += stand_ins(one, work.most).total()
    notes: list[str] = []
    told = set[str]()
    for one in reversed(groups):
        all_, number = have[one.name], written[one.name]
        quota_us, _, period_us = one.settings.get("max", "").partition(" ")
        cpus = int(quota_us) / int(period_us) if period_us and quota_us != "max" else 0.0
        # Threads that always run are there to fill the quota; the others are few where the group's are.
        is_short = cpus > number and (number < all_ or not work.run_us)
        if one.name in told or not (is_short or one.threads.total() > work.most):
            continue
        told.update(_path(one.name))
        count = f"{number} of {all_} threads are written (--tasks {work.most})" if number < all_ else ""
        reach = f"{number} threads cannot reach its limit of {cpus:g} CPUs" if is_short else ""
        notes.append(f"{one.name}: {'; '.join(filter(None, (count, reach)))}")
    return notes[::-1]


def _path(name: str) -> list[str]:
    """Give a group and those above it."""
    parts = name.split("/")
    return ["/".join(parts[:depth]) for depth in range(2, len(parts) + 1)]


def rows(groups: Iterable[Group], most: int | None = None) -> list[dict[str, Any]]:
    """Give a table of the groups, with `most` of the threads that are written; what is left at its default is blank."""
    table = []
    for one in groups:
        of = one.settings
        weight = next((f"{key} {of[key]}" for key in ("shares", "weight_nice") if key in of), of.get("weight", ""))
        clamps = [str(of[key]) if key in of else "" for key in ("uclamp_min", "uclamp_max")]
        table.append(
            {
                "group": one.name,
                "weight": "idle" if of.get("idle") else weight,
                "max": of.get("max", ""),
                "burst_us": of.get("burst_us", ""),
                "cpus": of.get("cpus", ""),
                "uclamp": "..".join(clamps) if any(clamps) else "",
                "threads": (one.threads if most is None else stand_ins(one, most)).total() or "",
            }
        )
    filled = [key for key in ("burst_us", "cpus", "uclamp") if any(row[key] != "" for row in table)]
    return [
        {key: value for key, value in row.items() if key in ("group", "weight", "max", "threads", *filled)}
        for row in table
    ]


def _comment(text: str, mark: str) -> str:
    return mark + " " + " ".join(text.split())


def _settings_json(groups: Sequence[Group]) -> str:
    lines = ['  "groups": {']
    for one in groups:
        lines += [_comment(why, "    //") for why in one.why]
        end = "," if one is not groups[-1] else ""
        lines.append(f"    {json.dumps(one.name)}: {json.dumps(one.settings)}{end}")
    return "\n".join([*lines, "  }"])


def group_tables(groups: Sequence[Group], tasks: Mapping[str, Sequence[str]]) -> str:
    """Give the `[[group]]` tables of an experiment; `tasks`: names of tasks by group."""
    text = ""
    for one in groups:
        settings = dict(one.settings)
        if tasks.get(one.name):
            settings["tasks"] = list(tasks[one.name])
        text += "\n" + "".join(_comment(why, "#") + "\n" for why in one.why)
        text += f"[[group]]\nname = {json.dumps(one.name)}\n"
        text += "".join(f"{key} = {json.dumps(value)}\n" for key, value in settings.items())
    return text


def workload_text(about: Sequence[str], groups: Sequence[Group], work: Work, *, settings: bool) -> str:
    """Give an rt-app file whose stand-in tasks are in the groups; with `settings` it has the groups' as well."""
    tasks: dict[str, dict[str, Any]] = {}
    taken, cut = set[str](), 0
    for one in groups:
        written = stand_ins(one, work.most)
        cut += one.threads.total() - written.total()
        for name, number in written.items():
            body: dict[str, Any] = {"instance": number, "loop": -1, "taskgroup": one.name, "run": work.run_us or 10_000}
            if work.run_us:
                body["timer"] = {"ref": "unique", "period": work.period_us, "mode": "absolute"}
            tasks[unique(name, taken)] = body
    if not tasks:
        raise InputError("no group has a thread, so there is nothing to run; --workload brings tasks")
    does = f"{work.run_us} us every {work.period_us} us" if work.run_us else "always"
    about = [*about, f"Each thread runs {does} (assumed; --run and --period)."]
    if cut:
        about.append(f"{cut} more threads are left out (--tasks {work.most} a group).")
    lines = ["{", *(_comment(text, "  //") for text in about)]
    lines.append(f'  "global": {{"duration": {work.seconds or DEFAULT_S:g}, "calibration": "CPU0"}},')
    if settings:
        lines.append(_settings_json(groups) + ",")
    lines.append('  "tasks": {')
    lines += [
        f"    {json.dumps(key)}: {json.dumps(body)}{',' if at < len(tasks) else ''}"
        for at, (key, body) in enumerate(tasks.items(), 1)
    ]
    return "\n".join([*lines, "  }", "}", ""])


def place(puts: Sequence[str], groups: Sequence[Group]) -> dict[str, list[str]]:
    """Read ``TASK=GROUP`` words; a group may be given by the end of its path, if only one has it."""
    found: dict[str, list[str]] = {}
    for put in puts:
        task, equals, name = put.partition("=")
        if not (task and equals and name):
            raise InputError(f"--put {put}: write TASK=GROUP, like 'nginx*=/web'")
        ends = [one.name for one in groups if one.name == name or one.name.endswith("/" + name.lstrip("/"))]
        exact = [end for end in ends if end == name]
        if len(exact or ends) != 1:
            names = ends or difflib.get_close_matches(name, [one.name for one in groups], 3, 0.3)
            near = f"; near: {', '.join(names)}" if names else ""
            raise InputError(f"--put {put}: {'several groups end' if ends else 'no group ends'} with `{name}`{near}")
        found.setdefault((exact or ends)[0], []).append(task)
    return found


def check_names(placed: Mapping[str, Sequence[str]], known: set[str]) -> None:
    """Refuse a word for tasks that no task of the workload has."""
    for pattern in (one for names in placed.values() for one in names):
        if not any(name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern for name in known):
            near = difflib.get_close_matches(pattern.rstrip("*"), sorted(known), 1, 0) if known else []
            raise InputError(f"--put {pattern}: no task is called so{f'; nearest: {near[0]}' if near else ''}")


def in_workload(text: str, groups: Sequence[Group], tasks: Mapping[str, Sequence[str]]) -> str:
    """Give the text of an rt-app file with the groups as its first key; all else stays as it is."""
    start = re.match(r"(?:\s+|//[^\n]*\n|/\*.*?\*/)*\{", text, re.DOTALL)
    if start is None:
        raise InputError("the workload does not begin with `{`")
    if re.search(r'"groups"\s*:', text):
        raise InputError("the workload has groups of its own")
    placed = [
        Group(one.name, one.settings | ({"tasks": list(tasks[one.name])} if tasks.get(one.name) else {}), one.why)
        for one in groups
    ]
    return f"{text[: start.end()]}\n{_settings_json(placed)},{text[start.end() :]}"
