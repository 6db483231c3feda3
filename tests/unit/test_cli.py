"""The command line: exit codes, one-line messages, lazy imports."""

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


def opplab(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "opplab.cli.main", *args]
    env = {**os.environ, "COLUMNS": "120", **environment}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def check_refused(expected: str, *args: str) -> None:
    """Bad input ends with exit code 2 and one line that says what and what is near."""
    done = opplab(*args)
    assert done.returncode == 2, done.stderr
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_help_is_lazy() -> None:
    script = (
        "import sys; from opplab.cli.main import opplab; opplab.main(['--help'], standalone_mode=False);"
        "assert 'polars' not in sys.modules and 'rich' not in sys.modules and 'opplab.cli.verify' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verify" in done.stdout


def test_unknown_command() -> None:
    check_refused("did you mean 'verify'", "verfy")


def test_missing_vectors(tmp_path: Path) -> None:
    check_refused("nothing-here", "verify", "vectors", str(tmp_path / "nothing-here"))
    check_refused("no vector files", "verify", "vectors", str(tmp_path))


def test_unbuilt_family_counts_only_with_strict(tmp_path: Path) -> None:
    (tmp_path / "cppc_perf_khz2.csv").write_text("a,b\n1,2\n")
    # Nothing verified is no success.
    check_refused("the nearest to 'cppc_perf_khz2' is 'cppc_perf_khz'", "verify", "vectors", str(tmp_path))
    vectors = Path(__file__).parents[2] / "crates/verify/vectors/cppc_efficiency_class.jsonl"
    (tmp_path / vectors.name).write_bytes(vectors.read_bytes())
    done = opplab("verify", "vectors", str(tmp_path))
    assert done.returncode == 0
    assert done.stdout.splitlines()[1] == "cppc_perf_khz2 not built"
    assert opplab("verify", "vectors", "--strict", str(tmp_path)).returncode == 1


def test_vectors_as_json(tmp_path: Path) -> None:
    (tmp_path / "no_such_family.csv").write_text("a,b\n1,2\n")
    done = opplab("verify", "vectors", "--format", "json", str(tmp_path))
    assert done.returncode == 2
    assert json.loads(done.stdout) == [{"family": "no_such_family", "cases": None, "mismatches": None, "first": None}]


def test_damaged_line(tmp_path: Path) -> None:
    (tmp_path / "cppc_efficiency_class.jsonl").write_text('{"raw": [1, 2], "rc": 0}\n')
    check_refused("cppc_efficiency_class.jsonl:1: no member", "verify", "vectors", str(tmp_path))


def test_broken_vector_file(tmp_path: Path) -> None:
    from opplab import _opplab

    if not _opplab.families():
        pytest.skip("no family is built")
    (tmp_path / f"{_opplab.families()[0]}.csv.gz").write_bytes(gzip.compress(b"x,y\n1,2\n")[:-9])
    check_refused("failed to read", "verify", "vectors", str(tmp_path))
