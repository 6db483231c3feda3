"""Count the instructions of what must stay quick with callgrind; more than 2 % above the record fails.

Times depend on the machine and its neighbours; instruction counts do not.  A count is that of one engine event, one
update, one event read or one import.  `tools/instructions.toml` has the record with the compiler that made it: with
another compiler, without valgrind or with another Python the count is skipped, visibly.

A case of the engine has a fingerprint beside its count.  If it differs, the case simulates something else than what was
recorded, and the message states it.  A change that costs states why and moves the record in a commit of its own:
`make bench-instructions RECORD=1`, or `RECORD=CASE` for one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "tools" / "instructions.toml"
TOLERANCE = 0.02

# The crate and its bench, the case of `one=`, and the functions that are counted with what they call.
RUST: list[tuple[str, str, str, tuple[str, ...]]] = [
    *(
        ("sim", "engine", case, ("outcome",))
        for case in ("ping-pong-8", "ping-pong-64", "ping-pong-256", "ping-pong-4096", "juno-10", "juno-50")
    ),
    ("sim", "engine", "tbench-epyc", ("outcome", "select_task_rq", "newidle_balance")),
    ("sim", "engine", "tbench-haswell", ("outcome",)),
    *(
        ("kernel", "pelt", f"{kind}-{deltas}", (function,))
        for kind, function in (("se", "se_update"), ("cfs", "cfs_update"), ("batch", "batch_update"))
        for deltas in ("Within", "Across", "Random")
    ),
    *(("kernel", "pelt", f"schedutil-{cpus}", ("schedutil_one",)) for cpus in (1, 8)),
    *(("kernel", "pelt", f"feec-{cpus}", ("place",)) for cpus in (6, 64)),
    *(
        ("trace", "trace", case, ("trace::read",))
        for case in ("trace-dat", "trace-dat-sched", "trace-dat-two-events", "text", "perfetto")
    ),
]
# Instructions of the kernel's own C at -O2 for one update (gcc 12).
KERNEL_C = {"Within": 82, "Across": 160, "Random": 116}
PYTHON = {"import opplab": ["-c", "import opplab"], "opplab --help": ["-m", "opplab", "--help"]}


def label(case: str, functions: tuple[str, ...], function: str) -> str:
    """Give the name of a function's count: the first is the case's own."""
    return case if function == functions[0] else f"{case} {function}"


# The names of all counts, in the order of the record.
NAMES = [*(label(case, functions, function) for *_, case, functions in RUST for function in functions), *PYTHON]


@dataclass(frozen=True)
class Count:
    """Instructions of one unit of work, and what the work was."""

    instructions: float
    work: str = ""


def build() -> dict[str, str]:
    """Build the benches and give their executables by name."""
    command = ["cargo", "bench", "--locked", "--quiet", "--no-run", "--message-format=json"]
    for crate, bench in dict.fromkeys((crate, bench) for crate, bench, _, _ in RUST):
        command += ["-p", f"opplab-{crate}", "--bench", bench]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout.splitlines()
    made = [json.loads(line) for line in lines if line.startswith("{")]
    return {one["target"]["name"]: str(one["executable"]) for one in made if one.get("executable")}


# One form of memcpy and its kin on every x86 machine: the C library chooses by what a CPU has.
PLAIN = "glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX2,-ERMS,-FSRM"


def callgrind(command: list[str], environment: dict[str, str] | None = None) -> tuple[str, str]:
    """Run a command; give its output and the inclusive counts of its functions."""
    environment = {**(os.environ if environment is None else environment), "GLIBC_TUNABLES": PLAIN}
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"]
        ran = subprocess.run([*tool, *command], capture_output=True, text=True, env=environment, check=False)
        if ran.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed under callgrind:\n{ran.stderr}")
        annotate = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", str(out)]
        return ran.stdout, subprocess.run(annotate, check=True, capture_output=True, text=True).stdout


def instructions_of(function: str, annotated: str) -> int:
    """Give the inclusive instructions of a function by the end of its name."""
    name = re.compile(rf"[:>]{function}(?: \[.*)?$")
    counts = [
        int(line[1].replace(",", ""))
        for line in re.finditer(r"^ *([\d,]+) \([^)]*\) +(\S.*)$", annotated, re.MULTILINE)
        if name.search(line[2])
    ]
    if not counts:
        raise SystemExit(f"callgrind counted no instruction of {function}")
    return max(counts)


def count_rust(executable: str, case: str, functions: tuple[str, ...]) -> Iterator[tuple[str, Count]]:
    """Count the functions of one case."""
    printed, annotated = callgrind([executable, f"one={case}"])
    units, _, work = printed.strip().partition(" ")
    for function in functions:
        yield label(case, functions, function), Count(instructions_of(function, annotated) / int(units), work)


def count_python(arguments: list[str]) -> Count:
    """Count what Python takes for `arguments` beyond starting and ending, in thousands."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    environment |= {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(ROOT / "target" / "pycache")}
    totals = []
    for wanted in (arguments, ["-c", "pass"]):
        command = [sys.executable, *wanted]
        # Compiled once, into files that the counted run finds.
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        total = re.search(r"^ *([\d,]+) .*PROGRAM TOTALS", callgrind(command, environment)[1], re.MULTILINE)
        if not total:
            raise SystemExit(f"callgrind counted nothing of {' '.join(wanted)}")
        totals.append(int(total[1].replace(",", "")))
    return Count((totals[0] - totals[1]) / 1000)


