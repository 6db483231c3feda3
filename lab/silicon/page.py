"""The page *Silicon*: the scoreboard of hardware as Markdown; computes nothing of its own."""

# ruff: noqa: E501  (a sentence a line, as in all pages)
from __future__ import annotations

from typing import Any

from opplab.agreement import silicon
from opplab.agreement.silicon import percent
from opplab.report.text import render_table

HEAD = """\
# Predicted and measured hardware

Made by `python -m lab.silicon --docs docs` from `../shared/silicon` (sources and licences: its README).
Every row predicts values that its fit did not use, beside the simplest rival. [Give a machine its power](machine-power.md) is the how-to.
Errors are relative to the measured value.
Skill is 1 less the ratio of the median errors: 0 is no better than the rival, below 0 is worse.

"""

CATALOGUE = """\
## The catalogue's phones beside what was measured
This table is no prediction. It compares busy power of the machine files at every operating point with the median of freqbench's runs, and capacity with CoreMark at the highest clocks.
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
  The cores scale as those of the EPYC 7502 do (`a f + b f^3`, b/a = 0.157); the package's other power stays.
  The interval is as wide as the other servers' shapes, without this one's.
- *CoreMark by clock* is the clock less the share of the kernel's housekeeping each second, which is never negative; all errors are noise.
- *By interval* of a turbostat log: busy time, clock and idle states, of the other kernel's run.
- *Clocks at the thermal limit*: the same package at the same temperature has the clocks of the other log, whose load has another mix.
- *The engine's* clock and watts at PL1 and at the thermal limit are runs of the simulator. They use the catalogue's machine with the power of the other log, under the load of this one.
  At PL1 of the Jasper Lake the loop keeps 6.0 W, as its firmware does (5.5 to 6.0 W).
  The clock that fits into 6.0 W is up to 30 % too low where the benchmark's programs draw less than the mean of the log.
  At the thermal limit of the Raptor Lake the watts are right and the clocks 7 % too high: one curve a GHz serves both kinds of cores.
- *Idle decisions*: the error is the share of decisions that differ from the recorded ones, by CPU.
  The recordings' governors carry patches that no profile has.
"""


def text(report: dict[str, Any]) -> str:
    """Give the scoreboard as text."""
    told = silicon.text(report)
    if phones := _phones(report):
        told += "\nthe catalogue's phones beside freqbench:\n" + render_table(phones, "text")
        told += "".join(f"{reason}\n" for reason in _reasons(report))
    return told


def _phones(report: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {
            "machine": row["machine"],
            "cluster": row["cluster"],
            "points": str(row["points"]),
            "median off %": percent(row["median_off"]),
            "largest off %": percent(row["largest_off"]),
            "beyond 10 %": str(len(row["beyond_khz"])),
            "doubtful": str(row["doubtful"]),
            "capacity": str(row["capacity"]),
            "CoreMark": str(row["coremark"]),
            "by CoreMark": str(row["by_coremark"]),
            "off %": percent(abs(row["capacity_off"])),
        }
        for row in report["catalogue"]
    ]


def _reasons(report: dict[str, Any]) -> list[str]:
    """Give the files' reasons for points that are not what was measured."""
    beyond = [row for row in report["catalogue"] if row["beyond_khz"]]
    return [
        f"{row['machine']}, {row['cluster']}, {', '.join(f'{khz / 1000:g}' for khz in row['beyond_khz'])} MHz: {row['why']}"
        for row in beyond
    ]


def page(report: dict[str, Any]) -> str:
    """Give the scoreboard as a page."""
    unscored = [f"- {row['set']}: {row['why_not']}.\n" for row in report["sets"] if row["why_not"]]
    rest = ["\n## Not scored\n", *unscored] if unscored else []
    if phones := _phones(report):
        rest += ["\n", CATALOGUE, "\n", render_table(phones, "markdown")]
        rest += ["\nBeyond 10 %, with what the file has on it:\n", *(f"- {reason}.\n" for reason in _reasons(report))]
    return HEAD + render_table(silicon.table_rows(report), "markdown") + "".join(rest) + TAIL
