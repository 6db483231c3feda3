"""The report of a choice: one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.report import svg
from opplab.report.numbers import quantity
from opplab.summary.answer import title_of
from opplab.uncertainty.parts import LEVEL, Parts

if TYPE_CHECKING:
    from opplab.choice.answer import Choice


def page(choice: Choice) -> str:
    """Give the page."""
    from opplab.report.html import panel, render
    from opplab.summary.sure import table_of, tornado

    chosen = choice.recommended
    of = (
        "the variation of runs and the ranges of assumed values"
        if choice.assumptions
        else "the variation of runs alone"
    )
    panels = [panel(picture_title(choice), pareto_picture(choice))]
    if not choice.unranked:
        panels.append(panel("Probability of being the best", probabilities(choice)))
    if choice.hangs.influences and len(choice.options) > 1:
        first, second = choice.options[:2]
        title = f"{title_of(choice.goals[0])}, {second.label} against {first.label}: what decides"
        rows = [
            {"assumption": one.key, "rank_correlation": one.rank_correlation, "share": one.share, "p": one.p}
            for one in choice.hangs.influences
        ]
        panels.append(panel(title, tornado(title, rows)))
    limits = f" with {' and '.join(choice.constraints)}" if choice.constraints else ""
    return render(
        "choice.html",
        title="Which setting?",
        subtitle=f"{dict(choice.facts).get('workload', '')} on {dict(choice.facts).get('machine', '')}: "
        f"{', '.join(map(title_of, choice.goals))}{limits}",
        facts=choice.facts,
        answer=choice.block().html(),
        commands=[] if chosen is None else chosen.commands,
        label="" if chosen is None else chosen.label,
        panels=panels,
        intervals=not choice.needs,
        tables=[
            table_of(
                "Values" if choice.needs else "Values with intervals", [_titled(row) for row in choice.text_rows()]
            ),
            *(
                [
                    table_of(
                        "Assumptions that were drawn",
                        [{"assumption": key, "range": words} for key, words in choice.assumptions.items()],
                    )
                ]
                if choice.assumptions
                else []
            ),
        ],
        note=(
            (
                f"Values are means; intervals need {choice.needs}. "
                if choice.needs
                else f"Values are means with {100 * LEVEL:g} % intervals, which cover {of}. "
            )
            + "All settings run the same programs with the same seeds and draws. Two settings may "
            "differ clearly although their intervals overlap: compare the probability of being the best, and the gap "
            "between the first two. Values without a range count as known, and no interval covers the model's form."
        ),
        version=_opplab.__version__,
        footer=f"Made by opplab {_opplab.__version__}.",
    )


def _titled(row: Mapping[str, str]) -> dict[str, str]:
    """Give a row the heads of the answer: `missed, %` for `missed_activations, %`."""
    heads = (head.partition(", ") for head in row)
    return {
        f"{title_of(name)}{comma}{unit}": text for (name, comma, unit), text in zip(heads, row.values(), strict=True)
    }


def picture_title(choice: Choice) -> str:
    """Describe what the picture shows."""
    names = [title_of(metric) for metric in choice.metrics]
    return f"{names[0]} of each setting" if len(names) < 2 else f"{names[1]} against {names[0]}"


def pareto_picture(choice: Choice) -> str:
    """Draw the settings in the plane of the first two metrics, numbered by rank; of one metric below each other."""
    if len(choice.metrics) < 2:
        return _bars(choice)
    x_name, y_name = choice.metrics[:2]
    left, right, top, bottom, height = 56, 16, 12, 44, 330
    parts = [(option.parts[x_name], option.parts[y_name]) for option in choice.options]
    x_ticks, y_ticks = (_ticks([pair[axis] for pair in parts]) for axis in (0, 1))

    def at_x(value: float) -> float:
        return left + (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (svg.WIDTH - left - right)

    def at_y(value: float) -> float:
        return height - bottom - (value - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (height - top - bottom)

    out = []
    for tick in y_ticks:
        out.append(svg.element("line", x1=left, x2=svg.WIDTH - right, y1=at_y(tick), y2=at_y(tick), class_="grid"))
        out.append(svg.text(left - 6, at_y(tick) + 4, f"{tick:g}", "end"))
    for tick in x_ticks:
        out.append(svg.element("line", x1=at_x(tick), x2=at_x(tick), y1=top, y2=height - bottom, class_="grid"))
        out.append(svg.text(at_x(tick), height - bottom + 17, f"{tick:g}", "middle"))
    units = [choice.units[name][0] for name in (x_name, y_name)]
    names = [f"{title_of(name)}, {unit}" for name, unit in zip((x_name, y_name), units, strict=True)]
    out.append(svg.text((left + svg.WIDTH - right) / 2, height - 8, names[0], "middle"))
    turn = f"translate(13 {(top + height - bottom) / 2:.0f}) rotate(-90)"
    out.append(svg.element("text", names[1], transform=turn, text_anchor="middle", class_="label"))
    # Settings that are beaten in both goals are pale; with one goal there is no front.
    front = choice.pareto if set(choice.goals) >= {x_name, y_name} else choice.options
    if len(choice.goals) > 1 and len(front) > 1:
        places = sorted((at_x(option.parts[x_name].value), at_y(option.parts[y_name].value)) for option in front)
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(svg.element("g", svg.element("path", d=path, class_="line"), class_="v0"))
    spots: list[tuple[float, float, list[int]]] = []
    for rank, option in reversed(list(enumerate(choice.options, start=1))):
        own_x, own_y = option.parts[x_name], option.parts[y_name]
        x, y = at_x(own_x.value), at_y(own_y.value)
        marks = []
        if own_x.low is not None and own_x.high is not None:
            marks.append(svg.element("line", x1=at_x(own_x.low), x2=at_x(own_x.high), y1=y, y2=y, class_="whisker"))
        if own_y.low is not None and own_y.high is not None:
            marks.append(svg.element("line", x1=x, x2=x, y1=at_y(own_y.low), y2=at_y(own_y.high), class_="whisker"))
        words = f"{rank}. {option.label}: {quantity(own_x.value)} {units[0]}, {quantity(own_y.value)} {units[1]}"
        marks.append(svg.element("circle", svg.tip(words), cx=x, cy=y, r=4.5, class_="dot"))
        class_ = "v4" if option is choice.recommended else "v1" if option in front else "v0 faint"
        out.append(svg.element("g", "".join(marks), class_=class_, data_series=option.label))
        # Dots on one spot share their numbers.
        for one, other, ranks in spots:
            if abs(x - one) <= 14 and abs(y - other) <= 12:
                ranks.insert(0, rank)
                break
        else:
            spots.append((x, y, [rank]))
    labels = [", ".join([*map(str, ranks[:3]), *(["\u2026"] if len(ranks) > 3 else [])]) for _, _, ranks in spots]
    places_of = placed([(x, y) for x, y, _ in spots], [6.5 * len(label) for label in labels])
    for (x, y), label in zip(places_of, labels, strict=True):
        out.append(svg.text(x, y, label, "start", "tiny"))
    return svg.document(height, picture_title(choice), out)


LABEL_HEIGHT = 11.0


def placed(dots: Sequence[tuple[float, float]], widths: Sequence[float]) -> list[tuple[float, float]]:
    """Give each dot's label a place beside its dot (left end, base line) where no other label stands.

    Examples
    --------
    >>> placed([(100.0, 100.0), (104.0, 100.0)], [7.0, 7.0])
    [(106.0, 94.0), (110.0, 113.0)]
    """
    taken: list[tuple[float, float, float, float]] = []
    out = []
    for (x, y), width in zip(dots, widths, strict=True):
        rings = (
            spot
            for step in range(len(dots) + 1)
            for down in (LABEL_HEIGHT * step,)
            for spot in (
                (x + 6, y - 6 - down),
                (x + 6, y + 13 + down),
                (x - 6 - width, y - 6 - down),
                (x - 6 - width, y + 13 + down),
            )
        )
        for left, base in rings:
            box = (left, base - LABEL_HEIGHT, left + width, base)
            if not any(box[0] < b[2] and b[0] < box[2] and box[1] < b[3] and b[1] < box[3] for b in taken):
                break
        taken.append(box)
        out.append((left, base))
    return out


def _ticks(parts: Sequence[Parts]) -> list[float]:
    ends = [end for one in parts for end in (one.value, one.low, one.high) if end is not None]
    low, high = min(ends), max(ends)
    if low == high:
        low, high = (0.0, high or 1.0) if high >= 0 else (low, 0.0)
    return svg.ticks(max(low, 0.0) if min(one.value for one in parts) >= 0 else low, high, 5)


def _bars(choice: Choice) -> str:
    """Draw one metric of all settings below each other, the best first."""
    metric = choice.metrics[0]
    unit = choice.units[metric][0]
    rows = []
    for rank, option in enumerate(choice.options, start=1):
        parts, name = option.parts[metric], f"{rank}. {option.label}"
        class_ = "v4" if option is choice.recommended else "v1"
        words = f"{name}: {quantity(parts.value)} {unit}"
        mark = svg.Change(option.label, class_, parts.value, parts.low, parts.high, clear=True, words=words)
        rows.append((name, [mark]))
    marks = _ticks([option.parts[metric] for option in choice.options])
    return svg.changes(picture_title(choice), rows, f"{title_of(metric)}, {unit}", (marks[0], marks[-1]))


def probabilities(choice: Choice) -> str:
    """Draw how probable it is that each setting is the best: names above their bars, so that both are read anywhere."""
    left, right, top, step = 4, 110, 6, 32
    scale = svg.WIDTH - left - right
    out, y = [], float(top)
    for rank, option in enumerate(choice.options, start=1):
        name = f"{rank}. {option.label}"
        out.append(svg.text(left, y + 11, name if len(name) <= 60 else name[:59] + "\u2026"))
        words = f"{name}: {choice.best_in(option)}"
        width = max(option.best * scale, 0.8)
        out.append(svg.element("rect", svg.tip(words), x=left, y=y + 16, width=width, height=step - 22, class_="f2"))
        out.append(svg.text(left + width + 5, y + 25, choice.best_in(option), "start", "tiny"))
        y += step
    return svg.document(y + 6, "Probability of being the best", out)
