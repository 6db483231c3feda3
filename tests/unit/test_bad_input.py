"""Wrong input is one clear line with position and nearest valid name, exit code 2, and no traceback."""

from pathlib import Path

import pytest
from test_cli import check_refused, opplab

from opplab import catalog

WORK = '{"tasks": {"t": {"run": 800, "timer": {"ref": "unique", "period": 16000}}}}'
JUNO = catalog.find("machine", "juno-r2").read_text()


@pytest.fixture
def work(tmp_path: Path) -> str:
    file = tmp_path / "work.json"
    file.write_text(WORK)
    return str(file)


def check_case(expected: str, tmp_path: Path, *args: str) -> None:
    length = [] if "--seconds" in args else ["--seconds", "0.1"]
    check_refused(expected, "run", "-o", str(tmp_path / "out"), *length, *args)
    assert not (tmp_path / "out").exists(), "a refused run leaves no folder"


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        ("work.json:1:11: a table that does not end", WORK[:-2]),
        ("work.json:1:", WORK.replace("16000", "-16000")),
        ("work.json:1:", WORK.replace("800", '"__RUN__"')),
        ("work.json:1:", WORK.replace('"run"', '"cpus": [9], "run"')),
        ("work.json:1:1", ""),
        ("work.json:1:1", "[]"),
        ("work.json:1:3: a workload file is not UTF-8", WORK[:2] + "\udcff"),
    ],
)
def test_workloads(expected: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    file.write_bytes(text.encode(errors="surrogateescape"))
    check_case(expected, tmp_path, "--machine", "juno-r2", "--workload", str(file))


@pytest.mark.parametrize(
    ("expected", "old", "new"),
    [
        ("unknown key `capasity`; did you mean `capacity`?", "capacity =", "capasity ="),
        ("m.toml:", 'cpus = "1-2"', 'cpus = ""'),
        ("m.toml:", "khz = 600000", "khz = -600000"),
        ("m.toml:3:1", "format = 1", "format = 2"),
        ("m.toml:3:", "format = 1", "format ="),
    ],
)
def test_machines(expected: str, old: str, new: str, tmp_path: Path, work: str) -> None:
    assert old in JUNO
    file = tmp_path / "m.toml"
    file.write_text(JUNO.replace(old, new, 1))
    check_case(expected, tmp_path, "--machine", str(file), "--workload", work)
    check_refused(expected, "machine", "show", str(file))


def test_no_cpu(tmp_path: Path, work: str) -> None:
    file = tmp_path / "m.toml"
    file.write_text('format = 1\nname = "none"\n')
    check_case("m.toml:", tmp_path, "--machine", str(file), "--workload", work)


@pytest.mark.parametrize(
    ("expected", "args"),
    [
        ("unknown machine `juno-r3`; did you mean `juno-r2`?", ["--machine", "juno-r3"]),
        ("did you mean `schedutil`?", ["--governor", "schedutl"]),
        ("did you mean `5.18`", ["--kernel", "5.188"]),
        ("did you mean `7.3`", ["--kernel", "7.9"]),
        ("did you mean `scmi`", ["--driver", "scmy"]),
        ("did you mean `menu`", ["--idle-governor", "manu"]),
        ("artificial", ["--energy-model", "artifical"]),
        ("NAME=VALUE", ["--tunable", "rate_limit_us"]),
        ("--seconds", ["--seconds", "soon"]),
        ("a run of -1 s is not possible", ["--seconds", "-1"]),
        ("a run of nan s is not possible", ["--seconds", "nan"]),
        ("--seed", ["--seed", "-1"]),
    ],
)
def test_names_and_numbers(expected: str, args: list[str], tmp_path: Path, work: str) -> None:
    machine = [] if "--machine" in args else ["--machine", "juno-r2"]
    check_case(expected, tmp_path, *machine, "--workload", work, *args)


def test_missing_files(tmp_path: Path) -> None:
    check_case("no-such.json: No such file", tmp_path, "--machine", "juno-r2", "--workload", "no-such.json")
    check_case("no-such.toml: no such machine file", tmp_path, "--machine", "no-such.toml", "--workload", "x.json")
    check_refused("no such experiment file", "run", "no-such.toml", "-o", str(tmp_path / "out"))
    check_refused("did you mean `juno-eas`?", "run", "juno-aes", "-o", str(tmp_path / "out"))
    check_refused("give an EXPERIMENT", "run", "-o", str(tmp_path / "out"))
    check_refused(
        "--governor cannot be combined with", "run", "juno-eas", "--governor", "ondemand", "-o", str(tmp_path / "out")
    )
    check_refused("not a results folder", "status", str(tmp_path))


def test_experiment_file(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    text = catalog.find("experiment", "juno-eas").read_text()
    for expected, old, new in [
        ("unknown key `polcy`; did you mean `policy`?", "[[policy]]", "[[polcy]]"),
        ("did you mean `juno-r2`?", 'machine = "juno-r2"', 'machine = "juno-r4"'),
        ("x.toml:", "tasks = [10, 20", "tasks = [-10, 20"),
        ("did you mean `schedutil`?", 'governor = "schedutil"', 'governor = "shedutil"'),
    ]:
        assert old in text
        file.write_text(text.replace(old, new, 1))
        check_refused(expected, "run", str(file), "-o", str(tmp_path / "out"))


def test_single_case(tmp_path: Path, work: str) -> None:
    """What is right runs: metrics on stdout, results, trace and rt-app logs in the folder."""
    out = tmp_path / "out"
    base = ["run", "--machine", "juno-r2", "--workload", work, "--governor", "schedutil", "-o", str(out)]
    done = opplab(*base, "--seconds", "0.5", "--kernel", "5.18", "--check", "--check-determinism")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("work on juno-r2: schedutil (Linux 5.18, 0.5 s, 1 run each)\n")
    assert (out / "results.parquet").exists()
    assert (out / "run.pftrace").stat().st_size > 1000
    (log,) = (out / "rt-app").iterdir()
    lines = log.read_text().splitlines()
    assert lines[0].startswith("# Policy")
    names = "#idx perf run period start end rel_st slack c_duration c_period wu_lat"
    assert " ".join(lines[1].split()) == names
    rows = [list(map(int, line.split())) for line in lines[2:]]
    assert 28 <= len(rows) <= 32
    assert all(row[3] == row[5] - row[4] for row in rows)
    assert {row[9] for row in rows} == {16000}


def test_what_rt_app_reads_over_is_said(tmp_path: Path) -> None:
    file = tmp_path / "work.json"
    file.write_text(WORK.replace('"run": 800', '"run": 800, "rum": 800'))
    out = ["-o", str(tmp_path / "out"), "--seconds", "0.1"]
    done = opplab("run", "--machine", "juno-r2", "--workload", str(file), *out)
    assert done.returncode == 0
    assert "work.json:1:30: " in done.stderr
    assert "`rum`" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "work.json", "-m", "juno-r2", "--seconds", "1", "--tunable", "rate_limit=5"],
            "did you mean `rate_limit_us`",
        ),
        (["replay", "work.json", "--f-max", "foo"], "unknown f_max `foo`"),
        (["choose", "work.json", "-m", "juno-r2", "--f-max", "max_boots"], "did you mean `max_boost`"),
        (["run", "published.toml"], "there is no table `unknown`"),
        (["verify", "vectors", "empty"], "no vector files"),
        (["trace", "info", "empty"], "a folder, and not one of ring-buffer pages"),
    ],
)
def test_nothing_is_accepted_in_silence(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "work.json").write_text(WORK)
    (tmp_path / "empty").mkdir()
    (tmp_path / "published.toml").write_text(
        'format = 1\nname = "e"\nmachine = "juno-r2"\npublished = "unknown"\nduration = "10ms"\n'
        '[[policy]]\nlabel = "p"\n[[workload]]\nbenchmark = "periodic"\ntasks = 1\nduty = 50\nperiod_us = 16000\n'
    )
    places = [str(tmp_path / one) if (tmp_path / one).exists() else one for one in arguments]
    done = opplab(*places)
    assert done.returncode == 2, done.stdout
    assert words in done.stderr


def test_periodic_tasks_do_something() -> None:
    from opplab import InputError, Workload

    with pytest.raises(InputError, match="run_us=0"):
        Workload.periodic(1, run_us=0, period_us=1000)


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = opplab("machine", "show", "juno-r3", OPPLAB_DEBUG="1")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_a_tunable_that_is_no_policy_key_names_its_option(work: str) -> None:
    hint = "no key 'rate_limit_us' (it is a tunable: --tunable rate_limit_us=5)"
    check_refused(hint, "run", work, "-m", "juno-r2", "--set", "rate_limit_us=5")
