"""fio: bandwidth from terse output (``fio.log``), or from JSON (``fio*.json``); report `latency`: ``fio_lat.*.log``.

A job that ended with an error has no values, and jobs of one name, which ran side by side, are one value: the sum.
mmtests takes each, and so does a table that follows it to the letter (`literal`).

Terse fields, separated by ``;``: 2 job name, 4 error, 5 KiB read, 44 mean read bandwidth, 46 KiB written, 85 mean write
bandwidth (KiB/s).
"""

from __future__ import annotations

from os import strerror

from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

_DIRECTIONS = (("read", 5, 44), ("write", 46, 85))


@benchmark("fio", higher=True, decimal_places=6, units={"": "KiB/sec"}, default_metric="kb/sec")
def parse(logs: Logs) -> Iterator[Row]:
    """Rows by job."""
    for rows in (_from_terse(logs), *(_from_json(logs, name) for name in logs.names("fio", ".json"))):
        yield from rows if logs.literal else _together(rows)


def _together(rows: Iterable[Row]) -> Iterator[Row]:
    """Bandwidths of jobs of one name and direction in one file added up."""
    sums: dict[tuple[str, str, str], float] = {}
    for metric, job, direction, value, _ in rows:
        sums[metric, job, direction] = sums.get((metric, job, direction), 0.0) + (value or 0.0)
    for (metric, job, direction), value in sums.items():
        yield metric, job, direction, value, True


def _from_terse(logs: Logs) -> Iterator[Row]:
    table = [line.split(";") for line in logs.lines("fio.log")]
    failed = set() if logs.literal else {fields[2] for fields in table if len(fields) >= 86 and fields[4] != "0"}
    for number, fields in enumerate(table, 1):
        if len(fields) < 3:
            continue
        if len(fields) < 86:
            logs.skip("fio.log", f"terse line with {len(fields)} fields, at least 86 expected", number)
            continue
        if fields[2] in failed:
            if fields[4] != "0":
                logs.skip("fio.log", ended(fields[2], fields[4]))
            continue
        for direction, amount, bandwidth in _DIRECTIONS:
            try:
                if float(fields[amount]) > 0:
                    yield "kb/sec", fields[2], direction, float(fields[bandwidth]), True
            except ValueError:
                logs.skip("fio.log", f"no number for {direction}", number)


def _from_json(logs: Logs, name: str) -> Iterator[Row]:
    text = logs.read(name)
    try:
        for job, direction, values in jobs(text, None if logs.literal else lambda words: logs.skip(name, words)):
            yield "kb/sec", job, direction, values["bw_mean"], True
    except ValueError as error:
        logs.skip(name, str(error))


@benchmark("fio", report="latency", decimal_places=4, units={"": "usec"}, default_metric="latency")
def parse_latency(logs: Logs) -> Iterator[Row]:
    """Rows by direction; each line is ``time_ms, latency, direction, size``."""
    for name in logs.names("fio_lat."):
        if ".log" not in name:
            continue
        for number, line in enumerate(logs.lines(name), 1):
            fields = line.split(", ")
            try:
                direction = ("read", "write")[int(fields[2])]
                yield f"latency-{direction}", "_", "_", float(fields[1]), False
            except (IndexError, ValueError):
                if len(fields) < 3:
                    logs.skip(name, "line without time, latency and direction", number)


JSON_METRICS = (
    # metric, path in the direction's object, unit, higher is better
    ("bw_mean", ("bw_mean",), "KiB/sec", True),
    ("iops", ("iops",), "ops/sec", True),
    ("clat_mean", ("clat_ns", "mean"), "ns", False),
    ("lat_mean", ("lat_ns", "mean"), "ns", False),
)
_PERCENTILES = ("50.000000", "95.000000", "99.000000", "99.900000")


def ended(job: str, error: object) -> str:
    """Word what is left out of a job that ended with an error.

    Examples
    --------
    >>> ended("randread", 5)
    'job randread ended with error 5 (Input/output error): its values are left out'
    """
    words = f" ({strerror(int(str(error)))})" if str(error).isdecimal() else ""
    return f"job {job} ended with error {error}{words}: its values are left out"


def jobs(text: str, failed: Callable[[str], object] | None = None) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Job name, direction and values of each job that did something; `ios` is the number of its operations.

    Jobs that ended with an error are left out with those of the same name, and `failed` gets why; without it they are
    taken as they are.

    Raises
    ------
    ValueError
        When the text is not JSON, with line and column, or has no jobs.
    """
    import json

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
    broken = {job.get("jobname") for job in listed if job.get("error")} if failed is not None else set()
    for job in listed:
        if failed is not None and job.get("jobname") in broken:
            if job.get("error"):
                failed(ended(str(job.get("jobname", "?")), job["error"]))
            continue
        for direction in ("read", "write", "trim"):
            one = job.get(direction)
            if isinstance(one, dict) and one.get("total_ios", 0) > 0:
                yield str(job.get("jobname", "?")), direction, _values(one)


def _values(one: dict[str, Any]) -> dict[str, float]:
    found = {"ios": float(one["total_ios"])}
    for metric, path, _, _ in JSON_METRICS:
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
