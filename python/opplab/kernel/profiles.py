"""Kernel profiles and their gates: which kernel behaves how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from opplab.kernel.native import native as _kernel


class Gate(NamedTuple):
    """One value of one thing that kernels do differently."""

    gate: str
    """The gate's name in policy files."""
    differs: str
    """What differs."""
    value: str
    """The value's name."""
    since: str | None
    """The first version with it; None: in no profile, for overriding only."""
    meaning: str
    """What the value means."""
    source: str
    """Where that is known from."""
    proof: str
    """What was run against it: vectors, recordings; or source, history, memory, override."""


class GateChange(NamedTuple):
    """A gate that two kernels have different values of."""

    gate: str
    """The gate's name in policy files."""
    differs: str
    """What differs."""
    before: str
    """The first kernel's value."""
    before_meaning: str
    """What that means."""
    after: str
    """The second kernel's value."""
    after_meaning: str
    """What that means."""
    since: str | None
    """The releases that brought the second value."""
    source: str
    """Where that is known from."""


def kernel_profiles() -> list[str]:
    """List kernel profiles, oldest first: every mainline release, and some point releases.

    A policy may name any point release and what distributions call it: ``6.6.88``, ``6.1.0-56-amd64``.

    Examples
    --------
    >>> profiles = kernel_profiles()
    >>> profiles[0], profiles[-1], "6.12.117" in profiles
    ('4.14', '7.3', True)
    """
    return _kernel.profiles()


def kernel_gates() -> list[Gate]:
    """List what differs between kernels: every value of every gate with its version and source.

    Examples
    --------
    >>> [(row.value, row.since) for row in kernel_gates() if row.gate == "feec_margin"]
    [('6-percent-of-prev', '4.14'), ('6-percent-of-total', '5.4'), ('none', '6.0')]
    """
    return [Gate(*row) for row in _kernel.gates()]


def kernel_note(name: str) -> str | None:
    """Report what the name of a kernel leaves open: an unknown point release, a distribution's number.

    Examples
    --------
    >>> kernel_note("6.1.0-56-amd64")
    "Debian's 6.1.0-56 is 6.1.192"
    >>> kernel_note("6.12.43") is None
    True
    """
    note: str | None = _kernel.kernel_note(name)
    return note


def kernel_diff(before: str, after: str) -> list[GateChange]:
    """List the gates that differ between two kernels.

    Raises
    ------
    InputError
        An unknown kernel.

    Examples
    --------
    >>> [(row.gate, row.before, row.after) for row in kernel_diff("6.6.87", "6.6.88")]
    [('need_freq_update', 'driver-once', 'once-again')]
    >>> [(row.gate, row.after) for row in kernel_diff("6.12.43", "6.12.44")]
    [('menu_iowait', 'ignored'), ('menu_latency', 'at-once')]
    """
    rows = _kernel.kernel_diff(before, after)
    return [GateChange(gate, what, *old, *new, since, source) for gate, what, old, new, since, source in rows]


class _Commit(NamedTuple):
    """A commit that gave several gates a value at once."""

    name: str
    values: dict[str, str]


@cache
def _values() -> dict[str, list[str]]:
    """Give the values that kernels had of each gate, oldest first."""
    found: dict[str, list[str]] = {}
    for gate in kernel_gates():
        if gate.since is not None:
            found.setdefault(gate.gate, []).append(gate.value)
    return found


@cache
def _commits() -> list[_Commit]:
    """List the commits that brought values of several gates, to the same releases."""
    found: dict[tuple[str, str | None], dict[str, str]] = {}
    for gate in kernel_gates():
        for commit in re.findall(r"\bcommit ([0-9a-f]{12})\b(?! \(what it replaced\))", gate.source):
            found.setdefault((commit, gate.since), {})[gate.gate] = gate.value
    return [_Commit(name, values) for (name, since), values in found.items() if since and len(values) > 1]


def _has(gate: str, value: str, commit: _Commit) -> bool | None:
    """Report whether a gate's value is the commit's or a later one; None where no kernel had it."""
    known = _values()[gate]
    return known.index(value) >= known.index(commit.values[gate]) if value in known else None


def halves(kernel: str, gates: Mapping[str, str]) -> list[str]:
    """Name overridden gates of a kernel that are halves of a commit, with the gates that belong to them.

    Examples
    --------
    >>> [words.partition(":")[0] for words in halves("5.10", {"fair_server": "present"})]
    ['no kernel has fair_server=present with rt_throttling=period']
    >>> halves("5.10", {"fair_server": "present", "rt_throttling": "fair-server"}), halves("5.10", {"teo": "recent"})
    ([], [])
    """
    profile = KernelProfile(kernel)
    found = []
    for commit in _commits():
        now = {gate: _has(gate, gates.get(gate, profile.show(gate)), commit) for gate in commit.values}
        was = {gate: _has(gate, profile.show(gate), commit) for gate in commit.values}
        changed = [gate for gate in commit.values if now[gate] is not None and now[gate] != was[gate]]
        left = [gate for gate in commit.values if changed and now[gate] is not None and now[gate] != now[changed[0]]]
        if not changed or not left:
            continue
        own = " ".join(f"{gate}={gates[gate]}" for gate in changed if gate not in left)
        others = " ".join(f"{gate}={gates.get(gate, profile.show(gate))}" for gate in left)
        found.append(
            f"no kernel has {own} with {others}: commit {commit.name} changed {', '.join(commit.values)} together"
        )
    return found


def together(changes: Sequence[GateChange]) -> list[list[GateChange]]:
    """Put the gates together that a commit changed at once, each in the place of the first of them."""
    out = [[change] for change in changes]
    for commit in _commits():
        crossed = [
            change.gate
            for change in changes
            if change.gate in commit.values
            and _has(change.gate, change.before, commit) != _has(change.gate, change.after, commit)
        ]
        parts = [part for part in out if any(change.gate in crossed for change in part)]
        if len(parts) > 1:
            parts[0] += [change for part in parts[1:] for change in part]
            out = [part for part in out if part not in parts[1:]]
    return out


class KernelProfile(_kernel.KernelProfile):
    """How a kernel of some version behaves.

    Parameters
    ----------
    name : str
        One of `kernel_profiles`, a point release (``6.6.88``) or a distribution's name of one (``6.1.0-56-amd64``).

    Raises
    ------
    InputError
        An unknown profile, gate or value.

    Notes
    -----
    ``show(gate)`` and ``set(gate, value)`` read and override one gate, ``gates()`` lists them all.
    ``rate_limit_us(transition_delay_us=, transition_latency_ns=, driver=)`` is schedutil's default; a driver's name has
    what it makes of a latency of 0.
    ``version`` and ``point`` are the mainline release and the point release whose backports it has; ``proven`` counts
    its values by proof. Source: the rows of `kernel_gates`.

    Examples
    --------
    >>> profile = KernelProfile("5.18")
    >>> profile.show("fair_class"), profile.show("noninvariant_headroom")
    ('cfs', 'once')
    >>> [KernelProfile(name).rate_limit_us(transition_latency_ns=10_000) for name in ("5.18", "6.12")]
    [10000, 15]
    >>> [KernelProfile(name).rate_limit_us(driver="cpufreq-dt") for name in ("5.18", "6.12", "6.18")]
    [10000, 6442450, 1500]
    """

    __slots__ = ()
