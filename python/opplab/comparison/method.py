"""The default method: how runs of one benchmark on one machine are compared.

Means are harmonic for rates.  Intervals of means are Student's t; those of ratios are Student's t on the logarithm, of
the pairs where runs share seeds or dates, else of two independent samples (delta method with Welch's degrees of
freedom).  Shares change by percentage points, with the interval of the difference, which of counted events is no
narrower than their counts allow (`counting_half`).
`opplab.certainty` decides which changes are clear.  The order of values, rows and files changes nothing.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, isnan, sqrt
from statistics import NormalDist, variance

from opplab import stats
from opplab.certainty import CONFIDENCE, EQUAL, ITERATIONS, certainty, decimals, unknown
from opplab.comparison.tables import OVERVIEW_SAME, Cell, Row, Table, has_no_ratio
from opplab.runs import IN_JOULES, IN_SECONDS, IN_WATTS, SHARES, Run, Series
from opplab.simulation.power import why_unknown

# From so many iterations on, iterations are the observations instead of the samples inside them.
_ITERATIONS = 3

# Fewest pairs whose ratios have a spread.
_PAIRS = 2


@dataclass(frozen=True, slots=True)
class Sample:
    """Observations of a run beside those of its baseline."""

    base: list[float]
    new: list[float]
    """`base` and `new`: numbers only; pairs where `paired`."""
    higher: bool
    """Whether more is better."""
    is_rate: bool
    """Whether its mean is harmonic."""
    is_share: bool
    """Whether changes are in percentage points."""
    paired: str = ""
    """What the pairs share, ``seeds`` or ``dates``; empty for independent samples."""
    cannot: str = ""
    """Which values are missing, so that the change is of the others; empty if none."""
    directed: bool = True
    """Whether more or less is better at all; where neither is, more is + in changes."""
    impossible: str = ""
    """Why the values are no measurement, so that there is no change; empty if they are one."""
    unmetered: str = ""
    """Why no interval holds the change, whatever the values vary by; empty if one does."""
    events: float = float("inf")
    """How many events the shares of a side count (`events_in`)."""

    @property
    def rises(self) -> bool:
        """Whether more is + in changes."""
        return self.higher or not self.directed

    def compare(self, confidence: float, new: list[float] | None = None) -> dict[str, float]:
        """Give ratio, interval and test; of other values of the run if given."""
        new = self.new if new is None else new
        if not self.base or not new:
            # What nobody knows is equal to nothing.
            return dict.fromkeys(("ratio", "low", "high", "p", "hedges_g"), float("nan"))
        if not any(self.base) and not any(new):
            # Nothing against nothing is equal, and nothing is tested.
            return {"ratio": 1.0, "low": 1.0, "high": 1.0, "p": float("nan"), "hedges_g": float("nan")}
        found = stats.compare(
            self.base,
            new,
            harmonic=self.is_rate,
            paired=bool(self.paired),
            confidence=confidence,
            resamples=0,
        )
        return found | (dict.fromkeys(("low", "high", "p"), float("nan")) if self.unmetered else {})


def sample_of(base: Series, new: Series) -> Sample:
    """Take what is compared of two series, in an order of its own."""
    lost = [_lost(one) for one in (base, new)]
    cannot = next((f"{gone} of {all_} values are no numbers" for gone, all_ in lost[::-1] if gone), "")
    cannot = cannot or missing(base, new)
    kind = base.higher, base.is_rate, base.unit in SHARES
    unmetered = why_unknown(base.preferences != new.preferences, base.unmetered != new.unmetered)
    impossible = _unlike(base, new) or _impossible(base, new)
    if base.keys is not None and new.keys is not None and base.keyed_by == new.keyed_by:
        old, own = _pairs_of(base, new)
        if len(old) >= _PAIRS:
            events = events_in(_events(base, old), _events(new, old))
            both = [*old.values()], [*own.values()]
            return Sample(*both, *kind, base.keyed_by, cannot, base.directed, impossible, unmetered, events)
    ours, theirs = observations(base), observations(new)
    events = events_in(base.events, new.events)
    return Sample(ours, theirs, *kind, "", cannot, base.directed, impossible, unmetered, events)


def _events(series: Series, keys: Container[Hashable]) -> list[float | None]:
    """Give how many events the values of some seeds or dates are shares of."""
    return [events for key, events in zip(series.keys or (), series.events, strict=False) if key in keys]


NO_RATIO = "no interval: a mean is 0 or less"
"""Why a change has no interval where means have no ratio."""

_NEVER_NEGATIVE = frozenset((*IN_SECONDS, *IN_JOULES, *IN_WATTS))


def _unlike(base: Series, new: Series) -> str:
    """Report that two runs did not do the same work; empty if they did, or it is not known."""
    if not base.work or not new.work or base.work == new.work:
        return ""
    return f"it is of {new.work}, that of the baseline of {base.work}"


def _impossible(base: Series, new: Series) -> str:
    """Report why values are no measurement of that metric; empty if they are one."""
    ours, theirs = (list(filter(isfinite, series.values())) for series in (base, new))
    if not ours or not theirs:
        return ""
    least = min(*ours, *theirs)
    if base.is_rate:
        # A rate of 0 is an unbounded time: there is no harmonic mean.
        return "a rate is 0 or less" if max(ours) > 0 and least <= 0 else ""
    if base.directed and not base.signed and least < 0 and base.unit in _NEVER_NEGATIVE:
        # A counter that has wrapped, or a clock that was set back.
        return f"a value is below 0 {base.unit}"
    return f"a run took 0 {base.unit}" if base.metric.lower() == "elapsed" and least == 0 < max(ours) else ""


def _lost(series: Series) -> tuple[int, int]:
    values = series.values()
    return sum(not isfinite(value) for value in values), len(values)


def missing(base: Series, new: Series) -> str:
    """Report which iterations a run or its baseline lacks, or that one lost most of their values; empty if none."""
    if base.keys is not None and new.keys is not None and base.keyed_by == new.keyed_by:
        keys = set(base.keys), set(new.keys)
        shared = len(keys[0] & keys[1])
        return _lacks(len(keys[0]), len(keys[1]), shared, base.keyed_by)
    ours, theirs = (len(one.iterations) if one.is_grouped() else one.count() for one in (base, new))
    if ours != theirs:
        return _lacks(ours, theirs, min(ours, theirs), "iterations")
    # Logs that sample until a time ends differ a little.
    ours, theirs = base.count(), new.count()
    few = 2 * min(ours, theirs) < max(ours, theirs)
    return _lacks(ours, theirs, min(ours, theirs), "values") if few else ""


def _lacks(base: int, new: int, shared: int, what: str) -> str:
    """Put in words how many of so many of the baseline a run lacks, and of the run the baseline."""
    words = [f"lacks {base - shared} of the baseline's {base} {what}"] if base > shared else []
    words += [f"the baseline lacks {new - shared} of the run's {new} {what}"] if new > shared else []
    return ", ".join(words)


def _independent(series: Series) -> bool:
    return series.is_grouped() and len(series.iterations) >= _ITERATIONS


def units_of(base: Series, new: Series, paired: bool) -> tuple[dict[Hashable, float], dict[Hashable, float]]:
    """Give the observations of two series by what they are of: an iteration, a sample of one, or a seed or date."""
    if paired:
        return _pairs_of(base, new)
    found: list[dict[Hashable, float]] = []
    for series in (base, new):
        places = series.places or range(len(series.iterations))
        values: dict[Hashable, float]
        if _independent(series):
            means = (mean_of(own, series.is_rate) for own in series.iterations)
            values = {at: mean for at, mean in zip(places, means, strict=False) if isfinite(mean)}
        else:
            values = {}
            for at, each in zip(places, series.iterations, strict=False):
                values |= {(at, nth) if nth else at: value for nth, value in enumerate(each) if isfinite(value)}
        found.append(values)
    return found[0], found[1]


def observations(series: Series) -> list[float]:
    """Give the numbers that count as observations, smallest first: of three iterations of samples and more, means."""
    if not _independent(series):
        return sorted(value for value in series.values() if isfinite(value))
    means = (mean_of(iteration, series.is_rate) for iteration in series.iterations if iteration)
    return sorted(value for value in means if isfinite(value))


def mean_of(values: Iterable[float], is_rate: bool) -> float:
    """Give the mean of an iteration's numbers; of rates among which is one of 0 or less, 0: no time is that long.

    Examples
    --------
    >>> mean_of([10.0, float("nan"), 40.0], is_rate=True), mean_of([10.0, 0.0], is_rate=True)
    (16.0, 0.0)
    """
    from opplab.mmtests.statistics import amean, hmean

    known = sorted(filter(isfinite, values))
    if not is_rate or not known or known[-1] <= 0:
        return amean(known)
    return hmean(known) if known[0] > 0 else 0.0


def _pairs_of(base: Series, new: Series) -> tuple[dict[Hashable, float], dict[Hashable, float]]:
    """Give the means of two series by the seeds or dates that both have."""
    old, own = _by_key(base), _by_key(new)
    shared = sorted((key for key in old if key in own), key=str)
    return {key: old[key] for key in shared}, {key: own[key] for key in shared}


def _by_key(series: Series) -> dict[int | str, float]:
    """The mean of the values of each seed or date, where these are numbers."""
    values: dict[int | str, list[float]] = {}
    for key, iteration in zip(series.keys or (), series.iterations, strict=True):
        values.setdefault(key, []).extend(iteration)  # type: ignore[arg-type]
    means = {key: own[0] if len(own) == 1 else mean_of(own, series.is_rate) for key, own in values.items()}
    return {key: mean for key, mean in means.items() if isfinite(mean)}


def compare_runs(
    runs: Sequence[Run],
    *,
    kind: str = "detail",
    confidence: float = CONFIDENCE,
    overview_rule: bool = False,
) -> Table:
    """Compare runs of one benchmark by the default method.

    Where a run has three iterations of an operation or more, the iterations are the observations, because samples
    inside an iteration are not independent of each other.

    Parameters
    ----------
    runs : sequence of Run
        The first is the baseline.  Operations that only another run has stand below the baseline's.
    kind : str
        ``detail``, ``ratio``, ``significance`` or ``nocompare``.
    overview_rule : bool
        ``~`` for ratios within 2.5 % of 1 instead of the rule of `opplab.comparison.tables`.
    """
    base = runs[0]
    rows: list[Row] = []
    compared: list[Cell] = []
    notes: list[str] = []
    pairing: dict[str, None] = {}
    partly: dict[str, str] = {}
    lost: dict[tuple[str, str], list[str]] = {}
    by_iteration: set[bool] = set()
    unvaried = cut = False
    tested = 0
    for label in dict.fromkeys(label for run in runs for label in run.series):
        all_ = [run.series.get(label) for run in runs]
        known = next(one for one in all_ if one is not None)
        ours = all_[0]
        cells: list[Cell | None] = []
        for run, one in zip(runs, all_, strict=True):
            if one is None or not one.count():
                cells.append(None)
                continue
            gone, count = _lost(one)
            if gone:
                notes.append(f"{label} of {run.name}: {gone} of {count} values are no numbers and left out")
            by_iteration.add(_independent(one))
            cell = _summarise(observations(one), one.is_rate, confidence)
            cut = _end_where_values_do(cell, one) or cut
            cells.append(cell)
            if run is base:
                cell.ratio = 1.0 if cell.value is not None else None
            elif kind != "nocompare" and ours is not None:
                sample = sample_of(ours, one)
                unvaried = compare_cells(cell, cells[0], sample, confidence) or unvaried
                if cell.impossible:
                    notes.append(f"{label} of {run.name} has no change: {cell.impossible}")
                tested += cell.p is not None or (cell.in_points and cell.points_low is not None)
                if cell.p is not None:
                    compared.append(cell)
                if cell.p is not None or sample.paired:
                    pairing[sample.paired] = None
                if sample.unmetered:
                    lost.setdefault((run.name, sample.unmetered), []).append(label)
                if not gone and sample.cannot and not sample.paired:
                    lost.setdefault((run.name, sample.cannot), []).append(label)
                counts = [len(set(of.keys or ())) for of in (ours, one)]
                if sample.paired and max(counts) > len(sample.base):
                    partly[run.name] = (
                        f"{run.name}: changes are of the {len(sample.base)} shared {sample.paired}; "
                        f"the means are of all {counts[0]} and {counts[1]}"
                    )
        # Of values of 0 and less there is no harmonic mean.
        is_harmonic = known.is_rate and any(one is not None and min(one.values(), default=0) > 0 for one in all_)
        stat = "Hmean" if is_harmonic else "Amean"
        rows.append(Row(stat, label, cells, known.unit, known.better, "percent", metric=known.metric))
    _holm(compared)
    for cell in compared:
        if cell.ratio is not None and not (cell.sample and cell.sample.unmetered):
            cell.same = is_same(cell.ratio, cell.ratio_low, cell.ratio_high, overview_rule)
    layout = {"ratio": "ratios", "significance": "significance"}.get(kind, "blocks")
    units = list(dict.fromkeys(row.unit for row in rows))
    senses = list(dict.fromkeys(row.better for row in rows))
    notes += partly.values()
    for (name, what), labels in lost.items():
        more = f" and {len(labels) - 1} more" if len(labels) > 1 else ""
        notes.append(f"{labels[0]}{more} of {name}: {what}")
    table = Table(layout, [run.name for run in runs], rows, base.benchmark, base.benchmark, notes=notes)
    table.unit = units[0] if len(units) == 1 else ""
    table.better = senses[0] if len(senses) == 1 else ""
    table.digits = digits_of(rows)
    percent = f"{100 * confidence:g} %"
    how = [f"default; means (harmonic for rates) with {percent} Student-t interval"]
    how += ["its ends (not +-) are none that a value cannot have: below 0, of a share above 100 %"] if cut else []
    if kind != "nocompare":
        words = [f"paired by shared {key}" if key else "of independent samples" for key in pairing]
        of = ", " + " or ".join(words) if words else ""
        how.append(f"ratio of means with {percent} interval (Student's t on the logarithm{of})")
        if any(cell is not None and cell.in_points for row in rows for cell in row.cells):
            how.append("shares change by percentage points, with the interval of the difference")
        by_chance = (1 - confidence) * tested
        how.append(f"* clear: the interval excludes no change ({by_chance:.2g} of {tested} by chance)")
        if kind == "significance":
            how.append(f"Holm is p corrected for {tested} comparisons; stars are of p alone")
        some = f", or samples where there are fewer than {_ITERATIONS} iterations" if False in by_iteration else ""
        how.append(f"observations are iterations{some}" if True in by_iteration else "observations are samples")
    if unvaried:
        how.append("no interval where the values of all iterations are equal: a change of them is clear")
    if kind == "ratio":
        how.append(same_rule(overview_rule))
        if any(cell is not None and has_no_ratio(cell) for row in rows for cell in row.cells):
            how.append("? there is no ratio: a mean is 0 or less, or a note has the reason")
    table.method = "; ".join(how)
    return table


def same_rule(overview_rule: bool) -> str:
    """Report which rule a table's ``~`` follows."""
    if overview_rule:
        return "~ ratio within 2.5 % of 1"
    return "~ the ratio's interval contains 1, or without one the ratio rounds to 1.00"


