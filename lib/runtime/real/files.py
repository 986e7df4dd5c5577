"""Files of the real machine."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time

from ganeti import errors
from ganeti.runtime.contract import FileTooLarge, LockBusy

IsDir = os.path.isdir
Exists = os.path.exists
ReadLink = os.readlink
Chmod = os.chmod
Symlink = os.symlink
RemoveDir = os.rmdir

_CHUNK = 1024 * 1024
_LOCK_TICK = 0.05


def SetTimes(path: str, atime: float, mtime: float) -> None:
    os.utime(path, (atime, mtime))


def ReadFile(path: str, limit: int | None = None) -> bytes:
    with open(path, "rb", buffering=0) as handle:
        if limit is None:
            return handle.readall()
        if os.fstat(handle.fileno()).st_size > limit:
            raise FileTooLarge(path, limit)
        parts = []
        room = limit + 1  # files in /proc have no size
        while room > 0:
            part = handle.read(min(room, _CHUNK))
            if not part:
                break
            parts.append(part)
            room -= len(part)
        if room <= 0:
            raise FileTooLarge(path, limit)
        return b"".join(parts)


def SyncDir(path: str) -> None:
    handle = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _WriteAll(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def WriteFile(path: str, data: bytes, mode: int, uid: int, gid: int, sync: bool) -> None:
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f".{name[:200]}.new-{os.urandom(6).hex()}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            if uid != -1 or gid != -1:
                os.fchown(handle, uid, gid)
            os.fchmod(handle, mode)  # after fchown, which clears the set-id bits
            _WriteAll(handle, data)
            if sync:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(temporary, path)
    except BaseException:
        try:
            os.unlink(temporary)
        except OSError:
            pass
        raise
    if sync:
        SyncDir(folder)


def CreateFile(path: str, size: int = 0, mode: int = 0o600) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        os.fchmod(handle, mode)
        os.ftruncate(handle, size)
        os.fsync(handle)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(handle)
    SyncDir(os.path.dirname(path))


def Truncate(path: str, size: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(handle, size)
        os.fsync(handle)
    finally:
        os.close(handle)


def ListDir(path: str) -> list[str]:
    return sorted(os.listdir(path))


def Stat(path: str, follow: bool = True) -> os.stat_result:
    return os.stat(path, follow_symlinks=follow)


def MakeDirs(path: str, mode: int = 0o755) -> None:
    path = os.path.abspath(path)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        try:
            os.mkdir(folder, mode)
        except FileExistsError:
            if not os.path.isdir(folder):
                raise
            continue  # somebody else was quicker
        os.chmod(folder, mode)
        SyncDir(os.path.dirname(folder))


def RemoveFile(path: str, sync: bool = False) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    if sync:
        SyncDir(os.path.dirname(path))


def RemoveTree(path: str) -> None:
    import shutil

    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        if os.path.lexists(path):
            raise


def Rename(source: str, target: str, sync: bool = True) -> None:
    os.rename(source, target)
    if sync:
        folders = {os.path.dirname(target), os.path.dirname(source)}
        for folder in sorted(folders):
            SyncDir(folder)


def Chown(path: str, uid: int, gid: int) -> None:
    os.chown(path, uid, gid, follow_symlinks=False)


def DiskFree(path: str) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def DiskSize(path: str) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


class FileLock:
    """A held flock."""

    def __init__(self, path: str, handle: int):
        self.path = path
        self._handle = handle

    def Write(self, data: bytes) -> None:
        """Replaces the content of the locked file, in place and durably."""
        if self._handle < 0:
            raise errors.ProgrammerError(f"the lock on {self.path} was released")
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        _WriteAll(self._handle, data)
        os.fsync(self._handle)

    def release(self) -> None:
        """Gives the lock up; a second call does nothing."""
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def _TryLock(handle: int, operation: int, deadline: float | None, path: str) -> None:
    if deadline is None:
        fcntl.flock(handle, operation)
        return
    while True:
        try:
            fcntl.flock(handle, operation | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left = deadline - time.monotonic()
            if left <= 0:
                text = os.pread(handle, 32, 0).strip()
                raise LockBusy(path, int(text) if text.isdigit() else None) from None
        time.sleep(min(_LOCK_TICK, left))


def _StillNamed(handle: int, path: str) -> bool:
    """Whether the file we locked is still the one others would open."""
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(handle), named)


def LockFile(path: str, exclusive: bool = True, timeout: float | None = None, mode: int = 0o600) -> FileLock:
    operation = fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            handle = os.open(path, flags | os.O_CREAT | os.O_EXCL, mode)
            os.fchmod(handle, mode)
        except FileExistsError:
            try:
                handle = os.open(path, flags)
            except FileNotFoundError:
                continue
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "not a file that can be locked", path)
            _TryLock(handle, operation, deadline, path)
            if _StillNamed(handle, path):
                return FileLock(path, handle)
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
