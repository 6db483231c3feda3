"""The track record of predictions: scored seals in a folder, a line a machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opplab.agreement.scoreboard import score
from opplab.agreement.sealed import Score, Scored, Seal, cell_of, check_row, check_text, figures_row
from opplab.errors import InputError
from opplab.files import read_text, safe_name, write_text
from opplab.report.block import Block

KIND = "score"


def add(folder: Path, sealed: Seal, scored: Score) -> list[Path]:
    """Keep a score in a folder, a file for each measured machine: of one seal and one machine the newest."""
    folder.mkdir(parents=True, exist_ok=True)
    seal = hashlib.sha256(sealed.to_json().encode()).hexdigest()
    paths = []
    for measured_on in scored.machines:
        machine = measured_on or "unnamed"
        path = folder / f"{safe_name(machine)}-{safe_name(sealed.experiment)}-{seal[:8]}.json"
        plain = {"kind": KIND, "machine": machine, "version": sealed.version, "experiment": sealed.experiment}
        rows = [row for row in scored.rows() if row["measured_on"] == measured_on]
        write_text(path, json.dumps({**plain, "rows": rows}, indent=1) + "\n")
        paths.append(path)
    return paths


@dataclass
class Record(Block):
    """A track record: by machine the cells of all scores."""

    machines: dict[str, list[Scored]]

    def size(self) -> int:
        """Give the number of lines."""
        return len(self.machines)

    def tables(self, most: int | None = None) -> list[list[dict[str, str]]]:
        """Give a line a machine, and one of all."""
        rows = [{"machine": name, **figures_row(score(cells))} for name, cells in self.machines.items()][:most]
        every = [cell for cells in self.machines.values() for cell in cells]
        return [[*rows, {"machine": "all", **figures_row(score(every))}]]

    def rows(self) -> list[dict[str, Any]]:
        """Give one row a machine."""
        return [{"machine": name, **score(cells)} for name, cells in self.machines.items()]

    def facts(self) -> Mapping[str, Any]:
        """Give what JSON has beside the rows."""
        return {**super().facts(), "all": score([cell for cells in self.machines.values() for cell in cells])}


def track_record(folder: Path) -> Record:
    """Read the scores of a folder.

    Raises
    ------
    InputError
        If there is none, or a file is damaged.
    """
    machines: dict[str, list[Scored]] = {}
    files = sorted(folder.glob("*.json"))
    for path in files:
        try:
            plain = json.loads(read_text(path, "a score"))
            check_text(plain, "machine", "experiment")
            for row in plain["rows"]:
                check_row(row, "predicted", ("low", "high"), ("measured_low", "measured_high"))
                check_row(row, "measured")
            cells = [cell_of(row, plain["experiment"]) for row in plain["rows"] if plain["kind"] == KIND]
            machines.setdefault(plain["machine"], []).extend(cells)
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"{path}: no score (`opplab score ... --record {folder}`): {error}") from None
    if not machines:
        raise InputError(f"{folder}: no scores in it (`opplab score SEALED RESULTS --record {folder}`)")
    # A seal that was scored on several machines has a file for each; the name ends with its hash.
    count = len({path.stem.rpartition("-")[2] for path in files})
    question = f"Track record: {count} scored experiment{'s' * (count > 1)} on {len(machines)} machine"
    finding = (
        "Skill compares with always predicting no change: 1 is perfect, 0 no better. "
        "Closer is the share of values nearer than that."
    )
    return Record(f"{question}{'s' * (len(machines) > 1)}", finding, machines)