def _summarise(values: list[float], higher: bool, confidence: float) -> Cell:
    if not values:
        return Cell(text="unknown", n=0)
    if not varies(values):
        # Values that are all the same have no interval, least of all one of 0: nothing varied.
        return Cell(values[0], n=len(values))
    mean, (low, high) = stats.mean(values, harmonic=higher and min(values) > 0, confidence=confidence)
    if high == float("inf"):
        # Few rates that differ much: the mean may be anything above the lower end.
        return Cell(mean, n=len(values), is_open=True)
    spread = 100 * (high - low) / 2 / abs(mean) if mean and isfinite(low) else None
    return Cell(mean, spread=spread, low=low, high=high, n=len(values))


def _end_where_values_do(cell: Cell, series: Series) -> bool:
    """Cut an interval that goes beyond what a time, an energy, a rate or a share can be; gives whether it did."""
    is_share = series.unit in SHARES
    if cell.low is None or cell.high is None or series.signed or min(observations(series)) < 0:
        return False
    if not (is_share or series.is_rate or series.unit in _NEVER_NEGATIVE):
        return False
    most = 100.0 if is_share and max(observations(series)) <= 100 else cell.high
    low, high = max(cell.low, 0.0), min(cell.high, most)
    is_cut = (low, high) != (cell.low, cell.high)
    cell.low, cell.high = low, high
    return is_cut


