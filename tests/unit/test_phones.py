"""Texts 003 and 004 before and after the phones' powers were measured."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lab.studies import phones
from opplab import catalog

PAGE = Path(__file__).parents[2] / "docs" / "journal" / "2026-11-23-phones.md"


def test_the_page_has_the_cells_of_text_004_as_they_are_computed() -> None:
    name = "pixel6-sugov-affinity"
    before = phones.cells(name, (phones.EARLIER / "pixel6.toml").read_text(encoding="utf-8"))
    after = phones.cells(name)
    page = PAGE.read_text(encoding="utf-8").splitlines()
    rows = phones.cell_rows(before, after)[2:]
    assert len(rows) == 20
    for row in rows:
        assert row in page
    assert any(was.predicted != now.predicted for was, now in zip(before, after, strict=True))


@pytest.mark.parametrize("name", ["pixel4", "pixel6"])
def test_before_and_after_differ_in_powers_and_wake_ups_only(name: str) -> None:
    before = tomllib.loads((phones.EARLIER / f"{name}.toml").read_text(encoding="utf-8"))
    after = tomllib.loads(catalog.find("machine", name).read_text(encoding="utf-8"))
    for was, now in zip(before["cluster"], after["cluster"], strict=True):
        assert [was[key] for key in ("name", "cpus", "capacity")] == [now[key] for key in ("name", "cpus", "capacity")]
        assert [opp["khz"] for opp in was["opp"]] == [opp["khz"] for opp in now["opp"]]
        assert [state["exit_latency_us"] for state in was["idle"]] == [
            state["exit_latency_us"] for state in now["idle"]
        ]
        told_us = [state["exit_latency_us"] for state in now["idle"] if "wake_us" in state]
        assert told_us
        assert [state["wake_us"] for state in now["idle"] if "wake_us" in state] == [round(0.3 * us) for us in told_us]


def test_a_share_of_the_told_latency_is_put_into_the_file() -> None:
    text = phones._waking_by("pixel6", 1.0)
    assert "exit_latency_us = 160, wake_us = 160" in text
