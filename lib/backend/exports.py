"""Procedures for the directories of exports (doc/design-transfers.rst).

``EXPORT/NAME`` is the export of instance NAME, ``EXPORT/NAME.new`` one that is being made.  When it is complete and on the
disk, it takes the name; the one before it waits under a hidden name meanwhile.  Whoever finds a hidden one without a successor
gives it its name back, so that a crash at any moment leaves the old export or the new one.
"""

from __future__ import annotations

import contextlib
import logging
import posixpath
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ganeti import errors, objects, pathutils, runtime
from ganeti.backend import wire
from ganeti.params import exported
from ganeti.storage import paths

# Names of instances cannot begin so.
_REPLACED = ".replaced-"
_LOCK = ".lock"
_LOCK_SECONDS = 30.0
_DIR_MODE = 0o750
_FILE_MODE = 0o600
_LONGEST_NAME = 255 - len(_REPLACED)


# --- paths --------------------------------------------------------------------------------------------------------------


def _Path(name: str) -> str:
    return posixpath.join(pathutils.EXPORT_DIR, name)


def _CheckName(name: str) -> None:
    """Raise RpcCallError unless the name is that of a directory directly below the directory of exports."""
    if (
        not name.isprintable()
        or name[:1] in ("", ".")
        or "/" in name
        or len(name.encode("utf-8", "replace")) > _LONGEST_NAME
    ):
        raise errors.RpcCallError(
            f"{name[:80]!r} is not a valid name of an export: it must be a single name without '/' that does not begin with"
            f" '.', with printable characters only and at most {_LONGEST_NAME} bytes"
        )


def _IsThere(path: str) -> bool:
    """Return whether there is anything of this name; a link is something."""
    return _Mode(path) is not None


def _Mode(path: str) -> int | None:
    try:
        return runtime.Stat(path, follow=False).st_mode
    except FileNotFoundError:
        return None


def _IsDir(path: str) -> bool:
    mode = _Mode(path)
    return mode is not None and stat.S_ISDIR(mode)


def Resolve(path: str) -> str:
    """Return where a path, which need not exist, leads; RpcCallError unless that is below the directory of exports."""
    top = pathutils.EXPORT_DIR
    try:
        real, real_top = paths.WithoutLinks(path), paths.WithoutLinks(top)
    except errors.FileStoragePathError as err:
        raise errors.RpcCallError(str(err)) from err
    if real == real_top or not paths.IsBelow(real, real_top):
        leads = "" if real == path else f" (a link to {real})"
        raise errors.RpcCallError(f"Path '{path}'{leads} is not below {top}, the directory of exports")
    return real


@contextlib.contextmanager
def _Held(directory: str) -> Iterator[str]:
    """Give a path to a directory of the directory of exports, itself no link: another node may put one in its place meanwhile."""
    above, name = posixpath.split(directory)
    with runtime.HoldFolder(posixpath.join(paths.WithoutLinks(above), name)) as held:
        yield held


@contextlib.contextmanager
def _Naming(what: str) -> Iterator[None]:
    """Let an error of the system say what was tried."""
    try:
        yield
    except OSError as err:
        where = f"{err.filename}: " if err.filename else ""
        raise errors.RpcCallError(f"{what} failed: {where}{err.strerror or err}") from err


@contextlib.contextmanager
def _Locked() -> Iterator[None]:
    """Let nobody else give names below the directory of exports, which several nodes may share."""
    try:
        lock = runtime.LockFile(_Path(_LOCK), exclusive=True, timeout=_LOCK_SECONDS)
    except runtime.LockBusy as err:
        raise errors.RpcCallError(
            f"{pathutils.EXPORT_DIR} has been locked by another call for over {_LOCK_SECONDS:.0f} seconds; try again later"
        ) from err
    with lock:
        yield


def _Names() -> list[str]:
    """Return all names in the directory of exports, where each export has its own."""
    try:
        names = runtime.ListDir(pathutils.EXPORT_DIR)
        hidden = [name for name in names if name.startswith(_REPLACED)]
        if not hidden:
            return names
        with _Locked():
            for name in hidden:
                rightful = _Path(name.removeprefix(_REPLACED))
                # In this order: whoever removes an export removes the hidden one first, and takes no lock.
                if not _IsThere(rightful) and _IsThere(_Path(name)):
                    runtime.Rename(_Path(name), rightful)
            return runtime.ListDir(pathutils.EXPORT_DIR)
    except FileNotFoundError as err:
        raise errors.RpcCallError(
            f"This node {exported.NO_DIRECTORY} ({pathutils.EXPORT_DIR}): the first export to it makes one"
        ) from err


# --- looking ------------------------------------------------------------------------------------------------------------


def ListExports() -> list[str]:
    """Return the names of the directories of exports, of unfinished ones too (NAME.new)."""
    with _Naming(f"Listing {pathutils.EXPORT_DIR}"):
        return [name for name in _Names() if not name.startswith(".") and _IsListed(_Path(name))]


def _IsListed(path: str) -> bool:
    """Return whether what has just been there is a directory, or a link to one."""
    if runtime.IsDir(path):
        return True
    # Without a name for a moment while a new export takes its place, or removed.
    mode = _Mode(path)
    return mode is None or stat.S_ISDIR(mode)


def ExportInfo(path: str) -> str:
    """Return the text of config.ini in the directory of an export, which the master reads."""
    directory = posixpath.normpath(pathutils.LocalizeVirtualPath(path))
    file_name = posixpath.join(directory, exported.FILE_NAME)
    with _Naming(f"Reading {file_name}"):
        _Names()
        real = Resolve(file_name)
        try:
            return _ReadDescription(real)
        except FileNotFoundError as err:
            raise errors.RpcCallError(
                f"Directory {directory} has no complete export: {exported.FILE_NAME} is missing"
            ) from err
        except UnicodeDecodeError as err:
            raise errors.RpcCallError(f"{file_name} is not UTF-8 text") from err


