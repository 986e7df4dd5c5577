"""A machine becomes a node over SSH: the real ssh, an SSH daemon of its own, real daemons of ours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from support.managed import PUB_KEYS, Managed
from support.sshserver import AUTHORIZED, HOST_KEY, PORT, USER_KEY, MakeKey

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
    own = ssh.KeyOfNode(machine.Read(USER_KEY + ".pub"), machine.name)
    for node in (*managed.cluster.nodes, machine):
        assert ssh.SameKey(managed.Keys(node)[uuid][0], own), node.name
        assert len(managed.Keys(node)) == 3
        assert own in node.Read(AUTHORIZED).splitlines()
    assert machine.Read(HOST_KEY) == managed.master.Read(HOST_KEY) != before
    assert "# mine" in machine.Read(AUTHORIZED)
    assert managed.SshProblems("--verify-ssh-clutter") == []
    # Keys of former installations, which nobody uses any more.
    unused = [f"{' '.join(MakeKey(machine.Path(f'/root/old{n}')).split()[:2])} root@{machine.name}" for n in (1, 2)]
    managed.master.Write(AUTHORIZED, "\n".join([managed.master.Read(AUTHORIZED), *unused, ""]), 0o600)
    assert managed.SshProblems() == []
    [found] = managed.SshProblems("--verify-ssh-clutter")
    assert f"ERROR:ENODESSH:node:{managed.master.name}:There are 3 keys of {machine.name}" in found

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
    new = ssh.KeyOfNode(machine.Read(USER_KEY + ".pub"), machine.name)
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
def test_what_can_be_checked_without_the_machine_is_checked_before_it_is_touched(managed: Managed) -> None:
    machine, server = managed.Machine("node3.example.com")
    member = managed.cluster.nodes[1]
    with open(os.path.join(managed.cluster.base, "hosts"), "a", encoding="utf-8") as stream:
        stream.write(f"{member.address} alias.example.com\n")

    def state() -> list[object]:
        of_nodes = [(node.Read(USER_KEY), node.Read(AUTHORIZED), managed.Keys(node)) for node in managed.cluster.nodes]
        return [*of_nodes, member.Read("/var/lib/ganeti/client.pem"), *(len(each.commands) for each in managed.servers)]

    before = state()
    master = managed.master.name
    for words, reason in (
        (["alias.example.com"], f"Address {member.address} conflicts with existing node {member.name}"),
        (["cluster.example.com"], "is that of the cluster, cluster.example.com"),
        ([master], f"Node {master} is the master(?s:.*)gnt-cluster renew-crypto --new-ssh-keys"),
        (["--readd", master], f"Node {master} is the master(?s:.*)gnt-cluster renew-crypto --new-ssh-keys"),
        (["-g", "nogroup", machine.name], "'nogroup' not known"),
        (["-s", "192.0.2.4", machine.name], "has no secondary ip but the new node"),
    ):
        refused = managed.Command("gnt-node", "add", "--no-ssh-key-check", *words, merged=True)
        said = " ".join(refused.stdout.split())
        assert refused.returncode == 1 and re.search(reason, said) and "Preparing" not in said, refused
        assert state() == before, words
    assert server.commands == []

    # What the job finds later is said with what is left on the machine.
    server.broken["hostname"] = "echo other.example.com"
    failed = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name, merged=True)
    said = " ".join(failed.stdout.split())
    assert failed.returncode == 1 and "hostname verification failed" in said, failed
    assert f"Machine {machine.name} is set up, but it is not a node of the cluster" in said, failed
    server.broken.clear()
    added = managed.Command("gnt-node", "add", machine.name)
    assert added.returncode == 0, added.stderr


@pytest.mark.limit(200)
def test_a_master_whose_host_key_is_not_that_of_the_cluster_gives_it_to_nobody(managed: Managed) -> None:
    """The host keys of the master were made anew, as by cloud-init or a new installation of the SSH daemon."""
    machine, server = managed.Machine("node3.example.com")
    before = machine.Read(HOST_KEY)
    kept = {path: managed.master.Read(path) for path in (HOST_KEY, HOST_KEY + ".pub")}
    for path in kept:
        os.unlink(managed.master.Path(path))
    none = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert none.returncode == 1 and "No SSH host key of this node is in" in none.stderr
    MakeKey(managed.master.Path(HOST_KEY))
    refused = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert refused.returncode == 1
    assert "(/etc/ssh/ssh_host_rsa_key.pub) is not that of the cluster" in refused.stderr.replace(
        managed.master.root, ""
    )
    assert machine.Read(HOST_KEY) == before and server.commands == []
    for path, text in kept.items():
        managed.master.Write(path, text, 0o600)
    added = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
    assert added.returncode == 0, added.stderr


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
    server.broken["node-daemon-setup"] = "exec /usr/lib/ganeti/node-daemon-setup"
    missing = managed.Command(*words)
    assert missing.returncode == 1 and re.search(
        "not found\ninstall this release there; then 'gnt-node", missing.stderr
    ), missing
    # Its host key is the cluster's by now.
    server.broken.clear()
    added = managed.Command(*words)
    assert added.returncode == 0, added.stderr
    known = managed.Keys(managed.master)
    assert known.keys() == {node.uuid for node in managed.cluster.nodes} | {managed.Uuid(machine.name)}
    assert managed.SshProblems() == []


@pytest.mark.limit(300)
def test_a_machine_that_sends_a_foreign_key_does_not_join(managed: Managed) -> None:
    """The master's, as if it were its own, or a line that hides a second key, as one of the master's."""
    machine, server = managed.Machine("node3.example.com")
    known = managed.Keys(managed.master)
    uuid = managed.master.uuid
    hidden = rf"ssh-rsa AAAAnode x\013{uuid} ssh-rsa AAAAevil y"
    for sent, problem in ((known[uuid][0], f"it is the key of {uuid}"), (hidden, "not a line of an SSH key")):
        server.broken["cat "] = f"printf '{sent}\\n'"
        rejected = managed.Command("gnt-node", "add", "--no-ssh-key-check", machine.name)
        assert rejected.returncode == 1 and problem in rejected.stderr, rejected
        assert f"'gnt-node add {machine.name}' continues" in rejected.stderr
        assert managed.Keys(managed.master) == known
    server.broken.clear()
    added = managed.Command("gnt-node", "add", machine.name)
    assert added.returncode == 0, added.stderr


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
    assert "Permission denied" in refused.stderr and f"'ssh -p {PORT} root@{machine.name}'" in refused.stderr
    absent = managed.cluster.MakeStranger("node4.example.com")
    nobody = managed.Command("gnt-node", "add", "--no-ssh-key-check", absent.name)
    assert nobody.returncode == 1 and "Connection refused" in nobody.stderr
    assert "show-join-data node4.example.com" in " ".join(nobody.stderr.split())
