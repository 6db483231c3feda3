"""`opplab explain`: why a CPU, a task, a run was as it was."""

from __future__ import annotations

import re

import click

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


def _time(_ctx: click.Context, _param: click.Parameter, text: str | None) -> float | None:
    if text is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)\s*(s|ms|us|ns)?", text.strip())
    if match is None:
        raise click.BadParameter(f"'{text}' is no point in time: write it like 1.234s or 250ms")
    return float(match[1]) * UNITS[match[2] or "s"]


@click.command(name="explain")
@click.argument("target")
@click.option("--cpu", type=click.IntRange(0), help="Why this CPU ran what it ran at that clock.")
@click.option("--task", help="Why this task ran where it ran.")
@click.option("--at", metavar="TIME", callback=_time, help="Point in time: 1.234s, 250ms.")
@click.option("--why-slow", is_flag=True, help="Why CPUs ran below what their tasks needed, over the whole run.")
@click.option("--format", "output_format", type=click.Choice(["text", "json"]), default="text", show_default=True)
def command(
    target: str, cpu: int | None, task: str | None, at: float | None, why_slow: bool, output_format: str
) -> None:
    """Explain the decisions of a run in words and numbers.

    TARGET is a case's JSON file, the results folder of a single case, or EXPERIMENT:CASE (or FOLDER:CASE) with words
    of the case's label and its machine, its hash or its number.  Runs are deterministic: the case is run again with
    records on.  TARGET may also be the folder or archive of a recording with the kernel's own records: then --at is a
    time of its clock, or so long after its first decision.  Or it is the log (.jsonl) of `opplab host govern`.
    """
    if target.endswith(".jsonl"):
        from opplab import _opplab

        words = ["govern", "--explain", target]
        words += ["--cpu", str(cpu)] if cpu is not None else []
        words += ["--at", f"{at:.9f}s"] if at is not None else []
        raise click.exceptions.Exit(_opplab.host_main(words, []))
    if sum((cpu is not None, task is not None, why_slow)) != 1:
        raise click.UsageError("give one of --cpu, --task and --why-slow")
    from opplab.explanation import explain

    found = explain(target, cpu=cpu, task=task, at=at, why_slow=why_slow)
    if output_format == "json":
        click.echo(found.to_json())
        return
    about = found.about
    if "recording" in about:
        what = f"{about['governor']} with {about['driver']}, " if "governor" in about else ""
        click.echo(f"{about['recording']}: {what}from the kernel's own records.")
        click.echo(str(found))
        return
    click.echo(f"{about['workload']} on {about['machine']}, {about['governor']}, kernel {about['kernel']}", nl=False)
    click.echo(f": run again with records on, events {about['fingerprint']}.")
    click.echo(str(found))
