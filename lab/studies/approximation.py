"""What does the non-invariant approximation cost?  The open question of text 002, computed.

Without frequency invariance schedutil asks for ``1.25 * f_curr * util_raw``, with it for ``1.25 * f_max * util``.  This
study closes the loop of load tracking, governor and frequency for one task on one CPU (``crates/study``: the
kernel's exact PELT and schedutil) and compares the two, and the form that kernels have since v6.8, with headroom twice.

``python -m lab.studies.approximation`` writes the tables of ``docs/approximation.md`` and the figures beside it;
``--check`` reports whether they are what the command would write.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.studies import pages
from opplab import _opplab, kernel
from opplab.report import svg

if TYPE_CHECKING:
    import numpy.typing as npt

    from opplab import _opplab_kernel as _kernel
else:
    _kernel = _opplab.kernel


MS = 1_000_000
MAX_KHZ = 3_000_000
GRID = tuple(range(800_000, MAX_KHZ + 1, 100_000))


@dataclass(frozen=True)
class Formula:
    """A way to choose the next frequency."""

    name: str
    kernel: str
    freq_invariant: bool
    text: str


INVARIANT = Formula("invariant", "5.9", True, "1.25 · f_max · util")
ONCE = Formula("approximation", "5.9", False, "1.25 · f_curr · util_raw")
TWICE = Formula("approximation, headroom twice", "6.12", False, "1.25 · f_curr · 1.25 · util_raw")
FORMULAS = (INVARIANT, ONCE, TWICE)


@dataclass(frozen=True)
class Loop:
    """What a closed loop did."""

    freqs_khz: tuple[int, ...]
    """The P-states."""
    duration_ns: int
    trace: dict[str, npt.NDArray[Any]]
    """Calls of the governor (``time_ns``, ``util``, ``freq_khz``), ends of activations, busy time by P-state, and spans
    of one frequency and activity."""

    def spans(self, start_ns: int, end_ns: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]:
        """Give length in ns, kHz and activity of the spans between two times."""
        edges = np.append(self.trace["span_ns"].astype(np.int64), self.duration_ns)
        length = np.clip(edges[1:], start_ns, end_ns) - np.clip(edges[:-1], start_ns, end_ns)
        keep = length > 0
        return length[keep], self.trace["span_khz"][keep].astype(np.int64), self.trace["span_busy"][keep]

    def busy_khz(self, start_ns: int, end_ns: int) -> float:
        """Give the mean frequency while busy between two times; NaN if the CPU was idle."""
        length, khz, busy = self.spans(start_ns, end_ns)
        total = length[busy].sum()
        return float((length[busy] * khz[busy]).sum() / total) if total else float("nan")

    def range_khz(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Give the lowest and highest frequency while busy between two times."""
        _, khz, busy = self.spans(start_ns, end_ns)
        return int(khz[busy].min()), int(khz[busy].max())

    def energy(self, start_ns: int, end_ns: int) -> float:
        """Give a number that compares energies: busy time * f * V^2, V from 0.7 at the lowest to 1 at the highest f."""
        length, khz, busy = self.spans(start_ns, end_ns)
        low, high = self.freqs_khz[0], self.freqs_khz[-1]
        volt = 0.7 + 0.3 * (khz - low) / (high - low)
        return float((length * khz / high * volt**2)[busy].sum())


