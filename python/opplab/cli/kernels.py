"""`opplab kernels`: what differs between two kernels, and what that does on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from opplab.cli.group import Group
from opplab.cli.options import BuiltIn, NameOf, format_option
from opplab.report.text import flow, print_table

if TYPE_CHECKING:
    from opplab.kernel import GateChange


@click.group(name="kernels", cls=Group)
def command() -> None:
    """Compare kernels."""


@command.command()
@click.argument("before", type=NameOf("kernels"))
@click.argument("after", type=NameOf("kernels"))
@click.option("-m", "--machine", type=BuiltIn("machine"), help="Machine to run both kernels on, built in or a file.")
@click.option("--workload", help="Benchmark model or rt-app file (default: four tasks of 4 ms in 16 ms).")
@click.option(
    "--governor", type=NameOf("governors"), default="schedutil", show_default=True, help="Governor of the runs."
)
@click.option("--seconds", type=float, default=2.0, show_default=True, help="Simulated time per run, s.")
@click.option("--seeds", type=click.IntRange(1, 100), default=3, show_default=True, help="Runs per kernel.")
@format_option
def diff(
    before: str,
    after: str,
    machine: str | None,
    workload: str | None,
    governor: str,
    seconds: float,
    seeds: int,
    output_format: str,
) -> None:
    """List the gates that differ between two kernels, with the releases and sources of each change.

    BEFORE and AFTER are mainline releases (6.12), point releases (6.6.88) or a distribution's names
    (6.1.0-56-amd64). With --machine both kernels run the workload with the same seeds.
    """
    from opplab.kernel import KernelProfile, kernel_diff

    changes = kernel_diff(before, after)
    runs = [] if machine is None else _runs((before, after), machine, workload, governor, seconds, seeds)
    if output_format != "text":
        print_table(runs or [change._asdict() for change in changes], output_format)
        return
    _show(before, after, changes)
    for name in (before, after):
        click.echo(flow(f"proven of {name}: {KernelProfile(name).proven}", 80))
    if runs:
        of = f"{seeds} run{'s' * (seeds > 1)} of {seconds:g} s"
        click.echo(
            f"\n{workload or 'four periodic tasks'} on {machine} under {governor}, means of {of} with the same seeds:\n"
        )
        print_table(runs, output_format)


def _show(before: str, after: str, changes: list[GateChange]) -> None:
    """Print one paragraph a gate."""
    count = f"{len(changes) or 'no'} gate{'s' * (len(changes) != 1)} differ{'s' * (len(changes) == 1)}"
    click.echo(f"{before} to {after}: {count}\n")
    for change in changes:
        click.echo(flow(f"{change.gate}: {change.before} -> {change.after} (since {change.since or '-'})", 80))
        for head, text in (
            ("", change.differs),
            ("before: ", change.before_meaning),
            ("after: ", change.after_meaning),
            ("source: ", change.source),
        ):
            click.echo(flow(f"  {head}{text}", 80))
        click.echo("")


def _runs(
    kernels: tuple[str, str], machine: str, workload: str | None, governor: str, seconds: float, seeds: int
) -> list[dict[str, Any]]:
    """Run both kernels with the same seeds; one row a metric: the means, and the change with its interval."""
    import opplab
    from opplab.simulation.workload import Benchmark, load_of
    from opplab.summary.answer import paired_change, points
    from opplab.sweep.confidence import mean_of
    from opplab.sweep.fitted import constants_on

    on = opplab.Machine.load(machine)
    work = load_of(workload or opplab.Workload.periodic(4, run_us=4_000, period_us=16_000))
    if isinstance(work, Benchmark):
        _, constants = constants_on(work.name, on.name)
        work = opplab.Workload.benchmark(work.name, **constants)
    runs: list[dict[str, dict[int, float]]] = []
    units: dict[str, tuple[str, str]] = {}
    for kernel in kernels:
        policy = opplab.Policy(kernel=kernel, governor=governor)
        found: dict[str, dict[int, float]] = {}
        for seed in range(1, seeds + 1):
            metrics = opplab.simulate(on, work, policy, seconds=seconds, seed=seed).metrics
            for row in metrics.filter(metrics["better"].is_in(["lower", "higher"])).to_dicts():
                name = row["metric"]
                # What a run does not know is not 0.
                if ":" not in name and row["value"] is not None:
                    found.setdefault(name, {})[seed] = row["value"]
                    units[name] = row["unit"], row["better"]
        runs.append(found)
    before, after = runs
    rows = []
    for name in [name for name in before if name in after]:
        unit, better = units[name]
        old, new = list(before[name].values()), list(after[name].values())
        pair = after[name], before[name]
        change = points(*pair) if unit == "%" else paired_change(better, *pair, unit)
        known = {} if change is None else {"low": change.certainty.low, "high": change.certainty.high}
        if change is not None:
            words = change.certainty.words
        elif any(old):
            words = "no change in percent: some values are 0"
        else:
            words = "from 0" if any(new) else "0 in all runs"
        rows.append(
            {
                "metric": name,
                "unit": unit,
                **{
                    kernel: round(mean_of(own, better, unit), 4)
                    for kernel, own in zip(kernels, (old, new), strict=True)
                },
                "change": None if change is None else round(change.value, 2),
                "low": known.get("low"),
                "high": known.get("high"),
                "in": "points" if unit == "%" else "%",
                "certainty": words,
            }
        )
    return rows
