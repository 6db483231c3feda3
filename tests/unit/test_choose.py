"""`opplab choose`: the ranking, its probabilities, constraints, commands, and where the workload may come from."""

import importlib
import json
import random
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import opplab
from opplab import _opplab
from opplab.choice.answer import LATER, Choice, Option, value_words
from opplab.choice.cases import NOT_NEAR, program_of
from opplab.choice.choose import _check_measured
from opplab.choice.criteria import Constraint
from opplab.choice.fleet import sources_of
from opplab.choice.page import LABEL_HEIGHT, page, placed
from opplab.choice.ranking import _at_most, _judged, _samples, _singles
from opplab.choice.settings import Setting, commands_of, grid, labels_of, with_drivers
from opplab.report.numbers import quantity
from opplab.summary.answer import title_of
from opplab.trace.replayed import self_check
from opplab.uncertainty.causes import Causes
from opplab.uncertainty.draws import Draws, Values
from opplab.uncertainty.parts import Parts, parts_of

import forked
from calls import answered, called
from testdata import shared

LOAD = {
    "global": {"duration": 1, "calibration": "CPU0"},
    "tasks": {"t": {"instance": 3, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}},
}


def workload() -> opplab.Workload:
    return opplab.Workload.parse(json.dumps(LOAD), name="load")


def quick(*args: Any, iterations: int = 2, **keys: Any) -> opplab.Choice:
    """Choose by few runs, without draws."""
    return opplab.choose(*args, iterations=iterations, uncertainty=0, jobs=1, **keys)


@pytest.fixture(scope="module")
def choice() -> opplab.Choice:
    return opplab.choose(
        "juno-r2",
        workload(),
        governors=["schedutil", "performance", "powersave"],
        tunables={"rate_limit_us": [500, 5000]},
        goals=["energy", "response_p95"],
        constraints=["response_p95 <= 5ms"],
        seconds=0.4,
        iterations=3,
        uncertainty=8,
        jobs=2,
    )


def test_the_answer_ranks_settings_that_keep_the_constraints_first(choice: opplab.Choice) -> None:
    assert len(choice.options) == 4
    assert sum(option.best for option in choice.options) == pytest.approx(1.0, abs=1e-6)
    keeps = [option.meets >= 0.5 for option in choice.options]
    assert keeps == sorted(keeps, reverse=True)
    powersave = next(option for option in choice.options if option.label == "powersave")
    assert powersave.meets == 0.0, "3 ms of work of the biggest CPU take longer than 5 ms at half its clock"
    assert choice.recommended is choice.options[0]
    assert any(re.match("Recommended(, not clear)?: ", line) for line in choice.findings())


def test_the_best_setting_of_a_goal_that_does_not_decide_is_named(choice: opplab.Choice) -> None:
    first, *others = choice.options
    parts = {**others[0].parts, "response_p95": replace(first.parts["response_p95"], value=1.25)}
    quick = replace(others[0], parts=parts, meets=1.0)
    # One that breaks the constraints is no better.
    broken = replace(others[1], parts={**parts, "response_p95": replace(parts["response_p95"], value=0.5)}, meets=0.0)
    found = replace(choice, options=[first, quick, broken]).findings()
    ours = f"Its response_p95 is {first.parts['response_p95'].value:.4g} ms"
    assert f"{ours}; by the means {quick.label} has the best, 1.250." in found
    assert "has the best" not in " ".join(replace(choice, options=[first, broken]).findings())


def test_misses_that_are_a_goal_are_stated_once(choice: opplab.Choice) -> None:
    """Goal: `--goal energy,missed` had two sentences of the same misses. Those after the start are other ones."""

    def late(option: Option, percent: float, later: float) -> Option:
        missed = option.parts["missed_activations"]
        parts = {"missed_activations": replace(missed, value=percent), LATER: replace(missed, value=later)}
        return replace(option, parts={**option.parts, **parts}, meets=1.0)

    def lines(goals: list[str], first: Option) -> list[str]:
        options = [first, late(choice.options[1], 1.6, 1.6)]
        found = replace(choice, options=options, goals=goals).findings()
        return [line for line in found if line.startswith(("Its missed is", "It misses"))]

    def told(goals: list[str], later: float) -> list[str]:
        return [line[:10] for line in lines(goals, late(choice.options[0], 4.7, later))]

    energy = choice.goals[0]
    assert told([energy], 4.7) == ["It misses "]
    assert told([energy, "missed_activations"], 4.7) == ["Its missed"]
    assert told([energy, "missed_activations"], 3.0) == ["Its missed", "It misses "]
    # All of them are late, those of the first 0.2 s of 2 s, too: no 90 % of those after the start.
    (every,) = lines([energy], late(choice.options[0], 100.0, 90.0))
    second = choice.options[1].label
    assert every == f"It misses 90 % of its activations, {second} 1.6 % (misses of the first 0.2 s not counted)."


def test_a_later_goal_leaves_the_baselines_work_a_condition() -> None:
    """A miss of each fifth activation under schedutil was recommended with `missed` beside energy as a goal."""
    timer = {"ref": "t", "period": 16000, "mode": "absolute"}
    short, long = ({"loop": loop, "run": run, "timer": timer} for loop, run in ((4, 1000), (1, 12000)))
    spike = {**LOAD, "tasks": {"t": {"instance": 1, "loop": -1, "phases": {"short": short, "long": long}}}}
    load = opplab.Workload.parse(json.dumps(spike), name="spike")

    def first(*goals: str, **keys: Any) -> Option:
        found = quick("sdm845", load, governors=["performance", "schedutil"], goals=goals, seconds=1, **keys)
        assert found.recommended is not None
        return found.recommended

    assert first("energy", "missed", constraints=["none"]).parts["missed_activations"].value > 10
    for goals in (("energy",), ("energy", "missed"), ("missed",), ("missed", "energy")):
        assert first(*goals).parts["missed_activations"].value == 0, goals


def test_the_next_setting_of_a_share_is_off_by_points(choice: opplab.Choice) -> None:
    """Goal: behind 0.02 % of misses came "Next is schedutil, missed +500.0 %"."""
    gap = Parts(0.14, 0.22, None, -0.08, 0.36, unit="points")
    two = [replace(option, meets=1.0) for option in choice.options[:2]]
    found = replace(choice, options=two, goals=["missed_activations"], gap=gap)
    (words,) = [line for line in found.findings() if line.startswith("Next is")]
    assert words == f"Next is {two[1].label}, missed +0.14 points [-0.08, +0.36]: not clear."
    assert found.measures()[-1] == "more or longer runs: they leave \u00b1 0.22 points open"
    near = replace(found, gap=replace(gap, low=-0.08, high=0.09))
    assert "they differ by less than 0.1 points" in " ".join(near.findings())


def test_a_median_has_no_interval_beyond_its_p99() -> None:
    """Two runs of 4 and 8 ms leave 6 +- 25 ms by Student's t, beside a p99 of 16 ms in each."""
    p50, p99 = (parts_of(values, [], least=0.0) for values in ([4.0, 8.0], [16.0, 16.1]))
    assert p50.high == pytest.approx(6 + 12.706 * 2, rel=1e-4)
    assert p99.high is not None
    assert _at_most(p50, p99).high == p99.high < 17
    assert _at_most(p50, parts_of([16.0, 16.0], [])).high == 16
    assert _at_most(p99, p50) == p99


def test_what_few_draws_leave_open_is_unknown_and_not_nothing(choice: opplab.Choice) -> None:
    parts = choice.options[0].parts["energy_per_work"]
    few = replace(choice, gap=replace(parts, runs=5.0, assumed=None))
    words = "more draws: the runs leave \u00b1 5.0 % open, and what the assumptions do takes more to know"
    assert few.measures() == [words]
    none = replace(choice, gap=replace(parts, runs=5.0, assumed=None, draws=0))
    assert none.measures() == ["more or longer runs: they leave \u00b1 5.0 % open"]
    many = replace(choice, gap=replace(parts, runs=5.0, assumed=(-1.0, 2.0)))
    assert many.measures()[-1] == "more or longer runs: they leave \u00b1 5.0 % open, the assumptions 1.5 %"


def test_the_machines_own_numbers_are_a_draw() -> None:
    """Of two draws, one for each of two settings, neither is the best with a probability of over 99 %."""
    first = Values({0: 10.0, 1: 10.0}, {1: {0: 13.0, 1: 13.0}})
    second = Values({0: 11.0, 1: 11.0}, {1: {0: 12.0, 1: 12.0}})
    samples = _samples([first, second], Draws({}, {}, [], 1), share=False)
    assert 0.45 < (samples[:, 0] < samples[:, 1]).mean() < 0.55


def test_probabilities_say_no_more_than_the_draws_do(choice: opplab.Choice) -> None:
    """Of eight draws that agree nobody knows 100 %; and words beside each other agree."""
    assert [choice.chance(share) for share in (1.0, 0.9, 0.5, 0.0)] == [
        "all 8 draws",
        "all 8 draws",
        "50 %",
        "none of 8 draws",
    ]
    sure = replace(choice.options[0], best=1.0, meets=1.0)
    second = replace(choice.options[1], meets=1.0)
    doubtful = replace(
        choice, options=[sure, second, *choice.options[2:]], gap=Parts(3.0, 4.0, (-1.0, 1.0), -1.0, 7.0, draws=7)
    )
    words = " ".join(doubtful.findings())
    assert "the best in all 8 draws, keeps response_p95 <= 5ms in all 8 draws" in words
    assert "needs 40 draws, has 8" in words
    assert words.startswith("Recommended, not clear: ")
    clear = replace(doubtful, gap=Parts(3.0, 1.0, (2.0, 4.0), 2.0, 4.0, draws=40))
    assert clear.findings()[0].startswith("Recommended: ")
    assert "100 %" not in words + str(doubtful) + page(doubtful)


def test_a_constraint_that_nothing_keeps_gives_no_recommendation() -> None:
    found = quick("juno-r2", workload(), constraints=["response_p95 <= 1us"], seconds=0.2)
    assert found.recommended is None
    assert found.findings()[0].startswith("No setting keeps response_p95 <= 1us")
    assert "The others follow by how far their means are beyond it." in found.findings()[0]


def test_a_choice_without_draws_says_nothing_of_the_file() -> None:
    """The machine has ranges: none were drawn."""
    found = quick("juno-r2", workload(), seconds=0.2)
    (words,) = [line for line in found.findings() if "leave open" in line]
    assert words.startswith("Nothing was drawn:")


def test_settings_whose_runs_are_the_same_are_one_candidate() -> None:
    """Goal: a key without effect changes no probability, and so not who is recommended."""
    menu = Setting((("governor", "performance"), ("idle_governor", "menu")))
    slow = Setting((("governor", "powersave"), ("idle_governor", "menu")))
    same = [Setting((*one.keys, ("hz", 250))) for one in (menu, slow)]

    def found(*settings: Setting) -> opplab.Choice:
        return opplab.choose(
            "skylake-8x-uma",
            opplab.Workload.periodic(1, run_us=100, period_us=1000),
            settings,
            seconds=0.1,
            iterations=2,
            uncertainty=4,
            jobs=1,
        )

    plain, doubled = found(menu, slow), found(menu, slow, *same)
    assert [option.best for option in doubled.options] == [option.best for option in plain.options]
    assert doubled.recommended is not None
    assert plain.recommended is not None
    assert doubled.recommended.setting == plain.recommended.setting
    words = " ".join(doubled.findings())
    for option in doubled.options:
        (twin,) = option.twins
        assert f"{twin} changes nothing here: its runs are those of {option.label}." in words
    whole = json.loads(doubled.to_json())
    assert [len(one["twins"]) for one in whole["settings"]] == [1, 1]
    page(doubled)


