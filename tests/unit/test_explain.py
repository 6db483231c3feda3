"""`opplab explain` and policies written in Python."""

import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from conftest import rtapp

import opplab
from opplab import _opplab
from opplab.cli.main import main
from opplab.explanation.cases import case_of
from opplab.explanation.findings import Explanation
from opplab.explanation.frequency import frequency_findings
from opplab.explanation.idle import decisions_of_run, watts_by_state
from opplab.explanation.placement import task_findings
from opplab.explanation.recordings import _recorded_formula
from opplab.explanation.records import Records, task_index, told_apart
from opplab.explanation.slow import SLOW, acting_limit, budgets_that_acted

from calls import answered, called
from testdata import shared, without_policy


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(list(args))
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


def simulate(tasks: int = 4, run_us: int = 1600, **policy: Any) -> opplab.Run:
    workload = opplab.Workload.periodic(tasks, run_us=run_us, period_us=16000)
    return opplab.simulate("juno-r2", workload, opplab.Policy(**policy), seconds=0.3)


@pytest.fixture(scope="module")
def juno() -> opplab.Run:
    return simulate(8)


def test_records_are_tables(juno: opplab.Run) -> None:
    tables = juno.events("placement_decision", "sugov_decision", "placement")
    decisions, events = tables["placement_decision"], tables["placement"]
    woken = decisions.filter(pl.col("fork") == 0)
    moves = events.filter(~pl.col("rule").is_in([5, 6]))
    assert woken.select("time_ns", "task", "prev_cpu", "cpu", "rule").equals(
        moves.select("time_ns", "task", "prev_cpu", "cpu", "rule")
    )
    with pytest.raises(opplab.InputError, match="did you mean `sugov_decision`"):
        juno.events("sugov_decisions")


def test_a_cpu(juno: opplab.Run) -> None:
    """The sentences hold the numbers of the records, and the last request made the clock."""
    requests = juno.events("sugov_decision").filter(pl.col("outcome") == 4)
    clocks = juno.events("cpu_frequency")
    for request in requests.filter(pl.col("time_ns") > 20_000_000).head(5).to_dicts():
        cpu, at_ns = request["policy_cpu"], request["time_ns"] + 1_900_000
        found = opplab.explain(juno, cpu=cpu, at=at_ns / 1e9)
        (told,) = [one for one in found if one.kind == "frequency"]
        later = requests.filter((pl.col("policy_cpu") == cpu) & (pl.col("time_ns") <= at_ns))
        assert told.data["time_ns"] == later["time_ns"].max()
        row = later.tail(1).to_dicts()[0]
        product = row["util_sum"] * row["headroom"] >> 10
        assert f"headroom 1.25 -> {product}" in told.text
        assert f"-> {row['util']}" in told.text
        assert f"-> resolved {row['wanted_khz'] // 1000} MHz" in told.text
        (running,) = [one for one in found if one.kind == "running"]
        clock = clocks.filter((pl.col("cpu") == cpu) & (pl.col("time_ns") <= at_ns))["khz"][-1]
        assert running.data["khz"] == clock


@pytest.mark.parametrize(("percent", "factor"), [(100, "1.00"), (110, "1.10"), (125, "1.25"), (180, "1.80")])
def test_the_headroom_is_the_proposals(percent: int, factor: str) -> None:
    """The sentence has the headroom that decided, and a bound where one acted; its numbers give the next by hand."""
    run = simulate(8, proposals=(f"headroom:percent={percent}",))
    rows = run.events("sugov_decision").filter(pl.col("outcome") == 4).to_dicts()
    bounded = 0
    for row in rows[:: max(1, len(rows) // 20)]:
        found = opplab.explain(run, cpu=row["policy_cpu"], at=row["time_ns"] / 1e9)
        (told,) = [one for one in found if one.kind == "frequency"]
        product = row["util_sum"] * -(-percent * 1024 // 100) >> 10
        assert f", headroom {factor} -> {product}" in told.text
        if row["util"] == product:
            assert f"headroom {factor} -> {product} of capacity" in told.text or row["max_cap"] == 1024
            assert "at most" not in told.text and "at least" not in told.text
        else:
            bounded += 1
            assert row["util"] in (row["max_cap"], row["bw_dl"])
        assert row["ref_khz"] * row["util"] // row["max_cap"] == row["raw_khz"]
    assert bounded < len(rows)


def test_a_governor_in_python_gives_its_reason() -> None:
    class Half(opplab.Governor):
        def update(self, facts: opplab.policies.GovernorFacts) -> int | None:
            self.decided_by = (facts.cpus[0].util_cfs, facts.cpus[0].capacity)
            return facts.max_khz // 2

    workload = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    run = opplab.simulate("juno-r2", workload, opplab.Policy(), seconds=0.1, governor=Half())
    found = opplab.explain(run, cpu=0, at=0.09)
    (told,) = [one for one in found if one.kind == "frequency"]
    assert f": util {told.data['util']} of capacity {told.data['max_cap']}." in told.text
    assert told.data["max_cap"] > 0


def test_the_reason_of_an_older_answer_is_not_told() -> None:
    class Once(opplab.Governor):
        def update(self, facts: opplab.policies.GovernorFacts) -> int | None:
            assert self.decided_by is None
            if facts.time_ns < 20_000_000:
                self.decided_by = (7, facts.cpus[0].capacity)
            return facts.max_khz // 2

    workload = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    run = opplab.simulate("juno-r2", workload, opplab.Policy(), seconds=0.1, governor=Once())
    rows = run.events("custom_decision").to_dicts()
    assert {row["max_cap"] > 0 for row in rows if row["time_ns"] < 20_000_000} == {True}
    assert {(row["util"], row["max_cap"]) for row in rows if row["time_ns"] >= 20_000_000} == {(0, 0)}


def test_the_rate_limit_is_told() -> None:
    """A request that came late says since when it was wanted."""
    run = simulate(10, 3000, tunables={"rate_limit_us": "9000"})
    rows = run.events("sugov_decision").filter(pl.col("policy_cpu") == 0).to_dicts()
    for before, row in itertools.pairwise(rows):
        if row["outcome"] == 4 and before["outcome"] == 1 and before["wanted_khz"] != before["next_khz"]:
            break
    found = opplab.explain(run, cpu=0, at=(row["time_ns"] + 1) / 1e9)
    (told,) = [one for one in found if one.kind == "frequency"]
    assert "the rate limit of 9 ms held it for" in told.text
    assert 0 < told.data["held_ns"] <= 9_000_000
    # At most a tick until the next report.
    assert 0 <= told.data["no_report_ns"] < 4_000_000


def test_a_rate_limit_holds_no_longer_than_it_lasts() -> None:
    """A CPU that sleeps when the limit ends reports only at its next timer: that wait is not the limit's."""
    tasks = {
        "x": {"cpus": [4], "loop": -1, "run": 600, "timer": {"ref": "a", "period": 16_000}},
        "y": {"cpus": [4], "loop": -1, "run": 2400, "timer": {"ref": "b", "period": 48_000}},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    policy = opplab.Policy(variation="none", tunables={"rate_limit_us": "7500"})
    run = opplab.simulate("pixel6", work, policy, seconds=0.5)
    requests = run.events("sugov_decision").filter((pl.col("policy_cpu") == 4) & (pl.col("outcome") == 4))
    seen = 0
    for at_ns in requests["time_ns"].to_list():
        (told,) = [one for one in opplab.explain(run, cpu=4, at=(at_ns + 1000) / 1e9) if one.kind == "frequency"]
        if told.data.get("no_report_ns"):
            seen += 1
            assert 0 <= told.data["held_ns"] <= 7_500_000
            assert "and no report came for" in told.text
    assert seen


def test_a_task_by_energy(juno: opplab.Run) -> None:
    """The chosen CPU is the candidate with the least added energy where that is the rule."""
    decisions = juno.events("placement_decision")
    codes = dict(opplab._opplab.decision_codes())
    chosen = decisions.filter(pl.col("eas_rule") == codes["eas_rule"].index("less-energy")).to_dicts()
    assert chosen
    for row in chosen[:5]:
        found = opplab.explain(juno, task=row["task"], at=row["time_ns"] / 1e9)
        deltas = {
            one.data["cpu"]: one.data["energy"] - one.data["energy_without"] for one in found if one.kind == "candidate"
        }
        (choice,) = [one for one in found if one.kind == "choice"]
        assert choice.data == {"cpu": row["cpu"], "rule": "less-energy"}
        assert min(deltas, key=lambda cpu: deltas[cpu]) == row["cpu"]
        assert "costs the least energy" in choice.text


def test_differences_that_wrap_are_the_reason_before_5_14() -> None:
    """On 5.10 a choice is the least by the differences of the recorded energies, or one of these wrapped."""
    periodic = [(3500, 16_667, {}), (5200, 16_667, {}), (900, 10_000, {}), (6000, 60_000, {"util_max": 200})]
    periodic += [(2500, 40_000, {}), (2500, 40_000, {}), (1200, 25_000, {"util_min": 300})]
    tasks = {
        f"t{nth}": {"loop": -1, **more, "run": run, "timer": {"ref": "unique", "period": period}}
        for nth, (run, period, more) in enumerate(periodic)
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    run = opplab.simulate("sm8150", work, opplab.Policy(kernel="5.10", variation="none"), seconds=2)
    codes = dict(opplab._opplab.decision_codes())["eas_rule"]
    tables = [run.events(name).partition_by("decision", as_dict=True) for name in ("eas_energy", "eas_candidate")]
    seen: Counter[str] = Counter()
    for row in run.events("placement_decision").filter(pl.col("eas_rule") < len(codes)).to_dicts():
        energies, candidates = (table.get((row["decision"],)) for table in tables)
        if energies is None or candidates is None:
            continue
        known = {(one["dst_cpu"], one["domain"]): one["energy"] for one in energies.to_dicts()}
        deltas = {cpu: energy - known[-1, domain] for (cpu, domain), energy in known.items() if cpu >= 0}
        rule, least = codes[row["eas_rule"]], min(deltas.values(), default=0)
        seen[rule] += 1
        if rule in ("less-energy", "prev-does-not-fit"):
            assert deltas[row["cpu"]] == least
            assert (row["prev_cpu"] in deltas) == (rule == "less-energy")
        elif rule == "wrapped":
            assert least < 0
            assert deltas.get(row["cpu"]) != least
            found = opplab.explain(run, task=row["task"], at=row["time_ns"] / 1e9)
            (choice,) = [one for one in found if one.kind == "choice"]
            assert "wraps to a huge one (before v5.14) (wrapped)" in choice.text
    assert seen["wrapped"] > 0
    assert seen["less-energy"] > 0


def test_a_task_that_fits_no_cpu_is_not_said_to_be_cheapest_where_it_was() -> None:
    """On little CPUs alone it hardly ever sleeps: it exceeds 80 % of their capacity, so nothing is weighed."""
    task = {"loop": -1, "cpus": [0, 1, 2, 3], "run": 12_000, "timer": {"ref": "unique", "period": 16_000}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"back": task}}), name="w", file="<w>")
    run = opplab.simulate("pixel6", work, opplab.Policy(kernel="6.12", variation="none"), seconds=2)
    little = min(cluster["capacity"] for cluster in opplab.Machine.load("pixel6").describe()["clusters"])
    codes = dict(opplab._opplab.decision_codes())["eas_rule"]
    candidates = run.events("eas_candidate")["decision"].unique().to_list()
    rules: Counter[str] = Counter()
    for row in run.events("placement_decision").filter(pl.col("eas_rule") < len(codes)).to_dicts():
        rule = codes[row["eas_rule"]]
        rules[rule] += 1
        if rule in ("none-fits", "stay"):
            assert (row["decision"] in candidates) == (rule == "stay")
            assert rule == "stay" or row["util_est"] * 1280 >= little * 1024
    assert rules["none-fits"] > 0


def test_a_push_of_a_running_task_is_no_misfit_by_itself() -> None:
    """All CPUs of a hybrid with SMT have one capacity: no task is a misfit, and the balancer pushes by priority."""
    tasks = {
        "js": {"instance": 1, "loop": -1, "run": 120000, "timer": {"ref": "js", "period": 700000}},
        "tab": {"instance": 3, "loop": -1, "run": 9000, "sleep": 61000},
        "net": {"instance": 2, "loop": -1, "run": 300, "timer": {"ref": "unique", "period": 5000}},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    policy = opplab.Policy(driver="intel_cpufreq", governor="schedutil")
    run = opplab.simulate("alder-lake-i7-1260p", work, policy, seconds=3)
    text = "".join(str(opplab.explain(run, task=f"tab-{nth}", at=3)) for nth in (1, 2, 3))
    assert " by active-balance" in text
    assert "misfit" not in text


def test_a_task_without_energy() -> None:
    run = simulate(8, 3000, eas=False)
    found = opplab.explain(run, task=run.tasks[2])
    (told,) = [one for one in found if one.kind == "placement"]
    assert "select_idle_sibling" in told.text
    assert {one.kind for one in found} >= {"summary", "placement", "running"}


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"governor": "ondemand"}, "ondemand took a sample: the busiest CPU was busy for"),
        ({"governor": "performance"}, "The governor performance decided nothing"),
        ({"driver": "cppc_cpufreq", "energy_model": "artificial"}, "f_ref"),
    ],
)
def test_other_governors_and_drivers(policy: dict[str, Any], words: str) -> None:
    assert words in str(opplab.explain(simulate(**policy), cpu=1, at=0.25))


def test_a_clamp_is_no_reason_where_others_hold_the_clock() -> None:
    """One clock serves all cores: a clamped group's task runs at what others ask for and the turbo bin grants."""
    hog = {"loop": -1, "run": 10_000}
    tasks = {f"svc{cpu}": {**hog, "cpus": [cpu]} for cpu in range(3)}
    tasks["batch"] = {**hog, "cpus": [3], "taskgroup": "/batch"}
    groups = {"/batch": {"uclamp_max": "5"}}
    work = opplab.Workload.parse(json.dumps({"groups": groups, "tasks": tasks}), name="w", file="<w>")
    lost: list[dict[str, float]] = []
    for gates in ({}, {"uclamp": "absent"}):
        run = opplab.simulate("skylake-8x-uma", work, opplab.Policy(gates=gates, variation="none"), seconds=2)
        slow = [one.data for one in opplab.explain(run, why_slow=True).findings if one.kind == "slow"]
        lost.append({one["reason"]: one["lost_ns"] for one in slow})
    clamped, free = lost
    assert "uclamp" not in clamped
    assert clamped["turbo-bin"] == pytest.approx(free["turbo-bin"], rel=0.01)
    assert sum(clamped.values()) == pytest.approx(sum(free.values()), rel=1e-9)


def test_why_slow() -> None:
    """The time of powersave is lost to the governor; schedutil's is made of other reasons and sums up."""
    found = opplab.explain(simulate(4, 4000, governor="powersave"), why_slow=True)
    (slow,) = [one for one in found if one.kind == "slow"]
    assert slow.data["reason"] == "fixed-governor"
    assert 0 < slow.data["lost_ns"] < slow.data["slow_ns"]
    assert 0 < slow.data["energy_share_pct"] <= 100
    found = opplab.explain(simulate(8, 4000, tunables={"rate_limit_us": "20000"}), why_slow=True)
    rows = {one.data["reason"]: one.data for one in found if one.kind == "slow"}
    assert "rate-limit" in rows
    assert set(rows) <= set(SLOW)
    assert sum(row["slow_ns"] for row in rows.values()) == found.findings[0].data["slow_ns"]
    assert opplab.explain(simulate(governor="performance"), why_slow=True).findings[0].data["slow_ns"] == 0


@pytest.mark.parametrize("governor", ["schedutil", "performance", "powersave"])
def test_timers_decide_the_rate_of_tasks_that_are_in_time(governor: str) -> None:
    load = '{"tasks": {"t": {"loop": -1, "run": 5, "timer": {"ref": "t", "period": 4000}}}}'
    more = load.replace('"t":', '"free": {"loop": -1, "run": 5, "sleep": 1000}, "t":')
    for text, limit in ((load, "timer"), (more, "clock")):
        made = opplab.Workload.parse(text, name="light", file="<light>")
        run = opplab.simulate("juno-r2", made, opplab.Policy(governor=governor), seconds=1)
        (found,) = [one for one in opplab.explain(run, why_slow=True) if one.kind == "limit"]
        assert found.data["limit"] == ("top" if (limit, governor) == ("clock", "performance") else limit)


def test_timers_decide_the_rate_where_some_is_late_too() -> None:
    """Six late activations of 36000, at the start, made "The clocks decide the rate".

    Method: performance does the same work.
    """
    made = opplab.Workload.periodic(12, run_us=6000, period_us=10000)
    runs = [
        opplab.simulate("xeon-6130-2s", made, opplab.Policy(governor=governor), seconds=2)
        for governor in ("schedutil", "performance")
    ]
    slow, fast = (dict(run.metrics.select("metric", "value").iter_rows()) for run in runs)
    assert slow["missed_activations"] > 0
    assert (slow["activations"], slow["work_done"]) == pytest.approx((fast["activations"], fast["work_done"]), rel=1e-3)
    (limit,) = [one for one in opplab.explain(runs[0], why_slow=True) if one.kind == "limit"]
    assert limit.text.startswith("Timers decide the rate, and the clocks how much is late")


def test_lost_resumes_are_named_where_activations_are_in_time() -> None:
    """Each second frame was lost, and all that was printed was that no activation was missed.

    Method: the second stage takes one and a half periods, so that it suspends after each second resume.
    """
    text = """{"tasks": {
      "ui": {"loop": -1, "run": 100, "resume": "frame", "timer": {"ref": "vsync", "period": 10000}},
      "render": {"loop": -1, "suspend": "frame", "run": 15000, "cpus": [4]}}}"""
    made = opplab.Workload.parse(text, name="frames", file="<frames>")
    run = opplab.simulate("juno-r2", made, opplab.Policy(governor="performance", variation="none"), seconds=1)
    ends = run.events("sched_switch").filter(pl.col("prev_state") == 1)
    # It suspends once before the first frame.
    resumes, rendered = ends.filter(prev=0).height, ends.filter(prev=1).height - 1
    summary = opplab.explain(run, why_slow=True).findings[0]
    assert summary.data["missed"] == 0
    assert summary.data["lost_resumes"] == pytest.approx(resumes - rendered, abs=1)
    assert summary.data["lost_resumes"] == pytest.approx(resumes / 2, abs=2)
    metric = run.metrics.filter(metric="lost_resumes")["value"].item()
    assert f"{summary.data['lost_resumes']} of {resumes} resumes found no task suspended" in summary.text
    assert summary.data["lost_resumes"] == pytest.approx(metric * resumes / 100)
    assert run.metrics.filter(metric="resumes")["value"].item() == resumes


