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
        Of text: columns of words are wrapped so that lines are no longer, as far as words allow. Columns without a
        value are left out of a table that is wider, and those that still have no place follow in a table below.

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
    if width is None:
        return _lines([columns, *cells], widths, numeric)
    places = [index for index in range(len(columns)) if any(line[index] for line in cells)]
    if _line_width(widths) <= width:
        places = list(range(len(columns)))
    parts = []
    for part in _parts([widths[index] for index in places], [numeric[index] for index in places], width):
        of_part = [places[index] for index in part]
        texts = [[line[index] for index in of_part] for line in (columns, *cells)]
        right = [numeric[index] for index in of_part]
        parts.append(_lines(texts, _narrowed([widths[index] for index in of_part], right, width, texts[1:]), right))
    return "\n".join(parts)


def _lines(rows: Sequence[Sequence[str]], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    """Give rows as lines; what is wider than its column goes on below."""
    lines = []
    for texts in rows:
        parts = [_wrapped(text, room) for text, room in zip(texts, widths, strict=True)]
        for number in range(max(map(len, parts))):
            words = [part[number] if number < len(part) else "" for part in parts]
            placed = [
                word.rjust(room) if right else word.ljust(room)
                for word, room, right in zip(words, widths, numeric, strict=True)
            ]
            lines.append("  ".join(placed).rstrip())
    return "\n".join(lines) + "\n"


def _line_width(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def _parts(widths: Sequence[int], numeric: Sequence[bool], width: int) -> list[list[int]]:
    """Share out columns to as few tables as fit one below the other, the first column in each."""
    # Columns of words may become narrower, numbers not.
    least = [room if right else min(room, COLUMN_MIN) for room, right in zip(widths, numeric, strict=True)]
    parts = [[0]]
    for index in range(1, len(widths)):
        if len(parts[-1]) > 1 and _line_width([least[place] for place in (*parts[-1], index)]) > width:
            parts.append([0])
        parts[-1].append(index)
    return parts


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


def paragraph(text: str) -> str:
    """Wrap a sentence at the width of the terminal; what is not for one stays a line."""
    return "\n".join(_wrapped(text, terminal_width() or len(text)))


def print_table(rows: Sequence[Mapping[str, Any]], output_format: str) -> None:
    """Write rows to standard output."""
    sys.stdout.write(render_table(rows, output_format, terminal_width()))
