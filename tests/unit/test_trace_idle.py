"""Idle decisions of recorded sleeps: `opplab trace idle`."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from click.testing import Result

import opplab
from opplab import _opplab
from opplab.trace import idle

from calls import answered, called
from testdata import shared

# Exit latency, target residency in us.
STATES = [(1, 10), (50, 500), (300, 3000)]


def sysfs() -> str:
    """Give the idle states of two CPUs as `grep . -r` prints them."""
    lines = [
        f"/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{number}/{name}:{value}\n"
        for cpu in (0, 1)
        for number, state in enumerate(STATES)
        for name, value in (("name", f"C{number}"), ("latency", state[0]), ("residency", state[1]))
    ]
    return "".join(lines)


# State and length of each stay in us, and whether a timer ends it.
STAYS = [(0, 200, True), (1, 5000, True), (2, 4000, True), (2, 100, False), (1, 700, False), (0, 5, False)]


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Give a trace with `STAYS` on CPU 0, each before 1 ms of a task, and the same without timers on CPU 1."""
    lines = []
    for cpu in (0, 1):
        now_us = 1_000_000
        for state, stay_us, by_timer in STAYS:
            lines.append((now_us, f"<idle>-0 [00{cpu}] {{}}: cpu_idle: state={state} cpu_id={cpu}"))
            now_us += stay_us
            lines.append((now_us, f"<idle>-0 [00{cpu}] {{}}: cpu_idle: state=4294967295 cpu_id={cpu}"))
            if by_timer and cpu == 0:
                timer = f"<idle>-0 [00{cpu}] {{}}: local_timer_entry: vector=236"
                lines.append((now_us + 1, timer))
            now_us += 1000
    path = tmp_path / "idle.txt"
    text = [line.format(f"{at_us / 1e6:.6f}") for at_us, line in sorted(lines)]
    path.write_text("\n".join(["# tracer: nop", *text, ""]))
    (tmp_path / "sysfs.txt").write_text(sysfs())
    return path


def run(path: Path, *args: str) -> Result:
    sysfs_copy = path.with_name("sysfs.txt")
    return called("trace", "idle", path, "--sysfs", sysfs_copy, "--format", "json", *args)


def test_differences_are_what_each_stay_was_worth(recorded: Path) -> None:
    result = run(recorded, "--differences")
    assert result.exit_code == 0, result.output
    rows = [row for row in json.loads(result.stdout) if row["governor"] == "oracle"]
    found = {(row["recorded"], row["chosen"], row["ended_by"], row["cpus"]): row["decisions"] for row in rows}
    # Who knows the stay takes the deepest state that it was long enough for; 12 stays are decided.
    assert found == {
        (1, 2, "timer", "0"): 1,
        (1, 2, "other", "1"): 1,
        (2, 0, "other", "0 1"): 2,
    }
    assert {row["share"] for row in rows} == {1 / 12, 2 / 12}
    assert not [row for row in json.loads(result.stdout) if row["governor"] == "recorded"]


def test_differences_are_those_that_decisions_count(recorded: Path) -> None:
    trace = opplab.read_trace(recorded)
    states = idle.states_of_sysfs(recorded.with_name("sysfs.txt"))
    counted = idle.decisions(trace, states).filter(pl.col("cpu").is_null())
    told = idle.differences(trace, states)
    sums = dict(told.group_by("governor").agg(pl.col("decisions").sum()).iter_rows())
    for governor, decisions, equal in counted.select("governor", "decisions", "equal").iter_rows():
        assert sums.get(governor, 0) == decisions - equal, governor
    assert (told["recorded"] != told["chosen"]).all()
    by_sum = told["decisions"] / told["share"]
    assert by_sum.to_list() == pytest.approx([12] * len(told))


@pytest.mark.parametrize("option", [[], ["--differences"]])
def test_a_trace_that_never_idles_is_told(recorded: Path, option: list[str]) -> None:
    recorded.write_text("# tracer: nop\nsh-1 [000] 1.0: cpu_frequency: state=1 cpu_id=0\n")
    result = run(recorded, *option)
    assert isinstance(result.exception, opplab.InputError)
    assert "no CPU goes idle" in str(result.exception)


