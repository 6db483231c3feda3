"""Faults of disks and neighbours: damaged results, two runs in one folder, closed streams, our own mistakes."""

import fcntl
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
from test_cli import check_refused, opplab

from opplab import Experiment, files
from opplab.errors import FormatError, InputError, InternalError
from opplab.report import html
from opplab.sweep import runner
from opplab.sweep.store import Store

OPPLAB = [sys.executable, "-m", "opplab"]

SMALL = ["run", "juno-eas", "--iterations", "1", "--seconds", "0.05", "--no-report", "-j", "1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fire") / "whole"
    Experiment.load("juno-eas", iterations=1, seconds=0.05).run(folder, jobs=1)
    return folder


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Give all files of a results folder but what was set aside."""
    found = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {name: data for name, data in found.items() if not name.startswith("damaged/")}


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :]


@pytest.mark.parametrize("damage", ["empty", "cut", "head", "middle", "end", "another"])
def test_a_damaged_case_is_named_set_aside_and_run_again(whole: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    file, other = sorted((folder / "cases").iterdir())[3:5]
    data = file.read_bytes()
    damaged = {
        "empty": b"",
        "cut": data[:-7],
        "head": flipped(data, 0),
        "middle": flipped(data, len(data) // 2),
        "end": flipped(data, len(data) - 9),
        "another": other.read_bytes(),
    }[damage]
    file.write_bytes(damaged)
    done = opplab(*SMALL, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert file.name in done.stderr
    what = {"empty": "is empty", "another": "has the results of another case"}.get(damage, "is damaged")
    assert f"{what}; it is in {folder}/damaged now" in done.stderr.replace(
        ": its checksum is not that of its content", ""
    )
    assert "1 case in" in done.stderr
    assert [aside.read_bytes() for aside in (folder / "damaged").iterdir()] == [damaged]
    assert bytes_of(folder) == bytes_of(whole)


def test_every_flipped_byte_of_a_case_is_found(whole: Path, tmp_path: Path) -> None:
    file = min((whole / "cases").iterdir())
    store = Store(tmp_path / "out")
    store.create({})
    place = store.path / "cases" / file.name
    data = file.read_bytes()
    for at in range(0, len(data), max(len(data) // 300, 1)):
        place.write_bytes(flipped(data, at))
        assert store.whole([file.stem]) == set(), at
    place.write_bytes(data)
    assert store.whole([file.stem]) == {file.stem}
    store.release()


def test_a_case_that_is_damaged_while_a_sweep_runs_is_named(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    file = min((folder / "cases").iterdir())
    file.write_bytes(b"")
    with pytest.raises(FormatError, match=f"{file.name} is empty"):
        Store(folder).merge([file.stem])


def test_status_names_damaged_cases_and_changes_nothing(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    file = min((folder / "cases").iterdir())
    file.write_bytes(flipped(file.read_bytes(), 200))
    before = bytes_of(folder)
    text = opplab("status", str(folder))
    total = len(list((folder / "cases").iterdir()))
    assert f"{total - 1} of {total} cases finished, 0 left, 0 failed, 1 damaged" in text.stdout
    assert f"{file} is damaged: its checksum is not that of its content" in text.stdout
    rows = json.loads(opplab("status", str(folder), "--format", "json").stdout)
    assert [row["case"] for row in rows if row["state"] == "damaged" and row["error"]] == [file.stem]
    assert bytes_of(folder) == before and (text.returncode, text.stderr) == (0, "")


def test_a_damaged_manifest_is_set_aside(whole: Path, tmp_path: Path) -> None:
    for number, text in enumerate(("", "{", '{"format": 1, "cases": [1]}', '{"format": 7}')):
        folder = tmp_path / f"out{number}"
        shutil.copytree(whole, folder)
        (folder / "manifest.json").write_text(text)
        check_refused("manifest.json:1:", "status", str(folder))
        done = opplab(*SMALL, "-o", str(folder))
        assert done.returncode == 0, done.stderr
        assert bytes_of(folder) == bytes_of(whole)


def test_two_runs_in_one_folder(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(whole, folder)
    with Store(folder) as store:
        store.create(json.loads((folder / "manifest.json").read_text()))
        check_refused(f"process {os.getpid()} on ", *SMALL, "-o", str(folder))
        with pytest.raises(InputError, match="writes there"):
            Store(folder).create({})
    # It is free when that one is done, or was killed: then its lock is there, but nobody holds it.
    (folder / ".lock").write_text("process 1 on elsewhere\n")
    done = opplab(*SMALL, "-o", str(folder))
    assert done.returncode == 0, done.stderr
    assert bytes_of(folder) == bytes_of(whole)


def test_results_are_on_the_disk_before_they_have_their_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(number: int) -> None:
        said.append(f"fsync {Path(f'/proc/self/fd/{number}').readlink().name}")
        sync(number)

    def replaced(self: Path, target: Path) -> Path:
        said.append(f"rename {Path(target).name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    files.write_bytes(tmp_path / "r", b"x")
    assert said == [f"fsync .r.{os.getpid()}.tmp", "rename r", f"fsync {tmp_path.name}"]


def test_what_is_written_to_a_device_leaves_the_device(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    files.write_text(tmp_path / "null", "x")
    assert Path("/dev/null").is_char_device()
    target = tmp_path / "target"
    target.write_text("before")
    with pytest.raises(IsADirectoryError):
        files.write_text(Path(), "x")
    (tmp_path / "link").symlink_to(target)
    files.write_text(tmp_path / "link", "after")
    assert target.read_text() == "after"
    assert (tmp_path / "link").is_symlink()


def test_our_mistake_is_one_line_and_a_report(tmp_path: Path) -> None:
    script = (
        "import sys; from opplab import _opplab, catalog\n"
        "from opplab.cli import main, list as module\n"
        "class PanicException(BaseException): pass\n"
        "def broken(*_): raise {}\n"
        "catalog.names = broken\n"
        "module.names = broken\n"
        "main.main(['machine', 'show', 'juno-r2'])"
    )
    for kind in ("PanicException('index out of bounds')", "IndexError('x')"):
        done = subprocess.run(
            [sys.executable, "-c", script.format(kind)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "OPPLAB_REPORTS": str(tmp_path)},
        )
        assert done.returncode == 70, done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stderr.startswith(f"opplab: internal error: {kind.partition('(')[0]}")
        report = Path(done.stderr.partition("report ")[2].partition(" (")[0])
        assert report.parent == tmp_path
        assert "catalog.names = broken" not in report.read_text()
        assert "in broken" in report.read_text()
        assert "Python 3" in report.read_text()
    assert issubclass(InternalError, Exception)


def test_an_interrupt_that_a_class_wraps_is_one(tmp_path: Path) -> None:
    """Before Python 3.12 `RuntimeError: Error calling __set_name__` was an internal error, and waited for all cases."""
    script = (
        "from opplab.cli import main\n"
        "class Field:\n"
        "    def __set_name__(self, *_): raise KeyboardInterrupt\n"
        "def make(*_, **__):\n"
        "    try: type('Lazy', (), {'f': Field()})\n"
        "    except BaseException as error: raise RuntimeError('Error calling __set_name__') from error\n"
        "from opplab.sweep import runner\n"
        "runner.run_cases = make\n"
        f"main.main({[*SMALL, '-o', str(tmp_path / 'out')]!r})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 130, done.stderr
    assert "interrupted; 0 of" in done.stderr
    with pytest.raises(KeyboardInterrupt), runner._executor(None, 1):
        raise RuntimeError from KeyboardInterrupt()


def test_nobody_reads(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    command = [sys.executable, "-m", "opplab", "list", "policy-keys", "--format", "json"]
    # Closed from the start: nothing to write to is no mistake.
    script = 'exec 1>&-; exec "$@"'
    done = subprocess.run(["sh", "-c", script, "sh", *command], stderr=subprocess.PIPE, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    # Gone: as if SIGPIPE had ended it.
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False, text=True, env=environment)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")
    # Full: one line.
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") <= 1
    assert "Traceback" not in done.stderr


def test_what_is_written_to_devices_and_pipes(tmp_path: Path) -> None:
    """A pipe that nobody reads is refused, not waited for; one of the shell gets all; a full device is named."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = ["machine", "show", "juno-r2", "--html"]
    check_refused(f"{pipe}: a named pipe or a socket that nobody reads", *command, str(pipe))
    check_refused("/dev/full: No space left on device", *command, "/dev/full")
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    for target in (str(pipe), "/dev/fd/{}"):
        reads, writes = os.pipe() if "{" in target else (reading, -1)
        words = [*OPPLAB, *command, target.format(writes)]
        with subprocess.Popen(words, pass_fds=[] if writes < 0 else [writes], stdout=subprocess.DEVNULL) as process:
            if writes >= 0:
                os.close(writes)
            start = b"" if writes >= 0 else _first(reads)
            with os.fdopen(reads, "rb") as stream:
                assert (start + stream.read()).rstrip().endswith(b"</html>")
            assert process.wait() == 0