@pytest.mark.parametrize(
    "policy",
    [
        {"driver": "intel_cpufreq", "governor": "schedutil", "scaling_max_freq": 1500000},
        {"driver": "intel_cpufreq", "governor": "schedutil", "max_perf_pct": 30},
        {"driver": "intel_pstate", "governor": "powersave", "max_perf_pct": 30},
        {"driver": "intel_cpufreq", "governor": "schedutil", "no_turbo": True},
    ],
    ids=["scaling_max_freq", "max_perf_pct", "firmware", "no_turbo"],
)
def test_a_set_limit_is_why_it_is_slow(policy: dict[str, Any]) -> None:
    """What is lost is against what the governor asks for, which on x86 ends at the highest turbo."""
    load = opplab.Workload.parse(
        '{"tasks": {"t": {"loop": -1, "run": 10000, "cpus": [2]}}}', name="busy", file="<busy>"
    )
    run = opplab.simulate("alder-lake-i7-1260p", load, opplab.Policy(**policy), seconds=1)
    found = opplab.explain(run, why_slow=True)
    rows = {one.data["reason"]: one.data for one in found if one.kind == "slow"}
    assert rows["policy-limit"]["slow_ns"] > 0.8 * found.findings[0].data["busy_ns"]
    khz = int(max(rows["policy-limit"]["khz_ns"], key=rows["policy-limit"]["khz_ns"].get))
    part = rows["policy-limit"]["lost_ns"] / rows["policy-limit"]["slow_ns"]
    assert part == pytest.approx(1 - khz / 4_700_000, abs=0.03)


def test_slow_time_is_of_what_was_measured() -> None:
    """The warm-up is in neither number; a program that sleeps often and never climbs shows at the highest clock."""
    slept = opplab.simulate("kaby-lake-i7-7500u", "dbench", opplab.Policy(governor="schedutil"))
    found = opplab.explain(slept, why_slow=True)
    total = found.findings[0].data
    assert 0 <= total["slow_ns"] <= total["busy_ns"]
    assert total["busy_at_top_ns"] < total["busy_ns"]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = tmp_path / "w.json"
    workload.write_text(rtapp(3, 2000))
    out = str(tmp_path / "out")
    made = ("--machine", "juno-r2", "--workload", str(workload), "--seconds", "0.2", "-o", out)
    code, _, _ = run(capsys, "run", *made)
    assert code == 0
    code, text, _ = run(capsys, "explain", out, "--cpu", "1", "--at", "100ms")
    assert code == 0
    assert "At 0.100000 s CPU 1 ran" in text
    assert "f_ref 1200 MHz" in text
    code, text, _ = run(capsys, "explain", out, "--task", "task1", "--format", "json")
    data = json.loads(text)
    assert code == 0
    assert data["machine"] == "juno-r2"
    assert data["findings"][0]["kind"] == "summary"
    code, text, _ = run(capsys, "explain", "juno-eas:EAS homogeneous #0", "--why-slow")
    assert code == 2
    code, text, _ = run(
        capsys, "explain", "juno-eas:EAS juno-energy-homogeneous tasks=10 #0", "--task", "task3", "--at", "1s"
    )
    assert code == 0
    assert "Energy-aware placement weighed" in text
    # The greater of util_avg and util_est is no field of the kernel's.
    assert re.search(r"\(util_avg \d+, task_util_est \d+\)", text)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), "give one of --cpu, --task, --why-slow and --idle"),
        (("--cpu", "1", "--why-slow"), "give one of"),
        (("--cpu", "6"), "there is no CPU 6; machine juno-r2 has CPUs 0-5"),
        (("--cpu", "1", "--at", "soon"), "is not a time"),
        (("--cpu", "1", "--at", "40s"), "not within the run"),
        (("--task", "taks3"), "did you mean `task3`"),
        (("--task", "task3", "--why-slow", "--at", "1s"), "leave out the point in time"),
        (("--cpu", "1", "--task", "task3"), "give one of --cpu"),
    ],
)
def test_bad_questions(args: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(capsys, "explain", "juno-eas:0", *args)
    assert code == 2
    assert words in error


def test_a_throttled_task_names_the_quotas_above_it(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    task = {"loop": -1, "run": 6000, "timer": {"ref": "unique", "period": 16000}}
    tasks = {"web": {**task, "taskgroup": "/a/web"}, "other": {**task, "taskgroup": "/ab"}}
    file.write_text(json.dumps({"global": {"duration": 1}, "groups": {"/a": {"max": "10000 100000"}}, "tasks": tasks}))
    done = opplab.simulate("juno-r2", file, seconds=1)
    found = {name: [one.data for one in opplab.explain(done, task=name) if one.kind == "quota"] for name in tasks}
    ((quota,), none) = found.values()
    assert (quota["group"], none) == ("/a", [])
    assert quota["nr_throttled"] >= 8
    assert done.outcome["task_groups"][-2:] == ["/a/web", "/ab"]


def test_a_placement_by_class_has_the_kernels_reason() -> None:
    """A real-time task left a little CPU without another such task for its lower clamp (rt_task_fits_capacity())."""
    timer = {"ref": "unique", "period": 20000}
    bound = {"cpus": [0], "loop": 3, "run": 500, "timer": timer}
    free = {"cpus": list(range(8)), "loop": -1, "run": 500, "timer": timer}
    task = {"policy": "SCHED_FIFO", "priority": 40, "phases": {"bound": bound, "free": free}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"rt": task}}), name="w", file="<w>")
    run = opplab.simulate("pixel6", work, opplab.Policy(variation="none"), seconds=0.5)
    placed = run.events("placement_decision").filter(pl.col("task") == run.tasks.index("rt-0"))
    left = placed.filter((pl.col("prev_cpu") == 0) & (pl.col("cpu") > 3) & (pl.col("fork") == 0)).to_dicts()
    assert left
    reason = "(from v5.6 on) its capacity is below the task's lower clamp"
    assert all(reason in words_of("placement_decision", row)["text"] for row in left)


