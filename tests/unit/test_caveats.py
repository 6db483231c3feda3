"""What answers say that their numbers do not hold."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from opplab.cli.main import opplab as main

LAPTOP = ("--driver", "intel_pstate", "--governor", "powersave", "--seconds", "0.3", "--iterations", "1")


@pytest.fixture
def load(tmp_path: Path) -> Path:
    task = {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}
    file = tmp_path / "load.json"
    file.write_text(json.dumps({"tasks": {"t": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    return file


def told(load: Path, *words: str) -> str:
    done = CliRunner(env={"COLUMNS": "300"}).invoke(main, ["run", str(load), *LAPTOP, *words])
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    return " ".join(done.stdout.split())


def test_settings_that_the_driver_refuses_are_named(load: Path, tmp_path: Path) -> None:
    words = ("-m", "kaby-lake-i7-7500u-gpu", "-o", str(tmp_path / "out"))
    variants = ("governor=performance epp=power", "no_hwp=true epp=power", "no_hwp=true hwp_dynamic_boost=on")
    shown = told(load, *words, *(word for text in variants for word in ("--vs", text)))
    assert "performance epp=power: intel_pstate refuses the preference power under its governor performance" in shown
    assert "no_hwp=true epp=power: without HWP there is no energy performance preference: epp power does" in shown
    assert "without HWP there is no hwp_dynamic_boost: on does nothing" in shown
    assert "without HWP" not in told(load, *words[:3], str(tmp_path / "two"), "--vs", "no_hwp=true")


def test_a_gpu_hides_no_lateness_and_is_named_beside_the_power(load: Path, tmp_path: Path) -> None:
    shown = told(load, "-m", "kaby-lake-i7-7500u-gpu", "-o", str(tmp_path / "out"))
    assert "response p50/p99" in shown
    assert "missed" in shown
    assert "its CPUs': gpu draws beside them (energy:gpu)" in shown


def test_preferences_that_nobody_measured_are_named(load: Path, tmp_path: Path) -> None:
    words = ("-m", "alder-lake-i7-1260p", "--power", "generic", "-o")
    assert "only 128 was measured" in told(load, *words, str(tmp_path / "a"), "--vs", "epp=power")
    plain = told(load, *words, str(tmp_path / "b"), "--vs", "governor=performance")
    assert "only 128 was measured" not in plain
    assert "is its packages awake, at any load" in plain
