"""Findings: a sentence and the numbers that it was made of; and how times, frequencies and CPUs are written."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opplab.cpulist import listed
from opplab.errors import InputError
from opplab.report.numbers import some_of

TASKS = 12
"""Tasks that a message lists."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found."""

    time_ns: int
    """When it happened."""
    kind: str
    """``running``, ``clock``, ``frequency``, ``earlier``, ``later``, ``firmware``, ``placement``, ``slow``, ..."""
    text: str
    """The sentence."""
    data: dict[str, Any] = field(default_factory=dict)
    """The numbers, by the names of the decision records' columns."""


class Explanation:
    """Findings in the order in which they are to be read; ``str()`` gives the text."""

    def __init__(self, about: dict[str, Any], findings: list[Finding]) -> None:
        self.about = about
        self.findings = findings

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def __str__(self) -> str:
        return "\n".join(finding.text for finding in self.findings)

    def __repr__(self) -> str:
        return f"Explanation({len(self.findings)} findings)"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as plain values."""
        findings = [
            {"time_ns": one.time_ns, "kind": one.kind, "text": one.text, "data": one.data} for one in self.findings
        ]
        return {**self.about, "findings": findings}

    def to_json(self) -> str:
        """Give all of it as JSON."""
        return json.dumps(self.to_dict(), indent=2)


def on_cpus(counts: Mapping[int, int]) -> str:
    """Write how often something was on which CPU."""
    return ", ".join(f"{count} on CPU {cpu}" for cpu, count in sorted(counts.items()))


def by_cpu(counts: Mapping[int, int]) -> dict[str, int]:
    """Give the same as the data of a finding."""
    return {str(cpu): count for cpu, count in sorted(counts.items())}


def nearest_task(task: str, names: Sequence[str]) -> str:
    """Give the end of a message that names the nearest task, or all of a few; of `names` the most active come first."""
    from opplab.catalog import nearest

    return nearest(task, sorted(names)) or (f" (known: {some_of(names, TASKS)})" if names else "")


def check_one_pid(pids: Collection[int], task: str) -> None:
    """Refuse a name that several tasks have."""
    if len(pids) > 1:
        which = ", ".join(map(str, sorted(pids)))
        raise InputError(f"{len(pids)} tasks are called `{task}`; name one by its pid: {which}")


def seconds(time_ns: int) -> str:
    """Give a point in time in seconds with all its digits to the us.

    Examples
    --------
    >>> seconds(1_234_567_890)
    '1.234568 s'
    """
    return f"{time_ns / 1e9:.6f} s"


def length(ns: float) -> str:
    """Give a length of time in a unit that reads well.

    Examples
    --------
    >>> length(7_200_000), length(900), length(31_000)
    ('7.2 ms', '900 ns', '31 us')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if ns >= size:
            return f"{ns / size:.4g} {unit}"
    return f"{ns:.0f} ns"


def mhz(khz: int) -> str:
    """Give a frequency in MHz.

    Examples
    --------
    >>> mhz(1_500_000), mhz(429_112)
    ('1500 MHz', '429.112 MHz')
    """
    return f"{khz / 1000:.7g} MHz"


def cpu_list(cpus: list[int]) -> str:
    """Give CPUs as the kernel lists them.

    Examples
    --------
    >>> cpu_list([0, 3, 4, 5])
    'CPUs 0,3-5'
    >>> cpu_list([2])
    'CPU 2'
    """
    return f"CPU{'s' if len(cpus) > 1 else ''} {listed(cpus)}"