def varies(values: Sequence[float]) -> bool:
    """Whether values differ, or there is but one, of which nothing is known."""
    return len(values) < 2 or max(values) - min(values) > 1e-12 * max(abs(value) for value in values)


def change_of(base: float, new: float, higher: bool, unit: str = "") -> tuple[float, bool]:
    """Give a change, positive being an improvement, and whether it is absolute.

    In percent of the baseline, of shares in percentage points; else from 0 without bound.

    Examples
    --------
    >>> change_of(10, 8, False, "s"), change_of(10, 30, False, "%"), change_of(0, 1, True, "MB/s")
    ((20.0, False), (-20, True), (inf, True))
    """
    gain = new - base if higher else base - new
    if gain == 0 or unit in SHARES:
        return gain, True
    if base:
        return 100 * gain / abs(base), False
    return float("inf") if gain > 0 else float("-inf"), True


def compare_cells(cell: Cell, base: Cell | None, sample: Sample, confidence: float) -> bool:
    """Write into a cell how it compares with the baseline's; gives whether nothing varied."""
    cell.sample, cell.cannot, cell.impossible = sample, sample.cannot, sample.impossible
    if base is None or base.value is None or cell.value is None or not sample.base or not sample.new:
        return False
    if cell.impossible:
        return False
    unvaried = not (varies(sample.base) or varies(sample.new))
    n = min(len(sample.base), len(sample.new))
    if sample.is_share:
        _points(cell, sample, n, confidence)
        return unvaried
    found = sample.compare(confidence)
    ratio = found["ratio"]
    if not isfinite(ratio) or not ratio or _middle(sample.base) <= 0:
        cell.change, _ = change_of(_middle(sample.base), _middle(sample.new), sample.rises)
        cell.same = not any(sample.base) and not any(sample.new)
        if cell.same:
            cell.certain = certainty(None, None, n=n, varies=False).words
        elif not isfinite(cell.change):
            cell.change_text = cell.certain = "from 0"
        else:
            cell.certain = NO_RATIO
        return unvaried
    cell.ratio = ratio
    cell.change = 100 * (ratio - 1 if sample.rises else 1 - ratio)
    # Pairs that are all equal are no change, however much the seeds differ.
    equal = bool(sample.paired) and abs(ratio - 1) <= EQUAL and found["high"] - found["low"] <= EQUAL
    judged = (
        unknown(sample.unmetered)
        if sample.unmetered
        else certainty(found["low"], found["high"], n=n, varies=not unvaried and not equal, null=1.0, value=ratio)
    )
    cell.ratio_low, cell.ratio_high, cell.certain = judged.low, judged.high, judged.words
    cell.same = ratio == 1 and (unvaried or equal) and not sample.unmetered
    cell.significant = judged.is_clear
    if not unvaried and not equal:
        # Of a single value nothing is tested.
        cell.p, cell.hedges_g = (found[name] if isfinite(found[name]) else None for name in ("p", "hedges_g"))
    return unvaried


