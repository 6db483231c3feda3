"""Machines from the command line: import, f_max, checks, the picture."""

import gzip
import json
import re
import tarfile
import tomllib
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest

import opplab
from opplab import _opplab, catalog
from opplab.cli.fmax import report
from opplab.cli.list import rows_of
from opplab.errors import OpplabError
from opplab.files import read_text
from opplab.fit.energy_model import energy_model_notes, registers_artificial
from opplab.kernel import freq_max_of
from opplab.report.topology import page, picture
from opplab.simulation.machine import Machine
from opplab.simulation.machine_marks import unknown_turbo, unmarked
from opplab.simulation.policy import Policy
from opplab.simulation.ranges import assumptions_of, with_draw
from opplab.simulation.simulate import build_case, simulate
from opplab.simulation.workload import Workload

from calls import answered, called
from testdata import shared


def dump(name: str) -> str:
    return str(shared(f"data/pepc/{name}.tar.xz"))


def describe(name: str) -> dict:
    path = catalog.find("machine", name)
    return _opplab.Machine.parse(str(path), path.read_text()).describe()


def test_import_writes_a_machine_file(tmp_path: Path) -> None:
    target = tmp_path / "twin.toml"
    done = answered("machine", "import", dump("adl0"), "-o", target)
    assert tomllib.loads(target.read_text())["name"] == "twin"
    # What is written round-trips.
    shown = called("machine", "show", target, "--format", "toml")
    assert shown.output == target.read_text()
    assert "default  cluster.capacity: hybrid-by-highest-perf" in done.output
    assert "missing  package power limits" in done.output
    # An import leaves files alone unless told.
    again = called("machine", "import", dump("adl0"), "-o", target)
    assert again.exit_code == 2
    assert "--force" in again.output


def test_wrong_source_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "half.tar.xz"
    source.write_bytes(Path(dump("adl0")).read_bytes()[:4000])
    done = called("machine", "import", source)
    assert done.exit_code != 0
    assert "cut off" in str(done.exception)


def test_f_max_of_the_epyc_is_explained() -> None:
    # A dump of a processor that is in the catalogue: the published frequencies are shown beside CPPC's integers.
    for source in (dump("rome0"), "epyc-7742-2s"):
        facts = json.loads(called("fmax", source, "--format", "json").output)
        khz = {item["name"]: item["khz"] for item in facts["candidates"]}
        assert khz == {
            "max_P": 2250000,
            "mid": 2832275,
            "max_boost": 3414550,
            "mid (MHz)": 2825000,
            "max_boost (MHz)": 3400000,
        }
        assert "255 * 1024 / 168 = 1554" in facts["explanations"][0]
    text = called("fmax", "epyc-7742-2s").output
    assert "3414.55" in text
    assert "not invariant" in text
    # Kernels that are alike share a line.  166 of 168 is no boost for acpi-cpufreq, which sets the base frequency.
    assert text.count("amd_get_highest_perf()") == 1 and "warning: " not in text
    assert re.search(r"\n5\.13 to 6\.11 +max_P +2250 +1024 ", text)
    text = called("fmax", "epyc-7742-2s", "--driver", "amd-pstate").output
    assert re.search(r"\n5\.13 to 6\.11 +none of these +2234.619 +1017 ", text)
    assert text.count("warning: ") == 1 and "warning: kernels 5.13, 5.14, " in text
    assert "asked" not in text
    assert "did you mean `amd-pstate`" in str(called("fmax", "epyc-7742-2s", "--driver", "amd-pstat").exception)


def test_f_max_without_turbo_is_what_schedutil_goes_by() -> None:
    """Since 5.19 and 6.10 both are the base frequency, 2400 MHz; before 5.19 f_max is the turbo of four cores."""
    for source in ("skylake-sp-2s", dump("sklep0")):
        words = ("fmax", source, "--driver", "intel_cpufreq", "--no-turbo", "--format", "json")
        facts = json.loads(called(*words).output)
        taken = {item["kernel"]: item.get("candidate") for item in facts["kernels"]}
        assert taken["6.12"] == "max_P" != taken["5.18"]
        assert facts["cpuinfo_max_khz"] == facts["base_khz"]
        assert max(item["khz"] for item in facts["tipping"]) == facts["base_khz"]


def test_f_max_of_each_policy_of_arm_is_told() -> None:
    facts = json.loads(called("fmax", "juno-r2", "--format", "json").output)
    assert {item["name"]: item["khz"] for item in facts["candidates"]} == {
        "max_P": 950_000,
        "max_P of A72": 1_200_000,
    }
    assert "A53 950 MHz, A72 1200 MHz" in facts["kernels"][-1]["why"]


def test_f_max_of_later_xeons_is_the_fourth_group() -> None:
    """MSR 0x1ad has 33 in byte 3; 22 * 100 MHz without turbo."""
    facts = json.loads(called("fmax", "sapphire-rapids-8460h-4s", "--format", "json").output)
    assert {item["kernel"]: item.get("ratio") for item in facts["kernels"]}["6.12"] == 1536


