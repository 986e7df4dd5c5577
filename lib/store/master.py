"""The store of the acting master, as the other rooms know it; the work is done by ``committer``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.rpc.runner import RpcRunner
from ganeti.store.base import Change, Epoch, Member, Position, VoterSet
from ganeti.store.commit import events
from ganeti.store.commit.committer import Candidates, Committer, Listener, Lost
from ganeti.store.commit.peers import Directory
from ganeti.store.commit.pending import Done, Entry
from ganeti.store.commit.voters import VoterStep
from ganeti.store.confirm import NodeConfirmer
from ganeti.store.relay import Relay

if TYPE_CHECKING:
    from ganeti.rpc.base import Transport
    from ganeti.runtime import protocols
    from ganeti.store.copy.image import Image
    from ganeti.store.copy.node import NodeStore


class Store:
    """The store of the acting master.  Made by ``election.BecomeMaster``; ``Stop`` ends it.

    ``image``: the rows of the own copy, with the first transaction of this epoch.  ``lost(error)`` is called once, on the
    committer's thread, when this master has to stop: a newer one exists, or its own database cannot be trusted any longer.
    ``candidates()`` gives the master candidates that are not offline.  ``transport`` is what was given, and makes some calls
    that are rejected through other candidates (rule 14).
    """

    committer_class: type[Committer] = Committer

    def __init__(
        self,
        own: NodeStore,
        me: Member,
        cluster: str,
        epoch: Epoch,
        image: Image,
        transport: Transport,
        resolve: Callable[[str], Sequence[Any]] | None = None,
        lost: Lost | None = None,
        candidates: Candidates | None = None,
    ):
        self._me = me
        self._epoch = epoch
        directory = Directory(resolve)
        self._common = {"cluster": cluster, "epoch": str(epoch), "master": own.node_name}
        relay = Relay(transport, lambda: self._common, lambda: self._committer.Helpers())
        self.transport: Transport = relay
        runner = RpcRunner(relay, directory.Resolve, lambda: str(epoch))
        self._committer = self.committer_class(own, me, epoch, image, runner, directory.Add, lost, candidates)
        self._tally = self._committer.tally
        self.calls = runner.times
        self.durations = self._committer.durations
        self._confirmer = NodeConfirmer(runner, own, cluster, epoch, self._OnPromise, self._committer.judge.Judge)

    def Start(self) -> None:
        self._committer.thread.start()

    def WaitReady(self, timeout: float) -> None:
        """Return when the first transaction of this epoch is acknowledged: everything before it is, too.

        Raise NotKnown after ``timeout`` seconds, or why this master ended.
        """
        self._committer.ready.wait(timeout)
        if self._committer.ended is not None:
            raise self._committer.ended
        if not self._committer.ready.is_set():
            raise self._committer.NotKnown()

    def ActingEpoch(self) -> Epoch:
        """Return the epoch for a call that changes something on a node; raise why this master ended if it was refused or
        has stopped (rule 6)."""
        if self._committer.ended is not None:
            raise self._committer.ended
        return self._epoch

    def Epoch(self) -> Epoch:
        return self._epoch

    def Voters(self) -> VoterSet:
        """Return the set in force."""
        return self._tally.voters

    def Acknowledged(self) -> Position:
        return self._tally.acked

    def IsRunning(self) -> bool:
        """Return whether this master has neither stopped nor been replaced."""
        return self._committer.ended is None

    def IsSettled(self) -> bool:
        """Return whether every voter holds and knows everything, and nothing else can be done for any node."""
        return self._committer.IsSettled()

    def Rows(self, kind: str) -> dict[str, str]:
        """Return the acknowledged rows of a kind: id -> JSON text."""
        return dict(self._committer.published.by_kind.get(kind, {}))

    def HandOver(self, kind: str) -> dict[str, str]:
        """Return the acknowledged rows of a kind to the one who keeps them from now on: ``Rows`` has them no longer.

        Nothing may change such a row meanwhile.
        """
        return self._committer.published.HandOver(kind)

    def Value(self, kind: str, row_id: str) -> str | None:
        """Return the acknowledged JSON text of one row."""
        return self._committer.published.by_kind.get(kind, {}).get(row_id)

    def Silent(self) -> list[str]:
        """Return the names of voters that did not answer lately."""
        return sorted(self._tally.Reach(self._tally.voters)[1])

    def StandsStill(self) -> bool:
        """Return whether so many voters are silent that nothing can be acknowledged (rule 7)."""
        return self._committer.ended is None and not self._tally.HasQuorum()

    def Listen(self, listener: Listener) -> None:
        """Have ``listener(position, rows)`` called on the committer's thread for each acknowledged transaction."""
        self._committer.listeners.append(listener)

    def Begin(self, change: Change, done: Done, patient: bool = False) -> None:
        """Start a change; ``done(None or error)`` is called once, on the committer's thread.

        A ``patient`` one waits for a quorum instead of being answered NoQuorum or NotKnown: it is done, fails by its own
        error, DiskRefused or TooLarge, or is answered how this master ended (MasterEnded).
        """
        self._committer.Put(events.ChangeAsked(Entry(change, done, patient)))

    def Commit(self, change: Change, patient: bool = False) -> None:
        """Block until the change is acknowledged; raise NoQuorum, NotKnown, DiskRefused, MasterLost, StoreEnded."""
        self._Block(lambda done: self.Begin(change, done, patient))

    def AddVoter(self, member: Member, change: Change, timeout: float = 300.0, patient: bool = False) -> None:
        """Copy the store to a node, then make it a voter in the same transaction as ``change`` (its flags).

        ``timeout`` is for the copy.  A ``patient`` call waits for a quorum as Commit does.
        """
        deadline = runtime.Monotonic() + timeout
        self._Block(lambda done: self._PutStep(VoterStep(change, done, add=member, deadline=deadline, patient=patient)))

    def RemoveVoter(self, uuid: str, change: Change, timeout: float = 300.0, patient: bool = False) -> None:
        """Take a node out of the voters in the same transaction as ``change``; then it is emptied."""
        if uuid == self._me.uuid:
            raise errors.OpPrereqError(
                "The master is always a voter: fail over to another candidate first", errors.ECODE_STATE
            )
        deadline = runtime.Monotonic() + timeout
        self._Block(
            lambda done: self._PutStep(VoterStep(change, done, remove=uuid, deadline=deadline, patient=patient))
        )

    def ConfirmNodes(self, nodes: Iterable[str], timeout: float, joining: bool = False) -> None:
        """Return when every node has confirmed this epoch and nothing older runs there (rule 6).

        Nodes that did so before are not asked again.  Raises MasterLost, after which this master stops, or StoreError
        that names the node.  ``joining``: the nodes are about to be taken in; whom they follow now ends no master.
        """
        self._confirmer.Confirm(nodes, timeout, joining)

    def UnconfirmedNodes(self, nodes: Iterable[str], timeout: float) -> dict[str, str]:
        """Return which of the nodes have not confirmed this epoch, and why: {uuid: text}.

        For what concerns each node alone (rule 6): the others may be acted on.  Waits and raises MasterLost as ConfirmNodes.
        """
        return self._confirmer.Unconfirmed(nodes, timeout)

    def Refused(self, epoch: str, master: str, node: str) -> None:
        """Handle the refusal of a node that promised a newer epoch: this master stops, unless a quorum still follows it
        and the node was led astray by a forced start (rule 6)."""
        self._committer.judge.Ask(epoch, master, node)

    def HoldServing(self, lock: protocols.FileLock) -> None:
        """Keep the mark that this node serves the store until this master ends."""
        self._committer.serving = lock

    def SetExported(self, seq: int) -> None:
        """Note that the files of this node show everything up to ``seq``."""
        self._committer.archived.exported = seq

    def TakeAnswer(self, uuid: str, store_id: str, last: Position) -> None:
        """Take what a node said when it promised, before Start: saves a round trip."""
        peer = self._committer.peers.get(uuid)
        if peer is not None:
            peer.Answered(store_id, last, 0, self._epoch)

    def EmptyNode(self, member: Member, store_id: str) -> None:
        """Have the rows taken from a node that is not a voter (rule 4)."""
        self._committer.Put(events.EmptyAsked(member, store_id))

    def Stop(self, timeout: float = 10.0) -> bool:
        """End the committer when what is under way is acknowledged, or after ``timeout``; return whether it was."""
        ready = runtime.Event()
        clean: list[bool] = []

        def done(error: Exception | None) -> None:
            clean.append(error is None)
            ready.set()

        self._committer.Put(events.StopAsked(done))
        if not ready.wait(timeout):
            self._committer.Put(events.EndAsked())
        self._committer.thread.join(timeout)
        return bool(clean) and clean[0]

    def _PutStep(self, step: VoterStep) -> None:
        self._committer.Put(events.StepAsked(step))

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

    def _OnPromise(self, member: Member, store_id: str, last: Position) -> None:
        """Empty a node that confirmed this epoch, is not a voter and holds rows."""
        if last.seq and member.uuid not in self._tally.voters:
            self.EmptyNode(member, store_id)
