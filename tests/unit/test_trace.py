"""Recorded traces: `opplab trace` and `opplab.read_trace`."""

import base64
import json
import re
import shutil
import subprocess
import sys
import zlib
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab.trace import frames

from calls import answered, called
from testdata import shared

TEXT = """\
# tracer: nop
          <idle>-0     [000] d..3   100.000000: cpu_frequency: state=1000000 cpu_id=0
          <idle>-0     [000] d..3   100.000100: sched_wakeup: comm=worker pid=7 prio=120 target_cpu=000
          <idle>-0     [000] d..3   100.000110: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R\
 ==> next_comm=worker next_pid=7 next_prio=120
          worker-7     [000] d..3   100.002000: cpu_frequency: state=2000000 cpu_id=0
          worker-7     [000] d..3   100.003000: tracing_mark_write: rtapp_loop: event=start thread_loop=0 phase=0
          worker-7     [000] d..3   100.004110: sched_switch: prev_comm=worker prev_pid=7 prev_prio=120 prev_state=S\
 ==> next_comm=swapper/0 next_pid=0 next_prio=120
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.txt"
    path.write_text(TEXT)
    return path


def shared_traces() -> list[Path]:
    folder = shared()
    files = [
        *folder.glob("traces/*/trace.dat"),
        *folder.glob("data/trappy/tests/*.dat"),
        *folder.glob("data/lisa/*.dat"),
    ]
    return sorted(path for path in files if path.read_bytes()[:10] == b"\x17\x08\x44tracing")


def test_info_counts_events_and_time(small: Path) -> None:
    result = called("trace", "info", small, "--format", "json")
    about = json.loads(result.stdout)
    assert about["events"] == {"cpu_frequency": 2, "sched_switch": 2, "sched_wakeup": 1, "tracing_mark_write": 1}
    assert (about["cpus"], about["start_ns"], about["duration_ns"]) == (1, 100_000_000_000, 4_110_000)
    assert result.exit_code == 0


def test_info_prints_the_first_event_as_events_has_it(tmp_path: Path) -> None:
    """Goal: a printed start can be given to --from. Method: a clock since 1970, which has more digits than a float."""
    (tmp_path / "epoch.txt").write_text("a-7 [000] 1767225610.075331584: cpu_frequency: state=1000 cpu_id=0\n")
    assert "0.000000000 s from 1767225610.075331584\n" in called("trace", "info", tmp_path / "epoch.txt").stdout
    assert "1767225610.075331584:" in called("trace", "events", tmp_path / "epoch.txt").stdout


@pytest.mark.parametrize(
    ("options", "times"),
    [
        ([], [0, 100, 110, 2000, 3000, 4110]),
        (["-e", "sched_switch"], [110, 4110]),
        (["--from", "100.0001", "--to", "100002000us"], [100, 110]),
        (["--from", "+3ms"], [3000, 4110]),
        (["--task", "worker", "--limit", "3"], [100, 110, 2000]),
        (["--task", "7", "-e", "sched_wakeup", "-e", "sched_switch"], [100, 110, 4110]),
        (["--cpu", "1"], []),
    ],
)
def test_events_of_a_selection_in_each_form(small: Path, options: list[str], times: list[int]) -> None:
    text = called("trace", "events", small, *options).stdout
    assert [int(stamp) for stamp in re.findall(r" 100\.(\d{6})000: ", text)] == times
    lines = called("trace", "events", small, *options, "--format", "json").stdout.splitlines()
    assert [(json.loads(line)["time_ns"] - 100_000_000_000) // 1000 for line in lines] == times
    csv = called("trace", "events", small, *options, "--format", "csv").stdout.splitlines()
    assert len(csv) == len(times) + 1


def test_tables_have_the_fields_of_the_event(small: Path) -> None:
    trace = opplab.read_trace(small)
    switches = trace.events("sched_switch")
    assert switches.columns[:4] == ["time_ns", "cpu", "common_pid", "common_comm"]
    assert switches["next_comm"].to_list() == ["worker", "swapper/0"]
    assert switches["prev_pid"].to_list() == [0, 7]
    assert set(trace.events()) == {"cpu_frequency", "sched_switch", "sched_wakeup", "tracing_mark_write"}
    assert trace.markers()["rtapp_loop"]["event"].to_list() == ["start"]


def test_wrong_names_files_and_times_are_told(small: Path, tmp_path: Path) -> None:
    with pytest.raises(opplab.InputError, match='nearest name: "sched_switch"'):
        opplab.read_trace(small).events("sched_swich")
    with pytest.raises(FileNotFoundError):
        opplab.read_trace(tmp_path / "nothing.dat")
    (tmp_path / "noise").write_bytes(b"\x00\x01\x02 noise")
    with pytest.raises(opplab.FormatError, match="not a trace that is known here"):
        _ = opplab.read_trace(tmp_path / "noise").info
    assert "is not a time" in str(called("trace", "events", small, "--from", "noon").output)
    with pytest.raises(opplab.InputError, match=r"must end in \.parquet"):
        opplab.read_trace(small).export(tmp_path / "out.xlsx")


@pytest.mark.parametrize("suffix", [".dat", ".txt", ".pftrace"])
def test_exports_read_back(small: Path, tmp_path: Path, suffix: str) -> None:
    trace = opplab.read_trace(small)
    again = opplab.read_trace(trace.export(tmp_path / f"out{suffix}"))
    printed = {"print": "tracing_mark_write"}
    assert {printed.get(name, name): count for name, count in again.info["events"].items()} == trace.info["events"]
    assert again.events("cpu_frequency")["state"].to_list() == [1_000_000, 2_000_000]


def test_parquet_is_one_table_or_one_a_name(small: Path, tmp_path: Path) -> None:
    answered("trace", "export", small, "-o", tmp_path / "out.parquet")
    table = pl.read_parquet(tmp_path / "out.parquet")
    assert table["event"].to_list()[:2] == ["cpu_frequency", "sched_wakeup"]
    assert table.filter(event="cpu_frequency")["state"].to_list() == [1_000_000, 2_000_000]
    called("trace", "export", small, "-o", tmp_path / "folder", "-e", "sched_switch")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["sched_switch.parquet"]


def test_one_table_of_all_events_keeps_every_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of time join to the same table; fields that events disagree on are told apart."""
    big = (1 << 63) + 5
    events = {
        "a": pl.DataFrame({"time_ns": [1, 2, 2, 9], "cpu": [0, 1, 0, 0], "x": [-1, 2, 3, 4], "y": [1, 2, 3, 4]}),
        "b": pl.DataFrame({"time_ns": [2, 5], "cpu": [0, 0], "x": pl.Series([7, 8], dtype=pl.UInt32), "y": ["p", "q"]}),
        "c": pl.DataFrame({"time_ns": [3], "cpu": [0], "x": pl.Series([big], dtype=pl.UInt64)}),
    }
    events = {name: table.with_columns(pl.col("cpu").cast(pl.UInt16)) for name, table in events.items()}
    whole = frames.one_table(events)
    assert whole["event"].to_list() == ["a", "a", "b", "a", "c", "b", "a"]
    assert whole["x"].to_list() == [-1, 3, 7, 2, None, 8, 4]
    assert whole["c.x"].to_list() == [None, None, None, None, big, None, None]
    assert whole["b.y"].to_list() == [None, None, "p", None, None, "q", None]
    for size in (1, 2, 3):
        monkeypatch.setattr(frames, "SLICE", size)
        assert len(list(frames.slices(events))) > 2
        assert frames.one_table(events).equals(whole)


