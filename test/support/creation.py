"""The creation of an instance on real drivers over stand-ins for the tools."""

from __future__ import annotations

from typing import Any

from ganeti import opcodes


def OnDisks(name: str, *disks: dict[str, Any], **values: Any) -> opcodes.OpInstanceCreate:
    """Return the request for a guest without a network, by default stopped, on these disks; ``values`` say the rest."""
    defaults: dict[str, Any] = {
        "mode": "create",
        "nics": [],
        "os_type": "debian+minimal",
        "pnode": "node1",
        "hypervisor": "kvm",
        "hvparams": {"kernel_path": ""},
        "name_check": False,
        "ip_check": False,
        "conflicts_check": False,
        "ignore_ipolicy": True,
        "start": False,
    }
    return opcodes.OpInstanceCreate(instance_name=name, disks=list(disks), **{**defaults, **values})
