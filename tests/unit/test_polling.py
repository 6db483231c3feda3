"""A CPU that polls (POLL is C0) executes: APERF and MPERF count, and firmware and drivers take it for busy."""

from typing import Any

import polars as pl
import pytest

import opplab

MACHINES = ("broadwell-72x-i3-metal", "skylake-sp-2s")
SECONDS = 0.4
# Four tasks that run for a twentieth of the time at the highest clock.
SHORT_SLEEPS = opplab.Workload.periodic(4, run_us=100, period_us=2000)


def run_of(machine: str, latency_us: int | None, **policy: Any) -> opplab.Run:
    limit = {} if latency_us is None else {"cpu_dma_latency_us": latency_us}
    return opplab.simulate(machine, SHORT_SLEEPS, opplab.Policy(**policy, **limit), seconds=SECONDS, check=True)


def shown(run: opplab.Run) -> dict[str, dict[str, float]]:
    """Give turbostat's rows of a whole run by CPU; the summary is `-`."""
    head, *lines = (line.split("\t") for line in run.turbostat(SECONDS).splitlines())
    rows = [dict(zip(head, line, strict=False)) for line in lines]
    return {row["CPU"]: {name: float(row[name]) for name in ("Busy%", "POLL%", "Avg_MHz", "Bzy_MHz")} for row in rows}


def executed_percent(run: opplab.Run, cpu: int) -> float:
    """Give how much of the time a CPU ran a task or was in POLL, by its events."""
    end = round(SECONDS * 1e9)
    tables = run.events("sched_switch", "cpu_idle")
    total = 0
    for name, column, executing in (("sched_switch", "next", range(len(run.tasks))), ("cpu_idle", "state", [0])):
        own = tables[name].filter(pl.col("cpu") == cpu).select("time_ns", column).rows()
        for (since, value), until in zip(own, [*(time for time, _ in own[1:]), end], strict=False):
            total += until - since if value in executing else 0
    return 100 * total / end


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("driver", ["intel_pstate", "intel_cpufreq"])
def test_polling_is_busy_to_the_counters(machine: str, driver: str) -> None:
    """Goal: `Busy%` has `POLL%` in it. Method: no CPU may sleep; what runs and what polls is summed from the events."""
    governor = "powersave" if driver == "intel_pstate" else "schedutil"
    run = run_of(machine, 0, driver=driver, governor=governor)
    rows, free = shown(run), shown(run_of(machine, None, driver=driver, governor=governor))
    assert rows["-"]["Busy%"] >= free["-"]["Busy%"]
    assert rows["-"]["POLL%"] > 90
    for cpu in range(4):
        assert rows[str(cpu)]["Busy%"] == pytest.approx(executed_percent(run, cpu), abs=0.1)
        assert rows[str(cpu)]["Busy%"] >= rows[str(cpu)]["POLL%"]


@pytest.mark.parametrize(("machine", "no_hwp"), [(MACHINES[0], False), (MACHINES[1], False), (MACHINES[1], True)])
def test_a_latency_limit_lowers_no_clock_that_follows_the_load(machine: str, no_hwp: bool) -> None:
    """Goal: force_latency's CPUs are busy to HWP and to intel_pstate, so that they run at least as fast as without.

    Below the turbo bins, that is: a CPU that polls keeps its core active, so that the highest clocks are lower.
    """
    policy = {"driver": "intel_pstate", "governor": "powersave", "no_hwp": no_hwp}
    limited, free = shown(run_of(machine, 0, **policy)), shown(run_of(machine, None, **policy))
    for cpu in limited:
        assert limited[cpu]["Bzy_MHz"] >= free[cpu]["Bzy_MHz"], cpu


def test_work_is_done_sooner_under_a_latency_limit() -> None:
    """Goal: what a user asks of force_latency. Method: the tasks' own activations, not the counters."""
    policy = {"driver": "intel_pstate", "governor": "powersave"}
    limited, free = (
        run_of("skylake-sp-2s", limit_us, **policy).metrics.row(
            by_predicate=pl.col("metric") == "response_p50", named=True
        )
        for limit_us in (0, None)
    )
    assert limited["value"] < free["value"] / 2