def _first(pipe: int) -> bytes:
    """Give the first byte of a named pipe, whose writer may not be there yet."""
    while not (byte := os.read(pipe, 1)):
        time.sleep(0.05)
    return byte


def test_closed_standard_streams_are_no_files(tmp_path: Path) -> None:
    """A file that is opened gets no standard stream's number: what is printed would go into it."""
    target = tmp_path / "m.toml"
    script = 'exec 1>&- 2>&-; exec "$@"'
    command = [sys.executable, "-m", "opplab", "machine", "show", "juno-r2", "--html", str(target)]
    done = subprocess.run(["sh", "-c", script, "sh", *command], check=False)
    assert done.returncode == 0
    assert "wrote" not in target.read_text()
    assert "</html>" in target.read_text()


@pytest.mark.parametrize("args", [["fit", "power"], ["fit", "power", "juno-r2"], ["trace", "idle", "x", "--sysfs"]])
def test_readers_of_tables_have_limits(args: list[str], tmp_path: Path) -> None:
    sparse = tmp_path / "t.csv"
    with sparse.open("wb") as stream:
        stream.truncate(10 << 30)
    pipe = tmp_path / "p.csv"
    os.mkfifo(pipe)
    for file in (sparse, pipe, Path("/dev/zero")):
        done = opplab(*args, str(file))
        assert done.returncode == 2, done.stderr
        assert done.stderr.count("\n") == 1


