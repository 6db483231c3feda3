"""`workload from-cgroup` and `from-pod`: what is in the files that they write, and that these run."""

from __future__ import annotations

import io
import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import cgroup_trees
import polars as pl
import pytest

import opplab
from opplab.groups import cgroupfs, pods

from calls import answered, called


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return cgroup_trees.v2(tmp_path / "tree")


def written(words: list[str], out: Path) -> tuple[dict[str, Any], str]:
    """Run a command, and read the workload that it writes and what it says."""
    done = answered("workload", *words, "-o", out, columns=80)
    assert max(map(len, done.stdout.splitlines())) <= 80
    return json.loads(re.sub(r"^\s*//[^\n]*\n|/\*.*?\*/", "", out.read_text(), flags=re.MULTILINE)), done.output


def refused(words: list[str]) -> str:
    done = called("workload", *words)
    assert done.exit_code not in {0, 70}
    return done.output + str(done.exception or "")


def test_settings_of_v2_are_those_of_the_files(tree: Path, tmp_path: Path) -> None:
    made, said = written(["from-cgroup", str(tree)], tmp_path / "w.json")
    assert made["groups"] == {
        "/machine.slice/vm": {},
        "/system.slice": {},
        "/system.slice/batch.service": {"idle": True},
        "/system.slice/nginx.service": {"weight": 200, "max": "50000 100000", "burst_us": 10000},
        "/user.slice": {"uclamp_max": "50.00", "cpus": "0-1"},
        '/user.slice/od?[31md"*?x': {},
    }
    # worker has no files of the cpu controller: the kernel schedules its thread in nginx.service.
    of = {name: (task["taskgroup"], task["instance"]) for name, task in made["tasks"].items()}
    assert of["helper"] == ("/system.slice/nginx.service", 1)
    assert of["nginx"] == ("/system.slice/nginx.service", 3)
    assert 'user.slice/od?[31md"*?x/cpu.max: `bad` is no value of it' in said
    assert "machine.slice/vm/cpu.weight: empty" in said
    assert "\x1b" not in said + (tmp_path / "w.json").read_text()
    assert "50000 us of 100000 us: 0.5 CPUs" in (tmp_path / "w.json").read_text()


def test_an_isolated_partition_keeps_its_cpus_and_others_are_named(tree: Path, tmp_path: Path) -> None:
    for name, kind in (("user.slice", "isolated"), ("user.slice/empty", "isolated"), ("machine.slice/vm", "root")):
        (tree / "sys/fs/cgroup" / name / "cpuset.cpus.partition").write_text(f"{kind}\n")
    made, said = written(["from-cgroup", str(tree)], tmp_path / "w.json")
    assert made["groups"]["/user.slice"] == {"uclamp_max": "50.00", "cpus": "0-1", "partition": "isolated"}
    assert not any("partition" in of for name, of in made["groups"].items() if name != "/user.slice")
    assert "2 partitions are kept as CPU sets, not as domains: /machine.slice/vm (root)" in " ".join(said.split())


def test_real_time_groups_and_domains_of_v1_are_named(tmp_path: Path) -> None:
    tree = cgroup_trees.v1(tmp_path / "tree")
    _, said = written(["from-cgroup", str(tree)], tmp_path / "plain.json")
    assert "rt_runtime" not in said
    assert "partitions" not in said
    (tree / "cpu,cpuacct/cpu.rt_runtime_us").write_text("950000\n")
    (tree / "cpu,cpuacct/docker/cpu.rt_runtime_us").write_text("-1\n")
    (tree / "cpu,cpuacct/docker/web/cpu.rt_runtime_us").write_text("400000\n")
    (tree / "cpuset/cpuset.sched_load_balance").write_text("0\n")
    _, said = written(["from-cgroup", str(tree)], tmp_path / "named.json")
    said = " ".join(said.split())
    assert "/docker: cpu.rt_runtime_us -1 is not simulated; each CPU has one queue of real-time tasks" in said
    assert "/docker/web: cpu.rt_runtime_us 400000 is not simulated" in said
    assert "950000" not in said
    assert "1 partitions are kept as CPU sets, not as domains: / (cpuset.sched_load_balance 0)" in said


