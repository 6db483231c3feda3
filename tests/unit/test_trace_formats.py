"""Events of real files of each format, counted by another tool and by opplab."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

import opplab

from calls import answered
from testdata import shared

MT8196 = "silicon/mt8196-idle/trace_6_12_sleep_length.dat"


def formats() -> ModuleType:
    """Give `tools/trace_formats.py`, which counts."""
    path = Path(__file__).parents[2] / "tools/trace_formats.py"
    spec = importlib.util.spec_from_file_location("trace_formats", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def needed(tool: str) -> None:
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed")


def check(path: Path, form: str, version: int = 0, *, at_least: int = 1) -> None:
    """Compare by name; `at_least` tells that something was counted."""
    info = opplab.read_trace(path).info
    assert (info["format"], info["version"], info["problems"]) == (form, version, []), path
    # trace-cmd 3.1.6 now and then ends without an error and without a word.
    tries = (formats().counted_by(path, form) for _ in range(5))
    tool, expected = next(((tool, counts) for tool, counts in tries if counts), ("", None))
    if expected is None:
        pytest.skip(f"the other tool says nothing of {path.name}")
    assert info["events"] == expected, (path, tool)
    assert sum(expected.values()) >= at_least, path


@pytest.mark.parametrize(
    ("file", "form", "version", "at_least"),
    [
        ("data/lisa/example_rtapp_trace.dat", "trace.dat", 6, 7000),
        ("data/trappy/tests/raw_trace.dat", "trace.dat", 6, 100),
        (MT8196, "trace.dat", 7, 120_000),
        ("silicon/mt8196-idle/trace_mainline_tick_wakeups.dat", "trace.dat", 7, 80_000),
        ("data/lisa/trace_txt/trace.txt", "ftrace text", 6, 2000),
        ("data/trappy/tests/trace_systrace.html", "systrace HTML", 0, 5),
        ("data/trappy/tests/trace_legacy_systrace.html", "systrace HTML", 0, 5),
    ],
)
def test_events_are_those_of_another_tool(file: str, form: str, version: int, at_least: int) -> None:
    path = shared(file)
    if form == "trace.dat":
        needed("trace-cmd")
    check(path, form, version, at_least=at_least)


@pytest.mark.parametrize(("version", "compression"), [(6, "none"), (7, "none"), (7, "zstd"), (7, "zlib")])
def test_events_of_each_compression(version: int, compression: str, tmp_path: Path) -> None:
    """trace-cmd writes a real recording again, in each version and with each compression that it knows."""
    path = shared(MT8196)
    needed("trace-cmd")
    out = tmp_path / "trace.dat"
    command = ["trace-cmd", "convert", "-i", path, "-o", out, "--file-version", str(version)]
    done = subprocess.run([*command, "--compression", compression], capture_output=True, text=True, check=False)
    if "not supported" in done.stdout + done.stderr:
        pytest.skip(f"this trace-cmd has no {compression}")
    assert out.exists(), done.stderr
    check(out, "trace.dat", version, at_least=120_000)


@pytest.mark.parametrize("tool", ["gzip", "xz", "zstd"])
def test_events_of_a_file_that_is_compressed_as_a_whole(tool: str, tmp_path: Path) -> None:
    path = shared("data/lisa/example_rtapp_trace.dat")
    needed("trace-cmd")
    needed(tool)
    suffix = {"gzip": ".gz", "xz": ".xz", "zstd": ".zst"}[tool]
    packed = tmp_path / f"trace.dat{suffix}"
    with packed.open("wb") as out:
        subprocess.run([tool, "-c", path], stdout=out, check=True)
    check(packed, "trace.dat", 6, at_least=7000)


@pytest.mark.parametrize(
    "options", [["-e", "sched:sched_switch"], ["-z", "-e", "sched:*"], ["-g", "-e", "cpu-clock", "-e", "sched:*"]]
)
def test_events_of_perf(options: list[str], tmp_path: Path) -> None:
    """What perf records on this host, as a file and as its text; where that is allowed."""
    needed("perf")
    recorded, text = tmp_path / "perf.data", tmp_path / "perf.txt"
    command = ["perf", "record", "-q", "-a", "-o", recorded, *options, "sleep", "0.2"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("perf may not record scheduling events here")
    # The first word of a version is that of its format.
    info = opplab.read_trace(recorded).info
    check(recorded, "perf.data", info["version"], at_least=10)
    with text.open("wb") as out:
        subprocess.run(["perf", "script", "-i", recorded], stdout=out, stderr=subprocess.DEVNULL, check=True)
    read = opplab.read_trace(text)
    assert read.info["events"] == info["events"]
    assert read.problems == []


def test_switches_of_single_tasks_are_damage(tmp_path: Path) -> None:
    """Whoever was next counted as running up to the next switch of the recorded task: rustc for 44 of 51 ms."""
    needed("perf")
    for words, single in (([], True), (["-a"], False)):
        path = tmp_path / f"{single}.data"
        command = [
            "perf",
            "record",
            "-q",
            *words,
            "-o",
            path,
            "-e",
            "sched:sched_switch",
            "sh",
            "-c",
            "sleep 0.1; true",
        ]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("perf may not record scheduling events here")
        trace = opplab.read_trace(path)
        assert trace.info["events"]["sched_switch"] > 0
        assert ["it is of single tasks (perf record without -a)" in one for one in trace.problems] == [True] * single


def test_events_of_perfetto(tmp_path: Path) -> None:
    """By Google's messages, where they are installed."""
    pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    out = opplab.read_trace(shared(MT8196)).export(tmp_path / "trace.pftrace")
    check(out, "perfetto", at_least=120_000)


