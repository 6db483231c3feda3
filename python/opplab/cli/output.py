"""Tables on standard output in the format that the user asks for."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

FORMATS = ("text", "json", "csv", "markdown")

F = TypeVar("F", bound=Callable[..., Any])


def format_option(function: F) -> F:
    """Add ``--format`` to a command as `output_format`."""
    option = click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="Form of the output.",
    )
    return option(function)


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def render_table(rows: Sequence[Mapping[str, Any]], output_format: str) -> str:
    """Give rows of equal keys as text.

    Examples
    --------
    >>> print(render_table([{"name": "juno-r2", "cpus": 6}], "csv"), end="")
    name,cpus
    juno-r2,6
    """
    if output_format == "json":
        return json.dumps(list(rows), indent=2, default=str) + "\n"
    if not rows:
        return ""
    columns = list(rows[0])
    if output_format == "csv":
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
    widths = [max(len(name), *(len(line[index]) for line in cells)) for index, name in enumerate(columns)]
    numeric = [
        all(isinstance(row[name], int | float | None) and not isinstance(row[name], bool) for row in rows)
        for name in columns
    ]

    def line_of(texts: Sequence[str]) -> str:
        parts = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(texts, widths, numeric, strict=True)
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([line_of(columns), *(line_of(line) for line in cells)]) + "\n"


def print_table(rows: Sequence[Mapping[str, Any]], output_format: str) -> None:
    """Write rows to standard output."""
    sys.stdout.write(render_table(rows, output_format))
