"""Experiments and many cases: expansion, workers, the store, means with intervals."""
