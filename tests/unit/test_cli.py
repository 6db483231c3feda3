"""The command line: exit codes, one-line messages, lazy imports."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from opplab.cli.options import time_ns
from opplab.report.text import flow, render_table

import forked


def opplab(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [*forked.words(), *args]
    env = {**os.environ, "COLUMNS": "120", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def check_refused(expected: str, *args: str) -> None:
    """Bad input ends with exit code 2 and one line that says what and what is near."""
    done = opplab(*args)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert len([line for line in done.stderr.splitlines() if ": note: " not in line]) == 1
    assert "Traceback" not in done.stderr


def test_help_is_lazy() -> None:
    script = (
        "import sys; from opplab.cli.main import opplab; opplab.main(['--help'], standalone_mode=False);"
        "assert 'polars' not in sys.modules and 'rich' not in sys.modules and 'opplab.cli.verify' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verify" in done.stdout


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--machine", ("kernels", "diff", "5.15", "6.1", "-m", "pixel6", "--machine=juno-r2")),
        ("--machine", ("choose", "mix.json", "-m", "pixel6", "-m", "juno-r2")),
        ("--machine", ("meter", "turbostat", "-m", "pixel6", "-m", "juno-r2", "-w", "mix.json")),
        ("--runs", ("compare", "log", "-b", "tbench", "--method", "mmtests", "--runs", "a", "--runs", "b")),
    ],
)
def test_an_option_of_one_value_is_given_once(option: str, words: tuple[str, ...]) -> None:
    """Goal: nobody asks for two machines and takes the answer for the last one as that of both."""
    check_refused(f"{option} takes one value and is given 2 times", *words)


def test_unknown_command() -> None:
    check_refused("did you mean 'verify'", "verfy")


def test_missing_vectors(tmp_path: Path) -> None:
    check_refused("nothing-here", "verify", "vectors", str(tmp_path / "nothing-here"))
    check_refused("no vector files", "verify", "vectors", str(tmp_path))


def test_unbuilt_family_counts_only_with_strict(tmp_path: Path) -> None:
    (tmp_path / "cppc_perf_khz2.csv").write_text("a,b\n1,2\n")
    # Nothing verified is no success.
    check_refused("the nearest to 'cppc_perf_khz2' is 'cppc_perf_khz'", "verify", "vectors", str(tmp_path))
    vectors = Path(__file__).parents[2] / "crates/verify/vectors/cppc_efficiency_class.jsonl"
    (tmp_path / vectors.name).write_bytes(vectors.read_bytes())
    done = opplab("verify", "vectors", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "cppc_perf_khz2 not built"
    assert opplab("verify", "vectors", "--strict", str(tmp_path)).returncode == 1


def test_vectors_as_json(tmp_path: Path) -> None:
    (tmp_path / "no_such_family.csv").write_text("a,b\n1,2\n")
    done = opplab("verify", "vectors", "--format", "json", str(tmp_path))
    assert done.returncode == 2
    assert json.loads(done.stdout) == [{"family": "no_such_family", "cases": None, "mismatches": None, "first": None}]


def test_damaged_line(tmp_path: Path) -> None:
    (tmp_path / "cppc_efficiency_class.jsonl").write_text('{"raw": [1, 2], "rc": 0}\n')
    check_refused("cppc_efficiency_class.jsonl:1: no member", "verify", "vectors", str(tmp_path))


def test_broken_vector_file(tmp_path: Path) -> None:
    from opplab import _opplab

    if not _opplab.families():
        pytest.skip("no family is built")
    (tmp_path / f"{_opplab.families()[0]}.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n")[:-9])
    check_refused("failed to read", "verify", "vectors", str(tmp_path))


@pytest.mark.parametrize("words", [(), ("machine",), ("trace",), ("experiment",), ("host",)])
def test_without_a_command_the_help_is_shown(words: tuple[str, ...]) -> None:
    done = opplab(*words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: opplab")


@pytest.mark.parametrize("words", [("list", "events"), ("machine", "show", "epyc-7742-2s", "--format", "json")])
def test_a_reader_that_goes_away_is_no_failure(words: tuple[str, ...]) -> None:
    script = f"{sys.executable} -m opplab {' '.join(words)} | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)
    assert done.stderr == ""


def test_a_reader_that_leaves_in_the_middle_of_a_report(tmp_path: Path) -> None:
    """Whoever reads the head of a sweep's tables does not make it fail."""
    words = "run juno-eas --iterations 1 --seconds 0.05 -j 1 -o out --all"
    script = f"{sys.executable} -m opplab {words} 2>errors | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 141, (tmp_path / "errors").read_text()


