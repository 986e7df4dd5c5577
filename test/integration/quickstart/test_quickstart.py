"""tools/quickstart as a newcomer runs it: real daemons, real commands, and nothing left of it afterwards."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from quickstart.place import BridgeName
from support.patience import MOST

TREE = Path(__file__).parents[3]
PROGRAM = TREE / "tools" / "quickstart"


def Quickstart(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=280 * MOST)


def Shell(base: str, command: str) -> str:
    """Run a command in a shell that evaluated what --env prints."""
    script = f'eval "$({PROGRAM} --env --base {base})" && {command}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120 * MOST)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


PLACES = (
    "/etc", "/etc/bash_completion.d", "/etc/default", "/etc/ganeti", "/usr/sbin", "/usr/lib", "/usr/share/man",
    "/usr/share/man/man8", "/usr/share/bash-completion/completions", "/var/lib", "/var/log", "/root",
)  # fmt: skip


def Elsewhere() -> dict[str, tuple[int, int]]:
    """What lies where an installation would write: each with its inode and the time when it was written."""
    found = {}
    for place in filter(os.path.isdir, PLACES):
        for entry in os.scandir(place):
            with contextlib.suppress(FileNotFoundError):
                info = entry.stat(follow_symlinks=False)
                found[entry.path] = (info.st_ino, info.st_mtime_ns)
    return found


def WrittenSince(before: dict[str, tuple[int, int]], base: str) -> list[str]:
    """What was written there of all that was installed in the base: others use this machine, too."""
    installed = {name for _, _, names in os.walk(f"{base}/inst") for name in names} | {"ganeti"}
    assert {"gnt-cluster", "gnt-node.8"} <= installed
    return [p for p, what in Elsewhere().items() if before.get(p) != what and os.path.basename(p) in installed]


def Tree() -> list[str]:
    """What lies in the tree.  Other tests that run beside this one keep hidden files there."""
    return sorted(name for name in os.listdir(TREE) if not name.startswith("."))


@pytest.fixture
def bases() -> Iterator[list[str]]:
    """Two base directories of this run's own; whatever happens, nothing of them is left."""
    names = [f"/tmp/gt{os.getpid()}{letter}" for letter in "ab"]
    yield names
    for name in names:
        assert Quickstart("--stop", "--base", name).returncode == 0
        assert not os.path.exists(name)
        assert BridgeName(name) not in os.listdir("/sys/class/net")


@pytest.mark.slow
def test_two_clusters_side_by_side(bases: list[str]) -> None:
    first, second = bases
    before, tree = Elsewhere(), Tree()
    done = Quickstart("--base", first, "--hypervisor", "fake", "--nodes", "2", "--instances", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gnt-instance migrate inst1 to node2" in done.stdout and "Ready after" in done.stdout
    assert done.stdout.rstrip().endswith(f"tools/quickstart --stop --base {first}")
    assert "gnt-cluster verify ... " in done.stdout
    assert (WrittenSince(before, first), Tree()) == ([], tree), "nothing outside the base was written"
    names = Shell(first, "COMP_WORDS=(gnt-node info '') COMP_CWORD=2; _gnt_node; echo ${COMPREPLY[*]}")
    assert names == "node1 node2\n", "completion knows this cluster's names"
    assert os.path.exists(f"{first}/inst/share/man/man8/gnt-node.8")
    assert Shell(first, 'echo "$MANPATH"').startswith(f"{first}/inst/share/man:")
    printed = next(line for line in done.stdout.splitlines() if line.lstrip().startswith("curl "))
    assert "see doc/rapi.rst" in printed and (TREE / "doc" / "rapi.rst").exists()
    features = subprocess.run(["bash", "-c", printed], capture_output=True, text=True, timeout=60 * MOST)
    assert "instance-create-reqv1" in features.stdout, features.stderr
    rows = Shell(first, "gnt-instance list --no-headers --separator=: -o name,pnode,status")
    assert rows == "inst1:node2:running\ninst2:node2:running\n"

    done = Quickstart("--base", second, "--hypervisor", "fake", "--nodes", "1", "--instances", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert Shell(second, "gnt-node list --no-headers -o name") == "node1\n"
    assert Shell(first, "gnt-node list --no-headers -o name") == "node1\nnode2\n"

    assert Quickstart("--stop", "--base", first).returncode == 0
    assert Shell(second, "gnt-cluster getmaster") == "node1\n", "the other one is still there"
    again = ["--base", second, "--hypervisor", "fake", "--nodes", "1", "--instances", "1"]
    done = Quickstart(*again)
    assert done.returncode == 1 and f"there is a cluster in {second}" in done.stderr
    assert Shell(second, "gnt-cluster getmaster") == "node1\n", "it was left alone"
    done = Quickstart("--replace", *again)
    assert done.returncode == 0, done.stdout + done.stderr
    assert Shell(second, "gnt-instance list --no-headers -o name") == "inst1\n"


@pytest.mark.slow
def test_directory_with_other_things_is_left_alone(bases: list[str]) -> None:
    os.makedirs(f"{bases[0]}/mine")
    try:
        done = Quickstart("--base", bases[0])
        assert done.returncode == 1 and "is not empty and was not made by quickstart" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        os.rmdir(f"{bases[0]}/mine")


@pytest.mark.lab
@pytest.mark.req("D20-DISK-09", "D20-DISK-10")
def test_real_guest_moves_while_it_runs(bases: list[str]) -> None:
    done = Quickstart("--base", bases[0])
    assert done.returncode == 0, done.stdout + done.stderr
    signs = re.findall(r"boot-id (\S+), up for (\d+) s", done.stdout)
    assert len(signs) == 2 and signs[0][0] == signs[1][0] and int(signs[1][1]) >= int(signs[0][1])
    base = bases[0]
    assert Shell(base, "gnt-instance list --no-headers -o pnode,status inst1").split() == ["node2", "running"]
    Shell(base, "gnt-instance shutdown inst1 && gnt-instance startup inst1 && gnt-instance reboot inst1")
    Shell(base, "gnt-instance remove -f --shutdown-timeout=1 inst1")
    assert not [path for path in Path(base, "shared").rglob("*") if path.is_file()], "its disk is gone"
