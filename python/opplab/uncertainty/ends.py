"""Which assumptions move a value at all: runs with one number at the ends of its range, all else as the files have it.

A share of the draws' variance may be chance, however seldom that is: a number that the runs never read gets one, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from opplab.uncertainty.causes import Causes, Influence, standing_out
from opplab.uncertainty.draws import Draws, Point, Values

SAME = 1e-9
"""What values differ by that are equal but for rounding, as a share."""


@dataclass(frozen=True)
class Hanging:
    """A value, or a change, and what it hangs on over the draws."""

    point: Point
    """Machine, benchmark, parameters."""
    metric: str
    base: str
    variant: str
    """`base`, `variant`: policies; without a base the variant's own value."""
    causes: Causes
    in_points: bool = False
    """Whether the change is in percentage points."""


def moving(
    draws: Draws,
    hanging: Sequence[Hanging],
    values: Mapping[tuple[Point, str, str], Values],
    run: Callable[[Draws, dict[tuple[Point, str, str], Values]], object],
    beside: Collection[tuple[Point, str]] = (),
) -> list[Causes]:
    """Leave out what stands out in the draws and moves nothing by itself.

    Parameters
    ----------
    draws : Draws
    hanging : sequence of Hanging
    values : mapping
        What was measured at the files' own numbers, by point, policy and metric.
    run : callable
        Runs draws and sorts what comes of them into a mapping such as `values`.
    beside : collection of (Point, str)
        Points and policies that the values of `hanging` follow from, too.

    Returns
    -------
    list of Causes
        For each of `hanging`, what may be named, and what does not stand out.
    """
    asked: dict[tuple[str, str], set[tuple[Point, str]]] = {}
    for one in hanging:
        for influence in standing_out(_every(one.causes)):
            policies = {*beside, *((one.point, label) for label in (one.base, one.variant) if label)}
            asked.setdefault((one.point[0], influence.key), set()).update(policies)
    ends: dict[tuple[Point, str, str], Values] = {}
    if asked:
        run(draws.at_ends(asked), ends)
    places = {key: (2 * at + 1, 2 * at + 2) for at, key in enumerate(asked)}

    def moves(one: Hanging, key: str) -> bool:
        def with_ends(policy: str) -> Values:
            place = one.point, policy, one.metric
            drawn = ends.get(place, Values()).drawn
            of_key = {draw: drawn[draw] for draw in places[one.point[0], key] if draw in drawn}
            return Values(values[place].own, of_key)

        ours, theirs = with_ends(one.variant), with_ends(one.base) if one.base else None
        change = ours if theirs is None else ours.change_from(theirs, in_points=one.in_points)
        # What has no value at an end is otherwise there than at the file's number.
        return len(change.drawn) < len(places[one.point[0], key]) or any(
            abs(shift) > SAME * max(abs(value) for value in (*change.own.values(), 1.0))
            for shifts in change.shifts().values()
            for shift in shifts
        )

    def those(one: Hanging, found: Sequence[Influence]) -> list[Influence]:
        return [each for each in found if each not in standing_out([each]) or moves(one, each.key)]

    named = []
    for one in hanging:
        regime = one.causes.regime
        own = regime and replace(regime, deciding=those(one, regime.deciding))
        named.append(Causes(those(one, one.causes.influences), own))
    return named


def _every(causes: Causes) -> list[Influence]:
    return [*causes.influences, *(causes.regime.deciding if causes.regime else ())]
