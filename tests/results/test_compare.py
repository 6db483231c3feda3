"""The default method, its tables, formats, sources and the gate."""

import json
import math
import random
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import scipy.stats

from opplab import results, stats
from opplab.comparison import gate
from opplab.comparison.compare import compare
from opplab.comparison.method import Sample, compare_runs
from opplab.comparison.overview import overall, overview
from opplab.comparison.sources import open_source, to_frame
from opplab.comparison.tables import FORMATS, render
from opplab.errors import InputError
from opplab.runs import Run, Series
from opplab.simulation.simulate import simulate
from opplab.summary.answer import paired_change, points
from opplab.summary.compared import report
from opplab.summary.publish import mean_rows

from calls import answered, called
from testdata import shared

GIVEN = Path(__file__).parent.parent / "data/mmtests-golden/given"
ONDEMAND, MID, PERF = "5.9.0-ondemand", "5.9.0-sugov-mid", "5.9.0-perfgov"


def cli(*arguments, code=0):
    result = called("compare", *arguments)
    assert result.exit_code == code, (result.output, result.exception)
    return result


def run_of(name, values, *, higher=False, seeds=None, benchmark="bench", label="time-1"):
    run = Run(name, benchmark)
    unit = "MB/s" if higher else "seconds"
    series = Series(label, *label.split("-"), unit, higher, [[value] for value in values], seeds)
    run.series[label] = series
    return run


def test_default_detail_says_mean_interval_change_and_method():
    table = compare_runs([run_of("a", [10.2, 11.1, 9.8, 10.9]), run_of("b", [12.1, 13.3, 11.9, 12.8])])
    base, new = table.rows[0].cells
    assert base.value == pytest.approx(10.5) and new.value == pytest.approx(12.525)
    # stats.t.interval(.95, 3, 10.5, sem) of scipy
    assert base.low == pytest.approx(9.536466531691154)
    # u, v: variances of the means over their squares; df of Welch; t = log(ratio) / sqrt(u + v)
    a, b = [10.2, 11.1, 9.8, 10.9], [12.1, 13.3, 11.9, 12.8]
    u, v = (scipy.stats.sem(one) ** 2 / np.mean(one) ** 2 for one in (a, b))
    df = (u + v) ** 2 / (u**2 / 3 + v**2 / 3)
    assert new.p == pytest.approx(2 * scipy.stats.t.sf(math.log(np.mean(b) / np.mean(a)) / math.sqrt(u + v), df))
    assert new.change == pytest.approx(-19.285714) and new.significant and not new.same
    assert new.ratio_low < new.ratio < new.ratio_high and new.ratio_low > 1
    text = str(table)
    low, high = (100 * (1 - end) for end in (new.ratio_high, new.ratio_low))
    assert f"*-19.29 % [{low:+.2f}, {high:+.2f}]*" in text and "Student-t" in text and "0.05 of 1 by chance" in text


def test_rates_are_averaged_harmonically_and_more_is_better():
    table = compare_runs([run_of("a", [10.0, 20.0], higher=True), run_of("b", [20.0, 40.0], higher=True)])
    assert table.rows[0].stat == "Hmean"
    assert table.rows[0].cells[0].value == pytest.approx(40 / 3)
    assert table.rows[0].cells[1].change == pytest.approx(100.0)


def test_holm_correction_is_over_the_whole_table():
    generator = random.Random(1)
    base, new = Run("a", "x"), Run("b", "x")
    for index in range(200):
        for run in (base, new):
            values = [[generator.gauss(100, 5)] for _ in range(6)]
            run.series[f"t-{index}"] = Series(f"t-{index}", "t", str(index), "s", False, values)
    cells = [row.cells[1] for row in compare_runs([base, new]).rows]
    assert sum(cell.p < 0.05 for cell in cells) > 2, "of 200 equal pairs some look different"
    assert not any(cell.p_holm < 0.05 for cell in cells), "but not after the correction"
    table = compare_runs([base, new])
    assert "10 of 200 by chance" in table.method, "the star is the interval's, and the table says what chance gives"
    assert all(row.cells[1].significant == (row.cells[1].p < 0.05) for row in table.rows)


def test_shared_seeds_are_paired():
    seeds = list(range(8))
    noise = [1.0, 3.0, 0.5, 2.0, 5.0, 1.5, 4.0, 0.7]
    base = run_of("a", noise, seeds=seeds)
    new = run_of("b", [1.02 * value for value in noise[::-1]], seeds=seeds[::-1])
    cell = compare_runs([base, new]).rows[0].cells[1]
    assert cell.significant and cell.ratio_low == pytest.approx(1.02) and cell.ratio_high == pytest.approx(1.02)
    unpaired = compare_runs([run_of("a", noise), run_of("b", [1.02 * value for value in noise])]).rows[0].cells[1]
    assert not unpaired.significant and unpaired.same


def test_two_pairs_have_an_interval_and_say_so():
    """12.7 standard errors wide; unpaired, the spread of the seeds hides the change."""
    table = compare_runs([run_of("a", [10.0, 20.0], seeds=[1, 2]), run_of("b", [9.0, 18.1], seeds=[1, 2])])
    cell = table.rows[0].cells[1]
    assert cell.ratio_low < cell.ratio < cell.ratio_high < 1.0
    assert "Student's t on the logarithm, paired by shared seeds" in table.method


def test_changes_of_a_part_of_the_seeds_are_named():
    """Means are of all values, a change is of the pairs: it need not be the ratio of the means beside it."""
    base, new = run_of("a", [10.0, 20.0, 60.0], seeds=[1, 2, 3]), run_of("b", [9.0, 18.1], seeds=[1, 2])
    assert compare_runs([base, new]).notes == ["b: changes are of the 2 shared seeds; the means are of all 3 and 2"]
    assert not compare_runs([base, run_of("b", [9.0, 18.1, 50.0], seeds=[1, 2, 3])]).notes


def test_shared_dates_are_paired():
    """Nights of one machine: a table of measurements has no seeds."""
    nights = [f"2026-11-{day:02}" for day in range(1, 7)]
    noise = [1.0, 3.0, 0.5, 2.0, 5.0, 1.5]
    rows = [
        {"policy": policy, "benchmark": "b", "metric": "time", "unit": "s", "better": "lower", "value": factor * value}
        | {"date": night}
        for policy, factor, order in (("old", 1.0, 1), ("new", 0.97, -1))
        for night, value in list(zip(nights, noise, strict=True))[::order]
    ]
    (table,) = compare(
        pl.concat([results.frame(rows), pl.DataFrame({"date": [row["date"] for row in rows]})], how="horizontal")
    )
    cell = table.rows[0].cells[1]
    assert "paired by shared dates" in table.method
    assert cell.significant and cell.ratio_low == pytest.approx(0.97) and cell.ratio_high == pytest.approx(0.97)


def test_dates_of_a_csv_make_pairs(tmp_path):
    lines = ["policy,benchmark,metric,unit,better,iteration,date,value"]
    for policy, factor in (("old", 1.0), ("new", 0.9)):
        for day, value in enumerate((10.0, 14.0, 11.0)):
            # Two values a night: their mean is the night's.
            lines += [f"{policy},b,time,s,lower,{day},2026-11-0{day + 1},{factor * value + off}" for off in (-0.1, 0.1)]
    (tmp_path / "nights.csv").write_text("\n".join(lines) + "\n")
    (table,) = compare(tmp_path / "nights.csv")
    assert "paired by shared dates" in table.method
    assert table.rows[0].cells[1].ratio_high == pytest.approx(0.9)


@pytest.mark.parametrize("columns", [["iteration"], ["iteration", "seed"], []])
@pytest.mark.parametrize(("base", "new"), [(1, 1), (2, 2), (3, 2)])
def test_dates_are_pairs_where_iterations_begin_anew_on_each(tmp_path, columns, base, new):
    """Six nights of another level each, and a run that is 1 % slower in all of them."""
    lines = [",".join(["policy", "benchmark", "metric", "unit", "better", *columns, "date", "value"])]
    levels = (106.2, 101.3, 108.9, 103.1, 100.4, 109.8)
    for night, level in enumerate(levels):
        for policy, number, slower in (("base", base, 1.0), ("new", new, 1.01)):
            for at in range(number):
                value = level * slower + 0.02 * ((night + at) % 3)
                numbers = [str(at) for _ in columns]
                lines.append(
                    ",".join([policy, "b", "time", "s", "lower", *numbers, f"2026-11-0{night + 1}", f"{value}"])
                )
    (tmp_path / "nights.csv").write_text("\n".join(lines) + "\n")
    (table,) = compare(str(tmp_path / "nights.csv"))
    cell = table.rows[0].cells[1]
    assert "paired by shared dates" in table.method
    assert (len(cell.sample.base), cell.certain, cell.cannot) == (6, "clear", "")
    assert cell.ratio == pytest.approx(1.01, abs=1e-3)


