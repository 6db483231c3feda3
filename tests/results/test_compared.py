"""Tables of `opplab compare`: performance per watt, and what the layouts say of their numbers."""

import json
import math
import re
import shutil
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab import results
from opplab.comparison.compare import Tables
from opplab.comparison.gate import check
from opplab.comparison.tables import laid_out, render
from opplab.report.numbers import quantity
from opplab.summary.compared import report

from calls import answered

GOLDEN = Path(__file__).parents[1] / "data" / "mmtests-golden" / "given" / "results"


def rows(
    policy: str, metric: str, values: Sequence[float], unit: str, better: str, **more: object
) -> list[dict[str, object]]:
    common = {"policy": policy, "benchmark": "b", "param": "n=1", "metric": metric, "unit": unit, "better": better}
    return [{**common, "iteration": at, "seed": 7 + at, "value": value, **more} for at, value in enumerate(values)]


def ratios(found: list[dict[str, object]]) -> Tables:
    return opplab.compare(results.frame(found), baseline="old", table="ppw")


def bursts(policy: str, factor: float) -> list[dict[str, object]]:
    """Runs whose power rises more than their rate."""
    rates = (100.0, 102.0, 101.0, 160.0 * factor, 99.0)
    watts = (1.0, 1.02, 1.01, 2.5 * factor, 0.99)
    return [*rows(policy, "throughput", rates, "MB/s", "higher"), *rows(policy, "power", watts, "W", "lower")]


def test_performance_per_watt_has_an_interval_of_pairs() -> None:
    """A run of a fast iteration that takes its share of power is no worse per watt; means taken apart say so."""
    found = [*bursts("old", 1.0), *bursts("new", 1.5)]
    (table,) = ratios(found)
    cell = table.rows[0].cells[1]
    assert cell is not None
    # Each iteration has the same rate by its power as the baseline's.
    assert cell.ratio == pytest.approx(1.0)
    spread = [*bursts("old", 1.0), *rows("new", "throughput", (101.0, 102.5, 102.0, 161.0, 99.5), "MB/s", "higher")]
    spread += rows("new", "power", (1.0, 1.02, 1.01, 2.5, 0.99), "W", "lower")
    (table,) = ratios(spread)
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.ratio_low is not None
    assert cell.ratio_high is not None
    assert cell.ratio_low < cell.ratio < cell.ratio_high
    assert cell.certain in ("clear", "not clear")


@pytest.mark.parametrize("higher", [True, False])
def test_performance_per_watt_is_work_by_energy(higher: bool) -> None:
    """It is the inverse of the energy of the work, whose ratio and interval are the same."""
    old, new = ((10.0, 11.0, 10.5), (2.0, 2.4, 2.1)), ((9.0, 10.8, 10.1), (2.2, 2.3, 2.4))
    found = []
    for policy, (times, watts) in (("old", old), ("new", new)):
        own = [1 / value for value in times] if higher else times
        found += rows(policy, "t", own, "1/s" if higher else "s", "higher" if higher else "lower")
        found += rows(policy, "power", watts, "W", "lower")
        found += rows(policy, "joules", [t * w for t, w in zip(times, watts, strict=True)], "J", "lower")
    (table,) = opplab.compare(results.frame(found), baseline="old", table="ppw", metric="t")
    (energy,) = opplab.compare(results.frame(found), baseline="old", metric="joules")
    gain, used = table.rows[0].cells[1], energy.rows[0].cells[1]
    assert gain is not None
    assert used is not None
    assert gain.ratio == pytest.approx(1 / used.ratio)
    assert (gain.ratio_low, gain.ratio_high) == (pytest.approx(1 / used.ratio_high), pytest.approx(1 / used.ratio_low))
    assert (gain.certain, gain.significant) == (used.certain, used.significant)


