"""`opplab.kernel`: the bindings say what the crate says, refuse what does not fit, and print their state."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.studies import approximation, pages
from opplab import kernel
from opplab.errors import InputError

STATES = [(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)]
steps = st.lists(st.tuples(st.integers(0, 40_000_000), st.integers(0, 2)), min_size=1, max_size=50)


def arrays(drawn: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give times, running, runnable."""
    times = np.cumsum([ns for ns, _ in drawn], dtype=np.int64)
    what = np.array([doing for _, doing in drawn])
    return times, what == 2, what >= 1


@given(steps, st.sampled_from([8, 16, 32]))
def test_arrays_step_and_batch_agree(drawn: list[tuple[int, int]], half_life: int) -> None:
    times, running, runnable = arrays(drawn)
    signals = kernel.pelt(times, running, runnable=runnable, half_life=half_life, start_ns=0)
    alone = kernel.SchedAvg(half_life=half_life)
    batch = kernel.PeltBatch(3, half_life=half_life)
    for row, time in enumerate(times):
        alone.update_load_avg_se(int(time), on_rq=bool(runnable[row]), running=bool(running[row]))
        activity = int(runnable[row]) * kernel.ON_RQ + int(running[row]) * kernel.RUNNING
        batch.update_load_avg_se(int(time), np.full(3, activity, dtype=np.uint8))
        averages = (alone.util_avg, alone.runnable_avg, alone.load_avg)
        assert (signals.util_avg[row], signals.runnable_avg[row], signals.load_avg[row]) == averages
        assert all((batch.util_avg[k], batch.runnable_avg[k], batch.load_avg[k]) == averages for k in range(3))


@given(steps, st.integers(1, 1024), st.integers(1, 1024))
def test_dilated_arrays_agree_with_the_clock(drawn: list[tuple[int, int]], capacity: int, freq_scale: int) -> None:
    times, running, runnable = arrays(drawn)
    signals = kernel.pelt(times, running, runnable=runnable, capacity=capacity, freq_scale=freq_scale, start_ns=0)
    clock, alone, was_idle = kernel.ClockPelt(capacity=capacity), kernel.SchedAvg(), True
    for row, time in enumerate(times):
        idle = not runnable[row]
        if idle and not was_idle:
            clock.update_idle_rq_clock_pelt(alone.util_sum)
        was_idle = idle
        now = clock.update_rq_clock(int(time), idle=idle, freq_scale=freq_scale)
        alone.update_load_avg_se(now, on_rq=not idle, running=bool(running[row]))
        assert signals.util_avg[row] == alone.util_avg


def test_half_speed_by_both_kinds_of_invariance() -> None:
    """A task that never sleeps on a CPU at half speed looks half busy to v5.0 and ever busier to v5.1."""
    times = np.arange(1, 400) << 20
    running = np.ones(399, dtype=bool)
    old = kernel.pelt(times, running, freq_scale=512, invariance="scaled-contribution").util_avg
    new = kernel.pelt(times, running, freq_scale=512).util_avg
    assert 505 <= old[-1] <= 512
    assert new[-1] > 1000
    assert new[64] < 520


