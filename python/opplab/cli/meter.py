"""`opplab meter`: a case of an experiment, or one put together, seen through a meter."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from opplab.cli.output import format_option
from opplab.errors import InputError

if TYPE_CHECKING:
    from opplab.simulation import api

METERS = ("rails", "rapl", "turbostat", "battery")


@click.command(name="meter")
@click.argument("meter", type=click.Choice(METERS))
@click.argument("experiment", required=False)
@click.option("--every", "every_s", type=float, default=1.0, show_default=True, help="Seconds between two readings.")
@click.option("--seconds", type=float, help="Simulated time.")
@click.option("--policy", help="Experiment: label of the policy (the first).")
@click.option("--param", help="Experiment: parameters of the case, e.g. tasks=10 (the first).")
@click.option("--benchmark", help="Experiment: label of the workload (the first).")
@click.option("--machine", help="Ad hoc: built-in name or .toml file.")
@click.option("--workload", type=click.Path(path_type=Path), help="Ad hoc: rt-app file.")
@click.option("--governor", help="Ad hoc: cpufreq governor (schedutil).")
@click.option("--kernel", help="Ad hoc: kernel profile (6.12).")
@click.option("--driver", help="Ad hoc: cpufreq driver (the machine's own).")
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
    workload: Path | None,
    output_format: str,
    **ad_hoc: str | None,
) -> None:
    r"""Run one case and show what METER shows of it.

    The case is the first of EXPERIMENT (built in, or a .toml file) that fits --policy, --benchmark and --param, or
    one put together: --machine M --workload FILE.

    \b
    rails      mean watts of each cluster
    rapl       package energy counters with RAPL's unit, update period and wrap
    turbostat  turbostat's table, in its own format
    battery    the battery gauge of text 003: rolling voltage and current, trimmed
    """
    from opplab.simulation import api

    given = {name: value for name, value in ad_hoc.items() if value is not None}
    if experiment is not None:
        if machine or workload or given:
            raise click.UsageError("give an EXPERIMENT, or --machine and --workload")
        run = _of_experiment(experiment, seconds, policy, benchmark, param)
    else:
        if not machine or workload is None:
            raise click.UsageError("give an EXPERIMENT (see 'opplab list experiments'), or --machine and --workload")
        load = api.Workload.load(workload)
        length = seconds if seconds is not None else load.duration_s
        if length is None:
            raise click.UsageError("the workload has no duration: give --seconds")
        chosen = api.Policy(**given)  # type: ignore[arg-type]
        run = api.simulate(api.Machine.load(machine), load, chosen, seconds=length)
    if meter == "turbostat":
        if output_format != "text":
            raise click.UsageError("turbostat's table has its own format: leave out --format")
        click.echo(run.turbostat(every_s), nl=False)
        return
    from opplab.cli.output import print_table

    frame = run.meter(meter, every_s)
    print_table(frame.to_dicts(), output_format)
    if meter == "battery" and output_format == "text":
        kept = frame.filter("kept")
        click.echo(
            f"mean of {kept.height} readings that are not trimmed: {float(kept['power_w'].to_numpy().mean()):.4f} W"
        )


def _of_experiment(
    name: str, seconds: float | None, policy: str | None, benchmark: str | None, param: str | None
) -> api.Run:
    from opplab.simulation import api
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
    inner = chosen.find(cases[0].hash)
    return api.Run(cases[0], inner, inner.run(False))
