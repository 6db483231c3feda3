"""What the sets of the scoreboard of hardware share: tables as columns, and a row left out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from opplab.files import csv_rows
from opplab.fit.linear import fit_parts
from opplab.fit.score import Prediction, line

Row = dict[str, str]


def read(path: Path) -> list[Row]:
    """Read a table, also in gzip."""
    return [row for _, row in csv_rows(path)[1]]


def groups(rows: Iterable[Row], *keys: str) -> dict[tuple[str, ...], list[Row]]:
    """Give the rows by the values of some columns."""
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[key] for key in keys)].append(row)
    return dict(found)


def column(rows: list[Row], key: str) -> np.ndarray:
    """Give a column as numbers; what is empty is not a number."""
    return np.array([float(row[key]) if row[key] else np.nan for row in rows])


def running_mean(watts: np.ndarray, window_s: float, interval_s: float) -> np.ndarray:
    """Give the average that a limit with this window sees."""
    share = 1 - np.exp(-interval_s / window_s)
    seen = [watts[0]]
    for power in watts[1:]:
        seen.append(seen[-1] + share * (power - seen[-1]))
    return np.array(seen)


def each_left_out(names: list[str], features: np.ndarray, measured: np.ndarray, along: np.ndarray) -> list[Prediction]:
    """Predict each row by parts fitted to the others; the rival is the line along `along` through the outermost."""
    predictions = []
    for index in range(len(measured)):
        others = np.arange(len(measured)) != index
        parts = fit_parts(names, features[others], measured[others])
        here = features[index : index + 1]
        low, high = parts.interval(here)
        order = np.argsort(along[others], kind="stable")
        rival = line(list(along[others][order]), list(measured[others][order]), [along[index]])
        values = (float(measured[index]), float(parts.power(here)[0]), float(rival[0]), float(low[0]), float(high[0]))
        predictions.append(Prediction(f"{along[index]:g}", *values))
    return predictions