@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        # Ratios of commit 1567c3e3467c, section 5.1, and for skylake-sp-2s of 2a0abc596998.
        ("haswell-48x-numa", {"turbo-1-core": 1380, "turbo-4-cores": 1246, "turbo-all-cores": 1157}),
        ("broadwell-80x-numa", {"turbo-4-cores": 1536}),
        ("skylake-8x-uma", {"turbo-4-cores": 1082}),
        ("skylake-sp-2s", {"turbo-4-cores": 1578}),
    ],
)
def test_f_max_of_the_catalogue_is_that_of_the_texts(name: str, ratios: dict[str, int]) -> None:
    facts = json.loads(called("fmax", name, "--format", "json").output)
    found = {item["name"]: item["ratio"] for item in facts["candidates"]}
    assert {key: found[key] for key in ratios} == ratios
    taken = {item["kernel"]: item.get("candidate") for item in facts["kernels"]}
    assert (taken["5.0"], taken["6.12"]) == (None, "turbo-4-cores")


def test_without_invariance_schedutil_leaves_each_clock_at_a_share_of_it(tmp_path: Path) -> None:
    """By hand: f + f/4 times util + util/4 of 1024 is above f from 656 on (get_capacity_ref_freq(), v6.12)."""
    tree = tomllib.loads(Machine.load("epyc-7742-2s").to_toml())
    tree["invariance"] = "none"
    path = tmp_path / "absent.toml"
    path.write_text(Machine.from_tree(tree).to_toml(), encoding="utf-8")
    facts = json.loads(called("fmax", path, "--format", "json").output)
    *lower, highest = facts["tipping"]
    assert {item["util"] for item in lower} == {656}
    assert highest.get("util") is None
    text = called("fmax", path).output
    assert "schedutil (6.12, not invariant) asks for more than the current clock, if that is" in text
    assert "schedutil (6.12, invariant)" in called("fmax", "epyc-7742-2s").output


def test_a_machine_of_cppc_without_powers_has_the_artificial_energy_model(tmp_path: Path) -> None:
    tree = tomllib.loads(Machine.load("juno-r2").to_toml())
    tree["driver"].sort(key=lambda driver: driver["name"] != "cppc_cpufreq")
    for opp in (opp for cluster in tree["cluster"] for opp in cluster["opp"]):
        opp["busy_uw"], opp["uw"] = opp.get("busy_uw") or opp["uw"], 0
    assert registers_artificial(tree)
    machine = Machine.from_tree(tree)
    load = Workload.parse('{"tasks": {"t": {"loop": 9, "run": 2000, "timer": {"ref": "t", "period": 10000}}}}')
    assert build_case(machine, load, Policy(), seconds=0.1).why_no_eas() is None
    old = build_case(machine, load, Policy(kernel="5.18"), seconds=0.1).why_no_eas()
    assert old == "driver cppc_cpufreq registers no energy model"
    other = build_case(machine, load, Policy(driver="scmi"), seconds=0.1).why_no_eas()
    assert other is not None
    assert "has no power of cluster A53" in other
    (note,) = energy_model_notes(tree)
    assert "the artificial one that cppc_cpufreq registers" in note


def test_a_source_that_is_packed_is_imported_as_it_is(tmp_path: Path) -> None:
    """A turbostat log packed with gzip, as archives have them, was no kind of source that is known."""
    whole = gzip.decompress((shared("silicon") / "jasper-lake-menu/6.1-base-turbostat.txt.gz").read_bytes())
    plain, packed, early = tmp_path / "log.txt", tmp_path / "log.txt.gz", tmp_path / "early.gz"
    plain.write_bytes(whole)
    packed.write_bytes(gzip.compress(whole[:1000]) + gzip.compress(whole[1000:]))
    early.write_bytes(gzip.compress(whole)[:-100])
    texts = [answered("machine", "import", path, "--name", "m").stdout for path in (plain, packed)]
    assert texts[0].replace("log.txt", "L") == texts[1].replace("log.txt.gz", "L")
    assert "failed to read" in str(called("machine", "import", early).exception)


