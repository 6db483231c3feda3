"""Power profiles of distributions as variants: what each sets, what it leaves out, and what contradicts itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import opplab
from opplab.choice.settings import Setting, grid, labels_of
from opplab.errors import InputError
from opplab.simulation.machine import Machine
from opplab.sweep.drivers import MachineFacts
from opplab.sweep.power_profiles import DAEMON, PowerProfile, is_power_profile, power_profiles, profile_keys
from opplab.sweep.variants import with_variants

from calls import answered, called

INTEL = ["intel_pstate", "intel_cpufreq"]
ACPI = MachineFacts(["acpi-cpufreq"])
SKYLAKE_SP = MachineFacts.of(Machine.load("skylake-sp-2s").tree)
AMD = ["acpi-cpufreq", "amd-pstate", "amd-pstate-guided", "amd-pstate-epp"]
TLP = """
CPU_DRIVER_OPMODE_ON_AC=active
CPU_SCALING_GOVERNOR_ON_AC=performance   # fast
CPU_ENERGY_PERF_POLICY_ON_AC=balance_performance
CPU_SCALING_GOVERNOR_ON_BAT="powersave"
CPU_ENERGY_PERF_POLICY_ON_BAT=power
CPU_BOOST_ON_BAT=0
CPU_MAX_PERF_ON_BAT=30
CPU_SCALING_MIN_FREQ_ON_BAT=0
WIFI_PWR_ON_BAT=on
NMI_WATCHDOG=0
"""


def profiles(
    folder: Path,
    name: str,
    text: str,
    drivers: list[str] = INTEL,
    base: dict[str, str] | None = None,
    *,
    hwp: bool = False,
) -> dict[str, PowerProfile]:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return {one.name: one for one in power_profiles(str(file), MachineFacts(drivers, hwp), base=base)}


def tuned(folder: Path, cpu: str, cmdline: str, drivers: list[str], **base: str) -> PowerProfile:
    """Give one profile of tuned, on a machine with HWP where its drivers are Intel's."""
    text = f"[cpu]\n{cpu}\n[bootloader]\ncmdline={cmdline}\n"
    return profiles(folder, "x/tuned.conf", text, drivers, base, hwp=drivers[0] == INTEL[0])["x"]


def test_tlp_has_a_profile_a_power_source(tmp_path: Path) -> None:
    found = profiles(tmp_path, "tlp.conf", TLP)
    assert found["tlp AC"].keys == {"driver": "intel_pstate", "governor": "performance"}
    assert "refuses the preference balance_performance" in found["tlp AC"].notes[0]
    limits = {"max_perf_pct": 30, "no_turbo": True}
    assert found["tlp BAT"].keys == {"governor": "powersave", "epp": "power", **limits}
    assert found["tlp BAT"].notes == ["tlp BAT: without a key in simulations: WIFI_PWR, NMI_WATCHDOG"]


def test_a_numbered_preference_counts_where_the_kernel_takes_one(tmp_path: Path) -> None:
    """amd-pstate of 6.12 answers a number with EINVAL, so that the preference stays what it was."""
    text, drivers = "[cpu]\nenergy_performance_preference=100\ngovernor=powersave\n", ["amd-pstate-epp"]
    old = profiles(tmp_path, "old/tuned.conf", text, drivers, {"kernel": "6.12"})["old"]
    assert old.keys == {"governor": "powersave"}
    assert old.notes == ["old: amd-pstate-epp takes preferences by name alone before kernel 7.1: its file refuses 100"]
    new = profiles(tmp_path, "new/tuned.conf", text, drivers, {"kernel": "7.1"})["new"]
    assert str(new.keys["epp"]) == "100" and not new.notes


UNSET = "".join(f"#CPU_SCALING_GOVERNOR_ON_{of}=x\n#CPU_ENERGY_PERF_POLICY_ON_{of}=x\n" for of in ("AC", "BAT", "SAV"))


