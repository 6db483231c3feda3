"""Meters on simulated runs: the identities that real turbostat output has, energy that adds up, clear refusals."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import opplab
from opplab import catalog

from calls import answered, called


@pytest.fixture(scope="module")
def run() -> opplab.Run:
    """Eight tasks on a four-core processor with SMT."""
    load = opplab.Workload.periodic(8, run_us=3000, period_us=10000)
    return opplab.simulate("skylake-8x-uma", load, opplab.Policy(kernel="6.12"), seconds=2)


def blocks(text: str) -> list[list[dict[str, str]]]:
    """Give turbostat's intervals: rows by column; what a row leaves out at its end is absent."""
    found: list[list[dict[str, str]]] = []
    head: list[str] = []
    for line in text.splitlines():
        if line.startswith("Time_Of_Day"):
            head = line.split("\t")
            found.append([])
        else:
            found[-1].append(dict(zip(head, line.split("\t"), strict=False)))
    return found


def test_turbostat_has_the_identities_of_real_output(run: opplab.Run) -> None:
    intervals = blocks(run.turbostat(0.5))
    assert len(intervals) == 4
    for summary, *cpus in intervals:
        assert len(cpus) == 8
        for row in (summary, *cpus):
            average = float(row["Busy%"]) / 100 * float(row["Bzy_MHz"])
            assert float(row["Avg_MHz"]) == pytest.approx(average, abs=1.1)
        busy = [float(row["Busy%"]) for row in cpus]
        assert float(summary["Busy%"]) == pytest.approx(sum(busy) / 8, abs=0.01)
        assert float(summary["Avg_MHz"]) == pytest.approx(sum(float(row["Avg_MHz"]) for row in cpus) / 8, abs=1)
        assert float(summary["PkgWatt"]) == pytest.approx(float(cpus[0]["PkgWatt"]), abs=0.01)
        cores = [float(row["CorWatt"]) for row in cpus if "CorWatt" in row]
        assert len(cores) == 4
        assert float(summary["CorWatt"]) == pytest.approx(sum(cores), abs=0.03)
        for row in cpus:
            idle = sum(float(value) for name, value in row.items() if name.endswith("%") and name != "Busy%")
            assert idle + float(row["Busy%"]) == pytest.approx(100, abs=0.1)
            assert float(row["TSC_MHz"]) == 3500


def test_meters_agree_on_the_energy(run: opplab.Run) -> None:
    joules = run.metrics.filter(metric="energy")["value"][0]
    rails = run.meter("rails", 0.25)
    assert sum(rails.select(c for c in rails.columns if c.endswith("_w")).sum().row(0)) * 0.25 == pytest.approx(joules)
    rapl = run.meter("rapl", 0.25)
    # A counter is up to one update period late.
    assert rapl["package0_w"].sum() * 0.25 == pytest.approx(joules, rel=2e-3)


def test_meter_command_refuses_what_it_cannot_show() -> None:
    short = called("meter", "battery", "juno-eas", "--seconds", "1")
    assert "run longer than 60 s" in str(short.exception)
    for meter in ("turbostat", "rapl", "rails"):
        below = called("meter", meter, "juno-eas", "--seconds", "0.3")
        assert "readings are 1 s apart, and the run has no two: make it longer" in str(below.exception), meter
        assert not below.stdout
    unknown = called("meter", "rails", "juno-eas", "--seconds", "1", "--param", "tasks=11")
    assert "it has tasks=10, tasks=20" in str(unknown.exception)
    assert called("meter", "turbostate", "juno-eas").exit_code == 2


def test_meter_command_shows_rails() -> None:
    done = answered("meter", "rails", "juno-eas", "--seconds", "1", "--every", "0.5", "--format", "csv")
    assert done.output.splitlines()[0] == "time_s,A53_w,A72_w,rest_w"
    assert len(done.output.splitlines()) == 3


