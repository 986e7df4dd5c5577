"""The disk of a simulated machine: a tree of inodes, and what of it would survive a power failure.

A change of a folder (a name made, removed, moved) waits in the journal until that folder is synced, or for WRITE_BACK
seconds.  When the power fails, each folder keeps a part of its waiting changes, the oldest first, by chance; a move
between two folders is kept or lost as a whole.  The content of a file that was not synced is the new one, the old
one, or a part of the new one.  ``/run`` and ``/dev/shm`` live in memory.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simulated.database import Content
    from simulated.machine import Machine
    from simulated.sockets import Listener

# After this time the system writes things down by itself.
WRITE_BACK = 30.0

DISK_SIZE = 100 * 1024**3
BLOCK = 4096

_FOLDERS = ("/dev/shm", "/etc", "/root", "/run", "/tmp", "/var/lib", "/var/log")
_IN_MEMORY = ("/run", "/dev/shm")
_LINKS_FOLLOWED = 40


def Fail(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class Inode:
    """A file, folder, link or socket: what a name leads to."""

    kind = 0
    rdev = 0

    def __init__(self, disk: Disk, mode: int, uid: int = 0, gid: int = 0):
        self.number = disk.NextNumber()
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.changed = disk.machine.wall_clock
        self.locks: list[Any] = []  # FileLocks that hold it
        self.lock_waiters: Any = None

    @property
    def size(self) -> int:
        return 0

    def Stat(self) -> os.stat_result:
        links = 2 if self.kind == stat.S_IFDIR else 1
        when = self.changed
        seconds = int(when)
        nanoseconds = int(when * 1e9)
        return os.stat_result(
            (self.kind | self.mode, self.number, 1, links, self.uid, self.gid, self.size, seconds, seconds, seconds),
            {
                "st_atime": when,
                "st_mtime": when,
                "st_ctime": when,
                "st_atime_ns": nanoseconds,
                "st_mtime_ns": nanoseconds,
                "st_ctime_ns": nanoseconds,
                "st_blocks": (self.size + 511) // 512,
                "st_blksize": BLOCK,
                "st_rdev": self.rdev,
            },
        )


class Link(Inode):
    kind = stat.S_IFLNK

    def __init__(self, disk: Disk, target: str):
        super().__init__(disk, 0o777)
        self.target = target


class SocketFile(Inode):
    kind = stat.S_IFSOCK

    def __init__(self, disk: Disk, mode: int, listener: Listener):
        super().__init__(disk, mode)
        self.listener = listener


class File(Inode):
    """A file; zeros follow ``data`` up to ``length``.  ``database``: its content, once it was opened as one."""

    kind = stat.S_IFREG

    def __init__(self, disk: Disk, mode: int, uid: int = 0, gid: int = 0, data: bytes = b"", length: int = 0):
        super().__init__(disk, mode, uid, gid)
        self.data = data
        self.length = max(length, len(data))
        self.durable: tuple[bytes, int] = (b"", 0)
        self.synced = not self.length
        self.written_at = disk.machine.world.now
        self.database: Content | None = None

    @property
    def size(self) -> int:
        return self.length if self.database is None else self.database.Size()

    def Read(self) -> bytes:
        if self.database is not None:
            return self.database.Bytes()
        return self.data + bytes(self.length - len(self.data))

    def Write(self, data: bytes, length: int, disk: Disk) -> None:
        self.data = data
        self.length = max(length, len(data))
        self.synced = False
        self.written_at = disk.machine.world.now
        self.changed = disk.machine.wall_clock

    def Sync(self) -> None:
        self.durable = (self.data, self.length)
        self.synced = True

    def LosePower(self, disk: Disk) -> None:
        world = disk.machine.world
        if self.database is not None:
            self.database.LosePower()
            return
        if self.synced:
            return
        if world.now - self.written_at < WRITE_BACK:
            fate = world.RandomBelow(3)
            if fate == 0:
                self.data, self.length = self.durable
            elif fate == 1:
                self.data = self.data[: world.RandomBelow(len(self.data) + 1)]
                self.length = len(self.data)
        self.Sync()


class Device(File):
    """A block device; what is written to it stays, whatever happens to the power.  ``held``: the system has it in use."""

    kind = stat.S_IFBLK

    def __init__(self, disk: Disk, length: int, rdev: int):
        super().__init__(disk, 0o660, length=length)
        self.rdev = rdev
        self.held = False

    def LosePower(self, disk: Disk) -> None:
        self.Sync()


class Folder(Inode):
    kind = stat.S_IFDIR

    def __init__(self, disk: Disk, mode: int, in_memory: bool = False):
        super().__init__(disk, mode)
        self.entries: dict[str, Inode] = {}
        self.durable: dict[str, Inode] = {}
        self.in_memory = in_memory

    @property
    def size(self) -> int:
        return BLOCK


# One change of a name: folder, name, what it leads to from now on (None: nothing).
_Change = tuple[Folder, str, "Inode | None"]


class _Record:
    """Changes that become durable together."""

    __slots__ = ("changes", "when")

    def __init__(self, changes: list[_Change], when: float):
        self.changes = changes
        self.when = when

    def Touches(self, folders: dict[Folder, None]) -> bool:
        return any(change[0] in folders for change in self.changes)

    def Apply(self) -> None:
        for folder, name, inode in self.changes:
            if inode is None:
                folder.durable.pop(name, None)
            else:
                folder.durable[name] = inode


class Disk:
    """The tree, and the machine's view on it.  Paths are absolute; no permission is checked (all is done as root)."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self._numbers = 1
        self._journal: list[_Record] = []
        self.watchers: list[Callable[[str], None]] = []
        self.root = Folder(self, 0o755)
        for path in _FOLDERS:
            self.MakeFolders(path, 0o1777 if path == "/tmp" else 0o755)
        self.Insert("/var/run", Link(self, "/run"))
        for path in _IN_MEMORY:
            self._Folder(path).in_memory = True
        self.SyncAll()

    def NextNumber(self) -> int:
        self._numbers += 1
        return self._numbers

    # Looking

    def Split(self, path: str) -> tuple[Folder, str, str]:
        """The folder a path's last name is in, that name, and the whole path without links in its folders."""
        if "\0" in path:
            raise ValueError("embedded null byte")
        head, name = posixpath.split(posixpath.normpath(posixpath.join("/", path)))
        folder, real = self._Walk(head, 0, path)
        if not isinstance(folder, Folder):
            raise Fail(errno.ENOTDIR, path)
        return folder, name, posixpath.join(real, name)

    def _Walk(self, path: str, depth: int, asked: str) -> tuple[Inode, str]:
        """Follows all links.  Returns the inode and its path without links."""
        if self.machine.disk_broken:
            raise Fail(errno.EIO, asked)
        if depth > _LINKS_FOLLOWED:
            raise Fail(errno.ELOOP, asked)
        inode: Inode = self.root
        here = "/"
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(inode, Folder):
                raise Fail(errno.ENOTDIR, asked)
            found = inode.entries.get(name)
            if found is None:
                raise Fail(errno.ENOENT, asked)
            if isinstance(found, Link):
                target = posixpath.normpath(posixpath.join(here, found.target))
                inode, here = self._Walk(target, depth + 1, asked)
            else:
                inode, here = found, posixpath.join(here, name)
        return inode, here

    def Find(self, path: str, follow: bool = True) -> Inode:
        """What a path leads to; raises FileNotFoundError and the like."""
        if not follow:
            folder, name, _ = self.Split(path)
            if not name:
                return self.root
            found = folder.entries.get(name)
            if found is None:
                raise Fail(errno.ENOENT, path)
            return found
        if "\0" in path:
            raise ValueError("embedded null byte")
        return self._Walk(posixpath.normpath(posixpath.join("/", path)), 0, path)[0]

    def Lookup(self, path: str, follow: bool = True) -> Inode | None:
        """The same, None if there is nothing."""
        try:
            return self.Find(path, follow)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def FindFile(self, path: str) -> File:
        inode = self.Find(path)
        if isinstance(inode, Folder):
            raise Fail(errno.EISDIR, path)
        if not isinstance(inode, File):
            raise Fail(errno.ENXIO, path)
        return inode

    def _Folder(self, path: str) -> Folder:
        inode = self.Find(path)
        if not isinstance(inode, Folder):
            raise Fail(errno.ENOTDIR, path)
        return inode

    def Names(self, path: str) -> list[str]:
        return sorted(self._Folder(path).entries)

    def Used(self) -> int:
        """Bytes that files and folders take."""
        total = 0
        pending: list[Inode] = [self.root]
        while pending:
            inode = pending.pop()
            if isinstance(inode, Folder):
                pending.extend(inode.entries.values())
            taken = len(inode.data) if isinstance(inode, File) and inode.database is None else inode.size
            total += (taken + BLOCK - 1) // BLOCK * BLOCK
        return total

    def Free(self) -> int:
        return 0 if self.machine.disk_full else max(0, DISK_SIZE - self.Used())

    # Changing

    def NeedRoom(self, path: str) -> None:
        if self.machine.disk_full and not self._IsInMemory(path):
            raise Fail(errno.ENOSPC, path)

    def _IsInMemory(self, path: str) -> bool:
        try:
            return self.Split(path)[0].in_memory
        except OSError:
            return False

    def Insert(self, path: str, inode: Inode, replace: bool = False) -> None:
        """Gives an inode a name; with ``replace`` instead of a file that has it."""
        folder, name, real = self.Split(path)
        there = folder.entries.get(name) if name else folder
        if there is not None and not replace:
            raise Fail(errno.EEXIST, path)
        if isinstance(there, Folder):
            raise Fail(errno.EISDIR, path)
        self._Log([(folder, name, inode)], real)

    def Move(self, source: str, target: str) -> None:
        """rename(2)."""
        folder, name, real = self.Split(source)
        inode = folder.entries.get(name)
        if inode is None:
            raise Fail(errno.ENOENT, source)
        to_folder, to_name, to_real = self.Split(target)
        there = to_folder.entries.get(to_name) if to_name else to_folder
        if there is inode:
            return
        if isinstance(inode, Folder):
            if (to_real + "/").startswith(real + "/"):
                raise Fail(errno.EINVAL, target)
            if there is not None and not isinstance(there, Folder):
                raise Fail(errno.ENOTDIR, target)
            if isinstance(there, Folder) and there.entries:
                raise Fail(errno.ENOTEMPTY, target)
        elif isinstance(there, Folder):
            raise Fail(errno.EISDIR, target)
        self._Log([(to_folder, to_name, inode), (folder, name, None)], to_real, real)

    def Remove(self, path: str) -> None:
        """unlink(2)."""
        folder, name, real = self.Split(path)
        inode = folder.entries.get(name) if name else folder
        if inode is None:
            raise Fail(errno.ENOENT, path)
        if isinstance(inode, Folder):
            raise Fail(errno.EISDIR, path)
        self._Log([(folder, name, None)], real)

    def RemoveFolder(self, path: str) -> None:
        """rmdir(2)."""
        folder, name, real = self.Split(path)
        inode = folder.entries.get(name) if name else self.root
        if inode is None:
            raise Fail(errno.ENOENT, path)
        if not isinstance(inode, Folder):
            raise Fail(errno.ENOTDIR, path)
        if inode is self.root or inode.entries:
            raise Fail(errno.EBUSY if inode is self.root else errno.ENOTEMPTY, path)
        self._Log([(folder, name, None)], real)

    def RemoveTree(self, path: str) -> None:
        """As rm -r: one name after the other."""
        inode = self.Find(path, follow=False)
        if not isinstance(inode, Folder):
            raise Fail(errno.ENOTDIR, path)
        for name in list(inode.entries):
            below = posixpath.join(path, name)
            if isinstance(inode.entries[name], Folder):
                self.RemoveTree(below)
            else:
                self.Remove(below)
        self.RemoveFolder(path)

    def MakeFolders(self, path: str, mode: int) -> None:
        """mkdir -p, durably."""
        path = posixpath.normpath(posixpath.join("/", path))
        there = self.Lookup(path)
        if isinstance(there, Folder):
            return
        if there is not None or self.Lookup(path, follow=False) is not None:
            raise Fail(errno.EEXIST, path)
        parent = posixpath.dirname(path)
        self.MakeFolders(parent, mode)
        self.NeedRoom(path)
        folder = self._Folder(parent)
        self.Insert(path, Folder(self, mode, folder.in_memory))
        self.SyncFolder(parent)

    def Changed(self, path: str, inode: Inode) -> None:
        """Tells the watchers that a file was written in place."""
        inode.changed = self.machine.wall_clock
        if self.watchers:
            real = self.Split(path)[2]
            for watcher in list(self.watchers):
                watcher(real)

    # Durability

    def _Log(self, changes: list[_Change], *paths: str) -> None:
        """Makes a change: visible at once, durable some day."""
        now = self.machine.world.now
        for folder, name, inode in changes:
            if inode is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = inode
            folder.changed = self.machine.wall_clock
        self._journal.append(_Record(changes, now))
        if now - self._journal[0].when >= WRITE_BACK:
            old = [record for record in self._journal if now - record.when >= WRITE_BACK]
            self._journal = self._journal[len(old) :]
            for record in old:
                record.Apply()
        if self.watchers:
            for watcher in list(self.watchers):
                for path in paths:
                    watcher(path)

    def SyncFolder(self, path: str) -> None:
        """fsync of a folder: its changes are durable, and with them what has to come before."""
        folders: dict[Folder, None] = {self._Folder(path): None}
        picked = []
        rest = []
        for record in reversed(self._journal):
            if record.Touches(folders):
                folders.update((change[0], None) for change in record.changes)
                picked.append(record)
            else:
                rest.append(record)
        for record in reversed(picked):
            record.Apply()
        self._journal = rest[::-1]

    def SyncAll(self) -> None:
        for record in self._journal:
            record.Apply()
        self._journal.clear()

    def LosePower(self) -> None:
        """What is left when the power comes back."""
        world = self.machine.world
        lost: dict[Folder, None] = {}
        for record in self._journal:
            old = world.now - record.when >= WRITE_BACK
            if record.Touches(lost) or (not old and world.RandomBelow(2)):
                lost.update((change[0], None) for change in record.changes)
            else:
                record.Apply()
        self._journal.clear()
        self._Recover(self.root)
        for path in _IN_MEMORY:
            folder = self._FolderDespiteFaults(path)
            if folder is not None:
                folder.entries.clear()
                folder.durable.clear()

    def _FolderDespiteFaults(self, path: str) -> Folder | None:
        broken, self.machine.disk_broken = self.machine.disk_broken, False
        try:
            inode = self.Lookup(path)
        finally:
            self.machine.disk_broken = broken
        return inode if isinstance(inode, Folder) else None

    def _Recover(self, folder: Folder) -> None:
        folder.entries = dict(folder.durable)
        for inode in folder.entries.values():
            inode.locks.clear()
            inode.lock_waiters = None
            if isinstance(inode, Folder):
                self._Recover(inode)
            elif isinstance(inode, File):
                inode.LosePower(self)

    def Close(self) -> None:
        """Frees the databases."""
        pending: list[Folder] = [self.root]
        while pending:
            folder = pending.pop()
            for inode in folder.entries.values():
                if isinstance(inode, Folder):
                    pending.append(inode)
                elif isinstance(inode, File) and inode.database is not None:
                    inode.database.Close()
