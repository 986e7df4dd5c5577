"""Opcodes of backups.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from typing import Any

from ganeti import constants, ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpBackupPrepare(OpCode):
    """Get what a remote export needs."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TMaybe(ht.TDict)

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    mode: str = Param(types.TExportMode, doc="mode")


class OpBackupExport(OpCode):
    """Export to a node or another cluster."""

    OP_DSC_FIELD = "instance_name"
    OP_HOOK = "instance-export"
    OP_RESULT = ht.TItems(ht.TBool, ht.TListOf(ht.TBool))

    instance_name: str = common.INSTANCE_NAME
    instance_uuid: str | None = common.INSTANCE_UUID
    compress: str = common.COMPRESS
    shutdown_timeout: int = common.SHUTDOWN_TIMEOUT
    target_node: Any = Param(types.TExportTarget, doc="local: node name; remote: per disk [host,port,magic,hmac,salt]")
    target_node_uuid: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="local only")
    shutdown: bool = Param(ht.TBool, True, doc="stop the guest first")
    remove_instance: bool = Param(ht.TBool, False, doc="delete the instance afterwards (needs shutdown)")
    ignore_remove_failures: bool = Param(ht.TBool, False, doc="tolerate errors while deleting")
    mode: str = Param(types.TExportMode, constants.EXPORT_LOCAL, doc="local or remote")
    x509_key_name: list[Any] | None = Param(ht.TMaybe(ht.TList), None, doc="remote: [name,hmac,salt]")
    destination_x509_ca: str | None = Param(ht.TMaybe(ht.TNonEmptyString), None, doc="remote: signed CA PEM")
    zero_free_space: bool = Param(
        ht.TBool, False, doc="zero unused blocks first (needs mode local, shutdown and compression)"
    )
    zeroing_timeout_fixed: int | None = Param(ht.TMaybe(ht.TInt), None, doc="fixed seconds for zeroing")
    zeroing_timeout_per_mib: float | None = Param(ht.TMaybe(ht.TFloat), None, doc="plus this per MiB")
    long_sleep: bool = Param(
        ht.TBool, False, doc="keep the guest down for the whole export where its disks have no snapshots"
    )


class OpBackupRemove(OpCode):
    """Delete exports of an instance from all nodes."""

    OP_DSC_FIELD = "instance_name"
    OP_RESULT = ht.TNone

    instance_name: str = Param(ht.TString, doc="need not exist")
    instance_uuid: str | None = common.INSTANCE_UUID
