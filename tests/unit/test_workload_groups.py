"""`workload from-cgroup` and `from-pod`: what is in the files that they write, and that these run."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import cgroup_trees
import pytest
from click.testing import CliRunner

from opplab.cli.main import opplab as main


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return cgroup_trees.v2(tmp_path / "tree")


def written(words: list[str], out: Path) -> tuple[dict[str, Any], str]:
    """Run a command, and read the workload that it writes and what it says."""
    done = CliRunner(env={"COLUMNS": "80"}).invoke(main, ["workload", *words, "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    return json.loads(re.sub(r"^\s*//[^\n]*\n|/\*.*?\*/", "", out.read_text(), flags=re.MULTILINE)), done.output


def refused(words: list[str]) -> str:
    done = CliRunner().invoke(main, ["workload", *words])
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


def test_an_archive_gives_what_its_folder_gives(tree: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "tree.tgz", "w:gz") as archive:
        archive.add(tree, "host/")
        hostile = tarfile.TarInfo("../../etc/cpu.weight")
        hostile.size = 4
        archive.addfile(hostile, io.BytesIO(b"1000"))
    plain, _ = written(["from-cgroup", str(tree)], tmp_path / "a.json")
    packed, _ = written(["from-cgroup", str(tmp_path / "tree.tgz")], tmp_path / "b.json")
    assert plain == packed


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
    written(words, tmp_path / "w.json")
    text = (tmp_path / "w.json").read_text()
    assert '"tasks": ["hog"]' in text and '"run": 500, "run": 700' in text
    assert "near: /system.slice/nginx.service" in refused([*words[:-1], "hog=ngnix.service"])
    assert "hog" in refused([*words[:-1], "hgo=/user.slice"])
    assert "needs --workload" in refused(["from-cgroup", str(tree), "--put", "a=/user.slice"])


def test_what_is_no_tree_is_refused(tmp_path: Path) -> None:
    assert "no cgroup has the cpu controller's files" in refused(["from-cgroup", str(tmp_path)])
    (tmp_path / "x.tar").write_bytes(b"no archive")
    assert "neither a folder nor a whole tar archive" in refused(["from-cgroup", str(tmp_path / "x.tar")])


def test_an_experiment_has_the_groups_and_runs(tree: Path, tmp_path: Path) -> None:
    words = ["workload", "from-cgroup", str(tree), "-m", "juno-r2", "--seconds", "1", "-o", str(tmp_path / "g.toml")]
    assert CliRunner().invoke(main, words).exit_code == 0
    text = (tmp_path / "g.toml").read_text()
    assert '[[group]]\nname = "/system.slice/nginx.service"\nweight = 200\nmax = "50000 100000"\n' in text
    done = CliRunner().invoke(main, ["run", str(tmp_path / "g.toml"), "--no-report", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