def test_sixteen_slots_of_the_talk() -> None:
    """Text 002: four slots at half capacity count as two, and idling catches up."""
    slot, clock, seen = 1 << 20, kernel.ClockPelt(capacity=512), []
    busy = {3, 4, 5, 6, 10, 11, 12, 13}
    for number in range(1, 17):
        if number not in busy and number - 1 in busy:
            clock.update_idle_rq_clock_pelt()
        clock.update_rq_clock(number * slot, idle=number not in busy)
        seen.append(clock.now_ns / slot)
    assert seen == [1, 2, 2.5, 3, 3.5, 4, 7, 8, 9, 9.5, 10, 10.5, 11, 14, 15, 16]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: kernel.pelt([1, 2], [True]), "differ in length"),
        (lambda: kernel.pelt([[1]], [True]), "2 dimensions"),
        (lambda: kernel.pelt([-1], [True]), "negative"),
        (lambda: kernel.pelt([1.5], [True]), "not integers"),
        (lambda: kernel.pelt([1], [True], half_life=31), "no half-life of 31"),
        (lambda: kernel.pelt([1], [True], freq_scale=2000), "0..1024"),
        (lambda: kernel.pelt([1], [True], freq_scale=0.5), "float64, not integers of 0..1024"),
        (lambda: kernel.pelt([1], [True], capacity=0), "capacity of 0"),
        (lambda: kernel.pelt([1], [True], capacity=2048), "capacity of 2048"),
        (lambda: kernel.pelt([1, 2], [True], runnable=[True, True]), "differ in length: running"),
        (lambda: kernel.pelt([1, 2], [True, True], runnable=True), "differ in length: runnable"),
        (lambda: kernel.pelt([1, 2], [True, None]), "running holds object that is neither true nor false"),
        (lambda: kernel.pelt([1], [float("nan")]), "running holds float64 that is neither"),
        (lambda: kernel.pelt([1], [True], runnable=["no"]), "runnable holds <U2 that is neither"),
        (lambda: kernel.map_util_freq(640, 2_000_000, 0), "capacity of 0"),
        (lambda: kernel.pelt([1], [True], invariance="time-dilate", freq_scale=1), "did you mean `time-dilated`"),
        (lambda: kernel.PeltBatch(2).update_load_avg_se(0, np.zeros(3, dtype=np.uint8)), "one activity a task"),
        (lambda: kernel.FreqTable([]), "no valid entry"),
        (lambda: kernel.FreqTable([1000]).resolve(1, "X"), "unknown relation `X`"),
        (lambda: kernel.Schedutil([1000], kernel="7.9"), 'unknown kernel profile "7.9"; the nearest is "7.3"'),
        (lambda: kernel.Schedutil([1000], gates={"headrom": "x"}), "unknown gate"),
        (lambda: kernel.Schedutil([1000]).update(0, 0, cpu=1), "CPU 1 is not in the policy"),
        (lambda: kernel.Schedutil([1000]).update(0, 0, util_rd=1), "unknown fact `util_rd`"),
        (lambda: kernel.Schedutil([1000, 2000]).set_limits(2000, 1000), "2000 kHz is above the upper one, 1000 kHz"),
        (lambda: kernel.EnergyModel([], cpus=[0]), "no state"),
        (lambda: kernel.EnergyModel([(5, 1), (4, 1)], cpus=[0]), "does not increase"),
        (lambda: kernel.freq_max_ratio("middle", base_khz=1), "unknown f_max variant"),
        (lambda: kernel.IdleGovernor("tea", STATES), "did you mean `teo`"),
        (lambda: kernel.Menu([]), "empty"),
        (lambda: kernel.Menu(STATES).reflect(0, index=3, residency_ns=1), "no idle state 3"),
        (lambda: kernel.KernelProfile("6.12").set("feec_margin", "1-percent"), "6-percent-of-total"),
        (lambda: kernel.hwp_register(1, 256), "0..255"),
    ],
)
def test_what_does_not_fit_is_refused(call, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match=words):
        call()


