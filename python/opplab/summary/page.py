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

from opplab.certainty import digits_of
from opplab.report import svg
from opplab.report.html import panel, render
from opplab.report.numbers import quantity
from opplab.summary.pairs import Block, Line, find_published, place_names, places_of
from opplab.summary.sure import sure_section
from opplab.sweep.confidence import Estimate, estimate

if TYPE_CHECKING:
    import polars as pl

    from opplab.uncertainty.sweep import Sureness


SHADES = 5
"""Shades of clocks that the style sheet has, for so many clocks, each with its name."""

STEPS = 21
"""Steps of the scale between these shades, for more clocks than that: near clocks look alike, far ones do not."""

SCALES_MAX = 4
"""So many times as high may one of two sets of values be for both to be read in one picture."""


MISSED_ALARM = 1.0
"""Percent of activations missed from which a cell is red."""

IDLE_NAMES = {"none": "entering or leaving idle"}

DIFFERS = 0.5
"""Percentage points by which strips of two policies differ at least where they are drawn."""


@dataclass
class Timeline:
    """A window of one run: what each CPU ran, and the clocks of the clusters."""

    policy: str
    start_ms: float
    end_ms: float
    rows: list[svg.Lane | svg.Clock]
    machine: str = ""

    @property
    def title(self) -> str:
        """Its policy, and the machine where there are several."""
        return ", ".join(filter(None, (self.machine, self.policy)))


@dataclass
class Report:
    """What a report is made of."""

    title: str
    subtitle: str
    facts: list[tuple[str, str]]
    """The header: machine, kernel, seed, version, ..."""
    results: pl.DataFrame
    """Results table of one experiment."""
    blocks: list[Block]
    """Comparisons to show."""
    published: pl.DataFrame | None = None
    timelines: list[Timeline] = field(default_factory=list)
    timeline_note: str = ""
    sure: Sureness | None = None
    """How sure the changes are."""
    answer: str = ""
    """The block of `report.answer`, as HTML."""
    methods: list[str] = field(default_factory=list)
    """Paragraphs."""
    runs: str = ""
    """How many runs points have; where they are not given all iterations."""
    unknown_energy: str = ""
    """Why the energy is unknown; empty if it is known."""
    version: str = ""
    footer: str = ""

    def to_html(self) -> str:
        """Give the page."""
        classes = {name: svg.colour(number) for number, name in enumerate(_unique(self.results, "policy"))}
        means = Means(self.results)
        lines = [line for block in self.blocks for line in block.lines]
        has_published = any(line.published_base is not None for line in lines)
        has_missed = any(line.base_missed is not None or line.variant_missed is not None for line in lines)
        columns = _columns(self.blocks, has_published, has_missed)
        by_metric = [list(run) for _, run in groupby(self.blocks, lambda block: block.metric)]
        return render(
            "report.html",
            title=self.title,
            subtitle=self.subtitle,
            facts=self.facts,
            version=self.version,
            footer=self.footer,
            answer=self.answer,
            methods=self.methods,
            sure=None if self.sure is None else sure_section(self.sure, classes),
            findings=[
                *([self.unknown_energy] if self.unknown_energy else []),
                *findings(self.blocks, self.sure is not None),
                *(self.sure.findings() if self.sure else []),
            ],
            iterations=means.iterations,
            runs=self.runs or means.iterations,
            variants=list(classes.items()),
            has_published=has_published,
            has_missed=has_missed,
            what=_heading(by_metric, means),
            values=[
                panel(*made) for run in by_metric for made in _value_panels(means, classes, self.published, run[0])
            ],
            change=[panel(*made) for run in by_metric for made in _change_panels(run, classes)],
            columns=[name for name, _ in columns],
            groups=[(group, len(list(run))) for group, run in groupby(columns, lambda one: one[1])],
            rows=_rows(self.blocks, has_published, has_missed),
            residency=[
                {"legend": keys, "panels": [panel(*made) for made in panels]}
                for keys, panels in residency_panels(means, classes)
            ],
            timelines=[panel(one.title, _timeline(one), classes.get(one.policy, "v0")) for one in self.timelines],
            timeline_note=self.timeline_note,
        )