def test_power_that_is_not_known_is_not_0_w(tmp_path: Path) -> None:
    """turbostat leaves the columns out, as where there is no counter; meters of power refuse."""
    machine = tmp_path / "m.toml"
    text = catalog.find("machine", "juno-r2").read_text()
    text = re.sub(r"(mv = \d+)(, uw = \d+)?(, busy_uw = \d+)?(, cluster_uw = \d+)?", r"\1", text)
    machine.write_text(text[: text.index("[range]")])
    work = opplab.Workload.periodic(2, run_us=800, period_us=16000)
    run = opplab.simulate(opplab.Machine.load(machine), work, opplab.Policy(), seconds=0.2)
    head, row, *_ = run.turbostat(0.1).splitlines()
    assert "Bzy_MHz" in head
    assert "Watt" not in head
    assert len(row.split("\t")) == len(head.split("\t"))
    for meter in ("rails", "rapl", "battery", "tasks"):
        with pytest.raises(opplab.InputError, match="does not have the power of its clusters"):
            run.meter(meter)


def test_a_gpu_of_the_package_is_in_what_meters_read() -> None:
    load = opplab.Workload.periodic(1, run_us=100, period_us=10000)
    policy = opplab.Policy(driver="intel_pstate", governor="powersave")
    run = opplab.simulate("kaby-lake-i7-7500u-gpu", load, policy, seconds=2)
    rails = run.meter("rails", 1.0).to_dicts()[-1]
    assert rails["gpu_w"] > 10
    # PL1 holds for all of it.
    assert rails["pkg0_w"] + rails["gpu_w"] == pytest.approx(15, rel=0.01)
    assert run.meter("rapl", 1.0).to_dicts()[-1]["package0_w"] == pytest.approx(15, rel=0.01)
    summary = blocks(run.turbostat(1.0))[-1][0]
    assert float(summary["PkgWatt"]) == pytest.approx(15, rel=0.01)
    assert float(summary["GFXWatt"]) == pytest.approx(rails["gpu_w"], abs=0.01)
    # Rows by task sum to the same: the GPU's is one of them.
    tasks = run.meter("tasks")
    by_name = dict(tasks.select("name", "energy_j").iter_rows())
    readings = run.meter("rails", 1.0).to_dicts()
    assert by_name["(gpu)"] == pytest.approx(sum(one["gpu_w"] for one in readings), rel=1e-6)
    watts = sum(value for one in readings for name, value in one.items() if name.endswith("_w"))
    assert tasks["energy_j"].sum() == pytest.approx(watts, rel=1e-6)
    # What MPERF counts at is not the lower base clock that the firmware guarantees.
    assert summary["TSC_MHz"] == "2900"
    seconds = run.metrics.filter(run.metrics["metric"] == "frames:gpu")["value"].item()
    energy = run.metrics.filter(run.metrics["metric"] == "energy:gpu")["value"].item()
    assert seconds == pytest.approx(energy / 2 * 5)


def test_variants_read_as_each_policy_alone(tmp_path: Path) -> None:
    load = tmp_path / "load.json"
    task = {"loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 10000}}
    load.write_text(json.dumps({"tasks": {"t": task}}))
    command = ["meter", "rails", "-m", "juno-r2", "-w", str(load), "--seconds", "0.2", "--every", "0.1"]

    def shown(*words: str) -> str:
        done = answered(*command, *words)
        return done.stdout

    both = json.loads(shown("--vs", "governor=performance", "--format", "json"))
    for governor in ("schedutil", "performance"):
        own = [{key: value for key, value in row.items() if key != "variant"} for row in both
               if row["variant"] == governor]  # fmt: skip
        assert own == json.loads(shown("--governor", governor, "--format", "json"))
        assert f"{governor}:\n{shown('--governor', governor)}" in shown("--vs", "governor=performance")
    refused = called("meter", "rails", "juno-eas", "--vs", "governor=performance")
    assert "an EXPERIMENT has its own machine, workload and policies: give it alone" in refused.output
