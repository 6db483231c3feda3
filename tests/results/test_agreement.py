"""The scoreboard: which published cell meets which prediction, and the figures of merit."""

from __future__ import annotations

import json
import math
import re
import statistics
from dataclasses import asdict
from pathlib import Path

import polars as pl
import pytest

from opplab import catalog
from opplab.agreement import calibration, forecast, page, scoreboard
from opplab.agreement.scoreboard import Cell, score, spearman
from opplab.agreement.verify import scored_experiments
from opplab.comparison import published
from opplab.errors import InputError
from opplab.sweep.confidence import mean_of
from opplab.sweep.experiments import Experiment

from calls import answered, called


def cell(published: float, predicted: float, spread: float = 0.01, **where: str) -> Cell:
    names = ("table", "machine", "benchmark", "metric", "parameter", "variant")
    places = {"seed": "000", "experiment": "e", "unit": "s", "better": "lower", "baseline": "base", "explanation": ""}
    texts = places | {name: where.get(name, name) for name in names}
    numbers = {"value": 1.0, "baseline_value": 1.0, "simulated": 1.0, "simulated_baseline": 1.0, "points": 1}
    return Cell(**texts, **numbers, published=published, predicted=predicted, spread=spread)  # type: ignore[arg-type]


def test_each_benchmark_of_a_picture_has_a_mark_of_its_own() -> None:
    """Goal: more benchmarks than colours are told apart. Method: seventeen; a mark is its shape and its colour."""
    picture = page.chart([cell(1.1, 1.2, benchmark=f"b{number}") for number in range(17)], "title")
    marks = re.findall(r'<(circle|rect|path) [^>]*class="mark (c\d)"/>', picture)
    assert len(marks) == len(set(marks)) == 17


def test_signs_are_counted_where_the_effect_exceeds_its_spread() -> None:
    cells = [cell(1.2, 1.1), cell(0.8, 1.05), cell(1.005, 0.9), cell(0.5, 0.6)]
    figures = score(cells)
    assert (figures["cells"], figures["sign_cells"]) == (4, 3)
    assert figures["sign_agreement"] == pytest.approx(2 / 3)
    assert figures["median_abs_error"] == pytest.approx((0.1 + 0.105) / 2)
    assert figures["p90_abs_error"] == pytest.approx(0.105 + 0.7 * (0.25 - 0.105))


def test_no_change_is_no_agreement() -> None:
    assert score([cell(1.2, 1.0)])["sign_agreement"] == 0.0


def test_skill_is_measured_against_no_effect() -> None:
    # Errors 0.1, 0.1, 0.02, of the null 0.2, 0.4, 0.01; the third is clear of nothing.
    figures = score([cell(1.2, 1.1), cell(0.6, 0.7), cell(1.01, 1.03, spread=0.05)])
    assert figures["null_median_abs_error"] == pytest.approx(0.2)
    assert figures["skill_median"] == pytest.approx(0.5)
    assert figures["skill_mean"] == pytest.approx(1 - 0.22 / 0.61)
    assert figures["closer"] == pytest.approx(2 / 3)
    assert figures["closer_or_tie_clear"] == 1.0
    # Worse than the null is negative; where the null is right there is nothing to gain.
    assert score([cell(1.1, 0.9)])["skill_mean"] == pytest.approx(-1.0)
    assert score([cell(1.0, 1.2)])["skill_mean"] is None
    assert [score([])[name] for name in ("skill_median", "skill_mean", "closer", "strict_sign_agreement")] == [None] * 4


