"""Programs that drivers run: each with a time limit, and a failure is a BlockDeviceError that says why."""

from __future__ import annotations

from ganeti import constants, errors, runtime
from ganeti.storage import looks

# Such programs wait for locks of their own, but our callers do not wait without end.
SECONDS = 120.0
# For what takes a time for each part of the data; less than callers wait, so that they learn the reason.
LONG_SECONDS = constants.RPC_TMO_NORMAL - 60.0

_SHOWN = 500


def Look(argv: list[str], trouble: str, seconds: float = SECONDS) -> str:
    """Return what a program prints that changes nothing."""
    result = runtime.RunCmd(argv, timeout=seconds)
    if result.failed:
        raise errors.BlockDeviceError(f"{trouble}: {Reason(result)}")
    if result.truncated:
        raise errors.BlockDeviceError(f"{trouble}: it printed more than can be read")
    return result.stdout


def Run(argv: list[str], seconds: float = SECONDS) -> runtime.RunResult:
    """Run a program that changes something, whether it fails or not; what was looked at before no longer counts."""
    result = runtime.RunCmd(argv, timeout=seconds)
    looks.Forget()
    return result


def Act(argv: list[str], trouble: str, seconds: float = SECONDS) -> None:
    """Run a program that changes something and must not fail."""
    result = Run(argv, seconds)
    if result.failed:
        raise errors.BlockDeviceError(f"{trouble}: {Reason(result)}")


def Reason(result: runtime.RunResult) -> str:
    """Return why a program failed, and all that it said on one line; the last line stands in the reason anyway."""
    lines = result.stderr.strip().splitlines()
    said = " ".join(" ".join(lines).split())[:_SHOWN]
    return f"{result.fail_reason}: {said}" if len(lines) > 1 else result.fail_reason
