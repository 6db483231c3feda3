"""`opplab explain`: each clock has its reason, and each wait for a period or a quota."""

import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import opplab
from opplab.errors import InputError
from opplab.explanation import frequency
from opplab.explanation.frequency import frequency_findings
from opplab.explanation.placement import cpu_findings
from opplab.explanation.records import Records

WORK = opplab.Workload.periodic(4, run_us=3000, period_us=16000)


def records_of(machine: str, seconds: float = 0.3, **policy: Any) -> Records:
    return Records(opplab.simulate(machine, WORK, opplab.Policy(**policy), seconds=seconds)._inner)


def level_khz(decision: dict[str, Any]) -> int:
    return int(decision["level"] * decision["level_khz"])


def parsed(tasks: dict[str, Any], **groups: Any) -> opplab.Workload:
    return opplab.Workload.parse(json.dumps({**groups, "tasks": tasks}), name="w", file="<w>")


@pytest.mark.parametrize(
    ("machine", "policy"),
    [
        ("juno-r2", {"governor": "schedutil"}),
        ("juno-r2", {"governor": "ondemand"}),
        ("juno-r2", {"governor": "conservative"}),
        ("skylake-8x-uma", {"governor": "performance", "driver": "intel_pstate"}),
        ("skylake-8x-uma", {"governor": "powersave", "driver": "intel_pstate"}),
        ("skylake-8x-uma", {"governor": "schedutil", "driver": "intel_cpufreq"}),
        ("epyc-7502-2s", {"governor": "ondemand", "driver": "acpi-cpufreq"}),
    ],
)
def test_every_clock_has_its_reason(machine: str, policy: dict[str, Any]) -> None:
    """Goal: what is told led to the clock that the CPU has. Method: the events of the clock, at many times."""
    records = records_of(machine, **policy)
    busy = [cpu for cpu, _ in Counter(records.tables["sched_switch"]["cpu"].tolist()).most_common(4)]
    seen = 0
    for cpu in busy:
        for at_ns in range(30_500_000, 300_000_000, 5_700_000):
            running, *found = cpu_findings(records, cpu, at_ns)
            since_ns, khz = running.data["clock_since_ns"], running.data["khz"]
            if not since_ns:
                continue
            seen += 1
            by_level = [one for one in found if "level" in one.data and abs(level_khz(one.data) - khz) <= 100_000]
            by_time = [one for one in found if one.data.get("granted_khz") == khz or one.time_ns == since_ns]
            assert by_level or by_time, (cpu, at_ns, [one.text for one in found])
            assert not any("decided nothing" in one.text for one in found)
    assert seen > 40


def test_a_limit_that_ended_is_why_a_clock_rose() -> None:
    """The turbo bin of fewer active cores: by the hardware's answers, of which one has a limit and the next none."""
    records = records_of("skylake-8x-uma", governor="performance", driver="intel_pstate")
    ended = 0
    for policy in records.facts["policies"]:
        cpu = policy["cpus"][0]
        rows = [records.row("freq_grant", int(index)) for index in records.where("freq_grant", policy_cpu=cpu)]
        for before, row in itertools.pairwise(rows):
            if row["time_ns"] and (before["limit"], row["limit"]) == ("turbo-bin", "none"):
                ended += 1
                (told,) = (one for one in frequency_findings(records, cpu, row["time_ns"]) if one.kind == "grant")
                assert told.text.endswith("3900 MHz (P0): no longer held by the turbo bin for so many active cores.")
                assert before["granted_khz"] < row["granted_khz"] == 3_900_000
    assert ended > 20


def test_the_end_of_another_cpus_request_is_told_of_the_firmwares_clocks_too() -> None:
    """One clock for all cores: a CPU's clock falls to its own request when a higher one of another CPU ends."""
    records = records_of("skylake-8x-uma", governor="schedutil", driver="intel_cpufreq")
    ended = 0
    for cpu in range(4):
        rows = [records.row("freq_grant", int(index)) for index in records.where("freq_grant", policy_cpu=cpu)]
        # Of several answers of an instant the last one stands.
        rows = list({row["time_ns"]: row for row in rows}.values())
        own_ns = set(records.tables["hwp_decision"]["time_ns"][records.where("hwp_decision", policy_cpu=cpu)].tolist())
        for before, row in itertools.pairwise(rows):
            falls = before["by_cpu"] != cpu == row["by_cpu"] and before["granted_khz"] > row["granted_khz"]
            if not falls or row["time_ns"] in own_ns:
                continue
            ended += 1
            told = {one.kind: one for one in frequency_findings(records, cpu, row["time_ns"])}
            assert "no CPU that has it asked for more any longer" in told["shared"].text
            assert told["shared"].data["granted_khz"] == row["granted_khz"]
    assert ended > 10


def test_a_sample_under_the_firmware_is_the_last_one_that_asked() -> None:
    """Under HWP without a desired level a governor's request is a floor: the hardware's most is no request of it."""
    made = opplab.simulate(
        "skylake-8x-uma",
        opplab.Workload.periodic(6, run_us=3000, period_us=16000),
        opplab.Policy(kernel="6.6", driver="intel_cpufreq", governor="ondemand"),
        seconds=0.3,
    )
    records = Records(made._inner)
    seen = 0
    for cpu in range(4):
        for at_ns in range(50_500_000, 300_000_000, 3_700_000):
            told = {one.kind: one for one in frequency_findings(records, cpu, at_ns)}
            if "reports" not in told or "last" not in told["reports"].data:
                continue
            seen += 1
            assert told["reports"].data["last"]["next_khz"] == told["frequency"].data["next_khz"]
    assert seen > 50


