"""The file functions of a simulated process."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ganeti import errors
from ganeti.runtime.contract import NOT_REGULAR, FileTooLarge, LockBusy, NewFile, UnfinishedPath
from simulated.disk import DISK_SIZE, Device, Disk, Fail, File, Folder, Link
from simulated.locks import Waiters

if TYPE_CHECKING:
    from simulated.machine import Machine, Process
    from simulated.world import World


class FileLock:
    """A held flock."""

    def __init__(self, process: Process, path: str, inode: File, exclusive: bool):
        self.path = path
        self.exclusive = exclusive
        self._process = process
        self._inode = inode
        inode.locks.append(self)
        process.resources[self] = None

    def Write(self, data: bytes) -> None:
        process = self._process
        process.world.Reach("FileLock.Write", self.path)
        if self not in self._inode.locks:
            raise errors.ProgrammerError(f"the lock on {self.path} was released")
        process.side.Durable(self.path)
        self._inode.Write(data, 0, process.machine.disk)
        self._inode.Sync()
        process.machine.disk.Changed(self.path, self._inode)

    def fileno(self) -> int:
        raise errors.ProgrammerError("a simulated process has no descriptors")

    def Share(self, process: Process) -> None:
        """Another process holds it, too, until it ends."""
        FileLock(process, self.path, self._inode, self.exclusive)

    def release(self) -> None:
        self._process.world.Reach("FileLock.release", self.path)
        self._process.resources.pop(self, None)
        self.Abandon()

    def Abandon(self) -> None:
        if self in self._inode.locks:
            self._inode.locks.remove(self)
            if self._inode.lock_waiters is not None:
                self._inode.lock_waiters.WakeAll()

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()


def _Compatible(inode: File, exclusive: bool) -> bool:
    return not inode.locks or not (exclusive or any(lock.exclusive for lock in inode.locks))


class Files:
    """Part of Side."""

    process: Process
    machine: Machine
    world: World

    @property
    def _disk(self) -> Disk:
        return self.machine.disk

    def NeedDisk(self, path: str, room: bool = False) -> None:
        """The disk's faults strike here."""
        if self.machine.disk_broken:
            raise Fail(errno.EIO, path)
        if room:
            self._disk.NeedRoom(path)

    def Durable(self, path: str) -> None:
        """Before something is made durable: room and time."""
        self.NeedDisk(path, room=True)
        if self.machine.slow_disk > 0:
            self.world.Block(self.machine.slow_disk)
            self.NeedDisk(path, room=True)

    def ReadFile(self, path: str, limit: int | None = None) -> bytes:
        self.world.Reach("ReadFile", path)
        inode = self._disk.FindFile(path)
        if limit is not None and inode.size > limit:
            raise FileTooLarge(path, limit)
        return inode.Read()

    def ReadRegular(self, path: str, limit: int | None = None) -> bytes:
        if not isinstance(self._disk.Find(path, follow=False), File):
            raise OSError(errno.EINVAL, NOT_REGULAR, path)
        return self.ReadFile(path, limit)

    def ReadEnd(self, path: str, count: int) -> bytes:
        self.world.Reach("ReadEnd", path)
        inode = self._disk.FindFile(path)
        return inode.Read()[max(0, inode.size - count) :]

    def WriteFile(self, path: str, data: bytes, mode: int, uid: int, gid: int, sync: bool) -> None:
        """Three steps, as on a real disk: a temporary file, its new name, the folder."""
        self.world.Reach("WriteFile", path)
        disk = self._disk
        disk.NeedRoom(path)
        temporary = self._Unfinished(path)
        inode = File(disk, mode, max(uid, 0), max(gid, 0), bytes(data))
        disk.Insert(temporary, inode)
        try:
            if sync:
                self.world.Reach("WriteFile.sync", temporary)
                self.Durable(path)
                inode.Sync()
            self.world.Reach("WriteFile.rename", path)
            disk.Move(temporary, path)
        except Exception:
            disk.Remove(temporary)
            raise
        if sync:
            self.world.Reach("WriteFile.sync_folder", path)
            disk.SyncFolder(posixpath.dirname(path) or "/")

    def _Unfinished(self, path: str) -> str:
        return UnfinishedPath(path, f"{self.process.random.getrandbits(48):012x}")

    def WriteFiles(self, files: Sequence[NewFile]) -> list[os.stat_result]:
        """All temporary files, one wait for the disk, all new names, one wait for each folder."""
        disk = self._disk
        waiting: dict[str, NewFile] = {}
        try:
            for file in files:
                self.world.Reach("WriteFiles", file.path)
                disk.NeedRoom(file.path)
                temporary = self._Unfinished(file.path)
                disk.Insert(temporary, File(disk, file.mode, max(file.uid, 0), max(file.gid, 0), bytes(file.data)))
                waiting[temporary] = file
            self.world.Reach("WriteFiles.sync", str(len(files)))
            if files:
                self.Durable(files[0].path)
            made = []
            for temporary in waiting:
                inode = disk.FindFile(temporary)
                inode.Sync()
                made.append(inode.Stat())
            for temporary in list(waiting):
                self.world.Reach("WriteFiles.rename", waiting[temporary].path)
                disk.Move(temporary, waiting.pop(temporary).path)
        except Exception:
            for temporary in waiting:
                disk.Remove(temporary)
            raise
        self._SyncFolders([file.path for file in files])
        return made

    def RemoveFiles(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.RemoveFile(path)
        self._SyncFolders(paths)

    def _SyncFolders(self, paths: Sequence[str]) -> None:
        for folder in sorted({posixpath.dirname(path) for path in paths}):
            self.world.Reach("SyncFolder", folder)
            self._disk.SyncFolder(folder or "/")

    def CreateFile(self, path: str, size: int = 0, mode: int = 0o600) -> None:
        self.world.Reach("CreateFile", path)
        disk = self._disk
        disk.NeedRoom(path)
        inode = File(disk, mode, length=size)
        disk.Insert(path, inode)
        self.world.Reach("CreateFile.sync", path)
        self.Durable(path)
        inode.Sync()
        disk.SyncFolder(posixpath.dirname(path))

    def Extend(self, path: str, size: int) -> None:
        self.world.Reach("Extend", path)
        if isinstance(self._disk.Find(path, follow=False), Link):
            raise Fail(errno.ELOOP, path)
        inode = self._disk.FindFile(path)
        inode.Write(inode.data, max(size, inode.size), self._disk)
        self._disk.Changed(path, inode)
        self.world.Reach("Extend.sync", path)
        self.Durable(path)
        inode.Sync()

    def ListDir(self, path: str) -> list[str]:
        self.world.Reach("ListDir", path)
        return self._disk.Names(path)

    def Stat(self, path: str, follow: bool = True) -> os.stat_result:
        self.world.Reach("Stat", path)
        return self._disk.Find(path, follow).Stat()

    def ListStats(self, path: str) -> dict[str, os.stat_result]:
        self.world.Reach("ListStats", path)
        found = {}
        for name in self._disk.Names(path):
            try:
                found[name] = self._disk.Find(posixpath.join(path, name), True).Stat()
            except FileNotFoundError:
                pass
        return found

    def Exists(self, path: str) -> bool:
        self.world.Reach("Exists", path)
        try:
            return self._disk.Lookup(path) is not None
        except OSError:
            return False

    def IsDir(self, path: str) -> bool:
        self.world.Reach("IsDir", path)
        try:
            return isinstance(self._disk.Lookup(path), Folder)
        except OSError:
            return False

    def MakeDirs(self, path: str, mode: int = 0o755) -> None:
        self.world.Reach("MakeDirs", path)
        self._disk.MakeFolders(path, mode)

    def RemoveFile(self, path: str, sync: bool = False) -> None:
        self.world.Reach("RemoveFile", path)
        try:
            self._disk.Remove(path)
        except FileNotFoundError:
            return
        if sync:
            self.world.Reach("RemoveFile.sync_folder", path)
            self._disk.SyncFolder(posixpath.dirname(path))

    def RemoveDir(self, path: str) -> None:
        self.world.Reach("RemoveDir", path)
        self._disk.RemoveFolder(path)

    def RemoveTree(self, path: str) -> None:
        self.world.Reach("RemoveTree", path)
        try:
            self._disk.RemoveTree(path)
        except FileNotFoundError:
            pass

    def Rename(self, source: str, target: str, sync: bool = True) -> None:
        self.world.Reach("Rename", f"{source} {target}")
        self._disk.Move(source, target)
        if sync:
            self.world.Reach("Rename.sync_folder", target)
            self._disk.SyncFolder(posixpath.dirname(target))
            self._disk.SyncFolder(posixpath.dirname(source))

    def HardLink(self, path: str, name: str) -> None:
        self.world.Reach("HardLink", f"{path} {name}")
        inode = self._disk.Find(path, follow=False)
        if isinstance(inode, Folder) or not self.machine.links_files:
            raise Fail(errno.EPERM, path)
        self._disk.Insert(name, inode)
        self.world.Reach("HardLink.sync_folder", name)
        self._disk.SyncFolder(posixpath.dirname(name))

    def Symlink(self, target: str, path: str) -> None:
        self.world.Reach("Symlink", path)
        self._disk.NeedRoom(path)
        self._disk.Insert(path, Link(self._disk, target))

    def ReadLink(self, path: str) -> str:
        self.world.Reach("ReadLink", path)
        inode = self._disk.Find(path, follow=False)
        if not isinstance(inode, Link):
            raise Fail(errno.EINVAL, path)
        return inode.target

    def Chmod(self, path: str, mode: int) -> None:
        self.world.Reach("Chmod", path)
        inode = self._disk.Find(path)
        inode.mode = stat.S_IMODE(mode)
        self._disk.Changed(path, inode)

    def SetTimes(self, path: str, atime: float, mtime: float) -> None:
        """A simulated file knows one time only: that of its last change."""
        del atime
        self.world.Reach("SetTimes", path)
        self._disk.Find(path).changed = mtime

    def Chown(self, path: str, uid: int, gid: int) -> None:
        self.world.Reach("Chown", path)
        inode = self._disk.Find(path, follow=False)
        inode.uid = inode.uid if uid == -1 else uid
        inode.gid = inode.gid if gid == -1 else gid
        self._disk.Changed(path, inode)

    @contextlib.contextmanager
    def HoldFolder(self, path: str) -> Iterator[str]:
        """Nobody else gives names here, so the path itself is as good."""
        self.world.Reach("HoldFolder", path)
        parts = posixpath.normpath(path).split("/")
        for count in range(2, len(parts) + 1):
            if not isinstance(self._disk.Find("/".join(parts[:count]), follow=False), Folder):
                raise Fail(errno.ENOTDIR, path)
        yield path

    def IsHeld(self, path: str) -> bool:
        self.world.Reach("IsHeld", path)
        inode = self._disk.Find(path)
        return isinstance(inode, Device) and inode.held

    def DiskFree(self, path: str) -> int:
        self.world.Reach("DiskFree", path)
        self._disk.Find(path)
        return self._disk.Free()

    def DiskSize(self, path: str) -> int:
        self.world.Reach("DiskSize", path)
        self._disk.Find(path)
        return DISK_SIZE

    def _OpenForLock(self, path: str, mode: int) -> File:
        inode = self._disk.Lookup(path, follow=False)
        if inode is None:
            self._disk.NeedRoom(path)
            inode = File(self._disk, mode)
            self._disk.Insert(path, inode)
        if isinstance(inode, Link):
            raise Fail(errno.ELOOP, path)
        if isinstance(inode, Folder):
            raise Fail(errno.EISDIR, path)
        if not isinstance(inode, File):
            raise OSError(errno.EINVAL, "not a file that can be locked", path)
        return inode

    def LockFile(self, path: str, exclusive: bool = True, timeout: float | None = None, mode: int = 0o600) -> FileLock:
        self.world.Reach("LockFile", path)
        until = None if timeout is None else self.world.now_ns + round(timeout * 1e9)
        while True:
            inode = self._OpenForLock(path, mode)
            if _Compatible(inode, exclusive):
                return FileLock(self.process, path, inode, exclusive)
            if inode.lock_waiters is None:
                inode.lock_waiters = Waiters(self.world)
            left = None if until is None else (until - self.world.now_ns) / 1e9
            if left is not None and left <= 0:
                text = inode.Read().strip()
                raise LockBusy(path, int(text) if text.isdigit() else None)
            inode.lock_waiters.Wait(left)


def AppendTo(disk: Disk, path: str, data: bytes) -> None:
    """Adds to a file, made if it is missing; not durable."""
    inode = disk.Lookup(path)
    if inode is None:
        disk.NeedRoom(path)
        inode = File(disk, 0o600)
        disk.Insert(path, inode)
    inode = disk.FindFile(path)
    if data:
        disk.NeedRoom(path)
        inode.Write(inode.Read() + data, 0, disk)
        disk.Changed(path, inode)
