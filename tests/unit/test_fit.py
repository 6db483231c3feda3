"""Fits of power to measurements: `opplab fit power`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from opplab.agreement.silicon import score, score_folder
from opplab.cli.fit import command
from opplab.errors import FormatError, InputError
from opplab.fit.curve import WEAK, fit_curve
from opplab.fit.freqbench import choose, read_points
from opplab.fit.linear import fit_parts
from opplab.fit.score import Prediction, summary
from opplab.fit.shapes import family, shapes_without

FREQBENCH = Path(__file__).parents[3] / "shared" / "silicon" / "freqbench" / "opp_power.csv"
MHZ = np.array([300, 600, 900, 1200, 1500, 1800, 2100, 2400], dtype=float)


def true_power(mhz: np.ndarray) -> np.ndarray:
    """Give 40 mW and 0.2 mW/MHz V^2 with a voltage of 0.6 that rises from 1.2 GHz on."""
    volts = np.interp(mhz, [0, 1200, 2400], [0.6, 0.6, 1.0])
    return 40 + 0.2 * mhz * volts**2


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def table(path: Path, soc: str = "x1", *, clocks: np.ndarray = MHZ) -> Path:
    rows = [
        {"soc": soc, "cpu": 4, "khz": int(1000 * mhz), "busy_mean_mw": f"{power:.2f}"}
        for mhz, power in zip(clocks, true_power(clocks), strict=True)
    ]
    return write(path, rows)


def test_a_curve_finds_the_parameters_that_made_the_points() -> None:
    curve = fit_curve(MHZ, true_power(MHZ), WEAK)
    assert np.max(np.abs(curve.residuals)) < 0.06  # The true knee is sharper than the curve.
    names = {parameter.name: parameter for parameter in curve.parameters()}
    for name, truth in (("static", 40), ("volt_floor", 0.6), ("knee", 1200), ("dynamic", 0.2)):
        assert names[name].low <= truth <= names[name].high, name
    for parameter in names.values():
        assert parameter.low <= parameter.value <= parameter.high, parameter


def test_power_rises_with_the_clock_and_is_never_negative() -> None:
    curve = fit_curve(MHZ[[0, 3, 7]], np.array([100.0, 90.0, 95.0]), shapes_without(None))
    power = curve.power(np.linspace(1, 3000, 50))
    assert np.all(power > 0)
    assert np.all(np.diff(power) >= 0)


def test_three_points_tell_the_others_better_than_a_line(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv")
    done = CliRunner().invoke(command, ["power", str(source), "--points", "low,mid,high", "--format", "json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.output)
    assert report["overall"]["predictions"] == len(MHZ) - 3
    assert report["overall"]["median_abs_error"] < 0.08
    assert report["overall"]["median_abs_error"] < report["overall"]["rival_median_abs_error"]
    assert set(report["sets"][0]) >= {"median_abs_error", "p90_abs_error", "rival_median_abs_error", "skill"}


def test_check_scores_only_what_the_fit_did_not_use(tmp_path: Path) -> None:
    source, rest = table(tmp_path / "a.csv", clocks=MHZ[[0, 4, 7]]), table(tmp_path / "b.csv")
    arguments = ["power", str(source), "--check", str(rest), "--soc", "x1", "--cpu", "4", "--format", "json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    checked = json.loads(done.output)["sets"][0]["checked"]
    assert [row["khz"] for row in checked] == [int(1000 * mhz) for mhz in MHZ[[1, 2, 3, 5, 6]]]


def test_a_clock_that_is_not_what_cpufreq_said_is_seen_by_the_work(tmp_path: Path) -> None:
    rows = [
        {"soc": "x1", "cpu": 4, "khz": int(1000 * mhz), "busy_mean_mw": 1.0, "coremark_iter_per_s": 7.8 * mhz}
        for mhz in MHZ
    ]
    rows[0]["coremark_iter_per_s"] = 7.8 * MHZ[0] / 2
    (curve,) = choose(read_points(write(tmp_path / "a.csv", rows)), None, None, "a.csv")
    assert curve.clock_mhz(curve.points)[0] == pytest.approx(150)
    assert curve.clocks_off(curve.points) == 1


def test_mistakes_name_file_line_and_the_nearest_name(tmp_path: Path) -> None:
    bad = tmp_path / "bad.csv"
    bad.write_text("soc,cpu,khz,busy_mean_mw\nx1,4,300000,many\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"bad\.csv:2: `busy_mean_mw` is `many`"):
        read_points(bad)
    bad.write_text("soc,cpu,khz,busy_mw\nx1,4,300000,1\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"no column `busy_mean_mw`; did you mean `busy_mw`"):
        read_points(bad)
    bad.write_text("soc,cpu,khz,busy_mean_mw\nx1,4,300000,\n", encoding="utf-8")
    with pytest.raises(InputError, match="no row has power"):
        read_points(bad)
    points = read_points(table(tmp_path / "a.csv", "sm8150"))
    with pytest.raises(InputError, match="did you mean `sm8150`"):
        choose(points, "sm8510", None, "a.csv")


def test_the_shapes_leave_out_the_family_of_the_chip() -> None:
    assert family("sm8150ac") == family("sm8150")
    assert shapes_without("sm8150").about != shapes_without(None).about


def test_sets_weigh_the_same_whatever_their_size() -> None:
    good = [Prediction("a", 100, 101, 150)] * 100
    bad = [Prediction("b", 100, 150, 150)] * 2
    assert summary([good])["median_abs_error"] == pytest.approx(0.01)
    assert summary([good, bad])["p90_abs_error"] == pytest.approx(0.5)
    assert summary([])["predictions"] == 0


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_measured_phones_are_told_by_three_points() -> None:
    arguments = ["power", str(FREQBENCH), "--points", "low,mid,high", "--format", "json"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 0, done.output
    overall = json.loads(done.output)["overall"]
    assert overall["median_abs_error"] < 0.05
    assert overall["p90_abs_error"] < 0.12
    assert overall["skill"] > 0.75
    assert 0.85 < overall["in_interval"] < 1


def test_parts_of_a_package_are_found_with_intervals() -> None:
    cores = np.array([1.0, 2, 4, 8, 16, 32])
    features = np.column_stack([np.ones(6), cores])
    watts = (30 + 2 * cores) * np.array([1.01, 0.99, 1.0, 1.01, 0.99, 1.0])
    parts = fit_parts(["awake", "core"], features, watts)
    awake, core = parts.parameters()
    assert awake.low <= 30 <= awake.high
    assert core.low <= 2 <= core.high
    falling = fit_parts(["awake", "core"], features, 100 - 2 * cores)
    assert np.all(falling.powers >= 0)


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_servers_are_told_within_seven_percent_where_a_core_count_was_left_out() -> None:
    for folder in ("epyc-7502-2s", "epyc-zen1-anomaly", "xeon-6130-spin", "jasper-lake-menu"):
        report = score(score_folder(FREQBENCH.parents[1] / folder))
        power = [row for row in report["sets"] if "of a program" not in row["quantity"]]
        assert power
        for row in power:
            assert row["median_abs_error"] < 0.07, row["set"]
            assert row["skill"] > 0.3, row["set"]


def test_a_folder_without_known_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no measurements below"):
        score_folder(tmp_path)
