"""`opplab fleet`: machine types of dumps, watts saved against single choices, refusals, and what is kept."""

import csv
import html
import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result

import opplab
from opplab import _opplab
from opplab.choice import choose as choosing
from opplab.choice.fleet import HOURS, Fleet, counted_of, fleet, ranked_by, sources_of, types_of
from opplab.cli.main import opplab as program
from opplab.fit import machine_power
from opplab.fit.machine_power import generic_power
from opplab.report.numbers import quantity
from opplab.report.start import Start
from opplab.uncertainty.parts import Parts

from calls import answered, called
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
    words = ["--uncertainty", "0", "-j", "1"]
    for name, value in (("--seconds", "0.1"), ("--iterations", "2")):
        words += [] if name in more else [name, value]
    return called("fleet", folder, "-w", load, "-o", folder.parent / "out", *words, *more)


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


def test_a_dump_counts_as_many_machines_as_it_stands_for(dumps: Path) -> None:
    """Goal: the year's kWh are of the machines that there are, by type and summed. Method: counts by path and name."""
    (dumps / "hostile.tar.xz").unlink()
    single = {row["machine_type"]: row for row in csv.DictReader(io.StringIO(run(dumps, "--format", "csv").stdout))}
    counts = ("--count", f"{dumps}/a.tar.xz=40", "--count", "c.tar.xz=7")
    done = run(dumps, *counts, "--format", "json")
    assert done.exit_code == 0, done.output
    whole = json.loads(done.stdout)
    assert "on 48 machines of 2 types" in whole["question"]
    assert sorted(row["machines"] for row in whole["rows"]) == [7, 41]
    clear_watts = 0.0
    for row in whole["rows"]:
        watts = float(single[row["machine_type"]]["saved_watts"])
        assert row["saved_watts"] == pytest.approx(watts)
        assert row["saved_kwh_a_year"] == pytest.approx(row["machines"] * watts * HOURS / 1000)
        clear_watts += row["machines"] * watts if row["clear"] and watts > 0 else 0.0
    if found := re.search(r"Clear savings: ([0-9.]+) W, ([0-9.]+) kWh a year", whole["finding"]):
        assert [float(one) for one in found.groups()] == pytest.approx(
            [clear_watts, clear_watts * HOURS / 1000], rel=1e-3
        )
        clear = [row for row in whole["rows"] if row["clear"] and row["saved_watts"] > 0]
        ends = [sum(row[f"saved_watts_{end}"] * row["machines"] for row in clear) for end in ("low", "high")]
        told = re.search(r"ends of the intervals add up to ([0-9.]+) and ([0-9.]+) W", whole["finding"])
        assert told is not None
        assert [float(one) for one in told.groups()] == pytest.approx(ends, rel=1e-3)
    assert bool(found) == (clear_watts > 0)
    for wrong, why in (
        ("d.tar.xz=2", "no dumps of that name"),
        ("a.tar.xz=0", "is not DUMP=N"),
        ("a.tar.xz", "is not DUMP=N"),
    ):
        refused = run(dumps, "--count", wrong)
        assert refused.exit_code and why in refused.stderr + str(refused.exception), wrong
    twice = ("--count", "a.tar.xz=2", "--count", f"{dumps}/a.tar.xz=3")
    assert "has given one for the same dump" in str(run(dumps, *twice).exception) + run(dumps, *twice).stderr


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


