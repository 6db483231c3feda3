"""Count what may panic in the crates that what users give can reach, and hold the counts to the reviewed list.

``python tools/panics.py`` compares with ``docs/panics.toml``; ``--write`` writes the counts there, and keeps the reasons.
Counted are `unwrap()`, `expect(`, `panic!`, `unreachable!`, `assert!` and its kin, and indexing and slicing, in code that
is no test.  The list has one entry a file: a count that grew, but for indexing, is to be looked at, and its reason written.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
LIST = TOP / "docs/panics.toml"
CRATES = ("host", "import", "meter", "model", "py", "replay", "signals", "stats", "timeline", "trace", "verify")
"""What reads files, or is called by Python with what users gave.  Engine and kernel get validated types."""

KINDS = {
    "unwrap": re.compile(r"\.unwrap\(\)"),
    "expect": re.compile(r"\.expect\("),
    "panic": re.compile(r"\b(?:panic|unreachable|assert|assert_eq|assert_ne)!\("),
    "index": re.compile(r"[\w\)\]]\[(?!\])[^\];]*\]"),
}


def code_of(text: str) -> str:
    """Give a file's code without its tests, comments, attributes and texts."""
    text = re.split(r"(?m)^#\[cfg\(test\)\]\nmod ", text)[0]
    text = re.sub(r"(?m)//.*$", "", text)
    text = re.sub(r"(?m)^\s*#!?\[.*\]$", "", text)
    return re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)


def counts() -> dict[str, dict[str, int]]:
    """Count, by file."""
    found = {}
    for crate in CRATES:
        for file in sorted((TOP / "crates" / crate / "src").rglob("*.rs")):
            if file.name in ("testing.rs", "tests.rs"):
                continue
            code = code_of(file.read_text(encoding="utf-8"))
            here = {kind: len(pattern.findall(code)) for kind, pattern in KINDS.items()}
            if any(here.values()):
                found[str(file.relative_to(TOP / "crates"))] = here
    return found


def reviewed() -> dict[str, dict[str, int | str]]:
    """Give the list."""
    listed: dict[str, dict[str, int | str]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["file"]
    return listed


def grown(found: dict[str, dict[str, int]], listed: dict[str, dict[str, int | str]]) -> list[str]:
    """Report which counts are larger than what was reviewed."""
    wrong = []
    for file, here in found.items():
        known = listed.get(file, {})
        for kind, number in here.items():
            told = known.get(kind, 0)
            # Indexing is counted, and its reason is its crate's; the others are read one by one.
            if kind != "index" and isinstance(told, int) and number > told:
                wrong.append(f"crates/{file}: {number} {kind}, reviewed were {told}")
    return wrong


HEAD = """# What may panic in crates that read what users give: counts of each file (tools/panics.py), and why they stay.
# `opplab` turns a panic into "internal error", a report and exit code 70; none is meant to be reached. The fuzzers (crates
# trace and import, tools/fuzz_cli.py) look for those that can be.

"""


def write(found: dict[str, dict[str, int]]) -> None:
    """Write the list anew, with the reasons that it had."""
    old = reviewed() if LIST.exists() else {}
    parts = []
    for file, here in found.items():
        crate = file.partition("/")[0]
        why = str(old.get(file, {}).get("why", "")) or WHY[crate]
        numbers = ", ".join(f"{kind} = {number}" for kind, number in here.items() if number)
        parts.append(f'"{file}" = {{ {numbers}, why = "{why}" }}\n')
    LIST.write_text(HEAD + "[file]\n" + "".join(parts), encoding="utf-8")


WHY = {
    "host": "numbers of CPUs and policies are those of lists that the same code made; times and texts are parsed with errors",
    "import": "places were found in the same text just before; lists have the lengths that were checked when they were read",
    "meter": "columns of counters have one entry a CPU, made in the same pass",
    "model": "indices are validated when a file becomes a validated type (`file/`, `case.rs`), after that nobody checks again",
    "py": "arrays are of one length by construction; every binding is behind `#[guarded]`",
    "replay": "ids are given by the recovery itself, densely, and only used with the lists that it filled",
    "signals": "CPUs and tasks are numbered as they are met, and the lists grow with them",
    "stats": "empty and short samples are refused or answered before; ranks are below the length",
    "timeline": "the run's own tables: ids are those of its machine and workload",
    "trace": "lengths are compared with what is left before bytes are taken (`bytes.rs`); fuzzed with coverage",
    "verify": "columns are found by name with an error; bounds are those of the arrays that the row gives",
}


def main() -> None:
    """Compare or write."""
    found = counts()
    if "--write" in sys.argv[1:]:
        write(found)
    wrong = grown(found, reviewed())
    total = {kind: sum(here[kind] for here in found.values()) for kind in KINDS}
    print(f"{len(found)} files: " + ", ".join(f"{number} {kind}" for kind, number in total.items()))
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
