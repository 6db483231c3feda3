"""What answers say that their numbers do not hold."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

import opplab
from opplab import _opplab, results
from opplab.certainty import NO_PREFERENCE
from opplab.errors import InputError
from opplab.fit.machine_power import generic_power
from opplab.simulation.cases import Case
from opplab.simulation.simulate import build_case
from opplab.summary import caveats
from opplab.summary.caveats import eas_off, of_settings
from opplab.sweep.missing import missing

from calls import answered, called
from testdata import shared

LAPTOP = ("--driver", "intel_pstate", "--governor", "powersave", "--seconds", "0.3", "--iterations", "1")


@pytest.fixture
def load(tmp_path: Path) -> Path:
    task = {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}
    file = tmp_path / "load.json"
    file.write_text(json.dumps({"tasks": {"t": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    return file


def told(load: Path, *words: str) -> str:
    done = answered("run", load, *LAPTOP, *words, columns=300)
    return " ".join(done.stdout.split())


def test_what_a_passive_mode_lacks_is_named_where_the_governor_alone_chooses_the_mode(
    load: Path, tmp_path: Path
) -> None:
    """Goal: schedutil, under which intel_pstate is intel_cpufreq, is not taken for the active mode at boot."""
    words = ("--vs", "hwp_dynamic_boost=on", "--vs", "no_hwp=true epp=power", "--seconds", "0.1", "--iterations", "1")
    done = answered("run", load, "-m", "kaby-lake-i7-7500u-gpu", *words, "-o", tmp_path / "out", columns=300)
    assert "hwp_dynamic_boost=on: intel_cpufreq has no hwp_dynamic_boost: on does nothing" in done.stdout
    assert "intel_cpufreq has no energy performance preference without HWP: epp does nothing" in done.stdout


def test_settings_that_the_driver_refuses_are_named(load: Path, tmp_path: Path) -> None:
    words = ("-m", "kaby-lake-i7-7500u-gpu", "-o", str(tmp_path / "out"))
    refused = ("governor=performance epp=power", "no_hwp=true epp=power", "no_hwp=true hwp_dynamic_boost=on")
    passive = "driver=intel_cpufreq governor=schedutil hwp_dynamic_boost=on"
    variants = ("governor=performance epp=0", *refused, passive, "kernel=5.4 epp=100", "kernel=5.9 epp=100")
    shown = told(load, *words, *(word for text in variants for word in ("--vs", text)))
    assert "performance epp=power: intel_pstate refuses the preference power under its governor performance" in shown
    assert "refuses the preference 0" not in shown
    assert "no_hwp=true epp=power: intel_pstate has no energy performance preference without HWP: epp does" in shown
    assert "without HWP there is no hwp_dynamic_boost: on does nothing" in shown
    assert "intel_cpufreq has no hwp_dynamic_boost: on does nothing" in shown
    numbered = (
        "kernel=5.4 epp=100: intel_pstate takes preferences by name alone before kernel 5.9: its file refuses 100"
    )
    assert f"{numbered}, which the runs have" in shown
    assert "kernel=5.9 epp=100: intel_pstate takes" not in shown
    assert "without HWP" not in told(load, *words[:3], str(tmp_path / "two"), "--vs", "no_hwp=true")


@pytest.mark.parametrize(
    ("machine", "driver", "words"),
    [
        ("broadwell-80x-numa", "intel_pstate", "intel_pstate has no energy performance preference without HWP"),
        ("epyc-7502-2s", "acpi-cpufreq", "acpi-cpufreq has no energy performance preference"),
        ("epyc-7502-2s", "amd-pstate", "amd-pstate has no energy performance preference"),
    ],
)
def test_preferences_where_there_are_none_do_nothing(
    load: Path, tmp_path: Path, machine: str, driver: str, words: str
) -> None:
    """A processor without HWP refused the preference by its answer, as if there were one."""
    about = ["run", str(load), "-m", machine, "--driver", driver, "--governor", "performance", "--seconds", "0.1"]
    about += ["--iterations", "1", "-o", str(tmp_path / "out"), "--vs", "epp=power", "--vs", "epp=balance_power"]
    shown = " ".join(answered(*about).stdout.split())
    assert f"epp=power, epp=balance_power: {words}: epp does nothing." in shown
    assert "refuses" not in shown


def test_a_boost_that_the_kernel_does_not_have_is_named_and_does_nothing(load: Path, tmp_path: Path) -> None:
    words = ("-m", "skylake-sp-2s", "--kernel", "4.17", "-o", str(tmp_path / "out"))
    shown = told(load, *words, "--vs", "hwp_dynamic_boost=on")
    assert "hwp_dynamic_boost=on: gate hwp_dynamic_boost is absent in kernel 4.17: on does nothing" in shown
    assert "hwp_dynamic_boost=on changes nothing here" in shown
    series = (*words[:4], "--gate", "hwp_dynamic_boost=skylake-servers", "-o", str(tmp_path / "series"))
    assert "is absent" not in told(load, *series, "--vs", "hwp_dynamic_boost=on")


def test_a_boost_by_the_model_of_an_unknown_processor_is_named(load: Path, tmp_path: Path) -> None:
    """Goal: before 6.4 the default is that of the model, which a machine's file may not have."""
    tree = tomllib.loads(opplab.Machine.load("skylake-sp-2s").to_toml())
    del tree["processor"], tree["source"]["processor"]
    (tmp_path / "bare.toml").write_text(opplab.Machine.from_tree(tree).to_toml())

    def of(kernel: str, *more: str) -> str:
        folder = tmp_path / "-".join((kernel, *more)).replace("=", "-")
        return told(load, "-m", str(tmp_path / "bare.toml"), "--kernel", kernel, *more, "-o", str(folder))

    assert "has no [processor]: kernel 6.1 boosts after I/O by default on Skylake servers only" in of("6.1")
    for kernel, *more in (
        ("6.12",),
        ("4.17",),
        ("6.1", "--set", "hwp_dynamic_boost=off"),
        ("6.1", "--set", "no_hwp=true"),
    ):
        assert "[processor]" not in of(kernel, *more)


