"""Questions to a trace in SQL: its events, signals, residencies, latencies and energy as tables.

polars' SQLContext answers; tables are made when a question names them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from opplab.catalog import nearest
from opplab.cpulist import cpus_in
from opplab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from opplab.simulation.machine import Machine
    from opplab.trace.recording import Trace


SIGNALS = {
    "tasks": "load tracking of tasks after each event about them",
    "rqs": "load tracking of run queues",
    "freq_residency": "time by CPU and frequency",
    "idle_residency": "time by CPU and idle state",
    "running": "running time by task, CPU and frequency",
    "waits": "waits for a CPU, after wake-ups and preemptions",
    "activations": "from wake-up to sleep of a task",
    "task_util": "mean and greatest utilisation of a task",
}
ENERGY = {
    "energy_cpus": "energy by CPU",
    "energy_clusters": "energy by cluster",
    "energy_tasks": "energy by task",
    "energy_processes": "energy by process",
    "energy_groups": "energy by kind of task",
    "energy_apps": "energy by program",
    "energy_cgroups": "energy by control group",
    "energy_rails": "meters in the trace beside the model",
    "energy_steps": "power of clusters over time",
}
MACHINE = {"cpus": "cluster, capacity and highest frequency of each CPU", "opps": "operating points of each CPU"}


def _machine_table(name: str, machine: Machine) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for cluster in machine._inner.describe()["clusters"]:
        top = cluster["opps"][-1]["khz"]
        for cpu in cpus_in(cluster["cpus"]):
            base = {"cpu": cpu, "cluster": cluster["name"]}
            if name == "cpus":
                rows.append({**base, "capacity": cluster["capacity"], "khz_max": top})
                continue
            for opp in cluster["opps"]:
                capacity = cluster["capacity"] * opp["khz"] / top
                per_work = opp["busy_uw"] / capacity if capacity and opp["busy_uw"] is not None else None
                rows.append({**base, **opp, "opp_capacity": capacity, "uw_per_capacity": per_work})
    # A column that is unknown everywhere has no type of its own.
    whole = {key: pl.Int64 for row in rows[:1] for key in row if key.endswith(("_uw", "mv"))}
    return pl.DataFrame(rows, schema_overrides=whole, infer_schema_length=None)


def tables_of(trace: Trace, machine: Machine | None) -> dict[str, str]:
    """Give the tables that a question may name, with what they hold."""
    events = {name: f"{count} events" for name, count in trace.info["events"].items()}
    made = {**SIGNALS, **({**ENERGY, **MACHINE} if machine is not None else {})}
    return {**events, **made}


def _mentioned(text: str, known: dict[str, str]) -> list[str]:
    """The known tables whose names are words of a question, longest first."""
    words = set(re.findall(r'"([^"]+)"|([A-Za-z_][A-Za-z0-9_]*)', text))
    flat = {word for pair in words for word in pair if word}
    return [name for name in known if name in flat]


def _reads_files(text: str) -> str:
    """Name the function of a statement that reads other files, if there is one."""
    bare = re.sub(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = re.search(r"\b(read_\w+|scan_\w+)\W?\s*\(", bare, re.IGNORECASE)
    return found[1] if found else ""


def query(trace: Trace, text: str, machine: Machine | None = None, *, files: bool = False) -> pl.DataFrame:
    """Answer a question.

    Parameters
    ----------
    text : str
        A SELECT statement in polars' SQL.
    machine : Machine, optional
        For energy, capacities and operating points.
    files : bool
        Let the statement read files other than the trace, as polars' ``read_parquet()`` does.

    Raises
    ------
    InputError
        If a table or column does not exist, or the statement reads files and may not, or polars does not understand it.
    """
    from opplab.trace.frames import frame_of

    if not files and (function := _reads_files(text)):
        raise InputError(
            f"failed to answer: {function}() reads any file of this machine; --files (files=True) allows it"
        )
    known = tables_of(trace, machine)
    wanted = _mentioned(text, known)
    context = pl.SQLContext()
    events = [name for name in wanted if name not in SIGNALS and name not in ENERGY and name not in MACHINE]
    if events:
        inner = trace.read(events, missing_ok=True)
        for name, _, _ in inner.tables():
            context.register(name, frame_of(inner.columns(name)))
    made: dict[str, Callable[[], dict[str, pl.DataFrame]]] = {
        "signals": lambda: trace.signals(machine).tables(),
        "energy": lambda: {f"energy_{name}": table for name, table in trace.energy(machine).tables().items()},  # type: ignore[arg-type]
    }
    for kind, names in (("signals", SIGNALS), ("energy", ENERGY)):
        chosen = [name for name in wanted if name in names]
        if chosen:
            tables = made[kind]()
            for name in chosen:
                context.register(name, tables[name])
    if machine is not None:
        for name in set(wanted) & set(MACHINE):
            context.register(name, _machine_table(name, machine))
    try:
        return context.execute(text, eager=True)
    except Exception as error:
        # polars raises several kinds, its parser's among them.
        if not type(error).__module__.startswith("polars"):
            raise
        line = (str(error).splitlines() or ["no statement"])[0]
        missing = re.search(r"relation '([^']+)' was not found", line)
        hint = ""
        if "division by zero" in line:
            line, hint = "a divisor is 0 in a row", "; CASE WHEN x <> 0 THEN y / x END leaves the value blank there"
        if missing:
            if machine is None and missing[1] in {**ENERGY, **MACHINE}:
                hint = "; it needs a machine (--machine)"
            else:
                hint = nearest(missing[1], list(known)) or "; --tables lists them"
        raise InputError(f"failed to answer: {line}{hint}") from None
