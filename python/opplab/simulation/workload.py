"""Workloads: rt-app files as they are understood."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab, catalog
from opplab.errors import InputError
from opplab.files import read_text

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Benchmark:
    """A benchmark model with parameters: see `Workload.benchmark`."""

    name: str
    params: dict[str, int | str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Its name and parameters: ``kernbench jobs 4``."""
        return " ".join([self.name, *(f"{name} {value}" for name, value in self.params.items())])


THREADS_MAX = 100_000
"""Of a workload file (crate `model`, `rtapp/syntax.rs`)."""

DEFAULT_S = 10.0
"""Simulated time where neither a workload nor the user gives one."""

WHOLE_S = 600.0
"""The same of a benchmark that reports the time of a piece of work: a run is over when that is done."""


def length_of(workload: Workload | Benchmark, seconds: float | None) -> float:
    """Give the simulated time of a run in s: what was asked for, or the workload's own duration."""
    if seconds is not None:
        return seconds
    if isinstance(workload, Benchmark):
        return WHOLE_S if workload.name in ending() else DEFAULT_S
    return float(workload.duration_s or DEFAULT_S)


def load_of(workload: Workload | Benchmark | str | Path) -> Workload | Benchmark:
    """Give the workload of a path (an rt-app file) or of a name (a benchmark model)."""
    if isinstance(workload, Workload | Benchmark):
        return workload
    if not isinstance(workload, str | Path):
        raise InputError(f"a workload is a Workload, a Benchmark, a path or a name, not {workload!r}")
    is_file = isinstance(workload, Path) or "." in workload or "/" in workload
    return Workload.load(workload) if is_file else Workload.benchmark(str(workload))


@cache
def ending() -> frozenset[str]:
    """The benchmarks whose runs are over when their work is done."""
    return frozenset(model["name"] for model in _opplab.benchmarks() if model["ends"])


def rtapp_text(path: Path) -> str:
    """Give the text of an rt-app file, or the one that a model of ``opplab learn`` (a .toml) makes."""
    if path.suffix != ".toml":
        return read_text(path, "a workload file")
    from opplab.trace.learn import read, to_rtapp

    return to_rtapp(read(path))


class Workload:
    """An rt-app workload file.

    Examples
    --------
    >>> import opplab
    >>> work = opplab.Workload.parse('{"tasks": {"t": {"run": 800, "sleep": 15200}}}')
    >>> work.events()["event"].to_list()
    ['run 800 us of work', 'sleep 15200 us']
    """

    def __init__(self, inner: _opplab.Workload, source: dict[str, str]) -> None:
        self._inner = inner
        self._source = source

    @classmethod
    def load(cls, path: str | Path, *, repeats: str = "workgen") -> Workload:
        """Load an rt-app file, or a model of ``opplab learn`` (a .toml).

        Parameters
        ----------
        path : str or Path
        repeats : {"workgen", "json-c"}
            What a repeated key means: ``json-c`` as rt-app sees the bare file (the last value wins), ``workgen`` as
            after rt-app's workgen script (each is an event of its own).
        """
        path = Path(path)
        return cls.parse(rtapp_text(path), name=path.stem, file=str(path), repeats=repeats)

    @classmethod
    def parse(cls, text: str, *, name: str = "workload", file: str = "<text>", repeats: str = "workgen") -> Workload:
        """Read the text of an rt-app file; `file` is its name for messages."""
        source = {"name": name, "file": file, "text": text, "repeats": repeats}
        return cls(_opplab.Workload.parse(name, file, text, repeats), source)

    @classmethod
    def periodic(cls, tasks: int, *, run_us: int, period_us: int, name: str = "periodic") -> Workload:
        """Make a set of equal periodic tasks.

        Parameters
        ----------
        tasks : int
            How many.
        run_us : int
            Work of an activation, in us of CPU 0 at its highest frequency, boosted where it boosts.
        period_us : int
            Time between activations.

        Examples
        --------
        >>> import opplab
        >>> opplab.Workload.periodic(3, run_us=800, period_us=16000)
        Workload('periodic', events=6)
        """
        for key, value in (("tasks", tasks), ("run_us", run_us), ("period_us", period_us)):
            if not isinstance(value, Integral):
                raise InputError(f"periodic tasks with {key}={value!r}: give a whole number")
            if value < 1:
                raise InputError(f"periodic tasks with {key}={value} do nothing: give at least 1")
        if tasks > THREADS_MAX:
            raise InputError(f"{tasks} threads; at most {THREADS_MAX} can be simulated")
        timer = {"ref": "unique", "period": int(period_us)}
        each = {f"{name}{number}": {"run": int(run_us), "timer": timer} for number in range(tasks)}
        return cls.parse(json.dumps({"tasks": each}), name=name, file=f"<{name}>")

    @staticmethod
    def benchmark(name: str, **params: int | str) -> Benchmark:
        """Give a benchmark model with parameters (``opplab list benchmarks``, ``opplab list parameters NAME``).

        Raises
        ------
        InputError
            If there is no such benchmark or parameter; names the nearest one.
        """
        models = {model["name"]: model for model in _opplab.benchmarks()}
        if name not in models:
            raise InputError(f"no benchmark is called `{name}`{catalog.nearest(str(name), list(models))}")
        known = [param["name"] for param in models[name]["params"]]
        given: dict[str, int | str] = {}
        for param, value in params.items():
            if param not in known:
                hint = catalog.nearest(param, known) or f" (known: {', '.join(known)})"
                raise InputError(f"{name} has no parameter `{param}`{hint}")
            if isinstance(value, bool) or not isinstance(value, Integral | str):
                raise InputError(f"{name} with {param}={value!r}: give one whole number, or a name")
            given[param] = value if isinstance(value, str) else int(value)
        return Benchmark(name, given)

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def duration_s(self) -> int | None:
        """Duration that the file asks for, if it does."""
        return self._inner.duration_s

    @property
    def notes(self) -> list[str]:
        """What rt-app would silently read over, each with its place."""
        return [f"{self._source['file']}:{line}:{column}: {text}" for line, column, text in self._inner.notes()]

    def describe(self) -> str:
        """Give the tree for people: one event a line, in file order."""
        return self._inner.describe()

    def events(self) -> pl.DataFrame:
        """Give one row an event, in file order: task, phase, line, column, key, event."""
        import polars as pl

        names = ["task", "phase", "line", "column", "key", "event"]
        return pl.DataFrame(self._inner.events(), schema=names, orient="row")

    def __reduce__(self) -> tuple[Any, ...]:
        return _parsed, (self._source,)

    def _repr_html_(self) -> str:
        from opplab.report.notebook import card

        rows = self.events().select("task", "phase", "event").to_dicts()
        facts = {"duration": "not given" if self.duration_s is None else f"{self.duration_s} s"}
        return card(self.name, facts, rows[:12], more=max(len(rows) - 12, 0))

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, events={self._inner.nr_events})"


def _parsed(source: dict[str, str]) -> Workload:
    """Make a workload anew in another process."""
    return Workload.parse(**source)
