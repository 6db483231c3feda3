"""Points of text 002's experiments are those that mmtests of that month runs on such a machine.

Its loops, written down again from b73fd5c7 (March 2019): shellpack_src/bin/rewrite-shellpack (threads_huge_stride and
threads_powertwo), pgbench-bench, and the configs db-pgbench-timed-ro-small and network-tbench.
"""

from __future__ import annotations

import pytest

import opplab


def huge_stride(end: int) -> list[int]:
    """Threads of threads_huge_stride from 1 to `end`, of at least 8."""
    if end >= 32:
        points = [*range(1, 9, 4), *range(12, 33, 9), *range(48, end + 1, 31)]
    else:
        points = [*range(1, 9, 3), *range(12, end + 1, 6)]
    return points if points[-1] == end else [*points, end]


def pgbench_clients(cpus: int, nodes: int) -> list[int]:
    """Clients of pgbench: whole multiples of the nodes from that number on."""
    return [n if n < nodes else (n + nodes - 1) // nodes * nodes for n in huge_stride(2 * cpus)]


def tbench_clients(cpus: int) -> list[int]:
    """Clients of tbench: powers of two, and four for each CPU."""
    powers = [1 << n for n in range(20) if 1 << n < 4 * cpus]
    return [*powers, 4 * cpus]


@pytest.mark.parametrize(
    ("name", "cpus", "nodes"),
    [("ospm-2019-skylake", 8, 1), ("ospm-2019-haswell", 48, 2), ("ospm-2019-broadwell", 80, 2)],
)
def test_points_are_those_of_the_harness(name: str, cpus: int, nodes: int) -> None:
    """An overview is a mean over all points, so that a list of others weights them differently."""
    clients: dict[str, set[int]] = {}
    for case in opplab.Experiment.load(name).cases:
        fields = dict(field.split("=") for field in case.param.split(";") if "=" in field)
        label = case.benchmark.removesuffix("-saturated").replace("pgbench-many", "pgbench-ro")
        if label in ("pgbench-ro", "tbench"):
            clients.setdefault(label, set()).add(int(fields["clients"]))
    assert sorted(clients["pgbench-ro"]) == pgbench_clients(cpus, nodes)
    assert sorted(clients["tbench"]) == tbench_clients(cpus)
