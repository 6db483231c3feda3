"""`opplab fit`: parameters of machines from measurements."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from opplab import _opplab, catalog
from opplab.cli.group import Group
from opplab.cli.options import interval_option, output_format_option, points_option
from opplab.errors import InputError
from opplab.files import read_text, write_text


@click.group(name="fit", cls=Group)
def command() -> None:
    """Fit parameters of a machine to measurements."""


def _text(report: dict[str, Any]) -> str:
    lines = []
    for part in report["sets"]:
        lines.append(f"{part['set']}: {len(part['points_khz'])} points; shape from {part['prior']}")
        lines += [
            f"  {p['name']:<11}{p['value']:>10.4g}  [{p['low']:.4g} .. {p['high']:.4g}] {p['unit']}"
            for p in part["parameters"]
        ]
        # As in the table of checked points: fitted over measured less 1.
        off = [(1 / (1 + residual["relative"]) - 1, residual["khz"]) for residual in part["residuals"]]
        worst, khz = max(off, key=lambda point: abs(point[0]))
        lines.append(f"  the fit is off by {100 * worst:+.1f} % at most, at {khz / 1000:g} MHz")
        if part["clocks_off"]:
            lines.append(f"  {part['clocks_off']} points predicted at the clock that the work saw, not cpufreq's")
        if part["checked"]:
            lines.append("       MHz  measured mW  predicted mW            interval   off %    line mW")
            lines += [
                f"  {row['khz'] / 1000:>8g}  {row['measured_mw']:>11.1f}  {row['predicted_mw']:>12.1f}  "
                f"{row['low_mw']:>8.1f} .. {row['high_mw']:<8.1f}{100 * row['error']:>7.1f}  {row['rival_mw']:>9.1f}"
                for row in part["checked"]
            ]
    overall = report["overall"]
    if overall["predictions"]:
        lines.append(
            f"{overall['predictions']} points that the fits did not use: median error "
            f"{100 * overall['median_abs_error']:.1f} %, 90th percentile {100 * overall['p90_abs_error']:.1f} %; "
            f"straight line {100 * overall['rival_median_abs_error']:.1f} %; "
            f"{100 * overall['in_interval']:.0f} % in their intervals of 95 %"
        )
    lines += [f"not in the source: {what}" for what in report["cannot_tell"]]
    return "\n".join(lines) + "\n"


def _fit_machine(
    name: str,
    sources: tuple[Path, ...],
    output: Path | None,
    check: Path | None,
    chosen: dict[str, Any],
    output_format: str,
    everything: bool,
) -> None:
    """Put the power of sources into a machine; with `check`, compare it with that table instead of printing it."""
    from opplab.cli.machine import powered
    from opplab.fit import machine_check
    from opplab.fit.opp_power import Fitted

    path = catalog.find("machine", name)
    text = read_text(path, "a machine file")
    # Refused with its line, before parts of it are taken.
    _opplab.Machine.parse(str(path), text)
    lines: list[str] = []
    fits: list[Fitted] = []
    if sources:
        text, lines, fits = powered(text, *map(str, sources), **chosen)
    if output is not None:
        if sources and output.resolve() != path.resolve():
            text = _opplab.Machine.parse(str(output), text).renamed(output.stem).to_toml()
        write_text(output, text)
    elif check is None:
        click.echo(text, nl=False)
    click.echo("\n".join(lines), err=True, nl=bool(lines))
    if check is not None:
        report = machine_check.check(text, check, fits, chosen["soc"])
        sys.stdout.write(
            json.dumps(report, indent=2) + "\n" if output_format == "json" else _checked(report, everything)
        )


_ROWS = 20
"""Rows of a checked table that are printed without --all."""


def _checked(report: dict[str, Any], everything: bool) -> str:
    lines = [
        f"{report['inside']} of {report['points']} points inside; median error "
        f"{100 * report['median_abs_error']:.1f} %, 90th percentile {100 * report['p90_abs_error']:.1f} %"
    ]
    if report["fitted"]:
        lines.append("the power is fitted to points of this table: those are no further points")
    lines += [f"left out: {what}" for what in report["left_out"]]
    lines.append(f"watts of {report['machine']} beside {report['table']}; interval of {report['interval_of']}")
    lines.append("cluster             MHz  measured mW  predicted mW            interval   off %  inside")
    rows = report["rows"] if everything else report["rows"][:_ROWS]
    lines += [
        f"{row['cluster']:<12.12} {row['khz'] / 1000:>10g}  {row['measured_mw']:>11.1f}  {row['predicted_mw']:>12.1f}  "
        f"{row['low_mw']:>8.1f} .. {row['high_mw']:<8.1f}{100 * row['error']:>7.1f}  {'yes' if row['inside'] else 'no'}"
        for row in rows
    ]
    if len(rows) < report["points"]:
        lines.append(f"{report['points'] - len(rows)} rows more: --all")
    return "\n".join(lines) + "\n"


@command.command(name="power")
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Machine file to write, with MACHINE."
)
@points_option
@interval_option
@click.option("--check", type=click.Path(path_type=Path), help="Table whose unused points are predicted.")
@click.option("--leave-one-out", is_flag=True, help="Predict each point by a fit to the others.")
@click.option("--soc", help="Chip of the table (default: all).")
@click.option("--cpu", type=click.IntRange(0, 1 << 20), help="CPU of the table (default: all).")
@click.option("--all", "everything", is_flag=True, help="Print every row of --check with MACHINE.")
@output_format_option(only=("text", "json"))
def power(
    sources: tuple[Path, ...],
    output: Path | None,
    points: str,
    interval: str,
    check: Path | None,
    leave_one_out: bool,
    soc: str | None,
    cpu: int | None,
    everything: bool,
    output_format: str,
) -> None:
    """Fit the power of a core by clock to measured points; three points are enough.

    SOURCES are tables of power by operating point, in the columns of freqbench's digest: soc, cpu, khz,
    busy_mean_mw. The columns run and coremark_iter_per_s are optional. The curve is a constant plus a multiple of f
    V^2; the voltage is flat up to a knee. Its shape comes from other chips.

    The output has parameters and residuals. With --check, --leave-one-out or unused points it also has the error of
    the predictions, beside that of a straight line between the lowest and the highest point.

    A machine (built in, or a .toml) may stand before SOURCES. They may then be turbostat logs, tables of watts by busy
    cores, or samples of rails or RAPL with clock and load. The machine with fitted power goes to -o, named after
    that file, or to standard output. With --check the machine's watts are compared with those of a table or log;
    SOURCES may be the machine alone.
    """
    from opplab.fit import freqbench, opp_power

    is_machine = sources[0].suffix == ".toml" or str(sources[0]) in catalog.names("machine")
    if is_machine and (len(sources) > 1 or check is not None):
        if leave_one_out or cpu is not None:
            raise click.UsageError("--leave-one-out and --cpu are for fits without MACHINE")
        if output_format != "text" and check is None:
            raise click.UsageError("--format is for fits without MACHINE, and for --check")
        chosen = {"soc": soc, "points": points, "of": interval}
        _fit_machine(str(sources[0]), sources[1:], output, check, chosen, output_format, everything)
        return
    if output is not None:
        raise click.UsageError("-o is for fits with MACHINE")
    if leave_one_out and (check is not None or points != "all"):
        raise click.UsageError("--leave-one-out takes all points: leave out --points and --check")
    files = ", ".join(map(str, sources))
    every = [point for source in sources for point in freqbench.read_points(source, measured=False)]
    measured, left_out = freqbench.powered(every, files)
    curves = freqbench.choose(measured, soc, cpu, files)
    if leave_one_out:
        fits = opp_power.leave_one_out(curves, interval)
        if not fits:
            raise InputError("no curve has the three points that leaving one out needs")
    else:
        rest = None if check is None else freqbench.choose(freqbench.read_points(check), soc, cpu, check)
        fits = opp_power.check(curves, points, rest, interval)
    report = opp_power.report(fits, left_out)
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if output_format == "json" else _text(report))