def test_a_workload_that_is_not_there_is_told_how_to_make_one(tmp_path: Path) -> None:
    gone = str(tmp_path / "service.json")
    check_refused("opplab workload new service writes one", "run", gone, "-m", "juno-r2")
    experiment = tmp_path / "mine.toml"
    check_refused(
        "workload new service", "experiment", "new", "mine", "-m", "juno-r2", "-w", gone, "-o", str(experiment)
    )
    assert not experiment.exists()
    check_refused(
        "only one kernel here; compare several with opplab experiment new",
        "run",
        gone,
        "-m",
        "juno-r2",
        "--kernel",
        "5.4,6.12",
    )


def test_a_pipe_that_is_closed_from_the_start() -> None:
    script = f"exec {sys.executable} -m opplab list policy-keys > >(exec true)"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 141)
    assert "Error" not in done.stderr


def test_a_table_with_too_many_numbers_goes_on_below() -> None:
    rows = [{"pid": 7, "comm": "rt-app", "group": None, **{f"number_{n}": 1000.5 * n for n in range(12)}}]
    text = render_table(rows, "text", 80)
    tables = [table.splitlines() for table in text.split("\n\n")]
    assert len(tables) == 2
    assert max(map(len, text.splitlines())) <= 80
    # The first column says in each whose numbers they are; no number is missing, and none is there twice.
    assert [table[0].split()[0] for table in tables] == ["pid", "pid"]
    words = [word for table in tables for word in table[0].split()[1:]]
    assert words == ["comm", *(f"number_{n}" for n in range(12))]
    # What is not for a terminal is one table with all columns.
    assert render_table(rows, "text").splitlines()[0].split() == list(rows[0])
    assert render_table([{"a": None, "b": 1}], "text", 80).splitlines()[0].split() == ["a", "b"]


def test_lists_wrap_at_the_width_of_the_terminal() -> None:
    done = opplab("list", "policy-keys", COLUMNS="80")
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "energy-aware scheduling is" in " ".join(done.stdout.split())


def test_addresses_in_lists_stay_whole() -> None:
    """At 80 columns a thread's address can be copied as it stands."""
    known = set(json.loads(opplab("list", "proposals", "--format", "json").stdout)[0]["thread"].rstrip(";").split())
    words = set(opplab("list", "proposals", COLUMNS="80").stdout.split())
    assert {word for word in known if "://" in word} <= words


def test_every_part_of_a_wide_table_tells_its_rows_apart() -> None:
    """The second half of a table of groups had its workload alone: whose response that was could not be known."""
    names = [(load, variant, group) for load in ("phone", "heavy") for variant in "ABC" for group in ("/app", "/bg")]
    metrics = [f"metric number {number}, ms" for number in range(9)]
    rows = [
        {"workload": load, "variant": variant, "group": group, **dict.fromkeys(metrics, 1234567.0 + place)}
        for place, (load, variant, group) in enumerate(names)
    ]
    parts = render_table(rows, "text", 80).split("\n\n")
    assert len(parts) > 1
    for part in parts:
        lines = part.splitlines()
        assert max(map(len, lines)) <= 80
        assert [tuple(line.split()[:3]) for line in lines[-len(rows) :]] == names


