"""Cases and what is measured in them.

A `Case` is one cell of an experiment's matrix: machine, workload, policy, seed and length, with the labels that its
results carry.  `Measured` has the labels beside what was measured (crate `results`), and `rows_of` puts them together.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from sys import intern
from typing import Any

from opplab import _opplab


@dataclass(frozen=True, slots=True)
class Case:
    """One run to be made."""

    hash: str
    """Hash of `json`; the name of the case's file in a results folder."""
    experiment: str
    machine: str
    kernel: str
    policy: str
    benchmark: str
    param: str
    """`experiment` to `param`: labels of its results."""
    iteration: int
    """From 0."""
    seed: int
    """Seed of all its random draws."""
    duration_ns: int
    """Simulated time."""
    size: int
    """How much work it is, for the order of cases: CPUs and tasks, of which its text is made, for that long."""
    inner: _opplab.Case = field(compare=False, repr=False)
    """Everything that the run depends on."""

    @classmethod
    def of(cls, inner: _opplab.Case) -> Case:
        """Name an extension's case."""
        name, length = inner.key()
        return cls(
            hash=name,
            experiment=intern(inner.experiment),
            machine=intern(inner.machine),
            kernel=intern(inner.kernel),
            policy=intern(inner.policy),
            benchmark=intern(inner.benchmark),
            param=intern(inner.param),
            iteration=inner.iteration,
            seed=inner.seed,
            duration_ns=inner.duration_ns,
            size=inner.duration_ns * length,
            inner=inner,
        )

    @property
    def point(self) -> tuple[str, str, str]:
        """Machine, benchmark and parameters: what policies and seeds are compared at."""
        return self.machine, self.benchmark, self.param

    @property
    def json(self) -> str:
        """Everything that the run depends on, as text, which can be sent to another process."""
        return self.inner.to_json()

    @property
    def file(self) -> dict[str, Any]:
        """The same as tables, which nobody may change."""
        return _file_of(self)

    @property
    def label(self) -> str:
        """Words for messages: policy, benchmark, parameters, iteration."""
        return " ".join(filter(None, (self.policy, self.benchmark, self.param, f"#{self.iteration}")))


@lru_cache(maxsize=64)
def _file_of(case: Case) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(case.json)
    return found


def names_of(cases: Iterable[Case]) -> dict[str, str]:
    """Give hash -> words for messages: the label, after the machine's name where there are several machines."""
    listed = list(cases)
    has_several = len({case.machine for case in listed}) > 1
    return {case.hash: f"{case.machine} {case.label}" if has_several else case.label for case in listed}


@dataclass(frozen=True, slots=True)
class Measured:
    """The results of a finished case."""

    labels: dict[str, Any]
    """The columns of `opplab.results.SCHEMA` that all its rows share."""
    rows: list[tuple[str, str, str, float | None]]
    """Metric, unit, which side is better, value."""

    @classmethod
    def of(cls, case: Case, outcome: _opplab.Outcome) -> Measured:
        """Put a case's labels beside what ``_opplab.Case.run`` gave."""
        place = ("machine", "kernel", "policy", "benchmark", "param", "iteration", "seed")
        labels = {
            "experiment": case.experiment,
            "source": "sim",
            **{name: getattr(case, name) for name in place},
            "fingerprint": f"{outcome['fingerprint']:016x}",
        }
        return cls(labels, outcome["rows"])

    def dicts(self) -> list[dict[str, Any]]:
        """Give the rows by the names of their columns."""
        names = ("metric", "unit", "better", "value")
        return [{**self.labels, **dict(zip(names, row, strict=True))} for row in self.rows]


def rows_of(case: Case, outcome: _opplab.Outcome) -> list[dict[str, Any]]:
    """Give the result rows of a finished case.

    Parameters
    ----------
    outcome : dict
        What ``_opplab.Case.run`` gave.

    Returns
    -------
    list of dict
        Rows of `opplab.results.SCHEMA`.

    Notes
    -----
    All figures are of the time after the warm-up.  A benchmark's own metric comes first, under its own name; it is
    absent if the run was too short for it.  ``energy`` is the sum of the clusters, as the Juno's meters are summed in
    the tables; the rest of the machine is ``energy:rest``; ``power`` is the mean of the same.  Where a cluster's power
    is not known, these are null; where the machine file has ranges of its powers, ``energy_low`` and ``energy_high``
    are the energy at their ends.  Residencies are shares of the cluster's CPU time in percent.
    """
    return Measured.of(case, outcome).dicts()


def measured_time(lengths: Iterable[tuple[int, int]], of: str = "") -> str:
    """Give the time of some runs, and what of it nothing is measured in, from their lengths and warm-ups in ns.

    Examples
    --------
    >>> measured_time([(2_000_000_000, 0)], " a run")
    '2 s a run'
    >>> measured_time([(1_000_000_000, 500_000_000)])
    '1 s, the first 0.5 s left out'
    >>> measured_time([(1_000_000_000, 0), (3_000_000_000, 500_000_000)])
    '1 to 3 s, the first 0 to 0.5 s left out'
    """

    def seconds(each_ns: Iterable[int]) -> str:
        ends = sorted(set(each_ns))
        return " to ".join(f"{ns / 1e9:g}" for ns in dict.fromkeys((ends[0], ends[-1])))

    whole, warm_ups = zip(*lengths, strict=True)
    left_out = f", the first {seconds(warm_ups)} s left out" if any(warm_ups) else ""
    return f"{seconds(whole)} s{of}{left_out}"
