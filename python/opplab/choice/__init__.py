"""Choosing between settings of a machine: which is best for what counts, how sure that is, and what it hangs on."""

GOVERNORS = ("schedutil", "performance", "powersave")
"""Default settings of a choice; the first is the baseline."""

GOALS = ("energy",)
ITERATIONS = 5
SEED = 1
DRAWS = 40
"""As many as an interval of 95 % needs."""
SEARCH_SETTINGS = 40
