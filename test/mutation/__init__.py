"""Small faults, planted one at a time, that a room's tests should notice (``tools/mutate``)."""
