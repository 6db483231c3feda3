"""Many cases on many workers: the same results whatever the executor and the order.

A case is a string of JSON that holds everything; a worker is any `concurrent.futures.Executor` (threads in this process
by default: a run releases the interpreter; a process pool or Dask's executor work as well).  Results are written by the
process that sweeps, as they come in.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import CheckError, InputError, OpplabError, plain_interrupts
from opplab.simulation.cases import Measured, names_of
from opplab.simulation.power import is_of_power

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.cases import Case
    from opplab.sweep.store import Store

WRITERS = 4
"""Threads beside those that run cases: what they write at one time a disk takes together."""

GRACE_S = 1.0
"""What cases that have begun get after Ctrl-C."""


@dataclass
class Tally:
    """How far a sweep is."""

    total: int
    """Cases of the sweep."""
    skipped: int = 0
    """Cases that were finished before."""
    done: int = 0
    """Cases that this sweep finished."""
    failed: int = 0
    """Cases that this sweep could not finish."""
    spared: int = 0
    """Cases that an `Until` found not to be needed."""
    wanted: list[str] = field(default_factory=list)
    """Hashes of the cases that belong to the result, in the order of the experiment: all but the spared ones."""
    simulated_ns: int = 0
    """Simulated time of the cases that this sweep finished."""
    problems: list[str] = field(default_factory=list)
    """One line a failed case."""
    names: dict[str, str] = field(default_factory=dict)
    """Hash of a case -> words for messages."""
    failures: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Of each policy the machines of its cases that failed, and why."""

    def fail(self, case: Case, why: str) -> None:
        """Count a case that could not be finished."""
        self.failed += 1
        self.problems.append(f"{self.names[case.hash]}: {why}")
        self.failures.setdefault(case.policy, []).append((case.machine, why))


@dataclass(frozen=True)
class Until:
    """When a point of the matrix (machine, benchmark, parameters) has iterations enough.

    That is so when the Student-t 95 % interval of every compared pair's change reaches at most so far to either side;
    iterations of one seed are a pair, so that what the policies share does not count. Policies that are compared with
    nothing count with the interval of their mean. The number of iterations depends on nothing but the results of these
    iterations, so it is the same for any executor and after any interruption.
    """

    ci: float
    """Half-width in percent of the baseline's (or the own) mean."""
    pairs: Sequence[tuple[str, str]] = ()
    """What is compared with what: (baseline, variant)."""
    metric: str = "energy"
    least: int = 5
    """Fewest iterations."""

    def rest(self) -> dict[str, Any]:
        """Give what is neither the width nor the pairs."""
        return {"metric": self.metric, "least": self.least}

    def enough(self, values: Mapping[str, Sequence[float]]) -> bool:
        """Report whether these values of each policy, in the order of the iterations, are enough.

        Examples
        --------
        >>> until = Until(1.0, [("old", "new")], least=3)
        >>> until.enough({"old": [10, 20, 30], "new": [9.01, 18, 27]})
        True
        >>> until.enough({"old": [10, 20, 30], "new": [9, 18, 30]})
        False
        """
        widest = self.widest(values)
        return widest is not None and widest <= self.ci

    def widest(self, values: Mapping[str, Sequence[float]]) -> float | None:
        """Give the half-width of the widest of the intervals that count, in percent; None where one is not known."""
        from opplab.sweep.confidence import estimate, paired_half

        halves = [paired_half(values.get(base, ()), values.get(new, ())) for base, new in self.pairs]
        compared = {name for pair in self.pairs for name in pair}
        for name, own in values.items():
            if name not in compared:
                found = estimate(own) if own else None
                known = found is not None and found.half is not None and found.mean
                halves.append(
                    100 * found.half / abs(found.mean) if found and found.half is not None and known else None
                )
        known_halves = [half for half in halves if half is not None]
        return max(known_halves, default=0.0) if len(known_halves) == len(halves) else None

    def not_reached(self, results: pl.DataFrame) -> list[tuple[tuple[str, ...], int, float | None]]:
        """Give the points of results that ended before they were narrow enough: iterations, and what `widest` gives."""
        out = []
        keys = ["machine", "benchmark", "param"]
        of_metric = results.filter(results["metric"] == self.metric)
        for point, part in of_metric.partition_by(keys, as_dict=True, maintain_order=True).items():
            runs: dict[int, dict[str, float | None]] = {}
            for policy, iteration, value in part.select("policy", "iteration", "value").iter_rows():
                runs.setdefault(iteration, {})[policy] = value
            policies = part["policy"].unique(maintain_order=True)
            # An iteration of which a case failed has no pairs.
            whole = [run for _, run in sorted(runs.items()) if all(run.get(one) is not None for one in policies)]
            values = {policy: [run[policy] or 0.0 for run in whole] for policy in policies}
            if not self.enough(values):
                out.append((point, len(whole), self.widest(values)))
        return out