@pytest.mark.parametrize(
    ("recording", "decisions", "equal_teo", "equal_menu"),
    [("6_12_sleep_length", 22221, 19718, 19522), ("mainline_tick_wakeups", 14089, 12578, 12490)],
)
def test_decisions_of_an_mt8196(recording: str, decisions: int, equal_teo: int, equal_menu: int) -> None:
    """Goal: the shares that docs/trace-accuracy.md has. Method: two recordings of 30 s with teo of other versions."""
    folder = shared("silicon/mt8196-idle")
    trace = opplab.read_trace(folder / f"trace_{recording}.dat")
    states = idle.states_of_sysfs(folder / f"sysfs_{recording}_before.txt.gz")
    table = idle.decisions(trace, states, kernel="6.12.117")
    total = {row["governor"]: row for row in table.filter(pl.col("cpu").is_null()).to_dicts()}
    assert total["recorded"]["equal"] == total["recorded"]["decisions"] == decisions
    assert (total["teo"]["equal"], total["menu"]["equal"]) == (equal_teo, equal_menu)
    # Too shallow stays are the kernel's own count to the last one.
    assert total["recorded"]["below"] == total["recorded"]["told_below"]


def test_a_trace_without_timers_says_that_it_judges_nobody(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "x-0 [000] 1.000000: cpu_idle: state=0 cpu_id=0\nx-0 [000] 1.002000: cpu_idle: state=4294967295 cpu_id=0\n"
    )
    told = answered("trace", "idle", path, "-m", "pixel6")
    assert "menu and teo choose by the time to the next timer" in " ".join(told.output.split())


