"""Load tracking: PELT of one signal and of many, its clock, and util_est."""

from __future__ import annotations

from collections.abc import Mapping
from operator import index
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from opplab.errors import InputError
from opplab.kernel.native import native as _kernel

if TYPE_CHECKING:
    import numpy.typing as npt

    from opplab.report.notebook import Picture


NICE_0_WEIGHT = 1024 << 10
PID_MAX_LIMIT = 4 << 20
"""Tasks that a kernel can have (include/linux/threads.h, v6.12)."""
ON_RQ = 1
"""Activity of a task: it is queued or runs."""
RUNNING = 2
"""Activity of a task, together with `ON_RQ`: it runs."""


class PeltSignals(NamedTuple):
    """The averages of a task after each of its updates."""

    util_avg: npt.NDArray[np.uint16]
    """Utilisation, 0..1024."""
    runnable_avg: npt.NDArray[np.uint32]
    """The same while it was queued, too; with scaled contributions ``runnable_load_avg``."""
    load_avg: npt.NDArray[np.uint32]
    """Load, in units of load weight (1024 for nice 0)."""


def plot_signals(times_ns: npt.ArrayLike, signals: Mapping[str, npt.ArrayLike]) -> Picture:
    """Draw signals against time, a curve each.

    Parameters
    ----------
    times_ns : array of int
        Times of the updates.
    signals : mapping of str to array
        A signal of as many values, such as `util_avg`, by its name.

    Returns
    -------
    Picture
        A notebook shows it; its method ``write`` makes a page or an ``.svg``.

    Examples
    --------
    >>> times = [1_000_000, 2_000_000]
    >>> plot_signals(times, {"util_avg": pelt(times, [True, True]).util_avg})
    Picture('0 to 2 ms')
    """
    from opplab.report.notebook import curves

    if not isinstance(signals, Mapping):
        raise InputError(f"signals are a mapping of names to arrays, not {type(signals).__name__}")
    times_ms = _times(times_ns) / 1e6
    lines = {name: np.asarray(values).tolist() for name, values in signals.items()}
    for name, values in lines.items():
        if len(values) != len(times_ms):
            raise InputError(f"`{name}` has {len(values)} values for {len(times_ms)} times")
    if not len(times_ms) or not lines:
        raise InputError("there is nothing to draw")
    return curves(f"0 to {times_ms[-1]:g} ms", times_ms.tolist(), lines, "time, ms", "of 1024")


