"""Opcodes of instances.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpInstanceCreate(OpCode):
    """Create, import, or reserve an instance."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-add"
    OP_RESULT = ht.TListOf(ht.TNonEmptyString)

    instance_name: str = Param(ht.TString, doc="new name")
    force_variant: bool = common.FORCE_VARIANT
    wait_for_sync: bool = common.WAIT_FOR_SYNC
    name_check: bool = common.NAME_CHECK
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    opportunistic_locking: bool = common.OPPORTUNISTIC_LOCKING
    beparams: dict[str, Any] = common.BEPARAMS
    disks: list[dict[str, Any]] = Param(ht.TListOf(types.TDisk), doc="disks to create")
    disk_template: str | None = Param(ht.TMaybe(types.TDiskTemplate), None, doc="null = first enabled template")
    group_name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="allocate inside this group")
    file_driver: str | None = common.FILE_DRIVER
    file_storage_dir: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="sub-directory, relative")
    hvparams: dict[str, Any] = common.HVPARAMS
    hypervisor: str | None = Param(ht.TMaybe(types.THypervisor), None, doc="null = cluster default")
    iallocator: str | None = common.IALLOCATOR
    identify_defaults: bool = Param(ht.TBool, False, doc="do not store values equal to defaults (import)")
    ip_check: bool = common.IP_CHECK
    conflicts_check: bool = common.CONFLICTS_CHECK
    mode: str = Param(types.TCreationMode, doc="source of the data")
    nics: list[dict[str, Any]] = Param(ht.TListOf(types.TNic), doc="NICs to create")
    no_install: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="skip OS scripts; forces start=false")
    osparams: dict[str, Any] = common.OSPARAMS
    osparams_private: dict[str, Any] | None = common.OSPARAMS_PRIVATE
    osparams_secret: dict[str, Any] | None = common.OSPARAMS_SECRET
    os_type: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="OS definition, optionally name+variant")
    pnode: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="primary node")
    pnode_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID of it")
    snode: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="secondary node")
    snode_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID of it")
    source_handshake: list[Any] | None = Param(ht.TMaybe(ht.TList), None, doc="remote import: signed handshake")
    source_instance_name: str | None = Param(
        ht.TMaybe(ht.TNonEmptyString), None, doc="remote import: name at the source"
    )
    source_shutdown_timeout: int = Param(ht.TNonNegativeInt, 120, doc="remote import: seconds the source guest got")
    source_x509_ca: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="remote import: CA PEM")
    src_node: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="import: node holding the export")
    src_node_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="import: its UUID")
    src_path: str | None = Param(
        ht.TMaybe(ht.TNonEmptyString), None, doc="import: directory; default the instance name"
    )
    compress: str = common.COMPRESS
    start: bool = Param(ht.TBool, True, doc="start afterwards")
    forthcoming: bool = Param(ht.TBool, False, doc="only reserve resources")
    commit: bool = Param(ht.TBool, False, doc="turn a forthcoming instance into a real one")
    tags: list[str] = Param(ht.TListOf(ht.TNonEmptyString), [], doc="instance tags")
    instance_communication: bool = Param(ht.TBool, False, doc="attach the metadata/communication NIC")
    helper_startup_timeout: int | None = Param(ht.TMaybe(ht.TInt), None, doc="seconds for the helper VM to start")
    helper_shutdown_timeout: int | None = Param(
        ht.TMaybe(ht.TInt), None, doc="seconds for the helper VM to install and power off"
    )


_HIDDEN = tuple(name for name, spec in OpInstanceCreate.OP_PARAMS.items() if spec.private)


def _FindHidden(value: Any) -> ht.Explanation | None:
    """Return the first value that must not stay in the job of all instances, where nothing hides it."""
    for number, item in enumerate(value if isinstance(value, list) else ()):
        for name in _HIDDEN:
            if isinstance(item, dict) and item.get(name):
                return (f"item {number}", f"'{name}'"), "only allowed when an instance is created by itself"
    return None


_TDefinitions = ht.Type(
    "list", lambda value: ht.TList(value) and _FindHidden(value) is None, ht.TList.Schema(), "a list", _FindHidden
)


class OpInstanceMultiAlloc(OpCode):
    """Allocate several instances with one allocator run, then submit one create job each."""

    OP_RESULT = ht.TStrictDict(
        {
            "jobs": ht.TListOf(types.TIdPair),
            "allocatable": ht.TListOf(ht.TNonEmptyString),
            "failed": ht.TListOf(ht.TNonEmptyString),
        },
        {},
    )

    opportunistic_locking: bool = common.OPPORTUNISTIC_LOCKING
    iallocator: str | None = common.IALLOCATOR
    instances: list[Any] = Param(
        _TDefinitions,
        [],
        doc="serialized OP_INSTANCE_CREATE dicts (with OP_ID), without iallocator; either all or none name nodes",
    )