def test_a_refused_sampling_rate_leaves_what_the_engine_has(load: Path, tmp_path: Path) -> None:
    """A driver without a transition latency samples every 6.4 s on v6.12; the row claimed 8 ms, and ran with that."""
    text = opplab.Machine.load("juno-r2").to_toml()
    (tmp_path / "bare.toml").write_text(re.sub(r"transition_latency_us = \d+", "transition_latency_us = 0", text))
    machine = str(tmp_path / "bare.toml")
    policy = opplab.Policy(governor="ondemand", kernel="6.12", tunables={"sampling_rate": 500})
    samples = opplab.simulate(machine, str(load), policy, seconds=1).events("dbs_decision").height
    rate = {"governor": "ondemand", "kernel": "6.12", "tunables": {"sampling_rate": 6442450}}
    assert (
        samples == opplab.simulate(machine, str(load), opplab.Policy(**rate), seconds=1).events("dbs_decision").height
    )
    run = ["run", str(load), "-m", machine, "--governor", "ondemand", "--kernel", "6.12", "--seconds", "0.2"]
    done = called(*run, "--tunable", "sampling_rate=500", "-o", tmp_path / "out", columns=300)
    assert "less than two ticks: its default, 6442450, stays" in " ".join(done.output.split()), done.output


def of_conservative(load: Path, folder: Path, *words: str) -> Result:
    run = ["run", str(load), "-m", "juno-r2", "--governor", "conservative", "--seconds", "0.2", "--iterations", "2"]
    return called(*run, *words, "-o", folder / "out", columns=300)


def test_a_sampling_rate_that_the_kernel_refuses_leaves_its_default_in_the_row(load: Path, tmp_path: Path) -> None:
    """Goal: rows have the value that runs: two ticks, or the driver's transition delay where that is longer."""
    done = of_conservative(load, tmp_path, "--vs", "sampling_rate=500", "--vs", "sampling_rate=8000")
    shown = " ".join(done.stdout.split())
    refused = "the kernel refuses sampling_rate=500, less than two ticks: its default, 8000, stays"
    assert f"sampling_rate=500: {refused}." in shown
    assert shown.count("sampling_rate=500") == 2, "no row is called so"
    assert "refuses sampling_rate=8000" not in shown
    text = opplab.Machine.load("juno-r2").to_toml()
    slow = text.replace('name = "scmi"\n', 'name = "scmi"\ntransition_delay_us = 20000\n')
    (tmp_path / "slow.toml").write_text(slow)
    run = ["run", str(load), "-m", str(tmp_path / "slow.toml"), "--governor", "conservative", "--seconds", "0.2"]
    done = called(*run, "--vs", "sampling_rate=500", "-o", tmp_path / "slow", columns=300)
    shown = " ".join(done.stdout.split())
    assert "its default, 20000, stays" in shown
    assert "sampling_rate=20000 changes nothing here: its runs are those of conservative" in shown
    policy = opplab.Policy(governor="conservative", tunables={"sampling_rate": "500"})
    run_of = [opplab.Machine.parse(slow), opplab.Workload.load(load), policy]
    words, _ = of_settings([Case.of(build_case(*run_of, seconds=0.2, seed=1))])
    assert words.endswith("its default, 20000, stays."), "an experiment of one's own"


def test_a_change_of_a_wait_that_the_start_may_decide_is_named_in_runs_and_comparisons(
    load: Path, tmp_path: Path
) -> None:
    """Goal: 10 % of a run of 2 s are its start, which may be all that is above p99. Method: runs of two lengths."""
    words = "response_p99 counts the first 0.2 s (--seconds over 20 leaves p99 free of it)"

    def shown(*command: str) -> str:
        done = answered(*command, columns=300)
        return " ".join(done.stdout.split())

    of = ["run", str(load), "-m", "juno-r2", "--governor", "performance", "--vs", "governor=powersave"]
    short, long = str(tmp_path / "short"), str(tmp_path / "long")
    assert words in shown(*of, "--seconds", "2", "-o", short)
    assert words in shown("compare", short, "--metric", "response_p99")
    assert words not in shown("compare", short), "its table has no wait"
    assert "the first 0.2 s" not in shown(*of, "--seconds", "21", "--iterations", "2", "-o", long)
    assert "the first 0.2 s" not in shown("compare", long, "--metric", "response_p99")


