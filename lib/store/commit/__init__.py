"""The acting master's side: one thread makes changes durable at a quorum (rules 1 to 4 and 7 of doc/design-store.rst)."""
