"""What an answer does not hold: refused settings, power that is not the CPUs', models that were not measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from opplab.cpulist import cpus_in, listed
from opplab.errors import CaseError
from opplab.fit.machine_class import SERVER_PROFILES
from opplab.kernel import KernelProfile
from opplab.report.start import in_words
from opplab.simulation.cases import Case
from opplab.simulation.machine_marks import unknown_turbo
from opplab.simulation.power import known_power
from opplab.sweep.drivers import (
    ACTIVE,
    driver_names,
    driver_under,
    has_hwp,
    no_epp,
    numbered_epp,
    refused_epp,
    younger_driver,
)
from opplab.sweep.experiments import Experiment
from opplab.sweep.missing import idle_in_words, missing, unknown_idle
from opplab.sweep.taken import RATE, kept_rate, refusal

T = TypeVar("T")

_EAS_OFF = 50.0
"""Percent of a run's time."""
_LONE_BOOST = "lone-core-only"
"""The mark of an import that knows the boost of one active core only."""

_HELD_BUSY = 0.4
"""CPUs that may be busy under a clock that was held: what is busy for less asks for less than this clock."""
_HELD_CHANGES = 2.0
"""Changes of the clock a second, of all policies together, that are those of the start."""
_SPIN_NS = 1_000_000
"""From how long on a task that waits running holds up others on its CPU."""
_FAIR_SERVER_UTIL = 51
"""The bandwidth of a fair server, 50 ms of each second, of 1024 (fair_server_init(), v6.12)."""
_MOSTLY = 0.5
"""The share of a run's power from which what packages draw at any load is named."""


def ignored(policy: Mapping[str, Any], driver: str, machine: Mapping[str, Any]) -> list[str]:
    """Name settings of a policy that the driver refuses, or has no file for.

    Parameters
    ----------
    policy, machine : mapping
        As a case's JSON has them.

    Examples
    --------
    >>> hwp, none = {"cluster": [{"hwp": {"highest": 34}}]}, {"cluster": [{}]}
    >>> ignored({"governor": "performance", "epp": "power"}, "intel_pstate", hwp)
    ['intel_pstate refuses the preference power under its governor performance']
    >>> ignored({"governor": "performance", "epp": "power"}, "intel_pstate", none)
    ['intel_pstate has no energy performance preference without HWP: epp does nothing']
    >>> ignored({"governor": "powersave", "epp": "power", "no_hwp": True}, "intel_pstate", hwp)
    ['intel_pstate has no energy performance preference without HWP: epp does nothing']
    >>> ignored({"governor": "powersave", "hwp_dynamic_boost": "on", "kernel": "4.17"}, "intel_pstate", hwp)
    ['gate hwp_dynamic_boost is absent in kernel 4.17: on does nothing; skylake-servers is a kernel with it']
    >>> for words in ignored({"freq_max": "mid", "epp": "power"}, "scmi", {"invariance": "freq-change", **none}):
    ...     print(words)
    scmi states the share of the highest clock itself: freq_max is of x86's counters, and does nothing
    scmi has no energy performance preference: epp does nothing
    """
    words = []
    if policy.get("freq_max") and machine.get("invariance") == "freq-change":
        words.append(
            f"{driver} states the share of the highest clock itself: freq_max is of x86's counters, and does nothing"
        )
    if (states := policy.get("idle_disable")) and policy.get("idle_governor") == "haltpoll":
        words.append(f"haltpoll does not look at disabled idle states: idle_disable {','.join(states)} does nothing")
    dynamic = policy.get("hwp_dynamic_boost", "auto")
    if refused := no_epp(driver, machine, policy) or refused_epp(driver, policy):
        words.append(refused)
    elif numbered := numbered_epp(driver, policy):
        words.append(f"{numbered}, which the runs have")
    off = bool(policy.get("no_hwp")) and driver.startswith("intel") and dynamic != "auto"
    on = dynamic == "on" and driver == "intel_pstate"
    if off or (on and not has_hwp(machine)):
        words.append(f"without HWP there is no hwp_dynamic_boost: {dynamic} does nothing")
    elif dynamic == "on" and driver == "intel_cpufreq":
        words.append(f"{driver} has no hwp_dynamic_boost: on does nothing")
    elif on and _gate_of(policy, "hwp_dynamic_boost") == "absent":
        absent = f"gate hwp_dynamic_boost is absent in kernel {policy['kernel']}: on does nothing"
        words.append(f"{absent}; skylake-servers is a kernel with it")
    return words


