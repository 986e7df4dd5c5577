"""The master daemon as it stands in the simulation: the real parts, each of which a planted bug may replace."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulation.harness import cluster as harness
from simulation.master.watch import WatchedTransport

from ganeti import runtime
from ganeti.config import ConfigWriter
from ganeti.jqueue import JobQueue
from ganeti.server import opening
from ganeti.server.master import Master
from ganeti.store import Member, Store, StoreError
from ganeti.store.base import MasterLost
from ganeti.store.files import export
from ganeti.store.files.edits import HandEdits
from ganeti.store.relay import Passer

if TYPE_CHECKING:
    from simulation.master.machines import MasterNode


class WatchedOpener(opening.Opener):
    """Tells the cluster's book-keepers of the opened store before anybody else sees it."""

    def __init__(self, node: MasterNode, *args: Any):
        super().__init__(*args)
        self._node = node
        self.election_class = node.cluster.parts.election
        self.edits_class = node.cluster.parts.edits

    def Open(self) -> tuple[Store, Member]:
        store, me = super().Open()
        self._node.cluster.Opened(self._node, store, self._own)
        return store, me


class SimulatedMaster(Master):
    """A master whose calls go over the simulated network, and whose job executions are counted."""

    def __init__(self, node: MasterNode, wishes: opening.Wishes, ended: Callable[[StoreError], None]):
        cluster, parts = node.cluster, node.cluster.parts
        side: Any = runtime.CurrentSide()
        process = side.process

        def lost(error: StoreError) -> None:
            cluster.Note(f"{node.name}: the master hears: {error}")
            if isinstance(error, MasterLost):
                cluster.watch.Refused(process)
            ended(error)

        self.transport_class = lambda: WatchedTransport(cluster.network, cluster.watch)
        self.node_store_class = parts.node_store
        self.opener_class = lambda *args: WatchedOpener(node, *args)  # type: ignore[assignment]
        self.config_class = parts.config
        self.queue_class = lambda store, execute, *args, **more: parts.queue(  # type: ignore[assignment]
            store, cluster.jobs.Counted(execute, process), *args, **more
        )
        self.exporter_class = parts.exporter
        super().__init__(wishes, lost)


class MasterParts(harness.Parts):
    """What nodes and masters are made of."""

    master: Callable[..., Master] = SimulatedMaster
    config: type[ConfigWriter] = ConfigWriter
    queue: type[JobQueue] = JobQueue
    exporter: type[export.Exporter] = export.Exporter
    edits: type[HandEdits] = HandEdits
    passer: type[Passer] = Passer