def test_performance_per_watt_of_a_part_is_that_of_its_work() -> None:
    """The start at a low clock is in the power of the part and not in the time of the whole: 9 % of nothing."""
    found, part = [], 0.1
    for policy, start_s in (("old", 0.0), ("new", 0.02)):
        for at, took in enumerate((1.0, 1.01, 1.02)):
            # 50 W while it works, and 5 W in a start that does no work.
            joules, seconds = 50 * part * took + 5 * start_s, part * took + start_s
            for metric, value, unit in (
                ("elapsed", took, "s"),
                ("energy", joules, "J"),
                ("power", joules / seconds, "W"),
                ("work_done", 2 * part, "s"),
            ):
                more = {"source": "sim", "iteration": at, "seed": at}
                found += rows(policy, metric, [value], unit, "" if metric == "work_done" else "lower", **more)
    (table,) = opplab.compare(results.frame(found), baseline="old", table="ppw", metric="elapsed")
    cell = table.rows[0].cells[1]
    assert cell is not None
    # The same work in the same time; the start adds its joules and no more.
    assert cell.ratio == pytest.approx(5.05 / (5.05 + 0.1))
    words = "elapsed is of the whole benchmark, energy of the 0.1000 to 0.1220 s of it that were simulated"
    assert f"b: {words}; performance per watt is of energy_per_work" in table.notes


def test_one_mean_of_power_has_no_interval_and_says_so() -> None:
    """Nothing separates the values of a log of watts, so that no quotient has a spread."""
    found = [*bursts("old", 1.0), *bursts("new", 1.5)]
    apart = [{**row, "iteration": None, "seed": None} for row in found]
    (table,) = ratios(apart)
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert (cell.ratio_low, cell.significant, cell.certain) == (None, False, "power is known as one mean of each run")
    assert "performance per watt of b has no interval: power is known as one mean of each run" in str(table)


def test_mean_power_of_unlike_parameters_has_no_change() -> None:
    """A run that lacks its busiest case would else have the lower mean, though each case that it has takes more."""
    light, busy = (10.0, 10.2), (50.0, 50.2)
    whole = [*rows("old", "power", light, "W", "lower"), *rows("old", "power", busy, "W", "lower", param="n=16")]
    more = rows("new", "power", [value + 2 for value in light], "W", "lower")
    rest = rows("new", "power", [value + 2 for value in busy], "W", "lower", param="n=16")
    for base, note in (("old", "new lacks the parameter n=16"), ("new", "new lacks the parameter n=16")):
        (table,) = opplab.compare(results.frame([*whole, *more]), baseline=base, table="power")
        cell = table.rows[0].cells[1]
        assert cell is not None
        assert (cell.change, cell.value) == (None, pytest.approx(30.1 if base == "new" else 12.1))
        assert note in str(table)
    (table,) = opplab.compare(results.frame([*whole, *more, *rest]), baseline="old", table="power")
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.change == pytest.approx(100 * (1 - 32.1 / 30.1))
    assert "lacks" not in str(table)


@pytest.mark.parametrize("gone", [("throughput", "power"), ("power",), ("throughput",)])
def test_performance_per_watt_of_unlike_parameters_is_refused(gone: tuple[str, ...]) -> None:
    """Equal runs, one without its busiest case or a part of it: means of power would make it 3 times as efficient."""
    found = [row for policy in ("old", "new") for row in _light_and_busy(policy)]
    apart = [{**row, "iteration": None, "seed": None} for row in found]
    (table,) = ratios(apart)
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.ratio == pytest.approx(1.0)
    cut = [row for row in apart if (row["policy"], row["param"]) != ("new", "n=16") or row["metric"] not in gone]
    note = f"new lacks the {'parameter' if 'throughput' in gone else 'power of'} n=16"
    for base in ("old", "new"):
        for table_name in ("ppw", "power"):
            (table,) = opplab.compare(results.frame(cut), baseline=base, table=table_name)
            cell = table.rows[0].cells[1]
            assert cell is not None
            # Power alone is compared over its own parameters.
            compared = table_name == "ppw" or "power" in gone
            words = note if table_name == "ppw" else "new lacks the parameter n=16"
            assert (cell.change, words in str(table)) == ((None, True) if compared else (pytest.approx(0.0), False))
        page = report(results.frame(cut), baseline=base)
        assert math.isnan(page.benchmarks[0].gains[1][0])


@pytest.mark.parametrize(("energy", "joules"), [("J", 1.0), ("kJ", 1e3), ("mJ", 1e-3), ("Wh", 3600.0)])
@pytest.mark.parametrize(("time", "seconds"), [("s", 1.0), ("ms", 1e-3), ("min", 60.0)])
def test_energy_over_time_is_watts_in_any_unit(energy: str, joules: float, time: str, seconds: float) -> None:
    """240 W were 0.24 of energies in kJ, and 4 of Wh over minutes."""
    found = []
    for policy, took in (("old", (100.0, 101.0)), ("new", (80.0, 81.0))):
        found += rows(policy, "elapsed", [one / seconds for one in took], time, "lower")
        found += rows(policy, "energy", [240 * one / joules for one in took], energy, "lower")
    (table,) = opplab.compare(results.frame(found), baseline="old", table="power")
    assert [cell and cell.value for cell in table.rows[0].cells] == pytest.approx([240.0, 240.0])
    cell = ratios(found)[0].rows[0].cells[1]
    assert cell is not None
    # Of equal power it is the time.
    assert cell.ratio == pytest.approx(201 / 161)


