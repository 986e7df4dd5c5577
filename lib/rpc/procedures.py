"""The table of node procedures: names, arguments, time-outs, targets, and whether a call changes something.

Client methods, dispatch, shape checks and the epoch check derive from it; ``tools/write-rpc`` makes ``calls.pyi`` and
``doc/noderpc.rst``.  Rows follow doc/reference/noderpc.md 6; which ones change something follows
doc/design-store.rst, "Which calls change something".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ganeti import constants
from ganeti.rpc.encodings import ENCODINGS, Encoding

TIMEOUTS: dict[str, int] = {
    "U": constants.RPC_TMO_URGENT,
    "F": constants.RPC_TMO_FAST,
    "N": constants.RPC_TMO_NORMAL,
    "S": constants.RPC_TMO_SLOW,
    "4H": constants.RPC_TMO_4HRS,
    "1D": constants.RPC_TMO_1DAY,
    "T": 10,
    "L": 20,
}
STORE_TIMEOUT = "T"  # calls of the store (its rule 13), and others that no call may delay
DURATION_PLUS_5 = "d+5"

# What a voter answers that is to write a file which it makes itself, from its copy of the store.
STORE_OWNS = "the store owns this file"

# How targets are found (doc/reference/noderpc.md 2).
DEFAULT, BOOTSTRAP, DNS_ONLY, ADDRESSES, QUEUE = "D", "B", "V", "C", "J"


@dataclass(frozen=True, slots=True)
class Arg:
    """One positional argument and the name of its encoding."""

    name: str
    enc: str

    @property
    def encoding(self) -> Encoding:
        return ENCODINGS[self.enc]


@dataclass(frozen=True, slots=True)
class Procedure:
    """A row.  ``timeout`` is a letter of TIMEOUTS or DURATION_PLUS_5; ``multi``: called on a list of nodes at once;
    ``offline_too``: nodes marked offline are called as well; ``without_epoch``: a changing call that bootstrap may make
    before there is a master; ``body_object``: the request body is the only argument itself, not a list.
    """

    name: str
    args: tuple[Arg, ...]
    timeout: str
    multi: bool
    resolver: str
    changes: bool
    offline_too: bool
    doc: str
    without_epoch: bool = False
    body_object: bool = False

    def Seconds(self, args: Sequence[Any]) -> float:
        """Return the call's time-out."""
        if self.timeout == DURATION_PLUS_5:
            return int(args[0] + 5)
        return TIMEOUTS[self.timeout]


# Kind: time-out letter; "s" one node or "m" several; resolver; then optionally "offline" and "bootstrap".
def _Row(name: str, kind: str, doc: str, changes: bool, args: dict[str, str], body_object: bool = False) -> Procedure:
    timeout, number, resolver, *flags = kind.split()
    return Procedure(
        name,
        tuple(Arg(arg, enc) for arg, enc in args.items()),
        timeout,
        number == "m",
        resolver,
        changes,
        "offline" in flags,
        doc,
        "bootstrap" in flags,
        body_object,
    )


def _Reads(name: str, kind: str, doc: str, /, **args: str) -> Procedure:
    return _Row(name, kind, doc, False, args)


def _Changes(name: str, kind: str, doc: str, /, **args: str) -> Procedure:
    return _Row(name, kind, doc, True, args)


