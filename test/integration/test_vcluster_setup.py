"""A virtual cluster made by vcluster-setup, by the words that it prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator

import pytest
from support import allocator
from support.patience import MOST
from support.virtualnode import TOP

PROGRAM = os.path.join(TOP, "daemons", "tools", "vcluster-setup")


@pytest.fixture
def place() -> Iterator[str]:
    """A directory with a short path; whatever daemons were started in it have ended."""
    folder = tempfile.mkdtemp(prefix="gnt-", dir="/tmp")
    yield folder
    if os.path.exists(f"{folder}/stop-all"):
        for options in ([], ["--abort-jobs"]):
            Run([f"{folder}/stop-all", *options])
    shutil.rmtree(folder)


def Run(argv: list[str] | str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, shell=isinstance(argv, str), capture_output=True, text=True, timeout=150 * MOST, stdin=subprocess.DEVNULL
    )


def Must(argv: list[str] | str) -> str:
    done = Run(argv)
    assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.limit(240)
def test_the_printed_words_make_a_cluster(place: str) -> None:
    lease = allocator.Lease()
    told = Must([PROGRAM, "-c", "3", "-i", "2", "-p", lease.prefix, place])
    printed = [line.strip() for line in told.splitlines() if line.startswith("  ")]
    with open(f"{place}/hosts", encoding="utf-8") as stream:
        hosts = dict(reversed(line.split()) for line in stream)
    assert hosts["cluster"] == f"{lease.prefix}.1" and hosts["node3"] == f"{lease.prefix}.12"
    assert hosts["instance2"] == f"{lease.prefix}.101" and len(hosts) == 1 + 3 + 2
    # Nodes of no cluster are left alone.
    assert Must([f"{place}/start-all"]) == ""
    for command in printed:
        Must(command)
    first = f"{place}/node1/cmd"
    assert Must([first, "gnt-node", "list", "--no-headers", "-o", "name,pip"]).split() == [
        "node1", hosts["node1"], "node2", hosts["node2"],
    ]  # fmt: skip
    # What runs, and that it comes back: the master daemon needs node2.
    assert Must([f"{place}/status-all"]).count(" runs") == 4 + 2
    Must([f"{place}/restart-all"])
    Must([f"{place}/watcher-all"])
    Must([first, "gnt-debug", "delay", "-n", "node2", "0.01"])
    # Again: another node, and nothing of the others is lost.
    Must([PROGRAM, "-c", "4", "-i", "2", "-p", lease.prefix, place])
    Must(next(command for command in printed if "show-join-data" in command).replace("node2", "node4"))
    Must([first, "gnt-node", "add", "--no-node-setup", "node4"])
    Must([f"{place}/stop-all"])
    assert " runs" not in Must([f"{place}/status-all"])
    lease.Release()


def test_addresses_go_to_the_device_in_question(place: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root makes networks")
    script = (
        "ip link add vc0 type veth peer name vc1 && ip link set vc0 up && "
        f"{PROGRAM} -c 2 -n vc0 {place} && {PROGRAM} -c 2 -n vc0 {place} >/dev/null &&"
        " ip -o -4 address show dev vc0 && ip route show dev vc0"
    )
    shown = Must(["unshare", "--net", "sh", "-c", script])
    assert shown.count("192.0.2.10/32") == shown.count("192.0.2.11/32") == 1
    assert "192.0.2.0/24" in shown and "192.0.2.12" not in shown
    # Neither addresses nor names.
    os.remove(f"{place}/hosts")
    done = Run(["unshare", "--net", PROGRAM, "-c", "2", "-E", "-N", place])
    assert done.returncode == 0 and "Give this machine the nodes' addresses, 192.0.2.10 to 192.0.2.11" in done.stderr
    assert not os.path.exists(f"{place}/hosts")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "One argument is expected"),
        (["-c", "91", "/tmp"], "91 nodes are not possible, 90 are the most"),
        (["-c", "0", "/tmp"], "0 nodes"),
        (["-i", "156", "/tmp"], "155 are the most"),
        (["-p", "192.0.2.1", "/tmp"], "is not the start of an IPv4 address"),
        (["-p", "192.0.256", "/tmp"], "is not the start of an IPv4 address"),
        (["/nonexistent"], "does not exist; create it"),
        (["-n", "nodev", "PLACE"], "Could not run 'ip address replace 192.0.2.10/32 dev nodev'"),
    ],
)
def test_wrong_use_is_explained(place: str, words: list[str], text: str) -> None:
    done = Run([PROGRAM, "-c", "1", *(place if word == "PLACE" else word for word in words)])
    assert done.returncode in (1, 2) and text in done.stderr
