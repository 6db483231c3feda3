"""`Policy` and the TOML files have the same keys."""

from dataclasses import MISSING, fields

import pytest

import opplab
from opplab import _opplab


def test_the_keys_and_defaults_are_those_of_files() -> None:
    keys = {key["name"]: key["default"] for key in _opplab.policy_keys()}
    own = {}
    for one in fields(opplab.Policy):
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        own[one.name] = list(default) if isinstance(default, tuple) else default
    assert list(own) == list(keys)
    # An empty label is the governor's name.
    assert own | {"label": own["governor"]} == keys


def test_every_key_reaches_the_case(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    machine = opplab.Machine(juno)
    base = opplab.simulate(machine, workload, opplab.Policy(), seconds=0.01)._case.json
    other = {
        "tunables": {"rate_limit_us": 500},
        "gates": {"runnable_signal": "load"},
        "proposals": ("lone-task",),
        "hz": 1000,
        "watchdog_thresh_s": 0,
        "irq_time_accounting": True,
        "sugov_cpus": (1,),
        "no_turbo": True,
        "no_overutilized": True,
        "placement": "random",
    }
    for key, value in other.items():
        policy = opplab.Policy(**{key: value})  # type: ignore[arg-type]
        assert opplab.simulate(machine, workload, policy, seconds=0.01)._case.json != base, key


def test_unknown_keys_are_told_the_nearest() -> None:
    with pytest.raises(opplab.InputError, match="no key `gouvernor`; did you mean `governor`"):
        opplab.Policy(gouvernor="schedutil")  # type: ignore[call-arg]


def test_unknown_proposals_are_told_the_nearest(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    policy = opplab.Policy(proposals=("lone-tasks",))
    with pytest.raises(opplab.InputError, match="unknown proposal `lone-tasks`; did you mean `lone-task`"):
        opplab.simulate(opplab.Machine(juno), workload, policy, seconds=0.01)


def test_every_proposal_runs_and_changes_what_is_asked_for(juno: _opplab.Machine) -> None:
    workload = opplab.Workload.periodic(6, run_us=6000, period_us=16000)
    for entry in _opplab.proposals():
        policy = opplab.Policy(proposals=(entry["name"],))
        run = opplab.simulate(opplab.Machine(juno), workload, policy, seconds=0.1, check=True)
        assert run.metrics.height > 0, entry["name"]
