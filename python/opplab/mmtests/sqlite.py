"""sqlite: transactions a second, the fifth word of each ``execute`` line of ``benchlog-A-B[-N]``."""

from __future__ import annotations

from opplab.mmtests._lines import parse_lines
from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs


@benchmark("sqlite", higher=True, units={"": "trans/sec"}, default_metric="txn/sec")
def parse(logs: Logs) -> Iterator[Row]:
    """Rows in order of time."""
    return parse_lines(logs, "execute", "txn/sec", 4)
