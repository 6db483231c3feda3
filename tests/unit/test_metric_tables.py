"""`opplab run` prints what the benchmark measures, a line a policy."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from opplab.cli.main import opplab as cli


def test_tables_show_what_the_benchmark_measures(tmp_path: Path) -> None:
    words = ["run", "hwp-boost-gpu", "-o", str(tmp_path / "out"), "--iterations", "1", "--jobs", "1"]
    done = CliRunner().invoke(cli, [*words, "--format", "json"])
    assert done.exit_code == 0, done.output
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
    from opplab.report.text import _heading

    assert _heading("", 0) == [""]
