"""`opplab fleet`: machine types of dumps, watts saved against single choices, refusals, and what is kept."""

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import opplab
from opplab import _opplab
from opplab.choice import choose as choosing
from opplab.choice.fleet import fleet, sources_of
from opplab.cli.main import opplab as program
from opplab.fit.machine_power import generic_power

from testdata import shared

LOAD = {
    "global": {"duration": 1, "calibration": "CPU0"},
    "tasks": {"t": {"instance": 3, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}},
}
OPTIONS = {"seconds": 0.1, "iterations": 2, "uncertainty": 0, "jobs": 1}


@pytest.fixture
def dumps(tmp_path: Path) -> Path:
    """Two machines of one type, one of another, and a file that is no dump."""
    folder = tmp_path / "dumps"
    folder.mkdir()
    for name, source in (("a", "rome0"), ("b", "rome0"), ("c", "adl0")):
        (folder / f"{name}.tar.xz").symlink_to(shared(f"data/pepc/{source}.tar.xz"))
    (folder / "hostile.tar.xz").write_bytes(b"\xfd7zXZ\x00 not really")
    return folder


def run(folder: Path, *more: str) -> Result:
    load = folder.parent / "load.json"
    load.write_text(json.dumps(LOAD))
    words = ["--seconds", "0.1", "--iterations", "2", "--uncertainty", "0", "-j", "1"]
    return CliRunner().invoke(
        program, ["fleet", str(folder), "-w", str(load), "-o", str(folder.parent / "out"), *words, *more]
    )


def test_a_row_is_a_machine_type_and_a_refused_dump_is_named(dumps: Path) -> None:
    done = run(dumps, "--format", "csv")
    assert done.exit_code == 1
    assert "hostile.tar.xz" in done.stderr
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert sorted(row["machines"] for row in rows) == ["1", "2"]
    page = (dumps.parent / "out" / "report.html").read_text()
    whole = json.loads((dumps.parent / "out" / "fleet.json").read_text())
    for row in rows:
        assert row["machine_type"] in page
        assert whole["commands"][row["digest"]]
    assert [Path(one["dump"]).name for one in whole["refused"]] == ["hostile.tar.xz"]


def test_the_watts_are_those_of_single_simulations(dumps: Path) -> None:
    """Power x (1 - ratio of energies by work), by hand from runs of the imported machine."""
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    found = fleet([dumps / "a.tar.xz"], load, governors=["schedutil", "performance"], constraints=["none"], **OPTIONS)
    (row,) = found.rows()
    assert max(map(len, found.text(80).splitlines())) <= 80
    text, _ = generic_power(_opplab.import_machine(str(dumps / "a.tar.xz"))[0].renamed("machine").to_toml())
    machine = opplab.Machine.parse(text)
    means = {}
    for governor in ("schedutil", "performance"):
        runs = [
            opplab.simulate(machine, load, policy=opplab.Policy(governor=governor), seconds=0.1, seed=seed)
            for seed in (1, 2)
        ]
        values = [dict(zip(one.metrics["metric"], one.metrics["value"], strict=True)) for one in runs]
        means[governor] = {
            "power": sum(one["power"] for one in values) / 2,
            "energy_per_work": sum(one["energy"] / one["work_done"] for one in values) / 2,
        }
    base, best = means["schedutil"], means[row["setting"]]
    by_hand = base["power"] * (1 - best["energy_per_work"] / base["energy_per_work"])
    assert row["baseline_watts"] == pytest.approx(base["power"], rel=1e-6)
    assert row["saved_watts"] == pytest.approx(by_hand, rel=1e-3, abs=1e-6)
    assert row["saved_kwh_a_year"] == pytest.approx(8.76 * row["saved_watts"])


def test_a_second_call_continues(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(dumps, "--format", "csv")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a type that is answered was run again")

    monkeypatch.setattr(choosing, "choose", never)
    assert run(dumps, "--format", "csv").stdout == first.stdout
    assert isinstance(run(dumps, "--format", "csv", "--seed", "2").exception, AssertionError), "another question"


def test_a_setting_that_makes_requests_wait_has_its_price(dumps: Path) -> None:
    for name in ("b", "c", "hostile"):
        (dumps / f"{name}.tar.xz").unlink()
    done = run(dumps, "--governor", "performance,powersave", "--seconds", "0.3", "--iterations", "5")
    whole = json.loads((dumps.parent / "out" / "fleet.json").read_text())
    (row,) = whole["rows"]
    words = " ".join(done.stdout.split())
    (kept,) = (dumps.parent / "out" / "types").glob("*.json")
    saving = json.loads(kept.read_text())
    assert (row["setting"] == "powersave") == bool(saving["price"])
    assert not saving["price"] or f"{row['machine_type']} {saving['price']}." in words


def test_one_machine_is_not_called_machines(dumps: Path) -> None:
    for name in ("a", "b", "hostile"):
        (dumps / f"{name}.tar.xz").unlink()
    done = run(dumps, "--governor", "schedutil,performance")
    words = " ".join(done.stdout.split())
    assert " on 1 machine of 1 type? " in words
    assert "The baseline, schedutil intel_cpufreq, is the best on 1 machine type: nothing to change." in words


def test_lists_and_folders_are_read(dumps: Path) -> None:
    names = dumps.parent / "list.txt"
    names.write_text("# the fleet\ndumps/a.tar.xz\ndumps/gone.tar.xz\n")
    assert [path.name for path in sources_of([names, dumps])][:2] == ["a.tar.xz", "gone.tar.xz"]
    with pytest.raises(opplab.InputError, match="no such dump"):
        sources_of([dumps.parent / "nothing"])
