"""Check that everything linked into the extension may be distributed under GPL-2.0-only.

``python tools/licences.py opplab-py`` walks the normal (not dev, not build) dependencies of a crate as
``cargo metadata`` gives them and evaluates each licence expression.  Apache-2.0 alone is not compatible with
GPL-2.0-only; with the LLVM exception, or as one of several choices, it is.  Procedural macros and build scripts are
run, not linked.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

COMPATIBLE = {
    "0BSD",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-1-Clause",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "GPL-2.0-only",
    "GPL-2.0-or-later",
    "ISC",
    "LGPL-2.1-or-later",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}


def compatible(expression: str) -> bool:
    """Evaluate an SPDX expression; the old ``A/B`` means ``A OR B``."""
    tokens = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))

    def either() -> bool:
        value = both()
        while tokens and tokens[0] == "OR":
            tokens.pop(0)
            value |= both()
        return value

    def both() -> bool:
        value = one()
        while tokens and tokens[0] == "AND":
            tokens.pop(0)
            value &= one()
        return value

    def one() -> bool:
        token = tokens.pop(0)
        if token == "(":
            value = either()
            tokens.pop(0)
            return value
        if tokens[:1] == ["WITH"]:
            tokens.pop(0)
            token += f" WITH {tokens.pop(0)}"
        return token in COMPATIBLE

    return either()


def linked(metadata: dict[str, object], root: str) -> list[dict[str, object]]:
    """Give the packages that end up in the binary of the crate `root`."""
    packages = {package["id"]: package for package in metadata["packages"]}  # type: ignore[attr-defined]
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}  # type: ignore[index]
    todo = [key for key, package in packages.items() if package["name"] == root]
    seen: set[str] = set()
    while todo:
        key = todo.pop()
        if key in seen:
            continue
        if any("proc-macro" in target["kind"] for target in packages[key]["targets"]):
            continue
        seen.add(key)
        todo += [dep["pkg"] for dep in nodes[key]["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
    return [packages[key] for key in sorted(seen)]


def main() -> None:
    """Print the verdict; exit 1 if something is not compatible."""
    root = sys.argv[1]
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    packages = linked(json.loads(answer.stdout), root)
    bad = [p for p in packages if not (p["license"] and compatible(str(p["license"])))]
    for package in bad:
        print(f"{package['name']} {package['version']}: {package['license']} does not go with GPL-2.0-only")
    if not packages or bad:
        sys.exit(1)
    print(f"{len(packages)} linked crates, all compatible with GPL-2.0-only")


if __name__ == "__main__":
    main()
