"""A gate for somebody's CI: rules over the cells of a comparison, and JUnit XML of what they said.

A rule is ``NAME OPERATOR PERCENT [significant]``, several joined by ``or``:

* NAME: a benchmark (``tbench``), an operation (``tput-16``), both (``tbench:tput-16``), or ``any``;
* OPERATOR: ``<``, ``<=``, ``>`` or ``>=``;
* PERCENT: the change, positive being an improvement: ``-2%``;
* ``significant``: only changes that are significant by the table's method count.
"""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from opplab.errors import InputError
from opplab.files import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opplab.comparison.tables import Cell, Row, Table

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_RULE = re.compile(
    r"^\s*(?P<name>\S+)\s*(?P<op><=|>=|<|>)\s*(?P<percent>[-+]?\d+(?:\.\d+)?)\s*%\s*(?P<sig>significant)?\s*$"
)


@dataclass(frozen=True, slots=True)
class Rule:
    """What makes a comparison fail."""

    text: str
    name: str
    compare: Callable[[float, float], bool]
    percent: float
    significant: bool

    def concerns(self, table: Table, row: Row) -> bool:
        """Whether the rule is about a line of a table."""
        if self.name in ("any", "*"):
            return True
        benchmark, colon, operation = self.name.partition(":")
        if colon:
            return table.benchmark == benchmark and row.operation.startswith(operation)
        return self.name in (table.benchmark, row.operation, row.operation.rpartition("-")[0])

    def holds(self, cell: Cell) -> bool:
        """Whether a cell makes it true."""
        if cell.change is None or (self.significant and not cell.significant):
            return False
        return self.compare(cell.change, self.percent)


@dataclass(frozen=True, slots=True)
class Check:
    """One cell under one rule."""

    suite: str
    case: str
    rule: str
    failed: bool
    message: str


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
            raise InputError(f"cannot read the rule '{part.strip()}'; write e.g. 'tbench < -2% significant'")
        rules.append(
            Rule(
                part.strip(),
                found["name"],
                _OPERATORS[found["op"]],
                float(found["percent"]),
                found["sig"] is not None,
            )
        )
    return rules


def check(tables: Sequence[Table], rules: Sequence[str]) -> list[Check]:
    """Apply rules to all cells that they concern.

    Raises
    ------
    InputError
        For a rule that cannot be read or that concerns nothing: a gate that checks nothing must not pass.
    """
    parsed = [rule for text in rules for rule in parse(text)]
    found = []
    for rule in parsed:
        matched = False
        for table in tables:
            for row in table.rows:
                if not rule.concerns(table, row):
                    continue
                for run, cell in zip(table.runs[1:], row.cells[1:], strict=True):
                    if cell is None or cell.change is None:
                        continue
                    matched = True
                    failed = rule.holds(cell)
                    significant = " (significant)" if cell.significant else ""
                    name = f"{row.stat} {row.operation}".strip()
                    message = f"{table.benchmark} {name} of {run}: {cell.change:+.2f}%{significant}, rule '{rule.text}'"
                    found.append(Check(table.benchmark, f"{name} {run}", rule.text, failed, message))
        if not matched:
            names = sorted({table.benchmark for table in tables})
            raise InputError(f"the rule '{rule.text}' concerns nothing that was compared ({', '.join(names)})")
    return found


def write_junit(path: str, checks: Sequence[Check]) -> None:
    """Write the checks as JUnit XML, under a temporary name first."""
    from xml.sax.saxutils import escape, quoteattr

    failures = sum(one.failed for one in checks)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(f'<testsuite name="opplab compare" tests="{len(checks)}" failures="{failures}" errors="0">')
    for one in checks:
        head = f"  <testcase classname={quoteattr(one.suite)} name={quoteattr(f'{one.case}: {one.rule}')}"
        if one.failed:
            lines.append(f"{head}><failure message={quoteattr(one.message)}>{escape(one.message)}</failure></testcase>")
        else:
            lines.append(f"{head}/>")
    lines.append("</testsuite>")
    place = Path(path)
    write_text(place, "\n".join(lines) + "\n")
