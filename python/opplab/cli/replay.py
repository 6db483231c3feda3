"""`opplab replay` and `opplab trace to-rtapp`: what a trace would have been under another policy."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from math import hypot, isfinite, sqrt
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from opplab import _opplab, catalog, stats
from opplab.certainty import change_text
from opplab.cli.options import (
    NameOf,
    check_freq_max,
    format_option,
    freq_max_option,
    half_life_option,
    note,
    output_option,
    pairs_option,
    trace_argument,
    trace_machine_option,
    vs_option_of,
)
from opplab.comparison.method import change_of
from opplab.cpulist import cpus_in
from opplab.errors import InputError
from opplab.explanation.slow import late_tasks
from opplab.files import write_text
from opplab.report.numbers import some_of
from opplab.report.text import flow, print_table, render_table, terminal_width
from opplab.simulation.machine import Machine
from opplab.sweep.taken import RATE, kept_rate, refusal, with_kept
from opplab.sweep.variants import with_variants
from opplab.trace.recording import Trace
from opplab.trace.replayed import (
    MISSED,
    assumed,
    between_points,
    check_text,
    count_text,
    self_check,
    streams_text,
    whole_text,
)

TRACE = trace_argument("trace", exists=True)
MACHINE = trace_machine_option(default="auto")


def _machine(name: str, trace: Path) -> _opplab.Machine | None:
    """Give the machine of that name; one that cannot be the trace's is refused."""
    if name == "auto":
        return None
    machine = Machine.load(name)._inner
    (misfit,) = _opplab.trace_misfits(str(trace), [machine])
    if misfit is not None:
        names = catalog.names("machine")
        misfits = _opplab.trace_misfits(str(trace), [Machine.load(other)._inner for other in names])
        fitting = [other for other, why in zip(names, misfits, strict=True) if why is None]
        hint = f"of the built-in machines {', '.join(fitting)} would fit" if fitting else "no built-in machine fits"
        raise InputError(f"{trace}: {misfit}; {hint}")
    return machine


# Keys of a policy that a replay may change, beside tunables.
REPLAYED = ("governor", "freq_max", "energy_model", "kernel")
TAKEN = f"{', '.join(REPLAYED)} and tunables"

Changed = tuple[str | None, str | None, str | None, str | None, list[tuple[str, str]]]
"""The keys of a policy that a replay changes (`REPLAYED`), and tunables."""
Recorded = tuple[str | None, str | None, str | None, int | None]
"""Governor, driver, kernel and half-life of a recording, where somebody knows them."""

# What a unit is shown in: name, parts of it in one, digits.
UNITS = {"uJ": ("mJ", 1e3, 1), "kHz": ("MHz", 1e3, 1), "": ("", 1, 0)}
LATENCY = ("us", 1e3, 1)
OTHER_WORK = "not near: of other work"
WHOLE = 100_000
MOVED = 0.05  # A share of the work from which it is named.
UNLIKE_WORK = 0.01  # A share of the work from which it is named.
BUSY = ("ms", 1e6, 1)
# What a closed loop does otherwise than the machine and no run varies, in percent of the changed value and as a part of
# the change: chosen so that intervals held the energy of random runs under another policy (docs/replay-accuracy.md).
OWN_ERROR = 1.5
OWN_ERROR_OF_CHANGE = 0.1
HELD = "of 214 random runs it held the energy under the other policy in 203, of 10 pairs of recordings in 8"


def _percent(part: float | None, whole: float | None) -> str:
    return change_text(100 * (part - whole) / whole) if part is not None and whole else "-"


def _interval(
    metric: dict[str, Any], replayed: float, one: dict[str, float], runs: int, unsure: tuple[float, float]
) -> list[float]:
    """Give where the change of the recorded run lies, in percent: of pairs whose means `one` compares.

    It spans the change from the replayed value and that from the recorded one: which part of the replay's error both
    policies share is not known. Around both it has the spread of single pairs, and what the replay does otherwise.
    """
    ratio = one["ratio"]
    change = 100 * (ratio - 1)
    recorded = metric.get("recorded")
    # A change whose running tasks keep their wake-ups, and one in which they lose them.
    ratios = [ratio, *([metric["if_lost"] / replayed] if "if_lost" in metric else [])]
    changes = [100 * (of * base - 1) for of in ratios for base in (1.0, *([replayed / recorded] if recorded else []))]
    own = hypot(OWN_ERROR * ratio, OWN_ERROR_OF_CHANGE * change)
    # From the interval of a mean to that of the next value.
    single = 100 * sqrt(runs + 1)
    kept = 0.0 if "if_lost" in metric else unsure[0]
    low = min(changes) - hypot(single * (ratio - one["low"]), own) - kept * ratio
    high = max(changes) + hypot(single * (one["high"] - ratio), own) + unsure[1] * ratio
    return [max(low, -100.0), high]


