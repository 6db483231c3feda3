"""Errors that a user of results can make."""

from __future__ import annotations

from opplab.errors import InputError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word of `words` that is most like `word`, or None."""
    from difflib import get_close_matches

    found = get_close_matches(word, list(words), 1, 0.4)
    return found[0] if found else None


class UnknownName(InputError):
    """A benchmark, run, monitor or metric that is not there; names the nearest one that is."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = list(known)
        near = nearest(name, known)
        message = f"no {kind} named '{name}'"
        if near is not None:
            message += f"; did you mean '{near}'?"
        elif known:
            message += f"; there is: {', '.join(known)}"
        super().__init__(message)
        self.kind = kind
        self.name = name
        self.known = known
