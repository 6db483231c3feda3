"""`opplab meter`: a case of an experiment, or one put together, seen through a meter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from opplab.cli.options import (
    BuiltIn,
    format_option,
    machine_option,
    note,
    one_policy_options,
    policy_of,
    variants_on,
    vs_option,
)
from opplab.errors import InputError
from opplab.report.text import print_table
from opplab.simulation.policy import Policy

if TYPE_CHECKING:
    from opplab.simulation.run import Run

METERS = ("rails", "rapl", "turbostat", "battery", "tasks")


@click.command(name="meter")
@click.argument("meter", type=click.Choice(METERS))
@click.argument("experiment", required=False, type=BuiltIn("experiment"))
@click.option("--every", "every_s", type=float, default=1.0, help="Time between two readings, s.")
@click.option("--seconds", type=float, help="Simulated time, s (default: the case's).")
@click.option("--policy", help="Label of the experiment's policy (default: the first).")
@click.option("--param", help="Parameters of the experiment's case, e.g. tasks=10 (default: the first).")
@click.option("--benchmark", help="Label of the experiment's workload (default: the first).")
@machine_option("Machine of the workload.")
@click.option("-w", "--workload", metavar="NAME|FILE", help="Benchmark model, rt-app file, or model of 'opplab learn'.")
@one_policy_options
@vs_option
@format_option
def command(
    meter: str,
    experiment: str | None,
    every_s: float,
    seconds: float | None,
    policy: str | None,
    param: str | None,
    benchmark: str | None,
    machine: str | None,
    workload: str | None,
    vs: tuple[str, ...],
    output_format: str,
    **ad_hoc: Any,
) -> None:
    """Run one case and print the readings of METER.

    The case is the first of EXPERIMENT (built in, or a .toml file) that matches --policy, --benchmark and --param.
    Alternatively --machine and --workload define it; each --vs adds a variant of its policy.

    \b
    rails      mean watts of each cluster
    rapl       package energy counters with RAPL's unit, update period and wrap
    turbostat  turbostat's table, in its own format
    battery    the battery gauge of text 003: rolling voltage and current, trimmed
    tasks      energy of each task (its CPU, its part of shared power), of a GPU
    """  # noqa: D301
    from opplab.simulation.machine import Machine
    from opplab.simulation.simulate import simulate
    from opplab.simulation.workload import load_of
    from opplab.sweep.variants import Variant

    given = policy_of(ad_hoc)
    if meter == "turbostat" and output_format != "text":
        raise click.UsageError("turbostat's table has its own format: leave out --format")
    if experiment is not None:
        if machine or workload or given or vs:
            raise click.UsageError("an EXPERIMENT has its own machine, workload and policies: give it alone")
        runs = {"": _of_experiment(experiment, seconds, policy, benchmark, param)}
    else:
        if not machine or workload is None:
            raise click.UsageError("give an EXPERIMENT (see 'opplab list experiments'), or --machine and --workload")
        load, on = load_of(workload), Machine.load(machine)
        variants = variants_on([machine], given, vs, note) if vs else [Variant("", given)]
        runs = {one.label: simulate(on, load, Policy(**one.keys), seconds=seconds) for one in variants}
    if output_format != "text":
        rows = [
            {**({"variant": label} if vs else {}), **row}
            for label, run in runs.items()
            for row in run.meter(meter, every_s).to_dicts()
        ]
        print_table(rows, output_format)
        return
    for number, (label, run) in enumerate(runs.items()):
        if label:
            click.echo("\n" * (number > 0) + f"{label}:")
        _print(run, meter, every_s)


def _print(run: Run, meter: str, every_s: float) -> None:
    if meter == "turbostat":
        click.echo(run.turbostat(every_s), nl=False)
        return
    frame = run.meter(meter, every_s)
    print_table(frame.to_dicts(), "text")
    if meter == "battery":
        kept = frame.filter("kept")
        click.echo(
            f"mean of {kept.height} readings that are not trimmed: {float(kept['power_w'].to_numpy().mean()):.4f} W"
        )


def _of_experiment(
    name: str, seconds: float | None, policy: str | None, benchmark: str | None, param: str | None
) -> Run:
    from opplab.simulation.run import Run
    from opplab.sweep.experiments import Experiment

    chosen = Experiment.load(name, seconds=seconds)
    wanted = {"policy": policy, "benchmark": benchmark, "param": param}
    cases = chosen.cases
    for field, value in wanted.items():
        if value is None:
            continue
        known = list(dict.fromkeys(getattr(case, field) for case in cases))
        cases = [case for case in cases if getattr(case, field) == value]
        if not cases:
            raise InputError(f"{name} has no case with --{field} {value}; it has {', '.join(known)}")
    inner = cases[0].inner
    return Run(inner, inner.run(False))
