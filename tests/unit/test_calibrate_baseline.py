"""`opplab calibrate`: a baseline of one's own."""

import math
from pathlib import Path

import pytest

from opplab import Policy, Workload, simulate
from opplab.agreement import calibration
from opplab.errors import InputError
from opplab.simulation.fitted import fingerprint
from opplab.sweep.experiments import Experiment

from calls import called

HEAD = "seed,table,machine,kernel,benchmark,metric,unit,better,parameter,variant,value,spread,spread_kind,"
EXPERIMENT = """format = 1
name = "mine"
machine = "skylake-8x-uma"
baseline = "schedutil"
published = "lab.csv"
seed = 1
iterations = 1
duration = "3s"

[[policy]]
label = "schedutil"
governor = "schedutil"

[[workload]]
benchmark = "hackbench"
groups = [1, 2]

[[compare]]
table = "hack"
workload = "hackbench"
simulated = "elapsed"
"""


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    row = "lab,hack,skylake-8x-uma,6.12,hackbench,Amean,s,lower,groups=1,schedutil,0.6,,,,"
    (tmp_path / "lab.csv").write_text(f"{HEAD}published_ratio_pct,note\n{row}\n", encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(EXPERIMENT, encoding="utf-8")
    return path


def fit(experiment: Path, rows: str, **given: object) -> calibration.Fit:
    table = experiment.with_name("own.csv")
    table.write_text(rows, encoding="utf-8")
    how = {"only": ["send_cycles"], "rounds": 1, "steps": 1, "seeds": 1, **given}
    return calibration.fit("hackbench", "skylake-8x-uma", baseline=table, experiment=experiment, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["0", "-2", "nan", "inf"])
def test_a_value_that_no_run_has_is_refused(experiment: Path, value: str) -> None:
    """0 and less were an internal error, and NaN made any constants the best ones."""
    with pytest.raises(InputError, match=rf"own.csv:3:1: a value of {value}; a fit needs values above 0"):
        fit(experiment, f"parameter,value\ngroups=1,1\ngroups=2,{value}\n")


def test_a_point_without_a_case_is_named(experiment: Path) -> None:
    """It was left out without a word; with no other point constants were written that came of no run."""
    with pytest.raises(InputError, match="has no case of groups=9: it has groups=1, groups=2"):
        fit(experiment, "parameter,value\ngroups=9,3\n")
    made = fit(experiment, "parameter,value\ngroups=1,1\ngroups=9,3\n")
    assert made.left_out == ["groups=9"]
    assert [place for place, _, _ in made.points] == ["groups=1"]
    words = ["calibrate", "hackbench", "skylake-8x-uma", "--experiment", str(experiment), "--baseline"]
    words += [str(experiment.with_name("own.csv")), "--fit", "send_cycles", "--rounds", "1", "--steps", "1"]
    done = called(*words, "--seeds", "1", "-o", experiment.with_name("fit.toml"))
    assert "note: left out, as" in done.stderr
    assert "has no case of it: groups=9" in done.stderr
    with pytest.raises(InputError, match=r"the baseline has no value at groups=7 \(it has groups=1\)"):
        fit(experiment, "parameter,value\ngroups=1,1\n", points=["groups=1", "groups=7"])


def test_a_baseline_is_of_one_machine(experiment: Path) -> None:
    """Of two values of a point the last was fitted, whatever machine it was of."""
    rows = "parameter,value,machine\ngroups=1,1,skylake-8x-uma\ngroups=1,5,other\n"
    assert [old for _, old, _ in fit(experiment, rows).points] == [1.0]
    with pytest.raises(InputError, match=r"own.csv:3:1: a second value of the baseline at groups=1"):
        fit(experiment, "parameter,value\ngroups=1,1\ngroups=1,5\n")


def test_a_row_of_all_points_is_their_geometric_mean(experiment: Path) -> None:
    """A row that stands for several points was fitted to the last of them, and a point of two rows to one.

    Method: runs of the same constants by themselves.
    """
    made = fit(experiment, "parameter,value\nall,0.5\ngroups=1,0.4\n")
    cycles = int(made.values["send_cycles"])
    times = []
    for groups in (1, 2):
        work = Workload.benchmark("hackbench", groups=groups, send_cycles=cycles)
        metrics = simulate("skylake-8x-uma", work, Policy(), seconds=3, seed=1).metrics.to_dicts()
        times += [row["value"] for row in metrics if row["metric"] == "elapsed"]
    simulated = {place: new for place, _, new in made.points}
    assert simulated["all"] == pytest.approx(math.sqrt(times[0] * times[1]), rel=0.1)
    assert simulated["groups=1"] == pytest.approx(times[0], rel=0.1)


def test_the_constants_of_a_machine_have_the_fits_on_it() -> None:
    """`--show juno-r2` had no constants, and those of the EPYC were without its benchmarks."""
    everything = calibration.show()
    for machine in ("juno-r2", "epyc-7742-2s", "skylake-8x-uma"):
        wanted = [row for row in everything if row["where"] == machine or row["where"].endswith(f"@{machine}")]
        assert wanted
        assert calibration.show(machine) == wanted


def test_a_fit_of_a_model_that_has_changed_since_is_the_start_of_the_next(experiment: Path) -> None:
    """It was refused with `opplab calibrate` as the remedy, and `opplab calibrate` refused it, too.

    Method: a file of another model, with a constant that there is no more.
    """
    old = 'benchmark = "hackbench"\nmachine = "skylake-8x-uma"\n[values]\nsend_cycles = 9000\ngone = 3\n'
    stale = experiment.with_name("old.toml")
    stale.write_text(f'format = 1\n{old}[fit]\nresidual_percent = 1.0\nmodel = "000000000000"\n', encoding="utf-8")
    text = experiment.read_text(encoding="utf-8")
    experiment.write_text(
        text.replace("groups = [1, 2]", 'groups = [1, 2]\ncalibration = "old.toml"'), encoding="utf-8"
    )
    with pytest.raises(InputError):
        Experiment.load(experiment)
    tried: list[int] = []
    rows = "parameter,value\ngroups=1,1\n"
    made = fit(experiment, rows, only=[], progress=lambda values, _: tried.append(values["send_cycles"]))
    assert tried[0] in (4500, 9000), "the last fit's value, or half of it: the bracket's ends"
    assert "gone" not in made.values
    assert f'model = "{fingerprint("hackbench")}"' in calibration.to_toml(made)
    with pytest.raises(InputError, match="has changed since its last fit, so that all its constants are fitted"):
        fit(experiment, rows)
