"""Sweeps: equal results whatever the workers, the order, and what interrupts them."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

import opplab
from opplab import results
from opplab.errors import CheckError, InputError
from opplab.simulation.cases import Measured
from opplab.sweep import runner
from opplab.sweep.store import Store

import forked
from calls import answered, called


class AtOnce(Executor):
    """Works in this thread, and notes the sizes of what it is given."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        self.sizes.append(json.loads(args[0])["duration_ns"] * len(args[0]))
        future: Future[object] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


SHORT = ("--iterations", "2", "--seconds", "0.2")


def run(folder: Path, *options: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
    command = [*forked.words(), "run", "juno-eas", "-o", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == expect, done.stderr
    return done


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep") / "one"
    run(folder, *SHORT, "--jobs", "1", "--check")
    return folder


def test_files_and_tables(undisturbed: Path) -> None:
    table = results.read(undisturbed)
    assert dict(table.schema) == {name: kind() for name, kind in results.SCHEMA.items()}
    assert table["policy"].n_unique() == 4
    assert table.select("policy", "benchmark", "param", "iteration").n_unique() == 72
    assert len(list((undisturbed / "cases").iterdir())) == 72
    assert (undisturbed / "tables.txt").read_text().count("| sim   |") == 18
    assert max(map(len, (undisturbed / "tables.txt").read_text().splitlines())) <= 80
    energy = table.filter(pl.col("metric") == "energy")["value"]
    assert (energy > 0).all()
    parts = table.filter(pl.col("metric").is_in(["energy:A53", "energy:A72"]))
    assert parts["value"].sum() == pytest.approx(energy.sum())
    assert sorted(file.suffix for file in (undisturbed / "traces").iterdir()) == [".pftrace"] * 4


def test_same_bytes_with_any_number_of_jobs(undisturbed: Path, tmp_path: Path) -> None:
    run(tmp_path / "two", *SHORT, "--jobs", "2", "--check-determinism")
    for name in ("results.parquet", "report.html", "tables.txt"):
        assert (tmp_path / "two" / name).read_bytes() == (undisturbed / name).read_bytes(), name


def test_same_results_with_processes(undisturbed: Path) -> None:
    experiment = opplab.Experiment.load("juno-eas", iterations=2, seconds=0.2)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        table = experiment.run(executor=pool, jobs=2)
    assert table.equals(results.read(undisturbed))


def test_another_seed_is_another_run(undisturbed: Path) -> None:
    table = opplab.Experiment.load("juno-eas", iterations=1, seed=77, seconds=0.2).run()
    assert not set(table["fingerprint"]) & set(results.read(undisturbed)["fingerprint"])


def test_iterations_share_seeds(undisturbed: Path) -> None:
    seeds = results.read(undisturbed).group_by("iteration").agg(pl.col("seed").unique()).sort("iteration")
    assert seeds["seed"].to_list() == [[1], [2]]


def test_resume(undisturbed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "resumed"
    run(folder, *SHORT, "--no-report")
    for file in sorted((folder / "cases").iterdir())[::3]:
        file.unlink()
    (folder / "results.parquet").unlink()
    done = run(folder, *SHORT, "--no-report")
    assert "24 cases in" in done.stderr
    assert "48 were there" in done.stderr
    assert (folder / "results.parquet").read_bytes() == (undisturbed / "results.parquet").read_bytes()


def cases_in(folder: Path) -> int:
    return len(list((folder / "cases").glob("*.json")))


def interrupted(folder: Path, signal_number: int, after_s: float) -> subprocess.Popen[str]:
    """Start a sweep, wait until it has finished a case more than there were, and a little; then send the signal."""
    command = [sys.executable, "-m", "opplab.cli.main", "run", "juno-eas", "-o", str(folder), *SHORT, "--no-report"]
    before = cases_in(folder)
    process = subprocess.Popen([*command, "--jobs", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 20
    while cases_in(folder) == before and time.monotonic() < until and process.poll() is None:
        time.sleep(0.001)
    time.sleep(after_s)
    process.send_signal(signal_number)
    return process


def test_kill_and_resume(undisturbed: Path, tmp_path: Path) -> None:
    """Killed at ten random moments, the next run goes on and the results are those of an undisturbed one."""
    draw = random.Random(os.environ.get("OPPLAB_SEED", "1"))
    folder = tmp_path / "killed"
    kept = []
    for _ in range(10):
        interrupted(folder, signal.SIGKILL, draw.uniform(0, 0.015)).communicate()
        kept.append(cases_in(folder))
        for file in (folder / "cases").glob("*.json"):
            assert Store(folder).measured(file.stem).rows
    assert kept == sorted(set(kept)), "every run goes on where the one before was killed"
    assert kept[-1] < 72, "the last kill comes before the end"
    run(folder, *SHORT, "--no-report")
    assert (folder / "results.parquet").read_bytes() == (undisturbed / "results.parquet").read_bytes()
    assert not list((folder / "cases").glob(".*"))


def test_interrupt_keeps_finished_cases(tmp_path: Path) -> None:
    folder = tmp_path / "interrupted"
    process = interrupted(folder, signal.SIGINT, 0.05)
    _, errors = process.communicate(timeout=30)
    # A quick machine may be done by then.
    assert process.returncode in (0, 130), errors
    assert "Traceback" not in errors
    kept = len(list((folder / "cases").glob("*.json")))
    if process.returncode == 130:
        assert f"{kept} of 72 cases are kept" in errors


class Failing(Executor):
    """Runs at once; every third case fails."""

    def __init__(self) -> None:
        self.calls = 0

    def submit(self, function, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future = Future()
        self.calls += 1
        if self.calls % 3 == 0:
            future.set_exception(CheckError("the lamp is out"))
        else:
            future.set_result(function(*args, **kwargs))
        return future


def two_machines(folder: Path, *, run_us: int = 3000) -> Path:
    """Write a sweep of 8 cases at first: two machines, two policies, and two of nine iterations."""
    load = {"tasks": {"t": {"loop": -1, "run": run_us, "timer": {"ref": "a", "period": 16000}}}}
    (folder / "load.json").write_text(json.dumps(load))
    file = folder / "two.toml"
    file.write_text(
        'format = 1\nname = "two"\nmachine = ["juno-r2", "pixel6"]\nbaseline = "a"\nseed = 1\niterations = 9\n'
        'until = { ci = "99%", min = 2 }\nduration = "100ms"\n'
        '[[policy]]\nlabel = "a"\n[[policy]]\nlabel = "b, too"\nkernel = "6.19"\n'
        '[[workload]]\nlabel = "load"\nrtapp = "load.json"\n'
    )
    return file


def test_cases_of_several_machines_are_named_apart(tmp_path: Path) -> None:
    """In `status`, at a gate, and as `explain` takes them; the line of a sweep that ends early counts its files."""
    folder = tmp_path / "out"
    done = answered("run", two_machines(tmp_path), "-o", folder, "-j", "1")
    files = sorted((folder / "cases").glob("*.json"))
    assert len(files) == 8
    assert "cases/ (8)" in " ".join(done.stderr.split())
    table = called("status", folder, "--format", "json")
    states = json.loads(table.stdout)
    names = {one["case"]: one["label"] for one in states}
    assert len(set(names.values())) == len(states) == 36
    # A name of `status` is one that `explain` finds.
    answered("explain", f"{folder}:{names[files[0].stem]}", "--cpu", "0")
    for file in files:
        file.unlink()
    gate = ["compare", str(folder), "--fail-if", "energy < -90%"]
    lines = [line for line in called(*gate).stderr.splitlines() if "no results of" in line]
    assert sorted(line.partition("no results of ")[2] for line in lines) == sorted(names[one.stem] for one in files)
    allowed = called(*gate, "--allow-missing", "juno-r2", "--allow-missing", "b, too")
    left = [line.partition("no results of ")[2] for line in allowed.stderr.splitlines() if "no results of" in line]
    assert left == ["pixel6 a load #0", "pixel6 a load #1"]


def test_a_changed_copy_of_a_built_in_experiment_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy keeps the name: its folder is of the copy, and a folder of the built-in one beside it of that."""
    data = Path(opplab.__file__).parent / "data/experiments"
    for kind in ("json", "toml"):
        (tmp_path / f"uclamp-units.{kind}").write_text((data / f"uclamp-units.{kind}").read_text())
    copy = tmp_path / "uclamp-units.toml"
    copy.write_text(f'{copy.read_text()}\n[[policy]]\nlabel = "1000 Hz"\nhz = 1000\n')
    monkeypatch.chdir(tmp_path)
    for target, folder, cases in ((copy.name, "out/mine", 6), ("uclamp-units", "out/given", 5)):
        answered("run", target, "--iterations", "1", "--seconds", "0.1", "-j", "1", "-o", folder)
        assert f"0 cases in 0.0 s, {cases} were there" in re.sub(
            r"in \d+\.\d s", "in 0.0 s", answered("run", folder).stderr
        )
        assert opplab.Experiment.of_results(folder).policies[-1] == ("1000 Hz" if cases == 6 else "CPUWeight=idle")
        assert called("status", folder).stderr == ""


def test_status_names_an_experiment_that_has_changed(tmp_path: Path) -> None:
    """The counts of a folder are of the cases that ran, whatever became of the file."""
    folder, file = tmp_path / "two", two_machines(tmp_path)
    text = file.read_text()
    answered("run", file, "-o", folder, "-j", "1", "--no-report")

    def noted(text: str) -> str:
        file.write_text(text)
        done = called("status", folder)
        assert (done.exit_code, done.stdout.splitlines()[0]) == (
            0,
            "two: 8 of 36 cases finished, 0 left, 0 failed, 28 not needed",
        )
        return done.stderr

    assert noted(text) == ""
    added = noted(f'{text}\n[[policy]]\nlabel = "c"\nhz = 1000\n')
    assert added == f"opplab: {file}, or a file that it names, has changed: 18 of its 54 cases are not among these\n"
    assert "did you mean" in noted(text.replace("kernel", "kernal"))
    (iterations,) = map(int, re.findall(r"^iterations = (\d+)$", text, re.MULTILINE))
    words = f"opplab: {file}, or a file that it names, has changed: "
    # By hand: two machines, two policies, as many seeds.
    more = noted(text.replace(f"iterations = {iterations}", f"iterations = {iterations + 2}"))
    assert more == f"{words}8 of its {4 * (iterations + 2)} cases are not among these\n"
    fewer = noted(text.replace(f"iterations = {iterations}", f"iterations = {iterations - 1}"))
    assert fewer == f"{words}4 of these 36 cases are not of it now\n"
    assert noted(re.sub(r"ci = \"\d+%\"", 'ci = "77%"', text)) == f"{words}its `until` is another\n"
    assert "has changed" in noted(re.sub("duration = .*", 'duration = "30ms"', text))
    file.unlink()
    assert called("status", folder).stderr == ""


def test_status_keeps_to_what_the_command_gave(tmp_path: Path) -> None:
    """What the command line replaced of a file is no change of it."""
    folder, file = tmp_path / "two", two_machines(tmp_path)
    words = ["run", str(file), "-o", str(folder), "-j", "1", "--no-report", "--iterations", "2", "--seed", "7"]
    answered(*words, "--until-ci", "50%")
    text = file.read_text()
    for changed in (text, text.replace("iterations = 9", "iterations = 4"), text.replace("99%", "5%")):
        file.write_text(changed)
        assert called("status", folder).stderr == ""


@pytest.mark.parametrize("first_ends", [True, False], ids=["a whole sweep", "an interrupted sweep"])
def test_results_of_a_changed_workload_are_of_it_alone(first_ends: bool, tmp_path: Path) -> None:
    """After an interruption the folder holds cases of both; the table is of those that belong to the sweep now."""
    folder = tmp_path / "out"
    file = two_machines(tmp_path)
    (tmp_path / "steady.json").write_text((tmp_path / "load.json").read_text())
    with file.open("a") as stream:
        stream.write('[[workload]]\nlabel = "steady"\nrtapp = "steady.json"\n')
    text = file.read_text()
    before = opplab.Experiment.load(file)
    if first_ends:
        before.run(folder)
    else:
        store = Store(folder)
        store.create(before.manifest())
        runner.run_cases(before.cases[:4], store)
        store.release()
    two_machines(tmp_path, run_us=9000).write_text(text)
    after = opplab.Experiment.load(file)
    store = Store(folder)
    store.create(after.manifest())
    # Two iterations of one machine and policy: what an interruption may leave.
    some = [case for case in after.cases if (case.machine, case.benchmark, case.policy) == ("juno-r2", "load", "a")][:2]
    runner.run_cases(some, store)
    store.release()
    done = answered("compare", folder, "--metric", "energy", "--format", "json")
    tables = json.loads(done.stdout)
    cells = [one for table in (tables if isinstance(tables, list) else [tables]) for one in table["cells"]]
    (cell,) = [one for one in cells if one["benchmark"] == "load" and one["value"] is not None]
    # The same runs in a folder of their own.
    alone = Store(tmp_path / "alone")
    alone.create(after.manifest())
    runner.run_cases(some, alone)
    rows = [row for case in some for row in alone.measured(case.hash).rows]
    assert cell["value"] == pytest.approx(sum(value for metric, *_, value in rows if metric == "energy") / 2)
    assert cell["n"] == 2
    assert re.search(r"(\d+) of 72 cases have no results", done.stderr)


def test_many_cases_without_results_are_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    words = ["run", "juno-eas", "-o", str(folder), "--iterations", "9", "--seconds", "0.05", "--no-report", "-j", "1"]
    answered(*words)
    files = list((folder / "cases").glob("*.json"))
    for file in files[:-1]:
        file.unlink()
    gate = called("compare", folder, "--fail-if", "energy < -90%")
    assert gate.exit_code == 1
    (line,) = [line for line in gate.stderr.splitlines() if "no results of" in line]
    assert f" and {len(files) - 1 - 8} others" in line


def test_failures_are_recorded_and_retried(tmp_path: Path) -> None:
    experiment = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.05)
    store = Store(tmp_path / "store")
    store.create(experiment.manifest())
    tally = runner.run_cases(experiment.cases, store, executor=Failing())
    assert (tally.done, tally.failed) == (24, 12)
    assert {value["error"] for value in store.failures().values()} == {"the lamp is out"}
    status = [sys.executable, "-m", "opplab.cli.main", "status", str(store.path)]
    done = subprocess.run(status, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "24 of 36 cases finished, 0 left, 12 failed" in done.stdout
    assert done.stdout.count("the lamp is out") == 12
    again = runner.run_cases(experiment.cases, store)
    assert (again.done, again.skipped, again.failed) == (0, 24, 12)
    retried = runner.run_cases(experiment.cases, store, retry_failed=True)
    assert (retried.done, retried.skipped, retried.failed) == (12, 24, 0)
    assert store.failures() == {}


def test_the_longest_cases_come_first() -> None:
    """By simulated time and by CPUs and tasks, so that no long case is left for one worker at the end."""
    short = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.01).cases
    long = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.05).cases
    kept: list[int] = []
    at_once = AtOnce()
    runner.run_cases(
        [*short[:3], *long[:3], *short[3:6]], executor=at_once, jobs=5, keep=lambda case, rows: kept.append(case.size)
    )
    # Ten are handed over before the first is waited for.
    assert at_once.sizes == sorted(at_once.sizes, reverse=True)
    assert len(kept) == len(at_once.sizes) == 9


def test_merged_tables_are_those_of_the_files(tmp_path: Path) -> None:
    """Rows that were kept in blocks, rows that are read again, another order, a case without rows, a case put twice."""
    store = Store(tmp_path / "store")
    store.create({})
    names = [f"{number:032x}" for number in range(600)]
    for number, name in enumerate(names):
        values = [None if row == 2 and number % 3 else number + row / 10 for row in range(number % 4)]
        labels = {"policy": "old" if number % 2 else "new", "machine": "m", "iteration": number, "seed": 2**64 - 1}
        store.put(name, Measured(labels, [(f"m{row}", "J", "", value) for row, value in enumerate(values)]))
    store.put(names[7], Measured({}, [("again", "", "lower", -0.0)]))
    order = [*names[::-2], *names[::2]]
    merged = store.merge(order)
    assert merged.equals(results.frame(row for name in order for row in store.measured(name).dicts()))
    written = (store.path / "results.parquet").read_bytes()
    store.release()
    again = Store(tmp_path / "store")
    assert again.merge(order).equals(merged)
    assert (again.path / "results.parquet").read_bytes() == written


def test_results_of_another_build_are_not_reused(tmp_path: Path) -> None:
    experiment = opplab.Experiment.load("juno-eas", iterations=1, seconds=0.05)
    store = Store(tmp_path / "store")
    assert not store.create(experiment.manifest())
    store.put("0" * 32, Measured({}, []))
    assert not store.create(experiment.manifest())
    assert store.finished() == {"0" * 32}
    manifest = json.loads((store.path / "manifest.json").read_text())
    (store.path / "manifest.json").write_text(json.dumps({**manifest, "build": "another"}))
    assert store.create(experiment.manifest())
    assert store.finished() == set()


def test_folders_that_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="not a folder"):
        Store(tmp_path / "file").create({})
    with pytest.raises(InputError, match="holds other files"):
        Store(tmp_path).create({})
    assert [file.name for file in tmp_path.iterdir()] == ["file"]
    with pytest.raises(InputError, match="not a results folder"):
        Store(tmp_path).manifest()
    # What a sweep leaves that is killed before it has a manifest is ours.
    (tmp_path / "begun" / "cases").mkdir(parents=True)
    (tmp_path / "begun" / ".manifest.json.123.tmp").write_text("{")
    Store(tmp_path / "begun").create({})
    assert sorted(file.name for file in (tmp_path / "begun").iterdir()) == ["cases", "failed", "manifest.json"]


def test_a_full_disk_is_one_clear_line(tmp_path: Path) -> None:
    """A write that fails leaves neither half a case nor a temporary file."""
    script = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (30000, 30000));"
        "from opplab.cli.main import main;"
        "main(['run', 'juno-eas', '-o', 'out', '--iterations', '40', '--seconds', '0.01'])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert "File too large" in done.stderr
    assert not list(tmp_path.rglob(".*"))


def on_a_small_disk(tmp_path: Path, options: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a sweep into a file system of its own; the last line on standard output lists what is on it afterwards."""
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o "$1" tmpfs "$2" || exit 77; cd "$2"; shift 2; "$@" >&2; code=$?;'
        'echo *; find . -name ".?*"; exit $code'
    )
    command = [sys.executable, "-m", "opplab.cli.main", "run", "juno-eas", *SHORT, "-o", "out", *arguments]
    path = os.pathsep.join(str(Path(place).resolve()) for place in sys.path if place)
    try:
        done = subprocess.run(
            ["unshare", "-Urm", "sh", "-c", script, "sh", options, str(disk), *command],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": path},
        )
    except FileNotFoundError:
        pytest.skip("skipped: no unshare(1) to mount a small file system")
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip(f"skipped: no name space to mount a small file system in: {done.stderr.strip()}")
    return done


def test_no_space_left(tmp_path: Path) -> None:
    """The error names the file; no temporary file is left to take space."""
    done = on_a_small_disk(tmp_path, "size=240k")
    assert done.returncode == 2, done.stderr
    assert re.search(r"^opplab: out/cases/\w+\.json: No space left on device$", done.stderr, re.MULTILINE), done.stderr
    assert done.stdout == "out\n"


def test_read_only_folder(tmp_path: Path) -> None:
    done = on_a_small_disk(tmp_path, "ro")
    assert done.returncode == 2, done.stderr
    assert done.stderr == "opplab: out: Read-only file system\n"
    assert done.stdout == "*\n"


def test_a_folder_of_another_experiment_is_refused_or_emptied(tmp_path: Path) -> None:
    """No results of two experiments lie beside each other, and none is replaced without a word."""
    load = '{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}}}'
    (tmp_path / "load.json").write_text(load)
    folder = tmp_path / "out"
    words = ["run", str(tmp_path / "load.json"), "-j", "1", "--seconds", "0.1", "-o", str(folder)]
    first = [*words, "-m", "juno-r2", "--governor", "performance,powersave"]
    other = [*words, "-m", "pixel4", "--governor", "performance,powersave"]
    answered(*first)
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert folder / "report.html" in before
    refused = called(*other)
    assert refused.exit_code != 0
    assert "it holds results of other cases (performance load #0)" in str(refused.exception)
    assert "--replace" in str(refused.exception)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before, "nothing is touched"
    named = called("run", "juno-eas", "--seconds", "0.05", "--iterations", "1", "-o", folder)
    assert "it holds results of the experiment `out`" in str(named.exception)
    # More of the same goes on, and what was made of less is made anew.
    more = answered(*first, "--iterations", "4", "--no-report")
    assert "6 were there" in more.stderr
    assert not (folder / "report.html").exists()
    replaced = called(*other, "--replace", "--no-report")
    assert replaced.exit_code == 0, replaced.output
    assert set(pl.read_parquet(folder / "results.parquet")["machine"]) == {"pixel4"}
    assert len(list((folder / "cases").iterdir())) == 6
    assert not any((folder / name).exists() for name in ("report.html", "tables.txt", "traces"))


def test_an_interrupt_ends_cases_that_would_take_hours(tmp_path: Path) -> None:
    work = {"tasks": {"t": {"loop": -1, "run": 100, "timer": {"ref": "unique", "period": 200}}}}
    (tmp_path / "long.json").write_text(json.dumps(work))
    words = ["run", str(tmp_path / "long.json"), "-m", "juno-r2", "--seconds", "1000000", "-o", str(tmp_path / "out")]
    process = subprocess.Popen([sys.executable, "-m", "opplab", *words], stderr=subprocess.PIPE, text=True)
    manifest = tmp_path / "out" / "manifest.json"
    while not manifest.exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert "0 of 1 cases are kept" in errors


def test_a_folder_continues_as_it_was_run(tmp_path: Path) -> None:
    """Goal: the options of the first command are those of the second."""

    def run(*words: str) -> Result:
        return called("run", *words, "--no-report", "-j", "1")

    out = tmp_path / "out"
    first = run(
        "juno-eas", "--iterations", "2", "--seconds", "0.05", "--seed", "9", "--until-ci", "90%", "-o", str(out)
    )
    assert first.exit_code == 0, first.output
    manifest, rows = (out / "manifest.json").read_bytes(), (out / "results.parquet").read_bytes()
    again = run(str(out))
    assert again.exit_code == 0, again.output
    assert (out / "manifest.json").read_bytes() == manifest
    assert (out / "results.parquet").read_bytes() == rows
    about = json.loads(manifest)
    for case in about["cases"]:
        case["hash"] = case["hash"][::-1]
    (out / "manifest.json").write_text(json.dumps(about))
    other = run(str(out))
    assert "holds no case of" in str(other.exception)


def test_a_new_experiment_has_every_machine(tmp_path: Path) -> None:
    (tmp_path / "w.json").write_text('{"tasks": {"t": {"run": 1000, "timer": {"ref": "u", "period": 8000}}}}')
    words = ["experiment", "new", "e", "-m", "juno-r2", "-m", "pixel6", "-w", str(tmp_path / "w.json")]
    answered(*words, "-o", tmp_path / "e.toml")
    assert {case.machine for case in opplab.Experiment.load(tmp_path / "e.toml").cases} == {"juno-r2", "pixel6"}
