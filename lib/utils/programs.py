"""Who could have put a program where it is: what runs as root must not be somebody else's."""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque

from ganeti import runtime

_MAX_LINKS = 40


def Problem(path: str) -> str | None:
    """Return why ``path`` must not be run; None for a program of root's, or of this process's user.

    Every directory and link on the way counts: who can replace one of them can replace the program.
    """
    if not posixpath.isabs(path):
        return "it is not an absolute path"
    try:
        return _Walk(path)
    except OSError as err:
        return str(err.strerror)


def _Walk(path: str) -> str | None:
    here, left, links = "/", deque(path.split("/")), 0
    while left:
        part = left.popleft()
        if part in ("", "."):
            continue
        if part == "..":
            here = posixpath.dirname(here)
            continue
        full = posixpath.join(here, part)
        info = runtime.Stat(full, follow=False)
        if info.st_uid not in (0, os.geteuid()):
            return f"{full} belongs to user {info.st_uid}"
        if stat.S_ISLNK(info.st_mode):
            links += 1
            if links > _MAX_LINKS:
                return "it leads through too many links"
            target = runtime.ReadLink(full)
            left.extendleft(reversed(target.split("/")))
            here = "/" if posixpath.isabs(target) else here
        elif stat.S_ISDIR(info.st_mode):
            if info.st_mode & stat.S_IWOTH and not info.st_mode & stat.S_ISVTX:
                return f"everybody can write to {full}"
            here = full
        elif left:
            return f"{full} is not a directory"
        else:
            return _FileProblem(full, info.st_mode)
    return "it is not a file"


def _FileProblem(path: str, mode: int) -> str | None:
    if not stat.S_ISREG(mode) or not mode & 0o111:
        return f"{path} is not an executable file"
    if mode & 0o022:
        return f"others than its owner can write to {path}"
    return None
