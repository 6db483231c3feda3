"""How far predictions are from published numbers: scoreboard, page, and fits to baselines."""