def test_a_bomb_in_a_table_is_refused(tmp_path: Path) -> None:
    import gzip

    bomb = tmp_path / "t.csv.gz"
    with gzip.open(bomb, "wb") as stream:
        for _ in range(70):
            stream.write(b"\0" * (1 << 20))
    check_refused("bytes unpacked", "fit", "power", "juno-r2", str(bomb))
    log = tmp_path / "benchlog-tput-1.gz"
    with gzip.open(log, "wb") as stream:
        for _ in range(260):
            stream.write(b"\0" * (1 << 20))
    done = opplab("compare", str(log))
    assert done.returncode == 2
    assert "bytes unpacked" in done.stderr


def test_tables_with_errors_have_lines(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    for rows, what in {
        "a,0,1,2,3\n": ":2:1: more cells than the 4 columns",
        '"a,0,1\n': "unexpected end of data",
        "a,0,x,1\n": "`khz` is `x`, not a number",
        "a,0,nan,1\n": "`khz` is not finite",
        "a,0,1,\xe9\n": "not UTF-8 text",
    }.items():
        table.write_bytes(f"soc,cpu,khz,busy_mean_mw\n{rows}".encode("latin-1"))
        check_refused(what, "fit", "power", str(table))


def test_names_are_no_paths(tmp_path: Path) -> None:
    for name in ("../x", "/x", ".", ""):
        check_refused("is not a name", "workload", "new", name)
    (tmp_path / "w.json").write_text(json.dumps({"tasks": {"a": {"run": 1}}}))
    check_refused("is not a name", "experiment", "new", "../x", "-m", "juno-r2", "-w", str(tmp_path / "w.json"))


def test_a_link_of_a_copied_tree_is_not_written_through(tmp_path: Path) -> None:
    policy = tmp_path / "copy/sys/devices/system/cpu/cpufreq/policy0"
    policy.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.write_text("mine")
    for name, text in {
        "scaling_governor": "schedutil",
        "scaling_min_freq": "1",
        "affected_cpus": "0",
    }.items():
        (policy / name).write_text(text)
    (policy / "scaling_max_freq").symlink_to(outside)
    state = tmp_path / "copy/run/opplab-govern.json"
    state.parent.mkdir()
    settings = {"scaling_max_freq": "hostile"}
    state.write_text(json.dumps({"pid": 1, "policies": [{"policy": 0, "settings": settings}]}))
    done = opplab("host", "govern", "--restore", "--root", str(tmp_path / "copy"))
    assert done.returncode == 3, done.stderr
    assert outside.read_text() == "mine"


def test_a_vanished_worker_does_not_leave_stumps(tmp_path: Path) -> None:
    """What a killed run left under temporary names is removed by the next."""
    folder = tmp_path / "out"
    with Store(folder) as store:
        store.create({})
    (folder / "traces").mkdir()
    for place in (folder, folder / "cases", folder / "failed", folder / "traces"):
        (place / ".x.123.tmp").write_bytes(b"half")
    with Store(folder) as store:
        store.create({})
    assert not [file for file in folder.rglob("*") if file.name.startswith(".")]


def test_the_guard_shows_what_terminals_obey() -> None:
    stream = io.StringIO()
    files.Guard(stream).write("a\x1b[31m\x00\x9b\x7f\u202eb\u200f\u2028\n\té")
    assert stream.getvalue() == "a\\x1b[31m\\x00\\u009b\\u007f\\u202eb\\u200f\\u2028\n\té"


@pytest.mark.parametrize("words", [["run", "WHOLE", "--no-report", "-j", "1", "-o", "out"], ["compare", "WHOLE"]])
@pytest.mark.parametrize(
    ("limit", "message"),
    [(f"-n {number}", f"not enough open files for that: the limit is {number}") for number in (5, 6, 7, 12)]
    + [(f"-v {kb}", f"not enough memory for that: the limit is {kb >> 10} MB") for kb in (250_000, 550_000, 900_000)],
)
def test_want_of_resources_is_no_mistake_of_ours(
    whole: Path, tmp_path: Path, limit: str, message: str, words: list[str]
) -> None:
    """Nor a damaged table, nor a panic or an abort of a library."""
    # Not by a shell, which needs numbers itself.
    what = {"-n": "NOFILE", "-v": "AS"}[limit.split(maxsplit=1)[0]]
    number = int(limit.split()[1]) * (1024 if what == "AS" else 1)
    script = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_{what}, ({number}, {number}))"
    script += "; os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", script, *OPPLAB, *(str(whole) if word == "WHOLE" else word for word in words)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"opplab: {message}")
    assert done.stderr.count("\n") == 1


