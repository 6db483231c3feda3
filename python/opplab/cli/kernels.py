"""`opplab kernels`: what differs between two kernels, and what that does on a machine."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import opplab
from opplab.certainty import SAME_CHANGE
from opplab.cli.group import Group
from opplab.cli.options import BuiltIn, NameOf, format_option
from opplab.errors import OpplabError
from opplab.report.numbers import several
from opplab.report.text import flow, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opplab.kernel import GateChange
    from opplab.simulation.policy import Policy
    from opplab.summary.answer import Change


@click.group(name="kernels", cls=Group)
def command() -> None:
    """Compare kernels."""


@command.command()
@click.argument("before", type=NameOf("kernels"))
@click.argument("after", type=NameOf("kernels"))
@click.option("-m", "--machine", type=BuiltIn("machine"), help="Machine to run both kernels on, built in or a file.")
@click.option("-w", "--workload", help="Benchmark model or rt-app file (default: four tasks of 4 ms in 16 ms).")
@click.option("--governor", type=NameOf("governors"), default="schedutil", help="Governor of the runs.")
@click.option("--seconds", type=float, default=2.0, help="Simulated time per run, s.")
@click.option("--seeds", type=click.IntRange(1, 100), default=3, help="Runs per kernel.")
@click.option(
    "--attribute",
    is_flag=True,
    help="Gates that reproduce a change alone, switched one at a time on BEFORE; needs --machine.",
)
@format_option
def diff(
    before: str,
    after: str,
    machine: str | None,
    workload: str | None,
    governor: str,
    seconds: float,
    seeds: int,
    attribute: bool,
    output_format: str,
) -> None:
    """List the gates that differ between two kernels, with the releases and sources of each change.

    BEFORE and AFTER are mainline releases (6.12), point releases (6.6.88) or a distribution's names
    (6.1.0-56-amd64). With --machine both kernels run the workload with the same seeds.

    --attribute also runs BEFORE with one gate of AFTER at a time. Gates of one commit are switched together, as no
    kernel has one without the other. It misses other gates that act only together. The table has one row per gate:
    `runs` names the kernel whose runs are the same, event for event. JSON also has the table of both kernels.
    Under HWP the energy preference that a kernel has for the processor is no gate; where it differs, it has a row.
    """
    from opplab.kernel import KernelProfile, kernel_diff

    if attribute and machine is None:
        raise click.UsageError("--attribute needs --machine, to run on")
    changes = kernel_diff(before, after)
    runs: list[dict[str, Any]] = []
    gates: list[dict[str, Any]] = []
    alone: dict[tuple[str, str], Change] = {}
    preferences: list[int] = []
    if machine is not None:
        measure = _Measure(machine, workload, seconds, seeds)
        preferences = measure.preferences((before, after), governor)
        old, new = (measure.run(opplab.Policy(kernel=kernel, governor=governor)) for kernel in (before, after))
        runs = _rows((before, after), measure, old[0], new[0])
        if attribute:
            parts = [*_parts(changes), *([_of_preference(preferences)] if preferences else [])]
            gates, alone = _attributed((before, after), parts, measure, governor, runs, old, new[1])
    findings = _attribution_words(runs, alone) or ["No change is clear."] if attribute else []
    if attribute and output_format == "json":
        click.echo(json.dumps({"metrics": runs, "gates": gates, "findings": findings}, indent=2))
        return
    if output_format != "text":
        print_table(gates or runs or [change._asdict() for change in changes], output_format)
        return
    _show(before, after, changes)
    if preferences:
        old_epp, new_epp = preferences
        words = f"the kernel's own for the processor of {machine}, and no gate; policy key epp sets it"
        click.echo(flow(f"{PREFERENCE}: {old_epp} -> {new_epp}\n  {words}", 80) + "\n")
    for name in (before, after):
        click.echo(flow(f"proven of {name}: {KernelProfile(name).proven}", 80))
    if runs:
        of = f"{several(seeds, 'run')} of {seconds:g} s"
        what = f"{workload or 'four periodic tasks'} on {machine} under {governor} with {measure.driver}"
        click.echo("\n" + flow(f"{what}, means of {of} with the same seeds:", 80) + "\n")
        print_table(runs, output_format)
        # Of an interval of 95 %; values without one are judged by another rule.
        if tested := sum(row["low"] is not None for row in runs):
            click.echo(
                "\n" + flow(f"clear by chance: {0.05 * tested:.2g} of {several(tested, 'change')} with an interval", 80)
            )
        if measure.unknown:
            click.echo("\n" + flow(f"{measure.unknown}.", 80))
    if attribute:
        click.echo("\none gate at a time (changes in percent, of shares in points):\n")
        print_table(gates, output_format)
        click.echo("\n" + flow("\n".join(findings), 80))


def _show(before: str, after: str, changes: list[GateChange]) -> None:
    """Print one paragraph a gate."""
    count = f"{len(changes) or 'no'} gate{'s' * (len(changes) != 1)} differ{'s' * (len(changes) == 1)}"
    click.echo(f"{before} to {after}: {count}\n")
    for change in changes:
        click.echo(flow(f"{change.gate}: {change.before} -> {change.after} (since {change.since or '-'})", 80))
        for head, text in (
            ("", change.differs),
            ("before: ", change.before_meaning),
            ("after: ", change.after_meaning),
            ("source: ", change.source),
        ):
            click.echo(flow(f"  {head}{text}", 80))
        click.echo("")


class _Measure:
    """Runs policies of one machine and work with the same seeds."""

    def __init__(self, machine: str, workload: str | None, seconds: float, seeds: int) -> None:
        from opplab.simulation.fitted import constants_on
        from opplab.simulation.workload import Benchmark, load_of

        self.on = opplab.Machine.load(machine)
        self.work = load_of(workload or opplab.Workload.periodic(4, run_us=4_000, period_us=16_000))
        if isinstance(self.work, Benchmark):
            constants_on(self.work.name, self.on.name)
        self.seconds, self.seeds = seconds, seeds
        self.units: dict[str, tuple[str, str]] = {}
        self.driver = ""
        self.unknown = ""

    def preferences(self, kernels: tuple[str, str], governor: str) -> list[int]:
        """Give the energy preferences that two kernels start with; none where they start with the same."""
        from opplab.simulation.cases import Case
        from opplab.simulation.simulate import build_case
        from opplab.summary.caveats import preference_of

        # The work does not matter.
        load = opplab.Workload.periodic(1, run_us=1_000, period_us=16_000)
        policies = [opplab.Policy(kernel=kernel, governor=governor) for kernel in kernels]
        found = [preference_of(Case.of(build_case(self.on, load, policy, seconds=1))) for policy in policies]
        known = [epp for epp in found if epp is not None]
        return known if len({*known}) == len(kernels) else []

    def run(self, policy: Policy) -> tuple[dict[str, dict[int, float]], list[str]]:
        """Give the values of each metric by seed, and the fingerprints of the runs."""
        from opplab.simulation.power import how_to_get_power

        found: dict[str, dict[int, float]] = {}
        prints = []
        for seed in range(1, self.seeds + 1):
            run = opplab.simulate(self.on, self.work, policy, seconds=self.seconds, seed=seed)
            prints.append(run.fingerprint)
            metrics = run.metrics
            if not self.driver:
                self.driver = run._inner.facts()["driver"]
                energy = metrics.filter(metric="energy")["value"].to_list()
                if energy in ([], [None]):
                    self.unknown = how_to_get_power([json.loads(run._inner.to_json())["machine"]])
            for row in metrics.filter(metrics["better"].is_in(["lower", "higher"])).to_dicts():
                name = row["metric"]
                # What a run does not know is not 0.
                if ":" not in name and row["value"] is not None:
                    found.setdefault(name, {})[seed] = row["value"]
                    self.units[name] = row["unit"], row["better"]
        return found, prints

    def change(
        self, name: str, after: Mapping[str, Mapping[int, float]], before: Mapping[str, Mapping[int, float]]
    ) -> Change | None:
        """Give how a metric changes: shares by points."""
        from opplab.metrics import events_of
        from opplab.summary.answer import paired_change, points

        unit, better = self.units[name]
        both = after.get(name, {}), before[name]
        if unit != "%":
            return paired_change(better, *both, unit)
        return points(*both, [of.get(events_of(name), {}) for of in (after, before)])


def _rows(
    kernels: tuple[str, str], measure: _Measure, before: Mapping[str, dict[int, float]], after: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Give one row a metric: the means, and the change with its interval."""
    from opplab.sweep.confidence import mean_of

    rows = []
    for name in [name for name in before if name in after]:
        unit, better = measure.units[name]
        old, new = list(before[name].values()), list(after[name].values())
        change = measure.change(name, after, before)
        ends = {} if change is None else {"low": change.certainty.low, "high": change.certainty.high}
        known = {name: None if end is None else round(end, 2) for name, end in ends.items()}
        if change is not None:
            words = change.certainty.words
        elif any(old):
            words = "no change in percent: some values are 0"
        else:
            words = "from 0" if any(new) else "0 in all runs"
        rows.append(
            {
                "metric": name,
                "unit": unit,
                **{
                    kernel: round(mean_of(own, better, unit), 4)
                    for kernel, own in zip(kernels, (old, new), strict=True)
                },
                "change": None if change is None else round(change.value, 2),
                "low": known.get("low"),
                "high": known.get("high"),
                "in": "points" if unit == "%" else "%",
                "certainty": words,
            }
        )
    return rows


