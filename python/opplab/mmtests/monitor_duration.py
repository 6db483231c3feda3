"""How long a benchmark took: ``time :: BENCHMARK U user S system E elapsed`` in ``tests-timestamp``."""

from __future__ import annotations

from opplab.mmtests.registry import monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs


@monitor("duration", summary="singleops", operation_name="Duration", units={"": "seconds"})
def parse(logs: Logs, name: str, benchmark: str) -> Iterator[Row]:
    """User, System and Elapsed seconds of each time the benchmark ran."""
    file = name.replace("duration-", "tests-timestamp-", 1)
    file = next(
        (one for one in ("tests-timestamp", file.rpartition("-")[0], file) if one in logs.files), "tests-timestamp"
    )
    start = f"time :: {benchmark} "
    for number, line in enumerate(logs.lines(file), 1):
        if not line.startswith(start):
            continue
        words = line[len(start) :].split()
        try:
            times = float(words[0]), float(words[2]), float(words[4])
        except (IndexError, ValueError):
            logs.skip(file, "line without user, system and elapsed time", number)
            continue
        for metric, value in zip(("User", "System", "Elapsed"), times, strict=True):
            yield metric, "_", "_", value, False
