"""Results by control group: the block, Parquet and the meters hold the same numbers."""

import json
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab.trace import damage

from calls import answered
from wire import many, one

EXPERIMENT = """format = 1
name = "quota"
machine = "juno-r2"
baseline = "none"
iterations = 2
duration = "500ms"
[defaults]
kernel = "6.12.117"
[[policy]]
label = "none"
[[policy]]
label = "quota"
[[group]]
name = "/batch"
tasks = ["hog*"]
policies = ["none"]
[[group]]
name = "/batch"
tasks = ["hog*"]
policies = ["quota"]
max = "20000 100000"
[[group]]
name = "/web"
tasks = ["web*"]
[[workload]]
label = "mix"
rtapp = "mix.json"
"""
WORKLOAD = """{"global": {"duration": 1, "calibration": "CPU0"}, "tasks": {
  "hog": {"instance": 4, "loop": -1, "run": 20000},
  "web": {"instance": 6, "loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 10000}}}}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("groups")
    (made / "quota.toml").write_text(EXPERIMENT)
    (made / "mix.json").write_text(WORKLOAD)
    return made


def test_block_and_parquet_have_what_each_group_used(folder: Path) -> None:
    words = ["run", str(folder / "quota.toml"), "-o", str(folder / "out")]
    done = answered(*words, columns=140)
    block = done.output.splitlines()
    results = pl.read_parquet(folder / "out" / "results.parquet")
    mean = {
        (policy, metric): value
        for policy, metric, value in results.group_by("policy", "metric").agg(pl.col("value").mean()).iter_rows()
    }
    # A fifth of a CPU, and the slice that each CPU may take beyond it once a period.
    assert 0.5 * 0.2 <= mean["quota", "group_usage:/batch"] <= 0.5 * 0.2 + 5 * 6 * 0.005
    assert mean["quota", "group_periods:/batch"] == 5
    assert mean["quota", "group_throttled_periods:/batch"] >= 80
    assert ("none", "group_periods:/batch") not in mean
    for policy in ("none", "quota"):
        parts = [mean[policy, f"group_energy:{group}"] for group in ("/batch", "/web")]
        assert 0.5 * mean[policy, "energy"] < sum(parts) < mean[policy, "energy"]
        for group, used in zip(("/batch", "/web"), parts, strict=True):
            row = next(line.split() for line in block if line.split()[:2] == [policy, group])
            assert float(row[2]) == pytest.approx(mean[policy, f"group_usage:{group}"], rel=1e-3)
            assert float(row[3]) in (pytest.approx(used, rel=1e-3), pytest.approx(1000 * used, rel=1e-3))
    # The hog does less: that is not energy saved.
    assert block[1].startswith("quota: energy/work ")
    assert any("less work than none." in line for line in block[:4])
    assert "a group's energy has equal parts of what awake clusters share" in " ".join(done.output.split())


def test_perfetto_has_groups_as_processes_and_their_cpus(tmp_path: Path) -> None:
    """Goal: the time under a group's counter is what `cpu.stat` says the group used."""
    text = WORKLOAD.replace('"tasks"', '"groups": {"/top/batch": {"max": "20000 100000"}}, "tasks"')
    text = text.replace('"hog": {', '"hog": {"taskgroup": "/top/batch", ')
    text = text.replace('"web": {', '"web": {"taskgroup": "/top", ')
    run = opplab.simulate("juno-r2", opplab.Workload.parse(text), "schedutil", seconds=0.3)
    run.to_perfetto(tmp_path / "run.pftrace")
    processes: dict[int, str] = {}
    threads: dict[str, int] = {}
    names: dict[int, str] = {}
    points: dict[str, list[tuple[int, int]]] = {}
    for packet in many((tmp_path / "run.pftrace").read_bytes(), 1):
        if (tree := one(packet, 2)) is not None:
            processes.update({one(process, 1): one(process, 3).decode() for process in many(tree, 1)})
            threads.update({one(thread, 2).decode(): one(thread, 3) for thread in many(tree, 2)})
        if (descriptor := one(packet, 60)) is not None:
            names[one(descriptor, 1)] = one(descriptor, 2).decode()
        if (event := one(packet, 11)) is not None and names[one(event, 11)].startswith("CPUs of group "):
            points.setdefault(names[one(event, 11)][14:], []).append((one(packet, 8), one(event, 30) or 0))
    assert {task: processes[threads[task]] for task in ("hog-0", "web-4")} == {"hog-0": "/top/batch", "web-4": "/top"}
    assert threads["sugov:0"] not in processes
    used = dict(run.metrics.select("metric", "value").iter_rows())
    for group, counts in points.items():
        ends = [time for time, _ in counts[1:]] + [300_000_000]
        busy = sum(value * (end - start) for (start, value), end in zip(counts, ends, strict=True))
        assert busy / 1e9 == pytest.approx(used[f"group_usage:{group}"], rel=1e-9)
    assert set(points) == {"/top", "/top/batch"}


