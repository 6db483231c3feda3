"""Runs what a build is optimised for: ``maturin build --pgo`` calls it with an instrumented opplab.

Simulated machines of each kind (a phone, a server under HWP, a saturated benchmark), replays and readers, a few seconds
of each.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

CRATES = Path(__file__).resolve().parent.parent / "crates"
RECORDINGS = CRATES / "verify" / "tests" / "data" / "traces"
ARM = RECORDINGS / "arm64-612-juno-eas-fiectr-ramp_up"
X86 = RECORDINGS / "x86-612-xeon16-hw1-schedutil-burst"
COMMANDS: list[list[str | Path]] = [
    ["run", "juno-eas", "--iterations", "1"],
    ["run", "hackbench", "-m", "skylake-8x-uma"],
    ["run", "tbench", "-m", "haswell-48x-numa", "--seconds", "0.6"],
    ["run", "dbench", "-m", "skylake-sp-2s", "--seconds", "1.1"],
    ["replay", ARM, "-m", "juno-r2", "--vs", "governor=ondemand"],
    ["trace", "signals", X86 / "trace.dat"],
    ["trace", "export", X86 / "trace.dat", "-o", "recording.pftrace"],
    ["trace", "export", X86 / "trace.dat", "-o", "recording.txt"],
    ["trace", "sql", "recording.pftrace", "select count(*) from cpu_idle"],
    ["trace", "sql", "recording.txt", "select count(*) from cpu_idle"],
]


def main() -> None:
    """Run the commands in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            done = subprocess.run(
                [sys.executable, "-m", "opplab", *map(str, command)],
                check=False,
                cwd=folder,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                words = " ".join(map(str, command))
                sys.exit(f"tools/train.py: opplab {words}: exit code {done.returncode}\n{done.stderr}")


if __name__ == "__main__":
    main()
