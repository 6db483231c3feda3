"""The public classes: machines, workloads, policies, runs.

Thin and keyword-only: what they hold are the extension's objects and plain values; what they give are polars tables.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab, catalog
from opplab.errors import FormatError, InputError
from opplab.simulation.cases import Case, rows_of

if TYPE_CHECKING:
    import polars as pl

    from opplab.policies import Governor, Placement

__all__ = ["Machine", "Policy", "Run", "Workload", "simulate"]


class Machine:
    """A described machine: topology, frequencies, idle states, power.

    Examples
    --------
    >>> import opplab
    >>> juno = opplab.Machine.load("juno-r2")
    >>> juno.nr_cpus, [cluster["capacity"] for cluster in juno.describe()["clusters"]]
    (6, [383, 1024])
    """

    def __init__(self, inner: _opplab.Machine) -> None:
        self._inner = inner

    @classmethod
    def load(cls, name: str | Path) -> Machine:
        """Load a machine.

        Parameters
        ----------
        name : str or Path
            A built-in name (``opplab list machines``), or the path of a ``.toml``.

        Raises
        ------
        InputError
            If there is no such machine; says the nearest name.
        FormatError
            If the file is wrong; says file, line and column.
        """
        path = catalog.find("machine", name)
        return cls.parse(catalog.read_text(path, "a machine file"), file=str(path))

    @classmethod
    def parse(cls, text: str, *, file: str = "<text>") -> Machine:
        """Read the text of a machine file; `file` is its name for messages."""
        return cls(_opplab.Machine.parse(file, text))

    @property
    def name(self) -> str:
        """Its name."""
        return self._inner.name

    @property
    def nr_cpus(self) -> int:
        """Number of CPUs."""
        return self._inner.nr_cpus

    def describe(self) -> dict[str, Any]:
        """Give everything that the machine says as dicts and lists; units are the last word of a key."""
        return self._inner.describe()

    def to_toml(self) -> str:
        """Write it as a machine file that reads back as the same machine."""
        return self._inner.to_toml()

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, nr_cpus={self.nr_cpus})"


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
        """Load an rt-app file.

        Parameters
        ----------
        path : str or Path
        repeats : {"workgen", "json-c"}
            What a repeated key means: ``json-c`` as rt-app sees the bare file (the last value wins), ``workgen`` as
            after rt-app's workgen script (each is an event of its own).
        """
        path = Path(path)
        text = catalog.read_text(path, "a workload file")
        return cls.parse(text, name=path.stem, file=str(path), repeats=repeats)

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
            Work of an activation, in us of the biggest CPU at its highest frequency.
        period_us : int
            Time between activations.

        Examples
        --------
        >>> import opplab
        >>> opplab.Workload.periodic(3, run_us=800, period_us=16000)
        Workload('periodic', events=6)
        """
        timer = {"ref": "unique", "period": period_us}
        each = {f"{name}{number}": {"run": run_us, "timer": timer} for number in range(tasks)}
        return cls.parse(json.dumps({"tasks": each}), name=name, file=f"<{name}>")

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

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, events={self._inner.nr_events})"


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Everything that can be chosen on a given machine.

    Attributes
    ----------
    governor : str
        cpufreq governor.
    label : str
        Name in tables; the governor if it is empty.
    kernel : str
        Kernel profile, e.g. ``"5.18"`` (``opplab list kernels``).
    driver : str
        cpufreq driver; the machine's own if it is empty.
    tunables : dict of str to str
        Governor tunables by sysfs name.
    idle_governor : str
    eas : bool
        Whether energy-aware scheduling is switched on.
    energy_model : {"registered", "artificial", "none"}
    freq_max, invariance : str
        Frequency invariance on x86; the profile's choice if they are empty.
    hz : int
        Timer frequency.
    pelt_half_life_ms : {8, 16, 32}
    sugov_cpus : tuple of int
        Where schedutil's kthreads may run; where the kernel puts them if it is empty.

    Examples
    --------
    >>> import opplab
    >>> opplab.Policy(kernel="5.18", eas=False).governor
    'schedutil'
    """

    governor: str = "schedutil"
    label: str = ""
    kernel: str = "6.12"
    driver: str = ""
    tunables: dict[str, str] = field(default_factory=dict)
    idle_governor: str = "menu"
    eas: bool = True
    energy_model: str = "registered"
    freq_max: str = ""
    invariance: str = ""
    hz: int = 250
    pelt_half_life_ms: int = 32
    sugov_cpus: tuple[int, ...] = ()

    def _toml(self) -> str:
        """Give it as TOML with the keys of an experiment's ``[[policy]]``."""
        fields = asdict(self)
        fields["label"] = self.label or self.governor
        tunables = ", ".join(f"{json.dumps(key)} = {json.dumps(str(value))}" for key, value in self.tunables.items())
        fields.pop("tunables")
        lines = [f"{key} = {json.dumps(value)}" for key, value in fields.items() if value not in ("", ())]
        return "\n".join([*lines, f"tunables = {{ {tunables} }}", ""])