def test_placement_refuses_and_explains() -> None:
    little = kernel.EnergyModel([(500_000, 30_000), (1_000_000, 150_000)], cpus=[0, 1], capacity=400)
    big = kernel.EnergyModel([(1_000_000, 300_000), (2_000_000, 1_200_000)], cpus=[2])
    refused = [
        ([little], [0, 0, 0], {}, "CPU 2 is in no domain"),
        ([little, big], [0, 0], {}, "CPU 2 is missing"),
        ([little, little], [0, 0], {}, "in two domains"),
        ([little, big], [0, 0, 0], {"allowed": [3]}, "no CPU 3"),
        ([little, big], [0, 0, 0], {"kernel": "4.17"}, "no energy-aware placement"),
    ]
    for domains, util, more, words in refused:
        with pytest.raises(InputError, match=words):
            kernel.find_energy_efficient_cpu(domains, util, task_util=50, prev_cpu=0, **more)
    placement = kernel.find_energy_efficient_cpu([big, little], [200, 10, 90], task_util=80, prev_cpu=2)
    assert (placement.cpu, placement.rule) == (1, "less-energy")
    assert [candidate.cpu for candidate in placement.candidates] == [2, 1]
    with_task = {energy.dst_cpu: energy.energy for energy in placement.energies if energy.dst_cpu is not None}
    without = {energy.domain: energy.energy for energy in placement.energies if energy.dst_cpu is None}
    assert with_task[1] - without[1] < with_task[2] - without[0]
    only_big = kernel.find_energy_efficient_cpu([big, little], [200, 10, 90], task_util=80, prev_cpu=2, allowed=[2])
    assert only_big.cpu == 2
    assert (
        kernel.find_energy_efficient_cpu([little, big], [0] * 3, task_util=9, prev_cpu=0, overutilized=True).cpu is None
    )


