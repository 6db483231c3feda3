"""The commands and the code of README and of the pages run as they are written, in blocks and within sentences.

What they print fits a terminal of 80 columns and has no debug text in it.  Tutorials, how-tos, tours and notebooks have
tests of their own, which also look at what is printed.
"""

import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import click
import pytest

import opplab
from lab.studies import tutorials
from opplab.cli.main import opplab as command_line

import forked

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
    (r"^(opplab run tbench\b.*)", r"\1 --iterations 1 --seconds 0.6"),
    (r"^(opplab run --machine .*)", r"\1 --seconds 0.2"),
    (r"^(opplab choose .*)", r"\1 --iterations 2 --uncertainty 2 --seconds 0.2"),
    (r"^(opplab fleet .*)", r"\1 --iterations 2 --uncertainty 0 --seconds 0.1"),
    (r"^(opplab run web-quota-burst\b.*)", r"\1 --iterations 1 --seconds 0.3"),
    (r"^(opplab verify published)$", r"\1 juno-eas --quick"),
    (r"--for \d+s", "--for 200ms"),
    (r"--at 1\.2s|--at 1s", "--at 10ms"),
    (r"verify traces DIR\.\.\.", "verify traces ../shared/traces/arm64-612-juno-eas-homog6"),
    (r"verify vectors crates/verify/vectors", f"verify vectors {ROOT}/crates/verify/vectors/amd_pstate_init.csv.gz"),
    (r"SOURCE\.\.\.|RESULTS", "work/log"),
    (r"--runs a,b", "--runs 5.9.0-ondemand,5.9.0-perfgov"),
    (r"run\.tar\.zst|\bRECORDING\b", "../shared/traces/arm64-612-juno-eas-homog6"),
    # What sentences leave open.
    (r"\b(TRACE|FILE)\b(?!\.)", "trace.dat"),
    (r"--machine (M|NAME)\b", "--machine juno-r2"),
    (r"^opplab fmax MACHINE", "opplab fmax juno-r2"),
    (r"\bQUERY\b", '"select comm from waits limit 1"'),
    (r"--idle$", "--idle --machine juno-r2"),
    (r"^(opplab (?:replay|trace to-rtapp) trace\.dat(?: -o out\.json)?)$", r"\1 --machine juno-r2"),
    (r"^(opplab meter tasks)$", r"\1 -m juno-r2 --workload load.json --seconds 0.2"),
    (
        r"^opplab run FILE\.json$|^opplab run trace\.dat\.json$",
        "opplab run load.json -m juno-r2 --seconds 0.2 -o out/one",
    ),
    (r"verify traces \.\./shared/traces(/\*)?$", "verify traces ../shared/traces/arm64-612-juno-eas-homog6"),
    (r"verify vectors \.\./shared/vectors ", "verify vectors ../shared/vectors/amd_pstate_init.csv.gz "),
    (r"^(opplab run (?:out|model\.toml|--workload).*)", r"\1 --iterations 2 --seconds 0.2"),
    (r"\btrace_6_12", "../shared/silicon/mt8196-idle/trace_6_12"),
    (r"--sysfs sysfs", "--sysfs ../shared/silicon/mt8196-idle/sysfs"),
]
# What is not run, and why.
NOT_RUN = {
    r"opplab host govern": "needs root and a real cpufreq; make host-test runs it",
    r"opplab host record": "needs root and tracefs; make host-test runs it",
    r"opplab host compare": "needs root, a real cpufreq and a program; test_host_compare.py and crate host run it",
    r"opplab host calibrate": "takes minutes; crate host's calibrate_made.rs, and the tutorial, run it",
    r"opplab host --(ssh|adb)": "needs another machine; test_host_far.py runs it",
    r"opplab machine import DUMP": "test_host_calibrate.py runs it",
    r"opplab host experiment": "needs root and a real cpufreq; test_host_experiment.py runs it",
    r"opplab predict worth\.toml|opplab score sealed": "test_sealed.py runs both with files of its own",
    r"opplab run juno-eas .*--dask tcp": "needs a cluster; tests/unit/test_dask.py runs one",
    r"opplab run juno-eas .*--dask local": "tests/unit/test_dask.py runs it",
    r"opplab verify published (--docs docs|epyc-freq-max)": "takes a quarter of an hour; make agreement runs it",
    r"opplab fit power (TABLE|MACHINE)": "tests/unit/test_fit.py runs it with measurements",
    r"opplab trace --max-unpacked": "a word in place of the rest; the block before has the commands",
    r"opplab trace --max-memory": "the same",
    r"opplab run --machine \.\.\.": "the same",
    r"opplab (compare|predict) MAIL": "tests/unit/test_kernel_robot.py and its neighbours run both with mails",
    r"opplab run EXPERIMENT": "what to put there is said beside it",
}
# What is wider than a terminal of 80 columns, and why.
WIDE = {
    r"--format (json|csv|markdown|toml)": "for programs",
    r"opplab trace events": "the kernel's own lines",
    r"opplab meter turbostat": "turbostat's own table, for programs",
    r"opplab host show": "paths, which cannot be wrapped",
    r"opplab list proposals": "addresses, which are not wrapped",
    r"opplab (choose|fleet)": "commands to copy, which are not wrapped",
}
WIDTH = 80


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