@pytest.mark.parametrize("others", [(), ("elapsed",), ("elapsed", "wall")])
def test_energy_is_over_one_of_several_times(others: Sequence[str]) -> None:
    """Watts were over the mean of `duration` and `elapsed`; the `wall` time of `host compare` was no time."""
    found = []
    for policy, joules in (("old", 30.0), ("new", 40.0)):
        found += rows(policy, "energy", (joules, joules * 1.1), "J", "lower")
        found += rows(policy, "duration" if others else "wall", (10.0, 10.0), "s", "lower")
        found += [row for name in others for row in rows(policy, name, (5.0, 5.0), "s", "lower")]
    (table,) = opplab.compare(results.frame(found), baseline="old", table="power")
    assert [cell.value for cell in table.rows[0].cells if cell] == pytest.approx([3.15, 4.2])
    time = "duration" if others else "wall"
    (table,) = opplab.compare(results.frame(found), baseline="old", table="ppw", metric=time)
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.ratio == pytest.approx(30 / 40)


@pytest.mark.parametrize(("unit", "watts"), [("mW", 1e-3), ("uW", 1e-6), ("kW", 1e3)])
def test_power_in_other_units_is_power(unit: str, watts: float) -> None:
    """`no power was recorded` of powers in mW, which also refused the answers of other machines."""
    found = [row for policy in ("old", "new") for row in _light_and_busy(policy)]
    for row in found:
        if row["metric"] == "power" and row["policy"] == "new":
            row["value"] = 2 * float(str(row["value"]))
    other = [
        {**row, "machine": "other", **({"unit": unit, "value": row["value"] / watts} if row["unit"] == "W" else {})}
        for row in found
    ]
    whole = [{**row, "machine": "first"} for row in found]
    for table, by_hand in (("power", 60.2), ("ppw", 0.5)):
        tables = opplab.compare(results.frame([*whole, *other]), baseline="old", table=table)
        for one in tables:
            cell = one.rows[0].cells[1]
            assert cell is not None
            assert cell.value == pytest.approx(by_hand)
        assert [one.machine for one in tables] == ["first", "other"]


def test_the_page_averages_no_ratios_of_several_metrics() -> None:
    """A rate that fell and a loss in the same unit that rose had one geometric mean, of nothing."""
    found = []
    for policy, rate, loss in (("old", 100.0, 10.0), ("new", 50.0, 20.0)):
        found += rows(policy, "rate", (rate, rate + 1, rate + 2), "MB/s", "higher")
        found += rows(policy, "loss", (loss, loss + 1, loss + 2), "MB/s", "lower")
    text = report(results.frame(found), baseline="old").to_html()
    (table,) = opplab.compare(results.frame(found), baseline="old", metric="rate")
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert f"its ratios to old in rate (higher is better) is {cell.ratio:.3f} " in text


def _tree_of_equal_runs(folder: Path, jobs: dict[str, tuple[int, ...]]) -> Path:
    """Runs of kernbench that take the same time and power at each number of jobs; power rises with the jobs."""
    for run, of_run in jobs.items():
        for at in range(3):
            place = folder / run / f"iter-{at}"
            (place / "kernbench" / "logs").mkdir(parents=True)
            log = ["Package\tCore\tCPU\tAvg_MHz\tBusy%\tPkgWatt"]
            for number in of_run:
                text = f"90.00user 9.00system 1:4{at}.00elapsed 99%CPU (0avgtext+0avgdata 100maxresident)k\n"
                (place / "kernbench" / "logs" / f"time-{number}-1").write_text(text)
                log += [f"-\t-\t-\t1500\t60\t{50 * number + at}.00"] * 10
            (place / "turbostat-kernbench").write_text("\n".join(log) + "\n")
    return folder


