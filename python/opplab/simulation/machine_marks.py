"""Which numbers of a machine file have a source mark, which latencies are worst cases, and whether turbo is unknown.

Marks stand in ``[source]``: a path as ``cluster.opp.uw`` marks what lies under it, ``cluster.opp`` all of its columns.
A path that begins with ``default.`` marks what an import took from a named default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opplab.files import toml_of
from opplab.simulation.ranges import number_in

# Not quantities: the form of the file, and what names things.
_NAMES = {"format", "name", "provenance", "source", "range"}
_UNIT = re.compile(r"_?(ns|us|ms|uw|mw|khz|mhz)$")


# What an import calls things -> where they stand in the file.
_IMPORTED = {
    "capacity": "cluster.capacity",
    "idle": "cluster.idle",
    "cppc": "cluster.cppc",
    "opps": "cluster.opp",
    "base_khz": "cluster.base_khz",
    "node": "numa_distance",
    "transition_latency": "driver.transition_latency",
}


def _numbers(value: Any, path: tuple[str, ...], marks: set[tuple[str, ...]], marked: bool) -> Iterator[tuple[str, ...]]:
    """Give the path of every number that no mark covers, without places in lists; items may be marked by name."""
    marked = marked or tuple(_UNIT.sub("", part) for part in path) in marks
    if isinstance(value, Mapping):
        marked = marked or (*path, str(value.get("name"))) in marks
        for key, inner in value.items():
            yield from _numbers(inner, (*path, key), marks, marked)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from _numbers(inner, path, marks, marked)
    elif isinstance(value, int | float) and not isinstance(value, bool) and not marked:
        yield path


def unmarked(text: str) -> list[str]:
    r"""Give the numbers of a machine file that no source mark covers, as paths.

    Examples
    --------
    >>> unmarked('floor_uw = 3\n[costs]\ntick_us = 1\n[source]\ncosts = "[A] as juno-r2"\n')
    ['floor_uw']
    """
    file = toml_of(text, "the machine file")
    # A key may stand in another unit in the mark than in the file.
    keys = (key.removeprefix("default.") for key in file.get("source", {}))
    marks = {tuple(_UNIT.sub("", part) for part in _IMPORTED.get(key, key).split(".")) for key in keys}
    numbers = {key: value for key, value in file.items() if key not in _NAMES}
    return list(dict.fromkeys(".".join(path) for path in _numbers(numbers, (), marks, False)))


_WORST_CASE_US = 100


def worst_case_latencies(text: str) -> list[dict[str, str]]:
    """Find idle states whose declared exit latency is also what a wake-up takes, in the form of `opplab machine check`.

    Firmware has the worst case, for the governor to be safe with; measured wake-ups are shorter (a Zen 2 declares
    400 us for C2, and wakes in 20 to 24).
    """
    found = []
    for cluster in toml_of(text, "the machine file")["cluster"]:
        for state in cluster.get("idle", []):
            latency_us = number_in(state, "exit_latency_ns") / 1000
            if latency_us < _WORST_CASE_US or "wake_us" in state or "wake_ns" in state:
                continue
            name = f"{cluster['name']}, {state['name']}"
            what = f"{name}: each wake-up takes the {latency_us:g} us of the firmware's table, its worst case"
            cost = f"an interrupt that meets the state costs {latency_us / 1000:g} ms; latencies are upper bounds"
            remedy = (
                f"wake_us: what was measured, or a share of it (0.3: {0.3 * latency_us:.0f}) with a range of 0.05 to 1"
            )
            found.append(_finding("idle-worst-case", "note", what, cost, remedy))
    return found


def _finding(check: str, severity: str, what: str, cost: str, remedy: str) -> dict[str, str]:
    return {"check": check, "severity": severity, "what": what, "cost": cost, "remedy": remedy}


_TURBO_STEP_KHZ = 1000
"""How far the P-state that stands for turbo is above the base clock in firmware's tables of Intel's processors."""
_UNKNOWN = "unknown"
"""How an import's mark of turbo begins where the source has turbo and no clock of it."""


def unknown_turbo(name: str, machine: Mapping[str, Any]) -> str:
    """Report that a machine has turbo (boost) of which its file has no clock; empty if it has none, or has its clocks.

    Turbo is there by the import's mark, by CPPC's levels, or by the P-state that stands for it.

    Parameters
    ----------
    machine : mapping
        As a case's JSON has it, or `Machine.tree`.

    Examples
    --------
    >>> table = [{"khz": 1_200_000}, {"khz": 2_000_000}, {"khz": 2_001_000}]
    >>> unknown_turbo("xeon", {"cluster": [{"base_khz": 2_000_000, "opp": table}]})[:65]
    'turbo of xeon is unknown: runs are at most at the base clock of 2'
    >>> unknown_turbo("xeon", {"cluster": [{"base_khz": 2_000_000, "opp": table[:2]}]})
    ''
    """
    marked = str(machine.get("source", {}).get("default.cluster.turbo", "")).startswith(_UNKNOWN)
    bases: dict[int, str] = {}
    for cluster in machine["cluster"]:
        top = cluster["opp"][-1]["khz"]
        base = cluster.get("base_khz") or top
        stands = top == base + _TURBO_STEP_KHZ
        levels = cluster.get("cppc") or {}
        boosts = levels.get("highest_perf", 0) > levels.get("nominal_perf", 0) > 0
        if not cluster.get("turbo") and (stands or (top <= base and (marked or boosts))):
            bases[base] = f" (its P-state of {top / 1000:g} MHz stands for turbo)" if stands else ""
    if not bases:
        return ""
    base = max(bases)
    most = f"at most at the base clock of {base / 1000:g} MHz{bases[base]}"
    return f"turbo of {name} is unknown: runs are {most}, and no draw has more"


def unknown_turbo_finding(machine: Mapping[str, Any]) -> list[dict[str, str]]:
    """Give the same in the form of `opplab machine check`."""
    if not (what := unknown_turbo(machine["name"], machine)):
        return []
    cost = "settings that ask for the highest clocks run slower than they would: answers favour low clocks"
    remedy = "turbo: clocks by active cores, from a dump with registers (Intel, 0x1ad) or measured"
    return [_finding("turbo-unknown", "warning", what, cost, remedy)]
