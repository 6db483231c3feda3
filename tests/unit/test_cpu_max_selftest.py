"""The kernel's selftest of cpu.max (tools/testing/selftests/cgroup/test_cpu.c:`test_cpucg_max()`) as a workload.

The program has two threads in a group with a quota: one starts the other, which never sleeps, and sleeps for a second;
then it exits, which kills the other as soon as that may run. ``usage_usec`` of ``cpu.stat`` is read after that. Its two
threads are on two CPUs, whose queues take the quota from one pool: the sleeper's keeps a part of the first period.

Measured (cgroups list, <lsnebzejrxrpulxxmyvkfdrsplbi2ft2n5zuux3dl3ewt5ihrs@j3umrzndddsb>, VM with 2 vCPUs, 30 runs; and
<aGd5lrUvm9Bhh-b8@JPC00244420>, five runs), quantiles 0, 1/4, 1/2, 3/4, 1 in us:

=============  =====  =====  =====  =====  =====
1 ms, HZ=250   11559  12936  13938  15385  18699
1 ms, HZ=1000  11753  12634  13208  14010  16937
5 ms           48882  52450  52941  54284  73186
1 ms           10286  10368  10490  10490  10541
=============  =====  =====  =====  =====  =====

The last line is met; of the VM's the medians are missed by -18 %, -18 % and +6 %. A run can only exceed its grants by
what one tick overruns, since a debt is paid from the next period: at HZ=1000 the VM's 13.2 ms are two grants more.
"""

import json
from statistics import quantiles

import pytest

import opplab

SETUP_US = 200
"""Work of the first thread before it sleeps and when it exits (assumed)."""


def usage_us(hz: int, quota_us: int, seed: int) -> float:
    """Give what the group used when both threads are gone."""
    cpus = [0, 1]
    sleeper = {
        "loop": 1,
        "cpus": cpus,
        "taskgroup": "/cpucg_test",
        # Against the ticks, programs start at any time.
        "delay": 1 + seed * 137,
        "phases": {
            "starts": {"run": SETUP_US, "fork": "hog"},
            "ends": {"sleep": 1_000_000 - SETUP_US, "run": SETUP_US},
        },
    }
    hog = {"instance": 0, "loop": -1, "cpus": cpus, "taskgroup": "/cpucg_test", "run": 1_000_000}
    text = json.dumps(
        {
            "global": {"calibration": "CPU0"},
            "groups": {"/cpucg_test": {"max": f"{quota_us} 100000"}},
            "tasks": {"sleeper": sleeper, "hog": hog},
        }
    )
    policy = opplab.Policy(governor="performance", hz=hz, kernel="6.15", driver="intel_cpufreq")
    run = opplab.simulate("skylake-8x-uma", opplab.Workload.parse(text), policy, seconds=1.6, seed=seed)
    spans: list[tuple[int, int, str]] = []
    since: dict[int, tuple[int, str]] = {}
    for time_ns, cpu, _, _, task in run.events("sched_switch").iter_rows():
        if cpu in since:
            start_ns, name = since.pop(cpu)
            spans.append((start_ns, time_ns, name))
        if task < len(run.tasks):
            since[cpu] = (time_ns, run.tasks[task])
    exits_ns = max(end for _, end, name in spans if name.startswith("sleeper"))
    killed_ns = min(max(start, exits_ns) for start, end, name in spans if name.startswith("hog") and end > exits_ns)
    return sum(min(end, killed_ns) - start for start, end, _ in spans if start < killed_ns) / 1000


@pytest.mark.parametrize(
    ("hz", "quota_us", "medians"),
    [(250, 1000, (11_000, 12_000)), (1000, 1000, (10_286, 11_000)), (250, 5000, (55_000, 57_000))],
)
def test_usage_is_that_of_the_grants_and_a_tick(hz: int, quota_us: int, medians: tuple[int, int]) -> None:
    """Goal: a grant each of ten periods and the first, and what the last tick overruns; the stated quantiles hold."""
    used = [usage_us(hz, quota_us, seed) for seed in range(30)]
    tick_us = 1_000_000 // hz
    assert all(10 * quota_us <= one <= 11 * quota_us + 2 * SETUP_US + tick_us for one in used), sorted(used)
    assert medians[0] <= quantiles(used, n=2)[0] <= medians[1]


def test_measured_runs_without_a_vm_are_within_ours() -> None:
    """Goal: five runs of somebody's machine lie between our least and most at HZ=1000."""
    used = [usage_us(1000, 1000, seed) for seed in range(30)]
    assert min(used) <= 10_286 and max(used) >= 10_541