def test_energy_that_falls_is_named_as_that() -> None:
    """Nothing moves while a run places a task: there an upper clamp lowers the clock, and so the energy."""
    timer = {"ref": "unique", "period": 16000}
    tasks = {
        "clamped": {"instance": 3, "loop": -1, "run": 6000, "timer": timer, "util_max": 100},
        "free": {"instance": 4, "loop": -1, "run": 3000, "timer": timer},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    run = opplab.simulate("pixel6", work, opplab.Policy(), seconds=2)
    rules = dict(opplab._opplab.decision_codes())["eas_rule"]
    changed = run.events("placement_decision").filter(pl.col("eas_rule") == rules.index("changed"))
    energies = run.events("eas_energy").filter(pl.col("decision").is_in(changed["decision"].implode()))
    assert changed.height > 0
    for row in changed.to_dicts():
        own = energies.filter(pl.col("decision") == row["decision"])
        least = own.filter(pl.col("dst_cpu") >= 0).join(own.filter(pl.col("dst_cpu") < 0), on="domain")
        assert (least["energy"] < least["energy_right"]).any()
        assert "would use less energy with it than without" in words_of("placement_decision", row)["outcome"]


def test_a_task_that_its_class_moves_before_it_runs_has_both() -> None:
    """A deadline task that was woken on one CPU and pushed to another stood as placed on the first, without a start.

    Method: the moves and the switches of the run.
    """
    deadline = {"policy": "SCHED_DEADLINE", "dl-runtime": 4000, "dl-deadline": 16667, "dl-period": 33333}
    tasks = {
        "camera": {**deadline, "loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 33333}},
        "load": {"instance": 6, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16667}},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    run = opplab.simulate("pixel6", work, opplab.Policy(), seconds=2)
    task = run.tasks.index("camera-0")
    moves = run.events("placement").filter((pl.col("task") == task) & (pl.col("prev_cpu") != pl.col("cpu")))
    placed = run.events("placement_decision").filter(pl.col("task") == task)
    starts = run.events("sched_switch").filter(pl.col("next") == task)
    pushed = 0
    for move in moves.to_dicts():
        decision = placed.filter(pl.col("time_ns") <= move["time_ns"]).to_dicts()[-1]
        start = starts.filter(pl.col("time_ns") >= decision["time_ns"]).to_dicts()[0]
        own = [move[name] for name in ("time_ns", "prev_cpu", "cpu")]
        if start["time_ns"] < move["time_ns"] or own == [decision[name] for name in ("time_ns", "prev_cpu", "cpu")]:
            continue
        pushed += 1
        found = list(opplab.explain(run, task="camera-0", at=(start["time_ns"] + 500) / 1e9))
        route = f"from CPU {move['prev_cpu']} to CPU {move['cpu']}"
        assert any(f"the deadline class moved camera-0 {route}" in one.text for one in found)
        (told,) = [one for one in found if one.kind == "start"]
        expected = {"cpu": start["cpu"], "start_ns": start["time_ns"]}
        assert (expected | {"latency_ns": start["time_ns"] - decision["time_ns"]}).items() <= told.data.items()
        assert found.index(told) > max(found.index(one) for one in found if one.kind == "balance")
    assert pushed > 3


def test_instances_of_a_task_are_named(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    task = {"instance": 6, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}
    file.write_text(json.dumps({"global": {"duration": 1}, "tasks": {"query": task}}))
    done = opplab.simulate("juno-r2", file, seconds=0.1)
    with pytest.raises(opplab.InputError, match=r"`query` has 6 instances: name one of query-0, .* and 2 more"):
        opplab.explain(done, task="query")


def test_tasks_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """Goal: nobody reads of the first of many shells what he asked of another."""
    file = tmp_path / "load.json"
    task = {"instance": 6, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}
    file.write_text(json.dumps({"global": {"duration": 1}, "tasks": {"query": task}}))
    records = Records(case_of(opplab.simulate("juno-r2", file, seconds=0.1)))
    first = records.names.index("query-0")
    records.names = told_apart(["bash" if name.startswith("query") else name for name in records.names])
    with pytest.raises(opplab.InputError, match=r"6 tasks are called `bash`: name one of bash#\d \(\d+ placements\), "):
        task_index(records, "bash")
    assert task_index(records, "bash#3") == first + 3
    assert "bash#3 was placed" in task_findings(records, first + 3, None)[0].text
    with pytest.raises(opplab.InputError, match="unknown task `bash#6`"):
        task_index(records, "bash#6")


def test_bad_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, words in (
        ("juno-eas", "a case is missing"),
        ("juno-eas:nothing", "no case is called"),
        ("juno-es:1", "did you mean `juno-eas`"),
        (str(tmp_path), "not a results folder"),
    ):
        code, _, error = run(capsys, "explain", target, "--why-slow")
        assert code == 2
        assert words in error


class Schedutil(opplab.Governor):
    """schedutil's formula since v6.8, with its rate limit."""

    def __init__(self) -> None:
        self.last_ns: int | None = None
        self.bw_dl: dict[int, int] = {}

    def update(self, facts: opplab.policies.GovernorFacts) -> int | None:
        own = next(cpu for cpu in facts.cpus if cpu.cpu == facts.cpu)
        more = own.bw_dl > self.bw_dl.get(own.cpu, 0)
        if not more and self.last_ns is not None and facts.time_ns - self.last_ns < facts.rate_limit_us * 1000:
            return None
        perf = 0
        for cpu in facts.cpus:
            util = min(cpu.util_cfs_boost + cpu.util_rt + cpu.util_dl, cpu.capacity)
            perf = max(perf, min(util + util // 4, cpu.capacity), cpu.bw_dl)
            self.bw_dl[cpu.cpu] = cpu.bw_dl
        raw = facts.freq_ref_khz * perf // own.capacity
        khz = next((khz for khz in facts.table_khz or [raw] if khz >= raw), facts.max_khz)
        if khz != facts.requested_khz:
            self.last_ns = facts.time_ns
        return khz


def test_a_governor_in_python_decides_as_ours() -> None:
    workload = opplab.Workload.periodic(10, run_us=1600, period_us=16000)
    policy = opplab.Policy(variation="none")
    ours = opplab.simulate("juno-r2", workload, policy, seconds=0.4)
    theirs = opplab.simulate("juno-r2", workload, policy, seconds=0.4, governor=Schedutil())
    assert theirs.events("cpu_frequency").equals(ours.events("cpu_frequency"))
    assert theirs.events("cpu_frequency").height > 50
    assert theirs.fingerprint == ours.fingerprint


class OldSchedutil(opplab.Governor):
    """schedutil's formula up to v5.13 of a policy of one CPU: the headroom is on the reference frequency."""

    def __init__(self) -> None:
        self.last_ns: int | None = None
        self.asked_ns: int | None = None
        self.asked_khz = 0
        self.idle_calls = -1

    def update(self, facts: opplab.policies.GovernorFacts) -> int | None:
        if facts.requested_khz != self.asked_khz:
            self.asked_khz, self.last_ns = facts.requested_khz, self.asked_ns
        if self.last_ns is not None and facts.time_ns - self.last_ns < facts.rate_limit_us * 1000:
            return None
        (cpu,) = facts.cpus
        ref_khz = facts.freq_ref_khz + (facts.freq_ref_khz >> 2)
        khz = ref_khz * min(cpu.util_cfs + cpu.util_rt + cpu.bw_dl, cpu.capacity) // cpu.capacity
        khz = min(max(khz, facts.min_khz), facts.max_khz)
        busy, self.idle_calls = cpu.idle_calls == self.idle_calls, cpu.idle_calls
        if busy and khz < facts.requested_khz:
            return None
        self.asked_ns = facts.time_ns
        return khz


@pytest.mark.parametrize("kernel", ["4.19", "5.4", "5.9"])
def test_a_governor_in_python_gets_the_drivers_frequencies(kernel: str) -> None:
    """Goal: a governor in Python decides as schedutil where both go by the driver's present frequency.

    Method: a kernel without invariance, so that schedutil takes a share of policy->cur, which intel_cpufreq makes a
    P-state (intel_cpufreq_fast_switch(), v5.4); one with invariance beside it.
    """
    work = opplab.Workload.periodic(6, run_us=2400, period_us=16000)
    policy = opplab.Policy(kernel=kernel, driver="intel_cpufreq")
    ours = opplab.simulate("kaby-lake-i7-7500u", work, policy, seconds=0.4)
    theirs = opplab.simulate("kaby-lake-i7-7500u", work, policy, seconds=0.4, governor=OldSchedutil())
    assert theirs.events("cpu_frequency").equals(ours.events("cpu_frequency"))
    assert theirs.fingerprint == ours.fingerprint


def test_the_firmwares_clock_is_not_what_was_asked_for() -> None:
    """Goal: under intel_cpufreq with HWP `policy->cur` stays what the governor asked for, a P-state.

    Method: one request, which the firmware goes beyond as the CPU is busy.
    """
    seen: set[int] = set()

    class Floor(opplab.Governor):
        def __deepcopy__(self, memo: dict[int, Any]) -> "Floor":
            return self

        def update(self, facts: opplab.policies.GovernorFacts) -> int:
            if facts.requested_khz:
                seen.add(facts.cur_khz)
            return 455_000

    work = opplab.Workload.periodic(6, run_us=2400, period_us=16000)
    policy = opplab.Policy(kernel="5.9", driver="intel_cpufreq")
    made = opplab.simulate("kaby-lake-i7-7500u", work, policy, seconds=0.2, governor=Floor())
    assert made.events("cpu_frequency")["khz"].max() >= 1_000_000  # type: ignore[operator]
    assert seen == {500_000}


@pytest.mark.parametrize("reason", ["abc", (1, 0), (1, 2, 3), (-1, 1024), 7])
def test_a_reason_that_is_none_is_refused(reason: Any) -> None:
    class Odd(opplab.Governor):
        def update(self, facts: opplab.policies.GovernorFacts) -> int:
            self.decided_by = reason
            return facts.max_khz

    words = r"Odd.decided_by failed: TypeError: it must be \(utilisation, capacity\) or None, not "
    work = opplab.Workload.periodic(1, run_us=800, period_us=16000)
    with pytest.raises(opplab.CaseError, match=words):
        opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.05, governor=Odd())


class Pack(opplab.Placement):
    """All tasks on CPU 4."""

    def select(self, facts: opplab.policies.PlacementFacts) -> int | None:
        return 4 if facts.cpus[4].allowed else None


class Guess(opplab.Governor):
    def update(self, facts: opplab.policies.GovernorFacts) -> int:
        return facts.max_khz if facts.util > 512 else facts.min_khz  # type: ignore[attr-defined]


class Broken(opplab.Governor):
    def update(self, facts: opplab.policies.GovernorFacts) -> int | None:
        return [1, 2][facts.cpu + 7]


class Wrong(opplab.Placement):
    def select(self, facts: opplab.policies.PlacementFacts) -> Any:
        return 1.5


def test_a_placement_in_python() -> None:
    workload = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    run = opplab.simulate("juno-r2", workload, opplab.Policy(), seconds=0.2, placement=Pack(), check=True)
    woken = run.events("placement").filter((pl.col("rule") != 8) & ~pl.col("rule").is_in([5, 6]))
    assert woken["cpu"].unique().to_list() == [4]
    assert "A placement policy from outside chose CPU 4" in str(opplab.explain(run, task="periodic0"))


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        (
            {"governor": Broken()},
            r"Broken.update failed: IndexError: list index out of range \(.*test_explain.py:\d+\)",
        ),
        (
            {"governor": Guess()},
            r"Guess.update failed: AttributeError: GovernorFacts has no `util`; it has time_.*test_explain.py:\d+\)",
        ),
        ({"governor": opplab.Governor()}, "Governor has no method `update`"),
        ({"placement": Wrong()}, "Wrong.select failed: .*it must give the number of a CPU or None, not 1.5"),
    ],
)
def test_mistakes_in_python_are_one_line(policies: dict[str, Any], words: str) -> None:
    workload = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    with pytest.raises(opplab.CaseError, match=words) as raised:
        opplab.simulate("juno-r2", workload, opplab.Policy(), seconds=0.1, **policies)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is not None


def test_hardware_limits_are_told() -> None:
    """Where the package has turbo bins the reasons name them, and an Intel governor's samples are decisions."""
    work = opplab.Workload.periodic(12, run_us=6000, period_us=16000)
    run = opplab.simulate("skylake-8x-uma", work, opplab.Policy(governor="schedutil"), seconds=0.2)
    found = opplab.explain(run, why_slow=True)
    reasons = {one.data["reason"] for one in found if one.kind == "slow"}
    assert "turbo-bin" in reasons
    assert not reasons & {"fixed-governor", "uclamp"}
    grants = run.events("freq_grant")
    assert grants.filter(pl.col("limit") == 2).height > 0
    # What answers no decision of schedutil has no delay, which was -1.
    assert grants["delay_ns"].null_count() == grants.height
    grants = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=0.2).events("freq_grant")
    assert grants["delay_ns"].null_count() < grants.height and grants["delay_ns"].min() >= 0


@pytest.mark.parametrize("driver", ["acpi-cpufreq", "amd-pstate"])
def test_turbo_that_is_off_is_named(driver: str) -> None:
    """One busy core, whose turbo bin is 3400 MHz: `no_turbo` holds it at 2250 MHz; amd-pstate asks for no more."""
    load = opplab.Workload.parse(
        '{"tasks": {"t": {"loop": -1, "run": 10000, "cpus": [2]}}}', name="busy", file="<busy>"
    )
    policy = opplab.Policy(driver=driver, governor="schedutil", kernel="6.12", no_turbo=True)
    text = str(opplab.explain(opplab.simulate("epyc-7742-2s", load, policy, seconds=0.5), cpu=2, at=0.4))
    assert "at 2250 MHz" in text and "turbo bin" not in text
    assert ("granted 2250 MHz: turbo is switched off (no_turbo)" in text) == (driver == "acpi-cpufreq")


def test_recordings_of_real_kernels() -> None:
    """The recorded inputs give the recorded frequency, and the sentence says so."""
    folder = shared("traces")
    known = 0
    for recording in sorted(path for path in folder.iterdir() if (path / "trace.dat").is_file()):
        columns, policies = opplab._opplab.recorded_frequencies(recording)
        if not columns["time_ns"] or policies[0]["governor"] != "schedutil":
            continue
        assert columns["wanted_khz"] == columns["ret_khz"], recording.name
        middle = columns["time_ns"][len(columns["time_ns"]) // 2] / 1e9
        cpu = columns["policy_cpu"][len(columns["time_ns"]) // 2]
        found = opplab.explain(recording, cpu=cpu, at=middle)
        assert "reported to schedutil" in str(found)
        assert "computed:" not in str(found)
        # Before the first event `at` counts from it.
        start_ns = opplab.read_trace(recording).info["start_ns"]
        after = (columns["time_ns"][len(columns["time_ns"]) // 2] - start_ns) / 1e9
        if after < start_ns / 1e9:
            # A trace's clock has more digits than a float.
            one, other = (opplab.explain(recording, cpu=cpu, at=at + 1e-6) for at in (after, middle))
            assert abs(one.about["at_ns"] - other.about["at_ns"]) < 1000
            assert {found.about["start_ns"] for found in (one, other)} == {start_ns}
        known += 1
        if known == 2:
            break
    assert known == 2


def test_the_headroom_of_a_recording_is_where_its_kernel_adds_it() -> None:
    """Goal: each step follows from the one before. Until v6.7 get_next_freq()'s argument is without headroom."""
    recording = shared("traces/x86-61-xeon16-any1-schedutil-periodic3")
    trace = opplab.read_trace(recording)
    calls, answers = (trace.events(name).to_dicts() for name in ("sg_next_in", "sg_next_ret"))
    bounded = 0
    for answer in [one for one in answers if one["time_ns"] > calls[0]["time_ns"]][3::400]:
        call = [one for one in calls if one["cpu"] == answer["cpu"] and one["time_ns"] < answer["time_ns"]][-1]
        # A float has too few digits of the trace's clock.
        at = (answer["time_ns"] - trace.info["start_ns"]) / 1e9 + 1e-9
        found = list(opplab.explain(recording, cpu=call["pcpu"], at=at))[-1]
        assert found.data["time_ns"] == answer["time_ns"]
        util, khz = call["util"] + call["util"] // 4, call["cur"]
        assert (found.data["util_sum"], found.data["util"]) == (call["util"], util)
        raw_khz = khz * util // call["max"]
        assert found.data["raw_khz"] == raw_khz
        steps = f"util {call['util']}, headroom 1.25 -> {util}; f_ref {khz // 1000} MHz -> {(raw_khz + 500) // 1000} ->"
        assert steps in found.text
        bounded += util > call["max"]
    assert bounded, "the argument is bounded, what it becomes is not"

    # Of other kernels, and where some parts are recorded.
    row = dict.fromkeys(found.data, 0) | {"bound": 255, "headroom": 1280, "max_cap": 1024, "ref_khz": 2_000_000}
    policy = {"governor": "schedutil", "driver": "scmi", "opps_khz": [], "cpus": [0]}
    no_cpu = {"deciding_cpu": 2**32 - 1}
    places = [word for column, word, _ in _opplab.decision_phrases() if column == "headroom_place"]
    for place, util, used, ends in (
        ("in-frequency", 400, "util 400; f_ref 2000 MHz, headroom 1.25 -> 2500 MHz", "400;"),
        ("in-clamped-util", 500, "util 400, headroom 1.25 -> 500; f_ref 2000 MHz", "400, headroom 1.25 -> 500;"),
        ("in-effective-perf", 500, "500 with headroom and bounds; f_ref 2000 MHz", "500;"),
    ):
        numbers = {"headroom_place": places.index(place), "util_sum": 400, "util": util, "wanted_khz": 1}
        assert used in _recorded_formula(policy, row | numbers | no_cpu)
        some = _recorded_formula(policy, row | numbers)
        assert f"what is not recorded {ends}" in some and ("with headroom" in some) == (place == "in-effective-perf")


def test_the_boost_of_io_waits_is_told_of_recordings() -> None:
    recording = shared("traces/x86-612-xeon16-any1-schedutil-iodd")
    found = opplab.explain(recording, cpu=0, at=0.392)
    (told,) = [one for one in found if one.kind == "frequency"]
    assert "(a task that waited for I/O woke)" in told.text
    assert "iowait boost 1024 = 1024, headroom 1.25 -> 1280, at most the capacity 1024 -> 1024" in told.text
    assert told.data["iowait_boost"] == 1024


def test_who_reported_is_of_the_policy() -> None:
    """The CPU of the run queue reports, whichever CPU executes that for it."""
    recording = shared("traces/arm64-612-juno-eas-one_heavy")
    assert "CPU 2 reported to schedutil, which serves CPUs 1-2" in str(opplab.explain(recording, cpu=1, at=9.5))


def test_tasks_of_one_name_are_told_as_the_replay_calls_them() -> None:
    recording = shared("traces/arm64-612-pixel4-eas-homog6")
    names = opplab.read_trace(recording).task_names()
    pids = sorted(pid for pid, name in names.items() if name == "t5")
    assert len(pids) > 2
    text = str(opplab.explain(recording, task="t5#3", why_slow=True))
    (pid,) = [pid for pid in pids if text.startswith(f"t5#3 (pid {pid}): ")]
    named = str(opplab.explain(recording, task=str(pid), why_slow=True))
    assert text.partition(": ")[2] == named.partition(": ")[2]
    assert str(opplab.explain(recording, task="t5#3")) == str(opplab.explain(recording, task=str(pid)))
    with pytest.raises(opplab.InputError, match="has no task `t5#99`"):
        opplab.explain(recording, task="t5#99", why_slow=True)


@pytest.mark.parametrize("why_slow", [False, True])
def test_a_task_that_no_trace_has_is_answered_with_those_that_it_has(why_slow: bool) -> None:
    recording = shared("traces/x86-61-xeon16-any1-schedutil-periodic3")
    woken = opplab.read_trace(recording).events("sched_waking")["comm"].to_list()
    with pytest.raises(opplab.InputError, match=r"task `task0` \(known: ([^,]+, ){11}[^,]+ and \d+ more\)") as refused:
        opplab.explain(recording, task="task0", why_slow=why_slow)
    # The most active are named first.
    first = str(refused.value).partition("known: ")[2].split(", ")[:3]
    assert {*first} == {"p10", "p25", "p50"} == {*sorted({*woken}, key=woken.count)[-3:]}
    with pytest.raises(opplab.InputError, match="task `p15`; did you mean `p"):
        opplab.explain(recording, task="p15", why_slow=why_slow)


def test_decisions_are_more_only_after_a_first_one() -> None:
    recording = shared("traces/x86-612-fast-xeon16-any1-schedutil-ramp_up")
    columns, _ = opplab._opplab.recorded_frequencies(recording)
    cpu = columns["policy_cpu"][0]
    rows = list(zip(*(columns[name] for name in ("time_ns", "policy_cpu", "prev_khz", "ret_khz")), strict=True))
    changes = [(at, prev != ret) for at, of, prev, ret in rows if of == cpu]
    same = next(i for i, (_, changed) in enumerate(changes) if changed)
    assert same > 1, "the recording starts with decisions that change nothing"
    found = str(opplab.explain(recording, cpu=cpu, at=changes[same - 1][0] / 1e9 + 1e-6))
    assert f" {same} decisions gave the same. The last one: " in found


def test_a_machine_whose_clock_counts_is_named_beside_an_emulator_s_recording(
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = str(shared("traces/arm64-612-juno-eas-hetero9-bigspawn"))
    for what in ((), ("--task", "x15_0")):
        _, out, _ = run(capsys, "explain", folder, "-m", "juno-r2", *what, "--why-slow")
        assert "an emulator executed this as fast on every CPU and at every clock" in " ".join(out.split())


def test_why_a_task_was_slow_is_one_answer_for_all_forms_of_a_trace(tmp_path: Path) -> None:
    """Text has letters for states, which ended in a traceback."""
    machine = opplab.Machine.load("juno-r2")
    load = opplab.Workload.periodic(6, run_us=900, period_us=4000)
    run = opplab.simulate(machine, load, opplab.Policy(), seconds=0.1)
    found = []
    for name in ("r.dat", "r.txt"):
        run.to_trace(tmp_path / name)
        found.append(opplab.explain(tmp_path / name, task="sugov:0", why_slow=True, machine=machine))
    assert str(found[0]) == str(found[1])
    activations = opplab.Trace(tmp_path / "r.dat").signals(machine).activations.filter(pl.col("comm") == "sugov:0")
    assert f"{len(activations)} activations" in str(found[0])


def test_a_time_since_1970_is_exact(tmp_path: Path) -> None:
    """A float of such a time has steps of 238 ns."""
    from opplab.cli.explain import _time
    from opplab.explanation.recordings import _time_of

    trace, start_ns = tmp_path / "t.txt", 1767225609607419424
    switch = "prev_comm=a prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=b next_pid=9 next_prio=120"
    times = (start_ns, start_ns + 1000)
    lines = [f" a-12 [000] {ns // 10**9}.{ns % 10**9:09d}: sched_switch: {switch}\n" for ns in times]
    trace.write_text("".join(lines))
    for wanted_ns in (start_ns + 1, start_ns + 999):
        text = f"{wanted_ns // 10**9}.{wanted_ns % 10**9:09d}s"
        assert _time_of(trace, _time(text, str(trace)))[0] == wanted_ns
    for text in ("0.000000007s", "+7ns"):
        assert _time_of(trace, _time(text, str(trace)))[0] == start_ns + 7


def test_a_time_after_the_start_is_that_of_any_clock(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: `+0.5` is half a second after the first event, also where a clock is at 0.5 s later."""
    from opplab.cli.explain import _time
    from opplab.explanation.recordings import _time_of

    switch = "prev_comm=a prev_pid=12 prev_prio=120 prev_state=S ==> next_comm=b next_pid=9 next_prio=120"
    trace = tmp_path / "t.txt"
    trace.write_text("".join(f" a-12 [000] {at}.300000000: sched_switch: {switch}\n" for at in (0, 1)))
    seen = {text: _time_of(trace, _time(text, str(trace)))[0] / 1e6 for text in ("0.5", "+0.5", "+500ms", "0.2")}
    assert seen == {"0.5": 500, "+0.5": 800, "+500ms": 800, "0.2": 500}
    # A run's clock begins at its start.
    answers = [run(capsys, "explain", "juno-eas:0", "--cpu", "1", "--at", text) for text in ("1", "+1")]
    assert answers[0] == answers[1] and answers[0][0] == 0


def test_times_of_a_trace_have_one_zero(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: `--at` is the same instant of a CPU and of a task, and the answer has the zero.

    Method: a task whose first placement is seconds after the CPU's first decision.
    """
    folder = shared("traces/arm64-612-juno-eas-hetero9-bigspawn")
    start_ns = opplab.read_trace(folder).info["start_ns"]
    for what in (("--cpu", "2"), ("--task", "x15_0")):
        _, out, _ = run(capsys, "explain", str(folder), *what, "--at", "7s")
        at_ns = start_ns + 7_000_000_000
        assert f"--at is {at_ns / 1e9:.6f} s; the first event is at {start_ns / 1e9:.6f} s." in " ".join(out.split())
    for what in ({"cpu": 2}, {"task": "x15_0"}):
        found = opplab.explain(folder, at=7.0, **what)
        assert (found.about["at_ns"], found.about["start_ns"]) == (start_ns + 7_000_000_000, start_ns)
        assert all(one.time_ns <= found.about["at_ns"] for one in found)
    with pytest.raises(opplab.InputError, match=r"100 s is not within the trace: .* 7\.412 s long"):
        opplab.explain(folder, cpu=2, at=100)
    code, _, err = run(capsys, "explain", str(folder), "--task", "x15_0", "--at", "1s")
    assert code == 2 and "the first decision is at" in err
    _, out, _ = run(capsys, "explain", "--help")
    assert "--at counts from the start of a run, with its warm-up, and from the first event of a trace." in " ".join(
        out.split()
    )


def test_times_of_a_run_go_to_its_end() -> None:
    """Goal: a run with a warm-up is as long as its events; they count from the start of the warm-up."""
    work = opplab.simulate("kaby-lake-i7-7500u", "dbench", opplab.Policy(governor="schedutil"))
    found = opplab.explain(work, cpu=1, at=9.5)
    assert found.findings[0].time_ns == 9_500_000_000
    assert found.about["warmup_ns"] == 1_000_000_000
    with pytest.raises(opplab.InputError, match=r"ends at 10\.000000 s"):
        opplab.explain(work, cpu=1, at=10.5)


def test_the_head_has_the_proposals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    task = {"run": 1600, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "work.json").write_text(json.dumps({"tasks": {"task": task}, "global": {"duration": -1}}))
    out = tmp_path / "out"
    args = ("--vs", "proposal=headroom:percent=110", "--seconds", "0.2", "--seed", "1", "--iterations", "1")
    run(capsys, "run", str(tmp_path / "work.json"), "-m", "juno-r2", *args, "--no-report", "-o", str(out))
    _, text, _ = run(capsys, "explain", f"{out}:headroom:percent=110 work #0", "--why-slow")
    assert "kernel 6.12.117 with headroom:percent=110: run again" in " ".join(text.split())
    _, text, _ = run(capsys, "explain", f"{out}:schedutil work #0", "--why-slow")
    assert "kernel 6.12.117: run again" in " ".join(text.split())


def test_missed_activations_have_their_tasks() -> None:
    """Goal: misses of a kernel thread are not read as the workload's. Method: counts are those of the events."""
    heavy = {"run": 15000, "timer": {"ref": "unique", "period": 16000}}
    light = {"run": 300, "timer": {"ref": "unique", "period": 16000}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"heavy": heavy, "light": light}, "global": {"duration": -1}}))
    slow = opplab.simulate("juno-r2", work, opplab.Policy(governor="powersave"), seconds=0.5)
    text = opplab.explain(slow, why_slow=True).findings[0].text
    late = slow.events("activation").filter(pl.col("timed") == 1, pl.col("slack_ns") < 0)["task"].to_list()
    ended = slow.events("activation").filter(pl.col("timed") == 1)["task"].to_list()
    assert late and set(late) == {0}
    assert text.endswith(f"Late in this run: heavy-0 {len(late)} of {ended.count(0)}."), text
    fast = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=0.5)
    assert "Late in" not in opplab.explain(fast, why_slow=True).findings[0].text


def test_counts_of_missed_activations_add_up() -> None:
    """A run said 10 of 398, then 8 of 198 and 2 of 199: the one that its end cut off was in one of them only."""
    never = {"run": 25000, "timer": {"ref": "unique", "period": 16000, "mode": "absolute"}}
    light = {"run": 300, "timer": {"ref": "unique", "period": 16000}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"never": never, "light": light}, "global": {"duration": -1}}))
    slow = opplab.simulate("juno-r2", work, opplab.Policy(governor="powersave"), seconds=0.5)
    text = opplab.explain(slow, why_slow=True).findings[0].text
    metrics = dict(slow.metrics.select("metric", "value").iter_rows())
    ended = slow.events("activation").filter(pl.col("timed") == 1)
    late = ended.filter(pl.col("slack_ns") < 0)["task"].to_list()
    left = round(metrics["activations"]) - len(ended)
    assert left > 0
    counts = f"never-0 {late.count(0)} of {ended['task'].to_list().count(0)}"
    rest = round(metrics["missed_activations"] * metrics["activations"] / 100) - len(late)
    assert text.endswith(
        f"Late in this run: {counts}; {left} more count{'s' * (left == 1)} at its end, {rest} late."
    ), text


