"""Clients of the store: changes of a few rows, of the voters, and calls that change something on nodes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from simulated.transport import SimulatedTransport
from simulation.harness.cluster import PROBE, Cluster, Node, Workload
from simulation.harness.ledger import ACKED, FAILED, UNKNOWN, Op, Violation

from ganeti import constants, errors, runtime, serializer
from ganeti.rpc.runner import RpcRunner
from ganeti.store import Member, NotKnown, Row, Store
from ganeti.store.base import KIND_ARCHIVED, Change, MasterLost, StoreError

KIND = "job"
KIND_CANDIDATE = "node"


class OpChange(Change):
    """The change of one Op; notes that it was prepared."""

    def __init__(self, op: Op):
        self.op = op

    def Prepare(self) -> list[Row]:
        self.op.prepared = True
        return self.op.rows

    def Withdraw(self) -> None:
        self.op.text = "withdrawn"


class Clients(Workload):
    """Some client threads at whoever is master, until ``changes`` have been asked for."""

    def __init__(self, rng: random.Random, changes: int, clients: int = 3):
        self._rng = rng
        self._members: list[Member] = []
        self._candidates: list[Member] = []
        self._left = changes
        self._clients = clients
        # Changes under way, by masterd; those of a dead one are over.
        self._working: dict[Any, int] = {}
        self.pause = (0.0, 1.5)
        self.voter_changes = 0.0
        self.probing = 0.0

    def SetMembers(self, members: list[Member], candidates: list[Member]) -> None:
        """All nodes, and who of them is a candidate at first."""
        self._members = members
        self._candidates = candidates

    def FirstRows(self) -> list[Row]:
        rows = [CandidateRow(member.uuid, True, 0) for member in self._candidates]
        return [*rows, _ConfigRow(0), Row("cluster", "cluster", '{"name":"cluster"}'), Row("queue", "serial", "0")]

    def Candidates(self, store: Store) -> Iterable[Member] | None:
        flags = store.Rows(KIND_CANDIDATE)
        return [m for m in self._members if m.uuid in flags and serializer.Load(flags[m.uuid])["candidate"]]

    def Handlers(self, node: Node) -> dict[str, Callable[..., Any]]:
        return {PROBE: lambda number: self._OnProbe(node, number)}

    def IsDone(self) -> bool:
        return self._left <= 0

    def Stop(self) -> None:
        self._left = 0

    def IsIdle(self) -> bool:
        return not any(count for process, count in self._working.items() if process is not None and process.alive)

    def Serve(self, node: Node, store: Store, ended: Any) -> None:
        for number in range(self._clients):
            runtime.Thread(self._Client, f"client-{number}", (node, store, ended)).start()

    def _Client(self, node: Node, store: Store, ended: Any) -> None:
        process = node.masterd
        runner = RpcRunner(
            SimulatedTransport(node.cluster.network), _Resolver(self._members), lambda: str(store.Epoch())
        )
        while self._left > 0 and not ended.is_set():
            self._left -= 1
            kind = self._rng.random()
            changing = not self.voter_changes <= kind < self.voter_changes + self.probing
            self._working[process] = self._working.get(process, 0) + changing
            if kind < self.voter_changes:
                self._ChangeVoters(node, store)
            elif kind < self.voter_changes + self.probing:
                self._Probe(node, store, runner)
            else:
                self._ChangeRows(node, store)
            self._working[process] -= changing
            runtime.Sleep(self._rng.uniform(*self.pause))

    def NewRowsOp(self, cluster: Cluster, key: str) -> Op:
        """A change of one row, for a scene."""
        return self._NewOp(cluster, lambda number: [Row(KIND, key, f'{{"op":{number}}}')])

    def Submit(self, node: Node, store: Store, op: Op) -> None:
        """Has a client of the master on ``node`` make the change."""
        assert node.masterd is not None
        thread = node.masterd.NewThread(lambda: self._Do(node, op, store.Commit), "client", ())
        node.cluster.world.Launch(thread)

    def _NewOp(self, cluster: Cluster, rows: Callable[[int], list[Row]]) -> Op:
        ledger = cluster.ledger
        op = Op(len(ledger.ops) + 1, [])
        op.rows = rows(op.number)
        ledger.ops.append(op)
        return op

    def _ChangeRows(self, node: Node, store: Store) -> None:
        def rows(number: int) -> list[Row]:
            what = self._rng.random()
            if what < 0.1:
                return [Row("instance", f"i{number % 4}", f'{{"op":{number}}}'), _ConfigRow(number)]
            keys = self._rng.sample(range(6), self._rng.choice((1, 1, 2)))
            if what < 0.2:
                archived = Row(KIND_ARCHIVED, str(keys[0]), f'{{"op":{number},"archived":{keys[0]}}}')
                return [Row(KIND, str(keys[0]), None), archived, Row("queue", "serial", str(number))]
            return [
                Row(KIND, str(key), None if self._rng.random() < 0.2 else f'{{"op":{number},"key":{key}}}')
                for key in keys
            ]

        op = self._NewOp(node.cluster, rows)
        patient = self._rng.random() < 0.2
        self._Do(node, op, lambda change: store.Commit(change, patient))

    def AskNow(self, cluster: Cluster) -> None:
        for node in cluster.Masters():
            store = cluster.open.get(node.name)
            if store is not None and node.masterd is not None:
                ask = node.masterd.NewThread(self._ChangeRows, "ask", (node, store))
                cluster.world.Launch(ask)

    def ReplaceVoter(self, cluster: Cluster) -> str:
        for node in cluster.Masters():
            store = cluster.open.get(node.name)
            others = [m for m in self._members if store is not None and m.uuid != node.member.uuid]
            voters = [m for m in others if store is not None and m.uuid in store.Voters()]
            if store is None or node.masterd is None or not voters:
                continue
            other = self._rng.choice(voters)

            def replace(node: Node = node, store: Store = store, other: Member = other) -> None:
                for _ in range(2):
                    self._ChangeVoter(node, store, other)

            cluster.world.Launch(node.masterd.NewThread(replace, "replace", ()))
            return other.name
        return ""

    def _ChangeVoters(self, node: Node, store: Store) -> None:
        self._ChangeVoter(
            node, store, self._rng.choice([member for member in self._members if member.uuid != node.member.uuid])
        )

    def _ChangeVoter(self, node: Node, store: Store, other: Member) -> None:
        is_in = other.uuid in store.Voters()
        op = self._NewOp(node.cluster, lambda number: [CandidateRow(other.uuid, not is_in, number)])
        if is_in:
            self._Do(node, op, lambda change: store.RemoveVoter(other.uuid, change, 20.0))
        else:
            self._Do(node, op, lambda change: store.AddVoter(other, change, 20.0))

    def _Do(self, node: Node, op: Op, commit: Callable[[Change], None]) -> None:
        try:
            commit(OpChange(op))
        except NotKnown as err:
            op.outcome, op.text = UNKNOWN, str(err)
        except MasterLost as err:
            op.outcome, op.text = (UNKNOWN if err.sent else FAILED), str(err)
        except StoreError as err:
            op.outcome, op.text = (UNKNOWN if "not known" in str(err) else FAILED), str(err)
        else:
            op.outcome = ACKED
        node.cluster.Note(f"op {op.number} {op.rows}: {op.outcome} {op.text}")

    # Calls that change something on a node

    def _Probe(self, node: Node, store: Store, runner: Any) -> None:
        target = self._rng.choice(self._members)
        try:
            store.ConfirmNodes([target.uuid], 10.0)
        except errors.GenericError:
            return
        runner.call_set_watcher_pause([target.uuid], float(store.Epoch().number))

    def _OnProbe(self, node: Node, number: float) -> None:
        """What a call does on a node: it takes a while, and none of an older epoch may begin after a newer one."""
        call = (number, runtime.RandomBytes(4))
        for other, _ in node.probes:
            if other != number:
                node.cluster.Check(_Fail, f"on {node.name} calls of epochs {other} and {number} run at the same time")
        node.probes.append(call)
        try:
            runtime.Sleep(runtime.Random().uniform(0.0, 3.0))
        finally:
            node.probes.remove(call)


def _Fail(text: str) -> None:
    raise Violation(text)


def CandidateRow(uuid: str, candidate: bool, number: int) -> Row:
    return Row(KIND_CANDIDATE, uuid, serializer.Dump({"candidate": candidate, "op": number}))


def _ConfigRow(number: int) -> Row:
    top = {"version": constants.CONFIG_VERSION, "ctime": 1.5, "mtime": 1.5 + number, "serial_no": number + 1}
    return Row("config", "config", serializer.Dump(top))


class _Resolver:
    def __init__(self, members: list[Member]):
        self._members = {member.uuid: member for member in members}

    def __call__(self, node: str) -> tuple[str, str, int, bool, str]:
        member = self._members[node]
        return (member.name, member.address, 1811, False, member.uuid)
