"""gnt-cluster init: makes this machine a cluster of one node."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import FileValue, Off, Opt, Options, Value
from ganeti.client.gnt_cluster.options import SET_SETTINGS, SSH_KEY_BITS, SSH_KEY_TYPE
from ganeti.client.shared import policy, typed
from ganeti.opcodes import OpClusterPostInit

PRIMARY_IP_VERSION = Value(
    "--primary-ip-version", dest="primary_ip_version", default="4", metavar="4|6",
    text="IP version of the nodes' primary addresses",
)  # fmt: skip
GLUSTER_STORAGE_DIR = FileValue(
    "--gluster-storage-dir", dest="gluster_storage_dir", metavar="DIR",
    text="Directory on the nodes for mounts of Gluster volumes",
)  # fmt: skip
NO_ETC_HOSTS = Off("--no-etc-hosts", dest="modify_etc_hosts", text="Never change /etc/hosts on the nodes")
NO_SSH_INIT = Off("--no-ssh-init", dest="modify_ssh_setup", text="Never manage SSH keys on the nodes")

_SPEC_WORDS = {
    "cpu-count": "number of virtual CPUs",
    "disk-count": "number of disks",
    "disk-size": "size of a disk",
    "memory-size": "memory",
    "nic-count": "number of NICs",
}


def _SpecDest(key: str) -> str:
    return f"ispecs_{key.replace('-', '_')}"


def _SpecOption(key: str) -> Opt:
    """Declare the option for one key of an instance's size; memory has a shorter name there."""
    return Value(
        f"--specs-{key.replace('memory', 'mem')}", dest=_SpecDest(key), type="keyval", default={},
        metavar="min=N,max=N,std=N", text=f"Limits and standard of an instance's {_SPEC_WORDS[key]}",
    )  # fmt: skip


SPECS = {key: _SpecOption(key) for key in _SPEC_WORDS}

# Options whose value becomes the setting of the same name if it was given.
_AS_GIVEN = (
    "vg_name", "drbd_helper", "master_netdev", "mac_prefix", "secondary_ip", "candidate_pool_size",
    "enabled_hypervisors", "enabled_disk_templates", "file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir",
    "modify_etc_hosts", "modify_ssh_setup", "maintain_node_health", "default_iallocator", "default_iallocator_params",
    "prealloc_wipe_disks", "install_image", "zeroing_image", "compression_tools", "enabled_user_shutdown",
    "ssh_key_type", "ssh_key_bits", "uid_pool", "use_external_mip_script",
)  # fmt: skip


def _SpecPolicy(options: Options) -> dict[str, Any]:
    """Return the policy of the older ``--specs-X min=,max=,std=`` options."""
    from ganeti.params import ipolicy

    given = {key: getattr(options, _SpecDest(key)) for key in SPECS if getattr(options, _SpecDest(key))}
    if not given:
        return {}
    if options.ipolicy_bounds_specs is not None or options.ipolicy_std_specs is not None:
        raise errors.OpPrereqError(
            "The --specs-... options cannot be mixed with the --ipolicy-...-specs options", errors.ECODE_INVAL
        )
    bounds = {side: dict(ipolicy.DEFAULTS[policy.MINMAX][0][side]) for side in ("min", "max")}
    std = dict(ipolicy.DEFAULTS[policy.STD])
    for key, sides in given.items():
        for side, text in sides.items():
            if side not in ("min", "max", "std"):
                raise errors.OpPrereqError(
                    f"Invalid key '{side}' for {key}: expected min, max or std", errors.ECODE_INVAL
                )
            number = policy.ParseSpec(f"--specs for {key}", {key: text})[key]
            (std if side == "std" else bounds[side])[key] = number
    return {policy.MINMAX: [bounds], policy.STD: std}


def _IpVersion(text: str | None) -> int:
    if text is None:
        return 4
    try:
        return int(text)
    except ValueError:
        raise errors.OpPrereqError(f"Invalid primary IP version value: {text}", errors.ECODE_INVAL) from None


def _Notes(options: Options, templates: list[str]) -> None:
    from ganeti.params import disk

    if options.vg_name and not disk.With(lvm=True).intersection(templates):
        output.ToStdout("Note: the volume group is not used yet: no disk template that needs LVM is enabled.")
    if options.drbd_helper and not disk.With(helper=True).intersection(templates):
        output.ToStdout("Note: the DRBD usermode helper is not used yet: the disk template drbd is not enabled.")


def MakeSettings(options: Options, name: str) -> Any:
    """Return the settings that the command line asks for."""
    from ganeti.bootstrap.settings import Settings

    given = {key: getattr(options, key) for key in _AS_GIVEN if getattr(options, key) is not None}
    if given.get("compression_tools") == []:
        del given["compression_tools"]  # the usual ones
    netmask = typed.Integer("--master-netmask", options.master_netmask)
    if netmask is not None:
        given["master_netmask"] = netmask
    settings = Settings(
        name,
        **given,
        primary_ip_version=_IpVersion(options.primary_ip_version),
        beparams=typed.Backend(options.beparams),
        nicparams=typed.Nic(options.nicparams),
        ndparams=typed.Node(options.ndparams) or {},
        hvparams=typed.Hypervisors(options.hvparams),
        diskparams=typed.DiskParameters(options.diskparams),
        hv_state=typed.HypervisorState(options.hv_state) or {},
        disk_state=typed.DiskState(options.disk_state) or {},
        ipolicy={**_SpecPolicy(options), **policy.FromOptions(options)},
    )
    _Notes(options, list(settings.enabled_disk_templates))
    return settings


def Run(options: Options, arguments: list[str]) -> int:
    from ganeti.bootstrap import init

    init.InitCluster(MakeSettings(options, arguments[0]))
    jobs.SubmitOpCode(OpClusterPostInit(), options)
    return constants.EXIT_SUCCESS


COMMAND = Command(
    Run,
    "Create a cluster whose first node and master is this machine",
    (One("host"),),
    (
        *SET_SETTINGS, *SPECS.values(), *o.SET_IPOLICY, o.IPOLICY_STD, o.BACKEND, o.HYPERVISORS_KEYVALS, o.NIC_PARAMETERS,
        o.NODE_PARAMETERS, o.DISK_PARAMETERS, o.HYPERVISOR_STATE, o.DISK_STATE, o.SECONDARY_IP, NO_ETC_HOSTS, NO_SSH_INIT,
        PRIMARY_IP_VERSION, GLUSTER_STORAGE_DIR, SSH_KEY_BITS, SSH_KEY_TYPE,
    ),
    logs=True,
    details="The argument is the name of the cluster.  It must resolve to an address in the network of the nodes that no"
    " machine uses: the master IP address.",
)  # fmt: skip
