"""A cpufreq monitor, ``cpufreq-BENCHMARK``: the current frequency of each CPU, sampled.

The form is what ``grep . /sys/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq`` prints, with or without a time stamp
in front of a line; ``policyN`` serves as well. mmtests itself (638401e) records no frequencies but turbostat's.
"""

from __future__ import annotations

from re import compile as _compile

from opplab.mmtests.registry import monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

_LINE = _compile(r"(?:cpu|policy)([0-9]+)(?:/cpufreq)?/(?:scaling|cpuinfo)_cur_freq[:\s]+([0-9]+)\s*$")


@monitor("cpufreq", summary="monitor", units={"": "MHz"})
def parse(logs: Logs, name: str, benchmark: str) -> Iterator[Row]:
    """Rows of all CPUs together, then of each."""
    samples: dict[int, list[float]] = {}
    for number, line in enumerate(logs.lines(name), 1):
        found = _LINE.search(line)
        if found:
            samples.setdefault(int(found[1]), []).append(int(found[2]) / 1000)
        elif "cur_freq" in line:
            logs.skip(name, "line without a frequency", number)
    if not samples and logs.sound(name):
        logs.skip(name, "no frequency in it" if name in logs.files else "missing")
    for cpu in sorted(samples):
        for value in samples[cpu]:
            yield "cur_freq", "_", "_", value, False
    for cpu in sorted(samples):
        for value in samples[cpu]:
            yield "cur_freq", str(cpu), "_", value, False
