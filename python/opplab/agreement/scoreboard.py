"""How far predictions are from what was published: the scoreboard behind ``opplab verify published``.

An experiment's ``[[compare]]`` entries say which rows of the published tables belong to which workload. A *cell* is one
published number of a variant; what is compared is its ratio to the baseline's number of the same row, so that neither
the length of a run nor the unit matters. The baseline's own cells are no predictions and are not counted; benchmark
constants are fitted to nothing else.

This module computes; it runs no simulation.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.catalog import nearest
from opplab.comparison import published
from opplab.comparison.tables import OVERVIEW_SAME
from opplab.errors import InputError

if TYPE_CHECKING:
    import polars as pl

    from opplab.sweep.experiments import Experiment

__all__ = [
    "Cell",
    "Facts",
    "Forecast",
    "cells_of",
    "forecasts",
    "sample",
    "score",
    "scoreboard",
    "spearman",
    "table_rows",
    "worst",
]

UNPRINTED_SPREAD = OVERVIEW_SAME
"""Spread of a ratio where the text prints none: text 000 prints ``~`` for ratios that are no farther from 1."""

FAINT = 0.005
"""A ratio predicted nearer to 1 than this has a direction, but hardly is an effect."""

TIE = 0.0005
"""Errors that differ by less than this are equal: half a digit of a ratio printed with three decimals."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One published number of a variant, and its prediction.

    Attributes
    ----------
    seed, table, experiment, machine, benchmark, metric, unit, better, parameter, variant, baseline : str
        Where it stands.
    published, predicted : float
        Ratio to the baseline.
    spread : float
        Of the published ratio, as a share of 1.
    value, baseline_value : float
        The published numbers; NaN in a table of ratios.
    simulated, simulated_baseline : float
        The simulated ones, geometric means where the row stands for several points.
    points : int
        Points of the grid that the row stands for.
    explanation : str
        What the simulator did differently from the baseline.
    model : str
        The benchmark model.
    """

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
    published: float
    predicted: float
    spread: float
    value: float
    baseline_value: float
    simulated: float
    simulated_baseline: float
    points: int
    explanation: str
    model: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """The model's own 90 % interval, learnt from the other machines and benchmarks of the development set."""
        from opplab.agreement.predict import interval_of

        model = self.model or self.benchmark
        return interval_of(f"{self.seed} {self.machine} {model}", model, self.predicted)

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
        words = (self.seed, self.machine, self.benchmark, self.metric, self.parameter, self.variant)
        return " ".join(word for word in words if word not in ("", "all", "none"))

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


Point = tuple[str, str]
"""The label of a workload, and the parameters of one of its points."""


