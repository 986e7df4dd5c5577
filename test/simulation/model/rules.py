"""The rules of the store (doc/design-store.rst) as plain functions of what nodes keep.

A node's durable state: promised epoch, history, rows, pruned, store id.  The history stands for what the node really
keeps (last (epoch, seq), the line of (epoch, first seq), the voter row): decisions read nothing else from it.  Rows are
overwritten in place, as in the database: key -> (seq, value), value 0 is a deletion.  Volatile: the role.

A history is a tuple of entries (epoch, op), one for each seq.  What an op is only ``Ops`` knows, and with it the rows:
``steps`` searches all states of small numbers with it, ``harness.oracle`` follows a simulated run with real rows.
Epochs are numbers that grow as real ones do; sets of voters are bits, one for each store id.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

History = tuple[tuple[int, Any], ...]


class Node(NamedTuple):
    """What a node keeps.  ``off``: it may not take anything below this epoch (a forced start without it)."""

    prom: int
    hist: History
    rows: Any
    pruned: int
    ident: int
    off: int
    role: Any


class Message(NamedTuple):
    """A call that brings rows: the whole history ``hist`` of ``epoch``'s master, or what follows ``base``."""

    source: int
    target: int
    epoch: int
    base: tuple[int, int] | None
    hist: History
    rows: Any
    pruned: int


class Variant(NamedTuple):
    """The rules as they stand; each can be broken, to see that it is needed."""

    ack: str = "quorum"  # quorum | early: at the master's own write
    epochs: bool = True  # nodes refuse calls of lower epochs
    run: bool = True  # an epoch is (number, run); else equal numbers pass
    voters: str = "newest"  # newest | own: set that the new master counts in
    allnodes: bool = False  # also half plus one of all nodes must promise
    newest: str = "epoch"  # epoch, then seq | length
    first: bool = True  # an adopted history gets an entry of the new epoch before anything is acknowledged
    step: int = 1  # voters changed at a time
    count: str = "new"  # new | both: sets in which a change of the set is counted
    offline: bool = False  # with both: a removal counts the new set only
    stacked: str = "back"  # after an unacknowledged change of the set: no | back (to the set before) | any
    line: bool = True  # catch-up only along the line; else by seq alone
    pruned: bool = True  # catch-up only from behind no pruned deletion; else a full copy
    older: bool = True  # a call that brings nothing newer changes nothing
    ids: bool = True  # an empty database is another voter
    again: bool = True  # forced start: those that answered are asked again after the administrator's word
    vouched: str = "nodes"  # forced start: silent nodes | voters | none stay off until the new master reaches them
    kept: bool = True  # what was pruned in the own rows stays so when only part of a history is fetched


SOUND = Variant()


class Ops:
    """Small numbers: 0 is the first entry of an epoch, 1..49 a write to key op % 2, 50.. a deletion of key op % 2, negative
    the voters' bits.  Rows are a pair of (seq, value).
    """

    empty: Any = ((0, 0), (0, 0))

    @staticmethod
    @functools.cache
    def Sets(hist: History) -> tuple[tuple[int, int], ...]:
        """Return positions (seq, bits) of all voter rows, oldest first."""
        return tuple((i + 1, -op) for i, (_, op) in enumerate(hist) if op < 0)

    @staticmethod
    @functools.cache
    def Replay(hist: History) -> Any:
        """Return the values that a history makes."""
        rows = [0, 0]
        for _, op in hist:
            if op > 0:
                rows[op % 2] = op if op < 50 else 0
        return tuple(rows)

    @staticmethod
    def Values(rows: Any) -> Any:
        return tuple(value for _, value in rows)

    @staticmethod
    def Apply(rows: Any, seq: int, op: Any) -> Any:
        """Return the rows after one more entry."""
        if op <= 0:
            return rows
        new = list(rows)
        new[op % 2] = (seq, op if op < 50 else 0)
        return tuple(new)

    @staticmethod
    def Merge(mine: Any, rows: Any, after: int) -> Any:
        """Return the own rows with those of another that were written after a seq."""
        return tuple(s if s[0] > after else d for s, d in zip(rows, mine, strict=True))

    @staticmethod
    def Drop(rows: Any, up_to: int) -> Any:
        """Return the rows without deletions up to a seq."""
        return tuple((0, 0) if seq <= up_to and not value else (seq, value) for seq, value in rows)


def Last(hist: History) -> tuple[int, int]:
    return (hist[-1][0], len(hist)) if hist else (0, 0)


def Quorum(bits: int, have: int) -> bool:
    return (bits & have).bit_count() >= bits.bit_count() // 2 + 1


