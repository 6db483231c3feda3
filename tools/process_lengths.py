"""Report of a recording how many processes ran, how long each kind did, and which had children.

    perf record -a -e sched:sched_process_fork -e sched:sched_process_exec -e sched:sched_switch -- make -j2 vmlinux
    perf script -F comm,tid,cpu,time,event,trace | python tools/process_lengths.py [--parts 16]

Constants of the models of kernbench and gitsource were learnt so (docs/journal). Times are CPU time: a machine that
does other work at the same time changes them by its cold caches only. Processes that began before the recording are
left out.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import mean

EVENT = re.compile(r"\s([\d.]+):\s+sched:(sched_\w+): (.*)$")
SWITCH = re.compile(r"prev_pid=(\d+) .*prev_state=(\S+) ==> .*next_pid=(\d+) ")
FORK = re.compile(r" pid=(\d+) child_comm=.* child_pid=(\d+)")
EXEC = re.compile(r"filename=(.*) pid=(\d+)")


@dataclass
class Process:
    """One process of the recording, times in s."""

    name: str = "-"
    cpu: float = 0.0
    before_exec: float = 0.0
    children: int = 0
    sleeps: int = 0
    running_from: float | None = None


def processes(lines: Iterable[str]) -> list[Process]:
    """Read the events.

    Examples
    --------
    >>> lines = [
    ...     "sh 1 [0] 1.000: sched:sched_process_fork: comm=sh pid=1 child_comm=sh child_pid=2",
    ...     "sh 1 [0] 1.001: sched:sched_switch: prev_comm=sh prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=sh next_pid=2 x",
    ...     "sh 2 [0] 1.002: sched:sched_process_exec: filename=/bin/ls pid=2 old_pid=2",
    ...     "ls 2 [0] 1.004: sched:sched_switch: prev_comm=ls prev_pid=2 prev_prio=120 prev_state=X ==> next_comm=sh next_pid=1 x",
    ... ]
    >>> [(one.name, round(one.cpu, 3), round(one.before_exec, 3)) for one in processes(lines)]
    [('ls', 0.003, 0.001)]
    """  # noqa: E501
    alive: dict[int, Process] = {}
    ended: list[Process] = []
    for line in lines:
        if not (event := EVENT.search(line)):
            continue
        time, kind, fields = float(event[1]), event[2], event[3]
        if kind == "sched_process_fork" and (found := FORK.search(fields)):
            if parent := alive.get(int(found[1])):
                parent.children += 1
            alive[int(found[2])] = Process()
        elif kind == "sched_process_exec" and (found := EXEC.search(fields)):
            if one := alive.get(int(found[2])):
                if one.name == "-" and one.running_from is not None:
                    one.before_exec = one.cpu + time - one.running_from
                one.name = found[1].rsplit("/", 1)[-1]
        elif kind == "sched_switch" and (found := SWITCH.search(fields)):
            if (one := alive.get(int(found[1]))) and one.running_from is not None:
                one.cpu += time - one.running_from
                one.running_from = None
                one.sleeps += found[2][0] in "SDI"
                if found[2][0] in "XZ":
                    ended.append(alive.pop(int(found[1])))
            if one := alive.get(int(found[3])):
                one.running_from = time
    return ended


def parts(lengths: Iterable[float], count: int) -> list[int]:
    """Give the means of equally likely parts of `lengths`, in 1/1000 of the mean of all; fewer parts of few lengths.

    Examples
    --------
    >>> parts([3.0, 1.0], 2)
    [500, 1500]
    """
    ordered = sorted(lengths)
    whole, count = mean(ordered), min(count, len(ordered))
    cut = [len(ordered) * index // count for index in range(count + 1)]
    return [round(1000 * mean(ordered[low:high]) / whole) for low, high in itertools.pairwise(cut)]


def main() -> None:
    """Read standard input, print a line for each kind of process."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--parts", type=int, default=16, help="parts of each distribution (16)")
    options = parser.parse_args()
    kinds: dict[str, list[Process]] = defaultdict(list)
    for one in processes(sys.stdin):
        kinds[one.name].append(one)
    print("name  processes  with children  mean ms  before exec ms  sleeps  parts in 1/1000 of the mean")
    for name, ones in sorted(kinds.items(), key=lambda kind: -sum(one.cpu for one in kind[1])):
        lengths = [one.cpu for one in ones]
        if sum(lengths) > 0:
            print(
                f"{name}  {len(ones)}  {sum(one.children > 0 for one in ones)}  {1e3 * mean(lengths):.2f}  "
                f"{1e3 * mean(one.before_exec for one in ones):.2f}  {mean(one.sleeps for one in ones):.1f}  "
                f"{parts(lengths, options.parts)}"
            )


if __name__ == "__main__":
    main()
