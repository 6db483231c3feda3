"""Predictions of an experiment that are sealed before anything is measured, and their score when it was.

A seal has the hash of the experiment's file and of its own rows, so that neither changes unseen.  A row predicts the
ratio of a variant to its baseline with a 90 % interval, which joins three parts in quadrature, as logarithms: what the
seeds leave open, what the assumed numbers leave open (`opplab.uncertainty`), and the error that the models made so far
(`opplab.agreement.predict`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.agreement.forecast import benchmark_models
from opplab.agreement.predict import half_width, known_errors
from opplab.agreement.scoreboard import Cell, score
from opplab.catalog import nearest
from opplab.certainty import quantile_draws
from opplab.errors import InputError
from opplab.files import digest_of, read_text, write_text
from opplab.report.block import Block
from opplab.report.numbers import some_of
from opplab.sweep.progress import Shown, counted

if TYPE_CHECKING:
    from os import PathLike

    from opplab.comparison.tables import Table
    from opplab.sweep.experiments import Experiment
    from opplab.uncertainty.parts import Parts


FORMAT = 1
LEVEL = 0.9
"""Coverage of predicted and of measured intervals: that of every score."""

DRAWS = 40
"""Draws of the assumed numbers unless somebody asks for others."""

STANDS_FOR = {"elapsed": ("time", "wall")}
"""Predicted metric -> what else it may be measured as: what hackbench prints, and what is measured of any program."""


@dataclass(frozen=True, slots=True)
class Row:
    """A predicted ratio; `low` and `high` are None where there are too few draws or iterations, for `reason`."""

    machine: str
    workload: str
    param: str
    metric: str
    unit: str
    better: str
    baseline: str
    variant: str
    ratio: float
    low: float | None
    high: float | None
    model: str
    reason: str = ""

    @property
    def name(self) -> str:
        """Words for messages."""
        return " ".join(filter(None, (self.workload, self.param, self.metric, self.variant)))


@dataclass(frozen=True)
class Seal:
    """Predictions of an experiment."""

    experiment: str
    file: str
    """`experiment` and `file`: its name, and its file as it was named."""
    file_sha256: str
    """Hash of that file."""
    version: str
    """Of opplab."""
    models: dict[str, str]
    """Fingerprints of the benchmark models, which calibrations carry as well."""
    draws: int
    rows: list[Row]

    def to_json(self) -> str:
        """Give it with the hash of its content."""
        plain = {"format": FORMAT, "level": LEVEL, **asdict(self)}
        return json.dumps({**plain, "seal_sha256": digest_of(plain)}, indent=1) + "\n"

    def write(self, path: str | Path) -> None:
        """Write it: whole or not at all."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> Seal:
        """Read one.

        Raises
        ------
        InputError
            If it is none, or was changed after it was made.
        """
        path = Path(path)
        text = read_text(path, "sealed predictions")
        try:
            plain = json.loads(text)
            told = plain.pop("seal_sha256")
            made = plain.pop("format"), plain.pop("level")
            rows = [Row(**row) for row in plain.pop("rows")]
            found = cls(**plain, rows=rows)
            for name in ("experiment", "file", "file_sha256", "version"):
                check_text(plain, name)
            for row in rows:
                check_row(asdict(row), "ratio", ("low", "high"))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            reason = f"it has no key {error}" if isinstance(error, KeyError) else str(error)
            raise InputError(f"{path}: not a sealed prediction of `opplab predict`: {reason}") from None
        if made != (FORMAT, LEVEL):
            raise InputError(f"{path}: format {made[0]}, level {made[1]}: this version reads {FORMAT}, {LEVEL}")
        if told != digest_of({"format": FORMAT, "level": LEVEL, **asdict(found)}):
            raise InputError(f"{path}: its rows were changed after it was sealed (seal_sha256 differs)")
        return found

    def check_file(self, path: Path) -> None:
        """Refuse an experiment's file that is not the one that was sealed."""
        if text_hash(read_text(path, "an experiment file")) != self.file_sha256:
            raise InputError(f"{path}: changed since it was predicted (file_sha256 of the seal differs)")


def check_text(plain: Mapping[str, Any], *names: str) -> None:
    """Refuse what should be texts and is not.

    Raises
    ------
    TypeError
    """
    for name in names:
        if not isinstance(plain[name], str):
            raise TypeError(f"`{name}` is {plain[name]!r}, which is no text")