def test_a_dump_is_read_once_and_a_curve_is_made_once_for_a_type(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: many dumps of one type cost little more than one. Method: calls are counted."""
    read: list[str] = []
    made: list[str] = []
    import_machine = _opplab.import_machine
    monkeypatch.setattr(_opplab, "import_machine", lambda path: read.append(path) or import_machine(path))
    monkeypatch.setattr(_opplab, "check_machine", lambda path, _: read.append(path))
    monkeypatch.setattr(machine_power, "generic_power", lambda text: made.append(text) or generic_power(text))
    types, refused = types_of(counted_of(sources_of([dumps]), {}))
    assert sorted(Path(one).name for one in read) == ["a.tar.xz", "b.tar.xz", "c.tar.xz", "hostile.tar.xz"]
    assert len(made) == len(types) == 2 and [Path(name).name for name, _ in refused] == ["hostile.tar.xz"]
    assert sorted(len(kind.dumps) for kind in types) == [1, 2]


@pytest.mark.parametrize("name", ["rome0", "adl0", "knl0", "hswep0"])
def test_what_an_import_finds_is_what_the_check_of_a_dump_finds(name: str) -> None:
    path = str(shared(f"data/pepc/{name}.tar.xz"))
    _, report = _opplab.import_machine(path)
    assert json.loads(report)["findings"] == json.loads(_opplab.check_machine(path, None))


def test_how_many_runs_a_fleet_takes_is_reported_before_they_begin(dumps: Path) -> None:
    """Goal: nobody waits for hours unprepared. Method: the cases that the sweeps count, those with no work, too."""
    totals: list[int] = []
    lines: list[str] = []

    @contextmanager
    def shown(total: int) -> Iterator[Callable[[object], None]]:
        assert lines
        totals.append(total)
        yield lambda _: None

    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    options = {**OPTIONS, "governors": ["schedutil", "performance"], "uncertainty": 3}
    fleet([dumps], load, said=lines.append, progress=shown, **options)
    runs = f"up to {sum(totals)} runs, and some at the ends of ranges that decide: 2 machine types x 2 settings, "
    assert lines[0].startswith(f"{runs}each with 2 runs and 2 at each of 2 other draws, and a run without work at each")


def test_other_code_answers_anew(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Goal: what ranked an answer is part of its question. A changed Python file left the old answer in the folder."""
    assert "(kept)" not in run(dumps).stderr
    assert run(dumps).stderr.count("(kept)") == 2
    before = ranked_by()
    ranked_by.cache_clear()
    monkeypatch.setattr(opplab, "__file__", str(dumps / "__init__.py"))
    (dumps / "one.py").write_text("1\n")
    assert ranked_by() != before
    assert "(kept)" not in run(dumps).stderr
    ranked_by.cache_clear()


def test_a_second_call_continues(dumps: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run(dumps, "--format", "csv")

    def never(*_: object, **__: object) -> None:
        raise AssertionError("a type that is answered was run again")

    monkeypatch.setattr(choosing, "choose", never)
    assert run(dumps, "--format", "csv").stdout == first.stdout
    assert isinstance(run(dumps, "--format", "csv", "--seed", "2").exception, AssertionError), "another question"


def test_what_is_kept_is_of_the_same_files_and_whole(dumps: Path) -> None:
    """Goal: another profile, or another answer, under the same name is not the old answer."""
    (dumps / "hostile.tar.xz").unlink()
    (dumps / "c.tar.xz").unlink()
    profile = dumps.parent / "mine" / "tuned.conf"
    profile.parent.mkdir()
    profile.write_text("[cpu]\ngovernor=performance\nx=1\n")
    words = ["--governor", "schedutil", "--vs", str(profile)]
    first = run(dumps, *words)
    assert "(kept)" not in first.stderr
    assert "mine: without a key in simulations: [cpu] x" in first.stderr
    assert "(kept)" in run(dumps, *words).stderr
    profile.write_text("[cpu]\ngovernor=powersave\n")
    assert "(kept)" not in run(dumps, *words).stderr
    for file in (dumps.parent / "out/types").iterdir():
        file.write_text(file.read_text().replace('"base_watts": ', '"base_watts": 9'))
    again = run(dumps, *words)
    assert again.exit_code == 0, again.stderr
    assert "(kept)" not in again.stderr


def test_constraints_and_repeated_paths_are_named(dumps: Path) -> None:
    paths = dumps.parent / "paths.txt"
    paths.write_text("\n".join([str(dumps / "a.tar.xz")] * 3))
    done = run(paths, "--constraint", "response_p99 <= 60ms")
    assert done.exit_code == 0, done.output
    words = " ".join(done.stdout.split())
    assert "on 1 machine of 1 type? Least power at equal work, response_p99 <= 60ms" in words
    assert "2 repeated paths left out: `--count DUMP=N` counts a dump as N machines." in words
    anyway = run(paths, "--constraint", "none")
    assert "of 1 type? Least power at equal work, less work too" in " ".join(anyway.stdout.split())


def test_folders_of_others_are_left_alone_and_another_answer_is_named(dumps: Path) -> None:
    out = dumps.parent / "out"
    out.mkdir()
    (out / "report.html").write_text("of a sweep")
    (out / "manifest.json").write_text("{}")
    load = dumps.parent / "load.json"
    load.write_text(json.dumps(LOAD))
    short = ["--iterations", "2", "--uncertainty", "0", "-j", "1"]
    choose = ["choose", str(load), "-m", "juno-r2", *short, "-o", str(out)]
    for words in (choose, ["fleet", str(dumps), "-w", str(load), *short, "-o", str(out)]):
        with pytest.raises(opplab.InputError, match=r"it holds other files \(manifest.json\)"):
            program.main(words, standalone_mode=False)
    assert (out / "report.html").read_text() == "of a sweep"
    choose[-1] = str(dumps.parent / "mine")
    for seconds, note in (("0.1", False), ("0.1", False), ("0.2", True)):
        done = answered(*choose, "--seconds", seconds)
        assert ("held the answer to `Which setting for load" in done.stderr) is note


def test_a_setting_that_makes_requests_wait_has_its_price(dumps: Path) -> None:
    for name in ("b", "c", "hostile"):
        (dumps / f"{name}.tar.xz").unlink()
    done = run(dumps, "--governor", "performance,powersave", "--seconds", "0.3", "--iterations", "5")
    whole = json.loads((dumps.parent / "out" / "fleet.json").read_text())
    (row,) = whole["rows"]
    words = " ".join(done.stdout.split())
    (kept,) = (dumps.parent / "out" / "types").glob("*.json")
    saving = json.loads(kept.read_text())["saving"]
    assert (row["setting"] == "powersave") == bool(saving["price"])
    assert not saving["price"] or f"{row['machine_type']} {saving['price']}." in words


def test_turbo_without_clocks_is_named_behind_the_saving_and_types_of_one_name_differ_in_it(tmp_path: Path) -> None:
    """Goal: no saving is called clear without what its clocks lack, and "(2)" has its cause. Method: a dump, cut."""
    text = _opplab.import_machine(str(shared("data/pepc/icxd0.tar.xz")))[0].renamed("xeon").to_toml()
    tree = opplab.Machine.parse(text).tree
    (tmp_path / "whole.toml").write_text(text)
    for cluster in tree["cluster"]:
        del cluster["turbo"]
    (tmp_path / "bare.toml").write_text(opplab.Machine.from_tree(tree).to_toml())
    task = {"instance": 8, "loop": -1, "run": 4000, "timer": {"ref": "unique", "period": 20000}}
    load = opplab.Workload.parse(json.dumps({**LOAD, "tasks": {"t": task}}), name="load")
    options = {**OPTIONS, "seconds": 0.5, "iterations": 5, "governors": ["schedutil", "powersave"]}
    found = fleet([tmp_path / "bare.toml", tmp_path / "whole.toml"], load, **options)
    (bare,) = [kind for kind, _ in found.types if not kind.name.endswith("(2)")]
    (whole,) = [kind for kind, _ in found.types if kind is not bare]
    assert (bare.name, whole.name) == ("Intel Xeon D-2796NT, 40 CPUs", "Intel Xeon D-2796NT, 40 CPUs (2)")
    words = f"Turbo of {bare.name} is unknown: runs are at most at the base clock of 2000 MHz"
    assert words in found.finding and found.finding.count("is unknown") == 1
    clear, behind, *_ = re.split(r"\. (?=[A-Z])", found.finding)
    assert clear.startswith("Clear savings: ") and behind.startswith(words)
    shown = " ".join(str(found).split())
    assert f"{whole.name} differs from {bare.name} in turbo table." in shown
    facts = found.facts()
    assert facts["missing"][bare.digest][0].startswith(words)
    assert not any("is unknown" in words for words in facts["missing"][whole.digest])
    assert facts["unlike"] == {bare.digest: "", whole.digest: f"differs from {bare.name} in turbo table"}
    assert words in found.page() and "in turbo table" in found.page()


def test_settings_that_are_equal_in_the_goal_are_named(dumps: Path) -> None:
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    found = fleet(
        [dumps / "a.tar.xz"],
        load,
        governors=["schedutil", "performance"],
        goals=["missed"],
        constraints=["none"],
        **OPTIONS,
    )
    ((_, saving),) = found.types
    assert (saving.setting, saving.best) == ("schedutil", "50 % (all 2 runs with ties)"), (
        "the baseline, and not another equal one"
    )
    words = "schedutil and performance are equally good: missed is the same in all printed digits."
    assert words in saving.twins
    assert words in " ".join(" ".join(found.below()).split())


def test_a_setting_without_effect_changes_no_answer(dumps: Path) -> None:
    for name in ("b", "c", "hostile"):
        (dumps / f"{name}.tar.xz").unlink()
    words = ["--governor", "powersave,performance", "--format", "csv"]
    plain = run(dumps, *words)
    doubled = run(dumps, *words, "--vs", "epp=performance")
    assert doubled.stdout == plain.stdout
    shown = " ".join(run(dumps, *words[:2], "--vs", "epp=performance").stdout.split())
    assert "epp=performance changes nothing here: its runs are those of powersave." in shown


@pytest.fixture(scope="module")
def choice() -> opplab.Choice:
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    governors = ["performance", "schedutil", "powersave"]
    return choosing.choose("juno-r2", load, governors=governors, goals=["power_at_equal_work"], **OPTIONS)


def made(choice: opplab.Choice, energy: Parts, *, missed: float = 0.0, power: float = 0.0) -> opplab.Choice:
    """Give a choice that recommends its second setting, with changes of power at equal work and of power, percent."""
    by_label = {option.label: option for option in choice.options}
    base, best = by_label["performance"], by_label["schedutil"]
    changes = {**best.changes, "power_at_equal_work": energy, "power": Parts(power, None, None, None, None)}
    parts = {**base.parts, "missed_activations": Parts(missed, None, None, None, None)}
    base = replace(base, best=0.4, meets=1.0, breaks=(), parts=parts)
    watts = -base.parts["power"].value / 100
    low, high = (None if end is None else end * watts for end in (energy.high, energy.low))
    saved = replace(energy, value=energy.value * watts, low=low, high=high)
    # What the setting keeps is made up: it does no less.
    del changes["work_done"]
    late = {**best.parts, "missed_activations": Parts(0.0, None, None, None, None)}
    best = replace(best, best=0.6, meets=1.0, breaks=(), parts=late, changes=changes, saved=saved)
    return replace(choice, options=[best, base])


def answer(dumps: Path, monkeypatch: pytest.MonkeyPatch, found: opplab.Choice) -> Fleet:
    monkeypatch.setattr(choosing, "choose", lambda *_, **__: found)
    return fleet([dumps / "a.tar.xz"], "tbench")


def test_watts_saved_are_those_of_a_machine_that_is_idle_once_the_work_is_done(tmp_path: Path) -> None:
    """Goal: a setting that does more work and draws more saves nothing, which energy by unit of work hides.

    Method: by hand from three runs of the Python API: the baseline's, the setting's, and one with nothing to do.
    """
    load = {"b": {"instance": 3, "loop": -1, "run": 15000, "sleep": 60000}}
    asleep = {"b": {"loop": 1, "delay": 5_000_000, "run": 1}}

    def watts_and_work(governor: str, tasks: dict[str, object]) -> tuple[float, float]:
        work = opplab.Workload.parse(
            json.dumps({"global": {"duration": 1, "calibration": "CPU0"}, "tasks": tasks}), name="w"
        )
        policy = opplab.Policy(governor=governor, variation="none")
        table = opplab.simulate(opplab.Machine.load("epyc-7742-2s"), work, policy, seconds=1, seed=1).metrics
        return tuple(table.filter(metric=name)["value"].item() for name in ("power", "work_done"))

    whole = json.dumps({"global": {"duration": 1, "calibration": "CPU0"}, "tasks": load})
    how = {"iterations": 1, "uncertainty": 0, "variation": "none", "seconds": 1, "jobs": 1, "constraints": ["none"]}
    governors = ["schedutil", "performance"]
    found = fleet(["epyc-7742-2s"], opplab.Workload.parse(whole, name="w"), governors=governors, **how)
    (base, work), (best, more) = (watts_and_work(name, load) for name in governors)
    (rest, _) = watts_and_work("performance", asleep)
    assert more > 1.02 * work
    by_hand = base - (best * work / more + rest * (1 - work / more))
    off = base * (1 - best / more / (base / work))
    (row,) = found.rows()
    assert row["setting"] == "performance"
    assert row["saved_watts"] == pytest.approx(by_hand, rel=1e-6)
    assert abs(off - by_hand) > 0.1
    one = opplab.choose("epyc-7742-2s", opplab.Workload.parse(whole, name="w"), governors=governors, **how)
    (words,) = [text for text in one.findings() if text.startswith("At the pace of schedutil, idle once that work is")]
    assert f" its power is {-100 * by_hand / base:.1f} %" in words


def test_the_interval_of_watts_saved_holds_what_the_baseline_may_draw() -> None:
    """Goal: where all power may be half or twice as much, so may be the watts saved; no share of it changes.

    Method: the interval of the baseline's power, whose draws have the same factor, times the share that is saved.
    """
    tree = dict(opplab.Machine.load("juno-r2").tree)
    for cluster in tree["cluster"]:
        del cluster["cluster_idle"]
        for entry in (*cluster["opp"], *cluster["idle"]):
            entry.update({"cluster_uw": 0} if "khz" in entry else {"uw": 0})
    machine = opplab.Machine.from_tree({**tree, "range": {"cluster.opp.busy_uw": {"percent": [50, 200]}}})
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    how = {**OPTIONS, "uncertainty": 60, "seconds": 0.4, "variation": "none"}
    found = opplab.choose(machine, load, governors=["performance", "powersave"], constraints=["none"],
                          goals=["power_at_equal_work"], **how)  # fmt: skip
    base, best = (next(one for one in found.options if one.label == name) for name in ("performance", "powersave"))
    change, power = best.changes["power_at_equal_work"], base.parts["power"]
    assert change.low == pytest.approx(change.high, rel=1e-3), "the share is the same in all draws"
    assert power.high / power.low > 3
    assert best.saved is not None
    by_hand = [-change.value / 100 * one for one in (power.value, power.low, power.high)]
    assert (best.saved.value, best.saved.low, best.saved.high) == pytest.approx(by_hand, rel=1e-3)


def test_a_dump_and_its_machine_file_with_the_generic_curve_are_one_type(dumps: Path) -> None:
    """They were two, of equal hardware, and power by the same curve."""
    text, _ = generic_power(_opplab.import_machine(str(dumps / "a.tar.xz"))[0].renamed("mine").to_toml())
    file = dumps / "mine.toml"
    file.write_text(text)
    (kind,), refused = types_of({dumps / "a.tar.xz": 3, file: 4})
    assert (kind.machines, refused) == (7, [])


def test_limits_of_a_dumps_clock_are_named(tmp_path: Path) -> None:
    """Goal: a machine with boost off is answered for with boost, and that is no secret."""
    for name in ("on", "off", "capped"):
        cpu = tmp_path / name / "sys/devices/system/cpu"
        policy = cpu / "cpufreq/policy0"
        files = {
            cpu / "online": "0",
            cpu / "present": "0",
            cpu / "cpufreq/boost": "0" if name == "off" else "1",
            policy / "affected_cpus": "0",
            policy / "related_cpus": "0",
            policy / "scaling_driver": "acpi-cpufreq",
            policy / "scaling_governor": "schedutil",
            policy / "scaling_available_frequencies": "2000000 1500000 1000000",
            policy / "scaling_max_freq": "1500000" if name == "capped" else "2000000",
            **{policy / f"cpuinfo_{end}_freq": khz for end, khz in (("min", "1000000"), ("max", "2000000"))},
        }
        for file, value in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(value + "\n")
    (kind,), refused = types_of(dict.fromkeys((tmp_path / name for name in ("on", "off", "capped")), 1))
    assert (kind.machines, refused) == (3, [])
    limits = ("cpufreq/boost is 0 in off", "scaling_max_freq is 1500000 kHz of 2000000 kHz on policies 0 in capped")
    assert kind.without_limits() == [f"{limit}: the governors are compared without it." for limit in limits]
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    text = fleet([tmp_path], load, governors=["schedutil", "performance"], **OPTIONS).text(80)
    assert "cpufreq/boost is 0 in off: the governors are compared without it." in " ".join(text.split())


def test_what_saves_nothing_by_the_mean_is_not_recommended(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    """Goal: the best in most draws may take more energy; then the baseline stays."""
    found = answer(dumps, monkeypatch, made(choice, Parts(0.3, 1.0, None, None, None, draws=7)))
    (row,) = found.rows()
    assert (row["setting"], row["saved_watts"]) == ("performance", 0.0)
    assert "echo performance >" in found.commands_text()
    assert "schedutil" not in found.commands_text()
    words = " ".join(found.text(80).split())
    assert "No setting is better than the baseline, performance, on 1 machine type: nothing to change." in words
    assert "schedutil is the best in 60 %, but its mean (power at equal work +0.3 %) saves nothing." in words


def test_why_no_saving_is_clear(dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice) -> None:
    """Goal: too few draws have no interval, so none can exclude zero; the answer names how many are needed."""
    few = answer(dumps, monkeypatch, made(choice, Parts(-2.0, 1.0, None, None, None, draws=7)))
    assert few.finding == "No saving is clear on 1 machine type: needs 40 draws, has 8."
    open_ = answer(dumps, monkeypatch, made(choice, Parts(-2.0, 1.0, (-1.0, 1.0), -5.0, 1.0, draws=39)))
    assert open_.finding == "No saving is clear on 1 machine type: no interval excludes zero."
    clear = answer(dumps, monkeypatch, made(choice, Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, -1.0, draws=39)))
    assert clear.finding.startswith("Clear savings: ")
    watts = clear.rows()[0]["baseline_watts"] * 0.01
    assert f"; the ends of the intervals add up to {watts:.4g} and {3 * watts:.4g} W." in clear.finding


def test_a_constraint_that_nothing_keeps_is_the_answer(dumps: Path) -> None:
    done = run(dumps, "--constraint", "response_p95 <= 1us")
    words = " ".join(done.stdout.split())
    assert "No setting keeps response_p95 <= 1us on 2 machine types." in words
    assert "no interval" not in words


def test_a_setting_that_the_constraint_needs_is_no_saving(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    found = made(choice, Parts(2.0, 1.0, (-1.0, 1.0), 1.0, 3.0, draws=39))
    best, base = found.options
    bad = replace(found, options=[best, replace(base, best=0.0, meets=0.0, breaks=["response_p95 <= 5ms"])])
    fleet_ = answer(dumps, monkeypatch, bad)
    assert fleet_.rows()[0]["setting"] == "schedutil"
    words = "takes more energy than the baseline, which breaks response_p95 <= 5ms, on 1 machine type."
    assert fleet_.finding == f"The setting {words}"
    assert "one machine of the type with the most machines;" in fleet_.assumed
    for energy, doubt in (
        (Parts(2.0, 1.0, (-1.0, 1.0), -1.0, 5.0, draws=39), "not clear"),
        (Parts(2.0, 1.0, None, None, None, draws=7), "not clear (needs 40 draws, has 8)"),
    ):
        best, base = made(choice, energy).options
        unsure = replace(bad, options=[best, replace(base, best=0.0, meets=0.0, breaks=["response_p95 <= 5ms"])])
        assert answer(dumps, monkeypatch, unsure).finding == f"By the mean, {doubt}, the setting {words}"


def test_savings_are_at_the_work_of_a_baseline_that_may_miss_some(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    """Goal: watts saved beside a mean power that rises are explained, and savings against late work are named."""
    energy = Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, -1.0, draws=39)
    found = answer(dumps, monkeypatch, made(choice, energy, missed=61.0, power=1.8))
    (row,) = found.rows()
    words = " ".join(found.text(80).split())
    assert " kWh a year at the baseline's work, on 1 machine of 1 type" in found.finding
    assert f"The baseline misses activations: 61 % (performance) on {row['machine_type']}." in found.finding
    assert "Watts and kWh saved are at the baseline's work: a machine that has done it is idle." in words
    assert f"Mean power rises, as more work is done: {row['machine_type']} +1.8 %." in words
    plain = answer(dumps, monkeypatch, made(choice, energy, power=-2.0))
    assert "misses activations" not in plain.finding
    assert "Mean power rises" not in plain.text(80)


def test_a_type_names_what_does_less_work_and_the_waits_of_the_start(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    """Goal: what saves more and is no answer has a reason, and a price that is the start of short runs is called so."""
    energy = Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, -1.0, draws=39)
    best, base = made(choice, energy).options
    slow = next(option for option in choice.options if option.label == "powersave")
    less = replace(slow, meets=0.0, breaks=[text for text in choice.work if text.startswith("work_done")])
    dear = replace(best, changes={**best.changes, "response_p99": Parts(20.0, 1.0, (-1.0, 1.0), 10.0, 30.0, draws=39)})
    cold = "response_p99 counts the first 0.2 s"
    found = answer(dumps, monkeypatch, replace(choice, options=[dear, base, less], cold=cold))
    (kind,) = (row["machine_type"] for row in found.rows())
    words = " ".join(found.text(80).split())
    assert f"{kind}: Left out: powersave does less than performance: work_done" in words
    (left_out,) = found.facts()["left_out"].values()
    assert [text.split()[2] for text in left_out] == ["powersave"]
    assert f"{kind}: {cold}." in words
    cheap = answer(
        dumps, monkeypatch, replace(choice, options=[replace(best, changes={"power_at_equal_work": energy}), base])
    )
    assert "the first 0.2 s" not in cheap.text(80), "nobody reads a percentile"


def test_work_that_a_setting_loses_stands_beside_its_watts() -> None:
    """Goal: under `--constraint none` a setting with 31 % less work was a clear saving, and only that."""
    task = {"instance": 8, "loop": -1, "run": 12000, "timer": {"ref": "unique", "period": 16000}}
    load = opplab.Workload.parse(json.dumps({**LOAD, "tasks": {"t": task}}), name="load")
    keys = {**OPTIONS, "governors": ["performance", "powersave"]}
    means: dict[str, dict[str, float]] = {}
    for governor in keys["governors"]:
        runs = [
            opplab.simulate(
                "pixel4", load, opplab.Policy(governor=governor, variation="rt-app"), seconds=0.1, seed=seed
            ).metrics
            for seed in (1, 2)
        ]
        means[governor] = {
            name: sum(one.filter(metric=name)["value"][0] for one in runs) / 2
            for name in ("work_done", "missed_activations")
        }
    base, ours = means["performance"], means["powersave"]
    found = fleet(["pixel4"], load, constraints=["none"], **keys)
    (row,) = found.rows()
    assert row["setting"] == "powersave"
    assert row["work_change_percent"] == pytest.approx(100 * (ours["work_done"] / base["work_done"] - 1))
    assert row["work_change_percent"] < -10
    assert row["missed_percent"] == pytest.approx(ours["missed_activations"])
    (line,) = found.tables()[0]
    assert line["loses"].startswith(f"work done {row['work_change_percent']:.1f} %")
    assert f"missed {base['missed_activations']:.3g} -> {ours['missed_activations']:.3g} %" in line["loses"]
    assert "The setting does less than the baseline on 1 type (`loses`)." in found.finding
    whole = fleet(["pixel4"], load, **keys)
    assert "loses" not in whole.tables()[0][0]
    assert whole.rows()[0]["work_change_percent"] == 0


def test_all_types_have_a_sum_beside_that_of_the_clear_savings(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    clear, open_ = (Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, high, draws=39) for high in (-1.0, 1.0))
    answers = iter([made(choice, clear), made(choice, open_), made(choice, clear), made(choice, clear)])
    monkeypatch.setattr(choosing, "choose", lambda *_, **__: next(answers))
    two = [dumps / "a.tar.xz", dumps / "c.tar.xz"]
    found = fleet(two, "tbench")
    whole = sum(row["saved_watts"] for row in found.rows())
    (watts,) = re.findall(r"By the means of 2 types, clear or not: ([0-9.]+) W, ", found.finding)
    assert float(watts) == pytest.approx(whole, rel=1e-3)
    assert "clear or not" not in fleet(two, "tbench").finding


def test_what_cpus_save_of_a_power_limit_that_a_gpu_shares_is_no_saving(tmp_path: Path) -> None:
    """Goal: no watts of a package that draws its limit under each setting. Method: energies of single runs."""
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    keys = {**OPTIONS, "governors": ["powersave", "schedutil"], "constraints": ["none"], "seconds": 1}
    alone, shared_by = "kaby-lake-i7-7500u", "kaby-lake-i7-7500u-gpu"
    cpus, package = [], []
    for governor, driver in (("powersave", "intel_pstate"), ("schedutil", "intel_cpufreq")):
        policy = opplab.Policy(governor=governor, driver=driver)
        metrics = opplab.simulate(shared_by, load, policy, seconds=1).metrics
        energy = dict(zip(metrics["metric"], metrics["value"], strict=True))
        cpus.append(energy["energy"])
        package.append(energy["energy"] + energy["energy:gpu"])
    assert cpus[1] < 0.7 * cpus[0] and package[1] == pytest.approx(package[0], rel=0.01)

    found = fleet([shared_by, alone], load, **keys)
    rows = {row["dumps"]: row for row in found.rows()}
    assert rows[alone]["clear"] and rows[alone]["saved_watts"] > 0
    row = rows[shared_by]
    saved = [value for name, value in row.items() if name.startswith("saved_")]
    assert saved == [None] * 6 and not row["clear"]
    assert (row["reason"], rows[alone]["reason"]) == ("a consumer may take what the CPUs save", "")
    assert f"Clear savings: {quantity(rows[alone]['saved_watts'])} W" in found.finding
    assert f"The energy saved is unknown on 1 machine type: {row['reason']}." in found.finding
    name = row["machine_type"]
    draws = f"Energy and power of {name} are its CPUs': gpu draws beside them (energy:gpu)."
    assert f"unknown: {row['reason']}" in found.text(None) and found.text(None).count(draws) == 1
    assert draws in html.unescape(found.page()) and draws in json.loads(found.to_json())["missing"][row["digest"]]

    # Without a limit the GPU draws the same in any case.
    free = tmp_path / "free.toml"
    free.write_text(re.sub(r"(?s)\[package_power\].*?(?=\[)", "", opplab.Machine.load(shared_by).to_toml()))
    (row,) = fleet([free], load, **keys).rows()
    assert row["clear"] and row["saved_watts"] > 0


def test_one_machine_is_not_called_machines(dumps: Path) -> None:
    for name in ("a", "b", "hostile"):
        (dumps / f"{name}.tar.xz").unlink()
    done = run(dumps, "--governor", "schedutil,performance")
    words = " ".join(done.stdout.split())
    assert " on 1 machine of 1 type? " in words
    assert "The baseline, schedutil intel_cpufreq, is the best on 1 machine type: nothing to change." in words


def test_a_setting_that_one_type_cannot_have_is_left_out_of_that_type_only(dumps: Path) -> None:
    """Goal: a fleet of two makers takes a setting of one, and no type is refused as a damaged dump is."""
    (dumps / "hostile.tar.xz").unlink()
    vs = "driver=intel_pstate governor=powersave"
    done = run(dumps, "--governor", "schedutil,performance", "--vs", vs)
    assert done.exit_code == 0, f"{done.output}{done.exception}"
    words = " ".join(done.stdout.split())
    (left_out,) = re.findall(r"([^:;]*): --vs '([^']*)' is left out: unknown driver of machine (\S+)", words)
    assert (left_out[1], left_out[2]) == (vs, "AMD")
    assert "Refused" not in words
    assert "machines of 2 types" in words
    with pytest.raises(opplab.InputError, match="no machine type can have it: unknown driver"):
        fleet([dumps], opplab.Workload.parse(json.dumps(LOAD), name="load"), variants=["driver=scmi"], **OPTIONS)


def test_a_wrong_question_is_the_error_and_refuses_no_dump(dumps: Path) -> None:
    """Goal: a typo in the workload is looked for there, and not in 2000 dumps."""
    bad = dumps.parent / "bad.json"
    bad.write_text('{"global": {"duration": 0.6}, "tasks": {"t": {"run": 1000, "sleep": "long"}}}')
    for words, error in (
        (["-w", str(bad)], "bad.json"),
        (["-w", str(dumps.parent / "none.json")], "none.json"),
        (["-w", "tbensh"], "tbench"),
        (["-w", "tbench", "--constraint", "latency_p99 << 5ms"], "latency_p99 << 5ms"),
    ):
        with pytest.raises((opplab.OpplabError, OSError), match=error) as raised:
            program.main(["fleet", str(dumps), *words, "-o", str(dumps.parent / "out")], standalone_mode=False)
        assert "hostile" not in str(raised.value)
    assert not (dumps.parent / "out").exists()


def test_lists_and_folders_are_read(dumps: Path) -> None:
    names = dumps.parent / "list.txt"
    names.write_text("# the fleet\ndumps/a.tar.xz\ndumps/gone.tar.xz\n")
    assert [path.name for path in sources_of([names, dumps])][:2] == ["a.tar.xz", "gone.tar.xz"]
    with pytest.raises(opplab.InputError, match="no such dump"):
        sources_of([dumps.parent / "nothing"])


def test_a_dump_that_is_text_is_no_list(tmp_path: Path) -> None:
    snapshot = shared("traces/arm64-612-juno-eas-homog6/sysfs_before.txt")
    assert sources_of([snapshot]) == [snapshot]
    types, refused = types_of(counted_of([snapshot], {}))
    assert [kind.dumps for kind in types] == [[str(snapshot)]]
    assert refused == []
    gone = tmp_path / "gone.txt"
    gone.write_text("a.tar.xz\nb.tar.xz\n")
    ((name, why),) = types_of(counted_of(sources_of([gone]), {}))[1]
    assert name == str(gone)
    assert why


def test_a_benchmark_has_its_parameters(dumps: Path) -> None:
    words = ["--governor", "performance,powersave", "--seconds", "0.1", "--iterations", "2", "--uncertainty", "0"]
    base = ["fleet", str(dumps / "a.tar.xz"), "-w", "hackbench", "-o", str(dumps.parent / "out"), *words]
    done = answered(*base, "--param", "groups=2", columns=300)
    assert "Which setting for hackbench groups 2 on 1 machine of 1 type?" in done.stdout
    cut = "elapsed is missing in 4 of 4 runs, which did not end within 0.1 s (a longer --seconds lets them end)"
    assert cut in " ".join(done.stdout.split())
    kept = called(*base, "--param", "groups=3")
    assert "(kept)" not in kept.stderr


def test_machine_files_and_built_in_machines_stand_beside_dumps(dumps: Path) -> None:
    """Goal: fitted power gets into the answer of the fleet. Method: a fitted file, a name, and the dump of both."""
    (dumps / "hostile.tar.xz").unlink()
    words = (*("--governor", "schedutil,performance"), "--count", "epyc-7742-2s=40")
    fitted = dumps / "fitted.toml"
    text = (Path(opplab.__file__).parent / "data/machines/epyc-7742-2s.toml").read_text()
    fitted.write_text(text.replace('name = "epyc-7742-2s"', 'name = "fitted"').replace("floor_uw = 0", "floor_uw = 7"))
    more = ("epyc-7742-2s", *words, "--all")
    done = run(dumps, *more)
    assert done.exit_code == 0, done.stderr
    shown = " ".join(done.stdout.split())
    rows = {row["machine_type"]: row for row in json.loads((dumps.parent / "out/fleet.json").read_text())["rows"]}
    assert {name: row["machines"] for name, row in rows.items() if "dumps" not in row["dumps"]} == {
        "epyc-7742-2s, 256 CPUs": 40
    }
    assert rows["fitted, 256 CPUs"]["machines"] == 1
    assert rows["epyc-7742-2s, 256 CPUs"]["baseline_watts"] == pytest.approx(rows["fitted, 256 CPUs"]["baseline_watts"])
    assert "Energy and power of fitted, 256 CPUs are its CPUs': 7e-06 W more, always on (floor_uw)" in shown
    assert rows["AMD EPYC 7742, 256 CPUs"]["baseline_watts"] > 1.05 * rows["fitted, 256 CPUs"]["baseline_watts"]
    named = "AMD EPYC 7742, 256 CPUs draws a generic curve's power; epyc-7742-2s of `opplab list machines` is this"
    assert named in shown
    assert shown.count("draws a generic curve's power; ") == 1, "adl0's processor is built in without power"
    assert "2 of 4 types draw a generic curve's power" in shown
    wrong = run(dumps, "epyc-7742-3s", *words[:2])
    assert "no such dump, folder, list or machine" in f"{wrong.output}{wrong.exception}"


def test_a_governor_of_the_drivers_own_and_another_mode_than_that_at_boot_are_named() -> None:
    """Goal: nobody takes powersave of intel_pstate for the lowest clock. Method: watts of single runs."""
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    machines = ["skylake-8x-uma", "pixel6"]
    found = fleet(machines, load, governors=["powersave", "performance"], **OPTIONS)
    rows = {row["machine_type"].partition(",")[0]: row for row in found.rows()}
    for name, driver in (("skylake-8x-uma", "intel_pstate"), ("pixel6", "exynos-acme")):
        policy = opplab.Policy(governor="powersave", driver=driver)
        runs = [opplab.simulate(name, load, policy, seed=seed, seconds=OPTIONS["seconds"]) for seed in (1, 2)]
        power = sum(run.metrics.filter(metric="power")["value"].item() for run in runs) / 2
        assert rows[name]["baseline_driver"] == driver
        assert rows[name]["baseline_watts"] == pytest.approx(power)
    shown = {row["machine type"].partition(",")[0]: row["setting"] for row in found.tables()[0]}
    assert shown == {"skylake-8x-uma": "powersave (intel_pstate)", "pixel6": "powersave"}
    words = found.text(None)
    assert "skylake-8x-uma, 8 CPUs: powersave is intel_pstate's own governor" in words
    assert "boots with" not in words
    passive = fleet(machines, load, governors=["schedutil", "ondemand"], **OPTIONS).text(None)
    boots = "skylake-8x-uma, 8 CPUs: schedutil runs under intel_cpufreq, and the machine boots with intel_pstate."
    assert boots in passive
    assert passive.count("boots with") == 1


def test_what_a_setting_may_break_has_its_probability(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    """Goal: "best in 68 %" is not read as doubt about energy where it is of the work. Method: a made-up choice."""
    energy = Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, -1.0, draws=39)
    best, base = made(choice, energy).options
    unsure = replace(best, best=0.68, meets=0.72)
    found = answer(dumps, monkeypatch, replace(choice, options=[unsure, base]))
    (row,) = found.rows()
    assert (row["best_in"], row["keeps_limits_in"]) == ("68 %", "72 %")
    words = " ".join(found.text(80).split())
    assert f"Probability of keeping {' and '.join(choice.work)}: {row['machine_type']} schedutil 72 %." in words
    assert "keeps limits in" in found.page() and "keeps limits in" in found.markdown()
    sure = answer(dumps, monkeypatch, replace(choice, options=[replace(best, meets=1.0), base]))
    assert "keeps limits in" not in sure.text(80)
    assert sure.rows()[0]["keeps_limits_in"] == "over 99 %"


def test_a_refused_machine_file_is_named_once_with_the_place_of_its_error(tmp_path: Path) -> None:
    file = tmp_path / "odd.toml"
    file.write_text('name = "odd"\nfrequency = 3\n')
    ((name, why),) = types_of({file: 1})[1]
    assert name == str(file)
    assert str(file) not in why
    assert re.match(r"\d+:\d+: ", why), why


def test_a_machine_without_cpufreq_is_offered_no_setting(tmp_path: Path) -> None:
    """Goal: a virtual machine, which has no file to set, is refused with the reason."""
    tree = tmp_path / "vm"
    (tree / "sys/devices/system/cpu").mkdir(parents=True)
    (tree / "sys/devices/system/cpu/online").write_text("0\n")
    (tree / "proc").mkdir()
    blocks = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 85\ncpu MHz\t\t: 2593.906\n"
    (tree / "proc/cpuinfo").write_text(blocks)
    (tmp_path / "vm.toml").write_text(_opplab.import_machine(str(tree))[0].to_toml())
    types, refused = types_of({tree: 1, tmp_path / "vm.toml": 1})
    assert not types and len(refused) == 2
    assert all(words.startswith("it has no cpufreq") for _, words in refused)


def test_the_start_of_short_runs_is_named_directly_after_a_clear_saving(
    dumps: Path, monkeypatch: pytest.MonkeyPatch, choice: opplab.Choice
) -> None:
    """Goal: nobody takes the watts of a cold start for those of a year. Method: made-up starts of two types."""
    clear, open_ = (Parts(-2.0, 1.0, (-1.0, 1.0), -3.0, high, draws=39) for high in (-1.0, 1.0))

    def of(*asked: tuple[Parts, Start]) -> Fleet:
        answers = iter([replace(made(choice, energy), start=start) for energy, start in asked])
        monkeypatch.setattr(choosing, "choose", lambda *_, **__: next(answers))
        return fleet([dumps / name for name in ("a.tar.xz", "c.tar.xz")][: len(asked)], "tbench")

    long, short = Start(0.144, 0.144, free_s=20), Start(0.04, 0.04, free_s=5)
    found = of((clear, short), (clear, long))
    most = max(found.rows(), key=lambda row: row["start_percent"])
    words = (
        "Energy includes the start of the runs, until all tasks have begun: up to 14 % of them on "
        f"{most['machine_type']}; a year has none of it (--seconds 20 leaves 1 % at most)."
    )
    (headline,) = re.findall(r"Clear savings: .*? on 2 machines of 2 types.*?W\. (.*)", found.finding)
    assert headline.startswith(words)
    assert " ".join(found.text(80).split()).count(words) == 1
    assert "until all tasks have begun: up to 14 %" in found.page()
    shares = sorted(row["start_percent"] for row in json.loads(found.to_json())["rows"])
    assert shares == pytest.approx([4.0, 14.4])
    unclear = of((open_, long))
    assert "Energy includes" not in unclear.finding
    assert "until all tasks have begun: 14 % of them on " in " ".join(unclear.below())
    ended = of((clear, replace(long, free_s=0.0)))
    assert ended.finding.endswith(f"14 % of them on {ended.rows()[0]['machine_type']}."), "a year repeats its start"
    late = of((clear, Start(1.0, 10.0, free_s=100)))
    assert "Some tasks never begin on " in late.finding
    assert "Energy includes" not in of((clear, Start(0.01, 0.01, free_s=1))).text(80)


def test_a_fleet_and_a_choice_name_the_same_start() -> None:
    """Goal: one number of the start for all answers. Method: tasks that rt-app starts one after the other."""
    task = {"instance": 40, "loop": -1, "run": 300, "timer": {"ref": "unique", "period": 16000}}
    load = opplab.Workload.parse(json.dumps({**LOAD, "tasks": {"t": task}}), name="load")
    how = {**OPTIONS, "governors": ["performance", "powersave"], "constraints": ["none"], "seconds": 0.4}
    ((row,), one) = fleet(["juno-r2"], load, **how).rows(), opplab.choose("juno-r2", load, **how)
    (note,) = [text for text in one.notes if text.startswith("energy and misses include the first ")]
    assert f" ({row['start_percent']:.0f} %), until all tasks have begun" in note


@pytest.mark.parametrize("draws", [0, 2])
def test_intervals_of_the_runs_alone_are_named_as_such(dumps: Path, draws: int) -> None:
    load = opplab.Workload.parse(json.dumps(LOAD), name="load")
    options = {**OPTIONS, "governors": ["schedutil", "performance"], "uncertainty": draws}
    answer = fleet([dumps], load, **options)
    assert ("no numbers were drawn, so that intervals cover the runs alone" in str(answer)) is not bool(draws)
