"""Rows of the table of formats in docs/trace-accuracy.md: events of real files as opplab and another tool count them.

    .venv/bin/python tools/trace_formats.py FILE...

trace.dat is counted by `trace-cmd report`, perf.data by `perf script`, text by its own lines, Perfetto by Google's own
messages (packages perfetto and protobuf of PyPI, which are not among our requirements); compressed files unpacked by
the compressor's own tool.  `tests/unit/test_trace_formats.py` does the same with the files of ../shared.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import opplab

# Also with a period of perf in front of the name.
LINE = re.compile(rb"\[\d+\][^:]*\s[\d.]+: +(?:\d+ +)?(?:\w+:)?([\w.-]+):")

UNPACKERS = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}


def counted_by_protobuf(data: bytes) -> Counter[str]:
    """Count the events of a Perfetto trace by name, compressed packets and compact ones too."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(data)
    counts: Counter[str] = Counter()
    for packet in trace.packet:
        if packet.compressed_packets:
            counts += counted_by_protobuf(zlib.decompress(packet.compressed_packets))
        counts["power_rail"] += len(packet.power_rails.energy_data)
        counts["battery"] += packet.HasField("battery")
        for event in packet.ftrace_events.event:
            kind = event.WhichOneof("event")
            named = {"generic": event.generic.event_name, "kprobe_event": event.kprobe_event.name}
            counts[named.get(kind, kind)] += 1
        counts["sched_switch"] += len(packet.ftrace_events.compact_sched.switch_timestamp)
        counts["sched_waking"] += len(packet.ftrace_events.compact_sched.waking_timestamp)
    return +counts


def counted_by(path: Path, form: str) -> tuple[str, Counter[str]]:
    """Give the other tool's name and its number of events by name."""
    if path.suffix in UNPACKERS:
        with tempfile.NamedTemporaryFile() as plain:
            subprocess.run([UNPACKERS[path.suffix], "-dc", path], stdout=plain, check=True)
            return counted_by(Path(plain.name), form)
    if form == "trace.dat":
        out = subprocess.run(["trace-cmd", "report", "-t", path], stdout=subprocess.PIPE, check=True).stdout
        return "trace-cmd report", Counter(match[1].decode() for match in map(LINE.search, out.splitlines()) if match)
    if form == "perf.data":
        out = subprocess.run(["perf", "script", "-F", "event", "-i", path], stdout=subprocess.PIPE, check=True).stdout
        names = (line.strip().rstrip(b":").rsplit(b":", 1)[-1].decode() for line in out.splitlines())
        return "perf script", Counter(filter(None, names))
    if form == "perfetto":
        return "protobuf", counted_by_protobuf(path.read_bytes())
    lines = path.read_bytes().replace(b"\\n\\", b"").splitlines()
    return "grep", Counter(match[1].decode() for match in map(LINE.search, lines) if match)


def main() -> None:
    """Print the rows."""
    print("| file | format | by | events | by opplab | equal by name |\n| --- | --- | --- | ---: | ---: | --- |")
    for path in map(Path, sys.argv[1:]):
        about = opplab.read_trace(path).info
        tool, expected = counted_by(path, about["format"])
        ours = Counter(about["events"])
        form = f"{about['format']} {about['version'] or ''} {about['compression']}".strip()
        sums = f"{sum(expected.values())} | {sum(ours.values())}"
        print(f"| {path.name} | {form} | {tool} | {sums} | {'yes' if expected == ours else 'no'} |")


if __name__ == "__main__":
    main()
