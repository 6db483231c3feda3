"""A gate for somebody's CI: rules over the cells of a comparison, and JUnit XML of what they found.

A rule is ``NAME OPERATOR PERCENT [better] [significant|clear]``, several joined by ``or``:

* NAME: a benchmark (``tbench``: the performance that it measures, and neither energy nor power where it measures any
  other thing), an operation (``tput-16``), both (``tbench:tput-16``),
  or ``any``: each metric that a run can be better at, shown or not (`Rule.takes_all`);
* OPERATOR: ``<``, ``<=``, ``>`` or ``>=``;
* PERCENT: the change, positive being an improvement: ``-2%``;
* NAME may also be a metric beside those that are shown, such as ``energy_per_work``, where it is known;
* ``better``: with ``>`` and ``>=``, whose rules fail on improvements.  Without the word they are refused, as
  ``energy > 5%`` reads like a regression, and would let each one pass;
* ``significant``: changes whose interval includes no change do not count, unless it would exclude it were values for
  the worse better than they are: a worse value never makes such a rule pass, and an outlier excuses nothing;
* ``clear``: only changes whose interval excludes no change count, those with a star.

Any rule that has the star and whose failures stay failures when values get worse fails on n pairs of equal runs
with a chance of 0.5^n at least, where all are worse: the price of ``significant``, `chance_of_pairs`.

What a rule is about and cannot judge is a failure: a run, benchmark, operation or iteration that is missing, values
that are no numbers.  What is missing and may be is left out, and the rest is judged.  PERCENT are percentage points for
shares; another change from 0 is without bound.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import exp, hypot, isfinite, isnan, log, sqrt
from statistics import fmean, stdev

from opplab import stats
from opplab.certainty import CONFIDENCE, change_text
from opplab.comparison.method import Sample, change_of, counting_half
from opplab.comparison.overview import is_performance
from opplab.comparison.tables import Cell, Row, Table
from opplab.errors import InputError
from opplab.files import printable, write_text
from opplab.metrics import ALIASES, is_answer

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RULE = re.compile(
    r"^\s*(?P<name>\S+)\s*(?P<op><=|>=|<|>)\s*(?P<percent>[-+]?\d+(?:\.\d+)?)\s*%\s*(?P<better>better)?"
    r"\s*(?P<noise>significant|clear)?\s*$"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What makes a comparison fail."""

    text: str
    name: str
    compare: Callable[[float, float], bool]
    percent: float
    noise: str
    """``significant``, ``clear``, or nothing where noise counts, too."""

    @property
    def takes_all(self) -> bool:
        """Whether the rule is about all metrics, and not only those that tables show."""
        return self.name in ("any", "*")

    def concerns(self, table: Table, row: Row) -> bool:
        """Whether the rule is about a line of a table."""
        if self.takes_all:
            return bool(row.better or table.better)
        benchmark, colon, operation = self.name.partition(":")
        here = _benchmark_of(table, row)
        if colon and self.name != row.metric:
            return here == benchmark and (row.operation.startswith(operation) or row.metric == operation)
        return self.name in (here, row.operation, row.operation.rpartition("-")[0], row.metric)

    def may_leave_out(self, table: Table, row: Row) -> bool:
        """Whether a line is in the rule by its benchmark's name alone, and no performance of it."""
        if self.takes_all or self.name != _benchmark_of(table, row) or self.name == row.metric:
            return False
        return row.is_beside or row.group.startswith(_PER_WATT) or not is_performance(row.unit or table.unit)


_PER_WATT = "PERFORMANCE-PER-WATT"


def _benchmark_of(table: Table, row: Row) -> str:
    """Give the benchmark of a line; those of an overview are a benchmark, or a metric of it."""
    return row.operation if table.layout in ("overview", "power") else table.benchmark


@dataclass(frozen=True, slots=True)
class Check:
    """One cell under one rule."""

    suite: str
    case: str
    rule: str
    failed: bool
    message: str
    forgiven: str = ""
    """What is missing and may be."""
    skipped: bool = False
    """Whether nothing is left to judge."""


def parse(text: str) -> list[Rule]:
    """Read a rule.

    Examples
    --------
    >>> [rule.percent for rule in parse("tbench < -2% significant or any < -10%")]
    [-2.0, -10.0]
    """
    rules = []
    for part in re.split(r"\bor\b", text):
        found = _RULE.match(part)
        if not found:
            # A name of its own, or what every comparison has.
            name = next(iter(re.findall(r"[^\s<>=]*[A-Za-z][^\s<>=]*", part)), "any")
            raise InputError(f"cannot read the rule '{part.strip()}'; write e.g. '{name} < -2% clear'")
        if ">" in found["op"] and not found["better"]:
            name, percent = found["name"], found["percent"].lstrip("+-")
            raise InputError(
                f"the rule '{part.strip()}' fails on improvements (a change above 0 is better); "
                f"write '{name} < -{percent}%' against regressions, or '{part.split('%')[0].strip()}% better'"
            )
        if found["better"] and ">" not in found["op"]:
            raise InputError(f"the rule '{part.strip()}' fails on regressions: `better` goes with > and >=")
        rules.append(
            Rule(
                part.strip(),
                found["name"],
                _OPERATORS[found["op"]],
                float(found["percent"]),
                found["noise"] or "",
            )
        )
    return rules


