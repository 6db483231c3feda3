"""Choosing between settings of a machine: which is best for what counts, how sure that is, and what it hangs on."""
