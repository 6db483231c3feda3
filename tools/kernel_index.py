"""Write docs/kernel-index.md: where each cited function of Linux is in the crates, and what is not ported.

    python tools/kernel_index.py [--check]

The index is made from the doc comments: `FILE:FUNCTION(), VERSION` above a Rust item names of which kernel function it
is the port. A citation in a comment inside a function counts for that function. tools/not_ported.toml lists functions
that a reader may look for and that nobody ported, with the reason. A gate touches a function if its Rust item names the
gate, or if the gate's text names the function.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = "docs/kernel-index.md"
# The pages that compute in the browser; what their texts cite is what they show.
BROWSER = "crates/wasm/src/pages"
PROFILE = "crates/kernel/src/profile.rs"
NOT_PORTED = "tools/not_ported.toml"

# Programs that run on Linux are modelled here, and cited in the same form.
MODELS = "crates/model/src/benchmark"

# Where a file of the kernel is that comments call by its last name alone.
FOLDERS = {
    "arch/x86/kernel/acpi": ["cppc.c"],
    "arch/x86/kernel/cpu": ["aperfmperf.c"],
    "drivers/acpi": ["cppc_acpi.c"],
    "drivers/base": ["arch_topology.c"],
    "drivers/cpufreq": [
        "amd-pstate.c",
        "acpi-cpufreq.c",
        "cppc_cpufreq.c",
        "cpufreq.c",
        "cpufreq_conservative.c",
        "cpufreq_governor.c",
        "cpufreq_ondemand.c",
        "cpufreq_performance.c",
        "cpufreq_powersave.c",
        "cpufreq_userspace.c",
        "freq_table.c",
        "intel_pstate.c",
    ],
    "drivers/cpuidle": ["cpuidle.c", "poll_state.c"],
    "drivers/cpuidle/governors": ["gov.h", "haltpoll.c", "ladder.c", "menu.c", "teo.c"],
    "drivers/opp": ["of.c"],
    "kernel/power": ["energy_model.c"],
    "kernel/sched": [
        "clock.c",
        "core.c",
        "cpudeadline.c",
        "cpufreq_schedutil.c",
        "cpupri.c",
        "deadline.c",
        "fair.c",
        "features.h",
        "idle.c",
        "pelt.c",
        "pelt.h",
        "rt.c",
        "sched.h",
        "syscalls.c",
        "topology.c",
    ],
    "fs": ["exec.c"],
    "kernel/time": ["tick-sched.c", "timer.c", "hrtimer.c"],
}
FOLDER_OF = {name: folder for folder, names in FOLDERS.items() for name in names}
# No files of Linux.
FOREIGN = {"turbostat.c"}

NAME = r"`?(?:[A-Za-z_]\w+)\(\)`?"
FILE_CITED = re.compile(rf"([\w./-]+\.[chS]):\s?({NAME}(?:(?:,| and|, and) {NAME})*)")
BARE_CITED = re.compile(rf"({NAME}(?:(?:,| and|, and) {NAME})*)[,;] v\d")
FUNCTION = re.compile(r"([A-Za-z_]\w+)\(\)")
VERSION = re.compile(r"\b(v\d+\.\d+(?:\.\d+)?|(?:android|msm|android-msm-coral)-4\.14)\b")
ITEM = re.compile(
    r"^(?P<indent> *)(?:pub(?:\([\w ]+\))? )?(?:const |unsafe |async )*"
    r"(?P<kind>fn|struct|enum|trait|const|static|type|mod) (?P<name>\w+)"
)
IMPL = re.compile(r"^impl(?:<.*?>)? (?:(?:.*) for )?(?P<name>\w+)")
GATE = re.compile(r'^    (\w+): (\w+), "')


@dataclass
class Item:
    """A Rust item: where it is, and the text of its comments and its body."""

    path: str
    name: str
    doc: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)

    @property
    def comments(self) -> str:
        """The doc comment and the comments of the body as one line."""
        inside = [line.split("//", 1)[1] for line in self.body if line.lstrip().startswith("//")]
        return " ".join(" ".join([*self.doc, *inside]).split())


@dataclass
class Entry:
    """What the index has on one kernel function."""

    versions: set[str] = field(default_factory=set)
    places: list[tuple[str, str]] = field(default_factory=list)
    gates: set[str] = field(default_factory=set)
    reason: str = ""
    pages: set[str] = field(default_factory=set)


def items(path: Path) -> tuple[str, list[Item]]:
    """Give a file's module comment and its items; tests are left out."""
    lines = path.read_text().split("\n")
    crate = path.relative_to(ROOT / "crates").parts[0]
    module = [part for part in path.relative_to(ROOT / "crates" / crate / "src").with_suffix("").parts if part != "mod"]
    prefix = "::".join([crate, *(part for part in module if part != "lib")])
    head = " ".join(line[3:].strip() for line in lines if line.startswith("//!"))
    found: list[Item] = []
    doc: list[str] = []
    owner = ""
    nr = 0
    while nr < len(lines):
        line = lines[nr]
        if line == "mod tests {":
            break
        stripped = line.strip()
        if stripped.startswith("///"):
            doc.append(stripped[3:].strip())
        elif owned := IMPL.match(line):
            owner = owned["name"]
            doc = []
        elif line == "}":
            owner = ""
        elif item := ITEM.match(line):
            inside = owner if item["indent"] else ""
            name = "::".join(part for part in (prefix, inside, item["name"]) if part)
            one = Item(path.relative_to(ROOT).as_posix(), name, doc)
            doc = []
            found.append(one)
            if item["kind"] == "trait" and not item["indent"]:
                owner = item["name"]
            elif item["kind"] in {"fn", "struct", "enum"} and not line.rstrip().endswith((";", "}")):
                end = item["indent"] + "}"
                while (
                    nr + 1 < len(lines)
                    and lines[nr] != end
                    and not lines[nr].startswith((end + " ", end + ",", end + ";"))
                ):
                    one.body.append(lines[nr])
                    nr += 1
            else:
                one.body.append(line)
        elif not stripped.startswith(("#[", "//", "]", ")]")):
            doc = []
        nr += 1
    return head, found


