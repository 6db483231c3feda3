"""Machines from tables of operating points: imported, checked against what was measured, given to a kernel."""

from __future__ import annotations

import csv
import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl
import pytest

from opplab.agreement.silicon import unknown_tables
from opplab.cpulist import cpus_in
from opplab.errors import FormatError, InputError
from opplab.files import toml_of
from opplab.fit import freqbench, opp_power
from opplab.fit.curve import SPREAD, fit_curve
from opplab.fit.machine_check import check
from opplab.fit.machine_export import export, placements
from opplab.fit.machine_power import INTERVALS, NEXT_MARK, to_machine_text, with_power
from opplab.fit.opp_machine import layout, machine_of_points
from opplab.simulation.machine import Machine
from opplab.simulation.machine_marks import unmarked
from opplab.simulation.policy import Policy
from opplab.simulation.ranges import assumptions_of, with_draw
from opplab.simulation.simulate import build_case, simulate
from opplab.simulation.workload import Workload
from opplab.trace.recording import read_trace

from calls import answered, called

SHARED = Path(__file__).parents[3] / "shared"
FREQBENCH = SHARED / "silicon" / "freqbench"
WATTSON = SHARED / "data" / "perfetto" / "src" / "trace_processor" / "plugins" / "wattson" / "data"
LITTLE = np.array([300, 600, 900, 1200, 1500, 1800])
BIG = np.array([500, 1000, 1500, 2000, 2500])


def watts(mhz: np.ndarray, top: float, scale: float) -> np.ndarray:
    """Give 20 mW and a power with a flat voltage up to half of the top."""
    volts = np.interp(mhz / top, [0, 0.5, 1], [0.65, 0.65, 1.0])
    return 20 + scale * mhz * volts**2


def write(path: Path, keep: tuple[int, ...] | None = None) -> Path:
    """Write the table of a chip with two clusters; power only at the places `keep` of each cluster."""
    rows = []
    for cpu, clocks, per_mhz, scale in ((1, LITTLE, 3.0, 0.05), (4, BIG, 6.0, 0.4)):
        for place, (mhz, mw) in enumerate(zip(clocks, watts(clocks, clocks[-1], scale), strict=True)):
            known = keep is None or place in keep or place - len(clocks) in keep
            rows.append(
                {
                    "soc": "made1",
                    "cpu": cpu,
                    "khz": 1000 * mhz,
                    "busy_mean_mw": f"{mw:.2f}" if known else "",
                    "coremark_iter_per_s": f"{per_mhz * mhz:.1f}" if place == 0 else "",
                }
            )
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def run(*words: str | Path) -> str:
    done = answered(*words)
    return done.stdout if "json" in words else done.output


def test_three_points_make_a_machine_on_which_eas_runs(tmp_path: Path) -> None:
    three, every = write(tmp_path / "three.csv", (0, 2, -1)), write(tmp_path / "every.csv")
    machine = tmp_path / "made.toml"
    said = run("machine", "import", three, "--clusters", "A55x4,A76x4", "-o", machine)
    assert "most helpful measurement" in said
    assert unmarked(machine.read_text(encoding="utf-8")) == []
    facts = Machine.load(machine).describe()
    assert [(one["cpus"], one["capacity"]) for one in facts["clusters"]] == [
        ("0-3", round(1024 * 3.0 * 1800 / (6.0 * 2500))),
        ("4-7", 1024),
    ]
    assert [len(one["opps"]) for one in facts["clusters"]] == [len(LITTLE), len(BIG)]
    workload = Workload.periodic(1, run_us=1000, period_us=16000)
    case = build_case(Machine.load(machine), workload, Policy(governor="schedutil"), seconds=0.1)
    assert case.why_no_eas() is None
    report = json.loads(run("fit", "power", machine, three, "--check", every, "--format", "json"))
    assert report["interval_of"] == INTERVALS["meter"]
    assert report["points"] == len(LITTLE) + len(BIG) - 6
    assert report["inside"] == report["points"]
    # The machine alone, by its [range], is at most as sure.
    alone = json.loads(run("fit", "power", machine, "--check", every, "--format", "json"))
    assert alone["points"] == len(LITTLE) + len(BIG)
    assert alone["inside"] >= 0.9 * alone["points"]


@pytest.mark.parametrize(("governor", "place"), [("performance", -1), ("powersave", 0)])
def test_joules_of_a_run_are_the_measured_watts(tmp_path: Path, governor: str, place: int) -> None:
    """By another way: one hog at one clock for a second, in the engine; the idle rest is in the table's base."""
    machine = tmp_path / "made.toml"
    run("machine", "import", write(tmp_path / "t.csv"), "--clusters", "A55x4,A76x4", "-o", machine)
    for cpu, clocks, scale in ((0, LITTLE, 0.05), (4, BIG, 0.4)):
        hog = Workload.parse(json.dumps({"tasks": {"hog": {"loop": -1, "cpus": [cpu], "run": 1000}}}))
        metrics = simulate(Machine.load(machine), hog, Policy(governor=governor), seconds=1.0).metrics
        value = dict(zip(metrics["metric"], metrics["value"], strict=True))
        true_mw = float(watts(clocks, clocks[-1], scale)[place])
        assert 1000 * value["energy"] == pytest.approx(true_mw, rel=0.1), (cpu, governor)