def test_runs_of_other_dates_are_pairs_of_their_seeds(tmp_path):
    lines = ["policy,benchmark,metric,unit,better,iteration,seed,date,value"]
    for policy, night, slower in (("base", "2026-11-01", 1.0), ("new", "2026-11-02", 1.01)):
        lines += [f"{policy},b,time,s,lower,{at},{at},{night},{(100 + 10 * at) * slower}" for at in range(4)]
    (tmp_path / "nights.csv").write_text("\n".join(lines) + "\n")
    (table,) = compare(str(tmp_path / "nights.csv"))
    assert "paired by shared seeds" in table.method
    assert len(table.rows[0].cells[1].sample.base) == 4


@pytest.mark.parametrize("better", ["lower", "higher"])
@pytest.mark.parametrize("iterations", [2, 5])
def test_one_comparison_has_one_answer_everywhere(tmp_path, better, iterations):
    """Text, HTML, JSON and Python of `compare`, and the report of a sweep, say the same ratio and interval."""
    from opplab.summary.compared import report
    from opplab.summary.page import Report
    from opplab.summary.pairs import pair_blocks
    from opplab.summary.publish import mean_rows

    generator = random.Random(7)
    rows = []
    for seed in range(1, iterations + 1):
        level = generator.gauss(40, 6)
        for policy, factor in (("ondemand", 1.0), ("schedutil", 0.96)):
            value = factor * level * generator.gauss(1, 0.01)
            rows.append(
                {"machine": "m", "policy": policy, "benchmark": "kernbench", "param": "jobs=8", "metric": "elapsed"}
                | {"unit": "s", "better": better, "iteration": seed - 1, "seed": seed, "value": value}
            )
    table = results.frame(rows)
    results.write(table, tmp_path / "results.parquet")
    (compared,) = compare(table)
    cell = compared.rows[0].cells[1]
    assert cell.ratio_low < cell.ratio < cell.ratio_high
    arguments = ["compare", str(tmp_path / "results.parquet"), "--format"]
    text = answered(*arguments, "text").output
    low, high = (100 * (end - 1) for end in (cell.ratio_low, cell.ratio_high))
    low, high = (low, high) if better == "higher" else (-high, -low)
    change = f"{cell.change:+.2f} % [{low:+.2f}, {high:+.2f}]"
    markdown = answered(*arguments, "markdown").output
    assert change in text and f"({change})" in markdown
    found = json.loads(answered(*arguments, "json").output)
    own = next(one for one in found["cells"] if one["run"] == "schedutil")
    assert [own[key] for key in ("ratio", "ratio_low", "ratio_high")] == [cell.ratio, cell.ratio_low, cell.ratio_high]
    page = report(table).to_html()
    assert f"<td>{cell.ratio:.3f}</td>" in re.sub(r" (class|data-value)=\"[^\"]*\"", "", page)
    span = f"{cell.ratio_low:.3f} to {cell.ratio_high:.3f}"
    assert span in page and f"is {cell.ratio:.3f} [{cell.ratio_low:.3f}, {cell.ratio_high:.3f}]" in page
    blocks = pair_blocks(table, [("ondemand", "schedutil")], "elapsed")
    (line,) = blocks[0].lines
    assert line.ratio == pytest.approx(100 * (cell.ratio - 1), rel=1e-12)
    assert line.ends == (100 * (cell.ratio_low - 1), 100 * (cell.ratio_high - 1))
    assert (line.base.mean, line.variant.mean) == (compared.rows[0].cells[0].value, cell.value)
    assert [row["mean"] for row in mean_rows(table)] == [compared.rows[0].cells[0].value, cell.value]
    low, high = line.ends
    shown = f"{line.ratio:+.2f} [{low:+.2f}, {high:+.2f}]{'*' if cell.significant else ''}".replace("-", "\u2212")
    assert (line.certain.words, line.certain.is_clear) == (cell.certain, cell.significant)
    assert shown in Report("t", "", [], table, blocks).to_html()


def test_rates_whose_mean_may_be_anything_have_no_interval_and_no_infinity():
    """The interval of the mean time holds 0, so that of the rate has no upper end."""
    from opplab.summary.compared import report
    from opplab.summary.page import Report
    from opplab.summary.pairs import pair_blocks

    rows = [
        row | {"param": param, "machine": "m", "unit": "MB/s"}
        for param in ("clients=1", "clients=4")
        for policy, factor in (("a", 1.0), ("b", 0.9))
        for row in sim_rows([factor * 5.0, factor * 900.0, factor * 950.0], "throughput", policy, "higher")
    ]
    table = results.frame(rows)
    (compared,) = compare(table)
    assert compared.rows[0].cells[0].low is None and compared.rows[0].cells[0].is_open
    for form in ("text", "json", "csv"):
        assert "inf" not in render(compared, form).lower()
    blocks = pair_blocks(table, [("a", "b")], "throughput")
    assert blocks[0].lines[0].base.half is None and blocks[0].lines[0].base.varies
    for page in (Report("t", "", [], table, blocks).to_html(), report(table).to_html()):
        assert 'inf"' not in page and "Infinity" not in page


def test_three_iterations_make_iterations_the_observations():
    """Samples inside an iteration move together; counting them as independent would find a difference in nothing."""
    base, new = Run("a", "x"), Run("b", "x")
    base.series["t"] = Series("t", "t", "", "s", False, [[level + i / 1e3 for i in range(50)] for level in (1, 2, 3)])
    new.series["t"] = Series("t", "t", "", "s", False, [[level + i / 1e3 for i in range(50)] for level in (2, 3, 2.5)])
    table = compare_runs([base, new])
    assert table.rows[0].cells[0].n == 3 and not table.rows[0].cells[1].significant
    assert "observations are iterations" in table.method


@pytest.mark.parametrize("keys", [None, [1, 2, 3]])
def test_one_bad_sample_takes_no_iteration_with_it(keys):
    """An iteration with a rate of 0 or a value that is no number left unseen, so that the run was equal or better."""

    def compared(sample, unit="MB/s", higher=True):
        runs = []
        for name, first in (("a", [10.0, 10.2, 10.1]), ("b", [5.0, sample, 5.1])):
            run = Run(name, "x")
            iterations = [first, [10.3, 10.1, 10.2], [9.9, 10.2, 10.0]]
            run.series["t"] = Series("t", "t", "", unit, higher, iterations, keys)
            runs.append(run)
        return compare_runs(runs).rows[0].cells[1], overview([("x", runs, [None] * 2, runs)]).rows[0].cells[1]

    for cell in compared(0.0):
        assert (cell.impossible.removeprefix("t: "), cell.change) == ("a rate is 0 or less", None)
    for cell in compared(-0.1, "msec", False):
        assert (cell.impossible.removeprefix("t: "), cell.change) == ("a value is below 0 msec", None)
    means = [scipy.stats.hmean(own) for own in ([10.0, 10.2, 10.1], [5.0, 5.1], [10.3, 10.1, 10.2], [9.9, 10.2, 10.0])]
    for cell in compared(math.nan):
        assert cell.ratio == pytest.approx(scipy.stats.hmean(means[1:]) / scipy.stats.hmean([means[0], *means[2:]]))


def test_changes_without_a_ratio_have_a_reason_and_one_sign():
    """Negative baselines had neither interval nor reason, their `Hmean` was arithmetic; overviews turned signs."""
    rows = [
        {"policy": policy, "benchmark": "b", "metric": metric, "unit": unit, "better": better, "value": value}
        for policy, factor in (("a", 1.0), ("b", 1.1))
        for metric, unit, better, value in (
            ("delta", "points", "higher", -5 * factor),
            ("delta", "points", "higher", -6 * factor),
            ("clock", "MHz", "", 1000 * factor),
            ("clock", "MHz", "", 1001 * factor),
        )
    ]
    (table,) = compare(results.frame(rows))
    delta, clock = table.rows
    assert (delta.stat, delta.cells[1].certain) == ("Amean", "no interval: a mean is 0 or less")
    (whole,) = compare(results.frame(rows), table="overview")
    assert [row.metric for row in whole.rows] == ["delta", "clock"]
    assert whole.rows[1].cells[1].change == pytest.approx(clock.cells[1].change) == pytest.approx(10)


def test_a_further_run_changes_no_other_change():
    """A third run with two iterations made the samples of the others their observations, and their interval narrow."""
    rng = np.random.default_rng(5)
    runs = []
    for name, count in (("a", 4), ("b", 4), ("c", 2)):
        run = Run(name, "x")
        boots = rng.normal(100, 3, count)
        run.series["t"] = Series("t", "t", "", "s", False, [list(boot + rng.normal(0, 0.1, 20)) for boot in boots])
        runs.append(run)
    two, three = compare_runs(runs[:2]), compare_runs(runs)
    assert two.rows[0].cells[1] == three.rows[0].cells[1] and two.rows[0].cells[0] == three.rows[0].cells[0]
    assert [cell.n for cell in three.rows[0].cells] == [4, 4, 40]
    assert "samples where there are fewer than 3 iterations" in three.method
    (whole,) = overview([("x", runs, [None] * 3, runs)]).rows
    for cell, other in zip(whole.cells[1:], three.rows[0].cells[1:], strict=True):
        ends = other.ratio_low, other.ratio_high
        assert (cell.ratio, cell.ratio_low, cell.ratio_high) == pytest.approx((other.ratio, *ends), rel=1e-12)