def _gate_of(policy: Mapping[str, Any], name: str) -> str:
    """Give the value of a gate in a policy's kernel; empty where it names no kernel."""
    if not policy.get("kernel"):
        return ""
    return str({**dict(KernelProfile(policy["kernel"]).gates()), **policy.get("gates", {})}[name])


def _is_boost_unknown(machine: Mapping[str, Any], policy: Mapping[str, Any], driver: str) -> bool:
    """Whether the boost after I/O hangs on the model of a processor that the machine's file does not name."""
    server = machine.get("pm_profile") in SERVER_PROFILES
    asks = server and machine.get("processor") is None and has_hwp(machine) and driver == "intel_pstate"
    own = policy.get("hwp_dynamic_boost", "auto") == "auto" and not policy.get("no_hwp")
    return (
        asks
        and own
        and policy.get("governor") != "performance"
        and _gate_of(policy, "hwp_dynamic_boost") == "skylake-servers"
    )


def caveats(experiment: Experiment, powers_w: Iterable[tuple[str, float | None]]) -> str:
    """Give the sentences; `powers_w`: machine and power of each line."""
    of = of_power(machines_of(experiment), list(powers_w))
    left_out = [f"{words}." for words in (*experiment.notes, *experiment.disk_notes)]
    return " ".join([*left_out, *_modes(experiment), *of_settings(experiment.cases, experiment.pairs), *of])


def machines_of(experiment: Experiment) -> dict[str, Any]:
    """Give the machines of an experiment, by name, as a case's JSON has them."""
    cases = {case.machine: case for case in experiment.cases}
    return {name: case.file["machine"] for name, case in cases.items()}


def of_settings(cases: Iterable[Case], pairs: Sequence[tuple[str, str]] = ()) -> list[str]:
    """Name settings that do nothing, drivers that differ between `pairs`, and what nobody measured of settings."""
    cases = list(cases)
    each = {(case.machine, case.policy): case for case in cases}
    files = {place: case.file for place, case in each.items()}
    drivers = {place: driver_under(file["machine"], file["policy"]) for place, file in files.items()}
    settings: dict[str, list[str]] = {}
    for (name, label), file in files.items():
        policy, driver = file["policy"], drivers[name, label]
        kept = kept_rate(file["machine"], policy)
        refused = [refusal(dict(policy["tunables"])[RATE], kept)] if kept else []
        younger = younger_driver(driver, policy)
        for words in (*refused, *([younger] if younger else []), *ignored(policy, driver, file["machine"])):
            settings.setdefault(words, [])
            settings[words] += [label] if label not in settings[words] else []
    notes = [f"{', '.join(labels)}: {words}." for words, labels in settings.items()]
    unknown = {
        (name, file["policy"]["kernel"]): None
        for (name, label), file in files.items()
        if _is_boost_unknown(file["machine"], file["policy"], drivers[name, label])
    }
    notes += [
        f"{name} has no [processor]: kernel {kernel} boosts after I/O by default on Skylake servers only, and it is "
        "taken for none (hwp_dynamic_boost)."
        for name, kernel in unknown
    ]
    notes += [f"{words}." for words in missing(cases)]
    # Where no energy is known at all, that is what is named.
    powered = {place: file for place, file in files.items() if all(known_power(file["machine"]))}
    beside = [*unlike_drivers(drivers, pairs), *(f"{words}." for words in idle_in_words(unknown_idle(powered, pairs)))]
    of_preferences = (preferences_by_kernel, assumed_preferences, preference_at_boot)
    return [*notes, *crowded(cases), *beside, *(words for of in of_preferences for words in of(each.values()))]


