"""Calibrations know the model that they were fitted to."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import opplab
from opplab import catalog
from opplab.agreement import calibration
from opplab.choice.cases import program_of
from opplab.choice.settings import Setting
from opplab.cli.options import load_of
from opplab.errors import InputError
from opplab.simulation import fitted
from opplab.sweep.experiments import Experiment

from calls import answered


def test_a_fit_to_a_changed_model_is_refused_with_the_command_that_fits_it_again(tmp_path: Path) -> None:
    file = catalog.find("calibration", "dbench@epyc-7742-2s")
    text = file.read_text()
    fitted.check(text, file)
    old = text.replace(fitted.fingerprint("dbench"), "0" * 12)
    with pytest.raises(InputError, match="opplab calibrate dbench epyc-7742-2s"):
        fitted.check(old, tmp_path / "dbench.toml")


def test_models_have_fingerprints_of_their_own() -> None:
    assert len({fitted.fingerprint(name) for name in ("dbench", "sqlite", "tbench", "kernbench")}) == 4


def test_the_list_has_every_calibration_with_its_state() -> None:
    rows = calibration.listing()
    assert [row["name"] for row in rows] == list(catalog.names("calibration"))
    assert {row["model"] for row in rows} <= {"as fitted", "unknown"}
    assert all(row["residual %"] >= 0 for row in rows)


def test_a_fit_that_does_not_say_its_model_is_named_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = catalog.find("calibration", "dbench@epyc-7742-2s").read_text()
    unstamped = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("model = "))
    for _ in range(2):
        fitted.check(unstamped, tmp_path / "dbench.toml")
    said = capsys.readouterr().err
    assert said.count("has no fingerprint of its model") == 1
    assert "opplab calibrate dbench epyc-7742-2s" in said


def test_the_sqlite_of_the_skylake_is_of_the_model_of_today() -> None:
    (row,) = [row for row in calibration.listing() if row["name"] == "sqlite@skylake-8x-uma"]
    assert row["model"] == "as fitted"


def test_every_command_runs_a_calibrated_benchmark_on_the_disk_of_its_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Goal: the fit's own case has the fit's numbers; another disk that is asked for is that disk, with its times."""
    machine = "skylake-8x-uma"
    (first, *_) = Experiment.load("hwp-boost-sqlite", iterations=1).cases
    fit = json.loads(first.json)["workload"]["devices"]

    def devices_of(*params: str) -> tuple[object, object]:
        words = ("run", "sqlite", "-m", machine, "--seconds", "1.1", "--iterations", "1", *params)
        out = tmp_path / "-".join(("out", *params)).replace("=", "-")
        answered(*words, "-o", out, "--no-report")
        (case,) = Experiment.load(out / "experiment.toml").cases
        load = load_of("sqlite", params[1::2])
        chosen = program_of(machine, load, seconds=1.1, seeds=[1], keys={}).bases[0]["workload"]["devices"]
        return json.loads(case.json)["workload"]["devices"], chosen

    assert devices_of() == (fit, fit)
    assert "with the disk of their fit, disk=nvme-plp disk_us=10 disk_flush_us=10" in capsys.readouterr().err
    given, chosen = devices_of("--param", "disk=rotary")
    assert given == chosen != fit
    assert max(device[0] for device in given) > 4_000_000, "half a turn in ns"
    assert devices_of("--param", "disk=rotary", "--param", "disk_us=10")[0] != given
    free = {
        name for _, name in Experiment.load(tmp_path / "out---param-disk-rotary/experiment.toml").constants().values
    }
    assert not {name for name in free if name.startswith("disk")}


@pytest.mark.parametrize(
    ("machine", "name", "params", "seconds"),
    [
        ("epyc-7742-2s", "tbench", {"clients": 4}, 0.7),
        ("juno-r2", "hackbench", {"groups": 1}, None),
        ("sm8250", "hackbench", {"groups": 1, "loops": 200}, None),
        ("broadwell-80x-numa", "dbench", {"clients": 2, "disk": "nvme"}, 1.2),
    ],
    ids=["fitted there", "to its end", "not fitted there", "on another disk"],
)
def test_a_run_in_python_has_every_row_of_the_command(
    machine: str, name: str, params: dict[str, int | str], seconds: float | None, tmp_path: Path
) -> None:
    """`simulate` took the model's own constants, measured no latencies, and left the parameters out of `param`."""
    words = [word for key, value in params.items() for word in ("--param", f"{key}={value}")]
    length = () if seconds is None else ("--seconds", str(seconds))
    answered(
        "run", name, "-m", machine, "--iterations", "1", "--no-report", "-o", str(tmp_path / "out"), *words, *length
    )
    commands = pl.read_parquet(tmp_path / "out" / "results.parquet").drop("experiment")
    run = opplab.simulate(machine, opplab.Workload.benchmark(name, **params), seconds=seconds)
    ours = pl.DataFrame(run.metrics).drop("experiment")
    assert ours.equals(commands)
    assert "latency_p99" in ours["metric"].to_list()
    assert set(ours["param"]) == {" ".join(f"{key}={value}" for key, value in params.items())}


@pytest.mark.parametrize("value", [[1, 2], True, 1.5, None, float("nan"), {}])
def test_a_parameter_of_a_run_has_one_value(value: object) -> None:
    """Of a list `simulate` silently took the first."""
    with pytest.raises(InputError, match=r"hackbench with groups=.*: give one whole number, or a name"):
        opplab.Workload.benchmark("hackbench", groups=value)  # type: ignore[arg-type]
    given = opplab.Workload.benchmark("hackbench", groups=np.int64(2))  # type: ignore[arg-type]
    assert given == opplab.Workload.benchmark("hackbench", groups=2)


def test_draws_of_constants_are_of_the_same_point() -> None:
    """What was drawn has no place in `param`: its runs would be another point's, and the draws without them."""
    load = opplab.Workload.benchmark("tbench", clients=2)
    program = program_of("epyc-7742-2s", load, seconds=0.7, seeds=[1], keys={})
    constants = program.constants(lambda one: one.cases([Setting(())], [""], "none"))
    assert constants is not None
    assert constants.values
    (own,), drawn, (moved,) = (
        program.cases([Setting(())], [""], "none"),
        list(constants.rebuilt(constants.values)),
        list(constants.rebuilt({key: 2 * value for key, value in constants.values.items()})),
    )
    assert [one.json for one in drawn] == [own.json], "the fit's own values"
    assert (moved.machine, moved.benchmark, moved.param) == (own.machine, own.benchmark, "clients=2")
    assert moved.json != own.json
