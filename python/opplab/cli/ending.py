"""How the program ends: one line for mistakes of the user, a report for ours, quiet when nobody reads.

Nothing is imported here that the short way of `opplab compare` would have to wait for.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import sys
from typing import Any

INTERNAL = 70
"""Exit code of our own mistakes."""

READER_GONE = 141
"""Exit code where the reader of a pipe went away: as if SIGPIPE had ended the program."""

INTERRUPTED = 130
"""Exit code after Ctrl-C."""

DAMAGED_OK = "opplab.damaged_ok"
"""Key of a context's `meta`, which the contexts of one call share: damaged traces are accepted."""


def is_debug() -> bool:
    """Whether tracebacks are wanted: ``OPPLAB_DEBUG=1``."""
    return os.environ.get("OPPLAB_DEBUG", "") not in ("", "0")


class Patient(io.FileIO):
    """A stream that gives all or fails: where a pipe is full, a write waits for the reader, whatever its mode."""

    def write(self, data: Any, /) -> int:
        """Write all of it."""
        rest = memoryview(data).cast("B")
        n_bytes = len(rest)
        while rest:
            written = super().write(rest)
            if written is None:
                select.select([], [self], [])
            rest = rest[written or 0 :]
        return n_bytes


def open_streams() -> None:
    """Make standard streams lead somewhere and write all that they are given.

    Those that were closed lead nowhere, so that no file gets their numbers and their output.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
        stream = getattr(sys, name)
        buffer: Any = getattr(stream, "buffer", None)
        if mode == "w" and type(getattr(buffer, "raw", buffer)) is io.FileIO and buffer.fileno() == number:
            stream.flush()
            patient = io.BufferedWriter(Patient(number, "w", closefd=False))
            # A character that the terminal's encoding lacks is shown by its code.
            errors = "backslashreplace" if stream.errors == "strict" else stream.errors
            form = {"encoding": stream.encoding, "errors": errors, "line_buffering": stream.line_buffering}
            setattr(sys, name, io.TextIOWrapper(patient, write_through=stream.write_through, **form))


def leave(code: int) -> None:
    """End with that exit code, and without a word about what cannot be written any more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError) as error:
            if stream is sys.stdout and code == 0:
                code = READER_GONE if isinstance(error, BrokenPipeError) else 2
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            except (OSError, ValueError):
                os._exit(code)
    if code == INTERRUPTED:
        # Python would wait for cases that run in threads, however long; their files appear whole or not at all.
        # It would end by SIGINT, not with this code, where that came within `exec()`, as a dataclass was made.
        os._exit(code)
    sys.exit(code)


def code_of(error: BaseException) -> int:
    """Describe what ended the program, and give its exit code."""
    from opplab.errors import InternalError, OpplabError, is_interrupt

    if isinstance(error, BrokenPipeError):
        return READER_GONE
    if is_interrupt(error):
        return _say("interrupted", INTERRUPTED)
    if isinstance(error, OSError):
        return _say(f"{error.filename}: {error.strerror}" if error.filename else str(error), 2)
    if isinstance(error, UnicodeError):
        return _say(f"a name is not UTF-8 text: {getattr(error, 'object', error)!r}", 2)
    if isinstance(error, RecursionError):
        return _say("the input is nested too deeply", 2)
    if isinstance(error, MemoryError):
        return _say("not enough memory for that", 2)
    if isinstance(error, OpplabError) and not isinstance(error, InternalError):
        return _say(str(error), 2)
    if isinstance(error, ValueError) and "integer string conversion" in str(error):
        # Python's bound on what takes quadratic time; nothing that is meant has 4300 digits.
        return _say("a number has more digits than any that is meant", 2)
    if lack := _lack(error):
        return _say(lack, 2)
    # A panic that no call into the extension caught on its way.
    what = str(error) if isinstance(error, InternalError) else f"internal error: {type(error).__name__}: {error}"
    what = what.removesuffix("; this is a bug in opplab, please report it")
    place = _report(error)
    where = f"please send the report {place}" if place else "please report it"
    return _say(f"{what}; this is a bug in opplab, {where} (OPPLAB_DEBUG=1 shows where)", INTERNAL)


