"""Wrong calls of the Python interface are refused by the name of what is wrong, before anything runs."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import opplab


class Half(opplab.Governor):
    """Half of the highest frequency."""

    def update(self, facts: Any) -> int:
        return int(facts.max_khz) // 2


WORK = opplab.Workload.periodic(2, run_us=800, period_us=16000)


@pytest.fixture(scope="module")
def run() -> opplab.Run:
    return opplab.simulate("juno-r2", WORK, seconds=0.1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"governor": Half}, r"`governor` is the class Half: give an object of it, Half\(\)"),
        ({"governor": "schedutil"}, "`governor` is 'schedutil', which has no method `update`"),
        ({"placement": Half()}, "has no method `select`: see opplab.Placement"),
        ({"seconds": "1"}, "`seconds`: give a number of seconds, not '1'"),
        ({"seed": -1}, "`seed`: give a whole number of at least 0 and below 2.64, not -1"),
        ({"seed": 1.5}, "not 1.5"),
        ({"workload": 3}, "a workload is .* not 3"),
        ({"policy": 3}, "`governor` must be a string"),
    ],
)
def test_a_run_names_what_is_wrong(given: dict[str, Any], words: str) -> None:
    with pytest.raises(opplab.InputError, match=words):
        opplab.simulate(**{"machine": "juno-r2", "workload": WORK, "seconds": 0.1, **given})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda run: run.plot(seconds=0), "a picture of 0 s"),
        (lambda run: run.plot(start="1"), "`start`: give a number"),
        (lambda run: run.plot(start=float("nan")), "nan s is not within the run"),
        (lambda run: run.meter("rails", every_s=0), "a time of 0 s between readings"),
        (lambda run: run.turbostat(every_s="1"), "`every_s`: give a number"),
        (lambda run: opplab.explain(run, cpu=0, at="50ms"), "`at`: give a number of seconds, not '50ms'"),
        (lambda run: opplab.Workload.periodic(2, run_us=800.5, period_us=16000), "run_us=800.5: give a whole number"),
        (
            lambda run: opplab.Experiment.load("juno-eas", iterations=0),
            "`iterations`: give a whole number of at least 1",
        ),
        (lambda run: opplab.Experiment.load("juno-eas", seed=-1), "`seed`: give a whole number"),
        (lambda run: opplab.choose("juno-r2", WORK, iterations="3"), "`iterations`: give a whole number"),
        (lambda run: opplab.choose("juno-r2", WORK, jobs="1"), "`jobs`: give a whole number of at least 1"),
        (lambda run: opplab.choose("juno-r2", WORK, tunables=3), "`tunables` is a mapping of names to values, not 3"),
        (lambda run: opplab.choose("juno-r2", WORK, search="rate_limit_us"), "`search` is a mapping"),
        (lambda run: opplab.Experiment.load("juno-eas").run(jobs="1"), "`jobs`: give a whole number of at least 1"),
        (lambda run: opplab.Experiment.load("juno-eas").run(jobs=0), "`jobs`: give a whole number of at least 1"),
        (lambda run: opplab.Policy(governor=3), "`governor` must be a string"),
    ],
)
def test_what_is_asked_of_a_run_names_what_is_wrong(
    run: opplab.Run, call: Callable[[opplab.Run], object], words: str
) -> None:
    with pytest.raises(opplab.InputError, match=words):
        call(run)


def test_numbers_of_numpy_are_numbers(run: opplab.Run) -> None:
    work = opplab.Workload.periodic(np.int64(2), run_us=np.int64(800), period_us=np.int64(16000))  # type: ignore[arg-type]
    again = opplab.simulate("juno-r2", work, seconds=np.float64(0.1), seed=np.int64(1))  # type: ignore[arg-type]
    assert again.fingerprint == run.fingerprint
    assert str(again.plot(start=np.float32(0.05)))  # type: ignore[arg-type]
