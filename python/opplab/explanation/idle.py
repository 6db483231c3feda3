"""What idle CPUs and their clusters drew in a run, by state."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from opplab import _opplab

if TYPE_CHECKING:
    import polars as pl


def decisions_of_run(case: _opplab.Case) -> tuple[pl.DataFrame, str]:
    """Compare idle governors on the sleeps of a run, as `opplab.trace.idle.decisions` does on those of a trace.

    Each has the facts and outcomes of the run's own governor, which so decides as in the run.

    Returns
    -------
    polars.DataFrame, str
        The table, and the run's own idle governor.
    """
    from opplab.simulation.machine import Machine
    from opplab.trace import idle

    file = json.loads(case.to_json())
    states = idle.states_of_machine(Machine.from_tree(file["machine"]))
    own = file["policy"]["idle_governor"]
    rows = case.idle(states, list(dict.fromkeys((*idle.GOVERNORS[:1], own, *idle.GOVERNORS[1:]))))
    return idle.table_of(rows), own


def watts_by_state(case: _opplab.Case) -> list[dict[str, Any]]:
    """Give the time and the mean power of each cluster's CPUs by what they did, and of what they share.

    Returns
    -------
    list of dict
        ``cluster``, ``what``, ``time_pct`` of the time of its CPUs, or of the cluster, and ``power_w``, None where the
        machine file has none: of a cluster, or of idle states. What is shared
        is drawn always where the cluster has no idle states of its own, whatever its CPUs do. CPUs that leave
        a state draw the power of the shallowest one, and entry counts as the state. Where the shallowest one's power
        follows the clock, or it polls, it is one row with the work.
    """
    from opplab.simulation.power import has_idle_power, known_power

    outcome, machine = case.run(False), json.loads(case.to_json())["machine"]
    known, idle_known = known_power(machine), has_idle_power(machine)
    wall_ns = outcome["wall_ns"]
    rows: list[dict[str, Any]] = []
    for index, cluster in enumerate(machine["cluster"]):
        cpus = outcome["clusters"][index]["cpus"]
        states = cluster.get("idle", [])
        names = [*(state["name"] for state in states), "leaves a state"]
        ns = [sum(outcome["idle_ns_by_state"][cpu][state] for cpu in cpus) for state in range(len(names))]
        uw = [state.get("uw", 0) for state in states]
        uw.append(uw[0] if uw else 0)
        shared_fj = outcome["shared_energy_fj"][index]
        work_ns = len(cpus) * wall_ns - sum(ns)
        work_fj = outcome["cluster_energy_fj"][index] - shared_fj
        what = "at work"
        varies = any("idle_uw" in opp for opp in cluster["opp"]) or names[0] == "POLL"
        parts = []
        for place, (name, one_ns, one_uw) in enumerate(zip(names, ns, uw, strict=True)):
            if varies and place in (0, len(states)):
                what, work_ns = f"{what}, {name}", work_ns + one_ns
            else:
                work_fj -= one_ns * one_uw
                parts.append((name, one_ns, one_ns * one_uw, len(cpus)))
        deep = cluster.get("cluster_idle", [])
        asleep = list(zip(deep, outcome["asleep_ns"][index], strict=True))
        awake_ns = wall_ns - sum(ns for _, ns in asleep)
        awake_fj = shared_fj - sum(state.get("uw", 0) * ns for state, ns in asleep)
        parts = [
            (what, work_ns, work_fj, len(cpus)),
            *parts,
            ("shared, awake" if deep else "shared, always", awake_ns, awake_fj, 1),
        ]
        parts += [(f"shared, {state['name']}", ns, state.get("uw", 0) * ns, 1) for state, ns in asleep]
        rows += [
            {
                "cluster": cluster["name"],
                "what": name,
                "time_pct": 100 * ns / wall_ns / of,
                "power_w": fj / wall_ns / 1e6 if known[index] and (idle_known or name not in names) else None,
            }
            for name, ns, fj, of in parts
        ]
    return rows