def test_damaged_files_give_what_can_be_read(tmp_path: Path) -> None:
    files = shared_traces()
    plain = next(path for path in files if path.name == "example_rtapp_trace.dat")
    packed = next(path for path in files if path.parent.name == "arm64-612-juno-eas-homog6")
    plain_bytes, packed_bytes = plain.read_bytes(), packed.read_bytes()
    middle = len(packed_bytes) // 2
    damaged = {
        "cut": (plain, plain_bytes[:-200_000]),
        "twice": (plain, plain_bytes + plain_bytes),
        "flipped": (packed, packed_bytes[:middle] + bytes([packed_bytes[middle] ^ 0x40]) + packed_bytes[middle + 1 :]),
    }
    for name, (whole, data) in damaged.items():
        (tmp_path / name).write_bytes(data)
        result = called("trace", "info", tmp_path / name, "--format", "json")
        events = json.loads(result.stdout)["events"]
        assert 0 < sum(events.values()) <= sum(opplab.read_trace(whole).info["events"].values()), name
        assert result.exit_code == 1, name
        assert re.search(rf"opplab: .*{name}: .*offset \d+", result.stderr), result.stderr


def test_counts_equal_those_of_trace_cmd() -> None:
    files = shared_traces()
    if not shutil.which("trace-cmd"):
        pytest.skip("trace-cmd is not installed")
    line = re.compile(r"^\s*.+-\d+\s+\[\d+\]\s+[\d.]+:\s+(\w+):", re.MULTILINE)
    assert len(files) > 4
    for path in files[:: max(1, len(files) // 5)]:
        report = subprocess.run(["trace-cmd", "report", path], capture_output=True, check=False)
        expected = Counter(line.findall(report.stdout.decode(errors="replace")))
        assert opplab.read_trace(path).info["events"] == expected, path


def test_exports_open_with_trace_cmd(small: Path, tmp_path: Path) -> None:
    if not shutil.which("trace-cmd"):
        pytest.skip("trace-cmd is not installed")
    out = opplab.read_trace(small).export(tmp_path / "out.dat")
    report = subprocess.run(["trace-cmd", "report", out], capture_output=True, check=True, text=True).stdout
    assert report.count("sched_switch") == 2


def test_signals_of_a_small_trace(small: Path, tmp_path: Path) -> None:
    trace = opplab.read_trace(small)
    plain = trace.signals()
    assert plain.running.filter(comm="worker").rows() == [
        (7, "worker", 0, 1_000_000, 1_890_000),
        (7, "worker", 0, 2_000_000, 2_110_000),
    ]
    assert plain.waits.select("pid", "wait_ns", "woken").rows() == [(7, 10_000, True)]
    (activation,) = plain.activations.to_dicts()
    assert (activation["latency_ns"], activation["response_ns"], activation["missed"]) == (10_000, 4_010_000, None)
    assert plain.cpu_energy is None
    late = trace.signals(deadline_us=4000).activations
    assert late["missed"].to_list() == [True]
    assert trace.signals(deadline_us=4011).activations["missed"].to_list() == [False]
    machine = opplab.Machine.load("juno-r2")
    with_energy = trace.signals(machine)
    assert with_energy.task_energy is not None
    assert with_energy.task_energy["energy_j"].to_list() == trace.energy(machine).tasks["energy_j"].to_list()
    result = called("trace", "signals", small, "-m", "juno-r2", "--format", "json", "-o", tmp_path / "tables")
    assert json.loads(result.stdout)["tasks"][0]["comm"] == "worker"
    assert (tmp_path / "tables" / "activations.parquet").is_file()


def test_a_task_that_runs_before_its_first_switch_runs_as_long_in_all_views(tmp_path: Path) -> None:
    """Goal: a part of a trace has the time of who ran at its start. Method: sums by hand, and those of energy."""
    switch = "sched_switch: prev_comm={0} prev_pid={1} prev_prio=120 prev_state={2} ==> next_comm={3} next_pid={4}"
    events = [
        (1_000_000, 1, "cpu_frequency: state=450000 cpu_id=0"),
        (1_000_000, 1, "cpu_frequency: state=600000 cpu_id=1"),
        (1_000_000, 1, "cpu_idle: state=4294967295 cpu_id=1"),
        (1_020_000, 1, "sched_waking: comm=long pid=7 prio=120 target_cpu=000"),
        (1_300_000, 1, switch.format("swapper", 0, "R", "other", 9)),
        (1_700_000, 0, switch.format("long", 7, "S", "next", 8)),
        (1_720_000, 1, "sched_waking: comm=long pid=7 prio=120 target_cpu=000"),
        (1_750_000, 0, switch.format("next", 8, "R", "long", 7)),
        (2_000_000, 0, switch.format("long", 7, "S", "swapper", 0)),
    ]
    lines = [
        f"x-1 [00{cpu}] {us / 1e6:.6f}: {what}{' next_prio=120' if 'next_' in what else ''}\n"
        for us, cpu, what in events
    ]
    (tmp_path / "cut.txt").write_text("".join(lines))
    trace, machine = opplab.read_trace(tmp_path / "cut.txt"), opplab.Machine.load("juno-r2")
    signals = trace.signals(machine)
    by_pid = {7: 950_000_000, 8: 50_000_000, 9: 700_000_000}
    assert dict(signals.running.group_by("pid").agg(pl.col("time_ns").sum()).iter_rows()) == by_pid
    assert dict(trace.energy(machine).tasks.select("pid", "running_ns").iter_rows()) == by_pid
    # Its first wake-up was over before a switch shows it, so that only the second has a wait.
    assert signals.waits.filter(pl.col("woken")).select("pid", "wait_ns").rows() == [(7, 30_000_000)]


def test_signals_refuse_a_machine_that_is_too_small(tmp_path: Path) -> None:
    path = tmp_path / "wide.txt"
    path.write_text(TEXT.replace("[000]", "[031]"))
    with pytest.raises(opplab.InputError, match="the trace has 32 CPUs, machine juno-r2 has 6"):
        opplab.read_trace(path).signals(opplab.Machine.load("juno-r2"))


def test_periodic_tasks_have_their_period_as_deadline(tmp_path: Path) -> None:
    run_of = opplab.simulate(
        opplab.Machine.load("juno-r2"),
        opplab.Workload.periodic(2, run_us=800, period_us=16000),
        opplab.Policy(kernel="5.18"),
        seconds=0.5,
    )
    with_events = run_of.events("activation")
    run_of.to_trace(tmp_path / "run.dat")
    activations = opplab.read_trace(tmp_path / "run.dat").signals().activations
    mine = activations.filter(pl.col("comm").str.starts_with("periodic"))
    assert mine["deadline_ns"].unique().to_list() == [16_000_000]
    assert mine["missed"].sum() == 0
    assert abs(len(mine) - len(with_events)) <= 4


def test_a_task_that_sleeps_for_a_set_time_cannot_be_late(tmp_path: Path) -> None:
    """The tables say the same: work that takes longer now and then is late for a timer only."""

    def task(wait: dict[str, object]) -> dict[str, object]:
        usual, long = ({"loop": loop, "run": run_us, **wait} for loop, run_us in ((9, 27000), (1, 36000)))
        return {"loop": -1, "phases": {"usual": usual, "long": long}}

    waits = {"by_timer": {"timer": {"ref": "unique", "period": 12000}}, "by_sleep": {"sleep": 1000}}
    work = {"tasks": {name: {**task(wait), "cpus": [cpu]} for cpu, (name, wait) in enumerate(waits.items(), 1)}}
    (tmp_path / "two.json").write_text(json.dumps(work))
    run_of = opplab.simulate(
        opplab.Machine.load("juno-r2"),
        opplab.Workload.load(tmp_path / "two.json"),
        opplab.Policy(governor="performance"),
        seconds=1.5,
    )
    run_of.to_trace(tmp_path / "run.dat")
    trace = opplab.read_trace(tmp_path / "run.dat")
    for table in (trace.signals().task_summary(), trace.signal_sums().task_summary()):
        late = dict(table.select(pl.col("comm").str.strip_chars("-0123456789"), "missed").iter_rows())
        assert late["by_timer"] > 5
        assert late["by_sleep"] is None


def test_tasks_that_never_sleep_are_named_beside_the_misses(tmp_path: Path) -> None:
    """Goal: counts of misses that leave tasks out say so. Method: the run knows who was late, and SQL of its loops."""
    tasks: dict[str, object] = {
        name: {"loop": -1, "run": run_us, "timer": {"ref": "unique", "period": 20000}, "cpus": [cpu]}
        for name, run_us, cpu in (("late", 25000, 0), ("light", 500, 1))
    }
    (tmp_path / "work.json").write_text(json.dumps({"tasks": tasks}))
    work = opplab.Workload.load(tmp_path / "work.json")
    run_of = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=1.0)
    ended = run_of.events("activation")
    names = run_of.outcome["task_names"]
    late = {names[task] for task in ended.filter(pl.col("slack_ns") < 0)["task"]}
    assert late == {"late-0"}
    run_of.to_trace(tmp_path / "run.txt")
    own = opplab.read_trace(tmp_path / "run.txt")
    counted = own.sql("select comm, sum(cast(slack < 0 as int)) as missed from activation group by comm")
    missed = ended.filter(pl.col("slack_ns") < 0).height
    assert dict(counted.iter_rows())["late-0"] == missed > 20
    assert own.signals().activations.filter(comm="late-0")["missed"].sum() == missed
    assert not any("misses leave out" in note for note in own.notes)
    # A kernel's recording does not say when an activation ends.
    lines = (tmp_path / "run.txt").read_text().splitlines(keepends=True)
    (tmp_path / "bare.txt").write_text("".join(line for line in lines if " activation: " not in line))
    trace = opplab.read_trace(tmp_path / "bare.txt")
    judged = trace.signals().activations.filter(pl.col("deadline_ns").is_not_null())["comm"].unique()
    assert set(judged) == {"light-1"}
    (left_out,) = [note for note in trace.notes if note.startswith("misses leave out")]
    assert left_out.startswith("misses leave out late-0: awake for more than half of the trace")
    shown = called("replay", tmp_path / "bare.txt", "-m", "juno-r2", "--mode", "closed").output
    assert "Outside of these counts: late-0" in " ".join(shown.split())


@pytest.mark.parametrize("mode", ["relative", "absolute"])
def test_late_activations_of_a_runs_trace_are_those_of_the_run(mode: str, tmp_path: Path) -> None:
    """A late frame and all up to the next sleep were one activation: 13 of 652 missed, of the run 68 of 719.

    Method: the run's own counts, in the tables and in the sums; a deadline of one's own is by the events alone.
    """
    timer = {"timer": {"ref": "unique", "period": 16667, "mode": mode}}
    frames = {"light": {"loop": 9, "run": 5500, **timer}, "heavy": {"loop": 2, "run": 33000, **timer}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"frame": {"loop": -1, "phases": frames}}}), name="w", file="<w>")
    run_of = opplab.simulate("juno-r2", work, opplab.Policy(variation="none"), seconds=3)
    values = dict(run_of.metrics.select("metric", "value").iter_rows())
    missed = round(values["missed_activations"] * values["activations"] / 100)
    run_of.to_trace(tmp_path / "run.txt")
    trace = opplab.read_trace(tmp_path / "run.txt")
    for found in (trace.signals("juno-r2"), trace.signal_sums("juno-r2")):
        (row,) = found.task_summary().filter(comm="frame-0").iter_rows(named=True)
        assert row["missed"] == missed > 20
        # The last one ended, and the next was not due.
        assert row["activations"] - values["activations"] in (0, 1)
    assert opplab.read_trace(tmp_path / "run.txt").signals(deadline_us=10**6).activations["missed"].sum() == 0