def test_words_are_broken_between_their_parts_where_that_is_enough() -> None:
    names = ("performance intel_pstate", "auto-cpufreq battery (intel_pstate)")
    columns = {"best in": "none of 4 draws", "work done, ms": "818.9", "energy, J": "65.85", "power, W": "65.85"}
    columns |= {"energy/work, J/s of work": "80.41", "missed, %": "0", "response p50/p99, ms": "2.070/2.107"}
    lines = render_table([{"variant": name, **columns} for name in names], "text", 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("performance ") for line in lines)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_tables_fit_and_lose_nothing(width: int) -> None:
    """Headings and words are wrapped; then the columns stand below each other, each group with the first column."""
    row = {"governor": "schedutil", "about": "least time between two changes of the clock"}
    row |= {f"latency_ns_p{number}": 10**9 + number for number in range(10)}
    lines = render_table([row, {**row, "governor": "menu"}], "text", width).splitlines()
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert {str(value) for name, value in row.items() if name not in ("about", "governor")} <= set(words)
    assert set(str(row["about"]).split()) <= set(words)
    groups = words.count("schedutil")
    assert groups == words.count("menu") and (groups > 1) == (width < 160)
    assert render_table([row], "text").count("\n") == 2


def test_prose_flows_at_the_width() -> None:
    line = "note: " + "word " * 40 + "/a/path/" + "x" * 90
    lines = flow(f"  {line}\nshort", 80).split("\n")
    assert [len(one) > 80 for one in lines] == [False] * (len(lines) - 2) + [True, False]
    assert all(one.startswith("    ") for one in lines[1:-1])
    assert " ".join("\n".join(lines).split()) == " ".join(f"{line} short".split())
    assert flow(line, None) == line


def test_wrong_words_are_told_the_nearest(tmp_path: Path) -> None:
    check_refused("did you mean 'machines'", "list", "machins")
    check_refused("no such command 'sho'; did you mean 'show'", "machine", "sho")
    work = tmp_path / "w.json"
    assert opplab("workload", "new", "w", "-o", str(work)).returncode == 0
    check_refused("--machine NAME", "run", str(work))
    check_refused("no key 'hzz'; did you mean 'hz'", "run", str(work), "-m", "juno-r2", "--set", "hzz=1000")
    check_refused("no benchmark is called 'hackbenhc'; did you mean", "list", "parameters", "hackbenhc")
    check_refused("no gate is called 'delay_dequeu'; did you mean `delay_dequeue`", "list", "gates", "delay_dequeu")
    check_refused("exists; --force", "workload", "new", "w", "-o", str(work))


def test_set_takes_a_version_as_a_text(tmp_path: Path) -> None:
    """A kernel's name looks like a number; quotes, as in a file of an experiment, are no part of it."""
    work = tmp_path / "w.json"
    assert opplab("workload", "new", "w", "--seconds", "1", "-o", str(work)).returncode == 0
    words = ("run", str(work), "-m", "juno-r2", "--seconds", "0.05", "--no-report", "-o")
    for name, value in (("bare", "kernel=6.1"), ("quoted", 'kernel="6.1"')):
        done = opplab(*words, str(tmp_path / name), "--set", value)
        assert done.returncode == 0, done.stderr
        assert 'kernel = "6.1"' in (tmp_path / name / "experiment.toml").read_text()


def test_several_governors_are_a_sweep(tmp_path: Path) -> None:
    work, folder = tmp_path / "w.json", tmp_path / "out"
    opplab("workload", "new", "w", "--seconds", "1", "-o", str(work))
    words = ("run", str(work), "-m", "juno-r2", "--seconds", "0.05", "-o", str(folder), "--format", "csv")
    done = opplab(*words, "--governor", "schedutil,performance", "--set", "hz=1000", "--gate", "runnable_signal=load")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert rows[0].startswith("machine,workload,variant,baseline,metric,unit,better,mean,n,change_percent,low_percent")
    assert {row.split(",")[2] for row in rows[1:]} == {"schedutil", "performance"}
    again = opplab("run", str(folder), "--format", "csv")
    assert again.stdout == done.stdout
    shown = opplab("experiment", "show", str(folder / "experiment.toml"), "--format", "json")
    assert [row["policy"] for row in json.loads(shown.stdout)] == ["schedutil", "performance"]


