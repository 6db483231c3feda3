"""`opplab predict -o sealed.json` and `opplab score`: the figures computed another way, and what is refused."""

import hashlib
import json
import math
import re
import statistics
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from opplab import results
from opplab.agreement import sealed
from opplab.errors import InputError
from opplab.files import digest_of
from opplab.sweep.store import Store

from calls import called

FILE = """format = 1
name = "worth"
machine = "juno-r2"
baseline = "schedutil"
seed = 1
iterations = 3
duration = "300ms"
[[policy]]
label = "schedutil"
governor = "schedutil"
[[policy]]
label = "performance"
governor = "performance"
[[policy]]
label = "powersave"
governor = "powersave"
[[workload]]
label = "load"
rtapp = "load.json"
"""
LOAD = {"tasks": {"t": {"loop": -1, "run": 3000, "timer": {"ref": "a", "period": 16000}}}, "global": {"duration": 1}}


def call(*words: object) -> Result:
    return called(*words, columns=80)


def refused(*words: object) -> str:
    done = call(*words)
    assert isinstance(done.exception, InputError), done.output
    return str(done.exception)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sealed")
    (folder / "worth.toml").write_text(FILE)
    (folder / "load.json").write_text(json.dumps(LOAD))
    words = ["predict", folder / "worth.toml", "-o", folder / "sealed.json", "--results", folder / "out"]
    done = call(*words, "--metric", "energy", "--metric", "work_done", "--uncertainty", "20", "-j", "1")
    assert done.exit_code == 0, done.output
    return folder


def alike(ratio: float) -> dict[tuple[str, str], float]:
    return {(metric, policy): ratio for metric in ("energy", "work_done") for policy in ("performance", "powersave")}


def measured(place: Path, ratios: dict[tuple[str, str], float], **names: str) -> Path:
    """Write a table of measurements with these ratios to the baseline, in four pairs that spread by 1 %."""
    rows = []
    for metric in ("energy", "work_done"):
        for policy in ("schedutil", "performance", "powersave"):
            for number, noise in enumerate((0.99, 1.0, 1.0, 1.01)):
                rows.append(
                    {
                        "source": "measured",
                        "machine": "box",
                        "benchmark": names.get("load", "load"),
                        "param": "",
                        "policy": names.get(policy, policy),
                        "metric": metric,
                        "unit": "J",
                        "better": "lower",
                        "iteration": number,
                        "seed": number,
                        "value": 10.0 * (1 if policy == "schedutil" else ratios[metric, policy] * noise),
                    }
                )
    path = place / "measured.csv"
    results.frame(rows).write_csv(path)
    return path


def test_predictions_are_the_ratios_of_the_runs(place: Path) -> None:
    plain = json.loads((place / "sealed.json").read_text())
    table = results.read(place / "out" / "worth")
    assert len(plain["rows"]) == 4
    for row in plain["rows"]:
        of = table.filter(pl.col("metric") == row["metric"])
        ours, theirs = (
            statistics.fmean(of.filter(pl.col("policy") == name)["value"]) for name in (row["variant"], "schedutil")
        )
        assert math.isclose(row["ratio"], ours / theirs, rel_tol=1e-9)
        assert row["low"] < row["ratio"] < row["high"]


def test_energy_of_equal_work_is_predicted_and_scored(place: Path, tmp_path: Path) -> None:
    """`compare` and the answer of a run have it; `predict` knew no such metric of the same runs."""
    words = ["predict", place / "worth.toml", "-o", tmp_path / "sealed.json", "--results", place / "out", "-j", "1"]
    done = call(*words, "--metric", "energy_per_work", "--uncertainty", "20")
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "sealed.json").read_text())["rows"]
    store = Store(place / "out" / "worth")
    table = store.table(store.listed())

    def mean(policy: str) -> float:
        own = table.filter(pl.col("policy") == policy)
        each = {name: own.filter(pl.col("metric") == name).sort("seed")["value"] for name in ("energy", "work_done")}
        return statistics.fmean(joules / work for joules, work in zip(each["energy"], each["work_done"], strict=True))

    for row in rows:
        assert row["ratio"] == pytest.approx(mean(row["variant"]) / mean("schedutil"), rel=1e-6)
    assert len(rows) == 2
    scored = call("score", tmp_path / "sealed.json", place / "out" / "worth")
    assert scored.exit_code == 0, scored.output
    assert "did you mean `energy_per_work`" in refused(*words, "--metric", "energy_by_work")


