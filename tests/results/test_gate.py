"""The gate: what it cannot judge fails, a worse value never helps, and the order of rows and files is nothing to it."""

import json
import math
import os
import random
import re
import sys
import xml.etree.ElementTree as ET
from multiprocessing import get_context
from pathlib import Path

import pytest
from click import BadParameter, UsageError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from opplab import choose, results
from opplab.cli.main import opplab
from opplab.comparison import gate
from opplab.comparison.compare import compare, mmtests_comparison
from opplab.comparison.method import compare_runs
from opplab.comparison.sources import Frame
from opplab.errors import InputError
from opplab.metrics import ALIASES
from opplab.mmtests import read_run
from opplab.mmtests.summary import SUMMARIES
from opplab.runs import Run, Series
from opplab.summary.answer import answer_of
from opplab.sweep.experiments import Experiment

from calls import answered, called

NAN, INF = math.nan, math.inf


def run_of(name, values, higher=False, seeds=True, unit="s", benchmark="b"):
    run = Run(name, benchmark)
    keys = list(range(len(values))) if seeds else None
    run.series["m-1"] = Series("m-1", "m", "1", unit, higher, [[value] for value in values], keys)
    return run


def failed(base, new, rule="any < -2%", **how):
    table = compare_runs([run_of("base", base, **how), run_of("new", new, **how)])
    return any(one.failed for one in gate.check([table], [rule]))


@pytest.mark.parametrize("rule", ["any < -2%", "any < -2% significant"])
def test_what_cannot_be_judged_fails(rule):
    good = [10.0, 10.1, 9.9, 10.0, 10.2]
    assert not failed(good, good, rule)
    for bad in ([NAN] * 5, [10.0, NAN, NAN, NAN, NAN], [10.0, INF, 10.0, 10.0, 10.0], [-INF] * 5):
        assert failed(good, bad, rule), bad
        assert failed(bad, good, rule), bad
    assert failed(good, good[:1], rule), "four of five iterations are missing"
    assert failed(good, [5.0, 5.0, 0.0, 5.0, 5.0], rule, higher=True), "a rate of 0"
    assert failed([10.0], [11.0], rule), "one value has no noise that would excuse it"


def checked(base, new, rule, allow=(), metric="m", **how):
    runs = [run_of("base", base, **how), run_of("new", new, **how)]
    for run in runs:
        run.series["m-1"].metric = metric
    (one,) = gate.check([compare_runs(runs)], [rule], allow_missing=allow)
    return one


@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_the_gate_knows_the_common_names_of_choose(alias):
    """Goal: `missed` is a constraint of choose, and no rule "concerns nothing" that names it."""
    values = [100.0, 101.0, 99.0], [110.0, 111.0, 109.0]
    for rule in (alias, f"b:{alias}"):
        assert checked(*values, f"{rule} < -5%", metric=ALIASES[alias]).failed
    # What has the name itself is meant.
    one, other = (run_of(name, of) for name, of in zip(("base", "new"), values, strict=True))
    for run in (one, other):
        run.series["x"] = Series("x", ALIASES[alias], "1", "s", False, [[1.0]] * 3, [0, 1, 2])
        run.series["m-1"].metric = alias
    (only,) = gate.check([compare_runs([one, other])], [f"{alias} < -5%"])
    assert only.failed


