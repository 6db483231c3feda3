"""The README's commands and code work as they are written."""

import re
from pathlib import Path

import pytest

from opplab.cli.main import COMMANDS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_commands_exist() -> None:
    blocks = "".join(re.findall(r"^```$(.*?)^```$", README, re.MULTILINE | re.DOTALL))
    named = set(re.findall(r"^opplab (\w+)", blocks, re.MULTILINE))
    assert named
    assert named <= set(COMMANDS)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z]+)\b", README, re.MULTILINE)) <= targets


def test_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    quick = code.replace('load("juno-eas")', 'load("juno-eas", iterations=1, seconds=0.05)')
    assert quick != code
    names: dict[str, object] = {}
    exec(compile(quick, "README.md", "exec"), names)
    assert (tmp_path / "run.pftrace").stat().st_size > 0
    assert names["results"]["source"].unique().to_list() == ["sim"]  # type: ignore[index]


def test_files_that_it_names_are_there() -> None:
    for name in re.findall(r"\]\((\w+\.md)\)", README):
        assert (ROOT / name).is_file(), name


def test_the_package_shows_itself_without_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a package index shows has no links into the repository, and its code runs."""
    text = (ROOT / "python" / "README.md").read_text()
    assert not re.findall(r"\]\((?!https?://)", text)
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "python/README.md", "exec"), {})
    assert (tmp_path / "run.html").stat().st_size > 0


def test_its_score_is_that_of_the_scoreboard() -> None:
    """One fact: docs/agreement.md, which `verify published` writes, and the pages that quote it."""
    lines = (ROOT / "docs/agreement.md").read_text().splitlines()
    head = next(line.split(" | ") for line in lines if line.startswith("| text |"))
    row = dict(zip(head, next(line for line in lines if line.startswith("| all |")).split(" | "), strict=True))
    own, null = row["median error"].removesuffix(" %"), row["null's"].removesuffix(" %")
    for page in (README, *((ROOT / name).read_text() for name in ("docs/index.md", "LIMITATIONS.md"))):
        score = next(line for line in page.splitlines() if "Against " in line and " published " in line)
        assert score.split("Against ")[1].split()[0] == row["cells"]
        assert re.findall(r"median error is (\d+\.\d)|misses by (\d+\.\d)", score) == [(own, ""), ("", null)]
    assert f"Of the {row['of']} changes beyond their own spread, {row['sign']} have the right sign" in README
