"""Commands that reach the nodes over SSH: what they run, and what they say when SSH fails."""

import os
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from support.fakemaster import FakeMaster
from support.stories import STARTER
from support.virtualnode import VirtualNode

MASTER = "node1.example.org"

# A stand-in for ssh and scp: keeps its arguments, fails for the reason in REASON if there is one.
PROGRAM = """#!/bin/sh
echo "${0##*/} $*" >> "$KEPT"
[ -z "$REASON" ] || { echo "$REASON" >&2; exit 255; }
for word; do case "$word" in
  *@node13.*) echo pid $$ >> "$KEPT"; [ -z "$HANGS" ] || { sleep 3000 & echo pid $! >> "$KEPT"; wait; } ;;
  *@node14.*) [ -z "$HANGS" ] || exit 3 ;;
esac; done
[ -z "$SECONDS_EACH" ] || sleep "$SECONDS_EACH"
[ -z "$GATE" ] || : < "$GATE"
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

    def _Start(self, words, **more):
        environment = self.node.Environment(PATH=f"{self.programs}:{os.environ['PATH']}", KEPT=self.kept, **more)
        return {
            "args": [sys.executable, "-c", STARTER, "gnt-cluster", *words], "env": environment, "cwd": self.node.root,
            "stdin": subprocess.DEVNULL, "text": True, "start_new_session": True,
        }  # fmt: skip

    def Run(self, *words, reason="", **more):
        return subprocess.run(
            **self._Start(words, REASON=reason, **more), capture_output=True, timeout=100, check=False
        )

    def Begin(self, *words, **more):
        """The same, running."""
        return subprocess.Popen(**self._Start(words, REASON="", **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def AddNodes(self, count):
        """So that there are this many besides the master: node2 to node N."""
        snapshot = self.master.snapshot
        template = next(node for node in snapshot.nodes.values() if node.name != MASTER)
        for number in range(3, count + 2):
            node = template.Replace(
                uuid=f"{number:08}-aaaa-4bbb-8ccc-000000000099", name=f"node{number}.example.org",
                primary_ip=f"192.0.2.{100 + number}", secondary_ip=f"198.51.100.{100 + number}",
            )  # fmt: skip
            snapshot = snapshot.WithObject(node)
        self.master.snapshot = snapshot

    def Pids(self):
        return [int(line.split()[1]) for line in self.Kept() if line.startswith("pid ")]

    def WaitCalls(self, number, pids=0):
        """Until so many programs have been started, and those of node13 have told their numbers."""
        deadline = time.monotonic() + 60
        while not os.path.exists(self.kept) or len(self.Kept()) - len(self.Pids()) < number or len(self.Pids()) < pids:
            assert time.monotonic() < deadline
            time.sleep(0.02)

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
    assert "-oServerAliveInterval=" in line  # a machine that dies meanwhile is noticed
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


def test_the_nodes_of_one_group_over_their_replication_network(stage):
    stage.node.Write("/etc/motd", "hello")
    path = stage.node.Path("/etc/motd")
    assert stage.Run("copyfile", "-g", "default", "--use-replication-network", path).returncode == 0
    (line,) = stage.Kept()
    (second,) = [node for node in stage.master.snapshot.nodes.values() if node.name == "node2.example.org"]
    assert f" root@{second.secondary_ip}:" in line and second.secondary_ip != second.primary_ip
    done = stage.Run("command", "-g", "elsewhere", "true")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("Note: no nodes selected: node group 'elsewhere' does not exist")


def test_copyfile_has_no_copies_to_make_outside_the_directory_of_a_virtual_node(stage):
    done = stage.Run("copyfile", "/etc/hostname")
    assert done.returncode == 1
    assert "'/etc/hostname' cannot be copied in a virtual cluster" in done.stderr
    assert not os.path.exists(stage.kept)


@pytest.mark.slow
def test_forty_nodes_take_hardly_longer_than_one(stage):
    """The number of the issue: none of them ends before all are being asked."""
    stage.AddNodes(40)
    gate = stage.kept + ".gate"
    os.mkfifo(gate)
    begun = stage.Begin("command", "-M", "true", GATE=gate)
    stage.WaitCalls(40)
    with open(gate, "wb"):  # lets in whoever stands there, and whoever still comes
        stdout, stderr = begun.communicate(timeout=60)
    lines = stdout.splitlines()
    assert [line for line in lines if line.endswith(": done")] == [
        f"node{number}.example.org: done" for number in range(2, 42)
    ], "in the order of the names"
    assert lines.count("return code = 0") == 41 and lines[-2:] == ["-" * 48, "return code = 0"]
    assert (begun.returncode, stderr) == (0, "")


# The one that hangs, the one that fails and one that is well: few, so that those that do not hang end in time on any machine.
LAST_NODES = [f"--node=node{number}.example.org" for number in (12, 13, 14)]


def test_a_node_that_hangs_is_given_up_and_named(stage):
    stage.AddNodes(14)
    started = time.monotonic()
    done = stage.Run("command", *LAST_NODES, "--timeout=5", "--failure-only", "uptime", HANGS="yes")
    assert time.monotonic() - started < 60
    rule = "-" * 48
    assert done.stdout == (
        f"{rule}\nnode: node13.example.org\n(ended after 5 seconds without a result)\n\nreturn code = signal 15\n"
        f"{rule}\nnode: node14.example.org\n\nreturn code = 3\n"
    )
    assert done.stderr == (
        "2 of 3 nodes failed: node13.example.org (gave no result within 5 seconds), node14.example.org (return code 3)\n"
    )
    assert done.returncode == 0
    assert len(stage.Pids()) == 2 and not any(map(_Lives, stage.Pids())), "what the program had started is gone as well"


def test_copies_go_side_by_side_and_failures_are_summed_up(stage):
    stage.AddNodes(14)
    stage.node.Write("/etc/motd", "hello")
    path = stage.node.Path("/etc/motd")
    done = stage.Run("copyfile", *LAST_NODES, "--timeout=5", path, HANGS="yes")
    assert done.stderr == (
        f"Copy of file {path} to node node13.example.org:22 failed: gave no result within 5 seconds\n"
        f"Copy of file {path} to node node14.example.org:22 failed: return code 3\n"
        "2 of 3 nodes failed: node13.example.org (gave no result within 5 seconds), node14.example.org (return code 3)\n"
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert len([line for line in stage.Kept() if line.startswith("scp ")]) == 3


def test_nothing_stays_behind_when_the_user_interrupts(stage):
    stage.AddNodes(14)
    begun = stage.Begin("command", "uptime", HANGS="yes", SECONDS_EACH="3000")
    stage.WaitCalls(14, pids=2)
    begun.send_signal(signal.SIGINT)
    stdout, stderr = begun.communicate(timeout=60)
    assert begun.returncode == 1 and stdout == "" and "Aborted" in stderr
    assert not any(map(_Lives, stage.Pids()))


@pytest.mark.parametrize("seconds", ["0", "-1", "86401"])
def test_the_time_for_a_node_has_limits(stage, seconds):
    done = stage.Run("command", f"--timeout={seconds}", "true")
    assert done.returncode == 1 and "1 to 86400 seconds" in done.stderr
    assert not os.path.exists(stage.kept)


def _Lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stream:
            return stream.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
