"""The gate of instruction counts: what fails it, what it takes from callgrind, and that the record is whole."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"


def _tool():
    spec = importlib.util.spec_from_file_location("bench_instructions", TOOLS / "bench_instructions.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["bench_instructions"] = module
    spec.loader.exec_module(module)
    return module


bench = _tool()


@pytest.mark.parametrize(
    ("factor", "work", "verdict", "fails"),
    [
        (1.03, "a", "TOO MANY", True),
        (1.03, "b", "TOO MANY, for other work than recorded", True),
        (1.019, "a", "", False),
        (1.0, "b", "other work than recorded", False),
        (0.97, "a", "fewer: move the record", False),
    ],
)
def test_three_percent_more_of_one_function_fails(factor, work, verdict, fails):
    """Every recorded function in turn takes more, and the others do not."""
    _, recorded = bench.read_record()
    for slowed in recorded:
        record = recorded | {slowed: bench.Count(recorded[slowed].instructions, "a")}
        counted = record | {slowed: bench.Count(recorded[slowed].instructions * factor, work)}
        verdicts = dict(bench.judged(record, counted))
        assert verdicts.pop(slowed) == verdict
        assert not any(verdicts.values())
        assert bench.fails(verdict) == fails


def test_a_case_without_a_record_fails():
    assert [bench.fails(verdict) for _, verdict in bench.judged({}, {"new": bench.Count(1.0)})] == [True]


def test_the_record_has_every_case_and_no_other():
    versions, recorded = bench.read_record()
    assert list(recorded) == bench.NAMES
    assert list(versions) == ["compiler", "valgrind", "python"]


def test_counts_are_those_of_the_function_itself():
    annotated = """
1,000 (100.0%)  PROGRAM TOTALS
  900 (90.00%)  ???:sim::sched::balance::<impl sim::run::engine::Engine<S,H>>::newidle_balance [bench]
  800 (80.00%)  ???:kernel::sched::newidle::sched_balance_newidle [bench]
  600 (60.00%)  ???:kernel::sched::nohz::nohz_newidle_balance [bench]
"""
    assert bench.instructions_of("newidle_balance", annotated) == 900
    with pytest.raises(SystemExit, match="counted no instruction of place"):
        bench.instructions_of("place", annotated)
