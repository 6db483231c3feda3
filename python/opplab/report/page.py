"""The HTML report of a sweep: one self-contained file.

What it shows is made here from result rows; how it looks is ``templates/report.html``; charts are `report.svg`.  The
report holds nothing that changes between equal sweeps (no time, no host), so equal sweeps have equal reports.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from opplab.report import svg
from opplab.report.html import panel, render
from opplab.sweep.confidence import Block, Estimate, Line, estimate, find_published, short_names

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Report", "Timeline"]


@dataclass
class Timeline:
    """A window of one run: what each CPU ran, and the clocks of the clusters."""

    policy: str
    start_ms: float
    end_ms: float
    rows: list[svg.Lane | svg.Clock]


@dataclass
class Report:
    """What a report is made of.

    Attributes
    ----------
    title, subtitle : str
    facts : list of (str, str)
        The header: machine, kernel, seed, version, ...
    results : polars.DataFrame
        Results table of one experiment.
    blocks : list of opplab.sweep.confidence.Block
        Comparisons to show.
    published : polars.DataFrame or None
    timelines : list of Timeline
    timeline_note : str
    methods : list of str
        Paragraphs.
    version, footer : str
    """

    title: str
    subtitle: str
    facts: list[tuple[str, str]]
    results: pl.DataFrame
    blocks: list[Block]
    published: pl.DataFrame | None = None
    timelines: list[Timeline] = field(default_factory=list)
    timeline_note: str = ""
    methods: list[str] = field(default_factory=list)
    version: str = ""
    footer: str = ""
    metric: str = "energy"

    def to_html(self) -> str:
        """Give the page."""
        classes = {name: f"v{number % 6}" for number, name in enumerate(_unique(self.results, "policy"))}
        means = _Means(self.results)
        unit = self.blocks[0].unit if self.blocks else "J"
        has_published = any(line.published_base is not None for block in self.blocks for line in block.lines)
        columns = _columns(self.blocks, has_published)
        return render(
            "report.html",
            title=self.title,
            subtitle=self.subtitle,
            facts=self.facts,
            version=self.version,
            footer=self.footer,
            methods=self.methods,
            findings=findings(self.blocks),
            iterations=means.iterations,
            variants=list(classes.items()),
            has_published=has_published,
            energy=[panel(*made) for made in _energy_panels(means, classes, self.published, self.metric, unit)],
            change=[panel(*made) for made in _change_panels(self.blocks, classes)],
            columns=[name for name, _ in columns],
            groups=[(group, len(list(run))) for group, run in groupby(columns, lambda one: one[1])],
            rows=_rows(self.blocks, has_published),
            unit=unit,
            residency=[
                {"legend": keys, "panels": [panel(*made) for made in panels]}
                for keys, panels in _residency(means, classes)
            ],
            timelines=[panel(one.policy, _timeline(one), classes.get(one.policy, "v0")) for one in self.timelines],
            timeline_note=self.timeline_note,
        )


def _unique(table: pl.DataFrame, column: str) -> list[str]:
    return table[column].unique(maintain_order=True).to_list()


class _Means:
    """Values by (metric, benchmark, param, policy), in the order of the experiment."""

    def __init__(self, results: pl.DataFrame) -> None:
        self.values: dict[tuple[str, str, str, str], list[float]] = {}
        columns = results.select("metric", "benchmark", "param", "policy", "value")
        for metric, benchmark, param, policy, value in columns.iter_rows():
            self.values.setdefault((metric, benchmark, param, policy), []).append(value)
        self.benchmarks = _unique(results, "benchmark")
        self.short = short_names(self.benchmarks)
        self.policies = _unique(results, "policy")
        self.metrics = _unique(results, "metric")
        self.params = {
            benchmark: list(dict.fromkeys(key[2] for key in self.values if key[1] == benchmark))
            for benchmark in self.benchmarks
        }
        self.iterations = results["iteration"].n_unique()

    def estimate(self, metric: str, benchmark: str, param: str, policy: str) -> Estimate | None:
        values = self.values.get((metric, benchmark, param, policy))
        return estimate(values) if values else None

    def mean(self, metric: str, benchmark: str, param: str, policy: str) -> float:
        values = self.values.get((metric, benchmark, param, policy))
        return math.fsum(values) / len(values) if values else 0.0


def _split(param: str) -> tuple[str, float | None]:
    """Split ``tasks=10`` into a name and a number."""
    name, _, value = param.partition("=")
    try:
        return name, float(value)
    except ValueError:
        return name, None


def findings(blocks: Sequence[Block]) -> list[str]:
    """Say in sentences what the comparison comes to, good or bad."""
    out = []
    short = short_names([block.benchmark for block in blocks])
    for block in blocks:
        first, last = block.lines[0], block.lines[-1]

        def words(line: Line) -> str:
            published = line.published_ratio
            return f"{line.ratio:+.1f} %" + ("" if published is None else f" (published {published:+.1f} %)")

        out.append(
            f"{short[block.benchmark]}: {block.variant} against {block.base} changes the energy by {words(first)} at "
            f"{first.param} {block.param_name} and by {words(last)} at {last.param}."
        )
    pairs = [(line, line.published_ratio) for block in blocks for line in block.lines]
    known = [(line, ratio) for line, ratio in pairs if ratio is not None]
    if known:
        errors = sorted(abs(line.ratio - ratio) for line, ratio in known)
        clear = [(line, ratio) for line, ratio in known if _exceeds_spread(line)]
        same = sum((line.ratio < 0) == (ratio < 0) for line, ratio in clear)
        out.append(
            f"Distance to the published changes over all {len(known)} cells: median {statistics.median(errors):.1f} "
            f"percentage points, largest {errors[-1]:.1f}; where the published change exceeds its own interval "
            f"({len(clear)} cells), its sign is met in {same}."
        )
        shares = [
            ours.mean / theirs.mean
            for line, _ in known
            for ours, theirs in ((line.base, line.published_base), (line.variant, line.published_variant))
            if theirs is not None
        ]
        out.append(
            f"Simulated energies are {min(shares):.2f} to {max(shares):.2f} times the published ones (median "
            f"{statistics.median(shares):.2f}); a constant factor could be the length of the run alone, the spread "
            "around it is error of the model and of the measurement."
        )
    missed = [value for line, _ in pairs for value in (line.base_missed, line.variant_missed) if value is not None]
    if missed:
        text = "none" if max(missed) == 0 else f"at most {max(missed):.2g} % in a cell"
        out.append(f"Missed activations: {text}.")
    return out


def _exceeds_spread(line: Line) -> bool:
    base, variant = line.published_base, line.published_variant
    if base is None or variant is None or base.half is None or variant.half is None:
        return False
    return abs(variant.mean - base.mean) > math.hypot(base.half, variant.half)


def _energy_panels(
    means: _Means, classes: Mapping[str, str], published: pl.DataFrame | None, metric: str, unit: str
) -> list[tuple[str, str]]:
    panels = []
    for benchmark in means.benchmarks:
        ours, theirs = [], []
        name = ""
        for policy in means.policies:
            one = svg.Series(policy, classes[policy])
            ring = svg.Series(policy, classes[policy], hollow=True)
            for param in means.params[benchmark]:
                name, x = _split(param)
                value = means.estimate(metric, benchmark, param, policy)
                if x is None or value is None:
                    continue
                one.points.append((x, value.mean, value.half))
                old = find_published(published, benchmark, policy, param, unit)
                if old is not None:
                    ring.points.append((x, old.mean, old.half))
            if one.points:
                ours.append(one)
            if ring.points:
                theirs.append(ring)
        if ours:
            title = f"{means.short[benchmark]}: energy ({unit}) against number of {name}"
            panels.append((title, svg.lines(title, [*theirs, *ours], f"number of {name}", f"energy ({unit})")))
    return panels


def _change_panels(blocks: Sequence[Block], classes: Mapping[str, str]) -> list[tuple[str, str]]:
    panels = []
    short = short_names([block.benchmark for block in blocks])
    for benchmark in short:
        series, rings = [], []
        chosen = [block for block in blocks if block.benchmark == benchmark]
        for block in chosen:
            ours = svg.Series(block.variant, classes[block.variant])
            theirs = svg.Series(block.variant, classes[block.variant], hollow=True)
            for line in block.lines:
                try:
                    x = float(line.param)
                except ValueError:
                    continue
                ours.points.append((x, line.ratio, line.ratio_half))
                if (ratio := line.published_ratio) is not None:
                    assert line.published_base is not None
                    assert line.published_variant is not None
                    theirs.points.append((x, ratio, _ratio_half(line.published_base, line.published_variant)))
            series.append(ours)
            if theirs.points:
                rings.append(theirs)
        if any(one.points for one in series):
            pairs = ", ".join(f"{block.variant} against {block.base}" for block in chosen)
            title = f"{short[benchmark]}: {pairs}"
            label = f"number of {chosen[0].param_name}"
            panels.append((title, svg.lines(title, [*rings, *series], label, "change of energy (%)")))
    return panels


def _ratio_half(base: Estimate, variant: Estimate) -> float | None:
    """Half-width of the interval of the ratio in percent, first order, means taken as independent."""
    if base.half is None or variant.half is None or base.mean == 0 or variant.mean == 0:
        return None
    return 100 * variant.mean / base.mean * math.hypot(base.half / base.mean, variant.half / variant.mean)


def _columns(blocks: Sequence[Block], has_published: bool) -> list[tuple[str, str]]:
    """Heading and group of each column of the table."""
    loads = {block.param_name for block in blocks}
    columns = [("set", ""), (loads.pop() if len(loads) == 1 else "load", ""), ("variant vs baseline", "")]
    columns += [("baseline", "energy, simulated"), ("variant", "energy, simulated")]
    columns += [("simulated", "change of energy, %")]
    if has_published:
        columns += [("published", "change of energy, %"), ("pp", "change of energy, %")]
        columns += [("baseline", "energy, published"), ("variant", "energy, published")]
    return [*columns, ("baseline", "missed, %"), ("variant", "missed, %")]


def _cell(value: float | None, form: str, half: float | None = None, class_: str = "") -> dict[str, Any]:
    if value is None or math.isnan(value):
        return {"text": "\u2013", "value": "", "class": class_}
    text = format(value, form).replace("-", "\u2212")
    if half is not None:
        text += f" \u00b1 {half:.2f}"
    return {"text": text, "value": f"{value:.6g}", "class": class_}


def _estimate_cell(value: Estimate | None, class_: str = "") -> dict[str, Any]:
    return _cell(value.mean, ".2f", value.half, class_) if value else _cell(None, "", None, class_)


def _rows(blocks: Sequence[Block], has_published: bool) -> list[list[dict[str, Any]]]:
    rows = []
    short = short_names([block.benchmark for block in blocks])
    for block in blocks:
        for line in block.lines:
            ratio = line.published_ratio
            row = [
                {"text": short[block.benchmark], "value": block.benchmark, "class": ""},
                {"text": line.param, "value": line.param, "class": ""},
                {"text": f"{block.variant} vs {block.base}", "value": block.variant, "class": "left"},
                _estimate_cell(line.base),
                _estimate_cell(line.variant),
                _cell(line.ratio, "+.2f", line.ratio_half),
            ]
            if has_published:
                row += [
                    _cell(ratio, "+.2f", None, "pub"),
                    _cell(None if ratio is None else line.ratio - ratio, "+.2f"),
                    _estimate_cell(line.published_base, "pub"),
                    _estimate_cell(line.published_variant, "pub"),
                ]
            row += [
                _cell(missed, ".2f", None, "miss" if missed and missed >= 0.005 else "")
                for missed in (line.base_missed, line.variant_missed)
            ]
            rows.append(row)
    return rows


def residency_panels(
    results: pl.DataFrame, classes: Mapping[str, str]
) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Draw where the CPUs' time went: one group of panels (legend, then title and picture) a cluster."""
    return _residency(_Means(results), classes)


