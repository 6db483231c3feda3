"""An experiment's policies on a live machine: the options of `opplab host compare` that set them.

The same file is simulated (`opplab run`, `opplab predict`) and measured.  What a policy's keys write is the table of
`opplab.choice.settings`, which `opplab choose` takes its commands from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.catalog import nearest
from opplab.choice.settings import SETTABLE, Setting, Unset, Write, writes_of
from opplab.errors import InputError
from opplab.files import toml_of
from opplab.sweep.variants import Variant

if TYPE_CHECKING:
    from opplab.sweep.experiments import Experiment


SIMULATED_ONLY = ("label", "variation")
"""Keys of a policy that describe how it is simulated; they are nothing to set."""


@dataclass
class Plan:
    """What is measured."""

    words: list[str]
    """Options of `opplab host compare`: the baseline's settings first."""
    notes: list[str]
    """What all policies have in common and a live machine does not take."""
    workload: str


def plan_of(experiment: Experiment, workload: str = "", root: Path = Path("/")) -> Plan:
    """Give the options that set an experiment's policies on a live machine.

    Parameters
    ----------
    workload : str
        Which of its workloads the command stands for; the only one.
    root : Path
        The live machine's files.

    Raises
    ------
    InputError
        Naming each key that differs between policies and that no file of a running kernel sets.
    """
    file = toml_of(experiment.text, experiment.file)
    names = list(experiment.workloads)
    if not workload and len(names) > 1:
        raise InputError(f"{experiment.file}: several workloads: --workload {'|'.join(names)} is what COMMAND runs")
    if workload and workload not in names:
        raise InputError(f"{experiment.file}: no workload `{workload}`{nearest(workload, names)}")
    defaults = dict(file.get("defaults", {}))
    policies = {str(one["label"]): {**defaults, **one} for one in file["policy"]}
    base = experiment.baseline or next(iter(policies))
    order = [base, *(label for label in policies if label != base)]
    if len(order) < 2:
        raise InputError(f"{experiment.file}: one policy alone is no comparison")
    differing = _differing(list(policies.values()))
    machine = experiment.cases[0].file["machine"]
    words, notes, refused = [], [], []
    for label in order:
        keys = {key: value for key, value in policies[label].items() if key not in SIMULATED_ONLY}
        written, unset = _settings(keys, machine, root)
        refused += [f"`{label}`: {one.words}" for one in unset if one.key in differing]
        notes += [one.words for one in unset if one.key not in differing]
        words += ["--set", ";".join(f"{path}={value}" for path, value in written), "--label", label]
    if refused:
        raise InputError(f"{experiment.file}: not to be set on a live machine: {'; '.join(dict.fromkeys(refused))}")
    return Plan([*words, "--name", workload or names[0]], list(dict.fromkeys(notes)), workload or names[0])


def _differing(policies: Sequence[Mapping[str, Any]]) -> set[str]:
    """Give the keys in which policies differ."""
    keys = {key for policy in policies for key in policy}
    return {key for key in keys if any(policy.get(key, ...) != policies[0].get(key, ...) for policy in policies)}


def _settings(
    keys: Mapping[str, Any], machine: Mapping[str, Any], root: Path
) -> tuple[list[tuple[str, str]], list[Unset]]:
    """Split a policy's keys into files with their values, and what cannot be set."""
    found: list[tuple[str, str]] = []
    unset: list[Unset] = []
    for one in writes_of(Setting.of(Variant("", keys)), machine, keys):
        if isinstance(one, Unset):
            unset.append(one)
        # The driver's mode of a simulated machine is not asked for by the file.
        elif one.key != "driver" or "driver" in keys:
            found.append((_where(one, root), one.value))
    said = {one.key for one in unset}
    others = [key for key in keys if key not in SETTABLE and key not in said]
    unset += [Unset(key, f"`{key}` is set by no file of a running kernel") for key in others]
    running = os.uname().release
    return found, [one for one in unset if not (one.key == "kernel" and running.startswith(str(keys["kernel"])))]


def _where(write: Write, root: Path) -> str:
    """Choose the place that this machine has; the last one where it has none, whose absence `host compare` names."""
    for pattern in write.files:
        if any(root.glob(pattern.lstrip("/"))):
            return pattern
    return write.files[-1]
