"""Runs the tutorials and how-tos of the documentation and writes what their commands print under them.

A block ``console`` holds commands after ``$``; a block ``python`` is a program of its own, and what it prints
follows as a block ``text``.  All blocks of a page run in one folder, in order.  Tests run every page and compare what
is printed, but for what is measured of the machine; ``make docs`` writes it anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from lab.studies import pages

ROOT = Path(__file__).parents[2]
FOLDERS = ("tutorials", "howto")
OPPLAB = (sys.executable, "-m", "opplab")
# So many lines of output, of so many characters, are shown.
LINES_MAX = 40
CHARS_MAX = 160
_BLOCK = re.compile(r"```(console|python)\n(.*?)```\n(?:\n```text\n.*?```\n)?", re.DOTALL)


class Sandbox:
    """A folder in which the blocks of a page run, with ``opplab`` on the path and the repository's tests beside.

    Parameters
    ----------
    folder : Path
        An empty folder.
    width : int
        Columns of the terminal that the commands see.
    opplab : sequence of str
        What ``opplab`` is.
    """

    def __init__(self, folder: Path, width: int = 88, opplab: Sequence[str] = OPPLAB) -> None:
        self.folder = folder
        tools = folder / ".bin"
        tools.mkdir()
        for name, words in (("opplab", opplab), ("python", (sys.executable,))):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
            script.chmod(0o755)
        (folder / "tests").symlink_to(ROOT / "tests")
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "COLUMNS": str(width)}
        self.environment.pop("OPPLAB_DEBUG", None)

    def shell(self, command: str) -> str:
        """Run a command; give what it prints and, after it, what it writes to standard error.

        Raises
        ------
        RuntimeError
            It failed.
        """
        printed, said = self.outputs(command)
        return printed + _said(said)

    def outputs(self, command: str) -> tuple[str, str]:
        """Run a command; give what it writes to standard output and to standard error.

        Raises
        ------
        RuntimeError
            It failed.
        """
        return self._started(["bash", "-c", command], f"$ {command}")

    def python(self, code: str) -> str:
        """Run a block; give what it prints."""
        return self._started([sys.executable, "-c", code], code)[0]

    def _started(self, words: Sequence[str], shown: str) -> tuple[str, str]:
        """Run a program in the folder; `shown` stands for it if it fails."""
        done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=self.folder, env=self.environment)
        if done.returncode:
            raise RuntimeError(f"{shown}\nexit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout, done.stderr


def _said(text: str) -> str:
    """Give what was written to standard error, without what depends on the speed of the machine."""
    kept = [line for line in text.splitlines() if not re.search(r"a second| cases? in ", line)]
    return "".join(f"{line}\n" for line in kept)


def _shown(text: str) -> str:
    lines = [line if len(line) <= CHARS_MAX else f"{line[: CHARS_MAX - 3]}..." for line in text.rstrip().splitlines()]
    if len(lines) > LINES_MAX:
        lines = [*lines[: LINES_MAX - 1], f"... {len(lines) - LINES_MAX + 1} more lines"]
    return "\n".join(line.rstrip() for line in lines)


def render(text: str, opplab: Sequence[str] = OPPLAB) -> str:
    """Run the blocks of a page, with what `opplab` is; give it with what they print."""
    with TemporaryDirectory() as folder:
        box = Sandbox(Path(folder), opplab=opplab)

        def fill(match: re.Match[str]) -> str:
            kind, body = match.groups()
            if kind == "python":
                shown = _shown(box.python(body))
                return f"```python\n{body}```\n" + (f"\n```text\n{shown}\n```\n" if shown else "")
            commands = re.findall(r"^\$ (.*)$", body, re.MULTILINE)
            parts = [f"$ {command}\n{_shown(box.shell(command))}".rstrip() for command in commands]
            return "```console\n" + "\n".join(parts) + "\n```\n"

        return _BLOCK.sub(fill, text)


def files(docs: Path) -> list[Path]:
    """Give the pages whose blocks run."""
    return sorted(file for folder in FOLDERS for file in (docs / folder).glob("*.md"))


def texts(docs: Path) -> dict[Path, str]:
    """Make the pages anew."""
    return {file: render(file.read_text(encoding="utf-8")) for file in files(docs)}


if __name__ == "__main__":
    sys.exit(pages.main("tutorials", __doc__, texts))
