"""One node's copy of the store: what it accepts, from whom, and what it answers (rules 2, 3, 4 and 6).

Everything is on disk before it is answered.  The same object is noded's store, noded's gate, and the master's own copy.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from ganeti import errors, pathutils, runtime
from ganeti.rpc import base as rpc_base
from ganeti.store.base import (
    ID_FORCED,
    KIND_MASTER,
    NOWHERE,
    PIECE_BYTES,
    Epoch,
    EpochTooOld,
    Line,
    ParseRows,
    ParseStoredRows,
    Position,
    Row,
    StoredRow,
    VoterSet,
)
from ganeti.store.copy.calls import RunningCalls
from ganeti.store.copy.database import Cursor, Database, MakeFile, State
from ganeti.store.copy.replaced import Replaced
from ganeti.store.files import owned
from ganeti.store.messages import Final, Message, ParseCursor

if TYPE_CHECKING:
    from ganeti.rpc.procedures import Procedure
    from ganeti.runtime import protocols

_SERVE_TIMEOUT = 5.0
"""Seconds to wait for those who only look: each look takes the lock for some microseconds."""


class NodeStore:
    """The store of one node.  ``uid`` and ``gid`` own the database; -1 leaves them as they come."""

    def __init__(
        self,
        path: str,
        node_name: str,
        calls_dir: str = pathutils.CALLS_DIR,
        uid: int = -1,
        gid: int = -1,
    ):
        self.path = path
        self.node_name = node_name
        self._folder = path.rpartition("/")[0]
        self._serve_path = calls_dir.rpartition("/")[0] + "/master.lock"
        self.owner = (uid, gid)
        self._calls = RunningCalls(calls_dir, self.owner)
        self._replaced = Replaced(self._folder, self.owner)
        self._lock = runtime.Lock()
        self._database: Database | None = None
        self._pid = 0

    # The database

    @property
    def database(self) -> Database:
        """Return this process's connection; a forked child opens its own."""
        with self._lock:
            pid = runtime.ProcessId()
            if self._database is None or self._pid != pid:
                self._MakeFile()
                self._database = Database(self.path)
                self._pid = pid
            return self._database

    def _MakeFile(self) -> None:
        """Make an empty database file, unless there is one."""
        if runtime.Exists(self.path):
            return
        owned.MakeOwned(self._folder, 0o750, self.owner)
        with owned.LockOwned(self.path + ".make", True, 10.0, self.owner) as making:
            if not runtime.Exists(self.path):
                MakeFile(self.path, self.owner)
            runtime.RemoveFile(making.path)

    def Close(self) -> None:
        with self._lock:
            if self._database is not None and self._pid == runtime.ProcessId():
                self._database.Close()
            self._database = None

    def GetState(self) -> State:
        return self.database.GetState()

    def GetLine(self) -> Line:
        with self.database.Transaction() as database:
            return database.GetLine(database.GetState().last)

    def GetVoters(self) -> VoterSet:
        return self.database.GetVoters()

    def Serve(self) -> protocols.FileLock:
        """Mark this node as serving the store to clients until released; raise LockBusy if it does already."""
        owned.MakeOwned(self._serve_path.rpartition("/")[0], 0o770, self.owner)
        return runtime.LockFile(self._serve_path, exclusive=True, timeout=_SERVE_TIMEOUT)

    def IsServing(self) -> bool:
        """Return whether a master daemon of this node has the store open."""
        if not runtime.Exists(self._serve_path):
            return False
        try:
            runtime.LockFile(self._serve_path, exclusive=False, timeout=0).release()
        except errors.LockError:
            return True
        return False

    # Promises

    def Promise(self, cluster: str, epoch: Epoch, master: str) -> State:
        """Promise an epoch, durably; the same one again is fine.  Raise EpochTooOld below the promised one."""
        database = self.database
        state = database.GetState()
        _CheckCluster(state, cluster, self.node_name)
        if epoch == state.promised and state.cluster == cluster:
            return state
        if epoch < state.promised:
            raise EpochTooOld(state.promised, state.promised_master)
        with self._calls.Exclude(), database.Transaction():
            state = database.GetState()
            _CheckCluster(state, cluster, self.node_name)
            if epoch < state.promised:
                raise EpochTooOld(state.promised, state.promised_master)
            state = state.With(cluster=cluster or state.cluster, promised=epoch, promised_master=master)
            database.PutState(state)
        logging.info("Promised epoch %s of master %s", epoch, master)
        return state

    @contextmanager
    def _Writing(self, message: Message) -> Iterator[tuple[Database, State]]:
        """Open a transaction for a caller, whose epoch is promised by that."""
        self.Promise(message.cluster, message.epoch, message.master)
        with self.Writing(message.epoch) as (database, state):
            yield database, state

    @contextmanager
    def Writing(self, epoch: Epoch) -> Iterator[tuple[Database, State]]:
        """Open a transaction of the master of ``epoch``; raise EpochTooOld if this node has promised another one."""
        with self.database.Transaction() as database:
            state = database.GetState()
            if state.promised != epoch:
                raise EpochTooOld(state.promised, state.promised_master)
            yield database, state

    # What the master's own copy does

    def Store(self, epoch: Epoch, rows: Sequence[Row], acknowledged: Position, prune: int = 0) -> Position:
        """Add one transaction of the master whose own copy this is."""
        with self.Writing(epoch) as (database, state):
            position = Position(epoch, state.last.seq + 1)
            _PutTransaction(database, state, position, rows, acknowledged, prune)
            return position

    def Acknowledge(self, epoch: Epoch, acknowledged: Position, prune: int) -> None:
        """Raise what is known to be acknowledged, without a transaction."""
        with self.Writing(epoch) as (database, state):
            _Acknowledge(database, state, acknowledged, prune)

    def Adopt(
        self,
        epoch: Epoch,
        fetched: Sequence[StoredRow] | None,
        line: Line,
        pruned: int,
        partial: bool,
        first: Sequence[Row],
    ) -> Position:
        """Take a history and put the first transaction of this epoch on top, as one (rule 5).

        ``fetched``: None if the own history is the adopted one; with ``partial`` the rows that the own lacks, else all.
        ``pruned``: how far the source of a full fetch is pruned.  After a partial one the own rows are still there,
        without the deletions that were dropped here, so what was pruned here stays true.
        """
        self._replaced.Finish(self.database)
        with self.Writing(epoch) as (database, state):
            if fetched is not None:
                if partial:
                    database.MergeRows(fetched)
                else:
                    database.ClearAside()
                    database.FillAside(fetched)
                    state = self._Replace(database, state, line).With(pruned=pruned, exported=0)
                database.PutLine(line)
                state = state.With(last=line.last, whole=line.last.seq)
            position = Position(epoch, state.last.seq + 1)
            _PutTransaction(database, state, position, first, NOWHERE, 0)
            return position

    def ReadAll(self) -> tuple[State, Line, list[StoredRow]]:
        """Return state, line and rows of one moment."""
        with self.database.Transaction() as database:
            state = database.GetState()
            return state, database.GetLine(state.last), database.GetRows()

    def ReadPage(self, epoch: Epoch, after: Cursor) -> tuple[State, list[StoredRow], bool]:
        """Return rows for another node, whether there are more, and the state of the same moment.

        Raise EpochTooOld where a newer master may have written here: its rows are not those of the caller's history.
        """
        with self.Writing(epoch) as (database, state):
            return state, *database.GetPage(after, PIECE_BYTES)

    def ReadChecked(self, kinds: Collection[str]) -> list[StoredRow]:
        """Return the rows of some kinds, once state, line and voters were found to make sense; else raise the error of
        ``Damaged``.
        """
        try:
            with self.database.Transaction() as database:
                state = database.GetState()
                line, rows = database.GetLine(state.last), database.GetRows(kinds)
            for position in (state.last, state.acknowledged):
                Position.Parse(position.Wire())
            Line.Parse(line.Wire(), state.last)
            self.GetVoters()
        except errors.ParseError as err:
            raise self.Damaged(err) from err
        return rows

    def Ids(self, kind: str) -> list[str]:
        """Return the ids of all rows of a kind, without reading their values."""
        return self.database.GetIds(kind)

    def Damaged(self, reason: object) -> errors.StorageError:
        """Return the error for a copy that can be read and makes no sense; it names the file and the way out."""
        return runtime.DamagedDatabase(self.path, reason)

    # Handlers

    def Handlers(self) -> dict[str, Callable[[dict[str, Any]], dict[str, Any]]]:
        """Return the RPC procedures of the store."""
        return {
            "store_promise": self._Guarded(self._OnPromise),
            "store_append": self._Guarded(self._OnAppend, tidy=True),
            "store_catchup": self._Guarded(self._OnCatchup, tidy=True),
            "store_copy": self._Guarded(self._OnCopy, tidy=True),
            "store_empty": self._Guarded(self._OnEmpty),
            "store_fetch": self._Guarded(self._OnFetch),
            "store_status": self._OnStatus,
        }

    def _Guarded(
        self, handler: Callable[[Message], dict[str, Any]], tidy: bool = False
    ) -> Callable[[dict[str, Any]], dict[str, Any]]:
        def run(value: dict[str, Any]) -> dict[str, Any]:
            try:
                answer = handler(Message(value))
                if tidy:
                    self._replaced.Step(self.database)
                return answer
            except EpochTooOld as err:
                return {"refused": str(err.newer), "master": err.master, **self._WhatIsHeld()}
            except OSError as err:
                raise errors.StorageError(
                    f"node {self.node_name} cannot store: {err.strerror or err} ({self._folder})"
                ) from err

        return run

    def _WhatIsHeld(self) -> dict[str, Any]:
        """Return what a refused master needs to judge whom this node follows."""
        line = self.GetLine()
        return {"last": line.last.Wire(), "line": line.Wire()}

    def _OnPromise(self, message: Message) -> dict[str, Any]:
        self.Promise(message.cluster, message.epoch, message.master)
        answer = self.Describe()
        if answer["promised"] != str(message.epoch):
            raise EpochTooOld(Epoch.Parse(answer["promised"]), answer["master"])
        answer["running"] = [[str(call.epoch), call.name] for call in self._calls.Older(message.epoch)]
        return answer

    def _OnStatus(self, value: dict[str, Any]) -> dict[str, Any]:
        del value
        answer = self.Describe()
        promised = Epoch.Parse(answer["promised"])
        answer["running"] = [[str(call.epoch), call.name] for call in self._calls.Older(promised)]
        return answer

    def Describe(self) -> dict[str, Any]:
        """Return what a promise answers, except for the running calls."""
        with self.database.Transaction() as database:
            state = database.GetState()
            line = database.GetLine(state.last)
            voters = database.GetVoters()
            forced = database.GetValue(KIND_MASTER, ID_FORCED)
        return {
            "node": self.node_name,
            "cluster": state.cluster,
            "store": state.store_id,
            "promised": str(state.promised),
            "master": state.promised_master,
            "last": state.last.Wire(),
            "line": line.Wire(),
            "voters": voters.Row().value,
            "forced": forced,
            "acknowledged": state.acknowledged.Wire(),
            "pruned": state.pruned,
            "exported": state.exported,
            "serving": self.IsServing(),
        }

    def _OnAppend(self, message: Message) -> dict[str, Any]:
        acknowledged = message.Place("acknowledged")
        prune = message.Number("prune")
        if message["seq"] is None:
            with self._Writing(message) as (database, state):
                state = _Acknowledge(database, state, acknowledged, prune)
                return _Answer(state, True)
        before = message.Place("before")
        position = Position(message.epoch, message.Number("seq"))
        rows = ParseRows(message["rows"])
        stores = message["stores"]
        if not isinstance(stores, list):
            raise errors.ParseError("stores must be a list of ids")
        if position.seq != before.seq + 1:
            raise errors.ParseError("a transaction's seq must follow the last one")
        with self._Writing(message) as (database, state):
            if state.store_id not in stores:
                return _Answer(state, False)
            if self._Has(state, position):
                return _Answer(_HeardAgain(database, state, acknowledged), True)
            if not self._Follows(state, before):
                return _Answer(state, False)
            state = _PutTransaction(database, state, position, rows, acknowledged, prune)
        return _Answer(state, True)

    def _OnCatchup(self, message: Message) -> dict[str, Any]:
        return self._OnPiece(message, whole=False)

    def _OnCopy(self, message: Message) -> dict[str, Any]:
        return self._OnPiece(message, whole=True)

    def _OnPiece(self, message: Message, whole: bool) -> dict[str, Any]:
        """Gather a piece of a full copy or of a catch-up; with the last one put all of them in place."""
        copy = message.Text("copy")
        piece = message.Number("piece")
        rows = ParseStoredRows(message["rows"])
        final = None if message["final"] is None else Final(message, whole)
        if final is not None and whole:
            self._replaced.Finish(self.database)
        with self._Writing(message) as (database, state):
            if message.Text("store") != state.store_id:
                return _Answer(state, False)
            if final is None:
                database.PutPiece(copy, piece, rows)
                return _Answer(state, True)
            if self._Has(state, final.last):
                database.ClearAside()
                return _Answer(_HeardAgain(database, state, final.acknowledged), True)
            database.PutPiece(copy, piece, rows)
            # Without one of the pieces the caller begins again; so it does if this node is elsewhere meanwhile.
            if database.CountPieces(copy) != final.pieces or not self._Fits(database, state, final):
                database.ClearAside()
                return _Answer(state, False)
            if final.before is None:
                state = self._Replace(database, state, final.line).With(pruned=final.pruned, exported=0)
            else:
                database.MergeAside()
            database.PutLine(final.line)
            state = state.With(
                last=final.last, whole=final.last.seq, acknowledged=max(state.acknowledged, final.acknowledged)
            )
            database.PutState(state)
        if whole:
            logging.info("Took a full copy of the store, up to %s, from master %s", final.last, message.master)
        return _Answer(state, True)

    def _Fits(self, database: Database, state: State, final: Final) -> bool:
        """Return whether the pieces of a catch-up fit on top of what is here; a full copy always does."""
        if final.before is None:
            return not state.replaced
        if database.AsideSeqs()[1] > final.last.seq or 0 < database.AsideSeqs()[0] <= final.before.seq:
            raise errors.ParseError("rows of a catch-up must lie between the two positions")
        return self._Follows(state, final.before) and final.line.Holds(final.before)

    def _Has(self, state: State, position: Position) -> bool:
        """Return whether this node holds all up to ``position``, which is of the calling master's own epoch."""
        return state.last.epoch == position.epoch and state.last.seq >= position.seq

    def _Follows(self, state: State, before: Position) -> bool:
        """Return whether what follows ``before`` fits on top of what is here."""
        return state.last == before

    def _Replace(self, database: Database, state: State, line: Line | None) -> State:
        """Put the gathered rows in the place of all that is here; ``line`` is theirs."""
        return self._replaced.Retire(database, state, line)

    def _OnEmpty(self, message: Message) -> dict[str, Any]:
        """Take all rows from this node; "stored" once they are in a file, so that the caller asks until they are.

        What is acknowledged stays: it says that there is a store elsewhere, of which this node's files may be old.
        """
        acknowledged = message.Place("acknowledged")
        with self._Writing(message) as (database, state):
            if message.Text("store") == state.store_id and not state.replaced:
                database.ClearAside()
                replaced = self._replaced.Retire(database, state, None).replaced
                state = State(
                    state.cluster,
                    runtime.NewUuid(),
                    state.promised,
                    state.promised_master,
                    acknowledged=max(state.acknowledged, acknowledged),
                    replaced=replaced,
                )
                database.PutState(state)
                logging.info(
                    "Emptied the store of this node for master %s: its new id is %s", message.master, state.store_id
                )
        tidy = self._replaced.Step(self.database)
        return _Answer(state, tidy and message.Text("store") != state.store_id)

    def _OnFetch(self, message: Message) -> dict[str, Any]:
        after = ParseCursor(message["after"])
        state = self.GetState()
        _CheckCluster(state, message.cluster, self.node_name)
        if message.epoch > state.promised:
            raise errors.GenericError(f"node {self.node_name} has not promised epoch {message.epoch}")
        state, rows, more = self.ReadPage(message.epoch, after)
        return {**_Answer(state, True), "rows": [row.Wire() for row in rows], "more": more}

    # The gate

    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        """Book a changing call (rule 6); ``headers`` has lower-case names.

        Raise EpochRefused, or OlderCallRuns when an older epoch's call did not end within this one's time-out.
        """
        text = headers.get(rpc_base.HEADER_EPOCH.lower())
        if text is None:
            if procedure.without_epoch:
                return nullcontext()
            raise rpc_base.EpochRefused("", "")
        epoch = Epoch.Parse(text)
        return self._Booked(procedure, epoch, headers.get(rpc_base.HEADER_MASTER.lower(), ""))

    @contextmanager
    def _Booked(self, procedure: Procedure, epoch: Epoch, master: str) -> Iterator[None]:
        entry = self._Book(procedure.name, epoch, master)
        try:
            self._calls.WaitForOlder(epoch, procedure.Seconds([0]))
            self._CheckPromised(epoch)
            yield
        finally:
            self._calls.Leave(entry)

    def _Book(self, name: str, epoch: Epoch, master: str) -> protocols.FileLock:
        while True:
            with self._calls.Admit():
                state = self.database.GetState()
                if epoch < state.promised:
                    raise rpc_base.EpochRefused(str(state.promised), state.promised_master)
                if epoch == state.promised:
                    return self._calls.Book(epoch, name)
            try:
                self.Promise(state.cluster, epoch, master)
            except EpochTooOld:
                continue  # the next look refuses with what was promised meanwhile

    def _CheckPromised(self, epoch: Epoch) -> None:
        state = self.database.GetState()
        if epoch < state.promised:
            raise rpc_base.EpochRefused(str(state.promised), state.promised_master)


