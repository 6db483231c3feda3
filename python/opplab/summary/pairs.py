"""Tables of pairs of policies, in the layout of the kernel patch sets that use them.

Means, changes and their intervals are those of `opplab compare`.  Where published values exist they stand under the
simulated ones with the difference, good or bad.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from opplab.certainty import Certainty, certainty, change_text
from opplab.comparison.method import compare_runs
from opplab.comparison.sources import by_machine
from opplab.sweep.confidence import Estimate, estimate

if TYPE_CHECKING:
    import polars as pl
    from rich.text import Text

    from opplab.comparison.tables import Cell
    from opplab.runs import Series


@dataclass(frozen=True, slots=True)
class Line:
    """One row of a table: baseline and variant, simulated and published."""

    param: str
    base: Estimate
    variant: Estimate
    base_missed: float | None
    variant_missed: float | None
    published_base: Estimate | None = None
    published_variant: Estimate | None = None
    ends: tuple[float, float] | None = None
    """Ends of the interval of `ratio` in percent, from the iterations that share their seeds."""
    base_lost: float | None = None
    variant_lost: float | None = None
    """`base_lost` and `variant_lost`: resumes that found no task suspended, in percent: work that is not done."""

    @property
    def ratio(self) -> float:
        """Simulated change of the variant against the baseline in percent."""
        return 100 * (self.variant.mean / self.base.mean - 1) if self.base.mean else math.nan

    @property
    def varies(self) -> bool:
        """Whether iterations differ in the baseline or in the variant."""
        return self.base.varies or self.variant.varies

    @property
    def certain(self) -> Certainty:
        """Whether the change is clear, by the rule of all tables."""
        n = min(self.base.n, self.variant.n)
        return certainty(*(self.ends or (None, None)), n=n, varies=self.varies, unit="%", value=self.ratio)

    @property
    def published_ratio(self) -> float | None:
        """Published change in percent: that of the published means.

        It is as printed where the means round to that. A printed change may have another baseline, or be an improvement
        in percent.
        """
        base, variant = self.published_base, self.published_variant
        if base is None or variant is None or not base.mean:
            return None
        change = 100 * (variant.mean / base.mean - 1)
        printed = variant.ratio
        if printed is None or not math.isfinite(change + printed):
            return change
        halves = _half_digit(base.mean) * abs(variant.mean / base.mean) + _half_digit(variant.mean)
        near = abs(printed - change) <= 100 * halves / abs(base.mean) + _half_digit(printed)
        return printed if near else change


@dataclass(frozen=True, slots=True)
class Block:
    """One table: a machine, a benchmark, a baseline and a variant."""

    benchmark: str
    base: str
    variant: str
    unit: str
    param_name: str
    lines: tuple[Line, ...]
    metric: str = "energy"
    better: str = "lower"
    machine: str = ""


def find_published(
    published: pl.DataFrame | None, benchmark: str, policy: str, param: str, unit: str
) -> Estimate | None:
    """Find a published mean: its table is named like our benchmark; variant, parameters and unit are the same."""
    if published is None:
        return None
    mean = half = ratio = None
    for row in published.iter_rows(named=True):
        if (row["policy"], row["param"]) == (policy, param) and row["experiment"] == benchmark:
            if row["metric"].endswith(" ci"):
                half = row["value"] if row["unit"] == unit else half
            elif row["metric"].endswith(" ratio"):
                ratio = row["value"]
            elif row["unit"] == unit:
                mean = row["value"]
    return None if mean is None else Estimate(mean, half, 0, ratio)


def _estimate_of(cell: Cell) -> Estimate:
    """Give a cell of a comparison as a mean with half its interval: 0 where values are equal, None for one value."""
    assert cell.value is not None
    n = cell.n or 0
    without = None if n < 2 or cell.is_open else 0.0
    return Estimate(cell.value, without if cell.half is None else cell.half, n)


def pair_blocks(
    results: pl.DataFrame,
    pairs: Sequence[tuple[str, str]],
    metric: str = "energy",
    published: pl.DataFrame | None = None,
) -> list[Block]:
    """Make one table for each machine, benchmark and (baseline, variant).

    Parameters
    ----------
    results : polars.DataFrame
        Results table; a parameter is one ``name=value``, ordered as it first appears.
    pairs : sequence of (str, str)
        Policies to compare.
    metric : str
        What to compare.
    published : polars.DataFrame, optional
        Published values of the one machine that the results are of, see `opplab.results.from_published`.
    """
    places = by_machine(results)
    blocks = []
    for machine, place in places:
        own = published if len(places) == 1 else None
        there = place.runs()
        for benchmark in dict.fromkeys(name for run in there for name in place.benchmarks(run)):
            late = {
                (run, name): place.load(run, benchmark, name).series
                for run in there
                for name in ("activations", "missed_activations", "lost_resumes")
            }
            for base, variant in pairs:
                if base not in there or variant not in there:
                    continue
                runs = [place.load(name, benchmark, metric) for name in (base, variant)]
                lines, name, unit, better = [], "", "", ""
                for row in compare_runs(runs).rows:
                    ours, theirs = row.cells
                    if ours is None or theirs is None or ours.value is None or theirs.value is None:
                        continue
                    param = runs[0].series[row.operation].param
                    name, unit, better = name or param.partition("=")[0], row.unit, row.better
                    missed, lost = (
                        [_mean_at(late[policy, name], param) for policy in (base, variant)]
                        for name in ("missed_activations", "lost_resumes")
                    )
                    # A share of no activations is none.
                    acts = [_mean_at(late[policy, "activations"], param) for policy in (base, variant)]
                    missed = [None if of == 0 else value for value, of in zip(missed, acts, strict=True)]
                    old = [find_published(own, benchmark, policy, param, unit) for policy in (base, variant)]
                    low, high = theirs.ratio_low, theirs.ratio_high
                    ends = None if low is None or high is None else (100 * (low - 1), 100 * (high - 1))
                    both = _estimate_of(ours), _estimate_of(theirs)
                    shown = param.partition("=")[2] or param
                    lines.append(Line(shown, *both, missed[0], missed[1], old[0], old[1], ends, lost[0], lost[1]))
                if lines:
                    found = tuple(lines)
                    blocks.append(Block(benchmark, base, variant, unit, name, found, metric, better, machine))
    return blocks


def _mean_at(series: Mapping[str, Series], param: str) -> float | None:
    """The mean of the values with these parameters, where there are any."""
    values = [value for one in series.values() if one.param == param for value in one.values()]
    return estimate(values).mean if values else None


def places_of(blocks: Sequence[Block]) -> dict[tuple[str, str], str]:
    """Give each machine and benchmark of blocks the words that distinguish it from the others."""
    return place_names([(block.machine, block.benchmark) for block in blocks])


def place_names(places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Give machines and benchmarks short words: the machine where there are several.

    Examples
    --------
    >>> place_names([("m1", "a-x"), ("m2", "a-x"), ("m2", "a-y")])
    {('m1', 'a-x'): 'm1, x', ('m2', 'a-x'): 'm2, x', ('m2', 'a-y'): 'm2, y'}
    """
    short = short_names([benchmark for _, benchmark in places])
    several = len({machine for machine, _ in places}) > 1
    return {
        (machine, benchmark): ", ".join(filter(None, (machine if several else "", short[benchmark])))
        for machine, benchmark in dict.fromkeys(places)
    }


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Give names without the words that all of them begin with.

    Examples
    --------
    >>> short_names(["juno-energy-homogeneous", "juno-energy-heterogeneous"])
    {'juno-energy-homogeneous': 'homogeneous', 'juno-energy-heterogeneous': 'heterogeneous'}
    """
    unique = list(dict.fromkeys(names))
    words = [name.split("-") for name in unique]
    common = 0
    if len(unique) > 1:
        while all(len(one) > common + 1 for one in words) and len({one[common] for one in words}) == 1:
            common += 1
    return {name: "-".join(one[common:]) for name, one in zip(unique, words, strict=True)}


def _half_digit(value: float) -> float:
    """Give half a unit in the last place of a printed number: how far it may be from what it rounds."""
    return 0.5 * math.pow(10, float(Decimal(repr(value)).as_tuple().exponent))


def _number(value: float | None, form: str, width: int) -> str:
    return ("" if value is None else format(value, form)).rjust(width)


def _half(value: Estimate) -> str:
    """Give an interval as the table has it: empty for one iteration, "none" where the runs have no variation."""
    return _number(value.half, ".2f", 7) if value.varies else "none".rjust(7)


def _missed(value: float | None) -> str:
    return "-".rjust(3) if value is None else f"{value:3.1f}" if value < 9.95 else f"{value:3.0f}"


def _with_percent(mean: str, percent: float | None, *, clear: bool = False) -> str:
    """``5.26 ( +11.83%)``; clear changes have stars for parentheses, as in `opplab compare`."""
    left, right = "**" if clear else "()"
    if percent is None:
        return mean + " " * 11
    return f"{mean} {left}{change_text(percent, digits=2).replace(' %', '%'):>8}{right}"


def render(block: Block) -> Text:
    """Draw a table in the layout of the text, published values and differences under the simulated ones.

    Returns
    -------
    rich.text.Text
        Prints with colours on a terminal; ``.plain`` is the bare text. 80 columns wide.
    """
    from rich.text import Text

    rule = "+--------+-------+---------+---------+---------------------+---------+---------+\n"
    text = Text()
    text.append("+--------+-------+-------------------+-------------------------------+---------+\n")
    text.append(f"|        |       |{block.base:>18} |{block.variant:>30} | missed% |\n")
    text.append(rule)
    label = f"#{block.param_name.capitalize()}"
    text.append(f"| {label:<6} | {block.unit:<5} |    Mean | ci(+/-) |                Mean | ci(+/-) |   L / R |\n")
    text.append(rule)
    for line in block.lines:
        _render_line(text, line)
        text.append(rule)
    return text


def _render_line(text: Text, line: Line) -> None:
    def row(style: str, *cells: str) -> None:
        text.append("|")
        for cell in cells:
            text.append(f" {cell} ", style=style)
            text.append("|")
        text.append("\n")

    row(
        "bold",
        f"{line.param:^6}",
        "sim  ",
        _number(line.base.mean, ".2f", 7),
        _half(line.base),
        _with_percent(_number(line.variant.mean, ".2f", 8), line.ratio, clear=line.certain.is_clear),
        _half(line.variant),
        "/".join(_missed(value) for value in (line.base_missed, line.variant_missed)),
    )
    old_base, old_variant, old_ratio = line.published_base, line.published_variant, line.published_ratio
    if old_base is None or old_variant is None or old_ratio is None:
        return
    row(
        "dim",
        " " * 6,
        "publ.",
        _number(old_base.mean, ".2f", 7),
        _number(old_base.half, ".2f", 7),
        _with_percent(_number(old_variant.mean, ".2f", 8), old_ratio),
        _number(old_variant.half, ".2f", 7),
        " " * 7,
    )
    row(
        "italic",
        " " * 6,
        "diff.",
        f"{100 * (line.base.mean / old_base.mean - 1):+6.1f}%",
        " " * 7,
        f"{100 * (line.variant.mean / old_variant.mean - 1):+7.1f}% ({line.ratio - old_ratio:+6.2f}pp)",
        " " * 7,
        " " * 7,
    )
