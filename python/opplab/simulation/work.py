"""Energy by unit of work: what a setting saves by doing less is no saving."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from opplab import _opplab

ENERGY_PER_WORK = "energy_per_work"
"""Energy by what the benchmark counts; without a count, by second of work of the biggest CPU (clocks without boost)."""

POWER_AT_EQUAL_WORK = "power_at_equal_work"
"""Mean power at the pace of the baseline's work; a machine that has done it sooner is idle, under the same setting."""

OF_WORK = "J/s of work"
"""Its unit where the benchmark counts nothing."""

APART = 1.0
"""Percentage points by which energy by unit of work changes otherwise than energy where it is shown for it."""


def with_energy_per_work(rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Give the result rows of a case, and a row of its energy by unit of work where energy and work are known.

    A benchmark whose metric is a rate counts its own units (``MB`` of ``MB/s``): power by rate. All other workloads
    count seconds of work: ``energy`` by ``work_done``. Energy counts in J and power in W; in other units they are of
    somebody else's table, and are left alone.
    """
    rates = _rates()
    known: dict[str, Mapping[str, Any]] = {}
    last: Mapping[str, Any] | None = None
    for row in rows:
        yield row
        last = row
        if row["value"] is not None:
            known[row["metric"]] = row
    if last is None or "energy" not in known:
        return
    rate = next((row for row in known.values() if row["metric"] in rates and (row["unit"] or "").endswith("/s")), None)
    used, done = (known.get("energy"), known.get("work_done")) if rate is None else (known.get("power"), rate)
    unit = OF_WORK if rate is None else f"J/{_counted(rate['metric'], rate['unit'])}"
    if used is None or done is None or used["unit"] != ("J" if rate is None else "W"):
        return
    if done["value"]:
        value = used["value"] / done["value"]
        yield {**last, "metric": ENERGY_PER_WORK, "unit": unit, "better": "lower", "value": value}


@cache
def _rates() -> frozenset[str]:
    """Give the metrics of benchmark models that are rates."""
    return frozenset(model["metric"] for model in _opplab.benchmarks() if model["higher_is_better"])


def _counted(metric: str, unit: str) -> str:
    """Give what a rate counts.

    Examples
    --------
    >>> _counted("throughput", "MB/s"), _counted("transactions", "1/s")
    ('MB', 'transaction')
    """
    return metric.removesuffix("s") if unit == "1/s" else unit.removesuffix("/s")
