"""`opplab trace`: look into recorded traces and write them in other forms."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from opplab.cli.group import Group
from opplab.cli.options import (
    format_option,
    half_life_option,
    note,
    output_format_option,
    output_option,
    parse_time,
    trace_argument,
    trace_machine_option,
)
from opplab.cli.replay import to_rtapp
from opplab.errors import InputError
from opplab.report.text import print_table, say
from opplab.trace import damage
from opplab.trace.recording import Trace, machine_of

if TYPE_CHECKING:
    from opplab.trace.energy import TraceEnergy

F = TypeVar("F", bound=Callable[..., Any])


def _size(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    """Give a number of bytes: ``500M``, ``20G``."""
    if value is None:
        return None
    match = re.fullmatch(r"(\d+)([kKMGT]?)", value.strip())
    if not match:
        raise click.BadParameter(f"'{value}' is not a size: write it like 500M or 20G")
    return int(match[1]) << (10 * " kMGT".index(match[2].replace("K", "k") or " "))


@click.group(name="trace", cls=Group)
@click.option(
    "--max-unpacked",
    metavar="SIZE",
    callback=_size,
    help="Limit of unpacked size, e.g. 500M or 20G (default: 250 times the file, 16M to 4G).",
)
@click.option(
    "--max-memory",
    metavar="SIZE",
    callback=_size,
    help="Limit of memory for signals -o, view, sql and events (default: 2G).",
)
def command(max_unpacked: int | None, max_memory: int | None) -> None:
    """Inspect recorded traces: trace.dat, perf.data, ftrace text, systrace, Perfetto, also compressed."""
    # Read wherever a file is opened, by crate `trace` and by `Trace`.
    for name, size in (("OPPLAB_MAX_UNPACKED", max_unpacked), ("OPPLAB_MAX_MEMORY", max_memory)):
        if size is not None:
            os.environ[name] = str(size)


command.add_command(to_rtapp)


def selection_options(function: F) -> F:
    """Add ``--event``, ``--from`` and ``--to``."""
    for option in (
        click.option("--to", "to_time", metavar="TIME", help="End of the events, in the form of --from."),
        click.option(
            "--from", "from_time", metavar="TIME", help="Start: 12.5 (s), 300ms, or +0.5 (after the trace's start)."
        ),
        click.option(
            "--event",
            "-e",
            "names",
            multiple=True,
            metavar="NAME",
            help="Event to keep (default: all); may be repeated.",
        ),
    ):
        function = option(function)
    return function


def _span(trace: Trace, from_time: str | None, to_time: str | None) -> tuple[int | None, int | None]:
    def start() -> int:
        return int(trace.info["start_ns"])

    like = "12.5 (s), 300ms or +0.5 (after the start)"
    return parse_time(from_time, start, like), parse_time(to_time, start, like)


@command.command(name="info")
@trace_argument("file")
@output_format_option(only=("text", "json"))
def info(file: Path, output_format: str) -> None:
    """Summarise FILE: events, CPUs, duration, clock and gaps."""
    trace = Trace(file)
    about = trace.info
    if not about["events"]:
        # As what `perf stat record` writes: a whole file without samples.
        note(f"{file}: it holds no event")
    if output_format == "json":
        first = {name: about[name] for name in ("events", "cpus", "duration_ns")}
        click.echo(json.dumps({**first, **{name: about[name] for name in about if name not in first}}, indent=2))
        return
    version = f" version {about['version']}" if about["version"] else ""
    # Exact: trace clocks have more digits than a float.
    length, start = (f"{ns // 10**9}.{ns % 10**9:09}" for ns in (about["duration_ns"], about["start_ns"]))
    clock = f", clock {about['clock']}" if about["clock"] else ""
    say(f"{about['format']}{version}, {about['cpus']} CPUs, {length} s from {start}{clock}")
    for name in ("uname", "writer", "compression"):
        if about[name]:
            say(f"{name}: {about[name]}")
    if about["missed"]:
        lost = sum(count or 0 for _, _, count in about["missed"])
        click.echo(f"gaps: {len(about['missed'])}, {lost} events known to be lost")
    for name, count in sorted(about["events"].items(), key=lambda pair: (-pair[1], pair[0])):
        click.echo(f"{count:>10} {name}")


@command.command(name="events")
@trace_argument("file")
@selection_options
@click.option(
    "--task", "-t", "tasks", multiple=True, metavar="NAME|PID", help="Task that runs or is named in the event."
)
@click.option("--cpu", "-c", "cpus", multiple=True, type=click.IntRange(0, 1 << 20), help="CPU of the event.")
@click.option("--limit", "-n", type=click.IntRange(0, 1 << 62), help="Largest number of events.")
@output_format_option(only=("text", "csv", "json"))
def events(
    file: Path,
    names: tuple[str, ...],
    from_time: str | None,
    to_time: str | None,
    tasks: tuple[str, ...],
    cpus: tuple[int, ...],
    limit: int | None,
    output_format: str,
) -> None:
    """Print the events of FILE in the kernel's form, as CSV, or as JSON lines.

    CSV has the columns of all chosen events; a field that an event lacks is empty.
    """
    from opplab.trace.frames import frame_of, one_table

    trace = Trace(file)
    from_ns, to_ns = _span(trace, from_time, to_time)
    inner = trace.read(names or None, from_ns=from_ns, to_ns=to_ns)
    pids = [int(task) for task in tasks if task.isdigit()]
    comms = [task for task in tasks if not task.isdigit()]
    if output_format == "text":
        some = bool(tasks)
        lines = inner.lines(list(cpus) or None, pids if some else None, comms if some else None, limit)
        sys.stdout.write(lines)
        return
    import polars as pl

    table = one_table({name: frame_of(inner.columns(name)) for name, _, _ in inner.tables()})
    if cpus:
        table = table.filter(pl.col("cpu").is_in(list(cpus)))
    if tasks:
        of_pid = [pl.col(name).is_in(pids) for name in ("common_pid", "pid", "prev_pid", "next_pid") if name in table]
        of_comm = [
            pl.col(name).is_in(comms) for name in ("common_comm", "comm", "prev_comm", "next_comm") if name in table
        ]
        table = table.filter(pl.any_horizontal(*of_pid, *of_comm)) if of_pid or of_comm else table.clear()
    if limit is not None:
        table = table.head(limit)
    if output_format == "csv":
        printable = [
            pl.col(name).bin.encode("hex")
            if dtype == pl.Binary
            else pl.col(name).cast(pl.List(pl.String)).list.join(" ")
            for name, dtype in table.schema.items()
            if dtype == pl.Binary or isinstance(dtype, pl.List)
        ]
        sys.stdout.write(table.with_columns(printable).write_csv())
    else:
        for row in table.iter_rows(named=True):
            values = {name: value for name, value in row.items() if value is not None}
            sys.stdout.write(json.dumps(values, default=lambda raw: raw.hex()) + "\n")


@command.command(name="export")
@trace_argument("file")
@output_option("File or folder to write.", required=True)
@selection_options
def export(file: Path, output: Path, names: tuple[str, ...], from_time: str | None, to_time: str | None) -> None:
    """Convert FILE to another format.

    The output's name selects the format: .parquet (one table), .dat (trace-cmd), .txt (ftrace text), .pftrace
    (Perfetto), or a folder (one Parquet file per event).
    """
    trace = Trace(file)
    from_ns, to_ns = _span(trace, from_time, to_time)
    path = trace.export(output, *names, from_ns=from_ns, to_ns=to_ns)
    click.echo(f"wrote {path}", err=True)


@command.command(name="signals")
@trace_argument("file")
@trace_machine_option("Machine with capacities, frequencies and power (default: a snapshot's)")
@half_life_option
@click.option("--no-invariance", is_flag=True, help="Assume a kernel without frequency invariance.")
@click.option(
    "--deadline",
    "deadline_us",
    type=click.IntRange(1, 10**12),
    metavar="US",
    help="Deadline of every activation, us (default: each task's period).",
)
@output_option("Folder for all tables (Parquet).")
@format_option
def signals(
    file: Path,
    machine: str | None,
    pelt_half_life_ms: int | None,
    no_invariance: bool,
    deadline_us: int | None,
    output: Path | None,
    output_format: str,
) -> None:
    """Rebuild the kernel's signals of FILE: load tracking, residencies, latencies, energy, missed activations.

    Prints one row per CPU, per cluster (with power) and per task; -o writes all tables. Activations are wake-ups of
    the whole trace, those of its start included.
    """
    trace = Trace(file, pelt_half_life_ms=pelt_half_life_ms)
    chosen = machine_of(machine, file) if machine else None
    # Tables of each sample are made only to be written.
    how: dict[str, Any] = {"invariance": not no_invariance, "deadline_us": deadline_us}
    whole = trace.signals(chosen, **how) if output else None
    result = whole or trace.signal_sums(chosen, **how)
    cpus, tasks = result.cpu_summary().to_dicts(), result.task_summary().to_dicts()
    clusters = [] if result.cluster_energy is None else result.cluster_energy.to_dicts()
    if not cpus and not tasks:
        raise InputError(f"{file}: no event that signals follow from (sched_switch, sched_wakeup, cpu_frequency)")
    if output_format == "json":
        found = {"cpus": cpus, "clusters": clusters, "tasks": tasks, "unknown_ns": result.unknown_ns}
        found |= {"left_out": result.left_out, "notes": trace.notes}
        click.echo(json.dumps(found, indent=2))
    else:
        print_table(cpus, output_format)
        if clusters:
            click.echo()
            print_table(clusters, output_format)
        click.echo()
        print_table(tasks, output_format)
    for words in result.left_out:
        note(f"energies are {words}")
    if whole is not None:
        files = whole.write(output)  # type: ignore[arg-type]
        click.echo(f"wrote {output}/ ({len(files)} tables)", err=True)


@command.command(name="energy")
@trace_argument("file")
@trace_machine_option("Machine with the power of cores and clusters", default="auto")
@click.option(
    "--by",
    type=click.Choice(["tasks", "processes", "groups", "apps", "cgroups", "cpus", "clusters", "rails"]),
    help="Table to print (default: clusters, rails and the ten most expensive tasks).",
)
@click.option("--from", "from_time", metavar="TIME", help="Start: 12.5 (s), 300ms, or +0.5 (after the trace's start).")
@click.option("--to", "to_time", metavar="TIME", help="End, in the form of --from; at most the trace's own.")
@output_option("Folder for all tables (Parquet).")
@click.option(
    "--perfetto", type=click.Path(path_type=Path), help="File for a Perfetto trace with counter tracks of power."
)
@format_option
def energy(
    file: Path,
    machine: str,
    by: str | None,
    from_time: str | None,
    to_time: str | None,
    output: Path | None,
    perfetto: Path | None,
    output_format: str,
) -> None:
    """Compute the energy of FILE on a machine, by CPU, cluster, task and process.

    The running task gets the energy of its CPU. Tasks that run on a cluster share its common power equally. Idle power
    belongs to no task. Rails in the trace are printed beside the model.
    """
    from opplab.trace import energy as module

    trace = Trace(file)
    from_ns, to_ns = _span(trace, from_time, to_time)
    found = trace.energy(machine_of(machine, file), from_ns=from_ns, to_ns=to_ns)
    if by is not None:
        print_table(getattr(found, by).to_dicts(), output_format)
        if by == "cgroups" and found.cgroups["cgroup"].is_null().all():
            note("the trace does not show control groups (no cgroup_attach_task event): all tasks are one row")
        for words in found.left_out:
            note(f"energies are {words}")
    elif output_format == "json":
        sums = {
            name: getattr(found, name)
            for name in ("total_j", "low_j", "high_j", "idle_j", "floor_j", "window_ns", "unseen_ns")
        }
        tables = {name: table.to_dicts() for name, table in found.tables().items() if name != "steps"}
        # That parts add up is no word on what is known: `left_out` is.
        facts = {"left_out": found.left_out, "adds_up": found.exact}
        click.echo(json.dumps({**sums, **facts, **tables, "notes": trace.notes}, indent=2))
    else:
        if output_format == "text":
            say(_energy_head(found))
        for table in (found.clusters, found.rails, found.tasks.head(10)):
            if len(table):
                print_table(table.to_dicts(), output_format)
                click.echo()
        if output_format == "text":
            say("\n".join(f"note: {words}" for words in trace.notes))
            damage.in_answer(trace.notes)
    if output is not None:
        files = found.write(output)
        click.echo(f"wrote {output}/ ({len(files)} tables)", err=True)
    if perfetto is not None:
        click.echo(f"wrote {module.perfetto(trace, found, perfetto)}", err=True)


def _energy_head(found: TraceEnergy) -> str:
    """Give the sums in words."""
    seconds = found.window_ns / 1e9
    partly = found.has_unknown_clocks
    # A mean over all of the time is one of all that was drawn.
    mean = f", {found.total_j / seconds:.4g} W" if seconds and not partly else ""
    known = "known " if partly else ""
    parts = f"idle {found.idle_j:.4g} J, rest {found.floor_j:.4g} J"
    lines = [f"{found.total_j:.6g} J {known}in {seconds:.6f} s{mean}; {parts}", *found.left_out]
    if partly:
        watts = f" ({found.low_j / seconds:.4g} to {found.high_j / seconds:.4g} W)" if seconds else ""
        between = f"between {found.low_j:.6g} and {found.high_j:.6g} J"
        lines.append(f"with it {between}{watts}, by the ranges of the machine and of these clocks")
    elif found.high_j > found.low_j:
        lines.append(f"between {found.low_j:.6g} and {found.high_j:.6g} J, by the ranges of the machine")
    return "\n".join(lines) + "\n"


@command.command(name="idle")
@trace_argument("file")
@trace_machine_option("Machine with the idle states (default without --sysfs: auto)")
@click.option(
    "--sysfs", type=click.Path(path_type=Path), help="Copy of cpuidle's sysfs (grep . -r) with the idle states."
)
@click.option(
    "--governor",
    "-g",
    "governors",
    multiple=True,
    help="Idle governor: menu, teo, ladder or haltpoll; may be repeated.",
)
@click.option("--tick", "tick_us", type=click.IntRange(100, 10**9), help="Tick, us (default: the recording's).")
@click.option("--kernel", help="Kernel profile of the idle governors (default: the recording's).")
@click.option("--by-cpu", is_flag=True, help="Print one row per CPU, too.")
@click.option(
    "--differences",
    is_flag=True,
    help="Print the differing decisions: recorded and chosen state, and the end of the stay.",
)
@format_option
def idle(
    file: Path,
    machine: str | None,
    sysfs: Path | None,
    governors: tuple[str, ...],
    tick_us: int | None,
    kernel: str | None,
    by_cpu: bool,
    differences: bool,
    output_format: str,
) -> None:
    """Compare idle governors on the recorded sleeps of FILE.

    Sleeps in a state too deep (above) or too shallow (below) are counted as in the kernel. Two rivals need no
    history: `constant` takes the most frequent state, and `oracle` the deepest state that the stay was long enough
    for.
    """
    from opplab.trace import idle as module

    if machine is not None and sysfs is not None:
        raise click.UsageError("give the idle states once: --machine or --sysfs")
    trace = Trace(file)
    states = module.states_of_sysfs(sysfs) if sysfs else machine_of(machine or "auto", file)
    chosen = ("recorded", *governors, "constant", "oracle") if governors else module.GOVERNORS
    table = (module.differences if differences else module.decisions)(trace, states, chosen, tick_us, kernel)
    notes = [*trace.notes, *([] if module.shows_timers(trace) else [module.NO_TIMERS])]
    if not by_cpu and not differences:
        table = table.filter(table["cpu"].is_null()).drop("cpu")
    print_table(table.to_dicts(), output_format)
    for words in notes:
        (say if output_format == "text" else note)(f"note: {words}")


@command.command(name="sql")
@trace_argument("file")
@click.argument("query", required=False)
@trace_machine_option("Machine with power, capacities and operating points")
@half_life_option
@click.option("--tables", "list_tables", is_flag=True, help="List the tables of a query.")
@click.option("--files", is_flag=True, help="Allow QUERY to read other files, by read_parquet() and the like.")
@format_option
def sql(
    file: Path,
    query: str | None,
    machine: str | None,
    pelt_half_life_ms: int | None,
    list_tables: bool,
    files: bool,
    output_format: str,
) -> None:
    """Answer QUERY, a SELECT statement, over the tables of FILE: events, signals, latencies, energy.

    Example: opplab trace sql trace.dat "select comm, max(wait_ns) as worst from waits group by comm"
    """
    from opplab.trace.sql import tables_of

    trace = Trace(file, pelt_half_life_ms=pelt_half_life_ms)
    chosen = machine_of(machine, file) if machine else None
    if list_tables:
        rows = [{"table": name, "holds": what} for name, what in tables_of(trace, chosen).items()]
        print_table(rows, output_format)
    elif query is None:
        raise click.UsageError("give a QUERY, or --tables for what there is to ask")
    else:
        print_table(trace.sql(query, chosen, files=files).to_dicts(), output_format)


@command.command(name="view")
@trace_argument("file")
@output_option("HTML file to write.", required=True)
@trace_machine_option("Machine with power and capacities")
@half_life_option
@click.option("--from", "from_time", metavar="TIME", help="Start: 12.5 (s), 300ms, or +0.5 (after the trace's start).")
@click.option("--to", "to_time", metavar="TIME", help="End, in the form of --from.")
def view(
    file: Path,
    output: Path,
    machine: str | None,
    pelt_half_life_ms: int | None,
    from_time: str | None,
    to_time: str | None,
) -> None:
    """Write FILE as an HTML page: a time line of each CPU with frequency, utilisation and power.

    The page needs no network and zooms to microseconds.
    """
    trace = Trace(file, pelt_half_life_ms=pelt_half_life_ms)
    from_ns, to_ns = _span(trace, from_time, to_time)
    chosen = machine_of(machine, file) if machine else None
    path = trace.view(output, chosen, from_ns=from_ns, to_ns=to_ns)
    click.echo(f"wrote {path} ({path.stat().st_size / 1e6:.1f} MB)", err=True)
