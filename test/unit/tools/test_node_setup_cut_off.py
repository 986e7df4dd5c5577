"""A machine is set up as a node and cut off at any write: it can be logged in to all the while, and the next run finishes.

The two programs are the real ones, as gnt-node add runs them over SSH; the machine is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from simulated import Invocation
from support import cutting
from support.cutting import FULL, KILLED, POWER, Cut, Machines

from ganeti import pathutils, runtime, ssh, x509
from ganeti.tools import node_daemon_setup, prepare_node_join

ADMIN, MASTER, CLUSTER_HOST, OLD_HOST = (f"ssh-rsa AAAA{word} root" for word in ("admin", "master", "shared", "old"))
SERVER = x509.MakeServerPem()
PREPARE: dict[str, Any] = {
    "cluster_name": "c.example.com",
    "node_daemon_certificate": x509.CertificateOnly(SERVER),
    "ssh_host_key": [["rsa", f"private of {CLUSTER_HOST}\n", CLUSTER_HOST + "\n"]],
    "authorized_keys": {"uuid": [MASTER]},
    "ssh_key_type": "rsa",
    "ssh_key_bits": 2048,
}
JOIN: dict[str, Any] = {
    "cluster_name": "c.example.com",
    "node_daemon_certificate": SERVER,
    "hmac_key": "secret\n",
    "ssconf": {"cluster_name": "c.example.com", "master_node": "node1.example.com"},
    "start_node_daemon": True,
    "node_name": "node2.example.com",
}
# How many of all the cuts one seed tries.
SAMPLE = 60  # of all cuts; CUTS=10000 tries every one


class Scene(Machines):
    """A machine that has one host key, and lets its administrator in."""

    def __init__(self) -> None:
        super().__init__(["node2.example.com"])
        self.made = 0
        self.started: list[str] = []
        self.broken: list[str] = []
        self.master.programs |= {
            "ssh-keygen": cutting.Guarded(self._KeyGen),
            pathutils.DAEMON_UTIL: self._DaemonUtil,
            pathutils.ENSURE_DIRS: cutting.Guarded(_EnsureDirs),
        }
        self.Call(_Furnish)
        self.world.RunFor(60)

    def _KeyGen(self, invocation: Invocation) -> int:
        _, _, kind, _, _, _, path, *_ = invocation.argv
        line = f"ssh-{kind} AAAA{self.made} root"
        self.made += 1
        # What it writes is not durable.
        runtime.WriteFile(path, f"private of {line}\n", sync=False)
        runtime.WriteFile(f"{path}.pub", f"{line}\n", sync=False)
        return 0

    def _DaemonUtil(self, invocation: Invocation) -> int:
        self.started.append(" ".join(invocation.argv[1:]))
        return 0

    def Boot(self, machine: Any) -> None:
        self.started.clear()

    def Reach(self, number: int, when: str) -> None:
        self.CheckWay(f"{when} {self.steps[number]}")
        super().Reach(number, when)

    def CheckWay(self, moment: str) -> None:
        """The SSH daemon could start now, and lets in who trusts the key that it shows."""
        private, public = (self.Content(path).strip() for path in pathutils.SshHostKey("rsa"))
        shown = private.removeprefix("private of ")
        accepted = self.Content(ssh.AuthorizedKeysFile()).splitlines()
        if shown not in (OLD_HOST, CLUSTER_HOST) or public not in ("", shown):
            self.broken.append(f"{moment}: the host key is {private!r} with {public!r}")
        if ADMIN not in accepted or (shown == CLUSTER_HOST and MASTER not in accepted):
            self.broken.append(f"{moment}: {shown} is shown, and {accepted} let in")

    def Content(self, path: str) -> str:
        try:
            return bytes(self.master.disk.FindFile(path).data).decode()
        except FileNotFoundError:
            return ""

    def CheckPrepared(self) -> None:
        assert [self.Content(path).strip() for path in pathutils.SshHostKey("rsa")] == [
            f"private of {CLUSTER_HOST}",
            CLUSTER_HOST,
        ]
        private, public = (self.Content(path).strip() for path in ssh.UserKeyFiles("rsa"))
        assert public and private == f"private of {public}"
        assert {ADMIN, MASTER, public} <= set(self.Content(ssh.AuthorizedKeysFile()).splitlines())
        assert "reload-ssh-keys" in self.started

    def CheckJoined(self) -> None:
        assert self.Content(pathutils.NODED_CERT_FILE) == SERVER
        assert self.Content(pathutils.CONFD_HMAC_KEY) == "secret\n"
        assert x509.IsSignedBy(self.Content(pathutils.NODED_CLIENT_CERT_FILE), SERVER)
        assert self.Content(pathutils.SsconfFile("master_node")) == "node1.example.com\n"
        assert self.started[-3:] == ["stop-all", "start ganeti-noded", "start ganeti-confd"]


def _Furnish() -> None:
    for folder in (ssh.UserDir(), pathutils.SSH_CONFIG_DIR, pathutils.LOCK_DIR):
        runtime.MakeDirs(folder)
    private, public = pathutils.SshHostKey("rsa")
    runtime.WriteFile(private, f"private of {OLD_HOST}\n")
    runtime.WriteFile(public, OLD_HOST + "\n")
    ssh.AuthorizeKeys([ADMIN])


def _EnsureDirs(_invocation: Invocation) -> int:
    runtime.MakeDirs(pathutils.DATA_DIR)
    return 0


def _Run(scene: Scene, program: Any, data: Mapping[str, Any], cut: Cut | None = None) -> cutting.Happened:
    def command() -> int:
        program.Work(data, False)
        return 0

    return scene.Run(command, cut)


def Disturbed(joining: bool, cut: Cut | None) -> list[str]:
    """Raise AssertionError unless the next run finishes; return the steps of the first one."""
    scene = Scene()
    try:
        program, data = (node_daemon_setup, JOIN) if joining else (prepare_node_join, PREPARE)
        if joining:
            assert _Run(scene, prepare_node_join, PREPARE).code == 0
        happened = _Run(scene, program, data, cut)
        steps = list(scene.steps)
        scene.Heal()
        if happened.code != 0:
            scene.started.clear()
            # gnt-node add begins with the first one again.
            for each in ((prepare_node_join, PREPARE), (program, data)):
                again = _Run(scene, *each)
                assert again.code == 0, (again.text, happened.text)
        scene.CheckWay("at the end")
        assert scene.broken == [], (scene.broken[0], happened.text)
        scene.CheckPrepared()
        if joining:
            scene.CheckJoined()
        return steps
    finally:
        scene.Close()


@pytest.mark.limit(300)
@pytest.mark.parametrize("joining", [False, True], ids=["prepare-node-join", "node-daemon-setup"])
def test_whatever_happens_at_any_write_the_machine_lets_people_in_and_the_next_run_finishes(joining: bool) -> None:
    cutting.SweepCuts(Disturbed(joining, None), SAMPLE, lambda cut: Disturbed(joining, cut), (KILLED, POWER, FULL))