@pytest.mark.parametrize("governor", ["schedutil", "ondemand"])
def test_an_answer_that_is_on_its_way_is_none(governor: str) -> None:
    """Between a request and the clock that it makes, the request before made the clock."""
    work = opplab.Workload.periodic(12, run_us=3000, period_us=16000)
    records = Records(opplab.simulate("juno-r2", work, opplab.Policy(governor=governor), seconds=1)._inner)
    table = "sugov_decision" if governor == "schedutil" else "dbs_decision"
    on_its_way = 0
    for index in records.where(table, policy_cpu=0):
        row = records.row(table, int(index))
        if row["next_khz"] == row["prev_khz"] or not row["prev_khz"] or row.get("outcome") not in (None, "requested"):
            continue
        at_ns = row["time_ns"] + 1_000
        (running, *_), found = cpu_findings(records, 0, at_ns), frequency_findings(records, 0, at_ns)
        if running.data["khz"] != row["prev_khz"]:
            continue
        told = {one.kind: one for one in found}
        assert "the hardware has not answered yet" in told["delivery"].text
        if earlier := [one for one in found if one.kind == "earlier"]:
            on_its_way += 1
            assert earlier[0].data["next_khz"] == running.data["khz"]
            assert earlier[-1].time_ns == running.data["clock_since_ns"]
    assert on_its_way > 3


def test_a_level_that_the_rate_limit_held_was_not_asked_of_the_driver() -> None:
    rows = opplab.simulate(
        "sapphire-rapids-8460h-4s",
        opplab.Workload.periodic(6, run_us=3000, period_us=16000),
        opplab.Policy(),
        seconds=0.3,
    )
    records = Records(rows._inner)
    words: dict[str, set[bool]] = {}
    for index in records.where("sugov_decision", wanted_khz=0):
        row = records.row("sugov_decision", int(index))
        if row["max_cap"]:
            how = records.words("sugov_decision", row, row["policy_cpu"])["how"]
            words.setdefault(row["outcome"], set()).add("not asked of the driver" in how)
    assert words["requested"] == {False}
    assert words["rate-limited"] == {True}
    (*_, told) = (one for one in frequency_findings(records, 2, 200_000_000) if one.kind == "reports")
    last = told.data["last"]
    assert (last["outcome"], last["target_perf"]) == ("rate-limited", 348)
    assert "wanted another" in told.text
    assert "the rate limit holds it for" in told.text


def test_the_rate_limit_holds_levels_too() -> None:
    """Goal: time that the rate limit held a higher level is the rate limit's, as it is with frequencies.

    Method: the decisions. From a report that wanted more than the level that was asked for, to the next that asks.
    """
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    made = opplab.simulate("sapphire-rapids-8460h-4s", work, opplab.Policy(), seconds=0.3)
    records = Records(made._inner)
    held: Counter[int] = Counter()
    asked, since = dict[int, int](), dict[int, int]()
    for index in range(len(records.tables["sugov_decision"]["time_ns"])):
        row = records.row("sugov_decision", index)
        cpu, at_ns = row["policy_cpu"], row["time_ns"]
        if row["outcome"] in ("requested", "held"):
            asked[cpu] = row["target_perf"]
            held[cpu] += at_ns - since.pop(cpu, at_ns)
        elif row["outcome"] == "rate-limited" and cpu in asked:
            if row["target_perf"] > asked[cpu]:
                since.setdefault(cpu, at_ns)
            else:
                held[cpu] += at_ns - since.pop(cpu, at_ns)
    for cpu, at_ns in since.items():
        held[cpu] += records.end_ns - at_ns
    slow = {one.data["reason"]: one.data for one in opplab.explain(made, why_slow=True) if one.kind == "slow"}
    assert slow["rate-limit"]["slow_ns"] > 1_000_000
    for cpu, slow_ns in slow["rate-limit"]["cpus_ns"].items():
        assert slow_ns <= held[int(cpu)]


FIFO = {"policy": "SCHED_FIFO", "priority": 10, "cpus": [0], "loop": -1, "run": 2_000_000, "sleep": 1000}
FAIR = {"cpus": [0], "loop": -1, "run": 2000, "timer": {"ref": "fair", "period": 16_000}}


def test_throttled_real_time_tasks_have_their_reason() -> None:
    """Goal: a CPU that idles while a real-time task could run has that told; the wait is a part of its own.

    Method: the kernel's rule, 950 ms of each second (rt.c:sched_rt_runtime_exceeded(), v5.10), and the switches.
    """
    made = opplab.simulate(
        "skylake-8x-uma", parsed({"rt": FIFO, "fair": FAIR}), opplab.Policy(kernel="5.10"), seconds=3
    )
    (stop,) = (one for one in opplab.explain(made, cpu=0, at=1.98) if one.kind == "stopped")
    assert "the runtime of real-time tasks in this period is used up" in stop.text
    assert 1_949_000_000 < stop.time_ns < 1_952_000_000 < stop.data["until_ns"] < 2_001_000_000
    (waits,) = (one for one in opplab.explain(made, task="rt", at=1.98) if one.kind == "stopped")
    assert "rt-0 waits on CPU 0 until 2.000" in waits.text
    assert not [one for one in opplab.explain(made, cpu=0, at=1.9) if one.kind == "stopped"]

    slow = next(iter(opplab.explain(made, task="rt", why_slow=True)))
    parts = slow.data["parts_ns"]
    until_ns = slow.data["response_ns"]
    ran_ns, since_ns = 0, None
    for time_ns, prev, following in made.events("sched_switch").filter(cpu=0).select("time_ns", "prev", "next").rows():
        if following == 0:
            since_ns = time_ns
        elif prev == 0 and since_ns is not None and since_ns < until_ns:
            ran_ns += min(time_ns, until_ns) - since_ns
    assert parts["throttling"] == pytest.approx(until_ns - ran_ns, abs=1000)
    assert parts["held"] == parts["waiting"] == 0
    (acted,) = (one for one in opplab.explain(made, why_slow=True) if one.kind == "rt-throttling")
    assert (acted.data["cpu"], acted.data["nr_throttled"]) == (0, 3)


