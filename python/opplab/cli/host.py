"""`opplab host`: look at a live Linux, and change its frequencies with everything put back.

The command line is crate ``host``'s, the same as that of the static ``opplab-agent``.  Two things need more than that:
Parquet output of ``observe``, and ``affinity --evaluate``, which simulates the machine's twin.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import polars as pl

from opplab import _opplab, results
from opplab.errors import InputError
from opplab.files import write_text


def _host(words: list[str]) -> int:
    sys.stdout.flush()
    return _opplab.host_main(words, [sys.executable, "-m", "opplab", "host"])


def _parquet(words: list[str]) -> tuple[list[str], str] | None:
    """Find the Parquet file that ``observe`` is to write, if it is one; give the other words, and the file."""
    from opplab.host.far import output_at

    if (found := output_at(words)) is None or not found[2].endswith(".parquet"):
        return None
    index, start, name = found
    return [*words[: index if start else index - 1], *words[index + 1 :]], name


def _observe_parquet(words: list[str], output: str) -> int:
    with TemporaryDirectory() as folder:
        csv = Path(folder) / "observe.csv"
        code = _host([*words, "-o", str(csv)])
        if csv.exists() and csv.stat().st_size:
            table = pl.read_csv(csv, null_values=["-"], infer_schema_length=None)
            # The row of all CPUs has none.
            table.write_parquet(output)
    return code


def _calibrated(folder: Path) -> None:
    """Write the machine file of what ``calibrate`` measured beside it."""
    from opplab.cli.machine import imported
    from opplab.host.calibrated import calibrated

    if not (folder / "calibration.json").is_file():
        return
    # The agent writes the machine's files beside, so that a far machine has them here.
    text, _ = imported(folder / "sysfs.txt", None)
    text, notes = calibrated(text, folder / "calibration.json")
    write_text(folder / "machine.toml", text)
    click.echo("\n".join([*notes, f"wrote {folder / 'machine.toml'}"]), err=True)


def _results(folder: Path) -> None:
    """Write the runs of ``compare`` as a results table beside them, for every command that reads results."""
    runs = folder / "runs.jsonl"
    if runs.is_file():
        from opplab.comparison.measured import results_of

        results.write(results_of(runs), folder / "results.parquet")


@click.command(
    name="experiment",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="",
)
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE.toml")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] -- COMMAND [ARGS]")
def experiment(file: Path, words: tuple[str, ...]) -> None:
    """Measure an experiment's policies on this machine, as 'opplab run' simulates them.

    Each policy of FILE.toml is a variant of 'opplab host compare', whose OPTIONS for design, measures and results
    apply here as well. --workload LABEL names the workload that COMMAND runs, if the file has several. A key in which
    policies differ must be settable on a running kernel; otherwise it is refused.
    """
    from opplab.host.experiment import plan_of
    from opplab.sweep.experiments import Experiment

    given = list(words)
    split = given.index("--") if "--" in given else len(given)
    options, run = given[:split], given[split:]
    workload = _taken(options, "--workload")
    root = Path(_after(options, "--root") or "/")
    loaded = Experiment.load(file)
    plan = plan_of(loaded, workload, root)
    for note in plan.notes:
        click.echo(f"opplab: not set, as in all policies: {note}", err=True)
    compared = ["compare", *plan.words, *options, *run]
    code = _host(compared)
    folder = _output(compared)
    if code in (0, 130) and folder is not None:
        _results(folder)
        if (folder / "runs.jsonl").is_file():
            # `opplab score` holds it against what was sealed.
            write_text(folder / "experiment.toml", loaded.text)
    if code:
        sys.exit(code)


def _after(words: list[str], option: str) -> str:
    """Give the value of an option; empty without it."""
    for word, value in zip(words, [*words[1:], ""], strict=False):
        if word == option:
            return value
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
    return ""


def _taken(words: list[str], option: str) -> str:
    """Take an option and its value out of the words."""
    value = _after(words, option)
    for index, word in enumerate(words):
        if word == option or word.startswith(f"{option}="):
            del words[index : index + 1 + (word == option)]
            break
    return value


def _output(words: Sequence[str]) -> Path | None:
    """Give the folder that ``compare`` or ``calibrate`` writes, as these read their words; None where nothing runs."""
    folder = _opplab.host_output(list(words))
    return None if folder is None else Path(folder)


def _far(words: tuple[str, ...]) -> int | None:
    """Run a command on another machine, if one is named; give its exit code."""
    end = words.index("--") if "--" in words else len(words)
    options, rest = list(words[:end]), words[end:]
    host, device = _taken(options, "--ssh"), _taken(options, "--adb")
    agent = _taken(options, "--agent")
    sudo = "--sudo" in options
    if not host and not device:
        if agent or sudo:
            raise click.UsageError("--agent and --sudo are for --ssh and --adb")
        return None
    from opplab.host import far

    if host and device:
        raise click.UsageError("--ssh or --adb, not both")
    options = [word for word in options if word != "--sudo"]
    if options[:1] == ["experiment"] or "--evaluate" in options:
        raise click.UsageError("--ssh and --adb run opplab-agent, which has no experiment and no --evaluate")
    found = Path(agent or shutil.which("opplab-agent") or "target/opplab-agent")
    if not found.is_file():
        raise InputError(f"{found}: no agent to copy: `make agent` builds it, --agent FILE names it")
    way = far.Ssh(host) if host else far.Adb(device)
    code, here = far.run(way, [*options, *rest], found, sudo)
    if here is not None and code in (0, 130):
        (_calibrated if options[:1] == ["calibrate"] else _results)(here)
    return code


@click.command(
    name="host",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def command(words: tuple[str, ...]) -> None:
    """Work on a live Linux: show, observe, affinity, govern, record, calibrate, compare, experiment.

    --ssh HOST, or --adb DEVICE, runs a command on another machine by the static opplab-agent (--agent FILE; --sudo as
    root there) and brings its results back.
    """
    far = _far(words)
    if far is not None:
        sys.exit(far)
    first = words[:1]
    if first == ("affinity",) and "--evaluate" in words:
        from opplab.cli.host_evaluate import evaluate

        rest = [word for word in words[1:] if word != "--evaluate"]
        evaluate.main(args=rest, prog_name="opplab host affinity --evaluate", standalone_mode=False)
        return
    if first == ("experiment",):
        experiment.main(args=list(words[1:]), prog_name="opplab host experiment", standalone_mode=False)
        return
    found = _parquet(list(words)) if first == ("observe",) else None
    code = _observe_parquet(*found) if found else _host(list(words))
    if code in (0, 130) and (folder := _output(words)) is not None:
        if first == ("compare",):
            _results(folder)
        elif code == 0:
            _calibrated(folder)
    if code:
        sys.exit(code)