def test_runs_in_which_placement_was_not_energy_aware_are_counted(tmp_path: Path) -> None:
    """Goal: a mean over runs with and without EAS is called so. Method: shares by hand, then more work than CPUs."""
    eas: dict[str, dict[str, Any]] = {"schedutil": {"eas": True}, "eas=false": {"eas": False}}
    on, off = [0.0, 0.0], [100.0, 100.0]
    words = "most of the time in 2 of 4 runs of schedutil (metric overutilized)."
    assert eas_off({("a", "schedutil"): [1.2, 99.8, 0.4, 50.0], ("a", "eas=false"): on}, eas).endswith(words)
    assert eas_off({("a", "schedutil"): on, ("a", "eas=false"): on}, eas) == ""
    assert "2 of 4 runs of schedutil" in eas_off({("a", "schedutil"): off, ("b", "schedutil"): on}, eas)
    assert eas_off({("a", "schedutil"): off, ("a", "hz=1000"): off}, {"schedutil": {}, "hz=1000": {}}) == ""
    assert "1 of 2 runs of schedutil and 2 of 2 runs of x" in eas_off(
        {("a", "schedutil"): [0.0, 99.0], ("a", "x"): off}, {"schedutil": {"eas": True}, "x": {"eas": False}}
    )
    task = {"instance": 12, "loop": -1, "run": 15000, "timer": {"ref": "unique", "period": 16000}}
    file = tmp_path / "full.json"
    file.write_text(json.dumps({"tasks": {"t": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    command = ["run", str(file), "-m", "pixel4", "--vs", "eas=false", "--seconds", "0.3", "--iterations", "2"]
    done = called(*command, "-o", tmp_path / "out", columns=300)
    shown = " ".join(done.stdout.split())
    words = "Energy-aware placement was off for overload most of the time in 2 of 2 runs of schedutil"
    assert words in shown
    load = opplab.Workload.load(file)
    options: dict[str, Any] = {"seconds": 0.3, "iterations": 1, "uncertainty": 0, "jobs": 1}
    found = opplab.choose("pixel4", load, governors=("schedutil",), variants=("eas=false",), **options)
    assert words.replace("2 of 2", "1 of 1") in str(found).replace("\n", " ")


def _run_of_eight(folder: Path, machine: str) -> list[str]:
    """Give the command that runs eight busy tasks on a machine of that folder."""
    task = {"instance": 8, "loop": -1, "run": 8000, "timer": {"ref": "unique", "period": 10000}}
    file = folder / "eight.json"
    file.write_text(json.dumps({"tasks": {"t": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    return ["run", str(file), "-m", str(folder / f"{machine}.toml"), "--governor", "performance", "--seconds", "0.2"]


def test_cores_that_boost_as_one_alone_are_named(tmp_path: Path) -> None:
    """Goal: watts and waits of all cores at the boost of one are assumed. Method: an imported EPYC, two loads."""
    text, _ = generic_power(_opplab.import_machine(str(shared("data/pepc/rome0.tar.xz")))[0].renamed("rome").to_toml())
    (tmp_path / "rome.toml").write_text(text)
    machine = opplab.Machine.parse(text)
    words = "busy CPUs of a package of rome boost as one core alone does, to 3.41 GHz: what more cores get is unknown"

    def found(tasks: int, **policy: bool) -> str:
        load = opplab.Workload.periodic(tasks, run_us=8000, period_us=10000)
        options: dict[str, Any] = {"seconds": 0.2, "iterations": 1, "uncertainty": 0, "jobs": 1}
        return (
            opplab.choose(machine, load, governors=("performance", "ondemand"), policy=policy, **options)
            .block()
            .finding
        )

    assert words in found(8).splitlines()[1], "directly behind what is recommended"
    assert "boost as one core" not in found(1)
    assert "boost as one core" not in found(8, no_turbo=True)
    run = _run_of_eight(tmp_path, "rome")
    done = called(*run, "-o", tmp_path / "out", columns=300)
    assert words in " ".join(done.stdout.split())


def test_turbo_without_clocks_is_named(tmp_path: Path) -> None:
    """Goal: no answer is silent that turbo is there and not in the runs. Method: a dump without its registers."""
    tree = _opplab_tree("data/pepc/icxd0.tar.xz")
    assert [opp["khz"] for opp in tree["cluster"][0]["opp"]][-2:] == [2_000_000, 2_001_000]
    whole = opplab.Machine.from_tree(tree)
    for cluster in tree["cluster"]:
        del cluster["turbo"]
    bare = opplab.Machine.from_tree(tree)
    words = "turbo of xeon is unknown: runs are at most at the base clock of 2000 MHz"
    load = opplab.Workload.periodic(8, run_us=8000, period_us=10000)

    def choice(machine: opplab.Machine, **policy: bool) -> Any:
        options: dict[str, Any] = {"seconds": 0.2, "iterations": 1, "uncertainty": 0, "jobs": 1}
        return opplab.choose(machine, load, governors=("performance", "powersave"), policy=policy, **options)

    found = choice(bare)
    assert words[1:] in found.findings()[1], "directly behind what is recommended"
    assert words[1:] in json.loads(found.to_json())["missing"][0]
    found.write(tmp_path / "choice.html")
    assert words[1:] in (tmp_path / "choice.html").read_text()
    assert words[1:] not in str(choice(whole)) and words[1:] not in str(choice(bare, no_turbo=True))

    (tmp_path / "xeon.toml").write_text(bare.to_toml())
    run = _run_of_eight(tmp_path, "xeon")
    done = answered(*run, "-o", tmp_path / "out", columns=300)
    assert words in " ".join(done.stdout.split())
    assert words in (tmp_path / "out" / "report.html").read_text()
    assert words in answered(*run, "-o", tmp_path / "json", "--format", "json").stdout


def _opplab_tree(dump: str) -> dict[str, Any]:
    """Give the tables of a dump's machine, by the name xeon, with a generic curve's power."""
    text, _ = generic_power(_opplab.import_machine(str(shared(dump)))[0].renamed("xeon").to_toml())
    return opplab.Machine.parse(text).tree


def test_a_variant_that_cannot_run_is_refused_before_others_run(load: Path, tmp_path: Path) -> None:
    done = of_conservative(load, tmp_path, "--vs", "up_threshold=10")
    assert isinstance(done.exception, InputError)
    assert 'up_threshold=10 on juno-r2 cannot run: tunable up_threshold of conservative is "10"' in str(done.exception)


def test_notes_of_settings_begin_with_the_variants_that_they_are_of(tmp_path: Path) -> None:
    """A note of a sentence's end and a small letter read like a part of the sentence before."""
    task = {"loop": 20, "policy": "SCHED_FIFO", "run": 2000, "timer": {"ref": "t", "period": 10000}}
    file = tmp_path / "rt.json"
    file.write_text(json.dumps({"tasks": {"t": task}}))
    command = ["run", str(file), "-m", "pixel6", "--seconds", "0.1", "--iterations", "1", "--governor"]
    command += ["schedutil,performance", "--vs", "uclamp=absent", "-o", str(tmp_path / "a")]
    shown = " ".join(called(*command, columns=300).stdout.split())
    assert "schedutil, performance: nothing shows how the kernel was built" in shown


def test_governors_of_two_drivers_are_named(load: Path, tmp_path: Path) -> None:
    words = ["run", str(load), "-m", "kaby-lake-i7-7500u-gpu", "--seconds", "0.3", "--iterations", "1"]

    def shown(*more: str, folder: str) -> str:
        done = answered(*words, *more, "-o", tmp_path / folder, columns=300)
        return " ".join(done.stdout.split())

    both = shown("--governor", "schedutil,performance,powersave", folder="both")
    named = "performance, powersave run under intel_pstate, and schedutil under intel_cpufreq: changes on"
    assert named in both
    one = ("--governor", "schedutil,powersave")
    assert "of the driver, too" not in shown(*one, "--driver", "intel_cpufreq", folder="one")
    assert "of the driver, too" not in shown("--vs", "driver=intel_pstate governor=powersave", folder="said")


def test_a_gpu_hides_no_lateness_and_is_named_beside_the_power(load: Path, tmp_path: Path) -> None:
    shown = told(load, "-m", "kaby-lake-i7-7500u-gpu", "-o", str(tmp_path / "out"))
    assert "response p50/p99" in shown
    assert "missed" in shown
    assert "its CPUs': gpu draws beside them (energy:gpu)" in shown


def test_preferences_that_nobody_measured_are_named(load: Path, tmp_path: Path) -> None:
    """By the numbers that names have on the processor's model: 102 on Alder Lake's laptops, 128 on Kaby Lake's."""
    words = ("--power", "generic", "-o", str(tmp_path / "a"), "-m", "alder-lake-i7-1260p")
    shown = told(load, *words, "--vs", "epp=power", "--vs", "epp=balance_performance", "--vs", "epp=128")
    which = "102 (default, balance_performance), 255 (power)"
    assert f"the energy preference {which} is assumed, and in no draw: only 128 was measured." in shown
    assert "epp=balance_performance changes nothing here" in shown
    assert "is its packages awake, at any load" in shown
    measured = ("--vs", "governor=performance", "-o", str(tmp_path / "b"), "-m", "kaby-lake-i7-7500u")
    assert "was measured" not in told(load, *measured, "--power", "generic")


@pytest.mark.parametrize(
    ("words", "which"),
    [
        (("kaby-lake-i7-7500u-gpu", "intel_pstate", "--epp", "balance_performance,power"), "255 (power)"),
        (("epyc-7742-2s", "amd-pstate-epp", "--epp", "balance_performance,128"), "128 (balance_performance)"),
    ],
)
def test_a_choice_names_the_preferences_that_it_assumes(load: Path, words: tuple[str, ...], which: str) -> None:
    machine, driver, *epp = words
    asked = ("-m", machine, "--driver", driver, "--governor", "powersave,performance", *epp)
    short = ("--seconds", "0.3", "--iterations", "2", "--uncertainty", "0")
    done = answered("choose", load, *asked, *short, columns=300)
    on = "none was measured on AMD" if driver.startswith("amd") else "only 128 was measured"
    assert f"the energy preference {which} is assumed, and in no draw: {on}." in " ".join(done.stdout.split())


def test_a_choice_names_the_power_of_packages_awake_as_a_run_does(load: Path, tmp_path: Path) -> None:
    """Goal: 5 % of the total is not read as 5 % of what the CPUs draw, in whichever answer."""
    words = ["-m", "epyc-zen1-1s", "--seconds", "0.2", "--iterations", "2"]
    notes = []
    for more in (["run", "-o", str(tmp_path / "out")], ["choose", "--uncertainty", "0"]):
        asked = [more[0], str(load), *words, *more[1:], "--governor", "schedutil,performance"]
        done = answered(*asked, columns=900)
        (note,) = re.findall(r"[\d.]+ W of the power of \S+ \([^)]*\) is its packages awake[^.]*\.", done.stdout)
        notes.append(note)
    assert notes[0] == notes[1]


def test_what_packages_draw_is_no_more_than_the_whole(tmp_path: Path) -> None:
    """By hand: 2 x 28.23 W idle at 1 GHz of 29.5 + 28.23 + 0.4836 W; it was 59 W, both awake, of 58.21 W."""
    (tmp_path / "spin.json").write_text('{"tasks": {"spin": {"run": 20000000, "cpus": [0]}}}')
    words = ["run", str(tmp_path / "spin.json"), "-m", "xeon-6130-2s", "--governor", "powersave", "--seconds", "1"]
    shown = answered(*words, "-o", str(tmp_path / "out"), columns=900).stdout
    assert "power 58.21 W" in shown
    assert "56.5 W of the power of xeon-6130-2s (97 %) is its packages even if all their CPUs idle" in shown


def test_clusters_without_power_are_named_and_no_joules_are_judged(load: Path, tmp_path: Path) -> None:
    """Goal: an answer without joules says which power is missing, and nothing about joules that it does not have."""
    tree = tomllib.loads(opplab.Machine.load("juno-r2").to_toml())
    for cluster in tree["cluster"]:
        known = 1000 * (cluster["name"] == "A53")
        cluster["opp"] = [{"khz": opp["khz"], "uw": number * known} for number, opp in enumerate(cluster["opp"], 1)]
        cluster["idle"] = [state | {"uw": 0} for state in cluster["idle"]]
        cluster.pop("cluster_idle_uw", None)
        cluster.pop("cluster_idle", None)
    tree["range"] = {}
    (tmp_path / "half.toml").write_text(opplab.Machine.from_tree(tree).to_toml())
    words = ["run", str(load), "-m", str(tmp_path / "half.toml"), "--seconds", "0.1", "-o", str(tmp_path / "out")]
    done = answered(*words, columns=900)
    assert "energy is unknown: cluster A72 of juno-r2 has no power." in done.stdout
    assert "joules" not in done.stdout
    assert "cluster A72 of juno-r2 has no power" in (tmp_path / "out" / "report.html").read_text()


def test_a_clock_that_light_work_never_lowers_is_named(tmp_path: Path) -> None:
    """schedutil keeps the clock of the first milliseconds under short writes, unless a boost asks for a high one."""
    words = ["run", "sqlite", "-m", "kaby-lake-i7-7500u", "--power", "generic", "--driver", "intel_cpufreq"]
    words += ["--governor", "schedutil", "--vs", "proposal=no-iowait-boost", "--seconds", "2", "--iterations", "2"]
    # Completions of a disk with one interrupt are work for CPU 0, under which clocks fall, too.
    words += ["--param", "disk=nvme"]
    for background, is_held in ((), True), (("--background", "debian-12-idle"), False):
        out = ("-o", str(tmp_path / str(is_held)))
        done = answered(*words, *background, *out, columns=300)
        held = "The clock under no-iowait-boost is that of the first milliseconds"
        assert (held in " ".join(done.stdout.split())) is is_held
        assert "sqlite is not calibrated on kaby-lake-i7-7500u: its constants are the model's own" in done.stderr
    shown = called("explain", f"{tmp_path / 'True'}:schedutil #0", "--cpu", "1", "--at", "1s").stdout
    assert shown.startswith("sqlite disk=nvme on kaby-lake-i7-7500u, schedutil")


def test_a_clock_that_the_boost_after_io_asks_for_is_not_held(tmp_path: Path) -> None:
    """The records of the decisions are the judge: what they hold is named, what they ask for is not."""
    words = ["run", "fio-randread", "-m", "xeon-6130-2s", "--vs", "proposal=no-iowait-boost", "--vs", "kernel=4.19"]
    done = answered(*words, "--seconds", "1", "-o", str(tmp_path / "out"), columns=900)
    assert "The clock under no-iowait-boost is that of the first milliseconds" in done.stdout
    assert "where a CPU's tick did not stop in idle" in done.stdout
    for keys, is_held in (({}, False), ({"kernel": "4.19"}, False), ({"proposals": ["no-iowait-boost"]}, True)):
        made = opplab.simulate("xeon-6130-2s", "fio-randread", opplab.Policy(**keys), seconds=1)
        decisions = made.events("sugov_decision")
        boosted = decisions["iowait_boost"] > 0
        assert (boosted.mean() < 0.5) is is_held, keys
        # A lower wish that does not become the clock is held.
        assert ((decisions["raw_khz"] < decisions["prev_khz"]).mean() > 0.5) is is_held, keys


def test_a_clock_that_the_fair_servers_bandwidth_asks_for_is_not_held(tmp_path: Path) -> None:
    """Goal: the note on a held clock is of policies of one CPU, and not of the clock that each report asks for."""
    load = tmp_path / "light.json"
    load.write_text('{"tasks": {"t": {"loop": -1, "run": 5, "timer": {"ref": "t", "period": 4000}, "cpus": [0]}}}')
    tree = tomllib.loads(opplab.Machine.load("pixel6").to_toml())
    for name, share, lowest in (("shared", "shared", None), ("single", "cpu", 930_000)):
        little = tree["cluster"][0] | {"policy": share}
        made = tree | {"name": name, "cluster": [little, *tree["cluster"][1:]]}
        machine = tmp_path / f"{name}.toml"
        machine.write_text(opplab.Machine.from_tree(made).to_toml())
        words = ["run", str(load), "-m", str(machine), "--seconds", "2", "-o", str(tmp_path / f"{name}-out")]
        done = answered(*words, columns=900)
        assert "first milliseconds" not in done.stdout
        found = caveats._lowest_khz(made, {"kernel": "6.12.117"}).get(little["name"])
        assert found == lowest, name
    assert caveats._lowest_khz(made, {"kernel": "6.6"})[little["name"]] == 300_000
    assert caveats._lowest_khz(made, {"kernel": "6.6", "scaling_min_freq": 700_000})[little["name"]] == 738_000


def test_the_rest_of_the_machine_is_named_beside_the_power(tmp_path: Path, load: Path) -> None:
    tree = tomllib.loads(opplab.Machine.load("pixel6").to_toml())
    for floor_uw in (0, 50_000):
        machine, out = tmp_path / f"m{floor_uw}.toml", str(tmp_path / f"out{floor_uw}")
        machine.write_text(opplab.Machine.from_tree(tree | {"name": "m", "floor_uw": floor_uw}).to_toml())
        words = ["run", str(load), "-m", str(machine), "--seconds", "0.1", "-o", out]
        done = answered(*words, columns=300)
        told = (
            "Energy and power of m are its CPUs': 0.05 W more, always on (floor_uw), are in power:rest." in done.stdout
        )
        assert told == bool(floor_uw)


def test_governors_that_turn_energy_aware_scheduling_off_are_named(load: Path, tmp_path: Path) -> None:
    """Goal: performance against schedutil is of placement, too; silence was read as "EAS is on"."""
    words = "performance, powersave: no energy-aware scheduling on pixel6, which the kernel has under schedutil only"
    short = ("--seconds", "0.1", "--iterations", "1", "--governor", "schedutil,performance,powersave")

    def said(*words: str) -> str:
        done = answered("run", load, *short, *words, columns=300)
        return " ".join(done.stdout.split())

    assert words in said("-m", "pixel6", "-o", str(tmp_path / "a"))
    # One capacity, a kernel without it, a policy without it: no governor turns anything off.
    of_one = ("-m", "epyc-7742-2s", "--driver", "acpi-cpufreq")
    for name, more in enumerate((of_one, ("-m", "pixel6", "--kernel", "4.17"), ("-m", "pixel6", "--set", "eas=false"))):
        assert "energy-aware" not in said(*more, "-o", str(tmp_path / str(name)))


def test_a_kernel_without_energy_aware_scheduling_is_named_beside_one_with_it(load: Path, tmp_path: Path) -> None:
    """It came with 5.0: between these kernels placement differs, whatever else they lack."""
    short = ("run", str(load), "--seconds", "0.1", "--iterations", "1", "-o")
    words = "kernel=4.14, kernel=4.20: no energy-aware scheduling on pixel6: the kernel does not have it."
    versions = ("--vs", "kernel=4.14", "--vs", "kernel=4.20", "--vs", "kernel=5.0")
    said = stdout_of(*short, str(tmp_path / "a"), "-m", "pixel6", *versions)
    assert words in said and said.count("energy-aware") == 1
    alike = stdout_of(*short, str(tmp_path / "b"), "-m", "epyc-7742-2s", "--vs", "kernel=4.20")
    assert "energy-aware" not in alike


def test_a_driver_that_is_younger_than_the_kernel_is_named(load: Path, tmp_path: Path) -> None:
    """A change from 5.10 to 6.6 under amd-pstate is from a kernel that nobody has."""
    short = ("run", str(load), "--seconds", "0.1", "--iterations", "1", "-m", "epyc-7742-2s", "-o")
    words = "kernel 5.10 does not have amd-pstate, which came with 5.17: it runs here as if it were backported."
    both = ("--kernel", "5.10", "--vs", "kernel=6.6", "--driver")
    said = stdout_of(*short, str(tmp_path / "a"), *both, "amd-pstate")
    assert f"schedutil kernel=5.10: {words}" in said and said.count("does not have amd-pstate") == 1
    assert "does not have" not in stdout_of(*short, str(tmp_path / "b"), *both, "acpi-cpufreq")


def stdout_of(*words: str) -> str:
    done = answered(*words, columns=300)
    return " ".join(done.stdout.split())


def test_an_answer_that_hangs_on_an_unknown_disk_says_so(tmp_path: Path) -> None:
    """Goal: it stood on standard error of `run` alone, so that no file, no choice and no fleet had it."""
    words = ("-m", "juno-r2", "--param", "clients=2", "--seconds", "0.7", "--iterations", "1", "-j", "1")
    disk = "pgbench-rw depends on the disk, which"
    shown = stdout_of("run", "pgbench-rw", *words, "-o", str(tmp_path / "run"))
    assert f"{disk} juno-r2 does not describe: flushes of 500 us stand in for 10 to 16667" in shown
    assert disk in (tmp_path / "run/tables.txt").read_text()
    assert disk in (tmp_path / "run/report.html").read_text()
    choose = ("choose", "pgbench-rw", *words, "--governor", "schedutil,performance", "--uncertainty", "0")
    assert f"{disk} the machine does not describe" in stdout_of(*choose)
    assert disk not in stdout_of(*choose, "--param", "disk=nvme")
    assert disk not in stdout_of(*choose, "--param", "disk_flush_us=80")
    fleet = ("fleet", *words[1:], "-w", "pgbench-rw", "--governor", "schedutil,performance", "--uncertainty", "0")
    assert f"juno-r2, 6 CPUs: {disk} the machine does not describe" in stdout_of(*fleet, "-o", str(tmp_path / "fleet"))


def test_a_read_that_no_machine_file_has_is_named(tmp_path: Path) -> None:
    words = ("run", "fio-randread", "-m", "juno-r2", "--seconds", "0.6", "--iterations", "1", "--no-report")
    named = "depends on the device, of which machine files have no reads: 70 us a read stand in"
    assert named in stdout_of(*words, "-o", str(tmp_path / "own"))
    given = ("--param", "device_us=100", "-o", str(tmp_path / "given"))
    assert "depends on the device" not in stdout_of(*words, *given)


def test_the_draws_of_a_choice_vary_an_unknown_disk() -> None:
    """Goal: a setting was the best "in all draws" of which none had another disk."""
    choice = opplab.choose(
        "juno-r2",
        opplab.Workload.benchmark("pgbench-rw", clients=2),
        governors=["schedutil", "performance"],
        seconds=0.6,
        iterations=1,
        uncertainty=2,
        jobs=1,
    )
    assert "pgbench-rw.disk_flush_us" in choice.assumptions
    known = opplab.choose(
        "juno-r2",
        opplab.Workload.benchmark("pgbench-rw", clients=2, disk="nvme"),
        governors=["schedutil", "performance"],
        seconds=0.6,
        iterations=1,
        uncertainty=2,
        jobs=1,
    )
    assert "pgbench-rw.disk_flush_us" not in known.assumptions


def test_tasks_of_a_benchmark_that_share_cpus_are_named(tmp_path: Path) -> None:
    """Goal: 8 and 32 jobs of fio had one rate, as all ran on one CPU, and ranks without SMT took ten times as long."""
    words = ("-m", "skylake-8x-uma", "--governor", "performance", "--iterations", "1", "--no-report")
    fio = ("run", "fio-randread", *words, "--seconds", "0.6", "--param", "jobs=1,3,4")
    shown = stdout_of(*fio, "-o", str(tmp_path / "bound"))
    assert "3 lines, compared with nothing: of performance alone." in shown
    bound = "fio-randread: 3 to 4 tasks share CPU 7, to which parameters of the model bind them."
    assert bound in shown
    assert "share CPU" not in stdout_of(*fio, "--param", "pin=none", "-o", str(tmp_path / "free"))
    nas = ("run", "nas-mpi", *words, "--seconds", "1", "--vs", "nosmt=true")
    found = stdout_of(*nas, "--param", "ranks=8", "-o", str(tmp_path / "nas"))
    assert "nosmt=true: 8 tasks that run while they wait share 4 CPUs" in found
    assert "performance: 8 tasks" not in found
    assert "share 4 CPUs" not in stdout_of(*nas, "-o", str(tmp_path / "four"))


@pytest.mark.parametrize(("model", "name"), [("nas-mpi", "ranks"), ("nas-omp", "threads")])
def test_a_rank_for_each_cpu_is_one_for_each_online_cpu(tmp_path: Path, model: str, name: str) -> None:
    """It was one for each CPU of the machine, and those of offline CPUs waited running on the others."""
    words = ["run", model, "-m", "skylake-8x-uma", "--seconds", "0.8", "--iterations", "1", "--no-report"]
    variants = ["--governor", "performance", "--vs", "offline_cpus=[3,7]", "--vs", "nosmt=true"]
    (tmp_path / "0").mkdir()
    answered(*words, *variants, "-o", tmp_path / "0")
    own = results.read(tmp_path / "0")
    for number, variant in ((8, ""), (6, "offline_cpus=[3,7]"), (4, "nosmt=true")):
        alone = ["--governor", "performance", *(["--set", variant] if variant else []), "--param", f"{name}={number}"]
        folder = str(tmp_path / str(number))
        answered(*words, *alone, "-o", folder)
        for metric in ("elapsed", "energy"):
            (expected,) = results.read(folder).filter(metric=metric)["value"]
            label = variant or "performance"
            assert own.filter(metric=metric, policy=label)["value"].to_list() == [expected], (number, metric)


def test_a_run_alone_names_another_governor_to_compare_with(load: Path, tmp_path: Path) -> None:
    for governor, other in (("performance", "schedutil"), ("schedutil", "performance")):
        words = ("run", str(load), "-m", "juno-r2", "--seconds", "0.2", "--iterations", "1", "--governor", governor)
        shown = stdout_of(*words, "--no-report", "-o", str(tmp_path / governor))
        assert f"Next: --vs governor={other} compares." in shown


def test_a_change_after_the_end_of_the_run_is_named(tmp_path: Path) -> None:
    """A setting whose change never comes has the runs of the other; the answer has the reason."""
    (tmp_path / "load.json").write_text('{"tasks": {"t": {"run": 3000, "timer": {"ref": "t", "period": 10000}}}}')
    change = "[{at_ms = %d, scaling_max_freq = 700000}]"
    text = (
        'format = 1\nname = "late"\nabout = "late"\nmachine = "juno-r2"\niterations = 1\nduration = "200ms"\n'
        f'[[policy]]\nlabel = "early"\nchanges = {change % 199}\n[[policy]]\nlabel = "late"\nchanges = {change % 200}\n'
        '[[workload]]\nlabel = "load"\nrtapp = "load.json"\n'
    )
    (tmp_path / "late.toml").write_text(text)
    words = "a change at 200 ms does nothing: the run ends at 200 ms"
    assert [one for one in missing(opplab.Experiment.load(tmp_path / "late.toml").cases) if "at 200 ms" in one] == [
        f"late: {words}"
    ]


def test_a_preference_that_differs_by_kernel_is_named(load: Path, tmp_path: Path) -> None:
    """All that a newer kernel did was to ask for another preference, which no line of the answer had."""
    note = "alder-lake-i7-1260p's {} is 128 under Linux 5.16 and 102 under Linux 5.17: the kernel's own"
    on = ["run", str(load), "-m", "alder-lake-i7-1260p", "--kernel", "5.16", "--seconds", "0.1", "--iterations", "1"]

    def said(*words: str) -> str:
        return " ".join(answered(*on, "--replace", *words, "-o", tmp_path / "o", columns=900).stdout.split())

    assert note.format("default energy preference") in said("--governor", "powersave", "--vs", "kernel=5.17")
    named = said("--governor", "powersave", "--set", "epp=balance_performance", "--vs", "kernel=5.17")
    assert note.format("energy preference balance_performance") in named
    for others in (("performance", "kernel=5.17"), ("powersave", "kernel=5.15"), ("schedutil", "kernel=5.17")):
        assert "under Linux" not in said("--governor", others[0], "--vs", others[1])


def test_a_preference_at_boot_that_decides_is_named(load: Path, tmp_path: Path) -> None:
    """Guided mode on a server ran as the governor performance, and no word had that this is the boot value's doing.

    Method: runs of the named settings have the highest clock alone, those of the others do not.
    """
    named = []
    for driver, governor, epp in (
        ("amd-pstate-guided", "schedutil", ""),
        ("amd-pstate-guided", "powersave", ""),
        ("amd-pstate", "schedutil", ""),
        ("amd-pstate-epp", "powersave", ""),
        ("amd-pstate-epp", "powersave", "power"),
    ):
        policy = opplab.Policy(driver=driver, governor=governor, epp=epp)
        run = opplab.simulate("epyc-7742-2s", load, policy, seconds=0.2)
        keys = ("--driver", driver, "--governor", governor, *(("--set", f"epp={epp}") if epp else ()))
        out = str(tmp_path / f"{driver}{governor}{epp}")
        done = answered("run", load, "-m", "epyc-7742-2s", "--seconds", "0.2", "-o", out, *keys, columns=300)
        named.append("preference at boot is taken for 0, at which it takes the highest" in done.stdout)
        assert named[-1] == (set(run.events("cpu_frequency")["khz"]) == {3_400_000}), (driver, governor, epp)
    assert named == [True, False, False, True, False]


def test_a_preference_at_boot_that_hangs_on_the_profile_is_named(load: Path, tmp_path: Path) -> None:
    """Goal: where the file has no `pm_profile`, the driver's own preference of 6.14 is named; with it, it acts."""
    text = opplab.Machine.load("epyc-7742-2s")._inner.to_toml()
    own = 'pm_profile = "enterprise-server"\n'
    assert own in text
    hangs = "with a `pm_profile` of no server"
    for profile, kernel, said in (
        ("", "6.14", True),
        ("", "6.12", False),
        ("mobile", "6.14", False),
        (own, "6.14", False),
    ):
        file = tmp_path / "mine.toml"
        file.write_text(text.replace(own, f'pm_profile = "{profile}"\n' if profile == "mobile" else profile, 1))
        words = ("--governor", "powersave", "--driver", "amd-pstate-epp", "--kernel", kernel, "--seconds", "0.1")
        done = answered("run", load, "-m", file, *words, "-o", tmp_path / f"{profile[:6]}{kernel}", columns=400)
        assert (hangs in done.stdout) == said, (profile, kernel, done.stdout)


def test_of_several_machines_those_without_power_are_named(load: Path, tmp_path: Path) -> None:
    """Idle states that a policy changes are no matter of an energy that is unknown anyway."""
    words = ["run", str(load), "-m", "juno-r2", "-m", "core-ultra-135h", "--vs", "cpu_dma_latency_us=0"]
    done = answered(*words, "--seconds", "0.1", "-o", str(tmp_path / "out"), columns=900)
    assert "energy is unknown: core-ultra-135h has no power. Give it some" in done.stdout
    assert "core-ultra-135h has no power of idle states" not in done.stdout
    zuma = answered(*words[:2], "-m", "zuma", *words[6:], "--seconds", "0.1", "-o", str(tmp_path / "own"), columns=900)
    assert "zuma has no power of idle states (halted CPUs count as 0" in zuma.stdout


def test_the_answer_of_a_run_names_a_driver_that_is_not_the_one_at_boot(tmp_path: Path) -> None:
    """`choose` named it; `run` had schedutil's energy of a machine that boots with intel_pstate, without a word.

    Second way: the driver that the engine names of each run, and the first that the machine's file has.
    """
    (tmp_path / "load.json").write_text(
        '{"tasks": {"t": {"loop": -1, "run": 1000, "timer": {"ref": "t", "period": 16000}}}}'
    )
    load = opplab.Workload.load(tmp_path / "load.json")
    words = ["run", tmp_path / "load.json", "--seconds", "0.1", "--no-report"]
    for machine, governor in (
        ("skylake-8x-uma", "schedutil"),
        ("skylake-8x-uma", "powersave"),
        ("juno-r2", "schedutil"),
    ):
        own = opplab.simulate(machine, load, opplab.Policy(governor=governor), seconds=0.1)._inner.facts()["driver"]
        boot = opplab.Machine.load(machine).tree["driver"]
        boot = boot["name"] if isinstance(boot, dict) else boot[0]["name"]
        out = tmp_path / f"{machine}-{governor}"
        shown = " ".join(answered(*words, "-m", machine, "--governor", governor, "-o", out).stdout.split())
        named = f"{governor} runs under {own}, and {machine} boots with {boot}."
        assert (named in shown) == (own != boot) == ("boots with" in shown)
        assert ("powersave is intel_pstate's own governor" in shown) == (own == "intel_pstate")
    # Of a variant it is what its change is of.
    both = answered(*words, "-m", "skylake-8x-uma", "--governor", "powersave", "--vs", "governor=schedutil",
                    "-o", tmp_path / "both")  # fmt: skip
    assert "boots with" not in both.stdout
    assert "changes on skylake-8x-uma are of the driver, too" in " ".join(both.stdout.split())


@pytest.mark.parametrize("draws", [0, 40])
def test_a_preference_that_nobody_measured_gives_no_change_a_star(load: Path, tmp_path: Path, draws: int) -> None:
    """Goal: `epp=power` on an EPYC was -11.1 % [-14.0, -8.0]*, though no preference was measured on AMD."""
    common = ["-m", "epyc-milan-1s", "--seconds", "0.2", "--iterations", "2", "-j", "1"]
    common += ["--driver", "amd-pstate-epp", "--governor", "powersave"]
    drawn = ["--uncertainty", str(draws)] if draws else []
    command = ["run", load, *common, "--set", "epp=128", "--vs", "epp=255", "--vs", "epp=128 hz=1000", *drawn]
    found = json.loads(answered(*command, "-o", tmp_path / "out", "--format", "json").stdout)
    rows = [row for row in found["rows"] if row["change_percent"] is not None]
    assert {row["certainty"] for row in rows if row["variant"] == "epp=255"} == {NO_PREFERENCE}
    others = [row for row in rows if "hz=1000" in row["variant"]]
    assert others
    assert all(row["certainty"] != NO_PREFERENCE for row in others), "both sides have the same one"
    for metric in ("energy", "missed_activations"):
        (table,) = opplab.compare(tmp_path / "out", metric=metric)
        first, other = table.rows[0].cells[1:]
        assert first is not None
        assert other is not None
        assert (first.certain, first.significant, first.p, first.points_low) == (NO_PREFERENCE, False, None, None)
        assert other.certain != NO_PREFERENCE


def test_no_choice_by_such_a_preference_is_clear(load: Path) -> None:
    found = opplab.choose(
        "epyc-milan-1s",
        load,
        governors=["powersave"],
        epp=["0", "255"],
        policy={"driver": "amd-pstate-epp"},
        seconds=0.2,
        iterations=2,
        uncertainty=0,
        jobs=1,
    )
    assert found.findings()[0].startswith("Recommended, not clear")
    assert found.gap is not None
    assert (found.gap.certainty.words, found.gap.low) == (NO_PREFERENCE, None)
    (other,) = [option for option in found.options if option.changes]
    assert {one.certainty.words for one in other.changes.values()} == {NO_PREFERENCE}
