"""An answer from a damaged trace says so and ends with 1, whichever command gives it and whatever the format."""

from __future__ import annotations

import gzip
import shutil
import warnings
from pathlib import Path

import click
import pytest

import opplab
from opplab.cli.main import opplab as command_line
from opplab.trace.damage import DamagedTraceWarning

from calls import answered, called
from testdata import shared

MACHINE = ("--machine", "juno-r2")

# What each command is called with, {} for the trace and {out} for a file or folder to write.
COMMANDS: dict[str, list[str]] = {
    "trace info": ["{}"],
    "trace events": ["{}", "--limit", "3"],
    "trace export": ["{}", "-o", "{out}.txt"],
    "trace signals": ["{}", *MACHINE],
    "trace energy": ["{}", *MACHINE],
    "trace idle": ["{}", *MACHINE],
    "trace sql": ["{}", "select count(*) as n from sched_switch"],
    "trace view": ["{}", "-o", "{out}.html"],
    "trace to-rtapp": ["{}", *MACHINE],
    "replay": ["{}", *MACHINE, "--mode", "open"],
    "explain": ["{}", *MACHINE, "--cpu", "0"],
    "learn": ["{}", "-o", "{out}.toml"],
    "choose": [
        *("{}", *MACHINE, "--governor", "schedutil,powersave", "--seconds", "0.01"),
        *("--iterations", "1", "--uncertainty", "0", "-o", "{out}"),
    ],
    "verify traces": ["{}"],
}

