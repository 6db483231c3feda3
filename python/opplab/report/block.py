"""A block of an answer, the same in terminal, page, Markdown, mail and notebook.

A line with the question, a sentence on what is sure, tables, and lines for what is missing and what is assumed.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opplab.certainty import CONFIDENCE
from opplab.files import printable
from opplab.report.numbers import several
from opplab.report.text import flow, render_table

FORMATS = ("text", "json", "csv", "markdown", "latex")

LINES = 12
"""Lines of a screenful; `--all` has the others."""

STAR = "`*`: the interval excludes zero, or the change is the same in all runs."
"""What readers of a mail do not know."""

BETTER, WORSE = (27, 111, 181), (192, 61, 29)
"""Blue and red of heat tables, which readers who confuse red and green can distinguish."""
SHADE_MOST, SHADE_LEAST_PERCENT = 0.6, 3.0
"""Opacity of the largest change, which the page's own colours shine through in the light and the dark, and the change
that has it where all are smaller."""


@dataclass
class Heat:
    """A table of changes over two factors, whose cells are coloured by size and direction."""

    rows: list[dict[str, str]]
    """What names a row, then a cell a column."""
    gains: list[list[float | None]]
    """Of each cell the change in percent, positive where it is better; None where there is none."""

    def shades(self) -> list[list[tuple[tuple[int, int, int], float] | None]]:
        """Give the colour of each cell and its opacity, also of those that name the row, which have none."""
        sizes = [abs(one) for line in self.gains for one in line if one is not None]
        top = max([*sizes, SHADE_LEAST_PERCENT])
        out = []
        for row, line in zip(self.rows, self.gains, strict=True):
            texts = list(row.values())
            shades = [
                None if one is None else _shade(one / top, text)
                for one, text in zip(line, texts[self.names() :], strict=True)
            ]
            out.append([*([None] * self.names()), *shades])
        return out

    def names(self) -> int:
        """Give how many columns name a row."""
        return len(self.rows[0]) - len(self.gains[0])

    def styles(self) -> list[list[str]]:
        """Give the style of each cell for pages."""
        return [
            ["" if one is None else f"background:rgba({','.join(map(str, one[0]))},{one[1]:.2f})" for one in line]
            for line in self.shades()
        ]

    def latex(self) -> list[list[str]]:
        """Give the colour of each cell for LaTeX, as it looks on white."""
        return [["" if one is None else _cellcolor(*one) for one in line] for line in self.shades()]


def _shade(share: float, text: str) -> tuple[tuple[int, int, int], float]:
    # The root keeps small changes visible beside a large one; what is not clear is pale.
    opacity = SHADE_MOST * abs(share) ** 0.5 * (1 if text.endswith("*") else 0.4)
    return BETTER if share > 0 else WORSE, opacity


def _cellcolor(colour: tuple[int, int, int], opacity: float) -> str:
    on_white = (round(255 + opacity * (one - 255)) for one in colour)
    return rf"\cellcolor[RGB]{{{','.join(map(str, on_white))}}}"


@dataclass
class Block:
    """The words of a block; subclasses give its tables."""

    question: str
    """What ran where, in one line."""
    finding: str
    """What is sure, what is not, and on what it depends."""

    def tables(self, most: int | None = None) -> list[list[dict[str, str]]]:
        """Give the tables, each of at most so many lines."""
        raise NotImplementedError

    def heats(self) -> list[Heat]:
        """Give the tables over two factors, the first of which a terminal and a mail show, too."""
        return []

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a value, in the units of the results, for programs."""
        raise NotImplementedError

    def size(self) -> int:
        """Give the number of lines without a limit."""
        raise NotImplementedError

    def names(self) -> int:
        """Give how many columns name a line."""
        return 1

    def beyond(self, most: int) -> str:
        """Give words on what the lines have that are left out of so many."""
        return ""

    def below(self) -> list[str]:
        """Give the lines below the tables."""
        return []

    def text(self, width: int | None = None, most: int | None = LINES) -> str:
        """Give it as lines for a terminal."""
        parts = [flow(line, width) for line in (self.question, self.finding) if line]
        parts += [render_table(rows, "text", width).rstrip("\n") for rows in self.tables(most)]
        parts += [render_table(heat.rows, "text", width).rstrip("\n") for heat in self.heats()[:1]]
        if most is not None and self.size() > most:
            parts.append(f"{several(self.size() - most, 'more line')}{self.beyond(most)}: --all")
        parts += [flow(line, width) for line in self.below() if line]
        return printable("\n".join(parts)) + "\n"

    def markdown(self) -> str:
        """Give it as Markdown."""
        tables = [*self.tables(), *(heat.rows for heat in self.heats()[:1])]
        parts = [f"**{self.question}**", self.finding, *(render_table(rows, "markdown") for rows in tables)]
        # The question has stars of its own, which make it bold.
        star = STAR if any("*" in part for part in parts[1:]) else ""
        return "\n\n".join(part.rstrip() for part in (*parts, star, *self.below()) if part) + "\n"

    def latex(self) -> str:
        """Give its tables as LaTeX, its words as paragraphs."""
        parts = [_tabular(rows, self.names()) for rows in self.tables()]
        heats = self.heats()
        # Without xcolor's option `table` the cells have no colour.
        parts += [r"\providecommand{\cellcolor}[2][]{}"] if heats else []
        parts += [_tabular(heat.rows, heat.names(), heat.latex()) for heat in heats]
        words_below = [_latex(line) for line in (self.finding, *self.below()) if line]
        return "\n\n".join([_latex(self.question), *parts, *words_below]) + "\n"

    def facts(self) -> Mapping[str, Any]:
        """Give what JSON has beside the rows."""
        return {"question": self.question, "finding": self.finding}

    def to_json(self) -> str:
        """Give everything as JSON."""
        return json.dumps({**self.facts(), "level": CONFIDENCE, "rows": self.rows()}, indent=1) + "\n"

    def form(self, name: str, width: int | None = None, most: int | None = LINES) -> str:
        """Give it in one of `FORMATS`."""
        if name == "text":
            return self.text(width, most)
        if name == "csv":
            return render_table(self.rows(), "csv")
        return {"json": self.to_json, "markdown": self.markdown, "latex": self.latex}[name]()

    def html(self) -> str:
        """Give it as HTML."""
        out = [f'<p class="question">{html.escape(self.question)}</p>']
        out += [f'<p class="finding">{html.escape(self.finding)}</p>'] if self.finding else []
        out += [_table(rows, self.names()) for rows in self.tables()]
        out += [_table(heat.rows, heat.names(), heat.styles()) for heat in self.heats()]
        out += [f'<p class="note">{unbroken(html.escape(line))}</p>' for line in self.below() if line]
        return "\n".join(out)

    def _repr_html_(self) -> str:
        from opplab.report.notebook import STYLE

        return f'<style>{STYLE}</style><div class="opplab">{self.html()}</div>'

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__


