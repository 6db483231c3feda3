"""tbench: loadfile time, throughput and operation latency by number of clients."""

from __future__ import annotations

from opplab.mmtests._dbench import DESCRIPTION, parse_dbench
from opplab.mmtests.registry import benchmark

benchmark("tbench", **DESCRIPTION)(parse_dbench)
