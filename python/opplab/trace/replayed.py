"""How near the replay of a recording under its own policy is to the recording."""

from __future__ import annotations

from typing import Any

__all__ = ["check_text", "self_check"]


FIXED_SPEED = "an emulator executed this as fast at every clock, so that lower clocks cost no time here"


def check_text(check: dict[str, Any]) -> str:
    """Report how far a replay under its own policy is from the trace."""
    if not check["checked"]:
        return "the trace has no frequency, so the distance of the replay is unknown"
    residency = ", ".join(f"{distance / 1000:.1f}" for distance in check["freq_distance"])
    near = "near" if check["near"] else "NOT near"
    energy = f"energy within {check['energy_distance'] / 1000:.1f} %" if check["energy_known"] else "energy not known,"
    return f"frequency residency within {residency} points, {energy} of the trace: {near}"


def assumed(found: dict[str, Any]) -> list[str]:
    """Give what a replay's joules and times rest on where the recording does not show it."""
    power = "power: not known; assumed 1 W at the highest frequency of the biggest CPU, by its cube"
    speed = f"speed: {FIXED_SPEED}"
    words = [text for key, text in (("assumed_power", power), ("fixed_speed", speed)) if found[key]]
    return [*words, *[f"note: {note}" for note in found["notes"]]]


def self_check(check: dict[str, Any]) -> str:
    """Give the line that every answer from a recording has."""
    return f"self-check: {check_text(check)} (5 points and 5 % are near)"
