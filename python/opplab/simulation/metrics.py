"""The table of what was measured in a run, which prints names and units first."""

from __future__ import annotations

from typing import Any

import polars as pl


class Metrics(pl.DataFrame):
    """Result rows (`opplab.SCHEMA`) of one run: a polars table whose text is metric, value, unit and what is better."""

    def _rows(self) -> list[dict[str, Any]]:
        return self.select("metric", "value", "unit", "better").to_dicts()

    def __str__(self) -> str:
        from opplab.report.text import render_table

        return render_table(self._rows(), "text").rstrip()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self, **_options: Any) -> str:
        from opplab.report.notebook import card

        return card("metrics", {}, self._rows())
