"""File watches of the real machine, by inotify."""

from __future__ import annotations

import os
import select
import time
import warnings
from collections.abc import Sequence
from typing import Any

from ganeti import errors

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # pyinotify imports asyncore
    import pyinotify

_MASK = (
    pyinotify.IN_CLOSE_WRITE
    | pyinotify.IN_MOVED_TO
    | pyinotify.IN_MOVED_FROM
    | pyinotify.IN_DELETE
    | pyinotify.IN_CREATE
    | pyinotify.IN_ATTRIB
)


class Watch:
    """Watches the folders of the paths: a file that is replaced by a rename is another file, its name stays."""

    def __init__(self, paths: Sequence[str]):
        self._changed: set[str] = set()
        self._folders: dict[str, set[str] | None] = {}  # folder -> names, None: all
        for path in paths:
            if os.path.isdir(path):
                self._folders[path] = None
            else:
                names = self._folders.setdefault(os.path.dirname(path) or ".", set())
                if names is not None:
                    names.add(path)
        self._manager = pyinotify.WatchManager()
        self._notifier = pyinotify.Notifier(self._manager, default_proc_fun=self._Note, timeout=0)
        for folder in self._folders:
            self._Add(folder)

    def _Add(self, folder: str) -> None:
        try:
            self._manager.add_watch(folder, _MASK | pyinotify.IN_ONLYDIR, quiet=False)
        except pyinotify.WatchManagerError as err:
            self.Close()
            raise errors.InotifyError(
                f"folder {folder} cannot be watched: {err}",
                hint="does it exist, and is fs.inotify.max_user_watches large enough?",
            ) from err

    def _Note(self, event: Any) -> None:
        if event.mask & pyinotify.IN_Q_OVERFLOW:  # some events are lost: everything may have changed
            for folder, names in self._folders.items():
                self._changed.update(names if names is not None else [folder])
            return
        if not event.name:
            return
        names = self._folders.get(event.path, set())
        path = os.path.join(event.path, event.name)
        if names is None:
            self._changed.add(path)
        else:
            self._changed.update(name for name in names if os.path.basename(name) == event.name)

    def fileno(self) -> int:
        return self._manager.get_fd()

    def wait(self, timeout: float | None = None) -> list[str]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            poll = select.poll()
            poll.register(self.fileno(), select.POLLIN)
            if poll.poll(None if left is None else left * 1000 + (1 if left else 0)):
                self._notifier.read_events()
                self._notifier.process_events()
            if self._changed or (deadline is not None and time.monotonic() >= deadline):
                break
        changed, self._changed = sorted(self._changed), set()
        return changed

    def Close(self) -> None:
        if self._manager is not None:
            self._notifier.stop()
            self._manager = None


def WatchFiles(paths: Sequence[str]) -> Watch:
    return Watch(paths)