def test_a_runs_deadlines_are_those_of_its_marks(tmp_path: Path) -> None:
    """A run's trace states the deadlines of SCHED_DEADLINE; misses were counted by the period, and a note denied them.

    Method: the run's own count of late activations.
    """
    budget = {"policy": "SCHED_DEADLINE", "dl-runtime": 8000, "dl-deadline": 9000, "dl-period": 20000}
    timer = {"timer": {"ref": "unique", "period": 20000}}
    tasks = {
        "decoder": {
            "loop": -1,
            **budget,
            "phases": {"a": {"loop": 3, "run": 1000, **timer}, "b": {"run": 7000, **timer}},
        }
    }
    of = {"tasks": tasks, "global": {"calibration": "CPU1"}}
    work = opplab.Workload.parse(json.dumps(of), name="w", file="<w>")
    # At half of the clock 7 ms take longer than the deadline, and less than the period.
    run_of = opplab.simulate("juno-r2", work, opplab.Policy(variation="none", scaling_max_freq=600_000), seconds=2.0)
    run_of.to_trace(tmp_path / "run.txt")
    trace = opplab.read_trace(tmp_path / "run.txt")
    judged = trace.signals().activations.filter(pl.col("comm") == "decoder-0")
    assert judged["deadline_ns"].unique().to_list() == [9_000_000]
    assert not any("SCHED_DEADLINE" in note for note in trace.notes), trace.notes
    # The run writes each when the next one begins.
    late = (trace.events("activation").sort("time_ns")["slack"] < 0).to_list()
    assert judged.sort("time_ns")["missed"].head(len(late)).to_list() == late
    assert 10 < sum(late) < len(late)
    named = opplab.read_trace(tmp_path / "run.txt").signals(deadline_us=100_000)
    assert named.activations["missed"].sum() == 0


