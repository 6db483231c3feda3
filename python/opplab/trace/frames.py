"""Events as polars tables: one table an event, and one table of all, slice by slice."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from opplab.errors import InputError
from opplab.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl


CPUS_MAX = 8192
"""The most CPUs of a trace's tables: no kernel has more (CONFIG_NR_CPUS), and damaged numbers are larger."""


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


def check_fields(path: Path, event: str, table: pl.DataFrame, fields: Sequence[str]) -> None:
    """Refuse the events of a trace whose format, damaged perhaps, lacks fields.

    Raises
    ------
    InputError
        With the names of those fields.
    """
    if lacking := [field for field in fields if field not in table.columns]:
        raise InputError(f"{path}: {event} has no {', '.join(lacking)}")


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


class Layout:
    """The columns of events that come in pieces, and the names and types that they have in one table of all.

    Attributes
    ----------
    events : dict
        The schema of each event: types that fit all pieces.
    """

    def __init__(self) -> None:
        self.events: dict[str, dict[str, Any]] = {}
        self._large: set[tuple[str, str]] = set()
        self._made: tuple[dict[str, dict[str, str]], dict[str, Any]] | None = None

    def add(self, tables: dict[str, pl.DataFrame]) -> None:
        """Learn the columns of a piece."""
        import polars as pl

        self._made = None
        for event, table in tables.items():
            schema = self.events.setdefault(event, {})
            for name, dtype in table.schema.items():
                schema[name] = _wider(schema.get(name, dtype), dtype)
                if dtype == pl.UInt64 and int(table[name].max() or 0) >= 1 << 63:  # type: ignore[arg-type]
                    self._large.add((event, name))

    def _columns(self) -> tuple[dict[str, dict[str, str]], dict[str, Any]]:
        """Give the names that the fields of each event have in one table of all, and that table's schema."""
        import polars as pl

        if self._made is not None:
            return self._made
        signed = {
            name for fields in self.events.values() for name, dtype in fields.items() if dtype.is_signed_integer()
        }
        schema: dict[str, Any] = {"event": pl.String(), "time_ns": pl.Int64(), "cpu": pl.UInt64()}
        names: dict[str, dict[str, str]] = {}
        for event, fields in sorted(self.events.items()):
            names[event] = {}
            for name, dtype in fields.items():
                kind = dtype
                if dtype.is_integer():
                    kind = pl.Int64() if name in signed and (event, name) not in self._large else pl.UInt64()
                unique = name if schema.get(name, kind) == kind else f"{event}.{name}"
                schema[unique] = kind
                names[event][name] = unique
        self._made = names, schema
        return self._made

    @property
    def schema(self) -> dict[str, Any]:
        """The schema of one table of all."""
        return self._columns()[1]

    def cast(self, event: str, table: pl.DataFrame) -> pl.DataFrame:
        """Give a piece of an event's table with the columns and types of all."""
        import polars as pl

        return table.select(
            pl.col(name).cast(kind) if name in table.columns else pl.lit(None, kind).alias(name)
            for name, kind in self.events[event].items()
        )

    def slices(self, tables: dict[str, pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Give the events of a piece in order of time, as tables of one schema that follow each other."""
        import polars as pl

        names, schema = self._columns()
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
                fields = (
                    pl.col(name).cast(schema[names[event][name]]).alias(names[event][name]) for name in table.columns
                )
                frames.append(table[first:last].select(pl.lit(event).alias("event"), *fields))
            yield pl.concat(frames, how="diagonal").sort("time_ns", "cpu", maintain_order=True)


def _wider(one: pl.DataType, other: pl.DataType) -> pl.DataType:
    """Give the type that holds what both hold: of numbers a wider one, else text."""
    import polars as pl

    if one == other:
        return one
    if not (one.is_integer() and other.is_integer()):
        return pl.String()
    signed = one.is_signed_integer() or other.is_signed_integer()
    if one.is_signed_integer() != other.is_signed_integer():
        return pl.Int64()
    return pl.Int64() if signed else pl.UInt64()


def slices(tables: dict[str, pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Give all events in order of time, as tables of one schema that follow each other; `event` is the first column.

    Fields of one name share a column; integers become 64 bits wide.  Where events disagree whether a field is a
    number or a text, or signed, the field of the later event becomes ``EVENT.FIELD``.
    """
    layout = Layout()
    layout.add(tables)
    yield from layout.slices(tables)


def one_table(tables: dict[str, pl.DataFrame]) -> pl.DataFrame:
    """Give all events in one table in order of time: see `slices`."""
    import polars as pl

    return pl.concat(list(slices(tables)))


def write_one_table(tables: dict[str, pl.DataFrame], path: Path) -> None:
    """Write the one table slice by slice; all of it may be larger than the memory."""
    layout = Layout()
    layout.add(tables)
    write_pieces(path, layout.schema, layout.slices(tables))


def write_pieces(path: Path, schema: dict[str, Any], pieces: Iterator[pl.DataFrame]) -> None:
    """Write tables that follow each other as one Parquet file."""
    from polars.io.plugins import register_io_source

    with replacing(path) as temporary:
        register_io_source(lambda *_: pieces, schema=schema).sink_parquet(temporary)
