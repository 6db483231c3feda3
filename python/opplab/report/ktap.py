"""Results as KTAP version 1, which kernel CIs read (Documentation/dev-tools/ktap.rst, v6.12)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Test:
    """A test: what it is called, how it ended, its remarks, and the tests that it consists of."""

    name: str
    ok: bool = True
    skip: str = ""
    """Why it was not run; empty if it was."""
    remarks: tuple[str, ...] = ()
    """Diagnostic lines, printed before the result."""
    tests: tuple[Test, ...] = ()
    """Subtests; none for a single test."""


def ktap(tests: Sequence[Test]) -> str:
    """Give tests as a KTAP document.

    Examples
    --------
    >>> print(ktap([Test("pelt"), Test("feec", False, remarks=("line 3: 5 for 6",)), Test("new", skip="not built")]))
    KTAP version 1
    1..3
    ok 1 pelt
    # line 3: 5 for 6
    not ok 2 feec
    ok 3 new # SKIP not built
    """
    return "\n".join(_lines(tests, ""))


def _lines(tests: Sequence[Test], indent: str) -> list[str]:
    lines = [f"{indent}KTAP version 1", f"{indent}1..{len(tests)}"]
    for number, test in enumerate(tests, 1):
        name = _line(test.name).replace("#", "_")
        if test.tests:
            inner = f"{indent}  "
            head, *rest = _lines(test.tests, inner)
            lines += [head, f"{inner}# Subtest: {name}", *rest]
        lines += [f"{indent}# {_line(remark)}" for remark in test.remarks]
        skip = f" # SKIP {_line(test.skip)}" if test.skip else ""
        lines.append(f"{indent}{'ok' if test.ok else 'not ok'} {number} {name}{skip}")
    return lines


def _line(text: str) -> str:
    """Give text on one line."""
    return " ".join(text.split())
