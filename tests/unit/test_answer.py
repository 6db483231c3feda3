"""The answer of a run: its numbers against Parquet and Python, its forms, and that every later command works on it."""

import csv
import dataclasses
import html
import io
import json
import random
import re
from pathlib import Path

import polars as pl
import pytest
from click.testing import Result

import opplab
from opplab import results, stats
from opplab.certainty import Certainty, certainty
from opplab.report import block
from opplab.report.block import STAR, Heat
from opplab.simulation.cases import Measured
from opplab.summary.answer import Answer, Change, Line, _finding, answer_of, shared_timers
from opplab.summary.factors import grid_of
from opplab.sweep.store import Store
from opplab.sweep.variants import with_variants

from calls import answered, called

LOAD = {
    "global": {"duration": 1, "calibration": "CPU0"},
    "tasks": {"t": {"instance": 4, "loop": -1, "run": 2000, "timer": {"ref": "unique", "period": 16000}}},
}
WIDTH = 80


def run(*words: str) -> Result:
    return answered(*words, columns=WIDTH)


@pytest.fixture(scope="module")
def load(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("load") / "load.json"
    file.write_text(json.dumps(LOAD))
    return file


@pytest.fixture(scope="module")
def compared(load: Path) -> tuple[Path, str]:
    """Three variants, as the command line runs them: the folder and what is printed."""
    folder = load.parent / "compared"
    words = ("--seconds", "0.4", "--vs", "governor=powersave", "--vs", "proposal=headroom:percent=110")
    return folder, run("run", str(load), "-m", "juno-r2", *words, "-o", str(folder)).stdout


def test_traces_without_a_report_are_refused(tmp_path: Path) -> None:
    """They were not written, without a word."""
    load = tmp_path / "load.json"
    load.write_text(json.dumps(LOAD))
    done = called("run", load, "-m", "juno-r2", "-o", tmp_path / "out", "--no-report", "--traces")
    assert done.exit_code == 2 and "--no-report" in done.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize(("variant", "starred"), [("governor=performance", True), ("watchdog_thresh_s=0", False)])
def test_stars_are_explained_where_they_have_no_interval(variant: str, starred: bool, tmp_path: Path) -> None:
    """A change that is the same in all runs has a star and no interval; a mail without a star explains none."""
    task = {"loop": -1, "run": 2000, "timer": {"ref": "t", "period": 16000}, "cpus": [0]}
    (tmp_path / "one.json").write_text(json.dumps({"tasks": {"t": task}}))
    words = ("run", str(tmp_path / "one.json"), "-m", "sm8250", "--variation", "none", "--vs", variant)
    mail = run(*words, "--seconds", "0.2", "-o", str(tmp_path / "out"), "--format", "markdown").stdout
    assert ("%*, same change in all runs" in mail) is starred
    assert "]*" not in mail
    assert (STAR in mail) is starred
    assert "or the change is the same in all runs" in STAR


def test_where_a_benchmark_counts_nothing_the_answer_has_words(tmp_path: Path) -> None:
    """No sentence was a full stop, the table of changes was empty, and a baseline that was named was not."""
    words = ("--param", "device_us=100000000", "--governor", "schedutil,performance", "--seconds", "0.6")
    for machine, known in (("juno-r2", True), ("core-ultra-135h", False)):
        out = ("-o", str(tmp_path / machine))
        answer = json.loads(run("run", "fio-randread", "-m", machine, *words, *out, "--format", "json").stdout)
        assert {row["mean"] for row in answer["rows"] if row["metric"] == "iops"} == {0}
        start = "performance: energy " if known else "Nothing has a change in percent against schedutil: schedutil and "
        assert answer["finding"].startswith(start)
        mail = run("run", "fio-randread", "-m", machine, *words, *out, "--format", "markdown").stdout
        assert ("change against schedutil" in mail) is known


def test_a_variant_that_does_no_work_saves_nothing(tmp_path: Path) -> None:
    """Energy has a change where work has none: the sentence names that it is that of no work."""
    task = {"loop": -1, "sleep": 1000, "run": 2000}
    (tmp_path / "load.json").write_text(json.dumps({"tasks": {"t": task}}))
    done = opplab.Experiment.load
    words = ("-m", "juno-r2", "--vs", "governor=performance", "--seconds", "0.2", "--iterations", "2")
    run("run", str(tmp_path / "load.json"), *words, "-o", str(tmp_path / "out"))
    experiment = done(tmp_path / "out" / "experiment.toml")
    known = results.read(tmp_path / "out")
    nothing = (pl.col("policy") == "performance") & (pl.col("metric") == "work_done")
    emptied = known.with_columns(pl.when(nothing).then(0.0).otherwise(pl.col("value")).alias("value"))
    assert "does none of the work that schedutil does" in answer_of(experiment, emptied).finding
    assert "none of the work" not in answer_of(experiment, known).finding


def test_a_page_has_the_runs_that_there_are(load: Path, tmp_path: Path) -> None:
    """With `until` the file's number is the most: points that stopped sooner have no more runs, seeds and cases."""
    machines = ("-m", "juno-r2", "-m", "pixel6", "--governor", "ondemand,performance", "--variation", "noisy-host")
    words = (*machines, "--seconds", "0.3", "--iterations", "40", "--until-ci", "3", "-o", str(tmp_path / "out"))
    run("run", str(load), *words)
    rows = results.read(tmp_path / "out")
    counted = [len(set(part["seed"])) for part in rows.partition_by("machine", "policy")]
    low, high = min(counted), max(counted)
    assert high < 40
    page = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", (tmp_path / "out" / "report.html").read_text()))
    runs = f"{low}" if low == high else f"{low} to {high}"
    assert f"seeds 1 to {high} iterations {runs} simulated time 0.3 s a case, {sum(counted)} cases" in page
    assert f"Means of {runs} iterations" in page


def test_the_next_step_of_a_file_that_compares_nothing_is_in_the_file(load: Path, tmp_path: Path) -> None:
    """Goal: the step is one that the command takes: --vs cannot be combined with an experiment's file."""
    head = (
        'format = 1\nname = "one"\nabout = "one"\nmachine = "juno-r2"\nseed = 1\niterations = 2\nduration = "100ms"\n'
    )
    work = f'[[workload]]\nlabel = "load"\nrtapp = "{load.name}"\n'
    first, second = '[[policy]]\nlabel = "a"\n', '[[policy]]\nlabel = "b"\ngovernor = "performance"\n'
    steps = {
        first: "Next: another [[policy]] and `baseline` in the experiment's file compare.",
        first + second: "Next: `baseline` in the experiment's file compares.",
    }
    for number, (policies, step) in enumerate(steps.items()):
        file = load.parent / f"one{number}.toml"
        file.write_text(head + policies + work)
        shown = run("run", str(file), "-o", str(tmp_path / str(number)), "--no-report").stdout
        assert step in " ".join(shown.split())
    file.write_text(head.replace("seed", 'baseline = "a"\nseed') + first + second + work)
    done = run("run", str(file), "-o", str(tmp_path / "compared"), "--no-report")
    assert "b: energy" in done.stdout


def test_unlike_work_is_said_without_energy_too(tmp_path: Path) -> None:
    """Where energy is unknown, response times of runs that did unlike work were compared. Method: the Parquet file."""
    task = {"loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "busy.json").write_text(json.dumps({"tasks": {"a": task}}))
    how = ("-m", "kaby-lake-i7-7500u", "--governor", "performance", "--vs", "max_perf_pct=30", "--seconds", "1")
    done = run("run", str(tmp_path / "busy.json"), *how, "-o", str(tmp_path / "out"), "--no-report")
    results = pl.read_parquet(tmp_path / "out/results.parquet").filter(metric="work_done")
    base, other = (of["value"].mean() for of in results.partition_by("policy", maintain_order=True))
    assert f"does {100 * (1 - other / base):.3g} % less work than performance" in " ".join(done.stdout.split())


def test_a_load_beside_a_benchmark_has_what_it_has_alone(tmp_path: Path) -> None:
    """Goal: in an answer with benchmarks, too, what a load misses stands in its columns and in the sentence."""
    task = {"instance": 3, "loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 16000}}
    (tmp_path / "busy.json").write_text(json.dumps({"tasks": {"a": task}}))
    head = 'format = 1\nname = "mix"\nabout = "mix"\nmachine = "skylake-8x-uma"\nbaseline = "performance"\n'
    head += 'seed = 1\niterations = 2\nduration = "500ms"\n'
    policies = '[[policy]]\nlabel = "performance"\ngovernor = "performance"\n'
    policies += '[[policy]]\nlabel = "slow"\ngovernor = "performance"\nmax_perf_pct = 20\n'
    busy = '[[workload]]\nlabel = "busy"\nrtapp = "busy.json"\n'
    answers = {}
    for name, workloads in {"alone": busy, "mix": busy + '[[workload]]\nbenchmark = "hackbench"\nloops = 5\n'}.items():
        (tmp_path / f"{name}.toml").write_text(head + policies + workloads)
        experiment = opplab.Experiment.load(tmp_path / f"{name}.toml")
        answers[name] = answer_of(experiment, experiment.run())
    rows = {name: [row for row in one.rows() if row["workload"] == "busy"] for name, one in answers.items()}
    assert rows["alone"] == rows["mix"]
    assert {"missed_activations", "response_p99"} <= {row["metric"] for row in rows["mix"]}
    for one in answers.values():
        assert "slow misses 100 % of its activations (performance 0 %)" in one.finding
    ours = {row["metric"] for row in answers["mix"].rows() if row["workload"] == "hackbench"}
    assert "elapsed" in ours
    assert not ours & {"missed_activations", "work_done", "response_p99", "rate"}
    table = answers["mix"].tables()[0]
    assert [row["response p50/p99, ms"] == "" for row in table] == [row["workload"] == "hackbench" for row in table]


def test_clear_changes_of_lines_that_are_left_out_are_counted(load: Path, tmp_path: Path) -> None:
    """Of 14 lines 2 are left out; what is clear in them is held against the rows for programs."""
    machines = [word for name in ("juno-r2", "pixel6") for word in ("-m", name)]
    same = [word for kernel in ("5.15", "6.1", "6.6", "6.9", "6.15") for word in ("--vs", f"kernel={kernel}")]
    words = ["run", str(load), *machines, "--seconds", "0.4", *same, "--vs", "governor=performance"]
    folder = str(tmp_path / "out")
    short = run(*words, "-o", folder, "--no-report").stdout
    rows = list(csv.DictReader(io.StringIO(run(*words, "-o", folder, "--no-report", "--format", "csv").stdout)))
    lines = list(dict.fromkeys((row["machine"], row["variant"]) for row in rows))
    assert lines[12:] == [("pixel6", "kernel=6.15"), ("pixel6", "performance")]
    clear = [
        row
        for row in rows
        if (row["machine"], row["variant"]) in lines[12:]
        and row["metric"] in ("energy", "response_p99")
        and row["certainty"] == "clear"
    ]
    assert len(clear) >= 2
    assert f"2 more lines with {len(clear)} clear changes: --all" in short


def test_without_a_report_the_answer_is_the_same(compared: tuple[Path, str], load: Path, tmp_path: Path) -> None:
    words = ("--seconds", "0.4", "--vs", "governor=powersave", "--vs", "proposal=headroom:percent=110")
    done = run("run", str(load), "-m", "juno-r2", *words, "-o", str(tmp_path / "compared"), "--no-report")
    assert done.stdout == compared[1]
    kept = {path.name for path in (tmp_path / "compared").iterdir()}
    assert "results.parquet" in kept
    assert not kept & {"report.html", "tables.txt", "traces"}


def answer(folder: Path) -> Answer:
    return answer_of(opplab.Experiment.of_results(folder), results.read(folder))


def test_numbers_are_those_of_parquet_and_of_python(compared: tuple[Path, str], load: Path) -> None:
    folder, shown = compared
    table = pl.read_parquet(folder / "results.parquet")
    policies = {
        "schedutil": opplab.Policy(),
        "powersave": opplab.Policy(governor="powersave"),
        "headroom:percent=110": opplab.Policy(proposals=("headroom:percent=110",)),
    }
    by_hand = {}
    for label, policy in policies.items():
        runs = [opplab.simulate("juno-r2", load, policy, seconds=0.4, seed=seed).metrics for seed in (1, 2, 3)]
        by_hand[label] = [dict(zip(one["metric"], one["value"], strict=True)) for one in runs]
    rows = {(row["variant"], row["metric"]): row for row in answer(folder).rows()}
    assert {variant for variant, _ in rows} == set(policies)
    for label, tables in by_hand.items():
        for metric in ("energy", "power", "missed_activations"):
            mean = sum(one[metric] for one in tables) / 3
            stored = table.filter(pl.col("policy") == label, pl.col("metric") == metric)["value"].mean()
            assert rows[label, metric]["mean"] == pytest.approx(mean, rel=1e-12)
            assert rows[label, metric]["mean"] == pytest.approx(stored, rel=1e-12)
        per_work = sum(one["energy"] / one["work_done"] for one in tables) / 3
        assert rows[label, "energy_per_work"]["mean"] == pytest.approx(per_work, rel=1e-12)
    base = [one["energy"] for one in by_hand["schedutil"]]
    for label in ("powersave", "headroom:percent=110"):
        found = stats.compare(base, [one["energy"] for one in by_hand[label]], paired=True, resamples=0)
        row = rows[label, "energy"]
        assert row["change_percent"] == pytest.approx(100 * (found["ratio"] - 1))
        assert (row["low_percent"], row["high_percent"]) == pytest.approx(
            (100 * (found["low"] - 1), 100 * (found["high"] - 1))
        )
        assert (row["certainty"] == "clear") == (row["low_percent"] > 0 or row["high_percent"] < 0)
        words = f"{row['change_percent']:+.1f} % [{row['low_percent']:+.1f}, {row['high_percent']:+.1f}]"
        assert words in " ".join(shown.split())
    assert f"{1e3 * rows['schedutil', 'energy']['mean']:.2f} " in shown, "four digits, in mJ"


def test_python_measures_what_the_command_measures(compared: tuple[Path, str], load: Path) -> None:
    folder, _ = compared
    table = pl.read_parquet(folder / "results.parquet").filter(policy="powersave", seed=2)
    run_ = opplab.simulate("juno-r2", load, "powersave", seconds=0.4, seed=2)
    assert dict(zip(run_.metrics["metric"], run_.metrics["value"], strict=True)) == dict(
        zip(table["metric"], table["value"], strict=True)
    )


def test_deadlines_are_judged_by_response_times(compared: tuple[Path, str]) -> None:
    """A wake-up on an idle CPU costs nothing in the engine: `0 / 0` would stand where the governor matters most."""
    folder, shown = compared
    table = pl.read_parquet(folder / "results.parquet").filter(pl.col("policy") == "powersave")
    means = [table.filter(pl.col("metric") == f"response_{name}")["value"].mean() for name in ("p50", "p99")]
    assert "/".join(f"{value:#.4g}" for value in means) in shown
    rows = {(row["variant"], row["metric"]): row for row in answer(folder).rows()}
    assert rows["powersave", "response_p99"]["change_percent"] is not None
    assert not any(metric.startswith("latency") for _, metric in rows)


def test_all_forms_say_the_same(compared: tuple[Path, str]) -> None:
    folder, shown = compared
    made = answer(folder)
    assert made.text(WIDTH) == shown
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert json.loads(run("run", str(folder), "--format", "json").stdout)["rows"] == made.rows()
    table = list(csv.DictReader(io.StringIO(run("run", str(folder), "--format", "csv").stdout)))
    assert [float(row["mean"]) for row in table] == [row["mean"] for row in made.rows()]
    page = html.unescape((folder / "report.html").read_text().replace("<wbr>", "")).replace("\xa0", " ")
    for rows in made.tables():
        for row in rows:
            for text in row.values():
                assert text in made.markdown()
                assert text in page
                assert text.replace("%", r"\%") in run("run", str(folder), "--format", "latex").stdout
    assert "publ." not in shown, "the layout of a text stands where there is a text"


def test_machines_and_workloads_are_never_pooled(load: Path) -> None:
    file = load.parent / "two.toml"
    file.write_text(
        'format = 1\nname = "two"\nabout = "two machines"\nmachine = ["juno-r2", "pixel4"]\nbaseline = "schedutil"\n'
        'seed = 1\niterations = 2\nduration = "100ms"\n'
        '[[policy]]\nlabel = "schedutil"\n[[policy]]\nlabel = "fast"\ngovernor = "performance"\n'
        '[[workload]]\nlabel = "a"\nbenchmark = "periodic"\ntasks = [1, 4]\nduty = 60\nperiod_us = 16000\n'
    )
    experiment = opplab.Experiment.load(file)
    table = experiment.run(jobs=1)
    made = answer_of(experiment, table)
    assert len(made.lines) == 8
    assert len({(one.machine, one.workload, one.variant) for one in made.lines}) == 8
    for one in made.lines:
        own = table.filter(
            pl.col("machine") == one.machine,
            pl.col("param") == f"tasks={one.workload.split()[-1]}",
            pl.col("policy") == one.variant,
            pl.col("metric") == "energy",
        )
        assert own.height == 2
        assert one.values["energy"] == pytest.approx(own["value"].mean())
        base = next(
            other
            for other in made.lines
            if (other.machine, other.workload, other.base) == (one.machine, one.workload, "")
        )
        if one.base:
            ratio = (one.values["energy"] or 0.0) / (base.values["energy"] or 1.0)
            assert one.changes["energy"].value == pytest.approx(100 * (ratio - 1))


def test_each_benchmark_has_its_own_metric_and_unit_of_work(tmp_path: Path) -> None:
    """Goal: nobody mails J/MB of a benchmark that moves no MB, or the clear changes of one of three benchmarks."""
    (tmp_path / "ci.toml").write_text(
        'format = 1\nname = "ci"\nmachine = "skylake-8x-uma"\nbaseline = "a"\nseed = 1\niterations = 2\n'
        'duration = "800ms"\n[[policy]]\nlabel = "a"\n[[policy]]\nlabel = "b"\ngovernor = "performance"\n'
        + "".join(
            f'[[workload]]\nbenchmark = "{name}"\n{size}\n'
            for name, size in (
                ("tbench", "clients = [1, 4]"),
                ("pgbench-ro", "clients = 2"),
                ("hackbench", "groups = 1"),
            )
        )
    )
    experiment = opplab.Experiment.load(tmp_path / "ci.toml")
    made = answer_of(experiment, experiment.run())
    units = {row["workload"].split()[0]: row["unit"] for row in made.rows() if row["metric"] == "energy_per_work"}
    assert units == {"tbench": "J/MB", "pgbench-ro": "J/transaction", "hackbench": "J/s of work"}
    own = {(row["workload"].split()[0], row["metric"]) for row in made.rows()}
    assert own >= {("tbench", "throughput"), ("pgbench-ro", "transactions"), ("hackbench", "elapsed")}
    assert ("pgbench-ro", "throughput") not in own
    for row in made.tables()[0]:
        assert len([text for head, text in row.items() if head.startswith("energy/work") and text]) == 1
    counts = re.findall(r"(\w+): \d of (\d) changes are clear", made.finding)
    assert counts == [("throughput", "2"), ("transactions", "1"), ("elapsed", "1")]


def test_a_sweep_over_two_factors_has_a_heat_table(load: Path) -> None:
    """A row a machine, a column a variant, the change in the cell, its colour the direction: a matrix in a terminal."""
    file = load.parent / "heat.toml"
    file.write_text(
        'format = 1\nname = "heat"\nabout = "two factors"\nmachine = ["juno-r2", "pixel4"]\nbaseline = "schedutil"\n'
        'seed = 1\niterations = 2\nduration = "200ms"\n[[policy]]\nlabel = "schedutil"\n'
        '[[policy]]\nlabel = "fast"\ngovernor = "performance"\n[[policy]]\nlabel = "slow"\ngovernor = "powersave"\n'
        f'[[workload]]\nlabel = "load"\nrtapp = "{load}"\n'
    )
    experiment = opplab.Experiment.load(file)
    made = answer_of(experiment, experiment.run(jobs=1))
    heats = made.heats()
    first = heats[0]
    assert list(first.rows[0]) == [next(iter(first.rows[0])), "fast", "slow"]
    assert [row[next(iter(row))] for row in first.rows] == ["juno-r2", "pixel4"]
    change = {(one.machine, one.variant): one.changes for one in made.lines if one.base}
    metric = "energy" if next(iter(first.rows[0])).startswith("energy,") else "energy_per_work"
    for row, gains, styles in zip(first.rows, first.gains, first.styles(), strict=True):
        machine, *_ = row.values()
        for variant, gain, style in zip(("fast", "slow"), gains, styles[1:], strict=True):
            one = change[machine, variant][metric]
            assert row[variant].rstrip("*") == f"{one.value:+.1f}"
            assert row[variant].endswith("*") == one.certainty.is_clear
            assert gain == -one.value, "less energy is better"
            assert style.startswith("background:rgba(192" if one.value > 0 else "background:rgba(27")
    mail = made.markdown()
    assert mail.count("| fast | slow |") == 1, "without colours the first matrix is enough"
    assert STAR in mail
    # What is not clear is paler than what is.
    pale, full = Heat([{"energy, %": "a", "x": "+5.0", "y": "+5.0*"}], [[-5.0, -5.0]]).styles()[0][1:]
    assert float(pale.rstrip(")").split(",")[-1]) < 0.5 * float(full.rstrip(")").split(",")[-1])
    lines = made.text(WIDTH).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert any(line.split() == list(first.rows[1].values()) for line in lines)
    for row in first.rows:
        assert all(f">{text}</td>" in made.html() for text in row.values())
    # One factor needs no matrix.
    assert not Answer(made.question, "", [one for one in made.lines if one.variant != "slow"], made.units).heats()


def test_a_machine_without_a_gpu_has_no_frames_and_no_unknown_ones(load: Path, tmp_path: Path) -> None:
    words = ("-m", "kaby-lake-i7-7500u-gpu", "-m", "juno-r2", "--seconds", "0.3", "-o", str(tmp_path / "out"))
    answer = json.loads(run("run", str(load), *words, "--vs", "governor=performance", "--format", "json").stdout)
    frames = {(row["machine"], row["metric"]) for row in answer["rows"] if row["metric"].startswith("frames:")}
    assert frames == {("kaby-lake-i7-7500u-gpu", "frames:gpu")}


def test_several_machines_are_asked_at_once(load: Path, tmp_path: Path) -> None:
    """A row a machine and variant, each as in a run of its own; `--power generic` is for those without power."""
    words = ["--governor", "schedutil,powersave", "--seconds", "0.2"]
    generic = ["--power", "generic"]
    machines = ["skylake-8x-uma", "sapphire-rapids-8460h-4s"]
    both = tmp_path / "both"
    shown = run("run", str(load), "-m", machines[0], "-m", machines[1], *words, *generic, "-o", str(both)).stdout
    assert "on 2 machines" in shown
    rows = []
    for name, more in zip(machines, ([], generic), strict=True):
        run("run", str(load), "-m", name, *words, *more, "-o", str(tmp_path / name))
        rows += answer(tmp_path / name).rows()
    assert answer(both).rows() == rows
    assert {row["machine"] for row in rows} == set(machines)
    assert any(row["mean"] for row in rows if row["metric"] == "energy")
    assert run("run", str(both)).stdout == shown, "the folder holds its machines"
    assert f"load on {', '.join(machines)}: " in (both / "report.html").read_text()


def test_a_benchmark_runs_on_several_machines_where_none_has_its_own_constants(tmp_path: Path) -> None:
    short = ("--seconds", "0.7", "--iterations", "1", "--param", "clients=1", "--no-report")
    plain = ["juno-r2", "pixel6"]
    out = tmp_path / "both"
    run("run", "tbench", "-m", plain[0], "-m", plain[1], *short, "-o", str(out))
    alone = []
    for name in plain:
        run("run", "tbench", "-m", name, *short, "-o", str(tmp_path / name))
        alone.append(pl.read_parquet(tmp_path / name / "results.parquet").drop("experiment"))
    assert pl.read_parquet(out / "results.parquet").drop("experiment").equals(pl.concat(alone))
    own = ["juno-r2", "epyc-7742-2s"]
    asked = ["run", "tbench", "-m", own[0], "-m", own[1], "-o", str(tmp_path / "no")]
    for command in (asked, ["experiment", "new", "mine", "-w", "tbench", *asked[2:6], "-o", str(tmp_path / "no.toml")]):
        done = called(*command)
        assert "tbench has constants of its own on epyc-7742-2s: run it on each machine apart" in str(done.exception)
        assert "`opplab compare tbench-juno-r2 tbench-epyc-7742-2s`" in str(done.exception)
    assert not list(tmp_path.glob("no*"))


def test_a_clear_change_of_waits_stands_in_the_sentence() -> None:
    """A reader of "energy -9 %, clear" alone missed that p99 had doubled, which the table had."""

    def change(value: float, half: float) -> Change:
        return Change(value, certainty(value - half, value + half, n=3, varies=True, value=value))

    values = {"energy": 1.0, "response_p99": 1.0}
    found = {"slow": change(100.0, 20.0), "same": change(5.0, 20.0), "trifle": change(0.4, 0.1)}
    lines = [Line("m", "w", "base", "", 3, values, {})]
    lines += [
        Line("m", "w", name, "base", 3, values, {"energy": change(-9.0, 1.0), "response_p99": of})
        for name, of in found.items()
    ]
    made = Answer("", "", lines, {"energy": ("J", "lower"), "response_p99": ("ms", "lower")})
    energy = "energy -9.0 % [-10.0, -8.0]*, clear"
    slow = "response p99 +100.0 % [+80.0, +120.0]*, clear"
    assert _finding(made, None) == f"slow: {energy}, and {slow}; same: {energy}; trifle: {energy}."
    # Without power the answer is about response times, once.
    waits = [dataclasses.replace(one, changes={"response_p99": found["slow"]} if one.base else {}) for one in lines[:2]]
    made = Answer("", "", waits, {"response_p99": ("ms", "lower")})
    assert _finding(made, None) == f"slow: {slow}."


def test_counts_of_the_sentence_are_the_stars_of_the_tables() -> None:
    """Goal: nobody mails "0 of 2 are clear" above a star. Method: random changes; machines lack some metrics."""
    rng = random.Random(11)
    units = {
        "frames:gpu": ("1/s", "higher"),
        "rate": ("1/s", "higher"),
        "energy": ("J", "lower"),
        "energy_per_work": ("J/s of work", "lower"),
        "response_p50": ("ms", "lower"),
        "response_p99": ("ms", "lower"),
    }

    def change() -> Change:
        value = rng.choice([0.0, rng.uniform(-20, 20)])
        interval = None if value == 0 else (value - rng.uniform(0.1, 20), value + rng.uniform(0.1, 20))
        return Change(value, certainty(*(interval or (None, None)), n=3, varies=interval is not None, value=value))

    checked = 0
    for _ in range(200):
        lines = []
        variants = [f"v{at}" for at in range(rng.randint(1, 4))]
        for machine in (f"m{at}" for at in range(rng.randint(1, 6))):
            known = [name for name in units if rng.random() < 0.6]
            values = {name: 1.0 if name in known else None for name in units}
            lines.append(Line(machine, "w", "base", "", 3, values, {}))
            for variant in variants:
                changes = {name: change() for name in known if name != "response_p50"}
                lines.append(Line(machine, "w", variant, "base", 3, values, changes))
        compared = [one for one in lines if one.changes]
        made = Answer("", "", lines, units)
        # One key of another machine is in no column of the table.
        if len(compared) <= 3 or any(made._first(one) not in made._told() for one in compared):
            continue
        made.finding = _finding(made, None)
        counts = re.findall(r"(?:^|; )([^;:]+(?::gpu)?): (\d+) of (\d+) changes are clear( \([^)]*\))?", made.finding)
        assert counts, made.finding
        checked += 1
        table = made.tables()[1]
        for title, clear, number, whose in counts:
            cells = {row.get("machine", ""): [] for row in table}
            for row in table:
                cells[row.get("machine", "")] += [row[title]] if row[title] else []
            every = [cell for own in cells.values() for cell in own]
            assert (int(clear), int(number)) == (sum("*" in cell for cell in every), len(every)), made.finding
            heat = [cell for one in made.heats() for row in one.rows for cell in row.items() if _is_of(row, title)]
            stars = sum(text.endswith("*") for head, text in heat if head in variants)
            assert stars == int(clear) or not made.heats()
            for machine, of, all_ in re.findall(r"(m\d) (\d+) of (\d+)", whose):
                assert (int(of), int(all_)) == (sum("*" in cell for cell in cells[machine]), len(cells[machine]))
            assert ("m" in whose) == (len({one.machine for one in compared}) > 1), made.finding
    assert checked > 100


def _is_of(row: dict[str, str], title: str) -> bool:
    """Whether a row of a matrix is of a metric."""
    return row["of"] == title if "of" in row else any(head.startswith(f"{title}, ") for head in row)


def test_what_does_less_work_is_named_of_each_machine_the_worst_first(tmp_path: Path) -> None:
    """Sentences on one machine left no room for those on the other."""
    machines = ["juno-r2", "sm8250"]
    (tmp_path / "heavy.json").write_text(heavy())
    words = (
        "--seconds",
        "0.4",
        "--vs",
        "governor=powersave",
        "--vs",
        "governor=conservative",
        "--vs",
        "governor=ondemand",
    )
    on = [word for name in machines for word in ("-m", name)]
    run("run", str(tmp_path / "heavy.json"), *on, *words, "-o", str(tmp_path / "out"))
    found = answer(tmp_path / "out").finding
    work = next(one for one in found.split(". ") if "less work than" in one)
    assert all(f"{name} powersave does" in work for name in machines), found
    shares = [float(one) for one in re.findall(r"does ([0-9.]+) % less", work)]
    assert len(shares) >= 2
    assert shares == sorted(shares, reverse=True)


def test_misses_have_an_interval_in_points(tmp_path: Path) -> None:
    """The sentence's numbers are the Parquet's: means of shares, Student's t of the pairs, or the counts' error."""
    (tmp_path / "heavy.json").write_text(heavy())
    words = ("--seconds", "0.5", "--vs", "governor=powersave", "--variation", "noisy-host", "--iterations", "4")
    run("run", str(tmp_path / "heavy.json"), "-m", "juno-r2", *words, "-o", str(tmp_path / "out"))
    block = answer(tmp_path / "out")
    found = block.finding
    whole = pl.read_parquet(tmp_path / "out" / "results.parquet").sort("seed")
    table = whole.filter(metric="missed_activations")
    base, slow = (table.filter(policy=name)["value"] for name in ("schedutil", "powersave"))
    apart, (low, high) = stats.mean((slow - base).to_list())
    counted = whole.filter(metric="activations").group_by("policy").agg(pl.col("value").sum())["value"].min()
    more = apart / 100 * counted
    half = 100 * 1.959964 * more**0.5 / counted
    assert half > high - apart
    low, high = apart - half, apart + half
    points = f"{apart:+.1f} points [{low:+.1f}, {high:+.1f}]"
    means = f"misses {slow.mean():.3g} % of its activations (schedutil {base.mean():.3g} %: {points}"
    assert means in found, found
    (row,) = [row for row in block.rows() if row["metric"] == "missed_activations" and row["baseline"]]
    assert [row[f"{end}_points"] for end in ("change", "low", "high")] == pytest.approx([apart, low, high], abs=1e-4)
    assert row["change_percent"] is None


def test_fewer_misses_are_named_where_they_are_clear_as_compare_has_them(tmp_path: Path) -> None:
    """A run said "energy -0.9 %, not clear", and its comparison -4.2 points of missed activations, clear."""
    (tmp_path / "heavy.json").write_text(heavy())
    words = ("--seconds", "0.5", "--variation", "noisy-host", "--iterations", "4", "-m", "juno-r2")
    how = ("run", str(tmp_path / "heavy.json"), *words)
    run(*how, "--governor", "powersave", "--vs", "governor=schedutil", "-o", str(tmp_path / "out"))
    found = answer(tmp_path / "out").finding
    table = pl.read_parquet(tmp_path / "out" / "results.parquet").filter(metric="missed_activations").sort("seed")
    base, ours = (table.filter(policy=name)["value"] for name in ("powersave", "schedutil"))
    assert f"schedutil misses {ours.mean():.3g} % of its activations (powersave {base.mean():.3g} %: -" in found, found


def test_a_least_share_is_rounded_down(tmp_path: Path) -> None:
    """7 of 8 misses were "at least 88 %"."""
    from opplab.summary.answer import _cold_misses

    (tmp_path / "heavy.json").write_text(heavy())
    short = ("--seconds", "0.5", "--iterations", "1", "--vs", "governor=powersave")
    run("run", str(tmp_path / "heavy.json"), "-m", "juno-r2", *short, "-o", str(tmp_path / "out"))
    experiment = opplab.Experiment.of_results(tmp_path / "out")
    runs = {1: {"missed_activations": 8.0, "missed_at_start": 7.0}}
    said = _cold_misses(experiment, {(("juno-r2", "heavy", ""), "powersave"): runs}, drawn=False)
    assert said.startswith("at least 87 % of the misses of powersave"), said
    said = _cold_misses(experiment, {(("juno-r2", "heavy", ""), "powersave"): runs}, drawn=True)
    assert said.startswith("at least 87 % of the misses of powersave with the machine's own numbers are in"), said


GRID = ("rate_limit_us=20000", "pelt_half_life_ms=8", "pelt_half_life_ms=8 rate_limit_us=20000")


def test_two_keys_of_the_variants_are_two_factors(load: Path, tmp_path: Path) -> None:
    """Every combination of two keys, the baseline's among them: a row a value of one, a column one of the other."""
    folder = tmp_path / "grid"
    words = [word for variant in GRID for word in ("--vs", variant)]
    shown = run("run", str(load), "-m", "juno-r2", *words, "--seconds", "0.3", "-o", str(folder)).stdout
    made = answer(folder)
    first = made.heats()[0]
    head = next(iter(first.rows[0]))
    rows, columns = ["pelt_half_life_ms=32", "pelt_half_life_ms=8"], ["rate_limit_us=default", "rate_limit_us=20000"]
    assert [row[head] for row in first.rows] == rows
    assert list(first.rows[0]) == [head, *columns]
    change = {one.variant: one.changes for one in made.lines if one.base}
    metric = "energy" if head.startswith("energy,") else "energy_per_work"
    cells = [row[column] for row in first.rows for column in columns]
    assert cells == ["baseline", *(change[variant][metric].short for variant in GRID)]
    assert first.gains[0][0] is None
    assert first.styles()[0] == ["", "", first.styles()[0][2]]
    assert any(line.split() == list(first.rows[1].values()) for line in shown.splitlines())
    # Less than every combination is a list of variants.
    del made.lines[1:2]
    made.factors = grid_of({"base": {}, "a": {"hz": 100}, "b": {"tunables": {"rate_limit_us": "1"}}})
    assert not made.heats()


def test_a_grid_of_variants_stands_at_each_machine(load: Path) -> None:
    """Governors that are compared with one outside of the grid, and what names a point, before the factors."""
    file = load.parent / "points.toml"
    grid = "".join(
        f'[[policy]]\nlabel = "{governor} {hz}"\ngovernor = "{governor}"\nhz = {hz}\n'
        for governor in ("performance", "powersave")
        for hz in (100, 1000)
    )
    file.write_text(
        'format = 1\nname = "points"\nabout = "three factors"\nmachine = ["juno-r2", "pixel4"]\nbaseline = "base"\n'
        f'seed = 1\niterations = 2\nduration = "200ms"\n[[policy]]\nlabel = "base"\n{grid}'
        f'[[workload]]\nlabel = "load"\nrtapp = "{load}"\n'
    )
    experiment = opplab.Experiment.load(file)
    made = answer_of(experiment, experiment.run(jobs=1))
    heat = made.heats()[0]
    places = [list(row.values())[:2] for row in heat.rows]
    assert places == [[machine, name] for machine in ("juno-r2", "pixel4") for name in ("performance", "powersave")]
    assert list(heat.rows[0])[2:] == ["hz=100", "hz=1000"]
    assert heat.names() == 2
    assert [line[:2] for line in heat.styles()] == [["", ""]] * 4
    cell = next(one for one in made.lines if (one.machine, one.variant) == ("pixel4", "powersave 1000"))
    assert heat.rows[3]["hz=1000"] == cell.changes[made._first(cell)].short


def test_latex_has_the_heat_table_with_its_colours() -> None:
    class Two(Answer):
        def heats(self) -> list[Heat]:
            return [Heat([{"energy, %": "a_1", "x": "+5.0*", "y": "baseline"}], [[-5.0, None]])]

    text = Two("q", "", [], {}).latex()
    assert r"\providecommand{\cellcolor}[2][]{}" in text, "it compiles without xcolor, too"
    assert r"a\_1 & \cellcolor[RGB]{217,139,119}+5.0* & baseline \\" in text
    assert r"energy, \% & x & y \\" in text


def test_latex_escapes_each_character_once() -> None:
    assert r"a\textbackslash{}b \{c\} \textasciitilde{}" in Answer("a\\b {c} ~", "", [], {}).latex()


@pytest.mark.parametrize("more", [(), ("--governor", "schedutil,performance"), ("--iterations", "2")])
def test_every_run_keeps_its_experiment_and_every_later_command_works(
    load: Path, tmp_path: Path, more: tuple[str, ...]
) -> None:
    folder = tmp_path / "out"
    first = run("run", str(load), "-m", "juno-r2", "--seconds", "0.1", "-o", str(folder), *more)
    assert run("run", str(folder)).stdout == first.stdout, "the same command goes on from the folder"
    words = first.stderr.replace("\n", " ").partition(": ")[2]
    for name in ("report.html", "results.parquet", "tables.txt"):
        assert name in words
    for name in ("experiment.toml", "report.html", "results.parquet", "tables.txt"):
        assert (folder / name).stat().st_size > 0, name
    assert (folder / "tables.txt").read_text() == first.stdout
    case = f"{folder}:0" if more else str(folder)
    run("explain", case, "--why-slow")
    run("status", str(folder))
    run("compare", str(folder))
    if "--governor" in more:
        compared = " ".join(run("compare", str(folder), "--uncertainty", "40").stdout.split())
        assert "clear" in compared
        assert "intervals, stars and --fail-if are of the runs alone here" in compared
    assert (folder / "run.html").exists() == (not more)


def test_too_few_draws_name_how_many_are_enough(load: Path, tmp_path: Path) -> None:
    words = ("run", str(load), "-m", "juno-r2", "--seconds", "0.1", "--vs", "governor=performance", "--uncertainty")
    few = " ".join(run(*words, "8", "-o", str(tmp_path / "few")).stdout.split())
    assert "Next: --uncertainty 40" in few


def heavy() -> str:
    text = json.dumps(LOAD)
    assert '"run": 2000' in text
    return text.replace('"run": 2000', '"run": 14000')


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A load of which powersave does less, with draws."""
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "heavy.json").write_text(heavy())
    words = ("--seconds", "0.2", "--vs", "governor=powersave", "--uncertainty", "40", "-o", str(folder / "out"))
    shown = run("run", str(folder / "heavy.json"), "-m", "juno-r2", *words, "--format", "json").stdout
    (folder / "answer.json").write_text(shown)
    return folder


def test_what_draws_are_about_fits_80_columns(drawn: Path) -> None:
    words = ("--seconds", "0.2", "--vs", "governor=powersave", "--uncertainty", "40", "-o", str(drawn / "out"))
    shown = run("run", str(drawn / "heavy.json"), "-m", "juno-r2", *words).stdout
    assert "what the changes depend on" in shown
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_every_change_has_the_interval_of_runs_and_assumptions(drawn: Path) -> None:
    """Energy by work had that of the runs alone, where `choose` had both."""
    whole = json.loads((drawn / "answer.json").read_text())
    found = {row["metric"]: row for row in whole["rows"] if row["change_percent"] is not None}
    sure = {row["metric"]: row for row in json.loads((drawn / "out" / "uncertainty.json").read_text())["changes"]}
    assert {"energy", "energy_per_work", "response_p99"} <= set(found)
    for metric, row in found.items():
        assert row["low_percent"] == pytest.approx(sure[metric]["low"], abs=1e-3), metric
        assert row["high_percent"] == pytest.approx(sure[metric]["high"], abs=1e-3), metric
        assert sure[metric]["draws"] == 39
    assert "intervals cover runs and assumptions" in whole["assumed"]


def test_a_benchmark_has_the_interval_of_both_parts_in_its_energy_by_work(tmp_path: Path) -> None:
    words = ("--seconds", "1.5", "--vs", "governor=performance", "--uncertainty", "40", "-o", str(tmp_path / "out"))
    shown = run("run", "tbench", "-m", "juno-r2", *words, "--format", "json").stdout
    found = {row["metric"]: row for row in json.loads(shown)["rows"] if row["change_percent"] is not None}
    sure = {row["metric"]: row for row in json.loads((tmp_path / "out" / "uncertainty.json").read_text())["changes"]}
    assert "throughput" in found
    assert found["energy_per_work"]["low_percent"] == pytest.approx(sure["energy_per_work"]["low"], abs=1e-3)


def test_values_of_one_policy_have_their_unit_in_all_forms_of_how_sure(load: Path, tmp_path: Path) -> None:
    """Joules and watts of draws are no percent; terminal, page and file hold the same numbers."""
    words = ("--seconds", "0.4", "--iterations", "2", "--uncertainty", "40", "-o", str(tmp_path / "out"))
    shown = run("run", str(load), "-m", "juno-r2", *words).stdout
    assert "how sure (95 % intervals of 40 draws)" in shown
    whole = json.loads((tmp_path / "out" / "uncertainty.json").read_text())
    rows = {row["metric"]: row for row in (*whole["changes"], *whole["values"])}
    assert {name: row["unit"] for name, row in rows.items()} == {"energy": "J", "power": "W"}
    page = html.unescape((tmp_path / "out" / "report.html").read_text())
    for name, row in rows.items():
        value, low, high = (f"{row[key]:.4g} {row['unit']}" for key in ("value", "low", "high"))
        assert {*value.split(), *low.split(), *high.split()} <= {*shown.split()}, name
        assert f"{low} to {high}" in page
        # Power is energy by 0.4 s, at every draw.
        assert rows["power"]["low"] == pytest.approx(rows["energy"]["low"] / 0.4, rel=1e-6)
    energy = rows["energy"]
    assert f"schedutil: {energy['value']:.4g} J, {energy['low']:.4g} J to {energy['high']:.4g} J" in page
    assert "energy: value and how sure" in page
    assert "Changes in percent" not in page
    assert "change, %" not in page
    assert "schedutil, :" not in page
    assert "Intervals of the runs alone are Student's t" in page


def test_each_variant_has_its_energy_and_power_with_an_interval(drawn: Path) -> None:
    shown = run("compare", str(drawn / "out"), "--uncertainty", "40").stdout
    table = shown.partition("energy and power of each variant")[2].partition("\n\n")[0]
    policies = opplab.Experiment.of_results(drawn / "out").policies
    assert len(policies) > 1
    for unit in ("J", "W"):
        found = re.findall(rf"([\d.]+) m?{unit} +([\d.]+) m?{unit} to ([\d.]+) m?{unit}", table)
        assert len(found) == len(policies), table
        assert all(float(low) <= float(value) <= float(high) for value, low, high in found)
    page = (drawn / "out" / "report.html").read_text()
    assert "Energy and power of each variant" in page
    values = json.loads((drawn / "out" / "uncertainty.json").read_text())["values"]
    assert len(values) == 2 * len(policies)
    assert all(f"{row['low']:.4g} {row['unit']} to {row['high']:.4g} {row['unit']}" in page for row in values)


def test_the_interval_of_missed_work_is_named_as_that_of_the_runs(drawn: Path) -> None:
    """Goal: beside intervals of runs and assumptions nobody takes that of the misses for one of both."""
    sentence = json.loads((drawn / "answer.json").read_text())["finding"]
    assert re.search(r"points \[.*\]\*?, of the runs alone\)", sentence), sentence


def test_draws_measure_waits_and_runs_without_them_are_made_anew(drawn: Path) -> None:
    """`compare --metric response_p99 --uncertainty` had "no ranges" on a machine with eleven."""
    cases = sorted((drawn / "out" / "draws" / "cases").glob("*.json"))
    with Store(drawn / "out" / "draws") as store:
        measured = store.measured(cases[0].stem)
        rows = [row for row in measured.rows if not row[0].startswith(("latency", "response"))]
        store.put(cases[0].stem, Measured(measured.labels, rows))
    words = ("--metric", "response_p99", "--uncertainty", "40")
    shown = run("compare", str(drawn / "out"), *words).stdout
    assert "no ranges" not in shown
    assert "how sure" in shown
    with Store(drawn / "out" / "draws") as store:
        assert "response_p99" in {row[0] for row in store.measured(cases[0].stem).rows}


def test_a_run_of_one_policy_is_about_ten_lines(load: Path, tmp_path: Path) -> None:
    out = ("-m", "juno-r2", "--seconds", "0.1", "-o", str(tmp_path / "out"))
    assert len(run("run", str(load), *out).stdout.splitlines()) <= 10
    everything = answered("run", load, *out, "--all", columns=300).stdout
    assert "idle_residency:A53@WFI" in "".join(everything.split())
    assert "fingerprint" in everything
    # Rows of clusters and clocks that nothing uses are thousands on a server: they are counted, in text alone.
    rows = list(csv.DictReader(io.StringIO(run("run", str(load), *out, "--format", "csv", "--all").stdout)))
    zeros = [row["metric"] for row in rows if float(row["mean"] or "nan") == 0]
    assert f"{len(zeros)} rows that are 0 under every policy left out" in everything
    assert zeros
    shown = {line.split()[3] for line in everything.splitlines() if line.startswith("juno-r2 ")}
    assert {row["metric"] for row in rows} - shown == set(zeros)


def test_a_late_start_that_counts_is_named(tmp_path: Path) -> None:
    """Energy and misses are of all of the run, before its last task begins, too: named from a delay of 1 % of it on.

    The other tasks begin before: rt-app starts a thread every 0.1 to 4 ms.
    """
    file = tmp_path / "late.json"
    for delay_us, named in ((300_000, r"include the first 0\.3\d* s \(3[01] %\)"), (9_000, "")):
        late = {**LOAD["tasks"]["t"], "delay": delay_us}
        file.write_text(json.dumps({**LOAD, "tasks": {**LOAD["tasks"], "late": late}}))
        shown = " ".join(run("run", str(file), "-m", "juno-r2", "-o", str(tmp_path / f"{delay_us}")).stdout.split())
        assert re.search(named or "Assumed", shown)
        assert ("until all tasks have begun" in shown) == bool(named)


def test_the_time_that_a_program_takes_to_start_its_threads_is_named(tmp_path: Path) -> None:
    """200 threads take a third of a second, which is as long as a short run: half of its tasks never began."""
    file = tmp_path / "many.json"
    task = {"loop": -1, "run": 100, "instance": 200, "timer": {"ref": "unique", "period": 20000}}
    file.write_text(json.dumps({"global": {"duration": 1}, "tasks": {"many": task}}))
    policy = opplab.Policy(governor="schedutil", variation="rt-app")
    one = opplab.simulate(opplab.Machine.load("juno-r2"), opplab.Workload.load(file), policy, seconds=1, seed=1)
    begins = one.events("sched_switch").group_by("next").agg(pl.col("time_ns").min()).sort("time_ns")["time_ns"]
    begun_s = max(begins) / 1e9
    words = ("run", str(file), "-m", "juno-r2", "--iterations", "1")
    for seconds, named in (
        (1, "energy and misses include the first"),
        (0.15, "some tasks never begin: the last would after"),
    ):
        folder = str(tmp_path / f"{seconds}")
        shown = " ".join(run(*words, "--seconds", str(seconds), "-o", folder).stdout.split())
        found = re.search(f"{named} ([0-9.]+) s", shown)
        assert found, shown
        assert float(found[1]) == pytest.approx(begun_s, rel=0.02)
    shown = run("choose", str(file), "-m", "juno-r2", "--seconds", "1", "--uncertainty", "0").stdout
    assert "energy and misses include the first 0.3" in " ".join(shown.split())
    none = run(*words, "--variation", "none", "--seconds", "1", "-o", str(tmp_path / "none")).stdout
    assert "begun" not in none


def test_response_times_of_several_periods_are_named(tmp_path: Path) -> None:
    """The 99th percentile of a service was that of the batch work beside it."""
    task = {"loop": -1, "run": 1000, "timer": {"ref": "unique", "period": 20000}}
    tasks = {"query": task, "batch": {**task, "run": 50000, "timer": {"ref": "unique", "period": 200000}}}
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"global": {"duration": 1}, "tasks": tasks}))
    words = "response times are of tasks of periods from 20 to 200 ms together"
    shown = run("run", str(file), "-m", "juno-r2", "-o", str(tmp_path / "out")).stdout
    assert words in " ".join(shown.split())
    chosen = run("choose", str(file), "-m", "juno-r2", "--seconds", "0.5", "--uncertainty", "0").stdout
    assert words in " ".join(chosen.split())


def test_without_power_everything_else_is_shown(load: Path, tmp_path: Path) -> None:
    """Energy is unknown and said to be; files that are announced are there."""
    text = opplab.Machine.load("juno-r2").to_toml()
    import re

    bare = re.sub(r"((busy_|cluster_)?uw) = \d+", r"\1 = 0", text)
    (tmp_path / "bare.toml").write_text(bare)
    done = run("run", str(load), "-m", str(tmp_path / "bare.toml"), "--seconds", "0.1", "-o", str(tmp_path / "out"))
    assert "energy is unknown" in " ".join(done.stdout.split())
    assert "missed, %" in done.stdout
    assert "0.0 mJ" not in done.stdout
    for name in ("tables.txt", "run.html", "report.html"):
        assert (tmp_path / "out" / name).exists()
    assert "missed, %" in (tmp_path / "out/tables.txt").read_text()


def test_variants_are_policies_of_their_own() -> None:
    base, slow, both = with_variants(
        {"tunables": {"rate_limit_us": "500"}}, ["governor=ondemand", "hz=1000 kernel=5.18"]
    )
    assert dict(slow.keys) == {"governor": "ondemand"}, "another governor does not have this one's tunables"
    assert both.keys["hz"] == 1000
    assert both.keys["tunables"] == base.keys["tunables"]
    # A comma before a key ends a value; within one it belongs to it.
    given = with_variants({}, ["governor=ondemand,isolcpus=[0,1],hz=1000", "proposal=headroom:percent=110,x=1"])
    assert [one.label for one in given[1:]] == ["ondemand isolcpus=[0,1] hz=1000", "headroom:percent=110,x=1"]
    assert given[1].keys["isolcpus"] == (0, 1)
    for wrong, words in (
        ("gouvernor=ondemand", "no key `gouvernor`; did you mean `governor`"),
        ("governor=schedutil", "there already"),
        ("up_threshold=40", "is a tunable of ondemand and conservative, and the variant's governor is schedutil"),
        ("governor", "write it like"),
    ):
        with pytest.raises(opplab.InputError, match=words):
            with_variants({}, [wrong])


def test_a_variant_may_have_changes_of_a_run() -> None:
    """Commas and blanks within brackets split nothing: a limit was "a string", and a governor not known."""
    change = "changes=[{at_ms=1000, scaling_max_freq=800000}, {at_ms=1500,governor='powersave'}]"
    own = ({"at_ms": 1000, "scaling_max_freq": 800000}, {"at_ms": 1500, "governor": "powersave"})
    for text in (f"{change},hz=1000", f"hz=1000 {change}"):
        made = with_variants({"governor": "performance"}, [text])[1]
        assert made.keys == {"governor": "performance", "changes": own, "hz": 1000}
        assert change in made.label


def test_a_baseline_is_named_by_the_options_that_variants_change() -> None:
    given = {"governor": "powersave", "epp": "performance", "kernel": "6.6", "gates": {"menu_timers": "always"}}
    base, power, old, _ = with_variants(given, ["epp=power", "kernel=5.10", "menu_timers=long-sleeps"])
    assert base.label == "powersave epp=performance kernel=6.6 menu_timers=always"
    assert (power.label, old.label) == ("epp=power", "kernel=5.10")
    assert with_variants(given, ["hz=1000"])[0].label == "powersave", "what all have names none"
    both = with_variants({"governor": "powersave,performance", "kernel": "6.6"}, ["kernel=5.10"])
    assert [one.label for one in both] == ["powersave kernel=6.6", "performance kernel=6.6", "kernel=5.10"]


def test_places_in_generated_files_are_not_shown(tmp_path: Path) -> None:
    words = ["run", "tbench", "-m", "skylake-8x-uma", "--seconds", "0.01", "-o", str(tmp_path / "out")]
    done = called(*words)
    assert done.exit_code != 0
    assert "experiment.toml" not in f"{done.output}{done.exception}"


def test_a_setting_without_effect_is_named(load: Path, tmp_path: Path) -> None:
    """The Juno has no energy performance preference: +0.0 % [+0.0, +0.0] looked like a measured result."""
    words = ("--vs", "epp=power", "--vs", "governor=performance", "--seconds", "0.2", "-o", str(tmp_path / "out"))
    shown = " ".join(run("run", str(load), "-m", "juno-r2", *words).stdout.split())
    assert "epp=power changes nothing here: its runs are those of schedutil, event for event." in shown
    assert "performance changes nothing" not in shown


@pytest.mark.parametrize(
    ("number", "words"),
    [(3, None), (4, "Nor does 1 more setting change anything."), (5, "Nor do 2 more settings change anything.")],
)
def test_one_more_setting_is_one(number: int, words: str | None) -> None:
    lines = [
        Line("m", "w", f"v{at}", "base", 1, {"energy": 1.0}, {"energy": Change(0.0, certainty(None, None, n=1))})
        for at in range(number)
    ]
    found = _finding(Answer("", "", lines, {"energy": ("J", "lower")}, same=lines), None)
    assert found.endswith(words) if words else "Nor do" not in found


def test_misses_of_the_start_are_named_where_longer_runs_would_have_a_smaller_share(tmp_path: Path) -> None:
    file = tmp_path / "late.json"
    # A task that a big CPU finishes in time, but not at the clock and the place that it starts with.
    task = {"loop": -1, "run": 9000, "timer": {"ref": "unique", "period": 16000}}
    file.write_text(json.dumps({"tasks": {"late": task}, "global": {"duration": 1, "calibration": "CPU1"}}))
    words = ("run", str(file), "-m", "juno-r2", "--iterations", "2", "--set", "variation=none")
    shares = []
    for seconds in ("1", "3"):
        folder = tmp_path / seconds
        shown = " ".join(run(*words, "--seconds", seconds, "-o", str(folder)).stdout.split())
        assert "all misses of schedutil are in the first 0.2 s, when load tracking starts from 0" in shown
        table = pl.read_parquet(folder / "results.parquet")
        first = table.filter(metric="missed_at_start")["value"]
        assert first.to_list() == table.filter(metric="missed_activations")["value"].to_list()
        shares.append(first.mean())
    assert 0 < shares[1] < shares[0]
    file.write_text(file.read_text().replace("9000", "2000"))
    never = run(*words, "--seconds", "1", "-o", str(tmp_path / "never")).stdout
    assert "in the first 0.2 s" not in " ".join(never.split())
    # A run without one counts in a mean over the runs.
    table = pl.read_parquet(tmp_path / "never" / "results.parquet")
    assert table.filter(metric="missed_at_start")["value"].to_list() == [0.0, 0.0]
    # A share of nothing is not known.
    file.write_text(json.dumps({"tasks": {"busy": {"loop": 5, "run": 900}}, "global": {"calibration": "CPU1"}}))
    run(*words, "--seconds", "1", "-o", str(tmp_path / "none"))
    assert pl.read_parquet(tmp_path / "none" / "results.parquet").filter(metric="missed_at_start").is_empty()


def test_run_and_choose_count_the_same_as_assumed(load: Path, tmp_path: Path) -> None:
    """`run` counted source marks: one of 19 where the change depended on a number that has a range and no mark."""
    how = ("-m", "juno-r2", "--seconds", "0.1", "--iterations", "2")
    shown = " ".join(run("run", str(load), *how, "-o", str(tmp_path / "out")).stdout.split())
    (ranged,) = re.findall(r"Assumed: (\d+) numbers of juno-r2 with a range and \d+ source marks without[.;]", shown)
    chosen = run("choose", str(load), *how, "--governor", "schedutil,performance", "--uncertainty", "3").stdout
    assert f"Assumed: {ranged} numbers, drawn 3 times" in chosen
    model = ("run", "tbench", "-m", "skylake-8x-uma", "--seconds", "0.51", "--iterations", "2", "-o")
    assert "1 constant of its benchmark models" in " ".join(run(*model, str(tmp_path / "model")).stdout.split())


def test_the_reason_of_a_start_s_misses_is_the_governor_s_that_ran(tmp_path: Path) -> None:
    """Under HWP the clock is the firmware's, which reads no load tracking: any half-life has the same events."""
    file = tmp_path / "light.json"
    task = {"loop": -1, "run": 2500, "timer": {"ref": "unique", "period": 16667}}
    file.write_text(json.dumps({"tasks": {"ui": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    words = ("run", str(file), "-m", "kaby-lake-i7-7500u", "--governor", "powersave", "--set", "epp=power")
    shown = " ".join(run(*words, "--vs", "pelt_half_life_ms=8", "-o", str(tmp_path / "out")).stdout.split())
    assert "pelt_half_life_ms=8 changes nothing here" in shown
    assert "all misses of powersave and pelt_half_life_ms=8 are in the first 0.2 s: longer runs" in shown


def test_cpus_that_stay_in_the_idle_state_of_the_start_are_named(load: Path, tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    task = {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}, "cpus": [3]}
    file.write_text(json.dumps({"tasks": {"one": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    words = ("run", str(file), "-m", "juno-r2", "--seconds", "1", "--kernel")
    stays, goes = (
        " ".join(run(*words, kernel, "-o", str(tmp_path / kernel)).stdout.split()) for kernel in ("4.16", "4.17")
    )
    assert "% of the CPU time of schedutil is in the idle state that CPUs took first, shallow" in stays
    assert "took first" not in goes


def test_the_idle_states_of_the_start_are_named_by_the_rule_of_the_governor(tmp_path: Path) -> None:
    """ladder climbs by four long sleeps a state, haltpoll goes no deeper than its second state after any run."""
    file = tmp_path / "one.json"
    task = {"loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}, "cpus": [3]}
    file.write_text(json.dumps({"tasks": {"one": task}, "global": {"duration": 1, "calibration": "CPU0"}}))
    about = ("-m", "skylake-8x-uma", "--seconds", "1", "--iterations", "2", "--governor", "performance")
    vs = ("--vs", "idle_governor=ladder", "--vs", "idle_governor=haltpoll")
    folder = tmp_path / "out"
    shown = " ".join(run("run", str(file), *about, *vs, "-o", str(folder)).stdout.split())
    found = re.findall(r"[^.;]*CPU time of [^:;]*", shown)
    assert len(found) == 1, found
    assert (
        "of idle_governor=ladder is in idle states of the start, which their governor leaves after 4 long" in found[0]
    )
    compared = " ".join(run("compare", str(folder)).stdout.split())
    assert "% of the CPU time of idle_governor=ladder is in idle states of the start: longer runs" in compared
    words = ("choose", str(file), *about, "--idle-governor", "menu,ladder,haltpoll", "--uncertainty", "0")
    chosen = " ".join(run(*words).stdout.split())
    assert "% of the CPU time of ladder is in idle states of the start, which" in chosen
    assert "% of the CPU time of haltpoll" not in chosen


def test_a_proposal_that_no_policy_reaches_is_named(load: Path, tmp_path: Path) -> None:
    def told(*words: str) -> str:
        folder = tmp_path / str(len(words))
        common = ("run", str(load), "-m", "juno-r2", "--seconds", "0.3", "-o", str(folder))
        done = answered(*common, *words, columns=200)
        return " ".join(done.stdout.split())

    expected = "proposal teo-util does nothing without idle governor teo"
    assert expected in told("--vs", "proposal=teo-util")
    assert "does nothing" not in told("--set", "idle_governor=teo", "--vs", "proposal=teo-util")


def test_draws_that_do_unlike_work_are_compared_by_work() -> None:
    """Goal: energy of draws that lose work is no saving. Method: equal means, intervals of different ends."""

    def answer(high: float, *, drawn: bool) -> Answer:
        known = {
            metric: Change(7.0, Certainty(6.5, end, "", is_clear=True))
            for metric, end in (("energy", high), ("energy_per_work", 9.6))
        }
        lines = [
            Line("m", "w", "a", "", 3, {"energy": 1.0, "energy_per_work": 1.0}, {}),
            Line("m", "w", "b", "a", 3, {"energy": 1.07, "energy_per_work": 1.07}, known),
        ]
        return Answer("", "", lines, {"energy": ("J", "lower"), "energy_per_work": ("", "lower")}, drawn=drawn)

    assert answer(32.6, drawn=True).compared()[0] == ["energy", "energy_per_work"]
    assert answer(9.7, drawn=True).compared()[0] == answer(32.6, drawn=False).compared()[0] == ["energy"]


def test_columns_of_words_stand_left_and_a_note_in_brackets_may_break() -> None:
    """Goal: words read from the left, and a phone has room for the table. Method: a setting, a change without runs."""
    row = {
        "type": "a",
        "setting": "performance",
        "best in": "62 %",
        "change": "-1.5 % [needs 3 runs]",
        "n": "+1 % [-2, 3]",
    }
    page = block._table([row], 1)
    assert "<td>performance</td><td class=n>62&nbsp;%</td>" in page
    assert "<th>setting</th><th class=n>best in</th>" in page
    assert "[needs 3 runs]" in page
    assert "[-2,&nbsp;3]" in page


def test_tasks_that_share_a_timer_are_named_with_their_load() -> None:
    def task(own: bool) -> dict[str, object]:
        return {"phases": [["", 2500000, 10000000]], "ops": [["timer", 0, 10000000, False, own]]}

    assert shared_timers({"tasks": [task(own=True)] * 12}) == []
    assert shared_timers({"tasks": [task(own=False), task(own=True)]}) == []
    (note,) = shared_timers({"tasks": [task(own=False)] * 12})
    assert note.startswith("12 tasks share a timer of 10 ms")
    assert "25 % of a CPU, not 300 %" in note
    assert "25 % of a CPU, not 12000 %" in shared_timers({"tasks": [task(own=False)] * 480})[0]
    odd = {**task(own=False), "phases": [["a", 1000, 10000000], ["b", 2000, 10000000]]}
    assert "load" not in shared_timers({"tasks": [odd, odd]})[0]


def test_the_load_of_a_shared_timer_is_given_only_where_it_is_that_of_the_cycle(tmp_path: Path) -> None:
    """20 runs of 4 ms at a shared timer of 8 ms, then 700 ms of sleep: by hand 16 % of a CPU, and not 50 %."""
    timer = {"ref": "shared", "period": 8000}
    work, rest = {"loop": 20, "run": 4000, "timer": timer}, {"loop": 1, "sleep": 700000}
    note = "2 tasks share a timer of 8 ms: one of them is due each time"
    # In each cycle of both there are 40 turns of 8 ms with 4 ms of work each, and the sleep.
    cases = (({"work": work, "rest": rest}, "", 4 * 40 / (8 * 40 + 700)), ({"work": work}, "their load is 50 %", 0.5))
    for phases, load, share in cases:
        tasks = {"t": {"instance": 2, "loop": -1, "phases": phases}}
        file = tmp_path / "load.json"
        file.write_text(json.dumps({"global": {"duration": 1, "calibration": "CPU0"}, "tasks": tasks}))
        out = tmp_path / f"{len(phases)}"
        words = ("-m", "juno-r2", "--governor", "performance", "--iterations", "1", "--seconds", "20", "--no-report")
        shown = answered("run", file, *words, "-o", out, columns=400).stdout
        assert note in shown
        assert load in shown
        assert ("their load" in shown) == bool(load)
        busy_s = results.read(out).filter(pl.col("metric").str.starts_with("task_time:"))["value"].sum()
        assert busy_s / 20 == pytest.approx(share, rel=0.15)


def test_tasks_of_several_periods_that_share_a_timer_are_due_as_often_as_named(tmp_path: Path) -> None:
    """The run is the judge: each of the tasks is activated once in the sum of their periods, whichever its own is."""
    for periods_us in ((33000, 33000, 5000), (10000, 20000, 40000)):
        tasks = {
            f"t{at}": {"loop": -1, "run": 1000, "timer": {"ref": "tick", "period": period_us}}
            for at, period_us in enumerate(periods_us)
        }
        file = tmp_path / "shared.json"
        file.write_text(json.dumps({"tasks": tasks}))
        words = ("-m", "sm8250", "--governor", "performance", "--variation", "none", "--iterations", "1")
        done = run("run", str(file), *words, "--seconds", "4", "-o", str(tmp_path / str(periods_us[0])))
        said = re.search(
            r"3 tasks share a timer of \d+ to \d+ ms: each is due once in the sum of their periods, (\d+) ms, "
            r"so that their load is ([\d.]+) % of a CPU, not ([\d.]+) %",
            " ".join(done.stdout.split()),
        )
        assert said is not None
        policy = opplab.Policy(governor="performance", variation="none")
        made = opplab.simulate("sm8250", opplab.Workload.load(file), policy, seconds=4)
        counted = made.events("activation").group_by("task").len()["len"].to_list()
        assert len(counted) == 3
        assert all(abs(4000 / int(said[1]) - each) < 1 for each in counted)
        assert float(said[2]) == pytest.approx(sum(counted) * 1000 / 4e6 * 100, rel=0.03)
        assert float(said[3]) == pytest.approx(100 * sum(1000 / period_us for period_us in periods_us), rel=1e-2)
