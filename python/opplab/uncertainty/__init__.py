"""How sure an answer is: what the runs' variation and the assumed numbers of a machine leave open."""
