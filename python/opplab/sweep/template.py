"""Texts of experiment files and rt-app files to start from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opplab.simulation.policy import toml_value

__all__ = ["experiment_text", "workload_text"]


def experiment_text(
    name: str,
    machine: str,
    workload: str,
    governors: Sequence[str],
    seconds: float,
    defaults: Mapping[str, Any] | None = None,
    *,
    iterations: int = 3,
    benchmark: Mapping[str, Any] | None = None,
) -> str:
    """Give an experiment that compares governors under one workload.

    Parameters
    ----------
    name : str
    machine : str
        Built-in name, or the path of a ``.toml`` from the experiment's folder.
    workload : str
        Path of an rt-app file from the experiment's folder, or with `benchmark` the name of a benchmark model.
    governors : sequence of str
        A policy each; the first is the baseline.
    seconds : float
        Simulated time of a case.
    defaults : mapping, optional
        Keys that all policies have.
    iterations : int
        Each has another seed.
    benchmark : mapping, optional
        The model's parameters, a value or a list each, and its calibration.
    """
    label = workload.rpartition("/")[2].partition(".")[0]
    shared = "".join(f"{key} = {toml_value(value)}\n" for key, value in (defaults or {}).items())
    policies = "".join(
        f"\n[[policy]]\nlabel = {json.dumps(governor)}\ngovernor = {json.dumps(governor)}\n" for governor in governors
    )
    what = "rtapp" if benchmark is None else "benchmark"
    parameters = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (benchmark or {}).items())
    about = f"{label} on {machine}: {', '.join(governors)}"
    return (
        "# Run it with `opplab run FILE`. The keys of [defaults] and [[policy]]: `opplab list policy-keys`.\n"
        "format = 1\n"
        f"name = {json.dumps(name)}\n"
        f"about = {json.dumps(about)}\n"
        f"machine = {json.dumps(machine)}\n"
        f"baseline = {json.dumps(governors[0])}\n"
        "seed = 1\n"
        f"iterations = {iterations}  # each with a seed of its own\n"
        f'duration = "{round(seconds * 1e6)}us"\n'
        f"\n[defaults]\n{shared}"
        f"{policies}"
        f"\n[[workload]]\nlabel = {json.dumps(label)}\n{what} = {json.dumps(workload)}\n{parameters}"
    )


def workload_text(tasks: int, run_us: int, period_us: int, seconds: int) -> str:
    """Give an rt-app file of equal periodic tasks.

    Parameters
    ----------
    tasks : int
    run_us : int
        Work of an activation, in us of the biggest CPU at its highest frequency.
    period_us : int
        Time between activations.
    seconds : int
        Duration of the run.
    """
    timer = {"ref": "unique", "period": period_us, "mode": "absolute"}
    whole = {
        "global": {"duration": seconds, "calibration": "CPU0"},
        "tasks": {"periodic": {"instance": tasks, "loop": -1, "run": run_us, "timer": timer}},
    }
    return json.dumps(whole, indent=2) + "\n"
