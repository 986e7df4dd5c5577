"""The master's side: one committer thread that makes changes durable at a quorum (rules 1, 2 and 7).

::

    Begin(change) --> events --> committer: Prepare, own copy, --append--> voters
                        ^                                                     |
                        +------------------- answers <------------------------+
                                 quorum: Publish, done(None), next transaction
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.rpc.base import Failure
from ganeti.rpc.runner import RpcRunner
from ganeti.store.base import (
    KIND_ARCHIVED,
    MAX_TRANSACTION,
    NOWHERE,
    Change,
    DiskRefused,
    Epoch,
    EpochTooOld,
    MasterLost,
    Member,
    NoQuorum,
    NotKnown,
    Position,
    Row,
    RowsByKind,
    StoreEnded,
    StoreError,
    TooLarge,
    Voter,
    VoterSet,
)
from ganeti.store.confirm import NodeConfirmer
from ganeti.store.peers import (
    ACK_WITHIN,
    MAX_APPEND,
    RETRY_SECONDS,
    ConfirmedSeq,
    Directory,
    LearnerNeeds,
    Peer,
    Sender,
    Transaction,
)
from ganeti.store.pending import Done, Entry, Pending
from ganeti.store.refusal import FollowsOther, Refusal, RefusalJudge
from ganeti.store.silence import Silent as SilentNode
from ganeti.store.voters import CheckReach, VoterStep, VoterSteps

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.runtime import protocols
    from ganeti.store.node import NodeStore

STUCK_AFTER = 5.0
"""Seconds after which the clients of a transaction without a quorum hear that its end is not known."""

KEEPING_SECONDS = 5.0
_MAX_BATCH = 500
_FULL = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])


class Store:
    """The store of the acting master.  Made by ``election.BecomeMaster``; ``Stop`` ends it.

    ``lost(error)`` is called once, on the committer's thread, when this master has to stop: a newer one exists, or its
    own database cannot be trusted any more.  ``candidates()`` gives the master candidates that are not offline.
    """

    sender_class: type[Sender] = Sender

    def __init__(
        self,
        own: NodeStore,
        me: Member,
        cluster: str,
        epoch: Epoch,
        transport: Transport,
        resolve: Callable[[str], Sequence[Any]] | None = None,
        lost: Callable[[StoreError], None] | None = None,
        candidates: Callable[[], Iterable[Member] | None] | None = None,
    ):
        self._own = own
        self._me = me
        self._epoch = epoch
        self._tell_lost = lost
        self._directory = Directory(resolve)
        self._runner = RpcRunner(transport, self._directory.Resolve, lambda: str(epoch))
        self._events = runtime.Queue()
        self._sender = self.sender_class(own, cluster, epoch, self._runner.Start, self._OnAnswer)
        self._steps = VoterSteps(self._sender, me, candidates, self._directory.Add)
        self._judge = RefusalJudge(
            self._runner,
            self._sender.Common(),
            lambda: (self._line, self._acked),
            lambda: self._Reach(self._voters)[0] >= self._voters.quorum,
            lambda refusal: self._Put("lost", (refusal.epoch, refusal.master)),
        )
        self._confirmer = NodeConfirmer(self._runner, own, cluster, epoch, self._OnPromise, self._judge.Judge)
        self._thread = runtime.Thread(self._Run, "committer")
        self._ready = runtime.Event()
        self._published = RowsByKind()
        self._waiting: list[Entry] = []
        self._pending: list[Pending] = []
        self._listeners: list[Callable[[Position, Sequence[Row]], None]] = []
        self._ended: StoreError | None = None
        self._stopping: Done | None = None
        self._serving: protocols.FileLock | None = None
        self._tell_from = 0.0
        self._own_told = NOWHERE
        self._leftovers = runtime.Lock()
        self._keeping_at = 0.0
        self._exported = 0
        state, self._line, rows = own.ReadAll()
        if state.last.epoch != epoch:
            raise errors.ProgrammerError("the store begins with a transaction of its own epoch")
        self._acked = NOWHERE
        self._pruned = state.pruned
        self._deleted = sorted(row.seq for row in rows if row.value is None)
        self._archived = {row.id: row.seq for row in rows if row.kind == KIND_ARCHIVED and row.value is not None}
        self._published.Take(Row(row.kind, row.id, row.value) for row in rows)
        self._voters = own.GetVoters()
        for voter in self._voters.by_uuid.values():
            self._directory.Add(voter.member)
            if voter.member.uuid != me.uuid:
                self._sender.peers[voter.member.uuid] = Peer(voter.member, store_id=voter.store_id)
        seq = state.last.seq
        before = Position(self._line.EpochAt(seq - 1) or NOWHERE.epoch, seq - 1) if seq > 1 else NOWHERE
        first = Transaction(state.last, before, [Row(row.kind, row.id, row.value) for row in rows if row.seq == seq])
        self._sender.recent[before] = first
        self._pending.append(Pending(first, [], runtime.Monotonic(), first=True))

    # For everybody

    def Start(self) -> None:
        self._thread.start()

    def WaitReady(self, timeout: float) -> None:
        """Returns when the first transaction of this epoch is acknowledged: everything before it is, too.

        Raises NotKnown after ``timeout`` seconds, or why this master ended.
        """
        self._ready.wait(timeout)
        if self._ended is not None:
            raise self._ended
        if not self._ready.is_set():
            raise self._NotKnown()

    def ActingEpoch(self) -> Epoch:
        """The epoch for a call that changes something on a node; a master that was refused or has stopped makes none:
        raises why it ended (rule 6)."""
        if self._ended is not None:
            raise self._ended
        return self._epoch

    def Epoch(self) -> Epoch:
        return self._epoch

    def Voters(self) -> VoterSet:
        """The set in force."""
        return self._voters

    def Acknowledged(self) -> Position:
        return self._acked

    def IsRunning(self) -> bool:
        """Whether this master has neither stopped nor been refused."""
        return self._ended is None

    def IsSettled(self) -> bool:
        """Whether every voter holds and knows all there is, and nothing else can be done for any node.

        A node that left and follows another master keeps its rows until a new epoch of this one is above that.
        """
        peers = [peer for peer in self._sender.peers.values() if not (peer.leaving and peer.follows_other)]
        return (
            not (self._pending or self._waiting or self._steps.waiting or self._events.qsize())
            and self._own_told == self._acked == self._line.last
            and all(p.confirmed == p.told == self._acked and not (p.busy or p.learner or p.leaving) for p in peers)
            and len(peers) == len(self._voters) - 1
        )

    def Rows(self, kind: str) -> dict[str, str]:
        """Acknowledged rows: id -> JSON text."""
        return dict(self._published.by_kind.get(kind, {}))

    def Value(self, kind: str, row_id: str) -> str | None:
        """The acknowledged JSON text of one row."""
        return self._published.by_kind.get(kind, {}).get(row_id)

    def Silent(self) -> list[str]:
        """Names of voters that did not answer lately."""
        return sorted(self._Reach(self._voters)[1])

    def StandsStill(self) -> bool:
        """Whether voters are silent so that nothing can be acknowledged (rule 7)."""
        return self._ended is None and self._Reach(self._voters)[0] < self._voters.quorum

    def Listen(self, listener: Callable[[Position, Sequence[Row]], None]) -> None:
        """``listener(position, rows)`` is called on the committer's thread for each acknowledged transaction."""
        self._listeners.append(listener)

    def Begin(self, change: Change, done: Done, patient: bool = False) -> None:
        """Starts a change; ``done(None or error)`` is called once, on the committer's thread.

        A ``patient`` one waits for a quorum instead of being answered NoQuorum or NotKnown: it is done, fails by its own
        error, DiskRefused or TooLarge, or hears how this master ended (MasterEnded).
        """
        self._Put("change", Entry(change, done, patient))

    def Commit(self, change: Change, patient: bool = False) -> None:
        """Blocks until the change is acknowledged; raises NoQuorum, NotKnown, DiskRefused, MasterLost, StoreEnded."""
        self._Block(lambda done: self.Begin(change, done, patient))

    def AddVoter(self, member: Member, change: Change, timeout: float = 300.0, patient: bool = False) -> None:
        """Copy the store to a node, then make it a voter in the same transaction as ``change`` (its flags).

        ``timeout`` is for the copy.  A ``patient`` call waits for a quorum as Commit does.
        """
        deadline = runtime.Monotonic() + timeout
        self._Block(
            lambda done: self._Put("step", VoterStep(change, done, add=member, deadline=deadline, patient=patient))
        )

    def RemoveVoter(self, uuid: str, change: Change, timeout: float = 300.0, patient: bool = False) -> None:
        """Take a node out of the voters in the same transaction as ``change``; then it is emptied."""
        if uuid == self._me.uuid:
            raise errors.OpPrereqError(
                "The master is always a voter: fail over to another candidate first", errors.ECODE_STATE
            )
        deadline = runtime.Monotonic() + timeout
        self._Block(
            lambda done: self._Put("step", VoterStep(change, done, remove=uuid, deadline=deadline, patient=patient))
        )

    def ConfirmNodes(self, nodes: Iterable[str], timeout: float, joining: bool = False) -> None:
        """Return when every node has confirmed this epoch and nothing older runs there (rule 6).

        Nodes that did so before are not asked again.  Raises MasterLost, after which this master stops, or StoreError
        that names the node.  ``joining``: the nodes are about to be taken in; whom they follow now ends no master.
        """
        self._confirmer.Confirm(nodes, timeout, joining)

    def Refused(self, epoch: str, master: str, node: str) -> None:
        """A node refused a call because it has promised a newer epoch: this master stops, unless a quorum still follows it
        and the node was led astray by a forced start (rule 6)."""
        self._judge.Ask(epoch, master, node)

    def HoldServing(self, lock: protocols.FileLock) -> None:
        """Keeps the mark that this node serves the store until this master ends."""
        self._serving = lock

    def SetExported(self, seq: int) -> None:
        """The files of this node show everything up to ``seq``."""
        self._exported = seq

    def TakeAnswer(self, uuid: str, store_id: str, last: Position) -> None:
        """What a node said when it promised, before Start: spares a round trip."""
        peer = self._sender.peers.get(uuid)
        if peer is not None:
            peer.Answered(store_id, last, 0, self._epoch)

    def EmptyNode(self, member: Member, store_id: str) -> None:
        """A node that is no voter holds rows: they are taken from it (rule 4)."""
        self._Put("empty", (member, store_id))

    def Stop(self, timeout: float = 10.0) -> bool:
        """Ends the committer when what is under way is acknowledged, or after ``timeout``; whether it was."""
        ready = runtime.Event()
        clean: list[bool] = []

        def done(error: Exception | None) -> None:
            clean.append(error is None)
            ready.set()

        self._Put("stop", done)
        if not ready.wait(timeout):
            self._Put("end", None)
        self._thread.join(timeout)
        return bool(clean) and clean[0]

    def _Block(self, begin: Callable[[Done], None]) -> None:
        ready = runtime.Event()
        result: list[Exception | None] = []

        def done(error: Exception | None) -> None:
            result.append(error)
            ready.set()

        begin(done)
        # No time-out: the committer answers every change, a lost one at the latest when this master ends.
        ready.wait()
        if result[0] is not None:
            raise result[0]

    # Events

    def _Put(self, kind: str, value: Any) -> None:
        self._events.put((kind, value))
        if self._ended is not None:
            self._AnswerLeftovers()

    def _OnAnswer(self, kind: str, peer: Peer, result: Any) -> None:
        self._events.put(("answer", (kind, peer, result)))

    def _OnPromise(self, member: Member, store_id: str, last: Position) -> None:
        """A node confirmed this epoch; one that is no voter must hold no rows."""
        if last.seq and member.uuid not in self._voters:
            self.EmptyNode(member, store_id)

    def _Run(self) -> None:
        try:
            while self._ended is None:
                self._Count()
                self._steps.Look(self._voters, bool(self._pending))
                self._Begin()
                self._Judge()
                self._Tell()
                self._CheckStop()
                if self._ended is None:
                    self._Take(self._Timeout())
        except EpochTooOld as err:
            self._End(MasterLost(str(err.newer), err.master, sent=True))
        except Exception as err:
            logging.exception("The committer ended by an error")
            self._End(StoreEnded(f"the store of this master ended by an error ({err}); what is under way is not known"))
        self._AnswerLeftovers()

    def _Timeout(self) -> float:
        """Until when nothing has to be done unless something comes."""
        now = runtime.Monotonic()
        times = [self._steps.Deadline()]
        peers = [peer for peer in self._sender.peers.values() if not peer.busy and not peer.unfit]
        times += [peer.retry_at for peer in peers if peer.retry_at > now]
        if self._tell_from > now and (self._own_told < self._acked or any(p.told < self._acked for p in peers)):
            times.append(self._tell_from)
        if not self._pending:
            times.append(self._keeping_at)
        elif self._pending[0].began + STUCK_AFTER > now:
            times.append(self._pending[0].began + STUCK_AFTER)
        return max(0.0, min(times) - now)

    def _Take(self, timeout: float) -> None:
        """Waits for events and takes all there are."""
        try:
            event = self._events.get(timeout)
        except runtime.QueueEmpty:
            return
        while True:
            self._Handle(*event)
            if self._ended is not None:
                return
            try:
                event = self._events.get(0)
            except runtime.QueueEmpty:
                return

    def _Handle(self, kind: str, value: Any) -> None:
        if kind == "answer":
            self._HandleAnswer(*value)
        elif kind == "change" and self._stopping is not None:
            value.Tell(StoreEnded("this master is stopping: nothing was changed"))
        elif kind == "change":
            self._waiting.append(value)
        elif kind == "step":
            self._steps.Add(value)
        elif kind == "lost":
            self._End(MasterLost(value[0], value[1], sent=True))
        elif kind == "empty":
            if value[0].uuid not in self._voters and value[0].uuid not in self._sender.peers:
                self._steps.Empty(*value)
        elif kind == "stop":
            self._stopping = value
        else:
            self._End(StoreEnded("this master has stopped"))

    def _HandleAnswer(self, kind: str, peer: Peer, result: Any) -> None:
        uuid = peer.member.uuid
        if self._sender.peers.get(uuid) is not peer:
            # It was asked as a voter, a learner or one that leaves, and is that no more: its answer may be an old one.
            return
        now = runtime.Monotonic()
        if result.fail_msg is not None:
            peer.Failed(now, result.fail_msg, result.failure)
            return
        answer = result.payload
        if not isinstance(answer, dict):
            peer.Failed(now, "its answer has no sense")
            return
        if "refused" in answer:
            self._PeerRefuses(peer, Refusal.Parse(answer), now)
            return
        try:
            store, last = str(answer["store"]), Position.Parse(answer["last"])
            exported = int(answer.get("exported", 0))
        except (KeyError, TypeError, ValueError, errors.ParseError):
            peer.Failed(now, "its answer has no sense")
            return
        if kind == "store_empty" and peer.leaving:
            # Its rows go at once, but into a file in steps: it is asked until all are there.
            peer.Heard()
            if answer.get("stored"):
                logging.info("Node %s is no longer a voter; its copy was emptied", peer.member.name)
                del self._sender.peers[uuid]
            return
        if kind in ("store_append", "store_catchup") and not answer.get("stored") and peer.HasSaid(store, last):
            # It was sent just what follows its last, and did not take it: not again at once.
            peer.Failed(now, "it does not store what it is sent")
            return
        peer.Answered(store, last, exported, self._epoch)
        if peer.copy is not None and (peer.copy.complete or not answer.get("stored")):
            peer.copy = None

    def _PeerRefuses(self, peer: Peer, refusal: Refusal, now: float) -> None:
        if refusal.IsLate(self._epoch):
            peer.Failed(now, "its answer came late")
            return
        name = peer.member.name
        peer.Failed(now, refusal.Reason(name))
        peer.follows_other = True
        asked = self._steps.AskedFor(peer.member.uuid)
        if self._judge.EndsUs(refusal, joining=peer.leaving or (peer.learner and bool(asked))):
            self._End(MasterLost(refusal.epoch, refusal.master, sent=True))
            return
        # Whether a quorum still follows us is looked at again with the next refusal.
        self._sender.Ask(self._acked, self._pruned)
        for step in asked:
            self._steps.Drop(step)
            step.done(FollowsOther(refusal, name))

    # Counting

    def _Count(self) -> None:
        """Finds what a quorum of the set in force holds, and publishes it."""
        acked = self._QuorumSeq(self._voters)
        if acked <= self._acked.seq or not self._pending or acked < self._pending[0].transaction.position.seq:
            return
        while self._pending and self._pending[0].transaction.position.seq <= acked:
            self._Publish(self._pending.pop(0))
        self._tell_from = runtime.Monotonic() + ACK_WITHIN

    def _QuorumSeq(self, voters: VoterSet) -> int:
        """The highest seq that a quorum of the set holds."""
        seqs = sorted((self._HeldBy(voter) for voter in voters.by_uuid.values()), reverse=True)
        return seqs[voters.quorum - 1]

    def _HeldBy(self, voter: Voter) -> int:
        """The seq up to which a voter holds transactions of this epoch (rule 2)."""
        if voter.member.uuid == self._me.uuid:
            return self._line.last.seq
        return ConfirmedSeq(self._sender.peers.get(voter.member.uuid), voter.store_id, self._epoch)

    def _Publish(self, pending: Pending) -> None:
        transaction = pending.transaction
        self._acked = transaction.position
        if not pending.first:
            self._published.Take(transaction.rows)
        if pending.before is not None and pending.after is not None:
            self._steps.Left(pending.before, self._voters)
        self._NoteArchived(transaction)
        for entry in pending.entries:
            try:
                entry.change.Publish()
            except Exception:
                logging.exception("An acknowledged change could not be shown to readers")
        for listener in self._listeners:
            listener(transaction.position, transaction.rows)
        for entry in pending.entries:
            entry.Tell(None)
        if pending.first:
            self._ready.set()

    # Beginning transactions

    def _Begin(self) -> None:
        """Begins what can begin; goes on as long as the master alone is a quorum."""
        self._BeginStep()
        while not self._pending and self._ended is None:
            entries = self._waiting[:_MAX_BATCH]
            extra = self._Keeping()
            if not entries and not extra:
                return
            reach, silent = self._Reach(self._voters)
            if reach < self._voters.quorum:
                self._Refuse(NoQuorum(silent, len(self._voters)))
                return
            del self._waiting[: len(entries)]
            self._Transact(entries, extra)

    def _BeginStep(self) -> None:
        for step, after in self._steps.Ready(self._voters):
            if not self._MayBecome(after) or (after == self._voters and self._pending):
                continue
            reach, silent = self._Reach(after)
            refusal = CheckReach(after, reach, silent)
            if refusal is None:
                self._TakeStep(step, after)
                return
            if not step.own_affair and not step.patient:
                self._steps.Drop(step)
                step.done(refusal)

    def _TakeStep(self, step: VoterStep, after: VoterSet) -> None:
        self._steps.waiting.remove(step)
        before = self._voters
        extra = [] if after == before else [after.Row()]
        self._Transact([Entry(step.change, step.done, step.own_affair or step.patient)], extra, before, after)
        if step.add is not None and step.uuid not in self._voters:
            self._steps.GiveUp(step)

    def _MayBecome(self, after: VoterSet) -> bool:
        """Rule 4: the next change waits for the last one; only going back to the set before is allowed earlier."""
        if self._acked is NOWHERE:
            return False
        changing = [pending for pending in self._pending if pending.before is not None]
        return not changing or (len(changing) == 1 and changing[0].before == after)

    def _Transact(
        self, entries: list[Entry], extra: Sequence[Row], before: VoterSet | None = None, after: VoterSet | None = None
    ) -> None:
        """Makes one transaction of the changes: own copy first."""
        prepared, rows = self._PrepareAll(entries)
        if before is not None and not prepared:
            return
        rows.update(((row.kind, row.id), row) for row in extra)
        if not rows:
            for entry in prepared:
                entry.change.Publish()
                entry.Tell(None)
            return
        last = self._line.last
        try:
            self._Prune()
            position = self._own.Store(self._epoch, list(rows.values()), self._acked, self._pruned)
        except EpochTooOld as err:
            self._TakeBack(prepared, MasterLost(str(err.newer), err.master, sent=False))
            raise
        except (OSError, errors.StorageError) as err:
            self._OwnDiskFailed(prepared, err)
            return
        transaction = Transaction(position, last, list(rows.values()))
        self._line = self._line.With(position)
        self._sender.recent[last] = transaction
        while len(self._sender.recent) > 4:
            del self._sender.recent[next(iter(self._sender.recent))]
        self._deleted += [position.seq for row in transaction.rows if row.value is None]
        pending = Pending(transaction, prepared, runtime.Monotonic())
        if before is not None and after is not None and after != before:
            pending.before, pending.after = before, after
            self._voters = after
            self._steps.Entered(after)
        self._pending.append(pending)
        if len(self._voters) == 1:
            self._Count()

    def _PrepareAll(self, entries: list[Entry]) -> tuple[list[Entry], dict[tuple[str, str], Row]]:
        """The changes that go into one transaction, and its rows; what is too much for it waits for the next."""
        rows: dict[tuple[str, str], Row] = {}
        prepared: list[Entry] = []
        size = 0
        for index, entry in enumerate(entries):
            try:
                made = entry.change.Prepare()
            except Exception as err:  # noqa: BLE001 - this change alone fails
                entry.Tell(err)
                continue
            own = sum(len(row.value) for row in made if row.value is not None)
            if own > MAX_TRANSACTION:
                self._TakeBack([entry], TooLarge(own))
                continue
            if prepared and size + own > MAX_APPEND:
                entry.change.Withdraw()
                self._waiting[:0] = entries[index:]
                break
            size += own
            prepared.append(entry)
            rows.update(((row.kind, row.id), row) for row in made)
        return prepared, rows

    def _TakeBack(self, prepared: list[Entry], error: StoreError) -> None:
        for entry in reversed(prepared):
            try:
                entry.change.Withdraw()
            except Exception:
                logging.exception("A refused change could not be taken back")
        for entry in prepared:
            entry.Tell(error)

    def _OwnDiskFailed(self, prepared: list[Entry], err: OSError | errors.StorageError) -> None:
        """A full disk refuses cleanly; after any other error nobody can tell what is on it, and this master ends."""
        full = isinstance(err, OSError) and err.errno in _FULL
        if full and self._own.GetState().last == self._line.last:
            logging.error("The master's own disk refused a change: %s", err)
            self._TakeBack(prepared, DiskRefused(err))
            return
        error = StoreEnded(
            f"not known: the master's own database failed ({err}); this master stops",
            hint="look at the disk of the data directory, then start the master daemon again",
        )
        self._TakeBack(prepared, error)
        self._End(error)

    def _Refuse(self, error: NoQuorum) -> None:
        """Tells all who are not patient; the patient ones go on waiting."""
        refused = [entry for entry in self._waiting if not entry.patient]
        self._waiting = [entry for entry in self._waiting if entry.patient]
        for entry in refused:
            entry.Tell(error)

    # Silence

    def _Reach(self, voters: VoterSet) -> tuple[int, dict[str, SilentNode]]:
        """How many of a set answer, the master included, and those that do not, by name."""
        silent = {}
        for uuid, voter in voters.by_uuid.items():
            peer = self._sender.peers.get(uuid)
            name = voter.member.name
            if uuid == self._me.uuid:
                continue
            if peer is None:
                silent[name] = SilentNode(name, Failure.NOT_SENT, "")
            elif peer.unfit:
                silent[name] = SilentNode(name, Failure.SILENT, peer.unfit)
            elif peer.silent:
                silent[name] = SilentNode(name, peer.failure, peer.last_error)
        return len(voters) - len(silent), silent

    def _NotKnown(self) -> NotKnown:
        position = self._pending[0].transaction.position if self._pending else self._line.last
        stored = sum(self._HeldBy(voter) >= position.seq for voter in self._voters.by_uuid.values())
        return NotKnown(stored, len(self._voters), self._Reach(self._voters)[1])

    def _Judge(self) -> None:
        """Answers clients whose transaction has no quorum in sight (rule 7)."""
        if not self._pending or runtime.Monotonic() < self._pending[0].began + STUCK_AFTER:
            return
        reach, silent = self._Reach(self._voters)
        if reach >= self._voters.quorum:
            return
        told = self._NotKnown()
        for pending in self._pending:
            for entry in pending.entries:
                if not entry.patient:
                    entry.Tell(told)
        self._Refuse(NoQuorum(silent, len(self._voters)))

    # Sending

    def _Tell(self) -> None:
        """Gives every peer its work, and says what is acknowledged when nothing else does."""
        if self._stopping is not None and not self._pending:
            self._tell_from = 0.0
        if self._own_told < self._acked and runtime.Monotonic() >= self._tell_from:
            self._Prune()
            try:
                self._own.Acknowledge(self._epoch, self._acked, self._pruned)
            except (OSError, errors.StorageError) as err:
                logging.error("The master's own disk is not well: %s", err)
                self._tell_from = runtime.Monotonic() + RETRY_SECONDS
            else:
                self._own_told = self._acked
        self._sender.Drive(self._line, self._acked, self._pruned, self._tell_from)

    def _Prune(self) -> None:
        """Raises the seq up to which every voter has all deletions (rule 3)."""
        if not self._deleted:
            return
        everywhere = min(self._acked.seq, self._EverywhereSeq())
        if self._deleted[0] <= everywhere:
            self._pruned = everywhere
            self._deleted = [seq for seq in self._deleted if seq > everywhere]

    def _EverywhereSeq(self) -> int:
        """The seq that every voter holds, and every node that is being copied to become one."""
        now = runtime.Monotonic()
        learning = [LearnerNeeds(peer, self._line, now) for peer in self._sender.peers.values()]
        return min(
            *(self._HeldBy(voter) for voter in self._voters.by_uuid.values()),
            *(seq for seq in learning if seq is not None),
            self._line.last.seq,
        )

    # House-keeping

    def _NoteArchived(self, transaction: Transaction) -> None:
        for row in transaction.rows:
            if row.kind == KIND_ARCHIVED:
                if row.value is None:
                    self._archived.pop(row.id, None)
                else:
                    self._archived[row.id] = transaction.position.seq

    def _Keeping(self) -> list[Row]:
        """Now and then: rows of archived jobs whose files every voter has synced go (rule 10).

        Also looks whether this is still the master as far as its own node knows.
        """
        now = runtime.Monotonic()
        if now < self._keeping_at:
            return []
        self._keeping_at = now + KEEPING_SECONDS
        state = self._own.GetState()
        if state.promised != self._epoch:
            # Nobody had to tell us: this very node has promised a newer epoch.
            raise EpochTooOld(state.promised, state.promised_master)
        if not self._archived:
            return []
        synced = self._exported
        for uuid in self._voters.by_uuid:
            peer = self._sender.peers.get(uuid)
            if uuid != self._me.uuid:
                synced = min(synced, peer.exported if peer is not None and not peer.unfit else 0)
        gone = [Row(KIND_ARCHIVED, row_id, None) for row_id, seq in self._archived.items() if seq <= synced]
        if not gone:
            self._sender.Ask(self._acked, self._pruned)
        return gone

    # Ending

    def _CheckStop(self) -> None:
        if self._stopping is None or self._pending or self._waiting:
            return
        # The last word of this master: everything is acknowledged.
        if any(self._MustHear(peer) for peer in self._sender.peers.values()):
            return
        self._End(StoreEnded("this master has stopped"))

    def _MustHear(self, peer: Peer) -> bool:
        """Whether a node that is up to date does not know yet that all it holds is acknowledged."""
        if peer.silent or peer.unfit or peer.learner or peer.leaving or peer.copy is not None:
            return False
        return peer.busy or (peer.confirmed == self._line.last and peer.told < self._acked)

    def _End(self, error: StoreError) -> None:
        """This master ends: nothing is acknowledged any more, everybody hears it."""
        if self._ended is not None:
            return
        self._ended = error
        self._ready.set()
        if self._serving is not None:
            self._serving.release()
        lost = isinstance(error, MasterLost)
        for pending in self._pending:
            for entry in pending.entries:
                if isinstance(error, MasterLost):
                    entry.Tell(MasterLost(error.epoch, error.master, sent=True))
                else:
                    entry.Tell(error if entry.patient else self._NotKnown())
        self._AnswerLeftovers()
        stopping, self._stopping = self._stopping, None
        if stopping is not None:
            stopping(None if not lost and not self._pending else error)
        elif self._tell_lost is not None:
            self._tell_lost(error)

    def _AnswerLeftovers(self) -> None:
        """Everything that was not begun."""
        error = self._ended
        assert error is not None
        if isinstance(error, MasterLost):
            error = MasterLost(error.epoch, error.master, sent=False)
        with self._leftovers:
            self._AnswerAll(error)

    def _AnswerAll(self, error: StoreError) -> None:
        waiting, self._waiting = self._waiting, []
        steps, self._steps.waiting = self._steps.waiting, []
        while True:
            try:
                kind, value = self._events.get(0)
            except runtime.QueueEmpty:
                break
            if kind == "change":
                waiting.append(value)
            elif kind == "step":
                steps.append(value)
            elif kind == "stop":
                value(error)
        for entry in waiting:
            entry.Tell(error)
        for step in steps:
            step.done(error)
