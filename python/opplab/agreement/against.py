"""Simulated results beside the published text that they predict: `opplab compare RESULTS published:003`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opplab.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from opplab.comparison.tables import Table


def against_published(folder: str | Path, seed: str) -> Table:
    """Compare a folder's results with a published text, cell by cell.

    Parameters
    ----------
    folder : str or Path
        A results folder of the experiment that the text belongs to.
    seed : str
        The text, e.g. ``003``.

    Raises
    ------
    InputError
        If the experiment belongs to another text, or to none.
    """
    from opplab import results
    from opplab.agreement.scoreboard import cells_of
    from opplab.comparison.tables import Cell, Row, Table
    from opplab.sweep.experiments import Experiment

    experiment = Experiment.of_results(folder)
    if experiment.published_seed != seed:
        own = f"published:{experiment.published_seed}" if experiment.published_seed else "no published text"
        raise InputError(f"{folder} is of {experiment.name}, which belongs to {own}, not to published:{seed}")
    cells = cells_of(experiment, results.read(folder))
    if not cells:
        raise InputError(f"no published cell of {seed} belongs to the results in {folder}")
    rows = []
    for cell in cells:
        numbers = [
            Cell(cell.published, same=not cell.exceeds),
            Cell(cell.predicted),
            Cell(100 * cell.error, digits=1),
            Cell(100 * cell.null_error, digits=1),
        ]
        words = " ".join(word for word in (cell.metric, cell.parameter, cell.variant) if word not in ("", "all"))
        group = " ".join(filter(None, (cell.machine, cell.benchmark)))
        rows.append(Row("", words, list(numbers), cell.unit, cell.better, "", group))
    heads = ["published", "simulated", "error, pp", "no effect, pp"]
    table = Table("power", heads, rows, f"{experiment.name} beside text {seed}", experiment.name, digits=3)
    table.method = (
        f"ratios to the baseline ({experiment.baseline or cells[0].baseline}); error: simulated less published, in "
        "percentage points; no effect: the error of always predicting no change (score: `opplab verify published`)"
    )
    return table
