"""Opcodes of the cluster as a whole.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param
from ganeti.utils import tokens


class OpClusterPostInit(OpCode):
    """No-op whose only effect is running hooks after init."""

    OP_HOOK = "cluster-init"
    OP_RESULT = ht.TBool


class OpClusterDestroy(OpCode):
    """Destroy the cluster; fails if nodes other than the master or any instances remain."""

    OP_HOOK = "cluster-destroy"
    OP_RESULT = ht.TNonEmptyString


class OpClusterQuery(OpCode):
    """Cluster summary, same keys as LUXI QueryClusterInfo."""

    OP_RESULT = ht.TDict


class OpClusterVerify(OpCode):
    """Fan out: one job with VERIFY_CONFIG (only when no group is given) and one VERIFY_GROUP job per group, the group jobs depending on the config job."""

    OP_RESULT = types.TJobIds

    debug_simulate_errors: bool = common.DEBUG_SIMULATE_ERRORS
    error_codes: bool = common.ERROR_CODES
    skip_checks: list[str] = common.SKIP_CHECKS
    ignore_errors: list[str] = common.IGNORE_ERRORS
    verbose: bool = common.VERBOSE
    group_name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="verify only this group")
    verify_clutter: bool = common.VERIFY_CLUTTER


class OpClusterVerifyConfig(OpCode):
    """Check configuration, certificates, dangling objects."""

    OP_RESULT = ht.TBool

    debug_simulate_errors: bool = common.DEBUG_SIMULATE_ERRORS
    error_codes: bool = common.ERROR_CODES
    ignore_errors: list[str] = common.IGNORE_ERRORS
    verbose: bool = common.VERBOSE


class OpClusterVerifyGroup(OpCode):
    """Check nodes and instances of one group."""

    OP_DSC_FIELD = "group_name"
    OP_HOOK = "cluster-verify"
    OP_RESULT = ht.TBool

    group_name: str = common.GROUP_NAME
    debug_simulate_errors: bool = common.DEBUG_SIMULATE_ERRORS
    error_codes: bool = common.ERROR_CODES
    skip_checks: list[str] = common.SKIP_CHECKS
    ignore_errors: list[str] = common.IGNORE_ERRORS
    verbose: bool = common.VERBOSE
    verify_clutter: bool = common.VERIFY_CLUTTER


class OpClusterVerifyDisks(OpCode):
    """Fan out one GROUP_VERIFY_DISKS job per group."""

    OP_RESULT = types.TJobIds

    group_name: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="only this group")
    is_strict: bool = common.IS_STRICT


class OpGroupVerifyDisks(OpCode):
    """Find down nodes, inactive or missing volumes in a group."""

    OP_DSC_FIELD = "group_name"
    OP_RESULT = ht.TItems(
        ht.TDictOf(ht.TString, ht.TString), ht.TListOf(ht.TString), ht.TDictOf(ht.TString, ht.TListOf(ht.TList))
    )

    group_name: str = common.GROUP_NAME
    is_strict: bool = common.IS_STRICT


class OpClusterRepairDiskSizes(OpCode):
    """Correct recorded sizes from the real devices."""

    OP_RESULT = ht.TListOf(ht.TItems(ht.TNonEmptyString, ht.TNonNegativeInt, ht.TNonEmptyString, ht.TAny))

    instances: list[str] = common.INSTANCES


class OpClusterConfigQuery(OpCode):
    """A few cluster values; field names of query kind `cluster`."""

    OP_RESULT = ht.TList

    output_fields: list[str] = common.OUTPUT_FIELDS


class OpClusterRename(OpCode):
    """Change cluster name and master IP."""

    OP_DSC_FIELD = "name"
    OP_HOOK = "cluster-rename"
    OP_RESULT = ht.TNonEmptyString

    name: str = Param(ht.TNonEmptyString, doc="new name; must resolve")


class OpClusterSetParams(OpCode):
    """Modify cluster-wide settings; unset = unchanged."""

    OP_HOOK = "cluster-modify"
    OP_RESULT = ht.TMaybe(types.TJobIds)

    force: bool = common.FORCE
    hv_state: dict[str, Any] | None = common.HV_STATE
    disk_state: dict[str, Any] | None = common.DISK_STATE
    vg_name: str | None = Param(ht.TMaybe(ht.TString), None, doc="LVM group; '' disables LVM")
    enabled_hypervisors: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(types.THypervisor)), None, doc="the first is the default"
    )
    hvparams: dict[str, dict[str, Any]] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, ht.TDict)), None, doc="per hypervisor"
    )
    beparams: dict[str, Any] | None = Param(ht.TMaybe(ht.TDict), None, doc="backend defaults")
    os_hvp: dict[str, dict[str, Any]] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, ht.TDict)), None, doc="OS -> hypervisor -> parameters"
    )
    osparams: dict[str, dict[str, Any]] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, ht.TDict)), None, doc="OS -> parameters"
    )
    osparams_private_cluster: dict[str, dict[str, Any]] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, types.TPrivate)), None, doc="OS -> private parameters"
    )
    diskparams: dict[str, dict[str, Any]] | None = common.DISKPARAMS
    candidate_pool_size: int | None = Param(ht.TMaybe(ht.TPositiveInt), None, doc="wanted number of master candidates")
    max_running_jobs: int | None = Param(ht.TMaybe(ht.TPositiveInt), None, doc="job slots")
    max_tracked_jobs: int | None = Param(ht.TMaybe(ht.TPositiveInt), None, doc="jobs watched by inotify")
    uid_pool: list[list[Any]] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TItems(ht.TInt, ht.TInt))), None, doc="replace the pool; ranges inclusive"
    )
    add_uids: list[list[Any]] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TItems(ht.TInt, ht.TInt))), None, doc="ranges to add"
    )
    remove_uids: list[list[Any]] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TItems(ht.TInt, ht.TInt))), None, doc="ranges to drop"
    )
    maintain_node_health: bool | None = Param(
        ht.TMaybe(ht.TBool), None, doc="watcher stops guests/DRBD found on offline nodes"
    )
    prealloc_wipe_disks: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="wipe new disks")
    nicparams: dict[str, Any] | None = Param(ht.TMaybe(types.TNic), None, doc="NIC defaults")
    ndparams: dict[str, Any] | None = Param(ht.TMaybe(ht.TDict), None, doc="node parameter defaults")
    ipolicy: dict[str, Any] | None = common.IPOLICY
    drbd_helper: str | None = Param(ht.TMaybe(ht.TString), None, doc="DRBD usermode helper; '' disables DRBD")
    default_iallocator: str | None = Param(ht.TMaybe(ht.TString), None, doc="default allocator; '' clears")
    default_iallocator_params: dict[str, Any] | None = Param(ht.TMaybe(ht.TDict), None, doc="its options")
    mac_prefix: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="cluster MAC prefix")
    master_netdev: str | None = Param(ht.TMaybe(ht.TString), None, doc="device for the master IP")
    master_netmask: int | None = Param(ht.TMaybe(ht.TNonNegativeInt), None, doc="prefix length of the master IP")
    reserved_lvs: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="LV name regexes to ignore"
    )
    hidden_os: list[list[Any]] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TItems(types.TDdmOp, ht.TNonEmptyString))), None, doc="changes to the hidden-OS list"
    )
    blacklisted_os: list[list[Any]] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TItems(types.TDdmOp, ht.TNonEmptyString))), None, doc="changes to the blacklist"
    )
    use_external_mip_script: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="use the site script for the master IP")
    enabled_disk_templates: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(types.TDiskTemplate)), None, doc="the first is the default"
    )
    modify_etc_hosts: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="maintain /etc/hosts")
    file_storage_dir: str | None = Param(ht.TMaybe(ht.TString), None, doc="base for file disks")
    shared_file_storage_dir: str | None = Param(ht.TMaybe(ht.TString), None, doc="base for shared-file disks")
    gluster_storage_dir: str | None = Param(ht.TMaybe(ht.TString), None, doc="base for gluster disks")
    install_image: str | None = Param(ht.TMaybe(ht.TString), None, doc="helper image for OS scripts (abs. path or URL)")
    instance_communication_network: str | None = Param(
        ht.TMaybe(ht.TString), None, doc="network of the communication NIC"
    )
    zeroing_image: str | None = Param(ht.TMaybe(ht.TString), None, doc="helper image for zeroing")
    compression_tools: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="allowed compressors"
    )
    enabled_user_shutdown: bool | None = Param(ht.TMaybe(ht.TBool), None, doc="treat guest-side shutdown as legitimate")
    enabled_data_collectors: dict[str, bool] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, ht.TBool)), None, doc="collector -> on/off"
    )
    data_collector_interval: dict[str, int] | None = Param(
        ht.TMaybe(ht.TDictOf(ht.TNonEmptyString, ht.TInt)), None, doc="collector -> microseconds"
    )


class OpClusterRedistConf(OpCode):
    """Push all ancillary files and the configuration again.

    Returns the names of the nodes that did not get all files; nothing, as in 3.1, where all got them.
    """

    OP_RESULT = ht.TMaybe(ht.TListOf(ht.TNonEmptyString))


class OpClusterActivateMasterIp(OpCode):
    """Bring the master IP up."""

    OP_RESULT = ht.TNone


class OpClusterDeactivateMasterIp(OpCode):
    """Take the master IP down."""

    OP_RESULT = ht.TNone


class OpClusterRapiTokenAdd(OpCode):
    """Let a token use the remote interface; its secret is never part of a job."""

    OP_DSC_FIELD = "name"
    OP_RESULT = ht.TNone

    name: str = Param(tokens.TName, doc="name of the token")
    sha256: str = Param(tokens.TDigest, doc="SHA-256 of the token")
    role: str = Param(ht.TElemOf(constants.RAPI_ROLES), doc="what it may do")
    tags: list[str] = Param(ht.TListOf(ht.TString), [], doc="only instances with one of these tags; empty: all")
    expires: float | None = Param(ht.TMaybe(ht.TFloat), None, doc="Unix time from which on it is not accepted")


class OpClusterRapiTokenRemove(OpCode):
    """Revoke a token of the remote interface."""

    OP_DSC_FIELD = "name"
    OP_RESULT = ht.TNone

    name: str = Param(tokens.TName, doc="name of the token")


class OpClusterRenewCrypto(OpCode):
    """Renew certificates and keys while the cluster serves."""

    OP_RESULT = ht.TNone

    cluster_certificate: bool = Param(ht.TBool, False, doc="renew the certificate that all nodes share")
    confd_hmac_key: bool = Param(ht.TBool, False, doc="renew the key of confd")
    node_certificates: bool = Param(ht.TBool, False, doc="renew SSL client certificates")
    renew_ssh_keys: bool = Param(ht.TBool, False, doc="renew SSH host-to-host keys")
    ssh_key_type: str | None = Param(ht.TMaybe(types.TSshKeyType), None, doc="type of new keys")
    ssh_key_bits: int | None = Param(ht.TMaybe(ht.TPositiveInt), None, doc="size of new keys")
    verbose: bool = common.VERBOSE
    debug: bool = Param(ht.TBool, False, doc="debug output")
