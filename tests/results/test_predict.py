"""`opplab predict`: a table's rows before their values are known."""

import csv
import math
from pathlib import Path

import polars as pl
import pytest

from opplab.agreement import predict
from opplab.agreement.forecast import Facts
from opplab.errors import InputError

from calls import answered
from testdata import shared

SEALED = Path(__file__).parents[2] / "lab" / "sealed"

EXPERIMENT = """
format = 1
name = "mine"
machine = "juno-r2"
published = "mine.csv"
baseline = "schedutil"
seed = 1
iterations = 2
duration = "500ms"

[defaults]
eas = false

[[policy]]
label = "schedutil"
governor = "schedutil"

[[policy]]
label = "performance"
governor = "performance"

[[workload]]
label = "periodic"
benchmark = "periodic"
tasks = [2, 4]

[[compare]]
table = "mine"
metric = "energy"
workload = "periodic"
simulated = "energy"

[[compare]]
table = "mine"
metric = "work for a joule"
workload = "periodic"
simulated = "work_done/energy"
"""

TABLE = """parameter,metric,variant,value
tasks=2,energy,schedutil,10
tasks=2,energy,performance,
tasks=2,work for a joule,schedutil,0
tasks=2,work for a joule,performance,
tasks=2,noise,schedutil,3
tasks=2,noise,performance,
"""


def predicted(folder: Path, experiment: str = EXPERIMENT) -> list[dict[str, str]]:
    (folder / "mine.toml").write_text(experiment)
    (folder / "mine.csv").write_text(TABLE)
    out = folder / "out.csv"
    answered("predict", folder / "mine.toml", "-o", out, "--results", folder / "results")
    with out.open() as stream:
        return list(csv.DictReader(stream))


def test_rows_get_the_ratio_of_the_results_with_an_interval(tmp_path: Path) -> None:
    import polars as pl

    rows = predicted(tmp_path)
    found = pl.read_parquet(tmp_path / "results" / "mine" / "results.parquet").filter(pl.col("param") == "tasks=2")

    def mean(policy: str, metric: str) -> float:
        own = found.filter((pl.col("policy") == policy) & (pl.col("metric") == metric))["value"]
        return float(sum(own)) / len(own)

    ratio = mean("performance", "energy") / mean("schedutil", "energy")
    assert float(rows[1]["predicted_ratio"]) == pytest.approx(ratio, rel=1e-3)
    assert float(rows[1]["low"]) < ratio < float(rows[1]["high"])
    work = mean("performance", "work_done") / mean("schedutil", "work_done")
    assert float(rows[3]["predicted_ratio"]) == pytest.approx(work / ratio, rel=1e-3)


def test_what_is_given_or_without_a_model_is_no_prediction(tmp_path: Path) -> None:
    rows = predicted(tmp_path)
    assert (rows[0]["predicted_ratio"], rows[0]["reason"]) == ("1", "given")
    assert rows[5]["predicted_ratio"] == ""
    assert "no model" in rows[5]["reason"]


def test_a_row_whose_power_is_not_known_is_the_only_one_left_out(tmp_path: Path) -> None:
    rows = predicted(
        tmp_path, EXPERIMENT.replace("juno-r2", "kaby-lake-i7-7500u").replace("work_done/energy", "work_done")
    )
    assert [bool(row["predicted_ratio"]) for row in rows] == [True, False, False, True, True, False]
    assert "energy of performance periodic is not known" in rows[1]["reason"]


def test_intervals_cover_tables_that_they_were_not_learnt_from() -> None:
    inside, widths = [], []
    for cell in predict.known_errors():
        low, high = predict.interval_of(cell.table, cell.benchmark, math.exp(cell.predicted))
        inside.append(low <= math.exp(cell.published) <= high)
        widths.append(high - low)
    assert 0.85 <= sum(inside) / len(inside) <= 0.95
    assert 0 < sorted(widths)[len(widths) // 2] < 0.5


def test_a_larger_error_makes_no_narrower_interval() -> None:
    cells = predict.known_errors()
    worse = [
        predict.Known(cell.table, cell.benchmark, cell.predicted, cell.predicted + 2 * cell.error) for cell in cells
    ]
    for effect in (0.0, 0.1, math.log(2)):
        assert predict.half_width("tbench", effect, worse) >= predict.half_width("tbench", effect, cells)


def test_sealed_predictions_have_the_given_rows() -> None:
    folder = shared("published/sealed")
    for given in sorted(folder.glob("*.csv")):
        with given.open() as before, (SEALED / given.name).open() as after:
            own, new = list(csv.DictReader(before)), list(csv.DictReader(after))
        assert [{key: row[key] for key in own[0]} for row in new] == own
        for row in new:
            assert row["reason"]
            if row["predicted_ratio"]:
                assert float(row["low"]) <= float(row["predicted_ratio"]) <= float(row["high"])


def test_most_sealed_rows_are_predicted_and_the_first_series_is_kept() -> None:
    rows = [row for file in sorted(SEALED.glob("*.csv")) for row in csv.DictReader(file.read_text().splitlines())]
    unseen = [row for row in rows if not row["value"]]
    assert sum(bool(row["predicted_ratio"]) for row in unseen) >= 0.8 * len(unseen)
    assert {file.name for file in (SEALED / "first").glob("*.csv")} == {file.name for file in SEALED.glob("*.csv")}


def test_a_quotient_by_nothing_is_refused() -> None:
    rows = [
        {"benchmark": "w", "param": "", "policy": "p", "metric": metric, "unit": "", "better": "lower", "value": value}
        for metric, value in (("power", 1.0), ("work_done", 0.0))
    ]
    frame = pl.DataFrame(rows)
    with pytest.raises(InputError, match=r"divides by work_done, which is 0"):
        Facts(frame).value(("w", ""), "p", ["power/work_done"])


def test_what_is_not_known_of_a_run_is_no_number():
    rows = [("b", "", "p", "power", "W", "lower", None), ("b", "", "p", "elapsed", "s", "lower", 2.0)]
    columns = ["benchmark", "param", "policy", "metric", "unit", "better", "value"]
    facts = Facts(pl.DataFrame(rows, schema=columns, orient="row"))
    assert facts.value(("b", ""), "p", ["1/elapsed"]) == 0.5
    with pytest.raises(InputError, match="power of p b is not known"):
        facts.value(("b", ""), "p", ["1/power"])