def crowded(cases: Iterable[Case]) -> list[str]:
    """Name benchmarks whose tasks are more than the CPUs that they may use: bound ones, and those that wait running."""
    bound: dict[tuple[str, str], dict[int, None]] = {}
    waiting: dict[tuple[str, int], dict[int, None]] = {}
    places = {(case.machine, case.policy, case.benchmark, case.param): case for case in cases}
    for (_, label, benchmark, _), case in places.items():
        file = case.file
        work = file["workload"]
        if not work.get("metric"):
            continue
        tasks, cpus = work["tasks"], len(_open_cpus(file["machine"], file["policy"]))
        spin = sum(op[0] == "spin_barrier" and op[2] >= _SPIN_NS for task in tasks for op in task["ops"])
        if spin > cpus:
            waiting.setdefault((label, cpus), {})[spin] = None
        sets = Counter(task["cpus"] for task in tasks if task["cpus"] is not None)
        for index, number in sets.items():
            own = work["cpu_sets"][index]
            if number > len(own):
                words = f"CPU{'s' * (len(own) > 1)} {listed(own)}"
                bound.setdefault((benchmark, words), {})[number] = None
    return [
        f"{benchmark}: {_counts(numbers)} tasks share {words}, to which parameters of the model bind them."
        for (benchmark, words), numbers in bound.items()
    ] + [
        f"{label}: {_counts(numbers)} tasks that run while they wait share {cpus} CPUs, so that each step takes "
        "several slices; MPI and OpenMP yield there, and the model does not."
        for (label, cpus), numbers in waiting.items()
    ]


def _counts(numbers: Iterable[int]) -> str:
    low, *_, high = sorted([*numbers] * 2)
    return f"{low}" if low == high else f"{low} to {high}"


def _open_cpus(machine: Mapping[str, Any], policy: Mapping[str, Any]) -> set[int]:
    """Give the CPUs that are online, and open to tasks that name none."""
    cores = [cpus_in(core) for core in machine["topology"]["core"]]
    kept = {cpu for core in cores for cpu in (sorted(core)[:1] if policy.get("nosmt") else core)}
    return kept - {cpu for key in ("offline_cpus", "isolcpus") for cpu in cpus_in(policy.get(key) or [])}


def of_power(machines: Mapping[str, Mapping[str, Any]], powers_w: Sequence[tuple[str, float | None]]) -> list[str]:
    """Name what energy and power hold beside the CPUs' work, and what they lack."""
    notes = []
    for name, machine in machines.items():
        powers = [power for of, power in powers_w if of == name and power]
        notes += beside_cpus(name, machine, is_powered=bool(powers))
        if counts_idle_as_nothing(machine):
            notes.append(
                f"{name} has no power of idle states and clusters: they count as 0, so that joules are too few."
            )
        notes += _awake(name, machine, powers)
    return notes


def beside_cpus(name: str, machine: Mapping[str, Any], *, is_powered: bool = True) -> list[str]:
    """Name who draws beside the CPUs: consumers, and, where power is known, what is always on."""
    notes = []
    if who := ", ".join(str(consumer["name"]) for consumer in machine.get("consumer", [])):
        notes.append(f"Energy and power of {name} are its CPUs': {who} draws beside them (energy:{who}).")
    if (floor_w := machine.get("floor_uw", 0) / 1e6) and is_powered:
        notes.append(
            f"Energy and power of {name} are its CPUs': {floor_w:g} W more, always on (floor_uw), are in power:rest."
        )
    return notes