def test_a_rule_that_concerns_nothing_names_all_that_it_could_be_about(tmp_path):
    """The list had the metrics that a table shows, and rules judge others, too: energy_per_work."""
    load = tmp_path / "lat.json"
    load.write_text('{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    words = ["run", str(load), "-m", "juno-r2", "--vs", "governor=powersave", "--seconds", "0.2", "--iterations", "2"]
    answered(*words, "-o", tmp_path / "out")
    done = called("compare", tmp_path / "out", "--fail-if", "qqq < -2%")
    assert done.exit_code == 1
    known = done.stderr.partition("(known: ")[2].partition(")")[0].split(", ")
    assert {"energy", "energy_per_work", "missed_activations", "response_p50", "response_p99"} <= set(known)
    for name in known:
        again = called("compare", tmp_path / "out", "--fail-if", f"{name} < -1000%")
        assert "concerns nothing" not in again.stderr, name


def test_an_operation_of_another_run_is_missing_in_none_that_lacks_it_as_its_baseline_does():
    """Goal: 32 jobs in one run are no failure of the run that has the baseline's."""
    runs = [run_of(name, [100.0, 101.0, 99.0]) for name in ("base", "wider", "same")]
    runs[1].series["m-32"] = Series("m-32", "m", "32", "s", False, [[1.0]] * 3, [0, 1, 2])
    found = gate.check([compare_runs(runs)], ["any < -5%"])
    assert [(one.case.split()[-1], "m-32" in one.case) for one in found if one.failed] == [("wider", True)]


def test_a_change_of_what_the_rule_allows_passes():
    """Goal: 102 s after 100 s are not more than 2 % for their last binary digit."""
    assert not checked([100.0] * 3, [102.0] * 3, "any < -2%").failed
    assert checked([100.0] * 3, [102.0001] * 3, "any < -2%").failed


@pytest.mark.parametrize("name", ["new", "b", "m", "m-1"])
def test_what_may_be_missing_is_left_out_and_the_rest_is_judged(name):
    """Goal: a seed that is gone does not take the regression with it."""
    base, worse = [100.0, 101.0, 99.0, 100.5, 100.2], [110.0, 111.0, 109.0, 110.5]
    assert checked(base, worse, "any < -5% significant").failed
    allowed = checked(base, worse, "any < -5% significant", [name])
    assert (allowed.failed, allowed.skipped) == (True, False)
    assert "-9.99%" in allowed.message
    assert "1 of the baseline's 5 seeds" in allowed.message
    same = checked(base, base[:4], "any < -5% significant", [name])
    assert (same.failed, same.skipped, same.forgiven) == (False, False, "lacks 1 of the baseline's 5 seeds")
    assert checked(base, [NAN, *worse], "any < -5%", [name]).failed, "what is left is 10 % worse"
    nothing = checked(base, [NAN] * 5, "any < -5%", [name])
    assert (nothing.failed, nothing.skipped) == (False, True)
    assert checked(base, [0.0, *worse], "any < -5%", [name], higher=True).failed, "a rate of 0 is there"


@pytest.mark.parametrize("method", [compare_runs, lambda runs: mmtests_comparison(runs, "", "", "detail", 0)])
@pytest.mark.parametrize("cut", [1, 2])
def test_a_run_that_lost_most_of_its_values_fails(method, cut):
    """Goal: a machine that died after the first of five builds passes no gate; logs of a time differ a little."""

    def built(name, values):
        run = Run(name, "kernbench")
        run.series["Elapsed-2"] = Series("Elapsed-2", "Elapsed", "2", "seconds", False, [values])
        return run

    whole = [376.0, 377.1, 375.2, 376.4, 376.9]
    base = built("base", whole)
    one = gate.check([method([base, built("new", whole[:cut])])], ["kernbench < -20%"])[0]
    assert one.failed
    assert f"lacks {5 - cut} of the baseline's 5 values" in one.message
    allowed = gate.check([method([base, built("new", whole[:cut])])], ["kernbench < -20%"], allow_missing=["new"])
    assert not any(one.failed for one in allowed)
    assert not any(one.failed for one in gate.check([method([base, built("new", whole[:4])])], ["kernbench < -20%"]))


def test_a_table_without_seeds_that_lost_iterations_fails():
    base = [100.0, 101.0, 99.0, 100.5, 100.2]
    found = checked(base, base[:3], "any < -20%", seeds=False)
    assert found.failed
    assert "lacks 2 of the baseline's 5 iterations" in found.message
    table = compare_runs([run_of("base", base, seeds=False), run_of("new", base[:3], seeds=False)])
    assert "m-1 of new: lacks 2 of the baseline's 5 iterations" in table.notes
    assert not checked(base, base[:3], "any < -20%", ["new"], seeds=False).failed


@pytest.mark.parametrize("method", [compare_runs, lambda runs: mmtests_comparison(runs, "", "", "detail", 0)])
@pytest.mark.parametrize(("seeds", "what"), [(True, "seeds"), (False, "iterations")])
def test_a_baseline_that_lost_iterations_fails(method, seeds, what):
    """A gate passes on nothing that was not measured, on whichever side."""
    whole = [100.0, 101.0, 99.0, 100.5, 100.2]
    table = method([run_of("base", whole[:3], seeds=seeds), run_of("new", whole, seeds=seeds)])
    rule = "b < -20%"
    found = [one for one in gate.check([table], [rule]) if one.failed]
    assert found
    assert f"the baseline lacks 2 of the run's 5 {what}" in found[0].message
    for name in ("new", "b", "m-1"):
        assert not any(one.failed for one in gate.check([table], [rule], allow_missing=[name]))
    both = compare_runs([run_of("base", whole), run_of("new", whole)])
    assert not any(one.failed for one in gate.check([both], [rule]))


@pytest.mark.parametrize("method", [compare_runs, lambda runs: mmtests_comparison(runs, "", "", "detail", 0)])
def test_an_operation_that_only_the_run_has_fails(method):
    base, new = run_of("base", [100.0] * 3), run_of("new", [100.0] * 3)
    new.series["m-2"] = Series("m-2", "m", "2", "s", False, [[1.0], [2.0], [3.0]], [0, 1, 2])
    found = [one.message for one in gate.check([method([base, new])], ["b < -20%"]) if one.failed]
    assert any("m-2" in words for words in found)


@pytest.mark.parametrize("shown", [[], ["--all"], ["--table", "overview"], ["--table", "ratio"]])
def test_any_is_every_metric_whatever_is_shown(tmp_path, shown):
    """Goal: a response time that is 69 % worse passes no gate on `any`, and a part of the energy fails none."""
    found = []
    for policy, response, big in (("old", 1.0, 1.0), ("new", 1.7, 1.9)):
        for metric, unit, value in (("energy", "J", 2.0), ("response_p99", "ms", response), ("energy:big", "J", big)):
            own = rows(policy, "b", [value, value * 1.01, value * 0.99])
            found += [{**row, "metric": metric, "unit": unit} for row in own]
    results.write(results.frame(found), tmp_path / "r.parquet")
    words = ["compare", str(tmp_path / "r.parquet"), *shown, "--fail-if"]
    done = called(*words, "any < -5% clear")
    assert done.exit_code == 1
    assert "response_p99 of new on x: -70.00%" in done.stderr
    assert "energy:big" not in done.stderr
    if shown != ["--table", "overview"]:
        for name in ("energy:big", "b:energy:big"):
            done = called(*words, f"{name} < -5% clear")
            assert "energy:big of new on x: -90.00%" in done.stderr
    only = [*words[:2], "-b", "b:energy", *words[2:]]
    answered(*only, "any < -5% clear")


FIO = {"jobname": "j", "error": 0, "read": {"total_ios": 9, "iops": 100.0, "bw_mean": 400.0}}


def test_fio_jobs_that_ended_with_an_error_fail(tmp_path):
    files = []
    for name, errors in (("old", (0, 0)), ("new", (0, 5))):
        jobs = [FIO | {"jobname": f"j{at}", "error": error} for at, error in enumerate(errors)]
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps({"fio version": "fio-3.36", "jobs": jobs}))
    words = ["compare", *map(str, files), "--fail-if", "fio < -50%"]
    done = called(*words)
    assert done.exit_code == 1
    assert "job j1 ended with error 5 (Input/output error): its values are left out" in done.stderr
    answered(*words, "--allow-missing", "new")