_INSTANCES = (
    _Changes(
        "accept_instance",
        "N s D",
        "Prepares this node for an incoming migration.",
        instance="INST",
        info="any",
        target="address",
    ),
    _Reads(
        "all_instances_info",
        "U m D",
        "Returns {name: {memory, vcpus, state, time}} for the given hypervisors.",
        hypervisor_list="[str]",
        all_hvparams="{hv: {}}",
    ),
    _Changes(
        "hotplug_device",
        "N s D",
        "Adds, removes or changes a device of a running instance; hotremove returns its hvinfo.",
        instance="INST",
        action="hot action",
        dev_type="hot device",
        device="NIC or DISK",
        extra="any",
        seq="int",
    ),
    _Reads("hotplug_supported", "N s D", "Fails if devices of a running instance cannot be changed.", instance="INST"),
    _Changes(
        "instance_balloon_memory",
        "N s D",
        "Sets the memory of the running guest, in MiB.",
        instance="INST",
        memory="size",
    ),
    _Changes(
        "instance_finalize_migration_dst",
        "N s D",
        "Ends a migration on the target, and cleans up if success is false.",
        instance="INST",
        info="any",
        success="bool",
    ),
    _Changes(
        "instance_finalize_migration_src",
        "S s D",
        "Not offered: instance_end_sent names the attempt that it ends.",
        instance="INST",
        success="bool",
        live="bool",
    ),
    _Reads(
        "instance_get_migration_status",
        "S s D",
        "Returns {status, transferred_ram, total_ram, postcopy_status}.",
        instance="INST",
    ),
    _Reads(
        "instance_info",
        "U s D",
        "Returns {memory, vcpus, state, time}, or {} if it does not run.",
        instance="name",
        hname="name",
        hvparams="{}",
    ),
    _Reads(
        "instance_list",
        "U m D",
        "Returns the names of running instances.",
        hypervisor_list="[str]",
        hvparams="{hv: {}}",
    ),
    _Changes("instance_metadata_modify", "U s D", "Passes metadata to the metadata daemon.", instance="OBJ"),
    _Reads("instance_migratable", "N s D", "Fails if the instance cannot be migrated.", instance="INST"),
    _Changes(
        "instance_migrate",
        "S s D",
        "Starts a migration to the target address.",
        cluster_name="name",
        instance="INST",
        target="address",
        live="bool",
    ),
    _Changes(
        "instance_os_add",
        "1D s D",
        "Runs the create script of the operating system.",
        instance_osp="INST+osp",
        reinstall="bool",
        debug="int",
    ),
    _Changes(
        "instance_reboot",
        "N s D",
        "Reboots the guest (soft), or shuts it down and starts it (hard).",
        inst="INST",
        reboot_type="reboot type",
        shutdown_timeout="seconds",
        reason="TRAIL",
    ),
    _Changes(
        "instance_run_rename",
        "S s D",
        "Runs the rename script of the operating system.",
        instance="INST",
        old_name="name",
        debug="int",
    ),
    _Changes(
        "instance_shutdown",
        "N s D",
        "Shuts the guest down, and ends it after the timeout.",
        instance="INST",
        timeout="seconds",
        reason="TRAIL",
    ),
    _Changes(
        "instance_start",
        "N s D",
        "Starts the guest unless it runs.",
        instance_hvp_bep="INST+hvp,bep",
        startup_paused="bool",
        reason="TRAIL",
    ),
    _Reads("migration_info", "N s D", "Returns opaque data that the target needs for a migration.", instance="INST"),
    _Changes(
        "resize_disk",
        "N s D",
        "Passes the new size of a disk, in bytes, to the hypervisor.",
        instance="INST",
        disk="DISK",
        new_size="size",
    ),
    _Row(
        "instance_console_info",
        "U m D",
        "Returns how to reach consoles: {instance name: console}.",
        False,
        {"instances": "{}"},
        body_object=True,
    ),
)

