"""`opplab predict`: what an experiment or a table will show, said before it is measured."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from opplab.cli.options import jobs_option, workers
from opplab.errors import InputError
from opplab.uncertainty import DRAWS_MAX

if TYPE_CHECKING:
    from opplab.sweep.experiments import Experiment


@click.command(name="predict")
@click.argument("experiments", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="A .json, or a .csv of a table.")
@click.option("--metric", "metrics", multiple=True, help="Only this metric (.json); may be repeated.")
@click.option("--uncertainty", type=click.IntRange(2, DRAWS_MAX), metavar="N", help="Draws (.json).  [default: 40]")
@click.option("--results", type=click.Path(path_type=Path), default=Path("out/predict"), help="Folder of results.")
@jobs_option
def command(
    experiments: tuple[Path, ...],
    output: Path,
    metrics: tuple[str, ...],
    uncertainty: int | None,
    results: Path,
    jobs: int | None,
) -> None:
    """Predict what EXPERIMENTS will show before it is measured.

    With -o SEALED.json, one experiment is run and the ratios of its variants to the baseline are sealed: each with a
    90 % interval from the seeds, draws of the machine's assumed numbers (as 'run --uncertainty'), and the models'
    errors on the development set. The file has hashes of the experiment and of itself; 'opplab score' checks both.

    With -o TABLE.csv, EXPERIMENTS are files whose `published` is one table: a CSV with the rows and the values of the
    baseline. Each row gets the predicted ratio and a 90 % interval; a row without a model gets the reason.
    """
    from opplab.sweep.experiments import Experiment

    loaded = [Experiment.load(name) for name in experiments]
    if output.suffix == ".json":
        from opplab.agreement import sealed

        if len(loaded) > 1:
            raise InputError("a seal is of one experiment: give one file, or -o TABLE.csv")
        (only,) = loaded
        draws = uncertainty or sealed.DRAWS
        made = sealed.seal(only, results / only.name, draws=draws, metrics=metrics, jobs=workers(jobs))
        made.write(output)
        click.echo(f"wrote {output}: {len(made.rows)} ratios of {only.name}, {draws} draws", err=True)
        return
    if metrics or uncertainty:
        raise InputError("--metric and --uncertainty are of sealed predictions: -o SEALED.json")
    _table(loaded, output, results, jobs)


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
