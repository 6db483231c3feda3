"""The HTML report of a comparison (`opplab compare SOURCE... --html FILE`): one self-contained file for any source.

For each machine and benchmark: values by parameter with their intervals, changes against the baseline as intervals
around zero; where power is known, power against performance; of simulations, energy by rail and what the CPUs did.
Then every cell with its test, and how the numbers came about.  Numbers are `comparison.compare`'s, charts are
`report.svg`'s; this module only puts them together.  The page holds no time and no host, so equal results have equal
pages.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from os import PathLike
from pathlib import Path

import polars as pl

from opplab import _opplab
from opplab.certainty import change_text
from opplab.comparison.method import compare_runs
from opplab.comparison.overview import by_metric, gains, is_performance, overall, unlike_power
from opplab.comparison.sources import Frame, Source, by_machine
from opplab.comparison.tables import Table, change_ends
from opplab.errors import InputError
from opplab.files import write_text
from opplab.metrics import is_answer
from opplab.mmtests.statistics import amean
from opplab.report import svg
from opplab.report.html import panel, render
from opplab.report.numbers import quantity
from opplab.runs import Problem, Run
from opplab.summary.page import Means, places_on_axis, residency_panels

# Pictures are for looking at: operations beyond these are in the table.
_MOST_ROWS = 40


@dataclass
class Benchmark:
    """What is shown of one benchmark."""

    name: str
    runs: list[Run]
    table: Table
    watts: list[float | None]
    machine: str = ""
    # The runs with the benchmark's main metric only: what its overall ratio and performance per watt are of.
    main: list[Run] = field(default_factory=list)
    # Performance per watt of each run relative to the baseline: ratio, low, high.
    gains: list[tuple[float, float, float]] = field(default_factory=list)
    rails: list[tuple[str, list[tuple[str, float]]]] = field(default_factory=list)
    # Which parameters the power of each run, or the baseline's, lacks; empty where they are of the same.
    apart: list[str] = field(default_factory=list)


@dataclass
class ComparisonReport:
    """A comparison that prints as a page, and shows as one in a notebook."""

    names: list[str]
    """The runs; the first is the baseline."""
    benchmarks: list[Benchmark]
    sources: list[str]
    problems: list[Problem]
    """What could not be read."""
    residency: list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]
    """Panels that `opplab.summary.page` draws of simulated residencies."""
    confidence: float

    def classes(self) -> dict[str, str]:
        """Give each run its colour."""
        return {name: svg.colour(number) for number, name in enumerate(self.names)}

    def to_html(self) -> str:
        """Give the page."""
        classes = self.classes()
        others = ", ".join(self.names[1:]) or "nothing else"
        names = [one.name for one in self.benchmarks]
        several = len(names) > 1
        return render(
            "compare.html",
            title=" and ".join(names) if len(names) < 3 else f"{len(names)} benchmarks",
            subtitle=f"{others} against {self.names[0]}",
            facts=[
                ("baseline", self.names[0]),
                ("compared", others),
                ("benchmarks", ", ".join(names)),
                ("source", ", ".join(self.sources)),
                ("opplab", _opplab.__version__),
            ],
            version=_opplab.__version__,
            percent=f"{100 * self.confidence:g} %",
            findings=[line for one in self.benchmarks for line in _findings(one, several, self.confidence)],
            variants=list(classes.items()),
            baseline=self.names[0],
            sections=[
                {
                    "name": one.name,
                    "panels": [
                        panel(*made)
                        for panels in (_value_panels, _changes, _power, _rails)
                        for made in panels(one, classes)
                    ],
                }
                for one in self.benchmarks
            ],
            residency=[{"legend": keys, "panels": [panel(*one) for one in made]} for keys, made in self.residency],
            columns=_COLUMNS,
            rows=[row for one in self.benchmarks for row in _rows(one, self.names)],
            methods=_methods(self.benchmarks),
            notes=[f"{one.name}: {note}" if several else note for one in self.benchmarks for note in one.table.notes],
            problems=list(dict.fromkeys(map(str, self.problems))),
        )

    def write(self, path: str | PathLike[str]) -> None:
        """Write the page, whole or not at all."""
        write_text(Path(path), self.to_html())

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.to_html())}" style="width:100%;height:80vh;border:0"></iframe>'


def report(
    source: str | PathLike[str] | Sequence[str | PathLike[str]] | pl.DataFrame | Source,
    *,
    runs: Sequence[str] = (),
    baseline: str | None = None,
    benchmarks: Sequence[str] = (),
    metric: str = "",
    view: str = "",
    confidence: float = 0.95,
) -> ComparisonReport:
    """Compare runs and make a report of it.

    Parameters
    ----------
    source, runs, baseline, benchmarks, metric, confidence
        As for `opplab.compare`.
    view : str
        Its `report`: a second view of the same logs.

    Examples
    --------
    >>> import opplab
    >>> results = opplab.Experiment.load("juno-eas", iterations=3, seconds=0.05).run()
    >>> page = report(results, runs=["no-EAS", "EAS"], metric="energy")
    >>> page.names, [one.name for one in page.benchmarks]
    (['no-EAS', 'EAS'], ['juno-energy-homogeneous', 'juno-energy-heterogeneous'])
    >>> page.to_html().count("<svg")
    14
    """
    from opplab.comparison.compare import NothingThere, load_runs, of_values, order_runs

    places = by_machine(source)
    known = list(dict.fromkeys(name for _, place in places for name in place.runs()))
    names = order_runs(list(runs) or known, (None if runs else places[0][1].baseline) if baseline is None else baseline)
    made = []
    lacking: list[NothingThere] = []
    problems: list[Problem] = []
    residency = []
    for machine, place in places:
        if not set(names) & set(place.runs()):
            continue
        try:
            _, loaded, own = load_runs(place, names, None, benchmarks, metric, view)
        except NothingThere as error:
            lacking.append(error)
            problems.append(Problem(machine, str(error)))
            continue
        problems += own
        for name, found, wanted in loaded:
            shown = []
            for run in found:
                kept = Run(run.name, run.benchmark)
                kept.series = {
                    label: series for label, series in run.series.items() if metric or is_answer(series.metric)
                }
                shown.append(kept if kept.series else run)
            table = compare_runs(shown, confidence=confidence)
            table.machine = machine
            table.notes += [*place.assumed, *of_values(table, place, names, [])]
            chosen = metric or wanted or place.default_metric(name, view)
            there = [run for run in names if run in place.runs()]
            main = [place.load(run, name, chosen, view) if run in there else Run(run, name) for run in names]
            watts = [place.watts(run, name) for run in names]
            main = main if main[0].series else shown
            # Ratios of several metrics have no mean: the first is the main one.
            _, main = next(iter(by_metric(main)), ("", main))
            rails = _rails_of(place, name, there)
            where = f"{name} on {machine}" if len(places) > 1 else name
            known_w = [None if one is None else one.mean for one in watts]
            apart = [
                unlike_power(main[0], run, watts[0], one) if watts[0] is not None and one is not None else ""
                for run, one in zip(main, watts, strict=True)
            ]
            gained = gains(main, [place.per_watt(run) for run in main], watts, confidence)
            made.append(Benchmark(where, shown, table, known_w, machine, main, gained, rails, apart))
        residency += _residency(place, names, [name for name, _, _ in loaded], machine if len(places) > 1 else "")
    if lacking and not made:
        raise lacking[0]
    given = [source] if isinstance(source, str) or not isinstance(source, Sequence) else source
    sources = [Path(one).name or str(one) if isinstance(one, str | PathLike) else "in memory" for one in given]
    return ComparisonReport(names, made, sources, problems, residency, confidence)


def _value_panels(one: Benchmark, classes: dict[str, str]) -> list[tuple[str, str]]:
    """One panel a metric: means by parameter with their intervals."""
    by_metric: dict[str, list[int]] = {}
    labels = [row.operation for row in one.table.rows]
    known = {label: series for run in one.runs[::-1] for label, series in run.series.items()}
    for at, label in enumerate(labels):
        by_metric.setdefault(known[label].metric, []).append(at)
    panels = []
    for metric, rows in by_metric.items():
        operations = [known[labels[at]] for at in rows]
        xs, names, label = places_on_axis([one.param for one in operations])
        label = label or "parameter"
        if len(rows) == 1 and len(one.runs) > 1:
            # The picture of changes shows it all.
            continue
        if names is not None and (len(rows) > 12 or max(map(len, names)) * len(names) > 60):
            continue
        drawn = []
        for column, run in enumerate(one.runs):
            series = svg.Series(run.name, classes[run.name], band=len(rows) > 1)
            for x, at in sorted(zip(xs, rows, strict=True)):
                cell = one.table.rows[at].cells[column]
                if cell is not None and cell.value is not None and math.isfinite(cell.value):
                    series.points.append((x, cell.value, cell.half))
            if series.points:
                drawn.append(series)
        if not drawn:
            continue
        unit = operations[0].unit
        sense = f", {side} is better" if (side := operations[0].better) else ""
        y_label = f"{metric} ({unit})" if unit else metric
        title = f"{one.name}: {metric or 'value'} by {label}{sense}"
        panels.append((title, svg.lines(title, drawn, label, y_label, names=names)))
    return panels


def _changes(one: Benchmark, classes: dict[str, str]) -> list[tuple[str, str]]:
    """Changes of all operations with their intervals; pale where they are not clear."""
    pictures: dict[tuple[bool, bool], list[tuple[str, list[svg.Change]]]] = {}
    for row in one.table.rows:
        own: dict[bool, list[svg.Change]] = {}
        for run, cell in zip(one.runs[1:], row.cells[1:], strict=True):
            if cell is None or cell.change is None:
                continue
            low, high = change_ends(cell) or (None, None)
            found = svg.Change(
                run.name,
                classes[run.name],
                cell.change,
                low,
                high,
                bool(cell.significant),
                unit="pp" if cell.in_points else "%",
            )
            own.setdefault(cell.in_points, []).append(found)
        for in_points, changes in own.items():
            pictures.setdefault((not row.better, in_points), []).append((row.operation, changes))
    panels = []
    for (is_plain, in_points), rows in sorted(pictures.items()):
        unit, what = ("percentage points", "change in points") if in_points else ("%", "change")
        left_out = f"; the first {_MOST_ROWS} of {len(rows)}" if len(rows) > _MOST_ROWS else ""
        neither = ", neither more nor less is better" if is_plain else ""
        title = f"{one.name}: {what} against {one.runs[0].name}{neither}{left_out}"
        label = f"{'more' if is_plain else 'better'} by, {unit} (pale: not clear)"
        panels.append((title, svg.changes(title, rows[:_MOST_ROWS], label)))
    return panels


def _power(one: Benchmark, classes: dict[str, str]) -> list[tuple[str, str]]:
    """Power against performance, both relative to the baseline, with lines of equal performance per watt."""
    known = list(one.main[0].series.values())
    if not all(is_performance(series.unit) for series in known):
        return []
    if not one.watts[0] or sum(bool(value) for value in one.watts) < 2:
        return []
    points = []
    ratios = overall(one.main)
    for run, watts, (ratio, _, _), (gain, low, high) in zip(one.main, one.watts, ratios, one.gains, strict=True):
        if not watts or not math.isfinite(gain):
            continue
        speed = ratio if known[0].higher else 1 / ratio
        words = f"{run.name}: {watts:.2f} W, performance {speed:.3f}, performance per watt {gain:.3f}"
        words += f" [{low:.3f}, {high:.3f}]" if low < high and math.isfinite(high) else ""
        # The power while the same work is done: its point is on the line of its performance per watt.
        points.append((svg.Series(run.name, classes[run.name], [(speed / gain, speed, None)]), words))
    title = f"{one.name}: performance against power, relative to {one.runs[0].name}"
    return [(title, svg.plane(title, points, "power", "performance"))]


def _rails(one: Benchmark, classes: dict[str, str]) -> list[tuple[str, str]]:
    if not one.rails:
        return []
    names = list(dict.fromkeys(rail for _, rails in one.rails for rail, _ in rails))
    most = max(math.fsum(value for _, value in rails) for _, rails in one.rails)
    if most <= 0:
        return []
    bars = []
    for run, rails in one.rails:
        parts = [
            (f"{rail}, {value:.3g}:", f"f{min(names.index(rail), 4)}", 100 * value / most) for rail, value in rails
        ]
        bars.append((run, [svg.Bar("", classes[run], parts)]))
    title = f"{one.name}: by rail ({', '.join(names)}), share of the largest sum"
    return [(title, svg.stacked(title, bars))]


def _rails_of(place: Source, benchmark: str, names: Sequence[str]) -> list[tuple[str, list[tuple[str, float]]]]:
    """Mean energy or power of each rail of each run: metrics ``energy:RAIL``, or turbostat's watts."""
    found = []
    for name in names:
        run = place.load(name, benchmark)
        values: dict[str, list[float]] = {}
        for series in run.series.values():
            if series.metric.startswith("energy:"):
                values.setdefault(series.metric.partition(":")[2], []).extend(series.values())
        if not values:
            try:
                monitor = place.monitor(name, "turbostat", benchmark, "").series
            except (InputError, OSError):
                continue
            for rail in ("CorWatt", "GFXWatt", "RAMWatt", "PkgWatt"):
                if rail in monitor and (samples := monitor[rail].values()):
                    values[rail] = samples
            if "CorWatt" in values and "PkgWatt" in values:
                # The cores are part of the package.
                rest = amean(values["PkgWatt"]) - sum(
                    amean(values[one]) for one in ("CorWatt", "GFXWatt") if one in values
                )
                values.pop("PkgWatt")
                values["rest of PkgWatt"] = [max(rest, 0.0)]
        if values:
            found.append((name, [(rail, amean(own)) for rail, own in values.items()]))
    return found