_BLOCK_DEVICES = (
    _Reads("bdev_sizes", "U m D", "Returns {path: MiB} of block devices.", devices="[path]"),
    _Changes("blockdev_addchildren", "N s D", "Attaches storage to a mirror.", bdev="DISK", ndevs="[DISK]"),
    _Changes(
        "blockdev_assemble",
        "N s D",
        "Opens a device, for use if on_primary; returns [device path, symlink, URI].",
        disk="DISK",
        instance="INST",
        on_primary="bool",
        idx="int",
    ),
    _Changes("blockdev_close", "N s D", "Closes devices for instances.", instance_name="str", disks="[DISK]"),
    _Changes("blockdev_convert", "S s D", "Copies one local device to another.", bdev_src="DISK", bdev_dest="DISK"),
    _Changes(
        "blockdev_create",
        "N s D",
        "Creates a device and returns its unique ID.",
        bdev="DISK",
        size="size",
        owner="str",
        on_primary="bool",
        info="str",
        exclusive_storage="bool",
    ),
    _Reads("blockdev_find", "N s D", "Returns the status of a device, or null.", disk="DISK"),
    _Reads("blockdev_getdimensions", "N s D", "Returns a list of [bytes, spindles] or null.", disks="[DISK]"),
    _Reads(
        "blockdev_getmirrorstatus", "N s D", "Returns a list of status; fails if a device is missing.", disks="[DISK]"
    ),
    _Reads(
        "blockdev_getmirrorstatus_multi",
        "N m D",
        "Returns a list of [true, status] or [false, text]; each node gets a list of its own.",
        node_disks="[DISK] by node",
    ),
    _Changes(
        "blockdev_grow",
        "N s D",
        "Enlarges a device by a number of MiB.",
        cf_bdev="DISK",
        amount="size",
        dryrun="bool",
        backingstore="bool",
        es_flag="bool",
    ),
    _Changes("blockdev_image", "S s D", "Writes an image to a device.", bdev="DISK", image="path or URL", size="size"),
    _Changes(
        "blockdev_open", "N s D", "Opens devices for instances.", instance_name="str", disks="[DISK]", exclusive="bool"
    ),
    _Changes(
        "blockdev_pause_resume_sync",
        "N s D",
        "Pauses or resumes synchronization; returns a list of [bool, text or null].",
        disks="[DISK]",
        pause="bool",
    ),
    _Changes("blockdev_remove", "N s D", "Removes a device and its children.", bdev="DISK"),
    _Changes("blockdev_removechildren", "N s D", "Detaches storage from a mirror.", bdev="DISK", ndevs="[DISK]"),
    _Changes("blockdev_rename", "N s D", "Renames devices.", devlist="[[DISK, id]]"),
    _Changes("blockdev_setinfo", "N s D", "Writes the owner's text to a device.", disk="DISK", info="str"),
    _Changes("blockdev_shutdown", "N s D", "Closes a device and its children.", disk="DISK"),
    _Changes(
        "blockdev_snapshot",
        "N s D",
        "Creates a snapshot and returns its unique ID.",
        cf_bdev="DISK",
        snap_name="str?",
        snap_size="size?",
    ),
    _Changes(
        "blockdev_wipe",
        "S s D",
        "Overwrites a part of a device with zeros; offset and size are in MiB.",
        bdev="DISK",
        offset="size",
        size="size",
    ),
    _Changes(
        "drbd_attach_net",
        "N m D",
        "Connects mirrors, or keeps the links that are there, and waits for them.",
        disks="[DISK]",
        multimaster="bool",
    ),
    _Changes("drbd_disconnect_net", "N m D", "Disconnects mirrors.", disks="[DISK]"),
    _Reads("drbd_helper", "U m D", "Returns the path of the usermode helper."),
    _Reads("drbd_needs_activation", "N s D", "Returns the UUIDs of disks that must be activated.", disks="[DISK]"),
    _Changes("drbd_wait_sync", "S m D", "Returns [whether all are in sync, lowest percentage].", disks="[DISK]"),
)

_STORAGE = (
    _Reads("extstorage_diagnose", "F m D", "Returns [[name, path, valid, text, parameters]]."),
    _Changes("file_storage_dir_create", "F s D", "Creates an allowed directory.", file_storage_dir="path"),
    _Changes("file_storage_dir_remove", "F s D", "Removes an empty directory.", file_storage_dir="path"),
    _Changes(
        "file_storage_dir_rename",
        "F s D",
        "Renames a directory.",
        old_file_storage_dir="path",
        new_file_storage_dir="path",
    ),
    _Reads("lv_list", "U m D", "Returns {vg/lv: [size, inactive, open]}.", vg_name="[str]"),
    _Reads("node_volumes", "F m D", "Returns [{name, size, dev, vg, health}]."),
    _Changes(
        "storage_execute",
        "N s D",
        "Runs an operation on a storage unit.",
        su_name="name",
        su_args="list",
        name="str",
        op="name",
    ),
    _Reads(
        "storage_list",
        "N m D",
        "Returns rows of storage units, in the order of the fields.",
        su_name="name",
        su_args="list",
        name="str?",
        fields="[str]",
    ),
    _Changes(
        "storage_modify", "N s D", "Changes a storage unit.", su_name="name", su_args="list", name="str", changes="{}"
    ),
    _Reads("vg_list", "U m D", "Returns {vg: MiB}."),
)

