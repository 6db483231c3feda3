"""`opplab host experiment`: the policies of a simulated file as settings of a live machine, or refused by name."""

import subprocess
import sys
from pathlib import Path

import pytest

from opplab.errors import InputError
from opplab.host.experiment import plan_of
from opplab.sweep.experiments import Experiment

from calls import called

FILE = """format = 1
name = "worth"
machine = "juno-r2"
baseline = "schedutil"
seed = 1
iterations = 2
duration = "100ms"
[defaults]
{defaults}
[[policy]]
label = "performance"
governor = "performance"
{more}
[[policy]]
label = "schedutil"
governor = "schedutil"
tunables = {{ rate_limit_us = 500 }}
[[workload]]
label = "load"
benchmark = "hackbench"
groups = [1]
"""
CPUFREQ = "sys/devices/system/cpu/cpufreq"


def load(place: Path, more: str = "", defaults: str = 'variation = "none"', rest: str = "") -> Experiment:
    (place / "worth.toml").write_text(FILE.format(more=more, defaults=defaults) + rest)
    return Experiment.load(place / "worth.toml")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files of a machine with one policy."""
    policy = tmp_path / "root" / CPUFREQ / "policy0"
    (policy / "schedutil").mkdir(parents=True)
    for name, text in {
        "scaling_governor": "schedutil",
        "scaling_max_freq": "3000000",
        "schedutil/rate_limit_us": "1000",
        "affected_cpus": "0",
        "related_cpus": "0",
    }.items():
        (policy / name).write_text(text + "\n")
    return tmp_path / "root"


def test_a_workload_without_a_label_has_its_benchmarks_name(tmp_path: Path, tree: Path) -> None:
    load(tmp_path)
    file = tmp_path / "worth.toml"
    file.write_text(file.read_text().replace('label = "load"\n', ""))
    assert plan_of(Experiment.load(file), root=tree).words[-2:] == ["--name", "hackbench"]


def test_a_policy_is_the_files_that_it_writes(tmp_path: Path, tree: Path) -> None:
    plan = plan_of(load(tmp_path, more="scaling_max_freq = 2000000"), root=tree)
    every = f"/{CPUFREQ}/policy*"
    assert plan.words == [
        "--set",
        f"{every}/scaling_governor=schedutil;{every}/schedutil/rate_limit_us=500",
        "--label",
        "schedutil",
        "--set",
        f"{every}/scaling_governor=performance;{every}/scaling_max_freq=2000000",
        "--label",
        "performance",
        "--name",
        "load",
    ]
    assert plan.notes == []


def test_the_dry_run_prints_each_write_under_the_files_names(
    tmp_path: Path, tree: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    load(tmp_path)
    words = ["host", "experiment", str(tmp_path / "worth.toml"), "--root", str(tree), "--dry-run", "--", "true"]
    done = called(*words)
    said = capfd.readouterr().out
    assert done.exit_code == 0, (done.output, said)
    assert "performance" in said
    assert "schedutil/rate_limit_us" in said
    assert (tree / CPUFREQ / "policy0/scaling_governor").read_text() == "schedutil\n"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("hz = 1000", "`performance`: needs a kernel that is built with CONFIG_HZ=1000"),
        ('kernel = "5.4"', "needs a kernel as 5.4"),
        ("isolcpus = [1]", "isolcpus=1"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(tmp_path: Path, tree: Path, more: str, words: str) -> None:
    with pytest.raises(InputError, match="not to be set on a live machine") as refused:
        plan_of(load(tmp_path, more=more), root=tree)
    assert words in str(refused.value)


def test_what_all_policies_share_is_a_note(tmp_path: Path, tree: Path) -> None:
    assert plan_of(load(tmp_path, defaults="hz = 1000"), root=tree).notes == [
        "needs a kernel that is built with CONFIG_HZ=1000"
    ]


def test_several_workloads_need_a_choice(tmp_path: Path, tree: Path) -> None:
    loaded = load(tmp_path, rest='[[workload]]\nlabel = "other"\nbenchmark = "hackbench"\ngroups = [2]\n')
    with pytest.raises(InputError, match=r"--workload load\|other"):
        plan_of(loaded, root=tree)
    assert plan_of(loaded, "other", root=tree).words[-1] == "other"
    with pytest.raises(InputError, match="did you mean `other`"):
        plan_of(loaded, "othr", root=tree)


def test_an_experiment_from_a_pipe_is_read_once(tmp_path: Path, tree: Path) -> None:
    file = Path(load(tmp_path).file)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "opplab",
            "host",
            "experiment",
            "/dev/stdin",
            "--root",
            str(tree),
            "--dry-run",
            "--",
            "true",
        ],
        input=file.read_text().replace('rtapp = "', f'rtapp = "{tmp_path}/'),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "scaling_governor" in done.stdout
