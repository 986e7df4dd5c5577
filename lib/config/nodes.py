"""Nodes, node groups and the pool of master candidates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ganeti import errors, objects, renewal, runtime, store
from ganeti.config.base import ConfigBase, ConfigChange, OutOfDate, R
from ganeti.config.draft import Draft, IsVoter

COPY_TIMEOUT = 300.0
"""Seconds a node has to take the copy that makes it a voter."""

STANDSTILL_TIMEOUT = 60.0
"""Seconds in which a request that ends a standstill must be taken up."""


class CandidateStats(NamedTuple):
    """Master candidates: how many there are, should be (pool size, limited by what is possible), could be."""

    now: int
    should: int
    possible: int


def VotersOf(root: objects.Snapshot) -> list[store.Member]:
    """Return those who should be voters by this configuration."""
    return [MemberOf(node) for node in root.nodes.values() if IsVoter(node)]


def MemberOf(node: objects.Node) -> store.Member:
    return store.Member(node.uuid, node.name, node.primary_ip)


class Nodes(ConfigBase):
    """Changes of nodes and groups.  Whether a node votes changes in one step with its flags, through the store."""

    def _TransactNode(
        self,
        node: objects.Node,
        votes: bool,
        function: Callable[[Draft], R],
        timeout: float = COPY_TIMEOUT,
        patient: bool = True,
    ) -> R:
        """Run a change after which ``node`` is (``votes``) or is not a voter; who else votes must not change.

        ``timeout`` is for the copy of a new voter.  Only a job may be ``patient``.
        """
        stored = self.Snapshot().nodes.get(node.uuid)
        did_vote = stored is not None and IsVoter(stored)

        def guarded(draft: Draft) -> R:
            now = draft.root.nodes.get(node.uuid)
            if (now is not None and IsVoter(now)) != did_vote:
                raise OutOfDate(node, now if now is not None else node)
            return function(draft)

        def commit(change: ConfigChange[R]) -> None:
            if votes == did_vote:
                self._store.Commit(change, patient)
            elif votes:
                self._store.AddVoter(MemberOf(node), change, timeout, patient)
            else:
                self._store.RemoveVoter(node.uuid, change, timeout, patient)

        change = ConfigChange(self, guarded)
        if patient:
            return self._Commit(change, commit)
        commit(change)
        return change.result

    def AddNode(self, node: objects.Node) -> objects.Node:
        """Add a node.  It enters as a regular one; PromoteNode makes it a candidate once it has a copy."""
        if IsVoter(node):
            raise errors.ProgrammerError(f"{node.label} must be added as a regular node and promoted afterwards")

        def change(draft: Draft) -> objects.Node:
            draft.BumpCluster()
            return draft.Add(node)

        return self.Transact(change)

    def RemoveNode(self, node_uuid: str) -> None:
        """Remove a node, also from the voters; its certificate is no longer accepted."""
        stored = self.Snapshot().nodes.get(node_uuid)
        if stored is None:
            raise errors.ConfigurationError(f"node {node_uuid} is not in the configuration")

        def change(draft: Draft) -> None:
            draft.Remove("node", node_uuid)
            _SetCert(draft, node_uuid, None)
            draft.BumpCluster()

        self._TransactNode(stored, False, change)

    # --- master candidates --------------------------------------------------------------------------------------------

    def GetMasterCandidateStats(self, exceptions: Iterable[str] = ()) -> CandidateStats:
        """Count the candidates among the nodes that are not in ``exceptions`` (uuids)."""
        return _Stats(self.Newest(), set(exceptions))

    def GetMasterCandidates(self) -> list[objects.Node]:
        return [node for node in self.Snapshot().nodes.values() if node.master_candidate]

    def DecideSelfPromotion(self, exceptions: Iterable[str] = ()) -> bool:
        """Return whether a node that comes in should become a candidate (doc/reference/drivers.md d.7)."""
        stats = self.GetMasterCandidateStats(exceptions)
        return stats.now < min(stats.should + 1, self.Snapshot().cluster.candidate_pool_size)

    def NodesToPromote(self, exceptions: Iterable[str] = ()) -> tuple[int, list[objects.Node]]:
        """Return (how many candidates are missing, nodes that could be promoted, in random order)."""
        excepted = set(exceptions)
        root = self.Newest()
        stats = _Stats(root, excepted)
        eligible = [
            node
            for uuid, node in sorted(root.nodes.items())
            if uuid not in excepted and node.is_eligible and not node.master_candidate
        ]
        runtime.Random().shuffle(eligible)
        return max(0, stats.should - stats.now), eligible

    def PromoteNode(self, node_uuid: str, timeout: float = COPY_TIMEOUT, digest: str | None = None) -> objects.Node:
        """Make a node a master candidate: it is given a copy first, then flag, vote and certificate change in one step.

        ``digest``: of its certificate, which is accepted from then on.  StoreError when the copy is not there after
        ``timeout`` seconds.  Its serial number grows, its time of modification stays (candidate pool maintenance,
        config.md 13).
        """
        node = self.Newest().nodes.get(node_uuid)
        if node is None:
            raise errors.ConfigurationError(f"node {node_uuid} is not in the configuration")

        def change(draft: Draft) -> objects.Node:
            stored: objects.Node = draft.Get("node", node_uuid)
            if digest is not None:
                _SetCert(draft, node_uuid, digest)
            if stored.master_candidate:
                return stored
            if not stored.is_eligible:
                raise errors.ConfigurationError(
                    f"{stored.label} cannot become master candidate: it is offline, drained or not master_capable"
                )
            draft.BumpCluster()
            return draft.Touch(stored.Replace(master_candidate=True), touch_mtime=False)

        return self._TransactNode(node, True, change, timeout)

    def MaintainCandidatePool(
        self,
        exceptions: Iterable[str] = (),
        failed: Callable[[objects.Node, Exception], None] | None = None,
        timeout: float = COPY_TIMEOUT,
        promote: Callable[[str, float], objects.Node] | None = None,
    ) -> list[objects.Node]:
        """Promote random nodes, one at a time, until there are as many candidates as there should be.

        A node that cannot be given a copy is skipped and reported to ``failed``.  Returns the promoted ones.
        ``promote(uuid, timeout)`` is used in the place of PromoteNode.
        """
        promoted: list[objects.Node] = []
        passed_over = set(exceptions)
        while True:
            missing, eligible = self.NodesToPromote(exceptions)
            eligible = [node for node in eligible if node.uuid not in passed_over]
            if not missing or not eligible:
                return promoted
            node = eligible[0]
            passed_over.add(node.uuid)
            try:
                promoted.append((promote or self.PromoteNode)(node.uuid, timeout))
            except store.MasterEnded:
                raise
            except (store.StoreError, errors.ConfigurationError, errors.OpExecError) as err:
                logging.warning("Node %s could not be made a master candidate: %s", node.name, err)
                if failed is not None:
                    failed(node, err)

    def TakeOffline(self, node_uuid: str) -> None:
        """Mark a node offline though nothing else can be changed: the set of voters without it must have a quorum.

        For a request during a standstill (doc/design-store.rst, 7), which must be answered: NoQuorum, NotKnown or
        DiskRefused are raised at once or after some seconds.  Otherwise the logical unit does it, which also looks at
        the pool.
        """
        node = self.Newest().nodes.get(node_uuid)
        if node is None:
            raise errors.ConfigurationError(f"node {node_uuid} is not in the configuration")

        def change(draft: Draft) -> None:
            stored: objects.Node = draft.Get("node", node_uuid)
            draft.Touch(stored.Replace(offline=True, master_candidate=False, drained=False))
            _SetCert(draft, node_uuid, None)
            draft.BumpCluster()

        self._TransactNode(node, False, change, STANDSTILL_TIMEOUT, patient=False)

    # --- groups -------------------------------------------------------------------------------------------------------

    def AddNodeGroup(self, group: objects.NodeGroup) -> objects.NodeGroup:
        def change(draft: Draft) -> objects.NodeGroup:
            draft.BumpCluster()
            return draft.Add(group.Replace(members=()))

        return self.Transact(change)

    def RemoveNodeGroup(self, group_uuid: str) -> None:
        """Remove a group: only an empty one, and never the last."""

        def change(draft: Draft) -> None:
            draft.Remove("nodegroup", group_uuid)
            draft.BumpCluster()

        self.Transact(change)

    def AssignGroupNodes(self, moves: Sequence[tuple[str, str]]) -> list[objects.Node]:
        """Move nodes, given as (node uuid, group uuid): each node and group that changes is bumped once."""

        def change(draft: Draft) -> list[objects.Node]:
            groups: dict[str, None] = {}
            moved = []
            for node_uuid, group_uuid in moves:
                node: objects.Node = draft.Get("node", node_uuid)
                draft.Get("nodegroup", group_uuid)
                if node.group != group_uuid:
                    groups.update({node.group: None, group_uuid: None})
                    moved.append(draft.Touch(node.Replace(group=group_uuid)))
            for uuid in groups:
                draft.Touch(draft.Get("nodegroup", uuid))
            if moved:
                draft.BumpCluster()
            return moved

        return self.Transact(change)

    def SetCandidateCerts(self, certs: Mapping[str, str]) -> None:
        """Replace the list of the accepted certificates: node uuid -> digest, and uuid + ``renewal.NEXT`` -> staged one."""

        def change(draft: Draft) -> None:
            if draft.root.cluster.candidate_certs != certs:
                draft.Touch(draft.root.cluster.Replace(candidate_certs=dict(certs)))

        self.Transact(change)

    def LookupNodeGroup(self, target: str | None) -> objects.NodeGroup:
        """Return the group of a name or uuid; None means the only one.  OpPrereqError if there is none."""
        root = self.Snapshot()
        if target is None:
            if len(root.nodegroups) != 1:
                raise errors.OpPrereqError(
                    "More than one node group exists: the target group must be named", errors.ECODE_INVAL
                )
            return next(iter(root.nodegroups.values()))
        found: objects.NodeGroup | None = root.ExpandName("nodegroup", target)
        if found is None:
            raise errors.OpPrereqError(f"Node group '{target[:80]}' not found", errors.ECODE_NOENT)
        return found


def _Stats(root: objects.Snapshot, exceptions: set[str]) -> CandidateStats:
    now = possible = 0
    for uuid, node in root.nodes.items():
        if uuid not in exceptions:
            possible += node.is_eligible
            now += node.master_candidate
    return CandidateStats(now, min(possible, root.cluster.candidate_pool_size), possible)


def DropCert(draft: Draft, node: objects.Node) -> None:
    """Drop the certificate of a node that is not a candidate: it is not accepted."""
    if not node.master_candidate:
        _SetCert(draft, node.uuid, None)


def _SetCert(draft: Draft, node_uuid: str, digest: str | None) -> None:
    before = draft.root.cluster.candidate_certs
    # The staged one of a renewal that was interrupted goes, too.
    certs = {key: value for key, value in before.items() if key not in (node_uuid, node_uuid + renewal.NEXT)}
    if digest is not None:
        certs[node_uuid] = digest
    if certs == before:
        return
    draft.Touch(draft.root.cluster.Replace(candidate_certs=certs))
