"""Which command has which of the options that several have, and why not: a page of the site."""

from __future__ import annotations

import re
from typing import Any

from opplab.cli.reference import Page

# Option that several commands have -> how it may be written.
COMMON = {
    "machine": ("-m", "--machine"),
    "governor": ("--governor",),
    "kernel": ("--kernel",),
    "energy-model": ("--energy-model",),
    "jobs": ("-j", "--jobs"),
    "format": ("--format",),
    "output": ("-o", "--output"),
}
_NO_RUN = "runs nothing"
_FILE = "writes one form, by the file's name"
_THE_HOST = "the host's own"
# Why a command has not an option: (pattern of commands, options, reason). The first that fits counts.
REASONS: tuple[tuple[str, str, str], ...] = (
    ("machine (show|check|export)|fmax|calibrate", "machine", "the argument"),
    ("kernels diff", "kernel", "the arguments"),
    ("kernels diff", "energy-model", "the kernel's"),
    ("machine import", "machine format", "SOURCE is; a machine file is TOML"),
    ("experiment new", "format", "an experiment file is TOML"),
    ("workload (new|from-.*)", "format", "an rt-app file is JSON"),
    ("experiment new", "kernel energy-model", "keys of the file that it writes"),
    ("host .*", "machine energy-model", _THE_HOST),
    ("host (govern|record)", "format", "the log is JSON lines, the recording an archive"),
    ("host (show|affinity|record|observe|calibrate|compare)", "governor kernel", _THE_HOST),
    ("host (show|affinity|govern)", "output", "to standard output (govern: --log)"),
    ("host .*", "jobs", _NO_RUN),
    ("trace (export|view)", "format", _FILE),
    ("trace to-rtapp", "format", "an rt-app file is JSON"),
    ("trace (info|events|export)", "machine", "events are read as they are"),
    ("trace .*", "governor kernel energy-model", "what was recorded"),
    ("learn", "machine governor kernel energy-model", "what was recorded"),
    ("explain", "governor kernel energy-model", "the run's or the recording's own"),
    (
        "(explain|replay|meter|fmax|kernels diff|compare|status|list|trace (info|events))",
        "output",
        "to standard output",
    ),
    ("(experiment|workload|machine) (show|check)", "output", "to standard output"),
    ("verify (vectors|traces|silicon)", "output", "to standard output"),
    ("trace (idle|sql)", "output", "to standard output"),
    ("verify .*|status|list|workload .*|compare", "machine", "none is involved"),
    ("experiment show|predict", "machine", "the experiment's"),
    ("predict", "format", "the output's file name selects it"),
    ("host experiment", "governor kernel", "the experiment's"),
    ("host experiment", "format output", "an option of host compare, which holds here as well"),
    ("score", "machine governor kernel energy-model output", "what was sealed and measured"),
    ("fleet", "machine", "the dumps'"),
    ("fleet", "energy-model", "--vs energy_model=..."),
    ("verify .*|calibrate|experiment .*|predict", "governor kernel energy-model", "the experiment's"),
    ("(machine .*|fmax|status|list|workload .*|compare)", "governor kernel energy-model", _NO_RUN),
    ("(replay|meter|explain)", "jobs", "one case"),
    ("verify (vectors|traces|silicon)", "jobs", "short"),
    ("fit .*", "machine governor kernel energy-model", "measurements are fitted, not runs"),
    ("fit .*", "output format", "in the command's own words"),
    (".*", "jobs", _NO_RUN),
)


def _why_not(command: str, option: str) -> str | None:
    for pattern, options, reason in REASONS:
        if re.fullmatch(pattern, command) and option in options.split():
            return reason
    return None


def option_rows(found: list[Page]) -> list[dict[str, Any]]:
    """Give one row a command: for each common option ``yes``, or why it is not there (``HOLE``: nobody knows)."""
    rows = []
    parents = {page.name.rpartition(" ")[0] for page in found}
    for page in found:
        if page.name in parents:
            continue
        words = page.name.removeprefix("opplab ")
        written = {word for names, _ in page.options for word in re.findall(r"--?[a-z][a-z-]*", names)}
        written |= set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", page.usage))
        row: dict[str, Any] = {"command": words}
        for option, names in COMMON.items():
            row[option] = "yes" if written & set(names) else _why_not(words, option) or "HOLE"
        rows.append(row)
    return rows