def check_row(plain: Mapping[str, Any], ratio: str, *ends: tuple[str, str]) -> None:
    """Refuse a row of predictions or of a score whose names or numbers cannot be; intervals may be absent.

    Raises
    ------
    TypeError, ValueError
    """
    check_text(plain, "machine", "workload", "param", "metric", "baseline", "variant")
    _check_ratio(plain, ratio)
    for low, high in ends:
        if plain[low] is None and plain[high] is None:
            continue
        _check_ratio(plain, low)
        _check_ratio(plain, high)
        if plain[low] > plain[high]:
            raise ValueError(f"`{low}` is {plain[low]}, above `{high}`, {plain[high]}")


def _check_ratio(plain: Mapping[str, Any], name: str) -> None:
    value = plain[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise ValueError(f"`{name}` is {value!r}, which is no ratio")


def text_hash(text: str) -> str:
    """Give the hash of an experiment's text."""
    return hashlib.sha256(text.encode()).hexdigest()


def seal(
    experiment: Experiment,
    folder: str | Path,
    *,
    draws: int = DRAWS,
    metrics: Sequence[str] = (),
    jobs: int = 1,
    progress: Shown | None = None,
) -> Seal:
    """Run an experiment, draw what it assumes, and seal the ratios of its variants.

    Parameters
    ----------
    folder : path
        Results folder: what is there is not run again.
    draws : int
        Of the assumed numbers, the files' own among them.
    metrics : sequence of str
        What to predict; without any what the benchmarks report and the energy, or the missed activations.
    progress : callable, optional
        Gives a context for so many cases.
    """
    from opplab.comparison.sources import Frame, with_energy_of_cases
    from opplab.simulation.fitted import fingerprint
    from opplab.sweep.store import Store
    from opplab.uncertainty.sweep import how_sure

    if not experiment.pairs:
        raise InputError(f"{experiment.file}: nothing to predict: it names no `baseline`, or a single policy")
    if draws < (needed := quantile_draws(LEVEL)):
        raise InputError(f"an interval of {100 * LEVEL:g} % needs {needed} draws, these are {draws}")
    with counted(progress, len(experiment.cases)) as shown:
        results = experiment.run(folder, jobs=jobs, progress=shown)
    source = Frame(results)
    there = with_energy_of_cases(source.table)["metric"].unique().to_list() if metrics else []
    for name in metrics:
        if name not in there:
            raise InputError(f"{experiment.file}: its runs have no metric `{name}`{nearest(name, there)}")
    labels = results["benchmark"].unique(maintain_order=True).to_list()
    wanted = list(metrics) or list(dict.fromkeys(name for label in labels for name in source.declared(label)))
    with Store(Path(folder) / "draws") as store:
        sure = how_sure(
            experiment, results, wanted, draws, store=store, jobs=jobs, level=LEVEL, progress=progress, ratios=True
        )
    models = benchmark_models(experiment)
    rows = []
    for line in sure.lines:
        model = models.get(line.point[1], "")
        low, high, reason = _interval(line.change, model)
        at = dict(zip(("machine", "workload", "param"), line.point, strict=True))
        what = {"metric": line.metric, "unit": line.unit, "better": line.better}
        ratio = 1 + line.change.value / 100
        rows.append(
            Row(**at, **what, baseline=line.base, variant=line.variant, ratio=ratio, low=low, high=high, model=model,
                reason=reason)
        )  # fmt: skip
    if not rows:
        raise InputError(f"{experiment.file}: no ratio of {', '.join(wanted)}: every baseline is 0")
    known = {name for name in models.values() if name in {str(one["name"]) for one in _opplab.benchmarks()}}
    prints = {name: fingerprint(name) for name in sorted(known)}
    return Seal(experiment.name, experiment.file, text_hash(experiment.text), _opplab.__version__, prints, draws, rows)


def _interval(change: Parts, model: str) -> tuple[float | None, float | None, str]:
    """Join the interval of a change in percent with the error that the model made so far."""
    ratio = 1 + change.value / 100
    low, high, reason = change.low, change.high, ""
    if change.unknown:
        return None, None, change.unknown
    if low is None or high is None:
        needed = quantile_draws(LEVEL)
        if change.draws and change.draws + 1 < needed:
            return None, None, f"needs {needed} draws, has {change.draws + 1}"
        if change.varies:
            return None, None, "needs 2 iterations"
        low = high = change.value
        reason = "nothing is drawn and nothing varies: the models' past errors alone"
    ends = 1 + low / 100, 1 + high / 100
    if ratio <= 0 or ends[0] <= 0:
        return max(ends[0], 0.0), ends[1], "reaches 0: without the models' past errors"
    half = half_width(model, math.log(ratio), known_errors())
    below, above = math.log(ratio / ends[0]), math.log(ends[1] / ratio)
    return ratio * math.exp(-math.hypot(half, below)), ratio * math.exp(math.hypot(half, above)), reason


@dataclass(frozen=True, slots=True)
class Scored(Cell):
    """A measured ratio beside its prediction, with the interval that was sealed."""

    sealed: tuple[float, float] = (-math.inf, math.inf)
    measured: tuple[float, float] | None = None
    pairs: int = 0
    measured_on: str = ""
    """The machine of the measurement; `machine` is the predicted one."""

    @property
    def interval(self) -> tuple[float, float]:
        """The sealed interval."""
        return self.sealed

    @property
    def is_inside(self) -> bool:
        """Whether the sealed interval holds what was measured."""
        return self.sealed[0] <= self.published <= self.sealed[1]


@dataclass
class Score(Block):
    """How predictions were."""

    cells: list[Scored]
    figures: dict[str, Any]
    """As of `opplab.agreement.scoreboard.score`."""
    open: list[str]
    """What of either side has no partner or no interval, with the reason."""
    experiment: str = ""

    @property
    def machines(self) -> list[str]:
        """Those that were measured."""
        return list(dict.fromkeys(cell.measured_on for cell in self.cells))

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a scored ratio."""
        return [
            {
                "machine": cell.machine,
                "measured_on": cell.measured_on,
                "workload": cell.benchmark,
                "param": cell.parameter,
                "metric": cell.metric,
                "baseline": cell.baseline,
                "variant": cell.variant,
                "predicted": cell.predicted,
                "low": cell.sealed[0],
                "high": cell.sealed[1],
                "measured": cell.published,
                "measured_low": cell.measured and cell.measured[0],
                "measured_high": cell.measured and cell.measured[1],
                "pairs": cell.pairs,
                "inside": cell.is_inside,
                "sign_agrees": cell.agrees if cell.exceeds else None,
                "closer": cell.closer,
            }
            for cell in self.cells
        ]

    def size(self) -> int:
        """Give the number of lines."""
        return len(self.cells)

    def tables(self, most: int | None = None) -> list[list[dict[str, str]]]:
        """Give the ratios, and the figures."""
        has_several = len({cell.machine for cell in self.cells}) > 1
        lines = [
            {
                **({"machine": cell.machine} if has_several else {}),
                "workload": " ".join(filter(None, (cell.benchmark, cell.parameter))),
                "metric": cell.metric,
                "variant": cell.variant,
                "predicted": f"{cell.predicted:.3f} [{cell.sealed[0]:.3f}, {cell.sealed[1]:.3f}]",
                "measured": f"{cell.published:.3f}"
                + (f" [{cell.measured[0]:.3f}, {cell.measured[1]:.3f}]" if cell.measured else ""),
                "": ", ".join(_words(cell)),
            }
            for cell in self.cells[:most]
        ]
        return [lines, [figures_row(self.figures)]]

    def facts(self) -> Mapping[str, Any]:
        """Give what JSON has beside the rows."""
        facts = {"experiment": self.experiment, "machines": self.machines, "interval": LEVEL}
        return {**super().facts(), **facts, "figures": self.figures, "open": self.open}

    def below(self) -> list[str]:
        """Give what was not scored."""
        return [f"Not scored: {line}." for line in self.open]


def figures_row(figures: Mapping[str, Any]) -> dict[str, str]:
    """Give the figures of a score as a line of a table."""
    percent = {"sign": "sign_agreement", "closer": "closer", "in 90 %": "coverage90"}
    shown = {name: "-" if (one := figures[key]) is None else f"{100 * one:.0f} %" for name, key in percent.items()}
    skills = {name: figures[f"skill_{name}"] for name in ("median", "mean")}
    return {
        "cells": str(figures["cells"]),
        "sign": f"{shown['sign']} of {figures['sign_cells']}",
        **{f"skill, {name}": "-" if one is None else f"{one:+.2f}" for name, one in skills.items()},
        "closer": shown["closer"],
        "in 90 %": shown["in 90 %"],
        "width": "-" if figures["width"] is None else f"{figures['width']:.3f}",
    }


def _words(cell: Scored) -> list[str]:
    words = [] if cell.is_inside else ["outside"]
    if cell.exceeds and not cell.agrees:
        words.append("wrong sign")
    return words


def score_of(
    sealed: Seal, results: str | PathLike[str] | Sequence[str | PathLike[str]], names: Mapping[str, str] | None = None
) -> Score:
    """Score sealed predictions against what was measured.

    Parameters
    ----------
    results : path or sequence of paths
        A folder of `opplab host compare` or `opplab run`, or a table, as `opplab compare` reads them.
    names : mapping of str to str, optional
        Predicted name -> what the results call it: a machine, workload, metric, variant or baseline.

    Raises
    ------
    InputError
        If nothing of the results is what was predicted.
    """
    from opplab.comparison.compare import compare
    from opplab.mmtests.problems import UnknownName

    other = names or {}
    known = {value for row in sealed.rows for value in asdict(row).values() if isinstance(value, str) and value}
    for name in other:
        if name not in known:
            raise InputError(f"`{name}` is no name of the seal{nearest(name, sorted(known))}")
    tables: dict[str, list[dict[str, Any]]] = {}
    has_several = len({row.machine for row in sealed.rows}) > 1
    cells, left = [], []
    for row in sealed.rows:
        name = f"{row.machine} {row.name}" if has_several else row.name
        base = other.get(row.baseline, row.baseline)
        if base not in tables:
            try:
                made = compare(results, baseline=base, confidence=LEVEL, everything=True)
            except UnknownName as error:
                raise InputError(f"the baseline is not measured: {error}; `--as '{row.baseline}=NAME'`") from None
            lines = [one for table in made for one in _lines(table)]
            tables[base] = [*lines, *_watts(results, base, lines)]
        near = _measured(row, tables[base], other, several=has_several)
        if isinstance(near, str):
            left.append(f"{name}: {near}")
            continue
        if row.low is None or row.high is None:
            left.append(f"{name}: no predicted interval: {row.reason}")
            continue
        ends = (near["ratio_low"], near["ratio_high"])
        low, high = (None, None) if None in ends else ends
        plain = {
            **asdict(row),
            "predicted": row.ratio,
            "measured": float(near["ratio"]),
            "measured_low": low,
            "measured_high": high,
            "pairs": int(near["n"] or 0),
            "measured_on": near["machine"] or "",
        }
        cells.append(cell_of(plain, sealed.experiment))
    if not cells:
        raise InputError(f"nothing measured is what was predicted: {'; '.join(left[:3])}")
    figures = score(cells)
    inside = sum(cell.is_inside for cell in cells)
    question = f"{sealed.experiment}: {len(cells)} of {len(sealed.rows)} predicted ratios against measured ones"
    skill = figures["skill_median"]
    finding = f"{inside} of {len(cells)} are inside their {100 * LEVEL:.0f} % intervals" + (
        "."
        if skill is None
        else f"; skill over `no change`: {skill:+.2f} (median), {figures['skill_mean']:+.2f}"
        " (mean). 1 is perfect, 0 no better."
    )
    return Score(question, finding, cells, figures, left, sealed.experiment)


def _lines(table: Table) -> list[dict[str, Any]]:
    """Give the cells of a table, each with why its values are not whole."""
    cannot = {
        (row.operation, row.metric, run): cell.impossible or cell.cannot
        for row in table.rows
        for run, cell in zip(table.runs, row.cells, strict=True)
        if cell
    }
    lines = table.to_frame().to_dicts()
    return [{**one, "cannot": cannot.get((one["operation"], one["metric"], one["run"]), "")} for one in lines]


ALL_OF = "all parameters"
"""The parameter of a mean over several."""


def _watts(
    results: str | PathLike[str] | Sequence[str | PathLike[str]], base: str, lines: Sequence[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Give the power of each benchmark as a cell, where no metric has it: a monitor's, or energy by time."""
    from opplab.comparison.compare import compare

    have = {one["benchmark"] for one in lines if one["metric"] == "power"}
    try:
        found = [one for table in compare(results, baseline=base, table="power") for one in _lines(table)]
    except InputError:
        # None was recorded.
        return []
    base_w = {(one["machine"], one["operation"]): one["value"] for one in found if one["run"] == base}
    cells = []
    for one in found:
        name, machine = one["operation"], one["machine"]
        own = (line for line in lines if (line["benchmark"], line["machine"]) == (name, machine))
        params = {_param(line) for line in own}
        was = base_w.get((machine, name))
        if name not in have and one["value"] is not None and was:
            param = ALL_OF if len(params) > 1 else "".join(params)
            operation = f"power-{param}" if param else "power"
            cells.append({**one, "benchmark": name, "operation": operation, "ratio": one["value"] / was})
    return cells


def _measured(
    row: Row, table: Sequence[dict[str, Any]], other: Mapping[str, str], *, several: bool
) -> dict[str, Any] | str:
    """Find the measured ratio of a predicted one, or the reason why there is none."""
    workload = other.get(row.workload, row.workload)
    own = [one for one in table if one["benchmark"] == workload]
    if not own:
        seen = sorted({one["benchmark"] for one in table})
        return f"the results have no workload `{workload}`{nearest(workload, seen) or f' (they have {_list(seen)})'}"
    machine = other.get(row.machine, row.machine)
    there = sorted({one["machine"] for one in own})
    # The one machine that was predicted may be measured under another name, where the results have no other.
    if several or len(there) > 1 or row.machine in other:
        own = [one for one in own if one["machine"] == machine]
        if not own:
            return f"the results have no machine `{machine}` (they have {_list(there)}): --as '{row.machine}=NAME'"
    variant = other.get(row.variant, row.variant)
    runs = sorted({one["run"] for one in own})
    own = [one for one in own if one["run"] == variant]
    if not own:
        return f"the results have no variant `{variant}`{nearest(variant, runs) or f' (they have {_list(runs)})'}"
    wanted = other.get(row.metric, row.metric)
    metrics = sorted({one["metric"] for one in own})
    if wanted == "energy" and wanted not in metrics and "power" in metrics:
        return "the results have no energy; they have watts: predict --metric power"
    # A tree of mmtests has operations of one metric without a name.
    of_metric = [one for one in own if one["metric"] in (wanted, "", None)]
    for name in STANDS_FOR.get(row.metric, ()) if wanted == row.metric else ():
        of_metric = of_metric or [one for one in own if one["metric"] == name]
    if not of_metric:
        return f"the results have no metric `{wanted}`{nearest(wanted, metrics) or f' (they have {_list(metrics)})'}"
    params = [_param(one) for one in of_metric]
    if params == [ALL_OF]:
        return "the results have one mean of the watts of all parameters"
    same = [one for one, param in zip(of_metric, params, strict=True) if param in (row.param, _value(row.param))]
    if not same and params == [""]:
        # A program that was measured at one point has no parameter.
        same = of_metric
    if not same:
        return f"the results have no `{row.param}` (they have {_list(params)})"
    if len(same) > 1:
        return "several rows of the results are it"
    if same[0]["cannot"]:
        return f"measured, but {same[0]['cannot']}"
    return same[0] if same[0]["ratio"] is not None else "the results have no ratio to the baseline"


def _param(one: Mapping[str, Any]) -> str:
    operation, metric = one["operation"] or "", one["metric"] or ""
    return str(operation).removeprefix(metric).removeprefix("-") if metric else str(operation)


def _value(param: str) -> str:
    return param.rpartition("=")[2]


def _list(names: Sequence[str]) -> str:
    return some_of((f"`{name}`" for name in names), 4)


def cell_of(row: Mapping[str, Any], experiment: str = "") -> Scored:
    """Give the cell of a row as `Score.rows` gives it."""
    nothing = {one.name: math.nan for one in fields(Cell) if one.type == "float" and one.default is MISSING}
    ratio = row["measured"]
    ends = None if row["measured_low"] is None else (row["measured_low"], row["measured_high"])
    return Scored(
        **{
            **nothing,
            "seed": row["machine"],
            "table": experiment,
            "experiment": experiment,
            "machine": row["machine"],
            "benchmark": row["workload"],
            "metric": row["metric"],
            "unit": "",
            "better": "",
            "parameter": row["param"],
            "variant": row["variant"],
            "baseline": row["baseline"],
            "published": ratio,
            "predicted": row["predicted"],
            # An effect has a sign where its interval excludes that nothing changes.
            "spread": 0.0 if ends is None else (ratio - ends[0] if ratio > 1 else ends[1] - ratio),
            "points": 1,
            "explanation": "",
        },
        sealed=(row["low"], row["high"]),
        measured=ends,
        pairs=row["pairs"],
        measured_on=row.get("measured_on", ""),
    )
