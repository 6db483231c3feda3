"""Runs of `opplab host compare` are results: the table has each run's values, pairs are blocks, damage is refused."""

import json
import math
from pathlib import Path

import polars as pl
import pytest

from opplab import results
from opplab.comparison.measured import results_of
from opplab.errors import InputError

from calls import answered, called


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("host") / "runs"
    design = ["--pilot", "4", "--within", "50", "--same", "3", "--others", "100", "-o", str(made)]
    figure = ["--metric", "rate=/rate ([0-9]+)/", "--env", "R=10", "--env", "R=30"]
    words = ["host", "compare", *design, *figure, "--", "/bin/sh", "-c", "echo rate $R"]
    answered(*words)
    return made


def test_the_table_has_what_was_measured(folder: Path) -> None:
    table = results.read(folder)
    lines = [json.loads(line) for line in (folder / "runs.jsonl").read_text().splitlines()]
    blocks = [line for line in lines[1:] if line["kind"] == "block"]
    assert len(blocks) == 8
    for run in blocks:
        policy = lines[0]["variants"][run["variant"]]
        here = table.filter(pl.col("policy") == policy, pl.col("iteration") == run["block"])
        assert sorted(here["metric"]) == sorted(name for name, *_ in run["values"])
        for metric, unit, better, value in run["values"]:
            row = here.row(by_predicate=pl.col("metric") == metric, named=True)
            assert (row["unit"], row["better"], row["value"]) == (unit, better, value)
    of_rate = table.filter(pl.col("metric") == "rate")
    rates = {policy: of_rate.filter(pl.col("policy") == policy)["value"].mean() for policy in ("R=10", "R=30")}
    assert rates == {"R=10": 10.0, "R=30": 30.0}
    assert table.group_by("seed").agg(pl.col("policy").n_unique())["policy"].to_list() == [2] * 4


def test_compare_gates_and_reports_on_it(folder: Path) -> None:
    answered("compare", folder, "--fail-if", "rate < -5%")
    assert called("compare", folder, "--fail-if", "rate > 5% better").exit_code == 1
    answered("host", "compare", "--report", "--format", "json", "-o", folder)
    rate = results.read(folder).filter(pl.col("metric") == "rate")
    assert math.isclose(rate.filter(pl.col("policy") == "R=30")["value"].mean(), 30.0)  # type: ignore[arg-type]


def test_the_agents_folder_is_read_without_a_table(folder: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone"
    alone.mkdir()
    (alone / "runs.jsonl").write_text((folder / "runs.jsonl").read_text())
    done = [called("compare", place, "--metric", "rate") for place in (folder, alone)]
    assert [one.exit_code for one in done] == [0, 0], done[1].output
    assert "Hmean rate" in done[1].output
    assert done[0].output.replace(folder.name, alone.name) == done[1].output


@pytest.mark.parametrize("damage", ["{", '{"kind": "block"}\n', "[]\n", '{"experiment": "host compare"}\n'])
def test_damage_is_refused_with_its_line(folder: Path, tmp_path: Path, damage: str) -> None:
    whole = (folder / "runs.jsonl").read_text()
    bad = tmp_path / "runs.jsonl"
    bad.write_text(whole.split("\n")[0] + "\n" + damage if damage.endswith("\n") else damage)
    with pytest.raises(InputError, match=r"runs\.jsonl:|no run in it"):
        results_of(bad)


def test_what_cannot_be_compared_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    for words, expected in (
        (["--env", "A=1", "--", "true"], "one variant alone"),
        (["--env", "A=1", "--env", "A=2"], "no command to run"),
        (["--envv", "A=1", "--", "true"], "did you mean `env`?"),
        (["--governor", "performance,powersave", "--root", "/nonexistent", "--", "true"], "/nonexistent"),
    ):
        done = called("host", "compare", *words)
        assert done.exit_code in (2, 3), done.output
        assert expected in capfd.readouterr().err


def test_the_table_is_written_however_the_folder_is_named(tmp_path: Path) -> None:
    """Goal: one reader of the command line knows the folder; COMMAND has an ``-o`` of its own."""
    design = ["--pilot", "2", "--blocks", "2", "--same", "0", "--warm-up", "0", "--others", "100", "--env", "R=1"]
    for number, spelling in enumerate(("-o{}", "-o={}", "--output={}")):
        made = tmp_path / str(number)
        words = ["host", "compare", *design, "--env", "R=2", spelling.format(made), "sh", "-c", "true", "-o", "x"]
        answered(*words)
        assert results.read(made)["policy"].n_unique() == 2


def test_a_folder_of_other_results_is_left_alone(
    folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Goal: measured results do not replace simulated ones, nor what somebody keeps."""
    (tmp_path / "results.parquet").write_bytes((folder / "results.parquet").read_bytes())
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    compare = ["host", "compare", "--env", "R=1", "--env", "R=2", "-o", str(tmp_path), "--", "true"]
    for words in (compare, ["host", "calibrate", "--read-only", "--for", "1s", "-o", str(tmp_path)]):
        assert called(*words).exit_code == 2
        assert f"{tmp_path} holds other files" in capfd.readouterr().err
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_blocks_is_the_most(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    design = ["--blocks", "3", "--same", "0", "--warm-up", "0", "--others", "100", "--env", "R=1", "--env", "R=2"]
    answered("host", "compare", *design, "-o", tmp_path / "a", "--", "true")
    assert results.read(tmp_path / "a")["iteration"].n_unique() == 3
    words = ["host", "compare", *design, "--pilot", "6", "-o", str(tmp_path / "b"), "--", "true"]
    assert called(*words).exit_code == 2
    assert "--pilot 6 takes more blocks than --blocks 3" in capfd.readouterr().err
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("spelling", ["-o {}", "-o{}", "-o={}", "--output {}", "--output={}"])
def test_observe_writes_parquet_however_the_file_is_named(tmp_path: Path, spelling: str) -> None:
    file = tmp_path / "a b.parquet"
    words = [word.format(file) for word in spelling.split(" ")]
    answered("host", "observe", "-n", "1", "--interval", "5ms", *words)
    assert pl.read_parquet(file).height > 0