_SYSTEMS = (
    _Reads("os_diagnose", "F m D", "Returns [[name, path, valid, text, variants, parameters, API versions, trusted]]."),
    _Changes(
        "os_export",
        "F s D",
        "Packs definition and environment into a file and returns its path.",
        instance="INST",
        override_env="{str: str}",
    ),
    _Reads(
        "os_validate",
        "F m D",
        "Returns whether the system exists; fails if it rejects the parameters.",
        required="bool",
        name="name",
        checks="[str]",
        params="{}",
        force_variant="bool",
    ),
)

_ADDED = (
    _Changes(
        "crypto_activate",
        "F m D",
        "Puts staged secrets with these digests into use; those before stay accepted.",
        digests="{str: str}",
    ),
    _Changes(
        "crypto_certify",
        "F m D",
        "Makes a new certificate of the node beside the one in use, signed with this cluster certificate.",
        authority="str?",
    ),
    _Reads("crypto_look", "F m D", "Returns the digests of secrets and certificates that the node uses and accepts."),
    _Changes(
        "crypto_stage", "F m D", "Keeps a secret beside the one in use: both are accepted.", kind="name", content="BLOB"
    ),
    _Changes(
        "crypto_withdraw",
        "F m D",
        "Accepts no secrets but those in use, if these have the digests.",
        digests="{str: str}",
    ),
    _Reads(
        "bdev_identities",
        "U m D",
        "Returns {path: [major, minor, real path, whether the system has it in use]} of block devices.",
        devices="[path]",
    ),
    _Changes("drbd_follow", "U s D", "Makes active mirrors obey what is said of their peers.", disks="[DISK]"),
    _Reads("drbd_states", "U m D", "Returns {minor: state of the mirror} of all mirrors of the node."),
    _Reads(
        "drbd_views",
        "U m D",
        "Returns {UUID: state} of these mirrors; other devices in their places are named and have no state.",
        node_disks="[DISK] by node",
    ),
    _Changes(
        "instance_end_copy",
        "N s D",
        "Ends a copy of a guest at once, if its process is still the one with this identity.",
        instance="INST",
        ident="int",
    ),
    _Changes(
        "instance_end_sent",
        "N s D",
        "Forgets an attempt to send a guest, if process and attempt are still those given; ends the copy if it was seen as sent.",
        instance="INST",
        ident="int",
        attempt="str?",
        sent="bool",
    ),
    _Changes(
        "instance_resume_sent",
        "N s D",
        "Resumes a sent copy, if process and attempt are still those given.",
        instance="INST",
        ident="int",
        attempt="str?",
    ),
    _Reads(
        "instance_run_state",
        "L m D",
        "Returns the state of the guest's process: {run_state, ident, sending, never, sent_to, attempt, arrival}.",
        instance="name",
        hname="name",
        hvparams="{}",
    ),
    _Reads(
        "node_long_calls",
        "T m D",
        "Returns [[procedure, seconds, whether its caller has given up, program]] of calls that take longer.",
        seconds="seconds",
    ),
    _Reads(
        "os_extra_info", "F m D", "Returns {name: {version, hypervisors}} of the valid systems, null where not given."
    ),
    _Reads("os_package_report", "S s D", "Returns what a helper VM has written over its package.", bdev="DISK"),
    _Reads(
        "os_package_size",
        "S s D",
        "Returns how large a disk must be for the package with which a helper VM installs the system.",
        name="name",
    ),
    _Changes(
        "os_package_write",
        "S s D",
        "Writes that package to a disk.",
        instance_osp="INST+osp",
        override_env="{str: str}",
        bdev="DISK",
    ),
)

_TRANSFERS = (
    _Reads("export_info", "F s D", "Returns the text of an export's config.ini.", path="vpath"),
    _Reads("export_list", "F m D", "Returns the names of exports."),
    _Changes("export_remove", "F s D", "Removes an export.", export="name"),
    _Changes(
        "export_start",
        "N s D",
        "Starts to send and returns the name of the transfer.",
        opts="OBJ",
        host="address",
        port="port",
        instance="INST for IO",
        component="name",
        source="IO",
    ),
    _Changes("finalize_export", "N s D", "Writes config.ini.", instance="INST", snap_disks="[DISK or false]"),
    _Changes("impexp_abort", "N s D", "Asks a transfer to end.", name="name"),
    _Changes("impexp_cleanup", "N s D", "Ends a transfer and removes its directory.", name="name"),
    _Reads("impexp_status", "F s D", "Returns the status of transfers, null for unknown ones.", names="[name]"),
    _Changes(
        "import_start",
        "N s D",
        "Starts to receive and returns the name of the transfer.",
        opts="OBJ",
        instance="INST for IO",
        component="name",
        dest="IO",
    ),
    _Changes(
        "x509_cert_create",
        "N s D",
        "Creates a certificate, valid for some seconds, and returns [name, certificate].",
        validity="size",
    ),
    _Changes("x509_cert_remove", "N s D", "Removes a certificate and its key.", name="name"),
)

