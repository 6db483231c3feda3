"""One line a benchmark and metric: overall ratios, performance per watt, watts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from math import exp, fsum, isfinite, isnan, log, nan, sqrt
from statistics import fmean

from opplab.certainty import CONFIDENCE, EQUAL, ITERATIONS, SAME_CHANGE, UNVARIED, certainty
from opplab.comparison.method import (
    Sample,
    apart,
    change_of,
    compare_cells,
    digits_of,
    is_same,
    missing,
    same_rule,
    sample_of,
    units_of,
    varies,
)
from opplab.comparison.tables import Cell, Row, Table
from opplab.errors import InputError
from opplab.runs import IN_JOULES, IN_WATTS, SHARES, Run, Series, Watts

_ONE_MEAN = "power is known as one mean of each run"


def overall(runs: Sequence[Run], confidence: float = CONFIDENCE) -> list[tuple[float, float, float]]:
    """Each run's geometric mean over the operations of its means' ratios to the baseline, with an interval.

    The interval is put together from those of the operations on the logarithm (`_joined`). It reaches at least as far
    as that of what iterations, samples or pairs are of all operations (`_together`), as those of one vary together.

    Returns
    -------
    list of (ratio, low, high)
        Over the operations that can be compared; NaN where none can, or an interval cannot be given.
    """
    found = []
    base = runs[0]
    nothing = (nan,) * 3
    for run in runs:
        logs, below, above, compared = [], [], [], []
        for label, series in base.series.items():
            other = run.series.get(label)
            if run is base:
                logs += [0.0] if any(map(isfinite, series.values())) else []
                continue
            if other is None or (sample := sample_of(series, other)).impossible:
                continue
            one = sample.compare(confidence)
            if not isfinite(one["ratio"]) or one["ratio"] <= 0:
                continue
            logs.append(log(one["ratio"]))
            below.append(log(one["ratio"] / one["low"]))
            above.append(log(one["high"] / one["ratio"]))
            compared.append((series, other, sample))
        if not logs:
            found.append(nothing)
            continue
        middle, low, high = _joined(logs, below, above)
        if len(compared) > 1 and (run.together or isfinite(high - low)):
            base_units, new_units, paired = _together(compared, _part_of_mean)
            # Around 1 ratios are what differences are, but for the logarithm.
            sides = [1 + one for one in base_units], [1 + one for one in new_units]
            ends = Sample(*sides, False, False, False, "keys" if paired else "").compare(confidence)
            far, near = (middle + log(ends[name]) for name in ("low", "high"))
            # What all operations share, iterations of some show for those that have one alone.
            low, high = (far, near) if isnan(high - low) else (min(low, far), max(high, near))
        found.append((exp(middle), exp(low), exp(high)))
    return found


def _together(
    compared: Sequence[tuple[Series, Series, Sample]], part: Callable[[Series, list[float]], list[float]]
) -> tuple[list[float], list[float], bool]:
    """Give what iterations, samples or pairs add to the mean over operations, and whether they are pairs.

    Each counts by the mean over the operations of its values' parts in their means (`part`), so that what operations
    share is not averaged away. An operation with fewer values than the others has more weight for each.
    """
    paired = all(sample.paired for *_, sample in compared)
    sides: list[list[dict[Hashable, float]]] = [[], []]
    for series, other, sample in compared:
        for side, own in zip(sides, units_of(series, other, bool(sample.paired)), strict=True):
            side.append(dict(zip(own, part(series, list(own.values())), strict=True)))
    found = []
    for side in sides:
        if all(list(own) == list(side[0]) for own in side):
            found.append([fsum(of) / len(side) for of in zip(*map(dict.values, side), strict=True)])
            continue
        units = dict.fromkeys(unit for own in side for unit in own)
        weights = [len(units) / len(own) / len(side) for own in side]
        weighted = list(zip(side, weights, strict=True))
        found.append([fsum(own.get(unit, 0.0) * weight for own, weight in weighted) for unit in units])
    return found[0], found[1], paired


def _part_of_mean(series: Series, values: list[float]) -> list[float]:
    """Give how far values are from their mean, in shares of it; of rates, the times that they stand for."""
    if not varies(values):
        return [0.0] * len(values)
    sign = -1 if series.is_rate else 1
    values = [1 / value for value in values] if series.is_rate else values
    mean = fmean(values)
    return [sign * (value / mean - 1) for value in values]


def _from_mean(_: Series, values: list[float]) -> list[float]:
    """Give how far values are from their mean."""
    mean = fmean(values)
    return [value - mean for value in values]


def _joined(values: Sequence[float], below: Sequence[float], above: Sequence[float]) -> tuple[float, float, float]:
    """Give the mean of some values with an interval, put together from how far theirs reach below and above them.

    Method of variance estimates recovery, G. Zou and A. Donner, Statistics in Medicine 27 (2008): of one value it is
    that value's.

    Examples
    --------
    >>> _joined([1.0, 3.0], [3.0, 4.0], [0.0, 1.0])
    (2.0, -0.5, 2.5)
    """
    middle = fmean(values)
    low, high = (sqrt(sum(end * end for end in ends)) / len(values) for ends in (below, above))
    return middle, middle - low, middle + high


def performance_per_watt(ratio: float, higher: bool, base_w: float | None, own_w: float | None) -> float | None:
    """Give performance per watt relative to the baseline; None where a power is not known.

    Parameters
    ----------
    ratio : float
        Of the benchmark's main metric to the baseline.
    higher : bool
        Whether more of it is better.

    Examples
    --------
    >>> performance_per_watt(0.5, higher=False, base_w=10, own_w=20)
    1.0
    """
    if not base_w or not own_w or not ratio or not isfinite(ratio):
        return None
    return (ratio if higher else 1 / ratio) * base_w / own_w


def gains(
    runs: Sequence[Run], per_watt: Sequence[Run], watts: Sequence[Watts | None], confidence: float = CONFIDENCE
) -> list[tuple[float, float, float]]:
    """Performance per watt of each run relative to the baseline, with its interval.

    Of the power of each case or iteration, so that a run's power and performance stay together.  Where power is known
    as one mean of a run, the quotient of the means, without an interval.  Means over unlike parameters have none: of a
    run, or of an iteration whose parameters share a power.

    Parameters
    ----------
    runs, per_watt : sequence of Run
        Of one metric: its values, and these by their power (`opplab.comparison.sources.Source.per_watt`).
    watts : sequence of Watts or None
        Mean power of each run.

    Returns
    -------
    list of (ratio, low, high)
        As of `overall`.
    """
    higher = next(one.higher for run in runs for one in run.series.values())
    quotients = overall(per_watt, confidence)
    if not higher:
        quotients = [(1 / ratio, 1 / high, 1 / low) for ratio, low, high in quotients]
    found = []
    base_w = watts[0]
    means = overall(runs, confidence)
    for (ratio, _, _), known, run, own, by in zip(means, quotients, runs, watts, per_watt, strict=True):
        mean = None
        unlike = base_w is None or own is None or _unlike_cases(runs[0], run, base_w, own, of_work=not by.together)
        if base_w is not None and own is not None and not unlike:
            mean = performance_per_watt(ratio, higher, base_w.mean, own.mean)
        is_whole = isfinite(known[0]) and not (by.together and unlike)
        found.append(known if is_whole else (nan if mean is None else mean, nan, nan))
    return found


def is_performance(unit: str) -> bool:
    """Whether a metric in that unit may be performance: energy and power are none."""
    return unit.partition("/")[0] not in {**IN_JOULES, **IN_WATTS}


def by_metric(runs: Sequence[Run]) -> Iterable[tuple[str, list[Run]]]:
    """Split runs of a benchmark by metric: ratios of two metrics are not averaged."""
    for metric in dict.fromkeys(one.metric for run in runs for one in run.series.values()):
        parts = []
        for run in runs:
            part = Run(run.name, run.benchmark)
            part.together = run.together
            part.series = {label: one for label, one in run.series.items() if one.metric == metric}
            parts.append(part)
        yield metric, parts


def overview(
    benchmarks: Sequence[tuple[str, Sequence[Run], Sequence[Watts | None], Sequence[Run]]],
    *,
    kind: str = "overview",
    confidence: float = CONFIDENCE,
    overview_rule: bool = False,
) -> Table:
    """Give ratios to the baseline, performance per watt, or watts.

    Parameters
    ----------
    benchmarks : sequence of (name, runs, watts, per_watt)
        The runs of a benchmark, the baseline first; the average power of each, None where it is not known; and the
        runs' values by the power of their cases (`opplab.comparison.sources.Source.per_watt`).
    kind : str
        ``overview`` (both kinds of ratios where power is known), ``ppw`` or ``power``.
    """
    names = [run.name for run in benchmarks[0][1]] if benchmarks else []
    made = _Rows(confidence, overview_rule)
    for name, runs, known, quotients in benchmarks:
        per_watt = dict(by_metric(quotients))
        if any(one is not None for one in known):
            made.add_power(name, runs, known)
        for metric, parts in by_metric(runs):
            series = next(one for run in parts for one in run.series.values())
            made.add_performance(name, metric, parts, series)
            if series.directed and is_performance(series.unit) and any(known):
                made.add_per_watt(
                    name, metric, parts, per_watt.get(metric, [Run(run.name, name) for run in parts]), known
                )
    if kind in ("power", "ppw") and not made.power:
        raise InputError("no power was recorded: no turbostat monitor with PkgWatt, and no metric in W, mW, uW or kW")
    if kind == "ppw" and not made.per_watt:
        given = ", ".join(dict.fromkeys(row.metric for row in made.performance))
        needs = "it takes a rate or a time, and the baseline's power (see --metric)"
        raise InputError(f"no performance per watt of {given}: {needs}; energy_per_work of runs is of equal work, too")
    sources = dict.fromkeys(one.what for _, _, known, _ in benchmarks for one in known if one is not None)
    if kind == "power":
        table = Table(
            "power", names, made.power, "Average power consumption (watts)", "power", unit="W", better="lower"
        )
        table.digits = digits_of(made.power)
        table.notes = made.unlike
        sampled = any(one.is_sampled for _, _, known, _ in benchmarks for one in known if one is not None)
        over = "over the samples of the monitor" if sampled else "of a benchmark, each parameter once"
        table.method = f"default; mean of the metric {' or '.join(sources)} {over}"
        return table
    rows = made.per_watt if kind == "ppw" else made.performance + made.per_watt
    notes = [f"performance per watt of {', '.join(of)} has no interval: {why}" for why, of in made.no_interval.items()]
    table = Table("overview", names, rows, "", "overview", notes=[*made.notes, *notes])
    baseline = names[0] if names else "?"
    table.method = (
        f"default; geometric means over the parameter of ratios to {baseline}, by metric; {same_rule(overview_rule)}"
    )
    if made.per_watt:
        table.method += f"; performance per watt is of each case or iteration, by its {' or '.join(sources)}"
        if any(run.together for _, _, _, quotients in benchmarks for run in quotients):
            table.method += ", which all parameters of an iteration share: its interval is of iterations"
    return table


class _Rows:
    """Rows of an overview by what they are of, and the notes about them; runs have the baseline first."""

    def __init__(self, confidence: float, overview_rule: bool) -> None:
        self.confidence, self.overview_rule = confidence, overview_rule
        self.performance: list[Row] = []
        self.per_watt: list[Row] = []
        self.power: list[Row] = []
        self.notes: list[str] = []
        # Why powers have no change.
        self.unlike: list[str] = []
        # Why ratios have no interval, and of which benchmarks.
        self.no_interval: dict[str, dict[str, None]] = {}

    def _cells(self, found: Sequence[tuple[float, float, float]], higher: bool) -> list[Cell | None]:
        return [_cell(column, one, higher, self.overview_rule) for column, one in enumerate(found)]

    def add_power(self, name: str, runs: Sequence[Run], known: Sequence[Watts | None]) -> None:
        """Add a benchmark's watts, and their change where both are of the same parameters."""
        base_w = known[0]
        cells = [None if one is None else Cell(one.mean) for one in known]
        for cell, run, own_w in zip(cells[1:], runs[1:], known[1:], strict=True):
            if cell is None or own_w is None or base_w is None:
                continue
            cell.cannot = unlike_power(runs[0], run, base_w, own_w)
            if cell.cannot:
                self.unlike.append(f"power of {name} of {run.name} has no change: {cell.cannot}")
                continue
            cell.change, _ = change_of(base_w.mean, own_w.mean, higher=False, unit="W")
            both = ((one, own_w.cases.get(label)) for label, one in base_w.cases.items())
            cell.cannot = next(filter(None, (missing(one, own) for one, own in both if own is not None)), "")
            self.unlike += [f"power of {name} of {run.name}: {cell.cannot}"] if cell.cannot else []
        self.power.append(Row("", name, cells, "W", "lower", metric="power"))

    def add_performance(self, name: str, metric: str, runs: Sequence[Run], series: Series) -> None:
        """Add the ratios of a metric, or the change of a share; `series` is one of its operations."""
        if series.unit in SHARES:
            shown = _shares(runs, self.confidence)
        else:
            shown = self._cells(overall(runs, self.confidence), series.higher or not series.directed)
        for column, run in enumerate(runs[1:], 1):
            if not run.series:
                continue
            cell = shown[column] = shown[column] or Cell(text="?")
            cell.cannot, cell.impossible = _left_out(runs[0], run)
            _few(cell, runs[0], run)
            why = cell.impossible or cell.cannot or _open(cell, runs[0], run)
            self.notes += [f"{name} {metric} of {run.name}: {why}"] if why else []
        self.performance.append(
            Row("", name, shown, series.unit, series.better, group="PERFORMANCE RATIOS", metric=metric)
        )

    def add_per_watt(
        self, name: str, metric: str, runs: Sequence[Run], by_power: Sequence[Run], known: Sequence[Watts | None]
    ) -> None:
        """Add the ratios of a metric by power, where some are known; `by_power` are its values by their power."""
        base_w = known[0]
        found = gains(runs, by_power, known, self.confidence)
        shown = self._cells(found, True)
        gone = len(runs[0].series) - len(by_power[0].series)
        for column, (run, gain) in enumerate(zip(by_power[1:], found[1:], strict=True), 1):
            cell, own_w, whole = shown[column], known[column], runs[column]
            why = ""
            if cell is None and base_w is not None and own_w is not None and whole.series:
                cell = shown[column] = Cell(text="?")
                cell.cannot = _unlike_cases(runs[0], whole, base_w, own_w, of_work=not run.together)
                cell.cannot = why = cell.cannot or _left_out(runs[0], whole)[0]
            elif cell is not None and isnan(gain[1]) and not run.series:
                cell.certain = _ONE_MEAN
                self.no_interval.setdefault(_ONE_MEAN, {})[name] = None
            elif cell is not None:
                cell.cannot, cell.impossible = _left_out(by_power[0], run)
                _few(cell, by_power[0], run)
                if gone:
                    cell.cannot = f"the power of {gone} of {len(runs[0].series)} operations is not known by case"
                sides = (("the baseline", by_power[0]), (run.name, run))
                few = [who for who, side in sides if all(one.count() == 1 for one in side.series.values())]
                if run.together and few:
                    cell.certain = f"{few[0]} has power of 1 iteration, 2 are needed"
                    self.no_interval.setdefault(cell.certain, {})[name] = None
                why = cell.impossible or cell.cannot or _open(cell, by_power[0], run)
            self.notes += [f"performance per watt of {name} {metric} of {run.name}: {why}"] if why else []
        if any(cell is not None for cell in shown):
            group = "PERFORMANCE-PER-WATT RATIOS"
            self.per_watt.append(Row("", name, shown, "", "higher", group=group, metric=metric))