def test_a_row_of_points_with_unlike_iterations_has_the_spread_of_its_own_runs() -> None:
    """Goal: points without an iteration stand there with their mean, and rows without one do not count it.

    Method: hackbench's row of the Haswell with six points, of which two have several runs; all by hand.
    """
    experiment = Experiment.load("ospm-2019-haswell")
    factors = [1.0, 1.2, 0.9]
    rows: list[tuple[str, str, str, int, float]] = []
    for policy in experiment.policies:
        is_base = policy == experiment.baseline
        rows += [("hackbench-many", f"groups={n}", policy, 0, 50.0) for n in (21, 48, 110, 172)]
        for run, factor in enumerate(factors):
            rows += [("hackbench-process-pipes", f"groups={n}", policy, run, 10.0 * (1.0 if is_base else factor))
                     for n in (1, 7)]  # fmt: skip
    names = ["benchmark", "param", "policy", "iteration", "value"]
    results = pl.DataFrame(rows, schema=names, orient="row").with_columns(
        machine=pl.lit("haswell-48x-numa"), metric=pl.lit("elapsed"), unit=pl.lit("s"), better=pl.lit("lower")
    )
    found = forecast.deviations_of(experiment, published.cells_for(experiment), results)
    assert len(found) == 4
    # Two of six points in a geometric mean.
    logs = [math.log(factor) / 3 for factor in factors]
    assert list(found.values()) == pytest.approx([statistics.stdev(logs) * math.sqrt(2 / 3)] * 4)
    one = results.filter(pl.col("iteration") == 0)
    more = results.filter(pl.col("benchmark") == "hackbench-many").with_columns(iteration=pl.lit(1, pl.Int64))
    alone = forecast.deviations_of(experiment, published.cells_for(experiment), pl.concat([one, more]))
    assert list(alone.values()) == pytest.approx([0.0] * 4)


def test_no_effect_ties_with_the_null_and_a_faint_sign_is_strictly_wrong() -> None:
    figures = score([cell(1.2, 1.0), cell(1.2, 1.004), cell(1.2, 1.1), cell(1.2, 1.4)])
    # The last is as far above as the null is below.
    assert (figures["ties"], figures["closer"], figures["closer_or_tie_clear"]) == (2, 0.5, 1.0)
    assert (figures["sign_agreement"], figures["faint_cells"]) == (0.75, 1)
    assert figures["strict_sign_agreement"] == 0.5


@pytest.mark.parametrize("name", scored_experiments())
def test_the_quick_part_is_unbiased(name: str) -> None:
    """Over all starts of the sample each row weighs 1, so that sums over the part have the whole's expectation."""
    experiment = Experiment.load(name)
    strata = scoreboard.strata(experiment)
    starts = max(map(len, strata))
    assert starts > 1 or len(strata) == 1
    for rows in strata:
        expected = dict.fromkeys((row for row, _ in rows), 0.0)
        for draw in range(len(rows)):
            taken, points = scoreboard.sample(experiment, draw)
            own = {row: weight for row, weight in taken.items() if row in expected}
            # Each part stands for all of its table.
            assert math.fsum(own.values()) == pytest.approx(len(rows))
            assert all(needed <= points for row, needed in rows if row in own)
            for row, weight in own.items():
                expected[row] += weight / len(rows)
        assert list(expected.values()) == pytest.approx([1.0] * len(rows))
    # The rows are those of the whole that are simulated: their cells are cells of the whole.
    taken, _ = scoreboard.sample(experiment)
    every = {row for rows in strata for row, _ in rows}
    assert set(taken) <= every
    assert abs(len(taken) - len(every) / scoreboard.SAMPLE) <= len(strata)


def test_weights_count_as_cells_do() -> None:
    heavy = Cell(**asdict(cell(1.2, 1.1)) | {"weight": 3.0})
    light = cell(0.6, 0.8)
    part, whole = score([heavy, light]), score([cell(1.2, 1.1)] * 3 + [light])
    assert part.pop("cells") == 2
    assert part["weight"] == whole["weight"] == whole.pop("cells") == 4
    # Quantiles of few cells are interpolated between other places.
    for name in ("mean_abs_error", "skill_mean", "sign_agreement", "closer", "closer_or_tie_clear", "coverage90"):
        assert part[name] == pytest.approx(whole[name]), name


def test_no_cells_have_no_figures() -> None:
    figures = score([])
    assert figures["cells"] == 0
    assert [figures[name] for name in ("sign_agreement", "median_abs_error", "rank_correlation")] == [None] * 3


def test_ranks_are_those_of_the_variants_of_a_row() -> None:
    row = [("a", 1.3, 1.1), ("b", 0.9, 0.8), ("c", 1.1, 1.05)]
    same = [cell(pub, sim, variant=name, parameter="n=1") for name, pub, sim in row]
    turned = [cell(pub, 2 - sim, variant=name, parameter="n=2") for name, pub, sim in row]
    assert score(same)["rank_correlation"] == pytest.approx(1.0)
    assert score([*same, *turned])["rank_correlation"] == pytest.approx(0.0, abs=1e-12)
    # One variant: its rows are ranked.
    alone = [cell(1.1, 1.2, variant="a", parameter="n=1"), cell(1.2, 1.1, variant="a", parameter="n=2")]
    assert score(alone)["rank_correlation"] == pytest.approx(0.5)
    assert spearman([1, 1, 2], [3, 4, 5]) == pytest.approx(math.sqrt(3) / 2)