def _unsure(found: dict[str, Any]) -> tuple[float, float]:
    """Give the work that a changed policy may do less and more than its runs, in percent: the trace lacks it."""
    kept, lost = found.get("work_unsure", (0, 0))
    return 100 * kept / WHOLE, 100 * (lost + found.get("work_beyond", 0)) / WHOLE


def with_intervals(found: dict[str, Any]) -> dict[str, Any]:
    """Give each change of a closed loop with its interval, in percent: where that of the recorded run lies.

    Values, verdict and change are of the means of the runs; those of counts are not rounded. Where a mean is 0 there
    is no interval. A change whose interval includes 0 is not significant, nor is one within the error.
    """
    unsure = _unsure(found)
    for metric in found["metrics"]:
        runs = metric.pop("runs", [])
        if runs and not metric["unit"]:
            metric.update(zip(("replayed", "changed"), map(fmean, zip(*runs, strict=True)), strict=False))
        pairs = [run for run in runs if len(run) == 2]
        if pairs:
            found["runs"] = len(pairs)
        if len(pairs) < 2 or all(ours == theirs for ours, theirs in pairs):
            continue
        one = stats.compare([pair[0] for pair in pairs], [pair[1] for pair in pairs], paired=True, resamples=0)
        if not isfinite(one["ratio"]) or not one["ratio"]:
            before, after = (fmean(side) for side in zip(*pairs, strict=True))
            change, _ = change_of(before, after, True, metric["unit"])
            if isfinite(change):
                metric["change"] = change
            continue
        metric["change"] = 100 * (one["ratio"] - 1)
        if isfinite(one["low"]) and isfinite(one["high"]):
            of_work = metric["metric"] == "energy" or metric["metric"].endswith(" busy")
            replayed = fmean(pair[0] for pair in pairs)
            less, more = unsure if of_work else (0.0, 0.0)
            # One policy may do all of the work that the trace lacks.
            more += 100 * (metric["work_beyond"] - found["work_beyond"]) / WHOLE if "work_beyond" in metric else 0.0
            ends = _interval(metric, replayed, one, len(pairs), (less, more))
            metric["change_percent"] = ends
            if ends[0] <= 0 <= ends[1] and "change_counts" in metric:
                metric["change_counts"] = False
    return found


def _value(value: float, digits: int) -> str:
    """Give a value with these digits, or a count."""
    return f"{value:.{digits}f}" if digits else count_text(value)


def _change(metric: dict[str, Any]) -> str:
    """Give a change as `opplab compare` does: in percent, and from 0 as such."""
    before, after = metric.get("replayed"), metric.get("changed")
    if "change" in metric:
        return change_text(metric["change"])
    return "from 0" if before == 0 and after else _percent(after, before)


def _interval_text(metric: dict[str, Any]) -> str:
    """Give the interval of a change, in the unit that the change has: percent, or how many times.

    Examples
    --------
    >>> _interval_text({"change": 34.0, "change_percent": [30.04, 37.9]}), _interval_text({})
    ('+30.0 to +37.9 %', '')
    >>> _interval_text({"change": 43740.0, "change_percent": [-100.0, 1365972.0]})
    '0 to 13661 times'
    """
    if "change_percent" not in metric:
        return ""
    change, _, ends = change_text(metric["change"], *metric["change_percent"]).partition(" [")
    return f"{ends.rstrip(']').replace(', ', ' to ')} {change.split()[1]}"


def _rows(found: dict[str, Any]) -> list[dict[str, object]]:
    """Make a row of each metric: what is not known is blank, a change that is not significant is marked."""
    rows = []
    several = any("change_percent" in metric for metric in found["metrics"])
    for metric in found["metrics"]:
        name, unit = metric["metric"], metric["unit"]
        shown, parts, digits = UNITS.get(unit) or (LATENCY if "latency" in name else BUSY)
        cells: dict[str, object] = {"metric": name, "unit": shown}
        for run in ("recorded", "replayed", "changed"):
            if found.get(run):
                cells[run] = _value(metric[run] / parts, digits) if run in metric else ""
        fixed = metric["verdict"] == "cannot change in this loop"
        cells["error"] = "" if fixed else _percent(metric.get("replayed"), metric.get("recorded"))
        if found.get("changed"):
            change = "" if fixed else _change(metric)
            cells["change"] = change if metric.get("change_counts") or change in {"", "-"} else f"({change})"
            if several:
                cells["interval"] = _interval_text(metric)
        cells["verdict"] = metric["verdict"]
        rows.append(cells)
    return rows


