"""A results store: a folder that a sweep fills and that survives every crash.

::

    DIR/
      manifest.json        what the sweep consists of: every case and its label, the version and build that run it
      cases/HASH.json      one file a finished case, with its case's hash and a checksum in it
      failed/HASH.json     one file a failed case, with its error
      results.parquet      all finished cases in the order of the experiment, written when the sweep ends
      damaged/             files that were not what was written, set aside when a sweep found them
      .lock                while a sweep writes: by whom

Resuming a sweep means skipping the cases that are there and whole.  Every file is on the disk before it gets its name,
and the names of cases are synced some at a time; one process at a time writes.  The store keeps nothing of when or
where a case ran, so equal sweeps are equal files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import socket
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import FormatError, InputError
from opplab.files import check_own, is_leftover, read_bytes, read_text, sync, write_bytes, write_text
from opplab.sweep.tables import Tables

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.cases import Measured

MANIFEST_FORMAT = 1

CASE_BYTES_MAX = 256 << 20
"""The most that is read of a case's file: they have some kB."""

SYNCED_TOGETHER = 256
"""Names of cases that are synced at a time."""

_SEAL = b'{"sha256":"'

_INPUTS = ("experiment.toml", "machine.toml", "workload.json")
"""What a command line's options become before its cases are known."""

_MADE = (
    *("results.parquet", "report.html", "tables.txt", "uncertainty.json", "traces", "run.pftrace", "run.html"),
    *("rt-app", "case.json"),
)
"""What is made of results, and is of no other results."""


@cache
def build_id() -> str:
    """Give a short hash of the extension: results of another build are not reused.

    Examples
    --------
    >>> len(build_id())
    12
    """
    return hashlib.sha256(Path(str(_opplab.__file__)).read_bytes()).hexdigest()[:12]


