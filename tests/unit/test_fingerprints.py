"""The release build under the package gives the fingerprints that the debug build of crate sim's tests gives."""

from pathlib import Path

import opplab
from opplab import _opplab

DATA = Path(__file__).parents[1] / "data"


def test_fingerprints_are_those_of_every_build() -> None:
    golden = (DATA / "fingerprints.txt").read_text().splitlines()
    lines = []
    for case in opplab.Experiment.load(DATA / "fingerprints.toml").cases:
        name = f"{case.machine} {case.policy} {case.benchmark} {case.param}".rstrip()
        fingerprint = _opplab.Case.from_json(case.json).run(False)["fingerprint"]
        lines.append(f"{fingerprint:016x} {name}")
    assert lines == golden, "if crate sim's test agrees with the file, debug and release builds differ"
