"""The commands of README and of the pages that show them without their output run as they are written.

Tutorials, how-tos, tours and notebooks have tests of their own, which also look at what is printed.
"""

import json
import re
import shutil
from pathlib import Path

import pytest

import opplab
from opplab.studies import tutorials

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
TOURS = ("a-wake-up.md", "deadline.md", "why-this-cpu.md")

# So that a command takes seconds, and what a page calls "yours": (pattern, what stands there instead).
INSTEAD = [
    (r"^sudo ", ""),
    (r"--iterations \d+", ""),
    (r"--seconds \d+", ""),
    (r"--uncertainty 64", "--uncertainty 2"),
    (r"^(opplab run \S+\.json .*)", r"\1 --iterations 2 --seconds 0.2"),
    (r"^(opplab run (?:juno-eas|mine\.toml)\b.*)", r"\1 --iterations 2 --seconds 0.05"),
    (r"^(opplab run hwp-boost-gpu\b.*)", r"\1 --iterations 1 --seconds 1.2"),
    (r"^(opplab run --machine .*)", r"\1 --seconds 0.2"),
    (r"^(opplab choose .*)", r"\1 --iterations 2 --uncertainty 2 --seconds 0.2"),
    (r"^(opplab verify published)$", r"\1 juno-eas --quick"),
    (r"--for \d+s", "--for 200ms"),
    (r"--at 1\.2s|--at 1s", "--at 10ms"),
    (r"verify traces DIR\.\.\.", "verify traces ../shared/traces/arm64-612-juno-eas-homog6"),
    (r"verify vectors PATH\.\.\.", "verify vectors ../shared/vectors/amd_pstate_init.csv.gz"),
    (r"SOURCE\.\.\.|RESULTS", "work/log"),
    (r"--runs a,b", "--runs 5.9.0-ondemand,5.9.0-perfgov"),
    (r"run\.tar\.zst", "../shared/traces/arm64-612-juno-eas-homog6"),
]
# What is not run, and why.
NOT_RUN = {
    r"opplab host govern": "needs root and a real cpufreq; make host-test runs it",
    r"opplab host record": "needs root and tracefs; make host-test runs it",
    r"opplab run juno-eas .*--dask tcp": "needs a cluster; tests/unit/test_dask.py runs one",
    r"opplab run juno-eas .*--dask local": "tests/unit/test_dask.py runs it",
}


def _lines() -> list[tuple[str, str]]:
    found = []
    for file in [ROOT / "README.md", ROOT / "python" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        if file.name in TOURS:
            continue
        name, text = str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")
        if file.name == "README.md":
            found += [(name, cell) for cell in re.findall(r"^\| .*\| `(opplab [^`]+)`", text, re.MULTILINE)]
        for block in re.findall(r"```(?:console|sh|bash|)\n(.*?)```", text, re.DOTALL):
            for line in block.splitlines():
                if match := re.match(r"(?:\$ )?((?:sudo )?opplab .*)", line):
                    command = re.sub(r"\s+# .*| +#$", "", match[1])
                    # `opplab list machines|governors` is two commands.
                    words = command.split(" ")
                    many = next(
                        (place for place, word in enumerate(words) if re.fullmatch(r"[\w-]+(\|[\w-]+)+", word)), 0
                    )
                    for one in words[many].split("|") if many else [""]:
                        found.append((name, " ".join([*words[:many], one, *words[many + 1 :]]) if many else command))
    return found


LINES = _lines()


def _furnish(folder: Path) -> None:
    """Put there what pages take for granted: workloads, a trace, results."""
    task = {"instance": 2, "run": 2000, "timer": {"ref": "unique", "period": 16000}}
    for name in ("load", "service", "frames", "ui"):  # A page that speaks of my.json makes it.
        (folder / f"{name}.json").write_text(json.dumps({"tasks": {"rt-app": task}}), encoding="utf-8")
    run = opplab.simulate("juno-r2", opplab.Workload.load(folder / "load.json"), seconds=0.5)
    run.to_trace(folder / "trace.dat")
    given = ROOT / "tests" / "data" / "mmtests-golden" / "given" / "results"
    for name in ("work/log", "machine-a/work/log", "machine-b/work/log"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).symlink_to(given)
    fio = {"fio version": "fio-3.33", "jobs": [{"jobname": "j", "read": {"iops": 100.0, "bw": 400, "total_ios": 9}}]}
    for name in ("old", "new"):
        (folder / f"{name}.json").write_text(json.dumps(fio), encoding="utf-8")
    if SHARED.is_dir():
        (folder.parent / "shared").symlink_to(SHARED)
        shutil.copy(SHARED / "data" / "pepc" / "adl0.tar.xz", folder)
        (folder / "stats").symlink_to(SHARED / "data" / "stats-collect" / "tests" / "data" / "results" / "good")


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in LINES))
def test_commands_run(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    box = tutorials.Sandbox(folder)
    _furnish(folder)
    if page == "docs/comparing.md":
        box.shell("opplab run juno-eas --iterations 2 --seconds 0.05 -o out/sweep")
    failed = []
    for command in [command for name, command in LINES if name == page]:
        if any(re.match(pattern, command.removeprefix("sudo ")) for pattern in NOT_RUN):
            continue
        for pattern, instead in INSTEAD:
            command = re.sub(pattern, instead, command)  # noqa: PLW2901
        if re.search(r"\.\./shared|adl0", command) and not SHARED.is_dir():
            continue
        try:
            box.shell(command)
        except RuntimeError as error:
            failed.append(str(error))
    assert not failed, "\n".join(failed)


def test_what_is_not_run_is_still_written_somewhere() -> None:
    for pattern in NOT_RUN:
        assert any(re.match(pattern, command.removeprefix("sudo ")) for _, command in LINES), pattern
    assert len(LINES) > 50