GOVERNORS = ("performance", "schedutil", "ondemand", "powersave")


def test_settings_that_are_equal_in_the_goal_are_all_the_best() -> None:
    """Goal: their runs differ, what counts does not: the first is recommended, and all are named."""
    found = opplab.choose(
        "juno-r2",
        workload(),
        governors=GOVERNORS,
        goals=["missed"],
        constraints=["none"],
        seconds=0.2,
        iterations=2,
        uncertainty=4,
        jobs=1,
    )
    assert [option.label for option in found.options] == list(GOVERNORS)
    assert {option.parts["energy"].value for option in found.options if option.twins} == set()
    assert {(option.best, option.parts["missed_activations"].value) for option in found.options} == {(0.25, 0.0)}
    assert {option.ties for option in found.options} == {1.0}
    assert {row["ties"] for row in found.rows()} == {1.0}, "CSV and JSON have them, too"
    words = "performance, schedutil, ondemand and powersave are equally good: missed is the same in all printed digits."
    assert words in found.findings()
    assert [len(one["equals"]) for one in json.loads(found.to_json())["settings"]] == [3] * 4
    page(found)


def test_equal_settings_do_not_divide_their_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three equal ones are better than the fourth in six of ten draws, which is more than its four."""
    equal = 1.0 + 1e-5 * np.arange(3)
    rows = np.array([[*equal, 2.0]] * 6 + [[*equal, 0.5]] * 4)
    monkeypatch.setattr(importlib.import_module("opplab.choice.ranking"), "_samples", lambda *_: rows)
    found = quick("juno-r2", workload(), governors=GOVERNORS, constraints=["none"], seconds=0.1)
    assert {option.label: option.best for option in found.options} == pytest.approx(
        dict(zip(GOVERNORS, (0.2, 0.2, 0.2, 0.4), strict=True))
    )
    assert [option.ties for option in found.options] == [0.6, 0.6, 0.6, 0.4]
    assert found.options[-1].label == "powersave"


def test_settings_of_one_printed_probability_are_in_the_order_of_their_means(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two runs no setting but the first is the best in one: shares of samples that nobody sees rank nothing."""
    own = quick("juno-r2", workload(), governors=GOVERNORS, constraints=["none"], seconds=0.1)
    by_mean = sorted(own.options, key=lambda option: option.parts["energy_per_work"].value)
    best, *_, worst = (GOVERNORS.index(option.label) for option in by_mean)
    rows = np.full((10, len(GOVERNORS)), 2.0)
    rows[:, best] = 1.0
    rows[:2, worst] = 0.5
    monkeypatch.setattr(importlib.import_module("opplab.choice.ranking"), "_samples", lambda *_: rows)
    found = quick("juno-r2", workload(), governors=GOVERNORS, constraints=["none"], seconds=0.1)
    assert {found.best_in(option) for option in found.options[1:]} == {"none of 2 runs"}
    assert max(option.ties for option in found.options[1:]) == 0.2
    assert [option.label for option in found.options] == [option.label for option in by_mean]


def test_a_goal_of_a_part_has_its_change_and_so_has_what_a_constraint_names() -> None:
    """The change of a rail is that of the means of single runs."""
    governors = ("schedutil", "performance")
    found = quick("juno-r2", workload(), governors=governors, goals=["energy:A53"], constraints=["response_p95 <= 1s"])
    means = [
        sum(
            opplab.simulate("juno-r2", workload(), governor, seed=seed).metrics.filter(metric="energy:A53")["value"][0]
            for seed in (1, 2)
        )
        for governor in governors
    ]
    (row,) = found.block().tables()[1]
    assert row["energy:A53"].startswith(f"{100 * (means[1] / means[0] - 1):+.1f} % [")
    assert row["response_p95"]
    assert list(row).index("energy:A53") < list(row).index("energy")
    for goal in ("work_done", "power"):
        found = quick("juno-r2", workload(), governors=governors, goals=[goal], seconds=0.2)
        base, other = (
            option.parts[goal].value for option in sorted(found.options, key=lambda one: one.label != "schedutil")
        )
        (row,) = found.block().tables()[1]
        assert row[title_of(goal)].startswith(f"{100 * (other / base - 1):+.1f} % [")


def test_work_without_a_deadline_has_no_share_of_misses() -> None:
    """Goal: nobody mails "0 % missed" of tasks that can miss nothing."""
    asleep = {"global": {"duration": 1}, "tasks": {"t": {"loop": -1, "run": 2000, "sleep": 14000}}}
    how: dict[str, Any] = {"governors": ["schedutil", "performance"], "seconds": 0.2}
    free, due = (quick("juno-r2", opplab.Workload.parse(json.dumps(one), name="w"), **how) for one in (asleep, LOAD))
    assert ["missed_activations" in found.rows()[0] for found in (free, due)] == [False, True]
    assert "missed, %" not in free.block().text()
    asked = quick("juno-r2", opplab.Workload.parse(json.dumps(asleep), name="w"), constraints=["missed <= 1%"], **how)
    assert "missed_activations" in asked.rows()[0]


def test_settings_that_are_all_the_same_leave_nothing_to_choose() -> None:
    menu = Setting((("governor", "performance"), ("idle_governor", "menu")))
    found = quick(
        "skylake-8x-uma",
        opplab.Workload.periodic(1, run_us=100, period_us=1000),
        [menu, Setting((*menu.keys, ("hz", 250)))],
        seconds=0.1,
    )
    (option,) = found.options
    assert len(option.twins) == 1
    words = " ".join(found.findings())
    assert "as with every other setting" in words
    assert f"{option.twins[0]} changes nothing here: its runs are those of {option.label}." in words
    page(found)


def test_a_report_and_json_say_the_same(choice: opplab.Choice, tmp_path: Path) -> None:
    page = choice.write(tmp_path / "report.html").read_text()
    whole = json.loads(choice.to_json())
    assert whole["recommended"] in page
    assert whole["settings"][0]["commands"]
    assert page.count("<svg") >= 2
    assert "scaling_governor" in page
    assert "nan" not in page.replace("nano", "")
    assert "<svg" in choice._repr_html_()


def test_commands_write_what_the_setting_says() -> None:
    setting = grid(["schedutil"], {"rate_limit_us": [2000]}, idle_governor=["teo"], epp=["power"], freq_max=["mid"])[0]
    commands = commands_of(setting, {})
    assert commands[0].endswith("echo schedutil > $p/scaling_governor; done")
    assert "echo 2000 > $d/rate_limit_us" in commands[1]
    assert "echo teo > /sys/devices/system/cpu/cpuidle/current_governor" in commands
    assert commands[-1].startswith("# f_max")


def test_limits_are_commands() -> None:
    keys = {"scaling_max_freq": [1000000], "scaling_min_freq": [{"A72": 600000}], "max_perf_pct": [80]}
    limits = [(name, tuple(one.items()) if isinstance(one, dict) else one) for name, (one,) in keys.items()]
    commands = commands_of(Setting(tuple(limits)), {"cluster": [{"name": "A72", "cpus": "1-2"}]})
    assert commands == [
        "for p in /sys/devices/system/cpu/cpufreq/policy*; do echo 1000000 > $p/scaling_max_freq; done",
        "# in the policies of CPUs 1-2: echo 600000 > /sys/devices/system/cpu/cpufreq/policyN/scaling_min_freq",
        "echo 80 > /sys/devices/system/cpu/intel_pstate/max_perf_pct",
    ]


def test_commands_of_cpus_clamps_and_features() -> None:
    """What sysfs, sysctl and debugfs take is a command; what the kernel's command line takes is a comment."""
    keys = {
        "nosmt": True,
        "offline_cpus": (3,),
        "isolcpus": (1, 2),
        "nohz_full": (2,),
        "sched_features": ("NO_UTIL_EST",),
    }
    clamps = {"sched_util_clamp_max": 512, "sched_util_clamp_min": 512}
    keys |= {"changes": ({"at_ms": 250, "max_perf_pct": 50},)}
    assert commands_of(Setting(tuple((keys | clamps).items())), {}) == [
        "echo off > /sys/devices/system/cpu/smt/control",
        "echo 0 > /sys/devices/system/cpu/cpu3/online",
        "echo 512 > /proc/sys/kernel/sched_util_clamp_min",
        "echo 512 > /proc/sys/kernel/sched_util_clamp_max",
        "echo NO_UTIL_EST > /sys/kernel/debug/sched/features",
        "# 250 ms into the run: echo 50 > /sys/devices/system/cpu/intel_pstate/max_perf_pct",
        "# on the kernel's command line: isolcpus=1,2",
        "# on the kernel's command line: nohz_full=2",
    ]


def test_the_commands_work_in_a_shell(tmp_path: Path) -> None:
    """The commands are run on a tree of files with the names of sysfs."""
    policy = tmp_path / "sys/devices/system/cpu/cpufreq/policy0"
    (policy / "schedutil").mkdir(parents=True)
    (policy / "scaling_governor").write_text("performance\n")
    (policy / "schedutil/rate_limit_us").write_text("10000\n")
    commands = commands_of(grid(["schedutil"], {"rate_limit_us": [2000]})[0], {})
    script = "\n".join(commands).replace("/sys/", f"{tmp_path}/sys/")
    subprocess.run(["sh", "-euc", script], check=True)
    assert (policy / "scaling_governor").read_text() == "schedutil\n"
    assert (policy / "schedutil/rate_limit_us").read_text() == "2000\n"


def test_what_is_not_understood_is_refused() -> None:
    with pytest.raises(opplab.InputError, match="did you mean `rate_limit_us`"):
        grid(["schedutil"], {"rate_limt_us": [5]})
    with pytest.raises(opplab.InputError, match="write it like"):
        Constraint.parse("latency 5ms")
    assert Constraint.parse("group_response_p99:/web.slice <= 8ms").metric == "group_response_p99:/web.slice"
    with pytest.raises(opplab.InputError, match="not in J"):
        Constraint.parse("latency_p99 <= 5J").bound_in("ms")
    with pytest.raises(opplab.InputError, match="did you mean `energy`"):
        quick("juno-r2", workload(), goals=["enery"], seconds=0.1, iterations=1)
    with pytest.raises(opplab.InputError, match="neither more nor less"):
        quick("juno-r2", workload(), goals=["migrations"], seconds=0.1, iterations=1)
    with pytest.raises(opplab.InputError, match="there is only one setting"):
        quick("juno-r2", workload(), governors=["schedutil"], seconds=0.1, iterations=1)


