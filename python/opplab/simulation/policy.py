"""Policies: everything that can be chosen on a given machine.

The keys are declared in crate `model` (``policy_keys.rs``), with types, defaults and what they are; ``policy.pyi`` is
written from the same declaration by ``python tools/policy_stub.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, field, fields, make_dataclass
from math import isfinite
from typing import Any

from opplab import _opplab
from opplab.catalog import nearest
from opplab.errors import FormatError, InputError
from opplab.files import plain, toml_value

ABOUT = """Everything that can be chosen on a given machine.

    The keys are those of an experiment's ``[[policy]]``; ``opplab list policy-keys`` has them with their values.

    Attributes
    ----------
{keys}

    Raises
    ------
    InputError
        If there is no such key, governor, tunable or other name; suggests the nearest one.

    Examples
    --------
    >>> import opplab
    >>> opplab.Policy(kernel="5.18", eas=False).governor
    'schedutil'
"""


def keys() -> Iterator[tuple[str, str, Any, str]]:
    """Give name, type, default and meaning of each key."""
    for key in _opplab.policy_keys():
        name, default, about = key["name"], key["default"], key["about"]
        if name == "label":
            # The policy's own governor, which is not known before there is one.
            default, about = "", f"{about}; the governor if it is empty"
        yield name, key["type"], tuple(default) if isinstance(default, list) else default, about


def _plain(name: str, value: Any) -> Any:
    """Give a value as a file has it; refuse one that no file could have, by its key."""
    value = plain(value)
    if isinstance(value, Mapping):
        return {key: _plain(f"{name}.{key}", item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_plain(name, item) for item in value)
    if not isinstance(value, str | int | float) or (isinstance(value, float) and not isfinite(value)):
        raise InputError(f"the key `{name}` of a policy is {value!r}: give a text, a number, or true or false")
    return value


def check_keys(given: Iterable[str]) -> None:
    """Refuse keys that a policy does not have."""
    known = [one.name for one in fields(Policy)]
    for key in given:
        if key not in known:
            raise InputError(f"a policy has no key `{key}`{nearest(key, known)}; the keys: {', '.join(known)}")


def _init(self: Any, **given: Any) -> None:
    """Set the keys; refuse those that do not exist, and values that no file could have."""
    check_keys(given)
    # As in every Python interface, None is what is not given.
    given = {name: _plain(name, value) for name, value in given.items() if value is not None}
    for name, _, default, _ in keys():
        object.__setattr__(self, name, given.get(name, default))
    try:
        # What does not fit a machine shows when it runs.
        _opplab.check_policy(self._toml())
    except FormatError as error:
        # The policy was not read from a file: a place in it would mislead.
        raise InputError(str(error).split(": ", 1)[1]) from None


def _toml(self: Any) -> str:
    """Give it as TOML with the keys of an experiment's ``[[policy]]``."""
    values = asdict(self) | {"label": self.label or str(self.governor)}
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in values.items() if value not in ("", (), {}))


Policy: Any = make_dataclass(
    "Policy",
    [
        (name, kind, field(default_factory=dict) if isinstance(default, dict) else field(default=default))
        for name, kind, default, _ in keys()
    ],
    namespace={
        "__init__": _init,
        "__module__": __name__,
        "__doc__": ABOUT.format(
            keys="\n".join(f"    {name} : {kind}\n        {what}" for name, kind, _, what in keys())
        ),
        "_toml": _toml,
    },
    frozen=True,
    init=False,
    kw_only=True,
)