def _heading(by_metric: Sequence[Sequence[Block]], means: Means) -> str:
    """Name what the pictures of values show."""
    what = by_metric[0][0].metric.capitalize() if len(by_metric) == 1 else "What was measured"
    if all(len(params) < 2 for params in means.params.values()):
        return what
    return f"{what}{'' if len(by_metric) == 1 else ','} against load"


def _unique(table: pl.DataFrame, column: str) -> list[str]:
    return table[column].unique(maintain_order=True).to_list()


Place = tuple[str, str]
"""A machine and a benchmark: values of two places never meet."""


class Means:
    """Values by (metric, place, param, policy), in the order of the experiment."""

    def __init__(self, results: pl.DataFrame) -> None:
        self.values: dict[tuple[str, Place, str, str], list[float]] = {}
        columns = results.select("metric", "machine", "benchmark", "param", "policy", "value")
        places: dict[Place, None] = {}
        self.metrics: dict[str, dict[str, None]] = {}
        for metric, machine, benchmark, param, policy, value in columns.iter_rows():
            place = machine or "", benchmark
            places[place] = None
            self.metrics.setdefault(place[0], {})[metric] = None
            if value is None:  # Unknown, as the energy of a machine without power.
                continue
            self.values.setdefault((metric, place, param or "", policy), []).append(value)
        self.names = place_names(list(places))
        self.policies = _unique(results, "policy")
        self.params = {place: list(dict.fromkeys(key[2] for key in self.values if key[1] == place)) for place in places}
        self.iterations = results["iteration"].n_unique()

    def estimate(self, metric: str, place: Place, param: str, policy: str, block: Block) -> Estimate | None:
        """Give the mean with its interval; None of what was not measured."""
        values = self.values.get((metric, place, param, policy))
        return estimate(values, better=block.better, unit=block.unit) if values else None

    def mean(self, metric: str, place: Place, param: str, policy: str) -> float:
        """Give the mean; 0 of what was not measured."""
        values = self.values.get((metric, place, param, policy))
        return math.fsum(values) / len(values) if values else 0.0


def places_on_axis(params: Sequence[str]) -> tuple[list[float], list[str] | None, str]:
    """Give where parameters stand on an axis, at their numbers or one after the other with names; and the axis' name.

    Examples
    --------
    >>> places_on_axis(["tasks=10", "tasks=20"]), places_on_axis(["read", "write"])
    (([10.0, 20.0], None, 'tasks'), ([0.0, 1.0], ['read', 'write'], ''))
    """
    parts = [param.partition("=") for param in params]
    words = [value or name for name, _, value in parts]
    named = {name for name, equals, _ in parts if equals}
    label = named.pop() if len(named) == 1 else ""
    try:
        return [float(word) for word in words], None, label
    except ValueError:
        return [float(at) for at in range(len(words))], words, label


def findings(blocks: Sequence[Block], drawn: bool = False) -> list[str]:
    """Describe what the comparison comes to, good or bad; changes within their interval are not significant.

    Where assumptions were drawn (`drawn`), the intervals of the runs alone are no finding.
    """
    names = places_of(blocks)
    groups = groupby(blocks, lambda block: ((block.machine, block.benchmark), block.metric, block.base))
    out = [] if drawn else [_comparison(names[place], list(run)) for (place, _, _), run in groups]
    lines = [line for block in blocks for line in block.lines]
    if lines and max(line.base.n for line in lines) < 2:
        out.append("One iteration: nothing here has an interval, so a small change may be chance.")
    elif lines and not any(line.varies for line in lines):
        out.append(
            "All iterations are equal: nothing varies between seeds, so there are no intervals. That does not make "
            "the changes certain; they depend on the assumptions of the machine file."
        )
    for metric in dict.fromkeys(block.metric for block in blocks):
        out += _distance(metric, [line for block in blocks if block.metric == metric for line in block.lines])
    missed = [value for line in lines for value in (line.base_missed, line.variant_missed) if value is not None]
    if missed:
        text = "none" if max(missed) == 0 else f"at most {max(missed):.2g} %"
        out.append(f"Missed activations: {text}.")
    lost = max((value or 0.0 for line in lines for value in (line.base_lost, line.variant_lost)), default=0.0)
    if lost:
        out.append(f"Lost resumes, work that is not done: at most {lost:.2g} %.")
    return out


