"""What mirrors write about their data beside it (doc/design-drbd.rst)."""

from __future__ import annotations

from ganeti import errors, runtime
from ganeti.storage.base import BLOCK_BYTES, BlockDev, BuildWipe
from ganeti.storage.utilities import drbdtools

# MiB that are cleared, and the limits of a metadata volume.
_CLEARED, _LEAST, _MOST = 128, 128, 1024
_CLEAR_SECONDS = 600.0


def Make(mirror: str, meta: BlockDev, number: int) -> None:
    """Clear a volume and write metadata for a device with this number, which knows of no data yet; raise BlockDeviceError.

    ``mirror``: the device, for people.
    """
    mib = meta.Dimensions()[0] / BLOCK_BYTES
    if not _LEAST <= mib <= _MOST:
        raise errors.BlockDeviceError(
            f"{mirror}: its metadata volume {meta} has {mib:g} MiB; it must have {_LEAST} to {_MOST} MiB"
        )
    path = meta._Path()
    for config in drbdtools.Configs().values():
        if path in (config.data, config.meta):
            raise errors.BlockDeviceError(f"{mirror}: its metadata volume {meta} is in use by {config}")
    result = runtime.RunCmd(BuildWipe(path, 0, _CLEARED), timeout=_CLEAR_SECONDS)
    if result.failed:
        raise errors.BlockDeviceError(f"{mirror}: its metadata volume cannot be cleared: {result.fail_reason}")
    drbdtools.Act(drbdtools.Syntax().MakeMeta(number, path), f"{mirror}: its metadata cannot be written")
