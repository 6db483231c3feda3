"""Machines, workloads and metrics are never averaged together: shown numbers are those of their own rows by hand."""

import io
import itertools
import json
import math
import statistics

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import opplab as package
from opplab import results
from opplab.comparison.compare import compare
from opplab.summary import publish
from opplab.summary.compared import report
from opplab.summary.page import Report
from opplab.summary.pairs import pair_blocks

from calls import answered, called

SERVERS = """
format = 1
name = "servers"
about = "two governors on two servers of two sockets"
machine = ["haswell-48x-numa", "skylake-sp-2s"]
baseline = "performance"
seed = 1
iterations = 3
duration = "100ms"
warmup = "20ms"
[[policy]]
label = "schedutil"
governor = "schedutil"
[[policy]]
label = "performance"
governor = "performance"
[[workload]]
label = "load"
benchmark = "periodic"
tasks = [4, 8]
"""


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    (folder / "servers.toml").write_text(SERVERS)
    done = answered("run", folder / "servers.toml", "-o", folder / "out", "-j", "2")
    return folder / "out", done.output


def by_hand(table, **where):
    rows = [row["value"] for row in table.to_dicts() if all(row[name] == value for name, value in where.items())]
    assert rows
    return statistics.fmean(rows)


def test_power_of_a_machine_is_that_of_all_its_packages_and_of_none_twice(servers):
    """Against the Parquet file, and against the energies of its clusters over the time."""
    folder, _ = servers
    table = pl.read_parquet(folder / "results.parquet")
    done = called("compare", folder, "--table", "power", "--format", "json")
    shown = json.loads(done.stdout)
    assert [one["machine"] for one in shown] == ["haswell-48x-numa", "skylake-sp-2s"]
    for one in shown:
        assert "mean of the metric power" in one["method"]
        for cell in one["cells"]:
            own = {"machine": one["machine"], "policy": cell["run"]}
            assert cell["value"] == pytest.approx(by_hand(table, metric="power", **own))
            joules = sum(by_hand(table, metric=f"energy:{name}", **own) for name in ("pkg0", "pkg1"))
            assert cell["value"] == pytest.approx(joules / 0.08), "100 ms less the warm-up"


def test_power_of_turbostat_and_of_one_metric_in_watts_say_what_they_are():
    def rows(metric, value):
        fixed = {"benchmark": "b", "unit": "W", "better": "lower"}
        return [{**fixed, "policy": policy, "metric": metric, "value": value} for policy in ("old", "new")]

    for metrics, total in (
        ({"PkgWatt": 30.0, "CorWatt": 20.0, "RAMWatt": 5.0}, "PkgWatt"),
        ({"wall": 80.0}, "wall"),
        ({"power": 268.0, "power:pkg0": 134.0, "power:pkg1": 134.0, "power:rest": 1.0}, "power"),
    ):
        table = results.frame([row for name, value in metrics.items() for row in rows(name, value)])
        (made,) = compare(table, table="power")
        assert [cell.value for cell in made.rows[0].cells] == [metrics[total]] * 2
        assert f"metric {total} " in made.method
    several = results.frame([*rows("rail-a", 1.0), *rows("rail-b", 2.0)])
    with pytest.raises(package.InputError, match="no power was recorded"):
        compare(several, table="power")


def test_a_sweep_over_two_servers_has_a_table_of_each_and_its_own_baseline(servers):
    folder, output = servers
    table = pl.read_parquet(folder / "results.parquet")
    text = (folder / "tables.txt").read_text()
    page = (folder / "report.html").read_text()
    for machine, param in itertools.product(("haswell-48x-numa", "skylake-sp-2s"), ("4", "8")):
        own = {"machine": machine, "param": f"tasks={param}", "metric": "energy"}
        base, new = (by_hand(table, policy=policy, **own) for policy in ("performance", "schedutil"))
        assert machine in output
        (line,) = [
            line
            for block in pair_blocks(table, [("performance", "schedutil")])
            for line in block.lines
            if (block.machine, line.param) == (machine, param)
        ]
        assert (line.base.mean, line.variant.mean) == pytest.approx((base, new))
        assert line.ratio == pytest.approx(100 * (new / base - 1))
        assert machine in text
        assert f'data-value="{new:.6g}"' in page
    (first, second) = compare(folder)
    assert (first.machine, second.machine) == ("haswell-48x-numa", "skylake-sp-2s")
    assert first.runs == ["performance", "schedutil"], "the experiment's baseline"


MACHINES, BENCHMARKS, POLICIES, PARAMS = ("m1", "m2", "m3"), ("b1", "b2"), ("p", "q", "r"), ("n=1", "n=2")


@st.composite
def frames(draw):
    """Results of several machines and workloads, some points missing; each value is one of a kind."""
    numbers = draw(st.permutations(range(200)))
    # An irrational step: no value and no mean lies on the edge between two printed numbers.
    values = iter(1.0 + number * math.sqrt(0.137) for number in numbers)
    machines = draw(st.lists(st.sampled_from(MACHINES), min_size=1, max_size=3, unique=True))
    better, unit = draw(st.sampled_from([("lower", "J"), ("higher", "1/s")]))
    rows = []
    for machine, benchmark, param, policy in itertools.product(machines, BENCHMARKS, PARAMS, POLICIES):
        if policy != "p" and draw(st.integers(0, 7)) == 0:
            continue
        rows += [
            {"machine": machine, "benchmark": benchmark, "param": param, "policy": policy, "metric": "energy"}
            | {
                "unit": unit,
                "better": better,
                "iteration": seed,
                "seed": seed,
                "value": next(values),
            }
            for seed in range(draw(st.sampled_from([1, 2, 2])))
        ]
    return results.frame(rows), better


