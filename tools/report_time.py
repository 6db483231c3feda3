"""How long a report of 12 panels takes from a cold command line, and how large it is; limits: 3 s and 6 MB.

Usage: python tools/report_time.py
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

GIVEN = Path(__file__).parents[1] / "tests" / "data" / "mmtests-golden" / "given" / "results"
BENCHMARKS = ("kernbench:Elapsed", "tbench:tput", "dbench:tput", "hackbench-process-pipes")


def main() -> int:
    """Print seconds and bytes; the exit code is 1 beyond the limits."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        command = [sys.executable, "-m", "opplab.cli.main", "compare", str(GIVEN), "--table", "overview"]
        for name in BENCHMARKS:
            command += ["-b", name]
        start = time.monotonic()
        before = os.times().children_user
        subprocess.run([*command, "--html", str(page)], check=True, capture_output=True)
        seconds = time.monotonic() - start
        cpu = os.times().children_user - before
        panels = page.read_text().count("<svg")
        size = page.stat().st_size
    print(f"{panels} panels: {seconds:.2f} s ({cpu:.2f} s of CPU), {size / 1000:.0f} kB")
    return int(panels < 12 or seconds > 3 or size > 6_000_000)


if __name__ == "__main__":
    sys.exit(main())