def kernel_path(name: str, where: str) -> str:
    """Give a kernel file's whole path."""
    if "/" in name:
        return name
    if name not in FOLDER_OF:
        raise SystemExit(
            f"{where}: which folder of Linux is {name} in? Name it there, or in FOLDERS of tools/kernel_index.py"
        )
    return f"{FOLDER_OF[name]}/{name}"


def gates() -> tuple[dict[str, str], dict[str, set[str]]]:
    """Give what in code stands for a gate (by name), and the gates whose texts name a function (by function)."""
    text = (ROOT / PROFILE).read_text()
    table = text[text.index("\ngates! {") : text.index("pub const PROFILES")]
    tokens: dict[str, str] = {}
    named: dict[str, set[str]] = defaultdict(set)
    gate = ""
    for line in table.split("\n"):
        if head := GATE.match(line):
            gate = head[1]
            tokens[f".{gate}"] = tokens[head[2]] = gate
        for function in FUNCTION.findall(line):
            named[function].add(gate)
    # The forms in which algorithms take a gate, each in the algorithm's file: `-> Option<UtilEstForm>` of a function
    # over `self.util_est`.
    sources = [file.read_text() for file in sorted((ROOT / PROFILE).parent.rglob("*.rs"))]
    text = "\n".join(re.findall(r"^impl KernelProfile \{\n.*?^\}", "\n".join(sources), re.DOTALL | re.MULTILINE))
    for method in re.finditer(
        r"pub fn (\w+)\(&self.*?\) -> (?:Option<)?(\w+Form)>?.*?\{(.*?)\n    \}", text, re.DOTALL
    ):
        for used in re.findall(r"self\.(\w+)", method[3]):
            tokens[method[2]] = used
    sugov = re.search(r"SugovGates \{\n(.*?)\n        \}", text[text.index("pub fn sugov_gates") :], re.DOTALL)
    for own, used in re.findall(r"^            (\w+): (?:match )?self\.(\w+)", sugov[1] if sugov else "", re.MULTILINE):
        tokens[f"gates.{own}"] = used
    return tokens, named