def _points(cell: Cell, sample: Sample, n: int, confidence: float) -> None:
    """Write into a cell how a share changes: by percentage points, as any base near 0 makes a ratio of anything."""
    sign = 1 if sample.rises else -1
    # Not -0.0, which prints a sign.
    cell.change, cell.in_points = sign * (_middle(sample.new) - _middle(sample.base)) + 0.0, True
    low, high, differ = apart(sample.base, sample.new, bool(sample.paired), confidence, sample.events)
    ends = sorted((sign * low, sign * high))
    judged = (
        unknown(sample.unmetered)
        if sample.unmetered
        else certainty(*ends, n=n, varies=differ, unit="points", value=cell.change)
    )
    cell.same = not cell.change and not differ
    cell.change_text = "" if cell.same else f"{cell.change:+.2f} pp"
    cell.points_low, cell.points_high, cell.certain = judged.low, judged.high, judged.words
    cell.significant = judged.is_clear


def events_in(*sides: Iterable[float | None]) -> float:
    """Give how many events the shares of each side are of, of the side with fewer; infinity if nobody counts.

    Examples
    --------
    >>> events_in([600.0, 600.0], [600.0, 590.0]), events_in([600.0], [None]), events_in([], [])
    (1190.0, inf, inf)
    """
    counts = [list(side) for side in sides]
    if not all(counts) or any(not events for side in counts for events in side):
        return float("inf")
    return min(sum(events for events in side if events) for side in counts)