def _work(found: dict[str, Any]) -> list[str]:
    """Report a changed policy's work where it is not the replayed policy's: what is not done saves no energy."""
    share = found.get("work_share", WHOLE) / WHOLE
    other = any(metric["verdict"] == OTHER_WORK for metric in found["metrics"])
    if found["mode"] == "open":
        if not other:
            return []
        return [
            f"{OTHER_WORK}: the open loop keeps busy times, so that other clocks change the work by "
            f"{100 * abs(share - 1):.0f} %; --mode closed keeps it"
        ]
    beyond = found.get("work_beyond", 0) / WHOLE
    lines = []
    if beyond >= UNLIKE_WORK:
        names = some_of(found["beyond_tasks"], 3) or "many tasks"
        lines = [
            f"{OTHER_WORK + ': ' if other else ''}what is recorded of {names} ends sooner under the changed policy, "
            f"and what they do then is not in the trace: at their pace {100 * beyond:.0f} % more work than in the trace"
        ]
    kept, lost = (part / WHOLE for part in found.get("work_unsure", (0, 0)))
    if max(kept, lost) >= UNLIKE_WORK:
        parts = [f"{100 * kept:.0f} % of the work, less where they are lost"] if kept >= UNLIKE_WORK else []
        parts += [f"{100 * lost:.0f} % more where the recorded run lost some"] if lost >= UNLIKE_WORK else []
        lines.append(
            f"wake-ups of {some_of(found['unsure_tasks'], 3) or 'many tasks'} while they run: the trace does not show "
            f"whether these are kept (a semaphore) or lost (a condition variable): {', '.join(parts)}"
        )
    if abs(share - 1) < UNLIKE_WORK:
        return lines
    energy = next(metric for metric in found["metrics"] if metric["metric"] == "energy")
    line = f"{OTHER_WORK + ': ' if other else ''}{100 * share:.1f} % of the replayed work is done in the measured time"
    if beyond >= UNLIKE_WORK:
        return [*lines, line]
    if share < 1:
        line += "; what is not done saves no energy"
    if share and energy.get("replayed") and "changed" in energy:
        line += f"; energy per work {_percent(energy['changed'] / share, energy['replayed'])}"
    return [*lines, line]


def _text(found: dict[str, Any]) -> str:
    check = found["self_check"]
    width = terminal_width()
    head = (
        f"{found['machine']}, kernel {found['kernel']}, {found['governor']}; {found['tasks']} tasks, "
        f"{found['duration_ns'] / 1e9:.3f} s, {found['mode']} loop"
    )
    table = render_table(_rows(found), "text", width).rstrip()
    begins = f"{found['measured_from_ns'] / 1e9:g} s"
    lines = [f"all figures are of the time from {begins} on: before it counts what was before the recording"]
    if found["floor_uw"]:
        seconds = (found["duration_ns"] - found["measured_from_ns"]) / 1e9
        rest_w = found["floor_uw"] / 1e6
        lines.append(
            f"energy is the clusters': the rest of the machine, {rest_w:g} W under any policy "
            f"({1e3 * rest_w * seconds:.1f} mJ), is not in it; opplab trace energy counts it, and the whole recording"
        )
    lines.append(self_check(check))
    if found.get("changed"):
        reasons = ["is within the error, as a value or in percent", "has no known error"]
        if any("change_percent" in metric for metric in found["metrics"]):
            lines.append(
                "interval: where the change of the recorded run is: from the replayed and from the recorded value, "
                f"with the spread of single runs (95 %, Student's t over {found['runs']} pairs), and for the replay's "
                f"own error {OWN_ERROR:g} % and {100 * OWN_ERROR_OF_CHANGE:g} % of the change"
                f"{', and work that the trace lacks' if any(_unsure(found)) else ''}; {HELD}"
            )
            reasons.append("its interval includes zero")
        unlike = 100 * (found.get("work_share", WHOLE) / WHOLE - 1)
        beyond = 100 * found.get("work_beyond", 0) / WHOLE
        woken = 100 * sum(found.get("work_unsure", (0, 0))) / WHOLE
        if any(metric["verdict"] == OTHER_WORK for metric in found["metrics"]):
            reasons.append("is of other work")
        elif unlike or beyond or woken:
            more = "more" if unlike > 0 else "less"
            done = [f"{abs(unlike):.2g} % of work that is done {more}"] if unlike else []
            done += [f"{beyond:.2g} % of work that the trace lacks"] if beyond else []
            done += [f"{woken:.2g} % of work that hangs on wake-ups"] if woken else []
            reasons[0] += f" (of energy: and the {' and the '.join(done)}, together)"
        lines.append(f"a change in parentheses {', or '.join(reasons)}: not significant")
    lines += [f"blank: {silent['of']}: {silent['reason']}" for silent in found["silent"]]
    lines += _work(found)
    if kept := some_of(found.get("late_kept") or [], 3):
        lines.append(
            f"late activations keep their recorded times: {kept}; the trace does not show whether each is one, or "
            "several that followed each other late. Under a quicker policy fewer may be late, at another energy"
        )
    if closed := found.get("closed_self_check"):
        lines.append(f"closed loop: {check_text(closed)}, so the open loop answers (--mode closed insists)")
    if found["mode"] == "closed":
        lines += [whole_text(check), *streams_text(check)]
        lines.append(
            f"single runs: within {check['freq_spread'] / 1000:.1f} points and "
            f"{check['energy_spread'] / 1000:.1f} % of their mean, which is what is shown"
        )
    lines += assumed(found)
    return "\n".join([flow(head, width), table, flow("\n".join(lines), width)]) + "\n"