def test_a_fair_task_before_a_real_time_task_is_the_servers() -> None:
    """From v6.12 on (deadline.c:dl_server_start()) fair tasks have a deadline server."""
    made = opplab.simulate(
        "skylake-8x-uma", parsed({"rt": FIFO, "fair": FAIR}), opplab.Policy(kernel="6.12"), seconds=2
    )
    switches = made.events("sched_switch").filter((pl.col("prev") == 0) & (pl.col("next") == 1))
    at_ns = switches["time_ns"][-1]
    (start,) = (one for one in opplab.explain(made, task="fair", at=at_ns / 1e9) if one.kind == "start")
    assert start.text.endswith("the server of fair tasks (deadline) had its turn.")


def test_a_task_whose_quota_ran_out_waits_for_the_next_period() -> None:
    task = {"cpus": [1], "loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 16_000}, "taskgroup": "/a"}
    work = parsed({"t": task}, groups={"/a": {"max": "10000 50000"}})
    made = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.3)
    index = len(made.tasks) - 1
    switches, wakes = made.events("sched_switch"), made.events("sched_waking").filter(task=index)
    waits = 0
    for stop, goes_on in itertools.pairwise(made.events("throttle_decision").to_dicts()):
        if not stop["throttled"]:
            continue
        assert not goes_on["throttled"]
        at_ns = (stop["time_ns"] + goes_on["time_ns"]) // 2
        left = switches.filter((pl.col("prev") == index) & (pl.col("time_ns") <= at_ns)).row(-1, named=True)
        woken = not wakes.filter(pl.col("time_ns").is_between(left["time_ns"], at_ns)).is_empty()
        for asked, of in (({"task": "t"}, left["prev_state"] == 0 or woken), ({"cpu": 1}, True)):
            told = [one for one in opplab.explain(made, at=at_ns / 1e9, **asked) if one.kind == "stopped"]
            assert [(one.time_ns, one.data["until_ns"]) for one in told] == [(stop["time_ns"], goes_on["time_ns"])] * of
            assert all("quota" in one.text and "`/a`" in one.text for one in told)
            waits += of
    assert waits > 8


def test_energy_of_slow_time_that_is_not_known_is_no_number() -> None:
    made = opplab.simulate("kaby-lake-i7-7500u", WORK, opplab.Policy(), seconds=0.4)
    assert made.metrics.filter(metric="energy")["value"].to_list() == [None]
    slow = [one for one in opplab.explain(made, why_slow=True) if one.kind == "slow"]
    assert slow
    for one in slow:
        assert "energy" not in one.text
        assert one.data["energy_j"] is one.data["energy_share_pct"] is None


@pytest.mark.parametrize(
    ("tunables", "words"),
    [
        ({"freq_step": "0"}, "freq_step is 0, so no step"),
        ({"sampling_down_factor": "5"}, "below the lower threshold, but not for sampling_down_factor samples yet"),
    ],
)
def test_why_conservative_takes_no_step(tunables: dict[str, str], words: str) -> None:
    """No threshold is crossed: only where the load is between both."""
    records = records_of("juno-r2", governor="conservative", tunables=tunables)
    seen = set()
    for index in range(len(records.tables["dbs_decision"]["time_ns"])):
        row = records.row("dbs_decision", index)
        text = records.words("dbs_decision", row, row["policy_cpu"])["text"]
        seen.add(words in text)
        assert row["threshold"] >= 20
        if "no threshold is crossed" in text:
            assert 20 <= row["load"] <= 80
    assert True in seen


def test_a_written_tunable_does_not_start_the_governor_anew() -> None:
    """Goal: what a write to sysfs changes, and no more (cpufreq_schedutil.c:rate_limit_us_store(), v6.12).

    Method: the value that the governor had by itself changes nothing. Another one holds from then on, and what
    was asked for before is not forgotten.
    """
    work = opplab.Workload.periodic(10, run_us=1600, period_us=16000)
    plain = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.4)
    rate_us = plain._inner.facts()["rate_limit_us"]
    same = [{"at_ms": 100, "tunables": {"rate_limit_us": str(rate_us)}}]
    assert opplab.simulate("juno-r2", work, opplab.Policy(changes=same), seconds=0.4).fingerprint == plain.fingerprint

    slower = [{"at_ms": 100, "tunables": {"rate_limit_us": "20000"}}]
    made = opplab.simulate("juno-r2", work, opplab.Policy(changes=slower), seconds=0.4)
    asked = made.events("sugov_decision").filter((pl.col("outcome") == 4) & (pl.col("policy_cpu") == 0))
    after = asked.filter(pl.col("time_ns") > 100_000_000)
    assert after.height > 1
    assert after.filter(pl.col("prev_khz") == 0).is_empty()
    assert after["time_ns"].diff().drop_nulls().min() >= 20_000_000  # type: ignore[operator]
    assert asked.filter(pl.col("time_ns") <= 100_000_000)["time_ns"].diff().drop_nulls().min() < 20_000_000  # type: ignore[operator]


def test_a_written_sampling_rate_takes_a_sample_at_once() -> None:
    """The next report takes a sample (cpufreq_governor.c:sampling_rate_store(), v6.12); others wait for their time."""
    rate = {"sampling_rate": "40000"}
    changes = [{"at_ms": 101, "tunables": rate}, {"at_ms": 200, "tunables": {**rate, "up_threshold": "50"}}]
    made = opplab.simulate("juno-r2", WORK, opplab.Policy(governor="ondemand", changes=changes), seconds=0.4)
    samples = made.events("dbs_decision").filter(policy_cpu=0)
    times_ns = samples.filter(pl.col("time_ns") > 101_000_000)["time_ns"].to_list()
    assert times_ns[0] < 106_000_000
    assert all(later - one >= 39_000_000 for one, later in itertools.pairwise(times_ns))
    assert samples.filter(pl.col("time_ns") > 200_000_000)["threshold"].unique().to_list() == [50]


