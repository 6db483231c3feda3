"""schbench: wake-up and request latency percentiles and requests a second, ``schbench-WORKERS.log``.

The log repeats blocks of ``Wakeup Latencies percentiles (usec) runtime 10 (s)`` and percentile lines such as
``* 99.0th: 11056 (120 samples)``; a block counts once the ``current rps`` line after it is there, as in mmtests, so a
block that the end of the run cut short is left out, and so is the summary at the end.
"""

from __future__ import annotations

from opplab.mmtests._time import leading_number
from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

_PERCENTILES = ("20.0th:", "50.0th:", "90.0th:", "99.0th:", "99.9th:")


@benchmark(
    "schbench",
    summary="normalisedops",
    units={"Wakeup": "usec", "Request": "usec", "RPS": "ops/sec"},
    default_metric="Wakeup",
    metric_higher=("RPS",),
)
def parse(logs: Logs) -> Iterator[Row]:
    """Rows by number of workers."""
    found = [(leading_number(name[9:-4]), name) for name in logs.names("schbench-", ".log")]
    for _, name in sorted(found):
        workers = name[9:-4]
        metric = None
        block: list[Row] = []
        complete = False
        for line in logs.lines(name):
            if "percentile" in line:
                metric = line.split()[0]
            elif "current rps" in line:
                yield from block
                complete = complete or bool(block)
                block = []
            elif metric is not None:
                words = line.replace("*", " ").split()
                if len(words) >= 2 and words[0] in _PERCENTILES:
                    try:
                        block.append((metric, words[0][:-1], workers, float(words[1]), False))
                    except ValueError:
                        logs.skip(name, f"no number in {line.strip()!r}")
        if not complete and logs.sound(name):
            logs.skip(name, "no complete block of percentiles")
