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
The tables are computed; the two sections marked *by hand* are not, and keep the figures of the day they were found.
Every row predicts what its fit did not use, and stands beside the simplest rival.
Errors are relative to the measured value.
Skill is 1 less the ratio of the median errors: 0 is no better than the rival, below 0 is worse.

"""

CATALOGUE = """\
## The catalogue's phones beside what was measured
No prediction: busy power of the machine files at every operating point against the median of freqbench's runs, and capacity against CoreMark at the highest clocks.
*Doubtful* points had another clock than cpufreq said, or less power than the point below, in all runs; the files have the fitted curve there.
*By CoreMark* is the class `coremark` where `capacity` is what the phone's kernel decides by (`pixel4`, `pixel6`).
"""

TAIL = """
## How to read it
- *Busy power by clock* is `opplab fit power TABLE --leave-one-out`, *from three points* `--points low,mid,high`.
  For new data add `--check REST.csv`.
- The shape of a power curve is learnt from phones (`python/opplab/data/power_shapes.csv`).
  The family of the chip that is predicted is left out.
- At some points the clock was not what cpufreq said (CoreMark per MHz off its median).
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

## By hand: why shallower idle meant a lower clock on Jasper Lake
Two kernels that differ in one commit of menu ran at 1559 MHz and 3.10 W, and at 1817 MHz and 3.40 W.
The power limit is not it: the running average over 28 s is above 6 W in 1 % of the intervals of either run.
Busy time is not it: 25.7 and 26.4 %; by busy time alone one run predicts the other's mean clock 13 and 15 % wrong.
What fits both runs with one curve is the share that cores are busy of the time in which they are not in C6 or C7: C0 / (C0 + C1).
It predicts 1894 of 1817 MHz, and 1581 of 1559 MHz; by CPU 1811 of 1812 and 1656 of 1549 MHz.
So firmware that chooses the clock (HWP, EPP 128) seems to count time in C1 as time in which nobody asked for speed, and not to count time in C6 and C7.
The commit makes menu choose C1 more (hardware C1 15.6 against 11.5 % of the time): more idle time counts, the clock falls, the benchmark takes longer.
The watts follow the clock: of the 0.30 W between the runs 0.28 are the cores'.
This is a correlation over the intervals of two runs, found here; the firmware is not public.
The engine's HWP has it: at an EPP of 128 the clock rises in proportion to C0 / (C0 + C1), from the lowest at 0.32 to the highest at 1.
By CPU and interval (1728 rows) that line is off by 17 % at the median; fitted to one log (from 0.30 or 0.34), it is off by 15 and 22 % in the other.
Before, the engine counted all idle time and turned at 62 % of it: off by 48 % at the median, 0.9 GHz for 1.6 and 1.8.

## By hand: an uncore that follows the load
The one set that has packages apart from their cores at many loads says that load is not it, nor the cores' clock, but traffic.
RAPL of both packages less the cores, 2x EPYC 7502, 4 to 128 threads, at 1.5 and at 2.5 GHz: 111.0 to 111.9 W in busy wait, integer and FP loops; 123 to 182 W in memory reads, 123 to 170 W in memory writes, some 1 W a core that reads.
So `epyc-7502-2s` has one package power, and a program's traffic belongs into its class (`power`); 41 to 75 W published for Broadwell's gitsource where 51 to 55 are predicted ask for a class of that program, which nobody measured.
The Xeon 6130's package does follow the cores' clock (`shared_follows_machine`).

## Energy of an imported machine
```sh
opplab machine import adl0.tar.xz -o adl0.toml           # A dump of pepc's tests: no power.
opplab run load.json -m adl0.toml -o out                 # "energy is unknown: the machine has no power. Give it some with ..."
opplab machine import adl0.tar.xz --power stats/adl0 -o adl0-watts.toml    # A folder of stats-collect with a turbostat log.
opplab run load.json -m adl0-watts.toml -o out           # energy 16.1 J, energy_low 6.1 J, energy_high 48.3 J
```
`load.json` has four tasks that work 4 ms of 10 ms, for 1 s.
That log is of an idle machine (at most 0.6 % of its CPUs busy), so the interval is as wide as chips differ, and `--power` says so.
`--power` takes turbostat's text (also `-J`, with its line of seconds), its CSV, folders of stats-collect (the wall meter where turbostat has no watts), RAPL samples (`time_s`, `energy_uj`), tables by active cores and freqbench's tables.
Columns are known by the words of their names and their units (`Package Power (mW)`, `mean_bzy_mhz_of_these`), in any order, separated by commas, semicolons, tabs or blanks, behind a preamble, with heads that come again.
Beside rows of the whole machine those of single CPUs are left out; of packages their loads are taken.
Without watts, clock or load a source is refused with the names that would be known, and one whose unit cannot be right (a clock of 2000 GHz).
Where a package's watts follow the clock far better than not, they do in the file (`package f`): the Xeon 6130's uncore, 28.7 W a socket at 1.0 GHz and 49.8 at 2.1.
It has two clocks only, so what lies between is on the line; its thread says that the step comes at the base clock, which `xeon-6130-2s` has.
`opplab fit power MACHINE LOG...` fits several logs of one machine together.
A source of one clock is given the shape of server cores, with a range as wide as it differs between chips.
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
        rest += ["", "Beyond 10 %, with what the file says of it:", *(f"- {reason}." for reason in _reasons(report))]
    return HEAD + "\n".join([*table, *rest]) + "\n" + TAIL


def write_page(report: dict[str, Any], folder: Path) -> Path:
    """Write the page to `folder` and give its path."""
    path = folder / "silicon.md"
    write_text(path, page(report))
    return path