def test_missing_switches_are_noted_and_count_alike(tmp_path: Path) -> None:
    """Lines cut out of a text trace moved energy between tasks without a word, and two commands disagreed."""
    work = opplab.Workload.periodic(6, run_us=2000, period_us=8000)
    whole, cut = tmp_path / "whole.txt", tmp_path / "cut.txt"
    opplab.simulate("juno-r2", work, opplab.Policy(), seconds=1.0).to_trace(whole)
    lines = whole.read_text().splitlines()
    switches = [nth for nth, line in enumerate(lines) if ": sched_switch: " in line]
    gone = set(switches[50::40])
    cut.write_text("\n".join(line for nth, line in enumerate(lines) if nth not in gone) + "\n")
    machine = opplab.Machine.load("juno-r2")
    for path, missing in ((whole, False), (cut, True)):
        trace = opplab.read_trace(path)
        energy, signals = trace.energy(machine), trace.signals(machine)
        words = [note for note in trace.notes if "sched_switch events others are missing" in note]
        assert bool(words) == missing, trace.notes
        if missing:
            # Who left and who came differ where one is gone, unless it led from a task to itself by way of another's.
            breaks, of = map(int, re.findall(r"\d+", words[0])[:2])
            assert of == len(switches) - len(gone) and 0 < breaks <= len(gone)
        running = signals.running.group_by("pid").agg(pl.col("time_ns").sum()).sort("pid")
        counted = energy.tasks.select("pid", "running_ns").sort("pid")
        assert dict(running.iter_rows()) == dict(counted.iter_rows())
    replayed = answered("replay", cut, "-m", "juno-r2", "--mode", "open").stdout
    assert "sched_switch events others are missing" in " ".join(replayed.split())


