"""pgbench: transactions a second from ``pgbench-transactions-CLIENTS.log``; report `exectime`: GNU time's numbers.

A line of the log is one aggregation interval: its start in seconds, the number of transactions, sums of latencies.
Rates are taken over four intervals at a time after a warm-up of two batches, as mmtests does; the first batch after
that is dropped too.
"""

from __future__ import annotations

from opplab.mmtests._time import UNITS, leading_number, parse_time
from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

_BATCH = 4


@benchmark("pgbench", higher=True, units={"": "trans/sec"}, default_metric="txn")
def parse(logs: Logs) -> Iterator[Row]:
    """Rows by number of clients."""
    found = [(leading_number(name[8:-4]), name[8:-4]) for name in logs.names("pgbench-", ".log")]
    clients = [client for _, client in sorted(found) if client.isdigit()]
    for client in clients:
        name = f"pgbench-transactions-{client}.log"
        if name not in logs.files:
            logs.skip(f"pgbench-{client}.log", f"there is no {name} beside it")
            continue
        yield from _rates(logs, name, client)


def _rates(logs: Logs, name: str, client: str) -> Iterator[Row]:
    started = 0.0
    batch_start = 0.0
    samples = in_batch = batches = transactions = 0
    for number, line in enumerate(logs.lines(name), 1):
        words = line.split()
        try:
            now, count = float(words[0]), int(words[1])
        except (IndexError, ValueError):
            if words:
                logs.skip(name, "line without a time and a count", number)
            continue
        started = started or now
        batch_start = batch_start or now
        samples += 1
        if samples < 2 * _BATCH:
            continue
        in_batch += 1
        transactions += count
        if in_batch == _BATCH:
            if batches and now > batch_start:
                yield "txn", client, "_", transactions / (now - batch_start), False
            batches += 1
            batch_start = now
            in_batch = transactions = 0


benchmark("pgbench", report="exectime", units=UNITS, default_metric="elapsed")(parse_time)
