"""`opplab host`: look at a live Linux, and change its frequencies with everything put back.

The command line is crate ``host``'s, the same as that of the static ``opplab-agent``.  Two things need more than that:
Parquet output of ``observe``, and ``affinity --evaluate``, which simulates the machine's twin.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import click

from opplab import _opplab, results


def _host(words: list[str]) -> int:
    sys.stdout.flush()
    return _opplab.host_main(words, [sys.executable, "-m", "opplab", "host"])


def _parquet(words: list[str]) -> tuple[int, str] | None:
    """Find the Parquet file that ``observe`` is to write: its place among the words."""
    for index, word in enumerate(words[:-1]):
        if word in ("-o", "--output") and words[index + 1].endswith(".parquet"):
            return index + 1, words[index + 1]
    return None


def _observe_parquet(words: list[str], place: int, output: str) -> int:
    import polars as pl

    with TemporaryDirectory() as folder:
        csv = Path(folder) / "observe.csv"
        code = _host([*words[:place], str(csv), *words[place + 1 :]])
        if csv.exists() and csv.stat().st_size:
            table = pl.read_csv(csv, null_values=["-"], infer_schema_length=None)
            # The row of all CPUs has none.
            table.write_parquet(output)
    return code


def _results(words: list[str]) -> None:
    """Write the runs of ``compare`` as a results table beside them, for every command that reads results."""
    folder = Path("host-compare")
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word == "--" or word in ("--dry-run", "--help", "-h"):
            break
        if word in ("-o", "--output"):
            folder = Path(value)
        elif word.startswith("--output="):
            folder = Path(word.partition("=")[2])
    runs = folder / "runs.jsonl"
    if "--dry-run" not in words and runs.is_file():
        from opplab.host.compared import results_of

        results.write(results_of(runs), folder / "results.parquet")


@click.command(
    name="host",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> None:
    """Look at a live Linux: show, observe, affinity, govern, record, compare."""
    first = words[:1]
    if first == ("affinity",) and "--evaluate" in words:
        from opplab.host.evaluate import evaluate

        rest = [word for word in words[1:] if word != "--evaluate"]
        evaluate.main(args=rest, prog_name="opplab host affinity --evaluate", standalone_mode=False)
        return
    found = _parquet(list(words)) if first == ("observe",) else None
    code = _observe_parquet(list(words), *found) if found else _host(list(words))
    if first == ("compare",) and code in (0, 130):
        _results(list(words))
    if code:
        sys.exit(code)
