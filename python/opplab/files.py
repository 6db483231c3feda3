"""Files in and out: what is read has a bound, what is written is there whole or not at all, and names are only names.

Everything that opens a file for a command goes through here or through crate `trace`, which has the same bounds.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from opplab.errors import FormatError, InputError

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
    import hashlib

    digest = hashlib.sha256(label.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{name or 'unnamed'}-{digest}"


# C0 but line ends and tabs, DEL, C1; marks of direction, separators of lines; halves of surrogate pairs.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    r"""Give a text without what a terminal would obey: control characters other than line ends and tabs are shown.

    Examples
    --------
    >>> printable("a\x1b[31mb\n")
    'a\\x1b[31mb\n'
    """
    return _OBEYED.sub(lambda found: _shown(found[0]), text)


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code < 0xDD00:
        # A byte of a path that is not UTF-8.
        return f"\\x{code - 0xDC00:02x}"
    # From DEL on as JSON writes it, which leaves that as it is.
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"


class Guard:
    """A text stream that lets nothing through that a terminal would obey: names come from files of others."""

    encoding = "utf-8"
    """What may be written, whatever the terminal's encoding: click writes past a stream of ASCII."""

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


def relative(file: str | Path, folder: str | Path) -> str:
    """Give the path of a file as it is from a folder, which may be a link: `..` is where the kernel finds it."""
    path = Path(file)
    return os.path.relpath(path.parent.resolve() / path.name, Path(folder).resolve())


def check_size(path: Path, what: str, bytes_max: int = TABLE_BYTES_MAX) -> Path:
    """Refuse what is no file or larger than `bytes_max`; gives the path.

    Raises
    ------
    InputError
        For devices, named pipes, files without an end, and files that are too large.
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
    if stat.S_ISREG(about.st_mode) and not about.st_size and endless(path):
        raise InputError(f"failed to read {_shown_path(path)}: {what} must be a file, and this one has no end")
    return path


def endless(path: str | Path) -> bool:
    """Whether a file of size 0 has no end: it waits for news as /proc/kmsg, or gives as much as /proc/self/pagemap."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    left = TEXT_BYTES_MAX
    try:
        while left > 0 and (chunk := os.read(number, 1 << 20)):
            left -= len(chunk)
    except BlockingIOError:
        return True
    finally:
        os.close(number)
    return left <= 0


def read_bytes(path: Path, what: str, bytes_max: int = TEXT_BYTES_MAX) -> bytes:
    """Read a file of at most `bytes_max`.

    Raises
    ------
    OSError
        The system's error.
    InputError
        As `check_size`, and for pipes out of which more comes.
    """
    with check_size(path, what, bytes_max).open("rb") as stream:
        data = stream.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise InputError(f"failed to read {_shown_path(path)}: {what} of more than {bytes_max} bytes")
    return data


def read_text(path: Path, what: str) -> str:
    """Read a text file; what is not text is refused with its position."""
    return decoded(read_bytes(path, what), path, what)


