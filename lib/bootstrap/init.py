"""Making a cluster of one node (doc/reference/cli.md 9.1).

Only 3.1's files are written here; the first start of the master daemon takes them into its store (doc/design-store.rst,
11).  Every check comes before the first change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import constants, errors, hosts, objects, params, pathutils, runtime, ssh, uidpool
from ganeti.bootstrap import daemons, keys, storagedirs
from ganeti.bootstrap.settings import Settings
from ganeti.cmdlib import masterscript
from ganeti.cmdlib.cluster import valuechecks
from ganeti.config.values import NormalizeMACPrefix
from ganeti.params import be, disk, hv, ipolicy, nd, nic
from ganeti.rpc import resolver

DEFAULT_VG = "xenvg"


def _Prereq(text: str, code: str = errors.ECODE_INVAL, hint: str | None = None) -> errors.OpPrereqError:
    return errors.OpPrereqError(text, code, hint=hint)


# --- checks -----------------------------------------------------------------------------------------------------------


def CheckClean() -> None:
    """Raise OpPrereqError if anything of an older cluster is left (steps 1 and 2)."""
    if runtime.Exists(pathutils.CLUSTER_CONF_FILE):
        raise _Prereq(f"This machine is in a cluster already: {pathutils.CLUSTER_CONF_FILE} exists", errors.ECODE_STATE)
    # ensure-dirs makes it, empty, before there is a cluster.
    if runtime.Exists(pathutils.DATA_EXT_DIR) and runtime.ListDir(pathutils.DATA_EXT_DIR):
        raise _Prereq(
            f"{pathutils.DATA_EXT_DIR} holds the store of a cluster; remove the directory if that cluster is gone",
            errors.ECODE_STATE,
        )
    for folder in (pathutils.QUEUE_DIR, pathutils.DATA_DIR, pathutils.JOB_QUEUE_ARCHIVE_DIR):
        if not runtime.IsDir(folder):
            continue
        files = [name for name in sorted(runtime.ListDir(folder)) if not runtime.IsDir(f"{folder}/{name}")]
        if files:
            raise _Prereq(
                f"Directory {folder} is not empty ({', '.join(files[:5])}): these are files of a former cluster",
                errors.ECODE_STATE,
                hint=f"if that cluster is gone, run 'mv {pathutils.DATA_DIR} {pathutils.DATA_DIR}.former' and"
                f" '{pathutils.ENSURE_DIRS}', then try again",
            )


def _OwnAddress(settings: Settings) -> hosts.Host:
    if settings.primary_ip_version not in (4, 6):
        raise _Prereq(f"Invalid primary IP version: {settings.primary_ip_version}; choose 4 or 6")
    host = hosts.OwnHost(ipv6=settings.primary_ip_version == 6)
    loopback = host.ip.startswith("127.") or host.ip == "::1"
    if loopback and not pathutils.IsVirtual():
        raise _Prereq(
            f"Host name {host.name} resolves to {host.ip}, which no other node can reach; correct {pathutils.ETC_HOSTS}"
            " or the name service",
            errors.ECODE_ENVIRON,
        )
    if not hosts.IsOwnAddress(host.ip):
        raise _Prereq(
            f"Host name {host.name} resolves to {host.ip}, which is not an address of this machine",
            errors.ECODE_ENVIRON,
        )
    return host


def _ClusterAddress(settings: Settings) -> hosts.Host:
    host = hosts.Lookup(settings.cluster_name, ipv6=settings.primary_ip_version == 6)
    if hosts.IsInUse(host.ip, resolver.NodedPort()):
        raise _Prereq(
            f"Something answers at the cluster's address {host.ip} ({host.name}) already", errors.ECODE_NOTUNIQUE
        )
    return host


def _SecondaryIp(settings: Settings, own: hosts.Host) -> str:
    if settings.secondary_ip is None:
        if settings.primary_ip_version == 6:
            raise _Prereq("IPv6 primary addresses need an IPv4 secondary address: give one with --secondary-ip")
        return own.ip
    if not re.fullmatch(r"\d{1,3}(\.\d{1,3}){3}", settings.secondary_ip):
        raise _Prereq(f"Secondary address {settings.secondary_ip} is not an IPv4 address")
    if settings.secondary_ip != own.ip and not hosts.IsOwnAddress(settings.secondary_ip):
        raise _Prereq(
            f"Secondary address {settings.secondary_ip} is not an address of this machine ({own.name})",
            errors.ECODE_ENVIRON,
        )
    return settings.secondary_ip


def _Family(settings: Settings) -> int:
    return constants.IP6_FAMILY if settings.primary_ip_version == 6 else constants.IP4_FAMILY


def _Netmask(settings: Settings) -> int:
    if settings.master_netmask is None:
        return 128 if _Family(settings) == constants.IP6_FAMILY else 32
    valuechecks.CheckNetmask(settings.master_netmask, _Family(settings))
    return settings.master_netmask


def _Storage(settings: Settings) -> tuple[str | None, str | None]:
    """Return (volume group, DRBD helper) in force, after checking that both exist."""
    templates = set(settings.enabled_disk_templates)
    lvm = bool(templates & disk.With(lvm=True))
    vg_name = settings.vg_name if settings.vg_name is not None else (DEFAULT_VG if lvm else None)
    if lvm and not vg_name:
        raise _Prereq("LVM disk templates are enabled, but the volume group name is empty: give one with --vg-name")
    if vg_name:
        valuechecks.CheckVolumeGroup(vg_name)
    if vg_name and lvm:
        storagedirs.CheckVolumeGroup(vg_name)
    helper = settings.drbd_helper
    helped = sorted(templates & disk.With(helper=True))
    if helped:
        helper = disk.DEFAULT_DRBD_HELPER if helper is None else helper
        if not helper:
            raise _Prereq(f"The {helped[0]} template is enabled, but the DRBD usermode helper is empty")
        storagedirs.CheckDrbdHelper(helper)
    return (vg_name or None, helper if helped else None)


def _FillSets(settings: Settings, vg_name: str | None) -> dict[str, Any]:
    """Return the cluster's parameter sets: full, of their types and syntactically right (steps 14 to 16)."""
    beparams = {**be.DEFAULTS, **be.UpgradeMemory(params.ForceDictType(settings.beparams, be.INPUT_TABLE))}
    problems = be.SyntaxProblems(beparams)
    nicparams = {**nic.DEFAULTS, **params.ForceDictType(settings.nicparams, nic.TABLE)}
    problems += nic.SyntaxProblems(nicparams)
    ndparams = {**nd.DEFAULTS, **params.ForceDictType(settings.ndparams, nd.TABLE)}
    problems += nd.SyntaxProblems(ndparams)
    hvparams = {}
    for name in constants.HYPER_TYPES:
        given = params.ForceDictType(settings.hvparams.get(name, {}), hv.Table(name))
        hvparams[name] = {**hv.DEFAULTS[name], **given}
        if name in settings.enabled_hypervisors:
            problems += hv.SyntaxProblems(name, hvparams[name])
    unknown = [n for n in settings.hvparams if n not in constants.HYPER_TYPES]
    problems += [f"unknown hypervisor '{n}' in the hypervisor parameters" for n in unknown]
    diskparams = {}
    for name in disk.TEMPLATES:
        given = params.ForceDictType(settings.diskparams.get(name, {}), disk.TEMPLATES[name].params)
        template = disk.TEMPLATES[name]
        own_vg = {template.vg_param: vg_name} if vg_name and template.vg_param else {}
        diskparams[name] = {**template.defaults, **own_vg, **given}
        problems += disk.SyntaxProblems(name, diskparams[name])
    problems += [
        f"unknown disk template '{n}' in the disk parameters" for n in settings.diskparams if n not in disk.TEMPLATES
    ]
    if problems:
        raise _Prereq("; ".join(problems))
    policy = ipolicy.Fill(ipolicy.DEFAULTS, settings.ipolicy)
    policy["disk-templates"] = [t for t in policy["disk-templates"] if t in settings.enabled_disk_templates]
    problems = ipolicy.SyntaxProblems(policy, is_group=False)
    if problems:
        raise _Prereq("; ".join(problems))
    return {
        "beparams": {constants.PP_DEFAULT: beparams},
        "nicparams": {constants.PP_DEFAULT: nicparams},
        "ndparams": ndparams,
        "hvparams": hvparams,
        "diskparams": diskparams,
        "ipolicy": policy,
    }


