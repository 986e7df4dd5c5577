"""Files that the daemon follows while it runs: the users file, certificates."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from ganeti import errors, runtime
from ganeti.runtime import protocols

# Seconds between two tries to watch a folder that is not there.
_RETRY = 10.0


class FollowedFiles:
    """Calls ``changed`` on the event loop whenever one of the files is written, replaced, made or removed."""

    def __init__(self, paths: Sequence[str], changed: Callable[[], None]):
        self._paths = paths
        self._changed = changed
        self._watch: protocols.Watch | None = None
        self._timer: asyncio.TimerHandle | None = None

    def Start(self) -> None:
        """Begin to watch, as soon as that is possible; what is there now is read by whoever starts this."""
        loop = asyncio.get_running_loop()
        late = self._timer is not None
        try:
            self._watch = runtime.WatchFiles(self._paths)
        except errors.InotifyError as err:
            logging.warning("Changes are not noticed: %s; trying again in %d s", err, _RETRY)
            self._timer = loop.call_later(_RETRY, self.Start)
            return
        loop.add_reader(self._watch.fileno(), self._Look)
        if late:
            self._changed()

    def _Look(self) -> None:
        assert self._watch is not None
        if self._watch.wait(0):
            self._changed()

    def Stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())
            self._watch.Close()
            self._watch = None
