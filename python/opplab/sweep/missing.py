"""What cases ask for that their machine or kernel does not have, and what they take its build to have."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from opplab.errors import CaseError, InputError
from opplab.kernel.profiles import halves
from opplab.report.start import in_words
from opplab.simulation.power import has_idle_power
from opplab.simulation.ranges import exit_latency_ns
from opplab.sweep.drivers import came_later

if TYPE_CHECKING:
    from opplab.simulation.cases import Case


def why_unable(case: Case) -> str:
    """Give why a case's policy cannot run on its machine; empty if it can."""
    try:
        # Both ask the driver, which refuses the settings that it cannot have.
        case.inner.why_no_eas()
        case.inner.assumed_preferences()
    except CaseError as error:
        return str(error).removeprefix("failed to use the policy: ")
    return ""


def unable(cases: Sequence[Case]) -> list[str]:
    """Name the policies whose cases cannot run on a machine, and why, before another one runs.

    Raises
    ------
    InputError
        A policy can run on none of its machines.
    """
    told: dict[str, None] = {}
    able: dict[str, bool] = {}
    for one in {(case.machine, case.policy): case for case in cases}.values():
        able.setdefault(one.policy, False)
        if why := why_unable(one):
            told[f"{one.policy} on {one.machine} cannot run: {why}"] = None
        else:
            able[one.policy] = True
    if not all(able.values()):
        raise InputError("; ".join(told))
    return list(told)


def lowered(groups: Sequence[Mapping[str, Any]]) -> list[str]:
    """Name the groups whose lower clamp is above their parent's, which limits it (core.c:cpu_util_update_eff(), v6.12).

    Parents come before their groups, as in a case.

    Examples
    --------
    >>> lowered([{"name": "/a"}, {"name": "/a/b", "parent": 0, "uclamp_min": 512}, {"name": "/c", "uclamp_min": 512}])
    ['uclamp_min of /a/b is 50 % and counts as 0 %, that of its parent']
    """
    acting: list[int] = []
    found = []
    for group in groups:
        own = group.get("uclamp_min", 0)
        above = acting[group["parent"]] if "parent" in group else own
        acting.append(min(own, above))
        if above < own:
            percent = [f"{100 * value / 1024:.4g} %" for value in (own, above)]
            found.append(
                f"uclamp_min of {group['name']} is {percent[0]} and counts as {percent[1]}, that of its parent"
            )
    return found


YOUNG: tuple[tuple[str, tuple[int, int], Callable[[Mapping[str, Any]], bool]], ...] = (
    (
        "clamps of groups (cpu.uclamp.min, cpu.uclamp.max)",
        (5, 4),
        lambda group: bool({"uclamp_min", "uclamp_max"} & {*group}),
    ),
    ("cpu.max.burst", (5, 14), lambda group: group.get("quota_ns", (0, 0, 0))[2] > 0),
    ("cpu.idle", (5, 15), lambda group: bool(group.get("idle"))),
)
"""Files of control groups, the release that brought each (core.c:cpu_files[]), and whether a group of a case has it."""


def too_young(groups: Sequence[Mapping[str, Any]], kernel: str) -> list[str]:
    """Name what groups have and their kernel has no file for; it is applied all the same.

    Examples
    --------
    >>> too_young([{"name": "/a", "quota_ns": [1000, 2000, 500]}], "5.13")
    ['kernel 5.13 has no cpu.max.burst, which came with 5.14; here it is applied all the same']
    >>> too_young([{"name": "/a", "quota_ns": [1000, 2000, 500]}], "5.14")
    []
    """
    return [
        f"kernel {kernel} has no {name}, which came with {since}; here it is applied all the same"
        for name, release, has in YOUNG
        if (since := came_later(kernel, release)) and any(map(has, groups))
    ]


def late(changes: Sequence[Mapping[str, Any]], duration_ns: int) -> str:
    """Name the changes of a run that come after its end; empty if there are none.

    Examples
    --------
    >>> late([{"at_ms": 500}, {"at_ms": 1000}, {"at_ms": 1500}], 1_000_000_000)
    'changes at 1000, 1500 ms do nothing: the run ends at 1000 ms'
    """
    never = [str(change["at_ms"]) for change in changes if change["at_ms"] * 1_000_000 >= duration_ns]
    do = "a change at {} ms does" if len(never) == 1 else "changes at {} ms do"
    return f"{do.format(', '.join(never))} nothing: the run ends at {duration_ns / 1e6:g} ms" if never else ""


