"""How near the replay of a recording under its own policy is to the recording."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opplab import _opplab

MISSED = "missed activations"
WHOLE = {"frequency": "frequency", "energy": "energy", "busy": "busy time", "latency_p95": "latency p95"}
LISTED = 8
"""Of so many policies each distance is shown."""

FIXED_SPEED = "an emulator executed this as fast at every clock, so that lower clocks cost no time here"


def check_text(check: dict[str, Any]) -> str:
    """Report how far a replay under its own policy is from the trace."""
    if not check["checked"]:
        return "the trace has no frequency, so the distance of the replay is unknown"
    points = [distance / 1000 for distance in check["freq_distance"]]
    residency = f"{', '.join(f'{distance:.1f}' for distance in points)} points"
    if len(points) > LISTED:
        residency = f"{max(points):.1f} points (the most of {len(points)} policies)"
    near = "near" if check["near"] else "NOT near"
    energy = f"energy within {check['energy_distance'] / 1000:.1f} %" if check["energy_known"] else "energy not known,"
    return f"frequency residency within {residency}, {energy} of the trace: {near}"


def between_points(path: Path, machine: _opplab.Machine) -> list[str]:
    """Report policies whose recorded clocks are none of the machine's points: a residency does not see how far off."""
    from opplab.cpulist import cpus_in
    from opplab.trace.recording import Trace

    events = Trace(path).events("cpu_frequency", missing_ok=True)
    if "cpu_id" not in events.columns:
        return []
    said = []
    for cluster in machine.describe()["clusters"]:
        own = events.filter(events["cpu_id"].is_in(cpus_in(cluster["cpus"])))["state"].unique()
        others = own.filter(~own.is_in([opp["khz"] for opp in cluster["opps"]]))
        if len(others):
            counted = "residency and energy count" if cluster["opps_only"] else "residency counts"
            exact = "work and the mean clock" if cluster["opps_only"] else "energy, work and the mean clock"
            said.append(
                f"{len(others)} of {len(own)} recorded clocks of {cluster['name']} are none of its operating points "
                f"on {machine.name}: {counted} them as the next higher one, {exact} as recorded"
            )
    return said


def count_text(mean: float) -> str:
    """Give a count; the mean of several has the digits that it needs."""
    return f"{mean:.0f}" if float(mean).is_integer() else f"{mean:.4g}"


def _late_latencies(check: dict[str, Any]) -> str:
    """Report that wake-up latencies are not near the trace's, so that lateness is not the trace's either."""
    off = []
    for metric in check["metrics"]:
        percentile = metric["metric"].removeprefix("wake-up latency ")
        if percentile in ("p95", "p99") and metric["verdict"] == "not near" and metric.get("recorded"):
            off.append(f"{percentile} {100 * (metric['replayed'] / metric['recorded'] - 1):+.0f} %")
    if not off:
        return ""
    return f"Wake-up latencies are not near the trace's ({', '.join(off)}): other tasks may be late."


def missed_in_runs(check: dict[str, Any]) -> tuple[float, str] | None:
    """Give the activations that the runs of a trace's work missed, in the mean, in words with what the trace has."""
    found = next((metric for metric in check["metrics"] if metric["metric"] == MISSED), None)
    if found is None:
        return None
    runs = [ours for ours, *_ in found["runs"]]
    trace = f"the trace has {found['recorded']}" if "recorded" in found else f"{found['verdict']}"
    mean, after_s = fmean(runs), check["measured_from_ns"] / 1e9
    words = (
        f" After the first {after_s:g} s the mean of {len(runs)} runs of this work is {count_text(mean)}, "
        f"as `opplab replay` has it ({trace})."
    )
    if late := _late_latencies(check):
        words += f" {late}"
    if check["late"] > mean:
        # The recovered timers of a task that fell behind may be as late as it was.
        words += f" {check['late_words']}: the trace's own misses are more than the runs'."
    if check["unjudged"]:
        names = ", ".join(check["unjudged"])
        words += f" Outside of these counts: {names}, awake for more than half of the trace."
    return max(mean, check["late"]), words


def assumed(found: dict[str, Any]) -> list[str]:
    """Give what a replay's joules and times rest on where the recording does not show it."""
    power = "power: not known; assumed 1 W at the highest frequency of the biggest CPU, by its cube"
    speed = f"speed: {FIXED_SPEED}"
    words = [text for key, text in (("assumed_power", power), ("fixed_speed", speed)) if found[key]]
    return [*words, *[f"note: {note}" for note in found["notes"]]]


def _distances(whole: dict[str, int]) -> list[str]:
    return [f"{name} within {whole[key] / 1000:.1f} %" for key, name in WHOLE.items() if key in whole]


def whole_text(check: dict[str, Any]) -> str:
    """Report how far a replay under its own policy is from the trace, CPUs together."""
    parts = _distances(check["whole"])
    verdict = (
        "NOT near" if not check["whole_near"] else "near" if len(parts) == len(WHOLE) else "not all is in the trace"
    )
    return f"as a whole: {', '.join(parts)}: {verdict} (15 % are near)"


def streams_text(check: dict[str, Any]) -> list[str]:
    """Report how CPUs run in a closed loop whose recorded ones shared a stream, if both ways were tried."""
    if "streams" not in check:
        return []
    other = ", ".join(_distances(check["streams"]["other"]))
    if not check["streams"]["shared"]:
        return [
            "CPUs run apart, though the recorded ones shared one instruction stream. By this self-check they are not "
            f"to share it: then {other}"
        ]
    return [
        "CPUs share one instruction stream, as the recorded ones did. This self-check chose that, so that its "
        f"distances are optimistic. With CPUs apart: {other}"
    ]


def self_check(check: dict[str, Any]) -> str:
    """Give the line that every answer from a recording has."""
    return f"self-check: {check_text(check)} (5 points and 5 % are near)"


def energy_error(check: dict[str, Any]) -> float:
    """Give the error of a replay's energy in percent: no change within it is significant; 0 where it is not known."""
    return check["energy_distance"] / 1000 if check["checked"] and check["energy_known"] else 0.0
