"""Which module reads which benchmark's logs, and how mmtests summarises it.

A benchmark is found by the name of the module that registers it: ``hackbench-process-pipes`` is looked for as
``hackbench_process_pipes``, then ``hackbench_process``, then ``hackbench``, as mmtests itself shortens the name.
"""

from __future__ import annotations

from os import listdir
from os.path import dirname

from opplab.mmtests.problems import UnknownName

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    # metric, factor A, factor B, value (None: the operation exists, the value does not), enters the ratio summary
    Row = tuple[str, str, str, float | None, bool]
    Parser = Callable[..., Iterable[Row]]

_BENCHMARKS: dict[tuple[str, str], Benchmark] = {}
_MONITORS: dict[str, Benchmark] = {}


class Benchmark:
    """How one benchmark's logs are read and summarised.

    The fields are those of mmtests' own description: which summary it prints, how many decimal places, whether more is
    better, and the same again for single metrics.
    """

    __slots__ = (
        "decimal_places",
        "default_metric",
        "higher",
        "metric_higher",
        "metric_lower",
        "metric_summary",
        "name",
        "operation_name",
        "parse",
        "summary",
        "units",
    )

    def __init__(
        self,
        name: str,
        parse: Callable[..., Iterable[Row]],
        *,
        summary: str = "multiops",
        decimal_places: int = 2,
        higher: bool = False,
        units: dict[str, str] | None = None,
        default_metric: str = "",
        metric_higher: tuple[str, ...] = (),
        metric_lower: tuple[str, ...] = (),
        metric_summary: dict[str, str] | None = None,
        operation_name: str = "Ops",
    ) -> None:
        self.name = name
        self.parse = parse
        self.summary = summary
        self.decimal_places = decimal_places
        self.higher = higher
        self.units = units or {}
        self.default_metric = default_metric
        self.metric_higher = metric_higher
        self.metric_lower = metric_lower
        self.metric_summary = metric_summary or {}
        self.operation_name = operation_name

    def is_higher(self, metric: str) -> bool:
        """Whether more is better when the table is restricted to `metric` ('' = not restricted).

        mmtests decides this once for a table: an unrestricted tbench table calls its throughput rows "lower is better"
        too. `--metric` is the way to ask for the right sense.
        """
        return metric not in self.metric_lower and (self.higher or metric in self.metric_higher)

    def summary_of(self, metric: str) -> str:
        """Name of the summary that mmtests prints for `metric`."""
        return self.metric_summary.get(metric, self.summary)

    def unit_of(self, metric: str) -> str:
        """Unit of a metric's values, '' where mmtests names none."""
        units = self.units
        unit = units.get(metric)
        while unit is None and "-" in metric:
            metric = metric.rpartition("-")[0]
            unit = units.get(metric)
        return unit if unit is not None else units.get("", "")


def benchmark(name: str, report: str = "", **description: Any) -> Callable[[Parser], Parser]:
    """Register the decorated generator as the reader of a benchmark's ``logs`` folder.

    The generator takes a `Logs` and yields ``(metric, factor_a, factor_b, value, counts)`` in the order in which
    mmtests lists the operations; `counts` marks operations that enter the ratio summary.
    """

    def register(parse: Parser) -> Parser:
        _BENCHMARKS[name, report] = Benchmark(name, parse, **description)
        return parse

    return register


def monitor(name: str, **description: Any) -> Callable[[Parser], Parser]:
    """Register the decorated generator as the reader of a monitor's log; see `benchmark`."""

    def register(parse: Parser) -> Parser:
        _MONITORS[name] = Benchmark(name, parse, **description)
        return parse

    return register


def find(name: str, report: str = "") -> Benchmark:
    """The description of a benchmark.

    Raises
    ------
    UnknownName
        Naming the nearest benchmark that exists.
    """
    short = name
    while True:
        found = _BENCHMARKS.get((short, report))
        if found is None:
            _load(short)
            found = _BENCHMARKS.get((short, report))
        if found is not None:
            return found
        if "-" not in short:
            break
        short = short.rpartition("-")[0]
    if report and any(key[0] == short for key in _BENCHMARKS):
        raise UnknownName("report", report, [key[1] for key in _BENCHMARKS if key[0] == short and key[1]])
    raise UnknownName("benchmark", name, _names("benchmark"))


def find_monitor(name: str) -> Benchmark:
    """The description of a monitor; see `find`."""
    if name not in _MONITORS:
        _load("monitor_" + name)
    try:
        return _MONITORS[name]
    except KeyError:
        raise UnknownName("monitor", name, _names("monitor")) from None


def _load(name: str) -> None:
    """Import the module that would register `name`, if there is one."""
    module = name.replace("-", "_")
    if not module.isidentifier() or module in _NOT_FORMATS:
        return
    full = f"{__package__}.{module}"
    try:
        __import__(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise


_NOT_FORMATS = frozenset(("registry", "tree", "problems", "statistics", "summary", "layout"))


def _names(kind: str) -> list[str]:
    """All registered names of a kind: imports every format module, so only for messages and lists."""
    for file in listdir(dirname(__file__)):
        if file.endswith(".py") and not file.startswith("_"):
            _load(file[:-3])
    if kind == "monitor":
        return sorted(_MONITORS)
    return sorted({name for name, _ in _BENCHMARKS})