def test_a_dump_is_imported_once_for_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Method: calls are counted, and the findings are those of the check alone."""
    read: list[str] = []
    import_machine, alone = _opplab.import_machine, json.loads(_opplab.check_machine(dump("hswep0"), None))
    monkeypatch.setattr(_opplab, "import_machine", lambda path: read.append(path) or import_machine(path))
    monkeypatch.setattr(_opplab, "check_machine", lambda path, _: read.append(path))
    found = json.loads(called("machine", "check", dump("hswep0"), "--format", "json").stdout)
    assert read == [dump("hswep0")]
    assert found[: len(alone)] == alone


def test_the_epp_of_a_source_is_named(tmp_path: Path) -> None:
    """No machine file has it, and the import did not say so."""
    recorded = shared("traces/x86-612-xeon16-hw1-schedutil-burst") / "sysfs_before.txt"
    snapshot = tmp_path / "sysfs_before.txt"
    epp = "/sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference"
    snapshot.write_text(f"{recorded.read_text()}{epp}: balance_power|\n")
    said = [answered("machine", "import", source).stderr for source in (recorded, snapshot)]
    words = "the source's EPP, balance_power, is a setting: a policy has it (`epp`), no machine file"
    assert [words in one for one in said] == [False, True]


def test_f_max_of_arm_is_by_cluster_and_in_its_own_capacity() -> None:
    """By hand: 950 MHz * (146 + 36) / 383 is above 450 MHz, with 145 it is not; 4.14 has no `arch_set_freq_scale()`."""
    facts = json.loads(called("fmax", "juno-r2", "--format", "json").output)
    tips = {(item["clusters"], item["khz"]): (item.get("util"), item["capacity"]) for item in facts["tipping"]}
    assert {key: of for key, of in tips.items() if key[0] == "A53"} == {
        ("A53", 450_000): (146, 383),
        ("A53", 800_000): (259, 383),
        ("A53", 950_000): (None, 383),
    }
    assert tips["A72", 600_000] == (411, 1024)
    assert all(util is None or util <= capacity for util, capacity in tips.values())
    taken = {item["kernel"]: item.get("candidate") for item in facts["kernels"]}
    assert (taken["4.14-android"], taken["4.14"], taken["4.15"]) == ("max_P", None, "max_P")
    text = called("fmax", "juno-r2").output
    assert "450 MHz  from utilisation 146 of 383 on" in text
    assert re.search(r"\n4\.14 +not invariant ", text)


def test_turbo_without_clocks_is_a_finding(tmp_path: Path) -> None:
    """Goal: a check names turbo without its clocks, of dumps and files. Method: a tree as firmware has it."""
    cpu = tmp_path / "tree/sys/devices/system/cpu"
    (cpu / "cpufreq/policy0").mkdir(parents=True)
    (tmp_path / "tree/proc").mkdir()
    block = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 108\nmodel name\t: Xeon\n"
    (tmp_path / "tree/proc/cpuinfo").write_text(block)
    (cpu / "online").write_text("0\n")
    facts = {"related_cpus": "0", "scaling_driver": "acpi-cpufreq", "cpuinfo_min_freq": "1200000"}

    def words(top: str) -> list[str]:
        table = {"scaling_available_frequencies": f"{top}2000000 1200000", "cpuinfo_max_freq": top or "2000000"}
        for name, text in (facts | table).items():
            (cpu / "cpufreq/policy0" / name).write_text(f"{text}\n")
        answered("machine", "import", tmp_path / "tree", "-o", tmp_path / "m.toml", "--force")
        out = []
        for source in ("tree", "m.toml"):
            found = json.loads(called("machine", "check", tmp_path / source, "--format", "json").stdout)
            out += [item["what"] for item in found if item["check"] == "turbo-unknown"]
        return out

    assert words("") == []
    most = "is unknown: runs are at most at the base clock of 2000 MHz (its P-state of 2001 MHz stands for turbo)"
    assert [most in one for one in words("2001000 ")] == [True, True]
    # CPPC's levels have boost, and the file no clock above 2.5 GHz.
    known = Machine.load("epyc-7502-2s").tree
    assert "at the base clock of 2500 MHz, and no draw has more" in unknown_turbo("epyc", known)
    for cluster in known["cluster"]:
        cluster["cppc"]["highest_perf"] = cluster["cppc"]["nominal_perf"]
    assert unknown_turbo("epyc", known) == ""
    known["source"]["default.cluster.turbo"] = "unknown: as an import marks it"
    assert "at the base clock of 2500 MHz, and no draw has more" in unknown_turbo("epyc", known)


def test_checks_say_cost_and_remedy() -> None:
    found = json.loads(called("machine", "check", dump("adl0"), "--format", "json").output)
    assert {"hybrid-capacity", "eas-smt", "fmax"} <= {item["check"] for item in found}
    assert all(item["cost"] and item["remedy"] for item in found)
    known = {line.split()[0] for line in called("machine", "check", "--list").output.splitlines()}
    assert {item["check"] for item in found} <= known


def test_a_refused_energy_model_is_an_error(tmp_path: Path) -> None:
    text = catalog.find("machine", "juno-r2").read_text().replace("uw = 540000, busy", "uw = 0, busy")
    broken = tmp_path / "broken.toml"
    broken.write_text(text)
    done = called("machine", "check", broken)
    assert done.exit_code == 1
    assert "em-rejected: A72" in done.output


@pytest.mark.parametrize(("name", "kinds"), [("alder-lake-i7-1260p", 2), ("epyc-7742-2s", 2)])
def test_topology_is_drawn(name: str, kinds: int, tmp_path: Path) -> None:
    facts = describe(name)
    root = ElementTree.fromstring(picture(facts))
    space = "{http://www.w3.org/2000/svg}"
    cells = [item for item in root.iter(f"{space}rect") if item.get("class", "").startswith("cpu ")]
    assert len(cells) == facts["nr_cpus"]
    assert len({item.get("class") for item in cells}) == kinds
    target = tmp_path / "page.html"
    answered("machine", "show", name, "--html", target)
    html = target.read_text()
    assert html == page(facts)
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


def test_catalogue_names_its_sources() -> None:
    for name in catalog.names("machine"):
        facts = describe(name)
        assert facts["sources"], name
        assert facts["provenance"], name


@pytest.mark.parametrize("name", ["adl0", "arl-h-1", "dnv0", "genoa0", "rome0", "spr1"])
def test_every_number_of_an_imported_machine_has_a_mark_and_assumed_ones_a_range(name: str) -> None:
    machine, _ = _opplab.import_machine(dump(name))
    text = machine.to_toml()
    assert unmarked(text) == []
    tree = tomllib.loads(text)
    assumed = {name.removeprefix("default.") for name in tree["source"] if name.startswith("default.")}
    for what in ("smt_yield", "smt_power", "costs"):
        assert what not in assumed or any(key.startswith(what) for key in tree["range"]), what


@pytest.mark.parametrize("path", sorted(shared("data/pepc").glob("*.tar.xz")), ids=lambda path: path.name.split(".")[0])
def test_every_number_of_an_imported_machine_has_a_source(path: Path) -> None:
    assert unmarked(_opplab.import_machine(str(path))[0].to_toml()) == []


@pytest.mark.parametrize("latency", ["clock-latency-ns = <90000>;", ""])
def test_every_number_of_an_imported_device_tree_has_a_source(tmp_path: Path, latency: str) -> None:
    point = f"opp-hz = /bits/ 64 <500000000>; {latency}"
    cpu = "operating-points-v2 = <&t>; capacity-dmips-mhz = <1024>;"
    (tmp_path / "t.dts").write_text(
        f"/dts-v1/; / {{ cpus {{ cpu@0 {{ {cpu} }}; }}; t: t {{ opp-1 {{ {point} }}; }}; }};"
    )
    text = _opplab.import_machine(str(tmp_path / "t.dts"))[0].to_toml()
    assert ("transition_latency_us = 90" in text) == bool(latency)
    assert unmarked(text) == []


def test_captions_of_the_gallery_are_titles_of_their_figures() -> None:
    """Goal: a caption says what its figure shows: it begins with the figure's own title."""
    docs = Path(__file__).parents[2] / "docs"
    figures = re.findall(r"\{figure\} (\S+)\n(.*)\n", (docs / "gallery.md").read_text(encoding="utf-8"))
    assert len(figures) >= 3
    for file, caption in figures:
        title = re.search(r"<title>([^<]*)</title>", (docs / file).read_text(encoding="utf-8"))
        assert title is not None
        assert caption.startswith(title[1]), (file, title[1])


