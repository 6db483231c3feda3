"""Windows of single runs for reports: what each CPU ran and the clock of each cluster, from a run's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from opplab.report import svg
from opplab.summary.page import Timeline

if TYPE_CHECKING:
    import numpy.typing as npt

    from opplab import _opplab


IDLE_TASK = 2**32 - 1

SLICES_MAX = 5000
"""Slices of tasks that one window draws; a busier run is drawn for a shorter time."""


def _steps(
    times: npt.NDArray[np.uint64], values: npt.NDArray[Any], start_ns: int, end_ns: int
) -> list[tuple[int, Any]]:
    """Give what holds from `start_ns` on: the last value before it, then every change until `end_ns`."""
    first = int(np.searchsorted(times, start_ns, side="right")) - 1
    last = int(np.searchsorted(times, end_ns, side="left"))
    pairs = list(zip(times[max(first, 0) : last].tolist(), values[max(first, 0) : last].tolist(), strict=True))
    return [(max(time, start_ns), value) for time, value in pairs]


def window(case: _opplab.Case, outcome: _opplab.Outcome, length_ms: float = 100.0) -> Timeline:
    """Run a case and give up to `length_ms` from the middle of what is measured.

    Parameters
    ----------
    outcome : dict
        What running it gave before.
    """
    tables = case.events(["sched_switch", "cpu_frequency"])
    length_ns = min(int(length_ms * 1e6), outcome["wall_ns"])
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
            here = switches["cpu"] == cpu
            steps = _steps(switches["time_ns"][here], switches["next"][here], start_ns, end_ns)
            ends = [*(time for time, _ in steps), end_ns][1:]
            slices = [
                (begin / 1e6, end / 1e6, task, f"{names[task]}: {(end - begin) / 1e3:.0f} us from {begin / 1e6:.3f} ms")
                for (begin, task), end in zip(steps, ends, strict=True)
                if task != IDLE_TASK
            ]
            if slices:
                rows.append(svg.Lane(f"{cluster['name']} cpu{cpu}", slices))
        here = clocks["cpu"] == cluster["cpus"][0]
        steps = _steps(clocks["time_ns"][here], clocks["khz"][here], start_ns, end_ns)
        opps = [khz / 1000 for khz in cluster["opps_khz"]]
        if steps:
            points = [(time / 1e6, khz / 1000) for time, khz in steps]
            rows.append(svg.Clock(f"{cluster['name']} MHz", points, opps[0], opps[-1]))
    return Timeline(case.policy, start_ns / 1e6, end_ns / 1e6, rows)