def test_unknown_idle_power_is_the_reason_of_a_row_without_interval(tmp_path: Path) -> None:
    text = FILE.replace("juno-r2", "xeon-6130-2s").replace('label = "powersave"', 'label = "C1"\nidle_disable = ["C6"]')
    (tmp_path / "worth.toml").write_text(text.replace('governor = "powersave"', 'governor = "schedutil"'))
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    words = ["predict", tmp_path / "worth.toml", "-o", tmp_path / "sealed.json", "--results", tmp_path / "out"]
    done = call(*words, "--metric", "energy", "--metric", "response_p99", "--uncertainty", "20", "-j", "1")
    assert done.exit_code == 0, done.output
    rows = json.loads((tmp_path / "sealed.json").read_text())["rows"]
    reasons = {(row["variant"], row["metric"]): row["reason"] for row in rows if row["low"] is None}
    assert reasons == {("C1", "energy"): "idle power unknown"}


def test_a_metric_without_a_ratio_is_named(tmp_path: Path) -> None:
    """Of two wanted metrics the one whose baselines are 0 was left out without a word."""
    (tmp_path / "worth.toml").write_text(FILE)
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    words = ["predict", tmp_path / "worth.toml", "-o", tmp_path / "sealed.json", "--results", tmp_path / "out"]
    done = call(*words, "--metric", "energy", "--metric", "missed_activations", "--uncertainty", "20", "-j", "1")
    assert done.exit_code == 0, done.output
    measured = pl.read_parquet(tmp_path / "out" / "worth" / "results.parquet")
    missed = measured.filter((pl.col("metric") == "missed_activations") & (pl.col("policy") == "schedutil"))
    assert missed["value"].sum() == 0
    whole = " ".join(done.stderr.split())
    lacking = "juno-r2 load performance; juno-r2 load powersave"
    assert f"no ratio of missed_activations, whose baseline is 0 or not known: {lacking}" in whole
    assert "no ratio of energy" not in whole


def test_an_experiment_from_a_pipe_is_read_once(tmp_path: Path) -> None:
    """What a pipe held is gone: labels, models and the hash are of the text that ran."""
    text = FILE.replace("load.json", str(tmp_path / "load.json"))
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    (tmp_path / "file.toml").write_text(text)
    words = [
        sys.executable,
        "-m",
        "opplab",
        "predict",
        "-o",
        "s.json",
        "--results",
        "r",
        "--uncertainty",
        "20",
        "-j",
        "1",
    ]
    done = subprocess.run([*words, "/dev/stdin"], input=text, text=True, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^(\d+)/\1 cases, ", done.stderr, re.MULTILINE)) == 3, (
        "the runs, the draws, the ends of what decides"
    )
    seal = json.loads((tmp_path / "s.json").read_text())
    assert seal["file_sha256"] == hashlib.sha256(text.encode()).hexdigest()


def test_a_workload_without_a_label_is_called_as_its_runs_are(tmp_path: Path) -> None:
    file = (
        FILE.replace('label = "load"\n', "") + '[[workload]]\nbenchmark = "tbench"\nclients = [1]\nwarmup = "100ms"\n'
    )
    (tmp_path / "worth.toml").write_text(file)
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    words = ["predict", tmp_path / "worth.toml", "-o", tmp_path / "sealed.json", "--results", tmp_path / "out"]
    done = call(*words, "--metric", "energy", "--uncertainty", "20", "-j", "1")
    assert done.exit_code == 0, done.output
    names = {row["workload"] for row in json.loads((tmp_path / "sealed.json").read_text())["rows"]}
    measured = pl.read_parquet(tmp_path / "out" / "worth" / "results.parquet")
    assert names == set(measured["benchmark"]) == {"load", "tbench"}


