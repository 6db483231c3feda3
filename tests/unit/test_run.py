"""Runs through the extension: counters, columns, Perfetto."""

import pickle
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import opplab
from opplab import _opplab
from opplab.errors import InputError
from opplab.policies import GovernorFacts

from wire import fields, many, one


def test_counters_add_up(small_case: _opplab.Case) -> None:
    outcome = small_case.run(check=True)
    assert outcome["wall_ns"] == 200_000_000
    for cpu in range(6):
        assert sum(outcome["time_ns_by_opp"][cpu]) == outcome["wall_ns"]
        idle = sum(outcome["idle_ns_by_state"][cpu])
        assert sum(outcome["busy_ns_by_opp"][cpu]) + idle == outcome["wall_ns"]
    assert outcome["activations"] > 4 * 10
    assert [cluster["name"] for cluster in outcome["clusters"]] == ["A53", "A72"]
    assert {"task0-0", "task3-3"} <= set(outcome["task_names"])
    assert small_case.run(check=False) == outcome


def test_columns(small_case: _opplab.Case) -> None:
    outcome = small_case.run(check=False)
    tables = small_case.events([])
    assert set(tables) == {name for name, _ in _opplab.names("events")}
    for columns in tables.values():
        times = columns["time_ns"]
        assert times.dtype == np.uint64
        assert all(len(column) == len(times) for column in columns.values())
        assert (np.diff(times.astype(np.int64)) >= 0).all()
    assert len(tables["sched_switch"]["cpu"]) == outcome["switches"]
    assert len(tables["activation"]["slack_ns"]) >= outcome["activations"]
    assert list(small_case.events(["cpu_idle"])) == ["cpu_idle"]
    with pytest.raises(InputError, match="unknown event `cpu_idel`; did you mean `cpu_idle`"):
        small_case.events(["cpu_idel"])


def test_perfetto(small_case: _opplab.Case) -> None:
    """Every event that Perfetto draws is in the file, on its CPU, under the numbers of Perfetto's protos."""
    tables = small_case.events([])
    kinds: Counter[int] = Counter()
    counters: Counter[str] = Counter()
    decided: Counter[str] = Counter()
    flows: Counter[int] = Counter()
    power: list[tuple[int, int]] = []
    names: dict[int, str] = {}
    threads: dict[int, str] = {}
    switches: list[tuple[int, int, int]] = []
    for packet in many(small_case.trace("perfetto"), 1):
        if (tree := one(packet, 2)) is not None:
            threads = {one(thread, 1): one(thread, 2).decode() for thread in many(tree, 2)}
        if (bundle := one(packet, 1)) is not None:
            cpu = one(bundle, 1)
            for event in many(bundle, 2):
                (kind,) = [number for number, _ in fields(event) if number > 2]
                kinds[kind] += 1
                if kind == 4:
                    switches.append((one(event, 1), cpu, one(one(event, 4), 6)))
        if (descriptor := one(packet, 60)) is not None:
            names[one(descriptor, 1)] = one(descriptor, 2).decode()
            assert (one(descriptor, 8) is None) == names[one(descriptor, 1)].startswith("decisions")
        if (event := one(packet, 11)) is not None:
            assert one(packet, 10) == 1
            name = names[one(event, 11)]
            if one(event, 9) == 4:
                counters[name.split()[0]] += 1
                if name.startswith("power A53"):
                    power.append((one(packet, 8), one(event, 30)))
            else:
                assert one(event, 9) == 3
                what = one(event, 23).decode()
                flows.update({one(event, 47): 1} if " runs" in what or "wakes " in what else {})
                decided["asks" if what.startswith("asks") else "other"] += 1
    sizes = {name: len(columns["time_ns"]) for name, columns in tables.items()}
    expected = {
        4: sizes["sched_switch"],
        11: sizes["cpu_frequency"],
        13: sizes["cpu_idle"],
        20: sizes["sched_waking"],
        114: sizes["sched_wakeup_new"],
    }
    assert {number: kinds[number] for number in expected} == expected
    assert counters["util_avg"] == sizes["pelt_se_tp"] + sizes["pelt_cfs_tp"]
    assert counters["requested"] == decided["asks"] == sizes["freq_request"]
    assert counters["idle"] == sizes["cpu_idle"]
    # Each flow begins at a wake-up and ends at a switch, but for wake-ups just before the end.
    assert len(flows) == sizes["sched_waking"] + sizes["sched_wakeup_new"]
    assert set(flows.values()) <= {1, 2}
    assert sum(count == 2 for count in flows.values()) > 0.9 * len(flows)
    # Power by rail adds up to the engine's energy, but for the exits from idle states: no event tells when they begin.
    outcome = small_case.run(False)
    ends = [time for time, _ in power[1:]] + [outcome["wall_ns"]]
    energy = sum((end - time) * uw for (time, uw), end in zip(power, ends, strict=True))
    number = [cluster["name"] for cluster in outcome["clusters"]].index("A53")
    assert 0.95 < energy / outcome["cluster_energy_fj"][number] <= 1
    assert {"task0-0", "sugov:0"} <= set(threads.values())
    table = tables["sched_switch"]
    tids = {2**32 - 1: 0, **{number: number + 1001 for number in range(64)}}
    rows = zip(table["time_ns"].tolist(), table["cpu"].tolist(), table["next"].tolist(), strict=True)
    # Events of one moment that readers would turn around are written some ns apart.
    switched = sorted(((cpu, time, tids[task]) for time, cpu, task in rows), key=lambda one: one[:2])
    for (time, cpu, tid), expected_switch in zip(sorted(switches, key=lambda one: one[1::-1]), switched, strict=True):
        assert (cpu, tid) == expected_switch[::2]
        assert 0 <= time - expected_switch[1] < 1000


