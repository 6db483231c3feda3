"""Load tracking that is rebuilt from the trace of a run is the run's own."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import opplab


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
