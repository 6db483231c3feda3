"""`opplab predict`: a table's rows before their values are known."""

import csv
import math
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

from opplab.agreement import predict
from opplab.agreement.forecast import Facts
from opplab.errors import InputError

from calls import called
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


def asked(folder: Path, experiment: str = EXPERIMENT, table: str = TABLE) -> Result:
    (folder / "mine.toml").write_text(experiment)
    (folder / "mine.csv").write_text(table)
    return called("predict", folder / "mine.toml", "-o", folder / "out.csv", "--results", folder / "results")


def predicted(folder: Path, experiment: str = EXPERIMENT, table: str = TABLE) -> list[dict[str, str]]:
    ran = asked(folder, experiment, table)
    assert ran.exit_code == 0, ran.output
    with (folder / "out.csv").open() as stream:
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


ONE = EXPERIMENT.rpartition("[[compare]]")[0]
TWO = ONE.replace('"juno-r2"', '["juno-r2", "skylake-8x-uma"]')


def test_rows_of_two_machines_are_of_their_own(tmp_path: Path) -> None:
    """Each had the ratio of the means over both machines, at a clock that neither has."""
    lines = [f"{machine},{line}" for machine in ("skylake-8x-uma", "juno-r2", "mars") for line in TABLE.split()[1:3]]
    rows = predicted(tmp_path, TWO, "\n".join(["machine,parameter,metric,variant,value", *lines]))
    found = pl.read_parquet(tmp_path / "results" / "mine" / "results.parquet")
    energy = found.filter(param="tasks=2", metric="energy").group_by("machine", "policy").agg(pl.col("value").mean())
    mean = {(machine, policy): value for machine, policy, value in energy.iter_rows()}
    by_hand = {name: mean[name, "performance"] / mean[name, "schedutil"] for name in ("juno-r2", "skylake-8x-uma")}
    own = {row["machine"]: row for row in rows if row["variant"] == "performance"}
    for name, ratio in by_hand.items():
        assert float(own[name]["predicted_ratio"]) == pytest.approx(ratio, rel=1e-3)
        assert float(own[name]["low"]) < ratio < float(own[name]["high"])
    assert by_hand["juno-r2"] != pytest.approx(by_hand["skylake-8x-uma"], rel=0.01)
    assert (own["mars"]["predicted_ratio"], own["mars"]["reason"]) == (
        "",
        "no machine of the name mars is simulated",
    )


@pytest.mark.parametrize("names", [["x"], ["x", "y"], [""]])
def test_which_machine_stands_for_which_is_not_guessed(tmp_path: Path, names: list[str]) -> None:
    lines = [f"{machine},{line}" for machine in names for line in TABLE.split("\n")[1:3]]
    table = "\n".join(["machine,parameter,metric,variant,value", *lines])
    one = ONE if len(names) > 1 else TWO
    words = f"the table's machines are {', '.join(names) or 'not named'}, the simulated ones"
    assert words in str(asked(tmp_path, one, table).exception)


def test_rows_of_other_benchmarks_and_of_the_other_side_are_not_predicted(tmp_path: Path) -> None:
    """A table's transactions a second had the ratio of the elapsed time of another benchmark."""
    lines = [
        f"{benchmark},energy,{better},{policy},{value}"
        for benchmark, better in (("periodic", "lower"), ("sqlite", "higher"))
        for policy, value in (("schedutil", 10), ("performance", ""))
    ]
    table = "\n".join(["benchmark,metric,better,variant,value", *lines])
    own, other = predicted(tmp_path, ONE, table)[1::2]
    assert float(own["predicted_ratio"]) > 0
    assert (other["predicted_ratio"], other["reason"]) == ("", "no entry of `compare` has the benchmark sqlite")
    (turned,) = predicted(tmp_path, ONE, table.replace("lower", "higher").replace("sqlite", "periodic"))[1:2]
    assert turned["predicted_ratio"] == ""
    assert turned["reason"] == "energy is better higher, and the simulated energy lower"


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
    assert "energy of performance periodic tasks=2 is not known: a power is missing" in rows[1]["reason"]


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
