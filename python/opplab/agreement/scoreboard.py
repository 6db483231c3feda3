"""How far predictions are from what was published: the scoreboard behind ``opplab verify published``.

An experiment's ``[[compare]]`` entries name the rows of the published tables that belong to each workload. A *cell* is
one published number of a variant; what is compared is its ratio to the baseline's number of the same row, so that
neither the length of a run nor the unit matters. The baseline's own cells are no predictions and are not counted;
benchmark constants are fitted to nothing else.

This module computes; it runs no simulation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from opplab.agreement.forecast import (
    Facts,
    Point,
    RowName,
    axes_of,
    belongs,
    benchmark_models,
    deviations_of,
    forecasts,
    governors_of,
    machines_of,
)
from opplab.agreement.predict import interval_of
from opplab.comparison import published
from opplab.comparison.tables import OVERVIEW_SAME

if TYPE_CHECKING:
    import polars as pl

    from opplab.sweep.experiments import Experiment


UNPRINTED_SPREAD = OVERVIEW_SAME
"""Spread of a ratio where the text prints none: text 000 prints ``~`` for ratios that are no farther from 1."""

FAINT = 0.005
"""A ratio predicted nearer to 1 than this has a direction, but hardly is an effect."""

TIE = 0.0005
"""Errors that differ by less than this are equal: half a digit of a ratio printed with three decimals."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One published number of a variant, and its prediction."""

    seed: str
    table: str
    experiment: str
    machine: str
    benchmark: str
    metric: str
    unit: str
    better: str
    parameter: str
    variant: str
    baseline: str
    """`seed` to `baseline`: where it stands."""
    published: float
    predicted: float
    """`published` and `predicted`: ratio to the baseline."""
    spread: float
    """Of the published ratio, as a share of 1."""
    value: float
    baseline_value: float
    """`value` and `baseline_value`: the published numbers; NaN in a table of ratios."""
    simulated: float
    simulated_baseline: float
    """`simulated` and `simulated_baseline`: the simulated ones, geometric means where the row stands for several
    points."""
    points: int
    """Points of the grid that the row stands for."""
    explanation: str
    """What the simulator did differently from the baseline."""
    model: str = ""
    """The benchmark model."""
    weight: float = 1.0
    """How many cells it stands for, where a part stands for the whole."""
    deviation: float = 0.0
    """Of the natural logarithm of the predicted ratio, from run to run: seeds and phases."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % interval: the runs' spread, and the errors on other machines and benchmarks of the texts."""
        model = self.model or self.benchmark
        return interval_of(f"{self.seed} {self.machine} {model}", model, self.predicted, self.deviation)

    @property
    def error(self) -> float:
        """Predicted minus published ratio."""
        return self.predicted - self.published

    @property
    def null_error(self) -> float:
        """Error of the rival that predicts no effect, ratio 1: 1 minus published ratio."""
        return 1.0 - self.published

    @property
    def closer(self) -> bool:
        """Whether the prediction is nearer to what was published than no effect is."""
        return abs(self.error) < abs(self.null_error) and not self.ties

    @property
    def ties(self) -> bool:
        """Whether prediction and no effect are equally far from what was published, to `TIE`."""
        return abs(abs(self.error) - abs(self.null_error)) < TIE

    @property
    def exceeds(self) -> bool:
        """Whether the published effect is larger than its spread."""
        return abs(self.published - 1) > self.spread

    @property
    def agrees(self) -> bool:
        """Whether the prediction goes the published way."""
        return (self.predicted - 1) * (self.published - 1) > 0

    @property
    def label(self) -> str:
        """Words for a list: text, benchmark, parameter, variant."""
        return place_of(self.seed, self.machine, self.benchmark, self.metric, self.parameter, self.variant)

    def to_dict(self) -> dict[str, Any]:
        """Give it as plain values; what is not known is None."""
        plain = asdict(self) | {
            "error": self.error,
            "null_error": self.null_error,
            "exceeds_spread": self.exceeds,
            "sign_agrees": self.agrees,
            "closer": self.closer,
            "ties": self.ties,
            "low": self.interval[0],
            "high": self.interval[1],
        }
        return {key: None if isinstance(value, float) and math.isnan(value) else value for key, value in plain.items()}


def place_of(*words: str) -> str:
    """Give the words that name a cell, without those that stand for nothing."""
    return " ".join(word for word in words if word not in ("", "all", "none"))


_OF_ROW = ("table", "machine", "benchmark", "metric", "unit", "better", "parameter", "variant")