class _Plan:
    """Which cases come next: all of them, or more iterations of a point until there are enough."""

    def __init__(self, cases: Sequence[Case], until: Until | None) -> None:
        self.until = until
        self.points: dict[tuple[str, str, str], dict[int, list[Case]]] = {}
        for case in cases:
            self.points.setdefault(self._point(case), {}).setdefault(case.iteration, []).append(case)
        self.order = {point: sorted(iterations) for point, iterations in self.points.items()}
        self.values: dict[str, float | None] = {}
        most = {point: len(iterations) for point, iterations in self.points.items()}
        self.reach = {point: min(until.least, n) if until else n for point, n in most.items()}

    @staticmethod
    def _point(case: Case) -> tuple[str, str, str]:
        return case.machine, case.benchmark, case.param

    def chosen(self, case: Case) -> bool:
        """Whether the case belongs to the iterations that are wanted so far."""
        point = self._point(case)
        return case.iteration <= self.order[point][self.reach[point] - 1]

    def finished(self, case: Case, value: float | None) -> list[Case]:
        """Note a finished (None: failed) case; gives the cases that are wanted now and were not before."""
        if self.until is None:
            return []
        self.values[case.hash] = value
        point = self._point(case)
        iterations = self.points[point]
        order = self.order[point]
        done = [iterations[number] for number in order[: self.reach[point]]]
        if any(one.hash not in self.values for group in done for one in group) or self.reach[point] == len(order):
            return []
        values: dict[str, list[float]] = {}
        for group in done:
            # An iteration of which a case failed has no pairs.
            found = [(one.policy, self.values[one.hash]) for one in group]
            if all(number is not None for _, number in found):
                for policy, number in found:
                    values.setdefault(policy, []).append(number or 0.0)
        if values and self.until.enough(values):
            return []
        self.reach[point] += 1
        return iterations[order[self.reach[point] - 1]]


def run_one(case: _opplab.Case | str, check: bool, check_determinism: bool, latencies: bool = False) -> _opplab.Outcome:
    """Run a case; what a worker does, which in another process has it as text."""
    if isinstance(case, str):
        case = _opplab.Case.from_json(case)
    outcome = case.run(check, latencies)
    if check_determinism:
        again = case.run(False, latencies)
        different = [key for key, value in again.items() if outcome[key] != value]  # type: ignore[literal-required]
        if different:
            raise CheckError(f"two runs of the same case differ in {', '.join(different)}")
    return outcome


class _Turns:
    """Lets so many threads run cases at a time; once the sweep ends, none that waits begins."""

    def __init__(self, jobs: int) -> None:
        self._free = threading.Semaphore(max(jobs, 1))
        self.ended = False

    @contextmanager
    def turn(self) -> Iterator[None]:
        with self._free:
            if self.ended:
                raise CancelledError
            yield


@contextmanager
def _executor(executor: Executor | None, jobs: int) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    own_threads = "opplab"
    own = ThreadPoolExecutor(max_workers=jobs + WRITERS, thread_name_prefix=own_threads)
    try:
        with plain_interrupts():
            yield own
    except KeyboardInterrupt:
        # Cases that have begun get the second that most take; longer ones end with the program, the others are dropped.
        own.shutdown(wait=False, cancel_futures=True)
        until = time.monotonic() + GRACE_S
        while time.monotonic() < until and any(one.name.startswith(own_threads) for one in threading.enumerate()):
            time.sleep(0.01)
        raise
    except BaseException:
        own.shutdown(wait=True, cancel_futures=True)
        raise
    own.shutdown(wait=True)


