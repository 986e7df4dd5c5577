"""gnt-cluster init: makes this machine a cluster of one node."""

from __future__ import annotations

from typing import Any

from ganeti import constants, errors
from ganeti.cli import jobs, output, values
from ganeti.cli import options as o
from ganeti.cli.command import Command, One
from ganeti.cli.parser import Options
from ganeti.client.shared import policy, typed
from ganeti.opcodes import OpClusterPostInit

_LVM = (constants.DT_PLAIN, constants.DT_DRBD8)

# Option of --specs-X -> key of the instance policy.
_SPECS = {
    "ispecs_mem_size": "memory-size",
    "ispecs_cpu_count": "cpu-count",
    "ispecs_disk_count": "disk-count",
    "ispecs_disk_size": "disk-size",
    "ispecs_nic_count": "nic-count",
}

# Options whose value becomes the setting of the same name when it was given.
_AS_GIVEN = (
    "vg_name", "drbd_helper", "master_netdev", "mac_prefix", "secondary_ip", "candidate_pool_size",
    "file_storage_dir", "shared_file_storage_dir", "gluster_storage_dir", "modify_etc_hosts", "modify_ssh_setup",
    "maintain_node_health", "default_iallocator", "default_iallocator_params", "prealloc_wipe_disks", "install_image",
    "zeroing_image", "enabled_user_shutdown", "ssh_key_type", "ssh_key_bits", "use_external_mip_script",
)  # fmt: skip


def _SpecPolicy(options: Options) -> dict[str, Any]:
    """The policy of the older ``--specs-X min=,max=,std=`` options."""
    from ganeti.params import ipolicy

    given = {key: getattr(options, dest) for dest, key in _SPECS.items() if getattr(options, dest)}
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
                    f"Invalid key '{side}' for {key}: expected min, max, std", errors.ECODE_INVAL
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
    if options.vg_name and not set(templates) & set(_LVM):
        output.ToStdout("A volume group was given, but no disk template that uses LVM is enabled; it is not used yet.")
    if options.drbd_helper and constants.DT_DRBD8 not in templates:
        output.ToStdout("A DRBD usermode helper was given, but the drbd template is not enabled; it is not used yet.")


def MakeSettings(options: Options, name: str) -> Any:
    """The settings that the command line means."""
    from ganeti.bootstrap.init import Settings

    given = {key: getattr(options, key) for key in _AS_GIVEN if getattr(options, key) is not None}
    for key, text in (
        ("enabled_hypervisors", options.enabled_hypervisors),
        ("enabled_disk_templates", options.enabled_disk_templates),
        ("compression_tools", options.compression_tools),
    ):
        found = typed.CommaList(text)
        if found is not None:
            given[key] = found
    if options.uid_pool:
        given["uid_pool"] = values.ParseUidPool(options.uid_pool)
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
    "Initializes a new cluster on this machine",
    (One("host"),),
    (
        *o.SPECS.values(), *o.SET_IPOLICY, o.BACKEND, o.CANDIDATE_POOL_SIZE, o.ENABLED_HYPERVISORS,
        o.FILE_STORAGE_DIR_CLUSTER, o.HYPERVISORS_KEYVALS, o.MAC_PREFIX, o.MASTER_NETDEV, o.MASTER_NETMASK,
        o.NIC_PARAMETERS, o.NO_ETC_HOSTS, o.NO_SSH_INIT, o.SECONDARY_IP, o.VG_NAME, o.MAINTAIN_NODE_HEALTH, o.UID_POOL,
        o.DRBD_HELPER, o.DEFAULT_IALLOCATOR, o.DEFAULT_IALLOCATOR_PARAMS, o.PRIMARY_IP_VERSION, o.PREALLOC_WIPE,
        o.NODE_PARAMETERS, o.SHARED_FILE_STORAGE_DIR, o.EXTERNAL_MIP_SCRIPT, o.DISK_PARAMETERS, o.HYPERVISOR_STATE,
        o.DISK_STATE, o.ENABLED_DISK_TEMPLATES, o.IPOLICY_STD, o.GLUSTER_STORAGE_DIR, o.INSTALL_IMAGE, o.ZEROING_IMAGE,
        o.COMPRESSION_TOOLS, o.USER_SHUTDOWN, o.SSH_KEY_BITS, o.SSH_KEY_TYPE,
    ),
    logs=True,
)  # fmt: skip
