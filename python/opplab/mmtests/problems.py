"""Errors that a user of results can make."""

from __future__ import annotations

from opplab.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class UnknownName(InputError):
    """A benchmark, run, monitor or metric that is not there; names the nearest one that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        from difflib import get_close_matches

        known = list(known)
        near = get_close_matches(name, known, 1, 0.6)
        message = f"no {kind} named '{name}'"
        if near:
            message += f"; did you mean '{near[0]}'?"
        elif known:
            message += f"; there is: {', '.join(known)}"
        super().__init__(message)
        self.kind = kind
        self.name = name
        self.known = known
