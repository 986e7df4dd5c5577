"""Roots and changes: how a function on a draft becomes durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from ganeti import errors, objects, runtime, store
from ganeti.config.draft import Draft
from ganeti.config.reservations import Reservations

R = TypeVar("R")


class StoreLike(Protocol):
    """What the configuration uses of ``store.Store``."""

    def Rows(self, kind: str) -> dict[str, str]: ...

    def Commit(self, change: store.Change, patient: bool = False) -> None: ...

    def Begin(self, change: store.Change, done: Callable[[Exception | None], None], patient: bool = False) -> None: ...

    def AddVoter(self, member: store.Member, change: store.Change, timeout: float = 300.0) -> None: ...

    def RemoveVoter(self, uuid: str, change: store.Change, timeout: float = 300.0) -> None: ...


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
        """Takes the configuration from the store; ConfigVerifyError if no master may start with it."""
        self._store = config_store
        self._acknowledged = objects.Snapshot.FromRows(_StoredRows(config_store))
        problems = objects.StructuralProblems(self._acknowledged)
        if problems:
            raise errors.ConfigVerifyError("The configuration cannot be used", problems)
        # Changes that were prepared and not published, oldest first, with the roots they made.  Appended to and taken
        # from by the committer's thread alone; others read only the last root, through _newest.
        self._under_way: list[tuple[ConfigChange[Any], objects.Snapshot]] = []
        self._newest = self._acknowledged
        self._reservations = Reservations()

    def Snapshot(self) -> objects.Snapshot:
        """The configuration as it is acknowledged; no lock, costs nothing."""
        return self._acknowledged

    def Newest(self) -> objects.Snapshot:
        """The root that the next change builds on: what is acknowledged and what is under way."""
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
        """Changes of a refused transaction are taken back newest first; a root never holds a withdrawn change."""
        for index, (found, _) in enumerate(self._under_way):
            if found is change:
                del self._under_way[index:]
        self._newest = self._under_way[-1][1] if self._under_way else self._acknowledged

    # --- changes ------------------------------------------------------------------------------------------------------

    def Transact(self, function: Callable[[Draft], R]) -> R:
        """Runs ``function`` on a draft of the newest root and waits until what it changed is acknowledged.

        It runs on the committer's thread: no waiting, no calls.  What it raises is raised here, and nothing is changed.
        Errors of the store: NoQuorum, DiskRefused (nothing changed), NotKnown (it may still be done), MasterLost.
        """
        change = ConfigChange(self, function)
        self._store.Commit(change)
        return change.result

    def TransactAsync(self, function: Callable[[Draft], Any], done: Callable[[Exception | None], None]) -> None:
        """The same without waiting: ``done(error or None)`` is called on the committer's thread."""
        self._store.Begin(ConfigChange(self, function), done)

    def DropECReservations(self, ec_id: Any) -> None:
        """Forgets every value that was handed out to a job and not stored."""
        self._reservations.Drop(ec_id)

    def VerifyConfig(self) -> list[str]:
        """Everything that is wrong with the configuration."""
        return objects.VerifyConfig(self.Snapshot())


def _StoredRows(config_store: StoreLike) -> Iterator[tuple[str, str, str]]:
    for kind in objects.ROW_KINDS:
        for row_id, value in config_store.Rows(kind).items():
            yield kind, row_id, value


def OutOfDate(obj: objects.ConfigObject, stored: Any) -> errors.ConfigurationError:
    """The refusal of an object that was changed by somebody else meanwhile."""
    return errors.ConfigurationError(
        f"{obj.label} is out of date: it was changed meanwhile (serial number {obj.__dict__['serial_no']}, stored is "
        f"{stored.serial_no}); nothing was changed, try again"
    )


def CheckSerial(obj: objects.ConfigObject, stored: Any) -> None:
    if obj.__dict__["serial_no"] != stored.serial_no:
        raise OutOfDate(obj, stored)