def test_a_clock_that_jumps_is_noted(tmp_path: Path) -> None:
    """An hour of suspend counted as running, without a word.

    Method: the same events without the jump have no note; the words have the time that the energy grew by.
    """
    work = opplab.Workload.periodic(6, run_us=6000, period_us=8000)
    whole, late = tmp_path / "whole.txt", tmp_path / "late.txt"
    opplab.simulate("juno-r2", work, opplab.Policy(), seconds=1.0).to_trace(whole)

    def later(line: str) -> str:
        found = re.match(r"(.*\] +)(\d+\.\d+)(: .*)", line)
        return line if not found or float(found[2]) < 0.5 else f"{found[1]}{float(found[2]) + 3600:.9f}{found[3]}"

    late.write_text("\n".join(map(later, whole.read_text().splitlines())) + "\n")
    machine = opplab.Machine.load("juno-r2")
    running = {}
    for path in (whole, late):
        trace = opplab.read_trace(path)
        running[path] = trace.energy(machine).tasks["running_ns"].sum()
        trace.signals(machine)
        words = [note for note in trace.notes if note.startswith("no event in ")]
        assert bool(words) == (path == late)
        shown = answered("trace", "energy", path, "-m", "juno-r2").output
        assert ("no event in 3600" in shown) == (path == late)
    assert words[0].startswith("no event in 3600.0")
    # At least one CPU ran a task all the time.
    assert running[late] - running[whole] >= 3600 * 10**9