def test_pairs_that_are_equal_but_for_the_last_digits_are_no_change():
    """Sums in another order made a clear change of 0.00 %."""
    base = [3.1, 3.3, 2.9, 3.7]
    runs = []
    for name, values in (("a", base), ("b", [value * (1 + 1e-15) for value in base])):
        run = Run(name, "x")
        run.series["t"] = Series("t", "t", "", "s", False, keys=[1, 2, 3, 4], flat=values)
        runs.append(run)
    for cell in (compare_runs(runs).rows[0].cells[1], overview([("x", runs, [None] * 2, runs)]).rows[0].cells[1]):
        assert (cell.certain, cell.ratio_low, cell.significant) == ("equal in all runs", None, False)


def test_tilde_has_two_rules():
    base, new = [100.0, 101.0, 99.0, 100.5, 99.5] * 4, [102.0, 103.0, 101.0, 102.5, 101.5] * 4
    runs = [run_of("a", base), run_of("b", new)]
    assert not compare_runs(runs, kind="ratio").rows[0].cells[1].same
    table = compare_runs(runs, kind="ratio", overview_rule=True)
    assert table.rows[0].cells[1].same and "~ ratio within 2.5 % of 1" in table.method
    assert " ~" in str(table)


def test_overall_ratio_is_the_geometric_mean_of_ratios():
    base, new = Run("a", "x"), Run("b", "x")
    for label, factor in (("t-1", 2.0), ("t-2", 0.5), ("t-3", 8.0)):
        base.series[label] = Series(label, "t", "", "s", False, [[1.0], [1.0]])
        new.series[label] = Series(label, "t", "", "s", False, [[factor], [factor]])
    assert overall([base, new])[1][0] == pytest.approx(2.0)


@pytest.mark.parametrize(("higher", "unit"), [(True, "MB/s"), (False, "s")])
@pytest.mark.parametrize("keys", [None, [1, 2, 3, 4, 5]])
def test_operations_that_vary_together_narrow_nothing(higher, unit, keys):
    """Six parameters without noise of their own, all by the one power of an iteration: the interval of one of them."""
    watts = {"a": [230.0, 228.0, 233.0, 231.0, 229.0], "b": [225.0, 228.0, 227.0, 224.0, 229.0]}

    def ends(labels):
        runs = []
        for name, drawn in watts.items():
            run = Run(name, "x")
            for label in labels:
                values = [100 * label / power if higher else 100 * label * power for power in drawn]
                run.series[f"t-{label}"] = Series(f"t-{label}", "t", "", unit, higher, keys=keys, flat=values)
            runs.append(run)
        return overall(runs)[1]

    assert ends([1, 2, 3, 4, 5, 6]) == pytest.approx(ends([1]), rel=1e-12)


def _wrongly_clear(draw, *, unit="s", higher=False, keyed=False, runs=400):
    """Of pairs of equal runs of five operations, the share whose overall interval leaves out no change."""
    rng = np.random.default_rng(11)
    wrong = 0
    for _ in range(runs):
        pair = []
        for name in "ab":
            run = Run(name, "x")
            for label, iterations in draw(rng).items():
                keys = list(range(len(iterations))) if keyed else None
                run.series[label] = Series(label, "t", "", unit, higher, [list(one) for one in iterations], keys)
            pair.append(run)
        cell = overview([("x", pair, [None, None], pair)]).rows[0].cells[1]
        wrong += bool(cell.significant)
    return wrong / runs


@pytest.mark.parametrize(("unit", "higher"), [("s", False), ("MB/s", True), ("%", False)])
@pytest.mark.parametrize("keyed", [False, True])
def test_overall_intervals_are_of_their_level_where_operations_share_what_varies(unit, higher, keyed):
    """Boots that were faster for all parameters, and percentiles of one block: a third of equal runs was clear."""

    def draw(rng):
        boots = rng.normal(0, 0.02, 5)
        return {f"t-{at}": [[50 * math.exp(boot + rng.normal(0, 0.005))] for boot in boots] for at in range(5)}

    assert _wrongly_clear(draw, unit=unit, higher=higher, keyed=keyed) < 0.09


def test_overall_intervals_of_percentiles_that_one_block_has_are_of_their_level():
    def draw(rng):
        blocks = rng.normal(0, 0.05, 18)
        return {f"t-{at}": [[900 * math.exp(one + rng.normal(0, 0.02)) for one in blocks]] for at in range(5)}

    assert _wrongly_clear(draw) < 0.09


def test_independent_operations_narrow_an_overall_interval():
    rng = np.random.default_rng(3)
    base, new = Run("a", "x"), Run("b", "x")
    for run in (base, new):
        for at in range(8):
            run.series[f"t-{at}"] = Series(f"t-{at}", "t", "", "s", False, flat=list(rng.normal(100, 2, 6)))
    (_, (ratio, low, high)) = overall([base, new])
    alone = compare_runs([base, new]).rows[0].cells[1]
    assert low < ratio < high and (high - low) < 0.6 * (alone.ratio_high - alone.ratio_low)


def test_an_iteration_that_lacks_an_operation_counts_by_the_others(tmp_path):
    """One log that is missing ended `overview` and `ppw` of mmtests trees with an internal error."""
    tree = tmp_path / "results"
    shutil.copytree(GIVEN / "results", tree)
    (tree / PERF / "iter-1/tbench/logs/benchlog-tput-4.xz").unlink()
    for table in ("overview", "ppw"):
        arguments = ("--baseline", ONDEMAND, "-b", "tbench:tput", "--table", table, "--format", "json")
        cells = json.loads(cli(tree, *arguments).stdout)["cells"]
        (cell,) = [one for one in cells if one["run"] == PERF and "WATT" in one["group"]]
        whole = json.loads(cli(GIVEN / "results", *arguments).stdout)["cells"]
        (other,) = [one for one in whole if one["run"] == PERF and "WATT" in one["group"]]
        # The other five logs are the same.
        assert cell["value"] == pytest.approx(other["value"], rel=0.02)
        assert cell["ratio_high"] / cell["ratio"] > 1.009
    base, new = Run("a", "x"), Run("b", "x")
    new.together = True
    for label, values, places in (("t-1", [2.0, 2.1, 2.3], [1, 2, 3]), ("t-2", [4.4, 4.8], [3, 4])):
        base.series[label] = Series(label, "t", "", "s", False, flat=[1.0, 1.01, 0.99])
        base.series[label].places = [1, 2, 3]
        new.series[label] = Series(label, "t", "", "s", False, flat=values)
        new.series[label].places = places
    # By hand, the shares of the operations' means that iterations 1 to 4 add to the mean over both operations.
    first, second = 6.4 / 3, 9.2 / 2
    off = [[2.0 / first - 1, 2.1 / first - 1, 2.3 / first - 1, 0], [0, 0, 4.4 / second - 1, 4.8 / second - 1]]
    parts = [1 + one * 4 / 3 / 2 + other * 4 / 2 / 2 for one, other in zip(*off, strict=True)]
    by_hand = Sample([1.0, 1.01, 0.99], parts, False, False, False).compare(0.95)
    center, low, high = overall([base, new])[1]
    assert math.log(low / center) <= math.log(by_hand["low"]) + 1e-12
    assert math.log(high / center) >= math.log(by_hand["high"]) - 1e-12


def test_overview_efficiency_and_power_of_a_tree():
    tree = GIVEN / "results"
    text = cli(tree, "--baseline", ONDEMAND, "-b", "tbench:tput", "-b", "kernbench", "--table", "overview").stdout
    assert "PERFORMANCE RATIOS" in text and "PERFORMANCE-PER-WATT RATIOS" in text
    lines = {line.split()[0]: line.split()[1:] for line in text.splitlines() if line.startswith(("tbench", "kern"))}
    assert lines["kernbench"][-1] == "higher"  # the last group is performance per watt
    power = cli(tree, "--baseline", ONDEMAND, "-b", "kernbench", "--table", "power").stdout
    assert "kernbench          227.14         251.97           233.32" in power
    ppw = json.loads(
        cli(tree, "--baseline", ONDEMAND, "-b", "tbench:tput", "--table", "ppw", "--format", "json").stdout
    )
    (cell,) = [one for one in ppw["cells"] if one["run"] == PERF]
    assert cell["value"] == pytest.approx(1.1108 * 227.1425 / 251.9675, rel=1e-3)
    # Two iterations with 227.72 and 226.56 W, and with 251.66 and 252.28 W: by hand 1.80 % either way.
    assert cell["ratio_high"] / cell["ratio"] > 1.018 and "its interval is of iterations" in ppw["method"]
    result = called("compare", tree, "-b", "gitsource", "--table", "power")
    assert "no power was recorded" in str(result.exception)


