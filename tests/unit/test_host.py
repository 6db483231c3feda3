"""`opplab host`: the command line over crate host, Parquet, the twin's prediction."""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import polars as pl
import pytest

import forked
from testdata import shared


def opplab(*args: str | Path) -> subprocess.CompletedProcess[str]:
    # Whoever imports readline exports the width of its terminal, which need not be there.
    env = {**os.environ, "COLUMNS": "1000"}
    command = [*forked.words(), *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def host(folder: Path) -> Path:
    """Make a tree of files that stands for a host with one policy of two CPUs."""
    cpu = folder / "sys/devices/system/cpu"
    policy = cpu / "cpufreq/policy0"
    policy.mkdir(parents=True)
    (cpu / "online").write_text("0-1\n")
    for name, text in {
        "affected_cpus": "0 1",
        "related_cpus": "0 1",
        "cpuinfo_min_freq": "1000000",
        "cpuinfo_max_freq": "2000000",
        "scaling_min_freq": "1000000",
        "scaling_max_freq": "2000000",
        "scaling_cur_freq": "2000000",
        "scaling_governor": "schedutil",
        "scaling_driver": "acpi-cpufreq",
    }.items():
        (policy / name).write_text(text + "\n")
    (folder / "proc").mkdir()
    (folder / "proc/stat").write_text("cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 9 0 0 1 0 0 0 0 0 0\ncpu1 0 0 0 9 0 0 0 0 0 0\n")
    return folder


def test_show_is_json(tmp_path: Path) -> None:
    done = opplab("host", "show", "--json", "--root", host(tmp_path))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    cpufreq = next(section for section in report["sections"] if section["name"] == "cpufreq")
    driver = next(item for item in cpufreq["items"] if item["name"] == "scaling_driver")
    assert driver["value"] == "acpi-cpufreq"
    assert driver["file"] == "/sys/devices/system/cpu/cpufreq/policy0/scaling_driver"


@pytest.mark.parametrize("command", ["show", "observe", "affinity", "govern", "record", "calibrate", "compare"])
def test_help_fits_a_terminal_of_80_columns(command: str) -> None:
    assert all(len(line) <= 80 for line in opplab("host", command, "--help").stdout.splitlines())


def test_help_and_mistakes() -> None:
    assert "observe" in opplab("host", "--help").stdout
    wrong = opplab("host", "obsrve")
    assert (wrong.returncode, wrong.stderr) == (2, "opplab host: no such command `obsrve`; did you mean `observe`?\n")


def test_observe_writes_parquet(tmp_path: Path) -> None:
    root = host(tmp_path / "root")
    output = tmp_path / "observed.parquet"
    done = opplab("host", "observe", "--root", root, "-n", "2", "--interval", "20ms", "-o", output)
    assert done.returncode == 0, done.stderr
    table = pl.read_parquet(output)
    assert table["CPU"].to_list() == [None, 0, 1] * 2
    assert table.schema["Busy%"] == pl.Float64


def test_a_log_of_govern_is_explained(tmp_path: Path) -> None:
    root = host(tmp_path / "root")
    log = tmp_path / "run.jsonl"
    words = ["host", "govern", "--governor", "performance", "--dry-run", "--for", "100ms", "--root", root, "--log", log]
    done = opplab(*words)
    assert done.returncode == 0, done.stderr
    assert opplab("host", "govern", "--verify", log).returncode == 0
    explained = opplab("explain", log, "--cpu", "1", "--at", "20ms")
    assert explained.returncode == 0, explained.stderr
    assert "policy0, CPU 1 at 2000 MHz: CPU 1 reported" in explained.stdout


def test_the_twin_predicts_each_mask() -> None:
    words = ["host", "affinity", "--evaluate", "--machine", "pixel6", "--seconds", "0.5", "--format", "json"]
    done = opplab(*words, "--cpus", "0-3", "--cpus", "6")
    assert done.returncode == 0, done.stderr
    little, big = json.loads(done.stdout)
    assert (little["cpus"], big["cpus"]) == ("0-3", "6")
    # Work of the kthread is paid for where it runs.
    assert little["energy_j:A55"] > big["energy_j:A55"]
    assert little["energy_j:X1"] < big["energy_j:X1"]
    assert "kernel 6.12.117 binds these kthreads: the masks need the change of 6.14" in done.stderr
    assert "binds" not in opplab(*words, "--cpus", "0-3", "--kernel", "6.14").stderr
    wrong = opplab(*words, "--cpus", "9")
    assert wrong.returncode == 2
    assert "CPU 9 does not exist: pixel6 has 8 CPUs" in wrong.stderr


def test_recordings_say_why(tmp_path: Path) -> None:
    snapshot = shared("traces/x86-612-xeon16-any2-schedutil-hetero9/sysfs_before.txt")
    done = opplab("host", "show", "--root", snapshot)
    assert done.returncode == 0, done.stderr
    assert "no aperfmperf flag" in done.stdout


def test_one_archive_is_replayed_like_its_folder(tmp_path: Path) -> None:
    folder = shared("traces/x86-612-rome3-any1-performance-periodic3")
    archive = tmp_path / f"{folder.name}.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        for name in ("trace.dat", "rtlog", *(file.name for file in folder.glob("*.txt"))):
            tar.add(folder / name, name)
    for words in (["replay"], ["trace", "info"], ["verify", "traces"]):
        done, packed = opplab(*words, folder if words[0] != "trace" else folder / "trace.dat"), opplab(*words, archive)
        assert (packed.returncode, bool(packed.stderr)) == (done.returncode, bool(done.stderr))
        same = [line for line in done.stdout.splitlines() if " sim_" not in line]
        assert packed.stdout.splitlines() == same
