"""From an allocator's answer to jobs that move instances (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.allocation.requests import ChangeGroup, Evacuation
from ganeti.cmdlib.base import Feedback, Filled, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.common import ExpandGroup, ShareAll
from ganeti.utils.text import NiceSort


def Names(instances: Iterable[objects.Instance]) -> set[str]:
    return {instance.name for instance in instances}


def GroupsOf(snapshot: objects.Snapshot, nodes: Iterable[str]) -> set[str]:
    """Return the uuids of the groups of nodes; nodes that were removed have none."""
    return {snapshot.nodes[uuid].group for uuid in nodes if uuid in snapshot.nodes}


def NodesOf(snapshot: objects.Snapshot, instances: Iterable[objects.Instance]) -> set[str]:
    return {uuid for instance in instances for uuid in snapshot.AllNodes(instance)}


def CheckSameLocks(lu: LogicalUnit, level: int, needed: Iterable[str], what: str) -> None:
    """Raise OpPrereqError if what must be locked, as it is known now, is not what was locked."""
    missing = set(needed) - lu.owned_locks(level)
    if missing:
        raise errors.OpPrereqError(
            f"{what} changed while this job waited for its locks; nothing was moved, try again", errors.ECODE_STATE
        )


def DeclareChoice(lu: LogicalUnit, instances: Iterable[objects.Instance]) -> None:
    """Declare the locks of asking where instances can go; DeclareLocks adds the node groups."""
    lu.needed_locks = {
        locking.LEVEL_INSTANCE: NiceSort(Names(instances)),
        locking.LEVEL_NODE_ALLOC: locking.ALL_SET,
        locking.LEVEL_NODEGROUP: [],
    }
    lu.share_locks = {**ShareAll(), locking.LEVEL_NODE_ALLOC: 0}


# --- the jobs -------------------------------------------------------------------------------------------------------------


def Moves(lu: LogicalUnit, answer: Evacuation, early_release: bool) -> list[list[opcodes.OpCode]]:
    """Return the jobs of an allocator's answer, and log where the instances go.

    Raises OpPrereqError if any instance has no place to go: then nothing is moved.
    """
    snapshot = lu.snapshot
    if answer.failed:
        problems = "; ".join(f"{name} ({reason})" for name, reason in answer.failed)
        raise errors.OpPrereqError(f"Unable to evacuate instances, nothing was moved: {problems}", errors.ECODE_NORES)
    for name, group, nodes in answer.moved:
        where = ", ".join(snapshot.NodeName(uuid) for uuid in nodes)
        lu.LogInfo(f"Instance {name} will be moved to {where} in node group {snapshot.nodegroups[group].name}")
    for op in (op for job in answer.jobs for op in job):
        if "early_release" in op.OP_PARAMS:
            op.early_release = early_release
    return answer.jobs


def InSequence(jobs: Sequence[list[opcodes.OpCode]]) -> None:
    """Let each job wait for the end of the one before it, whether that succeeds or fails."""
    for job in jobs[1:]:
        job[0].depends = [[-1, ["success", "error"]]]


# --- to other groups ------------------------------------------------------------------------------------------------------


_ToGroupsOp = TypeVar("_ToGroupsOp", opcodes.OpGroupEvacuate, opcodes.OpInstanceChangeGroup)


class ToOtherGroups(LogicalUnit[_ToGroupsOp]):
    """The common part of the units that move instances to other node groups.

    The unit names its instances and the groups that they leave.  No node is locked: work on disks and a choice do not wait
    for each other (doc/design-placement.rst), and the jobs look at the nodes again.
    """

    REQ_BGL = False
    CHANGES_NODES = False

    _wanted: list[str]
    targets: list[str]

    # --- what each unit says ----------------------------------------------------------------------------------------------

    def Instances(self) -> list[objects.Instance]:
        """Return the instances to move, as they are configured now."""
        raise NotImplementedError

    def Left(self) -> set[str]:
        """Return the uuids of the groups that the instances leave."""
        raise NotImplementedError

    def ClashText(self, names: str) -> str:
        """Return what to say of wanted groups that are left."""
        raise NotImplementedError

    # --- phases -----------------------------------------------------------------------------------------------------------

    def CheckArguments(self) -> None:
        if self.op.iallocator in (None, DEFAULT_SHORTCUT):
            self.op.iallocator = self.snapshot.cluster.default_iallocator or None
        if self.op.iallocator is None:
            raise errors.OpPrereqError(
                "No iallocator was given and the cluster has no default iallocator",
                errors.ECODE_INVAL,
                hint="give one (-I), or set the default: gnt-cluster modify --default-iallocator hail",
            )

    def ExpandNames(self) -> None:
        self._wanted = [ExpandGroup(self.snapshot, name).uuid for name in self.op.target_groups or ()]
        DeclareChoice(self, self.Instances())

    def DeclareLocks(self, level: int) -> None:
        assert self.needed_locks is not None
        if level == locking.LEVEL_NODEGROUP:
            self.needed_locks[level] = sorted(self._Groups()) if self._wanted else locking.ALL_SET

    def _Groups(self) -> set[str]:
        used = GroupsOf(self.snapshot, NodesOf(self.snapshot, self.Instances()))
        return used.union(self._wanted, self.Left())

    def CheckPrereq(self) -> None:
        instances, snapshot = self.Instances(), self.snapshot
        CheckSameLocks(self, locking.LEVEL_INSTANCE, Names(instances), "The set of instances to move")
        CheckSameLocks(self, locking.LEVEL_NODEGROUP, self._Groups(), "The node groups of the instances")
        left = self.Left()
        clash = left.intersection(self._wanted)
        if clash:
            names = ", ".join(NiceSort(snapshot.nodegroups[uuid].name for uuid in clash))
            raise errors.OpPrereqError(self.ClashText(names), errors.ECODE_INVAL)
        self.targets = sorted(self._wanted or self.owned_locks(locking.LEVEL_NODEGROUP) - left)
        if not self.targets:
            raise errors.OpPrereqError(
                "There are no other node groups to move to", errors.ECODE_INVAL, hint="'gnt-group add GROUP' makes one"
            )
        self._jobs: list[list[opcodes.OpCode]] = []
        if instances:
            request = ChangeGroup(tuple(NiceSort(Names(instances))), tuple(self.targets))
            self._jobs = Moves(self, Ask(self, Filled(self.op.iallocator), request), self.op.early_release)
        self.dry_run_result = {"jobs": []}

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        return ResultWithJobs(self._jobs)
