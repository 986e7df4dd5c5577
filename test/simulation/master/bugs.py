"""Bugs planted on purpose, each one method of one class: the simulation of the whole master must find every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simulation.harness import bugs as store_bugs
from simulation.harness import jobbugs
from simulation.harness.cluster import Parts
from simulation.master.parts import MasterParts, SimulatedMaster

from ganeti import errors, runtime
from ganeti.config import ConfigWriter, Draft
from ganeti.config.base import ConfigChange
from ganeti.jqueue import JobQueue
from ganeti.jqueue.changes import ArchiveChange
from ganeti.rpc.base import Failure
from ganeti.server import opening
from ganeti.store import Epoch, Store, StoreError, election
from ganeti.store.base import Change, StoredRow
from ganeti.store.files import export
from ganeti.store.files.edits import HandEdits
from ganeti.store.relay import Passer


class _DeafMaster(SimulatedMaster):
    def __init__(self, node: Any, wishes: opening.Wishes, ended: Callable[[StoreError], None]):
        del ended
        super().__init__(node, wishes, lambda error: None)


class IgnoresLost(MasterParts):
    """A master goes on serving though it was told that there is a newer one."""

    master = _DeafMaster


class _ActingStore(Store):
    def ActingEpoch(self) -> Epoch:
        return self.Epoch()


class _ActingElection(election.Election):
    store_class = _ActingStore


class CallsWhenRefused(IgnoresLost):
    """A master goes on serving though it was told that there is a newer one, and its jobs change nodes.

    Both defences are gone: with one of them left nothing is sent, for the process ends before anything could be.
    """

    election = _ActingElection


class _SilentPasser(Passer):
    def Pass(self, value: dict[str, Any]) -> dict[str, Any]:
        del value
        raise errors.RpcCallError("it is not passed on")


class NothingIsPassedOn(MasterParts):
    """Candidates do not help a master whose certificate a node rejects."""

    passer = _SilentPasser


class _SkippingExporter(export.Exporter):
    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self._view = _SkippingView(self._view)  # type: ignore[assignment]


class _SkippingView:
    """Forgets one of three job rows; everything else it leaves to the real one."""

    def __init__(self, inner: export.View):
        self._inner = inner

    def Clear(self) -> None:
        self._inner.Clear()

    def Take(self, rows: Iterable[StoredRow]) -> Any:
        return self._inner.Take(row for row in rows if not (row.kind == export.KIND_JOB and row.seq % 3 == 0))


class ExporterSkipsRows(MasterParts):
    """Some versions of job files are not written."""

    exporter = _SkippingExporter


class _LeavingExporter(export.Exporter):
    def _Place(self, database: Any, targets: Mapping[str, Any], *more: Any) -> None:
        super()._Place(database, {path: target for path, target in targets.items() if target is not None}, *more)


class ExporterLeavesFiles(MasterParts):
    """Files of jobs that went to the archive stay in the queue."""

    exporter = _LeavingExporter


class _KeepingStore:
    """Hands changes on to the store; those of the archive do not take the live job away."""

    def __init__(self, store: Store):
        self._store = store

    def Begin(self, change: Change, done: Callable[[Exception | None], None], patient: bool = False) -> None:
        if isinstance(change, ArchiveChange):
            prepare = change.Prepare
            change.Prepare = lambda: [row for row in prepare() if row.value is not None]  # type: ignore[method-assign]
        self._store.Begin(change, done, patient)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _KeepingQueue(JobQueue):
    def __init__(self, store: Any, *args: Any):
        super().__init__(_KeepingStore(store), *args)  # type: ignore[arg-type]


class LostJobDeletion(MasterParts):
    """A job goes to the archive and stays a live one."""

    queue = _KeepingQueue


class _ForgetfulQueue(JobQueue):
    def _Load(self) -> None:
        super()._Load()
        self._submitter.last_id = self.state.serial = self._live.LastId()


class IdsUsedAgain(MasterParts):
    """A restart counts ids from the newest live job, though newer ones are in the archive."""

    queue = _ForgetfulQueue


class _HastyConfig(ConfigWriter):
    def Transact(self, function: Callable[[Draft], Any]) -> Any:
        change = ConfigChange(self, function)
        prepared = runtime.Event()
        failed: list[Exception] = []
        prepare = change.Prepare

        def run() -> Any:
            try:
                return prepare()
            except Exception as err:
                failed.append(err)
                raise
            finally:
                prepared.set()

        def done(error: Exception | None) -> None:
            if error is not None and not failed:
                failed.append(error)
            prepared.set()

        change.Prepare = run  # type: ignore[method-assign]
        self._store.Begin(change, done)
        prepared.wait()
        if failed:
            raise failed[0]
        return change.result


class ConfigAnswersEarly(MasterParts):
    """A change of the configuration is taken for done when it is begun; its job goes on and is told to have succeeded."""

    config = _HastyConfig


class _ImpatientConfig(ConfigWriter):
    def Transact(self, function: Callable[[Draft], Any]) -> Any:
        change = ConfigChange(self, function)
        self._store.Commit(change, patient=False)
        return change.result


class ImpatientConfig(MasterParts):
    """A job whose change of the configuration finds no quorum fails half-way instead of waiting."""

    config = _ImpatientConfig


class _DirtyConfig(ConfigWriter):
    def TransactAsync(self, function: Callable[[Draft], Any], done: Callable[[Exception | None], None]) -> None:
        super().TransactAsync(function, lambda error: None)
        done(None)


class RulesAnswerEarly(MasterParts):
    """A change of filter rules is acknowledged before it is stored."""

    config = _DirtyConfig


class _ForgetfulEdits(HandEdits):
    def _IsStored(self, adopted: Any, snapshot: Any) -> bool:
        del adopted, snapshot
        return False


class EditTakenTwice(MasterParts):
    """A start does not see that an edit is stored already, and finds it made on an older state."""

    edits = _ForgetfulEdits


class _BlindElection(election.Election):
    def _Ask(self, call: str, uuids: list[str]) -> Any:
        refusals = super()._Ask(call, uuids)
        self.silent = {uuid: node._replace(failure=Failure.UNREACHABLE) for uuid, node in self.silent.items()}
        return refusals


class RunningNodesGivenUp(MasterParts):
    """A forced start takes nodes that accept connections for off (a scene finds it: scenes.OldMasterReturns)."""

    election = _BlindElection


def _OfStore(bug: type[Parts]) -> type[MasterParts]:
    return type(
        bug.__name__, (MasterParts,), {"__doc__": bug.__doc__, "node_store": bug.node_store, "election": bug.election}
    )


def _OfQueue(bug: type[JobQueue]) -> type[MasterParts]:
    return type(bug.__name__, (MasterParts,), {"__doc__": bug.__doc__, "queue": bug})


BUGS: tuple[type[MasterParts], ...] = (
    *(_OfStore(bug) for bug in store_bugs.BUGS),
    *(_OfQueue(bug) for bug in jobbugs.BUGS),
    IgnoresLost,
    CallsWhenRefused,
    ExporterSkipsRows,
    ExporterLeavesFiles,
    LostJobDeletion,
    IdsUsedAgain,
    ConfigAnswersEarly,
    ImpatientConfig,
    EditTakenTwice,
    RulesAnswerEarly,
    NothingIsPassedOn,
)
