"""Parameters that several opcodes share, declared once."""

from __future__ import annotations

from ganeti import constants, ht
from ganeti.opcodes import types
from ganeti.opcodes.base import Param

ADD_RESERVED_IPS = Param(ht.TMaybe(ht.TListOf(types.TIp4)), None, doc="addresses to reserve")
ALLOC_POLICY = Param(ht.TMaybe(types.TAllocPolicy), None, doc="allocation policy")
ALLOW_RUNTIME_CHANGES = Param(ht.TBool, True, doc="permit ballooning memory to fit the target")
BEPARAMS = Param(ht.TDict, {}, doc="backend parameters")
CLEANUP = Param(ht.TBool, False, doc="recover from an interrupted earlier attempt")
COMPRESS = Param(ht.TString, constants.NO_COMPRESSION, doc="compression tool for the data stream")
CONFLICTS_CHECK = Param(ht.TBool, True, doc="check IPs against known networks/instances")
DEBUG_SIMULATE_ERRORS = Param(ht.TBool, False, doc="pretend that every check fails (testing aid)")
DISKPARAMS = Param(ht.TMaybe(ht.TDictOf(types.TDiskTemplate, ht.TDict)), None, doc="per-template disk parameters")
DISK_STATE = Param(ht.TMaybe(ht.TDict), None, doc="per-storage-type node state overrides")
EARLY_RELEASE = Param(ht.TBool, False, doc="drop locks before the resync ends")
ERROR_CODES = Param(ht.TBool, False, doc="prefix messages with machine-readable code, item type and name")
FILE_DRIVER = Param(ht.TMaybe(types.TFileDriver), None, doc="driver for file-backed disks")
FORCE = Param(ht.TBool, False, doc="override safety checks")
FORCE_VARIANT = Param(ht.TBool, False, doc="accept an OS variant the OS does not list")
GATEWAY6 = Param(ht.TMaybe(types.TIp6), None, doc="IPv6 gateway")
GROUP_NAME = Param(ht.TNonEmptyString, doc="node group, name or UUID")
HVPARAMS = Param(ht.TDict, {}, doc="hypervisor parameters")
HV_STATE = Param(ht.TMaybe(ht.TDict), None, doc="per-hypervisor node state overrides")
IALLOCATOR = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="allocator script that picks nodes; '.' = cluster default")
IF_PRIMARY = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="do it only while this is the instance's primary node")
IGNORE_CONSISTENCY = Param(ht.TBool, False, doc="continue although disks are degraded")
IGNORE_ERRORS = Param(ht.TSetOf(types.TVerifyCode), [], doc="codes demoted from error to warning")
IGNORE_IPOLICY = Param(ht.TBool, False, doc="downgrade policy violations to warnings")
IGNORE_OFFLINE_NODES = Param(ht.TBool, False, doc="skip work on offline nodes, record the state anyway")
INSTANCES = Param(ht.TListOf(ht.TNonEmptyString), [], doc="restrict to these instances; empty = all")
INSTANCE_NAME = Param(ht.TString, doc="instance, name (short form expanded) or full name")
INSTANCE_UUID = Param(
    ht.TMaybe(ht.TNonEmptyString),
    None,
    doc="expected UUID: if the named instance has another one, OpPrereqError(resource_not_unique)",
)
IPOLICY = Param(ht.TMaybe(ht.TDict), None, doc="instance policy (partial)")
IP_CHECK = Param(ht.TBool, False, doc="require that the resolved IP does not answer (needs name_check)")
IS_STRICT = Param(ht.TBool, True, doc="true: wait for all locks; false: take node/instance locks opportunistically")
KIND = Param(types.TTagKind, doc="kind of tagged object")
LIVE = Param(ht.TMaybe(ht.TBool), None, doc="obsolete boolean form of mode")
MAC_PREFIX = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="three-octet MAC prefix")
MASTER_CAPABLE = Param(ht.TMaybe(ht.TBool), None, doc="may become master (candidate)")
MODE = Param(ht.TMaybe(types.TMigrationMode), None, doc="live/non-live; null = hypervisor default")
NAME = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="name of the storage unit")
NAMES = Param(ht.TListOf(ht.TNonEmptyString), [], doc="restrict to these names; empty = all")
NAME_CHECK = Param(ht.TBool, False, doc="resolve the name through DNS")
NDPARAMS = Param(ht.TMaybe(ht.TDict), None, doc="node parameter overrides")
NETWORK6 = Param(ht.TMaybe(types.TIp6Net), None, doc="IPv6 subnet")
NETWORK_NAME = Param(ht.TNonEmptyString, doc="network, name or UUID")
NEW_NAME = Param(ht.TNonEmptyString, doc="the new name")
NODES = Param(ht.TListOf(ht.TNonEmptyString), [], doc="empty = all")
NODE_NAME = Param(ht.TNonEmptyString, doc="node, name (short form expanded)")
NODE_UUID = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID, same check for the node")
NODE_UUIDS = Param(ht.TMaybe(ht.TListOf(ht.TNonEmptyString)), None, doc="node UUIDs (overwritten from the names)")
NO_REMEMBER = Param(ht.TBool, False, doc="do not store the new admin state")
OPPORTUNISTIC_LOCKING = Param(ht.TBool, False, doc="use only nodes whose locks are free right now (needs an allocator)")
OSPARAMS = Param(ht.TDict, {}, doc="OS parameters")
OSPARAMS_PRIVATE = Param(ht.TMaybe(types.TPrivate), None, doc="OS parameters kept out of logs")
OSPARAMS_SECRET = Param(ht.TMaybe(types.TSecret), None, doc="OS parameters never stored")
OUTPUT_FIELDS = Param(ht.TListOf(ht.TNonEmptyString), doc="columns to return, in this order")
REMOTE_NODE = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="new secondary node")
REMOTE_NODE_UUID = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID of it")
SHUTDOWN_TIMEOUT = Param(ht.TNonNegativeInt, 120, doc="seconds given to the guest to stop")
SKIP_CHECKS = Param(ht.TSetOf(types.TVerifyCheck), [], doc="optional checks to leave out")
STORAGE_TYPE = Param(types.TStorageType, doc="kind of storage unit")
TARGET_GROUPS = Param(
    ht.TMaybe(ht.TListOf(ht.TNonEmptyString)),
    None,
    doc="allowed destination groups (names or UUIDs); unset = all others",
)
TARGET_NODE = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="destination node")
TARGET_NODE_UUID = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="expected UUID of it")
USE_LOCKING = Param(ht.TBool, False, doc="take (shared) locks while reading")
VERBOSE = Param(ht.TBool, False, doc="more feedback lines")
VERIFY_CLUTTER = Param(ht.TBool, False, doc="also look for stale keys in authorized_keys")
VM_CAPABLE = Param(ht.TMaybe(ht.TBool), None, doc="may host instances")
WAIT_FOR_SYNC = Param(ht.TBool, True, doc="return only after disks are in sync")
WHAT = Param(types.TQueryKind, doc="resource kind")
