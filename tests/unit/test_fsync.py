"""Text 001's chain: the page shows what the engine computes, and the mechanism's directions hold."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.studies import fsync, pages
from opplab.sweep.experiments import Experiment

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return Experiment.load(fsync.EXPERIMENT)


def test_the_page_and_its_figure_are_what_the_study_makes(experiment: Experiment) -> None:
    assert pages.main("fsync", "", fsync.texts, ["--docs", str(DOCS), "--check"]) == 0
    page = (DOCS / "fsync-chain.md").read_text(encoding="utf-8")
    speeds = [int(found) for found in re.findall(r"^\| [^|]+ \| (\d+) \|", page, re.MULTILINE)]
    assert len(speeds) == len(experiment.policies) == len(fsync.WORDS)
    assert all(speed > speeds[0] for speed in speeds[1:])


def test_without_a_boost_everything_runs_at_a_low_clock_and_with_one_the_cores_rise_together(
    experiment: Experiment,
) -> None:
    def highest(policy: str) -> dict[str, float]:
        part = fsync.window(experiment, policy)
        return {
            name: max(one.ghz for one in part.slices if one.task == number)
            for number, name in enumerate(part.tasks)
            if any(one.task == number for one in part.slices)
        }

    plain, boosted, idle = map(highest, ("vanilla", "hwp-iowait-boost-series", "SLE15"))
    assert max(plain.values()) < 1.5
    # Only sqlite3 waits in iowait, but a client processor's cores have one clock.
    assert min(boosted.values()) > 3
    assert min(idle.values()) > 3
