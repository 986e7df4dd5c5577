"""The list of calls that change something on this node, and whom a promise waits for (rule 6).

One file per call in the folder, locked by the process that serves it; the lock ends with the process, so a dead one's
entry counts for nothing.  Entering happens under the shared lock of ``FOLDER.lock``, promising under the exclusive one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ganeti import errors, runtime
from ganeti.store.base import Epoch
from ganeti.store.files.owned import NO_OWNER, LockOwned, MakeOwned, Owner

if TYPE_CHECKING:
    from ganeti.runtime import protocols

_ENTER_TIMEOUT = 10.0
_SEPARATOR = "-"


class RunningCall(NamedTuple):
    """An entry: a call that runs here, and its master."""

    epoch: Epoch
    name: str
    path: str


class OlderCallRuns(errors.GenericError):
    """A call of an older epoch did not end in time."""


class RunningCalls:
    """The folder of entries of one node."""

    def __init__(self, folder: str, owner: Owner = NO_OWNER):
        self._folder = folder
        self._owner = owner
        self._lock_path = folder + ".lock"

    @contextmanager
    def Exclude(self) -> Iterator[None]:
        """Keep calls from entering meanwhile."""
        self._MakeFolder()
        with LockOwned(self._lock_path, True, _ENTER_TIMEOUT, self._owner):
            yield

    @contextmanager
    def Admit(self) -> Iterator[None]:
        """Keep promises from being made meanwhile."""
        self._MakeFolder()
        with LockOwned(self._lock_path, False, _ENTER_TIMEOUT, self._owner):
            yield

    def _MakeFolder(self) -> None:
        MakeOwned(self._folder.rpartition("/")[0], 0o770, self._owner)
        MakeOwned(self._folder, 0o750, self._owner)

    def Book(self, epoch: Epoch, name: str) -> protocols.FileLock:
        """Return the entry of a call, to be given to ``Leave``.  Call it inside Admit."""
        path = f"{self._folder}/{_SEPARATOR.join((str(epoch), name, runtime.RandomBytes(6).hex()))}"
        return runtime.LockFile(path, exclusive=True, timeout=_ENTER_TIMEOUT)

    def Leave(self, entry: protocols.FileLock) -> None:
        runtime.RemoveFile(entry.path)
        entry.release()

    def Older(self, epoch: Epoch) -> list[RunningCall]:
        """Return living entries of epochs below ``epoch``; those of dead processes are removed."""
        return [call for call in self._Entries() if call.epoch < epoch and not self._RemoveIfDead(call.path, 0)]

    def WaitForOlder(self, epoch: Epoch, timeout: float) -> None:
        """Return when no call of an older epoch runs; raise OlderCallRuns after ``timeout`` seconds."""
        deadline = runtime.Monotonic() + timeout
        for call in self._Entries():
            if call.epoch < epoch:
                left = max(0.0, deadline - runtime.Monotonic())
                if not self._RemoveIfDead(call.path, left):
                    raise OlderCallRuns(
                        f"{call.name} of the former master (epoch {call.epoch}) still runs on this node"
                        f" after {timeout:g} seconds",
                        hint="wait until it has ended, or end it on that node",
                    )

    def _Entries(self) -> list[RunningCall]:
        entries = []
        try:
            names = runtime.ListDir(self._folder)
        except FileNotFoundError:
            return []
        for name in names:
            parts = name.split(_SEPARATOR)
            try:
                epoch = Epoch.Parse(parts[0])
            except errors.ParseError:
                continue
            if len(parts) >= 3:
                entries.append(RunningCall(epoch, _SEPARATOR.join(parts[1:-1]), f"{self._folder}/{name}"))
        return entries

    @staticmethod
    def _RemoveIfDead(path: str, timeout: float) -> bool:
        """Remove an entry that no process holds within ``timeout`` seconds; return whether it did."""
        try:
            lock = runtime.LockFile(path, exclusive=False, timeout=timeout)
        except errors.LockError:
            return False
        runtime.RemoveFile(path)
        lock.release()
        return True