def run(
    formula: Formula,
    time_ns: npt.ArrayLike,
    work_ns: npt.ArrayLike,
    duration_ns: int,
    *,
    freqs_khz: Sequence[int] = GRID,
    rate_limit_us: int = 500,
    util_est: bool = False,
    start_util: int = 0,
    cur_khz: int | None = None,
    half_life: int = 32,
) -> Loop:
    """Close the loop for one task on one CPU.

    Parameters
    ----------
    formula : Formula
        How the next frequency is chosen.
    time_ns, work_ns : array of int
        When the task is given work, ascending, and how long that takes at the highest frequency.
    duration_ns : int
        When to end.
    freqs_khz : sequence of int
        The P-states, ascending.
    rate_limit_us : int
        schedutil's tunable.
    util_est : bool
        Whether the estimate of the last activations counts.
    start_util : int
        The task's ``util_avg`` at time 0.
    cur_khz : int, optional
        The frequency at time 0; the lowest if not given.
    half_life : {32, 16, 8}
        PELT's, in periods of 1.048576 ms.

    Examples
    --------
    A task that needs half of the CPU: near 1.25 * 0.5 * 3 GHz with the invariant formula.

    >>> times_ns = np.arange(0, 2_000, 16) * 1_000_000
    >>> loop = run(FORMULAS[0], times_ns, np.full(len(times_ns), 8_000_000), 2_000_000_000)
    >>> 1.75e6 < loop.busy_khz(1_000_000_000, 2_000_000_000) < 2.1e6
    True
    """
    trace = _kernel.closed_loop(
        list(freqs_khz),
        np.ascontiguousarray(time_ns, dtype=np.uint64),
        np.ascontiguousarray(work_ns, dtype=np.uint64),
        duration_ns,
        kernel=formula.kernel,
        freq_invariant=formula.freq_invariant,
        rate_limit_us=rate_limit_us,
        util_est=util_est,
        start_util=start_util,
        cur_khz=freqs_khz[0] if cur_khz is None else cur_khz,
        tick_ns=4 * MS,
        half_life=half_life,
    )
    return Loop(tuple(freqs_khz), duration_ns, trace)


