"""kernbench: time of each iteration, by GNU time."""

from __future__ import annotations

from opplab.mmtests._time import UNITS, parse_time
from opplab.mmtests.registry import benchmark

benchmark("kernbench", units=UNITS, default_metric="Elapsed")(parse_time)
