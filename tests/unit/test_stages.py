"""Stages that others resume: resumes that are lost, and what counts as an activation."""

import json
import re
from pathlib import Path

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