def waits_of(file: Path) -> list[tuple[object, ...]]:
    """Give all waits for a CPU."""
    return opplab.read_trace(file).sql("select pid, woken, wait_ns from waits order by pid, time_ns, wait_ns").rows()


def replay_of(file: Path, machine: str) -> dict[str, object]:
    """Give a replay."""
    words = ["replay", str(file), "--machine", machine, "--governor", "performance", "--format", "json"]
    done = answered(*words)
    return {name: value for name, value in json.loads(done.stdout).items() if name != "trace"}


def exported(file: Path, folder: Path) -> list[Path]:
    """Give a trace in all forms."""
    files = [folder / f"{file.stem}-{file.suffix[1:]}{suffix}" for suffix in (".dat", ".txt", ".pftrace")]
    for one in files:
        opplab.read_trace(file).export(one)
    return files


def test_a_run_has_one_answer_in_every_format(tmp_path: Path) -> None:
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    run = opplab.simulate("pixel4", work, opplab.Policy(tunables={"rate_limit_us": 10000}), seconds=1)
    files = [tmp_path / "run.dat", tmp_path / "run.pftrace"]
    run.to_trace(files[0])
    run.to_perfetto(files[1])
    files += [one for file in list(files) for one in exported(file, tmp_path)]
    files += exported(files[3], tmp_path)
    waits, replayed = waits_of(files[0]), replay_of(files[0], "pixel4")
    assert waits
    for file in files[1:]:
        assert waits_of(file) == waits, file
        assert replay_of(file, "pixel4") == replayed, file


def test_a_recording_has_the_same_wakeups_in_every_format(tmp_path: Path) -> None:
    # Without the snapshots beside it.
    file = tmp_path / "recording.dat"
    shutil.copy(shared("traces/arm64-612-juno-eas-homog6/trace.dat"), file)
    copies = exported(file, tmp_path)
    assert replay_of(copies[0], "juno-r2") == replay_of(file, "juno-r2")
    for copy in copies:
        assert waits_of(copy) == waits_of(file), copy


