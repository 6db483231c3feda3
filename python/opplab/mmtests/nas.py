"""NAS parallel benchmarks: time of each kernel and class (``time-bt.C-1``), by GNU time."""

from __future__ import annotations

from opplab.mmtests._time import UNITS, parse_time
from opplab.mmtests.registry import benchmark

benchmark("nas", units=UNITS, default_metric="Elapsed")(parse_time)
