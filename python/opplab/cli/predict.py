"""`opplab predict`: a table's rows, said before their values are known."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import click

from opplab.cli.options import jobs_option, machine_option, policy_of, policy_options, vs_option
from opplab.errors import InputError


@click.command(name="predict")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="EXPERIMENT...|MAIL")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Table with predictions (CSV).")
@click.option("--results", type=click.Path(path_type=Path), default=Path("out/predict"), help="Folder of results.")
@machine_option("Of a mail: what stands for its machine.")
@policy_options
@vs_option
@click.option("--iterations", type=click.IntRange(1, 1000), default=3, show_default=True, help="Of a mail: runs each.")
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", help="Of a mail's answer.")
@jobs_option
def command(
    sources: tuple[Path, ...],
    output: Path | None,
    results: Path,
    machine: str | None,
    vs: tuple[str, ...],
    iterations: int,
    form: str,
    jobs: int | None,
    **options: Any,
) -> None:
    """Predict a published table, or a mail of the kernel test robot, before its values are known.

    EXPERIMENTs are files whose `published` is one table: a CSV with the rows and the values of the baseline. Each row
    gets the predicted ratio to its baseline and a 90 % interval, from the iterations and from the models' errors on the
    development set; a row without a model gets the reason.
    MAIL is a comparison of the robot. --vs says what each of its commits changes, --machine what it ran on; test,
    parameters and governor are the mail's. The answer has its layout, with the probability of each sign.
    """
    from opplab.formats import kernel_robot

    given = {name: value for name, value in options.items() if value not in (None, {}, ())}
    if any(one.is_file() and one.suffix != ".toml" and kernel_robot.is_file(one) for one in sources):
        if len(sources) > 1 or output is not None:
            raise click.UsageError(
                "one mail at a time, and its answer is printed: no -o (--format json has all numbers)"
            )
        if machine is None:
            raise click.UsageError("give --machine: what stands for the mail's machine (opplab list machines)")
        _mail(sources[0], machine, policy_of(given), vs, results, iterations, form, jobs)
        return
    if given or machine or vs:
        raise click.UsageError("--machine, --vs and keys of a policy are for mails; an experiment has its own")
    if output is None:
        raise click.UsageError("give -o: the table that gets the predictions")
    _tables(sources, output, results, jobs)


def _mail(
    path: Path,
    machine: str,
    policy: dict[str, Any],
    vs: tuple[str, ...],
    results: Path,
    iterations: int,
    form: str,
    jobs: int | None,
) -> None:
    from opplab.agreement import robot
    from opplab.comparison.tables import render_all
    from opplab.formats import kernel_robot
    from opplab.report.text import terminal_width

    answers, refused = [], []
    for number, report in enumerate(kernel_robot.read_file(path), 1):
        folder = results / f"{path.stem}-{number}"
        try:
            answers.append(
                robot.answer(report, machine, policy=policy, vs=vs, folder=folder, iterations=iterations, jobs=jobs)
            )
        except InputError as error:
            refused.append(f"{path}:{report.line}:1: {error}")
    if not answers:
        raise InputError("; ".join(refused))
    if form == "json":
        found = [one for answer in answers for one in answer.predictions]
        click.echo(json.dumps({"predictions": found, "refused": refused}, indent=1))
    else:
        sys.stdout.write(render_all([one.table for one in answers], "text", terminal_width()))
    for words in refused:
        click.echo(f"opplab: not predicted: {words}", err=True)


def _tables(experiments: tuple[Path, ...], output: Path, results: Path, jobs: int | None) -> None:
    from opplab.agreement import predict
    from opplab.sweep.experiments import Experiment

    loaded = [Experiment.load(name) for name in experiments]
    tables = {experiment.published_file for experiment in loaded}
    if len(tables) != 1 or None in tables:
        raise InputError('the experiments must name one table of their own: `published = "TABLE.csv"`')
    table = next(iter(tables))
    assert table is not None
    runs = [
        (
            experiment,
            experiment.run(results / experiment.name, jobs=jobs),
            predict.on_other_disks(experiment, jobs or 1),
        )
        for experiment in loaded
    ]
    predictions = predict.predict(runs, table)
    predict.write_table(table, predictions, output)
    said = sum(not math.isnan(one.ratio) for one in predictions)
    click.echo(f"wrote {output}: {said} of {len(predictions)} rows have a prediction or are given", err=True)
