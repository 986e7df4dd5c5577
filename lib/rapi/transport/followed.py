"""Files that the daemon follows while it runs: the users file, certificates.

inotify reports a change at once, but only one of a name in a folder that is watched.  A folder that was replaced and the file
behind a symbolic link are compared with what was seen before, every 15 seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Sequence

from ganeti import errors, runtime
from ganeti.runtime import protocols
from ganeti.utils.files import FileIdentity, IdentityOf

INTERVAL = 15.0
"""Seconds between two comparisons, and two tries to watch a folder that is not there."""


class FollowedFiles:
    """Calls ``changed`` on the event loop whenever one of the files is written, replaced, made or removed."""

    def __init__(self, paths: Sequence[str], changed: Callable[[], None], interval: float = INTERVAL):
        self._paths = paths
        self._folders = sorted({os.path.dirname(path) for path in paths})
        self._changed = changed
        self._interval = interval
        self._watch: protocols.Watch | None = None
        self._watched: list[FileIdentity] = []
        self._seen: list[FileIdentity] = []
        self._timer: asyncio.TimerHandle | None = None

    def Start(self) -> None:
        """Begin to watch, as soon as that is possible; what is there now is read by whoever starts this."""
        self._seen = [IdentityOf(path) for path in self._paths]
        self._Watch()
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._Compare)

    def _Watch(self) -> None:
        self._Unwatch()
        # Looked at before: a folder that is replaced meanwhile is noticed at the next comparison.
        self._watched = [_Folder(folder) for folder in self._folders]
        try:
            self._watch = runtime.WatchFiles(self._paths)
        except errors.InotifyError as err:
            logging.warning("Changes are noticed late: %s; trying again in %g s", err, self._interval)
            return
        asyncio.get_running_loop().add_reader(self._watch.fileno(), self._Look)

    def _Unwatch(self) -> None:
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())
            self._watch.Close()
            self._watch = None

    def _Look(self) -> None:
        assert self._watch is not None
        if self._watch.wait(0):
            self._seen = [IdentityOf(path) for path in self._paths]
            self._changed()

    def _Compare(self) -> None:
        """Notice what inotify does not report."""
        self._timer = asyncio.get_running_loop().call_later(self._interval, self._Compare)
        if self._watch is None or self._watched != [_Folder(folder) for folder in self._folders]:
            self._Watch()
        seen = [IdentityOf(path) for path in self._paths]
        if seen != self._seen:
            self._seen = seen
            self._changed()

    def Stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._Unwatch()


def _Folder(path: str) -> FileIdentity:
    """Return what tells a folder from another one in its place, whatever is in it."""
    found = IdentityOf(path)
    return found and found[:2]
