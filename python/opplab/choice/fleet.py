"""`opplab fleet`: a choice for every machine type of many machine dumps, and what it saves in a year."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import opplab
from opplab import _opplab
from opplab.catalog import SNAPSHOT, find, names, nearest
from opplab.certainty import change_text
from opplab.choice import DRAWS, GOVERNORS, ITERATIONS
from opplab.choice.criteria import ANY_WORK, MISSED_SLACK, THROUGHPUT_SLACK, Constraint, own_metrics
from opplab.cpulist import nr_cpus
from opplab.errors import InputError, OpplabError
from opplab.files import check_size, digest_of, read_text, toml_of, write_text
from opplab.report.block import Block
from opplab.report.numbers import quantity, several, some_of
from opplab.report.start import LITTLE, Start, in_words
from opplab.simulation.work import POWER_AT_EQUAL_WORK
from opplab.sweep.drivers import ACTIVE

if TYPE_CHECKING:
    from opplab.choice.answer import Choice
    from opplab.simulation.machine import Machine
    from opplab.uncertainty.parts import Parts


HOURS = 8760
"""Hours of a year."""

RISE = 0.05
"""Percent; changes of power from this on are named."""

MOST = 3
"""Types that are named for what their baseline misses."""

TAKEN = "a consumer may take what the CPUs save"
"""Why it is not known what a package saves."""

STARTING = 0.02
"""The share of a run from which on its start is named, directly after what is called a clear saving."""


@dataclass
class MachineType:
    """Machines whose dumps are equal in all that a simulation uses."""

    name: str
    """The processor, and the number of CPUs."""
    digest: str
    """Of the machine file without name and sources."""
    text: str
    """The machine file."""
    dumps: list[str] = field(default_factory=list)
    machines: int = 0
    """How many these dumps stand for."""
    built_in: list[str] = field(default_factory=list)
    """Built-in machines of this processor that have power, where this one has a generic curve."""
    limited: list[tuple[str, str]] = field(default_factory=list)
    """Dumps with a limit of the clock, without which the governors are compared, and which limit."""
    unlike: str = ""
    """What sets it apart from the first type of the same processor and number of CPUs; empty for that one."""

    def machine(self) -> Machine:
        """Give the machine, with the type's name for messages."""
        from opplab.simulation.machine import Machine

        return Machine(Machine.parse(self.text)._inner.renamed(self.name))

    def without_limits(self) -> list[str]:
        """Report, for each limit of the clock, which dumps have it, and that the answer is without it."""
        by_limit: dict[str, list[str]] = {}
        for dump, limit in self.limited:
            by_limit.setdefault(limit, []).append(Path(dump).name)
        return [
            f"{limit} in {some_of(of, MOST)}: the governors are compared without it." for limit, of in by_limit.items()
        ]


