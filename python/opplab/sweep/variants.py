"""Variants: what is compared with a baseline policy, each a few keys that differ from it (`--vs`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from opplab import _opplab
from opplab.catalog import nearest
from opplab.errors import InputError
from opplab.files import toml_value
from opplab.report.start import in_words
from opplab.simulation.policy import Policy
from opplab.sweep.drivers import NOTHING_KNOWN, MachineFacts
from opplab.sweep.power_profiles import PowerProfile, is_power_profile, power_profiles

_TABLES = ("tunables", "gates")
_BARE = ("governor",)


@dataclass(frozen=True)
class Variant:
    """A policy to run."""

    label: str
    keys: Mapping[str, Any]
    """Of an experiment's ``[[policy]]``."""
    origin: str = ""
    """The file of power profiles that it is of."""


def labels_apart(labels: Sequence[str], origins: Sequence[str]) -> list[str]:
    """Give profiles that are called like something else the names of their files, too.

    Examples
    --------
    >>> labels_apart(["performance", "performance", "balanced"], ["", "power-profiles-daemon", "power-profiles-daemon"])
    ['performance', 'performance (power-profiles-daemon)', 'balanced']
    >>> labels_apart(["x", "x"], ["a/x/tuned.conf", "b/x/tuned.conf"])
    ['x (a/x/tuned.conf)', 'x (b/x/tuned.conf)']
    """
    made = [
        f"{label} ({Path(origin).name})" if origin and labels.count(label) > 1 else label
        for label, origin in zip(labels, origins, strict=True)
    ]
    return [
        f"{label} ({origin})" if origin and made.count(own) > 1 else own
        for own, label, origin in zip(made, labels, origins, strict=True)
    ]


def of_governors(keys: Mapping[str, Any]) -> list[Variant]:
    """Give a variant for each governor that the keys name, with commas between them."""
    names = str(keys.get("governor", Policy.governor)).split(",")
    rest = {key: value for key, value in keys.items() if key != "governor"}
    return [Variant(name, {"governor": name, **rest}) for name in dict.fromkeys(names)]


