"""Files with one line ``NAME STATUS`` for each instance: one for each group, and RUN/instance-status with all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from ganeti import pathutils, runtime
from ganeti.watcher.rows import Instance

_LOCK_FILE = pathutils.RUN_EXT_DIR + "/instance-status.lock"
_LOCK_TIMEOUT = 10.0
_MODE = 0o644
_LIMIT = 16 * 1024 * 1024


def Text(instances: Iterable[tuple[str, str]]) -> str:
    return "".join(f"{name} {status}\n" for name, status in sorted(instances))


def Parse(text: str) -> dict[str, str]:
    """Return status by name; lines of another shape are left out."""
    return {words[0]: words[1] for words in map(str.split, text.splitlines()) if len(words) == 2}


def Write(group_uuid: str, instances: Iterable[Instance]) -> None:
    """Write the file of a group."""
    pairs = [(instance.name, instance.status or "-") for instance in instances]
    runtime.WriteFile(pathutils.WatcherInstanceStatusFile(group_uuid), Text(pairs), mode=_MODE)


def Merge(group_uuids: Iterable[str]) -> None:
    """Make one file of those of all groups: of an instance that is in several, the newest file counts.

    While another run holds the lock for too long the file stays as it is, which the log says.
    """
    runtime.MakeDirs(pathutils.RUN_EXT_DIR, 0o770)
    try:
        lock = runtime.LockFile(_LOCK_FILE, timeout=_LOCK_TIMEOUT)
    except runtime.LockBusy:
        logging.warning(
            "%s is not updated by this run: %s was locked for %.0f seconds",
            pathutils.INSTANCE_STATUS_FILE, _LOCK_FILE, _LOCK_TIMEOUT,
        )  # fmt: skip
        return
    with lock:
        files = []
        for uuid in group_uuids:
            path = pathutils.WatcherInstanceStatusFile(uuid)
            try:
                files.append((runtime.Stat(path).st_mtime, Parse(runtime.ReadText(path, _LIMIT))))
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as err:
                logging.warning("%s is left out of %s: %s", path, pathutils.INSTANCE_STATUS_FILE, err)
        merged: dict[str, str] = {}
        for _, statuses in sorted(files, key=lambda file: file[0]):
            merged |= statuses
        runtime.WriteFile(pathutils.INSTANCE_STATUS_FILE, Text(merged.items()), mode=_MODE)
