"""The programs that compress what travels."""

from __future__ import annotations

from ganeti import constants, runtime
from ganeti.impexpd import TransferError

_PROBE_SECONDS = 2.0
# What is called by its own name and takes -c; others are called as they are and write to standard output unasked.
KNOWN = {
    "gzip": ["gzip", "-1", "-c"],
    "gzip-fast": ["gzip", "-1", "-c"],
    "gzip-slow": ["gzip", "-c"],
    "lzop": ["lzop", "-c"],
}


def BuildCompress(tool: str) -> list[str] | None:
    """Return the command that compresses standard input; None where nothing is compressed."""
    return None if tool == constants.NO_COMPRESSION else KNOWN.get(tool, [tool])


def BuildDecompress(tool: str) -> list[str] | None:
    if tool == constants.NO_COMPRESSION:
        return None
    return [KNOWN[tool][0], "-d", "-c"] if tool in KNOWN else [tool, "-d"]


def Check(tool: str) -> None:
    """Raise TransferError unless the program can be run here."""
    command = BuildCompress(tool)
    if command is None:
        return
    result = runtime.RunCmd([command[0], "-h"], env=runtime.Environment(), timeout=_PROBE_SECONDS)
    if result.failed:
        raise TransferError(
            f"Compression tool '{tool}' cannot be used on this node ({result.fail_reason}); install it, or choose"
            " another tool"
        )
