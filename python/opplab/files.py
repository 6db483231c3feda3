"""Files in and out: what is read has a bound, what is written is there whole or not at all, and names are only names.

Everything that opens a file for a command goes through here or through crate `trace`, which has the same bounds.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.errors import FormatError, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Guard", "check_size", "printable", "read_bytes", "read_text", "replacing", "safe_name", "write_text"]

TEXT_BYTES_MAX = 64 << 20
"""The most that is read of a machine, workload, experiment or case: the largest real ones have some hundred kB."""

TABLE_BYTES_MAX = 2 << 30
"""The most that is read of a table of results."""

NAME_BYTES_MAX = 120
"""The longest name that is made of a label; file systems take 255 bytes, and endings follow."""


def safe_name(label: str) -> str:
    r"""Make a file's name of a label that may be anything.

    A harmless label is its own name.  Of others, what could leave a folder, hide a file or write to a terminal becomes
    ``_``, and a digest of the label keeps apart what would be called the same.

    Examples
    --------
    >>> safe_name("tbench-1-schedutil")
    'tbench-1-schedutil'
    >>> safe_name("../../x")
    '_._.._x-9cdf6a50'
    >>> safe_name("a/b") == safe_name("a\nb")
    False
    """
    name = "".join(char if char.isprintable() and char not in "/\\" else "_" for char in label).strip()
    if name.startswith((".", "-")):
        name = f"_{name[1:]}"
    name = name.encode("utf-8", "replace")[:NAME_BYTES_MAX].decode("utf-8", "ignore")
    if name == label and name:
        return name
    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name or 'unnamed'}-{digest}"


def printable(text: str) -> str:
    r"""Give a text without what a terminal would obey: control characters other than line ends and tabs are shown.

    Examples
    --------
    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\n'
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if char in "\n\t" or not _obeyed(char) else _shown(char) for char in text)


def _obeyed(char: str) -> bool:
    code = ord(char)
    # C0, DEL, C1; marks that turn the direction of writing; halves of surrogate pairs.
    turning = 0x202A <= code <= 0x202E or 0x2066 <= code <= 0x2069
    return code < 0x20 or 0x7F <= code < 0xA0 or turning or 0xD800 <= code < 0xE000


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code < 0xDD00:
        # A byte of a path that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class Guard:
    """A text stream that lets nothing through that a terminal would obey: names come from files of others."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; control characters are shown."""
        self._stream.write(printable(text))
        return len(text)

    @property
    def unguarded(self) -> Any:
        """The stream itself, for who writes colours and has cleaned what it shows."""
        return self._stream

    def writelines(self, lines: Any) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _shown_path(path: Path) -> str:
    return printable(str(path))


def check_size(path: Path, what: str, bytes_max: int = TABLE_BYTES_MAX) -> Path:
    """Refuse what is no file or larger than `bytes_max`; gives the path.

    Raises
    ------
    InputError
        For devices, named pipes, folders and files that are too large.
    """
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(21, "Is a directory", str(path))
    if not stat.S_ISREG(about.st_mode) and not (stat.S_ISFIFO(about.st_mode) and path.is_relative_to("/dev")):
        raise InputError(f"failed to read {_shown_path(path)}: {what} must be a file, not a device or a named pipe")
    if about.st_size > bytes_max:
        raise InputError(
            f"failed to read {_shown_path(path)}: {what} of {about.st_size} bytes; at most {bytes_max} are read"
        )
    return path


def read_bytes(path: Path, what: str, bytes_max: int = TEXT_BYTES_MAX) -> bytes:
    """Read a file of at most `bytes_max`.

    Raises
    ------
    OSError
        What the system said.
    InputError
        As `check_size`, and for pipes out of which more comes.
    """
    with check_size(path, what, bytes_max).open("rb") as stream:
        data = stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise InputError(f"failed to read {_shown_path(path)}: {what} of more than {bytes_max} bytes")
    return data


def read_text(path: Path, what: str, bytes_max: int = TEXT_BYTES_MAX) -> str:
    """Read a text file; what is not text is refused with its position."""
    data = read_bytes(path, what, bytes_max)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"failed to read {_shown_path(path)}:{line}:{column}: {what} is not UTF-8 text"
        raise FormatError(message, file=str(path), line=line, column=column) from None


@contextlib.contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a name beside `path` to write to; at the end the file takes the place of `path`, or there is none of it.

    Raises
    ------
    OSError
        With the file's own name, whatever went wrong.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
    try:
        yield temporary
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write a file: it is there whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file: it is there whole or not at all."""
    write_bytes(path, text.encode())