def test_the_figures_are_those_computed_by_hand(place: Path) -> None:
    seal = sealed.Seal.load(place / "sealed.json")
    factors = {
        ("energy", "performance"): 1.01,
        ("energy", "powersave"): 3.0,
        ("work_done", "performance"): 0.999,
        ("work_done", "powersave"): 1.02,
    }
    truth = {(row.metric, row.variant): row.ratio * factors[row.metric, row.variant] for row in seal.rows}
    done = call("score", place / "sealed.json", measured(place, truth), "--format", "json")
    assert done.exit_code == 0, done.output
    figures = json.loads(done.stdout)["figures"]
    errors = [abs(row.ratio - truth[row.metric, row.variant]) for row in seal.rows]
    nulls = [abs(1 - truth[row.metric, row.variant]) for row in seal.rows]
    inside = [row.low <= truth[row.metric, row.variant] <= row.high for row in seal.rows]  # type: ignore[operator]
    assert inside.count(False) == 1, "the factor of 3 is outside"
    expected = {
        "skill_median": 1 - statistics.median(errors) / statistics.median(nulls),
        "skill_mean": 1 - statistics.fmean(errors) / statistics.fmean(nulls),
        "coverage90": statistics.fmean(inside),
        "closer": statistics.fmean(e < n for e, n in zip(errors, nulls, strict=True)),
        "width": statistics.median(row.high - row.low for row in seal.rows),  # type: ignore[operator]
    }
    for name, value in expected.items():
        assert math.isclose(figures[name], value, abs_tol=1e-9), name


def test_names_may_differ(place: Path) -> None:
    path = measured(place, alike(1.1), load="make", schedutil="as it is")
    assert "the baseline is not measured" in refused("score", place / "sealed.json", path)
    done = call("score", place / "sealed.json", path, "--as", "load=make", "--as", "schedutil=as it is")
    assert done.exit_code == 0, done.output
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "did you mean `load`" in refused("score", place / "sealed.json", path, "--as", "lod=make")


def test_what_has_no_partner_is_named(place: Path) -> None:
    table = pl.read_csv(measured(place, alike(1.1)))
    table.filter(pl.col("policy") != "powersave").write_csv(place / "part.csv")
    done = call("score", place / "sealed.json", place / "part.csv")
    assert done.exit_code == 1
    assert "the results have no variant `powersave`" in " ".join(done.stdout.split())


def tree_with_watts(folder: Path, seconds: list[str]) -> Path:
    """Write a tree of mmtests with a kernbench of some jobs, and a turbostat of 100 W and 120 W."""
    for run, watts in (("schedutil", (99, 101)), ("performance", (118, 122)), ("powersave", (80, 80))):
        place = folder / run / "iter-0"
        (place / "kernbench/logs").mkdir(parents=True)
        (place / "tests-timestamp").write_text("test begin :: kernbench 1\ntest end :: kernbench 60 0\n")
        for jobs in seconds:
            for number in (1, 2):
                text = f"10.0user 1.00system 0:0{number + 3}.50elapsed 300%CPU\n"
                (place / f"kernbench/logs/time-{jobs}-{number}").write_text(text)
        lines = [f"-\t-\t-\t1000\t{one}.00" for one in watts]
        (place / "turbostat-kernbench").write_text("\n".join(["Package\tCore\tCPU\tAvg_MHz\tPkgWatt", *lines, ""]))
    return folder