def test_an_archive_gives_what_its_folder_gives(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "tree.tgz", "w:gz") as archive:
        archive.add(tree, "host/")
        hostile = tarfile.TarInfo("../../etc/cpu.weight")
        hostile.size = 4
        archive.addfile(hostile, io.BytesIO(b"1000"))
    plain, _ = written(["from-cgroup", str(tree)], tmp_path / "a.json")
    packed, _ = written(["from-cgroup", str(tmp_path / "tree.tgz")], tmp_path / "b.json")
    assert plain == packed


def snapshot_of(tree: Path, form: str) -> str:
    lines = []
    for file in sorted(one for one in tree.rglob("*") if one.is_file()):
        name, text = f"/{file.relative_to(tree)}", file.read_text()
        match form:
            case "recording":
                lines.append(f"{name}: {text.strip().replace(chr(10), '|')}|\n")
            case "grep":
                lines += [f"{name}:{line}\n" for line in text.splitlines() if line]
            case _:
                lines.append(f"==> {name} <==\n{text}\n")
    return "".join(lines)


@pytest.mark.parametrize("form", ["recording", "grep", "tail"])
def test_a_text_snapshot_gives_what_its_tree_gives(tmp_path: Path, form: str) -> None:
    tree = cgroup_trees.v2(tmp_path / "tree")
    odd = next((tree / "sys/fs/cgroup/user.slice").glob("od*"))
    odd.rename(odd.with_name("plain"))
    (tree / "sys/fs/cgroup/machine.slice/vm/cpu.weight").write_text("70\n")
    (tmp_path / "cgroup.txt").write_text(snapshot_of(tree, form))
    of_tree, _ = written(["from-cgroup", str(tree)], tmp_path / "a.json")
    of_text, _ = written(["from-cgroup", str(tmp_path / "cgroup.txt")], tmp_path / "b.json")
    assert of_text == of_tree


def test_a_recordings_own_snapshot_is_read() -> None:
    data = Path(__file__).parents[2] / "crates/verify/tests/data/groups/x86-612-groups-quota3"
    found = cgroupfs.read(data / "cgroup_before.txt", keep_empty=True)
    quotas = {one.name: one.settings["max"] for one in found.groups if "max" in one.settings}
    assert quotas == {"/q1": "10000 25000", "/q2": "30000 50000", "/q3": "80000 100000"}


def test_what_is_no_snapshot_is_refused_with_the_form(tmp_path: Path) -> None:
    for text in ("hello\n", "", "/etc/passwd: x\n", "/sys/fs/cgroup/a/cgroup.procs: 1|\n"):
        (tmp_path / "odd.txt").write_text(text)
        said = " ".join(refused(["from-cgroup", str(tmp_path / "odd.txt")]).split())
        assert "no tar archive and no snapshot" in said, said
        assert "/sys/fs/cgroup/web/cpu.max: 20000 100000" in said, said
    (tmp_path / "cut.tar").write_bytes(b"\x1f\x8b\x08" + bytes(40))
    assert "snapshot" in refused(["from-cgroup", str(tmp_path / "cut.tar")])


def test_v1_has_its_own_files(tmp_path: Path) -> None:
    made, _ = written(["from-cgroup", str(cgroup_trees.v1(tmp_path / "v1"))], tmp_path / "w.json")
    assert made["groups"] == {"/docker": {}, "/docker/web": {"shares": 512, "max": "20000 50000", "cpus": "2-3"}}
    assert made["tasks"]["web"]["instance"] == 2


def test_depth_folds_and_only_selects(tree: Path, tmp_path: Path) -> None:
    made, said = written(["from-cgroup", str(tree), "--depth", "1"], tmp_path / "a.json")
    assert set(made["groups"]) == {"/system.slice", "/user.slice"}
    assert sum(task["instance"] for task in made["tasks"].values() if task["taskgroup"] == "/system.slice") == 6
    assert "--depth" in said
    made, said = written(["from-cgroup", str(tree), "--only", "*/nginx*"], tmp_path / "b.json")
    assert set(made["groups"]) == {"/system.slice", "/system.slice/nginx.service"} and "left out" in said
    assert "no group is called so" in refused(["from-cgroup", str(tree), "--only", "x"])


