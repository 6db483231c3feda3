"""The page *Silicon*: the scoreboard of hardware as Markdown; computes nothing of its own."""

# ruff: noqa: E501  (a sentence a line, as in all pages)
from __future__ import annotations

from pathlib import Path
from typing import Any

from opplab.files import write_text

__all__ = ["page", "text"]

HEAD = """\
# Predicted and measured hardware

Made by `opplab verify silicon --docs docs` from `../shared/silicon` (sources and licences: its README).
Every row predicts values that its fit did not use, beside the simplest rival. [Give a machine its power](machine-power.md) is the how-to.
Errors are relative to the measured value.
Skill is 1 less the ratio of the median errors: 0 is no better than the rival, below 0 is worse.

"""

CATALOGUE = """\
## The catalogue's phones beside what was measured
No prediction: busy power of the machine files at every operating point against the median of freqbench's runs, and capacity against CoreMark at the highest clocks.
*Doubtful* points had another clock than cpufreq's, or less power than the point below, in all runs; the files have the fitted curve there.
*By CoreMark* is the class `coremark` where `capacity` is what the phone's kernel decides by (`pixel4`, `pixel6`).
"""

TAIL = """
## How to read it
- *Busy power by clock* is `opplab fit power TABLE --leave-one-out`, *from three points* `--points low,mid,high`.
  For new data add `--check REST.csv`.
- The shape of a power curve is learnt from phones (`python/opplab/data/power_shapes.csv`).
  The family of the chip that is predicted is left out.
- At some points the clock was not cpufreq's (CoreMark per MHz off its median).
  They are predicted at the clock that the work saw.
- *A program* left out of the EPYC's kernels is predicted by its class (memory or not).
  On the ODROID its cycles, instructions and the power of the memory's rail at each clock are known, its own rail's are not.
  Without counters of the program nothing better than the mean of the others was found.
- *Package power under a cap* has one clock to start from, 2.58 GHz.
  The cores scale as those of the EPYC 7502 do (`a f + b f^3`, b/a = 0.157), what else the package draws stays.
  The interval is as wide as the other servers' shapes, without this one's.
- *CoreMark by clock* is the clock less what the kernel's housekeeping takes each second, none of it negative; all errors are noise.
- *By interval* of a turbostat log: busy time, clock and idle states, of the other kernel's run.
- *Clocks at the thermal limit*: the same package at the same temperature has the clocks of the other log, whose load has another mix.
- *The engine's* clock and watts at PL1 and at the thermal limit are runs of the simulator: the catalogue's machine with the power of the other log, under the load of this one.
  At PL1 of the Jasper Lake the loop keeps 6.0 W, as its firmware does (5.5 to 6.0 W); the clock that fits into them is up to 30 % too low where the benchmark's programs draw less than the mean of the log.
  At the thermal limit of the Raptor Lake the watts are right and the clocks 7 % too high: one curve a GHz serves both kinds of cores.
- *Idle decisions*: the error is the share of decisions that differ from the recorded ones, by CPU.
  The recordings' governors carry patches that no profile has.
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
    if report["servers"]["predictions"]:
        rows.append(_line("all servers", report["servers"]))
    return [*rows, _line("all, each set weighing the same", report["overall"])]


def text(report: dict[str, Any]) -> str:
    """Give the scoreboard as text."""
    rows = [COLUMNS[:-1], *(row[:-1] for row in _rows(report))]
    lines = _columns(rows)
    lines += [f"not scored: {row['set']}: {row['why_not']}" for row in report["sets"] if row["why_not"]]
    phones = _phones(report)
    if phones:
        lines += ["", "the catalogue's phones beside freqbench:", *_columns([PHONES, *phones]), *_reasons(report)]
    return "\n".join(lines) + "\n"


PHONES = [
    "machine",
    "cluster",
    "points",
    "median off %",
    "largest off %",
    "beyond 10 %",
    "doubtful",
    "capacity",
    "CoreMark",
    "by CoreMark",
    "off %",
]


def _phones(report: dict[str, Any]) -> list[list[str]]:
    return [
        [
            row["machine"],
            row["cluster"],
            str(row["points"]),
            _percent(row["median_off"]),
            _percent(row["largest_off"]),
            str(len(row["beyond_khz"])),
            str(row["doubtful"]),
            str(row["capacity"]),
            str(row["coremark"]),
            str(row["by_coremark"]),
            _percent(abs(row["capacity_off"])),
        ]
        for row in report.get("catalogue", [])
    ]


def _columns(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _markdown(head: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _reasons(report: dict[str, Any]) -> list[str]:
    """Give what the files say on points that are not what was measured."""
    beyond = [row for row in report.get("catalogue", []) if row["beyond_khz"]]
    return [
        f"{row['machine']}, {row['cluster']}, {', '.join(f'{khz / 1000:g}' for khz in row['beyond_khz'])} MHz: {row['why']}"
        for row in beyond
    ]


def page(report: dict[str, Any]) -> str:
    """Give the scoreboard as a page."""
    table = _markdown(COLUMNS, _rows(report))
    unscored = [f"- {row['set']}: {row['why_not']}." for row in report["sets"] if row["why_not"]]
    rest = ["", "## Not scored", *unscored] if unscored else []
    phones = _phones(report)
    if phones:
        rest += ["", CATALOGUE, *_markdown(PHONES, phones)]
        rest += [
            "",
            "Beyond 10 %, with the note in the machine file:",
            *(f"- {reason}." for reason in _reasons(report)),
        ]
    return HEAD + "\n".join([*table, *rest]) + "\n" + TAIL


def write_page(report: dict[str, Any], folder: Path) -> Path:
    """Write the page to `folder` and give its path."""
    path = folder / "silicon.md"
    write_text(path, page(report))
    return path
