"""A governor in Python is recorded under its own name, in schedutil's place."""

import pytest

import opplab


class Highest(opplab.Governor):
    def update(self, facts):
        return facts.max_khz


WORK = opplab.Workload.periodic(2, run_us=800, period_us=16000)


def test_results_have_the_name_of_the_class():
    run = opplab.simulate("juno-r2", WORK, opplab.Policy(), seconds=0.1, governor=Highest())
    assert run.metrics["policy"].unique().to_list() == ["Highest (Python)"]
    named = opplab.simulate("juno-r2", WORK, opplab.Policy(label="mine"), seconds=0.1, governor=Highest())
    assert named.metrics["policy"].unique().to_list() == ["mine"]


def test_the_place_of_another_governor_is_refused():
    with pytest.raises(opplab.InputError, match="takes schedutil's place"):
        opplab.simulate("juno-r2", WORK, "performance", seconds=0.1, governor=Highest())


def test_explain_names_the_class():
    run = opplab.simulate("juno-r2", WORK, opplab.Policy(), seconds=0.1, governor=Highest())
    assert "reported to Highest (Python)" in str(opplab.explain(run, cpu=0, at=0.05))
    assert opplab.explain(run, cpu=0, at=0.05).about["governor"] == "Highest (Python)"
