"""What stands in a pid file is a claim of its owner: root signals daemons only, whoever wrote the number."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import layout
from support.virtualnode import VirtualNode

# Users that every Debian has, in the place of gnt-confd and of another daemon's user.
CONFD, OTHER = "daemon", "bin"

UTIL = "import sys\nfrom ganeti.tools.daemon_util import Main\nsys.exit(Main())"
KILL = "import sys\nfrom ganeti.watcher import services\nservices._Kill(sys.argv[2])"
CALLERS = {"SIGHUP": (UTIL, "rotate-logs"), "SIGTERM": (UTIL, "stop"), "SIGKILL": (KILL, "kill")}

# Locks the file as a user, with a number in it: user, path, number.
HOLDER = """
import fcntl, os, sys, time
user, number = int(sys.argv[1]), sys.argv[3].encode()
handle = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT, 0o600)
os.fchown(handle, user, -1)
os.setgroups([])
os.setresuid(user, user, user)
fcntl.flock(handle, fcntl.LOCK_EX)
os.write(handle, number or b"%d" % os.getpid())
print("held", flush=True)
sys.stdin.read()
"""


class Scene:
    """A node, a process of root's that is nobody's business, and whoever holds a pid file."""

    def __init__(self, base: Path):
        self.node = VirtualNode(str(base))
        self.package = layout.MakePackage(str(base / "package"), CONFD_USER=CONFD)
        self.victim = subprocess.Popen(["sleep", "300"])
        self.holders: list[subprocess.Popen[str]] = []

    def PidFile(self, name: str) -> str:
        return self.node.Path(f"/var/run/ganeti/{name}.pid")

    def Hold(self, name: str, user: str, number: str) -> None:
        uid = str(pwd.getpwnam(user).pw_uid)
        argv = [sys.executable, "-c", HOLDER, uid, self.PidFile(name), number]
        holder = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.holders.append(holder)
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"

    def Call(self, caller: str, name: str) -> subprocess.CompletedProcess[str]:
        code, verb = CALLERS[caller]
        return self.node.Python(code, verb, name, PYTHONPATH=self.package)

    def End(self) -> None:
        for process in (*self.holders, self.victim):
            process.kill()
            process.communicate()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.End()


@pytest.mark.parametrize("caller", CALLERS)
def test_a_daemons_user_cannot_aim_at_a_process_of_roots(scene: Scene, caller: str) -> None:
    scene.Hold("ganeti-confd", CONFD, str(scene.victim.pid))
    scene.Call(caller, "ganeti-confd")
    assert scene.victim.poll() is None


@pytest.mark.parametrize("caller", CALLERS)
def test_the_pid_file_of_root_s_daemon_is_nobody_else_s_to_make(scene: Scene, caller: str) -> None:
    scene.Hold("ganeti-noded", OTHER, str(scene.victim.pid))
    scene.Call(caller, "ganeti-noded")
    assert scene.victim.poll() is None


@pytest.mark.parametrize("caller", CALLERS)
def test_a_process_of_the_right_user_that_is_another_program_is_left_alone(scene: Scene, caller: str) -> None:
    """The number may be old: the process that had it has ended, and somebody who lists files holds the lock."""
    scene.Hold("ganeti-noded", "root", str(scene.victim.pid))
    done = scene.Call(caller, "ganeti-noded")
    assert scene.victim.poll() is None
    assert f"names process {scene.victim.pid}, which is not ganeti-noded" in done.stderr
    assert done.returncode == (0 if caller == "SIGKILL" else 1)


def test_a_daemon_that_gave_up_root_is_known(scene: Scene) -> None:
    """Its directory in /proc belongs to root then."""
    scene.Hold("ganeti-confd", CONFD, "")
    look = "from ganeti.daemon import pidfile\nprint(pidfile.Running('ganeti-confd'))"
    assert scene.node.Python(look, PYTHONPATH=scene.package).stdout == f"{scene.holders[0].pid}\n"


def test_a_second_name_of_another_daemons_file_is_no_pid_file(scene: Scene) -> None:
    scene.Hold("ganeti-noded", "root", "")
    os.link(scene.PidFile("ganeti-noded"), scene.PidFile("ganeti-confd"))
    look = "from ganeti.daemon import pidfile\nprint(pidfile.Running('ganeti-confd'))"
    assert scene.node.Python(look, PYTHONPATH=scene.package).stdout == "None\n"


def test_a_daemon_replaces_a_strangers_pid_file(scene: Scene) -> None:
    scene.Hold("ganeti-noded", OTHER, str(scene.victim.pid))
    lock = (
        "from ganeti.daemon import pidfile\nlock = pidfile.Lock('ganeti-noded')\nprint(pidfile.Running('ganeti-noded'))"
    )
    done = scene.node.Python(lock, PYTHONPATH=scene.package)
    assert done.stdout.strip().isdigit(), done.stderr
