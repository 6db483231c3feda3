"""Machines, workloads, policies and runs: what `opplab.simulate` is made of."""
