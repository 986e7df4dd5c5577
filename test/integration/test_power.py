"""Power by the command line of a real cluster, over a program that stands in for the machines' controllers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from support.commandline import CommandLine, Done
from support.patience import MOST
from support.realcluster import RealCluster, WaitUntil
from support.stories import STARTER

from ganeti import pathutils

OS = "noop"
SECONDS = 300 * MOST

# What a controller does: it cuts a node's power, or lets it boot, which starts its daemon.  LOG has a line for each call:
# command, node, and how many guests run there.
PROGRAM = """#!{python}
import os, signal, subprocess, sys, time
base, fake, pid_file = {base!r}, {fake!r}, "/var/run/ganeti/ganeti-noded.pid"
command, node = sys.argv[1:]
def lives(pid):
    try:
        return open(f"/proc/{{pid}}/stat").read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
root = f"{{base}}/{{node}}"
guests = os.listdir(root + fake) if os.path.isdir(root + fake) else []
with open(f"{{base}}/log", "a") as stream:
    stream.write(f"{{command}} {{node}} {{len(guests)}}\\n")
if command != "power-status" and os.path.exists(f"{{base}}/{{node}}.hangs"):
    time.sleep(3000)
if os.path.exists(f"{{base}}/{{node}}.says"):
    print(open(f"{{base}}/{{node}}.says").read())
    sys.exit(int(os.path.exists(f"{{base}}/{{node}}.fails")))
if command == "power-status":
    print('{{"powered": true}}' if lives(open(root + pid_file).read().strip()) else '{{"powered": false}}')
elif command == "power-off":
    mark = f"GANETI_ROOTDIR={{root}}".encode()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{{pid}}/environ", "rb") as stream:
                mine = mark in stream.read().split(b"\\0")
            if mine:
                os.kill(int(pid), signal.SIGKILL)
                while lives(pid):
                    time.sleep(0.01)
        except OSError:
            pass
    for guest in guests:
        os.remove(f"{{root}}{{fake}}/{{guest}}")