@pytest.mark.parametrize("table", ["detail", "ratio", "significance", "nocompare", "overview", "ppw", "power"])
def test_a_benchmark_that_cannot_be_read_leaves_the_others(tmp_path: Path, table: str) -> None:
    """It refused them all, in overviews for `no metric named 'loadfile'`."""
    shutil.copytree(GOLDEN, tmp_path / "tree")
    for log in (tmp_path / "tree").rglob("dbench/logs/*"):
        log.write_bytes(b"no log")
    found = opplab.compare(tmp_path / "tree", table=table)
    whole = opplab.compare(GOLDEN, table=table)
    assert [str(problem) for problem in found.problems if problem.path == "dbench"]
    rest = [row for one in whole for row in one.rows if "dbench" not in (one.benchmark, row.operation)]
    assert [row for one in found for row in one.rows] == rest
    assert rest
    with pytest.raises(opplab.OpplabError, match="has no values of dbench"):
        opplab.compare(tmp_path / "tree", table=table, benchmarks=["dbench"])


def test_a_machine_without_power_leaves_the_others() -> None:
    found = [row for policy in ("old", "new") for row in _light_and_busy(policy)]
    other = [{**row, "machine": "none"} for row in found if row["metric"] != "power"]
    for table in ("power", "ppw"):
        tables = opplab.compare(results.frame([*other, *found]), baseline="old", table=table)
        assert [one.machine for one in tables] == [""]
        assert "none: no power was recorded" in str(tables.problems[0])
        with pytest.raises(opplab.OpplabError, match="no power was recorded"):
            opplab.compare(results.frame(other), baseline="old", table=table)


@pytest.mark.parametrize("benchmark", ["kernbench", "kernbench:Elapsed-2"])
def test_power_that_an_iteration_shares_with_a_lacking_parameter_is_of_unlike_work(
    tmp_path: Path, benchmark: str
) -> None:
    """Equal runs, one without its busiest parameter, were 1.7 times as efficient: their powers are not of the same."""
    tree = _tree_of_equal_runs(tmp_path, {"old": (2, 4, 8), "new": (2, 4), "same": (2, 4, 8)})
    for base in ("old", "new"):
        (table,) = opplab.compare(tree, runs=[base, "new" if base == "old" else "old"], table="ppw",
                                  benchmarks=[benchmark])  # fmt: skip
        cell = table.rows[0].cells[1]
        assert cell is not None
        assert (cell.ratio, cell.cannot) == (None, "new lacks the parameter 8")
        checks = check([table], ["any < -50%"])
        assert [one.failed for one in checks] == [True]
        assert "new lacks the parameter 8" in checks[0].message
    page = report(tree, runs=["old", "new", "same"], benchmarks=[benchmark])
    text = page.to_html()
    assert "average power 151.0 W against 234.3 W, of unlike work (new lacks the parameter 8)." in text
    assert "average power 234.3 W against 234.3 W." in text
    assert ("over the 2 of 3 operations that both have" in text) is (benchmark == "kernbench")
    assert math.isnan(page.benchmarks[0].gains[1][0])
    assert page.benchmarks[0].gains[2][0] == pytest.approx(1.0)


def _light_and_busy(policy: str) -> list[dict[str, object]]:
    found = rows(policy, "throughput", (100.0, 101.0), "MB/s", "higher")
    found += rows(policy, "throughput", (500.0, 501.0), "MB/s", "higher", param="n=16")
    found += rows(policy, "power", (10.0, 10.2), "W", "lower")
    return found + rows(policy, "power", (50.0, 50.2), "W", "lower", param="n=16")


def test_a_parameter_with_fewer_iterations_counts_as_much_in_mean_power() -> None:
    whole = [*rows("old", "power", (10.0, 10.0, 10.0), "W", "lower")]
    whole += rows("old", "power", (50.0, 50.0, 50.0), "W", "lower", param="n=16")
    cut = [*rows("new", "power", (10.0, 10.0, 10.0), "W", "lower")]
    cut += rows("new", "power", (50.0,), "W", "lower", param="n=16")
    (table,) = opplab.compare(results.frame([*whole, *cut]), baseline="old", table="power")
    assert [cell and cell.value for cell in table.rows[0].cells] == [30.0, 30.0]


