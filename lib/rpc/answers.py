"""The shapes of answers, by procedure: what a node may send as the payload of a call that succeeded.

An answer of another shape counts as a failed call of that node, with its name and the procedure's in the text, so
that nobody behind ``RpcResult.payload`` has to distrust lists, keys and types.  Whether a value is *true* is another
question: a node can lie in the right shape.  ``TAny`` stands where nobody reads the answer, or where the reader checks
it by himself.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ganeti import ht
from ganeti.params import checks, units


def _IsDecimal(value: str) -> bool:
    try:
        return _Number(float(value))
    except ValueError:
        return False


_WORD = re.compile(r"[a-zA-Z0-9_/.][-a-zA-Z0-9+_/.:]{0,255}")
_Number = ht.TQuantity
_Decimal = ht.Type("decimal", lambda value: ht.TString(value) and _IsDecimal(value), words="a number as text")
_MaybeNumber = ht.TMaybe(_Number)
_MaybeString = ht.TMaybe(ht.TString)
_MaybeInt = ht.TMaybe(ht.TInt)
_Strings = ht.TListOf(ht.TString)
_Pair = ht.TItems(ht.TString, ht.TString)
# The master signs it with the secret that other clusters trust.
_TransferKey = ht.Type("transfer key", lambda value: ht.TString(value) and checks.IsTransferKey(value))
# A part of a disk's id, which ends up in commands that people copy.
_StorageWord = ht.Type("word", lambda value: ht.TString(value) and _WORD.fullmatch(value) is not None)

_Guest = ht.TStrictDict(
    {"memory": _Number, "vcpus": ht.TInt, "state": ht.TOr(ht.TInt, ht.TString), "time": _Number}, {}, ht.TAny
)
_Device = ht.TStrictDict(
    {
        "is_degraded": ht.TMaybe(ht.TBool),
        "ldisk_status": ht.TInt,
        "sync_percent": _MaybeNumber,
        "estimated_time": _MaybeNumber,
    },
    {
        "dev_path": _MaybeString,
        "major": _MaybeInt,
        "minor": _MaybeInt,
    },
    ht.TAny,
)
_MirrorState = ht.TStrictDict(
    {
        "connected": ht.TBool,
        "standalone": ht.TBool,
        "in_resync": ht.TBool,
        "local_uptodate": ht.TBool,
        "peer_uptodate": ht.TBool,
        "primary": ht.TBool,
        "frozen": ht.TBool,
    },
    {
        "size": _MaybeInt,
        "incomplete": ht.TBool,
        "peer_primary": ht.TBool,
        "peer_older": ht.TBool,
        "disk": _MaybeString,
        "stranger": _MaybeString,
    },
    ht.TAny,
)
_Migration = ht.TStrictDict(
    {"status": ht.TString}, {"transferred_ram": _MaybeNumber, "total_ram": _MaybeNumber}, ht.TAny
)
_StorageUnit = ht.TStrictDict(
    {"type": ht.TString, "name": _MaybeString, "storage_free": _MaybeNumber, "storage_size": _MaybeNumber},
    {},
    ht.TAny,
)
# A version is a text or a list of numbers, as the hypervisor has it.
_HypervisorFacts = ht.TDictOf(ht.TString, ht.TOr(_MaybeNumber, ht.TString, ht.TListOf(ht.TInt)))
_Crypto = ht.TStrictDict(
    {
        "secrets": ht.TDictOf(ht.TString, ht.TItems(*[_MaybeString] * 3)),
        "client": ht.TItems(*[_MaybeString] * 4),
        "listed": _Strings,
    },
    {},
)
_System = ht.TItems(
    ht.TString,
    ht.TString,
    ht.TBool,
    ht.TString,
    _Strings,
    ht.TListOf(_Pair),
    ht.TListOf(ht.TInt),
    ht.TBool,
)
_OsFacts = ht.TDictOf(
    ht.TString, ht.TStrictDict({"version": _MaybeString, "hypervisors": ht.TMaybe(_Strings)}, {}, ht.TAny)
)
_Provider = ht.TItems(ht.TString, ht.TString, ht.TBool, ht.TString, ht.TListOf(_Pair))
_TransferName = ht.TRegex(r"[a-zA-Z0-9_.-]{1,255}", "the name of a transfer")
_Transfer = ht.TStrictDict(
    {},
    {
        "ctime": _MaybeNumber,
        "mtime": _MaybeNumber,
        "recent_output": ht.TMaybe(_Strings),
        "listen_port": ht.TMaybe(ht.Type("port", lambda value: ht.TInt(value) and 0 < value < 65536)),
        "connected": ht.TMaybe(ht.TBool),
        "progress_mbytes": _MaybeNumber,
        "progress_throughput": _MaybeNumber,
        "progress_percent": _MaybeNumber,
        "progress_eta": _MaybeNumber,
        "exit_status": _MaybeInt,
        "error_message": _MaybeString,
    },
    ht.TAny,
)
_NodeErrors = ht.TListOf(_Pair)
_Size = ht.TOr(_Decimal, _Number)
_Volume = ht.TItems(_Size, ht.TBool, ht.TBool)
_Problems = ht.TDictOf(ht.TString, _MaybeString)
# Where a wrong shape is a finding of its own, cmdlib.cluster.verify_nodes looks at it.
_Verification = ht.TStrictDict(
    {},
    {
        "filelist": ht.TDictOf(ht.TString, ht.TString),
        "ssh-setup": _Strings,
        "ssh-clutter": _Strings,
        "nodelist": _Problems,
        "node-net-test": _Problems,
        "user-scripts": _Strings,
        "oob-paths": ht.TListOf(_MaybeString),
        "hypervisor": _Problems,
        "hvparms": ht.TListOf(ht.TItems(ht.TString, ht.TString, ht.TString)),
        "nodesetup": _Strings,
        "bridges": _Strings,
        "allowed-file-storage-paths": _Strings,
        "instance-files": ht.TDictOf(ht.TString, _Strings),
        "oslist": ht.TMaybe(ht.TListOf(_System)),
        "os-facts": _OsFacts,
        "vglist": ht.TDictOf(ht.TString, _Number),
        "lvlist": ht.TOr(ht.TDictOf(ht.TString, _Volume), ht.TString),
        "pvlist": ht.TListOf(
            ht.TStrictDict({"name": ht.TString, "vg_name": ht.TString, "size": _Number}, {}, ht.TAny),
        ),
        "exclusive-pvs": ht.TListOf(ht.TItems(ht.TString, _Strings)),
        "drbd-version": _MaybeString,
        "drbd-list": ht.TOr(ht.TListOf(ht.TInt), ht.TString),
        "drbd-helper": ht.TItems(ht.TBool, ht.TString),
    },
    ht.TAny,
)

ANSWERS: dict[str, ht.Type] = {
    # instances
    "accept_instance": ht.TAny,
    "all_instances_info": ht.TDictOf(ht.TString, _Guest),
    "hotplug_device": ht.TAny,
    "hotplug_supported": ht.TAny,
    "instance_balloon_memory": ht.TAny,
    "instance_console_info": ht.TDictOf(ht.TString, ht.TDict),
    "instance_end_copy": ht.TAny,
    "instance_end_sent": ht.TAny,
    "instance_finalize_migration_dst": ht.TAny,
    "instance_finalize_migration_src": ht.TAny,
    "instance_get_migration_status": _Migration,
    "instance_info": ht.TOr(ht.TElemOf([{}]), _Guest),
    "instance_list": _Strings,
    "instance_metadata_modify": ht.TAny,
    "instance_migratable": ht.TAny,
    "instance_migrate": ht.TAny,
    "instance_os_add": ht.TAny,
    "instance_reboot": ht.TAny,
    "instance_resume_sent": ht.TAny,
    "instance_run_rename": ht.TAny,
    # An odd answer means more than an unreachable node: cmdlib.instance.looking reads it with care.
    "instance_run_state": ht.TAny,
    "instance_shutdown": ht.TAny,
    "instance_start": ht.TAny,
    "migration_info": ht.TAny,
    "resize_disk": ht.TAny,
    # block devices
    "bdev_identities": ht.TDictOf(ht.TString, ht.TItems(ht.TInt, ht.TInt, ht.TString, ht.TBool)),
    "bdev_sizes": ht.TDictOf(ht.TString, _Number),
    "blockdev_addchildren": ht.TAny,
    "blockdev_assemble": ht.TListOf(ht.TOr(_MaybeString, ht.TBool)),
    "blockdev_close": ht.TAny,
    "blockdev_convert": ht.TAny,
    "blockdev_create": ht.TAny,
    "blockdev_find": ht.TMaybe(_Device),
    "blockdev_getdimensions": ht.TListOf(ht.TMaybe(ht.TItems(ht.TNonNegativeInt, _MaybeInt))),
    "blockdev_getmirrorstatus": ht.TListOf(_Device),
    "blockdev_getmirrorstatus_multi": ht.TListOf(ht.TItems(ht.TBool, ht.TOr(_Device, _MaybeString))),
    "blockdev_grow": ht.TAny,
    "blockdev_image": ht.TAny,
    "blockdev_open": ht.TAny,
    "blockdev_pause_resume_sync": ht.TListOf(ht.TItems(ht.TBool, _MaybeString)),
    "blockdev_remove": ht.TAny,
    "blockdev_removechildren": ht.TAny,
    "blockdev_rename": ht.TAny,
    "blockdev_setinfo": ht.TAny,
    "blockdev_shutdown": ht.TAny,
    "blockdev_snapshot": ht.TListOf(_StorageWord),
    "blockdev_wipe": ht.TAny,
    "drbd_attach_net": ht.TAny,
    "drbd_disconnect_net": ht.TAny,
    "drbd_follow": ht.TAny,
    "drbd_helper": ht.TString,
    "drbd_needs_activation": _Strings,
    "drbd_states": ht.TDictOf(ht.TString, _MirrorState),
    "drbd_views": ht.TDictOf(ht.TString, _MirrorState),
    "drbd_wait_sync": ht.TItems(ht.TBool, _MaybeNumber),
    # storage
    "extstorage_diagnose": ht.TListOf(_Provider),
    "file_storage_dir_create": ht.TAny,
    "file_storage_dir_remove": ht.TAny,
    "file_storage_dir_rename": ht.TAny,
    "lv_list": ht.TDictOf(ht.TString, _Volume),
    "node_volumes": ht.TListOf(
        ht.TStrictDict(
            {"dev": ht.TString, "vg": ht.TString, "name": ht.TString, "size": _Size}, {"health": ht.TString}, ht.TAny
        )
    ),
    "storage_execute": ht.TAny,
    # BY_ARGUMENTS says more.
    "storage_list": ht.TListOf(ht.TList),
    "storage_modify": ht.TAny,
    "vg_list": ht.TDictOf(ht.TString, _Number),
    # operating systems
    "os_diagnose": ht.TListOf(_System),
    "os_export": ht.TString,
    "node_long_calls": ht.TListOf(ht.TItems(ht.TString, _Number, ht.TBool, ht.TString)),
    "os_extra_info": _OsFacts,
    "os_package_report": ht.TString,
    "os_package_size": ht.TPositiveInt,
    "os_package_write": ht.TAny,
    "os_validate": ht.TBool,
    # keys and certificates
    "crypto_activate": ht.TAny,
    "crypto_certify": ht.TAny,
    "crypto_look": _Crypto,
    "crypto_stage": ht.TAny,
    "crypto_withdraw": ht.TAny,
    # transfers
    "export_info": ht.TString,
    "export_list": _Strings,
    "export_remove": ht.TAny,
    "export_start": _TransferName,
    "finalize_export": ht.TAny,
    "impexp_abort": ht.TAny,
    "impexp_cleanup": ht.TAny,
    "impexp_status": ht.TListOf(ht.TMaybe(_Transfer)),
    "import_start": _TransferName,
    "x509_cert_create": ht.TItems(_TransferKey, ht.TString),
    "x509_cert_remove": ht.TAny,
    # nodes
    "bridges_exist": ht.TAny,
    "etc_hosts_modify": ht.TAny,
    "get_watcher_pause": _MaybeNumber,
    "master_node_name": ht.TString,
    "node_activate_master_ip": ht.TAny,
    "node_change_master_netmask": ht.TAny,
    "node_configure_ovs": ht.TAny,
    "node_crypto_tokens": ht.TListOf(_Pair),
    "node_deactivate_master_ip": ht.TAny,
    "node_demote_from_mc": ht.TAny,
    "node_ensure_daemon": ht.TAny,
    "node_has_ip_address": ht.TBool,
    "node_info": ht.TItems(
        _MaybeString,
        ht.TMaybe(ht.TListOf(_StorageUnit)),
        ht.TMaybe(ht.TListOf(ht.TMaybe(_HypervisorFacts))),
    ),
    "node_leave_cluster": ht.TAny,
    "node_powercycle": _MaybeString,
    "node_ssh_key_add": _NodeErrors,
    "node_ssh_key_remove": _NodeErrors,
    "node_ssh_keys_renew": _NodeErrors,
    "node_start_master_daemons": ht.TAny,
    "node_stop_master": ht.TAny,
    "node_verify": _Verification,
    "node_verify_light": _Verification,
    "restricted_command": ht.TString,
    # The program of an administrator decides on it.
    "run_oob": ht.TAny,
    "set_watcher_pause": ht.TAny,
    "test_delay": ht.TAny,
    "version": ht.TInt,
    # files
    "get_file_info": ht.TItems(ht.TBool, ht.TDictOf(ht.TString, ht.TInt)),
    "upload_file": ht.TAny,
    "upload_file_single": ht.TAny,
    "write_ssconf_files": ht.TAny,
    "jobqueue_purge": ht.TAny,
    "jobqueue_rename": ht.TAny,
    "jobqueue_set_drain_flag": ht.TAny,
    "jobqueue_update": ht.TAny,
    # programs
    "hooks_runner": ht.TListOf(ht.TItems(ht.TString, ht.TInt, ht.TString)),
    "hypervisor_validate_params": ht.TAny,
    "iallocator_runner": ht.TString,
    # the store, which reads its answers key by key
    "store_promise": ht.TDict,
    "store_append": ht.TDict,
    "store_catchup": ht.TDict,
    "store_copy": ht.TDict,
    "store_empty": ht.TDict,
    "store_fetch": ht.TDict,
    "store_status": ht.TDict,
    "store_relay": ht.TDict,
}

# Answers with one entry for each element of the call's only argument, in its order.
ONE_EACH = frozenset(
    [
        "blockdev_getdimensions",
        "blockdev_getmirrorstatus",
        "blockdev_getmirrorstatus_multi",
        "blockdev_pause_resume_sync",
        "impexp_status",
    ]
)


# The shapes of answers that depend on what was asked: procedure -> shape, from the arguments of the call.
BY_ARGUMENTS: dict[str, Callable[..., ht.Type]] = {
    "storage_list": lambda kind, _arguments, _name, fields: ht.TListOf(units.RowShape(kind, fields)),
}


def Fits(procedure: str, payload: object) -> bool:
    """Return whether a payload has the shape of the procedure's answers."""
    return ANSWERS[procedure](payload)