def test_control_groups_out_of_pipes_and_not_of_devices(tmp_path: Path) -> None:
    """A pipe of the shell is read once, a named one is refused before it is opened, which would wait for its writer."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    zero = tmp_path / "zero"
    zero.symlink_to("/dev/zero")
    for file in (pipe, zero):
        check_refused("not a device or a named pipe", "workload", "from-cgroup", str(file))
    text = "/sys/fs/cgroup/web/cpu.max:20000 100000\n/sys/fs/cgroup/web/cgroup.procs:7\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for line in text.splitlines():
            name, _, content = line.partition(":")
            member = tarfile.TarInfo(name.removeprefix("/"))
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content.encode()))
    for data in (text.encode(), packed.getvalue()):
        (tmp_path / "file").write_bytes(data)
        answers = []
        for name in ("file", "/dev/stdin"):
            done = subprocess.run(
                [*OPPLAB, "workload", "from-cgroup", name, "--force"],
                input=data,
                capture_output=True,
                check=False,
                cwd=tmp_path,
            )
            answers.append(done.stdout)
        assert b"20000 100000" in answers[0], done.stderr
        assert answers[0] == answers[1]
    big = tarfile.TarInfo("sys/fs/cgroup/x/memory.stat")
    big.size = 3 << 30
    (tmp_path / "file").write_bytes(big.tobuf() + b"\0" * 1024)
    check_refused("bytes unpacked", "workload", "from-cgroup", str(tmp_path / "file"))


@pytest.mark.skipif(os.geteuid() != 0, reason="skipped: only root may open /proc/kmsg")
@pytest.mark.parametrize(
    "words",
    [
        ["machine", "show"],
        ["machine", "import"],
        ["trace", "info"],
        ["workload", "show"],
        ["fit", "power"],
        ["experiment", "show"],
        ["host", "show", "--root"],
        ["compare"],
        ["choose"],
        ["explain", "--cpu", "0"],
        ["learn", "-o", "/dev/null"],
        ["fmax"],
    ],
)
def test_a_file_without_an_end_is_refused(words: list[str]) -> None:
    done = subprocess.run(
        [*OPPLAB, *words, "/proc/kmsg"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode in (2, 3)
    assert "/proc/kmsg" in done.stderr


@pytest.mark.parametrize(
    "words", [["machine", "show"], ["experiment", "show"], ["trace", "info"], ["workload", "show"]]
)
def test_a_device_is_called_so(words: list[str]) -> None:
    done = opplab(*words, "/dev/zero")
    assert done.returncode == 2
    assert "/dev/zero" in done.stderr and "no such" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
@pytest.mark.parametrize(
    "words",
    [
        ["workload", "show", "x.toml", "--format", "\U0001d11e"],
        ["trace", "info", "x.txt"],
        ["workload", "new", "a\r\nb"],
    ],
)
def test_a_terminal_that_lacks_a_character_gets_its_code(words: list[str], encoding: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(
        "\ufffd\u4e2d-7 [000] d..2. 1.000700: sched_switch: prev_comm=\u4e2d prev_pid=7 prev_prio=inf prev_state=S"
        " ==> next_comm=swapper/0 next_pid=0 next_prio=120\n"
    )
    surroundings = {"PYTHONIOENCODING": encoding, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [*OPPLAB, *words],
        capture_output=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
        env=os.environ | surroundings,
    )
    assert done.returncode in (0, 1, 2)
    assert b"Traceback" not in done.stderr and b"not UTF-8" not in done.stderr and b"\r" not in done.stderr


def test_a_page_shows_what_turns_the_direction_of_writing() -> None:
    page = html.render("trace_view.html", title="a\u202e\x9b\x1b<b>")
    assert "a\\u202e\\u009b\\x1b&lt;b&gt;" in page
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)


@pytest.mark.parametrize(
    "words",
    [["list", "policy-keys"], ["experiment", "show", "juno-eas", "--format", "json"], ["host", "govern", "--help"]],
)
def test_a_pipe_that_does_not_block_gets_all(words: list[str], tmp_path: Path) -> None:
    """Goal: all of it or an error. Method: a pipe that is full but for a byte, does not block, and is read late."""
    expected = subprocess.run(OPPLAB + words, capture_output=True, check=True, cwd=tmp_path).stdout
    assert len(expected) > 100
    reads, writes = os.pipe()
    os.set_blocking(writes, False)
    filling = fcntl.fcntl(writes, fcntl.F_GETPIPE_SZ) - 1
    assert os.write(writes, b"-" * filling) == filling
    with subprocess.Popen(OPPLAB + words, stdout=writes, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        os.close(writes)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(2)
        with os.fdopen(reads, "rb") as stream:
            told = stream.read()
        assert process.wait() == 0
    assert told[filling:] == expected


def test_what_the_fuzzer_met_is_refused(whole: Path, tmp_path: Path) -> None:
    """Idle states of no machine, results without a metric, a table on which the reader panics, draws without end."""
    sysfs = tmp_path / "sysfs.txt"
    state = "/sys/devices/system/cpu/cpu{cpu}/cpuidle/state0/{name}:{value}\n"
    trace = tmp_path / "trace.txt"
    trace.write_text(
        "<idle>-0 [000] 1.0: cpu_idle: state=0 cpu_id=0\n<idle>-0 [000] 1.1: cpu_idle: state=4294967295 cpu_id=0\n"
    )
    for cpu, latency, says in ((0, 2**63 - 1, "is no time"), (0, -1, "is no time"), (99999, 1, "is beyond")):
        values = {"latency": latency, "residency": 1}
        sysfs.write_text("".join(state.format(cpu=cpu, name=name, value=value) for name, value in values.items()))
        check_refused(says, "trace", "idle", str(trace), "--sysfs", str(sysfs))
    table = tmp_path / "results.csv"
    head = (
        "experiment,source,machine,kernel,policy,benchmark,param,metric,unit,better,iteration,seed,value,fingerprint\n"
    )
    table.write_text(f"{head}e,sim,m,6.12,a,tbench,clients=1,tput,MB/s,higher,0,0,100,\ne,sim,m,6.12,a,tbench\n")
    assert opplab("compare", str(table)).returncode == 0
    check_refused("2<=x<=4096", "run", "juno-eas", "--uncertainty", "65536")
    results = (whole / "results.parquet").read_bytes()
    damaged = tmp_path / "results.parquet"
    for at in range(100, len(results), len(results) // 12):
        damaged.write_bytes(flipped(results, at))
        done = opplab("compare", str(damaged))
        assert done.returncode in (0, 2), done.stderr


def test_what_a_panic_writes_is_unheard(capfd: pytest.CaptureFixture[str]) -> None:
    class Panic(BaseException):
        pass

    with files.unheard_if(Panic):
        os.write(2, b"a warning\n")
    assert capfd.readouterr().err == "a warning\n"
    with pytest.raises(Panic), files.unheard_if(Panic):
        os.write(2, b"thread panicked at\n")
        raise Panic
    assert capfd.readouterr().err == ""
    # An error of another kind keeps what was said on the way.
    with pytest.raises(OSError, match="full"), files.unheard_if(Panic):
        os.write(2, b"a warning\n")
        raise OSError("full")
    os.write(2, b"and on\n")
    assert capfd.readouterr().err == "a warning\nand on\n"


def test_a_format_that_lacks_a_field_is_told(tmp_path: Path) -> None:
    whole = Path(__file__).parents[2] / "crates/verify/tests/data/traces/x86-612-xeon16-hw1-schedutil-burst/trace.dat"
    damaged = tmp_path / "damaged.dat"
    assert opplab("trace", "export", str(whole), "-o", str(damaged)).returncode == 0
    data = damaged.read_bytes()
    assert b" next_pid;" in data
    damaged.write_bytes(data.replace(b" next_pid;", b" nextXpid;"))
    check_refused("sched_switch has no next_pid", "trace", "view", str(damaged), "-o", str(tmp_path / "page.html"))
    assert not (tmp_path / "page.html").exists()
