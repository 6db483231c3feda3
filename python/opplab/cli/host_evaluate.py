"""`opplab host affinity --evaluate`: what each place of the ``sugov`` kthreads would cost, by the machine's twin.

The twin is simulated once a mask, with the same workload and seed; nothing is changed on the host.  What the twin does
not know (power of a machine without a meter) is left out, with a note.
"""

from __future__ import annotations

from typing import Any

import click

from opplab import _opplab
from opplab.cli.options import format_option
from opplab.cpulist import cpus_in, listed
from opplab.errors import InputError
from opplab.kernel import KernelProfile
from opplab.report.text import print_table
from opplab.simulation.machine import Machine
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

# Frequency requests as often as the rate limit lets through, as text 004 makes them with fio: short work on one CPU of
# the last cluster, and phases that want different clocks.
LOAD = """{{"global": {{"calibration": 100}}, "tasks": {{"wakes": {{"cpus": [{cpu}], "loop": -1,
  "phases": {{
    "calm": {{"loop": 60, "run": 100, "timer": {{"ref": "a", "period": 1000}}}},
    "busy": {{"loop": 60, "run": 850, "timer": {{"ref": "a", "period": 1000}}}}
}}}}}}}}"""

# Masks are tried as on a kernel that lets the kthreads go.
FREE = {"sugov_affinity": "free"}


def _masks(given: tuple[str, ...], facts: dict[str, Any]) -> list[list[int]]:
    """Give the masks to try: those given, or each cluster, the first CPU of each, and all CPUs."""
    nr_cpus: int = facts["nr_cpus"]
    if given:
        masks = [sorted(set(cpus_in(text))) for text in given]
        for mask in masks:
            if max(mask) >= nr_cpus:
                raise InputError(f"--cpus: CPU {max(mask)} does not exist: {facts['name']} has {nr_cpus} CPUs")
        return masks
    clusters = [cpus_in(cluster["cpus"]) for cluster in facts["clusters"]]
    masks = [*clusters, *[[cluster[0]] for cluster in clusters], list(range(nr_cpus))]
    return [mask for index, mask in enumerate(masks) if mask not in masks[:index]]


@click.command()
@click.option("--root", default="/", help="The host: / or a copied tree, a snapshot, a dump.")
@click.option("--machine", help="A machine (built in, or a .toml) in place of the host.")
@click.option("--workload", type=click.Path(exists=True, dir_okay=False), help="An rt-app file; default: a load that "
              "changes its mind about the clock all the time, on the last cluster's last CPU.")  # fmt: skip
@click.option("--cpus", multiple=True, help="A mask to try, such as 0,3-5; several times. Default: each cluster, the "
              "first CPU of each, all CPUs.")  # fmt: skip
@click.option("--seconds", default=2.0, help="Simulated time.")
@click.option("--kernel", default="6.12.117", help="Kernel profile.")
@format_option
def evaluate(
    root: str,
    machine: str | None,
    workload: str | None,
    cpus: tuple[str, ...],
    seconds: float,
    kernel: str,
    output_format: str,
) -> None:
    """Predict what each affinity of the sugov kthreads costs: energy, frequency changes, missed activations."""
    if machine is not None:
        inner = Machine.load(machine)._inner
    else:
        inner, _ = _opplab.import_machine(root)
    facts = inner.describe()
    driver = facts["drivers"][0]
    if driver["fast_switch"]:
        raise InputError(
            f"{facts['name']}: {driver['driver']} switches fast, so there is no sugov kthread whose place could matter"
        )
    if workload is not None:
        load = Workload.load(workload)
    else:
        load = Workload.parse(LOAD.format(cpu=cpus_in(facts["clusters"][-1]["cpus"])[-1]), name="wakes")
    rows: list[dict[str, object]] = []
    for mask in _masks(cpus, facts):
        policy = Policy(kernel=kernel, gates=FREE, sugov_cpus=tuple(mask), variation="none")
        run = simulate(Machine(inner), load, policy, seconds=seconds)
        metrics = {row["metric"]: (row["value"], row["unit"]) for row in run.metrics.to_dicts()}
        rows.append({"cpus": listed(mask), **_row(metrics, [cluster["name"] for cluster in facts["clusters"]])})
    if ("sugov_affinity", "bound") in KernelProfile(kernel).gates():
        click.echo(f"note: kernel {kernel} binds these kthreads: the masks need the change of 6.14", err=True)
    if any(row["energy_j"] is None for row in rows):
        click.echo("note: this machine's power is not known: the twin predicts no energy", err=True)
    print_table(rows, "markdown" if output_format == "text" else output_format)


def _row(metrics: dict[str, tuple[float | None, str]], clusters: list[str]) -> dict[str, object]:
    def value(name: str) -> float | None:
        return metrics.get(name, (0.0, ""))[0]

    changes = sum(number or 0 for name, (number, _) in metrics.items() if name.startswith("freq_changes:"))
    return {
        "energy_j": value("energy"),
        **{f"energy_j:{name}": value(f"energy:{name}") for name in clusters},
        "freq_changes": changes,
        "switches": value("switches"),
        "activations": value("activations"),
        "missed": value("missed_activations"),
    }
