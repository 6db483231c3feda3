"""Adaptive stopping: as many iterations as the intervals need, the same ones whatever the executor and the kills."""

import json
import subprocess
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import opplab
import opplab.catalog
from opplab import results
from opplab.agreement.verify import _sweep
from opplab.errors import FormatError, InputError
from opplab.sweep.confidence import paired_half
from opplab.sweep.runner import Until, run_cases
from opplab.sweep.store import Store

import forked

CI = 1.5


def load(iterations: int = 8) -> opplab.Experiment:
    return opplab.Experiment.load("juno-eas", iterations=iterations, seconds=0.1, until_ci=CI)


@pytest.fixture(scope="module")
def stopped() -> pl.DataFrame:
    return load().run(jobs=2)


def test_every_point_stops_at_the_first_iteration_that_is_enough(stopped: pl.DataFrame) -> None:
    """Checked against a full sweep: not one iteration too few or too many."""
    full = opplab.Experiment.load("juno-eas", iterations=8, seconds=0.1).run()
    pairs = load().pairs
    energy = full.filter(pl.col("metric") == "energy")
    expected = {}
    for (benchmark, param), part in energy.group_by("benchmark", "param", maintain_order=True):
        by = {policy[0]: own.sort("iteration")["value"].to_list() for policy, own in part.group_by("policy")}
        for n in range(5, 9):
            halves = [paired_half(by[base][:n], by[new][:n]) for base, new in pairs]
            if n == 8 or all(half is not None and half <= CI for half in halves):
                expected[benchmark, param] = n
                break
    found = stopped.group_by("benchmark", "param").agg(pl.col("iteration").n_unique()).rows()
    assert {(benchmark, param): n for benchmark, param, n in found} == expected
    assert len(set(expected.values())) > 1, "the limit should tell points apart"
    kept = full.join(stopped, on=["policy", "benchmark", "param", "iteration", "metric"], how="semi")
    assert kept.equals(stopped)


def test_resumed_and_wider_folders_give_the_same(stopped: pl.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    assert load().run(folder, jobs=1).equals(stopped)
    for file in sorted((folder / "cases").iterdir())[::3]:
        file.unlink()
    assert load().run(folder, jobs=3).equals(stopped)
    # A folder that holds all iterations already.
    everything = opplab.Experiment.load("juno-eas", iterations=8, seconds=0.1)
    everything.run(folder)
    assert load().run(folder).equals(stopped)


def test_command_and_status(stopped: pl.DataFrame, tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    options = ["--iterations", "8", "--seconds", "0.1", "--until-ci", f"{CI}%", "--no-report"]
    command = [*forked.words(), "run", "juno-eas", "-o", str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    spared = 36 * 8 - stopped.select("policy", "benchmark", "param", "iteration").n_unique()
    assert f"{spared} were not needed" in done.stderr
    assert results.read(folder).equals(stopped)
    status = [*forked.words(), "status", str(folder)]
    said = subprocess.run([*status], capture_output=True, text=True, check=True).stdout
    assert f"0 left, 0 failed, {spared} not needed" in said
    rows = json.loads(subprocess.run([*status, "--format", "json"], capture_output=True, check=True).stdout)
    assert Counter(row["state"] for row in rows) == {"finished": 36 * 8 - spared, "not needed": spared}


def test_verify_published_runs_what_until_asks_for(tmp_path: Path) -> None:
    """It ran all iterations of an experiment whose file stops earlier.

    Method: an interval that any runs reach leaves the fewest iterations of each point.
    """
    text = Path(opplab.catalog.find("experiment", "juno-eas")).read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("baseline =", 'until = { ci = "99%", min = 2 }\nbaseline ='))
    experiment = opplab.Experiment.load(file, iterations=4, seconds=0.05)
    swept = _sweep(experiment, tmp_path / "swept", False, 1, False)
    ran = results.read(tmp_path / "swept").select("policy", "benchmark", "param", "iteration").n_unique()
    assert swept.cases == swept.finished == ran == len(experiment.cases) // 2


def test_file_and_its_mistakes(tmp_path: Path) -> None:
    text = Path(opplab.catalog.find("experiment", "juno-eas")).read_text()
    file = tmp_path / "mine.toml"
    file.write_text(text.replace("baseline =", 'until = { ci = "2%", metric = "energy:A53", min = 4 }\nbaseline ='))
    until = opplab.Experiment.load(file).until
    assert until is not None
    assert (until.ci, until.metric, until.least) == (2.0, "energy:A53", 4)
    bad = text.replace("baseline =", 'until = { ci = "2" }\nbaseline =')
    file.write_text(bad)
    line = next(number for number, words in enumerate(bad.splitlines(), 1) if words.startswith("until"))
    with pytest.raises(FormatError, match=rf"mine.toml:{line}:16: `2` is no share"):
        opplab.Experiment.load(file)
    with pytest.raises(InputError, match="not possible"):
        opplab.Experiment.load("juno-eas", until_ci=0)
    small = opplab.Experiment.load("juno-eas", iterations=3, seconds=0.01)
    with pytest.raises(InputError, match="'energie'"):
        run_cases(small.cases, until=Until(1, small.pairs, "energie"))


def test_a_failed_case_does_not_keep_a_point_from_stopping(tmp_path: Path) -> None:
    experiment = load()
    store = Store(tmp_path / "store")
    store.create(experiment.manifest())
    first = experiment.cases[0]
    store.put_failure(first.hash, first.label, "the lamp is out")
    tally = run_cases(experiment.cases, store, until=experiment.until)
    assert tally.failed == 1
    assert tally.done + tally.failed + tally.spared == tally.total


def test_policies_without_a_pair_count_by_their_mean() -> None:
    until = Until(5.0)
    assert until.enough({"a": [100.0, 101.0, 99.0]})
    assert not until.enough({"a": [100.0, 101.0, 99.0], "b": [100.0, 150.0, 50.0]})
    assert not until.enough({"a": [100.0]})


@pytest.mark.parametrize(
    ("machine", "workload", "metric", "why"),
    [
        ("mt6768", 'benchmark = "periodic"\ntasks = [1]', "energy", "mt6768 has no power"),
        ("juno-r2", 'benchmark = "hackbench"\ngroups = [1]', "elapsed", "(base|other) load groups=1 #[0-2] has none"),
    ],
)
def test_a_metric_that_is_unknown_names_the_machine_or_the_case(
    tmp_path: Path, machine: str, workload: str, metric: str, why: str
) -> None:
    """Goal: a benchmark that did not end is not explained by power that its machine has."""
    file = tmp_path / "own.toml"
    policies = "".join(f'[[policy]]\nlabel = "{name}"\n' for name in ("base", "other"))
    file.write_text(
        f'format = 1\nname = "own"\nabout = "x"\nmachine = ["pixel6", "{machine}"]\nbaseline = "base"\nseed = 1\n'
        f'iterations = 3\nduration = "50ms"\nuntil = {{ ci = "5%", metric = "{metric}", min = 2 }}\n'
        f'{policies}[[workload]]\nlabel = "load"\n{workload}\n'
    )
    with pytest.raises(opplab.InputError, match=f"names the metric '{metric}', which is unknown: {why}"):
        opplab.Experiment.load(file).run(tmp_path / "out", jobs=1)
