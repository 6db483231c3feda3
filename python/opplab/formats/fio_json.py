"""fio's ``--output-format=json``: bandwidth, operations a second and latencies of each job and direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opplab.mmtests.fio import JSON_METRICS, jobs
from opplab.runs import Run, Series

if TYPE_CHECKING:
    from collections.abc import Callable


def sniff(head: str, name: str) -> bool:
    """Whether a file is fio's JSON, which may follow warnings in plain text."""
    return '"fio version"' in head or ('"jobs"' in head and "fio" in name)


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run; repeated jobs of a name are iterations."""
    run = Run(name, "fio")
    known = {metric: (unit, higher) for metric, _, unit, higher in JSON_METRICS}
    try:
        for job, direction, values in jobs(text, problem):
            for metric, value in values.items():
                unit, higher = known.get(metric, ("ns", False))
                label = f"{metric}-{job}-{direction}"
                series = run.series.setdefault(label, Series(label, metric, f"{job}-{direction}", unit, higher))
                series.iterations.append([value])
    except ValueError as error:
        problem(str(error))
    return [run] if run.series else []
