"""Run the experiments that have published tables, score them, and write the page *Agreement*."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab import _opplab, catalog
from opplab.agreement import scoreboard
from opplab.agreement.predict import write_errors
from opplab.agreement.scoreboard import Cell, cells_of, sample
from opplab.errors import plain_interrupts
from opplab.files import read_text
from opplab.simulation.run import workers
from opplab.sweep.progress import progress

if TYPE_CHECKING:
    from opplab.sweep.experiments import Experiment


def scored_experiments() -> list[str]:
    """Give the built-in experiments that name what they are compared with."""
    found = []
    for name in catalog.names("experiment"):
        path = catalog.find("experiment", name)
        if _opplab.Experiment.parse(str(path), read_text(path, "an experiment file")).compare():
            found.append(name)
    return found


@dataclass
class _Swept:
    """What came of one experiment."""

    experiment: Experiment
    cells: list[Cell]
    seconds: float
    problems: list[str]
    cases: int
    finished: int


def verify_published(
    experiments: Sequence[str],
    output: Path,
    quick: bool,
    jobs: int | None,
    output_format: str,
    docs: Path | None,
    score_only: bool,
) -> bool:
    """Do what ``opplab verify published`` does; gives whether something could not be run."""
    from opplab.agreement.page import write_page
    from opplab.sweep.experiments import Experiment

    chosen = list(experiments) or scored_experiments()
    loaded = [Experiment.load(name) for name in chosen]
    for experiment in loaded:
        if not experiment.compare:
            raise click.UsageError(f"experiment {experiment.name} has no `[[compare]]`: nothing is published for it")
    if not (experiments or score_only):
        total = sum(len(experiment.cases) for experiment in loaded)
        note = "every fifth row of them" if quick else "many minutes on few cores; --quick runs every fifth row"
        click.echo(f"{len(loaded)} experiments with {total} cases: {note}", err=True)
    # One folder for quick and full runs: what both need is run once.
    swept = []
    for experiment in loaded:
        one = _sweep(experiment, output / experiment.name, quick, workers(jobs), score_only)
        swept.append(one)
        click.echo(f"{experiment.name}: {one.cases} cases in {one.seconds:.0f} s, {len(one.cells)} cells", err=True)
    cells = [cell for one in swept for cell in one.cells]
    written = []
    if docs is not None and not experiments and not quick:
        written.append(write_errors(cells))
    findings = {one.experiment.name: one.experiment.finding for one in swept}
    board = scoreboard.scoreboard(cells, findings) | {
        "quick": quick,
        "experiments": {
            one.experiment.name: {"cases": one.cases, "finished": one.finished, "failed": len(one.problems)}
            for one in swept
        },
    }
    problems = [problem for one in swept for problem in one.problems]
    if output_format == "json":
        sys.stdout.write(json.dumps(board, indent=1, allow_nan=False) + "\n")
    else:
        _print(board)
    for problem in problems[:5]:
        click.echo(f"opplab: {problem}", err=True)
    if len(problems) > 5:
        click.echo(f"opplab: {len(problems)} cases failed in all", err=True)
    arguments = [*experiments, *(["--quick"] if quick else [])]
    line = " ".join(["opplab verify published", *arguments])
    written += write_page(board, cells, line, output)
    if docs is not None:
        written += write_page(board, cells, f"{line} --docs {docs}", docs)
    click.echo(f"wrote {', '.join(map(str, written))}", err=True)
    return bool(problems)


def _sweep(experiment: Experiment, folder: Path, quick: bool, jobs: int, score_only: bool) -> _Swept:
    """Run an experiment's cases that are not there yet, and compare."""
    from opplab.sweep.runner import run_cases
    from opplab.sweep.store import Store

    start = time.monotonic()
    rows, points = sample(experiment) if quick else (None, set())
    cases = [case for case in experiment.cases if not quick or (case.benchmark, case.param) in points]
    problems: list[str] = []
    with Store(folder) as store:
        if score_only:
            store.manifest()
        else:
            click.echo(f"{experiment.name}: {len(cases)} cases", err=True)
            try:
                if store.create(experiment.manifest(), replace=True):
                    click.echo(f"opplab: {folder} held results of another build; they are made anew", err=True)
                with plain_interrupts(), progress(len(cases)) as shown:
                    tally = run_cases(
                        cases, store, jobs=jobs, until=experiment.until, progress=shown, retry_failed=True
                    )
            except KeyboardInterrupt:
                done = len(store.finished() & {case.hash for case in cases})
                click.echo(f"opplab: interrupted; {done} of {len(cases)} cases of {experiment.name} are kept", err=True)
                raise click.exceptions.Exit(130) from None
            for note in store.notes:
                click.echo(f"opplab: {note}", err=True)
            problems = [f"{experiment.name}: {problem}" for problem in tally.problems]
        hashes = [case.hash for case in cases]
        results = store.merge(hashes)
        finished = len(store.finished().intersection(hashes))
        cells = [] if results.is_empty() else cells_of(experiment, results, rows)
        # With `until` those that were not needed are not missing.
        wanted = len(cases) if experiment.until is None else finished + len(problems)
        return _Swept(experiment, cells, time.monotonic() - start, problems, wanted, finished)


def _print(board: dict[str, Any]) -> None:
    from opplab.report.text import flow, render_table, terminal_width

    width = terminal_width()

    def write(text: str) -> None:
        sys.stdout.write(flow(text, width))

    sys.stdout.write(render_table(scoreboard.table_rows(board), "text", width))
    write(
        "\nsign: predicted in the published direction, of the cells whose\n"
        "  published effect exceeds its spread\n"
        "strict: faint ones (predicted nearer than 0.5 % to 1) counted as wrong\n"
        "errors: |predicted ratio - published ratio|, points of the baseline\n"
        "null: the rival that predicts 1.000 everywhere\n"
        "skill: 1 - error / null's, by median and by mean\n"
        "closer: than the null, of all cells\n"
        "clear: of those whose effect exceeds its spread, closer or as close\n"
        "in 90 %: of the published ratios, inside the prediction's own interval:\n"
        "  errors on the other tables of this development set, and the spread over\n"
        "  seeds and phases; width: its median\n"
        "rank: Spearman's, of variants\n"
        + ("stand for: cells of the whole, by which figures are weighted\n" if board["quick"] else "")
    )
    write("\nfarthest from what was published:\n")
    for cell in board["worst"]:
        write(f"  {describe(cell)}\n")
        if cell["explanation"]:
            write(f"      simulated: {cell['explanation']}\n")
    findings = {name: text for name, text in board["findings"].items() if text}
    if findings:
        write("\nwhat is explained, and what is not:\n")
        for name, text in findings.items():
            write(f"  {name}: {' '.join(text.split())}\n")


def describe(cell: dict[str, Any]) -> str:
    """Describe a compared value in a line."""
    names = ("seed", "machine", "benchmark", "metric", "parameter", "variant")
    place = scoreboard.place_of(*(cell[name] for name in names))
    return f"{place}: published x{cell['published']:.3f}, predicted x{cell['predicted']:.3f}"
