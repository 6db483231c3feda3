"""Builds the pages that compute in the browser into a folder: ``python tools/make_pages.py FOLDER``.

Needs Rust's target ``wasm32-unknown-unknown``; reports it and ends with status 3 where it is missing.
``wasm-opt`` (binaryen) is used where it is.
"""

from __future__ import annotations

import base64
import gzip
import html
import json
import shutil
import string
import subprocess
import sys
from pathlib import Path

from opplab import _opplab

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "crates" / "wasm" / "web"
TARGET = "wasm32-unknown-unknown"
MISSING = 3
# What rustc's target has by default, which old binaryens do not assume.
FEATURES = ("bulk-memory", "mutable-globals", "nontrapping-float-to-int", "sign-ext", "reference-types", "multivalue")


def has_target() -> bool:
    """Whether Rust can compile for the browser here."""
    command = ["rustc", "--print", "target-libdir", "--target", TARGET]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode == 0 and any(Path(done.stdout.strip()).glob("libcore-*"))


def module() -> bytes:
    """Compile the module, and make it smaller where binaryen is."""
    folder = ROOT / "target" / "wasm"
    command = ["cargo", "build", "--quiet", "--locked", "--profile", "wasm", "--target", TARGET, "--lib"]
    subprocess.run([*command, "-p", "opplab-wasm", "--target-dir", str(folder)], cwd=ROOT, check=True)
    built = folder / TARGET / "wasm" / "opplab_wasm.wasm"
    if shutil.which("wasm-opt"):
        small = built.with_suffix(".opt.wasm")
        features = [f"--enable-{name}" for name in FEATURES]
        done = subprocess.run(
            ["wasm-opt", "-O3", *features, str(built), "-o", str(small)], check=False, capture_output=True
        )
        if done.returncode == 0:
            built = small
    return built.read_bytes()


def pages() -> list[dict[str, object]]:
    """What the crate states of its pages."""
    command = ["cargo", "run", "--quiet", "--locked", "--release", "-p", "opplab-wasm", "--bin", "opplab-page"]
    done = subprocess.run([*command, "--", "pages"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def make(folder: Path, home: str) -> int:
    """Write the pages; `home` is the link to the site's first page. The compressed size of the module comes back."""
    folder.mkdir(parents=True, exist_ok=True)
    packed = gzip.compress(module(), 9, mtime=0)
    text = base64.b64encode(packed).decode()
    # A script: pages opened from disk may not fetch a file beside them.
    (folder / "lab.wasm.js").write_text(f'globalThis.OPPLAB_WASM = "{text}";\n', encoding="ascii")
    for name in ("lab.js", "lab.css"):
        shutil.copy(WEB / name, folder / name)
    template = string.Template((WEB / "page.html").read_text(encoding="utf-8"))
    found = pages()
    for page in found:
        here = {page["name"]: ' aria-current="page"'}
        links = "".join(f'<a href="{one["name"]}.html"{here.get(one["name"], "")}>{one["title"]}</a>' for one in found)
        words = {key: html.escape(str(page[key])) for key in ("name", "title", "question")}
        whole = template.substitute(words, links=links, home=home, version=_opplab.__version__)
        (folder / f"{page['name']}.html").write_text(whole, encoding="utf-8")
    return len(packed)


def main() -> int:
    """Write the pages into the folder that the command line names."""
    if not has_target():
        print(f"no pages that compute: Rust's target {TARGET} is not installed", file=sys.stderr)
        return MISSING
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "out" / "lab"
    size = make(folder, sys.argv[2] if len(sys.argv) > 2 else "../index.html")
    print(f"wrote {folder}; the module has {size:,} bytes compressed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
