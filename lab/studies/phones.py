"""What the measured powers of the phones changed: texts 003 and 004 cell by cell, before and after, on one engine.

*Before* is the machine file as it was until its powers, voltages and capacities were measured ones
(``studies/earlier/``), *after* the catalogue's; kernel, engine, experiment and benchmark models are the same.  The Juno
of text 003 was measured on the board itself, and its powers did not change.

``python -m lab.studies.phones`` writes the tables of ``docs/journal/2026-11-23-phones.md``; ``--check``
compares them with what the command would write.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lab.studies import pages
from opplab import catalog
from opplab.agreement.scoreboard import Cell, cells_of, score
from opplab.files import read_text
from opplab.sweep.experiments import Experiment

EARLIER = Path(__file__).parent / "earlier"
PHONES = {"pixel4-eas": "pixel4", "pixel6-sugov-affinity": "pixel6"}
JUNO = ("juno-eas", "juno-hackbench")
SHARES = (0.1, 0.3, 0.5, 0.7, 1.0)
"""Shares of the stated exit latency, its worst case, that a wake-up may take; the machine files have 0.3."""

_WAKE = re.compile(r"exit_latency_us = (\d+), wake_us = \d+")


def cells(experiment: str, machine: str | None = None) -> list[Cell]:
    """Give the published cells of an experiment beside its predictions; `machine` is the text of another file."""
    if machine is None:
        return _run(Experiment.load(experiment))
    name = PHONES[experiment]
    text = read_text(catalog.find("experiment", experiment), "an experiment file")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.toml"
        file.write_text(machine, encoding="utf-8")
        ours = Path(folder) / f"{experiment}.toml"
        ours.write_text(text.replace(f'machine = "{name}"', f'machine = "{file.as_posix()}"'), encoding="utf-8")
        return _run(Experiment.load(ours))


def _run(experiment: Experiment) -> list[Cell]:
    return cells_of(experiment, experiment.run())


def _earlier(name: str) -> str:
    return (EARLIER / f"{name}.toml").read_text(encoding="utf-8")


def _waking_by(name: str, share: float) -> str:
    """Give a phone's file with wake-ups that take this share of the stated exit latency."""
    text = read_text(catalog.find("machine", name), "a machine file")

    def wake(found: re.Match[str]) -> str:
        told_us = int(found[1])
        return f"exit_latency_us = {told_us}, wake_us = {max(round(share * told_us), 1)}"

    return _WAKE.sub(wake, text)


def _name(cell: Cell) -> list[str]:
    words = cell.benchmark.removeprefix("rt-app-like periodic ").removesuffix(" on CPU7, 30 s")
    return [f"{cell.seed} {words}", cell.metric.removeprefix("average power "), cell.parameter, cell.variant]


def cell_rows(before: list[Cell], after: list[Cell]) -> list[str]:
    """Give a row a cell, and whether it came nearer to what was published."""
    lines = [
        "| text | rail or meter | point | variant | published | before | after | error before | after |",
        "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for was, now in zip(before, after, strict=True):
        if _name(was) != _name(now):
            raise ValueError(f"cells of one experiment differ: {was.label}, {now.label}")
        numbers = [f"{value:.3f}" for value in (now.published, was.predicted, now.predicted)]
        errors = [f"{value:+.3f}" for value in (was.error, now.error)]
        lines.append(f"| {' | '.join([*_name(now), *numbers, *errors])} |")
    return lines


_FIGURES: dict[str, Callable[[dict[str, Any]], str]] = {
    "sign agreement": lambda row: f"{row['sign_agreement']:.2f}",
    "median error": lambda row: f"{row['median_abs_error']:.3f}",
    "90th percentile": lambda row: f"{row['p90_abs_error']:.3f}",
    "rank correlation": lambda row: f"{row['rank_correlation']:.2f}",
}


def summary_rows(pairs: dict[str, tuple[list[Cell], list[Cell]]]) -> list[str]:
    """Give the figures of merit by text, before and after."""
    lines = [f"| text | cells | {' | '.join(_FIGURES)} |", "| --- | ---: |" + " --- |" * len(_FIGURES)]
    for text, (before, after) in pairs.items():
        was, now = score(before), score(after)
        figures = [f"{give(was)} -> {give(now)}" for give in _FIGURES.values()]
        lines.append(f"| {text} | {len(after)} | {' | '.join(figures)} |")
    return lines


def share_rows() -> list[str]:
    """Give the figures of merit by the share of the stated exit latency that a wake-up takes."""
    lines = [
        "| share | 003 Pixel 4, median error | 90th percentile | 004, median error | 90th percentile |",
        "| ---: | ---: | ---: | ---: | ---: |",
    ]
    for share in SHARES:
        scores = [score(cells(experiment, _waking_by(name, share))) for experiment, name in PHONES.items()]
        numbers = [f"{row[key]:.3f}" for row in scores for key in ("median_abs_error", "p90_abs_error")]
        lines.append(f"| {share:g} | {' | '.join(numbers)} |")
    return lines


def tables() -> dict[str, str]:
    """Give the tables of the page by name."""
    pairs = {name: (cells(experiment, _earlier(name)), cells(experiment)) for experiment, name in PHONES.items()}
    juno = [cell for experiment in JUNO for cell in cells(experiment)]
    every = [("003 on the Pixel 4", pairs["pixel4"]), ("003 on the Juno r2", (juno, juno)), ("004", pairs["pixel6"])]
    return {
        "phones-summary": "\n".join(summary_rows(dict(every))),
        "phones-cells": "\n".join(cell_rows(*(pairs["pixel6"][i] + pairs["pixel4"][i] for i in (0, 1)))),
        "juno-cells": "\n".join(cell_rows(juno, juno)),
        "wake-share": "\n".join(share_rows()),
    }


def texts(docs: Path) -> dict[Path, str]:
    """Make the page anew."""
    page = docs / "journal" / "2026-11-23-phones.md"
    return {page: pages.fill(page.read_text(encoding="utf-8"), tables())}


if __name__ == "__main__":
    sys.exit(pages.main("phones", __doc__, texts))
