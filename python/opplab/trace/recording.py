"""Recorded traces: trace.dat, ftrace text, systrace HTML, Perfetto, ring-buffer pages, as polars tables.

Decoding and signals are crate `trace`'s; here they become data frames.
"""

from __future__ import annotations

import os
import stat
from math import isfinite
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import InputError
from opplab.files import write_text
from opplab.report.notebook import Picture, card, timeline
from opplab.trace.damage import note, remark
from opplab.trace.frames import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import polars as pl

    from opplab.simulation.machine import Machine
    from opplab.trace.energy import TraceEnergy
    from opplab.trace.signals import Signals, SignalSums


MEMORY_BYTES = 2 << 30
"""What the events of a trace may take when all are in memory, unless OPPLAB_MAX_MEMORY is set."""

# Bytes of memory an event: decoded and written, with its signals, on a page; measured on scheduling events.
EVENT_BYTES = 80
SIGNAL_BYTES = 85
VIEW_BYTES = 200

# No file holds more events than it has bytes times this (crate `trace`, `UnpackLimits`).
UNPACKED_RATIO = 250


def machine_of(machine: Machine | str | Path, trace: str | Path) -> Machine:
    """Give the machine that a trace is laid on: itself, by its name or file, or ``auto``, the one of its snapshot."""
    # By the public name: the simulation, which has machines, is built on traces.
    from opplab import Machine

    if machine == "auto":
        return Machine(_opplab.traced_machine(str(trace)))
    if isinstance(machine, str | Path):
        return Machine.load(machine)
    if not isinstance(machine, Machine):
        raise InputError(f"`machine` is {machine!r}: give a machine or its name, opplab.Machine.load(NAME)")
    return machine


_NO_MACHINE = (
    "every CPU counts as one of capacity 1024 whose kernel does not follow the frequency, and error_bound is that of "
    "such CPUs"
)
"""What signals are of where nobody knows the machine."""


def memory_limit() -> int:
    """Give the limit of what events may take in memory, in bytes.

    Raises
    ------
    InputError
        If OPPLAB_MAX_MEMORY is no number.
    """
    asked = os.environ.get("OPPLAB_MAX_MEMORY", "").strip()
    if asked and not asked.isdecimal():
        raise InputError(f"OPPLAB_MAX_MEMORY={asked}: give a number of bytes")
    return int(asked) if asked else MEMORY_BYTES


def check_readable(path: str | Path) -> Path:
    """Give the path of a file or folder that can be opened; what the system refuses stays an `OSError`."""
    path = Path(path)
    # Opening a named pipe would wait for its writer; crate `trace` refuses those.
    if stat.S_ISREG(path.stat().st_mode):
        with path.open("rb"):
            pass
    return path


