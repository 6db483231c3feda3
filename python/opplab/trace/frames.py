"""Events as polars tables: one table an event, and one table of all, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

__all__ = ["frame_of", "one_table", "slices", "write_one_table"]


def _series(name: str, kind: str, values: Any) -> pl.Series:
    import polars as pl

    if kind == "str":
        places, words = values
        return pl.Series(name, words, dtype=pl.String).gather(places)
    if kind == "list":
        ends, flat = values
        starts = [0, *ends[:-1].tolist()]
        lists = [flat[start:end].tolist() for start, end in zip(starts, ends.tolist(), strict=True)]
        inner = pl.Int64 if flat.dtype.kind == "i" else pl.UInt64
        return pl.Series(name, lists, dtype=pl.List(inner))
    dtype = {"text": pl.String, "bytes": pl.Binary}.get(kind)
    if dtype:
        return pl.Series(name, values, dtype=dtype)
    if name == "time_ns":
        # Signed, so that differences are what they seem.
        return pl.Series(name, values.view("int64"))
    # Stored narrowly; wide enough here for sums of two.
    return pl.Series(name, values.astype(f"{values.dtype.kind}4") if values.itemsize < 4 else values)


def frame_of(columns: list[tuple[str, str, Any, Any]]) -> pl.DataFrame:
    """Give the columns of an event as a table; a field named as one that every event has becomes `field_NAME`."""
    import polars as pl

    taken: set[str] = set()
    series = []
    for name, kind, values, valid in columns:
        unique = name
        while unique in taken:
            unique = f"field_{unique}"
        taken.add(unique)
        one = _series(unique, kind, values)
        if valid is not None:
            nulls = pl.Series([None], dtype=one.dtype).extend_constant(None, len(one) - 1)
            one = one.zip_with(pl.Series(valid), nulls).alias(unique)
        series.append(one)
    return pl.DataFrame(series)


# Events of one slice of time: the table of all events is as wide as all their fields together.
SLICE = 1 << 16


def _columns(tables: dict[str, pl.DataFrame]) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
    """Give the names that the fields of each event have in one table of all, and that table's schema."""
    import polars as pl

    signed = {name for table in tables.values() for name, dtype in table.schema.items() if dtype.is_signed_integer()}

    def wide(table: pl.DataFrame, name: str, dtype: pl.DataType) -> pl.DataType:
        if not dtype.is_integer():
            return dtype
        fits = dtype != pl.UInt64 or int(table[name].max() or 0) < 1 << 63  # type: ignore[arg-type]
        return pl.Int64() if name in signed and fits else pl.UInt64()

    schema: dict[str, Any] = {"event": pl.String(), "time_ns": pl.Int64(), "cpu": pl.UInt64()}
    names: dict[str, dict[str, str]] = {}
    for event, table in tables.items():
        names[event] = {}
        for name, dtype in table.schema.items():
            kind = wide(table, name, dtype)
            unique = name if schema.get(name, kind) == kind else f"{event}.{name}"
            schema[unique] = kind
            names[event][name] = unique
    return names, schema


def slices(tables: dict[str, pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Give all events in order of time, as tables of one schema that follow each other; `event` is the first column.

    Fields of one name share a column; integers become 64 bits wide.  Where events disagree whether a field is a
    number or a text, or signed, the field of the later event becomes ``EVENT.FIELD``.
    """
    import polars as pl

    names, schema = _columns(tables)
    empty = pl.DataFrame(schema=schema)
    if not tables:
        yield empty
        return
    tables = {event: table.sort("time_ns", "cpu", maintain_order=True) for event, table in tables.items()}
    times = pl.concat([table["time_ns"] for table in tables.values()]).sort()
    bounds = times.gather_every(SLICE)[1:].unique(maintain_order=True).to_list()
    for start, end in zip([None, *bounds], [*bounds, None], strict=True):
        frames = [empty]
        for event, table in tables.items():
            first = 0 if start is None else table["time_ns"].search_sorted(start, "left")
            last = len(table) if end is None else table["time_ns"].search_sorted(end, "left")
            fields = (pl.col(name).cast(schema[unique]).alias(unique) for name, unique in names[event].items())
            frames.append(table[first:last].select(pl.lit(event).alias("event"), *fields))
        yield pl.concat(frames, how="diagonal").sort("time_ns", "cpu", maintain_order=True)


def one_table(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Give all events in one table in order of time: see `slices`."""
    import polars as pl

    return pl.concat(list(slices(tables)))


def write_one_table(tables: dict[str, pl.DataFrame], path: Path) -> None:
    """Write the one table slice by slice; all of it may be larger than the memory."""
    from itertools import chain

    from polars.io.plugins import register_io_source

    parts = slices(tables)
    first = next(parts)
    with replacing(path) as temporary:
        register_io_source(lambda *_: chain([first], parts), schema=first.schema).sink_parquet(temporary)
