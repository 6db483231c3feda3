"""What a quiet system does beside a workload: `background` of experiments, `--background`, its list."""

import json
from pathlib import Path

import polars as pl
import pytest

from opplab import catalog, results
from opplab.errors import InputError
from opplab.sweep.experiments import Experiment
from opplab.trace.learn import background, read

from calls import answered, called

NAME = "debian-12-idle"
WORK = {
    "tasks": {"work": {"instance": 4, "loop": -1, "run": 800, "timer": {"ref": "unique", "period": 16000}}},
    "global": {"duration": 2},
}


def run(folder: Path, *options: str) -> tuple[pl.DataFrame, str]:
    """Give the results and the answer of a run of four tasks on a Juno."""
    (folder / "work.json").write_text(json.dumps(WORK))
    words = ["run", str(folder / "work.json"), "-m", "juno-r2", "-o", str(folder / "out"), "--check", *options]
    done = answered(*words)
    return results.read(folder / "out"), done.output


def mean(table: pl.DataFrame, metric: str) -> float:
    found = table.filter(pl.col("metric") == metric)["value"].mean()
    assert isinstance(found, float)
    return found


def test_the_workloads_own_metrics_leave_it_out(tmp_path: Path) -> None:
    for name in ("alone", "beside"):
        (tmp_path / name).mkdir()
    alone, plain = run(tmp_path / "alone")
    beside, told = run(tmp_path / "beside", "--background", NAME)
    for metric in ("activations", "missed_activations", "work_done"):
        assert mean(beside, metric) == pytest.approx(mean(alone, metric), rel=1e-3), metric
    assert mean(beside, "energy") > mean(alone, "energy")
    assert mean(beside, "switches") > mean(alone, "switches")
    assert f"background {NAME}" in " ".join(told.split())
    assert "background" not in plain


def test_threads_of_an_offline_cpu_run_on_the_others(tmp_path: Path) -> None:
    table, _ = run(tmp_path, "--background", NAME, "--set", "offline_cpus=[1]")
    assert mean(table, "switches") > 0


def test_tasks_wake_as_often_and_run_as_long_as_recorded() -> None:
    # By another way: the recording's own counts, which the decks do not hold.
    model = read(catalog.find("background", NAME))
    nr_cpus, tasks = background(catalog.find("background", NAME))
    assert nr_cpus == model.cpus
    for group in model.groups:
        own = [
            (sum(waits) / len(waits), sum(cycles) / len(cycles))
            for name, _, waits, cycles in tasks
            if name == group.name
        ]
        # At the recording's clock a cycle takes 1 ns.
        rate = sum(1e9 / (wait + run) for wait, run in own)
        assert rate == pytest.approx(group.activations / model.seconds, rel=1e-3), group.name
        assert rate * own[0][1] / 1e6 == pytest.approx(group.cpu_ms / model.seconds, rel=0.1), group.name


def test_a_background_of_ones_own_needs_its_clock(tmp_path: Path) -> None:
    text = catalog.find("background", NAME).read_text()
    own = tmp_path / "mine.toml"
    own.write_text(text.replace("clock_khz", "#"))
    with pytest.raises(InputError, match=r"mine.toml: a background needs `clock_khz` in \[learnt\]"):
        background(own)
    own.write_text(text.replace("cpu = 3", "cpu = 4"))
    with pytest.raises(InputError, match=r"mine.toml: `cpu` of group `kworker/3` is none of the 4 CPUs"):
        background(own)


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    (tmp_path / "work.json").write_text(json.dumps(WORK))
    head = 'format = 1\nname = "e"\nmachine = "juno-r2"\nbackground = "debian-12-idel"\n'
    file.write_text(f'{head}[[policy]]\nlabel = "a"\n[[workload]]\nrtapp = "work.json"\n')
    with pytest.raises(InputError, match=f"unknown background `debian-12-idel`; did you mean `{NAME}`"):
        Experiment.load(file)


def test_it_is_listed() -> None:
    done = called("list", "backgrounds", "--format", "json")
    assert [row["background"] for row in json.loads(done.stdout)] == [NAME]
