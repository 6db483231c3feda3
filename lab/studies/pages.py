"""Pages of the docs that studies write: tables between marks, figures beside them, and the command for both."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path


def fill(page: str, contents: Mapping[str, str]) -> str:
    r"""Put each table between its marks.

    Examples
    --------
    >>> fill("<!-- table: a -->\nold\n<!-- end -->\n", {"a": "new"})
    '<!-- table: a -->\nnew\n<!-- end -->\n'
    """
    for name, content in contents.items():
        start, end = f"<!-- table: {name} -->\n", "<!-- end -->"
        before, mark, rest = page.partition(start)
        _, end_mark, after = rest.partition(end)
        if not (mark and end_mark):
            raise ValueError(f"the page has no marks for the table {name}")
        page = f"{before}{start}{content}\n{end}{after}"
    return page


def main(
    study: str, about: str | None, make: Callable[[Path], Mapping[Path, str]], arguments: Sequence[str] | None = None
) -> int:
    """Write what a study makes, or with ``--check`` only report what would change.

    Parameters
    ----------
    study : str
        The module's name in `lab.studies`.
    about : str or None
        Text of ``--help``.
    make : function
        From the folder of the docs to the texts of the study's files.
    arguments : sequence of str, optional
        The command line; by default this process's.

    Returns
    -------
    int
        The exit code: 1 if ``--check`` found something.
    """
    parser = argparse.ArgumentParser(prog=f"python -m lab.studies.{study}", description=about)
    parser.add_argument("--docs", type=Path, default=Path("docs"), help="the folder of the page (docs)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something would change")
    options = parser.parse_args(arguments)
    texts = make(options.docs)
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        print(f"{'stale' if options.check else 'wrote'}: {path}")
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
    return 1 if options.check and stale else 0
