"""Eight questions that people have, each by one command: lines of 80 columns, numbers as in Parquet and Python."""

import csv
import io
import json
import math
import re
from pathlib import Path

import polars as pl
import pytest

import opplab
from opplab import stats
from opplab.policies import GovernorFacts

from calls import answered
from testdata import shared

WIDTH = 80
LOAD = {
    "global": {"duration": 1, "calibration": "CPU0"},
    "tasks": {"t": {"instance": 3, "loop": -1, "run": 3000, "timer": {"ref": "unique", "period": 16000}}},
}
GOLDEN = Path(__file__).parents[1] / "data" / "mmtests-golden" / "given" / "results"


@pytest.fixture
def load(tmp_path: Path) -> Path:
    file = tmp_path / "load.json"
    file.write_text(json.dumps(LOAD))
    return file


def asked(*words: object, form: str = "text") -> str:
    """Run a command in 80 columns; its answer, no line of which is wider."""
    given = [str(word) for word in words] + (["--format", form] if form != "text" else [])
    done = answered(*given, columns=WIDTH)
    # Commands to copy are whole.
    lines = done.stdout.partition("\nto set it:")[0].splitlines()
    assert form != "text" or max(map(len, lines)) <= WIDTH
    return done.stdout


def check_against_parquet(folder: Path, *words: object) -> None:
    """Hold the means and changes of the answer against results.parquet, by hand."""
    text = asked(*words, "-o", folder)
    rows = json.loads(asked(*words, "-o", folder, form="json"))["rows"]
    table = pl.read_parquet(folder / "results.parquet")

    def values(variant: str, metric: str) -> list[float]:
        return table.filter(pl.col("policy") == variant, pl.col("metric") == metric).sort("seed")["value"].to_list()

    compared = [row for row in rows if row["metric"] != "energy_per_work" and row["change_percent"] is not None]
    assert compared
    for row in compared:
        ours, theirs = values(row["variant"], row["metric"]), values(row["baseline"], row["metric"])
        found = stats.compare(theirs, ours, harmonic=row["better"] == "higher", paired=True, resamples=0)
        assert row["change_percent"] == pytest.approx(100 * (found["ratio"] - 1))
        assert row["variant"].split()[0] in text
    for row in rows:
        if row["better"] != "higher" and row["metric"] != "energy_per_work":
            mean = sum(values(row["variant"], row["metric"])) / row["n"]
            assert row["mean"] == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("epyc-7742-2s", ("--governor", "schedutil,ondemand,performance")),  # Which governor for this server?
        ("pixel6", ("--vs", "proposal=headroom:percent=110")),  # What would this patch do to my phone's energy?
        ("juno-r2", ("--vs", "pelt_half_life_ms=8", "--vs", "pelt_half_life_ms=16")),  # A shorter half-life?
        ("skylake-8x-uma", ("--governor", "powersave", "--vs", "epp=power", "--vs", "epp=performance")),  # Which EPP?
    ],
    ids=["governor", "patch", "half-life", "epp"],
)
def test_of_a_machine(tmp_path: Path, load: Path, machine: str, words: tuple[str, ...]) -> None:
    check_against_parquet(tmp_path / "out", "run", load, "-m", machine, *words, "--seconds", "0.3", "--iterations", "3")


def test_mmtests_results_are_different(tmp_path: Path) -> None:
    shown = asked("compare", GOLDEN, "--table", "overview")
    rows = list(csv.DictReader(io.StringIO(asked("compare", GOLDEN, "--table", "overview", form="csv"))))
    times = pl.DataFrame(opplab.read_mmtests(GOLDEN)).filter(pl.col("metric").is_in(["Elapsed", "time"]))
    runs = [row for row in rows if row["group"] == "PERFORMANCE RATIOS" and row["metric"] in ("Elapsed", "time")]
    assert len(runs) == 9
    for row in runs:
        own = times.filter(pl.col("benchmark") == row["operation"])
        means = (
            own.group_by("param", "policy").agg(pl.col("value").mean()).pivot("policy", index="param", values="value")
        )
        ratios = means[row["run"]] / means["5.9.0-ondemand"]
        assert float(row["ratio"]) == pytest.approx(math.exp(ratios.log().mean() or 0.0))
        (line,) = [line for line in _block(shown, row["run"]) if line.startswith(row["operation"])]
        assert line.split()[1] == f"{float(row['ratio']):.2f}"


def _block(shown: str, run: str) -> list[str]:
    """Give the lines of a run's performance ratios."""
    lines = shown.splitlines()
    start = next(number for number, line in enumerate(lines) if line.split()[:1] == [run])
    return lines[start : lines.index("PERFORMANCE-PER-WATT RATIOS", start)]


def test_a_trace_was_slow(tmp_path: Path, load: Path) -> None:
    """The recording is a run, so that how long it was slow is known."""
    trace = tmp_path / "trace.dat"
    run = opplab.simulate("juno-r2", load, opplab.Policy(), seconds=0.5)
    run.to_trace(trace)
    text = " ".join(asked("explain", trace, "-m", "juno-r2", "--why-slow").split())
    whole = json.loads(asked("explain", trace, "-m", "juno-r2", "--why-slow", form="json"))
    found = opplab.explain(trace, why_slow=True, machine=opplab.Machine.load("juno-r2")).findings[0].data
    assert whole["findings"][0]["data"] == found
    assert f"CPUs were busy for {found['busy_ns'] / 1e6:.4g} ms" in text
    metrics = dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))
    busy_s = sum(value for metric, value in metrics.items() if metric.startswith("task_time:"))
    assert opplab.explain(run, why_slow=True).findings[0].data["busy_ns"] == pytest.approx(1e9 * busy_s)
    # The trace's work runs again, from other phases.
    assert found["busy_ns"] == pytest.approx(1e9 * busy_s, rel=0.03)
    missed, activations = re.findall(r"(\S+) of (\d+) activations were missed", text)[0]
    # One whose end falls on the recording's may be in one of them only.
    assert (missed, int(activations)) == (f"{found['missed']:.4g}", pytest.approx(metrics["activations"], abs=1))


def test_a_fleet_of_four_machine_types(tmp_path: Path, load: Path) -> None:
    dumps = [shared(f"data/pepc/{name}.tar.xz") for name in ("genoa0", "icxd0", "adl0", "rome0")]
    words = ("fleet", *dumps, "-w", load, "--seconds", "0.2", "--iterations", "2", "--uncertainty", "0")
    asked(*words, "-o", tmp_path / "out")
    types = json.loads(asked(*words, "-o", tmp_path / "out", form="json"))["commands"]
    assert len(types) == 4


def test_a_governor_of_ones_own(load: Path) -> None:
    class Half(opplab.Governor):
        def update(self, facts: GovernorFacts) -> int:
            return facts.max_khz // 2

    runs = [
        opplab.simulate("juno-r2", load, opplab.Policy(), seconds=0.3, governor=Half()),
        *(
            opplab.simulate("juno-r2", load, opplab.Policy(governor=name), seconds=0.3)
            for name in ("powersave", "performance")
        ),
    ]
    own, low, high = (dict(zip(run.metrics["metric"], run.metrics["value"], strict=True))["energy"] for run in runs)
    assert low < own < high
