"""Commands that reach the nodes over SSH: what they run, and what they say when SSH fails."""

import os
import signal
import tempfile
import time

import pytest
from support.sshstandin import MASTER, Stage


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


@pytest.mark.parametrize(
    ("words", "match"),
    [
        (["-n", "node2.example.org,nix"], "Node name node2.example.org,nix not found"),
        (["-n", "node2.example.org", "-n", "nix"], "Node name nix not found"),
        (["-g", "elsewhere"], "NodeGroup name elsewhere not found"),
    ],
)
def test_an_unknown_node_or_group_ends_it_before_anything_is_done(stage, words, match):
    stage.node.Write("/etc/motd", "hello")
    for command in (["copyfile", *words, stage.node.Path("/etc/motd")], ["command", *words, "true"]):
        done = stage.Run(*command)
        assert (done.returncode, done.stdout) == (1, "") and match in done.stderr, command
    assert not os.path.exists(stage.kept)


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