def test_what_a_file_of_tlp_comments_out_has_tlp_s_defaults(tmp_path: Path) -> None:
    """TLP 1.9, defaults.conf: the preference; all else is the kernel's."""
    found = profiles(tmp_path, "tlp.conf", UNSET, hwp=True)
    epp = {"tlp AC": "balance_performance", "tlp BAT": "balance_power", "tlp SAV": "power"}
    assert {name: one.keys for name, one in found.items()} == {name: {"epp": value} for name, value in epp.items()}
    assert found["tlp BAT"].notes == ["tlp BAT: CPU_ENERGY_PERF_POLICY is not set: TLP's default, balance_power"]
    for machine in ({"drivers": ["acpi-cpufreq"]}, {"hwp": False}):
        first, *_ = found = profiles(tmp_path, "tlp.conf", UNSET, **machine).values()
        assert not any(one.keys for one in found)
        assert first.notes[0].endswith(
            "TLP sets nothing that is simulated here: the kernel's defaults stay, as the baseline has them"
        )
    for switch in ("TLP_DISABLE_DEFAULTS=1\n", "TLP_ENABLE=0\nCPU_BOOST_ON_AC=0\n"):
        assert not any(one.keys for one in profiles(tmp_path, "tlp.conf", UNSET + switch, hwp=True).values())
    found = profiles(tmp_path, "tlp.conf", UNSET + "CPU_BOOST_ON_BAT=0\nCPU_ENERGY_PERF_POLICY_ON_BAT=\n", hwp=True)
    assert found["tlp BAT"].keys == {"no_turbo": True}, "an empty value switches a default off"
    assert found["tlp SAV"].keys == {"no_turbo": True, "epp": "power"}, "where power-saver has none, battery's holds"
    run = profiles(tmp_path, "tlp.conf", UNSET + 'USB_DENYLIST="1"\nUSB_DENYLIST+=" 2"\n', hwp=True)
    assert not any("later holds" in note for one in run.values() for note in one.notes)


VALUES = {
    "driver": "passive", "governor": "performance", "epp": "power", "no_turbo": "1", "nosmt": "off", "eas": "0",
    "hwp_dynamic_boost": "1", "idle_disable": "1", "isolcpus": "1", "nohz_full": "1",
}  # fmt: skip
"""What a profile may have, by the policy's key that comes of it; 5 for all others."""


@pytest.mark.parametrize("row", profile_keys(), ids=lambda row: f"{row['of']} {row['setting']}")
def test_each_setting_of_the_list_sets_its_key(row: dict[str, str], tmp_path: Path) -> None:
    key, setting = row["policy key"], row["setting"].rpartition(" ")[2].rpartition(".../")[2]
    value = {"turbo": "never", "boost": "0", "CPU_BOOST_ON_AC,": "0"}.get(setting, VALUES.get(key, "5"))
    name, text = {
        "TLP": ("tlp.conf", f"TLP_DISABLE_DEFAULTS=1\n{row['setting'].partition(',')[0]}={value}\n"),
        "auto-cpufreq": ("a.conf", f"[charger]\n{setting}={value}\n"),
        "tuned": ("x/tuned.conf", f"[{row['setting'].partition(']')[0][1:]}]\n{setting}={value}\n"),
        DAEMON: ("state.ini", "[State]\nProfile=balanced\n"),
    }[row["of"]]
    if "cmdline" in row["setting"]:
        text = f"[bootloader]\ncmdline={setting}={value}\n"
    elif "sysfs" in row["setting"]:
        text = f"[sysfs]\n/sys/x/{setting}={value}\n"
    drivers = AMD[::-1] if "amd_pstate" in setting or setting == "boost" else INTEL
    if row["of"] == DAEMON:
        drivers = ["amd-pstate-epp"]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    (found,) = power_profiles(str(file), MachineFacts(drivers, True, [("POLL", 0), ("C1", 2), ("C6", 50)]))
    assert ", ".join(found.keys) == key, found.notes


def test_tuned_includes_and_takes_the_first_governor_that_there_is(tmp_path: Path) -> None:
    base = (
        "[main]\nsummary=s\n[cpu]\ngovernor=schedutil|conservative|powersave\nmin_perf_pct=20\n[disk]\n#devices=sda\n"
    )
    for drivers, governor in ((INTEL, "powersave"), (["intel_cpufreq"], "schedutil")):
        found = profiles(tmp_path, "powersave/tuned.conf", base, drivers)["powersave"]
        assert found.keys == {"governor": governor, "min_perf_pct": 20}
    text = "[main]\ninclude=powersave\n[sysfs]\n/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq=2000000\n"
    own = profiles(tmp_path, "mine/tuned.conf", text + "[cpu]\ngovernor=performance\n[x]\ntype=net\nwake=1\n")["mine"]
    assert own.keys == {"governor": "performance", "min_perf_pct": 20, "scaling_max_freq": 2000000}
    assert own.notes[-1] == "mine: without a key in simulations: [net] wake"
    both = profiles(tmp_path, "ppd.conf", "[main]\ndefault=x\n[profiles]\npower-saver=powersave\nperformance=mine\n")
    assert [one.keys["governor"] for one in both.values()] == ["powersave", "performance"]