def test_terse_lines_of_fio_that_ended_with_an_error_are_left_out(tmp_path):
    fields = ["3", "fio-3.36", "j0", "0", "5", "4096", *["0"] * 80]
    logs = tmp_path / "run" / "iter-0" / "fio" / "logs"
    logs.mkdir(parents=True)
    (logs / "fio.log").write_text(";".join(fields) + "\n")
    assert not read_run(str(tmp_path), "run", "fio").series
    assert read_run(str(tmp_path), "run", "fio").problems
    assert read_run(str(tmp_path), "run", "fio", literal=True).series, "mmtests takes them"


def test_what_is_not_judged_is_named(tmp_path):
    whole = [*rows("old", "b", [1.0, 1.1, 1.2]), *rows("old", "c", [1.0, 1.1]), *rows("new", "b", [1.0, 1.1, 1.2])]
    results.write(results.frame(whole), tmp_path / "r.parquet")
    junit = tmp_path / "j.xml"
    words = ["compare", str(tmp_path / "r.parquet"), "--fail-if", "any < -2%", "--allow-missing", "c"]
    done = answered(*words, "--junit", junit)
    assert "not judged: c Amean time of new on x: no value" in done.stderr
    suite = ET.parse(junit).getroot()
    assert (suite.get("tests"), suite.get("skipped"), len(list(suite.iter("skipped")))) == ("2", "1", 1)


@pytest.mark.parametrize(
    ("metric", "unit", "bad", "words"),
    [
        ("energy", "J", -60.0, "a value is below 0 J"),
        ("latency", "us", -1.0, "a value is below 0 us"),
        ("elapsed", "s", 0.0, "a run took 0 s"),
    ],
)
def test_a_value_that_nothing_has_is_no_improvement(metric, unit, bad, words):
    """Goal: a counter that has wrapped hides no regression."""
    base, new = [100.0, 101.0, 99.0, 100.5, 100.2], [110.0, 111.0, 109.0, 110.5, bad]
    for pair in ((base, new), (new, base)):
        for rule in ("any < -2%", "any < -2% significant"):
            found = checked(*pair, rule, ["new", "base"], metric, unit=unit)
            assert found.failed
            assert words in found.message
    table = compare_runs([run_of("base", base, unit=unit), run_of("new", [-value for value in base], unit=unit)])
    assert (table.rows[0].cells[1].change, table.rows[0].cells[1].significant) == (None, None)
    assert not checked([0.0, 1.0], [0.0, 1.0], "any < -90%", metric="latency").failed, "a wait may be 0"


@pytest.mark.parametrize("n", [2, 3, 5, 10])
@pytest.mark.parametrize("seeds", [True, False])
def test_equal_runs_fail_at_the_stated_level(n, seeds):
    """Of 300 pairs of equal runs; `clear` fails on the stars for the worse, and on nothing else."""
    chance = random.Random(n)
    failures = dict.fromkeys(("clear", "significant"), 0)
    for _ in range(300):
        base, new = ([chance.gauss(100, 2) for _ in range(n)] for _ in range(2))
        table = compare_runs([run_of("base", base, seeds=seeds), run_of("new", new, seeds=seeds)])
        cell = table.rows[0].cells[1]
        for rule in failures:
            (one,) = gate.check([table], [f"any < 0% {rule}"])
            failures[rule] += one.failed
            if rule == "clear":
                assert one.failed == (cell.significant and cell.change < 0)
            elif one.failed and not cell.significant:
                assert "not clear; clear without its outliers for the worse" in one.message
                assert ("of equal runs with" in one.message) == seeds
    # Three standard errors beyond the stated level.
    for rule, level in (("clear", 0.025), ("significant", gate.chance_of_pairs(n))):
        assert failures[rule] / 300 < level + 3 * math.sqrt(level / 300), rule


def test_a_rule_that_reads_like_a_regression_and_fails_on_improvements_is_refused():
    """`energy > 5%` would let every rise of energy pass: a change above 0 is an improvement."""
    for rule in ("any > 5%", "any >= 5% significant", "any < -2% or m > +3%"):
        with pytest.raises(InputError, match=r"write '(any|m) < -[35]%' against regressions"):
            failed([10.0] * 3, [20.0] * 3, rule)
    with pytest.raises(InputError, match="goes with"):
        failed([10.0] * 3, [20.0] * 3, "any < -2% better")
    assert failed([10.0] * 3, [5.0] * 3, "any > 5% better significant")
    assert not failed([10.0] * 3, [20.0] * 3, "any > 5% better")


