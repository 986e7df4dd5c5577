"""cfgshell: what is shown, what may be removed, what is saved."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest
from support import configs, oldconfigs
from support.virtualnode import VirtualNode

from ganeti import configfile, constants, serializer

CONFIG = "/var/lib/ganeti/config.data"
MAIN = "import sys; from ganeti.tools.cfgshell import Main; sys.exit(Main())"
WEB = "web.example.org"


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    node = VirtualNode(str(tmp_path), "node1.example.org")
    node.Write(CONFIG, configs.ExampleText(), 0o640)
    return node


def Shell(node: VirtualNode, *lines: str, file: str | None = None) -> list[str]:
    """What the shell prints, prompts left out."""
    done = node.Run(
        [sys.executable, "-c", MAIN, *([file] if file else [])], stdin="".join(f"{line}\n" for line in lines)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_nothing_is_loaded_unless_it_is_asked_for(node: VirtualNode) -> None:
    assert Shell(node, "ls", "", "frobnicate x") == [
        "(#no config) No config data loaded",
        "(#no config) (#no config) *** Unknown syntax: frobnicate x",
        "(#no config) ",
    ]


def test_a_walk(node: VirtualNode) -> None:
    text = "\n".join(Shell(node, "load", "cd ..", "ls", "cd instances", "ls", f"cd {WEB}", "pwd", "cat os", "cat x", "cd y", "cd /",
                           "cat version", "quit", "pwd"))  # fmt: skip
    assert "(/) Already at top level" in text
    assert "nodes/\n" in text
    assert f"(/instances) {WEB}/" in text
    assert f"(/instances/{WEB}) /instances/{WEB}\n" in text
    for answer in ("No such entry", "No such child", f"(/) {constants.CONFIG_VERSION}"):
        assert answer in text
    assert text.endswith("(/) ")  # quit: nothing is done any more


def test_an_instance_is_removed_with_its_disks_and_the_file_is_saved(node: VirtualNode) -> None:
    before = node.Read(CONFIG)
    full = node.Path(CONFIG)
    text = "\n".join(Shell(node, "cd cluster", "rm cluster_name", "cd ..", "cd instances", f"rm {WEB}", "rm nobody", "verify", "save",
                           file=full))  # fmt: skip
    assert "Can only delete instances and nodes" in text
    assert "No such entry" in text
    assert "Saved; the configuration as it was is in" in text
    root = configfile.LoadConfig(node.Read(CONFIG))
    assert WEB not in [item.name for item in root.instances.values()]
    assert configs.WEB_DISK not in root.disks
    assert stat.S_IMODE(os.stat(full).st_mode) == 0o640
    (copy,) = Path(full).parent.glob("config.data.backup-*")
    assert copy.read_text() == before


def test_what_does_not_verify_is_not_saved(node: VirtualNode) -> None:
    before = node.Read(CONFIG)
    text = "\n".join(Shell(node, "load", "cd nodes", "rm node1.example.org", "save"))
    assert "Not saved, the configuration has problems:" in text
    assert "master_node" in text
    assert node.Read(CONFIG) == before


def test_the_clusters_own_file_is_not_saved_while_a_daemon_runs(node: VirtualNode) -> None:
    before = node.Read(CONFIG)
    done = node.Python(
        "import io, sys; from ganeti import constants; from ganeti.daemon import pidfile\n"
        "lock = pidfile.Lock(constants.NODED)\n"
        "from ganeti.tools import cfgshell\n"
        "shell = cfgshell.Shell()\n"
        f"for line in ('load', 'cd instances', 'rm {WEB}', 'save'): shell.Do(line)"
    )
    assert "ganeti-noded is running" in done.stdout
    assert node.Read(CONFIG) == before


def test_a_file_of_an_older_release_is_shown_and_keeps_its_version(node: VirtualNode) -> None:
    node.Write("/old", serializer.Dump(oldconfigs.Aged("2.6")))
    text = "\n".join(Shell(node, f"load {node.Path('/old')}", "cd instances", "ls", "save"))
    assert f"(/instances) {WEB}/" in text
    assert serializer.Load(node.Read("/old"))["version"] == 2060000
    node.Write("/rubbish", "[1]")
    assert "holds no JSON object" in "\n".join(Shell(node, f"load {node.Path('/rubbish')}"))
    assert "No such file" in "\n".join(Shell(node, "load /nowhere"))
