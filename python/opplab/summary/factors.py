"""The factors of a sweep: policies that are every combination of the values of two keys or more."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opplab.simulation.policy import Policy

_BARE = ("governor", "proposals")
_NEVER = ("label",)


def grid_of(policies: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Give each policy's value of each factor, or nothing if they are not a full grid of two factors or more.

    Parameters
    ----------
    policies : mapping of str to mapping
        By label the keys of a policy as cases have them; a key that one leaves out has its default there.

    Examples
    --------
    >>> grid_of({
    ...     "base": {}, "a": {"hz": 1000}, "b": {"tunables": {"rate_limit_us": "500"}},
    ...     "both": {"hz": 1000, "tunables": {"rate_limit_us": "500"}},
    ... })["a"]
    ('hz=1000', 'rate_limit_us=default')
    >>> grid_of({"base": {}, "a": {"hz": 1000}, "b": {"hz": 100}})
    {}
    """
    flat = {label: _flat(policy) for label, policy in policies.items()}
    factors: dict[tuple[int, ...], list[str]] = {}
    for key in dict.fromkeys(key for one in flat.values() for key in one):
        words = [_word(key, one.get(key)) for one in flat.values()]
        if len(set(words)) > 1:
            # Keys that change only together, as a governor and its driver, are one factor.
            factors.setdefault(tuple(map(words.index, words)), []).append(key)
    places = {
        label: tuple(" ".join(_word(key, one.get(key)) for key in keys) for keys in factors.values())
        for label, one in flat.items()
    }
    number = math.prod(len(set(partition)) for partition in factors)
    return places if len(factors) > 1 and number == len(places) == len(set(places.values())) else {}


def _flat(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Give tunables and gates by their own names, beside the keys."""
    out: dict[str, Any] = {}
    for key, value in policy.items():
        if isinstance(value, Mapping):
            out |= value
        elif key not in _NEVER:
            out[key] = value
    return out


def _word(key: str, value: Any) -> str:
    """Give a key with its value, in the words of `--vs`."""
    if value is None:
        value = getattr(Policy, key, "default")
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        value = str(value).lower()
    text = "default" if value == "" else str(value)
    return text if key in _BARE and text not in ("none", "default") else f"{key}={text}"