def periodic(demand: float, period_ms: float, duration_ms: float) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Give times and work of a task that needs `demand` of the CPU at its highest frequency."""
    times = np.arange(0, duration_ms, period_ms) * MS
    return times.astype(np.uint64), np.full(len(times), round(demand * period_ms * MS), dtype=np.uint64)


def ideal_khz(demand: float) -> float:
    """Give what either formula means: 1.25 * demand * f_max, within the P-states."""
    return min(max(1.25 * demand * MAX_KHZ, GRID[0]), MAX_KHZ)


# ----------------------------------------------------------------------------------------------------------- tables


def late(loop: Loop, times: npt.NDArray[Any], period_ns: int, from_ns: int) -> float:
    """Give the percent of activations from a time on that end after the next one begins."""
    ends = loop.trace["end_ns"].astype(np.int64)
    begins = times[: len(ends)].astype(np.int64)
    counted = begins >= from_ns
    return float(100 * np.mean(ends[counted] - begins[counted] > period_ns)) if counted.any() else 0.0


def steady_row(formula: Formula, demand: float, period_ms: float, **more: Any) -> dict[str, float]:
    """Give what the loop settles at: the second half of 4 s."""
    duration = 4_096 * MS
    times, work = periodic(demand, period_ms, duration / MS)
    loop = run(formula, times, work, duration, **more)
    low, high = loop.range_khz(duration // 2, duration)
    return {
        "mean": loop.busy_khz(duration // 2, duration) / 1e6,
        "low": low / 1e6,
        "high": high / 1e6,
        "late": late(loop, times, int(period_ms * MS), duration // 2),
        "energy": loop.energy(duration // 2, duration),
    }


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Give a Markdown table."""
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def steady(head: str, axis: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """Tabulate the steady state of each formula along an axis."""
    rows = []
    for label, facts in axis:
        results = [steady_row(formula, **facts) for formula in FORMULAS]
        row = [label]
        row += [f"{result['mean']:.2f} ({result['low']:.1f}\u2013{result['high']:.1f})" for result in results]
        row += [f"{100 * (result['energy'] / results[0]['energy'] - 1):+.0f}" for result in results[1:]]
        row += [f"{result['late']:.0f}" for result in results]
        rows.append(row)
    columns = ["invariant, GHz", "approx., GHz", "approx. twice, GHz", "energy approx., %", "energy twice, %"]
    return table([head, *columns, "late inv., %", "late approx., %", "late twice, %"], rows)


def by_demand() -> str:
    """Tabulate the steady state by how much the task needs."""
    axis = [(f"{percent} %", {"demand": percent / 100, "period_ms": 16}) for percent in range(10, 100, 10)]
    return steady("demand", axis)


def by_period() -> str:
    """Tabulate the steady state by the task's period."""
    axis = [(f"{period} ms", {"demand": 0.3, "period_ms": period}) for period in (2, 4, 8, 16, 32, 64, 128, 256)]
    return steady("period", axis)


def by_rate_limit() -> str:
    """Tabulate the steady state by how often the governor may change the frequency."""
    axis = [
        (f"{limit / 1000:g} ms", {"demand": 0.3, "period_ms": 16, "rate_limit_us": limit})
        for limit in (0, 500, 2_000, 10_000, 20_000, 50_000, 100_000)
    ]
    return steady("rate limit", axis)


GRIDS = {
    "10 MHz": range(800_000, MAX_KHZ + 1, 10_000),
    "100 MHz": GRID,
    "200 MHz": range(800_000, MAX_KHZ + 1, 200_000),
    "550 MHz (5)": range(800_000, MAX_KHZ + 1, 550_000),
    "1100 MHz (3)": range(800_000, MAX_KHZ + 1, 1_100_000),
}


def by_grid() -> str:
    """Tabulate the steady state by the distance of the P-states."""
    axis = [(name, {"demand": 0.3, "period_ms": 16, "freqs_khz": tuple(grid)}) for name, grid in GRIDS.items()]
    return steady("P-states every", axis)


def by_estimate() -> str:
    """Tabulate the steady state with util_est."""
    axis = [
        (f"{percent} %, {period} ms", {"demand": percent / 100, "period_ms": period, "util_est": True})
        for percent, period in ((10, 16), (30, 16), (50, 16), (30, 64), (30, 128))
    ]
    return steady("with util_est", axis)


def stepped(before: float, after: float, period_ms: int, at_ms: int, duration_ms: int) -> tuple[Any, Any]:
    """Give times and work of a task whose demand changes once."""
    times, work = periodic(before, period_ms, duration_ms)
    work[times >= at_ms * MS] = round(after * period_ms * MS)
    return times, work


@dataclass(frozen=True)
class Settled:
    """How a step of the demand was followed."""

    time_ms: float
    """From the step to the end of the last period whose mean frequency is off by more than a P-state and 5 %."""
    beyond_khz: float
    """How far the periods' mean went beyond the final one."""
    short_khz: float
    """How far it fell back short of it, once it had got there."""
    late: int
    """Activations that ended after the next one began."""
    final_khz: float
    """The mean frequency in the end."""


def settle(formula: Formula, before: float, after: float, period_ms: int = 16, **more: Any) -> Settled:
    """Follow a step of the demand."""
    at, duration = 2_048, 6_144
    times, work = stepped(before, after, period_ms, at, duration)
    loop = run(formula, times, work, duration * MS, **more)
    starts = range(at, duration, period_ms)
    means = np.array([loop.busy_khz(start * MS, (start + period_ms) * MS) for start in starts])
    means = means[~np.isnan(means)]
    final = float(np.mean(means[len(means) // 2 :]))
    off = np.abs(means - final) > max(100_000, 0.05 * final)
    last = int(np.flatnonzero(off)[-1]) + 1 if off.any() else 0
    sign = 1 if after > before else -1
    reached = np.flatnonzero(sign * (means - final) >= 0)
    short = float(np.max(sign * (final - means[reached[0] :]))) if len(reached) else 0.0
    ends = loop.trace["end_ns"].astype(np.int64)
    begins = times[: len(ends)].astype(np.int64)
    n_late = int(np.sum((ends - begins > period_ms * MS) & (begins >= at * MS)))
    beyond = float(np.max(sign * (means - final)))
    return Settled(last * period_ms, max(beyond, 0.0), max(short, 0.0), n_late, final)


def by_step() -> str:
    """Tabulate how steps of the demand are followed."""
    rows = []
    for before, after in ((0.1, 0.3), (0.1, 0.6), (0.1, 0.8), (0.3, 0.1), (0.6, 0.1), (0.8, 0.1)):
        for formula in FORMULAS:
            one = settle(formula, before, after)
            never = one.time_ms > 2_000
            rows.append(
                [
                    f"{before:.0%} \u2192 {after:.0%}",
                    formula.name,
                    f"{one.final_khz / 1e6:.2f}",
                    "never" if never else f"{one.time_ms:.0f}",
                    f"{one.beyond_khz / 1e6:.2f}",
                    f"{one.short_khz / 1e6:.2f}",
                    str(one.late),
                ]
            )
    return table(
        ["step", "formula", "final mean, GHz", "settled after, ms", "overshoot, GHz", "undershoot, GHz", "late"], rows
    )


def by_ramp() -> str:
    """Tabulate the distance from the ideal frequency while the demand rises or falls evenly between 10 % and 70 %."""
    rows = []
    for seconds in (0.25, 0.5, 1, 2, 4):
        duration = round(seconds * 1_000)
        for direction in ("up", "down"):
            row = [f"{seconds:g} s {direction}"]
            for formula in FORMULAS:
                times, _ = periodic(0.1, 16, 2_048 + duration)
                share = np.clip((times.astype(float) / MS - 2_048) / duration, 0, 1)
                demand = 0.1 + 0.6 * (share if direction == "up" else 1 - share)
                loop = run(formula, times, np.round(demand * 16 * MS), (2_048 + duration) * MS)
                errors = []
                for time, need in zip(times.astype(np.int64), demand, strict=True):
                    if time >= 2_048 * MS:
                        khz = loop.busy_khz(int(time), int(time) + 16 * MS)
                        errors.append(khz - ideal_khz(float(need)))
                error = np.array(errors)[~np.isnan(errors)]
                row += [f"{np.mean(error) / 1e6:+.2f}", f"{np.sqrt(np.mean(error**2)) / 1e6:.2f}"]
            rows.append(row)
    names = ("inv.", "approx.", "twice")
    return table(["ramp", *(f"{name} {what}, GHz" for name in names for what in ("mean", "rms"))], rows)


def migrated(formula: Formula, demand: float, cur_khz: int) -> tuple[int, float, int]:
    """Let a task arrive from a CPU where it had settled: its ``util_avg``, the mean GHz of 64 ms, late ones in 1 s."""
    period, duration = 16, 1_024
    times, work = periodic(demand, period, 4_096)
    home = run(formula, times, work, 4_096 * MS)
    util = int(home.trace["util"][-1])
    times, work = periodic(demand, period, duration)
    loop = run(formula, times, work, duration * MS, start_util=util, cur_khz=cur_khz)
    first = loop.busy_khz(0, 64 * MS)
    ends = loop.trace["end_ns"].astype(np.int64)
    n_late = int(np.sum(ends - times[: len(ends)].astype(np.int64) > period * MS))
    return util, first / 1e6, n_late


def by_migration() -> str:
    """Tabulate the first 64 ms on another CPU."""
    rows = []
    for demand in (0.2, 0.4, 0.6):
        for cur_khz in (GRID[0], MAX_KHZ):
            row = [f"{demand:.0%} to a CPU at {cur_khz / 1e6:.1f} GHz", f"{ideal_khz(demand) / 1e6:.2f}"]
            for formula in FORMULAS:
                util, first, n_late = migrated(formula, demand, cur_khz)
                row += [str(util), f"{first:.2f}", str(n_late)]
            rows.append(row)
    names = ("inv.", "approx.", "twice")
    columns = [f"{name} {what}" for name in names for what in ("util", "GHz", "late")]
    return table(["task of", "ideal, GHz", *columns], rows)


def ramp_up_ms(formula: Formula, half_life: int, rate_limit_us: int = 500) -> float:
    """Give how long a task that never sleeps needs from the lowest to the highest frequency."""
    loop = run(formula, [0], [10_000 * MS], 2_000 * MS, half_life=half_life, rate_limit_us=rate_limit_us)
    top = np.flatnonzero(loop.trace["freq_khz"] == MAX_KHZ)
    return float(loop.trace["time_ns"][top[0]]) / MS if len(top) else float("nan")


def by_half_life() -> str:
    """Tabulate ramp-up times by half-life."""
    rows = []
    for half_life in (32, 16, 8):
        row = [f"{half_life} ({half_life * 1.048576:.1f} ms)"]
        for util in (256, 512, 656, 820, 1000):
            periods = kernel.ramp_up_periods(util, half_life=half_life)
            row.append("never" if periods is None else f"{periods * 1.048576:.0f}")
        row += [f"{ramp_up_ms(formula, half_life):.0f}" for formula in FORMULAS]
        rows.append(row)
    utils = [f"to {util}, ms" for util in (256, 512, 656, 820, 1000)]
    return table(["half-life, periods", *utils, "f_max inv., ms", "f_max approx., ms", "f_max twice, ms"], rows)


def next_khz(formula: Formula, cur_khz: int, util: int) -> int:
    """Ask schedutil once, on a grid of 1 MHz."""
    governor = kernel.Schedutil(
        range(100_000, MAX_KHZ + 1, 1_000),
        kernel=formula.kernel,
        freq_invariant=formula.freq_invariant,
        cur_khz=cur_khz,
        rate_limit_us=0,
    )
    return governor.update(10 * MS, util).next_khz


def tipping_point(formula: Formula, cur_khz: int = 1_000_000) -> int:
    """Give the lowest utilisation at which the next frequency is above the current one."""
    return next(util for util in range(1025) if next_khz(formula, cur_khz, util) > cur_khz)


def by_utilisation() -> str:
    """Tabulate the next frequency by utilisation, and the tipping points."""
    rows = []
    for formula in FORMULAS[1:]:
        tip = tipping_point(formula)
        row = [formula.text, f"{tip} ({tip / 1024:.2f})"]
        row += [f"{next_khz(formula, 1_000_000, round(share * 1024)) / 1e6:.2f}" for share in (0.2, 0.4, 0.6, 0.8, 1)]
        rows.append(row)
    return table(
        ["next, GHz, from 1 GHz", "tipping point", *(f"at {share}" for share in (0.2, 0.4, 0.6, 0.8, 1))], rows
    )


SLOT_BUSY = frozenset((3, 4, 5, 6, 10, 11, 12, 13))


def slots() -> list[tuple[int, bool, float]]:
    """Give the 16 slots of the talk: number, busy, and PELT's clock at its end, in slots (half capacity)."""
    length, clock, rows = 1 << 20, kernel.ClockPelt(capacity=512), []
    for number in range(1, 17):
        busy = number in SLOT_BUSY
        if not busy and number - 1 in SLOT_BUSY:
            clock.update_idle_rq_clock_pelt()
        clock.update_rq_clock(number * length, idle=not busy)
        rows.append((number, busy, clock.now_ns / length))
    return rows


def slot_table() -> str:
    """Tabulate the 16 slots."""
    rows = slots()
    return table(
        ["absolute slot", *(str(number) for number, _, _ in rows)],
        [
            ["half capacity", *("busy" if busy else "" for _, busy, _ in rows)],
            ["clock_pelt at its end", *(f"{clock:g}" for _, _, clock in rows)],
        ],
    )


TABLES: dict[str, Callable[[], str]] = {
    "tipping": by_utilisation,
    "demand": by_demand,
    "period": by_period,
    "rate-limit": by_rate_limit,
    "grid": by_grid,
    "util-est": by_estimate,
    "step": by_step,
    "ramp": by_ramp,
    "migration": by_migration,
    "half-life": by_half_life,
    "slots": slot_table,
}


def tables() -> dict[str, str]:
    """Compute all tables of the page."""
    return {name: make() for name, make in TABLES.items()}


# ---------------------------------------------------------------------------------------------------------- figures

STYLE = svg.ALONE + (
    ".cell{fill:none;stroke:var(--soft)}.busy{fill:var(--busy)}"
    ".s0{stroke:var(--c0)}.s1{stroke:var(--c1)}.s2{stroke:var(--c2)}.s3{stroke:var(--c5);stroke-dasharray:4 3}"
    ".f0{fill:var(--c0)}.f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c5)}"
)
Curve = tuple[str, Sequence[tuple[float, float]]]


def curves(title: str, series: Sequence[Curve], x_label: str, y_label: str, *, steps: bool = False) -> str:
    """Draw lines through many points, or steps between them."""
    left, right, top, bottom, height = 50, 12, 12 + 14 * len(series), 40, 260 + 14 * len(series)
    x_ticks = svg.ticks(0, max(x for _, points in series for x, _ in points), 6)
    y_ticks = svg.ticks(0, max(y for _, points in series for _, y in points), 5)
    wide, tall = svg.WIDTH - left - right, height - top - bottom

    def at(x: float, y: float) -> str:
        return f"{left + x / x_ticks[-1] * wide:.1f} {height - bottom - y / y_ticks[-1] * tall:.1f}"

    out = [svg.element("style", STYLE)]
    for tick in y_ticks:
        y = height - bottom - tick / y_ticks[-1] * tall
        out.append(svg.element("line", x1=left, x2=left + wide, y1=y, y2=y, class_="grid"))
        out.append(svg.text(left - 6, y + 4, f"{tick:g}", "end"))
    for tick in x_ticks:
        x = left + tick / x_ticks[-1] * wide
        out.append(svg.element("line", x1=x, x2=x, y1=height - bottom, y2=height - bottom + 4, class_="axis"))
        out.append(svg.text(x, height - bottom + 16, f"{tick:g}", "middle"))
    out.append(svg.text(left + wide / 2, height - 8, x_label, "middle"))
    out.append(
        svg.element("text", y_label, transform=f"translate(13 {top + tall / 2:.0f}) rotate(-90)", text_anchor="middle")
    )
    for number, (label, points) in enumerate(series):
        path = [at(*points[0])]
        for before, after in pairwise(points):
            path += [at(after[0], before[1])] if steps else []
            path.append(at(*after))
        out.append(svg.element("path", d="M" + "L".join(path), class_=f"line s{number}"))
        out.append(svg.text(left, 14 + 14 * number, f"\u2014 {label}", class_=f"f{number}"))
    return svg.document(height, title, out)


def frequency_curve(loop: Loop, start_ms: float, end_ms: float) -> list[tuple[float, float]]:
    """Give the frequency over a window as steps, in ms and GHz."""
    times = loop.trace["span_ns"].astype(float) / MS
    ghz = loop.trace["span_khz"].astype(float) / 1e6
    before = np.flatnonzero(times <= start_ms)
    points = [(0.0, float(ghz[before[-1]]))]
    inside = (times > start_ms) & (times < end_ms)
    points += [(float(time - start_ms), float(value)) for time, value in zip(times[inside], ghz[inside], strict=True)]
    return [*points, (end_ms - start_ms, points[-1][1])]


def figure_demand() -> str:
    """Draw the mean frequency by demand."""
    shares = [percent / 100 for percent in range(2, 100, 2)]
    series: list[Curve] = [
        (f.name, [(100 * share, steady_row(f, share, 16)["mean"]) for share in shares]) for f in FORMULAS
    ]
    series.append(("1.25 \u00b7 demand \u00b7 f_max", [(100 * share, ideal_khz(share) / 1e6) for share in shares]))
    return curves("Mean frequency by demand", series, "demand, % of the CPU at f_max", "mean frequency while busy, GHz")


def figure_cycle() -> str:
    """Draw the frequency of a task with a long period."""
    times, work = periodic(0.3, 64, 4_096)
    series: list[Curve] = [
        (formula.name, frequency_curve(run(formula, times, work, 4_096 * MS), 3_584, 4_096)) for formula in FORMULAS
    ]
    return curves("A task of 30 % every 64 ms", series, "time, ms", "frequency, GHz", steps=True)


def figure_step() -> str:
    """Draw the frequency around a step of the demand."""
    times, work = stepped(0.1, 0.6, 16, 2_048, 3_072)
    series: list[Curve] = [
        (formula.name, frequency_curve(run(formula, times, work, 3_072 * MS), 1_948, 2_548)) for formula in FORMULAS
    ]
    return curves("Demand from 10 % to 60 % at 100 ms", series, "time, ms", "frequency, GHz", steps=True)


def figure_ramp_up() -> str:
    """Draw PELT's ramp-up by half-life."""
    times = np.arange(0, 301) << 20
    series: list[Curve] = []
    for half_life in (32, 16, 8):
        util = kernel.pelt(times, np.ones(len(times), dtype=bool), half_life=half_life).util_avg
        points = [(float(time) / MS, float(value)) for time, value in zip(times, util, strict=True)]
        series.append((f"half-life {half_life} periods", points))
    return curves("A task that never sleeps, from 0", series, "time, ms", "util_avg")


def figure_slots() -> str:
    """Draw the 16 slots of the talk."""
    left, top, wide, tall = 92, 22, (svg.WIDTH - 104) / 16, 24
    out = [svg.element("style", STYLE)]
    for name, row in (("absolute time", 0), ("half capacity", 1), ("clock_pelt", 2)):
        out.append(svg.text(left - 6, top + row * (tall + 8) + 16, name, "end"))
    for number, busy, _ in slots():
        x = left + (number - 1) * wide
        out.append(svg.element("rect", x=x, y=top, width=wide, height=tall, class_="cell"))
        out.append(svg.text(x + wide / 2, top + 16, str(number), "middle"))
        if busy:
            out.append(svg.element("rect", x=x, y=top + tall + 8, width=wide, height=tall, class_="busy"))
    # What PELT's clock shows: the slot that it is in, for as long as it is in it.
    y = top + 2 * (tall + 8)
    shown: list[tuple[int, int, int]] = []
    for number, busy, clock in slots():
        label = int(np.ceil(clock))
        if busy and shown and shown[-1][0] == label:
            shown[-1] = (label, shown[-1][1], number)
        else:
            shown.append((label, number, number))
    for label, first, last in shown:
        x, width = left + (first - 1) * wide, (last - first + 1) * wide
        out.append(svg.element("rect", x=x, y=y, width=width, height=tall, class_="cell"))
        out.append(svg.text(x + width / 2, y + 16, str(label), "middle"))
    return svg.document(y + tall + 12, "Time dilation at half capacity, after text 002", out)


FIGURES: dict[str, Callable[[], str]] = {
    "approximation-demand": figure_demand,
    "approximation-cycle": figure_cycle,
    "approximation-step": figure_step,
    "approximation-ramp-up": figure_ramp_up,
    "approximation-slots": figure_slots,
}


def figures() -> dict[str, str]:
    """Draw all figures of the page."""
    return {name: draw() for name, draw in FIGURES.items()}


# ------------------------------------------------------------------------------------------------------------- page


def texts(docs: Path) -> dict[Path, str]:
    """Make the page and its figures anew."""
    page = docs / "approximation.md"
    drawn = {docs / "figures" / f"{name}.svg": f"{drawing}\n" for name, drawing in figures().items()}
    return {page: pages.fill(page.read_text(encoding="utf-8"), tables()), **drawn}


if __name__ == "__main__":
    sys.exit(pages.main("approximation", __doc__, texts))
