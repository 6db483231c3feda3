"""The command line: `opplab COMMAND`.

Each sub-command lives in a module of its own that is imported when it is called, so that ``opplab --help`` and quick
commands do not pay for polars.  Exit codes: 0 ok, 1 a check or a case failed, 2 usage or bad input, 3 the host lacks
what is needed or refuses, 70 a mistake in opplab, 130 interrupted, 141 the reader of a pipe went away.
"""

from __future__ import annotations

import contextlib
import sys
from importlib import import_module
from typing import Any

import click

from opplab.cli.ending import DAMAGED_OK, READER_GONE, check_limits, code_of, is_debug, leave, open_streams
from opplab.cli.group import Group
from opplab.files import Guard
from opplab.trace.damage import collected, report

# Name -> (module that defines it as `command`, one line for --help).
COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("opplab.cli.run", "Run an experiment, or a workload on a machine under a policy."),
    "status": ("opplab.cli.status", "Show the progress and the failures of a sweep."),
    "list": ("opplab.cli.list", "List machines, experiments, policy keys, metrics and other names."),
    "experiment": ("opplab.cli.experiment", "Show or create an experiment."),
    "workload": ("opplab.cli.workload", "Show or create an rt-app workload file."),
    "machine": ("opplab.cli.machine", "Show, import, export and check machines."),
    "kernels": ("opplab.cli.kernels", "Compare two kernels: differing gates and their effect in a run."),
    "fmax": ("opplab.cli.fmax", "Show every candidate for f_max, and each kernel's choice."),
    "fit": ("opplab.cli.fit", "Fit a machine's power to measurements."),
    "calibrate": (
        "opplab.cli.calibrate",
        "Fit a benchmark model's constants to a baseline.",
    ),
    "learn": ("opplab.cli.learn", "Learn a benchmark model from a recording."),
    "choose": ("opplab.cli.choose", "Recommend a setting for a workload, with its probability of being the best."),
    "fleet": ("opplab.cli.fleet", "Recommend a setting for each machine type of a fleet."),
    "predict": ("opplab.cli.predict", "Predict results before they are measured, and seal the prediction."),
    "score": ("opplab.cli.score", "Score sealed predictions against measurements."),
    "explain": ("opplab.cli.explain", "Explain the frequency, the placement or the slowness of a run or trace."),
    "compare": ("opplab.cli.compare", "Compare results: mmtests trees, results folders, published tables."),
    "meter": ("opplab.cli.meter", "Show a run as a meter sees it: rails, RAPL, turbostat, a battery gauge."),
    "trace": ("opplab.cli.trace", "Inspect recorded traces: events, signals, energy, SQL, views, other formats."),
    "replay": ("opplab.cli.replay", "Replay a trace under another policy."),
    "host": ("opplab.cli.host", "Work on a live Linux: show, observe, govern, compare, record."),
    "verify": ("opplab.cli.verify", "Verify the build against real kernels and published results."),
}


class ReaderGoneError(Exception):
    """The reader of standard output went away; click would take a `BrokenPipeError` for a failure."""


class LazyGroup(Group):
    """A group whose sub-commands are imported when they are called."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and write all of its output; an answer from a damaged trace ends with 1."""
        with collected() as noted:
            try:
                found = super().invoke(ctx)
                sys.stdout.flush()
            except BrokenPipeError:
                raise ReaderGoneError from None
            finally:
                for line in report(noted):
                    click.echo(f"opplab: {line}", err=True)
            if noted.damage and not ctx.meta.get(DAMAGED_OK):
                raise click.exceptions.Exit(1)
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of a sub-command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


def _show_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(f"opplab {import_module('opplab._opplab').__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--version", is_flag=True, expose_value=False, is_eager=True, callback=_show_version, help="Print the version."
)
def opplab() -> None:
    """Predict what a cpufreq policy, a kernel or a scheduler patch costs in energy, throughput and latency."""


def main(args: list[str] | None = None) -> Any:
    """Run the command line; user mistakes end with one line and exit code 2.

    ``OPPLAB_DEBUG=1`` in the environment shows tracebacks instead.
    """
    open_streams()
    with contextlib.redirect_stdout(Guard(sys.stdout)), contextlib.redirect_stderr(Guard(sys.stderr)):
        leave(_main(args))


def _main(args: list[str] | None) -> int:
    try:
        check_limits()
        code = opplab.main(args=args, prog_name="opplab", standalone_mode=False)
        sys.stdout.flush()
    except SystemExit as ended:
        # Of `opplab host`, which has its own exit codes.
        return ended.code if isinstance(ended.code, int) else 0
    except click.exceptions.Abort:
        click.echo("opplab: interrupted", err=True)
        return 130
    except click.UsageError as error:
        where = f"{error.ctx.command_path}" if error.ctx else "opplab"
        click.echo(f"{where}: {error.format_message()} (try '{where} --help')", err=True)
        return 2
    except click.ClickException as error:
        click.echo(f"opplab: {error.format_message()}", err=True)
        return 2
    except ReaderGoneError:
        return READER_GONE
    except BaseException as error:
        if is_debug() and not isinstance(error, BrokenPipeError):
            raise
        return code_of(error)
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    main()