class Store:
    """A results folder; as a context manager it gives the folder free at the end.

    Parameters
    ----------
    path : str or Path
        The folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._cases = self.path / "cases"
        self._failed = self.path / "failed"
        self._damaged = self.path / "damaged"
        self._unlock: weakref.finalize[Any, Any] | None = None
        self._tables = Tables()
        self._nr_put = count(1)
        self.notes: list[str] = []
        """What was found damaged and set aside, one line each."""

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def check(self) -> None:
        """Refuse a folder that is not ours."""
        # A sweep that was killed as it began has left folders but no manifest.
        if not (self.path / "manifest.json").exists():
            known = {".lock", "cases", "damaged", "failed", *(file.name for file in self._inputs())}
            check_own(self.path, known, "results")

    def create(self, manifest: Mapping[str, Any], *, replace: bool = False) -> bool:
        """Make the folder ready for the cases of `manifest`, and keep other processes from writing to it.

        Finished cases of another build or version are removed, because the case's hash does not cover the program.

        Parameters
        ----------
        replace : bool
            Remove the results of another experiment instead of refusing to mix with them.

        Returns
        -------
        bool
            Whether such cases were removed.

        Raises
        ------
        InputError
            The folder is not ours, another process writes to it, or it holds results of another experiment.
        """
        self.check()
        for folder in (self._cases, self._failed):
            folder.mkdir(parents=True, exist_ok=True)
        self._lock()
        sync(self.path.parent)
        sync(self.path)
        stale = False
        if (self.path / "manifest.json").exists():
            self._keep_apart(manifest, replace)
        if (self.path / "manifest.json").exists() and self._build() != build_id():
            for file in [*self._cases.glob("[!.]*"), *self._failed.glob("*.json")]:
                stale = True
                file.unlink()
        if stale:
            self._tables = Tables()
            self._remove_made()
        # Of cases, traces and pages.
        for file in filter(is_leftover, self.path.rglob(".*.tmp")):
            file.unlink(missing_ok=True)
        whole = {"format": MANIFEST_FORMAT, "version": _opplab.__version__, "build": build_id(), **manifest}
        write_text(self.path / "manifest.json", json.dumps(whole, indent=1) + "\n")
        return stale

    def _keep_apart(self, manifest: Mapping[str, Any], replace: bool) -> None:
        """See to it that results of another experiment are neither replaced in silence nor left beside the new ones."""
        try:
            old = self.manifest()
        except FormatError:
            return
        before, after = ({case["hash"] for case in about.get("cases", ())} for about in (old, manifest))
        renamed = old["experiment"] != manifest.get("experiment", "")
        # Cases of another build have other hashes; draws are of the sweep that they lie in.
        unrelated = not before & after and old["build"] == build_id() and "draws" not in manifest
        done = self.finished()
        if done and (renamed or unrelated):
            if not replace:
                self.release()
                first = next((case["label"] for case in old["cases"] if case["hash"] in done), "")
                what = f"the experiment `{old['experiment']}`" if renamed and old["experiment"] else "other cases"
                raise InputError(
                    f"failed to write results to {self.path}: it holds results of {what} ({first}); "
                    "give another folder for the results; `opplab run --replace` removes them"
                )
            for name in ("cases", "failed", "draws"):
                shutil.rmtree(self.path / name, ignore_errors=True)
            for folder in (self._cases, self._failed):
                folder.mkdir()
            self._remove_made()
        if before != after:
            self._remove_made()

    def _remove_made(self) -> None:
        for file in (self.path / name for name in _MADE):
            shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)

    def _inputs(self) -> set[Path]:
        """Give the files that options become; of several machines each has a number."""
        return {*(self.path / name for name in _INPUTS), *self.path.glob("machine-*.toml")}

    @contextlib.contextmanager
    def inputs_kept(self) -> Iterator[None]:
        """Put back what options became of an earlier command, where the folder refuses this one."""
        before = {file: file.read_bytes() for file in self._inputs() if file.is_file()}
        try:
            yield
        except InputError:
            for file in self._inputs() | set(before):
                if (data := before.get(file)) is not None:
                    write_bytes(file, data)
                elif self.path.is_dir() and file.is_file() and (self.path / "manifest.json").exists():
                    file.unlink()
            raise

    def _lock(self) -> None:
        """Become the one process that writes here."""
        if self._unlock is not None and self._unlock.alive:
            return
        path = self.path / ".lock"
        while True:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.pread(number, 200, 0).decode("utf-8", "replace").strip() or "another process"
                os.close(number)
                raise InputError(
                    f"failed to write results to {self.path}: {owner} writes there; wait for it, or give another folder"
                ) from None
            # Who held it before us may have removed the name: then the lock is of a file that nobody finds.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(number), path.stat()):
                    break
            os.close(number)
        os.ftruncate(number, 0)
        os.pwrite(number, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)
        self._unlock = weakref.finalize(self, _unlock, number, path, os.getpid())

    def release(self) -> None:
        """Let other processes write to the folder."""
        if self._unlock is not None:
            self._unlock()

    def _build(self) -> str:
        """Give the build that filled the folder; a manifest that is damaged is set aside, and has none."""
        try:
            return str(self.manifest()["build"])
        except FormatError as error:
            self._set_aside(self.path / "manifest.json", str(error))
            return ""

    def manifest(self) -> dict[str, Any]:
        """Read what the sweep consists of."""
        file = self.path / "manifest.json"
        try:
            value: Any = json.loads(read_text(file, "a manifest"))
        except FileNotFoundError:
            raise InputError(f"failed to open {self.path}: not a results folder (it has no manifest.json)") from None
        except (ValueError, RecursionError) as error:
            line, column = getattr(error, "lineno", 1), getattr(error, "colno", 1)
            message = f"failed to read {file}:{line}:{column}: {error}"
            raise FormatError(message, file=str(file), line=line, column=column) from None
        if fault := _manifest_fault(value):
            raise FormatError(f"failed to read {file}:1:1: {fault}", file=str(file), line=1, column=1)
        found: dict[str, Any] = value
        return found

    def finished(self) -> set[str]:
        """Give the hashes of the cases that are done; their files are not looked into."""
        return {file.stem for file in self._cases.glob("*.json")}

    def listed(self) -> list[str]:
        """Give the hashes of the cases that are done and belong to the sweep as it is now, in its order."""
        done = self.finished()
        return [case["hash"] for case in self.manifest()["cases"] if case["hash"] in done]

    def whole(self, hashes: Iterable[str]) -> set[str]:
        """Give those of `hashes` that are done and whose files are what was written.

        What is damaged, or another case's, is set aside (`notes` names it), so that the case runs again.
        """
        found = set()
        for case_hash in self.finished().intersection(hashes):
            try:
                self._tables.add(case_hash, self.measured(case_hash))
            except FormatError as error:
                self._set_aside(self._file(case_hash), str(error))
            else:
                found.add(case_hash)
        return found

    def _set_aside(self, file: Path, why: str) -> None:
        self._damaged.mkdir(exist_ok=True)
        number = len(list(self._damaged.iterdir()))
        file.replace(self._damaged / f"{number}-{file.name}")
        self.notes.append(f"{why}; it is in {self._damaged} now, and is made anew")

    def failures(self) -> dict[str, dict[str, Any]]:
        """Give the failed cases: hash -> ``{"label": ..., "error": ...}``."""
        return {file.stem: _failure(file) for file in sorted(self._failed.glob("*.json"))}

    def unfinished(self) -> list[str]:
        """Give the labels of the cases that are needed and have no results."""
        about = self.manifest()
        done = self.finished().union(about.get("spared", ()))
        return [case["label"] for case in about["cases"] if case["hash"] not in done]

    def put(self, case_hash: str, measured: Measured) -> None:
        """Keep the results of a finished case; several threads may.

        Names are synced some at a time: a file that a loss of power leaves without one is a case that runs again.
        """
        whole = {"case": case_hash, "labels": measured.labels, "rows": measured.rows}
        data = _sealed(json.dumps(whole, separators=(",", ":")).encode())
        write_bytes(self._file(case_hash), data, name_synced=False)
        (self._failed / f"{case_hash}.json").unlink(missing_ok=True)
        self._tables.add(case_hash, measured)
        if next(self._nr_put) % SYNCED_TOGETHER == 0:
            sync(self._cases)

    def drop(self, hashes: Iterable[str]) -> None:
        """Remove the results of these cases, which then run again."""
        for case_hash in hashes:
            self._file(case_hash).unlink(missing_ok=True)

    def put_failure(self, case_hash: str, label: str, error: str) -> None:
        """Keep the error of a failed case."""
        text = json.dumps({"label": label, "error": error}, indent=1) + "\n"
        write_text(self._failed / f"{case_hash}.json", text)

    def _file(self, case_hash: str) -> Path:
        return self._cases / f"{case_hash}.json"

    def measured(self, case_hash: str) -> Measured:
        """Read the results of a finished case.

        Raises
        ------
        FormatError
            The file is not what was written.
        """
        from opplab.simulation.cases import Measured

        file = self._file(case_hash)
        data = read_bytes(file, "a case's results", CASE_BYTES_MAX)
        if not data or _sealed(_unsealed(data)) != data:
            what = "is damaged: its checksum is not that of its content" if data else "is empty"
            raise FormatError(f"{file} {what}", file=str(file))
        whole = json.loads(data)
        if whole["case"] != case_hash:
            raise FormatError(f"{file} has the results of another case", file=str(file))
        return Measured(whole["labels"], whole["rows"])

    def table(self, hashes: Sequence[str]) -> pl.DataFrame:
        """Give the rows of finished cases, in that order."""
        for case_hash in hashes:
            if case_hash not in self._tables:
                self._tables.add(case_hash, self.measured(case_hash))
        return self._tables.frame(hashes)

    def note_spared(self, hashes: Sequence[str]) -> None:
        """Note in the manifest which cases are not needed, so that nobody waits for them."""
        whole = {**self.manifest(), "spared": list(hashes)}
        write_text(self.path / "manifest.json", json.dumps(whole, indent=1) + "\n")

    def merge(self, hashes: Sequence[str]) -> pl.DataFrame:
        """Write ``results.parquet``: the finished cases among `hashes`, in that order.  Gives the table, too.

        Raises
        ------
        FormatError
            A case's file is not what was written.
        """
        from opplab import results

        done = self.finished()
        table = self.table([case_hash for case_hash in hashes if case_hash in done])
        sync(self._cases)
        results.write(table, self.path / "results.parquet")
        return table


def _unlock(number: int, path: Path, pid: int) -> None:
    """Remove the lock, first its name; a fork of the process that has it may not."""
    if os.getpid() == pid:
        with contextlib.suppress(OSError):
            path.unlink()
    os.close(number)


def _sealed(data: bytes) -> bytes:
    """Put the checksum of an object in JSON before its first member."""
    return _SEAL + hashlib.sha256(data).hexdigest().encode() + b'",' + data[1:]


def _unsealed(data: bytes) -> bytes:
    return b"{" + data[len(_SEAL) + 64 + len(b'",') :]


def _manifest_fault(value: Any) -> str:
    """Describe what a manifest lacks; nothing if it is whole."""
    if not isinstance(value, dict):
        return "a manifest is an object"
    if value.get("format") != MANIFEST_FORMAT:
        return f"format {value.get('format')!r} is not {MANIFEST_FORMAT}"
    for name in ("experiment", "version", "build"):
        if not isinstance(value.get(name, ""), str):
            return f"`{name}` is not text"
    for name in ("iterations", "seed", "duration_ns"):
        if not isinstance(value.get(name), int | None):
            return f"`{name}` is not a whole number"
    if not isinstance(value.get("seconds"), int | float | None):
        return "`seconds` is not a number"
    cases = value.get("cases", [])
    if not isinstance(cases, list) or not all(
        isinstance(case, dict) and all(isinstance(case.get(name), str) for name in ("hash", "label")) for case in cases
    ):
        return "`cases` is not a list of cases with hash and label"
    spared = value.get("spared", [])
    if not isinstance(spared, list) or not all(isinstance(one, str) for one in spared):
        return "`spared` is not a list of hashes"
    asked = value.get("questions", {})
    if not isinstance(asked, dict) or not all(
        isinstance(one, list) and [type(part) for part in one] in ([str, int], [str, int, int])
        for one in asked.values()
    ):
        return "`questions` is not a table of digests and lengths"
    for name in ("experiment", "version", "build"):
        value.setdefault(name, "")
    value.setdefault("cases", [])
    return ""


def _failure(file: Path) -> dict[str, Any]:
    """Read a failed case's file; what is damaged is reported as its error."""
    try:
        value = json.loads(read_text(file, "a failed case"))
    except (ValueError, OSError, RecursionError, InputError) as error:
        value = {"error": f"{file.name} is damaged: {error}"}
    value = value if isinstance(value, dict) else {}
    return {"label": str(value.get("label", file.stem)), "error": str(value.get("error", f"{file.name} is damaged"))}
