"""Simulated file watches."""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ganeti import errors
from ganeti.runtime.contract import IN
from simulated.disk import Folder
from simulated.sockets import Pollable

if TYPE_CHECKING:
    from simulated.machine import Process


class Watch(Pollable):
    """Sees the names that change on its machine's disk."""

    def __init__(self, process: Process, paths: Sequence[str]):
        super().__init__(process)
        self._disk = process.machine.disk
        self._files: dict[str, list[str]] = {}  # path without links -> as given
        self._folders: dict[str, str] = {}
        self._changed: dict[str, None] = {}
        try:
            for path in paths:
                self._Add(path)
        except OSError as err:
            self._Release()
            raise errors.InotifyError(
                f"folder {posixpath.dirname(path)} cannot be watched: {err.strerror}", hint="does it exist?"
            ) from err
        self._disk.watchers.append(self._Note)

    def _Add(self, path: str) -> None:
        if isinstance(self._disk.Lookup(path), Folder):
            self._folders[self._disk.Split(posixpath.join(path, "x"))[2][:-2]] = path
        else:
            if not isinstance(self._disk.Find(posixpath.dirname(path)), Folder):
                raise OSError(errno.ENOTDIR, "Not a directory", path)
            self._files.setdefault(self._disk.Split(path)[2], []).append(path)

    def _Note(self, path: str) -> None:
        given = list(self._files.get(path, ()))
        head, name = posixpath.split(path)
        folder = self._folders.get(head.rstrip("/"))
        if folder is not None:
            given.append(posixpath.join(folder, name))
        if given:
            self._changed.update(dict.fromkeys(given))
            self.Changed()

    def Events(self) -> int:
        return IN if self._changed else 0

    def wait(self, timeout: float | None = None) -> list[str]:
        self._Reach("Watch.wait")
        self._waiters.WaitUntil(lambda: self._changed or self._closed, timeout)
        changed = sorted(self._changed)
        self._changed.clear()
        return changed

    def _Shut(self) -> None:
        if self._Note in self._disk.watchers:
            self._disk.watchers.remove(self._Note)

    def Close(self) -> None:
        self._world.Reach("Watch.Close")
        self._Release()
