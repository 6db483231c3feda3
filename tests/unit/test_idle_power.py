"""Machines whose file has no power of idle states: what a setting changes in these is unknown, and no saving."""

import json
from pathlib import Path

import pytest

import opplab
from opplab import results
from opplab.comparison.sources import Frame
from opplab.errors import InputError
from opplab.simulation.power import NO_IDLE_POWER, has_idle_power
from opplab.summary.compared import report
from opplab.sweep.missing import changes_unknown_idle

from calls import answered

WORK = opplab.Workload.periodic(4, run_us=1500, period_us=10000, name="load")
UNKNOWN = "xeon-6130-2s"


@pytest.fixture
def load(tmp_path: Path) -> Path:
    file = tmp_path / "load.json"
    task = {"loop": -1, "run": 1500, "timer": {"ref": "unique", "period": 10000}}
    file.write_text(json.dumps({"tasks": {"t": task}}))
    return file


def test_which_files_have_it() -> None:
    known, unknown = opplab.Machine.load("skylake-8x-uma").tree, opplab.Machine.load(UNKNOWN).tree
    assert has_idle_power(known)
    assert not has_idle_power(unknown)
    for cluster in known["cluster"]:
        for key in [key for key in cluster if key.startswith("cluster_idle")]:
            del cluster[key]
        for state in cluster["idle"]:
            state["uw"] = 0
    assert not has_idle_power(known)


@pytest.mark.parametrize("name", [UNKNOWN, "jasper-lake-4c"])
def test_forbidden_idle_states_save_nothing_by_an_unknown_power(name: str) -> None:
    """Without C-states deeper than C1 a CPU does its work in less time; their power counted as 0 recommended that.

    Both files have what an idle package draws, by clock and at any: that is the same in all states.
    """
    deepest = f"idle_disable={opplab.Machine.load(name).tree['cluster'][0]['idle'][-1]['name']}"
    choice = opplab.choose(
        name,
        WORK,
        governors=["performance", "powersave"],
        variants=["cpu_dma_latency_us=2", deepest],
        seconds=0.3,
        iterations=2,
        uncertainty=0,
        jobs=1,
    )
    assert {option.label for option in choice.options} == {"performance", "powersave"}
    words = " ".join(choice.missing)
    for label in ("cpu_dma_latency_us=2", deepest):
        assert f"{label} is left out: what it changes in idle states costs an unknown power" in words
    with pytest.raises(InputError, match=r"only one setting.*costs an unknown power"):
        opplab.choose(name, WORK, governors=["performance"], variants=[deepest], seconds=0.3, jobs=1)


def test_a_limit_of_latency_is_held_against_entry_and_exit_in_any_unit() -> None:
    """The kernel's exit latency holds the entry: 200 us forbid a state of 1 ms + 0.15 ms, and one of 100 + 150 us."""
    menu = {"idle_governor": "menu"}
    for entry, forbidden in (({"entry_latency_us": 100}, True), ({"entry_latency_ms": 1}, True), ({}, False)):
        machine = {"cluster": [{"idle": [{"name": "C6", "exit_latency_us": 150, "uw": 0, **entry}]}]}
        assert changes_unknown_idle(machine, menu, {**menu, "cpu_dma_latency_us": 200}) is forbidden


def test_another_goal_and_a_known_power_keep_them() -> None:
    options = {"seconds": 0.3, "iterations": 2, "uncertainty": 0, "jobs": 1}
    about = {"governors": ["performance"], "variants": ["cpu_dma_latency_us=2"]}
    waits = opplab.choose(UNKNOWN, WORK, **about, goals=["response_p99"], **options)
    assert len(waits.options) == 2
    (other,) = [option for option in waits.options if option.changes]
    assert other.changes["energy"].certainty.words == "idle power unknown"
    assert "do not show what cpu_dma_latency_us=2 changes in them" in " ".join(waits.missing)
    known = opplab.choose("skylake-8x-uma", WORK, **about, **options)
    assert len(known.options) == 2
    assert "idle" not in " ".join(known.missing)


@pytest.mark.parametrize("draws", [0, 40])
def test_runs_give_such_changes_no_star(load: Path, tmp_path: Path, draws: int) -> None:
    drawn = ["--uncertainty", str(draws)] if draws else []
    command = ["run", str(load), "-m", UNKNOWN, "--governor", "performance", "--vs", "idle_disable=C6"]
    command += ["--vs", "governor=powersave", "--seconds", "0.3", "--iterations", "2", "-j", "1", *drawn]
    found = answered(*command, "-o", tmp_path / "out", "--format", "json")
    answer = json.loads(found.stdout)
    words = {
        (row["variant"], row["metric"]): row["certainty"] for row in answer["rows"] if row["change_percent"] is not None
    }
    assert words["idle_disable=C6", "energy"] == "idle power unknown"
    assert words["idle_disable=C6", "response_p99"] != "idle power unknown"
    assert words["powersave", "energy"] != "idle power unknown"
    assert f"{UNKNOWN} has no power of idle states" in answer["missing"]