def test_tasks_of_a_workload_are_put_in_groups(tree: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.json"
    mine.write_text('/* {mine} */ {"tasks": {"hog": {"loop": -1, "run": 500, "run": 700}}}')
    words = ["from-cgroup", str(tree), "-w", str(mine), "--put", "hog=nginx.service"]
    _, said = written(words, tmp_path / "w.json")
    assert "gets one" not in said
    text = (tmp_path / "w.json").read_text()
    assert '"tasks": ["hog"]' in text and '"run": 500, "run": 700' in text
    assert "near: /system.slice/nginx.service" in refused([*words[:-1], "hog=ngnix.service"])
    assert "hog" in refused([*words[:-1], "hgo=/user.slice"])
    assert "needs --workload" in refused(["from-cgroup", str(tree), "--put", "a=/user.slice"])


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    assert "no cgroup below the root has files" in refused(["from-cgroup", str(tmp_path)])
    (tmp_path / "x.tar").write_bytes(b"no archive")
    assert "no folder, no tar archive and no snapshot" in refused(["from-cgroup", str(tmp_path / "x.tar")])


def test_an_experiment_has_the_groups_and_runs(tree: Path, tmp_path: Path) -> None:
    words = ["workload", "from-cgroup", str(tree), "-m", "juno-r2", "--seconds", "1", "-o", str(tmp_path / "g.toml")]
    answered(*words)
    text = (tmp_path / "g.toml").read_text()
    assert '[[group]]\nname = "/system.slice/nginx.service"\nweight = 200\nmax = "50000 100000"\n' in text
    answered("run", tmp_path / "g.toml", "--no-report", "-o", tmp_path / "out")


PODS = Path(__file__).parents[1] / "data" / "pods.yaml"
SLACK = 6 * (0.005 + 0.004)
"""What a run may have beyond its quota, s: each of six CPUs keeps a slice of 5 ms, and stops at its tick of 4 ms."""
WEB = "/kubepods/burstable/pod-web"


def test_pods_have_what_kubelet_and_the_runtime_write(tmp_path: Path) -> None:
    made, said = written(["from-pod", str(PODS)], tmp_path / "w.json")
    assert made["groups"] == {
        "/kubepods": {},
        # Limits alone are requests as well: Guaranteed. 1024 shares are weight 100.
        "/kubepods/pod-db": {"weight": 100, "max": "100000 100000"},
        "/kubepods/pod-db/pg": {"weight": 100, "max": "100000 100000"},
        # The init container's 900m are more than 250m + 100m + 100m: 921 shares.
        "/kubepods/burstable": {"weight": 93},
        WEB: {"weight": 93},
        f"{WEB}/proxy": {"weight": 17, "max": "20000 100000"},
        f"{WEB}/nginx": {"weight": 35, "max": "50000 100000"},
        f"{WEB}/logger": {"weight": 17},
        "/kubepods/besteffort": {"weight": 1},
        "/kubepods/besteffort/pod-batch": {"weight": 1},
        "/kubepods/besteffort/pod-batch/work": {"weight": 1},
    }
    for words in ("shares 250 * 1024 / 1000 = 256", "quota 500 * 100000 / 1000 = 50000 us", "QoS class Guaranteed"):
        assert words in said and words in (tmp_path / "w.json").read_text()
    for words in ("migrate", "one pod of 3 replicas", "Service db: no pods", "memory is not simulated"):
        assert words in said


@pytest.mark.parametrize(
    ("words", "pod", "container"),
    [
        (["--kubelet", "1.34"], 36, 10),
        (["--kubelet", "1.34", "--runtime", "runc-1.3.2"], 36, 35),
        (["--kubelet", "v1.35.1", "--runtime", "crun-1.22"], 93, 10),
        (["--kubelet", "1.36"], 93, 35),
    ],
)
def test_weights_are_those_of_the_release(words: list[str], pod: int, container: int, tmp_path: Path) -> None:
    groups = written(["from-pod", str(PODS), *words], tmp_path / "w.json")[0]["groups"]
    assert (groups[WEB]["weight"], groups[f"{WEB}/nginx"]["weight"]) == (pod, container)


def test_both_formulas_meet_published_values() -> None:
    """Goal: values that others printed (opencontainers/runc#4772, #4896, and the ends of both ranges)."""
    assert [pods.weight_linear(shares) for shares in (2, 1024, 2000, 262144)] == [1, 39, 77, 10000]
    assert [pods.weight_log(shares) for shares in (2, 1024, 2000, 262144)] == [1, 100, 170, 10000]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no pod"),
        ("kind: Service", "no pod"),
        ("kind: Pod\nspec:\n  containers:\n  - {name: a, resources: {limits: {cpu: 5OOm}}}", "x.yaml:4:41: `5OOm`"),
        ("kind: Pod\nspec:\n  containers: 3", "x.yaml:3:15: `containers` is no list"),
        ("kind: Pod\nspec: {containers: [}", "x.yaml:2:21"),
        ("kind: Pod\nspec: \v{}", "x.yaml:2:7: the character U+000B"),
        ("kind: Pod\nspec: &a {containers: [*a]}", "holds itself"),
        (
            "kind: Pod\nspec: {containers: [{resources: {requests: {cpu: 2}, limits: {cpu: 1}}}]}",
            "the request of cpu is more than the limit",
        ),
        ('{"kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"cpu": true}}}]}}', "no quantity"),
        ("a: !!python/object/apply:os.system [ls]", "no pod"),
    ],
)
def test_what_is_no_pod_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert said in refused(["from-pod", str(tmp_path / "x.yaml")])


