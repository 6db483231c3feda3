"""Predictions of a table's rows before their values are known: the ratio to the baseline with a 90 % interval.

A disk that no file describes may be of any class: the interval then reaches over fast and slow ones.
An interval joins two parts in quadrature: the spread of the ratio over the experiment's iterations, and the error that
the models made so far, from the development set (``data/model_error.csv``: every cell of the five texts). The second is
the 90 % quantile of the errors of the cells that are most alike: of the same benchmark model where it has enough, and
with an effect of about the same size.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from opplab.files import csv_rows, write_text
from opplab.sweep.progress import Shown, counted

if TYPE_CHECKING:
    import polars as pl

    from opplab.agreement.scoreboard import Cell
    from opplab.comparison.published import Published
    from opplab.simulation.cases import Case, Measured
    from opplab.sweep.experiments import Experiment


FILE = Path(__file__).parents[1] / "data" / "model_error.csv"

ENOUGH = 25
"""Cells of one benchmark model from which on they alone count."""

ALIKE = 40
"""How many cells of about the same predicted effect an interval is taken from."""


@dataclass(frozen=True, slots=True)
class Known:
    """A cell of the development set: natural logarithms of the predicted and of the published ratio."""

    table: str
    benchmark: str
    predicted: float
    published: float

    @property
    def error(self) -> float:
        """How far the prediction was off, without sign."""
        return abs(self.published - self.predicted)


@cache
def known_errors() -> tuple[Known, ...]:
    """Give the cells of the development set: those of docs/agreement.md's figures, with three digits."""
    _, rows = csv_rows(FILE)
    return tuple(
        Known(row["table"], row["benchmark"], math.log(float(row["predicted"])), math.log(float(row["published"])))
        for _, row in rows
    )


def write_errors(cells: Iterable[Cell]) -> Path:
    """Write the development set anew, from a full run's cells; what was read of it before is forgotten."""
    lines = [
        f"{cell.seed} {cell.machine} {cell.model},{cell.model},{cell.predicted:.4f},{cell.published:.4f}"
        for cell in cells
    ]
    write_text(FILE, "\n".join(["table,benchmark,predicted,published", *lines]) + "\n")
    known_errors.cache_clear()
    interval_of.cache_clear()
    return FILE


def half_width(
    benchmark: str, predicted: float, among: Sequence[Known], deviation: float = 0.0, level: float = 0.9
) -> float:
    """Give the half-width of a prediction's interval, as a natural logarithm.

    Parameters
    ----------
    benchmark : str
        Name of the benchmark model.
    predicted : float
        Natural logarithm of the predicted ratio.
    among : sequence of Known
        Cells to learn from.
    deviation : float
        That of the ratio's natural logarithm from run to run.
    level : float
        Share of the truths that it holds.
    """
    errors = sorted(cell.error for cell in _alike(benchmark, predicted, among))
    # The order statistic that covers at least that share of one more draw from the same population.
    model = errors[min(len(errors) - 1, math.ceil(level * (len(errors) + 1)) - 1)]
    return math.hypot(model, NormalDist().inv_cdf((1 + level) / 2) * deviation)


def _alike(benchmark: str, predicted: float, among: Sequence[Known]) -> list[Known]:
    """Give the cells that are most alike: of the same model where it has enough, of about the same effect."""
    own = [cell for cell in among if cell.benchmark == benchmark]
    pool = own if len(own) >= ENOUGH else list(among)
    return sorted(pool, key=lambda cell: abs(abs(cell.predicted) - abs(predicted)))[:ALIKE]


def sign_probability(benchmark: str, predicted: float, deviation: float, among: Sequence[Known]) -> float:
    """Give the probability that a change goes the way that is predicted.

    Parameters as of `half_width`.

    Notes
    -----
    It is read off the intervals: the widest one that keeps 0 out leaves half of the rest to the other sign. So it is
    0.95 where the 90 % interval ends at 0, at least 0.5, and less than 1: n cells bound intervals to n / (n + 1).
    """
    low, high = 0.0, 1 - 1 / (len(_alike(benchmark, predicted, among)) + 1)
    while high - low > 1e-6:
        level = (low + high) / 2
        if half_width(benchmark, predicted, among, deviation, level) < abs(predicted):
            low = level
        else:
            high = level
    return (1 + low) / 2


@cache
def interval_of(table: str, benchmark: str, ratio: float, deviation: float = 0.0) -> tuple[float, float]:
    """Give the 90 % interval of a predicted ratio as learnt from the other tables of the development set.

    `deviation` is that of the ratio's natural logarithm from run to run.
    """
    if not ratio > 0:
        return ratio, ratio
    others = [cell for cell in known_errors() if cell.table != table]
    half = half_width(benchmark, math.log(ratio), others, deviation)
    return ratio * math.exp(-half), ratio * math.exp(half)


@dataclass(frozen=True, slots=True)
class Prediction:
    """A row of a table with its prediction; the ratio is NaN where there is none, for the given reason."""

    ratio: float
    low: float
    high: float
    reason: str


DISKS = (0.05, 0.95)
"""Where in the range of flushes an unknown disk is tried, beside the middle."""