def _CheckCluster(state: State, cluster: str, node_name: str) -> None:
    if state.cluster and cluster and state.cluster != cluster:
        raise errors.StorageError(
            f"the store of node {node_name} belongs to another cluster ({state.cluster}), not to {cluster}",
            hint="if that node left its former cluster, delete the folder ext of its data directory",
        )


def _PutTransaction(
    database: Database, state: State, position: Position, rows: Sequence[Row], acknowledged: Position, prune: int
) -> State:
    database.PutTransaction(position, rows)
    if state.last.epoch != position.epoch:
        database.AddToLine(position.epoch, position.seq)
    return _Acknowledge(database, state.With(last=position), acknowledged, prune)


def _Acknowledge(database: Database, state: State, acknowledged: Position, prune: int) -> State:
    """Raise ``acknowledged`` and prune; return the state, which is written in any case."""
    if state.last.seq:
        # A node without rows keeps nothing of the kind.
        state = state.With(acknowledged=max(state.acknowledged, acknowledged))
    # Only in the history of the calling master a seq says something about the own rows.
    if state.last.epoch == state.promised:
        database.DropUndo(acknowledged.seq)
        if state.pruned < prune <= state.last.seq:
            database.PruneDeletions(prune)
            state = state.With(pruned=prune)
    database.PutState(state)
    return state


def _HeardAgain(database: Database, state: State, acknowledged: Position) -> State:
    """Take the news that the rows here are acknowledged from a call that brings none."""
    return _Acknowledge(database, state, acknowledged, 0) if acknowledged > state.acknowledged else state


def _Answer(state: State, stored: bool) -> dict[str, Any]:
    return {"store": state.store_id, "last": state.last.Wire(), "stored": stored, "exported": state.exported}