def _MasterNetdev(settings: Settings) -> str:
    """Return the interface of the master address, after checking that it exists (steps 2 and 13)."""
    ovs = settings.nicparams.get("mode") == constants.NIC_MODE_OVS
    netdev = settings.master_netdev
    if netdev is None:
        netdev = nic.DEFAULT_OVS if ovs else constants.DEFAULT_BRIDGE
    valuechecks.CheckInterface(netdev)
    if not ovs:
        result = runtime.RunCmd(["ip", "link", "show", "dev", netdev], timeout=30)
        if result.failed:
            raise _Prereq(f"Master netdev ({netdev}) is not there: {result.stderr.strip() or result.fail_reason}")
    return netdev


def _CompressionTools(settings: Settings) -> Sequence[str]:
    if settings.compression_tools is None:
        return constants.DEFAULT_COMPRESSION_TOOLS
    valuechecks.CheckCompressionTools(settings.compression_tools)
    return settings.compression_tools


def _DefaultAllocator(settings: Settings) -> str:
    def installed(name: str) -> bool:
        return any(runtime.Exists(f"{folder}/{name}") for folder in pathutils.IALLOCATOR_SEARCH_PATH)

    if settings.default_iallocator:
        missing = [n for n in settings.default_iallocator.split(",") if n != constants.IALLOC_HAIL and not installed(n)]
        if missing:
            raise _Prereq(f"Default iallocator '{missing[0]}' is not in {', '.join(pathutils.IALLOCATOR_SEARCH_PATH)}")
        return settings.default_iallocator
    return "hail" if installed("hail") else ""


