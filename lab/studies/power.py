"""Are the machines' watts right?  Load lines against what others measured.

Two machines of the catalogue have published watts by load: RAPL package watts of a two-socket Broadwell (turbostress,
i3.metal), and SPECpower's wall watts of servers with one EPYC 7742.  The study loads the simulated machine in the same
steps, every hardware thread busy for that share of its time, and puts both side by side.  The Broadwell's core curve
and floor come from three points of that very line (0, 10 and 50 %), so only the others are predictions; nothing of the
EPYC comes from SPECpower's load line, but its deep idle does from its active idle.

``python -m lab.studies.power`` writes the tables of ``docs/power.md``; ``--check`` reports whether they are what the
command would write.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from lab.studies import pages
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

PERIOD_US = 10_000
SECONDS = 1.0
# Busy threads drift apart on a real machine: starts are spread by the golden ratio.
GOLDEN = 0.6180339887

# turbostress, i3_April21_Oregon_loadstep10_repeat60.csv, CPUStress: load in percent, package watts of both sockets.
I3_METAL_W = {
    0: 34.98, 10: 99.86, 20: 125.81, 30: 152.35, 40: 178.49, 50: 205.39, 60: 223.15, 70: 237.65, 80: 250.14,
    90: 263.30, 100: 272.33,
}  # fmt: skip
I3_METAL_FITTED = (0, 10, 50)

# SPECpower_ssj2008, one EPYC 7742, 8 DIMMs (ASUSTeK RS500A-E10-PS4, November 2019): load in percent, wall watts.
SPEC_AC_W = {0: 51.4, 10: 100, 20: 109, 30: 120, 40: 131, 50: 149, 60: 161, 70: 175, 80: 189, 90: 201, 100: 214}
# A clock without boost, for comparison: P1.
P1_KHZ = 2_000_000
# What lies between the package and the wall, all assumed: board and fans, a DIMM idle and busy, the supply.
BOARD_W, DIMMS, DIMM_IDLE_W, DIMM_BUSY_W, SUPPLY = 25.0, 8, 1.2, 3.5, 0.92


def _load(cpus: int, percent: int, first: int = 0) -> Workload:
    """Give every CPU of `first` to `cpus` - 1 a thread that is busy for `percent` of its time."""
    tasks = {}
    for cpu in range(first, cpus):
        delay_us = int(cpu * GOLDEN % 1 * PERIOD_US)
        busy: dict[str, object] = {"cpus": [cpu], "delay": delay_us, "runtime": PERIOD_US * percent // 100}
        if percent < 100:
            busy["timer"] = {"ref": "unique", "period": PERIOD_US}
        tasks[f"load{cpu}"] = busy
    return Workload.parse(json.dumps({"tasks": tasks}), name="load", file="<load>")


def package_w(machine: str, percent: int, cpus: int | None = None, khz: int | None = None) -> float:
    """Mean package watts of a machine whose first `cpus` (all) hardware threads are busy for `percent` of their time.

    The governor is performance, or userspace at `khz`.

    Examples
    --------
    >>> package_w("broadwell-72x-i3-metal", 0) < 40
    True
    """
    described = Machine.load(machine)
    # No load is one task that never comes to run.
    load = _load(described.nr_cpus if cpus is None else cpus, percent) if percent else _idle()
    if khz is None:
        policy = Policy(kernel="5.9", governor="performance", variation="none")
    else:
        policy = Policy(kernel="5.9", governor="userspace", tunables={"scaling_setspeed": str(khz)}, variation="none")
    run = simulate(described, load, policy, seconds=SECONDS)
    # The first tenth starts the clocks.
    rails = run.meter("rails", SECONDS / 10).slice(1)
    return float(sum(rails[name].mean() for name in rails.columns if name.endswith("_w") and name != "rest_w"))  # type: ignore[misc]


def _idle() -> Workload:
    return Workload.parse(json.dumps({"tasks": {"never": {"sleep": 10_000_000}}}), name="idle", file="<idle>")


def load_line(machine: str, loads: Sequence[int], khz: int | None = None) -> dict[int, float]:
    """Package watts of a machine by load in percent."""
    return {load: package_w(machine, load, khz=khz) for load in loads}


def wall_w(package: float, percent: int) -> float:
    """Watts at the wall of a server with one package."""
    dimms = DIMMS * (DIMM_IDLE_W + (DIMM_BUSY_W - DIMM_IDLE_W) * percent / 100)
    return (package + BOARD_W + dimms) / SUPPLY


def tables() -> dict[str, str]:
    """Give the tables of the page by name."""
    line = load_line("broadwell-72x-i3-metal", list(I3_METAL_W))
    rows = ["| load | measured W | simulated W | residual | |", "| ---: | ---: | ---: | ---: | --- |"]
    for load, measured in I3_METAL_W.items():
        note = "used for the machine file" if load in I3_METAL_FITTED else ""
        rows.append(f"| {load} % | {measured:.1f} | {line[load]:.1f} | {line[load] / measured - 1:+.1%} | {note} |")
    spec, fixed = (load_line("epyc-7742-2s", list(SPEC_AC_W), khz) for khz in (None, P1_KHZ))
    wall = [
        "| load | measured, wall W | boost: package W | wall W | residual | 2.0 GHz: package W | wall W | residual |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for load, measured in SPEC_AC_W.items():
        cells = [f"{load} %", f"{measured:.1f}"]
        for line_w in (spec, fixed):
            socket = line_w[load] / 2
            at_wall = wall_w(socket, load)
            cells += [f"{socket:.1f}", f"{at_wall:.1f}", f"{at_wall / measured - 1:+.1%}"]
        wall.append(f"| {' | '.join(cells)} |")
    one = package_w("epyc-7742-2s", 100, cpus=1)
    points = [
        "| state | package W, both sockets | what to compare with |",
        "| --- | ---: | --- |",
        f"| idle, both sockets deep | {spec[0]:.1f} | 32 to 56: SPECpower's idle of two sockets, packages only |",
        f"| one busy core | {one:.1f} | 130 to 140: two awake packages of 65 W (AnandTech) and a core of 5 W |",
        f"| all busy | {spec[100]:.1f} | 450: two packages at their 225 W limit |",
    ]
    return {"i3-metal": "\n".join(rows), "epyc-spec": "\n".join(wall), "epyc-points": "\n".join(points)}


def texts(docs: Path) -> dict[Path, str]:
    """Make the page anew."""
    page = docs / "power.md"
    return {page: pages.fill(page.read_text(encoding="utf-8"), tables())}


if __name__ == "__main__":
    sys.exit(pages.main("power", __doc__, texts))
