"""Power of one busy core against its clock: a physical curve of few parameters, and its fit.

::

    P(f) = static + dynamic f V(f)^2          all parameters >= 0

    V(f)                         /  highest clock: 1 (or the volts that the source has)
                               /
      floor  _________________/
                            knee              f

Voltage is flat at low clocks, because the rail has a lowest voltage, and then rises nearly linearly.  Where a source
has the voltage of each operating point, it takes the place of the curve, and leakage gets a term of its own (V^2).
Where it has not, the shape comes from the points and from what curves of other chips look like (`shapes.Shapes`), so
that three points are enough.  The curve cannot separate leakage from what else does not depend on the clock: both are
``static``.

Not here: files, scores, how power divides between a core and what it shares (one busy core is all that is seen).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


NOISE = 0.05
"""Relative noise of a measured point (standard deviation): meters, steps of the voltage table, temperature."""
FURTHER = 0.06
"""The same of points that the fit has not seen; with what a meter is off in any reading (`fit_curve`'s `floor`)."""

METER, CHIP, KIND = "meter", "chip", "kind"
_CHIP = 1.74
"""Ratio of two devices with one SoC, or two runs of one: 95 of 100 lie within 1/1.74 to 1.74 (13 SoCs of freqbench with
several runs, each SoC weighing the same; 90 of 100 within 0.69 to 1.46)."""
_METER = 1.33
"""Ratio of another meter and load: two public measurements of one SoC differ by 0.78 to 1.33."""
SPREAD = {METER: 0.0, CHIP: math.log(_CHIP) / 1.96, KIND: math.hypot(math.log(_CHIP), math.log(_METER)) / 1.96}
"""What an interval is of: standard deviation of the logarithm of power beside what the points themselves leave open."""

_SOFTNESS = 0.06  # Width of the knee, in shares of the highest clock.
_FLOOR_LEAST = 0.5  # Lowest voltage over highest: phones and servers of two decades lie between 0.5 and 1.


@dataclass(frozen=True)
class Shapes:
    """What power curves look like: normal distribution of (static, floor, knee) in logits, before any point is seen.

    Parameters
    ----------
    mean : array of 3
    covariance : array of 3 x 3
    about : str
        Which chips it was learnt from.
    """

    mean: Floats
    covariance: Floats
    about: str


WEAK = Shapes(np.array([-2.0, 0.0, 0.0]), np.diag([4.0, 4.0, 4.0]), "no chip: only that the curve is physical")
"""For learning the others: hardly anything is assumed."""


@dataclass(frozen=True)
class Parameter:
    """One fitted number with its interval of 95 %."""

    name: str
    value: float
    low: float
    high: float
    unit: str

    @property
    def words(self) -> str:
        """The number with its interval; unknown where the fit and all resamples are held at 0, which shows nothing.

        Examples
        --------
        >>> Parameter("core f", 0.4896, 0.4638, 0.5129, "W").words, Parameter("core", 0.0, 0.0, 0.0, "W").words
        ('0.4896 [0.4638 .. 0.5129] W', 'unknown: taken as 0 W, the least that a fit may give')
        """
        if self.value == self.low == self.high == 0:
            return f"unknown: taken as 0 {self.unit}, the least that a fit may give"
        return f"{self.value:.4g} [{self.low:.4g} .. {self.high:.4g}] {self.unit}"


def _expit(logit: Floats | float) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logit, -30.0, 30.0))), dtype=float)


def _exp(logarithm: Floats | float) -> Floats:
    """Give the power of its logarithm, within what a number holds: contradictory points leave it open."""
    return np.asarray(np.exp(np.clip(logarithm, -700.0, 700.0)), dtype=float)


def _volts(share: Floats, floor: float, knee: float) -> Floats:
    """Give the voltage, 1 at the highest clock; `share` is the clock's share of the highest."""

    def ramp(distance: Floats | float) -> Floats:
        return np.asarray(_SOFTNESS * np.logaddexp(0.0, np.asarray(distance) / _SOFTNESS))

    rise = (ramp(share - knee) - ramp(-knee)) / (ramp(1.0 - knee) - ramp(-knee))
    return np.asarray(floor + (1.0 - floor) * rise, dtype=float)


def _physical(theta: Floats) -> tuple[float, float, float, float]:
    """Give (power at the highest clock, static share of it, voltage floor, knee) of the free parameters."""
    static, floor, knee = _expit(theta[1:])
    return float(_exp(theta[0])), float(static), float(_FLOOR_LEAST + (1 - _FLOOR_LEAST) * floor), 0.95 * float(knee)


def _log_power(theta: Floats, share: Floats) -> Floats:
    _, static, floor, knee = _physical(theta)
    return np.asarray(theta[0] + np.log(static + (1 - static) * share * _volts(share, floor, knee) ** 2))