def _residency(
    place: Source, names: Sequence[str], benchmarks: Sequence[str], machine: str
) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Where the CPUs' time went, if the results have it (`opplab run` writes it)."""
    if not isinstance(place, Frame):
        return []
    own = place.table.filter(pl.col("run").is_in(list(names)) & pl.col("benchmark").is_in(list(benchmarks)))
    own = own.filter(pl.col("metric").str.contains("^(freq_residency|busy|idle_residency):.*@"))
    if own.is_empty():
        return []
    classes = {name: svg.colour(number) for number, name in enumerate(names)}
    found = residency_panels(Means(own.with_columns(pl.col("run").alias("policy"))), classes)
    return [
        (keys, [(f"{machine}, {title}" if machine else title, picture) for title, picture in made])
        for keys, made in found
    ]


_COLUMNS = (
    ("benchmark", "left"),
    ("operation", "left"),
    ("run", "left"),
    ("n", ""),
    ("baseline", ""),
    ("mean", ""),
    ("change", ""),
    ("ratio", ""),
    ("interval", ""),
    ("p", ""),
    ("p, Holm", ""),
    ("Hedges\u2019 g", ""),
    ("certain", ""),
)


def _cell(value: float | None, form: str, class_: str = "") -> dict[str, str]:
    if value is None or not math.isfinite(value):
        return {"text": "\u2013", "value": "", "class": class_}
    return {"text": format(value, form).replace("-", "\u2212"), "value": f"{value:.9g}", "class": class_}


