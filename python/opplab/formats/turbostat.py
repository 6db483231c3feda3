"""turbostat's own output: every column of the summary lines, whose ids are ``-``, or all that ``--Summary`` prints."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from opplab.runs import Run, Series

_IDS = frozenset(("usec", "Time_Of_Day_Seconds", "Package", "Node", "Die", "Core", "CPU", "APIC", "X2APIC"))
_PLACES = frozenset(("Package", "Node", "Die", "Core", "CPU"))
_UNITS = (("Watt", "W"), ("_J", "J"), ("MHz", "MHz"), ("%", "percent"), ("Tmp", "degC"))


def sniff(head: str, name: str) -> bool:
    """Whether a file has a header line of turbostat."""
    return head.startswith("turbostat version") or any(_is_header(line.split()) for line in head.splitlines())


def _is_header(words: list[str]) -> bool:
    return "PkgWatt" in words or ("Avg_MHz" in words and ("CPU" in words or "Busy%" in words))


def _is_number(word: str) -> bool:
    return word.replace(".", "", 1).isdecimal()


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run: the mean of each column over its intervals, which are no independent samples."""
    run = Run(name, "turbostat")
    columns: list[str] = []
    samples: dict[str, list[float]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if _is_header(words):
            # The head is repeated; columns may differ when CPUs go off line.
            columns = words
            continue
        ids = [word for column, word in zip(columns, words, strict=False) if column in _PLACES]
        if not columns or not words or any(one != "-" for one in ids) or (not ids and not _is_number(words[0])):
            continue
        if len(words) != len(columns):
            problem(f"summary line with {len(words)} columns, {len(columns)} expected", number)
            continue
        for column, word in zip(columns, words, strict=True):
            if column in _IDS:
                continue
            try:
                samples.setdefault(column, []).append(float(word))
            except ValueError:
                problem(f"no number under {column}", number)
    for column, values in samples.items():
        unit = next((unit for part, unit in _UNITS if part in column), "")
        run.series[column] = Series(column, column, "", unit, False, [[fmean(values)]], directed=unit in ("W", "J"))
    return [run] if run.series else []
