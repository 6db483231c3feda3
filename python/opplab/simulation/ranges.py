"""The assumed numbers of a machine with their ranges, and the machine with other numbers from these ranges.

A range is a key of the machine file's ``[range]``. A number between two that are above 0 is drawn uniformly on a
logarithmic scale (half or double is as likely), others uniformly. Numbers of one key are off together: all operating
points of a cluster are too high or too low, by the same factor or at the same share of their own ranges. What the
kernel is given (an operating point's ``uw``, from which the energy model is made) stays as it is where the file gives
no other power: what is unsure is what the chip draws. Where ``busy_uw`` and ``cluster_uw`` of a cluster have ranges by
operating point, their sum was measured: what is not shared in a draw is the busy CPU's.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# A time may stand in any of these units; a draw is written in the first.
_UNITS = {"_ns": (("_ns", 1), ("_us", 1_000), ("_ms", 1_000_000)), "_uw": (("_uw", 1), ("_mw", 1_000))}
_CAPACITY_MAX = 1024


@dataclass(frozen=True)
class Assumption:
    """An assumed number, or the numbers of one kind that are off together."""

    key: str
    """As in the machine file's ``[range]``."""
    low: float
    high: float
    """`low` and `high`: in the unit of the key, or as factors of the file's value."""
    is_factor: bool
    whose: str = "the file's"
    """What the factors are of."""
    by_opp: tuple[tuple[float, float], ...] = ()
    """The factors of each operating point, where they have their own; `low` and `high` hold them all."""

    def at(self, share: float) -> float:
        """Give the number at a share of the probability, 0 to 1.

        Examples
        --------
        >>> Assumption("costs.tick_ns", 1000, 4000, False).at(0.5), Assumption("smt_power", 0, 780, False).at(0.5)
        (2000.0, 390.0)
        """
        return _between(self.low, self.high, share)

    @property
    def words(self) -> str:
        """The range as text."""
        if self.is_factor:
            of = f"{100 * self.low:.4g} to {100 * self.high:.4g} % of {self.whose}"
            return f"{of}, by operating point" if self.by_opp else of
        return f"{self.low:.9g} to {self.high:.9g}"


def _between(low: float, high: float, share: float) -> float:
    return low * math.exp(share * math.log(high / low)) if low > 0 else low + share * (high - low)