def _table(rows: Sequence[Mapping[str, str]], names: int, styles: Sequence[Sequence[str]] = ()) -> str:
    # Columns of words stand left as names do.
    numbers = {
        at for row in rows for at, text in enumerate(row.values()) if at >= names and re.match(r"[-+\u2212]?\d", text)
    }

    def cell(tag: str, text: str, at: int, style: str = "") -> str:
        number = " class=n" if at in numbers else ""
        styled = f' style="{style}"' if style else ""
        return f"<{tag}{number}{styled}>{_breakable(html.escape(text))}</{tag}>"

    heads = "".join(cell("th", name, at) for at, name in enumerate(rows[0]))
    cells = [
        "".join(cell("td", text, at, styles[line][at] if styles else "") for at, text in enumerate(row.values()))
        for line, row in enumerate(rows)
    ]
    body = "".join(f"<tr>{one}</tr>" for one in cells)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _tabular(rows: Sequence[Mapping[str, str]], names: int, colours: Sequence[Sequence[str]] = ()) -> str:
    heads = list(rows[0])
    cells = [list(map(_latex, (row[name] for name in heads))) for row in rows]
    if colours:
        cells = [[a + b for a, b in zip(*line, strict=True)] for line in zip(colours, cells, strict=True)]
    columns = "l" * names + "r" * (len(heads) - names)
    head = " & ".join(map(_latex, heads)) + r" \\"
    body = [" & ".join(line) + r" \\" for line in cells]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
    return "\n".join(lines)


def _breakable(text: str) -> str:
    """Let a name break after its equals sign, a pair at its slash, and an interval before its bracket only.

    A unit stays whole, and a percent sign beside its number.
    """
    text = re.sub(r"\[[^]a-z]*\]", lambda found: found.group().replace(" ", "&nbsp;"), text)
    text = re.sub(r"(?<=\d) (?=%)", "&nbsp;", text)
    return re.sub(r"(?<=\w\w[=/])(?=[\w.])", "<wbr>", text)


def unbroken(text: str) -> str:
    """Keep options in one line, which break at their hyphens."""
    return re.sub(r"(?<!\S)--?[a-z][a-z-]*", r'<span style="white-space:nowrap">\g<0></span>', text)


_LATEX = {
    **{ord(char): f"\\{char}" for char in "&%#_{}$"},
    ord("\\"): r"\textbackslash{}",
    ord("~"): r"\textasciitilde{}",
    ord("^"): r"\textasciicircum{}",
}


def _latex(text: str) -> str:
    return text.translate(_LATEX)
