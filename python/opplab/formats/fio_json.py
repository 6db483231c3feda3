"""fio's ``--output-format=json``: bandwidth, operations a second and latencies of each job and direction."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opplab.runs import Run, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_METRICS = (
    # metric, path in the direction's object, unit, higher is better
    ("bw_mean", ("bw_mean",), "KiB/sec", True),
    ("iops", ("iops",), "ops/sec", True),
    ("clat_mean", ("clat_ns", "mean"), "ns", False),
    ("lat_mean", ("lat_ns", "mean"), "ns", False),
)
_PERCENTILES = ("50.000000", "95.000000", "99.000000", "99.900000")


def sniff(head: str, name: str) -> bool:
    """Whether a file is fio's JSON, which may follow warnings in plain text."""
    return '"fio version"' in head or ('"jobs"' in head and "fio" in name)


def jobs(text: str) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Job name, direction and values of each job that did something.

    Raises
    ------
    ValueError
        When the text is not JSON, with line and column, or has no jobs.
    """
    start = text.find("{")
    if start < 0:
        raise ValueError("no JSON in it")
    try:
        whole = json.JSONDecoder().raw_decode(text, start)[0]
    except json.JSONDecodeError as error:
        raise ValueError(f"line {error.lineno}, column {error.colno}: {error.msg} (truncated?)") from None
    listed = whole.get("jobs")
    if not isinstance(listed, list):
        raise ValueError("no list of jobs")  # noqa: TRY004 - a property of the file, not of an argument
    for job in listed:
        for direction in ("read", "write", "trim"):
            one = job.get(direction)
            if isinstance(one, dict) and one.get("total_ios", 0) > 0:
                yield str(job.get("jobname", "?")), direction, _values(one)


def _values(one: dict[str, Any]) -> dict[str, float]:
    found = {}
    for metric, path, _, _ in _METRICS:
        value: Any = one
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            found[metric] = float(value)
    percentiles = one.get("clat_ns", {}).get("percentile", {})
    for key in _PERCENTILES:
        if key in percentiles:
            found[f"clat_p{float(key):g}"] = float(percentiles[key])
    return found


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run; repeated jobs of a name are iterations."""
    run = Run(name, "fio")
    known = {metric: (unit, higher) for metric, _, unit, higher in _METRICS}
    try:
        for job, direction, values in jobs(text):
            for metric, value in values.items():
                unit, higher = known.get(metric, ("ns", False))
                label = f"{metric}-{job}-{direction}"
                series = run.series.setdefault(label, Series(label, metric, f"{job}-{direction}", unit, higher))
                series.iterations.append([value])
    except ValueError as error:
        problem(str(error))
    return [run] if run.series else []
