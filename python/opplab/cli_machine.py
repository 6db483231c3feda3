"""`opplab machine`: look at machines."""

from __future__ import annotations

import json
from typing import Any

import click

from opplab import _opplab, catalog
from opplab.output import print_table


@click.group(name="machine")
def command() -> None:
    """Look at machines."""


def _us(ns: int) -> str:
    return f"{ns / 1000:g}"


def _text(facts: dict[str, Any]) -> str:
    lines = [
        f"{facts['name']}: {facts['nr_cpus']} CPUs, invariance by {facts['invariance']}",
        f"  {facts['provenance']}",
    ]
    for driver in facts["drivers"]:
        switch = "fast switch" if driver["fast_switch"] else "slow switch (kthread)"
        table = "frequency table" if driver["freq_table"] else "no frequency table"
        lines.append(
            f"driver {driver['driver']}: {switch}, {table}, transition latency "
            f"{_us(driver['transition_latency_ns'])} us, switch {_us(driver['switch_ns'])} us"
        )
    for cluster in facts["clusters"]:
        lines.append(
            f"cluster {cluster['name']}: CPUs {cluster['cpus']}, capacity {cluster['capacity']}, "
            f"policy {cluster['policy']}, efficiency class {cluster['efficiency_class']}"
        )
        lines.append("  opp       MHz    mV   model mW    busy mW  cluster mW")
        lines += [
            f"  {number:>3} {opp['khz'] / 1000:>9g} {opp['mv']:>5} {opp['power_uw'] / 1000:>10.1f} "
            f"{opp['busy_uw'] / 1000:>10.1f} {opp['cluster_uw'] / 1000:>11.1f}"
            for number, opp in enumerate(cluster["opps"])
        ]
        for title, states in (("idle", cluster["idle"]), ("cluster idle", cluster["cluster_idle"])):
            lines += [
                f"  {title} {state['name']}: entry {_us(state['entry_latency_ns'])} us, exit "
                f"{_us(state['exit_latency_ns'])} us, residency {_us(state['target_residency_ns'])} us, "
                f"{state['power_uw'] / 1000:g} mW"
                for state in states
            ]
    return "\n".join(lines) + "\n"


@command.command(name="show")
@click.argument("name")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["text", "toml", "json", "csv", "markdown"]),
    default="text",
    show_default=True,
    help="Form of the output; csv and markdown give the table of OPPs.",
)
def show(name: str, output_format: str) -> None:
    """Show a machine: NAME is built in (`opplab list machines`) or a .toml file."""
    path = catalog.find("machine", name)
    machine = _opplab.Machine.parse(str(path), catalog.read_text(path, "a machine file"))
    facts = machine.describe()
    if output_format == "toml":
        click.echo(machine.to_toml(), nl=False)
    elif output_format == "json":
        click.echo(json.dumps(facts, indent=2))
    elif output_format == "text":
        click.echo(_text(facts), nl=False)
    else:
        opps = [{"cluster": cluster["name"], **opp} for cluster in facts["clusters"] for opp in cluster["opps"]]
        print_table(opps, output_format)
