"""What runs have of their start, in idle states and in waits: one rule and one sentence for all answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opplab import _opplab

COLD_NS = 200_000_000
"""What counts as the start of a run: the engine's `missed_at_start` is of it."""
LITTLE = 1.0
"""Percent; who differs by less is as good."""

FIRST_IDLE = "first_idle"
"""Share of CPU time in idle states that governors chose as at boot, in percent."""
_NAMED = 5.0
"""The share from which those that have it are named."""
_WAIT = re.compile(r"(?:group_)?(?:latency|response)_(p\d+|max)(?::.*)?")
_MISSES = ("missed_activations", "group_missed")


@dataclass(frozen=True)
class Start:
    """What a run has of its start, until its tasks have begun."""

    seconds: float = 0.0
    """How long it is, without what is in a `warmup`."""
    share: float = 0.0
    """Of the run; 1 or more where some tasks never begin."""
    tasks: str = "all tasks"
    """Which have begun then."""
    free_s: float = 0.0
    """A length of the run of which it is 1 % at most; 0 where the workload has no more to run."""


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


def read_changes(changes: Iterable[tuple[str, float, str]]) -> list[str]:
    """Give the metrics of the changes that a reader takes for such: over 1 %, and not called unclear.

    Parameters
    ----------
    changes : iterable of (str, float, str)
        Metric, change in percent, and what `opplab.certainty` calls it.

    Examples
    --------
    >>> read_changes([("response_p99", 25.7, "clear"), ("energy", 0.6, "clear"), ("power", 8.0, "not clear")])
    ['response_p99']
    """
    return list(dict.fromkeys(name for name, value, words in changes if abs(value) > LITTLE and words != "not clear"))


def cold_waits(
    names: Iterable[str],
    work: Mapping[str, Any],
    duration_ns: int,
    governors: Iterable[str] = (),
    *,
    longer: bool = True,
) -> str:
    """Report metrics that the start of a run may decide: shares of missed work, and percentiles of waits.

    A percentile is of the start where the start is as large a part of the run as what the percentile leaves above it.
    Rows have no single waits, so that the start cannot be taken out of it.

    Parameters
    ----------
    names : iterable of str
        Metrics that somebody asks for.
    work : mapping
        A case's workload.
    governors : iterable of str
        Those that ran.
    longer : bool
        Whether the workload has more to run than this.

    Examples
    --------
    >>> cold_waits(["energy", "response_p99"], {}, 10_000_000_000, ["schedutil"])
    'response_p99 counts the first 0.2 s, when load tracking starts from 0 (--seconds over 20 leaves p99 free of it)'
    >>> cold_waits(["response_p99"], {}, 30_000_000_000)
    ''
    """
    if work.get("warmup_ns", 0) >= COLD_NS:
        return ""
    found, free_s = [], {}
    for name in names:
        wait = _WAIT.fullmatch(name)
        above = 0.0 if wait is None or wait[1] == "max" else 1 - int(wait[1][1:]) / 100
        if (wait is None and name.partition(":")[0] not in _MISSES) or above * duration_ns > COLD_NS:
            continue
        found.append(name)
        if wait is not None and above:
            free_s[wait[1]] = COLD_NS / above / 1e9
    if not found:
        return ""
    count = "counts" if len(found) == 1 else "count"
    # The clock of the governor performance is as high at the start as later.
    reason = cold_reason(set(governors) - {"performance"})
    start = f"{in_words(found)} {count} the first {COLD_NS / 1e9:g} s{reason}"
    if not free_s or not longer:
        return start
    return f"{start} (--seconds over {max(free_s.values()):.3g} leaves {in_words(list(free_s))} free of it)"


def cold_reason(governors: Iterable[str]) -> str:
    """Give why these governors' clocks are low at the start, where one reason holds for all of them.

    Examples
    --------
    >>> cold_reason(["schedutil"]), cold_reason(["schedutil", "powersave"])
    (', when load tracking starts from 0', '')
    """
    # Others read the busy share of the last period, as intel_pstate and ondemand do, or have firmware that does.
    return ", when load tracking starts from 0" if set(governors) == {"schedutil"} else ""


def in_words(names: Sequence[str]) -> str:
    """List names: ``A``, ``A and B``, ``A, B and C``."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
