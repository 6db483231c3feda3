"""Machines from the command line: import, f_max, checks, the picture."""

import json
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from opplab import _opplab, catalog
from opplab.cli.main import opplab
from opplab.report.topology import page, picture

from testdata import shared


def run(*args: str) -> Result:
    return CliRunner().invoke(opplab, list(args))


def dump(name: str) -> str:
    return str(shared(f"data/pepc/{name}.tar.xz"))


def describe(name: str) -> dict:
    path = catalog.find("machine", name)
    return _opplab.Machine.parse(str(path), path.read_text()).describe()


def test_import_writes_a_machine_file(tmp_path: Path) -> None:
    target = tmp_path / "twin.toml"
    done = run("machine", "import", dump("adl0"), "-o", str(target))
    assert done.exit_code == 0, done.output
    assert tomllib.loads(target.read_text())["name"] == "twin"
    # What is written round-trips.
    shown = run("machine", "show", str(target), "--format", "toml")
    assert shown.output == target.read_text()
    assert "default  cluster.capacity: hybrid-by-highest-perf" in done.output
    assert "missing  package power limits" in done.output
    # An import leaves files alone unless told.
    again = run("machine", "import", dump("adl0"), "-o", str(target))
    assert again.exit_code == 2
    assert "--force" in again.output


def test_wrong_source_is_one_line(tmp_path: Path) -> None:
    source = tmp_path / "half.tar.xz"
    source.write_bytes(Path(dump("adl0")).read_bytes()[:4000])
    done = run("machine", "import", str(source))
    assert done.exit_code != 0
    assert "cut off" in str(done.exception)


def test_f_max_of_the_epyc_is_explained() -> None:
    # A dump of a processor that is in the catalogue: the published frequencies are shown beside CPPC's integers.
    for source in (dump("rome0"), "epyc-7742-2s"):
        facts = json.loads(run("fmax", source, "--format", "json").output)
        khz = {item["name"]: item["khz"] for item in facts["candidates"]}
        assert khz == {
            "max_P": 2250000,
            "mid": 2832275,
            "max_boost": 3414550,
            "mid (MHz)": 2825000,
            "max_boost (MHz)": 3400000,
        }
        assert "255 * 1024 / 168 = 1554" in facts["explanations"][0]
    text = run("fmax", "epyc-7742-2s").output
    assert "3414.55" in text
    assert "not invariant" in text
    # Kernels that are alike share a line, and a warning.
    assert text.count("amd_get_highest_perf()") == 1 and text.count("warning: ") == 1
    assert "\n5.13 to 6.11 " in text and "warning: kernels 5.13, 5.14, " in text


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
    facts = json.loads(run("fmax", name, "--format", "json").output)
    found = {item["name"]: item["ratio"] for item in facts["candidates"]}
    assert {key: found[key] for key in ratios} == ratios
    taken = {item["kernel"]: item.get("candidate") for item in facts["kernels"]}
    assert (taken["5.0"], taken["6.12"]) == (None, "turbo-4-cores")


def test_checks_say_cost_and_remedy() -> None:
    found = json.loads(run("machine", "check", dump("adl0"), "--format", "json").output)
    assert {"hybrid-capacity", "eas-smt", "fmax"} <= {item["check"] for item in found}
    assert all(item["cost"] and item["remedy"] for item in found)
    known = {line.split()[0] for line in run("machine", "check", "--list").output.splitlines()}
    assert {item["check"] for item in found} <= known


def test_a_refused_energy_model_is_an_error(tmp_path: Path) -> None:
    text = catalog.find("machine", "juno-r2").read_text().replace("uw = 540000, busy", "uw = 0, busy")
    broken = tmp_path / "broken.toml"
    broken.write_text(text)
    done = run("machine", "check", str(broken))
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
    assert run("machine", "show", name, "--html", str(target)).exit_code == 0
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
    from opplab.simulation.machine_marks import unmarked

    machine, _ = _opplab.import_machine(dump(name))
    text = machine.to_toml()
    assert unmarked(text) == []
    tree = tomllib.loads(text)
    assumed = {name.removeprefix("default.") for name in tree["source"] if name.startswith("default.")}
    for what in ("smt_yield", "smt_power", "costs"):
        assert what not in assumed or any(key.startswith(what) for key in tree["range"]), what