def test_draws_move_measured_power_and_do_not_lose_it(tmp_path: Path) -> None:
    """Goal: whatever a cluster shares, one busy CPU draws what its range says of the measurement."""
    made = tmp_path / "made.toml"
    run("machine", "import", write(tmp_path / "t.csv", (0, 2, -1)), "--clusters", "A55x4,A76x4", "-o", made)
    machine = toml_of(Machine.load(made).to_toml(), "a machine")
    assumed = assumptions_of(machine)
    by_cluster = {one["name"]: one for one in machine["cluster"]}
    for shares in np.random.default_rng(1).random((50, len(assumed))):
        for cluster in with_draw(machine, assumed, shares)["cluster"]:
            own = by_cluster[cluster["name"]]
            key = f"cluster.{own['name']}.opp.busy_uw"
            share = next(float(at) for at, one in zip(shares, assumed, strict=True) if one.key == key)
            for opp, drawn, (low, high) in zip(
                own["opp"], cluster["opp"], machine["range"][key]["percent"], strict=True
            ):
                measured = opp["uw"] + opp["cluster_uw"]
                by_hand = measured * (low / 100) ** (1 - share) * (high / 100) ** share
                assert drawn["busy_uw"] + drawn["cluster_uw"] == pytest.approx(by_hand, rel=1e-3)
                assert drawn["busy_uw"] > 0
                assert drawn["uw"] == opp["uw"], "what the kernel is told stays"


def test_an_idle_phone_draws_nothing_above_its_base(tmp_path: Path) -> None:
    """Goal: neither the file's numbers nor the ends of their ranges draw what no measurement has."""
    made = tmp_path / "made.toml"
    run("machine", "import", write(tmp_path / "t.csv"), "--clusters", "A55x4,A76x4", "-o", made)
    blink = {"tasks": {"blink": {"loop": -1, "run": 1, "cpus": [0], "timer": {"ref": "t", "period": 500000}}}}
    load = Workload.parse(json.dumps(blink))
    machine = toml_of(Machine.load(made).to_toml(), "a machine")
    assumed = assumptions_of(machine)
    for drawn in (machine, *(with_draw(machine, assumed, [share] * len(assumed)) for share in (0, 1))):
        metrics = simulate(Machine.from_tree(drawn), load, Policy(governor="powersave"), seconds=1.0).metrics
        value = dict(zip(metrics["metric"], metrics["value"], strict=True))
        assert 0 < value["energy"] < 0.0005
    # A machine whose file has what its sleeping clusters draw keeps it.
    table = FREQBENCH / "opp_power.csv"
    if table.exists():
        known = Machine.load("sm8150").to_toml()
        text = with_power(known, table, soc="sm8150")[0]
        kept = [[one.get("cluster_idle_uw") for one in toml_of(of, "a machine")["cluster"]] for of in (known, text)]
        assert kept[0] == kept[1] and None not in kept[0]


@pytest.mark.parametrize("column", ["online_idle_mean_mw", "idle_mean_mw", "Idle power (W)"])
def test_a_measured_idle_column_is_named_where_it_is_left_out(tmp_path: Path, column: str) -> None:
    """A file said "what a CPU draws in WFI was not measured" of a table that had it."""
    table = write(tmp_path / "t.csv")
    head, *rows = table.read_text().splitlines()
    made = tmp_path / "made.toml"
    words = run("machine", "import", table, "--clusters", "A55x4,A76x4", "-o", made)
    assert "cluster.opp.idle_uw: [A] none: what a CPU draws in WFI was not measured" in words
    table.write_text("\n".join([f"{head},{column}", *(f"{row},11" for row in rows)]) + "\n")
    words = run("machine", "import", table, "--clusters", "A55x4,A76x4", "-o", made, "--force")
    why = f"`{column}` left out: the table does not name the idle states"
    assert "not measured" not in words.partition("cluster.opp.idle_uw")[2].partition("\n")[0]
    assert f"cluster.opp.idle_uw: [A] none: {why}" in words
    assert f"power, unknown: {why}" in words


def test_an_import_prints_how_far_its_fit_is_from_the_table(tmp_path: Path) -> None:
    """The file called the fitted curve "what was measured", and nothing told that it was 2.6 % off at some points."""
    table = write(tmp_path / "t.csv")
    made = tmp_path / "made.toml"
    words = run("machine", "import", table, "--clusters", "A55x4,A76x4", "-o", made)
    found = re.findall(r"power, fit: median residual ([\d.]+) %, at most ([\d.]+) % of (\d+) points of (A\d+)", words)
    assert [one[3] for one in found] == ["A55", "A76"]
    tree = toml_of(made.read_text(), "a machine")
    points = [point for point in freqbench.read_points(table) if point.busy_mw]
    described = Machine.load(made).describe()["clusters"]
    for cluster, (middle, most, count, _) in zip(described, found, strict=True):
        watts = {opp["khz"]: (opp["busy_uw"] + opp["cluster_uw"]) / 1000 for opp in cluster["opps"]}
        own = [point for point in points if point.cpu in cpus_in(cluster["cpus"])]
        misses = [100 * abs(watts[point.khz] / point.busy_mw - 1) for point in own]
        assert len(own) == int(count)
        assert float(middle) == pytest.approx(median(misses), abs=0.06)
        assert float(most) == pytest.approx(max(misses), abs=0.06)
    assert "what was measured" not in tree["source"]["cluster.opp.uw"]
    assert "at most" in tree["source"]["cluster.opp.busy_uw"]