elif command == "power-on" and not lives(open(root + pid_file).read().strip()):
    env = dict(os.environ, GANETI_ROOTDIR=root, GANETI_HOSTNAME=node)
    subprocess.run([{python!r}, "-c", {noded!r}, "-b", {addresses!r}[node], "--no-mlock"], env=env, check=True,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
"""


class Scene:
    """A cluster whose nodes have a controller, with instances; ``line`` is the command line of the master."""

    def __init__(self, cluster: RealCluster):
        self.cluster = cluster
        self.base = cluster.base
        cluster.MakeOs(OS)
        self.program = f"{self.base}/oob"
        with open(self.program, "w", encoding="utf-8") as stream:
            stream.write(
                PROGRAM.format(
                    python=sys.executable,
                    base=self.base,
                    fake=pathutils.FAKE_DIR.removeprefix(pathutils.ROOT_DIR),
                    noded=cluster[1].Program("ganeti-noded"),
                    addresses={node.name: node.address for node in cluster.nodes},
                )
            )
        os.chmod(self.program, 0o755)
        cluster.StartNodeDaemons()
        cluster[0].StartMaster()
        self.line = CommandLine(cluster[0])
        self.Must("gnt-cluster", "modify", f"--node-parameters=oob_program={self.program}")

    def Must(self, *argv: str) -> str:
        done = self.line.Run(*argv)
        assert done.code == 0, done.out + done.err
        return done.out

    def AddInstance(self, name: str, number: int, state: str = "up") -> None:
        node = self.cluster[number].name
        self.Must("gnt-instance", "add", "-t", "diskless", "-o", f"{OS}+default", "-n", node, "--no-nics", "--ignore-ipolicy",
                  "-B", "maxmem=128,minmem=128", name)  # fmt: skip
        assert self.Running()[name.partition(".")[0]] == "running"
        if state != "up":
            self.Must("gnt-instance", "shutdown", name)
        if state == "offline":
            self.Must("gnt-instance", "modify", "--offline", name)

    def Epo(self, *argv: str) -> Done:
        done = subprocess.run(**self._Words(argv), capture_output=True, timeout=SECONDS)
        return Done(done.returncode, done.stdout, done.stderr)

    def BeginEpo(self, *argv: str) -> subprocess.Popen[str]:
        return subprocess.Popen(**self._Words(argv), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _Words(self, argv: tuple[str, ...]) -> dict[str, Any]:
        return {
            "args": [sys.executable, "-c", STARTER, "gnt-cluster", "epo", "-f", *argv],
            "env": self.cluster[0].Environment(TZ="UTC"), "stdin": subprocess.DEVNULL, "text": True,
            "start_new_session": True,
        }  # fmt: skip

    def Calls(self) -> list[str]:
        """Returns what the controllers did; that they were asked for the state is left out."""
        try:
            with open(f"{self.base}/log", encoding="utf-8") as stream:
                calls = [line.replace(".example.com", "").strip() for line in stream]
        except FileNotFoundError:
            return []
        return [call for call in calls if not call.startswith("power-status")]

    def Mark(self, number: int, what: str, text: str = "") -> str:
        """Lets the controller of a node hang when it should do something, say something, or fail."""
        path = f"{self.base}/{self.cluster[number].name}.{what}"
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def Powered(self) -> list[str]:
        return self.Must("gnt-node", "list", "--no-headers", "-o", "powered").split()

    def Running(self) -> dict[str, str]:
        """Instance -> its status."""
        out = self.Must("gnt-instance", "list", "--no-headers", "--separator= ", "-o", "name,status")
        return {name.partition(".")[0]: status for name, status in map(str.split, out.splitlines())}

    def WatcherPaused(self) -> bool:
        return "is paused until" in self.Must("gnt-cluster", "watcher", "info")


def _Scene(candidates: int) -> Iterator[Scene]:
    with RealCluster(3, candidates) as cluster:
        made = Scene(cluster)
        yield made
        made.line.Close()


@pytest.fixture
def voters() -> Iterator[Scene]:
    """All three nodes are candidates: without the other two the master daemon takes in no job."""
    yield from _Scene(3)


@pytest.fixture
def scene() -> Iterator[Scene]:
    """Only the master is a candidate."""
    yield from _Scene(1)


def test_the_whole_cluster_goes_off_and_comes_back(voters: Scene) -> None:
    for name, number, state in (
        ("web1", 1, "up"),
        ("web2", 2, "up"),
        ("web3", 0, "up"),
        ("old", 1, "down"),
        ("idle", 2, "offline"),
    ):
        voters.AddInstance(f"{name}.example.com", number, state)
    done = voters.Epo("--all")
    assert done.code == 0, done.out + done.err
    assert voters.Calls() == ["power-off node2 0", "power-off node3 0"], "no guest ran any more"
    assert "Too few master candidates are left to record the end of job" in done.out
    assert f"'{voters.program} power-off node1.example.com' switches it off" in done.out
    assert "idle" not in done.out, "it is offline and cannot be stopped"
    assert voters.WatcherPaused(), "web3 was stopped, and its node is on"
    assert f"{voters.program} power-on node2.example.com\n" in done.out and "Do not use --no-voting" in done.out
    done = voters.Epo("--all")
    assert done.code == 1 and len(voters.Calls()) == 2, "the instances of the master cannot be stopped without a job"
    done = voters.Epo("--on")
    assert done.code == 0, done.out + done.err
    assert "switching some on from here" in done.out and "Node node3.example.com became available" in done.out
    assert voters.Calls()[2:4] == ["power-on node2 0", "power-on node3 0"]
    assert voters.Powered() == ["Y"] * 3 and not voters.WatcherPaused()
    assert voters.Running() == {
        "web1": "running", "web2": "running", "web3": "running", "old": "ADMIN_down", "idle": "ADMIN_offline",
    }  # fmt: skip


def test_an_interrupted_epo_is_run_again(scene: Scene) -> None:
    scene.AddInstance("web1.example.com", 1)
    scene.AddInstance("web2.example.com", 2)
    hangs = scene.Mark(2, "hangs")
    nodes = [node.name for node in scene.cluster.nodes[1:]]
    begun = scene.BeginEpo("--oob-timeout=10", *nodes)
    WaitUntil(lambda: len(scene.Calls()) == 2, "both controllers were asked", 120)
    begun.send_signal(signal.SIGINT)
    begun.communicate(timeout=SECONDS)
    assert begun.returncode == 1 and scene.WatcherPaused()
    # The job goes on, and gives the second node up.
    WaitUntil(lambda: scene.Powered() == ["Y", "N", "Y"], "the record of the node that stays on is right again", 60)
    os.remove(hangs)
    done = scene.Epo(*nodes)
    assert done.code == 0, done.out + done.err
    assert "Node node2.example.com is already in desired power state, skipping" in done.out
    assert "web1" not in done.out, "its node is off"
    assert scene.Calls() == ["power-off node2 0", "power-off node3 0", "power-off node3 0"]
    assert scene.Powered() == ["Y", "N", "N"]
    done = scene.Epo("--on", *nodes)
    assert done.code == 0, done.out + done.err
    assert scene.Running() == {"web1": "running", "web2": "running"} and scene.Powered() == ["Y"] * 3


def test_no_node_goes_off_while_an_instance_may_run(scene: Scene) -> None:
    """The node does not answer, but its controller says that it is on; then that it is off."""
    scene.AddInstance("web1.example.com", 1)
    scene.AddInstance("web2.example.com", 2)
    nodes = [node.name for node in scene.cluster.nodes[1:]]
    scene.cluster.CutPower(scene.cluster[2])
    scene.Mark(2, "says", '{"powered": true}')
    done = scene.Epo(*nodes)
    assert done.code == 1, done.out + done.err
    assert "1 error(s) out of 2 instance(s)" in done.err and "stop instances manually before continuing" in done.err
    assert "The watcher is paused until" in done.err and scene.WatcherPaused()
    assert not [call for call in scene.Calls() if call.startswith("power-off")]
    scene.Mark(2, "says", '{"powered": false}')
    done = scene.Epo(*nodes)
    assert "Node node3.example.com is off, so its instances do not run" in done.out
    # What was cut off without a controller left its guest's record behind.
    assert [call for call in scene.Calls() if call.startswith("power-off")] == [
        "power-off node2 0",
        "power-off node3 1",
    ]
    # What the controller prints for power-off is no answer to that.
    assert done.code == 1 and "There was a problem changing power for node3.example.com" in done.err
    assert scene.Powered() == ["Y", "N", "Y"]


def test_power_of_one_node(scene: Scene) -> None:
    name = scene.cluster[1].name
    done = scene.line.Run("gnt-node", "power", "-f", "--ignore-status", "off", scene.cluster[0].name)
    assert done.code == 1 and f"run '{scene.program} power-off {scene.cluster[0].name}' if you want" in done.err
    out = scene.Must("gnt-node", "power", "-f", "off", name)
    assert "invoked" in out and scene.Must(
        "gnt-node", "list", "--no-headers", "-o", "powered,offline", name
    ).split() == ["N", "Y"]
    done = scene.line.Run("gnt-node", "modify", "-f", "--offline=no", name)
    assert done.code == 1 and "needs to be turned on before" in done.err
    assert "invoked" in scene.Must("gnt-node", "power", "on", name)
    scene.Must("gnt-node", "modify", "-f", "--offline=no", name)
    assert scene.Powered() == ["Y"] * 3


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("<html>busy</html>", "did not print valid JSON (it printed: <html>busy</html>)"),
        ("x" * 3_000_000, "printed more than 64 KiB"),
        ('{"powered": "yes"}', 'it should have printed {"powered": true} or {"powered": false}'),
    ],
    ids=["rubbish", "megabytes", "shape"],
)
def test_a_controller_that_is_no_use_is_named(scene: Scene, said: str, words: str) -> None:
    scene.Mark(1, "says", said)
    done = scene.line.Run("gnt-node", "power", "status", scene.cluster[1].name)
    assert done.code == 1 and "(nodata)" in done.out
    assert words.replace("is not valid JSON, and", "something that is not valid JSON, and") in done.out
    assert f"{scene.program} power-status {scene.cluster[1].name}" in done.out
    assert len(done.out) < 4000


def test_a_program_that_is_missing_is_named_by_power_and_by_verify(scene: Scene) -> None:
    os.remove(scene.program)
    done = scene.line.Run("gnt-node", "health")
    assert done.code == 1 and done.out.count("(nodata)") == 3
    assert f"Out-of-band program '{scene.program}' of node node2.example.com cannot be run: No such file" in done.out
    done = scene.line.Run("gnt-cluster", "verify", "--error-codes")
    assert "ENODEOOBPATH" in done.out and f"{scene.program}: No such file or directory" in done.out
