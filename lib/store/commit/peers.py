"""The other voters as the master sees them, and what each is to be sent next (rules 1 to 4)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ganeti import errors, runtime
from ganeti.rpc.base import Failure
from ganeti.rpc.resolver import NodedPort
from ganeti.store.base import MAX_TRANSACTION, NOWHERE, PIECE_BYTES, Epoch, Line, Member, Position, Row
from ganeti.store.copy.database import AfterAll, Cursor, CursorOf

if TYPE_CHECKING:
    from ganeti.store.copy.node import NodeStore

RETRY_SECONDS = 2.0
LONG_SILENT = 60.0
LONG_RETRY_SECONDS = 30.0
ACK_WITHIN = 0.5
MAX_APPEND = 8 * PIECE_BYTES
"""Characters of values that still go in one append; a larger transaction goes as a catch-up, in pieces."""

_MOST_RECENT = 4
MAX_CATCHUP_ROWS = 10_000
MAX_CATCHUP = 2 * MAX_TRANSACTION
"""What is more than that goes as a full copy, which a node puts in place at once however large it is."""


class Directory:
    """The addresses of nodes: those the store deals with, by uuid; others by a function."""

    def __init__(self, others: Any = None):
        self._members: dict[str, Member] = {}
        self._others = others
        self._port = NodedPort()

    def Add(self, member: Member) -> None:
        self._members[member.uuid] = member

    def Resolve(self, node: str) -> tuple[str, str, int, bool, str]:
        """Return a node's place as rpc.RpcRunner wants it; no node is offline here, as the store decides itself whom to call."""
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
        self.fits = sum(len(row.value or "") for row in self.rows) <= MAX_APPEND

    def Message(self) -> dict[str, Any]:
        return {
            "before": self.before.Wire(),
            "seq": self.position.seq,
            "rows": [[row.kind, row.id, row.value] for row in self.rows],
        }


@dataclass
class Copy:
    """A full copy, or a catch-up from ``before``, under way to one node.

    Rows are read in the order of transactions while work continues: one that changes meanwhile comes once more at the end.
    So the deletions after ``needs`` must stay until it is complete.
    """

    id: str
    before: Position | None
    needs: int
    cursor: Cursor
    sent: int = 0
    complete: bool = False


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
    # It refused with a newer epoch that ends no master (rule 6).
    follows_other: bool = False
    # How far the last call got that brought nothing; a node that answers nonsense accepts connections.
    failure: Failure = Failure.NOT_SENT
    silent_since: float = 0.0
    # Since when each of its answers says that it failed, as with a full disk; None: the last call was not answered.
    failing_since: float | None = None

    def Failed(self, now: float, text: str, failure: Failure | None = None) -> None:
        """Note a call that brought nothing; ``failure`` None: it was answered."""
        self.busy = False
        self.copy = None
        self.known = False
        self.last_error = text
        self.failure = failure or Failure.SILENT
        if failure is not None:
            self.failing_since = None
        elif self.failing_since is None:
            self.failing_since = now
        if not self.silent:
            self.silent = True
            self.silent_since = now
            logging.warning("The store of node %s cannot be reached: %s", self.member.name, text)
        # Only a voter keeps others waiting.
        patient = (self.learner or self.leaving) and self.SilentFor(now) > LONG_SILENT
        self.retry_at = now + (LONG_RETRY_SECONDS if patient else RETRY_SECONDS)

    def SilentFor(self, now: float) -> float:
        """Return for how many seconds it has not answered."""
        return now - self.silent_since if self.silent else 0.0

    def FailingFor(self, now: float) -> float:
        """Return for how many seconds it has answered nothing but that it failed."""
        return 0.0 if self.failing_since is None else now - self.failing_since

    def HasSaid(self, store: str, last: Position) -> bool:
        """Return whether an answer says only what was known when the call was made."""
        return self.known and store == self.store_id and last == self.confirmed

    def Heard(self) -> None:
        """Note that it has answered something that makes sense."""
        if self.silent:
            logging.info("The store of node %s answers again", self.member.name)
        self.busy = False
        self.known = True
        self.silent = self.follows_other = False
        self.failing_since = None
        self.retry_at = 0.0
        self.last_error = ""

    def Answered(self, store: str, last: Position, exported: int, epoch: Epoch) -> None:
        """Take over what an answer says; set ``unfit`` where rule 4 demands it."""
        self.Heard()
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
    """Return the seq up to which a voter holds the history, counting transactions of ``epoch`` only (rule 2)."""
    if peer is None or peer.unfit or peer.store_id != store_id or peer.confirmed.epoch != epoch:
        return 0
    return peer.confirmed.seq


def LearnerNeeds(peer: Peer, line: Line, now: float) -> int | None:
    """Return the seq after which a node that is being copied still needs deletions; None if it needs none.

    Pruned further it would have to be copied anew, and under steady work never become a voter.
    """
    if not peer.learner or peer.leaving or peer.SilentFor(now) > LONG_SILENT:
        return None
    if peer.copy is not None:
        return peer.copy.needs
    return peer.confirmed.seq if peer.confirmed.seq and line.Holds(peer.confirmed) else None


