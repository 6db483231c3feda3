"""Files of somebody else: bombs, devices, names that leave a folder, control characters, damage.

Each test is a class of mistakes that was met; the limits themselves are tested beside the code that has them.
"""

import gzip
import json
import os
from pathlib import Path

import pytest
from test_cli import check_refused, opplab

from opplab import files, read_trace
from opplab.errors import InputError

WORK = '{"tasks": {"t": {"run": 800, "timer": {"ref": "unique", "period": 16000}}}}'
SWITCH = (
    "x-1 [000] 1.{0:06}: sched_switch: prev_comm=x prev_pid={1} prev_prio=120 prev_state=S ==> "
    "next_comm=y next_pid={2} next_prio=120\n"
)


def test_a_bomb_is_refused_and_may_be_allowed(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.gz"
    bomb.write_bytes(gzip.compress(gzip.compress(b"\n" * (40 << 20))))
    assert bomb.stat().st_size < 10_000
    check_refused("more than the 16777216 bytes allowed come out", "trace", "info", str(bomb))
    # Allowed, it is unpacked: and is no trace.
    check_refused("not a trace that is known here", "trace", "--max-unpacked", "100M", "info", str(bomb))
    asked = opplab("trace", "info", str(bomb), OPPLAB_MAX_UNPACKED="100000000")
    assert "not a trace that is known here" in asked.stderr


def test_sizes_of_what_is_read_have_a_limit(tmp_path: Path) -> None:
    for name, args in [
        ("m.toml", ["machine", "show"]),
        ("w.json", ["workload", "show"]),
        ("r.csv", ["compare"]),
        ("r.parquet", ["compare"]),
    ]:
        sparse = tmp_path / name
        with sparse.open("wb") as stream:
            stream.truncate(10 << 30)
        check_refused("bytes; at most", *args, str(sparse))


def test_devices_and_named_pipes_are_refused(tmp_path: Path) -> None:
    for args in (["workload", "show"], ["trace", "info"]):
        check_refused("neither a file nor a pipe" if args[0] == "trace" else "not a device", *args, "/dev/zero")
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    check_refused("pipe", "trace", "info", str(pipe))
    # A workload that may be a model of `learn` is looked into first.
    zero = tmp_path / "zero.toml"
    zero.symlink_to("/dev/zero")
    for file in (pipe, zero):
        check_refused("not a device or a named pipe", "run", "-w", str(file), "-m", "juno-r2")


@pytest.mark.parametrize(
    ("words", "args"),
    [
        ("more digits than any that is meant", ["run", "tbench", "-m", "juno-r2", "--set", "hz={}"]),
        ("more digits than any that is meant", ["run", "tbench", "-m", "juno-r2", "--vs", "hz={}"]),
        (
            "more digits than any that is meant",
            ["choose", "tbench", "-m", "juno-r2", "--search", "rate_limit_us=1..{}"],
        ),
        ("is not a list of CPUs", ["host", "affinity", "--evaluate", "--machine", "juno-r2", "--cpus", "0-{}"]),
    ],
)
def test_numbers_of_thousands_of_digits_are_no_mistake_of_ours(words: str, args: list[str]) -> None:
    check_refused(words, *(word.format("9" * 5000) for word in args))


@pytest.mark.parametrize("cpus", ["5-3", "\u00b2", "0-4294967295", "-", "", "1-"])
def test_cpus_that_are_no_list_are_refused(cpus: str) -> None:
    words = ["host", "affinity", "--evaluate", f"--cpus={cpus}", "--machine", "juno-r2"]
    check_refused("is not a list of CPUs such as 0,3-5", *words)


def test_an_export_is_not_mixed_with_another(tmp_path: Path) -> None:
    """Goal: a folder of events is of one trace, and no folder of results."""
    for number in (1, 2):
        (tmp_path / f"{number}.txt").write_text(SWITCH.format(1, 1, 2) * number)
    words = ["trace", "export", str(tmp_path / "1.txt"), "-o", str(tmp_path / "out")]
    assert opplab(*words).returncode == 0
    words[2] = str(tmp_path / "2.txt")
    assert opplab(*words).returncode == 0
    (tmp_path / "out/cpu_idle.parquet").write_bytes(b"of another")
    check_refused("it holds other files (cpu_idle.parquet)", *words)


def test_a_trace_without_events_is_named(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("# tracer: nop\n#\n")
    for more in ([], ["--format", "json"]):
        done = opplab("trace", "info", str(tmp_path / "t.txt"), *more)
        assert done.returncode == 0, done.stderr
        assert "t.txt: it holds no event" in done.stderr


def test_an_answer_without_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(WORK)
    words = ["meter", "rails", "--workload", str(tmp_path / "w.json"), "--machine", "juno-r2", "--seconds", "0.05"]
    done = opplab(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the run has no two: make it longer, or read more often" in done.stderr
    assert opplab(*words, "--every", "0.01").returncode == 0


LABELS = ["/tmp/x/ABS", "../../x", "a/b", "a_b", "a\nb", "a\x1b]0;x\x07b", "a\x00b", "x" * 300, "..", ".", "", " "]


def test_labels_become_names_that_stay_in_their_folder(tmp_path: Path) -> None:
    names = [files.safe_name(label) for label in LABELS]
    assert len(set(names)) == len(names), "kept apart"
    for label, name in zip(LABELS, names, strict=True):
        path = tmp_path / f"{name}.pftrace"
        path.write_bytes(b"")
        assert path.resolve().parent == tmp_path.resolve(), label
        assert files.printable(name) == name
    assert files.safe_name("tbench-1-schedutil") == "tbench-1-schedutil"


def test_an_experiments_labels_do_not_leave_its_folder(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text(WORK)
    outside = tmp_path / "outside"
    experiment = tmp_path / "e.toml"
    experiment.write_text(
        f"""
format = 1
name = "labels"
about = "labels that are paths"
machine = "juno-r2"
duration = "100ms"
iterations = 1

[[policy]]
label = "a[bold]c"
kernel = "5.18"

[[policy]]
label = "a[red]c"
kernel = "6.12"

[[workload]]
label = "{outside}/w"
rtapp = "{tmp_path}/w.json"
"""
    )
    done = opplab("run", str(experiment), "-o", str(tmp_path / "out"), "-j", "1")
    assert not outside.exists()
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "traces").iterdir())) == 2


def test_markup_in_labels_is_text(tmp_path: Path) -> None:
    """What opens or closes a markup tag is shown as it was written, and kept apart from what that looks like."""
    (tmp_path / "w.json").write_text(WORK)
    experiment = tmp_path / "e.toml"
    labels = ["a[/b]c", "a[bold]c", "ac", "[/]"]
    policy = '\n[[policy]]\nlabel = "{}"\ntunables = {{ rate_limit_us = {} }}\n'
    policies = "".join(policy.format(label, 1000 + index) for index, label in enumerate(labels))
    experiment.write_text(
        f"""
format = 1
name = "markup"
about = "labels with markup [/x]"
machine = "juno-r2"
duration = "50ms"
baseline = "a[/b]c"
{policies}
[[workload]]
label = "w[/red]"
rtapp = "{tmp_path}/w.json"
"""
    )
    out = tmp_path / "out"
    done = opplab("run", str(experiment), "-o", str(out), "-j", "1")
    assert done.returncode == 0, done.stderr
    for command in (["compare", str(out)], ["compare", str(out), "--format", "markdown"], ["status", str(out)]):
        done = opplab(*command)
        assert done.returncode == 0, done.stderr
        if command[0] == "compare":
            assert all(label in done.stdout for label in labels[1:]), done.stdout
    assert len(list((out / "traces").iterdir())) == len(labels)


def test_toml_of_a_later_version_is_one_line(tmp_path: Path) -> None:
    """Inline tables over several lines are TOML 1.1: the extension takes them, Python's reader does not."""
    experiment = tmp_path / "e.toml"
    data = Path(__file__).parents[2] / "python/opplab/data/experiments/hwp-boost.toml"
    text = data.read_text()
    assert "gates = { hwp" in text
    experiment.write_text(text.replace("gates = { hwp", "gates = {\n hwp", 1))
    check_refused("it is read as TOML 1.0 here", "run", str(experiment))


def test_control_characters_do_not_reach_the_terminal(tmp_path: Path) -> None:
    trace = tmp_path / "t.txt"
    evil = "\x1b]0;owned\x07\x1b[31mred"
    trace.write_text(f"{evil}-1 [000] 1.000000: sched_wakeup: comm={evil} pid=7 prio=120 target_cpu=000\n")
    for args in (["trace", "events"], ["trace", "events", "--format", "csv"], ["trace", "signals"]):
        done = opplab(*args, str(trace))
        # Nobody runs in it.
        assert done.returncode == (2 if "signals" in args else 0), done.stderr
        assert "\x1b" not in done.stdout + done.stderr
        assert "\x07" not in done.stdout + done.stderr
    work = tmp_path / "w.json"
    work.write_text(json.dumps({"tasks": {evil: {"run": 800, "timer": {"ref": "unique", "period": 16000}}}}))
    done = opplab("workload", "show", str(work))
    assert "\x1b" not in done.stdout + done.stderr


def test_one_damaged_event_costs_that_event(tmp_path: Path) -> None:
    trace = tmp_path / "t.txt"
    whole = SWITCH.format(100, 0, 7) + SWITCH.format(900, 7, 0)
    trace.write_text(SWITCH.format(50, 7, 0) + "x-1 [000] 1.000060: sched_switch: prev_comm=x prev_pi\n" + whole)
    for args in (["signals"], ["view", "-o", str(tmp_path / "t.html")], ["export", "-o", str(tmp_path / "t.dat")]):
        done = opplab("trace", args[0], str(trace), *args[1:])
        assert done.returncode == 1, done.stderr
        assert "line 2: sched_switch without a number for" in done.stderr
        assert "damaged; this is what could be read" in done.stderr


def test_a_clock_that_is_told_last_has_no_mean(tmp_path: Path) -> None:
    trace = tmp_path / "t.txt"
    text = SWITCH.format(100, 0, 7) + SWITCH.format(900, 7, 0)
    trace.write_text(text + "x-1 [000] 1.000900: cpu_frequency: state=1000 cpu_id=0\n")
    done = opplab("trace", "signals", str(trace), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["cpus"][0]["khz_mean"] is None


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "t.dat"
    target.write_text("before")

    def full(self: Path, content: bytes) -> int:
        with self.open("wb") as stream:
            stream.write(content[:1])
        raise OSError(28, "No space left on device", str(self))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match=r"No space left on device: .*t\.dat'$"):
        files.write_bytes(target, b"after")
    assert [file.name for file in tmp_path.iterdir()] == ["t.dat"]
    assert target.read_text() == "before"


@pytest.mark.parametrize(
    "content",
    [
        b"experiment,policy,metric,value\na,b,\xe9,1\n",
        b"metric,value\na,1,2,3\nb\n",
        b'metric,value\n"a,1\n',
        b"",
        b"metric,value\n" + b"\x00" * 40,
    ],
)
def test_compare_refuses_bad_tables(content: bytes, tmp_path: Path) -> None:
    table = tmp_path / "r.csv"
    table.write_bytes(content)
    done = opplab("compare", str(table))
    assert done.returncode in (0, 2), done.stderr
    assert "internal error" not in done.stderr


def test_a_path_that_is_not_utf8_is_one_line(tmp_path: Path) -> None:
    file = os.fsencode(tmp_path) + b"/t\xff.txt"
    Path(os.fsdecode(file)).write_text(SWITCH.format(100, 0, 7))
    for args in (["trace", "info"], ["workload", "show"], ["machine", "check"]):
        done = opplab(*args, os.fsdecode(file))
        assert done.returncode in (0, 2), done.stderr
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr


def test_damaged_metadata_is_told(tmp_path: Path) -> None:
    for text in ("[]", "{", "[" * 100_000, "\xff"):
        folder = tmp_path / f"out{len(text)}{ord(text[0])}"
        folder.mkdir()
        (folder / "manifest.json").write_text(text, encoding="latin-1")
        done = opplab("status", str(folder))
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["read_parquet", "READ_CSV", "read_csv /* x */ ", '"read_parquet"'])
def test_a_query_reads_no_other_file_unless_it_may(name: str, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("secret\n7\n")
    trace = read_trace(Path(__file__).parents[2] / "crates/trace/tests/data/perfetto_small.pftrace")
    with pytest.raises(InputError, match="reads any file"):
        trace.sql(f"select * from {name}('{other}')")
    assert trace.sql(f"select * from read_csv('{other}')", files=True)["secret"].to_list() == [7]
    assert trace.sql("select 'read_csv(x)' as word from sched_switch limit 1")["word"].to_list() == ["read_csv(x)"]
