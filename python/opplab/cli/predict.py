"""`opplab predict`: a table's rows, said before their values are known."""

from __future__ import annotations

import math
from pathlib import Path

import click

from opplab.cli.options import jobs_option
from opplab.errors import InputError


@click.command(name="predict")
@click.argument("experiments", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="Table with predictions (CSV).")
@click.option("--results", type=click.Path(path_type=Path), default=Path("out/predict"), help="Folder of results.")
@jobs_option
def command(experiments: tuple[Path, ...], output: Path, results: Path, jobs: int | None) -> None:
    """Predict the rows of a published table before its values are known.

    EXPERIMENTS are files whose `published` is one table: a CSV with the rows and the values of the baseline. Each row
    gets the predicted ratio to its baseline and a 90 % interval, from the iterations and from the models' errors on the
    development set; a row without a model gets the reason.
    """
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
