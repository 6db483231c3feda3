"""`opplab choose`: which setting of a machine is best for what counts, and how sure that is."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from opplab.choice import DRAWS, GOALS, GOVERNORS, ITERATIONS, SEARCH_SETTINGS, SEED
from opplab.cli.options import (
    BuiltIn,
    NameOf,
    damaged_ok_option,
    draws_noted,
    freq_max_option,
    half_life_option,
    jobs_option,
    load_of,
    note,
    note_replaced,
    one_param_option,
    output_format_option,
    output_option,
    pairs_option,
    power_option,
    vs_option,
    with_generic_power,
    workers,
)
from opplab.files import check_own, write_text
from opplab.report.text import render_table, terminal_width
from opplab.simulation.policy import Policy


def _words(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _ranges(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    found = {}
    for text in values:
        name, equals, ends = text.partition("=")
        low, dots, high = ends.partition("..")
        if not (name and equals and dots and low.isdecimal() and high.isdecimal()):
            raise click.BadParameter(f"'{text}' is not a range of a tunable: write it like rate_limit_us=100..20000")
        found[name] = (int(low), int(high))
    return found


# Shared with `opplab fleet`.
governors_option = click.option(
    "--governor",
    "governors",
    type=NameOf("governors", several=True),
    default=",".join(GOVERNORS),
    metavar="A[,B,...]",
    help="cpufreq governors to choose from; the first is the baseline.",
)
constraints_option = click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="'METRIC <= X'",
    help="Condition on a metric, e.g. 'latency_p99 <= 5ms'; 'none' accepts less work than the baseline's.",
)
seconds_option = click.option(
    "--seconds", type=click.FloatRange(min=0.001), help="Simulated time per run, s (default: the workload's)."
)
iterations_option = click.option(
    "--iterations",
    type=click.IntRange(1, 10_000),
    default=ITERATIONS,
    help="Runs per setting, each with its own seed.",
)
seed_option = click.option("--seed", type=click.IntRange(0, 2**63), default=SEED, help="Seed of the first run.")
draws_option = click.option(
    "--uncertainty",
    type=click.IntRange(0),
    default=DRAWS,
    callback=draws_noted,
    metavar="N",
    help="Draws of the machine's assumed values; 0 for none.",
)
dask_option = click.option("--dask", metavar="ADDRESS", help="Dask scheduler to run on, or 'local'.")


@click.command(name="choose")
@click.argument("workload", metavar="WORKLOAD|TRACE|BENCHMARK")
@damaged_ok_option
@click.option(
    "-m",
    "--machine",
    type=BuiltIn("machine"),
    metavar="NAME|FILE",
    help="Machine of the workload (default: a trace's snapshot).",
)
@one_param_option
@power_option
@governors_option
@pairs_option(
    "--tunable",
    "tunables",
    "Values of a tunable, separated by commas, for the governors that have it; may be repeated.",
)
@click.option("--epp", callback=_words, metavar="A[,B,...]", help="Energy-performance preferences to choose from.")
@freq_max_option("Values of f_max for frequency invariance on x86, separated by commas.", several=True)
@click.option(
    "--idle-governor",
    type=NameOf("idle-governors", several=True),
    metavar="A[,B,...]",
    help="cpuidle governors to choose from.",
)
@click.option(
    "--energy-model",
    callback=_words,
    metavar="A[,B,...]",
    help="Energy models to choose from: registered, artificial, none.",
)
@vs_option
@click.option(
    "--goal",
    "goals",
    callback=_words,
    default=",".join(GOALS),
    metavar="A[,B]",
    help="Metrics to optimise; energy is per unit of work.",
)
@constraints_option
@click.option(
    "--search",
    callback=_ranges,
    multiple=True,
    metavar="TUNABLE=LOW..HIGH",
    help="Range of a tunable, searched for its best value.",
)
@click.option(
    "--search-settings",
    type=click.IntRange(5, 10_000),
    default=SEARCH_SETTINGS,
    help="Settings that --search tries per governor.",
)
@click.option("--kernel", type=NameOf("kernels"), help="Kernel profile (default: 6.12.117, or the trace's).")
@click.option("--driver", help="cpufreq driver (default: the machine's).")
@click.option(
    "--recorded-governor",
    type=NameOf("governors"),
    help="Governor of a recorded trace, where the trace lacks it.",
)
@half_life_option
@seconds_option
@iterations_option
@seed_option
@draws_option
@click.option(
    "--variation",
    type=click.Choice(["none", "rt-app", "noisy-host"]),
    default=Policy.variation,
    help="Variation of programs between runs.",
)
@output_option("Folder for report.html and choice.json.")
@output_format_option("latex")
@click.option("--all", "every", is_flag=True, help="Print every setting, and every value with its interval.")
@jobs_option
@dask_option
def command(
    workload: str,
    params: tuple[str, ...],
    power: str | None,
    output: Path | None,
    output_format: str,
    every: bool,
    jobs: int | None,
    dask: str | None,
    **given: Any,
) -> None:
    """Recommend a setting for a workload, with its probability of being the best.

    The workload is an rt-app file (.json), a recorded trace, or a benchmark model (`opplab list benchmarks`). All
    combinations of the given values run on the same programs, seeds and draws of the machine's assumed values.
    The answer ranks the settings by their probability of being the best, and prints the commands that apply the first.
    --goal and --constraint take any metric of `opplab list metrics`, and latency_p99, response_p95, throughput, missed.

    The first setting is the baseline. Settings that miss more activations than it, or do over 1 % less work, are
    left out. A --constraint on the same metric replaces this rule.
    """
    from opplab.choice.choose import choose
    from opplab.cli.run import cluster
    from opplab.report.block import LINES
    from opplab.sweep.progress import progress

    keys = {name: given.pop(name) for name in ("epp", "energy_model")}
    for name in ("freq_max", "idle_governor"):
        text = given.pop(name)
        keys[name] = text.split(",") if text else []
    given["variants"] = given.pop("vs")
    load = load_of(workload, params)
    policy = {name: value for name in ("kernel", "driver") if (value := given.pop(name))}
    tunables = {name: text.split(",") for name, text in given.pop("tunables").items()}
    machine = given.pop("machine")
    if power is not None:
        if machine is None:
            raise click.UsageError("--power is for a machine that is named: --machine NAME|FILE")
        machine = with_generic_power(machine)
    if output is not None:
        check_own(output, ("choice.json", "report.html"), "the answer")
    with cluster(dask, workers(jobs)) as (executor, threads):
        choice = choose(
            machine,
            load,
            governors=given.pop("governors").split(","),
            tunables=tunables,
            policy=policy,
            executor=executor,  # type: ignore[arg-type]
            jobs=threads,
            progress=progress,
            said=note,
            **given,
            **{name: values for name, values in keys.items() if values},
        )
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
        note_replaced(output / "choice.json", choice.block().question)
        write_text(output / "choice.json", choice.to_json())
        choice.write(output / "report.html")
    if output_format == "json":
        sys.stdout.write(choice.to_json())
    elif output_format == "csv":
        sys.stdout.write(render_table(choice.rows(), "csv"))
    else:
        most = None if every else LINES
        sys.stdout.write(choice.block().form(output_format, terminal_width(), most))
        if output_format == "text" and every:
            sys.stdout.write(choice.values_text(terminal_width()))
        if output_format == "text" and (chosen := choice.recommended) is not None:
            sys.stdout.write("\nto set it:\n" + "".join(f"  {line}\n" for line in chosen.commands))
    if output is not None:
        click.echo(f"wrote {output}/report.html, choice.json", err=True)
