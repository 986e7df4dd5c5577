"""Follows a simulated run transaction by transaction: what a node's database did must be a step that the rules allow.

::

    a node commits --> what its database holds now --> which step was that? --> the model's node after that step: equal?

The rules are those of ``simulation.model.rules``, the ones that are searched for counterexamples.  Which call made a node
commit does not matter: a late one may come at any time, so a step is known by what it did.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from simulation.harness.ledger import Violation
from simulation.model.rules import SOUND, History, Last, Message, Node, Ops, Quorum, Rules

from ganeti.store import Position, VoterSet
from ganeti.store.base import ID_VOTERS, KIND_VOTERS

Look = Callable[[str], list[tuple[Any, ...]]]
Key = tuple[str, str]
_VOTERS: Key = (KIND_VOTERS, ID_VOTERS)
# Runs of epochs are hexadecimal and equally long, so they are ordered like the numbers that they are.
_RUN_BITS = 48


class Written(NamedTuple):
    """What one transaction wrote: the set if it changed that, else 0, and values by key (None deletes)."""

    bits: int
    values: tuple[tuple[Key, str | None], ...]


class RealOps(Ops):
    """Rows by kind and id, as (seq, value); histories are told apart by their last entry's place."""

    empty: Any = {}

    @staticmethod
    def Sets(hist: History) -> tuple[tuple[int, int], ...]:
        return tuple((seq, op.bits) for seq, (_, op) in enumerate(hist, 1) if op.bits)

    @staticmethod
    def Replay(hist: History) -> Any:
        values: dict[Key, str] = {}
        for _, op in hist:
            for key, value in op.values:
                values.pop(key, None)
                if value is not None:
                    values[key] = value
        return values

    @staticmethod
    def Values(rows: Any) -> Any:
        return {key: value for key, (_, value) in rows.items() if value is not None}

    @staticmethod
    def Apply(rows: Any, seq: int, op: Any) -> Any:
        return {**rows, **{key: (seq, value) for key, value in op.values}}

    @staticmethod
    def Merge(mine: Any, rows: Any, after: int) -> Any:
        return {**mine, **{key: row for key, row in rows.items() if row[0] > after}}

    @staticmethod
    def Drop(rows: Any, up_to: int) -> Any:
        return {key: (seq, value) for key, (seq, value) in rows.items() if value is not None or seq > up_to}


class _Seen(NamedTuple):
    """A database's state row, in the model's words."""

    store_id: str
    prom: int
    last: tuple[int, int]
    acknowledged: tuple[int, int]
    pruned: int


@dataclass
class _Master:
    """A master's life: who it is, its history as its own copy has it, and up to which seq that can be acknowledged."""

    node: str
    hist: History
    ack: int = 0
    # Voter's bit -> the highest seq of this epoch that it has stored.
    match: dict[int, int] = field(default_factory=dict)


def _Epoch(number: int, run: str) -> int:
    return (number << _RUN_BITS) + int(run or "0", 16)


