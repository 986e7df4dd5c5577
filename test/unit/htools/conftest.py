"""Programs that submit jobs run against a master whose jobs are executed on simulated nodes."""

from support.stage import make, pytest_pyfunc_call

__all__ = ["make", "pytest_pyfunc_call"]
