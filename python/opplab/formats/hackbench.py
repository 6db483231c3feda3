"""hackbench's own output: ``Running in process mode with 10 groups ...`` and ``Time: 0.421``, any number of times."""

from __future__ import annotations

import re
from collections.abc import Callable

from opplab.runs import Run, Series

_HEAD = re.compile(r"Running in (process|thread|threaded) mode with (\d+) groups")
_WORK = re.compile(r"Each sender will pass (\d+ messages of \d+ bytes)")
_TASKS = re.compile(r"\(== (\d+ tasks)\)")
_TIME = re.compile(r"^(?:Total time|Time): *(\S+)")


def sniff(head: str, name: str) -> bool:
    """Whether a file has hackbench's first line."""
    return bool(_HEAD.search(head)) and "# Running" not in head


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run: seconds by number of groups."""
    run = Run(name, "hackbench")
    groups = "_"
    said: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        head = _HEAD.search(line)
        if head:
            groups = head[2]
            tasks = _TASKS.search(line)
            said = [f"{head[1]} mode".replace("threaded", "thread"), *([tasks[1]] if tasks else [])]
        if work := _WORK.search(line):
            said.append(work[1])
        found = _TIME.match(line)
        if found:
            try:
                value = float(found[1])
            except ValueError:
                problem(f"no number in {line!r}", number)
                continue
            label = f"time-{groups}"
            series = run.series.setdefault(label, Series(label, "time", groups, "seconds"))
            series.iterations.append([value])
            series.add_work(", ".join(said))
    return [run] if run.series else []
