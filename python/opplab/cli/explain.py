"""`opplab explain`: why a CPU, a task, a run was as it was."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from opplab import _opplab
from opplab.cli.options import (
    NameOf,
    damaged_ok_option,
    half_life_option,
    output_format_option,
    parse_time,
    trace_machine_option,
)
from opplab.report.text import print_table, say


def _time(text: str | None, target: str) -> Decimal | None:
    """Give a point in time in s: of the clock of a run or trace, or ``+0.5``, from the start."""
    from opplab.explanation.recordings import is_trace

    def start() -> int:
        from opplab.trace.recording import Trace

        counts = is_trace(Path(target)) and not target.endswith(".jsonl")
        return int(Trace(target).info["start_ns"]) if counts else 0

    at_ns = parse_time(text, start, "1.234s, 250ms or +0.5 (after the start)")
    # Exact: a clock since 1970 has more digits than a float.
    return None if at_ns is None else Decimal(at_ns).scaleb(-9)


def _idle_of_run(target: str, output_format: str) -> None:
    """Print decisions of idle governors on a run's sleeps, and what was drawn in each state."""
    from opplab.explanation.cases import find_case
    from opplab.explanation.idle import decisions_of_run, watts_by_state

    case = find_case(target)
    table, own = decisions_of_run(case)
    decisions, watts = table.to_dicts(), watts_by_state(case)
    if output_format == "json":
        click.echo(json.dumps({"governor": own, "decisions": decisions, "power": watts}))
        return
    print_table(decisions, output_format)
    say(
        f"The run's governor is {own}. All rows have its facts: the tick, the timers and the sleeps of the run. "
        "Under another one they would have been others."
    )
    click.echo()
    print_table(watts, output_format)
    if any(row["power_w"] is None for row in watts):
        say("Power that the machine file does not have is left blank.")


@click.command(name="explain")
@click.argument("target")
@damaged_ok_option
@click.option("--cpu", type=click.IntRange(0, 1 << 20), help="CPU whose task and frequency to explain.")
@click.option(
    "--task",
    help="Task whose placement to explain: a name, or NAME#0, NAME#1, ... among equal names; in a trace a pid, or "
    "NAME#2, NAME#3, ... after the first.",
)
@click.option("--at", metavar="TIME", help="Time to explain, e.g. 1.234s, 250ms or +0.5 (after the start).")
@click.option(
    "--why-slow", is_flag=True, help="Explain slow CPUs over the whole run; with --task its slow activations."
)
@click.option(
    "--idle",
    is_flag=True,
    help="Compare idle governors on the sleeps, as `opplab trace idle`; for a run, also by power of each state.",
)
@trace_machine_option(default="auto")
@click.option(
    "--recorded-governor",
    type=NameOf("governors"),
    help="Governor of the recording, where the trace lacks it (--why-slow, --task, --cpu).",
)
@half_life_option
@output_format_option(only=("text", "json"))
def command(
    target: str,
    cpu: int | None,
    task: str | None,
    at: str | None,
    why_slow: bool,
    idle: bool,
    machine: str,
    output_format: str,
    **given: Any,
) -> None:
    """Explain the frequency and placement decisions of a run or a trace.

    TARGET is a case's JSON file, the results folder of a single case, EXPERIMENT:CASE or FOLDER:CASE. CASE is a hash, a
    number, or words of the case's label and machine. Runs are deterministic: the case runs again with records on.

    TARGET may also be a trace, or the folder or archive of a recording. The explanation uses the kernel's own records
    where it has them, and the events elsewhere. TARGET may also be the log (.jsonl) of `opplab host govern`.

    --at counts from the start of a run, with its warm-up, and from the first event of a trace. It may also be a time
    of the trace's clock; +0.5 always counts from the start.
    """
    try:
        time = _time(at, target)
    except click.BadParameter as error:
        error.param_hint = "--at"
        raise
    if target.endswith(".jsonl"):
        words = ["govern", "--explain", target]
        words += ["--cpu", str(cpu)] if cpu is not None else []
        words += ["--at", f"{time:.9f}s"] if time is not None else []
        raise click.exceptions.Exit(_opplab.host_main(words, []))
    if sum((cpu is not None, task is not None or why_slow, idle)) != 1:
        raise click.UsageError("give one of --cpu, --task, --why-slow and --idle, or --task with --why-slow")
    if idle:
        from opplab.cli.trace import idle as decisions
        from opplab.explanation.recordings import is_trace

        if not is_trace(Path(target)):
            if machine != "auto":
                raise click.UsageError("a machine is what a trace ran on; a run has its own")
            _idle_of_run(target, output_format)
            return
        words = [target, "--machine", machine, "--format", output_format, "--by-cpu"]
        decisions.main(words, prog_name="opplab trace idle", standalone_mode=False)
        return
    from opplab.explanation.explain import explain
    from opplab.explanation.findings import length, seconds
    from opplab.simulation.machine import Machine

    ran_on = None if machine == "auto" else Machine.load(machine)
    found = explain(target, cpu=cpu, task=task, at=time, why_slow=why_slow, machine=ran_on, **given)
    if output_format == "json":
        click.echo(found.to_json())
        return
    about = found.about
    if "recording" in about:
        what = ""
        if "governor" in about:
            assumed = "" if about["governor_known"] else " (assumed)"
            what = f"{about['governor']}{assumed} with {about['driver']}, "
        head = [f"{about['recording']}: {what}from {about['from']}.", *about.get("assumed", [])]
    elif "trace" in about:
        from opplab.trace.replayed import check_text, streams_text

        assumed = "" if about["governor_known"] else " (assumed)"
        head = [
            f"{about['trace']}: its work run again on {about['machine']}, {about['governor']}{assumed}, "
            f"kernel {about['kernel']} (the closed loop of `opplab replay`): {check_text(about['self_check'])}.",
            f"Times are those of the run, {about['later_ns'] / 1e6:.3f} ms later than those since its start.",
            *streams_text(about["self_check"]),
            *about["assumed"],
        ]
    else:
        proposed = f" with {', '.join(about['proposals'])}" if "proposals" in about else ""
        head = [
            f"{about['workload']} on {about['machine']}, {about['governor']}, kernel {about['kernel']}{proposed}: "
            f"run again with records on, events {about['fingerprint']}."
        ]
        if about.get("warmup_ns"):
            head.append(f"Times count from the start of its warm-up, which takes {length(about['warmup_ns'])}.")
    if about.get("start_ns"):
        head.append(f"--at is {seconds(about['at_ns'])}; the first event is at {seconds(about['start_ns'])}.")
    say("\n".join([*head, str(found)]))