def _times(times_ns: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    array = np.asarray(times_ns)
    if array.ndim != 1:
        raise InputError(f"times_ns has {array.ndim} dimensions, not 1")
    if array.dtype.kind not in "ui" and array.size:
        raise InputError(f"times_ns holds {array.dtype}, not integers")
    if array.dtype.kind == "i" and array.size and int(array.min()) < 0:
        raise InputError("times_ns holds negative times")
    return np.ascontiguousarray(array, dtype=np.uint64)


def _yes_or_no(name: str, given: npt.ArrayLike, times: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
    """Give whether it did so in each row; an unknown is neither."""
    array = np.asarray(given)
    if array.shape != times.shape:
        raise InputError(f"the arrays differ in length: {name} has the shape {array.shape}, times_ns {times.shape}")
    if array.dtype == np.bool_:
        return array
    if array.size and (array.dtype.kind not in "uif" or np.isnan(array).any()):
        raise InputError(f"{name} holds {array.dtype} that is neither true nor false")
    found: npt.NDArray[np.bool_] = array != 0
    return found


def _activity(
    running: npt.ArrayLike, runnable: npt.ArrayLike | None, times: npt.NDArray[np.uint64]
) -> npt.NDArray[np.uint8]:
    runs = _yes_or_no("running", running, times)
    if runnable is None:
        # 0 or 3: queued and running.
        return np.multiply(runs.view(np.uint8), ON_RQ | RUNNING, dtype=np.uint8)
    queued = _yes_or_no("runnable", runnable, times) | runs
    return np.ascontiguousarray(queued.astype(np.uint8) | (runs.astype(np.uint8) << 1))


def pelt(
    times_ns: npt.ArrayLike,
    running: npt.ArrayLike,
    *,
    runnable: npt.ArrayLike | None = None,
    freq_scale: npt.ArrayLike | None = None,
    capacity: int = 1024,
    invariance: str = "time-dilated",
    weight: int = NICE_0_WEIGHT,
    half_life: int = 32,
    start_ns: int | None = None,
) -> PeltSignals:
    """Track the load of one task that is alone on its CPU, over arrays.

    Parameters
    ----------
    times_ns : array of int
        When the task is updated, ascending, in ns (``rq_clock_task()``).
    running : array of bool
        Whether it ran from the update before to this one.
    runnable : array of bool, optional
        Whether it was queued or ran; `running` if not given.  While it is not, the CPU idles.
    freq_scale : array of int or int, optional
        The CPU's speed during each row, 0..1024 of its highest (``arch_scale_freq_capacity()``).
    capacity : int
        The CPU's capacity, 1..1024.
    invariance : {"time-dilated", "scaled-contribution", "none"}
        How the signal follows the speed: since v5.1, to v5.0, or not at all.  Without `freq_scale` and with full
        capacity there is nothing to follow.
    weight : int
        ``se->load.weight``; 1048576 for nice 0, below 2^41.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.
    start_ns : int, optional
        When the task appeared, without history; ``times_ns[0]`` if not given, so that the first row sets the clock.

    Returns
    -------
    PeltSignals
        One row an update.

    Raises
    ------
    InputError
        Arrays that differ in length, an unknown invariance or half-life, a speed or capacity out of range.

    Notes
    -----
    Source: kernel/sched/pelt.c:__update_load_avg_se(), update_rq_clock_pelt(); v6.12, and v4.19 for scaled
    contributions.

    Examples
    --------
    A task that never sleeps reaches half of 1024 after one half-life and 97 % after five:

    >>> signals = pelt(np.arange(200) << 20, np.ones(200, bool))
    >>> [int(signals.util_avg[32 * n]) for n in (1, 2, 5)]
    [512, 768, 992]
    """
    times = _times(times_ns)
    activity = _activity(running, runnable, times)
    if half_life not in (8, 16, 32):
        raise InputError(f"no half-life of {half_life} periods (there are 8, 16, 32)")
    if not 1 <= capacity <= 1024:
        raise InputError(f"a capacity of {capacity} is not within 1..1024")
    if freq_scale is None and capacity == 1024 and invariance == "time-dilated":
        invariance = "none"
    if invariance == "none":
        scale = np.empty(0, dtype=np.uint16)
    else:
        scales = np.asarray(1024 if freq_scale is None else freq_scale)
        if scales.dtype.kind not in "ui" and scales.size:
            raise InputError(f"freq_scale holds {scales.dtype}, not integers of 0..1024 (half speed is 512)")
        if scales.size and (int(scales.min()) < 0 or int(scales.max()) > 1024):
            raise InputError("freq_scale is not within 0..1024")
        scale = np.ascontiguousarray(
            np.broadcast_to(scales, times.shape) if scales.ndim == 0 else scales, dtype=np.uint16
        )
    if start_ns is None:
        start_ns = int(times[0]) if times.size else 0
    return PeltSignals(*_kernel.pelt(times, activity, scale, start_ns, weight, half_life, invariance, capacity))


class PeltBatch(_kernel.PeltBatch):
    """The load tracking of many tasks that are updated together.

    Parameters
    ----------
    n : int
        How many tasks.
    now_ns : int
        When they appear, without history.
    weight : int
        Their ``se->load.weight``.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.

    Attributes
    ----------
    util_avg, runnable_avg, load_avg : array of uint64
        A copy of every task's average.

    Notes
    -----
    ``update_load_avg_se(now_ns, activity)`` updates all tasks; `activity` is an array of uint8, 0 for a task that
    slept, `ON_RQ` for one that waited, ``ON_RQ | RUNNING`` for one that ran.  It returns how many averages were
    recomputed.
    Source: kernel/sched/pelt.c:__update_load_avg_se(), v6.12.

    Examples
    --------
    >>> batch = PeltBatch(3)
    >>> batch.update_load_avg_se(32 << 20, np.array([0, ON_RQ, ON_RQ | RUNNING], dtype=np.uint8))
    3
    >>> batch.util_avg, batch.runnable_avg
    (array([  0,   0, 512], dtype=uint64), array([  0, 512, 512], dtype=uint64))
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls, n: int, *, now_ns: int = 0, weight: int = NICE_0_WEIGHT, half_life: int = 32
    ) -> Self:
        if index(n) > PID_MAX_LIMIT:
            raise InputError(f"{n} tasks are more than a kernel can have, {PID_MAX_LIMIT}")
        return super().__new__(cls, n, now_ns=now_ns, weight=weight, half_life=half_life)


class SchedAvg(_kernel.SchedAvg):
    """The load tracking state of a task or a run queue.

    Parameters
    ----------
    now_ns : int
        ``last_update_time``.
    half_life : {32, 16, 8}
        In periods of 1.048576 ms.

    Attributes
    ----------
    util_avg, runnable_avg, load_avg : int
        The averages, of 1024; of the load weight.
    util_sum, runnable_sum, load_sum : int
        The decayed sums, in units of 1024 ns (times 1024 for the first two).
    last_update_time : int
        In ns.
    period_contrib : int
        Units of the open period that are accounted already.

    Notes
    -----
    ``update_load_avg_se(now_ns, on_rq=, running=, weight=)``, ``update_load_avg_blocked_se(now_ns, weight=)`` and
    ``update_load_avg_cfs_rq(now_ns, load_weight=, nr_runnable=, has_curr=)`` account the time up to ``now_ns`` on
    PELT's clock, and report whether the averages were recomputed.
    Source: include/linux/sched.h: struct sched_avg, kernel/sched/pelt.c; v6.12.

    Examples
    --------
    >>> sa = SchedAvg()
    >>> sa.update_load_avg_se(10_000_000, on_rq=True, running=True)
    True
    >>> sa  # doctest: +NORMALIZE_WHITESPACE
    SchedAvg(last_update_time=9999360, load_sum=8824, runnable_sum=9035776, util_sum=9035776, period_contrib=549,
             load_avg=191, runnable_avg=191, util_avg=191, util_est=0)
    """

    __slots__ = ()


def decay_load(val: int, n: int, *, half_life: int = 32) -> int:
    """Let a sum fade over `n` periods of 1.048576 ms.

    Notes
    -----
    Source: kernel/sched/pelt.c:decay_load(), v6.12.

    Examples
    --------
    >>> decay_load(47742, 32), decay_load(47742, 64)
    (23870, 11934)
    """
    return _kernel.decay_load(val, n, half_life)


def ramp_up_periods(util: int, *, half_life: int = 32) -> int | None:
    """Give the periods of 1.048576 ms that a task which runs without pause needs until it has a ``util_avg`` of `util`.

    Returns
    -------
    int or None
        None if it never gets there.

    Notes
    -----
    Source: from kernel/sched/pelt.c, v6.12.

    Examples
    --------
    >>> [ramp_up_periods(819, half_life=periods) for periods in (32, 16, 8)]
    [75, 38, 19]
    """
    return _kernel.ramp_up_periods(util, half_life)


class ClockPelt(_kernel.ClockPelt):
    """The clocks of a run queue, of which PELT's is dilated by the CPU's speed and catches up when the CPU idles.

    Parameters
    ----------
    now_ns : int
        All clocks' start.
    capacity : int
        ``arch_scale_cpu_capacity()``, 1..1024.
    irq_time_ns : int
        Where the cumulative interrupt time starts.

    Attributes
    ----------
    now_ns : int
        ``rq_clock_pelt()``: what PELT takes for the time.
    clock, clock_task, clock_pelt, lost_idle_time : int
        The fields of ``struct rq``, in ns.

    Notes
    -----
    ``update_rq_clock(now_ns, idle=, freq_scale=, irq_time_ns=)`` brings the clocks up to now; `freq_scale` is what the
    time since the last call ran at.  ``update_idle_rq_clock_pelt(util_sum)`` is called when the run queue is about to
    idle, with the sum of its classes' ``util_sum``.  Both return ``now_ns``.
    Source: kernel/sched/pelt.h, v6.12 (time dilation since v5.1).

    Examples
    --------
    >>> clock = ClockPelt(capacity=512)
    >>> clock.update_rq_clock(4_000_000, idle=False)
    2000000
    >>> clock.update_idle_rq_clock_pelt()
    4000000
    """

    __slots__ = ()


class UtilEst(_kernel.UtilEst):
    """A task's estimated utilisation over its activations.

    Parameters
    ----------
    kernel : str
        A kernel profile; before v6.8 the estimate is a pair of values.

    Attributes
    ----------
    util_est : int
        The estimate, 0..1024.

    Notes
    -----
    ``util_est_update(util_avg, runnable_avg=, capacity=, task_sleep=)`` ends an activation and returns the estimate; a
    second one without ``util_change()`` (the averages moved) between them changes nothing.  ``task_util_est(util_avg)``
    is the larger one of the two.
    Source: kernel/sched/fair.c:util_est_update(), v6.12, and v4.17 to v6.7.

    Examples
    --------
    >>> estimate = UtilEst()
    >>> for util_avg in (400, 100, 100):
    ...     estimate.util_change()
    ...     print(estimate.util_est_update(util_avg))
    400
    325
    268
    """

    __slots__ = ()