def test_a_pid_that_was_two_tasks_is_refused_and_each_has_its_name(tmp_path: Path) -> None:
    """Goal: who ran meanwhile is named as it was called then. Method: a pid that is `new` once `old` has ended."""

    def switch(at: float, prev: tuple[str, int], state: str, following: tuple[str, int]) -> str:
        return (
            f"  {prev[0]}-{prev[1]} [000] d..2. {at:.6f}: sched_switch: prev_comm={prev[0]} prev_pid={prev[1]} "
            f"prev_prio=120 prev_state={state} ==> next_comm={following[0]} next_pid={following[1]} next_prio=120"
        )

    def waking(at: float, by: tuple[str, int], woken: tuple[str, int]) -> str:
        event = f"sched_waking: comm={woken[0]} pid={woken[1]} prio=120 target_cpu=000"
        return f"  {by[0]}-{by[1]} [000] d..2. {at:.6f}: {event}"

    idle, late, bash = ("swapper/0", 0), ("late", 200), ("bash", 300)
    lines = ["# tracer: nop", "  <idle>-0 [000] d..2. 10.000000: cpu_frequency: state=450000 cpu_id=0"]
    for turn in range(20):
        begins, runs = 10 + 0.05 * turn, ("old" if turn < 10 else "new", 100)
        if turn == 10:
            fork = f"  bash-300 [000] d..2. {begins + 0.0005:.6f}: sched_process_fork: comm=bash pid=300"
            lines += [waking(begins, idle, bash), switch(begins, idle, "R", bash)]
            lines += [f"{fork} child_comm=new child_pid=100"]
            born = "sched_wakeup_new: comm=new pid=100 prio=120 target_cpu=000"
            lines += [f"  bash-300 [000] d..2. {begins + 0.0005:.6f}: {born}", switch(begins + 0.001, bash, "S", runs)]
        else:
            lines += [waking(begins + 0.001, idle, runs), switch(begins + 0.001, idle, "R", runs)]
        lines += [waking(begins + 0.003, runs, late)]
        if turn == 9:
            lines += [f"  old-100 [000] d..2. {begins + 0.0105:.6f}: sched_process_exit: comm=old pid=100 prio=120"]
        lines += [switch(begins + 0.011, runs, "X" if turn == 9 else "S", late)]
        # One of the turns of `old` is the longest.
        lines += [switch(begins + 0.013 + 0.004 * (turn == 3), late, "S", idle)]
    trace = tmp_path / "reused.txt"
    trace.write_text("\n".join(lines) + "\n")
    options: dict[str, Any] = {"machine": opplab.Machine.load("juno-r2"), "recorded_governor": "schedutil"}
    (_, slowest) = opplab.explain(trace, task="late", why_slow=True, **options)
    assert slowest.data["waited_for_ns"] == {"old": 8_000_000}
    for asked in ({"why_slow": True}, {"at": 10.9}):
        with pytest.raises(opplab.InputError, match="pid 100 was 2 tasks: name one of old, new"):
            opplab.explain(trace, task="100", **asked, **options)
    assert "new: 10 activations" in str(opplab.explain(trace, task="new", why_slow=True, **options))


def test_a_trace_without_clocks_names_what_it_lacks(tmp_path: Path) -> None:
    """The only clock of a CPU, and a governor that decides nothing, were "no records of schedutil's decisions"."""
    switch = "sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120"
    path = tmp_path / "run.txt"
    path.write_text(f"a-7 [001] 1.000000: {switch}\nb-8 [001] 1.010000: {switch}\n")
    with pytest.raises(InputError, match=r"no clock of CPU 1 .*, and performance is assumed"):
        opplab.explain(path, cpu=1, machine=opplab.Machine.load("juno-r2"))
    tree = json.loads(json.dumps(opplab.Machine.load("juno-r2").tree))
    for cluster in tree["cluster"]:
        cluster["opp"] = cluster["opp"][-1:]
    one_clock = opplab.Machine.from_tree(tree)
    (found,) = opplab.explain(path, cpu=1, machine=one_clock)
    assert found.text == f"CPU 1 has no other clock than {tree['cluster'][1]['opp'][0]['khz'] / 1000:g} MHz."


@pytest.mark.parametrize(
    ("kernel", "lower", "words"),
    [
        ("6.1", 600, "at least uclamp.min 600, at most the capacity 498 -> 498"),
        ("6.1", 450, "at least uclamp.min 450 -> 450"),
        ("6.8", 600, "at least uclamp.min 600 -> 600"),
    ],
)
def test_a_lower_clamp_above_the_capacity_is_what_fills_a_cpu(kernel: str, lower: int, words: str) -> None:
    """The reason was "at most the capacity 498 -> 498" after a sum of 19."""
    task = {"loop": -1, "cpus": [5], "util_min": lower, "run": 700, "timer": {"ref": "unique", "period": 16000}}
    workload = opplab.Workload.parse(json.dumps({"tasks": {"a": task}}))
    run = opplab.simulate(opplab.Machine.load("pixel6"), workload, opplab.Policy(kernel=kernel), seconds=1.0)
    found = [one for one in opplab.explain(run, cpu=5, at=0.7) if one.kind in ("frequency", "reports")]
    assert words in found[-1].text, found
    assert found[-1].data["bound"] == "uclamp-min"


