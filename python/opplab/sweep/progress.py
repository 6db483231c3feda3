"""How far a sweep is, on standard error."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opplab.sweep.runner import Tally


Shown: TypeAlias = "Callable[[int], AbstractContextManager[Callable[[Tally], None]]]"
"""Gives a context for so many cases, whose value takes the tally after every case."""


def counted(shown: Shown | None, total: int) -> AbstractContextManager[Callable[[Tally], None] | None]:
    """Give the context of so many cases; without anything that shows them one of None."""
    return shown(total) if shown else contextlib.nullcontext()


@contextlib.contextmanager
def progress(total: int) -> Iterator[Callable[[Tally], None]]:
    """Show how far a sweep is: a bar on a terminal, a line now and then elsewhere."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(file=getattr(sys.stderr, "unguarded", sys.stderr))
    start = time.monotonic()
    if not console.is_terminal:
        last = [start]

        def line(tally: Tally) -> None:
            now = time.monotonic()
            finished = tally.done + tally.skipped
            if now - last[0] >= 5 or finished + tally.failed == total:
                last[0] = now
                rate = tally.done / max(now - start, 1e-9)
                left = (total - finished - tally.failed) / rate if rate else 0
                failed = f", {tally.failed} failed" if tally.failed else ""
                print(f"{finished}/{total} cases, {rate:.3g} a second, {left:.0f} s left{failed}", file=sys.stderr)

        yield line
        return
    columns = (
        TextColumn("simulating"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("[red]{task.fields[failed]}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        job = bar.add_task("", total=total, rate="", failed="")

        def update(tally: Tally) -> None:
            rate = tally.done / max(time.monotonic() - start, 1e-9)
            failed = f"{tally.failed} failed" if tally.failed else ""
            finished = tally.done + tally.skipped + tally.failed
            bar.update(job, completed=finished, rate=f"{rate:.1f}/s", failed=failed)

        yield update