@dataclass(kw_only=True)
class Saving:
    """The answer for one machine type; watts are of one machine at the baseline's work."""

    setting: str
    """Empty if no setting keeps the constraints."""
    baseline: str
    best: str
    """How probable it is that no other setting is better, in words."""
    keeps: str
    """How probable it is that the setting keeps all constraints and the baseline's work; empty without any of them."""
    limits: str
    """Those, if it may break some; empty if it keeps them in all runs or draws."""
    base_watts: float | None
    """What the baseline draws."""
    watts: float | None
    low: float | None
    high: float | None
    """`watts`, `low`, `high`: what the setting saves, with its interval."""
    clear: bool
    commands: list[str]
    price: str
    """What the setting costs in response time; empty if nothing."""
    twins: list[str]
    """Settings that are one candidate with another, or as good as the recommended one, in sentences."""
    passed: str
    """What was the best more often than the baseline without saving energy; empty if nothing was."""
    reason: str
    """Why the saving has no interval, or is unknown; empty if it has one."""
    broken: str
    """Constraints that no setting keeps, or, where one does, that the baseline does not."""
    left_out: list[str]
    """Settings that are left out as they do less work, in sentences."""
    missing: list[str]
    """What its numbers do not hold, in sentences."""
    boost: str
    """That boost is unknown beyond a clock, in a sentence; empty if it is known, or if there is none."""
    base_missed: float
    """Activations that the baseline misses, in percent."""
    power: float
    """Change of the mean power, in percent: of more work, too."""
    driver: str = ""
    base_driver: str = ""
    """`driver`, `base_driver`: under which the setting and the baseline run."""
    start: Start = field(default_factory=Start)
    """What the runs have of their start, which a year has not."""
    missed: float = 0.0
    """Activations that the setting misses, in percent."""
    work: float | None = None
    """Change of the benchmark's own metric, or of the work done, in percent; None where it is not known."""
    loses: str = ""
    """What the setting does less than the baseline, in words; empty for nothing."""

    @property
    def named(self) -> str:
        """The setting, with its driver where the governor is the driver's own."""
        own = self.driver in ACTIVE and self.driver not in self.setting
        return f"{self.setting} ({self.driver})" if own else self.setting

    @classmethod
    def of(cls, choice: Choice) -> Saving:
        """Take it from a choice whose goals have the power at equal work."""
        from opplab.choice.answer import LATER
        from opplab.summary.answer import title_of

        chosen = choice.recommended
        base = next(option for option in choice.options if option.label == choice.baseline)
        power = base.parts["power"].value if "power" in base.parts else None
        missed = base.parts.get("missed_activations")
        change, saved = (None, None) if chosen is None else (chosen.changes.get(POWER_AT_EQUAL_WORK), chosen.saved)
        passed = ""
        # The best in most draws may be worse by the mean. Where the baseline breaks a constraint it is no way out.
        counted = choice.goals[0] == POWER_AT_EQUAL_WORK and base.meets >= 0.5
        if chosen is not None and change is not None and counted and change.value >= 0:
            passed = f"{chosen.label} is the best in {choice.best_in(chosen)}, but its mean "
            passed += f"({title_of(POWER_AT_EQUAL_WORK)} {change.certainty.text(change.value)}) saves nothing"
            chosen, change, saved = base, None, None

        limits = [*choice.constraints, *choice.work] if chosen is not None else []
        price = choice.price() if change is not None and power is not None else ""
        # Waits that nobody asks for are read in the price alone.
        cold = choice.cold if price or choice.constraints or choice.goals != [POWER_AT_EQUAL_WORK] else ""
        judged = None if saved is None else saved.certainty
        done = (own_metrics(choice.units) or ["work_done"])[0]
        work = None if chosen is None else 0.0 if chosen is base else _value(chosen.changes.get(done))
        of = LATER if chosen is not None and LATER in chosen.parts else "missed_activations"
        before, late = (_value(one.parts.get(of)) or 0.0 for one in (base, chosen or base))
        loses = []
        if work is not None and (work if choice.units[done][1] == "lower" else -work) > THROUGHPUT_SLACK:
            loses.append(f"{title_of(done)} {change_text(work)}")
        if late - before > MISSED_SLACK:
            loses.append(f"missed {before:.3g} -> {late:.3g} %")
        return cls(
            setting="" if chosen is None else chosen.label,
            baseline=choice.baseline,
            best="" if chosen is None else choice.best_in(chosen),
            keeps=choice.keeps_in(chosen) if chosen is not None and limits else "",
            limits=" and ".join(limits) if chosen is not None and chosen.meets < 1 else "",
            base_watts=power,
            watts=0.0 if chosen is base else None if saved is None else saved.value,
            low=None if saved is None else saved.low,
            high=None if saved is None else saved.high,
            clear=judged is not None and judged.is_clear,
            commands=[] if chosen is None else list(chosen.commands),
            price=price,
            twins=choice.same(),
            passed=passed,
            reason="" if judged is None else judged.reason,
            broken=" and ".join(choice.kept_by_none() if chosen is None else base.breaks),
            left_out=choice.left_out(),
            missing=[*([f"{cold}."] if cold else []), *choice.missing],
            boost="".join(choice.boost_words()),
            base_missed=0.0 if missed is None else missed.value,
            power=chosen.changes["power"].value if chosen is not None and "power" in chosen.changes else 0.0,
            start=choice.start,
            missed=0.0 if chosen is None else _value(chosen.parts.get("missed_activations")) or 0.0,
            work=work,
            loses=", ".join(loses),
        )


def _value(parts: Parts | None) -> float | None:
    return None if parts is None else parts.value


