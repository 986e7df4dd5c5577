"""Helpers shared by tests: addresses, ports and what else several of them need."""
