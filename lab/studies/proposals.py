"""What would each proposal change?  Every one against the kernel as it is, on four machines.

Two workloads a machine: a mix of periodic frames that get heavier and lighter, background work, a boosted and a capped
task; and random reads with one request at a time.  Each proposal runs at its defaults on the same seeds as the kernel
without it; a change is the ratio of the pairs with its 95 % interval.

``python -m lab.studies.proposals`` writes the tables of ``docs/proposals.md``; ``--check`` reports whether they
are as the command would write them.
"""

from __future__ import annotations

import json
import os
import random
import re
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from lab.studies import pages
from opplab import _opplab, stats
from opplab.fit.machine_power import GENERIC_PERCENT, generic_power
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

SECONDS = 1.2
SEEDS = range(1, 5)
FRAME_US = 16_667
NS_PER_US = 1000
# A read as it was fitted to text 004's baseline on a Pixel 6 (data/calibration/fio-randread@pixel6.toml).
READ = {"submit_cycles": 104_000, "complete_cycles": 62_400, "device_us": 55}


@dataclass(frozen=True)
class Setup:
    """A machine and the kernel that the proposals are added to."""

    label: str
    machine: str
    policy: tuple[tuple[str, Any], ...]
    one_thread_a_core: bool = False
    generic_power: bool = False


SETUPS = (
    Setup("Juno r2", "juno-r2", (("kernel", "6.12.117"),)),
    Setup("Pixel 6", "pixel6", (("kernel", "6.12.117"),)),
    Setup(
        "Alder Lake i7-1260P without SMT",
        "alder-lake-i7-1260p",
        (("kernel", "6.16"), ("driver", "intel_cpufreq"), ("energy_model", "artificial")),
        one_thread_a_core=True,
        generic_power=True,
    ),
    Setup("two-socket Skylake-SP", "skylake-sp-2s", (("kernel", "6.12.117"), ("driver", "intel_cpufreq"))),
)
# teo's proposal changes teo only.
BASES = {"teo-util": {"idle_governor": "teo"}}


def _machine(setup: Setup) -> Machine:
    text = Machine.load(setup.machine).to_toml()
    if setup.generic_power:
        text, _ = generic_power(text)
    if setup.one_thread_a_core:
        cores = ", ".join(f'"{cpu}"' for cpu in range(Machine.load(setup.machine).nr_cpus))
        text = re.sub(r"(?m)^core = \[[^]]*\]", f"core = [{cores}]", text, count=1)
    return Machine.parse(text, file=f"{setup.machine}, {setup.label}")