def tools() -> dict[str, str]:
    """Give the versions that counts depend on."""
    first = [["rustc", "--version"], ["valgrind", "--version"]]
    said = [subprocess.run(one, check=True, capture_output=True, text=True).stdout.strip() for one in first]
    return {"compiler": said[0], "valgrind": said[1], "python": sys.version.split()[0]}


def judged(recorded: dict[str, Count], counted: dict[str, Count]) -> Iterator[tuple[str, str]]:
    """Give each case with what is wrong with it, or nothing."""
    for name, count in counted.items():
        record = recorded.get(name)
        if record is None:
            yield name, "NOT RECORDED"
        elif count.instructions > record.instructions * (1 + TOLERANCE):
            other = count.work != record.work
            yield name, "TOO MANY, for other work than recorded" if other else "TOO MANY"
        elif count.instructions < record.instructions * (1 - TOLERANCE):
            yield name, "fewer: move the record"
        else:
            yield name, "other work than recorded" if count.work != record.work else ""


def fails(verdict: str) -> bool:
    """Report whether a verdict fails the gate."""
    return verdict.startswith(("TOO MANY", "NOT RECORDED"))


def read_record() -> tuple[dict[str, str], dict[str, Count]]:
    """Give the recorded versions and counts."""
    if not RECORD.is_file():
        return {}, {}
    record = tomllib.loads(RECORD.read_text())
    return record["tools"], {name: Count(**fields) for name, fields in record["counts"].items()}


def write_record(versions: dict[str, str], counts: dict[str, Count]) -> None:
    """Write versions and counts."""
    lines = [
        "# Instructions of one engine event, update or event read, thousands of an import: `make bench-instructions`."
    ]
    lines += ["[tools]", *(f'{name} = "{version}"' for name, version in versions.items()), "", "[counts]"]
    for name in NAMES:
        count = counts[name]
        work = f', work = "{count.work}"' if count.work else ""
        lines.append(f'"{name}" = {{ instructions = {count.instructions:.2f}{work} }}')
    RECORD.write_text("\n".join(lines) + "\n")


def plan(only: str) -> list[Callable[[], list[tuple[str, Count]]]]:
    """Give what there is to count, the longest first."""
    executables = build()
    work: list[Callable[[], list[tuple[str, Count]]]] = []
    for _, bench, case, functions in RUST:
        if only in case:
            work.append(lambda b=bench, c=case, f=functions: list(count_rust(executables[b], c, f)))  # type: ignore[misc]
    for name, arguments in PYTHON.items():
        if only in name:
            work.append(lambda n=name, a=arguments: [(n, count_python(a))])  # type: ignore[misc]
    return work


def main() -> int:
    """Count, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--record", metavar="CASE", help="record the counts of the cases with this in their names; 1: all"
    )
    parser.add_argument("--case", default="", help="count only cases with this in their names")
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        print("skipped: bench-instructions needs valgrind (Debian: apt-get install valgrind)")
        return 0
    versions, recorded = read_record()
    here = tools()
    other = [
        f"{name} {here[name]}, recorded with {versions.get(name)}" for name in here if here[name] != versions.get(name)
    ]
    if other and not arguments.record:
        print(f"skipped: bench-instructions has no record for {'; '.join(other)}")
        return 0
    only = arguments.case if not arguments.record or arguments.record == "1" else arguments.record
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        counted = dict(pair for pairs in pool.map(lambda work: work(), plan(only)) for pair in pairs)
    if arguments.record:
        write_record(here, recorded | counted)
    print(f"{'instructions':32} {'counted':>10} {'recorded':>10} {'ratio':>6} {'of C':>5}")
    verdicts = dict(judged(recorded, counted))
    for name, count in counted.items():
        record = recorded.get(name, Count(0))
        ratio = f"{count.instructions / record.instructions:6.3f}" if record.instructions else f"{'':6}"
        peer = KERNEL_C.get(name.partition("-")[2])
        beside = f"{count.instructions / peer:5.2f}" if peer else f"{'':5}"
        line = f"{name:32} {count.instructions:10.2f} {record.instructions:10.2f} {ratio} {beside} {verdicts[name]}"
        print(line.rstrip())
    return int(not arguments.record and any(fails(verdict) for verdict in verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
