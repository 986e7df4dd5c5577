"""Simulated nodes with their daemons, and the supervisor that starts masters."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from simulated import Machine, Process, World
from simulated.transport import Network, ServeCalls, SimulatedTransport
from simulation.harness.ledger import Ledger, Violation
from simulation.harness.oracle import Look, Oracle

from ganeti import errors, runtime
from ganeti.rpc.server import Dispatcher
from ganeti.store import Member, NodeStore, Position, Row, Store, StoreError, election
from ganeti.store.base import Line, StoredRow
from ganeti.store.files import adopt, export

CLUSTER = "00000001-aaaa-4bbb-8ccc-000000000001"
STORE_PATH = "/var/lib/ganeti/ext/store.db"
CALLS_DIR = "/run/ganeti/ext/calls"
# A changing procedure of the table; the harness's nodes only note who calls it.
PROBE = "set_watcher_pause"


def SsconfTexts(rows: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Values of ssconf files that follow from the rows alone."""
    return {"node_list": "\n".join(sorted(rows.get("node", {}))), "cluster_name": rows["cluster"]["cluster"]}


class Parts:
    """The classes a cluster is made of; a planted bug replaces one by a subclass."""

    node_store: type[NodeStore] = NodeStore
    election: type[election.Election] = election.Election


class Node:
    """A machine and its daemons."""

    def __init__(self, cluster: Cluster, number: int):
        self.cluster = cluster
        self.machine: Machine = cluster.world.AddMachine(f"node{number}")
        self.member = Member(f"{number:08x}-aaaa-4bbb-8ccc-0000000000aa", self.machine.name, self.machine.address)
        self.noded: Process | None = None
        self.masterd: Process | None = None
        self.exporter: Process | None = None
        # Running probe calls on this node: epoch texts.
        self.probes: list[Any] = []
        self.finishing = False
        self.stopping = self.stopped = False
        self.ended: Any = None
        # Procedures whose calls this node never sees, and how many it did not.
        self.deaf_to: tuple[str, ...] = ()
        self.ignored = 0

    @property
    def name(self) -> str:
        return self.machine.name

    def NewStore(self) -> NodeStore:
        return self.cluster.parts.node_store(STORE_PATH, self.name, CALLS_DIR)

    def StartNoded(self) -> None:
        if self.machine.on and (self.noded is None or not self.noded.alive):
            self.noded = self.machine.StartProcess(self._Noded, "noded")
        if self.cluster.exporting and self.machine.on and (self.exporter is None or not self.exporter.alive):
            self.exporter = self.machine.StartProcess(self._Export, "exporter")

    def _Export(self) -> None:
        export.RunExporter(export.Exporter(self.NewStore(), export.Owners(), SsconfTexts), lambda: False)

    def _Noded(self) -> None:
        own = self.NewStore()
        handlers = {**own.Handlers(), **self.cluster.workload.Handlers(self)}
        handlers = {name: self._Hearing(name, handler) for name, handler in handlers.items()}
        ServeCalls(self.cluster.network, Dispatcher(handlers, own))

    def _Hearing(self, name: str, handler: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            if name in self.deaf_to:
                self.ignored += 1
                raise errors.GenericError("this node does not hear")
            return handler(*args)

        return run

    def StartMasterd(self, **options: Any) -> None:
        if self.machine.on and (self.masterd is None or not self.masterd.alive):
            self.finishing = self.stopping = self.stopped = False
            self.cluster.open.pop(self.name, None)
            self.masterd = self.machine.StartProcess(lambda: self._Masterd(**options), "masterd")

    def _Masterd(self, found: bool = False, **options: Any) -> None:
        cluster = self.cluster
        own = self.NewStore()
        transport = SimulatedTransport(cluster.network)
        ended = self.ended = runtime.Event()
        holder: list[Store] = []

        def candidates() -> Iterable[Member] | None:
            return cluster.workload.Candidates(holder[0]) if holder else None

        common: dict[str, Any] = {
            "lost": lambda error: ended.set(),
            "resolve": cluster.Resolve,
            "election_class": cluster.parts.election,
            **options,
        }
        try:
            if found:
                store = adopt.FoundStore(
                    own,
                    self.member,
                    CLUSTER,
                    cluster.members,
                    cluster.first_candidates,
                    cluster.workload.FirstRows(),
                    transport,
                    candidates_now=candidates,
                    **common,
                )
            else:
                store = election.BecomeMaster(
                    own, self.member, cluster.members, transport, candidates=candidates, **common
                )
        except (errors.GenericError, OSError) as err:
            cluster.Note(f"{self.name} does not become master: {err}")
            return
        holder.append(store)
        cluster.Opened(self, store, own)
        try:
            exporter = self._StartExporterThread(own, store)
        except OSError as err:
            cluster.Note(f"{self.name} cannot write its files and gives up: {err}")
            return
        cluster.workload.Serve(self, store, ended)
        ended.wait()
        if exporter is not None and self.stopping:
            exporter.Stop()
            self.stopped = True
        cluster.Note(f"{self.name} is no longer master in epoch {store.Epoch()}")

    def _StartExporterThread(self, own: NodeStore, store: Store) -> export.ExporterThread | None:
        if not self.cluster.exporting:
            return None
        exporter = export.ExporterThread(export.Exporter(own, export.Owners(), SsconfTexts, serving=True), store)
        exporter.Start()
        return exporter

    def StopMasterd(self) -> None:
        """Asks masterd to stop cleanly: what is under way is ended, then the files are made exact."""
        store = self.cluster.open[self.name]
        self.stopping = True

        def stop() -> None:
            if not store.Stop(30.0):
                self.cluster.Note(f"{self.name} did not stop cleanly")
            self.ended.set()

        assert self.masterd is not None
        self.cluster.world.Launch(self.masterd.NewThread(stop, "stop", ()))

    def Restart(self) -> None:
        """Power on and daemons up."""
        if not self.machine.on:
            self.machine.PowerOn()
        self.StartNoded()

    def Read(self) -> tuple[Any, Line, list[StoredRow]]:
        """This node's copy, read by a process of its own."""
        return self.machine.Call(lambda: NodeStore(STORE_PATH, self.name, CALLS_DIR).ReadAll())


class Workload:
    """What a master does for its clients; the store's own is in ``clients``.  Others override it for jobs and configuration."""

    # Chance of a change to be one of the voters.
    voter_changes = 0.0

    def Handlers(self, node: Node) -> dict[str, Callable[..., Any]]:
        """Further procedures of a node."""
        del node
        return {}

    def FirstRows(self) -> list[Row]:
        """The rows of the first history."""
        return []

    def Candidates(self, store: Store) -> Iterable[Member] | None:
        """Who is to be a voter, by what is acknowledged."""
        del store
        return None

    def AskNow(self, cluster: Cluster) -> None:
        """Have somebody ask the master for a change at this moment, where that can be done."""

    def ReplaceVoter(self, cluster: Cluster) -> str:
        """Have the master take a voter out and in again; say which, or nothing where that cannot be asked for."""
        del cluster
        return ""

    def Serve(self, node: Node, store: Store, ended: Any) -> None:
        """Called on masterd's first thread when the master has opened; must not block."""
        raise NotImplementedError

    def IsDone(self) -> bool:
        """Whether clients have nothing left to ask."""
        raise NotImplementedError

    def Stop(self) -> None:
        """Nothing new is asked any more."""
        raise NotImplementedError

    def IsIdle(self) -> bool:
        """Whether nothing that was asked of a living master is under way."""
        raise NotImplementedError


class Cluster:
    """All of it.  ``rng`` is the run's own chance, apart from the world's."""

    node_class: type[Node] = Node

    def __init__(
        self,
        world: World,
        count: int,
        candidates: int,
        workload: Workload,
        parts: type[Parts] = Parts,
        exporting: bool = False,
    ):
        self.world = world
        self.exporting = exporting
        self.parts = parts
        self.network = Network(world)
        self.workload = workload
        self.ledger = Ledger()
        self.oracle = Oracle(self._NotAllowed, lambda: self.forced)
        self.rng = random.Random(f"harness {world.seed}")
        self.nodes = [self.node_class(self, number) for number in range(1, count + 1)]
        self.members = [node.member for node in self.nodes]
        self.first_candidates = self.members[:candidates]
        self.violation: Violation | None = None
        self.open: dict[str, Store] = {}
        self.disk_lost = False
        # The next master opens by a forced start: changes that only silent nodes hold are given up.
        self.forced = False
        self.given_up = 0
        # From now on no fault strikes any more.
        self.healed = False
        # No master is started any more.
        self.resting = False
        for node in self.nodes:
            self._Watch(node)
            node.StartNoded()

    def _Watch(self, node: Node) -> None:
        """Have the oracle look at every transaction of a node's store."""

        def committed(path: str, look: Look) -> None:
            if path == STORE_PATH:
                self.oracle.Committed(node.name, look)

        node.machine.committed = committed

    def _NotAllowed(self, text: str) -> None:
        def fail() -> None:
            raise Violation(text)

        self.Check(fail)

    def Resolve(self, node: str) -> tuple[str, str, int, bool, str]:
        """Where a node is, as the configuration would tell."""
        (member,) = [member for member in self.members if node in (member.uuid, member.name)]
        return (member.name, member.address, 1811, False, member.uuid)

    def Note(self, text: str) -> None:
        self.ledger.events.append(f"{self.world.elapsed:9.4f} {text}")
        logging.debug("%s", text)

    def Check(self, check: Callable[..., None], *args: Any) -> None:
        """Does a check inside a simulated thread; the first violation ends the run."""
        try:
            check(*args)
        except Violation as err:
            if self.violation is None:
                self.violation = err
            self.Note(f"VIOLATION {err}")

    def Opened(self, node: Node, store: Store, own: NodeStore) -> None:
        """A master has opened."""
        self.Note(f"{node.name} is master in epoch {store.Epoch()}, voters {store.Voters().Names()}")
        self.ledger.masters.append((node.name, store.Epoch()))
        state, line, rows = own.ReadAll()
        if state.promised != store.Epoch():
            # It was paused while it opened, and a newer master has this copy now, perhaps emptied: it can acknowledge
            # nothing, and what it reads here is not what it opened with.
            self.Note(f"{node.name} was overtaken by epoch {state.promised} while it opened")
            return
        if self.forced:
            self.forced = False
            self.given_up = self.ledger.GiveUp(line)
        self.Check(self.ledger.CheckMaster, node.name, store.Epoch(), line, rows)
        self.Check(self.ledger.Opened, store.Epoch(), line)
        self.open[node.name] = store
        self.Check(self.oracle.CheckPublished, Position(store.Epoch(), dict(line.entries)[store.Epoch()]))
        store.Listen(lambda position, changed: self._Acknowledged(position, list(changed)))

    def _Acknowledged(self, position: Position, rows: list[Row]) -> None:
        """A master shows a transaction to its readers."""
        self.Check(self.oracle.CheckPublished, position)
        self.Check(self.ledger.Acknowledged, position, rows)

    def Found(self) -> None:
        """Makes the first history, on the first node."""
        self.nodes[0].StartMasterd(found=True)
        self.world.Run(until=lambda: self.open or not self.nodes[0].masterd.alive, max_steps=100_000)
        if not self.open:
            raise AssertionError(f"the first master did not open: {self.ledger.events}")

    def SsconfTexts(self, rows: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        """What ssconf files must hold by these rows."""
        return SsconfTexts(rows)

    def Masters(self) -> list[Node]:
        return [node for node in self.nodes if node.masterd is not None and node.masterd.alive]

    def Supervise(self, period: float = 2.0) -> None:
        """What init and the administrator do: starts daemons that died; from now on, by itself."""

        seen: list[int] = [0]

        def look() -> None:
            for node in self.nodes:
                node.StartNoded()
            stands_still = len(self.ledger.by_seq) == seen[0] and not self.workload.IsIdle()
            seen[0] = len(self.ledger.by_seq)
            if self.resting:
                pass
            elif not self.Masters() or (stands_still and not self.healed and self.rng.random() < 0.2):
                self.StartSomeMaster()
            self.world.Schedule(period * self.rng.uniform(0.5, 1.5), look)

        self.world.Schedule(period, look)

    def StartSomeMaster(self) -> None:
        up = [node for node in self.nodes if node.machine.on and not (node.masterd is not None and node.masterd.alive)]
        if up:
            node = self.rng.choice(up)
            self.Note(f"masterd starts on {node.name}")
            node.StartMasterd()


__all__ = ["Cluster", "Node", "Parts", "StoreError", "Workload"]