@pytest.mark.parametrize(
    "words",
    [["--layout", name] for name in ("blocks", "slides", "boxes")]
    + [["--table", name] for name in ("ratio", "significance", "nocompare", "overview", "ppw", "power")],
)
def test_three_runs_fit_the_terminal(words: list[str]) -> None:
    """Runs stand in groups below each other, none of them lost."""
    done = answered("compare", GOLDEN, *words, columns=80)
    lines = done.stdout.splitlines()
    assert [line for line in lines if len(line) > 80] == []
    assert all(name in done.stdout for name in ("5.9.0-ondemand", "5.9.0-perfgov", "5.9.0-sugov-mid"))


def test_a_run_whose_name_has_a_comma_is_named_in_quotes(tmp_path: Path) -> None:
    names = ("base", "epp=balance,hz=1000", 'a "b"')
    table = tmp_path / "t.csv"
    results.frame([row for name in names for row in rows(name, "t", (1.0, 2.0), "s", "lower")]).write_csv(table)
    command = ["compare", str(table), "--format", "json", "--runs"]
    for asked, found in (('"epp=balance,hz=1000",base', names[1::-1]), ('base,"a ""b"""', names[::2])):
        done = answered(*command, asked)
        assert list(dict.fromkeys(cell["run"] for cell in json.loads(done.stdout)["cells"])) == list(found)


def test_the_legend_of_a_grid_keeps_a_run_whose_name_has_a_comma_whole() -> None:
    found = [
        {**row, "machine": machine}
        for machine in ("one", "two")
        for name in ("base", "new", "perf, new")
        for row in rows(name, "t", (1.0, 2.0), "s", "lower")
    ]
    (table,) = opplab.compare(results.frame(found), baseline="base", table="overview", layout="grid")
    assert table.method.endswith('columns of a machine: new, "perf, new"')


def _without_an_iteration(folder: Path, run: str) -> Path:
    shutil.copytree(GOLDEN, folder)
    shutil.rmtree(folder / run / "iter-1")
    return folder


def test_a_baseline_of_one_iteration_is_the_reason_and_not_its_power(tmp_path: Path) -> None:
    tree = _without_an_iteration(tmp_path / "tree", "5.9.0-perfgov")
    (table,) = opplab.compare(str(tree), baseline="5.9.0-perfgov", table="ppw", benchmarks=["kernbench"])
    assert "the baseline has power of 1 iteration, 2 are needed" in " ".join(str(table).split())
    assert "not known by case" not in str(table)


def test_a_run_of_one_iteration_is_the_reason_and_the_others_keep_their_interval(tmp_path: Path) -> None:
    tree = _without_an_iteration(tmp_path / "tree", "5.9.0-perfgov")
    (table,) = opplab.compare(str(tree), table="ppw", benchmarks=["kernbench"])
    _, short, whole = table.rows[0].cells
    assert short is not None
    assert whole is not None
    assert (short.certain, short.ratio_low) == ("5.9.0-perfgov has power of 1 iteration, 2 are needed", None)
    (same,) = opplab.compare(GOLDEN, table="ppw", benchmarks=["kernbench"])
    untouched = same.rows[0].cells[2]
    assert untouched is not None
    assert (whole.ratio, whole.ratio_low) == (untouched.ratio, untouched.ratio_low)
    assert whole.ratio_low is not None
    assert "one mean of each run" not in str(table)


@pytest.mark.parametrize("short", ["5.9.0-perfgov", "5.9.0-ondemand"])
@pytest.mark.parametrize("lost", ["turbostat-kernbench", "status"])
def test_mean_power_of_fewer_iterations_is_named_and_fails_a_gate(tmp_path: Path, short: str, lost: str) -> None:
    """A log that is not there, or one of a test that failed: neither is power of the benchmark's work."""
    tree = tmp_path / "tree"
    shutil.copytree(GOLDEN, tree)
    place = tree / short / "iter-1"
    if lost == "status":
        ends = place / "tests-timestamp"
        text, found = re.subn(r"(?m)^(test end :: kernbench \d+) 0$", r"\1 2", ends.read_text())
        assert found == 1
        ends.write_text(text)
    else:
        (place / lost).unlink()
    (table,) = opplab.compare(str(tree), table="power", benchmarks=["kernbench", "tbench"])
    log = (tree / short / "iter-0" / "turbostat-kernbench").read_text().splitlines()
    column = log[1].split("\t").index("PkgWatt")
    watts = [float(line.split("\t")[column]) for line in log if line.startswith("-\t")]
    at = table.runs.index(short)
    cell = table.rows[0].cells[at]
    assert cell is not None
    assert cell.value == pytest.approx(statistics.fmean(watts))
    assert table.rows[1].cells == opplab.compare(GOLDEN, table="power", benchmarks=["tbench"])[0].rows[0].cells
    words = "lacks 1 of the baseline's 2 iterations" if at else "the baseline lacks 1 of the run's 2 iterations"
    assert words in " ".join(str(table).split())
    checks = check([table], ["kernbench:power < -50%"])
    assert [one.failed for one in checks] == ([True, False] if at else [True, True])
    assert all(words in one.message for one in checks if one.failed)
    assert not any(one.failed for one in check([table], ["tbench:power < -50%"]))