class Trace:
    """A recorded trace; events are decoded when they are asked for.

    Attributes
    ----------
    path : Path
    pelt_half_life_ms : int or None
        Half-life of the traced kernel's load tracking, where it is given.
    problems : list of str
        What was damaged in what was read so far; everything else is there.
    notes : list of str
        What the answers so far do not follow, such as control groups of which nothing is known, or a machine that
        cannot be the one of the trace.
    """

    def __init__(self, path: str | Path, *, pelt_half_life_ms: int | None = None) -> None:
        if pelt_half_life_ms not in (None, 8, 16, 32):
            raise InputError(f"no half-life of {pelt_half_life_ms} ms (there are 8, 16, 32)")
        self.pelt_half_life_ms = pelt_half_life_ms
        self.path = check_readable(path)
        # The folder of a recording, which may be named wherever its trace may.
        if (self.path / "trace.dat").is_file():
            self.path /= "trace.dat"
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._info: dict[str, Any] | None = None

    @property
    def info(self) -> dict[str, Any]:
        """Facts of the trace: format, CPUs, duration, clock, events.

        ``events`` (number by name), ``cpus``, ``start_ns``, ``duration_ns``, ``format``, ``clock``, ``missed`` (gaps:
        CPU, time, count), ``problems`` and more.
        """
        if self._info is None:
            self._info = _opplab.trace_info(self.path)
            self._note(self._info["problems"])
        return self._info

    def _note(self, problems: list[str]) -> None:
        self.problems += [problem for problem in problems if problem not in self.problems]
        note(self.path, problems, kept=True)

    def _hear(self, raw: dict[str, Any], machine: Machine | None) -> None:
        self._note(raw["problems"])
        for text in (*raw["notes"], *self._misfits(machine)):
            self.notes += [text] if text not in self.notes else []
            remark(self.path, text)

    def _misfits(self, machine: Machine | None) -> list[str]:
        """Explain why `machine` is not the one of the trace; what its CPUs without events do is not known."""
        if machine is None:
            return []
        (found,) = _opplab.trace_misfits(str(self.path), [machine._inner])
        if found is not None:
            return [found]
        # Formats that do not have the number of CPUs show those that have events. A pipe is read once only.
        seen, there = self.info["cpus"] if self.path.is_file() else 0, machine._inner.nr_cpus
        have = f"events are of CPUs up to {seen - 1}, machine {machine.name} has {there} CPUs"
        few = f"{have}: what others did is not known"
        return [few] if 0 < seen < there else []

    def check_memory(
        self,
        event_bytes: int,
        names: Sequence[str] | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> None:
        """Refuse what would take more memory than the limit: events of these names and this time, of so many bytes.

        Raises
        ------
        InputError
            With the option that raises the limit.
        """
        limit = memory_limit()
        # What is read once only (a pipe) cannot be counted first, and a small file is not worth it.
        if not self.path.is_file() or self.path.stat().st_size * UNPACKED_RATIO < limit:
            return
        events, start_ns, length_ns = (self.info[key] for key in ("events", "start_ns", "duration_ns"))
        short = None if names is None else {name.rpartition(":")[2] for name in names}
        count = sum(number for name, number in events.items() if short is None or name.rpartition(":")[2] in short)
        if length_ns:
            first = max(start_ns if from_ns is None else from_ns, start_ns)
            last = min(start_ns + length_ns if to_ns is None else to_ns, start_ns + length_ns)
            count = round(count * max(last - first, 0) / length_ns)
        if count * event_bytes > limit:
            raise InputError(
                f"{self.path}: {count} events would take some {count * event_bytes / 1e9:.1f} GB of memory, more than "
                f"{limit / 1e9:.1f} GB: name fewer events or a shorter time, or raise the limit with "
                "opplab trace --max-memory SIZE or OPPLAB_MAX_MEMORY=BYTES"
            )

    def read(
        self,
        names: Sequence[str] | None = None,
        *,
        missing_ok: bool = False,
        from_ns: int | None = None,
        to_ns: int | None = None,
    ) -> _opplab.Trace:
        """Decode the events of these names (all, if None) in a span of time; the end is not part of it."""
        self.check_memory(EVENT_BYTES, names, from_ns, to_ns)
        wanted = None if names is None else list(names)
        inner = _opplab.Trace.read(self.path, wanted, missing_ok, from_ns, to_ns)
        self._note(inner.problems())
        return inner

    def events(
        self, *names: str, missing_ok: bool = False, from_ns: int | None = None, to_ns: int | None = None
    ) -> Any:
        """Give event tables.

        Parameters
        ----------
        *names : str
            Names of events (``name`` or ``system:name``); all if there is none.
        missing_ok : bool
            Do not refuse names that the trace does not know.
        from_ns, to_ns : int, optional
            Only events of this time; `to_ns` is not part of it.

        Returns
        -------
        polars.DataFrame or dict of str to polars.DataFrame
            One table if one name was given.  Columns: ``time_ns``, ``cpu``, ``common_pid`` and ``common_comm`` of the
            context, then the event's own fields; one that is named like those becomes ``field_NAME``.

        Raises
        ------
        InputError
            If the trace does not know a name; names the nearest one.
        """
        import polars as pl

        inner = self.read(names or None, missing_ok=missing_ok, from_ns=from_ns, to_ns=to_ns)
        tables = {name: frame_of(inner.columns(name)) for name, _, _ in inner.tables()}
        if len(names) != 1:
            return tables
        if tables:
            return next(iter(tables.values()))
        # Known, but it never came (or not in that time): a table without rows.
        return pl.DataFrame(
            schema={"time_ns": pl.Int64, "cpu": pl.Int64, "common_pid": pl.Int64, "common_comm": pl.String}
        )

    def markers(self) -> dict[str, pl.DataFrame]:
        """Give what programs printed into the trace as events of their own.

        rt-app's ``rtapp_loop: event=start ...``, devlib's ``cpu_frequency_devlib: ...``, atrace's ``B|pid|name`` (table
        ``atrace``) and any other ``name: key=value ...``.
        """
        inner = self.read(["print", "tracing_mark_write", "bprint", "bputs"], missing_ok=True).markers()
        return {name: frame_of(inner.columns(name)) for name, _, _ in inner.tables()}

    def signals(
        self,
        machine: Machine | str | Path | None = None,
        *,
        invariance: bool = True,
        deadline_us: int | None = None,
        every_us: int = 0,
    ) -> Signals:
        """Rebuild the kernel's signals from scheduling, frequency and idle events.

        Parameters
        ----------
        machine : Machine, str or Path, optional
            Capacities, highest frequencies and power; also by name or file, and ``auto`` for the snapshot's. Without
            it that of a snapshot beside the trace. Without that every CPU has capacity 1024, the kernel does not follow
            the frequency, and there is no energy: a note has it.
        invariance : bool
            Whether the kernel followed the frequency (`Machine`'s highest OPP is the reference).
        deadline_us : int, optional
            Deadline of every activation; otherwise periodic tasks have their period, and others none.
        every_us : int
            Sample run queues this often, too, not only after events (0: do not).

        Returns
        -------
        Signals
        """
        from opplab.trace import signals

        self.check_memory(SIGNAL_BYTES)
        raw = self._raw_signals(machine, invariance, deadline_us, every_us * 1000)
        return signals.make(raw, self.task_names())

    def _raw_signals(
        self,
        machine: Machine | str | Path | None,
        invariance: bool,
        deadline_us: int | None,
        every_ns: int = 0,
        sums: bool = False,
    ) -> dict[str, Any]:
        from opplab.trace import signals

        deadline_ns = None if deadline_us is None else deadline_us * 1000
        unknown = ""
        try:
            on = machine_of("auto" if machine is None else machine, self.path)
        except InputError as error:
            if machine is not None:
                raise
            on, unknown = None, f"{_NO_MACHINE} ({str(error).removeprefix(f'{self.path}: ')})"
        half_life_ms = self.pelt_half_life_ms

        def rebuilt(on: Machine | None) -> dict[str, Any]:
            inner = None if on is None else on._inner
            return _opplab.trace_signals(self.path, inner, invariance, every_ns, deadline_ns, sums, half_life_ms)

        try:
            raw = rebuilt(on)
        except InputError as error:
            if machine is not None or on is None:
                raise
            # The snapshot beside it is of other CPUs.
            on, unknown = None, f"{_NO_MACHINE} ({str(error).removeprefix(f'{self.path}: ')})"
            raw = rebuilt(on)
        raw["notes"] += [*filter(None, [unknown]), *signals.unjudged(raw, self.task_names())]
        self._hear(raw, on)
        return raw

    def signal_sums(
        self, machine: Machine | str | Path | None = None, *, invariance: bool = True, deadline_us: int | None = None
    ) -> SignalSums:
        """Give what `signals` come down to by CPU and task, in memory that does not grow with the samples.

        Parameters are those of `signals`.
        """
        from opplab.trace import signals

        return signals.sums(self._raw_signals(machine, invariance, deadline_us, sums=True), self.task_names())

    def energy(
        self, machine: Machine | str | Path, *, from_ns: int | None = None, to_ns: int | None = None
    ) -> TraceEnergy:
        """Report what the trace cost on `machine`, and who caused it.

        Parameters
        ----------
        machine : Machine, str or Path
            Power of cores, clusters and idle states; also by name or file, and ``auto`` for the snapshot's.
        from_ns, to_ns : int, optional
            Only this time, or up to the trace's ends. Events outside of it show what CPUs do in it.

        Returns
        -------
        TraceEnergy

        Raises
        ------
        InputError
            If the trace has more CPUs than the machine, or no event that energy follows from.
        """
        from opplab.trace import energy

        on = machine_of(machine, self.path)
        found, raw = energy.of(self, on, from_ns, to_ns)
        if found.unseen_ns >= found.window_ns * len(found.cpus):
            why = "energy is that of CPUs that run or idle (sched_switch, cpu_idle), and the trace shows none that does"
            raise InputError(f"{self.path}: no energy to count: {why}")
        if found.tasks.is_empty():
            raw["notes"].append("no task is seen to run (sched_switch), so that only idle and shared power is counted")
        self._hear(raw, on)
        return found

    def sql(self, query: str, machine: Machine | str | Path | None = None, *, files: bool = False) -> pl.DataFrame:
        """Answer a question in SQL.

        Parameters
        ----------
        query : str
            A SELECT statement over tables of events (by the events' names), of signals (``tasks``, ``running``,
            ``waits``, ``activations``, ``freq_residency``, ...), and with a machine of energy (``energy_tasks``, ...)
            and of the machine (``cpus``, ``opps``).
        machine : Machine, str or Path, optional
        files : bool
            Let the statement read other files, as polars' ``read_parquet()`` does.

        Raises
        ------
        InputError
            With the nearest name of a table; for a statement that reads files and may not.

        Examples
        --------
        >>> trace.sql("select comm, sum(time_ns) as ns from running group by comm order by ns desc")  # doctest: +SKIP
        """
        from opplab.trace import sql

        if not isinstance(query, str):
            raise InputError(f"`query` is {query!r}: give a SELECT statement")
        return sql.query(self, query, None if machine is None else machine_of(machine, self.path), files=files)

    def view(
        self,
        path: str | Path,
        machine: Machine | str | Path | None = None,
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
        title: str = "",
    ) -> Path:
        """Write the trace as one HTML page that needs nothing else: a time line of each CPU, zoomable to microseconds.

        Parameters
        ----------
        path : str or Path
        machine : Machine, str or Path, optional
            For power, and for capacities in load tracking.
        from_ns, to_ns : int, optional
            Show only this time.
        title : str
            The trace's name if it is empty.
        """
        from opplab.trace import view

        self.check_memory(VIEW_BYTES, None, from_ns, to_ns)
        path = Path(path)
        on = None if machine is None else machine_of(machine, self.path)
        write_text(path, view.page(self, on, from_ns=from_ns, to_ns=to_ns, title=title))
        return path

    def task_names(self) -> dict[int, str]:
        """Names of tasks by pid: the trace's list, and those in switches and wake-ups."""
        names, problems = _opplab.trace_task_names(self.path)
        self._note(problems)
        return {**dict(names), 0: "<idle>"}

    def pieces(
        self,
        each: Callable[[_opplab.Trace, int], None],
        names: Sequence[str] | None = None,
        *,
        from_ns: int | None = None,
        to_ns: int | None = None,
        events_max: int,
        contexts: bool = False,
    ) -> None:
        """Decode events in pieces of at most `events_max`, for traces that are larger than the memory.

        Each goes to `each`, with the number of events in all pieces. With `contexts` the pieces keep in which context
        events happened, for files.
        """
        wanted = None if names is None else list(names)
        self._note(_opplab.trace_pieces(self.path, wanted, from_ns, to_ns, events_max, contexts, each))

    def to_dat(
        self,
        path: Path,
        scratch: Path,
        names: Sequence[str] | None,
        from_ns: int | None,
        to_ns: int | None,
        events_max: int,
    ) -> None:
        """Write events as a trace.dat, at most `events_max` in memory; the file `scratch` is used meanwhile."""
        wanted = None if names is None else list(names)
        self._note(_opplab.trace_to_dat(self.path, path, scratch, wanted, from_ns, to_ns, events_max))

    def export(self, path: str | Path, *names: str, from_ns: int | None = None, to_ns: int | None = None) -> Path:
        """Write events in another form.

        Parameters
        ----------
        path : str or Path
            ``*.parquet``: one table with a column ``event``; ``*.dat``: trace-cmd's trace.dat; ``*.txt``: ftrace text;
            ``*.pftrace``: Perfetto; an existing folder, or a name without suffix: a Parquet file an event.
        *names : str
            Names of events; all if there is none.
        from_ns, to_ns : int, optional
            Only events of this time.
        """
        from opplab.trace import export

        return export.export(self, Path(path), names, from_ns, to_ns)

    def plot(self, start: float | None = None, seconds: float = 0.1) -> Picture:
        """Draw what each CPU ran, and the clocks of CPUs.

        Parameters
        ----------
        start : float, optional
            From when, in seconds of the trace clock; the middle of the trace if it is not given.
        seconds : float
            How long.

        Returns
        -------
        Picture
            A notebook shows it; ``write(path)`` writes it as ``.html`` or ``.svg``.
        """
        first, length = self.info["start_ns"], self.info["duration_ns"]
        for name, value in (("seconds", seconds), ("start", start)):
            if value is not None and not (isinstance(value, Real) and isfinite(value * 1e9)):
                raise InputError(f"`{name}`: give a number of seconds, not {value!r}")
        window = round(min(seconds * 1e9, length))
        start_ns = first + (length - window) // 2 if start is None else round(start * 1e9)
        if window < 1 or not first <= start_ns < first + length:
            what = f"a picture of {seconds:g} s" if window < 1 else f"{start:g} s"
            raise InputError(f"{what} is not within the trace: {first / 1e9:.6f} to {(first + length) / 1e9:.6f} s")
        tables = self.events("sched_switch", "cpu_frequency", missing_ok=True)

        def of(name: str, key: str, cpu: int, value: str) -> list[tuple[int, int]]:
            if name not in tables:
                return []
            here = tables[name].filter(tables[name][key] == cpu)
            return list(zip(here["time_ns"].to_list(), here[value].to_list(), strict=True))

        cpus = range(self.info["cpus"])
        lanes = {f"cpu{cpu}": of("sched_switch", "cpu", cpu, "next_pid") for cpu in cpus}
        clocks = {f"cpu{cpu} MHz": of("cpu_frequency", "cpu_id", cpu, "state") for cpu in cpus}
        span = (start_ns, min(start_ns + window, first + length))
        return timeline(self.path.name, span, lanes, clocks, self.task_names(), 0)

    def _repr_html_(self) -> str:
        info = self.info
        counts = sorted(info["events"].items(), key=lambda pair: (-pair[1], pair[0]))
        rows = [{"event": name, "count": count} for name, count in counts]
        facts = {
            "format": info["format"],
            "CPUs": info["cpus"],
            "length": f"{info['duration_ns'] / 1e9:.6f} s",
            "gaps": len(info["missed"]),
        }
        return card(f"trace: {self.path.name}", facts, rows[:12], more=max(len(rows) - 12, 0))

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"


def read_trace(path: str | Path, *, pelt_half_life_ms: int | None = None) -> Trace:
    """Open a recorded trace.

    Parameters
    ----------
    path : str or Path
        trace.dat, ftrace text, systrace HTML, Perfetto, a tar or folder of ring-buffer pages, also compressed (gzip,
        xz, zstd).
    pelt_half_life_ms : {8, 16, 32}, optional
        Half-life of the traced kernel's load tracking; by default what the trace or a snapshot beside it shows, else
        32, with a note.

    Returns
    -------
    Trace

    Raises
    ------
    FormatError
        When it is decoded: if nothing can be read.  Damage on the way is listed in `Trace.problems` instead.

    Examples
    --------
    >>> import opplab, tempfile, pathlib
    >>> text = "x-7 [001] 1.5: cpu_frequency: state=1800000 cpu_id=1"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "trace.txt")
    ...     _ = path.write_text(text)
    ...     trace = opplab.read_trace(path)
    ...     print(trace.info["events"], trace.events("cpu_frequency")["state"].to_list())
    {'cpu_frequency': 1} [1800000]
    """
    return Trace(path, pelt_half_life_ms=pelt_half_life_ms)