def unlike_drivers(drivers: Mapping[tuple[str, str], str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Name policies that are compared under two cpufreq drivers although their labels name none.

    A governor chooses the mode of its driver: schedutil runs in the passive one, and powersave in the active one.

    Examples
    --------
    >>> drivers = {("nuc", "schedutil"): "intel_cpufreq", ("nuc", "powersave"): "intel_pstate"}
    >>> unlike_drivers(drivers, [("schedutil", "powersave")])
    ['powersave runs under intel_pstate, and schedutil under intel_cpufreq: changes on nuc are of the driver, too.']
    """
    found: dict[tuple[str, str, str, str], list[str]] = {}
    for base, variant in pairs:
        for machine in dict.fromkeys(name for name, _ in drivers):
            ours, theirs = drivers.get((machine, variant), ""), drivers.get((machine, base), "")
            if ours and theirs and ours != theirs and ours not in variant:
                found.setdefault((base, theirs, ours, machine), []).append(variant)
    return [
        f"{', '.join(variants)} {'runs' if len(variants) == 1 else 'run'} under {ours}, and {base} under {theirs}: "
        f"changes on {machine} are of the driver, too."
        for (base, theirs, ours, machine), variants in found.items()
    ]


def own_modes(
    machine: Mapping[str, Any],
    policies: Mapping[str, Mapping[str, Any]],
    bases: Container[str],
    name: str = "the machine",
) -> list[str]:
    """Name what a governor's name hides: powersave of a driver in active mode, and a mode that is not the one at boot.

    Parameters
    ----------
    machine, policies : mapping
        As a case's JSON has them, policies by their labels.
    bases : container of str
        Policies whose driver is named: of a variant that is what differs from its baseline's (`unlike_drivers`).
    name : str
        Of the machine, in sentences.

    Examples
    --------
    >>> nuc = {"driver": [{"name": "intel_pstate"}, {"name": "intel_cpufreq"}]}
    >>> each = {"schedutil": {"governor": "schedutil"}, "powersave": {"governor": "powersave"}}
    >>> for words in own_modes(nuc, each, ["schedutil"]):
    ...     print(words)
    schedutil runs under intel_cpufreq, and the machine boots with intel_pstate.
    powersave is intel_pstate's own governor, of which driver or firmware choose the clock: cpufreq's keeps the lowest.
    >>> own_modes({"driver": [{"name": "scmi"}]}, each, ["powersave"])
    []
    """
    boot = next(iter(driver_names(machine)), "")
    drivers = {label: driver_under(machine, policy) for label, policy in policies.items()}
    others: dict[str, list[str]] = {}
    for label, driver in drivers.items():
        if boot and driver != boot and label in bases:
            others.setdefault(driver, []).append(label)
    words = [
        f"{in_words(labels)} {'runs' if len(labels) == 1 else 'run'} under {driver}, and {name} boots with {boot}."
        for driver, labels in others.items()
    ]
    powersave = [label for label, policy in policies.items() if policy["governor"] == "powersave"]
    for driver in dict.fromkeys(drivers[label] for label in powersave if drivers[label] in ACTIVE):
        does = "of which driver or firmware choose the clock: cpufreq's keeps the lowest"
        words.append(f"powersave is {driver}'s own governor, {does}.")
    return words


def _modes(experiment: Experiment) -> list[str]:
    """Give the same of each machine; where nothing is compared, each policy is a baseline."""
    words: list[str] = []
    for name, machine in machines_of(experiment).items():
        own = {case.policy: case.file["policy"] for case in experiment.cases if case.machine == name}
        bases = {base for base, variant in experiment.pairs if {base, variant} <= set(own)}
        words += own_modes(machine, own, bases or own, name)
    return list(dict.fromkeys(words))


def counts_idle_as_nothing(machine: Mapping[str, Any]) -> bool:
    """Whether a machine has power of all busy CPUs, and none of anything else."""
    clusters = machine["cluster"]
    busy = all(known_power(machine))
    rest = any(
        any(state.get("uw") for state in cluster.get("idle", ()))
        or any(opp.get("cluster_uw") for opp in cluster["opp"])
        or any(state.get("uw") for state in cluster.get("cluster_idle", ()))
        or any("cluster_idle_" in key for key in cluster)
        for cluster in clusters
    )
    return busy and not rest and not machine.get("floor_uw")


MEASURED = 128
"""The energy preference at which HWP was measured."""


def preference_of(case: Case) -> int | None:
    """Give the energy preference under which intel_pstate's active mode starts; None under others, or of several."""
    if driver_under(case.file["machine"], case.file["policy"]) != "intel_pstate":
        return None
    assumed = _of_runnable(case.inner.assumed_preferences)
    return None if assumed is None or len(assumed) > 1 else (*assumed, MEASURED)[0]


def _of_runnable(ask: Callable[[], T]) -> T | None:
    """Give what a case's part answers; None of one that does not run, and is named for that elsewhere."""
    try:
        return ask()
    except CaseError:
        return None


def preferences_by_kernel(cases: Iterable[Case]) -> list[str]:
    """Name the preferences whose value hangs on the kernel, as each has its own for a processor's model."""
    found: dict[tuple[str, str, str], dict[int, dict[str, None]]] = {}
    for case in cases:
        policy = case.file["policy"]
        if (epp := preference_of(case)) is not None:
            asked = case.file["machine"]["name"], str(policy.get("epp") or ""), policy["governor"]
            found.setdefault(asked, {}).setdefault(epp, {})[policy["kernel"]] = None
    notes = []
    for (machine, name, _), values in found.items():
        which = f"energy preference {name}" if name else "default energy preference"
        each = [f"{epp} under Linux {', '.join(kernels)}" for epp, kernels in values.items()]
        if len(each) > 1:
            notes.append(f"{machine}'s {which} is {in_words(each)}: the kernel's own for this processor, and no gate.")
    return list(dict.fromkeys(notes))


def assumed_preferences(cases: Iterable[Case]) -> list[str]:
    """Name the energy preferences of which nobody measured what the firmware makes of them; no draw is of that."""
    found: dict[str, dict[int, list[str]]] = {}
    for case in cases:
        name = str(case.file["policy"].get("epp") or "default")
        driver = driver_under(case.file["machine"], case.file["policy"])
        measured = "none was measured on AMD" if driver.startswith("amd") else f"only {MEASURED} was measured"
        for epp in _of_runnable(case.inner.assumed_preferences) or ():
            names = found.setdefault(measured, {}).setdefault(epp, [])
            names += [name] if name not in (*names, str(epp)) else []
    notes = []
    for measured, each in found.items():
        which = ", ".join(f"{epp} ({', '.join(each[epp])})" if each[epp] else str(epp) for epp in sorted(each))
        notes.append(
            f"What the firmware makes of the energy preference {which} is assumed, and in no draw: {measured}."
        )
    return notes


_LEAST_IS_ASKED = ("schedutil", "ondemand", "conservative")
"""Governors whose frequency is the firmware's least in guided mode (amd-pstate.c:amd_pstate_update(), v6.12)."""


def preference_at_boot(cases: Iterable[Case]) -> list[str]:
    """Name settings under AMD's firmware whose clocks hang on the preference that it has at boot."""
    found: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for case in cases:
        driver = driver_under(case.file["machine"], case.file["policy"])
        if driver not in ("amd-pstate-epp", "amd-pstate-guided"):
            continue
        if (facts := _of_runnable(case.inner.facts)) is None:
            continue
        unnamed = case.file["policy"].get("epp") in (None, "", "default")
        asked = facts["governor"] == "powersave" and unnamed and (facts["epp"] or (None,))[0] == 0
        if asked if driver == "amd-pstate-epp" else facts["governor"] in _LEAST_IS_ASKED:
            found[case.policy] = None
            unspecified = case.file["machine"].get("pm_profile", "unspecified") == "unspecified"
            if (
                driver == "amd-pstate-epp"
                and unspecified
                and _gate_of(case.file["policy"], "amd_epp_default") == "balanced"
            ):
                unknown[case.machine] = None
    if not found:
        return []
    hangs = (
        f" {', '.join(unknown)}: with a `pm_profile` of no server (`mobile`, `desktop`) it is the driver's own "
        "`balance_performance` from 6.14 on."
    )
    return [
        f"{', '.join(found)}: the firmware's energy preference at boot is taken for 0, at which it takes the highest "
        f"level at any load; no machine file has it.{hangs if unknown else ''}"
    ]


def boosted_cpus(run: Mapping[str, float | None], clusters: Sequence[Mapping[str, Any]]) -> float:
    """Give how many CPUs a run has above the clock without boost on average, of the cluster that has most.

    Examples
    --------
    >>> clusters = [{"name": "pkg0", "cpus": "0-127", "base_khz": 2_250_000}]
    >>> boosted_cpus({"busy:pkg0@2250000": 3.0, "busy:pkg0@2300000": 2.5, "busy:pkg0@3400000": 5.0}, clusters)
    9.6
    """
    most = 0.0
    for cluster in clusters:
        base_khz, head = cluster.get("base_khz") or 0, f"busy:{cluster['name']}@"
        shares = {name.removeprefix(head): share or 0.0 for name, share in run.items() if name.startswith(head)}
        percent = sum(share for clock, share in shares.items() if clock.isdecimal() and int(clock) > base_khz > 0)
        most = max(most, percent / 100 * len(cpus_in(cluster["cpus"])))
    return most


def unknown_boost(name: str, machine: Mapping[str, Any], policies: Iterable[Mapping[str, Any]], cpus: float) -> str:
    """Report that a machine's boost is unknown, or that several cores ran at the boost that is known of one alone.

    Parameters
    ----------
    machine, policies : mapping
        As a case's JSON has them.
    cpus : float
        `boosted_cpus` of the run that boosts most.
    """
    if any(not policy.get("no_turbo") for policy in policies) and (unknown := unknown_turbo(name, machine)):
        return unknown
    mark = str(machine.get("source", {}).get("default.cluster.turbo", ""))
    bins = [each for cluster in machine["cluster"] if len(each := cluster.get("turbo", ())) == 1]
    if not mark.startswith(_LONE_BOOST) or not bins or cpus <= 1:
        return ""
    ghz = max(each[0]["khz"] for each in bins) / 1e6
    return (
        f"{cpus:.3g} busy CPUs of a package of {name} boost as one core alone does, to {ghz:.2f} GHz: "
        "what more cores get is unknown, and in no draw"
    )


def eas_off(shares: Mapping[tuple[Any, str], Sequence[float | None]], policies: Mapping[str, Mapping[str, Any]]) -> str:
    """Report the runs of variants in which energy-aware placement was off for overload most of the time.

    Where it was off in all runs or none of each point, that is named only if the question is of energy-aware
    scheduling. Where a point has both, its mean is of two states, and every variant is named that has it off.

    Parameters
    ----------
    shares : mapping
        The metric ``overutilized`` of each run, in percent, by point and variant.
    policies : mapping
        Keys of each variant.

    Examples
    --------
    >>> eas_off({("t", "EAS"): [0.6, 99.8, 1.0], ("t", "no EAS"): [0.0, 0.0, 0.0]}, {"EAS": {}, "no EAS": {}})
    'Energy-aware placement was off for overload most of the time in 1 of 3 runs of EAS (metric overutilized).'
    >>> eas_off({("t", "a"): [99.0, 0.0], ("u", "a"): [99.0, 99.0], ("u", "b"): [99.0, 99.0]}, {"a": {}, "b": {}})[-63:]
    'in 3 of 4 runs of a and 2 of 2 runs of b (metric overutilized).'
    """
    asked = any(len({keys.get(name) for keys in policies.values()}) > 1 for name in ("eas", "energy_model"))
    found: dict[str, tuple[int, int]] = {}
    for (_, variant), of in shares.items():
        off = sum((share or 0.0) >= _EAS_OFF for share in of)
        asked = asked or 0 < off < len(of)
        before = found.get(variant, (0, 0))
        found[variant] = before[0] + off, before[1] + len(of)
    found = {variant: (off, runs) for variant, (off, runs) in found.items() if off}
    if not asked or not found:
        return ""
    words = in_words([f"{off} of {runs} runs of {variant}" for variant, (off, runs) in found.items()])
    return f"Energy-aware placement was off for overload most of the time in {words} (metric overutilized)."


def held_clocks(
    cases: Iterable[Case], runs: Mapping[tuple[tuple[str, str, str], str], Mapping[int, Mapping[str, float | None]]]
) -> str:
    """Name the policies under which light work kept the clock of the run's start, as no CPU's tick stopped in idle.

    Tasks that wait for I/O ask for a high clock themselves, unless their boost is off.

    Parameters
    ----------
    runs : mapping
        The metrics of each run by (point, policy) and seed.
    """
    each = {(case.point, case.policy): case for case in cases}
    labels = []
    for key, case in each.items():
        of = [] if key not in runs else runs[key].values()
        file = case.file
        if file["policy"].get("governor") != "schedutil" or file["workload"].get("nr_background") or not of:
            continue
        if _waits_for_io(file["workload"]) and not _lacks_iowait_boost(file["policy"]):
            continue
        lowest = _lowest_khz(file["machine"], file["policy"])
        if all(_is_held(run, file["machine"]["cluster"], lowest, case.duration_ns / 1e9) for run in of):
            labels.append(case.policy)
    if not labels:
        return ""
    who = ", ".join(dict.fromkeys(labels))
    return (
        f"The clock under {who} is that of the first milliseconds: schedutil keeps it where a CPU's tick did not stop "
        "in idle between two reports. --background NAME adds the work of an idle system, under which clocks fall."
    )


def _waits_for_io(work: Mapping[str, Any]) -> bool:
    """Whether a task of a case's workload sleeps in iowait."""
    ops = (op for task in work["tasks"] for op in task["ops"])
    return any(op[0] in ("io", "io_end") or (op[0] == "call" and op[2]) for op in ops)


def _lacks_iowait_boost(policy: Mapping[str, Any]) -> bool:
    """Whether schedutil's boost after I/O is off, by the proposal and its parameter ``governor``.

    Examples
    --------
    >>> given = [[], ["no-iowait-boost"], ["headroom", "no-iowait-boost:intel=0"], ["no-iowait-boost:governor=0"]]
    >>> [_lacks_iowait_boost({"proposals": proposals}) for proposals in given]
    [False, True, True, False]
    """
    found = (one.partition(":") for one in policy.get("proposals", ()))
    return any(name == "no-iowait-boost" and "governor=0" not in given.split(",") for name, _, given in found)


def _lowest_khz(machine: Mapping[str, Any], policy: Mapping[str, Any]) -> dict[str, int]:
    """Give the lowest clock that schedutil asks for, of the clusters whose policies have one CPU.

    It keeps a clock of policies of one CPU only (sugov_update_single_freq(), v6.12).  Its least is the bandwidth of
    deadline tasks, and the fair server is one on each CPU.
    """
    gates = policy.get("gates") or {}
    served = gates.get("fair_server") or KernelProfile(policy["kernel"]).show("fair_server")
    least_util = _FAIR_SERVER_UTIL if served == "present" else 0
    set_khz = policy.get("scaling_min_freq") or 0
    lowest = {}
    for cluster in machine["cluster"]:
        share = cluster.get("policy", "shared")
        sets = [cluster["cpus"]] if share == "shared" else machine["topology"]["core"] if share == "core" else []
        if any(len(cpus_in(cpus)) > 1 for cpus in sets):
            continue
        opps_khz = sorted(opp["khz"] for opp in cluster["opp"])
        least_khz = max(
            opps_khz[-1] * least_util / cluster["capacity"],
            set_khz.get(cluster["name"], 0) if isinstance(set_khz, Mapping) else set_khz,
        )
        lowest[cluster["name"]] = next((khz for khz in opps_khz if khz >= least_khz), opps_khz[-1])
    return lowest


def _is_held(
    run: Mapping[str, float | None],
    clusters: Sequence[Mapping[str, Any]],
    lowest_khz: Mapping[str, int],
    seconds: float,
) -> bool:
    """Report whether a run's clock hardly changed although its work asks for far less."""
    changes = sum(value or 0.0 for name, value in run.items() if name.startswith("freq_changes:"))
    busy, above = 0.0, 0.0
    for cluster in clusters:
        shares = {name: value or 0.0 for name, value in run.items() if name.startswith(f"busy:{cluster['name']}@")}
        cpus = len(cpus_in(cluster["cpus"]))
        busy += sum(shares.values()) / 100 * cpus
        if least := lowest_khz.get(cluster["name"]):
            above += sum(share for name, share in shares.items() if int(name.rpartition("@")[2]) > least) / 100 * cpus
    return changes <= _HELD_CHANGES * seconds and busy < _HELD_BUSY and above > busy / 2


def _awake(name: str, machine: Mapping[str, Any], powers_w: Sequence[float]) -> list[str]:
    """Report that packages without a sleep state draw most of a run's power whatever it does."""
    clusters = machine["cluster"]
    if not powers_w or any(one.get("cluster_idle") or any("cluster_idle_" in key for key in one) for one in clusters):
        return []
    # Which package was awake is not known here: one that idles draws its idle power at least.
    each_uw = [[opp.get("cluster_idle_uw", opp.get("cluster_uw", 0)) for opp in one["opp"]] for one in clusters]
    is_idle = any("cluster_idle_uw" in opp for one in clusters for opp in one["opp"])
    awake_w = sum(min(of) for of in each_uw) / 1e6
    least, share = (100 * min(awake_w / power, 1) for power in (max(powers_w), min(powers_w)))
    if share < 100 * _MOSTLY:
        return []
    is_constant = not is_idle and all(len(set(of)) == 1 for of in each_uw)
    what = "packages even if all their CPUs idle" if is_idle else "packages awake"
    at = "at any load" if is_constant else "at their lowest clock"
    smaller = ", so that changes in percent are smaller than those of the CPUs" if is_constant else ""
    percent = f"{share:.0f} %" if f"{least:.0f}" == f"{share:.0f}" else f"{least:.0f} to {share:.0f} %"
    return [
        f"{awake_w:.3g} W of the power of {name} ({percent}) is its {what}, {at}: they have no "
        f"sleep state in the file{smaller}."
    ]