def pairs_of(ends: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Give the pairs of a range: one, or one an operating point."""
    return [(low, high) for low, high in (ends if isinstance(ends[0], list | tuple) else [ends])]


def shares_of(percent: Sequence[Any]) -> list[tuple[float, float]]:
    """Give the factors of ``percent`` in a ``[range]``: one pair, or a pair an operating point.

    Examples
    --------
    >>> shares_of([80, 125]), shares_of([[30, 350], [90, 110]])
    ([(0.8, 1.25)], [(0.3, 3.5), (0.9, 1.1)])
    """
    return [(low / 100, high / 100) for low, high in pairs_of(percent)]


def ends_in_words(ends: Sequence[Any]) -> str:
    """Give a range of `Machine.describe` as text.

    Examples
    --------
    >>> ends_in_words((1000, 4000)), ends_in_words([("30 %", "350 %"), ("90 %", "110 %")])
    ('1000 .. 4000', '30 % .. 350 %, 90 % .. 110 %')
    """
    return ", ".join(f"{low} .. {high}" for low, high in pairs_of(ends))


def assumptions_of(machine: Mapping[str, Any]) -> list[Assumption]:
    """Give the assumptions of a machine that a run depends on, in the order of its file.

    Parameters
    ----------
    machine : mapping
        A machine as a case's JSON has it.
    """
    found = []
    for key, value in machine.get("range", {}).items():
        pairs = shares_of(value["percent"]) if isinstance(value, Mapping) else [(float(value[0]), float(value[1]))]
        low, high = min(low for low, _ in pairs), max(high for _, high in pairs)
        if low < high and any(_targets(machine, key)):
            by_opp = tuple(pairs) if len(pairs) > 1 else ()
            found.append(Assumption(key, low, high, isinstance(value, Mapping), by_opp=by_opp))
    return found


def assumed_in_words(machine: Mapping[str, Any], name: str) -> str:
    """Count what is assumed of a machine: what draws vary, and the source marks of what they do not; empty if nothing.

    Examples
    --------
    >>> whole = {"cluster": [{"name": "x"}], "costs": {"tick_ns": 2000}, "range": {"costs.tick_ns": [1000, 4000]}}
    >>> assumed_in_words(whole | {"source": {"costs": "[A] a guess", "floor_uw": "[A] none"}}, "mine")
    '1 number of mine with a range and 1 source mark without'
    """
    numbers = len(assumptions_of(machine))
    # A range may be of one cluster and in another unit than the mark of its number.
    clusters = "|".join(re.escape(cluster["name"]) for cluster in machine["cluster"])
    ranged = {re.sub(rf"^cluster\.({clusters})\.", "cluster.", key) for key in machine.get("range", {})}
    without = sum(
        not any(key.startswith(re.sub(r"_[num][sw]$", "", mark.removeprefix("default."))) for key in ranged)
        for mark, words in machine.get("source", {}).items()
        if "[A]" in str(words) or "assumed" in str(words).lower()
    )
    found = [f"{numbers} number{'s' * (numbers != 1)} of {name} with a range"] if numbers else []
    if without:
        marks = f"{without} source mark{'s' * (without != 1)}"
        found.append(f"{marks} without" if numbers else f"{marks} of {name}, none with a range")
    return " and ".join(found)


def idle_latencies(states: Sequence[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Give names and exit latencies in us of a cluster's idle states, as sysfs has them.

    Examples
    --------
    >>> idle_latencies([{"name": "c2", "entry_latency_us": 70, "exit_latency_ns": 160_000}])
    [('c2', 230)]
    """
    return [(str(one["name"]), exit_latency_ns(one) // 1000) for one in states]


def exit_latency_ns(state: Mapping[str, Any]) -> int:
    """Give the exit latency of an idle state as the kernel has it, which holds the entry."""
    return int(number_in(state, "entry_latency_ns") + number_in(state, "exit_latency_ns"))


def with_draw(machine: Mapping[str, Any], assumptions: Sequence[Assumption], shares: Sequence[float]) -> dict[str, Any]:
    """Give the machine with the numbers at these shares of their ranges; it has no ranges itself."""
    drawn = copy.deepcopy(dict(machine))
    for assumption, share in zip(assumptions, shares, strict=True):
        _set(drawn, assumption, float(share))
    by_opp = {assumption.key for assumption in assumptions if assumption.by_opp}
    for own, cluster in zip(machine["cluster"], drawn["cluster"], strict=True):
        if by_opp.issuperset(f"cluster.{own['name']}.opp.{part}" for part in ("busy_uw", "cluster_uw")):
            _keep_sums(own["opp"], cluster["opp"])
    drawn.pop("range", None)
    return drawn


def _keep_sums(opps: Sequence[Mapping[str, Any]], drawn: Sequence[dict[str, Any]]) -> None:
    """Give the busy CPU what its cluster does not share in the draw: the sum has the range of `busy_uw`."""
    for opp, of in zip(opps, drawn, strict=True):
        busy, shared = number_in(opp, "busy_uw" if _name_in(opp, "busy_uw") else "uw"), number_in(opp, "cluster_uw")
        whole = round((busy + shared) * number_in(of, "busy_uw") / busy) if busy else 0
        if whole > 1:
            _put(of, "cluster_uw", min(round(number_in(of, "cluster_uw")), whole - 1))
            _put(of, "busy_uw", whole - round(number_in(of, "cluster_uw")))


def _set(machine: dict[str, Any], assumption: Assumption, share: float) -> None:
    drawn = assumption.at(share)
    targets = list(_targets(machine, assumption.key))
    values = [number_in(item, name) for item, name in targets]
    factor = drawn
    if not assumption.is_factor:
        middle = sorted(values)[len(values) // 2]
        # Different numbers that lie in one range keep their proportions.
        factor = drawn / middle if middle and len(set(values)) > 1 else 0.0
    factors = [_between(*ends, share) for ends in assumption.by_opp] or [factor] * len(targets)
    for (item, name), value, factor in zip(targets, values, factors, strict=True):
        number = round(value * factor if factor else drawn)
        if name == "capacity":
            number = min(max(number, 1), _CAPACITY_MAX)
        if name == "uw" and "khz" in item and "busy_uw" not in item:
            item["busy_uw"] = number
        else:
            _put(item, name, number)


def _targets(machine: Mapping[str, Any], key: str) -> Iterator[tuple[dict[str, Any], str]]:
    """Give the tables that hold the numbers of a key, and the number's name in them."""
    clusters: list[dict[str, Any]] = machine["cluster"]
    own = [cluster for cluster in clusters if key.startswith(f"cluster.{cluster['name']}.")]
    if key.startswith("cluster."):
        rest = key.removeprefix(f"cluster.{own[0]['name']}." if own else "cluster.")
        # A cluster's own range goes before that of all.
        chosen = own or [one for one in clusters if f"cluster.{one['name']}.{rest}" not in machine["range"]]
        group, dot, name = rest.rpartition(".")
        tables = [item for cluster in chosen for item in (cluster.get(group, ()) if dot else (cluster,))]
    else:
        group, dot, name = key.rpartition(".")
        inner = machine.get(group, ()) if dot else machine
        tables = [inner] if isinstance(inner, Mapping) else list(inner)
    biggest = max(cluster.get("capacity", 0) for cluster in clusters)
    for item in tables:
        # The biggest CPU is the unit of capacity, by definition: others are drawn against it.
        if name == "capacity" and item.get(name) == biggest:
            continue
        if _name_in(item, name) is not None:
            yield item, name
        elif name == "busy_uw" and "khz" in item and _name_in(item, "uw") is not None:
            # A point whose energy model's power is what it draws.
            yield item, "uw"


def _name_in(item: Mapping[str, Any], name: str) -> tuple[str, int] | None:
    """Find how a table calls a number, and the number of the key's units in one of the table's."""
    if name in item:
        return name, 1
    for end, units in _UNITS.items():
        if name.endswith(end):
            for unit, factor in units:
                if (other := name.removesuffix(end) + unit) in item:
                    return other, factor
    return None


def number_in(item: Mapping[str, Any], name: str) -> float:
    """Give a number of a table in the unit of `name`, in whatever unit the table has it; 0 where it has none.

    Examples
    --------
    >>> number_in({"exit_latency_us": 160}, "exit_latency_ns"), number_in({}, "exit_latency_ns")
    (160000.0, 0.0)
    """
    own, factor = _name_in(item, name) or (name, 0)
    return float(item.get(own, 0) * factor)


def has_number(item: Mapping[str, Any], name: str) -> bool:
    """Report whether a table has a number, in whatever unit."""
    return _name_in(item, name) is not None


def _put(item: dict[str, Any], name: str, number: int) -> None:
    found = _name_in(item, name)
    assert found is not None
    del item[found[0]]
    item[name] = number