def on_other_disks(experiment: Experiment, jobs: int = 1, progress: Shown | None = None) -> list[pl.DataFrame]:
    """Run the workloads that hang on an unknown disk with fast and with slow flushes.

    Returns
    -------
    list of polars.DataFrame
        One a flush; none where every disk is known.
    """
    constants = experiment.constants()
    unknown = {key for key in constants.values if key[1] == "disk_flush_us" and key[0] in experiment.unknown_disks}
    if not unknown:
        return []
    found = []
    for share in DISKS:
        flushes = {key: value for key, value in constants.at([share] * len(constants.values)).items() if key in unknown}
        cases = [case for case in constants.rebuilt(flushes) if (case.benchmark, "disk_flush_us") in unknown]
        found.append(_results_of(cases, jobs, progress))
    return found


def _results_of(cases: Sequence[Case], jobs: int, progress: Shown | None) -> pl.DataFrame:
    from opplab import results
    from opplab.sweep.runner import run_cases

    rows: list[dict[str, Any]] = []

    def keep(_case: Case, measured: Measured) -> None:
        rows.extend(measured.dicts())

    with counted(progress, len(cases)) as shown:
        run_cases(cases, jobs=jobs, keep=keep, progress=shown)
    return results.frame(rows)


def predict(
    experiments: Iterable[tuple[Experiment, pl.DataFrame, Sequence[pl.DataFrame]]], table: Path
) -> list[Prediction]:
    """Predict every row of a table, in its order.

    Parameters
    ----------
    experiments : iterable of (Experiment, polars.DataFrame, sequence of polars.DataFrame)
        Experiments whose ``published`` is the table, each with its results, and those on other disks.

    Returns
    -------
    list of Prediction
        One a row. A row with a value is given, and its ratio is that to its baseline.
    """
    from opplab.agreement.forecast import Facts, benchmark_models, deviations_of, forecasts
    from opplab.comparison import published

    rows = published.rows_of_file(table)
    place = {id(row): number for number, row in enumerate(rows)}
    found: dict[int, Prediction] = {}
    baselines: set[str] = set()
    unknown: dict[int, str] = {}

    def left_out(row: published.Published, why: str) -> None:
        unknown[place[id(row)]] = why

    for experiment, results, other_disks in experiments:
        models = benchmark_models(experiment)
        deviations = deviations_of(experiment, rows, results, left_out=left_out)
        elsewhere: dict[int, list[float]] = {}
        for part in other_disks:
            for row, _, _, forecast in forecasts(experiment, rows, Facts.by_machine(part), left_out=left_out):
                elsewhere.setdefault(place[id(row)], []).append(math.log(forecast.ratio))
        for row, _, entry, forecast in forecasts(experiment, rows, Facts.by_machine(results), left_out=left_out):
            baselines.add(forecast.baseline)
            number = place[id(row)]
            disks = [math.log(forecast.ratio), *elsewhere.get(number, [])]
            middle = math.fsum(disks) / len(disks)
            deviation = deviations[forecast.row, row.variant]
            half = half_width(models[entry["workloads"][0]], middle, known_errors(), deviation)
            low, high = math.exp(min(disks) - half), math.exp(max(disks) + half)
            found[number] = Prediction(math.exp(middle), low, high, forecast.explanation + _hangs(disks))
    return [found.get(number) or _without(row, rows, baselines, unknown.get(number)) for number, row in enumerate(rows)]


def _hangs(disks: Sequence[float]) -> str:
    """Give words for how far a prediction hangs on the disk; nothing where that is known."""
    if len(disks) < 2:
        return ""
    low, high = (math.exp(of) for of in (min(disks), max(disks)))
    return f"; hangs on the disk, which is not known: x{low:.3g} to x{high:.3g}"


def _without(row: Published, rows: Sequence[Published], baselines: Collection[str], unknown: str | None) -> Prediction:
    """Give the entry of a row that is not simulated: what is given of it, or nothing with the reason."""
    if not row.text:
        return Prediction(math.nan, math.nan, math.nan, unknown or f"no model of {row.benchmark}: {row.metric}")
    same = (row.table, row.machine, row.benchmark, row.metric, row.parameter)
    for other in rows:
        place = (other.table, other.machine, other.benchmark, other.metric, other.parameter)
        if other.variant in baselines and place == same and other.text and other.value:
            ratio = row.value / other.value
            return Prediction(ratio, ratio, ratio, "given")
    return Prediction(math.nan, math.nan, math.nan, "given")


def write_table(table: Path, predictions: Sequence[Prediction], output: Path) -> None:
    """Write a table's rows with the columns ``predicted_ratio``, ``low``, ``high`` and ``reason``."""
    names, rows = csv_rows(table)
    own = ("predicted_ratio", "low", "high", "reason")
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [*(name for name in names if name not in own), *own], lineterminator="\n")
    writer.writeheader()
    for (_, row), one in zip(rows, predictions, strict=True):
        numbers = zip(own, (one.ratio, one.low, one.high), strict=False)
        shown = {name: "" if math.isnan(value) else f"{value:.4g}" for name, value in numbers}
        writer.writerow(row | shown | {"reason": one.reason})
    write_text(output, text.getvalue())