PREFERENCE = "energy preference"
"""The name of what a kernel's driver starts HWP with."""


class _Part(NamedTuple):
    """What two kernels differ in that is switched alone: its name, both values, and the second as policy keys."""

    name: str
    switched: str
    keys: dict[str, Any]


def _parts(changes: Sequence[GateChange]) -> list[_Part]:
    """Give the gates, those of a commit together."""
    from opplab.kernel.profiles import together

    return [
        _Part(
            " + ".join(gate.gate for gate in part),
            ", ".join(f"{gate.before} -> {gate.after}" for gate in part),
            {"gates": {gate.gate: gate.after for gate in part}},
        )
        for part in together(changes)
    ]


def _of_preference(values: Sequence[int]) -> _Part:
    """Give the same of the energy preference."""
    before, after = values
    return _Part(PREFERENCE, f"{before} -> {after}", {"epp": str(after)})


CLEAR = ("clear", SAME_CHANGE)
"""Words of `certainty` for a change that is attributed."""

REPRODUCED = 0.1
"""The part of a change by which that of one gate may be off it, and still be named as it."""


def _attributed(
    kernels: tuple[str, str],
    parts: Sequence[_Part],
    measure: _Measure,
    governor: str,
    whole: Sequence[Mapping[str, Any]],
    own: tuple[Mapping[str, dict[int, float]], list[str]],
    wanted: list[str],
) -> tuple[list[dict[str, Any]], dict[tuple[str, str], Change]]:
    """Switch one part at a time on the first kernel; give a row for each.

    Also give the change of each gate and metric, as far as it is known.

    Parameters
    ----------
    whole : sequence of mapping
        Rows of both kernels.
    own : (dict, list of str)
        What the first kernel measured, and the fingerprints of its runs.
    wanted : list of str
        Fingerprints of the second's.
    """
    from opplab.sweep.progress import progress
    from opplab.sweep.runner import Tally

    shown = [row for row in whole if row["certainty"] in CLEAR]
    rows: list[dict[str, Any]] = []
    alone = {}
    tally = Tally(total=len(parts))
    with progress(len(parts)) as told:
        for part in parts:
            row: dict[str, Any] = {"gate": part.name, "switched": part.switched}
            try:
                policy = opplab.Policy(kernel=kernels[0], governor=governor, **part.keys)
                found, prints = measure.run(policy)
            except OpplabError as error:
                rows.append({**row, "runs": f"not alone: {error}", **{one["metric"]: None for one in shown}})
                tally.failed += 1
            else:
                row["runs"] = f"as {kernels[1]}" if prints == wanted else f"as {kernels[0]}" if prints == own[1] else ""
                for one in shown:
                    name = one["metric"]
                    change = measure.change(name, found, own[0])
                    row[name] = None if change is None else round(change.value, 2)
                    if change is not None:
                        alone[row["gate"], name] = change
                rows.append(row)
                tally.done += 1
            told(tally)
    return rows, alone


