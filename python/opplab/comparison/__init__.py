"""Results side by side: where they come from, what is computed, how the tables look."""