def test_json_and_lists_are_read_as_yaml_is(tmp_path: Path) -> None:
    container = {"name": "a", "resources": {"requests": {"cpu": 0.1}, "limits": {"cpu": "1500m"}}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    (tmp_path / "p.json").write_text(json.dumps({"kind": "PodList", "items": [pod, pod]}))
    made, _ = written(["from-pod", str(tmp_path / "p.json")], tmp_path / "w.json")
    assert made["groups"]["/kubepods/burstable/pod-p~2/a"] == {"weight": 17, "max": "150000 100000"}
    assert made["tasks"]["a"]["instance"] == 2


def test_threads_are_those_that_are_written(tmp_path: Path) -> None:
    """Goal: table, notes and file agree. Method: a limit of 32 CPUs, one of 2, and a group of 40 threads."""

    def container(name: str, cpus: int) -> dict[str, object]:
        return {"name": name, "resources": {"limits": {"cpu": cpus}}}

    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [container("big", 32), container("web", 2)]},
    }
    (tmp_path / "p.json").write_text(json.dumps(pod))
    for words, threads in (([], 16), (["--tasks", "64"], 33), (["--run", "100"], 16)):
        made, said = written(["from-pod", str(tmp_path / "p.json"), *words, "--force"], tmp_path / "w.json")
        assert (made["tasks"]["big"]["instance"], made["tasks"]["web"]["instance"]) == (threads, 3)
        assert f"/kubepods/burstable/pod-p/big  {threads}" in re.sub(r"(/big) .* (\d+)\n", r"\1  \2\n", said)
        note = "/pod-p/big: 16 of 33 threads are written (--tasks 16); 16 threads cannot reach its limit of 32 CPUs"
        assert (note in said) == (threads < 33)
        assert said.count("cannot reach") == (threads < 33)
    (tmp_path / "tree" / "a").mkdir(parents=True)
    (tmp_path / "tree" / "a" / "cpu.weight").write_text("100\n")
    (tmp_path / "tree" / "a" / "cgroup.threads").write_text("".join(f"{tid}\n" for tid in range(100, 140)))
    made, said = written(["from-cgroup", str(tmp_path / "tree")], tmp_path / "c.json")
    assert sum(task["instance"] for task in made["tasks"].values()) == 16
    assert "note: /a: 16 of 40 threads are written (--tasks 16)\n" in said
    assert re.search(r"^/a +16$", said, re.MULTILINE)


@pytest.mark.parametrize("kind", ["Job", "CronJob"])
def test_pods_that_run_at_once_are_named(kind: str, tmp_path: Path) -> None:
    job = {"parallelism": 4, "template": {"spec": {"containers": [{"name": "a"}]}}}
    spec = {"jobTemplate": {"spec": job}} if kind == "CronJob" else job
    (tmp_path / "j.json").write_text(json.dumps({"kind": kind, "metadata": {"name": "j"}, "spec": spec}))
    _, said = written(["from-pod", str(tmp_path / "j.json")], tmp_path / "w.json")
    assert "note: j: one pod of 4 that run at once is here" in said


def means(folder: Path) -> dict[str, float]:
    rows = pl.read_parquet(folder / "results.parquet").group_by("metric").agg(pl.col("value").mean()).iter_rows()
    return dict(rows)