def decoded(data: bytes, path: Path, what: str) -> str:
    """Give the text that bytes of a file are; what is not text is refused with its position."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        message = f"failed to read {_shown_path(path)}:{line}:{column}: {what} is not UTF-8 text"
        raise FormatError(message, file=str(path), line=line, column=column) from None


def plain(value: Any) -> Any:
    """Give a number or an array of numpy as Python's own; anything else as it is.

    Examples
    --------
    >>> import numpy as np
    >>> plain(np.int64(250)), plain(np.array([1, 2])), plain("performance")
    (250, [1, 2], 'performance')
    """
    return value.tolist() if hasattr(value, "tolist") else value


def toml_value(value: Any) -> str:
    """Give a value as TOML writes it."""
    import json

    value = plain(value)
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{json.dumps(str(key))} = {toml_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value)


def toml_of(text: str, file: str | Path) -> dict[str, Any]:
    """Read TOML 1.0; a file of a later version, which the extension takes, is refused with its place.

    Raises
    ------
    FormatError
    """
    import tomllib

    try:
        return tomllib.loads(text)
    except ValueError as error:
        # Numbers of thousands of digits are no `TOMLDecodeError`.
        raise FormatError(f"{file}: {error}; it is read as TOML 1.0 here", file=str(file)) from None


def unpacked(data: bytes, path: Path, what: str) -> bytes:
    """Give what is packed with gzip, as far as a text may be long; what is not packed as it is.

    Raises
    ------
    FormatError
        It is damaged, or more comes out.
    """
    import zlib

    parts, n_bytes = [], 0
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        while data.startswith(b"\x1f\x8b"):
            decoder = zlib.decompressobj(31)
            parts.append(decoder.decompress(data, TEXT_BYTES_MAX + 1 - n_bytes))
            n_bytes += len(parts[-1])
            if n_bytes > TEXT_BYTES_MAX:
                most = f"{what} of more than {TEXT_BYTES_MAX} bytes unpacked"
                raise FormatError(f"failed to read {_shown_path(path)}: {most}")
            if not decoder.eof:
                raise FormatError(f"failed to read {_shown_path(path)}: the compressed file ends early")
            data = decoder.unused_data
    except zlib.error as error:
        raise FormatError(f"failed to read {_shown_path(path)}: no whole gzip file ({error})") from None
    return b"".join(parts)


def packed_text(path: Path, what: str) -> str:
    """Read a text, also one that is packed with gzip."""
    return decoded(unpacked(read_bytes(path, what), path, what), path, what)


def preamble(text: str) -> int:
    r"""Give the length of the lines before a table's head that are empty or begin with #.

    Examples
    --------
    >>> preamble("# by hand\n\ncpu,khz\n")
    11
    """
    found = re.match(r"(?:[ \t]*(?:#[^\n]*)?\r?\n)*", text)
    return found.end() if found else 0


def csv_rows(path: Path, *, delimiter: str = ",") -> tuple[list[str], list[tuple[int, dict[str, str]]]]:
    """Read a CSV with a head, also packed with gzip: its columns, and its rows with their lines.

    Lines before the head that are empty or begin with # are remarks.  Cells that a row lacks are
    empty; a row with more cells than columns is refused.

    Raises
    ------
    FormatError
        With file and line.
    """
    import csv
    import io

    what = "a table"
    text = packed_text(path, what)
    begin = preamble(text)
    before = text.count("\n", 0, begin)
    text = text[begin:]
    reader = csv.DictReader(io.StringIO(text, newline=""), restkey="", restval="", strict=True, delimiter=delimiter)
    rows: list[tuple[int, dict[str, str]]] = []
    fault = ""
    names: list[str] = []
    try:
        names = [name or "" for name in reader.fieldnames or []]
        for row in reader:
            rows.append((before + reader.line_num, row))
            if isinstance(row.get(""), list):
                fault = f"more cells than the {len(names)} columns"
                break
    except csv.Error as error:
        fault = str(error)
    if fault:
        line = before + max(reader.line_num, 1)
        message = f"failed to read {_shown_path(path)}:{line}:1: {fault}"
        raise FormatError(message, file=str(path), line=line, column=1)
    return names, rows


def digest_of(plain: Any) -> str:
    """Give the hash of plain data, whatever the order of its keys."""
    import hashlib
    import json

    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def check_own(folder: Path, ours: Collection[str], what: str) -> None:
    """Refuse a folder that holds other files than `ours`: what a command writes there would be mixed with them.

    Raises
    ------
    InputError
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"failed to write {what} to {_shown_path(folder)}: it is not a folder")
    # A write that was cut off is nobody's.
    there = (file.name for file in folder.iterdir() if not is_leftover(file)) if folder.is_dir() else ()
    if others := sorted(set(there) - set(ours)):
        name = printable(others[0])
        words = f"it holds other files ({name}); give another folder"
        raise InputError(f"failed to write {what} to {_shown_path(folder)}: {words}")


def is_leftover(file: Path) -> bool:
    """Whether a write was cut off here."""
    return file.name.startswith(".") and file.name.endswith(".tmp")


def _reached(path: Path) -> BinaryIO:
    """Open a device or a named pipe to write to, without a wait for a reader that may never come."""
    try:
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "a named pipe or a socket that nobody reads", str(path)) from None
        raise
    os.set_blocking(number, True)
    return os.fdopen(number, "wb")


@contextlib.contextmanager
def replacing(path: str | Path, *, name_synced: bool = True) -> Iterator[Path]:
    """Give a name beside `path` to write to; at the end the file takes the place of `path`, or there is none of it.

    What is there at the end is on the disk, its name as well unless the caller sees to that.  Where `path` is a link,
    what it leads to is replaced; where it is a device or a named pipe, that stays and is written to.

    Raises
    ------
    OSError
        With the file's own name, whatever went wrong.
    """
    given = Path(path)
    if given.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(given))
    if given.exists() and not given.is_file():
        import shutil
        import tempfile

        try:
            with _reached(given) as stream, tempfile.TemporaryDirectory() as folder:
                yield Path(folder) / given.name
                with (Path(folder) / given.name).open("rb") as source:
                    shutil.copyfileobj(source, stream)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(given)) from None
        return
    # A pipe of the shell, /dev/fd/63, leads to no path.
    path = Path(os.path.realpath(given)) if given.is_symlink() else given
    temporary = path.with_name(f".{path.name[:100]}.{os.getpid()}.tmp")
    try:
        yield temporary
        sync(temporary)
        temporary.replace(path)
        if name_synced:
            sync(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror or str(error), str(given)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def unheard_if(exception: type[BaseException]) -> Iterator[None]:
    """Hold back what this process writes to standard error, also threads that are not Python's; drop it on `exception`.

    Everything else is written afterwards.
    """
    import tempfile

    try:
        heard = os.dup(2)
    except OSError:
        # It is closed: nobody hears anything.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except exception:
            held.truncate(0)
            raise
        finally:
            os.dup2(heard, 2)
            os.close(heard)
            held.seek(0)
            if said := held.read():
                os.write(2, said)


def sync(path: Path) -> None:
    """See to it that a file's content, or the names in a folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    except OSError as error:
        # Some file systems cannot do that for a folder.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(number)


def write_bytes(path: str | Path, content: bytes, *, name_synced: bool = True) -> None:
    """Write a file: it is there whole or not at all."""
    with replacing(path, name_synced=name_synced) as temporary:
        temporary.write_bytes(content)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file: it is there whole or not at all."""
    write_bytes(path, text.encode())
