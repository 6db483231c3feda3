"""Kernel profiles and their gates: which kernel behaves how."""

from __future__ import annotations

from typing import NamedTuple

from opplab.kernel.native import native as _kernel

__all__ = ["Gate", "KernelProfile", "kernel_gates", "kernel_profiles"]


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


def kernel_profiles() -> list[str]:
    """List the kernel profiles that a policy may name, oldest first.

    Examples
    --------
    >>> kernel_profiles()
    ['4.14-android', '4.17', '4.19', '5.0', '5.4', '5.9', '5.10', '5.15', '5.18',
     '6.1', '6.5', '6.6', '6.8', '6.12', '6.13', '6.14', '6.16', '6.18', '6.19']
    """
    return _kernel.profiles()


def kernel_gates() -> list[Gate]:
    """List what differs between kernels: every value of every gate with its version and source.

    Examples
    --------
    >>> [(row.value, row.since) for row in kernel_gates() if row.gate == "feec_margin"]
    [('6-percent-of-prev', '4.17'), ('6-percent-of-total', '5.4'), ('none', '6.0')]
    """
    return [Gate(*row) for row in _kernel.gates()]


class KernelProfile(_kernel.KernelProfile):
    """How a kernel of some version behaves.

    Parameters
    ----------
    name : str
        One of `kernel_profiles`; a leading ``v`` is allowed.

    Raises
    ------
    InputError
        An unknown profile, gate or value.

    Notes
    -----
    ``show(gate)`` and ``set(gate, value)`` read and override one gate, ``gates()`` lists them all.
    ``rate_limit_us(transition_delay_us=, transition_latency_ns=)`` is schedutil's default.
    Source: the rows of `kernel_gates`.

    Examples
    --------
    >>> profile = KernelProfile("5.18")
    >>> profile.show("fair_class"), profile.show("noninvariant_headroom")
    ('cfs', 'once')
    >>> [KernelProfile(name).rate_limit_us(transition_latency_ns=10_000) for name in ("5.18", "6.12")]
    [10000, 15]
    """

    __slots__ = ()
