"""Simulated runs: their metrics, events, traces and meters."""

from __future__ import annotations

import os
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from opplab import _opplab
from opplab.errors import InputError
from opplab.files import safe_name, write_bytes, write_text
from opplab.report.notebook import Picture, card, timeline
from opplab.simulation.cases import Case, rows_of
from opplab.simulation.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Sized

    import polars as pl

    from opplab.policies import Governor, Placement
    from opplab.simulation.metrics import Metrics

_Readings = TypeVar("_Readings", bound="Sized")

IDLE_TASK = 2**32 - 1
"""What runs where nothing does."""


def changes_of(table: Any, cpu: int, value: str) -> list[tuple[int, int]]:
    """Give the times of a CPU's events of a kind, with a column of them."""
    here = table["cpu"] == cpu
    return list(zip(table["time_ns"][here].tolist(), table[value][here].tolist(), strict=True))


class Run:
    """A simulated run.

    Only counters are kept; events are made by running the case again, which gives the same events.
    """

    def __init__(
        self,
        inner: _opplab.Case,
        outcome: _opplab.Outcome,
        machine: Machine | None = None,
        governor: Governor | None = None,
        placement: Placement | None = None,
    ) -> None:
        self._case = Case.of(inner)
        self._machine = machine
        self._policies = (governor, placement)
        self._inner = inner
        self.outcome = outcome

    @property
    def metrics(self) -> Metrics:
        """Result rows (`opplab.SCHEMA`): energy, residencies, missed activations and more; printed with units."""
        from opplab import results
        from opplab.simulation.metrics import Metrics

        return Metrics(results.frame(rows_of(self._case, self.outcome)))

    @property
    def fingerprint(self) -> str:
        """Hash of all events in hexadecimal."""
        return f"{self.outcome['fingerprint']:016x}"

    @property
    def tasks(self) -> list[str]:
        """Names of the tasks by the index that events use."""
        names: list[str] = self.outcome["task_names"]
        return names

    def events(self, *names: str) -> Any:
        """Give event tables.

        Parameters
        ----------
        *names : str
            Names of event types (``opplab list events``) and of decision records (``opplab list decisions``); all
            events if there is none.

        Returns
        -------
        polars.DataFrame or dict of str to polars.DataFrame
            One table if one name was given; `time_ns` is the first column.
        """
        import polars as pl

        tables = {name: pl.DataFrame(columns) for name, columns in self._inner.events(list(names)).items()}
        if (grants := tables.get("freq_grant")) is not None:
            # Where the hardware answers no decision, there is no delay.
            delay_ns = pl.when(pl.col("delay_ns") >= 0).then("delay_ns")
            tables["freq_grant"] = grants.with_columns(delay_ns.alias("delay_ns"))
        return tables[names[0]] if len(names) == 1 else tables

    def rtapp_logs(self, folder: str | Path) -> list[Path]:
        """Write rt-app's own log of each task (one line a loop) into a folder; gives the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for name, text in self._inner.rtapp_logs():
            files.append(folder / safe_name(name))
            write_text(files[-1], text)
        return files

    def meter(self, name: str, every_s: float = 1.0) -> pl.DataFrame:
        """Give what a meter shows that is read every so many seconds.

        Parameters
        ----------
        name : {'rails', 'rapl', 'battery', 'tasks'}
            Mean watts of each cluster; a RAPL-like counter of each package with its unit, update period and wrap; the
            battery gauge of text 003 (``kept``: not in the trimmed beginning or end); energy of each task over the
            whole run, as the meters of CPUs and clusters have it.
        every_s : float
            Time between two readings.

        Returns
        -------
        polars.DataFrame
            One row a reading; ``time_s`` is its time.

        Examples
        --------
        >>> import opplab
        >>> work = opplab.Workload.periodic(2, run_us=800, period_us=16000)
        >>> run = opplab.simulate("juno-r2", work, seconds=0.5)
        >>> run.meter("rails", every_s=0.1).columns
        ['time_s', 'A53_w', 'A72_w', 'rest_w']
        """
        import polars as pl

        return self._shown(pl.DataFrame(self._inner.meter(name, _between_ns(every_s))), every_s)

    def turbostat(self, every_s: float = 1.0) -> str:
        """Give turbostat's table of the run, in its own text format, with an interval of `every_s`."""
        text: str = self._inner.meter("turbostat", _between_ns(every_s))
        self._shown(text.splitlines()[1:], every_s)
        return text

    def _shown(self, readings: _Readings, every_s: float) -> _Readings:
        """Give the readings of a meter, of which there is at least one."""
        if not len(readings):
            words = f"readings are {every_s:g} s apart, and the run has no two: make it longer, or read more often"
            raise InputError(f"the meter shows nothing: {words} (--seconds, --every)")
        return readings

    def to_perfetto(self, path: str | Path) -> None:
        """Write the run as a trace for https://ui.perfetto.dev."""
        write_bytes(path, self._inner.trace("perfetto"))

    def view(self, path: str | Path) -> Path:
        """Write the run as one HTML page: a time line of each CPU, its frequency, utilisation and power."""
        from opplab.trace import damage
        from opplab.trace.recording import Trace

        class OfRun(Trace):
            def _hear(self, raw: dict[str, Any], machine: Machine | None) -> None:
                # Notes are of groups: utilisation on the page is the run's own, in whose groups its tasks were.
                super()._hear({**raw, "notes": []}, machine)

        # What the page does not follow is a remark on the page: the trace that it is made from goes.
        with TemporaryDirectory() as folder, damage.collected() as noted:
            trace = Path(folder) / "run.dat"
            self.to_trace(trace)
            page = OfRun(trace).view(path, self._machine, title=self._case.label)
        for text in noted.remarks:
            damage.remark(page, text)
        return page

    def to_trace(self, path: str | Path) -> None:
        """Write the run as a kernel trace.

        Parameters
        ----------
        path : str or Path
            ``*.dat`` is written as trace-cmd's ``trace.dat``, ``*.txt`` as ftrace text, ``*.pftrace`` for Perfetto.
        """
        forms = {".dat": "trace.dat", ".txt": "text", ".pftrace": "perfetto"}
        path = Path(path)
        if path.suffix not in forms:
            raise InputError(f"failed to write {path}: the name must end in {', '.join(forms)}")
        write_bytes(path, self._inner.trace(forms[path.suffix]))

    def plot(self, start: float | None = None, seconds: float = 0.1) -> Picture:
        """Draw what each CPU ran and the clock of each cluster.

        Parameters
        ----------
        start : float, optional
            From when, in seconds of the run with its warm-up; the middle of what is measured if it is not given.
        seconds : float
            How long.

        Returns
        -------
        Picture
            A notebook shows it; ``write(path)`` writes it as ``.html`` or ``.svg``.
        """
        end_ns, measured_ns = self.outcome["end_ns"], self.outcome["wall_ns"]
        wanted_ns = duration_ns(seconds, what="a picture of {} s")
        length_ns = min(wanted_ns, end_ns if start is not None else measured_ns)
        if start is not None:
            check_number("start", start)
            if not 0 <= start * 10**9 < end_ns:
                raise InputError(f"{start:g} s is not within the run, which ends at {end_ns / 1e9:g} s")
        start_ns = end_ns - (measured_ns + length_ns) // 2 if start is None else round(start * 10**9)
        tables = self._inner.events(["sched_switch", "cpu_frequency"])
        lanes, clocks = {}, {}
        for cluster in self.outcome["clusters"]:
            for cpu in cluster["cpus"]:
                lanes[f"{cluster['name']} cpu{cpu}"] = changes_of(tables["sched_switch"], cpu, "next")
            clocks[f"{cluster['name']} MHz"] = changes_of(tables["cpu_frequency"], cluster["cpus"][0], "khz")
        names = dict(enumerate(self.tasks))
        span = (start_ns, min(start_ns + length_ns, end_ns))
        return timeline(self._case.label, span, lanes, clocks, names, IDLE_TASK)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self._inner.to_json(), self.outcome, self._machine, *self._policies)

    def _repr_html_(self) -> str:
        short = self.metrics._rows()
        rows = [row for row in short if "@" not in row["metric"] and row["metric"] != "engine_events"]
        facts = {
            "machine": self._case.machine,
            "kernel": self._case.kernel,
            "length": f"{self.outcome['wall_ns'] / 1e9:g} s",
            "fingerprint": self.fingerprint,
        }
        return card(f"run: {self._case.label}", facts, rows)

    def __repr__(self) -> str:
        return f"Run({self._case.label!r}, seconds={self.outcome['wall_ns'] / 1e9:g}, fingerprint={self.fingerprint})"


