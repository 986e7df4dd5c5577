"""The other voters as the master sees them, and what each is to be sent next (rules 1 to 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.rpc.resolver import NodedPort
from ganeti.store.base import NOWHERE, PIECE_BYTES, Epoch, Line, Member, Position, Row, StoredRow

if TYPE_CHECKING:
    from ganeti.store.node import NodeStore

RETRY_SECONDS = 2.0
LONG_SILENT = 60.0
LONG_RETRY_SECONDS = 30.0
ACK_WITHIN = 0.5
MAX_CATCHUP = 8 * PIECE_BYTES
"""Characters of values that still go in one catch-up; more than that is a full copy, in pieces."""


class Directory:
    """Where the nodes are: those the store deals with, by uuid; others by what was handed in."""

    def __init__(self, others: Any = None):
        self._members: dict[str, Member] = {}
        self._others = others
        self._port = NodedPort()

    def Add(self, member: Member) -> None:
        self._members[member.uuid] = member

    def Resolve(self, node: str) -> tuple[str, str, int, bool, str]:
        """As rpc.RpcRunner wants it.  Nobody is offline here: the store asks whom it asks."""
        member = self._members.get(node)
        if member is not None:
            return (member.name, member.address, self._port, False, member.uuid)
        if self._others is None:
            raise errors.GenericError(f"node {node} is not known to the store")
        name, host, port, _, *uuid = self._others(node)
        return (name, host, port, False, uuid[0] if uuid else "")


@dataclass
class Transaction:
    """One seq of the own epoch that is not acknowledged yet, or was just now."""

    position: Position
    before: Position
    rows: list[Row]

    def __post_init__(self) -> None:
        # More than that goes in pieces, as a copy.
        self.fits = sum(len(row.value or "") for row in self.rows) <= MAX_CATCHUP

    def Message(self) -> dict[str, Any]:
        return {
            "before": self.before.Wire(),
            "seq": self.position.seq,
            "rows": [[row.kind, row.id, row.value] for row in self.rows],
        }


@dataclass
class Copy:
    """A full copy under way to one node: what it leads to and the pieces still to be sent."""

    id: str
    last: Position
    line: Line
    pruned: int
    pieces: Iterator[list[StoredRow]]
    sent: int = 0
    complete: bool = False
    held: list[StoredRow] | None = None

    def NextPiece(self) -> tuple[list[StoredRow], bool]:
        """The next piece, and whether there are more."""
        piece = self.held if self.held is not None else next(self.pieces, [])
        self.held = next(self.pieces, None)
        return piece, self.held is not None


def Pieces(rows: list[StoredRow]) -> Iterator[list[StoredRow]]:
    """The rows in portions of about PIECE_BYTES of values."""
    piece: list[StoredRow] = []
    size = 0
    for row in rows:
        piece.append(row)
        size += len(row.value or "") + 40
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


@dataclass
class Peer:
    """One node that has, or is to get, a copy.  One call at a time is under way to it.

    ``store_id``: whose answers count; empty while it is not known yet.  ``confirmed``: the newest position it answered.
    ``told``: the acknowledged position it was last told.  ``learner``: copied in order to become a voter.  ``leaving``: to be emptied.
    """

    member: Member
    store_id: str = ""
    confirmed: Position = NOWHERE
    known: bool = False
    learner: bool = False
    leaving: bool = False
    busy: bool = False
    silent: bool = False
    retry_at: float = 0.0
    told: Position = NOWHERE
    exported: int = 0
    copy: Copy | None = None
    # Why it cannot stay a voter: another store id, or behind what it confirmed.  Rule 4 takes it out.
    unfit: str = ""
    last_error: str = ""
    silent_since: float = 0.0

    def Failed(self, now: float, text: str) -> None:
        self.busy = False
        self.copy = None
        self.known = False
        self.last_error = text
        if not self.silent:
            self.silent = True
            self.silent_since = now
            logging.warning("The store of node %s cannot be reached: %s", self.member.name, text)
        # Only a voter keeps others waiting.
        patient = (self.learner or self.leaving) and self.SilentFor(now) > LONG_SILENT
        self.retry_at = now + (LONG_RETRY_SECONDS if patient else RETRY_SECONDS)

    def SilentFor(self, now: float) -> float:
        """For how many seconds it has not answered."""
        return now - self.silent_since if self.silent else 0.0

    def HasSaid(self, store: str, last: Position) -> bool:
        """Whether an answer tells nothing that was not known when the call was made."""
        return self.known and store == self.store_id and last == self.confirmed

    def Answered(self, store: str, last: Position, exported: int, epoch: Epoch) -> None:
        """Takes over what an answer says; sets ``unfit`` where rule 4 demands it."""
        if self.silent:
            logging.info("The store of node %s answers again", self.member.name)
        self.busy = False
        self.known = True
        self.silent = False
        self.retry_at = 0.0
        self.last_error = ""
        if not self.store_id or ((self.learner or self.leaving) and store != self.store_id):
            self.store_id = store
            self.confirmed = NOWHERE
            self.copy = None
        if store != self.store_id:
            self.unfit = "its copy is another one than was listed: the disk was replaced or the database deleted"
            return
        if self.confirmed.epoch == epoch and last < self.confirmed:
            if self.learner:
                self.copy = None
            else:
                self.unfit = f"it is at {last}, behind {self.confirmed} that it had confirmed: an old copy was restored"
                return
        self.confirmed = last
        self.exported = exported


def ConfirmedSeq(peer: Peer | None, store_id: str, epoch: Epoch) -> int:
    """The seq up to which a voter holds the history, counting transactions of ``epoch`` only (rule 2)."""
    if peer is None or peer.unfit or peer.store_id != store_id or peer.confirmed.epoch != epoch:
        return 0
    return peer.confirmed.seq


def LearnerNeeds(peer: Peer, line: Line, now: float) -> int | None:
    """The seq behind which a node that is being copied still needs deletions; None if it needs none.

    Pruned further it would have to be copied anew, and under steady work never become a voter.
    """
    if not peer.learner or peer.leaving or peer.SilentFor(now) > LONG_SILENT:
        return None
    if peer.copy is not None:
        return peer.copy.last.seq
    return peer.confirmed.seq if peer.confirmed.seq and line.Holds(peer.confirmed) else None


class Sender:
    """Sends each peer what it lacks.  Lives on the committer's thread; answers come back through ``answered``.

    ``answered(kind, peer, result)`` is called on any thread; the node may have become another peer meanwhile.
    """

    def __init__(
        self,
        own: NodeStore,
        cluster: str,
        epoch: Epoch,
        start: Callable[[str, list[str], list[Any], Callable[[Any], None]], None],
        answered: Callable[[str, Peer, Any], None],
    ):
        self._own = own
        self.epoch = epoch
        self._common = {"cluster": cluster, "epoch": str(epoch), "master": own.node_name}
        self._start = start
        self._answered = answered
        self.peers: dict[str, Peer] = {}
        # What may be sent on its own, by the position it follows.
        self.recent: dict[Position, Transaction] = {}

    def Drive(self, line: Line, acknowledged: Position, pruned: int, tell_from: float) -> None:
        """Gives work to every peer that has none; from ``tell_from`` on also the mere news of what is acknowledged."""
        now = runtime.Monotonic()
        appends: dict[Position, list[Peer]] = {}
        tell: list[Peer] = []
        for peer in list(self.peers.values()):
            if peer.busy or peer.unfit or now < peer.retry_at:
                continue
            if peer.leaving:
                self._Send("store_empty", [peer], {"store": peer.store_id} if peer.store_id else None)
            elif peer.copy is not None:
                self._SendPiece(peer, acknowledged)
            elif peer.confirmed in self.recent and self.recent[peer.confirmed].fits:
                appends.setdefault(peer.confirmed, []).append(peer)
            elif not peer.known:
                tell.append(peer)
            elif peer.confirmed == line.last:
                if peer.told < acknowledged and now >= tell_from:
                    tell.append(peer)
            else:
                self._CatchUp(peer, line, acknowledged, pruned)
        for before, group in appends.items():
            message = self.recent[before].Message()
            message["stores"] = [peer.store_id for peer in group]
            self._Append(group, message, acknowledged, pruned)
        if tell:
            self._Append(tell, {"seq": None}, acknowledged, pruned)

    def Ask(self, acknowledged: Position, pruned: int) -> None:
        """Asks every idle peer how far it is."""
        idle = [p for p in self.peers.values() if not (p.busy or p.unfit or p.silent or p.leaving or p.copy)]
        if idle:
            self._Append(idle, {"seq": None}, acknowledged, pruned)

    def _Append(self, group: list[Peer], message: dict[str, Any], acknowledged: Position, pruned: int) -> None:
        message["acknowledged"] = acknowledged.Wire()
        message["prune"] = pruned
        for peer in group:
            peer.told = acknowledged
        self._Send("store_append", group, message)

    def _CatchUp(self, peer: Peer, line: Line, acknowledged: Position, pruned: int) -> None:
        if self._MayCatchUp(peer.confirmed, line, pruned):
            rows = self._own.database.GetRows(peer.confirmed.seq)
            if sum(len(row.value or "") for row in rows) <= MAX_CATCHUP:
                message = {
                    "store": peer.store_id,
                    "before": peer.confirmed.Wire(),
                    "rows": [row.Wire() for row in rows],
                    "last": line.last.Wire(),
                    "line": line.Wire(),
                    "acknowledged": acknowledged.Wire(),
                }
                peer.told = acknowledged
                self._Send("store_catchup", [peer], message)
                return
        state, line, rows = self._own.ReadAll()
        peer.copy = Copy(runtime.RandomBytes(8).hex(), line.last, line, state.pruned, Pieces(rows))
        logging.info("Copying the whole store to node %s (%d rows)", peer.member.name, len(rows))
        self._SendPiece(peer, acknowledged)

    def _MayCatchUp(self, last: Position, line: Line, pruned: int) -> bool:
        """Whether the rows written after ``last`` say all that a node lacks (rule 3)."""
        return bool(last.seq) and line.Holds(last) and last.seq >= pruned

    def _SendPiece(self, peer: Peer, acknowledged: Position) -> None:
        copy = peer.copy
        assert copy is not None
        rows, more = copy.NextPiece()
        message: dict[str, Any] = {
            "store": peer.store_id,
            "copy": copy.id,
            "piece": copy.sent,
            "rows": [row.Wire() for row in rows],
            "final": None,
        }
        copy.sent += 1
        if not more:
            copy.complete = True
            message["final"] = {
                "pieces": copy.sent,
                "last": copy.last.Wire(),
                "line": copy.line.Wire(),
                "pruned": copy.pruned,
                "acknowledged": acknowledged.Wire(),
            }
            peer.told = acknowledged
        self._Send("store_copy", [peer], message)

    def _Send(self, kind: str, group: list[Peer], message: dict[str, Any] | None) -> None:
        """One message to some peers; without one the node is only asked who it is."""
        if message is None:
            kind, message = "store_promise", {}
        by_uuid = {peer.member.uuid: peer for peer in group}
        for peer in group:
            peer.busy = True
        self._start(
            kind,
            list(by_uuid),
            [{**self._common, **message}],
            lambda result: self._answered(kind, by_uuid[result.node], result),
        )