@pytest.mark.parametrize("name", scored_experiments())
def test_every_compare_names_published_rows_of_its_policies(name: str) -> None:
    experiment = Experiment.load(name, iterations=1)
    assert experiment.compare
    points = {(case.benchmark, case.param) for case in experiment.cases}
    for entry in experiment.compare:
        rows = forecast.rows_of(experiment.published_seed, published.cells_for(experiment), entry)
        variants = {entry["variants"].get(label, label) for label in experiment.policies}
        assert variants & {row.variant for row in rows}, entry
        met = [row for row in rows for bench, param in points if bench in entry["workloads"]
               if forecast.belongs(forecast.axes_of(row.parameter), forecast.axes_of(param))]  # fmt: skip
        assert met, entry


def test_means_over_time_weigh_points_by_what_they_took() -> None:
    results = pl.DataFrame({
        "benchmark": ["make", "make", "make", "make", "net"],
        "param": ["jobs=1", "jobs=1", "jobs=8", "jobs=8", "n=1"],
        "policy": ["p"] * 5,
        "metric": ["power", "elapsed", "power", "elapsed", "power"],
        "unit": "W",
        "better": "lower",
        "value": [100.0, 300.0, 200.0, 100.0, 50.0],
    })  # fmt: skip
    facts = forecast.Facts(results)
    points = facts.points(["make"])
    values = [facts.value(point, "p", ["power"]) or 0.0 for point in points]
    assert forecast.over_time(values, [facts.time(point, "p") for point in points]) == pytest.approx(125)
    assert facts.time(("net", "n=1"), "p") == 1.0


def test_means_of_the_score_are_those_of_the_tables() -> None:
    units = {"transactions": ("1/s", "higher"), "power": ("W", "lower"), "share": ("%", "higher")}
    values = [5895.25, 5585.5, 7375.0]
    rows = [
        {"benchmark": "b", "param": "", "policy": "p", "metric": metric, "unit": unit, "better": better, "value": value}
        for metric, (unit, better) in units.items()
        for value in values
    ]
    facts = forecast.Facts(pl.DataFrame(rows))
    for metric, (unit, better) in units.items():
        assert facts.value(("b", ""), "p", [metric]) == pytest.approx(mean_of(values, better, unit)), metric


def test_a_scoreboard_of_a_few_cases(tmp_path: Path) -> None:
    text = (catalog.DATA / "experiments" / "juno-eas.toml").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(re.sub(r"(?m)^iterations = .*", "iterations = 1", text))
    arguments = ["verify", "published", str(file), "--format", "json", "-o", str(tmp_path / "out")]
    done = answered(*arguments)
    board = json.loads(done.stdout)
    assert board["overall"]["cells"] == 18 == board["seeds"]["003"]["cells"]
    assert {one["table"] for one in board["tables"]} == {"juno-energy-homogeneous", "juno-energy-heterogeneous"}
    details = [one for table in board["tables"] for one in table["cells_detail"]]
    ten = next(one for one in details if (one["parameter"], one["variant"]) == ("tasks=10", "CPPC-EAS"))
    assert ten["published"] == pytest.approx(5.64 / 7.86)
    assert ten["baseline"] == "CPPC-no-EAS"
    assert ten["spread"] == pytest.approx(5.64 / 7.86 * math.hypot(0.05 / 5.64, 0.37 / 7.86))
    assert ten["sign_agrees"] and ten["exceeds_spread"]
    assert "clock while busy" in ten["explanation"]
    for figures in (board["overall"], *board["tables"]):
        assert {"skill_median", "skill_mean", "closer", "strict_sign_agreement"} <= figures.keys()
    page = (tmp_path / "out" / "agreement.md").read_text(encoding="utf-8")
    assert f"opplab verify published {file}" in page and "skill, median" in page
    assert (tmp_path / "out" / "figures" / "agreement-003.svg").read_text(encoding="utf-8").startswith("<svg")
    # What is there is not run again.
    again = called(*arguments, "--score-only")
    assert json.loads(again.stdout) == board