def test_what_cannot_run_is_said_before_others_run(tmp_path: Path) -> None:
    """An energy model without its registers failed when its turn came, after all other cases."""
    made, load = tmp_path / "made.toml", tmp_path / "load.json"
    run("machine", "import", write(tmp_path / "t.csv"), "--clusters", "A55x4,A76x4", "-o", made)
    load.write_text('{"tasks": {"t": {"loop": 20, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    how = ["run", load, "-m", made, "--seconds", "0.2", "--iterations", "1", "-o", tmp_path / "o"]
    done = called(*how, "--vs", "energy_model=artificial")
    words = "energy_model=artificial on made cannot run: energy model of cluster A55: it has no CPPC registers"
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
    assert not (tmp_path / "o").exists()
    # On another machine it can: that one's cases run, and the others fail when their turn comes.
    both = called(*how, "-m", "juno-r2", "--vs", "energy_model=artificial")
    assert words in both.stderr.partition("cases")[0]
    assert "Failed: 1 of 2 runs of energy_model=artificial on made, energy model" in " ".join(both.stdout.split())


@pytest.mark.parametrize("command", ["run", "choose"])
@pytest.mark.parametrize(
    ("machine", "driver"), [("epyc-milan-1s", "amd-pstate-epp"), ("skylake-8x-uma", "intel_pstate")]
)
def test_a_governor_that_a_driver_lacks_is_refused_before_any_run(
    tmp_path: Path, machine: str, driver: str, command: str
) -> None:
    """Goal: nothing runs, and the governors that the driver has are named."""
    more = ["-o", str(tmp_path / "o"), "--iterations", "1"] if command == "run" else []
    asked = [command, "tbench", "-m", machine, "--governor", "schedutil", "--vs", f"driver={driver}"]
    done = called(*asked, "--seconds", "0.6", *more)
    assert isinstance(done.exception, InputError)
    assert f"driver {driver} has the governors performance and powersave" in str(done.exception)
    assert "failed" not in done.stderr
    assert not (tmp_path / "o").exists()
    own = [*asked[:4], "--governor", "powersave", "--vs", "governor=performance", "--seconds", "0.6", *more]
    answered(*own)


TREE = """/dts-v1/;
/ { cpus {
  cpu0: cpu@0 { device_type = "cpu"; capacity-dmips-mhz = <600>; operating-points-v2 = <&little>; };
  cpu4: cpu@1 { device_type = "cpu"; capacity-dmips-mhz = <1024>; operating-points-v2 = <&big>; };
 };
 little: opp-table-0 { opp-shared; opp-0 { opp-hz = /bits/ 64 <300000000>; opp-microvolt = <600000>; };
  opp-1 { opp-hz = /bits/ 64 <1800000000>; opp-microvolt = <900000>; }; };
 big: opp-table-1 { opp-shared; opp-0 { opp-hz = /bits/ 64 <500000000>; opp-microvolt = <600000>; };
  opp-1 { opp-hz = /bits/ 64 <2500000000>; opp-microvolt = <900000>; }; };
};
"""


def test_an_artificial_model_without_its_registers_is_refused_on_every_machine(tmp_path: Path) -> None:
    """On a board without classes it was no energy-aware scheduling, in silence; elsewhere a failed run."""
    (tmp_path / "board.dts").write_text(TREE)
    board = tmp_path / "board.toml"
    run("machine", "import", tmp_path / "board.dts", "-o", board)
    load = Workload.periodic(1, run_us=100, period_us=1000)
    for machine in (Machine.load(board), Machine.load("pixel6"), Machine.load("epyc-zen1-1s")):
        for policy in (Policy(energy_model="artificial"), Policy(energy_model="artificial", governor="performance")):
            with pytest.raises(InputError, match=r"energy model of cluster .*: it has no CPPC registers"):
                build_case(machine, load, policy, seconds=0.1).why_no_eas()
        off = Policy(energy_model="artificial", eas=False)
        assert build_case(machine, load, off, seconds=0.1).why_no_eas() is None


def test_a_device_tree_s_capacities_are_compared_with_the_table_s(tmp_path: Path) -> None:
    """Goal: one source of the capacities, and how far the kernel's are; a cluster that was not measured is missing."""
    tree, table, made = tmp_path / "board.dts", tmp_path / "t.csv", tmp_path / "made.toml"
    tree.write_text(TREE)
    table.write_text(
        "cpu,khz,coremark_iter_per_s,mw\n0,300000,900,30\n0,1800000,5400,170\n1,500000,3000,\n1,2500000,15000,\n"
    )
    said = run("machine", "import", tree, table, "-o", made)
    # 600 * 1800 / (1024 * 2500) of 1024, as the kernel has it; 5400 of 15000 by CoreMark.
    words = (
        "capacities are those of CoreMark (cluster0 369, not 432): up to 15 % from the source's, which its kernel uses"
    )
    assert words in said
    assert said.count("  read     capacity: ") == 1
    source = toml_of(made.read_text(), "a machine")["source"]
    assert "capacity" not in source and "CoreMark" in source["cluster.capacity"]
    assert "missing  power of the CPUs of cluster1 at each OPP" in said


def test_a_device_tree_without_clocks_takes_the_table_s(tmp_path: Path) -> None:
    """Goal: where firmware has the clocks, tree and table make one machine with the tree's idle states.

    Method: capacities by hand, as the kernel makes them of capacity-dmips-mhz and the highest clock.
    """
    cpus = "".join(
        f'cpu{cpu}: cpu@{cpu} {{ device_type = "cpu"; capacity-dmips-mhz = <{400 if cpu < 4 else 1000}>; '
        f"qcom,freq-domain = <&hw {int(cpu >= 4)}>; cpu-idle-states = <&{'little' if cpu < 4 else 'big'}>; }};\n"
        for cpu in range(6)
    )
    states = "".join(
        f"{name}: {name}-sleep {{ entry-latency-us = <{entry}>; exit-latency-us = <70>; min-residency-us = <900>; }};\n"
        for name, entry in (("little", 30), ("big", 50))
    )
    tree = tmp_path / "t.dts"
    tree.write_text(f"/dts-v1/;\n/ {{ cpus {{ {cpus} idle-states {{ {states} }}; }}; hw: hw {{ }}; }};\n")
    table = write(tmp_path / "t.csv")
    rows = [{**row, "coremark_iter_per_s": ""} for row in csv.DictReader(table.read_text().splitlines())]
    pl.DataFrame(rows).write_csv(table)
    done = answered("machine", "import", tree, table, "-o", tmp_path / "m.toml")
    assert "opps: t.csv" in done.stderr
    clusters = Machine.load(tmp_path / "m.toml").describe()["clusters"]
    assert [cluster["cpus"] for cluster in clusters] == ["0-3", "4-5"]
    assert [[opp["khz"] // 1000 for opp in one["opps"]] for one in clusters] == [list(LITTLE), list(BIG)]
    assert [cluster["capacity"] for cluster in clusters] == [1024 * 400 * 1800 // (1000 * 2500), 1024]
    assert [cluster["idle"][1]["entry_latency_ns"] for cluster in clusters] == [30_000, 50_000]
    assert all(cluster["opps"][-1]["busy_uw"] for cluster in clusters)
    # A cluster that nobody measured is named.
    pl.DataFrame([row for row in rows if row["cpu"] == "1"]).write_csv(table)
    refused = called("machine", "import", tree, table, "-o", tmp_path / "n.toml")
    assert "it has no frequency of CPUs 4-5" in str(refused.exception)


def test_points_of_the_fit_are_no_check_of_it(tmp_path: Path) -> None:
    table, rest, made = write(tmp_path / "t.csv", (0, 2, -1)), write(tmp_path / "rest.csv"), tmp_path / "made.toml"
    run("machine", "import", table, "--clusters", "A55x4,A76x4", "-o", made)
    words = "the power is fitted to points of this table: those are no further points"
    assert words in run("fit", "power", made, "--check", table)
    assert words not in run("fit", "power", made, "--check", rest)
    assert words not in run("fit", "power", made, table, "--check", rest)


@pytest.mark.skipif(shutil.which("dtc") is None, reason="skipped: dtc is not installed")
def test_the_device_tree_compiles_and_compares_placements(tmp_path: Path) -> None:
    machine, tree = tmp_path / "made.toml", tmp_path / "made.dts"
    run("machine", "import", write(tmp_path / "t.csv", (0, 2, -1)), "--clusters", "A55x4,A76x4", "-o", machine)
    run("machine", "export", machine, "-o", tree)
    text = tree.read_text()
    subprocess.run(["dtc", "-I", "dts", "-O", "dtb", "-o", str(tmp_path / "x.dtb"), str(tree)], check=True)
    # What the device has, nobody knows: the comparison is with a kernel that has none.
    assert "before:" not in text
    assert "/* without an energy model: EAS is off: a task" in text
    assert "/* with this one: util 1 to" in text
    assert "ranges are of one meter and one chip" in text
    assert "most helpful measurement: A" in text
    again = run("machine", "export", machine, "--before", "juno-r2")
    assert "before: util 1 to" in again
    assert "after: util 1 to" in again
    # Again by hand: rows meet, and the biggest tasks are on the biggest CPUs.
    found = placements(Machine.load(machine).describe())
    assert found[0][0] == 1
    assert all(low == before + 1 for (_, before, _), (low, _, _) in pairwise(found))
    assert found[-1][2] == "A76"


def test_intervals_are_nested_and_named(tmp_path: Path) -> None:
    three, every = write(tmp_path / "three.csv", (0, 2, -1)), write(tmp_path / "every.csv")
    machine = tmp_path / "made.toml"
    run("machine", "import", three, "--clusters", "A55x4,A76x4", "-o", machine)
    widths = []
    for of in SPREAD:
        words = ("fit", "power", machine, three, "--check", every, "--interval", of, "--format", "json")
        report = json.loads(run(*words))
        assert report["interval_of"] == INTERVALS[of]
        widths.append(np.mean([row["high_mw"] / row["low_mw"] for row in report["rows"]]))
    assert widths == sorted(widths)
    assert widths[0] < widths[1] / 1.5


def test_a_machine_is_as_sure_at_each_clock_as_its_fit(tmp_path: Path) -> None:
    """A reading of a few mW is unsure by the meter, and leaves that of the highest clock as sure as it was."""
    three, every = write(tmp_path / "three.csv", (0, 2, -1)), write(tmp_path / "every.csv")
    path = tmp_path / "made.toml"
    run("machine", "import", three, "--clusters", "A55x4,A76x4", "-o", path)
    whole, alone = (
        {(row["cluster"], row["khz"]): row for row in json.loads(run("fit", "power", *words))["rows"]}
        for words in (
            (path, three, "--check", every, "--format", "json"),
            (path, "--check", every, "--format", "json"),
        )
    )
    machine = Machine.load(path)
    low, high = (ends[0].describe()["clusters"] for ends in machine._inner.power_ends())
    places = {(one["name"], opp["khz"]): (c, o) for c, one in enumerate(low) for o, opp in enumerate(one["opps"])}
    assert set(whole) < set(alone)
    for key, row in whole.items():
        assert alone[key]["low_mw"] == pytest.approx(row["low_mw"], rel=0.03), key
        assert alone[key]["high_mw"] == pytest.approx(row["high_mw"], rel=0.03), key
        cluster, opp = places[key]
        power = high[cluster]["opps"][opp]
        assert (power["busy_uw"] + power["cluster_uw"]) / 1000 == pytest.approx(row["high_mw"], rel=0.03), key
    key = '"cluster.A55.opp.busy_uw" = { percent = ['
    with pytest.raises(FormatError, match="has 7 pairs for 6 operating points"):
        Machine.parse(path.read_text().replace(key, f"{key}[90, 110], "))
    # A run at one clock has the range of that clock, and so has its task by `trace energy`.
    hog = Workload.parse(json.dumps({"tasks": {"hog": {"loop": -1, "cpus": [0], "run": 1000}}}))
    result = simulate(machine, hog, Policy(governor="performance"), seconds=1.0)
    value = dict(zip(result.metrics["metric"], result.metrics["value"], strict=True))
    top = alone["A55", 1000 * LITTLE[-1]]
    assert value["energy_high"] / value["energy"] == pytest.approx(top["high_mw"] / top["predicted_mw"], rel=0.02)
    assert value["energy_high"] < 1.5 * value["energy"]
    result.to_trace(tmp_path / "run.dat")
    task = read_trace(tmp_path / "run.dat").energy(machine).tasks.row(0, named=True)
    assert task["high_j"] / task["energy_j"] == pytest.approx(top["high_mw"] / top["predicted_mw"], rel=0.02)


@pytest.mark.parametrize("lowest_mw", [10.0, 110.0])
def test_what_does_not_depend_on_the_clock_is_no_more_than_the_whole(lowest_mw: float) -> None:
    mhz = np.array([845.0, 1786.0, 2841.0])
    fit = fit_curve(mhz, lowest_mw * np.array([1.0, 4.5, 22.0]), floor=opp_power.GAUGE_MW)
    static = {one.name: one for one in fit.parameters()}["static"]
    assert static.low <= static.value <= static.high <= fit.interval(mhz)[1][0]


def test_what_is_wrong_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv")
    for clusters, words in (
        ("A55", "is not a name and a number of CPUs"),
        ("A55x4", "no CPU of the machine|8"),
        ("A55x4,A76x2,X1x2", "nothing of X1"),
    ):
        done = called("machine", "import", table, "--clusters", clusters)
        assert isinstance(done.exception, InputError), clusters
        assert any(part in str(done.exception) for part in words.split("|")), done.exception
    other = tmp_path / "two.csv"
    other.write_text(table.read_text() + "made2,1,300000,20,900\n")
    done = called("machine", "import", other)
    assert isinstance(done.exception, InputError) and "name one with --soc" in str(done.exception)


def test_a_table_may_name_clusters_instead_of_cpus(tmp_path: Path) -> None:
    """What people type from a spreadsheet: a name of a cluster a row, units in brackets, semicolons."""
    rows = ["Cluster;Frequency (MHz);CoreMark (it/s);Power (mW)"]
    rows += [f"little;{mhz};{3 * mhz};{mw:.1f}" for mhz, mw in zip(LITTLE, watts(LITTLE, 1800, 0.05), strict=True)]
    rows += [f"Big;{mhz};{6 * mhz};{mw:.1f}" for mhz, mw in zip(BIG, watts(BIG, 2500, 0.4), strict=True)]
    table = tmp_path / "typed.csv"
    table.write_text("\n".join(rows) + "\n")
    with pytest.raises(InputError, match="--clusters, as in bigx4,littlex4"):
        machine_of_points([table], None, None, None)
    tree, missing = machine_of_points([table], None, layout("little x4,big x2"), "typed")
    assert [(one["name"], one["cpus"]) for one in tree["cluster"]] == [("little", "0-3"), ("big", "4-5")]
    assert [one["capacity"] for one in tree["cluster"]] == [round(1024 * 3 * 1800 / (6 * 2500)), 1024]
    assert [[opp["khz"] // 1000 for opp in one["opp"]] for one in tree["cluster"]] == [list(LITTLE), list(BIG)]
    assert not any("capacities" in words for words in missing)
    machine = tmp_path / "typed.toml"
    run("machine", "import", table, "--clusters", "littlex4,bigx2", "-o", machine)
    for cluster, points in zip(Machine.load(machine).describe()["clusters"], (LITTLE, BIG), strict=True):
        scale = 0.05 if points is LITTLE else 0.4
        drawn = [(opp["busy_uw"] + opp["cluster_uw"]) / 1000 for opp in cluster["opps"]]
        assert drawn == pytest.approx(watts(points, points[-1], scale), rel=0.12)


def test_a_log_of_rails_is_a_table(tmp_path: Path) -> None:
    log = tmp_path / "rails.csv"
    lines = ["time_s,a15_mhz,a15_v,a15_w,a15_load,a7_mhz,a7_w,ram_w"]
    for index, (mhz, volt) in enumerate([(1000, 0.9), (1500, 1.0), (2000, 1.2)] * 5):
        lines.append(f"{index},{mhz},{volt},{mhz * volt**2 / 1000:.3f},1,1400,0.15,0.03")
        lines.append(f"{index}.5,{mhz},{volt},0.01,0.1,1400,0.15,0.03")  # Idle: does not count.
    log.write_text("\n".join(lines) + "\n")
    done = called("machine", "import", log)
    assert "--clusters, as in a15x4,a7x4" in str(done.exception)
    machine = tmp_path / "odroid.toml"
    said = run("machine", "import", log, "--clusters", "A15x4", "-o", machine)
    # Nothing shows what ran on the A7: its watts are of no busy CPU.
    assert "power, unknown: what a busy CPU of a7 draws: rails.csv has no column `a7_load`" in said
    both = tmp_path / "both.toml"
    run("machine", "import", log, "--clusters", "A7x4,A15x4", "-o", both)
    (little, _) = Machine.load(both).describe()["clusters"]
    assert [(opp["khz"], opp["busy_uw"]) for opp in little["opps"]] == [(1_400_000, None)]
    loaded = tmp_path / "loaded.csv"
    loaded.write_text(log.read_text().replace("a7_w,", "a7_w,a7_load,").replace(",0.15,", ",0.15,1,"))
    assert "no cluster has its name" in run("machine", "import", loaded, "--clusters", "A15x4", "-o", both, "--force")
    opps = Machine.load(machine).describe()["clusters"][0]["opps"]
    assert [opp["mv"] for opp in opps] == [900, 1000, 1200]
    drawn = [(opp["busy_uw"] + opp["cluster_uw"]) / 1000 for opp in opps]
    assert drawn == pytest.approx([1000 * 0.81, 1500, 2000 * 1.44], rel=0.06)
    # A log of rails has no chip's name.
    assert "[F] rails.csv: fitted curve" in machine.read_text()
    assert run("fit", "power", log).startswith("a15: 3 points;")
    log.write_text(log.read_text().replace("0.810,1", "x,1", 1))
    with pytest.raises(FormatError, match=r"rails\.csv:2: `a15_w` is `x`"):
        freqbench.read_points(log)


def test_idle_samples_of_a_rail_are_no_busy_cpu(tmp_path: Path) -> None:
    """All rails are sampled while one cluster is busy: the idle samples of the others became points of a busy CPU.

    Method: with a column of the load, the points are those that were measured; without one the log is refused.
    """
    log = tmp_path / "rails.csv"
    busy = {"a7": {300: 0.02, 1500: 0.15}, "a15": {500: 0.1, 2000: 1.2}}
    rows = []
    for rail, points in busy.items():
        for mhz, watts_busy in points.items():
            for nth in range(10):
                row = []
                for other, its in busy.items():
                    # A meter's noise of up to a fifth.
                    row += [mhz, watts_busy * (0.9 + 0.02 * nth), 1] if other == rail else [min(its), 2e-4 * nth, 0]
                rows.append(row)
    head = [f"{rail}_{unit}" for rail in busy for unit in ("mhz", "w", "load")]
    table = pl.DataFrame(rows, schema=head, orient="row")
    table.write_csv(log)
    points = {(point.rail, point.khz): point.busy_mw for point in freqbench.read_points(log)}
    expected = {(rail, 1000 * mhz): 990 * watts_busy for rail, its in busy.items() for mhz, watts_busy in its.items()}
    assert points == pytest.approx(expected)
    table.drop("a7_load", "a15_load").write_csv(log)
    with pytest.raises(
        InputError, match=r"20 samples of the rail `a7` at 300 MHz are of at most 1\.8 mW, and 10 of 18 mW"
    ):
        freqbench.read_points(log)
    # The clocks at which nothing was idle are no less noisy.
    table.filter((pl.col("a7_mhz") > 300) & (pl.col("a15_mhz") == 500)).select("a7_mhz", "a7_w").write_csv(log)
    assert [point.busy_mw for point in freqbench.read_points(log)] == pytest.approx([148.5])
    said = run("machine", "import", log, "--clusters", "A7x4", "-o", tmp_path / "a7.toml")
    assert "whether CPUs of a7 were busy: rails.csv has no column `a7_load`, and every sample counts" in said


def test_an_exported_tree_names_whose_powers_it_has() -> None:
    """A tree that was imported and measured came out with its old coefficients, without a word on the measurements.

    Method: each power of the output is the file's own, and EAS's placement by the old model stands beside it.
    """
    opps = [opp for cluster in Machine.load("juno-r2").describe()["clusters"] for opp in cluster["opps"]]
    shares = [100 * opp["busy_uw"] / opp["power_uw"] for opp in opps]
    assert any(share != 100 for share in shares)
    for words, key in (((), "power_uw"), (("--measured",), "busy_uw")):
        text = answered("machine", "export", "juno-r2", *words).stdout
        found = [int(power) for power in re.findall(r"opp-microwatt = <(\d+)>", text)]
        assert found == [opp[key] for opp in opps]
        named = re.findall(r"a busy CPU draws (\d+) % to (\d+) % of them", text)
        ends = [number for pair in named for number in map(int, pair)]
        assert (min(ends), max(ends)) == (round(min(shares)), round(max(shares))) if not words else not ends
        before = re.search(r"before: (.*?) \*/", text)
        assert before[1].startswith("util") if before else not words


def test_wattson_s_curves_are_powers_and_take_capacities(tmp_path: Path) -> None:
    folder = tmp_path / "device"
    folder.mkdir()
    rows = ["device,policy,freq_khz,static,active,idle0,idle1"]
    rows += [f"chip,0,{1000 * mhz},5,{0.1 * mhz},1,0" for mhz in LITTLE]
    rows += [f"chip,4,{1000 * mhz},9,{0.4 * mhz},1,0" for mhz in BIG]
    (folder / "cpu_1d.csv").write_text("\n".join(rows) + "\n")
    points = freqbench.read_points(folder)
    assert [(p.cpu, p.khz, p.busy_mw) for p in points][:1] == [(0, 300000, 35.0)]
    speeds = tmp_path / "coremark.csv"
    speeds.write_text("cpu,khz,coremark_iter_per_s\n0,1800000,5400\n4,2500000,15000\n")
    machine = tmp_path / "chip.toml"
    run("machine", "import", folder, speeds, "-o", machine)
    clusters = Machine.load(machine).describe()["clusters"]
    assert [cluster["capacity"] for cluster in clusters] == [round(1024 * 5400 / 15000), 1024]
    report = check(machine.read_text(), folder)
    assert report["points"] == len(LITTLE) + len(BIG)
    assert report["p90_abs_error"] < 1e-3


def test_a_log_of_a_whole_machine_is_checked(tmp_path: Path) -> None:
    log, rest = tmp_path / "a.csv", tmp_path / "b.csv"
    for path, cores in ((log, (0, 1, 2, 4)), (rest, (3,))):
        rows = [f"{20 + 3 * n * ghz:.2f},{1000 * ghz},{n}" for n in cores for ghz in (1.0, 2.0, 3.0)]
        path.write_text("pkg_w,mhz,busy_cores\n" + "\n".join(rows) + "\n")
    words = ("fit", "power", "jasper-lake-4c", log, "--check", rest, "--format", "json")
    report = json.loads(run(*words))
    assert report["points"] == 3
    assert report["median_abs_error"] < 0.05
    assert report["inside"] == 3


def _socs() -> dict[str, str]:
    """Give the clusters of each measured chip, as `--clusters` has them."""
    found: dict[str, list[str]] = {}
    with (FREQBENCH / "clusters.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            core, _, count = row["cores"].partition(" (")[0].rpartition("x")
            found.setdefault(row["soc"], []).append(f"{core.strip()}x{count}")
    found["zuma"] = ["A510x4", "A715x4", "X3x1"]
    return {soc: ",".join(parts) for soc, parts in found.items()}


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_each_measured_chip_is_told_by_three_points_of_each_cluster() -> None:
    """Leave one out: a curve's shape is that of other families; each run of a chip stands for a device of its own."""
    table = FREQBENCH / "opp_power.csv"
    inside = points = held = runs = 0
    for soc, clusters in _socs().items():
        if soc == "mt6768":
            continue  # No power was measured.
        tree, _ = machine_of_points([table], soc, layout(clusters), None)
        text, _, _, fits = with_power(to_machine_text(tree), table, soc=soc, points="low,mid,high")
        made = Machine.parse(text)
        capacities = {cluster["capacity"] for cluster in made.describe()["clusters"]}
        if len(capacities) > 1:
            assert placements(made.describe())[0][0] == 1, soc
        assert NEXT_MARK in toml_of(text, soc)["source"], soc
        if shutil.which("dtc") is not None:
            compiler = ["dtc", "-q", "-I", "dts", "-O", "dtb", "-o", "/dev/null"]
            subprocess.run(compiler, input=export(made.describe(), "dts"), text=True, check=True)
        report = check(text, table, fits, soc)
        inside, points = inside + report["inside"], points + report["points"]
        # One device: the three points of a run, and the rest of that run.
        for name in {point.run for point in freqbench.read_points(table) if point.soc == soc}:
            mine = [
                curve for curve in freqbench.choose(freqbench.read_points(table), soc, None, table) if curve.run == name
            ]
            rows = [p for fit in opp_power.check(mine, "low,mid,high", None) for p in fit.predictions]
            good = sum(p.low is not None and p.high is not None and p.low <= p.measured <= p.high for p in rows)
            runs, held = runs + 1, held + (good >= 0.9 * len(rows))
    assert (runs, held) == (46, 42)
    assert inside / points > 0.9


@pytest.mark.skipif(not FREQBENCH.exists(), reason="no measurements at ../shared/silicon beside the repository")
def test_another_device_is_within_the_interval_of_a_chip() -> None:
    """Three points of one run of a SoC, and every point of its other runs: what `INTERVALS` says of it."""
    table = FREQBENCH / "opp_power.csv"
    curves = freqbench.choose(freqbench.read_points(table), None, None, table)
    predictions = []
    for curve in curves:
        others = [one for one in curves if (one.soc, one.cpu) == (curve.soc, curve.cpu) and one.run != curve.run]
        fitted = opp_power.fit_points(curve, freqbench.pick_points(curve.points, "low,mid,high"))
        fitted.of = "chip"
        for other in others:
            opp_power.predict(fitted, other.points)
        predictions += fitted.predictions
    held = sum(p.low is not None and p.high is not None and p.low <= p.measured <= p.high for p in predictions)
    assert (len(predictions), round(100 * held / len(predictions))) == (1392, 90)


def test_verify_silicon_names_tables_that_it_does_not_know(tmp_path: Path) -> None:
    folder = tmp_path / "freqbench"
    folder.mkdir()
    shutil.copy(write(tmp_path / "t.csv"), folder / "opp_power.csv")
    (tmp_path / "t.csv").unlink()
    (folder / "opp_powers.csv").write_text("a,b\n1,2\n")
    (folder / "clusters.csv").write_text("soc,cpu\n")
    assert unknown_tables(tmp_path) == ["freqbench/opp_powers.csv"]
    (folder / "opp_power.csv").rename(folder / "power.csv")
    done = called("verify", "silicon", tmp_path)
    assert isinstance(done.exception, InputError)


@pytest.mark.parametrize(
    ("column", "little", "big"),
    [
        ("cpu", "cpu0", "cpu4"),
        ("policy", "policy0", "policy4"),
        ("cpus", "0-3", "4-7"),
        ("core", "0", "4"),
        ("core", "Cortex-A55", "Cortex-A76"),
        ("cluster", "A55", "A76"),
    ],
)
def test_people_name_clusters_in_many_ways(tmp_path: Path, column: str, little: str, big: str) -> None:
    plain = tmp_path / "plain.csv"
    named = tmp_path / "named.csv"
    rows = [(0, little, 300, 30), (0, little, 1800, 170), (4, big, 500, 120), (4, big, 2500, 1200)]
    plain.write_text("cpu,mhz,power_mw\n" + "".join(f"{cpu},{mhz},{mw}\n" for cpu, _, mhz, mw in rows))
    named.write_text(
        f"# by hand, in an evening\n\n{column},mhz,mW\n" + "".join(f"{name},{mhz},{mw}\n" for _, name, mhz, mw in rows)
    )
    machines = []
    for table in (plain, named):
        machine = table.with_suffix(".toml")
        run("machine", "import", table, "--clusters", "A55x4,A76x4", "--name", "made", "-o", machine)
        machines.append(toml_of(machine.read_text(), "a machine")["cluster"])
    assert machines[0] == machines[1]


def test_clusters_that_are_numbered_are_no_cpus(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("cluster,mhz,mw\n0,300,30\n0,1800,170\n1,500,120\n1,2500,1200\n")
    run("machine", "import", table, "--clusters", "cluster0x4,cluster1x4", "-o", tmp_path / "m.toml")
    tree = toml_of((tmp_path / "m.toml").read_text(), "a machine")
    assert [[opp["khz"] for opp in cluster["opp"]] for cluster in tree["cluster"]] == [
        [300_000, 1_800_000],
        [500_000, 2_500_000],
    ]


def test_a_cell_that_is_no_number_has_its_line(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text('# remark\ncpu,khz,mw\n0,"1,800,000",170\n')
    with pytest.raises(FormatError, match=r"t\.csv:3: `khz` is `1,800,000`, not a number"):
        freqbench.read_points(table)


@pytest.mark.parametrize("watts", ["nan", "-5", "", "0"])
def test_rows_that_are_left_out_are_counted(tmp_path: Path, watts: str) -> None:
    rows = ["busy_cores,mhz,pkgwatt"]
    rows += [f"{cores},{mhz},{8 + cores * mhz / 1000 * 1.7:.2f}" for cores in (0, 1, 2) for mhz in (800, 1500, 2200)]
    whole, spoilt = tmp_path / "whole.csv", tmp_path / "spoilt.csv"
    whole.write_text("\n".join(rows) + "\n")
    spoilt.write_text("\n".join([*rows[:3], f"0,2200,{watts}", *rows[4:]]) + "\n")
    words = "1 of 9 rows are left out: no watts above 0, no clock or no load"
    for name in ("whole", "spoilt"):
        fit = called("fit", "power", "kaby-lake-i7-7500u", tmp_path / f"{name}.csv")
        checked = ["fit", "power", "kaby-lake-i7-7500u", str(whole), "--check", str(tmp_path / f"{name}.csv")]
        for done in (fit, called(*checked)):
            assert done.exit_code == 0, done.output
            assert (words in done.output) is (name == "spoilt")


@pytest.mark.parametrize("cell", ["", "0"])
def test_points_without_power_are_counted(tmp_path: Path, cell: str) -> None:
    rows = ["cpu,khz,busy_mean_mw", *(f"0,{mhz}000,{mhz // 4}" for mhz in (800, 1500, 2200, 2600))]
    whole, spoilt = tmp_path / "whole.csv", tmp_path / "spoilt.csv"
    whole.write_text("\n".join(rows) + "\n")
    spoilt.write_text("\n".join([*rows[:3], f"0,2200000,{cell}", *rows[4:]]) + "\n")
    words = "1 of 4 rows are left out: no power above 0"
    for before in ([], ["juno-r2"]):
        for file in (whole, spoilt):
            done = answered("fit", "power", *before, file)
            assert (words in done.output) is (file is spoilt)


def test_power_below_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("soc,cpu,khz,busy_mean_mw\nchip,0,300000,20\nchip,0,600000,-5\nchip,0,900000,90\n")
    with pytest.raises(FormatError, match=r"points\.csv:3: `busy_mean_mw` is -5, less than nothing"):
        freqbench.read_points(file)