def test_any_list_takes_one_of_its_names() -> None:
    """`list gates NAME` was refused, where `list tunables NAME` is not."""
    every = json.loads(opplab("list", "gates", "--format", "json").stdout)
    own = [row for row in every if row["gate"] == "sugov_iowait_boost"]
    assert json.loads(opplab("list", "gates", "sugov_iowait_boost", "--format", "json").stdout) == own
    assert len({row["value"] for row in own}) > 1


def test_parameters_that_are_names_are_listed_and_given_by_name(tmp_path: Path) -> None:
    listed = json.loads(opplab("list", "parameters", "hackbench", "--format", "json").stdout)
    (through,) = [row for row in listed if row["parameter"] == "through"]
    assert (through["type"], through["about"]) == ("name", "what messages go through: pipe, socket")
    words = ("-m", "juno-r2", "--param", "through=pipe,socket", "--param", "loops=20", "--iterations", "1")
    done = opplab("run", "hackbench", *words, "-o", str(tmp_path / "out"), "--no-report")
    assert done.returncode == 0, done.stderr
    assert 'through = ["pipe", "socket"]' in (tmp_path / "out/experiment.toml").read_text()
    assert len(list((tmp_path / "out/cases").glob("*.json"))) == 2
    one = ("-m", "juno-r2", "--param", "through=socket", "--seconds", "0.3")
    assert "hackbench through socket" in opplab("choose", "hackbench", *one).stdout


def test_a_benchmark_runs_by_name(tmp_path: Path) -> None:
    """A benchmark model is an experiment that was not written down: parameters, calibration and file are kept."""
    out = tmp_path / "out"
    words = ("-m", "epyc-7742-2s", "--param", "clients=1,2", "--seconds", "0.6", "--iterations", "1", "-o", str(out))
    done = opplab("run", "tbench", *words, "--governor", "schedutil,performance", "--no-report")
    assert done.returncode == 0, done.stderr
    assert "uses the constants calibrated on epyc-7742-2s" in done.stderr
    written = (out / "experiment.toml").read_text()
    assert 'benchmark = "tbench"\ncalibration = "tbench@epyc-7742-2s"\nclients = [1, 2]' in written
    assert len(list((out / "cases").glob("*.json"))) == 4
    for wrong, says in (
        (("tbench", "-m", "juno-r2", "--param", "client=1"), "did you mean `clients`?"),
        (("tbench", "-m", "juno-r2", "--param", "clients=x"), "is not of the form clients=4"),
        (("hackbench", "-m", "juno-r2", "--param", "through=sockt"), "it cannot be 'sockt'; did you mean `socket`?"),
        (("hackbench", "-m", "juno-r2", "--param", "through=1"), "it cannot be '1' (known: pipe, socket)"),
        (("tbnch", "-m", "juno-r2"), "did you mean `tbench`?"),
        (("juno-eas", "--param", "clients=1"), "--param needs a benchmark"),
        (("juno-eas", "-w", "x.json"), "--workload cannot be combined with an experiment"),
    ):
        check_refused(says, "run", *wrong)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("12.5", 12_500_000_000), ("1.234s", 1_234_000_000), (".5 ms", 500_000), ("300us", 300_000), ("7ns", 7),
     ("1700000000.123456789", 1_700_000_000_123_456_789)],
)  # fmt: skip
def test_times_are_read_to_the_last_digit(text: str, ns: int) -> None:
    assert time_ns(text, "1s") == ns
    for wrong in ("", ".", "s", "+1", "1.2.3", "1 h"):
        with pytest.raises(click.BadParameter, match="is not a time: write it like 1s"):
            time_ns(wrong, "1s")