@pytest.mark.parametrize("name", ["raptor-lake-i7-13700k", "adl0"])
@pytest.mark.parametrize("smt", [True, False])
@pytest.mark.parametrize("kernel", ["6.6", "6.12"])
def test_engine_and_fmax_measure_a_small_core_against_one_f_max(
    tmp_path: Path, name: str, smt: bool, kernel: str
) -> None:
    """Goal: a busy small core reaches the utilisation that `opplab fmax` lets expect: its clock over f_max."""
    text = _opplab.import_machine(dump(name))[0].to_toml() if name == "adl0" else Machine.load(name).to_toml()
    if not smt:
        cpus = Machine.parse(text, file="x").nr_cpus
        cores = ", ".join(f'"{cpu}"' for cpu in range(cpus))
        text = re.sub(r"(?m)^core = \[[^]]*\]", f"core = [{cores}]", text, count=1)
    path = tmp_path / "machine.toml"
    path.write_text(text)
    choice = next(item for item in report(str(path))["kernels"] if item["kernel"] == kernel)
    small = tomllib.loads(text)["cluster"][1]
    first = int(small["cpus"].split("-")[0])
    work = {"cpus": [first], "loop": -1, "run": 500, "timer": {"ref": "t", "period": 2000}}
    load = Workload.parse(json.dumps({"tasks": {"t": work}}), name="load", file="<load>")
    policy = Policy(kernel=kernel, driver="intel_cpufreq", governor="performance", variation="none")
    tables = simulate(Machine.load(str(path)), load, policy, seconds=2.0).events("pelt_cfs_tp", "sched_switch")
    utils = tables["pelt_cfs_tp"].filter((pl.col("cpu") == first) & (pl.col("time_ns") > 1_000_000_000))["util_avg"]
    switches = tables["sched_switch"].filter((pl.col("cpu") == first) & (pl.col("time_ns") > 1_000_000_000))
    times, tasks = switches["time_ns"].to_list(), switches["next"].to_list()
    idle = max(tasks)
    busy_ns = sum(end - at for at, end, task in zip(times, times[1:], tasks, strict=False) if task != idle)
    share = busy_ns / (times[-1] - times[0])
    each_cpu = kernel == "6.12" and not smt
    assert freq_max_of(kernel, "GenuineIntel", hybrid=True, smt=smt) == ("each-cpu" if each_cpu else "boot-cpu")
    # Each CPU's own f_max is its highest clock, at which it runs here.
    by_hand = share * (small["capacity"] if each_cpu else 1024 * small["opp"][-1]["khz"] / choice["khz"])
    assert float(utils.mean()) == pytest.approx(by_hand, rel=0.04)


def test_a_scale_at_an_unknown_turbo_clock_is_unknown() -> None:
    """Beside "turbo MHz: unknown" stood the scale at the base clock as that of turbo."""
    facts = json.loads(answered("fmax", "epyc-7502-2s", "--format", "json").stdout)
    assert facts["turbo"] == [] and [item.get("scale_at_turbo") for item in facts["candidates"]] == [None] * 3
    assert {
        item["scale_at_turbo"]
        for item in json.loads(answered("fmax", "juno-r2", "--format", "json").stdout)["candidates"]
    } == {1024}


def test_f_max_of_amd_by_cppc_acts_without_turbo_bins() -> None:
    """By hand: 20 ms at the base frequency from rest, on a clock that is slowed down by f_max."""
    work = Workload.periodic(1, run_us=20_000, period_us=300_000)
    peaks = {}
    for freq_max, ratio in (("max_P", 1024), ("mid", 1199), ("", 1199)):
        policy = Policy(governor="performance", freq_max=freq_max, variation="none")
        table = simulate(Machine.load("epyc-7502-2s"), work, policy, seconds=1.5).events("pelt_se_tp")
        peaks[freq_max] = table.filter(pl.col("time_ns") > 700_000_000)["util_avg"].max()
        assert peaks[freq_max] == pytest.approx(1024 * (1 - 0.5 ** (20 * 1024 / ratio / 32.768)), abs=12), freq_max
    assert peaks[""] == peaks["mid"] < peaks["max_P"]


