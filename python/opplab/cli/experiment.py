"""`opplab experiment`: look at experiments, and start one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from opplab import catalog
from opplab.cli.group import Group
from opplab.cli.options import (
    BuiltIn,
    NameOf,
    background_option,
    benchmark_of,
    check_workload,
    file_of,
    from_folder,
    machine_option,
    note,
    output_format_option,
    output_option,
    param_option,
    variants_on,
    vs_option,
    write_new,
)
from opplab.files import read_text, relative
from opplab.report.text import print_table, say


@click.group(name="experiment", cls=Group)
def command() -> None:
    """Show an experiment, or create one."""


@command.command(name="show")
@click.argument("name", type=BuiltIn("experiment"))
@output_format_option("toml", what="Output format; toml is the file itself.")
def show(name: str, output_format: str) -> None:
    """Show the machines, workloads, policies and cases of experiment NAME (built in, or a .toml)."""
    from opplab.sweep.experiments import Experiment

    if output_format == "toml":
        click.echo(read_text(catalog.find("experiment", name), "an experiment file"), nl=False)
        return
    chosen = Experiment.load(name)
    rows: dict[tuple[str, ...], int] = {}
    for case in chosen.cases:
        key = (case.machine, case.benchmark, case.param, case.policy, case.kernel)
        rows[key] = rows.get(key, 0) + 1
    table = [
        dict(zip(("machine", "workload", "parameters", "policy", "kernel", "iterations"), (*key, count), strict=True))
        for key, count in rows.items()
    ]
    if output_format != "text":
        print_table(table, output_format)
        return
    facts: dict[str, Any] = {
        "machines": ", ".join(sorted({case.machine for case in chosen.cases})),
        "workloads": ", ".join(dict.fromkeys(case.benchmark for case in chosen.cases)),
        "policies": ", ".join(chosen.policies),
        "compared": ", ".join(f"{variant} with {base}" for base, variant in chosen.pairs),
        "published": f"text {chosen.published_seed}" if chosen.published_seed else "",
        "cases": f"{len(chosen.cases)} of {chosen.measured_time()}",
        "file": chosen.file,
    }
    say(f"{chosen.name}: {chosen.about}")
    for what, words in facts.items():
        if words:
            say(f"  {what + ':':<11} {words}")
    click.echo("")
    print_table(table, "text")


@command.command(name="new")
@click.argument("name")
@machine_option("Machine of the workload. May be repeated.", required=True, multiple=True)
@click.option(
    "-w",
    "--workload",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE|BENCHMARK",
    help="rt-app file, or benchmark model (list benchmarks).",
)
@param_option
@background_option
@click.option(
    "--governor",
    type=NameOf("governors", several=True),
    metavar="A[,B,...]",
    default="schedutil,performance",
    help="Governors to compare; the first is the baseline.",
)
@vs_option
@click.option(
    "--seconds", type=click.FloatRange(min=0.001), help="Simulated time per case, s (default: the workload's, or 10)."
)
@click.option(
    "--iterations",
    type=click.IntRange(1, 100_000),
    default=3,
    help="Iterations of each case, each with its own seed.",
)
@output_option("Output file (default: NAME.toml).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(
    name: str,
    machine: tuple[str, ...],
    workload: Path,
    params: tuple[str, ...],
    background: str | None,
    governor: str,
    vs: tuple[str, ...],
    seconds: float | None,
    iterations: int,
    output: Path | None,
    force: bool,
) -> None:
    """Write an experiment file that compares governors, as a start for your own."""
    from opplab.simulation.fitted import with_calibration
    from opplab.simulation.machine import Machine
    from opplab.simulation.workload import Benchmark, Workload, length_of
    from opplab.sweep.template import experiment_text

    path = file_of(name, ".toml", output)
    notes: list[str] = []
    benchmark = benchmark_of(str(workload), params)
    if benchmark is None:
        check_workload(workload)
        where = relative(workload, path.parent)
    else:
        where = workload.name
        benchmark = with_calibration(benchmark, where, [Machine.load(one).name for one in machine])
    load = Workload.load(workload) if benchmark is None else Benchmark(workload.name)
    write_new(
        path,
        experiment_text(
            name,
            [from_folder(one, path.parent) for one in machine],
            where,
            variants_on(machine, {"governor": governor}, vs, notes.append),
            length_of(load, seconds),
            iterations=iterations,
            benchmark=benchmark,
            background=from_folder(background or "", path.parent),
            notes=notes,
        ),
        force,
    )
    for words in notes:
        note(words)
    from opplab.sweep.experiments import Experiment

    cases = len(Experiment.load(path).cases)
    click.echo(f"wrote {path}: {cases} cases; opplab run {path}", err=True)