def test_one_value_stands_for_a_list_of_one_and_what_is_no_list_is_refused() -> None:
    """A text is not taken letter by letter, and an option of the command line is not a key of a policy."""
    times: dict[str, Any] = {"seconds": 0.1, "iterations": 1, "uncertainty": 0, "jobs": 1}
    one = opplab.choose(
        "juno-r2",
        workload(),
        governors="schedutil",
        variants="kernel=5.10",
        goals="energy",
        constraints="none",
        **times,
    )
    many = opplab.choose(
        *("juno-r2", workload()),
        governors=["schedutil"],
        variants=["kernel=5.10"],
        goals=["energy"],
        constraints=["none"],
        **times,
    )
    assert str(one) == str(many)
    for given, words in (
        ({"runs": 3}, "no key `runs`"),
        ({"policy": opplab.Policy()}, "`policy` is a mapping"),
        ({"uncertainty": -1}, "`uncertainty`: give a whole number"),
        ({"scaling_max_freq": {"A53": 700_000}}, "`scaling_max_freq` takes a list"),
        ({"seconds": "1"}, "give a number of seconds, not '1'"),
    ):
        with pytest.raises(opplab.InputError, match=words):
            opplab.choose("juno-r2", workload(), **{**times, **given})


def test_the_question_names_the_kernels_of_all_settings() -> None:
    times: dict[str, Any] = {"seconds": 0.1, "iterations": 1, "uncertainty": 0, "jobs": 1}
    found = opplab.choose("juno-r2", workload(), governors="schedutil", kernel=["6.6", "5.10"], **times)
    assert "(Linux 6.6, 5.10, 0.1 s a run" in str(found)
    assert {dict(option.setting.keys)["kernel"] for option in found.options} == {"6.6", "5.10"}
    beside = opplab.choose("juno-r2", workload(), governors="schedutil", variants="kernel=5.10", **times)
    assert f"(Linux {opplab.Policy().kernel}, 5.10, 0.1 s a run" in str(beside)


def test_a_run_within_its_warm_up_names_the_option() -> None:
    with pytest.raises(opplab.InputError, match=r"leaves nothing of a run of 0.3 s: give a longer .*--seconds"):
        quick("juno-r2", "tbench", seconds=0.3, iterations=1)


def test_a_search_adds_values_that_are_as_good(choice: opplab.Choice) -> None:
    found = quick(
        "juno-r2",
        workload(),
        governors=["schedutil", "performance"],
        search={"rate_limit_us": (100, 20_000)},
        search_settings=10,
        seconds=0.2,
    )
    searched = [option for option in found.options if option.setting.tunables]
    assert 1 <= len(searched) <= 2
    plain = next(option for option in found.options if option.label == "schedutil")
    assert min(option.parts["energy"].value for option in searched) <= plain.parts["energy"].value * 1.05


def test_a_choice_from_a_recording_whose_replay_is_not_near_has_a_warning(choice: opplab.Choice) -> None:
    """By the same words as `opplab replay`, also where no setting keeps the constraints."""
    check = {"checked": True, "near": False, "freq_distance": [12_300], "energy_known": True, "energy_distance": 8000}
    line = self_check(check)
    assert line == (
        "self-check: frequency residency within 12.3 points, energy within 8.0 % of the trace: NOT near "
        "(5 points and 5 % are near)"
    )
    far = replace(choice, check=[line, NOT_NEAR])
    none = replace(far, options=[replace(option, meets=0.0) for option in far.options])
    for found in (far, none):
        assert found.findings()[-2:] == [line, NOT_NEAR]
    assert not any("self-check" in one for one in choice.findings())


def test_a_change_of_energy_within_the_replays_error_is_not_significant(choice: opplab.Choice) -> None:
    """As `opplab replay` has it; stars, which are of the runs, are explained."""
    gap = Parts(2.5, 0.1, None, 1.7, 3.1, iterations=3)
    clear = replace(choice, gap=gap, goals=["energy"])
    clear.options = [replace(option, changes={"energy": gap}, meets=1.0) for option in clear.options]
    error = replace(clear, energy_error=2.6)
    lines = [next(one for one in found.findings() if one.startswith("Next is ")) for found in (clear, error)]
    assert lines[0].endswith("+2.5 % [+1.7, +3.1]*: clear.")
    assert lines[1].endswith("+2.5 % [+1.7, +3.1]: within the replay's error of 2.6 %, not significant.")
    words = "Stars are of the runs alone: a change of energy within the replay's own error of 2.6 % is not significant."
    assert [words in found.findings() for found in (clear, error)] == [False, True]


def test_a_benchmark_and_a_trace_can_be_chosen_for() -> None:
    found = quick("skylake-8x-uma", opplab.Workload.benchmark("tbench", clients=2), goals=["throughput"], seconds=0.7)
    assert found.goals == ["throughput"]
    folder = shared("traces/x86-612-xeon16-any1-schedutil-ramp_up")
    traced = quick(None, folder, goals=["response_p95"], seconds=0.5)
    assert "recovered from" in dict(traced.facts)["workload"]
    # The line is that of a replay in the same loop.
    done = answered("replay", folder, "--mode", "closed")
    (line,) = (one for one in traced.findings() if one.startswith("self-check: "))
    assert line in " ".join(done.stdout.split())
    assert (NOT_NEAR in traced.findings()) == ("NOT near" in line)
    assert line in " ".join(str(traced).split())
    # What the joules and the times rest on stands with both.
    words = [one for one in traced.findings() if one.startswith(("power: not known", "speed: an emulator"))]
    assert len(words) == 2
    assert all(one in " ".join(done.stdout.split()) for one in words)


@pytest.mark.parametrize(
    "name", ["arm64-612-juno-eas-one_heavy", "arm64-612-juno-eas-homog6", "x86-612-xeon16-any1-schedutil-ramp_up"]
)
def test_a_choice_from_a_recording_runs_what_its_self_check_ran(name: str) -> None:
    """Run by run, also of a case as text: the measured wake-ups and the start of the machine are in it."""
    folder = shared(f"traces/{name}")
    replayed = json.loads(_opplab.replay_trace(str(folder), None, "closed", None, None, None, None, []))
    runs = {metric["metric"]: [run[0] for run in metric["runs"]] for metric in replayed["metrics"]}
    chosen = program_of(None, folder, seconds=None, seeds=range(1, 4), keys={})
    own = Setting((("governor", replayed["governor"]),))
    for nth, case in enumerate(chosen.cases([own], ["own"], "none")):
        outcome = _opplab.Case.from_json(case.json).run(False, True)
        found = {metric: value for metric, _, _, value in outcome["rows"]}
        busy = [sum(times) for times in outcome["busy_ns_by_opp"]]
        wanted = [values[nth] for metric, values in runs.items() if metric.endswith(" busy")]
        # Policies of equal CPUs stand in the order of their mean frequencies.
        assert sum(busy) == sum(wanted)
        assert found["energy"] * 1e6 == pytest.approx(runs["energy"][nth], rel=1e-5)
        assert outcome["missed_activations"] == runs.get("missed activations", [0] * 3)[nth]
    # The rows of the answer are of these runs.
    response = [case.inner.run(False, True)["rows"] for case in chosen.cases([own], ["own"], "none")]
    p50 = [value for rows in response for metric, _, _, value in rows if metric == "response_p50"]
    answer = quick(
        None,
        folder,
        governors=[replayed["governor"], "performance"],
        goals=["response_p50"],
        iterations=3,
        variation="none",
    )
    (baseline,) = (option for option in answer.options if option.label == replayed["governor"])
    assert baseline.parts["response_p50"].value == pytest.approx(float(np.mean(p50)), rel=1e-3)


def test_a_recording_that_ran_as_fast_at_every_clock_ranks_no_clocks() -> None:
    """Its lower clocks cost no time, so that the lowest always wins; the watts are assumed, and in no draw."""
    folder = shared("traces/arm64-612-juno-eas-one_heavy")
    args = ["choose", str(folder), "--governor", "schedutil,powersave", "--seconds", "0.5", "--iterations", "2"]
    done = answered(*args, "--uncertainty", "8")
    assert "No setting is recommended: an emulator executed this as fast at every clock" in done.stdout
    for words in ("Recommended", "best in all", "to set it:", "change against", "opplab machine show"):
        assert words not in done.stdout
    assert f"opplab choose {folder} -m MACHINE" in " ".join(done.stdout.split())
    assert "the assumed power is in no draw" in " ".join(done.stdout.split())
    found = json.loads(called(*args, "--uncertainty", "0", "--format", "json").stdout)
    assert found["recommended"] is None
    # What is not ranked stands as it was given.
    assert [(one["setting"], one["rank"], one["best"]) for one in found["settings"]] == [
        ("schedutil", None, None),
        ("powersave", None, None),
    ]
    assert not found["hangs_on"]
    # On a machine whose speed follows the clock the same work can be ranked; what clocks do not move can be, too.
    known = called(*args, "--uncertainty", "0", "-m", "juno-r2")
    assert re.search("^Recommended(, not clear)?: schedutil", known.stdout, re.MULTILINE)
    # Its assumed power has none of idle states, which other idle governors change.
    idle = {"governors": ["schedutil"], "idle_governor": ["menu", "teo"], "seconds": 0.5, "iterations": 2}
    with pytest.raises(
        opplab.InputError, match="teo is left out: what it changes in idle states costs an unknown power"
    ):
        opplab.choose(None, folder, **idle, uncertainty=0)
    assert not opplab.choose(None, folder, **idle, goals=["latency_p99"], uncertainty=0).unranked


def test_what_a_running_kernel_cannot_set_is_a_comment() -> None:
    keys = (("governor", "schedutil"), ("proposals", ("response-time",)), ("pelt_half_life_ms", 16))
    keys += (("hwp_dynamic_boost", "off"), ("watchdog_thresh_s", 0))
    commands = commands_of(Setting(keys), {"cluster": []})
    assert commands[1:] == [
        "echo 0 > /sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost",
        "echo 0 > /proc/sys/kernel/watchdog_thresh",
        "# needs a kernel with the patch response-time (opplab list proposals response-time)",
        "# no file of a running kernel sets pelt_half_life_ms=16",
    ]


def test_a_limit_that_only_the_means_keep_is_named_as_that() -> None:
    parts = {"energy": Parts(1.0, None, None, None, None), "missed": Parts(2.878, None, None, None, None)}
    base = Option(
        Setting((("governor", "a"),)), "a", {**parts, "missed": Parts(2.818, None, None, None, None)}, 1, 1, []
    )
    text = "missed <= baseline"
    late = Option(Setting((("governor", "b"),)), "b", parts, 0, 0.2, [], [text], kept_by_means=[text])
    units = {"energy": ("J", "lower"), "missed": ("%", "lower")}
    choice = Choice(
        options=[base, late],
        metrics=["energy"],
        goals=["energy"],
        units=units,
        constraints=[],
        gap=None,
        hangs=Causes(),
        assumptions={},
        baseline="a",
        work=[text],
        samples=(40, "draws"),
    )
    (line,) = (one for one in choice.findings() if one.startswith("Left out: b"))
    assert line.endswith("2.878 % (baseline 2.818 %), in most draws more than the limit, although not on the mean.")


