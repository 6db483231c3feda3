"""netperf: throughput by message size, ``PROTOCOL-SIZE.ITERATION``; the protocol is in the file ``protocols``.

netperf prints a table of numbers under headings of words; the last number of the table's row counts. UDP_STREAM has a
second, shorter row for the receiving side.
"""

from __future__ import annotations

from opplab.mmtests._time import leading_number
from opplab.mmtests.registry import benchmark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs


@benchmark(
    "netperf",
    higher=True,
    units={"": "Mbit/sec"},
    default_metric="tcpstream-send",
    metric_lower=("udpstream-loss",),
)
def parse(logs: Logs) -> Iterator[Row]:
    """Rows by message size."""
    protocol = logs.read("protocols").split("\n", 1)[0].strip()
    if not protocol:
        logs.skip("protocols", "missing or empty: the protocol is not known")
        return
    sizes: dict[str, list[str]] = {}
    for name in logs.names(protocol + "-"):
        size, dot, sample = name[len(protocol) + 1 :].rpartition(".")
        if dot and sample.isdigit():
            sizes.setdefault(size, []).append(name)
    metric = "".join(protocol.lower().split("_"))
    for size in sorted((size for size in sizes if f"{protocol}-{size}.1" in logs.files), key=leading_number):
        for name in sizes[size]:
            send, receive = _throughput(logs, name, protocol == "UDP_STREAM")
            if send is None:
                if logs.sound(name):
                    logs.skip(name, "no row of numbers")
                continue
            yield metric, "send", size, send, False
            if protocol == "UDP_STREAM":
                # mmtests lists the sender's number as received, too (netperf/extract-report.pl, 638401e).
                yield metric, "recv", size, send if logs.literal else receive, False
                if not logs.literal and receive is not None and send - receive > send / 10:
                    # A metric of its own, as less of it is better.
                    yield f"{metric}-loss", size, "_", send - receive, False


def _throughput(logs: Logs, name: str, datagram: bool) -> tuple[float | None, float | None]:
    send = receive = None
    for line in logs.lines(name):
        words = line.split()
        if not words or any(char.isalpha() for char in line):
            continue
        try:
            last = float(words[-1])
        except ValueError:
            continue
        if not datagram:
            if len(words) > 4:
                send = last
        elif len(words) == 6:
            send = last
        elif len(words) == 4:
            receive = last
    return send, receive
