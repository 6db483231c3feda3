"""Fits of benchmark models to baselines: which there are, and whether they are of the models of today."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from opplab import _opplab, catalog
from opplab.errors import InputError
from opplab.files import read_text, toml_of
from opplab.report.start import in_words

_told: set[Path] = set()
"""Files without a fingerprint that were named already."""


def fingerprint(benchmark: str) -> str:
    """Give the fingerprint of a benchmark model: of its parameters' names and own values."""
    params = {name["name"]: name["params"] for name in _opplab.benchmarks()}.get(benchmark, [])
    own = sorted((str(param["name"]), str(param["default"])) for param in params)
    return hashlib.sha256(repr(own).encode()).hexdigest()[:12]


def is_of_today(data: Mapping[str, Any]) -> bool:
    """Report whether a calibration is of its model's present form, or names none."""
    known = data.get("fit", {}).get("model")
    return known is None or bool(known == fingerprint(str(data.get("benchmark"))))


def check(text: str, path: Path) -> None:
    """Refuse a calibration of a model whose parameters are others today; warn where a file does not name its model."""
    data = toml_of(text, str(path))
    benchmark, fitted = data.get("benchmark"), data.get("fit", {})
    if not isinstance(benchmark, str) or not isinstance(fitted, dict):
        return
    if "model" not in fitted:
        # Once a file and process: an experiment is loaded many times.
        if path not in _told:
            _told.add(path)
            again = f"opplab calibrate {benchmark} {data.get('machine', 'MACHINE')}"
            words = f"calibration {path.stem} has no fingerprint of its model; check it with `{again}`"
            print(f"opplab: {words}", file=sys.stderr)
        return
    if fitted["model"] != fingerprint(benchmark):
        raise InputError(
            f"{path} is fitted to a model of {benchmark} that has changed since (opplab {fitted.get('opplab', '?')}): "
            f"fit it again to its baseline with `opplab calibrate {benchmark} {data.get('machine', 'MACHINE')}`"
        )


def as_start(text: str, path: Path) -> str:
    """Give a calibration as the start of a new fit: where the model has changed, the constants that are left."""
    data = toml_of(text, str(path))
    benchmark = data.get("benchmark", "")
    if is_of_today(data):
        return text
    known = {one["name"] for model in _opplab.benchmarks() if model["name"] == benchmark for one in model["params"]}
    values = [f"{name} = {json.dumps(value)}" for name, value in data.get("values", {}).items() if name in known]
    head = [f"{key} = {json.dumps(data[key])}" for key in ("format", "benchmark", "machine") if key in data]
    model = f"model = {json.dumps(data['fit']['model'])}"
    return "\n".join([*head, "[values]", *values, "[fit]", model, ""])


def fit_of(benchmark: str, machine: str) -> tuple[str, Path, str] | None:
    """Give the calibration of a benchmark on a machine: its name, its file and its text; None if there is none."""
    name = f"{benchmark}@{machine}"
    if name not in catalog.names("calibration"):
        return None
    path = catalog.find("calibration", name)
    text = read_text(path, "a calibration")
    check(text, path)
    return name, path, text


def constants_on(benchmark: str, machine: str, given: Collection[str] = ()) -> tuple[str | None, dict[str, int | str]]:
    """Give the calibration of a benchmark on a machine and its constants, with a line on standard error.

    Without those that are `given`; one that names a disk has that disk's times, not the fit's.
    """
    found = fit_of(benchmark, machine)
    if found is None:
        print(f"opplab: {benchmark} is not calibrated on {machine}: its constants are the model's own", file=sys.stderr)
        return None, {}
    name, path, text = found
    left_out = "disk" if "disk" in given else " "
    fitted = toml_of(text, str(path))["values"].items()
    values = {key: value for key, value in fitted if key not in given and not key.startswith(left_out)}
    of_disk = " ".join(f"{key}={value}" for key, value in values.items() if key.startswith("disk"))
    disk = f" with the disk of their fit, {of_disk}" if of_disk else ""
    print(
        f"opplab: {benchmark} uses the constants calibrated on {machine}{disk} (opplab calibrate --show {name})",
        file=sys.stderr,
    )
    return name, values


def with_calibration(params: dict[str, Any], benchmark: str, machines: Sequence[str]) -> dict[str, Any]:
    """Add the calibration of a benchmark, if there is one, to the keys of an experiment's workload.

    Raises
    ------
    InputError
        If one of several machines has constants of its own, as a workload has one set of them.
    """
    fits = [name for name in machines if f"{benchmark}@{name}" in catalog.names("calibration")]
    if len(machines) > 1 and fits:
        raise InputError(
            f"{benchmark} has constants of its own on {in_words(fits)}: run it on each machine apart, with -o "
            f"{benchmark}-NAME; `opplab compare {' '.join(f'{benchmark}-{name}' for name in machines)}` shows them all"
        )
    found = [constants_on(benchmark, name, params)[0] for name in machines]
    return params if found[0] is None else {"calibration": found[0], **params}
