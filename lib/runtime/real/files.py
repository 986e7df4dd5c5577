"""Files of the real machine."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ganeti import errors
from ganeti.runtime.contract import NOT_REGULAR, FileTooLarge, LockBusy, NewFile, UnfinishedPath

IsDir = os.path.isdir
Exists = os.path.exists
ReadLink = os.readlink
Chmod = os.chmod
Symlink = os.symlink
RemoveDir = os.rmdir

_CHUNK = 1024 * 1024
_LOCK_TICK = 0.05
# So many files at once are made durable by one wait for the whole file system: two waits for each would take minutes.  Fewer
# are not, because that also waits for what others have written there, guests with file disks for instance.
_SYNC_TOGETHER = 256
# New files that are open at the same time.
_OPEN_AT_ONCE = 32


def SetTimes(path: str, atime: float, mtime: float) -> None:
    os.utime(path, (atime, mtime), follow_symlinks=False)


def ReadFile(path: str, limit: int | None = None) -> bytes:
    with open(path, "rb", buffering=0) as handle:
        return _ReadAll(handle, path, limit)


def ReadRegular(path: str, limit: int | None = None) -> bytes:
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as err:
        # What a link is called by those who refuse it, and a socket, or a device without a driver.
        if err.errno in (errno.ELOOP, errno.ENXIO, errno.ENODEV):
            raise _NotRegular(path) from err
        raise
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise _NotRegular(path)
    with open(number, "rb", buffering=0) as handle:
        return _ReadAll(handle, path, limit)


def _NotRegular(path: str) -> OSError:
    return OSError(errno.EINVAL, NOT_REGULAR, path)


def _ReadAll(handle: io.FileIO, path: str, limit: int | None) -> bytes:
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


def ReadEnd(path: str, count: int) -> bytes:
    with open(path, "rb") as handle:
        handle.seek(max(0, os.fstat(handle.fileno()).st_size - count))
        return handle.read(count)


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


def _Temporary(path: str) -> str:
    return UnfinishedPath(path, os.urandom(6).hex())


def _Make(path: str, file: NewFile) -> int:
    """Make a new file with all that it is to hold; return the handle, still open."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        if file.uid != -1 or file.gid != -1:
            os.fchown(handle, file.uid, file.gid)
        os.fchmod(handle, file.mode)  # after fchown, which clears the set-id bits
        _WriteAll(handle, file.data)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _MakeSeveral(files: Mapping[str, NewFile], sync: bool) -> list[os.stat_result]:
    """Make new files under temporary names, each on disk when this returns if ``sync``.

    The system begins to write all of them before the first one is waited for: one wait then often ends all, which takes
    half of the time and of the CPU of waiting for each as it is made.
    """
    handles: list[int] = []
    try:
        for path, file in files.items():
            handles.append(_Make(path, file))
            if sync:
                # Linux starts to write what it is told not to keep.
                os.posix_fadvise(handles[-1], 0, 0, os.POSIX_FADV_DONTNEED)
        if sync:
            for handle in handles:
                os.fsync(handle)
        return [os.fstat(handle) for handle in handles]
    finally:
        for handle in handles:
            os.close(handle)


def _Forget(paths: Iterable[str]) -> None:
    for path in paths:
        try:
            os.unlink(path)
        except OSError:
            pass


def WriteFile(path: str, data: bytes, mode: int, uid: int, gid: int, sync: bool) -> None:
    temporary = _Temporary(path)
    try:
        _MakeSeveral({temporary: NewFile(path, data, mode, uid, gid)}, sync)
        os.rename(temporary, path)
    except BaseException:
        _Forget([temporary])
        raise
    if sync:
        SyncDir(os.path.dirname(path))


def WriteFiles(files: Sequence[NewFile]) -> list[os.stat_result]:
    together = len(files) >= _SYNC_TOGETHER
    waiting: dict[str, str] = {}
    made: list[os.stat_result] = []
    try:
        for begin in range(0, len(files), _OPEN_AT_ONCE):
            portion = {_Temporary(file.path): file for file in files[begin : begin + _OPEN_AT_ONCE]}
            waiting.update((temporary, file.path) for temporary, file in portion.items())
            made += _MakeSeveral(portion, sync=not together)
        folders = sorted({os.path.dirname(file.path) for file in files})
        if together:
            _SyncFileSystems(folders)
        while waiting:
            temporary = next(iter(waiting))
            os.rename(temporary, waiting[temporary])
            del waiting[temporary]
    except BaseException:
        _Forget(waiting)
        raise
    for folder in folders:
        SyncDir(folder)
    return made


def _SyncFileSystems(folders: Iterable[str]) -> None:
    """Wait until everything written to the file systems of these folders is on disk."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    for folder in {os.stat(folder).st_dev: folder for folder in folders}.values():
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if libc.syncfs(handle) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), folder)
        finally:
            os.close(handle)


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


def Extend(path: str, size: int) -> None:
    # The C library reads where a file system has no such call.
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if size:
            # Unlike ftruncate() this cannot make the file smaller; of the disk it takes the last block only.
            os.posix_fallocate(handle, size - 1, 1)
        os.fsync(handle)
    finally:
        os.close(handle)


def ListDir(path: str) -> list[str]:
    return sorted(os.listdir(path))


def Stat(path: str, follow: bool = True) -> os.stat_result:
    return os.stat(path, follow_symlinks=follow)


def ListStats(path: str) -> dict[str, os.stat_result]:
    found = {}
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                found[entry.name] = entry.stat()
            except FileNotFoundError:
                pass  # it went meanwhile, or it is a link that leads nowhere
    return found


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


def RemoveFiles(paths: Sequence[str]) -> None:
    for path in paths:
        RemoveFile(path)
    for folder in sorted({os.path.dirname(path) for path in paths}):
        SyncDir(folder)


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


def HardLink(path: str, name: str) -> None:
    os.link(path, name, follow_symlinks=False)
    SyncDir(os.path.dirname(name))


def Chown(path: str, uid: int, gid: int) -> None:
    os.chown(path, uid, gid, follow_symlinks=False)


@contextlib.contextmanager
def HoldFolder(path: str) -> Iterator[str]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    # Through a name of the kernel's own every function works on what was opened.
    held = f"/proc/self/fd/{handle}"
    try:
        if os.readlink(held) != path:
            raise NotADirectoryError(errno.ENOTDIR, "A part of the path is a link", path)
        yield held
    except OSError as err:
        if isinstance(err.filename, str) and err.filename.startswith(f"{held}/"):
            err.filename = path + err.filename.removeprefix(held)
        raise
    finally:
        os.close(handle)


def IsHeld(path: str) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as err:
        if err.errno == errno.EBUSY:
            return True
        raise
    os.close(handle)
    return False


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
        """Replace the content of the locked file, in place and durably."""
        if self._handle < 0:
            raise errors.ProgrammerError(f"the lock on {self.path} was released")
        os.ftruncate(self._handle, 0)
        os.lseek(self._handle, 0, os.SEEK_SET)
        _WriteAll(self._handle, data)
        os.fsync(self._handle)

    def fileno(self) -> int:
        return self._handle

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
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
    """Return whether the file we locked is still the one others would open."""
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
