"""Measure a sweep of many tiny cases: seconds of CPU time, seconds, and the most memory in MB.

Nearly all of it is what a sweep costs beside the engine: cases, rows, files, the merged table.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

from opplab import Experiment
from opplab.sweep.template import experiment_text, workload_text
from opplab.sweep.variants import of_governors

GOVERNORS = "schedutil,ondemand,performance,powersave"
TASKS, RUN_US, PERIOD_US, SECONDS = 2, 500, 16_000, 0.05


def main() -> int:
    """Run the sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-folder", action="store_true", help="keep the results in memory")
    asked = parser.parse_args()
    variants = of_governors({"governor": GOVERNORS})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tiny.json").write_text(workload_text(TASKS, RUN_US, PERIOD_US, 1))
        iterations = asked.cases // len(variants)
        text = experiment_text("tiny", "juno-r2", "tiny.json", variants, SECONDS, iterations=iterations)
        (folder / "tiny.toml").write_text(text)
        start = time.monotonic()
        experiment = Experiment.load(folder / "tiny.toml")
        experiment.run(None if asked.no_folder else folder / "out", jobs=asked.jobs)
        seconds = time.monotonic() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{len(experiment.cases)} cases, {asked.jobs} jobs")
    print(f"{used.ru_utime + used.ru_stime:9.1f} s of CPU time, {used.ru_stime:.1f} of it the kernel's")
    print(f"{seconds:9.1f} s")
    print(f"{used.ru_maxrss / 1024:9.0f} MB at most")
    return 0


if __name__ == "__main__":
    sys.exit(main())
