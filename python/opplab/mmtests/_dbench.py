"""dbench and tbench: ``benchlog-loadfile-N``, ``benchlog-tput-N`` and ``benchlog-op-N`` (N clients).

====================  ============================================  =============================
log                   line                                          row
====================  ============================================  =============================
``loadfile``          ``0 completed in 28.6663 ms at @ 1000``       time of one pass of the loadfile
``tput``              ``2 1000 860.33 MB/sec execute 1 sec ...``    throughput of one interval
``op``                ``NTCreateX 12345 0.020 3.21``                average latency of one operation
====================  ============================================  =============================
"""

from __future__ import annotations

from opplab.mmtests._time import leading_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

DESCRIPTION: dict[str, Any] = {
    "summary": "normalised-left-skew-ops",
    "decimal_places": 4,
    "units": {"loadfile": "msec", "tput": "MB/sec", "op": "msec"},
    "default_metric": "loadfile",
    "metric_higher": ("tput",),
    "metric_summary": {"op": "singleops"},
}


def parse_dbench(logs: Logs) -> list[Row]:
    """Rows by metric, then clients."""
    rows: list[Row] = []
    for heading, column, counts in (("loadfile", 3, True), ("tput", 2, False)):
        for name, clients in _by_clients(logs, heading):
            rows += [(heading, clients, "_", value, counts) for value in _column(logs, name, column)]
    rows += _operations(logs)
    # mmtests sorts by metric first: loadfile < op-* < tput. The sort is stable, so clients stay in order.
    rows.sort(key=lambda row: row[0])
    return rows


def _by_clients(logs: Logs, heading: str) -> list[tuple[str, str]]:
    prefix = f"benchlog-{heading}-"
    found = [(leading_number(name[len(prefix) :]), name) for name in logs.names(prefix)]
    return [(name, name[len(prefix) :]) for _, name in sorted(found)]


def _column(logs: Logs, name: str, column: int) -> list[float]:
    """The numbers in one column; a line without one is reported (a truncated log ends in such a line)."""
    lines = logs.lines(name)
    try:
        return [float(line.split()[column]) for line in lines]
    except (IndexError, ValueError):
        pass
    values = []
    for number, line in enumerate(lines, 1):
        try:
            values.append(float(line.split()[column]))
        except (IndexError, ValueError):
            if line.strip():
                logs.skip(name, "line without a value", number)
    return values


def _operations(logs: Logs) -> list[Row]:
    rows: list[Row] = []
    for name, clients in _by_clients(logs, "op"):
        for number, line in enumerate(logs.lines(name), 1):
            words = line.split()
            try:
                rows.append((f"op-{words[0]}", clients, "_", float(words[2]), False))
            except (IndexError, ValueError):
                if words:
                    logs.skip(name, "line without a value", number)
    return rows
