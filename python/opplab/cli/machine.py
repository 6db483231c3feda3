"""`opplab machine`: look at machines, import them, check them."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from opplab import _opplab
from opplab.cli.group import Group
from opplab.cli.options import BuiltIn, interval_option, output_format_option, points_option, report_option
from opplab.files import toml_of, write_text
from opplab.report.ktap import Test, ktap
from opplab.report.numbers import several
from opplab.report.text import print_table, say
from opplab.simulation.machine import Machine
from opplab.simulation.ranges import ends_in_words

if TYPE_CHECKING:
    from opplab.fit.opp_power import Fitted


@click.group(name="machine", cls=Group)
def command() -> None:
    """Show, import, export and check machines."""


def _us(ns: int) -> str:
    return f"{ns / 1000:g}"


def _number(value: int | None) -> str:
    return "unknown" if value is None else str(value)


def _mw(uw: int | None) -> str:
    return "unknown" if uw is None else f"{uw / 1000:.1f}"


IDLE_BY_CLOCK = {"idle_uw": "idle mW", "cluster_idle_uw": "all idle mW"}
"""What idle CPUs, and their cluster, draw, where the machine file has other numbers of it than the states'."""


def _idle_uw(cluster: dict[str, Any], opp: dict[str, Any], key: str) -> int | None:
    """Give the idle power that acts at an operating point: that of any clock, where the file has none of the point."""
    if opp[key] is not None:
        return int(opp[key])
    if key == "idle_uw":
        return cluster["idle"][0]["power_uw"] if cluster["idle"] else None
    return opp["cluster_uw"] if cluster[key] is None else int(cluster[key])


def _text(facts: dict[str, Any]) -> str:
    lines = [
        f"{facts['name']}: {several(facts['nr_cpus'], 'CPU')}, invariance by {facts['invariance']}",
        f"  {facts['provenance']}",
    ]
    for driver in facts["drivers"]:
        switch = "fast switch" if driver["fast_switch"] else "slow switch (kthread)"
        table = "frequency table" if driver["freq_table"] else "no frequency table"
        latency_ns = driver["transition_latency_ns"]
        latency = "unknown" if latency_ns is None else f"{_us(latency_ns)} us"
        lines.append(
            f"driver {driver['driver']}: {switch}, {table}, transition latency {latency}, "
            f"switch {_us(driver['switch_ns'])} us"
        )
    for cluster in facts["clusters"]:
        lines.append(
            f"cluster {cluster['name']}: CPUs {cluster['cpus']}, capacity {cluster['capacity']}, "
            f"policy {cluster['policy']}, efficiency class {cluster['efficiency_class']}"
        )
        by_clock = [
            key
            for key in IDLE_BY_CLOCK
            if cluster.get(key) is not None or any(opp[key] is not None for opp in cluster["opps"])
        ]
        heads = "".join(f"  {IDLE_BY_CLOCK[key]}" for key in by_clock)
        lines.append(f"  opp       MHz      mV   model mW    busy mW  cluster mW{heads}")
        lines += [
            f"  {number:>3} {opp['khz'] / 1000:>9g} {_number(opp['mv']):>7} {_mw(opp['power_uw']):>10} "
            f"{_mw(opp['busy_uw']):>10} {_mw(opp['cluster_uw']):>11}"
            + "".join(f"  {_mw(_idle_uw(cluster, opp, key)):>{len(IDLE_BY_CLOCK[key])}}" for key in by_clock)
            for number, opp in enumerate(cluster["opps"])
        ]
        if all(opp["busy_uw"] is not None and opp["busy_uw"] == opp["power_uw"] for opp in cluster["opps"]):
            lines.append("  model mW: the file has one power of these points, for the energy model and for a busy CPU")
        if "idle_uw" in by_clock:
            first = cluster["idle"][0]["name"] if cluster["idle"] else "the first idle state"
            lines.append(f"  idle mW: of a CPU in {first} at this clock, in place of the state's own power")
        if "cluster_idle_uw" in by_clock:
            lines.append(
                "  all idle mW: of the cluster while all its CPUs are in idle states and it does not sleep; "
                "cluster mW: while one is awake"
            )
        for title, states in (("idle", cluster["idle"]), ("cluster idle", cluster["cluster_idle"])):
            lines += [
                f"  {title} {state['name']}: entry {_us(state['entry_latency_ns'])} us, exit "
                f"{_us(state['exit_latency_ns'])} us{_wake_up(state)}, "
                f"residency {_us(state['target_residency_ns'])} us, "
                f"power {_mw(state['power_uw'])}{' mW' if state['power_uw'] is not None else ''}"
                for state in states
            ]
    if any(_wake_up(state) for cluster in facts["clusters"] for state in cluster["idle"]):
        source = next((key for key in facts["sources"] if key.endswith("idle.wake")), "cluster.idle")
        lines.append(
            f"exit: what the kernel's tables have, for idle governors; runs wake up in the other time ({source})"
        )
    lines += ["sources:", *(f"  {what}: {source}" for what, source in facts["sources"].items())]
    if facts.get("ranges"):
        lines.append("ranges of assumed numbers:")
        lines += [f"  {what}: {ends_in_words(ends)}" for what, ends in facts["ranges"].items()]
    return "\n".join(lines) + "\n"


