"""Where file-backed disks may live, and their directories.

The administrator of a node lists allowed directories in the file ``file-storage-paths`` (doc/reference/files.md 13); nothing
that the master asks for is made, used or removed outside them.  A directory that several nodes write is not this node's: a
symbolic link that somebody put below an allowed directory counts as what it leads to.  Links on the way to an allowed
directory are the administrator's, and followed.
"""

from __future__ import annotations

import errno
import posixpath
import stat
from collections.abc import Sequence

from ganeti import errors, pathutils, runtime

_MAX_LIST_BYTES = 1024 * 1024
_STEPS = 200
_NAMES_MOST = 1000
_SYSTEM_DIRS = ("bin", "lib", "lib32", "lib64", "sbin")
# Directories of the machine itself: never usable, whatever the list says.
FORBIDDEN = frozenset(
    ["/boot", "/dev", "/etc", "/home", "/proc", "/root", "/sys"]
    + [posixpath.join(base, name) for base in ("/", "/usr", "/usr/local") for name in _SYSTEM_DIRS]
)


def ParseList(text: str) -> list[str]:
    """Parse a file-storage-paths file; drop comments and empty lines, normalise the paths."""
    lines = (line.strip() for line in text.splitlines())
    return [posixpath.normpath(line) for line in lines if line and not line.startswith("#")]


def IsBelow(path: str, directory: str) -> bool:
    """Return whether ``path`` is ``directory`` or lies below it; both absolute and normalised."""
    return path == directory or directory == "/" or path.startswith(directory + "/")


def IsForbidden(path: str) -> bool:
    """Return whether an entry of the list may not be used: relative, the root, or part of the machine's own system."""
    if not posixpath.isabs(path) or path == "/":
        return True
    return any(IsBelow(path, directory) for directory in FORBIDDEN)


def LoadAllowed() -> list[str]:
    """Return all entries of this node's list; a missing file allows nothing."""
    try:
        return ParseList(runtime.ReadText(pathutils.FILE_STORAGE_PATHS_FILE, limit=_MAX_LIST_BYTES))
    except FileNotFoundError:
        return []


def FindForbidden() -> list[str]:
    """Return the entries of this node's list that are never usable, sorted."""
    return sorted({path for path in LoadAllowed() if IsForbidden(path)})


def CheckAllowed(path: str) -> None:
    """Raise FileStoragePathError unless a directory lies in an allowed, usable one, by its name and really."""
    CheckNamed(path)
    _CheckLinks(path)


def CheckFile(path: str) -> None:
    """Raise FileStoragePathError unless a file would lie in an allowed directory, whatever there is of its name."""
    CheckNamed(path)
    _CheckLinks(posixpath.dirname(path))


def _CheckLinks(directory: str) -> None:
    """Raise FileStoragePathError if links lead out of the allowed directories, or into the system."""
    allowed = [path for path in LoadAllowed() if not IsForbidden(path)]
    CheckWithin(
        directory,
        allowed,
        f"if that link is yours, add the directory that it leads to to {pathutils.FILE_STORAGE_PATHS_FILE}; else remove it",
    )
    real = WithoutLinks(directory)
    # The administrator's link to a large disk may well lead to /home.
    if any(IsBelow(real, system) for system in FORBIDDEN if system != "/home"):
        raise errors.FileStoragePathError(
            f"Path '{directory}' leads to '{real}' by symbolic links, which belongs to the system itself"
        )


def CheckWithin(directory: str, tops: Sequence[str], advice: str) -> None:
    """Raise FileStoragePathError unless a directory, which need not exist, really lies in one of the others.

    It is what was there a moment ago: whoever may write the directory can change it meanwhile.
    """
    real = WithoutLinks(directory)
    if any(IsBelow(real, WithoutLinks(top)) for top in tops):
        return
    raise errors.FileStoragePathError(
        f"Path '{directory}' leads to '{real}' by symbolic links, outside of the directories for file storage"
        f" ({', '.join(tops)}); {advice}"
    )


def WithoutLinks(path: str) -> str:
    """Return where an absolute path leads; its end need not exist.  Raises FileStoragePathError where nobody can say."""
    here, left = "/", [part for part in path.split("/") if part]
    for _ in range(_STEPS):
        if not left:
            return here
        part = left.pop(0)
        if part in (".", ".."):
            here = posixpath.dirname(here) if part == ".." else here
            continue
        full = posixpath.join(here, part)
        try:
            target = runtime.ReadLink(full)
        except OSError as err:
            if err.errno not in (errno.EINVAL, errno.ENOENT, errno.ENOTDIR):
                raise errors.FileStoragePathError(f"Path '{path}' cannot be examined: {full}: {err.strerror}") from err
            here = full
            continue
        here = "/" if target.startswith("/") else here
        left = [part for part in target.split("/") if part] + left
    raise errors.FileStoragePathError(f"Path '{path}' leads through too many links")


