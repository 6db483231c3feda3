"""Where things are in an mmtests result tree, and reading its files whatever their compression.

Three layouts are read:

* ``RUN/iter-N/BENCHMARK/logs/*`` with monitors in ``RUN/iter-N`` (mmtests since 2018);
* ``RUN/BENCHMARK/logs/*`` with monitors in ``RUN`` (one iteration, no ``iter-`` folder);
* ``BENCHMARK-RUN/noprofile/*`` or ``BENCHMARK-RUN/logs/*`` with ``MONITOR-RUN-BENCHMARK`` beside it (before 2018).

A file may be plain, ``.gz`` or ``.xz``. A file that cannot be read to its end is reported and skipped; the rest stays.
"""

from __future__ import annotations

from os import listdir, scandir, stat
from os.path import isdir

from opplab.mmtests.problems import UnknownName
from opplab.runs import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

BYTES_MAX = 256 << 20
"""The most that is read of a log, packed or unpacked."""


class Logs:
    """One folder of log files.

    Names are those of the uncompressed files: ``benchlog-tput-1.xz`` is `benchlog-tput-1`. `literal` asks a parser to
    follow mmtests even where mmtests reads its own logs wrongly.
    """

    __slots__ = ("directory", "files", "literal", "problems")

    def __init__(self, directory: str, problems: list[Problem], literal: bool = False) -> None:
        self.directory = directory
        self.literal = literal
        self.problems = problems
        self.files: dict[str, str] = {}
        files = self.files
        try:
            names = listdir(directory)
        except OSError:
            names = []
        for name in names:
            # When a file is there twice, mmtests prefers .gz over .xz over the plain one; a sorted scan is not needed
            # to get the same.
            if name.endswith(".gz"):
                files[name[:-3]] = name
            elif name.endswith(".xz"):
                if not files.get(name[:-3], "").endswith(".gz"):
                    files[name[:-3]] = name
            else:
                files.setdefault(name, name)

    def names(self, prefix: str = "", suffix: str = "") -> list[str]:
        """Sorted names of the files that begin and end so."""
        return sorted(name for name in self.files if name.startswith(prefix) and name.endswith(suffix))

    def path(self, name: str) -> str:
        """The path of a file as it is on disk."""
        return f"{self.directory}/{self.files.get(name, name)}"

    def skip(self, name: str, what: str, line: int | None = None) -> None:
        """Report a file, or a line of it, as skipped."""
        self.problems.append(Problem(self.path(name), what, line))

    def sound(self, name: str) -> bool:
        """Whether nothing has been reported of a file yet."""
        path = self.path(name)
        return not any(problem.path == path for problem in self.problems)

    def read(self, name: str) -> str:
        """The text of a file, or '' when it is missing or damaged; damage is reported."""
        file = self.files.get(name)
        if file is None:
            return ""
        try:
            data = _read(f"{self.directory}/{file}")
            if file.endswith(".xz"):
                data = _unxz(data)
            elif file.endswith(".gz"):
                data = _gunzip(data)
        except (OSError, EOFError, ValueError) as error:
            self.problems.append(Problem(self.path(name), _reason(error)))
            return ""
        return data.decode("utf-8", "replace")

    def lines(self, name: str) -> list[str]:
        """The lines of a file."""
        return self.read(name).splitlines()


def _read(path: str) -> bytes:
    about = stat(path)
    # A named pipe would be waited for, a device has no end.
    if about.st_mode & 0o170000 != 0o100000:
        raise ValueError("not a file")
    if about.st_size > BYTES_MAX:
        raise ValueError(f"more than {BYTES_MAX} bytes")
    if not about.st_size:
        from opplab.files import endless

        if endless(path):
            raise ValueError("has no end")
    with open(path, "rb", 0) as stream:
        return stream.read()


def _unxz(data: bytes) -> bytes:
    from _lzma import FORMAT_AUTO, LZMADecompressor, LZMAError

    try:
        return _unpack(data, lambda: LZMADecompressor(FORMAT_AUTO))
    except LZMAError as error:
        raise ValueError(f"not a valid .xz file ({error})") from None


def _gunzip(data: bytes) -> bytes:
    from zlib import decompressobj, error

    try:
        return _unpack(data, lambda: decompressobj(31))
    except error as problem:
        raise ValueError(f"not a valid .gz file ({problem})") from None


