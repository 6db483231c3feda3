"""Watts by load stay as near to the measured ones as the page on power says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lab.studies import power
from opplab import Experiment, InputError

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


def test_an_experiment_asks_for_a_generic_curve(tmp_path: Path) -> None:
    """`power = "generic"` gives the machines without power a curve; those that have one keep it."""
    file = tmp_path / "mine.toml"

    def rows(head: str) -> dict[tuple[str, str], Any]:
        file.write_text(
            f'format = 1\nname = "mine"\n{head}\nduration = "200ms"\nwarmup = "20ms"\n'
            '[[policy]]\nlabel = "schedutil"\n[[workload]]\nlabel = "load"\nbenchmark = "periodic"\ntasks = 3\n'
        )
        found = Experiment.load(file).run(tmp_path / str(len(list(tmp_path.iterdir()))), jobs=1)
        return {(row["machine"], row["metric"]): row["value"] for row in found.iter_rows(named=True)}

    both = 'machine = ["kaby-lake-i7-7500u", "juno-r2"]'
    without, with_curve = rows(both), rows(f'{both}\npower = "generic"')
    assert without["kaby-lake-i7-7500u", "power"] is None
    assert 0.5 < with_curve["kaby-lake-i7-7500u", "power"] < 40
    assert with_curve["juno-r2", "power"] == without["juno-r2", "power"]
    assert with_curve["juno-r2", "overutilized_changes"] >= 0
    with pytest.raises(InputError, match=r"mine.toml:4:9: .*generic"):
        rows(f'{both}\npower = "measured"')
