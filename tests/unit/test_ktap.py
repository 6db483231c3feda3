"""KTAP, read back by a parser of its own (Documentation/dev-tools/ktap.rst)."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opplab.report.ktap import Test as Result
from opplab.report.ktap import ktap

from calls import called
from testdata import shared

VECTORS = Path(__file__).parents[2] / "crates" / "verify" / "vectors"
RESULT = re.compile(r"(ok|not ok) (\d+) ([^#]*?)(?: # SKIP (.*))?")


def parsed(lines: list[str], indent: str = "") -> list[tuple[bool, str, str, list[tuple[bool, str]]]]:
    """Take a level's lines off the front; each test with its subtests' results."""
    assert lines.pop(0) == f"{indent}KTAP version 1"
    if lines[0].startswith(f"{indent}# Subtest: "):
        lines.pop(0)
    planned = int(lines.pop(0).removeprefix(f"{indent}1.."))
    found: list[tuple[bool, str, str, list[tuple[bool, str]]]] = []
    inner: list[tuple[bool, str]] = []
    while lines and len(found) < planned:
        if lines[0].startswith(f"{indent}  KTAP"):
            inner = [one[:2] for one in parsed(lines, f"{indent}  ")]
            continue
        line = lines.pop(0)
        if line.startswith(f"{indent}# "):
            continue
        result = RESULT.fullmatch(line.removeprefix(indent))
        assert result, line
        found.append((result[1] == "ok", result[3], result[4] or "", inner))
        inner = []
        assert int(result[2]) == len(found)
    assert len(found) == planned
    return found


def said(*words: str) -> tuple[int, list[tuple[bool, str, str, list[tuple[bool, str]]]]]:
    done = called(*words)
    lines = done.stdout.splitlines()
    return done.exit_code, parsed(lines)


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.split())


@given(st.lists(st.tuples(NAMES, st.booleans(), st.text(max_size=5)), max_size=4))
def test_any_words_stay_on_their_line(rows: list[tuple[str, bool, str]]) -> None:
    tests = [Result(name, ok, remarks=(remark,) if remark.split() else ()) for name, ok, remark in rows]
    # Line ends of other alphabets are no line ends of KTAP.
    lines = ktap([Result("all", tests=tuple(tests))]).split("\n")
    if not tests:
        return
    assert [one[0] for one in parsed(lines)[0][3]] == [ok for _, ok, _ in rows]


def test_vectors_that_differ_are_not_ok(tmp_path: Path) -> None:
    code, found = said("verify", "vectors", "--tap", str(VECTORS))
    assert code == 0
    assert all(ok for ok, *_ in found)
    assert len({name for _, name, *_ in found}) == len(found) > 50
    (tmp_path / "no_such_family.csv").write_text("a,b\n1,2\n")
    source = min(VECTORS.iterdir())
    (tmp_path / source.name).write_bytes(source.read_bytes())
    code, found = said("verify", "vectors", "--format", "ktap", str(tmp_path))
    skipped = {name: (ok, why) for ok, name, why, _ in found}
    assert skipped["no_such_family"] == (True, "not built")
    code, found = said("verify", "vectors", "--strict", "--tap", str(tmp_path))
    assert code == 1
    assert {name for ok, name, *_ in found if not ok} == {"no_such_family"}


def test_machine_checks_fail_by_errors_only() -> None:
    code, found = said("machine", "check", "--tap", "epyc-7742-2s")
    plain = called("machine", "check", "epyc-7742-2s")
    assert code == plain.exit_code
    assert ("error" in {line.split()[0] for line in plain.stdout.splitlines()}) == any(not ok for ok, *_ in found)
    assert {"fmax", "idle-states"} <= {name for _, name, *_ in found}


def test_a_recording_is_a_test_of_its_kinds() -> None:
    folder = shared("traces/x86-612-rome3-any1-performance-periodic3")
    code, found = said("verify", "traces", "--tap", str(folder))
    [(ok, name, _, kinds)] = found
    assert name == folder.name
    assert ok == (code == 0) == all(ok for ok, _ in kinds)
    assert (True, "pelt_se") in kinds


def test_remarks_of_a_recording_count_what_is_equal_and_what_differs() -> None:
    folder = str(shared("traces/x86-612-rome3-any1-schedutil-periodic3"))
    rows = json.loads(called("verify", "traces", "--format", "json", folder).stdout)
    text = called("verify", "traces", "--tap", folder).stdout
    differing = [row for row in rows if row["remark"].startswith("differ: ")]
    assert {row["kind"] for row in differing} >= {"carry_se"}
    for row in differing:
        before, _, after = text.partition(f"# {row['exact']} of {row['total']} equal; {row['remark']}\n")
        assert after, f"{row['kind']} has another remark in: {before}"
        assert sum(map(int, re.findall(r"(?:: |, )(\d+) ", row["remark"]))) == row["total"] - row["exact"]


def test_a_recording_marks_what_fails_and_what_was_not_compared() -> None:
    """Goal: no 100 % of nothing, and the line for which the exit code is 1. Method: one recording that passes, one not.

    The help names all kinds that a single difference fails.
    """
    for name, fails in (("x86-612-xeon16-any1-ondemand-ramp_up", False), ("arm64-612-pixel4-eas-homog6", True)):
        done = called("verify", "traces", shared(f"traces/{name}"))
        assert done.exit_code == int(fails)
        marked = [line for line in done.stdout.splitlines() if line.endswith(" FAILS")]
        assert {line.split()[1] for line in marked} == {
            line.split()[1].rstrip(":") for line in done.stderr.splitlines() if "bound" in line or "differs" in line
        }
        assert bool(marked) == fails
        nothing = "placement_slow" if fails else "switch_target"
        assert f"{name} {nothing} - - - not compared: " in done.stdout
        assert " 0 0 " not in done.stdout
    source = (Path(__file__).parents[2] / "crates" / "verify" / "src" / "traces" / "report.rs").read_text()
    kinds = re.findall(r'^    "(\w+)",$', source.partition("pub const BIT_EXACT")[2].partition("];")[0], re.MULTILINE)
    text = called("verify", "traces", "--help").stdout
    assert kinds
    assert not [kind for kind in kinds if not re.search(rf"\b{kind}\b", text)]


def test_two_forms_are_refused() -> None:
    done = called("machine", "check", "juno-r2", "--tap", "--format", "json")
    assert done.exit_code == 2
    with pytest.raises(AssertionError):
        parsed(["KTAP version 1", "1..2", "ok 1 a"])
