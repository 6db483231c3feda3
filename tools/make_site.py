"""Builds the documentation site into ``out/site``: reference pages and the gallery made by the program, then Sphinx.

``python tools/make_site.py``; needs the extra ``docs``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import make_pages
import make_perfetto
from option_table import option_rows

from opplab.cli.list import rows_of
from opplab.cli.reference import EXIT_CODES, markdown, pages
from opplab.report.text import render_table

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
OUT = ROOT / "out" / "site"
MADE = "Made by the program itself: `make site` writes it anew.\n\n"

PYTHON_API = (
    ("Runs", "opplab", ("Machine", "Workload", "Policy", "Run", "simulate")),
    ("Sweeps and comparisons", "opplab", ("Experiment", "compare", "read_mmtests")),
    ("Traces and explanations", "opplab", ("Trace", "read_trace", "explain")),
    ("Policies in Python", "opplab.policies", ("Governor", "GovernorFacts", "GovernorCpu", "Placement")),
    (
        "Errors",
        "opplab.errors",
        ("OpplabError", "InputError", "FormatError", "CaseError", "CheckError", "InternalError"),
    ),
)
LISTS = (
    (
        "policy-keys",
        "Keys of a policy",
        "For `[[policy]]` and `[defaults]` of a file, `opplab.Policy` and `--set`.",
    ),
    (
        "profile-keys",
        "Power profiles",
        "Settings of TLP, tuned, auto-cpufreq and power-profiles-daemon that change a run, with `--vs FILE` or "
        "`--vs power-profiles-daemon`. All others are ignored with a note: disks, radios, graphics, platform profiles "
        "and devices are not simulated. A key of TLP that is commented out has TLP's default: the preference is "
        "`balance_performance` on AC, `balance_power` on battery and `power` as power-saver, the rest is the kernel's.",
    ),
    ("metrics", "Metrics", "What is measured in a run; CLUSTER and the like stand for names of the machine."),
    ("gates", "Gates", "What differs between kernel versions; `gates` of a policy, or `--gate`, overrides one."),
    ("tunables", "Tunables", "What can be set of each governor: `tunables` of a policy, or `--tunable`."),
    ("drivers", "Drivers", "cpufreq drivers: `driver` of a policy and of machines."),
    ("parameters", "Parameters of benchmarks", "The benchmark models and what can be set of each."),
    ("experiments", "Experiments", "What is built in; `opplab run NAME` runs it."),
    ("events", "Events", "Tables that `run.events(NAME)` gives."),
)


def reference() -> None:
    """Write the pages of the reference."""
    folder = DOCS / "reference"
    folder.mkdir(exist_ok=True)
    found = pages()
    (folder / "commands.md").write_text(markdown(found), encoding="utf-8")
    codes = "\n".join(f"| {code} | {words} |" for code, words in EXIT_CODES)
    table = render_table(option_rows(found), "markdown")
    (folder / "options.md").write_text(
        f"# Options and exit codes\n\n{MADE}Which command has which of the options that several have, and why not.\n\n"
        f"{table}\n| exit code | |\n| --- | --- |\n{codes}\n",
        encoding="utf-8",
    )
    for kind, title, about in LISTS:
        table = render_table(rows_of(kind), "markdown")
        (folder / f"{kind}.md").write_text(f"# {title}\n\n{MADE}{about}\n\n{table}", encoding="utf-8")
    index = DOCS / "kernel-index.md"
    if index.is_file():
        text = index.read_text(encoding="utf-8")
        if not make_pages.has_target():
            text = re.sub(r' \(<a href="\.\./lab/.*?</a>\)', "", text)
        (folder / "kernel-index.md").write_text(text, encoding="utf-8")
    # Pages that the index does not name are found all the same.
    named = set(re.findall(r"^[\w/-]+$", (DOCS / "index.md").read_text(encoding="utf-8"), re.MULTILINE))
    others = [file.stem for file in sorted(DOCS.glob("*.md")) if file.stem not in {*named, "index", "kernel-index"}]
    (folder / "more.md").unlink(missing_ok=True)
    if others:
        entries = "".join(f"../{name}\n" for name in others)
        text = f"# More pages\n\n```{{toctree}}\n{entries}```\n"
        (folder / "more.md").write_text(text, encoding="utf-8")
    lines = [f"# Python\n\n{MADE}"]
    for title, module, names in PYTHON_API:
        lines.append(f"## {title}\n")
        for name in names:
            kind = "autofunction" if name[0].islower() else "autoexception" if name.endswith("Error") else "autoclass"
            members = "" if kind != "autoclass" else "\n:members:"
            lines.append(
                f"```{{eval-rst}}\n.. {kind}:: {module}.{name}{members.replace(chr(10), chr(10) + '   ')}\n```\n"
            )
    lines.append("## Kernel algorithms\n\n```{eval-rst}\n.. automodule:: opplab.kernel\n   :members:\n```\n")
    (folder / "python.md").write_text("\n".join(lines), encoding="utf-8")


def gallery(folder: Path) -> None:
    """Make the pages of the gallery."""
    folder.mkdir(parents=True, exist_ok=True)
    work = folder.parent.parent / "site-work"
    shutil.rmtree(work, ignore_errors=True)

    def opplab(*words: str) -> None:
        subprocess.run([sys.executable, "-m", "opplab", *words], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)

    opplab("run", "juno-eas", "--iterations", "2", "-o", str(work / "eas"))
    shutil.copy(work / "eas" / "report.html", folder / "report.html")
    opplab("workload", "new", "load", "--seconds", "1", "-o", str(work / "load.json"))
    opplab("run", str(work / "load.json"), "-m", "juno-r2", "-o", str(work / "one"))
    shutil.copy(work / "one" / "run.html", folder / "run.html")
    results = "tests/data/mmtests-golden/given/results"
    opplab("compare", results, "--table", "overview", "--html", str(folder / "compare.html"))
    opplab("machine", "show", "epyc-7742-2s", "--html", str(folder / "machine.html"))
    shutil.rmtree(work)


def main() -> int:
    """Build the site; warnings are errors."""
    reference()
    for name in ("browser.md", "exercises.md"):
        (DOCS / "reference" / name).unlink(missing_ok=True)
    extra = ROOT / "out" / "site-extra"
    gallery(extra / "gallery")
    make_perfetto.make(extra / "perfetto")
    shutil.rmtree(extra / "lab", ignore_errors=True)
    if make_pages.has_target():
        make_pages.make(extra / "lab", "../index.html")
        link = '- <a href="../lab/{name}.html">{title}</a>: {question}'
        lines = [link.format(**page) for page in make_pages.pages()]
        words = "# In the browser\n\nPages that compute while you drag a slider. The link holds all settings.\n\n"
        (DOCS / "reference" / "browser.md").write_text(words + "\n".join(lines) + "\n", encoding="utf-8")
        shutil.copy(make_pages.WEB / "exercises.md", DOCS / "reference" / "exercises.md")
    else:
        print(f"the site has no pages that compute: Rust's target {make_pages.TARGET} is not installed")
    environment = {**os.environ, "OPPLAB_SITE_EXTRA": str(extra)}
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-j", "auto"]
    done = subprocess.run([*command, str(DOCS), str(OUT)], check=False, env=environment)
    if done.returncode == 0:
        print(f"wrote {OUT.relative_to(ROOT)}/index.html")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
