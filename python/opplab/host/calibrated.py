"""A machine file from what ``opplab host calibrate`` measured: each number with its source and its range.

The machine's own files (topology, idle states, clocks) come first, by `opplab machine import`; measured numbers take
the place of what was read or assumed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opplab import _opplab
from opplab.errors import FormatError
from opplab.files import read_text, toml_of
from opplab.fit.machine_power import about_power, to_machine_text, with_power
from opplab.simulation.ranges import number_in

Tree = dict[str, Any]
_FORMAT = "opplab-calibration-1"
_WIDEST = 4.0
"""Ends of an interval, high by low, beyond which a number is no better than what the file has."""


def read(path: Path) -> dict[str, Any]:
    """Read ``calibration.json``.

    Raises
    ------
    FormatError
        It is none.
    """
    text = read_text(path, "a calibration")
    try:
        found = json.loads(text)
        if found["format"] == _FORMAT and all("what" in one and "value" in one for one in found["known"]):
            return dict(found)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise FormatError(f"{path}: not a calibration.json of `opplab host calibrate` ({_FORMAT})", file=str(path))


def _of(found: Mapping[str, Any], what: str, **of: str) -> Iterator[Mapping[str, Any]]:
    """Give the numbers of a quantity; `of` are some of its marks, None stands for a mark that must not be there."""
    for one in found["known"]:
        if one["what"] == what and all(one["of"].get(key) == value for key, value in of.items()):
            yield one


def _words(one: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Give the source of a number."""
    ends = f" [{one['low']:.4g} .. {one['high']:.4g}]" if "low" in one else ""
    unit = f" {one['unit']}" if one["unit"] else ""
    return (
        f"[M] opplab host calibrate on {found['machine']}: {one['value']:.4g}{ends}{unit}, {one['how']}, "
        f"{one['rounds']} rounds"
    )


