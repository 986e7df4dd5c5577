"""Parameters of Xen, LXC, chroot and the fake hypervisor (doc/reference/parameters.md 1.4 to 1.7)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ganeti import pathutils
from ganeti.params import checks
from ganeti.params.types import BOOL, INT, MAYBE_STRING, STRING, AtLeast, Between, Check, MakeTable, OneOf, Param

_BOOT_ORDER = re.compile("[acdn]+")
LXC_DEVICES = "c 1:3 rw,c 1:5 rw,c 1:7 rw,c 1:8 rw,c 1:9 rw,c 1:10 rw,c 5:0 rw,c 5:1 rw,c 5:2 rw,c 136:* rw"
LXC_DROP_CAPABILITIES = "mac_override,sys_boot,sys_module,sys_time,sys_admin"


def _Migration(mode: str, port: int | None) -> tuple[Param, ...]:
    """Return the parameters of migrations, with the hypervisor's own defaults."""
    mode_param = Param("migration_mode", STRING, mode, "default mode", OneOf("live", "non-live"), "2.2", True, True)
    if port is None:
        return (mode_param,)
    return (
        mode_param,
        Param("migration_port", INT, port, "TCP port for migration data", Between(1, 65534), "2.1", True, True),
    )


_REBOOT = Param("reboot_behavior", STRING, "reboot", "what a reboot by the guest does", OneOf("reboot", "exit"), "2.5")


def _XenCommon(prefix: str, max_weight: int) -> dict[str, Param]:
    return MakeTable(
        Param("blockdev_prefix", STRING, prefix, "beginning of the guest's device names: sd, hd, xvd", None, "2.4"),
        Param("cpu_cap", INT, 0, "limit in percent of one CPU; 0: none", AtLeast(0), "2.7", of_node=True),
        Param(
            "cpu_mask",
            STRING,
            "all",
            "CPUs the guest may use",
            checks.MULTI_CPU_MASK,
            "2.2",
            required=True,
            of_node=True,
        ),
        Param(
            "cpu_weight",
            INT,
            256,
            "weight in the scheduler",
            Between(1, max_weight),
            "2.7",
            required=True,
            of_node=True,
        ),
        Param("cpuid", STRING, "", "CPU features shown to the guest", None, "2.10"),
        Param("soundhw", STRING, "", "sound card", None, "2.10"),
        Param("vif_script", STRING, "", "script for the NICs instead of the default", checks.FILE, "2.9"),
        _REBOOT,
    )


def _Sorted(*tables: Mapping[str, Param]) -> dict[str, Param]:
    merged = {name: param for table in tables for name, param in table.items()}
    return {name: merged[name] for name in sorted(merged)}


XEN_PVM = _Sorted(
    _XenCommon("sd", 65535),
    MakeTable(
        Param("bootloader_args", STRING, "", "arguments of the bootloader", None, "2.1", of_node=True),
        Param("bootloader_path", STRING, "", "such as pygrub; needed with use_bootloader", checks.FILE, "2.1"),
        Param("initrd_path", STRING, "", "initial ramdisk", checks.FILE),
        Param("kernel_args", STRING, "ro", "arguments of the kernel"),
        Param("kernel_path", STRING, "/boot/vmlinuz-3-xenU", "the guest's kernel", checks.FILE, required=True),
        Param("root_path", MAYBE_STRING, "/dev/xvda1", "root= of the kernel"),
        Param(
            "use_bootloader", BOOL, False, "boot through a bootloader instead of kernel_path", None, "2.1", of_node=True
        ),
        *_Migration("live", 8002),
    ),
)

XEN_HVM = _Sorted(
    _XenCommon("hd", 65534),
    MakeTable(
        Param("acpi", BOOL, True, "ACPI in the guest"),
        Param(
            "boot_order",
            STRING,
            "cd",
            "devices to boot from: floppy, disk, CD, network",
            Check("one or more of the letters a, c, d, n", lambda value: _BOOT_ORDER.fullmatch(value) is not None),
            required=True,
        ),
        Param("cdrom_image_path", STRING, "", "CD image or device", checks.FILE_OR_DEVICE),
        Param("device_model", STRING, "/usr/lib/xen/bin/qemu-dm", "the device model", checks.FILE, required=True),
        Param("disk_type", STRING, "paravirtual", "how disks are shown to the guest", OneOf("ioemu", "paravirtual")),
        Param("kernel_path", STRING, "/usr/lib/xen/boot/hvmloader", "the loader", checks.FILE, required=True),
        Param(
            "nic_type",
            STRING,
            "rtl8139",
            "how NICs are shown to the guest",
            OneOf("e1000", "ne2k_isa", "ne2k_pci", "paravirtual", "rtl8139"),
        ),
        Param("pae", BOOL, True, "physical address extension"),
        Param("pci_pass", STRING, "", "PCI devices handed through, joined by semicolons", None, "2.7", of_node=True),
        Param("use_localtime", BOOL, False, "clock of the guest in local time", None, "2.1"),
        Param("vif_type", STRING, "ioemu", "used when nic_type is not set", OneOf("ioemu", "vif", ""), "2.7"),
        Param("viridian", BOOL, False, "Hyper-V enlightenments", None, "2.8"),
        Param("vnc_bind_address", STRING, "0.0.0.0", "address of VNC; empty: none", checks.IPV4, of_node=True),  # noqa: S104
        Param(
            "vnc_password_file",
            STRING,
            pathutils.VNC_PASSWORD_FILE,
            "its first line is the password",
            checks.FILE,
            "2.1",
            required=True,
        ),
        *_Migration("non-live", 8002),
    ),
)

LXC = MakeTable(
    Param("cpu_mask", STRING, "", "CPUs the container may use", checks.CPU_MASK, "2.2", of_node=True),
    Param("devices", STRING, LXC_DEVICES, "devices it may use, joined by commas", None, "2.13", of_node=True),
    Param("drop_capabilities", STRING, LXC_DROP_CAPABILITIES, "joined by commas", None, "2.13", of_node=True),
    Param("extra_cgroups", STRING, "", "further cgroup subsystems; empty: all", None, "2.13", of_node=True),
    Param("extra_config", STRING, "", "further configuration lines, joined by commas", None, "2.13", of_node=True),
    Param("num_ttys", INT, 6, "terminals", AtLeast(1), "2.13", required=True),
    Param("startup_timeout", INT, 30, "seconds to wait until it runs", AtLeast(0), "2.13"),
)

FAKE = MakeTable(*_Migration("live", None))

CHROOT = MakeTable(
    Param(
        "init_script",
        STRING,
        "/ganeti-chroot",
        "script inside that starts it",
        checks.PATH,
        "2.1",
        required=True,
        of_node=True,
    )
)


def PvmCrossProblems(values: Mapping[str, Any]) -> Iterator[str]:
    if values["use_bootloader"] and not values["bootloader_path"]:
        yield "use_bootloader needs bootloader_path"
