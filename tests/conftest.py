"""For all tests: their terminal has no width of its own."""

import os

# GNU readline, which pytest's workers load, sets both; commands would wrap their output for it.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)
