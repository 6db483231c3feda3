"""opplab: a laboratory for Linux CPU frequency, frequency-invariant utilisation and energy-aware scheduling.

The public names are loaded when they are first used, so that ``import opplab`` and ``opplab --help`` are quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opplab.errors import CaseError, FormatError, InputError, InternalError, OpplabError

_HOME = {
    "CaseError": "errors",
    "FormatError": "errors",
    "InputError": "errors",
    "InternalError": "errors",
    "OpplabError": "errors",
}

__all__ = [
    "CaseError",
    "FormatError",
    "InputError",
    "InternalError",
    "OpplabError",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("opplab._opplab").__version__
    if name in _HOME:
        value = getattr(import_module(f"opplab.{_HOME[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'opplab' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