_NODES = (
    _Reads("bridges_exist", "U s D", "Fails with the names of missing bridges.", bridges_list="[str]"),
    _Changes(
        "etc_hosts_modify",
        "N s D",
        "Adds or removes a line of the hosts file.",
        mode="add or remove",
        name="name",
        ip="name?",
    ),
    _Reads("get_watcher_pause", "U s D", "Returns the end of the watcher's pause, or null."),
    _Reads("master_node_name", "U m B", "Returns the name of the master that this node knows."),
    _Changes(
        "node_activate_master_ip",
        "F s B bootstrap",
        "Adds the master IP address to the interface.",
        master_params="OBJ",
        use_external_mip_script="bool",
    ),
    _Changes(
        "node_change_master_netmask",
        "F s B",
        "Changes the netmask of the master IP address.",
        old_netmask="size",
        netmask="size",
        master_ip="address",
        master_netdev="name",
    ),
    _Changes("node_configure_ovs", "N s D", "Creates an Open vSwitch.", ovs_name="name", ovs_link="str?"),
    _Reads("node_crypto_tokens", "S s D", "Returns [[type, digest]].", token_request="tokens"),  # noqa: S106 - an encoding
    _Changes(
        "node_deactivate_master_ip",
        "F s B bootstrap",
        "Removes the master IP address from the interface.",
        master_params="OBJ",
        use_external_mip_script="bool",
    ),
    _Changes("node_demote_from_mc", "F s D", "Removes the files that only master candidates keep."),
    _Changes("node_ensure_daemon", "U m D", "Starts or stops a daemon.", daemon="name", run="bool"),
    _Reads("node_has_ip_address", "F s D", "Returns whether this node has the address.", address="address"),
    _Reads(
        "node_info",
        "U m D",
        "Returns [boot ID, storage, hypervisors].",
        storage_units="storage units",
        hv_specs="hv specs",
    ),
    _Changes(
        "node_leave_cluster",
        "N s B bootstrap",
        "Removes the cluster's files; the daemon stops.",
        modify_ssh_setup="bool",
    ),
    _Changes(
        "node_powercycle", "N s D offline", "Resets the machine after five seconds.", hypervisor="name", hvparams="{}"
    ),
    _Changes(
        "node_ssh_key_add",
        "F m D",
        "Distributes a node's SSH keys; returns [[node, error]].",
        node_uuid="name",
        node_name="name",
        potential_master_candidates="[str]",
        to_authorized_keys="bool",
        to_public_keys="bool",
        get_public_keys="bool",
    ),
    _Changes(
        "node_ssh_key_remove",
        "F m D",
        "Removes a node's SSH keys; returns [[node, error]].",
        node_uuid="name",
        node_name="name",
        master_candidate_uuids="[str]",
        potential_master_candidates="[str]",
        from_authorized_keys="bool",
        from_public_keys="bool",
        clear_authorized_keys="bool",
        clear_public_keys="bool",
        readd="bool",
    ),
    _Changes(
        "node_ssh_keys_renew",
        "4H m D",
        "Renews the SSH keys of nodes; returns [[node, error]].",
        node_uuids="[str]",
        node_names="[str]",
        master_candidate_uuids="[str]",
        potential_master_candidates="[str]",
        old_key_type="name",
        new_key_type="name",
        new_key_bits="size",
    ),
    _Changes("node_start_master_daemons", "F s B bootstrap", "Starts the daemons of the master.", no_voting="bool"),
    _Changes("node_stop_master", "F s B bootstrap", "Stops the daemons of the master."),
    _Reads(
        "node_verify",
        "N m D",
        "Runs the checks asked for (doc/reference/noderpc.md 4).",
        checkdict="{}",
        cluster_name="name",
        all_hvparams="{hv: {}}",
    ),
    _Reads(
        "node_verify_light",
        "N m V",
        "Runs the same checks on a node that is not in the configuration yet.",
        checkdict="{}",
        cluster_name="name",
        hvparams="{hv: {}}",
    ),
    _Changes("restricted_command", "S m D", "Runs a command that the administrator provided on the node.", cmd="str"),
    _Changes(
        "run_oob",
        "N s D",
        "Runs an out-of-band program and returns its output as JSON.",
        oob_program="path",
        command="oob command",
        remote_node="name",
        timeout="seconds",
    ),
    _Changes("set_watcher_pause", "U m D", "Sets the end of the watcher's pause; null ends it now.", until="time?"),
    _Reads("test_delay", "d+5 m D", "Sleeps.", duration="seconds"),
    _Reads("version", "U m V offline", "Returns the version of the protocol."),
)