class OpInstanceReinstall(OpCode):
    """Run OS create scripts again on a stopped instance."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-reinstall"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    force_variant: bool = common.FORCE_VARIANT
    os_type: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="new OS; null = keep")
    osparams: dict[str, Any] | None = Param(ht.TMaybe(ht.TDict), None, doc="temporary override")
    osparams_private: dict[str, Any] | None = common.OSPARAMS_PRIVATE
    osparams_secret: dict[str, Any] | None = common.OSPARAMS_SECRET
    check_only: bool | None = Param(
        ht.TMaybe(ht.TBool), None, doc="only check whether this OS could be installed, also while the instance runs"
    )


class OpInstanceRemove(OpCode):
    """Stop and delete an instance."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-remove"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    shutdown_timeout: int = common.SHUTDOWN_TIMEOUT
    ignore_failures: bool = Param(ht.TBool, False, doc="continue when shutdown or disk removal fails")


class OpInstanceRename(OpCode):
    """Rename a stopped instance."""

    OP_HOOK = "instance-rename"
    OP_RESULT = ht.TNonEmptyString

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    new_name: str = common.NEW_NAME
    name_check: bool = common.NAME_CHECK
    ip_check: bool = common.IP_CHECK


class OpInstanceStartup(OpCode):
    """Start an instance."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-start"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    force: bool = Param(ht.TBool, False, doc="start despite warnings")
    ignore_offline_nodes: bool = common.IGNORE_OFFLINE_NODES
    hvparams: dict[str, Any] = Param(ht.TDict, {}, doc="overrides for this start only")
    beparams: dict[str, Any] = Param(ht.TDict, {}, doc="overrides for this start only")
    no_remember: bool = common.NO_REMEMBER
    startup_paused: bool = Param(ht.TBool, False, doc="start paused")
    shutdown_timeout: int = Param(ht.TNonNegativeInt, 120, doc="used to clean up a guest in user-down state")


class OpInstanceShutdown(OpCode):
    """Stop an instance."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-stop"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    force: bool = Param(ht.TBool, False, doc="act even if the admin state is offline")
    ignore_offline_nodes: bool = common.IGNORE_OFFLINE_NODES
    timeout: int = Param(ht.TNonNegativeInt, 120, doc="seconds for a clean stop")
    no_remember: bool = common.NO_REMEMBER
    admin_state_source: str | None = Param(ht.TMaybe(types.TAdminSource), None, doc="who asked; null = admin")


class OpInstanceReboot(OpCode):
    """Reboot."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-reboot"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    shutdown_timeout: int = common.SHUTDOWN_TIMEOUT
    ignore_secondaries: bool = Param(ht.TBool, False, doc="start although secondary disks fail")
    reboot_type: str = Param(
        types.TRebootType, doc="soft = inside the guest, hard = destroy/start, full = stop, disks off/on, start"
    )


class OpInstanceReplaceDisks(OpCode):
    """Replace DRBD disks or the secondary."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "mirrors-replace"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    early_release: bool = common.EARLY_RELEASE
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    mode: str = Param(types.TReplaceMode, doc="what to replace")
    disks: list[int] = Param(ht.TListOf(types.TDiskIndex), [], doc="disk indices; empty = all")
    remote_node: str | None = common.REMOTE_NODE
    remote_node_uuid: str | None = common.REMOTE_NODE_UUID
    iallocator: str | None = common.IALLOCATOR
    if_primary: str | None = common.IF_PRIMARY


class OpInstanceFailover(OpCode):
    """Stop on primary, start on secondary/target."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-failover"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    shutdown_timeout: int = common.SHUTDOWN_TIMEOUT
    ignore_consistency: bool = common.IGNORE_CONSISTENCY
    target_node: str | None = common.TARGET_NODE
    target_node_uuid: str | None = common.TARGET_NODE_UUID
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    cleanup: bool = common.CLEANUP
    iallocator: str | None = common.IALLOCATOR
    if_primary: str | None = common.IF_PRIMARY


class OpInstanceMigrate(OpCode):
    """Live or suspended migration."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-migrate"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    mode: str | None = common.MODE
    live: bool | None = common.LIVE
    target_node: str | None = common.TARGET_NODE
    target_node_uuid: str | None = common.TARGET_NODE_UUID
    allow_runtime_changes: bool = common.ALLOW_RUNTIME_CHANGES
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    cleanup: bool = common.CLEANUP
    iallocator: str | None = common.IALLOCATOR
    if_primary: str | None = common.IF_PRIMARY
    keep_node: str | None = Param(
        ht.TMaybe(ht.TNonEmptyString), None, doc="cleanup: the copy on this node is the guest, others are ended"
    )
    keep_node_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID of it")
    allow_failover: bool = Param(ht.TBool, False, doc="fall back to failover if not running")
    ignore_hvversions: bool = Param(ht.TBool, False, doc="tolerate differing hypervisor versions")