def test_changes_from_nothing_are_absolute():
    assert failed([0.0] * 3, [100.0] * 3, unit="%"), "0 to 100 % missed"
    assert failed([0.0] * 3, [100.0, 90.0, 95.0], "m < -2% significant", unit="%")
    assert not failed([0.0] * 3, [1.0] * 3, unit="%"), "one percentage point of two that are allowed"
    assert not failed([0.0] * 3, [0.0] * 3, unit="%")
    assert failed([0.0] * 3, [1e-9] * 3, unit="s"), "without bound"
    assert not failed([0.0] * 3, [1.0] * 3, unit="MB/s", higher=True)


def test_missed_activations_from_0_to_100_percent_fail(tmp_path):
    """As it is used: a task that powersave cannot serve."""
    (tmp_path / "w.json").write_text(
        '{"tasks": {"t": {"loop": -1, "run": 5000, "timer": {"ref": "u", "period": 8000}}},'
        ' "global": {"duration": 1, "calibration": "CPU4"}}'
    )
    words = ["run", str(tmp_path / "w.json"), "-m", "juno-r2", "--governor", "performance,powersave", "-j", "1"]
    answered(*words, "--seconds", "0.3", "--no-report", "-o", tmp_path / "out")
    table = results.read(tmp_path / "out").filter(metric="missed_activations")
    means = {policy: table.filter(policy=policy)["value"].mean() for policy in ("performance", "powersave")}
    assert means["performance"] == 0.0
    assert means["powersave"] > 2
    junit = tmp_path / "j.xml"
    words = ["compare", str(tmp_path / "out"), "--junit", str(junit), "--fail-if"]
    done = called(*words, "missed_activations < -2%")
    assert done.exit_code == 1
    assert f"missed_activations of powersave on juno-r2: {-means['powersave']:+.2f} pp" in done.stderr
    assert ET.parse(junit).getroot().get("failures") == "1"
    answered(*words, "missed_activations < -101%")


@pytest.mark.parametrize("benchmark", ["tbench", "w.json"])
def test_a_gate_on_energy_by_unit_of_work_has_the_numbers_of_run_and_choose(tmp_path, benchmark):
    out = tmp_path / "out"
    if benchmark == "w.json":
        benchmark = str(tmp_path / benchmark)
        Path(benchmark).write_text(
            '{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 8000}}},'
            ' "global": {"duration": 1, "calibration": "CPU4"}}'
        )
    words = ["run", benchmark, "-m", "juno-r2", "--governor", "schedutil", "--vs", "governor=performance"]
    words += ["--seconds", "0.7", "--iterations", "3", "-j", "1", "--no-report"]
    answered(*words, "-o", out, "--format", "json")
    # By hand from the rows of the runs, and as `run` and `choose` give it.
    table = results.read(out)
    rate = {"tbench": ("power", "throughput")}.get(benchmark, ("energy", "work_done"))
    by_hand = {}
    for policy in ("schedutil", "performance"):
        above, below = (table.filter(policy=policy, metric=name)["value"] for name in rate)
        by_hand[policy] = (above / below).mean()
    (one,) = compare(out, metric="energy_per_work")
    assert [cell.value for cell in one.rows[0].cells] == pytest.approx(list(by_hand.values()))
    assert one.rows[0].better == "lower"
    cells = one.rows[0].cells
    block = answer_of(Experiment.of_results(out), table)
    of_run = {line.variant: line for line in block.lines}
    assert [of_run[run].values["energy_per_work"] for run in one.runs] == pytest.approx(list(by_hand.values()))
    change = of_run["performance"].changes["energy_per_work"]
    assert -cells[1].change == pytest.approx(change.value)
    assert [100 * (end - 1) for end in (cells[1].ratio_low, cells[1].ratio_high)] == pytest.approx(
        [change.certainty.low, change.certainty.high]
    )
    choice = choose("juno-r2", benchmark, governors=["schedutil", "performance"], goals=["energy"],
                    seconds=0.7, iterations=3, uncertainty=0, constraints=["none"])  # fmt: skip
    chosen = {option.label: option.parts["energy_per_work"].value for option in choice.options}
    assert chosen == pytest.approx(by_hand)
    # The gate needs no --metric, and judges it as what is better lower.
    worse = "schedutil" if by_hand["schedutil"] > by_hand["performance"] else "performance"
    (better,) = {"schedutil", "performance"} - {worse}
    rule = "energy_per_work < -1%"
    for base, other, code in ((better, worse, 1), (worse, better, 0)):
        done = called("compare", out, "--runs", f"{base},{other}", "--fail-if", rule)
        assert done.exit_code == code, done.output
        assert "energy_per_work" in done.output
    # Without a rule on it, where the runs did unlike work.
    shown = called("compare", out).output
    assert ("energy_per_work" in shown) == (benchmark == "tbench")


