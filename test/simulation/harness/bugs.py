"""Bugs planted on purpose, each one method of one class: the simulation must find every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from simulation.harness.cluster import Parts

from ganeti.rpc.procedures import Procedure
from ganeti.store import Epoch, NodeStore, Position, Row, Store, Voter, VoterSet, election
from ganeti.store.base import Line, StoredRow
from ganeti.store.commit.committer import Committer
from ganeti.store.commit.peers import Copy, Sender
from ganeti.store.commit.tally import Tally
from ganeti.store.copy.database import Database, State


def _With(made_of: type[Committer]) -> type[election.Election]:
    """An election whose winner's committer is another."""
    store = type("_Store", (Store,), {"committer_class": made_of})
    return type("_Election", (election.Election,), {"store_class": store})


class _EarlyTally(Tally):
    def QuorumSeq(self) -> int:
        return self.line.last.seq


class _EarlyCommitter(Committer):
    tally_class = _EarlyTally


class EarlyAcknowledgement(Parts):
    """The client is answered when only the master has the change."""

    election = _With(_EarlyCommitter)


class _OldEpochTally(Tally):
    def HeldBy(self, voter: Voter) -> int:
        peer = self._peers.get(voter.member.uuid)
        return self.line.last.seq if peer is None else peer.confirmed.seq


class _OldEpochCommitter(Committer):
    tally_class = _OldEpochTally


class OldEpochCounted(Parts):
    """A copy that ends at the same seq counts, whichever epoch wrote it."""

    election = _With(_OldEpochCommitter)


class _NoCheckNode(NodeStore):
    def Promise(self, cluster: str, epoch: Epoch, master: str) -> State:
        state = self.database.GetState()
        return state if epoch < state.promised else super().Promise(cluster, epoch, master)

    @contextmanager
    def Writing(self, epoch: Epoch) -> Iterator[tuple[Database, State]]:
        del epoch
        with self.database.Transaction() as database:
            yield database, database.GetState()


class NoEpochCheck(Parts):
    """A node takes what an older master sends."""

    node_store = _NoCheckNode


class _ForgetfulNode(NodeStore):
    def _Follows(self, state: State, before: Position) -> bool:
        del state, before
        return True

    def _Has(self, state: State, position: Position) -> bool:
        del state, position
        return False


class ReplayedTransaction(Parts):
    """A call that comes late or twice is carried out again."""

    node_store = _ForgetfulNode


class _HastySender(Sender):
    def _Reaches(self, copy: Copy, pruned: int) -> bool:
        del copy, pruned
        return True

    def _MayCatchUp(self, last: Position, line: Line, pruned: int) -> bool:
        del pruned
        return bool(last.seq) and line.Holds(last)


class _HastyTally(Tally):
    def EverywhereSeq(self) -> int:
        return self.acked.seq


class _HastyCommitter(Committer):
    sender_class = _HastySender
    tally_class = _HastyTally


class LostDeletion(Parts):
    """Deletions are dropped before everybody has them, and nobody looks whether they were."""

    election = _With(_HastyCommitter)


class _OwnSetElection(election.Election):
    def SetOf(self, newest: election.Heard) -> VoterSet:
        del newest
        return self.answers[self._me.uuid].voters


class OldVoterSet(Parts):
    """The set of the own copy counts, not the one written in the newest history."""

    election = _OwnSetElection


class _OwnHistoryElection(election.Election):
    def Newest(self) -> election.Heard:
        return self.answers[self._me.uuid]


class OwnHistoryTaken(Parts):
    """The new master goes on from its own copy, newest or not."""

    election = _OwnHistoryElection


class _MergingNode(NodeStore):
    def _Replace(self, database: Database, state: State, line: Line | None) -> State:
        del line
        database.MergeAside()
        return state


class DivergentRowsKept(Parts):
    """A full copy leaves what was there before."""

    node_store = _MergingNode


class _PrunedAsSourceNode(NodeStore):
    def Adopt(
        self,
        epoch: Epoch,
        fetched: Sequence[StoredRow] | None,
        line: Line,
        pruned: int,
        partial: bool,
        first: Sequence[Row],
    ) -> Position:
        position = super().Adopt(epoch, fetched, line, pruned, partial, first)
        if fetched is not None and partial:
            with self.Writing(epoch) as (database, state):
                database.PutState(state.With(pruned=pruned))
        return position


class PruningForgotten(Parts):
    """A new master that fetched a part of the history takes over how far its source had pruned."""

    node_store = _PrunedAsSourceNode


class _LongestElection(election.Election):
    def Newest(self) -> election.Heard:
        return max(self.answers.values(), key=lambda heard: heard.last.seq)


class LongestTaken(Parts):
    """The longest history is adopted, not the one of the newest epoch."""

    election = _LongestElection


class _StackingCommitter(Committer):
    def _MayBecome(self, after: VoterSet) -> bool:
        del after
        return True


class VotersStacked(Parts):
    """The voters are changed again before the last change of them is acknowledged."""

    election = _With(_StackingCommitter)


class _LateCopyNode(NodeStore):
    def _OnCopy(self, message: Any) -> dict[str, Any]:
        has, self._Has = self._Has, lambda state, position: False  # type: ignore[method-assign]
        try:
            return super()._OnCopy(message)
        finally:
            self._Has = has  # type: ignore[method-assign]


class LateCopyTaken(Parts):
    """A full copy that comes late replaces what its master stored here since."""

    node_store = _LateCopyNode


class _OpenGateNode(NodeStore):
    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        del procedure, headers
        return nullcontext()


class NoGate(Parts):
    """A node lets in the calls of every master at once."""

    node_store = _OpenGateNode


# Found here and in the play of whole masters.
BUGS: tuple[type[Parts], ...] = (
    EarlyAcknowledgement,
    OldEpochCounted,
    NoEpochCheck,
    ReplayedTransaction,
    LostDeletion,
    OldVoterSet,
    OwnHistoryTaken,
    DivergentRowsKept,
    NoGate,
)
# These need the many changes of masters and voters that only the store's own play has.
ALL_BUGS: tuple[type[Parts], ...] = (*BUGS, PruningForgotten, LongestTaken, VotersStacked, LateCopyTaken)
