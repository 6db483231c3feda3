"""Results by control group: the block, Parquet and the meters hold the same numbers."""

from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner

from opplab.cli.main import opplab as main

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
    done = CliRunner(env={"COLUMNS": "140"}).invoke(main, words)
    assert done.exit_code == 0, done.output
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
