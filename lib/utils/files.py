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
