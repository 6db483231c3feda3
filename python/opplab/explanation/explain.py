"""Why a CPU had its frequency, why a task ran where it ran, why CPUs were slow: decisions in words and numbers.

A run keeps no records; it is deterministic, so that it is made again with decision records on, which leaves its events
as they were.  Each finding has a sentence and the numbers that it was made of.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opplab import _opplab
from opplab.errors import InputError
from opplab.explanation.cases import case_of
from opplab.explanation.findings import Explanation, cpu_list, seconds
from opplab.explanation.placement import cpu_findings, task_findings
from opplab.explanation.recordings import explain_trace, is_trace
from opplab.explanation.records import Records, task_index
from opplab.explanation.response import of_run, response_findings
from opplab.explanation.slow import budgets_that_acted, quotas_that_acted, slow_cpus
from opplab.simulation.machine import Machine
from opplab.simulation.run import check_number

if TYPE_CHECKING:
    from decimal import Decimal

    from opplab.simulation.run import Run


def explain(
    run: Run | _opplab.Case | str | Path,
    *,
    cpu: int | None = None,
    task: str | int | None = None,
    at: float | Decimal | None = None,
    why_slow: bool = False,
    machine: Machine | str | Path | None = None,
    recorded_governor: str | None = None,
    pelt_half_life_ms: int | None = None,
) -> Explanation:
    """Explain the decisions of a run, or of a traced kernel.

    Parameters
    ----------
    run : Run, str or Path
        A run, or what `opplab explain` takes: a case's JSON file, a results folder, ``EXPERIMENT:CASE``; or a trace,
        or the folder or archive of a recording.  Of a trace the kernel's own records are explained where it has them.
        Else a CPU's clock is explained by what schedutil decides on the averages that are rebuilt from the events, a
        task's CPU and slow CPUs by a run of the recovered workload (the closed loop of `opplab replay`).
    cpu : int, optional
        CPU whose task and frequency to explain.
    task : str or int, optional
        Task whose placement to explain, by name or index; ``NAME#0``, ``NAME#1``, ... of several of one name,
        in a trace a pid or ``NAME#2``, ``NAME#3``, ...
    at : float or Decimal, optional
        The point in time, in seconds from the start of the run, with its warm-up; for a CPU the middle of the run, for
        a task its end, if it is not given. Of a trace it is a time of its clock, or, if that is before its first
        event, so long after that; a `Decimal` where a float has too few digits.
    why_slow : bool
        Explain where CPUs ran below their tasks' need, over the whole run; with `task` what its slow activations are
        made of.
    machine : Machine, str or Path, optional
        Machine of a trace, or its name, or the path of a ``.toml``; by default the snapshot beside or inside it.
    recorded_governor : str, optional
        Governor of a trace that does not name it; by default that of the snapshot beside or inside it.
    pelt_half_life_ms : {8, 16, 32}, optional
        Half-life of a traced kernel's load tracking; by default what the trace or the snapshot shows, else 32.

    Returns
    -------
    Explanation
        ``str()`` of it is the text; it iterates over `Finding`.

    Examples
    --------
    >>> import opplab
    >>> work = opplab.Workload.periodic(3, run_us=1600, period_us=16000)
    >>> run = opplab.simulate("juno-r2", work, seconds=0.2)
    >>> why = opplab.explain(run, task="periodic1", at=0.1)
    >>> sorted({finding.kind for finding in why} & {"summary", "placement", "candidate", "choice"})
    ['candidate', 'choice', 'placement', 'summary']
    """
    if (cpu is not None) + (task is not None or why_slow) != 1:
        raise InputError("ask about one thing: a CPU, a task, or why CPUs or a task were slow")
    if task is not None and why_slow and at is not None:
        raise InputError("a task was slow over the whole run: leave out the point in time")
    if at is not None:
        check_number("at", at)
    if isinstance(run, str | Path) and is_trace(Path(run)):
        on = None if machine is None else Machine.of(machine)
        return explain_trace(Path(run), on, cpu, task, at, recorded_governor, pelt_half_life_ms, why_slow=why_slow)
    if pelt_half_life_ms is not None:
        raise InputError("a half-life is that of a trace; a run has its policy's")
    # Of several machines' cases the refusal names the labels, which have the machine.
    case = case_of(run)
    if machine is not None:
        raise InputError("a machine is what a trace ran on; a run has its own")
    if why_slow and task is None:
        return slow_cpus(case)
    records = Records(case)
    if why_slow:
        index = task_index(records, task)
        timeline, activations = of_run(records, index)
        found = response_findings(records.task(index), timeline, index, activations, dict(enumerate(records.names)))
        more = [
            *budgets_that_acted(records.names, records.throttles, index),
            *quotas_that_acted(records.outcome, index),
        ]
        return Explanation(records.about(), [*found, *more])
    if at is not None and not 0 <= at * 10**9 <= records.end_ns:
        raise InputError(f"{at:g} s is not within the run, which ends at {seconds(records.end_ns)}")
    at_ns = None if at is None else round(at * 10**9)
    if cpu is not None:
        if cpu not in records.policy_of:
            cpus = cpu_list(sorted(records.policy_of))
            raise InputError(f"there is no CPU {cpu}; machine {records.facts['machine']} has {cpus}")
        return Explanation(records.about(), cpu_findings(records, cpu, records.end_ns // 2 if at_ns is None else at_ns))
    return Explanation(records.about(), task_findings(records, task_index(records, task), at_ns))