def test_watts_of_a_tree_are_scored_where_they_are_of_one_parameter(place: Path, tmp_path: Path) -> None:
    """`compare --table power` had them, and `score` denied them: no metric `power`."""
    plain = json.loads((place / "sealed.json").read_text())
    del plain["seal_sha256"]
    plain["rows"] = [
        {**row, "workload": "kernbench", "param": "jobs=8", "metric": metric, "ratio": 1.1, "low": 1.0, "high": 1.3}
        for row in plain["rows"]
        if row["metric"] == "energy"
        for metric in ("power", "energy")
    ]
    seal = tmp_path / "seal.json"
    seal.write_text(json.dumps({**plain, "seal_sha256": digest_of(plain)}))
    file = ["--experiment", place / "worth.toml"]

    tree = tree_with_watts(tmp_path / "one", ["8"])
    found = sealed.score_of(sealed.Seal.load(seal), tree)
    # Means of the samples, by hand.
    assert {cell.variant: cell.published for cell in found.cells} == {"performance": 1.2, "powersave": 0.8}
    assert call("score", seal, tree, *file).exit_code == 1, "energy has no partner"
    assert all("they have watts: predict --metric power" in words for words in found.open)
    assert len(found.open) == 2

    several = refused("score", seal, tree_with_watts(tmp_path / "two", ["4", "8"]), *file)
    assert "the results have one mean of the watts of all parameters" in several


def test_a_changed_seal_or_file_is_refused(place: Path, tmp_path: Path) -> None:
    path = measured(place, alike(1.1))
    plain = json.loads((place / "sealed.json").read_text())
    plain["rows"][0]["ratio"] = 1.1
    (tmp_path / "better.json").write_text(json.dumps(plain))
    assert "changed after it was sealed" in refused("score", tmp_path / "better.json", path)
    (tmp_path / "worth.toml").write_text(FILE.replace("seed = 1", "seed = 2"))
    words = ["score", place / "sealed.json", path, "--experiment", tmp_path / "worth.toml"]
    assert "changed since it was predicted" in refused(*words)
    for text in ("", "{", "[]", "{}", '{"seal_sha256": ""}'):
        (tmp_path / "none.json").write_text(text)
        with pytest.raises(InputError, match="not a sealed prediction"):
            sealed.Seal.load(tmp_path / "none.json")


def test_a_track_record_joins_the_scores_of_a_machine(place: Path, tmp_path: Path) -> None:
    for ratio in (1.1, 1.2):
        path = measured(place, alike(ratio))
        assert call("score", place / "sealed.json", path, "--record", tmp_path / str(ratio)).exit_code == 0
        score = json.loads(call("score", place / "sealed.json", path, "--format", "json").stdout)
        shown = json.loads(call("score", tmp_path / str(ratio), "--format", "json").stdout)
        assert [row["machine"] for row in shown["rows"]] == ["box"]
        assert shown["all"] == score["figures"]
    assert "no scores in it" in refused("score", tmp_path)


