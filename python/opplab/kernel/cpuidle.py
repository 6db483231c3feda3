"""Idle governors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from opplab.kernel.native import native as _kernel


class IdleGovernor(_kernel.IdleGovernor):
    """A cpuidle governor for one CPU.

    Parameters
    ----------
    name : {"menu", "teo", "ladder", "haltpoll"}
        Which.
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.
    kernel : str
        The kernel profile whose menu or teo it is; the others are those of v6.12.

    Raises
    ------
    InputError
        An unknown governor or kernel, or an empty table.

    Notes
    -----
    ``select(now_ns, sleep_length_ns=, delta_tick_ns=, latency_req_ns=, disabled=, tick_stopped=,
    nr_iowaiters=, utilized=)`` chooses: the index of a state, and whether to stop the tick.  ``reflect(now_ns, index=,
    residency_ns=, got_tick=, poll_time_limit=)`` records how it ended, or ``reject()`` that the driver refused it.
    A CPU that uses more than 1/64 of its capacity is ``utilized``; teo of v6.3 to v6.10 goes by that.
    Source: drivers/cpuidle/governors/, v6.12.

    Examples
    --------
    >>> governor = IdleGovernor("ladder", [(0, 0, True), (2_000, 20_000, False)])
    >>> governor.select(0, sleep_length_ns=5_000_000)
    (1, True)
    """

    __slots__ = ()


class Menu(IdleGovernor):
    """The idle governor menu for one CPU; see `IdleGovernor`.

    Parameters
    ----------
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.
    kernel : str
        The kernel profile whose menu it is.

    Notes
    -----
    Source: drivers/cpuidle/governors/menu.c, v6.12.

    Examples
    --------
    Timers are 5 ms away, but the CPU wakes after 30 us eight times; then it expects that again:

    >>> menu = Menu([(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)])
    >>> for at_us in range(0, 800_000, 100_000):
    ...     index, _ = menu.select(at_us * 1_000, sleep_length_ns=5_000_000)
    ...     menu.reflect(at_us * 1_000 + 30_000, index=index, residency_ns=30_000)
    >>> menu.select(800_000_000, sleep_length_ns=5_000_000)
    (1, False)
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls, states: Sequence[tuple[int, int, bool]], *, tick_ns: int = 4_000_000, kernel: str = "6.12.117"
    ) -> Self:
        return super().__new__(cls, "menu", states, tick_ns=tick_ns, kernel=kernel)


class Teo(IdleGovernor):
    """The idle governor teo for one CPU; see `IdleGovernor`.

    Parameters
    ----------
    states : sequence of (int, int, bool)
        (exit latency in ns, target residency in ns, polling), shallowest first.
    tick_ns : int
        The length of a tick.
    kernel : str
        The kernel profile whose teo it is.

    Notes
    -----
    Source: drivers/cpuidle/governors/teo.c, v6.12.

    Examples
    --------
    >>> teo = Teo([(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)])
    >>> teo.select(0, sleep_length_ns=5_000_000)
    (2, True)

    On a CPU in use v6.3 to v6.10 take a shallower state:

    >>> Teo([(0, 0, True), (2_000, 20_000, False), (50_000, 600_000, False)], kernel="6.8").select(
    ...     0, sleep_length_ns=5_000_000, utilized=True
    ... )
    (1, True)
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls, states: Sequence[tuple[int, int, bool]], *, tick_ns: int = 4_000_000, kernel: str = "6.12.117"
    ) -> Self:
        return super().__new__(cls, "teo", states, tick_ns=tick_ns, kernel=kernel)