def test_a_pod_is_throttled_at_its_limit(tmp_path: Path) -> None:
    """Goal: 500m of a CPU are 50 ms of each 100 ms, by hand, in the results of a run."""
    written(["from-pod", str(PODS), "--seconds", "2"], tmp_path / "w.json")
    words = ["run", str(tmp_path / "w.json"), "-m", "juno-r2", "--no-report", "-o", str(tmp_path / "out")]
    answered(*words)
    mean = means(tmp_path / "out")
    for container, limit in (("nginx", 0.5), ("proxy", 0.2)):
        name = f"{WEB}/{container}"
        assert mean[f"group_periods:{name}"] == pytest.approx(20, abs=1)
        assert mean[f"group_usage:{name}"] == pytest.approx(limit * 2, abs=SLACK)
        assert mean[f"group_throttled_periods:{name}"] >= 19
    # Two threads under a limit of one CPU.
    assert mean["group_usage:/kubepods/pod-db/pg"] == pytest.approx(2, abs=SLACK)
    assert mean[f"group_usage:{WEB}/logger"] == pytest.approx(2, rel=0.01)
    assert f"group_periods:{WEB}/logger" not in mean


def test_a_copied_tree_is_throttled_at_its_quota(tree: Path, tmp_path: Path) -> None:
    words = ["from-cgroup", str(tree), "--run", "0", "--seconds", "2"]
    written(words, tmp_path / "w.json")
    words = ["run", str(tmp_path / "w.json"), "-m", "juno-r2", "--no-report", "-o", str(tmp_path / "out")]
    answered(*words)
    mean = means(tmp_path / "out")
    # 50 ms of 100 ms for four threads; the burst of 10 ms is never saved by a group that always wants to run.
    assert mean["group_usage:/system.slice/nginx.service"] == pytest.approx(1, abs=SLACK + 0.01)
    assert mean["group_throttled_periods:/system.slice/nginx.service"] >= 19
    # CPUs 0 and 1 at most.
    assert mean["group_usage:/user.slice"] <= 4


def test_digits_of_other_scripts_and_empty_copies_are_named(tree: Path, tmp_path: Path) -> None:
    (tree / "sys/fs/cgroup/system.slice/cpu.max").write_text("\u0663\u0660\u0660\u0660 100000\n")
    made, said = written(["from-cgroup", str(tree)], tmp_path / "w.json")
    assert made["groups"]["/system.slice"] == {} and "system.slice/cpu.max" in said
    for file in tree.rglob("cpu.*"):
        file.write_text("")
    assert "all files are empty, as tar stores" in refused(["from-cgroup", str(tree)])


def test_clamps_that_a_kernel_lacks_are_named(tmp_path: Path) -> None:
    """Utilisation clamps came with 5.3: before it, a workload's clamps do nothing, and the run says so."""
    task = {"instance": 1, "loop": -1, "run": 2000, "util_min": 300, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "w.json").write_text(json.dumps({"global": {"duration": 1}, "tasks": {"t": task}}))

    def said(kernel: str) -> str:
        words = ["run", str(tmp_path / "w.json"), "-m", "juno-r2", "--kernel", kernel, "-o", str(tmp_path / kernel)]
        done = answered(*words)
        return done.output

    assert "kernel 5.2 has no utilisation clamps" in said("5.2")
    assert "utilisation clamps" not in said("5.3")
    words = ["choose", str(tmp_path / "w.json"), "-m", "juno-r2", "--kernel", "5.2", "--uncertainty", "0"]
    chosen = called(*words)
    assert "kernel 5.2 has no utilisation clamps" in chosen.stderr, chosen.output


def test_group_files_that_a_kernel_lacks_are_named(tmp_path: Path) -> None:
    """cpu.uclamp.* came with 5.4, cpu.max.burst with 5.14 and cpu.idle with 5.15."""
    data = Path(opplab.__file__).parent / "data/experiments"

    def said(name: str, kernel: str) -> str:
        shutil.copy(data / f"{name}.json", tmp_path)
        text = re.sub(
            r'^kernel = ".*"', f'kernel = "{kernel}"', (data / f"{name}.toml").read_text(), flags=re.MULTILINE
        )
        (tmp_path / "mine.toml").write_text(text)
        words = ["run", tmp_path / "mine.toml", "--iterations", "1", "--seconds", "0.1", "-j", "1"]
        return " ".join(answered(*words, "-o", tmp_path / f"{name}-{kernel}").stdout.split())

    words = "has no cpu.max.burst, which came with 5.14; here it is applied all the same."
    assert f"burst 20ms, burst 100ms: kernel 5.13 {words}" in said("web-quota-burst", "5.13")
    assert "which came with" not in said("web-quota-burst", "5.14")
    assert "idle: kernel 5.14 has no cpu.idle, which came with 5.15; here it is applied all the same." in said(
        "noisy-neighbour", "5.14"
    )
    assert "uclamp: kernel 5.3 has no clamps of groups" in said("noisy-neighbour", "5.3")
    assert "which came with" not in said("noisy-neighbour", "5.15")
    older = said("noisy-neighbour", "5.2")
    assert "uclamp: kernel 5.2 has no utilisation clamps: uclamp does nothing." in older
    assert "no clamps of groups" not in older