def names_of(rules: Sequence[str]) -> list[str]:
    """Give what rules are about: benchmarks, operations and metrics.

    Examples
    --------
    >>> names_of(["tbench < -2%", "tbench:energy_per_work < -5% or power < -5%"])
    ['tbench', 'tbench:energy_per_work', 'energy_per_work', 'power']
    """
    names = [rule.name for text in rules for rule in parse(text)]
    # A colon may also be that of a metric: `energy:big`, `tbench:energy:big`.
    return [part for name in names for part in dict.fromkeys((name, name.partition(":")[2] or name))]


def check(
    tables: Sequence[Table],
    rules: Sequence[str],
    *,
    whole: Sequence[Table] | None = None,
    allow_missing: Collection[str] = (),
    missing: Sequence[str] = (),
    confidence: float = CONFIDENCE,
    every: Callable[[], Sequence[Table]] = tuple,
) -> list[Check]:
    """Apply rules to all cells that they concern.

    Parameters
    ----------
    whole : sequence of Table, optional
        The tables with all metrics, for rules that take all; otherwise they take what `tables` have.
    allow_missing : collection of str
        Runs, benchmarks, operations, metrics and machines that may be missing.
    missing : sequence of str
        What the source lacks as a whole, each a failure.
    confidence : float
        Of the intervals that ``significant`` asks.
    every : callable
        Gives the tables of all metrics that a rule may name, for the refusal of one that concerns nothing.

    Raises
    ------
    InputError
        For a rule that cannot be read.
    """
    found = [Check("source", what, "complete", failed=True, message=what) for what in missing]
    for rule in (rule for text in rules for rule in parse(text)):
        among = tables if whole is None or not rule.takes_all else whole
        cells = list(_cells(among, rule)) or list(_cells(among, replace(rule, name=_meant(rule.name))))
        found += [_judge(rule, *cell, confidence, _may_lack(cell, allow_missing)) for cell in cells]
        if not cells:
            from opplab.catalog import nearest

            may = rule.name in allow_missing
            known = sorted({name for table in (*tables, *every()) for name in _names(table)})
            hint = "" if rule.name in known else nearest(rule.name, known)
            if not hint and rule.name not in known and len(known) <= _NAMED:
                hint = f" (known: {', '.join(known)})"
            message = f"the rule '{rule.text}' concerns nothing that was compared{hint}"
            forgiven = "nothing compared" if may else ""
            found.append(Check(rule.name, "nothing compared", rule.text, not may, message, forgiven, skipped=may))
    return found


_NAMED = 40
"""As many names a refusal lists."""


def _meant(name: str) -> str:
    """Give a rule's name with the metric that its common name means.

    Examples
    --------
    >>> _meant("missed"), _meant("web:response"), _meant("tbench")
    ('missed_activations', 'web:response_p99', 'tbench')
    """
    head, colon, metric = name.rpartition(":")
    return f"{head}{colon}{ALIASES.get(metric, metric)}"


def _names(table: Table) -> Iterator[str]:
    yield table.benchmark
    for row in table.rows:
        # Neither parts of other metrics nor details have a better side that rules ask for.
        if is_answer(row.metric):
            yield from (row.operation, row.metric)


def _cells(tables: Sequence[Table], rule: Rule) -> Iterator[tuple[Table, Row, str, Cell | None]]:
    def is_tested(row: Row) -> bool:
        return any(cell and (cell.significant is not None or cell.cannot or cell.sample) for cell in row.cells[1:])

    # Energy and power have rules of their own names; of what measures nothing else they are all.
    performance = any(
        rule.concerns(table, row) and not rule.may_leave_out(table, row) for table in tables for row in table.rows
    )
    for table in tables:
        # Where nothing is known of the noise, every change counts.
        by_noise = bool(rule.noise) and any(map(is_tested, table.rows))
        for row in table.rows:
            if not rule.concerns(table, row) or (performance and rule.may_leave_out(table, row)):
                continue
            # Statistics without a test, such as mmtests' Stddev, have no significant changes.
            if not by_noise or is_tested(row) or None in row.cells:
                # What a run lacks as its baseline does is of other runs.
                for run, cell in list(zip(table.runs, row.cells, strict=True))[1:]:
                    if cell is not None or row.cells[0] is not None:
                        yield table, row, run, cell