def test_a_negative_difference_that_wraps_is_the_reason() -> None:
    """With the task the dear point at 500 MHz is left, so that the domain needs less: unsigned, that is huge."""
    for prev_cpu, kept in ((0, 1), (1, 1)):
        for name, rule, chosen in (("5.10", "wrapped", kept), ("5.15", "changed", prev_cpu)):
            dear = kernel.EnergyModel([(500_000, 400_000), (1_000_000, 100_000)], cpus=[0], capacity=400, kernel=name)
            other = kernel.EnergyModel([(500_000, 50_000), (1_000_000, 200_000)], cpus=[1], kernel=name)
            util = [100 + 80 * (prev_cpu == 0), 80 * (prev_cpu == 1)]
            placement = kernel.find_energy_efficient_cpu(
                [dear, other], util, task_util=80, prev_cpu=prev_cpu, kernel=name
            )
            assert (placement.cpu, placement.rule) == (chosen, rule)
            if name == "5.10":
                # By hand, cost = f_max x mW / f: 100 of 400 at 800, 180 of 400 at 100; 80 of 1024 at 100.
                energies = [(one.dst_cpu, one.energy) for one in placement.energies]
                assert dict(energies[:2]) == {None: 800 * 100 // 400, 0: 100 * 180 // 400}
                assert dict(energies[2:]) == {None: 0, 1: 100 * 80 // 1024}
                assert {one.cpu for one in placement.candidates} == {0, 1}


def test_the_energy_model_adds_headroom_until_6_7() -> None:
    """480 of 1024 needs the middle point, and the highest one with 1.25."""
    points = [(500_000, 100_000), (1_000_000, 300_000), (2_000_000, 1_000_000)]
    chosen = {}
    for name in ("6.1", "6.6.88", "6.7", "6.6.89", "6.8", "6.9", "6.12"):
        model = kernel.EnergyModel(points, cpus=[0], kernel=name)
        energy = model.em_cpu_energy(480, 1024)
        chosen[name] = [state[1] for state in model.states if energy in (state[3], state[3] * 1024)]
    before = {name: [2_000_000] for name in ("6.1", "6.6.88", "6.7")}
    assert chosen == before | {name: [1_000_000] for name in ("6.6.89", "6.8", "6.9", "6.12")}


def test_six_percent_keep_a_task_in_place() -> None:
    """Two equal little CPUs but for 3 %: v5.18 stays, v6.12 moves."""
    here = kernel.EnergyModel([(1_000_000, 103_000)], cpus=[0], capacity=1024)
    there = kernel.EnergyModel([(1_000_000, 100_000)], cpus=[1], capacity=1024)
    cpus = {}
    for name in ("5.18", "6.12"):
        models = [
            kernel.EnergyModel([(state[1], state[2]) for state in model.states], cpus=model.cpus, kernel=name)
            for model in (here, there)
        ]
        cpus[name] = kernel.find_energy_efficient_cpu(models, [100, 0], task_util=100, prev_cpu=0, kernel=name).cpu
    assert cpus == {"5.18": 0, "6.12": 1}


@given(st.lists(st.integers(0, 1024), min_size=2, max_size=2), st.sampled_from(kernel.kernel_profiles()), st.booleans())
def test_more_utilisation_never_asks_for_less(utils: list[int], name: str, invariant: bool) -> None:
    table = range(400_000, 3_000_001, 100_000)
    answers = []
    for util in sorted(utils):
        governor = kernel.Schedutil(table, kernel=name, freq_invariant=invariant, cur_khz=1_000_000, rate_limit_us=0)
        answers.append(governor.update(10_000_000, util).next_khz)
    assert answers[0] <= answers[1]


def test_headroom_twice_without_invariance() -> None:
    """The tipping point of the approximation: 0.8 with headroom once, 0.64 with headroom twice (v6.8)."""
    table = range(400_000, 3_000_001, 1_000)

    def next_khz(name: str, util: int) -> int:
        governor = kernel.Schedutil(table, kernel=name, freq_invariant=False, cur_khz=1_000_000)
        return governor.update(10_000_000, util).raw_khz

    for name, tipping in (("5.0", 820), ("5.18", 820), ("6.6", 820), ("6.12", 656)):
        assert next_khz(name, tipping - 8) < 1_000_000 < next_khz(name, tipping + 8), name


def test_shared_policy_takes_the_busiest() -> None:
    governor = kernel.Schedutil([500_000, 1_000_000, 2_000_000], n_cpus=2, rate_limit_us=0, cur_khz=500_000)
    assert governor.path == "shared"
    assert governor.update(10_000_000, 700, cpu=0).next_khz == 2_000_000
    decision = governor.update(11_000_000, 10, cpu=1)
    assert (decision.deciding_cpu, decision.outcome) == (0, "unchanged")


def test_slow_switch_goes_through_work() -> None:
    governor = kernel.Schedutil([500_000, 1_000_000], fast_switch=False, cur_khz=1_000_000)
    assert governor.update(10_000_000, 100).request == ("queue-work", 0, 0)
    assert governor.cur_khz == 1_000_000
    assert governor.work() == 500_000
    assert governor.cur_khz == 500_000


@pytest.mark.parametrize(
    ("version", "estimates"),
    [
        # An activation of 300 after one of 600, on a CPU that has 250: learnt from up to v5.0 and since v6.16.
        ("4.14", [0, 0]),
        ("4.17", [601, 301]),
        ("5.0", [601, 301]),
        ("5.1", [1, 1]),
        ("5.10", [601, 601]),
        ("6.6", [600, 600]),
        ("6.12", [600, 600]),
        ("6.15", [600, 600]),
        ("6.16", [600, 525]),
        ("6.18", [600, 525]),
    ],
)
def test_activations_beyond_the_cpu_are_estimated_as_the_kernel_does(version: str, estimates: list[int]) -> None:
    estimate = kernel.UtilEst(kernel=version)
    found = []
    for util_avg in (600, 300):
        estimate.util_change()
        found.append(estimate.util_est_update(util_avg, capacity=250))
    assert found == estimates


def test_teo_is_the_kernels() -> None:
    """Goal: the named class is the governor of its kernel, which three forms decide differently."""
    states = [(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)]

    def chosen(governor: kernel.IdleGovernor) -> list[int]:
        found, draws = [], random.Random(1)
        for turn in range(400):
            at_ns, slept_ns, timer_ns = turn * 9_000_000, draws.randrange(800_000), draws.randrange(1, 8_000_000)
            index, _ = governor.select(at_ns, sleep_length_ns=timer_ns)
            governor.reflect(at_ns + slept_ns, index=index, residency_ns=slept_ns, got_tick=draws.random() < 0.3)
            found.append(index)
        return found

    of = {version: chosen(kernel.Teo(states, kernel=version)) for version in ("6.1", "6.12", "6.15")}
    assert of == {version: chosen(kernel.IdleGovernor("teo", states, kernel=version)) for version in of}
    assert len({tuple(one) for one in of.values()}) == 3


@pytest.mark.parametrize("name", ["menu", "teo"])
def test_every_decision_of_the_vectors_is_made_from_python(name: str) -> None:
    """States that the driver refused could not be reported: menu went by a sleep that was none."""
    refused = 0
    vectors = Path(__file__).parents[2] / "crates" / "verify" / "vectors"
    with gzip.open(vectors / f"cpuidle_{name}.jsonl.gz", "rt") as file:
        for whole in map(json.loads, file):
            init = whole["init"]
            states = [(state[0], state[1], bool(state[2])) for state in init["states"]]
            governor = kernel.IdleGovernor(name, states, tick_ns=init["tick_ns"])
            for step in whole["steps"]:
                facts, end = step["in"], step["reflect"]
                chosen = governor.select(
                    facts["clock"],
                    sleep_length_ns=facts["sleep_length"],
                    delta_tick_ns=facts["delta_tick"],
                    latency_req_ns=facts["latency_req"],
                    disabled=facts["disabled"],
                    tick_stopped=bool(facts["tick_stopped"]),
                )
                assert chosen == (step["out"]["idx"], bool(step["out"]["stop_tick"]))
                if end is None:
                    refused += 1
                    governor.reject()
                    continue
                how = {key: bool(end[key]) for key in ("got_tick", "poll_time_limit")}
                governor.reflect(end["clock"], index=end["idx"], residency_ns=end["residency_ns"], **how)
    assert refused or name == "teo"


def test_points_of_an_energy_model_may_be_an_array() -> None:
    points = [(500_000, 50_000), (1_000_000, 200_000)]
    ours, plain = (kernel.EnergyModel(one, cpus=[0, 1], capacity=400) for one in (np.array(points), points))
    assert ours.states == plain.states


@pytest.mark.parametrize(
    ("version", "chosen"),
    [("6.2", (2, True)), ("6.3", (1, True)), ("6.5.3", (1, False)), ("6.10", (1, True)), ("6.11", (2, True))],
)
def test_teo_goes_by_the_use_of_the_cpu_from_v6_3_to_v6_10(version: str, chosen: tuple[int, bool]) -> None:
    states = [(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)]
    for utilized, expected in ((False, (2, True)), (True, chosen)):
        assert kernel.Teo(states, kernel=version).select(0, sleep_length_ns=50_000_000, utilized=utilized) == expected


def test_states_can_be_printed() -> None:
    printed = {
        "PeltBatch(n=2, half_life=16)": kernel.PeltBatch(2, half_life=16),
        "UtilEst(util_est=0, changed)": kernel.UtilEst(),
        "UtilEst(form=V5_5, enqueued=0, ewma=0)": kernel.UtilEst(kernel="5.9"),
        "IowaitBoost(iowait_boost=0, iowait_boost_pending=False, last_update=0)": kernel.IowaitBoost(),
    }
    for expected, value in printed.items():
        assert repr(value) == expected
    for value, start in (
        (kernel.ClockPelt(5), "ClockPelt(clock=5, "),
        (kernel.Schedutil([1000]), 'Schedutil(kernel="6.12.117", path="single-freq", cur_khz=1000'),
        (kernel.Menu(STATES), "Menu("),
        (kernel.Teo(STATES), "Teo("),
        (kernel.HwpBoost(), "HwpBoost(hwp_boost_min=0"),
        (kernel.KernelProfile("v5.0"), 'KernelProfile("5.0", invariance="scaled-contribution"'),
    ):
        assert repr(value).startswith(start)


def test_profiles_show_every_gate_with_a_source() -> None:
    gates = kernel.kernel_gates()
    assert all(row.source and row.meaning for row in gates)
    names = {row.gate for row in gates}
    for name in kernel.kernel_profiles():
        profile = kernel.KernelProfile(name)
        shown = dict(profile.gates())
        assert set(shown) == names
        assert all(profile.show(gate) == value for gate, value in shown.items())
    profile.set("invariance", "none")
    assert profile.show("invariance") == "none"


def test_hwp_boost_falls_back_after_three_quiet_ms() -> None:
    registers = {"request": kernel.hwp_register(8, 42), "capabilities": kernel.hwp_register(42, 24, 12, 8)}
    boost = kernel.HwpBoost()
    assert boost.update_util(1_000_000, iowait=True, **registers) == kernel.hwp_register(16, 42)
    assert boost.update_util(2_000_000, iowait=True, **registers) == kernel.hwp_register(24, 42)
    assert boost.update_util(4_000_000, **registers) is None
    assert boost.update_util(8_000_000, **registers) == registers["request"]
    assert boost.hwp_boost_min == 0


def test_page_of_the_approximation_is_what_its_command_writes() -> None:
    docs = Path(__file__).parents[2] / "docs"
    assert pages.main("approximation", "", approximation.texts, ["--docs", str(docs), "--check"]) == 0


def test_stale_page_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    marks = "".join(f"<!-- table: {name} -->\nold\n<!-- end -->\n" for name in approximation.TABLES)
    (tmp_path / "approximation.md").write_text(marks)
    assert pages.main("approximation", "", approximation.texts, ["--docs", str(tmp_path), "--check"]) == 1
    assert "stale" in capsys.readouterr().out
    assert (tmp_path / "approximation.md").read_text() == marks


def test_findings_of_the_approximation() -> None:
    """What the page says in words, as inequalities."""
    invariant, once, twice = approximation.FORMULAS
    assert approximation.tipping_point(once) == 820
    assert approximation.tipping_point(twice) == 656
    for demand in (0.3, 0.5, 0.7):
        means = [approximation.steady_row(formula, demand, 16)["mean"] for formula in (invariant, once, twice)]
        assert abs(means[1] - means[0]) < 0.1
        assert means[2] > means[0] + 0.3

    def swing(formula: approximation.Formula, period_ms: int, **more: bool) -> float:
        row = approximation.steady_row(formula, 0.3, period_ms, **more)
        return row["high"] - row["low"]

    assert swing(once, 2) < swing(once, 16) < swing(once, 64) < swing(once, 128)
    assert swing(once, 64) > 1.5 * swing(invariant, 64)
    assert swing(once, 16, util_est=True) > 2
    assert swing(invariant, 16, util_est=True) < 0.1
    # A task that never sleeps: the approximation is faster, unless the half-life is short.
    assert approximation.ramp_up_ms(once, 32) < approximation.ramp_up_ms(invariant, 32)
    assert approximation.ramp_up_ms(once, 8) > approximation.ramp_up_ms(invariant, 8)


def test_a_capped_task_fits_an_idle_little_cpu() -> None:
    """An idle queue has no clamps (fair.c:find_energy_efficient_cpu(), v6.6): only a busy one lifts a cap."""
    little = kernel.EnergyModel([(500_000, 5_000), (1_000_000, 20_000)], cpus=[0], capacity=124)
    big = kernel.EnergyModel([(1_000_000, 300_000), (2_000_000, 1_200_000)], cpus=[1])

    def chosen(**more: Any) -> tuple[int | None, list[int]]:
        found = kernel.find_energy_efficient_cpu(
            [big, little], [105, 0], task_util=105, prev_cpu=0, kernel="6.6", **more
        )
        return found.cpu, [one.cpu for one in found.candidates]

    assert chosen() == (1, [1])
    assert chosen(uclamp_max=115) == (0, [1, 0])
    assert chosen(uclamp_max=115, busy=[0]) == (1, [1])
    with pytest.raises(InputError, match="there is no CPU 7"):
        chosen(busy=[7])
