"""opplab: a laboratory for Linux CPU frequency, frequency-invariant utilisation and energy-aware scheduling.

The public names are loaded when they are first used, so that ``import opplab`` and ``opplab --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module

# As good as typing's for a type checker; importing typing takes longer than `opplab compare` does.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from opplab import kernel as kernel
    from opplab.choice.answer import Choice
    from opplab.choice.choose import choose
    from opplab.comparison.compare import compare
    from opplab.comparison.sources import read_mmtests
    from opplab.errors import CaseError, CheckError, FormatError, InputError, InternalError, OpplabError
    from opplab.explanation.explain import explain
    from opplab.policies import Governor, Placement
    from opplab.results import SCHEMA
    from opplab.simulation.machine import Machine
    from opplab.simulation.policy import Policy
    from opplab.simulation.run import Run
    from opplab.simulation.simulate import simulate
    from opplab.simulation.workload import Workload
    from opplab.sweep.experiments import Experiment
    from opplab.trace.recording import Trace, read_trace

# Public name -> the module that defines it.
_HOME = {
    "CaseError": "errors",
    "CheckError": "errors",
    "Choice": "choice.answer",
    "Experiment": "sweep.experiments",
    "FormatError": "errors",
    "Governor": "policies",
    "InputError": "errors",
    "InternalError": "errors",
    "Machine": "simulation.machine",
    "OpplabError": "errors",
    "Placement": "policies",
    "Policy": "simulation.policy",
    "Run": "simulation.run",
    "SCHEMA": "results",
    "Trace": "trace.recording",
    "Workload": "simulation.workload",
    "choose": "choice.choose",
    "compare": "comparison.compare",
    "explain": "explanation.explain",
    "read_mmtests": "comparison.sources",
    "read_trace": "trace.recording",
    "simulate": "simulation.simulate",
}

__all__ = [
    "SCHEMA",
    "CaseError",
    "CheckError",
    "Choice",
    "Experiment",
    "FormatError",
    "Governor",
    "InputError",
    "InternalError",
    "Machine",
    "OpplabError",
    "Placement",
    "Policy",
    "Run",
    "Trace",
    "Workload",
    "choose",
    "compare",
    "explain",
    "read_mmtests",
    "read_trace",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("opplab._opplab").__version__
    if name == "kernel":
        return import_module("opplab.kernel")
    if name in _HOME:
        value = getattr(import_module(f"opplab.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opplab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", "kernel"])