class Facts:
    """Means over the iterations of everything that was measured, by workload, parameters and policy."""

    def __init__(self, results: pl.DataFrame) -> None:
        import polars as pl

        keys = ["benchmark", "param", "policy", "metric"]
        means = results.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
        self._values: dict[tuple[str, str, str], dict[str, float]] = {}
        for benchmark, param, policy, metric, value in means.iter_rows():
            self._values.setdefault((benchmark, param, policy), {})[metric] = value

    def points(self, workloads: Sequence[str]) -> list[Point]:
        """Give the points of workloads, in order."""
        return list(dict.fromkeys((name, param) for name, param, _ in self._values if name in workloads))

    def time(self, point: Point, policy: str) -> float:
        """Give the weight of a point in means over time: what it took, or 1 where its time is given."""
        return self._values.get((*point, policy), {}).get("elapsed", 1.0)

    def value(self, point: Point, policy: str, metrics: Sequence[str]) -> float | None:
        """Give the sum of `metrics` at a point; None if the point was not simulated.

        A metric may be a quotient, as ``throughput/power`` or ``1/elapsed/power``, the work for each joule.
        ``busy_clock:CLUSTER`` is the mean frequency of a cluster's busy time in GHz, ``busy:CLUSTER`` its busy share.
        """
        values = self._values.get((*point, policy))
        if values is None:
            return None
        found = values | _busy(values)

        def one(name: str) -> float:
            if name not in found:
                plain = [other for other in found if ":" not in other]
                raise InputError(f"`simulated` names the metric '{name}'{nearest(name, plain)}")
            return found[name]

        def quotient(metric: str) -> float:
            first, *divisors = metric.split("/")
            top = 1.0 if first == "1" else one(first)
            for name in divisors:
                if one(name) == 0:
                    raise InputError(f'`simulated = "{metric}"` divides by {name}, which is 0 for {policy} {point[0]}')
            return top / math.prod(one(name) for name in divisors)

        return math.fsum(quotient(metric) for metric in metrics)

    def explain(self, points: Sequence[Point], baseline: str, variant: str) -> str:
        """Describe in words what the simulator did differently: clocks, busy time, power, switches, migrations."""
        base, new = (self._pooled(points, policy) for policy in (baseline, variant))
        parts = []
        for name, unit in (("clock while busy", "GHz"), ("busy", "%"), ("power", "W")):
            before, after = base.get(name), new.get(name)
            if before is not None and after is not None:
                parts.append(f"{name} {before:.3g} -> {after:.3g} {unit}")
        for name in ("switches", "migrations", "frequency changes"):
            before, after = base.get(name), new.get(name)
            if before and after and not 0.8 < after / before < 1.25:
                parts.append(f"{name} {before:.3g} -> {after:.3g}")
        return "; ".join(parts)

    def _pooled(self, points: Sequence[Point], policy: str) -> dict[str, float]:
        """Give the few numbers of `explain`, means over the points."""
        sums: dict[str, list[float]] = {}
        for point in points:
            facts = self._values.get((*point, policy))
            if facts is None:
                continue
            busy = {metric: value for metric, value in facts.items() if metric.startswith("busy:")}
            clocks = sum(value * int(metric.rpartition("@")[2]) / 1e6 for metric, value in busy.items())
            total = math.fsum(busy.values())
            clusters = len({metric.partition("@")[0] for metric in busy}) or 1
            found = {"busy": total / clusters}
            if total:
                found["clock while busy"] = clocks / total
            changes = [value for metric, value in facts.items() if metric.startswith("freq_changes:")]
            found["frequency changes"] = math.fsum(changes)
            for metric, name in (("switches", "switches"), ("migrations", "migrations"), ("power", "power")):
                if metric in facts:
                    found[name] = facts[metric]
            for name, value in found.items():
                sums.setdefault(name, []).append(value)
        return {name: math.fsum(values) / len(values) for name, values in sums.items()}


def _busy(values: Mapping[str, float]) -> dict[str, float]:
    """Give the busy share in percent and the mean frequency of the busy time in GHz of each cluster."""
    found: dict[str, float] = {}
    cycles: dict[str, float] = {}
    for metric, value in values.items():
        if metric.startswith("busy:"):
            cluster, _, khz = metric.partition("@")
            found[cluster] = found.get(cluster, 0.0) + value
            cycles[cluster] = cycles.get(cluster, 0.0) + value * int(khz) / 1e6
    clocks = {f"busy_clock:{one.removeprefix('busy:')}": cycles[one] / busy for one, busy in found.items() if busy}
    return found | clocks


def _axes(text: str) -> dict[str, str]:
    """Split parameters, as results (``a=1 b=2``) and published rows (``a=1;b=2``) write them."""
    parts = (part.partition("=") for part in text.replace(";", " ").split())
    return {name: value for name, equals, value in parts if equals}


def _belongs(row: Mapping[str, str], point: Mapping[str, str]) -> bool:
    return all(row.get(name, value) == value for name, value in point.items())


RowName = tuple[int, str, str, str]
"""A row of a published table: number of the `compare` entry, metric, benchmark, parameter."""

SAMPLE = 5
"""One of so many rows is in the part that stands for the whole."""