def counting_half(difference: float, events: float, confidence: float = CONFIDENCE) -> float:
    """Give the least half width of the interval of a difference of shares of counted events, in percentage points.

    Sides that differ by k events do so by chance with a deviation of the root of k at least: what happens on both
    sides of a pair cancels, what happens on one does not. Few runs may differ by the same number each time.

    Parameters
    ----------
    difference : float
        In percentage points.
    events : float
        Of all runs of a side.

    Examples
    --------
    Three runs of 600 events, each with one more:

    >>> f"{100 / 600:.2f} {counting_half(100 / 600, 1800):.2f}"
    '0.17 0.19'
    """
    return NormalDist().inv_cdf((1 + confidence) / 2) * sqrt(100 * abs(difference) / events)


def apart(
    base: Sequence[float],
    new: Sequence[float],
    paired: bool,
    confidence: float = CONFIDENCE,
    events: float = float("inf"),
) -> tuple[float, float, bool]:
    """Give the interval of the difference of two means (Student's t, or Welch's), and whether what it is of varies.

    `events` are those that shares count (`events_in`): where a side varies, the interval is no narrower than their
    number allows (`counting_half`). Of runs that do not vary nothing is left to chance.

    Examples
    --------
    >>> low, high, _ = apart([0.4, 0.6, 0.6, 0.3], [1.6, 1.3, 1.4, 0.4], paired=True)
    >>> f"{low:.2f} {high:.2f}"
    '-0.02 1.42'
    """
    if min(len(base), len(new)) < ITERATIONS:
        return float("nan"), float("nan"), True
    middle = _middle(new) - _middle(base)
    least = counting_half(middle, events, confidence) if varies(base) or varies(new) else 0.0
    if paired:
        pairs = [ours - theirs for ours, theirs in zip(new, base, strict=True)]
        low, high = stats.mean(pairs, confidence=confidence)[1]
        return min(low, middle - least), max(high, middle + least), least > 0 or len(set(pairs)) > 1
    spreads = [variance(values) / len(values) for values in (base, new)]
    if not any(spreads):
        return float("nan"), float("nan"), False
    from scipy.stats import t

    freedom = sum(spreads) ** 2 / sum(
        spread**2 / (len(values) - 1) for spread, values in zip(spreads, (base, new), strict=True)
    )
    half = max(float(t.ppf((1 + confidence) / 2, freedom)) * sqrt(sum(spreads)), least)
    return middle - half, middle + half, True


def _middle(values: Sequence[float]) -> float:
    return stats.mean(values)[0]


def _holm(cells: Sequence[Cell]) -> None:
    nan = float("nan")
    for cell, p in zip(cells, stats.holm([nan if cell.p is None else cell.p for cell in cells]), strict=True):
        cell.p_holm = p


def is_same(ratio: float, low: float | None, high: float | None, overview_rule: bool) -> bool:
    """Whether a ratio has a tilde."""
    if overview_rule:
        return abs(ratio - 1) <= OVERVIEW_SAME
    if low is None or high is None or isnan(high - low):
        return f"{ratio:.2f}" == "1.00"
    return low <= 1 <= high


def digits_of(rows: Sequence[Row]) -> int:
    """Decimal places that show the smallest mean of rows."""
    return decimals((cell.value for row in rows for cell in row.cells if cell and cell.value), 2)
