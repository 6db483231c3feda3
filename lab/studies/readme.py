"""The pictures of README and of the site's first page: ``python -m lab.studies.readme``.

One shows the energy of periodic tasks under three policies, one what the CPUs of a run did and at which clock.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lab.studies import pages
from opplab.report import svg
from opplab.simulation.policy import Policy
from opplab.simulation.simulate import simulate
from opplab.simulation.workload import Workload

STYLE = (
    "text{font:11px sans-serif;fill:#333}text.tiny{font-size:9px}.grid{stroke:#ddd}.axis{stroke:#333}"
    ".v1{color:#1b6ca8}.v2{color:#d1495b}.v3{color:#8a6d1a}.line{fill:none;stroke:currentColor;stroke-width:1.8}"
    ".dot{fill:currentColor}.lane{fill:#f1f3f4}.clock{fill:none;stroke:#333;stroke-width:1.2}"
)
POLICIES = (
    ("energy-aware", "v1", Policy(variation="none")),
    ("not energy-aware", "v2", Policy(eas=False, variation="none")),
    ("performance", "v3", Policy(governor="performance", variation="none")),
)


def _alone(picture: str) -> str:
    """Give a picture its colours and a white ground, so that it stands alone."""
    ground = svg.element("style", STYLE) + svg.element("rect", width="100%", height="100%", fill="#fff")
    return picture.replace("</title>", f"</title>{ground}", 1) + "\n"


def energy() -> str:
    """Draw energy against the number of tasks."""
    lines = []
    for label, class_, policy in POLICIES:
        line = svg.Series(label, class_)
        for tasks in (2, 6, 10, 14, 18, 22):
            work = Workload.periodic(tasks, run_us=800, period_us=16000)
            metrics = simulate("juno-r2", work, policy, seconds=1).metrics
            line.points.append((tasks, metrics.filter(metric="energy")["value"].item(), None))
        lines.append(line)
    title = "Energy of a second on a Juno r2, by the number of tasks"
    picture = svg.lines(title, lines, "tasks of 800 us every 16 ms", "J")
    names = "".join(
        svg.element("text", label, x=60, y=26 + 15 * number, class_="key", style=f"fill:{color}")
        for number, ((label, _, _), color) in enumerate(zip(POLICIES, ("#1b6ca8", "#d1495b", "#8a6d1a"), strict=True))
    )
    return _alone(picture.replace("</svg>", f"{names}</svg>"))


def run() -> str:
    """Draw 60 ms of a run."""
    work = Workload.periodic(7, run_us=1500, period_us=16000)
    made = simulate("juno-r2", work, Policy(variation="none"), seconds=0.5)
    return _alone(made.plot(start=0.2, seconds=0.06).image)


def texts(docs: Path) -> dict[Path, str]:
    """Make the pictures anew."""
    figures = docs / "figures"
    return {figures / "readme-energy.svg": energy(), figures / "readme-run.svg": run()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the pictures, or check them."""
    return pages.main("readme", __doc__, texts, arguments)


if __name__ == "__main__":
    sys.exit(main())
