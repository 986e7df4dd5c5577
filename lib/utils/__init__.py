"""Helpers; each module holds one subject."""