def _SshKeyBits(settings: Settings) -> int:
    """Return how long SSH keys are to be, after checking that there is such a key."""
    if settings.ssh_key_type not in ssh.DEFAULT_BITS:
        raise _Prereq(f"Invalid SSH key type '{settings.ssh_key_type}'; choose from {', '.join(ssh.DEFAULT_BITS)}")
    if settings.ssh_key_bits is None:
        return ssh.DEFAULT_BITS[settings.ssh_key_type]
    problem = ssh.BitsProblem(settings.ssh_key_type, settings.ssh_key_bits)
    if problem:
        raise _Prereq(problem)
    return settings.ssh_key_bits


# --- the work ---------------------------------------------------------------------------------------------------------


def _FirstConfiguration(own: hosts.Host, values: Mapping[str, Any], secondary_ip: str) -> objects.Snapshot:
    now = runtime.Time()
    times: dict[str, Any] = {"ctime": now, "mtime": now, "serial_no": 1}
    group = objects.NodeGroup(name=constants.INITIAL_NODE_GROUP_NAME, uuid=runtime.NewUuid(), **times)
    node = objects.Node(
        name=own.name,
        primary_ip=own.ip,
        secondary_ip=secondary_ip,
        master_candidate=True,
        group=group.uuid,
        uuid=runtime.NewUuid(),
        **times,
    )
    cluster = objects.Cluster(master_node=node.uuid, uuid=runtime.NewUuid(), **{**values, **times})
    return objects.Snapshot(
        cluster=cluster, nodes={node.uuid: node}, nodegroups={group.uuid: group}, ctime=now, mtime=now, serial_no=1
    )


def _CheckDrivers(names: Sequence[str]) -> None:
    """Raise OpPrereqError for hypervisors that no instance could run on; 3.1's default is one of them."""
    missing = [name for name in names if name not in hv.DRIVEN]
    if missing:
        raise errors.OpPrereqError(
            f"Instances could not run: this release has no driver for hypervisor {', '.join(missing)}",
            errors.ECODE_INVAL,
            hint="name others, as with --enabled-hypervisors=kvm",
        )


