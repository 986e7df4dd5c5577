"""Programs that drivers run: how each is called, and what it answers."""
