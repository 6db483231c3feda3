"""The results of many cases in little memory: what rows are called is kept once, and a value has 8 bytes."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import polars as pl

    from opplab.simulation.cases import Measured


Names: TypeAlias = tuple[tuple[str, str, str, bool], ...]
"""Metric, unit, better, and whether the value is known, of each row of a case."""

_OF_CASES = (
    "experiment",
    "source",
    "machine",
    "kernel",
    "policy",
    "benchmark",
    "param",
    "iteration",
    "seed",
    "fingerprint",
)


class Tables:
    """What cases measured, until they are a results table."""

    def __init__(self) -> None:
        # Most cases have the same.
        self._names: dict[Names, Names] = {}
        self._cases: dict[str, tuple[tuple[Any, ...], Names, array[float]]] = {}

    def __contains__(self, case_hash: str) -> bool:
        return case_hash in self._cases

    def add(self, case_hash: str, measured: Measured) -> None:
        """Keep a case's results; a later call replaces them. Several threads may call it."""
        names = tuple((metric, unit, better, value is not None) for metric, unit, better, value in measured.rows)
        values = array("d", [0.0 if row[3] is None else row[3] for row in measured.rows])
        labels = tuple(map(measured.labels.get, _OF_CASES))
        self._cases[case_hash] = labels, self._names.setdefault(names, names), values

    def frame(self, hashes: Sequence[str]) -> pl.DataFrame:
        """Give the rows of these cases, in that order."""
        import polars as pl

        from opplab import results

        found = [self._cases[case_hash] for case_hash in hashes]
        begins = dict(zip(map(id, self._names), accumulate(map(len, self._names), initial=0), strict=False))
        values, of_case, of_name = array("d"), array("I"), array("I")
        for number, (_, names, own) in enumerate(found):
            values.extend(own)
            of_case.extend(array("I", [number]) * len(own))
            of_name.extend(range(begins[id(names)], begins[id(names)] + len(own)))
        if not values:
            return results.frame([])
        labels = pl.DataFrame(
            [one for one, _, _ in found], {name: results.SCHEMA[name] for name in _OF_CASES}, orient="row"
        )
        types = {"metric": pl.String, "unit": pl.String, "better": pl.String, "known": pl.Boolean}
        called = pl.DataFrame(list(chain.from_iterable(self._names)), types, orient="row")
        name_at, case_at = pl.Series(of_name, dtype=pl.UInt32), pl.Series(of_case, dtype=pl.UInt32)
        columns = {"value": pl.Series(values, dtype=pl.Float64)}
        del values, of_name, of_case
        known = called.drop_in_place("known")
        if not known.all():
            nothing = pl.Series([None], dtype=pl.Float64)
            columns["value"] = columns["value"].zip_with(known.gather(name_at), nothing)
        same = {}
        for table, at in ((called, name_at), (labels, case_at)):
            for column in table:
                if column.n_unique() == 1:
                    # It takes no room.
                    same[column.name] = pl.lit(column[0], column.dtype).alias(column.name)
                else:
                    columns[column.name] = column.gather(at)
        return pl.DataFrame(columns).select(same.get(name, pl.col(name)) for name in results.SCHEMA)