def _rows(one: Benchmark, names: Sequence[str]) -> list[list[dict[str, str]]]:
    """Every cell with its test; runs that are compared with nothing stand alone."""
    out = []
    digits = f".{one.table.digits}f"
    for row in one.table.rows:
        base = row.cells[0]
        for name, cell in list(zip(names, row.cells, strict=True))[1 if len(names) > 1 else 0 :]:
            if cell is None:
                continue
            words = [one.name, row.operation, name]
            low, high = cell.ratio_low, cell.ratio_high
            known = low is not None and high is not None and math.isfinite(high - low)
            span = f"{low:.3f} to {high:.3f}" if known else "\u2013"
            good = "" if not (cell.significant and row.better) else "good" if (cell.change or 0) > 0 else "bad"
            change = _cell(cell.change, "+.2f", good)
            if cell.in_points and cell.points_low is not None:
                low, high, known = cell.points_low, cell.points_high, True
                span = f"{low:+.2f} to {high:+.2f} pp".replace("-", "\u2212")
            if cell.change is not None and math.isfinite(cell.change):
                shown = change_text(cell.change, unit="pp" if cell.in_points else "%", digits=2)
                change["text"] = shown.replace("-", "\u2212")
            out.append(
                [
                    *({"text": word, "value": word, "class": "left"} for word in words),
                    _cell(cell.n, "d"),
                    _cell(None if base is None else base.value, digits),
                    _cell(cell.value, digits),
                    change,
                    _cell(cell.ratio, ".3f"),
                    {"text": span, "value": f"{low:.9g}" if known else "", "class": ""},
                    _cell(cell.p, ".2g"),
                    _cell(cell.p_holm, ".2g"),
                    _cell(cell.hedges_g, "+.2f"),
                    {
                        "text": cell.certain or "\u2013",
                        "value": str(int(bool(cell.significant))),
                        "class": good,
                    },
                ]
            )
    return out