def test_a_recommendation_that_does_less_on_the_mean_is_named_as_that() -> None:
    """Goal: the phone's best setting did 1.4 % less work, and kept 99 % of it in 69 % of draws, without a word."""
    work = {
        "global": {"duration": 4, "calibration": "CPU0"},
        "tasks": {
            "render": {"util_min": 300, "loop": -1, "run": 5000, "timer": {"ref": "unique", "period": 8333}},
            "ui": {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16667}},
            "sync": {"util_max": 100, "cpus": [0, 1, 2, 3], "loop": -1, "run": 30000, "sleep": 50000},
        },
    }
    load = opplab.Workload.parse(json.dumps(work), name="ui")
    variant = "proposal=headroom:percent=110"
    found = opplab.choose("pixel6", load, governors=["schedutil"], variants=[variant], iterations=3, jobs=2)
    less = next(option for option in found.options if option.label == "headroom:percent=110")
    means = []
    for keys in ({}, {"proposals": ("headroom:percent=110",)}):
        policy = opplab.Policy(variation="rt-app", **keys)  # type: ignore[arg-type]
        runs = [opplab.simulate("pixel6", load, policy, seconds=4, seed=seed).metrics for seed in (1, 2, 3)]
        means.append(sum(run.filter(metric="work_done")["value"].item() for run in runs) / 3)
    lost = means[1] / means[0] - 1
    limit = "work_done >= 99% of baseline"
    assert lost < -0.01 and 0.5 <= less.meets < 1
    assert limit in less.broken_by_means and limit not in less.breaks
    assert found.recommended is not None
    for option in (found.recommended, less):
        words = " ".join(replace(found, options=[option, *(one for one in found.options if one != option)]).findings())
        told = f"On the mean it does less than schedutil: work_done {100 * lost:+.1f} %, although in most draws"
        assert (told in words) == (option is less)
        assert (f"{limit} {found._in(found.keeps_in(less))}" in words) == (option is less)