def test_a_rule_is_about_the_power_of_a_monitor_whatever_is_shown():
    """`power` of an mmtests tree concerned nothing without `--table power`."""
    here = ["compare", str(GIVEN / "results"), "-b", "kernbench"]
    # By hand: 251.97 W against 227.14 W.
    line = f"opplab: power kernbench of {PERF}: -10.93%, rule '{{}}'"
    for rule, shown in [("power < -10%", []), ("kernbench:power < -10%", ["--table", "power"])]:
        result = called(*here, "--fail-if", rule, *shown)
        assert (result.exit_code, result.stderr.strip()) == (1, line.format(rule))
    answered(*here, "--fail-if", "power < -12%")
    # A benchmark is its performance, of which no run lost any.
    answered(*here, "--fail-if", "kernbench < -2% or power < -12%")
    result = called(*here[:-1], "gitsource", "--fail-if", "power < -10%")
    assert result.exit_code == 1 and "no power was recorded" in result.stderr


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("method", ["default", "mmtests"])
@pytest.mark.parametrize("table", ["detail", "ratio", "significance", "nocompare", "overview", "monitor:turbostat"])
def test_every_table_in_every_format(table, method, form):
    arguments = ["-b", "kernbench", "--metric", "" if "monitor" in table else "Elapsed"]
    out = cli(GIVEN / "results", *arguments, "--table", table, "--method", method, "--format", form).stdout
    assert len(out) > 200
    if form == "json":
        assert json.loads(out)["cells"]
    if form == "csv":
        assert pl.read_csv(out.encode())["value"].null_count() == 0
    if form == "html":
        assert ET.fromstring("<x>" + out.replace("bgcolor", " bgcolor") + "</x>") is not None


def test_energy_has_no_performance_per_watt(tmp_path):
    """`--table ppw` of results without a rate was an empty table."""
    rows = [
        {"policy": policy, "benchmark": "svc", "metric": metric, "unit": unit, "better": "lower", "value": value}
        for policy in ("old", "new")
        for metric, unit, value in (("energy", "J", 20.0), ("power", "W", 2.0))
    ]
    results.write(results.frame(rows), tmp_path / "a.parquet")
    wrong = called("compare", tmp_path / "a.parquet", "--table", "ppw")
    assert "no performance per watt of energy: it takes a rate or a time" in str(wrong.exception), wrong.output


@pytest.mark.parametrize("method", ["default", "mmtests"])
def test_a_metric_that_a_monitor_does_not_have_is_named(method):
    """`tbench:tput` of a monitor was refused as if nothing had been recorded."""
    words = ["compare", str(GIVEN / "results"), "--method", method, "--table", "monitor:turbostat", "-b"]
    wrong = called(*words, "kernbench:Elapsed")
    assert "no heading named 'Elapsed'; there is: " in str(wrong.exception), wrong.exception
    assert "PkgWatt" in str(wrong.exception) and "turbostat of run" in str(wrong.exception)
    assert "PkgWatt" in answered(*words, "kernbench:PkgWatt").stdout


def test_sources_parquet_csv_and_store_give_the_same_table(tmp_path):
    runs = [open_source([str(GIVEN / "results")]).load(name, "kernbench", "Elapsed") for name in (ONDEMAND, PERF)]
    table = to_frame(runs, experiment="x")
    assert table.columns == list(results.SCHEMA) and set(table["source"]) == {"mmtests"}
    results.write(table, tmp_path / "a.parquet")
    table.write_csv(tmp_path / "a.csv")
    (tmp_path / "store").mkdir()
    results.write(table, tmp_path / "store" / "results.parquet")
    texts = {cli(tmp_path / name, "--format", "csv").stdout for name in ("a.parquet", "a.csv", "store")}
    assert len(texts) == 1
    direct = cli(GIVEN / "results", "--runs", f"{ONDEMAND},{PERF}", "-b", "kernbench:Elapsed", "--format", "csv").stdout
    assert texts == {direct}
    # Columns that tables of other tools lack are empty, in both forms.
    few = table.drop("fingerprint", "source", "experiment", "kernel", "machine", "seed")
    few.write_csv(tmp_path / "few.csv")
    few.write_parquet(tmp_path / "few.parquet")
    assert len({cli(tmp_path / name).stdout for name in ("few.csv", "few.parquet")}) == 1
    few.drop("value").write_parquet(tmp_path / "none.parquet")
    with pytest.raises(InputError, match=r"none.parquet: no column 'value'"):
        open_source([str(tmp_path / "none.parquet")])

    (tmp_path / "bad.csv").write_text("polcy,value\na,1\n")
    with pytest.raises(InputError, match=r"bad.csv:1: no column named 'polcy'; did you mean 'policy'\?"):
        open_source([str(tmp_path / "bad.csv")])
    (tmp_path / "bad2.csv").write_text("policy,value\na,x\n")
    with pytest.raises(InputError, match=r"bad2.csv: .*conversion"):
        open_source([str(tmp_path / "bad2.csv")])
    result = called("compare", tmp_path / "nowhere")
    assert isinstance(result.exception, FileNotFoundError)


FIO = {
    "fio version": "fio-3.33",
    "jobs": [
        {
            "jobname": "rand",
            "read": {
                "total_ios": 5,
                "bw_mean": 100.5,
                "iops": 25.0,
                "clat_ns": {"mean": 9e3, "percentile": {"99.000000": 2e4}},
            },
            "write": {"total_ios": 0},
        }
    ],
}


def test_raw_outputs_one_run_a_file(tmp_path):
    (tmp_path / "old.json").write_text("fio: warning\n" + json.dumps(FIO))
    FIO["jobs"][0]["read"]["bw_mean"] = 201.0
    (tmp_path / "new.json").write_text(json.dumps(FIO))
    table = json.loads(cli(tmp_path / "old.json", tmp_path / "new.json", "--format", "json").stdout)
    cells = {(one["operation"], one["run"]): one for one in table["cells"]}
    assert cells["bw_mean-rand-read", "new"]["change_pct"] == pytest.approx(100.0)
    assert cells["clat_p99-rand-read", "old"]["value"] == 20000.0

    (tmp_path / "hack.txt").write_text("Running in process mode with 10 groups using 40 fds\nTime: 0.42\nTime: 0.44\n")
    assert "time-10" in cli(tmp_path / "hack.txt").stdout
    perf = "# Running 'sched/pipe' benchmark:\n# Executed 1000 pipe operations\n"
    perf += "     Total time: 5.5 [sec]\n       5.5 usecs/op\n        181818 ops/sec\n"
    (tmp_path / "perf.txt").write_text(perf)
    assert {"time", "usecs/op", "ops/sec"} <= set(cli(tmp_path / "perf.txt").stdout.split())
    head = "#idx perf run period start end rel_st slack c_duration c_period wu_lat\n"
    lines = "".join(f"   0  1  800 16000 1 2 3 {slack} 800 16000 5\n" for slack in (500, -20))
    (tmp_path / "rt.log").write_text("# Policy : SCHED_OTHER priority : 0\n" + head + lines)
    assert "50.00" in next(line for line in cli(tmp_path / "rt.log").stdout.splitlines() if "missed" in line)
    (tmp_path / "broken.json").write_text(json.dumps(FIO)[:120])
    (tmp_path / "what.bin").write_bytes(b"\0\1\2 nothing known")
    result = cli(tmp_path / "new.json", tmp_path / "broken.json", tmp_path / "what.bin")
    assert "201.00" in result.stdout
    assert "broken.json: line 1, column" in result.stderr and "what.bin: unknown format" in result.stderr


def test_jobs_of_one_fio_run_are_one_value(tmp_path):
    def log(*rates):
        ways = [{"total_ios": 10 * rate, "iops": rate, "lat_ns": {"mean": 1e6 / rate}} for rate in rates]
        return json.dumps({"fio version": "fio-3.33", "jobs": [{"jobname": "db", "read": one} for one in ways]})

    (tmp_path / "even.json").write_text(log(1000, 1000, 1000, 1000))
    (tmp_path / "uneven.json").write_text(log(400, 900, 1200, 1500))
    table = json.loads(cli(tmp_path / "even.json", tmp_path / "uneven.json", "--format", "json").stdout)
    cells = {(one["operation"], one["run"]): one for one in table["cells"]}
    assert [cells["iops-db-read", run]["value"] for run in ("even", "uneven")] == [4000, 4000]
    assert cells["lat_mean-db-read", "uneven"]["value"] == pytest.approx(4 * 1e6 / 4000)
    assert {one["n"] for one in table["cells"]} == {1} and not any(one["significant"] for one in table["cells"])