def _residency(means: _Means, classes: Mapping[str, str]) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """One group of panels a cluster: clock and CPU time for each benchmark."""
    clusters: dict[str, list[int]] = {}
    states: dict[str, list[str]] = {}
    for metric in means.metrics:
        kind, _, rest = metric.partition(":")
        cluster, _, what = rest.partition("@")
        if kind == "freq_residency":
            clusters.setdefault(cluster, []).append(int(what))
        elif kind == "idle_residency":
            states.setdefault(cluster, []).append(what)
    groups = []
    for cluster, steps in clusters.items():
        clock = {khz: f"f{_shade(number, len(steps), 5)}" for number, khz in enumerate(steps)}
        idle = {name: f"i{min(number, 3)}" for number, name in enumerate(states.get(cluster, []))}
        keys = [(f"{cluster} {khz / 1000:g} MHz", class_) for khz, class_ in clock.items()]
        keys += [("entering or leaving idle" if name == "none" else name, class_) for name, class_ in idle.items()]
        panels = []
        for benchmark in means.benchmarks:
            for kind, words in (("freq_residency", "clock"), ("busy", "CPU time")):
                bars = []
                for param in means.params[benchmark]:
                    name, _ = _split(param)
                    group = []
                    for policy in means.policies:

                        def share(metric: str, param: str = param, policy: str = policy) -> float:
                            return means.mean(metric, benchmark, param, policy)  # noqa: B023

                        parts = [
                            (f"{khz / 1000:g} MHz", class_, share(f"{kind}:{cluster}@{khz}"))
                            for khz, class_ in clock.items()
                        ]
                        if kind == "busy":
                            parts += [
                                (state, class_, share(f"idle_residency:{cluster}@{state}"))
                                for state, class_ in idle.items()
                            ]
                        group.append(svg.Bar(policy, classes[policy], parts))
                    bars.append((param.partition("=")[2] or param, group))
                title = f"{cluster}, {means.short[benchmark]}: {words} by number of {name}"
                panels.append((title, svg.stacked(title, bars)))
        groups.append((keys, panels))
    return groups


def _shade(number: int, count: int, shades: int) -> int:
    """Spread `count` steps over the shades."""
    return round(number * (shades - 1) / max(count - 1, 1)) if count > 1 else shades // 2


def _timeline(one: Timeline) -> str:
    # Neighbouring tasks get far hues: steps of the golden angle.
    color = lambda task: f"hsl({(task * 137.508) % 360:.0f} 62% 55%)"  # noqa: E731
    return svg.timeline(f"{one.policy}: tasks on CPUs", one.start_ms, one.end_ms, one.rows, color)
