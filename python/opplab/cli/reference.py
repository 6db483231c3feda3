"""The reference of the command line, made from the commands themselves: Markdown and man pages.

``python -m opplab.cli.reference man FOLDER`` writes man pages, ``markdown FILE`` the page of all commands.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from opplab import _opplab
from opplab.cli.main import opplab

HOST_COMMANDS = ("show", "observe", "affinity", "govern", "record", "calibrate", "compare", "experiment")


@dataclass(frozen=True)
class Page:
    """A command as the reference describes it."""

    name: str
    """With all words, e.g. ``opplab trace view``."""
    usage: str
    """One line or several."""
    text: str
    """What it does."""
    options: list[tuple[str, str]]
    """How an option is written, and what it does."""


def _walk(command: click.Command, words: tuple[str, ...]) -> Iterator[Page]:
    context = click.Context(
        command, info_name=" ".join(words), terminal_width=100, max_content_width=100, show_default=True
    )
    options = []
    for param in command.params:
        record = None if isinstance(param, click.Argument) else param.get_help_record(context)
        if record is not None:
            options.append(record)
    text = inspect.cleandoc(command.help or "").replace("\b\n", "")
    yield Page(" ".join(words), re.sub(r"^Usage: ", "", command.get_usage(context)), text, options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            if sub is not None and [*words, name] == ["opplab", "host"]:
                yield from _host()
            elif sub is not None:
                yield from _walk(sub, (*words, name))


_HELPS = """
import sys
from opplab.cli.main import opplab

for name in sys.argv[1:]:
    try:
        opplab.main(["host", name, "--help"], prog_name="opplab", standalone_mode=False)
    except SystemExit as ended:
        if ended.code:
            raise
    print(end="\\f", flush=True)
"""


def _host() -> Iterator[Page]:
    """Give the pages of the commands that crate ``host`` has."""
    # They print past Python: another process, one for all, has its output read.
    done = subprocess.run([sys.executable, "-c", _HELPS, *HOST_COMMANDS], capture_output=True, text=True, check=True)
    for name, text in zip(HOST_COMMANDS, done.stdout.split("\f"), strict=False):
        head, _, rest = text.partition("\n\n")
        blocks = rest.rstrip().split("\n\n")
        options: list[tuple[str, str]] = []
        for line in blocks[-1].splitlines():
            match = re.match(r"  (-.*?)(?:  +(.*))?$", line)
            if match:
                options.append((match[1], match[2] or ""))
            elif options and line.startswith(" "):  # A line that is not indented heads a group of options.
                options[-1] = (options[-1][0], f"{options[-1][1]} {line.strip()}".strip())
        usage = "\n".join(line[len("Usage: ") :] for line in head.splitlines())
        yield Page(f"opplab host {name}", usage, "\n\n".join(blocks[:-1] if options else blocks), options)


def pages() -> list[Page]:
    """Give all commands, in the order of ``opplab --help``."""
    return list(_walk(opplab, ("opplab",)))


def markdown(found: list[Page]) -> str:
    """Give the reference as a page of Markdown."""
    lines = ["# Command line", "", "Made from the commands themselves: the text of `--help`.", ""]
    for page in found:
        lines += [f"## {page.name}", "", "```text", page.usage, "```", "", page.text, ""]
        if page.options:
            lines += ["| option | what it does |", "| --- | --- |"]
            lines += [f"| `{names.replace('|', chr(92) + '|')}` | {_cell(text)} |" for names, text in page.options]
            lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def _roff(text: str) -> str:
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line.startswith((".", "'")) else line for line in escaped.splitlines())


def man_page(page: Page, children: list[Page]) -> str:
    """Give a command as a man page (section 1); `children` are the commands under it."""
    title = page.name.replace(" ", "-")
    about = page.text.split("\n\n", maxsplit=1)[0].replace("\n", " ")
    lines = [
        f'.TH "{title.upper()}" "1" "" "opplab {_opplab.__version__}" "opplab"',
        ".SH NAME",
        f"{_roff(title)} \\- {_roff(about.rstrip('.'))}",
        ".SH SYNOPSIS",
        ".nf",
        _roff(page.usage),
        ".fi",
        ".SH DESCRIPTION",
    ]
    for number, paragraph in enumerate(page.text.split("\n\n")):
        lines += ([".PP"] if number else []) + [_roff(paragraph)]
    if page.options:
        lines.append(".SH OPTIONS")
        for names, text in page.options:
            lines += [".TP", f".B {_roff(names)}", _roff(" ".join(text.split()))]
    if children:
        lines.append(".SH COMMANDS")
        for child in children:
            lines += [".TP", f".B {_roff(child.name)}", _roff(child.text.split(". ")[0].replace("\n", " "))]
    lines.append(".SH EXIT STATUS")
    lines += [line for code, words in EXIT_CODES for line in (".TP", f".B {code}", _roff(words))]
    return "\n".join(lines) + "\n"


EXIT_CODES = (
    (0, "success"),
    (1, "a check or a case failed"),
    (2, "wrong usage or bad input"),
    (3, "the host lacks or refuses something (opplab host)"),
    (70, "an internal error: please report it"),
    (130, "interrupted by Ctrl-C"),
    (141, "the reader of the output closed the pipe"),
)


def main(args: list[str]) -> None:
    """Write what is asked for."""
    if len(args) != 2 or args[0] not in ("man", "markdown"):
        sys.exit("usage: python -m opplab.cli.reference man FOLDER, or markdown FILE")
    found = pages()
    if args[0] == "man":
        folder = Path(args[1])
        folder.mkdir(parents=True, exist_ok=True)
        for page in found:
            children = [other for other in found if other.name.rpartition(" ")[0] == page.name]
            (folder / f"{page.name.replace(' ', '-')}.1").write_text(man_page(page, children), encoding="utf-8")
    else:
        Path(args[1]).write_text(markdown(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