@pytest.mark.parametrize("governor", ["menu", "teo"])
@pytest.mark.parametrize("name", ["run.pftrace", "run.dat", "run.txt"])
def test_traces_of_runs_have_the_timers_that_idle_governors_look_at(tmp_path: Path, name: str, governor: str) -> None:
    """The governor of the run decides on its trace as it did in the run."""
    machine = opplab.Machine.load("pixel6")
    task = {"loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 16667}}
    (tmp_path / "w.json").write_text(json.dumps({"tasks": {"a": task, "b": {"loop": -1, "run": 300, "sleep": 2700}}}))
    load = opplab.Workload.load(tmp_path / "w.json")
    run = opplab.simulate(machine, load, opplab.Policy(idle_governor=governor), seconds=1)
    run.to_trace(tmp_path / name)
    trace = opplab.read_trace(tmp_path / name)
    assert idle.shows_timers(trace)
    table = idle.decisions(trace, idle.states_of_machine(machine))
    total = {row["governor"]: row for row in table.filter(pl.col("cpu").is_null()).to_dicts()}
    assert total[governor]["equal_share"] > 0.95
    recorded = total["recorded"]["above"]
    assert abs(total[governor]["above"] - recorded) <= 0.02 * total["recorded"]["decisions"]
    # Each wake-up of a sleeping task is a timer's, and no CPU has more ticks than time for them.
    timers = trace.events("hrtimer_expire_entry")
    assert len(timers) >= len(trace.events("sched_waking").filter(pl.col("common_pid") == 0)) / 2
    assert len(timers) < len(trace.events("sched_waking")) + machine.nr_cpus * 250


def test_the_kernels_exit_latency_holds_the_entry() -> None:
    machine = opplab.Machine.load("juno-r2")
    state = machine.describe()["clusters"][0]["idle"][1]
    assert state["entry_latency_ns"] > 0
    told = idle.states_of_machine(machine)[0][1][0]
    assert told == state["entry_latency_ns"] + state["exit_latency_ns"]


def test_a_recording_brings_its_idle_states_along() -> None:
    """Without `--machine` a recording with its snapshot was refused, and `-m auto` was no machine.

    Method: its own machine, named as the other commands name it, and explain's way to the same table.
    """
    folder = shared("traces/x86-612-xeon16-hw1-schedutil-burst")
    plain, named = (called("trace", "idle", folder, *auto).stdout for auto in ([], ["-m", "auto"]))
    assert plain == named and plain.splitlines()[1].startswith("recorded")
    found = json.loads(called("explain", folder, "--idle", "--format", "json").stdout)
    own = json.loads(called("trace", "idle", folder, "--by-cpu", "--format", "json").stdout)
    assert found == own and found


def test_a_recording_s_snapshot_is_a_copy_of_sysfs(tmp_path: Path) -> None:
    """Its lines, which end with a bar, had no latency that is a number."""
    plain, snapshot = tmp_path / "plain.txt", tmp_path / "sysfs_before.txt"
    plain.write_text(sysfs())
    lines = [line.rpartition(":") for line in sysfs().splitlines()]
    snapshot.write_text("".join(f"{path}: {value}|\n" for path, _, value in lines))
    assert idle.states_of_sysfs(snapshot) == idle.states_of_sysfs(plain)


def test_the_governors_are_those_of_the_recorded_kernel(tmp_path: Path) -> None:
    """Goal: kernel and tick are the recording's, and what it does not show is named; 6.12.117 and 4 ms stood for all.

    Method: a run of another kernel and CONFIG_HZ, and the release that a recording's header has.
    """
    machine = opplab.Machine.load("pixel6")
    task = {"loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 16667}}
    (tmp_path / "w.json").write_text(json.dumps({"tasks": {"a": task, "b": {"loop": -1, "run": 300, "sleep": 2700}}}))
    load = opplab.Workload.load(tmp_path / "w.json")
    run = opplab.simulate(machine, load, opplab.Policy(kernel="6.6", hz=1000, idle_governor="menu"), seconds=0.5)
    run.to_trace(tmp_path / "run.dat")

    def table(**options: Any) -> tuple[list[dict[str, Any]], list[str]]:
        trace = opplab.read_trace(tmp_path / "run.dat")
        return idle.decisions(trace, machine, **options).to_dicts(), trace.notes

    own, notes = table()
    assert own == table(kernel="6.6", tick_us=1000)[0] != table(kernel="6.12.117", tick_us=4000)[0]
    assert not [note for note in notes if "assumed" in note]
    path = shared("silicon/mt8196-idle") / "trace_6_12_sleep_length.dat"
    assert _opplab.traced_kernel(str(path), False) == ("6.6.99", None)
    text = "x-0 [000] 1.000000: cpu_idle: state=0 cpu_id=0\nx-0 [000] 1.002000: cpu_idle: state=4294967295 cpu_id=0\n"
    (tmp_path / "t.txt").write_text(text)
    said = " ".join(answered("trace", "idle", tmp_path / "t.txt", "-m", "pixel6").output.split())
    assert "does not name its kernel: 6.12.117 is assumed" in said and "4000 us are assumed" in said


def test_what_the_kernel_did_not_count_is_blank(tmp_path: Path) -> None:
    """A trace without `cpu_idle_miss` had 0 misses of the kernel's own count."""
    path = tmp_path / "run.txt"
    states = [f"x-0 [000] 1.0{nth}: cpu_idle: state={1 if nth % 2 else 4294967295} cpu_id=0\n" for nth in range(10, 60)]
    miss = "x-0 [000] 1.600000: cpu_idle_miss: cpu_id=0 state=1 type=above\n"
    path.write_text("".join(states))
    rows = json.loads(answered("trace", "idle", path, "-m", "juno-r2", "--format", "json").stdout)
    assert {(row["told_above"], row["told_below"]) for row in rows} == {(None, None)}
    path.write_text("".join([*states, miss]))
    rows = json.loads(answered("trace", "idle", path, "-m", "juno-r2", "--format", "json").stdout)
    assert all(row["told_above"] is not None for row in rows)
