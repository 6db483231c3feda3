"""Experiments of one's own: the folder that one filled, and machine files that cannot be told apart."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import opplab
from opplab import results
from opplab.errors import InputError
from opplab.explanation.cases import find_case

from calls import answered, called

TEXT = """format = 1
name = "own"
about = "two governors"
machine = "juno-r2"
baseline = "a"
seed = 1
iterations = 2
duration = "100ms"
[[policy]]
label = "a"
governor = "schedutil"
[[policy]]
label = "b"
governor = "performance"
[[workload]]
label = "load"
rtapp = "load.json"
"""
_OF_LOAD = {"run": ["load.json", "--seconds", "0.1"], "experiment": ["-w", "load.json", "--seconds", "0.1"]}
LOAD = '{"tasks": {"t": {"loop": -1, "run": 3000, "timer": {"ref": "t", "period": 16000}}}}'


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(TEXT)
    (tmp_path / "load.json").write_text(LOAD)
    return tmp_path


def test_draws_of_a_folder_find_the_experiment_of_ones_own(folder: Path) -> None:
    opplab.Experiment.load("own.toml").run("out/own", jobs=1)
    words = ["compare", "out/own", "--uncertainty", "4"]
    done = answered(*words)
    assert "how sure" in done.stdout
    (folder / "own.toml").unlink()
    gone = called(*words)
    assert gone.exit_code
    assert gone.stdout == "", "a table with stars of another method than was asked for"
    assert "own" in str(gone.exception) + gone.output


@pytest.mark.parametrize("words", [["run"], ["experiment", "new", "x"]])
def test_results_may_go_to_a_link(folder: Path, words: list[str]) -> None:
    """The workload is found from where the link leads, as `..` is."""
    (folder / "far" / "away").mkdir(parents=True)
    (folder / "link").symlink_to(folder / "far" / "away")
    (folder / "own-machine.toml").write_text(opplab.Machine.load("juno-r2").to_toml())
    place = "link" if words == ["run"] else "link/x.toml"
    answered(*words, "-m", "own-machine.toml", *_OF_LOAD[words[0]], "-o", place)
    answered(*(["run", "link/x.toml", "-o", "done"] if "new" in words else ["status", "link"]))


def test_two_machine_files_of_one_name_are_refused(folder: Path) -> None:
    """Goal: nobody pools two machines, or loses the first, because the files have the same name in them."""
    text = opplab.Machine.load("juno-r2").to_toml()
    for name in ("a.toml", "b.toml"):
        (folder / name).write_text(text)
    (folder / "own.toml").write_text(TEXT.replace('"juno-r2"', '["a.toml", "b.toml"]'))
    with pytest.raises(InputError, match=r"a\.toml and .*b\.toml are both called `juno-r2`"):
        opplab.Experiment.load("own.toml")
    (folder / "b.toml").write_text(text.replace('name = "juno-r2"', 'name = "capped"'))
    assert {case.machine for case in opplab.Experiment.load("own.toml").cases} == {"juno-r2", "capped"}


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (TEXT.replace('"juno-r2"', '["juno-r2", "juno-r2"]'), "machine `juno-r2`"),
        (TEXT + '\n[[workload]]\nlabel = "load"\nrtapp = "other.json"\n', "workload `load`"),
        (TEXT + '\n[[workload]]\nlabel = "b"\nbenchmark = "hackbench"\ngroups = [1, 1]\n', "workload `b groups=1`"),
    ],
)
def test_what_is_there_twice_is_refused(folder: Path, changed: str, what: str) -> None:
    """Goal: nobody reads the mean of two workloads as one, or loses the first, because they have the same name."""
    (folder / "other.json").write_text(LOAD.replace("3000", "6000"))
    (folder / "own.toml").write_text(changed)
    with pytest.raises(InputError, match=f"^own.toml: {what} is there twice"):
        opplab.Experiment.load("own.toml")


def test_the_names_that_explain_offers_are_taken(folder: Path) -> None:
    """Goal: of several machines' cases the message has names that tell them apart, and each of them works."""
    (folder / "own.toml").write_text(TEXT.replace('"juno-r2"', '["juno-r2", "pixel6"]'))
    with pytest.raises(InputError, match="2 cases are called") as refused:
        find_case("own.toml:b load #0")
    offered = re.findall("`([^`]*#0)`", str(refused.value).partition("such as")[2])
    assert offered == ["juno-r2 b load #0", "pixel6 b load #0"]
    assert [json.loads(find_case(f"own.toml:{name}").to_json())["machine"]["name"] for name in offered] == [
        "juno-r2",
        "pixel6",
    ]
    with pytest.raises(InputError, match="such as `juno-r2 b load #0`"):
        opplab.explain("own.toml:b load #0", why_slow=True, machine=opplab.Machine.load("pixel6"))
    with pytest.raises(InputError, match=r"4 cases are called `pixel`.*such as `pixel6 a load #0`"):
        find_case("own.toml:pixel")
    case = json.loads(find_case("own.toml:pix b lo #0").to_json())
    assert (case["machine"]["name"], case["policy"]["governor"]) == ("pixel6", "performance"), "parts that only it has"


