"""The SSH keys of a running cluster change their type: real daemons, the real ssh, an SSH daemon for each node."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from support.managed import Managed
from support.realcluster import RealNode
from support.sshserver import AUTHORIZED, PORT, USER_KEY

FOLDER = os.path.dirname(USER_KEY)
STOLEN = "/stolen"
CLEANUP = "import sys; from ganeti.tools.node_cleanup import Main; sys.exit(Main())"
CANDIDATES = 3


@pytest.fixture
def managed() -> Iterator[Managed]:
    made = Managed(4, CANDIDATES)
    yield made
    made.Close()


def LogsIn(managed: Managed, caller: RealNode, target: RealNode, key: str | None = None) -> bool:
    """Root of one node reaches another, with what ssh finds by itself or with this key alone."""
    only = [] if key is None else ["-oIdentityFile=" + caller.Path(key)]
    options = ["BatchMode=yes", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", f"Port={PORT}"]
    argv = ["ssh", *only, *(f"-o{option}" for option in options), f"root@{target.name}", "echo here"]
    return caller.Run(argv, PATH=managed.path).stdout == "here\n"


def Steal(nodes: list[RealNode], kind: str) -> None:
    """Keep the keys that the nodes use now."""
    for node in nodes:
        os.makedirs(node.Path(STOLEN), exist_ok=True)
        shutil.copy(node.Path(f"{FOLDER}/id_{kind}"), node.Path(STOLEN))


def CheckKeys(managed: Managed, kind: str, former: str) -> None:
    """Candidates reach every node with keys of this type; those of the former type open nothing and are on no list."""
    nodes = managed.cluster.nodes
    own = {node.uuid: node.Read(f"{FOLDER}/id_{kind}.pub").split()[:2] for node in nodes}
    with managed.master.Client() as client:
        roles = dict(client.QueryNodes([], ["uuid", "master_candidate"]))
    for node in nodes:
        listed = {uuid: [line.split()[:2] for line in lines] for uuid, lines in managed.Keys(node).items()}
        assert listed == {uuid: [key] for uuid, key in own.items()}, node.name
        authorized = [line.split()[:2] for line in node.Read(AUTHORIZED).splitlines()]
        assert sorted(authorized) == sorted(own[uuid] for uuid, candidate in roles.items() if candidate), node.name
        assert not LogsIn(managed, nodes[0], node, f"{STOLEN}/id_{former}"), node.name
        for target in nodes if roles[node.uuid] else nodes[:1]:
            assert LogsIn(managed, node, target, f"{FOLDER}/id_{kind}") == roles[node.uuid], (node.name, target.name)
    everywhere = managed.Command("gnt-cluster", "command", "-M", "echo here")
    assert everywhere.stdout.count(": here") == len(nodes), everywhere.stdout + everywhere.stderr
    assert managed.SshProblems("--verify-ssh-clutter") == []


def Renew(managed: Managed, *words: str) -> str:
    done = managed.Command("gnt-cluster", "renew-crypto", "--force", "--new-ssh-keys", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.limit(400)
def test_keys_change_their_type_while_a_node_is_away_and_back(managed: Managed) -> None:
    nodes, away = managed.cluster.nodes, managed.cluster.nodes[2]
    Steal(nodes, "rsa")
    assert LogsIn(managed, nodes[1], nodes[3], f"{STOLEN}/id_rsa")
    managed.cluster.CutPower(away)
    assert managed.Command("gnt-node", "modify", "--offline", "yes", "--auto-promote", away.name).returncode == 0
    said = Renew(managed, "--ssh-key-type=ecdsa", "--ssh-key-bits=384")
    assert f"Node {away.name} is offline and keeps its old keys" in said
    info = managed.Command("gnt-cluster", "info").stdout
    assert "ssh_key_type: ecdsa" in info and "ssh_key_bits: 384" in info
    for node in nodes:
        assert LogsIn(managed, nodes[0], node, f"{STOLEN}/id_rsa") == (node is away), node.name

    # It is back, and the two commands of the message are run.
    assert "node-cleanup --yes-do-it' on it, then" in said and f"'gnt-node add --readd {away.name}' here" in said
    cleaned = away.Run([sys.executable, "-c", CLEANUP, "--yes-do-it"])
    assert cleaned.returncode == 0, cleaned.stderr
    back = managed.Command("gnt-node", "add", "--readd", away.name)
    assert back.returncode == 0, back.stdout + back.stderr
    CheckKeys(managed, "ecdsa", "rsa")

    # And back, at first with an SSH daemon that accepts no such keys.
    Steal(nodes, "ecdsa")
    server = managed.servers[1]
    server.rejected = "*rsa*"
    failed = managed.Command("gnt-cluster", "renew-crypto", "--force", "--new-ssh-keys", "--ssh-key-type=rsa")
    text = " ".join((failed.stdout + failed.stderr).split())
    assert failed.returncode == 1 and f"SSH keys on node {server.node.name}" in text, text
    assert "does not let the new key" in text and "PubkeyAcceptedAlgorithms" in text, text
    assert managed.Command("gnt-cluster", "command", "-M", "echo here").stdout.count(": here") == len(nodes)
    assert "ssh_key_type: ecdsa" in managed.Command("gnt-cluster", "info").stdout
    server.rejected = ""
    Renew(managed, "--ssh-key-type=rsa")
    CheckKeys(managed, "rsa", "ecdsa")
    assert "ssh_key_bits: 2048" in managed.Command("gnt-cluster", "info").stdout
