"""Count the instructions of load tracking updates with callgrind, and fail if they are too many.

Times depend on the machine and its neighbours; instruction counts do not.  The limits are 1.25 times what the kernel's
C takes at -O2 (82 within a period, 160 across one, 116 for random deltas).  The batch is measured for one task of its
256, against 0.4 of the same.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

UPDATES = 4096
ROUNDS = 20
# Case of crates/kernel/benches/pelt.rs, the function that is counted, the kernel's instructions, the factor.
LIMITS = [
    ("se-Within", "se_update", 82, 1.25),
    ("se-Across", "se_update", 160, 1.25),
    ("se-Random", "se_update", 116, 1.25),
    ("cfs-Within", "cfs_update", 82, 1.25),
    ("cfs-Across", "cfs_update", 160, 1.25),
    ("cfs-Random", "cfs_update", 116, 1.25),
    ("batch-Within", "batch_update", 82, 0.4),
    ("batch-Across", "batch_update", 160, 0.4),
    ("batch-Random", "batch_update", 116, 0.4),
]


def build() -> str:
    """Build the bench and give its executable."""
    command = ["cargo", "bench", "--locked", "--quiet", "--no-run", "--message-format=json"]
    command += ["-p", "opplab-kernel", "--bench", "pelt"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    made = [json.loads(line) for line in lines if line.startswith("{")]
    return next(str(one["executable"]) for one in made if one.get("executable"))


def count(executable: str, case: str, function: str) -> float:
    """Give the instructions of one update."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", f"--toggle-collect=*{function}*"]
        subprocess.run([*command, executable, f"one={case}:{ROUNDS}"], check=True, capture_output=True)
        total = re.search(r"^(?:summary|totals): (\d+)", out.read_text(), re.MULTILINE)
    if not total or int(total[1]) == 0:
        raise SystemExit(f"callgrind counted no instruction of {function}")
    return int(total[1]) / (ROUNDS * UPDATES)


def main() -> int:
    """Count all cases."""
    if not shutil.which("valgrind"):
        print("skipped: bench-instructions needs valgrind (Debian: apt-get install valgrind)")
        return 0
    executable = build()
    failed = False
    print(f"{'instructions of one update':28} {'counted':>8} {'limit':>8} {'kernel':>8}")
    for case, function, kernel, factor in LIMITS:
        counted = count(executable, case, function)
        over = counted > kernel * factor
        failed |= over
        print(f"{case:28} {counted:8.1f} {kernel * factor:8.1f} {kernel:8} {'TOO MANY' if over else ''}".rstrip())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