@dataclass
class Fleet(Block):
    """The answer for a fleet: a line a machine type, the most watts saved first."""

    types: list[tuple[MachineType, Saving]]
    refused: list[tuple[str, str]]
    """Dumps that were not understood and types that could not be simulated, and why."""
    assumed: str = ""

    def tables(self, most: int | None = None) -> list[list[dict[str, str]]]:
        """Give a line a machine type."""
        return [[self._line(kind, saving) for kind, saving in self.types[:most]]] if self.types else []

    def _line(self, kind: MachineType, saving: Saving) -> dict[str, str]:
        return {
            "machine type": kind.name,
            "machines": str(kind.machines),
            "setting": saving.named or "none keeps the limits",
            "best in": saving.best,
            **({"keeps limits in": saving.keeps} if any(one.limits for _, one in self.types) else {}),
            "baseline draws, W": quantity(saving.base_watts),
            "saved by each, W": f"{_between(saving, 1.0)}{_why_unknown(saving)}",
            "saved by all, kWh a year": _between(saving, kind.machines * HOURS / 1000),
            **({"loses": saving.loses or "nothing"} if any(one.loses for _, one in self.types) else {}),
        }

    def below(self) -> list[str]:
        """Give what was refused, and what was assumed."""
        prices = [f"{kind.name} {saving.price}" for kind, saving in self.types if saving.price]
        price = [f"Price of the settings against the baseline: {'; '.join(prices)}."] if prices else []
        unsure: dict[str, list[str]] = {}
        for kind, saving in self.types:
            if saving.limits:
                unsure.setdefault(saving.limits, []).append(f"{kind.name} {saving.setting} {saving.keeps}")
        kept = [f"Probability of keeping {words}: {'; '.join(those)}" for words, those in unsure.items()]
        limits = [f"A setting is the best only where it keeps its limits. {'. '.join(kept)}."] if kept else []
        told: dict[str, list[str]] = {}
        for kind, saving in self.types:
            for words in (*saving.twins, *saving.left_out, *saving.missing):
                told.setdefault(words, []).append(kind.name)
        same = [f"{'; '.join(names)}: {words}" for words, names in told.items()]
        curves = [
            f"{kind.name} draws a generic curve's power; {' or '.join(kind.built_in)} of `opplab list machines` is "
            f"this processor with power of its own: the name may stand in place of the dump."
            for kind, _ in self.types
            if kind.built_in
        ]
        passed = [f"{kind.name} stays as it is: {saving.passed}." for kind, saving in self.types if saving.passed]
        unlike = [f"{kind.name} {kind.unlike}." for kind, _ in self.types if kind.unlike]
        return [
            *_boosts(self.types)[MOST:],
            *unlike,
            *self._at_equal_work(),
            *([] if _sure(self.types) else filter(None, [_start(self.types)])),
            *limits,
            *price,
            *passed,
            *same,
            *curves,
            *(f"Refused: {name}: {why}" for name, why in self.refused),
            self.assumed,
        ]

    def _at_equal_work(self) -> list[str]:
        """Report that savings are at the baseline's work, and where mean power rises as more of it is done."""
        if not any(saving.watts for _, saving in self.types):
            return []
        rises = [
            f"{kind.name} {change_text(saving.power)}"
            for kind, saving in self.types
            if (saving.watts or 0.0) > 0 and saving.power >= RISE
        ]
        more = f" Mean power rises, as more work is done: {'; '.join(rises)}." if rises else ""
        return [f"Watts and kWh saved are at the baseline's work: a machine that has done it is idle.{more}"]

    def size(self) -> int:
        """Give the number of machine types."""
        return len(self.types)

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a machine type, for programs."""
        out = []
        for kind, saving in self.types:
            year = kind.machines * HOURS / 1000
            saved = {"": saving.watts, "_low": saving.low, "_high": saving.high}
            out.append(
                {
                    "machine_type": kind.name,
                    "machines": kind.machines,
                    "setting": saving.setting,
                    "driver": saving.driver,
                    "baseline": saving.baseline,
                    "baseline_driver": saving.base_driver,
                    "best_in": saving.best,
                    "keeps_limits_in": saving.keeps,
                    "baseline_watts": saving.base_watts,
                    "baseline_missed_percent": saving.base_missed,
                    "missed_percent": saving.missed,
                    "work_change_percent": saving.work,
                    "start_percent": 100 * saving.start.share,
                    **{f"saved_watts{end}": watts for end, watts in saved.items()},
                    "clear": saving.clear,
                    "reason": saving.reason,
                    **{f"saved_kwh_a_year{end}": watts and watts * year for end, watts in saved.items()},
                    "digest": kind.digest,
                    "dumps": " ".join(kind.dumps),
                }
            )
        return out

    def facts(self) -> Mapping[str, Any]:
        """Give what JSON has beside the rows."""
        commands = {kind.digest: saving.commands for kind, saving in self.types}
        refused = [{"dump": name, "why": why} for name, why in self.refused]
        words = {
            "twins": {kind.digest: saving.twins for kind, saving in self.types},
            "left_out": {kind.digest: saving.left_out for kind, saving in self.types},
            "missing": {kind.digest: [*_boosts([(kind, saving)]), *saving.missing] for kind, saving in self.types},
            "unlike": {kind.digest: kind.unlike for kind, _ in self.types},
        }
        return {**super().facts(), "commands": commands, **words, "refused": refused, "assumed": self.assumed}

    def commands_text(self) -> str:
        """Give the commands that set it: once for types that share them."""
        shared: dict[tuple[str, ...], list[str]] = {}
        for kind, saving in self.types:
            if saving.commands:
                shared.setdefault(tuple(saving.commands), []).append(kind.name)
        parts = ["# " + "; ".join(names) + "\n" + "\n".join(lines) for lines, names in shared.items()]
        return "\n".join(parts) + ("\n" if parts else "")

    def page(self) -> str:
        """Give the answer as one self-contained page."""
        from opplab.report.html import render

        return render(
            "choice.html",
            title="Fleet: one setting for each machine type",
            subtitle="",
            facts=[
                ("machine types", str(len(self.types))),
                ("machines", str(sum(kind.machines for kind, _ in self.types))),
                ("refused", str(len(self.refused))),
            ],
            answer=self.html(),
            commands=self.commands_text().splitlines(),
            label="by machine type",
            panels=[],
            tables=[],
            note=METHOD,
            version=_opplab.__version__,
            footer=f"Made by opplab {_opplab.__version__}.",
        )


METHOD = (
    "Watts saved are the baseline's mean power less that of the setting at equal work: a machine that has done the "
    "baseline's work sooner draws its idle power for the rest. A year has 8760 hours under this workload. Machines are "
    "of one type if their dumps are equal in all that a simulation uses."
)


def sources_of(arguments: Sequence[str | Path]) -> list[Path]:
    """Give the dumps of some arguments: dumps, folders of dumps, and lists (``.txt``, one path a line), with repeats.

    Machine files and names of built-in machines may stand beside dumps. A ``.txt`` of which no line is the path of
    something is a dump itself.

    Raises
    ------
    InputError
        If there is nothing at a path, or no dump in a folder or list.
    """
    out: list[Path] = []
    for argument in map(Path, arguments):
        found = [argument]
        if argument.suffix == ".txt" and argument.is_file():
            lines = read_text(argument, "list of dumps").splitlines()
            words = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
            listed = [argument.parent / word for word in words]
            found = listed if not listed or any(path.exists() for path in listed) else [argument]
        elif argument.is_dir() and not any((argument / name).exists() for name in ("sys", "proc", "cpufreq", SNAPSHOT)):
            found = sorted(path for path in argument.iterdir() if not path.name.startswith("."))
        elif not argument.exists() and str(argument) not in names("machine"):
            raise InputError(f"{argument}: there is no such dump, folder, list or machine")
        if not found:
            raise InputError(f"{argument}: there is no dump in it")
        out += found
    return out


def counted_of(sources: Sequence[Path], counts: Mapping[str, int]) -> dict[Path, int]:
    """Give how many machines each dump stands for: as many as `counts` has for its path or file name, else one.

    Raises
    ------
    InputError
        A count of no dump, of several of one name, or twice of one.
    """
    out = dict.fromkeys(sources, 1)
    given: dict[Path, str] = {}
    for name, number in counts.items():
        found = [one for one in out if one == Path(name)] or [one for one in out if one.name == name]
        if len(found) != 1:
            near = "" if found else nearest(name, [one.name for one in out])
            raise InputError(
                f"count of `{name}`: {len(found) or 'no'} dump{'s' * (len(found) != 1)} of that name{near}"
            )
        if found[0] in given:
            raise InputError(f"count of `{name}`: `{given[found[0]]}` has given one for the same dump")
        out[found[0]], given[found[0]] = number, name
    return out


def types_of(sources: Mapping[Path, int]) -> tuple[list[MachineType], list[tuple[str, str]]]:
    """Import dumps and group them into machine types; give the dumps that were refused, too.

    `sources` has how many machines each dump stands for.
    """
    types: dict[str, MachineType] = {}
    # By what dumps have themselves: a curve in place of their power is put in once for those that are equal.
    of_dumps: dict[str, MachineType] = {}
    refused = []
    for source, number in sources.items():
        try:
            text, limits = _read(source)
            tree = toml_of(text, "the machine file")
            own = _digest(tree)
            if own not in of_dumps:
                made = _type_of(text, tree, source)
                of_dumps[own] = types.setdefault(made.digest, made)
        except (OpplabError, OSError) as error:
            words = (
                (getattr(error, "strerror", "") or str(error))
                .removeprefix("failed to import ")
                .removeprefix("failed to read ")
                .removeprefix(f"{source}:")
                .lstrip()
            )
            refused.append((str(source), words))
            continue
        kind = of_dumps[own]
        kind.dumps.append(str(source))
        kind.limited += [(str(source), limit) for limit in limits]
        kind.machines += number
    named: dict[str, list[MachineType]] = {}
    for one in types.values():
        alike = named.setdefault(one.name, [])
        alike.append(one)
        if len(alike) > 1:
            one.name = f"{one.name} ({len(alike)})"
            one.unlike = f"differs from {alike[0].name} in {in_words(_differ(alike[0].text, one.text))}"
    return list(types.values()), refused


_TITLES = {"turbo": "turbo table", "opp": "clocks", "idle": "idle states", "base_khz": "base clock"}
"""What a type's lines call keys of a machine file; the other keys are by their names."""
_POWER = re.compile(r"(^|_)[um]w$")


