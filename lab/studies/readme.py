"""The pictures of README and of the site's first page: ``python -m lab.studies.readme``.

One predicts the power of a phone's core from three measured points, one shows the tasks and clocks of a run.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lab.studies import pages
from opplab import catalog
from opplab.fit import opp_power
from opplab.fit.freqbench import Curve, Point
from opplab.report import svg
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

STYLE = (
    ".v1{color:var(--c0)}.open{fill:var(--paper);stroke:var(--ink);stroke-width:1.3}.used{fill:var(--ink)}"
    ".rival{fill:none;stroke:var(--c1);stroke-width:1.5;stroke-dasharray:5 4}"
)
CORE = ("sm8250", "A77 prime", "Snapdragon 865, prime core")
"""The core of the power picture: machine and cluster of the catalogue, whose points were all measured, and its name."""


def fitted() -> opp_power.Fitted:
    """Fit the core of the power picture to its lowest, middle and highest point, and predict the others."""
    machine, name, _ = CORE
    tree = tomllib.loads(catalog.find("machine", machine).read_text(encoding="utf-8"))
    (opps,) = [cluster["opp"] for cluster in tree["cluster"] if cluster["name"] == name]
    points = [Point(machine, "", 0, opp["khz"], (opp["uw"] + opp["cluster_uw"]) / 1000) for opp in opps]
    (fit,) = opp_power.check([Curve(machine, "", 0, points)], "low,mid,high", None)
    return fit


def power() -> str:
    """Draw the measured power of a core against its clock, and the curve from three of the points."""
    fit = fitted()
    points = fit.curve.points
    mhz = np.linspace(points[0].khz / 1000, points[-1].khz / 1000, 60)
    curve, (low, high) = fit.fit.power(mhz), fit.fit.interval(mhz)
    height, left, right, top, bottom = 300, 62, 12, 12, 44
    y_ticks = svg.ticks(0, float(max(high.max(), points[-1].busy_mw)))

    def at(clock: float, mw: float) -> tuple[float, float]:
        x = left + (clock - mhz[0] + 60) / (mhz[-1] - mhz[0] + 120) * (svg.WIDTH - left - right)
        return float(x), float(height - bottom - mw / y_ticks[-1] * (height - top - bottom))

    def path(clocks: Iterable[float], values: Iterable[float]) -> str:
        return "L".join("{:.1f} {:.1f}".format(*at(*pair)) for pair in zip(clocks, values, strict=True))

    out = []
    for tick in y_ticks:
        y = at(mhz[0], tick)[1]
        out.append(svg.element("line", x1=left, x2=svg.WIDTH - right, y1=y, y2=y, class_="grid"))
        out.append(svg.text(left - 6, y + 4, f"{tick:g}", "end"))
    out += [
        svg.text(at(at_mhz, 0)[0], height - bottom + 17, str(at_mhz), "middle") for at_mhz in (1000, 1500, 2000, 2500)
    ]
    out.append(svg.text((left + svg.WIDTH - right) / 2, height - 8, "clock, MHz", "middle"))
    turn = f"translate(13 {(top + height - bottom) / 2:.0f}) rotate(-90)"
    out.append(svg.element("text", "power of the busy core, mW", transform=turn, text_anchor="middle"))
    around = path([*mhz, *mhz[::-1]], [*low, *high[::-1]])
    marks = svg.element("path", d=f"M{around}Z", class_="band") + svg.element(
        "path", d="M" + path(mhz.tolist(), curve.tolist()), class_="line"
    )
    out.append(svg.element("g", marks, class_="v1"))
    ends = [points[0], points[-1]]
    straight = path([end.khz / 1000 for end in ends], [end.busy_mw for end in ends])
    out.append(svg.element("path", d=f"M{straight}", class_="rival"))
    used = {point.khz for point in fit.used}
    for point in points:
        x, y = at(point.khz / 1000, point.busy_mw)
        out.append(svg.element("circle", cx=x, cy=y, r=4, class_="used" if point.khz in used else "open"))
    own = np.median(np.abs([one.error for one in fit.predictions]))
    rival = np.median(np.abs([one.rival_error for one in fit.predictions]))
    keys = (
        ("used", f"measured, used for the fit ({len(fit.used)})"),
        ("open", f"measured, predicted ({len(fit.predictions)})"),
        ("v1", f"opplab, 95 % band: median error {100 * own:.1f} %"),
        ("rival", f"straight line: {100 * rival:.0f} %"),
    )
    for number, (class_, words) in enumerate(keys):
        y = 26 + 17 * number
        if class_ in ("used", "open"):
            out.append(svg.element("circle", cx=left + 20, cy=y - 4, r=4, class_=class_))
        else:
            stroke = svg.element("path", d=f"M{left + 10} {y - 4}h20", class_="line" if class_ == "v1" else class_)
            out.append(svg.element("g", stroke, class_=class_) if class_ == "v1" else stroke)
        out.append(svg.text(left + 38, y, words))
    return svg.alone(svg.document(height, f"{CORE[2]}: power by clock, from three measured points", out), STYLE)


def run() -> str:
    """Draw 60 ms of a run."""
    work = Workload.periodic(7, run_us=1500, period_us=16000)
    made = simulate("juno-r2", work, Policy(variation="none"), seconds=0.5)
    return svg.alone(made.plot(start=0.2, seconds=0.06).image)


def texts(docs: Path) -> dict[Path, str]:
    """Make the pictures anew."""
    figures = docs / "figures"
    return {figures / "readme-power.svg": power(), figures / "readme-run.svg": run()}


if __name__ == "__main__":
    sys.exit(pages.main("readme", __doc__, texts))
