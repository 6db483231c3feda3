"""`opplab compare`: tables of results, side by side."""

from __future__ import annotations

import sys

import click

from opplab.compare import TABLES, mmtests_table, order_runs
from opplab.mmtests import runs_of
from opplab.runs import Problem

FORMATS = ("text", "markdown", "html", "csv", "json", "latex")


def _names(_context: click.Context, _parameter: click.Parameter, value: str | None) -> list[str]:
    return [name for name in (value or "").split(",") if name]


@click.command(name="compare")
@click.argument("source", nargs=-1, required=True)
@click.option("--runs", callback=_names, metavar="A,B,...", help="Runs to compare, in order (default: all).")
@click.option("--baseline", help="The run that the others are compared with (default: the first).")
@click.option(
    "-b", "--benchmark", "benchmarks", multiple=True, metavar="NAME[:METRIC]", help="May be given repeatedly."
)
@click.option("--metric", default="", help="Only this metric of the benchmark, e.g. tput.")
@click.option("--report", default="", help="A second view of the same logs, e.g. latency for fio.")
@click.option("--method", type=click.Choice(["default", "mmtests"]), default="default", show_default=True)
@click.option("--table", default="detail", show_default=True, help=f"{', '.join(TABLES)} or monitor:NAME.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the bootstrap.")
def command(
    source: tuple[str, ...],
    runs: list[str],
    baseline: str | None,
    benchmarks: tuple[str, ...],
    metric: str,
    report: str,
    method: str,
    table: str,
    form: str,
    seed: int,
) -> None:
    """Compare the runs in SOURCE: an mmtests result tree."""
    problems: list[Problem] = []
    for one in benchmarks:
        name, _, own_metric = one.partition(":")
        text, skipped = mmtests_table(
            source[0],
            order_runs(runs or runs_of(source[0]), baseline),
            name,
            metric=own_metric or metric,
            report=report,
            table=table,
            form=form,
            seed=seed,
        )
        problems += skipped
        sys.stdout.write(text)
    for problem in dict.fromkeys(map(str, problems)):
        click.echo(f"opplab: skipped {problem}", err=True)