@pytest.mark.parametrize("shown", [[], ["--all"], ["--table", "overview"], ["--table", "ppw"], ["--table", "power"]])
def test_a_rule_for_a_benchmark_judges_its_performance_and_no_energy(tmp_path, shown):
    """Goal: `tbench < -2% or energy < -3%` lets energy rise by 2.5 %, in whatever table."""
    found = []
    for policy, energy, other in (("old", 2.0, 1.0), ("new", 2.05, 0.9)):
        for metric, unit, value in (("throughput", "MB/s", 100.0), ("energy", "J", energy), ("power", "W", energy)):
            own = rows(policy, "tbench", [value, value * 1.01, value * 0.99])
            better = "higher" if metric == "throughput" else "lower"
            found += [{**row, "metric": metric, "unit": unit, "better": better} for row in own]
        found += [
            {**row, "metric": "energy", "unit": "J"} for row in rows(policy, "meter", [other, other, other * 1.01])
        ]
    results.write(results.frame(found), tmp_path / "r.parquet")
    words = ["compare", str(tmp_path / "r.parquet"), *shown, "--fail-if"]

    def code(rule):
        return called(*words, rule).exit_code

    assert [code(rule) for rule in ("tbench < -2%", "tbench < -2% or energy < -3%")] == [0, 0]
    assert [code(rule) for rule in ("energy < -2%", "tbench:energy < -2%", "any < -2%")] == [1, 1, 1]
    assert code("tbench < 1%") == 1, "throughput is as it was"
    assert code("meter > 9% better") == 1, "it measures nothing else"


def test_energy_by_unit_of_work_of_somebody_elses_table_is_unknown_or_right(tmp_path):
    """Goal: no power, no unit, or other units: no value, and no traceback."""

    def found(**values):
        line = {"machine": "x", "policy": "p", "benchmark": "b", "better": "lower", "iteration": 0, "seed": 1}
        table = [line | {"metric": name, "unit": unit, "value": value} for name, (value, unit) in values.items()]
        run = Frame(results.frame(table)).load("p", "b", "energy_per_work")
        return [(one.unit, one.higher, one.values()) for one in run.series.values()]

    assert found(energy=(6.0, "J"), work_done=(3.0, "s")) == [("J/s of work", False, [2.0])]
    assert found(energy=(6.0, "J"), power=(4.0, "W"), throughput=(8.0, "MB/s")) == [("J/MB", False, [0.5])]
    assert found(energy=(6.0, "J"), throughput=(8.0, "MB/s")) == []
    assert found(energy=(6.0, "J"), power=(4.0, "W"), throughput=(8.0, None)) == []
    assert found(energy=(6.0, "mJ"), work_done=(3.0, "s")) == []
    assert found(energy=(6.0, "J"), work_done=(0.0, "s")) == []
    assert found(energy=(None, "J"), work_done=(3.0, "s")) == []


def rows(policy, benchmark, values, machine="x", metric="time"):
    fixed = {"machine": machine, "policy": policy, "benchmark": benchmark, "metric": metric, "unit": "s"}
    return [{**fixed, "better": "lower", "seed": seed, "value": value} for seed, value in enumerate(values)]


def gate_of(tmp_path, table, *words):
    results.write(results.frame(table), tmp_path / "r.parquet")
    junit = tmp_path / "j.xml"
    arguments = ["compare", str(tmp_path / "r.parquet"), "--junit", str(junit), "--fail-if", *words]
    done = called(*arguments)
    suite = ET.parse(junit).getroot()
    return done.exit_code, [one.get("message") for one in suite.iter("failure")]


def test_missing_runs_benchmarks_and_machines_are_named_failures(tmp_path):
    whole = [
        row
        for machine in ("x", "y")
        for benchmark in ("b", "c")
        for policy in ("old", "new")
        for row in rows(policy, benchmark, [1.0, 1.1, 1.2], machine)
    ]
    assert gate_of(tmp_path, whole, "any < -2%") == (0, [])
    for name in ("policy", "benchmark"):
        for value in sorted({row[name] for row in whole}):
            part = [row for row in whole if (row["machine"], row[name]) != ("y", value)]
            code, messages = gate_of(tmp_path, part, "any < -2%", "--baseline", "old")
            assert code == (0 if name == "benchmark" else 1), "a benchmark that no run of a machine has is not known"
            assert len(messages) == (2 if name == "policy" else 0)
    part = [row for row in whole if (row["policy"], row["benchmark"]) != ("new", "c")]
    code, messages = gate_of(tmp_path, part, "any < -2%")
    assert code == 1
    assert [message.partition(",")[0] for message in messages] == [
        "c Amean time of new on x: no value",
        "c Amean time of new on y: no value",
    ]
    assert gate_of(tmp_path, part, "any < -2%", "--allow-missing", "c")[0] == 0
    assert gate_of(tmp_path, part, "any < -2%", "--allow-missing", "b")[0] == 1
    code, messages = gate_of(tmp_path, whole, "bnech < -2%")
    assert code == 1
    assert "concerns nothing that was compared" in messages[0]
    assert gate_of(tmp_path, whole, "bnech < -2%", "--allow-missing", "bnech")[0] == 0
    code, messages = gate_of(tmp_path, whole, "any < -2%", "-b", "nosuch")
    assert code == 1
    assert "no benchmark named 'nosuch'" in messages[0]


