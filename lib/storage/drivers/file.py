"""Disks that are files: templates ``file`` and ``sharedfile``.  Logical id: [driver, absolute path]."""

from __future__ import annotations

import posixpath
import re
import shlex
import stat
from collections.abc import Sequence
from typing import Any

from ganeti import errors, runtime
from ganeti.storage import paths
from ganeti.storage.base import BLOCK_BYTES, BlockDev

# A file's name begins with a UUID of its own.
_UNIQUE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.")


class FileDevice(BlockDev):
    """A sparse regular file below an allowed directory.

    The driver name in the logical id only concerns hypervisors; the file is the same for all of them.

    Other nodes may write its directory, too: what lies there in the file's place is used only if it is a file itself, and
    its directory is the one that the administrator of this node allowed.
    """

    PATH_MAY_BE_LINK = False
    IF_MISSING = "is its file system mounted? If the instance still runs, its data is lost when it stops: copy it from inside first"

    @property
    def path(self) -> str:
        return self._NamedPath()

    def _NamedPath(self) -> str:
        """Return the path as the logical id has it."""
        if len(self.unique_id) != 2 or not isinstance(self.unique_id[1], str):
            raise errors.BlockDeviceError(f"{self}: logical id must be [driver, path]")
        path: str = self.unique_id[1]
        return path

    def Attach(self) -> bool:
        self._SetGone()
        path = self._CheckedPath()
        try:
            mode = runtime.Stat(path, follow=False).st_mode
        except FileNotFoundError:
            return False
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot be examined: {err.strerror}") from err
        if stat.S_ISLNK(mode):
            raise errors.BlockDeviceError(
                f"{self}: is a symbolic link, which may lead anywhere, and is not followed; 'readlink -f {shlex.quote(path)}'"
                " shows where to; if it is yours, stop the instance and put the file in its place; else remove it"
            )
        if not stat.S_ISREG(mode):
            raise errors.BlockDeviceError(f"{self}: is not a regular file")
        self._SetFound(path)
        return True

    def Dimensions(self) -> tuple[int, int | None]:
        return runtime.Stat(self._Path()).st_size, None

    def Create(self, size: int, exclusive: bool = False) -> None:
        self._CheckShared(exclusive)
        path = self._CheckedPath()
        try:
            runtime.CreateFile(path, size * BLOCK_BYTES)
        except FileExistsError as err:
            raise errors.BlockDeviceError(f"{self}: file exists already; it is left as it is") from err
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot be created: {err.strerror}") from err

    def Assemble(self) -> None:
        if not self.Attach():
            advice = self._AdviceOnName()
            if advice:
                raise errors.BlockDeviceError(f"{self}: {advice}")
            raise errors.BlockDeviceError(
                f"{self}: file does not exist; {FileDevice.IF_MISSING}. {self.IfLost('the file')}"
            )

    @property
    def if_missing(self) -> str:
        return self._AdviceOnName() or f"{super().if_missing}. {self.IfLost('the file')}"

    def _AdviceOnName(self) -> str:
        """Return what to do where a renaming left the file in another directory; empty where it did not."""
        found = self._UnderAnotherName()
        if found is None:
            return ""
        old, new = posixpath.dirname(found), posixpath.dirname(self.path)
        return (
            f"the file is '{found}', as a change of the instance's name was cut off;"
            f" 'mv -T {shlex.quote(old)} {shlex.quote(new)}' on this node moves it to its place"
        )

    def _UnderAnotherName(self) -> str | None:
        """Return the path of this very file in the directory of another instance's name, where a renaming left it."""
        folder, name = posixpath.split(self.path)
        top = posixpath.dirname(folder)
        if not _UNIQUE.match(name):
            return None
        try:
            beside = sorted(posixpath.join(top, each, name) for each in runtime.ListDir(top))
        except OSError:
            return None
        return next((path for path in beside if path != self.path and runtime.Exists(path)), None)

    def Shutdown(self) -> None:
        """Do nothing: a file has no device to take away; it stays attached."""

    def Remove(self) -> None:
        try:
            runtime.RemoveFile(self._CheckedPath())
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot be removed: {err.strerror}") from err
        self._SetGone()

    def Rename(self, new_id: Sequence[Any]) -> None:
        """Move the file; the new path must be allowed and free.  Can be repeated."""
        old, renamed = self._CheckedPath(), type(self)(self.disk.Replace(logical_id=list(new_id)))
        new = renamed._CheckedPath()
        if new == old:
            return
        if runtime.Exists(new) and not runtime.Exists(old):
            # An earlier try was cut off after this step.
            self.disk = renamed.disk
            self.Attach()
            return
        if runtime.Exists(new):
            raise errors.BlockDeviceError(f"{self}: cannot be renamed, '{new}' exists already")
        try:
            runtime.MakeDirs(posixpath.dirname(new), mode=0o750)
            runtime.Rename(old, new)
        except OSError as err:
            raise errors.BlockDeviceError(f"{self}: cannot be renamed to '{new}': {err.strerror}") from err
        self.disk = renamed.disk
        self.Attach()

    def Grow(self, amount: int, dry_run: bool, backing_store: bool, exclusive: bool = False) -> None:
        GrowFile(self, self._Path(), amount, dry_run or not backing_store)

    def _CheckedPath(self) -> str:
        try:
            paths.CheckFile(self.path)
        except errors.FileStoragePathError as err:
            raise errors.BlockDeviceError(str(err)) from err
        return self.path


def GrowFile(device: BlockDev, path: str, amount: int, only_check: bool) -> None:
    """Add ``amount`` MiB of zeros to the file of a device."""
    if amount < 0:
        raise errors.BlockDeviceError(f"{device}: cannot shrink (asked for {amount} MiB more)")
    if only_check:
        return
    try:
        runtime.Extend(path, runtime.Stat(path).st_size + amount * BLOCK_BYTES)
    except OSError as err:
        raise errors.BlockDeviceError(f"{device}: cannot be grown by {amount} MiB: {err.strerror}") from err
