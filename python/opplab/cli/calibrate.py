"""`opplab calibrate`: fit a benchmark model's free constants to a baseline, and show all that were fitted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from opplab.cli.options import format_option, jobs_option, output_option, workers
from opplab.files import write_text
from opplab.report.text import print_table


@click.command(name="calibrate")
@click.argument("benchmark", required=False)
@click.argument("machine", required=False)
@click.option("--baseline", type=click.Path(path_type=Path), help="Table of the baseline (default: the published one).")
@click.option(
    "--fit", "only", multiple=True, metavar="CONSTANT", help="Constant to fit (default: all); may be repeated."
)
@click.option(
    "--at",
    "points",
    multiple=True,
    metavar="PARAM",
    help="Point to fit, e.g. clients=1 (default: all); may be repeated.",
)
@click.option("--rounds", type=click.IntRange(min=1), default=2, help="Rounds over all constants.")
@click.option("--steps", type=click.IntRange(min=1), default=6, help="Evaluations per constant and round.")
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=3,
    help="Seeds per evaluation; their mean is fitted.",
)
@click.option(
    "--experiment", type=click.Path(path_type=Path, exists=True), help="Experiment file whose baseline is fitted."
)
@jobs_option
@output_option("Output file (default: BENCHMARK@MACHINE.toml).")
@click.option(
    "--show",
    is_flag=True,
    help="Print fitted and assumed constants with sources and residuals: all, or of BENCHMARK, of BENCHMARK@MACHINE or "
    "of a machine.",
)
@format_option
def command(
    benchmark: str | None,
    machine: str | None,
    jobs: int | None,
    output: Path | None,
    show: bool,
    output_format: str,
    **given: Any,
) -> None:
    """Fit the free constants of BENCHMARK on MACHINE to the baseline's column only.

    The experiment that names the calibration BENCHMARK@MACHINE supplies the baseline policy and the published points.
    The fit moves one constant at a time, and writes values, sources and residual as TOML.
    Experiments read the file from data/calibration.
    """
    from opplab.agreement import calibration

    if show:
        print_table(calibration.show("@".join(filter(None, (benchmark, machine)))), output_format)
        return
    if not benchmark or not machine:
        raise click.UsageError("give BENCHMARK and MACHINE, or --show")

    def progress(values: Mapping[str, int], distance: float) -> None:
        words = ", ".join(f"{name} = {value}" for name, value in values.items())
        click.echo(f"{words}: {100 * distance:.2f} % off", err=True)

    made = calibration.fit(benchmark, machine, jobs=workers(jobs), progress=progress, **given)
    path = output or Path(f"{benchmark}@{machine}.toml")
    write_text(path, calibration.to_toml(made))
    rows = [
        {"point": place or "all", "published": old, "simulated": new, "ratio": new / old}
        for place, old, new in made.points
    ]
    print_table(rows, output_format)
    if made.left_out:
        click.echo(f"note: left out, as {made.experiment} has no case of it: {', '.join(made.left_out)}", err=True)
    click.echo(f"wrote {path}: {made.residual:.1f} % off after {made.runs} runs", err=True)