def test_cases_without_results_are_failures(tmp_path):
    answered("run", "juno-eas", "--seconds", "0.05", "--iterations", "2", "-o", tmp_path / "out")
    words = ["compare", str(tmp_path / "out"), "--fail-if", "energy < -1000%", "--table", "overview"]
    answered(*words)
    next((tmp_path / "out/cases").glob("*.json")).unlink()
    done = called(*words)
    assert done.exit_code == 1
    assert "no results of" in done.stderr


def test_a_file_that_cannot_be_read_fails_the_gate(tmp_path):
    for name in ("old", "new"):
        (tmp_path / f"{name}.txt").write_text("Running in process mode with 10 groups\nTime: 1.0\n")
    (tmp_path / "broken.txt").write_text("nothing known")
    files = [str(tmp_path / f"{name}.txt") for name in ("old", "new", "broken")]
    answered("compare", *files[:2], "--fail-if", "any < -2%")
    assert called("compare", *files, "--fail-if", "any < -2%").exit_code == 1
    answered("compare", *files, "--fail-if", "any < -2%", "--allow-missing", "broken")


def csv_of(path, *runs):
    """A table of results by hand: of each run its name, unit, better and values."""
    rows = [
        f"{name},b,t,{unit},{better},{seed},{value}"
        for name, unit, better, values in runs
        for seed, value in enumerate(values)
    ]
    path.write_text("\n".join(["policy,benchmark,metric,unit,better,seed,value", *rows]) + "\n")
    return str(path)


GOOD = (100.0, 101.0, 99.0)


@pytest.mark.parametrize(
    ("base", "new", "words"),
    [
        # Twice as slow, and "99.8 % better".
        (("ms", "lower", GOOD), ("s", "lower", (0.2, 0.2, 0.21)), "t of b is in ms in run 'a' and in s in run 'b'"),
        (("u", "higher", GOOD), ("u", "lower", GOOD), "t of b: more is better in run 'a', and not in run 'b'"),
        (("u", "higher", GOOD), ("u", "", GOOD), "t of b: more is better in run 'a', and not in run 'b'"),
        (("u", "lower", GOOD), ("u", "sideways", GOOD), "`better` is 'sideways'; it is 'higher', 'lower' or empty"),
    ],
)
def test_values_of_other_units_or_directions_are_not_compared(tmp_path, base, new, words):
    both = [csv_of(tmp_path / "both.csv", ("a", *base), ("b", *new))]
    apart = [csv_of(tmp_path / "1.csv", ("a", *base)), csv_of(tmp_path / "2.csv", ("b", *new))]
    for files in (both, apart):
        plain = called("compare", *files)
        assert isinstance(plain.exception, InputError)
        assert words in str(plain.exception)
        junit = tmp_path / "j.xml"
        done = called("compare", *files, "--fail-if", "any < -2%", "--junit", junit)
        assert done.exit_code == 1
        assert words in done.stderr
        assert words in ET.parse(junit).getroot().find("testcase/failure").get("message")


def test_rows_of_one_run_in_several_units_are_refused(tmp_path):
    file = csv_of(tmp_path / "x.csv", ("a", "ms", "lower", GOOD), ("b", "ms", "lower", GOOD), ("b", "s", "lower", [1]))
    with pytest.raises(InputError, match="t of b in run 'b' has several units: ms, s"):
        compare(file)


def test_junit_is_xml_whatever_names_hold(tmp_path):
    file, junit = csv_of(tmp_path / "x.csv", ("a", "u", "lower", GOOD), ("\x1b\x01b&<", "u", "lower", [9] * 3)), "j.xml"
    words = ["compare", file, "--fail-if", "any < 500%", "--junit", str(tmp_path / junit)]
    assert called(*words).exit_code == 1
    (case,) = ET.parse(tmp_path / junit).getroot()
    assert "\\x1b\\x01b&<" in case.get("name")


def test_a_run_against_itself_is_no_comparison(tmp_path):
    file = csv_of(tmp_path / "x.csv", ("a", "u", "lower", GOOD), ("b", "u", "lower", GOOD))
    with pytest.raises(BadParameter, match="'a' is there twice"):
        opplab.main(["compare", file, "--runs", "a,a", "--fail-if", "any < -2%"], standalone_mode=False)
    with pytest.raises(UsageError, match="needs the baselines, which --layout grid leaves out"):
        words = ["compare", file, "--table", "overview", "--layout", "grid", "--fail-if", "any < -2%"]
        opplab.main(words, standalone_mode=False)


def test_values_that_are_left_out_are_named_in_every_form(tmp_path):
    """CSV has no place for notes, and mmtests prints 0 for what it cannot compute."""
    file = csv_of(tmp_path / "x.csv", ("a", "u", "lower", GOOD), ("b", "u", "lower", (100, "nan", 99)))
    for words in (["--format", "csv"], ["--method", "mmtests"], []):
        done = answered("compare", file, *words)
        assert "are no numbers" in done.output, words


def test_an_empty_folder_says_that_it_is_empty(tmp_path):
    (tmp_path / "empty").mkdir()
    done = called("compare", tmp_path / "empty")
    assert "empty: no file with results is there" in str(done.exception)


# --- properties -------------------------------------------------------------------------------------------------------

RULES = ("any < -2%", "any <= 0%", "any < -2% significant", "m < -30% significant", "any < -50%")
"""Those of `clear` may pass as values get worse: its interval widens."""