SAMPLE = 5
"""One of so many rows is in the part that stands for the whole."""


def strata(experiment: Experiment) -> list[list[tuple[RowName, set[Point]]]]:
    """Give the rows that have a prediction, with the points that each needs: a list a table and metric, by effect."""
    baseline = {base for base, _ in experiment.pairs}
    governors = governors_of(experiment)
    found: dict[tuple[str, str], list[tuple[float, RowName, set[Point]]]] = {}
    for number, entry in enumerate(experiment.compare):
        grid = [(case.benchmark, case.param) for case in experiment.cases if case.benchmark in entry["workloads"]]
        rows: dict[tuple[str, str, str, str, str], list[published.Published]] = {}
        for row, _ in machines_of(experiment, published.cells_for(experiment), entry):
            rows.setdefault((row.table, row.metric, row.benchmark, row.parameter, row.machine), []).append(row)
        for (table, metric, benchmark, parameter, machine), own in rows.items():
            axes = axes_of(parameter)
            points = {point for point in grid if belongs(axes, axes_of(point[1]))}
            if not points or axes.get("governor", "") not in ("", *governors):
                continue
            anchor = next((row.value for row in own if row.variant in baseline), None)
            ratios = [row.value / (1.0 if row.unit.startswith("ratio") or not anchor else anchor) for row in own]
            effect = math.fsum(abs(ratio - 1.0) for ratio in ratios) / len(ratios)
            found.setdefault((table, metric), []).append(
                (effect, (number, metric, benchmark, parameter, machine), points)
            )
    return [[(name, points) for _, name, points in sorted(own, key=lambda row: row[:2])] for own in found.values()]