def mix(cpus: int, seed: int) -> Workload:
    """Give a mix of tasks for so many CPUs; the seed draws when each starts.

    Examples
    --------
    >>> len(mix(6, 1).describe()) > 0
    True
    """
    draw = random.Random(seed)

    def start_us() -> int:
        return draw.randrange(FRAME_US)

    def frame(run_us: int, loops: int) -> dict[str, Any]:
        return {"loop": loops, "run": run_us, "timer": {"ref": "unique", "period": FRAME_US}}

    tasks: dict[str, Any] = {}
    for group in range(max(1, cpus // 6)):
        light, heavy = draw.randrange(1500, 3000), draw.randrange(7000, 10_000)
        tasks[f"ui{group}"] = {
            "delay": start_us(),
            "phases": {"light": frame(light, 20), "heavy": frame(heavy, 8)},
        }
        tasks[f"render{group}"] = {"delay": start_us(), "util_min": 300, **frame(draw.randrange(2000, 3000), -1)}
        tasks[f"sync{group}"] = {
            "delay": start_us(),
            "run": draw.randrange(500, 900),
            "timer": {"ref": "unique", "period": 30_000},
        }
        tasks[f"poll{group}"] = {
            "delay": start_us(),
            "run": draw.randrange(200, 400),
            "timer": {"ref": "unique", "period": 10_000},
        }
        # It runs for long and rests, and may not ask for more than a fifth of the biggest CPU.
        tasks[f"batch{group}"] = {"delay": start_us(), "util_max": 200, "run": 60_000, "sleep": 40_000}
        # A burst of long work that may ask for all.
        tasks[f"build{group}"] = {"delay": start_us(), "run": 90_000, "sleep": 110_000}
    return Workload.parse(json.dumps({"tasks": tasks}), name="mix", file="<mix>")


def _mix_values(machine: Machine, policy: Policy, seed: int) -> dict[str, float]:
    run = simulate(machine, mix(machine.nr_cpus, seed), policy, seconds=SECONDS, seed=seed)
    waits = run.events("activation")["wu_lat_ns"]
    values = {
        "median wait, us": float(waits.quantile(0.5) or 0) / NS_PER_US,
        "p99 wait, us": float(waits.quantile(0.99) or 0) / NS_PER_US,
    }
    named = {"energy": "energy, J", "missed_activations": "missed, %", "overutilized": "overutilised, %"}
    for row in run.metrics.iter_rows(named=True):
        if row["metric"] in named:
            values[named[row["metric"]]] = row["value"]
    return values


def _read_values(machine: Machine, policy: Policy, seed: int) -> dict[str, float]:
    run = simulate(machine, Workload.benchmark("fio-randread", **READ), policy, seconds=SECONDS / 2, seed=seed)
    named = {"iops": "reads/s", "energy": "energy of reads, J"}
    found = run.metrics.filter(run.metrics["metric"].is_in(list(named)))
    return {named[row["metric"]]: row["value"] for row in found.iter_rows(named=True)}


def _values(job: tuple[Setup, tuple[str, ...], str, int]) -> dict[str, float]:
    setup, proposals, idle_governor, seed = job
    keys = dict(setup.policy)
    policy = Policy(proposals=proposals, idle_governor=idle_governor, **{"variation": "none", **keys})
    machine = _machine(setup)
    return _mix_values(machine, policy, seed) | _read_values(machine, policy, seed)


def change(base: Sequence[float], new: Sequence[float], *, ratio: bool = True) -> str:
    """Report how `new` differs from `base`, pair by pair: the change with its interval, or nothing where there is none.

    Examples
    --------
    >>> change([1.0, 2.0], [1.0, 2.0])
    '='
    >>> change([1.0, 2.0, 3.0], [1.1, 2.2, 3.3])
    '+10.0 %'
    >>> change([1.0, 2.0, 3.0], [2.0, 3.5, 4.0], ratio=False)
    '+1.17 (0.45 to 1.88)'
    """
    if not any(base) and not any(new) and ratio:
        return "unknown"
    if list(base) == list(new):
        return "="
    if not ratio:
        center, (low, high) = stats.mean([b - a for a, b in zip(base, new, strict=True)])
        return f"{center:+.2f} ({low:.2f} to {high:.2f})"
    if min(base) <= 0:
        return "unknown"
    found = stats.compare(base, new, paired=True, resamples=0)
    shift, low, high = ((found[key] - 1) * 100 for key in ("ratio", "low", "high"))
    if high - low < 0.05:  # the last digit that is printed
        return f"{shift:+.1f} %"
    return f"{shift:+.1f} % ({low:+.1f} to {high:+.1f})"


COLUMNS: tuple[tuple[str, bool], ...] = (
    ("energy, J", True),
    ("median wait, us", True),
    ("p99 wait, us", True),
    ("missed, %", False),
    ("overutilised, %", False),
    ("reads/s", True),
    ("energy of reads, J", True),
)


def _nothing(column: str) -> str:
    return "unknown" if "energy" in column else "0"


def _range(setup: Setup) -> str:
    low, high = GENERIC_PERCENT
    return f" (generic: {low} to {high} % of it)" if setup.generic_power else ""


def _table(setup: Setup, measured: Callable[[tuple[str, ...], str], list[dict[str, float]]]) -> str:
    head = " | ".join(f"{name}" for name, _ in COLUMNS)
    lines = [f"| {setup.label} | {head} |", "| --- |" + " ---: |" * len(COLUMNS)]

    def at(rows: list[dict[str, float]], name: str) -> list[float]:
        # Unknown energies are None.
        return [row.get(name) or 0.0 for row in rows]

    base = measured((), "menu")
    cells = [f"{mean(at(base, name)):.4g}" if any(at(base, name)) else _nothing(name) for name, _ in COLUMNS]
    cells = [cell + _range(setup) if "energy" in name else cell for cell, (name, _) in zip(cells, COLUMNS, strict=True)]
    lines.append(f"| the kernel as it is | {' | '.join(cells)} |")
    for entry in _opplab.proposals():
        name = entry["name"]
        idle_governor = BASES.get(name, {}).get("idle_governor", "menu")
        own = base if idle_governor == "menu" else measured((), idle_governor)
        new = measured((name,), idle_governor)
        cells = [change(at(own, column), at(new, column), ratio=ratio) for column, ratio in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _list() -> str:
    lines = ["| proposal | what it does | thread | here |", "| --- | --- | --- | --- |"]
    for entry in _opplab.proposals():
        params = ", ".join(
            f"`{one['name']}` {one['min']} to {one['max']} ({one['default']})" for one in entry["params"]
        )
        name = f"`{entry['name']}`" + (f": {params}" if params else "")
        lines.append(f"| {name} | {entry['what']} | {entry['thread']} | {entry['differs']} |")
    return "\n".join(lines)


# ---- predictions of published effects ----

# As text 004's baseline: fio on CPU 7 with the frequency's thread; v6.12 before its rate limit was changed, with the
# text's patch.
PIXEL6_FIO = {
    "kernel": "6.12.117",
    "gates": {"rate_limit": "latency-x1000-2ms", "sugov_affinity": "free"},
    "sugov_cpus": (7,),
}


def _fio(proposals: tuple[str, ...], seed: int) -> tuple[float, float]:
    policy = Policy(proposals=proposals, **PIXEL6_FIO)  # type: ignore[arg-type]
    workload = Workload.benchmark("fio-randread", **READ)
    rows = simulate("pixel6", workload, policy, seconds=SECONDS, seed=seed).metrics
    at = {row["metric"]: row["value"] for row in rows.iter_rows(named=True)}
    return at["iops"], at["power"]


def _lone(machine: str, proposals: tuple[str, ...], seed: int) -> float:
    """Share of time overutilised, in percent, with one busy thread beside small background tasks."""
    draw = random.Random(seed)
    tasks: dict[str, Any] = {"busy": {"delay": 1000, "run": 500_000, "sleep": 5000}}
    for index in range(4):
        timer = {"ref": "unique", "period": 32_000}
        tasks[f"small{index}"] = {"delay": draw.randrange(32_000), "run": 1000, "timer": timer}
    workload = Workload.parse(json.dumps({"tasks": tasks}), name="lone", file="<lone>")
    rows = simulate(
        machine, workload, Policy(proposals=proposals, variation="none"), seconds=SECONDS, seed=seed
    ).metrics
    return float(rows.filter(rows["metric"] == "overutilized")["value"][0])


def _predictions() -> str:
    lines = ["| what | kernel as it is | with the proposal | change |", "| --- | ---: | ---: | ---: |"]
    base = [_fio((), seed) for seed in SEEDS]
    for name in ("no-iowait-boost", "task-iowait-boost"):
        new = [_fio((name,), seed) for seed in SEEDS]
        for place, unit in enumerate(("reads/s", "W of all clusters")):
            before, after = [one[place] for one in base], [one[place] for one in new]
            what = f"{name}: fio, random reads of 4 KiB, one at a time, Pixel 6, {unit}"
            lines.append(f"| {what} | {mean(before):.4g} | {mean(after):.4g} | {change(before, after)} |")
    for machine, label in (("juno-r2", "four small and two big cores (Juno r2)"), ("pixel6", "Pixel 6")):
        before, after = ([_lone(machine, chosen, seed) for seed in SEEDS] for chosen in ((), ("lone-task",)))
        what = f"lone-task: one busy thread beside small tasks, {label}, % of the time overutilised"
        lines.append(f"| {what} | {mean(before):.1f} | {mean(after):.1f} | {change(before, after, ratio=False)} |")
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Give the tables of the page by name."""
    found = {"list": _list(), "predictions": _predictions()}
    # Threads, since polars has some: a forked process would wait for ever for a lock that one of them held.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for setup in SETUPS:

            def measured(
                proposals: tuple[str, ...], idle_governor: str, setup: Setup = setup
            ) -> list[dict[str, float]]:
                return list(pool.map(_values, [(setup, proposals, idle_governor, seed) for seed in SEEDS]))

            found[setup.machine] = _table(setup, measured)
    return found


def texts(docs: Path) -> dict[Path, str]:
    """Make the page anew."""
    page = docs / "proposals.md"
    return {page: pages.fill(page.read_text(encoding="utf-8"), tables())}


if __name__ == "__main__":
    sys.exit(pages.main("proposals", __doc__, texts))