def test_the_command_line_has_the_words_of_the_other_commands(tmp_path: Path) -> None:
    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    command = [*forked.words(), "choose", "load.json", "-m", "juno-r2", "--seconds", "0.2"]
    command += ["--governor", "schedutil,performance", "--iterations", "2", "--uncertainty", "3", "-o", "out"]
    done = subprocess.run([*command, "--format", "json"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == json.loads((tmp_path / "out/choice.json").read_text())
    text = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert re.search("^Recommended(, not clear)?: ", text, re.MULTILINE)
    assert "to set it:" in text
    wrong = subprocess.run([*command, "--constraint", "p99"], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "write it like" in wrong.stderr


def test_dask_runs_the_same_or_is_refused(tmp_path: Path) -> None:
    """With the extra: the same answer. Without it: one line that names it, and no run."""
    import importlib.util

    (tmp_path / "load.json").write_text(json.dumps(LOAD))
    command = ["choose", str(tmp_path / "load.json"), "-m", "juno-r2", "--governor", "schedutil,performance"]
    command += ["--seconds", "0.1", "--iterations", "2", "--uncertainty", "2", "--format", "json"]
    done = called(*command, "--dask", "local")
    if importlib.util.find_spec("distributed") is None:
        assert "pip install 'opplab[dask]'" in f"{done.output}{done.exception}"
        assert done.exit_code != 0
        return
    assert done.exit_code == 0, done.output
    plain = called(*command)
    assert json.loads(done.stdout) == json.loads(plain.stdout)


# --- work that is not done is not saved energy ------------------------------------------------------------------------

HEAVY = {
    "global": {"duration": 1, "calibration": "CPU0"},
    "tasks": {"t": {"instance": 6, "loop": -1, "run": 14000, "timer": {"ref": "unique", "period": 16000}}},
}


def heavy(*constraints: str, goals: tuple[str, ...] = ("energy",)) -> opplab.Choice:
    return quick(
        "juno-r2",
        opplab.Workload.parse(json.dumps(HEAVY), name="heavy"),
        governors=["schedutil", "performance", "powersave"],
        goals=goals,
        constraints=constraints,
        seconds=0.5,
    )


def test_who_does_not_do_the_work_is_not_recommended() -> None:
    """powersave uses the least joules here because it does less; the same runs by hand say how much less."""
    found = heavy()
    by_label = {option.label: option for option in found.options}
    idle = by_label["powersave"]
    assert idle.parts["energy"].value < min(
        by_label[name].parts["energy"].value for name in ("schedutil", "performance")
    )
    assert found.recommended is not None
    assert found.recommended.label != "powersave"
    assert idle.meets == 0.0
    words = " ".join(found.findings())
    assert "Left out: powersave does less than schedutil: missed_activations" in words
    for label, option in by_label.items():
        runs = [
            opplab.simulate(
                "juno-r2",
                opplab.Workload.parse(json.dumps(HEAVY), name="heavy"),
                opplab.Policy(governor=label, variation="rt-app"),
                seconds=0.5,
                seed=seed,
            )
            for seed in (1, 2)
        ]
        tables = [dict(zip(run.metrics["metric"], run.metrics["value"], strict=True)) for run in runs]
        by_hand = sum(table["energy"] / table["work_done"] for table in tables) / 2
        assert option.parts["energy_per_work"].value == pytest.approx(by_hand, rel=1e-12)
    work = {label: option.parts["work_done"].value for label, option in by_label.items()}
    lost = 100 * (work["powersave"] / work["schedutil"] - 1)
    assert f"work_done {lost:+.1f} %" in words


def test_less_work_is_accepted_where_somebody_says_so() -> None:
    everything = heavy("none")
    assert everything.work == []
    assert all(option.meets == 1.0 for option in everything.options)
    own = heavy("missed <= 100%")
    assert own.work == ["work_done >= 99% of baseline"], "a constraint of one's own replaces the rule on its metric"


def test_a_constraint_on_which_all_settings_are_equal_tests_nothing() -> None:
    light = quick(
        "juno-r2",
        opplab.Workload.periodic(1, run_us=100, period_us=16000),
        governors=["schedutil", "performance"],
        constraints=["missed <= 5%"],
        seconds=0.3,
    )
    assert ("missed <= 5%", "missed_activations") in light.idle
    line = "The constraint missed <= 5% tests nothing here: missed_activations is 0 % under every setting."
    assert line in light.findings()


def test_a_benchmark_keeps_its_throughput() -> None:
    found = quick(
        "skylake-8x-uma",
        opplab.Workload.benchmark("tbench", clients=2),
        governors=["performance", "powersave"],
        seconds=0.7,
        policy={"driver": "intel_cpufreq"},
    )
    slow = next(option for option in found.options if option.label == "powersave")
    assert slow.breaks == ["throughput >= 99% of baseline"]
    assert found.units["energy_per_work"][0] == "J/MB"
    fast = next(option for option in found.options if option.label == "performance")
    rows = [
        opplab.simulate(
            "skylake-8x-uma",
            opplab.Workload.benchmark("tbench", clients=2),
            opplab.Policy(governor="performance", driver="intel_cpufreq"),
            seconds=0.7,
            seed=seed,
        ).metrics
        for seed in (1, 2)
    ]
    tables = [dict(zip(table["metric"], table["value"], strict=True)) for table in rows]
    by_hand = sum(table["power"] / table["throughput"] for table in tables) / 2
    assert fast.parts["energy_per_work"].value == pytest.approx(by_hand, rel=1e-12)


IDLE_PHONE = {
    "global": {"duration": 1},
    "tasks": {"t": {"instance": 4, "loop": -1, "run": 500, "timer": {"ref": "unique", "period": 16000}}},
}


def of_an_idle_phone(*governors: str) -> Choice:
    """Choose among governors of which powersave is recommended."""
    found = quick(
        "juno-r2",
        opplab.Workload.parse(json.dumps(IDLE_PHONE), name="load"),
        governors=governors,
        seconds=0.3,
        iterations=8,
    )
    assert found.recommended is not None
    assert found.recommended.label == "powersave"
    return found


def test_a_recommendation_names_what_it_costs_in_time(tmp_path: Path) -> None:
    """The lowest clock does the work of an idle phone, and makes each request wait."""
    found = of_an_idle_phone("performance", "powersave")
    assert found.recommended is not None
    change = found.recommended.changes["response_p99"]
    file = tmp_path / "by_hand.toml"
    file.write_text(
        'format = 1\nname = "by hand"\nabout = "the same runs"\nmachine = "juno-r2"\nseed = 1\niterations = 8\n'
        'duration = "300ms"\n[[policy]]\nlabel = "performance"\ngovernor = "performance"\n[[policy]]\n'
        'label = "powersave"\ngovernor = "powersave"\n[[workload]]\nlabel = "load"\nrtapp = "load.json"\n'
    )
    (tmp_path / "load.json").write_text(json.dumps(IDLE_PHONE))
    rows = opplab.Experiment.load(file).run(jobs=1).filter(metric="response_p99")
    p99 = {policy: rows.filter(policy=policy)["value"].mean() for policy in ("performance", "powersave")}
    assert change.value == pytest.approx(100 * (p99["powersave"] / p99["performance"] - 1), rel=1e-3)
    assert change.value > 25
    usual = found.recommended.changes["response_p50"]
    words = f"response p99 {change.certainty.text(change.value)} and response p50 {usual.certainty.text(usual.value)}"
    assert f"Its price: {words} against performance." in found.findings()
    assert "response p50/p99" in str(found.block())


def test_the_price_does_not_hang_on_which_setting_is_named_first() -> None:
    """Goal: a recommended baseline has the price that the same setting has as another."""

    def prices(*governors: str) -> list[str]:
        return [words for words in of_an_idle_phone(*governors).findings() if words.startswith("Its price: ")]

    first = prices("powersave", "performance")
    assert first == prices("performance", "powersave")
    assert "response p99" in first[0]
    assert first[0].endswith(" against performance.")


def test_either_will_do_only_where_all_else_is_alike_too(tmp_path: Path) -> None:
    """Where an idle CPU draws as much as a busy one, the energy leaves open what response times decide."""
    file = tmp_path / "flat.toml"
    text = re.sub(r"\buw = \d+", "uw = 1000000", opplab.Machine.load("juno-r2").to_toml())
    text = re.sub(r"busy_uw = \d+", "busy_uw = 1050000", text)
    file.write_text(re.sub(r"(cluster_uw|target_residency_ns = 0, uw) = \d+", r"\1 = 1000000", text))
    work = opplab.Workload.periodic(2, run_us=2000, period_us=16_000)

    def found(*governors: str) -> Choice:
        return quick(str(file), work, governors=governors, seconds=1, iterations=4)

    def next_of(choice: Choice) -> str:
        return next(words for words in choice.findings() if words.startswith("Next is"))

    def p99(governor: str) -> float:
        runs = [opplab.simulate(str(file), work, governor, seconds=1, seed=seed).metrics for seed in range(1, 5)]
        return sum(run.filter(metric="response_p99")["value"].item() for run in runs) / len(runs)

    slow = found("performance", "powersave")
    first, second = (option.label for option in slow.options)
    by_hand = 100 * (p99(first) / p99(second) - 1)
    assert abs(by_hand) > 20
    assert f"they differ by less than 1 %, but {first} has response p99 {by_hand:+.1f} %" in next_of(slow)

    def of_misses(option: Option, later: float) -> Option:
        return replace(option, parts={**option.parts, LATER: replace(option.parts[LATER], value=later)})

    # Within the slack of the baseline's work they count as alike.
    quiet = replace(slow, against_next={})
    for later, words in ((0.05, ", either will do."), (7.5, f", but {first} has 7.5 % of its activations missed")):
        few = replace(quiet, options=[of_misses(slow.options[0], later), of_misses(slow.options[1], 0.0)])
        assert f"they differ by less than 1 %{words}" in next_of(few)


def test_settings_have_names_of_their_own() -> None:
    settings = [Setting((("governor", "schedutil"), ("hz", hz))) for hz in (250, 1000)]
    assert labels_of(settings) == ["hz=250", "hz=1000"]
    with pytest.raises(opplab.InputError, match="given twice"):
        labels_of([settings[0], settings[0]])


def test_a_variant_is_a_setting_of_its_own() -> None:
    """With and without a proposal is one call; the same runs by hand have its energies."""
    found = quick(
        "juno-r2",
        workload(),
        governors=["schedutil"],
        variants=["proposal=headroom:percent=110", "runnable_signal=load kernel=6.6"],
        seconds=0.2,
    )
    labels = {option.label: option for option in found.options}
    assert set(labels) == {"schedutil", "headroom:percent=110", "runnable_signal=load kernel=6.6"}
    for label, keys in (
        ("headroom:percent=110", {"proposals": ("headroom:percent=110",)}),
        ("runnable_signal=load kernel=6.6", {"gates": {"runnable_signal": "load"}, "kernel": "6.6"}),
    ):
        runs = [
            opplab.simulate("juno-r2", workload(), opplab.Policy(**keys), seconds=0.2, seed=seed)  # type: ignore[arg-type]
            for seed in (1, 2)
        ]
        energies = [run.metrics.filter(metric="energy")["value"].item() for run in runs]
        assert labels[label].parts["energy"].value == pytest.approx(sum(energies) / 2, rel=1e-12)


def test_labels_of_a_picture_do_not_collide() -> None:
    draw = random.Random(3)
    dots = [(draw.uniform(0, 120), draw.uniform(0, 80)) for _ in range(30)]
    widths = [draw.choice((7.0, 20.0, 33.0)) for _ in dots]
    boxes = [(x, y - LABEL_HEIGHT, x + width, y) for (x, y), width in zip(placed(dots, widths), widths, strict=True)]
    for number, one in enumerate(boxes):
        for other in boxes[:number]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


def test_the_block_has_the_numbers_of_single_runs_and_fits_80_columns() -> None:
    """Means and changes of the block, by hand from single simulations with the same seeds."""
    found = quick("juno-r2", workload(), governors=["schedutil", "performance"], seconds=0.2)

    def joules_of(governor: str, seed: int) -> float:
        run = opplab.simulate("juno-r2", workload(), opplab.Policy(governor=governor), seconds=0.2, seed=seed)
        return float(run.metrics.filter(run.metrics["metric"] == "energy")["value"].item())

    energies = {governor: [joules_of(governor, seed) for seed in (1, 2)] for governor in ("schedutil", "performance")}
    rows = {row["variant"]: row for row in found.block().rows() if row["metric"] == "energy"}
    for governor, joules in energies.items():
        assert rows[governor]["mean"] == pytest.approx(sum(joules) / 2, rel=1e-9)
    change = 100 * (sum(energies["performance"]) / sum(energies["schedutil"]) - 1)
    assert rows["performance"]["change_percent"] == pytest.approx(change, rel=1e-9)
    assert max(map(len, found.block().text(80).splitlines())) <= 80


def test_commands_set_the_mode_of_a_driver_that_has_modes() -> None:
    """Active intel_pstate and amd-pstate have no schedutil: the driver is switched first, and settings name it."""
    both = {"driver": [{"name": "intel_pstate"}, {"name": "intel_cpufreq"}], "cluster": [{"hwp": {}}]}
    settings = with_drivers(grid(["schedutil", "powersave"]), both, {})
    assert labels_of(settings) == ["schedutil intel_cpufreq", "powersave intel_pstate"]
    status = "/sys/devices/system/cpu/intel_pstate/status"
    assert [commands_of(one, both)[0] for one in settings] == [f"echo passive > {status}", f"echo active > {status}"]
    assert all(commands_of(one, both)[1].endswith("> $p/scaling_governor; done") for one in settings)
    amd = {"driver": [{"name": "amd-pstate-epp"}, {"name": "amd-pstate"}, {"name": "amd-pstate-guided"}]}
    status = "/sys/devices/system/cpu/amd_pstate/status"
    assert commands_of(grid(["schedutil"])[0], amd)[0] == f"echo passive > {status}"
    assert commands_of(grid(["schedutil"], driver=["amd-pstate-guided"])[0], amd)[0] == f"echo guided > {status}"
    preferred = grid(["performance", "powersave"], epp=["balance_power"])
    words = [commands_of(one, both)[-1] for one in preferred]
    for taken in ("performance", 0, "0"):
        last = commands_of(grid(["performance"], epp=[taken])[0], both)[-1]
        assert last.endswith(f"echo {taken} > $p/energy_performance_preference; done")
    assert words[0] == "# intel_pstate refuses the preference balance_power under its governor performance"
    assert words[1].endswith("echo balance_power > $p/energy_performance_preference; done")
    single = {"driver": [{"name": "scmi"}]}
    # A command that fails on this machine is none: without HWP, and with acpi-cpufreq, there is no such file.
    older = {**both, "cluster": [{"name": "pkg0"}]}
    assert commands_of(preferred[1], older)[-1].startswith("# intel_pstate has no preference on this machine")
    assert commands_of(preferred[1], {"driver": [{"name": "acpi-cpufreq"}]})[-1].startswith("# acpi-cpufreq has no")
    assert with_drivers(grid(["schedutil", "powersave"]), single, {}) == grid(["schedutil", "powersave"])
    assert not any("status" in line for line in commands_of(grid(["schedutil"])[0], single))


def test_a_command_writes_no_file_that_the_policy_s_kernel_or_mode_lacks() -> None:
    """`echo 100 > energy_performance_preference` fails under amd-pstate of 6.12, which matches names alone."""
    amd = {"driver": [{"name": "acpi-cpufreq"}, {"name": "amd-pstate-epp"}]}
    numbered = grid(["powersave"], epp=[100], driver=["amd-pstate-epp"])[0]
    refused = "# amd-pstate-epp takes preferences by name alone before kernel 7.1: its file refuses 100"
    written = "echo 100 > $p/energy_performance_preference; done"
    assert commands_of(numbered, amd, {"kernel": "6.12.117"})[-1] == refused
    assert commands_of(numbered, amd, {"kernel": "7.1"})[-1].endswith(written)
    assert (
        commands_of(replace(numbered, keys=(*numbered.keys, ("kernel", "6.5"))), amd, {"kernel": "7.1"})[2] == refused
    )
    # Which kernel a live host runs is not known here.
    assert commands_of(numbered, amd)[-1].endswith(written)
    intel = {"driver": [{"name": "intel_pstate"}, {"name": "intel_cpufreq"}], "cluster": [{"hwp": {}}]}
    numbered = grid(["powersave"], epp=["100"])[0]
    assert "before kernel 5.9: its file refuses 100" in commands_of(numbered, intel, {"kernel": "5.4"})[-1]
    assert commands_of(numbered, intel, {"kernel": "5.9"})[-1].endswith(written)
    boosted = grid(["powersave", "schedutil"], hwp_dynamic_boost=["on"])
    ends = [commands_of(one, intel)[-1] for one in boosted]
    assert ends[0] == "echo 1 > /sys/devices/system/cpu/intel_pstate/hwp_dynamic_boost"
    assert ends[1] == "# intel_cpufreq has no hwp_dynamic_boost on this machine: on changes nothing"


def test_commands_of_a_later_change_are_of_the_driver_that_runs() -> None:
    """They were of the driver at boot, acpi-cpufreq, which has no preference; and the mode was switched again."""
    amd = {"driver": [{"name": "acpi-cpufreq"}, {"name": "amd-pstate-epp"}]}
    changes = ({"at_ms": 5, "epp": "power"}, {"at_ms": 9, "governor": "performance", "epp": "power"})
    keys = {"governor": "powersave", "driver": "amd-pstate-epp", "changes": changes}
    every = "for p in /sys/devices/system/cpu/cpufreq/policy*; do echo"
    assert commands_of(Setting(tuple(keys.items())), amd)[2:] == [
        f"# 5 ms into the run: {every} power > $p/energy_performance_preference; done",
        f"# 9 ms into the run: {every} performance > $p/scaling_governor; done",
        "# 9 ms into the run: amd-pstate-epp refuses the preference power under its governor performance",
    ]
    intel = {"driver": [{"name": "intel_pstate"}, {"name": "intel_cpufreq"}], "cluster": [{"hwp": {}}]}
    tuned = {"at_ms": 5, "governor": "schedutil", "tunables": {"rate_limit_us": 700}}
    later = commands_of(
        Setting((("governor", "performance"), ("changes", (tuned,)))), intel, {"driver": "intel_cpufreq"}
    )
    assert [line for line in later if "status" in line] == [
        "echo passive > /sys/devices/system/cpu/intel_pstate/status"
    ]
    assert any("echo 700 >" in line for line in later)


def test_a_limit_by_cluster_is_chosen_as_run_takes_it() -> None:
    """`run` took the table, `choose` wanted a whole number."""
    limit = {"A53": 600_000, "all": 900_000}
    found = quick(
        "juno-r2",
        workload(),
        governors=["performance"],
        variants=["scaling_max_freq={A53=600000,all=900000}"],
        constraints=["none"],
        seconds=0.2,
        iterations=1,
    )
    limited = next(option for option in found.options if "A53" in option.label)
    run = opplab.simulate(
        "juno-r2", workload(), opplab.Policy(governor="performance", scaling_max_freq=limit), seconds=0.2
    )
    energy = run.metrics.filter(run.metrics["metric"] == "energy")["value"].item()
    assert limited.parts["energy"].value == pytest.approx(energy, rel=1e-12)
    # Clusters without a limit of their own have that of all.
    assert [line.rpartition(": ")[2].split(" >")[0] for line in limited.commands[1:]] == ["echo 600000", "echo 900000"]


def test_of_a_single_run_it_is_not_said_that_all_are_best() -> None:
    found = quick(
        "juno-r2", workload(), governors=["schedutil", "performance"], constraints=["none"], seconds=0.2, iterations=1
    )
    text = found.block().text(200)
    assert "the best in the only run" in text and " no run " in text
    assert "1 runs" not in text


def test_a_driver_that_is_in_each_label_is_not_there_twice() -> None:
    """It was `schedutil intel_cpufreq driver=intel_cpufreq`."""
    found = quick(
        "skylake-8x-uma",
        workload(),
        governors=["schedutil"],
        variants=["driver=intel_pstate governor=powersave", "hz=1000"],
        policy={"driver": "intel_cpufreq", "hz": 250},
        seconds=0.1,
        iterations=1,
    )
    labels = {option.label for option in found.options}
    assert "schedutil intel_cpufreq hz=250" in labels
    assert not any(label.count("intel_cpufreq") > 1 for label in labels)


@pytest.mark.parametrize("driver", ["", "intel_cpufreq"])
def test_the_driver_of_a_setting_is_the_one_that_the_engine_takes(driver: str) -> None:
    policy = {"driver": driver} if driver else {}
    found = quick(
        "sapphire-rapids-8460h-4s",
        workload(),
        governors=["schedutil", "powersave"],
        goals=["response_p95"],
        constraints=["none"],
        policy=policy,
        seconds=0.1,
        iterations=1,
    )
    for option in found.options:
        keys = dict(option.setting.keys)
        own = {"governor": keys["governor"], **policy}
        taken = driver or keys["driver"]
        prints = {
            opplab.simulate(
                "sapphire-rapids-8460h-4s", workload(), policy=opplab.Policy(**{**own, **with_name}), seconds=0.1
            ).fingerprint
            for with_name in ({}, {"driver": taken})
        }
        assert len(prints) == 1
        assert option.label == (keys["governor"] if driver else f"{keys['governor']} {taken}")


def test_no_interval_of_a_value_is_lost() -> None:
    """The block has intervals of changes; those of values stand in the page's table, in `--all` and in notebooks."""
    choice = quick("juno-r2", workload(), seconds=0.2, iterations=3)
    assert any("[" in text for row in choice.text_rows() for text in row.values())
    html, lines = page(choice), choice.values_text(80).splitlines()
    for option in choice.options:
        for metric in (*choice.metrics, *choice.beside):
            parts = option.parts[metric]
            if parts.low is not None and parts.low != parts.high:
                interval = f"[{quantity(parts.low)}, {quantity(parts.high)}]"
                assert interval in html
                assert any(option.label in line and interval in line for line in lines)
    assert max(map(len, lines)) <= 80


def test_a_machine_without_power_is_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = re.sub(
        r"\b(uw|mw|busy_uw|cluster_uw|cluster_mw) = [\d.]+", r"\1 = 0", opplab.Machine.load("juno-r2").to_toml()
    )
    file = tmp_path / "bare.toml"
    file.write_text(text.replace('name = "juno-r2"', 'name = "bare"'))
    load = opplab.Workload.periodic(1, run_us=1000, period_us=16000)
    monkeypatch.setattr("opplab.choice.choose.run_cases", lambda *_, **__: pytest.fail("something ran"))
    with pytest.raises(opplab.InputError, match="--power generic"):
        opplab.choose(file, load, seconds=0.1)


def test_a_dump_is_told_from_a_machine_file(tmp_path: Path) -> None:
    dump = tmp_path / "dump.tar.xz"
    dump.write_bytes(b"\xfd7zXZ")
    with pytest.raises(opplab.InputError, match="opplab machine import"):
        opplab.Machine.load(dump)


def test_a_recordings_folder_is_imported_by_its_snapshot(tmp_path: Path) -> None:
    """Goal: a recording's folder is a dump: the import takes it, and a fleet has one machine of it, not one a file."""
    recording = shared("traces/arm64-612-juno-eas-homog6")
    for name in ("sysfs_before.txt", "debugfs_before.txt", "cpuinfo.txt"):
        (tmp_path / name).write_bytes((recording / name).read_bytes())
    with pytest.raises(opplab.InputError, match=f"`opplab machine import {re.escape(str(tmp_path))} -o NAME.toml`"):
        opplab.Machine.load(tmp_path)
    own = tmp_path / "own.toml"
    answered("machine", "import", tmp_path / "sysfs_before.txt", "-o", own)
    of_file = own.read_text()
    answered("machine", "import", tmp_path, "-o", own, "--force")
    assert own.read_text() == of_file
    assert sources_of([tmp_path]) == [tmp_path]


def test_a_setting_without_an_activation_has_no_response_time(tmp_path: Path) -> None:
    """In so short a run none is due: the answer is without response times, and no traceback."""
    task = {"loop": -1, "run": 15000, "timer": {"ref": "unique", "period": 30000}}
    (tmp_path / "w.json").write_text(
        json.dumps({"global": {"duration": 1, "calibration": "CPU4"}, "tasks": {"t": task}})
    )
    words = [
        "choose",
        str(tmp_path / "w.json"),
        "-m",
        "juno-r2",
        "--governor",
        "performance,powersave",
        "--uncertainty",
    ]
    words += ["0", "--iterations", "1", "--seconds", "0.02", "--constraint", "none", "-o", str(tmp_path / "out")]
    done = answered(*words)
    assert "response" not in done.output


def test_runs_that_do_not_agree_are_not_called_all_or_none(choice: opplab.Choice) -> None:
    """Three runs, one of which says the opposite: 96 % of the samples are not "all 3 runs"."""
    runs = replace(choice, samples=(3, "runs"))
    most, least, sure = (
        replace(choice.options[0], best=best, ties=best, single=single)
        for best, single in ((0.96, (2, 2, 3)), (0.04, (1, 1, 3)), (1.0, (3, 3, 3)))
    )
    assert [runs.best_in(one) for one in (most, least, sure)] == ["96 %", "4 %", "all 3 runs"]
    shared = replace(choice.options[0], best=0.5, ties=1.0, single=(0, 3, 3))
    assert runs.best_in(shared) == "50 % (all 3 runs with ties)"
    once = replace(choice.options[0], best=0.85, ties=1.0, single=(1, 3, 3))
    assert runs.best_in(once) == "85 % (all 3 runs with ties)"


def test_draws_that_do_not_agree_are_not_called_all_or_none(choice: opplab.Choice) -> None:
    """Two of 40 draws say the opposite: 98 % of the samples are not "all 40 draws"."""
    drawn = replace(choice, samples=(40, "draws"))
    most, least, sure, twice = (
        replace(choice.options[0], best=best, ties=best, meets=best, single=(agree, agree, agree))
        for best, agree in ((0.9835, 38), (0.0165, 2), (1.0, 40), (1.0, 39))
    )
    words = ["98 %", "2 %", "all 40 draws", "over 99 %"]
    assert [drawn.best_in(one) for one in (most, least, sure, twice)] == words
    assert [drawn.keeps_in(one) for one in (most, least, sure, twice)] == words
    assert [drawn.chance(one, 39, 1) for one in (0.995, 0.005)] == ["over 99 %", "under 1 %"], "not 100 % and 0 %"


def test_the_draws_that_agree_are_counted_by_their_own_runs() -> None:
    own = {0: 10.0, 1: 10.2}
    one = Values(own, {1: {0: 9.0, 1: 9.2}, 2: {0: 12.0, 1: 12.4}})
    other = Values({0: 11.0, 1: 11.2}, {1: {0: 10.0, 1: 10.2}, 2: {0: 11.0, 1: 11.2}})
    units, limit = {"energy": ("J", "lower")}, Constraint.parse("energy <= 11J")
    for draws, rows, kept, wins in (
        (Draws({}, {}, [], 1), [[10.1, 11.1], [9.1, 10.1], [12.2, 11.1]], [2, 1], [2, 0]),
        (None, [[10.0, 11.0], [10.2, 11.2]], [2, 1], [2, 0]),
    ):
        singles = _singles({"energy": [one, other]}, draws)
        assert singles["energy"] == pytest.approx(np.array(rows))
        feasible, _, winners = _judged(singles, [("energy", limit)], units, "energy")
        assert (feasible.sum(axis=0).tolist(), winners.sum(axis=0).tolist()) == (kept, wins)
        free = _judged(singles, [], units, "energy")[2]
        assert free.sum(axis=0).tolist() == ([2, 1] if draws else [2, 0])


def test_a_price_that_few_values_do_not_judge_is_named(choice: opplab.Choice) -> None:
    """`fleet --uncertainty 8` recommended a setting without a word on its response times."""
    first = replace(choice.options[0], changes={"response_p99": Parts(32.4, 0.1, None, None, None, draws=7)}, meets=1.0)
    price = replace(choice, options=[first, *choice.options[1:]]).price()
    assert price == "response p99 +32.4 % (needs 40 draws, has 8)"


def test_a_price_that_is_not_clear_is_named_as_that(choice: opplab.Choice) -> None:
    """`fleet` has no column of response times, so that a setting without a price reads as free."""
    wide = Parts(42.0, 60.0, (-1.0, 1.0), -18.0, 102.0, draws=39)

    def price(**changes: Parts) -> str:
        first = replace(choice.options[0], changes=changes, meets=1.0)
        return replace(choice, options=[first, *choice.options[1:]]).price()

    assert price(response_p99=wide) == "response p99 +42.0 % [-18.0, +102.0] (not clear)"
    clear = Parts(5.0, 1.0, (-1.0, 1.0), 3.0, 7.0, draws=39)
    assert price(response_p99=wide, response_p50=clear) == "response p50 +5.0 % [+3.0, +7.0]*"
    far = Parts(242.0, 2.0, (-1.0, 1.0), 239.0, 246.0, draws=39)
    both = price(response_p99=clear, response_p50=far)
    assert both == "response p99 +5.0 % [+3.0, +7.0]* and response p50 +242.0 % [+239.0, +246.0]*"
    assert price(response_p99=Parts(-9.0, 60.0, (-1.0, 1.0), -30.0, 12.0, draws=39)) == ""


def test_a_value_that_the_kernel_refuses_is_no_setting() -> None:
    """Goal: label and command have the value that stays, and one setting is there once."""
    asked: dict[str, Any] = {"seconds": 0.1, "iterations": 1, "uncertainty": 0, "jobs": 1}
    rates = {"tunables": {"sampling_rate": [1000, 8000, 100000]}, "variants": ["sampling_rate=2000 up_threshold=60"]}
    found = opplab.choose("juno-r2", workload(), governors=["ondemand"], **rates, **asked)
    labels = sorted(option.label for option in found.options)
    assert labels == [
        "ondemand sampling_rate=100000",
        "ondemand sampling_rate=8000",
        "sampling_rate=8000 up_threshold=60",
    ]
    assert not any(" 1000 " in one or " 2000 " in one for option in found.options for one in option.commands)
    words = "ondemand: the kernel refuses sampling_rate=1000, less than two ticks: its default, 8000, stays."
    assert words in found.missing
    with pytest.raises(opplab.InputError, match="only one setting; ondemand: the kernel refuses sampling_rate=1000"):
        rates = {"tunables": {"sampling_rate": [1000, 8000]}}
        opplab.choose("juno-r2", workload(), governors=["ondemand"], **rates, **asked)


def test_a_setting_that_cannot_run_is_left_out_by_name() -> None:
    """Goal: one impossible pair of a grid does not refuse the others, and a baseline that is none has a successor."""
    asked: dict[str, Any] = {"epp": ["power", "performance"], "seconds": 0.1, "policy": {"driver": "amd-pstate-epp"}}
    said: list[str] = []
    found = quick("epyc-7742-2s", workload(), governors=["schedutil", "powersave"], said=said.append, **asked)
    assert sorted(option.label for option in found.options) == ["epp=performance", "epp=power"]
    assert found.baseline == "epp=power"
    words = (
        "schedutil epp=power and schedutil epp=performance cannot run on epyc-7742-2s, so that epp=power is the "
        "baseline: driver amd-pstate-epp has the governors performance and powersave, not schedutil"
    )
    assert words in said
    assert f"{words}." in found.missing
    own = quick("epyc-7742-2s", workload(), governors=["powersave"], **asked)
    assert [option.parts for option in own.options] == [option.parts for option in found.options]
    with pytest.raises(
        opplab.InputError, match="not schedutil; ondemand epp=power and ondemand epp=performance cannot"
    ):
        quick("epyc-7742-2s", workload(), governors=["schedutil", "ondemand"], **asked)


def test_a_preference_that_nothing_takes_is_in_no_label() -> None:
    """Goal: nobody is told to set an epp that the driver does not have, or refuses."""
    asked: dict[str, Any] = {"epp": ["power", "performance"], "seconds": 0.1}
    variants = ["governor=powersave epp=power", "epp=128"]
    none = quick("epyc-7742-2s", workload(), governors=["schedutil", "performance"], variants=variants, **asked)
    assert {option.label for option in none.options} == {"schedutil", "performance", "powersave"}
    assert "acpi-cpufreq has no energy performance preference: epp does nothing." in none.missing
    (same,) = [option for option in none.options if option.twins]
    assert (same.label, same.twins) == ("schedutil", ["epp=128"])
    some = quick("skylake-8x-uma", workload(), governors=["powersave", "performance"], **asked)
    labels = [label for option in some.options for label in (option.label, *option.twins)]
    assert sorted(labels) == [
        *("performance", "performance epp=performance"),
        *("powersave epp=performance", "powersave epp=power"),
    ]
    assert "intel_pstate refuses the preference power under its governor performance." in some.missing


def test_commands_name_the_tick() -> None:
    (command,) = commands_of(Setting((("hz", 1000),)), {"driver": {"name": "scmi"}})
    assert command == "# needs a kernel that is built with CONFIG_HZ=1000"


def test_a_choice_says_what_a_workload_asks_for_in_vain_and_what_its_watts_are_of(tmp_path: Path) -> None:
    file = tmp_path / "load.json"
    task = {"loop": -1, "run": 2000, "uclamp_max": 300, "timer": {"ref": "unique", "period": 16000}}
    file.write_text(json.dumps({"global": {"duration": 1}, "tasks": {"web": task}}))
    said: list[str] = []
    how: dict[str, Any] = {"governors": ("schedutil", "performance"), "seconds": 0.1, "iterations": 2, "uncertainty": 0}
    found = opplab.choose("juno-r2", file, said=said.append, **how)
    assert any("rt-app reads no `uclamp_max` in a task" in words for words in said)
    assert "watts are the sum of the clusters' meters, without the rest of the machine" in str(found).replace("\n", " ")
    model = opplab.Workload.benchmark("hackbench", groups=1, loops=100)
    assert "energy of the" in str(opplab.choose("juno-r2", model, **(how | {"seconds": None}))).replace("\n", " ")


def test_misses_of_the_cold_start_leave_no_setting_out() -> None:
    """A task of which schedutil misses the first activations, before load tracking knows it, and none later."""
    task = {"loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 11111}}
    load = opplab.Workload.parse(json.dumps({"global": LOAD["global"], "tasks": {"t": task}}), name="load")
    asked: dict[str, Any] = {"governors": ["performance", "schedutil"], "iterations": 2, "uncertainty": 0, "jobs": 2}
    found = opplab.choose("pixel4", load, seconds=2, **asked)
    schedutil = next(option for option in found.options if option.label == "schedutil")
    assert schedutil.parts["missed_activations"].value > 0.1
    assert schedutil.parts["missed_later"].value == 0
    assert found.recommended is schedutil
    assert (
        "missed counts the first 0.2 s, too, when load tracking starts from 0; these leave no setting out"
        in found.block().assumed
    )
    asked_for = opplab.choose("pixel4", load, constraints=["missed <= 0.05%"], seconds=2, **asked)
    assert asked_for.recommended is not None
    assert asked_for.recommended.label == "schedutil"
    assert "missed_activations" in asked_for.metrics
    short = opplab.choose("pixel4", load, seconds=0.3, **asked)
    assert any("does less than performance" in line for line in short.findings()), "it is all start"


def test_a_workload_with_control_groups_is_chosen_for() -> None:
    """The machine's idle power is of a run without the workload's tasks, which its groups name."""
    task = {"run": 2000, "timer": {"ref": "unique", "period": 16000}}
    tasks = {"web": task | {"taskgroup": "/web"}, "batch": task | {"taskgroup": "/batch/low"}, "alone": task}
    groups = {"/web": {"max": "20000 100000"}, "/batch": {"weight": 50}, "/batch/low": {}}
    load = opplab.Workload.parse(json.dumps({"tasks": tasks, "groups": groups}), name="load")
    asked: dict[str, Any] = {"governors": ("schedutil", "performance"), "seconds": 0.2, "iterations": 2}
    found = opplab.choose("juno-r2", load, uncertainty=3, jobs=1, **asked)
    joules = [
        opplab.simulate("juno-r2", load, seconds=0.2, seed=seed).metrics.filter(metric="energy")["value"].item()
        for seed in (1, 2)
    ]
    schedutil = next(option for option in found.options if option.label == "schedutil")
    assert schedutil.parts["energy"].value == pytest.approx(sum(joules) / 2)
    bare = opplab.Workload.parse(json.dumps({"tasks": {"alone": task}}), name="load")
    programs = [program_of("juno-r2", one, seconds=0.2, seeds=[1], keys={}).idle() for one in (load, bare)]
    with_groups, without = (one.cases([Setting(())], [""], "none")[0].inner.run(False) for one in programs)
    assert with_groups["cluster_energy_fj"] == without["cluster_energy_fj"], "nothing to do costs the same"


def test_a_recommended_setting_that_misses_more_than_another_is_named_as_that() -> None:
    """A baseline that misses activations stood recommended, and only a column had them."""
    task = {"cpus": [0], "loop": -1, "run": 8000, "timer": {"ref": "unique", "period": 11111}}
    load = opplab.Workload.parse(json.dumps({"global": {"calibration": "CPU0"}, "tasks": {"t": task}}), name="load")
    asked: dict[str, Any] = {"iterations": 2, "uncertainty": 0, "jobs": 2, "seconds": 1}
    found = opplab.choose("juno-r2", load, governors=["powersave", "performance"], **asked)
    assert found.recommended is not None
    assert found.recommended.label == "powersave"
    late = {option.label: option.parts["missed_later"].value for option in found.options}
    assert late["powersave"] > 50 and late["performance"] == 0
    (words,) = [line for line in found.findings() if line.startswith("It misses")]
    ends = "performance 0 % (misses of the first 0.2 s not counted)."
    assert f"{late['powersave']:.3g} % of its activations" in words and words.endswith(ends)
    first = opplab.choose("juno-r2", load, governors=["performance", "powersave"], **asked)
    assert not any("It misses" in line for line in first.findings())


def test_response_times_that_the_cold_start_decides_are_named() -> None:
    """Rows have percentiles of all activations, so that no start can be taken out of them."""
    asked: dict[str, Any] = {"governors": ["performance", "schedutil"], "iterations": 2, "uncertainty": 0, "jobs": 2}
    words = "the first 0.2 s, when load tracking starts from 0 (--seconds over 20 leaves p99 free of it)"
    task = {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 100000}}
    load = opplab.Workload.parse(json.dumps({"global": LOAD["global"], "tasks": {"t": task}}), name="load")

    def told(seconds: float, **more: Any) -> str:
        return opplab.choose("pixel4", load, seconds=seconds, **asked, **more).block().assumed

    limit = {"constraints": ["response_p99 <= 90ms"]}
    assert f"response_p99 counts {words}" in told(2, **limit)
    assert "when load tracking starts" not in told(21, **limit)
    read = told(2, goals=["energy"], constraints=["response_p50 <= 90ms"])
    assert f"response_p99 counts {words}" in read, "its change is in the table, and p50 is free of the start"
    assert "response_max counts the first 0.2 s, when load tracking starts from 0." in told(21, goals=["response_max"])


def test_fewer_draws_than_an_interval_needs_have_none(choice: opplab.Choice) -> None:
    words = choice.block().assumed
    assert "drawn 8 times; no intervals: these need 40 draws" in words
    assert words.endswith("Next: --uncertainty 40.")
    assert "Values are means; intervals need 40 draws." in page(choice)


@pytest.mark.parametrize(
    ("load", "asked", "words"),
    [
        ("load", {"goals": ["enery"]}, "there is no metric `enery` in these runs; did you mean `energy`"),
        ("load", {"goals": ["energy", "latency_p999"]}, "`latency_p999` in these runs; did you mean `latency_p99`"),
        ("load", {"goals": ["migrations"]}, "neither more nor less of `migrations` is better"),
        ("load", {"goals": ["transactions"]}, "there is no metric `transactions` in these runs"),
        ("sqlite", {"goals": ["transaction"]}, "`transaction` in these runs; did you mean `transactions`"),
        ("load", {"constraints": ["mised <= 1%"]}, "`mised` in these runs; did you mean `missed"),
        ("load", {"constraints": ["response_p99 <= 5J"]}, "response_p99 is in ms, not in J"),
        ("load", {"constraints": ["power:big <= 5ms"]}, "power:big is in W, not in ms"),
    ],
)
def test_a_goal_that_no_run_can_have_is_refused_before_one_runs(
    load: str, asked: dict[str, list[str]], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def own(*_: Any) -> None:
        raise AssertionError("a run has begun")

    monkeypatch.setattr("opplab.choice.choose._Runner.own", own)
    with pytest.raises(opplab.InputError, match=re.escape(words)):
        opplab.choose("juno-r2", workload() if load == "load" else load, **asked)


@pytest.mark.parametrize(
    "asked",
    [
        {"goals": ["response_p99"], "constraints": ["energy_per_work <= 40"]},
        {"goals": ["response_p99"], "constraints": ["power <= 40"]},
        {"goals": ["response_p99", "power"]},
        {"goals": ["energy:pkg0"]},
    ],
)
def test_a_machine_without_power_has_the_reason_why_no_energy_is_known(asked: dict[str, list[str]]) -> None:
    with pytest.raises(opplab.InputError, match="energy is unknown: the machine has no power"):
        opplab.choose("sapphire-rapids-8460h-4s", workload(), seconds=0.1, iterations=1, jobs=1, **asked)


def test_an_unknown_metric_does_not_list_those_of_each_cpu() -> None:
    with pytest.raises(opplab.InputError, match="no metric `qqqq` in these runs") as refused:
        quick("skylake-sp-2s", workload(), goals=["qqqq"], seconds=0.1, iterations=1)
    assert len(str(refused.value)) < 100, refused.value


def test_what_the_runs_lack_is_refused_before_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: Any) -> None:
        raise AssertionError("a draw has begun")

    monkeypatch.setattr("opplab.choice.choose._Runner.drawn", drawn)
    with pytest.raises(opplab.InputError, match="there is no metric `power:bog` in these runs"):
        opplab.choose("juno-r2", workload(), goals=["power:bog"], seconds=0.1, iterations=1, jobs=1)


def test_metrics_that_are_known_before_a_run_have_the_percentiles_of_runs() -> None:
    from opplab.metrics import PERCENTILES

    found = opplab.simulate("juno-r2", workload(), seconds=0.2).metrics["metric"].to_list()
    assert [name for name in found if name.startswith("response_")] == [f"response_{name}" for name in PERCENTILES]


def test_a_benchmark_has_its_parameters_and_an_end() -> None:
    """As under `run`: `--param`, and a sentence where `--seconds` cuts what would have ended."""
    base = ["choose", "hackbench", "-m", "juno-r2", "--governor", "performance,powersave", "--uncertainty", "0"]
    base += ["--iterations", "2", "-j", "2"]

    def chosen(*words: str, code: int = 0) -> str:
        done = called(*base, *words, columns=300)
        assert done.exit_code == code, f"{done.output}{done.exception}"
        return " ".join(f"{done.output}{done.exception or ''}".split())

    whole = chosen("--param", "groups=2", "--param", "loops=20")
    assert "Which setting for hackbench groups 2 loops 20 on juno-r2?" in whole
    assert "at most 600 s a run" in whole
    assert "elapsed, s" in whole
    cut = "elapsed is missing in 2 of 4 runs, which did not end within 3 s (a longer --seconds lets them end)"
    assert f"{cut}; energy and work are of the part that ran." in chosen("--seconds", "3")
    assert cut in chosen("--seconds", "3", "--goal", "elapsed", code=1)
    assert "give one value" in chosen("--param", "groups=2,3", code=2)


def test_what_some_settings_lack_is_no_goal() -> None:
    point = ("juno-r2", "load", "")
    values = {(point, "performance", "response_p99"): Values({0: 1.0}, {})}
    units, labels = {"response_p99": ("ms", "lower")}, ["performance", "powersave"]
    with pytest.raises(opplab.InputError, match="no run of powersave has the metric response_p99"):
        _check_measured(values, units, point, labels, ["response_p99"], [], "", "")


def test_a_share_that_few_draws_have_is_kept_by_the_others() -> None:
    """Goal: a constraint of 0 holds in the draws in which nothing was missed."""
    own = {0: 0.0, 1: 0.0}
    some = Values(own, {draw: {0: 4.0 * (draw == 3), 1: 0.0} for draw in range(10)})
    nothing = Values(own, {draw: dict.fromkeys(own, 0.0) for draw in range(10)})
    draws = Draws({}, {}, [], 1)
    kept = (_samples([some, nothing], draws, share=True) <= 0).mean(axis=0)
    assert 0.85 < kept[0] < 0.95 and kept[1] == 1.0
    moved = (_samples([some, nothing], draws, share=False) > 0)[:, 0]
    assert 0.85 < moved.mean() < 0.95, "drawn together, as means of a rate are, but for the machine's own numbers"


def test_a_constraint_that_tests_nothing_after_the_start_is_named() -> None:
    asked: dict[str, Any] = {"governors": ("schedutil", "performance"), "seconds": 1, "iterations": 2, "uncertainty": 0}
    load = opplab.Workload.periodic(8, run_us=2000, period_us=16000)
    text = str(opplab.choose("juno-r2", load, constraints=["missed <= 0"], **asked))
    line = (
        "The constraint missed <= 0 tests nothing here: missed_activations is 0 % "
        "(misses of the first 0.2 s not counted) under every setting."
    )
    assert line in " ".join(text.split())


def test_a_driver_beside_another_is_chosen_at_boot() -> None:
    machine = {"driver": [{"name": "acpi-cpufreq"}, {"name": "amd-pstate"}], "cluster": []}
    setting = Setting((("driver", "amd-pstate"), ("governor", "schedutil")))
    lines = commands_of(setting, machine)
    assert any(line.endswith("on the kernel's command line: amd_pstate=passive") for line in lines)
    assert not any("status" in line for line in lines)
    alone = commands_of(setting, {**machine, "driver": [{"name": "amd-pstate-epp"}, {"name": "amd-pstate"}]})
    assert "passive > /sys/devices/system/cpu/amd_pstate/status" in alone[0]


def test_a_choice_has_the_digits_and_the_timers_of_a_run(tmp_path: Path) -> None:
    """A timer that tasks share makes their load a part of what it looks like, under either command."""
    digits = {12.3: "12.30", 0.5: "0.5000", 123456.0: "123456", 0.0: "0"}
    assert {value: value_words(Parts(value, None, None, None, None)) for value in digits} == digits
    tasks = {name: {"loop": 20, "run": 500, "timer": {"ref": "tick", "period": 10000}} for name in ("a", "b")}
    file = tmp_path / "shared.json"
    file.write_text(json.dumps({"tasks": tasks}))
    words = "2 tasks share a timer of 10 ms: one of them is due each time, so that their load is 5 % of a CPU, not 10 %"
    short = ["-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.1", "--iterations", "1"]
    for more in (["run", "-o", str(tmp_path / "o")], ["choose", "--uncertainty", "0"]):
        done = answered(more[0], file, *short, *more[1:], columns=400)
        assert words in " ".join(done.stdout.split())


def test_features_of_the_scheduler_are_words_on_a_command_line(tmp_path: Path) -> None:
    """`--vs sched_features=NO_UTIL_EST` wanted a list, which a command line had to quote as TOML.

    Method: the list's runs are the same, and differ from the baseline's; a wrong name is refused.
    """
    task = {"instance": 3, "loop": -1, "run": 4000, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "w.json").write_text(json.dumps({"tasks": {"t": task}}))
    run = ["run", str(tmp_path / "w.json"), "-m", "juno-r2", "--seconds", "1", "--iterations", "1", "--format", "json"]

    def energies(*vs: str) -> list[float]:
        words = [*run, "-o", str(tmp_path / f"out{len(vs[0])}"), *(word for one in vs for word in ("--vs", one))]
        rows = json.loads(answered(*words).stdout)["rows"]
        return [row["mean"] for row in rows if row["metric"] == "energy"]

    base, word = energies("sched_features=NO_UTIL_EST,NO_NEXT_BUDDY")[:2]
    assert energies('sched_features=["NO_UTIL_EST","NO_NEXT_BUDDY"]')[:2] == [base, word]
    assert word != base
    wrong = called(*run, "--vs", "sched_features=NO_UTIL_EST,UTIL")
    assert "unknown feature of the scheduler `UTIL`" in str(wrong.exception)


def test_a_case_without_work_is_the_same_machine_and_time() -> None:
    """Goal: what power at equal work takes for a machine that has nothing to do."""
    load = opplab.Workload.periodic(3, run_us=2000, period_us=8000)
    program = program_of("juno-r2", load, seconds=0.4, seeds=[1, 2], keys={})
    (idle,) = program.idle().bases
    assert {key for key in idle if idle[key] != program.bases[0][key]} == {"benchmark", "workload"}
    outcome = _opplab.Case.from_json(json.dumps(idle)).run(False, True)
    assert (idle["benchmark"], outcome["activations"], outcome["wall_ns"]) == (_opplab.IDLE, 0, 400_000_000)
    assert [task["name"] for task in idle["workload"]["tasks"]] == [_opplab.IDLE]
    assert not any(metric == "work_done" and value for metric, _, _, value in outcome["rows"])


def test_the_start_is_that_of_the_iteration_where_it_is_longest() -> None:
    """`choose` named the first seed's start, and `run` the last one's."""
    from opplab.simulation.cases import Case
    from opplab.simulation.simulate import build_case
    from opplab.summary.answer import latest_begun_ns

    tasks = {"t": {"instance": 9, "loop": -1, "run": 900, "sleep": 4000}}
    load = opplab.Workload.parse(json.dumps({"tasks": tasks}), name="w", file="<w>")
    machine = opplab.Machine.load("juno-r2")
    cases = [build_case(machine, load, opplab.Policy(), seconds=1.0, seed=seed) for seed in (1, 2, 3)]
    begun = [case.begun_ns() for case in cases]
    assert len(set(begun)) == 3

    likes = [Case.of(case) for case in cases]
    assert latest_begun_ns(likes[0], likes) == max(begun)


@pytest.mark.parametrize(("command", "draws"), [("choose", 0), ("choose", 40), ("run", 40)])
def test_one_iteration_has_no_interval_and_names_what_has(command: str, draws: int, tmp_path: Path) -> None:
    """Goal: the last line promises no intervals that the tables do not have, and its next step gives them."""
    load = tmp_path / "load.json"
    load.write_text('{"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "t", "period": 16000}}}}')
    words = [command, str(load), "-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.2"]
    words += ["--uncertainty", str(draws), "-o", str(tmp_path / "out")]
    for iterations, promised in ((1, False), (2, True)):
        done = answered(
            *words, "--iterations", str(iterations), "--replace" if command == "run" else "--all", columns=900
        )
        last = next(line for line in done.stdout.splitlines() if line.startswith("Assumed: "))
        assert ("intervals cover" in last) is promised
        assert ("no intervals: these need 2 iterations" in last) is not promised
        assert ("Next: --iterations 2 or more." in last) is not promised
        if command == "choose":
            text = (tmp_path / "out" / "report.html").read_text()
            of = "the variation of runs and the ranges of assumed values" if draws else "the variation of runs alone"
            assert (f"Values are means with 95 % intervals, which cover {of}." in text) is promised
            assert ("Values are means; intervals need 2 iterations." in text) is not promised
            assert ("Lines are intervals." in text) is promised
        if command == "choose" and draws:
            each = f"runs of each: {iterations}, and {iterations} at each of 39 other draws"
            assert each in done.stdout
            # Of two settings each, and of their idle runs.
            cases = re.findall(r"^(\d+)/\1 cases", done.stderr, re.MULTILINE)
            assert int(cases[1]) == 2 * (iterations + 1) * 39


@pytest.mark.parametrize(
    "words", [["--goal", "response_p99"], ["--constraint", "response_p99 <= 16ms"], ["--goal", "missed"]]
)
def test_responses_of_work_without_timers_are_refused_before_a_run(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All settings ran before the refusal; misses of nothing that was due were 0 %, and all settings the best.

    Second way: a run of the engine, which has no activation and no response.
    """
    path = tmp_path / "load.json"
    path.write_text('{"tasks": {"t": {"loop": -1, "run": 1000, "sleep": 5000}}}')
    run = opplab.simulate("juno-r2", opplab.Workload.load(path), seconds=0.2)
    found = dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))
    assert found["activations"] == 0 and found.get("response_p99") is None
    ran: list[object] = []
    monkeypatch.setattr("opplab.choice.choose._Runner.own", lambda self, cases: ran.append(cases))
    short = ["-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.2", "--uncertainty", "0"]
    refused = called("choose", path, *short, *words)
    assert "no task waits for a timer" in str(refused.exception) and not ran
    # With timers it runs.
    path.write_text('{"tasks": {"t": {"loop": -1, "run": 1000, "timer": {"ref": "t", "period": 5000}}}}')
    called("choose", path, *short, *words)
    assert ran


def test_too_few_draws_are_named_before_they_run(tmp_path: Path) -> None:
    """`run --uncertainty 24` had the line at once; `choose` ran all, and then said that 40 are needed."""
    file = tmp_path / "load.json"
    file.write_text(json.dumps(LOAD))
    short = ("-m", "juno-r2", "--governor", "schedutil,performance", "--seconds", "0.1", "--iterations", "2")
    lines = answered("choose", file, *short, "--uncertainty", "24").stderr.splitlines()
    told = "24 draws judge no assumed number: an interval of 95 % needs --uncertainty 40"
    (at,) = [number for number, line in enumerate(lines) if told in line]
    assert not any("cases" in line for line in lines[:at])
    assert "judge no assumed number" not in answered("choose", file, *short, "--uncertainty", "0").stderr
