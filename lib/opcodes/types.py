"""Types that only opcodes need (doc/reference/opcodes.md 1.1 and 1.2)."""

from __future__ import annotations

import re

from ganeti import constants, ht
from ganeti.ht import (
    TAny,
    TBool,
    TDictOf,
    TElemOf,
    TInt,
    TItems,
    TList,
    TListOf,
    TMaybe,
    TNonEmptyString,
    TOr,
    TString,
    Type,
)

TDiskTemplate = TElemOf(constants.DISK_TEMPLATES)
THypervisor = TElemOf(constants.HYPER_TYPES)
TStorageType = TElemOf(constants.STORAGE_TYPES)
TFileDriver = TElemOf(constants.FILE_DRIVERS)
TCreationMode = TElemOf((constants.CREATE_NEW, constants.CREATE_IMPORT, constants.CREATE_REMOTE_IMPORT))
TRebootType = TElemOf(("soft", "hard", "full"))
TReplaceMode = TElemOf(("replace_on_primary", "replace_on_secondary", "replace_new_secondary", "replace_auto"))
TMigrationMode = TElemOf(("live", "non-live"))
TEvacMode = TElemOf(("primary-only", "secondary-only", "all"))
TExportMode = TElemOf((constants.EXPORT_LOCAL, constants.EXPORT_REMOTE))
TAllocPolicy = TElemOf(constants.VALID_ALLOC_POLICIES)
TNicMode = TElemOf(
    (constants.NIC_MODE_BRIDGED, constants.NIC_MODE_ROUTED, constants.NIC_MODE_OVS, constants.NIC_MODE_POOL)
)
TTagKind = TElemOf(constants.VALID_TAG_TYPES)
TAdminSource = TElemOf((constants.ADMIN_SOURCE, constants.USER_SOURCE))
TDdmOp = TElemOf(("add", "attach", "remove", "detach"))
TDdmOpModify = TElemOf(("add", "attach", "remove", "detach", "modify"))
TOobCommand = TElemOf(("health", "power-cycle", "power-off", "power-on", "power-status"))
TOobStatus = TElemOf(("CRITICAL", "OK", "UNKNOWN", "WARNING"))
TAllocatorDirection = TElemOf(("in", "out"))
TAllocatorMode = TElemOf(
    (
        "allocate",
        "allocate-secondary",
        "multi-allocate",
        "relocate",
        "node-evacuate",
        "change-group",
        "balance",
        "capacity",
    )
)
TSshKeyType = TElemOf(("rsa", "dsa", "ecdsa"))
TQueryKind = TElemOf(("cluster", "instance", "node", "group", "os", "export", "network"))
TVerifyCheck = TElemOf(("nplusone_mem", "hvparam_assessment"))

VERIFY_CODES = (
    "ECLUSTERCFG",
    "ECLUSTERCERT",
    "ECLUSTERCLIENTCERT",
    "ECLUSTERFILECHECK",
    "ECLUSTERDANGLINGNODES",
    "ECLUSTERDANGLINGINST",
    "EINSTANCEBADNODE",
    "EINSTANCEDOWN",
    "EINSTANCELAYOUT",
    "EINSTANCEMISSINGDISK",
    "EINSTANCEFAULTYDISK",
    "EINSTANCEWRONGNODE",
    "EINSTANCESPLITGROUPS",
    "EINSTANCEPOLICY",
    "EINSTANCEUNSUITABLENODE",
    "EINSTANCEMISSINGCFGPARAMETER",
    "ENODEDRBD",
    "ENODEDRBDVERSION",
    "ENODEDRBDHELPER",
    "ENODEFILECHECK",
    "ENODEHOOKS",
    "ENODEHV",
    "ENODELVM",
    "ENODEN1",
    "ENODENET",
    "ENODEOS",
    "ENODEORPHANINSTANCE",
    "ENODEORPHANLV",
    "ENODERPC",
    "ENODESSH",
    "ENODEVERSION",
    "ENODESETUP",
    "ENODETIME",
    "ENODEOOBPATH",
    "ENODEUSERSCRIPTS",
    "ENODEFILESTORAGEPATHS",
    "ENODEFILESTORAGEPATHUNUSABLE",
    "ENODESHAREDFILESTORAGEPATHUNUSABLE",
    "ENODEGLUSTERSTORAGEPATHUNUSABLE",
    "EGROUPDIFFERENTPVSIZE",
    "EEXTAGS",
    "ENODELOSS",
)
TVerifyCode = TElemOf(VERIFY_CODES)

