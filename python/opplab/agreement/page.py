"""The page *Agreement*: the scoreboard as Markdown, and predicted against published ratios as pictures.

Made from what `opplab.agreement.scoreboard.scoreboard` gives; computes nothing of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from opplab import _opplab
from opplab.agreement import scoreboard
from opplab.agreement.scoreboard import Cell, place_of
from opplab.comparison import published
from opplab.files import write_text
from opplab.report import svg

COLOURS = 6
STYLE = svg.ALONE + (
    ".one{stroke:var(--soft)}.same{stroke:var(--ink);stroke-dasharray:4 3}.mark{fill-opacity:.65}"
    + "".join(f".c{number}{{fill:var(--c{number})}}" for number in range(COLOURS))
)


def chart(cells: Sequence[Cell], title: str) -> str:
    """Draw predicted against published ratios of some cells, with the diagonal on which they would be equal."""
    names = list(dict.fromkeys(cell.benchmark for cell in cells))
    left, right, bottom = 46, 12, 40
    places = _legend(names, svg.WIDTH - left - right)
    top = 10 + 14 * (1 + max((row for _, row in places), default=0))
    side = svg.WIDTH - left - right
    height = top + side * 3 // 4 + bottom
    values = [ratio for cell in cells for ratio in (cell.published, cell.predicted)]
    marks = svg.ticks(min(values), max(values), 6)
    low, high = marks[0], marks[-1]

    def at(x: float, y: float) -> tuple[float, float]:
        return (
            left + (x - low) / (high - low) * side,
            height - bottom - (y - low) / (high - low) * (height - top - bottom),
        )

    def line(start: tuple[float, float], end: tuple[float, float], class_: str) -> str:
        (x1, y1), (x2, y2) = at(*start), at(*end)
        return svg.element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    out = [svg.element("style", STYLE)]
    for mark in marks:
        class_ = "one" if mark == 1 else "grid"
        out += [line((low, mark), (high, mark), class_), line((mark, low), (mark, high), class_)]
        out.append(svg.text(left - 6, at(low, mark)[1] + 4, f"{mark:g}", "end"))
        out.append(svg.text(at(mark, low)[0], height - bottom + 16, f"{mark:g}", "middle"))
    out.append(line((low, low), (high, high), "same"))
    out.append(svg.text(left + side / 2, height - 8, "published ratio to the baseline", "middle"))
    turn = f"translate(12 {(top + height - bottom) / 2:.0f}) rotate(-90)"
    out.append(svg.element("text", "predicted ratio", transform=turn, text_anchor="middle"))
    for number, name in enumerate(names):
        x, y = left + places[number][0], 14 + 14 * places[number][1]
        out.append(_mark(number, x + 4, y - 4))
        out.append(svg.text(x + 12, y, name))
        for cell in cells:
            if cell.benchmark == name:
                px, py = at(cell.published, cell.predicted)
                words = f"{cell.label}: published {cell.published:.3f}, predicted {cell.predicted:.3f}"
                out.append(_mark(number, px, py, svg.tip(words)))
    return svg.document(height, escape(title), out)


def _mark(number: int, x: float, y: float, tip: str = "") -> str:
    """Draw the mark of a benchmark: a dot, and where colours come again a square, then a triangle."""
    class_ = f"mark c{number % COLOURS}"
    shape = number // COLOURS % 3
    if shape == 0:
        return svg.element("circle", tip, cx=x, cy=y, r=3.2, class_=class_)
    if shape == 1:
        return svg.element("rect", tip, x=x - 2.9, y=y - 2.9, width=5.8, height=5.8, class_=class_)
    triangle = f"M{x:.2f} {y - 4:.2f}L{x + 3.7:.2f} {y + 2.8:.2f}L{x - 3.7:.2f} {y + 2.8:.2f}Z"
    return svg.element("path", tip, d=triangle, class_=class_)


# Width of a letter of the legend: more than the mean of common fonts without serifs at 11 px.
LETTER_PX = 5.2


def _legend(names: Sequence[str], width: float) -> list[tuple[float, int]]:
    """Place names beside each other: how far from the left, and in which row; none is cut."""
    places, x, row = [], 0.0, 0
    for name in names:
        room = 24 + LETTER_PX * len(name)
        if x and x + room > width:
            x, row = 0.0, row + 1
        places.append((x, row))
        x += room
    return places


def _cell_line(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "text": cell["seed"],
        "cell": place_of(cell["machine"], cell["benchmark"], cell["metric"], cell["parameter"]),
        "variant": cell["variant"],
        "published": f"{cell['published']:.3f}",
        "predicted": f"{cell['predicted']:.3f}",
        "what the simulator did": cell["explanation"],
    }


def page(board: Mapping[str, Any], command: str) -> str:
    """Give the page as Markdown."""
    from opplab.report.text import render_table

    day = datetime.datetime.now(tz=datetime.UTC).date()
    quick = (
        " Every fifth row of the tables only (`--quick`), weighted by how many cells it stands for."
        if board.get("quick")
        else ""
    )
    counts = board.get("experiments", {}).items()
    missing = [f"{name} {one['finished']} of {one['cases']}" for name, one in counts if one["finished"] < one["cases"]]
    if missing:
        quick += f" Not all cases had been run: {', '.join(missing)}."
    parts = [
        "# Agreement with the published tables",
        f"Made by `{command}` with opplab {_opplab.__version__} on {day}.{quick}",
        "Each cell is one published number of a variant, as a ratio to the baseline of its row. The simulator predicts "
        "this ratio; benchmark models are fitted to baseline columns only (`opplab calibrate --show`), and the "
        "baselines themselves are not counted. These cells are the development set: the models' structure was chosen "
        "with them in sight. What was predicted unseen is in `lab/sealed/`.\n"
        "*Sign* is the share of cells that were predicted in the published direction. It counts cells whose published "
        "effect exceeds its spread: the errors of both means, in quadrature "
        f"({100 * scoreboard.UNPRINTED_SPREAD:g} % where the text prints none). *Faint* are those with the right sign "
        f"that are predicted less than {100 * scoreboard.FAINT:g} % from 1: a direction, hardly an effect; *strict* "
        "counts them as wrong.\n"
        "*Median error* and *90 %* are quantiles of |predicted ratio - published ratio|; *null's* is the median error "
        "of the simplest rival, which predicts 1.000 everywhere. *Skill* is 1 - error / null's error, by the median "
        "and by the mean: 0 is no better than the rival. *Closer* is the share of cells that are nearer to the text "
        "than the rival. *Closer, clear* is that share of the cells whose effect exceeds its spread; ties count, "
        "too.\n"
        "*In 90 %* is the share of published ratios inside the prediction's own 90 % interval: errors on the other "
        "tables here, with the spread over seeds and phases. *Width* is the median width of these intervals.\n"
        "*Rank* is Spearman's rank correlation of the variants of a row, mean over the rows.",
        render_table(scoreboard.table_rows(board), "markdown").rstrip(),
    ]
    for seed in board["seeds"]:
        parts += [
            f"## Text {seed}: {published.SEEDS[seed]}" if seed in published.SEEDS else f"## Table {seed}",
            f"![predicted against published](figures/agreement-{seed}.svg)",
        ]
        experiments = dict.fromkeys(one["experiment"] for one in board["tables"] if one["seed"] == seed)
        for name in experiments:
            if board["findings"].get(name):
                parts.append(f"**{name}.** {' '.join(board['findings'][name].split())}")
    parts += [
        "## The cells that are farthest off",
        render_table([_cell_line(cell) for cell in board["worst"]], "markdown").rstrip() or "None.",
    ]
    return "\n\n".join(parts) + "\n"


def write_page(board: Mapping[str, Any], cells: Sequence[Cell], command: str, folder: Path) -> list[Path]:
    """Write ``agreement.md`` and its figures to a folder; gives what was written first."""
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for seed in board["seeds"]:
        own = [cell for cell in cells if cell.seed == seed]
        title = f"Text {seed}: predicted against published"
        write_text(folder / "figures" / f"agreement-{seed}.svg", chart(own, title) + "\n")
    write_text(folder / "agreement.md", page(board, command))
    return [folder / "agreement.md"]
