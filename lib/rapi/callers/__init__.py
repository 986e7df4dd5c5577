"""Who sends a request, what it may do, and what is recorded of it."""
