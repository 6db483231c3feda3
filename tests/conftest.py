"""For all tests: their terminal has no width of its own, and several processes take long files first."""

import os

import pytest

# GNU readline, which pytest's workers load, sets both; commands would wrap their output for it.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

LONG = (
    "test_lab.py",
    "test_documented_commands.py",
    "test_gate.py",
    "test_uncertainty.py",
    "test_under_fire.py",
    "test_tutorials.py",
    "test_answer.py",
)
"""One of these files at the end would keep one process busy and the others idle; the first compiles pages."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