def test_a_comparison_of_the_same_results_gives_them_none_either(load: Path, tmp_path: Path) -> None:
    """`run` had no star on what `compare` called clear; with the other baseline as well, and beside the work."""
    command = ["run", str(load), "-m", UNKNOWN, "--governor", "performance", "--vs", "idle_disable=C6"]
    command += ["--vs", "governor=powersave", "--seconds", "0.3", "--iterations", "3", "-j", "1"]
    answered(*command, "-o", tmp_path / "out")
    for base, other in (("performance", "idle_disable=C6"), ("idle_disable=C6", "performance")):
        for table in ("detail", "ratio", "significance", "overview"):
            (found,) = opplab.compare(tmp_path / "out", runs=[base, other, "powersave"], table=table, metric="energy")
            open_, known = found.rows[0].cells[1:]
            assert open_ is not None
            assert known is not None
            assert (open_.certain, open_.ratio_low, open_.significant, open_.p) == (NO_IDLE_POWER, None, False, None)
            assert (known.certain == "clear") is (base == "performance")
            assert any(NO_IDLE_POWER in note for note in found.notes)
    (found,) = opplab.compare(tmp_path / "out", metric="response_p99")
    assert NO_IDLE_POWER not in str(found)
    assert "idle power unknown" in report(tmp_path / "out").to_html()


def test_performance_per_watt_without_idle_power_has_no_interval() -> None:
    common = {"machine": "m", "benchmark": "b", "param": "", "better": "lower"}
    rows = [
        {**common, "policy": policy, "metric": metric, "unit": unit, "iteration": at, "seed": at, "value": value + at}
        for policy in ("old", "new", "fast")
        for metric, unit, value in (("elapsed", "s", 10.0 if policy == "old" else 9.0), ("power", "W", 200.0))
        for at in range(4)
    ]
    source = Frame(results.frame(rows), "old", unmetered={("m", "new")})
    (table,) = opplab.compare(source, table="ppw", metric="elapsed")
    _, open_, known = table.rows[0].cells
    assert open_ is not None
    assert known is not None
    assert open_.ratio == pytest.approx(known.ratio)
    assert (open_.certain, open_.significant, known.certain, known.significant) == (NO_IDLE_POWER, False, "clear", True)
    (table,) = opplab.compare(source, metric="elapsed")
    assert [cell and cell.certain for cell in table.rows[0].cells[1:]] == ["clear", "clear"]


def test_a_change_that_is_0_in_all_draws_is_equal_and_not_open(load: Path, tmp_path: Path) -> None:
    """It was `runs and assumptions together leave its sign open`."""
    command = ["run", str(load), "-m", UNKNOWN, "--governor", "performance", "--vs", "proposal=pelt-multiplier"]
    command += ["--seconds", "0.2", "--iterations", "2", "--uncertainty", "40", "-j", "1", "-o", str(tmp_path / "out")]
    found = answered(*command)
    assert "sign open" not in found.stdout
    assert "energy +0.00 %: equal in all runs." in found.stdout


def test_a_fleet_leaves_such_settings_out_in_text_and_json(load: Path, tmp_path: Path) -> None:
    command = [
        "fleet",
        UNKNOWN,
        "skylake-8x-uma",
        "-w",
        str(load),
        "--governor",
        "performance",
        "--vs",
        "no_turbo=true",
    ]
    command += ["--vs", "idle_disable=C6", "--seconds", "0.2", "--iterations", "1", "--uncertainty", "0", "-j", "1"]
    shown = answered(*command, "-o", tmp_path / "out").stdout
    words = "idle_disable=C6 is left out: what it changes in idle states costs an unknown power"
    assert f"{UNKNOWN}, 64 CPUs: {words}" in " ".join(shown.split())
    assert " ".join(shown.split()).count(words) == 1
    again = [*command, "-o", str(tmp_path / "out"), "--format", "json"]
    answer = json.loads(answered(*again).stdout)
    told = {row["machine_type"]: " ".join(answer["missing"][row["digest"]]) for row in answer["rows"]}
    assert words in told[f"{UNKNOWN}, 64 CPUs"]
    assert words not in told["skylake-8x-uma, 8 CPUs"]


def test_tables_of_a_results_folder_name_what_their_energy_leaves_out(load: Path, tmp_path: Path) -> None:
    command = [
        "run",
        str(load),
        "-m",
        UNKNOWN,
        "--governor",
        "performance",
        "--vs",
        "idle_disable=C6",
        "--vs",
        "no_turbo=true",
    ]
    command += ["--seconds", "0.2", "--iterations", "2", "-j", "1", "-o", str(tmp_path / "out")]
    answered(*command)
    words = (
        f"{UNKNOWN} has no power of idle states (halted CPUs count as 0, polling ones as busy), so that energy and "
        "power do not show what idle_disable=C6 changes"
    )
    for metric, named in (("energy", True), ("response_p99", False)):
        found = answered("compare", tmp_path / "out", "--metric", metric)
        assert (words in found.stderr) == named
