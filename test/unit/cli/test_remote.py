"""Commands that reach the nodes over SSH: what they run, and what they say when SSH fails."""

import os
import subprocess
import sys
import tempfile

import pytest
from support.fakemaster import FakeMaster
from support.stories import STARTER
from support.virtualnode import VirtualNode

MASTER = "node1.example.org"

# A stand-in for ssh and scp: keeps its arguments, fails for the reason in REASON if there is one.
PROGRAM = """#!/bin/sh
echo "$(basename "$0") $*" >> "$KEPT"
[ -z "$REASON" ] || { echo "$REASON" >&2; exit 255; }
echo done
"""


class Stage:
    """A master node whose ssh and scp are stand-ins."""

    def __init__(self, directory):
        self.node = VirtualNode(directory, MASTER)
        self.node.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.org\n")
        self.node.Write("/var/lib/ganeti/ssconf_master_node", MASTER + "\n")
        self.kept = os.path.join(directory, "kept")
        self.programs = os.path.join(directory, "bin")
        os.mkdir(self.programs)
        for name in ("ssh", "scp"):
            path = os.path.join(self.programs, name)
            with open(path, "w") as stream:
                stream.write(PROGRAM)
            os.chmod(path, 0o755)
        self.master = FakeMaster(self.node.Path("/var/run/ganeti/socket/ganeti-query"))

    def Run(self, *words, reason=""):
        environment = self.node.Environment(PATH=f"{self.programs}:{os.environ['PATH']}", KEPT=self.kept, REASON=reason)
        return subprocess.run(
            [sys.executable, "-c", STARTER, "gnt-cluster", *words], env=environment, cwd=self.node.root,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False, start_new_session=True,
        )  # fmt: skip

    def Kept(self):
        with open(self.kept, encoding="utf-8") as stream:
            return stream.read().splitlines()


@pytest.fixture
def stage():
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="gnt-") as directory:
        made = Stage(directory)
        yield made
        made.master.Shutdown()


@pytest.mark.req("D20-MD-02")
def test_command_runs_over_ssh_on_the_others_and_directly_on_the_master(stage):
    done = stage.Run("command", "echo", "here")
    assert (done.returncode, done.stderr) == (0, "")
    rule = "-" * 48
    assert done.stdout == (
        f"{rule}\nnode: node2.example.org\ndone\n\nreturn code = 0\n{rule}\nnode: {MASTER}\nhere\n\nreturn code = 0\n"
    )
    (line,) = stage.Kept()
    assert line.startswith("ssh ")
    assert line.endswith("echo here")
    assert stage.master.submitted == []


def test_command_shows_why_ssh_failed(stage):
    done = stage.Run("command", "-n", "node2.example.org", "true", reason="Host key verification failed.")
    assert done.returncode == 0
    assert "node: node2.example.org\nHost key verification failed.\n\nreturn code = 255\n" in done.stdout
    (line,) = stage.Kept()
    assert " -q " not in line  # it would hide the reason


@pytest.mark.req("D20-MD-02")
def test_copyfile_keeps_the_path_and_shows_why_it_failed(stage):
    stage.node.Write("/etc/motd", "hello")
    path = stage.node.Path("/etc/motd")
    done = stage.Run("copyfile", path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    (line,) = stage.Kept()
    other = path.replace(f"/{MASTER}/", "/node2.example.org/")
    assert line.startswith("scp -p ")
    assert line.endswith(f" {path} root@node2.example.org:{other}")
    done = stage.Run("copyfile", path, reason="Permission denied (publickey).")
    assert done.returncode == 0
    assert done.stderr == f"Copy of file {path} to node node2.example.org:22 failed: Permission denied (publickey).\n"


def test_copyfile_has_no_copies_to_make_outside_the_directory_of_a_virtual_node(stage):
    done = stage.Run("copyfile", "/etc/hostname")
    assert done.returncode == 1
    assert "'/etc/hostname' cannot be copied in a virtual cluster" in done.stderr
    assert not os.path.exists(stage.kept)
