"""What tells a file from another one that takes its place."""

from __future__ import annotations

from ganeti import runtime

FileIdentity = tuple[int, ...] | None


def IdentityOf(path: str) -> FileIdentity:
    """Return what changes whenever the file is written or replaced, found without reading it; None if it cannot be reached."""
    try:
        info = runtime.Stat(path)
    except OSError:
        return None
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def BackUp(path: str) -> None:
    """Move a file aside if it exists."""
    if runtime.Exists(path):
        runtime.Rename(path, _BackupName(path))


def KeepCopy(path: str) -> str | None:
    """Copy a file, readable for its owner only; return the copy's path, None if there is no file."""
    try:
        data = runtime.ReadFile(path)
    except FileNotFoundError:
        return None
    copy = _BackupName(path)
    runtime.WriteFile(copy, data, mode=0o600)
    return copy


def _BackupName(path: str) -> str:
    return f"{path}.backup-{int(runtime.Time())}.{runtime.RandomBytes(4).hex()}"
