"""`opplab predict`: what an experiment or a table will show, before it is measured."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab.cli.options import (
    jobs_option,
    machine_option,
    note,
    one_policy_options,
    output_option,
    policy_of,
    vs_option,
    workers,
)
from opplab.errors import InputError
from opplab.formats import kernel_robot
from opplab.report.text import terminal_width
from opplab.sweep.progress import progress
from opplab.uncertainty import DRAWS_MAX

if TYPE_CHECKING:
    from opplab.sweep.experiments import Experiment


@click.command(name="predict")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="EXPERIMENT...|MAIL")
@output_option("Sealed prediction (.json), or prediction of a table (.csv).")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    help="Metric to predict, for .json (default: what benchmarks report, and energy); may be repeated.",
)
@click.option(
    "--uncertainty",
    type=click.IntRange(2, DRAWS_MAX),
    metavar="N",
    help="Draws of assumed values, for .json; 20 or more.  [default: 40]",
)
@click.option("--results", type=click.Path(path_type=Path), default=Path("out/predict"), help="Results folder.")
@machine_option("Machine that stands for the mail's.")
@one_policy_options
@vs_option
@click.option("--iterations", type=click.IntRange(1, 1000), default=3, help="Runs per setting, for a mail.")
@click.option(
    "--seconds", type=click.FloatRange(min=0.001), help="Simulated time per run, s, for a mail (default: the model's)."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", help="Output format, for a mail."
)
@jobs_option
def command(
    sources: tuple[Path, ...],
    output: Path | None,
    metrics: tuple[str, ...],
    uncertainty: int | None,
    results: Path,
    machine: str | None,
    vs: tuple[str, ...],
    iterations: int,
    seconds: float | None,
    form: str,
    jobs: int | None,
    **options: Any,
) -> None:
    """Predict the result of EXPERIMENTs, or of a mail of the kernel test robot, before the measurement.

    With -o SEALED.json, one experiment runs, and the ratios of its variants to the baseline are sealed. Each has a
    90 % interval from the seeds, from draws of assumed values, and from the models' errors on the development set.
    The file has hashes of the experiment and of itself; 'opplab score' checks both.

    With -o TABLE.csv, the `published` key of each EXPERIMENT names one CSV with the rows and the baseline's values.
    Each row gets the predicted ratio and a 90 % interval. A row without a model gets the reason.

    MAIL is a comparison of the robot. --vs describes the change of each commit, and --machine stands for its machine.
    Test, parameters and governor come from the mail. The answer has its layout, with the probability of each sign.
    """
    given = {name: value for name, value in options.items() if value not in (None, {}, ())}
    if any(one.is_file() and one.suffix != ".toml" and kernel_robot.is_file(one) for one in sources):
        if len(sources) > 1 or output is not None or metrics or uncertainty:
            raise click.UsageError(
                "one mail at a time; its answer is printed: no -o, --metric, --uncertainty (--format json has all)"
            )
        if machine is None:
            raise click.UsageError("give --machine: what stands for the mail's machine (opplab list machines)")
        how = {"vs": vs, "iterations": iterations, "seconds": seconds, "jobs": jobs}
        _mail(sources[0], machine, results, form, policy=policy_of(given), **how)
        return
    if given or machine or vs or seconds:
        raise click.UsageError(
            "--machine, --vs, --seconds and keys of a policy are for mails; an experiment has its own"
        )
    if output is None:
        raise click.UsageError("give -o: a SEALED.json, or the TABLE.csv that gets the predictions")
    from opplab.sweep.experiments import Experiment

    loaded = [Experiment.load(name) for name in sources]
    if output.suffix == ".json":
        from opplab.agreement import sealed

        if len(loaded) > 1:
            raise InputError("a seal is of one experiment: give one file, or -o TABLE.csv")
        (only,) = loaded
        draws = uncertainty or sealed.DRAWS
        folder = results / only.name
        made = sealed.seal(only, folder, draws=draws, metrics=metrics, jobs=workers(jobs), progress=progress)
        made.write(output)
        click.echo(f"wrote {output}: {len(made.rows)} ratios of {only.name}, {draws} draws", err=True)
        sealed_of = {(row.machine, row.workload, row.param, row.variant, row.metric) for row in made.rows}
        places = sorted({place[:4] for place in sealed_of})
        for metric in metrics:
            lacking = [place for place in places if (*place, metric) not in sealed_of]
            if lacking:
                where = "; ".join(" ".join(filter(None, place)) for place in lacking)
                note(f"no ratio of {metric}, whose baseline is 0 or not known: {where}")
        open_rows = [row.reason for row in made.rows if row.low is None or row.high is None]
        if open_rows:
            why = ", ".join(dict.fromkeys(open_rows))
            note(f"{len(open_rows)} of {len(made.rows)} have no interval and cannot be scored: {why}")
        return
    if metrics or uncertainty:
        raise InputError("--metric and --uncertainty are of sealed predictions: -o SEALED.json")
    _table(loaded, output, results, jobs)


def _mail(path: Path, machine: str, results: Path, form: str, **how: Any) -> None:
    from opplab.agreement import robot
    from opplab.comparison.tables import render_all

    answers, refused = [], []
    for number, report in enumerate(kernel_robot.read_file(path), 1):
        folder = results / f"{path.stem}-{number}"
        try:
            answers.append(robot.answer(report, machine, folder=folder, progress=progress, **how))
        except InputError as error:
            refused.append(f"{path}:{report.line}:1: {error}")
    if not answers:
        raise InputError("; ".join(refused))
    if form == "json":
        found = [one for answer in answers for one in answer.predictions]
        notes = list(dict.fromkeys(note for answer in answers for note in answer.table.notes))
        whole = {"machine": machine, "predictions": found, "refused": refused, "notes": notes}
        click.echo(json.dumps(whole, indent=1))
    else:
        sys.stdout.write(render_all([one.table for one in answers], "text", terminal_width()))
    for words in refused:
        note(f"not predicted: {words}")


def _table(loaded: list[Experiment], output: Path, results: Path, jobs: int | None) -> None:
    """Predict the rows of the experiments' table."""
    from opplab.agreement import predict

    tables = {experiment.published_file for experiment in loaded}
    if len(tables) != 1 or None in tables:
        raise InputError(
            'the experiments must name one table of their own: `published = "TABLE.csv"`; or give -o SEALED.json'
        )
    table = next(iter(tables))
    assert table is not None
    runs = []
    for experiment in loaded:
        with progress(len(experiment.cases)) as shown:
            found = experiment.run(results / experiment.name, jobs=jobs, progress=shown)
        runs.append((experiment, found, predict.on_other_disks(experiment, workers(jobs), progress)))
    predictions = predict.predict(runs, table)
    predict.write_table(table, predictions, output)
    said = sum(not math.isnan(one.ratio) for one in predictions)
    click.echo(f"wrote {output}: {said} of {len(predictions)} rows have a prediction or are given", err=True)