@pytest.mark.parametrize("driver", ["amd-pstate", "amd-pstate-guided", "amd-pstate-epp"])
@pytest.mark.parametrize("name", ["epyc-7502-2s", "epyc-7742-2s", "epyc-milan-1s"])
def test_amd_pstate_loads_where_cppc_has_no_frequencies(name: str, driver: str) -> None:
    policy = Policy(driver=driver, governor="powersave" if driver.endswith("epp") else "schedutil")
    run = simulate(Machine.load(name), Workload.periodic(1, run_us=1000, period_us=16_000), policy, seconds=0.1)
    assert run.fingerprint


def test_unknown_numbers_of_a_machine_are_unknown_and_not_0(tmp_path: Path) -> None:
    """Goal: what an import does not know is said so in text, JSON and Python, and none of it is a 0."""
    path = tmp_path / "adl0.toml"
    path.write_text(_opplab.import_machine(dump("adl0"))[0].to_toml())
    shown = called("machine", "show", path, "--format", "text").output
    assert " 0.0" not in shown
    assert "power unknown" in shown
    facts = json.loads(called("machine", "show", path, "--format", "json").output)
    for cluster in facts["clusters"]:
        powers = [opp[key] for opp in cluster["opps"] for key in ("mv", "power_uw", "busy_uw", "cluster_uw")]
        assert set(powers) == {None}
        assert {state["power_uw"] for state in cluster["idle"]} == {None}
    # A machine with power says what the kernel is not told: this server registers no model.
    known = json.loads(called("machine", "show", "epyc-7742-2s", "--format", "json").output)["clusters"][0]["opps"][0]
    assert known["power_uw"] is None
    assert known["busy_uw"] == 595_125


@pytest.mark.parametrize(("name", "words"), [("scmi", "latency unknown, switch"), ("acpi-cpufreq", "latency 0 us")])
def test_a_latency_that_its_driver_takes_for_unknown_is_not_0(tmp_path: Path, name: str, words: str) -> None:
    text = re.sub(r"transition_latency_us = \d+", "transition_latency_us = 0", Machine.load("juno-r2").to_toml())
    path = tmp_path / "bare.toml"
    path.write_text(text.replace('name = "scmi"', f'name = "{name}"'))
    assert f"driver {name}: slow switch (kthread), frequency table, transition {words}" in " ".join(
        called("machine", "show", path).output.split()
    )
    driver = json.loads(called("machine", "show", path, "--format", "json").output)["drivers"][0]
    assert driver["transition_latency_ns"] == (None if "unknown" in words else 0)


def test_idle_power_by_clock_is_shown() -> None:
    """What the engine draws for an idle CPU at a clock stands beside the clock, not one number beside the state."""
    of_x1 = called("machine", "show", "pixel6").output.partition("cluster X1")[2]
    head, *rows = [line for line in of_x1.splitlines() if line.startswith("  ")][: 1 + 3]
    assert head.endswith("idle mW")
    tree = tomllib.loads(called("machine", "show", "pixel6", "--format", "toml").output)
    (x1,) = (cluster for cluster in tree["cluster"] if cluster["name"] == "X1")
    assert [float(row.split()[-1]) for row in rows] == [round(opp["idle_uw"] / 1000, 1) for opp in x1["opp"][:3]]
    assert "idle mW: of a CPU in WFI at this clock" in of_x1
    assert "idle mW" not in called("machine", "show", "juno-r2").output


def test_the_cluster_power_that_acts_while_its_cpus_idle_is_shown() -> None:
    """A cluster whose CPUs all idle draws `cluster_idle_uw`; `cluster_uw` is that of an awake one."""
    of_prime = called("machine", "show", "pixel4").output.partition("cluster A76 prime")[2]
    head, first = [line for line in of_prime.splitlines() if line.startswith("  ")][:2]
    assert head.endswith("cluster mW  all idle mW")
    assert first.split()[-2:] == ["81.4", "32.3"]
    assert "all idle mW: of the cluster while all its CPUs are in idle states" in of_prime


def test_one_power_for_the_energy_model_and_the_chip_is_called_so() -> None:
    """Goal: a measurement does not stand there as the model that the phone's kernel has."""
    words = "model mW: the file has one power of these points, for the energy model and for a busy CPU"
    assert called("machine", "show", "pixel6").output.count(words) == 3
    assert words not in called("machine", "show", "juno-r2").output, "its firmware's model is not what its CPUs draw"


@pytest.mark.parametrize("name", catalog.names("machine"))
def test_what_a_cluster_shares_does_not_fall_with_the_clock(name: str) -> None:
    """Goal: no cluster draws more at a low clock than at a higher one, as the Pixel 6's little cores did."""
    for cluster in tomllib.loads(catalog.find("machine", name).read_text(encoding="utf-8"))["cluster"]:
        shared = [opp.get("cluster_uw", 0) for opp in cluster["opp"]]
        assert shared == sorted(shared), cluster["name"]


