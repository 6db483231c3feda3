"""Texts of experiment files and rt-app files to start from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from opplab.files import toml_value
from opplab.sweep.variants import Variant


def experiment_text(
    name: str,
    machine: str | Sequence[str],
    workload: str,
    variants: Sequence[Variant],
    seconds: float | None,
    *,
    iterations: int = 3,
    seed: int = 1,
    benchmark: Mapping[str, Any] | None = None,
    names: Sequence[str] = (),
    background: str = "",
    notes: Sequence[str] = (),
) -> str:
    """Give an experiment that compares policies under one workload.

    Parameters
    ----------
    machine : str or sequence of str
        Built-in names, or paths of ``.toml`` files from the experiment's folder.
    workload : str
        Path of an rt-app file from the experiment's folder, or with `benchmark` the name of a benchmark model.
    variants : sequence of Variant
        The first is the baseline.
    seconds : float or None
        Simulated time of a case; None for the workload's own.
    iterations : int
        Each has another seed.
    seed : int
        Of the first iteration.
    benchmark : mapping, optional
        The model's parameters, a value or a list each, and its calibration.
    names : sequence of str
        The machines' own, where their files have others.
    background : str
        What runs beside the workload: a built-in name, or a path of a ``.toml`` from the experiment's folder.
    notes : sequence of str
        What the answer names beside its numbers.
    """
    label = workload.rpartition("/")[2].partition(".")[0]
    # What all variants share stands once; a table of tunables or gates is a variant's own.
    shared = {
        key: value
        for key, value in variants[0].keys.items()
        if key != "governor"
        and not isinstance(value, Mapping)
        and all(key in one.keys and one.keys[key] == value for one in variants)
    }
    defaults = _keys(shared)
    policies = "".join(
        f"\n[[policy]]\nlabel = {json.dumps(one.label)}\n"
        + _keys({key: value for key, value in one.keys.items() if key not in shared})
        for one in variants
    )
    what = "rtapp" if benchmark is None else "benchmark"
    parameters = "".join(f"{key} = {json.dumps(value)}\n" for key, value in (benchmark or {}).items())
    machines = [machine] if isinstance(machine, str) else list(machine)
    about = f"{label} on {', '.join(names or machines)}: {', '.join(one.label for one in variants)}"
    return (
        "# Run it with `opplab run FILE`. The keys of [defaults] and [[policy]]: `opplab list policy-keys`.\n"
        "format = 1\n"
        f"name = {json.dumps(name)}\n"
        f"about = {json.dumps(about)}\n"
        f"machine = {json.dumps(machines if len(machines) > 1 else machines[0])}\n"
        + (f"background = {json.dumps(background)}\n" if background else "")
        + f"baseline = {json.dumps(variants[0].label)}\n"
        f"seed = {seed}\n"
        f"iterations = {iterations}  # each with a seed of its own\n"
        + (f'duration = "{round(seconds * 1e6)}us"\n' if seconds is not None else "")
        + (f"notes = {json.dumps(list(notes))}\n" if notes else "")
        + f"\n[defaults]\n{defaults}"
        f"{policies}"
        f"\n[[workload]]\nlabel = {json.dumps(label)}\n{what} = {json.dumps(workload)}\n{parameters}"
    )


def _keys(keys: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in keys.items())


def workload_text(tasks: int, run_us: int, period_us: int, seconds: int) -> str:
    """Give an rt-app file of equal periodic tasks.

    Parameters
    ----------
    run_us : int
        Work of an activation, in us of CPU 0 at its highest frequency, boosted where it boosts.
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
