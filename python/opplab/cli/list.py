"""`opplab list`: what there is to choose from."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from opplab import _opplab, catalog
from opplab.cli.options import format_option
from opplab.files import read_text, toml_of
from opplab.report.text import print_table

# Kind -> what it is.
KINDS = {
    "machines": "built-in machines",
    "experiments": "built-in experiments",
    "governors": "cpufreq governors",
    "drivers": "cpufreq drivers",
    "tunables": "tunables of governors: type, range, default",
    "idle-governors": "cpuidle governors",
    "kernels": "kernel profiles",
    "gates": "what differs between kernel profiles, and can be overridden",
    "proposals": "what was posted for the kernel and not merged: who, where, parameters",
    "policy-keys": "keys of a policy, in files, in Python and of --set",
    "profile-keys": "settings of TLP, tuned, auto-cpufreq and power-profiles-daemon that change a run (`--vs FILE`)",
    "benchmarks": "benchmark models",
    "parameters": "parameters of a benchmark model",
    "calibrations": "fits of benchmark models: machine, baseline, residual, whether the model is as it was",
    "disks": "classes of disks: times of a write in us, range of the flush, bandwidth, source",
    "backgrounds": "what a quiet system does beside a workload: tasks, wake-ups and cycles a second",
    "metrics": "what is measured in a run",
    "classes": "classes of programs of machines: speed, share of memory time, power",
    "events": "tables of events",
    "decisions": "tables of decision records",
}


def _check(kind: str, name: str | None, known: list[str]) -> None:
    """Refuse a name that is none of a kind, with the nearest one."""
    if name is not None and name not in known:
        raise click.UsageError(f"no {kind} is called '{name}'{catalog.nearest(name, known)}")


def _machines(_name: str | None) -> list[dict[str, Any]]:
    rows = []
    for name in catalog.names("machine"):
        path = catalog.find("machine", name)
        text = read_text(path, "a machine file")
        machine = _opplab.Machine.parse(str(path), text)
        clusters = machine.describe()["clusters"]
        # Provenance names the machine whose numbers stand in.
        proxy = str(toml_of(text, path).get("provenance", "")).partition("proxy ")[2].partition(",")[0]
        rows.append(
            {
                "machine": name,
                "cpus": machine.nr_cpus,
                "clusters": " + ".join(f"{cluster['nr_cpus']} {cluster['name']}" for cluster in clusters),
                "drivers": " ".join(machine.drivers),
                "numbers of": proxy,
            }
        )
    return rows


def _classes(name: str | None) -> list[dict[str, Any]]:
    machines = catalog.names("machine")
    _check("machine", name, machines)
    rows = []
    for machine in [name] if name is not None else machines:
        for one in catalog.table("machine", machine).get("program_class", []):
            rows += [
                {
                    "machine": machine,
                    "class": one["name"],
                    "cluster": on["name"],
                    "capacity": on.get("capacity"),
                    "mem_share": on.get("mem_share", 0),
                    "power": on.get("power", 1024),
                }
                for on in one["cluster"]
            ]
    return rows


def _policy_keys(_name: str | None) -> list[dict[str, Any]]:
    def plain(value: object) -> str:
        return json.dumps(value) if value not in ("", [], {}) else ""

    return [
        {"key": key["name"], "values": key["values"], "default": plain(key["default"]), "about": key["about"]}
        for key in _opplab.policy_keys()
    ]


def _profile_keys(_name: str | None) -> list[dict[str, Any]]:
    from opplab.sweep.power_profiles import profile_keys

    return list(profile_keys())


def _gates(_name: str | None) -> list[dict[str, Any]]:
    from opplab.kernel import kernel_gates

    return [
        {"gate": gate.gate, "value": gate.value, "since": gate.since, "about": gate.differs, "meaning": gate.meaning}
        for gate in kernel_gates()
    ]


def _proposals(name: str | None) -> list[dict[str, Any]]:
    rows = _opplab.proposals()
    _check("proposal", name, [row["name"] for row in rows])
    found = []
    for row in rows:
        if name not in (None, row["name"]):
            continue
        params = [f"{one['name']} ({one['min']} to {one['max']}; {one['default']})" for one in row["params"]]
        told = {"proposal": row["name"], "parameters": ", ".join(params), "what": row["what"], "thread": row["thread"]}
        if name is not None:
            told["differs"] = row["differs"]
            told |= {f"{one['name']}": one["what"] for one in row["params"]}
        found.append(told)
    return found


def _tunables(name: str | None) -> list[dict[str, Any]]:
    _check("governor", name, [governor for governor, _ in _opplab.names("governors")])
    return [
        {
            "governor": row["governor"],
            "tunable": row["name"],
            "values": row["values"],
            "default": row["default"],
            "kernels": row["kernels"] or "all",
            "about": row["about"],
        }
        for row in _opplab.governor_tunables()
        if name in (None, row["governor"])
    ]


def _parameters(name: str | None) -> list[dict[str, Any]]:
    models = _opplab.benchmarks()
    _check("benchmark", name, [model["name"] for model in models])
    return [
        {
            "benchmark": model["name"],
            "parameter": param["name"],
            "type": "name" if param["words"] else "whole number",
            "default": param["default"],
            "fitted": "yes" if param["calibrated"] else "",
            "about": ": ".join(filter(None, (str(param["about"]), ", ".join(param["words"])))),
        }
        for model in models
        if name in (None, model["name"])
        for param in model["params"]
    ]


def _metrics(_name: str | None) -> list[dict[str, Any]]:
    from opplab.metrics import METRICS, Metric, of_models
    from opplab.simulation.work import ENERGY_PER_WORK, OF_WORK, POWER_AT_EQUAL_WORK

    about = "energy by what the benchmark counts (J/MB, J/transaction), or by second of work of the biggest CPU"
    per_work = Metric(ENERGY_PER_WORK, OF_WORK, "lower", "whole", about)
    about = "choose and fleet: mean power at the baseline's pace of work; a machine that has done it sooner is idle"
    derived = (per_work, Metric(POWER_AT_EQUAL_WORK, "W", "lower", "whole", about))
    return [
        {"metric": one.name, "unit": one.unit, "better": one.better, "about": one.about}
        for one in (*of_models(), *METRICS, *derived)
    ]


def _experiments(_name: str | None) -> list[dict[str, Any]]:
    from opplab.sweep.experiments import summaries

    return summaries()


def _calibrations(_name: str | None) -> list[dict[str, Any]]:
    from opplab.agreement import calibration

    return calibration.listing()


def _disks(_name: str | None) -> list[dict[str, Any]]:
    def row(one: dict[str, Any]) -> dict[str, Any]:
        low, high = one.pop("flush_range_us")
        stands_in = " (stands in where a machine names no disk)" if one.pop("stands_in") else ""
        about = one.pop("about") + stands_in
        return {**one, "flush_us, range": f"{low} to {high}", "about": about}

    return [row(one) for one in _opplab.disk_classes()]


def _backgrounds(_name: str | None) -> list[dict[str, Any]]:
    from opplab.trace.learn import background

    rows = []
    for name in catalog.names("background"):
        _, tasks = background(catalog.find("background", name))
        means = [(sum(waits) / len(waits) / 1e9, sum(cycles) / len(cycles) / 1e9) for _, _, waits, cycles in tasks]
        rates = [(1 / (wait + run), run) for wait, run in means]
        row = {"tasks": len(tasks), "wake-ups/s": round(sum(rate for rate, _ in rates), 1)}
        rows.append({"background": name, **row, "cycles/s": round(sum(1e9 * rate * run for rate, run in rates))})
    return rows


_ROWS: dict[str, Callable[[str | None], list[dict[str, Any]]]] = {
    "machines": _machines,
    "experiments": _experiments,
    "classes": _classes,
    "policy-keys": _policy_keys,
    "profile-keys": _profile_keys,
    "gates": _gates,
    "parameters": _parameters,
    "tunables": _tunables,
    "proposals": _proposals,
    "metrics": _metrics,
    "calibrations": _calibrations,
    "disks": _disks,
    "backgrounds": _backgrounds,
}


def rows_of(kind: str, name: str | None = None) -> list[dict[str, Any]]:
    """Give what `opplab list KIND` prints; `name`: a benchmark, governor, machine or proposal, where it has such rows.

    Other kinds have all rows.
    """
    if kind in _ROWS:
        return _ROWS[kind](name)
    found = _opplab.names(kind)
    if not any(text for _, text in found):
        return [{"name": name} for name, _ in found]
    return [{"name": name, "description": text} for name, text in found]


class Kind(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """One of the kinds."""

    name = "kind"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse another with the nearest."""
        if value not in KINDS:
            hint = catalog.nearest(value, list(KINDS)).replace("`", "'")
            raise click.BadParameter(f"no list of '{value}'{hint}; there is: {', '.join(KINDS)}", ctx, param)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Give the kinds that begin so."""
        return [CompletionItem(kind, help=what) for kind, what in KINDS.items() if kind.startswith(incomplete)]


@click.command(name="list")
@click.argument("kind", type=Kind(), required=False)
@click.argument("name", required=False)
@format_option
def command(kind: str | None, name: str | None, output_format: str) -> None:
    """List machines, experiments, policy keys, metrics and other names.

    KIND is machines, experiments, governors, drivers, tunables, idle-governors, kernels, gates, proposals,
    policy-keys, profile-keys, benchmarks, parameters, calibrations, disks, backgrounds, metrics, classes, events or
    decisions.
    NAME restricts the list: a benchmark for parameters, a governor for tunables, a machine for classes; elsewhere one
    of the names that it has.
    Without KIND, the command lists the kinds.
    """
    if kind is None:
        print_table([{"list": kind, "what": what} for kind, what in KINDS.items()], output_format)
        return
    rows = rows_of(kind, name)
    if name is not None and kind not in ("parameters", "tunables", "classes", "proposals"):
        # The first column names a row, in kinds that have no list of their own for a name.
        own = [next(iter(row.values())) for row in rows]
        _check(kind.removesuffix("s"), name, own)
        rows = [row for row, first in zip(rows, own, strict=True) if first == name]
    print_table(rows, output_format)
