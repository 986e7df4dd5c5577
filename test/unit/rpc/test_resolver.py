"""Where a node is: by configuration, ssconf, hosts file, name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import configs
from support.nodes import Node

from ganeti import errors, hosts, pathutils, ssconf
from ganeti.rpc import resolver


def test_by_configuration() -> None:
    root = configs.Example()
    node = root.nodes[configs.NODE2]
    current = [root]
    resolve = resolver.SnapshotResolver(lambda: current[0])
    expected = (node.name, node.primary_ip, resolver.NodedPort(), False, node.uuid)
    assert resolve(node.uuid) == resolve(node.name) == expected
    # It looks at the configuration of the moment.
    current[0] = root.WithObject(node.Replace(offline=True, master_candidate=False))
    assert resolve(node.uuid)[3] is True
    with pytest.raises(errors.OpPrereqError, match="Node 'other' is not in the configuration"):
        resolve("other")


@pytest.mark.req("D20-FLAG-16")
def test_without_a_configuration_offline_nodes_are_called_too(tmp_path: Path) -> None:
    with Node(tmp_path, "node1"):
        os.makedirs(pathutils.LOCK_DIR, exist_ok=True)
        Path(pathutils.ETC_HOSTS).write_text("127.9.9.9 joining\n")
        assert resolver.ResolveBySsconf("node2")[:2] == ("node2", "node2")
        ssconf.WriteSsconfFiles({"node_primary_ips": "node1 192.0.2.1\nnode2 192.0.2.2\n", "offline_nodes": "node2"})
        port = resolver.NodedPort()
        assert resolver.ResolveBySsconf("node2") == ("node2", "192.0.2.2", port, False, "")
        assert resolver.ResolveBySsconf("joining") == ("joining", "127.9.9.9", port, False, "")
        given = resolver.AddressResolver({"node3": "192.0.2.3"})
        assert given("node3")[1] == "192.0.2.3" and given("node2")[1] == "192.0.2.2"


def test_ports_come_from_the_services_database_if_it_knows_them() -> None:
    assert hosts.DaemonPort("no-such-service", 4711) == 4711
    assert hosts.DaemonPort("http", 4711) == 80