def _spans() -> list[tuple[str, str]]:
    """Give the commands within sentences."""
    found = []
    for file in [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]:
        if {"reference", "journal"} & {*file.parts} or file.name == "CHANGELOG.md":
            continue
        text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        text = (
            re.sub(r"^\| .*\| `opplab [^`]+`.*$", "", text, flags=re.MULTILINE) if file == ROOT / "README.md" else text
        )
        name = str(file.relative_to(ROOT))
        found += [(name, span) for span in re.findall(r"`(opplab [a-z][^`]*)`", text)]
    return found


def _command_of(line: str) -> tuple[click.Command, list[str]]:
    """Give the command that a line names, and the words after it."""
    words, command, context = shlex.split(line)[1:], command_line, click.Context(command_line)
    found: click.Command = command
    while isinstance(found, click.Group) and words and not words[0].startswith("-"):
        inner = found.get_command(context, words[0])
        if inner is None:
            break
        found, words = inner, words[1:]
    return found, words


LINES = _lines()
SPANS = _spans()
# Those that say what to do and not only how a command is called.
LINES += [
    (page, line)
    for page, line in SPANS
    if page.startswith("docs/") and page.count("/") == 1 and Path(page).name not in TOURS and _command_of(line)[1]
]


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
        (folder / "dumps").mkdir()
        (folder / "dumps" / "adl0.tar.xz").symlink_to(SHARED / "data" / "pepc" / "adl0.tar.xz")
        (folder / "stats").symlink_to(SHARED / "data" / "stats-collect" / "tests" / "data" / "results" / "good")


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in LINES))
def test_commands_run(page: str, tmp_path: Path) -> None:
    folder = tmp_path / "place"
    folder.mkdir()
    box = tutorials.Sandbox(folder, WIDTH, forked.words())
    _furnish(folder)
    if page == "docs/comparing.md":
        box.shell("opplab run juno-eas --iterations 2 --seconds 0.05 -o out/sweep")
    failed = []
    for command in [command for name, command in LINES if name == page]:
        if any(re.match(pattern, command.removeprefix("sudo ")) for pattern in NOT_RUN):
            continue
        for pattern, instead in INSTEAD:
            command = re.sub(pattern, instead, command)  # noqa: PLW2901
        if re.search(r"\.\./shared|adl0|dumps/", command) and not SHARED.is_dir():
            continue
        try:
            printed, _ = box.outputs(command)
        except RuntimeError as error:
            failed.append(str(error))
            continue
        lines = printed.splitlines()
        if not any(re.search(pattern, command) for pattern in WIDE):
            failed += [f"$ {command}\n{len(line)} columns: {line}" for line in lines if len(line) > WIDTH]
        failed += [f"$ {command}\ndebug text: {line}" for line in lines if re.search(r"\b[A-Z]\w+ \{ \w+:", line)]
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize(("page", "line"), SPANS)
def test_a_command_in_a_sentence_exists(page: str, line: str) -> None:
    """The command is there, and it has the options."""
    if line.startswith(("opplab COMMAND", "opplab host ")):
        return
    command, words = _command_of(line)
    assert not isinstance(command, click.Group) or not words or words[0].startswith("-"), f"{page}: {line}"
    known = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    used = [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)]
    assert set(used) <= known | {"--help", "--version"}, f"{page}: {line}"


CODE = [
    file
    for file in sorted((ROOT / "docs").glob("*.md"))
    if "```python" in file.read_text(encoding="utf-8") and file.name != "python-policies.md"
]


@pytest.mark.parametrize("file", CODE, ids=lambda file: file.stem)
def test_code_runs(file: Path, tmp_path: Path) -> None:
    """The Python blocks of a page as they are written, each a program of its own."""
    folder = tmp_path / "place"
    folder.mkdir()
    box = tutorials.Sandbox(folder)
    _furnish(folder)
    (folder / "docs").symlink_to(ROOT / "docs")
    for code in re.findall(r"```python\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL):
        box.python(code)


def test_toml_is_toml() -> None:
    found = []
    for file in (ROOT / "docs").rglob("*.md"):
        found += re.findall(r"```toml\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    for text in found:
        tomllib.loads(text)


def test_what_is_not_run_is_still_written_somewhere() -> None:
    for pattern in NOT_RUN:
        assert any(re.match(pattern, command.removeprefix("sudo ")) for _, command in LINES), pattern
    assert len(LINES) > 50
