"""How often intervals of `--uncertainty` hold the truth.

Each case is a random machine with ranges, a random periodic load, and two governors. The truth is drawn: a machine with
other numbers from the ranges of its file, whose energies are the means of many runs. The interval is made from the
file's own numbers, its draws and its few runs, without that truth. ``python -m lab.studies.coverage`` prints the
share of intervals that hold it, for the energy of one governor and for the change to the other.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from opplab import _opplab, catalog
from opplab.simulation.cases import Case, rows_of
from opplab.simulation.machine import Machine
from opplab.simulation.ranges import assumptions_of, with_draw

LEVEL = 0.9
SECONDS = 0.4
GOVERNORS = ("schedutil", "performance", "ondemand", "powersave", "conservative")


@dataclass(frozen=True)
class Coverage:
    """How many intervals held the truth."""

    total: int
    """Cases."""
    values: int
    changes: int
    """`values` and `changes`: intervals of a governor's energy, and of the change to another, that held it."""

    @property
    def share(self) -> float:
        """Share of all intervals that held the truth."""
        return (self.values + self.changes) / (2 * self.total)


def coverage(
    cases: int = 200,
    draws: int = 32,
    iterations: int = 5,
    truth_iterations: int = 12,
    seed: int = 1,
    jobs: int = 2,
) -> Coverage:
    """Make random cases and count.

    Parameters
    ----------
    draws, iterations : int
        Of the interval.
    truth_iterations : int
        Runs whose mean is the truth.
    jobs : int
        Threads.
    """
    machines = _machines()
    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(lambda at: _one(at, machines, draws, iterations, truth_iterations, seed), range(cases)))
    return Coverage(cases, sum(value for value, _ in found), sum(change for _, change in found))


def _machines() -> list[str]:
    """Give the built-in machines of at most 16 CPUs that know their powers and have ranges."""
    from opplab.simulation.power import known_power

    out = []
    for name in catalog.names("machine"):
        machine = Machine.load(name)
        if machine.nr_cpus > 16:
            continue
        described = json.loads(_case(machine, "performance", 1, 4000, 16000, 1).json)["machine"]
        if all(known_power(described)) and len(assumptions_of(described)) > 3:
            out.append(name)
    return out


def _case(machine: Any, governor: str, tasks: int, run_us: int, period_us: int, seed: int) -> Case:
    from opplab.simulation.policy import Policy
    from opplab.simulation.simulate import build_case
    from opplab.simulation.workload import Workload

    load = Workload.periodic(tasks, run_us=run_us, period_us=period_us)
    policy = Policy(governor=governor, variation="noisy-host")
    return Case.of(build_case(machine, load, policy, seconds=SECONDS, seed=seed))


def _energy(case: Case) -> float:
    outcome = _opplab.Case.from_json(case.json).run(False)
    return next(float(row["value"]) for row in rows_of(case, outcome) if row["metric"] == "energy")


def _one(at: int, machines: list[str], draws: int, iterations: int, truths: int, seed: int) -> tuple[bool, bool]:
    """Make a case: whether the interval of a value holds the truth, and that of a change."""
    import numpy as np

    from opplab.uncertainty.draws import Values, latin_hypercube
    from opplab.uncertainty.parts import parts_of

    rng = np.random.default_rng([seed, at])
    machine = Machine.load(str(rng.choice(machines)))
    governors = [str(one) for one in rng.choice(GOVERNORS, size=2, replace=False)]
    period_us = int(rng.integers(4, 40)) * 1000
    tasks, run_us = int(rng.integers(1, machine.nr_cpus + 1)), int(period_us * rng.uniform(0.02, 0.3))
    plain = {
        (governor, number): _case(machine, governor, tasks, run_us, period_us, 1 + number)
        for governor in governors
        for number in range(max(iterations, truths))
    }
    described = json.loads(plain[governors[0], 0].json)["machine"]
    assumptions = assumptions_of(described)

    def on(case: Case, shares: Any) -> Case:
        whole = json.loads(case.json)
        whole["machine"] = with_draw(described, assumptions, shares)
        return Case.of(_opplab.Case.from_json(json.dumps(whole)))

    truth_shares = rng.random(len(assumptions))
    truth = {
        governor: [_energy(on(plain[governor, number], truth_shares)) for number in range(truths)]
        for governor in governors
    }
    table = latin_hypercube(draws - 1, len(assumptions), int(rng.integers(2**31)))
    values = {}
    for governor in governors:
        own = {number: _energy(plain[governor, number]) for number in range(iterations)}
        drawn: dict[int, dict[int, float]] = {}
        for draw, shares in enumerate(table, start=1):
            for number in dict.fromkeys((2 * draw - 2 + step) % iterations for step in (0, 1)):
                drawn.setdefault(draw, {})[number] = _energy(on(plain[governor, number], shares))
        values[governor] = Values(own, drawn)
    first, second = governors
    change = values[second].change_from(values[first])
    wanted = [
        (values[first], float(np.mean(truth[first]))),
        (change, 100 * (float(np.mean(truth[second])) / float(np.mean(truth[first])) - 1)),
    ]
    held = []
    for found, right in wanted:
        parts = parts_of(list(found.own.values()), list(found.shifts().values()), LEVEL)
        inside = parts.low is not None and parts.high is not None and parts.low <= right <= parts.high
        # Two governors that do the same in every run have no change, nor has the truth.
        held.append(inside or abs(right - parts.value) <= 1e-9 * max(abs(right), 1.0))
    return held[0], held[1]


def main() -> None:
    """Print the shares."""
    import argparse

    parser = argparse.ArgumentParser(description="Coverage of intervals of --uncertainty.")
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--draws", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = coverage(given.cases, given.draws, given.iterations, seed=given.seed, jobs=given.jobs)
    print(
        f"{found.total} cases, nominal {100 * LEVEL:g} %: energies held in {100 * found.values / found.total:.1f} %, "
        f"changes in {100 * found.changes / found.total:.1f} %"
    )


if __name__ == "__main__":
    main()