LONG = "kernel=6.19,governor=schedutil,rate_limit_us=4000,epp=balance_performance,hz=1000"


@pytest.mark.parametrize("shown", ["detail", "ratio", "significance", "overview", "power", "slides", "boxes"])
def test_a_long_name_is_wrapped(shown: str) -> None:
    """Names beyond 60 characters made tables wider than 80 columns; each is whole when its lines are joined."""
    found = [row for name in (f"{LONG},a", LONG) for row in bursts(name, 1.0 + len(name) / 100)]
    how = {"layout": shown} if shown in ("slides", "boxes") else {"table": shown}
    (table,) = opplab.compare(results.frame(found), baseline=f"{LONG},a", **how)  # type: ignore[arg-type]
    text = render(table, "text", 80).partition("\nmethod")[0]
    assert max(map(len, text.splitlines())) <= 80
    assert f"{LONG},a" in "".join(text.split()) or shown == "boxes"
    plain = render(replace(table, runs=["a", "b"]), "text", 80).partition("\nmethod")[0]
    assert sorted(re.findall(r"\d+\.\d+", plain)) == sorted(re.findall(r"\d+\.\d+", text.replace("6.19", "")))


def test_comparisons_without_a_test_are_not_counted(tmp_path: Path) -> None:
    """Holm's correction and the stars to expect by chance are of the p values that there are."""
    tree = _without_an_iteration(tmp_path / "tree", "5.9.0-perfgov")
    (table,) = opplab.compare(str(tree), baseline="5.9.0-perfgov", table="significance", benchmarks=["tbench"])
    tested = [cell for row in table.rows for cell in row.cells if cell is not None and cell.ratio_low is not None]
    assert tested
    assert f"of {len(tested)} by chance" in table.method
    assert f"p corrected for {len(tested)} comparisons" in table.method


def test_a_case_without_power_is_named() -> None:
    found = [*bursts("old", 1.0), *bursts("new", 1.5)]
    lost = [row for row in found if (row["policy"], row["metric"], row["iteration"]) != ("new", "power", 2)]
    (table,) = ratios(lost)
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.cannot == "throughput-n=1: 1 of 5 values are no numbers"
    assert f"performance per watt of b throughput of new: {cell.cannot}" in table.notes


def test_mmtests_iterations_have_an_interval() -> None:
    table = opplab.compare(GOLDEN, table="ppw")[0]
    for row in table.rows:
        for cell in row.cells[1:]:
            assert cell is not None
            assert cell.ratio_low is not None
            assert cell.certain in ("clear", "not clear")


def test_the_page_has_the_same_performance_per_watt() -> None:
    (table,) = opplab.compare(GOLDEN, table="ppw", benchmarks=["kernbench"])
    (one,) = report(GOLDEN, benchmarks=["kernbench"]).benchmarks
    for cell, gain in zip(table.rows[0].cells[1:], one.gains[1:], strict=True):
        assert cell is not None
        assert gain == (cell.ratio, cell.ratio_low, cell.ratio_high)
        assert all(map(math.isfinite, gain))


def of_two_units() -> Tables:
    """A time in s that is clearly better, and an energy of some mJ that is not."""
    found = []
    for policy, factor in (("old", 1.0), ("new", 0.8)):
        found += rows(policy, "elapsed", [3.0 * factor, 3.03 * factor, 2.98 * factor], "s", "lower")
    found += rows("old", "joules", [0.0220, 0.0224, 0.0221], "J", "lower")
    found += rows("new", "joules", [0.0222, 0.0219, 0.0223], "J", "lower")
    return opplab.compare(results.frame(found), baseline="old", everything=True)