def test_a_quota_is_a_reason(folder: Path) -> None:
    """`--why-slow` names the groups that were throttled, with the numbers of `cpu.stat`, and that the quota acts."""
    out = folder / "why"
    answered("run", folder / "quota.toml", "-o", out)
    results = pl.read_parquet(out / "results.parquet").filter(
        (pl.col("policy") == "quota") & (pl.col("iteration") == 0)
    )
    measured = dict(results.select("metric", "value").iter_rows())
    found = opplab.explain(f"{out}:quota #0", why_slow=True)
    (quota,) = [one.data for one in found if one.kind == "quota"]
    assert quota["group"] == "/batch"
    assert quota["throttled_ns"] / 1e9 == pytest.approx(measured["group_throttled:/batch"])
    assert 100 * quota["nr_throttled"] / quota["nr_periods"] == pytest.approx(
        measured["group_throttled_periods:/batch"]
    )
    (limit,) = [one.data["limit"] for one in found if one.kind == "limit"]
    assert limit == "quota"
    assert not [one for one in opplab.explain(f"{out}:none #0", why_slow=True) if one.kind == "quota"]


@pytest.mark.parametrize(
    ("governor", "at"), [("powersave", "at these clocks: at the highest ones"), ("performance", "")]
)
def test_a_quota_that_acts_at_low_clocks_only_says_so(governor: str, at: str, tmp_path: Path) -> None:
    """Goal: 0.8 CPUs of work fit into a quota of 0.9 at the highest clocks, and not at the lowest."""
    tasks = {"req": {"instance": 8, "loop": -1, "taskgroup": "/svc", "run": 2000}}
    tasks["req"]["timer"] = {"ref": "unique", "period": 20000, "mode": "absolute"}
    groups = {"/svc": {"max": "90000 100000"}}
    settings = {"duration": 1, "calibration": "CPU0"}
    (tmp_path / "w.json").write_text(json.dumps({"global": settings, "groups": groups, "tasks": tasks}))
    words = ["run", str(tmp_path / "w.json"), "-m", "skylake-8x-uma", "--governor", governor]
    answered(*words, "-o", tmp_path / "out", "--no-report", "--iterations", "1")
    said = " ".join(one.text for one in opplab.explain(f"{tmp_path / 'out'}:{governor} #0", why_slow=True))
    assert ("Quotas of control groups decide the rate" in said) == bool(at)
    assert at in said
    assert "whatever the clock" not in said


def test_a_page_of_a_run_with_groups_does_not_say_that_they_are_not_followed(tmp_path: Path) -> None:
    """Its utilisation is the run's own; a recording without a snapshot keeps the note."""
    file = tmp_path / "load.json"
    task = {"loop": -1, "run": 6000, "taskgroup": "/svc", "timer": {"ref": "unique", "period": 16000}}
    groups = {"/svc": {"max": "20000 100000"}}
    file.write_text(json.dumps({"global": {"duration": 1}, "groups": groups, "tasks": {"web": task}}))
    run = opplab.simulate("juno-r2", file, opplab.Policy(), seconds=1)
    with damage.collected() as noted:
        page = run.view(tmp_path / "run.html")
    assert not noted.remarks
    assert "control groups" not in page.read_text()
