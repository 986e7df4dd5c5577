"""Findings of the check across the whole configuration, one by one (doc/reference/config.md 20)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support import configs

from ganeti import configfile, objects

Change = Callable[[dict[str, Any]], Any]
NODE1, NODE2, GROUP, WEB, DISK = configs.NODE1, configs.NODE2, configs.GROUP, configs.WEB, configs.WEB_DISK
OTHER = configs.Uuid(77)


def _Set(*path: Any) -> Change:
    """Puts the last item in the place that the others lead to."""

    def change(stored: dict[str, Any]) -> None:
        place: Any = stored
        *way, key, value = path
        for step in way:
            place = place[step]
        place[key] = value

    return change


def _Copy(kind: str, uuid: str, **changes: Any) -> Change:
    """A second object like the one there, with another uuid."""

    def change(stored: dict[str, Any]) -> None:
        stored[kind][OTHER] = stored[kind][uuid] | {"uuid": OTHER} | changes

    return change


def _DynamicOnlyTogether(stored: dict[str, Any]) -> None:
    """Values of cluster and group that do not go together, each of which is fine."""
    stored["cluster"]["diskparams"]["drbd"]["dynamic-resync"] = True
    stored["nodegroups"][GROUP]["diskparams"] = {"drbd": {"c-plan-ahead": 0}}


STRUCTURAL: list[tuple[Change, str]] = [
    (_Set("cluster", "enabled_hypervisors", []), "enabled_hypervisors is empty"),
    (
        _Set("cluster", "enabled_hypervisors", ["vbox"]),
        "enabled_hypervisors has 'vbox', for which there are no hvparams",
    ),
    (_Set("cluster", "enabled_disk_templates", []), "enabled_disk_templates is empty"),
    (_Set("cluster", "master_node", OTHER), f"master_node {OTHER} is not a node"),
    (_Set("nodes", NODE2, "uuid", OTHER), f"node stored under {NODE2} has the uuid {OTHER}"),
    (_Set("disks", DISK, "uuid", OTHER), f"disk stored under {DISK} has the uuid {OTHER}"),
    (_Set("nodes", NODE2, "group", OTHER), f"node 'node2.example.org': group {OTHER} does not exist"),
    (_Set("instances", WEB, "primary_node", OTHER), f"'web.example.org': primary node {OTHER} does not exist"),
    (_Set("instances", WEB, "disks", [OTHER]), f"'web.example.org': disk {OTHER} does not exist"),
]

OTHERS: list[tuple[Change, str]] = [
    (_Set("cluster", "hvparams", "kvm", {"acpi": "yes"}), "hvparams of kvm: parameter 'acpi' must be true or false"),
    (_Set("cluster", "hvparams", "kvm", {"colour": 1}), "hvparams of kvm: unknown parameter 'colour'"),
    (_Set("cluster", "hvparams", "kvm", {"boot_order": "tape"}), "parameter 'boot_order': found 'tape'"),
    (
        _Set("cluster", "os_hvp", {"o": {"kvm": {"acpi": 3}}}),
        "os_hvp of o, kvm: parameter 'acpi' must be true or false",
    ),
    (_Set("cluster", "beparams", "default", "vcpus", 0), "'vcpus': found '0', allowed is 1 or more"),
    (_Set("cluster", "beparams", "default", "minmem", "1g"), "beparams: parameter 'minmem' must be a size in MiB"),
    (_Set("cluster", "nicparams", "default", "mode", "tunnel"), "nicparams: NIC parameter 'mode': found 'tunnel'"),
    (_Set("cluster", "nicparams", "default", "link", ""), "a NIC in mode bridged needs a link"),
    (_Set("cluster", "ndparams", "ssh_port", 0), "node parameter 'ssh_port': found '0', allowed is 1 to 65535"),
    (_Set("cluster", "diskparams", "drbd", {"protocol": "D"}), "disk template drbd, parameter 'protocol'"),
    (_Set("cluster", "diskparams", "rbd", {"access": "outer"}), "disk template rbd, parameter 'access'"),
    (_Set("cluster", "diskparams", "tape", {}), "unknown disk template 'tape'"),
    (_Set("cluster", "enabled_disk_templates", ["drbd", "plain", "tape"]), "unknown disk template 'tape' is enabled"),
    (_Set("cluster", "ipolicy", "vcpu-ratio", "many"), "parameter 'vcpu-ratio' must be a number"),
    (_Set("cluster", "ipolicy", "minmax", []), "minmax must be a list that is not empty"),
    (_Set("cluster", "ipolicy", "minmax", 0, "min", "cpu-count", 99), "has min 99 above max 8"),
    (
        _Set("cluster", "ipolicy", "std", "memory-size", 1),
        "std lies within none of the min/max pairs: memory-size 1 is not in 128 to ",
    ),
    (_Set("cluster", "ipolicy", "disk-templates", []), "disk-templates must be a list that is not empty"),
    (_Set("nodes", NODE1, "master_candidate", False), "it is the master and no master candidate"),
    (_Set("nodes", NODE2, "master_candidate", False), "1 master candidates, there should be 2"),
    (_Set("nodes", NODE2, "drained", True), "it is master_candidate and drained"),
    (_Set("nodes", NODE2, "ndparams", {"oob_program": "rel/path"}), "node parameter 'oob_program': found 'rel/path'"),
    (_Set("nodes", NODE2, "name", "node1.example.org"), "several nodes have this name"),
    (_Copy("nodegroups", GROUP), "nodegroup 'default': several groups have this name"),
    (_Set("nodegroups", GROUP, "name", OTHER), "its name looks like a uuid"),
    (_Set("nodegroups", GROUP, "ipolicy", {"std": {}}), "unknown instance policy key 'std'"),
    (_Set("nodegroups", GROUP, "ndparams", {"ovs": "x"}), "ndparams: parameter 'ovs' must be true or false"),
    (
        _Set("nodegroups", GROUP, "diskparams", {"plain": {"stripes": 0}}),
        "parameter 'stripes': found '0', allowed is 1 or more",
    ),
    (
        _Set("nodegroups", GROUP, "diskparams", {"drbd": {"dynamic-resync": True, "c-plan-ahead": 0}}),
        "dynamic-resync needs a c-plan-ahead above 0",
    ),
    (_DynamicOnlyTogether, "nodegroup 'default': disk template drbd: dynamic-resync needs a c-plan-ahead above 0"),
    (_Set("nodegroups", GROUP, "networks", {OTHER: {}}), f"network {OTHER} does not exist"),
    (_Set("instances", WEB, "hypervisor", "vbox"), "unknown hypervisor 'vbox'"),
    (_Set("instances", WEB, "hvparams", {"kernel_path": 3}), "hvparams: parameter 'kernel_path' must be a text"),
    (_Set("instances", WEB, "beparams", {"vcpus": "2"}), "beparams: parameter 'vcpus' must be a whole number"),
    (_Set("instances", WEB, "nics", 0, "mac", "zz"), "'zz' is not a valid MAC address"),
    (_Set("instances", WEB, "nics", 0, "network", OTHER), f"NIC 0: network {OTHER} does not exist"),
    (_Set("instances", WEB, "nics", 0, "nicparams", {"vlan": "5"}), "NIC parameter 'vlan': found '5'"),
    (_Copy("instances", WEB, disks=[], network_port=None), "several instances have this name"),
    (_Copy("instances", WEB, disks=[], network_port=None), "MAC address aa:00:00:3f:12:c4 is used by several NICs"),
    (_Copy("instances", WEB, network_port=None), f"disk {DISK} belongs to several instances"),
    (_Copy("instances", WEB, disks=[]), "port 11000 is used more than once"),
    (_Set("disks", DISK, "iv_name", "disk/1"), "disk 0 has the iv_name 'disk/1'"),
    (_Set("disks", DISK, "nodes", [NODE1, OTHER]), f"disk 0: node {OTHER} does not exist"),
    (_Set("disks", DISK, "dev_type", "tape"), "unknown disk template 'tape'"),
    (_Set("disks", DISK, "children", 0, "logical_id", ["x"]), "logical_id must have 2 items, it has 1"),
    (_Set("disks", DISK, "params", {"access": "outer"}), "access must be kernelspace or userspace"),
    (_Set("cluster", "tcpudp_port_pool", [11001]), "port 11001 is used more than once: the pool of free ports"),
    (_Set("cluster", "highest_used_port", 11000), "highest_used_port is 11000, port 11001 is in use"),
    (_Copy("disks", DISK, iv_name=""), "node 'node1.example.org': DRBD minor 0 is used more than once"),
    (_Set("nodes", NODE2, "primary_ip", "192.0.2.11"), "address 192.0.2.11 is used more than once"),
    (_Set("nodes", NODE2, "secondary_ip", "192.0.2.1"), "address 192.0.2.1 is used more than once: cluster"),
]


def _Loaded(change: Change) -> objects.Snapshot:
    stored = configs.ExampleDict()
    for name, values in configs.Example().cluster.ToDict().items():
        stored["cluster"][name] = values  # complete parameter sets, to be spoilt
    change(stored)
    return configfile.LoadDict(stored)


def test_a_good_configuration_has_no_findings() -> None:
    assert configfile.StructuralProblems(configs.Example()) == []
    assert configfile.VerifyConfig(configs.Example()) == []
    assert configfile.VerifyConfig(configs.Large(50)) == []


@pytest.mark.parametrize(("change", "text"), STRUCTURAL, ids=[text for _, text in STRUCTURAL])
def test_structural_findings_refuse_a_start(change: Change, text: str) -> None:
    root = _Loaded(change)
    assert any(text in problem for problem in configfile.StructuralProblems(root)), configfile.StructuralProblems(root)
    assert set(configfile.StructuralProblems(root)) <= set(configfile.VerifyConfig(root))


@pytest.mark.parametrize(("change", "text"), OTHERS, ids=[text for _, text in OTHERS])
def test_other_findings_are_only_told(change: Change, text: str) -> None:
    root = _Loaded(change)
    assert configfile.StructuralProblems(root) == []
    assert any(text in problem for problem in configfile.VerifyConfig(root)), configfile.VerifyConfig(root)


@pytest.mark.req("D21-UUID-08")
def test_names_cannot_be_taken_for_uuids() -> None:
    root = _Loaded(_Set("nodegroups", GROUP, "name", OTHER))
    assert f"nodegroup '{OTHER}': its name looks like a uuid" in configfile.VerifyConfig(root)


def test_nic_addresses_are_unique_on_a_link() -> None:
    root = configs.Example()
    web = root.instances[WEB]
    nic = web.nics[0].Replace(ip="10.0.0.5")
    other = web.Replace(
        uuid=OTHER, name="b", disks=[], network_port=None, nics=[nic.Replace(mac="aa:00:00:00:00:02", uuid=OTHER)]
    )
    both = root.WithObject(web.Replace(nics=[nic])).WithObject(other)
    assert configfile.VerifyConfig(both) == [
        "address 10.0.0.5 on bridged:br0 is used more than once: instance 'web.example.org' (NIC 0), instance 'b' (NIC 0)"
    ]
    elsewhere = other.Replace(nics=[other.nics[0].Replace(nicparams={"link": "br1"})])
    assert configfile.VerifyConfig(both.WithObject(elsewhere)) == []


def test_reservations_need_not_be_complete() -> None:
    root = configs.Example()
    soon = objects.Instance.FromDict({"forthcoming": True, "uuid": OTHER, "serial_no": 1})
    disk = objects.Disk.FromDict({"forthcoming": True, "uuid": configs.Uuid(78), "serial_no": 1})
    root = root.WithObject(soon).WithObject(disk)
    assert configfile.VerifyConfig(root) == []
    assert root.InstanceByName("web.example.org") is not None
    assert root.ExpandName("instance", "web") is not None
    assert root.NodeInstances(NODE1) == ((WEB,), ())
