"""What the how-to on control groups states of the built-in experiments."""

from pathlib import Path

import polars as pl
import pytest

from lab.studies import groups
from opplab.sweep.experiments import Experiment

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "control-groups.md"


@pytest.fixture(scope="module")
def results() -> dict[str, pl.DataFrame]:
    return {name: Experiment.load(name).run() for name in groups.EXPERIMENTS}


def mean(results: pl.DataFrame, policy: str, metric: str) -> float:
    found = results.filter((pl.col("policy") == policy) & (pl.col("metric") == metric))["value"].mean()
    assert isinstance(found, float)
    return found


@pytest.mark.parametrize("name", groups.EXPERIMENTS)
def test_the_page_has_the_tables_as_they_are_computed(name: str, results: dict[str, pl.DataFrame]) -> None:
    table = groups.table(results[name], groups.EXPERIMENTS[name])
    assert f"<!-- table: {name} -->\n{table}\n<!-- end -->" in PAGE.read_text(), "python -m lab.studies.groups"


def test_sentences_of_the_page_hold(results: dict[str, pl.DataFrame]) -> None:
    noisy = results["noisy-neighbour"]
    response = {
        policy: mean(noisy, policy, "group_response_p99:/web") for policy in ("equal", "idle", "weight", "quota")
    }
    assert response["idle"] < response["weight"] < response["quota"] < response["equal"]
    assert response["quota"] > 2 * mean(noisy, "alone", "group_response_p99:/web")
    for policy in ("idle", "weight"):
        assert mean(noisy, policy, "group_usage:/batch") > 0.99 * mean(noisy, "equal", "group_usage:/batch")
    web = results["web-quota-burst"]
    assert mean(web, "quota", "group_usage:/web") < 2 * 1.3
    assert mean(web, "quota", "group_throttled_periods:/web") > 50
    assert mean(web, "burst 20ms", "group_missed:/web") < 0.1 * mean(web, "quota", "group_missed:/web")
    assert mean(web, "burst 100ms", "group_missed:/web") == 0
    assert mean(web, "period 20ms", "group_missed:/web") > mean(web, "quota", "group_missed:/web")
    cached = results["memcached-quota"]
    p99 = {policy: mean(cached, policy, "group_response_p99:/memcached") for policy in cached["policy"].unique()}
    assert p99["16 CPUs"] < 2 < p99["4 CPUs"] < p99["quota on 16 CPUs"]
    assert p99["quota on 4 CPUs"] == pytest.approx(p99["4 CPUs"], rel=0.02)
    timers = results["quota-timers"]
    for metric in ("power", "work_done"):
        assert mean(timers, "interleaved", metric) < mean(timers, "aligned", metric)
    units = results["uclamp-units"]
    saved = {policy: 1 - mean(units, policy, "energy") / mean(units, "none", "energy") for policy in units["policy"]}
    assert saved["uclamp.max 60"] == pytest.approx(0.15, abs=0.005)
    assert saved["uclamp.max 40"] == pytest.approx(0.18, abs=0.005)
    assert mean(units, "uclamp.max 40", "work_done") == pytest.approx(mean(units, "none", "work_done"), rel=1e-3)
