"""`Policy` and the TOML files have the same keys."""

import inspect
import json
import pickle
import re
from dataclasses import MISSING, fields, replace
from pathlib import Path
from typing import Any

import policy_stub
import pytest
from test_cli import opplab as opplab_command

import opplab
from opplab import _opplab, results
from opplab.cli.choose import command as choose
from opplab.simulation.policy import toml_value

from calls import answered


def test_the_keys_and_defaults_are_those_of_files() -> None:
    keys = {key["name"]: key["default"] for key in _opplab.policy_keys()}
    own = {}
    for one in fields(opplab.Policy):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        own[one.name] = list(default) if isinstance(default, tuple) else default
    assert list(own) == list(keys)
    # An empty label is the governor's name.
    assert own | {"label": own["governor"]} == keys


def test_the_types_are_those_of_the_declaration() -> None:
    assert policy_stub.PLACE.read_text() == policy_stub.text(), "python tools/policy_stub.py"


def test_a_policy_is_sent_and_compared_like_any_value() -> None:
    policy = opplab.Policy(tunables={"rate_limit_us": 500}, isolcpus=(1,))
    assert pickle.loads(pickle.dumps(policy)) == policy != opplab.Policy()
    assert replace(policy, hz=1000).tunables == policy.tunables
    assert "isolcpus=(1,)" in repr(policy)
    with pytest.raises(AttributeError):
        policy.hz = 100  # type: ignore[misc]


def test_every_key_reaches_the_case(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    machine = opplab.Machine(juno)
    # From 6.14 on schedutil's threads may be moved.
    base = opplab.simulate(machine, workload, opplab.Policy(kernel="6.14"), seconds=0.01)._case.json
    other = {
        "tunables": {"rate_limit_us": 500},
        "gates": {"runnable_signal": "load"},
        "proposals": ("lone-task",),
        "hz": 1000,
        "watchdog_thresh_s": 0,
        "irq_time_accounting": True,
        "sugov_cpus": (1,),
        "no_turbo": True,
        "scaling_min_freq": 800000,
        "scaling_max_freq": {"A72": 1000000},
        "changes": ({"at_ms": 5, "scaling_max_freq": {"A72": 600000}},),
        "nohz_full": (1,),
        "idle_disable": ("cpu-sleep-0", "cluster-sleep-0"),
        "cpu_dma_latency_us": 100,
        "no_overutilized": True,
        "placement": "random",
    }
    for key, value in other.items():
        policy = opplab.Policy(**{"kernel": "6.14", key: value})  # type: ignore[arg-type]
        assert opplab.simulate(machine, workload, policy, seconds=0.01)._case.json != base, key


def test_idle_states_are_disabled_by_one_name_or_several(juno: _opplab.Machine) -> None:
    """Goal: each way to write them is the same. Method: cases, residencies, and a case that is read back."""
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)

    def simulated(**keys: Any) -> opplab.Run:
        return opplab.simulate(opplab.Machine(juno), workload, opplab.Policy(**keys), seconds=0.2)

    def rests(run: opplab.Run) -> set[str]:
        idle = run.metrics.filter(run.metrics["metric"].str.starts_with("idle_residency:"))
        names = {name for name, ms in zip(idle["metric"], idle["value"], strict=True) if ms}
        return {re.split("[:@]", name)[-1] for name in names} - {"none"}

    assert "cluster-sleep-0" in rests(simulated())
    both = [
        simulated(idle_disable=value) for value in ("cpu-sleep-0, cluster-sleep-0", ("cpu-sleep-0", "cluster-sleep-0"))
    ]
    assert both[0]._case.json == both[1]._case.json
    assert rests(both[0]) == {"WFI"} == rests(simulated(cpu_dma_latency_us=1499))
    one = simulated(idle_disable="cluster-sleep-0")
    assert rests(one) == {"cpu-sleep-0"}
    policy = json.loads(one._case.json)["policy"]
    assert policy["idle_disable"] == ["cluster-sleep-0"]
    assert json.loads(_opplab.Case.from_json(one._case.json).to_json())["policy"] == policy
    assert "idle_disable" not in json.loads(simulated()._case.json)["policy"]


def test_unknown_keys_are_told_the_nearest() -> None:
    with pytest.raises(opplab.InputError, match="no key `gouvernor`; did you mean `governor`"):
        opplab.Policy(gouvernor="schedutil")  # type: ignore[call-arg]