DESCRIPTORS_MIN = 64
"""Fewer open files than polars, numpy and a results folder may want at a time."""

DESCRIPTORS_FREE = 16
"""With fewer, polars panics in threads of its own, or a whole table passes for a damaged one."""

HEADROOM_BYTES = 1 << 30
"""Address space that libraries reserve for their threads and buffers."""


def check_limits() -> None:
    """Refuse to begin with too few open files or too little address space; libraries fail half-way, in their own words.

    Raises
    ------
    InputError
    """
    from opplab.errors import InputError

    held: list[int] = []
    try:
        while len(held) < DESCRIPTORS_FREE:
            held.append(os.dup(2))
    except OSError as error:
        if error.errno == errno.EMFILE:
            raise InputError(_few_files()) from None
    finally:
        for number in held:
            os.close(number)
    if _is_space_short():
        raise InputError(_little_space())


def _few_files() -> str:
    import resource

    return f"not enough open files for that: the limit is {resource.getrlimit(resource.RLIMIT_NOFILE)[0]} (ulimit -n)"


def _little_space() -> str:
    import resource

    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit = f": the limit is {space >> 20} MB of address space (ulimit -v)" if space >= 0 else ""
    return f"not enough memory for that{limit}"


def _is_space_short() -> bool:
    """Whether a limit leaves less address space than libraries reserve."""
    import resource

    space = resource.getrlimit(resource.RLIMIT_AS)[0]
    try:
        with open("/proc/self/statm", "rb") as stream:  # noqa: PTH123
            used = int(stream.read().split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        used = 0
    return 0 <= space < used + HEADROOM_BYTES


def _lack(error: BaseException) -> str:
    """Name the resource that a failure in some library is for want of, if it is."""
    import resource

    told, seen = [], error
    while seen is not None:
        told.append(f"{type(seen).__name__}: {seen}")
        seen = seen.__cause__ or seen.__context__  # type: ignore[assignment]
    said = " ".join(told)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if "Too many open files" in said or 0 <= files < DESCRIPTORS_MIN:
        return _few_files()
    # polars' own errors of a full disk are no OSError and name no file.
    if number := re.search(r"\(os error (\d+)\)|\bOs { code: (\d+)", said):
        return f"a table cannot be read or written: {os.strerror(int(number[1] or number[2]))}"
    # Its Parquet writer forgets the number where the end of a file finds no room.
    if "Invalid thrift: transport error" in said:
        return "a table cannot be written to its end: the disk is full, or files may not be as large (ulimit -f)"
    words = ("MemoryError", "Cannot allocate memory", "failed to map segment", "could not spawn threads")
    return _little_space() if any(word in said for word in words) or _is_space_short() else ""


def _say(what: str, code: int) -> int:
    import contextlib

    # Nobody may be there to read it.
    with contextlib.suppress(OSError):
        sys.stderr.write(f"opplab: {what}\n")
    return code


def _report(error: BaseException) -> str:
    """Write what we want to know of our mistake to a file; gives its name, or nothing where that fails."""
    import platform
    import tempfile
    import traceback

    try:
        from importlib.metadata import version

        number, name = tempfile.mkstemp(".txt", "opplab-internal-error-", os.environ.get("OPPLAB_REPORTS"))
        with open(number, "w", encoding="utf-8", errors="backslashreplace") as stream:  # noqa: PTH123
            stream.write(f"opplab {version('opplab')}, Python {platform.python_version()}, {platform.platform()}\n")
            stream.write(f"words: {sys.argv[1:]!r}\n\n")
            stream.write("".join(traceback.format_exception(error)))
    except Exception:
        return ""
    return name
