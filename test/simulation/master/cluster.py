"""The cluster whose master is played: configuration, book-keepers, init and the administrator who fails over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from simulation.harness.cluster import Cluster, Node
from simulation.harness.ledger import Violation
from simulation.master.jobs import JobBook
from simulation.master.machines import CertificateOf, MasterNode, Uuid
from simulation.master.parts import MasterParts
from simulation.master.watch import CallWatch
from support import configs
from support.realcluster import MakeConfig

from ganeti import objects, ssconf

if TYPE_CHECKING:
    from simulated import World

    from ganeti.store import NodeStore, Store
    from ganeti.store.base import StoredRow

MASTER_IP = "10.0.99.99"
# Virtual seconds without a master after which an administrator orders a fail-over: while faults strike, and afterwards.
PATIENCE = 25.0
HEALED_PATIENCE = 200.0
WORKERS = 4


def Configuration(count: int, candidates: int) -> objects.Snapshot:
    """A 3.1 cluster of fake instances without disks."""
    names = [f"node{number}" for number in range(1, count + 1)]
    root = MakeConfig(names, [f"10.0.0.{number}" for number in range(1, count + 1)], MASTER_IP, candidates)
    certs = {Uuid(number): CertificateOf(f"node{number}") for number in range(1, candidates + 1)}
    cluster = root.cluster.Replace(
        max_running_jobs=WORKERS,
        modify_ssh_setup=False,
        modify_etc_hosts=False,
        candidate_pool_size=candidates,
        candidate_certs=certs,
        tags=[],
    )
    example = configs.Example().instances[configs.WEB]
    nodes = {Uuid(number): root.nodes[configs.Uuid(99 + number)].Replace(tags=[]) for number in range(1, count + 1)}
    instances = {
        configs.Uuid(500 + number): example.Replace(
            uuid=configs.Uuid(500 + number),
            name=f"inst{number}.example.com",
            primary_node=Uuid(1 + number % count),
            hypervisor="fake",
            hvparams={},
            beparams={},
            disks=[],
            nics=[],
            admin_state="down",
            disks_active=False,
            network_port=None,
            tags=[],
        )
        for number in range(2)
    }
    return root.Replace(cluster=cluster, nodes=nodes, instances=instances)


class MasterCluster(Cluster):
    """All of it; ``jobs`` and ``watch`` see what happens on all machines."""

    node_class = MasterNode
    nodes: list[MasterNode]  # type: ignore[assignment]
    parts: type[MasterParts]

    def __init__(
        self, world: World, count: int, candidates: int, workload: Any, parts: type[MasterParts] = MasterParts
    ):
        self.jobs = JobBook(self)
        self.watch = CallWatch(lambda: self.world.elapsed, self.Check)
        self._masterless_since: float | None = None
        self.human = 0
        # Somebody works at the files of the master: init starts nothing meanwhile.
        self.hands_on = False
        self.edits = 0
        # Where the newest edit lies, until another node tries to be master.
        self.edited_on = ""
        self.last_full = -math.inf  # when a disk was full
        super().__init__(world, count, candidates, workload, parts, exporting=True)
        self.snapshot = Configuration(count, candidates)

    def Found(self) -> None:
        """The first start of our master on the files of release 3.1."""
        text = objects.ConfigText(self.snapshot).encode()
        for number, node in enumerate(self.nodes):
            node.PutFiles(self.snapshot, text if number == 0 else None)
        first = self.nodes[0]
        first.StartMasterd()
        self.world.Run(until=lambda: first.serving or not first.masterd.alive, max_steps=200_000)
        if not first.serving:
            raise AssertionError(f"the first master did not open: {self.ledger.events}")

    def Opened(self, node: Node, store: Store, own: NodeStore) -> None:
        super().Opened(node, store, own)
        self._NoteAdopted(node, own.ReadAll()[2])
        self.jobs.AdoptedFrom(store)
        store.Listen(lambda position, rows: self.jobs.Acknowledged(position.seq, rows))

    def _NoteAdopted(self, node: Node, rows: list[StoredRow]) -> None:
        """All that a master begins with is acknowledged, though nobody may have heard of some of it before."""
        ledger = self.ledger
        for row in rows:
            found = ledger.by_seq.setdefault(row.seq, (row.epoch, None))
            if found[0] != row.epoch:
                self.Fail(f"{node.name} has seq {row.seq} of epoch {row.epoch}, acknowledged was that of {found[0]}")
            key = (row.kind, row.id)
            if key not in ledger.newest or ledger.newest[key][0] <= row.seq:
                ledger.newest[key] = (row.seq, row.value)

    def SsconfTexts(self, rows: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        values = [(kind, row_id, value) for kind in objects.ROW_KINDS for row_id, value in rows.get(kind, {}).items()]
        return ssconf.Values(objects.Snapshot.FromRows(values))

    def Serving(self) -> list[MasterNode]:
        """Nodes whose master serves clients."""
        return [node for node in self.nodes if node.masterd is not None and node.masterd.alive and node.serving]

    def Supervise(self, period: float = 3.0) -> None:
        """Init on every node, and an administrator who waits for a while before he does something."""

        def look() -> None:
            for node in self.nodes:
                node.StartNoded()
            if not self.resting and (self.healed or not self.hands_on):
                for node in self.nodes:
                    node.StartMasterd()
                self._LookForMaster()
            self.world.Schedule(period * self.rng.uniform(0.5, 1.5), look)

        self.world.Schedule(period, look)

    def _LookForMaster(self) -> None:
        if self.Serving():
            self._masterless_since = None
            return
        if self._masterless_since is None:
            self._masterless_since = self.world.elapsed
        patience = HEALED_PATIENCE if self.healed else PATIENCE
        if self.world.elapsed - self._masterless_since > patience:
            self._masterless_since = self.world.elapsed
            self.human += self.healed
            self.StartSomeMaster()

    def EditRefused(self, node: MasterNode, reason: str) -> None:
        """A start refused an edited file; only where another master may have changed something may it do that."""
        if node.name == self.edited_on:
            self.Fail(f"{node.name} refuses an edit of the newest state: {reason}")

    def StartSomeMaster(self) -> None:
        """An administrator makes some node the master: as the manual says, or by starting a second master daemon."""
        up = [node for node in self.nodes if node.machine.on and node not in self.Serving()]
        if up:
            node = self.rng.choice(up)
            if self.healed or self.rng.random() < 0.4:
                node.FailOver()
            else:
                self.Note(f"{node.name}: masterd --take-over")
                node.StartMasterd(take_over=True)

    def Fail(self, text: str) -> None:
        def fail() -> None:
            raise Violation(text)

        self.Check(fail)
