"""What runs have of the start of a machine in their idle states: one rule and one sentence for all answers."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["FIRST_IDLE", "in_first_idle"]

FIRST_IDLE = "first_idle"
"""Share of CPU time in idle states that governors chose as at boot, in percent."""
_NAMED = 5.0
"""The share from which those that have it are named."""


def in_first_idle(shares: Mapping[str, float], governors: Mapping[str, str] | None = None) -> str:
    """Name those whose CPUs spend much of the time in idle states of the start; empty if there are none.

    Parameters
    ----------
    shares : mapping
        The metric's value, by name.
    governors : mapping, optional
        The idle governor that ran, by name: each comes to its first states in a way of its own.

    Examples
    --------
    >>> in_first_idle({"teo": 3.0, "low": 80.4}, {"low": "ladder"}).partition(":")[0]
    '80 % of the CPU time of low is in idle states of the start, which their governor leaves after 4 long sleeps each'
    >>> in_first_idle({"a": 8.0, "b": 20.0})
    '8 to 20 % of the CPU time of a, b is in idle states of the start: longer runs, or those with a `warmup`, have less'
    >>> in_first_idle({"a": 3.0})
    ''
    """
    from opplab import _opplab

    reasons = dict(_opplab.names("idle-starts"))
    found: dict[str, dict[str, float]] = {}
    for name, share in shares.items():
        if share >= _NAMED:
            why = reasons.get((governors or {}).get(name, ""), "") or "in idle states of the start"
            found.setdefault(why, {})[name] = share
    if not found:
        return ""
    words = []
    for why, of in found.items():
        ends = dict.fromkeys(f"{end:.0f}" for end in (min(of.values()), max(of.values())))
        words.append(f"{' to '.join(ends)} % of the CPU time of {', '.join(of)} is {why}")
    return f"{'; '.join(words)}: longer runs, or those with a `warmup`, have less"