_FILES = (
    _Reads("get_file_info", "F s D", "Returns [exists, {size: bytes}].", file_path="path"),
    _Changes("upload_file", "N m C", "Writes a file that the cluster may write.", file_name="FILE"),
    _Changes(
        "upload_file_single",
        "N m C",
        "Writes a file that the cluster may write.",
        file_name="vpath",
        content="BLOB",
        mode="mode",
        uid="user",
        gid="user",
        atime="time",
        mtime="time",
    ),
    _Changes("write_ssconf_files", "N m C", "Writes ssconf files.", values="ssconf values"),
    _Changes("jobqueue_purge", "N s J", "Rejected: the store owns the queue."),
    _Changes("jobqueue_rename", "U m J", "Rejected: the store owns the queue.", rename="vpath renames"),
    _Changes("jobqueue_set_drain_flag", "U m J", "Rejected: the store owns the queue.", flag="bool"),
    _Changes("jobqueue_update", "U m J", "Rejected: the store owns the queue.", file_name="vpath", content="BLOB"),
)

_PROGRAMS = (
    _Changes(
        "hooks_runner",
        "N m D",
        "Runs hooks and returns [[script, status, output]].",
        hpath="name",
        phase="phase",
        env="{str: str}",
    ),
    _Reads(
        "hypervisor_validate_params",
        "N m D",
        "Fails if parameters are not valid on this node.",
        hvname="name",
        hvfull="{}",
    ),
    _Reads(
        "iallocator_runner",
        "N s D",
        "Runs an allocator and returns its output.",
        name="name",
        idata="str",
        default_iallocator_params="{str: str?}",
    ),
)

# Ours.  The store checks epochs itself: its calls name theirs in the argument.
_STORE = (
    _Reads("store_promise", "T m D offline", "Promises an epoch to a master.", message="{}"),
    _Reads("store_append", "T m D", "Stores a transaction.", message="{}"),
    _Reads("store_catchup", "T m D", "Stores all rows that are newer than this node's.", message="{}"),
    _Reads("store_copy", "T m D", "Stores a part of a full copy.", message="{}"),
    _Reads("store_empty", "T m D offline", "Empties the store of a node that is not a voter anymore.", message="{}"),
    _Reads("store_fetch", "T s D offline", "Returns rows for a new master.", message="{}"),
    _Reads(
        "store_status",
        "T m D offline",
        "Returns the state of this node's store, and older calls that are still running.",
        message="{}",
    ),
    _Reads(
        "store_relay",
        "T s D offline",
        "Passes a master's call on to a node that does not know the master's certificate, and returns its answer.",
        message="{}",
    ),
)

PROCEDURES: dict[str, Procedure] = {
    row.name: row
    for group in (
        _INSTANCES,
        _BLOCK_DEVICES,
        _STORAGE,
        _SYSTEMS,
        _ADDED,
        _TRANSFERS,
        _NODES,
        _FILES,
        _PROGRAMS,
        _STORE,
    )
    for row in group
}

STORE_PROCEDURES: frozenset[str] = frozenset(row.name for row in _STORE)
# Nodes are asked again and again; whoever does so says when one falls silent and when it is back.
WATCHING_PROCEDURES: frozenset[str] = STORE_PROCEDURES | {"drbd_states"}
OUR_PROCEDURES: frozenset[str] = STORE_PROCEDURES | frozenset(row.name for row in _ADDED)
"""What release 3.1 does not know."""
