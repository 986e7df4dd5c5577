"""Restricted commands from the command line to the nodes: what runs, what does not, and who is told why."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from support.commandline import CommandLine
from support.realcluster import RealCluster, RealNode

DIRECTORY = "/etc/ganeti/restricted-commands"
_BUILT = "from ganeti import _autoconf; _autoconf.ENABLE_RESTRICTED_COMMANDS = True; "


class _EnabledNode(RealNode):
    """Its daemons were built with --enable-restricted-commands."""

    def Program(self, daemon: str) -> str:
        return _BUILT + super().Program(daemon)


class _EnabledCluster(RealCluster):
    node_class = _EnabledNode


def _Provide(node: RealNode, name: str, text: str, mode: int = 0o755) -> str:
    path = node.Write(f"{DIRECTORY}/{name}", f"#!/bin/sh\n{text}\n", mode)
    os.chmod(os.path.dirname(path), 0o755)
    return path


@pytest.fixture
def cluster() -> Iterator[RealCluster]:
    with _EnabledCluster(2, candidates=1) as made:
        made.StartNodeDaemons()
        made[0].StartMaster()
        yield made


def test_a_command_runs_by_its_name_alone(cluster: RealCluster) -> None:
    for node in cluster.nodes:
        _Provide(
            node, "look", 'echo "on $(pwd) with $# arguments"; env | grep -v "^\\(PWD\\|SHLVL\\|_\\)="; echo more >&2'
        )
    _Provide(cluster[1], "broken", "echo disk full; exit 4")
    with CommandLine(cluster[0]) as line:
        done = line.Run("gnt-node", "restricted-command", "-M", "-g", "default", "look")
        assert done.code == 0, done.err
        rule = "-" * 48
        assert done.out == "".join(
            f"{rule}\n{node.name}: on / with 0 arguments\n{node.name}: more\n" for node in cluster.nodes
        ), "nothing of the daemon's environment"
        done = line.Run("gnt-node", "restricted-command", "broken", cluster[1].name)
        assert done.code == 1
        assert f"Command 'broken' on node '{cluster[1].name}' failed: Restricted command 'broken' failed" in done.out
        assert "exit code 4" in done.out and "disk full" in done.out


def test_whatever_is_wrong_is_answered_slowly_and_in_the_same_words(cluster: RealCluster) -> None:
    """Side by side, as each takes ten seconds; the reason stands in the node's log only."""
    node = cluster[1]
    ran = node.Path("/ran")
    outside = node.Write("/outside", f"#!/bin/sh\ntouch {ran}\n", 0o755)
    _Provide(node, "open", f"touch {ran}", 0o775)
    _Provide(node, "plain", f"touch {ran}", 0o644)
    os.symlink(outside, node.Path(f"{DIRECTORY}/link"))
    foreign = _Provide(node, "foreign", f"touch {ran}")
    os.chown(foreign, 65534, 65534)
    names = ["open", "plain", "link", "foreign", "missing", "../../../outside", "a b"]
    with cluster[0].Client() as client:
        started = time.monotonic()
        ids = [
            client.SubmitJob([{"OP_ID": "OP_RESTRICTED_COMMAND", "nodes": [node.name], "command": name, "reason": []}])
            for name in names
        ]
        for name, job_id in zip(names, ids, strict=True):
            info, serial = None, None
            while True:
                info, entries = client.WaitForJobChange(job_id, ["status"], info, serial)
                serial = max([entry[0] for entry in entries], default=serial)
                if info[0] in ("success", "error"):
                    break
            [[results]] = client.QueryJobs([job_id], ["opresult"])
            text = f"Command '{name}' on node '{node.name}' failed: Executing command '{name}' failed"
            assert results == [[[False, text]]]
        assert time.monotonic() - started >= 10
    assert not os.path.exists(ran)
    log = node.Log("ganeti-noded")
    for reason in ("has mode 775", "is not executable", "is not a regular file", "belongs to 65534:65534",
                   "No such file or directory", "not a plain name"):  # fmt: skip
        assert reason in log


def test_they_are_off_unless_built_in() -> None:
    with RealCluster(1) as plain:
        plain.StartNodeDaemons()
        plain[0].StartMaster()
        _Provide(plain[0], "look", f"touch {plain[0].Path('/ran')}")
        with CommandLine(plain[0]) as line:
            done = line.Run("gnt-node", "restricted-command", "look", plain[0].name)
        assert done.code == 1 and "Restricted commands disabled at configure time" in done.out
        assert not os.path.exists(plain[0].Path("/ran"))
