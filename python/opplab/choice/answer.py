"""The answer to a choice: a ranking, a recommendation, what it hangs on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.uncertainty.parts import LEVEL, Influence, Parts

if TYPE_CHECKING:
    from opplab.choice.settings import Setting

__all__ = ["Choice", "Option"]

LITTLE = 1.0
"""Percent; who differs by less is as good."""

SURE = 0.9
"""From this probability on a recommendation is called sure."""

# What would tell an assumed number, by the end of its key.
_MEASURES = (
    (
        "idle.uw",
        "power in idle states: leave the device idle at a fixed clock and read its meter (`opplab machine import`)",
    ),
    ("uw", "power by clock: a fixed clock, one busy core, then all (`opplab fit power`)"),
    ("driver.switch_ns", "how late the clock follows: cpufreq events beside a cycle counter"),
    (
        "transition_latency_ns",
        "how long a switch takes: cpuinfo_transition_latency is what the driver says, no measurement",
    ),
    ("wake_ns", "wake-up latency of each idle state (wult, or `opplab host record` under timers)"),
    ("exit_latency_ns", "wake-up latency of each idle state (wult, or `opplab host record` under timers)"),
    ("entry_latency_ns", "entry latency of each idle state (wult)"),
    ("target_residency_ns", "break-even time of each idle state, from its power and latencies"),
    ("costs", "costs of switches, wake-ups and ticks (perf bench sched, ftrace)"),
    ("capacity", "capacity of each kind of CPU: one benchmark on each, at its highest clock"),
    ("_cycles", "what the benchmark does on this machine (`opplab calibrate`)"),
    ("_us", "how long the benchmark's device takes (fio on it)"),
    ("smt_power", "power of a core with one and with two busy threads"),
    ("smt_yield", "throughput of a core with one and with two busy threads"),
)


@dataclass(frozen=True)
class Option:
    """A setting and what is known of it.

    Attributes
    ----------
    setting : Setting
    label : str
    parts : dict of str to Parts
        Each metric that counts, with its interval.
    best : float
        Probability that no other setting is better, among those that keep the constraints.
    meets : float
        Probability that it keeps all constraints.
    commands : list of str
        What sets it on a device.
    """

    setting: Setting
    label: str
    parts: Mapping[str, Parts]
    best: float
    meets: float
    commands: Sequence[str]


@dataclass
class Choice:
    """The answer to a choice.

    Attributes
    ----------
    options : list of Option
        The best first.
    metrics, goals : list of str
        What is shown; what counts, the first decides.
    units : dict of str to (unit, better)
    constraints : list of str
    gap : Parts or None
        By how much the second setting is off from the first in the deciding metric, in percent.
    hangs : list of Influence
        Assumptions that this gap hangs on, the strongest first.
    assumptions : dict of str to str
        Everything that was drawn, with its range.
    facts : list of (str, str)
    sources : dict of str to str
        The machine file's marks.
    samples : (int, str)
        How many draws (that of the file's own numbers too) or, without draws, runs the probabilities are of.
    """

    options: list[Option]
    metrics: list[str]
    goals: list[str]
    units: dict[str, tuple[str, str]]
    constraints: list[str]
    gap: Parts | None
    hangs: list[Influence]
    assumptions: dict[str, str]
    facts: list[tuple[str, str]] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    samples: tuple[int, str] = (1, "runs")

    def chance(self, probability: float) -> str:
        """Give a probability as far as the draws (without draws: the iterations) tell it apart from none and all.

        Of 16 draws that all agree nobody knows 100 %, but "all 16 draws".
        """
        number, what = self.samples
        if probability > 1 - 1 / (number + 1):
            return f"all {number} {what}"
        if probability < 1 / (number + 1):
            return f"none of {number} {what}"
        return f"{100 * probability:.0f} %"

    def _in(self, probability: float) -> str:
        words = self.chance(probability)
        return f"with a probability of {words}" if words.endswith("%") else f"in {words}"

    @property
    def recommended(self) -> Option | None:
        """The setting to take; None if none keeps the constraints."""
        first = self.options[0]
        return first if first.meets >= 0.5 else None

    @property
    def pareto(self) -> list[Option]:
        """The settings that no other beats in all goals, by their means."""
        signs = [1.0 if self.units[goal][1] == "lower" else -1.0 for goal in self.goals]

        def cost(option: Option) -> list[float]:
            return [sign * option.parts[goal].value for sign, goal in zip(signs, self.goals, strict=True)]

        costs = [cost(option) for option in self.options]
        return [
            option
            for option, own in zip(self.options, costs, strict=True)
            if not any(
                all(a <= b for a, b in zip(other, own, strict=True))
                and any(a < b for a, b in zip(other, own, strict=True))
                for other in costs
            )
        ]

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a setting, the best first."""
        rows = []
        for place, option in enumerate(self.options, start=1):
            row: dict[str, Any] = {"rank": place, "setting": option.label, "best": round(option.best, 4)}
            if self.constraints:
                row["meets"] = round(option.meets, 4)
            for metric in self.metrics:
                parts = option.parts[metric]
                row |= {metric: parts.value, f"{metric}_low": parts.low, f"{metric}_high": parts.high}
                row |= {f"{metric}_runs": parts.runs, f"{metric}_unit": self.units[metric][0]}
            rows.append(row)
        return rows

    def text_rows(self) -> list[dict[str, str]]:
        """Give the same as text for people."""
        rows = []
        for place, option in enumerate(self.options, start=1):
            row = {"": str(place), "setting": option.label, "best in": self.chance(option.best)}
            if self.constraints:
                row["keeps limits in"] = self.chance(option.meets)
            for metric in self.metrics:
                row[f"{metric}, {self.units[metric][0]}"] = value_words(option.parts[metric])
            rows.append(row)
        return rows

    def findings(self) -> list[str]:
        """Say in sentences what to do, how sure that is, and what would make it surer."""
        first = self.options[0]
        chosen = self.recommended
        limits = " and ".join(self.constraints)
        if chosen is None:
            return [f"No setting keeps {limits}; the nearest is {first.label}, which does {self._in(first.meets)}."]
        goal = self.goals[0]
        out = [
            f"Recommended: {chosen.label}: {goal} {value_words(chosen.parts[goal])} {self.units[goal][0]}, the best "
            f"{self._in(chosen.best)}" + (f", keeps {limits} {self._in(chosen.meets)}." if limits else ".")
        ]
        same = [option.label for option in self.options[1:] if option.parts[goal] == chosen.parts[goal]]
        if same:
            out.append(f"{', '.join(same)}: the same in every run, so that nothing here decides between them.")
        elif self.gap is not None and len(self.options) > 1:
            second = self.options[1]
            between = (
                ""
                if self.gap.low is None or self.gap.high is None
                else f" ({self.gap.low:+.1f} to {self.gap.high:+.1f} %)"
            )
            # No "-0.0": what rounds to nothing has no sign.
            value = 0.0 if abs(self.gap.value) < 0.05 else self.gap.value
            text = f"Next is {second.label}, {value:+.1f} % in {goal}{between}"
            ends = (self.gap.low, self.gap.high)
            little = all(end is not None and abs(end) <= LITTLE for end in ends)
            agreed = self.chance(chosen.best).startswith("all")
            number, what = self.samples
            nothing = (
                f"{number} {what} are too few to exclude that this is nothing" if agreed else "that may be nothing"
            )
            doubt = f": they differ by less than {LITTLE:g} %, either will do." if little else f": {nothing}."
            out.append(text + ("." if self.gap.is_clear and not little else doubt))
            same = [second.label] if little else []
        if not self.assumptions:
            out.append(
                "The machine file states no ranges (or none were drawn): what its numbers leave open is not in this."
            )
        keys = [one.key for one in self.hangs if one.p < 0.05][:3]
        if keys:
            out.append(f"Between these two it hangs on {', '.join(keys)}.")
        if chosen.best < SURE and not same:
            out += [f"To be surer: {words}." for words in self.measures()]
        if not any(parts.varies for parts in chosen.parts.values()):
            out.append("No variation modelled: all runs of a setting are equal.")
        return out

    def measures(self) -> list[str]:
        """Say what to measure, or to run, to be surer."""
        out = []
        for one in self.hangs[:3]:
            if one.p >= 0.05:
                continue
            words = next((words for end, words in _MEASURES if one.key.endswith(end) or one.key.startswith(end)), "")
            out.append(f"measure {one.key} (assumed {self.assumptions[one.key]}){': ' + words if words else ''}")
        gap = self.gap
        if gap is not None and gap.runs is not None:
            assumed = (gap.assumed[1] - gap.assumed[0]) / 2 if gap.assumed else 0.0
            if gap.runs > assumed:
                out.append(
                    f"more or longer runs: they leave \u00b1 {gap.runs:.1f} % open, the assumptions {assumed:.1f} %"
                )
        return out

    def to_json(self) -> str:
        """Give everything as JSON."""
        whole = {
            "facts": dict(self.facts),
            "goals": self.goals,
            "constraints": self.constraints,
            "settings": [
                {
                    **row,
                    "keys": dict(option.setting.keys),
                    "tunables": dict(option.setting.tunables),
                    "pareto": option in self.pareto,
                    "commands": list(option.commands),
                }
                for row, option in zip(self.rows(), self.options, strict=True)
            ],
            "recommended": None if self.recommended is None else self.recommended.label,
            "findings": self.findings(),
            "hangs_on": [
                {"assumption": one.key, "rank_correlation": one.rank_correlation, "share": one.share, "p": one.p}
                for one in self.hangs
            ],
            "assumptions": self.assumptions,
            "level": LEVEL,
        }
        return json.dumps(whole, indent=1) + "\n"

    def write(self, path: str | Path) -> Path:
        """Write the report, one self-contained HTML page."""
        from opplab.choice.page import page
        from opplab.files import write_text

        write_text(Path(path), page(self))
        return Path(path)

    def __str__(self) -> str:
        from opplab.report.text import render_table

        return render_table(self.text_rows(), "text") + "\n".join(self.findings())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from opplab.choice.page import pareto_picture
        from opplab.report.notebook import card

        facts = {**dict(self.facts), "answer": " ".join(self.findings())}
        return card(
            "choice", facts, self.text_rows()[:20], picture=pareto_picture(self), more=max(len(self.options) - 20, 0)
        )


def value_words(parts: Parts) -> str:
    """Give a value with its interval."""
    if parts.low is None or parts.high is None or parts.low == parts.high:
        return f"{parts.value:.4g}"
    return f"{parts.value:.4g} [{parts.low:.4g}, {parts.high:.4g}]"