def mean(values, better):
    return statistics.harmonic_mean(values) if better == "higher" else statistics.fmean(values)


@given(frames())
@settings(max_examples=40, deadline=None)
def test_each_shown_number_is_that_of_its_own_rows(drawn):
    table, better = drawn
    own: dict[tuple[str, ...], list[float]] = {}
    seeds: dict[tuple[str, ...], set[int]] = {}
    for row in table.to_dicts():
        key = row["machine"], row["benchmark"], row["param"], row["policy"]
        own.setdefault(key, []).append(row["value"])
        seeds.setdefault(key, set()).add(row["seed"])
    tables = compare(table, baseline="p", metric="energy")
    shown = {}
    for one, row in [(table, row) for table in tables for row in table.rows]:
        param = row.operation.partition("-")[2]
        for run, cell in zip(one.runs, row.cells, strict=True):
            if cell is not None and cell.value is not None:
                shown[one.machine, one.benchmark, param, run] = cell.value, cell.ratio
    assert shown.keys() == own.keys()
    for key, (value, ratio) in shown.items():
        base = (*key[:3], "p")
        assert value == pytest.approx(mean(own[key], better))
        if seeds[key] == seeds[base]:
            assert ratio == pytest.approx(mean(own[key], better) / mean(own[base], better))
    # CSV and JSON hold the same, each with its machine.
    read = pl.read_csv(io.StringIO(tables_text(table)))
    found = {
        (row["machine"], row["benchmark"], row["operation"].partition("-")[2], row["run"]) for row in read.to_dicts()
    }
    assert found == own.keys()
    # The sweep's tables, rows and page.
    blocks = pair_blocks(table, [("p", "q"), ("p", "r")])
    for block, line in [(one, line) for one in blocks for line in one.lines]:
        at = block.machine, block.benchmark, f"n={line.param}"
        assert line.base.mean == pytest.approx(mean(own[*at, "p"], better))
        assert line.variant.mean == pytest.approx(mean(own[*at, block.variant], better))
    assert {(block.machine, block.benchmark, block.variant) for block in blocks} == {
        (machine, benchmark, policy) for machine, benchmark, _, policy in own if policy != "p"
    }
    for row in publish.mean_rows(table):
        key = row["machine"], row["benchmark"], row["param"], row["policy"]
        assert row["mean"] == pytest.approx(mean(own[key], better))
    page = Report("t", "", [], table, blocks).to_html()
    for values in own.values() if blocks else ():
        assert f": {mean(values, better):.4g}" in page, "every point of every machine is in a picture"
    compared = report(table, baseline="p", metric="energy").to_html()
    for key, (value, _) in shown.items():
        assert key[3] == "p" or f'data-value="{value:.9g}"' in compared, key
    assert not any(math.isnan(value) for value, _ in shown.values())


def tables_text(table):
    from opplab.comparison.tables import render_all

    return render_all(compare(table, baseline="p", metric="energy"), "csv")


def test_results_of_two_folders_are_two_runs_and_not_more_iterations(tmp_path):
    """Before and after: equal policies, equal seeds."""
    for name, factor in (("before", 1.0), ("after", 0.9)):
        rows = [
            {"machine": "m", "benchmark": "b", "policy": "p", "metric": "energy", "unit": "J", "better": "lower"}
            | {"seed": seed, "iteration": seed, "value": factor * (10 + seed)}
            for seed in range(3)
        ]
        (tmp_path / name).mkdir()
        results.write(results.frame(rows), tmp_path / name / "results.parquet")
    (table,) = compare([tmp_path / "before", tmp_path / "after"])
    assert table.runs == ["before p", "after p"]
    assert table.rows[0].cells[1].change == pytest.approx(10)


@pytest.mark.parametrize("table", ["detail", "ratio", "overview"])
def test_a_machine_without_the_baseline_says_why_it_has_no_change(table):
    """Two folders of different machines and policies had empty columns, or question marks, without a word."""
    fixed = {"benchmark": "b", "metric": "energy", "unit": "J", "better": "lower", "kernel": "6.12"}
    rows = [
        {**fixed, "machine": machine, "policy": policy, "value": value}
        for machine, policies in (("one", ("old", "new")), ("two", ("left", "right")))
        for policy in policies
        for value in (1.0, 1.1)
    ]
    own, other = [one for one in compare(results.frame(rows), table=table) if one.machine in ("one", "two")]
    words = "the baseline old has no results on two: --baseline names another"
    assert (own.machine, other.machine) == ("one", "two")
    assert words in other.notes and not any("has no results on" in note for note in own.notes)


def test_the_overview_names_metric_unit_and_better_side():
    """Ratios of a time and of a rate stand on two lines; neither is the average of both."""
    rows = [
        {"machine": "m", "benchmark": "b", "policy": policy, "metric": metric, "unit": unit, "better": better}
        | {"seed": seed, "value": value * (1 + seed / 100)}
        for policy, factor in (("old", 1.0), ("new", 1.11))
        for metric, unit, better, value in (
            ("loadfile", "msec", "lower", 30 / factor),
            ("tput", "MB/s", "higher", 400 * factor),
        )
        for seed in range(3)
    ]
    (table,) = compare(results.frame(rows), table="overview")
    lines = [line.split() for line in str(table).splitlines() if line.startswith("b ")]
    assert lines == [
        ["b", "1.00", "0.90", "loadfile", "msec", "lower"],
        ["b", "1.00", "1.11", "tput", "MB/s", "higher"],
    ]
    assert [round(row.cells[1].change) for row in table.rows] == [10, 11]
