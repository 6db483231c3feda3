"""The half-life of a traced kernel's load tracking: from the trace, from a snapshot, given, or assumed."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import opplab

from calls import answered, called

SWITCHES = ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task", "cpu_frequency", "cpu_idle"]


@pytest.fixture(scope="module")
def run() -> opplab.Run:
    """Give a run with a half-life of 8 ms whose clocks change."""
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    return opplab.simulate(opplab.Machine.load("pixel6"), work, opplab.Policy(pelt_half_life_ms=8), seconds=2)


@pytest.fixture(scope="module")
def whole(run: opplab.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("half-life") / "run.dat"
    run.to_trace(path)
    return path


def _utils(path: Path, **how: int) -> tuple[pl.DataFrame, list[str]]:
    trace = opplab.read_trace(path, **how)
    tasks = trace.signals(opplab.Machine.load("pixel6")).tasks
    return tasks.filter(pl.col("time_ns") > 500_000_000), [note for note in trace.notes if "half-life" in note]


def _beyond(tasks: pl.DataFrame, whole: Path) -> float:
    """Give the share of samples that are farther from the run's own than their bound and 4 units."""
    own = opplab.read_trace(whole).events("pelt_se_tp").select("time_ns", "comm", pl.col("util").cast(int))
    both = tasks.join(own, on=["time_ns", "comm"])
    assert len(both) > 300
    off = (pl.col("util_avg").cast(int) - pl.col("util")).abs()
    return both.filter(off > pl.col("error_bound")).height / both.height


@pytest.mark.parametrize("form", ["dat", "txt", "pftrace"])
def test_a_run_states_its_own(run: opplab.Run, whole: Path, tmp_path: Path, form: str) -> None:
    path = tmp_path / f"run.{form}"
    run.to_trace(path)
    tasks, notes = _utils(path)
    assert notes == []
    assert _beyond(tasks, whole) <= 0.01


def test_records_show_it(whole: Path, tmp_path: Path) -> None:
    """Goal: a kernel that states nothing. Method: the trace without its mark, with its records."""
    path = opplab.read_trace(whole).export(tmp_path / "records.dat", *SWITCHES, "arch_set_freq_scale", "pelt_se_tp")
    tasks, notes = _utils(path)
    assert notes == []
    assert _beyond(tasks, whole) <= 0.01
    _, (note,) = _utils(path, pelt_half_life_ms=32)
    assert "32 ms is taken, but" in note
    assert "records of tasks show 8 ms" in note


def test_what_nothing_shows_is_assumed_or_given(whole: Path, tmp_path: Path) -> None:
    path = opplab.read_trace(whole).export(tmp_path / "events.dat", *SWITCHES, "arch_set_freq_scale")
    tasks, (note,) = _utils(path)
    assert "32 ms is assumed" in note
    assert _beyond(tasks, whole) > 0.3
    tasks, notes = _utils(path, pelt_half_life_ms=8)
    assert notes == []
    assert _beyond(tasks, whole) <= 0.01
    (snapshot := tmp_path / "proc/sys/kernel/sched_pelt_multiplier").parent.mkdir(parents=True)
    snapshot.write_text("4\n")
    tasks, notes = _utils(path)
    assert notes == []
    assert _beyond(tasks, whole) <= 0.01


def test_commands_take_it(whole: Path, tmp_path: Path) -> None:
    path = opplab.read_trace(whole).export(tmp_path / "events.dat", *SWITCHES)

    def answer(*words: str) -> str:
        found = answered(*words, "-m", "pixel6")
        return found.output

    given = ["--pelt-half-life-ms", "8"]
    query = "select max(util_avg) as most from tasks"
    assert answer("trace", "sql", str(path), query) != answer("trace", "sql", str(path), query, *given)
    for words in (["trace", "signals", str(path)], ["explain", str(path), "--cpu", "0"], ["replay", str(path)]):
        assert "half-life of 32 ms is assumed" in " ".join(answer(*words).split())
        assert "half-life of 32 ms" not in " ".join(answer(*words, *given).split())
    energy = json.loads(answer("replay", str(path), *given, "--format", "json"))["self_check"]["energy_distance"]
    assert energy < json.loads(answer("replay", str(path), "--format", "json"))["self_check"]["energy_distance"]
    with pytest.raises(opplab.InputError, match="no half-life of 64 ms"):
        opplab.read_trace(path, pelt_half_life_ms=64)


@pytest.mark.parametrize("way", ["mark", "records", "snapshot"])
def test_a_replay_refuses_what_the_trace_contradicts(whole: Path, tmp_path: Path, way: str) -> None:
    """It replayed both sides with the given one: "error +0.0 %", as if another half-life changed nothing."""
    kept = ("arch_set_freq_scale", "pelt_se_tp")[: 2 if way == "records" else 1]
    path = whole if way == "mark" else opplab.read_trace(whole).export(tmp_path / "events.dat", *SWITCHES, *kept)
    if way == "snapshot":
        (snapshot := tmp_path / "proc/sys/kernel/sched_pelt_multiplier").parent.mkdir(parents=True)
        snapshot.write_text("4\n")
    words = ("replay", path, "-m", "pixel6", "--mode", "open")
    refused = str(called(*words, "--pelt-half-life-ms", "16").exception)
    assert "its PELT half-life is 8 ms" in refused and "not 16 ms" in refused
    assert answered(*words, "--pelt-half-life-ms", "8").stdout == answered(*words).stdout
