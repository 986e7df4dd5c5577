"""Fields of instances (doc/reference/queries.md 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ganeti import constants, params
from ganeti.objects.base import Thaw
from ganeti.params import disk as disk_params
from ganeti.params import runstate
from ganeti.query.base import BOOL, NODATA, NUMBER, OFFLINE, OTHER, TEXT, UNAVAIL, UNIT, Absent, Field, Kind, OrUnavail
from ganeti.query.common import Attribute, ObjectFields
from ganeti.query.context import LIVE_CONSOLE, LIVE_INSTANCE, Context, IsRunning, IsThere

# --- where and how it runs --------------------------------------------------------------------------------------------


def _Report(context: Context, inst: Any) -> Any:
    """Return what the primary node says of the instance: a dictionary, None (not there), NODATA or OFFLINE."""
    payload = context.Payload(context.instance_info, inst.primary_node)
    return payload if isinstance(payload, Absent) else payload.get(inst.name)


def _FoundElsewhere(context: Context, inst: Any) -> bool:
    return any(
        isinstance(payload, dict) and inst.name in payload and IsThere(payload[inst.name])
        for uuid, payload in context.instance_info.items()
        if uuid != inst.primary_node
    )


def _UserShutdown(context: Context, inst: Any) -> bool:
    if not context.snapshot.cluster.enabled_user_shutdown:
        return False
    if inst.hypervisor != constants.HT_KVM:
        return True
    return bool(params.FillHV(context.snapshot, inst).get("user_shutdown"))


# The status of an instance that is to run and has a process.
_STATUS = {
    runstate.RUNNING: "running",
    runstate.PAUSED: "paused",
    runstate.STOPPED: "ERROR_stopped",
    runstate.ENDED: "ERROR_down",
    runstate.GONE: "ERROR_down",
    runstate.LEAVING: "migrating",
    runstate.ARRIVING: "ERROR_migration",
    runstate.SENT: "ERROR_migration",
    runstate.UNRESPONSIVE: "ERROR_unresponsive",
}


def InstanceStatus(context: Context, inst: Any) -> str:
    """Return one word for the state, the first rule that fits."""
    report = _Report(context, inst)
    if report is OFFLINE:
        return "ERROR_nodeoffline"
    if _FoundElsewhere(context, inst):
        return "ERROR_wrongnode"
    if report is NODATA:
        return "ERROR_nodedown"
    wanted_up = inst.admin_state == constants.ADMINST_UP
    if report is not None and report.get("state") != constants.INST_USER_SHUTDOWN:
        state = runstate.Of(report)
        return _STATUS[state] if wanted_up or state in runstate.NOT_THE_GUEST else "ERROR_up"
    user_shutdown = _UserShutdown(context, inst)
    if wanted_up:
        return "USER_down" if report is not None and user_shutdown else "ERROR_down"
    if inst.admin_state == constants.ADMINST_OFFLINE:
        return "ADMIN_offline"
    if inst.admin_state_source == constants.USER_SOURCE and user_shutdown:
        return "USER_down"
    return "ADMIN_down"


def _OperState(context: Context, inst: Any) -> Any:
    report = _Report(context, inst)
    if isinstance(report, Absent):
        return report
    if report is not None and runstate.Of(report) == runstate.UNRESPONSIVE:
        return NODATA
    return report is not None and IsRunning(report)


def _Reported(key: str) -> Callable[[Context, Any], Any]:
    def get(context: Context, inst: Any) -> Any:
        report = _Report(context, inst)
        if isinstance(report, Absent):
            return report
        return report.get(key, NODATA) if report is not None and IsThere(report) else UNAVAIL

    return get


def _Console(context: Context, inst: Any) -> Any:
    if _OperState(context, inst) is not True:
        return UNAVAIL
    return context.console.get(inst.name, NODATA)


# --- configuration ----------------------------------------------------------------------------------------------------


def _Disks(context: Context, inst: Any) -> list[Any]:
    return list(context.snapshot.InstanceDisks(inst))


def _Secondaries(context: Context, inst: Any) -> list[Any]:
    return [context.snapshot.nodes[u] for u in context.snapshot.SecondaryNodes(inst) if u in context.snapshot.nodes]


def _PrimaryGroup(context: Context, inst: Any) -> Any:
    node = context.snapshot.nodes.get(inst.primary_node)
    return None if node is None else node.group


def _DiskUsage(context: Context, inst: Any) -> int:
    disks = _Disks(context, inst)
    # A reserved disk may have neither.
    return sum((d.size or 0) + (disk_params.Of(d).overhead if d.dev_type else 0) for d in disks)


def _Nic(context: Context, nic: Any) -> Any:
    return params.FillNIC(context.snapshot, nic)


def _NicVlan(context: Context, nic: Any) -> Any:
    filled = _Nic(context, nic)
    return filled.get("vlan") if filled["mode"] == constants.NIC_MODE_OVS else None


def _NicBridge(context: Context, nic: Any) -> Any:
    filled = _Nic(context, nic)
    return filled["link"] if filled["mode"] == constants.NIC_MODE_BRIDGED else None


def _NicNetworkName(context: Context, nic: Any) -> Any:
    network = context.snapshot.networks.get(nic.network) if nic.network else None
    return None if network is None else network.name


_NIC_VALUES: list[tuple[str, str, str, str, str, Callable[[Context, Any], Any]]] = [
    # plural field, its title, single field, its title, doc, value
    ("nic.ips", "NIC_IPs", "nic.ip", "NicIP", "Addresses", lambda _, nic: nic.ip),
    ("nic.uuids", "NIC_UUIDs", "nic.uuid", "NicUUID", "UUIDs", lambda _, nic: nic.uuid),
    ("nic.macs", "NIC_MACs", "nic.mac", "NicMAC", "MAC addresses", lambda _, nic: nic.mac),
    ("nic.names", "NIC_Names", "nic.name", "NicName", "Names", lambda _, nic: nic.name),
    ("nic.networks", "NIC_networks", "nic.network", "NicNetwork", "Network UUIDs", lambda _, nic: nic.network),
    (
        "nic.networks.names",
        "NIC_networks_names",
        "nic.network.name",
        "NicNetworkName",
        "Network names",
        _NicNetworkName,
    ),
    ("nic.modes", "NIC_modes", "nic.mode", "NicMode", "Modes", lambda c, nic: _Nic(c, nic)["mode"]),
    ("nic.links", "NIC_links", "nic.link", "NicLink", "Links", lambda c, nic: _Nic(c, nic)["link"]),
    ("nic.vlans", "NIC_VLANs", "nic.vlan", "NicVLAN", "VLANs", _NicVlan),
    ("nic.bridges", "NIC_bridges", "nic.bridge", "NicBridge", "Bridges", _NicBridge),
]

_DISK_VALUES: list[tuple[str, str, str, str, str, str, Callable[[Any], Any]]] = [
    ("disk.sizes", "Disk_sizes", "disk.size", "Disk", UNIT, "Disk sizes", lambda d: d.size),
    ("disk.spindles", "Disk_spindles", "disk.spindles", "DiskSpindles", NUMBER, "Disk spindles", lambda d: d.spindles),
    ("disk.names", "Disk_names", "disk.name", "DiskName", TEXT, "Disk names", lambda d: d.name),
    ("disk.uuids", "Disk_UUIDs", "disk.uuid", "DiskUUID", TEXT, "Disk UUIDs", lambda d: d.uuid),
]


def _AllNics(value: Callable[[Context, Any], Any]) -> Callable[[Context, Any], Any]:
    return lambda context, inst: [value(context, nic) for nic in inst.nics]


def _OneNic(value: Callable[[Context, Any], Any], index: int) -> Callable[[Context, Any], Any]:
    return lambda context, inst: OrUnavail(value(context, inst.nics[index])) if index < len(inst.nics) else UNAVAIL


def _AllDisks(value: Callable[[Any], Any]) -> Callable[[Context, Any], Any]:
    return lambda context, inst: [value(d) for d in _Disks(context, inst)]


def _OneDisk(value: Callable[[Any], Any], index: int) -> Callable[[Context, Any], Any]:
    def get(context: Context, inst: Any) -> Any:
        disks = _Disks(context, inst)
        return OrUnavail(value(disks[index])) if index < len(disks) else UNAVAIL

    return get


def _DeviceFields() -> list[Field]:
    result = []
    for plural, plural_title, single, title, doc, value in _NIC_VALUES:
        result.append(Field(plural, plural_title, OTHER, f"{doc} of all NICs", _AllNics(value)))
        result += [
            Field(f"{single}/{i}", f"{title}/{i}", TEXT, f"{doc} of NIC {i}", _OneNic(value, i))
            for i in range(constants.MAX_NICS)
        ]
    for plural, plural_title, single, title, kind, doc, disk_value in _DISK_VALUES:
        result.append(Field(plural, plural_title, OTHER, doc, _AllDisks(disk_value)))
        result += [
            Field(f"{single}/{i}", f"{title}/{i}", kind, f"{doc} of disk {i}", _OneDisk(disk_value, i))
            for i in range(constants.MAX_DISKS)
        ]
    return result


_BACKEND = (
    ("always_failover", "be/always_failover", BOOL, "Never live-migrated"),
    ("auto_balance", "Auto_balance", BOOL, "Counted in balancing"),
    ("maxmem", "ConfigMaxMem", UNIT, "Maximum memory"),
    ("minmem", "ConfigMinMem", UNIT, "Minimum memory"),
    ("spindle_use", "be/spindle_use", NUMBER, "Spindles used"),
    ("vcpus", "ConfigVCPUs", NUMBER, "Virtual processors"),
)

_HYPERVISOR: dict[str, str] = {
    BOOL: """
        acpi=ACPI pae=PAE serial_console spice_playback_compression spice_use_tls spice_use_vdagent use_bootloader
        use_chroot use_guest_agent use_localtime user_shutdown vhost_net viridian vnc_tls vnc_x509_verify vnet_hdr""",
    NUMBER: """
        cpu_cap cpu_cores cpu_sockets cpu_threads cpu_weight kvm_pci_reservations migration_downtime num_ttys serial_speed
        spice_ip_version startup_timeout virtio_net_queues""",
    OTHER: """
        blockdev_prefix boot_order=Boot_order bootloader_args bootloader_path cdrom2_image_path cdrom_disk_type
        cdrom_image_path=CDROM_image_path cpu_mask cpu_type=cpu_type cpuid device_model devices disk_aio disk_cache
        disk_discard disk_type=Disk_type drop_capabilities extra_cgroups extra_config floppy_image_path init_script
        initrd_path=Initrd_path kernel_args kernel_path=Kernel_path keymap kvm_extra kvm_flag kvm_path machine_version
        mem_path migration_caps nic_type=NIC_type pci_pass=pci_pass reboot_behavior root_path scsi_controller_type
        security_domain security_model soundhw spice_bind spice_image_compression spice_jpeg_wan_compression
        spice_password_file spice_streaming_video spice_tls_ciphers spice_zlib_glz_wan_compression usb_devices usb_mouse
        vga vif_script vif_type vnc_bind_address=VNC_bind_address vnc_password_file vnc_x509_path""",
}


def _ParameterFields() -> list[Field]:
    def backend(name: str) -> Callable[[Context, Any], Any]:
        return lambda context, inst: params.FillBE(context.snapshot, inst)[name]

    def hypervisor(name: str) -> Callable[[Context, Any], Any]:
        def get(context: Context, inst: Any) -> Any:
            filled = params.FillHV(context.snapshot, inst)
            return filled.get(name, UNAVAIL)

        return get

    result = [Field(f"be/{n}", title, kind, doc, backend(n)) for n, title, kind, doc in _BACKEND]
    for kind, names in _HYPERVISOR.items():
        for text in names.split():
            name, _, title = text.partition("=")
            result.append(
                Field(f"hv/{name}", title or f"hv/{name}", kind, f"The '{name}' hypervisor parameter", hypervisor(name))
            )
    return result


_FIELDS = [
    Field("admin_state", "InstanceState", TEXT, "Wanted state: up, down or offline", Attribute("admin_state")),
    Field(
        "admin_state_source", "InstanceStateSource", TEXT, "Who set the wanted state", Attribute("admin_state_source")
    ),
    Field("admin_up", "Autostart", BOOL, "Whether it should run", lambda _, i: i.admin_state == constants.ADMINST_UP),
    Field("disks_active", "DisksActive", BOOL, "Whether the disks should be active", Attribute("disks_active")),
    Field("name", "Instance", TEXT, "Instance name", Attribute("name"), hostname=True),
    Field("hypervisor", "Hypervisor", TEXT, "Hypervisor", Attribute("hypervisor")),
    Field(
        "network_port", "Network_port", OTHER, "Port of the graphical console", lambda _, i: OrUnavail(i.network_port)
    ),
    Field("os", "OS", TEXT, "Operating system", Attribute("os")),
    Field("pnode", "Primary_node", TEXT, "Primary node", lambda c, i: c.NodeName(i.primary_node), hostname=True),
    Field(
        "pnode.group",
        "PrimaryNodeGroup",
        TEXT,
        "Group of the primary node",
        lambda c, i: c.GroupName(_PrimaryGroup(c, i)),
    ),
    Field("pnode.group.uuid", "PrimaryNodeGroupUUID", TEXT, "UUID of that group", _PrimaryGroup),
    Field("snodes", "Secondary_Nodes", OTHER, "Secondary nodes", lambda c, i: [n.name for n in _Secondaries(c, i)]),
    Field(
        "snodes.group",
        "SecondaryNodesGroups",
        OTHER,
        "Groups of the secondary nodes",
        lambda c, i: [c.GroupName(n.group) for n in _Secondaries(c, i)],
    ),
    Field(
        "snodes.group.uuid",
        "SecondaryNodesGroupsUUID",
        OTHER,
        "UUIDs of the groups of the secondary nodes",
        lambda c, i: [n.group for n in _Secondaries(c, i)],
    ),
    Field(
        "hvparams",
        "HypervisorParameters",
        OTHER,
        "Effective hypervisor parameters",
        lambda c, i: Thaw(params.FillHV(c.snapshot, i, skip_globals=True)),
    ),
    Field(
        "beparams",
        "BackendParameters",
        OTHER,
        "Effective backend parameters",
        lambda c, i: Thaw(params.FillBE(c.snapshot, i)),
    ),
    Field(
        "osparams", "OpSysParameters", OTHER, "Effective OS parameters", lambda c, i: Thaw(params.FillOS(c.snapshot, i))
    ),
    Field(
        "custom_hvparams",
        "CustomHypervisorParameters",
        OTHER,
        "Own hypervisor parameters",
        lambda _, i: Thaw(i.hvparams),
    ),
    Field("custom_beparams", "CustomBackendParameters", OTHER, "Own backend parameters", lambda _, i: Thaw(i.beparams)),
    Field("custom_osparams", "CustomOpSysParameters", OTHER, "Own OS parameters", lambda _, i: Thaw(i.osparams)),
    Field(
        "custom_nicparams",
        "CustomNicParameters",
        OTHER,
        "Own NIC parameters",
        lambda _, i: [Thaw(n.nicparams) for n in i.nics],
    ),
    Field("disk_usage", "DiskUsage", UNIT, "Space used on each node, with metadata", _DiskUsage),
    Field("disk.count", "Disks", NUMBER, "Number of disks", lambda _, i: len(i.disks)),
    Field("disk_template", "Disk_template", TEXT, "Disk template", lambda c, i: c.snapshot.DiskTemplate(i)),
    Field("nic.count", "NICs", NUMBER, "Number of NICs", lambda _, i: len(i.nics)),
    Field(
        "status",
        "Status",
        TEXT,
        "State as the nodes report it, against the wanted one",
        InstanceStatus,
        live=LIVE_INSTANCE,
    ),
    Field("oper_state", "Running", BOOL, "Whether it runs", _OperState, live=LIVE_INSTANCE),
    Field("console", "Console", OTHER, "How to reach the console", _Console, live=LIVE_CONSOLE),
    Field("oper_ram", "Memory", UNIT, "Memory as the hypervisor reports it", _Reported("memory"), live=LIVE_INSTANCE),
    Field(
        "oper_vcpus",
        "VCPUs",
        NUMBER,
        "Processors as the hypervisor reports them",
        _Reported("vcpus"),
        live=LIVE_INSTANCE,
    ),
    Field("forthcoming", "Forthcoming", BOOL, "Whether it is only reserved", lambda _, i: bool(i.forthcoming)),
    *_DeviceFields(),
    *_ParameterFields(),
    *ObjectFields("instance"),
]

KIND = Kind(
    "instance",
    "name",
    _FIELDS,
    items=lambda context: context.snapshot.instances.values(),
    item_name=lambda inst: inst.name,
    item_uuid=lambda inst: inst.uuid,
    aliases={
        "vcpus": "be/vcpus",
        "be/memory": "be/maxmem",
        "sda_size": "disk.size/0",
        "sdb_size": "disk.size/1",
        "ip": "nic.ip/0",
        "mac": "nic.mac/0",
        "bridge": "nic.bridge/0",
        "nic_mode": "nic.mode/0",
        "nic_link": "nic.link/0",
        "nic_network": "nic.network/0",
    },
    default_fields="name hypervisor os pnode status oper_ram",
)