def test_limits_that_bind_nothing_change_nothing_under_intel_pstate() -> None:
    """Goal: the driver knows the P-state that it wrote (intel_pstate.c:intel_pstate_set_policy(), v6.12).

    Method: the highest P-state as a limit leaves all clocks as they are. The driver took itself to be at the lowest.
    A higher least P-state holds from the next sample on.
    """
    keys: dict[str, Any] = {"driver": "intel_pstate", "governor": "powersave", "kernel": "4.19", "no_hwp": True}
    work = opplab.Workload.periodic(4, run_us=1200, period_us=4000)
    top_khz = max(opplab.Machine.load("haswell-48x-numa").tree["cluster"][0]["opp"], key=lambda opp: opp["khz"])["khz"]

    def clocks(**limit: int) -> pl.DataFrame:
        policy = opplab.Policy(**keys, changes=[{"at_ms": 186, **limit}] if limit else [])
        return opplab.simulate("haswell-48x-numa", work, policy, seconds=0.5).events("cpu_frequency")

    plain = clocks()
    assert clocks(scaling_max_freq=top_khz).equals(plain)
    assert plain.filter(pl.col("time_ns") > 200_000_000).height > 20
    held = clocks(scaling_min_freq=2_000_000).filter(pl.col("time_ns") >= 186_000_000)
    assert plain.filter(pl.col("time_ns") > 186_000_000)["khz"].min() < 2_000_000 == held["khz"].min()  # type: ignore[operator]
    assert held["time_ns"].min() > 186_000_000  # type: ignore[operator]


GOVERNED = {
    "fixed-governor": ("powersave", "performance"),
    "sampling": ("ondemand", "conservative"),
    "rate-limit": ("schedutil",),
    "new-task": ("schedutil",),
    "ramp": ("schedutil",),
    "uclamp": ("schedutil",),
}


@pytest.mark.parametrize(("before", "after"), [*itertools.permutations(["schedutil", "ondemand", "powersave"], 2)])
def test_slow_time_is_that_of_the_governor_that_ran_then(before: str, after: str) -> None:
    """Goal: no reason of a governor holds while another one runs. Method: a CPU's slow time, by how long each ran.

    After schedutil, 87 % was the rate limit's, and before it 89 % that of new tasks.  A task's upper clamp was a reason
    under governors that heed none.
    """
    work = parsed({"t": {"run": 6000, "util_max": 300, "instance": 2, "timer": {"ref": "unique", "period": 16_000}}})
    changes = [{"at_ms": 200, "governor": after}]
    made = opplab.simulate("juno-r2", work, opplab.Policy(governor=before, changes=changes), seconds=0.6)
    slow = [one.data for one in opplab.explain(made, why_slow=True) if one.kind == "slow"]
    ran_ms = {before: 200, after: 400}
    for one in slow:
        if one["reason"] in GOVERNED:
            most_ms = max(one["cpus_ns"].values()) / 1e6
            assert most_ms <= sum(ran_ms.get(governor, 0) for governor in GOVERNED[one["reason"]]) + 5, one
    if "powersave" in (before, after):
        fixed_ns = next(one["slow_ns"] for one in slow if one["reason"] == "fixed-governor")
        assert fixed_ns > ran_ms["powersave"] * 1e6


def test_a_governor_without_a_sample_is_no_fixed_one() -> None:
    """The first sample of cpufreq-dt with an unknown latency is due after seconds: the governor had seen no load."""
    made = opplab.simulate("msm8953", WORK, opplab.Policy(governor="conservative", kernel="6.12"), seconds=0.3)
    assert made.events("dbs_decision").is_empty()
    reasons = {one.data["reason"] for one in opplab.explain(made, why_slow=True) if one.kind == "slow"}
    assert "sampling" in reasons
    assert "fixed-governor" not in reasons


def test_a_request_for_the_point_that_the_hardware_has_is_not_on_its_way() -> None:
    """Goal: of two requests that the hardware has one point for, the second changes nothing.

    Method: the grants, of which there are none between them. CPPC asks between the operating points.
    """
    policy = opplab.Policy(governor="ondemand", driver="cppc_cpufreq", kernel="6.15")
    work = opplab.Workload.periodic(6, run_us=2400, period_us=16000)
    records = Records(opplab.simulate("juno-r2", work, policy, seconds=0.5)._inner)
    grants = records.where("freq_grant", policy_cpu=0)
    asks = [records.row("dbs_decision", int(index)) for index in records.where("dbs_decision", policy_cpu=0)]
    stays = 0
    for row, later in itertools.pairwise(one for one in asks if one["next_khz"] != one["prev_khz"]):
        at_ns = later["time_ns"] - 1000
        until = records.until("freq_grant", grants, at_ns)
        before = records.until("freq_grant", grants, row["time_ns"])
        told = {one.kind: one for one in frequency_findings(records, 0, at_ns)}
        if not before or until > before or "delivery" not in told:
            continue
        stays += 1
        had_khz = records.row("freq_grant", int(grants[until - 1]))["granted_khz"]
        assert told["delivery"].data["granted_khz"] == had_khz
        assert "which the hardware has for that, too" in told["delivery"].text
    assert stays > 3


def test_a_level_between_two_clocks_names_the_clock_that_it_becomes() -> None:
    """A hybrid's levels are no whole 100 MHz: 46 x 80.702 MHz = 3712.292 MHz stood beside a clock of 3800 MHz."""
    policy = opplab.Policy(driver="intel_pstate", governor="powersave", max_perf_pct=80)
    work = opplab.Workload.periodic(2, run_us=9000, period_us=16000)
    records = Records(opplab.simulate("core-ultra-135h", work, policy, seconds=0.3)._inner)
    between = 0
    for at_ns in range(50_500_000, 300_000_000, 7_300_000):
        running, *found = cpu_findings(records, 0, at_ns)
        is_plain = not any(one.kind == "grant" for one in found)
        for one in found:
            if is_plain and one.kind == "frequency" and running.data["khz"] - level_khz(one.data) > 1000:
                between += 1
                assert f"The lowest clock that reaches it is {running.data['khz'] / 1000:g} MHz" in one.text
    assert between > 5


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"scaling_max_freq": 450_000}, "resolved 450 MHz (OPP 1 of 3), as the limits allow no more."),
        (
            {"scaling_min_freq": 800_000},
            "resolved 800 MHz (OPP 2 of 3), as lower ones are not allowed or not efficient.",
        ),
        ({}, ""),
    ],
)
def test_a_point_that_a_limit_made_is_not_the_formulas(policy: dict[str, Any], words: str) -> None:
    """Method: the lowest operating point that reaches the product of the formula."""
    records = records_of("juno-r2", **policy)
    opps_khz = records.policy_of[0]["opps_khz"]
    other = 0
    for index in records.where("sugov_decision", policy_cpu=0):
        row = records.row("sugov_decision", int(index))
        if not row["wanted_khz"]:
            continue
        near_khz = next((khz for khz in opps_khz if khz >= row["raw_khz"]), opps_khz[-1])
        text = records.words("sugov_decision", row, 0)["text"]
        other += near_khz != row["wanted_khz"]
        assert text.endswith(words) == (near_khz != row["wanted_khz"] or not words)
        assert ("as the limits" in text or "as lower ones" in text) == (near_khz != row["wanted_khz"])
    assert bool(other) == bool(words)


