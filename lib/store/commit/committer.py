"""One thread that makes changes durable at a quorum (rules 1, 2 and 7).

::

    events --> take all --> count --> what a quorum holds: Publish, answer
      ^                       |
      |                       v
    answers <-- voters <-- own copy first, then append <-- Prepare <-- changes that wait
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.metrics import Histogram
from ganeti.store.base import (
    NO_EPOCH,
    NOWHERE,
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
    VoterSet,
)
from ganeti.store.commit import events
from ganeti.store.commit.peers import ACK_WITHIN, RETRY_SECONDS, Peer, Sender, Transaction
from ganeti.store.commit.pending import Batch, Done, Entry, Pending, Publish
from ganeti.store.commit.tally import Tally
from ganeti.store.commit.voters import CheckReach, VoterStep, VoterSteps
from ganeti.store.files.archived import ArchivedRows
from ganeti.store.refusal import FollowsOther, Refusal, RefusalJudge
from ganeti.utils.trouble import Trouble

if TYPE_CHECKING:
    from ganeti.rpc.runner import RpcResult, RpcRunner
    from ganeti.runtime import protocols
    from ganeti.store.copy.image import Image
    from ganeti.store.copy.node import NodeStore

STUCK_AFTER = 5.0
"""Seconds after which the clients of a transaction without a quorum are answered that its end is not known."""

GATHER_SECONDS = 0.001
"""For which changes that are in no hurry wait for others: a transaction costs the same with one change as with ten."""

KEEPING_SECONDS = 5.0
_MAX_BATCH = 500
_FULL = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG])

Candidates = Callable[[], Iterable[Member] | None]
Lost = Callable[[StoreError], None]
Listener = Callable[[Position, Sequence[Row]], None]


class Committer:
    """The work of the acting master, all on one thread; ``Put`` is for every thread.

    Other threads may look at ``tally``, ``published``, ``ended`` and what says how things are, and change nothing.
    """

    sender_class: type[Sender] = Sender
    tally_class: type[Tally] = Tally

    def __init__(
        self,
        own: NodeStore,
        me: Member,
        epoch: Epoch,
        image: Image,
        runner: RpcRunner,
        place: Callable[[Member], None],
        lost: Lost | None,
        candidates: Candidates | None,
    ):
        state, line = own.GetState(), own.GetLine()
        if state.last.epoch != epoch:
            raise errors.ProgrammerError("the store begins with a transaction of its own epoch")
        self._own = own
        self._me = me
        self._epoch = epoch
        self._tell_lost = lost
        self._events = runtime.Queue()
        self._sender = self.sender_class(own, state.cluster, epoch, runner.Start, self._OnAnswer)
        self.peers = self._sender.peers
        self._steps = VoterSteps(self._sender, me, candidates, place)
        self.tally = self.tally_class(
            me.uuid, epoch, self.peers, line, own.GetVoters(), state.pruned, image.Deletions()
        )
        self.judge = RefusalJudge(
            runner,
            self._sender.Common(),
            lambda: (self.tally.line, self.tally.acked),
            self.tally.IsVoter,
            self.tally.HasQuorum,
            lambda: self.Put(events.LookAsked()),
            lambda refusal: self.Put(events.Overtaken(str(refusal.epoch), refusal.master)),
        )
        self.published = RowsByKind(image.values)
        self.archived = ArchivedRows(image)
        self.listeners: list[Listener] = []
        self.durations = Histogram()
        self.ready = runtime.Event()
        self.ended: StoreError | None = None
        self.serving: protocols.FileLock | None = None
        self.thread = runtime.Thread(self._Run, "committer")
        self._waiting: list[Entry] = []
        self._pending: list[Pending] = []
        self._stopping: Done | None = None
        self._leftovers = runtime.Lock()
        # When the mere news of what is acknowledged is sent, and what the own database knows of it.
        self._tell_from = 0.0
        self._own_told = NOWHERE
        self._keeping_at = 0.0
        self._own_at = 0.0
        self._looked_at: float | None = None
        self._gather_until = 0.0
        self._disk = Trouble("The master's own disk takes no change")
        for voter in self.tally.voters.by_uuid.values():
            place(voter.member)
            if voter.member.uuid != me.uuid:
                self.peers[voter.member.uuid] = Peer(voter.member, store_id=voter.store_id)
        self._TakeFirst(image)

    def _TakeFirst(self, image: Image) -> None:
        """Take the transaction that the own copy begins its epoch with as one under way."""
        line = self.tally.line
        seq = line.last.seq
        before = Position(line.EpochAt(seq - 1) or NO_EPOCH, seq - 1)
        rows = [
            Row(kind, row_id, image.values[kind].get(row_id))
            for kind, seqs in image.seqs.items()
            for row_id, written in seqs.items()
            if written == seq
        ]
        first = Transaction(line.last, before, rows)
        self._sender.Keep(first)
        self._pending.append(Pending(first, [], runtime.Monotonic(), first=True))

    # How things are, for every thread

    def IsSettled(self) -> bool:
        """Return whether every voter holds and knows everything, and nothing else can be done for any node.

        A node that left and follows another master keeps its rows until a new epoch of this one is above that.
        """
        peers = [peer for peer in self.peers.values() if not (peer.leaving and peer.follows_other)]
        acked = self.tally.acked
        return (
            not (self._pending or self._waiting or self._steps.waiting or self._events.qsize())
            and self._own_told == acked == self.tally.line.last
            and all(p.confirmed == p.told == acked and not (p.busy or p.learner or p.leaving) for p in peers)
            and len(peers) == len(self.tally.voters) - 1
        )

    def Helpers(self) -> list[Member]:
        """Return the other voters that answer."""
        found = ((voter.member, self.peers.get(uuid)) for uuid, voter in self.tally.voters.by_uuid.items())
        return [member for member, peer in found if peer is not None and peer.known and not peer.silent]

    def NotKnown(self) -> NotKnown:
        """Return the answer for what is under way."""
        position = self._pending[0].transaction.position if self._pending else self.tally.line.last
        return self.tally.NotKnown(position)

    # Events

    def Put(self, event: events.Event) -> None:
        """Hand over what happened; a change after the end is answered at once."""
        self._events.put(event)
        if self.ended is not None:
            self._AnswerLeftovers()

    def _OnAnswer(self, kind: str, peer: Peer, result: RpcResult) -> None:
        self._events.put(events.Answered(kind, peer, result))

    def _Run(self) -> None:
        try:
            while self.ended is None:
                self._CheckWhileWaiting()
                self._Count()
                self._steps.Look(self.tally.voters, bool(self._pending))
                self._Begin()
                self._AnswerStuck()
                self._Tell()
                self._CheckStop()
                if self.ended is None:
                    self._Take(self._Timeout())
        except EpochTooOld as err:
            self._End(MasterLost(str(err.newer), err.master, sent=True))
        except Exception as err:
            logging.exception("The committer ended by an error")
            self._End(StoreEnded(f"the store of this master ended by an error ({err}); what is under way is not known"))
        self._AnswerLeftovers()

    def _Timeout(self) -> float:
        """Return for how long nothing has to be done unless something comes."""
        now = runtime.Monotonic()
        acked = self.tally.acked
        times = [self._steps.Deadline()]
        peers = [peer for peer in self.peers.values() if not peer.busy and not peer.unfit]
        times += [peer.retry_at for peer in peers if peer.retry_at > now]
        if self._tell_from > now and (self._own_told < acked or any(p.told < acked for p in peers)):
            times.append(self._tell_from)
        if not self._pending:
            times.append(self._keeping_at)
            if self._waiting and self._gather_until > now:
                times.append(self._gather_until)
        else:
            times.append(self._NextLook())
            if self._pending[0].began + STUCK_AFTER > now:
                times.append(self._pending[0].began + STUCK_AFTER)
        return max(0.0, min(times) - now)

    def _Take(self, timeout: float) -> None:
        """Wait for events and take all there are."""
        try:
            event = self._events.get(timeout)
        except runtime.QueueEmpty:
            return
        while True:
            self._Handle(event)
            if self.ended is not None:
                return
            try:
                event = self._events.get(0)
            except runtime.QueueEmpty:
                return

    def _Handle(self, event: events.Event) -> None:
        match event:
            case events.Answered(kind=kind, peer=peer, result=result):
                self._HandleAnswer(kind, peer, result)
            case events.ChangeAsked(entry=entry):
                if self._stopping is None:
                    if entry.change.leisurely and not self._waiting:
                        self._gather_until = runtime.Monotonic() + GATHER_SECONDS
                    self._waiting.append(entry)
                else:
                    entry.Tell(StoreEnded("this master is stopping: nothing was changed"))
            case events.StepAsked(step=step):
                self._steps.Add(step)
            case events.EmptyAsked(member=member, store_id=store_id):
                if member.uuid not in self.tally.voters and member.uuid not in self.peers:
                    self._steps.Empty(member, store_id)
            case events.LookAsked():
                self._sender.Ask(self.tally.acked, self.tally.pruned)
            case events.Overtaken(epoch=epoch, master=master):
                self._End(MasterLost(epoch, master, sent=True))
            case events.StopAsked(done=done):
                self._stopping = done
            case events.EndAsked():
                self._End(StoreEnded("this master has stopped"))

    def _HandleAnswer(self, kind: str, peer: Peer, result: RpcResult) -> None:
        uuid = peer.member.uuid
        if self.peers.get(uuid) is not peer:
            # It was asked in a role (voter, learner, leaving) that it no longer has: its answer may be an old one.
            return
        now = runtime.Monotonic()
        if result.fail_msg is not None:
            peer.Failed(now, result.fail_msg, result.failure)
            return
        answer: Any = result.payload
        if not isinstance(answer, dict):
            peer.Failed(now, "its answer makes no sense")
            return
        if "refused" in answer:
            self._HandleRefusal(peer, Refusal.Parse(answer), now)
            return
        try:
            store, last = str(answer["store"]), Position.Parse(answer["last"])
            exported = int(answer.get("exported", 0))
        except (KeyError, TypeError, ValueError, errors.ParseError):
            peer.Failed(now, "its answer makes no sense")
            return
        if kind == "store_empty" and peer.leaving:
            # Its rows go at once, but into a file in steps: it is asked until all are there.
            peer.Heard()
            if answer.get("stored"):
                logging.info("Node %s is no longer a voter; its copy was emptied", peer.member.name)
                del self.peers[uuid]
            return
        if kind in ("store_append", "store_catchup") and not answer.get("stored") and peer.HasSaid(store, last):
            # It was sent just what follows its last, and did not take it: not again at once.
            peer.Failed(now, "it does not store what it is sent")
            return
        peer.Answered(store, last, exported, self._epoch)
        if peer.copy is not None and (peer.copy.complete or not answer.get("stored")):
            peer.copy = None

    def _HandleRefusal(self, peer: Peer, refusal: Refusal, now: float) -> None:
        if refusal.IsLate(self._epoch):
            peer.Failed(now, "its answer came late")
            return
        name = peer.member.name
        peer.Failed(now, refusal.Reason(name))
        peer.follows_other = True
        asked = self._steps.AskedFor(peer.member.uuid)
        if self.judge.EndsUs(refusal, peer.member.uuid, joining=False):
            self._End(MasterLost(str(refusal.epoch), refusal.master, sent=True))
            return
        # Whether a quorum still follows us is looked at again with the next refusal.
        self._sender.Ask(self.tally.acked, self.tally.pruned)
        for step in asked:
            self._steps.Drop(step)
            step.done(FollowsOther(refusal, name))

    # Counting

    def _Count(self) -> None:
        """Find what a quorum of the set in force holds, and publish it."""
        acked = self.tally.QuorumSeq()
        if not self._pending or acked < self._pending[0].transaction.position.seq:
            return
        started = []
        while self._pending and self._pending[0].transaction.position.seq <= acked:
            started.append(self._pending[0].started)
            self._Publish(self._pending.pop(0))
        now = runtime.Monotonic()
        for moment in started:
            if moment is not None:
                self.durations.Observe(now - moment)
        self._tell_from = now + ACK_WITHIN
        # Whoever was answered just now may come back with more.
        self._gather_until = now + GATHER_SECONDS

    def _Publish(self, pending: Pending) -> None:
        transaction = pending.transaction
        self.tally.acked = transaction.position
        if not pending.first:
            self.published.Take(transaction.rows)
        if pending.before is not None and pending.after is not None:
            self._steps.Left(pending.before, self.tally.voters)
        self.archived.Note(transaction)
        for entry in pending.entries:
            Publish(entry)
        for listener in self.listeners:
            listener(transaction.position, transaction.rows)
        for entry in pending.entries:
            entry.Tell(None)
        if pending.first:
            self.ready.set()

    # Beginning transactions

    def _Begin(self) -> None:
        """Begin what can begin; continue as long as the master alone is a quorum."""
        self._BeginStep()
        while not self._pending and self.ended is None and not self._Gathers():
            entries = self._waiting[:_MAX_BATCH]
            extra = self._Keeping()
            if not entries and not extra:
                return
            voters = self.tally.voters
            reach, silent = self.tally.Reach(voters)
            if reach < voters.quorum:
                self._Refuse(NoQuorum(silent, len(voters)))
                return
            del self._waiting[: len(entries)]
            self._Transact(entries, extra)

    def _Gathers(self) -> bool:
        """Whether nothing that waits is in a hurry, and others may still come to share its transaction."""
        if not self._waiting or not all(entry.change.leisurely for entry in self._waiting):
            return False
        return self._stopping is None and runtime.Monotonic() < self._gather_until

    def _BeginStep(self) -> None:
        voters = self.tally.voters
        for step, after in self._steps.Ready(voters):
            if not self._MayBecome(after) or (after == voters and self._pending):
                continue
            refusal = CheckReach(self.tally, after)
            if refusal is None:
                self._TakeStep(step, after)
                return
            if not step.own_affair and not step.patient:
                self._steps.Drop(step)
                step.done(refusal)

    def _TakeStep(self, step: VoterStep, after: VoterSet) -> None:
        self._steps.waiting.remove(step)
        extra = [] if after == self.tally.voters else [after.Row()]
        self._Transact([Entry(step.change, step.done, step.own_affair or step.patient)], extra, after)
        if step.add is not None and step.uuid not in self.tally.voters:
            self._steps.GiveUp(step)

    def _MayBecome(self, after: VoterSet) -> bool:
        """Return whether the set may change (rule 4): a change waits for the last one, unless it undoes that one."""
        if self.tally.acked is NOWHERE:
            return False
        changing = [pending for pending in self._pending if pending.before is not None]
        return not changing or (len(changing) == 1 and changing[0].before == after)

    def _Transact(self, entries: list[Entry], extra: Sequence[Row], after: VoterSet | None = None) -> None:
        """Make one transaction of the changes, own copy first.  ``after``: the set that it makes the one in force."""
        batch = Batch(entries, extra)
        self._waiting[:0] = batch.rest
        if after is not None and not batch.entries:
            return
        if not batch.rows:
            batch.Publish()
            return
        tally = self.tally
        before, last = tally.voters, tally.line.last
        try:
            tally.Prune()
            position = self._own.Store(self._epoch, batch.rows, tally.acked, tally.pruned)
        except EpochTooOld as err:
            batch.TakeBack(MasterLost(str(err.newer), err.master, sent=False))
            raise
        except (OSError, errors.StorageError) as err:
            self._OwnDiskFailed(batch, err)
            return
        transaction = Transaction(position, last, batch.rows)
        tally.Began(position, any(row.value is None for row in transaction.rows))
        self._sender.Keep(transaction)
        pending = Pending(transaction, batch.entries, runtime.Monotonic(), started=self._looked_at)
        if after is not None and after != before:
            pending.before, pending.after = before, after
            tally.voters = after
            self._steps.Entered(after)
        self._pending.append(pending)
        if len(tally.voters) == 1:
            self._Count()

    def _OwnDiskFailed(self, batch: Batch, err: OSError | errors.StorageError) -> None:
        """Refuse the batch where the disk was full; after any other error nobody can tell what is on it, and this master ends."""
        full = isinstance(err, OSError) and err.errno in _FULL
        if full and self._own.GetState().last == self.tally.line.last:
            self._disk.Log(err)
            batch.TakeBack(DiskRefused(err))
            return
        error = StoreEnded(
            f"not known: the master's own database failed ({err}); this master stops",
            hint="look at the disk of the data directory, then start the master daemon again",
        )
        batch.TakeBack(error)
        self._End(error)

    # Standstill

    def _Refuse(self, error: NoQuorum) -> None:
        """Answer all who are not patient; the patient ones keep waiting."""
        refused = [entry for entry in self._waiting if not entry.patient]
        self._waiting = [entry for entry in self._waiting if entry.patient]
        for entry in refused:
            entry.Tell(error)

    def _AnswerStuck(self) -> None:
        """Answer clients whose transaction has no quorum in sight (rule 7)."""
        if not self._pending or runtime.Monotonic() < self._pending[0].began + STUCK_AFTER:
            return
        voters = self.tally.voters
        reach, silent = self.tally.Reach(voters)
        if reach >= voters.quorum:
            return
        answer = self.NotKnown()
        for pending in self._pending:
            for entry in pending.entries:
                if not entry.patient:
                    entry.Tell(answer)
        self._Refuse(NoQuorum(silent, len(voters)))

    # Sending

    def _Tell(self) -> None:
        """Give every peer its work, and say what is acknowledged when nothing else does."""
        tally = self.tally
        if self._stopping is not None and not self._pending:
            self._tell_from = 0.0
        if self._own_told < tally.acked and runtime.Monotonic() >= self._tell_from:
            tally.Prune()
            try:
                self._own.Acknowledge(self._epoch, tally.acked, tally.pruned)
            except (OSError, errors.StorageError) as err:
                self._disk.Log(err)
                self._tell_from = runtime.Monotonic() + RETRY_SECONDS
            else:
                self._disk.Over()
                self._own_told = tally.acked
        self._sender.Drive(tally.line, tally.acked, tally.pruned, self._tell_from)

    # House-keeping

    def _CheckOwnPromise(self) -> None:
        """Look whether this is still the master as far as its own node knows; else raise EpochTooOld.

        Nobody else has to say so: to a node that is no candidate any more others may not even talk.
        """
        state = self._own.GetState()
        if state.promised != self._epoch:
            raise EpochTooOld(state.promised, state.promised_master)

    def _NextLook(self) -> float:
        """Return when to look at the own node's promise while a transaction waits for a quorum."""
        return max(self._own_at, self._pending[0].began + KEEPING_SECONDS)

    def _CheckWhileWaiting(self) -> None:
        """Look at the own node's promise while a transaction waits; what is kept otherwise does not come to it then."""
        now = runtime.Monotonic()
        if self._pending and now >= self._NextLook():
            self._own_at = now + KEEPING_SECONDS
            self._CheckOwnPromise()

    def _Keeping(self) -> list[Row]:
        """Return the deletions of archived rows whose files every voter has synced (rule 10); looks only now and then.

        Also looks whether this is still the master.
        """
        now = self._looked_at = runtime.Monotonic()
        if now < self._keeping_at:
            return []
        self._keeping_at = now + KEEPING_SECONDS
        self._CheckOwnPromise()
        if not self.archived:
            return []
        gone = self.archived.Synced((uuid for uuid in self.tally.voters.by_uuid if uuid != self._me.uuid), self.peers)
        if not gone:
            self._sender.Ask(self.tally.acked, self.tally.pruned)
        return gone

    # Ending

    def _CheckStop(self) -> None:
        if self._stopping is None or self._pending or self._waiting:
            return
        # The last word of this master: everything is acknowledged.
        if any(self._MustHear(peer) for peer in self.peers.values()):
            return
        self._End(StoreEnded("this master has stopped"))

    def _MustHear(self, peer: Peer) -> bool:
        """Return whether a node that is up to date does not know yet that all it holds is acknowledged."""
        if peer.silent or peer.unfit or peer.learner or peer.leaving or peer.copy is not None:
            return False
        return peer.busy or (peer.confirmed == self.tally.line.last and peer.told < self.tally.acked)

    def _End(self, error: StoreError) -> None:
        """End this master: nothing is acknowledged after this, everybody gets an answer."""
        if self.ended is not None:
            return
        self.ended = error
        self.ready.set()
        if self.serving is not None:
            self.serving.release()
        lost = isinstance(error, MasterLost)
        for pending in self._pending:
            for entry in pending.entries:
                if isinstance(error, MasterLost):
                    entry.Tell(MasterLost(error.epoch, error.master, sent=True))
                else:
                    entry.Tell(error if entry.patient else self.NotKnown())
        self._AnswerLeftovers()
        stopping, self._stopping = self._stopping, None
        if stopping is not None:
            stopping(None if not lost and not self._pending else error)
        elif self._tell_lost is not None:
            self._tell_lost(error)

    def _AnswerLeftovers(self) -> None:
        """Answer everything that was not begun."""
        error = self.ended
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
                event = self._events.get(0)
            except runtime.QueueEmpty:
                break
            match event:
                case events.ChangeAsked(entry=entry):
                    waiting.append(entry)
                case events.StepAsked(step=step):
                    steps.append(step)
                case events.StopAsked(done=done):
                    done(error)
        for entry in waiting:
            entry.Tell(error)
        for step in steps:
            step.done(error)