def _unpack(data: bytes, decoder_of: Callable[[], Any]) -> bytes:
    """Unpack streams that follow each other; zeros after them are padding."""
    parts: list[bytes] = []
    while data:
        decoder = decoder_of()
        parts.append(decoder.decompress(data, BYTES_MAX + 1 - sum(map(len, parts))))
        if sum(map(len, parts)) > BYTES_MAX:
            raise ValueError(f"more than {BYTES_MAX} bytes unpacked")
        if not decoder.eof:
            raise EOFError
        data = decoder.unused_data.lstrip(b"\0")
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError):
        return "truncated compressed file"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


class Place:
    """Where one iteration of a run keeps its files."""

    __slots__ = ("index", "layout", "monitors", "run")

    def __init__(self, run: str, index: int, monitors: str, layout: str) -> None:
        self.run = run
        self.index = index
        self.monitors = monitors
        self.layout = layout

    def logs(self, benchmark: str) -> str:
        """The folder of a benchmark's logs."""
        if self.layout != "flat":
            return f"{self.monitors}/{benchmark}/logs"
        base = f"{self.monitors}/{benchmark}-{self.run}"
        for below in ("noprofile/logs", "noprofile", "logs"):
            if isdir(f"{base}/{below}"):
                return f"{base}/{below}"
        return base

    def failed(self, benchmark: str, problems: list[Problem]) -> bool:
        """Report whether the benchmark ended with an error, which is among the problems then.

        ``tests-timestamp`` has ``test end :: BENCHMARK TIME STATUS``; the last such line is that of the logs.
        """
        logs = Logs(self.monitors, problems)
        file = f"tests-timestamp-{self.run}" if self.layout == "flat" else "tests-timestamp"
        start = f"test end :: {benchmark} "
        ends = [(line, number) for number, line in enumerate(logs.lines(file), 1) if line.startswith(start)]
        line, number = ends[-1] if ends else ("", None)
        status = line[len(start) :].split()[1:2]
        if status in ([], ["0"]):
            return False
        logs.skip(file, f"{benchmark} ended with status {status[0]}: its values are left out", number)
        return True

    def monitor_name(self, monitor: str, benchmark: str) -> str:
        """The name of a monitor's log."""
        if self.layout == "flat":
            return f"{monitor}-{self.run}-{benchmark}"
        return f"{monitor}-{benchmark}"


def iteration_dirs(directory: str, run: str) -> list[Place]:
    """The iterations of a run, as `Place`s, in mmtests' order (iter-0, iter-1, iter-10, iter-2).

    Raises
    ------
    UnknownName
        When the folder has no such run.
    """
    root = f"{directory}/{run}"
    names: list[str] | None
    try:
        names = listdir(root)
    except OSError:
        names = None
    if names is not None:
        iterations = sorted(filter(_is_iteration, names))
        if iterations:
            return [Place(run, _number(name[5:]), f"{root}/{name}", "iter") for name in iterations]
        if not any(name.endswith("-" + run) for name in names):
            return [Place(run, 0, root, "single")]
    try:
        flat = any(name.endswith("-" + run) for name in listdir(directory))
    except NotADirectoryError:
        raise UnknownName("results folder", directory, ()) from None
    if flat:
        return [Place(run, 0, directory, "flat")]
    raise UnknownName("run", run, runs_of(directory))


def _is_iteration(name: str) -> bool:
    return name.startswith("iter-")


def is_run(directory: str) -> bool:
    """Whether a folder holds the iterations of one run, and no runs."""
    return any(map(_is_iteration, listdir(directory)))


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def runs_of(directory: str) -> list[str]:
    """Names of the runs in a results folder, sorted."""
    runs = set()
    flat = set()
    for entry in scandir(directory):
        name = entry.name
        if entry.is_dir():
            below = listdir(entry.path)
            if any(map(_is_iteration, below)) or _looks_like_run(entry.path, below):
                runs.add(name)
        elif name.startswith(("tests-timestamp-", "mmtests-timestamp-")):
            flat.add(name.split("-", 2)[2])
    return sorted(runs | flat)


def _looks_like_run(path: str, below: list[str]) -> bool:
    if any(name.startswith(("tests-timestamp", "tests-activity", "mmtests-")) for name in below):
        return True
    return any(isdir(f"{path}/{name}/logs") for name in below)


def benchmarks_of(directory: str, run: str) -> list[str]:
    """Names of the benchmarks that a run holds logs of, sorted."""
    found = set()
    for place in iteration_dirs(directory, run):
        if place.layout == "flat":
            ending = "-" + run
            for name in listdir(directory):
                if name.endswith(ending) and isdir(f"{directory}/{name}"):
                    found.add(name[: -len(ending)])
            continue
        for name in listdir(place.monitors):
            if isdir(f"{place.monitors}/{name}/logs"):
                found.add(name)
    return sorted(found)
