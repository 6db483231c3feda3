"""`opplab fleet`: the best setting of every machine type of many dumps, and what it saves in a year."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from opplab.cli.choose import (
    constraints_option,
    dask_option,
    draws_option,
    governors_option,
    iterations_option,
    seconds_option,
    seed_option,
)
from opplab.cli.options import (
    NameOf,
    jobs_option,
    load_of,
    note,
    note_replaced,
    one_param_option,
    output_format_option,
    vs_option,
    workers,
)
from opplab.files import check_own, write_text
from opplab.report.text import terminal_width

COUNT_MAX = 10**9


def _counts(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        name, equals, number = value.rpartition("=")
        if not equals or not name or not number.isdecimal() or len(number) > 10 or not 0 < int(number) <= COUNT_MAX:
            raise click.BadParameter(f"'{value}' is not DUMP=N with N from 1 to {COUNT_MAX}")
        if name in counts:
            raise click.BadParameter(f"'{name}' is there twice")
        counts[name] = int(number)
    return counts


@click.command(name="fleet")
@click.argument("dumps", nargs=-1, required=True, metavar="DUMP|FOLDER|LIST...")
@click.option(
    "-w",
    "--workload",
    required=True,
    metavar="WORKLOAD",
    help="rt-app file (.json), model of `opplab learn` (.toml), or benchmark model.",
)
@one_param_option
@governors_option
@vs_option
@constraints_option
@click.option(
    "--count",
    "counts",
    multiple=True,
    callback=_counts,
    metavar="DUMP=N",
    help="Machines that a dump stands for, by its path or file name (default: 1); may be repeated.",
)
@click.option("--kernel", type=NameOf("kernels"), help="Kernel profile (default: 6.12.117).")
@seconds_option
@iterations_option
@seed_option
@draws_option
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("out/fleet"),
    help="Folder for report.html, fleet.json and each type's answer.",
)
@output_format_option("latex")
@click.option("--all", "every", is_flag=True, help="Print every machine type.")
@jobs_option
@dask_option
def command(
    dumps: tuple[str, ...],
    workload: str,
    params: tuple[str, ...],
    output: Path,
    output_format: str,
    every: bool,
    jobs: int | None,
    dask: str | None,
    **given: Any,
) -> None:
    """Recommend a setting for each machine type of a fleet, with the watts and kWh that it saves.

    DUMP is a machine dump (.tar.xz), or a copied /sys and /proc tree. FOLDER holds several, and LIST (.txt) has
    their paths. Machine files (.toml, e.g. of `opplab fit power`) and names of built-in machines may stand beside
    them. Dumps with the same simulated hardware form one machine type. A dump counts as one machine, or as many as
    --count gives. A generic power curve stands in where a dump has no power. The first governor is the baseline,
    and every setting must do the baseline's work.

    A second call continues an interrupted one. Exit code 1: a dump was refused; the others have their answer.
    """
    from opplab.choice.fleet import fleet
    from opplab.cli.run import cluster
    from opplab.report.block import LINES
    from opplab.sweep.progress import progress

    check_own(output, ("fleet.json", "report.html", "types"), "the answer")
    load = load_of(workload, params)
    kernel = given.pop("kernel")
    given["variants"] = given.pop("vs")
    with cluster(dask, workers(jobs)) as (executor, threads):
        found = fleet(
            dumps,
            load,
            output=output,
            said=lambda line: click.echo(line, err=True),
            governors=given.pop("governors").split(","),
            policy={"kernel": kernel} if kernel else {},
            executor=executor,
            jobs=threads,
            progress=progress,
            **given,
        )
    output.mkdir(parents=True, exist_ok=True)
    note_replaced(output / "fleet.json", found.question)
    write_text(output / "fleet.json", found.to_json())
    write_text(output / "report.html", found.page())
    sys.stdout.write(found.form(output_format, terminal_width(), None if every else LINES))
    if output_format == "text" and (commands := found.commands_text()):
        sys.stdout.write("\nto set it:\n" + "".join(f"  {line}\n" for line in commands.splitlines()))
    if output_format != "text":
        for name, why in found.refused:
            note(f"refused {name}: {why}")
    click.echo(f"wrote {output}/report.html, fleet.json", err=True)
    if found.refused:
        raise click.exceptions.Exit(1)
