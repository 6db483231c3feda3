"""`opplab run` prints what the benchmark measures, a line a policy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calls import answered, called


def test_tables_show_what_the_benchmark_measures(tmp_path: Path) -> None:
    words = ["run", "hwp-boost-gpu", "-o", str(tmp_path / "out"), "--iterations", "1", "--jobs", "1"]
    done = answered(*words, "--format", "json")
    found = {(row["workload"], row["variant"], row["metric"]): row["mean"] for row in json.loads(done.stdout)["rows"]}
    assert "is better" in (tmp_path / "out/tables.txt").read_text()
    # Text 001's argument: with the boost the CPU gains and the GPU loses; with the rule for servers a desktop does not.
    assert found["dbench clients 1", "boost", "latency"] < 0.8 * found["dbench clients 1", "no-boost", "latency"]
    both = "dbench clients 4"
    assert found[both, "boost", "latency"] < found[both, "no-boost", "latency"]
    assert found[both, "boost", "frames:gpu"] < 0.95 * found[both, "no-boost", "frames:gpu"]
    for metric in ("latency", "frames:gpu"):
        assert found[both, "boost-on-servers", metric] == found[both, "no-boost", metric]


def test_a_column_without_name_and_values_is_rendered_at_any_width() -> None:
    from opplab.report.text import wrapped_name

    assert wrapped_name("", 0) == [""]


def test_a_text_is_scored_beside_no_change(tmp_path: Path) -> None:
    """What `run` prints of text 001 is what its published table and the means of the run give."""
    from statistics import median

    from opplab.comparison.published import cells

    words = ["run", "hwp-boost-sqlite", "-o", str(tmp_path / "out"), "--iterations", "1", "--seconds", "1.2"]
    done = answered(*words)
    rows = [row for row in cells("001") if row.table == "sqlite" and row.metric == "Hmean"]
    published = {row.variant: row.value for row in rows}
    done_json = called(*words, "--format", "json")
    rate = {
        row["variant"]: row["mean"] for row in json.loads(done_json.stdout)["rows"] if row["metric"] == "transactions"
    }
    base = published.pop("vanilla")
    errors = {name: 100 * abs(rate[name] / rate["vanilla"] - value / base) for name, value in published.items()}
    nothing = [100 * abs(1 - value / base) for value in published.values()]
    text = " ".join(done.stdout.split())
    assert f"median error {median(errors.values()):.1f} percentage points" in text
    assert f'always predicting "no change" misses by {median(nothing):.1f}.' in text
    for value in published.values():
        assert f"{100 * (value / base - 1):+.1f} % " in text


def test_work_that_did_not_end_does_not_hide_the_rest(tmp_path: Path) -> None:
    """hackbench of 8 groups does not end in 3 s: its elapsed time is unknown, the other tables and the score stay."""
    import polars as pl

    done = answered("run", "juno-hackbench", "-o", tmp_path / "out", "--iterations", "1", "--seconds", "3", "-j", "1")
    rows = pl.read_parquet(tmp_path / "out/results.parquet").filter(pl.col("metric") == "elapsed")
    known = {param: value is not None for param, value in rows.select("param", "value").rows()}
    assert known == {"groups=1": True, "groups=2": True, "groups=4": True, "groups=8": False}
    shown = " ".join(done.stdout.split())
    assert "groups=8 unknown unknown" in shown
    assert "Score against 3 published changes" in shown
    assert (
        "Not scored: 1 published value (elapsed of CPPC-EAS hackbench-many groups=8 is not known: the work did not "
        "end)." in shown
    )


def test_a_mean_without_the_runs_that_did_not_end_is_unknown() -> None:
    import polars as pl

    from opplab.agreement.forecast import Facts, NotKnown
    from opplab.results import frame

    rows = [
        {"benchmark": "b", "param": "", "policy": "p", "metric": metric, "unit": "s", "better": "lower", "value": value}
        for metric, values in (("elapsed", (1.0, None)), ("work_done", (1.0, 3.0)))
        for value in values
    ]
    facts = Facts(frame(rows).with_columns(pl.col("value").cast(pl.Float64)))
    assert facts.value(("b", ""), "p", ["work_done"]) == 2
    with pytest.raises(NotKnown, match="the work did not end"):
        facts.value(("b", ""), "p", ["elapsed"])