OWN = """format = 1
name = "mine"
machine = "skylake-8x-uma"
published = "mine.csv"
baseline = "slow"
seed = 1
iterations = 1
duration = "300ms"
warmup = "100ms"
[defaults]
kernel = "6.1"
driver = "intel_cpufreq"
[[policy]]
label = "slow"
governor = "powersave"
[[policy]]
label = "fast"
governor = "performance"
[[workload]]
label = "net"
benchmark = "tbench"
clients = [1, 2]
[[compare]]
table = "mine"
workload = "net"
simulated = "throughput"
"""


def test_a_table_of_ones_own_is_compared(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(OWN)
    table = tmp_path / "mine.csv"
    table.write_text("parameter,variant,value\nclients=1,slow,100\nclients=1,fast,300\nclients=2,slow,200\n")
    arguments = ["verify", "published", str(file), "--format", "json", "-o", str(tmp_path / "out")]
    done = answered(*arguments)
    board = json.loads(done.stdout)
    (one,) = board["tables"][0]["cells_detail"]
    assert (one["seed"], one["variant"], one["published"], one["parameter"]) == ("mine", "fast", 3.0, "clients=1")
    assert one["predicted"] > 1.5
    assert board["overall"]["skill_mean"] == pytest.approx(1 - abs(one["error"]) / 2)
    assert "## Table mine" in (tmp_path / "out" / "agreement.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("text", "message"), [
    ("parameter,value\nclients=1,100\n", "mine.csv:1:1: the table has no column 'variant'"),
    ("variant,value\nslow,much\n", "mine.csv:2:1: `value` is 'much', no positive number"),
    ("variant,value\n", "mine.csv:1:1: the table has no row with a value"),
])  # fmt: skip
def test_a_table_of_ones_own_that_is_wrong_is_refused_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    (tmp_path / "mine.csv").write_text(text)
    with pytest.raises(InputError, match=re.escape(message)):
        _ = published.cells_for(Experiment.load(tmp_path / "mine.toml"))


def test_a_sourced_constant_is_not_free_and_a_mean_over_seeds_is_fitted(tmp_path: Path) -> None:
    assert "processes_total" not in {param["name"] for param in calibration.constants("gitsource")}
    (tmp_path / "mine.toml").write_text(OWN)
    (tmp_path / "mine.csv").write_text("parameter,variant,value\nclients=1,slow,60\n")
    made = calibration.fit(
        "tbench",
        "skylake-8x-uma",
        only=["exchange_cycles"],
        seeds=2,
        rounds=1,
        steps=1,
        experiment=tmp_path / "mine.toml",
    )
    assert set(made.values) == {"exchange_cycles"} and made.intervals.keys() == {"clients=1"}
    text = calibration.to_toml(made)
    assert "60 published" in text and "+-" in text


def test_a_fit_in_an_experiment_of_two_machines_is_of_its_own(tmp_path: Path) -> None:
    """It took the runs and the values of whichever machine came last."""
    how = {"only": ["exchange_cycles"], "seeds": 1, "rounds": 1, "steps": 1, "experiment": tmp_path / "mine.toml"}
    values = []
    for machines in ('"skylake-8x-uma"', '["skylake-8x-uma", "skylake-sp-2s"]'):
        (tmp_path / "mine.toml").write_text(OWN.replace('"skylake-8x-uma"', machines))
        table = "machine,parameter,variant,value\nskylake-8x-uma,clients=1,slow,60\nskylake-sp-2s,clients=1,slow,5\n"
        (tmp_path / "mine.csv").write_text(table)
        made = calibration.fit("tbench", "skylake-8x-uma", **how)
        values.append((made.values, made.intervals))
        assert "60 published" in calibration.to_toml(made)
    assert values[0] == values[1]
    with pytest.raises(InputError, match="has no machine skylake-9x-uma; did you mean `skylake-8x-uma`"):
        calibration.fit("tbench", "skylake-9x-uma", **how)


def test_a_name_that_is_not_published_is_refused_with_the_nearest(tmp_path: Path) -> None:
    text = (catalog.DATA / "experiments" / "juno-eas.toml").read_text(encoding="utf-8")
    file = tmp_path / "mine.toml"
    file.write_text(text.replace('table = "juno-energy-homogeneous"', 'table = "juno-energy-homogenous"'))
    done = called("verify", "published", file, "--quick", "-o", tmp_path / "out")
    assert done.exit_code != 0
    assert "no table 'juno-energy-homogenous'; did you mean `juno-energy-homogeneous`?" in str(done.exception)