def worse_than(value, higher, unit, chance):
    """A value that is no better: the same, a bit or far worse, or none at all."""
    kind = chance.random()
    if kind < 0.15:
        return chance.choice([NAN, INF if not higher else -INF])
    if math.isnan(value) or math.isinf(value) or (unit == "s" and not higher and value < 0):
        # No measurement, and none is worse.
        return value
    step = abs(value) * 10 ** chance.uniform(-4, 3) + (chance.random() < 0.3) * chance.random()
    if kind < 0.3 and higher:
        return min(value, 0.0)
    return value - step if higher else value + step


def draw_result(chance):
    """Two samples with all that may be wrong with them."""
    n = chance.choice([1, 2, 3, 3, 5, 5, 10])
    level, noise = 10 ** chance.uniform(-3, 3), 10 ** chance.uniform(-4, -0.3)
    effect = 1 + chance.choice([0, 0.01, 0.03, 0.1, 0.5]) * chance.choice([-1, 1, 1])
    shared = [chance.gauss(0, noise) for _ in range(n)]
    base = [level * (1 + one + chance.gauss(0, noise / 3)) for one in shared]
    new = [level * effect * (1 + one + chance.gauss(0, noise / 3)) for one in shared]
    odd = chance.random()
    if odd < 0.08:
        base = [0.0] * n
    elif odd < 0.14:
        new = [0.0] * n
    elif odd < 0.2:
        base[chance.randrange(n)] = chance.choice([NAN, INF, 0.0, -1.0])
    elif odd < 0.26:
        new[chance.randrange(n)] = chance.choice([NAN, INF, 0.0, -1.0])
    elif odd < 0.32:
        new = new[: chance.randrange(n + 1)]
    elif odd < 0.36:
        base, new = [level] * n, [level * effect] * n
    how = {"higher": chance.random() < 0.5, "seeds": chance.random() < 0.6, "unit": chance.choice(["s", "%"])}
    return base, new, how


def breaks_monotonicity(seed):
    """Whether a worse value makes a gate pass that failed."""
    chance = random.Random(seed)
    base, new, how = draw_result(chance)
    rule = chance.choice(RULES)
    if not new or not failed(base, new, rule, **how):
        return False
    worse = list(new)
    for at in chance.sample(range(len(new)), chance.choice([1, 1, len(new)])):
        worse[at] = worse_than(new[at], how["higher"], how["unit"], chance)
    return not failed(base, worse, rule, **how)


@given(st.integers(0, 2**32))
@example(139464).via("two values a side, one of them an outlier")
@example(182959).via("less spread, fewer of Welch's degrees of freedom")
@settings(max_examples=400, deadline=None)
def test_a_worse_value_never_makes_a_failing_gate_pass(seed):
    assert not breaks_monotonicity(seed), draw_result(random.Random(seed))