# Other things that a command answers from a trace.
MORE = [
    ("explain", ["{}", *MACHINE, "--why-slow"]),
    ("explain", ["{}", *MACHINE, "--idle"]),
    ("explain", ["{}", *MACHINE, "--task", "periodic0", "--at", "10ms"]),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The trace of a run in each format that can be written."""
    folder = tmp_path_factory.mktemp("whole")
    found = opplab.simulate(
        opplab.Machine.load("juno-r2"),
        opplab.Workload.periodic(2, run_us=1600, period_us=16000),
        opplab.Policy(),
        seconds=2.0,
    )
    found.to_trace(folder / "run.dat")
    trace = opplab.read_trace(folder / "run.dat")
    files = {name: trace.export(folder / f"run.{name}") for name in ("txt", "pftrace")}
    (folder / "run.gz").write_bytes(gzip.compress(files["txt"].read_bytes()))
    return {"dat": folder / "run.dat", **files, "gz": folder / "run.gz"}


def cut(path: Path, folder: Path) -> Path:
    """The first 60 % of a file."""
    data = path.read_bytes()
    end = len(data) * 6 // 10
    # Text that ends with a whole line is no less a trace: the cut goes through a line.
    if path.suffix == ".txt":
        end = data.rfind(b"\n", 0, end) + 30
    (folder / path.name).write_bytes(data[:end])
    return folder / path.name


def with_option() -> set[str]:
    """The commands that take --damaged-ok."""
    found = set()

    def walk(command: click.Command, words: tuple[str, ...]) -> None:
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                if inner is not None:
                    walk(inner, (*words, name))
        elif any("--damaged-ok" in option.opts for option in command.params):
            found.add(" ".join(words))

    walk(command_line, ())
    return found


def test_each_command_that_answers_from_a_trace_is_tried() -> None:
    assert with_option() == set(COMMANDS)


@pytest.mark.parametrize("form", ["dat", "txt", "pftrace", "gz"])
def test_each_command_names_damage_and_ends_with_1(whole: dict[str, Path], form: str, tmp_path: Path) -> None:
    damaged = str(cut(whole[form], tmp_path))
    silent = []
    for number, (command, words) in enumerate([*COMMANDS.items(), *MORE]):
        if command == "verify traces":
            continue
        for word in ("", "--damaged-ok"):
            out = str(tmp_path / f"out{number}{word}")
            filled = [one.replace("{out}", out).replace("{}", damaged) for one in words]
            done = called(*command.split(), *filled, *([word] if word else []))
            said = f"{damaged}: damaged; this is what could be read" in done.stderr
            if not said or done.exit_code != (0 if word else 1):
                silent.append((command, filled, done.exit_code, done.stderr, done.exception))
    assert not silent, "\n".join(map(str, silent))


def test_whole_traces_are_not_damaged(whole: dict[str, Path]) -> None:
    for path in whole.values():
        for command in ("trace info", "replay", "explain"):
            answered(*command.split(), *(word.replace("{}", str(path)) for word in COMMANDS[command]))


def test_recomputed_decisions_of_a_damaged_recording_say_so(tmp_path: Path) -> None:
    folder = tmp_path / "recording"
    shutil.copytree(shared() / "traces" / "arm64-612-juno-eas-homog6", folder)
    data = bytearray((folder / "trace.dat").read_bytes())
    # Within the compressed pages of a CPU.
    data[len(data) // 2] ^= 0x40
    (folder / "trace.dat").write_bytes(data)
    done = called("verify", "traces", folder)
    assert "damaged; this is what could be read" in done.stderr
    assert done.exit_code == 1, done.stderr
    assert "recording signal_tasks" in done.stdout


def test_signals_of_no_event_are_refused(tmp_path: Path) -> None:
    trace = tmp_path / "none.txt"
    trace.write_text("# tracer: nop\n   a-7     [000] ..... 1.000001: tracing_mark_write: hello\n")
    done = called("trace", "signals", trace)
    assert "no event that signals follow from" in str(done.exception)
    assert not done.stdout


def test_a_program_is_warned_where_the_result_has_no_place_for_damage(whole: dict[str, Path], tmp_path: Path) -> None:
    damaged = cut(whole["pftrace"], tmp_path)
    with pytest.warns(DamagedTraceWarning, match="damaged; the answer is from what could be read: offset"):
        opplab.explain(damaged, why_slow=True, machine=opplab.Machine.load("juno-r2"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace = opplab.read_trace(damaged)
        trace.events("sched_switch")
    assert trace.problems


def test_answers_that_do_not_follow_control_groups_say_so(whole: dict[str, Path], tmp_path: Path) -> None:
    lines = whole["txt"].read_text().splitlines(keepends=True)
    switch = next(line for line in lines if "sched_switch" in line)
    head = switch[: switch.index("sched_switch")]
    moved = "cgroup_attach_task: dst_root=1 dst_id=5 dst_level=1 dst_path=/top-app pid=7 comm=a\n"
    trace = tmp_path / "groups.txt"
    lines.insert(lines.index(switch), head + moved)
    trace.write_text("".join(lines))
    note = f"{trace}: note: control groups are not followed (the trace has 1 moves into groups)"
    for command in ("trace signals", "replay", "explain", "choose", "trace to-rtapp"):
        words = [one.replace("{out}", str(tmp_path / "out")).replace("{}", str(trace)) for one in COMMANDS[command]]
        done = called(*command.split(), *words)
        assert note in done.stderr, (command, done.stderr, done.exception)
        assert done.exit_code == 0, command
        assert (
            note not in called(*command.split(), *[one.replace(str(trace), str(whole["txt"])) for one in words]).stderr
        )


def test_whole_numbers_of_the_kernels_text_are_no_ns(tmp_path: Path) -> None:
    """The kernel's own text does not name its clock: 0.25 s by `counter` took "0.000000207 s", without a word."""
    switch = "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120"
    path = tmp_path / "trace.txt"
    for times, word in ((("3", "210"), True), (("3206457610723", "3206457627797"), True), (("0.000003", "1.5"), False)):
        path.write_text("".join(f"   a-7     [001] d..2. {time}: {switch}\n" for time in times))
        done = called("trace", "signals", path)
        said = "its clock counter, uptime or x86-tsc counts events, ticks or cycles" in done.stderr
        assert (done.exit_code, said) == (int(word), word), times
        # A copy has points in its times, and names the clock.
        called("trace", "export", path, "-o", tmp_path / f"{word}.txt")
        assert called("trace", "info", tmp_path / f"{word}.txt").exit_code == int(word)


@pytest.mark.parametrize(("clock", "unit"), [("x86-tsc", "cycles of a counter"), ("counter", "events"), ("mono", "")])
def test_clocks_that_count_no_ns_are_named(tmp_path: Path, clock: str, unit: str) -> None:
    """A recording of 0.5 s by the clock of a processor took "1.35 s", without a word."""
    switch = "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120"
    path = tmp_path / "run.txt"
    path.write_text(f"# clock: {clock}\na-7 [001] 1.000000: {switch}\nb-8 [001] 1.010000: {switch}\n")
    for command in ("info", "signals", "events"):
        done = called("trace", command, path)
        assert (done.exit_code, "damaged" in done.stderr) == (int(bool(unit)), bool(unit))
        assert not unit or f"its clock {clock} counts {unit}: what stands here as s and ns are {unit}" in done.stderr
    # Perfetto's format has no such clock; a copy said "boot".
    shown = called("trace", "export", path, "-o", tmp_path / "run.pftrace")
    words = f"those of clock {clock} are {unit}: export it as text or trace.dat"
    assert isinstance(shown.exception, opplab.InputError) == bool(unit)
    assert not unit or words in str(shown.exception)
    assert (tmp_path / "run.pftrace").exists() == (not unit)