class Rules:
    """One variant of the rules, over one kind of ops."""

    def __init__(self, variant: Variant, ops: Ops | None = None):
        self.r = variant
        self.ops = ops or Ops()

    def Voters(self, hist: History) -> int:
        """Return the set in force: the newest that is written, acknowledged or not (rule 4)."""
        sets = self.ops.Sets(hist)
        return sets[-1][1] if sets else 0

    def Counted(self, hist: History, ack: int, have: int) -> bool:
        """Whether nodes ``have`` are enough to acknowledge a history up to its end (rule 2)."""
        bits = self.Voters(hist)
        if not Quorum(bits, have):
            return False
        if self.r.count == "both":
            sets = self.ops.Sets(hist)
            for (_, old), (seq, new) in itertools.pairwise(sets):
                if seq > ack and not Quorum(old, have) and not (self.r.offline and new & ~old == 0):
                    return False
        return True

    def MayCount(self, hist: History, seq: int, epoch: int) -> bool:
        """Whether a master counts who holds ``seq``: only what its own epoch wrote (rule 2)."""
        return not self.r.first or hist[seq - 1][0] == epoch

    def MayWrite(self, hist: History, ack: int) -> bool:
        """Whether a master may begin an ordinary transaction: none is under way (rule 1)."""
        return bool(ack) and ack == len(hist)

    def MaySet(self, hist: History, ack: int, bit: int, new: int) -> bool:
        """Whether a master, voter ``bit``, may change the set to ``new`` (rule 4)."""
        marks = self.ops.Sets(hist)
        if not ack or not new & bit or (marks[-1][1] ^ new).bit_count() != self.r.step:
            return False
        free = marks[-1][0] <= ack
        back = len(marks) > 1 and new == marks[-2][1]
        return free or self.r.stacked == "any" or (self.r.stacked == "back" and back)

    def Base(self, source: Node, node: Node) -> tuple[int, int] | None:
        """Return (epoch, seq) from which ``node`` can catch up from ``source``, None for a full copy (rule 3)."""
        last = Last(node.hist)
        if last[1] > len(source.hist):
            return None
        if self.r.line and last[1] and source.hist[last[1] - 1][0] != last[0]:
            return None
        if self.r.pruned and last[1] < source.pruned:
            return None
        return last

    def Receive(self, node: Node, msg: Message) -> tuple[Node, bool]:
        """Return the node after a call that brings rows, and whether it has them (rule 3)."""
        if (self.r.epochs and msg.epoch < node.prom) or node.off > msg.epoch:
            return node, False
        last = Last(node.hist)
        if last == Last(msg.hist) or (self.r.older and last[0] == msg.epoch and last[1] >= len(msg.hist)):
            new = node
        elif msg.base is None:
            new = node._replace(hist=msg.hist, rows=msg.rows, pruned=msg.pruned)
        elif last != msg.base:
            return node, False
        else:
            new = node._replace(hist=msg.hist, rows=self.ops.Merge(node.rows, msg.rows, msg.base[1]))
        new = new._replace(prom=max(msg.epoch, node.prom), off=0)
        if msg.epoch > node.prom and node.role and node.role[1] < msg.epoch:
            new = new._replace(role=0)
        return new, True

    def Enough(self, bits: int, bit: int, have: int, promised: int, nodes: int) -> bool:
        """Whether voter ``bit`` may become master by promises of ``have``, in the set ``bits`` (rule 5)."""
        if self.r.allnodes and promised < nodes // 2 + 1:
            return False
        return bool(bits & bit) and Quorum(bits, have)

    def Adopted(self, source: Node, me: Node, entry: History) -> Node:
        """Return a new master with the history of ``source`` and its own first entry on top (rule 5)."""
        base = self.Base(source, me)
        rows, pruned = source.rows, source.pruned
        if base is not None and source is not me:
            rows = self.ops.Merge(me.rows, source.rows, base[1])
            pruned = me.pruned if self.r.kept else source.pruned
        hist = source.hist + entry
        for _, op in entry:
            rows = self.ops.Apply(rows, len(hist), op)
        return me._replace(hist=hist, rows=rows, pruned=pruned)

    def Pruned(self, node: Node, up_to: int) -> Node:
        """Return a node that has dropped its deletions up to a seq."""
        return node._replace(rows=self.ops.Drop(node.rows, up_to), pruned=up_to)

    def WrongRows(self, node: Node) -> str:
        """Say how a node's rows differ from the replay of its history; empty if they do not."""
        held, wanted = self.ops.Values(node.rows), self.ops.Replay(node.hist)
        return "" if held == wanted else f"it holds {held}, its history says {wanted}"
