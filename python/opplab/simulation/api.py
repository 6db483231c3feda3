"""Old places of names that other branches still import; to go when they have moved."""

from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.run import Run, duration_ns
from opplab.simulation.simulate import build_case, simulate
from opplab.simulation.workload import Workload

__all__ = ["Machine", "Policy", "Run", "Workload", "build_case", "duration_ns", "simulate"]