def run_cases(
    cases: Sequence[Case],
    store: Store | None = None,
    *,
    executor: Executor | None = None,
    jobs: int = 1,
    check: bool = False,
    check_determinism: bool = False,
    retry_failed: bool = False,
    until: Until | None = None,
    latencies: bool = False,
    progress: Callable[[Tally], None] | None = None,
    keep: Callable[[Case, Measured], None] | None = None,
) -> Tally:
    """Run the cases that `store` does not hold yet.

    Parameters
    ----------
    store : Store, optional
        Where results go.
    executor : concurrent.futures.Executor, optional
        Who works; by default `jobs` threads of this process.
    jobs : int
        Number of threads, or of cases that an executor gets at one time.
    check : bool
        Run the invariant checks, too.
    check_determinism : bool
        Run each case twice and compare.
    retry_failed : bool
        Run the cases again that failed before.
    until : Until, optional
        Stop a point's iterations when there are enough; the iterations of `cases` are the most.
    latencies : bool
        Measure how long tasks wait, too.
    progress : callable, optional
        Called with the tally after every case.
    keep : callable, optional
        Called with every case and its results, in the order in which they finish.
    """
    done = store.whole(case.hash for case in cases) if store else set()
    failed_before = set() if store is None or retry_failed else set(store.failures())
    plan = _Plan(cases, until)
    tally = Tally(total=len(cases), names=names_of(cases))
    waiting: list[tuple[int, int, Case]] = []
    order = count()
    running: dict[Future[Any], Case] = {}
    finished: SimpleQueue[Future[Any]] = SimpleQueue()
    turns = _Turns(jobs)
    # A few more than there are workers, so that none waits for this process.
    room = 2 * max(jobs, 1) + (WRITERS if executor is None else 0)

    def want(more: Iterable[Case]) -> None:
        """Queue what is not there yet; what is there may show that still more is wanted."""
        queue = deque(more)
        while queue:
            case = queue.popleft()
            if case.hash in done:
                tally.skipped += 1
                value = _value(case, store.measured(case.hash), until.metric) if store and until else None
                queue.extend(plan.finished(case, value))
            elif case.hash in failed_before:
                tally.fail(case, "failed before (--retry-failed runs it again)")
                queue.extend(plan.finished(case, None))
            else:
                # The longest first, so that no long one is left for the end; equal ones in their order.
                heappush(waiting, (-case.size, next(order), case))

    def submit(pool: Executor) -> None:
        while waiting and len(running) < room:
            case = heappop(waiting)[2]
            how = (check, check_determinism, latencies)
            future: Future[Any]
            if executor is None:
                future = pool.submit(_run_and_keep, case, store, turns, *how)
            else:
                future = pool.submit(run_one, case.json, *how)
            running[future] = case
            future.add_done_callback(finished.put)

    want([case for case in cases if plan.chosen(case)])
    with _executor(executor, jobs) as pool:
        try:
            submit(pool)
            while running:
                future = finished.get()
                case = running.pop(future)
                found = _finish(case, future, store, tally, keep)
                want(plan.finished(case, None if found is None or until is None else _value(case, found, until.metric)))
                submit(pool)
                if progress:
                    progress(tally)
        finally:
            turns.ended = True
            for future in running:
                future.cancel()
    tally.wanted = [case.hash for case in cases if plan.chosen(case)]
    tally.spared = len(cases) - len(tally.wanted)
    return tally


def _value(case: Case, measured: Measured, metric: str) -> float:
    """Find the value of a metric of one case."""
    for name, _, _, value in measured.rows:
        if name == metric:
            if value is None:
                why = f"{case.machine} has no power" if is_of_power(metric) else f"{case.label} has none"
                raise InputError(f"`until` names the metric '{metric}', which is unknown: {why}")
            return value
    raise InputError(f"`until` names the metric '{metric}', which no case has (there is: energy, rate, ...)")


def _run_and_keep(case: Case, store: Store | None, turns: _Turns, *how: bool) -> tuple[_opplab.Outcome, Measured]:
    """Run a case in a thread of this process, which also writes its file: threads wait for the disk side by side."""
    with turns.turn():
        outcome = run_one(case.inner, *how)
    return outcome, _kept(case, outcome, store)


def _kept(case: Case, outcome: _opplab.Outcome, store: Store | None) -> Measured:
    measured = Measured.of(case, outcome)
    if store:
        store.put(case.hash, measured)
    return measured


def _finish(
    case: Case,
    future: Future[Any],
    store: Store | None,
    tally: Tally,
    keep: Callable[[Case, Measured], None] | None,
) -> Measured | None:
    """Keep what came of a case: its results, which are given, or its error."""
    try:
        found = future.result()
    except Exception as error:
        # A case that kills every worker that runs it is a failing case as well; anything else is not the case's fault.
        if not isinstance(error, OpplabError) and type(error).__name__ != "KilledWorker":
            raise
        tally.fail(case, str(error))
        if store:
            store.put_failure(case.hash, tally.names[case.hash], str(error))
        return None
    measured: Measured
    outcome, measured = found if isinstance(found, tuple) else (found, _kept(case, found, store))
    if keep:
        keep(case, measured)
    tally.done += 1
    tally.simulated_ns += outcome["wall_ns"]
    return measured