def test_deadline_tasks_are_judged_by_their_periods(tmp_path: Path) -> None:
    """Goal: a trace without the deadlines of SCHED_DEADLINE says by what it judges; their budgets are no group's."""
    switch = (
        "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} next_pid={} next_prio={}"
    )
    lines = ["# tracer: nop\n"]
    for nth in range(8):
        idle, task = ("swapper/0", 0, 120), ("control", 7, -1)
        wake = "sched_wakeup: comm=control pid=7 prio=-1 target_cpu=000"
        for at_us, event in (
            (0, wake),
            (10, switch.format(*idle, "R", *task)),
            (2000, switch.format(*task, "R", *idle)),
        ):
            lines.append(f"          <idle>-0     [000] d..3   1.{nth * 10000 + at_us:06}: {event}\n")
        for at_us, event in ((4000, switch.format(*idle, "R", *task)), (5000, switch.format(*task, "S", *idle))):
            lines.append(f"          <idle>-0     [000] d..3   1.{nth * 10000 + at_us:06}: {event}\n")
    (tmp_path / "deadline.txt").write_text("".join(lines))
    trace = opplab.read_trace(tmp_path / "deadline.txt")
    assert trace.signals().activations["deadline_ns"].unique().to_list() == [10_000_000]
    assert any(note.startswith("misses of control are by their periods") for note in trace.notes), trace.notes
    assert not any("control groups" in note for note in trace.notes)
    named = opplab.read_trace(tmp_path / "deadline.txt")
    assert named.signals(deadline_us=4000).activations["missed"].sum() == 8
    assert not any("periods" in note for note in named.notes)


def test_a_deadline_before_the_end_of_the_period_is_in_the_counts(tmp_path: Path) -> None:
    """Goal: rt-app's `dl-deadline` decides what is missed, and its log keeps rt-app's own slack."""
    deadline = {"policy": "SCHED_DEADLINE", "dl-runtime": 4000, "dl-deadline": 5000, "dl-period": 20000}
    task = {**deadline, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 20000}}
    (tmp_path / "work.json").write_text(json.dumps({"tasks": {"control": task}}))
    work = opplab.Workload.load(tmp_path / "work.json")
    run_of = opplab.simulate("juno-r2", work, opplab.Policy(governor="powersave"), seconds=1.0)
    metrics = dict(run_of.metrics.select("metric", "value").iter_rows())
    assert metrics["missed_activations"] == pytest.approx(100, abs=3)
    text = opplab.explain(run_of, task="control-0", why_slow=True).findings[0].text
    assert "activations were missed" in text
    run_of.rtapp_logs(tmp_path / "logs")
    (log,) = (tmp_path / "logs").glob("*control*")
    slacks = [int(line.split()[7]) for line in log.read_text().splitlines() if not line.startswith("#")]
    assert len(slacks) > 40 and min(slacks) > 0


def page_data(page: str) -> dict[str, object]:
    (data,) = re.findall(r'const DATA = "([^"]+)"', page)
    raw = zlib.decompress(base64.b64decode(data))
    size = int.from_bytes(raw[:4], "little")
    head: dict[str, object] = json.loads(raw[4 : 4 + size])
    return head


def test_the_view_is_one_file_that_holds_every_cpu(small: Path, tmp_path: Path) -> None:
    answered("trace", "view", small, "-m", "juno-r2", "-o", tmp_path / "view.html")
    page = (tmp_path / "view.html").read_text()
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", page)
    head = page_data(page)
    assert head["duration_ns"] == 4_110_000
    assert head["tasks"] == [[0, "<idle>"], [7, "worker"]]
    (cpu,) = head["cpus"]  # type: ignore[misc]
    assert cpu["series"]["run"] == {"steps": 1, "values": 1}  # type: ignore[index]
    assert {"freq", "power", "util"} <= set(cpu["series"])  # type: ignore[index]


