"""From an allocator's answer to jobs that move instances (doc/reference/drivers.md d.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from ganeti import errors, locking, objects, opcodes
from ganeti.cmdlib.allocation import DEFAULT_SHORTCUT
from ganeti.cmdlib.allocation.ask import Ask
from ganeti.cmdlib.allocation.requests import ChangeGroup, Evacuation, NodeEvacuate
from ganeti.cmdlib.base import Feedback, Filled, LogicalUnit, ResultWithJobs
from ganeti.cmdlib.common import ExpandGroup, ShareAll
from ganeti.cmdlib.instance.shape import CheckSomePolicy, JudgeOld
from ganeti.htools.choosing.explain import InWords
from ganeti.params import disk as disk_params
from ganeti.utils.text import NiceSort

# A job that waits its turn runs however the job before it ended: canceling one moves one instance less, and no more than that.
ENDED = ("success", "error", "canceled")


def Names(instances: Iterable[objects.Instance]) -> set[str]:
    return {instance.name for instance in instances}


def GroupsOf(snapshot: objects.Snapshot, nodes: Iterable[str]) -> set[str]:
    """Return the uuids of the groups of nodes; nodes that were removed have none."""
    return {snapshot.nodes[uuid].group for uuid in nodes if uuid in snapshot.nodes}


def NodesOf(snapshot: objects.Snapshot, instances: Iterable[objects.Instance]) -> set[str]:
    return {uuid for instance in instances for uuid in snapshot.AllNodes(instance)}


def CheckSameLocks(lu: LogicalUnit, level: int, needed: Iterable[str], what: str) -> None:
    """Raise OpPrereqError if what must be locked, as it is known now, is not what was locked."""
    if set(needed) - lu.owned_locks(level):
        raise Changed(what)


def Changed(what: str) -> errors.OpPrereqError:
    return errors.OpPrereqError(
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


def Moves(
    lu: LogicalUnit, answer: Evacuation, early_release: bool, ignore_policy: bool = False
) -> list[list[opcodes.OpCode]]:
    """Return the jobs of an allocator's answer, and log where the instances go.

    ``ignore_policy``: what the allocator was told not to mind must not stop the jobs either.
    Raises OpPrereqError if any instance has no place to go: then nothing is moved.
    """
    snapshot = lu.snapshot
    if answer.failed:
        problems = "; ".join(f"{name} ({reason})" for name, reason in answer.failed)
        raise errors.OpPrereqError(
            f"Unable to evacuate instances, nothing was moved: {problems}",
            errors.ECODE_NORES,
            hint=InWords(problems) or None,
        )
    for name, group, nodes in answer.moved:
        where = ", ".join(snapshot.NodeName(uuid) for uuid in nodes)
        lu.LogInfo(f"Instance {name} will be moved to {where} in node group {snapshot.nodegroups[group].name}")
    for op in (op for job in answer.jobs for op in job):
        if "early_release" in op.OP_PARAMS:
            op.early_release = early_release
        if ignore_policy and "ignore_ipolicy" in op.OP_PARAMS:
            op.ignore_ipolicy = True
    _NameNodes(snapshot, answer.jobs)
    return answer.jobs


def MirrorNodes(snapshot: objects.Snapshot, instance: objects.Instance) -> tuple[str, str] | None:
    """Return the names of the primary and the secondary node of a mirrored instance; None for all other instances."""
    secondaries = snapshot.SecondaryNodes(instance)
    if snapshot.DiskTemplate(instance) not in disk_params.With(mirror=disk_params.INTERNAL) or len(secondaries) != 1:
        return None
    return snapshot.NodeName(instance.primary_node), snapshot.NodeName(secondaries[0])


def IsShared(snapshot: objects.Snapshot, instance: objects.Instance) -> bool:
    """Return whether several nodes reach the instance's disks, none of which is its secondary."""
    return snapshot.DiskTemplate(instance) in disk_params.With(mirror=disk_params.EXTERNAL)


class _Place(NamedTuple):
    """Where an instance is; ``secondary`` is None if its disks are on shared storage."""

    primary: str
    secondary: str | None


def _PlaceOf(snapshot: objects.Snapshot, name: str) -> _Place | None:
    instance = snapshot.InstanceByName(name)
    if instance is None:
        return None
    pair = MirrorNodes(snapshot, instance)
    if pair is not None:
        return _Place(*pair)
    return _Place(snapshot.NodeName(instance.primary_node), None) if IsShared(snapshot, instance) else None