def test_a_label_that_begins_another_is_found(folder: Path) -> None:
    """Goal: the name of one policy is no part of another's that has more words."""
    text = TEXT.replace('label = "b"', 'label = "a hz=1000"').replace("iterations = 2", "iterations = 1")
    (folder / "own.toml").write_text(text)
    for words, governor in (("a", "schedutil"), ("a load", "schedutil"), ("a hz=1000", "performance")):
        assert json.loads(find_case(f"own.toml:{words}").to_json())["policy"]["governor"] == governor, words
    with pytest.raises(InputError, match="2 cases are called `load`"):
        find_case("own.toml:load")


def answer(*words: str) -> str:
    done = answered("run", *words, columns=400)
    return done.stdout


def test_a_row_says_what_of_a_benchmark_its_columns_are_of(folder: Path) -> None:
    """Goal: nobody reads the energy of 280 processes beside the time of 275000 as that of the suite."""
    words = answer("gitsource", "-m", "skylake-8x-uma", "--iterations", "1", "--param", "processes=280")
    assert "elapsed is of the whole benchmark, energy of the 0.7320 s" in words
    whole = ("--governor", "powersave", "--iterations", "1", "--seconds", "1")
    assert "of the whole benchmark" not in answer("hackbench", "-m", "skylake-sp-2s", *whole)
    cut = answer("kernbench", "-m", "skylake-8x-uma", "--iterations", "1", "--param", "jobs=8", "--seconds", "1")
    assert "elapsed is missing in 1 of 1 runs, which did not end within 1 s (a longer --seconds lets them end)" in cut
    assert "rate is of the part that ran and counts compiled files" in cut
    assert "rate, 1/s" in cut.splitlines()[2]


@pytest.mark.parametrize("machine", ["kaby-lake-i7-7500u", "kaby-lake-i7-7500u-gpu"])
def test_runs_that_do_not_end_are_compared_by_their_rate(folder: Path, machine: str) -> None:
    """Goal: without power, or beside a GPU's frames, there is an answer; the mean rates are those of Python."""
    governors = ("schedutil", "ondemand")
    words = ("gitsource", "-m", machine, "--governor", ",".join(governors), "--iterations", "2", "--seconds", "0.5")
    told = answer(*words)

    def rate(governor: str, seed: int) -> float:
        run = opplab.simulate(machine, "gitsource", governor, seconds=0.5, seed=seed)
        return float(run.metrics.filter(metric="rate")["value"][0])

    base, other = (2 / sum(1 / rate(governor, seed) for seed in (1, 2)) for governor in governors)
    assert f"{100 * (other / base - 1):+.1f} % [" in told
    assert "compared with nothing" not in told


def test_a_benchmarks_warm_up_is_named_beside_the_time_of_its_run(folder: Path) -> None:
    """Goal: nobody mails the joules of 0.5 s as those of 1 s."""
    short = ["tbench", "-m", "skylake-8x-uma", "--seconds", "0.6", "--iterations", "1"]
    head = answer(*short, "--param", "clients=1", "-o", "out/warm").splitlines()[0]
    assert "(Linux 6.12.117, 0.6 s, the first 0.5 s left out, 1 run each)" in head
    values = {row["metric"]: row["value"] for row in opplab.results.read("out/warm").to_dicts()}
    assert values["energy"] / values["power"] == pytest.approx(0.1)
    assert "0.6 s a case, the first 0.5 s left out, 1 case" in Path("out/warm/report.html").read_text()
    shown = called("experiment", "show", "out/warm/experiment.toml").stdout
    assert "1 of 0.6 s, the first 0.5 s left out\n" in shown
    chosen = called("choose", *short, "--uncertainty", "0", columns=400)
    assert "0.6 s a run, the first 0.5 s left out, runs of each: 1)" in chosen.stdout
    answer(*short[:3], "--seconds", "0.7", "--iterations", "1", "--param", "clients=1", "-o", "out/longer")
    beside = called("compare", "out/warm", "out/longer")
    assert "runs for 0.6 s, the first 0.5 s left out in out/warm and 0.7 s, the first" in beside.stderr


def test_a_benchmark_that_ends_runs_to_its_end_by_default(folder: Path) -> None:
    """Goal: nobody mails the rate of the first 10 s of a build as that of the build."""
    words = answer("kernbench", "-m", "xeon-6130-2s", "--iterations", "1", "--param", "jobs=64")
    assert words.startswith("kernbench jobs 64 on xeon-6130-2s: schedutil (Linux 6.12.117, at most 600 s, 1 run each)")
    assert "missing" not in words
    assert "elapsed 34" in words


