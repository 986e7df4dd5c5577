"""Moving the instances of a node elsewhere (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib import evacuation
from ganeti.cmdlib.allocation import CheckAllocatorOrNode
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.allocation.requests import ALL, PRIMARY_ONLY, SECONDARY_ONLY, NodeEvacuate
from ganeti.cmdlib.base import Feedback, Filled, NoHooksLU, ResultWithJobs
from ganeti.cmdlib.common import CheckTarget, ExpandNode, ExpandOtherNode, ShareAll
from ganeti.params import disk
from ganeti.utils.text import NiceSort


class LUNodeEvacuate(NoHooksLU[opcodes.OpNodeEvacuate]):
    """Submit the jobs that move instances off a node; what runs there, the mirrors there, or both.

    For both, first the primary instances go away, and a job that waits for them then moves the mirrors: those of the
    instances that were just failed over to their secondary node as well as the others.  The allocator's message has one mode
    for all instances, and its mode "all" would move both sides even of an instance that has one on this node.  The second
    job (``emptying``) fails if there are still primary instances, so that the whole cannot look like a success.
    """

    REQ_BGL = False
    CHANGES_NODES = False  # its jobs do

    def CheckArguments(self) -> None:
        CheckAllocatorOrNode(self, "iallocator", "remote_node")
        if self.op.remote_node is not None and self.op.mode != SECONDARY_ONLY:
            raise errors.OpPrereqError(
                "A new secondary node can only be given if secondary instances alone are evacuated",
                errors.ECODE_INVAL,
                hint="use --secondary-only, or an allocator (-I)",
            )
        if self.op.emptying and self.op.mode != SECONDARY_ONLY:
            raise errors.OpPrereqError(f"'emptying' can only be given with mode '{SECONDARY_ONLY}'", errors.ECODE_INVAL)

    # --- locks --------------------------------------------------------------------------------------------------------

    def ExpandNames(self) -> None:
        node = ExpandNode(self.snapshot, self.op.node_name, self.op.node_uuid)
        self.op.node_name, self.op.node_uuid = node.name, node.uuid
        remote = ExpandOtherNode(self, "remote_node")
        if remote is not None and remote.uuid == node.uuid:
            raise errors.OpPrereqError(
                f"Node {node.name} is being evacuated and cannot be the new secondary node", errors.ECODE_INVAL
            )
        evacuation.DeclareChoice(self, self._Instances())
        if remote is not None:
            self.needed_locks = {
                locking.LEVEL_INSTANCE: NiceSort(evacuation.Names(self._Instances())),
                locking.LEVEL_NODEGROUP: [],
                locking.LEVEL_NODE: [node.uuid, remote.uuid],
            }
            self.share_locks = ShareAll()

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if level == locking.LEVEL_NODEGROUP:
            self.needed_locks[level] = sorted(self._Groups())

    def _Groups(self) -> set[str]:
        """Return the groups of the nodes that are involved; the allocator chooses from the evacuated node's group."""
        nodes = [uuid for uuid in (self.op.node_uuid, self.op.remote_node_uuid) if uuid is not None]
        return evacuation.GroupsOf(self.snapshot, nodes)

    def _Instances(self) -> tuple[objects.Instance, ...]:
        """Return the instances that this job moves itself."""
        uuid = Filled(self.op.node_uuid)
        if self.op.mode == SECONDARY_ONLY:
            return self.snapshot.SecondaryInstances(uuid)
        return self.snapshot.PrimaryInstances(uuid)

    # --- can it be done -----------------------------------------------------------------------------------------------

    def _What(self, level: int) -> str:
        """Return what the locks of a level are about."""
        name = self.op.node_name
        if level == locking.LEVEL_INSTANCE:
            return f"The instances of node {name}"
        return f"The node group of node {name} or of its new secondary node"

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        return evacuation.Changed(self._What(level))

    def CheckPrereq(self) -> None:
        instances = self._Instances()
        for level, needed in (
            (locking.LEVEL_INSTANCE, evacuation.Names(instances)),
            (locking.LEVEL_NODEGROUP, self._Groups()),
        ):
            evacuation.CheckSameLocks(self, level, needed, self._What(level))
        if self.op.emptying:
            self._CheckNoPrimaries()
        self._names = NiceSort(evacuation.Names(instances))
        if self.op.remote_node is not None:
            self._jobs = self._ToNamedNode(instances)
        elif instances:
            mode = PRIMARY_ONLY if self.op.mode == ALL else self.op.mode
            request = NodeEvacuate(tuple(self._names), mode, bool(self.op.ignore_soft_errors))
            answer = Ask(self, Filled(self.op.iallocator), request)
            self._jobs = evacuation.Moves(self, answer, self.op.early_release, request.ignore_soft_errors)
        else:
            self._jobs = []
        self.dry_run_result = {"jobs": []}

    def _CheckNoPrimaries(self) -> None:
        """Raise OpPrereqError if instances are left that should have been moved before."""
        node = self.op.node_name
        left = NiceSort(evacuation.Names(self.snapshot.PrimaryInstances(Filled(self.op.node_uuid))))
        if left:
            raise errors.OpPrereqError(
                f"Node {node} still is the primary node of {', '.join(left)}; the mirrors on it were not moved",
                errors.ECODE_STATE,
                hint=f"see why the jobs that moved these instances failed, then repeat 'gnt-node evacuate {node}';"
                f" 'gnt-node evacuate --secondary-only {node}' moves the mirrors alone",
            )

    def _ToNamedNode(self, instances: tuple[objects.Instance, ...]) -> list[list[opcodes.OpCode]]:
        remote = self.snapshot.nodes[Filled(self.op.remote_node_uuid)]
        CheckTarget(remote)
        there = NiceSort(instance.name for instance in instances if instance.primary_node == remote.uuid)
        if there:
            raise errors.OpPrereqError(
                f"Node {remote.name} cannot be the new secondary node: it is the primary node of {', '.join(there)}",
                errors.ECODE_INVAL,
            )
        primaries = {instance.name: self.snapshot.NodeName(instance.primary_node) for instance in instances}
        return [
            [
                opcodes.OpInstanceReplaceDisks(
                    instance_name=name,
                    mode="replace_new_secondary",
                    disks=[],
                    remote_node=remote.name,
                    early_release=self.op.early_release,
                    if_primary=primaries[name],
                )
            ]
            for name in self._names
        ]

    # --- does it ------------------------------------------------------------------------------------------------------

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        jobs = list(self._jobs)
        if self.op.mode == ALL and self._HasMirrors():
            jobs.append([self._SecondPart(len(jobs))])
        return ResultWithJobs(jobs)

    def _HasMirrors(self) -> bool:
        """Return whether mirrors are on the node, or will be when its primary instances have left."""
        snapshot = self.snapshot
        mirrored = disk.With(mirror=disk.INTERNAL)
        leaving = any(snapshot.DiskTemplate(instance) in mirrored for instance in self._Instances())
        return leaving or bool(snapshot.SecondaryInstances(Filled(self.op.node_uuid)))

    def _SecondPart(self, before: int) -> opcodes.OpNodeEvacuate:
        """Return the opcode that moves the mirrors when the ``before`` jobs ahead of it have ended, however they did."""
        return opcodes.OpNodeEvacuate(
            node_name=self.op.node_name,
            node_uuid=self.op.node_uuid,
            mode=SECONDARY_ONLY,
            iallocator=self.op.iallocator,
            early_release=self.op.early_release,
            ignore_soft_errors=self.op.ignore_soft_errors,
            emptying=True,
            depends=[[-number, list(evacuation.ENDED)] for number in range(1, before + 1)] or None,
        )
