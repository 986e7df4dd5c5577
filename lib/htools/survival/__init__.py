"""What a cluster can bear: losses of nodes, and what would help (doc/reference/htools.md 10.4, doc/design-resource-model.rst)."""