def test_names_that_look_like_a_text_s_own_words_are_names(tmp_path: Path) -> None:
    """Goal: a task may have any name. Method: by pid, as text, trace.dat, and trace-cmd's text of that."""
    needed("trace-cmd")
    comms = ["w-2 [001]", "a => b", "e ==> f", "x: y", "foo 12", "[000]", "i:j:9 [120]", "d prev_pid", "pid=5"]
    lines = []
    for nth, comm in enumerate(comms):
        at = [f"1.{2 * nth + up:09d}" for up in (1, 2)]
        own = f"{comm:>16}-{nth + 7:<5} [002]"
        lines += [
            f"{own} {at[0]}: sched_waking: comm={comm} pid={nth + 7} prio=120 target_cpu=000\n",
            f"{own} {at[1]}: sched_switch: prev_comm={comm} prev_pid={nth + 7} prev_prio=120 prev_state=S ==> "
            f"next_comm={comm} next_pid={nth + 7} next_prio=120\n",
        ]
    (tmp_path / "a.txt").write_text("".join(lines))
    opplab.read_trace(tmp_path / "a.txt").export(tmp_path / "a.dat")
    report = subprocess.run(["trace-cmd", "report", "-t", tmp_path / "a.dat"], capture_output=True, check=True).stdout
    (tmp_path / "report.txt").write_bytes(report)
    expected = [(comm, nth + 7) for nth, comm in enumerate(comms)]
    for name in ("a.txt", "a.dat", "report.txt"):
        trace = opplab.read_trace(tmp_path / name)
        switches, wakings = trace.events("sched_switch"), trace.events("sched_waking")
        assert set(switches["cpu"]) == set(wakings["cpu"]) == {2}, name
        assert list(switches.select("prev_comm", "prev_pid").iter_rows()) == expected, name
        assert list(switches.select("next_comm", "next_pid").iter_rows()) == expected, name
        assert list(wakings.select("comm", "pid").iter_rows()) == expected, name


def test_a_process_tree_has_the_names_of_events(tmp_path: Path) -> None:
    """/proc appends to a kworker what it works on, and a kthread has no command whose last part is its name."""

    def number(value: int) -> bytes:
        return bytes([*(value >> 7 * at & 0x7F | 0x80 for at in range((value.bit_length() - 1) // 7)),
                      value >> (value.bit_length() - 1) // 7 * 7])  # fmt: skip

    def field(tag: int, value: int | bytes) -> bytes:
        if isinstance(value, int):
            return number(tag << 3) + number(value)
        return number(tag << 3 | 2) + number(len(value)) + value

    names = {50001: (2, b"kworker/0:1-events"), 50002: (2, b"ksoftirqd/0"), 50003: (1, b"/usr/bin/sh")}
    tree = b"".join(
        field(1, field(1, pid) + field(2, parent) + field(3, name)) for pid, (parent, name) in names.items()
    )
    tree += field(2, field(1, 50004) + field(2, b"kworker/u8:3-flush-8:0") + field(3, 50004))
    run = opplab.simulate(
        "juno-r2", opplab.Workload.periodic(1, run_us=100, period_us=10000), opplab.Policy(), seconds=0.05
    )
    run.to_perfetto(tmp_path / "run.pftrace")
    (tmp_path / "more.pftrace").write_bytes(field(1, field(2, tree)) + (tmp_path / "run.pftrace").read_bytes())
    found = opplab.Trace(tmp_path / "more.pftrace").task_names()
    assert [found[pid] for pid in range(50001, 50005)] == ["kworker/0:1", "ksoftirqd/0", "sh", "kworker/u8:3"]


def test_a_gap_of_a_text_ends_with_the_next_event_of_its_cpu(tmp_path: Path) -> None:
    """The kernel prints the gap in front of the event behind it; it ended with the event before, an event too early.

    Method: a text with a gap of CPU 1 beside events of CPU 0, and its copies
    (kernel/trace/trace.c:print_trace_line(), v6.12).
    """
    switch = (
        "sched_switch: prev_comm=a prev_pid={} prev_prio=120 prev_state=S ==> next_comm=b next_pid={} next_prio=120"
    )
    lines = [
        f"a-7 [001] 1.000000: {switch.format(0, 7)}",
        f"a-7 [001] 1.100000: {switch.format(7, 8)}",
        "CPU:1 [LOST 34 EVENTS]",
        f"a-7 [000] 1.200000: {switch.format(0, 9)}",
        f"b-8 [001] 1.300000: {switch.format(9, 8)}",
        f"a-7 [000] 1.400000: {switch.format(9, 0)}",
    ]
    path = tmp_path / "a.txt"
    path.write_text("# tracer: nop\n" + "".join(line + "\n" for line in lines))
    assert opplab.read_trace(path).info["missed"] == [(1, 1_300_000_000, 34)]
    for name in ("b.txt", "c.dat"):
        copy = opplab.read_trace(opplab.read_trace(path).export(tmp_path / name))
        assert copy.info["missed"] == [(1, 1_300_000_000, 34)], name
    assert (tmp_path / "b.txt").read_text().splitlines()[-3] == "CPU:1 [LOST 34 EVENTS]"
