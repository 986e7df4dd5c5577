"""Connections: HTTPS with a limit on every size and wait, and the files that the daemon follows."""
