"""`opplab replay` and `opplab trace to-rtapp`: what a trace would have been under another policy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from opplab import _opplab, catalog
from opplab.cli.options import MACHINE_OF_TRACE, NameOf, format_option, machine_option, output_option
from opplab.report.text import print_table, render_table

TRACE = click.argument("trace", type=click.Path(exists=True, path_type=Path))
MACHINE = machine_option(MACHINE_OF_TRACE, default="auto", show_default=True, names=("auto",))


def _machine(name: str) -> _opplab.Machine | None:
    if name == "auto":
        return None
    path = catalog.find("machine", name)
    return _opplab.Machine.parse(str(path), catalog.read_text(path, "a machine"))


def _pairs(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = []
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{value}' is not NAME=VALUE")
        pairs.append((name, text))
    return pairs


def _percent(part: float, whole: float) -> str:
    return f"{100 * (part - whole) / whole:+.1f} %" if whole else "-"


def _rows(found: dict[str, Any]) -> list[dict[str, object]]:
    runs = {name: found[name] for name in ("recorded", "replayed", "changed") if found.get(name)}

    def row(what: str, unit: str, get: Any, digits: int = 1) -> dict[str, object]:
        values = {name: float(get(run)) for name, run in runs.items()}
        cells: dict[str, object] = {"metric": what, "unit": unit}
        cells.update({name: f"{value:.{digits}f}" for name, value in values.items()})
        cells["error"] = _percent(values["replayed"], values["recorded"])
        if "changed" in values:
            cells["change"] = _percent(values["changed"], values["replayed"])
        return cells

    rows = [row("energy", "mJ", lambda run: run["energy_uj"] / 1e3)]
    for number, policy in enumerate(found["recorded"]["policies"]):
        name = f"policy{policy['cpus'][0]}"
        rows.append(row(f"{name} mean frequency", "MHz", lambda run, n=number: run["policies"][n]["mean_khz"] / 1e3))
        rows.append(row(f"{name} busy", "ms", lambda run, n=number: sum(run["policies"][n]["busy_ns"]) / 1e6))
        rows.append(row(f"{name} changes", "", lambda run, n=number: run["policies"][n]["changes"], 0))
    rows += [
        row(f"wake-up latency p{percent}", "us", lambda run, p=percent: run[f"latency_ns_p{p}"] / 1e3)
        for percent in (50, 95, 99)
    ]
    if found["replayed"]["activations"]:
        rows.append(row("missed activations", "", lambda run: run["missed"], 0))
    return rows


def check_text(check: dict[str, Any]) -> str:
    """Say how far a replay under its own policy is from the trace."""
    residency = ", ".join(f"{distance / 1000:.1f}" for distance in check["freq_distance"])
    near = "near" if check["near"] else "NOT near"
    energy = f"energy within {check['energy_distance'] / 1000:.1f} %"
    return f"frequency residency within {residency} points, {energy} of the trace: {near}"


def _text(found: dict[str, Any]) -> str:
    check = found["self_check"]
    lines = [
        f"{found['machine']}, kernel {found['kernel']}, {found['governor']}; {found['tasks']} tasks, "
        f"{found['duration_ns'] / 1e9:.3f} s, {found['mode']} loop",
        render_table(_rows(found), "text").rstrip(),
        f"self-check: {check_text(check)} (5 points and 5 % are near)",
    ]
    if closed := found.get("closed_self_check"):
        lines.append(f"closed loop: {check_text(closed)}, so the open loop answers (--mode closed insists)")
    if found["mode"] == "closed":
        lines.append(
            f"single runs: within {check['freq_spread'] / 1000:.1f} points and "
            f"{check['energy_spread'] / 1000:.1f} % of their mean, which is what is shown"
        )
    if found["assumed_power"]:
        lines.append("power: not known; assumed 1 W at the highest frequency of the biggest CPU, by its cube")
    return "\n".join(lines + [f"note: {note}" for note in found["notes"]]) + "\n"


@click.command(name="replay")
@TRACE
@MACHINE
@click.option("--governor", type=NameOf("governors"), help="cpufreq governor.")
@click.option("--f-max", "freq_max", help="f_max of frequency invariance on x86: max_P, mid, max_boost, ...")
@click.option("--energy-model", type=click.Choice(["artificial", "registered", "none"]), help="Energy model.")
@click.option("--kernel", type=NameOf("kernels"), help="Kernel profile.")
@click.option("--tunable", "tunables", multiple=True, callback=_pairs, metavar="NAME=VALUE", help="Governor tunable.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "open", "closed"]),
    default="auto",
    show_default=True,
    help="open: same timings, other frequencies; closed: the work takes the time that it takes; "
    "auto: closed if that comes near the trace under its own policy, else the nearer of both.",
)
@format_option
def command(
    trace: Path,
    machine: str,
    governor: str | None,
    freq_max: str | None,
    energy_model: str | None,
    kernel: str | None,
    tunables: list[tuple[str, str]],
    mode: str,
    output_format: str,
) -> None:
    """Replay TRACE (a file, a recording's folder or archive) under another policy and compare.

    The columns: `recorded` is the trace, `replayed` its own policy again (the self-check: `error` is the error bar),
    `changed` the wanted policy (`change` is against `replayed`).
    Without any change it is the self-check alone.
    """
    text = _opplab.replay_trace(str(trace), _machine(machine), mode, governor, freq_max, energy_model, kernel, tunables)
    if output_format == "json":
        sys.stdout.write(text + "\n")
    elif output_format == "text":
        sys.stdout.write(_text(json.loads(text)))
    else:
        print_table(_rows(json.loads(text)), output_format)


@click.command(name="to-rtapp")
@TRACE
@MACHINE
@output_option("Write to this file (standard output).")
@click.option("--task", "tasks", multiple=True, metavar="NAME", help="Only this task; repeat for more.")
@click.option(
    "--tolerance",
    type=click.IntRange(0, 1000),
    default=50,
    show_default=True,
    metavar="PERMILLE",
    help="How much activations in a row may differ to become a loop.",
)
def to_rtapp(trace: Path, machine: str, output: Path | None, tasks: tuple[str, ...], tolerance: int) -> None:
    """Write the recorded workload of TRACE as an rt-app file, for use on a device or with `opplab run`."""
    text = _opplab.trace_to_rtapp(str(trace), _machine(machine), list(tasks) or None, tolerance)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text)
