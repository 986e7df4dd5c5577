"""What was found on a node before anything changed, and how owners and modes are brought back to it."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import errors, pathutils, runtime, serializer
from ganeti.daemon import users
from ganeti.tools import ensure_dirs

_LIMIT = 256 * 1024 * 1024
_NUMBER = re.compile(r"\d+")

Owned = list[int]
"""Mode, user, group."""


@contextlib.contextmanager
def Alone(path: str, timeout: float, busy: str) -> Iterator[None]:
    """Hold a lock file of adopt; raise OpPrereqError with this text if another process does so for ``timeout`` seconds."""
    runtime.MakeDirs(os.path.dirname(path))  # it goes when the machine starts
    try:
        lock = runtime.LockFile(path, exclusive=True, timeout=timeout)
    except runtime.LockBusy as err:
        raise errors.OpPrereqError(f"{busy} (process {err.holder or 'unknown'})", errors.ECODE_STATE) from err
    with lock:
        lock.Write(f"{runtime.ProcessId()}\n".encode())
        yield


def Read() -> dict[str, Any] | None:
    """Return this node's record, None if there is none."""
    return ReadJson(pathutils.ADOPTION_RECORD)


def Write(record: Mapping[str, Any]) -> None:
    runtime.WriteFile(pathutils.ADOPTION_RECORD, serializer.Dump(dict(record)), 0o600)


def Remove(path: str) -> None:
    """Remove a file of ours, and what a process that was killed while it wrote it has left."""
    runtime.RemoveFile(path)
    folder, name = os.path.split(path)
    for other in runtime.ListDir(folder):
        if runtime.UnfinishedName(other) == name:
            runtime.RemoveFile(f"{folder}/{other}")


def ReadJson(path: str) -> dict[str, Any] | None:
    try:
        data = serializer.Load(runtime.ReadFile(path, _LIMIT))
    except FileNotFoundError:
        return None
    except (OSError, errors.ParseError) as err:
        raise errors.ConfigurationError(f"{path} cannot be read: {err}") from err
    if not isinstance(data, dict):
        raise errors.ConfigurationError(f"{path} holds no JSON object")
    return data


def Owners() -> dict[str, Owned]:
    """Return mode, user and group of everything in DATA, and of what ensure-dirs knows elsewhere."""
    found = {path: _Owned(info) for path, info in _Below(pathutils.DATA_DIR)}
    found |= {item.path: _Owned(info) for item, info in ensure_dirs.Existing()}
    return found


def _Owned(info: os.stat_result) -> Owned:
    return [stat.S_IMODE(info.st_mode), info.st_uid, info.st_gid]


def _Below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield what lies below a folder; links are of nobody's concern."""
    for name in sorted(runtime.ListDir(folder)):
        path = f"{folder}/{name}"
        try:
            info = runtime.Stat(path, follow=False)
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(info.st_mode):
            yield path, info
            yield from _Below(path)
        elif stat.S_ISREG(info.st_mode):
            yield path, info


def Restore(owners: Mapping[str, Owned]) -> None:
    """Give everything in DATA, and what was recorded elsewhere, its owner and mode.

    A file that is new gets those of its kind: a job file those of the others.
    """
    kinds = {_NUMBER.sub("#", path): owned for path, owned in owners.items()}
    for path, info in _Below(pathutils.DATA_DIR):
        wanted = owners.get(path) or kinds.get(_NUMBER.sub("#", path)) or _OfFolder(owners, path, info)
        _Give(path, info, wanted)
    for path, wanted in owners.items():
        if path.startswith(pathutils.DATA_DIR + "/"):
            continue
        try:
            info = runtime.Stat(path, follow=False)
        except FileNotFoundError:
            continue
        if not stat.S_ISLNK(info.st_mode):
            _Give(path, info, wanted)


def TakeFolders() -> None:
    """Give folders of the original's users to root where ensure-dirs would take these for strangers; it gives them their owners."""
    for item, info in ensure_dirs.Existing():
        if (
            item.kind == ensure_dirs.DIRECTORY
            and stat.S_ISDIR(info.st_mode)
            and info.st_uid != users.UserId(item.owner[0])
        ):
            runtime.Chown(item.path, 0, -1)


def _OfFolder(owners: Mapping[str, Owned], path: str, info: os.stat_result) -> Owned:
    """Return the object's own mode with the user and group of the nearest recorded folder."""
    mode = stat.S_IMODE(info.st_mode)
    while path != "/":
        path = os.path.dirname(path)
        if path in owners:
            return [mode, *owners[path][1:]]
    return [mode, info.st_uid, info.st_gid]


def _Give(path: str, info: os.stat_result, wanted: Owned) -> None:
    mode, uid, gid = wanted
    if (info.st_uid, info.st_gid) != (uid, gid):
        runtime.Chown(path, uid, gid)
    if stat.S_IMODE(info.st_mode) != mode:
        runtime.Chmod(path, mode)
