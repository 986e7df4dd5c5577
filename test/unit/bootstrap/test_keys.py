"""What the first node writes about itself."""

from __future__ import annotations

from pathlib import Path

from support import configs
from support.nodes import MakeNodes

from ganeti import pathutils, runtime, ssh
from ganeti.bootstrap import keys

KEY = "ssh-rsa AAAAB3NzaC1yc2E root@node1.example.org"


def test_a_cluster_that_manages_ssh_knows_its_master_s_key_from_the_start(tmp_path: Path) -> None:
    (node,) = MakeNodes(tmp_path, "a")
    root = configs.Example()
    with node:
        keys.WriteClusterFiles(root, root.master_name)
        assert not runtime.Exists(pathutils.SSH_PUB_KEYS_FILE)
        keys.WriteClusterFiles(root, root.master_name, KEY)
        assert ssh.ReadNodeKeys() == {root.cluster.master_node: [KEY]}
        assert runtime.Stat(pathutils.SSH_PUB_KEYS_FILE).st_mode & 0o777 == 0o600