def _left_out(base: Run, run: Run) -> tuple[str, str]:
    """Describe what of the baseline's operations an overall ratio is not of, and which are no measurement."""
    gone, missing = 0, ""
    for label, series in base.series.items():
        other = run.series.get(label)
        sample = None if other is None else sample_of(series, other)
        if sample is not None and sample.impossible:
            return "", f"{label}: {sample.impossible}"
        if sample is not None and sample.cannot:
            missing = missing or f"{label}: {sample.cannot}"
        ratio = nan if sample is None else sample.compare(CONFIDENCE)["ratio"]
        gone += not (isfinite(ratio) and ratio > 0) and series.unit not in SHARES
    return missing or (f"{gone} of {len(base.series)} operations cannot be compared" if gone else ""), ""


def _open(cell: Cell, base: Run, run: Run) -> str:
    """Write into a cell why no interval holds its ratio; gives it, empty if one does."""
    shared = [(one, run.series[label]) for label, one in base.series.items() if label in run.series]
    why = next((sample.unmetered for pair in shared if (sample := sample_of(*pair)).unmetered), "")
    if why:
        cell.certain, cell.significant, cell.same = why, False, False
    return why


def _few(cell: Cell, base: Run, run: Run) -> None:
    """Write into a cell without an interval how many values an operation lacks for one."""
    samples = [sample_of(one, run.series[label]) for label, one in base.series.items() if label in run.series]
    fewest = min((min(len(one.base), len(one.new)) for one in samples if one.base and one.new), default=ITERATIONS)
    if cell.ratio is not None and cell.ratio_low is None and fewest < ITERATIONS:
        cell.certain = certainty(None, None, n=fewest).words