def CheckNamed(path: str) -> None:
    """Raise FileStoragePathError unless ``path`` lies, by its name, in an allowed, usable directory."""
    if not posixpath.isabs(path):
        raise errors.FileStoragePathError(f"File storage path must be absolute, but got '{path}'")
    if posixpath.normpath(path) != path:
        raise errors.FileStoragePathError(
            f"File storage path '{path}' must be written without '.', '..' and double '/'"
        )
    allowed = LoadAllowed()
    for directory in allowed:
        if IsBelow(path, directory):
            if IsForbidden(directory) or IsForbidden(path):
                break
            return
    else:
        raise errors.FileStoragePathError(
            f"Path '{path}' is not acceptable for file storage: {pathutils.FILE_STORAGE_PATHS_FILE} of this node has "
            f"{', '.join(allowed) if allowed else 'no entries'}; add its directory there"
        )
    raise errors.FileStoragePathError(
        f"Path '{path}' is never usable for file storage: it belongs to the system itself"
    )


def CheckUsable(directory: str) -> str | None:
    """Return what is wrong with a file storage directory of the cluster on this node; None when nothing is."""
    try:
        CheckAllowed(directory)
        mode = runtime.Stat(directory).st_mode
    except errors.FileStoragePathError as err:
        return str(err)
    except OSError as err:
        return f"File storage directory '{directory}' cannot be used: {err.strerror}"
    if not stat.S_ISDIR(mode):
        return f"File storage path '{directory}' is not a directory"
    if not mode & stat.S_IWUSR:
        return f"File storage directory '{directory}' is not writable"
    return None


def CheckMountPoint(directory: str) -> str | None:
    """Return why nothing can be mounted on a directory, which need not exist yet; None when it can."""
    if not posixpath.isabs(directory) or posixpath.normpath(directory) != directory:
        return f"Mount point '{directory}' is not an absolute path without '.', '..' and double '/'"
    if IsForbidden(directory):
        return f"Mount point '{directory}' belongs to the system itself"
    if runtime.Exists(directory) and not runtime.IsDir(directory):
        return f"Mount point '{directory}' is not a directory; move it away"
    return None


def CreateDir(directory: str) -> None:
    """Make a directory for an instance's files, with parents, mode 0750, unless it exists."""
    CheckAllowed(directory)
    try:
        runtime.MakeDirs(directory, mode=0o750)
    except OSError as err:
        raise errors.FileStoragePathError(f"Cannot create file storage directory '{directory}': {err}") from err


def ListFiles(directory: str) -> list[str]:
    """Return the names in an instance's directory, the first thousand; none where it does not exist."""
    CheckAllowed(directory)
    try:
        return runtime.ListDir(directory)[:_NAMES_MOST]
    except FileNotFoundError:
        return []


def RemoveDir(directory: str) -> None:
    """Remove an instance's directory if it exists and is empty."""
    CheckAllowed(directory)
    if not runtime.Exists(directory):
        return
    if not runtime.IsDir(directory):
        raise errors.FileStoragePathError(f"Specified storage directory '{directory}' is not a directory")
    left = runtime.ListDir(directory)
    if left:
        shown = ", ".join(sorted(left)[:5])
        raise errors.FileStoragePathError(
            f"Cannot remove file storage directory '{directory}': {len(left)} entries left ({shown}); move them away first"
        )
    try:
        runtime.RemoveDir(directory)
    except OSError as err:
        raise errors.FileStoragePathError(f"Cannot remove file storage directory '{directory}': {err}") from err


def RenameDir(old: str, new: str) -> None:
    """Rename an instance's directory.  May be repeated; an error if both exist, unless the new one is empty."""
    CheckAllowed(old)
    CheckAllowed(new)
    if old == new:
        return
    old_there, new_there = runtime.IsDir(old), runtime.Exists(new)
    if new_there and not old_there:
        return
    if new_there and not (runtime.IsDir(new) and not runtime.ListDir(new)):
        raise errors.FileStoragePathError(
            f"Cannot rename '{old}' to '{new}': both locations exist; move one of them away"
        )
    if not old_there:
        raise errors.FileStoragePathError(f"Cannot rename '{old}' to '{new}': '{old}' is not a directory")
    try:
        runtime.MakeDirs(posixpath.dirname(new), mode=0o750)
        runtime.Rename(old, new)  # takes the place of an empty one
    except OSError as err:
        raise errors.FileStoragePathError(f"Cannot rename '{old}' to '{new}': {err}") from err
