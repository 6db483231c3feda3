"""Runs of `opplab host compare` as a results table: rows like those of simulated runs, for every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl

from opplab import files, results
from opplab.errors import InputError


def results_of(path: str | Path) -> pl.DataFrame:
    """Give the blocks that count as rows of `opplab.results.SCHEMA`.

    Parameters
    ----------
    path : path
        A ``runs.jsonl``.

    Returns
    -------
    polars.DataFrame
        A row a run and metric.  ``iteration`` is the block; runs of one block have one ``seed`` and are pairs.

    Raises
    ------
    InputError
        With file and line, if it is none.

    Notes
    -----
    Of a repeated block the last repeat counts; a block that lacks a variant does not.  ``kernel`` is the release.
    """
    path = Path(path)
    files.check_size(path, "a file of runs")
    head: dict[str, Any] = {}
    blocks: dict[int, dict[int, dict[int, dict[str, Any]]]] = {}
    lines = path.read_bytes().split(b"\n")
    # What follows the last line end was cut off by a power loss.
    for number, line in enumerate(lines[:-1], 1):
        try:
            entry = json.loads(line)
            if number == 1:
                head = {key: entry[key] for key in ("variants", "benchmark", "machine", "kernel", "seed", "command")}
            elif entry["kind"] == "block":
                blocks.setdefault(entry["block"], {}).setdefault(entry["repeat"], {})[entry["variant"]] = entry
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}:{number}: no line of `host compare`: {error}") from None
    if not head:
        raise InputError(f"{path}: there is no run in it")
    rows = []
    for block, repeats in sorted(blocks.items()):
        runs = repeats[max(repeats)]
        if len(runs) != len(head["variants"]):
            continue
        for variant, run in sorted(runs.items()):
            common = {
                "experiment": "host-compare",
                "source": "measured",
                "machine": head["machine"],
                "kernel": head["kernel"],
                "policy": head["variants"][variant],
                "benchmark": head["benchmark"],
                "param": "",
                "iteration": block,
                "seed": (head["seed"] + block) % (1 << 64),
                "fingerprint": "",
            }
            for metric, unit, better, value in run["values"]:
                rows.append({**common, "metric": metric, "unit": unit, "better": better, "value": float(value)})
    return results.frame(rows)