@pytest.mark.parametrize("layout", ["slides", "blocks", "boxes"])
@pytest.mark.parametrize("form", ["text", "markdown", "html", "latex"])
def test_every_layout_of_means_has_units_digits_and_stars(layout: str, form: str) -> None:
    """Goal: nobody reads 0.0 for 22 mJ, and no clear change without its star."""
    (table,) = of_two_units()
    shown = render(laid_out(table, layout), form)
    assert ("elapsed-n=1 (s)" if layout == "boxes" else "s of elapsed; J of joules") in shown
    assert "0.022" in shown
    lines = shown.splitlines()
    clear, not_clear = ("\n".join(line for line in lines if f"{name}-n=1" in line) for name in ("elapsed", "joules"))
    if form in ("text", "markdown"):
        assert "*" in clear.replace("**", "*")
        assert "*" not in not_clear


def test_a_star_beside_p_is_of_p() -> None:
    """Of many comparisons one is clear by itself, and not after Holm's correction: both numbers are there."""
    found = []
    for at in range(8):
        new = [9.2, 9.4, 9.1, 9.7] if not at else [10.1, 9.8, 10.2, 9.9]
        for policy, values in (("old", [10.0, 10.1, 9.9, 10.05]), ("new", new)):
            found += rows(policy, "elapsed", values, "s", "lower", param=f"n={at}")
    (table,) = opplab.compare(results.frame(found), baseline="old", table="significance")
    cell = table.rows[0].cells[1]
    assert cell is not None
    assert cell.significant
    assert cell.p < 0.05 < cell.p_holm
    line = next(line for line in str(table).splitlines() if line.startswith("elapsed-n=0"))
    assert f"p={cell.p:.2g}* Holm {cell.p_holm:.2g} g=" in line
    assert "Holm is p corrected for 8 comparisons; stars are of p alone" in table.method


def test_energy_of_a_part_of_a_benchmark_is_named(tmp_path: Path) -> None:
    """Goal: nobody takes the joules of 250 of 1000 loops for those of the seconds of all of them."""
    for loops, part in ((250, True), (1000, False)):
        model = opplab.Workload.benchmark("hackbench", groups=1, loops=loops)
        found = opplab.simulate("juno-r2", model, opplab.Policy()).metrics
        (table,) = opplab.compare(found)
        words = [note for note in table.notes if "elapsed is of the whole benchmark, energy of the " in note]
        assert len(words) == part


def test_what_was_simulated_is_named_by_workload(tmp_path: Path) -> None:
    """One range of two workloads was false of the second; nine tenths of a build passed for all of it."""
    params = ("--param", "jobs=8,32", "--iterations", "1")
    done = answered("run", "kernbench", "-m", "epyc-7742-2s", *params, "-o", tmp_path / "out", columns=400)
    found = pl.read_parquet(tmp_path / "out/results.parquet").pivot(on="metric", index="param", values="value")
    of = dict(zip(found["param"], (found["energy"] / found["power"]).to_list(), strict=True))
    said = "; ".join(
        f"{quantity(of[param])} s{' of it that were simulated' * first} (kernbench {param.replace('=', ' ')})"
        for first, param in zip((True, False), found["param"], strict=True)
    )
    assert f"elapsed is of the whole benchmark, energy of the {said}" in done.output
    (table,) = opplab.compare(tmp_path / "out")
    assert any(said in note for note in table.notes)


def test_a_run_and_its_comparison_simulated_the_same_seconds(tmp_path: Path) -> None:
    """The seconds are those of single runs in both, whose ends lie apart from those of the means."""
    words = ["run", "hackbench", "-m", "juno-r2", "--param", "groups=1", "--param", "loops=250", "--iterations", "3"]
    done = answered(*words, "-o", tmp_path / "out", columns=400)
    said = re.findall(r"energy of the [\d. to]+ s of it", done.output)
    (table,) = opplab.compare(tmp_path / "out")
    assert said
    assert {one for note in table.notes for one in re.findall(r"energy of the [\d. to]+ s of it", note)} == set(said)