def _kernels(context: click.Context, option: click.Parameter, value: str | None) -> list[str]:
    """Split the kernels of --kernel."""
    one = NameOf("kernels")
    return [one.convert(name.strip(), option, context) for name in value.split(",")] if value else []


@click.command(name="replay")
@TRACE
@MACHINE
@click.option(
    "--recorded-governor",
    type=NameOf("governors"),
    help="Governor of the recording, where the trace lacks it.",
)
@click.option("--recorded-driver", help="cpufreq driver of the recording, one of the machine's.")
@click.option("--recorded-kernel", type=NameOf("kernels"), help="Kernel profile of the recording.")
@half_life_option
@click.option("--governor", type=NameOf("governors"), help="cpufreq governor of the replay.")
@freq_max_option("f_max of frequency invariance on x86: max_P, mid, max_boost, ...")
@click.option(
    "--energy-model", type=click.Choice(["artificial", "registered", "none"]), help="Energy model of the replay."
)
@click.option(
    "--kernel",
    "kernels",
    callback=_kernels,
    metavar="NAME[,NAME...]",
    help="Kernel profiles of the replay; each is a replay of its own.",
)
@pairs_option("--tunable", "tunables", "Governor tunable.")
@vs_option_of(f"by {TAKEN}, e.g. 'governor=ondemand sampling_rate=20000'.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "open", "closed"]),
    default="auto",
    help="Loop of the replay. open keeps all times and changes frequencies; closed reruns the recovered work. "
    "auto takes closed if its self-check is near the trace, else the nearer loop.",
)
@format_option
def command(
    trace: Path,
    machine: str,
    recorded_governor: str | None,
    recorded_driver: str | None,
    recorded_kernel: str | None,
    pelt_half_life_ms: int | None,
    governor: str | None,
    freq_max: str | None,
    energy_model: str | None,
    kernels: list[str],
    tunables: dict[str, str],
    vs: tuple[str, ...],
    mode: str,
    output_format: str,
) -> None:
    """Replay TRACE (a file, a recording's folder or archive) under another policy and compare.

    Columns: `recorded` is the trace. `replayed` is its own policy again, the self-check; `error` is its distance from
    the trace. `changed` is the requested policy, and `change` its difference from `replayed`. `verdict` states whether
    the replay is near the trace in this metric. Values that the trace lacks are blank, with the reason below.

    Without a change only the self-check runs. Each --vs adds a policy to that of the other options, which comes first.
    """
    options = {"governor": governor, "freq_max": freq_max, "energy_model": energy_model}
    if len(kernels) == 1:
        (options["kernel"],) = kernels
    given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if tunables:
        given["tunables"] = tunables
    first = bool(vs and given)
    if len(kernels) > 1:
        vs = (*(f"kernel={kernel}" for kernel in kernels), *vs)
    recorded = (recorded_governor, recorded_driver, recorded_kernel, pelt_half_life_ms)
    on = _machine(machine, trace)
    ran_on = on or _opplab.traced_machine(str(trace))
    if vs and not governor:
        recorded_governor = recorded_governor or _opplab.replayed_frequencies(str(trace), on)[1][0]["governor"]
    said = between_points(trace, ran_on)
    left_out: list[str] = []
    changes = _variants(given, recorded_governor, vs, left_out.append, first=first)
    for words in left_out:
        note(words)
    sampled = any(RATE in change["tunables"] for _, change in changes)
    case = _opplab.replayed_cases(str(trace), on, 1, recorded_governor, check=False)[0][0] if sampled else None
    made = []
    for label, change in changes:
        asked = change["tunables"].get(RATE, "")
        kept = _kept(case, change) if case and asked else ""
        tunables_of = {**change["tunables"], **({RATE: kept} if kept else {})}
        keys = (change.get(key) for key in REPLAYED)
        wanted: Changed = (*keys, list(tunables_of.items()))  # type: ignore[assignment]
        text = _opplab.replay_trace(str(trace), on, mode, *wanted, recorded)
        loaded = json.loads(text)
        told = [
            *_moved(loaded, ran_on),
            *_late(loaded, trace, on, wanted, recorded),
            *_placed(loaded, change.get("kernel")),
        ]
        found = with_intervals(loaded)
        found["notes"] += [*said, *told, *left_out]
        found["notes"] += [refusal(asked, kept)] if kept else []
        made.append((with_kept(label, asked, kept) if kept else label, found))
    if output_format == "json":
        whole = [{"variant": label, **found} for label, found in made] if vs else made[0][1]
        sys.stdout.write(json.dumps(whole, ensure_ascii=False, separators=(",", ":")) + "\n")
    elif output_format == "text":
        sys.stdout.write("\n".join(f"{label}:\n{_text(found)}" if label else _text(found) for label, found in made))
    else:
        print_table(
            [{**({"variant": label} if vs else {}), **row} for label, found in made for row in _rows(found)],
            output_format,
        )


