"""Many cases on many workers: the same results whatever the executor and the order.

A case is a string of JSON that says everything; a worker is any `concurrent.futures.Executor` (threads in this process
by default: a run releases the interpreter; a process pool or Dask's executor work as well).  Results are written by the
process that sweeps, as they come in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opplab.errors import CheckError, OpplabError

if TYPE_CHECKING:
    from opplab.cases import Case
    from opplab.store import Store


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
    simulated_ns: int = 0
    """Simulated time of the cases that this sweep finished."""
    problems: list[str] = field(default_factory=list)
    """One line a failed case."""


def run_one(case_json: str, check: bool, check_determinism: bool) -> dict[str, Any]:
    """Run a case; what a worker does."""
    from opplab import _opplab

    case = _opplab.Case.from_json(case_json)
    outcome = case.run(check)
    if check_determinism:
        again = _opplab.Case.from_json(case_json).run(False)
        if again != outcome:
            different = [key for key in outcome if outcome[key] != again[key]]
            raise CheckError(f"two runs of the same case differ in {', '.join(different)}")
    return outcome


@contextmanager
def _executor(executor: Executor | None, jobs: int) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    own = ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="opplab")
    try:
        yield own
    finally:
        # Runs that have begun take well under a second each; those that have not are dropped.
        own.shutdown(wait=True, cancel_futures=True)


def run_cases(
    cases: Sequence[Case],
    store: Store | None = None,
    *,
    executor: Executor | None = None,
    jobs: int = 1,
    check: bool = False,
    check_determinism: bool = False,
    retry_failed: bool = False,
    progress: Callable[[Tally], None] | None = None,
    keep: Callable[[Case, list[dict[str, Any]]], None] | None = None,
) -> Tally:
    """Run the cases that `store` does not hold yet.

    Parameters
    ----------
    cases : sequence of Case
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
    progress : callable, optional
        Called with the tally after every case.
    keep : callable, optional
        Called with every case and its result rows, in the order in which they finish.

    Returns
    -------
    Tally
    """
    from opplab.cases import rows_of

    done = store.finished() if store else set()
    failed_before = set() if store is None or retry_failed else set(store.failures())
    todo = [case for case in cases if case.hash not in done and case.hash not in failed_before]
    tally = Tally(total=len(cases), skipped=sum(case.hash in done for case in cases))
    for case in cases:
        if case.hash in failed_before and case.hash not in done:
            tally.failed += 1
            tally.problems.append(f"{case.label}: failed before (--retry-failed runs it again)")
    waiting = iter(todo)
    running: dict[Future[dict[str, Any]], Case] = {}

    def submit(pool: Executor) -> bool:
        case = next(waiting, None)
        if case is None:
            return False
        running[pool.submit(run_one, case.json, check, check_determinism)] = case
        return True

    with _executor(executor, jobs) as pool:
        try:
            # A few more than there are workers, so that none waits for this process.
            for _ in range(2 * max(jobs, 1)):
                if not submit(pool):
                    break
            while running:
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    case = running.pop(future)
                    _finish(case, future, store, tally, keep, rows_of)
                    submit(pool)
                    if progress:
                        progress(tally)
        finally:
            for future in running:
                future.cancel()
    return tally


def _finish(
    case: Case,
    future: Future[dict[str, Any]],
    store: Store | None,
    tally: Tally,
    keep: Callable[[Case, list[dict[str, Any]]], None] | None,
    rows_of: Callable[[Case, dict[str, Any]], list[dict[str, Any]]],
) -> None:
    try:
        outcome = future.result()
    except OpplabError as error:
        tally.failed += 1
        tally.problems.append(f"{case.label}: {error}")
        if store:
            store.put_failure(case.hash, case.label, str(error))
        return
    rows = rows_of(case, outcome)
    if store:
        store.put(case.hash, rows)
    if keep:
        keep(case, rows)
    tally.done += 1
    tally.simulated_ns += outcome["wall_ns"]