class Run:
    """A simulated run.

    Only counters are kept; events are made by running the case again, which gives the same events.
    """

    def __init__(
        self, case: Case, inner: _opplab.Case, outcome: dict[str, Any], machine: Machine | None = None
    ) -> None:
        self._case = case
        self._machine = machine
        self._inner = inner
        self.outcome = outcome

    @property
    def metrics(self) -> pl.DataFrame:
        """Result rows (`opplab.SCHEMA`): energy, residencies, missed activations and more."""
        from opplab import results

        return results.frame(rows_of(self._case, self.outcome))

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
        return tables[names[0]] if len(names) == 1 else tables

    def rtapp_logs(self, folder: str | Path) -> list[Path]:
        """Write rt-app's own log of each task (one line a loop) into a folder; gives the files."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for name, text in self._inner.rtapp_logs():
            files.append(folder / name)
            files[-1].write_text(text, encoding="utf-8")
        return files

    def meter(self, name: str, every_s: float = 1.0) -> pl.DataFrame:
        """Give what a meter shows that is read every so many seconds.

        Parameters
        ----------
        name : {'rails', 'rapl', 'battery'}
            Mean watts of each cluster; a RAPL-like counter of each package with its unit, update period and wrap; the
            battery gauge of text 003 (``kept``: not in the trimmed beginning or end).
        every_s : float
            Time between two readings.

        Returns
        -------
        polars.DataFrame
            One row a reading; ``time_s`` is its time.

        Examples
        --------
        >>> import opplab
        >>> run = opplab.simulate(
        ...     opplab.Machine.load("juno-r2"),
        ...     opplab.Workload.periodic(2, run_us=800, period_us=16000),
        ...     opplab.Policy(kernel="5.18"),
        ...     seconds=0.5,
        ... )
        >>> run.meter("rails", every_s=0.1).columns
        ['time_s', 'A53_w', 'A72_w', 'rest_w']
        """
        import polars as pl

        return pl.DataFrame(self._inner.meter(name, duration_ns(every_s)))

    def turbostat(self, every_s: float = 1.0) -> str:
        """Give turbostat's table of the run, in its own text format, with an interval of `every_s`."""
        text: str = self._inner.meter("turbostat", duration_ns(every_s))
        return text

    def to_perfetto(self, path: str | Path) -> None:
        """Write the run as a trace for https://ui.perfetto.dev."""
        Path(path).write_bytes(self._inner.trace("perfetto"))

    def view(self, path: str | Path) -> Path:
        """Write the run as one HTML page: a time line of each CPU, its frequency, utilisation and power."""
        from tempfile import TemporaryDirectory

        from opplab.trace.recording import Trace

        with TemporaryDirectory() as folder:
            trace = Path(folder) / "run.dat"
            self.to_trace(trace)
            return Trace(trace).view(path, self._machine, title=self._case.label)

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
        path.write_bytes(self._inner.trace(forms[path.suffix]))

    def __repr__(self) -> str:
        return f"Run({self._case.label!r}, seconds={self.outcome['wall_ns'] / 1e9:g}, fingerprint={self.fingerprint})"


def duration_ns(seconds: float) -> int:
    """Give seconds as ns; what is no length of a run is refused."""
    if not 0 < seconds <= 1e6:
        raise InputError(f"a run of {seconds:g} s is not possible: give more than 0 and at most 1000000 s")
    return max(1, round(seconds * 1e9))


def simulate(
    machine: Machine,
    workload: Workload,
    policy: Policy,
    *,
    seconds: float = 10.0,
    seed: int = 1,
    check: bool = False,
    governor: Governor | None = None,
    placement: Placement | None = None,
) -> Run:
    """Run a workload on a machine under a policy.

    Parameters
    ----------
    machine : Machine
    workload : Workload
    policy : Policy
    seconds : float
        Simulated time.
    seed : int
        Seed of all random draws.
    check : bool
        Run the invariant checks, too.
    governor : Governor, optional
        A cpufreq governor written in Python, in place of the policy's.
    placement : Placement, optional
        A placement policy written in Python, in place of the kernel's.

    Returns
    -------
    Run

    Raises
    ------
    CaseError
        If policy or workload do not fit the machine, or a policy in Python failed.
    CheckError
        If an invariant does not hold.

    Examples
    --------
    >>> import opplab
    >>> run = opplab.simulate(
    ...     opplab.Machine.load("juno-r2"),
    ...     opplab.Workload.periodic(2, run_us=800, period_us=16000),
    ...     opplab.Policy(kernel="5.18"),
    ...     seconds=0.5,
    ... )
    >>> run.metrics.filter(metric="missed_activations")["value"].to_list()
    [0.0]
    >>> run.events("cpu_frequency").columns
    ['time_ns', 'cpu', 'khz']
    """
    inner = build_case(machine, workload, policy, seconds=seconds, seed=seed)
    if governor is not None or placement is not None:
        inner = inner.with_policies(governor, placement)
    return Run(Case.of(inner), inner, inner.run(check), machine)


def build_case(
    machine: Machine, workload: Workload, policy: Policy, *, seconds: float = 10.0, seed: int = 1
) -> _opplab.Case:
    """Put a case together; wrong names in the policy are refused with the nearest valid one."""
    try:
        return _opplab.Case.build(machine._inner, workload._inner, policy._toml(), seed, duration_ns(seconds))
    except FormatError as error:
        if error.file != "policy":
            raise
        # The policy was not read from a file: a place in it would mislead.
        raise InputError(str(error).split(": ", 1)[1]) from None
