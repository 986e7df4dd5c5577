"""A simulated cluster for tests that ask nodes."""

from support.stage import make, pytest_pyfunc_call

__all__ = ["make", "pytest_pyfunc_call"]
