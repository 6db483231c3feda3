"""`opplab list`: what there is to choose from."""

from __future__ import annotations

from typing import Any

import click

from opplab import _opplab, catalog
from opplab.cli.output import format_option, print_table

KINDS = ("machines", "governors", "benchmarks", "experiments", "idle-governors", "kernels", "events", "decisions")


def _machines() -> list[dict[str, Any]]:
    rows = []
    for name in catalog.names("machine"):
        path = catalog.find("machine", name)
        machine = _opplab.Machine.parse(str(path), catalog.read_text(path, "a machine file"))
        clusters = machine.describe()["clusters"]
        rows.append(
            {
                "machine": name,
                "cpus": machine.nr_cpus,
                "clusters": " + ".join(f"{cluster['nr_cpus']} {cluster['name']}" for cluster in clusters),
                "drivers": " ".join(machine.drivers),
            }
        )
    return rows


def rows_of(kind: str) -> list[dict[str, Any]]:
    """Give what `opplab list KIND` prints."""
    if kind == "machines":
        return _machines()
    if kind == "experiments":
        from opplab.sweep.experiments import summaries

        return summaries()
    found = _opplab.names(kind)
    if not any(text for _, text in found):
        return [{"name": name} for name, _ in found]
    return [{"name": name, "description": text} for name, text in found]


@click.command(name="list")
@click.argument("kind", type=click.Choice(KINDS))
@format_option
def command(kind: str, output_format: str) -> None:
    """List what there is to choose from."""
    print_table(rows_of(kind), output_format)