def test_the_rails_of_the_pixel_6_draw_what_freqbench_measured() -> None:
    """Goal: no more than was measured of an idle rail is shared power; busy rails are as measured."""
    clusters = tomllib.loads(catalog.find("machine", "pixel6").read_text(encoding="utf-8"))["cluster"]
    rows = pl.read_csv(shared("silicon/freqbench/opp_power.csv"), infer_schema=False).filter(soc="gs101")
    measured = {(row["cpu"], int(row["khz"])): row for row in rows.iter_rows(named=True)}
    for cpu, cluster in zip(("1", "4", "6"), clusters, strict=True):
        for opp in cluster["opp"]:
            row = measured[cpu, opp["khz"]]
            assert opp["cluster_uw"] <= 1015 * float(row["online_idle_mean_mw"]), (cpu, opp["khz"])
            assert abs(opp["uw"] + opp["cluster_uw"] - 1000 * float(row["busy_mean_mw"])) <= 1, (cpu, opp["khz"])


@pytest.mark.parametrize("name", catalog.names("machine"))
def test_no_wake_up_takes_a_told_worst_case(name: str) -> None:
    """Goal: exit latencies that a governor is told are bounds; a wake-up takes less. The Junos were fitted so."""
    for cluster in tomllib.loads(catalog.find("machine", name).read_text(encoding="utf-8"))["cluster"]:
        for state in cluster.get("idle", []):
            deep = state.get("exit_latency_us", 0) >= 100 and not name.startswith("juno")
            assert not deep or {"wake_us", "wake_ns"} & set(state), state["name"]


