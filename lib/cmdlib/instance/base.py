"""What units that work on one existing instance have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ganeti import constants, errors, locking, params
from ganeti.cmdlib.base import HTYPE_INSTANCE, LogicalUnit, NoHooksLU, OpT
from ganeti.cmdlib.common import (
    REPLACE,
    CheckNoProblems,
    CheckViolations,
    CopyNodeLocks,
    ExpandAndLockInstance,
    ForceTypes,
    LockedInstance,
    LockInstancesNodes,
)
from ganeti.cmdlib.hookenv import InstanceEnv
from ganeti.params import be, hv, ipolicy

if TYPE_CHECKING:
    from ganeti import objects


def CheckStillThere(lu: LogicalUnit[Any], instance: objects.Instance) -> None:
    """Raise OpPrereqError if the instance is not where whoever planned the job expects it to be (``if_primary``)."""
    primary = lu.snapshot.NodeName(instance.primary_node)
    if lu.op.if_primary not in (None, primary):
        raise errors.OpPrereqError(
            f"The primary node of instance {instance.name} is {primary}, no longer {lu.op.if_primary}: it was moved"
            " after this job had been planned, and was left as it is",
            errors.ECODE_STATE,
            hint="repeat the command that submitted this job; it plans anew",
        )


class InstanceLU(LogicalUnit[OpT]):
    """One existing instance, locked exclusively.

    ``LOCKS_NODES``: the nodes of its disks are locked too, ``LOCKS_RES`` their node-res locks as well.
    ``self.instance`` is the instance as CheckPrereq found it.
    """

    HTYPE: ClassVar[str | None] = HTYPE_INSTANCE
    REQ_BGL = False
    LOCKS_NODES = False
    LOCKS_RES = False

    instance: objects.Instance

    def ExpandNames(self) -> None:
        self.needed_locks = {}
        ExpandAndLockInstance(self)
        if self.LOCKS_NODES:
            self.needed_locks[locking.LEVEL_NODE] = []
            self.recalculate_locks[locking.LEVEL_NODE] = REPLACE
        if self.LOCKS_RES:
            self.needed_locks[locking.LEVEL_NODE_RES] = []

    def DeclareLocks(self, level: int) -> None:
        if level == locking.LEVEL_NODE:
            LockInstancesNodes(self)
        elif level == locking.LEVEL_NODE_RES:
            CopyNodeLocks(self)

    def CheckPrereq(self) -> None:
        self.instance = LockedInstance(self)

    @property
    def current(self) -> objects.Instance:
        """Return the instance as it is configured now; after its removal as it was."""
        return self.snapshot.instances.get(self.instance.uuid, self.instance)

    def OwnEnv(self) -> dict[str, Any]:
        """Return the variables of this opcode's hooks besides those of the instance."""
        return {}

    def BuildHooksEnv(self) -> dict[str, Any]:
        return {**self.OwnEnv(), **InstanceEnv(self.snapshot, self.current)}

    def BuildHooksNodes(self) -> tuple[Iterable[str], Iterable[str]]:
        nodes = [self.snapshot.cluster.master_node, *self.snapshot.AllNodes(self.instance)]
        return nodes, nodes


class NoHooksInstanceLU(InstanceLU[OpT], NoHooksLU[OpT]):
    """One existing instance, no hooks."""

    BuildHooksEnv = NoHooksLU.BuildHooksEnv
    BuildHooksNodes = NoHooksLU.BuildHooksNodes


def GroupsOf(snapshot: objects.Snapshot, instance: objects.Instance) -> list[str]:
    """Return the node groups in which an instance is."""
    return sorted({snapshot.nodes[uuid].group for uuid in snapshot.AllNodes(instance)})


# --- parameters ---------------------------------------------------------------------------------------------------------


def ForceBeParams(values: Mapping[str, Any], allowed: Iterable[Any] = ()) -> dict[str, Any]:
    """Backend parameters as given in a request, typed and checked; ``memory`` sets both limits."""
    typed = be.UpgradeMemory(ForceTypes(dict(values), be.INPUT_TABLE, tuple(allowed), "backend parameter"))
    CheckNoProblems(be.SyntaxProblems({k: v for k, v in typed.items() if v not in ("default", "auto", None)}))
    return typed


def CheckBeLimits(filled: Mapping[str, Any]) -> None:
    if filled[be.BE_MINMEM] > filled[be.BE_MAXMEM]:
        raise errors.OpPrereqError(
            f"The minimum memory ({filled[be.BE_MINMEM]} MiB) must not be above the maximum"
            f" ({filled[be.BE_MAXMEM]} MiB)",
            errors.ECODE_INVAL,
        )


def ForceHvParams(
    values: Mapping[str, Any], hypervisor: str, where: str, allowed: Iterable[Any] = ()
) -> dict[str, Any]:
    """Hypervisor parameters as given in a request, typed; cluster-wide ones are refused."""
    CheckNoProblems(hv.GlobalProblems(values, where))
    return ForceTypes(dict(values), hv.Table(hypervisor), tuple(allowed), f"{hypervisor} parameter")


