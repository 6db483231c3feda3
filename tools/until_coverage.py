"""How often intervals hold what they promise when iterations stop as soon as the intervals are narrow.

Draws paired iterations of a baseline and a variant, stops as `opplab run --until-ci` does, and counts how often the
final 95 % interval of the change covers the true change.  Usage: python tools/until_coverage.py
"""

import math
import random

from opplab.sweep.confidence import estimate
from opplab.sweep.runner import Until

SAMPLES = 2000
MOST = 60
CHANGE = -10.0


def one(draw: random.Random, spread: float, least: int) -> tuple[bool, int]:
    """One sweep of a point: whether its interval covers, and how many iterations it took."""
    until = Until(1.0, [("base", "new")], least=least)
    base: list[float] = []
    new: list[float] = []
    while len(base) < least or (len(base) < MOST and not until.enough({"base": base, "new": new})):
        # A load that both see, and what each adds of its own: skewed, as run times are.
        common = math.exp(draw.gauss(0, 0.2))
        own = 100 + CHANGE + spread * (math.exp(draw.gauss(0, 0.5)) - math.exp(0.125)) / 0.6
        base.append(common)
        new.append(common * own / 100)
    found = estimate([100 * (ours / theirs - 1) for theirs, ours in zip(base, new, strict=True)])
    assert found.half is not None
    return abs(found.mean - CHANGE) <= found.half, len(base)


def main() -> None:
    """Print a table."""
    print("spread of a change  least  iterations  covered")
    for spread in (1.0, 2.0, 3.0):
        for least in (3, 5, 10):
            draw = random.Random(f"{spread} {least}")
            found = [one(draw, spread, least) for _ in range(SAMPLES)]
            covered = 100 * sum(hit for hit, _ in found) / SAMPLES
            mean = sum(n for _, n in found) / SAMPLES
            print(f"{spread:14.0f} %     {least:5}  {mean:10.1f}  {covered:5.1f} %")


if __name__ == "__main__":
    main()
