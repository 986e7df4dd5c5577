"""From the bytes of a request to opcodes, and from what comes of them to an answer."""