def test_tuned_s_command_line_holds_before_its_other_sections(tmp_path: Path) -> None:
    cpu, boot = "[cpu]\ngovernor=schedutil\n", "[bootloader]\ncmdline=intel_pstate=passive {}\n"
    boot = boot.format("isolcpus=domain,managed_irq,0-3,6 nohz_full=4-5 mitigations=off")
    smt = "[sysfs]\n/sys/devices/system/cpu/smt/control=off\n"
    for at, text in enumerate((cpu + smt + boot, boot + cpu + smt)):
        found = profiles(tmp_path, f"order{at}/tuned.conf", text)[f"order{at}"]
        asked = {"isolcpus": "0-3,6", "nohz_full": "4-5", "nosmt": True}
        assert found.keys == {"driver": "intel_cpufreq", "governor": "schedutil", **asked}
        assert found.notes == [f"order{at}: without a key in simulations: mitigations"]
    flags = profiles(tmp_path, "flags/tuned.conf", cpu + "[bootloader]\ncmdline=isolcpus=nohz,1\n", ["acpi-cpufreq"])
    assert "isolcpus" not in flags["flags"].keys and "isolcpus=nohz,1" in flags["flags"].notes[-1]


def test_profiles_that_set_the_same_share_a_row(tmp_path: Path) -> None:
    for name in ("one", "two"):
        profiles(tmp_path, f"{name}/tuned.conf", "[cpu]\ngovernor=performance\n")
    said: list[str] = []
    texts = [str(tmp_path / name / "tuned.conf") for name in ("one", "two")]
    found = with_variants({}, texts, ACPI, said.append)
    assert [one.label for one in found] == ["schedutil", "one"]
    assert said == [f"{texts[1]}: two and one set the same of what is simulated on this machine: one row, one"]
    with pytest.raises(InputError, match="the variant `performance` is there already as `one`"):
        with_variants({}, [texts[0], "governor=performance"], ACPI)