def _placed(loaded: dict[str, Any], kernel: str | None) -> list[str]:
    """Name what of another kernel an open loop does not have."""
    if loaded["mode"] == "closed" or kernel in (None, loaded["kernel"]):
        return []
    return [
        f"an open loop keeps where tasks ran and how CPUs slept: what Linux {kernel} decides otherwise there is in "
        "--mode closed only"
    ]


def _kept(case: _opplab.Case, change: dict[str, Any]) -> str:
    """Give the time between samples that stays where the kernel of a replayed case refuses that of a change."""
    changed = case.changed(**{**change, "tunables": list(change["tunables"].items())})
    file = json.loads(changed.to_json())
    return kept_rate(file["machine"], file["policy"])


def _late(
    found: dict[str, Any], trace: Path, machine: _opplab.Machine | None, wanted: Changed, recorded: Recorded
) -> list[str]:
    """Name the tasks that end late: of the closed loop's run with the most."""
    runs: list[list[int]] = next(
        (one["runs"] for one in found["metrics"] if one["metric"] == MISSED and "runs" in one), []
    )
    if not any(map(any, runs)):
        return []
    # Of runs with as many the first.
    most = [max((run[at], -nth) for nth, run in enumerate(runs)) for at in range(len(runs[0]))]
    late = [(at, -nth, missed) for at, (missed, nth) in enumerate(most) if missed]
    shared = found["self_check"].get("streams", {}).get("shared", False)
    runs_of = [(at == 1, nth) for at, nth, _ in late]
    cases = _opplab.compared_cases(str(trace), machine, wanted, recorded, runs_of, shared)
    words = []
    for (at, _, missed), case in zip(late, cases, strict=True):
        outcome = case.run(False)
        if outcome["missed_activations"] == missed:
            policy = ("replayed", "changed")[at]
            words.append(f"late under the {policy} policy, in the run with the most: {late_tasks(case, outcome)}")
    return words


