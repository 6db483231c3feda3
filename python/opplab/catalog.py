"""What is built in: machines, experiments and calibrations, found by name or by path.

The folder is the list: a file ``data/machines/NAME.toml`` is the machine NAME.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from opplab.errors import InputError, near_names
from opplab.files import read_text, toml_of

DATA = Path(__file__).parent / "data"
"""The folder of the built-in files."""

_FOLDERS = {
    "machine": "machines",
    "experiment": "experiments",
    "calibration": "calibration",
    "background": "backgrounds",
}


def names(kind: str) -> list[str]:
    """Give the built-in names of a kind: ``machine``, ``experiment``, ``calibration`` or ``background``.

    Examples
    --------
    >>> "juno-r2" in names("machine")
    True
    """
    return sorted(file.stem for file in (DATA / _FOLDERS[kind]).glob("*.toml"))


_OF_FILES = {"boost": ["no_turbo"], "turbo": ["no_turbo"], "smt": ["nosmt"], "energy_performance_preference": ["epp"]}
"""Keys of policies by the names of the files of sysfs that set the same."""


def nearest(name: str, valid: list[str]) -> str:
    """Give the end of a message that names the nearest valid name, or all of a few.

    Examples
    --------
    >>> nearest("juno-r3", ["juno-r0", "juno-r2", "pixel6"])
    '; did you mean `juno-r2`?'
    >>> nearest("boost", ["idle_boost", "no_turbo"])
    '; did you mean `no_turbo`?'
    """
    if near := [key for key in _OF_FILES.get(name, ()) if key in valid] or near_names(name, valid):
        return f"; did you mean {' or '.join(f'`{one}`' for one in near)}?"
    return f" (known: {', '.join(valid)})" if 0 < len(valid) <= 12 else ""


SNAPSHOT = "sysfs_before.txt"
"""What a recording's folder has of the machine's sysfs."""
_ARCHIVES = (".xz", ".gz", ".tgz", ".bz2", ".zst", ".tar", ".zip")


def find(kind: str, name: str | Path) -> Path:
    """Give the file of a machine or experiment: a built-in name, or a path to a ``.toml``.

    Raises
    ------
    InputError
        With the nearest built-in name.

    Examples
    --------
    >>> find("machine", "juno-r2").name
    'juno-r2.toml'
    """
    words = str(name)
    path = Path(words)
    if path.suffix == ".toml" or "/" in words:
        if not path.exists():
            raise InputError(f"failed to open {words}: no such {kind} file")
        if kind == "machine" and (path.is_dir() or path.suffix in _ARCHIVES):
            raise InputError(
                f"{words} is a dump: `opplab machine import {words} -o NAME.toml` makes a machine file of it"
            )
        return path
    builtin = DATA / _FOLDERS[kind] / f"{words}.toml"
    if words in names(kind):
        return builtin
    hint = nearest(words, names(kind)) or f"; see `opplab list {kind}s`"
    raise InputError(f"unknown {kind} `{words}`{hint}")


def table(kind: str, name: str | Path) -> dict[str, Any]:
    """Give the content of the file of a machine, experiment, calibration or background (`find`).

    Raises
    ------
    InputError, FormatError
        There is no such file, or it is no TOML.
    """
    path = find(kind, name)
    return toml_of(read_text(path, f"a {kind} file"), path)


def published(stem: str) -> Path | None:
    """Give the table of published values of that name, if there is one."""
    path = DATA / "published" / f"{stem}.csv"
    return path if path.is_file() else None