def test_a_run_has_a_view_with_requests(tmp_path: Path) -> None:
    one = opplab.simulate(
        opplab.Machine.load("juno-r2"),
        opplab.Workload.periodic(2, run_us=800, period_us=16000),
        opplab.Policy(),
        seconds=0.1,
    )
    head = page_data(one.view(tmp_path / "run.html").read_text())
    assert any("req" in cpu["series"] for cpu in head["cpus"])  # type: ignore[attr-defined]


def test_energy_is_shared_out_to_the_last_part(small: Path, tmp_path: Path) -> None:
    machine = opplab.Machine.load("juno-r2")
    energy = opplab.read_trace(small).energy(machine)
    assert energy.exact
    # 4 ms on CPU 0 at 1 and 2 GHz: both beyond the table of the A53, whose highest OPP then counts.
    worker = energy.tasks.filter(pl.col("comm") == "worker").row(0, named=True)
    assert worker["running_ns"] == 4_000_000
    assert worker["cpu_j"] == pytest.approx(103.941e-3 * 4e-3)
    assert worker["shared_j"] == pytest.approx(57e-3 * 4e-3)
    nobody = energy.idle_j + energy.floor_j
    assert energy.tasks["energy_j"].sum() + nobody == pytest.approx(energy.total_j, rel=1e-12)
    assert energy.groups["group"].to_list() == ["worker"]
    shown = answered(
        "trace", "energy", small, "-m", "juno-r2", "--perfetto", tmp_path / "p.pftrace", "-o", tmp_path / "e"
    )
    assert "worker" in shown.output
    assert "note: CPU 0 is at 2000000 kHz, machine juno-r2 ends at 950000: such clocks count as that" in shown.output
    written = opplab.read_trace(tmp_path / "p.pftrace").info["events"]
    assert (written["sched_switch"], written["cpu_frequency"]) == (2, 2)
    assert pl.read_parquet(tmp_path / "e" / "energy_tasks.parquet").equals(energy.tasks)


