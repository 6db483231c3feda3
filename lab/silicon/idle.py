"""Idle governors: what menu and teo decide on the sleeps of recordings, and what was decided there."""

from __future__ import annotations

from pathlib import Path

from opplab.agreement.silicon import ScoredSet, predictions_of
from opplab.fit.score import Prediction

RIVAL = "always the most frequent state"
_KERNELS = {"mainline": "6.18", "6_12": "6.12.117"}


def recorded_idle(path: Path) -> list[ScoredSet]:
    """Decisions of menu and teo on the sleeps of each trace in the folder: how many are the recorded ones, by CPU.

    The error is the share of decisions that differ.  A trace needs ``sysfs_NAME_before.txt.gz`` beside it.
    """
    from opplab.trace.idle import decisions, states_of_sysfs
    from opplab.trace.recording import Trace

    folder = path.parent.name
    equal: dict[str, list[Prediction]] = {"teo": [], "menu": []}
    for trace in sorted(path.parent.glob("trace_*.dat")):
        name = trace.stem.removeprefix("trace_")
        sysfs = trace.with_name(f"sysfs_{name}_before.txt.gz")
        if not sysfs.exists():
            continue
        kernel = next(version for part, version in _KERNELS.items() if name.startswith(part))
        table = decisions(Trace(trace), states_of_sysfs(sysfs), ("recorded", "menu", "teo", "constant"), 4000, kernel)
        of = {(row["cpu"], row["governor"]): row for row in table.to_dicts()}
        for cpu in sorted({cpu for cpu, _ in of if cpu is not None}):
            constant = of[cpu, "constant"]
            where = f"{name}, CPU {cpu}"
            for governor, predictions in equal.items():
                row = of[cpu, governor]
                predictions.extend(predictions_of([where], [row["decisions"]], [row["equal"]], [constant["equal"]]))
    return [
        ScoredSet(folder, f"idle decisions of {governor}", "each decision", RIVAL, found)
        for governor, found in equal.items()
    ]