def unlike_power(base: Run, run: Run, base_w: Watts, own_w: Watts) -> str:
    """Describe which parameters one of two powers lacks; empty if they are of the same."""
    return _unlike_cases(base, run, base_w, own_w, of_work=False)


def _unlike_cases(base: Run, run: Run, base_w: Watts, own_w: Watts, of_work: bool = True) -> str:
    """Describe which parameters one of two runs, or its power, lacks: means over all of them are of unlike work.

    Power alone, not `of_work`, is compared over its own parameters.
    """
    powers = [dict.fromkeys(of.params) for of in (own_w, base_w)]
    wholes = [dict.fromkeys(one.param for one in of.series.values()) for of in (run, base)]
    if not of_work and all(powers):
        wholes = powers
    all_ = dict.fromkeys(param for params in (*wholes[::-1], *powers[::-1]) for param in params)
    parts = []
    for of, has, measured in zip((run, base), wholes, powers, strict=True):
        gone = [param for param in all_ if param not in has]
        # Power without parameters is of the whole run.
        unknown = [param for param in all_ if param in has and param not in measured] if measured else []
        if gone:
            parts.append(f"{of.name} lacks the parameter{'s' * (len(gone) > 1)} {', '.join(gone)}")
        if unknown:
            parts.append(f"{of.name} lacks the power of {', '.join(unknown)}")
    return "; ".join(parts)


