"""Results: one tidy row a measured value, whether simulated, measured by mmtests, published or live.

The columns are those of `SCHEMA`; `param` names the benchmark's parameters (``tasks=10``), `better` is ``higher`` or
``lower`` or empty where neither is meant, `fingerprint` is the hash of all events of a simulated run in hexadecimal.
Tables on disk are Parquet, written to a temporary name and renamed, so that a reader never sees half a file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from opplab import files
from opplab.errors import InputError

SCHEMA: dict[str, type[pl.DataType]] = {
    "experiment": pl.String,
    "source": pl.String,
    "machine": pl.String,
    "kernel": pl.String,
    "policy": pl.String,
    "benchmark": pl.String,
    "param": pl.String,
    "metric": pl.String,
    "unit": pl.String,
    "better": pl.String,
    "iteration": pl.Int32,
    "seed": pl.UInt64,
    "value": pl.Float64,
    "fingerprint": pl.String,
}
"""Names and types of the columns of a results table, in order."""

OPTIONAL: dict[str, type[pl.DataType]] = {"date": pl.String}
"""Columns that a table of measurements may have beside them: equal dates in two runs are a pair."""

BETTER = ("higher", "lower", "")
"""What is better of a metric; nothing where neither is meant."""


def frame(rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """Make a results table of rows; a column that a row lacks is null.

    Examples
    --------
    >>> frame([{"metric": "energy", "unit": "J", "value": 7.89}])["value"].to_list()
    [7.89]
    """
    return pl.DataFrame([dict(row) for row in rows], schema=SCHEMA)


def write(table: pl.DataFrame, path: str | Path) -> None:
    """Write a table as Parquet: it is there whole or not at all.

    The bytes depend on nothing but the table and the version of polars.
    """
    files.write_bytes(path, to_bytes(table))


def write_tables(tables: Mapping[str, pl.DataFrame], folder: Path, prefix: str = "") -> list[Path]:
    """Write each table as a Parquet file of its name into a folder, which is made; gives the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = [folder / f"{prefix}{name}.parquet" for name in tables]
    for path, table in zip(written, tables.values(), strict=True):
        write(table, path)
    return written


def to_bytes(table: pl.DataFrame, notes: Mapping[str, str] | None = None) -> bytes:
    """Give a table as the bytes of a Parquet file, with notes among its metadata."""
    # Into memory first: polars' own errors of a full disk name no file and are no OSError.
    buffer = io.BytesIO()
    metadata = dict(notes) if notes else None
    table.write_parquet(buffer, compression="zstd", compression_level=3, statistics=True, metadata=metadata)
    return buffer.getvalue()


def read(path: str | Path) -> pl.DataFrame:
    """Read a results table: a Parquet file, or the ``results.parquet`` of a results folder."""
    path = Path(path)
    return read_parquet(path / "results.parquet" if path.is_dir() else path)


def read_parquet(file: str | Path) -> pl.DataFrame:
    """Read a Parquet file; a damaged one, on which the reader may panic, is an error of the input.

    What the reader's threads print of their panic is not for the terminal.

    Raises
    ------
    InputError
    """
    try:
        with files.unheard_if(pl.exceptions.PanicException):
            return pl.read_parquet(files.check_size(Path(file), "a table"))
    except pl.exceptions.PanicException:
        raise InputError(f"failed to read {file}: it is damaged, or larger than the memory allows") from None


def from_published(path: str | Path) -> pl.DataFrame:
    """Read a table of published values: one row a mean, with its spread.

    The file's columns are ``seed,table,machine,kernel,benchmark,metric,unit,better,parameter,variant,value,spread,
    spread_kind,published_ratio_pct,note``. A spread becomes a row of its own, whose metric ends in `` ci``, and a
    published ratio one that ends in `` ratio``.
    """
    text = pl.read_csv(files.check_size(Path(path), "a table"), infer_schema=False)
    known = "table,machine,kernel,benchmark,metric,unit,better,parameter,variant,value,spread,spread_kind"
    absent = [name for name in [*known.split(","), "published_ratio_pct"] if name not in text.columns]
    text = text.with_columns(pl.lit("").alias(name) for name in absent)
    rows: list[dict[str, Any]] = []
    for line in text.iter_rows(named=True):
        if line["value"] in (None, "") or line["variant"] in (None, ""):
            continue
        row = {
            "experiment": line["table"],
            "source": "published",
            **{name: line[name] for name in ("machine", "kernel", "benchmark", "metric", "unit", "better")},
            "policy": line["variant"],
            "param": re.sub(";", " ", line["parameter"] or ""),
            "value": float(line["value"]),
        }
        rows.append(row)
        if line["spread"]:
            rows.append({**row, "metric": f"{line['metric']} ci", "better": "", "value": float(line["spread"])})
        if line["published_ratio_pct"]:
            ratio = float(line["published_ratio_pct"])
            rows.append({**row, "metric": f"{line['metric']} ratio", "unit": "%", "better": "", "value": ratio})
    return frame(rows)