def test_a_list_of_cpus_may_be_one_number(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(1, run_us=100, period_us=1000)
    for cpus in (5, "5", (5,)):
        policy = opplab.Policy(offline_cpus=cpus)
        run = opplab.simulate(opplab.Machine(juno), workload, policy, seconds=0.01)
        assert json.loads(run._case.json)["policy"]["offline_cpus"] == [5]


def test_changes_of_a_run_are_checked_as_policies_are(juno: _opplab.Machine) -> None:
    """A change is read on top of the one before it, and written as what it makes otherwise."""
    changes = ({"at_ms": 5, "scaling_max_freq": 600000}, {"at_ms": 8, "governor": "performance"})
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    run = opplab.simulate(opplab.Machine(juno), workload, opplab.Policy(changes=changes), seconds=0.01)
    assert json.loads(run._case.json)["policy"]["changes"] == list(changes)
    for changes, message in (
        (({"at_ms": 5, "hz": 100},), "`hz`.*the keys|key that changes while a run goes on"),
        (({"at_ms": 5, "scaling_max_frq": 1},), "did you mean `scaling_max_freq`"),
        (({"scaling_max_freq": 1},), "needs `at_ms`"),
        (({"at_ms": 5, "governor": "schedutl"},), "did you mean `schedutil`"),
        (({"at_ms": 5, "eas": False}, {"at_ms": 5, "eas": True}), "is not after the change before it"),
    ):
        with pytest.raises(opplab.InputError, match=message):
            opplab.Policy(changes=changes)


def test_none_is_not_given_and_what_no_file_can_have_is_named() -> None:
    """Goal: `epp=args.epp` of a script is right without the option, and no message is about TOML."""
    assert opplab.Policy(governor="performance", epp=None) == opplab.Policy(governor="performance")
    for keys, words in (
        ({"tunables": {"rate_limit_us": None}}, "the key `tunables.rate_limit_us` of a policy is None"),
        ({"epp": float("nan")}, "the key `epp` of a policy is nan"),
        ({"epp": float("-inf")}, "the key `epp` of a policy is -inf"),
        ({"governor": b"performance"}, "the key `governor` of a policy is b'performance'"),
        ({"proposals": (object(),)}, "the key `proposals` of a policy is <object"),
    ):
        with pytest.raises(opplab.InputError, match=re.escape(words)):
            opplab.Policy(**keys)


def test_unknown_proposals_are_told_the_nearest() -> None:
    with pytest.raises(opplab.InputError, match="unknown proposal `lone-tasks`; did you mean `lone-task`"):
        opplab.Policy(proposals=("lone-tasks",))


def test_every_proposal_runs_and_changes_what_is_asked_for(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(6, run_us=6000, period_us=16000)
    for entry in _opplab.proposals():
        policy = opplab.Policy(proposals=(entry["name"],))
        run = opplab.simulate(opplab.Machine(juno), workload, policy, seconds=0.1, check=True)
        assert run.metrics.height > 0, entry["name"]


def test_the_command_line_and_python_have_the_same_defaults(tmp_path: Path) -> None:
    """One file and seed give one run: on the command line, in Python, and from the experiment that a command writes."""
    work = {"tasks": {"t": {"instance": 3, "loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 16000}}}}
    file = tmp_path / "load.json"
    for duration in ({}, {"global": {"duration": 1}}):
        file.write_text(json.dumps({**duration, **work}))
        theirs = opplab.simulate("juno-r2", file)
        out = tmp_path / f"out{len(duration)}"
        answered("run", file, "-m", "juno-r2", "-o", out, "--format", "json")
        ours = results.read(out)
        assert set(ours["fingerprint"]) == {theirs.fingerprint}
        shared = {row["metric"]: row["value"] for row in theirs.metrics.iter_rows(named=True)}
        assert {row["metric"]: row["value"] for row in ours.iter_rows(named=True) if row["metric"] in shared} == shared
    new = ["experiment", "new", "mine", "-m", "juno-r2", "-w", str(file), "-o", str(tmp_path / "mine.toml")]
    answered(*new, "--governor", "schedutil")
    first = opplab.Experiment.load(tmp_path / "mine.toml", iterations=1).run(jobs=1)
    assert set(first["fingerprint"]) == {theirs.fingerprint}


def test_options_of_the_command_line_have_the_defaults_of_python() -> None:
    """Every parameter that `opplab choose` and `opplab.choose` share, by reflection."""
    python = {name: one.default for name, one in inspect.signature(opplab.choose).parameters.items()}
    shared = [one for one in choose.params if python.get(one.name or "") not in (None, (), inspect.Parameter.empty)]
    assert {one.name for one in shared} >= {"governors", "goals", "iterations", "seed", "uncertainty", "variation"}
    for one in shared:
        assert one.name is not None
        own = python[one.name]
        assert one.default == (",".join(own) if isinstance(own, tuple) else own), one.name


BAD_VALUES = {
    "sugov_cpus": ([0], "gate sugov_affinity is `bound`"),
    "driver": ("acpi-cpufreq", "unknown driver of machine juno-r2"),
    "hz": (77, "`hz`"),
    "pelt_half_life_ms": (7, "`pelt_half_life_ms`"),
    "watchdog_thresh_s": (-1, "`watchdog_thresh_s`"),
    "epp": (256, "`epp`"),
    "idle_disable": (["cpu-sleep"], "unknown idle state of machine juno-r2 `cpu-sleep`; did you mean `cpu-sleep-0`"),
    "cpu_dma_latency_us": (2_000_000_001, "`cpu_dma_latency_us`"),
    "gates": ({"runnable_signal": "x"}, "value of gate runnable_signal"),
    "tunables": ({"rate_limit_us": "-5"}, "rate_limit_us"),
    "proposals": (["pelt-multiplier:multiplier=99"], "pelt-multiplier"),
}
"""Values that are of the right kind and that no policy, or none on this machine, has."""


@pytest.mark.parametrize("key", BAD_VALUES)
def test_what_a_machine_lacks_is_refused_by_every_way_in(juno: _opplab.Machine, tmp_path: Path, key: str) -> None:
    """Goal: one rule for all. Method: one value through --set, an experiment, Python and a case's JSON."""
    value, message = BAD_VALUES[key]
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    given = tuple(value) if isinstance(value, list) else value
    with pytest.raises(opplab.InputError, match=message):
        opplab.simulate(opplab.Machine(juno), workload, opplab.Policy(**{key: given}), seconds=0.01)

    case = json.loads(opplab.simulate(opplab.Machine(juno), workload, opplab.Policy(), seconds=0.01)._case.json)
    case["policy"][key] = value
    with pytest.raises(opplab.InputError, match=message):
        _opplab.Case.from_json(json.dumps(case)).run(False)

    file = tmp_path / "w.json"
    file.write_text('{"tasks": {"t": {"run": 800, "timer": {"ref": "t", "period": 16000}}}, "global": {"duration": 1}}')
    experiment = tmp_path / "e.toml"
    assert (
        opplab_command("experiment", "new", "e", "-m", "juno-r2", "-w", str(file), "-o", str(experiment)).returncode
        == 0
    )
    text = experiment.read_text()
    experiment.write_text(text.replace("[[policy]]\n", f"[[policy]]\n{key} = {toml_value(value)}\n", 1))
    words = [["run", str(experiment)], ["run", "-w", str(file), "-m", "juno-r2", "--set", f"{key}={toml_value(value)}"]]
    for line in words:
        done = opplab_command(*line, "-o", str(tmp_path / "out"))
        assert done.returncode == 2, done.stderr
        assert message in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"governor": "schedutl"}, "did you mean `schedutil`"),
        ({"tunables": {"rate_limt_us": 5}}, "did you mean `rate_limit_us`"),
        ({"kernel": "6.l2"}, "did you mean `6."),
        ({"idle_governor": "tea"}, "did you mean `teo`"),
        ({"gates": {"runnable_signl": "load"}}, "did you mean `runnable_signal`"),
        ({"hz": 120}, "`hz` must be 100, 250, 300 or 1000"),
    ],
)
def test_names_that_nothing_has_are_refused_at_construction(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(opplab.InputError, match=words) as caught:
        opplab.Policy(**keys)
    assert "policy:" not in str(caught.value), "no place in a file that nobody wrote"


@pytest.mark.parametrize(
    ("machine", "keys", "words"),
    [
        ("juno-r2", {"offline_cpus": "0-5"}, "`offline_cpus`: no CPU is left online"),
        ("skylake-8x-uma", {"offline_cpus": "0-7"}, "`offline_cpus`: CPU 0 of an x86 machine stays online"),
        ("juno-r2", {"nohz_full": "0-5"}, "`nohz_full`: no CPU is left for timekeeping"),
    ],
)
def test_the_reason_of_a_machine_without_a_cpu_is_its_own(machine: str, keys: dict[str, Any], words: str) -> None:
    """`nohz_full` was named where the last CPU of a machine was taken offline, and nobody had set it."""
    work = opplab.Workload.periodic(1, run_us=1000, period_us=10000)
    with pytest.raises(opplab.OpplabError, match=words):
        opplab.simulate(machine, work, opplab.Policy(**keys), seconds=0.01)