def _differ(text: str, other: str) -> list[str]:
    r"""Name in what two machine files differ; power and ranges where nothing else does, as they follow from the rest.

    Examples
    --------
    >>> _differ("[[cluster]]\nopp = [{ khz = 2 }]", "[[cluster]]\nopp = [{ khz = 2 }]\nturbo = [{ khz = 3 }]")
    ['turbo table']
    """
    ours, theirs = (toml_of(each, "the machine file") for each in (text, other))
    clusters = [tree.pop("cluster") for tree in (ours, theirs)]
    pairs = [(ours, theirs), *zip(*clusters, strict=False)]
    whole: dict[str, None] = {}
    power: dict[str, None] = {}
    if len(clusters[0]) != len(clusters[1]):
        whole["clusters"] = None
    for one, two in pairs:
        for key in sorted({*one, *two} - {"name", "provenance", "source"}):
            bare = [_bare(each.get(key)) for each in (one, two)]
            if key != "range" and not _POWER.search(key) and bare[0] != bare[1]:
                whole[_TITLES.get(key, key)] = None
            elif one.get(key) != two.get(key):
                power["ranges" if key == "range" else "power"] = None
    return [*(whole or power)]


def _bare(value: Any) -> Any:
    """Give a part of a machine file without its power."""
    if isinstance(value, Mapping):
        return {key: _bare(inner) for key, inner in value.items() if not _POWER.search(key)}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