def _attribution_words(whole: Sequence[Mapping[str, Any]], gates: Mapping[tuple[str, str], Change]) -> list[str]:
    """Name, for each clear change, the gates whose own clear change reproduces it alone, else the nearest one.

    `gates` has the change of each gate and metric.
    """
    from opplab.certainty import change_text

    out = []
    for one in whole:
        name, change = one["metric"], one["change"]
        if one["certainty"] not in CLEAR or not change:
            continue
        own = {gate: found for (gate, metric), found in gates.items() if metric == name}
        known = {gate: value for gate, found in own.items() if (value := round(found.value, 2))}
        words = partial(change_text, unit=one["in"])
        head = f"{name} {words(change)}"
        near = [gate for gate, value in known.items() if abs(value - change) <= REPRODUCED * abs(change)]
        alone = [gate for gate in near if own[gate].certainty.is_clear]
        if alone:
            out.append(f"{head}: {' or '.join(alone)} alone reproduces it.")
        elif known:
            gate, value = min(known.items(), key=lambda pair: abs(pair[1] - change))
            of_gate = own[gate].certainty
            # What is near and not near enough needs the digits that show it.
            words = partial(words, digits=1 if words(value) != words(change) else 2)
            unsure = "" if of_gate.is_clear else ", which is not clear"
            out.append(
                f"{name} {words(change, one['low'], one['high'])}: nothing alone reproduces it; nearest is {gate} with "
                f"{words(value, of_gate.low, of_gate.high)}{unsure}."
            )
        else:
            out.append(f"{head}: nothing alone changes it.")
    return out
