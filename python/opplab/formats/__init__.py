"""Readers of raw outputs: one small module a format, found by asking each whether it knows the file.

A module has ``sniff(head, name) -> bool`` for the first bytes of a file and ``read(text, name, problem) ->
list[Run]``, where `problem(what, line)` reports what was left out. Adding a format is adding a module to `_MODULES`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from opplab.mmtests.tree import Logs
from opplab.runs import Problem, Run

_MODULES = ("fio_json", "hackbench", "perf_bench", "rt_app", "turbostat")


def read(path: str, name: str, problems: list[Problem]) -> list[Run]:
    """Read a file; an unknown or empty one is reported in `problems` and gives no runs.

    Parameters
    ----------
    path : str
        The file, plain, ``.gz`` or ``.xz``.
    name : str
        What the runs are called.
    problems : list of Problem
        Gets what was skipped.
    """
    place = Path(path)
    text = Logs(str(place.parent), problems).read(place.stem if place.suffix in (".gz", ".xz") else place.name)
    if not text:
        if not any(problem.path == path for problem in problems):
            problems.append(Problem(path, "empty or unreadable file"))
        return []
    for module_name in _MODULES:
        module = import_module(f"{__name__}.{module_name}")
        if not module.sniff(text[:65536], place.name):
            continue
        before = len(problems)
        found: list[Run] = module.read(text, name, lambda what, line=None: problems.append(Problem(path, what, line)))
        if not found and len(problems) == before:
            problems.append(Problem(path, f"no values of {module_name} found"))
        return found
    problems.append(Problem(path, f"unknown format; known are {', '.join(_MODULES)}"))
    return []
