"""`opplab score`: how sealed predictions were, and the track record of many."""

from __future__ import annotations

from pathlib import Path

import click

from opplab.cli.options import output_format_option, pairs_option
from opplab.report.text import terminal_width


@click.command(name="score")
@click.argument("sealed", type=click.Path(path_type=Path))
@click.argument("results", nargs=-1, type=click.Path(path_type=Path))
@pairs_option("--as", "names", "Predicted name (machine, variant, workload, metric) and its name in the results.")
@click.option("--experiment", type=click.Path(path_type=Path), help="Experiment file (default: the name in the seal).")
@click.option(
    "--record", type=click.Path(path_type=Path), metavar="FOLDER", help="Folder of the track record to extend."
)
@output_format_option(only=("text", "json", "markdown", "csv"))
@click.option("--all", "everything", is_flag=True, help="Print every row.")
def command(
    sealed: Path,
    results: tuple[Path, ...],
    names: dict[str, str],
    experiment: Path | None,
    record: Path | None,
    output_format: str,
    everything: bool,
) -> None:
    """Score the predictions in SEALED ('opplab predict') against RESULTS.

    RESULTS is any source of 'opplab compare': a folder of 'opplab host compare' or 'opplab run', a CSV, an mmtests
    tree. Rows match by workload, parameters, metric, variant and baseline, and by machine where there are several;
    --as maps names that differ. A seal or an experiment file that changed since is refused.

    Skill is 1 - error / error of "no change": 1 is perfect, 0 is no better. If SEALED is a folder of --record, the
    track record is printed, one row per machine. Exit codes: 0 every predicted row was scored, 1 some were not, and
    are named, 2 bad input, a changed file, or no common row.
    """
    from opplab.agreement import record as records
    from opplab.agreement.sealed import Seal, score_of
    from opplab.report.block import LINES

    most = None if everything else LINES
    if sealed.is_dir() and not results:
        click.echo(records.track_record(sealed).form(output_format, terminal_width(), most), nl=False)
        return
    if not results:
        raise click.UsageError("give RESULTS, or a folder of --record")
    made = Seal.load(sealed)
    file = experiment or _file_of(made.file, sealed)
    if file is not None:
        made.check_file(file)
    measured = [folder / "experiment.toml" for folder in results if (folder / "runs.jsonl").is_file()]
    for copy in measured:
        if copy.is_file():
            made.check_file(copy)
    found = score_of(made, results if len(results) > 1 else results[0], names)
    click.echo(found.form(output_format, terminal_width(), most), nl=False)
    if file is None:
        click.echo(f"opplab: {made.file} is not there: whether it was changed is not checked", err=True)
    if record is not None:
        click.echo(f"wrote {', '.join(map(str, records.add(record, made, found)))}", err=True)
    if found.open:
        raise click.exceptions.Exit(1)


def _file_of(name: str, sealed: Path) -> Path | None:
    """Find the experiment's file: as it was named, or beside the seal."""
    places = [Path(name), sealed.parent / Path(name).name]
    return next((place for place in places if place.is_file()), None)