def CheckHvSyntax(hypervisor: str, filled: Mapping[str, Any]) -> None:
    """Check a full set of parameters as far as the master can."""
    CheckNoProblems(hv.SyntaxProblems(hypervisor, filled), f"Hypervisor {hypervisor}")


def CheckHvOnNodes(lu: LogicalUnit, nodes: Iterable[str], hypervisor: str, filled: Mapping[str, Any]) -> None:
    """Check that the nodes have what the parameters name; offline ones are not asked."""
    snapshot = lu.snapshot
    asked = [uuid for uuid in nodes if not snapshot.nodes[uuid].offline and snapshot.nodes[uuid].vm_capable]
    full = {**snapshot.cluster.hvparams.get(hypervisor, {}), **filled}
    for result in lu.rpc.call_hypervisor_validate_params(asked, hypervisor, full).values():
        result.Raise(f"Hypervisor parameter validation failed on node {result.node_name}", prereq=True)


def CheckHv(lu: LogicalUnit, nodes: Iterable[str], hypervisor: str, filled: Mapping[str, Any]) -> None:
    """CheckHvSyntax, then CheckHvOnNodes."""
    CheckHvSyntax(hypervisor, filled)
    CheckHvOnNodes(lu, nodes, hypervisor, filled)


def CheckOs(
    lu: LogicalUnit,
    nodes: Iterable[str],
    os_name: str,
    os_params: Mapping[str, Any],
    force_variant: bool,
    required: bool,
) -> None:
    """Check that the nodes have the operating system and that it accepts the parameters.

    ``required``: one that does not have it at all is an error, not only a message.
    """
    snapshot = lu.snapshot
    asked = [uuid for uuid in nodes if not snapshot.nodes[uuid].offline and snapshot.nodes[uuid].vm_capable]
    results = lu.rpc.call_os_validate(
        asked, required, os_name, [constants.OS_CHECK_PARAMETERS], dict(os_params), force_variant
    )
    for result in results.values():
        result.Raise(f"OS '{os_name}' cannot be used on node {result.node_name}", prereq=True, ecode=errors.ECODE_INVAL)
        if not result.payload:
            lu.LogInfo(f"OS {os_name} not found on node {result.node_name}, validation skipped")


def CheckScript(lu: LogicalUnit, node_uuid: str, os_name: str, script: str) -> None:
    """Check that a node has the operating system with a script (OS_SCRIPT_...), before anything is made or stopped for it."""
    result = lu.rpc.call_os_validate([node_uuid], False, os_name, [script], {}, True)[node_uuid]
    where = f"node {result.node_name}"
    result.Raise(f"OS '{os_name}' cannot be used on {where}", prereq=True, ecode=errors.ECODE_STATE)
    if not result.payload:
        raise errors.OpPrereqError(
            f"OS '{os_name}' not found on {where}",
            errors.ECODE_STATE,
            hint="'gnt-os diagnose' shows where it is installed",
        )


def AllOsParams(
    snapshot: objects.Snapshot,
    instance: objects.Instance,
    os_name: str | None = None,
    private: Mapping[str, str] | None = None,
    secret: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return every parameter the instance's scripts get, in clear text; an image is none of their business."""
    return params.FillOSAll(
        snapshot.cluster,
        os_name or instance.os,
        {name: value for name, value in instance.osparams.items() if name != constants.OS_IMAGE},
        {**instance.osparams_private, **(private or {})},
        secret,
    )


def PolicyViolations(snapshot: objects.Snapshot, instance: objects.Instance, group: objects.NodeGroup) -> list[str]:
    """Return where an instance as it is configured breaks the policy of a node group."""
    filled = params.FillBE(snapshot, instance)
    disks = snapshot.InstanceDisks(instance)
    return ipolicy.Violations(
        params.FillIPolicy(snapshot, group),
        filled[be.BE_MAXMEM],
        filled[be.BE_VCPUS],
        len(instance.nics),
        [disk.size for disk in disks],
        filled[be.BE_SPINDLE_USE],
        [disk.dev_type for disk in disks],
    )


def CheckTargetPolicy(lu: LogicalUnit, instance: objects.Instance, node_uuid: str, ignore: bool) -> None:
    """Check that an instance fits the policy of the node group it moves to; check nothing inside one group."""
    snapshot = lu.snapshot
    group = snapshot.nodegroups[snapshot.nodes[node_uuid].group]
    if snapshot.nodes[instance.primary_node].group == group.uuid:
        return
    CheckViolations(lu, instance.name, group, PolicyViolations(snapshot, instance, group), ignore)


def CheckNotForthcoming(instance: objects.Instance) -> None:
    if instance.forthcoming:
        raise errors.OpPrereqError(
            f"Instance '{instance.name}' is only a reservation (forthcoming)",
            errors.ECODE_STATE,
        )


UP, DOWN, OFFLINE = constants.ADMINST_UP, constants.ADMINST_DOWN, constants.ADMINST_OFFLINE
