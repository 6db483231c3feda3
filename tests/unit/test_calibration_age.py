"""Calibrations know the model that they were fitted to."""

from pathlib import Path

import pytest

from opplab import catalog
from opplab.agreement import calibration
from opplab.errors import InputError
from opplab.sweep import fitted


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
