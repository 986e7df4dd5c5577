"""Changes of the set of voters, one node at a time (rule 4).  All of it runs on the committer's thread.

::

    in:   learner --copied--> (flags + set in one transaction) --acknowledged--> voter
    out:  voter --(flags + set)--> leaving --emptied--> gone
    a voter with another id, or behind what it confirmed:  out, emptied, and in again
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ganeti import runtime
from ganeti.store.base import Change, HintSilent, Member, NoQuorum, Rows, StoreError, Voter, VoterSet
from ganeti.store.commit.peers import Peer

if TYPE_CHECKING:
    from ganeti.store.commit.peers import Sender
    from ganeti.store.commit.tally import Tally

RECONCILE_SECONDS = 10.0
READY_FOR = 10.0
"""Seconds that a patient step's node is given to become ready again when it falls behind."""

FAILING_FOR = 30.0
"""Seconds for which a node may answer that it failed to take its copy, before the step is given up."""


@dataclass
class VoterStep:
    """One node in (``add``) or out (``remove``), with the change of its flags.

    ``patient``: it waits while the set that it makes lacks a quorum, and is never answered NoQuorum or NotKnown (rule 7).
    ``own_affair``: the master's own idea; nobody waits, it is tried until it is done or no longer makes sense.
    """

    change: Change
    done: Callable[[StoreError | Exception | None], None]
    add: Member | None = None
    remove: str = ""
    deadline: float = 0.0
    patient: bool = False
    own_affair: bool = False

    @property
    def uuid(self) -> str:
        return self.add.uuid if self.add is not None else self.remove


