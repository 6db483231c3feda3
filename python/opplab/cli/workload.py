"""`opplab workload`: look at workload files."""

from __future__ import annotations

from pathlib import Path

import click

from opplab import _opplab, catalog
from opplab.cli.output import format_option, print_table


@click.group(name="workload")
def command() -> None:
    """Look at rt-app workload files."""


@command.command(name="show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--repeats",
    type=click.Choice(["json-c", "workgen"]),
    default="workgen",
    show_default=True,
    help="What a repeated key means: json-c as rt-app sees the bare file, workgen as after rt-app's workgen script.",
)
@format_option
def show(file: Path, repeats: str, output_format: str) -> None:
    """Show FILE: its tasks, phases and events in file order, each with its line and column."""
    text = catalog.read_text(file, "a workload file")
    workload = _opplab.Workload.parse(file.stem, str(file), text, repeats)
    if output_format == "text":
        click.echo(workload.describe(), nl=False)
        return
    names = ("task", "phase", "line", "column", "key", "event")
    print_table([dict(zip(names, row, strict=True)) for row in workload.events()], output_format)
