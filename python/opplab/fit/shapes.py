"""What power curves of measured chips look like, learnt by `tools/power_shapes.py` and kept in `data/power_shapes.csv`.

One row a chip and cluster: the fitted curve's free parameters.  A fit to a chip leaves out the rows of its own family
(the letters and digits that its name begins with), so what it is checked against was never used.
"""

from __future__ import annotations

import csv
import re
from functools import cache
from pathlib import Path

import numpy as np

from opplab.fit.curve import Shapes

_FILE = Path(__file__).parent.parent / "data" / "power_shapes.csv"

SERVER_CUBIC = 0.157
"""b/a of a server core's ``a f + b f^3`` in 1/GHz^2: all cores of two EPYC 7502 (Zen 2, RAPL), 1.5 and 2.5 GHz, in five
kernels that stay in the core 0.156 to 0.159."""
_SERVER_CUBICS = {"epyc-7502-2s": (0.026, 0.159), "xeon-6130-spin": (0.108, 0.108), "epyc-milan-cap": (0.241, 0.241)}
"""The same by measured set, least and most: the EPYC's kernels with memory traffic 0.026 to 0.059."""


def server_cubic_range(without: str | None = None) -> tuple[float, float]:
    """Give the least and the most b/a of the measured servers, less those of the set that is to be predicted.

    Examples
    --------
    >>> server_cubic_range(), server_cubic_range(without="epyc-milan-cap")
    ((0.026, 0.241), (0.026, 0.159))
    """
    left = [ends for name, ends in _SERVER_CUBICS.items() if name != without]
    return min(low for low, _ in left), max(high for _, high in left)


def core_shape(ghz: float, cubic: float = SERVER_CUBIC) -> float:
    """Give what a server's core draws at a clock, in units of what its linear part draws at 1 GHz.

    Examples
    --------
    >>> round(core_shape(2.5) / core_shape(1.5), 2)
    2.44
    """
    return ghz + cubic * ghz**3


def family(soc: str) -> str:
    """Give the family of a chip: variants of one design share it.

    Examples
    --------
    >>> family("sm8150ac")
    'sm8150'
    """
    found = re.match(r"[a-z]*\d+", soc.lower())
    return found.group() if found else soc.lower()


@cache
def _rows() -> tuple[tuple[str, str, tuple[float, float, float]], ...]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        return tuple(
            (row["soc"], row["cpu"], (float(row["static"]), float(row["floor"]), float(row["knee"])))
            for row in csv.DictReader(line for line in file if not line.startswith("#"))
        )


def learn(rows: list[tuple[str, tuple[float, float, float]]], about: str) -> Shapes:
    """Give the distribution of parameters of (chip, parameters); each chip weighs the same."""
    values = np.array([theta for _, theta in rows])
    names = [soc for soc, _ in rows]
    weights = np.array([1.0 / names.count(soc) for soc in names])
    mean = np.average(values, axis=0, weights=weights)
    covariance = np.cov(values.T, aweights=weights) + 0.5 * np.eye(3)
    return Shapes(mean, covariance, about)


def shapes_without(soc: str | None = None) -> Shapes:
    """Give what the catalogue's chips teach, less those of the family of `soc`."""
    left = [(name, theta) for name, _, theta in _rows() if soc is None or family(name) != family(soc)]
    chips = len({name for name, _ in left})
    return learn(left, f"{chips} phone SoCs (freqbench)")
