"""The model: what a cluster has, what fits, how good that is, and what a move makes of it (doc/reference/htools.md 2, 5 to 7)."""