@dataclass(eq=False)
class PowerCurve:
    """A fitted curve: power of one busy core at a clock, with intervals.

    Made by `fit_curve`.  Powers have the unit of the points that it was fitted to.
    """

    _top: float
    theta: Floats
    _covariance: Floats
    _points: tuple[Floats, Floats]
    shapes: Shapes
    _floor: float = 0.0

    def power(self, clock: Floats) -> Floats:
        """Give the power at clocks (unit of the points, as the clocks)."""
        return _exp(_log_power(self.theta, np.asarray(clock, dtype=float) / self._top))

    def _gradient(self, clock: Floats) -> Floats:
        """Give how the logarithm of the power changes with each free parameter, a row a clock."""
        share = np.asarray(clock, dtype=float) / self._top
        gradient = np.empty((len(share), len(self.theta)))
        for column in range(len(self.theta)):
            step = np.zeros_like(self.theta)
            step[column] = 1e-5
            rise = _log_power(self.theta + step, share) - _log_power(self.theta - step, share)
            gradient[:, column] = rise / 2e-5
        return gradient

    def interval(self, clock: Floats, of: str = METER) -> tuple[Floats, Floats]:
        """Give the interval that holds 95 of 100 measured points at these clocks; `of` is one of `SPREAD`."""
        gradient, power = self._gradient(clock), self.power(clock)
        known = np.einsum("ij,jk,ik->i", gradient, self._covariance, gradient)
        spread = np.sqrt(known + self._noise_at(power) ** 2 + SPREAD[of] ** 2)
        middle = np.log(power)
        return _exp(middle - 1.96 * spread), _exp(middle + 1.96 * spread)

    def narrowed(self, clock: Floats) -> Floats:
        """Give by how much a further point at each clock narrows the curve: mean half-width of 95 % over these clocks.

        A point at a clock takes ``C g g' C / (g' C g + noise^2)`` off the covariance C, g being the gradient there.
        """
        gradient = self._gradient(clock)
        together = gradient @ self._covariance @ gradient.T
        now = np.diag(together)
        then = now - together**2 / (now + self._noise_at(self.power(clock)) ** 2)[:, None]
        return np.asarray(1.96 * np.mean(np.sqrt(now) - np.sqrt(np.maximum(then, 0)), axis=1))

    @property
    def noise(self) -> float:
        """Relative spread of the points about the curve; never below `NOISE`."""
        return max(NOISE, float(np.sqrt(np.mean(self.residuals**2))))

    def _noise_at(self, power: Floats) -> Floats:
        """Give the relative noise of a further measured point of such power."""
        return np.hypot(max(self.noise, FURTHER), self._floor / power)

    @property
    def residuals(self) -> Floats:
        """Measured over fitted less 1, a point."""
        clock, power = self._points
        return np.asarray(power / self.power(clock) - 1)

    def parameters(self) -> list[Parameter]:
        """Give what was fitted to mW and MHz, in physical terms, with intervals of 95 %."""
        spread = np.sqrt(np.diag(self._covariance))

        def bounds(index: int) -> tuple[Floats, Floats]:
            low, high = self.theta.copy(), self.theta.copy()
            low[index] -= 1.96 * spread[index]
            high[index] += 1.96 * spread[index]
            return low, high

        power, static, floor, knee = _physical(self.theta)
        (low0, high0), (low1, high1), (low2, high2), (low3, high3) = (bounds(index) for index in range(4))
        # It is part of the power at every clock.
        most = min(power * _physical(high1)[1], float(np.min(self.interval(self._points[0])[1])))
        return [
            Parameter("power_top", power, _physical(low0)[0], _physical(high0)[0], "mW"),
            Parameter("static", power * static, power * _physical(low1)[1], most, "mW"),
            Parameter(
                "dynamic",
                power * (1 - static) / self._top,
                max(power - most, 0.0) / self._top,
                power * (1 - _physical(low1)[1]) / self._top,
                "mW/MHz at the highest voltage",
            ),
            Parameter("volt_floor", floor, _physical(low2)[2], _physical(high2)[2], "of the highest voltage"),
            Parameter("knee", knee * self._top, _physical(low3)[3] * self._top, _physical(high3)[3] * self._top, "MHz"),
        ]


def fit_curve(
    clock: Floats, power: Floats, shapes: Shapes = WEAK, top: float | None = None, floor: float = 0.0
) -> PowerCurve:
    """Fit the curve to points, with a robust loss, so that a few bad points do not bend it.

    Parameters
    ----------
    clock, power : arrays
        Points; any number from one on, all above 0.
    shapes : Shapes
        What is known of such curves before; carries the more, the fewer points there are.
    top : float, optional
        The chip's highest clock, where no point has it.
    floor : float
        How far a reading of the meter is off whatever it reads (standard deviation, in the unit of `power`).

    Examples
    --------
    >>> mhz = np.array([300.0, 1000.0, 2000.0])
    >>> curve = fit_curve(mhz, 20 + 0.1 * mhz)
    >>> bool(abs(curve.power(np.array([1500.0]))[0] / 170 - 1) < 0.05)
    True
    """
    from scipy.optimize import least_squares

    clock, power = np.asarray(clock, dtype=float), np.asarray(power, dtype=float)
    if len(clock) == 0 or np.any(clock <= 0) or np.any(power <= 0):
        raise ValueError("points of a power curve must be above 0, and there must be one")
    top = max(float(clock.max()), top or 0.0)
    share, log_power = clock / top, np.log(power)
    whiten = np.linalg.cholesky(np.linalg.inv(shapes.covariance)).T

    def distance(theta: Floats) -> Floats:
        off = (_log_power(theta, share) - log_power) / NOISE
        # Pseudo-Huber beyond three times the noise; what is assumed of the shape stays quadratic.
        off = np.sign(off) * np.sqrt(18.0 * (np.sqrt(1.0 + off**2 / 9.0) - 1.0))
        return np.concatenate([off, whiten @ (theta[1:] - shapes.mean)])

    start = np.concatenate([[0.0], shapes.mean])
    start[0] = float(np.median(log_power - _log_power(start, share)))
    found = least_squares(distance, start, method="lm")
    information = found.jac.T @ found.jac
    covariance = np.linalg.pinv(information)
    curve = PowerCurve(top, found.x, covariance, (clock, power), shapes, floor)
    # The noise that the points show may be above the assumed one.
    curve._covariance = covariance * (curve.noise / NOISE) ** 2
    return curve
