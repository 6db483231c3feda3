"""The scoreboard of hardware with the measurements beside the repository, which are known by their folders.

``python -m lab.silicon [FOLDER] [--docs docs]`` prints it, or writes ``docs/silicon.md``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.silicon import catalogue
from lab.silicon.idle import recorded_idle
from lab.silicon.laptops import highest_clocks, thermal_limit, turbostat_runs
from lab.silicon.limits import power_limit, thermal_limit_run
from lab.silicon.phones import rails, time_by_frequency
from lab.silicon.servers import capped_package, package_by_pstate, power_by_cores, power_by_kernel
from opplab.agreement import silicon
from opplab.agreement.silicon import ScoredSet
from opplab.fit.score import summary

__all__ = ["score"]


def _cannot(quantity: str, why: str) -> Callable[[Path], list[ScoredSet]]:
    return lambda path: [ScoredSet(path.parent.name, quantity, "", "", [], why)]


SETS: dict[str, Callable[[Path], list[ScoredSet]]] = {
    **silicon.SETS,
    "odroid-xu3-rails/cbench_mean.csv": rails,
    "epyc-7502-2s/power_by_kernel.csv": power_by_kernel,
    "epyc-zen1-anomaly/power_by_cores.csv": power_by_cores,
    "epyc-milan-cap/turbostat.csv": capped_package,
    "xeon-6130-spin/spin.csv": package_by_pstate,
    "jasper-lake-menu/summary.csv": lambda path: [*turbostat_runs(path), *power_limit(path)],
    "raptor-lake-throttle/per_cpu.csv": lambda path: [*thermal_limit(path), *thermal_limit_run(path)],
    "pixel4-pmu/time_by_frequency.csv": time_by_frequency,
    "mt8196-idle/residency.csv": recorded_idle,
    "menu-5.15-cpuidle/idle_states.csv": _cannot(
        "idle states that menu chose", "counters without the timers and wake-ups that the governor saw"
    ),
    "arrow-lake-cppc/cppc.csv": highest_clocks,
    "core-ultra-135h/powersave.csv": _cannot("energy of a half load", "one clock, one load: nothing to leave out"),
}
"""Table, by its name or its folder and name -> what it can check."""

SERVERS = ("epyc-7502-2s", "epyc-zen1-anomaly", "epyc-milan-cap", "xeon-6130-spin")
"""Folders of servers, which have a figure of their own."""


def score(folder: Path) -> dict[str, Any]:
    """Give the scoreboard of the tables below a folder, the servers' share of it, and the catalogue's phones."""
    sets = silicon.score_folder(folder, SETS)
    servers = summary([s.predictions for s in sets if s.folder in SERVERS])
    tables = sorted(folder.resolve().rglob("freqbench/opp_power.csv"))
    return {
        **silicon.score(sets),
        "totals": {"all servers": servers},
        "catalogue": catalogue.phones(tables[0].parent) if tables else [],
    }
