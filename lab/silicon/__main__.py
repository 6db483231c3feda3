"""Print the scoreboard of hardware, or write its page."""

from __future__ import annotations

import argparse
from pathlib import Path

from lab.silicon import page, score

parser = argparse.ArgumentParser(prog="python -m lab.silicon", description=__doc__)
parser.add_argument("folder", type=Path, nargs="?", default=Path("../shared/silicon"), help="of the measurements")
parser.add_argument("--docs", type=Path, help="the folder of the page")
options = parser.parse_args()
report = score(options.folder)
if options.docs:
    (options.docs / "silicon.md").write_text(page.page(report), encoding="utf-8")
else:
    print(page.text(report), end="")