def sample(experiment: Experiment) -> tuple[set[RowName], set[Point]]:
    """Give the rows that stand for all when there is little time, and the points of the grid that they need.

    A systematic sample: the rows of each table in the order of their published effects, every `SAMPLE`-th of all. It
    is drawn from what was published alone, knows no prediction, and takes a row with all of its points, variants and
    iterations, so that its cells are cells of the whole.
    """
    rows: list[tuple[str, float, RowName, Mapping[str, Any]]] = []
    baseline = {base for base, _ in experiment.pairs}
    for number, entry in enumerate(experiment.compare):
        effects: dict[tuple[str, str, str, str], list[published.Published]] = {}
        for row in _rows(experiment.published_seed, experiment.published_cells, entry):
            effects.setdefault((row.table, row.metric, row.benchmark, row.parameter), []).append(row)
        for (table, metric, benchmark, parameter), own in effects.items():
            anchor = next((row.value for row in own if row.variant in baseline), None)
            ratios = [row.value / (1.0 if row.unit.startswith("ratio") or not anchor else anchor) for row in own]
            effect = math.fsum(abs(ratio - 1.0) for ratio in ratios) / len(ratios)
            rows.append((table, effect, (number, metric, benchmark, parameter), entry))
    rows.sort(key=lambda row: row[:3])
    taken = rows[min(SAMPLE // 2, len(rows) // 2) :: SAMPLE]
    points = {
        (case.benchmark, case.param)
        for case in experiment.cases
        for _, _, name, entry in taken
        if case.benchmark in entry["workloads"] and _belongs(_axes(name[3]), _axes(case.param))
    }
    return {name for _, _, name, _ in taken}, points


def cells_of(experiment: Experiment, results: pl.DataFrame, only: set[RowName] | None = None) -> list[Cell]:
    """Give all cells of an experiment that results have a prediction for, in the order of the text.

    Parameters
    ----------
    experiment : Experiment
    results : polars.DataFrame
        Its results table, or a part of it.
    only : set, optional
        Only these rows, as `sample` names them.
    """
    from opplab.agreement.predict import benchmark_models

    facts = Facts(results)
    seed = experiment.published_seed
    models = benchmark_models(experiment)
    found: list[Cell] = []
    for row, anchor, entry, forecast in forecasts(experiment, experiment.published_cells, facts, only):
        is_ratio = row.unit.startswith("ratio")
        if anchor is None and not is_ratio:
            continue
        ratio, spread = _ratio(row, anchor, is_ratio)
        found.append(
            Cell(
                seed=seed,
                table=row.table,
                experiment=experiment.name,
                machine=row.machine,
                benchmark=row.benchmark,
                metric=row.metric,
                unit=row.unit,
                better=row.better,
                parameter=row.parameter,
                variant=row.variant,
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
            )
        )
    return found


@dataclass(frozen=True, slots=True)
class Forecast:
    """What was simulated for a row of a table.

    Attributes
    ----------
    baseline : str
        The baseline as the table names it.
    simulated, simulated_baseline : float
        Means over the row's points.
    points : int
    explanation : str
        What the simulator did differently from the baseline.
    """

    baseline: str
    simulated: float
    simulated_baseline: float
    points: int
    explanation: str

    @property
    def ratio(self) -> float:
        """Simulated value over the baseline's."""
        return self.simulated / self.simulated_baseline


def forecasts(
    experiment: Experiment, table: Sequence[published.Published], facts: Facts, only: set[RowName] | None = None
) -> Iterator[tuple[published.Published, published.Published | None, Mapping[str, Any], Forecast]]:
    """Give the simulated rows of a table: the row, its baseline's where there is one, the entry, the forecast.

    Rows of the baseline itself, and rows of other tables, machines or benchmarks than the entries name, are left out.
    """
    base_of = {variant: base for base, variant in experiment.pairs}
    governors = _governors(experiment)
    for number, entry in enumerate(experiment.compare):
        rows = _rows(experiment.published_seed, table, entry)
        names = {label: entry["variants"].get(label, label) for label in experiment.policies}
        labels = {name: label for label, name in names.items()}
        by_place = {(row.metric, row.benchmark, row.parameter, row.variant): row for row in rows}
        for row in rows:
            if only is not None and (number, row.metric, row.benchmark, row.parameter) not in only:
                continue
            axes = _axes(row.parameter)
            if axes.get("governor", "") not in ("", *governors):
                continue
            label = labels.get(row.variant)
            base = base_of.get(label) if label is not None else None
            if label is None or base is None:
                continue
            simulated = [metric.format_map(axes) for metric in entry["simulated"]]
            anchor = by_place.get((row.metric, row.benchmark, row.parameter, names[base]))
            if anchor is None:
                # A table whose variants are its parameters has one baseline for all rows.
                same = (other for other in rows if other.variant == names[base] and other.metric == row.metric)
                anchor = next(same, None)
            used: list[Point] = []
            values: dict[str, list[float]] = {label: [], base: []}
            for point in facts.points(entry["workloads"]):
                if not _belongs(axes, _axes(point[1])):
                    continue
                new, old = (facts.value(point, policy, simulated) for policy in (label, base))
                if new and old:
                    used.append(point)
                    values[label].append(new)
                    values[base].append(old)
            if not used:
                continue
            if entry["over_time"]:
                means = {
                    name: _over_time(of, [facts.time(point, name) for point in used]) for name, of in values.items()
                }
            else:
                means = {name: _geometric(of) for name, of in values.items()}
            explanation = facts.explain(used, base, label)
            yield row, anchor, entry, Forecast(names[base], means[label], means[base], len(used), explanation)


def _over_time(values: Sequence[float], times: Sequence[float]) -> float:
    return math.fsum(value * time for value, time in zip(values, times, strict=True)) / math.fsum(times)


def _geometric(values: Sequence[float]) -> float:
    return math.exp(math.fsum(math.log(value) for value in values) / len(values))


def _governors(experiment: Experiment) -> set[str]:
    """Give the governors of an experiment's policies, as its file names them."""
    file = tomllib.loads(Path(experiment.file).read_text(encoding="utf-8"))
    default = file.get("defaults", {}).get("governor", "")
    return {policy.get("governor", default) for policy in file["policy"]}


def _rows(seed: str, table: Sequence[published.Published], entry: Mapping[str, Any]) -> list[published.Published]:
    """Give the published rows that an entry names; a name that no row has is refused."""
    rows = list(table)
    for key in ("table", "machine", "benchmark", "metric"):
        name = entry[key]
        if not name:
            continue
        known = list(dict.fromkeys(str(getattr(row, key)) for row in rows))
        rows = [row for row in rows if getattr(row, key) == name]
        if not rows:
            raise InputError(f"`compare`: text {seed} has no {key} '{name}'{nearest(name, known)}")
    return rows


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


def _ranks(values: Sequence[float]) -> list[float]:
    """Give the ranks from 1; equal values share the mean of theirs."""
    return [
        sum(other < value for other in values) + (sum(other == value for other in values) + 1) / 2 for value in values
    ]


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Give Spearman's rank correlation; None where one side does not vary.

    Examples
    --------
    >>> spearman([1.0, 0.9, 1.4], [1.0, 0.8, 1.1])
    1.0
    >>> spearman([1.0, 2.0, 3.0], [1.0, 1.0, 1.0]) is None
    True
    """
    a, b = _ranks(left), _ranks(right)
    middle = (len(a) + 1) / 2
    top = math.fsum((x - middle) * (y - middle) for x, y in zip(a, b, strict=True))
    bottom = math.fsum((x - middle) ** 2 for x in a) * math.fsum((y - middle) ** 2 for y in b)
    return top / math.sqrt(bottom) if bottom else None


def _rank_correlations(cells: Sequence[Cell]) -> list[float]:
    """Give one correlation for each row with two variants or more (baseline included), else one for each table."""
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
            found.append(one)
    return found


def _quantile(values: Sequence[float], share: float) -> float:
    """Give a quantile of sorted values, interpolated linearly."""
    place = share * (len(values) - 1)
    low = math.floor(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (place - low) * (values[high] - values[low])


def score(cells: Sequence[Cell]) -> dict[str, Any]:
    """Give the figures of merit of some cells; what has no cell to come from is None.

    The rival is the *null*, which predicts ratio 1.000 everywhere. A skill is ``1 - error / error of the null``: 1 is
    perfect, 0 no better than the null, negative worse.

    Returns
    -------
    dict
        ``cells``; ``sign_cells``, those whose published effect exceeds its spread; ``sign_agreement``, the share of
        these that were predicted in the published direction; ``faint_cells``, those of them that were predicted nearer
        to 1 than `FAINT`; ``strict_sign_agreement``, the same share with faint ones counted as wrong;
        ``median_abs_error``, ``mean_abs_error`` and ``p90_abs_error`` of ``|predicted ratio - published ratio|``, and
        ``null_median_abs_error`` and ``null_mean_abs_error`` of the null; ``skill_median`` and ``skill_mean`` over
        it; ``closer``, the share of all cells that are predicted closer than by the null, and ``ties``, how many are
        equally far; ``closer_or_tie_clear``, of the cells whose effect exceeds its spread, the share that is closer
        or ties; ``rank_correlation``, Spearman's, of the variants of a row, mean over the rows; ``coverage90``, the
        share of published ratios inside the prediction's 90 % interval, and ``width``, the median width of these.
    """
    clear = [cell for cell in cells if cell.exceeds]
    right = [cell for cell in clear if cell.agrees]
    faint = sum(abs(cell.predicted - 1) < FAINT for cell in right)
    errors = sorted(abs(cell.error) for cell in cells)
    nulls = sorted(abs(cell.null_error) for cell in cells)
    ranks = _rank_correlations(cells)
    intervals = [cell.interval for cell in cells]
    inside = sum(low <= cell.published <= high for cell, (low, high) in zip(cells, intervals, strict=True))
    widths = sorted(high - low for low, high in intervals)
    median, null_median = (_quantile(of, 0.5) if of else None for of in (errors, nulls))
    mean, null_mean = (math.fsum(of) / len(of) if of else None for of in (errors, nulls))
    return {
        "cells": len(cells),
        "sign_cells": len(clear),
        "sign_agreement": len(right) / len(clear) if clear else None,
        "faint_cells": faint,
        "strict_sign_agreement": (len(right) - faint) / len(clear) if clear else None,
        "median_abs_error": median,
        "mean_abs_error": mean,
        "p90_abs_error": _quantile(errors, 0.9) if errors else None,
        "null_median_abs_error": null_median,
        "null_mean_abs_error": null_mean,
        "skill_median": _skill(median, null_median),
        "skill_mean": _skill(mean, null_mean),
        "closer": sum(cell.closer for cell in cells) / len(cells) if cells else None,
        "ties": sum(cell.ties for cell in cells),
        "closer_or_tie_clear": sum(cell.closer or cell.ties for cell in clear) / len(clear) if clear else None,
        "rank_correlation": math.fsum(ranks) / len(ranks) if ranks else None,
        "coverage90": inside / len(cells) if cells else None,
        "width": _quantile(widths, 0.5) if widths else None,
    }


def _skill(error: float | None, null: float | None) -> float | None:
    """Give ``1 - error / null``; None where the null makes no error, so that nothing can be gained over it."""
    return 1.0 - error / null if error is not None and null else None


def worst(cells: Sequence[Cell], count: int = 10) -> list[Cell]:
    """Give the cells that are farthest from what was published."""
    return sorted(cells, key=lambda cell: -abs(cell.error))[:count]


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
                "worst": [cell.to_dict() for cell in worst(own)],
                "cells_detail": [cell.to_dict() for cell in own],
            }
            for (seed, table, experiment), own in tables.items()
        ],
        "worst": [cell.to_dict() for cell in worst(cells)],
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
