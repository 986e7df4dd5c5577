"""ganeti-cleaner: what it removes, and what it leaves, as a node of its own directory."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated import World
from support.virtualnode import VirtualNode

from ganeti import runtime, x509
from ganeti.tools import cleaner

CODE = "import sys; from ganeti.tools.cleaner import Main; sys.argv[0] = 'ganeti-cleaner'; sys.exit(Main())"
DATA = "/var/lib/ganeti"
GROUP = "00000002-aaaa-4bbb-8ccc-000000000002"
DAY = 24 * 3600


@pytest.fixture
def node(tmp_path: Path) -> VirtualNode:
    made = VirtualNode(str(tmp_path))
    made.Write(f"{DATA}/ssconf_master_node", "node1.example.com\n")
    return made


def Clean(node: VirtualNode, *argv: str) -> subprocess.CompletedProcess[str]:
    return node.Python(CODE, *argv)


def File(node: VirtualNode, path: str, days: float = 0) -> str:
    full = node.Write(path, "x")
    then = time.time() - days * DAY
    os.utime(full, (then, then))
    return full


def Left(node: VirtualNode, folder: str) -> list[str]:
    top = node.Path(folder)
    return sorted(os.path.relpath(os.path.join(at, name), top) for at, _, names in os.walk(top) for name in names)


def Log(node: VirtualNode, folder: str = "cleaner") -> str:
    [name] = os.listdir(node.Path(f"/var/log/ganeti/{folder}"))
    return node.Read(f"/var/log/ganeti/{folder}/{name}")


def test_node_removes_watcher_files_of_groups_that_are_gone(node: VirtualNode) -> None:
    kept = [f"watcher.{GROUP}.data", "watcher.data", "watcher.pause", "config.data", "ssconf_master_node"]
    File(node, f"{DATA}/watcher.{GROUP}.data", 20.9)
    for name in kept[1:]:
        File(node, f"{DATA}/{name}", 100)
    for name in ("watcher.a-b-c-d.data", "watcher.a-b-c-d.instance-status", "watcher.a-b-c-d.volume-groups"):
        File(node, f"{DATA}/{name}", 21.1)
    os.mkdir(node.Path(f"{DATA}/watcher.e-f-g-h.data"))
    os.utime(node.Path(f"{DATA}/watcher.e-f-g-h.data"), (0, 0))
    done = Clean(node, "node")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert Left(node, DATA) == sorted(kept)
    assert os.path.isdir(node.Path(f"{DATA}/watcher.e-f-g-h.data"))
    assert "Removed 3 files that were not changed for 21 d" in Log(node)


def test_node_removes_keys_of_transfers_that_did_not_take_place(node: VirtualNode) -> None:
    for name, validity in (("x509-old", -10), ("x509-new", 3600), ("x509-used", -10)):
        _, certificate = x509.MakeSelfSigned("node1", validity, 1)
        node.Write(f"/var/run/ganeti/crypto/{name}/cert", certificate)
        node.Write(f"/var/run/ganeti/crypto/{name}/key", "k")
    node.Write("/var/run/ganeti/crypto/x509-used/other", "x")
    node.Write("/var/run/ganeti/crypto/x509-odd/cert", "no certificate")
    os.unlink(node.Path(f"{DATA}/ssconf_master_node"))
    File(node, f"{DATA}/watcher.a-b-c-d.data", 100)
    assert Clean(node, "node").returncode == 0
    assert Left(node, "/var/run/ganeti/crypto") == ["x509-new/cert", "x509-new/key", "x509-odd/cert", "x509-used/other"]
    # Without a cluster the other files are nobody's business.
    assert Left(node, DATA) == ["watcher.a-b-c-d.data"]


def test_master_removes_jobs_that_were_archived_long_ago(node: VirtualNode) -> None:
    archive = f"{DATA}/queue/archive"
    for path, days in {"0/job-1": 30, "0/job-2": 20, "1/deeper/job-3": 30, "job-4": 30}.items():
        File(node, f"{archive}/{path}", days)
    outside = File(node, "/outside/job-5", 30)
    os.symlink(os.path.dirname(outside), node.Path(f"{archive}/0/link"))
    # A link is nobody's old job, however old what it leads to is.
    os.symlink(outside, node.Path(f"{archive}/0/job-5"))
    File(node, f"{DATA}/queue/job-6", 30)
    assert Clean(node, "master").returncode == 0
    assert Left(node, archive) == ["0/job-2", "0/job-5", "job-4"]
    assert os.path.exists(outside) and os.path.exists(node.Path(f"{DATA}/queue/job-6"))
    assert "Removed 1 files" in Log(node, "master-cleaner")


def test_master_does_nothing_without_a_cluster(node: VirtualNode) -> None:
    os.unlink(node.Path(f"{DATA}/ssconf_master_node"))
    File(node, f"{DATA}/queue/archive/0/job-1", 30)
    assert Clean(node, "master").returncode == 0
    assert Left(node, f"{DATA}/queue/archive") == ["0/job-1"]


KILLED = """
import resource, signal, sys
from ganeti import runtime
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
runtime.WriteFile(sys.argv[1], "x" * 8192)
"""


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        ("node", f"{DATA}/config.data"),
        ("master", f"{DATA}/queue/job-7"),
        ("master", f"{DATA}/queue/archive/0/job-7"),
        ("master", f"{DATA}/queue/" + "n" * 240),
    ],
)
def test_what_a_killed_process_was_writing_is_removed_after_a_day(node: VirtualNode, mode: str, path: str) -> None:
    folder = os.path.dirname(path)
    File(node, path, 1.1)
    names = [
        f"{folder}/{name}"
        for name in (".config.data.new-abc", ".config.data.new-0123456789ab.bak", "job-7.new-0123456789ab", ".hidden")
    ]
    for name in names:
        File(node, name, 1.1)
    before = Left(node, folder)
    # The kernel ends a process that makes a file larger than it may.
    assert node.Python(KILLED, node.Path(path)).returncode == -signal.SIGXFSZ
    [unfinished] = set(Left(node, folder)) - set(before)
    assert os.path.getsize(node.Path(f"{folder}/{unfinished}")) == 4096
    File(node, f"{folder}/{unfinished}", 0.9)
    assert Clean(node, mode).returncode == 0
    assert Left(node, folder) == sorted([*before, unfinished])  # it may still be written
    File(node, f"{folder}/{unfinished}", 1.1)
    assert Clean(node, mode).returncode == 0
    assert Left(node, folder) == before
    assert node.Read(path) == "x"


def test_fifty_logs_are_kept(node: VirtualNode) -> None:
    folder = "/var/log/ganeti/cleaner"
    for number in range(60):
        File(node, f"{folder}/cleaner-2026-01-01T00_{number:02}.7.log", 60 - number)
    File(node, f"{folder}/notes.txt", 100)
    assert Clean(node, "node").returncode == 0
    left = Left(node, folder)
    assert len(left) == 51 and "notes.txt" in left
    assert "cleaner-2026-01-01T00_10.7.log" not in left and "cleaner-2026-01-01T00_11.7.log" in left


@pytest.mark.parametrize(
    ("argv", "code", "out"),
    [
        ([], 1, "Usage: ganeti-cleaner node|master\n"),
        (["both"], 1, "Usage: ganeti-cleaner node|master\n"),
        (["node", "master"], 1, "Usage: ganeti-cleaner node|master\n"),
        (["--help"], 0, "Usage: ganeti-cleaner node|master\n"),
        (["--help-completion"], 0, "choices=node,master 1 1\n"),
    ],
)
def test_command_line(node: VirtualNode, argv: list[str], code: int, out: str) -> None:
    done = Clean(node, *argv)
    assert (done.returncode, done.stdout, done.stderr) == (code, out, "")
    assert not os.path.exists(node.Path("/var/log/ganeti/cleaner"))


def test_what_cannot_be_removed_is_logged_and_fails_nothing(node: VirtualNode) -> None:
    node.Write("/var/log/ganeti/cleaner", "a file where the directory should be")
    assert Clean(node, "node").returncode == 0


def test_a_file_that_somebody_else_removes_meanwhile_ends_nothing() -> None:
    machine = World(1).AddMachine("node1")
    top = f"{DATA}/queue/archive"

    def story() -> list[str]:
        runtime.MakeDirs(f"{top}/0")
        for name in ("0/job-1", "0/job-2", "0/job-3"):
            runtime.WriteFile(f"{top}/{name}", "x")
        runtime.Sleep(30 * DAY)

        def paths() -> Iterator[str]:
            # The directory has been listed when the first file comes.
            for number, path in enumerate(cleaner._FilesBelow(top)):
                if number == 0:
                    runtime.RemoveFile(f"{top}/0/job-{1 if path.endswith('job-2') else 2}")
                yield path

        cleaner._RemoveOld(paths())
        return runtime.ListDir(f"{top}/0")

    assert machine.Call(story) == []
