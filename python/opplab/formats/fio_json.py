"""fio's ``--output-format=json``: bandwidth, operations a second and latencies of each job and direction."""

from __future__ import annotations

from collections.abc import Callable

from opplab.mmtests.fio import JSON_METRICS, jobs
from opplab.runs import Run, Series


def sniff(head: str, name: str) -> bool:
    """Whether a file is fio's JSON, which may follow warnings in plain text."""
    return '"fio version"' in head or ('"jobs"' in head and "fio" in name)


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run; jobs of one name ran side by side, and are one value."""
    run = Run(name, "fio")
    known = {metric: (unit, higher) for metric, _, unit, higher in JSON_METRICS}
    try:
        together: dict[str, list[dict[str, float]]] = {}
        for job, direction, values in jobs(text, problem):
            together.setdefault(f"{job}-{direction}", []).append(values)
        for param, parts in together.items():
            for metric, value in _whole(parts).items():
                unit, higher = known.get(metric, ("ns", False))
                label = f"{metric}-{param}"
                run.series[label] = Series(label, metric, param, unit, higher, [[value]])
    except ValueError as error:
        problem(str(error))
    return [run] if run.series else []


def _whole(parts: list[dict[str, float]]) -> dict[str, float]:
    """Rates added up, mean latencies by operations; percentiles of several jobs cannot be put together.

    Examples
    --------
    >>> _whole([{"ios": 1, "iops": 100.0, "lat_mean": 10.0}, {"ios": 3, "iops": 300.0, "lat_mean": 30.0}])
    {'iops': 400.0, 'lat_mean': 25.0}
    """
    if len(parts) == 1:
        return {metric: value for metric, value in parts[0].items() if metric != "ios"}
    operations = [part["ios"] for part in parts]
    found = {}
    for metric, _, _, higher in JSON_METRICS:
        if all(metric in part for part in parts):
            values = [part[metric] for part in parts]
            weighted = sum(value * weight for value, weight in zip(values, operations, strict=True))
            found[metric] = sum(values) if higher else weighted / sum(operations)
    return found
