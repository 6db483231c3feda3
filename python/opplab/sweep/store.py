"""A results store: a folder that a sweep fills and that survives every crash.

::

    DIR/
      manifest.json        what the sweep consists of: every case and its label, the version and build that run it
      cases/HASH.parquet   one file a finished case, written under a temporary name and renamed
      failed/HASH.json     one file a failed case, with its error
      results.parquet      all finished cases in the order of the experiment, written when the sweep ends

Resuming a sweep means skipping the cases that are there.  There is no lock and no server: two workers that finish the
same case write the same bytes.  The store says nothing about when or where a case ran, so equal sweeps are equal files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import FormatError, InputError
from opplab.files import read_text

if TYPE_CHECKING:
    import polars as pl

MANIFEST_FORMAT = 1


@cache
def build_id() -> str:
    """Give a short hash of the extension: results of another build are not reused.

    Examples
    --------
    >>> len(build_id())
    12
    """
    return hashlib.sha256(Path(str(_opplab.__file__)).read_bytes()).hexdigest()[:12]


def write_text(path: Path, text: str) -> None:
    """Write a small file under a temporary name, then rename it."""
    from opplab.results import write_bytes

    write_bytes(path, text.encode())


def _is_leftover(file: Path) -> bool:
    """Whether a write was cut off here."""
    return file.name.startswith(".") and file.name.endswith(".tmp")


class Store:
    """A results folder.

    Parameters
    ----------
    path : str or Path
        The folder; it need not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._cases = self.path / "cases"
        self._failed = self.path / "failed"

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    def create(self, manifest: Mapping[str, Any]) -> bool:
        """Make the folder ready for the cases of `manifest`.

        Finished cases of another build or version are removed, because the case's hash does not cover the program.

        Returns
        -------
        bool
            Whether such cases were removed.
        """
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"failed to write results to {self.path}: it is not a folder")
        ours = {"cases", "experiment.toml", "failed", "machine.toml", "manifest.json"}
        known = not self.path.is_dir() or (self.path / "manifest.json").exists()
        # A sweep that was killed as it began has left folders but no manifest.
        if not known and any(not _is_leftover(file) and file.name not in ours for file in self.path.iterdir()):
            raise InputError(f"failed to write results to {self.path}: it holds other files and is no results folder")
        self._cases.mkdir(parents=True, exist_ok=True)
        self._failed.mkdir(exist_ok=True)
        stale = False
        if (self.path / "manifest.json").exists() and self.manifest().get("build") != build_id():
            for file in [*self._cases.glob("*.parquet"), *self._failed.glob("*.json")]:
                stale = True
                file.unlink()
        for folder in (self.path, self._cases, self._failed):
            for file in filter(_is_leftover, folder.iterdir()):
                file.unlink(missing_ok=True)
        whole = {"format": MANIFEST_FORMAT, "version": _opplab.__version__, "build": build_id(), **manifest}
        write_text(self.path / "manifest.json", json.dumps(whole, indent=1) + "\n")
        return stale

    def manifest(self) -> dict[str, Any]:
        """Read what the sweep consists of."""
        file = self.path / "manifest.json"
        try:
            value: dict[str, Any] = json.loads(read_text(file, "a manifest"))
        except FileNotFoundError:
            raise InputError(f"failed to open {self.path}: no results folder (it has no manifest.json)") from None
        except ValueError as error:
            line, column = getattr(error, "lineno", 0), getattr(error, "colno", 0)
            raise FormatError(
                f"failed to read {file}:{line}:{column}: {error}", file=str(file), line=line, column=column
            ) from None
        if not isinstance(value, dict):
            raise FormatError(f"failed to read {file}:1:1: a manifest is an object", file=str(file), line=1, column=1)
        if value.get("format") != MANIFEST_FORMAT:
            raise FormatError(f"failed to read {file}:1:1: format {value.get('format')!r} is not {MANIFEST_FORMAT}")
        return value

    def finished(self) -> set[str]:
        """Give the hashes of the cases that are done."""
        return {file.stem for file in self._cases.glob("*.parquet")}

    def failures(self) -> dict[str, dict[str, Any]]:
        """Give the failed cases: hash -> ``{"label": ..., "error": ...}``."""
        return {file.stem: _failure(file) for file in sorted(self._failed.glob("*.json"))}

    def put(self, case_hash: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Keep the results of a finished case."""
        from opplab import results

        results.write(results.frame(rows), self._cases / f"{case_hash}.parquet")
        (self._failed / f"{case_hash}.json").unlink(missing_ok=True)

    def put_failure(self, case_hash: str, label: str, error: str) -> None:
        """Keep the error of a failed case."""
        text = json.dumps({"label": label, "error": error}, indent=1) + "\n"
        write_text(self._failed / f"{case_hash}.json", text)

    def value(self, case_hash: str, metric: str) -> float:
        """Read one value of a finished case."""
        import polars as pl

        file = self._cases / f"{case_hash}.parquet"
        found = pl.read_parquet(file, columns=["metric", "value"]).filter(pl.col("metric") == metric)["value"]
        if found.is_empty():
            raise InputError(f"`until` names the metric '{metric}', which {file} does not have")
        return float(found[0])

    def note_spared(self, hashes: Sequence[str]) -> None:
        """Note in the manifest which cases are not needed, so that nobody waits for them."""
        whole = {**self.manifest(), "spared": list(hashes)}
        write_text(self.path / "manifest.json", json.dumps(whole, indent=1) + "\n")

    def merge(self, hashes: Sequence[str]) -> pl.DataFrame:
        """Write ``results.parquet``: the finished cases among `hashes`, in that order.  Gives the table, too."""
        import polars as pl

        from opplab import results

        done = self.finished()
        files = [self._cases / f"{case_hash}.parquet" for case_hash in hashes if case_hash in done]
        table = pl.concat([pl.read_parquet(file) for file in files]) if files else results.frame([])
        results.write(table, self.path / "results.parquet")
        return table


def _failure(file: Path) -> dict[str, Any]:
    """Read a failed case's file; what is damaged is told as its error."""
    try:
        value = json.loads(read_text(file, "a failed case"))
    except (ValueError, InputError) as error:
        value = {"error": f"{file.name} is damaged: {error}"}
    value = value if isinstance(value, dict) else {}
    return {"label": str(value.get("label", file.stem)), "error": str(value.get("error", f"{file.name} is damaged"))}