def test_no_model_or_machine_names_a_variant() -> None:
    """A constant that knows a variant would be fitted to what it is to predict."""
    # The baselines are what constants are fitted to.
    baselines = {base for name in scored_experiments() for base, _ in Experiment.load(name, iterations=1).pairs}
    variants = {row.variant for seed in published.SEEDS for row in published.cells(seed)} - baselines - {"", "EAS"}
    root = Path(__file__).parents[2]
    files = [*(catalog.DATA / "machines").glob("*.toml"), *(catalog.DATA / "calibration").glob("*.toml")]
    files += [file for part in ("model", "sim") for file in (root / "crates" / part / "src").rglob("*.rs")]
    assert len(files) > 30
    any_variant = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, variants))})(?![\w-])")
    for file in files:
        found = any_variant.search(file.read_text(encoding="utf-8"))
        assert not found, f"{file} names {found}"


def test_fitted_constants_are_shown_with_what_they_were_fitted_to() -> None:
    done = called("calibrate", "--show", "--format", "json")
    rows = json.loads(done.stdout)
    fitted = [row for row in rows if row["where"] == "tbench@epyc-7742-2s"]
    assert {row["constant"]: row["fitted to"] for row in fitted} == dict.fromkeys(
        ("exchange_cycles", "line_ns", "shared_ns", "shared_every"), "text 000, 2-detail-tbench4, ondemand"
    )
    assert all(row["residual %"] < 5 for row in fitted)
    assert any(row["where"] == "dbench" and row["how"] == "assumed" for row in rows)


def test_constants_are_shown_of_what_is_asked_for() -> None:
    """Goal: what a run names with `calibrate --show NAME` is that and nothing else."""

    def shown(*words: str) -> list[str]:
        done = answered("calibrate", "--show", *words, "--format", "json")
        return [row["where"] for row in json.loads(done.stdout)]

    assert set(shown("tbench@epyc-7742-2s")) == {"tbench@epyc-7742-2s"} == set(shown("tbench", "epyc-7742-2s"))
    assert {"tbench", "tbench@epyc-7742-2s"} < set(shown("tbench"))
    assert not any(where.startswith("dbench") for where in shown("tbench"))
    wrong = called("calibrate", "--show", "tbench@epyc-7742")
    assert "`tbench@epyc-7742` has no constants; did you mean `tbench@epyc-7742-2s`?" in str(wrong.exception)


def test_a_baseline_is_read_from_a_table_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "base.csv"
    file.write_text("parameter,value\nclients=1,100\nclients=2,190\n")
    assert calibration.read_baseline(file).values == {"clients=1": 100.0, "clients=2": 190.0}
    file.write_text("parameter,value\nclients=1,much\n")
    with pytest.raises(InputError, match=r"base.csv:2:1: 'much' is no number"):
        calibration.read_baseline(file)
    file.write_text("clients,value\n")
    with pytest.raises(InputError, match="no column 'parameter'"):
        calibration.read_baseline(file)


def test_the_search_finds_a_dip_outside_its_first_bracket() -> None:
    found = calibration.minimise(lambda x: abs(math.log(x / 70_000)), 1000, 1, 10**9, steps=20)
    assert found == pytest.approx(70_000, rel=0.01)
    assert calibration.minimise(float, 100, 5, 1000) == 5


def test_coverage_counts_what_is_inside_the_interval_of_the_other_tables() -> None:
    near, far = cell(1.0, 1.0, benchmark="tbench"), cell(9.0, 1.0, benchmark="tbench")
    low, high = near.interval
    assert low < 1.0 < high < 9.0
    figures = score([near, near, far])
    assert figures["coverage90"] == pytest.approx(2 / 3)
    assert figures["width"] == pytest.approx(high - low)
    assert (score([])["coverage90"], score([])["width"]) == (None, None)


def test_an_interval_does_not_know_its_own_table() -> None:
    from opplab.agreement.predict import half_width, interval_of, known_errors

    table = "000 amd-epyc-7742-2s tbench"
    others = [known for known in known_errors() if known.table != table]
    assert len(others) < len(known_errors())
    assert math.log(interval_of(table, "tbench", 1.5)[1] / 1.5) == pytest.approx(
        half_width("tbench", math.log(1.5), others)
    )