def _NameNodes(snapshot: objects.Snapshot, jobs: Sequence[list[opcodes.OpCode]]) -> None:
    """Name in the opcodes where each instance is by then, and where it goes.

    A move "to the other side" would bring back an instance that somebody else has moved meanwhile, and one on shared storage
    would be taken from a node that it does not have to leave; with the nodes named, the job fails instead.
    """
    places: dict[str, _Place | None] = {}
    for op in (op for job in jobs for op in job):
        if not isinstance(op, (opcodes.OpInstanceMigrate, opcodes.OpInstanceFailover, opcodes.OpInstanceReplaceDisks)):
            continue
        name = op.instance_name
        if name not in places:
            places[name] = _PlaceOf(snapshot, name)
        place = places[name]
        if place is not None:
            places[name] = _NameInOpcode(snapshot, op, place)


def _NameInOpcode(
    snapshot: objects.Snapshot,
    op: opcodes.OpInstanceMigrate | opcodes.OpInstanceFailover | opcodes.OpInstanceReplaceDisks,
    place: _Place,
) -> _Place | None:
    """Name the nodes in one opcode; return where the instance is after it (None: that is not known)."""
    primary, secondary = place
    if isinstance(op, opcodes.OpInstanceReplaceDisks):
        op.if_primary = primary
        return _Place(primary, op.remote_node or secondary)
    if secondary is None:
        op.if_primary = primary
        return _Place(op.target_node, None) if op.target_node else None
    op.target_node = op.target_node or secondary
    source = snapshot.NodeByName(primary)
    # On the way to a third node the copy of the old primary stays, unless that node is offline.
    lost = source is not None and source.offline and op.target_node != secondary
    return _Place(op.target_node, secondary if lost else primary)


def InSequence(jobs: Sequence[list[opcodes.OpCode]]) -> None:
    """Let each job wait for the end of the one before it."""
    for job in jobs[1:]:
        job[0].depends = [[-1, list(ENDED)]]


# --- to other groups ------------------------------------------------------------------------------------------------------


_INSTANCES, _GROUPS = "The set of instances to move", "The node groups of the instances"

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

    def LostLock(self, level: int, err: errors.LockError) -> errors.GenericError:
        return Changed(_INSTANCES if level == locking.LEVEL_INSTANCE else _GROUPS)

    def CheckPrereq(self) -> None:
        instances, snapshot = self.Instances(), self.snapshot
        CheckSameLocks(self, locking.LEVEL_INSTANCE, Names(instances), _INSTANCES)
        CheckSameLocks(self, locking.LEVEL_NODEGROUP, self._Groups(), _GROUPS)
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
            request = self.Request(tuple(NiceSort(Names(instances))))
            self._jobs = Moves(self, Ask(self, Filled(self.op.iallocator), request), self.op.early_release)
        self.dry_run_result = {"jobs": []}

    def Request(self, names: tuple[str, ...]) -> ChangeGroup | NodeEvacuate:
        """Return what the allocator is asked about the instances."""
        self._CheckNodesThere()
        snapshot = self.snapshot
        judged = [(one.name, JudgeOld(snapshot, one), self.targets) for one in self.Instances()]
        hint = "'gnt-group info GROUP' shows a group's policy; change the instance or the policy, or name another group (--to)"
        CheckSomePolicy(snapshot, judged, hint)
        return ChangeGroup(names, tuple(self.targets))

    def _CheckNodesThere(self) -> None:
        """Raise OpPrereqError if none of the groups to move to has nodes."""
        snapshot = self.snapshot
        if not any(snapshot.GroupNodes(uuid) for uuid in self.targets):
            names = ", ".join(NiceSort(snapshot.nodegroups[uuid].name for uuid in self.targets))
            raise errors.OpPrereqError(
                f"Nowhere to move to: node group {names} has no nodes; nothing was moved",
                errors.ECODE_NORES,
                hint="'gnt-group assign-nodes GROUP NODE' puts a node into a group; 'gnt-group list' shows all groups",
            )

    def Exec(self, feedback: Feedback) -> ResultWithJobs:
        return ResultWithJobs(self._jobs)