TPriority = TElemOf(constants.OP_PRIO_SUBMIT_VALID)
TJobStatusFinal = TElemOf(sorted(constants.JOBS_FINALIZED))
TDepends = TListOf(TItems(ht.TRelativeJobId, TListOf(TJobStatusFinal)))
TReason = TListOf(TItems(TString, TString, TInt))

_VERSION = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-[0-9]{1,18}")
TVersion = Type(
    "UUID-SERIAL",
    lambda v: isinstance(v, str) and _VERSION.fullmatch(v) is not None,
    {"type": "string", "pattern": f"^{_VERSION.pattern}$"},
    "a UUID and a serial number, joined by '-'",
)

# Values of these are hidden from logs; those of TSecret are never stored either.
TPrivate = Type("private", ht.TDict, {"type": "object"}, privacy=ht.PRIVATE)
TSecret = Type("secret", ht.TDict, {"type": "object"}, privacy=ht.SECRET)

TDiskIndex = Type(
    "disk index 0..15",
    lambda v: TInt(v) and 0 <= v < constants.MAX_DISKS,
    {"type": "integer", "minimum": 0, "maximum": constants.MAX_DISKS - 1},
    f"the number of a disk, 0 to {constants.MAX_DISKS - 1}",
)

MAX_ALLOCATED = 1000
TAllocatorCount = Type(
    f"int 0..{MAX_ALLOCATED}",
    lambda v: TInt(v) and 0 <= v <= MAX_ALLOCATED,
    {"type": "integer", "minimum": 0, "maximum": MAX_ALLOCATED},
    f"a whole number, 0 to {MAX_ALLOCATED}",
)

# Addresses: the text is checked by the logical unit.
TIp4 = Type("IPv4 address", TString, {"type": "string"}, "an IPv4 address")
TIp4Net = Type("IPv4 network", TString, {"type": "string"}, "an IPv4 network")
TIp6 = Type("IPv6 address", TString, {"type": "string"}, "an IPv6 address")
TIp6Net = Type("IPv6 network", TString, {"type": "string"}, "an IPv6 network")

_NIC_KEYS = {
    "mac": TMaybe(TNonEmptyString),
    "ip": TMaybe(TString),
    "mode": TMaybe(TNonEmptyString),
    "link": TMaybe(TNonEmptyString),
    "vlan": TMaybe(TString),
    "name": TMaybe(TNonEmptyString),
    "network": TMaybe(TNonEmptyString),
    "bridge": TMaybe(TNonEmptyString),
}
TNic = Type("NIC", ht.TStrictDict({}, _NIC_KEYS), ht.TStrictDict({}, _NIC_KEYS).Schema())

_TDiskValue = TOr(TNonEmptyString, TInt)
_DISK_KEYS = {
    "size": _TDiskValue,
    "mode": TElemOf((constants.DISK_RDONLY, constants.DISK_RDWR)),
    "adopt": TNonEmptyString,
    "vg": TNonEmptyString,
    "metavg": TNonEmptyString,
    "name": TMaybe(TNonEmptyString),
    "provider": TNonEmptyString,
    "access": TNonEmptyString,
    "spindles": TInt,
}
_TDisk = ht.TStrictDict({}, _DISK_KEYS, others=_TDiskValue)
TDisk = Type("DISK", _TDisk, _TDisk.Schema())


def TModifications(inner: Type) -> Type:
    """Changes of a device list: all ``[op, index, X]``, or all in the deprecated form ``[op or index, X]``."""
    new = TListOf(TItems(TDdmOpModify, TOr(TInt, TNonEmptyString), inner))
    old = TListOf(TItems(TOr(TInt, TDdmOp), inner))
    return Type(f"changes of {inner}", TOr(new, old))


TRecreateDisks = Type("disks to recreate", TOr(TListOf(TDiskIndex), TListOf(TItems(TDiskIndex, TDisk))))
TExportTarget = Type(
    "node name or remote target", TOr(TNonEmptyString, TList), words="the name of a node, or a remote target"
)

TIdPair = TItems(TBool, TOr(TInt, TString))
TJobIds = ht.TStrictDict({"jobs": TListOf(TIdPair)}, {})
TFieldDef = ht.TStrictDict({"name": TString, "title": TString, "kind": TString, "doc": TString}, {})
TQueryFieldsResult = ht.TStrictDict({"fields": TListOf(TFieldDef)}, {})
TQueryResult = ht.TStrictDict({"fields": TListOf(TFieldDef), "data": TListOf(TListOf(TItems(TInt, TAny)))}, {})
TDictOfDict = TDictOf(TNonEmptyString, ht.TDict)
TUidRanges = TListOf(TItems(TInt, TInt))
TOsListChanges = TListOf(TItems(TDdmOp, TNonEmptyString))
TParamChanges = TListOf(TItems(TAny, TAny))