@given(st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_an_outlier_for_the_worse_excuses_nothing(seed):
    chance = random.Random(seed)
    base = [chance.gauss(100, 1) for _ in range(5)]
    new = [value * 1.1 for value in base]
    new[chance.randrange(5)] *= 10 ** chance.uniform(0, 4)
    assert failed(base, new, "any < -2% significant", seeds=chance.random() < 0.5)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_order_of_rows_and_files_changes_nothing(tmp_path_factory, seed):
    chance = random.Random(seed)
    table = []
    for machine in ("x", "y"):
        for policy in ("old", "new"):
            for benchmark in ("b", "c"):
                for at in range(chance.choice([2, 3, 4])):
                    row = rows(policy, benchmark, [chance.choice([chance.gauss(10, 1), NAN, 0.0])], machine)[0]
                    table.append({**row, "seed": at if seed % 2 else None})
    shuffled = chance.sample(table, len(table))
    cut = chance.randrange(1, len(table)) if seed % 2 else len(table)
    folder = tmp_path_factory.mktemp("order")
    results.write(results.frame(table), folder / "whole.parquet")
    for name, part in (("a", shuffled[:cut]), ("b", shuffled[cut:])):
        results.write(results.frame(part), folder / f"{name}.parquet")
    rule = "any < -2% significant"

    def of(*files):
        tables = compare([folder / f"{name}.parquet" for name in files], baseline="old")
        cells = [json.dumps(one, sort_keys=True) for table in tables for one in table.to_frame().to_dicts()]
        return sorted(cells), sorted((one.message, one.failed) for one in gate.check(tables, [rule]))

    assert of("whole") == of("a", "b") == of("b", "a")


def main(results: int, seed: int) -> None:
    """Try so many random results, one process a CPU; exit code 1 if a worse value made a failing gate pass."""
    seeds = range(seed, seed + results)
    with get_context("spawn").Pool(len(os.sched_getaffinity(0))) as pool:
        found = [one for one, breaks in zip(seeds, pool.imap(breaks_monotonicity, seeds, 500), strict=True) if breaks]
    print(f"{results} random results from seed {seed}: {len(found)} where a worse value passes {found[:20]}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))


WORK = """{"tasks": {"t": {"loop": -1, "run": %d, "timer": {"ref": "u", "period": 8000}}},
 "global": {"calibration": "CPU4"}}"""


def ran(folder, name, *more, run_us=2000, governor="powersave"):
    (folder / "w.json").write_text(WORK % run_us)
    words = ["run", str(folder / "w.json"), "-m", "juno-r2", "--governor", governor, "-j", "1", "--no-report"]
    answered(*words, "-o", folder / name, *more)
    return str(folder / name)


def test_less_work_is_worse_and_what_has_no_direction_is_not_judged(tmp_path):
    """Powersave does a fifth less of the work: more of it is better, and a rule on it fails."""
    fast = ran(tmp_path, "fast", "--seconds", "0.2", run_us=6000, governor="performance")
    slow = ran(tmp_path, "slow", "--seconds", "0.2", run_us=6000)
    words = ["compare", fast, slow, "--all", "--metric"]
    done = called(*words, "work_done", "--fail-if", "work_done < -5%")
    assert done.exit_code == 1
    assert "higher is better" in done.stdout
    answered("compare", slow, fast, *words[3:], "work_done", "--fail-if", "work_done < -5%")
    done = called(*words, "switches", "--fail-if", "switches < -5%")
    assert done.exit_code == 1
    assert "neither more nor less of it is better" in done.stderr
    assert "is better)" not in done.stdout


def test_other_work_or_another_length_under_one_name_fails_a_gate(tmp_path):
    base = ran(tmp_path, "base", "--seconds", "0.2")
    for name, other, words in (
        ("longer", ["--seconds", "0.4"], "juno-r2 w runs for 0.2 s in"),
        ("heavier", ["--seconds", "0.2"], "juno-r2 w is other work in"),
    ):
        new = ran(tmp_path, name, *other, run_us=3000 if name == "heavier" else 2000)
        done = called("compare", base, new, "--metric", "energy")
        assert (done.exit_code, words in done.stderr) == (0, True)
        gated = called("compare", base, new, "--metric", "energy", "--fail-if", "energy < -900%")
        assert (gated.exit_code, words in gated.stderr) == (1, True)
    again = ran(tmp_path, "again", "--seconds", "0.2", governor="performance")
    done = answered("compare", base, again, "--metric", "energy", "--fail-if", "energy < -900%")


@pytest.mark.parametrize(
    ("text", "name"), [("hackbench", "hackbench"), ("p99 < 2", "p99"), ("< -2%", "any"), ("", "any")]
)
def test_the_example_for_a_rule_that_cannot_be_read_is_of_its_own_name(text: str, name: str) -> None:
    with pytest.raises(InputError, match=f"; write e.g. '{name} < -2% clear'"):
        gate.parse(text)


def test_a_benchmark_that_one_machine_lacks_is_compared_on_the_others(tmp_path):
    rows = [
        {
            "machine": machine,
            "policy": policy,
            "benchmark": benchmark,
            "metric": "time",
            "unit": "s",
            "better": "lower",
            "iteration": at,
            "seed": at,
            "value": value + at / 10,
        }
        for machine, benchmark in (("first", "a"), ("second", "a"), ("second", "b"))
        for policy, value in (("old", 10.0), ("new", 9.0))
        for at in range(3)
    ]
    path = tmp_path / "two.csv"
    results.frame(rows).write_csv(path)
    found = compare(str(path), benchmarks=["b"], baseline="old")
    assert [table.machine for table in found] == ["second"]
    assert [str(problem) for problem in found.problems] == ["first: there are no results of b"]
    words = ["compare", str(path), "-b", "b", "--baseline", "old", "--fail-if", "time < -2%"]
    done = called(*words)
    assert done.exit_code == 1
    assert "first: there are no results of b" in done.stderr
    for allowed in ("first", "b"):
        answered(*words, "--allow-missing", allowed)
    with pytest.raises(InputError, match="no benchmark named 'c'"):
        compare(str(path), benchmarks=["c"], baseline="old")


def test_an_operation_that_only_the_run_has_fails_under_every_summary():
    """Summaries without an interval have no main statistic."""
    base, new = run_of("base", [100.0] * 3), run_of("new", [100.0] * 3)
    new.series["m-2"] = Series("m-2", "m", "2", "s", False, [[1.0], [2.0], [3.0]], [0, 1, 2])
    for summary in SUMMARIES:
        table = mmtests_comparison([base, new], "", "", "detail", 0, summary)
        assert any("m-2" in one.message for one in gate.check([table], ["b < -20%"]) if one.failed), summary


@pytest.mark.parametrize("table", ["detail", "overview", "ppw", "power"])
def test_a_rule_on_the_power_of_a_monitor_holds_whatever_the_table_shows(table: str) -> None:
    """Of mmtests trees it was judged under `--table power` alone, and concerned nothing under the others."""
    tree = Path(__file__).parent.parent / "data/mmtests-golden/given/results"
    about = ["compare", str(tree), "--baseline", "5.9.0-ondemand", "-b", "kernbench", "--table", table]
    failed = called(*about, "--fail-if", "power < -5%")
    assert failed.exit_code == 1
    # 227.14 W of ondemand, 251.97 W of sugov-mid or perfgov.
    found = re.findall(r"power kernbench of (\S+): (-[0-9.]+)%", failed.stderr)
    assert len(found) == 1
    assert float(found[0][1]) == pytest.approx(100 * (1 - 251.97 / 227.14), abs=0.01)
    answered(*about, "--fail-if", "power < -20%")
    none = called(*about[:4], "-b", "gitsource", "--fail-if", "power < -20%")
    assert none.exit_code == 1
    assert "concerns nothing that was compared" in none.stderr
