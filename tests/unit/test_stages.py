"""Stages that others resume: resumes that are lost, and what counts as an activation."""

import json
import re
from pathlib import Path

import polars as pl
import pytest

import opplab

from calls import answered

SECONDS = 2.0


def stages(render_us: int) -> str:
    """Give a frame of two stages every 16 ms, each in its control group."""
    timer = {"ref": "unique", "period": 16000}
    ui = {"loop": -1, "taskgroup": "/top-app", "run": 1000, "resume": "render", "timer": timer}
    render = {"loop": -1, "taskgroup": "/render", "suspend": "render", "run": render_us}
    return json.dumps({"tasks": {"ui": ui, "render": render}, "global": {"duration": -1}})


@pytest.mark.parametrize("render_us", [2000, 20000])
def test_resumes_that_find_nobody_suspended_are_lost(render_us: int) -> None:
    work = opplab.Workload.parse(stages(render_us))
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=SECONDS)
    metrics = dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))
    loops = run.events("activation")
    timed = sum(loops["timed"])
    drawn = len(loops["timed"]) - timed
    # A loop of the second stage for each resume that was not lost; one may be open at the end.
    assert metrics["lost_resumes"] == pytest.approx(100 * (1 - drawn / timed), abs=200 / timed)
    assert (metrics["lost_resumes"] > 40) is (render_us == 20000)
    # Activations are those that a timer begins, in groups and in the whole.
    assert metrics["activations"] == pytest.approx(timed, abs=1)
    groups = {name for name in metrics if name.startswith("group_missed:")}
    assert groups == {"group_missed:/top-app"}
    assert metrics["group_missed:/top-app"] == metrics["missed_activations"]


def test_an_answer_shows_lost_resumes_and_the_work_that_is_not_done(tmp_path: Path) -> None:
    (tmp_path / "frames.json").write_text(stages(12000))
    words = ["run", str(tmp_path / "frames.json"), "-m", "juno-r2", "--vs", "governor=powersave", "--seconds", "1"]
    words += ["--iterations", "3", "--variation", "noisy-host"]
    done = answered(*words, "-o", tmp_path / "out", "--all", columns=300)
    assert "lost resumes" in done.stdout
    assert "% less work than" in done.stdout
    # The sentence has the interval, or why there is none.
    assert re.search(r"powersave loses [\d.]+ % of its resumes \(schedutil [\d.]+ %: \+.* points", done.stdout)


def test_comparisons_show_lost_resumes_where_there_are_some(tmp_path: Path) -> None:
    alone = '{"tasks": {"ui": {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 16000}}}}'
    for name, text in (("frames", stages(12000)), ("alone", alone)):
        (tmp_path / f"{name}.json").write_text(text)
        words = ["run", str(tmp_path / f"{name}.json"), "-m", "juno-r2", "--seconds", "1", "--iterations", "3"]
        words += ["--variation", "noisy-host"]
        for governor in ("schedutil", "powersave"):
            answered(*words, "--governor", governor, "--no-report", "-o", tmp_path / name / governor)
    apart = [tmp_path / "frames" / governor for governor in ("schedutil", "powersave")]
    table = json.loads(answered("compare", *apart, "--format", "json").stdout)
    cells = [cell for cell in table["cells"] if cell["metric"] == "lost_resumes"]
    shown = {cell["run"]: cell["value"] for cell in cells}
    # The runs by themselves: what each simulation counted.
    work = opplab.Workload.parse(stages(12000))
    for governor, folder in zip(("schedutil", "powersave"), apart, strict=True):
        rows = opplab.results.read(folder).filter(metric="lost_resumes")
        assert shown[governor] == pytest.approx(rows["value"].mean())
        policy = opplab.Policy(governor=governor, variation="noisy-host")
        run = opplab.simulate("juno-r2", work, policy, seconds=1, seed=rows["seed"][0])
        assert run.metrics.filter(metric="lost_resumes")["value"].item() == pytest.approx(rows["value"][0])
    assert shown["powersave"] > 10
    # Where none is lost there is no row of it.
    without = answered("compare", *(tmp_path / "alone" / each.name for each in apart)).stdout
    assert "missed_activations" in without
    assert "lost_resumes" not in without


def test_the_page_of_runs_names_lost_resumes(tmp_path: Path) -> None:
    (tmp_path / "frames.json").write_text(stages(12000))
    words = ["run", str(tmp_path / "frames.json"), "-m", "juno-r2", "--vs", "governor=powersave", "--seconds", "1"]
    answered(*words, "--iterations", "3", "-o", tmp_path / "out")
    lost = opplab.results.read(tmp_path / "out").filter(metric="lost_resumes")
    worst = lost.group_by("policy").agg(pl.col("value").mean())
    page = (tmp_path / "out" / "report.html").read_text()
    assert f"Lost resumes, work that is not done: at most {worst['value'].max():.2g} %." in page
