"""What scripts on a node receive about a NIC: the same for operating systems and for hypervisors."""

from __future__ import annotations

from typing import Any

from ganeti import objects


def NetworkValues(nic: objects.NIC) -> dict[str, Any]:
    """Return what scripts receive about a NIC's network; {} without one."""
    if nic.netinfo is None:
        return {}
    network = nic.netinfo
    return {
        "NAME": network.get("name"),
        "UUID": nic.network,
        "TAGS": " ".join(network.get("tags") or ()),
        "SUBNET": network.get("network"),
        "GATEWAY": network.get("gateway"),
        "SUBNET6": network.get("network6"),
        "GATEWAY6": network.get("gateway6"),
        "MAC_PREFIX": network.get("mac_prefix"),
    }
