"""Opcodes of networks.  Facts: doc/reference/opcodes.md 2."""

from __future__ import annotations

from ganeti import ht
from ganeti.opcodes import common, types
from ganeti.opcodes.base import OpCode, Param


class OpNetworkAdd(OpCode):
    """Define a network."""

    OP_DSC_FIELD = "network_name"
    OP_HOOK = "network-add"
    OP_RESULT = ht.TNone

    network_name: str = Param(ht.TNonEmptyString, doc="new name")
    network: str = Param(types.TIp4Net, doc="IPv4 subnet, CIDR")
    gateway: str | None = Param(ht.TMaybe(types.TIp4), None, doc="IPv4 gateway")
    network6: str | None = common.NETWORK6
    gateway6: str | None = common.GATEWAY6
    mac_prefix: str | None = common.MAC_PREFIX
    add_reserved_ips: list[str] | None = common.ADD_RESERVED_IPS
    conflicts_check: bool = common.CONFLICTS_CHECK
    tags: list[str] = Param(ht.TListOf(ht.TNonEmptyString), [], doc="network tags")


class OpNetworkRemove(OpCode):
    """Delete an unconnected network."""

    OP_DSC_FIELD = "network_name"
    OP_HOOK = "network-remove"
    OP_RESULT = ht.TNone

    network_name: str = common.NETWORK_NAME
    force: bool = common.FORCE


class OpNetworkRename(OpCode):
    """Rename a network (new in 3.1)."""

    OP_HOOK = "network-rename"
    OP_RESULT = ht.TNonEmptyString

    network_name: str = common.NETWORK_NAME
    new_name: str = common.NEW_NAME


class OpNetworkSetParams(OpCode):
    """Modify anything but the IPv4 subnet."""

    OP_DSC_FIELD = "network_name"
    OP_HOOK = "network-modify"
    OP_RESULT = ht.TNone

    network_name: str = common.NETWORK_NAME
    gateway: str | None = Param(
        ht.TMaybe(types.TIp4), None, doc="new gateway, 'none' clears; not together with reserved-IP changes"
    )
    network6: str | None = common.NETWORK6
    gateway6: str | None = common.GATEWAY6
    mac_prefix: str | None = common.MAC_PREFIX
    add_reserved_ips: list[str] | None = common.ADD_RESERVED_IPS
    remove_reserved_ips: list[str] | None = Param(
        ht.TMaybe(ht.TListOf(types.TIp4)), None, doc="addresses to un-reserve"
    )


class OpNetworkConnect(OpCode):
    """Connect to a group."""

    OP_DSC_FIELD = "network_name"
    OP_HOOK = "network-connect"
    OP_RESULT = ht.TNone

    group_name: str = common.GROUP_NAME
    network_name: str = common.NETWORK_NAME
    network_mode: str = Param(types.TNicMode, doc="NIC mode")
    network_link: str = Param(ht.TNonEmptyString, doc="NIC link")
    network_vlan: str = Param(ht.TString, "", doc="NIC VLAN")
    conflicts_check: bool = common.CONFLICTS_CHECK


class OpNetworkDisconnect(OpCode):
    """Disconnect from a group."""

    OP_DSC_FIELD = "network_name"
    OP_HOOK = "network-disconnect"
    OP_RESULT = ht.TNone

    group_name: str = common.GROUP_NAME
    network_name: str = common.NETWORK_NAME