class VoterSteps:
    """The steps that wait, and the nodes that come and go."""

    def __init__(
        self,
        sender: Sender,
        me: Member,
        candidates: Callable[[], Iterable[Member] | None] | None,
        place: Callable[[Member], None],
    ):
        self._sender = sender
        self._me = me
        self._candidates = candidates
        self._place = place
        self.waiting: list[VoterStep] = []
        self._reconcile_at = 0.0

    def Add(self, step: VoterStep) -> None:
        if not step.own_affair:
            # A change of the configuration comes before the master's own ideas.
            for other in [other for other in self.waiting if other.own_affair and other.uuid == step.uuid]:
                self.Drop(other)
        self.waiting.append(step)
        if step.add is not None:
            self._place(step.add)

    def Deadline(self) -> float:
        """Return when to look again even if nothing happens."""
        return min([self._reconcile_at, *(step.deadline for step in self.waiting if not step.own_affair)])

    def AskedFor(self, uuid: str) -> list[VoterStep]:
        """Return the waiting steps for a node that somebody waits for."""
        return [step for step in self.waiting if step.uuid == uuid and not step.own_affair]

    def Drop(self, step: VoterStep) -> None:
        """Give up a waiting step."""
        self.waiting.remove(step)
        self.GiveUp(step)

    def GiveUp(self, step: VoterStep) -> None:
        """Forget the copy that was made for a step which was not taken."""
        peer = self._sender.peers.get(step.uuid)
        if step.add is None or peer is None or not peer.learner:
            return
        if step.own_affair:
            # It returns without help, and what it holds then saves a copy.
            del self._sender.peers[step.uuid]
        else:
            self.Empty(step.add, "")

    def Look(self, voters: VoterSet, busy: bool) -> None:
        """Make learners of those who are to come in, find what the master has to do by itself, end what took too long."""
        now = runtime.Monotonic()
        for step in list(self.waiting):
            if step.add is not None and step.uuid not in voters and step.uuid not in self._sender.peers:
                self._sender.peers[step.uuid] = Peer(step.add, learner=True)
            if step.patient and self._After(step, voters) is not None:
                # The deadline is the node's, and the node is ready: only the quorum is missing.
                step.deadline = max(step.deadline, now + READY_FOR)
            if not step.own_affair and (now >= step.deadline or self._FailsForLong(step, now)):
                error = self._TookTooLong(step)
                self.Drop(step)
                step.done(error)
        self._TakeOutUnfit(voters)
        if now >= self._reconcile_at:
            self._reconcile_at = now + RECONCILE_SECONDS
            if not busy:
                self._Reconcile(voters)

    def _FailsForLong(self, step: VoterStep, now: float) -> bool:
        """Return whether a node that is to come in keeps saying that it failed: a full disk is not repaired by waiting."""
        peer = self._sender.peers.get(step.uuid)
        return step.add is not None and peer is not None and peer.learner and peer.FailingFor(now) > FAILING_FOR

    def _TookTooLong(self, step: VoterStep) -> StoreError:
        peer = self._sender.peers.get(step.uuid)
        if step.add is None:
            name = step.uuid if peer is None else peer.member.name
            return StoreError(
                f"node {name} is still a voter: an earlier change of the voters is not acknowledged; nothing was changed",
                hint="bring the master candidates back that do not answer, then try again",
            )
        reason = peer.last_error if peer is not None and peer.last_error else "it took too long"
        return StoreError(
            f"node {step.add.name} could not be given a copy of the store ({reason}); nothing was changed",
            hint=f"look at the node daemon of {step.add.name} and try again",
        )

    def _TakeOutUnfit(self, voters: VoterSet) -> None:
        for uuid in voters.by_uuid:
            peer = self._sender.peers.get(uuid)
            if peer is not None and peer.unfit and not any(step.uuid == uuid for step in self.waiting):
                logging.error(
                    "Node %s is taken out of the voters, emptied and copied again: %s", peer.member.name, peer.unfit
                )
                self.waiting.append(VoterStep(Rows(), _Nobody, remove=uuid, own_affair=True))

    def _Reconcile(self, voters: VoterSet) -> None:
        """See that exactly the candidates that are not offline are voters (rule 4), whatever an earlier master left unfinished."""
        wanted = None if self._candidates is None else self._candidates()
        if wanted is None:
            return
        by_uuid = {member.uuid: member for member in wanted}
        if self._me.uuid not in by_uuid:
            return
        for step in list(self.waiting):
            if step.own_affair and step.add is not None and step.uuid not in by_uuid:
                self.Drop(step)
        under_way = {step.uuid for step in self.waiting}
        for uuid, member in by_uuid.items():
            if uuid not in voters and uuid not in under_way:
                logging.info("Node %s is a master candidate without a copy that counts: copying", member.name)
                self.Add(VoterStep(Rows(), _Nobody, add=member, own_affair=True))
        for uuid, voter in voters.by_uuid.items():
            if uuid not in by_uuid and uuid not in under_way:
                logging.info("Node %s is no longer a master candidate: its copy will not count", voter.member.name)
                self.Add(VoterStep(Rows(), _Nobody, remove=uuid, own_affair=True))

    def Ready(self, voters: VoterSet) -> list[tuple[VoterStep, VoterSet]]:
        """Return the steps whose nodes are ready, each with the set that it makes."""
        found = [(step, self._After(step, voters)) for step in self.waiting]
        return [(step, after) for step, after in found if after is not None]

    def _After(self, step: VoterStep, voters: VoterSet) -> VoterSet | None:
        if step.add is None:
            return voters.Without(step.remove)
        if step.uuid in voters:
            return voters
        peer = self._sender.peers.get(step.uuid)
        if peer is None or not peer.learner or peer.leaving or not peer.known or not peer.store_id:
            return None
        # All that was acknowledged when it was last sent something: a slow node lags behind by the work of one call.
        if peer.confirmed.seq < peer.told.seq or peer.confirmed.epoch != self._sender.epoch:
            return None
        return voters.With(Voter(step.add, peer.store_id))

    def Entered(self, voters: VoterSet) -> None:
        """Count the answers of a set that was stored."""
        for uuid in voters.by_uuid:
            peer = self._sender.peers.get(uuid)
            if peer is not None:
                peer.learner = False

    def Left(self, before: VoterSet, after: VoterSet) -> None:
        """Have those emptied who left by a change that is acknowledged."""
        for uuid, voter in before.by_uuid.items():
            if uuid not in after:
                self.Empty(voter.member, self._IdToEmpty(uuid, voter))

    def _IdToEmpty(self, uuid: str, voter: Voter) -> str:
        peer = self._sender.peers.get(uuid)
        # With another id than listed, or none: the node is asked first.
        return voter.store_id if peer is None or not peer.unfit else ""

    def Empty(self, member: Member, store_id: str) -> None:
        """Have a node's copy emptied, however long that takes."""
        if member.address:
            self._place(member)
        self._sender.peers[member.uuid] = Peer(member, store_id=store_id, leaving=True, known=bool(store_id))


def CheckReach(tally: Tally, after: VoterSet) -> NoQuorum | None:
    """Return the refusal of a set that would have no quorum either (rule 7), None where it has one.

    The next step depends on all who are silent now: with the set in force another node could be the one to take out.
    """
    reach, silent = tally.Reach(after)
    if reach >= after.quorum:
        return None
    return NoQuorum(silent, len(after), HintSilent(tally.Reach(tally.voters)[1], len(tally.voters)))


def _Nobody(error: Exception | None) -> None:
    if error is not None:
        logging.warning("A change of the voters was not made: %s", error)
