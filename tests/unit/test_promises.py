"""Every command keeps its promise: input that it cannot answer from never ends with 0 and no word about it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import fuzz_corpus
import fuzz_words
import pytest

from opplab.cli import main as command_line
from opplab.cli.reference import HOST_COMMANDS

PROMISES = re.findall(r"^\| `([a-z -]+)` \|", (Path(__file__).parents[2] / "RELIABILITY.md").read_text(), re.MULTILINE)
OTHERS = {"verify published", "verify silicon", *(f"host {name}" for name in HOST_COMMANDS)}
"""Those whose input is built in, or that work on the host."""
OF_THE_HOST = ("show", "observe", "govern")
"""What can do with files alone."""


def places_of(name: str) -> list[str]:
    """Give the arguments of a call that answers, as the fuzzer writes them; nothing where there is none."""
    if name not in OTHERS:
        return fuzz_words.PLACES[name][0]
    command = name.removeprefix("host ")
    places = [place for place in fuzz_words.PLACES["host"] if place[0] == f"={command}" and command in OF_THE_HOST]
    return places[0][1:] if places else []


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One whole file or folder of each kind."""
    made = fuzz_corpus.build(tmp_path_factory.mktemp("corpus"))
    chosen = {"trace": "run.pftrace", "table": "results.parquet", "results": "sweep"}
    return {
        kind: next((path for path in paths if path.name == chosen.get(kind)), paths[0]) for kind, paths in made.items()
    }


def empty(path: Path) -> None:
    """Leave nothing of a file, or of all files of a folder."""
    for file in files_of(path):
        file.write_bytes(b"")


def cut(path: Path) -> None:
    """Leave 60 % of a file, and of all files of a folder."""
    for file in files_of(path):
        data = file.read_bytes()
        file.write_bytes(data[: len(data) * 6 // 10])


def garbage(path: Path) -> None:
    """Let words stand where numbers were."""
    for file in files_of(path):
        file.write_bytes(b"garbage, and nothing else\n" * 3)


def partial(path: Path) -> None:
    """Take away what a folder's other files refer to; of a file, the middle."""
    files = files_of(path)
    if len(files) > 1:
        for file in files[:: max(len(files) // 3, 1)]:
            file.unlink()
        return
    data = files[0].read_bytes()
    files[0].write_bytes(data[: len(data) // 3] + data[len(data) * 2 // 3 :])


FAULTS: dict[str, Callable[[Path], None]] = {"empty": empty, "cut": cut, "garbage": garbage, "partial": partial}

# What another file may say as well: of lines and packets that are gone whole nothing is left to see.
UNSEEN = {("cut", "dump"), ("cut", "power")}
UNSEEN |= {("partial", kind) for kind in ("dump", "power", "vectors", "sysfs", "trace")}

CONTRADICTIONS: dict[str, tuple[str, str]] = {
    "machine": ("capacity = 1024", "capacity = 1025"),
    "workload": ('"cpus": [0, 1]', '"cpus": [0, 99]'),
    "experiment": ('baseline = "a"', 'baseline = "zz"'),
    "log": ('"cpus":[0', '"cpus":[0,1,2,3,4,5,6'),
}
"""Of files that people write: a word, and what contradicts the rest of the file or its machine."""


def files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())


def answer(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run the command line; its exit code and what it said."""
    code = 0
    try:
        command_line.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    out, err = capfd.readouterr()
    return code, out, err


def words_of(name: str, corpus: dict[str, Path], folder: Path, spoilt: str, spoil: Callable[[Path], None]) -> list[str]:
    """Give a call of a command with copies of its files; the first of kind `spoilt` is spoilt."""
    words, done = name.split(), False
    for index, place in enumerate(places_of(name)):
        if place.startswith("="):
            words.append(fuzz_words.WORDS.get(place, [place[1:]])[0])
        elif place.startswith("-"):
            words.append(place)
        else:
            target = folder / str(index) / corpus[place].name
            target.parent.mkdir()
            (shutil.copytree if corpus[place].is_dir() else shutil.copy)(corpus[place], target)
            if place == "experiment":
                shutil.copy(corpus[place].parent / "periodic.json", target.parent)
            if place == spoilt and not done:
                spoil(target)
                done = True
            words.append(str(target))
    return words + fuzz_words.FIXED.get(name, [])


CALLS = [(name, place) for name in PROMISES for place in places_of(name) if place[0] not in "=-"]


def test_every_command_has_a_promise() -> None:
    leaves = [name for name in fuzz_words.leaves() if name != "host"]
    assert sorted(PROMISES) == sorted([*leaves, *(f"host {name}" for name in HOST_COMMANDS)])


@pytest.mark.parametrize("name", [name for name in PROMISES if name == "list" or places_of(name)])
def test_whole_input_is_answered(
    name: str,
    corpus: dict[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Goal: the calls below fail for the fault and nothing else."""
    monkeypatch.chdir(tmp_path)
    code, _, err = answer(words_of(name, corpus, tmp_path, "", lambda _: None), capfd)
    # Recordings of the tests have signals outside of their bound, which the command names.
    assert code == ("outside of their stated bound" in err), err


@pytest.mark.parametrize(
    ("name", "kind", "fault"),
    [(name, kind, fault) for name, kind in CALLS for fault in FAULTS if (fault, kind) not in UNSEEN],
)
def test_what_cannot_be_answered_from_is_told(
    name: str,
    kind: str,
    fault: str,
    corpus: dict[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = answer(words_of(name, corpus, tmp_path, kind, FAULTS[fault]), capfd)
    assert code != 70 and "Traceback" not in err, err
    assert code != 0 or err.strip(), f"exit 0 and no note: {out[:2000]}"


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name, kind in CALLS if (name, kind) != ("workload show", "workload") and kind in CONTRADICTIONS],
)
def test_what_contradicts_itself_is_told(
    name: str,
    kind: str,
    corpus: dict[str, Path],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spoil(path: Path) -> None:
        text = path.read_text()
        old, new = CONTRADICTIONS[kind]
        assert old in text
        path.write_text(text.replace(old, new))

    monkeypatch.chdir(tmp_path)
    code, out, err = answer(words_of(name, corpus, tmp_path, kind, spoil), capfd)
    assert code != 70 and "Traceback" not in err, err
    assert code != 0 or err.strip(), f"exit 0 and no note: {out[:2000]}"
