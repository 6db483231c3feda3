"""``perf bench``: ``# Running 'sched/pipe' benchmark:`` and its results, any number of times."""

from __future__ import annotations

import re
from collections.abc import Callable

from opplab.runs import Run, Series

_HEAD = re.compile(r"^# Running '?([a-z0-9-]+/[a-z0-9-]+)'? benchmark")
_GROUPS = re.compile(r"^# (\d+) groups")
_A_SECOND = {"sec": 1, "msec": 1_000, "usec": 1_000_000}
_WORK = re.compile(r"^# (?:Executed (.*)|(\d+ (?:sender|groups) .*))")
_LINES = (
    # pattern, metric, unit, higher is better
    (re.compile(r"^\s*Total time: *(\S+)(?: \[(sec|msec|usec)\])?"), "time", "seconds", False),
    (re.compile(r"^\s*(\S+) usecs/op"), "usecs/op", "usec", False),
    (re.compile(r"^\s*(\S+) ops/sec"), "ops/sec", "ops/sec", True),
)


def sniff(head: str, name: str) -> bool:
    """Whether a file has perf bench's head line."""
    return any(_HEAD.match(line) for line in head.splitlines())


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run a benchmark: ``perf-sched/pipe``; sched/messaging by number of groups."""
    runs: dict[str, Run] = {}
    run: Run | None = None
    groups = ""
    done: list[str] = []
    said: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        head = _HEAD.match(line)
        if head:
            run = runs.setdefault(head[1], Run(name, f"perf-{head[1]}"))
            groups = ""
            done, said = [], []
        if run is None:
            continue
        count = _GROUPS.match(line)
        if count:
            groups = count[1]
        if work := _WORK.match(line):
            (done if work[1] else said).append((work[1] or work[2]).strip())
        for pattern, metric, unit, higher in _LINES:
            found = pattern.match(line)
            if found:
                try:
                    # Counts may be in groups of three digits; a comma elsewhere is that of another language's decimals.
                    value = float(found[1].replace(",", "") if metric == "ops/sec" else found[1])
                except ValueError:
                    problem(f"no number in {line.strip()!r}", number)
                    continue
                label = f"{metric}-{groups}" if groups else metric
                series = run.series.setdefault(label, Series(label, metric, groups, unit, higher))
                series.iterations.append([value / _A_SECOND[found[2] or "sec"] if metric == "time" else value])
                # Times by operation are of any number of them.
                series.add_work(", ".join([*said, *(done if metric == "time" else [])]))
    for one in runs.values():
        if not one.series:
            problem(f"no result of {one.benchmark}")
    return [one for one in runs.values() if one.series]
