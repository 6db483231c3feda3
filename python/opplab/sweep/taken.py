"""What stays where a kernel refuses the value of a tunable: rows, labels and commands have the value that runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.simulation.ranges import number_in
from opplab.sweep.drivers import driver_under, drivers_of

if TYPE_CHECKING:
    from opplab.simulation.cases import Case
    from opplab.sweep.variants import Variant


RATE = "sampling_rate"


def kept_rate(machine: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """Give the time between samples that stays, us, where a policy asks for one that its kernel refuses; else nothing.

    Parameters
    ----------
    machine, policy : mapping
        As a case's JSON has them.

    Examples
    --------
    >>> slow = {"name": "acpi-cpufreq", "transition_latency_us": 10}
    >>> ondemand = {"governor": "ondemand", "hz": 250, "kernel": "6.1", "tunables": {"sampling_rate": "500"}}
    >>> kept_rate({"driver": [slow]}, ondemand), kept_rate({"driver": [slow]}, ondemand | {"kernel": "6.12"})
    ('10000', '8000')
    >>> kept_rate({"driver": [slow]}, ondemand | {"tunables": {"sampling_rate": "8000"}})
    ''
    >>> kept_rate({"driver": [{"name": "cpufreq-dt"}]}, ondemand | {"kernel": "6.12"})
    '6442450'
    """
    asked, hz = _asked(policy), int(policy.get("hz", 0))
    rows = _opplab.governor_tunables()
    if (
        not asked.isdecimal()
        or not hz
        or not any((row["governor"], row["name"]) == (policy["governor"], RATE) for row in rows)
    ):
        return ""
    least_us = two_ticks_us(hz)
    if int(asked) >= least_us:
        return ""
    # Imports NumPy, which runs without such a value do not need.
    from opplab.kernel import KernelProfile

    profile = KernelProfile(policy["kernel"])
    for gate, value in dict(policy.get("gates", {})).items():
        profile.set(gate, value)
    name = driver_under(machine, policy)
    driver: Mapping[str, Any] = next((one for one in drivers_of(machine) if one["name"] == name), {})
    delay_ns, latency_ns = (int(number_in(driver, key)) for key in ("transition_delay_ns", "transition_latency_ns"))
    # cpufreq_governor.c:cpufreq_dbs_governor_init(), v6.12.
    default_us = profile.rate_limit_us(
        transition_delay_us=delay_ns // 1000, transition_latency_ns=latency_ns, driver=name
    )
    return str(max(least_us, default_us))


def two_ticks_us(hz: int) -> int:
    """Give the least time between samples (cpufreq_governor.c:sampling_rate_store(), v4.14 to v6.12).

    Examples
    --------
    >>> two_ticks_us(250), two_ticks_us(300)
    (8000, 6666)
    """
    return 2 * ((10**9 + hz // 2) // hz) // 1000


def refusal(asked: str, kept: str) -> str:
    """Give the words for a time between samples that is refused.

    Examples
    --------
    >>> refusal("1000", "8000")
    'the kernel refuses sampling_rate=1000, less than two ticks: its default, 8000, stays'
    """
    return f"the kernel refuses {RATE}={asked}, less than two ticks: its default, {kept}, stays"


def with_kept(label: str, asked: str, kept: str) -> str:
    """Give a label with the value that stays.

    Examples
    --------
    >>> with_kept("ondemand sampling_rate=1000 hz=1000", "1000", "2000")
    'ondemand sampling_rate=2000 hz=1000'
    """
    return re.sub(rf"\b{RATE}={re.escape(asked)}(?![^ ,])", f"{RATE}={kept}", label)


def as_taken(variants: Sequence[Variant], cases: Iterable[Case]) -> tuple[list[Variant], list[str]]:
    """Give variants with the values that stay, each once, and what was refused.

    One whose value depends on the machine stays as it was given.

    Parameters
    ----------
    cases : iterable of Case
        All that were made of them.
    """
    each = {(case.machine, case.policy): case for case in cases}
    made: list[Variant] = []
    words = []
    for variant in variants:
        one, asked = variant, _asked(variant.keys)
        own = [case.file for (_, label), case in each.items() if asked and label == variant.label]
        kept = {kept_rate(case["machine"], case["policy"]) for case in own}
        if len(kept) == 1 and (value := kept.pop()):
            keys = {**variant.keys, "tunables": {**variant.keys["tunables"], RATE: value}}
            one = replace(variant, keys=keys, label=with_kept(variant.label, asked, value))
            words.append(f"{variant.label}: {refusal(asked, value)}")
        if all(one.keys != other.keys for other in made):
            made.append(one)
    return made, words


def _asked(keys: Mapping[str, Any]) -> str:
    """Give the time between samples that keys of a policy ask for."""
    return str(dict(keys.get("tunables", {})).get(RATE, ""))
