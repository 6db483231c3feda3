"""What the repository computes for its own pages: not part of the installed package."""