def test_the_energy_of_a_benchmark_that_did_not_end_is_no_improvement(folder: Path) -> None:
    """Goal: nobody mails 60 % of energy saved by a run that was cut off after half the work."""
    words = ["hackbench", "-m", "juno-r2", "--param", "groups=1", "--governor", "performance,powersave"]
    answer(*words, "--seconds", "2.2", "--iterations", "3", "-o", "out/cut")
    (table,) = opplab.compare("out/cut")
    values = {row.metric: [cell and cell.value for cell in row.cells] for row in table.rows}
    assert set(values) == {"elapsed", "energy"}
    assert all(base and cut is None for base, cut in values.values())
    assert "note: 3 of 6 runs did not end: their time is unknown, their energy is left out" in str(table)
    done = called("compare", "out/cut", "--fail-if", "energy < -50%")
    assert done.exit_code == 1


def test_programs_read_what_control_groups_did_too(folder: Path) -> None:
    load = '{"tasks": {"t": {"loop": -1, "taskgroup": "/a", "run": 3000, "timer": {"ref": "t", "period": 16000}}}}'
    (folder / "load.json").write_text(load)
    words = ("load.json", "-m", "juno-r2", "--seconds", "0.2", "--format", "csv")
    assert "group_usage:/a,s" in answer(*words)


def test_a_meter_reads_one_run(folder: Path) -> None:
    words = ["meter", "turbostat", "-m", "juno-r2", "-w", "load.json", "--governor", "schedutil,performance"]
    done = called(*words)
    assert done.exit_code == 2
    assert "only one governor here" in done.output
    assert "--governor GOVERNOR" in called("meter", "--help").output


def test_a_key_that_rt_app_reads_over_is_named(tmp_path: Path) -> None:
    """A clamp without effect turned the answer of an experiment, where `run FILE.json` named it."""
    hog = '{"run": 1000, "uclamp_max": 200, "timer": {"ref": "a", "period": 9000}}'
    (tmp_path / "jank.json").write_text(f'{{"tasks": {{"hog": {hog}}}}}')
    file = tmp_path / "jank.toml"
    file.write_text(
        'format = 1\nname = "jank"\nmachine = "juno-r2"\nseed = 1\niterations = 1\nduration = "100ms"\n'
        '[[policy]]\nlabel = "a"\n[[workload]]\nlabel = "w"\nrtapp = "jank.json"\n'
    )
    for words in ([str(file)], [str(tmp_path / "jank.json"), "-m", "juno-r2"]):
        done = answered("run", *words, "-o", tmp_path / "out", "--replace", "--no-report")
        assert done.output.count("jank.json:1:33: rt-app reads no `uclamp_max` in a task: it has no effect") == 1


def test_a_key_that_no_group_has_is_refused_with_those_that_it_has(folder: Path) -> None:
    """Far from each key it was refused without the names of any."""
    for key, words in (
        ("quota", r"unknown key `quota` \(known: name, weight, .*burst_us.*\)"),
        ("weigt", "did you mean `weight`"),
    ):
        (folder / "own.toml").write_text(f'{TEXT}[[group]]\nname = "/a"\n{key} = 3\n')
        with pytest.raises(InputError, match=words):
            opplab.Experiment.load(folder / "own.toml")


def test_a_width_that_is_not_reached_is_named(folder: Path) -> None:
    """`--until-ci 2%` ended after 3 iterations at 10 %, without a word."""
    words = ["run", "own.toml", "--iterations", "3", "-j", "1", "--no-report", "-o", "out/own"]
    shown = " ".join(answered(*words, "--until-ci", "0.1%", columns=200).stdout.split())
    energy = results.read(folder / "out" / "own").filter(metric="energy").sort("iteration")
    logs = np.log(np.divide(*(energy.filter(policy=one)["value"].to_numpy() for one in "ba")))
    # Student's t on the logarithms of the pairs, and half of what lies between its ends in percent.
    low, high = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    (told,) = re.findall(r"Not reached: \u00b1 0\.1 % of energy, but \u00b1 ([\d.]+) % after 3 iterations", shown)
    assert float(told) == pytest.approx(50 * (np.exp(high) - np.exp(low)), rel=0.1)
    assert "Not reached" not in answered(*words[:-1], "out/wide", "--until-ci", "99%", columns=200).stdout


def test_a_version_that_is_given_whole_goes_before_longer_ones(folder: Path) -> None:
    """`explain out:6.1` was as good as 6.12, though only one case has that kernel."""
    words = ["run", "load.json", "-m", "juno-r2", "--kernel", "6.1", "--vs", "kernel=6.12", "--seconds", "0.1"]
    answered(*words, "--iterations", "1", "-j", "1", "--no-report", "-o", "out/two")
    assert (folder / "out" / "two").is_dir()
    for version in ("6.1", "6.12"):
        assert find_case(f"out/two:{version}").kernel == version
    with pytest.raises(InputError, match=r"2 cases are called `6\.`"):
        find_case("out/two:6.")
