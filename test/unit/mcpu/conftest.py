"""A simulated cluster for each test."""

from support.stage import make, master, pytest_pyfunc_call

__all__ = ["make", "master", "pytest_pyfunc_call"]
