"""Text 001's chain: a task of short transactions that flush, the log's worker on another CPU, and the clock.

Runs the experiment ``hwp-boost-sqlite`` and shows what each policy makes of it: transactions and watts, and a window of
one run with the clock of the CPUs that the two tasks run on.

``python -m lab.studies.fsync`` writes the table and the figure of ``docs/fsync-chain.md``; ``--check`` reports whether
they are what the command would write.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import polars as pl

from lab.studies import pages
from opplab.report import svg
from opplab.sweep.experiments import Experiment

EXPERIMENT = "hwp-boost-sqlite"
# The window of the figure: so long, ending so long before the end of the run.
SPAN_NS, BEFORE_END_NS = 1_800_000, 50_000_000
NS_PER_MS = 1e6
KHZ_PER_GHZ = 1e6
WORDS = {
    "vanilla": "HWP, no boost",
    "hwp-iowait-boost-series": "HWP, boost after I/O",
    "performance": "HWP, performance",
    "SLE15": "HWP, boost of idle CPUs",
    "schedutil": "schedutil",
}
STYLE = svg.ALONE + ".c0{fill:var(--c0)}.c1{fill:var(--c1)}.c2{fill:var(--c2)}"


@dataclass
class Slice:
    """One task on one CPU, from when to when (ms of the window), and the clock in GHz of its end."""

    task: int
    cpu: int
    start: float
    end: float
    ghz: float


@dataclass
class Window:
    """A part of a run: names of the tasks by the slices' numbers, and what ran."""

    tasks: list[str]
    slices: list[Slice]


def table(experiment: Experiment) -> str:
    """Give the table of the page: means over the experiment's runs, by policy."""
    rows = experiment.run()

    def value(policy: str, metric: str) -> float:
        return float(mean(rows.filter(pl.col("policy") == policy, pl.col("metric") == metric)["value"]))

    lines = ["| policy | transactions/s | | package, W | transactions/J |", "| --- | ---: | ---: | ---: | ---: |"]
    base = value(experiment.policies[0], "transactions")
    for policy in experiment.policies:
        speed, watts = value(policy, "transactions"), value(policy, "power")
        gain = f"{speed / base - 1:+.0%}" if policy != experiment.policies[0] else ""
        lines.append(f"| {WORDS[policy]} | {speed:.0f} | {gain} | {watts:.2f} | {speed / watts:.0f} |")
    return "\n".join(lines)


def window(experiment: Experiment, policy: str) -> Window:
    """Give the window of a policy's first run."""
    case = next(case for case in experiment.cases if case.policy == policy)
    run = experiment.find(case.hash)
    outcome = run.run(False)
    end = run.duration_ns - BEFORE_END_NS
    start = end - SPAN_NS
    tables = {name: pl.DataFrame(columns) for name, columns in run.events(["sched_switch", "cpu_frequency"]).items()}
    clocks: dict[int, tuple[list[int], list[int]]] = {}
    for time, cpu, khz in tables["cpu_frequency"].select("time_ns", "cpu", "khz").iter_rows():
        times, steps = clocks.setdefault(cpu, ([], []))
        times.append(time)
        steps.append(khz)
    names: list[str] = outcome["task_names"]
    running: dict[int, tuple[int, int]] = {}
    slices = []
    for time, cpu, _, _, task in tables["sched_switch"].iter_rows():
        before = running.pop(cpu, None)
        if before is not None and time > start and before[1] < end:
            times, steps = clocks[cpu]
            khz = steps[bisect_right(times, time) - 1]
            first, last = max(before[1], start) - start, min(time, end) - start
            slices.append(Slice(before[0], cpu, first / NS_PER_MS, last / NS_PER_MS, khz / KHZ_PER_GHZ))
        if task < len(names):
            running[cpu] = (task, time)
    return Window(names, slices)


def figure(experiment: Experiment) -> str:
    """Draw the windows of all policies below each other: bars as wide as a task ran and as high as the clock was."""
    left, right, row_height, gap, top_ghz = 52, 8, 62, 26, 4.0
    span_ms = SPAN_NS / NS_PER_MS
    wide = svg.WIDTH - left - right
    out = [svg.element("style", STYLE)]
    y = 30.0
    shown: dict[str, int] = {}
    for policy in experiment.policies:
        part = window(experiment, policy)
        floor = y + 14 + row_height
        out.append(svg.text(left, y + 8, WORDS[policy]))
        for ghz in (0, 2, 4):
            level = floor - ghz / top_ghz * row_height
            out.append(svg.element("line", x1=left, x2=left + wide, y1=level, y2=level, class_="grid"))
            out.append(svg.text(left - 5, level + 3, f"{ghz} GHz", "end", "tiny"))
        for one in part.slices:
            name = part.tasks[one.task].split("/")[0]
            color = shown.setdefault(name, len(shown))
            tall = one.ghz / top_ghz * row_height
            words = f"{part.tasks[one.task]} on CPU {one.cpu}, {1000 * (one.end - one.start):.0f} us at {one.ghz:g} GHz"
            width = max((one.end - one.start) / span_ms * wide, 0.5)
            out.append(svg.box(left + one.start / span_ms * wide, floor - tall, width, tall, f"c{color}", words))
        y = floor + gap - 14
    for number in range(7):
        x = left + number / 6 * wide
        out.append(svg.text(x, y + 4, f"{number / 6 * span_ms:g}", "middle", "tiny"))
    out.append(svg.text(left + wide / 2, y + 18, "time, ms", "middle"))
    x = float(left)
    for name, color in shown.items():
        out.append(svg.element("rect", x=x, y=6, width=10, height=10, class_=f"c{color}"))
        out.append(svg.text(x + 14, 15, name))
        x += 110
    return svg.document(y + 24, "Who runs when, and at which clock", out)


def texts(docs: Path) -> dict[Path, str]:
    """Make the page and its figure anew."""
    experiment = Experiment.load(EXPERIMENT)
    page = docs / "fsync-chain.md"
    return {
        page: pages.fill(page.read_text(encoding="utf-8"), {"policies": table(experiment)}),
        docs / "figures" / "fsync-chain.svg": figure(experiment) + "\n",
    }


if __name__ == "__main__":
    sys.exit(pages.main("fsync", __doc__, texts))