def test_missed_activations_are_those_of_the_replay(capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: one number of what a replay missed, marked as not the recording's."""
    folder = str(shared("traces/arm64-612-juno-eas-hetero9-bigspawn"))
    _, out, _ = run(capsys, "replay", folder, "--format", "json")
    (metric,) = [one for one in json.loads(out)["metrics"] if one["metric"] == "missed activations"]
    _, out, _ = run(capsys, "explain", folder, "--why-slow", "--format", "json")
    (summary,) = [one for one in json.loads(out)["findings"] if one["kind"] == "summary"]
    assert summary["data"]["missed"] == metric["replayed"]
    assert metric["verdict"] == "no timers in the trace"
    mean = f"After the first 0.2 s the mean of 15 runs of this work is {metric['replayed']:.4g}"
    assert mean in summary["text"] and "of 609 activations were missed." in summary["text"]
    assert "as `opplab replay` has it (no timers in the trace)" in summary["text"]


def test_placements_of_recorded_kernels() -> None:
    """A recorded wake-up is explained by the energies that the kernel computed, and by its choice."""
    recording = shared("traces/arm64-612-juno-eas-homog6")
    rows = opplab._opplab.recorded_placements(recording)
    by_energy = [
        row for row in rows if row["how"] == "energy" and sum(table == "eas_energy" for table, _ in row["lines"]) > 2
    ]
    assert len(by_energy) > 100
    assert all(row["computed"] in (None, row["cpu"]) for row in by_energy)
    row = by_energy[len(by_energy) // 2]
    found = opplab.explain(recording, task=str(row["pid"]), at=row["time_ns"] / 1e9)
    kinds = [finding.kind for finding in found]
    assert kinds[:2] == ["summary", "placement"]
    assert kinds[-1] == "choice"
    chosen = [finding for finding in found if finding.kind == "candidate" and finding.text.endswith("<- chosen")]
    assert len(chosen) <= 1
    assert f"woke {row['task']}" in str(found)
    with pytest.raises(opplab.InputError, match="no records of a placement of `nobody`"):
        opplab.explain(recording, task="nobody")
    early = next(other["time_ns"] for other in rows if other["pid"] == row["pid"]) / 1e9 - 0.001
    with pytest.raises(opplab.InputError, match=f"nothing is decided until {early:.3f}.* s: the first decision is at"):
        opplab.explain(recording, task=str(row["pid"]), at=early)


def test_a_trace_without_records_of_the_kernels_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the events tell explains the clock; a run of the recovered work explains tasks and slow CPUs."""
    trace = tmp_path / "run.dat"
    machine = opplab.Machine.load("juno-r2")
    work = opplab.Workload.periodic(4, run_us=1600, period_us=16000)
    simulated = opplab.simulate(machine, work, opplab.Policy(variation="none"), seconds=1.0)
    simulated.to_trace(trace)
    # 1 and 0: held back by the rate limit, or another CPU's policy. What was before the trace counts for half a second.
    made = simulated.events("sugov_decision").filter((pl.col("outcome") > 1) & (pl.col("time_ns") > 500_000_000))
    columns, _ = opplab._opplab.replayed_frequencies(str(trace), machine._inner)
    rebuilt = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    off = []
    for own in made.to_dicts():
        at_once = (one for one in rebuilt if abs(one["time_ns"] - own["time_ns"]) < 30_000 and one["cpu"] == own["cpu"])
        if one := next(at_once, None):
            assert one["ret_khz"] == own["wanted_khz"]
            off.append(abs(one["util"] - own["util"]))
    assert len(off) > 50
    assert sorted(off)[len(off) // 2] <= 2

    found = opplab.explain(trace, cpu=0, at=0.9, machine=machine)
    assert found.about["from"].startswith("its events")
    assert "reported to schedutil" in str(found)
    slow = opplab.explain(trace, why_slow=True, machine=machine)
    assert slow.about["trace"] == str(trace)
    assert slow.findings[0].kind == "summary"
    names = opplab.read_trace(trace).events("sched_switch")["next_comm"].unique().to_list()
    name = next(name for name in names if name.startswith("periodic3"))
    placed = opplab.explain(trace, task=name, at=0.8, machine=machine)
    assert {"summary", "placement"} <= {finding.kind for finding in placed}

    code, out, _ = run(capsys, "explain", str(trace), "--machine", "juno-r2", "--why-slow")
    assert code == 0
    assert "its work run again on juno-r2, schedutil" in out
    code, _, err = run(capsys, "explain", str(trace), "--cpu", "0")
    assert code == 2
    assert "name the machine with --machine" in err
    with pytest.raises(opplab.InputError, match="is not within the trace"):
        opplab.explain(trace, task=name, at=7.0, machine=machine)
    with pytest.raises(opplab.InputError, match="a run has its own"):
        opplab.explain(simulated, cpu=0, machine=machine)


def test_results_of_an_experiment_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A case of a results folder is the one that ran, with what was asked for instead of what the file says."""
    monkeypatch.chdir(tmp_path)
    assert run(capsys, "explain", "out/mine", "--why-slow")[2].endswith(
        "out/mine: no such results folder; opplab run fills one\n"
    )
    assert run(capsys, "workload", "new", "my")[0] == 0
    assert run(capsys, "experiment", "new", "mine", "-m", "juno-r2", "-w", "my.json")[0] == 0
    assert run(capsys, "run", "mine.toml", "--seconds", "0.05", "--iterations", "2", "-j1", "--no-report")[0] == 0
    code, out, _ = run(capsys, "explain", "out/mine:schedutil #1", "--why-slow")
    assert code == 0 and "In 0.050000 s" in out
    assert "a case is missing: write out/mine:CASE" in run(capsys, "explain", "out/mine", "--why-slow")[2]
    Path("mine.toml").rename("other.toml")
    assert "there is no mine.toml: name its file" in run(capsys, "explain", "out/mine:schedutil #1", "--why-slow")[2]


def test_results_of_workloads_of_several_lengths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each case of a results folder has its own length, where the whole sweep was not given one."""
    monkeypatch.chdir(tmp_path)
    workload = """
[[workload]]
label = "{0}"
benchmark = "pgbench-ro"
duration = "{0}"
warmup = "{1}"
"""
    head = 'format = 1\nname = "two"\nmachine = "juno-r2"\nbaseline = "schedutil"\n[[policy]]\nlabel = "schedutil"\n'
    Path("two.toml").write_text(head + workload.format("100ms", "10ms") + workload.format("300ms", "200ms"))
    assert run(capsys, "run", "two.toml", "-j1", "--no-report")[0] == 0
    for length in ("100ms", "300ms"):
        code, out, err = run(capsys, "explain", f"out/two:{length}", "--why-slow")
        assert code == 0 and f"In 0.{90 if length == '100ms' else 100:03}000 s" in out, err


LIMITED = """
format = 1
name = "labels"
machine = "kaby-lake-i7-7500u"
power = "generic"
baseline = "sugov:0x80"
duration = "200ms"
warmup = "20ms"
[[policy]]
label = "sugov:0x80"
[[policy]]
label = "sugov:0x40"
governor = "performance"
[[workload]]
label = "load: half"
benchmark = "periodic"
tasks = 4
duty = [500]
[[workload]]
label = "writes"
benchmark = "pgbench-rw"
clients = 1
disk_flush_us = 8333
"""


def test_labels_have_colons_and_the_limit_that_acts_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """FILE:CASE ends at the first colon after a file; a rotary disk decides transactions, shared cores a load."""
    file = tmp_path / "labels.toml"
    file.write_text(LIMITED)
    for words, limit in (("load: half sugov:0x40", "smt"), ("writes sugov:0x80", "disk")):
        code, text, error = run(capsys, "explain", f"{file}:{words}", "--why-slow", "--format", "json")
        assert code == 0, error
        (found,) = [one for one in json.loads(text)["findings"] if one["kind"] == "limit"]
        assert found["data"]["limit"] == limit, found


def test_exits_from_idle_states_hold_a_chain_back(tmp_path: Path) -> None:
    """One client on a machine with slow states: "the clocks decide the rate", of which they took 2 % (another 8 %)."""
    run = ["run", "pgbench-rw", "-m", "jasper-lake-4c", "--governor", "performance", "--param", "clients=1"]
    run += ["--param", "disk=nvme-plp", "--seconds", "1.5", "--iterations", "1", "--no-report"]
    rates = {}
    for name, variant in (("deep", []), ("shallow", ["--set", 'idle_disable=["C2_ACPI","C3_ACPI"]'])):
        answered(*run, *variant, "-o", str(tmp_path / name))
        shown = json.loads(answered("explain", str(tmp_path / name), "--why-slow", "--format", "json").stdout)
        limit = next(one for one in shown["findings"] if one["kind"] == "limit")
        rates[name] = limit["data"]["limit"], limit["text"]
    assert rates["deep"][0] == "idle", rates
    assert rates["shallow"][0] != "idle", rates


@pytest.mark.parametrize(
    ("line_ns", "io_ns", "throttled_ns", "held", "beside", "at_low_ns", "limit"),
    [
        (0, 0, 0, {}, (0, 0), 60, "clock"),
        (0, 101, 51, {}, (0, 0), 60, "disk"),
        (51, 99, 51, {}, (0, 0), 60, "quota"),
        (51, 99, 50, {}, (0, 0), 60, "line"),
        (49, 0, 0, {"power-budget": 51, "turbo-bin": 3}, (0, 0), 60, "power-budget"),
        (49, 0, 0, {"turbo-bin": 49}, (0, 0), 60, "clock"),
        # At half of the clock 60 ns cost 30 ns, siblings 31 ns.
        (0, 0, 0, {"turbo-bin": 90}, (80, 31), 60, "smt"),
        (0, 0, 0, {"turbo-bin": 90}, (80, 30), 60, "turbo-bin"),
        (0, 0, 0, {}, (50, 31), 60, "clock"),
        (0, 0, 0, {}, (0, 0), 0, "full"),
    ],
)
def test_one_limit_acts(
    line_ns: int,
    io_ns: int,
    throttled_ns: int,
    held: dict[str, int],
    beside: tuple[int, int],
    at_low_ns: int,
    limit: str,
) -> None:
    outcome = {
        "line_ns": line_ns,
        "io_ns": io_ns,
        "quotas": [("/web", 9, 4, throttled_ns)],
        "wall_ns": 100,
        "clusters": [{"cpus": [0], "opps_khz": [500_000, 1_000_000]}],
        "busy_ns_by_opp": [[at_low_ns, 100 - at_low_ns]],
        "idle_ns_by_state": [[0, 0]],
    }
    if limit == "quota":
        # Queues that are throttled while their CPU is busy with others' work lose nothing.
        assert acting_limit(outcome, 100, held, beside)[0] == "line"
        outcome["wall_ns"] = 200
    assert acting_limit(outcome, 100, held, beside)[0] == limit
    if limit == "full":
        assert acting_limit(outcome, 100, held, beside, timed=True)[0] == "full"
        assert acting_limit({**outcome, "wall_ns": 200}, 100, held, beside)[0] == "top"
    if limit in {"full", "clock", "turbo-bin"}:
        assert acting_limit({**outcome, "wall_ns": 200}, 100, held, beside, timed=True)[0] == "timer"
    if not any((line_ns, io_ns, throttled_ns)) and beside == (0, 0):
        assert acting_limit(outcome, 100, held, beside, fixed_speed=True)[0] == "full"


def hogs(machine: str, *cpus: int, **policy: Any) -> Explanation:
    """Why a run is slow in which a task is always busy on each of these CPUs."""
    tasks = {f"hog-{nr}": {"cpus": [cpu], "loop": -1, "run": 10_000} for nr, cpu in enumerate(cpus)}
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="hogs", file="<hogs>")
    return opplab.explain(opplab.simulate(machine, work, opplab.Policy(**policy), seconds=0.2), why_slow=True)


def test_the_highest_level_is_not_slow_and_the_firmware_s_clock_is_no_fixed_one() -> None:
    """A Genoa's level 255 is 3799.755 MHz, its boost 3800.241 MHz: at 3800 MHz 46 % of busy time was "slow".

    Clocks that the firmware chose were those of "a governor that never changes the frequency".
    """
    machine = opplab.Machine.parse(_opplab.import_machine(str(shared("data/pepc/genoa0.tar.xz")))[0].to_toml())
    work = opplab.Workload.periodic(24, run_us=4000, period_us=10_000)

    def of(**policy: str) -> tuple[set[int], Explanation]:
        run = opplab.simulate(machine, work, opplab.Policy(**policy), seconds=0.3)
        return set(run.events("cpu_frequency")["khz"]), opplab.explain(run, why_slow=True)

    active = {"driver": "amd-pstate-epp", "governor": "powersave"}
    for fast in ({**active, "epp": "performance"}, {"driver": "amd-pstate", "governor": "performance"}):
        clocks, found = of(**fast)
        assert clocks == {3_800_000} and found.findings[0].data["slow_ns"] == 0
    clocks, found = of(**active, epp="power")
    kinds = {finding.data.get("reason") for finding in found.findings}
    assert min(clocks) == 1_500_000 and "epp" in kinds and "fixed-governor" not in kinds
    # Active intel_pstate leaves the clock to the firmware, too; not without hardware P-states, and not as performance.
    work = opplab.Workload.periodic(24, run_us=1000, period_us=10_000)
    for policy, chooses in (({}, True), ({"no_hwp": True}, False), ({"governor": "performance"}, False)):
        keys = {"driver": "intel_pstate", "governor": "powersave", "epp": "", **policy}
        run = opplab.simulate("sapphire-rapids-8460h-4s", work, opplab.Policy(**keys), seconds=0.3)
        kinds = {finding.data.get("reason") for finding in opplab.explain(run, why_slow=True).findings}
        assert "fixed-governor" not in kinds if chooses else "epp" not in kinds


def test_why_slow_names_threads_that_share_a_core_and_full_cpus() -> None:
    """CPUs 0 and 4 are a core, where each thread has 640/1024 of its speed; alone on cores, CPUs are full."""
    told = {one.kind: one for one in hogs("skylake-8x-uma", 0, 4, governor="performance")}
    assert told["limit"].data["limit"] == "smt"
    assert told["smt"].data["busy_share_pct"] == pytest.approx(100, abs=1)
    assert told["smt"].data["lost_ns"] == pytest.approx(0.375 * told["smt"].data["beside_ns"])
    assert "leaves 62.5 % of the speed" in told["smt"].text
    for cpus, words in (((1, 1, 1), "CPU 1 is full"), ((1, 2), "CPUs 1-2 are full")):
        told = {one.kind: one for one in hogs("juno-r2", *cpus, governor="performance")}
        assert told["limit"].data["limit"] == "full" and f"No clock helps: {words}." in told["limit"].text
        assert "smt" not in told


def test_energy_of_slow_time_is_of_the_meters() -> None:
    """Two busy threads of a core share its power: eight of them have no more than there is."""
    found = hogs("skylake-8x-uma", *range(8), governor="schedutil")
    rows = [one.data for one in found if one.kind == "slow"]
    assert sum(row["busy_share_pct"] for row in rows) > 90
    assert 80 < sum(row["energy_share_pct"] for row in rows) <= 100


def test_a_demand_of_every_clock_has_no_number() -> None:
    work = opplab.Workload.periodic(2, run_us=2000, period_us=16000)
    run = opplab.simulate("skylake-8x-uma", work, opplab.Policy(governor="powersave"), seconds=0.1)
    row = run.events("hwp_decision").to_dicts()[0]
    assert (
        "sees a demand without a limit and takes" in words_of("hwp_decision", {**row, "demand_khz": 2**32 - 1})["text"]
    )


def words_of(table: str, row: dict[str, Any], lines: list[tuple[str, dict[str, Any]]] | None = None) -> dict[str, str]:
    """What the one renderer makes of a record, whoever made it."""
    return opplab._opplab.decision_words(table, row, ("a governor", "scmi", [], [], True), str, lines or [])


def test_one_renderer_words_every_kind_of_decision(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Decisions of a simulated run, of a recording and of the live host's log become sentences by one function."""
    machine, work = opplab.Machine.load("juno-r2"), opplab.Workload.periodic(8, run_us=2500, period_us=16000)
    by_sim = opplab.simulate(machine, work, opplab.Policy(), seconds=0.3)
    full = opplab.Workload.periodic(12, run_us=9000, period_us=16000)
    samples = opplab.simulate(machine, full, opplab.Policy(governor="ondemand", eas=False), seconds=0.3)
    hardware = opplab.simulate("skylake-8x-uma", full, opplab.Policy(governor="powersave"), seconds=0.3)
    tasks = {"t": {"loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 16000}, "taskgroup": "/a"}}
    text = json.dumps({"groups": {"/a": {"max": "10000 100000"}}, "tasks": tasks})
    stopped = opplab.simulate(machine, opplab.Workload.parse(text, name="w", file="<w>"), seconds=0.3)
    reserved = {"policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-period": 16000}
    text = json.dumps({"tasks": {"t": {"loop": -1, "run": 9000, "timer": {"ref": "t", "period": 32000}, **reserved}}})
    budget = opplab.simulate(machine, opplab.Workload.parse(text, name="w", file="<w>"), seconds=0.3)
    told: dict[str, str] = {}
    for simulated, tables in (
        (stopped, ("throttle_decision",)),
        (by_sim, ("sugov_decision", "placement_decision", "eas_candidate", "eas_energy", "idle_decision")),
        (samples, ("dbs_decision", "balance_pass")),
        (hardware, ("hwp_decision", "freq_grant")),
        (budget, ("dl_throttle",)),
    ):
        for table in tables:
            rows = simulated.events(table).to_dicts()
            assert rows, table
            texts = [words_of(table, row)["text"] for row in rows]
            assert all(texts), table
            told[table] = texts[-1]
            if table == "idle_decision":
                assert all(f"state {row['state']}" in text for row, text in zip(rows, texts, strict=True))
            if table == "dbs_decision":
                above = [row["load"] > row["threshold"] for row in rows]
                assert above == ["above the threshold, so the highest" in text for text in texts]
                assert {True, False} <= set(above)
    assert "reported to a governor" in told["sugov_decision"]
    assert "the firmware sees a demand" in told["hwp_decision"]
    assert "went idle" in told["idle_decision"]
    assert "looked over" in told["balance_pass"]
    assert "its next period" in told["dl_throttle"] or "may run again" in told["dl_throttle"]

    # The live host's log: what its governor saw is what the sentence says, by the same function.
    setup = {
        "type": "setup", "governor": "schedutil", "tunables": [], "policy": 0, "cpus": [0],
        "cpuinfo_khz": [1500000, 2250000], "limits_khz": [1500000, 2250000], "table_khz": [1500000, 2000000, 2250000],
        "rate_limit_us": 1000, "sampling_rate_us": 10000, "tick_ns": 4000000, "kernel": "6.12",
        "freq_ref_khz": 2250000, "freq_invariant": True, "source": "test", "via": "setspeed", "cur_khz": 1500000,
        "times": [[0, 0, 0]],
    }  # fmt: skip
    facts = {"util_cfs": 700, "util_cfs_boost": 700, "util_rt": 0, "util_dl": 0, "capacity": 1024, "idle_calls": 1}
    decision = {
        "type": "decision", "policy": 0, "time_ns": 10000000, "cpu": 0, "cur_khz": 1500000,
        "limits_khz": [1500000, 2250000], "facts": [facts], "times": [[10000, 0, 0]], "request_khz": 2000000,
        "outcome": "requested", "next_khz": 2000000, "raw_khz": 1922607, "util": 875, "ref_khz": 2250000,
    }  # fmt: skip
    log = tmp_path / "log"
    log.write_text(json.dumps(setup) + "\n" + json.dumps(decision) + "\n")
    code, out, err = run(capfd, "host", "govern", "--explain", str(log), "--at", "0")
    assert code == 0, err
    row = dict.fromkeys(by_sim.events("sugov_decision").columns, 0)
    row |= {"util_cfs": 700, "util_sum": 700, "headroom": 1280, "headroom_place": 2, "bound": 0, "util": 875}
    row |= {"max_cap": 1024, "ref_khz": 2250000, "raw_khz": 1922607, "wanted_khz": 2000000, "outcome": 4}
    how = words_of("sugov_decision", row)["how"]
    assert how in " ".join(out.split()).replace(" (OPP 2 of 3)", "")

    # A recorded kernel.
    recording = shared("traces/arm64-612-juno-eas-homog6")
    columns, _ = opplab._opplab.recorded_frequencies(recording)
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    exact = [row for row in rows if row["bound"] != 255]
    assert len(exact) > len(rows) // 2
    for row in exact[:: max(1, len(exact) // 50)]:
        product = row["util_sum"] * row["headroom"] >> 10
        assert f"headroom 1.25 -> {product}" in words_of("sugov_decision", row)["text"]
        assert row["util"] == product or words_of("sugov_decision", row)["how"].count("at ") == 1
    placed = opplab._opplab.recorded_placements(recording)[5]
    assert (
        f"last on CPU {placed['prev_cpu']}."
        in words_of("placement_decision", placed["record"], placed["lines"])["text"]
    )


def test_who_is_late_in_a_rerun_hangs_on_its_latencies() -> None:
    """Two of three tasks named late were among the least late of the recording, under a self-check that is near."""
    found = opplab.explain(shared("traces/arm64-612-juno-eas-hetero9-bigspawn"), why_slow=True)
    check = found.about["self_check"]
    assert check["near"]
    text = found.findings[0].text
    assert re.search(r"latencies are not near the trace's \(.*p99 \+\d+ %\): other tasks may be late\.", text), text


def test_slow_cpus_of_a_trace_are_explained_by_its_governor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A governor is that of the snapshot or the one given; one that is only assumed explains nothing."""
    machine = opplab.Machine.load("juno-r2")
    work = opplab.Workload.periodic(4, run_us=3000, period_us=16000)
    policy = opplab.Policy(governor="powersave", variation="none")
    folder = tmp_path / "recording"
    folder.mkdir()
    trace = folder / "trace.dat"
    opplab.simulate(machine, work, policy, seconds=0.5).to_trace(trace)
    without_policy(trace)

    def reasons(found: Any) -> set[str]:
        return {finding.data["reason"] for finding in found if finding.kind == "slow"}

    bare = opplab.explain(trace, why_slow=True, machine=machine)
    assert bare.about["governor_known"] is False
    assert [finding.kind for finding in bare] == ["summary", "governor"]
    assert "The governor of the recording is not known" in str(bare)
    code, out, _ = run(capsys, "explain", str(trace), "--machine", "juno-r2", "--why-slow")
    assert code == 0
    assert f"{bare.about['governor']} (assumed), kernel" in out

    given = opplab.explain(trace, why_slow=True, machine=machine, recorded_governor="powersave")
    assert (given.about["governor"], reasons(given)) == ("powersave", {"fixed-governor"})

    sysfs = folder / "sysfs_before.txt"
    line = "/sys/devices/system/cpu/cpufreq/policy{}/scaling_governor: {}|\n"
    sysfs.write_text(line.format(0, "powersave") + line.format(1, "powersave"), "utf-8")
    snapped = opplab.explain(folder, why_slow=True, machine=machine)
    assert (snapped.about["governor"], snapped.about["governor_known"]) == ("powersave", True)
    assert reasons(snapped) == {"fixed-governor"}
    sysfs.write_text(line.format(0, "powersave") + line.format(1, "schedutil"), "utf-8")
    assert opplab.explain(folder, why_slow=True, machine=machine).about["governor_known"] is False


def test_tasks_of_a_trace_are_named_by_pid_in_every_explanation(tmp_path: Path) -> None:
    """The placements of a pid are those of its name; the run of the recovered work has its own numbers of tasks."""
    machine = opplab.Machine.load("juno-r2")
    work = opplab.Workload.periodic(3, run_us=1600, period_us=16000)
    trace = tmp_path / "run.dat"
    opplab.simulate(machine, work, opplab.Policy(variation="none"), seconds=0.3).to_trace(trace)
    pids = {comm: pid for pid, comm in opplab.read_trace(trace).task_names().items()}
    # The governor's threads are the engine's own in the run of the recovered work.
    for name in ("periodic0-0", "periodic2-2", "sugov:0", "sugov:1"):
        by_pid, by_name = (
            opplab.explain(trace, task=task, at=0.2, machine=machine) for task in (str(pids[name]), name)
        )
        assert str(by_pid) == str(by_name)
        assert f"{name} was placed" in str(by_pid)
    with pytest.raises(opplab.InputError, match="unknown task `99999`"):
        opplab.explain(trace, task="99999", at=0.2, machine=machine)
    with pytest.raises(
        opplab.InputError, match=r"there is no CPU 6; the cpufreq policies of machine juno-r2 for .*0-5"
    ):
        opplab.explain(trace, cpu=6, at=0.2, machine=machine)


def test_the_clock_of_a_trace_is_the_recorded_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: no decision of a governor that is only assumed stands for the clock that the trace has.

    Method: a busy CPU under a limit that the trace does not show; without it schedutil would ask for more.
    """
    machine = opplab.Machine.load("juno-r2")
    tasks = {"hog": {"cpus": [1], "loop": -1, "run": 10_000}}
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="hog", file="<hog>")
    trace = tmp_path / "trace.dat"
    simulated = opplab.simulate(machine, work, opplab.Policy(scaling_max_freq=800000, variation="none"), seconds=0.9)
    simulated.to_trace(trace)
    without_policy(trace)
    bare = opplab.explain(trace, cpu=1, at=0.8, machine=machine)
    kinds = [finding.kind for finding in bare]
    assert kinds[:2] == ["clock", "mismatch"]
    clock, mismatch = bare.findings[:2]
    khz = simulated.events("cpu_frequency").filter(pl.col("cpu") == 1)["khz"][-1]
    assert clock.data["khz"] == khz < mismatch.data["asked_khz"]
    assert "1200 MHz, which does not explain this clock: it is assumed (--recorded-governor)." in mismatch.text
    _, out, _ = run(capsys, "explain", str(trace), "-m", "juno-r2", "--cpu", "1", "--at", "0.8s")
    shown = " ".join(out.split())
    assert "schedutil (assumed) with scmi" in shown
    assert "note: the trace does not name its governor: schedutil is assumed" in shown

    given = opplab.explain(trace, cpu=1, at=0.8, machine=machine, recorded_governor="schedutil")
    assert "does not explain this clock: the recorded kernel decided otherwise" in str(given)
    given = opplab.explain(trace, cpu=1, at=0.8, machine=machine, recorded_governor="userspace")
    assert [finding.kind for finding in given] == ["clock", "frequency"]
    assert given.findings[0].data["khz"] == khz
    assert "No decision of userspace is known for this clock" in str(given)
    with pytest.raises(opplab.InputError, match="leave out --recorded-governor"):
        opplab.explain(shared("traces/arm64-612-juno-eas-homog6"), cpu=0, recorded_governor="powersave")


def test_a_granted_clock_is_no_other_decision(tmp_path: Path) -> None:
    """A run's trace has what the hardware granted: "the recorded kernel decided otherwise" was false.

    Method: a full package, whose turbo bins are below what its schedutil asked for in the run.
    """
    machine, trace = opplab.Machine.load("skylake-8x-uma"), tmp_path / "run.dat"
    work = opplab.Workload.parse('{"tasks": {"hog": {"loop": -1, "run": 9000, "instance": 8}}}', name="w", file="<w>")
    run_of = opplab.simulate(machine, work, opplab.Policy(driver="intel_cpufreq", variation="none"), seconds=0.6)
    run_of.to_trace(trace)
    clock, granted = opplab.explain(trace, cpu=3, at=0.5, machine=machine).findings[:2]
    asked = run_of.events("freq_request").filter(pl.col("cpu") == 3)["khz"][-1]
    assert granted.kind == "granted" and clock.data["khz"] < granted.data["asked_khz"] == asked
    assert "the clock that the hardware granted" in granted.text


def test_the_clock_of_a_near_trace_is_explained(tmp_path: Path) -> None:
    machine, trace = opplab.Machine.load("juno-r2"), tmp_path / "trace.dat"
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    simulated = opplab.simulate(machine, work, opplab.Policy(variation="none"), seconds=0.6)
    simulated.to_trace(trace)
    clocks = simulated.events("cpu_frequency").filter(pl.col("cpu") == 0)
    nr_unlike = 0
    for at in (0.2, 0.3, 0.4, 0.5):
        found = opplab.explain(trace, cpu=0, at=at, machine=machine, recorded_governor="schedutil")
        at_ns = found.findings[0].time_ns
        recorded = clocks.filter(pl.col("time_ns") <= at_ns)["khz"][-1]
        assert (found.findings[0].kind, found.findings[0].data["khz"]) == ("clock", recorded)
        assert found.about["governor_known"]
        nr_unlike += any(finding.kind == "mismatch" for finding in found)
    assert nr_unlike <= 1


def test_a_change_of_the_clock_belongs_to_the_request_that_caused_it() -> None:
    """Goal: a request is not given the clock of an earlier one that was on its way.

    Method: the hardware takes longer than the rate limit; each request is explained where the next one comes.
    """
    work = opplab.Workload.periodic(12, run_us=3000, period_us=16000)
    policy = opplab.Policy(tunables={"rate_limit_us": "500"})
    records = Records(opplab.simulate("juno-r2", work, policy, seconds=1)._inner)
    rows = [records.row("sugov_decision", index) for index in range(len(records.tables["sugov_decision"]["time_ns"]))]
    nr_told, nr_late = 0, 0
    for policy_cpu in {row["policy_cpu"] for row in rows}:
        asked = [row for row in rows if (row["policy_cpu"], row["outcome"]) == (policy_cpu, "requested")]
        for row, later in itertools.pairwise(asked):
            found = {one.kind: one for one in frequency_findings(records, policy_cpu, later["time_ns"] - 1)}
            assert found["frequency"].data["time_ns"] == row["time_ns"]
            delivery = found["delivery"].data if "delivery" in found else {}
            if "granted_khz" in delivery:
                nr_told += 1
                assert delivery["granted_khz"] == row["next_khz"]
                assert delivery["kthread_ns"] <= delivery["delay_ns"]
            else:
                nr_late += 1
    assert nr_told > 10 and nr_late > 5


def test_a_held_frequency_has_the_kernels_reason() -> None:
    """Goal: a CPU that idled with its tick running is held, too: sugov_hold_freq() looks at idle_calls."""
    row = dict.fromkeys(opplab._opplab.recorded_frequencies(shared("traces/arm64-612-juno-eas-homog6"))[0], 0)
    words = words_of("sugov_decision", {**row, "outcome": "held", "next_khz": 600000, "max_cap": 1024})
    assert words["outcome"] == "600 MHz stays: the CPU had not idled with its tick stopped."
    # What its utilisation asks for does not resolve to what was kept.
    kept = {"wanted_khz": 600000, "raw_khz": 300000, "ref_khz": 950000, "util": 300}
    words = words_of("sugov_decision", {**row, **kept, "outcome": "held", "next_khz": 600000, "max_cap": 1024})
    assert words["how"].endswith("-> 300 MHz")


def test_an_emulators_cpus_lose_no_time_at_low_clocks(capsys: pytest.CaptureFixture[str]) -> None:
    folder = shared("traces/x86-612-xeon16-any1-schedutil-ramp_up")
    assert "-accel tcg" in (folder / "qemu_cmdline.txt").read_text()
    _, out, _ = run(capsys, "explain", str(folder), "--why-slow")
    shown = " ".join(out.split())
    assert "speed: an emulator executed this as fast at every clock" in shown
    assert "hardware would take" in shown
    assert "Higher clocks save no time here." in shown
    assert "No clock helps: the speed does not follow it" in shown
    assert " lost on hardware, " in shown
    for words in ("that took", "At the highest clocks", "decide the rate"):
        assert words not in shown


def test_a_case_of_a_changed_file_is_not_explained_in_place_of_the_one_that_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("load.json").write_text(
        json.dumps({"tasks": {"t": {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 10000}}}})
    )
    new = ["experiment", "new", "mine", "-w", "load.json", "-m", "juno-r2", "--vs", "governor=powersave"]
    for words in (new, ["run", "mine.toml", "-o", "out/mine", "--seconds", "0.2", "--iterations", "1", "--no-report"]):
        done = answered(*words)
    file = Path("mine.toml")
    explain = ["explain", "out/mine:powersave", "--why-slow"]
    answered(*explain)
    file.write_text(file.read_text().replace('governor = "powersave"', 'governor = "performance"\nhz = 100'))
    done = called(*explain)
    assert isinstance(done.exception, opplab.InputError)
    assert "out/mine has no results of `powersave load #0`: mine.toml, a machine or this version" in str(done.exception)


def test_an_explanation_names_the_driver_that_the_governor_brought() -> None:
    """Goal: of two modes of intel_pstate it is the one that ran, with its rate limit."""
    work = opplab.Workload.periodic(2, run_us=1600, period_us=16000)
    run = opplab.simulate("skylake-8x-uma", work, opplab.Policy(governor="schedutil"), seconds=0.1)
    facts = opplab.explain(run, why_slow=True).about
    assert (facts["driver"], facts["rate_limit_us"]) == ("intel_cpufreq", 5000)


def test_a_run_ends_after_its_warm_up_and_its_measured_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: the time axis of a run begins with its warm-up, and all of what is measured can be explained."""
    monkeypatch.chdir(tmp_path)
    Path("load.json").write_text(
        json.dumps({"tasks": {"t": {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 10000}}}})
    )
    new = ["experiment", "new", "mine", "-w", "load.json", "-m", "juno-r2"]
    answered(*new)
    file = Path("mine.toml")
    file.write_text(file.read_text().replace("[[workload]]", '[[workload]]\nwarmup = "100ms"'))
    words = ["run", "mine.toml", "-o", "out/mine", "--seconds", "0.3", "--iterations", "1", "--no-report"]
    done = answered(*words)
    done = answered("explain", "out/mine:schedutil load #0", "--cpu", "0", "--at", "0.29s")
    done = called("explain", "out/mine:schedutil load #0", "--cpu", "0", "--at", "0.31s")
    assert isinstance(done.exception, opplab.InputError)
    assert "which ends at 0.300000 s" in str(done.exception)


def test_a_shared_clock_is_explained_by_the_request_that_made_it() -> None:
    """Goal: with one clock for all cores the decision is that of the core whose request stood, named.

    Method: samples of ondemand, each core's own. What is explained asked for the clock that the core has.
    """
    work = opplab.Workload.periodic(5, run_us=3000, period_us=16000)
    policy = opplab.Policy(driver="intel_cpufreq", governor="ondemand", variation="none")
    run = opplab.simulate("skylake-8x-uma", work, policy, seconds=1)
    samples = run.events("dbs_decision")
    others = 0
    for cpu, at_ns in itertools.product(range(8), range(300_000_000, 1_000_000_000, 50_000_000)):
        found = {one.kind: one for one in opplab.explain(run, cpu=cpu, at=at_ns / 1e9)}
        khz = found["running"].data["khz"]
        told = found["frequency"].data
        own = samples.filter((pl.col("policy_cpu") == cpu) & (pl.col("time_ns") <= at_ns))
        by_cpu = found["shared"].data["by_cpu"] if "shared" in found else cpu
        if by_cpu == cpu:
            assert told["policy_cpu"] == cpu
            continue
        others += 1
        assert told["policy_cpu"] == by_cpu != cpu
        assert told["next_khz"] == khz or found["grant"].data["limit"] == "turbo-bin"
        assert f"CPU {by_cpu}, which has the same clock as CPU {cpu}, asked for the most" in found["shared"].text
        if own.height:
            assert own["next_khz"][-1] < khz
    assert others > 30


def test_a_shared_clock_has_the_last_request_for_its_point() -> None:
    """Goal: the request behind a shared clock is the last one for that clock's P-state.

    Method: schedutil without a table, whose requests lie between P-states, so that the clock is above each of them.
    """
    work = opplab.Workload.periodic(5, run_us=3000, period_us=16000)
    policy = opplab.Policy(driver="intel_cpufreq", governor="schedutil", kernel="5.8")
    run = opplab.simulate("skylake-8x-uma", work, policy, seconds=1)
    requests = run.events("sugov_decision").filter(pl.col("outcome") == 4)
    shared_clocks = 0
    for cpu, at_ns in itertools.product(range(8), range(300_000_000, 1_000_000_000, 50_000_000)):
        found = {one.kind: one for one in opplab.explain(run, cpu=cpu, at=at_ns / 1e9)}
        if "shared" not in found or "grant" in found or "frequency" not in found:
            continue
        khz, since_ns, by_cpu = (found["shared"].data[name] for name in ("granted_khz", "time_ns", "by_cpu"))
        its = requests.filter((pl.col("policy_cpu") == by_cpu) & (pl.col("time_ns") <= since_ns))
        made = its.filter((pl.col("next_khz") <= khz) & (pl.col("next_khz") > khz - 100_000))
        assert found["frequency"].data["time_ns"] == made["time_ns"][-1]
        shared_clocks += 1
    assert shared_clocks > 30


@pytest.mark.parametrize(
    ("governor", "words"),
    [
        ("powersave", "the firmware's at boot, taken to be the register's default, as no machine file has it."),
        ("performance", "set by the governor performance."),
    ],
)
def test_a_clock_that_is_left_to_the_firmware_has_its_preference_named(governor: str, words: str) -> None:
    work = opplab.Workload.periodic(2, run_us=9_000, period_us=10_000)
    policy = opplab.Policy(driver="amd-pstate-epp", governor=governor)
    run = opplab.simulate("epyc-7742-2s", work, policy, seconds=0.2)
    busy = next(cpu for cpu, *_ in run.events("sched_switch").filter(pl.col("next") > 0).select("cpu").rows())
    text = " ".join(str(opplab.explain(run, cpu=busy, at=0.15)).split())
    assert f"leaves the clock to the firmware, whose energy-performance preference is 0: {words}" in text
    assert "started with" not in text


@pytest.mark.parametrize(
    ("machine", "driver", "epp", "preference"),
    [
        ("epyc-7742-2s", "amd-pstate-epp", "balance_performance", "128: the policy's key `epp`"),
        ("sapphire-rapids-8460h-4s", "intel_pstate", "power", "power"),
        ("sapphire-rapids-8460h-4s", "intel_pstate", "", "the default"),
    ],
)
def test_an_idle_cpu_whose_firmware_follows_the_load_is_at_its_lowest_level(
    machine: str, driver: str, epp: str, preference: str
) -> None:
    """It was said to take the highest level at any load, on Intel to have what the governor started with.

    Method: its only clock is the lowest that is granted anywhere.
    """
    work = opplab.Workload.periodic(2, run_us=9_000, period_us=10_000)
    run = opplab.simulate(machine, work, opplab.Policy(driver=driver, governor="powersave", epp=epp), seconds=0.2)
    clocks = run.events("cpu_frequency")
    idle = set(clocks["cpu"]) - set(run.events("sched_switch").filter(pl.col("next") > 0)["cpu"])
    still = [cpu for cpu in sorted(idle) if clocks.filter(pl.col("cpu") == cpu).height == 1]
    cpu = still[-1]
    assert clocks.filter(pl.col("cpu") == cpu)["khz"].item() == clocks["khz"].min()
    text = " ".join(str(opplab.explain(run, cpu=cpu, at=0.15)).split())
    assert f"leaves the clock to the firmware, whose energy-performance preference is {preference}. It follows" in text
    assert "saw none until then that asks for more than the lowest level" in text
    assert "at any load" not in text and "started with" not in text


def test_a_level_below_the_lowest_clock_of_the_file_names_that_clock() -> None:
    """CPPC's lowest level of an EPYC is 400 MHz, where the file has 1500 MHz, and the clock: no word had the gap."""
    work = opplab.Workload.periodic(2, run_us=300, period_us=10_000)
    policy = opplab.Policy(driver="amd-pstate", governor="powersave")
    run = opplab.simulate("epyc-7742-2s", work, policy, seconds=0.2)
    busy = next(cpu for cpu, *_ in run.events("sched_switch").filter(pl.col("next") > 0).select("cpu").rows())
    found = opplab.explain(run, cpu=busy, at=0.15)
    text = " ".join(str(found).split())
    request = next(finding for finding in found.findings if "level_khz" in finding.data)
    least = request.data["level"] * request.data["level_khz"]
    assert least < run.events("cpu_frequency")["khz"].min() == 1_500_000
    assert "The lowest clock that reaches it is 1500 MHz" in text


def test_reports_of_a_cpu_that_may_not_change_the_clock_are_named_where_nothing_was_asked_for() -> None:
    """The tick that is left of nohz_full is another CPU's; intel_cpufreq lets none but the policy's act."""
    task = {"cpus": [3], "loop": -1, "run": 4000}
    work = opplab.Workload.parse(json.dumps({"global": {"duration": 3, "calibration": "CPU0"}, "tasks": {"hog": task}}))
    policy = opplab.Policy(driver="intel_cpufreq", governor="schedutil", nohz_full=[3])
    run = opplab.simulate("haswell-48x-numa", work, policy, seconds=2.5)
    text = " ".join(str(opplab.explain(run, cpu=3, at=2.4)).split())
    assert "came from a CPU that may not change it" in text


def test_of_changes_at_one_time_the_last_one_stands() -> None:
    """Goal: the clock that a request made is the one that stood. Method: CPUs that leave idle and ask at once."""
    policy = opplab.Policy(driver="intel_cpufreq", governor="schedutil")
    run = opplab.simulate("skylake-8x-uma", "kernbench", policy, seconds=3)
    changes = run.events("cpu_frequency").group_by("cpu", "time_ns", maintain_order=True)
    twice = changes.agg(pl.col("khz")).filter(pl.col("khz").list.n_unique() > 1)
    records = Records(run._inner)
    seen = 0
    for cpu, time_ns, khz in twice.rows():
        found = {one.kind: one for one in frequency_findings(records, cpu, time_ns)}
        delivery = found.get("delivery")
        if "shared" not in found and delivery is not None and delivery.time_ns == time_ns:
            seen += 1
            assert delivery.data["granted_khz"] == khz[-1]
    assert seen > 20


def test_a_request_to_the_firmware_stands_before_the_clock_that_it_made() -> None:
    """Goal: no effect before its cause. Method: CPUs of a busy package."""
    work = opplab.Workload.benchmark("dbench", clients=8)
    policy = opplab.Policy(driver="intel_pstate", governor="powersave", epp="balance_performance")
    records = Records(opplab.simulate("skylake-sp-2s", work, policy, seconds=1.6)._inner)
    policies = set(records.tables["hwp_decision"]["policy_cpu"].tolist())
    seen = 0
    for cpu, at_ns in itertools.product(sorted(policies), range(100_000_000, 1_600_000_000, 50_000_000)):
        found = frequency_findings(records, cpu, at_ns)
        by_kind = {one.kind: one for one in found}
        if "shared" in by_kind or not {"grant", "frequency"} <= by_kind.keys():
            continue
        times_ns = [one.time_ns for one in found]
        assert times_ns == sorted(times_ns)
        request, grant = by_kind["frequency"], by_kind["grant"]
        level_khz = request.data["level"] * request.data["level_khz"]
        assert request.time_ns <= grant.time_ns or level_khz != grant.data["requested_khz"]
        seen += 1
    assert seen > 100


def by_hand(trace: opplab.Trace, pid: int, start_ns: int, end_ns: int, speed: dict[int, tuple[int, float]]) -> Any:
    """The parts of a time of one task, from a trace's events one by one."""
    rows: list[tuple[int, int, str, dict[str, Any]]] = []
    for name in ("sched_switch", "sched_waking", "sched_wakeup_new", "cpu_frequency", "sched_migrate_task"):
        rows += [(row["time_ns"], len(rows), name, row) for row in trace.events(name).to_dicts()]
    # At one instant a task is woken and moved before it runs.
    order = ["cpu_frequency", "sched_waking", "sched_wakeup_new", "sched_migrate_task", "sched_switch"]
    rows.sort(key=lambda row: (row[0], order.index(row[2]), row[1]))
    runs, khz, state, queued, now_ns = dict[int, int](), dict[int, int](), "asleep", -1, 0
    parts = dict.fromkeys(("asleep", "waiting", "idle", "work", "clock", "capacity"), 0.0)
    for time_ns, _, name, row in rows:
        dt_ns = max(min(time_ns, end_ns) - max(now_ns, start_ns), 0)
        if dt_ns and state == "running":
            top_khz, of_biggest = speed[queued]
            at_top_ns = dt_ns * khz[queued] / top_khz
            parts["clock"] += dt_ns - at_top_ns
            parts["work"] += at_top_ns * of_biggest
            parts["capacity"] += at_top_ns * (1 - of_biggest)
        elif dt_ns:
            parts[state if state == "asleep" else "waiting" if runs.get(queued, 0) else "idle"] += dt_ns
        now_ns = time_ns
        if name == "cpu_frequency":
            khz[row["cpu_id"]] = row["state"]
        elif name == "sched_switch":
            runs[row["cpu"]] = row["next_pid"]
            if row["prev_pid"] == pid:
                state = "asleep" if row["prev_state"] & 0xFF else "runnable"
            if row["next_pid"] == pid:
                state, queued = "running", row["cpu"]
        elif row["pid"] == pid and name == "sched_migrate_task":
            queued = row["dest_cpu"]
        elif row["pid"] == pid:
            state, queued = ("runnable", row["target_cpu"]) if state == "asleep" else (state, queued)
    return parts


@pytest.mark.parametrize("machine", ["juno-r2", "pixel6"])
def test_slow_activations_are_divided(machine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Goal: the parts of a task's slow activations sum up to them, and are those of the events, to 0.1 %.

    Method: a task that shares its CPUs, with little ones among them; the trace of the run, event by event.
    """
    work = opplab.Workload.periodic(9, run_us=4000, period_us=16000)
    run_ = opplab.simulate(machine, work, opplab.Policy(variation="none"), seconds=1)
    file = tmp_path / "run.dat"
    run_.to_trace(file)
    trace = opplab.read_trace(file)
    top_khz = {cpu: max(of["opps_khz"]) for of in run_.outcome["clusters"] for cpu in of["cpus"]}
    speed = {cpu: (top_khz[cpu], of["capacity"] / 1024) for of in run_.outcome["clusters"] for cpu in of["cpus"]}
    activations = run_.events("activation")
    divided = set()
    for index, name in enumerate(run_.tasks):
        own = activations.filter((pl.col("task") == index) & (pl.col("timed") == 1))
        if not own.height:
            continue
        found = opplab.explain(run_, task=name, why_slow=True)
        whole, *slow = [one for one in found if one.kind in ("response", "activation")]
        missed = own.filter(pl.col("slack_ns") < 0)
        assert whole.data["activations"] == own.height
        assert whole.data["slow"] == (missed.height or max(1, round(0.01 * own.height)))
        expected = missed["response_ns"].sum() if missed.height else own["response_ns"].max()
        assert whole.data["response_ns"] == expected
        for one in (whole, *slow):
            assert sum(one.data["parts_ns"].values()) == pytest.approx(one.data["response_ns"], rel=1e-9)
            assert sum(one.data["waited_for_ns"].values()) == one.data["parts_ns"]["waiting"]
            divided |= {part for part, ns in one.data["parts_ns"].items() if ns > 0}
        for one in slow[:2]:
            (pid,) = [pid for pid, comm in trace.task_names().items() if comm == name]
            start_ns, length_ns = one.time_ns, one.data["response_ns"]
            parts = by_hand(trace, pid, start_ns, start_ns + length_ns, speed)
            told = one.data["parts_ns"]
            for part in ("waiting", "work", "clock", "capacity"):
                assert told[part] == pytest.approx(parts[part], abs=1e-3 * length_ns), (name, start_ns, part)
            # A trace shows the exit from idle from the wake-up on only.
            assert told["idle"] + told["asleep"] == pytest.approx(parts["idle"] + parts["asleep"], abs=1e-3 * length_ns)
    assert divided >= {"waiting", "work", "clock", "capacity", "idle"}
    # The trace alone, from the wake-up on.
    name = run_.tasks[-1]
    code, out, err = run(capsys, "explain", str(file), "-m", machine, "--task", name, "--why-slow", "--format", "json")
    assert code == 0, err
    (pid,) = [pid for pid, comm in trace.task_names().items() if comm == name]
    whole, *slow = json.loads(out)["findings"]
    assert sum(one["data"]["response_ns"] for one in slow[:10]) <= whole["data"]["response_ns"]
    for one in slow[:2]:
        told, length_ns = one["data"]["parts_ns"], one["data"]["response_ns"]
        parts = by_hand(trace, pid, one["time_ns"], one["time_ns"] + length_ns, speed)
        assert sum(told.values()) == pytest.approx(length_ns, rel=1e-9)
        for part, ns in parts.items():
            assert told[part] == pytest.approx(ns, abs=1e-3 * length_ns), part


def test_the_work_of_a_slow_activation_is_the_programs() -> None:
    """Goal: `work` is what the program asks for, whatever CPU and clock it met; the rest is what these added."""
    tasks = {"t": {"cpus": [0], "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}}
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    parts = {}
    for governor in ("powersave", "performance"):
        run = opplab.simulate("juno-r2", work, opplab.Policy(governor=governor, variation="none"), seconds=1)
        (told,) = [one for one in opplab.explain(run, task="t", why_slow=True) if one.kind == "response"]
        parts[governor] = told.data["parts_ns"]
    assert parts["powersave"]["work"] == pytest.approx(parts["performance"]["work"], rel=0.02)
    assert parts["performance"]["clock"] == 0
    # 450 of 950 MHz.
    ran_ns = sum(parts["powersave"][part] for part in ("work", "clock", "capacity"))
    assert parts["powersave"]["clock"] / ran_ns == pytest.approx(1 - 450 / 950, rel=1e-6)


def test_a_busy_thread_of_the_core_and_a_quota_have_their_parts() -> None:
    tasks = {
        "t": {"cpus": [0], "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}, "taskgroup": "/a"},
        "hog": {"cpus": [4], "loop": -1, "run": 10000},
        "eats": {"cpus": [1], "loop": -1, "run": 10000, "taskgroup": "/a"},
    }
    text = json.dumps({"groups": {"/a": {"max": "40000 100000"}}, "tasks": tasks})
    work = opplab.Workload.parse(text, name="w", file="<w>")
    run = opplab.simulate("skylake-8x-uma", work, opplab.Policy(variation="none"), seconds=1)
    found = opplab.explain(run, task="t", why_slow=True)
    (told,) = [one for one in found if one.kind == "response"]
    assert told.data["parts_ns"]["sibling"] > 0
    assert told.data["parts_ns"]["quota"] > 0.5 * told.data["response_ns"]
    assert [one.data["group"] for one in found if one.kind == "quota"] == ["/a"]


@pytest.mark.parametrize("kernel", ["6.1", "6.12", "6.18"])
def test_a_task_that_a_quota_stops_waits_for_no_other(kernel: str) -> None:
    """A task of a stopped group "waited for a CPU that ran" its neighbour.

    Method: the time in which `cpu.stat` has the group throttled, and the turns of two equal tasks beside it.
    """
    timer = {"ref": "unique", "period": 100000}
    tasks = {
        "t": {"cpus": [1], "loop": -1, "run": 30000, "timer": timer, "taskgroup": "/a/b"},
        "hog": {"cpus": [1], "loop": -1, "run": 10000},
    }
    text = json.dumps({"groups": {"/a": {"max": "10000 100000"}}, "tasks": tasks})
    work = opplab.Workload.parse(text, name="w", file="<w>")
    run = opplab.simulate(
        "juno-r2", work, opplab.Policy(governor="performance", variation="none", kernel=kernel), seconds=3
    )
    whole = opplab.explain(run, task="t", why_slow=True).findings[0]
    ((_, _, _, throttled_ns),) = run.outcome["quotas"]
    parts = whole.data["parts_ns"]
    assert whole.data["slow"] >= 8
    assert sum(parts.values()) == pytest.approx(whole.data["response_ns"])
    assert parts["quota"] <= throttled_ns
    assert parts["quota"] > 0.7 * whole.data["response_ns"]
    ran_ns = parts["work"] + parts["clock"] + parts["capacity"]
    assert parts["waiting"] < 1.5 * ran_ns


def test_a_throttled_deadline_task_waits_for_no_other() -> None:
    """Time without a budget was "waiting for a CPU that ran" fair tasks, over which a deadline task goes first.

    Method: the switches. Nothing goes before the only deadline task: it is off its CPU only while it is throttled.
    """
    timer = {"ref": "unique", "period": 200000}
    deadline = {"policy": "SCHED_DEADLINE", "dl-runtime": 2000, "dl-deadline": 20000, "dl-period": 20000}
    tasks = {
        "control": {"loop": -1, "run": 19000, "timer": timer, **deadline},
        "fair": {"instance": 6, "loop": -1, "run": 100000},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance", variation="none"), seconds=2)
    found = opplab.explain(run, task="control", why_slow=True)
    whole, budget = found.findings[0], next(one for one in found if one.kind == "budget")
    parts = whole.data["parts_ns"]
    assert sum(parts.values()) == pytest.approx(whole.data["response_ns"])
    index = task_index(Records(case_of(run)), "control")
    off_ns, left_ns = [], None
    for at_ns, prev, state, following in (
        run.events("sched_switch").select("time_ns", "prev", "prev_state", "next").rows()
    ):
        if following == index and left_ns is not None:
            off_ns.append(at_ns - left_ns)
        if index in (prev, following):
            left_ns = at_ns if prev == index and state == 0 else None
    assert len(off_ns) == budget.data["nr_throttled"] >= 20
    assert budget.data["throttled_ns"] == pytest.approx(sum(off_ns), rel=0.001)
    # Of the slowest activation: it takes several periods, and is throttled for the most of them.
    assert parts["budget"] > 0.6 * whole.data["response_ns"]
    assert parts["waiting"] + parts["held"] < 0.001 * whole.data["response_ns"]
    reason = "its runtime is used up (dl-runtime)"
    assert set(budget.data["reasons"]) == {reason}
    assert [one.data for one in opplab.explain(run, why_slow=True) if one.kind == "budget"] == [budget.data]
    placed = opplab.explain(run, task="control", at=1.05)
    throttled = [one for one in placed.findings if one.kind == "budget" and one.data.get("reason") == reason]
    # Each budget is of the period that begins 20 ms after the one before.
    assert [round((one.data["until_ns"] - 1_000_001_000) / 1e6) for one in throttled] == [20, 40, 60]


def test_a_task_that_runs_out_as_it_goes_to_sleep_waits_for_nothing() -> None:
    """The words had all throttled time as a wait, where the activations had none of it."""
    spans = [(3_000_000, 10_000_000, "its runtime is used up (dl-runtime)")]
    (found,) = budgets_that_acted(["control"], {0: spans})
    assert found.data["throttled_ns"] == 7_000_000
    assert found.text == (
        "budget: control was throttled until its next period (SCHED_DEADLINE): 1 time, its runtime is used up "
        "(dl-runtime); 7 ms in all, in which it runs at no clock, whether it has work or not."
    )


def test_a_constrained_deadline_task_is_throttled_until_its_period() -> None:
    """A task that wakes between its deadline and its next period waits for that, whatever budget it has left."""
    task = {"loop": -1, "run": 500, "sleep": 7000, "policy": "SCHED_DEADLINE"}
    task |= {"dl-runtime": 2000, "dl-deadline": 5000, "dl-period": 20000}
    work = opplab.Workload.parse(json.dumps({"tasks": {"control": task}}), name="w", file="<w>")
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance", variation="none"), seconds=1)
    found = opplab.explain(run, task="control", why_slow=True)
    (budget,) = (one for one in found if one.kind == "budget")
    reason = "its deadline has passed, and its period has not ended"
    assert budget.data["reasons"] == {reason: budget.data["nr_throttled"]}
    # Its runs are a period apart, not the 8 ms of its loop.
    index = task_index(Records(case_of(run)), "control")
    steps = run.events("sched_switch").filter(pl.col("next") == index)["time_ns"].diff().drop_nulls()
    assert steps.median() == pytest.approx(20_000_000, rel=0.001)
    parts = found.findings[0].data["parts_ns"]
    assert parts["budget"] > 0.75 * found.findings[0].data["response_ns"] and parts["waiting"] == 0


def test_a_task_without_timers_has_times_awake() -> None:
    run = opplab.simulate("kaby-lake-i7-7500u", "dbench", opplab.Policy(governor="schedutil"), seconds=2)
    ran = run.events("sched_switch").filter(pl.col("prev_state") == 1).group_by("prev").len().sort("len")
    found = opplab.explain(run, task=ran["prev"][-1], why_slow=True).findings[0]
    assert "no deadline is known" in found.text
    assert sum(found.data["parts_ns"].values()) == pytest.approx(found.data["response_ns"])


def test_an_activation_behind_another_has_that_as_a_part() -> None:
    """Goal: the work of an activation that is late is not counted in the next one, which began before its end.

    Method: bursts of a task with weight hold up one whose timers do not wait; the work of each is the same.
    """
    timer = {"ref": "unique", "period": 16000, "mode": "absolute"}
    burst = {"cpus": [1], "loop": -1, "run": 90000, "sleep": 70000, "priority": -15}
    tasks = {"t": {"cpus": [1], "loop": -1, "run": 9000, "timer": timer}, "burst": burst}
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    policy = opplab.Policy(governor="performance", variation="none")
    run = opplab.simulate("juno-r2", work, policy, seconds=2)
    name = next(name for name in run.tasks if name.startswith("t"))
    whole, *slow = opplab.explain(run, task=name, why_slow=True)
    assert whole.data["slow"] > 10 and [one.kind for one in slow] == ["activation"] * 10 + ["more"]
    behind = [one for one in slow if one.kind == "activation" and one.data["parts_ns"]["behind"]]
    assert behind
    assert set(whole.data["waited_for_ns"]) == {next(name for name in run.tasks if name.startswith("burst"))}
    for one in behind:
        assert sum(one.data["parts_ns"].values()) == pytest.approx(one.data["response_ns"])
    works = [one.data["parts_ns"]["work"] for one in slow if one.kind == "activation"]
    assert max(works) == pytest.approx(min(works), rel=0.02)


def test_an_idle_cpu_in_interrupts_is_not_leaving_idle() -> None:
    """Goal: of a wait on a CPU without a task, what a trace shows in an idle state is its exit; one name is one sum."""
    from opplab.explanation.response import Activation, Cpu, Timeline, response_findings

    # Task 7 wakes at 100 on CPU 0, whose idle state ends at 130. It runs at 300 after two tasks of one name.
    switches = [(160, 0, 0, True, 8), (200, 0, 8, False, 9), (300, 0, 9, False, 7), (400, 0, 7, False, 0)]
    moves = [(100, 7, 0)]
    timeline = Timeline(switches, [(100, 7, 1)], moves, [(0, 0, 1000)], {0: Cpu(1000, 1.0)}, 0, {}, {0: [(10, 130)]})
    (found,) = response_findings("t", timeline, 7, [Activation(100, 400)], {8: "other", 9: "other"})[1:]
    parts = {name: ns for name, ns in found.data["parts_ns"].items() if ns}
    assert parts == {"idle": 30, "held": 30, "waiting": 140, "work": 100}
    assert found.data["waited_for_ns"] == {"other": 140}


def test_the_rate_limit_of_a_direction_is_the_one_that_held() -> None:
    """Goal: with a limit a direction the wait is that of the direction. Method: the time since the request before."""
    policy = opplab.Policy(
        governor="schedutil",
        gates={"rate_limits": "up-and-down"},
        tunables={"up_rate_limit_us": 20000, "down_rate_limit_us": 500},
    )
    timer = {"ref": "unique", "period": 16000}
    phases = {name: {"loop": 8, "run": run_us, "timer": timer} for name, run_us in (("low", 300), ("high", 6000))}
    tasks = {f"t{number}": {"loop": -1, "cpus": [number], "phases": phases} for number in range(3)}
    work = opplab.Workload.parse(json.dumps({"tasks": tasks, "global": {"calibration": "CPU4"}}))
    run = opplab.simulate("pixel4", work, policy, seconds=2)
    rows = run.events("sugov_decision")
    requested = dict(opplab._opplab.decision_codes())["outcome"].index("requested")
    asked = rows.filter((pl.col("policy_cpu") == 0) & (pl.col("outcome") == requested))["time_ns"].to_list()
    seen = 0
    for before, at_ns in itertools.pairwise(asked[5:]):
        (found,) = [one for one in opplab.explain(run, cpu=0, at=at_ns / 1e9) if one.kind == "frequency"]
        for limit in re.findall(r"rate limit of ([\d.]+) ms held", found.text):
            seen += 1
            assert float(limit) == pytest.approx(20, abs=0.05) or found.data["wanted_khz"] < found.data["prev_khz"]
            assert at_ns - before >= 0.95e6 * float(limit) or "until" in found.text
    assert seen > 3


def test_sleep_after_a_run_without_length_is_no_wait(tmp_path: Path) -> None:
    """schedutil's thread was "queued on a CPU that ran no task" for 69 ms, in which it slept."""
    from opplab.explanation.response import Activation, Cpu, Timeline

    switches = [(100, 0, 0, True, 7), (200, 0, 7, False, 0), (300, 0, 0, True, 7), (300, 0, 7, False, 0)]
    switches += [(900, 0, 0, True, 7), (950, 0, 7, False, 0)]
    wakes = [(90, 7, 0), (300, 7, 0), (890, 7, 0)]
    timeline = Timeline(switches, wakes, [], [(0, 0, 1000)], {0: Cpu(1000, 1.0)}, 0, {})
    assert timeline.awake(7) == [Activation(90, 200), Activation(890, 950)]
    # A run's trace has the same wake-ups, each event at a time of its own.
    frames = opplab.Workload.periodic(3, run_us=3000, period_us=16000)
    run = opplab.simulate("pixel6", frames, opplab.Policy(), seconds=1)
    run.to_perfetto(tmp_path / "run.pftrace")
    tasks = opplab.Trace(tmp_path / "run.pftrace").signal_sums(opplab.Machine.load("pixel6")).task_summary()
    sugov = tasks.filter(pl.col("comm").str.starts_with("sugov:") & (pl.col("running_ns") > 0))
    threads = dict(sugov.select("comm", "latency_ns_max").iter_rows())
    for thread, latency_ns in threads.items():
        whole, slowest = opplab.explain(run, task=thread, why_slow=True).findings[:2]
        parts = slowest.data["parts_ns"]
        assert parts["waiting"] + parts["idle"] + parts["held"] <= latency_ns + 10
        assert whole.data["response_ns"] < 1e6
    assert threads


def test_what_runs_at_the_end_has_not_ended() -> None:
    from opplab.explanation.response import Activation, Cpu, Timeline

    switches = [(100, 0, 0, True, 7), (200, 0, 7, False, 0), (300, 0, 0, True, 7)]
    timeline = Timeline(switches, [(90, 7, 0), (290, 7, 0)], [], [(0, 0, 1000)], {0: Cpu(1000, 1.0)}, 0, {})
    assert timeline.awake(7) == [Activation(90, 200)]


def test_full_cpus_of_one_clock_are_the_limit_under_any_governor() -> None:
    """On a guest without cpufreq nothing was named: the limit counted as one of an assumed governor."""
    from opplab.explanation.slow import slow_cpus

    tree = json.loads(json.dumps(opplab.Machine.load("juno-r2").tree))
    work = opplab.Workload.periodic(8, run_us=20000, period_us=16000)
    for clocks, named in ((slice(None), 0), (slice(-1, None), 1)):
        machine = tree | {"cluster": [one | {"opp": one["opp"][clocks]} for one in tree["cluster"]]}
        run = opplab.simulate(opplab.Machine.from_tree(machine), work, opplab.Policy(governor="performance"), seconds=1)
        found = slow_cpus(run._inner, governor_known=False).findings
        assert [one.text.split(":")[0] for one in found if one.kind == "limit"] == ["No clock helps"] * named


def test_names_of_tasks_before_the_trace_are_no_tasks_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name was refused as that of two tasks: a trace.dat's list of names is older than the trace."""
    work = opplab.Workload.periodic(2, run_us=2000, period_us=16000)
    run = opplab.simulate("juno-r2", work, opplab.Policy(), seconds=1)
    run.to_trace(tmp_path / "run.dat")
    name, machine = run.tasks[0], opplab.Machine.load("juno-r2")
    told = [one.text for one in opplab.explain(tmp_path / "run.dat", machine=machine, task=name, why_slow=True)]
    task_names = opplab.Trace.task_names
    monkeypatch.setattr(opplab.Trace, "task_names", lambda trace: task_names(trace) | {7: name})
    assert [one.text for one in opplab.explain(tmp_path / "run.dat", machine=machine, task=name, why_slow=True)] == told


def test_the_only_clock_of_a_cpu_is_known_without_an_event() -> None:
    from opplab.explanation.response import Activation, Cpu, Timeline

    switches = [(100, 0, 0, True, 7), (200, 0, 7, False, 0)]
    for one_clock, part in ((True, "work"), (False, "unknown")):
        timeline = Timeline(switches, [(90, 7, 0)], [], [], {0: Cpu(1000, 1.0, one_clock=one_clock)}, 0, {})
        (response,) = timeline.responses(7, [Activation(90, 200)])
        assert response.parts_ns[part] == 100


def test_a_wait_in_a_trace_may_be_for_a_quota(tmp_path: Path) -> None:
    """A task that its group's quota stopped was "waiting for a CPU that ran" others, whatever a snapshot had.

    Method: the run that wrote the trace counts the periods in which the quota stopped the group.
    """
    tasks = {
        "held": {"cpus": [1], "loop": -1, "run": 40000, "sleep": 60000, "taskgroup": "/a"},
        "other": {"cpus": [1], "loop": -1, "run": 4000, "timer": {"ref": "u", "period": 16000}},
    }
    work = opplab.Workload.parse(json.dumps({"groups": {"/a": {"max": "10000 100000"}}, "tasks": tasks}))
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=2)
    ((name, periods, throttled, _),) = run.outcome["quotas"]
    assert (name, throttled > 10) == ("/a", True)
    run.to_trace(tmp_path / "trace.dat")
    pids = {name: pid for pid, name in opplab.Trace(tmp_path).task_names().items()}
    (held,) = [pids[name] for name in run.tasks if name.startswith("held")]
    (tmp_path / "cgroup_before.txt").write_text("/sys/fs/cgroup/a/cpu.max: 10000 100000|\n")
    (tmp_path / "proc_cgroup_before.txt").write_text(f"{held} {held} held: 0::/a|\n")
    machine = opplab.Machine.load("juno-r2")
    _, slowest, *_, quota = opplab.explain(tmp_path, machine=machine, task=str(held), why_slow=True).findings
    assert "waiting for a CPU or for the quota of its control group (" in slowest.text
    assert (quota.data["quota_ns"], quota.data["period_ns"]) == (10_000_000, 100_000_000)
    assert quota.data["nr_throttled"] == pytest.approx(throttled, abs=2)
    assert quota.data["nr_periods"] == pytest.approx(periods, abs=2)
    # Who is in no such group waits for a CPU.
    found = opplab.explain(tmp_path, machine=machine, task="other-1", why_slow=True).findings
    assert not any("quota" in one.kind or "quota of its" in one.text for one in found)


def test_work_that_is_not_done_at_the_end_is_a_slow_activation(tmp_path: Path) -> None:
    """A task that starved at the end of a trace was an internal error, and one of a run was in no count.

    Method: by hand. The hog takes the CPU from 0.8 s on, before the task's timer of the 51st period, up to the end.
    """
    own = {"cpus": [0], "loop": -1}
    tasks = {
        "t": {**own, "run": 2000, "timer": {"ref": "u", "period": 16000}},
        "hog": {**own, "policy": "SCHED_FIFO", "priority": 5, "delay": 800000, "run": 500000},
    }
    work = opplab.Workload.parse(json.dumps({"tasks": tasks}))
    run = opplab.simulate("juno-r2", work, opplab.Policy(governor="performance"), seconds=1)
    missed = dict(run.metrics.select("metric", "value").iter_rows())
    assert (
        missed["missed_activations"] == missed["unfinished_activations"] == pytest.approx(100 / missed["activations"])
    )
    run.to_trace(tmp_path / "run.dat")
    (name,) = [name for name in run.tasks if name.startswith("t")]
    woken_ns = run.events("sched_waking").filter(pl.col("task") == run.tasks.index(name))["time_ns"].max()
    of_trace = opplab.explain(tmp_path / "run.dat", machine=opplab.Machine.load("juno-r2"), task=name, why_slow=True)
    for whole, slow in (opplab.explain(run, task=name, why_slow=True).findings, of_trace.findings):
        assert whole.data["slow"] == 1
        assert slow.data["response_ns"] == pytest.approx(1e9 - woken_ns, abs=1e6)
        assert slow.data["parts_ns"]["waiting"] == slow.data["response_ns"] == sum(slow.data["waited_for_ns"].values())
        assert all(one.startswith("hog") for one in slow.data["waited_for_ns"])
        assert "its work was not done" in slow.text


def test_misses_that_a_trace_shows_are_in_the_explanation_of_its_work(tmp_path: Path) -> None:
    """A task that fell behind became one activation with a longer timer: "0 of 339 missed", "Timers decide the rate".

    Method: the run that was exported counts its misses itself.
    """
    timer = {"ref": "unique", "period": 16_000}
    phases = {"few": {"loop": 20, "run": 300, "timer": timer}, "many": {"loop": 6, "run": 9000, "timer": timer}}
    file = {"global": {"calibration": "CPU5"}, "tasks": {"burst": {"loop": -1, "phases": phases}}}
    run = opplab.simulate("pixel6", opplab.Workload.parse(json.dumps(file)), seconds=3)
    late = run.events("activation").filter(pl.col("slack_ns") < 0).height
    run.to_trace(tmp_path / "burst.dat")
    whole, limit, *_ = opplab.explain(
        tmp_path / "burst.dat", machine=opplab.Machine.load("pixel6"), why_slow=True
    ).findings
    assert late > 10
    assert f"By its wake-ups {late} of " in whole.text
    assert (whole.data["missed"], limit.data["limit"]) == (late, "clock")


@pytest.mark.parametrize(("mode", "seconds", "behind"), [("relative", 2, 0), ("relative", 2.15, 0), ("absolute", 2, 9)])
def test_what_is_late_at_the_end_begins_where_its_timer_says(mode: str, seconds: float, behind: float) -> None:
    """Under a relative timer the last activation began a period after the one before, while that still ran.

    Method: all counts against the run's metrics; the first one's start is where the one before ended (relative), and
    what is behind is the sum over all of the time since they were due (absolute: 80 ms more each time).
    """
    timer = {"ref": "t", "period": 100_000, "mode": mode}
    work = opplab.Workload.parse(
        json.dumps({"tasks": {"t": {"cpus": [0], "loop": -1, "run": 180_000, "timer": timer}}})
    )
    run = opplab.simulate("xeon-6130-2s", work, opplab.Policy(governor="performance"), seconds=seconds)
    metrics = dict(run.metrics.select("metric", "value").iter_rows())
    whole, *_ = opplab.explain(run, task=run.tasks[0], why_slow=True).findings
    assert whole.data["activations"] == metrics["activations"]
    assert whole.data["slow"] == round(metrics["activations"] * metrics["missed_activations"] / 100)
    ended = run.events("activation")["time_ns"].to_list()
    if mode == "relative":
        assert whole.data["parts_ns"]["behind"] == 0
        # Work back to back: as long as all of it, less what is under way and not late.
        at_end_ns = seconds * 1e9 if metrics["unfinished_activations"] else ended[-1]
        assert whole.data["response_ns"] == pytest.approx(at_end_ns, rel=1e-3)
    else:
        begins = [0, *ended]
        due = [place * 1e8 for place in range(int(metrics["activations"]))]
        begun = [begins[place] if place < len(begins) else 2e9 for place in range(len(due))]
        by_hand = sum(at - when for at, when in zip(begun, due, strict=True))
        assert whole.data["parts_ns"]["behind"] == pytest.approx(by_hand, rel=1e-3)
        assert whole.data["parts_ns"]["behind"] == pytest.approx(behind * 1e9, rel=0.05)


def test_missing_switches_are_no_negative_sleep(tmp_path: Path) -> None:
    """A task was "-3890386 ns asleep until something woke it (-0.2 %)": states overlapped where switches are missing.

    Method: a trace without every fourth switch: each part is a time, and they add up. Then three cases by hand.
    """
    from opplab.explanation.response import Activation, Cpu, Timeline

    frames = opplab.Workload.periodic(9, run_us=4000, period_us=16000)
    machine = opplab.Machine.load("juno-r2")
    opplab.simulate(machine, frames, opplab.Policy(), seconds=1).to_trace(tmp_path / "whole.txt")
    nth, whole = itertools.count(), (tmp_path / "whole.txt").read_text(encoding="utf-8").splitlines()
    lines = [line for line in whole if ": sched_switch: " not in line or next(nth) % 4 != 1]
    holes = tmp_path / "holes.txt"
    holes.write_text("\n".join(lines) + "\n", encoding="utf-8")
    unseen = 0
    for pid, name in opplab.Trace(holes).task_names().items():
        if name.startswith("periodic"):
            found = opplab.explain(holes, machine=machine, task=str(pid), why_slow=True).findings
            parts = [one.data for one in found if "parts_ns" in one.data]
            assert all(min(one["parts_ns"].values()) >= 0 for one in parts)
            assert all(sum(one["parts_ns"].values()) == pytest.approx(one["response_ns"]) for one in parts)
            unseen += sum(one["parts_ns"]["unseen"] for one in parts)
    assert unseen > 0

    def states(*switches: tuple[int, int, int, bool, int]) -> list[tuple[int, int, str, int]]:
        wakes = [(90, 7, 0), (290, 7, 0)]
        *found, last = Timeline(switches, wakes, [], [(0, 0, 1000)], {0: Cpu(1000, 1.0)}, 0, {})._states(7)
        assert last[2] == "asleep"
        return found

    came = (100, 0, 0, True, 7)
    seen = [(0, 90, "asleep", 0), (90, 100, "waiting", 0), (100, 200, "running", 0)]
    # Another task leaves the CPU: by then this one had left, and it slept at some time before its next wake-up.
    again = [(300, 0, 0, True, 7), (350, 0, 7, False, 0)]
    after = [(200, 290, "unseen", 0), (290, 300, "waiting", 0), (300, 350, "running", 0)]
    assert states(came, (200, 0, 8, True, 0), *again) == [*seen, *after]
    # It leaves a CPU to which it did not come.
    assert states(came, (200, 0, 7, False, 0), (350, 1, 7, False, 0))[3:] == [(200, 350, "unseen", 1)]
    # It comes to another CPU, and no event shows that it left.
    assert states(came, (300, 1, 0, True, 7), (350, 1, 7, False, 0))[2:] == [
        (100, 300, "unseen", 1),
        (300, 350, "running", 1),
    ]
    assert Activation(90, 200) == Timeline([came, (200, 0, 7, False, 0)], [(90, 7, 0)], [], [], {}, 0, {}).awake(7)[0]


def test_idle_of_a_run_has_the_power_by_state() -> None:
    """Goal: what a run drew by state adds up to its energy, and its sleeps have the decisions of each idle governor."""
    for machine in ("juno-r2", "pixel6", "skylake-8x-uma"):
        run = opplab.simulate(
            machine, opplab.Workload.periodic(2, run_us=500, period_us=8000), opplab.Policy(variation="none"), seconds=1
        )
        rows = watts_by_state(run._inner)
        assert sum(row["power_w"] for row in rows) == pytest.approx(
            sum(run.outcome["cluster_energy_fj"]) / run.outcome["wall_ns"] / 1e6
        )
        assert all(row["power_w"] >= 0 and 0 <= row["time_pct"] <= 100.0001 for row in rows)
        own = {row["what"] for row in rows if row["cluster"] == rows[0]["cluster"]}
        assert ("WFI" in own) == (machine == "juno-r2")
        # A cluster that has no state of its own is not called awake while all of its CPUs sleep.
        sleeps = json.loads(run._inner.to_json())["machine"]["cluster"][0].get("cluster_idle")
        assert {"shared, awake" if sleeps else "shared, always"} == {one for one in own if one[:9] == "shared, a"}
        parts = Counter[tuple[str, bool]]()
        for row in rows:
            parts[row["cluster"], row["what"].startswith("shared")] += row["time_pct"]
        assert all(time == pytest.approx(100) for time in parts.values())
    for governor in ("menu", "teo", "ladder"):
        policy = opplab.Policy(idle_governor=governor)
        run = opplab.simulate("juno-r2", opplab.Workload.periodic(5, run_us=700, period_us=8000), policy, seconds=1)
        table, own = decisions_of_run(run._inner)
        assert own == governor and {"menu", "teo", own} <= set(table["governor"])
        # Asked and told what it was in the run, the run's own decides as in the run.
        assert table.filter(governor=own)["equal_share"].to_list() == [1.0] * table.filter(governor=own).height


def test_use_of_a_cpu_counts_whichever_governor_ran() -> None:
    """Goal: teo of v6.6 is asked with the CPUs' utilisation in a run of menu, too."""
    work = opplab.Workload.periodic(5, run_us=700, period_us=8000)

    def of_teo(**gates: str) -> list[object]:
        policy = opplab.Policy(kernel="6.6", idle_governor="menu", gates=gates)
        table, _ = decisions_of_run(opplab.simulate("juno-r2", work, policy, seconds=0.3)._inner)
        return table.filter(governor="teo")["below"].to_list()

    assert of_teo() != of_teo(teo_util="ignored")


@pytest.mark.parametrize(("machine", "known"), [("kaby-lake-i7-7500u", []), ("xeon-6130-2s", ["at work", "shared"])])
def test_power_of_idle_states_that_is_not_known_is_no_number(machine: str, known: list[str]) -> None:
    """No power at all, and none of idle states: what is left is what the machine file has."""
    work = opplab.Workload.periodic(3, run_us=1000, period_us=7000)
    rows = watts_by_state(opplab.simulate(machine, work, opplab.Policy(), seconds=0.1)._inner)
    told = {row["what"].partition(",")[0] for row in rows if row["power_w"] is not None}
    assert sorted(told) == known
    assert any(row["power_w"] is None and row["time_pct"] > 10 for row in rows)


def test_idle_of_a_case_is_told_without_a_machine(tmp_path: Path) -> None:
    run = simulate(2, 4000)
    (tmp_path / "case.json").write_text(run._inner.to_json())
    done = answered("explain", tmp_path / "case.json", "--idle", "--format", "json")
    found = json.loads(done.stdout)
    assert found["decisions"] and found["power"]


@pytest.mark.parametrize(
    ("machine", "policy", "offline"),
    [
        ("juno-r2", {"offline_cpus": [1, 2]}, {1: "offline_cpus", 2: "offline_cpus"}),
        ("skylake-8x-uma", {"nosmt": True}, dict.fromkeys(range(4, 8), "nosmt")),
        ("juno-r2", {"changes": [{"at_ms": 200, "offline_cpus": [5]}]}, {5: "offline_cpus"}),
    ],
)
def test_a_cpu_that_is_offline_is_told(machine: str, policy: dict[str, Any], offline: dict[int, str]) -> None:
    """Goal: a CPU without clock and tasks is said to be offline, and by which key, from when on it is."""
    made = opplab.simulate(
        machine, opplab.Workload.periodic(3, run_us=1600, period_us=16000), opplab.Policy(**policy), seconds=0.4
    )
    for cpu, at in itertools.product(range(opplab.Machine.load(machine).nr_cpus), (0.1, 0.3)):
        told = next(iter(opplab.explain(made, cpu=cpu, at=at)))
        is_off = cpu in offline and ("changes" not in policy or at > 0.2)
        assert told.kind == ("offline" if is_off else "running")
        if is_off:
            assert f"CPU {cpu} is offline ({offline[cpu]})" in told.text


def test_a_cpu_that_comes_online_has_no_clock_before_an_event_names_it() -> None:
    """Goal: a policy without CPUs at the start has no event of its clock; once one is online, that is said."""
    changes = [{"at_ms": 100, "offline_cpus": [2], "scaling_max_freq": 900_000}]
    policy = opplab.Policy(offline_cpus=[1, 2], changes=changes)
    made = opplab.simulate("juno-r2", opplab.Workload.periodic(3, run_us=1600, period_us=16000), policy, seconds=0.3)
    assert not made.events("cpu_frequency").filter(pl.col("cpu") == 1).height
    running = next(iter(opplab.explain(made, cpu=1, at=0.2)))
    assert running.data["khz"] is None
    assert "at a clock that no event has named yet" in running.text


def test_a_change_of_governor_or_limit_is_why_a_clock_is_as_it_is() -> None:
    """Goal: a clock after a change in a run is explained by that change, not by the governor's decisions before it.

    Method: the clocks by hand: performance has the highest, powersave the lowest, a limit the highest below it.
    """
    changes = [
        {"at_ms": 100, "governor": "performance"},
        {"at_ms": 200, "governor": "powersave"},
        {"at_ms": 300, "governor": "conservative", "tunables": {"freq_step": "10"}},
    ]
    work = opplab.Workload.periodic(8, run_us=3000, period_us=16000)
    made = opplab.simulate("juno-r2", work, opplab.Policy(governor="ondemand", changes=changes), seconds=0.6)
    for at, name, khz in ((0.15, "performance", 950_000), (0.25, "powersave", 450_000)):
        running, change = list(opplab.explain(made, cpu=0, at=at))[:2]
        assert (change.kind, change.data["set"]) == ("change", {"governor": name})
        assert running.data["khz"] == change.data["granted_khz"] == khz
        assert not [one for one in opplab.explain(made, cpu=0, at=at) if one.kind == "frequency"]
    assert [one.kind for one in opplab.explain(made, cpu=0, at=0.09)][1] == "frequency"
    found = {one.kind: one for one in opplab.explain(made, cpu=0, at=0.55)}
    assert "governor=conservative, freq_step=10" in found["change"].text
    assert "conservative took a sample" in found["frequency"].text

    changes = [{"at_ms": 100, "scaling_max_freq": 900_000}]
    work = opplab.Workload.periodic(8, run_us=15_000, period_us=16000)
    limited = opplab.simulate("juno-r2", work, opplab.Policy(changes=changes), seconds=0.3)
    found = {one.kind: one for one in opplab.explain(limited, cpu=0, at=0.2)}
    assert "the run set scaling_max_freq=900000" in found["change"].text
    assert found["running"].data["khz"] == 800_000
    assert all(one.time_ns >= 100_000_000 for one in found.values() if one.kind in ("frequency", "delivery"))


def test_a_request_for_the_same_clock_is_not_instead_of_it() -> None:
    """Goal: a superfluous request has its reason. Method: a limit that binds nothing makes schedutil ask anew."""
    policy = opplab.Policy(kernel="6.1", changes=[{"at_ms": 100, "scaling_max_freq": 2_000_000}])
    made = opplab.simulate("juno-r2", opplab.Workload.periodic(8, run_us=3000, period_us=16000), policy, seconds=0.3)
    same = (pl.col("outcome") == 4) & (pl.col("next_khz") == pl.col("prev_khz"))
    (*_, row) = made.events("sugov_decision").filter(same).to_dicts()
    found = {one.kind: one for one in opplab.explain(made, cpu=row["policy_cpu"], at=row["time_ns"] / 1e9)}
    assert found["frequency"].time_ns == row["time_ns"]
    assert "the same as before: deadline bandwidth or a limit changed" in found["frequency"].text
    assert "instead of" not in found["frequency"].text


def test_a_change_of_a_run_is_of_the_policies_that_it_reaches() -> None:
    """Goal: a limit of one cluster, or CPUs of one that come, are no reason for a clock of the other.

    Method: the requests by the kernel's rules. A governor asks anew where a limit of its own policy was written, and
    for the first time where CPUs of its policy came (cpufreq.c:cpufreq_set_policy(), cpufreq_add_policy_cpu(), v6.12).
    """
    changes = [
        {"at_ms": 100, "offline_cpus": [1, 2]},
        {"at_ms": 200, "scaling_max_freq": {"A53": 700_000}},
        {"at_ms": 300, "offline_cpus": []},
    ]
    work = opplab.Workload.periodic(6, run_us=3000, period_us=16000)
    made = opplab.simulate("juno-r2", work, opplab.Policy(kernel="6.6", changes=changes), seconds=0.5)
    asked = made.events("sugov_decision").filter(pl.col("outcome") == 4)
    little, big = (
        asked.filter((pl.col("policy_cpu") == cpu) & (pl.col("time_ns") > 200_000_000)).sort("time_ns").to_dicts()
        for cpu in (0, 1)
    )
    assert [row["next_khz"] for row in little] == [450_000]
    assert big[0]["time_ns"] >= 300_000_000
    assert big[0]["prev_khz"] == 0

    limit, *_ = (one for one in opplab.explain(made, cpu=0, at=0.4) if one.kind == "change")
    assert limit.data["set"] == {"scaling_max_freq": 700_000}
    assert "the run set scaling_max_freq=700000; the clock became 450 MHz" in limit.text
    came, *others = (one for one in opplab.explain(made, cpu=1, at=0.4) if one.kind == "change")
    assert "the run set offline_cpus=none" in came.text
    assert not others
    assert not [one for one in opplab.explain(made, cpu=0, at=0.15) if one.kind == "change"]


def test_where_a_task_ran_in_a_trace_is_named_where_its_rerun_has_it_elsewhere(tmp_path: Path) -> None:
    """CPUs that are alike are a matter of chance: a rerun had 797 of 798 wake-ups on CPU 0, the trace 782 on CPU 3."""
    from opplab.explanation.findings import Finding
    from opplab.explanation.recordings import _ran_elsewhere

    workload = opplab.Workload.periodic(3, run_us=2000, period_us=16000)
    run = opplab.simulate(opplab.Machine.load("juno-r2"), workload, opplab.Policy(), seconds=1.0)
    trace = tmp_path / "run.dat"
    run.to_trace(trace)
    switches = opplab.read_trace(trace).events("sched_switch")
    pid = switches.filter(pl.col("next_pid") > 0)["next_pid"].mode()[0]
    cpus = {str(cpu): count for cpu, count in switches.filter(next_pid=pid)["cpu"].value_counts().iter_rows()}
    placed = Finding(0, "summary", "", {"cpus": {"77": 10}})
    (found,) = _ran_elsewhere(trace, pid, placed)
    assert found.data["cpus"] == cpus
    assert f"began to run {sum(cpus.values())} times" in found.text
    assert not _ran_elsewhere(trace, pid, Finding(0, "summary", "", {"cpus": cpus}))


def test_a_clamp_slows_its_cpu_though_another_asks_for_more() -> None:
    """Two steady tasks, one with a cap: "work grew faster than load tracking follows" stood beside 152 ms lost."""
    timer = {"ref": "unique", "period": 16667, "mode": "absolute"}
    tasks = {
        "rt": {"loop": -1, "run": 6500, "timer": timer, "util_max": 150},
        "ui": {"loop": -1, "run": 4200, "timer": timer},
    }
    machine = opplab.Machine.load("sdm670")

    def lost_ns(**keys: Any) -> Counter[str]:
        workload = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
        rows = opplab.simulate(machine, workload, opplab.Policy(**keys), seconds=4.0)
        slow = [one.data for one in opplab.explain(rows, why_slow=True) if one.kind == "slow"]
        return Counter({one["reason"]: one["lost_ns"] for one in slow})

    capped, free = lost_ns(), lost_ns(gates={"uclamp": "absent"})
    # What is left of that is the other task's, whose clock the capped one no longer lifts.
    assert capped["uclamp"] > 3 * capped["ramp"], capped
    assert free["uclamp"] == 0 and sum(free.values()) < 0.05 * sum(capped.values())


def test_who_counts_as_late_is_not_outside_of_the_counts(tmp_path: Path) -> None:
    """A task that is awake for most of a trace has no deadline there, but recovered timers: its misses counted, and the
    answer denied it.

    Method: a text of two periodic tasks on one CPU, one of them mostly awake.
    """
    events: list[tuple[int, str]] = []
    switch = (
        "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={} ==> next_comm={} next_pid={} next_prio=120"
    )
    busy, light, idle = ("busy", 7), ("light", 8), ("swapper/0", 0)
    for nth in range(60):
        for (name, pid), now_us, run_us in ((busy, nth * 20_000, 14_000), (light, nth * 20_000 + 15_000, 900)):
            wakes = f"sched_waking: comm={name} pid={pid} prio=120 target_cpu=000"
            events += [
                (now_us, wakes),
                (now_us + 10, switch.format(*idle, "R", name, pid)),
                (now_us + 10 + run_us, switch.format(name, pid, "S", *idle)),
            ]
    clocks = [f"x-0 [000] 1.000000: cpu_frequency: state=950000 cpu_id={cpu}\n" for cpu in (0, 3, 4, 5)]
    lines = [f"x-0 [000] {1 + us / 1e6:.6f}: {event}\n" for us, event in sorted(events, key=lambda event: event[0])]
    path = tmp_path / "run.txt"
    path.write_text("".join([*clocks, *lines]))
    (summary,) = [
        finding["text"]
        for finding in json.loads(answered("explain", path, "-m", "juno-r2", "--why-slow", "--format", "json").stdout)[
            "findings"
        ]
        if finding["kind"] == "summary"
    ]
    counted = int(re.search(r"of (\d+) activations were missed", summary)[1])  # type: ignore[index]
    assert counted > 60, "both tasks count"
    assert "Outside of these counts" not in summary


def test_a_governor_that_is_assumed_is_not_stated(tmp_path: Path) -> None:
    """A trace without a clock has no decision; its reason stated the governor that was only assumed."""
    switch = (
        "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state=S ==> next_comm={} next_pid={} next_prio=120"
    )
    path = tmp_path / "run.txt"
    ran = [("swapper/0", 0, "a", 7), ("a", 7, "swapper/0", 0)] * 3
    path.write_text("".join(f"x-0 [000] {nth}.5: {switch.format(*of)}\n" for nth, of in enumerate(ran, 1)))
    assert "and performance is assumed, which" in str(called("explain", path, "-m", "juno-r2", "--cpu", "0").exception)
    stated = called("explain", path, "-m", "juno-r2", "--cpu", "0", "--recorded-governor", "ondemand")
    assert "and the governor is ondemand, which" in str(stated.exception)


def test_an_instance_of_rtapp_is_named_by_its_number() -> None:
    one = {"loop": -1, "run": 500, "timer": {"ref": "unique", "period": 20_000}}
    work = opplab.Workload.parse(json.dumps({"tasks": {"a": one, "b": {"instance": 2, **one}}}), name="w", file="<w>")
    records = Records(case_of(opplab.simulate("juno-r2", work, seconds=0.1)))
    first, second = (index for index, name in enumerate(records.names) if name.startswith("b-"))
    assert [task_index(records, f"b#{number}") for number in (0, 1)] == [first, second]
    for wrong in ("b#2", "b#x", "b#"):
        with pytest.raises(opplab.errors.InputError):
            task_index(records, wrong)


def test_the_middle_of_an_events_name_is_near_it(juno: opplab.Run) -> None:
    with pytest.raises(opplab.errors.InputError, match="did you mean `sched_overutilized_tp`"):
        juno.events("overutilized")