def _findings(one: Benchmark, several: bool, confidence: float) -> list[str]:
    """Describe in a sentence a run what the comparison comes to."""
    out = []
    judged = [row for row in one.table.rows if row.better]
    for column, (ratio, low, high) in enumerate(overall(one.main, confidence)):
        if column == 0:
            continue
        clear = [cell.change or 0 for row in judged if (cell := row.cells[column]) and cell.significant]
        better, worse = sum(change > 0 for change in clear), sum(change < 0 for change in clear)
        text = f"{one.name}: " if several else ""
        name = one.runs[column].name
        text += f"{name} is clearly better in {better} and worse in {worse} of {len(judged)} operations"
        if beside := len(one.table.rows) - len(judged):
            text += f" ({beside} more without a better side)"
        units = {series.unit for series in one.main[0].series.values()}
        metrics = list(dict.fromkeys(series.metric for series in one.main[0].series.values()))
        if math.isfinite(ratio) and len(units) == 1:
            (sense, *mixed) = {each.better for each in one.main[0].series.values()}
            what = f" in {metrics[0]}" if len(metrics) == 1 and metrics[0] else ""
            what += "" if mixed or not sense else f" ({sense} is better)"
            text += f"; the geometric mean of its ratios to {one.runs[0].name}{what} is {ratio:.3f}"
            # Runs of one iteration, or without variation, have no interval, and not one of no width.
            text += f" [{low:.3f}, {high:.3f}]" if low < high else ""
            whole = one.main[0].series
            both = len(whole.keys() & one.main[column].series.keys())
            text += f" over the {both} of {len(whole)} operations that both have" if both < len(whole) else ""
        ours, theirs = one.watts[0], one.watts[column]
        if ours and theirs:
            text += f"; average power {quantity(theirs)} W against {quantity(ours)} W"
            text += f", of unlike work ({one.apart[column]})" if one.apart[column] else ""
        out.append(text + ".")
    return out


def _methods(benchmarks: Sequence[Benchmark]) -> list[str]:
    """Give the tables' own words, each once, and what holds for all."""
    by_words: dict[str, list[str]] = {}
    for one in benchmarks:
        by_words.setdefault(one.table.method, []).append(one.name)
    out = [f"{', '.join(names)}: {words}." for words, names in by_words.items()]
    out.append(
        "A change is positive when it is an improvement, whichever side is the better one. Bands and whiskers are "
        "intervals of means; two bands may overlap and the difference still be significant, which the table decides."
    )
    if any(value for one in benchmarks for value in one.watts):
        out.append(
            "Power is of each case or iteration where it is known so, at equal work; else it is one mean of a run. "
            "A dashed line joins points of equal performance per watt; the number on it is relative to the baseline."
        )
    return out
