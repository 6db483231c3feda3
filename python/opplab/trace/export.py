"""Traces in other forms, piece by piece: a trace may be larger than the memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab import _opplab
from opplab.errors import InputError
from opplab.files import check_own, replacing, safe_name
from opplab.trace.frames import Layout, frame_of, write_one_table, write_pieces

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from opplab.trace.recording import Trace


# Suffix of a file that is written -> the form.
FORMS = {".dat": "trace.dat", ".txt": "text", ".pftrace": "perfetto", ".perfetto-trace": "perfetto"}

PIECE = 1 << 18
"""Events that are in memory at once."""


def export(trace: Trace, path: Path, names: Sequence[str], from_ns: int | None, to_ns: int | None) -> Path:
    """Write events in the form of the suffix of `path`: see `Trace.export`."""
    form = FORMS.get(path.suffix)
    if form is None and path.suffix not in (".parquet", "") and not path.is_dir():
        forms = ", ".join([".parquet", *FORMS])
        raise InputError(f"failed to write {path}: the name must end in {forms}, or be a folder for Parquet files")
    if form == "trace.dat":
        # Pages of a CPU lie together in the file: they wait in another until all are there.
        with (
            replacing(path) as temporary,
            tempfile.TemporaryDirectory(prefix=".opplab-", dir=temporary.parent) as scratch,
        ):
            trace.to_dat(temporary, Path(scratch) / "pages", names or None, from_ns, to_ns, PIECE)
    elif form:
        with replacing(path) as temporary, temporary.open("wb") as out:
            events: list[int | None] = []

            def write(piece: _opplab.Trace, total: int) -> None:
                out.write(piece.encode_piece(form, None if events else total))
                events.append(None)

            trace.pieces(write, names or None, from_ns=from_ns, to_ns=to_ns, events_max=PIECE, contexts=True)
    else:
        _parquet(trace, path, names, from_ns, to_ns)
    return path


def _parquet(trace: Trace, path: Path, names: Sequence[str], from_ns: int | None, to_ns: int | None) -> None:
    """Write one Parquet file, or one an event into a folder."""
    single = path.suffix == ".parquet" and not path.is_dir()
    folder = path.parent if single else path
    if not single:
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".opplab-", dir=folder) as scratch:
        layout = Layout()
        parts: list[dict[str, Path]] = []
        whole: list[dict[str, pl.DataFrame]] = []

        def keep(piece: _opplab.Trace, total: int) -> None:
            tables = {name: frame_of(piece.columns(name)) for name, _, _ in piece.tables()}
            layout.add(tables)
            if total <= PIECE:
                whole.append(tables)
                return
            parts.append({})
            for nth, (event, table) in enumerate(tables.items()):
                parts[-1][event] = Path(scratch) / f"{len(parts)}-{nth}.parquet"
                table.write_parquet(parts[-1][event], compression="lz4", statistics=False)

        trace.pieces(keep, names or None, from_ns=from_ns, to_ns=to_ns, events_max=PIECE)
        if not single:
            # Events of another trace beside these would be taken for this one's.
            names_made = [_file_name(event) for event in (whole[0] if whole else layout.events)]
            check_own(path, [*names_made, Path(scratch).name], "the events")
        if whole:
            _write_whole(whole[0], path, single)
            return

        def pieces(*events: str) -> Iterator[dict[str, pl.DataFrame]]:
            import polars as pl

            for part in parts:
                yield {event: pl.read_parquet(file) for event, file in part.items() if not events or event in events}

        if single:
            write_pieces(path, layout.schema, (table for piece in pieces() for table in layout.slices(piece)))
            return
        for event in layout.events:
            tables = (layout.cast(event, piece[event]) for piece in pieces(event) if event in piece)
            write_pieces(path / _file_name(event), layout.events[event], tables)


def _write_whole(tables: dict[str, Any], path: Path, single: bool) -> None:
    if single:
        write_one_table(tables, path)
        return
    from opplab import results

    for name, table in tables.items():
        results.write(table, path / _file_name(name))


def _file_name(event: str) -> str:
    return f"{safe_name(event.replace(':', '.'))}.parquet"
