"""The scoreboard of hardware: what fits predict of measurements that they did not use, beside the simplest rival.

A set is a folder of measurements that is known by its table.  Each gives predictions where something was left out (a
clock, a number of cores, a program, a run), or says why it cannot check a fit; `silicon_sets` has them by kind of
machine.  `docs/silicon.md` is made of it by `opplab verify silicon --docs docs`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from opplab.agreement.catalogue import phones
from opplab.agreement.silicon_sets.common import ScoredSet
from opplab.agreement.silicon_sets.idle import recorded_idle
from opplab.agreement.silicon_sets.laptops import highest_clocks, thermal_limit, turbostat_runs
from opplab.agreement.silicon_sets.limits import power_limit, thermal_limit_run
from opplab.agreement.silicon_sets.phones import opp_power_tables, rails, time_by_frequency
from opplab.agreement.silicon_sets.servers import capped_package, package_by_pstate, power_by_cores, power_by_kernel
from opplab.errors import InputError
from opplab.fit.score import summary

__all__ = ["ScoredSet", "score", "score_folder", "unknown_tables"]


def _cannot(quantity: str, why: str) -> Callable[[Path], list[ScoredSet]]:
    return lambda path: [ScoredSet(path.parent.name, quantity, "", "", [], why)]


SETS: dict[str, Callable[[Path], list[ScoredSet]]] = {
    "freqbench/opp_power.csv": opp_power_tables,
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
"""Folder and table -> what it can check; tables of power by operating point may be in any folder."""


SERVERS = ("epyc-7502-2s", "epyc-zen1-anomaly", "epyc-milan-cap", "xeon-6130-spin")
"""Folders of servers, which have a figure of their own."""


def score_folder(folder: Path) -> list[ScoredSet]:
    """Score every table below a folder that is known, in the order of `SETS`.

    Raises
    ------
    InputError
        None is known.
    """
    sets: list[ScoredSet] = []
    for known, make in SETS.items():
        home, name = known.split("/")
        for path in sorted(folder.resolve().rglob(name)):
            if path.parent.name == home or make is opp_power_tables:
                sets += make(path)
    if not sets:
        raise InputError(f"no measurements below {folder} (known tables: {', '.join(SETS)})")
    return sets


_BESIDE = (
    "odroid-xu3-rails/cbench_samples.csv.gz",
    "arrow-lake-cppc/frequency_scan.csv",
    "freqbench/clusters.csv",
    "freqbench/runs.csv",
)
"""Tables that are read beside those of `SETS`."""


def unknown_tables(folder: Path) -> list[str]:
    """Name the tables below a folder that no set reads, so that a table of another name is no silence."""
    home = folder.resolve()
    known = {*SETS, *_BESIDE}
    found = []
    for path in sorted([*home.rglob("*.csv"), *home.rglob("*.csv.gz")]):
        place = f"{path.parent.name}/{path.name}"
        if place not in known and path.name != "opp_power.csv":
            found.append(str(path.relative_to(home)))
    return found


def _catalogue(folder: Path | None) -> list[dict[str, Any]]:
    tables = [] if folder is None else sorted(folder.resolve().rglob("freqbench/opp_power.csv"))
    return phones(tables[0].parent) if tables else []


def score(sets: list[ScoredSet], folder: Path | None = None) -> dict[str, Any]:
    """Give the scoreboard: ``overall`` and ``servers``, in which each set weighs the same, and ``sets``.

    With the folder of the measurements ``catalogue``, too: the catalogue's phones beside what was measured of them.
    """
    servers = [s.predictions for s in sets if s.folder in SERVERS]
    return {
        "overall": {**summary([s.predictions for s in sets]), "unit": "relative error, 0.05 is 5 %"},
        "servers": summary(servers),
        "sets": [s.row() for s in sets],
        "catalogue": _catalogue(folder),
    }
