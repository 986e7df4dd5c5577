"""The example configuration as earlier releases kept it, written from the table of doc/reference/config.md 21."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ganeti import objects, serializer
from support import configs

RELEASES = [*(f"2.{minor}" for minor in range(17)), "3.0"]


def Number(release: str) -> int:
    major, minor = map(int, release.split("."))
    return major * 1000000 + minor * 10000


def Aged(release: str, root: objects.Snapshot | None = None) -> dict[str, Any]:
    """Return a configuration, by default the example, as ``release`` keeps it."""
    data: dict[str, Any] = serializer.Load(objects.ConfigText(root or configs.Example()))
    number = Number(release)
    for since, change in _CHANGES:
        if number < Number(since):
            change(data)
    data["version"] = number
    return data


def _Parts(disk: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield disk
    for child in disk.get("children", ()):
        yield from _Parts(child)


def _Before30(data: dict[str, Any]) -> None:
    data["cluster"]["hvparams"]["kvm"]["disk_discard"] = "default"
    for name in ("xen-pvm", "xen-hvm"):
        data["cluster"]["hvparams"][name]["xen_cmd"] = "xm"


def _Before216(data: dict[str, Any]) -> None:
    del data["cluster"]["ssh_key_type"], data["cluster"]["ssh_key_bits"]
    for disk in data["disks"].values():
        for part in _Parts(disk):
            part["pci"] = 5
    for instance in data["instances"].values():
        for nic in instance["nics"]:
            nic["pci"] = 4


def _Before214(data: dict[str, Any]) -> None:
    for disk in data["disks"].values():
        for part in _Parts(disk):
            del part["nodes"]
    for instance in data["instances"].values():
        instance["disk_template"] = "drbd"


def _Before213(data: dict[str, Any]) -> None:
    del data["filters"], data["cluster"]["data_collectors"]


def _Before212(data: dict[str, Any]) -> None:
    for instance in data["instances"].values():
        instance["disks"] = [data["disks"][uuid] for uuid in instance["disks"]]
        for disk in instance["disks"]:
            for key in ("serial_no", "ctime", "mtime", "iv_name"):
                del disk[key]
        del instance["osparams_private"]
    del data["disks"]
    for key in ("compression_tools", "install_image", "zeroing_image", "instance_communication_network",
                "max_tracked_jobs", "osparams_private_cluster"):  # fmt: skip
        del data["cluster"][key]


def _Before211(data: dict[str, Any]) -> None:
    for key in ("candidate_certs", "default_iallocator_params", "enabled_user_shutdown", "gluster_storage_dir",
                "max_running_jobs"):  # fmt: skip
        del data["cluster"][key]
    for instance in data["instances"].values():
        del instance["admin_state_source"]


def _Before210(data: dict[str, Any]) -> None:
    for instance in data["instances"].values():
        for disk in instance["disks"]:
            for part in _Parts(disk):
                part["physical_id"] = ["/dev", "xyz"]


def _Before29(data: dict[str, Any]) -> None:
    names = {uuid: node["name"] for uuid, node in data["nodes"].items()}
    data["cluster"]["master_node"] = names[data["cluster"]["master_node"]]
    for instance in data["instances"].values():
        instance["primary_node"] = names[instance["primary_node"]]
        for disk in instance["disks"]:
            disk["dev_type"] = "drbd8"
            disk["logical_id"] = [*(names[end] for end in disk["logical_id"][:2]), *disk["logical_id"][2:]]
            for part in disk["children"]:
                part["dev_type"] = "lvm"
    for kind in ("nodes", "instances"):
        data[kind] = {item["name"]: item for item in data[kind].values()}


def _Before28(data: dict[str, Any]) -> None:
    policy = data["cluster"]["ipolicy"]
    (pair,) = policy.pop("minmax")
    # Files of before 2.8 need not have every limit.
    policy.update(min={"memory-size": pair["min"]["memory-size"]}, max=pair["max"])
    for group in data["nodegroups"].values():
        group["ipolicy"] = {"max": {"memory-size": 4096}, "std": {"disk-count": 2}, "vcpu-ratio": 8.0}
    del data["cluster"]["enabled_disk_templates"]
    for instance in data["instances"].values():
        del instance["disks_active"]
        for part in (*instance["nics"], *(part for disk in instance["disks"] for part in _Parts(disk))):
            del part["uuid"]


def _Before27(data: dict[str, Any]) -> None:
    del data["networks"]
    for group in data["nodegroups"].values():
        del group["networks"]


def _Before26(data: dict[str, Any]) -> None:
    for key in (
        "diskparams",
        "ipolicy",
        "hv_state_static",
        "disk_state_static",
        "master_netmask",
        "use_external_mip_script",
    ):
        del data["cluster"][key]
    for group in data["nodegroups"].values():
        del group["diskparams"], group["ipolicy"]
    for instance in data["instances"].values():
        instance["admin_up"] = instance.pop("admin_state") == "up"
        instance["beparams"] = {"memory": instance["beparams"]["maxmem"]}
        for disk in instance["disks"]:
            for part in _Parts(disk):
                del part["params"]
    default = data["cluster"]["beparams"]["default"]
    default["memory"] = default.pop("maxmem")
    del default["minmem"], default["spindle_use"], default["always_failover"]


def _Before25(data: dict[str, Any]) -> None:
    del data["cluster"]["shared_file_storage_dir"]


def _Before24(data: dict[str, Any]) -> None:
    del data["cluster"]["ndparams"]
    for node in data["nodes"].values():
        del node["ndparams"], node["powered"]
    for group in data["nodegroups"].values():
        del group["ndparams"], group["alloc_policy"]


def _Before23(data: dict[str, Any]) -> None:
    del data["nodegroups"], data["cluster"]["prealloc_wipe_disks"], data["cluster"]["primary_ip_family"]
    for node in data["nodes"].values():
        del node["group"], node["master_capable"], node["vm_capable"]


def _Before22(data: dict[str, Any]) -> None:
    for key in (
        "blacklisted_os",
        "hidden_os",
        "default_iallocator",
        "drbd_usermode_helper",
        "osparams",
        "reserved_lvs",
    ):
        del data["cluster"][key]
    for instance in data["instances"].values():
        del instance["osparams"]


def _Before21(data: dict[str, Any]) -> None:
    cluster = data["cluster"]
    link = cluster["nicparams"]["default"]["link"]
    for key in (
        "uuid",
        "ctime",
        "mtime",
        "maintain_node_health",
        "modify_ssh_setup",
        "nicparams",
        "os_hvp",
        "uid_pool",
    ):
        del cluster[key]
    cluster["default_bridge"] = link
    cluster["default_hypervisor"] = cluster["enabled_hypervisors"][0]
    cluster["enabled_hypervisors"] = ["xen-pvm", *cluster["enabled_hypervisors"]]
    for kind in ("nodes", "instances"):
        for item in data[kind].values():
            del item["uuid"], item["ctime"], item["mtime"]
    for instance in data["instances"].values():
        for nic in instance["nics"]:
            nic["bridge"] = "br7"
            del nic["nicparams"]


_CHANGES = (
    ("3.1", _Before30),
    ("2.16", _Before216),
    ("2.14", _Before214),
    ("2.13", _Before213),
    ("2.12", _Before212),
    ("2.11", _Before211),
    ("2.10", _Before210),
    ("2.9", _Before29),
    ("2.8", _Before28),
    ("2.7", _Before27),
    ("2.6", _Before26),
    ("2.5", _Before25),
    ("2.4", _Before24),
    ("2.3", _Before23),
    ("2.2", _Before22),
    ("2.1", _Before21),
)