class Oracle:
    """The model's view of a cluster.  ``Committed`` is called for each transaction of a node's database; a step that the
    rules do not allow is given to ``report``.  ``forced()``: whether the next master opens by a forced start, for which
    people have vouched.
    """

    def __init__(self, report: Callable[[str], None], forced: Callable[[], bool]):
        self._report = report
        self._forced = forced
        self._rules = Rules(SOUND, RealOps())
        self._nodes: dict[str, Node] = {}
        self._bits: dict[str, int] = {}
        self._masters: dict[int, _Master] = {}
        # Every history that was ever written, by where it ends; what each node said when it promised an epoch.
        self._histories: dict[tuple[int, int], History] = {(0, 0): ()}
        self._promises: dict[int, dict[str, Node]] = {}
        self._acked: History = ()
        self._seen: dict[str, _Seen] = {}
        self.steps = 0

    def Committed(self, name: str, look: Look) -> None:
        """A node's database has committed something."""
        try:
            self._Follow(name, look)
        except Violation as err:
            self._report(f"the rules do not allow what {name} stored: {err}")

    def CheckPublished(self, position: Position) -> None:
        """Raise Violation if a master shows a transaction that no quorum holds."""
        at = (_Epoch(*position.epoch), position.seq)
        if self._acked[: at[1]] != self._histories.get(at):
            raise Violation(f"{position} was acknowledged, and no quorum of its voters holds it")

    # One commit

    def _Follow(self, name: str, look: Look) -> None:
        seen = _See(look)
        if self._seen.get(name) == seen:
            return
        self._seen[name] = seen
        old = self._nodes.get(name)
        if old is None or (seen.prom, seen.last, seen.pruned) == (0, (0, 0), 0):
            # A new database, perhaps on a new disk: nothing of what this node had promised or held is known any longer.
            self._nodes[name] = Node(0, (), {}, 0, self._Bit(seen.store_id), 0, 0)
            return
        ident = self._Bit(seen.store_id)
        if seen.prom < old.prom:
            raise Violation("its promise was taken back")
        if seen.prom > old.prom:
            old = self._Promise(name, old, seen)
        if ident != old.ident:
            new = self._Emptied(old, seen, ident)
        elif seen.last == Last(old.hist):
            if seen.pruned < old.pruned:
                raise Violation(f"it forgot that deletions are pruned up to {old.pruned}, and says {seen.pruned}")
            new = old if seen.pruned == old.pruned else self._rules.Pruned(old, seen.pruned)
            if new is not old:
                self._CheckRows(new, look)
        else:
            new = self._Stored(name, old, seen, look)
        self.steps += 1
        self._nodes[name] = new
        self._Count(new)
        self._CheckAcknowledged(seen)

    def _Promise(self, name: str, old: Node, seen: _Seen) -> Node:
        new = old._replace(prom=seen.prom)
        self._promises.setdefault(seen.prom, {})[name] = new
        return new

    def _Emptied(self, old: Node, seen: _Seen, ident: int) -> Node:
        """Rule 4: only who is no voter in what is acknowledged is emptied."""
        master = self._masters.get(seen.prom)
        if master is None or seen.last != (0, 0):
            raise Violation("its store has another id")
        if self._rules.Voters(master.hist[: master.ack]) & old.ident:
            raise Violation("it was emptied while its copy counts")
        return Node(seen.prom, (), {}, 0, ident, 0, 0)

    def _Stored(self, name: str, old: Node, seen: _Seen, look: Look) -> Node:
        """Rows came: by a call of the promised master, or by this node as that master."""
        epoch = seen.prom
        if seen.last[0] != epoch:
            raise Violation(f"it stored {_Show(seen.last)}, which its promised master did not write")
        known = self._histories.get(seen.last)
        if known is not None:
            new = self._Received(old, seen, known)
        else:
            master = self._masters.get(epoch)
            if master is None:
                new = self._Adopted(name, old, seen, look)
            elif master.node == name:
                new = self._Appended(old, master, seen, look)
            else:
                raise Violation(f"it stored {_Show(seen.last)}, which {master.node} did not write")
            if not new.hist or Last(new.hist) != seen.last:
                raise Violation(f"it is at {_Show(seen.last)}, and should be at {_Show(Last(new.hist))}")
            self._histories[seen.last] = new.hist
        if new.pruned != seen.pruned:
            if seen.pruned < new.pruned or seen.pruned > len(new.hist):
                raise Violation(f"it says that deletions are pruned up to {seen.pruned}; they are up to {new.pruned}")
            new = self._rules.Pruned(new, seen.pruned)
        self._CheckRows(new, look)
        return new

    def _Received(self, old: Node, seen: _Seen, hist: History) -> Node:
        """A call of the master brought what it has up to there."""
        source = Node(seen.prom, hist, self._RowsOf(hist, 0), 0, 0, 0, 0)
        allowed = []
        # A catch-up brings no prune; a full copy that of the master, which may be any.
        for base, pruned in ((self._rules.Base(source, old), old.pruned), (None, seen.pruned)):
            message = Message(0, 0, seen.prom, base, hist, self._RowsOf(hist, pruned), pruned)
            new, stored = self._rules.Receive(old, message)
            if stored and Last(new.hist) == seen.last:
                allowed.append(new)
        if not allowed:
            raise Violation(f"from {_Show(Last(old.hist))} no call leads to {_Show(seen.last)}")
        return next((new for new in allowed if new.pruned == seen.pruned), allowed[0])

    def _Appended(self, old: Node, master: _Master, seen: _Seen, look: Look) -> Node:
        """A master began a transaction (rules 1 and 4)."""
        written = self._Written(look, seen.last[1], old.hist)
        if written.bits:
            if not self._rules.MaySet(old.hist, master.ack, old.ident, written.bits):
                raise Violation(f"the voters were changed against rule 4 ({_Show(seen.last)})")
        elif not self._rules.MayWrite(old.hist, master.ack):
            raise Violation(f"{_Show(seen.last)} was begun while another transaction was under way")
        hist = (*old.hist, (seen.prom, written))
        master.hist = hist
        return old._replace(hist=hist, rows=self._rules.ops.Apply(old.rows, len(hist), written))

    def _Adopted(self, name: str, old: Node, seen: _Seen, look: Look) -> Node:
        """A node became master (rules 5 and 8)."""
        base = self._Beneath(seen, look)
        taken = self._histories.get(base)
        if taken is None:
            raise Violation(f"it went on from {_Show(base)}, which nobody wrote")
        promises = self._promises.get(seen.prom, {})
        heard = [node for node in promises.values() if Last(node.hist) <= base]
        sources = [node for node in heard if Last(node.hist) == base]
        if Last(old.hist) == base:
            sources = [old]
        if not sources:
            raise Violation(f"it took {_Show(base)} over from nobody who promised")
        bits, have = self._rules.Voters(taken), 0
        for node in heard:
            have |= node.ident
        written = self._Written(look, seen.last[1], taken)
        if not taken:
            if not Quorum((1 << len(self._nodes)) - 1, (1 << len(heard)) - 1) and not self._forced():
                raise Violation("it began a history without half plus one of all nodes")
        elif not self._rules.Enough(bits, old.ident, have, 0, 0):
            vouched = self._forced() and written.bits == bits & have and written.bits & old.ident
            if not vouched:
                raise Violation(f"it took {_Show(base)} over without promises of a quorum of its voters")
        if self._forced():
            self._acked = taken
        self._masters[seen.prom] = _Master(name, ())
        new = old
        for source in sources:
            new = self._rules.Adopted(source, old, ((seen.prom, written),))
            if new.pruned == seen.pruned:
                break
        self._masters[seen.prom].hist = new.hist
        return new

    # What a database shows

    def _Beneath(self, seen: _Seen, look: Look) -> tuple[int, int]:
        """Return where the adopted history ended."""
        seq = seen.last[1] - 1
        found = look(f"SELECT number, run FROM line WHERE first <= {seq} ORDER BY first DESC LIMIT 1")
        return (_Epoch(*found[0]), seq) if seq and found else (0, 0)

    def _Written(self, look: Look, seq: int, before: History) -> Written:
        values = {
            (kind, row_id): value for kind, row_id, value in look(f"SELECT kind, id, value FROM rows WHERE seq = {seq}")
        }
        bits = 0
        if _VOTERS in values:
            for voter in VoterSet.FromText(values[_VOTERS]).by_uuid.values():
                bits |= self._Bit(voter.store_id)
        return Written(0 if bits == self._rules.Voters(before) else bits, tuple(sorted(values.items())))

    def _RowsOf(self, hist: History, pruned: int) -> Mapping[Key, tuple[int, str | None]]:
        """Return the rows that a history makes."""
        rows: dict[Key, tuple[int, str | None]] = {}
        for seq, (_, op) in enumerate(hist, 1):
            for key, value in op.values:
                rows[key] = (seq, value)
        dropped: dict[Key, tuple[int, str | None]] = self._rules.ops.Drop(rows, pruned)
        return dropped

    def _CheckRows(self, node: Node, look: Look) -> None:
        """Compare the database with the model's node, and that with the replay of its history."""
        wrong = self._rules.WrongRows(node)
        if wrong:
            raise Violation(f"at {_Show(Last(node.hist))}: {wrong}")
        held = {}
        for kind, row_id, value, seq, number, run in look("SELECT kind, id, value, seq, number, run FROM rows"):
            if seq > len(node.hist) or node.hist[seq - 1][0] != _Epoch(number, run):
                raise Violation(f"its row {kind} {row_id} is of {number}.{run}/{seq}, which is not in its history")
            held[kind, row_id] = (seq, value)
        if held != node.rows:
            raise Violation(f"at {_Show(Last(node.hist))}: {'; '.join(_Differences(held, node.rows))}")

    def _Bit(self, store_id: str) -> int:
        return self._bits.setdefault(store_id, 1 << len(self._bits))

    # Acknowledging

    def _Count(self, node: Node) -> None:
        """A node holds more: count for its master whether a quorum does now (rule 2)."""
        master = self._masters.get(node.prom)
        if master is None or Last(node.hist)[0] != node.prom:
            return
        master.match[node.ident] = max(len(node.hist), master.match.get(node.ident, 0))
        for seq in range(len(master.hist), master.ack, -1):
            if not self._rules.MayCount(master.hist, seq, node.prom):
                return
            have = 0
            for bit, matched in master.match.items():
                have |= bit if matched >= seq else 0
            if self._rules.Counted(master.hist, master.ack, have):
                self._Acknowledge(master, seq)
                return

    def _Acknowledge(self, master: _Master, seq: int) -> None:
        new = master.hist[:seq]
        if new[: len(self._acked)] == self._acked:
            self._acked = new
        elif not master.ack or self._acked[: len(new)] != new:
            at = next(i for i, pair in enumerate(zip(new, self._acked, strict=False), 1) if pair[0] != pair[1])
            raise Violation(f"the history of {master.node} is acknowledged and lacks seq {at}, which was, too")
        master.ack = seq

    def _CheckAcknowledged(self, seen: _Seen) -> None:
        """What a node takes for acknowledged must be; a forced start may have given it up since."""
        at = seen.acknowledged
        master = self._masters.get(seen.prom)
        if master is not None and at[0] == seen.prom and master.ack < at[1]:
            raise Violation(f"it takes {_Show(at)} for acknowledged, which no quorum holds")


def _See(look: Look) -> _Seen:
    (row,) = look(
        "SELECT store_id, promised_number, promised_run, last_number, last_run, last_seq, ack_number, ack_run, ack_seq,"
        " pruned FROM state"
    )
    last, acknowledged = (_Epoch(*row[3:5]), row[5]), (_Epoch(*row[6:8]), row[8])
    return _Seen(row[0], _Epoch(*row[1:3]), last, acknowledged, row[9])


def _Show(at: tuple[int, int]) -> str:
    number, run = divmod(at[0], 1 << _RUN_BITS)
    return f"{number}.{run:012x}/{at[1]}"


def _Differences(held: Mapping[Key, Any], wanted: Mapping[Key, Any]) -> Iterator[str]:
    for key in sorted({*held, *wanted}):
        if held.get(key) != wanted.get(key):
            yield f"{' '.join(key)} is {held.get(key)} and should be {wanted.get(key)}"
