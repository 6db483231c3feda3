"""What came of runs, sweeps, choices and comparisons: the answer, the tables and the HTML report."""
