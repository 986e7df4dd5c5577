"""Who holds what: how far each voter is, what a quorum holds, and what everybody does (rules 2 to 4, and 7)."""

from __future__ import annotations

from ganeti import runtime
from ganeti.rpc.base import Failure
from ganeti.store.base import NOWHERE, Epoch, Line, NotKnown, Position, Voter, VoterSet
from ganeti.store.commit.peers import ConfirmedSeq, LearnerNeeds, Peer
from ganeti.store.silence import Silent


class Tally:
    """The positions of the master and of its voters.  Only the committer changes it; any thread may look."""

    def __init__(
        self,
        uuid: str,
        epoch: Epoch,
        peers: dict[str, Peer],
        line: Line,
        voters: VoterSet,
        pruned: int,
        deletions: list[int],
    ):
        self._uuid = uuid
        self._epoch = epoch
        self._peers = peers
        # The history of the own copy, what of it is acknowledged, and the set in force.
        self.line = line
        self.acked = NOWHERE
        self.voters = voters
        # Seq up to which deletions are dropped, and the seqs of those that are not.
        self.pruned = pruned
        self._deletions = deletions

    def Began(self, position: Position, deletes: bool) -> None:
        """Record one more transaction in the own copy."""
        self.line = self.line.With(position)
        if deletes:
            self._deletions.append(position.seq)

    def QuorumSeq(self) -> int:
        """Return the highest seq that a quorum of the set in force holds."""
        seqs = sorted((self.HeldBy(voter) for voter in self.voters.by_uuid.values()), reverse=True)
        return seqs[self.voters.quorum - 1]

    def HeldBy(self, voter: Voter) -> int:
        """Return the seq up to which a voter holds transactions of this epoch (rule 2)."""
        if voter.member.uuid == self._uuid:
            return self.line.last.seq
        return ConfirmedSeq(self._peers.get(voter.member.uuid), voter.store_id, self._epoch)

    def EverywhereSeq(self) -> int:
        """Return the seq that every voter holds, and every node that is being copied to become one."""
        now = runtime.Monotonic()
        learning = [LearnerNeeds(peer, self.line, now) for peer in self._peers.values()]
        return min(
            *(self.HeldBy(voter) for voter in self.voters.by_uuid.values()),
            *(seq for seq in learning if seq is not None),
            self.acked.seq,
        )

    def Prune(self) -> None:
        """Raise the seq up to which every voter has all deletions (rule 3)."""
        if not self._deletions:
            return
        everywhere = self.EverywhereSeq()
        if self._deletions[0] <= everywhere:
            self.pruned = everywhere
            self._deletions = [seq for seq in self._deletions if seq > everywhere]

    def Reach(self, voters: VoterSet) -> tuple[int, dict[str, Silent]]:
        """Return how many of a set answer, the master included, and those that do not, by name."""
        silent = {}
        for uuid, voter in voters.by_uuid.items():
            peer = self._peers.get(uuid)
            name = voter.member.name
            if uuid == self._uuid:
                continue
            if peer is None:
                silent[name] = Silent(name, Failure.NOT_SENT, "")
            elif peer.unfit:
                silent[name] = Silent(name, Failure.SILENT, peer.unfit)
            elif peer.silent:
                silent[name] = Silent(name, peer.failure, peer.last_error)
        return len(voters) - len(silent), silent

    def IsVoter(self, node: str) -> bool:
        """Whether the node, a uuid or a name, is a voter."""
        return node in self.voters or node in self.voters.Names()

    def HasQuorum(self) -> bool:
        """Return whether enough voters answer."""
        return self.Reach(self.voters)[0] >= self.voters.quorum

    def NotKnown(self, position: Position) -> NotKnown:
        """Return the answer for a transaction that has no quorum yet."""
        stored = sum(self.HeldBy(voter) >= position.seq for voter in self.voters.by_uuid.values())
        return NotKnown(stored, len(self.voters), self.Reach(self.voters)[1])
