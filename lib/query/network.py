"""Fields of networks (doc/reference/queries.md 3.4)."""

from __future__ import annotations

from typing import Any

from ganeti import network as pools
from ganeti.query.base import NUMBER, OTHER, TEXT, Field, Kind, NiceSort, OrUnavail
from ganeti.query.common import Attribute, ObjectFields
from ganeti.query.context import Context


def _Pool(net: Any) -> pools.AddressPool:
    return pools.AddressPool(net)


def _Groups(context: Context, net: Any) -> list[list[Any]]:
    result = []
    for group in context.snapshot.nodegroups.values():
        link = group.networks.get(net.uuid)
        if link is not None:
            result.append([group.name, *(link.get(key) or "-" for key in ("mode", "link", "vlan"))])
    return sorted(result, key=lambda row: row[0])


def _Instances(context: Context, net: Any) -> list[str]:
    return NiceSort(
        i.name or i.uuid for i in context.snapshot.instances.values() if any(nic.network == net.uuid for nic in i.nics)
    )


def _Optional(name: str) -> Any:
    return lambda _, net: OrUnavail(getattr(net, name))


_FIELDS = [
    Field("name", "Network", TEXT, "Network name", Attribute("name")),
    Field("network", "Subnet", TEXT, "IPv4 subnet", Attribute("network")),
    Field("gateway", "Gateway", OTHER, "IPv4 gateway", _Optional("gateway")),
    Field("network6", "IPv6Subnet", OTHER, "IPv6 subnet", _Optional("network6")),
    Field("gateway6", "IPv6Gateway", OTHER, "IPv6 gateway", _Optional("gateway6")),
    Field("mac_prefix", "MacPrefix", OTHER, "MAC prefix", _Optional("mac_prefix")),
    Field("free_count", "FreeCount", NUMBER, "Number of free addresses", lambda _, net: _Pool(net).GetFreeCount()),
    Field(
        "map", "Map", TEXT, "One character per address: a dot is free, X is used", lambda _, net: _Pool(net).GetMap()
    ),
    Field(
        "reserved_count",
        "ReservedCount",
        NUMBER,
        "Number of used addresses",
        lambda _, net: _Pool(net).GetReservedCount(),
    ),
    Field("group_list", "GroupList", OTHER, "Connected groups with mode, link and VLAN", _Groups),
    Field("group_cnt", "NodeGroups", NUMBER, "Number of connected groups", lambda c, net: len(_Groups(c, net))),
    Field("inst_list", "InstanceList", OTHER, "Names of instances", _Instances),
    Field("inst_cnt", "Instances", NUMBER, "Number of instances", lambda c, net: len(_Instances(c, net))),
    Field(
        "external_reservations",
        "ExternalReservations",
        TEXT,
        "Addresses reserved by the administrator",
        lambda _, net: ", ".join(_Pool(net).GetExternalReservations()),
    ),
    *ObjectFields("network"),
]

KIND = Kind(
    "network",
    "name",
    _FIELDS,
    items=lambda context: context.snapshot.networks.values(),
    item_name=lambda net: net.name,
    item_uuid=lambda net: net.uuid,
    default_fields="name network gateway mac_prefix group_list tags",
)
