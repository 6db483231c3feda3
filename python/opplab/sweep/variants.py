"""Variants: what is compared with a baseline policy, each a few keys that differ from it (`--vs`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from opplab import _opplab
from opplab.catalog import nearest
from opplab.errors import InputError
from opplab.kernel import kernel_gates
from opplab.simulation.policy import Policy

__all__ = ["Variant", "of_governors", "with_variants"]

_TABLES = ("tunables", "gates")
_BARE = ("governor",)


@dataclass(frozen=True)
class Variant:
    """A policy to run.

    Attributes
    ----------
    label : str
    keys : dict
        Of an experiment's ``[[policy]]``.
    """

    label: str
    keys: Mapping[str, Any]


def of_governors(keys: Mapping[str, Any]) -> list[Variant]:
    """Give a variant for each governor that the keys name, with commas between them."""
    names = str(keys.get("governor", Policy.governor)).split(",")
    rest = {key: value for key, value in keys.items() if key != "governor"}
    return [Variant(name, {"governor": name, **rest}) for name in dict.fromkeys(names)]


def with_variants(keys: Mapping[str, Any], changes: Iterable[str]) -> list[Variant]:
    """Give the baseline and one more variant for each text of changes.

    Parameters
    ----------
    keys : mapping
        The baseline's policy.
    changes : iterable of str
        ``KEY=VALUE`` with spaces between them: keys of a policy, ``proposal``, tunables of the governor, and gates.

    Raises
    ------
    InputError
        A key or value that nothing has, with the nearest; or a variant that is there already.

    Examples
    --------
    >>> [one.label for one in with_variants({}, ["governor=performance", "proposal=headroom:percent=110"])]
    ['schedutil', 'performance', 'headroom:percent=110']
    >>> with_variants({}, ["rate_limit_us=500 hz=1000"])[1].keys["tunables"]
    {'rate_limit_us': '500'}
    """
    made = of_governors(keys)
    base = made[0]
    for text in changes:
        found = _variant(base, text)
        if any(found.label == one.label or found.keys == one.keys for one in made):
            raise InputError(f"--vs {text}: the variant `{found.label}` is there already")
        made.append(found)
    return made


def _variant(base: Variant, text: str) -> Variant:
    keys: dict[str, Any] = dict(base.keys)
    words = []
    pairs = [word.partition("=") for word in text.split()]
    if not pairs or any(not equals or not name for name, equals, _ in pairs):
        raise InputError(f"--vs '{text}': write it like governor=performance or 'kernel=6.12 hz=1000'")
    chosen = next((value for name, _, value in pairs if name == "governor"), None)
    if chosen is not None and chosen != keys.get("governor"):
        # Another governor does not have this one's tunables.
        keys.pop("tunables", None)
    governor = chosen or str(keys.get("governor", Policy.governor))
    tunables = [row["name"] for row in _opplab.governor_tunables() if row["governor"] == governor]
    gates = {gate.gate for gate in kernel_gates()}
    known = [one.name for one in fields(Policy) if one.name not in ("label", *_TABLES, "proposals")]
    for name, _, value in pairs:
        if name == "proposal":
            keys["proposals"] = (*keys.get("proposals", ()), value)
        elif name in known:
            keys[name] = _read(name, value)
        elif name in tunables:
            keys["tunables"] = {**keys.get("tunables", {}), name: value}
        elif name in gates:
            keys["gates"] = {**keys.get("gates", {}), name: value}
        else:
            every = [*known, "proposal", *tunables, *gates]
            near = nearest(name, every)
            raise InputError(f"--vs {text}: no key `{name}`{near or '; opplab list policy-keys, tunables and gates'}")
        words.append(value if name in (*_BARE, "proposal") else f"{name}={value}")
    return Variant(" ".join(words), keys)


def _read(name: str, value: str) -> Any:
    """Read a value as TOML has it; words are texts."""
    import tomllib

    default = getattr(Policy, name, "")
    if isinstance(default, str) and name != "epp":
        return value
    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    return tuple(read) if isinstance(read, list) else read
