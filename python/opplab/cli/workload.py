"""`opplab workload`: look at workload files, and make them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab import _opplab
from opplab.cli.group import Group
from opplab.cli.options import (
    check_workload,
    file_of,
    format_option,
    from_folder,
    machine_option,
    output_option,
    write_new,
)
from opplab.files import read_text, relative
from opplab.report.text import print_table

if TYPE_CHECKING:
    from opplab.groups.settings import Found

NOTES_MAX = 40
"""The most notes on files that are shown."""


@click.group(name="workload", cls=Group)
def command() -> None:
    """Show or create an rt-app workload file, also from control groups."""


@command.command(name="show")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--repeats",
    type=click.Choice(["json-c", "workgen"]),
    default="workgen",
    help="Meaning of repeated keys: json-c as in rt-app itself, workgen as after its workgen script.",
)
@format_option
def show(file: Path, repeats: str, output_format: str) -> None:
    """Show FILE: its tasks, phases and events in file order, each with its line and column.

    Of a model of `opplab learn` (.toml) it is the rt-app file that the model makes.
    """
    from opplab.simulation.workload import rtapp_text

    workload = _opplab.Workload.parse(file.stem, str(file), rtapp_text(file), repeats)
    if output_format == "text":
        click.echo(workload.describe(), nl=False)
        return
    names = ("task", "phase", "line", "column", "key", "event")
    print_table([dict(zip(names, row, strict=True)) for row in workload.events()], output_format)


@command.command(name="new")
@click.argument("name")
@click.option("--tasks", type=click.IntRange(1, 10_000), default=4, help="Number of tasks.")
@click.option("--run", "run_us", type=click.IntRange(1, 10**12), default=2000, help="Work per activation, us.")
@click.option("--period", "period_us", type=click.IntRange(1, 10**12), default=16000, help="Period, us.")
@click.option("--seconds", type=click.IntRange(1, 10**12), default=10, help="Duration, s.")
@output_option("Output file (default: NAME.json).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def new(name: str, tasks: int, run_us: int, period_us: int, seconds: int, output: Path | None, force: bool) -> None:
    """Write an rt-app file of equal periodic tasks, as a start for your own.

    Work is in us of CPU 0 at its highest frequency, boosted where it boosts.
    """
    from opplab.sweep.template import workload_text

    path = file_of(name, ".json", output)
    write_new(path, workload_text(tasks, run_us, period_us, seconds), force)
    click.echo(f"wrote {path}; opplab run {path} --machine NAME", err=True)


def _group_options(run_us: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give the options of the commands that make workloads of control groups."""
    options = (
        machine_option("Machine of an experiment to write (NAME.toml with [[group]]) beside the tasks."),
        click.option(
            "-w",
            "--workload",
            type=click.Path(path_type=Path, dir_okay=False),
            metavar="FILE",
            help="rt-app file whose tasks run in the groups, in place of stand-ins.",
        ),
        click.option(
            "--put",
            "puts",
            multiple=True,
            metavar="TASK=GROUP",
            help="Group of a task of --workload; TASK* matches a prefix, GROUP is a path or its end; may be repeated.",
        ),
        click.option(
            "--tasks",
            type=click.IntRange(1, 10_000),
            default=16,
            help="Largest number of stand-ins per group.",
        ),
        click.option(
            "--run",
            "run_us",
            type=click.IntRange(0, 10**12),
            default=run_us,
            help="Work of a stand-in per activation, us; 0 runs always.",
        ),
        click.option(
            "--period",
            "period_us",
            type=click.IntRange(1, 10**12),
            default=16000,
            help="Period, us.",
        ),
        click.option(
            "--seconds", type=click.IntRange(1, 10**12), help="Duration, s (default: that of --workload, else 10)."
        ),
        output_option("Output file (default: groups.json, or groups.toml with --machine)."),
        click.option("--force", is_flag=True, help="Overwrite an existing file."),
    )

    def with_options(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return with_options


def _write_groups(
    found: Found,
    about: Sequence[str],
    *,
    machine: str | None,
    workload: Path | None,
    puts: Sequence[str],
    tasks: int,
    run_us: int,
    period_us: int,
    seconds: int,
    output: Path | None,
    force: bool,
    explain: bool = False,
) -> None:
    """Write what was found as a workload, or with a machine as an experiment, and show it."""
    from opplab.groups import settings
    from opplab.simulation.workload import DEFAULT_S
    from opplab.sweep.template import experiment_text
    from opplab.sweep.variants import with_variants

    work = settings.Work(run_us, period_us, tasks, seconds)
    if puts and workload is None:
        raise click.UsageError("--put needs --workload: stand-ins are in their groups")
    placed = settings.place(puts, found.groups)
    path = output or Path("groups.toml" if machine else "groups.json")
    if machine and path.suffix != ".toml":
        raise click.UsageError(f"{path}: an experiment (--machine) is a .toml file")
    if not machine and path.suffix != ".json":
        raise click.UsageError(f"{path}: a workload is a .json file; --machine makes an experiment, a .toml")
    texts: list[tuple[Path, str]] = []
    own_s = None
    if workload is not None:
        check_workload(workload)
        given = read_text(workload, "a workload file")
        parsed = _opplab.Workload.parse(workload.stem, str(workload), given, "workgen")
        own_s = parsed.duration_s
        settings.check_names(placed, {row[0] for row in parsed.events()})
        beside = workload
        if not machine:
            texts.append((path, settings.in_workload(given, found.groups, placed)))
    else:
        beside = path.with_suffix(".json")
        texts.append((beside, settings.workload_text(about, found.groups, work, settings=not machine)))
    for place, text in texts:
        _opplab.Workload.parse(place.stem, str(place), text, "workgen")
    if machine:
        on = from_folder(machine, path.parent)
        rtapp = relative(beside, path.parent)
        policies = with_variants({"governor": "schedutil"}, ())
        text = experiment_text(path.stem, on, rtapp, policies, work.seconds or own_s or DEFAULT_S)
        comments = "".join(f"# {' '.join(line.split())}\n" for line in about)
        text = comments + text + settings.group_tables(found.groups, placed)
        _opplab.Experiment.parse(str(path), text)
        texts.append((path, text))
    for place, _ in texts:
        if place.exists() and not force:
            raise click.UsageError(f"{place} exists; --force overwrites it")
    for place, text in texts:
        write_new(place, text, force)
    # A workload of the user's own has no stand-ins: the table has the groups' threads.
    print_table(settings.rows(found.groups, work.most if workload is None else None), "text")
    if explain:
        for one in found.groups:
            click.echo(f"\n{one.name}")
            for why in one.why:
                click.echo(click.wrap_text(why, 78, "  ", "    "))
    notes = found.notes if workload is not None else [*settings.notes_of_threads(found.groups, work), *found.notes]
    for note in notes[:NOTES_MAX]:
        click.echo(f"note: {note}", err=True)
    if len(notes) > NOTES_MAX:
        click.echo(f"note: {len(notes) - NOTES_MAX} more", err=True)
    wrote = " and ".join(str(place) for place, _ in texts)
    click.echo(f"wrote {wrote}; opplab run {path}{'' if machine else ' --machine NAME'}", err=True)


@command.command(name="from-cgroup")
@click.argument("tree", metavar="PATH", type=click.Path(path_type=Path, exists=True))
@click.option("--depth", type=click.IntRange(1, 1000), help="Levels with groups of their own (default: all).")
@click.option("--only", metavar="GLOB", help="Pattern of the groups to keep, e.g. '/system.slice/*'.")
@_group_options(2000)
def from_cgroup(
    tree: Path,
    depth: int | None,
    only: str | None,
    **given: Any,
) -> None:
    """Write a workload with the control groups of a cgroup tree.

    PATH is /sys/fs/cgroup or a group in it, a copy, a tar archive of a copy, or a text snapshot (cgroup_before.txt of a
    recording, `grep -r . /sys/fs/cgroup`), v1 or v2. A copy with sys/fs/cgroup and proc also has the names of
    threads. Weights, quotas, bursts, CPU sets and clamps are kept, with the arithmetic
    as comments. A tree has no workload: stand-ins run, one per thread of a group, or the tasks of --workload. Notes
    name files that are empty, unreadable or malformed.
    """
    from opplab.groups import cgroupfs
    from opplab.groups.settings import safe_part

    found = cgroupfs.read(tree, depth, only, keep_empty=given["workload"] is not None)
    about = [f"Control groups of {safe_part(tree.name or 'cgroup')}, by opplab workload from-cgroup."]
    _write_groups(found, about, **given)


@command.command(name="from-pod")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--kubelet",
    metavar="RELEASE",
    default="1.35",
    help="kubelet release, which sets the weights of pods.",
)
@click.option(
    "--runtime",
    metavar="NAME-RELEASE",
    help="Container runtime, which sets the weights of containers (default: kubelet's of its time).",
)
@click.option("--node-cpus", metavar="QUANTITY", help="Allocatable CPUs of the node, for the weight of all pods.")
@click.option(
    "--cfs-period-us",
    type=click.IntRange(1_000, 1_000_000),
    default=100_000,
    help="cpuCFSQuotaPeriod of the kubelet.",
)
@_group_options(0)
def from_pod(
    file: Path,
    kubelet: str,
    runtime: str | None,
    node_cpus: str | None,
    cfs_period_us: int,
    **given: Any,
) -> None:
    """Write a workload with the control groups of Kubernetes pods.

    FILE is YAML or JSON: pods, lists, and templates such as Deployments. Requests become cpu.weight, and limits become
    cpu.max, for kubepods, QoS classes, pods, containers and sidecars. The arithmetic is printed and kept as comments.
    Weights follow the line of KEP-2254, or from kubelet 1.35 on the newer curve of runc and crun.
    Stand-ins that always run fill each container's limit; --workload replaces them.
    """
    from opplab.groups import pods
    from opplab.groups.settings import safe_part

    found = pods.read(file, pods.Node(kubelet, runtime or "", cfs_period_us, node_cpus or ""))
    about = [f"Control groups of {safe_part(file.name)}, by opplab workload from-pod."]
    _write_groups(found, about, explain=True, **given)
