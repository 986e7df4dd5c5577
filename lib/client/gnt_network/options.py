"""Options of several commands of gnt-network."""

from __future__ import annotations

from ganeti.cli import options as o
from ganeti.cli.parser import Value

GATEWAY = Value("--gateway", dest="gateway", metavar="ADDRESS", text="IPv4 address of the router")
NETWORK6 = Value("--network6", dest="network6", metavar="NETWORK", text="IPv6 network, such as 2001:db8::/64")
GATEWAY6 = Value("--gateway6", dest="gateway6", metavar="ADDRESS", text="IPv6 address of the router")
ADD_RESERVED_IPS = Value(
    "--add-reserved-ips", dest="add_reserved_ips", type="list", metavar="ADDRESS,...",
    text="Addresses of the network that no instance gets from it",
)  # fmt: skip
MAC_PREFIX = o.MAC_PREFIX.But(help="First three bytes of the MAC addresses of NICs in the network, such as aa:00:01")

SET_ADDRESSES = (GATEWAY, NETWORK6, GATEWAY6, ADD_RESERVED_IPS, MAC_PREFIX)