def test_samples_of_intel_pstate_name_what_decided() -> None:
    """Goal: the busy time asks for a P-state only where nothing else does (intel_pstate.c:get_target_pstate(), v6.12).

    Method: the formula, with the lowest P-state and the limits.
    """
    keys: dict[str, Any] = {"driver": "intel_pstate", "governor": "powersave", "kernel": "4.19"}
    records = records_of("haswell-48x-numa", scaling_max_freq=1_700_000, **keys)
    words = Counter[str]()
    for index in range(len(records.tables["dbs_decision"]["time_ns"])):
        row = records.row("dbs_decision", index)
        text = records.words("dbs_decision", row, row["policy_cpu"])["text"]
        words[row["sample_rule"]] += 1
        # 31 + 31 / 4 P-states of 100 MHz, by the whole percents that are below the busy share.
        low_khz, high_khz = (38 * (row["load"] + more) // 100 * 100_000 for more in (0, 1))
        match row["sample_rule"]:
            case "busy-time":
                assert low_khz <= row["target_khz"] <= high_khz
                assert "so that share of the highest P-state and a quarter more" in text
            case "lowest":
                assert low_khz < row["target_khz"] == 1_200_000
                assert "so the lowest P-state" in text
            case "limit":
                assert row["target_khz"] == 1_700_000 < high_khz
                assert "so the nearest P-state that is allowed" in text
            case "first":
                assert "busy" not in text
            case "average":
                assert row["target_khz"] > low_khz
    assert {"busy-time", "lowest", "limit", "first"} <= words.keys(), words


def test_a_wake_up_that_looks_for_the_idlest_cpu_names_its_result() -> None:
    """Up to v5.6 big and small CPUs are searched so, where the task does not fit: the sentence had no result."""
    tasks: dict[str, Any] = {
        "t": {"run": 60_000, "instance": 2, "cpus": [0, 1], "timer": {"ref": "unique", "period": 100_000}},
        "u": {"run": 12_000, "cpus": [0, 1], "timer": {"ref": "u", "period": 8000}},
    }
    policy = opplab.Policy(governor="performance", kernel="5.1")
    records = Records(opplab.simulate("pixel4", parsed(tasks), policy, seconds=0.8)._inner)
    seen = 0
    for index in records.where("placement_decision", fork=0):
        row = records.row("placement_decision", int(index))
        text = records.words("placement_decision", row, row["cpu"])["text"]
        if row["rule"] == "idlest":
            seen += 1
            assert text.endswith(f"CPU {row['cpu']}: the idlest CPU of the idlest group (sched_balance_find_dst_cpu).")
        assert text.endswith((f"CPU {row['cpu']}.", ")."))
    assert seen


@pytest.mark.parametrize(
    ("machine", "keys"),
    [
        ("skylake-8x-uma", {"driver": "intel_pstate", "governor": "powersave"}),
        ("skylake-8x-uma", {"driver": "intel_pstate", "governor": "performance"}),
        ("skylake-8x-uma", {"driver": "intel_cpufreq", "governor": "performance", "no_hwp": True}),
    ],
)
def test_a_clock_after_a_change_that_limits_made_is_not_the_changes(machine: str, keys: dict[str, Any]) -> None:
    """Goal: what a change did to the clock. Method: the hardware's answers: the first one that has another request.

    A turbo bin, or the first of two answers of an instant, was the clock that a lower limit made.
    """
    named = 0
    for at_ms in range(150, 190, 4):
        policy = opplab.Policy(**keys, changes=[{"at_ms": at_ms, "max_perf_pct": 40}])
        work = opplab.Workload.periodic(7, run_us=9000, period_us=16000)
        records = Records(opplab.simulate(machine, work, policy, seconds=0.3)._inner)
        for cpu in range(4):
            (change,) = (one for one in frequency_findings(records, cpu, 280_000_000) if one.kind == "change")
            khz = change.data.get("granted_khz")
            if khz is None:
                continue
            named += 1
            at_ns = change.time_ns + change.data["delay_ns"]
            rows = records.where("cpu_frequency", cpu=cpu, time_ns=at_ns)
            assert khz == records.row("cpu_frequency", int(rows[-1]))["khz"]
            grants = [records.row("freq_grant", int(one)) for one in records.where("freq_grant", policy_cpu=cpu)]
            before = [one for one in grants if one["time_ns"] < at_ns][-1]
            (*_, row) = (one for one in grants if one["time_ns"] == at_ns)
            decided = len(records.where("hwp_decision", policy_cpu=cpu, time_ns=at_ns))
            assert at_ns == change.time_ns or decided or row["requested_khz"] != before["requested_khz"]
    assert named > 5


def test_a_clock_that_a_sample_asked_for_is_not_a_changes() -> None:
    """CPUs that go start the governor anew: 248 ms later a step up of conservative was "the clock became" of that."""
    tasks = {"t": {"run": 14_000, "delay": 300_000, "timer": {"ref": "unique", "period": 16_000}, "cpus": [2]}}
    policy = opplab.Policy(
        governor="conservative",
        kernel="5.10",
        tunables={"sampling_rate": "10000"},
        changes=[{"at_ms": 200, "offline_cpus": [1]}],
    )
    records = Records(opplab.simulate("msm8953", parsed(tasks), policy, seconds=0.6)._inner)
    told = {one.kind: one for one in frequency_findings(records, 2, 590_000_000)}
    assert "granted_khz" not in told["change"].data, told["change"].text
    assert told["delivery"].time_ns > 300_000_000


@pytest.mark.parametrize(
    ("machine", "driver"), [("alder-lake-i7-1260p", "intel_cpufreq"), ("epyc-milan-1s", "amd-pstate")]
)
@pytest.mark.parametrize("governor", ["schedutil", "conservative"])
def test_steps_of_a_driver_without_a_table_are_no_limits(machine: str, driver: str, governor: str) -> None:
    """A hybrid's 4700 MHz are 60 levels of 78.333 MHz, 4699.98 MHz: no limit is in the way."""
    records = records_of(machine, driver=driver, governor=governor, kernel="6.12")
    table = "sugov_decision" if governor == "schedutil" else "dbs_decision"
    seen = 0
    for index in range(len(records.tables[table]["time_ns"])):
        row = records.row(table, index)
        seen += 1
        text = records.words(table, row, row["policy_cpu"])["text"]
        assert "the limits allow no more" not in text
        # The least of amd-pstate is that of the lowest efficient level.
        assert "not allowed" not in text or (driver == "amd-pstate" and row["next_khz"] < 1_600_000)
    assert seen > 50


def test_the_clocks_do_not_decide_what_a_budget_lasts_for() -> None:
    """Goal: the runtime of a deadline task is work, and not time (deadline.c:dl_scaled_delta_exec(), v6.12).

    Method: the cycles that a task that always runs gets under two governors: at 2.4 times the clock 5 % more.
    """
    task = {"run": 1000, "loop": -1, "policy": "SCHED_DEADLINE", "dl-runtime": 4000, "dl-period": 10_000}
    work, limits = [], []
    for governor in ("schedutil", "performance"):
        made = opplab.simulate("skylake-8x-uma", parsed({"u": task}), opplab.Policy(governor=governor), seconds=1)
        told = {one.kind: one for one in opplab.explain(made, why_slow=True)}
        work.append(told["summary"].data["busy_at_top_ns"])
        limits.append(told["limit"].text)
        assert "budget" in told
    assert work[1] == pytest.approx(work[0], rel=0.06)
    assert limits[0] == "The clocks decide the rate where no budget does."
    assert limits[1].startswith("No clock helps")


def test_a_clock_that_another_cpu_holds_is_not_the_requests() -> None:
    """One clock for all cores: a request that changes nothing has the clock of the CPU that asks for the most."""
    keys: dict[str, Any] = {"driver": "intel_cpufreq", "governor": "ondemand", "no_hwp": True}
    work = opplab.Workload.periodic(5, run_us=4000, period_us=16000)
    records = Records(opplab.simulate("skylake-8x-uma", work, opplab.Policy(**keys), seconds=0.5)._inner)
    seen = Counter[bool]()
    for cpu in range(6):
        rows = [records.row("freq_grant", int(index)) for index in records.where("freq_grant", policy_cpu=cpu)]
        for at_ns, row in {row["time_ns"]: row for row in rows}.items():
            request = {"time_ns": at_ns, "next_khz": row["requested_khz"]}
            told = frequency._stays(records, cpu, request, at_ns)
            is_other = row["by_cpu"] != cpu
            seen[is_other] += 1
            assert told is not None
            assert (f": CPU {row['by_cpu']}, which has the same clock, asked for more." in told.text) == is_other
            assert told.data["granted_khz"] == row["granted_khz"]
    assert min(seen.values()) > 10


def test_the_end_of_another_threads_request_is_told_though_it_asked_again_since() -> None:
    """Goal: what made a clock, though answers of one instant went up and down again since then.

    Method: the answers: the last one of each instant, of which equal ones are one.
    """
    keys: dict[str, Any] = {"driver": "intel_pstate", "governor": "powersave", "no_hwp": True, "kernel": "6.8"}
    work = opplab.Workload.periodic(48, run_us=3000, period_us=8000)
    records = Records(opplab.simulate("haswell-48x-numa", work, opplab.Policy(**keys), seconds=0.4)._inner)
    ended = 0
    for cpu in range(24):
        rows = [records.row("freq_grant", int(index)) for index in records.where("freq_grant", policy_cpu=cpu)]
        last = list({row["time_ns"]: row for row in rows}.values())
        changes = [row for before, row in itertools.pairwise(last) if before | {"time_ns": 0} != row | {"time_ns": 0}]
        for before, row in itertools.pairwise(changes):
            repeats = [one["time_ns"] for one in last if one["time_ns"] > row["time_ns"] and one not in changes]
            after = next((one["time_ns"] for one in changes if one["time_ns"] > row["time_ns"]), records.end_ns)
            if before["by_cpu"] == cpu or row["by_cpu"] != cpu or row["requested_khz"] != before["requested_khz"]:
                continue
            for at_ns in [one for one in repeats if one < after][:2]:
                told = {one.kind: one for one in frequency_findings(records, cpu, at_ns)}
                ended += 1
                assert told["shared"].time_ns == row["time_ns"]
                assert "no CPU that has it asked for more any longer" in told["shared"].text
    assert ended


def test_waits_of_real_time_tasks_for_the_fair_server_are_named() -> None:
    """A FIFO task waited "for a CPU that ran" a fair task, as if that had come first.

    Method: by the switches, the time in which the fair task ran between two runs of the real-time task's activation.
    """
    made = opplab.simulate(
        "skylake-8x-uma", parsed({"rt": FIFO, "fair": FAIR}), opplab.Policy(kernel="6.12"), seconds=3
    )
    rows = made.events("sched_switch").filter(cpu=0).select("time_ns", "prev", "prev_state", "next").rows()
    _, slow = opplab.explain(made, task="rt", why_slow=True)
    start_ns, end_ns = slow.time_ns, slow.time_ns + slow.data["response_ns"]
    fair_ns = 0
    for (from_ns, prev, state, task), (to_ns, *_) in itertools.pairwise(rows):
        if task == 1 and prev == 0 and state == 0 and start_ns <= from_ns < end_ns:
            fair_ns += min(to_ns, end_ns) - from_ns
    assert fair_ns > 40_000_000
    parts = slow.data["parts_ns"]
    assert parts["server"] == sum(slow.data["served_ns"].values()) == fair_ns
    assert parts["waiting"] == 0
    assert sum(parts.values()) == pytest.approx(slow.data["response_ns"], abs=1000)
    assert "waiting, as the server of fair tasks (deadline) had its turn (" in slow.text
    assert "%), which ran fair-1 " in slow.text


class Racing(opplab.Governor):
    """Asks for the highest clock while a task runs, else for the lowest: often while the hardware still answers."""

    def update(self, facts: opplab.policies.GovernorFacts) -> int:
        return facts.max_khz if any(cpu.nr_running for cpu in facts.cpus) else facts.min_khz


@pytest.mark.parametrize("machine", ["pixel6", "exynos9611"])
def test_a_request_that_comes_while_another_is_on_its_way_is_answered_after_it(machine: str) -> None:
    """Goal: of a request for the clock that the hardware still has, but not for long, no "the clock stays".

    Method: each clock and request by the events of the run, at instants within and at the end of each wait.
    """
    work = opplab.Workload.periodic(12, run_us=500, period_us=2000)
    run = opplab.simulate(machine, work, opplab.Policy(), seconds=0.2, governor=Racing())
    records = Records(run._inner)
    seen = Counter[str]()
    for policy in records.facts["policies"]:
        cpu = policy["cpus"][0]
        events = run.events("cpu_frequency").filter(pl.col("cpu") == cpu)
        clocks = list(zip(events["time_ns"].to_list(), events["khz"].to_list(), strict=True))
        events = run.events("freq_request").filter(pl.col("cpu").is_in(policy["cpus"]))
        asks = set(zip(events["time_ns"].to_list(), events["khz"].to_list(), strict=True))
        decided = run.events("custom_decision").filter(pl.col("policy_cpu") == cpu)
        decided = decided.filter(pl.col("next_khz") != pl.col("prev_khz"))
        asked = list(zip(decided["time_ns"].to_list(), decided["next_khz"].to_list(), strict=True))
        points = [at for now, later in itertools.pairwise(asked) for at in ((now[0] + later[0]) // 2, later[0] - 1)]
        for at_ns in points[::3]:
            for told in frequency_findings(records, cpu, at_ns):
                if told.kind != "delivery" or "pending" in told.data:
                    continue
                from_ns = told.time_ns - told.data["delay_ns"]
                if "stays" in told.text:
                    seen["stays"] += 1
                    assert not [ns for ns, _ in clocks if from_ns < ns <= at_ns], told.text
                    continue
                khz = told.data["granted_khz"]
                way_ns = told.data.get("on_its_way_ns")
                seen["after another" if way_ns else "became"] += 1
                # A request while the kthread has one to take along yet is no event.
                seen["request"] += (from_ns, khz) in asks
                assert (from_ns, khz) in asked
                assert told.time_ns == min(ns for ns, became in clocks if ns >= from_ns and became == khz)
                between = [clock for clock in clocks if from_ns <= clock[0] < told.time_ns]
                assert way_ns or not between, told.text
                if way_ns:
                    # It was asked for before, and no clock answered it until the request.
                    assert not [ns for ns, became in clocks if way_ns < ns < from_ns and became == dict(asked)[way_ns]]
                    assert len(between) == (dict(asked)[way_ns] != khz), told.text
    assert min(seen[what] for what in ("after another", "became", "request")) > 20


def test_a_task_that_ran_at_once_says_how_long_its_cpu_took_to_leave_idle() -> None:
    """The kthread sleeps again within the instant: the idle state entered then was taken for the one before."""
    run = opplab.simulate("pixel6", WORK, opplab.Policy(), seconds=0.3, governor=Racing())
    records = Records(run._inner)
    exits, idles = (records.tables[name] for name in ("idle_exit", "cpu_idle"))
    seen = 0
    for policy in records.facts["policies"]:
        cpu = policy["cpus"][0]
        kthread = records.names.index(f"sugov:{cpu}")
        for index in records.where("sched_switch", cpu=cpu, next=kthread):
            at_ns = records.row("sched_switch", int(index))["time_ns"]
            left = len(records.where("cpu_idle", cpu=cpu, time_ns=at_ns)) > 1
            begun_ns = exits["time_ns"][(exits["cpu"] == cpu) & (exits["time_ns"] <= at_ns)]
            if not left or not len(records.where("sched_waking", task=kthread, time_ns=at_ns)):
                continue
            states = idles["state"][(idles["cpu"] == cpu) & (idles["time_ns"] < at_ns)]
            told = {one.kind: one for one in opplab.explain(run, task=f"sugov:{cpu}", at=at_ns / 1e9)}["start"]
            if told.data["latency_ns"] or told.data["start_ns"] != at_ns:
                continue
            seen += 1
            assert told.data["exit_ns"] == at_ns - int(begun_ns[-1]), told.text
            assert told.data["idle_state"] == records.idle_states[cpu][int(states[-1])]
    assert seen > 5