def _comparison(name: str, blocks: Sequence[Block]) -> str:
    """Describe what each variant changes of one metric of one benchmark, at the first and the last load."""
    first = blocks[0]
    what = "energy" if first.metric == "energy" else f"{first.metric} ({first.better} is better)"
    variants = []
    for block in blocks:
        ends = block.lines[:1] if len(block.lines) == 1 else (block.lines[0], block.lines[-1])
        parts = [f"{_change(line)}{_load(block, line)}" for line in ends]
        variants.append(f"{block.variant} {', '.join(parts)}")
    subject = f"{name}, {what}" if name else what.capitalize()
    return f"{subject}, against {first.base}: {'; '.join(variants)}."


def _load(block: Block, line: Line) -> str:
    if not line.param:
        return ""
    return f" at {block.param_name} {line.param}" if block.param_name != line.param else f" at {line.param}"


def _change(line: Line) -> str:
    """Give the change in percent with its interval, or that it is within it."""
    certain = line.certain
    text = certain.text(line.ratio).removesuffix("*") if line.ratio else "nothing"
    if certain.low is not None and not certain.is_clear:
        text = f"nothing clear ({text})"
    published = line.published_ratio
    return text if published is None else f"{text} (published {published:+.1f} %)"


def _distance(metric: str, lines: Sequence[Line]) -> list[str]:
    """Report how far the changes and the values of a metric are from the published ones."""
    known = [(line, ratio) for line in lines if (ratio := line.published_ratio) is not None]
    if not known:
        return []
    errors = sorted(abs(line.ratio - ratio) for line, ratio in known)
    nothing = statistics.median(abs(ratio) for _, ratio in known)
    clear = [(line, ratio) for line, ratio in known if _exceeds_spread(line)]
    same = sum((line.ratio < 0) == (ratio < 0) for line, ratio in clear)
    out = [
        f"Distance to the {len(known)} published changes: median {statistics.median(errors):.1f} percentage points, "
        f'largest {errors[-1]:.1f}; always predicting "no change" misses by {nothing:.1f} (median). Where the '
        f"published change exceeds its own interval ({len(clear)} values), its sign is met in {same}."
    ]
    shares = [
        ours.mean / theirs.mean
        for line, _ in known
        for ours, theirs in ((line.base, line.published_base), (line.variant, line.published_variant))
        if theirs is not None
    ]
    what = "energies" if metric == "energy" else "values"
    out.append(
        f"Simulated {what} are {min(shares):.2f} to {max(shares):.2f} times the published ones (median "
        f"{statistics.median(shares):.2f}); a constant factor could be the length of the run alone, the spread "
        "around it is error of the model and of the measurement."
    )
    return out


def _exceeds_spread(line: Line) -> bool:
    base, variant = line.published_base, line.published_variant
    if base is None or variant is None or base.half is None or variant.half is None:
        return False
    return abs(variant.mean - base.mean) > math.hypot(base.half, variant.half)


def _value_panels(
    means: Means, classes: Mapping[str, str], published: pl.DataFrame | None, block: Block
) -> list[tuple[str, str]]:
    """Draw a metric of all policies against the load (where there is one load, by name); one panel a benchmark."""
    metric, unit = block.metric, block.unit
    sense = f", {block.better} is better" if metric != "energy" and block.better else ""
    panels = []
    for place, name in means.names.items():
        params = means.params[place]
        xs, names, label = places_on_axis(params)
        load = f"number of {label}" if label and names is None else label
        ours, theirs = [], []
        for policy in means.policies:
            one = svg.Series(policy, classes[policy])
            ring = svg.Series(policy, classes[policy], hollow=True)
            for x, param in zip(xs, params, strict=True):
                value = means.estimate(metric, place, param, policy, block)
                if value is None:
                    continue
                one.points.append((x, value.mean, value.half if value.varies else None))
                old = find_published(published, place[1], policy, param, unit)
                if old is not None:
                    ring.points.append((x, old.mean, old.half))
            if one.points:
                ours.append(one)
            if ring.points:
                theirs.append(ring)
        if ours:
            against = f" against {load}" if load and len(params) > 1 else ""
            title = f"{name}: {metric} ({unit}){against}{sense}"
            if theirs and not _share_a_scale(ours, theirs):
                theirs = []
                title += " (published values have another scale)"
            y_label = f"{metric} ({unit})"
            if len(params) > 1:
                picture = svg.lines(title, [*theirs, *ours], load, y_label, names=names)
            else:
                picture = _by_name(title, [*theirs, *ours], y_label)
            panels.append((title, picture))
    return panels


