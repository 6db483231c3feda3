"""The tours and the page on policies in Python show what really happens."""

import re
from pathlib import Path

import pytest

from lab.studies import tours

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", tours.TOURS)
def test_tours_are_true(name: str) -> None:
    text = (DOCS / name).read_text()
    assert text.count("$ opplab explain") >= 3
    assert tours.render(text, DOCS) == text, "`make docs` writes the tours anew"


def test_a_tour_that_is_not_true_is_seen() -> None:
    text = (DOCS / tours.TOURS[0]).read_text()
    assert tours.render(text.replace("util_avg ", "util_avg 1", 1), DOCS) == text


def test_policies_in_python_run(capsys: pytest.CaptureFixture[str]) -> None:
    """Every block of the page runs, one after the other, and prints what the page says."""
    text = (DOCS / "python-policies.md").read_text()
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(code, "python-policies.md", "exec"), names)
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    assert capsys.readouterr().out == shown
