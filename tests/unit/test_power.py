"""Watts by load stay as near to the measured ones as the page on power says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.studies import power

PAGE = Path(__file__).parents[2] / "docs" / "power.md"


@pytest.mark.parametrize("load", [20, 70, 100])
def test_predicted_points_of_the_broadwell_are_within_an_eighth(load: int) -> None:
    assert load not in power.I3_METAL_FITTED
    assert power.package_w("broadwell-72x-i3-metal", load) == pytest.approx(power.I3_METAL_W[load], rel=0.125)


def test_the_epyc_sleeps_deep_wakes_both_packages_and_keeps_its_limit() -> None:
    idle, one, full = (power.package_w("epyc-7742-2s", load, cpus) for load, cpus in ((0, None), (100, 1), (100, None)))
    assert idle < 60
    assert 130 < one < 145
    assert 440 < full < 451


def test_the_page_shows_what_the_study_computes() -> None:
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| 70 % | 237.7"))
    shown = float(re.findall(r"\d+\.\d", row)[1])
    assert power.package_w("broadwell-72x-i3-metal", 70) == pytest.approx(shown, abs=0.06)


@pytest.mark.parametrize(
    ("name", "percent", "cpus", "khz", "watts"),
    [
        ("epyc-7502-2s", 0, None, None, 77.1),
        ("epyc-7502-2s", 100, 4, 1500000, 113.6),
        ("epyc-7502-2s", 100, 64, 2500000, 197.3),
        ("epyc-milan-1s", 100, None, None, 245.4),
        ("epyc-zen1-1s", 100, 8, None, 127.8),
        ("epyc-zen1-1s", 100, 24, None, 190.4),
    ],
)
def test_servers_draw_what_was_measured(
    name: str, percent: int, cpus: int | None, khz: int | None, watts: float
) -> None:
    assert power.package_w(name, percent, cpus, khz) == pytest.approx(watts, rel=0.05)
