"""gnt-cluster upgrade on real daemons: links, daemons, the record of the change (doc/reference/cli.md 9.9).

Both releases are this one: what is switched are links in each node's directory.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.original import SSH, WriteProgram
from support.realcluster import FollowJob, RealCluster
from support.stories import STARTER

from ganeti import _autoconf

LIB = _autoconf.PKGLIB_DIR
INTENT = "/var/lib/ganeti/intent-to-upgrade"
NEW = "3.1.7"


class Scene(RealCluster):
    """Three nodes with two releases each."""

    def __init__(self) -> None:
        super().__init__(3)
        WriteProgram(os.path.join(self.base, "bin", "ssh"), SSH % self.base)
        for node in self.nodes:
            args = f'RAPI_ARGS="-b {node.address}"\nCONFD_ARGS="-b {node.address}"\n'
            node.Write("/etc/default/ganeti", f'NODED_ARGS="-b {node.address} --no-mlock"\n{args}')
            for version in ("3.1.0", NEW):
                os.makedirs(node.Path(f"{LIB}/{version}"))
            os.symlink(node.Path(f"{LIB}/3.1.0"), node.Path("/etc/ganeti/lib"))
        self.StartNodeDaemons()
        self[0].StartMaster()

    def _Start(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        environment = self[0].Environment(PATH=f"{self.base}/bin:{os.environ['PATH']}")
        return subprocess.Popen(
            [sys.executable, "-c", STARTER, "gnt-cluster", "upgrade", *words], env=environment, cwd=self[0].root,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def Upgrade(self, *words: str) -> tuple[int, str]:
        with self._Start(words) as running:
            text, _ = running.communicate(timeout=150)
            return running.returncode, text

    def Cut(self, line: str, *words: str) -> None:
        """Kill the command when it says this."""
        with self._Start(words) as running:
            assert running.stdout is not None
            assert any(text.startswith(line) for text in running.stdout)
            running.send_signal(signal.SIGKILL)

    def Links(self) -> set[str]:
        return {os.path.basename(os.readlink(node.Path("/etc/ganeti/lib"))) for node in self.nodes}

    def Works(self) -> None:
        """All daemons run, jobs can be submitted, the watcher is not paused, and nothing is recorded."""
        assert all(node.Pid("ganeti-noded") for node in self.nodes)
        with self[0].Client() as client:
            delay = {"OP_ID": "OP_TEST_DELAY", "duration": 0.0, "on_nodes": [n.name for n in self.nodes], "reason": []}
            assert FollowJob(client, client.SubmitJob([delay]))[0] == "success"
            assert client.QueryConfigValues(["watcher_pause", "drain_flag"]) == [None, False]
        assert not os.path.exists(self[0].Path(INTENT))


@pytest.mark.limit(300)
def test_forward_and_what_stands_in_the_way() -> None:
    with Scene() as scene:
        for words, problem in (
            ((), "Give either --to or --resume"),
            (("--to", "3.1.7", "--resume"), "Give either --to or --resume"),
            (("--to", "three"), "Could not parse version string three"),
            (("--to", "4.0"), "Cannot upgrade to 4.0: releases of major version 3"),
            (("--to", "3.1.9"), "it is not installed everywhere"),
        ):
            code, text = scene.Upgrade(*words)
            assert code == 1
            assert problem in text
        assert scene.Upgrade("--resume") == (0, "")
        code, text = scene.Upgrade("--to", NEW)
        assert "Verifying the cluster" in text
        assert "Starting the daemons of all nodes again" in text
        assert scene.Links() == {NEW}
        scene.Works()
        (copy,) = Path(scene[0].Path("/var/backups")).glob("ganeti*.tar")
        assert copy.stat().st_mode & 0o777 == 0o600


@pytest.mark.limit(300)
@pytest.mark.parametrize("line", ["Draining", "Stopping the daemons", "Switching", "Starting the daemons of all nodes"])
def test_interrupted_and_resumed(line: str) -> None:
    with Scene() as scene:
        scene.Cut(line, "--to", NEW)
        assert scene[0].Read(INTENT).startswith(f"3.1.0,{NEW},")
        code, text = scene.Upgrade("--to", "3.1.0")
        assert code == 1
        assert f"A change to {NEW} has begun" in text
        scene.Upgrade("--resume")
        assert scene.Links() == {NEW}
        scene.Works()


@pytest.mark.limit(300)
def test_a_failure_before_the_switch_is_taken_back() -> None:
    """A node is lost when its link is to be changed."""
    with Scene() as scene:
        os.unlink(scene[2].Path("/etc/ganeti/lib"))
        os.makedirs(scene[2].Path("/etc/ganeti/lib/in-the-way"))
        os.chmod(scene[2].Path("/etc/ganeti/lib"), 0o555)
        os.rename(scene[2].Path("/etc/ganeti"), scene[2].Path("/etc/away"))
        code, text = scene.Upgrade("--to", NEW)
        assert code == 1
        assert "node3.example.com" in text
        assert "Switching all nodes back" in text
        assert os.path.basename(os.readlink(scene[0].Path("/etc/ganeti/lib"))) == "3.1.0"
        assert os.path.basename(os.readlink(scene[1].Path("/etc/ganeti/lib"))) == "3.1.0"
        scene.Works()
