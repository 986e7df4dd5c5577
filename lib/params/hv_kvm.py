"""Parameters of KVM (doc/reference/parameters.md 1.3)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import _autoconf
from ganeti.params import checks
from ganeti.params.types import (
    BOOL,
    INT,
    MAYBE_STRING,
    NODE_USER,
    STRING,
    AtLeast,
    Between,
    Check,
    MakeTable,
    OneOf,
    Param,
)

KERNEL_PATH = "/boot/vmlinuz-3-kvmU"
SERIAL_SPEEDS = (
    75, 110, 300, 600, 1200, 1800, 2400, 4800, 9600, 14400, 19200, 28800, 38400, 57600, 115200, 230400, 345600, 460800,
)  # fmt: skip
DISK_TYPES = (
    "ide", "mtd", "paravirtual", "pflash", "scsi", "scsi-block", "scsi-cd", "scsi-generic", "scsi-hd", "sd",
)  # fmt: skip
NIC_TYPES = (
    "e1000", "i82551", "i82557b", "i82559er", "ne2k_isa", "ne2k_pci", "paravirtual", "pcnet", "rtl8139",
)  # fmt: skip
SECURITY_NONE, SECURITY_USER, SECURITY_POOL = "none", "user", "pool"
BOOT_CDROM, BOOT_DISK = "cdrom", "disk"
BOOT_DEVICES = ("floppy", BOOT_CDROM, BOOT_DISK, "network")
SCSI_CONTROLLERS = ("lsi", "megasas", "virtio-scsi-pci")
SPICE_COMPRESSIONS = ("auto_glz", "auto_lz", "glz", "lz", "off", "quic")


def _IsVncBind(value: str) -> bool:
    return checks.AddressFamily(value) is not None or checks.IsAbsNormPath(value) or checks.IsInterfaceName(value)


_USER = Check("a user name", lambda _: True, NODE_USER)
_WAN = OneOf("auto", "never", "always", "")

TABLE = MakeTable(
    Param("acpi", BOOL, True, "ACPI in the guest; needed for a clean shutdown"),
    Param("boot_order", STRING, BOOT_DISK, "device to boot from", OneOf(*BOOT_DEVICES), required=True),
    Param("cdrom2_image_path", STRING, "", "second CD", checks.FILE_OR_URL, "2.4"),
    Param("cdrom_disk_type", STRING, "", "how CDs are shown; empty: as disk_type", OneOf(*DISK_TYPES, ""), "2.4"),
    Param("cdrom_image_path", STRING, "", "first CD; needed to boot from it", checks.FILE_OR_URL),
    Param("cpu_cores", INT, 0, "cores of a socket; 0: left out", AtLeast(0), "2.7"),
    Param("cpu_mask", STRING, "all", "CPUs the guest may use", checks.MULTI_CPU_MASK, "2.2", required=True, of_node=True),
    Param("cpu_sockets", INT, 0, "sockets; 0: left out", AtLeast(0), "2.7"),
    Param("cpu_threads", INT, 0, "threads of a core; 0: left out", AtLeast(0), "2.7"),
    Param("cpu_type", STRING, "", "CPU model shown to the guest", None, "2.7"),
    Param("disk_aio", STRING, "threads", "native needs disk_cache none",
          OneOf("threads", "native", "io_uring"), "2.12"),
    Param("disk_cache", STRING, "default", "host cache", OneOf("default", "none", "writeback", "writethrough"), "2.1"),
    Param("disk_discard", STRING, "ignore", "what a discard of the guest does", OneOf("ignore", "unmap"), "2.16"),
    Param("disk_type", STRING, "paravirtual", "how disks are shown to the guest", OneOf(*DISK_TYPES)),
    Param("floppy_image_path", STRING, "", "floppy disk", checks.FILE, "2.4"),
    Param("initrd_path", STRING, "", "initial ramdisk for kernel_path", checks.FILE),
    Param("kernel_args", STRING, "ro", "arguments for kernel_path"),
    Param("kernel_path", STRING, KERNEL_PATH, "kernel on the node; empty: boot from a device", checks.FILE),
    Param("keymap", STRING, "", "keyboard layout of VNC", None, "2.5"),
    Param("kvm_extra", STRING, "", "further arguments for the emulator", None, "2.7", of_node=True),
    Param("kvm_flag", STRING, "", "force or forbid hardware virtualisation", OneOf("enabled", "disabled", ""), "2.1"),
    Param("kvm_path", STRING, _autoconf.KVM_PATH, "the emulator", checks.FILE, "2.7", required=True),
    Param("kvm_pci_reservations", INT, 12, "PCI slots left to the emulator", Between(0, 32), "2.16"),
    Param("machine_version", STRING, "", "machine type; empty: the emulator's default", None, "2.7"),
    Param("mem_path", STRING, "", "mount point of huge pages", checks.DIRECTORY, "2.2"),
    Param("migration_bandwidth", INT, 32, "limit in MiB/s", AtLeast(0), "2.1", is_global=True),
    Param("migration_caps", STRING, "", "capabilities of a migration, joined by colons", None, "2.12", of_node=True),
    Param("migration_downtime", INT, 30, "tolerated downtime in ms", AtLeast(0), "2.1"),
    Param("migration_mode", STRING, "live", "default mode", OneOf("live", "non-live"), "2.2", True, True),
    Param("migration_port", INT, 8102, "TCP port for migration data", Between(1, 65534), "2.1", True, True),
    Param("nic_type", STRING, "paravirtual", "how NICs are shown to the guest", OneOf(*NIC_TYPES)),
    Param("reboot_behavior", STRING, "reboot", "what a reboot by the guest does", OneOf("reboot", "exit"), "2.5"),
    Param("root_path", MAYBE_STRING, "/dev/vda1", "root= of kernel_path"),
    Param("scsi_controller_type", STRING, "lsi", "controller of scsi-* disks", OneOf(*SCSI_CONTROLLERS), "2.16"),
    Param("security_domain", STRING, "", "user of security model user", _USER, "2.1"),
    Param(
        "security_model", STRING, SECURITY_NONE, "root, security_domain, or a user of the uid pool",
        OneOf(SECURITY_NONE, SECURITY_USER, SECURITY_POOL), "2.1", of_node=True,
    ),
    Param("serial_console", BOOL, True, "serial port for gnt-instance console"),
    Param("serial_speed", INT, 38400, "speed given to the guest's kernel", OneOf(*SERIAL_SPEEDS), "2.7"),
    Param("soundhw", STRING, "", "sound card", None, "2.7"),
    Param("spice_bind", STRING, "", "address or interface of SPICE; empty: none", Check(
        "an address or an interface name", lambda v: checks.AddressFamily(v) is not None or checks.IsInterfaceName(v)
    ), "2.5", of_node=True),
    Param("spice_image_compression", STRING, "", "lossless", OneOf(*SPICE_COMPRESSIONS, ""), "2.6", of_node=True),
    Param("spice_ip_version", INT, 0, "family for an interface name; 0: the cluster's", OneOf(0, 4, 6), "2.5", of_node=True),
    Param("spice_jpeg_wan_compression", STRING, "", "JPEG over slow links", _WAN, "2.6", of_node=True),
    Param("spice_password_file", STRING, "", "empty: no password", checks.FILE, "2.6"),
    Param("spice_playback_compression", BOOL, True, "compress audio", None, "2.6", of_node=True),
    Param("spice_streaming_video", STRING, "", "recognise video", OneOf("off", "all", "filter", ""), "2.6", of_node=True),
    Param("spice_tls_ciphers", STRING, "HIGH:-DES:-3DES:-EXPORT:-DH", "ciphers of SPICE", None, "2.6", of_node=True),
    Param("spice_use_tls", BOOL, False, "TLS with spice.pem", None, "2.6", of_node=True),
    Param("spice_use_vdagent", BOOL, True, "agent for clipboard and mouse", None, "2.6"),
    Param("spice_zlib_glz_wan_compression", STRING, "", "zlib over slow links", _WAN, "2.6", of_node=True),
    Param("usb_devices", STRING, "", "USB devices, joined by commas", None, "2.7", of_node=True),
    Param("usb_mouse", STRING, "", "empty with VNC: tablet", OneOf("mouse", "tablet", "")),
    Param("use_chroot", BOOL, False, "the emulator runs in an empty directory", None, "2.1", of_node=True),
    Param("use_guest_agent", BOOL, False, "channel for the QEMU guest agent", None, "2.16"),
    Param("use_localtime", BOOL, False, "clock of the guest in local time", None, "2.1"),
    Param("user_shutdown", BOOL, False, "a power-off by the guest is its user's wish", None, "2.11"),
    Param("vga", STRING, "", "graphics card; empty with SPICE: qxl", None, "2.7"),
    Param("vhost_net", BOOL, True, "packets handled in the node's kernel", None, "2.1", of_node=True),
    Param("virtio_net_queues", INT, 1, "queues of a paravirtual NIC", Between(1, 8), "2.12", required=True),
    Param("vnc_bind_address", STRING, "", "address, directory or interface of VNC; empty: none", Check(
        "an address, an absolute path of a directory, or an interface name", _IsVncBind
    ), of_node=True),
    Param("vnc_password_file", STRING, "", "its first line is the password", checks.FILE, "2.1"),
    Param("vnc_tls", BOOL, False, "TLS for VNC", of_node=True),
    Param("vnc_x509_path", STRING, "", "directory of certificates for VNC", checks.DIRECTORY),
    Param("vnc_x509_verify", BOOL, False, "verify clients; needs vnc_x509_path", of_node=True),
    Param("vnet_hdr", BOOL, True, "offloads on taps", None, "2.8"),
)  # fmt: skip

_NEEDS_SPICE = (
    "spice_ip_version",
    "spice_password_file",
    "spice_image_compression",
    "spice_jpeg_wan_compression",
    "spice_zlib_glz_wan_compression",
    "spice_streaming_video",
    "spice_use_tls",
)


def CrossProblems(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong between the values of a full set."""
    if values["boot_order"] == BOOT_CDROM and not values["cdrom_image_path"]:
        yield "cannot boot from cdrom without a cdrom_image_path"
    if values["kernel_path"] and not values["root_path"]:
        yield "root_path is needed when kernel_path is set"
    if values["serial_console"] and values["serial_speed"] not in SERIAL_SPEEDS:
        yield f"serial_speed must be one of {', '.join(map(str, SERIAL_SPEEDS))} when serial_console is used"
    yield from _SpiceProblems(values)
    model = values["security_model"]
    if model == SECURITY_USER and not values["security_domain"]:
        yield "security model user needs a security_domain (the user)"
    if model != SECURITY_USER and values["security_domain"]:
        yield f"security model {model} does not allow a security_domain"
    if values["vnc_x509_verify"] and not values["vnc_x509_path"]:
        yield "vnc_x509_verify needs vnc_x509_path"
    if values["disk_aio"] == "native" and values["disk_cache"] != "none":
        yield "disk_aio native needs disk_cache none"


def Assess(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a full set permits although it is seldom wanted."""
    if not values["cpu_type"] and values["kvm_flag"] != "disabled":
        yield (
            "cpu_type is not set: guests get QEMU's oldest processor, without the instructions of today's processors and their"
            " protection against attacks; set 'host' where all nodes have the same processors, else a model that all have"
        )
    for bind, password in (("vnc_bind_address", "vnc_password_file"), ("spice_bind", "spice_password_file")):
        where = values[bind]
        local = where.startswith("/") or where in ("lo", "localhost") or checks.IsLoopback(where)
        if where and not (local or values[password] or (bind.startswith("vnc") and values["vnc_x509_verify"])):
            yield f"{bind} is {where} and {password} is not set: whoever reaches that address uses the guest's console"


def _SpiceProblems(values: Mapping[str, Any]) -> Iterator[str]:
    if not values["spice_bind"]:
        for name in _NEEDS_SPICE:
            if values[name]:
                yield f"{name} needs spice_bind"
        return
    family = checks.AddressFamily(values["spice_bind"])
    wanted = values["spice_ip_version"]
    if family is not None and wanted and family != wanted:
        yield f"spice_bind is an IPv{family} address, spice_ip_version says {wanted}"