_LIMITS = ("turbo-off", "freq-capped")
"""Findings about a dump that are limits of its clock."""


def _read(source: Path) -> tuple[str, list[str]]:
    """Give the machine file of a dump or of a machine, and the limits of the clock that a dump has."""
    from opplab.simulation.machine import Machine

    if source.suffix == ".toml" or (not source.exists() and str(source) in names("machine")):
        return Machine.load(source)._inner.renamed("machine").to_toml(), []
    if not source.exists():
        raise InputError("there is no such file")
    machine, report = _opplab.import_machine(str(source))
    found = json.loads(report)["findings"]
    limits = [one["what"] for one in found if one["check"] in _LIMITS and one["severity"] == "warning"]
    return machine.renamed("machine").to_toml(), limits


def _type_of(text: str, tree: Mapping[str, Any], source: Path) -> MachineType:
    """Give the type of a machine file, with a generic curve where it has no power."""
    from opplab.fit.machine_power import GENERIC_MARK, generic_power

    if tree.get("source", {}).get("default.cluster.opp", "").startswith("cpu-mhz"):
        raise InputError(
            "it has no cpufreq (a virtual machine has none): there is no setting to choose; its host may have"
        )
    if not _has_power(tree):
        text, _ = generic_power(text)
        tree = toml_of(text, "the machine file")
    kind = MachineType(_name_of(tree, source), _digest(tree), text)
    kind.built_in = _built_in(tree) if GENERIC_MARK in text else []
    return kind


def fleet(
    dumps: Sequence[str | Path],
    workload: Any,
    *,
    counts: Mapping[str, int] | None = None,
    output: Path | None = None,
    said: Callable[[str], None] = lambda _: None,
    **options: Any,
) -> Fleet:
    """Choose a setting for every machine type of some dumps.

    Parameters
    ----------
    dumps : sequence of str or Path
        Dumps, folders of them, or lists of their paths (``.txt``).
    workload : Workload, Benchmark, str or Path
        As in `opplab.choose`.
    counts : mapping of str to int, optional
        How many machines a dump stands for, by its path or file name; one without.
    output : Path, optional
        Folder where each type's answer is kept; types that are answered there for the same question are not run again.
    said : callable
        Takes lines about the progress.
    **options
        Of `opplab.choose`.

    Returns
    -------
    Fleet
    """
    from opplab.choice.cases import load_or_trace
    from opplab.summary.answer import title_of

    # What is wrong with the question is no dump's fault.
    load = load_or_trace(workload)
    goals = tuple(options.get("goals") or ())
    # Energy counts by what a fleet pays.
    goals = tuple(dict.fromkeys(POWER_AT_EQUAL_WORK if one == "energy" else one for one in (*goals, "energy")))
    options["goals"] = goals
    for text in options.get("constraints") or ():
        if text.strip() != ANY_WORK:
            Constraint.parse(text)
    sources = sources_of(dumps)
    types, refused = types_of(counted_of(sources, counts or {}))
    lacking = _lacking(types, load, options)
    if types:
        said(_cost(len(types), options))
    answered = []
    for number, kind in enumerate(types, start=1):
        try:
            lacks = lacking[kind.digest]
            fitting = [text for text in options.get("variants") or () if text not in lacks]
            if lacks and not fitting and len(options.get("governors", GOVERNORS)) < 2:
                raise InputError(next(iter(lacks.values())))
            own = {**options, **({"variants": fitting} if lacks else {})}
            question = _question(workload, own, kind.machine())
            own["said"] = lambda words, name=kind.name: said(f"{name}: {words}")
            saving, again = _kept(output, kind, question, partial(_chosen, kind, load, own))
        except OpplabError as error:
            refused += [(dump, f"{kind.name}: {error}") for dump in kind.dumps]
            continue
        left_out = [f"--vs '{text}' is left out: {why}." for text, why in lacks.items()]
        saving = replace(saving, missing=[*saving.missing, *left_out, *kind.without_limits()])
        said(f"{number}/{len(types)} machine types: {kind.name}{' (kept)' if again else ''}")
        answered.append((kind, saving))
    answered.sort(key=lambda one: -(one[1].watts or 0.0) * one[0].machines)
    label = str(getattr(workload, "label", getattr(workload, "name", workload)))
    machines = several(sum(kind.machines for kind, _ in answered), "machine")
    asked = f"Which setting for {label} on {machines} of {several(len(answered), 'type')}?"
    best = (
        "Least power at equal work"
        if goals == (POWER_AT_EQUAL_WORK,)
        else f"Best in {' and '.join(map(title_of, goals))}"
    )
    limits = "".join(
        f", {'less work too' if limit.strip() == ANY_WORK else limit}" for limit in options.get("constraints") or ()
    )
    return Fleet(
        f"{asked} {best}{limits}",
        f"{_finding(answered)}{_missed(answered)}{_loses(answered)}",
        answered,
        refused,
        f"{_repeated(sources)}{_assumed(answered, options.get('uncertainty', DRAWS))}",
    )


