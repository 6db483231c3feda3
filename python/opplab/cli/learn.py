"""`opplab learn`: a benchmark model from a recording."""

from __future__ import annotations

from pathlib import Path

import click

from opplab.cli.options import format_option, output_option, trace_argument
from opplab.files import write_text
from opplab.report.text import print_table


@click.command(name="learn")
@trace_argument("recording", exists=True)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME",
    help="Name of the threads to learn (default: all); may be repeated.",
)
@output_option("Output file (default: RECORDING.toml).")
@format_option
def command(recording: Path, tasks: tuple[str, ...], output: Path | None, output_format: str) -> None:
    """Derive a workload model from RECORDING, a trace of scheduler events.

    The model has the wake-up graph and the distributions of run times and waits. Nothing is fitted.
    `opplab run MODEL.toml --machine NAME` runs it.
    """
    from opplab.trace.learn import learn, left_out, to_toml
    from opplab.trace.recording import Trace

    trace = Trace(recording)
    model = learn(trace, tasks)
    print_table(
        [
            {
                "threads of": one.name,
                "threads": one.threads,
                "activations": one.activations,
                "CPU ms": one.cpu_ms,
                "run us (10, 50, 90 %)": " ".join(f"{value:.4g}" for value in one.run_quantiles_us),
                "after wake-up %": round(100 * one.after, 1),
                "woken by": ", ".join(f"{who} {100 * share:.0f} %" for who, share in one.woken_by.items()),
            }
            for one in model.groups
        ],
        output_format,
    )
    for words in left_out(trace, model):
        click.echo(f"note: {words}", err=True)
    path = output or Path(f"{recording.stem}.toml")
    write_text(path, to_toml(model))
    click.echo(f"wrote {path}", err=True)
