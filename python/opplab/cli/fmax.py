"""`opplab fmax`: every candidate for f_max, and what each choice does."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import Any

import click

from opplab import _opplab, catalog
from opplab.cli.options import BuiltIn, format_option
from opplab.errors import OpplabError
from opplab.files import read_text
from opplab.report.text import flow, print_table, render_table, terminal_width
from opplab.simulation.machine import Machine
from opplab.sweep.drivers import ACTIVE, MODE_OF, MODES


def source_text(source: str) -> tuple[str, str | None]:
    """Give path and text: text of a machine file (built in or a .toml), none for a dump or another source."""
    if Path(source).suffix != ".toml" and Path(source).exists():
        return source, None
    path = catalog.find("machine", source)
    return str(path), read_text(path, "a machine file")


def published(name: str | None) -> tuple[str, list[tuple[int, int]]]:
    """Give the catalogue's machine with the same processor, and its turbo bins; empty if there is none."""
    if not name:
        return "", []
    for known in catalog.names("machine"):
        facts = Machine.load(known).describe()
        if facts.get("processor", {}).get("model_name") == name:
            return known, [(cores, khz) for cores, khz in facts["clusters"][0]["turbo"]]
    return "", []


def report(source: str, driver: str = "", *, no_turbo: bool = False) -> dict[str, Any]:
    """Give the report about a machine or a dump, under a driver of it."""
    path, text = source_text(source)
    facts: dict[str, Any] = json.loads(_opplab.fmax(path, text, driver, no_turbo, "", []))
    name, bins = published(facts.get("processor")) if text is None else ("", [])
    if bins:
        facts = json.loads(_opplab.fmax(path, None, driver, no_turbo, name, bins))
    facts["tipping_driver"] = facts["driver"]
    if facts["driver"] in ACTIVE:
        # No governor but the driver's own runs under it: schedutil needs the passive mode.
        passive = MODES[MODE_OF[facts["driver"]][0]]["passive"]
        try:
            facts["tipping"] = json.loads(_opplab.fmax(path, text, passive, no_turbo, name, bins))["tipping"]
            facts["tipping_driver"] = passive
        except OpplabError:
            # The machine does not have it.
            facts["tipping"], facts["tipping_driver"] = [], None
    return facts


def _mhz(khz: int | None) -> str:
    return "" if khz is None else f"{khz / 1000:.3f}".rstrip("0").rstrip(".")


def _text(facts: dict[str, Any], width: int | None) -> str:
    """Give the report for a reader; lines are wrapped at `width`."""
    bins = ", ".join(f"{item['active_cores']}: {_mhz(item['khz'])}" for item in facts["turbo"]) or "unknown"
    head = [
        f"{facts['name']}: {facts.get('processor') or 'unknown processor'}, driver {facts['driver']}",
        f"  base {_mhz(facts['base_khz'])} MHz, cpuinfo_max_freq {_mhz(facts['cpuinfo_max_khz'])} MHz under 6.12, "
        f"{facts['n_cores']} cores of the boot CPU's kind, turbo MHz by active cores: {bins}",
    ]
    candidates = [
        {
            "f_max": item["name"],
            "MHz": _khz_in_mhz(item["khz"]),
            "ratio": item["ratio"],
            "scale at base": item["scale_at_base"],
            "at turbo": item.get("scale_at_turbo"),
            "source": item["source"],
        }
        for item in facts["candidates"]
    ]
    kernels = []
    for _, items in groupby(facts["kernels"], lambda item: {**item, "kernel": ""}):
        alike = list(items)
        item, last = alike[0], alike[-1]["kernel"]
        kernels.append(
            {
                "kernel": item["kernel"] if len(alike) == 1 else f"{item['kernel']} to {last}",
                "takes": item.get("candidate") or ("not invariant" if item.get("ratio") is None else "none of these"),
                "MHz": _khz_in_mhz(item.get("khz")),
                "ratio": item.get("ratio"),
                "why": item["why"],
            }
        )
    parts = [
        flow("\n".join(head), width),
        render_table(candidates, "text", width),
        render_table(kernels, "text", width),
    ]
    if facts["tipping"]:
        ratios = {item["kernel"]: item.get("ratio") for item in facts["kernels"]}
        invariant = ratios.get("6.12") is not None
        which = "asks for more than" if invariant else "asks for more than the current clock, if that is"
        under = "" if facts["tipping_driver"] == facts["driver"] else f" under {facts['tipping_driver']}"
        lines = [f"schedutil{under} (6.12, {'' if invariant else 'not '}invariant) {which}"]
        for (clusters, capacity), items in groupby(facts["tipping"], lambda item: (item["clusters"], item["capacity"])):
            lines += [flow(f"  on {clusters}, CPUs of capacity {capacity}", width)]
            for item in items:
                util = item.get("util")
                where = "never" if util is None else f"from utilisation {util} of {capacity} on"
                lines.append(f"  {_mhz(item['khz']):>9} MHz  {where}")
        parts.append("\n".join(lines))
    for title, key in (("why two numbers", "explanations"), ("warning", "warnings")):
        parts += [flow(f"{title}: {words}", width) for words in _together(facts[key])]
    return "\n\n".join(part.rstrip() for part in parts if part)


def _khz_in_mhz(khz: int | None) -> Decimal | None:
    return None if khz is None else Decimal(khz) / 1000


def _together(told: list[str]) -> list[str]:
    """Put what is the same of several kernels into one sentence."""
    kernels: dict[str, list[str]] = {}
    for words in told:
        match = re.match(r"kernel (\S+): (.*)", words)
        kernels.setdefault(match[2] if match else words, []).extend([match[1]] if match else [])
    return [f"kernel{'s' * (len(of) > 1)} {', '.join(of)}: {words}" if of else words for words, of in kernels.items()]


@click.command(name="fmax")
@click.argument("source", type=BuiltIn("machine"))
@click.option(
    "--driver",
    default="",
    show_default=False,
    metavar="NAME",
    help="cpufreq driver of the machine.  [default: its own]",
)
@click.option("--no-turbo", is_flag=True, help="Turbo switched off.")
@format_option
def command(source: str, driver: str, no_turbo: bool, output_format: str) -> None:
    """Show every candidate for f_max, each kernel's choice, and its effect.

    SOURCE is a machine (built in, or a .toml) or any source of `opplab machine import`. csv and markdown print the
    table of candidates. A dump of CPPC tables alone (`grep . /sys/devices/system/cpu/cpu*/acpi_cppc/*`) works, too:
    the answer has f_max for each possible reading of the tables.
    """
    if Path(source).exists():
        from opplab.host import cppc

        tables = cppc.read_dump(Path(source))
        if tables is not None:
            if output_format == "json":
                click.echo(cppc.as_json(tables, Path(source).name))
            else:
                print_table(cppc.candidates(tables), output_format)
            return
    facts = report(source, driver, no_turbo=no_turbo)
    if output_format == "json":
        click.echo(json.dumps(facts, indent=2))
    elif output_format == "text":
        click.echo(_text(facts, terminal_width()))
    else:
        print_table(facts["candidates"], output_format)
