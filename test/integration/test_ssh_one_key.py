"""A login with one key of a node and nothing else: the real ssh, an SSH daemon that accepts another key."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.sshserver import AUTHORIZED, HOST_KEY, PORT, USER_KEY, MakeKey, SshServer
from support.virtualnode import VirtualNode

NAME, CLUSTER, ADDRESS = "node1.example.com", "cluster.example.com", "127.0.0.1"
NEW_KEY = USER_KEY + "_new"
BUILD = f"""
import json, sys; from ganeti import ssh
path = sys.argv[1] if len(sys.argv) > 1 else None
print(json.dumps(ssh.BuildCommand({NAME!r}, "echo here", {CLUSTER!r}, {PORT}, key_file=path)))
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[VirtualNode]:
    """A node with a key that its SSH daemon accepts, and a new one that it does not."""
    node = VirtualNode(str(tmp_path), NAME)
    MakeKey(node.Path(NEW_KEY))
    node.Write(AUTHORIZED, MakeKey(node.Path(USER_KEY)) + "\n", 0o600)
    host_key = MakeKey(node.Path(HOST_KEY))
    node.Write("/var/lib/ganeti/known_hosts", f"{CLUSTER} {host_key}\n")
    with SshServer(node, ADDRESS, os.environ["PATH"]):
        yield node


def _LogIn(node: VirtualNode, key: str | None, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Log in with a key alone, or with what the configuration of ssh says."""
    built = node.Python(BUILD, *([] if key is None else [node.Path(key)]))
    words = json.loads(built.stdout)[1:]
    return node.Run(["ssh", "-F", node.Path("/config"), f"-oHostName={ADDRESS}", *options, *words], **environment)


def _Check(node: VirtualNode, **environment: str) -> None:
    """The machine's own way in works, and does not make up for the key that is tried."""
    assert _LogIn(node, None, **environment).stdout == "here\n"
    tried = _LogIn(node, NEW_KEY, **environment)
    assert tried.returncode == 255 and "Permission denied" in tried.stderr, tried
    assert _LogIn(node, USER_KEY, **environment).stdout == "here\n"


def test_keys_of_the_configuration_are_not_offered(node: VirtualNode) -> None:
    node.Write("/config", f"Host *\n IdentityFile {node.Path(USER_KEY)}\n")
    _Check(node)


def test_keys_of_an_agent_are_not_offered(node: VirtualNode) -> None:
    node.Write("/config", "")
    socket = node.Path("/agent")
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE, text=True)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()
        added = node.Run(["ssh-add", node.Path(USER_KEY)], SSH_AUTH_SOCK=socket)
        assert added.returncode == 0, added.stderr
        _Check(node, SSH_AUTH_SOCK=socket)
    finally:
        agent.send_signal(signal.SIGTERM)
        agent.wait(30)


def test_a_connection_that_is_open_is_not_used(node: VirtualNode) -> None:
    node.Write("/config", f"Host *\n ControlPath {node.Path('/control')}\n")
    opened = _LogIn(node, None, "-oControlMaster=yes", "-oControlPersist=yes", f"-oIdentityFile={node.Path(USER_KEY)}")
    assert opened.stdout == "here\n", opened.stderr
    try:
        _Check(node)
    finally:
        node.Run(["ssh", "-F", node.Path("/config"), "-Oexit", f"root@{NAME}"])


def test_nothing_but_keys_is_offered(node: VirtualNode) -> None:
    """Tickets of Kerberos, the key of the machine, passwords."""
    node.Write("/config", "Host *\n GSSAPIAuthentication yes\n HostbasedAuthentication yes\n")
    settings = _LogIn(node, NEW_KEY, "-G").stdout.splitlines()
    assert "preferredauthentications publickey" in settings
    assert not {"gssapiauthentication yes", "hostbasedauthentication yes"} & set(settings)
