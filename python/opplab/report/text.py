"""Tables on standard output in the format that the user asks for."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from opplab.files import printable

FORMATS = ("text", "json", "csv", "markdown")


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    # Names come from files of others; a line break would break the table.
    return printable(str(value)).replace("\n", "\\n").replace("\t", "\\t")


def render_table(rows: Sequence[Mapping[str, Any]], output_format: str, width: int | None = None) -> str:
    """Give rows of equal keys as text.

    Parameters
    ----------
    rows : sequence of mappings
    output_format : {"text", "json", "csv", "markdown"}
    width : int, optional
        Of text: columns of words are wrapped so that lines are no longer, as far as words allow.

    Examples
    --------
    >>> print(render_table([{"name": "juno-r2", "cpus": 6}], "csv"), end="")
    name,cpus
    juno-r2,6
    """
    if output_format == "json":
        import json

        return json.dumps(list(rows), indent=2, default=str) + "\n"
    if not rows:
        return ""
    columns = list(rows[0])
    if output_format == "csv":
        import csv
        import io

        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if row[name] is None else row[name] for name in columns] for row in rows])
        return buffer.getvalue()
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    if output_format == "markdown":
        lines = ["| " + " | ".join(columns) + " |", "| " + " | ".join("---" for _ in columns) + " |"]
        lines += ["| " + " | ".join(text.replace("|", "\\|") for text in line) + " |" for line in cells]
        return "\n".join(lines) + "\n"
    numeric = [
        all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
        for name in columns
    ]
    widths = [max(len(name), *(len(line[index]) for line in cells)) for index, name in enumerate(columns)]
    if width is not None:
        widths = _narrowed(widths, numeric, width, cells)

    def lines_of(texts: Sequence[str]) -> list[str]:
        parts = [_wrapped(text, room) for text, room in zip(texts, widths, strict=True)]
        found = []
        for number in range(max(map(len, parts))):
            words = [part[number] if number < len(part) else "" for part in parts]
            placed = [
                word.rjust(room) if right else word.ljust(room)
                for word, room, right in zip(words, widths, numeric, strict=True)
            ]
            found.append("  ".join(placed).rstrip())
        return found

    return "\n".join(line for texts in (columns, *cells) for line in lines_of(texts)) + "\n"


# No column of words is made narrower than this.
COLUMN_MIN = 16


def _narrowed(widths: list[int], numeric: list[bool], width: int, cells: list[list[str]]) -> list[int]:
    """Give widths of columns that fit, by taking from the widest column of words."""
    widths = list(widths)
    least = [
        max(COLUMN_MIN, max((len(word) for line in cells for word in line[index].split()), default=0))
        for index in range(len(widths))
    ]
    # First between words; where that is not enough, within long ones.
    for lowest in (least, [COLUMN_MIN] * len(widths)):
        while sum(widths) + 2 * (len(widths) - 1) > width:
            wide = [index for index, right in enumerate(numeric) if not right and widths[index] > lowest[index]]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    import textwrap

    return textwrap.wrap(text, width, break_on_hyphens=False)


def terminal_width() -> int | None:
    """Give the width of the terminal that standard output is, or what ``COLUMNS`` says; None for files and pipes."""
    import os
    import shutil

    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def print_table(rows: Sequence[Mapping[str, Any]], output_format: str) -> None:
    """Write rows to standard output."""
    sys.stdout.write(render_table(rows, output_format, terminal_width()))
