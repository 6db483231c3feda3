"""What cases ask for that their machine or kernel does not have, and what they take its build to have."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.errors import CaseError
from opplab.kernel.profiles import halves

if TYPE_CHECKING:
    from opplab.simulation.cases import Case


def unable(cases: Sequence[Case]) -> list[str]:
    """Name the policies whose cases cannot run, and why, before another one runs."""
    told: dict[str, None] = {}
    for one in {(case.machine, case.policy): case for case in cases}.values():
        try:
            _opplab.Case.from_json(one.json).why_no_eas()
        except CaseError as error:
            told[f"{one.policy} on {one.machine} cannot run: {error}"] = None
    return list(told)


def missing(cases: Sequence[Case]) -> list[str]:
    """Report what is asked for and is not there: energy-aware scheduling, clamps, the part that a proposal changes.

    What is only taken to be there is named, too: clamps that boost real-time tasks.
    """
    told: dict[str, None] = {}
    without: dict[str, dict[str, None]] = {}
    clampless = set()
    # One case of each policy and machine: workloads and seeds do not matter.
    for place, one in {(one.machine, one.policy): one for one in cases}.items():
        case = _opplab.Case.from_json(one.json)
        # A case that cannot run fails when its turn comes.
        with contextlib.suppress(CaseError):
            why = case.why_no_eas()
            if why is not None:
                told[f"no energy-aware scheduling on {case.machine}: {why}"] = None
            for half in halves(case.kernel, json.loads(one.json)["policy"].get("gates") or {}):
                told[f"{one.policy}: {half}"] = None
            for name, part in case.unreached_proposals():
                told[f"{one.policy}: proposal {name} does nothing without {part}"] = None
            if not case.has_clamps():
                clampless.add(place)
            if case.eas_needs_schedutil():
                without.setdefault(case.machine, {})[one.policy] = None
    for machine, policies in without.items():
        told[
            f"{', '.join(policies)}: no energy-aware scheduling on {machine}, which the kernel has under schedutil only"
        ] = None
    for one in {(one.machine, one.policy, one.benchmark, one.param): one for one in cases}.values():
        with contextlib.suppress(CaseError):
            if (built := _opplab.Case.from_json(one.json).boosted_by_build()) is not None:
                told[built] = None
    asked = {(one.machine, one.policy, one.benchmark, one.param): one for one in cases if clampless}
    for (machine, policy, _, _), one in asked.items():
        if (machine, policy) not in clampless or "clamp" not in one.json:
            continue
        case = _opplab.Case.from_json(one.json)
        if case.asks_for_clamps():
            told[f"kernel {case.kernel} has no utilisation clamps: uclamp does nothing"] = None
    return list(told)
