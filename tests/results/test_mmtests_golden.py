"""mmtests' own tables, byte for byte: goal of issue 7, item 3.

`tests/data/mmtests-golden/README.md` says how the expected files were made.
"""

from pathlib import Path

import pytest

from calls import answered

GIVEN = Path(__file__).parent.parent / "data/mmtests-golden/given"
RUNS = "5.9.0-ondemand,5.9.0-sugov-mid,5.9.0-perfgov"

TABLES = {
    "kernbench.txt": ["-b", "kernbench"],
    "gitsource.txt": ["-b", "gitsource"],
    "hackbench.txt": ["-b", "hackbench-process-pipes"],
    "kernbench.ratio.txt": ["-b", "kernbench", "--table", "ratio"],
    "tbench.ratio.txt": ["-b", "tbench", "--table", "ratio"],
    "dbench.ratio.txt": ["-b", "dbench", "--table", "ratio"],
    "hackbench.ratio.txt": ["-b", "hackbench-process-pipes", "--table", "ratio"],
    "kernbench.sig.txt": ["-b", "kernbench", "--table", "significance"],
    "kernbench.Elapsed.nocompare.txt": ["-b", "kernbench", "--metric", "Elapsed", "--table", "nocompare"],
    "kernbench.Elapsed.html": ["-b", "kernbench", "--metric", "Elapsed", "--format", "html"],
    "kernbench.turbostat.txt": ["-b", "kernbench", "--table", "monitor:turbostat"],
    "kernbench.duration.txt": ["-b", "kernbench", "--table", "monitor:duration"],
    **{
        f"{bench}.{metric}.txt": ["-b", bench, "--metric", metric]
        for bench in ("tbench", "dbench")
        for metric in ("tput", "loadfile", "op")
    },
}


def compare(*arguments):
    return answered("compare", *arguments)


def test_every_expected_file_is_checked():
    assert {file.name for file in (GIVEN / "expected").iterdir()} == set(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_table_is_mmtests_byte_for_byte(name):
    result = compare(GIVEN / "results", "--runs", RUNS, "--method", "mmtests", *TABLES[name])
    assert result.stdout_bytes == (GIVEN / "expected" / name).read_bytes()
    assert result.stderr == ""
