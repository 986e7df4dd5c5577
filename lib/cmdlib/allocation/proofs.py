"""What the cluster can bear, for verifications and queries: which nodes may fail, and how many instances still fit."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ganeti import runtime
from ganeti.cmdlib.allocation import model
from ganeti.cmdlib.allocation.clusterdata import ClusterData, FromAnswers
from ganeti.htools.model.entities import Group
from ganeti.htools.sources import loading
from ganeti.htools.sources.loading import LoadError
from ganeti.htools.survival import proof, remedy

if TYPE_CHECKING:
    from ganeti import objects

ROOM_LIMIT = 100
"""Instances that are counted, at most; a bigger group would keep the master daemon busy for long."""
ROOM_SECONDS = 20.0
"""How long they are counted, from the making of a proof on."""
_SILENT = "it does not answer"


class Proof:
    """Answers about one moment, each worked out when it is asked for, once."""

    def __init__(self, data: ClusterData):
        """Raise LoadError for a cluster that cannot be made a model of."""
        self._data = data
        self._snapshot = data.snapshot
        self._cluster = loading.Build(model.MakeRaw(data, model.Memory()), loading.Wishes())
        self._places = {node.facts.name: node.index for node in self._cluster.state.nodes.values()}
        self._losses: dict[str, Sequence[proof.Loss]] = {}
        self._rooms: dict[str, int | None] = {}
        self._end = runtime.Monotonic() + ROOM_SECONDS

    def Offline(self, uuid: str) -> bool:
        """Return whether a node is offline or does not answer."""
        return self._data.Offline(self._snapshot.nodes[uuid])

    def _Group(self, uuid: str) -> Group:
        return next(group for group in self._cluster.groups if group.uuid == uuid)

    def Losses(self, uuid: str) -> Sequence[proof.Loss]:
        """Return the instances that would stay down if a node failed."""
        known = self._losses.get(uuid)
        if known is None:
            place = self._places[self._snapshot.NodeName(uuid)]
            known = self._losses[uuid] = tuple(proof.Losses(self._cluster.state, place))
        return known

    def LostBy(self, uuid: str) -> list[str]:
        return [loss.instance for loss in self.Losses(uuid)]

    def Remedies(self, uuid: str, losses: Sequence[proof.Loss]) -> list[str]:
        """Return what would help each of these instances that a node's failure leaves down; it takes long for many."""
        place = self._places[self._snapshot.NodeName(uuid)]
        templates = self._snapshot.cluster.enabled_disk_templates
        return list(remedy.Remedies(self._cluster.state, place, losses, templates))

    def WeakNodes(self, group: str) -> list[str]:
        """Return the uuids of the nodes of a group whose failure would leave instances down."""
        nodes = self._snapshot.GroupNodes(group)
        return [uuid for uuid in nodes if not self.Offline(uuid) and self.Losses(uuid)]

    def Room(self, group: str) -> int | None:
        """Return how many more standard instances fit into a group, ROOM_LIMIT at most; None if it takes too long to count."""
        if group not in self._rooms:
            self._rooms[group] = self._CountRoom(self._Group(group))
        return self._rooms[group]

    def _CountRoom(self, group: Group) -> int | None:
        template = proof.TemplateFor(group, self._snapshot.cluster.enabled_disk_templates)
        size = proof.StandardSize(group)
        try:
            room = proof.Fitting(
                self._cluster, group, template, size, ROOM_LIMIT, lambda: runtime.Monotonic() > self._end
            )
        except TimeoutError as err:
            logging.warning("How many more instances fit into group %s is not known: %s", group.name, err)
            return None
        if room.given_up:
            logging.warning("How many more instances fit into group %s is not known: %s", group.name, room.reason)
            return None
        return room.count


def FromPayloads(snapshot: objects.Snapshot, info: Mapping[str, Any], guests: Mapping[str, Any]) -> Proof | None:
    """Return the proof that follows from what nodes answered to node_info and all_instances_info (None: they did not).

    Return None if the cluster cannot be made a model of.
    """
    answered = {uuid: payload for uuid, payload in info.items() if payload is not None}
    failed = {
        node.uuid: _SILENT
        for node in snapshot.nodes.values()
        if node.vm_capable and not node.offline and node.uuid not in answered
    }
    known = {uuid: payload for uuid, payload in guests.items() if payload is not None}
    try:
        return Proof(FromAnswers(snapshot, answered, failed, known))
    except LoadError as err:
        logging.warning("What the cluster can bear is not known: %s", err)
        return None
