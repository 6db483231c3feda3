"""The part of a report on how sure its changes are: pictures, tables, words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from opplab.report import svg
from opplab.report.html import panel
from opplab.uncertainty.causes import CHANCE, whose
from opplab.uncertainty.parts import LEVEL

if TYPE_CHECKING:
    from opplab.uncertainty.sweep import SureLine, Sureness


MOST_BARS = 8


def sure_section(sure: Sureness, classes: Mapping[str, str]) -> dict[str, Any]:
    """Give what the template ``sure.html`` shows; `classes` are the variants' colours."""
    note = (
        f"Intervals cover {100 * LEVEL:g} %. Thick: uncertainty of the runs (Student's t over iterations that share "
        "their seeds). Thin: with that of the machine file's assumed numbers, by "
        f"{sure.number} draws from their ranges (Latin hypercube, the same for all policies). The ranges are "
        "judgements. Numbers without a range count as known, and no interval covers the model's form. Pale: the "
        "interval includes zero."
    )
    panels = []
    for metric, axis in dict.fromkeys((line.metric, line.axis) for line in sure.lines):
        own = [line for line in sure.lines if (line.metric, line.axis) == (metric, axis)]
        title = f"{metric}: {'change' if own[0].base else 'value'} and how sure"
        panels.append(panel(title, intervals(title, own, classes)))
    parts: dict[str, list[dict[str, Any]]] = {}
    for row in sure.deciding():
        at = " ".join(filter(None, (f"{row['metric']}, {row['change']}", whose(row))))
        params = f", {row['param']}" if row.get("param") else ""
        parts.setdefault(f"{at}{params}: what decides", []).append(row)
    for title, rows in parts.items():
        panels.append(panel(title, tornado(title, rows)))
    units = {line.change.unit for line in sure.lines if line.base}
    heading = "Changes in percent" if units == {"%"} else "Changes" if units else "Values"
    tables = [
        table_of(heading, sure.text_rows()),
        table_of("Energy and power of each variant", sure.own_rows()),
    ]
    if sure.assumptions:
        tables.append(table_of("Assumptions that were drawn", sure.assumptions))
    return {"note": note, "panels": panels, "tables": [one for one in tables if one["rows"]]}


def table_of(title: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Give rows of equal keys as the templates take a table."""
    columns = list(rows[0]) if rows else []
    cells = [[{"text": row[name], "value": row[name]} for name in columns] for row in rows]
    return {"title": title, "columns": columns, "rows": cells}


def intervals(title: str, lines: Sequence[SureLine], classes: Mapping[str, str]) -> str:
    """Draw changes, or values of one unit, below each other with their intervals in two parts."""
    several = len({line.point[1] for line in lines}) > 1
    names = [" ".join(filter(None, (line.point[1] if several else "", line.point[2], line.variant))) for line in lines]
    head = svg.headroom(names)
    left, right, top, step = 26 if head else 180, 14, 8, 19
    known = [end for line in lines for end in (line.change.value, line.change.low, line.change.high) if end is not None]
    marks = svg.ticks(min([0.0, *known]), max([0.0, *known]), 5)

    def at(value: float) -> float:
        return left + (value - marks[0]) / (marks[-1] - marks[0]) * (svg.WIDTH - left - right)

    out, y = [], float(top)
    for number, (name, line) in enumerate(zip(names, lines, strict=True)):
        parts, middle = line.change, y + head + step / 2
        if number % 2:
            out.append(svg.box(0, y, svg.WIDTH, head + step, "row"))
        words = f"{name}: {line.number(parts.value)}"
        out.append(svg.named(4, y + head if head else middle + 4, name))
        body = []
        if parts.low is not None and parts.high is not None:
            body.append(
                svg.element("line", x1=at(parts.low), x2=at(parts.high), y1=middle, y2=middle, class_="whisker")
            )
            words += f", {line.number(parts.low)} to {line.number(parts.high)}"
        if parts.runs is not None:
            start, end = max(parts.value - parts.runs, marks[0]), min(parts.value + parts.runs, marks[-1])
            body.append(svg.element("line", x1=at(start), x2=at(end), y1=middle, y2=middle, class_="line thick"))
            words += f", runs \u00b1 {parts.runs:.3g}"
        body.append(svg.element("circle", svg.tip(words), cx=at(parts.value), cy=middle, r=4, class_="dot"))
        out.append(svg.element("g", "".join(body), class_=classes[line.variant] + (" faint" if line.words else "")))
        y += head + step
    grid = []
    for mark in marks:
        strong = " zero" if mark == 0 else ""
        grid.append(svg.element("line", x1=at(mark), x2=at(mark), y1=top, y2=y, class_="grid" + strong))
        grid.append(svg.text(at(mark), y + 15, f"{mark:g}".replace("-", "\u2212"), "middle", "tiny"))
    grid.append(svg.text((left + svg.WIDTH - right) / 2, y + 31, lines[0].axis, "middle"))
    return svg.document(y + 38, title, [*grid, *out])


def tornado(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw how much of a change's variance each assumption explains: to the left it falls as the number grows."""
    beside, top, step = 30, 8, 11
    middle_x, half = svg.WIDTH / 2, svg.WIDTH / 2 - beside
    out, grid, y = [], [], float(top)
    for row in rows[:MOST_BARS]:
        signed = math.copysign(row["share"], row["rank_correlation"])
        name = str(row["assumption"])
        words = f"{name}: rank correlation {row['rank_correlation']:+.2f}, alone explains {100 * row['share']:.0f} %"
        bar = svg.element(
            "rect",
            svg.tip(words),
            x=min(middle_x, middle_x + signed * half),
            y=y + svg.LINE,
            width=max(abs(signed) * half, 0.5),
            height=step,
            class_="f3" if row["p"] < CHANCE else "f0",
        )
        out += [svg.named(4, y + svg.LINE - 4, name), bar]
        y += svg.LINE + step + 2
    for value in (-1, -0.5, 0, 0.5, 1):
        x = middle_x + value * half
        strong = " zero" if value == 0 else ""
        grid.append(svg.element("line", x1=x, x2=x, y1=top, y2=y, class_="grid" + strong))
        out.append(svg.text(x, y + 15, f"{100 * abs(value):g} %", "middle", "tiny"))
    out.append(svg.text(middle_x, y + 31, "share of the variance (pale: may be chance)", "middle"))
    return svg.document(y + 38, title, [*grid, *out])
