"""The short way from a cold command line to mmtests' own tables.

``opplab compare TREE --runs A,B -b NAME --method mmtests`` needs neither click nor polars nor the extension, and
importing them would take longer than the table. What is not exactly of that form is left to `opplab.cli.main`, which
also reports what is wrong with it; so this module has no errors of its own.
"""

from __future__ import annotations

# Options of `opplab compare` that the short way understands: name -> key.
_OPTIONS = {
    "--runs": "runs",
    "--baseline": "baseline",
    "-b": "benchmark",
    "--benchmark": "benchmark",
    "--metric": "metric",
    "--report": "report",
    "--method": "method",
    "--table": "table",
    "--format": "form",
}
_TABLES = frozenset(("detail", "ratio", "significance", "nocompare"))


def compare(arguments: list[str]) -> int | None:
    """Print the tables that `arguments` (those after ``compare``) ask for.

    Returns
    -------
    int or None
        The exit code, or None when the arguments are not for the short way; then nothing was printed.
    """
    found: dict[str, list[str]] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if not word.startswith("-"):
            found.setdefault("source", []).append(word)
            continue
        key = _OPTIONS.get(name)
        text = value if equals else next(words, None)
        if key is None or text is None or (equals and not name.startswith("--")):
            return None
        found.setdefault(key, []).append(text)
    if any(len(texts) > 1 for key, texts in found.items() if key != "benchmark"):
        return None
    table = found.get("table", ["detail"])[-1]
    form = found.get("form", ["text"])[-1]
    sources = found.get("source", [])
    if found.get("method", [""])[-1] != "mmtests" or len(sources) != 1 or form not in ("text", "html"):
        return None
    if not (table in _TABLES or table.startswith("monitor:")) or "runs" not in found or "benchmark" not in found:
        return None
    return _print(sources[0], found, table, form)


def _print(directory: str, found: dict[str, list[str]], table: str, form: str) -> int | None:
    from os.path import isdir
    from sys import stderr, stdout

    from opplab.comparison.compare import mmtests_table, names_in, order_runs
    from opplab.errors import InputError

    names = names_in(found["runs"][-1])
    if not names or not isdir(directory):  # noqa: PTH112 - see the module's text
        return None
    metric = found.get("metric", [""])[-1]
    report = found.get("report", [""])[-1]
    printed = []
    problems: dict[str, None] = {}
    try:
        names = order_runs(names, found.get("baseline", [None])[-1])
        for benchmark in found["benchmark"]:
            name, _, own = benchmark.partition(":")
            text, skipped = mmtests_table(
                directory, names, name, metric=own or metric, report=report, table=table, form=form, seed=1
            )
            printed.append(text)
            problems.update(dict.fromkeys(map(str, skipped)))
    except (InputError, OSError):
        return None
    text = "".join(printed)
    if not text.isascii() or min(text.replace("\n", " ").replace("\t", " "), default=" ") < " " or "\x7f" in text:
        from opplab.files import printable

        text = printable(text)
    stdout.write(text)
    stdout.flush()
    for problem in problems:
        stderr.write(f"opplab: skipped {problem}\n")
    return 0
