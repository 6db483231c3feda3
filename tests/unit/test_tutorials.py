"""Every command and code block of tutorials, how-tos and README runs, or at least is one that exists."""

import re
import shlex
from pathlib import Path

import click
import pytest

from lab.studies import tutorials
from opplab.cli.main import opplab

import forked

ROOT = Path(__file__).parents[2]
MEASURED = ("which-governor",)
"""Pages whose commands measure the machine that they run on."""


@pytest.mark.parametrize("file", tutorials.files(ROOT / "docs"), ids=lambda file: file.stem)
def test_a_page_runs(file: Path) -> None:
    text = file.read_text()
    assert "```console" in text
    again = tutorials.render(text, forked.words())
    assert "Traceback" not in again
    # A build's name changes with it; what the machine of the page was measured to do is that machine's.
    masked = [r"build [0-9a-f]{12}", *([r"```(?:console|text)\n.*?```"] if file.stem in MEASURED else [])]
    shown, written = (
        re.sub(r"\n+", "\n", re.sub("|".join(masked), "", each, flags=re.DOTALL)) for each in (again, text)
    )
    assert shown == written, "`make docs` writes the pages anew"


def _commands() -> list[tuple[str, str]]:
    found = []
    for file in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if "reference" in file.parts:
            continue
        for block in re.findall(r"```(?:console|sh|bash|)\n(.*?)```", file.read_text(), re.DOTALL):
            for line in block.splitlines():
                # What a command prints may begin with the same word, but not with a command's name.
                match = re.match(r"(\$ )?opplab ([a-z]\S*(?:\s+(?:'[^']*'|\"[^\"]*\"|[^\s|>#]\S*))*)", line)
                if match and (match[1] or "$ opplab" not in block) and "..." not in line:
                    found.append((file.name, match[2].strip()))
    return found


@pytest.mark.parametrize(("page", "line"), _commands())
def test_a_command_and_its_options_exist(page: str, line: str) -> None:
    """Without running it: the commands are there, and they have the options."""
    words = shlex.split(line)
    command: click.Command = opplab
    context = click.Context(opplab)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        names = words.pop(0).split("|")
        found = [command.get_command(context, name) for name in names]
        assert all(found), f"{page}: opplab {line}"
        command = found[0] or command
    if command.name in ("host", "list"):
        return
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    used = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert set(used) <= known | {"--help", "-h", "--version"}, f"{page}: opplab {line}"