def told_apart(given: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> str:
    """Give the keys of a baseline that others change, as its row names them; its governor names itself.

    Examples
    --------
    >>> told_apart({"governor": "powersave", "epp": "performance", "hz": 250}, [{"epp": "power", "hz": 250}])
    'epp=performance'
    >>> told_apart({"tunables": {"rate_limit_us": "500"}}, [{"tunables": {"rate_limit_us": "2000"}}, {}])
    'rate_limit_us=500'
    """
    own = _flat(given)
    changed = {key for other in map(_flat, others) for key, value in other.items() if own.get(key, value) != value}
    return " ".join(f"{key}={_shown(value)}" for key, value in own.items() if key in changed - {*_BARE, "proposals"})


def _flat(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Give keys of a policy beside its tunables and gates."""
    # What is no table is refused where it is read.
    tables = [keys[name] for name in _TABLES if isinstance(keys.get(name), Mapping)]
    plain = {key: value for key, value in keys.items() if key not in _TABLES}
    return plain | {key: value for table in tables for key, value in table.items()}


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else toml_value(value).replace(" ", "")


def with_variants(
    keys: Mapping[str, Any],
    changes: Iterable[str],
    on: MachineFacts = NOTHING_KNOWN,
    said: Callable[[str], None] = lambda _: None,
) -> list[Variant]:
    """Give the baseline and one more variant for each text of changes.

    The baseline's label has its governor, and the given keys that a variant changes.

    Parameters
    ----------
    keys : mapping
        The baseline's policy.
    changes : iterable of str
        ``KEY=VALUE`` with spaces or commas between them: keys of a policy, ``proposal``, tunables of the governor, and
        gates. Or a file of power profiles (`opplab.sweep.power_profiles`), each of which is a variant.
    on : MachineFacts
        What profiles ask of the machine.
    said : callable
        Takes what of a profile was left out, and what contradicts itself.

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
    >>> with_variants({}, ["governor=ondemand,hz=1000"])[1].label
    'ondemand hz=1000'
    """
    made = of_governors(keys)
    base, governors = made[0], len(made)
    for text in changes:
        if is_power_profile(text):
            found = [_of_profile(base, text, profile, said) for profile in power_profiles(text, on, base=base.keys)]
        else:
            found = [_variant(base, text)]
        for variant in found:
            # Of one name are those that no file of profiles keeps apart.
            named = [one for one in made if variant.label == one.label and not (variant.origin or one.origin)]
            same = next((one for one in made if variant.keys == one.keys or one in named), None)
            if same is None:
                made.append(variant)
            elif variant.origin:
                own = variant.label if variant.label != same.label else f"{variant.label} ({variant.origin})"
                same_of = f"{own} and {same.label} set the same of what is simulated on this machine"
                said(f"{text}: {same_of}: one row, {same.label}")
            else:
                other = "" if variant.label == same.label else f" as `{same.label}`"
                raise InputError(f"--vs {text}: the variant `{variant.label}` is there already{other}")
    if words := told_apart(base.keys, [one.keys for one in made[governors:]]):
        made[:governors] = [replace(one, label=f"{one.label} {words}") for one in made[:governors]]
    labels = labels_apart([one.label for one in made], [one.origin for one in made])
    return [replace(one, label=label) for one, label in zip(made, labels, strict=True)]


def _of_profile(base: Variant, text: str, profile: PowerProfile, said: Callable[[str], None]) -> Variant:
    keys = dict(base.keys)
    if profile.keys.get("governor", keys.get("governor")) != keys.get("governor"):
        keys.pop("tunables", None)
    for note in profile.notes:
        said(note)
    return Variant(profile.name, {**keys, **profile.keys}, text)


def _variant(base: Variant, text: str) -> Variant:
    # Imports NumPy, which runs without variants do not need.
    from opplab.kernel import kernel_gates

    keys: dict[str, Any] = dict(base.keys)
    words = []
    gates = {gate.gate for gate in kernel_gates()}
    known = [one.name for one in fields(Policy) if one.name not in ("label", *_TABLES, "proposals")]
    names = {*known, *gates, *(row["name"] for row in _opplab.governor_tunables())}
    pairs = [word.partition("=") for part in _parts(text, str.isspace) for word in _split(part, names)]
    if not pairs or any(not equals or not name for name, equals, _ in pairs):
        raise InputError(f"--vs '{text}': write it like governor=performance or 'kernel=6.12 hz=1000'")
    chosen = next((value for name, _, value in pairs if name == "governor"), None)
    if chosen is not None and chosen != keys.get("governor"):
        # Another governor does not have this one's tunables.
        keys.pop("tunables", None)
    governor = chosen or str(keys.get("governor", Policy.governor))
    tunables = [row["name"] for row in _opplab.governor_tunables() if row["governor"] == governor]
    for name, _, value in pairs:
        if name == "proposal":
            keys["proposals"] = (*keys.get("proposals", ()), value)
        elif name in known:
            keys[name] = value_of(name, value)
        elif name in tunables:
            keys["tunables"] = {**keys.get("tunables", {}), name: value}
        elif name in gates:
            keys["gates"] = {**keys.get("gates", {}), name: value}
        elif whose := [row["governor"] for row in _opplab.governor_tunables() if row["name"] == name]:
            told = f"`{name}` is a tunable of {in_words(whose)}, and the variant's governor is {governor}"
            raise InputError(f"--vs {text}: {told}; write 'governor={whose[0]} {text}'")
        else:
            every = [*known, "proposal", *tunables, *gates]
            near = nearest(name, every)
            raise InputError(f"--vs {text}: no key `{name}`{near or '; opplab list policy-keys, tunables and gates'}")
        words.append(value if name in (*_BARE, "proposal") else f"{name}={value}")
    return Variant(" ".join(words), keys)


def _parts(text: str, parts_at: Callable[[str], bool]) -> list[str]:
    """Split at characters outside of brackets and quotes, which a table of TOML has.

    Examples
    --------
    >>> _parts("hz=1000  changes=[{at_ms=5, epp='power'}]", str.isspace)
    ['hz=1000', "changes=[{at_ms=5, epp='power'}]"]
    """
    parts, depth, quote = [""], 0, ""
    for char in text:
        if depth <= 0 and not quote and parts_at(char):
            parts.append("")
            continue
        parts[-1] += char
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "[{") - (char in "]}")
    return [part for part in parts if part]


def _split(part: str, names: Collection[str]) -> list[str]:
    """Split at commas before a key; others are part of a value, as are all in what a proposal takes."""
    if part.startswith("proposal="):
        return [part]
    out: list[str] = []
    for word in _parts(part, ",".__eq__):
        if out and word.partition("=")[0] not in names:
            out[-1] += f",{word}"
        else:
            out.append(word)
    return out


def value_of(name: str, value: str) -> Any:
    """Read the value of a policy's key as TOML has it; words are texts, and so is what a key of text gets."""
    import tomllib

    try:
        read = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return value
    if isinstance(getattr(Policy, name, None), str) and name != "epp" and not isinstance(read, str):
        return value
    return tuple(read) if isinstance(read, list) else read
