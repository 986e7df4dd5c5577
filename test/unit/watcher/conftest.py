"""Clusters whose master is in the test's own process."""

from support.stage import make, pytest_pyfunc_call

__all__ = ["make", "pytest_pyfunc_call"]
