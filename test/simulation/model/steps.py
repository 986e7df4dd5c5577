"""All steps that a small cluster can take by the rules: what a search for counterexamples walks through.

A crash is the loss of the role; a start may follow at any time on any node.  A call is lost, or executed with or without
its answer arriving; up to ``late`` calls of masters stay in the network: they arrive late, again, in any order.  A change
counts as acknowledged in the very step in which that becomes possible (the hardest case).

Checked in every state:
    chain   what masters acknowledged is one history; a master that opens holds all of it
    match   equal (epoch, seq) on two nodes means equal histories
    rows    a node's rows are the replay of its history

Corollary, not modelled: a job starts only after its ``running`` row is acknowledged, so that every later master sees it as
running and makes it an error: no finished or running job runs again.

Epochs are (number, run) packed as number * 16 + run; a voter's bit is node + N * store id.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from simulation.model.rules import History, Last, Message, Node, Ops, Rules, Variant

Nodes = tuple[Node, ...]
Label = tuple[Any, ...]


class Bounds(NamedTuple):
    """How much may happen: nodes, the first voters, and how many of each kind of step.  ``lost``: answers get lost."""

    n: int = 3
    v0: int = 7
    elections: int = 0
    writes: int = 0
    deletes: int = 0
    sets: int = 0
    late: int = 0
    wipes: int = 0
    forced: int = 0
    prunes: int = 0
    restores: int = 0
    lost: int = 1


class State(NamedTuple):
    """``net``: calls that may arrive at any time; ``acked``: what was acknowledged; ``left``: what may still happen."""

    nodes: Nodes
    net: tuple[Message, ...]
    acked: History
    left: Bounds


Step = tuple[Label, State, str | None]


class Model(Rules):
    """One set of rules within one set of bounds."""

    def __init__(self, variant: Variant, bounds: Bounds):
        super().__init__(variant)
        self.b = bounds
        self.n = bounds.n
        hist: History = ((16, -bounds.v0),)
        nodes = tuple(Node(16, hist if bounds.v0 >> i & 1 else (), Ops.empty, 0, 0, 0, 0) for i in range(self.n))
        match = tuple(1 if bounds.v0 >> i & 1 else 0 for i in range(self.n))
        nodes = (nodes[0]._replace(role=(2, 16, match, 1)), *nodes[1:])
        self.first = nodes[1]
        self.initial = State(nodes, (), hist, bounds)

    def Bit(self, i: int, node: Node) -> int:
        return 1 << (i + self.n * node.ident)

    def Ack(self, nodes: Nodes, i: int, acked: History) -> tuple[Nodes, History, str | None]:
        """Count for master ``i``: nodes, what is acknowledged, violation."""
        m = nodes[i]
        _, epoch, match, ack = m.role
        size = len(m.hist)
        for seq in range(size, ack, -1):
            if not self.MayCount(m.hist, seq, epoch):
                break
            have = 0
            for j, node in enumerate(nodes):
                if match[j] >= seq or j == i:
                    have |= self.Bit(j, node)
            if (self.r.ack == "early" and ack) or self.Counted(m.hist, ack, have):
                bad = None
                new = m.hist[:seq]
                if new[: len(acked)] == acked:
                    acked = new
                elif not ack or acked[: len(new)] != new:
                    bad = f"chain: master {i} acknowledges {Show(new)}, acknowledged was {Show(acked)}"
                return _Put(nodes, i, m._replace(role=(2, epoch, match, seq))), acked, bad
        return nodes, acked, None

    def Steps(self, state: State) -> Iterator[Step]:
        """Yield every step: label, the state after it, violation."""
        top = max(node.prom for node in state.nodes)
        for i, me in enumerate(state.nodes):
            yield from self._Happenings(state, i, top)
            if not me.role:
                continue
            if me.role[0] == 1:
                yield from self._Candidate(state, i)
            else:
                yield from self._Master(state, i)
        for msg in state.net:
            yield from self._Deliver(state, msg, "late")

    def _Happenings(self, state: State, i: int, top: int) -> Iterator[Step]:
        """What happens to a node by itself: a start, a lost or restored disk, pruning."""
        nodes, _, _, left = state
        me = nodes[i]
        bit = self.Bit(i, me)
        # A start: a voter in its own view asks for promises.
        if left.elections and not me.off and self.Voters(me.hist) & bit:
            run = self.b.elections - left.elections + 1 if self.r.run else 0
            for number in {me.prom // 16 + 1, top // 16 + 1}:
                epoch = number * 16 + run
                if epoch <= me.prom:
                    continue
                told = tuple((*Last(me.hist), self.Voters(me.hist), bit) if j == i else 0 for j in range(self.n))
                new = me._replace(prom=epoch, role=(1, epoch, told))
                yield ("start", i, "epoch {}.{}".format(*divmod(epoch, 16))), _With(state, i, new, "elections"), None
        if left.wipes:
            new = Node(0, (), Ops.empty, 0, me.ident + 1 if self.r.ids else me.ident, 0, 0)
            yield ("lost disk", i), _With(state, i, new, "wipes"), None
        if left.restores and me.hist != self.first.hist and self.b.v0 >> i & 1:
            yield ("restore old copy", i), _With(state, i, self.first._replace(role=0), "restores"), None
        if left.prunes and any(seq and not value for seq, value in me.rows):
            size = len(me.hist)
            voters = [x for j, x in enumerate(nodes) if self.Bit(j, x) & self.Voters(me.hist)]
            if self.r.pruned or all(x.hist[:size] == me.hist for x in voters):
                yield ("prune", i), _With(state, i, self.Pruned(me, size), "prunes"), None

    def _Master(self, state: State, i: int) -> Iterator[Step]:
        nodes, net, acked, left = state
        me = nodes[i]
        _, epoch, match, ack = me.role
        if self.r.epochs and me.prom != epoch:
            return
        bit = self.Bit(i, me)
        if self.MayWrite(me.hist, ack):
            if left.writes:
                op = self.b.writes - left.writes + 1
                yield self._Append(state, i, op, "writes", f"write w{op}")
            if left.deletes:
                op = 50 + left.deletes % 2
                yield self._Append(state, i, op, "deletes", f"delete key {op % 2}")
        if ack and left.sets:
            bits = self.Voters(me.hist)
            ids = [1 << (j + self.n * x.ident) for j, x in enumerate(nodes) if j != i]
            ids += [1 << b for b in range(3 * self.n) if bits >> b & 1 and 1 << b != bit and 1 << b not in ids]
            for combo in itertools.combinations(ids, self.r.step):
                new = bits
                for b in combo:
                    new ^= b
                if self.MaySet(me.hist, ack, bit, new):
                    yield self._Append(state, i, -new, "sets", "voters " + Bits(new))
        for j, x in enumerate(nodes):
            if j == i or match[j] >= len(me.hist) or not (left.sets or self.Voters(me.hist) & self.Bit(j, x)):
                continue
            msg = Message(i, j, epoch, self.Base(me, x), me.hist, me.rows, me.pruned)
            yield from self._Deliver(state, msg, "copy" if msg.base is None else "append")
            if left.late and msg not in net:
                late = tuple(sorted((*net, msg), key=repr))
                yield ("delay", i, j, Show(me.hist)), State(nodes, late, acked, _Less(left, "late")), None

    def _Append(self, state: State, i: int, op: int, kind: str, label: str) -> Step:
        me = state.nodes[i]
        hist = (*me.hist, (me.role[1], op))
        nodes = _Put(state.nodes, i, me._replace(hist=hist, rows=self.ops.Apply(me.rows, len(hist), op)))
        nodes, acked, bad = self.Ack(nodes, i, state.acked)
        return (label, i), State(nodes, state.net, acked, _Less(state.left, kind)), bad

    def _Deliver(self, state: State, msg: Message, word: str) -> Iterator[Step]:
        nodes, net, acked, left = state
        i, j = msg.source, msg.target
        new, stored = self.Receive(nodes[j], msg)
        if not stored:
            return
        after = _Put(nodes, j, new)
        bad = self.Look(after, j)
        if new != nodes[j] and (self.b.lost or word == "late"):
            yield (word + ", answer lost", i, j), State(after, net, acked, left), bad
        role, size = after[i].role, len(msg.hist)
        known = role and role[0] == 2 and role[1] == msg.epoch
        if known and role[2][j] < size and after[i].hist[:size] == msg.hist:
            match = _Put(role[2], j, size)
            after = _Put(after, i, after[i]._replace(role=(2, msg.epoch, match, role[3])))
            after, acked, worse = self.Ack(after, i, acked)
            yield (word, i, j), State(after, net, acked, left), bad or worse

    def _Candidate(self, state: State, i: int) -> Iterator[Step]:
        nodes = state.nodes
        me = nodes[i]
        _, epoch, told = me.role
        if me.prom != epoch and self.r.epochs:
            return
        for j, x in enumerate(nodes):
            if told[j] or x.off or (epoch <= x.prom if self.r.run else epoch < x.prom):
                continue
            new = x._replace(prom=epoch)
            if x.role and self.r.epochs and x.role[0] == 1:
                new = new._replace(role=0)
            if self.b.lost:
                yield ("promise, answer lost", i, j), state._replace(nodes=_Put(nodes, j, new)), None
            report = (*Last(x.hist), self.Voters(x.hist), self.Bit(j, x))
            cand = me._replace(role=(1, epoch, _Put(told, j, report)))
            yield ("promise", i, j), state._replace(nodes=_Put(_Put(nodes, j, new), i, cand)), None
        yield from self._Elect(state, i)

    def _Elect(self, state: State, i: int) -> Iterator[Step]:
        """Adopt the newest history told, if its voters promised."""
        nodes, left, me = state.nodes, state.left, state.nodes[i]
        _, epoch, told = me.role
        key = (lambda t: t[:2]) if self.r.newest == "epoch" else (lambda t: (t[1], t[0]))
        best = max((t for t in told if t), key=key)
        bits = best[2] if self.r.voters == "newest" else self.Voters(me.hist)
        have = 0
        for t in told:
            have |= t[3] if t else 0
        bit = self.Bit(i, me)
        for j, t in enumerate(told):
            if not t or t[:2] != best[:2]:
                continue
            source = nodes[j]
            if source.prom != epoch or Last(source.hist) != best[:2]:
                continue
            if self.Enough(bits, bit, have, sum(1 for t in told if t), self.n):
                yield self._Adopt(state, i, source, ((epoch, 0),) if self.r.first else (), ("adopt", i, j))
            if left.forced and bits & have & bit:
                vouched = self.r.vouched
                silent = [
                    k for k, x in enumerate(nodes) if not told[k] and (vouched == "nodes" or self.Bit(k, x) & bits)
                ]
                still = not self.r.again or all(x.prom == epoch for k, x in enumerate(nodes) if told[k])
                if still and (vouched == "none" or silent):
                    less = state._replace(left=_Less(left, "forced"))
                    yield self._Adopt(less, i, source, ((epoch, -(bits & have)),), ("force", i, j), silent)
            break

    def _Adopt(
        self, state: State, i: int, source: Node, entry: History, label: Label, silent: list[int] | None = None
    ) -> Step:
        nodes, net, acked, left = state
        me = self.Adopted(source, nodes[i], entry)
        match = tuple(len(me.hist) if k == i else 0 for k in range(self.n))
        nodes = _Put(nodes, i, me._replace(role=(2, nodes[i].role[1], match, 0)))
        if silent is not None:
            acked = source.hist
            if self.r.vouched != "none":
                for k in silent:
                    nodes = _Put(nodes, k, nodes[k]._replace(off=me.role[1], role=0))
        bad = self.Look(nodes, i)
        if not bad:
            nodes, acked, bad = self.Ack(nodes, i, acked)
        return label, State(nodes, net, acked, left), bad

    def Look(self, nodes: Nodes, j: int) -> str | None:
        """Say which invariant a store on node ``j`` broke."""
        x = nodes[j]
        wrong = self.WrongRows(x)
        if wrong:
            return f"rows: node {j}: {wrong} ({Show(x.hist)})"
        for k, y in enumerate(nodes):
            size = min(len(x.hist), len(y.hist))
            if k != j and size and x.hist[size - 1][0] == y.hist[size - 1][0] and x.hist[:size] != y.hist[:size]:
                return f"match: nodes {j} and {k} differ below the same (epoch, seq): {Show(x.hist)}, {Show(y.hist)}"
        return None


def _Put(seq: Any, i: int, value: Any) -> Any:
    return (*seq[:i], value, *seq[i + 1 :])


def _Less(left: Bounds, kind: str) -> Bounds:
    return left._replace(**{kind: getattr(left, kind) - 1})


def _With(state: State, i: int, node: Node, kind: str) -> State:
    return state._replace(nodes=_Put(state.nodes, i, node), left=_Less(state.left, kind))


def Bits(bits: int) -> str:
    return "{" + ",".join(str(i) for i in range(bits.bit_length()) if bits >> i & 1) + "}"


def Show(hist: History) -> str:
    """Return a history in words."""
    out = []
    for epoch, op in hist:
        name = "{}.{}".format(*divmod(epoch, 16))
        write = f"w{op}" if op < 50 else f"del{op % 2}"
        out.append(f"{name}:" + ("start" if op == 0 else write if op > 0 else "voters" + Bits(-op)))
    return "[" + " ".join(out) + "]"