def _may_lack(at: tuple[Table, Row, str, Cell | None], allowed: Collection[str]) -> bool:
    """Whether what a cell lacks may be missing."""
    table, row, run, _ = at
    names = {run, table.benchmark, table.machine, row.operation, row.metric, f"{table.benchmark}:{row.operation}"}
    return bool(names & set(allowed))


def _nothing(table: Table, row: Row, cell: Cell | None) -> str:
    """Explain why there is no change to judge; empty if there is one."""
    if not (row.better or table.better):
        return "neither more nor less of it is better"
    base = row.cells[0]
    if base is None or base.value is None or not isfinite(base.value):
        return "the baseline has no value"
    if cell is None or cell.value is None or not isfinite(cell.value):
        return (cell.cannot if cell is not None else "") or "no value"
    if cell.cannot and cell.n == 0:
        # What mmtests prints of values that are not there.
        return cell.cannot
    if cell.change is None and not (cell.change_text or base.value == 0):
        return cell.cannot or "no change can be computed"
    return "the change is no number" if cell.change is not None and isnan(cell.change) else ""


def _judge(rule: Rule, table: Table, row: Row, run: str, cell: Cell | None, confidence: float, may_lack: bool) -> Check:
    what = f"{row.stat} {row.operation}".strip()
    if table.layout == "overview":
        what = f"{row.operation} {row.metric}{' per watt' if row.group.startswith(_PER_WATT) else ''}"
    on = f" on {table.machine}" if table.machine else ""
    head = f"{table.benchmark} {what} of {run}{on}"
    suite = ".".join(filter(None, (table.machine, table.benchmark)))
    case = f"{what} {run}"
    if cell is not None and cell.impossible:
        # Nothing of it is missing, so that nobody can allow it.
        return Check(suite, case, rule.text, failed=True, message=f"{head}: {cell.impossible}, rule '{rule.text}'")
    nothing = _nothing(table, row, cell)
    lacks = nothing or (cell.cannot if cell is not None else "")
    if lacks and not may_lack:
        message = f"{head}: {lacks}, rule '{rule.text}' (--allow-missing takes its name)"
        return Check(suite, case, rule.text, failed=True, message=message)
    if nothing:
        return Check(suite, case, rule.text, False, f"{head}: {nothing}, rule '{rule.text}'", nothing, skipped=True)
    assert cell is not None
    base = row.cells[0]
    assert base is not None
    assert base.value is not None
    assert cell.value is not None
    change, absolute = cell.change, cell.in_points or base.value == 0
    if change is None or (absolute and not cell.in_points):
        change, absolute = change_of(base.value, cell.value, row.better == "higher", row.unit)
    # Changes of round numbers are no more than what they are by the last digits of a double.
    failed = rule.compare(round(change, _DIGITS), rule.percent)
    outlier = ""
    if failed and rule.noise and (rule.noise == "clear" or not absolute or cell.in_points) and _is_noise(cell):
        failed = rule.noise == "significant" and _is_excess(cell, change, confidence)
        outlier = _outlier_words(cell, confidence) if failed else ""
    shown = f"from 0 to {cell.value:g} {row.unit}".rstrip()
    if isfinite(change):
        # As rules are written: `9%`.
        shown = change_text(change, unit="pp" if absolute else "%", digits=2).replace(" %", "%")
    words = cell.certain or ("clear" if cell.significant else "")
    star = f" ({words}{outlier})" if words else ""
    without = f", {lacks}" if lacks else ""
    return Check(suite, case, rule.text, failed, f"{head}: {shown}{star}{without}, rule '{rule.text}'", lacks)


def _is_noise(cell: Cell) -> bool:
    """Whether a change is within its interval of nothing; where nothing is known of the noise it is not."""
    return cell.significant is False and cell.certain in ("", "not clear")


def _is_excess(cell: Cell, change: float, confidence: float) -> bool:
    """Whether a change is within its interval of nothing only by values for the worse."""
    return cell.sample is not None and change <= 0 and _clear_without_outliers(cell.sample, confidence)


def chance_of_pairs(pairs: int, confidence: float = CONFIDENCE) -> float:
    """Give the most of equal runs that ``significant`` fails on: those with a star, and those with all pairs worse.

    Examples
    --------
    >>> [round(chance_of_pairs(pairs), 3) for pairs in (3, 5, 10)]
    [0.15, 0.056, 0.026]
    """
    return (1 - confidence) / 2 + 0.5**pairs


