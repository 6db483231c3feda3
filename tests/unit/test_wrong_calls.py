"""Wrong calls of the Python interface are refused by the name of what is wrong, before anything runs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opplab
from opplab import kernel


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
        (lambda run: opplab.explain(run, cpu=0, at=float("nan")), "nan s is not within the run"),
        (lambda run: opplab.explain(run, cpu=0, at=1e300), "1e[+]300 s is not within the run"),
        (lambda run: run.meter("rails", every_s=1e-9), "1e-09 s between readings is too short: give at least 1 us"),
        (lambda run: run.turbostat(every_s=1e-12), "at least 1 us"),
        (lambda run: opplab.compare([]), "there is no source"),
        (lambda run: opplab.compare(3), "results are a path, several paths or a polars table, not int"),
        (lambda run: opplab.compare([1, 2]), "results are a path, several paths or a polars table, not list"),
        (lambda run: opplab.Experiment.load("juno-eas", until_ci="1"), "`until_ci`: give a number of percent"),
        (lambda run: opplab.Experiment.load("juno-eas", params=3), "`params` is a mapping"),
        (lambda run: opplab.Machine.from_tree([1]), "the tables of a machine are a mapping"),
        (lambda run: opplab.choose("juno-r2", WORK, constraints=(1,)), "`constraints` takes texts, not 1"),
        (lambda run: kernel.plot_signals([1], [2]), "signals are a mapping of names to arrays, not list"),
        (lambda run: kernel.PeltBatch(2**31), "2147483648 tasks are more than a kernel can have"),
        (lambda run: opplab.explain(3, cpu=0), "what is explained is a Run, .* not 3"),
        (lambda run: opplab.Experiment.load("juno-eas", iterations=2**40), "`iterations` must be at most 1000000"),
        (
            lambda run: opplab.Workload.periodic(2**40, run_us=1, period_us=9),
            "1099511627776 threads; at most 100000 can be",
        ),
        (lambda run: opplab.Workload.benchmark(3), "no benchmark is called `3`"),
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
    given = opplab.Policy(hz=np.int64(250), eas=np.bool_(True), tunables={"rate_limit_us": np.int64(500)})
    assert given == opplab.Policy(hz=250, eas=True, tunables={"rate_limit_us": 500})
    with pytest.raises(opplab.InputError, match="the key `hz` of a policy is nan"):
        opplab.Policy(hz=np.float64("nan"))
    asked: dict[str, Any] = {"governors": ["schedutil"], "seconds": 0.05, "iterations": 2, "uncertainty": 0, "jobs": 1}
    ours, plain = (opplab.choose("juno-r2", WORK, hz=hz, **asked) for hz in (np.array([250, 1000]), [250, 1000]))
    assert ours.to_json() == plain.to_json()
    tables = opplab.Machine.load("juno-r2").tree
    assert opplab.Machine.from_tree(tables | {"floor_uw": np.int64(5)}).tree["floor_uw"] == 5
    assert str(again.plot(start=np.float32(0.05)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda trace: trace.energy("juno-r3"), "juno-r2"),
        (lambda trace: trace.energy(3), "`machine` is 3: give a machine or its name"),
        (lambda trace: trace.signals(WORK), "`machine` is Workload"),
        (lambda trace: trace.sql(3), "`query` is 3: give a SELECT statement"),
        (lambda trace: trace.plot(seconds=float("nan")), "`seconds`: give a number of seconds, not nan"),
        (lambda trace: trace.plot(start=float("inf")), "`start`: give a number of seconds, not inf"),
        (lambda trace: trace.plot(seconds=-1), "a picture of -1 s is not within the trace"),
        (lambda trace: opplab.explain(trace.path, cpu=0, at="0.05"), "`at`: give a number of seconds, not '0.05'"),
        (lambda trace: opplab.explain(trace.path, machine="juno-r2", cpu=0, at=float("inf")), "inf s is not within"),
        (lambda trace: opplab.explain(trace.path, machine="juno-r2", cpu=0, at=-0.01), "-0.01 s is not within"),
    ],
)
def test_what_is_asked_of_a_trace_names_what_is_wrong(
    run: opplab.Run, call: Callable[[opplab.Trace], object], words: str, tmp_path: Path
) -> None:
    run.to_trace(tmp_path / "trace.dat")
    with pytest.raises(opplab.InputError, match=words):
        call(opplab.read_trace(tmp_path / "trace.dat"))


def test_the_machine_of_a_trace_may_be_its_name(run: opplab.Run, tmp_path: Path) -> None:
    """Goal: what the command takes for --machine, Python takes: a name, a file, and a machine are one answer."""
    run.to_trace(tmp_path / "trace.dat")
    trace = opplab.read_trace(tmp_path / "trace.dat")
    juno = opplab.Machine.load("juno-r2")
    (tmp_path / "own.toml").write_text(juno.to_toml())
    machines: list[Any] = [juno, "juno-r2", tmp_path / "own.toml", str(tmp_path / "own.toml")]
    assert len({trace.energy(machine).total_j for machine in machines}) == 1
    query = "select sum(energy_j) as joules from energy_tasks"
    assert len({trace.sql(query, machine)["joules"][0] for machine in machines}) == 1
    sums = [trace.signals(machine).tasks.to_dicts() for machine in machines]
    assert all(one == sums[0] for one in sums)
    pages = [trace.view(tmp_path / "t.html", machine).read_text() for machine in machines[:2]]
    assert pages[0] == pages[1]


def test_the_machine_of_an_explanation_may_be_its_name(run: opplab.Run, tmp_path: Path) -> None:
    run.to_trace(tmp_path / "trace.dat")
    by_name, by_machine = (
        str(opplab.explain(tmp_path / "trace.dat", machine=machine, cpu=1, at=0.05))
        for machine in ("juno-r2", opplab.Machine.load("juno-r2"))
    )
    assert by_name == by_machine


def test_tables_of_a_machine_that_are_changed_make_another_machine() -> None:
    """A change in place had no effect on runs, but had one on ranges: energy was of two machines."""
    machine = opplab.Machine.load("juno-r2")
    tables = machine.tree
    for cluster in tables["cluster"]:
        for key in ("cluster_uw", "busy_uw", "uw"):
            for place in (*cluster["opp"], *cluster["idle"], *cluster["cluster_idle"]):
                place.update({key: 2 * place[key]} if key in place else {})
    assert machine.tree != tables
    hungry = opplab.Machine.from_tree(tables)
    joules = [
        opplab.simulate(one, WORK, seconds=0.2).metrics.filter(metric="energy")["value"].item()
        for one in (machine, opplab.Machine.load("juno-r2"), hungry)
    ]
    assert joules[0] == joules[1]
    assert joules[2] == pytest.approx(2 * joules[0])


@pytest.mark.parametrize("seed", [2**63, 2**64 - 1])
def test_every_seed_that_is_not_refused_runs(seed: int) -> None:
    """Of a benchmark seeds from 2^63 on were refused; a choice that came to 2^64 ended with an OverflowError."""
    for load in (WORK, "hackbench"):
        assert opplab.simulate("juno-r2", load, seconds=0.02, seed=seed).metrics["seed"].to_list()[0] == seed
    asked: dict[str, Any] = {"seconds": 0.05, "uncertainty": 0, "jobs": 1, "governors": ["schedutil", "performance"]}
    found = opplab.choose("juno-r2", WORK, seed=seed, iterations=2, **asked)
    runs = [opplab.simulate("juno-r2", WORK, seconds=0.05, seed=one) for one in (seed, (seed + 1) % 2**64)]
    joules = [run.metrics.filter(metric="energy")["value"].item() for run in runs]
    schedutil = next(option for option in found.options if option.label == "schedutil")
    assert schedutil.parts["energy"].value == pytest.approx(sum(joules) / 2)
