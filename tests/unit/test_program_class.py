"""Classes of programs: named by experiments and rt-app files, listed, and what they change."""

import json
from pathlib import Path

import polars as pl
import pytest

from calls import answered, called

EXPERIMENT = """format = 1
name = "classes"
machine = "pixel4"
duration = "200ms"
[[policy]]
label = "performance"
governor = "performance"
kernel = "6.12"
[[workload]]
label = "plain"
benchmark = "periodic"
tasks = 2
[[workload]]
label = "memory"
benchmark = "periodic"
tasks = 2
class = "memory"
"""


def test_a_class_is_listed_with_what_it_makes_of_each_cluster() -> None:
    rows = json.loads(called("list", "classes", "pixel4", "--format", "json").output)
    memory = {row["cluster"]: row for row in rows if row["class"] == "memory"}
    assert (memory["A55"]["capacity"], memory["A76 prime"]["mem_share"]) == (587, 765)


def test_an_unknown_class_is_refused_with_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "e.toml"
    file.write_text(EXPERIMENT.replace('class = "memory"', 'class = "memry"'))
    done = called("run", file, "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert "did you mean `memory`" in (done.output + str(done.exception))


@pytest.mark.parametrize("key", ["program_class"])
def test_a_task_of_an_rt_app_file_names_a_class(tmp_path: Path, key: str) -> None:
    task = {"loop": 10, "run": 4000, "sleep": 6000, "cpus": [0]}
    energies = {}
    for name in ("none", "memory"):
        file = tmp_path / f"{name}.json"
        own = task | ({key: name} if name != "none" else {})
        file.write_text(json.dumps({"tasks": {"t": own}, "global": {"duration": 1, "calibration": 100}}))
        answered("run", file, "-m", "pixel4", "--governor", "powersave", "-o", tmp_path / name)
        table = pl.read_parquet(tmp_path / name / "results.parquet")
        energies[name] = table.filter(pl.col("metric") == "energy")["value"][0]
    # On a little core at its lowest clock memory time does not grow with it: less time busy, less energy.
    assert energies["memory"] < energies["none"]
