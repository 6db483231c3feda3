"""Measure load tracking over arrays from Python: million updates a second, and ns an update."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np

from opplab import kernel

UPDATES = 1_000_000
REPEATS = 15


def best_ns(work: Callable[[], object], updates: int) -> float:
    """Give the ns an update of the quickest of some runs."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter_ns()
        work()
        times.append(perf_counter_ns() - start)
    return min(times) / updates


def main() -> int:
    """Measure and print."""
    rng = np.random.default_rng(1)
    deltas = {
        "20 us, within a period": np.full(UPDATES, 20_000, dtype=np.uint64),
        "1.1 ms, across one": np.full(UPDATES, 1_100_000, dtype=np.uint64),
        "random, 1 ns to 16 ms": rng.integers(1, 16_000_000, UPDATES, dtype=np.uint64),
    }
    running = rng.random(UPDATES) < 0.5
    speed = rng.integers(256, 1025, UPDATES, dtype=np.uint16)
    print("array PELT from Python".ljust(50), "  ns/update   M updates/s")

    def line(label: str, ns: float) -> None:
        print(f"{label:50} {ns:11.2f} {1_000 / ns:13.1f}")

    for label, steps in deltas.items():
        times = np.cumsum(steps, dtype=np.uint64)
        line(f"pelt(), {label}", best_ns(lambda times=times: kernel.pelt(times, running), UPDATES))  # type: ignore[misc]
        line(
            f"pelt() with time dilation, {label}",
            best_ns(lambda times=times: kernel.pelt(times, running, freq_scale=speed), UPDATES),  # type: ignore[misc]
        )
    n_tasks = 10_000
    batch, now = kernel.PeltBatch(n_tasks), 0
    activity = np.where(rng.random(n_tasks) < 0.5, kernel.ON_RQ | kernel.RUNNING, 0).astype(np.uint8)

    def ticks() -> None:
        nonlocal now
        for _ in range(UPDATES // n_tasks):
            now += 4_000_000
            batch.update_load_avg_se(now, activity)

    line(f"PeltBatch of {n_tasks} tasks, every 4 ms", best_ns(ticks, UPDATES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
