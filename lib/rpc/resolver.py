"""Where a node's daemon listens, as far as the caller can know: by configuration, by ssconf, by name.

Each resolver takes what the caller calls the node by and returns (name, host, port, offline, uuid); the last is empty for
a node the configuration does not know.  Host names are resolved by the transport, which does not block on them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ganeti import constants, errors, hosts, ssconf

if TYPE_CHECKING:
    from ganeti import objects

Place = tuple[str, str, int, bool, str]


def NodedPort() -> int:
    return hosts.DaemonPort(constants.NODED, constants.DEFAULT_NODED_PORT)


def ResolveByDns(node: str) -> Place:
    """By name alone, for nodes that are in no configuration (yet)."""
    entry = hosts.HostsFileEntry(node)
    return (node, entry.ip if entry is not None else node, NodedPort(), False, "")


def ResolveBySsconf(node: str) -> Place:
    """By this node's ssconf files, then by name: usable without a configuration.  No node counts as offline."""
    try:
        address = ssconf.SimpleStore().GetNodePrimaryIPs().get(node)
    except errors.ConfigurationError:
        address = None
    return ResolveByDns(node) if address is None else (node, address, NodedPort(), False, "")


class SnapshotResolver:
    """By the configuration: uuid or name of a node; an unknown one is an OpPrereqError."""

    def __init__(self, snapshot: Callable[[], objects.Snapshot]):
        self._snapshot = snapshot
        self._port = NodedPort()

    def __call__(self, node: str) -> Place:
        snapshot = self._snapshot()
        found = snapshot.nodes.get(node) or snapshot.NodeByName(node)
        if found is None:
            raise errors.OpPrereqError(f"Node '{node}' is not in the configuration", errors.ECODE_NOENT)
        return (found.name, found.primary_ip, self._port, bool(found.offline), found.uuid)


class AddressResolver:
    """By a given table of addresses, for calls the configuration itself needs; others by ssconf."""

    def __init__(self, addresses: dict[str, str]):
        self._addresses = dict(addresses)

    def __call__(self, node: str) -> Place:
        address = self._addresses.get(node)
        if address is None:
            return ResolveBySsconf(node)
        return (node, address, NodedPort(), False, "")
