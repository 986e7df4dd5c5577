"""Commands on the master while its daemon is away, or stands still."""

import os
import re
import signal
import subprocess
import sys
import tempfile

import pytest
from support.fakemaster import FakeMaster
from support.stories import STARTER
from support.virtualnode import TOP, VirtualNode

MASTER = "node1.example.org"
SOCKET = "/var/run/ganeti/socket/ganeti-query"


@pytest.fixture
def node():
    # The path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="gnt-") as directory:
        made = VirtualNode(directory, MASTER)
        made.Write("/var/lib/ganeti/ssconf_cluster_name", "cluster.example.org\n")
        made.Write("/var/lib/ganeti/ssconf_master_node", MASTER + "\n")
        yield made


def _Start(node, *words):
    return subprocess.Popen(
        [sys.executable, "-c", STARTER, *words], env=node.Environment(), cwd=node.root, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip


def _StartHtool(node, program, *words):
    return subprocess.Popen(
        [os.path.join(TOP, "scripts", program), *words], env=node.Environment(), cwd=node.root, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_a_command_says_at_once_that_it_waits_for_the_daemon(node):
    process = _Start(node, "gnt-cluster", "getmaster")
    out, err = process.communicate(timeout=50)  # needs no daemon, but a node that was replaced names itself
    assert (process.returncode, out) == (0, f"{MASTER}\n")
    assert err.startswith("Warning: no master daemon runs here.")
    process = _Start(node, "gnt-job", "list")
    # The line is there while the command still waits: the daemon comes up afterwards.
    assert re.fullmatch(
        r"The master daemon does not answer; trying again until \d\d:\d\d:\d\d \(Ctrl-C to stop\)\n",
        process.stderr.readline(),
    )
    assert process.poll() is None
    master = FakeMaster(node.Path(SOCKET))
    try:
        out, err = process.communicate(timeout=50)
        assert _Start(node, "gnt-cluster", "getmaster").communicate(timeout=50) == (f"{MASTER}\n", "")
    finally:
        master.Shutdown()
    assert (process.returncode, err) == (0, "")
    assert out.startswith("ID Status")


STANDING = """
import sys
from support.fakemaster import FakeMaster
master = FakeMaster(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
master.Shutdown()
"""


@pytest.mark.slow
@pytest.mark.parametrize("words", [("gnt-job", "list"), ("hinfo", "-L")])
def test_a_command_says_that_a_daemon_does_not_answer(node, words):
    master = subprocess.Popen(
        [sys.executable, "-c", STANDING, node.Path(SOCKET)], cwd=os.path.join(TOP, "test"),
        env={**os.environ, "PYTHONPATH": f"{TOP}:{TOP}/test"}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with master:
        try:
            assert master.stdout.readline() == "ready\n"
            master.send_signal(signal.SIGSTOP)
            process = _Start(node, *words) if words[0].startswith("gnt-") else _StartHtool(node, *words)
            assert re.fullmatch(
                r"The master daemon has not answered for 10 seconds and is still waited for \(Ctrl-C to stop\);"
                r" \S+/master-daemon\.log may say why, but not while its process is stopped\n",
                process.stderr.readline(),
            )
            assert process.poll() is None
            master.send_signal(signal.SIGCONT)
            out, err = process.communicate(timeout=50)
            if words[0] == "gnt-job":
                assert (process.returncode, err) == (0, "")
                assert out.startswith("ID Status")
        finally:
            master.send_signal(signal.SIGCONT)
            master.communicate("end\n", timeout=50)


@pytest.mark.parametrize("words", [("hinfo", "-L"), ("harep",), ("hscan",)])
def test_the_htools_say_so_in_the_same_words(node, words):
    with _StartHtool(node, *words) as process:
        line = process.stderr.readline()
        assert process.poll() is None, "it waits"
        process.kill()
    assert re.fullmatch(r"The master daemon does not answer; trying again until [0-9:]{8} \(Ctrl-C to stop\)\n", line)


def test_waiting_is_announced_once(node):
    code = """
from ganeti.luxi import client, protocol
class Patient(client.Client):
    def Retrying(self, seconds):
        print("told", 1 < seconds <= 2.5)
try:
    Patient(connect_timeout=2.5, retry_delays=()).QueryClusterInfo()
except protocol.NoMasterError:
    print("ended")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=node.Environment(), cwd=node.root, capture_output=True, text=True, timeout=50,
        check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("told True\nended\n", "")


def test_on_other_nodes_nobody_waits(node):
    node.Write("/var/lib/ganeti/ssconf_master_node", "node2.example.org\n")
    process = _Start(node, "gnt-job", "list")
    _, err = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "trying again" not in err
    assert "This is not the master node, please connect to node 'node2.example.org'" in err
