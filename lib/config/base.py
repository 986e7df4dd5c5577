"""Roots and changes: how a function on a draft becomes durable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ganeti import configfile, errors, objects, runtime, ssconf, store
from ganeti.config.draft import Draft
from ganeti.config.reservations import Reservations

R = TypeVar("R")

DISK_RETRY = 2.0
"""Seconds before a job's change is tried again that found the master's disk full."""


class StoreLike(Protocol):
    """The part of ``store.Store`` that the configuration uses."""

    def Rows(self, kind: str) -> dict[str, str]: ...

    def Commit(self, change: store.Change, patient: bool) -> None: ...

    def Begin(self, change: store.Change, done: Callable[[Exception | None], None]) -> None: ...

    def AddVoter(self, member: store.Member, change: store.Change, timeout: float, patient: bool) -> None: ...

    def RemoveVoter(self, uuid: str, change: store.Change, timeout: float, patient: bool) -> None: ...


class ConfigChange(store.Change, Generic[R]):
    """One function on a draft; ``result`` is what it returned.  All methods run on the committer's thread."""

    result: R

    def __init__(self, config: ConfigBase, function: Callable[[Draft], R]):
        self._config = config
        self._function = function
        self._draft: Draft | None = None

    def Prepare(self) -> Sequence[store.Row]:
        draft = Draft(self._config.Newest(), runtime.Time())
        self.result = self._function(draft)
        rows = draft.Finish()
        self._draft = draft
        if rows:
            self._config.Prepared(self, draft.root)
        return rows

    def Publish(self) -> None:
        self._config.Published(self)
        if self._draft is not None:
            for function in self._draft.on_publish:
                function()

    def Withdraw(self) -> None:
        self._config.Withdrawn(self)


class ConfigBase:
    """The acknowledged root, the newest draft, and the reservations."""

    def __init__(self, config_store: StoreLike):
        """Take the configuration from the store; ConfigVerifyError if no master may start with it."""
        self._store = config_store
        self._acknowledged = objects.Snapshot.FromRows(_StoredRows(config_store))
        problems = configfile.StructuralProblems(self._acknowledged)
        if problems:
            raise errors.ConfigVerifyError("The configuration cannot be used", problems)
        self._acknowledged.BuildIndexes()
        # Changes that were prepared and not published, oldest first, with the roots they made.  Appended to and taken
        # from by the committer's thread alone; others read only the last root, through _newest.
        self._under_way: list[tuple[ConfigChange[Any], objects.Snapshot]] = []
        self._newest = self._acknowledged
        self._reservations = Reservations()

    def Snapshot(self) -> objects.Snapshot:
        """Return the configuration as it is acknowledged; no lock, costs nothing."""
        return self._acknowledged

    def Newest(self) -> objects.Snapshot:
        """Return the root that the next change builds on: what is acknowledged and what is under way."""
        return self._newest

    # --- called by changes, on the committer's thread -----------------------------------------------------------------

    def Prepared(self, change: ConfigChange[Any], root: objects.Snapshot) -> None:
        self._under_way.append((change, root))
        self._newest = root

    def Published(self, change: ConfigChange[Any]) -> None:
        for index, (found, root) in enumerate(self._under_way):
            if found is change:
                self._acknowledged = root
                del self._under_way[: index + 1]
                return

    def Withdrawn(self, change: ConfigChange[Any]) -> None:
        """Take a change of a rejected transaction back, the newest first; no root holds a withdrawn change."""
        for index, (found, _) in enumerate(self._under_way):
            if found is change:
                del self._under_way[index:]
        self._newest = self._under_way[-1][1] if self._under_way else self._acknowledged

    # --- changes ------------------------------------------------------------------------------------------------------

    def Transact(self, function: Callable[[Draft], R]) -> R:
        """Run ``function`` on a draft of the newest root and wait until what it changed is acknowledged.  For jobs.

        The function runs on the committer's thread, so it must not wait or call anybody; it runs again if the master's
        disk was full.  What it raises is raised here, and nothing is changed.
        """
        return self._Commit(ConfigChange(self, function), lambda change: self._store.Commit(change, patient=True))

    @staticmethod
    def _Commit(change: ConfigChange[R], commit: Callable[[ConfigChange[R]], None]) -> R:
        """Commit a job's change, however long a quorum or room on the master's disk is missing."""
        waits = False
        while True:
            try:
                commit(change)
            except store.DiskRefused as err:
                if not waits:
                    logging.error("A change of the configuration waits for room on the master's disk: %s", err)
                waits = True
                runtime.Sleep(DISK_RETRY)
            else:
                return change.result

    def TransactAsync(self, function: Callable[[Draft], Any], done: Callable[[Exception | None], None]) -> None:
        """Do the same for callers that are not jobs: ``done(error or None)`` is called on the committer's thread.

        Without a quorum the error is NoQuorum (nothing was changed) or, after some seconds, NotKnown (it may still be
        done); with a full disk DiskRefused.
        """
        self._store.Begin(ConfigChange(self, function), done)

    def DropECReservations(self, ec_id: Any) -> None:
        """Forget every value that was handed out to a job and not stored."""
        self._reservations.Drop(ec_id)

    def VerifyConfig(self) -> list[str]:
        """Describe everything that is wrong with the configuration."""
        root = self.Snapshot()
        return [*configfile.VerifyConfig(root), *ssconf.SizeProblems(root)]


def _StoredRows(config_store: StoreLike) -> Iterator[tuple[str, str, str]]:
    for kind in objects.ROW_KINDS:
        for row_id, value in config_store.Rows(kind).items():
            yield kind, row_id, value


def OutOfDate(obj: objects.ConfigObject, stored: Any) -> errors.ConfigurationError:
    """Return the error for an object that was changed by another job meanwhile."""
    return errors.ConfigurationError(
        f"{obj.label} is out of date: it was changed meanwhile (serial number {obj.__dict__['serial_no']}, stored is "
        f"{stored.serial_no}); nothing was changed, try again"
    )


def CheckSerial(obj: objects.ConfigObject, stored: Any) -> None:
    if obj.__dict__["serial_no"] != stored.serial_no:
        raise OutOfDate(obj, stored)
