"""Learn what power curves of phone SoCs look like from freqbench's table, and write `data/power_shapes.csv`.

Usage: python tools/power_shapes.py OPP_POWER.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np

from opplab.fit.curve import WEAK, fit_curve
from opplab.fit.freqbench import choose, read_points

TARGET = Path(__file__).parent.parent / "python" / "opplab" / "data" / "power_shapes.csv"

HEAD = """\
# Shapes of power curves: logits of static share, voltage floor and knee (python/opplab/fit/curve.py), one row a chip
# and cluster, mean over the runs. [D] Fitted by tools/power_shapes.py to freqbench, github kdrag0n/freqbench, results/,
# commit 9eb16adc (MIT, Copyright (c) 2020 Danny Lin).
"""


def main(file: Path) -> None:
    """Fit each curve with hardly anything assumed, and write the parameters."""
    thetas: dict[tuple[str, int], list[np.ndarray]] = {}
    for curve in choose(read_points(file), None, None, file):
        if len(curve.points) < 4:
            continue
        power = np.array([point.busy_mw for point in curve.points])
        fit = fit_curve(curve.clock_mhz(curve.points), power, WEAK)
        thetas.setdefault((curve.soc, curve.cpu), []).append(fit.theta[1:])
    with TARGET.open("w", encoding="utf-8", newline="") as stream:
        stream.write(HEAD)
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["soc", "cpu", "static", "floor", "knee"])
        for (soc, cpu), values in sorted(thetas.items()):
            writer.writerow([soc, cpu, *(f"{value:.3f}" for value in np.mean(values, axis=0))])
    print(f"wrote {len(thetas)} curves to {TARGET}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
