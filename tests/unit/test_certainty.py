"""`opplab.certainty`: when a change is clear, and when few runs leave everything open."""

import pytest

from opplab.certainty import certainty, change_text
from opplab.comparison.method import compare_runs
from opplab.comparison.tables import render
from opplab.runs import Run, Series
from opplab.summary.answer import Change, paired_change, points


def test_an_interval_that_leaves_everything_open_says_how_many_runs_are_needed() -> None:
    """Goal: nobody reads [-98.6, +16997.6] of two runs."""
    change = paired_change("lower", {1: 1.0, 2: 1.0}, {1: 1.0, 2: 0.42})
    assert change is not None
    assert change.certainty.low is None
    assert change.certainty.words == "needs about 6 iterations, has 2"
    assert change.words == "+40.8 % [needs about 6 iterations, has 2]"


def test_what_a_wide_interval_says_stays() -> None:
    """An increase of at least 120 % is known, however wide its interval is; and so is one end of the others."""
    assert certainty(120.0, 9e9, n=2, unit="%").is_clear
    assert certainty(-40.0, 9e9, n=2, unit="%").words == "not clear"
    assert certainty(-99.0, 90.0, n=2, unit="%").words == "not clear"
    assert certainty(0.01, 171.0, n=2, null=1.0).words == "not clear", "ratios of tables keep their ends"


def test_a_share_changes_by_a_hundred_points_at_most() -> None:
    change = points({1: 100.0, 2: 98.0, 3: 99.0}, {1: 0.0, 2: 1.0, 3: 5.0})
    assert change is not None
    assert (change.certainty.low, change.certainty.high) == (pytest.approx(88.5, abs=2), 100.0)
    wide = points({1: 100.0, 2: 0.0}, {1: 0.0, 2: 0.0})
    assert wide is not None
    assert wide.certainty.words == "needs about 11 iterations, has 2"


def test_more_runs_than_anybody_makes_are_no_advice() -> None:
    assert certainty(-100.0, 1e200, n=2, unit="%").words == "needs more than 1000 iterations, has 2"
    assert certainty(-100.0, 3904.9, n=3, unit="%").words == "needs about 21 iterations, has 3"


def test_equal_values_are_no_lack_of_variation() -> None:
    """A count of whole units is the same in runs that differ."""
    assert certainty(0.0, 0.0, n=3, varies=False).words == "equal in all runs"
    same = certainty(None, None, n=3, varies=False, value=14.5)
    assert (same.words, same.is_clear) == ("same change in all runs", True)


def test_a_change_that_is_equal_in_all_runs_is_clear() -> None:
    """Goal: a summary counts +14.5 % of every seed as clear, as the gate does; no change is none."""
    change = paired_change("higher", {1: 114.5, 2: 114.5}, {1: 100.0, 2: 100.0})
    assert change is not None
    assert (change.certainty.is_clear, change.words) == (True, "+14.5 %*")
    same = paired_change("higher", {1: 100.0, 2: 100.0}, {1: 100.0, 2: 100.0})
    assert same is not None
    assert not same.certainty.is_clear
    alone = paired_change("higher", {1: 114.5}, {1: 100.0})
    assert alone is not None
    assert not alone.certainty.is_clear


@pytest.mark.parametrize(("is_rate", "side"), [(True, ""), (False, ", worse")])
def test_a_huge_change_is_how_many_times_it_is(is_rate: bool, side: str) -> None:
    """Goal: one readable form everywhere; nobody counts the digits of +12340.1 %."""
    runs = []
    for name, values in (("old", [100.0, 102.0, 98.0]), ("new", [12463.0, 12100.0, 11918.5])):
        runs.append(Run(name, "bench"))
        unit, iterations = "MB/s" if is_rate else "s", [[value] for value in values]
        runs[-1].series["x-1"] = Series("x-1", "x", "1", unit, is_rate, iterations, [1, 2, 3])
    table = compare_runs(runs)
    cell = table.rows[0].cells[1]
    assert cell is not None and cell.ratio_low is not None and cell.ratio_low > 100
    words = f"{cell.ratio:.1f} times [{cell.ratio_low:.1f}, {cell.ratio_high:.1f}]{side}"
    for form in ("text", "markdown", "html"):
        assert words in render(table, form), form
    change = Change(12000.0, certainty(11328.5, 12700.0, n=3))
    assert (change.words, change.short) == ("121.0 times [114.3, 128.0]*", "+12000*")
    assert change_text(-7.5, -12345.6, 3.0) == "-7.5 % [-12346, +3.0]"
