"""How opplab's objects look in a notebook: a title, a few facts, a table, a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from opplab.report import svg

# Neutral colours with enough contrast on light and dark pages, and nothing outside the element.
STYLE = """
.opplab{font:13px/1.45 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;max-width:900px;overflow-x:auto}
.opplab h4{margin:2px 0 6px;padding:0;font-size:14px}.opplab table{border-collapse:collapse;margin:6px 0}
.opplab td,.opplab th{padding:1px 10px 1px 0;text-align:left;border:0;background:none;vertical-align:top}
.opplab .n{text-align:right;font-variant-numeric:tabular-nums}.opplab th{font-weight:400;opacity:.7}
.opplab svg{width:100%;height:auto;display:block;max-width:640px}
.opplab svg text{font:11.5px system-ui,sans-serif;fill:currentColor;opacity:.8}.opplab svg text.tiny{font-size:10px}
.opplab svg .lane,.opplab svg .row{fill:#8883}.opplab svg .clock{fill:none;stroke:currentColor;stroke-width:1.2}
.opplab .topology svg{width:auto}.opplab .topology rect{fill:none;stroke:#8888}
.opplab .topology rect.cpu{stroke:none}.opplab .topology text{fill:currentColor;font-size:11px}
.opplab .topology text.number{fill:#fff;opacity:1}.opplab .topology .c0{fill:#2563a8}
.opplab .topology .c1{fill:#b3541e}.opplab .topology .c2{fill:#3d7a43}.opplab .topology .c3{fill:#84489c}
.opplab svg .axis,.opplab svg .grid{stroke:#8888}
.opplab svg .line{fill:none;stroke:currentColor;stroke-width:1.8}.opplab svg .dot{fill:currentColor}
.opplab svg .again .line{stroke-dasharray:5 3}
.opplab svg .v0{color:#2f86cf}.opplab svg .v1{color:#c07f00}.opplab svg .v2{color:#d0532f}
.opplab svg .v3{color:#3c9a60}.opplab svg .v4{color:#8f66c4}.opplab svg .v5{color:#7a848e}
"""


class Picture:
    """A picture that a notebook shows, and that can be written to a file.

    Parameters
    ----------
    image : str
        The SVG.
    title : str
    """

    def __init__(self, image: str, title: str) -> None:
        self.image = image
        self.title = title

    def _repr_html_(self) -> str:
        return card(self.title, {}, picture=self.image)

    def __repr__(self) -> str:
        return f"Picture({self.title!r})"

    def write(self, path: str | Path) -> Path:
        """Write it as a page of its own (``.html``), or as ``.svg``."""
        path = Path(path)
        if path.suffix == ".svg":
            path.write_text(svg.alone(self.image), encoding="utf-8")
        else:
            path.write_text(f'<!doctype html><meta charset="utf-8">{self._repr_html_()}\n', encoding="utf-8")
        return path


def _cells(row: Mapping[str, Any]) -> str:
    cells = []
    for value in row.values():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        shown = f"{value:.6g}" if isinstance(value, float) else "" if value is None else str(value)
        cells.append(f"<td{' class=n' if number else ''}>{escape(shown)}</td>")
    return "".join(cells)


def card(
    title: str, facts: Mapping[str, object], rows: Sequence[Mapping[str, Any]] = (), *, picture: str = "", more: int = 0
) -> str:
    """Give the HTML of an object.

    Parameters
    ----------
    rows : sequence of mappings
        A table; all have the same keys.
    picture : str
        SVG.
    more : int
        How many rows were left out.
    """
    parts = [f"<div class=opplab><style>{STYLE}</style><h4>{escape(title)}</h4>"]
    if facts:
        lines = (f"<tr><th>{escape(name)}</th><td>{escape(str(value))}</td></tr>" for name, value in facts.items())
        parts.append(f"<table>{''.join(lines)}</table>")
    if rows:
        head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
        body = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
        parts.append(f"<table><tr>{head}</tr>{body}</table>")
    if more:
        parts.append(f"<p>and {more} more</p>")
    return "".join([*parts, picture, "</div>"])


def task_color(task: int) -> str:
    """Give a colour that stays the task's own; neighbours differ."""
    return f"hsl({task * 137 % 360} 55% 52%)"


def curves(title: str, x: Sequence[float], lines: Mapping[str, Sequence[float]], x_label: str, y_label: str) -> Picture:
    """Draw values against a common axis, a line each.

    Parameters
    ----------
    lines : mapping of str to sequence of float
        As many values as `x` has, by name.
    """
    series = [
        svg.Series(name, svg.colour(number), [(float(at), float(y), None) for at, y in zip(x, values, strict=True)])
        for number, (name, values) in enumerate(lines.items())
    ]
    return Picture(svg.lines(title, series, x_label, y_label, key=True), title)


def timeline(
    title: str,
    span_ns: tuple[int, int],
    lanes: Mapping[str, Sequence[tuple[int, int]]],
    clocks: Mapping[str, Sequence[tuple[int, int]]],
    names: Mapping[int, str],
    idle: int,
) -> Picture:
    """Draw what ran on each CPU, and clocks.

    Parameters
    ----------
    span_ns : (int, int)
        From when to when.
    lanes : mapping of str to sequence of (int, int)
        Label of a CPU to times in ns and the task from then on.
    clocks : mapping of str to sequence of (int, int)
        Label of a clock to times in ns and kHz from then on.
    names : mapping of int to str
        Names of tasks.
    idle : int
        The task that is none.
    """
    start_ns, end_ns = span_ns
    rows: list[svg.Lane | svg.Clock] = []
    for label, changes in lanes.items():
        slices = [
            (
                (begin - start_ns) / 1e6,
                (end - start_ns) / 1e6,
                task,
                f"{names.get(task, task)}: {(end - begin) / 1e3:.0f} us",
            )
            for begin, end, task in svg.held(changes, start_ns, end_ns)
            if task != idle
        ]
        rows.append(svg.Lane(label, slices))
    for label, changes in clocks.items():
        points = [((begin - start_ns) / 1e6, khz / 1000) for begin, _, khz in svg.held(changes, start_ns, end_ns)]
        if points:
            speeds = [khz / 1000 for _, khz in changes]
            rows.append(svg.Clock(label, points, min(speeds), max(speeds)))
    picture = svg.timeline(title, 0, (end_ns - start_ns) / 1e6, rows, task_color)
    return Picture(picture, f"{title}, from {start_ns / 1e9:.3f} s")
