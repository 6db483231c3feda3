"""Load tracking that is rebuilt from the trace of a run is the run's own."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab.trace.signals import unjudged

from testdata import shared


@pytest.mark.parametrize("governor", ["schedutil", "performance"])
@pytest.mark.parametrize("name", ["pixel6", "pixel4", "juno-r2", "skylake-sp-2s"])
def test_rebuilt_averages_are_within_their_bound(tmp_path: Path, name: str, governor: str) -> None:
    """Goal: 99 % of a run's samples. Method: a run whose clocks change late; its own records of the same instants."""
    machine = opplab.Machine.load(name)
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    run = opplab.simulate(machine, work, opplab.Policy(governor=governor), seconds=3)
    run.to_trace(path := tmp_path / "run.dat")
    trace = opplab.read_trace(path)
    own = trace.events("pelt_se_tp").select("time_ns", "comm", pl.col("util").cast(int))
    both = trace.signals(machine).tasks.filter(pl.col("time_ns") > 500_000_000).join(own, on=["time_ns", "comm"])
    assert len(both) > 500
    off = (pl.col("util_avg").cast(int) - pl.col("util")).abs()
    assert both.filter(off > pl.col("error_bound")).height <= 0.01 * len(both)


def _over_time(own: pl.DataFrame, value: str) -> float:
    """Give the mean of a signal between its records, which are close together: of each pair the middle."""
    ns = own["time_ns"].diff().drop_nulls().to_numpy()
    util = own[value].to_numpy()
    return float(((util[1:] + util[:-1]) / 2 * ns).sum() / ns.sum())


def test_the_mean_utilisation_of_a_task_is_over_time(tmp_path: Path) -> None:
    """A task that ran for 10 s had the mean of its events, which were all in the first 40 ms: 307, and at most 400.

    Method: the run's own records of each tick, of a busy task beside periodic ones.
    """
    tasks = {
        "busy": {"loop": 1, "run": 1_900_000, "cpus": [0]},
        "t": {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}, "cpus": [1]},
    }
    work = opplab.Workload.parse(json.dumps({"global": {"duration": 2}, "tasks": tasks}))
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance", variation="none"), seconds=1.5)
    run.to_trace(path := tmp_path / "run.dat")
    trace = opplab.read_trace(path)
    own = trace.events("pelt_se_tp").select("time_ns", "comm", pl.col("util").cast(int))
    signals = trace.signals("juno-r2")
    for table in (signals.task_summary(), trace.signal_sums("juno-r2").task_summary()):
        for name in ("busy-0", "t-1"):
            (row,) = table.filter(comm=name).to_dicts()
            records = own.filter(comm=name)
            assert row["util_avg_mean"] == pytest.approx(_over_time(records, "util"), abs=12), name
            assert row["util_avg_max"] == pytest.approx(records["util"].max(), abs=8), name
    assert (
        signals.task_summary().filter(comm="busy-0")["util_avg_max"][0]
        > signals.tasks.filter(comm="busy-0")["util_avg"][0]
    )


def test_signals_are_of_the_machine_of_the_snapshot_and_its_absence_is_named(tmp_path: Path) -> None:
    """Without a machine little CPUs counted as big ones: `util_avg` 54 for 13, beside an `error_bound` of 11."""
    folder = shared("traces/arm64-612-juno-eas-homog6")
    trace = opplab.read_trace(folder / "trace.dat")
    tasks = trace.signals().tasks
    assert tasks.equals(trace.signals("auto").tasks)
    own = trace.events("pelt_se").select("time_ns", "pid", pl.col("util_avg").cast(int).alias("kernel")).sort("time_ns")
    near = tasks.sort("time_ns").join_asof(own, on="time_ns", by="pid", tolerance=60_000).drop_nulls("kernel")
    off = (pl.col("util_avg").cast(int) - pl.col("kernel")).abs()
    assert len(near) > 500
    assert near.filter(off > pl.col("error_bound")).height <= 0.01 * len(near)
    assert not any("capacity 1024" in note for note in trace.notes)
    (tmp_path / "alone.dat").write_bytes((folder / "trace.dat").read_bytes())
    alone = opplab.read_trace(tmp_path / "alone.dat")
    alone.signals()
    assert any("every CPU counts as one of capacity 1024" in note for note in alone.notes)


def test_tasks_of_one_name_are_counted_in_notes() -> None:
    """A trace of many workers had "misses leave out python, python, python, python" and nothing else."""
    raw = {"deadlines": {"pid": [1]}, "threads": [], "unjudged": [7, 8, 5, 9], "by_period": []}
    (note,) = unjudged(raw, {7: "python", 8: "python", 9: "python"})
    assert note.startswith("misses leave out python x3, 5: awake for more than half")
