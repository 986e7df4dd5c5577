"""Opcodes of node groups.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpGroupAdd(OpCode):
    """Create a group."""

    OP_DSC_FIELD = "group_name"
    OP_HOOK = "group-add"
    OP_RESULT = ht.TMaybe(types.TJobIds)

    group_name: str = Param(ht.TNonEmptyString, doc="new name")
    alloc_policy: str | None = common.ALLOC_POLICY
    ndparams: dict[str, Any] | None = common.NDPARAMS
    diskparams: dict[str, dict[str, Any]] | None = common.DISKPARAMS
    hv_state: dict[str, Any] | None = common.HV_STATE
    disk_state: dict[str, Any] | None = common.DISK_STATE
    ipolicy: dict[str, Any] | None = common.IPOLICY


class OpGroupAssignNodes(OpCode):
    """Move nodes into a group."""

    OP_DSC_FIELD = "group_name"
    OP_RESULT = ht.TNone

    group_name: str = common.GROUP_NAME
    force: bool = Param(ht.TBool, False, doc="accept newly split mirrored instances")
    nodes: list[str] = Param(ht.TListOf(ht.TNonEmptyString), doc="node names")
    node_uuids: list[str] | None = common.NODE_UUIDS


class OpGroupSetParams(OpCode):
    """Modify a group; at least one change."""

    OP_DSC_FIELD = "group_name"
    OP_HOOK = "group-modify"
    OP_RESULT = types.TParamChanges

    group_name: str = common.GROUP_NAME
    alloc_policy: str | None = common.ALLOC_POLICY
    ndparams: dict[str, Any] | None = common.NDPARAMS
    diskparams: dict[str, dict[str, Any]] | None = common.DISKPARAMS
    hv_state: dict[str, Any] | None = common.HV_STATE
    disk_state: dict[str, Any] | None = common.DISK_STATE
    ipolicy: dict[str, Any] | None = common.IPOLICY


class OpGroupRemove(OpCode):
    """Delete an empty group (never the last)."""

    OP_DSC_FIELD = "group_name"
    OP_HOOK = "group-remove"
    OP_RESULT = ht.TNone

    group_name: str = common.GROUP_NAME


class OpGroupRename(OpCode):
    """Rename."""

    OP_HOOK = "group-rename"
    OP_RESULT = ht.TNonEmptyString

    group_name: str = common.GROUP_NAME
    new_name: str = common.NEW_NAME


class OpGroupEvacuate(OpCode):
    """Submit jobs moving all instances to other groups."""

    OP_DSC_FIELD = "group_name"
    OP_HOOK = "group-evacuate"
    OP_RESULT = types.TJobIds

    group_name: str = common.GROUP_NAME
    early_release: bool = common.EARLY_RELEASE
    iallocator: str | None = common.IALLOCATOR
    target_groups: list[str] | None = common.TARGET_GROUPS
    sequential: bool = Param(ht.TBool, False, doc="chain the jobs one after another")
    force_failover: bool = Param(ht.TBool, False, doc="failover instead of migrate")