def _again(
    case: str,
    outcome: _opplab.Outcome,
    machine: Machine | None,
    governor: Governor | None,
    placement: Placement | None,
) -> Run:
    """Give the run again in another process, where its events are made as here."""
    inner = _opplab.Case.from_json(case)
    if governor is not None or placement is not None:
        inner = inner.with_policies(governor, placement)
    return Run(inner, outcome, machine, governor, placement)


def _between_ns(every_s: float) -> int:
    between_ns = duration_ns(every_s, "every_s", "a time of {} s between readings")
    if between_ns < 1000:
        raise InputError(f"a time of {every_s:g} s between readings is too short: give at least 1 us")
    return between_ns


def check_number(name: str, value: object) -> None:
    """Refuse what is no number of seconds, such as the text that the command line takes."""
    if not isinstance(value, Real | Decimal):
        raise InputError(f"`{name}`: give a number of seconds, not {value!r}")


def check_whole(name: str, value: object, least: int = 0) -> None:
    """Refuse what is no whole number of at least so many, and none that the engine's integers hold."""
    if not isinstance(value, Integral) or not least <= int(value) < 2**64:
        raise InputError(f"`{name}`: give a whole number of at least {least} and below 2^64, not {value!r}")


def workers(jobs: int | None) -> int:
    """Give the number of workers: as many as CPUs where none is given."""
    if jobs is None:
        return os.cpu_count() or 1
    check_whole("jobs", jobs, 1)
    return int(jobs)


def duration_ns(seconds: float, name: str = "seconds", what: str = "a run of {} s") -> int:
    """Give seconds as ns; what is no length is refused, by the name of its option and what it is the length of."""
    check_number(name, seconds)
    if not 0 < seconds <= 1e6:
        raise InputError(f"{what.format(f'{seconds:g}')} is not possible: give more than 0 and at most 1000000 s")
    return max(1, round(seconds * 1e9))
