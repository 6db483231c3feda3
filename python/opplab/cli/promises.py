"""What every command promises of its answer: what it answers from, and how it ends where it cannot.

One declaration for `RELIABILITY.md`, whose table ``python -m opplab.cli.promises`` writes, and for the test that calls
each command with input that is empty, cut, incomplete or contradicts itself: none of them may end with 0 and no note.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BEGIN, END = "<!-- promises: made by python -m opplab.cli.promises -->\n", "<!-- end of promises -->\n"


@dataclass(frozen=True)
class Promise:
    """What a command answers from, and how it ends where it cannot."""

    source: str
    cannot: str
    code: str
    """Exit code where it cannot answer."""
    call: tuple[str, ...] = ()
    """A call that answers; ``{KIND}`` stands for a file of a kind, ``{out}`` for one that it writes."""


REFUSED = "one line with file, position and the nearest valid name"
DAMAGED = "damage with its place, after the answer from the rest (`--damaged-ok`: 0)"
HOST = "the file or setting that lacks or refuses"
SHORT = ("--seconds", "0.02")
FEW = ("--iterations", "1", "--uncertainty", "0", "-j", "1")

PROMISES: dict[str, Promise] = {
    "run": Promise(
        "an experiment, or a workload, a machine and a policy",
        f"{REFUSED}; cases that failed, by name",
        "2; 1 of cases",
        ("{experiment}", *SHORT, "-j", "1", "--no-report", "-o", "{out}"),
    ),
    "status": Promise("a results folder", "damaged and failed cases, by name", "1", ("{results}",)),
    "list": Promise("what is built in", "unknown kinds with the nearest", "2", ("machines",)),
    "experiment new": Promise(
        "a workload and a machine",
        REFUSED,
        "2",
        ("x", "--machine", "{machine}", "--workload", "{workload}", "-o", "{out}"),
    ),
    "experiment show": Promise("an experiment", REFUSED, "2", ("{experiment}",)),
    "workload from-cgroup": Promise(
        "a cgroup tree",
        "files that are empty, unreadable or odd, as notes; a tree without the cpu controller",
        "2",
        ("{cgroup}", "-o", "{out}.json"),
    ),
    "workload from-pod": Promise(
        "a pod spec",
        f"{REFUSED}; init containers, replicas, objects without pods, as notes",
        "2",
        ("{pod}", "-o", "{out}.json"),
    ),
    "workload new": Promise("a template", "a file that is there", "2", ("x", "-o", "{out}")),
    "workload show": Promise("an rt-app file", f"{REFUSED}; what rt-app reads over, as notes", "2", ("{workload}",)),
    "machine check": Promise("a machine or a dump", "findings; what is missing", "1, 2", ("{machine}",)),
    "machine export": Promise(
        "a machine", "powers that are not known, as comments; refused where the form needs them", "2", ("{machine}",)
    ),
    "machine import": Promise(
        "a dump", "what the dump lacks, as notes and marks in the file", "2", ("{dump}", "-o", "{out}")
    ),
    "machine show": Promise("a machine", REFUSED, "2", ("{machine}",)),
    "fmax": Promise("a machine or a dump", "candidates without a number, with the reason", "2", ("{machine}",)),
    "fit power": Promise("a table of power by clock", f"{REFUSED}; points that no fit explains", "2", ("{power}",)),
    "calibrate": Promise(
        "baselines that are built in", "constants at the end of their range, as notes", "2", ("--show",)
    ),
    "learn": Promise("a recording", DAMAGED, "1", ("{recording}", "-o", "{out}")),
    "choose": Promise(
        "runs of settings",
        "settings that do not differ, by name",
        "2; 1 of cases",
        ("{workload}", "--machine", "{machine}", *SHORT, *FEW),
    ),
    "fleet": Promise(
        "dumps of machines",
        "dumps that are refused, by name; the others are answered",
        "1, 2",
        ("{sysfs}", "--workload", "{workload}", *SHORT, *FEW, "-o", "{out}"),
    ),
    "predict": Promise(
        "an experiment and its baseline, or a mail of the kernel robot",
        "rows without a model or an interval, with the reason",
        "2",
        ("{experiment}", "-o", "{out}.json", "--results", "{out}", "--uncertainty", "20", "-j", "1"),
    ),
    "score": Promise(
        "sealed predictions and results",
        "a seal or a file that was changed is refused; rows without a partner or an interval, by name",
        "1, 2",
        ("{record}",),
    ),
    "kernels diff": Promise(
        "two kernels", "a release that is not known, with the one that stands for it", "2", ("6.1", "6.12")
    ),
    "explain": Promise(
        "a case, a recording or a log", f"values that the trace lacks; {DAMAGED}", "1, 2", ("{case}", "--cpu", "0")
    ),
    "compare": Promise(
        "results, tables, mmtests trees",
        "rows without a partner, as notes; a gate that cannot judge fails by name",
        "2; 1 of gates",
        ("{table}",),
    ),
    "meter": Promise(
        "one case",
        REFUSED,
        "2",
        ("rails", "--workload", "{workload}", "--machine", "{machine}", "--every", "0.01", *SHORT),
    ),
    "trace info": Promise("a trace", DAMAGED, "1", ("{trace}",)),
    "trace events": Promise("a trace", DAMAGED, "1", ("{trace}", "--limit", "2")),
    "trace export": Promise("a trace", DAMAGED, "1", ("{trace}", "-o", "{out}.txt")),
    "trace signals": Promise("a trace and its machine", DAMAGED, "1", ("{trace}", "--machine", "juno-r2")),
    "trace energy": Promise("a trace and its machine", DAMAGED, "1", ("{trace}", "--machine", "juno-r2")),
    "trace idle": Promise("a trace and its machine", DAMAGED, "1", ("{trace}", "--machine", "juno-r2")),
    "trace sql": Promise("a trace", DAMAGED, "1", ("{trace}", "select count(*) as n from sched_switch")),
    "trace to-rtapp": Promise("a trace and its machine", DAMAGED, "1", ("{trace}", "--machine", "juno-r2")),
    "trace view": Promise("a trace", DAMAGED, "1", ("{trace}", "-o", "{out}.html")),
    "replay": Promise(
        "a recording and its machine",
        f"blank cells with the reason; verdict `not near`; {DAMAGED}",
        "1",
        ("{trace}", "--machine", "juno-r2", "--mode", "open"),
    ),
    "host show": Promise("/proc and /sys", "each value that is not there, with the reason", "3", ("--root", "{sysfs}")),
    "host observe": Promise(
        "counters of each CPU",
        "CPUs without a reading, as notes and without a row; sleep is left out",
        "3",
        ("--root", "{sysfs}", "-n", "1", "--interval", "5ms"),
    ),
    "host affinity": Promise("threads in /proc", HOST, "3"),
    "host govern": Promise(
        "counters of each CPU; a log",
        "looks without a reading (nothing is decided); settings that are not restored, by name",
        "3; 1 of a log",
        ("--verify", "{log}"),
    ),
    "host record": Promise("tracefs", f"{HOST}; events that were lost", "3"),
    "host calibrate": Promise(
        "the machine's clocks, idle states, meters, disk",
        "what is not measured, with the reason; intervals that are too wide, by name; settings that are not restored",
        "2, 3",
    ),
    "host compare": Promise(
        "runs of a program",
        "what is not measured, with the reason; disturbed blocks; settings that are not restored, by name",
        "2, 3",
    ),
    "host experiment": Promise(
        "an experiment and runs of a program", f"policies that a live machine does not take, by key; {REFUSED}", "2, 3"
    ),
    "verify published": Promise("built-in texts", "cells without a model, counted", "1"),
    "verify silicon": Promise("measurements", REFUSED, "2"),
    "verify traces": Promise("recordings", f"decisions that differ; {DAMAGED}", "1", ("{recording}",)),
    "verify vectors": Promise(
        "vectors of the kernel", "families that are not built; damaged lines", "1, 2", ("{vectors}",)
    ),
}
"""By the words of the command; of `opplab host` its own commands."""


def table() -> str:
    """Give the table as Markdown."""
    rows = ["| command | input | without an answer | exit code then |", "| --- | --- | --- | --- |"]
    rows += [f"| `{name}` | {one.source} | {one.cannot} | {one.code} |" for name, one in PROMISES.items()]
    return "\n".join(rows) + "\n"


def main() -> None:
    """Write the table into `RELIABILITY.md` of this folder."""
    path = Path("RELIABILITY.md")
    text = path.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    path.write_text(f"{head}{BEGIN}{table()}{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