def test_a_lower_clamp_above_its_parent_s_is_named(tmp_path: Path) -> None:
    """The kernel limits a group's cpu.uclamp.min by its parent's, 0 by default: the clamp alone changes nothing."""
    task = {"instance": 2, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "w.json").write_text(json.dumps({"global": {"duration": 1}, "tasks": {"t": task}}))
    labels = ("none", "alone", "with-parent")
    (tmp_path / "e.toml").write_text(
        'format = 1\nname = "e"\nmachine = "juno-r2"\nbaseline = "none"\niterations = 1\nduration = "1s"\n'
        + "".join(f'[[policy]]\nlabel = "{label}"\n' for label in labels)
        + '[[workload]]\nlabel = "w"\nrtapp = "w.json"\n'
        + '[[group]]\nname = "/pod"\nuclamp_min = 60\npolicies = ["with-parent"]\n'
        + '[[group]]\nname = "/pod/web"\nuclamp_min = 50\ntasks = ["t"]\npolicies = ["alone", "with-parent"]\n'
    )
    done = answered("run", tmp_path / "e.toml", "-o", tmp_path / "out")
    said = " ".join(done.stdout.split())
    assert "alone: uclamp_min of /pod/web is 50 % and counts as 0 %, that of its parent." in said
    assert said.count("counts as") == 1
    energies = pl.read_parquet(tmp_path / "out" / "results.parquet").filter(metric="energy")
    energy_j = dict(energies.select("policy", "value").iter_rows())
    assert energy_j["alone"] == energy_j["none"] != energy_j["with-parent"]


def test_what_boosts_real_time_tasks_is_named_and_does_not_hang_on_a_clamp(tmp_path: Path) -> None:
    """A clamp that clamps nothing, of another task, moves no real-time task; the kernel's build does, and is named."""
    timer = {"ref": "unique", "period": 5000}
    audio = {"policy": "SCHED_FIFO", "priority": 19, "loop": -1, "run": 150, "timer": timer}
    ui = {"loop": -1, "run": 1000, "timer": timer}

    def ran(name: str, ui: dict[str, Any], *words: str) -> tuple[bool, str]:
        """Run both tasks: whether the biggest CPUs had work, and what was noted."""
        tasks = {"ui": ui, "audio": audio}
        (tmp_path / f"{name}.json").write_text(json.dumps({"global": {"duration": 1}, "tasks": tasks}))
        made = ["run", str(tmp_path / f"{name}.json"), "-m", "pixel6", "-o", str(tmp_path / name), *words]
        done = answered(*made)
        return means(tmp_path / name)["task_time:X1"] > 0.002, done.output

    boosted, said = ran("none", ui)
    assert boosted and "CONFIG_UCLAMP_TASK" in said and "uclamp=absent" in said
    boosted, said = ran("zero", {**ui, "util_min": 0})
    assert boosted and "CONFIG_UCLAMP_TASK" not in said
    boosted, said = ran("absent", ui, "--gate", "uclamp=absent")
    assert not boosted and "CONFIG_UCLAMP_TASK" not in said


def test_an_experiment_has_the_duration_of_its_workload(tmp_path: Path) -> None:
    """`--workload` keeps its own length; `--seconds` changes it, and stand-ins run for 10 s."""
    task = {"instance": 1, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "w.json").write_text(json.dumps({"global": {"duration": 3}, "tasks": {"t": task}}))
    tree = str(cgroup_trees.v2(tmp_path / "tree"))
    lengths = []
    for more in (
        ["--workload", str(tmp_path / "w.json")],
        ["--workload", str(tmp_path / "w.json"), "--seconds", "2"],
        [],
    ):
        file = tmp_path / f"{len(lengths)}.toml"
        answered("workload", "from-cgroup", tree, "-m", "juno-r2", "-o", file, *more)
        lengths += re.findall(r'^duration = "(\d+)us"$', file.read_text(), re.MULTILINE)
    assert lengths == ["3000000", "2000000", "10000000"]