def _ClusterValues(settings: Settings) -> dict[str, Any]:
    """Return every field of the cluster object but the master and the keys, after all checks that change nothing."""
    valuechecks.CheckChoice("hypervisors", settings.enabled_hypervisors, constants.HYPER_TYPES)
    _CheckDrivers(settings.enabled_hypervisors)
    valuechecks.CheckChoice("disk templates", settings.enabled_disk_templates, disk.TEMPLATES)
    for name in ("install_image", "zeroing_image"):
        valuechecks.CheckImage(name, getattr(settings, name))
    uidpool.CheckUidPool(settings.uid_pool)
    vg_name, helper = _Storage(settings)
    values: dict[str, Any] = dict(_FillSets(settings, vg_name))
    values.update(
        enabled_hypervisors=list(settings.enabled_hypervisors),
        enabled_disk_templates=list(settings.enabled_disk_templates),
        mac_prefix=NormalizeMACPrefix(settings.mac_prefix),
        volume_group_name=vg_name,
        drbd_usermode_helper=helper,
        master_netdev=_MasterNetdev(settings),
        master_netmask=_Netmask(settings),
        use_external_mip_script=settings.use_external_mip_script,
        candidate_pool_size=settings.candidate_pool_size,
        modify_etc_hosts=settings.modify_etc_hosts,
        modify_ssh_setup=settings.modify_ssh_setup,
        maintain_node_health=settings.maintain_node_health,
        uid_pool=[list(r) for r in settings.uid_pool],
        default_iallocator=_DefaultAllocator(settings),
        default_iallocator_params=dict(settings.default_iallocator_params),
        primary_ip_family=_Family(settings),
        prealloc_wipe_disks=settings.prealloc_wipe_disks,
        install_image=settings.install_image,
        zeroing_image=settings.zeroing_image,
        compression_tools=list(_CompressionTools(settings)),
        enabled_user_shutdown=settings.enabled_user_shutdown,
        ssh_key_type=settings.ssh_key_type,
        ssh_key_bits=_SshKeyBits(settings),
        hv_state_static={k: params.ForceDictType(v, nd.HV_STATE_TABLE) for k, v in settings.hv_state.items()},
        disk_state_static={
            kind: {name: params.ForceDictType(v, nd.DISK_STATE_TABLE) for name, v in by_name.items()}
            for kind, by_name in settings.disk_state.items()
        },
    )
    return values


def InitCluster(settings: Settings) -> None:
    """Make this machine a cluster of one node and start its daemons.

    Raises OpPrereqError before anything was changed, OpExecError later.
    """
    if settings.candidate_pool_size < 1:
        raise _Prereq("The candidate pool size must be at least 1")
    CheckClean()
    if settings.use_external_mip_script:
        masterscript.Check()
    values = _ClusterValues(settings)
    own = _OwnAddress(settings)
    named = _ClusterAddress(settings)
    secondary_ip = _SecondaryIp(settings, own)
    storage_dirs = storagedirs.Choose(settings)
    keys.CheckHostKeys()
    daemons.DaemonUtil("stop-all")
    storagedirs.Create(storage_dirs)
    values.update(storage_dirs)
    values.update(cluster_name=named.name, master_ip=named.ip)
    values.update(keys.HostKeys())
    if settings.modify_etc_hosts:
        hosts.AddEtcHostsEntry(own.name, own.ip)
    root_key = None
    if settings.modify_ssh_setup:
        root_key = keys.MakeRootKey(values["ssh_key_type"], values["ssh_key_bits"])
    snapshot = _FirstConfiguration(own, values, secondary_ip)
    keys.WriteClusterFiles(snapshot, own.name, root_key)
    daemons.DaemonUtil("start", constants.NODED)
    daemons.WaitForOwnNodeDaemon(own.name)
    daemons.DaemonUtil("start-all")
    daemons.WaitForMaster()
