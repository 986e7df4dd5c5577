"""What the first node writes about itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from simulated import World
from support import configs
from support.nodes import MakeNodes

from ganeti import errors, pathutils, runtime, ssh
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


@pytest.mark.req("D22-X509-11")
def test_a_new_cluster_has_a_domain_secret_of_its_own(tmp_path: Path) -> None:
    """One that the administrator put there before stays."""
    root = configs.Example()
    secrets: list[str] = []
    one, other, given = MakeNodes(tmp_path, "a", "b", "c")
    for node in (one, other):
        with node:
            keys.WriteClusterFiles(root, root.master_name)
            secrets.append(runtime.ReadText(pathutils.CLUSTER_DOMAIN_SECRET_FILE))
    assert all(re.fullmatch(r"[0-9a-f]{40}\n", secret) for secret in secrets)
    assert secrets[0] != secrets[1]
    with given:
        runtime.WriteFile(pathutils.CLUSTER_DOMAIN_SECRET_FILE, "of both\n")
        keys.WriteClusterFiles(root, root.master_name)
        assert runtime.ReadText(pathutils.CLUSTER_DOMAIN_SECRET_FILE) == "of both\n"


def test_files_that_belong_together_are_replaced_together_or_not_at_all() -> None:
    """A full disk: the certificate of SPICE stays with that of its authority."""
    paths = (pathutils.SPICE_CERT_FILE, pathutils.SPICE_CACERT_FILE)
    with World(1) as world:
        machine = world.AddMachine("node1.example.org")
        machine.Call(runtime.MakeDirs, pathutils.DATA_DIR)
        for path in paths:
            machine.Call(runtime.WriteFile, path, "old")
        fresh = machine.Call(keys.NewSpiceFiles, None, None, True)
        machine.disk_full = True
        with pytest.raises(errors.OpExecError, match=r"spice\.pem could not be replaced: No space left") as caught:
            machine.Call(keys.Replace, fresh)
        assert "run the same command again" in str(caught.value.hint)
        assert [machine.Call(runtime.ReadFile, path) for path in paths] == [b"old", b"old"]
        machine.disk_full = False
        machine.Call(keys.Replace, fresh)
        assert [machine.Call(runtime.ReadText, path) for path in paths] == [file.text for file in fresh]
