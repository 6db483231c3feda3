"""The exceptions of opplab: one tree under `OpplabError`.

What the operating system refuses stays `FileNotFoundError`, `PermissionError` and so on.
"""

from __future__ import annotations

from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class OpplabError(Exception):
    """What opplab raises; its text is one clear line."""


class InputError(OpplabError):
    """Something that was asked for does not exist or does not fit."""


class FormatError(InputError):
    """A file does not have the form that it should have.

    Parameters
    ----------
    message : str
        The whole line, which begins with ``file:line:column:`` as far as they are known.
    file : str, optional
        The file's name.
    line, column : int, optional
        Place in the file, from 1.

    Examples
    --------
    >>> error = FormatError("m.toml:3:1: unknown key `opps`", file="m.toml", line=3, column=1)
    >>> error.line
    3
    """

    def __init__(
        self, message: str, *, file: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.column = column

    @classmethod
    def at(cls, file: object, line: int, what: str, column: int | None = None) -> FormatError:
        """Make one of a file's name, a place in it, and what is wrong there.

        Examples
        --------
        >>> str(FormatError.at("m.csv", 3, "`khz` is not a number"))
        'm.csv:3: `khz` is not a number'
        """
        place = f"{line}" if column is None else f"{line}:{column}"
        return cls(f"{file}:{place}: {what}", file=str(file), line=line, column=column)


class CaseError(InputError):
    """A case cannot run: the policy and the workload do not fit the machine."""


class CheckError(OpplabError):
    """A check did not hold: an invariant of a run, or the equality of two runs of one case."""


class InternalError(OpplabError):
    """A mistake in opplab itself."""


def near_names(name: str, known: Iterable[str]) -> list[str]:
    """Give the valid names that somebody may have meant: those that begin with it, at most three, or the nearest one.

    Examples
    --------
    >>> near_names("hackbench", ["tbench", "hackbench-process-pipes"])
    ['hackbench-process-pipes']
    >>> near_names("juno-r3", ["juno-r0", "juno-r2", "pixel6"])
    ['juno-r2']
    """
    from difflib import get_close_matches

    known = sorted(known, reverse=True)
    longer = [one for one in known if len(name) > 2 and one.startswith(name)]
    return sorted(longer, key=len)[:3] or get_close_matches(name, known, 1, 0.6)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether that is Ctrl-C, or came of it: before Python 3.12 a class whose making it ends raises `RuntimeError`."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for each error that came of one."""
    try:
        yield
    except Exception as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise
