"""Machine files of what `opplab host calibrate` measured; crate host's `calibrate_made.rs` has the measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opplab import catalog
from opplab.errors import FormatError
from opplab.files import toml_of
from opplab.host.calibrated import calibrated
from opplab.simulation.machine import Machine


def number(what: str, value: float, unit: str = "", spread: float = 0.02, **of: str) -> dict[str, Any]:
    marks = {key.replace("_", " "): word for key, word in of.items()}
    ends = {"low": value * (1 - spread), "high": value * (1 + spread)}
    return {"what": what, "of": marks, "value": value, **ends, "unit": unit, "rounds": 5, "how": "a test"}


def write(folder: Path, known: list[dict[str, Any]], unknown: list[dict[str, str]]) -> Path:
    path = folder / "calibration.json"
    head = {"format": "opplab-calibration-1", "machine": "mine", "kernel": "6.12", "seconds": 600, "rounds": 5}
    path.write_text(json.dumps({**head, "known": known, "unknown": unknown}))
    return path


def built_in(name: str) -> str:
    return catalog.find("machine", name).read_text(encoding="utf-8")


def test_what_was_measured_is_in_the_file_with_its_interval(tmp_path: Path) -> None:
    core_w = {1_200_000: 2.0, 2_000_000: 4.0, 3_000_000: 9.0}
    known = [
        number("power", 10 + cores * watts, "W", 0.001, **{"class": "integer", "cores": str(cores), "khz": str(khz)})
        for khz, watts in core_w.items()
        for cores in (1, 4)
    ]
    known += [
        number("thread's share", 0.6, **{"class": "integer", "threads": "2"}),
        number("thread's share", 0.9, **{"class": "memory", "threads": "2"}),
        number("wake-up", 5_000, "ns", state="POLL"),
        number("wake-up", 8_000, "ns", state="C1"),
        number("wake-up", 95_000, "ns", state="C6"),
        number("frequency change", 400_000, "ns", from_khz="1200000", to_khz="3000000"),
        number("frequency change", 600_000, "ns", from_khz="3000000", to_khz="1200000"),
        number("flush", 130_000, "ns"),
        number("shared line", 45.0, "ns", shared="one package"),
    ]
    text, notes = calibrated(built_in("skylake-sp-2s"), write(tmp_path, known, [{"what": "x", "why": "no y"}]))
    tree = toml_of(text, "the file")
    facts = Machine.parse(text).describe()
    assert tree["smt_yield"] == round(0.6 * 1024)
    assert tree["range"]["smt_yield"] == [round(0.6 * 1024), round(0.9 * 1024)]
    assert {driver["switch_ns"] for driver in facts["drivers"]} == {500_000}
    assert tree["range"]["driver.switch_ns"] == [392_000, 612_000]
    assert tree["disk"][0]["flush_us"] == 130
    states = {state["name"]: state for state in tree["cluster"][0]["idle"]}
    assert (states["C1"]["wake_us"], states["C6"]["wake_us"]) == (3, 90)
    assert tree["source"]["disk"].startswith("[M] opplab host calibrate on mine: 1.3e+05 [1.274e+05 .. 1.326e+05] ns")
    # The watts of one busy core at the clocks that were measured, again by hand.
    by_khz = {opp["khz"]: opp["busy_uw"] / 1e6 for opp in facts["clusters"][0]["opps"]}
    for khz, watts in core_w.items():
        if khz in by_khz:
            assert by_khz[khz] == pytest.approx(watts, rel=0.15)
    assert any(khz in by_khz for khz in core_w)
    assert "unknown: x (no y)" in notes
    assert any("shared line (one package)" in note for note in notes)


def test_what_was_not_measured_stays_as_it_was(tmp_path: Path) -> None:
    before = built_in("skylake-sp-2s")
    text, _ = calibrated(before, write(tmp_path, [number("shared line", 45.0, "ns", shared="one core")], []))
    assert text == Machine.parse(before).to_toml()


def test_a_clock_takes_the_place_of_an_assumed_one(tmp_path: Path) -> None:
    tree = toml_of(Machine.parse(built_in("epyc-zen1-1s")).to_toml(), "a machine")
    tree["cluster"][0]["opp"] = tree["cluster"][0]["opp"][-1:]
    tree["cluster"][0].pop("boost_opp", None)
    tree["source"]["default.cluster.opp"] = "cpu-mhz: one frequency"
    bare = Machine.from_tree(tree).to_toml()
    clock = number("clock", 2_750.0, "MHz", **{"class": "integer", "cores": "1"})
    text, _ = calibrated(bare, write(tmp_path, [clock], []))
    assert toml_of(text, "x")["cluster"][0]["opp"][0]["khz"] == 2_750_000
    assert "default.cluster.opp" not in toml_of(text, "x")["source"]


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    for wrong in ("{}", "[1]", "x", '{"format": "opplab-calibration-1", "known": [1]}'):
        path.write_text(wrong)
        with pytest.raises(FormatError, match=r"not a calibration\.json"):
            calibrated(built_in("juno-r2"), path)


def test_what_is_too_uncertain_is_a_note(tmp_path: Path) -> None:
    wide = {**number("flush", 130_000, "ns"), "low": 10_000.0, "high": 1_300_000.0}
    before = Machine.parse(built_in("skylake-sp-2s")).to_toml()
    text, notes = calibrated(before, write(tmp_path, [wide], []))
    assert text == before
    assert any(note.startswith("flush is not used") for note in notes)
