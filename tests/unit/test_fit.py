"""Fits of power to measurements: `opplab fit power`."""

from __future__ import annotations

import csv
import json
import re
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lab import silicon as lab_silicon
from lab.silicon.catalogue import phones
from opplab import _opplab, catalog, results
from opplab.agreement.silicon import score_folder
from opplab.cpulist import cpus_in
from opplab.errors import FormatError, InputError
from opplab.fit.curve import WEAK, fit_curve
from opplab.fit.energy_model import energy_model_notes
from opplab.fit.freqbench import choose, read_points
from opplab.fit.linear import fit_parts
from opplab.fit.machine_check import check
from opplab.fit.machine_class import class_of
from opplab.fit.machine_power import generic_power, to_machine_text, with_power
from opplab.fit.opp_machine import khz_of_opp
from opplab.fit.score import Prediction, summary
from opplab.fit.shapes import family, shapes_without
from opplab.fit.sources import read_samples
from opplab.simulation.machine import Machine
from opplab.simulation.machine_marks import unmarked
from opplab.simulation.policy import Policy
from opplab.simulation.power import how_to_get_power, known_power
from opplab.simulation.simulate import build_case, simulate
from opplab.simulation.workload import Workload

from calls import answered, called

PEPC = Path(__file__).parents[3] / "shared" / "data" / "pepc"
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
    done = answered("fit", "power", source, "--points", "low,mid,high", "--format", "json")
    report = json.loads(done.output)
    assert report["overall"]["predictions"] == len(MHZ) - 3
    assert report["overall"]["median_abs_error"] < 0.08
    assert report["overall"]["median_abs_error"] < report["overall"]["rival_median_abs_error"]
    assert set(report["sets"][0]) >= {"median_abs_error", "p90_abs_error", "rival_median_abs_error", "skill"}