def test_perfetto_tells_why(small_case: _opplab.Case) -> None:
    """Requests and placements carry the inputs of the decision records as annotations."""
    records = small_case.events(["sugov_decision", "placement_decision", "eas_candidate", "eas_energy"])
    asked: list[dict[str, object]] = []
    placed: list[dict[str, object]] = []
    for packet in many(small_case.trace("perfetto"), 1):
        if (event := one(packet, 11)) is None or one(event, 9) != 3:
            continue
        notes: dict[str, object] = {"time_ns": one(packet, 8)}
        for note in many(event, 4):
            key, text = one(note, 10).decode(), one(note, 6)
            value = text.decode() if text is not None else one(note, 4) if one(note, 3) is None else one(note, 3)
            notes[key] = value
        what = one(event, 23).decode()
        (asked if what.startswith("asks for") else placed if "is placed here" in what else []).append(notes)
    explained = [notes for notes in asked if "why" in notes]
    assert len(explained) > 0.9 * len(asked) > 0
    for notes in explained:
        assert notes["khz"] == notes["next_khz"]
        assert f" -> {notes['util_decided']}" in str(notes["why"])
        assert f"; f_ref {int(str(notes['ref_khz'])) / 1000:g} MHz -> " in str(notes["why"])
        raw = int(str(notes["ref_khz"])) * int(str(notes["util_decided"])) // int(str(notes["max"]))
        assert notes["raw_khz"] == raw
    # A task that is placed where its parent runs makes a record, but no event.
    told = [notes for notes in placed if "util_avg" in notes]
    assert (
        0.9 * len(records["placement_decision"]["time_ns"]) < len(told) <= len(records["placement_decision"]["time_ns"])
    )
    weighed = [key for notes in placed for key in notes if key.startswith("candidate CPU ")]
    assert len(weighed) == len(records["eas_candidate"]["time_ns"]) > 0
    energies = [key for notes in placed for key in notes if key.startswith("energy of domain ")]
    assert len(energies) == len(records["eas_energy"]["time_ns"]) > 0


def test_traces_for_other_tools(small_case: _opplab.Case) -> None:
    switches = len(small_case.events(["sched_switch"])["sched_switch"]["cpu"])
    text = small_case.trace("text").decode()
    assert text.startswith("# tracer: nop")
    assert text.count(": sched_switch: prev_comm=") == switches
    assert "next_comm=task0-0 next_pid=" in text
    assert small_case.trace("trace.dat").startswith(b"\x17\x08Dtracing")
    with pytest.raises(InputError, match="unknown form of trace `perfeto`"):
        small_case.trace("perfeto")


def test_latency_is_of_the_workload_s_tasks() -> None:
    """Goal: threads of governors are in no latency. Method: waits of the tasks by events of a run under ondemand."""
    machine, workload = opplab.Machine.load("skylake-sp-2s"), opplab.Workload.periodic(4, run_us=900, period_us=10_000)
    run = opplab.simulate(machine, workload, opplab.Policy(governor="ondemand"), seconds=1)
    threads = {at for at, name in enumerate(run.outcome["task_names"]) if name.endswith(":dbs")}
    assert threads
    waits = [
        wait
        for task, wait in zip(*(run.events("activation")[name] for name in ("task", "wu_lat_ns")), strict=True)
        if task not in threads
    ]
    (longest,) = run.metrics.filter(metric="latency_max")["value"].to_list()
    assert longest == pytest.approx(max(waits) / 1e6, rel=0.2)


class Half(opplab.Governor):
    """Half of the highest frequency."""

    def update(self, facts: GovernorFacts) -> int:
        return facts.max_khz // 2


def in_another(machine: opplab.Machine, load: opplab.Workload, governor: opplab.Governor | None) -> opplab.Run:
    return opplab.simulate(machine, load, seconds=0.1, governor=governor)


def test_a_pool_of_processes_runs_what_it_is_given() -> None:
    """Machines, workloads and runs could not be sent; a run of a governor in Python has its events there as here."""
    machine = opplab.Machine.load("epyc-7502-2s")
    load = opplab.Workload.parse('{"tasks": {"t": {"instance": 3, "run": 900, "sleep": 2000}}}', name="load")
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        for governor in (None, Half()):
            here, there = in_another(machine, load, governor), pool.submit(in_another, machine, load, governor).result()
            assert there.metrics.equals(here.metrics)
            assert there.events("cpu_frequency").equals(here.events("cpu_frequency"))
            assert repr(there) == repr(here)
    again = pickle.loads(pickle.dumps((machine, load)))
    assert again[0].to_toml() == machine.to_toml()
    assert again[1].events().equals(load.events())
    assert again[1].notes == load.notes
