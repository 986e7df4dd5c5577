"""What follows from a model: where instances go, and what moves for what reason (doc/reference/htools.md 8 to 16, 18, 19)."""
