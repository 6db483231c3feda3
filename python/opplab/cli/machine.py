"""`opplab machine`: look at machines, import them, check them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from opplab import _opplab, catalog
from opplab.cli.group import Group
from opplab.cli.options import BuiltIn, output_format_option, report_option
from opplab.files import toml_of, write_text
from opplab.report.ktap import Test, ktap
from opplab.report.text import print_table, say


@click.group(name="machine", cls=Group)
def command() -> None:
    """Look at machines, import them from dumps, check them."""


def _us(ns: int) -> str:
    return f"{ns / 1000:g}"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _mw(uw: int | None) -> str:
    return "unknown" if uw is None else f"{uw / 1000:.1f}"


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
        lines.append("  opp       MHz      mV   model mW    busy mW  cluster mW")
        lines += [
            f"  {number:>3} {opp['khz'] / 1000:>9g} {_number(opp['mv']):>7} {_mw(opp['power_uw']):>10} "
            f"{_mw(opp['busy_uw']):>10} {_mw(opp['cluster_uw']):>11}"
            for number, opp in enumerate(cluster["opps"])
        ]
        for title, states in (("idle", cluster["idle"]), ("cluster idle", cluster["cluster_idle"])):
            lines += [
                f"  {title} {state['name']}: entry {_us(state['entry_latency_ns'])} us, exit "
                f"{_us(state['exit_latency_ns'])} us, residency {_us(state['target_residency_ns'])} us, "
                f"power {_mw(state['power_uw'])}{' mW' if state['power_uw'] is not None else ''}"
                for state in states
            ]
    lines += ["sources:", *(f"  {what}: {source}" for what, source in facts["sources"].items())]
    if facts.get("ranges"):
        lines.append("ranges of assumed numbers:")
        lines += [f"  {what}: {low} .. {high}" for what, (low, high) in facts["ranges"].items()]
    return "\n".join(lines) + "\n"


@command.command(name="show")
@click.argument("name", type=BuiltIn("machine"))
@output_format_option("toml", what="Form of the output; csv and markdown give the table of OPPs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write a page with its topology there.")
def show(name: str, output_format: str, html: Path | None) -> None:
    """Show a machine: NAME is built in (`opplab list machines`) or a .toml file."""
    path = catalog.find("machine", name)
    machine = _opplab.Machine.parse(str(path), catalog.read_text(path, "a machine file"))
    facts = machine.describe()
    if html is not None:
        from opplab.report.topology import page

        write_text(html, page(facts))
        click.echo(f"wrote {html}", err=True)
        return
    if output_format == "toml":
        click.echo(machine.to_toml(), nl=False)
    elif output_format == "json":
        click.echo(json.dumps(facts, indent=2))
    elif output_format == "text":
        from opplab.simulation.machine_marks import unmarked

        text = _text(facts)
        bare = unmarked(machine.to_toml())
        say((text + (f"without a source: {', '.join(bare)}\n" if bare else "")).rstrip())
    else:
        opps = [{"cluster": cluster["name"], **opp} for cluster in facts["clusters"] for opp in cluster["opps"]]
        print_table(opps, output_format)


@command.command(name="export")
@click.argument("source", type=BuiltIn("machine"))
@click.option(
    "--format",
    "form",
    type=click.Choice(["dts", "debugfs", "wattson"]),
    default="dts",
    show_default=True,
    help="Device tree, debugfs's energy model, or Perfetto Wattson's power curves.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; of debugfs a folder.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def export(source: str, form: str, output: Path | None, force: bool) -> None:
    """Write what a kernel is given of a machine: capacities, operating points, powers.

    SOURCE is a machine, built in or a .toml file.  The device tree has capacity-dmips-mhz,
    dynamic-power-coefficient and opp-microwatt; its comments have ranges, points that the kernel would call
    inefficient, and what is not known.
    """
    from opplab.simulation import machine_export

    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    path = catalog.find("machine", source)
    machine = _opplab.Machine.parse(str(path), catalog.read_text(path, "a machine file"))
    text = machine_export.export(machine.describe(), form)
    if output is None:
        click.echo(text, nl=False)
    elif form == "debugfs":
        for line in text.splitlines():
            place, _, value = line.partition(":") if "/ps:" not in line else line.rpartition(":")
            file = output / place.removeprefix("energy_model/")
            file.parent.mkdir(parents=True, exist_ok=True)
            write_text(file, value + "\n")
    else:
        write_text(output, text)


def powered(text: str, *power: str) -> tuple[str, list[str]]:
    """Give a machine file with power from a file of measurements or the generic curve, and lines that say how."""
    from opplab.fit.energy_model import energy_model_notes
    from opplab.fit.machine_power import generic_power, with_power

    if power == ("generic",):
        text, words = generic_power(text)
        return text, [words, *energy_model_notes(toml_of(text, "the machine file"))]
    text, parameters, cannot = with_power(text, *map(Path, power))
    lines = [f"power {p.name}: {p.value:.4g} [{p.low:.4g} .. {p.high:.4g}] {p.unit}" for p in parameters]
    lines += [f"power, not told: {what}" for what in cannot]
    return text, [*lines, *energy_model_notes(toml_of(text, "the machine file"))]


@command.command(name="import")
@click.argument("source", type=click.Path(exists=True))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Machine file to write.")
@click.option("--name", help="Name of the machine; the default is the output's, or the source's own.")
@click.option("--power", help="What such a machine draws: a turbostat log, a table of power, or 'generic'.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def import_(source: str, output: Path | None, name: str | None, power: str | None, force: bool) -> None:
    """Make a machine file of what a machine says.

    SOURCE is a machine dump (.tar.xz), a copied /sys and /proc tree (or / for this host), a sysfs snapshot, a
    turbostat log, an energy_model debugfs folder or the text that `grep -r ^` prints of it, a device tree (.dtb, or
    .dts that needs no preprocessor), LISA's plat_info.yml, or a folder of Wattson power curves.  --power fits what
    busy cores and the package draw to measurements (see 'opplab fit power').
    Without -o the file goes to standard output; what was told, left out and filled goes to standard error.
    """
    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    machine, told = _opplab.import_machine(source)
    facts = json.loads(told)
    wanted = name or (output.stem if output is not None else None)
    if wanted is not None and wanted != machine.name:
        machine = machine.renamed(wanted)
    text = machine.to_toml()
    if power is not None:
        text, told_power = powered(text, power)
        facts["missing"] = [what for what in facts["missing"] if not what.startswith("power of the CPUs")]
        facts["notes"] += told_power
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
    lines = [f"{machine.name}: {machine.nr_cpus} CPUs from a {facts['source']}"]
    lines += [f"  told     {what}: {place}" for what, place in facts["told"]]
    lines += [f"  default  {what}: {value}" for what, value in facts["defaults"]]
    lines += [f"  missing  {what}" for what in facts["missing"]]
    lines += [f"  note     {words}" for words in facts["notes"]]
    click.echo("\n".join(lines), err=True)


def _list_checks(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        for name, what in _opplab.machine_checks():
            say(f"{name:<18} {what}")
        ctx.exit()


def _findings(source: str) -> list[dict[str, Any]]:
    """Find what is wrong with a machine, a dump, or a dump of CPPC tables alone."""
    from opplab.cli.fmax import source_text
    from opplab.host import cppc

    tables = cppc.read_dump(Path(source)) if Path(source).exists() else None
    if tables is not None:
        return [dict(item) for item in cppc.findings(tables)]
    path, text = source_text(source)
    found: list[dict[str, Any]] = json.loads(_opplab.check_machine(path, text))
    if text is not None:
        from opplab.simulation.machine_marks import worst_case_latencies

        found += worst_case_latencies(text)
    return found


def _tests(found: list[dict[str, Any]]) -> list[Test]:
    """Give a test for each check; what is no error is a remark."""
    names = dict.fromkeys([*(name for name, _ in _opplab.machine_checks()), *(item["check"] for item in found)])
    tests = []
    for name in names:
        own = [item for item in found if item["check"] == name]
        remarks = tuple(f"{item['severity']}: {item['what']}; remedy: {item['remedy']}" for item in own)
        tests.append(Test(name, all(item["severity"] != "error" for item in own), remarks=remarks))
    return tests


@command.command(name="check")
@click.argument("source", type=BuiltIn("machine"))
@report_option
@click.option("--list", is_flag=True, is_eager=True, expose_value=False, callback=_list_checks, help="List the checks.")
def check(source: str, output_format: str) -> None:
    """Look for contradictions and known traps: each finding says what it costs and what to do.

    SOURCE is a machine (built in, or a .toml), anything that `opplab machine import` reads, or a dump of CPPC tables
    (`grep . /sys/devices/system/cpu/cpu*/acpi_cppc/*`).  Exit code 1 if a finding
    is an error.
    """
    found = _findings(source)
    if output_format == "ktap":
        click.echo(ktap(_tests(found)))
    elif output_format != "text":
        print_table(found, output_format)
    elif not found:
        click.echo("nothing found")
    else:
        for item in found:
            say(f"{item['severity']:<8} {item['check']}: {item['what']}")
            say(f"         cost:   {item['cost']}")
            say(f"         remedy: {item['remedy']}")
    if any(item["severity"] == "error" for item in found):
        sys.exit(1)
