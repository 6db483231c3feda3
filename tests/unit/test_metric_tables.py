"""`opplab run` prints what the benchmark measures, one column a policy."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from opplab.cli.main import opplab as cli


def test_tables_show_what_the_benchmark_measures(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    done = CliRunner().invoke(cli, ["run", "hwp-boost-gpu", "-o", str(folder), "--iterations", "1", "--jobs", "1"])
    assert done.exit_code == 0, done.output
    text = (folder / "tables.txt").read_text(encoding="utf-8")
    assert "dbench: latency (ms), lower is better" in text
    tables = {part.splitlines()[0].partition(":")[2].split()[0]: part for part in text.split("dbench")[1:]}
    # Text 001's argument: with the boost the CPU gains and the GPU loses; with the rule for servers a desktop does not.
    rows = {name: [line.split() for line in table.strip().splitlines()] for name, table in tables.items()}
    words = {name: lines[-1] for name, lines in rows.items()}
    alone = next(line for line in rows["latency"] if line[0] == "clients=1")
    assert float(alone[2]) < 0.8 * float(alone[1])
    no_boost, boost, _, on_servers, change = words["latency"][1:6]
    assert float(boost) < float(no_boost)
    assert (on_servers, change) == (no_boost, "(+0.0%)")
    no_boost, boost, _, on_servers, change = words["frames:gpu"][1:6]
    assert float(boost) < 0.95 * float(no_boost)
    assert (on_servers, change) == (no_boost, "(+0.0%)")
