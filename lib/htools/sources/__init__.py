"""What a model of the cluster is read from: text, LUXI, RAPI, an allocator's request, monitoring, or made up (doc/reference/htools.md 3, 4)."""