def test_governors_and_profiles_of_one_name_stand_in_one_table(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        profiles(tmp_path, f"{folder}/balanced/tuned.conf", f"[cpu]\ngovernor=powersave\nmin_perf_pct={ord(folder)}\n")
    tuned = [str(tmp_path / folder / "balanced/tuned.conf") for folder in ("a", "b")]
    governors = {"governor": "schedutil,performance"}
    of_daemon = ["power-saver", "balanced", f"performance ({DAEMON})"]
    said: list[str] = []

    def labels(*vs: str, **keys: str) -> list[str]:
        return [one.label for one in with_variants(keys, vs, MachineFacts(INTEL), said.append)]

    assert labels(DAEMON, **governors) == ["schedutil", "performance", *of_daemon]
    assert labels(DAEMON, "governor=performance") == ["schedutil", *of_daemon, "performance"]
    three = ["schedutil", "power-saver", f"balanced ({DAEMON})", "performance"]
    assert labels(DAEMON, tuned[0]) == [*three, "balanced (tuned.conf)"]
    assert labels(DAEMON, *tuned) == [*three, *(f"balanced ({path})" for path in tuned)]
    assert not said
    profiles(tmp_path, "performance.conf", "[cpu]\ngovernor=performance\n")
    assert labels(str(tmp_path / "performance.conf"), governor="performance") == ["performance"]
    assert said[0].endswith(
        "performance.conf) and performance set the same of what is simulated on this machine: one row, performance"
    )
    settings = [
        *grid(["powersave", "performance"]),
        *map(Setting.of, with_variants({}, [DAEMON], MachineFacts(INTEL))[1:]),
    ]
    assert labels_of(settings) == ["powersave", "performance", *of_daemon]


def test_tuned_s_limits_of_idle_states_are_those_of_the_machine(tmp_path: Path) -> None:
    """Goal: force_latency is the first alternative that there is, as tuned takes it; max_cstate counts without POLL."""
    file = tmp_path / "tuned.conf"

    def read(text: str, idle: list[tuple[str, int]] | None = None) -> PowerProfile:
        file.write_text(f"[cpu]\ngovernor=performance\n{text}\n")
        (found,) = power_profiles(str(file), SKYLAKE_SP if idle is None else replace(SKYLAKE_SP, idle=idle))
        return found

    for words, us in (
        ("cstate.id_no_zero:1|3", 2),
        ("cstate.id_no_zero:0|3", 3),
        ("cstate.name:C1E|10", 10),
        ("cstate.name_no_zero:C9|cstate.id:3", 133),
        ("7", 7),
        ("none", None),
    ):
        assert read(f"force_latency={words}").keys.get("cpu_dma_latency_us") == us, words
    assert "no idle state of force_latency cstate.id:9" in read("force_latency=cstate.id:9").notes[0]
    assert "not known: ignored" in read("force_latency=cstate.id:1|3", []).notes[0]
    with pytest.raises(InputError, match=r"tuned.conf:3: `c1` is no whole number"):
        read("force_latency=c1")
    line = "[bootloader]\ncmdline=intel_idle.max_cstate="
    assert read(f"{line}1").keys["idle_disable"] == ("C1E", "C6")
    assert "idle_disable" not in read(f"{line}9").keys
    assert "without a key in simulations: intel_idle.max_cstate=0" in read(f"{line}0").notes[0]


def test_a_profile_of_the_current_folder_has_the_folder_s_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "latency"
    folder.mkdir()
    (folder / "tuned.conf").write_text("[main]\nsummary=s\n[cpu]\ngovernor=performance\n[sysctl]\nvm.x=1\n")
    monkeypatch.chdir(folder)
    (found,) = power_profiles(Path("tuned.conf"), ACPI)
    assert found.name == "latency"
    assert found.notes == ["latency: without a key in simulations: x"]


def test_auto_cpufreq_and_the_daemon(tmp_path: Path) -> None:
    text = "[charger]\ngovernor = performance\nturbo = auto\n[battery]\ngovernor = powersave\nturbo = never\n"
    found = profiles(tmp_path, "auto-cpufreq.conf", text + "scaling_max_freq = 1000000\nenable_thresholds = true\n")
    assert found["auto-cpufreq charger"].keys == {"governor": "performance", "no_turbo": False}
    assert found["auto-cpufreq battery"].keys["scaling_max_freq"] == 1000000
    assert (
        profiles(tmp_path, "state.ini", "[State]\nProfile=balanced\n")["balanced"].keys["epp"] == "balance_performance"
    )
    # Boost is off as power-saver where amd-pstate has a file for it: the daemon's release notes of 0.22.
    for kernel, boosts in (("6.10", [None] * 3), ("6.11", [True, False, False]), ("", [True, False, False])):
        base = {"kernel": kernel} if kernel else {}
        of_amd = power_profiles(DAEMON, MachineFacts(["amd-pstate-epp"]), base=base)
        assert [one.keys.get("no_turbo") for one in of_amd] == boosts
    assert all("no_turbo" not in one.keys for one in power_profiles(DAEMON, MachineFacts(INTEL)))
    with pytest.raises(opplab.InputError, match="cpufreq-dt has no energy performance preference"):
        power_profiles(DAEMON, MachineFacts(["cpufreq-dt"]))


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("tlp.conf", "CPU_BOOST_ON_AC=2\n", r"tlp.conf:1: `2` is neither 0 nor 1"),
        ("tlp.conf", "CPU_BOOST_ON_AC=1\nCPU_SCALING_GOVERNOR_ON_AC=ondemnd\n", r"no governor `ondemnd`.*ondemand"),
        ("tlp.conf", "CPU_BOOST_ON_AC=1\nnonsense\n", r":2: no NAME=VALUE"),
        ("a.conf", "[charger]\nturbo = somtimes\n", r":2: `somtimes` is no turbo"),
        ("a.conf", "[charger]\nscaling_max_freq = fast\n", r":2: `fast` is no whole number"),
        ("a.conf", "[battery]\nscaling_max_freq=1\nscaling_min_freq=2\n", r"scaling_min_freq 2 is above"),
        ("a.conf", "[drives]\nx=1\n", r"no power profile of tuned.*drives"),
        ("a.conf", "words\n", r"a.conf:1"),
        ("x/tuned.conf", "[main]\ninclude=x\n[cpu]\nboost=1\n", r"includes itself"),
        ("x/tuned.conf", "[main]\ninclude=gone\n", r"tuned.conf:2: no profile `gone`"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(tmp_path: Path, name: str, text: str, words: str) -> None:
    with pytest.raises(opplab.InputError, match=words):
        profiles(tmp_path, name, text)


def test_profiles_run_as_variants(tmp_path: Path) -> None:
    assert is_power_profile("tlp.conf")
    assert not is_power_profile("governor=performance")
    load = {"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}}}
    (tmp_path / "load.json").write_text(json.dumps(load))
    (tmp_path / "tlp.conf").write_text(TLP)
    words = [
        "run",
        str(tmp_path / "load.json"),
        "-m",
        "skylake-8x-uma",
        "--seconds",
        "0.3",
        "-o",
        str(tmp_path / "out"),
    ]
    done = answered(*words, "--vs", tmp_path / "tlp.conf", "--format", "json")
    rows = {(row["variant"], row["metric"]): row["mean"] for row in json.loads(done.stdout)["rows"]}
    by_hand = opplab.Policy(governor="powersave", epp="power", no_turbo=True, max_perf_pct=30, watchdog_thresh_s=0)
    runs = [opplab.simulate("skylake-8x-uma", tmp_path / "load.json", by_hand, seconds=0.3, seed=n) for n in (1, 2, 3)]
    energies = [dict(zip(one.metrics["metric"], one.metrics["value"], strict=True))["energy"] for one in runs]
    assert rows["tlp BAT", "energy"] == pytest.approx(sum(energies) / 3, rel=1e-12)
    assert "refuses the preference" in done.stderr


def test_includes_have_an_end(tmp_path: Path) -> None:
    """Each of 25 files includes the next one twice: 2^25 files."""
    for number in range(25):
        (tmp_path / f"b{number}").mkdir()
        (tmp_path / f"b{number}/tuned.conf").write_text(f"[main]\ninclude=b{number + 1},b{number + 1}\n")
    profiles(tmp_path, "b25/tuned.conf", "[cpu]\ngovernor=performance\n")
    with pytest.raises(opplab.InputError, match=r"b0/tuned\.conf: the profile includes more than 100 files"):
        power_profiles(str(tmp_path / "b0/tuned.conf"), MachineFacts(INTEL))


def test_a_profile_without_settings_is_named(tmp_path: Path) -> None:
    text = "CPU_SCALING_GOVERNOR_ON_AC=performance\nCPU_ENERGY_PERF_POLICY_ON_BAT=power\n"
    (found,) = profiles(tmp_path, "tlp.conf", text, ["acpi-cpufreq"]).values()
    assert found.name == "tlp AC"
    assert found.notes[0].endswith("tlp.conf:2: acpi-cpufreq has no energy performance preference: ignored")
    assert found.notes[1] == "tlp BAT: no setting that this machine has: left out"


def test_only_an_including_file_replaces_without_a_note(tmp_path: Path) -> None:
    base = "[cpu]\ngovernor=powersave\nno_turbo=1\nenergy_performance_preference=power\nmin_perf_pct=10\n"
    profiles(tmp_path, "base/tuned.conf", base)
    mine = "[main]\ninclude=base\n[cpu]\ngovernor=performance\nno_turbo=0\nenergy_performance_preference=performance\n"
    found = profiles(tmp_path, "mine/tuned.conf", f"{mine}min_perf_pct=20\n")["mine"]
    assert found.keys == {"governor": "performance", "no_turbo": False, "epp": "performance", "min_perf_pct": 20}
    assert found.notes == []
    twice = profiles(tmp_path, "two/tuned.conf", "[cpu]\nno_turbo=1\n[sysfs]\n/sys/x/no_turbo=0\n")["two"]
    assert "two/tuned.conf:4: no_turbo is false here and true before; the later holds" in twice.notes[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x/tuned.conf", "[cpu]\nno_turbo=1\nno_turbo=0\n"),
        ("tlp.conf", "CPU_BOOST_ON_AC=0\nX=1\nCPU_BOOST_ON_AC=1\n"),
        ("auto.conf", "[charger]\nturbo=never\nturbo=always\n"),
    ],
)
def test_what_stands_twice_is_named(tmp_path: Path, name: str, text: str) -> None:
    (found,) = profiles(tmp_path, name, text).values()
    assert found.keys == {"no_turbo": False}
    assert any(note.endswith(", too; the later holds") for note in found.notes)


def test_long_numbers_are_refused_with_their_place(tmp_path: Path) -> None:
    for key in ("scaling_max_freq", "energy_performance_preference"):
        with pytest.raises(opplab.InputError, match=r"t\.conf:2: `9+` is no whole number of at most 20 digits"):
            profiles(tmp_path, "t.conf", f"[sysfs]\n/sys/x/{key}={'9' * 5000}\n")


def test_a_line_that_goes_on_no_value_is_refused_with_its_place(tmp_path: Path) -> None:
    """Python before 3.13 fails on it."""
    file = tmp_path / "auto-cpufreq.conf"
    file.write_text("[charger]\nturbo = auto\ngovernor\n  performance\n[battery]\ngovernor = powersave\n")
    with pytest.raises(opplab.InputError, match=r"auto-cpufreq\.conf:4: an indented line goes on a value"):
        power_profiles(file, MachineFacts(["intel_pstate"]))


def test_keys_of_intel_are_ignored_on_amd_as_tlp_does(tmp_path: Path) -> None:
    text = TLP.replace("CPU_DRIVER_OPMODE_ON_AC=active\n", "") + "CPU_HWP_DYN_BOOST_ON_AC=1\n"
    found = profiles(tmp_path, "tlp.conf", text, ["amd-pstate-epp", "amd-pstate"])
    assert not {"max_perf_pct", "hwp_dynamic_boost"} & {*found["tlp AC"].keys, *found["tlp BAT"].keys}
    assert any("amd-pstate-epp has no hwp_dynamic_boost: ignored" in note for note in found["tlp AC"].notes)
    assert any("amd-pstate-epp has no max_perf_pct: ignored" in note for note in found["tlp BAT"].notes)


def test_what_a_profile_asks_for_in_vain_is_in_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: whoever reads the answer, in any form, sees what of a profile no run has; a folder keeps it."""
    monkeypatch.chdir(tmp_path)
    profiles(
        tmp_path, "mine/tuned.conf", "[cpu]\ngovernor=performance\npm_qos_resume_latency_us=10\n", ["acpi-cpufreq"]
    )
    task = {"loop": -1, "run": 1000, "timer": {"ref": "t", "period": 16000}}
    Path("load.json").write_text(json.dumps({"tasks": {"t": task}}))
    words = "mine: without a key in simulations: [cpu] pm_qos_resume_latency_us."
    given = ["load.json", "-m", "juno-r2", "--vs", "mine/tuned.conf", "--seconds", "0.1"]
    for form in ("text", "json", "markdown", "latex"):
        done = answered("run", *given, "-o", "out", "--format", form, columns=400)
        assert words.replace("_", "\\_" if form == "latex" else "_") in done.stdout, form
    again = called("run", "out", columns=400)
    assert words in again.stdout and words in Path("out/report.html").read_text()
    work = ["load.json", "-m", "juno-r2", "--vs", "mine/tuned.conf", "--seconds", "0.1", "--uncertainty", "0"]
    for form in ("text", "json", "markdown"):
        done = answered("choose", *work, "--format", form, columns=400)
        assert words in done.stdout, form


@pytest.mark.parametrize(
    ("cmdline", "drivers", "keys", "words"),
    [
        ("intel_pstate=passive", AMD, {}, "intel_pstate does not drive this machine: intel_pstate=passive changes"),
        ("amd_pstate=passive", INTEL, {}, "amd_pstate does not drive this machine: amd_pstate=passive changes nothing"),
        ("amd_pstate=passive", AMD, {"driver": "amd-pstate"}, ""),
        ("amd_pstate=disable", ["amd-pstate-epp", "acpi-cpufreq"], {"driver": "acpi-cpufreq"}, ""),
        ("intel_pstate=disable", [*INTEL, "acpi-cpufreq"], {"driver": "acpi-cpufreq"}, ""),
        ("intel_pstate=disable", INTEL, {}, "no driver but intel_pstate: intel_pstate=disable is ignored"),
        ("intel_pstate=no_hwp", INTEL, {"no_hwp": True, "driver": "intel_cpufreq"}, "starts in its passive mode"),
        ("intel_pstate=no_hwp intel_pstate=active", INTEL, {"no_hwp": True, "driver": "intel_pstate"}, ""),
        ("intel_pstate=no_hwp", ["intel_cpufreq"], {}, "the machine has no HWP"),
        ("intel_pstate=force", INTEL, {}, "intel_pstate=force changes nothing here"),
        ("intel_pstate=hwp_only", INTEL, {}, "intel_pstate=hwp_only changes nothing here"),
        ("intel_pstate=hwp_only", ["intel_cpufreq", "acpi-cpufreq"], {"driver": "acpi-cpufreq"}, ""),
        ("intel_pstate=support_acpi_ppc", INTEL, {}, "without a key in simulations: intel_pstate=support_acpi_ppc"),
        ("intel_pstate=per_cpu_perf_limits", INTEL, {}, ""),
    ],
)
def test_a_parameter_is_of_its_own_driver(
    tmp_path: Path, cmdline: str, drivers: list[str], keys: dict[str, str], words: str
) -> None:
    found = tuned(tmp_path, "governor=performance", cmdline, drivers)
    assert found.keys == {"governor": "performance", **keys}
    assert words in " ".join(found.notes)
    assert bool(words) == bool(found.notes)


def test_what_no_parameter_takes_is_refused(tmp_path: Path) -> None:
    for cmdline in ("intel_pstate=pasive", "amd_pstate=no_hwp"):
        with pytest.raises(opplab.InputError, match=f"is no value of {cmdline.partition('=')[0]}="):
            tuned(tmp_path, "governor=performance", cmdline, AMD)


def test_per_cpu_limits_leave_no_percentages(tmp_path: Path) -> None:
    found = tuned(tmp_path, "governor=powersave\nmin_perf_pct=60", "intel_pstate=per_cpu_perf_limits", INTEL)
    assert found.keys == {"governor": "powersave"}
    assert found.notes[0].endswith("with intel_pstate=per_cpu_perf_limits there is no min_perf_pct: ignored")


def test_kernels_before_5_8_stay_active_without_hwp(tmp_path: Path) -> None:
    for kernel, driver in (("5.4", {}), ("5.10", {"driver": "intel_cpufreq"})):
        found = tuned(tmp_path, "governor=powersave", "intel_pstate=no_hwp", INTEL, kernel=kernel)
        assert found.keys == {"governor": "powersave", "no_hwp": True, **driver}


def test_governors_are_those_of_the_driver_in_use(tmp_path: Path) -> None:
    for governors, base, chosen in (
        ("schedutil|powersave", {"governor": "schedutil", "driver": "intel_cpufreq"}, "schedutil"),
        ("conservative|powersave", {"driver": "intel_cpufreq"}, "conservative"),
        ("schedutil|powersave", {"governor": "schedutil"}, "powersave"),
        # Of the driver at boot there is none, and the policy runs under the other.
        ("conservative", {"governor": "schedutil"}, "conservative"),
        ("conservative", {"driver": "intel_cpufreq"}, "conservative"),
    ):
        found = profiles(tmp_path, "x.conf", f"[cpu]\ngovernor={governors}\n", INTEL, base)["x"]
        assert (found.keys, found.notes) == ({"governor": chosen}, [])
    with pytest.raises(opplab.InputError, match="intel_pstate has no governor conservative: ignored"):
        profiles(tmp_path, "x.conf", "[cpu]\ngovernor=conservative\n", INTEL, {"driver": "intel_pstate"})


def test_files_of_a_driver_that_is_not_in_use_are_not_there(tmp_path: Path) -> None:
    both = "[cpu]\ngovernor=performance\nboost=0\nno_turbo=0\n"
    for drivers, off, lacking in ((AMD, True, "acpi-cpufreq has no no_turbo"), (INTEL, False, "has no boost")):
        found = profiles(tmp_path, "x.conf", both, drivers)["x"]
        assert found.keys == {"governor": "performance", "no_turbo": off}
        assert lacking in found.notes[0]
    status = "[cpu]\ngovernor=performance\n[sysfs]\n/sys/devices/system/cpu/{}/status={}\n"
    for family, mode, drivers, words in (
        ("amd_pstate", "active", AMD, "acpi-cpufreq has no amd_pstate modes: ignored"),
        ("amd_pstate", "active", INTEL, "intel_pstate has no amd_pstate modes: ignored"),
        ("intel_pstate", "guided", INTEL, "intel_pstate has no mode guided: ignored"),
        ("intel_pstate", "off", INTEL, "a machine without a cpufreq driver is not simulated: ignored"),
    ):
        found = profiles(tmp_path, "x.conf", status.format(family, mode), drivers)["x"]
        assert found.keys == {"governor": "performance"}
        assert found.notes[0].endswith(words)


def test_where_the_clock_ends_without_turbo(tmp_path: Path) -> None:
    text = "[charger]\ngovernor=performance\nturbo=never\n"
    end = "the clock ends at the base clock"
    for more, base, words in (
        ("", {}, end),
        ("scaling_max_freq=3000000\n", {}, f"{end}, or at scaling_max_freq where that is lower"),
        ("", {"max_perf_pct": "50"}, f"{end}, or at max_perf_pct where that is lower"),
    ):
        (found,) = profiles(tmp_path, "auto-cpufreq.conf", text + more, INTEL, base).values()
        assert found.notes[0].endswith(words)


def test_machines_with_other_drivers_are_named(tmp_path: Path) -> None:
    """A file is read once, for the first machine: another one of which it would say otherwise is no secret."""
    load = {"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "u", "period": 16000}}}}
    (tmp_path / "load.json").write_text(json.dumps(load))
    (tmp_path / "x.conf").write_text("[cpu]\ngovernor=performance\n")
    words = ["run", str(tmp_path / "load.json"), "-m", "epyc-7742-2s", "-m", "skylake-8x-uma", "--seconds", "0.1"]
    done = answered(*words, "-o", tmp_path / "out", "--vs", tmp_path / "x.conf")
    assert "profiles are read for epyc-7742-2s; skylake-8x-uma has other drivers: run it alone" in done.stderr


MATCHED = {"cpuinfo_regex": r"model name\s+:.*\bXeon\b", "uname_regex": "x86_64", "enabled": "true", "devices": "*"}
CONDITIONS = [
    (
        {"cpuinfo_regex": r"vendor_id\s+:\s+AuthenticAMD"},
        "does not match what is known of Intel(R) Xeon(R) Platinum 8260L CPU @ 2.40GHz",
    ),
    ({"uname_regex": "aarch64"}, "uname_regex aarch64 does not match Linux localhost 6.1 #1 SMP x86_64"),
    ({"uname_regex": "x86_64", "cpuinfo_regex": "${of_amd}"}, r"cpuinfo_regex .*\bAMD\b does not match"),
    ({"cpuinfo_regex": "${f:exec:lscpu}"}, "a variable that the profile does not set, ${f:exec:lscpu}"),
    ({"enabled": "false"}, "enabled is false"),
    ({"devices": "cpu0,cpu1"}, "settings of some CPUs, devices=cpu0,cpu1, are not simulated"),
]


@pytest.mark.parametrize(("condition", "why"), [(MATCHED, ""), *CONDITIONS])
def test_a_section_of_tuned_holds_where_tuned_takes_it(tmp_path: Path, condition: dict[str, str], why: str) -> None:
    """Goal: what tuned leaves out on the machine changes nothing, and is named with its reason; also if not known."""
    own = "".join(f"{key}={value}\n" for key, value in condition.items())
    text = f"[variables]\nname=AMD\nof_amd=.*\\b${{name}}\\b\n[cpu]\ngovernor=performance\n[cpu.x]\ntype=cpu\n{own}"
    file = tmp_path / "tuned.conf"
    file.write_text(text + "no_turbo=1\n")
    (found,) = power_profiles(str(file), SKYLAKE_SP, base={"kernel": "6.1"})
    assert found.keys == {"governor": "performance"} | ({} if why else {"no_turbo": True})
    left_out = [note for note in found.notes if "[cpu.x] is left out: " in note]
    assert len(left_out) == bool(why)
    assert why in "".join(left_out)
    if "regex" in str(condition):
        (unknown,) = power_profiles(str(file), MachineFacts(INTEL, True))
        assert "no_turbo" not in unknown.keys
        assert "[cpu.x] is left out: its " in unknown.notes[0]


def test_sections_of_tuned_are_merged_by_name_with_their_conditions(tmp_path: Path) -> None:
    """Goal: what includes a profile may limit its sections, replace them, and set its variables."""
    base = (
        "[variables]\nlimit=10\n[cpu]\nno_turbo=1\nmin_perf_pct=${limit}\n[fast]\ntype=sysfs\n/sys/x/max_perf_pct=90\n"
    )
    profiles(tmp_path, "base/tuned.conf", base)
    mine = "[main]\ninclude=base\n[variables]\nlimit=20\n"
    merged = profiles(tmp_path, "mine/tuned.conf", f"{mine}[cpu]\ngovernor=performance\n")["mine"]
    assert merged.keys == {"governor": "performance", "no_turbo": True, "min_perf_pct": 20, "max_perf_pct": 90}
    limited = profiles(tmp_path, "mine/tuned.conf", f"{mine}[cpu]\nuname_regex=riscv\n")["mine"]
    assert limited.keys == {"max_perf_pct": 90}
    replaced = profiles(tmp_path, "mine/tuned.conf", f"{mine}[cpu]\nreplace=1\ngovernor=performance\n")["mine"]
    assert replaced.keys == {"governor": "performance", "max_perf_pct": 90}


def test_a_condition_that_is_no_regular_expression_is_refused_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "tuned.conf"
    file.write_text("[cpu]\ngovernor=performance\nuname_regex=(x86\n")
    with pytest.raises(opplab.InputError, match=r"tuned\.conf:3: uname_regex is no regular expression: missing \)"):
        power_profiles(str(file), SKYLAKE_SP)
