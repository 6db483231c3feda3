"""`opplab workload`: look at workload files."""

from __future__ import annotations

from pathlib import Path

import click

from opplab import _opplab, catalog
from opplab.cli.group import Group
from opplab.cli.options import file_of, format_option, output_option, write_new
from opplab.report.text import print_table


@click.group(name="workload", cls=Group)
def command() -> None:
    """Look at rt-app workload files, and start one."""


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


@command.command(name="new")
@click.argument("name")
@click.option("--tasks", type=click.IntRange(1, 10_000), default=4, show_default=True, help="How many.")
@click.option(
    "--run", "run_us", type=click.IntRange(1, 10**12), default=2000, show_default=True, help="Work each time, in us."
)
@click.option("--period", "period_us", type=click.IntRange(1, 10**12), default=16000, show_default=True, help="In us.")
@click.option("--seconds", type=click.IntRange(1, 10**12), default=10, show_default=True, help="Duration.")
@output_option("File (NAME.json).")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def new(name: str, tasks: int, run_us: int, period_us: int, seconds: int, output: Path | None, force: bool) -> None:
    """Write an rt-app file of equal periodic tasks, to be changed and run.

    Work is counted in us of the machine's biggest CPU at its highest frequency.
    """
    from opplab.sweep.template import workload_text

    path = file_of(name, ".json", output)
    write_new(path, workload_text(tasks, run_us, period_us, seconds), force)
    click.echo(f"wrote {path}; opplab run {path} --machine NAME", err=True)
