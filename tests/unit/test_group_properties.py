"""What holds of every hierarchy of control groups: shares by weight, usage within quotas, no effect of their order."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import opplab

SECONDS = 4
TICK = 0.004
SLICE = 0.0028
"""Base slice of 0.7 ms, scaled by 1 + log2(8) CPUs; six CPUs count as four."""
POOL_SLICE = 0.005
"""sched_cfs_bandwidth_slice_us: what a CPU takes from a quota at a time."""
QUICK = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])

kernels = st.sampled_from(["6.12.117", "6.18"])
weights = st.one_of(st.integers(10, 1000), st.sampled_from([1, 100, 10_000]))


@st.composite
def hierarchies(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Give groups of one or two levels; those without children have hogs."""
    groups: dict[str, dict[str, Any]] = {}
    for top in "abc"[: draw(st.integers(1, 3))]:
        groups[f"/{top}"] = {"weight": draw(weights)}
        for below in "xy"[: draw(st.integers(0, 2))]:
            groups[f"/{top}/{below}"] = {"weight": draw(weights)}
    return groups


def inner(groups: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name in groups if not any(other.startswith(f"{name}/") for other in groups)]


def run(
    groups: dict[str, dict[str, Any]], hogs: dict[str, int], cpus: list[int], kernel: str = "6.12.117"
) -> tuple[dict[str, float], str]:
    """Give the usage of each group, and the fingerprint of the run; pressure and energy must be parts of the whole."""
    tasks = {
        f"hog{name.replace('/', '_')}": {
            "instance": count,
            "loop": -1,
            "run": 10_000,
            "cpus": cpus,
            "taskgroup": name,
        }
        for name, count in sorted(hogs.items())
    }
    text = json.dumps({"global": {"calibration": "CPU0"}, "groups": groups, "tasks": tasks})
    policy = opplab.Policy(governor="performance", variation="none", hz=250, kernel=kernel)
    done = opplab.simulate("juno-r2", opplab.Workload.parse(text), policy, seconds=SECONDS, seed=1)
    metrics = dict(done.metrics.select("metric", "value").iter_rows())
    for name in groups:
        some, full = (metrics[f"group_pressure_{line}:{name}"] for line in ("some", "full"))
        assert 0 <= full <= some <= 100
    tops = [name for name in groups if name.count("/") == 1]
    assert sum(metrics[f"group_energy:{name}"] for name in tops) <= metrics["energy"] * (1 + 1e-12)
    return {name: metrics[f"group_usage:{name}"] for name in groups}, done.fingerprint


def expected(groups: dict[str, dict[str, Any]], name: str) -> float:
    """Give a group's share of a CPU that all compete for."""
    share = 1.0
    while name:
        above = name.rpartition("/")[0]
        beside = [one for one in groups if one.rpartition("/")[0] == above]
        # cpu.shares of cpu.weight, rounded as sched_weight_from_cgroup() does.
        shares = {one: max((groups[one]["weight"] * 1024 + 50) // 100, 2) for one in beside}
        share *= shares[name] / sum(shares.values())
        name = above
    return share


@QUICK
@given(hierarchies(), st.lists(st.integers(1, 3), min_size=6, max_size=6))
def test_weights_share_a_saturated_cpu(groups: dict[str, dict[str, Any]], counts: list[int]) -> None:
    """Goal: shares are those of the weights, whatever the number of tasks."""
    hogs = dict(zip(inner(groups), counts, strict=False))
    usage, _ = run(groups, hogs, [0])
    for name in hogs:
        # An entity is at most a slice and a tick off its share at each level.
        levels = name.count("/")
        assert abs(usage[name] - SECONDS * expected(groups, name)) <= levels * (SLICE + TICK), (groups, hogs, usage)


@QUICK
@given(hierarchies(), kernels, st.data())
def test_no_group_exceeds_its_quota(groups: dict[str, dict[str, Any]], kernel: str, data: st.DataObject) -> None:
    """Goal: usage is within quota, and what CPUs keep and overrun."""
    for one in groups.values():
        if data.draw(st.booleans()):
            period = data.draw(st.sampled_from([10_000, 50_000, 100_000]))
            quota = data.draw(st.integers(1_000, 3 * period))
            one |= {"max": f"{quota} {period}", "burst_us": data.draw(st.integers(0, quota))}
    hogs = {name: data.draw(st.integers(1, 4)) for name in inner(groups)}
    usage, _ = run(groups, hogs, [0, 1, 2, 3, 4, 5], kernel)
    for name, one in groups.items():
        if "max" in one:
            quota_s, period_s = (int(word) / 1e6 for word in one["max"].split())
            limit = (SECONDS / period_s + 1) * quota_s + one["burst_us"] / 1e6 + 6 * (POOL_SLICE + TICK)
            assert usage[name] <= limit, (groups, hogs, usage)
    assert sum(usage[name] for name in groups if name.count("/") == 1) <= 6 * SECONDS + 1e-6


@QUICK
@given(hierarchies(), kernels, st.randoms(use_true_random=False))
def test_the_order_of_groups_changes_nothing(groups: dict[str, dict[str, Any]], kernel: str, random: Any) -> None:
    """Goal: files that list the same groups in another order give the same run, event by event."""
    groups[next(iter(groups))]["max"] = "70000 50000"
    order = list(groups)
    random.shuffle(order)
    hogs = dict.fromkeys(inner(groups), 2)
    cpus = [0, 1, 2, 3, 4, 5]
    assert run(groups, hogs, cpus, kernel) == run({name: groups[name] for name in order}, hogs, cpus, kernel)
