"""`opplab workload`: look at workload files, and make them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opplab import _opplab, catalog
from opplab.cli.group import Group
from opplab.cli.options import check_workload, file_of, format_option, machine_option, output_option, write_new
from opplab.report.text import print_table

if TYPE_CHECKING:
    from opplab.groups.settings import Found, Work

NOTES_MAX = 40
"""The most notes on files that are shown."""


@click.group(name="workload", cls=Group)
def command() -> None:
    """Look at rt-app workload files, start one, or make one of control groups."""


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


def _group_options(run_us: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give the options of the commands that make workloads of control groups."""
    options = (
        machine_option("Write an experiment on it (NAME.toml with [[group]]) beside the tasks."),
        click.option(
            "-w",
            "--workload",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="An rt-app file whose tasks run in the groups, in place of stand-ins.",
        ),
        click.option(
            "--put",
            "puts",
            multiple=True,
            metavar="TASK=GROUP",
            help="The group of a task of --workload (TASK*: all that begin so; GROUP: a path or its end); repeatable.",
        ),
        click.option(
            "--tasks",
            type=click.IntRange(1, 10_000),
            default=16,
            show_default=True,
            help="Stand-ins of a group, at most.",
        ),
        click.option(
            "--run",
            "run_us",
            type=click.IntRange(0, 10**12),
            default=run_us,
            show_default=True,
            help="Work of a stand-in each time, in us; 0: it always runs.",
        ),
        click.option(
            "--period", "period_us", type=click.IntRange(1, 10**12), default=16000, show_default=True, help="In us."
        ),
        click.option("--seconds", type=click.IntRange(1, 10**12), default=10, show_default=True, help="Duration."),
        output_option("File (groups.json; with --machine groups.toml)."),
        click.option("--force", is_flag=True, help="Overwrite the output."),
    )

    def with_options(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return with_options


def _write_groups(
    found: Found,
    about: Sequence[str],
    work: Work,
    machine: str | None,
    workload: Path | None,
    puts: Sequence[str],
    output: Path | None,
    force: bool,
    *,
    explain: bool = False,
) -> None:
    """Write what was found as a workload, or with a machine as an experiment, and show it."""
    from opplab.groups import settings
    from opplab.sweep.template import experiment_text
    from opplab.sweep.variants import with_variants

    if puts and workload is None:
        raise click.UsageError("--put needs --workload: stand-ins are in their groups")
    tasks = settings.place(puts, found.groups)
    path = output or Path("groups.toml" if machine else "groups.json")
    if machine and path.suffix != ".toml":
        raise click.UsageError(f"{path}: an experiment (--machine) is a .toml file")
    if not machine and path.suffix != ".json":
        raise click.UsageError(f"{path}: a workload is a .json file; --machine makes an experiment, a .toml")
    texts: list[tuple[Path, str]] = []
    if workload is not None:
        check_workload(workload)
        given = catalog.read_text(workload, "a workload file")
        parsed = _opplab.Workload.parse(workload.stem, str(workload), given, "workgen")
        settings.check_names(tasks, {row[0] for row in parsed.events()})
        beside = workload
        if not machine:
            texts.append((path, settings.in_workload(given, found.groups, tasks)))
    else:
        beside = path.with_suffix(".json")
        texts.append((beside, settings.workload_text(about, found.groups, work, settings=not machine)))
    for place, text in texts:
        _opplab.Workload.parse(place.stem, str(place), text, "workgen")
    if machine:
        on = os.path.relpath(machine, path.parent) if machine.endswith(".toml") else machine
        rtapp = os.path.relpath(beside, path.parent)
        policies = with_variants({"governor": "schedutil"}, ())
        text = experiment_text(path.stem, on, rtapp, policies, work.seconds)
        comments = "".join(f"# {' '.join(line.split())}\n" for line in about)
        text = comments + text + settings.group_tables(found.groups, tasks)
        _opplab.Experiment.parse(str(path), text)
        texts.append((path, text))
    for place, _ in texts:
        if place.exists() and not force:
            raise click.UsageError(f"{place} exists; --force overwrites it")
    for place, text in texts:
        write_new(place, text, force)
    print_table(settings.rows(found.groups), "text")
    if explain:
        for one in found.groups:
            click.echo(f"\n{one.name}")
            for why in one.why:
                click.echo(click.wrap_text(why, 78, "  ", "    "))
    for note in found.notes[:NOTES_MAX]:
        click.echo(f"note: {note}", err=True)
    if len(found.notes) > NOTES_MAX:
        click.echo(f"note: {len(found.notes) - NOTES_MAX} more", err=True)
    wrote = " and ".join(str(place) for place, _ in texts)
    click.echo(f"wrote {wrote}; opplab run {path}{'' if machine else ' --machine NAME'}", err=True)


@command.command(name="from-cgroup")
@click.argument("tree", metavar="PATH", type=click.Path(path_type=Path, exists=True))
@click.option("--depth", type=click.IntRange(1, 1000), help="Levels that have groups of their own (all).")
@click.option("--only", metavar="GLOB", help="Groups that are wanted, like '/system.slice/*'.")
@_group_options(2000)
def from_cgroup(
    tree: Path,
    depth: int | None,
    only: str | None,
    machine: str | None,
    workload: Path | None,
    puts: tuple[str, ...],
    tasks: int,
    run_us: int,
    period_us: int,
    seconds: int,
    output: Path | None,
    force: bool,
) -> None:
    """Write a workload with the control groups of a cgroup tree.

    PATH is /sys/fs/cgroup or a group in it, a copy of one, or a tar archive of a copy; v1 and v2. A copy that has
    sys/fs/cgroup and proc in it gives the threads their names. Weights, quotas, bursts, CPU sets and clamps are kept,
    with the arithmetic as comments. A tree does not tell what threads do: stand-ins run, as many as a group has
    threads, or the tasks of --workload. Files that are empty, unreadable or odd are named in notes.
    """
    from opplab.groups import cgroupfs
    from opplab.groups.settings import Work, safe_part

    found = cgroupfs.read(tree, depth, only, keep_empty=workload is not None)
    about = [f"Control groups of {safe_part(tree.name or 'cgroup')}, by opplab workload from-cgroup."]
    work = Work(run_us, period_us, tasks, seconds)
    _write_groups(found, about, work, machine, workload, puts, output, force)


@command.command(name="from-pod")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--kubelet", metavar="RELEASE", default="1.35", show_default=True, help="Decides how pods get weights.")
@click.option("--runtime", metavar="NAME-RELEASE", help="runc or crun, which gives containers theirs (kubelet's time).")
@click.option("--node-cpus", metavar="QUANTITY", help="Allocatable CPUs of the node, for the weight of all pods.")
@click.option(
    "--cfs-period-us",
    type=click.IntRange(1_000, 1_000_000),
    default=100_000,
    show_default=True,
    help="kubelet's cpuCFSQuotaPeriod.",
)
@_group_options(0)
def from_pod(
    file: Path,
    kubelet: str,
    runtime: str | None,
    node_cpus: str | None,
    cfs_period_us: int,
    machine: str | None,
    workload: Path | None,
    puts: tuple[str, ...],
    tasks: int,
    run_us: int,
    period_us: int,
    seconds: int,
    output: Path | None,
    force: bool,
) -> None:
    """Write a workload with the control groups of Kubernetes pods.

    FILE is YAML or JSON: pods, lists, and templates of Deployments and the like. Requests become cpu.weight, limits
    cpu.max, in kubepods, its QoS classes, pods and containers, sidecars too; the arithmetic is shown and written as
    comments. Weights follow KEP-2254's line, or runc's and crun's newer curve, which kubelet has from 1.35 on.
    Stand-ins that always run, as many as reach a container's limit, show what it gets; --workload brings others.
    """
    from opplab.groups import pods
    from opplab.groups.settings import Work, safe_part

    found = pods.read(file, pods.Node(kubelet, runtime or "", cfs_period_us, node_cpus or ""))
    about = [f"Control groups of {safe_part(file.name)}, by opplab workload from-pod."]
    work = Work(run_us, period_us, tasks, seconds)
    _write_groups(found, about, work, machine, workload, puts, output, force, explain=True)
