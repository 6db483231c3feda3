"""hackbench: ``hackbench-GROUPS`` with one ``Total time:`` or ``Time:`` line for each iteration."""

from __future__ import annotations

from opplab.mmtests._time import leading_number
from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs


@benchmark("hackbench", decimal_places=4, units={"": "seconds"}, default_metric="time")
def parse(logs: Logs) -> Iterator[Row]:
    """Rows by number of groups."""
    for name in sorted(logs.names("hackbench-"), key=lambda name: (leading_number(name[10:]), name)):
        found = False
        for line in logs.lines(name):
            if "Total time:" not in line and not line.startswith("Time:"):
                continue
            words = line.replace("Total time:", "Time:").split()
            try:
                value = float(words[words.index("Time:") + 1])
            except (ValueError, IndexError):
                logs.skip(name, f"no time in {line!r}")
                continue
            found = True
            yield "time", name[10:], "_", value, False
        if not found and logs.sound(name):
            logs.skip(name, "no line with a total time")