def test_each_of_several_machines_has_its_own_rows_and_record(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    several = FILE.replace('"juno-r2"', '["juno-r2", "pixel6"]')
    (tmp_path / "two.toml").write_text(several)
    (tmp_path / "later.toml").write_text(several.replace("seed = 1", "seed = 90"))
    seal, runs = tmp_path / "s.json", tmp_path / "measured"
    words = ["--uncertainty", "20", "--metric", "energy", "-j", "1"]
    assert call("predict", tmp_path / "two.toml", "-o", seal, "--results", tmp_path / "out", *words).exit_code == 0
    assert call("run", tmp_path / "later.toml", "-o", runs, "--no-report", "-j", "1").exit_code == 0
    done = call("score", seal, runs, "--record", tmp_path / "record")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("juno-r2 ") == done.stdout.count("pixel6 ") == 2
    shown = json.loads(call("score", tmp_path / "record", "--format", "json").stdout)
    assert "1 scored experiment on 2 machines" in shown["question"]
    # By hand, from the runs alone.
    table = results.read(runs).filter(pl.col("metric") == "energy")
    rows = json.loads(seal.read_text())["rows"]
    for machine in ("juno-r2", "pixel6"):
        errors = []
        for row in (one for one in rows if one["machine"] == machine):
            of = table.filter(pl.col("machine") == machine)
            own, base = (statistics.fmean(of.filter(policy=name)["value"]) for name in (row["variant"], "schedutil"))
            errors.append(abs(row["ratio"] - own / base))
        (figures,) = (one for one in shown["rows"] if one["machine"] == machine)
        assert figures["cells"] == 2
        assert math.isclose(figures["mean_abs_error"], statistics.fmean(errors), rel_tol=1e-9)
    # One machine that was predicted, among several that were measured.
    (tmp_path / "one.toml").write_text(FILE)
    one = tmp_path / "one.json"
    assert call("predict", tmp_path / "one.toml", "-o", one, "--results", tmp_path / "out", *words).exit_code == 0
    alone = json.loads(call("score", one, runs, "--format", "json").stdout)
    assert [row["measured_on"] for row in alone["rows"]] == ["juno-r2", "juno-r2"]
    other = json.loads(call("score", one, runs, "--as", "juno-r2=pixel6", "--format", "json").stdout)
    assert other["machines"] == ["pixel6"]
    assert "no machine `nobody`" in refused("score", one, runs, "--as", "juno-r2=nobody")


def test_too_few_draws_are_refused_before_anything_runs(place: Path, tmp_path: Path) -> None:
    """A seal without intervals cannot be scored; that was found after all of its runs."""
    words = ["predict", place / "worth.toml", "-o", tmp_path / "s.json", "--results", tmp_path / "out"]
    assert refused(*words, "--uncertainty", "19") == "an interval of 90 % needs 20 draws, these are 19"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("ratio", math.nan, "`ratio` is nan, which is no ratio"),
        ("ratio", math.inf, "`ratio` is inf, which is no ratio"),
        ("ratio", "abc", "`ratio` is 'abc', which is no ratio"),
        ("ratio", None, "`ratio` is None, which is no ratio"),
        ("ratio", -1.0, "`ratio` is -1.0, which is no ratio"),
        ("low", None, "`low` is None, which is no ratio"),
        ("high", math.nan, "`high` is nan, which is no ratio"),
        ("low", 5.0, "`low` is 5.0, above `high`"),
        ("metric", 5, "`metric` is 5, which is no text"),
        ("machine", None, "`machine` is None, which is no text"),
    ],
)
def test_numbers_that_cannot_be_are_refused_under_a_whole_seal_and_in_a_record(
    place: Path, tmp_path: Path, name: str, value: object, words: str
) -> None:
    """Whoever writes a seal can compute its hash."""
    made = json.loads((place / "sealed.json").read_text())
    made["rows"][0][name] = value
    del made["seal_sha256"]
    made["seal_sha256"] = digest_of(made)
    (tmp_path / "sealed.json").write_text(json.dumps(made))
    path = measured(place, alike(1.1))
    assert words in refused("score", tmp_path / "sealed.json", path)
    if name in ("low", "high"):
        assert call("score", place / "sealed.json", path, "--record", tmp_path / "r").exit_code == 0
        (file,) = (tmp_path / "r").iterdir()
        score = json.loads(file.read_text())
        score["rows"][0][name] = value
        file.write_text(json.dumps(score))
        assert words in refused("score", tmp_path / "r")


def test_measured_values_that_are_no_numbers_are_not_scored(place: Path, tmp_path: Path) -> None:
    table = pl.read_csv(measured(place, alike(1.1)))
    spoilt = (pl.col("policy") == "performance") & (pl.col("iteration") == 0)
    table = table.with_columns(value=pl.when(spoilt).then(math.nan).otherwise(pl.col("value")))
    table.write_csv(tmp_path / "spoilt.csv")
    done = call("score", place / "sealed.json", tmp_path / "spoilt.csv", "--all")
    assert done.exit_code == 1
    assert "performance: measured, but 1 of" in " ".join(done.output.split())