def test_a_turbostat_log_is_one_value_and_only_watts_have_a_side(tmp_path):
    for run, clock in (("old", 3000), ("new", 3300)):
        lines = "".join(f"- - {clock + i} {clock + i} {50 + i}\n" for i in range(5))
        (tmp_path / f"{run}.txt").write_text("Core CPU Avg_MHz Bzy_MHz PkgWatt\n" + lines)
    table = json.loads(cli(tmp_path / "old.txt", tmp_path / "new.txt", "--format", "json").stdout)
    assert {one["n"] for one in table["cells"]} == {1}
    sides = {one["operation"]: one["better"] for one in table["cells"]}
    assert sides["PkgWatt"] == "lower" and not sides["Bzy_MHz"]
    (table,) = compare([tmp_path / "old.txt", tmp_path / "new.txt"], table="overview")
    assert {row.metric: row.better for row in table.rows} == sides
    (table,) = compare([tmp_path / "old.txt", tmp_path / "new.txt"], table="power")
    assert table.method == "default; mean of the metric PkgWatt over the samples of the monitor"


@pytest.mark.parametrize("heads", ["Avg_MHz Busy% PkgWatt", "usec Avg_MHz Busy% PkgWatt", "PkgWatt"])
def test_what_turbostat_prints_with_summary_alone_is_read(tmp_path, heads):
    """`turbostat --Summary` has no columns of CPUs: each line is of the whole, and the log had `no values`."""
    for run, watts in (("old", 200), ("new", 180)):
        lines = [heads]
        for at in range(6):
            lines += [heads] if at == 3 else []
            lines.append(" ".join([*["1500"] * (len(heads.split()) - 1), f"{watts + at}.50"]))
        (tmp_path / f"{run}.txt").write_text("\n".join(["turbostat version 2023.11.07", *lines]) + "\n")
    (table,) = compare([tmp_path / "old.txt", tmp_path / "new.txt"], table="power")
    assert [cell.value for cell in table.rows[0].cells] == [203.0, 183.0]


@pytest.mark.parametrize(
    ("head", "line", "sound"),
    [
        ("Running in process mode with 10 groups", "Time: 0,421", "Time: 0.421"),
        ("# Running 'sched/pipe' benchmark:", "     Total time: 5,272 [sec]", "     Total time: 5.272 [sec]"),
        ("# Running 'sched/pipe' benchmark:", "       5,272120 usecs/op", "       5.272120 usecs/op"),
    ],
)
def test_a_comma_of_decimals_is_named_and_cuts_no_number_off(tmp_path, head, line, sound):
    """`0,421` was 0 seconds, and `5,272` was 5."""
    (tmp_path / "old.txt").write_text(f"{head}\n{sound}\n{line}\n")
    (tmp_path / "new.txt").write_text(f"{head}\n{sound}\n")
    found = compare([tmp_path / "old.txt", tmp_path / "new.txt"])
    assert [cell.value for cell in found[0].rows[0].cells] == [float(re.search(r"[0-9.]+", sound)[0])] * 2
    (problem,) = found.problems
    assert (problem.line, problem.what) == (3, f"no number in {line.strip()!r}")


def test_clocks_and_shares_of_monitors_have_no_better_side(tmp_path):
    """Tables of monitors had "lower is better" for clocks; so had periods of rt-app's logs."""
    (table,) = compare(GIVEN / "results", table="monitor:turbostat", benchmarks=["kernbench"])
    sides = {row.operation: row.better for row in table.rows}
    assert {name for name, side in sides.items() if side} == {"CorWatt", "PkgWatt"}
    (table,) = compare(GIVEN / "results", table="monitor:duration", benchmarks=["kernbench"])
    assert {row.better for row in table.rows} == {"lower"}
    head = "#idx perf run period start end rel_st slack c_duration c_period wu_lat"
    (tmp_path / "app-thread-0.log").write_text(f"{head}\n0 1 500 10000 1 2 3 9400 500 10000 20\n")
    (table,) = compare(tmp_path / "app-thread-0.log")
    assert {row.operation for row in table.rows if not row.better} == {"period", "c_duration", "c_period"}


def test_operations_of_one_iteration_that_share_a_power_have_no_interval():
    runs = []
    for name, factor in (("a", 1.0), ("b", 1.1)):
        run = Run(name, "x")
        run.together = True
        for label in ("t-1", "t-2"):
            run.series[label] = Series(label, "t", "", "s", False, [[factor * 100]])
            run.series[label].places = [0]
        runs.append(run)
    assert all(map(math.isnan, overall(runs)[1][1:]))


def test_overviews_have_the_reason_of_their_details():
    """Of one iteration an overview had `no interval`, and the table of details the number that is needed."""
    runs = [run_of("a", [100.0]), run_of("b", [110.0])]
    (row,) = overview([("x", runs, [None] * 2, runs)]).rows
    assert row.cells[1].certain == compare_runs(runs).rows[0].cells[1].certain == "needs 2 iterations, has 1"


def test_small_values_are_not_printed_as_nothing():
    """1.47 us in seconds was `0.000001`."""
    runs = [run_of("a", [1e-8, 1.2e-8]), run_of("b", [2.0, 2.1]), run_of("c", [1.47e-6, 1.47e-6])]
    text = render(compare_runs(runs), "text")
    assert "1.1e-08" in text and "0.00000" not in text.replace("2.050000", "") and "1.47e-06" in text


def test_tables_in_html_colour_what_has_a_better_side_alone():
    rows = [
        {"policy": policy, "benchmark": "b", "metric": "clock", "unit": "MHz", "better": "", "value": value}
        for policy, values in (("a", (1000.0, 1001.0, 999.0)), ("b", (1100.0, 1101.0, 1098.0)))
        for value in values
    ]
    for kind in ("detail", "overview"):
        (table,) = compare(results.frame(rows), table=kind)
        assert table.rows[0].cells[1].significant
        assert 'class="better"' not in render(table, "html") and 'class="worse"' not in render(table, "html")


def test_a_folder_of_logs_is_a_run_and_its_files_are_iterations(tmp_path):
    for run, factor in (("old", 1.0), ("new", 2.0)):
        (tmp_path / run).mkdir()
        for index in range(3):
            text = f"Running in process mode with 10 groups\nTime: {factor * (1 + index / 100)}\n"
            (tmp_path / run / f"{index}.txt").write_text(text)
    table = json.loads(cli(tmp_path / "old", tmp_path / "new", "--format", "json").stdout)
    assert [(one["run"], one["n"]) for one in table["cells"]] == [("old", 3), ("new", 3)]
    assert table["cells"][1]["change_pct"] == pytest.approx(-100.0)


def test_layouts_of_slides_boxes_and_grid(tmp_path):
    tree = GIVEN / "results"
    slides = cli(tree, "--baseline", ONDEMAND, "-b", "kernbench:Elapsed", "--layout", "slides").stdout
    assert "212.1 ±0.5%  191.4 ±0.9% (   9.8%)" in slides
    boxes = cli(tree, "--baseline", ONDEMAND, "-b", "kernbench:Elapsed", "--layout", "boxes").stdout
    assert "|  Elapsed-4 | 212.06 |    1.06 | 191.38 *  9.75%*" in boxes
    for name in ("big", "small"):
        (tmp_path / name / "work").mkdir(parents=True)
        (tmp_path / name / "work/log").symlink_to(tree.absolute())
    folders = [tmp_path / name / "work/log" for name in ("big", "small")]
    overview = ["--table", "overview", "-b", "tbench:tput", "--baseline", ONDEMAND]
    grid = cli(*folders, *overview, "--layout", "grid").stdout.splitlines()
    assert grid[0].split() == ["BENCHMARK", "big", "small", "METRIC", "UNIT", "BETTER", "IF"]
    assert grid[2].split() == ["tbench", "1.11", "1.03", "1.11", "1.03", "tput", "MB/sec", "higher"]
    runs = [open_source(tree).load(name, "kernbench") for name in (ONDEMAND, PERF)]
    results.write(pl.concat(to_frame(runs, machine=name) for name in ("m1", "m2")), tmp_path / "two.parquet")
    grid = cli(tmp_path / "two.parquet", "--table", "overview", "--metric", "Elapsed", "--layout", "grid").stdout
    assert grid.splitlines()[1].split() == ["kernbench", "0.90", "0.90", "Elapsed", "seconds", "lower"]
    for wrong in ("--table ratio --layout boxes", "--layout grid", "--method mmtests --layout slides"):
        result = called("compare", tree, "-b", "kernbench", *wrong.split())
        assert "has no layout" in str(result.exception)


