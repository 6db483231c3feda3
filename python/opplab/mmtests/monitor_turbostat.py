"""The turbostat monitor, ``turbostat-BENCHMARK``: the summary line of each interval.

Only the columns that mmtests shows are read: idle and C-state percentages, busy percentage, average frequency, core and
package power. A log may have mmtests' time stamp in front of each line (``EPOCH x y --``).
"""

from __future__ import annotations

from re import compile as _compile

from opplab.mmtests.registry import monitor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from opplab.mmtests.registry import Row
    from opplab.mmtests.tree import Logs

_SHOWN = _compile(r"CPU%c[0-9]|C[0-9]%|C[0-9][A-Z]*%")
_NAMES = frozenset(("CorWatt", "PkgWatt", "%Busy", "POLL%", "Busy%", "Avg_MHz"))
_PLACES = frozenset(("Package", "Node", "Die", "Core", "CPU"))
_HEADER = _compile(r"\s+Core\s+CPU|\s+CPU\s+Avg_MHz")

UNITS = {"CorWatt": "W", "PkgWatt": "W", "Avg_MHz": "MHz", "": "percent"}


@monitor("turbostat", summary="monitor", units=UNITS)
def parse(logs: Logs, name: str, benchmark: str) -> Iterator[Row]:
    """Rows of the summary lines, columns in alphabetical order."""
    columns = None
    place = found = 0
    for line in logs.lines(name):
        words = line.split()
        if columns is None:
            if _HEADER.search(line):
                # Of the whole machine the first of these is `-`; times may stand before it.
                place = next((at for at, word in enumerate(words) if word in _PLACES), 0)
                columns = sorted(
                    (word, index) for index, word in enumerate(words) if word in _NAMES or _SHOWN.search(word)
                )
            continue
        if len(words) <= place or words[place] != "-":
            continue
        found += 1
        for heading, index in columns:
            value = None
            if index < len(words):
                try:
                    value = float(words[index])
                except ValueError:
                    value = None
            yield heading, "_", "_", value, False
    if not found and logs.sound(name):
        what = "no header line of turbostat" if columns is None else "no line of the whole machine"
        logs.skip(name, what if name in logs.files else "missing")