@pytest.mark.filterwarnings("error")
def test_points_that_contradict_each_other_leave_the_power_open(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("cpu,khz,busy_mean_mw\n0,300000,100000\n0,2400000,1\n")
    done = answered("fit", "power", source, "--format", "json")
    top = json.loads(done.output)["sets"][0]["parameters"][0]
    assert top["low"] < 1e-3
    assert top["high"] > 1e6


def test_check_scores_only_what_the_fit_did_not_use(tmp_path: Path) -> None:
    source, rest = table(tmp_path / "a.csv", clocks=MHZ[[0, 4, 7]]), table(tmp_path / "b.csv")
    arguments = ["power", str(source), "--check", str(rest), "--soc", "x1", "--cpu", "4", "--format", "json"]
    done = answered("fit", *arguments)
    checked = json.loads(done.output)["sets"][0]["checked"]
    assert [row["khz"] for row in checked] == [int(1000 * mhz) for mhz in MHZ[[1, 2, 3, 5, 6]]]


def test_a_check_against_points_that_were_fitted_names_the_reason(tmp_path: Path) -> None:
    rows = [
        {"soc": "x", "cpu": cpu, "khz": khz, "busy_mean_mw": mw, "coremark_iter_per_s": khz / 250}
        for cpu, khz, mw in ((0, 500000, 30), (0, 1000000, 80), (4, 500000, 60), (4, 2000000, 400))
    ]
    points, board = write(tmp_path / "points.csv", rows), tmp_path / "board.toml"
    answered("machine", "import", points, "--clusters", "Ax4,Bx4", "-o", board)
    refused = called("fit", "power", board, points, "--check", points)
    assert "the fit used its 4 points: another table, or fewer --points" in str(refused.exception)


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
    bad.write_text("soc,cpu,khz,busy_mean\nx1,4,300000,1\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"no column `busy_mean_mw`; did you mean `busy_mean`"):
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


def test_freqbench_s_own_results_are_read(tmp_path: Path) -> None:
    head = "CPU,Frequency (kHz),CoreMarks (iter/s),CoreMarks/MHz,Power (mW),Energy (J),ULPMark-CM (iter/mJ),Time (s)"
    rows = [(4, 500000, 3000.0, 50.0), (4, 1000000, 6000.0, 110.0), (4, 2000000, 12000.0, 400.0)]
    lines = [head, *(f"{cpu},{khz},{speed},6,{mw},1,1,1" for cpu, khz, speed, mw in rows)]
    (tmp_path / "results.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    freqs = {str(khz): {"active": {"power_mean": mw, "coremark_score": speed}} for _, khz, speed, mw in rows}
    (tmp_path / "results.json").write_text(json.dumps({"cpus": {"4": {"freqs": freqs}}}), encoding="utf-8")
    for name in ("results.csv", "results.json"):
        points = read_points(tmp_path / name)
        assert [(p.soc, p.cpu, p.khz, p.speed, p.busy_mw) for p in points] == [("", *row) for row in rows]
        (curve,) = choose(points, "sm8150", None, name)
        assert curve.soc == "sm8150"
    (tmp_path / "bad.json").write_text('{"cpus": [1]}', encoding="utf-8")
    with pytest.raises(FormatError, match=r"not freqbench's results\.json"):
        read_points(tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("soc,cpu,khz,busy_mean_mw\nx,4,2400,500\n", "highest clock would be 2.4 MHz"),
        ("soc,cpu,khz,busy_mean_mw\nx,4,2400000,0.5\n", "highest power would be 0.5 mW"),
        ("soc,cpu,khz,busy_mean_mw\nx,4,2400000,500\nx,4,0.3,40\n", "lowest clock would be 0 kHz"),
        ("soc,cpu,khz,busy_mean_mw\nx,4,2400000,1e12\n", r"highest power would be 1e\+06 kW"),
        ("soc,cpu,khz,busy_mean_mw,coremark_iter_per_s\nx,4,2400000,9,1e308\n", r"1e\+308 iterations a second"),
        ("pkg_w,mhz,busy_pct\n40,2000,50\n", "opplab fit power MACHINE FILE"),
        ("cpu,khz,busy_cpus,busy_mw\n0,408000,1,30\n0,408000,4,94\n", ":3: `busy_cpus` is 4.*leave out such rows"),
        ("busy_cores,khz,mw\n4,408000,30\n", "`busy_cores` is 4.*opplab fit power MACHINE FILE"),
        ("khz,mw,util\n408000,30,0.5\n", "`util` is a load.*opplab fit power MACHINE FILE"),
        ("a55_mhz,a55_w,a55_busy\n408,0.03,1\n408,0.09,4\n", ":3: `a55_busy` is 4.*`a55_pct`"),
    ],
)
def test_units_that_cannot_be_right_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_points(tmp_path / "a.csv")


def test_the_highest_clock_is_known_without_its_power(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", clocks=MHZ[:3])
    rest = table(tmp_path / "b.csv")
    done = answered("fit", "power", source, "--check", rest, "--format", "json")
    far = json.loads(done.output)["sets"][0]["checked"][-1]
    assert far["khz"] == 2400000
    assert far["low_mw"] < far["measured_mw"] < far["high_mw"]


def test_sets_weigh_the_same_whatever_their_size() -> None:
    good = [Prediction("a", 100, 101, 150)] * 100
    bad = [Prediction("b", 100, 150, 150)] * 2
    assert summary([good])["median_abs_error"] == pytest.approx(0.01)
    assert summary([good, bad])["p90_abs_error"] == pytest.approx(0.5)
    assert summary([])["predictions"] == 0


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_measured_phones_are_told_by_three_points() -> None:
    arguments = ["power", str(FREQBENCH), "--points", "low,mid,high", "--format", "json"]
    done = answered("fit", *arguments)
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
    for folder in ("epyc-7502-2s", "epyc-zen1-anomaly", "epyc-milan-cap", "xeon-6130-spin", "jasper-lake-menu"):
        report = lab_silicon.score(FREQBENCH.parents[1] / folder)
        power = [
            row
            for row in report["sets"]
            if not any(words in row["quantity"] for words in ("of a program", "clock by", "the engine's clock"))
        ]
        assert power
        for row in power:
            assert row["median_abs_error"] < 0.07, row["set"]
            assert row["skill"] > 0.3, row["set"]


def test_a_folder_without_known_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no measurements below"):
        score_folder(tmp_path)


TURBOSTAT = """turbostat version 2023.11.07 - Len Brown
Core\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tTSC_MHz\tPkgWatt\tCorWatt
"""


def turbostat_log(path: Path) -> Path:
    """Write a log of a package that draws 20 W awake, a core 0.5 f + 0.1 f^3 W."""
    lines = [TURBOSTAT]
    for busy, ghz in [(1, 1.2), (10, 1.6), (25, 2.0), (40, 2.4), (60, 2.8), (80, 3.2), (100, 3.0), (50, 1.4)]:
        cores = busy / 100 * 8 * (0.5 * ghz + 0.1 * ghz**3)
        lines.append(
            f"-\t-\t{10 * busy * ghz:.0f}\t{busy:.2f}\t{1000 * ghz:.0f}\t2000\t{20 + cores:.2f}\t{cores:.2f}\n"
        )
    path.write_text("".join(lines), encoding="utf-8")
    return path


def test_power_of_a_turbostat_log_goes_into_a_machine_with_marks_and_ranges(tmp_path: Path) -> None:
    text = catalog.find("machine", "alder-lake-i7-1260p").read_text(encoding="utf-8")
    power, parameters, cannot, _ = with_power(text, turbostat_log(tmp_path / "log.txt"))
    machine = tomllib.loads(power)
    assert "[F] log.txt" in machine["source"]["cluster.opp.busy_uw"]
    assert machine["range"]["cluster.opp.busy_uw"]["percent"][0] <= 100
    shared = sum(cluster["opp"][0]["cluster_uw"] for cluster in machine["cluster"])
    assert abs(shared / 20e6 - 1) < 0.05
    assert {parameter.name for parameter in parameters} >= {"core", "package"}
    assert any("second thread" in line for line in cannot)


def test_energy_of_a_machine_without_power_is_unknown_and_generic_power_is_labelled(tmp_path: Path) -> None:
    path = catalog.find("machine", "alder-lake-i7-1260p")
    generic = tomllib.loads(generic_power(path.read_text(encoding="utf-8"))[0])
    assert not any(known_power(tomllib.loads(path.read_text(encoding="utf-8"))))
    assert all(known_power(generic))
    assert "generic" in generic["source"]["cluster.opp.busy_uw"]
    low, high = generic["range"]["cluster.opp.busy_uw"]["percent"]
    assert high / low > 5
    with pytest.raises(InputError, match="has power"):
        generic_power(catalog.find("machine", "juno-r2").read_text(encoding="utf-8"))
    load = tmp_path / "load.json"
    load.write_text('{"tasks": {"t": {"loop": 20, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    arguments = ["run", "--machine", str(path), "--workload", str(load), "--seconds", "0.2", "-o"]
    done = answered(*arguments, tmp_path / "out")
    assert "energy is unknown" in done.output
    table = results.read(tmp_path / "out" / "results.parquet")
    assert table.filter(table["metric"] == "energy")["value"].to_list() == [None]
    done = answered(*arguments, tmp_path / "generic", "--power", "generic")
    table = results.read(tmp_path / "generic" / "results.parquet")
    value = {row["metric"]: row["value"] for row in table.iter_rows(named=True)}
    assert 0 < value["energy_low"] < value["energy"] < value["energy_high"]


# Watts of all packages: idle by turbostat (../shared/power/measured_runs.csv), of rome0 the range of `epyc-7742-2s`.
MEASURED_IDLE_W = {
    "adl0": (1.3, 7),
    "bdwup0": (6.0, 6.7),
    "genoa0": (183, 211),
    "knl0": (94, 104),
    "snr0": (28, 28.2),
    "rome0": (2 * 55.8, 2 * 66),
}


@pytest.mark.skipif(not PEPC.exists(), reason="no dumps at ../shared/data/pepc beside the repository")
@pytest.mark.parametrize("dump", sorted(PEPC.glob("*.tar.xz")), ids=lambda path: path.name.split(".")[0])
def test_the_generic_package_of_an_imported_machine_is_one_of_its_class(dump: Path) -> None:
    """Goal: what packages of a dump draw awake is what such machines were measured to draw; it was 0 without a TDP."""
    name = dump.name.split(".")[0]
    text, words = generic_power(_opplab.import_machine(str(dump))[0].to_toml())
    machine = tomllib.loads(text)
    awake_w = sum(cluster["opp"][0]["cluster_uw"] for cluster in machine["cluster"]) / 1e6
    low, high = (percent / 100 * awake_w for percent in machine["range"]["cluster.opp.cluster_uw"]["percent"])
    packages = len(machine.get("topology", {}).get("package", [0]))
    assert awake_w > 0.5 * packages
    assert f"class {class_of(machine).name}" in words
    if name in MEASURED_IDLE_W:
        least, most = MEASURED_IDLE_W[name]
        assert low * 0.99 <= least <= most <= high * 1.01, (low, high)


@pytest.mark.skipif(not PEPC.exists(), reason="no dumps at ../shared/data/pepc beside the repository")
def test_a_class_that_nothing_names_is_said_to_be_a_guess() -> None:
    """A turbostat log has no processor's name: 6 W a package stood there as another source's 2.5 W did."""
    named = _opplab.import_machine(str(PEPC / "adl0.tar.xz"))[0].to_toml()
    lines = [line for line in named.splitlines() if not line.startswith(("model_name", "pm_profile"))]
    assert "class laptop [0.6 .. 7]" in generic_power(named)[1]
    words = generic_power("\n".join(lines))[1]
    assert "6 W a package awake, class laptop or desktop [0.6 .. 52], a guess between the two: neither" in words


@pytest.mark.skipif(not PEPC.exists(), reason="no dumps at ../shared/data/pepc beside the repository")
def test_a_two_socket_milan_draws_what_a_like_machine_draws(tmp_path: Path) -> None:
    """Goal: three busy threads on two sockets cost what the measured Rome draws within the range, not 7 W."""
    machine = _opplab.import_machine(str(PEPC / "rome0.tar.xz"))[0].to_toml()
    milan = (
        machine.replace("EPYC 7742", "EPYC 7763")
        .replace("model = 49", "model = 1")
        .replace("family = 23", "family = 25")
    )
    path = tmp_path / "milan.toml"
    path.write_text(generic_power(milan)[0], encoding="utf-8")
    load = Workload.parse('{"tasks": {"t": {"instance": 3, "loop": -1, "run": 10000}}}', name="busy", file="<busy>")
    policy = Policy(governor="performance", variation="none")
    tables = [simulate(Machine.load(name), load, policy, seconds=1.0).metrics for name in (str(path), "epyc-7742-2s")]
    run, like = (dict(zip(table["metric"], table["value"], strict=True)) for table in tables)
    assert run["energy_low"] <= like["energy"] <= run["energy_high"]
    assert run["energy"] > 100


def test_a_measured_idle_package_is_not_counted_beside_a_generic_one() -> None:
    text, words = generic_power(catalog.find("machine", "core-ultra-135h").read_text(encoding="utf-8"))
    tree = tomllib.loads(text)
    assert tree["floor_uw"] == 0
    assert sum(cluster["opp"][0]["cluster_uw"] for cluster in tree["cluster"]) == pytest.approx(7e6, rel=1e-6)
    assert "7 W that were measured" in words
    assert "cluster.opp.cluster_uw" not in tree["range"]


def test_machines_of_no_measured_class_get_no_generic_power() -> None:
    text = catalog.find("machine", "alder-lake-i7-1260p").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="no processor by CentaurHauls was measured"):
        generic_power(text.replace("GenuineIntel", "CentaurHauls"))


@pytest.mark.parametrize("with_cpus", [False, True])
def test_a_hybrid_draws_the_watts_of_its_log(tmp_path: Path, with_cpus: bool) -> None:
    """Two threads share a big core: without rows of the CPUs the clusters' shares went by CPUs, 8 % too low."""
    tree = tomllib.loads(catalog.find("machine", "alder-lake-i7-1260p").read_text(encoding="utf-8"))
    big, little = (cpus_in(cluster["cpus"]) for cluster in tree["cluster"])
    clocks = dict.fromkeys(big, 1.0) | dict.fromkeys(little, 0.85)

    def watts(ghz: float, load: float) -> float:
        smt = tree["smt_power"] / 1024
        share = [cluster["capacity"] / 1024 for cluster in tree["cluster"]]
        cores = [load * len(big) / 2 * (1 + smt), load * len(little)]
        scale = [1.0, 0.85 if with_cpus else 1.0]
        parts = zip(share, cores, scale, strict=True)
        return 4 + sum(of * busy * (0.4 * ghz * f + 0.2 * (ghz * f) ** 3) for of, busy, f in parts)

    head, lines = "CPU\tBusy%\tBzy_MHz\tPkgWatt", []
    for ghz in (1.0, 1.6, 2.4, 3.2):
        for load in (0.0, 1.0):
            of = {cpu: ghz * (clocks[cpu] if with_cpus else 1) for cpu in (*big, *little)}
            mean = sum(of.values()) / len(of)
            lines += [head, f"-\t{100 * load}\t{1000 * mean:.0f}\t{watts(ghz, load):.3f}"]
            if with_cpus:
                lines += [f"{cpu}\t{100 * load}\t{1000 * one:.0f}" for cpu, one in sorted(of.items())]
    log = tmp_path / "turbostat.txt"
    log.write_text("\n".join(lines) + "\n")
    text, *_ = with_power(to_machine_text(tree), log)
    for row in check(text, log)["rows"]:
        assert row["predicted_mw"] == pytest.approx(row["measured_mw"], rel=0.01), row


def test_watts_above_the_table_are_those_of_their_clock(tmp_path: Path) -> None:
    """Watts at 2.4 GHz of turbo counted as those of 2.1 GHz, the highest point, and turbo drew 40 % more again."""
    text = Machine.load("epyc-7742-2s").to_toml()
    tree = tomllib.loads(text)
    top = max(khz_of_opp(opp) for cluster in tree["cluster"] for opp in cluster["opp"]) / 1e6
    turbo = max(khz_of_opp(one) for cluster in tree["cluster"] for one in cluster.get("turbo", ())) / 1e6
    assert turbo > 1.2 * top
    cores = sum(len(cpus_in(cluster["cpus"])) for cluster in tree["cluster"]) / 2 * (1 + tree["smt_power"] / 1024)
    log = tmp_path / "turbostat.txt"
    lines = ["Busy%\tBzy_MHz\tPkgWatt"]
    lowest = min(khz_of_opp(opp) for cluster in tree["cluster"] for opp in cluster["opp"]) / 1e6
    for ghz in (lowest, top, turbo):
        lines += [
            f"{100 * load}\t{1000 * ghz:.3f}\t{60 + load * cores * (0.4 * ghz + 0.1 * ghz**3):.4f}"
            for load in (0.0, 1.0)
        ]
    log.write_text("\n".join(lines) + "\n")
    for cluster in tree["cluster"]:
        cluster.pop("boost_opp", None)
    fitted, *_ = with_power(to_machine_text(tree), log)
    machine = Machine.parse(fitted)
    for ghz, rel in ((top, 0.01), (turbo, 0.03)):
        busy_uw, _ = machine._inner.point_power(0, round(1e6 * ghz))
        assert busy_uw / 1e6 == pytest.approx(0.4 * ghz + 0.1 * ghz**3, rel=rel)
    for row in check(fitted, log)["rows"]:
        assert row["predicted_mw"] == pytest.approx(row["measured_mw"], rel=0.03), row


def without_power(name: str) -> str:
    """Give a phone of the catalogue as an import without power would have it."""
    tree = tomllib.loads(catalog.find("machine", name).read_text(encoding="utf-8"))
    for cluster in tree["cluster"]:
        for opp in cluster["opp"]:
            for key in ("uw", "busy_uw", "cluster_uw", "idle_uw", "cluster_idle_uw"):
                opp.pop(key, None)
            opp["uw"] = 0
    return to_machine_text({**tree, "range": {}})


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_what_was_measured_is_told_to_the_kernel_and_eas_is_on(tmp_path: Path) -> None:
    """Goal: the energy model of a phone with measured power is that measurement, and decides as the kernel's would."""
    bare = without_power("sm8150")
    with FREQBENCH.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["soc"] == "sm8150"]
    table = write(tmp_path / "sm8150.csv", [row for row in rows if row["run"] == rows[0]["run"]])
    text, *_ = with_power(bare, table)
    machine = Machine.parse(text, file="sm8150")
    load = Workload.parse(
        '{"tasks": {"t": {"instance": 6, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}}}',
        name="load",
        file="<load>",
    )
    case = build_case(machine, load, Policy(kernel="6.12"), seconds=1.0)
    assert case.why_no_eas() is None
    for cluster in tomllib.loads(text)["cluster"]:
        assert [opp["uw"] for opp in cluster["opp"]] == [opp.get("busy_uw", opp["uw"]) for opp in cluster["opp"]]
    energy = []
    for eas in (True, False):
        metrics = simulate(machine, load, Policy(kernel="6.12", eas=eas), seconds=1.0).metrics
        energy.append(dict(zip(metrics["metric"], metrics["value"], strict=True))["energy"])
    assert energy[0] != energy[1], "energy-aware scheduling places these tasks elsewhere"


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_points_that_rounding_alone_marks_are_told_with_their_kernels(tmp_path: Path) -> None:
    """Three measured points a cluster: by exact fractions each point is cheaper per work than a faster one."""
    with FREQBENCH.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["soc"] == "sm8150" and row["run"] == "main"]
    table = write(tmp_path / "sm8150.csv", rows)
    text, *_ = with_power(without_power("sm8150"), table, points="low,mid,high")
    (tmp_path / "m.toml").write_text(text)
    tree = tomllib.loads(text)
    expected = []
    for cluster in tree["cluster"]:
        points = [(opp["khz"], opp["uw"]) for opp in cluster["opp"]]
        f_max, capacity = points[-1][0], cluster["capacity"]

        def marked(costs: list[Any], points: list[tuple[int, int]] = points) -> list[int]:
            return [khz for at, (khz, _) in enumerate(points) if any(cost <= costs[at] for cost in costs[at + 1 :])]

        assert marked([Fraction(uw, khz) for khz, uw in points]) == []
        assert marked([f_max * uw // khz for khz, uw in points]) == []
        # Kernels 5.16 to 5.19 take whole mW, those since 6.9 a performance without its fraction.
        points_of = {
            "from v5.16 to v5.19": marked([f_max * (uw // 1000 * 1000) // khz for khz, uw in points]),
            "from v6.9 on": marked([uw * 10 // (capacity * khz // f_max) for khz, uw in points]),
        }
        told = [f"{', '.join(f'{one / 1000:g}' for one in khz)} MHz {of}" for of, khz in points_of.items() if khz]
        if told:
            words = (
                f"the kernel passes over {' and '.join(told)}, by rounding alone: each costs less per work than any "
            )
            expected.append((cluster["name"], words))
    assert expected
    notes = energy_model_notes(tree)
    found = json.loads(called("machine", "check", tmp_path / "m.toml", "--format", "json").stdout)
    exported = answered("machine", "export", tmp_path / "m.toml").output
    for name, words in expected:
        assert any(note.startswith(f"cluster {name}: {words}") for note in notes)
        (one,) = [one for one in found if one["what"].startswith(f"{name}: {words}")]
        assert "keep these OPPs" in one["remedy"]
        assert f"/* {name}: {words}" in exported


def test_clusters_of_unlike_clocks_and_one_capacity_keep_the_kernel_from_eas(tmp_path: Path) -> None:
    """Three points a cluster make a phone whose capacities nobody knows: its runs had EAS on, by their words."""
    table, machine, load = tmp_path / "points.csv", tmp_path / "m.toml", tmp_path / "load.json"
    points = ["0,300000,20", "0,1000000,70", "0,1800000,190", "4,500000,80", "4,1200000,290", "4,2400000,1300"]
    table.write_text("\n".join(["soc,cpu,khz,busy_mean_mw", *(f"m,{one}" for one in points)]) + "\n")
    load.write_text('{"tasks": {"t": {"loop": 20, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    answered("machine", "import", table, "--clusters", "A55x4,A76x4", "-o", machine)
    words = "no energy-aware scheduling on m: all CPUs have one capacity"
    arguments = ["run", str(load), "-m", str(machine), "--seconds", "0.2", "-o"]
    assert words in called(*arguments, tmp_path / "one").output
    # It is so, and nobody who wants none is in need of the words.
    runs = [simulate(Machine.load(machine), Workload.load(load), Policy(eas=eas), seconds=0.2) for eas in (True, False)]
    assert runs[0].fingerprint == runs[1].fingerprint
    assert "energy-aware" not in called(*arguments, tmp_path / "two", "--no-eas").output
    alike = machine.read_text().replace("500000", "300000").replace("1200000", "1000000").replace("2400000", "1800000")
    machine.write_text(alike)
    assert "energy-aware" not in called(*arguments, tmp_path / "three").output


def test_a_run_says_that_the_machine_keeps_the_kernel_from_eas(tmp_path: Path) -> None:
    path = tmp_path / "bare.toml"
    path.write_text(without_power("sm8150"), encoding="utf-8")
    load = tmp_path / "load.json"
    load.write_text('{"tasks": {"t": {"loop": 20, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    words = "no energy-aware scheduling on sm8150: the machine file has no power of cluster A55"
    arguments = ["run", str(load), "-m", str(path), "--seconds", "0.2", "-o"]
    done = answered(*arguments, tmp_path / "one")
    assert words in done.output
    done = answered(*arguments, tmp_path / "two", "--governor", "schedutil,performance")
    assert done.stdout.count(words) == 1
    done = called("run", load, "-m", "sm8150", "--seconds", "0.2", "-o", tmp_path / "on")
    assert "energy-aware" not in done.output


def test_a_source_without_watts_is_refused_with_what_would_be_known(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("busy_pct,mhz\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column of the watts"):
        read_samples(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_text("busy_pct,mhz,pkg_w\n1,2,x\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"b\.csv:2: `pkg_w` is `x`"):
        read_samples(tmp_path / "b.csv")
    (tmp_path / "c.csv").write_text("time_s,energy_uj,busy_cores,mhz\n0,0,1,2000\n1,3000000,1,2000\n", encoding="utf-8")
    assert read_samples(tmp_path / "c.csv").watts.tolist() == [3.0]


@pytest.mark.parametrize("name", catalog.names("machine"))
def test_every_number_of_a_machine_file_has_a_source(name: str) -> None:
    text = catalog.find("machine", name).read_text(encoding="utf-8")
    # The Junos are kept as they are; 0 is what else their meters see.
    allowed = ["floor_uw"] if name.startswith("juno") else []
    assert unmarked(text) == allowed
    assert allowed or tomllib.loads(text)["range"], "assumed numbers without a range"


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_the_catalogue_draws_what_was_measured_or_says_why() -> None:
    rows = phones(FREQBENCH.parent)
    assert len({row["machine"] for row in rows}) >= 28
    assert sum(row["points"] for row in rows) > 600
    for row in rows:
        name = f"{row['machine']} {row['cluster']}"
        if row["beyond_khz"]:
            # A rail that was fitted to a baseline, or a gauge that fell while the clock rose.
            assert "[F]" in row["why"] or "fitted curve" in row["why"], name
        else:
            assert row["largest_off"] is None or row["largest_off"] <= 0.1, name
        assert abs(row["capacity_off"]) <= 0.05, name
    assert {row["machine"] for row in rows if row["beyond_khz"]} == {"sm8150ac", "sm8250"}


@pytest.mark.parametrize(("low_ghz", "high_ghz"), [(0.8, 3.3), (0.8, 1.6), (2.0, 3.3)])
@pytest.mark.parametrize("intervals", [2, 3, 4, 8])
def test_the_ranges_of_a_fit_to_few_intervals_hold_the_truth(
    tmp_path: Path, intervals: int, low_ghz: float, high_ghz: float
) -> None:
    """Goal: at each clock of the file, also those beyond the log's; of four intervals a third were outside."""
    bare = without_power("jasper-lake-4c")
    draw, held, tries = np.random.default_rng(5), 0, 8
    for _ in range(tries):
        package, linear, cubic = draw.uniform(1, 6), draw.uniform(0.2, 1), draw.uniform(0.01, 0.1)
        lines = ["busy_cores,Bzy_MHz,PkgWatt"]
        for _ in range(intervals):
            ghz, busy = draw.uniform(low_ghz, high_ghz), draw.uniform(0.2, 4)
            watts = (package + busy * (linear * ghz + cubic * ghz**3)) * (1 + 0.02 * draw.standard_normal())
            lines.append(f"{busy:.4f},{1000 * ghz:.1f},{watts:.5f}")
        (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        text, _, cannot, _ = with_power(bare, tmp_path / "log.csv")
        lows, highs = Machine.parse(text)._inner.power_ends()
        for ghz in (0.8, 2.0, 3.3):
            for place, truth in enumerate((linear * ghz + cubic * ghz**3, package)):
                low, high = (one[0].point_power(0, round(1e6 * ghz))[place] / 1e6 for one in (lows, highs))
                held += low <= 1.01 * truth and high >= 0.99 * truth
        assert any("leave no residual" in words for words in cannot) or intervals > 2
        is_short = any("clocks that the source lacks" in words for words in cannot)
        assert intervals < 8 or is_short or high_ghz > 2
    assert held >= 0.88 * 6 * tries


def test_power_above_two_clocks_is_that_of_the_law(tmp_path: Path) -> None:
    """Two clocks part f and f^3; with a constant beside them, turbo drew a fifth too much."""
    bare = without_power("epyc-zen1-1s")
    draw, lines = np.random.default_rng(3), ["CPU\tBusy%\tBzy_MHz\tPkgWatt"]
    tree = tomllib.loads(bare)
    cpus = len(cpus_in(tree["cluster"][0]["cpus"]))
    clocks = [khz_of_opp(opp) / 1e6 for opp in tree["cluster"][0]["opp"]]
    assert len(clocks) == 2
    for index in range(16):
        ghz, busy = clocks[index % 2], int(draw.integers(0, 33))
        watts = 20 + busy * (0.6 * ghz + 0.06 * ghz**3)
        lines.append(f"-\t{100 * busy / cpus:.4f}\t{1000 * ghz:.0f}\t{watts:.4f}")
        lines += [f"{cpu}\t{100 * (cpu < busy)}\t{1000 * ghz:.0f}" for cpu in range(cpus)]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text, _, _, _ = with_power(bare, tmp_path / "log.txt")
    for khz in (*(round(1e6 * ghz) for ghz in clocks), 3_200_000):
        watts = Machine.parse(text)._inner.point_power(0, khz)[0] / 1e6
        assert watts == pytest.approx(0.6 * khz / 1e6 + 0.06 * (khz / 1e6) ** 3, rel=0.01)


def test_the_range_of_a_package_has_whichever_threads_were_busy(tmp_path: Path) -> None:
    """All CPUs are busy for a share of the time, apart from each other: two threads share a core sooner or later."""
    name = "xeon-6130-2s"
    tree = tomllib.loads(Machine.load(name).to_toml())
    second, lines = tree["smt_power"] / 1024, ["busy_pct,bzy_mhz,pkg_w"]
    for share in (0.1, 0.3, 0.5, 0.8, 1.0):
        for ghz in (1.0, 1.6, 2.1):
            busy = 32 * (2 * share - share**2 + second * share**2)
            lines.append(f"{100 * share:.1f},{1000 * ghz:.0f},{8 + busy * (0.5 * ghz + 0.05 * ghz**3):.4f}")
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text = with_power(without_power(name), tmp_path / "log.csv")[0]
    fitted = tomllib.loads(text)
    watts = sum(cluster["opp"][0]["cluster_uw"] for cluster in fitted["cluster"]) / 1e6
    low, high = fitted["range"]["cluster.opp.cluster_uw"]["percent"]
    assert watts > 8.4
    assert low / 100 * watts <= 8 <= high / 100 * watts


def test_the_power_of_a_sleeping_package_has_a_range(tmp_path: Path) -> None:
    """It had none, and intervals of an idle machine were of no width."""
    draw = np.random.default_rng(7)
    rows = ["Busy%,Bzy_MHz,PkgWatt,Pkg%pc6"]
    for busy, asleep in ((0, 95), (1, 90), (2, 80), (5, 60), (30, 10), (60, 0), (90, 0), (95, 0)):
        for ghz in (1.0, 2.0, 3.0):
            watts = 1.3 + 2 * (1 - asleep / 100) + 4 * busy / 100 * ghz
            rows.append(f"{busy},{1000 * ghz:.0f},{watts * (1 + 0.05 * draw.standard_normal()):.4f},{asleep}")
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    text, _, _, _ = with_power(without_power("jasper-lake-4c"), tmp_path / "log.csv")
    tree = tomllib.loads(text)
    low, high = tree["range"]["cluster.cluster_idle_uw"]["percent"]
    watts = tree["cluster"][0]["cluster_idle_uw"] / 1e6
    assert low / 100 * watts <= 1.3 <= high / 100 * watts
    assert check(text, tmp_path / "log.csv")["inside"] >= 22


def test_a_file_in_milliwatts_is_fitted_as_one_in_microwatts(tmp_path: Path) -> None:
    """It was refused: `mw` and `uw` are the same key."""
    text = catalog.find("machine", "xeon-6130-2s").read_text(encoding="utf-8")
    head, mark, rest = text.partition("\n[source]\n")
    in_mw = re.sub(r"uw = (\d*)000\b", r"mw = \1", head) + mark + rest
    (tmp_path / "log.txt").write_text(spin4() + spin4(2100), encoding="utf-8")
    assert "cluster_idle_mw = 28230" in in_mw
    assert with_power(in_mw, tmp_path / "log.txt")[0] == with_power(text, tmp_path / "log.txt")[0]


def test_joules_of_turbostat_become_watts(tmp_path: Path) -> None:
    rows = "CPU\tAvg_MHz\tBusy%\tBzy_MHz\tPkg_J\tCor_J\n-\t1000\t50.0\t2000\t300.0\t200.0\n"
    (tmp_path / "j.txt").write_text(f"10.0 sec\n{rows}5.0 sec\n{rows}", encoding="utf-8")
    samples = read_samples(tmp_path / "j.txt")
    assert samples.watts.tolist() == [30.0, 60.0]
    assert samples.cores_watts is not None
    assert samples.cores_watts.tolist() == [20.0, 40.0]
    (tmp_path / "k.txt").write_text(rows, encoding="utf-8")
    with pytest.raises(InputError, match="not of how many seconds"):
        read_samples(tmp_path / "k.txt")


def test_what_turbostat_took_to_read_its_counters_is_no_interval(tmp_path: Path) -> None:
    """`usec` of `--debug` is that (turbostat.8): 150 J in 5 s were 83 kW."""
    head = "usec\tTime_Of_Day_Seconds\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tPkg_J\n"
    rows = "".join(f"1800\t{5 * at}.25\t-\t1000\t50.0\t2000\t150.0\n" for at in range(1, 4))
    (tmp_path / "j.txt").write_text(head + rows, encoding="utf-8")
    assert read_samples(tmp_path / "j.txt").watts.tolist() == [30.0, 30.0, 30.0]
    alone = "\n".join(line.split("\t", 2)[0] + "\t" + line.split("\t", 2)[2] for line in (head + rows).splitlines())
    (tmp_path / "k.txt").write_text(alone, encoding="utf-8")
    with pytest.raises(InputError, match="not of how many seconds"):
        read_samples(tmp_path / "k.txt")
    (tmp_path / "l.txt").write_text(f"Measurement interval: 5.000 seconds\n{alone}", encoding="utf-8")
    assert read_samples(tmp_path / "l.txt").watts.tolist() == [30.0, 30.0, 30.0]


def test_an_energy_that_counts_up_belongs_to_the_cpus_of_its_row(tmp_path: Path) -> None:
    """The rows of the single CPUs were those of the interval before."""
    rows = ["time_s,cpu,busy%,mhz,energy_uj"]
    for at, load in enumerate((0, 100, 50, 0)):
        energy = 10_000_000 * at
        rows += [f"{at},-,{load / 2},1000,{energy}", f"{at},0,{load},1000,", f"{at},1,0,1000,"]
    (tmp_path / "counted.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    samples = read_samples(tmp_path / "counted.csv")
    assert samples.watts.tolist() == [10.0, 10.0, 10.0]
    assert samples.load.tolist() == [0.5, 0.25, 0.0]
    assert [loads[0] for loads in samples.by_cpu] == [1.0, 0.5, 0.0]


def test_rows_named_idle_have_no_busy_core_and_kinds_of_rows_are_named(tmp_path: Path) -> None:
    """Three rows of sleeping threads among 1923 made a server's cores draw 0 W: 128 threads and 0.06 W of cores.

    Method: cores of 0.5 W at 1.5 and 0.9 W at 2.5 GHz beside 110 W, and the watts of idle machines.
    """
    head = "kernel,threads,khz,deepest_cstate,rapl_pkg_w_mean,rapl_cores_w_mean"
    per = {1_500_000: 0.5, 2_500_000: 0.9}
    rows = [f"sqrt,{n},{khz},2,{110 + n * w},{n * w}" for khz, w in per.items() for n in (4, 8, 16, 32, 64)]
    idle = [f"idle,128,{khz},2,77,0.059" for khz in per]
    watts = {}
    for name, lines in (("plain", rows), ("idle", [*rows, *idle])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]))
        text, _, cannot, _ = with_power(without_power("epyc-7502-2s"), tmp_path / f"{name}.csv")
        watts[name] = [opp["busy_uw"] / 1e6 for opp in tomllib.loads(text)["cluster"][0]["opp"] if opp["khz"] in per]
        assert not any("rows are alike" in words for words in cannot), name
    assert watts["idle"] == pytest.approx(list(per.values()), rel=0.02)
    # With the file's own idle power, which the watts of idle cores refute above.
    assert watts["plain"] == pytest.approx(list(per.values()), rel=0.12)
    (tmp_path / "mixed.csv").write_text("\n".join([head, *rows, "copy,4,1500000,0,150,2"]))
    assert "34 % apart, by `kernel`, `deepest_cstate`" in read_samples(tmp_path / "mixed.csv").mixed
    _, _, cannot, _ = with_power(without_power("epyc-7502-2s"), tmp_path / "mixed.csv", tmp_path / "plain.csv")
    assert any(words.startswith("mixed.csv: which rows are alike") for words in cannot)


def test_a_folder_of_stats_collect_takes_the_wall_meter_where_turbostat_has_no_watts(tmp_path: Path) -> None:
    stats = tmp_path / "stats"
    stats.mkdir()
    head = "Time_Of_Day_Seconds CPU Avg_MHz Busy% Bzy_MHz\n"
    (stats / "turbostat.raw.txt").write_text(f"{head}100.0 - 5 1 2000\n101.0 - 5 50 2000\n", encoding="utf-8")
    (stats / "acpower.raw.txt").write_text("T,P,I\n99.0, 100.0, 1\n103.0, 140.0, 1\n", encoding="utf-8")
    samples = read_samples(tmp_path)
    assert (samples.scope, samples.watts.tolist()) == ("wall_w", [110.0, 120.0])
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError, match="stats-collect"):
        read_samples(tmp_path / "none")


IDLE_HEAD = """turbostat version 2024.12.03 - Len Brown <lenb@kernel.org>
CPUID(0): GenuineIntel 0x16 CPUID levels
CPUID(1): family:model:stepping 0x6:{model:x}:9 (6:{model}:9) microcode 0x0
4 * 100.0 = 400.0 MHz max efficiency frequency
29 * 100.0 = 2900.0 MHz base frequency
cpu0: MSR_RAPL_POWER_UNIT: 0x000a0e03 (0.125000 Watts, 0.000061 Joules, 0.000977 sec.)
cpu0: MSR_PKG_POWER_INFO: 0x00000078 (15 W TDP, RAPL 0 - 0 W, 0.000000 sec.)
cpu0: MSR_PKG_POWER_LIMIT: 0x42828a001b8078 (UNlocked)
"""


def idle_log(path: Path, watts_of_cores: float, model: int = 142) -> Path:
    """Write a log of a package of 6 W whose CPUs are at most 1 % busy."""
    lines = [IDLE_HEAD.format(model=model), "Core\tCPU\tAvg_MHz\tBusy%\tBzy_MHz\tPkgWatt\tCorWatt\n"]
    for busy, ghz in [(0.2, 0.9), (0.9, 1.0), (0.5, 1.6), (1.0, 2.4), (0.7, 2.0), (0.4, 2.8)]:
        cores = busy / 100 * 2 * watts_of_cores * (ghz + 0.1 * ghz**3)
        lines.append(f"-\t-\t{10 * busy * ghz:.0f}\t{busy}\t{1000 * ghz:.0f}\t{6 + cores:.4f}\t{cores:.4f}\n")
        lines += [f"{cpu % 2}\t{cpu}\t1\t{busy}\t{1000 * ghz:.0f}\n" for cpu in range(4)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("watts_of_cores", [1, 10, 40])
def test_a_log_of_an_idle_machine_has_idle_power_and_no_watts_of_busy_cores(
    tmp_path: Path, watts_of_cores: float
) -> None:
    bare = without_power("kaby-lake-i7-7500u")
    log = idle_log(tmp_path / "log.txt", watts_of_cores)
    text, _, cannot, _ = with_power(bare, log)
    tree = tomllib.loads(text)
    assert not any(known_power(tree))
    assert "cluster.opp.busy_uw" not in tree["source"]
    watts = sum(cluster["opp"][-1]["cluster_uw"] for cluster in tree["cluster"]) / 1e6
    assert 6 <= watts < 1.5 * 6
    told = next(words for words in cannot if words.startswith("busy cores"))
    assert "at most 1.0 %" in told
    assert "all cores busy" in told
    # The generic curve stays available, and keeps the idle power that was measured.
    generic = tomllib.loads(generic_power(text)[0])
    assert all(known_power(generic))
    assert generic["cluster"][0]["opp"][-1]["cluster_uw"] == tree["cluster"][0]["opp"][-1]["cluster_uw"]
    assert "idle power alone" in how_to_get_power([tree])


def test_a_fitted_machine_has_the_name_of_its_file(tmp_path: Path) -> None:
    before, log, after = tmp_path / "before.toml", idle_log(tmp_path / "log.txt", 400), tmp_path / "after.toml"
    before.write_text(without_power("kaby-lake-i7-7500u"), encoding="utf-8")
    for output, name in ((after, "after"), (before, "kaby-lake-i7-7500u")):
        answered("fit", "power", before, log, "-o", output)
        assert tomllib.loads(output.read_text(encoding="utf-8"))["name"] == name


def test_little_busy_time_that_explains_most_of_the_watts_tells_busy_cores(tmp_path: Path) -> None:
    text, _, cannot, _ = with_power(without_power("kaby-lake-i7-7500u"), idle_log(tmp_path / "log.txt", 400))
    assert all(known_power(tomllib.loads(text)))
    assert any("as wide as chips differ" in words for words in cannot)


def test_power_limits_of_a_log_are_those_of_the_machine_if_it_is_of_that_processor(tmp_path: Path) -> None:
    bare = tomllib.loads(without_power("kaby-lake-i7-7500u"))
    bare.pop("package_power", None)
    text = to_machine_text(bare)
    tree = tomllib.loads(with_power(text, idle_log(tmp_path / "log.txt", 10))[0])
    assert tree["package_power"]["tdp_uw"] == tree["package_power"]["pl1_uw"] == 15_000_000
    assert tree["package_power"]["pl2_uw"] == 81_250_000
    assert tree["source"]["package_power"] == "[S] log.txt: MSR_PKG_POWER_LIMIT, MSR_PKG_POWER_INFO"
    other = tomllib.loads(with_power(text, idle_log(tmp_path / "other.txt", 10, model=71))[0])
    assert "package_power" not in other


def test_one_busy_thread_is_one_busy_core_where_the_log_has_the_cpus(tmp_path: Path) -> None:
    machine = catalog.find("machine", "kaby-lake-i7-7500u").read_text(encoding="utf-8")
    head = "Core\tCPU\tBusy%\tBzy_MHz\tPkgWatt\n"
    log = whole = f"{head}-\t-\t0.00\t1000\t1.500\n"
    cpus = [(0, 0, 0), (0, 2, 100), (1, 1, 0), (1, 3, 0)]
    for mhz in (1000, 2000, 2500, 3000):
        watts = 1.5 + 0.9 * mhz / 1000 + 0.122 * (mhz / 1000) ** 3
        row = f"{head}-\t-\t25.00\t{mhz}\t{watts:.3f}\n"
        whole += row
        log += row + "".join(f"{core}\t{cpu}\t{busy}.00\t{mhz}\n" for core, cpu, busy in cpus)
    (tmp_path / "cpus.txt").write_text(log, encoding="utf-8")
    (tmp_path / "whole.txt").write_text(whole, encoding="utf-8")

    def fitted(name: str) -> tuple[float, list[int], list[str]]:
        text, _, cannot, _ = with_power(machine, tmp_path / name)
        assert check(text, tmp_path / name)["median_abs_error"] < 0.01
        tree = tomllib.loads(text)
        busy = next(opp["busy_uw"] for opp in tree["cluster"][0]["opp"] if opp["khz"] == 3_000_000)
        return busy / 1e6, tree["range"]["cluster.opp.busy_uw"]["percent"], cannot

    watts, _, cannot = fitted("cpus.txt")
    assert watts == pytest.approx(5.994, rel=0.01)
    assert not any("which threads" in words for words in cannot)
    # A share of all CPUs does not tell a thread from a core: the range has both.
    watts, (low, _), cannot = fitted("whole.txt")
    assert low / 100 * watts < 5.994 < watts
    assert any("which threads were busy" in words for words in cannot)


@pytest.mark.parametrize("head", ["Busy%", "busy_cores"])
@pytest.mark.parametrize("name", ["juno-r2", "sm8250", "alder-lake-i7-1260p", "xeon-6130-2s", "jasper-lake-4c"])
def test_a_machine_draws_what_the_log_it_is_fitted_to_has(tmp_path: Path, name: str, head: str) -> None:
    """Goal: whatever the capacities of clusters and the ends of their clocks, `--check` finds the stated residual."""
    tree = tomllib.loads(Machine.load(name).to_toml())
    tops = [max(opp["khz"] for opp in cluster["opp"] + cluster.get("boost_opp", [])) for cluster in tree["cluster"]]
    cpus = sum(len(cpus_in(cluster["cpus"])) for cluster in tree["cluster"])
    draw = np.random.default_rng(3)
    lines = [f"{head},Bzy_MHz,PkgWatt"]
    for share in (0.4, 0.6, 0.8, 1.0):
        ghz = share * max(tops) / 1e6
        for busy in (0.05, 0.25, 0.5, 0.75, 1.0):
            load = 100 * busy if head == "Busy%" else busy * cpus
            watts = (2 + cpus * busy * (0.1 * ghz + 0.05 * ghz**3)) * (1 + 0.01 * draw.standard_normal())
            lines.append(f"{load:.3f},{1000 * ghz:.0f},{watts:.5f}")
    log = tmp_path / "log.csv"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    text, _, cannot, _ = with_power(Machine.load(name).to_toml(), log)
    told = next(float(what.split()[2]) for what in cannot if what.startswith("median residual"))
    checked = check(text, log)
    assert 100 * checked["median_abs_error"] == pytest.approx(told, abs=0.1)
    assert told < 10
    assert checked["inside"] >= 0.9 * checked["points"]


def test_the_range_has_whichever_cluster_was_busy_and_rows_of_cpus_tell_it(tmp_path: Path) -> None:
    """Goal: a share of all CPUs does not tell a busy little CPU from a big one; their own rows do."""
    machine = catalog.find("machine", "juno-r2").read_text(encoding="utf-8")
    big = next(cluster for cluster in tomllib.loads(machine)["cluster"] if cluster["capacity"] == 1024)
    cpus = cpus_in(big["cpus"])
    lines, whole = ["CPU Busy% Bzy_MHz PkgWatt"], ["CPU Busy% Bzy_MHz PkgWatt"]
    for mhz in (600, 800, 1000, 1200):
        for busy in (0, 1, 2):
            row = f"- {100 * busy / 6:.2f} {mhz} {0.3 + busy * mhz / 1000:.4f}"
            whole.append(row)
            lines += [row, *(f"{cpu} {100 if cpu in cpus[:busy] else 0} {mhz}" for cpu in range(6))]
    (tmp_path / "cpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "whole.txt").write_text("\n".join(whole) + "\n", encoding="utf-8")

    def fitted(name: str) -> tuple[float, list[int], list[str]]:
        text, _, cannot, _ = with_power(machine, tmp_path / name)
        assert check(text, tmp_path / name)["median_abs_error"] < 0.03
        tree = tomllib.loads(text)
        cluster = next(cluster for cluster in tree["cluster"] if cluster["capacity"] == 1024)
        opp = next(opp for opp in cluster["opp"] if khz_of_opp(opp) == 600_000)
        return opp["busy_uw"] / 1e6, tree["range"]["cluster.opp.busy_uw"]["percent"], cannot

    watts, _, cannot = fitted("cpus.txt")
    assert watts == pytest.approx(0.6, rel=0.03)
    assert not any("which clusters" in words for words in cannot)
    watts, (low, _), cannot = fitted("whole.txt")
    assert low / 100 * watts <= 0.6 < 0.9 * watts
    assert any("which clusters were busy" in words for words in cannot)


def test_what_a_package_draws_asleep_replaces_the_file_s_whichever_way_it_has_it(tmp_path: Path) -> None:
    rows = ["Busy%,Bzy_MHz,PkgWatt,Pkg%pc6", "1,1000,20,90", "50,1000,60,5", "50,2000,90,5", "100,2000,140,0"]
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    for name in ("broadwell-72x-i3-metal", "xeon-6130-2s", "jasper-lake-4c"):
        text, parameters, cannot, _ = with_power(
            catalog.find("machine", name).read_text(encoding="utf-8"), tmp_path / "log.csv"
        )
        asleep_w = next(one.value for one in parameters if one.name == "package")
        clusters = tomllib.loads(Machine.parse(text).to_toml())["cluster"]
        idle = [one["cluster_idle"][-1]["uw"] if "cluster_idle" in one else one["cluster_idle_uw"] for one in clusters]
        assert sum(idle) / 1e6 == pytest.approx(asleep_w, abs=1e-5)
        assert not any("cluster_idle_uw" in opp for one in clusters for opp in one["opp"])
        told = next(float(what.split()[2]) for what in cannot if what.startswith("median residual"))
        assert 100 * check(text, tmp_path / "log.csv")["median_abs_error"] == pytest.approx(told, abs=0.1)


def spin4(mhz: int = 1000) -> str:
    """Give a log as the published ones of the Xeon 6130 are: one thread spins on package 0, package 1 sleeps."""
    lines = ["Package\tCore\tCPU\tBusy%\tBzy_MHz\tPkg%pc2\tPkg%pc6\tPkgWatt"]
    lines.append(f"-\t-\t-\t{100 / 64:.2f}\t{mhz}\t50.00\t0.00\t58.21")
    lines += [f"{cpu % 2}\t{cpu % 32}\t{cpu}\t{0 if cpu else 100}\t{mhz}" for cpu in range(64)]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("columns", [8, 5])
def test_an_idle_package_draws_what_it_does_at_the_clock(tmp_path: Path, columns: int) -> None:
    """By hand: 29.5 W awake, 28.23 W idle and a core of 0.4836 W at 1 GHz; it was 29.98 W with an idle package of 0."""
    lines = spin4().splitlines()
    if columns == 5:
        lines = [
            "\t".join(np.array([*line.split("\t"), *["" for _ in range(8)]])[[0, 1, 2, 3, 4, 7]]) for line in lines
        ]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (row,) = check(Machine.load("xeon-6130-2s").to_toml(), tmp_path / "log.txt")["rows"]
    # Half of the time of both asleep is all of one.
    assert row["predicted_mw"] == pytest.approx(29_500 + 28_230 + 483.6, abs=1)
    # The ends of the file's ranges: 97 to 105 % awake, 98 to 102 % idle, 80 to 155 % of a core, 0 to 0.2 W an idle CPU.
    assert row["low_mw"] == pytest.approx(0.97 * 29_500 + 0.98 * 28_230 + 0.8 * 483.6, abs=1)
    assert row["high_mw"] == pytest.approx(1.05 * 29_500 + 1.02 * 28_230 + 1.55 * 483.6 + 63 * 200, abs=1)


SPIN_4 = Path(__file__).parents[3] / "shared" / "silicon" / "xeon-6130-spin"


@pytest.mark.skipif(not SPIN_4.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_the_logs_of_spinning_threads_are_near(tmp_path: Path) -> None:
    logs = sorted(SPIN_4.glob("spin4*.turbo.txt"))
    assert len(logs) == 4
    for log in (*logs, SPIN_4 / "spin.csv"):
        for row in check(Machine.load("xeon-6130-2s").to_toml(), log)["rows"]:
            assert row["predicted_mw"] == pytest.approx(row["measured_mw"], rel=0.03), log.name
            assert row["inside"]


SPIN = '{"tasks": {"spin": {"run": 20000000, "cpus": [0]}}}'


@pytest.mark.parametrize("deepest", [True, False])
@pytest.mark.parametrize(
    "name",
    [
        "broadwell-72x-i3-metal",
        "epyc-7502-2s",
        "epyc-zen1-1s",
        "jasper-lake-4c",
        "kaby-lake-i7-7500u-gpu",
        "skylake-8x-uma",
        "xeon-6130-2s",
    ],
)
def test_a_check_of_a_run_s_own_meter_finds_what_it_drew(tmp_path: Path, name: str, deepest: bool) -> None:
    """Clusters with states, together or alone, with one idle power, with one by clock, and with none; beside a GPU.

    Without the deepest state idle CPUs draw the power of the next one, and clusters do not sleep.
    """
    machine = Machine.load(name)
    policy = Policy(
        governor="performance", idle_disable=[] if deepest else [machine.tree["cluster"][0]["idle"][-1]["name"]]
    )
    run = simulate(machine, Workload.parse(SPIN, name="spin", file="<load>"), policy, seconds=3)
    (tmp_path / "meter.txt").write_text(run.turbostat(1.0), encoding="utf-8")
    checked = check(machine.to_toml(), tmp_path / "meter.txt")
    assert checked["inside"] == checked["points"] == 3
    for row in checked["rows"]:
        assert row["predicted_mw"] == pytest.approx(row["measured_mw"], rel=0.01), row


def test_what_idle_cpus_draw_by_the_file_is_no_watt_of_the_package(tmp_path: Path) -> None:
    """2 W of the package, 1 W a GHz of a busy core, 0.4 W of each CPU in C2, and 3 W of a GPU."""
    tree = tomllib.loads(without_power("jasper-lake-4c"))
    for cluster in tree["cluster"]:
        cluster.pop("cluster_idle_uw", None)
        for state, watts in zip(cluster["idle"], (0.9, 0.8, 0.4, 0.0), strict=True):
            state["uw"] = round(1e6 * watts)
    tree["range"] = {}
    del tree["package_power"]
    head = "CPU\tBusy%\tBzy_MHz\tC1ACPI%\tC2ACPI%\tC3ACPI%\tPkgWatt\tGFXWatt"
    lines = [head]
    for ghz in (0.8, 1.6, 2.4, 3.2):
        for busy in (0, 1, 2, 4):
            watts = 3 + 2 + busy * ghz + 0.4 * (4 - busy)
            share = 25 * (4 - busy)
            lines.append(f"-\t{25 * busy}\t{1000 * ghz:.0f}\t0\t{share}\t0\t{watts:.4f}\t3")
            lines += [f"{cpu}\t{100 * (cpu < busy)}\t{1000 * ghz:.0f}\t0\t{100 * (cpu >= busy)}\t0" for cpu in range(4)]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    text, _, _, _ = with_power(to_machine_text(tree), tmp_path / "log.txt")
    assert check(text, tmp_path / "log.txt")["median_abs_error"] < 0.002
    spin = '{"tasks": {"spin": {"instance": 2, "run": 20000000}}}'
    policy = Policy(governor="performance", idle_disable=["C3_ACPI", "POLL"])
    run = simulate(Machine.parse(text), Workload.parse(spin, name="spin", file="<load>"), policy, seconds=1)
    watts = sum(run.outcome["cluster_energy_fj"]) / run.outcome["wall_ns"] / 1e6
    # Turbo of two cores is 3.3 GHz.
    assert watts == pytest.approx(2 + 2 * 3.3 + 0.4 * 2, rel=0.01)
    # A file whose idle CPUs would draw more than was measured loses that power.
    for state in tree["cluster"][0]["idle"]:
        state["uw"] = 9_000_000
    text, _, cannot, _ = with_power(to_machine_text(tree), tmp_path / "log.txt")
    assert {state.get("uw", 0) for state in tomllib.loads(text)["cluster"][0]["idle"]} == {0}
    assert any("idle CPUs apart: the file's would draw 36 W of 3.6 W measured" in words for words in cannot)


def test_busy_in_turn_or_together_is_in_the_interval(tmp_path: Path) -> None:
    """Two CPUs of four are busy half of the time: the package idles for a quarter of it, at most half, at least not."""
    rows = [["-", 25], [0, 50], [1, 50], [2, 0], [3, 0]]
    lines = ["CPU\tBusy%\tBzy_MHz\tPkgWatt", *(f"{cpu}\t{busy}\t1000\t3" for cpu, busy in rows)]
    (tmp_path / "log.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    tree = tomllib.loads(Machine.load("jasper-lake-4c").to_toml())
    tree["range"] = {}
    opp = next(opp for opp in tree["cluster"][0]["opp"] if khz_of_opp(opp) == 1_000_000)
    saved, awake = opp["cluster_uw"] - tree["cluster"][0]["cluster_idle_uw"], opp["cluster_uw"] + opp["busy_uw"]
    (row,) = check(to_machine_text(tree), tmp_path / "log.txt")["rows"]
    told = [row["low_mw"], row["predicted_mw"], row["high_mw"]]
    assert told == pytest.approx([(awake - share * saved) / 1000 for share in (0.5, 0.25, 0)], rel=1e-4)


def test_a_refit_leaves_no_idle_package_that_draws_more_than_an_awake_one(tmp_path: Path) -> None:
    """Two logs whose package sleeps for the same half: what they draw is no less than what was fitted."""
    for mhz in (1000, 2100):
        (tmp_path / f"{mhz}.txt").write_text(spin4(mhz), encoding="utf-8")
    logs = [tmp_path / "1000.txt", tmp_path / "2100.txt"]
    text, _, cannot, _ = with_power(Machine.load("xeon-6130-2s").to_toml(), *logs)
    assert "cluster_idle_uw" not in text
    assert any("idle states: the package sleeps 50 to 50 % of each interval" in what for what in cannot)
    assert not any("lacks the sleep" in what for what in cannot)
    told = next(float(what.split()[2]) for what in cannot if what.startswith("median residual"))
    errors = [check(text, log)["rows"][0]["error"] for log in logs]
    assert 100 * np.median(np.abs(errors)) == pytest.approx(told, abs=0.1)
    logs[0].write_text(spin4().replace("Pkg%pc2\tPkg%pc6", "x\ty"), encoding="utf-8")
    logs[1].write_text(spin4(2100).replace("Pkg%pc2\tPkg%pc6", "x\ty"), encoding="utf-8")
    cannot = with_power(Machine.load("xeon-6130-2s").to_toml(), *logs)[2]
    assert "idle states: the source lacks the sleep time of the package" in cannot


def test_a_check_gives_its_summary_first_and_rows_in_part(tmp_path: Path) -> None:
    lines = ["Busy%,Bzy_MHz,PkgWatt", *(f"{load},1000,3" for load in range(1, 31))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["fit", "power", "jasper-lake-4c", "--check", str(tmp_path / "log.csv")]
    part, whole = (answered(*words, *more).stdout.splitlines() for more in ((), ("--all",)))
    assert " of 30 points inside; " in part[0] == whole[0]
    assert part[-1] == "10 rows more: --all"
    assert [sum(" busy " in line for line in lines) for lines in (part, whole)] == [20, 30]


def test_busy_cpus_of_a_cluster_are_no_load_of_the_machine(tmp_path: Path) -> None:
    """Goal: a table of clusters by busy CPUs is read as points of one busy CPU, or refused; it was one mixed curve."""
    machine = catalog.find("machine", "juno-r2").read_text(encoding="utf-8")
    rows = [
        {"cpu": cpu, "khz": khz, "busy_cpus": 1, "busy_mw": khz / 4000} for cpu in (0, 1) for khz in (450000, 600000)
    ]
    alone = with_power(machine, write(tmp_path / "a.csv", rows))[0]
    bare = [{name: value for name, value in row.items() if name != "busy_cpus"} for row in rows]
    assert alone == with_power(machine, write(tmp_path / "a.csv", bare))[0]
    with pytest.raises(FormatError, match="`busy_cpus` is 2"):
        with_power(machine, write(tmp_path / "a.csv", [*rows, {**rows[0], "busy_cpus": 2}]))


@pytest.mark.parametrize("mark", [",", ";", "\t", " "])
def test_columns_may_have_any_order_separator_and_unit(tmp_path: Path, mark: str) -> None:
    lines = [["watts", "note", "freq_ghz", "active_cores"], ["50", "a", "2.0", "4"], ["70", "b", "2.0", "8"]]
    (tmp_path / "a.csv").write_text("\n".join(mark.join(line) for line in lines) + "\n", encoding="utf-8")
    samples = read_samples(tmp_path / "a.csv")
    assert (samples.watts.tolist(), samples.ghz.tolist(), samples.load.tolist()) == ([50, 70], [2, 2], [4, 8])
    watts = write(
        tmp_path / "w.csv", [{"busy_mean_w": mhz / 1e4, "mhz": mhz, "cpu": 4, "soc": "x1"} for mhz in (1000, 2000)]
    )
    assert [(point.khz, point.busy_mw) for point in read_points(watts)] == [(1000000, 100), (2000000, 200)]


OLD = """ cor CPU    %c0  GHz  TSC    %c1    %c6  %pc6  Pkg_W  Cor_W
           10.00 2.00 2.10  10.00  80.00  0.00  30.00   5.00
   0   0   20.00 2.00 2.10  10.00  70.00  0.00  30.00   5.00
   1   1    0.00 1.20 2.10  10.00  90.00
"""
NEW = """#turbostat --show Busy%,Bzy_MHz,PkgWatt,LMT --add msr0x64F,u32,raw,package,LMT
turbostat version 2024.07.26 - Len Brown <lenb@kernel.org>
cpu0: PKG Limit #1: ENabled (125.0 Watts, 28.0 sec, clamp ENabled)
Core\tCPU\tBusy%\tBzy_MHz\tPkgWatt\tLMT
-\t-\t10.00\t2000\t30.00\t0x10020002
0\t0\t20.00\t2000\t30.00\t0x10020002
1\t1\t0.00\t1200
Core\tCPU\tBusy%\tBzy_MHz\tPkgWatt\tLMT
-\t-\t90.00\t2500\t80.00\t0x00000000
"""


@pytest.mark.parametrize(
    ("text", "watts", "ghz", "load"),
    [
        (OLD, [30], [2.0], [0.1]),
        (NEW, [30, 80], [2.0, 2.5], [0.1, 0.9]),
        (
            "Busy%\tBzy_MHz\tPkgWatt\n50.00\t2000\t40.0\nBusy%\tBzy_MHz\tPkgWatt\n1.00\t1000\t20.0\n",
            [40, 20],
            [2, 1],
            [0.5, 0.01],
        ),
        (
            "Time (s);CPU Frequency (GHz);CPU Utilization (%);Package Power (mW)\n1,0;2,5;50,0;40000,0\n",
            [40],
            [2.5],
            [0.5],
        ),
        ('note,pkg_w,mhz,busy_cores\n"a, b",40,2000,4\n', [40], [2.0], [4]),
        ("cpu,package_w,bzy_mhz,busy_pct\n,50,2000,80\n0,49,2100,100\n1,,2000,60\n", [50], [2.0], [0.8]),
        ("power_w,freq_mhz,load\n50,2000,80\n20,1000,3\n", [50, 20], [2.0, 1.0], [0.8, 0.03]),
        ("CPU Busy% Bzy_MHz PkgWatt\n- 45.00 2000 40.0\n0 80.00 2000 40.0\n1 10.00 2000\n", [40], [2.0], [0.45]),
    ],
    ids=[
        "old turbostat",
        "a preamble and a hexadecimal column",
        "summary only",
        "decimal commas",
        "quoted",
        "rows of CPUs",
        "percent",
        "rows of CPUs that lack as many cells as there are ids",
    ],
)
def test_logs_as_they_are_written(
    tmp_path: Path, text: str, watts: list[float], ghz: list[float], load: list[float]
) -> None:
    (tmp_path / "log.txt").write_text(text, encoding="utf-8")
    samples = read_samples(tmp_path / "log.txt")
    assert (samples.watts.tolist(), samples.ghz.tolist()) == (pytest.approx(watts), pytest.approx(ghz))
    assert samples.load.tolist() == pytest.approx(load)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pkg_w,mhz,busy_pct\n40,2000000,50\n", "`mhz` would be a clock of 2000 GHz"),
        ("pkg_w,mhz,busy_pct\n40,2000,5000\n", "`busy_pct` would be 5000 % of all CPUs"),
        ("nothing here\n", "no column of the watts"),
        ("pkg_w,pkg_w,mhz,busy_pct\n40,40,2000,50\n", "two columns `pkg_w`"),
        ("pkg_w,mhz,busy_pct\n40,2000,50,7\n", "4 cells under 3 columns"),
        ("cpu,pkg_w,mhz,busy_pct\n0,40,2000,50\n4,40,2000,60\n", ":3: rows of several parts .`cpu`: 0, 4."),
        ("cluster,mw,khz,busy_pct\na55,40,200000,50\na76,40,200000,60\n", "`cluster`: a55, a76"),
    ],
)
def test_what_cannot_be_right_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "log.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_samples(tmp_path / "log.csv")


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_a_package_that_follows_the_clock_is_told_from_its_cores() -> None:
    text = catalog.find("machine", "xeon-6130-2s").read_text(encoding="utf-8")
    spin = FREQBENCH.parents[1] / "xeon-6130-spin"
    for sources in ([spin / "spin.csv"], sorted(spin.glob("*.turbo.txt"))):
        fitted, parameters, *_ = with_power(text, *sources)
        assert "package f" in {parameter.name for parameter in parameters}
        of = {opp["khz"]: opp for opp in tomllib.loads(fitted)["cluster"][0]["opp"]}
        # Both threads of a core 0.76 and 2.2 W, 1.57 times one; an awake socket 28.6 to 30.4 and 48.4 to 53.4 W.
        assert of[1000000]["busy_uw"] * (1 + 584 / 1024) == pytest.approx(0.76e6, rel=0.1)
        assert of[2100000]["busy_uw"] * (1 + 584 / 1024) == pytest.approx(2.2e6, rel=0.05)
        assert of[1000000]["cluster_uw"] == pytest.approx(29.3e6, rel=0.05)
        assert of[2100000]["cluster_uw"] == pytest.approx(50.8e6, rel=0.05)
    # Of three logs of an interval each nothing shows it: core, package, package by clock and one to spare are five.
    few = sorted(spin.glob("*.turbo.txt"))[:3]
    _, parameters, cannot, _ = with_power(text, *few)
    assert "package f" not in {parameter.name for parameter in parameters}
    (words,) = [words for words in cannot if "follows the clock" in words]
    assert words.startswith("whether what the package shares follows the clock: 3 intervals of other clocks do not")


def test_one_clock_takes_the_shape_of_server_cores_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("busy_cores,mhz,pkg_w\n1,2000,40\n8,2000,61\n16,2000,85\n", encoding="utf-8")
    text = catalog.find("machine", "broadwell-72x-i3-metal").read_text(encoding="utf-8")
    fitted, _, cannot, _ = with_power(text, tmp_path / "a.csv")
    cluster = tomllib.loads(fitted)["cluster"][0]
    of = {opp["khz"]: opp["busy_uw"] for opp in cluster["opp"]}
    assert of[2000000] == pytest.approx(3e6, rel=0.02)
    assert of[1200000] == pytest.approx(3e6 * (1.2 + 0.157 * 1.2**3) / (2 + 0.157 * 8), rel=0.02)
    assert any("one clock" in what for what in cannot)


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_every_set_but_noise_is_better_than_its_rival() -> None:
    report = lab_silicon.score(FREQBENCH.parents[1])
    assert report["totals"]["all servers"]["median_abs_error"] < 0.07
    for row in report["sets"]:
        assert row["skill"] is None or row["skill"] > 0, row["set"]


def test_rows_that_make_nnls_go_round_in_circles_are_fitted(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = np.array([1.0, 2, 4, 8])
    features = np.column_stack([np.ones(4), cores])
    exact = fit_parts(["awake", "core"], features, 30 + 2 * cores).powers

    def circles(*_: object) -> None:
        raise RuntimeError("Maximum number of iterations reached.")

    monkeypatch.setattr("scipy.optimize.nnls", circles)
    assert fit_parts(["awake", "core"], features, 30 + 2 * cores).powers == pytest.approx(exact)


def test_a_log_with_other_cpus_than_the_machine_is_named(tmp_path: Path) -> None:
    """A log of two CPUs gave each core of a server their watts without a word."""

    def told(cpus: int) -> str:
        rows = [f"{cpu}\t{cpu}\t20.00\t2500\t-" for cpu in range(cpus)]
        log = tmp_path / f"turbostat{cpus}.txt"
        log.write_text("\n".join(["Core\tCPU\tBusy%\tBzy_MHz\tPkgWatt", "-\t-\t20.00\t2500\t50.0", *rows, ""] * 4))
        _, _, cannot, _ = with_power(catalog.find("machine", "skylake-8x-uma").read_text(encoding="utf-8"), log)
        return "; ".join(cannot)

    assert "whether turbostat2.txt is of this machine: it has rows of 2 CPUs, and skylake-8x-uma has 8" in told(2)
    assert "of this machine" not in told(8)


def test_a_part_that_no_resample_gives_a_power_is_unknown() -> None:
    """A core's constant part was "0 [0 .. 0] W", as if its lack were certain: the rows fall where it would rise."""
    cores = np.array([1.0, 2, 4, 8])
    parts = fit_parts(["awake", "core"], np.column_stack([np.ones(4), cores]), 30 - cores)
    awake, core = parts.parameters()
    assert (core.value, core.low, core.high) == (0, 0, 0)
    assert core.words == "unknown: taken as 0 W, the least that a fit may give"
    assert re.fullmatch(r"[\d.]+ \[[\d.]+ \.\. [\d.]+\] W", awake.words)
