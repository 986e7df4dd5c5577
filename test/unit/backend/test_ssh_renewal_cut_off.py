"""New SSH keys for all nodes, disturbed before and after each step: nobody loses its key, and another run finishes the work,
also that of another master.

The machines are simulated: one reaches another if that one's authorized_keys has its key.  What runs is the master's real
procedure, and the real ssh-update on the others.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from simulated import Invocation, Machine
from support import cutting
from support.cutting import Cut, Machines

from ganeti import errors, pathutils, runtime, serializer, ssconf, ssh
from ganeti.backend.trust import sshrenewal
from ganeti.tools import ssh_update
from ganeti.x509 import MakeServerPem

NAMES = tuple(f"node{number}.example.com" for number in (1, 2, 3))
UUIDS = tuple(f"0000000{number}-0000-4000-8000-000000000000" for number in (1, 2, 3))
CANDIDATES = 2
# How many of all the cuts one seed tries.
SAMPLE = 40  # of all cuts; CUTS=10000 tries every one
_SERVER = MakeServerPem()
_KEY_FILE = "-oIdentityFile="


class Scene(Machines):
    """node1 is the master; 1 and 2 are candidates, 3 could become one."""

    def __init__(self, kind: str) -> None:
        self.chief = 0
        super().__init__(list(NAMES))
        self.kind = kind
        self.made = 0
        self.broken: list[str] = []
        for machine in self.all:
            machine.programs |= {
                "ssh": self._Checked,
                "ssh-keygen": cutting.Guarded(self._KeyGen),
                pathutils.SSH_UPDATE: cutting.Guarded(_Update),
                "rm": cutting.Guarded(_Use),
                "true": cutting.Guarded(lambda _: 0),
            }
            machine.Call(self._Furnish, NAMES.index(machine.name))
        known = {uuid: [_Line("rsa", number)] for number, uuid in enumerate(UUIDS)}
        for machine in self.all:
            machine.Call(ssh.WriteNodeKeys, known)
            machine.Call(ssh.AuthorizeKeys, [_Line("rsa", number) for number in range(CANDIDATES)])
        self.made = len(NAMES)
        self.world.RunFor(60)

    @property
    def master(self) -> Machine:
        return self.all[self.chief]

    def FailOver(self) -> None:
        """node2 is the master."""
        self.chief = 1
        for machine in self.all:
            machine.Call(ssconf.WriteSsconfFiles, {"master_node": NAMES[1]})

    def _Furnish(self, number: int) -> None:
        for folder in (pathutils.DATA_DIR, pathutils.LOCK_DIR, ssh.UserDir()):
            runtime.MakeDirs(folder)
        private, public = ssh.UserKeyFiles("rsa")
        runtime.WriteFile(private, f"private {number}\n")
        runtime.WriteFile(public, _Line("rsa", number) + "\n")
        runtime.WriteFile(pathutils.NODED_CERT_FILE, _SERVER)
        ssconf.WriteSsconfFiles(
            {
                "cluster_name": "c.example.com",
                "master_node": NAMES[0],
                "online_nodes": "\n".join(NAMES),
                "ssh_ports": "\n".join(f"{name}=22" for name in NAMES),
            }
        )

    def _KeyGen(self, invocation: Invocation) -> int:
        _, _, kind, _, _, _, path, *_ = invocation.argv
        number, self.made = self.made, self.made + 1
        # What it writes is not durable.
        runtime.WriteFile(path, f"private {number}\n", sync=False)
        runtime.WriteFile(f"{path}.pub", _Line(kind, number) + "\n", sync=False)
        return 0

    def _Checked(self, invocation: Invocation) -> int:
        target = self.Find(invocation.argv[-2].partition("@")[2])
        named = [word.removeprefix(_KEY_FILE) for word in invocation.argv if word.startswith(_KEY_FILE)]
        if target.on and not _Accepts(target, _Usable(self.master, *named)):
            invocation.Complain("Permission denied (publickey)\n")
            return 255
        return self._Ssh(invocation)

    def Reach(self, number: int, when: str) -> None:
        moment = f"{when} {self.steps[number]}"
        self.CheckNobodyIsLockedOut(moment)
        self._CheckRecorded(moment)
        super().Reach(number, when)

    def CheckNobodyIsLockedOut(self, moment: str) -> None:
        for one, target in itertools.product(self.all[:CANDIDATES], self.all):
            if not _Accepts(target, _Usable(one)):
                self.broken.append(f"{moment}: {one.name} cannot log in to {target.name}")

    def _CheckRecorded(self, moment: str) -> None:
        """Whoever becomes master knows every key that any node accepts, and can withdraw it."""
        accepted = {line for machine in self.all for line in _Content(machine, ssh.AuthorizedKeysFile()).splitlines()}
        for machine in self.all:
            recorded = _Content(machine, pathutils.SSH_PUB_KEYS_FILE)
            for line in accepted:
                if f" {line}\n" not in recorded:
                    self.broken.append(f"{moment}: {machine.name} does not know {line}, which is accepted")

    def Renew(self, cut: Cut | None = None) -> cutting.Happened:
        def command() -> int:
            try:
                failures = sshrenewal.RenewKeys(
                    UUIDS, NAMES, UUIDS[:CANDIDATES], NAMES, "rsa", self.kind, ssh.DEFAULT_BITS[self.kind]
                )
            except errors.SshUpdateError as err:
                raise errors.OpExecError(str(err)) from err
            for name, problem in failures:
                print(name, problem)
            return len(failures)

        return self.Run(command, cut)

    def CheckRenewed(self) -> None:
        self.CheckNobodyIsLockedOut("at the end")
        keys = [_Content(machine, ssh.UserKeyFiles(self.kind)[1]).strip() for machine in self.all]
        olds = {_Line("rsa", number) for number in range(len(NAMES))}
        assert len(set(keys)) == len(NAMES) and not olds & set(keys), keys
        # On record are the names that the master knows, not those that the nodes give themselves.
        recorded = [ssh.KeyOfNode(key, name) for key, name in zip(keys, NAMES, strict=True)]
        for machine, key in zip(self.all, keys, strict=True):
            assert _Content(machine, ssh.UserKeyFiles(self.kind)[0]).strip() == f"private {key.split()[1][4:]}"
            assert sorted(_Content(machine, ssh.AuthorizedKeysFile()).splitlines()) == sorted(recorded[:CANDIDATES])
            known = machine.Call(ssh.ReadNodeKeys)
            assert known == {uuid: [key] for uuid, key in zip(UUIDS, recorded, strict=True)}
            assert not any(_Content(machine, path) for path in ssh.UserKeyFiles(self.kind, "_new"))


def _Line(kind: str, number: int) -> str:
    name = {"rsa": "ssh-rsa", "ecdsa": "ecdsa-sha2-nistp256"}[kind]
    return f"{name} AAAA{number} root"


def _Content(machine: Machine, path: str) -> str:
    """What a file holds; the disk is looked at, not the machine asked."""
    try:
        return bytes(machine.disk.FindFile(path).data).decode()
    except FileNotFoundError:
        return ""


def _Accepts(target: Machine, lines: list[str]) -> bool:
    accepted = _Content(target, ssh.AuthorizedKeysFile()).splitlines()
    return any(ssh.HasKey(line, accepted) for line in lines)


def _Usable(machine: Machine, *named: str) -> list[str]:
    """The keys that ssh would use: it offers what the public half says, if there is one, and signs with the private one."""
    lines = []
    for path in named or [ssh.UserKeyFiles(kind)[0] for kind in ("rsa", "ecdsa")]:
        private, public = (_Content(machine, half).strip() for half in (path, f"{path}.pub"))
        word, _, number = private.partition(" ")
        line = _Line("ecdsa" if "id_ecdsa" in path else "rsa", int(number)) if word == "private" and number else ""
        if line and public in ("", line):
            lines.append(line)
    return lines


def _Update(invocation: Invocation) -> int:
    """``ssh-update`` and what may come after it: ``&& cat A && { cat B 2>/dev/null || true; }``."""
    try:
        ssh_update.Work(serializer.Load(invocation.stdin), False)
    except errors.GenericError as err:
        invocation.Complain(f"{err}\n")
        return 1
    words = invocation.argv[1:]
    if words:
        assert words[:2] == ["&&", "cat"] and words[3:6] == ["&&", "{", "cat"]
        invocation.Print(runtime.ReadText(words[2]) + ssh.ReadIfThere(words[6]))
    return 0


def _Use(invocation: Invocation) -> int:
    """``rm -f A && mv -f B C && ... && sync D``; only the last one waits for the disk."""
    for command in " ".join(invocation.argv).split(" && "):
        program, *words = command.split()
        if program == "sync":
            side: Any = runtime.CurrentSide()
            side.machine.disk.SyncFolder(*words)
        elif program == "rm":
            runtime.RemoveFile(*words[1:])
        else:
            runtime.Rename(*words[1:], sync=False)
    return 0


def Disturbed(kind: str, cut: Cut, fails_over: bool) -> None:
    """Raise AssertionError if a disturbed run locks anybody out, or if another one, of another master, does not finish it."""
    scene = Scene(kind)
    try:
        happened = scene.Renew(cut)
        scene.Heal()
        scene.CheckNobodyIsLockedOut("afterwards")
        assert scene.broken == [], (scene.broken[0], happened.text)
        if happened.code == 0:
            scene.CheckRenewed()
        if fails_over:
            scene.FailOver()
        again = scene.Renew()
        assert again == (0, ""), (again.text, happened.text)
        scene.CheckRenewed()
        assert scene.broken == [], (scene.broken[0], happened.text)
    finally:
        scene.Close()


def _Steps(kind: str) -> list[str]:
    scene = Scene(kind)
    try:
        done = scene.Renew()
        assert done == (0, ""), done.text
        scene.CheckRenewed()
        return list(scene.steps)
    finally:
        scene.Close()


@pytest.mark.limit(300)
@pytest.mark.parametrize("kind", ["rsa", "ecdsa"])
def test_whatever_happens_at_any_step_nobody_is_locked_out_and_another_run_finishes(kind: str) -> None:
    steps = _Steps(kind)
    cases = itertools.product(cutting.Cuts(len(steps)), (False, True))
    cutting.Sweep(
        cases,
        SAMPLE,
        lambda case: Disturbed(kind, *case),
        lambda case: cutting.Told(steps, case[0]) + case[1] * ", then node2 is the master",
    )
