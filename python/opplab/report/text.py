"""Tables on standard output in the format that the user asks for."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from decimal import Decimal
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


def harmless(value: object) -> object:
    """Give a cell of a CSV that no spreadsheet takes for a formula; numbers stay what they are.

    Examples
    --------
    >>> harmless("=HYPERLINK(A1)"), harmless("schedutil"), harmless(-1.5)
    ("'=HYPERLINK(A1)", 'schedutil', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def markdown(text: str) -> str:
    r"""Give words that stand in a cell of a Markdown table as they are, and never as HTML or a link.

    Examples
    --------
    >>> print(markdown("<b>a|b</b> [x](y)"))
    &lt;b&gt;a\|b&lt;/b&gt; [x]\(y)
    """
    for char, safe in (("\\", "\\\\"), ("|", "\\|"), ("](", "]\\("), ("`", "\\`"), ("&", "&amp;"), ("<", "&lt;")):
        text = text.replace(char, safe)
    return text.replace(">", "&gt;").replace("\n", " ")


def render_table(rows: Sequence[Mapping[str, Any]], output_format: str, width: int | None = None) -> str:
    """Give rows of equal keys as text.

    Parameters
    ----------
    width : int, optional
        Of text: headings and columns of words are wrapped so that lines are no longer. Columns without a value are
        left out of a table that is wider; where that is not enough, the columns stand in groups below each other, each
        with the first columns, as many as it takes to keep the rows apart.

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
        writer.writerows([["" if row[name] is None else harmless(row[name]) for name in columns] for row in rows])
        return buffer.getvalue()
    cells = [[_cell(row[name]) for name in columns] for row in rows]
    if output_format == "markdown":
        lines = ["| " + " | ".join(map(markdown, line)) + " |" for line in (columns, *cells)]
        lines.insert(1, "| " + " | ".join("---" for _ in columns) + " |")
        return "\n".join(lines) + "\n"
    numeric = [
        all(isinstance(row[name], int | float | Decimal | None) and not isinstance(row[name], bool) for row in rows)
        for name in columns
    ]
    widths = [max(len(name), *(len(line[index]) for line in cells)) for index, name in enumerate(columns)]
    if width is not None and sum(widths) + 2 * (len(widths) - 1) > width:
        # A column without a value is left out.
        told = [index for index in range(len(columns)) if any(line[index] for line in cells)]
        columns, cells = [columns[index] for index in told], [[line[index] for index in told] for line in cells]
        numeric, widths = [numeric[index] for index in told], [widths[index] for index in told]
        if any("://" in text for line in cells for text in line):
            return _records(columns, cells, width)
    groups = [list(range(len(columns)))]
    if width is not None:
        widths, groups = _fitted(widths, numeric, width, columns, cells)

    def lines_of(parts: Sequence[Sequence[str]], group: Sequence[int]) -> list[str]:
        found = []
        for number in range(max(len(parts[index]) for index in group)):
            words = [(parts[index][number] if number < len(parts[index]) else "", index) for index in group]
            placed = [
                word.rjust(widths[index]) if numeric[index] else word.ljust(widths[index]) for word, index in words
            ]
            found.append("  ".join(placed).rstrip())
        return found

    blocks = [[wrapped_name(name, room) for name, room in zip(columns, widths, strict=True)]]
    blocks += [[_wrapped(text, room) for text, room in zip(line, widths, strict=True)] for line in cells]
    tables = ["\n".join(line for block in blocks for line in lines_of(block, group)) + "\n" for group in groups]
    return "\n".join(tables)


def _records(columns: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> str:
    """Give rows below each other, a line or more a value; an address stays whole, so that it can be copied.

    Examples
    --------
    >>> print(_records(["name", "thread"], [["lone-task", "C. Loehle, https://patchew.org/linux/2025/"]], 30), end="")
    lone-task
      thread: C. Loehle,
        https://patchew.org/linux/2025/
    """
    found = []
    for first, *rest in cells:
        lines = [f"  {name}: {text}" for name, text in zip(columns[1:], rest, strict=True) if text]
        found.append("\n".join([first, *(flow(line, width) for line in lines)]) + "\n")
    return "\n".join(found)


# No column of words is made narrower than this while there is another way; no column at all than the second.
COLUMN_MIN = 16
COLUMN_LEAST = 10


def _fitted(
    widths: list[int], numeric: list[bool], width: int, columns: Sequence[str], cells: list[list[str]]
) -> tuple[list[int], list[list[int]]]:
    """Give widths of columns that fit, and the columns that stand beside each other.

    Headings and then columns of words are wrapped.  Where that is not enough the columns stand in groups below each
    other, each with the columns that keep rows apart again.
    """
    # A heading may be wrapped between its parts, a cell of words between words.
    parts = [max(map(len, _pieces(name))) for name in columns]
    words = [max([0, *(len(word) for line in cells for word in line[index].split())]) for index in range(len(columns))]
    least = [
        max(parts[index], *(len(line[index]) for line in cells)) if right else max(parts[index], words[index])
        for index, right in enumerate(numeric)
    ]

    def at_least(most: int, *, whole_words: bool) -> list[int]:
        return [
            room if right else max(most, room) if whole_words else min(most, room)
            for room, right in zip(least, numeric, strict=True)
        ]

    # First between words; where that is not enough, between the parts of long ones, and then within these.
    narrow, narrowest = (at_least(room, whole_words=False) for room in (COLUMN_MIN, COLUMN_LEAST))
    pieces = [max(len(one.rstrip()) for line in cells for one in _pieces(line[at])) for at in range(len(columns))]
    unbroken = [max(room, min(piece, COLUMN_MIN)) for room, piece in zip(narrowest, pieces, strict=True)]
    levels = [at_least(room, whole_words=True) for room in (COLUMN_MIN, COLUMN_LEAST)]
    levels += [narrow, unbroken, narrowest]
    everything = [list(range(len(widths)))]
    for lowest in levels:
        found = _narrowed(widths, lowest, width)
        if sum(found) + 2 * (len(found) - 1) <= width:
            return found, everything
    # Below each other columns of numbers keep their headings whole.
    whole = [room if right else most for room, right, most in zip(widths, numeric, narrow, strict=True)]
    keys = _keys(whole, width, cells)
    groups: list[list[int]] = [[*keys]]
    for index in range(len(keys), len(whole)):
        if len(groups[-1]) > len(keys) and sum(whole[at] + 2 for at in groups[-1]) + whole[index] > width:
            groups.append([*keys])
        groups[-1].append(index)
    found = list(widths)
    for group in groups:
        rooms = _narrowed([widths[at] for at in group], [whole[at] for at in group], width)
        for at, room in zip(group, rooms, strict=True):
            found[at] = min(found[at], room) if at in keys else room
    return found, groups


def _keys(widths: Sequence[int], width: int, cells: Sequence[Sequence[str]]) -> range:
    """Give the first columns that keep all rows apart; the first one, where none do in half the width.

    Examples
    --------
    >>> rows = [["web", "a", "1"], ["web", "b", "1"]]
    >>> _keys([8, 8, 8], 80, rows), _keys([8, 40, 8], 80, rows), _keys([8, 8, 8], 80, [*rows, rows[0]])
    (range(0, 2), range(0, 1), range(0, 1))
    """
    for number in range(1, len(widths)):
        if number > 1 and 2 * sum(room + 2 for room in widths[:number]) > width:
            break
        if len({tuple(line[:number]) for line in cells}) == len(cells):
            return range(number)
    return range(1)


def _narrowed(widths: list[int], lowest: list[int], width: int) -> list[int]:
    """Take from the widest column until all fit, or are as narrow as they may be."""
    widths = list(widths)
    while sum(widths) + 2 * (len(widths) - 1) > width:
        wide = [index for index, room in enumerate(widths) if room > lowest[index]]
        if not wide:
            break
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _pieces(name: str) -> list[str]:
    """Give the parts between which a heading or a long name may be wrapped."""
    return re.findall(r"[^_ =/,-]+[_ =/,-]*|[_ =/,-]+", name) or [""]


def wrapped_name(name: str, width: int) -> list[str]:
    """Give the lines of a heading or a long name, which is wrapped between its parts.

    Examples
    --------
    >>> wrapped_name("epp=balance_power,hz=1000", 14)
    ['epp=balance_', 'power,hz=1000']
    """
    width = max(width, 1)  # A column whose values and name are empty.
    lines = [""]
    for piece in _pieces(name):
        if lines[-1] and len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return [line[at : at + width].rstrip() for line in lines for at in range(0, max(len(line.rstrip()), 1), width)]


def _wrapped(text: str, width: int) -> list[str]:
    if len(text) <= width:
        return [text]
    lines = textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
    return [part for line in lines for part in ([line] if len(line) <= width else wrapped_name(line, width))]


def flow(text: str, width: int | None) -> str:
    """Wrap lines that are longer than `width`, two columns deeper than they begin; words are not broken.

    Examples
    --------
    >>> print(flow("note: a clock that is too low for its tasks", 20))
    note: a clock that
      is too low for its
      tasks
    """
    if width is None:
        return text

    def wrapped(line: str) -> list[str]:
        if len(line) <= width:
            return [line]
        deeper = " " * (len(line) - len(line.lstrip(" ")) + 2)
        return textwrap.wrap(
            line, width, subsequent_indent=deeper, break_on_hyphens=False, break_long_words=False, tabsize=1
        )

    return "\n".join(part for line in text.split("\n") for part in wrapped(line))


def terminal_width() -> int | None:
    """Give the width of the terminal that standard output is, or ``COLUMNS``; None for files and pipes."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def print_table(rows: Sequence[Mapping[str, Any]], output_format: str) -> None:
    """Write rows to standard output; that there are none goes to standard error."""
    if not rows:
        sys.stderr.write("opplab: the answer has no rows\n")
    sys.stdout.write(render_table(rows, output_format, terminal_width()))


def say(text: str) -> None:
    """Write lines for a reader to standard output, wrapped at the width of the terminal."""
    sys.stdout.write(flow(text, terminal_width()) + "\n")
