"""Keys and certificates on this node."""
