"""A machine becomes a node over SSH: the real ssh, an SSH daemon of its own, real daemons of ours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from support.managed import PUB_KEYS, Managed
from support.sshserver import AUTHORIZED, HOST_KEY, USER_KEY, MakeKey

from ganeti import _autoconf, ssh


@pytest.fixture
def managed() -> Iterator[Managed]:
    made = Managed()
    yield made
    made.Close()


@pytest.mark.limit(200)
def test_a_machine_becomes_a_node_leaves_and_comes_back(managed: Managed) -> None:
    machine, _ = managed.Machine("node3.example.com")
    before = machine.Read(HOST_KEY)
    unknown = managed.Command("gnt-node", "add", machine.name, merged=True)
    assert unknown.returncode == 1
    # Each step is announced before it is done.
    assert re.search("Preparing(?s:.*)Host key verification failed(?s:.*)--no-ssh-key-check", unknown.stdout), unknown
    assert machine.Read(HOST_KEY) == before and not os.path.exists(machine.Path(PUB_KEYS))

    added = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert added.returncode == 0, added.stderr + machine.Log("ganeti-noded")
    uuid = managed.Uuid(machine.name)
    own = machine.Read(USER_KEY + ".pub").strip()
    for node in (*managed.cluster.nodes, machine):
        assert ssh.SameKey(managed.Keys(node)[uuid][0], own), node.name
        assert len(managed.Keys(node)) == 3
        assert own in node.Read(AUTHORIZED)
    assert machine.Read(HOST_KEY) == managed.master.Read(HOST_KEY) != before
    assert "# mine" in machine.Read(AUTHORIZED)
    assert managed.SshProblems("--verify-ssh-clutter") == []
    # Keys of former installations, which nobody uses any more.
    unused = [f"{' '.join(MakeKey(machine.Path(f'/root/old{n}')).split()[:2])} root@{machine.name}" for n in (1, 2)]
    managed.master.Write(AUTHORIZED, "\n".join([managed.master.Read(AUTHORIZED), *unused, ""]), 0o600)
    assert managed.SshProblems() == []
    [found] = managed.SshProblems("--verify-ssh-clutter")
    assert f"ERROR:ENODESSH:node:{managed.master.name}:There are 2 keys of {machine.name}" in found

    # Every node reaches it, and it every node, without a question.
    everywhere = managed.Command("gnt-cluster", "command", "-M", "echo here")
    assert everywhere.returncode == 0 and everywhere.stdout.count(": here") == 3, everywhere.stdout + everywhere.stderr

    # Its disk is replaced: new keys, nothing left of the cluster.
    managed.cluster.CutPower(machine)
    for path in (HOST_KEY, HOST_KEY + ".pub", USER_KEY, USER_KEY + ".pub"):
        os.unlink(machine.Path(path))
    MakeKey(machine.Path(HOST_KEY))
    subprocess.run(["rm", "-r", machine.Path("/var/lib/ganeti")], check=True)
    machine.Write(AUTHORIZED, MakeKey(managed.master.Path(USER_KEY)) + "\n", 0o600)
    back = managed.Command("gnt-node", "add", "--readd", "--no-ssh-key-check", machine.name)
    assert back.returncode == 0, back.stderr
    assert managed.Uuid(machine.name) == uuid
    new = machine.Read(USER_KEY + ".pub").strip()
    for node in (*managed.cluster.nodes, machine):
        assert managed.Keys(node)[uuid] == [new]
        assert new in node.Read(AUTHORIZED) and own not in node.Read(AUTHORIZED)

    gone = managed.Command("gnt-node", "remove", machine.name)
    assert gone.returncode == 0, gone.stderr
    for node in managed.cluster.nodes:
        assert uuid not in managed.Keys(node) and new not in node.Read(AUTHORIZED)
        assert managed.Keys(node).keys() == {other.uuid for other in managed.cluster.nodes}
    assert MakeKey(managed.master.Path(USER_KEY)) not in machine.Read(AUTHORIZED)


@pytest.mark.limit(200)
def test_a_machine_that_fails_half_way_is_added_by_the_same_command_without_a_question(managed: Managed) -> None:
    machine, server = managed.Machine("node3.example.com")
    words = ("gnt-node", "add", machine.name)
    server.broken["node-daemon-setup"] = "echo 'server.pem: No space left on device' >&2; exit 1"
    failed = managed.Command(*words[:2], "--no-ssh-key-check", machine.name)
    assert failed.returncode == 1 and "No space left on device" in failed.stderr
    with managed.master.Client() as client:
        assert client.QueryNodes([], ["name"]) == [[node.name] for node in managed.cluster.nodes]
    assert managed.Keys(managed.master).keys() == {node.uuid for node in managed.cluster.nodes} | {machine.name}
    # Its host key is the cluster's by now.
    server.broken.clear()
    added = managed.Command(*words)
    assert added.returncode == 0, added.stderr
    known = managed.Keys(managed.master)
    assert known.keys() == {node.uuid for node in managed.cluster.nodes} | {managed.Uuid(machine.name)}
    assert managed.SshProblems() == []


@pytest.mark.limit(200)
def test_a_machine_whose_first_answer_takes_too_long_is_asked_again(managed: Managed) -> None:
    machine, server = managed.Machine("node3.example.com")
    asked = machine.Path("/asked")
    key = machine.Path(USER_KEY + ".pub")
    server.broken["cat "] = f"[ -e {asked} ] || {{ touch {asked}; sleep 25; }}; exec cat {key}"
    added = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert added.returncode == 0 and os.path.exists(asked), added.stderr


@pytest.mark.limit(200)
def test_a_machine_joins_with_the_release_that_the_cluster_runs(managed: Managed) -> None:
    """Where releases are installed side by side, its links are changed before anything of it runs (doc/packaging.rst)."""
    machine, _ = managed.Machine("node3.example.com")
    for node in (managed.master, machine):
        os.makedirs(node.Path("/etc/ganeti"), exist_ok=True)
        os.makedirs(node.Path(f"{_autoconf.PKGLIB_DIR}/3.0.9"))
    os.makedirs(managed.master.Path(f"{_autoconf.PKGLIB_DIR}/3.1.0"))
    links = {"lib": _autoconf.PKGLIB_DIR, "share": _autoconf.SHARE_DIR}
    for name, folder in links.items():
        os.symlink(managed.master.Path(f"{folder}/3.1.0"), managed.master.Path(f"/etc/ganeti/{name}"))
        os.symlink(machine.Path(f"{folder}/3.0.9"), machine.Path(f"/etc/ganeti/{name}"))
    before = machine.Read(AUTHORIZED)
    refused = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert refused.returncode == 1 and "Release 3.1.0 is not installed here" in refused.stderr
    assert machine.Read(AUTHORIZED) == before and not os.path.exists(machine.Path(PUB_KEYS))
    assert os.readlink(machine.Path("/etc/ganeti/lib")).endswith("/3.0.9")
    os.makedirs(machine.Path(f"{_autoconf.PKGLIB_DIR}/3.1.0"))
    added = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert added.returncode == 0, added.stderr
    for name, folder in links.items():
        assert os.readlink(machine.Path(f"/etc/ganeti/{name}")) == machine.Path(f"{folder}/3.1.0")


@pytest.mark.limit(100)
def test_a_node_of_another_cluster_is_left_alone(managed: Managed) -> None:
    machine, _ = managed.Machine("node3.example.com")
    machine.Write("/var/lib/ganeti/ssconf_cluster_name", "other.example.com\n")
    before = machine.Read(HOST_KEY), machine.Read(AUTHORIZED)
    refused = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert refused.returncode == 1
    assert "Current cluster name is 'other.example.com'" in refused.stderr and "node-cleanup" in refused.stderr
    assert (machine.Read(HOST_KEY), machine.Read(AUTHORIZED)) == before
    assert not os.path.exists(machine.Path("/var/lib/ganeti/server.pem"))


@pytest.mark.limit(100)
def test_a_machine_that_lets_nobody_in_or_is_not_there_is_named_with_the_way_out(managed: Managed) -> None:
    machine, _ = managed.Machine("node3.example.com")
    machine.Write(AUTHORIZED, "", 0o600)
    refused = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert refused.returncode == 1
    assert "Permission denied" in refused.stderr and f"ssh root@{machine.name}" in refused.stderr
    absent = managed.cluster.MakeStranger("node4.example.com")
    nobody = managed.Command("gnt-node", "add", "--no-ssh-key-check", absent.name)
    assert nobody.returncode == 1 and "Connection refused" in nobody.stderr
    assert "show-join-data node4.example.com" in " ".join(nobody.stderr.split())
