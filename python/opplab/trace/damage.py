"""Damage of traces: every answer from a damaged trace is marked, in one place.

Whatever reads a trace notes here what of it is damaged.  The command line collects the notes, prints them and ends with
1; in a program they are warnings.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 10
"""Damaged places that are printed of each trace."""


class DamagedTraceWarning(UserWarning):
    """A trace is damaged, and the answer is from what could be read of it."""


@dataclass
class Noted:
    """What was noted of traces: damage by path, and the path of each remark."""

    damage: dict[str, list[str]] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)


_noted: ContextVar[Noted | None] = ContextVar("_noted", default=None)


@contextlib.contextmanager
def collected() -> Iterator[Noted]:
    """Collect what is noted meanwhile, in place of warnings."""
    noted = Noted()
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note(path: str | Path, problems: Sequence[str], *, kept: bool = False) -> None:
    """Note what of the trace at `path` is damaged.

    Parameters
    ----------
    problems : sequence of str
        Each with its place.
    kept : bool
        The caller's result has them, too, so that nobody is to be warned.
    """
    if not problems:
        return
    noted = _noted.get()
    if noted is not None:
        known = noted.damage.setdefault(str(path), [])
        known += [problem for problem in problems if problem not in known]
    elif not kept:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{path}: damaged; the answer is from what could be read: {problems[0]}{more}"
        warnings.warn(text, DamagedTraceWarning, stacklevel=3)


def remark(path: str | Path, text: str) -> None:
    """Note what of the trace at `path` an answer does not follow, such as control groups; it is no damage."""
    noted = _noted.get()
    if noted is not None and text not in noted.remarks:
        noted.remarks[text] = str(path)


def in_answer(texts: Sequence[str]) -> None:
    """Leave out remarks that the answer itself has."""
    if (noted := _noted.get()) is not None:
        for text in texts:
            noted.remarks.pop(text, None)


def report(noted: Noted) -> list[str]:
    """Give the lines that the command line prints."""
    lines = [f"{path}: note: {text}" for text, path in noted.remarks.items()]
    for path, problems in noted.damage.items():
        lines += [f"{path}: {problem}" for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"{path}: and {len(problems) - SHOWN} more problems")
        lines.append(f"{path}: damaged; this is what could be read")
    return lines
