"""Disks and instances as a master sends them to a node."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from ganeti import objects


def MakeUuid(text: str) -> str:
    """The same uuid for the same text."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, text))


def MakeDisk(
    template: str,
    logical_id: Sequence[Any],
    size: int = 8,
    children: Sequence[objects.Disk] = (),
    index: int = 0,
    **more: Any,
) -> objects.Disk:
    values = {
        "dev_type": template,
        "logical_id": list(logical_id),
        "children": [child.ToDict(runtime=True) for child in children],
        "iv_name": f"disk/{index}",
        "size": size,
        "uuid": MakeUuid(f"disk {template} {logical_id}"),
        "serial_no": 1,
        "ctime": 1.0,
        "mtime": 1.0,
        **more,
    }
    return objects.Disk.FromDict(values, runtime=True)


def MakeNic(index: int = 0, mode: str = "bridged", link: str = "br0", **more: Any) -> objects.NIC:
    values = {
        "mac": f"aa:00:00:00:00:{index:02x}",
        "nicparams": {"mode": mode, "link": link, "vlan": ""},
        "uuid": MakeUuid(f"nic {index} {link}"),
        **more,
    }
    return objects.NIC.FromDict(values, runtime=True)


def MakeInstance(
    name: str = "guest.example.com",
    hypervisor: str = "fake",
    hvparams: Mapping[str, Any] | None = None,
    beparams: Mapping[str, Any] | None = None,
    nics: Sequence[objects.NIC] = (),
    disks: Sequence[objects.Disk] = (),
    **more: Any,
) -> objects.Instance:
    values = {
        "name": name,
        "primary_node": MakeUuid("node a"),
        "secondary_nodes": [],
        "os": "tiny",
        "hypervisor": hypervisor,
        "hvparams": dict(hvparams or {}),
        "beparams": {"minmem": 64, "maxmem": 128, "vcpus": 1, "auto_balance": True, **(beparams or {})},
        "osparams": {},
        "admin_state": "up",
        "admin_state_source": "admin",
        "nics": [nic.ToDict(runtime=True) for nic in nics],
        "disks": [disk.uuid for disk in disks],
        "disks_info": [disk.ToDict(runtime=True) for disk in disks],
        "disks_active": True,
        "attempt": MakeUuid(f"attempt to start {name}"),
        "uuid": MakeUuid(f"instance {name}"),
        "serial_no": 1,
        "ctime": 1.5,
        "mtime": 2.5,
        "tags": [],
        **more,
    }
    return objects.Instance.FromDict(values, runtime=True)
