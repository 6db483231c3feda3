"""Errors that a user of results can make."""

from __future__ import annotations

from opplab.errors import InputError, near_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class UnknownName(InputError):
    """A benchmark, run, monitor or metric that is not there; names the nearest one that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        near = near_names(name, known)
        message = f"no {kind} named '{name}'"
        if near:
            message += f"; did you mean {' or '.join(map(repr, near))}?"
        elif known:
            message += f"; there is: {', '.join(known)}"
        super().__init__(message)
        self.kind = kind
        self.name = name
        self.known = known