def test_folders_with_one_run_each_are_of_one_machine(tmp_path):
    """Two kernels of one machine, each in its own results folder; and folders of which one lacks a run."""
    tree = (GIVEN / "results").absolute()
    for folder, runs in {"a": {"a": PERF}, "b": {"b": ONDEMAND}, "c": {"new": PERF}, "d": {"new": ONDEMAND}}.items():
        (tmp_path / folder / "work/log").mkdir(parents=True)
        for name, run in runs.items():
            (tmp_path / folder / "work/log" / name).symlink_to(tree / run)
    of = {name: tmp_path / name / "work/log" for name in "abcd"}
    for folders, names in (("ab", ["a", "b"]), ("cd", ["c new", "d new"])):
        shown = json.loads(cli(*map(of.get, folders), "-b", "kernbench:Elapsed", "--format", "json").stdout)
        want = json.loads(
            cli(tree, "--runs", f"{PERF},{ONDEMAND}", "-b", "kernbench:Elapsed", "--format", "json").stdout
        )
        assert [one["run"] for one in shown["cells"][:2]] == names
        assert [one.get("change_pct") for one in shown["cells"]] == [one.get("change_pct") for one in want["cells"]]
    # The folders of the runs themselves hold iterations, which are no runs.
    shown = cli(tree / PERF, tree / ONDEMAND, "-b", "kernbench:Elapsed", "--format", "json").stdout
    assert [one.get("change_pct") for one in json.loads(shown)["cells"]] == [
        one.get("change_pct") for one in want["cells"]
    ]
    assert PERF in cli(tree / PERF, "-b", "kernbench", "--method", "mmtests").stdout
    cli(of["a"], of["b"], "--runs", "a,b", "-b", "kernbench", "--fail-if", "any < -99%", "--html", tmp_path / "r.html")
    for table in ("overview", "ppw", "power"):
        assert "one in each: taken for one machine's" in cli(of["a"], of["b"], "--table", table).stdout
    mmtests = ("-b", "kernbench", "--method", "mmtests")
    assert cli(of["a"], of["b"], *mmtests, "--runs", "a,b").stdout == cli(of["a"], of["b"], *mmtests).stdout
    (of["a"] / "b").symlink_to(tree / ONDEMAND)
    for table in ("overview", "ppw", "power"):
        shown = cli(of["a"], of["b"], "--baseline", "b", "--table", table, "-b", "kernbench").stdout
        assert re.search(r"^b$|on b$", shown, re.MULTILINE), (
            "a table of its own, whose column of the other run is empty"
        )


def test_public_names():
    import opplab as ol

    frame = ol.read_mmtests(GIVEN / "results", runs=[ONDEMAND, PERF])
    assert frame.columns == list(ol.SCHEMA) and frame["benchmark"].n_unique() == 5
    tables = ol.compare(frame, baseline=PERF, benchmarks=["gitsource:Elapsed"])
    assert [row.operation for row in tables[0].rows] == ["Elapsed"] and tables.to_frame().height == 2
    assert "Elapsed" in str(tables) and "<table" in tables._repr_html_()


def test_recorded_logs_are_read():
    turbostat = sorted(shared("data/stats-collect").rglob("turbostat.raw.txt"))
    logs = sorted(shared("traces").rglob("rtlog/*.log"))
    rt_app = [file for file in logs if "#idx" in file.read_text("utf-8", "replace")[:200]]
    assert turbostat and rt_app
    for file in turbostat:
        source = open_source([str(file)])
        run = source.load("turbostat", "turbostat")
        assert {"Avg_MHz", "Busy%", "PkgWatt"} <= set(run.series) and not source.problems, file
        watts = source.watts("turbostat", "turbostat")
        assert watts.mean > 0.1 and watts.what == "PkgWatt"
    for file in rt_app:
        source = open_source([str(file)])
        run = source.load(source.runs()[0], "rt-app")
        assert {"run", "period", "slack", "missed_activations"} <= set(run.series) and not source.problems, file


