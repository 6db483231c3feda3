"""What the built-in experiments with control groups answer: the tables of ``docs/howto/control-groups.md``.

``python -m lab.studies.groups`` writes them; ``--check`` reports whether they are what the command would write.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import polars as pl

from lab.studies import pages
from opplab.simulation.work import ENERGY_PER_WORK, with_energy_per_work
from opplab.sweep.experiments import Experiment

EXPERIMENTS: dict[str, tuple[str, ...]] = {
    "noisy-neighbour": ("/web", "/batch"),
    "web-quota-burst": ("/web",),
    "memcached-quota": ("/memcached",),
    "quota-timers": ("/pod0",),
    "top-app-boost": ("/top-app", "/background"),
    "uclamp-units": ("/system.slice/indexer.service", "/user.slice"),
}
"""The groups of each experiment whose numbers are shown."""

_COLUMNS = {
    "group_usage": "usage, s",
    "group_throttled_periods": "throttled, %",
    "group_missed": "missed, %",
    "group_response_p99": "response p99, ms",
}


def table(results: pl.DataFrame, groups: Sequence[str]) -> str:
    """Give a table of means: power, energy by work, and what each group had."""
    cases = results.partition_by("policy", "iteration", maintain_order=True)
    every = pl.DataFrame([row for case in cases for row in with_energy_per_work(case.iter_rows(named=True))])
    means = every.group_by("policy", "metric", maintain_order=True).agg(pl.col("value").mean())
    value = {(policy, metric): number for policy, metric, number in means.iter_rows()}
    shown = [(group, key) for group in groups for key in _COLUMNS if any(m == f"{key}:{group}" for _, m in value)]
    many = len(groups) > 1
    heads = [f"{group.rpartition('/')[2] + ': ' if many else ''}{_COLUMNS[key]}" for group, key in shown]
    lines = [
        "| variant | power, W | energy/work, J/s | " + " | ".join(heads) + " |",
        "| --- " + "| ---: " * (2 + len(shown)) + "|",
    ]
    for policy in results["policy"].unique(maintain_order=True):
        power, work = value[policy, "power"], value[policy, ENERGY_PER_WORK]
        cells = [value.get((policy, f"{key}:{group}")) for group, key in shown]
        numbers = ["" if cell is None else f"{cell:.4g}" for cell in (power, work, *cells)]
        lines.append(f"| {policy} | {' | '.join(numbers)} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Run the experiments."""
    return {name: table(Experiment.load(name).run(), groups) for name, groups in EXPERIMENTS.items()}


def texts(docs: Path) -> dict[Path, str]:
    """Make the page anew."""
    page = docs / "howto" / "control-groups.md"
    return {page: pages.fill(page.read_text(encoding="utf-8"), tables())}


if __name__ == "__main__":
    sys.exit(pages.main("groups", __doc__, texts))
