"""`opplab verify`: the build proves itself."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opplab import _opplab
from opplab.errors import InputError
from opplab.output import format_option, print_table


@click.group(name="verify")
def command() -> None:
    """Prove the build: replay golden vectors from the real kernel."""


@command.command(name="vectors")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--strict", is_flag=True, help="Families that are not built count as failures, too.")
@format_option
def vectors(paths: tuple[Path, ...], strict: bool, output_format: str) -> None:
    """Replay the vector files at PATHS (files or folders) and compare bit for bit.

    One line a family: its name, the cases replayed, and how many of them differed.
    The exit code is 1 if any case differed.
    """
    files = [file for path in paths for file in _opplab.find_vectors(path)]
    if not files:
        raise InputError(f"no vector files (.csv, .csv.gz, .jsonl, .jsonl.gz) in {', '.join(map(str, paths))}")
    rows: list[dict[str, object]] = []
    failed = unbuilt = 0
    for file in files:
        family, cases, mismatches, first = _opplab.verify_file(file)
        rows.append({"family": family, "cases": cases, "mismatches": mismatches, "first": first})
        failed += bool(mismatches)
        unbuilt += cases is None
        if output_format == "text":
            click.echo(f"{family} {cases} {mismatches}" if cases is not None else f"{family} not built")
            if first:
                click.echo(f"  {first}", err=True)
    if output_format != "text":
        print_table(rows, output_format)
    sys.stdout.flush()
    raise click.exceptions.Exit(1 if failed or (strict and unbuilt) else 0)