def sample(experiment: Experiment, draw: int = 0) -> tuple[dict[RowName, float], set[Point]]:
    """Give the rows that stand for all when there is little time, with their weights, and the points that they need.

    Parameters
    ----------
    draw : int
        Another number is another part of the same size.

    Notes
    -----
    A systematic sample of each of `strata`: of the rows in the order of their published effects about every
    `SAMPLE`-th, one at the least, from a start that the table's name draws. A row's weight is how many rows it stands
    for. Over all starts each row has a mean weight of 1, so weighted sums are unbiased. The sample knows no prediction
    and takes a row with all of its points, variants and iterations, so that its cells are cells of the whole.
    """
    weights: dict[RowName, float] = {}
    needed: set[Point] = set()
    for number, rows in enumerate(strata(experiment)):
        count = max(1, round(len(rows) / SAMPLE))
        start = (random.Random(f"{experiment.name} {number}").randrange(len(rows)) + draw) % len(rows)
        for step in range(count):
            name, points = rows[(start + step * len(rows)) // count]
            weights[name] = len(rows) / count
            needed |= points
    return weights, needed


def cells_of(
    experiment: Experiment,
    results: pl.DataFrame,
    only: Mapping[RowName, float] | None = None,
    not_known: Callable[[published.Published, str], None] | None = None,
) -> list[Cell]:
    """Give all cells of an experiment that results have a prediction for, in the order of the text.

    Parameters
    ----------
    results : polars.DataFrame
        Its results table, or a part of it.
    only : mapping, optional
        Only these rows, with these weights, as `sample` gives them.
    not_known : callable, optional
        Takes rows whose simulated values are not known, with the reason; without it the first is an error.
    """
    facts = Facts.by_machine(results)
    seed = experiment.published_seed
    models = benchmark_models(experiment)
    deviations = deviations_of(experiment, published.cells_for(experiment), results, only, not_known=not_known)
    found: list[Cell] = []
    for row, anchor, entry, forecast in forecasts(
        experiment, published.cells_for(experiment), facts, only, not_known=not_known
    ):
        is_ratio = row.unit.startswith("ratio")
        if anchor is None and not is_ratio:
            continue
        ratio, spread = _ratio(row, anchor, is_ratio)
        found.append(
            Cell(
                **{name: getattr(row, name) for name in _OF_ROW},
                seed=seed,
                experiment=experiment.name,
                baseline=forecast.baseline,
                published=ratio,
                predicted=forecast.ratio,
                spread=spread,
                value=math.nan if is_ratio else row.value,
                baseline_value=math.nan if is_ratio or anchor is None else anchor.value,
                simulated=forecast.simulated,
                simulated_baseline=forecast.simulated_baseline,
                points=forecast.points,
                explanation=forecast.explanation,
                model=models.get(entry["workloads"][0], ""),
                weight=1.0 if only is None else only[forecast.row],
                deviation=deviations[forecast.row, row.variant],
            )
        )
    return found


def _relative_spread(row: published.Published) -> float | None:
    if row.spread is None:
        return None
    return row.spread / 100 if row.spread_kind == "percent" else row.spread / row.value


def _ratio(row: published.Published, anchor: published.Published | None, is_ratio: bool) -> tuple[float, float]:
    """Give the published ratio and its spread: of two means with independent errors, or the text's own `~`."""
    if is_ratio or anchor is None:
        return row.value, UNPRINTED_SPREAD
    ratio = row.value / anchor.value
    spreads = [_relative_spread(one) for one in (row, anchor)]
    known = [spread for spread in spreads if spread is not None]
    return ratio, ratio * math.hypot(*known) if known else UNPRINTED_SPREAD


# --- figures of merit -------------------------------------------------------------------------------------------------


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Give Spearman's rank correlation; None where one side does not vary.

    Examples
    --------
    >>> spearman([1.0, 0.9, 1.4], [1.0, 0.8, 1.1])
    1.0
    >>> spearman([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) is None
    True
    """
    from scipy.stats import spearmanr

    varies = len(set(left)) > 1 and len(set(right)) > 1
    return float(spearmanr(left, right).statistic) if varies else None


def _rank_correlations(cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """Give a correlation and its weight for each row with two variants or more (baseline included), else each table."""
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        place = (cell.seed, cell.table, cell.experiment, cell.machine, cell.benchmark, cell.metric, cell.baseline)
        alone = len({other.variant for other in cells if other.table == cell.table}) == 1
        rows.setdefault(place if alone else (*place, cell.parameter), []).append(cell)
    # A table whose variants are its parameters has rows of one cell each: one row in truth.
    merged: dict[tuple[str, ...], list[Cell]] = {}
    for key, row in rows.items():
        merged.setdefault(key if len(row) > 1 else key[:7], []).extend(row)
    found = []
    for row in merged.values():
        if len(row) < 2:
            continue
        one = spearman([1.0, *(cell.published for cell in row)], [1.0, *(cell.predicted for cell in row)])
        if one is not None:
            found.append((one, row[0].weight))
    return found


def _mean(values: Sequence[float], weights: Sequence[float]) -> float | None:
    """Give the weighted mean; None of nothing."""
    total = math.fsum(weights)
    return math.fsum(value * weight for value, weight in zip(values, weights, strict=True)) / total if total else None


def score(cells: Sequence[Cell]) -> dict[str, Any]:
    """Give the figures of merit of some cells; what has no cell to come from is None.

    The rival is the *null*, which predicts ratio 1.000 everywhere. A skill is ``1 - error / error of the null``: 1 is
    perfect, 0 no better than the null, negative worse.

    Returns
    -------
    dict
        ``cells``; ``weight``, how many cells they stand for, by which shares, means and quantiles are weighted;
        ``sign_cells``, those whose published effect exceeds its spread; ``sign_agreement``, the share of
        these that were predicted in the published direction; ``faint_cells``, those of them that were predicted nearer
        to 1 than `FAINT`; ``strict_sign_agreement``, the same share with faint ones counted as wrong;
        ``median_abs_error``, ``mean_abs_error`` and ``p90_abs_error`` of ``|predicted ratio - published ratio|``, and
        ``null_median_abs_error`` and ``null_mean_abs_error`` of the null; ``skill_median`` and ``skill_mean`` over
        it; ``closer``, the share of all cells that are predicted closer than by the null, and ``ties``, how many are
        equally far; ``closer_or_tie_clear``, of the cells whose effect exceeds its spread, the share that is closer
        or ties; ``rank_correlation``, Spearman's, of the variants of a row, mean over the rows; ``coverage90``, the
        share of published ratios inside the prediction's 90 % interval, and ``width``, the median width of these.
    """
    from opplab.fit.score import weighted_quantile

    clear = [cell for cell in cells if cell.exceeds]
    faint = [cell.agrees and abs(cell.predicted - 1) < FAINT for cell in clear]
    weights = [cell.weight for cell in cells]
    errors = [abs(cell.error) for cell in cells]
    nulls = [abs(cell.null_error) for cell in cells]
    ranks = _rank_correlations(cells)
    intervals = [cell.interval for cell in cells]

    def share(of: Sequence[Cell], which: Iterable[bool]) -> float | None:
        return _mean([float(one) for one in which], [cell.weight for cell in of])

    def quantile(values: Sequence[float], at: float) -> float | None:
        return weighted_quantile(values, weights, at) if values else None

    median, null_median = quantile(errors, 0.5), quantile(nulls, 0.5)
    mean, null_mean = _mean(errors, weights), _mean(nulls, weights)
    return {
        "cells": len(cells),
        "weight": math.fsum(weights),
        "sign_cells": len(clear),
        "sign_agreement": share(clear, (cell.agrees for cell in clear)),
        "faint_cells": sum(faint),
        "strict_sign_agreement": share(
            clear, (cell.agrees and not weak for cell, weak in zip(clear, faint, strict=True))
        ),
        "median_abs_error": median,
        "mean_abs_error": mean,
        "p90_abs_error": quantile(errors, 0.9),
        "null_median_abs_error": null_median,
        "null_mean_abs_error": null_mean,
        "skill_median": _skill(median, null_median),
        "skill_mean": _skill(mean, null_mean),
        "closer": share(cells, (cell.closer for cell in cells)),
        "ties": sum(cell.ties for cell in cells),
        "closer_or_tie_clear": share(clear, (cell.closer or cell.ties for cell in clear)),
        "rank_correlation": _mean([one for one, _ in ranks], [weight for _, weight in ranks]),
        "coverage90": share(
            cells, (low <= cell.published <= high for cell, (low, high) in zip(cells, intervals, strict=True))
        ),
        "width": quantile([high - low for low, high in intervals], 0.5),
    }


def _skill(error: float | None, null: float | None) -> float | None:
    """Give ``1 - error / null``; None where the null makes no error, so that nothing can be gained over it."""
    return 1.0 - error / null if error is not None and null else None


WORST = 10
"""Cells that are named of those that are farthest from what was published."""


def worst(cells: Sequence[Cell]) -> list[dict[str, Any]]:
    """Give the cells that are farthest from what was published, as plain values."""
    return [cell.to_dict() for cell in sorted(cells, key=lambda cell: -abs(cell.error))[:WORST]]


def scoreboard(cells: Sequence[Cell], findings: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Give the whole scoreboard: ``overall``, ``seeds``, ``tables``, ``worst`` and ``findings``.

    Every table has its figures, its worst cells and ``cells_detail``.
    """
    tables: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        tables.setdefault((cell.seed, cell.table, cell.experiment), []).append(cell)
    seeds = sorted({cell.seed for cell in cells})
    return {
        "overall": score(cells),
        "seeds": {seed: score([cell for cell in cells if cell.seed == seed]) for seed in seeds},
        "tables": [
            {
                "seed": seed,
                "table": table,
                "experiment": experiment,
                **score(own),
                "worst": worst(own),
                "cells_detail": [cell.to_dict() for cell in own],
            }
            for (seed, table, experiment), own in tables.items()
        ],
        "worst": worst(cells),
        "findings": dict(findings or {}),
    }


def table_rows(board: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Give the scoreboard's figures as rows of a printed table; shares in percent."""

    def line(text: str, table: str, experiment: str, figures: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "text": text,
            "table": table,
            "experiment": experiment,
            "cells": figures["cells"],
            **({"stand for": f"{figures['weight']:.4g}"} if board.get("quick") else {}),
            "sign": _percent(figures["sign_agreement"], 0),
            "of": figures["sign_cells"],
            "faint": figures["faint_cells"],
            "strict": _percent(figures["strict_sign_agreement"], 0),
            "median error": _percent(figures["median_abs_error"], 1),
            "null's": _percent(figures["null_median_abs_error"], 1),
            "90 %": _percent(figures["p90_abs_error"], 1),
            "skill, median": _signed(figures["skill_median"]),
            "skill, mean": _signed(figures["skill_mean"]),
            "closer": _percent(figures["closer"], 0),
            "closer, clear": _percent(figures["closer_or_tie_clear"], 0),
            "in 90 %": _percent(figures["coverage90"], 0),
            "width": "" if figures["width"] is None else f"{figures['width']:.2f}",
            "rank": "" if figures["rank_correlation"] is None else f"{figures['rank_correlation']:.2f}",
        }

    rows = [line(one["seed"], one["table"], one["experiment"], one) for one in board["tables"]]
    rows += [line(seed, "all", "", figures) for seed, figures in board["seeds"].items()]
    return [*rows, line("all", "", "", board["overall"])]


def _signed(skill: float | None) -> str:
    return "" if skill is None else f"{skill:.2f}"


def _percent(share: float | None, digits: int) -> str:
    return "" if share is None else f"{100 * share:.{digits}f} %"
