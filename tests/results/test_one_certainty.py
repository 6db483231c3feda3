"""One rule of certainty: the same numbers have the same words and the same star wherever a change is shown."""

import random
from typing import Any

import pytest

from opplab import results
from opplab.certainty import Certainty
from opplab.comparison.compare import compare
from opplab.comparison.gate import check
from opplab.summary.answer import paired_change
from opplab.summary.pairs import pair_blocks
from opplab.summary.pairs import render as pairs_text
from opplab.uncertainty.draws import Values
from opplab.uncertainty.sweep import change_of


def rows(values: list[float], policy: str) -> list[dict[str, Any]]:
    names = {"policy": policy, "benchmark": "b", "metric": "energy", "unit": "J", "better": "lower"}
    return [{**names, "value": value, "seed": seed, "iteration": seed} for seed, value in enumerate(values)]


def drawn(seed: int) -> tuple[list[float], list[float]]:
    """Give values of a few seeds: no change, a small or a large one, noise of any size, sometimes none."""
    draw = random.Random(seed)
    n, noise = draw.choice([1, 2, 3, 3, 4, 8]), draw.choice([0.0, 0.01, 0.1, 0.3])
    factor = draw.choice([1.0, 0.97, 1.05, 0.6, 1.7])
    base = [draw.uniform(5, 9) * draw.lognormvariate(0, noise) if noise else 7.0 for _ in range(n)]
    return base, [value * factor * draw.lognormvariate(0, noise) for value in base]


@pytest.mark.parametrize("seed", range(60))
def test_every_view_has_the_words_and_the_star_of_one_rule(seed: int) -> None:
    base, new = drawn(seed)
    table = results.frame(rows(base, "base") + rows(new, "new"))
    (compared,) = compare(table)
    cell = compared.rows[0].cells[1]
    assert cell is not None
    words, is_clear = cell.certain, cell.significant

    def agrees(certain: Certainty) -> bool:
        """An interval in percent that leaves everything open is replaced by how many runs are needed."""
        same = certain.words == words or (words == "not clear" and certain.words.startswith("needs about "))
        return same and certain.is_clear == is_clear

    (block,) = pair_blocks(table, [("base", "new")])
    assert agrees(block.lines[0].certain), block.lines[0].certain
    assert ("*" in pairs_text(block).plain) == is_clear

    answer = paired_change("lower", dict(enumerate(new)), dict(enumerate(base)))
    assert answer is not None
    assert agrees(answer.certainty) and answer.words.endswith("*") == is_clear

    # What `--uncertainty` and `choose` show where nothing is assumed.
    found = change_of(Values(dict(enumerate(new))), Values(dict(enumerate(base))), "lower", 0.95)
    assert found is not None
    parts, _ = found
    assert parts.is_clear == is_clear
    if parts.certainty.low is not None and cell.ratio_low is not None:
        assert parts.certainty.low == pytest.approx(100 * (cell.ratio_low - 1))

    (gated,) = check([compared], ["any > 0% better"])
    assert f"({words})" in gated.message