class Sender:
    """Sends each peer the rows that it lacks, on the committer's thread; answers return through ``answered``.

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
        # What may be sent on its own, by the position it follows; a peer that is further behind is caught up.
        self.recent: dict[Position, Transaction] = {}

    def Common(self) -> dict[str, Any]:
        """Return what every call of the store names."""
        return dict(self._common)

    def Keep(self, transaction: Transaction) -> None:
        """Keep a transaction for the peers that do not have it yet, and with it the newest before it."""
        self.recent[transaction.before] = transaction
        while len(self.recent) > _MOST_RECENT:
            del self.recent[next(iter(self.recent))]

    def _Drop(self) -> None:
        """Drop the transactions that every peer has: each may hold megabytes, and the next may be hours away."""
        least = min((peer.confirmed for peer in self.peers.values()), default=None)
        for before, transaction in list(self.recent.items()):
            if least is None or transaction.position <= least:
                del self.recent[before]

    def Drive(self, line: Line, acknowledged: Position, pruned: int, tell_from: float) -> None:
        """Give work to every peer that has none; from ``tell_from`` on also the mere news of what is acknowledged."""
        self._Drop()
        now = runtime.Monotonic()
        appends: dict[Position, list[Peer]] = {}
        tell: list[Peer] = []
        for peer in list(self.peers.values()):
            if peer.busy or peer.unfit or now < peer.retry_at:
                continue
            if peer.leaving:
                what = {"store": peer.store_id, "acknowledged": acknowledged.Wire()}
                self._Send("store_empty", [peer], what if peer.store_id else None)
            elif peer.copy is not None:
                self._SendPiece(peer, line, acknowledged)
            elif peer.confirmed in self.recent and self.recent[peer.confirmed].fits:
                appends.setdefault(peer.confirmed, []).append(peer)
            elif not peer.known:
                tell.append(peer)
            elif peer.confirmed == line.last:
                if peer.told < acknowledged and now >= tell_from:
                    tell.append(peer)
            else:
                self._BeginCopy(peer, line, pruned)
                self._SendPiece(peer, line, acknowledged)
        for before, group in appends.items():
            message = self.recent[before].Message()
            message["stores"] = [peer.store_id for peer in group]
            self._Append(group, message, acknowledged, pruned)
        if tell:
            self._Append(tell, {"seq": None}, acknowledged, pruned)

    def Ask(self, acknowledged: Position, pruned: int) -> None:
        """Ask every idle peer how far it is."""
        idle = [p for p in self.peers.values() if not (p.busy or p.unfit or p.silent or p.leaving or p.copy)]
        if idle:
            self._Append(idle, {"seq": None}, acknowledged, pruned)

    def _Append(self, group: list[Peer], message: dict[str, Any], acknowledged: Position, pruned: int) -> None:
        message["acknowledged"] = acknowledged.Wire()
        message["prune"] = pruned
        for peer in group:
            peer.told = acknowledged
        self._Send("store_append", group, message)

    def _BeginCopy(self, peer: Peer, line: Line, pruned: int) -> None:
        last = peer.confirmed
        copy = Copy(runtime.RandomBytes(8).hex(), None, line.last.seq, (0, "", ""))
        if self._MayCatchUp(last, line, pruned) and self._own.database.IsSmall(last.seq, MAX_CATCHUP_ROWS, MAX_CATCHUP):
            copy.before, copy.needs, copy.cursor = last, last.seq, AfterAll(last.seq)
        else:
            logging.info("Copying the whole store to node %s", peer.member.name)
        peer.copy = copy

    def _MayCatchUp(self, last: Position, line: Line, pruned: int) -> bool:
        """Return whether the rows written after ``last`` are all that a node lacks (rule 3)."""
        return bool(last.seq) and line.Holds(last) and last.seq >= pruned

    def _SendPiece(self, peer: Peer, line: Line, acknowledged: Position) -> None:
        copy = peer.copy
        assert copy is not None
        state, rows, more = self._own.ReadPage(self.epoch, copy.cursor)
        if not self._Reaches(copy, state.pruned):
            logging.warning("The copy for node %s begins again: deletions that it needs were dropped", peer.member.name)
            peer.copy = None
            return
        message: dict[str, Any] = {
            "store": peer.store_id,
            "copy": copy.id,
            "piece": copy.sent,
            "rows": [row.Wire() for row in rows],
            "final": None,
        }
        copy.sent += 1
        if rows:
            copy.cursor = CursorOf(rows[-1])
        if not more:
            copy.complete = True
            message["final"] = {
                "pieces": copy.sent,
                "before": None if copy.before is None else copy.before.Wire(),
                "last": state.last.Wire(),
                "line": line.Wire(),
                "pruned": state.pruned,
                "acknowledged": acknowledged.Wire(),
            }
            peer.told = acknowledged
        self._Send("store_copy" if copy.before is None else "store_catchup", [peer], message)

    def _Reaches(self, copy: Copy, pruned: int) -> bool:
        """Return whether all deletions that a copy needs are still known."""
        return pruned <= copy.needs

    def _Send(self, kind: str, group: list[Peer], message: dict[str, Any] | None) -> None:
        """Send one message to some peers; without a message the node is only asked for its store id."""
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