def _ReadDescription(file_name: str) -> str:
    try:
        return _ReadRegular(file_name)
    except (FileNotFoundError, NotADirectoryError):
        # Perhaps a new export was just taking the place of the one before.
        with _Locked():
            return _ReadRegular(file_name)


def _ReadRegular(file_name: str) -> str:
    """Return the text of a file; of no other if a link takes the place of it or of a directory on its way."""
    directory, name = posixpath.split(file_name)
    with _Held(directory) as held:
        return runtime.ReadRegular(posixpath.join(held, name), exported.LIMIT).decode("utf-8")


# --- removing -----------------------------------------------------------------------------------------------------------


def RemoveExport(export: str) -> None:
    """Remove an export, and what is left of an unfinished one; a link goes, what it leads to stays."""
    _CheckName(export)
    with _Naming(f"Removing export {export}"):
        _Names()
        # The hidden one first: without a successor it would come back.
        places = [_Path(_REPLACED + export), *_Unfinished(export), _Path(export)]
        found = [path for path in places if _IsThere(path)]
        if not found:
            raise errors.RpcCallError(f"{exported.NO_EXPORT} {export} in {pathutils.EXPORT_DIR}")
        for path in found:
            _Remove(path)


def _Unfinished(name: str) -> list[str]:
    """Return where an unfinished export of the instance is; nothing if that is the complete export of instance NAME.new."""
    path = _Path(name + exported.UNFINISHED)
    try:
        owner = exported.Parse(_ReadRegular(posixpath.join(path, exported.FILE_NAME))).name
    except (OSError, ValueError, errors.GenericError):
        return [path]
    return [] if owner == name + exported.UNFINISHED else [path]


def _Remove(path: str) -> None:
    if not _IsDir(path):
        runtime.RemoveFile(path, sync=True)
        return
    # A half-removed directory must not look like an export.
    with _Held(path) as held:
        runtime.RemoveFile(posixpath.join(held, exported.FILE_NAME), sync=True)
    runtime.RemoveTree(path)


# --- completing ---------------------------------------------------------------------------------------------------------


def FinalizeExport(instance: Mapping[str, Any], snap_disks: Sequence[Mapping[str, Any] | bool]) -> None:
    """Complete NAME.new and let it take the place of NAME, which is removed then.

    ``snap_disks``: for each disk of the instance the one whose content lies in NAME.new, or False.  All is on the disk before
    it gets the name.  What else lies in NAME.new was left by an export that failed, and is removed.
    """
    exporting = wire.Instance(instance)
    disks = [wire.Disk(disk) if isinstance(disk, Mapping) else None for disk in snap_disks]
    name = exporting.name
    _CheckName(name)
    count = len(wire.InstanceDisks(exporting))
    if len(disks) != count:
        raise errors.RpcCallError(f"Instance {name} has {count} disks, the request names {len(disks)}")
    with _Naming(f"Completing the export of instance {name}"):
        runtime.MakeDirs(pathutils.EXPORT_DIR, _DIR_MODE)
        _Names()
        directory = _NewDirectory(name)
        with _Held(directory) as held:
            _SettleContent(held, directory, exporting, disks)
        _TakePlace(name, directory)


def _NewDirectory(name: str) -> str:
    found = _Unfinished(name)
    if not found:
        other = name + exported.UNFINISHED
        raise errors.RpcCallError(
            f"{_Path(other)} holds the export of instance {other}; move it away, then export {name} again"
        )
    runtime.MakeDirs(found[0], _DIR_MODE)  # nothing was sent for an instance without disks
    if not _IsDir(found[0]):
        raise errors.RpcCallError(f"{found[0]} is a link and not a directory; remove it, then export {name} again")
    return found[0]


def _SettleContent(held: str, directory: str, instance: objects.Instance, disks: Sequence[objects.Disk | None]) -> None:
    """Make the files in the directory, which is held, those of the export, all on the disk."""
    dumps = [exported.DumpName(disk) for disk in disks if disk is not None]
    for dump in dumps:
        mode = _Mode(posixpath.join(held, dump)) if "/" not in dump else None
        if mode is None or not stat.S_ISREG(mode):
            raise errors.RpcCallError(
                f"Instance {instance.name}: file {dump}, with the content of a disk, is missing from {directory}"
            )
    for name in runtime.ListDir(held):
        if name not in dumps:
            path = posixpath.join(held, name)
            (runtime.RemoveTree if _IsDir(path) else runtime.RemoveFile)(path)
    for dump in dumps:
        runtime.Extend(posixpath.join(held, dump), 0)
    text = exported.Compose(instance, disks, int(runtime.Time()))
    # It may have private parameters of the operating system.
    runtime.WriteFile(posixpath.join(held, exported.FILE_NAME), text, mode=_FILE_MODE)


def _TakePlace(name: str, directory: str) -> None:
    hidden = _Path(_REPLACED + name)
    _Remove(hidden)
    with _Locked():
        if _IsThere(_Path(name)):
            runtime.Rename(_Path(name), hidden)
        runtime.Rename(directory, _Path(name))
    try:
        _Remove(hidden)
    except OSError as err:
        # The next export, or gnt-backup remove, tries again.
        logging.warning("Cannot remove %s, the export that was replaced: %s", hidden, err)


HANDLERS = {
    "export_info": ExportInfo,
    "export_list": ListExports,
    "export_remove": RemoveExport,
    "finalize_export": FinalizeExport,
}