def _outlier_words(cell: Cell, confidence: float) -> str:
    words = "; clear without its outliers for the worse"
    if cell.sample is None or not cell.sample.paired:
        return words
    pairs = len(cell.sample.new)
    chance = 100 * chance_of_pairs(pairs, confidence)
    return f"{words}, as up to {chance:.2g} % of equal runs with {pairs} pairs are"


_STEPS = 40

_DIGITS = 9


def _clear_without_outliers(sample: Sample, confidence: float) -> bool:
    """Whether a change for the worse is clear when values of the run are taken as better than they are.

    Of all such values those of a given mean vary least that are cut off at what the baseline lets expect, by one and
    the same amount.  So one number, the mean, is searched for the interval that is farthest from no change; the mean
    as it is belongs to the search, and no worse value can take anything out of it.
    """
    # As times and costs: less is better.
    turn = (lambda value: 1 / value) if sample.is_rate else (lambda value: -value) if sample.higher else float
    base, new = [turn(value) for value in sample.base], [turn(value) for value in sample.new]
    by_difference = sample.is_share or (sample.higher and not sample.is_rate)
    if by_difference and sample.paired:
        base, new = [0.0] * len(new), [ours - theirs for ours, theirs in zip(new, base, strict=True)]
    level, highest = fmean(base), fmean(new)
    if highest <= level:
        return False
    of_pairs = bool(sample.paired) and not by_difference
    shape = [value / level for value in base] if of_pairs else [1.0] * len(new)
    # Welch's degrees of freedom fall with a spread that falls; their bound does not depend on what is cut off.
    freedom = len(new) - 1 if sample.paired else len(base) + len(new) - 2
    t = stats.t_half(freedom + 1, confidence) * sqrt(freedom + 1)

    def distance(mean: float) -> float:
        cut = _cut_to(mean, new, shape)
        if by_difference:
            half = t * hypot(stdev(cut) / sqrt(len(cut)), stdev(base) / sqrt(len(base)))
            return mean - level - max(half, counting_half(mean - level, sample.events, confidence))
        cut = [value / mean for value in cut]
        if of_pairs:
            error = stdev([one - part for one, part in zip(cut, shape, strict=True)]) / sqrt(len(cut))
        else:
            error = hypot(stdev(cut) / sqrt(len(cut)), stdev(base) / level / sqrt(len(base)))
        return log(mean / level) - t * error

    # The farthest interval is near a mean at which so many values are cut off to the next one, or between two of them.
    parts = [(value, level * part) for value, part in zip(new, shape, strict=True)]
    tops = [value - part for value, part in parts]
    means = [sum(min(value, part + top) for value, part in parts) / len(new) for top in tops]
    means = sorted({min(max(mean, level), highest) for mean in means} | {level, highest})
    if any(distance(mean) > 0 for mean in means):
        return True
    scale, back = (float, float) if by_difference else (log, exp)
    for low, high in pairwise(map(scale, means)):
        for _ in range(_STEPS):
            first, second = low + (high - low) * 0.382, low + (high - low) * 0.618
            ends = distance(back(first)), distance(back(second))
            if max(ends) > 0:
                return True
            low, high = (low, second) if ends[0] > ends[1] else (first, high)  # noqa: PLW2901
    return False


def _cut_to(mean: float, values: Sequence[float], shape: Sequence[float]) -> list[float]:
    """Cut values off at their shape times a mean and a margin, so that they have that mean."""
    over = sorted(value - mean * part for value, part in zip(values, shape, strict=True))
    # The margin where what is cut off is all that is above the mean: the sum is linear between two values' own margins.
    excess = sum(over)
    margin = over[-1]
    for count, (upper, lower) in enumerate(zip(over[::-1], [*over[-2::-1], -float("inf")], strict=True), 1):
        room = count * (upper - lower)
        if excess <= room:
            margin = upper - excess / count
            break
        excess -= room
    return [min(value, mean * part + margin) for value, part in zip(values, shape, strict=True)]


def write_junit(path: str, checks: Sequence[Check]) -> None:
    """Write the checks as JUnit XML, under a temporary name first."""
    from xml.etree import ElementTree

    failures, skipped = sum(one.failed for one in checks), sum(one.skipped for one in checks)
    counts = {"tests": str(len(checks)), "failures": str(failures), "errors": "0"}
    suite = ElementTree.Element("testsuite", {"name": "opplab compare", **counts})
    if skipped:
        suite.set("skipped", str(skipped))
    for one in checks:
        # XML has no control characters, in whatever spelling.
        name, message = printable(f"{one.case}: {one.rule}"), printable(one.message)
        case = ElementTree.SubElement(suite, "testcase", classname=printable(one.suite), name=name)
        if one.failed:
            ElementTree.SubElement(case, "failure", message=message).text = message
        elif one.skipped:
            ElementTree.SubElement(case, "skipped", message=message)
    ElementTree.indent(suite)
    write_text(path, f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n')