class OpInstanceMove(OpCode):
    """Copy disks to another node (non-mirrored templates)."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-move"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    shutdown_timeout: int = common.SHUTDOWN_TIMEOUT
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    target_node: str = Param(ht.TNonEmptyString, doc="destination node")
    target_node_uuid: str | None = common.TARGET_NODE_UUID
    compress: str = common.COMPRESS
    ignore_consistency: bool = common.IGNORE_CONSISTENCY


class OpInstanceConsole(OpCode):
    """How to reach the console."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TDict

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID


class OpInstanceActivateDisks(OpCode):
    """Assemble disks."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TListOf(ht.TItems(ht.TNonEmptyString, ht.TNonEmptyString, ht.TMaybe(ht.TNonEmptyString)))

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    ignore_size: bool = Param(ht.TBool, False, doc="do not trust the recorded size")
    wait_for_sync: bool = Param(ht.TBool, False, doc="return only after disks are in sync")
    behind: str | None = Param(
        ht.TMaybe(ht.TNonEmptyString), None, doc="the secondary node whose copies do not count and are filled again"
    )
    ignore_consistency: bool = Param(
        ht.TBool, False, doc="with behind: give that node's copies up even if they are newer; the instance must not run"
    )


class OpInstanceSettleMirrors(OpCode):
    """Decide which sides of an instance's mirrors count; the master submits it itself (doc/design-drbd.rst)."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TNone
    URGENT = True

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID


class OpInstanceDeactivateDisks(OpCode):
    """Shut disks down; the instance must be stopped unless force."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    force: bool = common.FORCE


class OpInstanceRecreateDisks(OpCode):
    """Create missing disks again, optionally on other nodes."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-recreate-disks"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    disks: list[Any] = Param(types.TRecreateDisks, [], doc="indices or [index,{size,spindles,...}]; empty = all")
    nodes: list[str] = Param(ht.TListOf(ht.TNonEmptyString), [], doc="new nodes")
    node_uuids: list[str] | None = common.NODE_UUIDS
    iallocator: str | None = common.IALLOCATOR


class OpInstanceQueryData(OpCode):
    """Detailed per-instance data (gnt-instance info)."""

    OP_RESULT = types.TDictOfDict

    use_locking: bool = common.USE_LOCKING
    instances: list[str] = common.INSTANCES
    static: bool = Param(ht.TBool, False, doc="configuration only, no RPC")


class OpInstanceSetParams(OpCode):
    """Modify an instance; at least one change required."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-modify"
    OP_RESULT = types.TParamChanges

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    force: bool = common.FORCE
    force_variant: bool = common.FORCE_VARIANT
    ignore_ipolicy: bool = common.IGNORE_IPOLICY
    nics: list[Any] = Param(types.TModifications(types.TNic), [], doc="NIC changes")
    disks: list[Any] = Param(types.TModifications(types.TDisk), [], doc="disk changes; exclusive with disk_template")
    beparams: dict[str, Any] = common.BEPARAMS
    runtime_mem: int | None = Param(ht.TMaybe(ht.TPositiveInt), None, doc="balloon the running guest (MiB)")
    hvparams: dict[str, Any] = common.HVPARAMS
    disk_template: str | None = Param(ht.TMaybe(types.TDiskTemplate), None, doc="convert all disks")
    ext_params: dict[str, Any] = Param(ht.TDict, {}, doc="provider parameters for conversion to ext")
    file_driver: str | None = common.FILE_DRIVER
    file_storage_dir: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="sub-directory for file-backed disks")
    pnode: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="new primary recorded without moving data")
    pnode_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="its UUID")
    remote_node: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="secondary used by the conversion")
    remote_node_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="its UUID")
    iallocator: str | None = common.IALLOCATOR
    os_name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="change the recorded OS only")
    osparams: dict[str, Any] = common.OSPARAMS
    osparams_private: dict[str, Any] | None = common.OSPARAMS_PRIVATE
    wait_for_sync: bool = common.WAIT_FOR_SYNC
    offline: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="true = admin state offline, false = down")
    conflicts_check: bool = common.CONFLICTS_CHECK
    hotplug: bool = Param(ht.TBool, True, doc="apply to the running guest too (3.0: default false)")
    instance_communication: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="attach the metadata/communication NIC")


class OpInstanceGrowDisk(OpCode):
    """Enlarge one disk."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "disk-grow"
    OP_RESULT = ht.TNone

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    wait_for_sync: bool = common.WAIT_FOR_SYNC
    disk: int = Param(types.TDiskIndex, doc="disk index")
    amount: int = Param(ht.TNonNegativeInt, doc="MiB")
    absolute: bool = Param(ht.TBool, False, doc="amount is the final size, not the increment")
    ignore_ipolicy: bool = common.IGNORE_IPOLICY


class OpInstanceChangeGroup(OpCode):
    """Submit jobs moving the instance to another group."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-change-group"
    OP_RESULT = types.TJobIds

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    early_release: bool = common.EARLY_RELEASE
    iallocator: str | None = common.IALLOCATOR
    target_groups: list[str] | None = common.TARGET_GROUPS