@pytest.mark.parametrize("room", [0, 100, 1000, 2000, 4096])
def test_an_export_that_has_no_room_is_no_mistake_of_ours(small: Path, tmp_path: Path, room: int) -> None:
    """What polars raises where a file cannot grow is no error of the system's kind."""
    limit = "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room}, {room})); from opplab.__main__ import main; main()"
    out = tmp_path / "o.parquet"
    words = [sys.executable, "-c", limit, "trace", "export", str(small), "-o", str(out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(
        r"opplab: a table cannot be (read or written: File too large|written to its end.*)\n", done.stderr
    )
    assert not out.exists()


def test_another_machine_than_the_traces_is_noted(tmp_path: Path) -> None:
    """What its CPUs without events did is not known, and nothing else would show it."""
    path = tmp_path / "run.dat"
    work = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    opplab.simulate(opplab.Machine.load("juno-r2"), work, opplab.Policy(), seconds=0.1).to_trace(path)
    for words in (["signals"], ["energy"], ["view", "-o", tmp_path / "v.html"]):
        fits, other = (called("trace", words[0], path, "-m", name, *words[1:]) for name in ("juno-r2", "pixel4"))
        assert (fits.exit_code, other.exit_code) == (0, 0), (fits.output, other.output)
        misfit = "the trace is of 6 CPUs, machine pixel4 has 8"
        assert misfit not in fits.output and f"note: {misfit}" in other.output
    notes = re.findall(r"^<br>(.+)$", (tmp_path / "v.html").read_text(), re.MULTILINE)
    assert len(notes) > 1 and all(one.endswith(".") for one in notes), "each note is a sentence on its own line"
    assert any(misfit[1:] in one for one in notes)
    slow = called("explain", path, "--why-slow", "-m", "pixel4")
    assert isinstance(slow.exception, opplab.InputError)
    assert "the trace is of 6 CPUs, machine pixel4 has 8" in str(slow.exception)


def test_a_pages_parts_of_energy_add_up(tmp_path: Path) -> None:
    """By cluster and by task, each with what is nobody's; more tasks than have a row of their own."""
    machine = opplab.Machine.load("juno-r2")
    path = tmp_path / "run.dat"
    work = opplab.Workload.periodic(14, run_us=800, period_us=16000)
    opplab.simulate(machine, work, opplab.Policy(), seconds=0.2).to_trace(path)
    total_mj = 1e3 * opplab.read_trace(path).energy(machine).total_j
    answered("trace", "view", path, "-m", "juno-r2", "-o", tmp_path / "v.html")
    tables = re.findall(r"<th>(by \w+)</th>(.*?)</table>", (tmp_path / "v.html").read_text(), re.DOTALL)
    assert [name for name, _ in tables] == ["by cluster", "by task"]
    for _, rows in tables:
        parts = [float(mj) for mj in re.findall(r"<tr><td>[^<]*</td><td>([^<]*)</td>", rows)]
        assert sum(parts) == pytest.approx(total_mj, rel=2e-3)
    assert "other tasks" in tables[1][1]


def test_questions_in_sql(small: Path) -> None:
    trace = opplab.read_trace(small)
    found = trace.sql("select count(*) as n, min(state) as low from cpu_frequency")
    assert found.row(0) == (2, 1_000_000)
    ran = trace.sql("select comm, sum(time_ns) as ns from running group by comm")
    assert ran.rows() == [("worker", 4_000_000)]
    machine = opplab.Machine.load("juno-r2")
    spent = trace.sql("select t.comm, t.energy_j from energy_tasks t", machine)
    assert spent["comm"].to_list() == ["worker"]
    top = trace.sql("select cluster, max(khz) as khz from opps group by cluster order by khz", machine)
    assert top["khz"].to_list() == [950_000, 1_200_000]
    result = called("trace", "sql", small, "select comm from activatoins")
    assert result.exit_code != 0
    with pytest.raises(opplab.InputError, match="did you mean `activations`"):
        trace.sql("select comm from activatoins")
    with pytest.raises(opplab.InputError, match="it needs a machine"):
        trace.sql("select * from energy_tasks")
    with pytest.raises(opplab.InputError, match="failed to answer"):
        trace.sql("selct 1")
    with pytest.raises(opplab.InputError, match="failed to answer: a divisor is 0 in a row; CASE WHEN x <> 0"):
        trace.sql("select cast(time_ns as decimal) / 0 from sched_switch")
    listed = json.loads(called("trace", "sql", small, "--tables", "--format", "json").stdout)
    assert {"table": "sched_switch", "holds": "2 events"} in listed


@pytest.mark.parametrize("ending", ["txt", "dat", "pftrace"])
def test_a_trace_of_fewer_cpus_than_its_machine_is_noted(tmp_path: Path, ending: str) -> None:
    """Goal: nobody takes CPUs of another machine for idle ones of his own."""
    work = opplab.Workload.periodic(6, run_us=6000, period_us=16000)
    opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.3).to_trace(tmp_path / f"six.{ending}")
    for name, noted in (("pixel6", True), ("juno-r2", False)):
        trace = opplab.Trace(tmp_path / f"six.{ending}")
        trace.signals(opplab.Machine.load(name))
        words = r"of (6 CPUs|CPUs up to 5), machine pixel6 has 8"
        assert any(re.search(words, note) for note in trace.notes) == noted


def test_events_of_any_kind_begin_and_end_running(tmp_path: Path) -> None:
    """What ran around the only two switches counted as nothing, where other events showed 1 s of it."""
    a, b = "{0}_comm=a {0}_pid=7 {0}_prio=120", "{0}_comm=b {0}_pid=8 {0}_prio=120"
    lines = [
        "a-7 [000] d..2. 100.000000: sys_enter: NR 1 (1, 2, 3)",
        f"a-7 [000] d..2. 100.500000: sched_switch: {a.format('prev')} prev_state=R ==> {b.format('next')}",
        f"b-8 [000] d..2. 100.600000: sched_switch: {b.format('prev')} prev_state=R ==> {a.format('next')}",
        "a-7 [000] d..2. 101.100000: sys_enter: NR 1 (1, 2, 3)",
    ]
    path = tmp_path / "trace.txt"
    path.write_text("\n".join(lines) + "\n")
    trace = opplab.read_trace(path)
    for signals in (trace.signals(), trace.signals(opplab.Machine.load("juno-r2"))):
        running = signals.task_summary().select("pid", "running_ns")
        assert dict(running.iter_rows()) == {7: 1_000_000_000, 8: 100_000_000}


def test_a_snapshot_of_other_cpus_is_no_machine_of_a_trace(tmp_path: Path) -> None:
    """`trace signals` was refused beside one, although nobody had asked for its machine.

    Method: the signals are those without a snapshot; the machine that is asked for is refused.
    """
    text = shared("traces/x86-612-xeon16-any1-schedutil-pingpong/sysfs_before.txt").read_text()
    alone, beside = tmp_path / "alone", tmp_path / "beside"
    work = opplab.Workload.periodic(2, run_us=2000, period_us=16000)
    run_of = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.1)
    for folder in (alone, beside):
        folder.mkdir()
        run_of.to_trace(folder / "trace.dat")
    (beside / "sysfs_before.txt").write_text(text)
    traces = [opplab.read_trace(folder) for folder in (alone, beside)]
    summaries = [trace.signals().task_summary() for trace in traces]
    assert summaries[0].equals(summaries[1])
    assert any("(the trace has 6 CPUs, machine beside has 2)" in note for note in traces[1].notes), traces[1].notes
    with pytest.raises(opplab.errors.InputError, match="the trace has 6 CPUs"):
        traces[1].signals("auto")
