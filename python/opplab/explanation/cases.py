"""Find the case that words name: a file, a results folder, a case of an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.errors import InputError
from opplab.simulation.cases import names_of

if TYPE_CHECKING:
    from opplab.simulation.cases import Case
    from opplab.simulation.run import Run


# So much of a case's hash names it.
HASH_CHARS_MIN = 6


def case_of(run: Run | _opplab.Case | str | Path) -> _opplab.Case:
    """Give the case of a run, or the one that words name."""
    if isinstance(run, _opplab.Case):
        return run
    if isinstance(run, str | Path):
        return find_case(str(run))
    if not isinstance(getattr(run, "_inner", None), _opplab.Case):
        raise InputError(f"what is explained is a Run, or the words or the path of one, not {run!r}")
    return run._inner


def _split(target: str) -> tuple[str, str]:
    """Split FILE:CASE at the first colon after a file, a folder or a built-in experiment: labels have colons."""
    from opplab import catalog

    known = catalog.names("experiment")
    places = [place for place, char in enumerate(target) if char == ":"]
    for place in places:
        where = target[:place]
        if where in known or Path(where).exists():
            return where, target[place + 1 :]
    if places and not Path(target).exists():
        return target[: places[-1]], target[places[-1] + 1 :]
    return target, ""


def _values_of(case: Case) -> set[str]:
    """Give the words of a case's label, the values of its keys, and its machine and kernel."""
    words = case.label.split()
    return {case.machine, case.kernel, *words, *(word.partition("=")[2] for word in words)}


def find_case(target: str) -> _opplab.Case:
    """Find the case that words name.

    Parameters
    ----------
    target : str
        A case's JSON file; the results folder of a single case; ``EXPERIMENT:CASE`` or ``FOLDER:CASE``, where CASE is
        a part of the case's label (words or their parts in any order, the machine's name among them; a whole name goes
        before longer ones), its hash or the beginning of it, or its number from 0.
    """
    path = Path(target)
    if path.is_file() and path.suffix == ".json":
        from opplab.files import read_text

        return _opplab.Case.from_json(read_text(path, "a case"))
    where, which = _split(target)
    if "/" in where and not Path(where).suffix and not Path(where).exists():
        raise InputError(f"failed to open {where}: no such results folder; opplab run fills one")
    from opplab.sweep.experiments import Experiment

    experiment = Experiment.of_results(where) if Path(where).is_dir() else Experiment.load(where)
    labels = names_of(experiment.cases)
    found = [case for case in experiment.cases if which in (case.label, labels[case.hash])]
    if not which and len(experiment.cases) == 1:
        found = experiment.cases
    if not found and which.isdecimal() and int(which) < len(experiment.cases):
        found = [experiment.cases[int(which)]]
    if not found and len(which) >= HASH_CHARS_MIN:
        found = [case for case in experiment.cases if case.hash.startswith(which)]
    if not found and which:
        words = which.split()
        found = [
            case for case in experiment.cases if all(word in [case.machine, *case.label.split()] for word in words)
        ]
        # A value that is given whole (6.1) goes before longer ones that begin so (6.12).
        found = found or [case for case in experiment.cases if {*words} <= _values_of(case)]
        found = found or [case for case in experiment.cases if all(word in labels[case.hash] for word in words)]
        # A name that is given whole goes before longer ones that have its words, too.
        for part in ("policy", "benchmark", "param"):
            found = [case for case in found if (own := getattr(case, part)) and set(own.split()) <= {*words}] or found
    if len(found) != 1:
        near = found or [case for case in experiment.cases if any(one in labels[case.hash] for one in which.split())]
        some = "; ".join(f"`{labels[case.hash]}`" for case in (near or experiment.cases)[:4])
        what = f"{len(found)} cases are" if found else "no case is"
        told = f"{what} called `{which}`" if which else "a case is missing"
        raise InputError(f"{told}: write {where}:CASE with one of {len(found) or len(labels)} labels, such as {some}")
    if Path(where).is_dir():
        from opplab.sweep.store import Store

        kept = Store(Path(where)).finished()
        if kept and found[0].hash not in kept:
            why = f"{experiment.file}, a machine or this version has changed, or it is not finished"
            raise InputError(f"{where} has no results of `{labels[found[0].hash]}`: {why}")
    return _opplab.Case.from_json(found[0].json)
