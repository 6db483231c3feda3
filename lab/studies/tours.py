"""Fills the tours of the documentation with what `opplab explain` prints: ``python -m lab.studies.tours``.

A fenced block that begins with ``$ opplab ...`` is followed by what the command prints.  A test compares; after a
change of the engine's behaviour ``make docs`` writes the blocks anew.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from pathlib import Path

from click.testing import CliRunner

from lab.studies import pages

DOCS = Path(__file__).parents[2] / "docs"
TOURS = ("why-this-cpu.md", "a-wake-up.md", "deadline.md")
_BLOCK = re.compile(r"```console\n\$ opplab ([^\n]*)\n.*?```", re.DOTALL)


def render(text: str, folder: Path = DOCS) -> str:
    """Give a tour's text with the output of its commands, which run beside `folder`."""
    from opplab.cli.main import opplab

    def fill(match: re.Match[str]) -> str:
        with contextlib.chdir(folder.parent):
            done = CliRunner().invoke(opplab, shlex.split(match[1]), catch_exceptions=False)
        if done.exit_code:
            raise RuntimeError(f"opplab {match[1]}: {done.output}")
        return f"```console\n$ opplab {match[1]}\n{done.stdout.rstrip()}\n```"

    return _BLOCK.sub(fill, text)


def texts(docs: Path) -> dict[Path, str]:
    """Make the tours anew."""
    return {docs / tour: render((docs / tour).read_text(encoding="utf-8"), docs) for tour in TOURS}


if __name__ == "__main__":
    sys.exit(pages.main("tours", __doc__, texts))
