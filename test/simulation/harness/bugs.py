"""Bugs planted on purpose, each one method of one class: the simulation must find every one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from simulation.harness.cluster import Parts

from ganeti.rpc.procedures import Procedure
from ganeti.store import Epoch, NodeStore, Position, Store, Voter, VoterSet, election
from ganeti.store.base import Line
from ganeti.store.database import Database, State
from ganeti.store.peers import Copy, Sender


class _EarlyStore(Store):
    def _QuorumSeq(self, voters: VoterSet) -> int:
        del voters
        return self._line.last.seq


class _EarlyElection(election.Election):
    store_class = _EarlyStore


class EarlyAcknowledgement(Parts):
    """The client is answered when only the master has the change."""

    election = _EarlyElection


class _OldEpochStore(Store):
    def _HeldBy(self, voter: Voter) -> int:
        peer = self._sender.peers.get(voter.member.uuid)
        return self._line.last.seq if peer is None else peer.confirmed.seq


class _OldEpochElection(election.Election):
    store_class = _OldEpochStore


class OldEpochCounted(Parts):
    """A copy that ends at the same seq counts, whichever epoch wrote it."""

    election = _OldEpochElection


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


class _HastyStore(Store):
    sender_class = _HastySender

    def _EverywhereSeq(self) -> int:
        return self._acked.seq


class _HastyElection(election.Election):
    store_class = _HastyStore


class LostDeletion(Parts):
    """Deletions are dropped before everybody has them, and nobody looks whether they were."""

    election = _HastyElection


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


class _OpenGateNode(NodeStore):
    def Enter(self, procedure: Procedure, headers: Mapping[str, str]) -> AbstractContextManager[object]:
        del procedure, headers
        return nullcontext()


class NoGate(Parts):
    """A node lets in the calls of every master at once."""

    node_store = _OpenGateNode


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
