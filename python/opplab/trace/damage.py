"""Damage of traces: every answer from a damaged trace says so, in one place.

Whatever reads a trace notes here what of it is damaged.  The command line collects the notes, prints them and ends with
1; in a program they are warnings.
"""

from __future__ import annotations

import contextlib
import warnings
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["DamagedTraceWarning", "collected", "note", "report"]

SHOWN = 10
"""Damaged places that are printed of each trace."""

_noted: ContextVar[dict[str, list[str]] | None] = ContextVar("_noted", default=None)


class DamagedTraceWarning(UserWarning):
    """A trace is damaged, and the answer is from what could be read of it."""


@contextlib.contextmanager
def collected() -> Iterator[dict[str, list[str]]]:
    """Collect the damage that is noted meanwhile, by the trace's path, in place of warnings."""
    noted: dict[str, list[str]] = {}
    token = _noted.set(noted)
    try:
        yield noted
    finally:
        _noted.reset(token)


def note(path: str | Path, problems: Sequence[str], *, kept: bool = False) -> None:
    """Note what of the trace at `path` is damaged.

    Parameters
    ----------
    path : str or Path
    problems : sequence of str
        Each with its place.
    kept : bool
        The caller's result has them, too, so that nobody is to be warned.
    """
    if not problems:
        return
    noted = _noted.get()
    if noted is not None:
        known = noted.setdefault(str(path), [])
        known += [problem for problem in problems if problem not in known]
    elif not kept:
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        text = f"{path}: damaged; the answer is from what could be read: {problems[0]}{more}"
        warnings.warn(text, DamagedTraceWarning, stacklevel=3)


def report(noted: dict[str, list[str]]) -> list[str]:
    """Give the lines that the command line prints."""
    lines = []
    for path, problems in noted.items():
        lines += [f"{path}: {problem}" for problem in problems[:SHOWN]]
        if len(problems) > SHOWN:
            lines.append(f"{path}: and {len(problems) - SHOWN} more problems")
        lines.append(f"{path}: damaged; this is what could be read")
    return lines
