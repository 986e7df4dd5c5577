"""What the getters of fields work on: the configuration, and what was collected from outside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ganeti import constants, objects
from ganeti.params import runstate, units
from ganeti.query.base import NODATA, OFFLINE, Absent, NiceSort

# Parts of live data (Field.live).
LIVE_NODE = "node"  # node_info of the nodes concerned
LIVE_INSTANCE = "instance"  # all_instances_info of the nodes concerned
LIVE_CONSOLE = "console"  # instance_console_info
LIVE_LOCKS = "locks"  # the lock monitor
LIVE_EXPORTS = "exports"  # export_list of the nodes
LIVE_WATCHER = "watcher"  # the watcher's pause file
LIVE_OS = "os"  # os_diagnose of the nodes
LIVE_PROOF = "proof"  # node_info and all_instances_info of all nodes, and what follows from them
LIVE_OS_FACTS = "os-facts"  # os_extra_info of the nodes


class JobView(Protocol):
    """The job queue's view of one job; only ``id`` is set when the job does not exist."""

    id: int
    found: bool

    def FieldValue(self, name: str) -> Any:
        """Return the value of a job field of doc/reference/queries.md 3.5; None when it is not set."""


class ProofView(Protocol):
    """What the cluster can bear, by the uuids of nodes and groups; worked out when it is asked for."""

    def Offline(self, node: str) -> bool:
        """Return whether a node is offline or does not answer."""

    def LostBy(self, node: str) -> list[str]:
        """Return the names of the instances that would stay down if a node failed."""

    def WeakNodes(self, group: str) -> list[str]:
        """Return the uuids of the nodes whose failure would leave instances down."""

    def Room(self, group: str) -> int | None:
        """Return how many more standard instances fit; None if it takes too long to count."""


# Of one node: the payload of the call, or None when the call failed.


@dataclass
class Context:
    """Everything one query reads; the live parts are filled in between planning and reading.

    ``jobs(ids or None, archived)`` gives job views.  ``node_info``, ``instance_info``, ``exports``, ``os_info`` and
    ``os_facts`` map node uuids to payloads (None: the call failed); ``console`` maps instance names to console data; ``locks`` are rows of
    the lock monitor: (name, mode, owners, pending).
    """

    snapshot: objects.Snapshot
    jobs: Callable[[Sequence[int] | None, bool], list[JobView]] = lambda ids, archived: []
    node_info: dict[str, Any] = field(default_factory=dict)
    instance_info: dict[str, Any] = field(default_factory=dict)
    console: dict[str, Any] = field(default_factory=dict)
    locks: list[tuple[Any, ...]] = field(default_factory=list)
    exports: dict[str, Any] = field(default_factory=dict)
    os_info: dict[str, Any] = field(default_factory=dict)
    os_facts: dict[str, Any] = field(default_factory=dict)
    proof: ProofView | None = None
    watcher_pause: float | None = None
    drained: bool = False
    wants_archived: bool = False

    def Payload(self, source: Mapping[str, Any], node_uuid: str) -> Any:
        """Return what a node answered: its payload, OFFLINE or NODATA."""
        node = self.snapshot.nodes.get(node_uuid)
        if node is not None and node.offline:
            return OFFLINE
        payload = source.get(node_uuid)
        return NODATA if payload is None else payload

    def NodeName(self, uuid: str) -> str:
        node = self.snapshot.nodes.get(uuid)
        return uuid if node is None else node.name

    def NodeInstances(self, uuid: str) -> tuple[list[str], list[str]]:
        """Return the names of the instances that have the node as primary and as secondary, each in natural order.

        A reservation without a name is shown by its UUID.
        """
        primary, secondary = self.snapshot.NodeInstances(uuid)
        instances = self.snapshot.instances
        primaries, secondaries = ([instances[i].name or i for i in some] for some in (primary, secondary))
        return NiceSort(primaries), NiceSort(secondaries)

    def GroupName(self, uuid: str) -> str:
        group = self.snapshot.nodegroups.get(uuid)
        return uuid if group is None else group.name


def StorageNumber(payload: Any, key: str, spindles: bool) -> Any:
    """Return a number of the first storage unit of a node_info payload (noderpc 3.6)."""
    if isinstance(payload, Absent):
        return payload
    found = [unit for unit in payload[1] if units.Of(unit.get("type")).spindles == spindles]
    if not found or found[0].get(key) is None:
        return NODATA
    return found[0][key]


def HypervisorNumber(payload: Any, key: str) -> Any:
    """Return a number of the first hypervisor of a node_info payload."""
    if isinstance(payload, Absent):
        return payload
    if len(payload[2]) == 0 or payload[2][0] is None or payload[2][0].get(key) is None:
        return NODATA
    return payload[2][0][key]


def IsRunning(info: Mapping[str, Any]) -> bool:
    """Return whether the guest runs; a paused, unresponsive or sent one does not."""
    return bool(info.get("state") != constants.INST_USER_SHUTDOWN) and runstate.Of(info) == runstate.RUNNING


def IsThere(info: Mapping[str, Any]) -> bool:
    """Return whether a process has the guest, or may have it: not one that only sent it or waits for it."""
    return bool(info.get("state") != constants.INST_USER_SHUTDOWN) and runstate.Of(info) not in runstate.NOT_THE_GUEST
