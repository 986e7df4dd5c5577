"""Operating system definitions and their scripts (doc/reference/interfaces.md a)."""
