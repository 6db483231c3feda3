"""RCU callbacks keep an idle CPU's tick."""

import polars as pl
import pytest

import opplab


@pytest.mark.parametrize(
    ("machine", "hz", "least_ms"),
    [
        pytest.param("skylake-8x-uma", 250, 28, id="grace periods of two ticks"),
        pytest.param("juno-r2", 1000, 14, id="of four ticks"),
        pytest.param("epyc-7742-2s", 250, 40, id="of three ticks, as 256 CPUs report"),
    ],
)
def test_an_idle_cpu_keeps_its_tick_as_recorded(machine: str, hz: int, least_ms: float) -> None:
    """Six CPUs of Linux 6.12 at 250 Hz kept it for 27.9 to 32.0 ms after most exits that nothing else followed."""
    work = opplab.Workload.parse(
        '{"tasks": {"short": {"loop": 1, "cpus": [1], "delay": 5000, "run": 3000},'
        ' "stays": {"loop": -1, "cpus": [0], "sleep": 500000, "run": 100}}}'
    )
    policy = opplab.Policy(kernel="6.12", governor="performance", eas=False, hz=hz, idle_governor="teo")
    run = opplab.simulate(machine, work, policy, seconds=0.2)
    exit_ns = run.events("sched_process_exit")["time_ns"][0]
    idle = run.events("cpu_idle").filter((pl.col("cpu") == 1) & (pl.col("time_ns") >= exit_ns))
    # The last sleep that began is the one that no tick ends.
    kept_ms = (idle["time_ns"][-1] - exit_ns) / 1e6
    assert least_ms <= kept_ms <= least_ms + 1000 / hz
    ticks = idle.filter(pl.col("state") == -1)["time_ns"].diff().drop_nulls()
    assert ticks.is_between(0.999e9 / hz, 1.001e9 / hz).all()
