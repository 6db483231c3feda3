"""The page *Silicon*: the scoreboard of hardware as Markdown; computes nothing of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opplab.files import write_text

__all__ = ["page", "text"]

HEAD = """\
# Predicted and measured hardware

Made by `opplab verify silicon --docs docs` from `../shared/silicon` (sources and licences: its README).
Every row predicts what its fit did not use, and stands beside the simplest rival.
Errors are relative to the measured value.
Skill is 1 less the ratio of the median errors: 0 is no better than the rival, below 0 is worse.

"""

TAIL = """
## How to read it
- *Busy power by clock* is `opplab fit power TABLE --leave-one-out`, *from three points* `--points low,mid,high`.
  For new data add `--check REST.csv`.
- The shape of a power curve is learnt from phones (`python/opplab/data/power_shapes.csv`).
  The family of the chip that is predicted is left out.
- At some points the clock was not what cpufreq said (CoreMark per MHz off its median).
  They are predicted at the clock that the work saw.
- *A program* left out is predicted by the mean of the others.
  Power of what runs spreads so far, and a model without counters of the program cannot know better.
- *Package power under a cap* has one clock to start from, 2.58 GHz.
  What phones' curves look like does not carry over to a server's package.
- *By interval* of a turbostat log: busy time, clock and idle states, of the other kernel's run.
"""


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"


def _line(name: str, row: dict[str, Any]) -> list[str]:
    skill = "" if row["skill"] is None else f"{row['skill']:.2f}"
    inside = "" if row["in_interval"] is None else f"{100 * row['in_interval']:.0f}"
    errors = [_percent(row[key]) for key in ("median_abs_error", "p90_abs_error", "rival_median_abs_error")]
    return [name, row.get("left_out", ""), str(row["predictions"]), *errors, skill, inside, row.get("rival", "")]


COLUMNS = ["set", "left out", "n", "median %", "p90 %", "rival %", "skill", "in 95 %", "rival"]


def _rows(report: dict[str, Any]) -> list[list[str]]:
    rows = [_line(row["set"], row) for row in report["sets"] if row["predictions"]]
    return [*rows, _line("all, each set weighing the same", report["overall"])]


def text(report: dict[str, Any]) -> str:
    """Give the scoreboard as text."""
    rows = [COLUMNS[:-1], *(row[:-1] for row in _rows(report))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    lines += [f"not scored: {row['set']}: {row['why_not']}" for row in report["sets"] if row["why_not"]]
    return "\n".join(lines) + "\n"


def page(report: dict[str, Any]) -> str:
    """Give the scoreboard as a page."""
    table = ["| " + " | ".join(COLUMNS) + " |", "| " + " | ".join("---" for _ in COLUMNS) + " |"]
    table += ["| " + " | ".join(row) + " |" for row in _rows(report)]
    unscored = [f"- {row['set']}: {row['why_not']}." for row in report["sets"] if row["why_not"]]
    rest = ["", "## Not scored", *unscored] if unscored else []
    return HEAD + "\n".join([*table, *rest]) + "\n" + TAIL


def write_page(report: dict[str, Any], folder: Path) -> Path:
    """Write the page to `folder` and give its path."""
    path = folder / "silicon.md"
    write_text(path, page(report))
    return path
