"""rt-app's log of a thread, ``BASENAME-THREAD.log``: one line a phase, times in microseconds.

The columns are named by the line that begins with ``#idx``; ``slack`` below zero means that an activation was missed.
"""

from __future__ import annotations

from collections.abc import Callable

from opplab.runs import Run, Series

# Periods, and what the file asks for, have no better side.
_JUDGED = ("run", "slack", "wu_lat")
_SHOWN = ("run", "period", "slack", "wu_lat", "c_duration", "c_period")


def sniff(head: str, name: str) -> bool:
    """Whether a file has rt-app's head line."""
    return any(line.split()[:3] == ["#idx", "perf", "run"] for line in head.splitlines())


def read(text: str, name: str, problem: Callable[..., None]) -> list[Run]:
    """One run: the columns as samples, and the share of missed activations."""
    run = Run(name, "rt-app")
    columns: list[str] = []
    samples: dict[str, list[float]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words[:1] == ["#idx"]:
            columns = ["idx", *words[1:]]
        elif columns and words and not line.startswith("#"):
            if len(words) != len(columns):
                problem(f"line with {len(words)} columns, {len(columns)} expected", number)
                continue
            try:
                values = [float(word) for word in words]
            except ValueError:
                problem("line that is not numbers", number)
                continue
            for column, value in zip(columns, values, strict=True):
                if column in _SHOWN:
                    samples.setdefault(column, []).append(value)
    for column, values in samples.items():
        is_slack = column == "slack"
        has_side = column in _JUDGED
        run.series[column] = Series(column, column, "", "usec", is_slack, [values], directed=has_side, signed=is_slack)
    slack = samples.get("slack")
    if slack:
        missed = 100 * sum(value < 0 for value in slack) / len(slack)
        run.series["missed_activations"] = Series(
            "missed_activations", "missed_activations", "", "percent", False, [[missed]]
        )
        run.series["missed_activations"].events = [len(slack)]
    return [run] if run.series else []