class _Maker:
    def __init__(self, tree: Tree, found: Mapping[str, Any]) -> None:
        self.tree, self.found = tree, found
        self.notes: list[str] = []
        tree.setdefault("source", {})
        tree.setdefault("range", {})

    def mark(self, key: str, one: Mapping[str, Any]) -> None:
        self.tree["source"][key] = _words(one, self.found)

    def sure(self, one: Mapping[str, Any] | None) -> bool:
        """Report whether a number is known well enough to take the place of another; what is not is a note."""
        if one is None:
            return False
        if one.get("low", 0) > 0 and one["high"] <= _WIDEST * one["low"]:
            return True
        what = " ".join([one["what"], *one["of"].values()])
        self.notes.append(f"{what} is not used, as its interval is too wide: {_words(one, self.found)}")
        return False

    def clock(self) -> None:
        """Put the measured highest clock where the machine has none, and turbo bins by busy cores."""
        by_cores = {
            int(one["of"]["cores"]): one
            for one in _of(self.found, "clock", **{"class": "integer"})
            if "khz" not in one["of"]
        }
        if not by_cores:
            return
        clusters = self.tree["cluster"]
        assumed = any("cluster.opp" in key for key in self.tree["source"] if key.startswith("default."))
        one = by_cores[min(by_cores)]
        if assumed and len(clusters) == 1 and len(clusters[0]["opp"]) == 1 and self.sure(one):
            clusters[0]["opp"][0] = {**clusters[0]["opp"][0], "khz": round(1000 * one["value"])}
            clusters[0]["opp"][0].pop("mhz", None)
            self.tree["source"].pop("default.cluster.opp", None)
            self.mark("cluster.opp.khz", one)
        self.notes += [f"clock with {cores} busy cores: {_words(one, self.found)}" for cores, one in by_cores.items()]

    def threads(self) -> None:
        """Put the speed of a thread beside a busy sibling."""
        shares = list(_of(self.found, "thread's share"))
        if not shares:
            return
        chosen = next((one for one in shares if one["of"].get("class") == "integer"), shares[0])
        self.tree["smt_yield"] = min(max(round(1024 * chosen["value"]), 1), 1024)
        self.mark("smt_yield", chosen)
        # By class of loops it differs more than by round.
        values = [1024 * one["value"] for one in shares]
        self.tree["range"]["smt_yield"] = [round(min(values)), min(round(max(values)), 1024)]

    def idle(self) -> None:
        """Put wake-up latencies by state, less that of the shallowest state, which is timer and scheduler."""
        wakes = [one for one in _of(self.found, "wake-up") if self.sure(one)]
        if len(wakes) < 2:
            return
        shallow = min(one["value"] for one in wakes)
        by_state = {one["of"]["state"]: one for one in wakes}
        for cluster in self.tree["cluster"]:
            for state in cluster.get("idle", []):
                one = by_state.get(state["name"])
                if one is None:
                    continue
                wake_ns = round(one["value"] - shallow)
                state["wake_ns"] = wake_ns
                if wake_ns > number_in(state, "exit_latency_ns"):
                    # A state's wake-up is at most its exit latency in the engine.
                    state["exit_latency_ns"] = wake_ns
                    for other in ("exit_latency_us", "exit_latency_ms"):
                        state.pop(other, None)
                self.notes.append(f"wake-up from {state['name']}: {_words(one, self.found)}, less {shallow:.0f} ns")
        deepest = max(wakes, key=lambda one: float(one["value"]))
        self.tree["source"]["cluster.idle.wake_ns"] = (
            f"{_words(deepest, self.found)}; each state's less that of the shallowest, {shallow:.0f} ns"
        )

    def change(self) -> None:
        """Put the time of a frequency change into the driver."""
        changes = [one for one in _of(self.found, "frequency change") if self.sure(one)]
        if not changes:
            return
        slowest = max(changes, key=lambda one: float(one["value"]))
        for driver in self.tree["driver"]:
            driver.pop("switch_us", None)
            driver["switch_ns"] = round(sum(one["value"] for one in changes) / len(changes))
        self.mark("driver.switch", slowest)
        ends = [end for one in changes for end in (one.get("low", one["value"]), one.get("high", one["value"]))]
        self.tree["range"]["driver.switch_ns"] = [max(round(min(ends)), 0), round(max(ends))]

    def disk(self) -> None:
        """Put the disk by the time of a flush: the class that is nearest, with that time."""
        one = next(_of(self.found, "flush"), None)
        if one is None or not self.sure(one):
            return
        us = max(one["value"] / 1000, 1)
        kinds = {row["kind"]: row for row in _opplab.disk_classes()}
        kind = min(kinds, key=lambda name: abs(math.log(kinds[name]["flush_us"] / us)))
        self.tree["disk"] = [{"kind": kind, "flush_us": max(round(us), 1)}]
        self.mark("disk", one)

    def power(self) -> None:
        """Fit what cores and package draw to the integer loops' watts."""
        rows = [
            (one["value"], int(one["of"]["khz"]) / 1000, int(one["of"]["cores"]))
            for one in _of(self.found, "power", **{"class": "integer"})
            if "khz" in one["of"]
        ]
        rows += [(one["value"], rows[0][1] if rows else 0.0, 0) for one in _of(self.found, "idle power")][-1:]
        if len(rows) < 2:
            return
        with TemporaryDirectory() as folder:
            table = Path(folder) / "calibration.csv"
            lines = [f"{watts},{mhz},{cores}" for watts, mhz, cores in rows]
            table.write_text("\n".join(["pkg_w,mhz,busy_cores", *lines]) + "\n", encoding="utf-8")
            text, parameters, cannot, _ = with_power(to_machine_text(self.tree), table)
        self.tree = toml_of(text, "the machine file")
        self.notes += [f"power {p.name}: {p.value:.4g} [{p.low:.4g} .. {p.high:.4g}] {p.unit}" for p in parameters]
        self.notes += about_power(cannot)


def calibrated(text: str, path: Path) -> tuple[str, list[str]]:
    """Put a calibration into the machine file of the same machine.

    Parameters
    ----------
    text : str
        The machine file, as `opplab machine import` makes it of the machine's files.
    path : Path
        ``calibration.json``.

    Returns
    -------
    (str, list of str)
        The file, and what was measured beside it or is unknown.

    Raises
    ------
    FormatError
        The calibration is none.
    """
    found = read(path)
    maker = _Maker(toml_of(text, "the machine file"), found)
    for step in (maker.clock, maker.threads, maker.idle, maker.change, maker.disk, maker.power):
        step()
    others = [*_of(found, "memory's share"), *_of(found, "shared line")]
    maker.notes += [f"{one['what']} ({', '.join(one['of'].values())}): {_words(one, found)}" for one in others]
    maker.notes += [f"unknown: {one['what']} ({one['why']})" for one in found["unknown"]]
    return to_machine_text(maker.tree), maker.notes
