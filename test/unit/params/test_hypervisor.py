"""Syntax checks of hypervisor parameters that the master does (doc/reference/parameters.md 1)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import configs

from ganeti import constants, errors, hypervisor, pathutils
from ganeti.params import checks, hv


@pytest.mark.parametrize("name", constants.HYPER_TYPES)
def test_default_sets_are_valid(name: str) -> None:
    assert hv.SyntaxProblems(name, hv.DEFAULTS[name]) == []


@pytest.mark.parametrize("name", constants.HYPER_TYPES)
def test_a_set_has_exactly_the_known_names(name: str) -> None:
    values = dict(hv.DEFAULTS[name])
    taken = next(iter(values))
    del values[taken]
    assert f"parameter '{taken}' is missing" in hv.SyntaxProblems(name, values)
    more = hv.SyntaxProblems(name, {**hv.DEFAULTS[name], "colour": "red"})
    assert more == ["parameter 'colour' is not supported"]
    assert hv.SyntaxProblems("vbox", {}) == ["unknown hypervisor 'vbox'"]


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("kvm", {"boot_order": "cdrom", "cdrom_image_path": "/srv/a.iso"}),
    ("kvm", {"cdrom_image_path": "https://example.org/a.iso"}),
    ("kvm", {"kernel_path": "", "root_path": ""}),
    ("kvm", {"serial_console": False, "serial_speed": 115200}),
    ("kvm", {"security_model": "user", "security_domain": "vm1"}),
    ("kvm", {"security_model": "pool"}),
    ("kvm", {"spice_bind": "192.0.2.1", "spice_ip_version": 4, "spice_use_tls": True}),
    ("kvm", {"spice_bind": "eth0", "spice_ip_version": 6, "spice_image_compression": "off"}),
    ("kvm", {"vnc_bind_address": "2001:db8::1"}),
    ("kvm", {"vnc_bind_address": "/var/run/vnc"}),
    ("kvm", {"vnc_bind_address": "eth0"}),
    ("kvm", {"vnc_x509_verify": True, "vnc_x509_path": "/etc/certs"}),
    ("kvm", {"disk_aio": "native", "disk_cache": "none"}),
    ("kvm", {"disk_aio": "io_uring"}),
    ("kvm", {"cpu_mask": "0-2,5"}),
    ("kvm", {"cpu_mask": "1:2:all:4,6"}),
    ("kvm", {"migration_port": 65534}),
    ("kvm", {"kvm_pci_reservations": 0}),
    ("xen-pvm", {"use_bootloader": True, "bootloader_path": "/usr/bin/pygrub"}),
    ("xen-pvm", {"cpu_weight": 65535}),
    ("xen-hvm", {"boot_order": "dca", "vnc_bind_address": ""}),
    ("lxc", {"cpu_mask": "0,3"}),
    ("lxc", {"cpu_mask": ""}),
    ("chroot", {"init_script": "/sbin/start"}),
]

BAD: list[tuple[str, dict[str, Any], str]] = [
    ("kvm", {"boot_order": "tape"}, "'boot_order'"),
    ("kvm", {"boot_order": ""}, "'boot_order': it must not be empty"),
    ("kvm", {"boot_order": "cdrom"}, "cannot boot from cdrom"),
    ("kvm", {"cdrom_image_path": "a.iso"}, "'cdrom_image_path'"),
    ("kvm", {"kernel_path": "/boot/../etc/x"}, "'kernel_path'"),
    ("kvm", {"kernel_path": "/boot/x", "root_path": None}, "root_path is needed"),
    ("kvm", {"kvm_path": ""}, "'kvm_path': it must not be empty"),
    ("kvm", {"serial_speed": 1}, "'serial_speed'"),
    ("kvm", {"serial_speed": 0}, "serial_speed must be one of"),
    ("kvm", {"security_model": "user"}, "needs a security_domain"),
    ("kvm", {"security_model": "none", "security_domain": "x"}, "does not allow a security_domain"),
    ("kvm", {"security_model": "pool", "security_domain": "x"}, "does not allow a security_domain"),
    ("kvm", {"spice_ip_version": 4}, "spice_ip_version needs spice_bind"),
    ("kvm", {"spice_use_tls": True}, "spice_use_tls needs spice_bind"),
    ("kvm", {"spice_bind": "192.0.2.1", "spice_ip_version": 6}, "is an IPv4 address"),
    ("kvm", {"spice_bind": "no such name!/"}, "'spice_bind'"),
    ("kvm", {"vnc_bind_address": "eth0 eth1"}, "'vnc_bind_address'"),
    ("kvm", {"vnc_x509_verify": True}, "needs vnc_x509_path"),
    ("kvm", {"disk_aio": "native"}, "needs disk_cache none"),
    ("kvm", {"disk_discard": "default"}, "'disk_discard'"),
    ("kvm", {"cpu_mask": "3-1"}, "'cpu_mask'"),
    ("kvm", {"cpu_mask": "0-99999999"}, "'cpu_mask'"),
    ("kvm", {"cpu_mask": ""}, "'cpu_mask': it must not be empty"),
    ("kvm", {"cpu_mask": "1:x"}, "'cpu_mask'"),
    ("kvm", {"migration_port": 0}, "'migration_port'"),
    ("kvm", {"migration_port": 65535}, "'migration_port'"),
    ("kvm", {"migration_downtime": -1}, "'migration_downtime'"),
    ("kvm", {"virtio_net_queues": 9}, "'virtio_net_queues'"),
    ("kvm", {"kvm_pci_reservations": 33}, "'kvm_pci_reservations'"),
    ("xen-pvm", {"use_bootloader": True}, "use_bootloader needs bootloader_path"),
    ("xen-pvm", {"cpu_weight": 0}, "'cpu_weight'"),
    ("xen-hvm", {"cpu_weight": 65535}, "'cpu_weight'"),
    ("xen-hvm", {"boot_order": "x"}, "'boot_order'"),
    ("xen-hvm", {"vnc_bind_address": "::1"}, "'vnc_bind_address'"),
    ("xen-hvm", {"nic_type": "virtio"}, "'nic_type'"),
    ("lxc", {"cpu_mask": "0:1"}, "'cpu_mask'"),
    ("lxc", {"num_ttys": 0}, "'num_ttys': found '0', allowed is 1 or more"),
    ("chroot", {"init_script": "start"}, "'init_script'"),
    ("fake", {"migration_mode": "quick"}, "'migration_mode'"),
]


@pytest.mark.parametrize(("name", "own"), GOOD)
def test_good_values(name: str, own: dict[str, Any]) -> None:
    assert hv.SyntaxProblems(name, {**hv.DEFAULTS[name], **own}) == []


@pytest.mark.parametrize(("name", "own", "message"), BAD)
def test_bad_values_are_named(name: str, own: dict[str, Any], message: str) -> None:
    assert message in "; ".join(hv.SyntaxProblems(name, {**hv.DEFAULTS[name], **own}))


@pytest.mark.parametrize(
    ("mask", "cpus"), [("0", [0]), ("0-2,5", [0, 1, 2, 5]), ("5,0-2, 1", [0, 1, 2, 5]), ("8191", [8191])]
)
def test_cpu_masks(mask: str, cpus: list[int]) -> None:
    assert checks.ParseCpuMask(mask) == cpus


@given(st.text("0123456789-,: all", max_size=12))
def test_any_mask_is_read_or_refused(mask: str) -> None:
    try:
        parsed = checks.ParseMultiCpuMask(mask)
    except errors.ParseError:
        return
    assert all(part is None or part == sorted(set(part)) for part in parsed)


def test_masks_for_each_virtual_cpu() -> None:
    assert checks.ParseMultiCpuMask("1:2:all:4,6") == [[1], [2], None, [4, 6]]
    assert checks.ParseMultiCpuMask("all") == [None]


def test_what_nodes_have_to_look_for() -> None:
    values = {
        **hv.DEFAULTS["kvm"],
        "kernel_path": "",
        "security_domain": "vm",
        "cdrom_image_path": "/a.iso",
        "mem_path": "/m",
    }
    assert hv.NodeChecks("kvm", values) == [
        ("cdrom_image_path", "file or URL", "/a.iso"),
        ("kvm_path", "file", hv.DEFAULTS["kvm"]["kvm_path"]),
        ("mem_path", "directory", "/m"),
        ("security_domain", "user", "vm"),
    ]
    assert hv.NodeChecks("fake", hv.DEFAULTS["fake"]) == []


@pytest.mark.req("D21-GLOBHV-01")
def test_cluster_wide_parameters() -> None:
    assert {"migration_mode", "migration_port", "migration_bandwidth"} == hv.GLOBALS
    assert hv.GlobalProblems({"acpi": True}, "instance 'web'") == []
    (problem,) = hv.GlobalProblems({"acpi": True, "migration_port": 1}, "instance 'web'")
    assert "instance 'web' cannot contain cluster-wide ones: migration_port; use 'gnt-cluster modify'" in problem


@pytest.mark.req("D20-PAR-12")
def test_one_name_has_one_type_everywhere() -> None:
    kinds: dict[str, set[str]] = {}
    for table in hv.TABLES.values():
        for name, param in table.items():
            kinds.setdefault(name, set()).add(param.type)
            assert not name.startswith(("kvm_xen", "xen_", "lxc_"))
    assert {name for name, found in kinds.items() if len(found) > 1} == set()
    assert set(hv.ALL_NAMES) == set(kinds)


@pytest.mark.req("D20-PAR-15")
def test_parameters_that_the_design_names() -> None:
    for name in ("kernel_path", "initrd_path", "boot_order", "acpi", "pae", "cdrom_image_path", "nic_type", "disk_type",
                 "vnc_bind_address"):  # fmt: skip
        assert name in hv.ALL_NAMES


def test_an_instance_has_only_its_hypervisors_parameters() -> None:
    (problem,) = hv.SyntaxProblems("kvm", {**hv.DEFAULTS["kvm"], "bootloader_path": "/x"})
    assert "'bootloader_path' is not supported" in problem


@pytest.mark.req("D21-VNC-01")
def test_files_to_ship() -> None:
    root = configs.Example()
    assert hv.AncillaryFiles(root) == {pathutils.KVM_VIF_BRIDGE: True}
    web = root.instances[configs.WEB]
    root = root.WithObject(web.Replace(hvparams={"vnc_password_file": "/etc/ganeti/web-vnc"}))
    root = root.WithObject(root.cluster.Replace(enabled_hypervisors=["kvm", "xen-hvm"]))
    assert hv.AncillaryFiles(root) == {
        "/etc/ganeti/web-vnc": True,
        pathutils.KVM_VIF_BRIDGE: True,
        pathutils.VNC_PASSWORD_FILE: True,
        pathutils.XEN_CONFIG_DIR + "/xl.conf": True,
        pathutils.XEN_CONFIG_DIR + "/scripts/vif-bridge": False,
    }


def test_traits() -> None:
    assert {name for name, traits in hv.TRAITS.items() if traits.needs_port} == {"kvm", "xen-hvm"}
    assert {name for name, traits in hv.TRAITS.items() if traits.can_migrate} == {"fake", "kvm", "xen-pvm", "xen-hvm"}
    assert set(hv.TRAITS) == set(hv.TABLES) == set(constants.HYPER_TYPES)
    booting = {name: traits.boot_disk for name, traits in hv.TRAITS.items() if traits.boot_disk is not None}
    assert set(booting) == {"kvm", "xen-pvm", "xen-hvm"}
    for name, values in booting.items():
        assert not [text for text in hv.SyntaxProblems(name, {**hv.DEFAULTS[name], **values}) if "boot_order" in text]


# --- what may come with a guest from elsewhere ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("machine_version", "pc,initrd=/var/lib/ganeti/client.pem,kernel=/srv/k"),
        ("machine_version", "pc,initrd=vmlinuz"),
        ("disk_type", "scsi-generic"),
        ("disk_type", "scsi-block"),
        ("vnc_bind_address", "/etc/cron.d"),
        ("vnc_bind_address", "0.0.0.0"),
        ("spice_bind", "eth0"),
        ("keymap", "/etc/shadow"),
        ("keymap", "../../../etc/shadow"),
        ("kernel_path", "/boot/vmlinuz"),
        ("cdrom_image_path", "http://example.com/x"),
        ("kvm_extra", "-device"),
        ("security_model", "none"),
        ("use_chroot", False),
        ("vnc_password_file", ""),
        ("extra_config", "lxc.cap.keep=sys_admin"),
        ("vga", "std,romfile=/etc/shadow"),
        ("vnc_tls", False),
        ("vnc_x509_verify", False),
        ("spice_use_tls", False),
        ("spice_tls_ciphers", "ALL"),
        ("cpu_mask", "4-7"),
        ("soundhw", "hda -device x"),
    ],
)
def test_what_names_something_of_a_node_does_not_come_with_a_guest(name: str, value: Any) -> None:
    assert not hv.IsOfGuest(name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("machine_version", "pc-i440fx-7.2"),
        ("cpu_type", "Nehalem,+vmx,-svm"),
        ("kernel_args", "ro console=ttyS0,38400 quiet"),
        ("root_path", "/dev/vda1"),
        ("root_path", None),
        ("kernel_path", ""),
        ("cdrom_image_path", None),
        ("keymap", "de-ch"),
        ("vga", "std"),
        ("acpi", False),
        ("cpu_cores", 4),
        ("disk_cache", "none"),
    ],
)
def test_what_the_guest_sees_comes_with_it(name: str, value: Any) -> None:
    assert hv.IsOfGuest(name, value)


def test_drivers_are_those_that_there_are() -> None:
    assert hypervisor.DRIVERS.keys() == hv.DRIVEN


def test_defaults_that_name_nothing_of_a_node_are_of_the_guest() -> None:
    """A new parameter whose default looks otherwise has to be thought about."""
    left = {
        name
        for table in hv.TABLES.values()
        for name, param in table.items()
        if not hv.IsOfGuest(name, param.default) and not param.of_node
    }
    assert left == set()
    declared = {name for table in hv.TABLES.values() for name, param in table.items() if param.of_node}
    assert declared >= {
        "bootloader_args", "devices", "drop_capabilities", "extra_cgroups", "extra_config", "init_script", "kvm_extra", "pci_pass",
        "security_model", "spice_bind", "usb_devices", "use_chroot", "vnc_bind_address", "vnc_password_file", "kernel_path",
    }  # fmt: skip
