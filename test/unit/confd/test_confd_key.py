"""Where the key comes from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import configs
from support.nodes import MakeNodes
from support.virtualnode import VirtualNode

from ganeti import confd, pathutils, serializer, x509
from ganeti.bootstrap import join, keys


@pytest.mark.req("D21-CONFD-04")
def test_a_node_that_joins_gets_the_key_of_the_cluster(tmp_path: Path) -> None:
    """Only the master made one: the key travels with what a machine is set up with."""
    [master] = MakeNodes(tmp_path, "a")
    joining = VirtualNode(str(tmp_path), "b.example.com")
    (tmp_path / "hosts").write_text(f"192.0.2.2 {joining.name}\n")
    with master:
        keys.WriteClusterFiles(configs.Example(), configs.Example().master_name)
        Path(pathutils.SsconfFile("cluster_name")).write_text("cluster.example.com\n")
        sent = serializer.Dump(join.JoinData(joining.name))
        key = confd.ReadKey().decode()
    done = joining.Python(
        "from ganeti.tools.node_daemon_setup import Work; from ganeti import serializer; import sys;"
        "Work({**serializer.Load(sys.stdin.read()), 'start_node_daemon': False}, False)",
        stdin=sent,
    )
    assert done.returncode == 0, done.stderr
    assert joining.Read("/var/lib/ganeti/hmac.key") == key


@pytest.mark.req("D21-CONFD-04")
def test_a_new_cluster_has_one_key_beside_its_certificates(tmp_path: Path) -> None:
    first, second = MakeNodes(tmp_path, "a", "b")
    root = configs.Example()
    found = []
    for node in (first, second):
        with node:
            keys.WriteClusterFiles(root, root.master_name)
            assert os.path.dirname(pathutils.CONFD_HMAC_KEY) == os.path.dirname(pathutils.NODED_CERT_FILE)
            assert os.stat(pathutils.CONFD_HMAC_KEY).st_mode & 0o777 == 0o440
            found.append(confd.ReadKey())
            # Whoever has put a key there beforehand keeps it.
            keys.WriteClusterFiles(root, root.master_name)
            assert confd.ReadKey() == found[-1]
    assert found[0] != found[1]
    for key in found:
        assert len(key) == 41 and key.endswith(b"\n") and int(key, 16) > 0
    assert len(x509.NewSecret()) == 40