def _shares(runs: Sequence[Run], confidence: float) -> list[Cell | None]:
    """Give the mean share of each run over the operations of the baseline, and its change in percentage points.

    The interval is put together from those of the operations (`_joined`).
    """
    base = runs[0]
    means = [mean for one in base.series.values() if (mean := _mean(one)) is not None]
    found: list[Cell | None] = [Cell(fmean(means), text=f"{fmean(means):.2f}%") if means else None]
    for run in runs[1:]:
        pairs = [(one, other) for label, one in base.series.items() if (other := run.series.get(label)) is not None]
        cells: list[tuple[Cell, Sample]] = []
        compared: list[tuple[Series, Series, Sample]] = []
        for one, other in pairs:
            cell, sample = Cell(_mean(other)), sample_of(one, other)
            compare_cells(cell, Cell(_mean(one)), sample, confidence)
            if cell.change is not None:
                cells.append((cell, sample))
                compared.append((one, other, sample))
        if not cells:
            found.append(None)
            continue
        changes = [cell.change for cell, _ in cells if cell.change is not None]
        below, above = (
            [nan if end is None else end - change for end, change in zip(ends, changes, strict=True)]
            for ends in ([cell.points_low for cell, _ in cells], [cell.points_high for cell, _ in cells])
        )
        middle, low, high = _joined(changes, below, above)
        if len(cells) > 1 and isfinite(high - low):
            base_units, new_units, paired = _together(compared, _from_mean)
            far, near, _ = apart(base_units, new_units, paired, confidence)
            low, high = min(low, middle + far), max(high, middle + near)
        judged = certainty(
            low,
            high,
            n=min(min(len(sample.base), len(sample.new)) for _, sample in cells),
            varies=not all(cell.same or cell.certain in (UNVARIED, SAME_CHANGE) for cell, _ in cells),
            unit="points",
            value=middle,
        )
        whole = Cell(fmean([cell.value for cell, _ in cells if cell.value is not None]), change=middle, in_points=True)
        whole.points_low, whole.points_high = judged.low, judged.high
        whole.certain, whole.significant = judged.words, judged.is_clear
        whole.same = all(cell.same for cell, _ in cells)
        whole.text = f"{middle:+.2f} pp"
        found.append(whole)
    return found


def _mean(series: Series) -> float | None:
    values = [value for value in series.values() if isfinite(value)]
    return fmean(values) if values else None


def _cell(column: int, found: tuple[float, float, float], higher: bool, overview_rule: bool) -> Cell | None:
    ratio, low, high = found
    if not isfinite(ratio):
        return None
    if not column:
        return Cell(ratio, ratio=ratio)
    cell = Cell(ratio, ratio=ratio, change=100 * (ratio - 1 if higher else 1 - ratio))
    # Runs without variation have no interval, and not one of no width.
    judged = certainty(
        low, high, n=2, varies=low != high and not max(abs(ratio - 1), high - low) <= EQUAL, null=1.0, value=ratio
    )
    cell.ratio_low, cell.ratio_high, cell.certain, cell.significant = (
        judged.low,
        judged.high,
        judged.words,
        judged.is_clear,
    )
    cell.same = is_same(ratio, low, high, overview_rule)
    return cell
