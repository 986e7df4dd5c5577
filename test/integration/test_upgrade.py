"""gnt-cluster upgrade on real daemons: links, daemons, the record of the change (doc/reference/cli.md 9.9).

Both releases are this one: what is switched are links in each node's directory.  In the last stories they are
installed, with versions of their own, and what runs is what the links lead to.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import layout
from support.original import SSH, WriteProgram
from support.patience import MOST
from support.realcluster import FollowJob, RealCluster, RealNode
from support.stories import STARTER

from ganeti import _autoconf
from ganeti.pathutils import DAEMON_UTIL

LIB, SHARE = _autoconf.PKGLIB_DIR, _autoconf.SHARE_DIR
INTENT = "/var/lib/ganeti/intent-to-upgrade"
NEW = "3.1.7"


class Scene(RealCluster):
    """Three nodes with two releases each."""

    count = 3

    def __init__(self) -> None:
        super().__init__(self.count)
        WriteProgram(os.path.join(self.base, "bin", "ssh"), SSH % self.base)
        for node in self.nodes:
            args = f'RAPI_ARGS="-b {node.address}"\nCONFD_ARGS="-b {node.address}"\n'
            node.Write("/etc/default/ganeti", f'NODED_ARGS="-b {node.address} --no-mlock"\n{args}')
        self.MakeReleases()
        self.StartNodeDaemons()
        self[0].StartMaster()

    def MakeReleases(self) -> None:
        for node in self.nodes:
            for version in ("3.1.0", NEW):
                os.makedirs(node.Path(f"{LIB}/{version}"))
                os.makedirs(node.Path(f"{SHARE}/{version}"))
            os.symlink(node.Path(f"{LIB}/3.1.0"), node.Path("/etc/ganeti/lib"))
            os.symlink(node.Path(f"{SHARE}/3.1.0"), node.Path("/etc/ganeti/share"))

    def Program(self, name: str) -> list[str]:
        return [sys.executable, "-c", STARTER, name]

    def _Start(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        environment = self[0].Environment(PATH=f"{self.base}/bin:{os.environ['PATH']}")
        return subprocess.Popen(
            [*self.Program("gnt-cluster"), "upgrade", *words], env=environment, cwd=self[0].root,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def Upgrade(self, *words: str) -> tuple[int, str]:
        with self._Start(words) as running:
            text, _ = running.communicate(timeout=280 * MOST)
            return running.returncode, text

    def Cut(self, line: str, *words: str) -> None:
        """Kill the command when it says this."""
        with self._Start(words) as running:
            assert running.stdout is not None
            assert any(text.startswith(line) for text in running.stdout)
            running.send_signal(signal.SIGKILL)

    def Links(self) -> set[str]:
        return {self.Link(node, "lib") for node in self.nodes}

    @staticmethod
    def Link(node: RealNode, name: str) -> str:
        """The release that a link of a node leads to."""
        return os.path.basename(os.readlink(node.Path(f"/etc/ganeti/{name}")))

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
        for node in scene.nodes:
            os.makedirs(node.Path(f"{LIB}/3.1.8"))
        for words, problem in (
            ((), "Give either --to or --resume"),
            (("--to", "3.1.7", "--resume"), "Give either --to or --resume"),
            (("--to", "three"), "Could not parse version string three"),
            (("--to", "4.0"), "Cannot upgrade to 4.0: only releases of major version 3"),
            (("--to", "3.1.9"), "it is not installed everywhere"),
            (("--to", "3.1.8"), f"{SHARE}/3.1.8' failed"),
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
        link = scene[0].Path("/etc/ganeti/lib")
        assert f"Remove the cause, then run 'ln -sfn {scene[0].Path(LIB)}/3.1.0 {link}' and" in text
        assert {scene.Link(scene[number], name) for number in (0, 1) for name in ("lib", "share")} == {"3.1.0"}
        scene.Works()


@pytest.mark.limit(300)
def test_a_node_that_is_lost_on_the_way_does_not_keep_the_master_from_starting_again() -> None:
    """It cannot be reached when its daemons are to be stopped, nor when they are to be started again."""
    with Scene() as scene:
        with scene._Start(("--to", NEW)) as running:
            assert running.stdout is not None
            assert any(line.startswith("Draining") for line in running.stdout)
            Path(scene.base, f"unreachable-{scene[2].name}").touch()
            text = running.stdout.read()
        assert running.returncode == 1
        assert "no route to host" in text
        assert f"then run '{DAEMON_UTIL} start-all' on these nodes" in text
        scene.Works()


@pytest.mark.limit(300)
def test_a_resumed_change_that_fails_leaves_the_queue_as_it_found_it_and_says_so() -> None:
    """What the interrupted run drained looks as if people had; a queue that silently takes no jobs would be a riddle."""
    with Scene() as scene:
        scene.Cut("Stopping the daemons", "--to", NEW)
        os.rename(scene[2].Path("/etc/ganeti"), scene[2].Path("/etc/away"))
        code, text = scene.Upgrade("--resume")
        assert code == 1
        assert "stays drained; to allow jobs, run 'gnt-cluster queue undrain'" in text
        with scene[0].Client() as client:
            assert client.QueryConfigValues(["drain_flag"]) == [True]


# --- two releases that are installed ------------------------------------------------------------------------------------

# What a link through /etc/ganeti/lib is on a machine of its own.
LINK = """#!/bin/sh
exec "$GANETI_ROOTDIR/etc/ganeti/lib/%s" "$@"
"""
# In the place of the newer release's own.
RECORDER = """#!/bin/sh
echo "$@" >> %s
exit 3
"""


class InstalledNode(RealNode):
    """Its daemons are started by the release that its links lead to."""

    def Start(self, daemon: str, *options: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        program = os.path.join(os.path.dirname(self.root), "programs", "daemon-util")
        done = self.Run([program, "start", daemon], timeout=100, **more)
        assert done.returncode == 0 or not check, f"{daemon}: {done.stderr}\n{self.Log(daemon)}"
        return done


class Installed(Scene):
    """Two releases, side by side in the base directory (doc/packaging.rst)."""

    node_class = InstalledNode
    count = 2

    def MakeReleases(self) -> None:
        self.programs = os.path.join(self.base, "programs")
        releases = {version: self._Install(version) for version in ("3.1.0", NEW)}
        for name in os.listdir(releases[NEW]):
            WriteProgram(os.path.join(self.programs, name), LINK % name)
        self.recorded = os.path.join(self.base, "post-upgrade.recorded")
        WriteProgram(os.path.join(releases[NEW], "post-upgrade"), RECORDER % self.recorded)
        for node in self.nodes:
            os.makedirs(node.Path(self.programs))
            for version, release in releases.items():
                os.symlink(release, node.Path(f"{self.programs}/{version}"))
            os.makedirs(node.Path("/etc/ganeti"), exist_ok=True)
            os.symlink(node.Path(f"{self.programs}/3.1.0"), node.Path("/etc/ganeti/lib"))

    def _Install(self, version: str) -> str:
        """This release under a version of its own; returns the directory that the links lead to."""
        release = os.path.join(self.base, "releases", version)
        places = dict.fromkeys(("SBIN_DIR", "DAEMON_DIR", "PKGLIB_DIR", "TOOLS_DIR"), self.programs)
        package = layout.MakePackage(os.path.join(self.base, "python", version), **places)
        path = os.path.join(package, "ganeti", "constants.py")
        text = Path(path).read_text(encoding="utf-8")
        os.unlink(path)
        Path(path).write_text(
            text.replace('RELEASE_VERSION = "3.1.0"', f'RELEASE_VERSION = "{version}"'), encoding="utf-8"
        )
        layout.InstallPrograms(release, package)
        return release

    def Program(self, name: str) -> list[str]:
        return [os.path.join(self.programs, name)]

    def Version(self) -> str:
        """What the master daemon says."""
        said = self[0].Run([*self.Program("gnt-cluster"), "version"]).stdout
        return said.splitlines()[0].removeprefix("Software version: ")


@pytest.mark.limit(600)
def test_two_releases_side_by_side_there_and_back() -> None:
    with Installed() as scene:
        assert scene.Version() == "3.1.0"
        code, text = scene.Upgrade("--to", NEW)
        assert scene.Links() == {NEW} and scene.Version() == NEW, text
        verified = scene[0].Run([*scene.Program("gnt-cluster"), "verify", "--error-codes"], timeout=100)
        assert "Verifying node status" in verified.stdout and "ENODEVERSION" not in verified.stdout
        # The newer release's own program was asked what the older one lacked; what it cannot do is left to people.
        assert code == 1 and Path(scene.recorded).read_text(encoding="utf-8") == "3.1.0\n"
        assert f"Remove the cause, then run '{scene.programs}/post-upgrade 3.1.0'" in text
        scene.Works()
        # Back; whoever resumes it is of the release that the links lead to by then.
        scene.Cut("Starting the daemons of all nodes", "--to", "3.1.0")
        assert scene.Links() == {"3.1.0"}
        scene.Upgrade("--resume")
        assert scene.Version() == "3.1.0"
        scene.Works()
