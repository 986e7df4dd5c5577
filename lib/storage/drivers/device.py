"""Storage that is a block device of the node while it is assembled; and template ``blockdev``, devices that exist anyway.

Logical id of ``blockdev``: ["manual", absolute path].
"""

from __future__ import annotations

import os
import posixpath
import stat

from ganeti import errors, runtime
from ganeti.storage.base import BLOCK_BYTES, BlockDev
from ganeti.storage.utilities import programs

_LOOK_SECONDS = 30.0
# Of the highest number with 64 bits.
_SIZE_DIGITS = 20


class NodeDevice(BlockDev):
    """A disk that is found at the path of a block device."""

    def Dimensions(self) -> tuple[int, int | None]:
        return SizeOf(self._Path(), str(self)), None

    def _Take(self, path: str) -> None:
        """Set the device found at ``path``; raise BlockDeviceError unless it is a block device."""
        found = self._FindNode(path)
        if found is None:
            raise errors.BlockDeviceError(f"{self}: '{path}' does not exist; 'ls -l /dev' and 'dmesg' may show why")
        self._SetFound(path, *found)

    def _FindNode(self, path: str) -> tuple[int, int] | None:
        """Return the numbers of a block device; None if the path does not exist."""
        try:
            node = runtime.Stat(path)
        except FileNotFoundError:
            return None
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: '{path}' cannot be examined: {err.strerror}") from err
        if not stat.S_ISBLK(node.st_mode):
            raise errors.BlockDeviceError(f"{self}: '{path}' is not a block device")
        return os.major(node.st_rdev), os.minor(node.st_rdev)

    def _GrownSize(self, amount: int) -> int:
        """Return the MiB that the device is to have."""
        return -(-self.Dimensions()[0] // BLOCK_BYTES) + amount


class ExistingDevice(NodeDevice):
    """A device that somebody else made and looks after; only named here, never made, changed or destroyed."""

    IF_MISSING = "is its storage connected? 'ls -l /dev/disk/*' shows the devices of this node"

    def Attach(self) -> bool:
        self._SetGone()
        path = self._DevPath()
        found = self._FindNode(path)
        if found is None:
            return False
        self._SetFound(path, *found)
        return True

    def Create(self, size: int, exclusive: bool = False) -> None:
        """Check that the device is there: it is adopted as it is."""
        self._CheckShared(exclusive)
        self.Assemble()
        have = self.Dimensions()[0]
        if have < size * BLOCK_BYTES:
            self._SetGone()
            raise errors.BlockDeviceError(f"{self}: has {have} bytes only, {size} MiB were asked for")

    def Assemble(self) -> None:
        """Find the device; raise BlockDeviceError if it is not there, or is one that this node uses itself.

        The path that an administrator has named need not be the same device on another node.
        """
        if not self.Attach():
            raise errors.BlockDeviceError(f"{self}: does not exist on this node; {self.IF_MISSING}")
        path = self._Path()
        try:
            held = runtime.IsHeld(path)
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: '{path}' cannot be opened: {err.strerror}") from err
        if held:
            self._SetGone()
            raise errors.BlockDeviceError(
                f"{self}: this node has {path} in use itself (mounted, as swap, or below volumes, arrays or mirrors);"
                f" 'lsblk {path}' shows by what"
            )

    def Shutdown(self) -> None:
        """Do nothing: the device is not ours to take away."""

    def Remove(self) -> None:
        """Forget the device; its data stays."""
        self._SetGone()

    def _DevPath(self) -> str:
        if len(self.unique_id) != 2 or not isinstance(self.unique_id[1], str):
            raise errors.BlockDeviceError(f"{self}: logical id must be ['manual', path]")
        path: str = self.unique_id[1]
        if not path.startswith("/dev/") or posixpath.normpath(path) != path:
            raise errors.BlockDeviceError(f"{self}: '{path}' is not the plain path of a device below /dev")
        return path


def SizeOf(path: str, what: str) -> int:
    """Return the bytes of a block device; ``what`` it is, for messages."""
    output = programs.Look(BuildSize(path), f"{what}: its size cannot be found out", _LOOK_SECONDS).strip()
    if not IsSize(output):
        raise errors.BlockDeviceError(
            f"{what}: 'blockdev --getsize64 {path}' printed {output[:40]!r} instead of a size"
        )
    return int(output)


def IsSize(text: str) -> bool:
    """Return whether a program printed a number of bytes; Python knows more digits than ours, and reads no endless ones."""
    return text.isascii() and text.isdecimal() and len(text) <= _SIZE_DIGITS


def BuildSize(path: str) -> list[str]:
    return ["blockdev", "--getsize64", path]