def missing(cases: Sequence[Case]) -> list[str]:
    """Report what policies ask for and is not there: energy-aware scheduling, clamps, the part that a proposal changes.

    What is only taken to be there is named, too: clamps that boost real-time tasks. So are clamps that a parent limits.
    """
    found: dict[str, dict[str, None]] = {}
    clampless = set()
    # Of each machine: the policies whose kernel has no energy-aware scheduling, and whether another one's has.
    old: dict[str, list[str]] = {}
    energy_aware = set()

    def add(words: str, policy: str) -> None:
        found.setdefault(words, {})[policy] = None

    # One case of each policy and machine: workloads and seeds do not matter.
    for place, one in {(one.machine, one.policy): one for one in cases}.items():
        case = one.inner
        # A case that cannot run fails when its turn comes.
        with contextlib.suppress(CaseError):
            why = case.why_no_eas()
            if why is not None:
                add(f"no energy-aware scheduling on {case.machine}: {why}", one.policy)
            has_eas = case.has_eas()
            if has_eas is None:
                old.setdefault(case.machine, []).append(one.policy)
            elif has_eas:
                energy_aware.add(case.machine)
            for half in halves(case.kernel, one.file["policy"].get("gates") or {}):
                add(half, one.policy)
            for name, part in case.unreached_proposals():
                add(f"proposal {name} does nothing without {part}", one.policy)
            if not case.has_clamps():
                clampless.add(place)
            if case.eas_needs_schedutil():
                words = f"no energy-aware scheduling on {case.machine}, which the kernel has under schedutil only"
                add(words, one.policy)
    for machine, policies in old.items():
        for policy in policies if machine in energy_aware else ():
            add(f"no energy-aware scheduling on {machine}: the kernel does not have it", policy)
    for each in {(one.machine, one.policy, one.benchmark, one.param): one for one in cases}.values():
        with contextlib.suppress(CaseError):
            case = each.inner
            if never := late(each.file["policy"].get("changes", []), each.duration_ns):
                add(never, each.policy)
            if (built := case.boosted_by_build()) is not None:
                add(built, each.policy)
            groups = each.file["workload"].get("groups", [])
            if (each.machine, each.policy) not in clampless:
                for words in lowered(groups):
                    add(words, each.policy)
            elif case.asks_for_clamps():
                add(f"kernel {case.kernel} has no utilisation clamps: uclamp does nothing", each.policy)
                groups = [{key: group[key] for key in group if not key.startswith("uclamp")} for group in groups]
            for words in too_young(groups, case.kernel):
                add(words, each.policy)
    return [f"{', '.join(policies)}: {words}" for words, policies in found.items()]


def assumed_preferences(case: Case) -> str:
    """Give the preferences of a case of which it is assumed what the firmware makes of them; empty without any.

    Policies that differ in them have a change of assumed size: no run and no draw knows it.
    """
    # A case that cannot run fails when its turn comes.
    with contextlib.suppress(CaseError):
        return " ".join(map(str, case.inner.assumed_preferences()))
    return ""


def unknown_idle(
    files: Mapping[tuple[str, str], Mapping[str, Any]], pairs: Iterable[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Give machine, baseline and policy where the policy changes idle states, and the machine has no power of them.

    `files` has a case of each machine and policy, as its JSON has it.
    """
    return [
        (name, base, variant)
        for base, variant in pairs
        for name in dict.fromkeys(name for name, _ in files)
        if (ours := files.get((name, variant))) is not None
        and (theirs := files.get((name, base))) is not None
        and changes_unknown_idle(ours["machine"], theirs["policy"], ours["policy"])
    ]


def idle_in_words(found: Iterable[Sequence[str]]) -> list[str]:
    """Give the words for machines, baselines and policies of `unknown_idle`.

    Examples
    --------
    >>> [words] = idle_in_words([("xeon", "menu", "teo"), ("xeon", "menu", "ladder")])
    >>> words.partition("), ")[2]
    'so that energy and power do not show what teo and ladder change in them'
    """
    labels: dict[str, dict[str, None]] = {}
    for name, _, variant in found:
        labels.setdefault(name, {})[variant] = None
    return [
        f"{name} has no power of idle states (halted CPUs count as 0, polling ones as busy), so that energy and power "
        f"do not show what {in_words([*those])} "
        f"{'changes' if len(those) == 1 else 'change'} in them"
        for name, those in labels.items()
    ]


def changes_unknown_idle(machine: Mapping[str, Any], base: Mapping[str, Any], policy: Mapping[str, Any]) -> bool:
    """Report whether a policy has other idle states than a baseline, or another choice of them, at no known power.

    Parameters
    ----------
    machine, base, policy : mapping
        As a case's JSON has them.

    Examples
    --------
    >>> states = [{"name": "C1", "exit_latency_us": 2, "uw": 0}, {"name": "C6", "exit_latency_ns": 170000, "uw": 0}]
    >>> machine, menu = {"cluster": [{"idle": states}]}, {"idle_governor": "menu"}
    >>> others = [{"idle_disable": ["C6"]}, {"cpu_dma_latency_us": 2}, {"cpu_dma_latency_us": 200}, {"hz": 1000}]
    >>> [changes_unknown_idle(machine, menu, {**menu, **other}) for other in others]
    [True, True, False, False]
    """
    return not has_idle_power(machine) and _idle_of(machine, base) != _idle_of(machine, policy)


def _idle_of(machine: Mapping[str, Any], policy: Mapping[str, Any]) -> tuple[str, list[list[str]]]:
    """Give who chooses among which idle states of each cluster."""
    off, limit_ns = policy.get("idle_disable", ()), 1000 * policy.get("cpu_dma_latency_us", inf)
    allowed = [
        [
            state["name"]
            for state in cluster.get("idle", ())
            if state["name"] not in off and exit_latency_ns(state) <= limit_ns
        ]
        for cluster in machine["cluster"]
    ]
    return policy.get("idle_governor", ""), allowed