def _moved(found: dict[str, Any], machine: _opplab.Machine) -> list[str]:
    """Report how much of the work a closed loop does on CPUs of other capacities than before."""
    capacities = {
        cpu: cluster["capacity"] for cluster in machine.describe()["clusters"] for cpu in cpus_in(cluster["cpus"])
    }
    shares: dict[str, dict[int, float]] = {}
    for name in ("recorded", "replayed", "changed") if found["mode"] == "closed" else ():
        run = found.get(name)
        if not run or any("mean_khz" not in policy for policy in run["policies"]):
            continue
        work: dict[int, float] = {}
        for policy in run["policies"]:
            capacity, khz = capacities[policy["cpus"][0]], policy["freq_khz"]
            clocks = [1.0 if found["fixed_speed"] else one / khz[-1] for one in khz]
            busy = sum(clock * ns for clock, ns in zip(clocks, policy["busy_ns"], strict=True))
            work[capacity] = work.get(capacity, 0) + capacity * busy
        if whole := sum(work.values()):
            shares[name] = {capacity: part / whole for capacity, part in work.items()}
    words = []
    for name, other, than in (
        ("replayed", "recorded", "in the trace"),
        ("changed", "replayed", "under the replayed policy"),
    ):
        if {name, other} <= set(shares):
            moved = sum(max(0.0, part - shares[other][at]) for at, part in shares[name].items())
            words += (
                [f"{100 * moved:.0f} % of the {name} work is on other clusters than {than}"] if moved >= MOVED else []
            )
    return words


def _variants(
    given: dict[str, Any],
    recorded_governor: str | None,
    vs: tuple[str, ...],
    said: Callable[[str], None],
    *,
    first: bool,
) -> list[tuple[str, dict[str, Any]]]:
    """Give the wanted policies, each with its label: that of the options, `first` or alone, and one for each --vs."""
    own = {"tunables": {}, **given}
    if not vs:
        return [("", own)]
    base, *others = with_variants({"governor": recorded_governor, **given}, vs, said=said)
    out = [(" ".join(_words_of(given)), own)] if first else []
    for one in others:
        wrong = sorted(set(one.keys) - {*REPLAYED, "tunables"})
        if wrong:
            raise InputError(
                f"--vs {one.label}: a replay changes {TAKEN}, not {wrong[0]}; opplab choose TRACE --vs runs the "
                "recovered work under any policy"
            )
        if one.keys.get("freq_max"):
            check_freq_max(one.keys["freq_max"])
        changed = {key: value for key, value in one.keys.items() if key in given or base.keys.get(key) != value}
        named = one.label.split()
        kept = [words for words in _words_of(given) if words in _words_of(one.keys) and words not in named]
        out.append((" ".join([*kept, one.label]), {"tunables": {}, **changed}))
    return out


def _words_of(keys: Mapping[str, Any]) -> list[str]:
    """Give the words of a policy's keys, as labels have them."""
    pairs = {**keys, **keys.get("tunables", {})}
    return [value if key == "governor" else f"{key}={value}" for key, value in pairs.items() if key != "tunables"]


def _names_of(tasks: Sequence[str], trace: Path) -> list[str]:
    """Give the names of tasks, of which some may be pids; the pid of a task that shares its name is refused."""
    if not any(task.isdecimal() for task in tasks):
        return list(tasks)
    by_pid = Trace(trace).task_names()
    out = []
    for task in tasks:
        name = by_pid.get(int(task)) if task.isdecimal() and task not in by_pid.values() else task
        if name is None:
            raise InputError(f"{trace}: there is no task with the pid {task}")
        others = [str(pid) for pid, one in by_pid.items() if one == name and name != task and pid != int(task)]
        if others:
            also = f"as {'is' if len(others) == 1 else 'are'} {some_of(others, 3)}"
            raise InputError(
                f"{trace}: {task} is `{name}`, {also}: tasks of one name are kept together (--task {name})"
            )
        out.append(name)
    return out


@click.command(name="to-rtapp")
@TRACE
@MACHINE
@output_option("Output file (default: standard output).")
@click.option("--task", "tasks", multiple=True, metavar="NAME|PID", help="Task to keep; may be repeated.")
@click.option(
    "--tolerance",
    type=click.IntRange(0, 1000),
    default=50,
    metavar="PERMILLE",
    help="Largest difference of consecutive activations that form a loop.",
)
def to_rtapp(trace: Path, machine: str, output: Path | None, tasks: tuple[str, ...], tolerance: int) -> None:
    """Write the recorded workload of TRACE as an rt-app file, for use on a device or with `opplab run`."""
    names = _names_of(tasks, trace)
    text = _opplab.trace_to_rtapp(str(trace), _machine(machine, trace), names or None, tolerance)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
        click.echo(f"wrote {output}")