def _wake_up(state: Mapping[str, Any]) -> str:
    """Give the time that runs take to leave an idle state, where the kernel's table has another."""
    taken_ns = state.get("wake_ns", state["exit_latency_ns"])
    return "" if taken_ns == state["exit_latency_ns"] else f" (in runs {_us(taken_ns)} us)"


@command.command(name="show")
@click.argument("name", type=BuiltIn("machine"))
@output_format_option("toml", what="Output format; csv and markdown give the table of OPPs.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="File for a page with the topology.")
def show(name: str, output_format: str, html: Path | None) -> None:
    """Show machine NAME, built in (`opplab list machines`) or a .toml file."""
    machine = Machine.load(name)
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
    help="Output: device tree, energy model of debugfs, or power curves of Perfetto's Wattson.",
)
@click.option("--before", type=BuiltIn("machine"), help="Machine whose energy model is compared, in the device tree.")
@click.option(
    "--measured", is_flag=True, help="Write what a busy CPU draws, instead of the energy model that the machine has."
)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="File to write; of debugfs a folder.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def export(source: str, form: str, before: str | None, measured: bool, output: Path | None, force: bool) -> None:
    """Write a machine's capacities, operating points and powers in the form that a kernel takes.

    SOURCE is a machine, built in or a .toml file. The device tree has capacity-dmips-mhz, dynamic-power-coefficient
    and opp-microwatt. Its comments list ranges with their numbers, operating points that the kernel would call
    inefficient, unknown numbers, and the measurement that would help most. They also list EAS's placement of a lone
    task by its utilisation, with this model and with that of --before (default: without one; of --measured, the
    machine's own).
    """
    from opplab.fit import machine_export

    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    if before is not None and form != "dts":
        raise click.UsageError("--before is for --format dts")
    facts = Machine.load(source).describe()
    old = None if before is None else Machine.load(before).describe()
    if measured:
        has_model = any(opp["power_uw"] for cluster in facts["clusters"] for opp in cluster["opps"])
        old = facts if old is None and has_model else old
        facts = machine_export.measured(facts)
    text = machine_export.export(facts, form, old)
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


def powered(
    text: str, *power: str, soc: str | None = None, points: str = "all", of: str = "meter"
) -> tuple[str, list[str], list[Fitted]]:
    """Give a machine file with power of measurements or the generic curve, lines about it, and the fitted curves."""
    from opplab.fit.energy_model import energy_model_notes
    from opplab.fit.machine_power import NEXT_MARK, about_power, generic_power, with_power

    if power == ("generic",):
        text, words = generic_power(text)
        return text, [words, *energy_model_notes(toml_of(text, "the machine file"))], []
    text, parameters, cannot, fits = with_power(text, *map(Path, power), soc=soc, points=points, of=of)
    lines = [f"power {p.name}: {p.words}" for p in parameters]
    lines += about_power(cannot)
    tree = toml_of(text, "the machine file")
    if fits and (best := tree.get("source", {}).get(NEXT_MARK)):
        lines.append(f"most helpful measurement: {best}")
    return text, [*lines, *energy_model_notes(tree)], fits


def _of_points(
    paths: tuple[Path, ...], soc: str | None, clusters: str | None, name: str | None
) -> tuple[str, dict[str, Any]]:
    """Give a machine file without power from tables of operating points, what was read and what is missing."""
    from opplab.fit.machine_power import to_machine_text
    from opplab.fit.opp_machine import layout, machine_of_points

    tree, missing = machine_of_points(paths, soc, layout(clusters) if clusters else None, name)
    assumed = [(what, words) for what, words in tree["source"].items() if words.startswith("[A]")]
    told = [(what, words) for what, words in tree["source"].items() if words[:3] in ("[S]", "[D]")]
    facts = {"source": "table of operating points", "told": told, "defaults": assumed, "missing": missing, "notes": []}
    return to_machine_text(tree), facts


def imported(
    source: Path, name: str | None, tables: tuple[Path, ...] = (), soc: str | None = None
) -> tuple[str, dict[str, Any]]:
    """Give the machine file of a source, and what was read, left out and filled; tables have clocks that it lacks."""
    points = None
    if tables:
        from opplab.fit.opp_machine import read_chip

        of_cpus = [(one.cpu, one.khz, round(1000 * (one.mv or 0))) for one in read_chip(tables, soc) if not one.rail]
        points = (", ".join(path.name for path in tables), of_cpus)
    machine, told = _opplab.import_machine(str(source), points)
    if name is not None and name != machine.name:
        machine = machine.renamed(name)
    return machine.to_toml(), json.loads(told)


