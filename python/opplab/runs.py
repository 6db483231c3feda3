"""Samples in memory: what every reader produces and every comparison consumes.

A `Run` is one column of a comparison (a kernel, a governor, a policy); it holds one `Series` for each operation, and a
series keeps its values grouped by iteration of the whole benchmark. The module imports nothing when it is loaded: it is
on the path from a cold command line to a printed table.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SHARES = frozenset(("%", "percent"))
"""Units of shares, whose changes are in percentage points."""

IN_WATTS = {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "kW": 1e3}
IN_JOULES = {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "kJ": 1e3, "mWh": 3.6, "Wh": 3600.0, "kWh": 3.6e6}
IN_SECONDS = {
    **dict.fromkeys(("s", "sec", "seconds"), 1.0),
    **{"ms": 1e-3, "msec": 1e-3, "us": 1e-6, "usec": 1e-6, "ns": 1e-9, "nsec": 1e-9, "min": 60.0, "h": 3600.0},
}
"""`IN_WATTS`, `IN_JOULES` and `IN_SECONDS`: units of power, energy and time, in W, J and s."""


def is_rate(higher: bool, unit: str = "") -> bool:
    """Whether values are rates, whose means are harmonic: more is better, and they are neither shares nor amounts.

    Examples
    --------
    >>> is_rate(True, "MB/s"), is_rate(True), is_rate(True, "s"), is_rate(True, "%"), is_rate(False, "s")
    (True, True, False, False, False)
    """
    from opplab._opplab import stats_is_rate

    return stats_is_rate(higher, unit)


class Series:
    """All values of one operation in one run.

    Attributes
    ----------
    label : str
        The operation as tables print it, e.g. ``Elapsed-16``.
    metric, param : str
        The two halves of the label: ``Elapsed`` and ``16``.
    unit : str
        Unit of the values as the benchmark states it, e.g. ``seconds``.
    higher : bool
        Whether a larger value is the better one.
    iterations : list of list of float
        Values, one inner list for each iteration of the benchmark. An iteration without a value is absent. A million
        values of one each are kept flat until somebody asks for the lists.
    keys : list or None
        What marks each iteration: the seed of a simulation, or the date of a measurement; the same in two runs marks
        a pair.
    keyed_by : str
        What these are: ``seeds`` or ``dates``.
    directed : bool
        Whether more or less of it is better at all; where neither is, changes are plain and gates cannot judge.
    signed : bool
        Whether values may be below 0.
    events : list of float or None
        How many events each value is a share of, one for each iteration; empty for what is no share of counted events.
    work : str
        What work the log names; empty where it names none. Values of unlike work have no change.
    unmetered : str
        What of its run its energy leaves out; empty if nothing, or nothing that is known. Runs that differ in it have
        a change of unknown size.
    preferences : str
        The energy preferences that it ran with and nobody measured; empty if none. Runs that differ in them have a
        change of unknown size.
    places : list of int
        Which iterations of an mmtests run these are: one that its benchmark or its monitor lacks is absent.
    """

    __slots__ = (
        *("_flat", "_iterations", "directed", "higher", "keyed_by", "keys", "label", "metric", "param", "unit"),
        "events",
        "places",
        "preferences",
        "signed",
        "unmetered",
        "work",
    )

    def __init__(
        self,
        label: str,
        metric: str = "",
        param: str = "",
        unit: str = "",
        higher: bool = False,
        iterations: list[list[float]] | None = None,
        keys: list[int] | list[str] | None = None,
        flat: list[float] | None = None,
        keyed_by: str = "seeds",
        directed: bool = True,
        signed: bool = False,
    ) -> None:
        self.label = label
        self.metric = metric
        self.param = param
        self.unit = unit
        self.higher = higher
        self._iterations: list[list[float]] = [] if iterations is None else iterations
        # Values of iterations of one value each; then `_iterations` is empty.
        self._flat = flat
        self.keys = keys
        self.keyed_by = keyed_by
        self.directed = directed
        self.signed = signed
        self.events: list[float | None] = []
        self.work = ""
        self.unmetered = ""
        self.preferences = ""
        self.places: list[int] = []

    def add_work(self, work: str) -> None:
        """Add the work of further values."""
        if work not in self.work.split(" or "):
            self.work = " or ".join(filter(None, (self.work, work)))

    @property
    def better(self) -> str:
        """The better side, higher or lower; empty where there is none."""
        return ("higher" if self.higher else "lower") if self.directed else ""

    @property
    def is_rate(self) -> bool:
        """Whether it is of rates, whose means are harmonic."""
        return is_rate(self.higher, self.unit) and not self.signed

    @property
    def iterations(self) -> list[list[float]]:
        """Values by iteration."""
        if self._flat is not None:
            self._iterations = [[value] for value in self._flat]
            self._flat = None
        return self._iterations

    def count(self) -> int:
        """How many values there are."""
        return sum(map(len, self._iterations)) if self._flat is None else len(self._flat)

    def is_grouped(self) -> bool:
        """Whether an iteration has more than one value."""
        return self._flat is None and any(len(iteration) > 1 for iteration in self._iterations)

    def values(self) -> list[float]:
        """All values of all iterations, in the order in which they were read."""
        if self._flat is not None:
            return self._flat
        if len(self.iterations) == 1:
            return self.iterations[0]
        return [value for iteration in self.iterations for value in iteration]

    def __repr__(self) -> str:
        return f"Series({self.label!r}, n={self.count()})"


class Run:
    """One column of a comparison.

    Attributes
    ----------
    name : str
        What the column is called.
    benchmark : str
    series : dict of str to Series
        In the order in which tables list the operations.
    ratio_labels : list of str or None
        The operations that count for a ratio summary; None means all of them.
    problems : list of Problem
        Files and lines that were skipped.
    together : bool
        Whether the operations of an iteration share a measurement, so that they vary together.
    """

    __slots__ = ("benchmark", "name", "problems", "ratio_labels", "series", "together")

    def __init__(self, name: str, benchmark: str) -> None:
        self.name = name
        self.benchmark = benchmark
        self.series: dict[str, Series] = {}
        self.ratio_labels: list[str] | None = None
        self.problems: list[Problem] = []
        self.together = False

    def __repr__(self) -> str:
        return f"Run({self.name!r}, {self.benchmark!r}, {len(self.series)} operations)"


class Watts:
    """Average power of a run.

    Attributes
    ----------
    mean : float
        In W.
    what : str
        What it is the average of.
    params : sequence of str
        The parameters that it is the mean over; empty where it is of the whole run.
    cases : dict of str to Series
        Its iterations by operation, as far as they are known.
    is_sampled : bool
        Whether it is the mean of a monitor's samples, and not of one value a parameter.
    """

    __slots__ = ("cases", "is_sampled", "mean", "params", "what")

    def __init__(
        self, mean: float, what: str, params: Iterable[str] = (), cases: Mapping[str, Series] | None = None
    ) -> None:
        self.mean = mean
        self.what = what
        self.params = tuple(params)
        self.cases = dict(cases or {})
        self.is_sampled = False


class Problem:
    """A file, or a line of one, that a reader skipped, and why."""

    __slots__ = ("line", "path", "what")

    def __init__(self, path: str, what: str, line: int | None = None) -> None:
        self.path = path
        self.what = what
        self.line = line

    def __str__(self) -> str:
        place = self.path if self.line is None else f"{self.path}:{self.line}"
        return f"{place}: {self.what}"

    __repr__ = __str__
