"""Exported machines: the device tree compiles and has capacities and powers; debugfs and Wattson are read again."""

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from opplab import _opplab, catalog
from opplab.errors import InputError
from opplab.fit import machine_export
from opplab.simulation.machine import Machine

from calls import answered, called


def facts(name: str) -> dict:  # type: ignore[type-arg]
    path = catalog.find("machine", name)
    return _opplab.Machine.parse(str(path), path.read_text(encoding="utf-8")).describe()  # type: ignore[no-any-return]


def export(*words: str) -> str:
    done = answered("machine", "export", *words)
    return done.output


@pytest.mark.skipif(shutil.which("dtc") is None, reason="skipped: dtc is not installed")
@pytest.mark.parametrize("name", ["juno-r2", "pixel4", "pixel6", "sdm845", "sm8250"])
def test_the_device_tree_compiles_and_has_what_the_machine_has(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.dts").write_text(export(name))
    built = subprocess.run(
        ["dtc", "-I", "dts", "-O", "dts", str(tmp_path / "x.dts")], capture_output=True, text=True, check=True
    )
    assert "ERROR" not in built.stderr
    machine = facts(name)
    dmips = [int(value, 16) for value in re.findall(r"capacity-dmips-mhz = <(0x[0-9a-f]+)>", built.stdout)]
    assert len(dmips) == machine["nr_cpus"]
    # drivers/base/arch_topology.c:topology_normalize_cpu_scale(): capacity is dmips x f_max by the largest of them.
    raw = [
        one * max(opp["khz"] for opp in cluster["opps"])
        for one, cluster in zip(machine_export.dmips_mhz(machine["clusters"]), machine["clusters"], strict=True)
    ]
    for value, cluster in zip(raw, machine["clusters"], strict=True):
        assert value * 1024 // max(raw) == cluster["capacity"]
    powers = {int(value, 16) for value in re.findall(r"opp-microwatt = <(0x[0-9a-f]+)>", built.stdout)}
    assert powers == {opp["power_uw"] or opp["busy_uw"] for cluster in machine["clusters"] for opp in cluster["opps"]}


def test_exported_capacities_are_those_that_are_imported() -> None:
    """Goal: the kernel, which cuts its quotients, makes the capacities. Method: all built-in machines."""
    seen = 0
    for name in catalog.names("machine"):
        clusters = facts(name)["clusters"]
        if max(one["capacity"] for one in clusters) != 1024 or len({one["capacity"] for one in clusters}) == 1:
            continue
        raw = [
            one * max(opp["khz"] for opp in cluster["opps"])
            for one, cluster in zip(machine_export.dmips_mhz(clusters), clusters, strict=True)
        ]
        assert [value * 1024 // max(raw) for value in raw] == [one["capacity"] for one in clusters], name
        seen += 1
    assert seen > 20


@pytest.mark.parametrize("name", ["juno-r2", "pixel6", "zuma"])
def test_an_exported_tree_is_imported_with_the_same_cpus_and_capacities(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.dts").write_text(export(name))
    answered("machine", "import", tmp_path / "x.dts", "-o", tmp_path / "x.toml")
    found = tomllib.loads((tmp_path / "x.toml").read_text())["cluster"]
    assert [(one["cpus"], one["capacity"]) for one in found] == [
        (one["cpus"], one["capacity"]) for one in facts(name)["clusters"]
    ]


def test_the_junos_coefficient_is_its_firmwares() -> None:
    """SCP's firmware computes 0.14 and 0.45 mW/MHz/V^2, cut to whole mW."""
    found = [machine_export.coefficient(cluster["opps"]) for cluster in facts("juno-r2")["clusters"]]
    assert [round(one[0] / 10) for one in found if one] == [14, 45]
    assert all(one and one[1] < 0.01 for one in found)


def test_a_point_is_inefficient_where_a_faster_one_costs_no_more() -> None:
    """Costs are power x 10 / performance; with power x f_max / f, as of 5.14 to 6.8, 1497.6 MHz would be efficient."""
    marked = re.findall(r"ps:(\d+)/inefficient:1", export("sm8150", "--format", "debugfs"))
    assert "1497600" in marked
    words = r"the kernel passes over [^:]*\b1497\.6\b[\d., ]* MHz from v6\.9 on, by rounding alone: "
    assert re.search(words, export("sm8150"))


def test_debugfs_and_wattson_are_read_again(tmp_path: Path) -> None:
    export("pixel6", "--format", "debugfs", "-o", str(tmp_path / "em"))
    export("pixel6", "--format", "wattson", "-o", str(tmp_path / "cpu_1d.csv"))
    for source, power in (("em", "power_uw"), (".", "busy_uw")):
        output = tmp_path / f"{power}.toml"
        answered("machine", "import", tmp_path / source, "-o", output)
        again = _opplab.Machine.parse("again.toml", output.read_text()).describe()
        for ours, theirs in zip(facts("pixel6")["clusters"], again["clusters"], strict=True):
            assert [opp["khz"] for opp in ours["opps"]] == [opp["khz"] for opp in theirs["opps"]]
            assert [opp[power] for opp in theirs["opps"]] == [opp[power] or opp["busy_uw"] for opp in ours["opps"]]


def test_unknown_power_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text(re.sub(r", (?:busy_)?(?:u|m)w = [0-9.]+", "", catalog.find("machine", "sdm845").read_text()))
    assert "opp-microwatt: not known" in export(str(path))
    done = called("machine", "export", path, "--format", "debugfs")
    assert isinstance(done.exception, InputError) and "is not known" in str(done.exception)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"topology": {"core": ["0,3", "1-2", "4-5"], "llc": ["0-5"], "node": ["0-5"], "package": ["0-5"]}}, "(SMT)"),
        ({"invariance": "none"}, "no frequency invariance"),
    ],
)
def test_placements_are_only_where_the_kernel_places_by_energy(
    change: dict[str, object], words: str, tmp_path: Path
) -> None:
    """Goal: a machine on which sched_is_eas_possible() refuses has no table of placements, as in the simulation."""
    machine = Machine.from_tree(Machine.load("juno-r2").tree | change)
    (tmp_path / "x.toml").write_text(machine.to_toml())
    text = export(str(tmp_path / "x.toml"))
    assert f"{words} */" in text
    assert "util 1 to" not in text and "util 1 to" in export("juno-r2")