def _of_source(source: Path, tables: tuple[Path, ...], soc: str | None, name: str | None) -> tuple[str, dict[str, Any]]:
    """Give the machine file of a source, with the capacities that tables of operating points have."""
    from opplab.fit.machine_power import to_machine_text
    from opplab.fit.opp_machine import with_capacity

    text, facts = imported(source, name, tables, soc)
    if tables:
        tree = toml_of(text, "the machine file")
        if (unlike := with_capacity(tree, tables, soc)) is not None:
            text = to_machine_text(tree)
            facts["notes"] = [note for note in facts["notes"] if not note.startswith("capacities are missing")]
            facts["notes"] += [unlike] if unlike else []
            for kind, what in (("told", "capacity"), ("defaults", "cluster.capacity")):
                facts[kind] = [one for one in facts[kind] if one[0] != what]
            facts["missing"] = [words for words in facts["missing"] if not words.startswith("capacity of")]
            facts["told"].append(("capacity", ", ".join(path.name for path in tables)))
    return text, facts


@command.command(name="import")
@click.argument("sources", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Machine file to write.")
@click.option("--name", help="Name of the machine; the default is the output's, or the source's own.")
@click.option("--power", help="Source of power: a turbostat log, a table of power, or 'generic'.")
@click.option("--soc", help="Chip to read from tables of operating points.")
@click.option("--clusters", help="Clusters and CPUs of tables of operating points, e.g. A55x4,A76x2,X1x2.")
@points_option
@interval_option
@click.option("--calibration", type=click.Path(path_type=Path), help="JSON of 'opplab host calibrate'.")
@click.option("--force", is_flag=True, help="Overwrite the output.")
def import_(
    sources: tuple[Path, ...],
    output: Path | None,
    name: str | None,
    power: str | None,
    soc: str | None,
    clusters: str | None,
    points: str,
    interval: str,
    calibration: Path | None,
    force: bool,
) -> None:
    """Make a machine file from a dump, a device tree, or measurements.

    The first of SOURCES is a machine dump (.tar.xz), a copied /sys and /proc tree (or / for this host), a sysfs
    snapshot or a turbostat log. It may also be a device tree (.dtb, or .dts that needs no preprocessor), LISA's
    plat_info.yml, or a folder of Wattson power curves. A debugfs folder energy_model may also be the output of
    `grep -r ^`. Further SOURCES are tables of operating points. Their CoreMark sets capacities, and their power is
    fitted as by 'opplab fit power'.

    Tables alone also make a machine: freqbench's CSV or JSON, or a log of rails (a column of MHz and one of W each).
    Rows without power are operating points too. Three measured points a cluster are enough.

    Without -o the file goes to standard output; sources, defaults and what is missing go to standard error.
    """
    from opplab.fit import freqbench

    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force overwrites it")
    wanted = name or (output.stem if output is not None else None)
    first = sources[0]
    if not first.is_dir() and first.name not in ("cpu_1d.csv", "cpu_2d.csv") and freqbench.is_points(first):
        tables = sources
        text, facts = _of_points(sources, soc, clusters, wanted)
    else:
        tables = sources[1:]
        if clusters is not None or (soc is not None and not tables):
            message = (
                "--clusters and --soc are for tables of operating points, with columns such as khz and busy_mean_mw"
            )
            raise click.UsageError(f"{first}: {message}")
        text, facts = _of_source(first, tables, soc, wanted)
    measured = tuple(str(path) for path in tables if any(p.busy_mw > 0 for p in freqbench.read_points(path, False)))
    if power is not None:
        measured = (*measured, power)
    if measured:
        text, lines, _ = powered(text, *measured, soc=soc, points=points, of=interval)
        facts["missing"] = [what for what in facts["missing"] if not what.startswith("power of the CPUs")]
        if bare := _opplab.Machine.parse("machine", text).unknown_power:
            facts["missing"].append(f"power of the CPUs of {', '.join(bare)} at each OPP")
        if "package_power" in toml_of(text, "the machine file"):
            facts["missing"] = [what for what in facts["missing"] if what != "package power limits (RAPL)"]
        facts["notes"] += lines
    if calibration is not None:
        from opplab.host.calibrated import calibrated

        text, measured_notes = calibrated(text, calibration)
        facts["notes"] += measured_notes
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text)
    machine = _opplab.Machine.parse("machine", text)
    lines = [f"{machine.name}: {several(machine.nr_cpus, 'CPU')} from a {facts['source']}"]
    lines += [f"  read     {what}: {place}" for what, place in facts["told"]]
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
    from opplab.simulation.machine_marks import unknown_turbo_finding, worst_case_latencies

    path, text = source_text(source)
    if text is None:
        inner, report = _opplab.import_machine(path)
        return [*json.loads(report)["findings"], *unknown_turbo_finding(Machine(inner).tree)]
    found: list[dict[str, Any]] = json.loads(_opplab.check_machine(path, text))
    return [*found, *unknown_turbo_finding(Machine.load(source).tree), *worst_case_latencies(text)]


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
    """Find contradictions and known traps of a machine, each with its cost and its remedy.

    SOURCE is a machine (built in, or a .toml), any source of `opplab machine import`, or a dump of CPPC tables
    (`grep . /sys/devices/system/cpu/cpu*/acpi_cppc/*`). Exit code 1: a finding is an error.
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