def test_the_gate_fails_with_exit_code_1_and_says_why(tmp_path):
    tree = GIVEN / "results"
    arguments = [tree, "--runs", f"{ONDEMAND},{PERF}", "-b", "kernbench:Elapsed", "--junit", tmp_path / "j.xml"]
    cli(*arguments, "--fail-if", "kernbench < -2% significant")
    suite = ET.parse(tmp_path / "j.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("4", "0")
    result = cli(*arguments, "--fail-if", "Elapsed-2 > 9% better significant or any > 10.5% better", code=1)
    assert (
        "kernbench Amean Elapsed-2 of 5.9.0-perfgov: +9.06% (clear), rule 'Elapsed-2 > 9% better significant'"
        in result.stderr
    )
    assert ET.parse(tmp_path / "j.xml").getroot().get("failures") == "2"
    cli(*arguments, "--method", "mmtests", "--fail-if", "kernbench > 9% better significant", code=1)


@pytest.mark.parametrize("rule", ["kernbench", "kernbench < 2", "< 2%", "kernbench < 2% significnt"])
def test_a_rule_that_checks_nothing_is_a_mistake(rule):
    table = compare_runs(
        [run_of("a", [1.0, 2.0], benchmark="kernbench"), run_of("b", [1.0, 2.0], benchmark="kernbench")]
    )
    with pytest.raises(InputError, match="rule"):
        gate.check([table], [rule])


def test_notebook_face():
    table = compare_runs([run_of("a", [1.0, 2.0]), run_of("b", [1.0, 2.5])])
    frame = table.to_frame()
    assert frame["run"].to_list() == ["a", "b"] and frame.schema["p"] == pl.Float64
    assert table._repr_html_().startswith('<table class="opplab">')
    assert render(table, "markdown").count("|") > 6


def test_the_short_way_prints_the_same_and_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['opplab', 'compare', *sys.argv[1:]]\n"
        "from opplab.__main__ import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "heavy = {'click', 'polars', 'rich', 'jinja2', 'numpy', 'opplab._opplab', 'dataclasses'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    arguments = [GIVEN / "results", "--runs", f"{ONDEMAND},{MID},{PERF}", "--method=mmtests", "-b", "tbench:tput"]
    command = [sys.executable, "-c", code, *map(str, arguments)]
    short = subprocess.run(command, capture_output=True, check=False)
    assert short.returncode == 0, short.stderr
    assert short.stdout == (GIVEN / "expected/tbench.tput.txt").read_bytes()
    assert short.stdout == cli(*arguments).stdout_bytes


@pytest.mark.parametrize(
    "arguments",
    [
        ["--method", "mmtests"],
        ["T", "--runs", "a", "-b", "kernbench"],
        ["T", "--runs", "a", "-b", "kernbench", "--method", "mmtests", "--bogus"],
        ["T", "--runs", "a", "-b", "kernbench", "--method", "mmtests", "--table", "overview"],
        ["T", "--runs", "nowhere", "-b", "kernbench", "--method", "mmtests"],
        ["T", "--runs", "a", "-b", "kernbench", "--method", "mmtests", "--format", "json"],
        ["T", "--runs", "a", "-b", "kernbench", "--method"],
    ],
)
def test_what_is_not_for_the_short_way_is_left_alone(arguments, capsys):
    from opplab.cli.quick import compare

    tree = str(GIVEN / "results")
    assert compare([tree if word == "T" else word for word in arguments]) is None
    assert capsys.readouterr().out == ""


def sim_rows(values, metric="energy", policy="a", better="lower"):
    return [
        {
            "policy": policy,
            "benchmark": "b",
            "metric": metric,
            "unit": "J",
            "better": better,
            "value": value,
            "seed": seed,
        }
        for seed, value in enumerate(values)
    ]


def test_a_change_that_is_the_same_in_all_runs_is_clear_without_an_interval():
    rows = sim_rows([10.0] * 4) + sim_rows([8.0] * 4, policy="new")
    (table,) = compare(results.frame(rows))
    cell = table.rows[0].cells[1]
    assert (cell.change, cell.spread, cell.ratio_low) == (pytest.approx(20), None, None)
    assert (cell.certain, cell.significant) == ("same change in all runs", True)
    assert "no interval where the values" in table.method and "+-" not in str(table)


def test_a_baseline_of_nothing_gives_no_nan_and_no_inf():
    rows = sim_rows([0.0, 0.0, 0.0]) + sim_rows([1.0, 2.0, 3.0], policy="new")
    for form in ("text", "json", "markdown"):
        text = render(compare(results.frame(rows))[0], form)
        assert "nan" not in text and "inf" not in text.lower().replace("information", "")


def test_without_a_metric_simulated_results_show_what_they_are_about():
    rows = [
        row
        for metric in ("energy", "migrations", "power", "missed_activations")
        for row in sim_rows([1.0, 2.0], metric)
    ]
    (table,) = compare(results.frame(rows))
    assert [row.operation for row in table.rows] == ["energy", "missed_activations"]
    (whole,) = compare(results.frame(rows), everything=True)
    assert len(whole.rows) == 4
    for activations, there in ((0.0, False), (50.0, True)):
        (table,) = compare(results.frame([*rows, *sim_rows([activations] * 2, "activations")]))
        assert ("missed_activations" in [row.operation for row in table.rows]) is there, "nothing due, nothing missed"


def test_a_metric_that_one_machine_lacks_is_compared_on_the_others():
    """Goal: a rail of one phone is compared although another machine of the folder has none."""
    rows = [
        {**row, "machine": machine}
        for machine, metrics in (("server", ["energy"]), ("phone", ["energy", "energy:A76"]))
        for metric in metrics
        for policy, values in (("old", [1.0, 1.1]), ("new", [2.0, 2.3]))
        for row in sim_rows(values, metric, policy=policy)
    ]
    found = compare(results.frame(rows), metric="energy:A76", baseline="old")
    assert [(table.machine, table.rows[0].cells[1].ratio) for table in found] == [("phone", pytest.approx(4.3 / 2.1))]
    (skipped,) = found.problems
    assert (skipped.path, "no metric named 'energy:A76'" in skipped.what) == ("server", True)
    page = report(results.frame(rows), metric="energy:A76", baseline="old")
    assert len(page.benchmarks) == 1
    for made in (compare, report):
        with pytest.raises(InputError, match="no metric named 'energy:A75'"):
            made(results.frame(rows), metric="energy:A75", baseline="old")


def test_what_no_run_knows_has_no_ratio_and_no_performance_per_watt():
    """Goal: the time of runs that did not end is not "as the baseline", and nothing is divided by it."""

    def overviews(value):
        rows = [
            {**row, "unit": unit}
            for policy, power in (("old", 10.0), ("new", 20.0))
            for metric, unit, values in (("elapsed", "s", [value] * 2), ("power", "W", [power, 1.1 * power]))
            for row in sim_rows(values, metric, policy=policy)
        ]
        return compare(results.frame(rows), table="overview", metric="elapsed", baseline="old")[0]

    known, unknown = overviews(2.0), overviews(None)
    assert [row.cells[1].ratio for row in known.rows] == [1.0, pytest.approx(0.5)]
    assert len(unknown.rows) == 2
    for row in unknown.rows:
        assert (row.cells[0], row.cells[1].ratio, row.cells[1].text, row.cells[1].same) == (None, None, "?", False)


def test_work_in_seconds_is_no_rate():
    """Goal: work, energy and energy by work of one answer multiply."""
    values = {"base": [15.0, 15.0, 15.6], "new": [4.0, 6.0, 8.0]}
    rows = [
        {**row, "unit": "s"} for policy, own in values.items() for row in sim_rows(own, "work_done", policy, "higher")
    ]
    (table,) = compare(results.frame(rows), metric="work_done")
    assert (table.rows[0].stat, table.rows[0].cells[1].value) == ("Amean", pytest.approx(6))
    work = paired_change("higher", *(dict(enumerate(values[name])) for name in ("new", "base")), "s")
    assert work.value == pytest.approx(table.rows[0].cells[1].change) == pytest.approx(100 * (6 / 15.2 - 1))
    (mean,) = [row["mean"] for row in mean_rows(results.frame(rows)) if row["policy"] == "new"]
    assert mean == pytest.approx(6)


def test_an_overview_takes_the_metric_that_there_is(tmp_path):
    """Goal: a tree whose tbench has throughput only is compared, with the other benchmarks."""
    for run, rate in (("old", 860), ("new", 900)):
        for iteration in (0, 1):
            logs = tmp_path / run / f"iter-{iteration}" / "tbench/logs"
            logs.mkdir(parents=True)
            line = f"   2  1000  {rate + iteration}.33 MB/sec  execute  1 sec  latency 0.1 ms\n"
            (logs / "benchlog-tput-2").write_text(line)
    (table,) = compare(tmp_path, runs=["old", "new"], table="overview")
    assert [(row.operation, row.metric, row.better) for row in table.rows] == [("tbench", "tput", "higher")]
    assert "tbench: no run has loadfile, compared is tput" in table.notes
    (asked,) = compare(tmp_path, runs=["old", "new"], benchmarks=["tbench:tput"], table="overview")
    assert asked.notes == []
    with pytest.raises(InputError, match="no metric named 'loadfile'"):
        compare(tmp_path, benchmarks=["tbench:loadfile"], table="overview")


def test_text_and_report_have_one_overall_ratio():
    """A benchmark with a main metric and another one: both overviews are of the main one."""
    from opplab.summary.compared import report

    rows = []
    for policy, factor in (("old", 1.0), ("new", 0.9)):
        for metric, scale in (("throughput", 100.0), ("energy", 1 / factor**3)):
            values = [scale * factor * noise for noise in (1.0, 1.01, 0.99)]
            rows += sim_rows(values, metric, policy, "higher" if metric == "throughput" else "lower")
    (overview,) = compare(results.frame(rows), metric="", table="overview")
    page = report(results.frame(rows))
    shown = overall(page.benchmarks[0].main)[1][0]
    assert overview.rows[0].cells[1].ratio == pytest.approx(shown)


@pytest.fixture(scope="module")
def juno(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the built-in experiment that belongs to text 003, shortened."""
    folder = tmp_path_factory.mktemp("juno") / "out"
    arguments = ["run", "juno-eas", "-o", str(folder), "--seconds", "0.3", "--iterations", "2", "-j", "1"]
    answered(*arguments)
    return folder


def test_results_stand_beside_the_text_that_they_predict(juno: Path) -> None:
    done = answered("compare", juno, "published:003")
    assert "juno-eas beside text 003" in done.output
    assert "no effect, pp" in done.output
    assert done.output.count("tasks=") == 18
    other = called("compare", juno, "published:002")
    assert "belongs to published:003, not to published:002" in str(other.exception)


def test_compare_draws_what_is_assumed(juno: Path) -> None:
    arguments = ["compare", str(juno), "--metric", "energy", "--uncertainty", "3", "-j", "1"]
    done = answered(*arguments)
    words = ("how sure, in percent (95 % intervals of 3 draws)", "off by runs", "off by assumptions", "interval")
    assert all(word in done.output for word in words), done.output
    assert "An interval of 95 % needs 40 draws, these are 3: no change is judged." in done.output
    assert "3 draws judge no assumed number: an interval of 95 % needs --uncertainty 40" in done.stderr


def test_a_missing_folder_beside_results_is_named(tmp_path):
    pl.DataFrame({"policy": ["a"], "benchmark": ["b"], "metric": ["m"], "value": [1.0]}).write_parquet(
        tmp_path / "results.parquet"
    )
    with pytest.raises(FileNotFoundError, match="gone"):
        compare([tmp_path / "results.parquet", tmp_path / "gone"])


def shares(name, values, unit="%"):
    run = run_of(name, values, label="missed-x")
    run.series["missed-x"].unit = unit
    return run


def test_a_share_from_0_has_an_interval_and_a_star_in_points(tmp_path):
    """Goal: nobody misses that misses rise from none to a fifth, or reads the points as percent."""
    base, new = shares("base", [0.0] * 4), shares("new", [19.0, 20.5, 20.0, 21.0])
    table = compare_runs([base, new])
    cell = table.rows[0].cells[1]
    low, high = stats.mean([19.0, 20.5, 20.0, 21.0])[1]
    assert (cell.change, cell.points_low, cell.points_high) == pytest.approx((-20.125, -high, -low))
    assert (cell.certain, cell.significant) == ("clear", True)
    row = table.to_frame().row(1, named=True)
    assert (row["change_pct"], row["change_points"], row["significant"]) == (None, pytest.approx(-20.125), True)
    assert f"*-20.12 pp [{-high:+.2f}, {-low:+.2f}]*" in str(table)
    assert "-20.12 pp*" in str(compare_runs([base, new], kind="ratio"))
    noisy = compare_runs([base, shares("new", [0.0, 0.0, 0.0, 3.0])]).rows[0].cells[1]
    assert (noisy.certain, noisy.significant) == ("not clear", False)
    alone = compare_runs([shares("a", [0.0]), shares("b", [5.0])]).rows[0].cells[1]
    assert alone.certain == "needs 2 iterations, has 1"


def test_what_is_0_in_both_is_equal_and_counts_from_0_have_no_ratio():
    none = compare_runs([shares("a", [0.0] * 3), shares("b", [0.0] * 3)], kind="ratio")
    assert none.rows[0].cells[1].certain == "equal in all runs"
    assert "~" in str(none).split("method:")[0] and "?" not in str(none)
    count = compare_runs([shares("a", [0.0] * 3, ""), shares("b", [1.0, 2.0, 3.0], "")], kind="ratio")
    assert count.rows[0].cells[1].certain == "from 0" and "from 0" in str(count)


def test_pages_and_overviews_of_a_share_from_0():
    rows = [
        {"policy": policy, "benchmark": "svc", "metric": "missed_activations", "unit": "%", "better": "lower"}
        | {"iteration": at, "seed": at, "value": value}
        for policy, values in (("base", (0.0, 0.0, 0.0)), ("new", (19.0, 20.0, 21.0)))
        for at, value in enumerate(values)
    ]
    page = report(results.frame(rows)).to_html()
    assert " (lower is better) is " not in page
    slower = [{**row, "metric": "latency_p99", "unit": "ms", "value": 5.0 + row["value"]} for row in rows]
    ratio = re.search(r"in latency_p99 \(lower is better\) is ([0-9.]+)", report(results.frame(slower)).to_html())
    assert float(ratio[1]) == pytest.approx(25 / 5, rel=1e-3)
    assert "new is clearly better in 0 and worse in 1 of 1 operations" in page
    assert "better by, percentage points" in page and "better by, %" not in page and "\u221220.00 pp" in page
    (table,) = compare(results.frame(rows), table="overview")
    assert [cell.text for cell in table.rows[0].cells] == ["0.00%", "-20.00 pp"]
    assert table.rows[0].cells[1].significant
    assert table.notes == []


def test_shares_change_by_points_under_every_command():
    """Goal: no mail calls more misses unclear where the gate calls the same pairs clear."""
    misses = {"base": (0.433, 0.568, 0.568, 0.298, 0.623), "new": (1.624, 1.299, 1.354, 0.406, 0.704)}
    rows = [
        {"policy": policy, "benchmark": "ui", "metric": "missed_activations", "unit": "%", "better": "lower"}
        | {"iteration": at, "seed": at, "value": value}
        for policy, values in misses.items()
        for at, value in enumerate(values)
    ]
    mailed = points(*(dict(enumerate(misses[name])) for name in ("new", "base")))
    for kind in ("detail", "overview"):
        (table,) = compare(results.frame(rows), table=kind)
        cell = table.rows[0].cells[1]
        assert (cell.change, cell.points_low, cell.points_high) == pytest.approx(
            (-mailed.value, -mailed.certainty.high, -mailed.certainty.low)
        )
        assert (cell.certain, cell.significant) == (mailed.certainty.words, False)
        assert cell.ratio is None
        assert [one.failed for one in gate.check([table], ["any < -0.1% clear", "any < -0.1%"])] == [False, True]


def test_slack_is_no_rate(tmp_path):
    """Goal: one activation with hardly any slack is not 99 % of all slack gone."""
    head = "#idx perf run period start end rel_st slack c_duration c_period wu_lat\n"
    for name, slacks in (("old", (10000, 11000)), ("new", (10000, 2)), ("late", (10000, -500))):
        lines = (f"   0  1  800 16000 1 2 3 {slack} 800 16000 5\n" for slack in slacks)
        (tmp_path / f"{name}.log").write_text(head + "".join(lines))
    (table,) = compare([tmp_path / f"{name}.log" for name in ("old", "new", "late")], metric="slack")
    (row,) = table.rows
    assert row.stat == "Amean"
    assert [cell.value for cell in row.cells] == [10500, 5001, 4750]


def test_a_rule_for_a_benchmark_is_about_all_of_it_whatever_is_shown(tmp_path):
    """Goal: an overview, which has one metric a benchmark, opens no gate."""
    file = tmp_path / "gate.xml"
    words = [GIVEN / "results", "--runs", f"{MID},{ONDEMAND}", "--fail-if", "tbench < -2% clear", "--junit", file]
    for kind in ("detail", "overview", "ppw"):
        cli(*words, "--table", kind, code=1)
    names = re.findall('testcase classname="([^"]*)" name="([^"]*)"', file.read_text())
    assert len(names) == len(set(names))


def test_files_named_after_kernels_keep_their_names(tmp_path):
    for name in ("6.1-base", "6.1-revert"):
        (tmp_path / f"{name}.txt").write_text("Running in process mode with 10 groups\nTime: 1.5\n")
    tables = compare([tmp_path / "6.1-base.txt", tmp_path / "6.1-revert.txt"])
    assert tables[0].runs == ["6.1-base", "6.1-revert"]


def test_a_clear_change_has_no_tilde_and_is_not_printed_as_nothing():
    """Goal: no table says that nothing changes of what another gives a star."""
    base = run_of("a", [100.0, 110.0, 120.0], seeds=[1, 2, 3])
    new = run_of("b", [100.003, 110.004, 120.004], seeds=[1, 2, 3])
    cell = compare_runs([base, new]).rows[0].cells[1]
    assert (cell.certain, cell.same) == ("clear", False)
    assert "*-0.003 % [-0.004, -0.003]*" in str(compare_runs([base, new]))
    shown = str(compare_runs([base, new], kind="ratio"))
    assert "1.00003 [1.00003, 1.00004]*" in shown
    rows = to_frame([base, new])
    (table,) = compare(rows.with_columns(pl.col("iteration").alias("seed").cast(pl.UInt64)), table="overview")
    assert "1.00003" in str(table) and "~" not in str(table).split("method:")[0]


def test_pairs_that_are_equal_are_known_to_be_equal():
    """Goal: nobody adds seeds to find a change between runs that are the same."""
    base, new = (run_of(name, [100.0, 110.0, 120.0], seeds=[1, 2, 3]) for name in "ab")
    cell = compare_runs([base, new]).rows[0].cells[1]
    assert (cell.certain, cell.same, cell.change) == ("equal in all runs", True, 0)
    apart = compare_runs([run_of("a", [100.0, 110.0]), run_of("b", [100.0, 110.0])]).rows[0].cells[1]
    assert apart.certain == "not clear", "nothing pairs them"


HACKBENCH = """Running in {mode} mode with 10 groups using 40 file descriptors each (== 400 tasks)
Each sender will pass {messages} messages of 100 bytes
Time: {time}
"""


@pytest.mark.parametrize(("mode", "messages"), [("process", 1000), ("threaded", 100)])
def test_unlike_work_has_no_change(tmp_path, mode, messages):
    """Goal: nobody takes ten times the messages, or threads for processes, for a regression."""
    (tmp_path / "old.txt").write_text(HACKBENCH.format(mode="process", messages=100, time=0.5))
    (tmp_path / "same.txt").write_text(HACKBENCH.format(mode="process", messages=100, time=0.45))
    (tmp_path / "new.txt").write_text(HACKBENCH.format(mode=mode, messages=messages, time=5.0))
    (table,) = compare([tmp_path / name for name in ("old.txt", "same.txt", "new.txt")])
    _, same, new = table.rows[0].cells
    assert same.change == pytest.approx(10) and new.change is None
    (note,) = table.notes
    assert note.startswith("time-10 of new has no change") and f"{messages} messages of 100 bytes" in note
    done = cli(*(tmp_path / name for name in ("old.txt", "new.txt")), "--fail-if", "hackbench < -2000%", code=1)
    assert f"{messages} messages" in done.stderr


def test_perf_bench_writes_separators_and_units(tmp_path):
    text = "# Running 'syscall/basic' benchmark:\n# Executed {} getppid() calls\n     Total time: {}\n\n{}"
    (tmp_path / "a.txt").write_text(
        text.format("10,000,000", "1.234 [sec]", "    0.1234 usecs/op\n  8,103,727 ops/sec\n")
    )
    (tmp_path / "b.txt").write_text(
        text.format("10,000,000", "617.0 [msec]", "    0.0617 usecs/op\n  16,207,454 ops/sec\n")
    )
    (tmp_path / "c.txt").write_text(
        text.format("20,000,000", "1.234 [sec]", "    0.0617 usecs/op\n  16,207,454 ops/sec\n")
    )
    (table,) = compare([tmp_path / name for name in ("a.txt", "b.txt", "c.txt")])
    changes = {row.operation: [cell.change for cell in row.cells[1:]] for row in table.rows}
    assert changes == {"time": [50, None], "usecs/op": [50, 50], "ops/sec": [100, 100]}


def test_runs_from_python_are_compared_as_those_of_the_command(tmp_path: Path) -> None:
    """Each had iteration 0: three seeds stood for three values of one iteration, of samples that were not paired."""
    task = {"instance": 3, "loop": -1, "run": 900, "timer": {"ref": "unique", "period": 8000}}
    load = tmp_path / "load.json"
    load.write_text(json.dumps({"tasks": {"periodic": task}, "global": {"calibration": "CPU0"}}))
    asked = ("-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.3", "--iterations", "3")
    answered("run", load, *asked, "--no-report", "-o", tmp_path / "out")
    runs = [
        pl.DataFrame(simulate("juno-r2", load, governor, seconds=0.3, seed=seed).metrics)
        for governor in ("schedutil", "performance")
        for seed in (1, 2, 3)
    ]
    ours, commands = (
        compare(source, baseline="schedutil") for source in (pl.concat(runs), tmp_path / "out" / "results.parquet")
    )
    assert "paired by shared seeds" in ours[0].method
    assert ours[0].method == commands[0].method
    assert ours.to_frame().equals(commands.to_frame())
    own = {
        name: frame.filter(metric="energy")["value"].to_list()
        for (name,), frame in pl.concat(runs).group_by("policy", maintain_order=True)
    }
    by_hand = scipy.stats.ttest_rel(np.log(own["performance"]), np.log(own["schedutil"])).confidence_interval()
    change = next(cell for row in ours[0].rows for cell in row.cells if cell.ratio_low is not None)
    # Of the ratio of means, which is nearly the mean of ratios.
    by_ratios = (math.exp(by_hand.low), math.exp(by_hand.high))
    assert (change.ratio_low, change.ratio_high) == pytest.approx(by_ratios, rel=0.01)
