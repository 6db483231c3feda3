"""How sure an answer is: what the runs' variation and the assumed numbers of a machine leave open."""

DRAWS_MAX = 4096
"""The most draws of the assumed numbers: what they leave open is known far better than they are by then."""
