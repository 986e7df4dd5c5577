"""The logical units: what each opcode does on the master, by subject.

::

    mcpu.Processor --> LU_MAPPING[opcode id] --> LUInstanceStartup(...)
                                                   |  CheckArguments ExpandNames DeclareLocks CheckPrereq Exec
                                                   |     base       LogicalUnit, Tasklet, ResultWithJobs
                                                   |     common     names, locks, states of nodes and instances
                                                   |     hookenv    variables of the hooks
                                                   v     disks      disk objects, their making, assembling, taking down
                                                 cfg (the configuration), rpc (the nodes)

A subject's module is imported when its first opcode is executed.

Glossary

* logical unit -- the code of one opcode; changes the cluster in Exec only
* tasklet -- a piece that several units share, working under their locks
* prerequisite -- what must hold before Exec; failing there leaves everything as it was
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from ganeti import opcodes
from ganeti.cmdlib.base import LogicalUnit, NoHooksLU, ResultWithJobs, Tasklet

# Module -> the opcodes whose units it holds.
_SUBJECTS: dict[str, tuple[str, ...]] = {
    "backup.prepare": ("OpBackupPrepare",),
    "backup.remove": ("OpBackupRemove",),
    "cluster.life": (
        "OpClusterPostInit",
        "OpClusterDestroy",
        "OpClusterRename",
        "OpClusterRedistConf",
        "OpClusterActivateMasterIp",
        "OpClusterDeactivateMasterIp",
    ),
    "backup.export": ("OpBackupExport",),
    "instance.query": ("OpInstanceQueryData",),
    "cluster.modify": ("OpClusterSetParams",),
    "cluster.renew": ("OpClusterRenewCrypto",),
    "cluster.tokens": ("OpClusterRapiTokenAdd", "OpClusterRapiTokenRemove"),
    "cluster.verify": ("OpClusterVerify", "OpClusterVerifyConfig", "OpClusterVerifyGroup"),
    "query": (
        "OpQuery",
        "OpQueryFields",
        "OpOsDiagnose",
        "OpExtStorageDiagnose",
        "OpClusterQuery",
        "OpClusterConfigQuery",
    ),
    "cluster.verify_disks": ("OpClusterVerifyDisks", "OpGroupVerifyDisks", "OpClusterRepairDiskSizes"),
    "group.evacuate": ("OpGroupEvacuate",),
    "group.life": ("OpGroupAdd", "OpGroupRemove", "OpGroupRename", "OpGroupSetParams", "OpGroupAssignNodes"),
    "instance.moving.change_group": ("OpInstanceChangeGroup",),
    "instance.create": ("OpInstanceCreate",),
    "disk.grow": ("OpInstanceGrowDisk",),
    "instance.life": ("OpInstanceRemove", "OpInstanceRename", "OpInstanceReinstall"),
    "instance.moving.migrate": ("OpInstanceFailover", "OpInstanceMigrate"),
    "instance.moving.move": ("OpInstanceMove",),
    "instance.multi_alloc": ("OpInstanceMultiAlloc",),
    "instance.modify": ("OpInstanceSetParams",),
    "disk.recreate": ("OpInstanceRecreateDisks",),
    "disk.replace": ("OpInstanceReplaceDisks",),
    "disk.settle": ("OpInstanceSettleMirrors",),
    "instance.run": (
        "OpInstanceStartup",
        "OpInstanceShutdown",
        "OpInstanceReboot",
        "OpInstanceConsole",
        "OpInstanceActivateDisks",
        "OpInstanceDeactivateDisks",
    ),
    "network": (
        "OpNetworkAdd",
        "OpNetworkRemove",
        "OpNetworkRename",
        "OpNetworkSetParams",
        "OpNetworkConnect",
        "OpNetworkDisconnect",
    ),
    "node.evacuate": ("OpNodeEvacuate",),
    "node.life": ("OpNodeAdd", "OpNodeRemove", "OpNodePowercycle"),
    "node.migrate": ("OpNodeMigrate",),
    "node.modify": ("OpNodeSetParams",),
    "node.power": ("OpOobCommand", "OpRestrictedCommand"),
    "node.storage": ("OpNodeQueryvols", "OpNodeQueryStorage", "OpNodeModifyStorage", "OpRepairNodeStorage"),
    "tags": ("OpTagsGet", "OpTagsSet", "OpTagsDel", "OpTagsSearch"),
    "test": ("OpTestDelay", "OpTestJqueue", "OpTestOsParams"),
    "testallocator": ("OpTestAllocator",),
}

_MODULES = {opcodes.NameToId(name): (module, f"LU{name[2:]}") for module, names in _SUBJECTS.items() for name in names}


class _Mapping(Mapping[str, type[LogicalUnit]]):
    """Opcode id -> class of its logical unit, imported when it is asked for."""

    def __getitem__(self, op_id: str) -> type[LogicalUnit]:
        module, name = _MODULES[op_id]
        cls: type[LogicalUnit] = getattr(importlib.import_module(f"ganeti.cmdlib.{module}"), name)
        return cls

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


LU_MAPPING = _Mapping()

__all__ = ["LU_MAPPING", "LogicalUnit", "NoHooksLU", "ResultWithJobs", "Tasklet"]
