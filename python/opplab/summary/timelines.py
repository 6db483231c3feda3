"""Windows of single runs for reports: what each CPU ran and the clock of each cluster, from a run's events."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from opplab.report import svg
from opplab.simulation.run import IDLE_TASK, changes_of
from opplab.summary.page import Timeline

if TYPE_CHECKING:
    from opplab import _opplab


SLICES_MAX = 5000
"""Slices of tasks that one window draws; a busier run is drawn for a shorter time."""


LENGTH_NS = 100_000_000
"""How long a window is."""


def window(case: _opplab.Case, outcome: _opplab.Outcome) -> Timeline:
    """Run a case and give up to `LENGTH_NS` from the middle of what is measured.

    Parameters
    ----------
    outcome : dict
        What running it gave before.
    """
    tables = case.events(["sched_switch", "cpu_frequency"])
    length_ns = min(LENGTH_NS, outcome["wall_ns"])
    # Round to whole ms, so that the axis is readable.
    start_ns = (outcome["end_ns"] - (outcome["wall_ns"] + length_ns) // 2) // 1_000_000 * 1_000_000
    end_ns = start_ns + length_ns
    switches, clocks = tables["sched_switch"], tables["cpu_frequency"]
    first = int(np.searchsorted(switches["time_ns"], start_ns)) + SLICES_MAX
    if first < len(switches["time_ns"]):
        end_ns = min(end_ns, int(switches["time_ns"][first]))
    names: list[str] = outcome["task_names"]
    rows: list[svg.Lane | svg.Clock] = []
    for cluster in outcome["clusters"]:
        for cpu in cluster["cpus"]:
            slices = [
                (begin / 1e6, end / 1e6, task, f"{names[task]}: {(end - begin) / 1e3:.0f} us from {begin / 1e6:.3f} ms")
                for begin, end, task in svg.held(changes_of(switches, cpu, "next"), start_ns, end_ns)
                if task != IDLE_TASK
            ]
            if slices:
                rows.append(svg.Lane(f"{cluster['name']} cpu{cpu}", slices))
        steps = svg.held(changes_of(clocks, cluster["cpus"][0], "khz"), start_ns, end_ns)
        opps = [khz / 1000 for khz in cluster["opps_khz"]]
        if steps:
            points = [(begin / 1e6, khz / 1000) for begin, _, khz in steps]
            rows.append(svg.Clock(f"{cluster['name']} MHz", points, opps[0], opps[-1]))
    return Timeline(case.policy, start_ns / 1e6, end_ns / 1e6, rows)
