r"""Measured classes of programs as `[[program_class]]` tables of machine files: from the counters of two phones.

    .venv/bin/python tools/program_classes.py ../shared/silicon/pixel4-pmu/time_by_frequency.csv pixel4xl \
        A55=0 A76=4 "A76 prime=7"

Time of a program on a cluster at three clocks is fitted as ``a / f + b``; `mem_share` is the part of b at the highest
clock, `capacity` the time on the biggest cluster over that on this one, each at its highest clock.  A class is the
median of its programs; the spread goes beside it as a comment.  Power was not measured: 1024.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from opplab.fit.linear import fit_parts

CLASSES = {
    "integer": ("dhrystone", "mibench"),
    "spec": ("spec2006", "spec2017"),
    "memory": ("lmbench",),
}


def curves(path: Path, device: str) -> dict[tuple[str, str, int], list[tuple[float, float]]]:
    """Give (GHz, seconds) of each suite, program and CPU; rows that mostly wait are left out (by their cycles)."""
    found: dict[tuple[str, str, int], list[tuple[float, float]]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            cycles, khz = float(row["cycles_per_s_mhz"] or 0), int(row["khz"])
            if row["device"] == device and cycles > 0.9 * khz / 1000:
                found[row["suite"], row["program"], int(row["cpu"])].append((khz / 1e6, float(row["median_s"])))
    return {key: sorted(points) for key, points in found.items()}


def shares(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Give seconds at the highest clock, and the share of them that does not scale with it."""
    ghz, seconds = (np.array(column) for column in zip(*points, strict=True))
    parts = fit_parts(["cycles", "fixed"], np.column_stack([1 / ghz, np.ones_like(ghz)]), seconds)
    told = float(parts.power(np.array([[1 / ghz[-1], 1.0]]))[0])
    return float(seconds[-1]), float(parts.powers[1] / told)


def main(arguments: list[str]) -> None:
    """Print the tables."""
    path, device, clusters = Path(arguments[0]), arguments[1], [word.rsplit("=", 1) for word in arguments[2:]]
    of = curves(path, device)
    biggest = int(clusters[-1][1])
    for name, suites in CLASSES.items():
        programs = sorted({(suite, program) for suite, program, _ in of if suite in suites})
        print(f'[[program_class]]\nname = "{name}"\ncluster = [')
        for cluster, cpu in clusters:
            told = []
            for key in programs:
                here, there = of.get((*key, int(cpu)), []), of.get((*key, biggest), [])
                if len(here) >= 2 and len(there) >= 2:
                    seconds, share = shares(here)
                    told.append((1024 * shares(there)[0] / seconds, 1024 * share))
            if not told:
                continue
            capacity, mem_share = (np.array(column) for column in zip(*told, strict=True))
            spread = ", ".join(f"{np.min(of):.0f} .. {np.max(of):.0f}" for of in (capacity, mem_share))
            values = f"capacity = {round(np.median(capacity))}, mem_share = {round(np.median(mem_share))}"
            print(f'  {{ name = "{cluster}", {values} }},  # {len(told)} programs: {spread}')
        print("]\n")


if __name__ == "__main__":
    main(sys.argv[1:])