def index() -> dict[str, dict[str, Entry]]:
    """Collect the index: by kernel file, by function."""
    entries: dict[str, dict[str, Entry]] = defaultdict(lambda: defaultdict(Entry))
    tokens, named = gates()
    patterns = [(re.compile(rf"(?:\b|(?=\.)){re.escape(token)}\b"), gate) for token, gate in tokens.items()]
    for path in sorted((ROOT / "crates").glob("*/src/**/*.rs")):
        if path.is_relative_to(ROOT / MODELS):
            continue
        head, found = items(path)
        at_home = FILE_CITED.search(head)
        for item in found:
            comments, code = item.comments, "\n".join(item.body)
            cited: list[tuple[str, str]] = []
            for file, functions in FILE_CITED.findall(comments):
                if file not in FOREIGN:
                    cited += [(kernel_path(file, item.path), function) for function in FUNCTION.findall(functions)]
            if at_home and item.path.startswith(("crates/kernel", "crates/sim")):
                home = kernel_path(at_home[1], item.path)
                known = {function for _, function in cited}
                for functions in BARE_CITED.findall(comments):
                    cited += [(home, function) for function in FUNCTION.findall(functions) if function not in known]
            touching = {gate for pattern, gate in patterns if pattern.search(code)}
            for file, function in dict.fromkeys(cited):
                entry = entries[file][function]
                entry.versions |= set(VERSION.findall(comments))
                entry.places.append((item.name, item.path))
                entry.gates |= touching | named.get(function, set())
    for path in sorted((ROOT / BROWSER).glob("*.rs")):
        text = path.read_text().split("\nmod tests {")[0]
        if name := re.search(r'Page \{\n    name: "([\w-]+)"', text):
            for file, functions in FILE_CITED.findall(text):
                for function in FUNCTION.findall(functions):
                    entries[kernel_path(file, path.name)][function].pages.add(name[1])
    listed = tomllib.loads((ROOT / NOT_PORTED).read_text())
    for file, reasons in listed.items():
        for reason, functions in reasons.items():
            for function in functions:
                entry = entries[file][function]
                if entry.places:
                    raise SystemExit(f"{NOT_PORTED}: {file}:{function}() is ported, as {entry.places[0][0]}")
                entry.reason = reason
    return entries


def same_name(function: str, places: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The places that bear the function's name first."""
    return sorted(places, key=lambda place: (place[0].rsplit("::", 1)[-1] != function.lstrip("_"), place))


def page() -> str:
    """Give the page's text."""
    entries = index()
    ported = sum(bool(entry.places) for functions in entries.values() for entry in functions.values())
    absent = sum(not entry.places for functions in entries.values() for entry in functions.values())
    out = [
        "# Where Linux's functions are",
        "",
        "Written by `python tools/kernel_index.py` (`make docs`) from the citations in the crates' comments and from "
        f"`{NOT_PORTED}`; do not edit. {ported} functions are cited, {absent} are listed as not ported. A function "
        "that is in neither list was not looked at.",
        "",
        "A Rust item that bears the kernel function's name is that function; the comment of any other one names its "
        "part. *try it* leads to the page of the site that computes with it while you drag. *Gates* are the version "
        "gates of `crates/kernel/src/profile.rs` that touch it.",
    ]
    for file in sorted(entries):
        out += ["", f"## {file}", "", "| function | Rust | as in | gates |", "| --- | --- | --- | --- |"]
        for function, entry in sorted(entries[file].items()):
            if entry.places:
                rust = ", ".join(f"[`{name}`](../{path})" for name, path in same_name(function, entry.places))
            else:
                rust = f"not ported: {entry.reason}"
            pages = "".join(f' (<a href="../lab/{name}.html">try it</a>)' for name in sorted(entry.pages))
            versions = ", ".join(
                sorted(entry.versions, key=lambda version: [int(n) for n in re.findall(r"\d+", version)])
            )
            out.append(f"| `{function}`{pages} | {rust} | {versions} | {', '.join(sorted(entry.gates))} |")
    return "\n".join(out) + "\n"


def main() -> int:
    """Write the page, or compare it with what is there."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is not up to date")
    check = parser.parse_args().check
    text, path = page(), ROOT / PAGE
    if check:
        if not path.is_file() or path.read_text() != text:
            print(f"{PAGE} is not what the crates have: run `python tools/kernel_index.py`", file=sys.stderr)
            return 1
        return 0
    path.write_text(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
