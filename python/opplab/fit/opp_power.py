"""Fits of power by operating point: to chosen points, checked against others, or leaving out each in turn."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from opplab.errors import InputError
from opplab.fit.curve import METER, PowerCurve, Shapes, fit_curve
from opplab.fit.freqbench import Curve, Point, pick_points, pooled
from opplab.fit.score import Prediction, line, summary
from opplab.fit.shapes import shapes_without

CANNOT_TELL = (
    "leakage apart from the rest of what does not depend on the clock (static is both)",
    "what one core draws apart from what it shares: one core at a time was busy",
    "power of other programs: the source ran one",
)
"""What a table of power by operating point leaves open; printed beside every fit and written into the machine file."""


GAUGE_MW = 6.0
"""How far a battery gauge or a rail is off in any reading: with `curve.FURTHER`, 94 of 100 points of little cores and
99 of larger ones lie within the intervals of fits to three points (46 runs of 26 SoCs of freqbench); without, 89."""


@dataclass
class Fitted:
    """A curve's fit, and what it predicts of points that it did not use."""

    curve: Curve
    used: list[Point]
    fit: PowerCurve
    predictions: list[Prediction] = field(default_factory=list)
    clocks_off: int = 0
    of: str = METER
    """What the intervals of the predictions are of."""

    def row(self) -> dict[str, Any]:
        """Give it as a set of the report."""
        soc, run, cpu = self.curve.soc, self.curve.run, self.curve.cpu
        return {
            "set": "/".join(name for name in (soc, run, self.curve.points[0].rail or f"cpu{cpu}") if name),
            "soc": soc,
            "run": run,
            "cpu": cpu,
            "points_khz": [point.khz for point in self.used],
            **summary([self.predictions]),
            "clocks_off": self.clocks_off,
            "interval_of": self.of,
            "parameters": [
                {"name": p.name, "value": p.value, "low": p.low, "high": p.high, "unit": p.unit}
                for p in self.fit.parameters()
            ],
            "residuals": [
                {"khz": point.khz, "relative": float(residual)}
                for point, residual in zip(self.used, self.fit.residuals, strict=True)
            ],
            "checked": [
                {
                    "khz": int(p.where),
                    "measured_mw": p.measured,
                    "predicted_mw": p.predicted,
                    "low_mw": p.low,
                    "high_mw": p.high,
                    "rival_mw": p.rival,
                    "error": p.error,
                }
                for p in self.predictions
            ],
            "prior": self.fit.shapes.about,
        }


def fit_points(curve: Curve, used: list[Point], shapes: Shapes | None = None, others: Iterable[int] = ()) -> Fitted:
    """Fit a curve to some of its points; what is assumed of the shape leaves out the chip's own family.

    The highest clock of the curve's points, and of `others` (kHz), is the chip's, whether the fit may use its power or
    not.
    """
    if not used:
        raise InputError(f"no point of {curve.title} to fit to")
    shapes = shapes or shapes_without(curve.soc)
    power = np.array([point.busy_mw for point in used])
    top_mhz = max(*(point.khz for point in (*used, *curve.points)), *others, 0) / 1000
    return Fitted(curve, used, fit_curve(curve.clock_mhz(used), power, shapes, top_mhz, GAUGE_MW))


def predict(fitted: Fitted, rest: list[Point]) -> None:
    """Predict points that were not used, beside the straight line's."""
    if not rest:
        return
    clocks = fitted.curve.clock_mhz(rest)
    power = fitted.fit.power(clocks)
    low, high = fitted.fit.interval(clocks, fitted.of)
    used_clocks = fitted.curve.clock_mhz(fitted.used)
    order = np.argsort(used_clocks)
    used_power = np.array([point.busy_mw for point in fitted.used])
    rival = line(list(used_clocks[order]), list(used_power[order]), list(clocks))
    fitted.clocks_off += fitted.curve.clocks_off(rest)
    for index, point in enumerate(rest):
        values = (float(power[index]), float(rival[index]), float(low[index]), float(high[index]))
        fitted.predictions.append(Prediction(str(point.khz), point.busy_mw, *values))


def check(curves: list[Curve], words: str, rest: list[Curve] | None, of: str = METER) -> list[Fitted]:
    """Fit the points that `words` names in each curve, and predict those of `rest` that were not used.

    A curve of `rest` is predicted by the curve of the same chip, CPU and run; without one of that run by the mean of
    the chip's runs, fitted together.  `rest` None takes the curve's own other points.
    """
    fits = []
    for curve in curves:
        used = pick_points(curve.points, words)
        same = [one for one in rest or [] if (one.soc, one.cpu) == (curve.soc, curve.cpu)]
        others = [point.khz for one in same for point in one.points]
        fitted = fit_points(curve, used, others=others)
        fitted.of = of
        fits.append(fitted)
        if rest is None:
            clocks = {point.khz for point in used}
            predict(fitted, [point for point in curve.points if point.khz not in clocks])
    by_key = {(fitted.curve.soc, fitted.curve.cpu, fitted.curve.run): fitted for fitted in fits}
    for curve in rest or []:
        nearest = by_key.get((curve.soc, curve.cpu, curve.run)) or _all_runs(fits, curve)
        if nearest is None:
            continue
        nearest.of = of
        if nearest not in fits:
            fits.append(nearest)
        clocks = {point.khz for point in nearest.used}
        predict(nearest, [point for point in curve.points if point.khz not in clocks])
    if rest and not any(fitted.predictions for fitted in fits):
        raise InputError("--check has no point of these chips and CPUs that the fit did not use")
    return fits


def _all_runs(fits: list[Fitted], curve: Curve) -> Fitted | None:
    """Fit the points of all runs of a chip's CPU together, for a run that has no fit of its own."""
    same = [fitted for fitted in fits if (fitted.curve.soc, fitted.curve.cpu) == (curve.soc, curve.cpu)]
    if len(same) < 2:
        return same[0] if same else None
    used = sorted((point for fitted in same for point in fitted.used), key=lambda point: point.khz)
    return fit_points(pooled([fitted.curve for fitted in same])[0], used)


def leave_one_out(curves: list[Curve], of: str = METER) -> list[Fitted]:
    """Predict each point by a fit to the others of its curve; curves of fewer than three points are passed over."""
    fits = []
    for curve in curves:
        if len(curve.points) < 3:
            continue
        whole = fit_points(curve, curve.points)
        for index, point in enumerate(curve.points):
            others = curve.points[:index] + curve.points[index + 1 :]
            fitted = fit_points(curve, others, whole.fit.shapes)
            fitted.of = of
            predict(fitted, [point])
            whole.predictions += fitted.predictions
            whole.clocks_off += fitted.clocks_off
        whole.of = of
        fits.append(whole)
    return fits


def report(fits: list[Fitted], left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Give the report: ``overall`` over all points that were predicted, and ``sets``, one a curve."""
    return {
        "overall": {
            **summary([[prediction for fitted in fits for prediction in fitted.predictions]]),
            "unit": "relative error, 0.05 is 5 %",
            "rival": "the straight line between the lowest and the highest point of the fit",
        },
        "cannot_tell": [*CANNOT_TELL, *left_out],
        "sets": [fitted.row() for fitted in fits],
    }