def test_energy_of_unlike_work_is_compared_by_work_or_named() -> None:
    def rows(policy: str, energy: float, rate: float, metric: str = "throughput") -> list[dict[str, object]]:
        base = {"policy": policy, "benchmark": "tbench", "iteration": 1, "source": "sim"}
        return [
            {**base, "metric": metric, "unit": "MB/s", "better": "higher", "value": rate},
            {**base, "metric": "energy", "unit": "J", "better": "lower", "value": energy},
            {**base, "metric": "power", "unit": "W", "better": "lower", "value": energy},
        ]

    for rate, unlike in ((80.0, True), (99.5, False)):
        table = results.frame([*rows("old", 100.0, 100.0), *rows("new", 90.0, rate)])
        (shown,) = opplab.compare(table, baseline="old")
        metrics = ["throughput", "energy_per_work" if unlike else "energy"]
        assert [row.metric for row in shown.rows] == metrics
        (asked,) = opplab.compare(table, baseline="old", metric="energy")
        words = ["energy is of unlike work (new -20 %): energy_per_work is of equal work"]
        assert asked.notes == (words if unlike else [])
    change = {row.metric: row.cells[1].change for row in opplab.compare(table, baseline="old", everything=True)[0].rows}
    assert change["energy"] == pytest.approx(10.0)


def test_unlike_work_is_the_mean_of_the_runs_own_work() -> None:
    """Goal: the percent that the answer of the runs has. Method: runs whose energy is not as their work."""

    def rows(policy: str, iteration: int, energy: float, work: float) -> list[dict[str, object]]:
        base = {"policy": policy, "benchmark": "load", "iteration": iteration, "source": "sim"}
        both = (("energy", "J", "lower", energy), ("work_done", "s", "higher", work))
        return [
            {**base, "metric": name, "unit": unit, "better": side, "value": value} for name, unit, side, value in both
        ]

    own = [rows("old", 0, 1.0, 1.0), rows("old", 1, 9.0, 3.0), rows("new", 0, 1.0, 2.0), rows("new", 1, 9.0, 3.0)]
    (table,) = opplab.compare(results.frame([row for one in own for row in one]), baseline="old", metric="energy")
    assert table.notes == ["energy is of unlike work (new +25 %): energy_per_work is of equal work"]


def test_the_page_judges_what_has_a_better_side_alone_and_has_the_notes_of_the_table() -> None:
    """A clock that rose was "clearly better" though "lower is better"; lost values, points and levels were wrong."""
    found = [
        *rows("old", "clock", (1000.0, 1001.0, 999.0), "MHz", ""),
        *rows("new", "clock", (1100.0, 1101.5, 1099.0), "MHz", ""),
        *rows("old", "missed_activations", (3.0, 4.0, 3.5), "%", "lower"),
        *rows("new", "missed_activations", (7.0, 8.2, 7.4), "%", "lower"),
        *rows("old", "crashes", (0.0, 0.0, 0.0), "", "lower"),
        *rows("new", "crashes", (2.0, 3.0, 4.0), "", "lower"),
        *rows("old", "wait", (10.0, 11.0, 10.5), "ms", "lower"),
        *rows("new", "wait", (20.0, math.nan, 21.5), "ms", "lower"),
    ]
    page = report(results.frame(found), baseline="old").to_html()
    assert "new is clearly better in 0 and worse in 2 of 3 operations (1 more without a better side)" in page
    assert "wait-n=1 of new: 1 of 3 values are no numbers and left out" in page
    assert re.search(r"missed_activations-n=1: -[\d.]+ pp \[", page)
    assert "crashes-n=1: from 0<" in page
    assert "inf %" not in page
    assert "neither more nor less is better" in page
    assert "more by, %" in page
    clock = [
        *rows("old", "clock", (1000.0, 1001.0, 999.0), "MHz", ""),
        *rows("new", "clock", (1.1, 1.0, 1.2), "MHz", ""),
    ]
    page = report(results.frame(clock), baseline="old").to_html()
    assert "is better)" not in page
    assert 'class="good"' not in page
    assert 'class="bad"' not in page


def test_the_page_has_its_sentence_at_the_level_that_is_asked_for() -> None:
    """Means of ratios had the interval of 95 %, whatever level the rest of the page had."""
    found = [
        *rows("old", "time", (10.0, 11.0, 10.5, 10.2), "s", "lower"),
        *rows("new", "time", (12.0, 13.0, 12.1, 12.9), "s", "lower"),
    ]
    page = report(results.frame(found), baseline="old", confidence=0.8)
    (row,) = page.benchmarks[0].table.rows
    cell = row.cells[1]
    assert cell is not None
    assert f"is {cell.ratio:.3f} [{cell.ratio_low:.3f}, {cell.ratio_high:.3f}]" in page.to_html()