def _cost(types: int, options: Mapping[str, Any]) -> str:
    """Report how many runs the types take, which decides how long the answer does."""
    from opplab.uncertainty.draws import RUNS_OF_DRAW

    settings = len(options.get("governors", GOVERNORS)) + len(options.get("variants") or ())
    iterations, draws = options.get("iterations", ITERATIONS), options.get("uncertainty", DRAWS)
    each, others, again = several(iterations, "run"), max(draws - 1, 0), min(iterations, RUNS_OF_DRAW)
    idle = "a run without work"
    if others:
        each += f" and {again} at each of {several(others, 'other draw')}"
        idle += " at each"
    # Without work each setting runs once.
    runs = types * settings * (iterations + 1 + (again + 1) * others)
    more = ", and some at the ends of ranges that decide" if others else ""
    return (
        f"up to {several(runs, 'run')}{more}: {several(types, 'machine type')} x {several(settings, 'setting')}, each "
        f"with {each}, and {idle} (lower --seconds, --iterations and --uncertainty take less time)"
    )


def _lacking(types: Sequence[MachineType], load: Any, options: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Give the variants that each type cannot have, and why; one that no type can have is refused."""
    from opplab.choice.choose import unfit

    out = {kind.digest: unfit(kind.machine(), load, **options) for kind in types}
    for text in options.get("variants") or () if out else ():
        if all(text in lacks for lacks in out.values()):
            raise InputError(f"--vs '{text}': no machine type can have it: {next(iter(out.values()))[text]}")
    return out


def _repeated(sources: Sequence[Path]) -> str:
    """Name that a dump given several times is one machine."""
    if not (more := len(sources) - len(set(sources))):
        return ""
    return f"{several(more, 'repeated path')} left out: `--count DUMP=N` counts a dump as N machines. "


def _chosen(kind: MachineType, workload: Any, options: Mapping[str, Any]) -> Saving:
    from opplab.choice.choose import choose
    from opplab.choice.settings import driver_of
    from opplab.summary.caveats import beside_cpus

    machine = kind.machine()
    choice = choose(machine, workload, **options)
    shared = options.get("policy") or {}
    drivers = {option.label: driver_of(option.setting, machine.tree, shared) for option in choice.options}
    saving = Saving.of(choice)
    limits = machine.tree.get("package_power", {})
    if saving.watts and machine.tree.get("consumer") and (limits.get("pl1_uw") or limits.get("pl2_uw")):
        # The CPUs' watts are known, and not how many of them the package saves.
        saving = replace(saving, watts=None, low=None, high=None, clear=False, reason=TAKEN)
    return replace(
        saving,
        missing=[*saving.missing, *beside_cpus(kind.name, machine.tree)],
        driver=drivers.get(saving.setting, ""),
        base_driver=drivers[saving.baseline],
    )


def _kept(output: Path | None, kind: MachineType, question: str, run: Callable[[], Saving]) -> tuple[Saving, bool]:
    """Give the answer that a folder has of this type and question, or run and keep it."""
    if output is None:
        return run(), False
    key = hashlib.sha256(f"{kind.digest}\n{kind.text}\n{question}".encode()).hexdigest()[:16]
    path = output / "types" / f"{key}.json"
    if path.exists():
        try:
            kept = json.loads(read_text(path, "an answer"))
            if kept["sha256"] == digest_of(kept["saving"]):
                return Saving(**{**kept["saving"], "start": Start(**kept["saving"]["start"])}), True
        except (ValueError, TypeError, KeyError, OSError, InputError):
            # Cut off while it was written, or another version's: it is run again.
            pass
    saving = run()
    path.parent.mkdir(parents=True, exist_ok=True)
    plain = asdict(saving)
    write_text(path, json.dumps({"sha256": digest_of(plain), "saving": plain}, indent=1) + "\n")
    return saving, False


def _question(workload: Any, options: Mapping[str, Any], on: Machine) -> str:
    """Give all that an answer depends on beside the machine: what files have, the options, the build, this code."""
    from opplab.sweep.drivers import MachineFacts
    from opplab.sweep.power_profiles import is_power_profile, power_profiles
    from opplab.sweep.store import build_id

    asked = {name: value for name, value in options.items() if name not in ("jobs", "executor", "progress")}
    base = {**(options.get("policy") or {}), "governor": options.get("governors", GOVERNORS)[0]}
    facts = MachineFacts.of(on.tree)
    variants = [
        [one.keys for one in power_profiles(text, facts, base=base)] if is_power_profile(text) else text
        for text in options.get("variants", ())
    ]
    files: list[Path] = []
    if isinstance(workload, Path):
        files = [workload] if workload.is_file() else sorted(workload.rglob("*"))
    content = [[str(file), _digest_of_file(file)] for file in files if file.is_file()]
    return json.dumps([str(workload), content, asked, variants, build_id(), ranked_by()], sort_keys=True, default=str)


@cache
def ranked_by() -> str:
    """Give a digest of the package's Python, which ranks settings; the extension alone decides only what runs give."""
    whole = hashlib.sha256()
    for file in sorted(Path(opplab.__file__).parent.rglob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()


def _digest_of_file(file: Path) -> str:
    with check_size(file, "a workload").open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _digest(tree: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in tree.items() if name not in ("name", "provenance", "source")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True, default=str).encode()).hexdigest()[:16]


def _has_power(tree: Mapping[str, Any]) -> bool:
    from opplab.simulation.power import known_power

    return any(known_power(tree))


def _name_of(tree: Mapping[str, Any], source: Path) -> str:
    """Name a type by its processor, without trade marks, and its CPUs."""
    about, imported, _ = str(tree.get("provenance", "")).partition("; imported from")
    name = re.sub(r"\((R|TM)\)|\bCPU\b|\bProcessor\b|\b\d+-Core\b|@.*", " ", about if imported else "")
    name = " ".join(name.split()) or source.name.partition(".")[0]
    return f"{name}, {several(nr_cpus(tree), 'CPU')}"


def _built_in(tree: Mapping[str, Any]) -> list[str]:
    """Name the built-in machines of a machine's processor and number of CPUs that have power."""
    processor, _, _ = str(tree.get("provenance", "")).partition("; ")
    alike = [(name, toml_of(text, name)) for name, text in _catalog() if processor and f'"{processor}; ' in text]
    return [name for name, own in alike if nr_cpus(own) == nr_cpus(tree) and _has_power(own)]


@cache
def _catalog() -> list[tuple[str, str]]:
    """Give the built-in machines and their files."""
    return [(name, read_text(find("machine", name), "a machine file")) for name in names("machine")]


def _between(saving: Saving, scale: float) -> str:
    if saving.watts is None:
        return "unknown"
    if saving.low is None or saving.high is None:
        return quantity(saving.watts * scale)
    star = "*" if saving.clear else ""
    return f"{quantity(saving.watts * scale)} [{quantity(saving.low * scale)}, {quantity(saving.high * scale)}]{star}"


def _why_unknown(saving: Saving) -> str:
    return f": {saving.reason}" if saving.watts is None and saving.reason else ""


def _missed(answered: Sequence[tuple[MachineType, Saving]]) -> str:
    """Name the types on which the baseline does not do its work in time: savings are against that."""
    late = [(kind, saving) for kind, saving in answered if saving.base_missed > MISSED_SLACK]
    if not late:
        return ""
    late.sort(key=lambda one: -one[1].base_missed)
    words = [f"{saving.base_missed:.3g} % ({saving.baseline}) on {kind.name}" for kind, saving in late[:MOST]]
    more = f"; it misses some on {several(len(late) - MOST, 'more type')}" if len(late) > MOST else ""
    return f" The baseline misses activations: {'; '.join(words)}{more}."


def _loses(answered: Sequence[tuple[MachineType, Saving]]) -> str:
    """Count the types whose setting does less than the baseline, which is no saving."""
    less = sum(bool(saving.loses) for _, saving in answered)
    return f" The setting does less than the baseline on {several(less, 'type')} (`loses`)." if less else ""


def _start(answered: Sequence[tuple[MachineType, Saving]]) -> str:
    """Report the largest share that the start has of the runs of a type; empty where it is little in all of them."""
    found = [(kind, saving.start) for kind, saving in answered if saving.start.share > STARTING]
    if not found:
        return ""
    kind, most = max(found, key=lambda one: one[1].share)
    if most.share >= 1:
        return f"Some tasks never begin on {kind.name}: the last would after {most.seconds:.3g} s."
    up_to = "up to " if len(answered) > 1 else ""
    longest = max(start.free_s for _, start in found)
    year = f"; a year has none of it (--seconds {longest:g} leaves {LITTLE:g} % at most)" if longest else ""
    share = f"{up_to}{100 * most.share:.2g} % of them on {kind.name}"
    return f"Energy includes the start of the runs, until {most.tasks} have begun: {share}{year}."


def _sure(answered: Sequence[tuple[MachineType, Saving]]) -> list[tuple[MachineType, Saving, float]]:
    """Give the types with a clear saving, and their watts."""
    return [(kind, saving, watts) for kind, saving in answered if (watts := saving.watts or 0.0) > 0 and saving.clear]


def _finding(answered: Sequence[tuple[MachineType, Saving]]) -> str:
    if not answered:
        return "No machine type could be answered."
    boosts = _boosts(answered)
    if len(boosts) > MOST:
        boosts[MOST:] = [f"So it is, or in part, on {several(len(boosts) - MOST, 'more type')} (below)."]
    if all(saving.setting == saving.baseline for _, saving in answered):
        bases = " or ".join(dict.fromkeys(saving.baseline for _, saving in answered))
        types = several(len(answered), "machine type")
        stays = f"The baseline, {bases}, is the best on {types}: nothing to change."
        if any(saving.passed for _, saving in answered):
            stays = f"No setting is better than the baseline, {bases}, on {types}: nothing to change."
        return " ".join([stays, *boosts])
    words = []
    if sure := _sure(answered):
        total = sum(watts * kind.machines for kind, _, watts in sure)
        count = sum(kind.machines for kind, *_ in sure)
        machines = f"{several(count, 'machine')} of {several(len(sure), 'type')}"
        year = f"{quantity(total)} W, {quantity(total * HOURS / 1000)} kWh a year"
        # A change that is equal in all runs is clear, and has no ends.
        low = sum((watts if saving.low is None else saving.low) * kind.machines for kind, saving, watts in sure)
        high = sum((watts if saving.high is None else saving.high) * kind.machines for kind, saving, watts in sure)
        ends = "" if low == high else f"; the ends of the intervals add up to {quantity(low)} and {quantity(high)} W"
        words.append(f"Clear savings: {year} at the baseline's work, on {machines}{ends}.")
        # Directly behind what is called clear.
        words += boosts
        words += filter(None, [_start(answered)])
        known = [(kind, saving.watts) for kind, saving in answered if saving.watts is not None]
        whole = sum(watts * kind.machines for kind, watts in known)
        if whole != total:
            year = f"{quantity(whole)} W, {quantity(whole * HOURS / 1000)} kWh a year"
            words.append(f"By the means of {several(len(known), 'type')}, clear or not: {year}.")
    # What the other types have in common is one sentence, and how many they are.
    others = Counter(_why_not(saving) for _, saving in answered if not (saving.clear and (saving.watts or 0.0) > 0))
    words += (text.format(several(count, "machine type")) for text, count in others.items())
    return " ".join([*words, *([] if sure else boosts)])


def _boosts(answered: Sequence[tuple[MachineType, Saving]]) -> list[str]:
    """Give the sentences on unknown boost."""
    return [saving.boost for _, saving in answered if saving.boost]


def _why_not(saving: Saving) -> str:
    """Give the sentence about a type without a clear saving, with a place for the types."""
    if not saving.setting:
        return f"No setting keeps {saving.broken} on {{}}."
    if saving.setting == saving.baseline:
        return "No setting is better than the baseline on {}."
    if saving.watts is None:
        return f"The energy saved is unknown on {{}}{_why_unknown(saving)}."
    if saving.watts < 0:
        why = f", which breaks {saving.broken}" if saving.broken else ""
        doubt = f" ({saving.reason})" if saving.reason else ""
        who = "The setting" if saving.clear else f"By the mean, not clear{doubt}, the setting"
        return f"{who} takes more energy than the baseline{why}, on {{}}."
    return f"No saving is clear on {{}}: {saving.reason or 'no interval excludes zero'}."


def _assumed(answered: Sequence[tuple[MachineType, Saving]], draws: int) -> str:
    from opplab.fit.machine_power import GENERIC_MARK
    from opplab.summary.caveats import counts_idle_as_nothing

    if not answered:
        return "No machine type has an answer: every dump is refused."
    generic = sum(GENERIC_MARK in kind.text for kind, _ in answered)
    without = sum(counts_idle_as_nothing(tomllib.loads(kind.text)) for kind, _ in answered)
    have = "draws" if generic == 1 else "draw"
    curves = f"{generic} of {len(answered)} types {have} a generic curve's power; " if generic else ""
    alone = "no numbers were drawn, so that intervals cover the runs alone; " if draws < 2 else ""
    idle = f"{without} have no power of idle states and clusters, which counts as 0; " if without else ""
    saves = any((saving.watts or 0.0) > 0 for _, saving in answered)
    which = "that saves most" if saves else "with the most machines"
    return (
        f"Assumed: {alone}{curves}{idle}8760 hours a year under this workload. Next: `opplab fit power` on one machine "
        f"of the type {which}; its file may stand in place of the dump."
    )
