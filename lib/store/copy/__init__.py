"""One node's copy: what it accepts and keeps on disk (rules 2, 3, 4 and 6)."""
