"""Work that is due and never finishes in the run is missed: in runs, traces, answers and choices."""

import json
from pathlib import Path

import polars as pl
import pytest

import opplab

from calls import answered

SECONDS = 4
PERIODS_MS = {"fg": 16, "bg": 200}
# Points of the timers before the end.
POINTS = {name: (SECONDS * 1000 - 1) // ms for name, ms in PERIODS_MS.items()}

EXPERIMENT = f"""\
format = 1
name = "starved"
machine = "juno-r2"
baseline = "none"
iterations = 2
duration = "{SECONDS}s"
[defaults]
governor = "schedutil"
[[policy]]
label = "none"
[[policy]]
label = "quota5"
[[policy]]
label = "quota1"
[[workload]]
label = "mix"
rtapp = "mix.json"
[[group]]
name = "/fg"
[[group]]
name = "/bg"
policies = ["none"]
[[group]]
name = "/bg"
policies = ["quota5"]
max = "5000 100000"
[[group]]
name = "/bg"
policies = ["quota1"]
max = "1000 100000"
"""


def mix() -> str:
    def task(group: str, run_us: int) -> dict[str, object]:
        timer = {"ref": "unique", "period": 1000 * PERIODS_MS[group], "mode": "absolute"}
        return {"loop": -1, "taskgroup": f"/{group}", "run": run_us, "timer": timer}

    tasks = {"fg": task("fg", 1000), "bg": task("bg", 20000)}
    return json.dumps({"global": {"duration": SECONDS, "calibration": "CPU1"}, "tasks": tasks})


def test_a_group_with_less_quota_misses_no_less(tmp_path: Path) -> None:
    (tmp_path / "mix.json").write_text(mix())
    (tmp_path / "starved.toml").write_text(EXPERIMENT)
    done = answered("run", tmp_path / "starved.toml", "-o", tmp_path / "out", columns=250)
    table = pl.read_parquet(tmp_path / "out" / "results.parquet")

    def values(policy: str, metric: str) -> list[float]:
        return table.filter(policy=policy, metric=metric)["value"].to_list()

    whole = sum(POINTS.values())
    share = 100 * POINTS["bg"] / whole
    for policy, missed, of_bg in (("none", 0, 0), ("quota5", share, 100), ("quota1", share, 100)):
        assert values(policy, "activations") == [whole] * 2
        assert values(policy, "missed_activations") == pytest.approx([missed] * 2)
        assert values(policy, "group_missed:/bg") == [of_bg] * 2
        assert values(policy, "group_missed:/fg") == [0] * 2
    free, some, least = (values(policy, "group_response_p99:/bg") for policy in ("none", "quota5", "quota1"))
    assert max(free) < PERIODS_MS["bg"] < max(some) < min(least)
    for policy in ("none", "quota5", "quota1"):
        each = zip(values(policy, "group_response_p95:/bg"), values(policy, "group_response_p99:/bg"), strict=True)
        assert all(0 < p95 <= p99 for p95, p99 in each)
    # With nearly no quota the work of the start is not done, and takes at least as long as the run.
    assert min(least) > 0.9 * 1000 * SECONDS
    head = " ".join(done.stdout.split())
    assert f"quota1 misses {share:.3g} %" in head
    assert "some work under quota5 and quota1 was due and never finished" in head
    assert values("none", "unfinished_activations") == [0, 0]
    assert values("quota1", "unfinished_activations") == pytest.approx([share] * 2)


def test_the_events_of_a_run_have_the_same_misses(tmp_path: Path) -> None:
    """A task that ends in time sleeps until its next point, a late one does not: so say the switches alone."""
    task = {"loop": -1, "cpus": [1], "timer": {"ref": "unique", "period": 50000, "mode": "absolute"}}
    tasks = {name: {**task, "run": run_us} for name, run_us in (("light", 5000), ("heavy", 90000))}
    work = opplab.Workload.parse(json.dumps({"global": {"duration": 2, "calibration": "CPU1"}, "tasks": tasks}))
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=2.0)
    run.to_trace(tmp_path / "run.dat")
    switches = opplab.read_trace(tmp_path / "run.dat").events("sched_switch")
    ours = switches.filter(pl.col("prev_comm").str.contains("light|heavy"), pl.col("prev_state") & 0xFF == 1)
    points = 2 * 39
    in_time = ours.filter(pl.col("time_ns") // 50_000_000 < 39).height
    metrics = dict(run.metrics.select("metric", "value").iter_rows())
    assert metrics["activations"] == points
    assert metrics["missed_activations"] == pytest.approx(100 * (points - in_time) / points)
    assert metrics["missed_activations"] > 40


def test_a_trace_has_what_is_past_its_deadline_at_its_end(tmp_path: Path) -> None:
    task = {"loop": -1, "run": 900000, "cpus": [1], "timer": {"ref": "unique", "period": 600000}}
    work = opplab.Workload.parse(
        json.dumps({"global": {"duration": 1, "calibration": "CPU1"}, "tasks": {"late": task}})
    )
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="powersave"), seconds=1.0)
    run.to_trace(tmp_path / "run.dat")
    trace = opplab.read_trace(tmp_path / "run.dat")
    for deadline_us, missed in ((600_000, [True]), (2_000_000, [])):
        signals = trace.signals(deadline_us=deadline_us)
        late = signals.activations.filter(pl.col("comm").str.starts_with("late"))
        assert late["missed"].to_list() == missed
        assert late["response_ns"].null_count() == len(missed)
        if missed:
            for table in (signals.task_summary(), trace.signal_sums(deadline_us=deadline_us).task_summary()):
                (row,) = table.filter(pl.col("comm").str.starts_with("late")).select("activations", "missed").rows()
                assert row == (1, 1)


def test_a_setting_under_which_work_never_finishes_breaks_the_constraint(tmp_path: Path) -> None:
    timers = {"ui": 16000, "render": 1000000}
    tasks = {
        name: {"loop": -1, "run": run_us, "timer": {"ref": "unique", "period": timers[name], "mode": "absolute"}}
        for name, run_us in (("ui", 100), ("render", 900000))
    }
    work = opplab.Workload.parse(json.dumps({"global": {"duration": 3, "calibration": "CPU1"}, "tasks": tasks}))
    found = opplab.choose(
        "juno-r2",
        work,
        governors=["performance", "powersave"],
        constraints=["missed <= 1%"],
        seconds=3.0,
        iterations=2,
        uncertainty=0,
        jobs=2,
    )
    assert not found.idle
    assert "some work under powersave was due and never finished" in " ".join(found.notes)
    missed = {option.label: option.parts["missed_activations"].value for option in found.options}
    assert missed["performance"] == 0
    # The points of 1 s and 2 s, of 187 of the other task.
    assert missed["powersave"] == pytest.approx(100 * 2 / 189)
    assert {option.label for option in found.options if option.meets >= 0.5} == {"performance"}