def test_a_xeon_whose_table_ends_at_base_turbos(tmp_path: Path) -> None:
    """The passive driver asks for turbo above the last operating point, as `fmax` says."""
    load = {"tasks": {"t": {"loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 2500, "mode": "absolute"}}}}
    (tmp_path / "one.json").write_text(json.dumps(load), encoding="utf-8")
    out = tmp_path / "out"
    args = ["-m", "xeon-6130-2s", "--governor", "performance", "--seconds", "0.2", "--iterations", "1"]
    answered("run", tmp_path / "one.json", *args, "-o", out)
    rows = pl.read_parquet(out / "results.parquet")
    assert "3700000" in " ".join(rows["metric"].unique())


def test_a_machine_with_numbers_of_another_one_says_so_in_the_list() -> None:
    rows = {row["machine"]: row["numbers of"] for row in rows_of("machines")}
    assert rows["skylake-sp-2s"] == "2x Xeon Platinum 8260L"
    for name, other in rows.items():
        text = read_text(catalog.find("machine", name), "a machine file")
        assert bool(other) == ("proxy" in text.partition("provenance = ")[2].partition("\n")[0]), name


def test_dumps_say_whether_all_cores_have_one_clock() -> None:
    """Goal: a dump gives the same machine as the catalogue's file of it; the model decides, with its source."""
    one_clock = {"aml-y-2", "cfl-u", "dell-9360-kbl", "mhl0", "bdwup0", "ivbep1"}
    for path in sorted(shared("data/pepc").glob("*.tar.xz")):
        name = path.name.split(".")[0]
        machine = tomllib.loads(_opplab.import_machine(str(path))[0].to_toml())
        assert machine.get("package_clock", False) is (name in one_clock), name
        assert ("package_clock" in machine["source"]) is (name in one_clock), name
    known = tomllib.loads(Machine.load("kaby-lake-i7-7500u").to_toml())
    assert known["package_clock"] is True


def test_dumps_know_their_pause_instruction_by_the_model() -> None:
    """Goal: cycles and source come with the model; of a processor without a source they are assumed, within a range."""
    cycles = {"hswep0": 10, "bdwup0": 10, "sklep0": 140, "cfl-u": 140, "spr1": 140, "rome0": 65, "milan0": 65}
    for path in sorted(shared("data/pepc").glob("*.tar.xz")):
        name = path.name.split(".")[0]
        machine = tomllib.loads(_opplab.import_machine(str(path))[0].to_toml())
        if name in cycles:
            assert machine.get("pause_cycles", 10) == cycles[name], name
        assumed = "default.pause_cycles" in machine["source"]
        assert assumed is not ("pause_cycles" in machine["source"]), name
        assert assumed is ("pause_cycles" in machine.get("range", {})), name
    for name in ("epyc-7742-2s", "skylake-8x-uma"):
        assert tomllib.loads(Machine.load(name).to_toml())["pause_cycles"] > 10, name


def test_fmax_of_an_architecture_without_a_scale_is_not_invariant(tmp_path: Path) -> None:
    """Goal: POWER's schedutil works on the current clock, and many clusters are within the terminal's width."""
    cpu = tmp_path / "sys/devices/system/cpu"
    for number in range(8):
        policy = cpu / f"cpufreq/policy{number}"
        policy.mkdir(parents=True)
        (policy / "related_cpus").write_text(f"{number}\n")
        (policy / "scaling_available_frequencies").write_text("3800000 2000000\n")
        (policy / "cpuinfo_max_freq").write_text("3800000\n")
        # Policies with idle states of their own are clusters of their own.
        (cpu / f"cpu{number}/cpuidle/state0").mkdir(parents=True)
        (cpu / f"cpu{number}/cpuidle/state0/name").write_text(f"snooze{number}\n")
    (cpu / "online").write_text("0-7\n")
    (tmp_path / "proc").mkdir()
    blocks = "".join(f"processor\t: {number}\ncpu\t\t: POWER9, altivec supported\n\n" for number in range(8))
    (tmp_path / "proc/cpuinfo").write_text(f"{blocks}timebase\t: 512000000\nmodel\t\t: 9006-22P\n")
    text = answered("fmax", tmp_path, columns=80).output
    assert "schedutil (6.12, not invariant) asks for more than the current clock" in text
    assert max(map(len, text.splitlines())) <= 80
    # Both the current clock and the utilisation count with a quarter more: from 1024 / 1.25 / 1.25 = 655.4 on.
    assert "2000 MHz  from utilisation 656 of 1024 on" in text and "3800 MHz  never" in text
    assert "no frequency scale" in answered("machine", "check", tmp_path).output


@pytest.mark.parametrize("name", catalog.names("machine"))
def test_ends_of_powers_are_those_of_draws(name: str) -> None:
    """Goal: what a run's bounds take is what `--uncertainty` draws at the ends. Method: both, on each machine."""
    machine = Machine.load(name)
    powers = [one for one in assumptions_of(machine.tree) if one.key.endswith(("uw", "smt_power"))]
    powers = [one for one in powers if not one.key.startswith("package_power")]
    for share, ends in zip((0.0, 1.0), machine._inner.power_ends(), strict=True):
        assert bool(ends) == bool(powers)
        drawn = with_draw(machine.tree, powers, [share] * len(powers))
        # Where a sum is kept, the first of the low ones shares the least, and the last of the high ones the most.
        for end in [ends[0 if share == 0 else -1]] if ends else []:
            tree = tomllib.loads(end.to_toml())
            assert _powers_uw(tree) == pytest.approx(_powers_uw(drawn), abs=1), "halves of a uW are rounded otherwise"


def _powers_uw(tree: dict[str, Any]) -> list[float]:
    """Give all powers of a machine: in any unit, as its file has them."""
    machine = Machine.from_tree(tree).describe()
    points = [opp for cluster in machine["clusters"] for opp in cluster["opps"]]
    states = [state for cluster in machine["clusters"] for state in cluster["idle"]]
    found = [opp[key] for opp in points for key in ("power_uw", "busy_uw", "cluster_uw", "idle_uw", "cluster_idle_uw")]
    found += [state["power_uw"] for state in states]
    found += [cluster["cluster_idle_uw"] for cluster in machine["clusters"]]
    return [*(one or 0 for one in found), tree.get("smt_power", 1024)]


@pytest.mark.parametrize("driver", ["intel_pstate", "amd-pstate-epp"])
def test_fmax_has_schedutil_under_a_driver_that_it_runs_under(driver: str, tmp_path: Path) -> None:
    """Of a driver in active mode it printed what schedutil asks for, which cannot run there.

    Second way: the engine refuses schedutil under this driver, and runs it under the one that is named.
    """
    name = "skylake-8x-uma" if driver == "intel_pstate" else "epyc-7742-2s"
    load = Workload.periodic(1, run_us=1000, period_us=16000)
    with pytest.raises(OpplabError):
        simulate(name, load, Policy(governor="schedutil", driver=driver), seconds=0.05)
    facts = json.loads(answered("fmax", name, "--driver", driver, "--format", "json").stdout)
    passive = facts["tipping_driver"]
    simulate(name, load, Policy(governor="schedutil", driver=passive), seconds=0.05)
    own = json.loads(answered("fmax", name, "--driver", passive, "--format", "json").stdout)
    assert facts["driver"] == driver and facts["tipping"] == own["tipping"] and own["tipping_driver"] == passive
    assert f"schedutil under {passive} (6.12, invariant)" in answered("fmax", name, "--driver", driver).stdout
    assert "schedutil (6.12, invariant)" in answered("fmax", name, "--driver", passive).stdout
    # A machine that has the active mode alone has no such block.
    tree = Machine.load(name).tree
    drivers = [one for one in tree["driver"] if one["name"] == driver]
    path = tmp_path / "active.toml"
    path.write_text(Machine.from_tree({**tree, "driver": drivers}).to_toml())
    assert "asks for more" not in answered("fmax", path).stdout
    alone = json.loads(answered("fmax", path, "--format", "json").stdout)
    assert alone["tipping"] == [] and alone["tipping_driver"] is None


def _xeon_tree(folder: Path, model_name: str, pstate: dict[str, int]) -> Path:
    """Write what a Haswell server shows without root: no registers, and no `base_frequency`, which is of HWP."""
    cpu = folder / "sys/devices/system/cpu"
    for number in range(4):
        policy = cpu / f"cpufreq/policy{number}"
        policy.mkdir(parents=True)
        files = {"related_cpus": number, "cpuinfo_min_freq": 1200000, "cpuinfo_max_freq": 3600000}
        for name, value in {**files, "scaling_driver": "intel_cpufreq", "scaling_governor": "schedutil"}.items():
            (policy / name).write_text(f"{value}\n")
    (cpu / "online").write_text("0-3\n")
    (cpu / "intel_pstate").mkdir()
    for name, value in {"no_turbo": 0, **pstate}.items():
        (cpu / f"intel_pstate/{name}").write_text(f"{value}\n")
    (folder / "proc").mkdir()
    processor = {
        "vendor_id": "GenuineIntel",
        "cpu family": 6,
        "model": 63,
        "model name": model_name,
        "flags": "aperfmperf",
    }
    block = "".join(f"{key}\t: {value}\n" for key, value in processor.items())
    (folder / "proc/cpuinfo").write_text("".join(f"processor\t: {number}\n{block}\n" for number in range(4)))
    return folder


def test_a_copied_tree_without_registers_does_not_take_turbo_for_the_base_clock(tmp_path: Path) -> None:
    """3600 MHz were the base clock of a part of 2.6 GHz: ratio 1024.  Method: intel_pstate's own share of turbo.

    15 of 25 levels are no turbo: 100 - 59 = 41 %, and 1200 + 14 * 100 = 2600.
    """
    name = "Intel(R) Xeon(R) CPU E5-2697 v3"
    levels = {"turbo_pct": 41, "num_pstates": 25}
    for folder, model_name, pstate in (("levels", name, levels), ("named", f"{name} @ 2.60GHz", {})):
        tree = _xeon_tree(tmp_path / folder, model_name, pstate)
        facts = json.loads(answered("fmax", tree, "--format", "json").stdout)
        newest = facts["kernels"][-1]
        assert (facts["base_khz"], newest["ratio"]) == (2_600_000, 3600 * 1024 // 2600)
        # How four cores turbo is in the registers only.
        assert "upper bound" in newest["why"]
    tree = _xeon_tree(tmp_path / "neither", name, {})
    facts = json.loads(answered("fmax", tree, "--format", "json").stdout)
    assert facts["kernels"] == [] and facts["warnings"] == ["the base frequency is missing, so there is no ratio"]
    assert "the base frequency (base_khz" in str(_opplab.import_machine(str(tree))[1:])


def test_the_base_clock_by_the_share_of_turbo_is_that_of_the_registers() -> None:
    """Of twelve processors from Ivy Bridge to Granite Rapids."""
    checked = 0
    for path in sorted(shared("data/pepc").glob("*.tar.xz")):
        with tarfile.open(path) as archive:
            texts = [
                archive.extractfile(member).read().decode(errors="replace")  # type: ignore[union-attr]
                for member in archive.getmembers()
                if member.name.endswith("sys/inlinefiles.txt")
            ]
        lines = (line.split("|", 2) for text in texts for line in text.splitlines() if line.count("|") >= 2)
        files = {name.removeprefix("/sys/devices/system/cpu/"): value for _, name, value in lines}
        if "intel_pstate/turbo_pct" not in files:
            continue
        total, share = (int(files[f"intel_pstate/{name}"]) for name in ("num_pstates", "turbo_pct"))
        lowest = int(files["cpufreq/policy0/cpuinfo_min_freq"])
        base = json.loads(answered("fmax", path, "--format", "json").stdout)["base_khz"]
        guaranteed = int(files.get("cpufreq/policy0/base_frequency", base))
        assert 100 - (((guaranteed - lowest) // 100_000 + 1) * 256 // total * 100 >> 8) == share, path.name
        checked += 1
    assert checked >= 12


def test_what_an_idle_thread_asked_for_holds_its_core_on_amd() -> None:
    """Goal: a thread works at the clock of its idle sibling's last request, for half a second; on Intel's it does not.

    Method: a sibling that is busy for 100 ms, and 1 ms of work at 3.4 GHz from 150 ms on, or at 2.25.
    """

    def median_ms(vendor: str, delay_ms: int) -> float:
        tree = tomllib.loads(opplab.Machine.load("epyc-7742-2s").to_toml())
        tree["processor"]["vendor"] = vendor
        timer = {"ref": "unique", "period": 20_000}
        tasks = {
            "once": {"loop": 1, "run": 100_000, "cpus": [0]},
            "light": {"delay": delay_ms * 1000, "loop": 5, "run": 1000, "timer": timer, "cpus": [128]},
        }
        work = opplab.Workload.parse(json.dumps({"global": {"duration": 1}, "tasks": tasks}))
        policy = opplab.Policy(driver="acpi-cpufreq", variation="none")
        run = opplab.simulate(opplab.Machine.from_tree(tree), work, policy, seconds=1)
        return float(run.metrics.filter(metric="response_p50")["value"][0])

    assert median_ms("AuthenticAMD", 150) == pytest.approx(1.0, abs=0.05)
    assert median_ms("GenuineIntel", 150) == pytest.approx(3.4 / 2.25, abs=0.05)
    assert median_ms("AuthenticAMD", 700) == pytest.approx(median_ms("GenuineIntel", 700))


def test_a_machine_is_shown_with_the_wake_ups_that_runs_take(tmp_path: Path) -> None:
    """`machine show` had an exit of 140 us alone, where runs wake up in 42. Method: the latency of a run, by hand."""
    shown = answered("machine", "show", "core-ultra-135h", columns=200).stdout
    assert "idle C6: entry 0 us, exit 140 us (in runs 42 us), residency 420 us" in shown
    assert "runs wake up in the other time (default.cluster.idle.wake)" in shown
    assert "in runs" not in answered("machine", "show", "juno-r2", columns=200).stdout
    machine = opplab.Machine.load("core-ultra-135h")
    (wake_ns,) = {
        state["wake_ns"] for of in machine.describe()["clusters"] for state in of["idle"] if state["name"] == "C6"
    }
    load = opplab.Workload.periodic(1, run_us=100, period_us=3000)
    policy = opplab.Policy(governor="powersave", variation="none", idle_disable=["POLL", "C1E", "C10"])
    run = opplab.simulate(machine, load, policy, seconds=0.2)
    metrics = dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))
    assert wake_ns == 42000
    assert metrics["latency_p50"] == pytest.approx(wake_ns / 1e6, rel=0.1), "and not 0.140"
    for name in catalog.names("machine"):
        for cluster in opplab.Machine.load(name).describe()["clusters"]:
            assert all(0 <= state["wake_ns"] <= state["exit_latency_ns"] for state in cluster["idle"]), name