def _by_name(title: str, series: Sequence[svg.Series], label: str) -> str:
    """Draw one value of each policy with its interval, below each other."""
    rows: dict[str, list[svg.Change]] = {}
    ends = [0.0]
    for one in series:
        ((_, value, half),) = one.points
        low, high = (None, None) if half is None else (value - half, value + half)
        ends += [end for end in (value, high) if end is not None]
        words = f"{one.label}: {value:.4g}" + ("" if half is None else f" \u00b1 {half:.2g}")
        mark = svg.Change(one.label, one.class_, value, low, high, clear=True, hollow=one.hollow, words=words)
        rows.setdefault(one.label, []).append(mark)
    marks = svg.ticks(min(ends), max(ends))
    return svg.changes(title, list(rows.items()), label, (marks[0], marks[-1]))


def _share_a_scale(ours: Sequence[svg.Series], theirs: Sequence[svg.Series]) -> bool:
    """Report whether both are readable in one picture: a run of another length has energies of another size."""
    highest = [max(point[1] for one in some for point in one.points) for some in (ours, theirs)]
    return min(highest) * SCALES_MAX >= max(highest)


def _change_panels(blocks: Sequence[Block], classes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Draw the changes as intervals around zero; one panel a machine and benchmark, published ones as rings."""
    drawn: list[tuple[str, list[tuple[str, list[svg.Change]]], str]] = []
    for (machine, benchmark), name in places_of(blocks).items():
        chosen = [block for block in blocks if (block.machine, block.benchmark) == (machine, benchmark)]
        groups: dict[str, list[svg.Change]] = {}
        one_load = len({line.param for block in chosen for line in block.lines}) == 1
        for block, line in [(one, line) for one in chosen for line in one.lines]:
            if math.isnan(line.ratio):
                continue
            load = f"{block.param_name} {line.param}" if block.param_name != line.param else line.param
            own, certain = groups.setdefault(block.variant if one_load else load, []), line.certain
            class_ = classes[block.variant]
            own.append(svg.Change(block.variant, class_, line.ratio, certain.low, certain.high, certain.is_clear))
            if (ratio := line.published_ratio) is not None:
                assert line.published_base is not None
                assert line.published_variant is not None
                half = _ratio_half(line.published_base, line.published_variant)
                low, high = (None, None) if half is None else (ratio - half, ratio + half)
                own.append(svg.Change(f"{block.variant}, published", class_, ratio, low, high, clear=True, hollow=True))
        if not groups:
            continue
        bases = list(dict.fromkeys(block.base for block in chosen))
        pairs = (
            f"all against {bases[0]}"
            if len(bases) == 1 and len(chosen) > 1
            else ", ".join(f"{block.variant} against {block.base}" for block in chosen)
        )
        first = chosen[0]
        title = f"{name}: {pairs}" if first.metric == "energy" else f"{name}, {first.metric}: {pairs}"
        better = f", {first.better} is better" if first.better else ""
        drawn.append((title, list(groups.items()), f"change of {first.metric}, %{better}"))
    # Small multiples: one axis for all panels, unless it would hide the changes of some.
    axes = [svg.axis_of(groups) for _, groups, _ in drawn]
    sizes = [high - low for low, high in axes]
    shared = None
    if len(axes) > 1 and max(sizes) <= SCALES_MAX * min(sizes):
        shared = min(low for low, _ in axes), max(high for _, high in axes)
    return [(title, svg.changes(title, groups, label, shared)) for title, groups, label in drawn]


def _ratio_half(base: Estimate, variant: Estimate) -> float | None:
    """Half-width of the interval of the ratio in percent, first order, means taken as independent."""
    if base.half is None or variant.half is None or base.mean == 0 or variant.mean == 0:
        return None
    return 100 * variant.mean / base.mean * math.hypot(base.half / base.mean, variant.half / variant.mean)


def _columns(blocks: Sequence[Block], has_published: bool, has_missed: bool) -> list[tuple[str, str]]:
    """Heading and group of each column of the table."""
    loads = {block.param_name for block in blocks} - {""}
    has_load = any(line.param for block in blocks for line in block.lines)
    metrics = {block.metric for block in blocks}
    what = metrics.pop() if len(metrics) == 1 else "value"
    load = [(loads.pop() if len(loads) == 1 else "load", "")] if has_load else []
    columns = [("set", ""), *load, ("variant vs baseline", "")]
    columns += [("baseline", f"{what}, simulated"), ("variant", f"{what}, simulated")]
    columns += [("simulated", f"change of {what}, %")]
    if has_published:
        columns += [("published", f"change of {what}, %"), ("pp", f"change of {what}, %")]
        columns += [("baseline", f"{what}, published"), ("variant", f"{what}, published")]
    return [*columns, ("baseline", "missed, %"), ("variant", "missed, %")] if has_missed else columns


def _cell(value: float | None, form: str, half: float | None = None, class_: str = "") -> dict[str, Any]:
    if value is None or math.isnan(value):
        return {"text": "\u2013", "value": "", "class": class_}
    text = (format(value, form) if form else quantity(value)).replace("-", "\u2212")
    if half is not None:
        # What is below the mean's digits is no 0.
        text += f" \u00b1 {half:.{digits_of([half], len(text.partition('.')[2]))}f}"
    return {"text": text, "value": f"{value:.6g}", "class": class_}


def _estimate_cell(value: Estimate | None, class_: str = "") -> dict[str, Any]:
    if value is None:
        return _cell(None, "", None, class_)
    # Published means as they were printed.
    return _cell(value.mean, ".2f" if class_ == "pub" else "", value.half if value.varies else None, class_)


def _change_cell(line: Line) -> dict[str, Any]:
    """A change with its interval as all tables write it; grey where it is not clear."""
    if math.isnan(line.ratio):
        return _cell(None, "")
    certain = line.certain
    words = certain.text(line.ratio, "", 2).replace("-", "\u2212")
    return {"text": words, "value": f"{line.ratio:.6g}", "class": "faint" if certain.words == "not clear" else ""}


def _rows(blocks: Sequence[Block], has_published: bool, has_missed: bool) -> list[list[dict[str, Any]]]:
    rows = []
    names = places_of(blocks)
    several = len({block.metric for block in blocks}) > 1
    has_load = any(line.param for block in blocks for line in block.lines)
    for block in blocks:
        place = names[block.machine, block.benchmark]
        name = f"{place}, {block.metric} ({block.unit})" if several else place
        for line in block.lines:
            ratio = line.published_ratio
            row = [
                {"text": name, "value": block.benchmark, "class": ""},
                *([{"text": line.param, "value": line.param, "class": ""}] if has_load else []),
                {"text": f"{block.variant} vs {block.base}", "value": block.variant, "class": "left"},
                _estimate_cell(line.base),
                _estimate_cell(line.variant),
                _change_cell(line),
            ]
            if has_published:
                row += [
                    _cell(ratio, "+.2f", None, "pub"),
                    _cell(None if ratio is None else line.ratio - ratio, "+.2f"),
                    _estimate_cell(line.published_base, "pub"),
                    _estimate_cell(line.published_variant, "pub"),
                ]
            if has_missed:
                row += [
                    _cell(missed, ".2f", None, "miss" if missed and missed >= MISSED_ALARM else "")
                    for missed in (line.base_missed, line.variant_missed)
                ]
            rows.append(row)
    return rows


def residency_panels(
    means: Means, classes: Mapping[str, str]
) -> list[tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Draw where the CPUs' time went: one group of panels (legend, then title and picture) a cluster."""
    groups = []
    for machine, metrics in means.metrics.items():
        clusters: dict[str, list[int]] = {}
        states: dict[str, list[str]] = {}
        for metric in metrics:
            kind, _, rest = metric.partition(":")
            cluster, _, what = rest.partition("@")
            if kind == "freq_residency":
                clusters.setdefault(cluster, []).append(int(what))
            elif kind == "idle_residency":
                states.setdefault(cluster, []).append(what)
        for cluster, steps in clusters.items():
            clock = _clock_classes(steps)
            idle = _idle_classes(states.get(cluster, []))
            panels = []
            for place, name in means.names.items():
                if place[0] == machine:
                    panels += _residency_panels(means, classes, (place, name), cluster, clock, idle)
            if panels:
                keys = _clock_keys(cluster, clock)
                if any(": CPU time" in title for title, _ in panels):
                    keys += [(IDLE_NAMES.get(name, name), class_) for name, class_ in idle.items()]
                groups.append((keys, panels))
    return groups


def _idle_classes(states: Sequence[str]) -> dict[str, str]:
    """Give the colour of each idle state: polling apart, the others the darker the deeper, and the way in and out."""
    deep = [name for name in states if name not in ("POLL", "none")]
    steps = {name: 1 + round(6 * number / max(len(deep) - 1, 1)) for number, name in enumerate(deep)}
    return {name: "ix" if name == "none" else f"i{steps.get(name, 0)}" for name in states}


def _residency_panels(
    means: Means,
    classes: Mapping[str, str],
    at: tuple[Place, str],
    cluster: str,
    clock: Mapping[int, str],
    idle: Mapping[str, str],
) -> list[tuple[str, str]]:
    """Clock and CPU time of a cluster at one place."""
    place, where = at
    panels = []
    for kind, words in (("freq_residency", "clock"), ("busy", "CPU time")):
        bars = []
        for param in means.params[place]:
            group = []
            for policy in means.policies:
                metrics = [(f"{khz / 1000:g} MHz", class_, f"{kind}:{cluster}@{khz}") for khz, class_ in clock.items()]
                if kind == "busy":
                    metrics += [(state, class_, f"idle_residency:{cluster}@{state}") for state, class_ in idle.items()]
                parts = [(name, class_, means.mean(metric, place, param, policy)) for name, class_, metric in metrics]
                group.append(svg.Bar(policy, classes[policy], parts))
            if _differ(group):
                bars.append((param.partition("=")[2] or param, group))
        if not bars:
            continue
        name = means.params[place][-1].partition("=")[0] if means.params[place] else ""
        by = f" by number of {name}" if name else ""
        title = f"{cluster}, {where}: {words}{by}"
        panels.append((title, svg.stacked(title, bars)))
    return panels


def _differ(bars: Sequence[svg.Bar]) -> bool:
    """Report whether bars of several policies are worth a look; one policy's always are."""
    shares = zip(*([percent for _, _, percent in bar.parts] for bar in bars), strict=True)
    return len(bars) < 2 or any(max(part) - min(part) >= DIFFERS for part in shares)


def _clock_classes(steps: Sequence[int]) -> dict[int, str]:
    """Give each clock its colour: of its own while they are few, else its place on a scale by frequency."""
    if len(steps) <= SHADES:
        return {khz: f"f{_shade(number, len(steps), SHADES)}" for number, khz in enumerate(steps)}
    low, high = min(steps), max(steps)
    return {khz: f"c{round((khz - low) * (STEPS - 1) / (high - low))}" for khz in steps}


def _clock_keys(cluster: str, clock: Mapping[int, str]) -> list[tuple[str, str]]:
    """Legend of the clocks: each one while they are few, else the scale with its ends."""
    if len(clock) <= SHADES:
        return [(f"{cluster} {khz / 1000:g} MHz", class_) for khz, class_ in clock.items()]
    return [(f"{cluster} {min(clock) / 1000:g} to {max(clock) / 1000:g} MHz", "scale")]


def _shade(number: int, count: int, shades: int) -> int:
    """Spread `count` steps over the shades."""
    return round(number * (shades - 1) / max(count - 1, 1)) if count > 1 else shades // 2


def _timeline(one: Timeline) -> str:
    # Neighbouring tasks get far hues: steps of the golden angle.
    color = lambda task: f"hsl({(task * 137.508) % 360:.0f} 62% 55%)"  # noqa: E731
    return svg.timeline(f"{one.title}: tasks on CPUs", one.start_ms, one.end_ms, one.rows, color)
