"""`opplab.certainty`: when a change is clear, and when few runs leave everything open."""

from statistics import fmean

import numpy as np
import pytest

from opplab.certainty import certainty, change_text
from opplab.comparison.method import apart, compare_runs
from opplab.comparison.tables import render
from opplab.metrics import METRICS, events_of, find
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


def _share(counts: list[int], of: int = 600) -> dict[int, float | None]:
    return {seed: 100 * count / of for seed, count in enumerate(counts)}


def _of_seeds(counts: list[int]) -> dict[int, float | None]:
    return dict.fromkeys(range(len(counts)), 600.0)


def _clear_of_counts(old: list[int], new: list[int], *, counted: bool = True) -> bool:
    """Whether a change of so many of 600 events is clear in `points`; so it is in a table."""
    events = [_of_seeds(new), _of_seeds(old)] if counted else ({}, {})
    change = points(_share(new), _share(old), events)
    runs = []
    for name, counts in (("old", old), ("new", new)):
        run, seeds = Run(name, "ui"), list(range(len(counts)))
        shares = [[100 * count / 600] for count in counts]
        run.series["lost_resumes"] = Series("lost_resumes", "lost_resumes", "", "%", iterations=shares, keys=seeds)
        if counted:
            run.series["lost_resumes"].events = [600.0] * len(counts)
        runs.append(run)
    cell = compare_runs(runs).rows[0].cells[1]
    assert change is not None
    assert cell is not None
    assert cell.significant == change.certainty.is_clear
    if change.certainty.low is not None:
        assert (-cell.points_high, -cell.points_low) == (change.certainty.low, change.certainty.high)  # type: ignore[operator]
    return change.certainty.is_clear


def test_one_more_event_in_each_run_is_not_clear() -> None:
    """Three pairs of 600 resumes with +1 each were "+0.2 points [+0.2, +0.2]*": 3 of 1800 are 3 +- 1.96 root 3."""
    change = points(_share([2, 3, 4]), _share([1, 2, 3]), [_of_seeds([1, 2, 3])] * 2)
    assert change is not None
    half = 100 * 1.959964 * 3**0.5 / 1800
    assert (change.certainty.low, change.certainty.high) == pytest.approx((1 / 6 - half, 1 / 6 + half))
    assert change.certainty.words == "not clear"
    assert not _clear_of_counts([1, 2, 3], [2, 3, 4])
    assert _clear_of_counts([1, 2, 3], [9, 10, 11]), "8 more in each are no chance"
    # Runs that vary on neither side, and pairs without any difference, stay as they are.
    assert _clear_of_counts([2, 2, 2], [3, 3, 3])
    assert not _clear_of_counts([1, 2, 3], [1, 2, 3])


@pytest.mark.parametrize(("seeds", "mean", "least"), [(2, 1.8, 8), (3, 1.8, 3.5), (5, 6.0, 3.5)])
def test_equal_settings_are_clear_by_chance_as_seldom_as_intervals_promise(
    seeds: int, mean: float, least: float
) -> None:
    """Binomial counts of 600: in 5 % of 1500 draws, give or take three deviations; two seeds uncounted in 10 %."""
    draws = np.random.default_rng(1).binomial(600, mean / 600, (1500, 2, seeds)).tolist()
    found = [100 * fmean(_clear_of_counts(*pair, counted=counted) for pair in draws) for counted in (True, False)]
    assert found[0] <= 5 + 3 * 0.56
    assert found[1] >= least
    assert found[0] <= found[1]


def test_what_hardly_varies_stays_clear() -> None:
    """Periodic tasks miss the same in each run: of 600 in three runs 24 instead of 30, each give or take one."""
    noise = np.random.default_rng(1).integers(-1, 2, (200, 2, 3)).tolist()
    pairs = [([30 + one for one in old], [24 + one for one in new]) for old, new in noise]
    assert fmean(_clear_of_counts(*pair) for pair in pairs) > 0.95


def test_independent_runs_of_counted_events_are_no_surer() -> None:
    """Without seeds: Welch's interval of values that happen to be near each other is no narrower than the counts'."""
    low, high, _ = apart([0.1, 0.1001], [0.2, 0.2001], paired=False, events=2000)
    assert (low, high) == pytest.approx((0.1 - 1.96 * 2**0.5 / 20, 0.1 + 1.96 * 2**0.5 / 20), abs=1e-4)


def test_each_share_of_counted_events_has_its_count() -> None:
    """Both names are metrics: the share in percent, the count without a unit."""
    for share in [one.name for one in METRICS if events_of(one.name)]:
        found, counted = find(share), find(events_of(share))
        assert found is not None
        assert counted is not None
        assert (found.unit, counted.unit) == ("%", "1"), share
    assert {"missed_activations", "lost_resumes", "group_missed:GROUP"} <= {
        one.name for one in METRICS if events_of(one.name)
    }


@pytest.mark.parametrize(
    ("unit", "values", "ends"),
    [
        ("%", [0.11, 0.0, 0.0, 0.0], (0.0, 0.1150)),
        ("%", [99.0, 100.0], (93.147, 100.0)),
        ("ms", [4.0, 8.0], (0.0, 31.412)),
        # Of a temperature or a count of another unit nobody knows what it cannot be.
        ("Cel", [4.0, 8.0], (-19.412, 31.412)),
    ],
)
def test_an_interval_ends_where_values_do(unit: str, values: list[float], ends: tuple[float, float]) -> None:
    """Four runs with one miss had -0.06 to 0.11 % of activations missed, and two times less than no time."""
    run = Run("a", "b")
    run.series["m"] = Series("m", "m", "", unit, iterations=[[one] for one in values], keys=list(range(len(values))))
    found = compare_runs([run])
    cell = found.rows[0].cells[0]
    assert cell is not None
    assert (cell.low, cell.high) == pytest.approx(ends, rel=1e-3)
    assert ("that a value cannot have" in found.method) == (unit != "Cel")
