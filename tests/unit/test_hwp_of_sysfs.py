"""Hardware P-states of machines whose registers were not dumped: by what sysfs has, beside registers of real dumps."""

import tarfile
import tomllib
from pathlib import Path

import pytest

from calls import answered
from testdata import shared

CPU = "sys/devices/system/cpu"
CPUINFO = """processor : {cpu}
vendor_id : GenuineIntel
cpu family : 6
model : 106
model name : Xeon
stepping : 6
physical id : 0
flags : aperfmperf hwp hwp_epp

"""


def imported(source: Path, out: Path) -> tuple[dict, str]:
    done = answered("machine", "import", source, "-o", out, "--force")
    return tomllib.loads(out.read_text()), done.stderr


@pytest.mark.parametrize("name", ["spr1", "gnrd0", "sklep0", "mhl0", "cfl-u", "adl0", "arl-h-1", "mtl-m-2", "aml-y-2"])
def test_levels_without_registers_are_those_of_the_registers(tmp_path: Path, name: str) -> None:
    dump, bare = shared(f"data/pepc/{name}.tar.xz"), tmp_path / f"{name}.tar.xz"
    with tarfile.open(dump) as whole, tarfile.open(bare, "w:xz") as rest:
        for member in whole:
            if "msr" not in Path(member.name).parts:
                rest.addfile(member, whole.extractfile(member) if member.isfile() else None)
    with_registers, _ = imported(dump, tmp_path / "with.toml")
    without, notes = imported(bare, tmp_path / "without.toml")
    assert "cluster.hwp: levels-by-cppc" in " ".join(notes.split())
    found = [
        (one["hwp"], other["hwp"]) for one, other in zip(with_registers["cluster"], without["cluster"], strict=True)
    ]
    for register, ours in found:
        assert (ours["highest"], ours["lowest"]) == (register["highest"], register["lowest"])
        # base_frequency is rounded to 100 MHz, of which some levels are no multiple.
        assert abs(ours["guaranteed"] - register["guaranteed"]) <= 1
        # Firmware moves this one about.
        assert abs(ours["most_efficient"] - register["most_efficient"]) <= (0 if name in ("spr1", "gnrd0") else 7)


def tree_of(folder: Path, *, hwp: bool) -> Path:
    """Write the tree of a Xeon with two CPUs under intel_pstate, without registers."""
    files = {f"{CPU}/online": "0-1", "proc/cpuinfo": "".join(CPUINFO.format(cpu=cpu) for cpu in (0, 1))}
    for cpu in (0, 1):
        policy = f"{CPU}/cpufreq/policy{cpu}"
        clocks = {"cpuinfo_max_freq": 3400000, "cpuinfo_min_freq": 800000, "cpuinfo_transition_latency": 0}
        own = {"base_frequency": 2000000, "energy_performance_preference": "balance_performance"} if hwp else {}
        words = {"affected_cpus": cpu, "related_cpus": cpu, "scaling_driver": "intel_pstate"}
        for key, value in {**clocks, **own, **words, "scaling_governor": "powersave"}.items():
            files[f"{policy}/{key}"] = f"{value}"
        files[f"{CPU}/cpu{cpu}/topology/thread_siblings_list"] = f"{cpu}"
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = "0"
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return folder


def test_a_tree_with_preferences_has_hwp_and_they_change_runs(tmp_path: Path) -> None:
    """It was imported without HWP and without a word; runs under preferences were all alike."""
    machine, notes = imported(tree_of(tmp_path / "xeon", hwp=True), tmp_path / "xeon.toml")
    assert machine["cluster"][0]["hwp"] == {"highest": 34, "guaranteed": 20, "most_efficient": 8, "lowest": 8}
    assert "levels-by-clock" in notes
    load = tmp_path / "load.json"
    load.write_text('{"tasks": {"t": {"loop": -1, "run": 1000, "sleep": 9000}}}')
    command = ["run", str(load), "-m", str(tmp_path / "xeon.toml"), "--driver", "intel_pstate", "--governor"]
    command += ["powersave", "--vs", "epp=power", "--seconds", "0.5", "--iterations", "2", "-j", "1"]
    done = answered(*command, "-o", tmp_path / "out")
    assert "no preference" not in done.output
    assert "event for event" not in done.output


def test_without_its_files_hwp_is_off(tmp_path: Path) -> None:
    """intel_pstate has them only where it took HWP: `intel_pstate=no_hwp` leaves the flag of the processor."""
    machine, notes = imported(tree_of(tmp_path / "xeon", hwp=False), tmp_path / "xeon.toml")
    assert "hwp" not in machine["cluster"][0]
    assert "cluster.hwp" not in notes
    assert "hardware P-states" not in notes
