"""Opcodes of nodes.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpNodeRemove(OpCode):
    """Remove an empty, non-master node."""

    OP_DSC_FIELD = "node_name"
    OP_HOOK = "node-remove"
    OP_RESULT = ht.TNone

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID


class OpNodeAdd(OpCode):
    """Add or re-add a node."""

    OP_DSC_FIELD = "node_name"
    OP_HOOK = "node-add"
    OP_RESULT = ht.TNone

    node_name: str = Param(ht.TNonEmptyString, doc="resolved to FQDN")
    hv_state: dict[str, Any] | None = common.HV_STATE
    disk_state: dict[str, Any] | None = common.DISK_STATE
    primary_ip: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="ignored on input, set by the LU from DNS")
    secondary_ip: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="required iff the cluster is dual-homed")
    readd: bool = Param(ht.TBool, False, doc="node is already in the configuration")
    group: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="initial group; forbidden with readd")
    master_capable: bool | None = common.MASTER_CAPABLE
    vm_capable: bool | None = common.VM_CAPABLE
    ndparams: dict[str, Any] | None = common.NDPARAMS
    node_setup: bool = Param(ht.TBool, False, doc="also do the SSH setup")


class OpNodeQueryvols(OpCode):
    """List logical volumes."""

    OP_RESULT = ht.TListOf(ht.TListOf(ht.TString))

    output_fields: list[str] = Param(ht.TListOf(ht.TNonEmptyString), doc="of node, phys, vg, name, size, instance")
    nodes: list[str] = common.NODES


class OpNodeQueryStorage(OpCode):
    """List storage units."""

    OP_RESULT = ht.TListOf(ht.TList)

    output_fields: list[str] = Param(
        ht.TListOf(ht.TNonEmptyString),
        doc="of node, type, name, size, used, free, allocatable; of lvm-vg also missing, returned",
    )
    storage_type: str | None = Param(
        ht.TMaybe(types.TStorageType), None, doc="null: derived from the default disk template (2.9: required)"
    )
    nodes: list[str] = common.NODES
    name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="only this unit")


class OpNodeModifyStorage(OpCode):
    """Change a storage unit; only lvm-pv, only `allocatable`."""

    OP_DSC_FIELD = "node_name"
    OP_RESULT = ht.TNone

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    storage_type: str = common.STORAGE_TYPE
    name: str | None = common.NAME
    changes: dict[str, Any] = Param(ht.TDict, doc="field -> value")


class OpRepairNodeStorage(OpCode):
    """Repair a storage unit; only lvm-vg."""

    OP_DSC_FIELD = "node_name"
    OP_RESULT = ht.TNone

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    storage_type: str = common.STORAGE_TYPE
    name: str | None = common.NAME
    ignore_consistency: bool = common.IGNORE_CONSISTENCY
    missing: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)),
        None,
        doc="do it only while exactly the physical volumes with these UUIDs are missing",
    )


class OpNodeSetParams(OpCode):
    """Change node flags, parameters, secondary IP."""

    OP_DSC_FIELD = "node_name"
    OP_HOOK = "node-modify"
    OP_RESULT = types.TParamChanges

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    force: bool = common.FORCE
    hv_state: dict[str, Any] | None = common.HV_STATE
    disk_state: dict[str, Any] | None = common.DISK_STATE
    master_candidate: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="become (not) candidate")
    offline: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="mark (not) offline")
    drained: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="mark (not) drained")
    auto_promote: bool = Param(ht.TBool, False, doc="promote others to keep the pool size")
    master_capable: bool | None = common.MASTER_CAPABLE
    vm_capable: bool | None = common.VM_CAPABLE
    secondary_ip: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="replication-network address")
    ndparams: dict[str, Any] | None = common.NDPARAMS
    powered: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="recorded power state")


class OpNodePowercycle(OpCode):
    """Hard reset a node via its hypervisor; master needs force."""

    OP_DSC_FIELD = "node_name"
    OP_RESULT = ht.TMaybe(ht.TNonEmptyString)

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    force: bool = common.FORCE


class OpNodeMigrate(OpCode):
    """Submit one INSTANCE_MIGRATE job per primary instance."""

    OP_DSC_FIELD = "node_name"
    OP_HOOK = "node-migrate"
    OP_RESULT = types.TJobIds

    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    mode: str | None = common.MODE
    live: bool | None = common.LIVE
    target_node: str | None = common.TARGET_NODE
    target_node_uuid: str | None = common.TARGET_NODE_UUID
    allow_runtime_changes: bool = common.ALLOW_RUNTIME_CHANGES
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    iallocator: str | None = common.IALLOCATOR


class OpNodeEvacuate(OpCode):
    """Compute and submit the jobs moving instances off a node."""

    OP_DSC_FIELD = "node_name"
    OP_RESULT = types.TJobIds

    early_release: bool = common.EARLY_RELEASE
    node_name: str = common.NODE_NAME
    node_uuid: str | None = common.NODE_UUID
    remote_node: str | None = common.REMOTE_NODE
    remote_node_uuid: str | None = common.REMOTE_NODE_UUID
    iallocator: str | None = common.IALLOCATOR
    mode: str = Param(types.TEvacMode, doc="which role to move")
    ignore_soft_errors: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="let the allocator tolerate soft errors")
    emptying: bool | None = Param(
        ht.TMaybe(ht.TBool), None, doc="with secondary-only: fail if the node still has primary instances"
    )
