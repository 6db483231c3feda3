"""turbostat's own output: every column of the summary lines (those whose ids are ``-``)."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from opplab.runs import Run, Series

_IDS = frozenset(("usec", "Time_Of_Day_Seconds", "Package", "Node", "Die", "Core", "CPU", "APIC", "X2APIC"))
_UNITS = (("Watt", "W"), ("_J", "J"), ("MHz", "MHz"), ("%", "percent"), ("Tmp", "degC"))


def sniff(head: str, name: str) -> bool:
    """Whether a file has a header line of turbostat."""
    return head.startswith("turbostat version") or any(_is_header(line.split()) for line in head.splitlines())


def _is_header(words: list[str]) -> bool:
    return "Avg_MHz" in words and ("CPU" in words or "Busy%" in words)


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
        if not columns or "-" not in words[:6] or words[columns.index("CPU") if "CPU" in columns else 0] != "-":
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
